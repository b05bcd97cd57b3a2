/* CRC-32C (Castagnoli), reflected: the checksum of records on disk. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Goes on with a sum. Begins at ~0u; the sum is the complement of what comes of the last. */
uint32_t kr_crc32c_add(uint32_t crc, const void *data, size_t len);
/* The same without the processor's instruction: where there is none, and for the tests. */
uint32_t kr_crc32c_add_plain(uint32_t crc, const void *data, size_t len);

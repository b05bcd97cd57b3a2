/* FNV-1a, for tables whose keys are bounded or random: an attacker who chooses keys gains at worst a walk through a
 * small table. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define KR_HASH_START 2166136261u

/* Goes on with a hash by these bytes; the first call gets KR_HASH_START. */
uint32_t kr_hash(uint32_t hash, const void *data, size_t len);
uint32_t kr_hash_text(uint32_t hash, const char *text);

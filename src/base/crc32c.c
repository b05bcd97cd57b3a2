/* Called by the run logs. Written here because zlib's CRC-32 is another, and Debian's libcrc32c would bring the C++
 * library with it. */
#include "crc32c.h"
#include <string.h>

/* By nibbles: 16 entries stay in the cache of a thread that has other work. */
uint32_t kr_crc32c_add_plain(uint32_t crc, const void *data, size_t len)
{
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    const unsigned char *at = data;

    for (; len > 0; len--, at++) {
        crc = table[(crc ^ *at) & 15] ^ (crc >> 4);
        crc = table[(crc ^ (uint32_t)(*at >> 4)) & 15] ^ (crc >> 4);
    }
    return crc;
}

#ifdef __x86_64__
/* By the processor's own instruction, thirty times as fast. */
__attribute__((target("sse4.2"))) static uint32_t by_machine(uint32_t crc, const unsigned char *at, size_t len)
{
    uint64_t word, wide = crc;

    for (; len >= sizeof word; len -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    for (crc = (uint32_t)wide; len > 0; len--)
        crc = __builtin_ia32_crc32qi(crc, *at++);
    return crc;
}
#endif

uint32_t kr_crc32c_add(uint32_t crc, const void *data, size_t len)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return by_machine(crc, data, len);
#endif
    return kr_crc32c_add_plain(crc, data, len);
}

/* SHA-1 of FIPS 180-4. Called by ws_handshake.c. */
#include "sha1.h"
#include <stdint.h>
#include <string.h>

#define BLOCK 64u

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

static void load_words(const unsigned char *block, uint32_t w[80])
{
    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (unsigned i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
}

static void take_block(uint32_t h[5], const unsigned char *block)
{
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

    load_words(block, w);
    for (unsigned i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? (b & c) | (~b & d)
                     : i < 40 ? b ^ c ^ d
                     : i < 60 ? (b & c) | (b & d) | (c & d)
                              : b ^ c ^ d;
        uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
        uint32_t t = rotate(a, 5) + f + e + k + w[i];

        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = t;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

void kr_sha1(const void *data, size_t len, unsigned char ret[KR_SHA1_BYTES])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const unsigned char *p = data;
    unsigned char last[2 * BLOCK] = {0};
    size_t rest = len % BLOCK, end = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;

    for (size_t i = 0; i + BLOCK <= len; i += BLOCK)
        take_block(h, p + i);
    if (rest > 0)
        memcpy(last, p + len - rest, rest);
    last[rest] = 0x80;
    for (unsigned i = 0; i < 8; i++)
        last[end - 1 - i] = (unsigned char)((uint64_t)len * 8 >> 8 * i);
    for (size_t i = 0; i < end; i += BLOCK)
        take_block(h, last + i);
    for (unsigned i = 0; i < KR_SHA1_BYTES; i++)
        ret[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}

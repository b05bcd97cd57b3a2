/* SHA-1, for the handshake of WebSockets, which proves nothing but that both ends speak it. For nothing else. */
#pragma once
#include <stddef.h>

#define KR_SHA1_BYTES 20u

void kr_sha1(const void *data, size_t len, unsigned char ret[KR_SHA1_BYTES]);

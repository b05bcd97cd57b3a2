/* The key that a request shows: taken from the three ways to send it, not judged. No key ever gets into a log from
 * here. */
#pragma once
#include <stddef.h>

struct kr_http_ex;

#define KR_CREDENTIAL_MAX 256u /* characters, as of the configured key */

enum kr_credential_state {
    KR_CREDENTIAL_NONE,
    KR_CREDENTIAL_ONE,   /* text */
    KR_CREDENTIAL_ODD,   /* there is one, but no key looks like that: too long, or not visible ASCII */
    KR_CREDENTIAL_CLASH, /* two that differ */
};

struct kr_credential {
    enum kr_credential_state state;
    char text[KR_CREDENTIAL_MAX + 1]; /* wiped by kr_credential_done() */
};

/* Of a handshake of a WebSocket: `Sec-WebSocket-Protocol: krait.terminal, krait.key.BASE64URL`. */
#define KR_CREDENTIAL_PROTOCOL "krait.key."

/* `Authorization: Bearer KEY` (another scheme is not ours: as if absent), `X-API-Key: KEY`, `?api_key=KEY`, and the key
 * among subprotocols. The same key that is sent in several ways is one; an empty one is none. */
void kr_credential_read(const struct kr_http_ex *ex, struct kr_credential *ret);
void kr_credential_done(struct kr_credential *c);
#define cleanup_credential __attribute__((cleanup(kr_credential_done)))

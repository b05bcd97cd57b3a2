/* Addresses of the web: read strictly, one spelling each, so that what is judged is what is connected to. Pure. */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KR_WEB_HOST_ROOM 256
#define KR_WEB_TARGET_ROOM 2048
#define KR_WEB_TEXT_ROOM (KR_WEB_TARGET_ROOM + KR_WEB_HOST_ROOM + 24)
#define KR_WEB_USER_ROOM 256

struct kr_web_address {
    bool tls; /* https */
    bool v6;  /* host is an IPv6 address: written in brackets */
    uint16_t port;
    char host[KR_WEB_HOST_ROOM];     /* lower case, without a last dot, without brackets */
    char target[KR_WEB_TARGET_ROOM]; /* path and query as they are sent, never empty; dots resolved, no fragment */
};

/* Reads "http://…" or "https://…". Refused (-EINVAL, err says why): userinfo, control characters, blanks, '\', bytes
 * beyond ASCII, '"', '<', '>', a host that is no name or address, port 0, what is too long. A fragment is left out. */
int kr_web_address_parse(const char *text, size_t len, struct kr_web_address *ret, struct kr_err *err);
/* The same for a reference in a document at `base` (RFC 3986 5.2): a link, a Location. */
int kr_web_address_join(const struct kr_web_address *base, const char *ref, size_t len, struct kr_web_address *ret,
                        struct kr_err *err);
/* The address as text; its own port is left out. Returns buf; KR_WEB_TEXT_ROOM is always enough. */
const char *kr_web_address_text(const struct kr_web_address *a, char *buf, size_t size);
/* "host[:port]" as the field Host and as the authority have it; a scheme's own port is left out. */
const char *kr_web_address_host(const struct kr_web_address *a, char *buf, size_t size);
/* Same scheme, host and port. */
bool kr_web_address_same_origin(const struct kr_web_address *a, const struct kr_web_address *b);
/* The last part of the path, decoded, as a file's name; "" where it is none ('/', a control character, ".", ".."). */
const char *kr_web_address_name(const struct kr_web_address *a, char *buf, size_t size);
/* Takes "user:password@" out of the text of an address: *ret_user and *ret_password are decoded, or "" where there is
 * none. The rest goes to `rest`. 0, or -EINVAL. */
int kr_web_address_split_user(const char *text, char *rest, size_t size, char ret_user[KR_WEB_USER_ROOM],
                              char ret_password[KR_WEB_USER_ROOM]);

/* The strict parser of the first thing a TLS client says: pure, no I/O, no memory of its own. Called by eg_tunnel.c and
 * the fuzzer.
 *
 * RFC 8446 4.1.2 and RFC 6066 3, with every choice taken the strict way: lengths that fill what holds them, one name of
 * one kind, in letters, digits, hyphens and underscores. Any doubt is -EBADMSG: two readers must not see two names. */
#pragma once
#include "address.h"
#include <stdbool.h>
#include <stddef.h>

#define KR_EG_HELLO_MAX 16384u /* bytes of records that a ClientHello may take */

struct kr_eg_hello {
    char name[KR_EG_HOST_ROOM]; /* lower case; "": it names none */
    bool hidden;                /* it carries another, encrypted ClientHello (ECH), or pretends to */
};

/* Whether a connection that begins so is one of TLS: looks at one byte. */
bool kr_eg_hello_begins(const char *bytes, size_t len);
/* > 0: it is whole and so long, *ret is filled. 0: more bytes are needed. -EBADMSG: it is none, or a wrong one. What is
 * returned depends on the bytes alone, never on the pieces they came in. */
int kr_eg_hello_parse(const char *bytes, size_t len, struct kr_eg_hello *ret);

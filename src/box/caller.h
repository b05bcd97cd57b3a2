/* Who asks: made by the voice that authenticated the request. Texts are borrowed for the call. */
#pragma once
#include <stdint.h>

struct kr_profile;

struct kr_caller {
    const char *user;    /* a user's id (src/store) */
    unsigned rights;     /* enum kr_right bits: what both the key and its user have */
    const char *address; /* of the peer, "" if there is none */
    const char *request; /* the request's id, "" if there is none */
    /* Of the listener or MCP peer that the request came by; lives as long as the server. NULL: the server's own. */
    const struct kr_profile *profile;
};

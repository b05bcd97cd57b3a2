/* Requests that the egress process makes itself: one GET or HEAD, with the redirects that follow from it. Loop thread
 * only. */
#pragma once
#include "dial.h"
#include "err.h"
#include "web_address.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_eg;
struct kr_eg_get;
struct kr_eg_tls_trust;

#define KR_EG_TYPE_ROOM 256
#define KR_EG_RANGE_ROOM 64
#define KR_EG_REDIRECTS_MAX 10u

/* One request of it: each redirect is another one. */
struct kr_eg_hop {
    uint64_t at_us, ms;
    struct kr_web_address url;
    char address[KR_EG_ADDRESS_ROOM]; /* "" if it did not come to that */
    uint64_t sent, received;          /* bytes of HTTP */
    unsigned status;                  /* of the answer; 0: none came */
    enum kr_eg_verdict verdict;
    const char *why; /* "" of OK */
};

/* The answer that is no redirect. */
struct kr_eg_reply {
    const struct kr_web_address *url; /* after redirects */
    unsigned status;
    int64_t length;               /* -1: not told */
    char type[KR_EG_TYPE_ROOM];   /* Content-Type, or "" */
    char name[KR_EG_TYPE_ROOM];   /* of Content-Disposition, or "" */
    bool encoded;                 /* compressed, although we do not ask for that */
    bool ranges;                  /* parts of it may be asked for */
    char range[KR_EG_RANGE_ROOM]; /* of 206: Content-Range, "bytes 0-99/1000"; else "" */
};

struct kr_eg_get_calls {
    /* May this be asked? 0, and *ret_trusted may be set (the administrator named the host); or negative with err: the
     * request ends as DENIED, or as LIMIT if the kind of err is KR_ERR_LIMIT. */
    int (*judge)(void *data, const struct kr_web_address *url, bool *ret_trusted, struct kr_err *err);
    /* Negative with err: ends, as FAILED or by the kind of err. */
    int (*on_reply)(void *data, const struct kr_eg_reply *reply, struct kr_err *err);
    int (*on_body)(void *data, const char *bytes, size_t len, struct kr_err *err);
    /* A request has ended; may be NULL. */
    void (*on_hop)(void *data, const struct kr_eg_hop *hop);
    /* Bytes have been moved. Negative with err: ends. May be NULL. */
    int (*on_moved)(void *data, uint64_t sent, uint64_t received, struct kr_err *err);
    /* Once, from the loop; `why` is "" of OK, which means that the body is whole. The get is gone. `status` is what to
     * answer with: of HTTP, 200 to 599. */
    void (*on_end)(void *data, enum kr_eg_verdict verdict, unsigned status, const char *why);
};

struct kr_eg_get_ask {
    const struct kr_eg_tls_trust *trust;
    const struct kr_web_address *url;
    bool head;                 /* HEAD, else GET */
    const char *accept;        /* or NULL: anything */
    const char *range;         /* "bytes=0-99", or NULL: all of it */
    const char *authorization; /* value of the field, for the origin of `authorized` alone; or NULL */
    const struct kr_web_address *authorized;
    const char *sandbox;          /* id, or "" */
    uint64_t timeout_ms, idle_ms; /* of all of it; without a byte */
    const char *timeout_what;     /* "the index": who was too slow */
};

/* 0 and on_end comes, from the loop, within timeout_ms; or -errno. All is copied but the trust. */
int kr_eg_get_start(struct kr_eg *eg, const struct kr_eg_get_ask *ask, const struct kr_eg_get_calls *calls, void *data,
                    struct kr_eg_get **ret_get);
/* No on_body while it is paused, but for what was read already, and idle time is not counted. */
void kr_eg_get_pause(struct kr_eg_get *g, bool pause);
/* No call comes any more, but for on_hop, at once, if a request was under way. Takes NULL. A callback that cancels
 * returns a negative number. */
void kr_eg_get_cancel(struct kr_eg_get *g);

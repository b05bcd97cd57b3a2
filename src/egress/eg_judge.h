/* What a request asks for, and whether it may have it: target, Host and rule held against each other. Pure. */
#pragma once
#include "egress_internal.h"

struct kr_eg_refusal {
    unsigned status;
    enum kr_eg_verdict verdict;
    char why[KR_EG_WHY_ROOM];
};

/* "NAME", "NAME:PORT", "[ADDRESS]:PORT": the host in the one spelling that rules, rows and servers see (lower case, no
 * last dot, addresses as RFC 5952 has them). *port stays what it was where none is given. 0 or -EINVAL. */
int kr_eg_authority_read(const char *text, size_t len, char host[KR_EG_HOST_ROOM], uint16_t *port);
/* Fills c->req and c->target from the head in c->head, which c->req.head is of. 0, or -EINVAL with what to answer. */
int kr_eg_request_read(struct kr_eg_conn *c, struct kr_eg_refusal *ret_refusal);
/* Whether the cell's rule allows the request. */
bool kr_eg_request_allowed(const struct kr_eg_conn *c, struct kr_eg_refusal *ret_refusal);
/* Fills a refusal; -EINVAL. */
int kr_eg_refusal_set(struct kr_eg_refusal *r, unsigned status, enum kr_eg_verdict verdict, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The first field of this name (lower case), or NULL. */
const struct kr_http_field *kr_eg_head_field(const char *bytes, const struct kr_http_head *h, const char *name);

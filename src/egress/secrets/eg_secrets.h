/* The secrets of a cell, as E_CELL has them: which go to a host, and what is covered in its replies.
 *
 * They are shared: a request keeps those that it began with, also when its cell is given others meanwhile. */
#pragma once
#include "secret_mask.h"
#include "secret_put.h"
#include "secret_terms.h"
#include <jansson.h>

#define KR_EG_SECRETS_TEXT_ROOM (KR_SECRETS_MAX * (KR_SECRET_NAME_MAX + 1)) /* their names, by comma */

struct kr_eg_secrets;

/* Reads the member "secrets" of a cell; NULL, null and an empty list are none: *ret is NULL. The strings of values are
 * wiped. 0, -EINVAL or -ENOMEM. */
int kr_eg_secrets_read(json_t *list, struct kr_eg_secrets **ret_secrets);
/* Takes NULL. */
void kr_eg_secrets_unref(struct kr_eg_secrets *s);

/* Those of one request. */
struct kr_eg_bound {
    struct kr_eg_secrets *all; /* a reference; NULL: none is bound to the host */
    struct kr_secret_pair pairs[KR_SECRETS_MAX];
    const char *names[KR_SECRETS_MAX];
    size_t count;
    struct kr_secret_mask *mask;
};
/* Whether a secret is bound to this host, over TLS or plain. Takes NULL. */
bool kr_eg_secrets_are_for(const struct kr_eg_secrets *s, const char *host, uint16_t port, bool tls);
/* Fills what holds for a request; nothing if no secret is bound to the host. 0 or -ENOMEM. */
int kr_eg_bound_open(struct kr_eg_secrets *s, const char *host, uint16_t port, bool tls, struct kr_eg_bound *ret_bound);
void kr_eg_bound_close(struct kr_eg_bound *b);
/* The names of those in `used`, by comma. */
void kr_eg_bound_names(const struct kr_eg_bound *b, uint32_t used, char *buf, size_t size);

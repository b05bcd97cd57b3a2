/* Fetches for the server itself: KR_E_FETCH to KR_E_FETCHED (docs/design/egress.md). Loop thread only. */
#pragma once
#include <jansson.h>
#include <stdint.h>

struct kr_eg;
struct kr_eg_fetches;
struct kr_eg_index;
struct kr_eg_tls_trust;

/* Index and trust are borrowed. 0 or -ENOMEM. */
int kr_eg_fetches_new(struct kr_eg *eg, struct kr_eg_index *index, const struct kr_eg_tls_trust *trust,
                      struct kr_eg_fetches **ret_fetches);
/* Ends them all without a word. Takes NULL. */
void kr_eg_fetches_free(struct kr_eg_fetches *f);
/* Ends with a KR_E_FETCHED, also if `ask` is wrong. `file` becomes the callee's. */
void kr_eg_fetch_start(struct kr_eg_fetches *f, uint32_t id, const json_t *ask, int file);
/* It ends, and says so. */
void kr_eg_fetch_cancel(struct kr_eg_fetches *f, uint32_t id);

/* How often something may fail: so many times at once, one more after every interval. A fixed table, no allocation
 * after it is made; keys are texts (an address, a user's name), of which only a keyed hash is kept.
 *
 * When the table is full the row with the least on its account makes room, so that a client with many addresses
 * forgets small sins of others and none of the great ones. Pure but for the memory: the caller says what time it is. */
#pragma once
#include <stdint.h>

struct kr_throttle;

/* *ret to be freed. `burst` failures are free, then one per interval. 0 or -ENOMEM. */
int kr_throttle_new(unsigned burst, uint64_t interval_ns, struct kr_throttle **ret);
void kr_throttle_free(struct kr_throttle *t);

/* How long until the next attempt of this key is allowed, in nanoseconds; 0: now. */
uint64_t kr_throttle_wait(const struct kr_throttle *t, const char *key, uint64_t now_ns);
/* It failed once more. Returns as kr_throttle_wait() would now. */
uint64_t kr_throttle_fail(struct kr_throttle *t, const char *key, uint64_t now_ns);

/* The network an address is throttled as: an IPv4 address itself, of an IPv6 address its first 64 bits (one customer
 * has them all); anything else ("unix") as it is. Returns buf. */
#define KR_THROTTLE_KEY_ROOM 48
const char *kr_throttle_network(const char *address, char buf[KR_THROTTLE_KEY_ROOM]);

/* From a name to a connected socket: resolve, check every address, connect to exactly a checked one. Loop thread only;
 * names are resolved on the thread pool. */
#pragma once
#include "address.h"
#include "words.h"
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_eg;
struct kr_eg_dial;

/* How something of the egress process ended: the words of rows ("verdict") and of fetches ("error"). */
enum kr_eg_verdict { KR_EG_OK, KR_EG_DENIED, KR_EG_FAILED, KR_EG_LIMIT, KR_EG_TIMEOUT, KR_EG_VERDICT_MAX_ };
extern const char *const kr_eg_verdict_names[KR_EG_VERDICT_MAX_];

#define KR_EG_WHY_ROOM 240
#define KR_EG_ADDRESS_ROOM INET6_ADDRSTRLEN

struct kr_eg_dial_end {
    enum kr_eg_verdict verdict;
    int fd;                           /* OK: a connected, nonblocking socket, the callee's; else -1 */
    unsigned status;                  /* not OK: of HTTP, to answer with: 403, 429, 502, 504 */
    char address[KR_EG_ADDRESS_ROOM]; /* that was connected to or refused; "" if there is none */
    char why[KR_EG_WHY_ROOM];         /* not OK: one sentence without its dot */
};
/* Once. The dial is gone when it is called. */
typedef void kr_eg_dial_fn(void *data, const struct kr_eg_dial_end *end);

struct kr_eg_dial_ask {
    const char *host; /* a name, or an address without brackets */
    uint16_t port;
    const char *sandbox; /* id: whose turn it is with lookups; "" for the server's own */
    bool trusted;        /* the administrator named this host (the index): addresses are not checked */
};
/* 0 and on_end comes, from the loop, within resolve_ms + connect_ms; or -ENOMEM. */
int kr_eg_dial_start(struct kr_eg *eg, const struct kr_eg_dial_ask *ask, kr_eg_dial_fn *on_end, void *data,
                     struct kr_eg_dial **ret_dial);
/* on_end does not come any more. Takes NULL. */
void kr_eg_dial_cancel(struct kr_eg_dial *d);

/* Bounds what the kernel keeps for a socket in both directions, in place of buffers that grow by themselves, to tens of
 * MiB where a client does not read. */
void kr_eg_bound_buffers(int fd);

/* Is it one of the words "NAME[:PORT]"? `host` in lower case; an address of IPv6 without brackets. */
bool kr_eg_words_have_host(const struct kr_words *words, const char *host, uint16_t port);

/* The engine's end of the control socket: questions with deadlines, orders without an answer, events. */
#pragma once
#include "err.h"
#include "proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_wc;
struct uv_loop_s;

#define KR_WC_DEADLINE_MS 10000u
#define KR_WC_GONE "the warden is gone" /* the error text of every -EPIPE from here */

struct kr_wc_calls {
    /* The callee takes the descriptors it sets to -1. */
    void (*on_hello)(void *data, const struct kr_w_hello *hello, int *fds, unsigned nfds);
    void (*on_zygote)(void *data, const struct kr_w_zygote *zygote);
    void (*on_ended)(void *data, const struct kr_w_ended *ended);
    void (*on_egress)(void *data, int *fd); /* as those of on_hello */
    /* The warden is gone or broke the protocol. Once, from the loop; every question was answered with the same error
     * before it. */
    void (*on_gone)(void *data, const struct kr_err *err);
};

struct kr_wc_answer {
    int r; /* 0, or -errno with err */
    const struct kr_err *err;
    const void *payload; /* of the answer's type */
    int *fds;            /* the callee takes those it sets to -1; the rest is closed */
    unsigned nfds;
};
typedef void kr_wc_fn(void *data, const struct kr_wc_answer *answer);

/* Takes the socket. 0 or -errno. */
int kr_wc_new(struct uv_loop_s *loop, int control, const struct kr_wc_calls *calls, void *data, struct kr_wc **ret_wc);
/* No callback comes after it. */
void kr_wc_close(struct kr_wc *wc);

/* Asks (OPEN, START, STAT, SHELF). fn is called exactly once, from the loop, never from here: with the answer, the
 * warden's error, or -ETIMEDOUT. 0 and an id for kr_wc_forget(), or -errno (-EPIPE: KR_WC_GONE) and fn is never
 * called. */
int kr_wc_ask(struct kr_wc *wc, uint16_t type, const void *payload, size_t len, kr_wc_fn *fn, void *data,
              uint32_t *ret_id);
/* fn will not be called any more; a cell that an OPEN still brings is killed. id 0 is nothing. */
void kr_wc_forget(struct kr_wc *wc, uint32_t id);
/* Whether every frame that the warden has sent until now was handled. */
bool kr_wc_is_silent(const struct kr_wc *wc);
/* Orders without an answer. */
int kr_wc_wake(struct kr_wc *wc, uint32_t zygote);
int kr_wc_preload(struct kr_wc *wc, uint32_t zygote, const char *folder);
int kr_wc_signal(struct kr_wc *wc, uint64_t cell, uint64_t since_ns, int signo);
int kr_wc_pace(struct kr_wc *wc, uint64_t cell, enum kr_pace pace);
int kr_wc_kill(struct kr_wc *wc, uint64_t cell);

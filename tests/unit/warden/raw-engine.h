/* An engine that is a test's own function: it speaks raw frames to a warden and answers with its exit status. What went
 * wrong it says on stderr. */
#pragma once
#include "clock.h"
#include "frame.h"
#include "proto.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS 60000
#define QUIET_MS 300

static int groups[KR_HIERARCHIES_MAX]; /* the folders of HELLO */
static unsigned group_count;
static int channel = -1;  /* of the last session */
static int listener = -1; /* likewise, -1: it has none */
static int outlet = -1;   /* the last egress process's */

union payload {
    struct kr_w_zygote zygote;
    struct kr_w_opened opened;
    struct kr_w_ended ended;
    struct kr_w_shelved shelved;
    struct kr_err err;
    char room[KR_FRAME_CONTROL_MAX];
};

/* In the engine: a wrong answer is its end. */
#define MUST(cond)                                                                                                     \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            fprintf(stderr, "engine: %s:%d: %s\n", __FILE__, __LINE__, #cond);                                         \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static inline void tell(int control, uint16_t type, uint32_t id, const void *payload, size_t len)
{
    MUST(kr_frame_send(control, type, id, payload, len, NULL, 0) == 0);
}

static inline int hear(int control, union payload *p, struct kr_frame *f, unsigned ms)
{
    int fds[KR_FRAME_FDS_MAX];
    struct kr_err err;
    int r = kr_frame_recv(control, f, p, sizeof *p, fds, kr_clock_after_ms(ms), &err);

    for (unsigned i = 0; r >= 0 && i < f->nfds; i++)
        if (f->type == KR_W_HELLO && group_count < KR_HIERARCHIES_MAX)
            groups[group_count++] = fds[i];
        else if (f->type == KR_W_OPENED && i == 0)
            channel = fds[i];
        else if (f->type == KR_W_OPENED && (p->opened.flags & KR_OPENED_LISTENER) && i + 1 == f->nfds)
            listener = fds[i];
        else if (f->type == KR_W_EGRESS)
            outlet = fds[i];
        else
            close(fds[i]);
    return r;
}

static inline void expect(int control, uint16_t type, union payload *p)
{
    struct kr_frame f;

    MUST(hear(control, p, &f, WAIT_MS) == 0);
    if (f.type != type)
        fprintf(stderr, "engine: %s instead of %s: %.100s\n", kr_frame_types[f.type].name, kr_frame_types[type].name,
                f.type == KR_W_FAILED ? p->err.msg : "");
    MUST(f.type == type);
}

static inline void expect_quiet(int control)
{
    union payload p;
    struct kr_frame f;

    MUST(hear(control, &p, &f, QUIET_MS) == -ETIMEDOUT);
}

static inline void expect_zygote(int control, enum kr_zygote_state state, union payload *p)
{
    expect(control, KR_W_ZYGOTE, p);
    MUST(p->zygote.state == (uint32_t)state);
}

static inline void wake(int control, uint32_t zygote)
{
    struct kr_w_wake w = {.zygote = zygote};

    tell(control, KR_W_WAKE, 0, &w, sizeof w);
}

static inline void ask_open_with(int control, enum kr_net_kind network, uint64_t owner)
{
    struct kr_w_open o = {.workspace = KR_WORKSPACE_NONE, .network = network, .flags = KR_OPEN_PARK, .owner = owner};

    kr_limits_default(&o.limits);
    tell(control, KR_W_OPEN, 7, &o, sizeof o);
}

static inline void ask_open_for(int control, uint64_t owner)
{
    ask_open_with(control, KR_NET_NONE, owner);
}

static inline void ask_open(int control)
{
    ask_open_for(control, 0);
}

static inline void ask_shelf(int control, uint32_t id, enum kr_shelf_op op, const char *name, uint64_t bytes)
{
    struct kr_w_shelf q = {.op = op, .bytes = bytes};

    memcpy(q.name, name, strlen(name));
    tell(control, KR_W_SHELF, id, &q, sizeof q);
}

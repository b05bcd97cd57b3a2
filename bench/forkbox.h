/* The warden's own pieces (cgroups, builder, cells, inits) around the bench's zygotes: what layers.c measures with. */
#pragma once
#include "warden_internal.h"

/* A child of the bench's zygote. */
struct kr_bench_child {
    struct kr_cell *cell; /* NULL: none */
    uint64_t id;
    struct kr_group group;
    unsigned layers;
    int32_t pid;   /* as the zygote sees it; 0 until FORKED */
    int out;       /* its stdout, our end */
    int channel;   /* our end */
    int theirs[4]; /* channel, stdout, stderr, stdin */
    int pidfd;
};

/* Sets the warden up (without an engine) and starts a family for each zygote of w->config; waits until all are
 * ready. */
int kr_bench_open(struct kr_warden *w, struct kr_err *err);
void kr_bench_close(struct kr_warden *w);
struct kr_family *kr_bench_family(struct kr_warden *w, const char *preload);

/* Everything that is there before a request: pipes, the ready cell or the cgroup. */
int kr_bench_prepare(struct kr_family *f, unsigned layers, struct kr_bench_child *ret, struct kr_err *err);
/* The request. With KR_BENCH_CGROUP it returns when the child is attached and may go, else at once. */
int kr_bench_fork(struct kr_family *f, struct kr_bench_child *c, struct kr_err *err);
/* One frame of the zygote: FORKED or EXIT. 1: some child named pid has ended with *ret_status, 0: FORKED taken for c
 * (may be NULL). */
int kr_bench_hear(struct kr_family *f, struct kr_bench_child *c, int32_t *ret_pid, int *ret_status, struct kr_err *err);
/* After its end: cell, cgroup and descriptors go. */
int kr_bench_finish(struct kr_family *f, struct kr_bench_child *c, struct kr_err *err);

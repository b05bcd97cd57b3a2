/* What watch.c and outq.c of this folder share. Not for other folders. */
#pragma once
#include "loop.h"
#include <uv.h>

struct kr_watch {
    uv_poll_t poll;
    int fd;
    int wanted; /* UV_READABLE | UV_WRITABLE */
    bool closed;
    struct kr_watch_calls calls;
    void *data;
    struct kr_outq *outq; /* on the write side, instead of calls.on_writable; freed with the watch */
};

void kr_outq_on_writable(struct kr_outq *q);
void kr_outq_free(struct kr_outq *q);

/* What bench-http's files share: the server under measurement and requests to it. */
#pragma once
#include "samples.h"
#include <stddef.h>

#define KR_BENCH_INFLIGHT_MAX 64

struct kr_bench_server {
    char *krait;
    int port;
    char data[64]; /* its data directory */
    char key[128]; /* of the user that sends the requests; "": without a key */
};
extern struct kr_bench_server kr_bench_server;

/* A connection, or -1. */
int kr_bench_dial(void);
/* POSTs a JSON body. 0 or -1. */
int kr_bench_post(int fd, const char *path, const char *body);

/* ---- http_load.c: NULL, or why it cannot be ---- */

/* Makes a user and a key; `as` holds the key from then on. */
const char *kr_bench_user(const char *name);
const char *kr_bench_as(const char *name);
/* Processes that run bombs over and over as the user who asks now, and their end. Takes none, too. */
const char *kr_bench_bombs(void);
void kr_bench_bombs_end(void);
/* Opens so many sessions more, that then lie idle; adds `elapsed` and `held`. */
const char *kr_bench_hold(long count, unsigned inflight, struct kr_bench_samples *s);

/* ---- mcp.c ---- */

/* The same warm run over REST, over /mcp and over stdio, in turns; adds `rest`, `mcp` and `stdio`. */
const char *kr_bench_voices(long count, struct kr_bench_samples *s);
void kr_bench_voices_end(void);

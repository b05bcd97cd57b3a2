/* Connections to the outside, in the store: one row for each that ended or was refused. Rows are added in batches and,
 * when they are old or too many, deleted; never changed. Those of a sandbox or a user go with it. */
#pragma once
#include "store.h"

/* A row, in and out; texts are borrowed as those of a list are. No text is NULL. */
struct kr_store_connection {
    const char *id;      /* ignored on the way in: one is made */
    const char *owner;   /* a user's id */
    const char *sandbox; /* id, or "": of none */
    const char *run;     /* id, or "": between runs */
    int64_t at;          /* its begin */
    uint64_t ms;
    const char *how; /* "connect", "http", "https", "index", "fetch" */
    const char *method;
    const char *host;
    uint16_t port;
    const char *address; /* "": none was connected to */
    uint64_t sent, received;
    unsigned status;     /* of HTTP; 0: none */
    const char *verdict; /* "ok", "denied", "failed", "limit" */
    const char *why;
    const char *secrets; /* names of those whose values went out, by comma; NULL on the way in: none */
};

/* Adds rows in one transaction. A row whose sandbox or user is not there (any more), or whose sandbox is another's, is
 * left out. Then what is past `max` rows (0: no bound) goes, up to twice as many as were added: the oldest of the user
 * who has the most. 0 or -errno, and none was added. */
int kr_store_connections_add(struct kr_store *s, const struct kr_store_connection *rows, size_t count, uint64_t max,
                             struct kr_err *err);

/* NULL, 0: any. One of run, sandbox, verdict (other than "ok", with an owner) and owner is looked up by its index; the
 * others pass over rows (KR_STORE_SCAN_MAX a call). */
struct kr_store_connection_filter {
    const char *owner; /* NULL: for administrators */
    const char *sandbox, *run, *verdict;
    int64_t since, until; /* since <= at < until */
};
/* Newest first. Rows, or -errno. */
int kr_store_connections_list(struct kr_store *s, const struct kr_store_connection_filter *filter,
                              struct kr_store_page *page,
                              void (*on_row)(void *data, const struct kr_store_connection *row), void *data,
                              struct kr_err *err);
/* Deletes rows of sandboxes that are gone, rows older than keep->since and rows past keep->count, KR_STORE_PRUNE_MAX at
 * most. How many (call again until 0), or -errno. */
int kr_store_connections_prune(struct kr_store *s, const struct kr_store_keep *keep, struct kr_err *err);

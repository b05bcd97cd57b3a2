/* The audit log, in the store: rows are added and, when they are old, deleted; never changed. */
#pragma once
#include "store.h"

#define KR_STORE_DETAIL_MAX 4096u

/* A row, in and out. NULL counts as "". Texts that are too long are cut and invalid UTF-8 is replaced, so that no
 * content can keep a row out. */
struct kr_store_audit {
    int64_t id; /* ascending; ignored on the way in */
    int64_t at;
    const char *who;     /* a user's id; "" when no user is known (a refused key) */
    const char *what;    /* "run.start", "key.revoke": at most 48 bytes */
    const char *object;  /* an id, a name, a path: at most 256 bytes */
    const char *outcome; /* "ok", "denied", a cause: at most 32 bytes */
    const char *address; /* of the peer: at most 64 bytes */
    const char *request; /* the request's id: at most 128 bytes */
    const char *detail;  /* a JSON object; secrets are the caller's to take out. Too long or no JSON: {"lost":"…"} */
};

/* 0 or -errno. Cheapest as a note: kr_store_notes_open(). */
int kr_store_audit_add(struct kr_store *s, const struct kr_store_audit *row, struct kr_err *err);

/* NULL, 0: any. One of them is looked up by its index; the others pass over rows (KR_STORE_SCAN_MAX a call). */
struct kr_store_audit_filter {
    const char *who, *what, *object, *outcome, *request;
    int64_t since, until; /* since <= at < until */
};
/* Newest first; the cursor is the id. Rows, or -errno. For administrators: with `who` it is one user's own. */
int kr_store_audit_list(struct kr_store *s, const struct kr_store_audit_filter *filter, struct kr_store_page *page,
                        void (*on_row)(void *data, const struct kr_store_audit *row), void *data, struct kr_err *err);
/* Deletes the oldest rows until the rest is within keep, KR_STORE_PRUNE_MAX at most. How many (call again until 0), or
 * -errno. */
int kr_store_audit_prune(struct kr_store *s, const struct kr_store_keep *keep, struct kr_err *err);

/* Security events, in the store: what code was refused, one row for equal refusals of a moment. Rows are added in
 * batches and, when they are old or too many, deleted; never changed. They outlive their sandbox, so that deleting it
 * removes no evidence, and go with their user. */
#pragma once
#include "store.h"

#define KR_STORE_EVENT_RULE_MAX 40u  /* bytes; what is longer is cut */
#define KR_STORE_EVENT_TEXT_MAX 256u /* bytes */

/* A row, in and out; texts are borrowed as those of a list are. No text is NULL. */
struct kr_store_event {
    const char *id;      /* ignored on the way in: one is made */
    const char *owner;   /* a user's id */
    const char *sandbox; /* id, or "": of none */
    const char *run;     /* id, or "": between runs */
    int64_t at;          /* of the first of them */
    const char *kind;    /* a word of kr_security_kinds (security.h) */
    const char *rule;
    uint32_t line;  /* of the run's code; 0: none */
    uint64_t count; /* how many equal ones it stands for, at least 1 */
    const char *text;
};

/* Adds rows in one transaction; a row whose user is not there (any more), or whose sandbox is another's, is left
 * out. Then what is past `max` rows (0: no bound) goes, up to twice as many as were added: the oldest of the user who
 * has the most. 0 or -errno, and none was added. */
int kr_store_events_add(struct kr_store *s, const struct kr_store_event *rows, size_t count, uint64_t max,
                        struct kr_err *err);

/* NULL, 0: any. One of run, sandbox, kind (with an owner) and owner is looked up by its index; the others pass over
 * rows (KR_STORE_SCAN_MAX a call). */
struct kr_store_event_filter {
    const char *owner; /* NULL: for administrators */
    const char *sandbox, *run, *kind, *rule;
    int64_t since, until; /* since <= at < until */
};
/* Newest first. Rows, or -errno. */
int kr_store_events_list(struct kr_store *s, const struct kr_store_event_filter *filter, struct kr_store_page *page,
                         void (*on_row)(void *data, const struct kr_store_event *row), void *data, struct kr_err *err);
/* Deletes rows older than keep->since and rows past keep->count, KR_STORE_PRUNE_MAX at most. How many (call again until
 * 0), or -errno. */
int kr_store_events_prune(struct kr_store *s, const struct kr_store_keep *keep, struct kr_err *err);

/* What the handlers of files share: a file operation (src/box/fileop.h) whose peer is an exchange. Nothing here is
 * for other folders but src/mcp/toolkit, whose uploads share the disk accounts; file_routes.h is. */
#pragma once
#include "api.h"
#include "file_routes.h"
#include "fileop.h"
#include "secret.h"
#include <sys/queue.h>

struct fetching;
struct kr_buf;
struct kr_quota;

/* What lasts between requests: kr_api.files. Lives until the last operation has ended. */
struct kr_api_files {
    struct kr_fileops ops;
    struct kr_api *api; /* NULL: the server has ended */
    unsigned char link_key[KR_SIGN_KEY_BYTES];
    TAILQ_HEAD(, kr_quota) quotas;
    unsigned quota_count;
    struct fetching *fetch_to_start; /* of the job that is being started (file_fetch.c) */
};

static inline struct kr_api_files *kr_file_home(const struct kr_fileop *op)
{
    return (struct kr_api_files *)op->ops;
}

/* Not after the server has ended. */
static inline struct kr_api *kr_file_api(const struct kr_fileop *op)
{
    return kr_file_home(op)->api;
}

/* NULL: answered, or the client left. */
static inline struct kr_http_ex *kr_file_ex(const struct kr_fileop *op)
{
    return op->peer;
}

struct kr_file_kind {
    struct kr_fileop_kind op;
    struct kr_http_calls calls;
};

/* A new one for an exchange, which is deferred by it. NULL: it has answered. */
void *kr_file_new(struct kr_http_ex *ex, struct kr_api *api, const struct kr_file_kind *kind);
/* For kr_file_kind.calls.on_gone. */
void kr_file_on_gone(void *data, struct kr_http_ex *ex);
/* Who asks. False: it has answered, and the operation is gone. */
bool kr_file_caller(struct kr_fileop *op);
/* Checks the path (NULL: none), finds the sandbox (id or name, NULL: default) and opens its folder; `made`: it is to be
 * written, so the name must be a good one. False: it has answered, and the operation is gone. */
bool kr_file_place(struct kr_fileop *op, const char *sandbox, const char *path, bool made);

/* Takes the exchange to answer it; kr_fileop_end() is next. */
struct kr_http_ex *kr_file_take(struct kr_fileop *op);
/* Answers with the error (op->err, which is the thread's while a step runs; another) and ends. */
void kr_file_fail(struct kr_fileop *op);
void kr_file_fail_err(struct kr_fileop *op, const struct kr_err *err);
void kr_file_fail_status(struct kr_fileop *op, int status, enum kr_err_kind kind, const struct kr_err *err);
void kr_file_fail_with(struct kr_fileop *op, enum kr_err_kind kind, const char *text);
/* Makes "not found" of an error about a path beneath a file and, `to_read`, about what is not a regular file. */
void kr_file_missing(struct kr_err *err, bool to_read);
/* The status of an error about files, and its kind: a full disk is 507, what is in the way is 409. */
int kr_file_status(const struct kr_err *err, enum kr_err_kind *ret_kind);

/* A path as a request names it: `b64` (base64 of bytes that a URL cannot carry) if it is given, else `plain`. 0 or
 * -EINVAL. */
int kr_file_read_path(const char *plain, const char *b64, char out[static KR_FILES_PATH_MAX], struct kr_err *err);

/* ---- the disk account of a user (file_quota.c) ---- */

/* An upload's part of it, embedded in the upload. */
struct kr_quota_share {
    TAILQ_ENTRY(kr_quota_share) link;
    struct kr_quota *quota; /* NULL: not joined, or there is no bound */
    bool waiting;
    void (*on_ready)(struct kr_quota_share *share);
    uint64_t charged;
    int64_t kept; /* what is on disk for good: set before leaving */
};
/* on_ready comes when it is known how much the user has: now or later. 0, or -errno with err and no call. */
int kr_quota_join(struct kr_api_files *f, const struct kr_caller *who, struct kr_quota_share *share,
                  void (*on_ready)(struct kr_quota_share *share), struct kr_err *err);
/* Is there room for so many bytes more? 0, or -EDQUOT with err. */
int kr_quota_room(const struct kr_quota_share *share, uint64_t bytes, struct kr_err *err);
/* The same, and takes it. */
int kr_quota_charge(struct kr_quota_share *share, uint64_t bytes, struct kr_err *err);
/* Gives back what is charged and not kept. Of a share that never joined, too. */
void kr_quota_leave(struct kr_quota_share *share);
/* Something was deleted: the next upload counts again, if that matters. */
void kr_quota_stale(struct kr_api_files *f, const char *user);
void kr_quotas_close(struct kr_api_files *f);

/* ---- bodies that are stored (file_feed.c) ---- */

/* The bytes of a body on their way to the disk: those that come, and those that a thread works on. */
struct kr_file_feed {
    struct kr_fileop w;
    struct kr_quota_share share;
    char *in, *out; /* KR_FEED_ROOM each, made when needed */
    size_t in_len, out_len;
    bool ended, refused;
    struct kr_err refusal;                                             /* of bytes that are not kept */
    int (*take)(struct kr_file_feed *f, const void *data, size_t len); /* on the pool; fills w.err */
    kr_fileop_fn *start;  /* there is room: calls kr_feed_accept(), by and by */
    kr_fileop_fn *failed; /* w.err says why: answers and ends */
    kr_fileop_fn *finish; /* all bytes are taken */
};
#define KR_FEED_PAUSE (64u << 10)                  /* so many waiting: the peer is held back */
#define KR_FEED_ROOM (KR_FEED_PAUSE + (64u << 10)) /* the engine hands over at most 64 KB at once */

/* Asks for the user's disk account, then calls start. */
void kr_feed_open(struct kr_file_feed *f);
/* The body may come. */
void kr_feed_accept(struct kr_file_feed *f);
void kr_feed_on_body(void *data, struct kr_http_ex *ex, const char *bytes, size_t len);
void kr_feed_on_body_end(void *data, struct kr_http_ex *ex);
/* Of kr_file_kind.done. */
void kr_feed_done(struct kr_file_feed *f);

/* ---- reading (file_read.c) ---- */

struct kr_file_reading_spec {
    bool link;   /* by a signed link: KR_GUARD_LINK */
    bool folder; /* a folder gives its list */
    bool list;   /* nothing but a list */
    bool download;
    bool recursive;
    size_t limit;
    const char *after; /* copied; NULL: from the start */
};
extern const struct kr_file_kind kr_file_reading;
/* Answers a GET or HEAD with what is at its path. The operation is of kr_file_reading and has its folder. */
void kr_file_read(struct kr_fileop *op, const struct kr_file_reading_spec *spec);

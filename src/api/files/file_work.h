/* What the handlers of files share: a request about files, whose disk work is done by the thread pool piece by piece.
 *
 * A work belongs to the loop thread, but while a piece runs (`busy`) its disk side (ws, path, r, err and what its kind
 * adds) belongs to the thread. It outlives its exchange: a client that leaves in the middle of a piece takes `ex` away, and
 * the work ends when the piece has. Nothing here is for other folders of the API; file_routes.h is. */
#pragma once
#include "api.h"
#include "file_routes.h"
#include "files.h"
#include "secret.h"
#include "work.h"
#include <sys/queue.h>

struct kr_buf;
struct kr_file_work;
struct kr_quota;

/* What lasts between requests: kr_api.files. Lives until the last work has ended. */
struct kr_api_files {
    struct kr_api *api; /* NULL: the server is gone, and only what is on disk is still tidied up */
    struct uv_loop_s *loop;
    unsigned refs;
    LIST_HEAD(, kr_file_work) works;
    unsigned work_count;
    unsigned char link_key[KR_SIGN_KEY_BYTES];
    TAILQ_HEAD(, kr_quota) quotas;
    unsigned quota_count;
};
void kr_api_files_unref(struct kr_api_files *f);

typedef void kr_file_fn(struct kr_file_work *w);

struct kr_file_kind {
    size_t size; /* of the struct that begins with a struct kr_file_work */
    struct kr_http_calls calls;
    kr_file_fn *late; /* on the loop: a piece has ended whose client left during it; the server is there. May be NULL */
    kr_file_fn *release; /* on the pool, as the last: takes away from the disk what is `unfinished`. May be NULL */
    kr_file_fn *done;    /* on the loop: frees what the kind has added. May be NULL */
};

#define KR_FILE_WORKS_MAX 1024u    /* at once, those whose clients have left included; then 503 */
#define KR_FILE_WORKS_OF_USER 256u /* then 429 */

struct kr_file_work {
    struct kr_work work;
    LIST_ENTRY(kr_file_work) link;
    const struct kr_file_kind *kind;
    struct kr_api_files *files;
    struct kr_http_ex *ex; /* NULL: answered, or the client left */
    struct kr_api_who who;
    char request[KR_HTTP_REQUEST_ID_MAX + 1]; /* a copy: who.caller.request */
    struct kr_sandbox sandbox;
    int ws; /* its folder */
    bool busy, unfinished, ending;
    kr_file_fn *step, *then;
    int r;
    struct kr_err err;
    char path[KR_FILES_PATH_MAX]; /* checked, relative */
};

/* A new one for an exchange, which is deferred by it. NULL: it has answered. */
void *kr_file_new(struct kr_http_ex *ex, struct kr_api *api, const struct kr_file_kind *kind);
/* For kr_file_kind.calls.on_gone. */
void kr_file_on_gone(void *data, struct kr_http_ex *ex);
/* Who asks. False: it has answered, and the work is gone. */
bool kr_file_caller(struct kr_file_work *w);
/* Finds the sandbox (id or name, NULL: default) and checks the path (NULL: none); `made`: it is to be written, so the name
 * must be a good one and the sandbox not frozen. False: it has answered, and the work is gone. */
bool kr_file_place(struct kr_file_work *w, const char *sandbox, const char *path, bool made);
/* Is the sandbox still there, with the same folder? 0, or -ENOENT with w->err. */
int kr_file_still_there(struct kr_file_work *w);

/* Does `step` on the thread pool, then `then` on the loop; not if the client has left by then. */
void kr_file_run(struct kr_file_work *w, kr_file_fn *step, kr_file_fn *then);
/* Takes the exchange to answer it; end() is next. */
struct kr_http_ex *kr_file_take(struct kr_file_work *w);
/* The exchange is answered: the work goes, now or after the piece that runs. */
void kr_file_end(struct kr_file_work *w);
/* Answers with the error (w->err, which is the thread's while the work is busy; another) and ends. */
void kr_file_fail(struct kr_file_work *w);
void kr_file_fail_err(struct kr_file_work *w, const struct kr_err *err);
void kr_file_fail_status(struct kr_file_work *w, int status, enum kr_err_kind kind, const struct kr_err *err);
void kr_file_fail_with(struct kr_file_work *w, enum kr_err_kind kind, const char *text);
/* For whoever looks for a file, one beneath a file is not there; nor, `to_read`, is what is no regular file. */
void kr_file_missing(struct kr_err *err, bool to_read);
/* The status of an error about files, and its kind: a full disk is 507, what is in the way is 409. */
int kr_file_status(const struct kr_err *err, enum kr_err_kind *ret_kind);

/* What was changed: a row of the audit log, and the sandbox's sessions are told. `size` < 0: none is told. */
void kr_file_changed(struct kr_file_work *w, const char *what, const char *outcome, const char *path, int64_t size);

/* A path as a request names it: `b64` (base64 of bytes that a URL cannot carry) if it is given, else `plain`. 0 or
 * -EINVAL. */
int kr_file_read_path(const char *plain, const char *b64, char out[static KR_FILES_PATH_MAX], struct kr_err *err);

/* ---- the disk account of a user (file_quota.c) ---- */

/* A place in it, embedded in an upload. */
struct kr_quota_seat {
    TAILQ_ENTRY(kr_quota_seat) link;
    struct kr_quota *quota; /* NULL: not joined, or there is no bound */
    bool waiting;
    void (*on_ready)(struct kr_quota_seat *seat);
    uint64_t charged;
    int64_t kept; /* what is on disk for good: told before leaving */
};
/* on_ready comes when it is known how much the user has: now or later. 0, or -errno with err and no call. */
int kr_quota_join(struct kr_api_files *f, const struct kr_caller *who, struct kr_quota_seat *seat,
                  void (*on_ready)(struct kr_quota_seat *seat), struct kr_err *err);
/* Is there room for so many bytes more? 0, or -EDQUOT with err. */
int kr_quota_room(const struct kr_quota_seat *seat, uint64_t bytes, struct kr_err *err);
/* The same, and takes it. */
int kr_quota_charge(struct kr_quota_seat *seat, uint64_t bytes, struct kr_err *err);
/* Gives back what is charged and not kept. Of a seat that never joined, too. */
void kr_quota_leave(struct kr_quota_seat *seat);
/* Something was deleted: the next upload counts again, if that matters. */
void kr_quota_stale(struct kr_api_files *f, const char *user);
void kr_quotas_close(struct kr_api_files *f);

/* ---- bodies that are stored (file_feed.c) ---- */

/* The bytes of a body on their way to the disk: those that come, and those that a thread works on. */
struct kr_file_feed {
    struct kr_file_work w;
    struct kr_quota_seat seat;
    char *in, *out; /* KR_FEED_ROOM each, made when needed */
    size_t in_len, out_len;
    bool ended, refused;
    struct kr_err refusal;                                             /* of bytes that are not kept */
    int (*take)(struct kr_file_feed *f, const void *data, size_t len); /* on the pool; fills w.err */
    kr_file_fn *start;  /* there is room: calls kr_feed_accept(), by and by */
    kr_file_fn *failed; /* w.err says why: answers and ends */
    kr_file_fn *finish; /* all bytes are taken */
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
/* Answers a GET or HEAD with what is at the work's path. The work is of kr_file_reading and has its place. */
void kr_file_read(struct kr_file_work *w, const struct kr_file_reading_spec *spec);

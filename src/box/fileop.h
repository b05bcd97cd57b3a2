/* File operations: what a request does with the files of one sandbox, in steps on the thread pool. The voices (REST,
 * MCP) share this; each adds how it answers.
 *
 * An operation belongs to the loop thread, but while a step runs (`busy`) its disk side (ws, path, r, err and what
 * its kind adds) belongs to the thread. It outlives the request: a client that leaves takes `peer` away, and the
 * operation ends after the step. The workspace is reached through src/files/files.h alone. */
#pragma once
#include "box.h"
#include "files.h"
#include "work.h"
#include <sys/queue.h>

struct kr_fileop;

#define KR_FILEOPS_MAX 1024u        /* at once, those whose clients have left included */
#define KR_FILEOPS_USER_MAX 256u    /* of one user */
#define KR_FILEOPS_THREADS 3u       /* for their steps, … */
#define KR_FILEOPS_THREADS_EACH 2u  /* … for those of one sandbox */
#define KR_FILEOP_REQUEST_ROOM 129u /* for a request's id */
#define KR_FILEOP_ADDRESS_ROOM 65u  /* for a peer's address */

/* What lasts between requests. Embedded by the owner, whose memory goes with the last operation. */
struct kr_fileops {
    struct kr_box *box; /* NULL: the server has ended, and only what is on disk is still tidied up */
    struct uv_loop_s *loop;
    struct kr_lane *lane; /* its steps: sandboxes take turns, and none takes all threads; NULL: there is no memory */
    unsigned refs, count;
    LIST_HEAD(, kr_fileop) all;
    /* A file was changed; user and path are borrowed. May be NULL. */
    void (*on_changed)(struct kr_fileops *ops, const char *user, const struct kr_sandbox *sandbox, const char *path);
    void (*on_last)(struct kr_fileops *ops); /* frees the owner */
};

/* With one reference, the owner's. */
void kr_fileops_init(struct kr_fileops *ops, struct uv_loop_s *loop, struct kr_box *box,
                     void (*on_last)(struct kr_fileops *ops));
void kr_fileops_ref(struct kr_fileops *ops);
void kr_fileops_unref(struct kr_fileops *ops);

typedef void kr_fileop_fn(struct kr_fileop *op);

struct kr_fileop_kind {
    size_t size; /* of the struct that begins with a struct kr_fileop */
    kr_fileop_fn
        *late; /* on the loop: a step has ended whose client left during it; the server is there. May be NULL */
    kr_fileop_fn *release; /* on the pool, as the last: removes from the disk what is `unfinished`. May be NULL */
    kr_fileop_fn *done;    /* on the loop: frees what the kind has added. May be NULL */
};

struct kr_fileop {
    struct kr_work work;
    LIST_ENTRY(kr_fileop) link;
    const struct kr_fileop_kind *kind;
    struct kr_fileops *ops;
    void *peer;           /* the voice's: what waits for the answer. NULL: answered, or the client left */
    struct kr_caller who; /* points to the next three */
    char user[KR_STORE_ID_ROOM], address[KR_FILEOP_ADDRESS_ROOM], request[KR_FILEOP_REQUEST_ROOM];
    struct kr_sandbox sandbox;
    int ws;                  /* its folder */
    bool unfinished, ending; /* ending: kind->release has run or runs */
    kr_fileop_fn *step, *then;
    int r;
    struct kr_err err;
    char path[KR_FILES_PATH_MAX]; /* checked, relative */
};

/* A new one for a peer. NULL with err: there are too many, or no memory. */
void *kr_fileop_new(struct kr_fileops *ops, const struct kr_fileop_kind *kind, void *peer, struct kr_err *err);
/* Who asks; texts are copied. */
void kr_fileop_set_caller(struct kr_fileop *op, const struct kr_caller *who);
/* The sandbox, by id or name (NULL: default), if the user has no more than a fair share of operations under way. 0
 * or -errno with op->err. */
int kr_fileop_find(struct kr_fileop *op, const char *sandbox);
/* The path; `made`: it is to be written, so the name must be a good one. 0 or -errno with op->err. */
int kr_fileop_set_path(struct kr_fileop *op, const char *path, bool made);
/* The folder of the sandbox that was found. 0 or -errno with op->err. */
int kr_fileop_open(struct kr_fileop *op);
/* Does the sandbox still exist, with the same folder? 0, or -ENOENT with op->err. */
int kr_fileop_still_there(struct kr_fileop *op);

static inline bool kr_fileop_busy(const struct kr_fileop *op)
{
    return kr_work_busy(&op->work);
}
/* Runs `step` on the thread pool, then `then` on the loop; not if the client has left by then. */
void kr_fileop_run(struct kr_fileop *op, kr_fileop_fn *step, kr_fileop_fn *then);
/* The peer is answered or has left (the voice has cleared it): the operation goes, now or after the step that runs. */
void kr_fileop_end(struct kr_fileop *op);
/* What was changed: a row of the audit log, and the sandbox's sessions and on_changed get to know. `size` < 0: not
 * in the row. */
void kr_fileop_changed(struct kr_fileop *op, const char *what, const char *outcome, const char *path, int64_t size);

/* The life of a file operation: its sandbox, its steps on the thread pool, its end. Called by the voices
 * (src/api/files, src/mcp/toolkit/mcp_fileop.c).
 *
 * Invariants: an operation is freed once, on the loop, never while a step of it runs; what a client that left began
 * is either whole or gone from the disk; the box is not touched after ops->box was cleared. */
#include "fileop.h"
#include "buf.h"
#include "fd.h"
#include "hash.h"
#include "json.h"
#include "store_audit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kr_fileops_init(struct kr_fileops *ops, struct uv_loop_s *loop, struct kr_box *box,
                     void (*on_last)(struct kr_fileops *ops))
{
    *ops = (struct kr_fileops){.box = box, .loop = loop, .refs = 1, .on_last = on_last};
    LIST_INIT(&ops->all);
    if (kr_lane_new(loop, KR_FILEOPS_THREADS, KR_FILEOPS_MAX, &ops->lane) == 0)
        kr_lane_bound_each(ops->lane, KR_FILEOPS_THREADS_EACH);
}

void kr_fileops_ref(struct kr_fileops *ops)
{
    ops->refs++;
}

void kr_fileops_unref(struct kr_fileops *ops)
{
    if (--ops->refs > 0)
        return;
    kr_lane_close(ops->lane); /* nothing is in it: each operation has a reference */
    ops->on_last(ops);
}

/* ---- beginning ---- */

void *kr_fileop_new(struct kr_fileops *ops, const struct kr_fileop_kind *kind, void *peer, struct kr_err *err)
{
    struct kr_fileop *op;

    if (ops->count >= KR_FILEOPS_MAX) {
        kr_err_set(err, KR_ERR_BUSY, 0, "too many files are being read and written: try again in a moment");
        return NULL;
    }
    op = calloc(1, kind->size);
    if (!op) {
        kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "file operation");
        return NULL;
    }
    op->kind = kind;
    op->ops = ops;
    op->peer = peer;
    op->ws = -1;
    kr_fileop_set_caller(op, &(struct kr_caller){.user = ""});
    kr_fileops_ref(ops);
    ops->count++;
    LIST_INSERT_HEAD(&ops->all, op, link);
    return op;
}

void kr_fileop_set_caller(struct kr_fileop *op, const struct kr_caller *who)
{
    snprintf(op->user, sizeof op->user, "%s", who->user);
    snprintf(op->address, sizeof op->address, "%s", who->address ? who->address : "");
    snprintf(op->request, sizeof op->request, "%s", who->request ? who->request : "");
    op->who = (struct kr_caller){.user = op->user,
                                 .rights = who->rights,
                                 .address = op->address,
                                 .request = op->request,
                                 .profile = who->profile};
}

/* So that one user's readers, however slow, leave room for others. */
static int check_share(struct kr_fileop *op)
{
    const struct kr_fileop *other;
    unsigned count = 0;

    LIST_FOREACH(other, &op->ops->all, link)
    count += strcmp(other->user, op->user) == 0;
    if (count <= KR_FILEOPS_USER_MAX)
        return 0;
    return kr_err_set(&op->err, KR_ERR_TOO_MANY, 0, "you are reading and writing %u files already", count - 1);
}

int kr_fileop_find(struct kr_fileop *op, const char *sandbox)
{
    int r = check_share(op);

    return r < 0 ? r : kr_box_sandbox_find(op->ops->box, &op->who, sandbox, &op->sandbox, &op->err);
}

int kr_fileop_set_path(struct kr_fileop *op, const char *path, bool made)
{
    return made ? kr_files_new_path(path, op->path, &op->err) : kr_files_path(path, op->path, &op->err);
}

int kr_fileop_open(struct kr_fileop *op)
{
    op->ws = kr_box_sandbox_folder(op->ops->box, &op->sandbox, &op->err);
    return op->ws < 0 ? op->ws : 0;
}

int kr_fileop_still_there(struct kr_fileop *op)
{
    cleanup_box_sandbox struct kr_sandbox now = {0};
    int r = kr_box_sandbox_find(op->ops->box, &op->who, op->sandbox.row.id, &now, &op->err);

    if (r < 0)
        return r;
    if (strcmp(now.row.folder, op->sandbox.row.folder) == 0)
        return 0;
    kr_err_set(&op->err, KR_ERR_CONFLICT, 0, "the sandbox was reset meanwhile");
    return -ENOENT;
}

/* ---- steps ---- */

static void free_fileop(struct kr_fileop *op)
{
    struct kr_fileops *ops = op->ops;

    kr_sandbox_done(&op->sandbox);
    kr_fd_close(op->ws);
    if (op->kind->done)
        op->kind->done(op);
    LIST_REMOVE(op, link);
    ops->count--;
    free(op);
    kr_fileops_unref(ops);
}

/* On the thread pool. */
static void run_step(void *data)
{
    struct kr_fileop *op = data;

    op->step(op);
}

static void on_step_done(void *data)
{
    struct kr_fileop *op = data;

    if (!op->ops->box)
        op->peer = NULL; /* went with the server */
    if (op->peer) {
        op->then(op);
        return;
    }
    if (!op->ending && op->kind->late && op->ops->box)
        op->kind->late(op);
    kr_fileop_end(op);
}

void kr_fileop_run(struct kr_fileop *op, kr_fileop_fn *step, kr_fileop_fn *then)
{
    static const struct kr_work_calls calls = {.run = run_step, .done = on_step_done};

    op->step = step;
    op->then = then;
    if (!op->ops->lane ||
        kr_lane_start_for(op->ops->lane, kr_hash_text(KR_HASH_START, op->sandbox.row.id), &op->work, &calls, op) < 0)
        kr_work_start(op->ops->loop, &op->work, &calls, op);
}

void kr_fileop_end(struct kr_fileop *op)
{
    if (kr_fileop_busy(op))
        return;
    if (op->unfinished && op->kind->release && !op->ending) {
        op->ending = true;
        op->peer = NULL;
        kr_fileop_run(op, op->kind->release, NULL);
        return;
    }
    free_fileop(op);
}

/* ---- what was changed ---- */

void kr_fileop_changed(struct kr_fileop *op, const char *what, const char *outcome, const char *path, int64_t size)
{
    struct kr_fileops *ops = op->ops;
    cleanup_buf struct kr_buf detail = {0};
    struct kr_json j;

    kr_buf_init(&detail, KR_STORE_DETAIL_MAX);
    kr_json_init(&j, &detail);
    kr_json_object(&j);
    kr_files_json_path(&j, "path", path);
    if (size >= 0)
        kr_json_key_int(&j, "size", size);
    kr_json_object_end(&j);
    kr_box_audit(ops->box, &op->who, what, op->sandbox.row.id, outcome,
                 kr_json_done(&j) < 0 ? "{\"path\":null}" : kr_buf_str(&detail));
    kr_box_sandbox_touched(ops->box, &op->sandbox);
    if (ops->on_changed)
        ops->on_changed(ops, op->user, &op->sandbox, path);
}

/* The life of a request about files: who, where, its pieces on the thread pool, its end. Called by the handlers of
 * files_*.c.
 *
 * Invariants: a work is freed once, on the loop, never while a piece of it runs; what a client that left began is either
 * whole or gone from the disk; the box is not touched after kr_api_files_free(). */
#include "file_work.h"
#include "base64.h"
#include "buf.h"
#include "route_doc.h"
#include "fd.h"
#include "json.h"
#include "reply.h"
#include "store_audit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_SECRET "file-links"
#define ERROR_MAX 65536u

/* ---- between requests ---- */

int kr_api_files_new(struct kr_api *api, struct kr_err *err)
{
    struct kr_api_files *f = calloc(1, sizeof *f);
    int r;

    if (!f)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "files");
    r = kr_store_secret(api->store, LINK_SECRET, f->link_key, sizeof f->link_key, err);
    if (r < 0) {
        free(f);
        return r;
    }
    f->api = api;
    f->loop = api->loop;
    f->refs = 1;
    TAILQ_INIT(&f->quotas);
    LIST_INIT(&f->works);
    api->files = f;
    return 0;
}

void kr_api_files_unref(struct kr_api_files *f)
{
    if (--f->refs > 0)
        return;
    explicit_bzero(f->link_key, sizeof f->link_key);
    free(f);
}

void kr_api_files_free(struct kr_api *api)
{
    struct kr_api_files *f = api->files;

    if (!f)
        return;
    api->files = NULL;
    f->api = NULL;
    kr_quotas_close(f);
    kr_api_files_unref(f);
}

/* ---- beginning ---- */

void *kr_file_new(struct kr_http_ex *ex, struct kr_api *api, const struct kr_file_kind *kind)
{
    struct kr_api_files *f = api->files;
    struct kr_file_work *w;

    if (f->work_count >= KR_FILE_WORKS_MAX) {
        kr_api_fail_with(ex, KR_ERR_BUSY, "too many files are being read and written");
        return NULL;
    }
    w = calloc(1, kind->size);
    if (!w) {
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for a request");
        return NULL;
    }
    w->kind = kind;
    w->files = f;
    f->refs++;
    f->work_count++;
    LIST_INSERT_HEAD(&f->works, w, link);
    w->ex = ex;
    w->ws = -1;
    kr_http_defer(ex, &kind->calls, w);
    return w;
}

bool kr_file_caller(struct kr_file_work *w)
{
    if (!kr_api_caller(w->files->api, w->ex, &w->who)) {
        w->ex = NULL;
        kr_file_end(w);
        return false;
    }
    snprintf(w->request, sizeof w->request, "%s", kr_http_request_id(w->ex));
    w->who.caller.request = w->request; /* the exchange may be gone when something is told of it */
    return true;
}

/* So that one user's readers, however slow, leave room for others. */
static int check_share(struct kr_file_work *w)
{
    const struct kr_file_work *other;
    unsigned count = 0;

    LIST_FOREACH(other, &w->files->works, link)
    count += strcmp(other->who.user, w->who.user) == 0;
    if (count <= KR_FILE_WORKS_OF_USER)
        return 0;
    return kr_err_set(&w->err, KR_ERR_TOO_MANY, 0, "you are reading and writing %u files already", count - 1);
}

bool kr_file_place(struct kr_file_work *w, const char *sandbox, const char *path, bool made)
{
    struct kr_box *box = w->files->api->box;
    int r = check_share(w);

    if (path && r >= 0)
        r = made ? kr_files_new_path(path, w->path, &w->err) : kr_files_path(path, w->path, &w->err);
    if (r >= 0)
        r = kr_box_sandbox_find(box, &w->who.caller, sandbox, &w->sandbox, &w->err);
    if (r >= 0 && made && w->sandbox.row.state == KR_STORE_SANDBOX_FROZEN)
        r = kr_err_set(&w->err, KR_ERR_CONFLICT, 0, "the sandbox is frozen: its files can be read and deleted only");
    if (r >= 0)
        r = w->ws = kr_box_sandbox_folder(box, &w->sandbox, &w->err);
    if (r < 0)
        kr_file_fail(w);
    return r >= 0;
}

int kr_file_still_there(struct kr_file_work *w)
{
    cleanup_box_sandbox struct kr_sandbox now = {0};
    int r = kr_box_sandbox_find(w->files->api->box, &w->who.caller, w->sandbox.row.id, &now, &w->err);

    if (r < 0)
        return r;
    if (strcmp(now.row.folder, w->sandbox.row.folder) == 0)
        return 0;
    kr_err_set(&w->err, KR_ERR_CONFLICT, 0, "the sandbox was reset meanwhile");
    return -ENOENT;
}

int kr_file_read_path(const char *plain, const char *b64, char out[static KR_FILES_PATH_MAX], struct kr_err *err)
{
    ssize_t n;

    if (!b64) {
        n = snprintf(out, KR_FILES_PATH_MAX, "%s", plain ? plain : "");
        return n < (ssize_t)KR_FILES_PATH_MAX
                   ? 0
                   : kr_err_set(err, KR_ERR_INVALID, 0, "path: longer than %u bytes", KR_FILES_PATH_MAX - 1);
    }
    n = kr_base64_decode(b64, strlen(b64), out, KR_FILES_PATH_MAX - 1);
    if (n < 0 || memchr(out, '\0', (size_t)n))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "path_b64: not base64 of a path");
    out[n] = '\0';
    return 0;
}

/* ---- pieces ---- */

static void release(struct kr_file_work *w)
{
    kr_sandbox_done(&w->sandbox);
    kr_fd_close(w->ws);
    if (w->kind->done)
        w->kind->done(w);
    LIST_REMOVE(w, link);
    w->files->work_count--;
    kr_api_files_unref(w->files);
    free(w);
}

/* On the thread pool. */
static void run_step(void *data)
{
    struct kr_file_work *w = data;

    w->step(w);
}

static void on_step_done(void *data)
{
    struct kr_file_work *w = data;

    w->busy = false;
    if (!w->files->api)
        w->ex = NULL; /* went with the server */
    if (w->ex) {
        w->then(w);
        return;
    }
    if (!w->ending && w->kind->late && w->files->api)
        w->kind->late(w);
    kr_file_end(w);
}

void kr_file_run(struct kr_file_work *w, kr_file_fn *step, kr_file_fn *then)
{
    static const struct kr_work_calls calls = {.run = run_step, .done = on_step_done};

    w->step = step;
    w->then = then;
    w->busy = true;
    kr_work_start(w->files->loop, &w->work, &calls, w);
}

/* ---- ending ---- */

void kr_file_on_gone(void *data, struct kr_http_ex *ex)
{
    struct kr_file_work *w = data;

    (void)ex;
    w->ex = NULL;
    kr_file_end(w);
}

struct kr_http_ex *kr_file_take(struct kr_file_work *w)
{
    return steal_ptr(&w->ex);
}

void kr_file_end(struct kr_file_work *w)
{
    if (w->busy)
        return;
    if (w->unfinished && w->kind->release && !w->ending) {
        w->ending = true;
        kr_file_run(w, w->kind->release, NULL);
        return;
    }
    release(w);
}

/* What errno says more exactly than the kind. */
static const struct status {
    int code, status;
    enum kr_err_kind kind;
} statuses[] = {
    {EEXIST, 409, KR_ERR_CONFLICT},  {ENOTEMPTY, 409, KR_ERR_CONFLICT}, {EISDIR, 409, KR_ERR_CONFLICT},
    {ENOTDIR, 409, KR_ERR_CONFLICT}, {ENXIO, 409, KR_ERR_CONFLICT},     {EFBIG, 413, KR_ERR_TOO_LARGE},
    {ENOSPC, 507, KR_ERR_LIMIT},     {EDQUOT, 507, KR_ERR_LIMIT},
};

int kr_file_status(const struct kr_err *err, enum kr_err_kind *ret_kind)
{
    bool public = kr_err_row((enum kr_err_kind)err->kind)->text_is_public;

    for (size_t i = 0; public && i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].code == err->code) {
            *ret_kind = statuses[i].kind;
            return statuses[i].status;
        }
    *ret_kind = (enum kr_err_kind)err->kind;
    return kr_api_status_of(err);
}

void kr_file_fail_status(struct kr_file_work *w, int status, enum kr_err_kind kind, const struct kr_err *err)
{
    struct kr_http_ex *ex = kr_file_take(w);
    cleanup_buf struct kr_buf out = {0};
    char text[sizeof err->msg];

    kr_buf_init(&out, ERROR_MAX);
    kr_api_error_body(kr_api_voice_of(ex), status, kr_err_row(kind)->name, kr_api_public_text(err, text), NULL,
                      kr_http_request_id(ex), &out);
    kr_http_reply_json(ex, status, &out);
    kr_file_end(w);
}

void kr_file_fail_err(struct kr_file_work *w, const struct kr_err *err)
{
    enum kr_err_kind kind;
    int status = kr_file_status(err, &kind);

    if (status != kr_api_status_of(err)) {
        kr_file_fail_status(w, status, kind, err);
        return;
    }
    kr_api_fail(kr_file_take(w), err);
    kr_file_end(w);
}

void kr_file_fail(struct kr_file_work *w)
{
    kr_file_fail_err(w, &w->err);
}

void kr_file_fail_with(struct kr_file_work *w, enum kr_err_kind kind, const char *text)
{
    struct kr_err err;

    kr_err_set(&err, kind, 0, "%s", text);
    kr_file_fail_err(w, &err);
}

void kr_file_missing(struct kr_err *err, bool to_read)
{
    if (err->code == ENOTDIR || (to_read && (err->code == EISDIR || err->code == ENXIO))) {
        err->kind = KR_ERR_NOT_FOUND;
        err->code = 0;
    }
}

/* ---- telling ---- */

void kr_file_changed(struct kr_file_work *w, const char *what, const char *outcome, const char *path, int64_t size)
{
    struct kr_box *box = w->files->api->box;
    cleanup_buf struct kr_buf detail = {0};
    struct kr_json j;

    kr_buf_init(&detail, KR_STORE_DETAIL_MAX);
    kr_json_init(&j, &detail);
    kr_json_object(&j);
    kr_files_json_path(&j, "path", path);
    if (size >= 0)
        kr_json_key_int(&j, "size", size);
    kr_json_object_end(&j);
    kr_box_audit(box, &w->who.caller, what, w->sandbox.row.id, outcome,
                 kr_json_done(&j) < 0 ? "{\"path\":null}" : kr_buf_str(&detail));
    kr_box_sandbox_touched(box, &w->sandbox);
    if (w->files->api->on_file_changed)
        w->files->api->on_file_changed(w->files->api, w->who.user, &w->sandbox, path);
}

/* Requests about files: who asks, which folder, and how errors are answered. Called by the handlers of this folder;
 * the life of an operation is src/box/fileop.c's.
 *
 * Invariant: the box is not touched after kr_api_files_free(). */
#include "file_request.h"
#include "file_fetch.h"
#include "base64.h"
#include "buf.h"
#include "fd.h"
#include "route_doc.h"
#include "reply.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_SECRET "file-links"
#define ERROR_MAX 65536u

/* ---- between requests ---- */

static void free_files(struct kr_fileops *ops)
{
    struct kr_api_files *f = (struct kr_api_files *)ops;

    explicit_bzero(f->link_key, sizeof f->link_key);
    free(f);
}

static void on_changed(struct kr_fileops *ops, const char *user, const struct kr_sandbox *sandbox, const char *path)
{
    struct kr_api *api = ((struct kr_api_files *)ops)->api;

    if (api->on_file_changed)
        api->on_file_changed(api, user, sandbox, path);
}

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
    if (api->jobs && kr_jobs_add_kind(api->jobs, &kr_file_fetch_kind, f) < 0) {
        free(f);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "fetches of files");
    }
    f->api = api;
    kr_fileops_init(&f->ops, api->loop, api->box, free_files);
    f->ops.on_changed = on_changed;
    TAILQ_INIT(&f->quotas);
    api->files = f;
    return 0;
}

void kr_api_files_free(struct kr_api *api)
{
    struct kr_api_files *f = api->files;

    if (!f)
        return;
    api->files = NULL;
    f->api = NULL;
    f->ops.box = NULL;
    kr_quotas_close(f);
    kr_fileops_unref(&f->ops);
}

/* ---- beginning ---- */

void *kr_file_new(struct kr_http_ex *ex, struct kr_api *api, const struct kr_file_kind *kind)
{
    struct kr_err err;
    void *op = kr_fileop_new(&api->files->ops, &kind->op, ex, &err);

    if (!op)
        kr_api_fail(ex, &err);
    else
        kr_http_defer(ex, &kind->calls, op);
    return op;
}

bool kr_file_caller(struct kr_fileop *op)
{
    struct kr_api_who who;

    if (!kr_api_caller(kr_file_api(op), kr_file_ex(op), &who)) {
        op->peer = NULL;
        kr_fileop_end(op);
        return false;
    }
    kr_fileop_set_caller(op, &who.caller);
    return true;
}

bool kr_file_place(struct kr_fileop *op, const char *sandbox, const char *path, bool made)
{
    if ((path && kr_fileop_set_path(op, path, made) < 0) || kr_fileop_find(op, sandbox) < 0 || kr_fileop_open(op) < 0) {
        kr_file_fail(op);
        return false;
    }
    return true;
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

/* ---- ending ---- */

void kr_file_on_gone(void *data, struct kr_http_ex *ex)
{
    struct kr_fileop *op = data;

    (void)ex;
    op->peer = NULL;
    kr_fileop_end(op);
}

struct kr_http_ex *kr_file_take(struct kr_fileop *op)
{
    return steal_ptr(&op->peer);
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

void kr_file_fail_status(struct kr_fileop *op, int status, enum kr_err_kind kind, const struct kr_err *err)
{
    struct kr_http_ex *ex = kr_file_take(op);
    cleanup_buf struct kr_buf out = {0};
    char text[sizeof err->msg];

    kr_buf_init(&out, ERROR_MAX);
    kr_api_error_body(kr_api_voice_of(ex), status, kr_err_row(kind)->name, kr_api_public_text(err, text), NULL,
                      kr_http_request_id(ex), &out);
    kr_http_reply_json(ex, status, &out);
    kr_fileop_end(op);
}

void kr_file_fail_err(struct kr_fileop *op, const struct kr_err *err)
{
    enum kr_err_kind kind;
    int status = kr_file_status(err, &kind);

    if (status != kr_api_status_of(err)) {
        kr_file_fail_status(op, status, kind, err);
        return;
    }
    kr_api_fail(kr_file_take(op), err);
    kr_fileop_end(op);
}

void kr_file_fail(struct kr_fileop *op)
{
    kr_file_fail_err(op, &op->err);
}

void kr_file_fail_with(struct kr_fileop *op, enum kr_err_kind kind, const char *text)
{
    struct kr_err err;

    kr_err_set(&err, kind, 0, "%s", text);
    kr_file_fail_err(op, &err);
}

void kr_file_missing(struct kr_err *err, bool to_read)
{
    if (err->code == ENOTDIR || (to_read && (err->code == EISDIR || err->code == ENXIO))) {
        err->kind = KR_ERR_NOT_FOUND;
        err->code = 0;
    }
}

/* POST of several files as multipart/form-data. Called through the table of routes.
 *
 * The parser runs on the thread pool, and each file is written as its bytes pass. Fields before a file say where it
 * goes: `path` the next one's whole path, `dir` the folder of all that follow. Invariants: a file is stored whole or
 * not at all, whatever becomes of those behind it; one that cannot be stored does not stop the others; what was
 * stored is reported. */
#include "file_request.h"
#include "buf.h"
#include "fd.h"
#include "json.h"
#include "multipart.h"
#include "reply.h"
#include "store_audit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 1000u

/* What became of one file. */
struct outcome {
    char *name; /* the path it was stored under, or what the client called it */
    bool stored, created;
    uint64_t size;
    struct kr_err err; /* of one that was not stored */
};

struct posting {
    struct kr_file_feed feed;
    /* The thread's while busy: */
    struct kr_multipart *parser;
    struct kr_files_upload *upload; /* NULL: the part is a field, or is passed over */
    char *field;                    /* where the part's bytes go: dir or next */
    size_t field_len;
    char dir[KR_FILES_PATH_MAX], next[KR_FILES_PATH_MAX]; /* next: "" unless a `path` came */
    char target[KR_FILES_PATH_MAX];                       /* of the upload */
    struct outcome *outcomes;
    size_t count;
    size_t stored;
    uint64_t bytes;
    bool reported; /* the loop's */
};

static struct posting *posting_of(struct kr_fileop *w)
{
    return (struct posting *)w;
}

/* ---- on the thread pool: the parser's calls ---- */

/* What is left of the file now is the caller's. */
static struct kr_files_upload *steal_upload(struct posting *p)
{
    p->feed.w.unfinished = false;
    return steal_ptr(&p->upload);
}

static int add_outcome(struct posting *p, const char *name, const struct kr_err *why, struct kr_err *err)
{
    struct outcome *moved = realloc(p->outcomes, (p->count + 1) * sizeof *moved), *o;

    if (!moved)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "upload");
    p->outcomes = moved;
    o = &moved[p->count];
    *o = (struct outcome){.name = strdup(name)};
    if (!o->name)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "upload");
    if (why)
        o->err = *why;
    o->stored = !why;
    p->count++;
    return 0;
}

static int begin_field(struct posting *p, const char *name, struct kr_err *err)
{
    if (strcmp(name, "dir") == 0)
        p->field = p->dir;
    else if (strcmp(name, "path") == 0)
        p->field = p->next;
    else
        return kr_err_set(err, KR_ERR_INVALID, 0, "there is no field %.40s here: dir, path and files are", name),
               -EINVAL;
    p->field_len = 0;
    p->field[0] = '\0';
    return 0;
}

/* Where the file goes. */
static int choose_target(struct posting *p, const char *filename, struct kr_err *err)
{
    char joined[2 * KR_FILES_PATH_MAX + 2];

    if (p->next[0])
        snprintf(joined, sizeof joined, "%s", p->next);
    else
        snprintf(joined, sizeof joined, "%s%s%s", p->dir, p->dir[0] ? "/" : "", filename);
    p->next[0] = '\0';
    return kr_files_new_path(joined, p->target, err);
}

static int on_part(void *ctx, const struct kr_multipart_part *part, struct kr_err *err)
{
    struct posting *p = ctx;
    struct kr_err why;
    int r;

    p->field = NULL;
    if (!part->filename)
        return begin_field(p, part->name, err);
    if (!part->filename[0]) /* a form whose file was left open */
        return 0;
    r = strlen(part->filename) < KR_FILES_PATH_MAX
            ? choose_target(p, part->filename, &why)
            : kr_err_set(&why, KR_ERR_INVALID, 0, "filename: longer than %u bytes", KR_FILES_PATH_MAX - 1);
    if (r >= 0)
        r = kr_files_upload_begin(p->feed.w.ws, p->target, UINT64_MAX, &p->upload, &why);
    p->feed.w.unfinished = p->upload != NULL;
    return r >= 0 ? 0 : add_outcome(p, part->filename, &why, err);
}

static int on_part_data(void *ctx, const void *data, size_t len, struct kr_err *err)
{
    struct posting *p = ctx;
    struct kr_err why;

    if (p->field) {
        if (len > KR_FILES_PATH_MAX - 1 - p->field_len || memchr(data, '\0', len))
            return kr_err_set(err, KR_ERR_INVALID, 0, "%s: too long for a path", p->field == p->dir ? "dir" : "path"),
                   -EINVAL;
        memcpy(p->field + p->field_len, data, len);
        p->field_len += len;
        p->field[p->field_len] = '\0';
        return 0;
    }
    if (!p->upload || kr_files_upload_write(p->upload, data, len, &why) >= 0)
        return 0;
    kr_files_upload_abort(steal_upload(p));
    return add_outcome(p, p->target, &why, err);
}

static int on_part_end(void *ctx, struct kr_err *err)
{
    struct posting *p = ctx;
    struct kr_file_info info;
    struct kr_err why;
    uint64_t size, old = 0;
    bool created;
    int r;

    if (!p->upload)
        return 0;
    size = kr_files_upload_size(p->upload);
    created = kr_files_stat(p->feed.w.ws, p->target, &info, &why) < 0;
    if (!created && info.type == KR_FILE_REGULAR)
        old = info.size;
    if (kr_files_upload_commit(steal_upload(p), &why) < 0)
        return add_outcome(p, p->target, &why, err);
    p->feed.share.kept += (int64_t)size - (int64_t)old;
    p->stored++;
    p->bytes += size;
    r = add_outcome(p, p->target, NULL, err);
    if (r == 0) {
        p->outcomes[p->count - 1].size = size;
        p->outcomes[p->count - 1].created = created;
    }
    return r;
}

static int post_bytes(struct kr_file_feed *f, const void *data, size_t len)
{
    return kr_multipart_feed(((struct posting *)f)->parser, data, len, &f->w.err);
}

static void step_finish(struct kr_fileop *w)
{
    w->r = kr_multipart_finish(posting_of(w)->parser, &w->err);
}

static void step_abort_post(struct kr_fileop *w)
{
    kr_files_upload_abort(steal_upload(posting_of(w)));
}

/* ---- on the loop ---- */

static void report_post(struct kr_fileop *w)
{
    struct posting *p = posting_of(w);
    struct kr_box *box = kr_file_api(w)->box;
    cleanup_buf struct kr_buf detail = {0};
    struct kr_json j;
    size_t named = 0;

    if (p->stored == 0 || p->reported)
        return;
    p->reported = true;
    kr_buf_init(&detail, KR_STORE_DETAIL_MAX);
    kr_json_init(&j, &detail);
    kr_json_object(&j);
    kr_json_key_uint(&j, "files", p->stored);
    kr_json_key_uint(&j, "size", p->bytes);
    kr_json_key(&j, "paths");
    kr_json_array(&j);
    for (size_t i = 0; i < p->count && named < 16 && detail.len < KR_STORE_DETAIL_MAX / 2; i++)
        if (p->outcomes[i].stored && strlen(p->outcomes[i].name) < KR_STORE_DETAIL_MAX / 8) {
            kr_json_str(&j, p->outcomes[i].name);
            named++;
        }
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    kr_box_audit(box, &w->who, "file.upload", w->sandbox.row.id, "ok",
                 kr_json_done(&j) < 0 ? NULL : kr_buf_str(&detail));
    kr_box_sandbox_touched(box, &w->sandbox);
}

static void write_stored(struct kr_json *j, const struct posting *p)
{
    kr_json_key(j, "files");
    kr_json_array(j);
    for (size_t i = 0; i < p->count; i++) {
        if (!p->outcomes[i].stored)
            continue;
        kr_json_object(j);
        kr_json_key_str(j, "path", p->outcomes[i].name);
        kr_json_key_uint(j, "size", p->outcomes[i].size);
        kr_json_key_bool(j, "created", p->outcomes[i].created);
        kr_json_object_end(j);
    }
    kr_json_array_end(j);
}

static void write_failure(struct kr_json *j, const char *name, const struct kr_err *err)
{
    char text[sizeof err->msg];
    enum kr_err_kind kind;

    kr_file_status(err, &kind);
    kr_json_object(j);
    kr_json_key_str(j, "name", name);
    kr_json_key_str(j, "kind", kr_err_row(kind)->name);
    kr_json_key_str(j, "message", kr_api_public_text(err, text));
    kr_json_object_end(j);
}

/* `why`: what ended the whole, NULL if nothing did. */
static void answer_posting(struct posting *p, const struct kr_err *why)
{
    struct kr_fileop *w = &p->feed.w;
    cleanup_buf struct kr_buf out = {0};
    struct kr_json j;

    report_post(w);
    if (p->stored == 0) {
        if (!why && p->count == 0)
            kr_file_fail_with(w, KR_ERR_INVALID, "the form has no file");
        else
            kr_file_fail_err(w, p->count > 0 ? &p->outcomes[0].err : why);
        return;
    }
    kr_buf_init(&out, KR_API_REPLY_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    write_stored(&j, p);
    kr_json_key(&j, "failed");
    kr_json_array(&j);
    for (size_t i = 0; i < p->count; i++)
        if (!p->outcomes[i].stored)
            write_failure(&j, p->outcomes[i].name, &p->outcomes[i].err);
    if (why)
        write_failure(&j, NULL, why);
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    kr_api_reply(kr_file_take(w), why || p->stored < p->count ? 207 : 201, &out);
    kr_fileop_end(w);
}

static void fail_posting(struct kr_fileop *w)
{
    struct kr_err why = w->err;

    answer_posting(posting_of(w), &why);
}

static void on_finished(struct kr_fileop *w)
{
    if (w->r < 0)
        fail_posting(w);
    else if (kr_fileop_still_there(w) < 0)
        kr_file_fail(w);
    else
        answer_posting(posting_of(w), NULL);
}

static void finish_posting(struct kr_fileop *w)
{
    kr_fileop_run(w, step_finish, on_finished);
}

static void start_posting(struct kr_fileop *w)
{
    kr_feed_accept(&posting_of(w)->feed);
}

static void free_posting(struct kr_fileop *w)
{
    struct posting *p = posting_of(w);

    kr_feed_done(&p->feed);
    kr_multipart_free(p->parser);
    for (size_t i = 0; i < p->count; i++)
        free(p->outcomes[i].name);
    free(p->outcomes);
}

static const struct kr_file_kind kind = {
    .op = {.size = sizeof(struct posting), .late = report_post, .release = step_abort_post, .done = free_posting},
    .calls = {.on_body = kr_feed_on_body, .on_body_end = kr_feed_on_body_end, .on_gone = kr_file_on_gone},
};

/* False: answered. */
static bool make_parser(struct posting *p)
{
    static const struct kr_multipart_ops ops = {on_part, on_part_data, on_part_end};
    struct kr_fileop *w = &p->feed.w;
    char boundary[KR_MULTIPART_BOUNDARY_MAX + 1];
    int r = kr_multipart_boundary(kr_http_header(kr_file_ex(w), "content-type"), boundary, &w->err);

    if (r == 0) {
        kr_err_set(&w->err, KR_ERR_INVALID, 0, "the body must be multipart/form-data; PUT takes one file as it is");
        kr_file_fail_status(w, 415, KR_ERR_INVALID, &w->err);
        return false;
    }
    if (r > 0 && !(p->parser = kr_multipart_new(boundary, PARTS_MAX, &ops, p)))
        r = kr_err_set(&w->err, KR_ERR_SYSTEM, ENOMEM, "upload");
    if (r < 0)
        kr_file_fail(w);
    return r > 0;
}

void kr_api_files_post(struct kr_http_ex *ex, void *app)
{
    struct posting *p = kr_file_new(ex, app, &kind);

    if (!p || !kr_file_caller(&p->feed.w) || !make_parser(p))
        return;
    if (!kr_file_place(&p->feed.w, kr_http_param(ex, "sandbox_id"), NULL, true))
        return;
    p->feed.take = post_bytes;
    p->feed.start = start_posting;
    p->feed.failed = fail_posting;
    p->feed.finish = finish_posting;
    kr_feed_open(&p->feed);
}

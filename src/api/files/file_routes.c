/* Handlers of files: list, read, delete, make a folder. Called through the table of routes.
 *
 * Invariant: what a request names is looked up with its owner first; the path is checked before the disk is asked. */
#include "file_request.h"
#include "buf.h"
#include "clock.h"
#include "json.h"
#include "body_read.h"
#include "reply.h"
#include <errno.h>
#include <string.h>

#define DELETE_STEPS 10000u
#define DELETE_MS 200u /* of one piece; more pieces follow until all is gone */

/* ---- reading ---- */

/* Reads query and path, opens the folder. NULL: answered. */
static struct kr_fileop *open_reading(struct kr_http_ex *ex, struct kr_api *api, const struct kr_files_query *q,
                                      const char *plain)
{
    char path[KR_FILES_PATH_MAX];
    struct kr_fileop *w = kr_file_new(ex, api, &kr_file_reading);

    if (!w || !kr_file_caller(w))
        return NULL;
    if (kr_file_read_path(plain, q->path_b64, path, &w->err) < 0) {
        kr_file_fail(w);
        return NULL;
    }
    return kr_file_place(w, kr_http_param(ex, "sandbox_id"), path, false) ? w : NULL;
}

static void read_with(struct kr_http_ex *ex, struct kr_api *api, const struct kr_files_query *q, bool list)
{
    struct kr_fileop *w = open_reading(ex, api, q, list ? q->path : kr_http_param(ex, "path"));
    char after[KR_FILES_PATH_MAX], given[KR_FILES_PATH_MAX];
    struct kr_file_reading_spec spec = {
        .list = list,
        .folder = true,
        .download = q->download,
        .recursive = q->recursive,
        .limit = (size_t)q->limit,
    };

    if (!w)
        return;
    if (q->after || q->after_b64) {
        if (kr_file_read_path(q->after, q->after_b64, given, &w->err) < 0 || kr_files_path(given, after, &w->err) < 0) {
            kr_file_fail(w);
            return;
        }
        spec.after = after;
    }
    kr_file_read(w, &spec);
}

void kr_api_files_list(struct kr_http_ex *ex, void *app)
{
    struct kr_files_query q;
    cleanup_input struct kr_api_input in;

    if (kr_api_read_query(ex, &kr_files_list_query, &q, &in))
        read_with(ex, app, &q, true);
}

void kr_api_files_get(struct kr_http_ex *ex, void *app)
{
    struct kr_files_query q;
    cleanup_input struct kr_api_input in;

    if (kr_api_read_query(ex, &kr_files_get_query, &q, &in))
        read_with(ex, app, &q, false);
}

/* ---- deleting ---- */

struct deleting {
    struct kr_fileop w;
    bool tree, begun;
};

static void step_delete(struct kr_fileop *w)
{
    struct kr_files_budget budget = {.steps = DELETE_STEPS, .deadline_ns = kr_clock_after_ms(DELETE_MS)};

    w->r = kr_files_delete(w->ws, w->path, ((struct deleting *)w)->tree, &budget, &w->err);
}

/* A piece is over: what is gone is gone, also when the rest cannot be. */
static void report_deleted(struct kr_fileop *w)
{
    struct deleting *d = (struct deleting *)w;

    kr_quota_stale(kr_file_home(w), w->user);
    if (w->r == 0)
        kr_fileop_changed(w, "file.delete", "ok", w->path, -1);
    else if (d->tree || d->begun)
        kr_fileop_changed(w, "file.delete", kr_file_ex(w) ? "failed" : "left", w->path, -1);
}

static void on_file_deleted(struct kr_fileop *w)
{
    if (w->r == 1) {
        ((struct deleting *)w)->begun = true;
        kr_fileop_run(w, step_delete, on_file_deleted);
        return;
    }
    report_deleted(w);
    if (w->r < 0) {
        kr_file_missing(&w->err, false);
        kr_file_fail(w);
        return;
    }
    kr_api_reply_nothing(kr_file_take(w));
    kr_fileop_end(w);
}

void kr_api_files_delete(struct kr_http_ex *ex, void *app)
{
    static const struct kr_file_kind kind = {.op = {.size = sizeof(struct deleting), .late = report_deleted},
                                             .calls = {.on_gone = kr_file_on_gone}};
    char path[KR_FILES_PATH_MAX];
    struct kr_files_query q;
    cleanup_input struct kr_api_input in;
    struct kr_fileop *w;

    if (!kr_api_read_query(ex, &kr_files_delete_query, &q, &in))
        return;
    w = kr_file_new(ex, app, &kind);
    if (!w || !kr_file_caller(w))
        return;
    if (kr_file_read_path(kr_http_param(ex, "path"), q.path_b64, path, &w->err) < 0) {
        kr_file_fail(w);
        return;
    }
    if (!kr_file_place(w, kr_http_param(ex, "sandbox_id"), path, false))
        return;
    if (!w->path[0]) {
        kr_file_fail_with(w, KR_ERR_INVALID, "path: that is the workspace itself; reset the sandbox to empty it");
        return;
    }
    ((struct deleting *)w)->tree = q.recursive;
    kr_fileop_run(w, step_delete, on_file_deleted);
}

/* ---- folders ---- */

struct making {
    struct kr_fileop w;
    bool created;
};

static void step_mkdir(struct kr_fileop *w)
{
    struct making *m = (struct making *)w;
    struct kr_file_info info;

    m->created = kr_files_stat(w->ws, w->path, &info, &w->err) == -ENOENT;
    w->r = kr_files_mkdir(w->ws, w->path, &w->err);
}

static void report_made(struct kr_fileop *w)
{
    if (w->r >= 0 && ((struct making *)w)->created)
        kr_fileop_changed(w, "folder.create", "ok", w->path, -1);
}

static void on_folder_made(struct kr_fileop *w)
{
    const struct making *m = (struct making *)w;
    cleanup_buf struct kr_buf out = {0};
    struct kr_json j;

    if (w->r < 0) {
        kr_file_fail(w);
        return;
    }
    report_made(w);
    kr_buf_init(&out, KR_API_REPLY_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "path", w->path);
    kr_json_key_bool(&j, "created", m->created);
    kr_json_object_end(&j);
    kr_api_reply(kr_file_take(w), m->created ? 201 : 200, &out);
    kr_fileop_end(w);
}

static void make_file_folder(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    static const struct kr_file_kind kind = {.op = {.size = sizeof(struct making), .late = report_made},
                                             .calls = {.on_gone = kr_file_on_gone}};
    const struct kr_folder_request *q = request;
    struct kr_fileop *w = kr_file_new(ex, app, &kind);

    (void)in;
    if (w && kr_file_caller(w) && kr_file_place(w, kr_http_param(ex, "sandbox_id"), q->path, true))
        kr_fileop_run(w, step_mkdir, on_folder_made);
}

void kr_api_folders_post(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &kr_folder_table, make_file_folder);
}

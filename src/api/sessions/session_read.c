/* GET of one session, with the files of its workspace.
 *
 * Called through the route table. Invariant: the workspace is listed on the thread pool, into memory that the job owns,
 * since exchange and session may both be gone before it is done. */
#include "buf.h"
#include "clock.h"
#include "fd.h"
#include "files.h"
#include "json.h"
#include "reply.h"
#include "report.h"
#include "session.h"
#include "session_routes.h"
#include "session_routes_internal.h"
#include "work.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 1000u /* listed with a session */
#define FILES_MS 2000u  /* that the listing may take */

struct reading {
    struct kr_work work;
    struct kr_http_ex *ex;
    int folder; /* owned */
    struct kr_buf buf;
    struct kr_json j; /* an object is open in it, with what is known of the session */
    struct kr_err err;
    int r;
};

static void write_files(struct kr_json *j, const struct kr_files_list *list)
{
    char path[KR_FILES_PATH_MAX + sizeof KR_API_WORKSPACE + 1];
    uint64_t total = 0;

    kr_json_key(j, "files");
    kr_json_array(j);
    for (size_t i = 0; i < list->count; i++) {
        const struct kr_files_entry *e = &list->entries[i];
        const char *slash = strrchr(e->path, '/');

        if (e->info.type != KR_FILE_REGULAR)
            continue;
        total++;
        snprintf(path, sizeof path, KR_API_WORKSPACE "/%s", e->path);
        kr_json_object(j);
        kr_json_key_str(j, "id", e->path);
        kr_json_key_str(j, "filename", slash ? slash + 1 : e->path);
        kr_json_key_bool(j, "exists", true);
        kr_json_key_uint(j, "size", e->info.size);
        kr_json_key_str(j, "path", path);
        kr_json_object_end(j);
    }
    kr_json_array_end(j);
    kr_json_key_uint(j, "total_files", total);
    kr_json_key_bool(j, "files_incomplete", list->more || list->incomplete);
}

static void run_reading(void *data)
{
    struct reading *r = data;
    struct kr_files_list_spec spec = {
        .recursive = true, .limit = FILES_MAX, .deadline_ns = kr_clock_after_ms(FILES_MS)};
    struct kr_files_list list;

    r->r = kr_files_list(r->folder, "", &spec, &list, &r->err);
    if (r->r < 0)
        return;
    write_files(&r->j, &list);
    kr_json_object_end(&r->j);
    kr_files_list_done(&list);
}

static void free_reading(void *data)
{
    struct reading *r = data;

    kr_fd_close(r->folder);
    kr_buf_done(&r->buf);
    free(r);
}

static void on_reading_done(void *data)
{
    struct reading *r = data;

    if (r->r < 0)
        kr_api_fail(r->ex, &r->err);
    else
        kr_api_reply(r->ex, 200, &r->buf);
    free_reading(r);
}

static void on_reading_gone(void *data, struct kr_http_ex *ex)
{
    struct reading *r = data;

    (void)ex;
    kr_work_drop(&r->work);
}

/* What the engine knows; the files come later. */
static void begin_detail(struct reading *r, const struct kr_box_session_info *s, const struct kr_sandbox *sandbox)
{
    kr_buf_init(&r->buf, KR_API_REPLY_MAX);
    kr_json_init(&r->j, &r->buf);
    kr_json_object(&r->j);
    kr_api_session_write(&r->j, s);
    kr_json_key_str(&r->j, "python", s->session ? kr_session_python(s->session) : NULL);
    kr_json_key(&r->j, "limits");
    kr_report_limits(&r->j, s->session ? kr_session_limits(s->session) : &sandbox->limits);
}

void kr_api_sessions_read(struct kr_http_ex *ex, void *app)
{
    static const struct kr_http_calls calls = {.on_gone = on_reading_gone};
    static const struct kr_work_calls work = {.run = run_reading, .done = on_reading_done, .dropped = free_reading};
    struct kr_api *api = app;
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_box_session_info info;
    struct reading *r;
    struct kr_api_session_asked a;
    struct kr_err err;
    int folder;

    if (!kr_api_session_find(api, ex, &a, &info))
        return;
    folder = kr_box_sandbox_find(api->box, &a.who.caller, info.sandbox, &s, &err);
    if (folder == 0)
        folder = kr_box_sandbox_folder(api->box, &s, &err);
    if (folder < 0) {
        kr_api_fail(ex, &err);
        return;
    }
    r = calloc(1, sizeof *r);
    if (!r) {
        kr_fd_close(folder);
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for a listing");
        return;
    }
    *r = (struct reading){.ex = ex, .folder = folder};
    begin_detail(r, &info, &s);
    kr_work_start(api->loop, &r->work, &work, r);
    kr_http_defer(ex, &calls, r);
}

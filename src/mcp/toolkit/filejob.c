/* The life of a call's work on files: its sandbox, its pieces on the thread pool, its end. Called by the tools, resources and
 * completions that touch a workspace.
 *
 * Invariants: a job is freed once, on the loop, never while a piece of it runs; after its call is gone nothing of the call is
 * touched, and after kr_api_files_free() nothing of the server. Jobs count among the works of src/api/files/file_work.c, whose
 * bound they share. */
#include "filejob.h"
#include "buf.h"
#include "fd.h"
#include "file_work.h"
#include "json.h"
#include "mcp_internal.h"
#include "resource.h"
#include "store_audit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_cancel(void *data, struct kr_mcp_call *c)
{
    struct kr_mcp_job *j = data;

    (void)c;
    j->call = NULL;
    j->mcp = NULL;
    kr_mcp_job_end(j);
}

void *kr_mcp_job_new(struct kr_mcp_call *c, const struct kr_mcp_job_kind *kind, struct kr_err *err)
{
    const struct kr_caller *who = kr_mcp_caller(c);
    struct kr_api_files *f = kr_mcp_api(c)->files;
    struct kr_mcp_job *j;

    if (!f || f->work_count >= KR_FILE_WORKS_MAX) {
        kr_err_set(err, KR_ERR_BUSY, 0, "too many files are being read and written: try again in a moment");
        return NULL;
    }
    j = calloc(1, kind->size);
    if (!j) {
        kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "work on files");
        return NULL;
    }
    j->kind = kind;
    j->files = f;
    f->refs++;
    f->work_count++;
    j->call = c;
    j->mcp = kr_mcp_of(c);
    snprintf(j->user, sizeof j->user, "%s", who->user);
    snprintf(j->address, sizeof j->address, "%s", who->address ? who->address : "");
    snprintf(j->request, sizeof j->request, "%s", who->request ? who->request : "");
    j->who = (struct kr_caller){.user = j->user, .rights = who->rights, .address = j->address, .request = j->request};
    j->ws = -1;
    kr_mcp_on_cancel(c, on_cancel, j);
    return j;
}

const char *kr_mcp_job_inside(const struct kr_mcp_job *j, const char *path)
{
    const char *folder = kr_mcp_is_local(j->call) ? kr_mcp_config(j->mcp)->workspace : NULL;
    size_t len = folder ? strlen(folder) : 0;

    if (len == 0 || strcmp(j->sandbox.row.name, KR_STORE_DEFAULT) != 0 || strncmp(path, folder, len) != 0 ||
        (path[len] != '/' && path[len] != '\0'))
        return path;
    return path + len + strspn(path + len, "/");
}

int kr_mcp_job_place(struct kr_mcp_job *j, const char *sandbox, const char *path, bool made)
{
    struct kr_box *box = j->files->api->box;
    int r = kr_box_sandbox_find(box, &j->who, sandbox, &j->sandbox, &j->err);

    if (r >= 0 && path) {
        path = kr_mcp_job_inside(j, path);
        r = made ? kr_files_new_path(path, j->path, &j->err) : kr_files_path(path, j->path, &j->err);
    }
    if (r >= 0 && made && j->sandbox.row.state == KR_STORE_SANDBOX_FROZEN)
        r = kr_err_set(&j->err, KR_ERR_CONFLICT, 0, "the sandbox is frozen: its files can be read and deleted only");
    if (r >= 0)
        r = j->ws = kr_box_sandbox_folder(box, &j->sandbox, &j->err);
    return r < 0 ? r : 0;
}

int kr_mcp_job_still_there(struct kr_mcp_job *j)
{
    cleanup_box_sandbox struct kr_sandbox now = {0};
    int r = kr_box_sandbox_find(j->files->api->box, &j->who, j->sandbox.row.id, &now, &j->err);

    if (r < 0)
        return r;
    if (strcmp(now.row.folder, j->sandbox.row.folder) == 0)
        return 0;
    kr_err_set(&j->err, KR_ERR_CONFLICT, 0, "the sandbox was reset meanwhile");
    return -ENOENT;
}

static void release(struct kr_mcp_job *j)
{
    kr_sandbox_done(&j->sandbox);
    kr_fd_close(j->ws);
    if (j->kind->done)
        j->kind->done(j);
    j->files->work_count--;
    kr_api_files_unref(j->files);
    free(j);
}

/* On the thread pool. */
static void run_step(void *data)
{
    struct kr_mcp_job *j = data;

    j->step(j);
}

static void on_step_done(void *data)
{
    struct kr_mcp_job *j = data;

    j->busy = false;
    if (j->call && j->files->api) {
        j->then(j);
        return;
    }
    if (j->kind->late && j->files->api)
        j->kind->late(j);
    kr_mcp_job_end(j);
}

void kr_mcp_job_run(struct kr_mcp_job *j, kr_mcp_job_fn *step, kr_mcp_job_fn *then)
{
    static const struct kr_work_calls calls = {.run = run_step, .done = on_step_done};

    j->step = step;
    j->then = then;
    j->busy = true;
    kr_work_start(j->files->loop, &j->work, &calls, j);
}

struct kr_mcp_call *kr_mcp_job_take(struct kr_mcp_job *j)
{
    if (j->call)
        kr_mcp_on_cancel(j->call, NULL, NULL);
    return steal_ptr(&j->call);
}

void kr_mcp_job_end(struct kr_mcp_job *j)
{
    if (!j->busy)
        release(j);
}

/* ---- telling ---- */

void kr_mcp_job_wrote(struct kr_mcp_job *j, const char *path, uint64_t size)
{
    struct kr_box *box = j->files->api->box;
    cleanup_buf struct kr_buf detail = {0};
    struct kr_json json;

    kr_buf_init(&detail, KR_STORE_DETAIL_MAX);
    kr_json_init(&json, &detail);
    kr_json_object(&json);
    kr_files_json_path(&json, "path", path);
    kr_json_key_uint(&json, "size", size);
    kr_json_object_end(&json);
    kr_box_audit(box, &j->who, "file.write", j->sandbox.row.id, "ok",
                 kr_json_done(&json) < 0 ? "{\"path\":null}" : kr_buf_str(&detail));
    kr_box_sandbox_touched(box, &j->sandbox);
    if (j->mcp)
        kr_mcp_file_changed(j->mcp, j->user, j->sandbox.row.id, j->sandbox.row.name, path);
}

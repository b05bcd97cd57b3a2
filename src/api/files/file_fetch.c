/* One file by its address, as a job.
 *
 * Called by fetch_route.c and file_fetches.c. The bytes are written by the egress process, into a temporary file of the
 * workspace whose descriptor it is given; at their end the file takes its name. What may be reached is what the
 * sandbox's own network and the server's fetch_network allow together. Invariants: until the end nothing is seen of the
 * file, and a fetch that fails or is cancelled leaves nothing; bytes are charged to the user's disk account as they
 * come; a job ends once, from the loop. */
#include "file_fetch.h"
#include "buf.h"
#include "egress_client.h"
#include "fd.h"
#include "file_request.h"
#include "json.h"
#include "loop.h"
#include "utf8.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_ROOM 256u
#define UNNAMED "download"
#define RESULT_MAX (64u << 10)
#define JOBS_LOOKED_AT 200u /* for the file that an id was */

struct fetching {
    struct kr_fileop op; /* its peer is the job */
    struct kr_egress_ask ask;
    struct kr_quota_share share;
    struct kr_soon *soon; /* ends the job with `why` */
    struct kr_files_upload *upload;
    struct kr_net_rule rule;
    char *url, *type;
    char dest[KR_FILES_PATH_MAX], name[NAME_ROOM], sha256[65];
    char present[KR_FILES_PATH_MAX]; /* what the id was; "": it was none */
    bool into_folder, keep, is_present, existed, stored, failing, cancelled;
    uint64_t timeout_ms, max, size, old_size;
    struct kr_err why;
};

static struct fetching *fetching_of(struct kr_fileop *op)
{
    return (struct fetching *)op;
}

/* ---- the end ---- */

/* The job is left: what is under way is given up. */
static void drop_fetching(struct fetching *f)
{
    kr_egress_cancel(kr_box_config(f->op.ops->box)->egress, &f->ask);
    f->op.peer = NULL;
    kr_fileop_end(&f->op);
}

static void end_fetching(struct fetching *f, const struct kr_err *err)
{
    enum kr_cause cause = !err ? KR_CAUSE_OK : f->cancelled ? KR_CAUSE_CANCELLED : KR_CAUSE_EXCEPTION;
    struct kr_err why = err ? *err : (struct kr_err){0};
    struct kr_job *job = f->op.peer;

    drop_fetching(f);
    kr_job_end(job, cause, err ? &why : NULL);
}

static void on_failed_soon(void *data)
{
    struct fetching *f = data;

    if (f->op.peer)
        end_fetching(f, &f->why);
}

/* For callers from which a job must not end. */
static void fail_soon(struct fetching *f, const struct kr_err *err)
{
    if (f->failing)
        return;
    f->failing = true;
    f->why = *err;
    kr_soon_ask(f->soon);
}

/* ---- names ---- */

/* The last part of what a server called the file, harmless as a name here: no way into a folder, nothing hidden. */
static void set_safe_name(struct fetching *f, const char *given)
{
    const char *last = given;
    size_t len;

    for (const char *p = given; *p; p++)
        if (*p == '/' || *p == '\\')
            last = p + 1;
    while (*last == '.' || *last == ' ')
        last++;
    snprintf(f->name, sizeof f->name, "%s", last);
    len = kr_utf8_complete(f->name, strlen(f->name));
    f->name[len] = '\0';
    for (char *p = f->name; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '_';
    if (!f->name[0])
        snprintf(f->name, sizeof f->name, UNNAMED);
}

/* ---- on the thread pool ---- */

static void step_begin_fetch(struct kr_fileop *op)
{
    struct fetching *f = fetching_of(op);
    struct kr_file_info info;
    struct kr_err ignored;

    op->r = 0;
    if (f->present[0] && kr_files_stat(op->ws, f->present, &info, &ignored) == 0) {
        f->is_present = true;
        return;
    }
    if (kr_files_stat(op->ws, f->dest, &info, &ignored) == 0 && info.type == KR_FILE_FOLDER)
        f->into_folder = true;
    else if (f->keep && !f->into_folder && kr_files_stat(op->ws, f->dest, &info, &ignored) == 0)
        op->r = kr_err_set(&op->err, KR_ERR_CONFLICT, EEXIST, "%.200s is there already", f->dest);
    if (op->r >= 0)
        op->r = kr_files_upload_begin(op->ws, f->into_folder ? UNNAMED : f->dest, f->max, &f->upload, &op->err);
    op->unfinished = f->upload != NULL;
    if (f->upload)
        f->max = kr_files_upload_room(f->upload);
}

static int settle_fetch(struct fetching *f)
{
    struct kr_fileop *op = &f->op;
    char path[KR_FILES_PATH_MAX];
    struct kr_file_info info;
    struct kr_err ignored;
    int n = f->into_folder ? snprintf(path, sizeof path, "%s%s%s", f->dest, f->dest[0] ? "/" : "", f->name)
                           : snprintf(path, sizeof path, "%s", f->dest);

    if (n >= (int)sizeof path)
        return kr_err_set(&op->err, KR_ERR_INVALID, 0, "path: longer than %u bytes", KR_FILES_PATH_MAX - 1);
    n = kr_files_new_path(path, op->path, &op->err);
    if (n < 0)
        return n;
    f->existed = kr_files_stat(op->ws, op->path, &info, &ignored) == 0;
    f->old_size = f->existed && info.type == KR_FILE_REGULAR ? info.size : 0;
    return kr_files_upload_settle(f->upload, op->path, &op->err);
}

static void step_store_fetch(struct kr_fileop *op)
{
    struct fetching *f = fetching_of(op);

    op->r = settle_fetch(f);
    if (op->r < 0)
        return;
    f->size = kr_files_upload_size(f->upload);
    op->r = f->keep ? kr_files_upload_create(f->upload, &op->err) : kr_files_upload_commit(f->upload, &op->err);
    f->upload = NULL;
    op->unfinished = false;
    f->stored = op->r >= 0;
}

static void step_abort_fetch(struct kr_fileop *op)
{
    kr_files_upload_abort(fetching_of(op)->upload);
    fetching_of(op)->upload = NULL;
}

/* ---- on the loop ---- */

static void tell_fetched(struct kr_fileop *op)
{
    struct fetching *f = fetching_of(op);

    if (!f->stored)
        return;
    f->share.kept = (int64_t)f->size - (int64_t)f->old_size;
    kr_fileop_changed(op, "file.write", "ok", op->path, (int64_t)f->size);
}

static void keep_result(struct fetching *f)
{
    const char *slash = strrchr(f->op.path, '/');
    cleanup_buf struct kr_buf out;
    struct kr_json j;

    kr_buf_init(&out, RESULT_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "path", f->is_present ? f->present : f->op.path);
    if (f->is_present) {
        kr_json_key_bool(&j, "present", true);
    } else {
        kr_json_key_str(&j, "name", slash ? slash + 1 : f->op.path);
        kr_json_key_uint(&j, "size", f->size);
        kr_json_key_str(&j, "type", f->type);
        kr_json_key_str(&j, "sha256", f->sha256);
        kr_json_key_bool(&j, "created", !f->existed);
    }
    kr_json_key_str(&j, "url", f->url);
    kr_json_object_end(&j);
    if (kr_json_done(&j) >= 0)
        (void)kr_job_set_result(f->op.peer, kr_buf_str(&out)); /* without memory: without it */
}

static void on_stored_fetch(struct kr_fileop *op)
{
    struct fetching *f = fetching_of(op);

    if (op->r < 0) {
        end_fetching(f, &op->err);
        return;
    }
    tell_fetched(op);
    keep_result(f);
    kr_job_progress(op->peer, f->size, f->size, "stored");
    end_fetching(f, NULL);
}

/* Of what has come: several uploads at once share what is left. 0 or -errno. */
static int charge_fetch(struct fetching *f, uint64_t bytes, struct kr_err *err)
{
    return bytes > f->share.charged ? kr_quota_charge(&f->share, bytes - f->share.charged, err) : 0;
}

static void on_fetch_progress(struct kr_egress_ask *ask, uint64_t bytes, uint64_t total)
{
    struct fetching *f = (struct fetching *)((char *)ask - offsetof(struct fetching, ask));
    struct kr_err err;

    if (charge_fetch(f, bytes, &err) < 0) {
        fail_soon(f, &err);
        return;
    }
    kr_job_progress(f->op.peer, bytes, total, "downloading");
}

static int take_fetched(struct fetching *f, const struct kr_egress_fetched *fetched, struct kr_err *err)
{
    if (fetched->status != 200)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "the server answered with status %u", fetched->status),
               -EHOSTUNREACH;
    if (charge_fetch(f, fetched->bytes, err) < 0)
        return -EDQUOT;
    set_safe_name(f, fetched->name);
    f->type = strdup(fetched->type);
    if (!f->type)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "fetch");
    snprintf(f->sha256, sizeof f->sha256, "%s", fetched->sha256);
    return kr_fileop_still_there(&f->op) < 0 ? (*err = f->op.err, -ENOENT) : 0;
}

static void on_fetch_end(struct kr_egress_ask *ask, const struct kr_egress_fetched *fetched, const struct kr_err *err)
{
    struct fetching *f = (struct fetching *)((char *)ask - offsetof(struct fetching, ask));
    struct kr_err why;

    if (!fetched && err->kind == KR_ERR_DENIED) {
        kr_err_set(&why, KR_ERR_DENIED, 0, "%.170s (the sandbox's network or the server's fetch_network must allow it)",
                   err->msg);
        fail_soon(f, &why);
    } else if (!fetched) {
        fail_soon(f, err);
    } else if (!f->failing && take_fetched(f, fetched, &why) < 0) {
        fail_soon(f, &why);
    } else if (!f->failing) {
        kr_fileop_run(&f->op, step_store_fetch, on_stored_fetch);
    }
}

static void on_begun_fetch(struct kr_fileop *op)
{
    struct fetching *f = fetching_of(op);
    struct kr_egress_fetch fetch = {.url = f->url,
                                    .rule = f->rule,
                                    .sandbox = op->sandbox.row.id,
                                    .user = op->user,
                                    .max_bytes = f->max,
                                    .timeout_ms = f->timeout_ms};

    if (op->r < 0) {
        end_fetching(f, &op->err);
        return;
    }
    if (f->failing)
        return; /* its end is on the way */
    if (f->is_present) {
        keep_result(f);
        end_fetching(f, NULL);
        return;
    }
    fetch.file = kr_files_upload_fd(f->upload);
    if (kr_egress_fetch(kr_box_config(op->ops->box)->egress, &fetch, &f->ask, &op->err) < 0)
        end_fetching(f, &op->err);
}

static void on_fetch_account_ready(struct kr_quota_share *share)
{
    struct fetching *f = (struct fetching *)((char *)share - offsetof(struct fetching, share));
    struct kr_err err;

    if (kr_quota_room(share, 1, &err) < 0)
        fail_soon(f, &err);
    else if (!f->failing)
        kr_fileop_run(&f->op, step_begin_fetch, on_begun_fetch);
}

static void free_fetching(struct kr_fileop *op)
{
    struct fetching *f = fetching_of(op);

    kr_quota_leave(&f->share);
    kr_soon_close(f->soon);
    free(f->url);
    free(f->type);
}

/* ---- the job ---- */

static int start_fetch_job(struct kr_job *job, void *app, struct kr_err *err)
{
    struct kr_api_files *files = app;
    struct fetching *f = files->fetch_to_start;

    files->fetch_to_start = NULL;
    if (!f)
        return kr_err_set(err, KR_ERR_INTERNAL, EINVAL, "a fetch without its address");
    f->op.peer = job;
    kr_job_set_data(job, f);
    if (kr_quota_join(files, &f->op.who, &f->share, on_fetch_account_ready, &f->why) < 0) {
        f->failing = true;
        kr_soon_ask(f->soon);
    }
    return 0;
}

static void cancel_fetch_job(struct kr_job *job)
{
    struct fetching *f = kr_job_data(job);
    struct kr_err err;

    kr_err_set(&err, KR_ERR_CONFLICT, 0, "cancelled");
    f->cancelled = true;
    fail_soon(f, &err);
}

static void close_fetch_job(struct kr_job *job)
{
    drop_fetching(kr_job_data(job));
}

const struct kr_job_kind kr_file_fetch_kind = {
    .name = "files.fetch",
    .help = "Fetches a file by its address into a sandbox.",
    .user_max = 64,
    .start = start_fetch_job,
    .cancel = cancel_fetch_job,
    .close = close_fetch_job,
};

/* ---- asking ---- */

/* What one of the two allows. Of two lists that do not fit into one, the sandbox's. */
static int join_rules(const struct kr_net_rule *own, const struct kr_net_rule *more, struct kr_net_rule *ret,
                      struct kr_err *err)
{
    if (own->kind < KR_NET_ALLOW && more->kind < KR_NET_ALLOW)
        return kr_err_set(err, KR_ERR_DENIED, 0,
                          "the sandbox's network is %s, so no address is fetched: set its network to allow:HOST, or "
                          "have the server's fetch_network name the host; or upload the file",
                          kr_net_kind_names[own->kind]),
               -EACCES;
    *ret = own->kind >= more->kind ? *own : *more;
    if (own->kind == KR_NET_ALLOW && more->kind == KR_NET_ALLOW) {
        char both[2 * KR_NET_RULE_ROOM];
        struct kr_net_rule joined;

        snprintf(both, sizeof both, "allow:%s,%s", own->hosts, more->hosts);
        if (kr_net_rule_parse(both, &joined, NULL) >= 0)
            *ret = joined;
    }
    return 0;
}

static bool is_address(const char *url)
{
    return (strncmp(url, "https://", 8) == 0 && url[8]) || (strncmp(url, "http://", 7) == 0 && url[7]);
}

struct finding {
    struct kr_api *api;
    const char *id;
    struct fetching *f;
};

/* The last fetch of that id that ended well says where its file is. */
static bool on_job_about(void *data, const struct kr_store_job *row)
{
    struct finding *find = data;
    json_t *params, *result = NULL;
    char *text = NULL;
    struct kr_err ignored;
    const char *id, *path;

    if (strcmp(row->kind, kr_file_fetch_kind.name) != 0 || strcmp(row->cause, "ok") != 0)
        return true;
    params = json_loads(row->params, 0, NULL);
    id = json_string_value(json_object_get(params, "id"));
    if (id && strcmp(id, find->id) == 0 && kr_jobs_result(find->api->jobs, row->id, &text, &ignored) == 0)
        result = json_loads(text, 0, NULL);
    path = json_string_value(json_object_get(result, "path"));
    if (path)
        snprintf(find->f->present, sizeof find->f->present, "%s", path);
    json_decref(params);
    json_decref(result);
    free(text);
    return !path;
}

static int fill_fetching(struct fetching *f, struct kr_api *api, const struct kr_file_fetch_ask *ask)
{
    struct kr_err *err = &f->op.err;
    struct finding find = {api, ask->id, f};
    size_t len = ask->path ? strlen(ask->path) : 0;
    int r;

    if (!is_address(ask->url) || strlen(ask->url) > KR_FILE_FETCH_URL_MAX)
        return kr_err_set(err, KR_ERR_INVALID, 0, "url: must begin with https:// or http://, and have at most %u bytes",
                          KR_FILE_FETCH_URL_MAX),
               -EINVAL;
    if ((r = kr_fileop_find(&f->op, ask->sandbox)) < 0 || (r = kr_fileop_open(&f->op)) < 0 ||
        (r = kr_files_path(ask->path ? ask->path : "", f->dest, err)) < 0 ||
        (r = join_rules(&f->op.sandbox.network, &kr_box_config(api->box)->fetch_network, &f->rule, err)) < 0)
        return r;
    if (!kr_box_config(api->box)->egress)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "this server has no way out, so no address is fetched"),
               -ENOTCONN;
    f->into_folder = len == 0 || ask->path[len - 1] == '/';
    f->keep = ask->keep;
    f->timeout_ms = ask->timeout_ms;
    f->max = api->config.max_upload;
    f->ask = (struct kr_egress_ask){.on_progress = on_fetch_progress, .on_end = on_fetch_end};
    f->url = strdup(ask->url);
    if (!f->url || kr_soon_new(api->loop, on_failed_soon, f, &f->soon) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "fetch");
    return ask->id ? kr_store_jobs_about(api->store, f->op.user, f->op.sandbox.row.id, JOBS_LOOKED_AT, on_job_about,
                                         &find, err)
                   : 0;
}

int kr_file_fetch_start(struct kr_api *api, const struct kr_caller *who, const struct kr_file_fetch_ask *ask,
                        struct kr_job **ret_job, struct kr_err *err)
{
    static const struct kr_fileop_kind op_kind = {
        .size = sizeof(struct fetching), .late = tell_fetched, .release = step_abort_fetch, .done = free_fetching};
    struct fetching *f = api->files ? kr_fileop_new(&api->files->ops, &op_kind, api, err) : NULL;
    json_t *params = json_pack("{ss*}", "id", ask->id);
    cleanup_free char *text = params ? json_dumps(params, JSON_COMPACT) : NULL;
    struct kr_job_spec spec = {.kind = kr_file_fetch_kind.name,
                               .owner = who->user,
                               .params = text,
                               .address = who->address,
                               .request = who->request};
    int r;

    json_decref(params);
    if (!f)
        return api->files ? -EBUSY : kr_err_set(err, KR_ERR_BUSY, 0, "the server is stopping");
    kr_fileop_set_caller(&f->op, who);
    r = fill_fetching(f, api, ask);
    if (r < 0)
        *err = f->op.err;
    spec.subject = f->op.sandbox.row.id;
    api->files->fetch_to_start = f;
    if (r >= 0)
        r = kr_job_start(api->jobs, &spec, ret_job, err);
    if (r < 0) {
        api->files->fetch_to_start = NULL;
        f->op.peer = NULL;
        kr_fileop_end(&f->op);
    }
    return r < 0 ? r : 0;
}

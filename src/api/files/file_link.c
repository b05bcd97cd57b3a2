/* Handlers of links: making one, following one, and /sandbox/file of document 004 (mcp-sandbox). Called through the
 * table of routes.
 *
 * Invariant: a request that shows a token is served by that token or not at all, whatever key it shows: pages of
 * other sites are let in for its sake (kr_api_is_link()). A link acts as its owner, with the right to read alone. */
#include "file_request.h"
#include "buf.h"
#include "json.h"
#include "links.h"
#include "query.h"
#include "body_read.h"
#include "reply.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

struct linking {
    struct kr_fileop w;
    uint64_t seconds;
    bool download;
    struct kr_file_info info;
};

static void step_stat(struct kr_fileop *w)
{
    struct linking *l = (struct linking *)w;

    w->r = kr_files_stat(w->ws, w->path, &l->info, &w->err);
    if (w->r >= 0 && l->info.type != KR_FILE_REGULAR)
        w->r = kr_err_set(&w->err, KR_ERR_INVALID, 0, "path: only a regular file can be linked");
}

static void write_link(struct kr_json *j, const struct kr_fileop *w, const char *url, int64_t expires)
{
    kr_json_object(j);
    kr_json_key_str(j, "url", url);
    kr_files_json_path(j, "path", w->path);
    kr_json_key_int(j, "expires_at", expires);
    kr_json_object_end(j);
}

static void on_link_stat(struct kr_fileop *w)
{
    struct linking *l = (struct linking *)w;
    struct kr_api *api = kr_file_api(w);
    cleanup_buf struct kr_buf url = {0}, out = {0};
    struct kr_json j;
    int64_t expires;

    kr_buf_init(&url, KR_API_REPLY_MAX);
    kr_buf_init(&out, KR_API_REPLY_MAX);
    if (w->r >= 0)
        w->r = kr_link_add(api, kr_file_ex(w), w->sandbox.row.owner, w->sandbox.row.id, w->path, l->seconds, &url,
                           &expires, &w->err);
    if (w->r < 0) {
        kr_file_missing(&w->err, false);
        kr_file_fail(w);
        return;
    }
    if (l->download)
        kr_query_add(&url, "download", "1");
    kr_json_init(&j, &out);
    write_link(&j, w, kr_buf_str(&url), expires);
    kr_box_audit(api->box, &w->who, "link.create", w->sandbox.row.id, "ok", NULL);
    kr_api_reply(kr_file_take(w), 201, &out);
    kr_fileop_end(w);
}

static void make_link(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    static const struct kr_file_kind kind = {.op.size = sizeof(struct linking), .calls = {.on_gone = kr_file_on_gone}};
    const struct kr_link_request *q = request;
    const struct kr_api *api = app;
    uint64_t most = kr_api_link_most_s(api);
    char path[KR_FILES_PATH_MAX];
    struct linking *l;
    struct kr_err err;

    if (q->expires_given && (uint64_t)q->expires_in > most) {
        kr_api_refuse(in, "expires_in", &err, "must be at most %llu here", (unsigned long long)most);
        kr_api_fail_input(ex, in, &err);
        return;
    }
    if (!q->path == !q->path_b64) {
        kr_api_refuse(in, "path", &err, "is needed (or path_b64, but not both)");
        kr_api_fail_input(ex, in, &err);
        return;
    }
    l = kr_file_new(ex, app, &kind);
    if (!l || !kr_file_caller(&l->w))
        return;
    if (kr_file_read_path(q->path, q->path_b64, path, &l->w.err) < 0) {
        kr_file_fail(&l->w);
        return;
    }
    l->seconds = (uint64_t)q->expires_in;
    l->download = q->download;
    if (kr_file_place(&l->w, kr_http_param(ex, "sandbox_id"), path, false))
        kr_fileop_run(&l->w, step_stat, on_link_stat);
}

void kr_api_links_post(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &kr_link_table, make_link);
}

/* ---- following ---- */

/* The link's owner becomes the caller. 0 or -errno with w->err. */
static int act_for_owner(struct kr_fileop *w, const char *token, const char *path, struct kr_link *ret)
{
    struct kr_store_user owner;
    char relative[KR_FILES_PATH_MAX], address[KR_HTTP_PEER_MAX];
    int r = kr_files_path(path, relative, &w->err);

    if (r >= 0)
        r = kr_link_check(kr_file_home(w)->link_key, token, relative, kr_store_now() / 1000000, ret, &w->err);
    if (r < 0)
        return r;
    r = kr_store_user_get(kr_file_api(w)->store, ret->owner, &owner, &w->err);
    if (r == -ENOENT || (r >= 0 && owner.disabled))
        return kr_err_set(&w->err, KR_ERR_NOT_FOUND, 0, "there is no such link"), -ENOENT;
    kr_fileop_set_caller(w, &(struct kr_caller){.user = ret->owner,
                                                .rights = KR_RIGHT_READ,
                                                .address = kr_http_peer(kr_file_ex(w), address),
                                                .request = kr_http_request_id(kr_file_ex(w)),
                                                .profile = kr_api_profile(kr_file_api(w), kr_file_ex(w))});
    return r;
}

/* `sandbox`: the one the request names; NULL: the token does. */
static void follow_link(struct kr_fileop *w, const char *token, const char *sandbox, const char *path, bool download)
{
    struct kr_link link;

    if (act_for_owner(w, token, path, &link) < 0) {
        kr_file_fail(w);
        return;
    }
    if (sandbox && strcmp(sandbox, link.sandbox) != 0) {
        kr_file_fail_with(w, KR_ERR_NOT_FOUND, "there is no such link");
        return;
    }
    if (kr_file_place(w, link.sandbox, path, false))
        kr_file_read(w, &(struct kr_file_reading_spec){.link = true, .download = download});
}

void kr_api_link_get(struct kr_http_ex *ex, void *app)
{
    char path[KR_FILES_PATH_MAX];
    struct kr_files_query q;
    cleanup_input struct kr_api_input in;
    struct kr_fileop *w;
    struct kr_err err;

    kr_api_input_init(&in, KR_API_DOCUMENT); /* a link with more in its query still works */
    if (kr_api_parse_query(&kr_files_link_query, kr_http_query(ex), &q, &in, &err) < 0) {
        kr_api_fail(ex, &err);
        return;
    }
    w = kr_file_new(ex, app, &kr_file_reading);
    if (!w)
        return;
    if (kr_file_read_path(kr_http_param(ex, "path"), q.path_b64, path, &w->err) < 0)
        kr_file_fail(w);
    else
        follow_link(w, kr_http_param(ex, "token"), NULL, path, q.download);
}

void kr_api_sandbox_file(struct kr_http_ex *ex, void *app)
{
    struct kr_sandbox_file_query q;
    cleanup_input struct kr_api_input in;
    struct kr_fileop *w;

    if (!kr_api_read_query(ex, &kr_sandbox_file_query_table, &q, &in))
        return;
    w = kr_file_new(ex, app, &kr_file_reading);
    if (!w)
        return;
    if (q.token || kr_api_is_link(ex)) {
        follow_link(w, q.token ? q.token : "", q.sandbox_id, q.file_path, q.download);
        return;
    }
    if (!kr_file_caller(w))
        return;
    if (!w->user[0])
        kr_file_fail_with(w, KR_ERR_UNAUTHORIZED, "Authentication required");
    else if (kr_file_place(w, q.sandbox_id, q.file_path, false))
        kr_file_read(w, &(struct kr_file_reading_spec){.download = q.download});
}

bool kr_api_is_link(const struct kr_http_ex *ex)
{
    const struct kr_api_doc *doc = kr_api_doc_of(ex);
    const char *query = kr_http_query(ex), *at = query;

    if (doc == &kr_api_link_get_doc)
        return true;
    if (doc != &kr_api_sandbox_file_doc)
        return false;
    while ((at = strstr(at, "token="))) {
        if (at == query || at[-1] == '&')
            return true;
        at++;
    }
    return false;
}

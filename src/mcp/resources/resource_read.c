/* resources/read of a file, a folder, a session or a run. Called by resources.c.
 *
 * Invariants: what an address names is looked up among the caller's own, and whatever is not there (another's, a link,
 * a path with ..) is not found in the same words; an answer is at most KR_MCP_READ_MAX bytes of content. */
#include "base64.h"
#include "buf.h"
#include "clock.h"
#include "dialect_results.h"
#include "fd.h"
#include "mcp_fileop.h"
#include "json.h"
#include "media.h"
#include "report.h"
#include "resource.h"
#include "session.h"
#include "tool_rows.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_MAX 1000u
#define LIST_MS 2000u
#define COST_MAX (6u << 20) /* bytes of a text as JSON: past it base64 is shorter */

struct reading {
    struct kr_fileop op;
    char *uri;
    struct kr_buf data;
    const char *mime;
    uint64_t size;
    bool folder, text, too_large;
};

/* ---- on the thread pool ---- */

static int read_folder(struct reading *r)
{
    struct kr_fileop *op = &r->op;
    struct kr_files_list_spec spec = {.limit = LIST_MAX, .deadline_ns = kr_clock_after_ms(LIST_MS)};
    struct kr_files_list list;
    struct kr_json json;
    int e = kr_files_list(op->ws, op->path, &spec, &list, &op->err);

    if (e < 0)
        return e;
    kr_json_init(&json, &r->data);
    kr_json_object(&json);
    kr_files_json_path(&json, "path", op->path);
    kr_json_key(&json, "files");
    kr_json_array(&json);
    for (size_t i = 0; i < list.count; i++) {
        kr_json_object(&json);
        kr_files_json_path(&json, "path", list.entries[i].path);
        kr_json_key_str(&json, "type", kr_file_type_names[list.entries[i].info.type]);
        kr_json_key_uint(&json, "size", list.entries[i].info.size);
        kr_json_object_end(&json);
    }
    kr_json_array_end(&json);
    kr_json_key_bool(&json, "incomplete", list.incomplete || list.more);
    kr_json_object_end(&json);
    kr_files_list_done(&list);
    r->mime = "application/json";
    r->text = true;
    return kr_json_done(&json);
}

static size_t text_cost(const struct kr_buf *text)
{
    size_t cost = text->len;

    for (size_t i = 0; i < text->len; i++) {
        unsigned char c = (unsigned char)text->data[i];

        cost += c < 0x20 ? 5 : c == '"' || c == '\\';
    }
    return cost;
}

static int read_whole(struct reading *r, int fd)
{
    cleanup_free char *all = malloc(KR_MCP_READ_MAX + 1);
    size_t got = 0;
    ssize_t n;

    if (!all)
        return kr_err_set(&r->op.err, KR_ERR_SYSTEM, ENOMEM, "read a file");
    while (got <= KR_MCP_READ_MAX && (n = read(fd, all + got, KR_MCP_READ_MAX + 1 - got)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kr_err_set(&r->op.err, KR_ERR_SYSTEM, errno, "read a file");
        got += (size_t)n;
    }
    r->too_large = got > KR_MCP_READ_MAX;
    r->mime = kr_media_of(r->op.path, all, got < KR_MEDIA_SNIFF ? got : KR_MEDIA_SNIFF, got <= KR_MEDIA_SNIFF)->type;
    r->text = kr_media_is_text(all, got, true);
    return kr_buf_add(&r->data, all, got);
}

static void read_resource(struct kr_fileop *op)
{
    struct reading *r = (struct reading *)op;
    cleanup_fd int fd = -1;
    struct kr_file_info info;

    op->r = kr_files_open(op->ws, op->path, &fd, &info, &op->err);
    if (op->r == -EISDIR) {
        op->r = read_folder(r);
        return;
    }
    if (op->r < 0) {
        fd = -1;
        return;
    }
    r->size = info.size;
    r->too_large = info.size > KR_MCP_READ_MAX;
    if (!r->too_large)
        op->r = read_whole(r, fd);
}

static void free_reading(struct kr_fileop *op)
{
    struct reading *r = (struct reading *)op;

    kr_buf_done(&r->data);
    free(r->uri);
}

/* ---- on the loop ---- */

static void answer_file(struct kr_mcp_call *c, const struct reading *r)
{
    cleanup_free char *text = NULL;

    if (r->text && text_cost(&r->data) <= COST_MAX) {
        kr_mcp_contents(c, r->uri, r->mime, kr_buf_str(&r->data), r->data.len, false);
        return;
    }
    text = malloc(KR_BASE64_ROOM(r->data.len));
    if (text)
        kr_mcp_contents(c, r->uri, r->mime, text, kr_base64_encode(kr_buf_str(&r->data), r->data.len, text), true);
    else
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "out of memory");
}

static void on_resource_read(struct kr_fileop *op)
{
    struct reading *r = (struct reading *)op;
    struct kr_mcp_call *c = kr_mcp_fileop_take(op);

    if (r->too_large)
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, json_pack("{s:s, s:I}", "uri", r->uri, "size", (json_int_t)r->size),
                    "the file has %" PRIu64 " bytes, and a resource is read whole up to %u: use read_file or code",
                    r->size, KR_MCP_READ_MAX);
    else if (op->r < 0 && kr_err_row((enum kr_err_kind)op->err.kind)->text_is_public)
        kr_mcp_no_resource(c, r->uri);
    else if (op->r < 0)
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "the file cannot be read");
    else
        answer_file(c, r);
    kr_fileop_end(op);
}

static void read_file(struct kr_mcp_call *c, const char *text, const struct kr_mcp_uri *uri)
{
    static const struct kr_fileop_kind kind = {.size = sizeof(struct reading), .done = free_reading};
    struct kr_err err;
    struct reading *r = kr_mcp_fileop_new(c, &kind, &err);

    if (!r) {
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "too many files are being read and written: try again in a moment");
        return;
    }
    kr_buf_init(&r->data, KR_MCP_READ_MAX + 1);
    r->uri = strdup(text);
    if (!r->uri || kr_mcp_fileop_place(&r->op, uri->id, uri->path, false) < 0) {
        kr_mcp_no_resource(kr_mcp_fileop_take(&r->op), text);
        kr_fileop_end(&r->op);
        return;
    }
    kr_fileop_run(&r->op, read_resource, on_resource_read);
}

/* ---- sessions ---- */

static void read_session(struct kr_mcp_call *c, const char *text, const char *name)
{
    struct kr_box_session_info info;
    struct kr_err err;
    json_t *value;
    char *json;

    if (kr_box_session_find(kr_mcp_api(c)->box, kr_mcp_caller(c), NULL, name, &info, &err) < 0) {
        kr_mcp_no_resource(c, text);
        return;
    }
    value = kr_mcp_session_value(&info);
    json_object_set_new(value, "working_directory", json_string("/workspace"));
    json_object_set_new(value, "python", info.session ? json_string(kr_session_python(info.session)) : json_null());
    json = json_dumps(value, JSON_INDENT(2));
    if (json)
        kr_mcp_contents(c, text, "application/json", json, strlen(json), false);
    else
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "out of memory");
    free(json);
    json_decref(value);
}

/* ---- runs ---- */

static json_t *make_run(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, size_t cap, void *data)
{
    json_t *value = json_pack("{s:s, s:b}", "run_id", o->run_id, "still_running", o->running);

    (void)c, (void)data;
    if (o->behind[0])
        json_object_set_new(value, "behind", json_string(o->behind));
    json_object_set_new(value, "stdout", kr_compat_text(&o->out, SIZE_MAX, cap / 4, false, "\n[cut]"));
    json_object_set_new(value, "stderr", kr_compat_text(&o->err, SIZE_MAX, cap / 4, false, "\n[cut]"));
    json_object_set_new(value, "log_cut", json_boolean(o->cut));
    json_object_set_new(value, "displays", json_integer((json_int_t)json_array_size(o->displays)));
    if (json_is_object(o->end))
        json_object_update_missing(value, o->end);
    if (cap < KR_MCP_TEXT_MAX / 8)
        json_object_del(value, "files");
    return value;
}

static void render_run(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    json_t *value = kr_compat_fit(c, o, make_run, NULL, KR_COMPAT_PLAIN);
    const char *uri = json_string_value(json_object_get(kr_mcp_params(c), "uri"));
    char *json = json_dumps(value, JSON_INDENT(2));

    (void)data;
    if (json)
        kr_mcp_contents(c, uri, "application/json", json, strlen(json), false);
    else
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "out of memory");
    free(json);
    json_decref(value);
}

static void read_run_resource(struct kr_mcp_call *c, const char *text, const char *id)
{
    struct kr_runlog *log;
    struct kr_err err;

    if (kr_box_run_open_log(kr_mcp_api(c)->box, kr_mcp_caller(c), id, &log, &err) < 0) {
        kr_mcp_no_resource(c, text);
        return;
    }
    kr_runlog_unref(log); /* it was only asked whether it is the caller's */
    kr_mcp_run_read(c, id, 0, 0, render_run, NULL);
}

void kr_mcp_resource_read(struct kr_mcp_call *c, const char *text, const struct kr_mcp_uri *uri)
{
    switch (uri->kind) {
    case KR_URI_SANDBOX:
        read_file(c, text, uri);
        return;
    case KR_URI_SESSION:
        read_session(c, text, uri->id);
        return;
    case KR_URI_RUN:
        read_run_resource(c, text, uri->id);
        return;
    case KR_URI_KIND_MAX_:
        break;
    }
    kr_mcp_no_resource(c, text);
}

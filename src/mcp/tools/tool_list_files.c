/* The tool list_files: a page of a sandbox's folder, read on the thread pool. Called through THE table of tools.
 *
 * Invariant: a page is at most LIST_MAX entries and LIST_MS of work; what it does not show is said. */
#include "buf.h"
#include "clock.h"
#include "mcp_fileop.h"
#include "tool_rows.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIST_MAX 1000
#define LIST_MS 2000u

struct list_args {
    const char *sandbox, *path, *after;
    bool recursive;
    int64_t limit;
};

/* clang-format off */
static const struct kr_api_field list_fields[] = {
    {.name = "path", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct list_args, path), .nullable = true,
     KR_API_LENGTH(0, 4000),
     .aliases = (const char *const[]){"folder", "directory", NULL},
     .help = "A folder; else /workspace.",
     .example = "plots"},
    {.name = "recursive", .type = KR_API_BOOL, .tacit = true, KR_API_AT(struct list_args, recursive), .def = "false",
     .help = "With its folders.", .example = "true"},
    {.name = "limit", .type = KR_API_INT, .tacit = true,
     KR_API_AT(struct list_args, limit), .def = "200", KR_API_RANGE(1, LIST_MAX),
     .help = "Entries of a page.", .example = "200"},
    {.name = "after", .type = KR_API_STRING, KR_API_AT(struct list_args, after), .nullable = true,
     KR_API_LENGTH(0, 4000), .help = "Last path of the page before.", .example = "plots/a.png"},
    {.name = "sandbox_id", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct list_args, sandbox), .nullable = true,
     KR_API_LENGTH(0, 64), .aliases = (const char *const[]){"sandbox", NULL},
     .help = "Id or name; else `default`.", .example = "default"},
};
static const struct kr_api_table list_table = KR_API_TABLE("ListFilesInput", "Which folder.", list_fields,
    struct list_args);

static const struct kr_api_prop entry_props[] = {
    {.name = "path", .type = KR_API_STRING, .help = "From the workspace.", .example = "plots/a.png"},
    {.name = "type", .type = KR_API_STRING, .help = "file, folder, link or other.", .example = "file"},
    {.name = "size", .type = KR_API_INT, .help = "Bytes.", .example = "1204"},
    {.name = "modified_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.5"},
};
static const struct kr_api_schema entry_schema = KR_API_SCHEMA("ListFilesEntry", "One entry.", entry_props);
static const struct kr_api_prop list_props[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "The sandbox.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "path", .type = KR_API_STRING, .help = "The folder.", .example = ""},
    {.name = "files", .type = KR_API_ARRAY, .of = &entry_schema, .help = "Its entries, sorted by path."},
    {.name = "next", .type = KR_API_STRING, .nullable = true, .help = "`after` of the next page; null at the end.",
     .example = "null"},
    {.name = "incomplete", .type = KR_API_BOOL, .help = "There may be entries that no page shows.", .example = "false"},
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("ListFilesOutput", "A page of a folder.", list_props);
/* clang-format on */

struct listing {
    struct kr_fileop op;
    bool recursive, listed;
    size_t limit;
    char after[KR_FILES_PATH_MAX];
    struct kr_files_list list;
};

static void list_folder(struct kr_fileop *op)
{
    struct listing *l = (struct listing *)op;
    struct kr_files_list_spec spec = {.recursive = l->recursive,
                                      .limit = l->limit,
                                      .after = l->after[0] ? l->after : NULL,
                                      .deadline_ns = kr_clock_after_ms(LIST_MS)};

    op->r = kr_files_list(op->ws, op->path, &spec, &l->list, &op->err);
    l->listed = op->r >= 0;
}

static void done_list(struct kr_fileop *op)
{
    struct listing *l = (struct listing *)op;

    if (l->listed)
        kr_files_list_done(&l->list);
}

/* A path as JSON may carry it. */
static json_t *path_value(const char *path)
{
    json_t *value = json_string(path);
    struct kr_mcp_result r;

    if (value)
        return value;
    kr_mcp_result_init(&r); /* its texts are made valid */
    kr_mcp_add_text(&r, path, strlen(path));
    value = json_incref(json_object_get(json_array_get(r.content, 0), "text"));
    json_decref(r.content);
    return value;
}

static json_t *list_value(const struct listing *l)
{
    json_t *files = json_array();
    const char *last = NULL;

    for (size_t i = 0; i < l->list.count; i++) {
        const struct kr_files_entry *e = &l->list.entries[i];

        last = e->path;
        json_array_append_new(files, json_pack("{s:o, s:s, s:I, s:f}", "path", path_value(e->path), "type",
                                               kr_file_type_names[e->info.type], "size", (json_int_t)e->info.size,
                                               "modified_at", floor((double)e->info.mtime_ns / 1e3) / 1e6));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:b}", "sandbox_id", l->op.sandbox.row.id, "path", path_value(l->op.path),
                     "files", files, "next", l->list.more && last ? path_value(last) : json_null(), "incomplete",
                     l->list.incomplete);
}

static void write_entry(struct kr_buf *out, const struct kr_files_entry *e)
{
    time_t at = (time_t)(e->info.mtime_ns / 1000000000u);
    char when[32] = "";
    struct tm tm;

    if (gmtime_r(&at, &tm))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M", &tm);
    if (e->info.type == KR_FILE_FOLDER)
        kr_buf_printf(out, "%s/\n", e->path);
    else if (e->info.type == KR_FILE_REGULAR)
        kr_buf_printf(out, "%s  %" PRIu64 " bytes  %s\n", e->path, e->info.size, when);
    else
        kr_buf_printf(out, "%s  (%s)\n", e->path, kr_file_type_names[e->info.type]);
}

static void on_files_listed(struct kr_fileop *op)
{
    struct listing *l = (struct listing *)op;
    cleanup_buf struct kr_buf text = {0};
    struct kr_mcp_result r;

    if (op->r < 0) {
        if (op->r == -ENOTDIR)
            kr_mcp_tool_refuse(kr_mcp_fileop_take(op),
                               "path: /workspace/%s is a file and no folder; read_file reads it", op->path);
        else
            kr_mcp_tool_fail(kr_mcp_fileop_take(op), &op->err);
        kr_fileop_end(op);
        return;
    }
    kr_buf_init(&text, 8u << 20);
    kr_buf_printf(&text, "/workspace%s%s of sandbox %s: %zu %s%s\n", op->path[0] ? "/" : "", op->path,
                  op->sandbox.row.name, l->list.count, l->list.count == 1 ? "entry" : "entries",
                  l->list.more ? " of more" : "");
    for (size_t i = 0; i < l->list.count; i++)
        write_entry(&text, &l->list.entries[i]);
    if (l->list.more && l->list.count)
        kr_buf_printf(&text, "[more: list_files(after=\"%s\")]\n", l->list.entries[l->list.count - 1].path);
    if (l->list.incomplete)
        kr_buf_add_str(&text, "[not all of it could be looked at]\n");
    kr_mcp_result_init(&r);
    kr_mcp_add_text(&r, kr_buf_str(&text), text.len);
    r.structured = list_value(l);
    kr_mcp_tool_done(kr_mcp_fileop_take(op), &r);
    kr_fileop_end(op);
}

static void run_list_files(struct kr_mcp_call *c, const void *args)
{
    static const struct kr_fileop_kind kind = {.size = sizeof(struct listing), .done = done_list};
    const struct list_args *a = args;
    struct listing *l;
    struct kr_err err;

    l = kr_mcp_fileop_new(c, &kind, &err);
    if (!l) {
        kr_mcp_tool_fail(c, &err);
        return;
    }
    l->recursive = a->recursive;
    l->limit = (size_t)a->limit;
    if ((a->after && a->after[0] && kr_files_path(a->after, l->after, &l->op.err) < 0) ||
        kr_mcp_fileop_place(&l->op, a->sandbox, a->path ? a->path : "", false) < 0) {
        kr_mcp_tool_fail(kr_mcp_fileop_take(&l->op), &l->op.err);
        kr_fileop_end(&l->op);
        return;
    }
    kr_fileop_run(&l->op, list_folder, on_files_listed);
}

const struct kr_mcp_tool kr_tool_list_files = {
    .name = "list_files",
    .title = "List files",
    .description = "Lists a folder of the workspace: names, sizes, times.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT | KR_TOOL_CORE,
    .needs = KR_RIGHT_READ,
    .input = &list_table,
    .output = &list_schema,
    .run = run_list_files,
};

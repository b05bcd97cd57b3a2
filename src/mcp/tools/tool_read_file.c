/* The tool read_file: a file of a sandbox as its reader can use it. Called through THE table of tools.
 *
 * Text comes by lines, pictures and sounds as such, other bytes embedded when they are few and as a link when not. All
 * disk work is on the thread pool, one piece a call. Invariants: memory is bounded by the caps below whatever the
 * file's size; a file that is no regular one, or is reached through a link, is never opened (src/files/files.h). */
#include "base64.h"
#include "buf.h"
#include "clock.h"
#include "fd.h"
#include "mcp_fileop.h"
#include "media.h"
#include "tool_rows.h"
#include "uri.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_SHOWN (96u << 10)       /* bytes of text in one answer */
#define BLOB_MAX (512u << 10)        /* bytes of other files that are embedded */
#define SCAN_MAX (UINT64_C(1) << 30) /* bytes that are passed over in search of a line */
#define SCAN_MS 2000u
#define PIECE (64u << 10)

struct read_args {
    const char *sandbox, *path;
    int64_t offset, limit;
};

/* clang-format off */
static const struct kr_api_field read_fields[] = {
    {.name = "path", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct read_args, path), .required = true,
     KR_API_LENGTH(1, 4000),
     .aliases = (const char *const[]){"file_path", NULL},
     .help = "In /workspace.", .example = "out/table.csv"},
    {.name = "offset", .type = KR_API_INT, KR_API_AT(struct read_args, offset), .def = "1", KR_API_AT_LEAST(1),
     .help = "First line of a text.", .example = "1"},
    {.name = "limit", .type = KR_API_INT, .tacit = true,
     KR_API_AT(struct read_args, limit), .def = "2000", KR_API_RANGE(1, 100000),
     .help = "Lines at most.", .example = "2000"},
    {.name = "sandbox_id", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct read_args, sandbox), .nullable = true,
     KR_API_LENGTH(0, 64), .aliases = (const char *const[]){"sandbox", NULL},
     .help = "Id or name; else `default`.", .example = "default"},
};
static const struct kr_api_table read_table = KR_API_TABLE("ReadFileInput", "Which file, and how much of it.",
    read_fields, struct read_args);

static const struct kr_api_prop read_props[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "The sandbox.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "path", .type = KR_API_STRING, .help = "From the workspace.", .example = "out/table.csv"},
    {.name = "uri", .type = KR_API_STRING, .help = "Its address for resources/read.",
     .example = "sandbox://01hv5k8m2nq7r9t3w6x8y0z2a4/out/table.csv"},
    {.name = "mime_type", .type = KR_API_STRING, .help = "What it is.", .example = "text/csv"},
    {.name = "size", .type = KR_API_INT, .help = "Bytes in all.", .example = "1204"},
    {.name = "text", .type = KR_API_TEXT, .nullable = true, .help = "Of a text: what is shown.",
     .example = "a,b\n1,2\n"},
    {.name = "first_line", .type = KR_API_INT, .nullable = true, .help = "Of a text: its first line that is shown.",
     .example = "1"},
    {.name = "next_line", .type = KR_API_INT, .nullable = true, .help = "`offset` of what follows; null: nothing does.",
     .example = "null"},
};
static const struct kr_api_schema read_schema = KR_API_SCHEMA("ReadFileOutput", "A file, or a part of one.",
    read_props);
/* clang-format on */

enum shape { SHAPE_TEXT, SHAPE_IMAGE, SHAPE_AUDIO, SHAPE_BLOB, SHAPE_LINK };

struct reading {
    struct kr_fileop op;
    uint64_t offset, limit;
    int fd;
    const struct kr_media *media;
    enum shape shape;
    uint64_t size;
    struct kr_buf data; /* text, or the whole file */
    uint64_t line;      /* SHAPE_TEXT: the line behind what is shown */
    bool more, cut_line, too_far;
};

/* ---- on the thread pool ---- */

static enum shape choose(const struct reading *r, const char *head, size_t len)
{
    static const char *const images[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};

    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        if (strcmp(r->media->type, images[i]) == 0)
            return r->size <= KR_MCP_IMAGE_MAX ? SHAPE_IMAGE : SHAPE_LINK;
    if (strncmp(r->media->type, "audio/", 6) == 0)
        return r->size <= KR_MCP_IMAGE_MAX ? SHAPE_AUDIO : SHAPE_LINK;
    if (kr_media_is_text(head, len, len == r->size))
        return SHAPE_TEXT;
    return r->size <= BLOB_MAX ? SHAPE_BLOB : SHAPE_LINK;
}

/* What is shown is full in the midst of a line: that line is left to the next answer, unless it is all there is. */
static void drop_part(struct reading *r)
{
    const char *end = memrchr(r->data.data, '\n', r->data.len);

    r->cut_line = !end;
    if (end)
        r->data.len = (size_t)(end - r->data.data) + 1;
}

/* Takes what is to be shown of a piece. True: no more is wanted. */
static bool take_piece(struct reading *r, const char *piece, size_t len, uint64_t last)
{
    for (size_t at = 0; at < len;) {
        const char *end = memchr(piece + at, '\n', len - at);
        size_t n = end ? (size_t)(end - (piece + at)) + 1 : len - at;

        if (r->line > last)
            return r->more = true;
        if (r->line >= r->offset) {
            size_t room = TEXT_SHOWN - r->data.len;

            kr_buf_add(&r->data, piece + at, n < room ? n : room);
            if (n > room) {
                drop_part(r);
                return r->more = true;
            }
        }
        r->line += end != NULL;
        at += n;
    }
    return false;
}

static int read_lines(struct reading *r)
{
    cleanup_free char *piece = malloc(PIECE);
    uint64_t deadline = kr_clock_after_ms(SCAN_MS), last = r->offset + r->limit - 1;
    ssize_t n;

    if (!piece)
        return kr_err_set(&r->op.err, KR_ERR_SYSTEM, ENOMEM, "read a file");
    r->line = 1;
    for (uint64_t pos = 0;; pos += (uint64_t)n) {
        n = kr_fd_read_at(r->fd, piece, PIECE, pos);
        if (n < 0)
            return kr_err_set(&r->op.err, KR_ERR_SYSTEM, (int)n, "read a file");
        if (n == 0 || take_piece(r, piece, (size_t)n, last))
            return 0;
        if (pos > SCAN_MAX || kr_clock_ns() > deadline) {
            r->too_far = true;
            return 0;
        }
    }
}

static int read_whole(struct reading *r)
{
    cleanup_free char *all = malloc(r->size + 1);
    ssize_t n;

    if (!all)
        return kr_err_set(&r->op.err, KR_ERR_SYSTEM, ENOMEM, "read a file");
    n = kr_fd_read_at(r->fd, all, r->size, 0);
    if (n < 0)
        return kr_err_set(&r->op.err, KR_ERR_SYSTEM, (int)n, "read a file");
    r->size = (uint64_t)n; /* it may have shrunk */
    return kr_buf_add(&r->data, all, (size_t)n);
}

static void read_file_part(struct kr_fileop *op)
{
    struct reading *r = (struct reading *)op;
    struct kr_file_info info;
    char head[KR_MEDIA_SNIFF];
    ssize_t n;

    op->r = kr_files_open(op->ws, op->path, &r->fd, &info, &op->err);
    if (op->r < 0) {
        r->fd = -1;
        return;
    }
    r->size = info.size;
    n = kr_fd_read_at(r->fd, head, sizeof head, 0);
    if (n < 0) {
        op->r = kr_err_set(&op->err, KR_ERR_SYSTEM, (int)n, "read a file");
        return;
    }
    if ((size_t)n < sizeof head)
        r->size = (uint64_t)n;
    r->media = kr_media_of(op->path, head, (size_t)n, (uint64_t)n == r->size);
    r->shape = choose(r, head, (size_t)n);
    if (r->shape == SHAPE_TEXT)
        op->r = read_lines(r);
    else if (r->shape != SHAPE_LINK)
        op->r = read_whole(r);
}

static void done_read(struct kr_fileop *op)
{
    struct reading *r = (struct reading *)op;

    kr_fd_close(r->fd);
    kr_buf_done(&r->data);
}

/* ---- on the loop ---- */

static void add_lines(struct kr_mcp_result *out, const struct reading *r)
{
    const char *path = r->op.path;
    uint64_t next = r->line;

    if (r->data.len > 0)
        kr_mcp_add_text(out, r->data.data, r->data.len);
    if (r->too_far)
        kr_mcp_add_textf(out, "[line %" PRIu64 " is too far into the file to look for: open it with execute_python]",
                         r->offset);
    else if (r->data.len == 0 && r->size == 0)
        kr_mcp_add_text(out, "[the file is empty]", 19);
    else if (r->data.len == 0)
        kr_mcp_add_textf(out, "[the file has %" PRIu64 " line%s]", r->line - 1, r->line == 2 ? "" : "s");
    else if (r->cut_line)
        kr_mcp_add_textf(out,
                         "[line %" PRIu64 " is cut: %zu of the file's %" PRIu64 " bytes are shown; read the rest with "
                         "execute_python]",
                         next, r->data.len, r->size);
    else if (r->more)
        kr_mcp_add_textf(out,
                         "[lines %" PRIu64 " to %" PRIu64 "; %" PRIu64 " bytes in all; "
                         "read_file(path=\"%s\", offset=%" PRIu64 ") goes on]",
                         r->offset, next - 1, r->size, path, next);
}

static void add_whole(struct kr_mcp_call *c, struct kr_mcp_result *out, const struct reading *r, const char *uri)
{
    cleanup_free char *text = malloc(KR_BASE64_ROOM(r->data.len));
    const char *mime = r->media->type;
    cleanup_buf struct kr_buf link = {0};
    size_t len;

    kr_buf_init(&link, KR_MCP_URI_MAX);
    if (r->shape == SHAPE_LINK || !text) {
        kr_mcp_add_link(out, uri, r->op.path, NULL, mime, (int64_t)r->size);
        if (kr_mcp_link_add(c, r->op.sandbox.row.id, r->op.path, false, &link) == 0)
            kr_mcp_add_textf(out, "[%s, %" PRIu64 " bytes, too large to show here: %s]", mime, r->size,
                             kr_buf_str(&link));
        else
            kr_mcp_add_textf(out, "[%s, %" PRIu64 " bytes, too large to show here: open it with execute_python]", mime,
                             r->size);
        return;
    }
    len = kr_base64_encode(kr_buf_str(&r->data), r->data.len, text);
    if (r->shape == SHAPE_IMAGE)
        kr_mcp_add_image(out, text, len, mime);
    else if (r->shape == SHAPE_AUDIO)
        kr_mcp_add_audio(out, text, len, mime);
    else
        kr_mcp_add_resource_blob(out, uri, mime, text, len);
}

static json_t *read_value(const struct reading *r, const char *uri)
{
    bool text = r->shape == SHAPE_TEXT;
    json_t *value = json_pack("{s:s, s:s, s:s, s:s, s:I}", "sandbox_id", r->op.sandbox.row.id, "path", r->op.path,
                              "uri", uri, "mime_type", r->media->type, "size", (json_int_t)r->size);

    if (!value) /* a name that is no UTF-8: the blocks say it as far as it can be said */
        return NULL;
    json_object_set_new(value, "text", text ? json_stringn(kr_buf_str(&r->data), r->data.len) : json_null());
    if (!json_object_get(value, "text"))
        json_object_set_new(value, "text", json_null());
    json_object_set_new(value, "first_line", text ? json_integer((json_int_t)r->offset) : json_null());
    json_object_set_new(value, "next_line",
                        text && r->more && !r->cut_line ? json_integer((json_int_t)r->line) : json_null());
    return value;
}

static void on_file_read(struct kr_fileop *op)
{
    struct reading *r = (struct reading *)op;
    struct kr_mcp_call *c = kr_mcp_fileop_take(op);
    cleanup_buf struct kr_buf uri = {0};
    struct kr_mcp_result out;

    if (op->r == -EISDIR)
        kr_mcp_tool_refuse(c, "path: /workspace%s%s is a folder; list_files tells what is in it",
                           op->path[0] ? "/" : "", op->path);
    else if (op->r < 0)
        kr_mcp_tool_fail(c, &op->err);
    if (op->r < 0) {
        kr_fileop_end(op);
        return;
    }
    kr_buf_init(&uri, KR_MCP_URI_MAX);
    kr_mcp_uri_file(&uri, op->sandbox.row.id, op->path);
    kr_mcp_result_init(&out);
    if (r->shape == SHAPE_TEXT)
        add_lines(&out, r);
    else
        add_whole(c, &out, r, kr_buf_str(&uri));
    out.structured = read_value(r, kr_buf_str(&uri));
    kr_mcp_tool_done(c, &out);
    kr_fileop_end(op);
}

static void run_read(struct kr_mcp_call *c, const void *args)
{
    static const struct kr_fileop_kind kind = {.size = sizeof(struct reading), .done = done_read};
    const struct read_args *a = args;
    struct kr_err err;
    struct reading *r = kr_mcp_fileop_new(c, &kind, &err);

    if (!r) {
        kr_mcp_tool_fail(c, &err);
        return;
    }
    r->fd = -1;
    r->offset = (uint64_t)a->offset;
    r->limit = (uint64_t)a->limit;
    kr_buf_init(&r->data, KR_MCP_IMAGE_MAX + 1);
    if (kr_mcp_fileop_place(&r->op, a->sandbox, a->path, false) < 0) {
        kr_mcp_tool_fail(kr_mcp_fileop_take(&r->op), &r->op.err);
        kr_fileop_end(&r->op);
        return;
    }
    kr_fileop_run(&r->op, read_file_part, on_file_read);
}

const struct kr_mcp_tool kr_tool_read_file = {
    .name = "read_file",
    .title = "Read a file",
    .description = "Reads a file of the workspace: text by lines, pictures as images, others as a link.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT | KR_TOOL_CORE,
    .needs = KR_RIGHT_READ,
    .input = &read_table,
    .output = &read_schema,
    .run = run_read,
};

/* The tool upload_file_to_sandbox, ours. Called through THE table of tools; upload.c does it. */
#include "buf.h"
#include "err.h"
#include "tool_rows.h"
#include "upload.h"
#include "uri.h"
#include <inttypes.h>
#include <string.h>

struct upload_args {
    const char *sandbox, *path, *local;
    struct kr_text content;
    int encoding;
};
enum { ENCODING_TEXT, ENCODING_BASE64 };

/* clang-format off */
static const char *const encodings[] = {"text", "base64", NULL};
static const struct kr_api_field upload_fields[] = {
    {.name = "path", .type = KR_API_STRING, KR_API_AT(struct upload_args, path), .nullable = true,
     KR_API_LENGTH(0, 4000), .aliases = (const char *const[]){"dest_path", NULL},
     .help = "In /workspace; needed with content.", .example = "data/table.csv"},
    {.name = "content", .type = KR_API_TEXT, .tacit = true, KR_API_AT(struct upload_args, content),
     .nullable = true, .nul_ok = true,
     .help = "The file's content.", .example = "a,b\n1,2\n"},
    {.name = "encoding", .type = KR_API_ENUM, .tacit = true, KR_API_AT(struct upload_args, encoding),
     .choices = encodings,
     .def = "text",
     .help = "Of content.", .example = "text"},
    {.name = "local_file_path", .type = KR_API_STRING, KR_API_AT(struct upload_args, local), .nullable = true,
     KR_API_LENGTH(1, 4000),
     .help = "Instead of content: a file on krait's machine, if allowed.",
     .example = "/srv/upload/table.csv"},
    {.name = "sandbox_id", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct upload_args, sandbox),
     .nullable = true,
     KR_API_LENGTH(0, 64), .aliases = (const char *const[]){"sandbox", NULL},
     .help = "Id or name; else `default`.", .example = "default"},
};
static const struct kr_api_table upload_table = KR_API_TABLE("UploadFileInput", "What to write, and where.",
    upload_fields, struct upload_args);

static const struct kr_api_prop upload_props[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "The sandbox.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "path", .type = KR_API_STRING, .help = "From the workspace.", .example = "data/table.csv"},
    {.name = "uri", .type = KR_API_STRING, .help = "Its address for resources/read.",
     .example = "sandbox://01hv5k8m2nq7r9t3w6x8y0z2a4/data/table.csv"},
    {.name = "size", .type = KR_API_INT, .help = "Bytes.", .example = "8"},
    {.name = "created", .type = KR_API_BOOL, .help = "false: a file of that name was replaced.", .example = "true"},
};
static const struct kr_api_schema upload_schema = KR_API_SCHEMA("UploadFileOutput", "A file that was written.",
    upload_props);
/* clang-format on */

static void answer_upload(struct kr_mcp_call *c, const struct kr_mcp_uploaded *u, const struct kr_err *err,
                          const char *dest)
{
    cleanup_buf struct kr_buf uri = {0};
    struct kr_mcp_result r;

    (void)dest;
    if (err) {
        kr_mcp_tool_fail(c, err);
        return;
    }
    kr_buf_init(&uri, KR_MCP_URI_MAX);
    kr_mcp_uri_file(&uri, u->sandbox, u->path);
    kr_mcp_result_init(&r);
    kr_mcp_add_textf(&r, "%s /workspace/%s in sandbox %s: %" PRIu64 " bytes.", u->created ? "Wrote" : "Replaced",
                     u->path, u->sandbox_name, u->size);
    r.structured = json_pack("{s:s, s:s, s:s, s:I, s:b}", "sandbox_id", u->sandbox, "path", u->path, "uri",
                             kr_buf_str(&uri), "size", (json_int_t)u->size, "created", u->created);
    kr_mcp_tool_done(c, &r);
}

static void run_upload(struct kr_mcp_call *c, const void *args)
{
    const struct upload_args *a = args;
    struct kr_mcp_upload u = {.sandbox = a->sandbox,
                              .dest = a->path,
                              .content = a->content,
                              .base64 = a->encoding == ENCODING_BASE64,
                              .local = a->local,
                              .answer = answer_upload};

    kr_mcp_upload(c, &u);
}

const struct kr_mcp_tool kr_tool_upload_file = {
    .name = "upload_file_to_sandbox",
    .title = "Upload a file",
    .description = "Writes a file into the workspace, up to 4 MB a call. Replaces one of that name.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_IDEMPOTENT | KR_TOOL_CORE | KR_TOOL_DESTRUCTIVE,
    .needs = KR_RIGHT_RUN,
    .input = &upload_table,
    .output = &upload_schema,
    .run = run_upload,
};

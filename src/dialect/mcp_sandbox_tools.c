/* The tools of document 004 (mcp-sandbox): sandboxes that are made, used and named by id, files as links. Called
 * through THE table of tools.
 *
 * Each run is a fresh process in the named sandbox; what it wrote is linked as the document's links are. Default
 * sandboxes, which the document does not have, are not listed. Another user's sandbox is as unknown as one that
 * never was. */
#include "api.h"
#include "dialect_results.h"
#include "err.h"
#include "shell_snippet.h"
#include "dialect_tools.h"
#include "upload.h"
#include "uri.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_TRIED 20
#define FILES_LINKED 200u
#define CUT_MARK "\n[output was cut here]\n"
#define RESULTS "/app/results/"

struct create_args {
    const char *name;
};
struct code_args {
    const char *sandbox;
    struct kr_text code;
};
struct upload_args {
    const char *sandbox, *local, *dest;
    struct kr_text content;
    int encoding;
};
struct which_args {
    const char *sandbox;
};

/* clang-format off */
#define SANDBOX(struct_) {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct struct_, sandbox), \
    .required = true, KR_API_LENGTH(1, 64), \
    .help = "The sandbox's id, as create_sandbox or list_sandboxes gave it.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"}
static const struct kr_api_field create_fields[] = {
    {.name = "name", .type = KR_API_STRING, KR_API_AT(struct create_args, name), .nullable = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX), .help = "What to call it; without it `Sandbox N`.", .example = "analysis"},
};
static const struct kr_api_table create_table = KR_API_TABLE("McpSandboxCreateInput", "A sandbox to make.",
    create_fields, struct create_args);
static const struct kr_api_field which_fields[] = {SANDBOX(which_args)};
static const struct kr_api_table which_table = KR_API_TABLE("McpSandboxDeleteInput", "Which sandbox.", which_fields,
    struct which_args);
static const struct kr_api_field code_fields[] = {
    SANDBOX(code_args),
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct code_args, code), .required = true, .help = "Python to run.",
     .example = "print(1)"},
};
static const struct kr_api_table code_table = KR_API_TABLE("McpSandboxExecuteInput", "What to run, and where.",
    code_fields, struct code_args);
static const struct kr_api_field command_fields[] = {
    SANDBOX(code_args),
    {.name = "command", .type = KR_API_TEXT, KR_API_AT(struct code_args, code), .required = true,
     .help = "What the shell is to run.", .example = "ls -la | wc -l"},
};
static const struct kr_api_table command_table = KR_API_TABLE("McpSandboxCommandInput", "What to run, and where.",
    command_fields, struct code_args);
static const char *const encodings[] = {"text", "base64", NULL};
static const struct kr_api_field upload_fields[] = {
    SANDBOX(upload_args),
    {.name = "local_file_path", .type = KR_API_STRING, KR_API_AT(struct upload_args, local), .nullable = true,
     KR_API_LENGTH(1, 4000),
     .help = "A file on the server's machine: only for clients on that machine, or beneath its upload_roots.",
     .example = "/srv/upload/table.csv"},
    {.name = "dest_path", .type = KR_API_STRING, KR_API_AT(struct upload_args, dest), .nullable = true,
     .def = "/app/results", KR_API_LENGTH(1, 4000),
     .help = "Where to: a folder, or the file's new path.", .example = "/app/results"},
    {.name = "content", .type = KR_API_TEXT, KR_API_AT(struct upload_args, content), .nullable = true, .nul_ok = true,
     .help = "Instead of local_file_path: the content itself; dest_path is then the file's path.",
     .example = "a,b\n1,2\n"},
    {.name = "encoding", .type = KR_API_ENUM, KR_API_AT(struct upload_args, encoding), .choices = encodings,
     .def = "text", .help = "Of content.", .example = "text"},
};
static const struct kr_api_table upload_table = KR_API_TABLE("McpSandboxUploadInput", "What to upload, and where to.",
    upload_fields, struct upload_args);
/* clang-format on */

/* ---- what goes wrong ---- */

static void answer_sandbox_value(struct kr_mcp_call *c, json_t *value)
{
    kr_compat_answer(c, value, KR_COMPAT_PLAIN);
}

static void fail_sandbox_tool(struct kr_mcp_call *c, const char *sandbox, const struct kr_err *err)
{
    json_t *message = err->kind == KR_ERR_NOT_FOUND && sandbox ? json_sprintf("Sandbox not found: %s", sandbox)
                                                               : json_string(kr_compat_reason(err));

    answer_sandbox_value(c, json_pack("{s:b, s:o}", "error", 1, "message", message));
}

bool kr_compat_named_sandbox(struct kr_mcp_call *c, const char *given, char *id)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_err err;

    if (kr_box_sandbox_find(kr_mcp_api(c)->box, kr_mcp_caller(c), given, &s, &err) < 0) {
        fail_sandbox_tool(c, given, &err);
        return false;
    }
    memcpy(id, s.row.id, KR_STORE_ID_ROOM);
    return true;
}

/* ---- create, list, delete ---- */

/* Without a name it is called as the document's server calls it: the next number that is free. */
static int make_sandbox(struct kr_mcp_call *c, const char *name, struct kr_sandbox *ret, struct kr_err *err)
{
    const struct kr_caller *who = kr_mcp_caller(c);
    struct kr_api *api = kr_mcp_api(c);
    char numbered[32];
    int count, r = -EEXIST;

    if (name)
        return kr_box_sandbox_create(api->box, who, name, NULL, ret, err);
    count = kr_store_sandboxes_count(api->store, who->user, err);
    if (count < 0)
        return count;
    for (int n = count + 1; n <= count + NAMES_TRIED && r == -EEXIST; n++) {
        snprintf(numbered, sizeof numbered, "Sandbox %d", n);
        r = kr_box_sandbox_create(api->box, who, numbered, NULL, ret, err);
    }
    return r == -EEXIST ? kr_box_sandbox_create(api->box, who, NULL, NULL, ret, err) : r;
}

static void run_create(struct kr_mcp_call *c, const void *args)
{
    const struct create_args *a = args;
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_err err;

    if (make_sandbox(c, a->name, &s, &err) < 0)
        fail_sandbox_tool(c, NULL, &err);
    else
        answer_sandbox_value(c, json_pack("{s:s, s:s, s:s, s:s}", "sandbox_id", s.row.id, "user_id", s.row.owner,
                                          "name", s.row.name, "status", KR_STORE_SANDBOX_STATE));
}

static void on_row(void *data, const struct kr_store_sandbox *s)
{
    if (!kr_store_is_default(s->name))
        json_array_append_new(data, json_pack("{s:s, s:s, s:s, s:[]}", "sandbox_id", s->id, "name", s->name, "status",
                                              KR_STORE_SANDBOX_STATE, "installed_packages"));
}

static void run_list(struct kr_mcp_call *c, const void *args)
{
    struct kr_store_page page = {.limit = KR_STORE_PAGE_MAX};
    json_t *list = json_array();
    struct kr_err err;

    (void)args;
    do {
        if (kr_store_sandboxes_list(kr_mcp_api(c)->store, kr_mcp_caller(c)->user, &page, on_row, list, &err) < 0) {
            json_decref(list);
            fail_sandbox_tool(c, NULL, &err);
            return;
        }
        page.after = page.next;
    } while (page.next[0]);
    kr_compat_list_with_packages(c, list);
}

static void run_delete(struct kr_mcp_call *c, const void *args)
{
    const struct which_args *a = args;
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_box *box = kr_mcp_api(c)->box;
    struct kr_err err;
    int r = kr_box_sandbox_find(box, kr_mcp_caller(c), a->sandbox, &s, &err);

    if (r >= 0 && kr_store_is_default(s.row.name))
        r = kr_err_set(&err, KR_ERR_CONFLICT, 0, "the sandbox called " KR_STORE_DEFAULT " stays");
    if (r >= 0)
        r = kr_box_sandbox_delete(box, kr_mcp_caller(c), s.row.id, &err);
    if (r < 0)
        fail_sandbox_tool(c, a->sandbox, &err);
    else
        answer_sandbox_value(c, json_pack("{s:b, s:s}", "success", 1, "message", "Sandbox deleted successfully"));
}

/* ---- runs ---- */

/* Files that are there after the run, and a link to each. */
static void set_files(struct kr_mcp_call *c, json_t *value, const struct kr_mcp_outcome *o)
{
    json_t *names = json_array(), *links = json_array(), *file;
    size_t i;

    json_array_foreach(kr_compat_end(o, "files"), i, file)
    {
        const char *path = json_string_value(json_object_get(file, "path"));
        const char *change = json_string_value(json_object_get(file, "change"));
        cleanup_buf struct kr_buf link = {0};

        if (!path || !change || strcmp(change, "deleted") == 0 || json_array_size(names) >= FILES_LINKED)
            continue;
        json_array_append_new(names, json_sprintf(RESULTS "%s", path));
        kr_buf_init(&link, KR_MCP_URI_MAX);
        if (kr_mcp_link_add(c, o->sandbox, path, true, &link) == 0)
            json_array_append_new(links, json_string(kr_buf_str(&link)));
    }
    json_object_set_new(value, "files", names);
    json_object_set_new(value, "file_links", links);
}

static void set_sandbox_output(json_t *value, const struct kr_mcp_outcome *o, size_t cap)
{
    cleanup_buf struct kr_buf err = {0};

    kr_buf_init(&err, 4 * KR_MCP_OUTPUT_MAX);
    kr_compat_stderr(&err, o);
    json_object_set_new(value, "stdout", kr_compat_text(&o->out, SIZE_MAX, cap, false, CUT_MARK));
    json_object_set_new(value, "stderr", kr_compat_text(&err, SIZE_MAX, cap, false, CUT_MARK));
}

static json_t *make_run(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, size_t cap, void *data)
{
    json_t *value = json_object();
    int code;
    bool good = kr_compat_good(o, &code);

    (void)data;
    set_sandbox_output(value, o, cap / 4);
    json_object_set_new(value, "exit_code", json_integer(code));
    set_files(c, value, o);
    if (!good)
        json_object_set_new(value, "error", kr_compat_error(o));
    return value;
}

/* The value, and behind it figures as pictures, which the document's server could not show. */
static void render_run(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    json_t *value = kr_compat_fit(c, o, make_run, data, KR_COMPAT_PLAIN), *display;
    struct kr_mcp_result r;
    size_t i;

    if (!value) {
        kr_mcp_tool_refuse(c, "out of memory");
        return;
    }
    kr_mcp_result_init(&r);
    kr_mcp_add_json(&r, value, 2);
    json_decref(value);
    json_array_foreach(o->displays, i, display)
    {
        const json_t *png = json_object_get(json_object_get(display, "data"), "image/png");

        if (json_is_string(png))
            kr_mcp_add_image(&r, json_string_value(png), json_string_length(png), "image/png");
    }
    kr_mcp_tool_done(c, &r);
}

void kr_compat_run_in_sandbox(struct kr_mcp_call *c, const char *sandbox, const struct kr_text *code)
{
    char id[KR_STORE_ID_ROOM];
    struct kr_mcp_run_spec spec = {
        .spec = {.sandbox = id,
                 .fresh = true,
                 .code = *code,
                 .timeout_ms = kr_compat_timeout(c, KR_DIALECT_MCP_SANDBOX)},
        .render = render_run,
        .ask_client = true,
    };

    if (kr_compat_named_sandbox(c, sandbox, id))
        kr_mcp_run(c, &spec);
}

static void run_code_in_sandbox(struct kr_mcp_call *c, const void *args)
{
    const struct code_args *a = args;

    kr_compat_run_in_sandbox(c, a->sandbox, &a->code);
}

/* ---- commands ---- */

static json_t *make_command(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, size_t cap, void *data)
{
    json_t *value = json_object();
    int code;

    (void)c, (void)data, (void)kr_compat_good(o, &code);
    set_sandbox_output(value, o, cap / 4);
    json_object_set_new(value, "exit_code", json_integer(code));
    return value;
}

static void render_command(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    answer_sandbox_value(c, kr_compat_fit(c, o, make_command, data, KR_COMPAT_PLAIN));
}

static void run_command(struct kr_mcp_call *c, const void *args)
{
    const struct code_args *a = args;
    struct kr_mcp_terminal t = {.command = a->code.text, .command_len = a->code.len};
    char id[KR_STORE_ID_ROOM];
    struct kr_mcp_run_spec spec = {
        .spec = {.sandbox = id,
                 .fresh = true,
                 .input = {"", 0},
                 .shell = true,
                 .timeout_ms = kr_compat_timeout(c, KR_DIALECT_MCP_SANDBOX)},
        .render = render_command,
    };
    cleanup_buf struct kr_buf code = {0};

    kr_buf_init(&code, 16u << 20);
    if (!kr_compat_named_sandbox(c, a->sandbox, id))
        return;
    if (kr_mcp_terminal_code(&code, &t) < 0) {
        kr_mcp_tool_refuse(c, "out of memory");
        return;
    }
    spec.spec.code = (struct kr_text){code.data, code.len};
    kr_mcp_run(c, &spec);
}

/* ---- upload ---- */

static void answer_upload(struct kr_mcp_call *c, const struct kr_mcp_uploaded *u, const struct kr_err *err,
                          const char *dest)
{
    (void)dest;
    if (err)
        answer_sandbox_value(c, json_pack("{s:b, s:s}", "error", 1, "message", kr_compat_reason(err)));
    else
        answer_sandbox_value(
            c, json_pack("{s:b, s:o}", "success", 1, "message",
                         json_sprintf("Uploaded %s to " RESULTS "%s in sandbox %s", u->name, u->path, u->sandbox)));
}

static void run_upload(struct kr_mcp_call *c, const void *args)
{
    const struct upload_args *a = args;
    char id[KR_STORE_ID_ROOM];
    struct kr_mcp_upload u = {.sandbox = id,
                              .dest = a->dest,
                              .content = a->content,
                              .base64 = a->encoding == 1,
                              .local = a->local,
                              .answer = answer_upload};

    if (kr_compat_named_sandbox(c, a->sandbox, id))
        kr_mcp_upload(c, &u);
}

/* ---- rows ---- */

const struct kr_mcp_tool kr_tool_mcp_sandbox_create = {
    .name = "create_sandbox",
    .title = "Create a sandbox",
    .description =
        "Makes a sandbox and answers with its sandbox_id, which the other tools need. Sandboxes last: look at "
        "list_sandboxes first and use one that is there.",
    .dialects = KR_IN_MCP_SANDBOX,
    .needs = KR_RIGHT_RUN,
    .input = &create_table,
    .run = run_create,
};
const struct kr_mcp_tool kr_tool_mcp_sandbox_list = {
    .name = "list_sandboxes",
    .title = "List sandboxes",
    .description = "Lists your sandboxes with their ids, names and installed packages.",
    .dialects = KR_IN_MCP_SANDBOX,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .run = run_list,
};
const struct kr_mcp_tool kr_tool_mcp_sandbox_execute = {
    .name = "execute_python_code",
    .title = "Execute Python code",
    .description =
        "Runs Python in a sandbox, as a process of its own: variables are not kept, files are. Files written to the "
        "working directory (/app/results) come back as links. Save figures with savefig.",
    .dialects = KR_IN_MCP_SANDBOX,
    .flags = KR_TOOL_TASK,
    .needs = KR_RIGHT_RUN,
    .input = &code_table,
    .run = run_code_in_sandbox,
};
const struct kr_mcp_tool kr_tool_mcp_sandbox_command = {
    .name = "execute_terminal_command",
    .title = "Run a shell command",
    .description =
        "Runs a command in a shell in a sandbox, with pipes and redirects. Answers with stdout, stderr and exit_code.",
    .dialects = KR_IN_MCP_SANDBOX,
    .flags = KR_TOOL_TASK,
    .needs = KR_RIGHT_RUN,
    .input = &command_table,
    .run = run_command,
};
const struct kr_mcp_tool kr_tool_mcp_sandbox_upload = {
    .name = "upload_file_to_sandbox",
    .title = "Upload a file",
    .description =
        "Puts a file into a sandbox: its content, or (for clients on the server's own machine) a file by its path.",
    .dialects = KR_IN_MCP_SANDBOX,
    .flags = KR_TOOL_DESTRUCTIVE | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .input = &upload_table,
    .run = run_upload,
};
const struct kr_mcp_tool kr_tool_mcp_sandbox_delete = {
    .name = "delete_sandbox",
    .title = "Delete a sandbox",
    .description = "Deletes a sandbox with its files.",
    .dialects = KR_IN_MCP_SANDBOX,
    .flags = KR_TOOL_DESTRUCTIVE | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .input = &which_table,
    .run = run_delete,
};
/* Earlier names of the document's and a fork's. */
const struct kr_mcp_tool kr_tool_mcp_sandbox_create_env = {
    .name = "create_python_env",
    .title = "Create a sandbox",
    .description = "create_sandbox under its earlier name.",
    .needs = KR_RIGHT_RUN,
    .input = &create_table,
    .run = run_create,
};
const struct kr_mcp_tool kr_tool_mcp_sandbox_list_envs = {
    .name = "list_python_envs",
    .title = "List sandboxes",
    .description = "list_sandboxes under its earlier name.",
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .run = run_list,
};

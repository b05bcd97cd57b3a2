/* The tools over plain HTTP: GET /api/v1/tools and POST /api/v1/tools/{name}. Handlers of the route table.
 *
 * Each request is a tools/list or tools/call of a peer that ends with it: the same rows, checks and limits as over MCP,
 * without the envelope. Such a peer declares nothing, so it is asked nothing and gets no notifications; when the client
 * leaves, its call is cancelled. Invariant: what JSON-RPC calls an error and what a tool refuses goes out in krait's
 * voice with the status of its kind; code that failed is a result with isError. */
#include "mcp_http_tools.h"
#include "json_load.h"
#include "dialect.h"
#include "mcp_http_ask.h"
#include "mcp_http_body.h"
#include "mcp_http_stream.h"
#include "reply.h"
#include "buf.h"
#include "err.h"
#include <stdlib.h>
#include <string.h>

#define OBJECT_MAX (256u << 10) /* bytes of a result that is looked through for an object */

#define LIST_REV KR_REV_2025_06_18 /* says nothing of tasks, which cannot be asked for here */
#define CALL_REV KR_REV_2025_11_25

/* ---- rows ---- */

/* clang-format off */
struct manner {
    int dialect;
    bool structured;
    int tools;
};
static const char *const tool_sets[] = {"all", "core", NULL};
static const struct kr_api_field manner_fields[] = { /* read by mcp_http_ask.c, as on /mcp */
    {.name = "dialect", .type = KR_API_ENUM, KR_API_AT(struct manner, dialect), .choices = kr_dialect_names,
     .help = "Whose tools: ours, or those of another server. Absent: the listener's.", .example = "krait"},
    {.name = "structured", .type = KR_API_BOOL, KR_API_AT(struct manner, structured),
     .help = "Our execution tools answer with an object too.", .example = "true"},
    {.name = "tools", .type = KR_API_ENUM, KR_API_AT(struct manner, tools), .choices = tool_sets,
     .help = "Of our own tools all, or only those that run and read.", .example = "core"},
};
static const struct kr_api_table manner_table = KR_API_TABLE(NULL, "In what manner.", manner_fields, struct manner);

static const struct kr_api_prop tool_props[] = {
    {.name = "name", .type = KR_API_STRING, .help = "What it is called by.", .example = "execute_python"},
    {.name = "title", .type = KR_API_STRING, .optional = true, .help = "For people.", .example = "Run Python"},
    {.name = "description", .type = KR_API_STRING, .help = "For a model: what it does and when to use it.",
     .example = "Runs Python code."},
    {.name = "inputSchema", .type = KR_API_OBJECT, .help = "JSON Schema of its arguments.",
     .example = "{\"type\":\"object\",\"properties\":{}}"},
    {.name = "outputSchema", .type = KR_API_OBJECT, .optional = true, .help = "JSON Schema of `structuredContent`.",
     .example = "{\"type\":\"object\"}"},
    {.name = "annotations", .type = KR_API_OBJECT,
     .help = "Hints: does it only read, does it destroy, may it be repeated.", .example = "{\"readOnlyHint\":true}"},
};
static const struct kr_api_schema tool_schema = KR_API_SCHEMA("Tool", "A tool as MCP describes it.", tool_props);
static const struct kr_api_prop tools_props[] = {
    {.name = "tools", .type = KR_API_ARRAY, .of = &tool_schema, .help = "All there are in this dialect."},
};
static const struct kr_api_schema tools_schema = KR_API_SCHEMA("Tools", "The tools.", tools_props);

static const char *const block_types[] = {"text", "image", "audio", "resource_link", "resource", NULL};
static const struct kr_api_prop block_props[] = {
    {.name = "type", .type = KR_API_ENUM, .choices = block_types, .help = "What it is.", .example = "text"},
    {.name = "text", .type = KR_API_STRING, .optional = true, .help = "Of a text.", .example = "42"},
    {.name = "data", .type = KR_API_STRING, .optional = true, .format = "byte",
     .help = "Of an image or a sound: base64.", .example = "iVBORw0KGgo="},
    {.name = "mimeType", .type = KR_API_STRING, .optional = true,
     .help = "What the data are, or what the link leads to.", .example = "image/png"},
    {.name = "uri", .type = KR_API_STRING, .optional = true, .help = "Of a link.",
     .example = "sandbox://default/a.csv"},
    {.name = "name", .type = KR_API_STRING, .optional = true, .help = "Of a link: the file.", .example = "a.csv"},
    {.name = "title", .type = KR_API_STRING, .optional = true, .help = "Of a link: for people.", .example = "a.csv"},
    {.name = "description", .type = KR_API_STRING, .optional = true, .help = "Of a link: what happened to it.",
     .example = "new"},
    {.name = "size", .type = KR_API_INT, .optional = true, .help = "Of a link: bytes.", .example = "12"},
    {.name = "resource", .type = KR_API_OBJECT, .optional = true,
     .help = "An embedded one: `uri`, `mimeType`, and `text` or `blob`.",
     .example = "{\"uri\":\"sandbox://default/a.csv\",\"text\":\"1,2\"}"},
    {.name = "annotations", .type = KR_API_OBJECT, .optional = true, .help = "Whom it is for.",
     .example = "{\"audience\":[\"user\"]}"},
    {.name = "_meta", .type = KR_API_OBJECT, .optional = true, .help = "More about it.", .example = "{}"},
};
static const struct kr_api_schema block_schema = KR_API_SCHEMA("ContentBlock", "A piece of a tool's result.",
    block_props);
static const struct kr_api_prop result_props[] = {
    {.name = "content", .type = KR_API_ARRAY, .of = &block_schema, .help = "What a model reads, in order."},
    {.name = "structuredContent", .type = KR_API_OBJECT, .optional = true,
     .help = "The same as an object, of tools that have one.", .example = "{\"stdout\":\"42\\n\"}"},
    {.name = "isError", .type = KR_API_BOOL, .optional = true,
     .help = "The call failed, and the text says what to mend.", .example = "false"},
    {.name = "_meta", .type = KR_API_OBJECT, .optional = true, .help = "More about it.", .example = "{}"},
};
static const struct kr_api_schema result_schema = KR_API_SCHEMA("CallToolResult", "What a tool answers, as in MCP.",
    result_props);

static const struct kr_api_response tools_ok[] = {{200, "The tools.", NULL, &tools_schema, NULL, NULL}, {0}};
const struct kr_api_response kr_mcp_tool_ok[] = {
    {200, "The tool's answer; code that fails is one too, with `isError`.", NULL, &result_schema, NULL, NULL},
    {0}};
static const struct kr_api_param name_params[] = {{"name", "The tool.", "execute_python"}, {0}};

const struct kr_api_doc kr_mcp_tools_doc = {
    .id = "list_tools", .tag = "tools", .summary = "List the tools", .voice = KR_API_KRAIT,
    .description = "What `tools/list` of MCP tells.", .query = &manner_table, .responses = tools_ok};
const struct kr_api_doc kr_mcp_tool_doc = {
    .id = "call_tool", .tag = "tools", .summary = "Call a tool by its name", .voice = KR_API_KRAIT,
    .description = "The body is the arguments. Those of the server's own dialect have paths of their own here; with "
                   "`dialect` it is another server's tool. A client that leaves before the answer stops what it asked "
                       "for.",
    .params = name_params, .query = &manner_table, .body_schema = "{\"type\":\"object\"}", .responses = kr_mcp_tool_ok};
/* clang-format on */

/* ---- answers ---- */

bool kr_mcp_is_plain(const struct kr_http_ex *ex)
{
    const struct kr_api_doc *doc = kr_api_doc_of(ex);

    return doc == &kr_mcp_tools_doc || doc == &kr_mcp_tool_doc;
}

/* A call with a name and arguments alone has but one error of its parameters: an unknown name. */
static enum kr_err_kind kind_of(int code)
{
    return code == KR_RPC_INVALID_PARAMS ? KR_ERR_NOT_FOUND : code == KR_RPC_INTERNAL ? KR_ERR_BUSY : KR_ERR_INVALID;
}

/* The first text of a result; NULL if it has none. */
static const char *first_text(const json_t *result)
{
    return json_string_value(json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
}

/* A result that says why nothing was done, as an error of its kind. */
static void reply_refusal(struct kr_http_ex *ex, enum kr_err_kind kind, const char *json, size_t len)
{
    struct kr_err err = {.kind = (uint16_t)kind};
    json_t *result = json_loadb(json, len, 0, NULL);
    const char *text = first_text(result);
    cleanup_buf struct kr_buf out;

    kr_buf_init(&out, KR_API_REPLY_MAX);
    kr_api_error_body(KR_API_KRAIT, 0, kr_err_row(kind)->name, text ? text : kr_err_row(kind)->help, NULL,
                      kr_http_request_id(ex), &out);
    kr_http_reply_json(ex, kr_api_status_of(&err), &out);
    json_decref(result);
}

/* A result whose one text is a JSON object has it as an object too. */
static bool reply_with_object(struct kr_http_ex *ex, const char *json, size_t len)
{
    json_t *result, *object = NULL;
    const char *text;
    char *out = NULL;

    if (len > OBJECT_MAX || !memmem(json, len, "\"text\":\"{", 9))
        return false;
    result = json_loadb(json, len, 0, NULL);
    text = first_text(result);
    if (text && text[0] == '{' && json_array_size(json_object_get(result, "content")) == 1 &&
        !json_object_get(result, "structuredContent"))
        object = json_loads(text, 0, NULL);
    if (object && json_object_set(result, "structuredContent", object) == 0)
        out = json_dumps(result, JSON_COMPACT);
    if (out)
        kr_http_reply(ex, 200, "application/json", out, strlen(out));
    free(out);
    json_decref(object);
    json_decref(result);
    return out != NULL;
}

void kr_mcp_plain_answer(struct kr_http_ex *ex, int code, const char *json, size_t len)
{
    json_t *message;
    const char *text;

    if (len && code >= 0) {
        json = kr_mcp_result_text(json, &len);
        if (code > 0)
            reply_refusal(ex, (enum kr_err_kind)code, json, len);
        else if (!reply_with_object(ex, json, len))
            kr_http_reply(ex, 200, "application/json", json, len);
        return;
    }
    message = len ? json_loadb(json, len, 0, NULL) : NULL;
    text = json_string_value(json_object_get(json_object_get(message, "error"), "message"));
    kr_api_fail_with(ex, len ? kind_of(code) : KR_ERR_BUSY, "%s", text ? text : "the call was cancelled");
    json_decref(message);
}

/* ---- handlers ---- */

/* params is taken, NULL: no memory. */
static void begin_plain_call(struct kr_http_ex *ex, struct kr_api *api, const char *method, json_t *params,
                             enum kr_mcp_rev rev)
{
    struct kr_mcp_message msg = {.kind = KR_MCP_REQUEST, .method = method, .params = params, .id = json_integer(1)};
    struct kr_mcp_asker asker;
    struct kr_mcp_stream *s;

    if (!msg.id || !params) {
        kr_api_fail_with(ex, KR_ERR_BUSY, "no memory");
    } else if (kr_mcp_http_asker(ex, api, &asker) && (s = kr_mcp_http_alone(ex, api->mcp, &asker, rev, 1))) {
        kr_mcp_stream_plain(s);
        kr_mcp_peer_take(s->peer, &msg, (int)rev, s);
    }
    json_decref(params);
    json_decref(msg.id);
}

void kr_mcp_http_tools(struct kr_http_ex *ex, void *app)
{
    begin_plain_call(ex, app, "tools/list", json_object(), LIST_REV);
}

/* arguments are taken. The engine lets no name through that is not UTF-8. */
static void call(struct kr_http_ex *ex, struct kr_api *api, json_t *arguments)
{
    const char *name = kr_http_param(ex, "name");

    begin_plain_call(ex, api, "tools/call", json_pack("{s:s, s:o}", "name", name, "arguments", arguments), CALL_REV);
}

static void on_arguments_parsed(struct kr_http_ex *ex, struct kr_api *api, json_t *root, const struct kr_mcp_flaw *flaw,
                                json_t *id)
{
    (void)id;
    if (kr_json_is_object(root)) {
        call(ex, api, root);
        return;
    }
    if (root)
        kr_api_fail_with(ex, KR_ERR_INVALID, "the body: the tool's arguments, a JSON object");
    else
        kr_api_fail_with(ex, flaw->code == KR_RPC_INTERNAL ? KR_ERR_BUSY : KR_ERR_INVALID, "the body: %s", flaw->text);
    json_decref(root);
}

void kr_mcp_http_tool(struct kr_http_ex *ex, void *app)
{
    size_t len;

    (void)kr_http_body(ex, &len);
    if (len)
        kr_mcp_http_read(ex, app, on_arguments_parsed);
    else
        call(ex, app, json_object()); /* no body: no arguments */
}

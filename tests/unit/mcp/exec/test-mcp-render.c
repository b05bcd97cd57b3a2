/* Arguments, results and what a model reads, without a server: src/mcp/{args,result,render,render_text,tools_schema}.c
 * over a call that only remembers its answer. */
#include "tool_args.h"
#include "check.h"
#include "err.h"
#include "mcp.h"
#include "render.h"
#include "shell_snippet.h"
#include "tool.h"
#include "tool_schema.h"
#include "uri.h"
#include <errno.h>
#include <stdarg.h>

/* ---- a call that remembers its answer ---- */

struct kr_mcp_call {
    enum kr_mcp_rev rev;
    bool structured, reads_first;
    const struct kr_mcp_tool *tool;
    json_t *result;
    int code;
};
static struct kr_mcp_config config;

enum kr_mcp_rev kr_mcp_call_rev(const struct kr_mcp_call *c)
{
    return c->rev;
}

bool kr_mcp_structured(const struct kr_mcp_call *c)
{
    return c->structured;
}

bool kr_mcp_client_reads_first(const struct kr_mcp_call *c)
{
    return c->reads_first;
}

bool kr_mcp_is_local(const struct kr_mcp_call *c)
{
    (void)c;
    return true;
}

struct kr_mcp *kr_mcp_of(const struct kr_mcp_call *c)
{
    (void)c;
    return NULL;
}

const struct kr_mcp_config *kr_mcp_config(const struct kr_mcp *m)
{
    (void)m;
    return &config;
}

const struct kr_mcp_tool *kr_mcp_call_tool(const struct kr_mcp_call *c)
{
    return c->tool;
}

int kr_mcp_link_add(const struct kr_mcp_call *c, const char *sandbox, const char *path, bool document,
                    struct kr_buf *out)
{
    (void)c, (void)document;
    return kr_buf_printf(out, "http://here/files/%s/%s", sandbox, path);
}

int kr_mcp_uri_file(struct kr_buf *out, const char *sandbox, const char *path)
{
    return kr_buf_printf(out, "sandbox://%s/%s", sandbox, path);
}

void kr_mcp_refused(struct kr_mcp_call *c, int kind)
{
    (void)c;
    (void)kind;
}

void kr_mcp_reply(struct kr_mcp_call *c, json_t *result)
{
    c->result = result;
}

void kr_mcp_fail(struct kr_mcp_call *c, int code, json_t *data, const char *fmt, ...)
{
    (void)fmt;
    json_decref(data);
    c->code = code;
}

static const char *text_at(const struct kr_mcp_call *c, size_t i)
{
    const char *text =
        json_string_value(json_object_get(json_array_get(json_object_get(c->result, "content"), i), "text"));

    return text ? text : "";
}

static const char *type_at(const struct kr_mcp_call *c, size_t i)
{
    const char *type =
        json_string_value(json_object_get(json_array_get(json_object_get(c->result, "content"), i), "type"));

    return type ? type : "";
}

static size_t blocks(const struct kr_mcp_call *c)
{
    return json_array_size(json_object_get(c->result, "content"));
}

static bool is_error(const struct kr_mcp_call *c)
{
    return json_is_true(json_object_get(c->result, "isError"));
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* ---- arguments ---- */

struct some_args {
    struct kr_text code;
    int64_t number;
    bool flag;
    json_t *map, *list;
};
/* clang-format off */
static const struct kr_api_field some_fields[] = {
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct some_args, code), .required = true, .help = "Code.",
     .example = "1"},
    {.name = "number", .type = KR_API_INT, KR_API_AT(struct some_args, number), KR_API_RANGE(0, 100), .def = "7",
     .aliases = (const char *const[]){"count", NULL}, .help = "How many.", .example = "3"},
    {.name = "flag", .type = KR_API_BOOL, KR_API_AT(struct some_args, flag), .help = "Whether.", .example = "true"},
    {.name = "map", .type = KR_API_MAP, KR_API_AT(struct some_args, map), .nullable = true, .help = "A map.",
     .example = "{}"},
    {.name = "list", .type = KR_API_STRINGS, KR_API_AT(struct some_args, list), .help = "A list.", .example = "[]"},
};
static const struct kr_api_table some_table = KR_API_TABLE("Some", "Some.", some_fields, struct some_args);
/* clang-format on */
static const struct kr_mcp_tool ours = {.name = "some", .dialects = KR_IN_KRAIT, .input = &some_table};
static const struct kr_mcp_tool theirs = {.name = "some", .dialects = KR_IN_PYTHON_EXECUTOR, .input = &some_table};
static const struct kr_mcp_tool none = {.name = "none", .dialects = KR_IN_KRAIT};

static int parse(const struct kr_mcp_tool *tool, const char *text, struct kr_mcp_args **ret, struct kr_err *err)
{
    json_t *arguments = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    int r = kr_mcp_args_parse(tool, arguments, ret, err);

    json_decref(arguments);
    return r;
}

static void args_strings_stand_for_values(void)
{
    struct kr_mcp_args *a;
    const struct some_args *s;
    struct kr_err err;

    CHECK(parse(&ours,
                "{\"code\":\"12\",\"number\":\"3\",\"flag\":\"true\",\"map\":\"{\\\"A\\\":\\\"1\\\"}\",\"list\":\"["
                "\\\"x\\\"]\"}",
                &a, &err) == 0);
    s = kr_mcp_args_struct(a);
    CHECK(strcmp(s->code.text, "12") == 0); /* a text stays one */
    CHECK(s->number == 3 && s->flag);
    CHECK(strcmp(json_string_value(json_object_get(s->map, "A")), "1") == 0);
    CHECK(json_array_size(s->list) == 1);
    kr_mcp_args_free(a);
    CHECK(parse(&ours, "{\"code\":\"x\",\"count\":\"4\"}", &a, &err) == 0); /* by another name */
    CHECK(((const struct some_args *)kr_mcp_args_struct(a))->number == 4);
    kr_mcp_args_free(a);
    CHECK(parse(&ours, "\"{\\\"code\\\":\\\"x\\\"}\"", &a, &err) == 0); /* all of them in a string */
    CHECK(((const struct some_args *)kr_mcp_args_struct(a))->number == 7);
    kr_mcp_args_free(a);
}

static void args_refused_by_name(void)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {NULL, "code"},
        {"{}", "code"},
        {"null", "code"},
        {"[]", "must be an object"},
        {"3", "must be an object"},
        {"\"nonsense\"", "must be an object"},
        {"{\"code\":\"x\",\"nmber\":1}", "did you mean number?"},
        {"{\"code\":\"x\",\"number\":\"many\"}", "number"},
        {"{\"code\":\"x\",\"number\":101}", "number"},
        {"{\"code\":\"x\",\"number\":1,\"count\":2}", "another name"},
        {"{\"code\":\"x\",\"map\":\"{\\\"A\\\":1}\"}", "map"},
        {"{\"code\":7}", "code"},
    };
    struct kr_mcp_args *a;
    struct kr_err err;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK(parse(&ours, rows[i].text, &a, &err) == -EINVAL);
        CHECK(has(err.msg, rows[i].part));
    }
    CHECK(parse(&none, "{\"x\":1}", &a, &err) == -EINVAL);
    CHECK(parse(&none, NULL, &a, &err) == 0);
    CHECK(!kr_mcp_args_struct(a));
    kr_mcp_args_free(a);
    CHECK(parse(&theirs, "{\"code\":\"x\",\"unheard_of\":1}", &a, &err) == 0); /* the documents ignore it */
    kr_mcp_args_free(a);
}

static void args_deep_strings_are_no_values(void)
{
    char text[400] = "{\"code\":\"x\",\"map\":\"";
    struct kr_mcp_args *a;
    struct kr_err err;

    for (int i = 0; i < 100; i++)
        strcat(text, "[");
    for (int i = 0; i < 100; i++)
        strcat(text, "]");
    strcat(text, "\"}");
    CHECK(parse(&ours, text, &a, &err) == -EINVAL);
    CHECK(has(err.msg, "map"));
}

/* ---- schemas ---- */

static void schema_of_arguments(void)
{
    json_t *s = kr_mcp_input_schema(&some_table, true), *p = json_object_get(s, "properties");

    CHECK(json_is_false(json_object_get(s, "additionalProperties")));
    CHECK(json_object_size(p) == 5); /* aliases are not listed */
    CHECK(json_array_size(json_object_get(s, "required")) == 1);
    CHECK(json_integer_value(json_object_get(json_object_get(p, "number"), "maximum")) == 100);
    CHECK(json_integer_value(json_object_get(json_object_get(p, "number"), "default")) == 7);
    CHECK(strcmp(json_string_value(json_object_get(json_object_get(p, "map"), "type")), "object") == 0);
    json_decref(s);
    s = kr_mcp_output_schema(&kr_mcp_structure_schema);
    CHECK(strcmp(json_string_value(json_object_get(s, "type")), "object") == 0);
    CHECK(json_array_size(json_object_get(s, "required")) == kr_mcp_structure_schema.count - 1); /* `behind` */
    json_decref(s);
}

/* ---- results ---- */

static void result_texts_are_utf8(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2025_11_25};
    struct kr_mcp_result r;

    kr_mcp_result_init(&r);
    kr_mcp_add_text(&r,
                    "a\xff"
                    "b",
                    3);
    kr_mcp_add_text(&r, "x\0y", 3);
    kr_mcp_tool_done(&c, &r);
    CHECK(strcmp(text_at(&c, 0), "a\xef\xbf\xbd"
                                 "b") == 0);
    CHECK(json_string_length(json_object_get(json_array_get(json_object_get(c.result, "content"), 1), "text")) == 3);
    json_decref(c.result);
}

static void result_downgrades(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2024_11_05, .tool = &theirs};
    struct kr_mcp_result r;

    for (int rev = 0; rev < KR_REV_MAX_; rev++) {
        c.rev = (enum kr_mcp_rev)rev;
        kr_mcp_result_init(&r);
        kr_mcp_add_audio(&r, "QUJD", 4, "audio/wav");
        kr_mcp_add_link(&r, "sandbox://s/a.txt", "a.txt", NULL, "text/plain", 3);
        r.structured = json_pack("{s:i}", "x", 1);
        kr_mcp_tool_done(&c, &r);
        CHECK(blocks(&c) == 2);
        CHECK(strcmp(type_at(&c, 0), kr_mcp_revs[rev].audio ? "audio" : "resource") == 0);
        CHECK(strcmp(type_at(&c, 1), kr_mcp_revs[rev].resource_link ? "resource_link" : "text") == 0);
        if (!kr_mcp_revs[rev].resource_link)
            CHECK(has(text_at(&c, 1), "sandbox://s/a.txt"));
        CHECK((json_object_get(c.result, "structuredContent") != NULL) == kr_mcp_revs[rev].structured);
        json_decref(c.result);
    }
}

static void result_structure_of_ours_only_when_asked(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2026_07_28, .tool = &ours};
    struct kr_mcp_result r;

    for (int asked = 0; asked < 2; asked++) {
        c.structured = asked;
        kr_mcp_result_init(&r);
        r.structured = json_object();
        kr_mcp_tool_done(&c, &r);
        CHECK((json_object_get(c.result, "structuredContent") != NULL) == (asked == 1));
        json_decref(c.result);
    }
}

static size_t dumped(const json_t *value)
{
    return json_dumpb(value, NULL, 0, JSON_COMPACT);
}

static void result_fits_a_message(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2025_11_25, .tool = &theirs};
    size_t len = 6u << 20;
    char *big = malloc(len);
    struct kr_mcp_result r;

    memset(big, 'A', len);
    kr_mcp_result_init(&r);
    kr_mcp_add_text(&r, "first", 5);
    kr_mcp_add_image(&r, big, len, "image/png");
    kr_mcp_add_image(&r, big, len, "image/png");
    kr_mcp_tool_done(&c, &r);
    CHECK(dumped(c.result) <= KR_MCP_RESULT_MAX);
    CHECK(strcmp(text_at(&c, 0), "first") == 0);
    CHECK(strcmp(type_at(&c, 1), "image") == 0); /* the first one fits */
    CHECK(has(text_at(&c, 2), "left out"));
    json_decref(c.result);

    memset(big, 1, len); /* each byte is six in JSON */
    kr_mcp_result_init(&r);
    for (int i = 0; i < 4; i++)
        kr_mcp_add_text(&r, big, KR_MCP_TEXT_MAX + 1);
    kr_mcp_tool_done(&c, &r);
    CHECK(dumped(c.result) <= KR_MCP_RESULT_MAX);
    CHECK(has(text_at(&c, 3), "[cut:"));
    json_decref(c.result);

    kr_mcp_result_init(&r);
    for (int i = 0; i < 300; i++)
        kr_mcp_add_text(&r, big, 60000);
    kr_mcp_tool_done(&c, &r);
    CHECK(dumped(c.result) <= KR_MCP_RESULT_MAX);
    CHECK(has(text_at(&c, blocks(&c) - 1), "left out"));
    json_decref(c.result);

    memset(big, 'A', len);
    kr_mcp_result_init(&r);
    r.structured = json_pack("{s:s#, s:s#}", "a", big, (int)len, "b", big, (int)len);
    kr_mcp_tool_done(&c, &r);
    CHECK(dumped(c.result) <= KR_MCP_RESULT_MAX);
    CHECK(is_error(&c) && !json_object_get(c.result, "structuredContent"));
    json_decref(c.result);

    kr_mcp_result_init(&r);
    kr_mcp_add_image(&r, big, len + 0 > (7u << 20) ? len : len, "image/png");
    CHECK(len / 4 * 3 < KR_MCP_IMAGE_MAX);
    big = realloc(big, 8u << 20);
    memset(big, 'A', 8u << 20);
    kr_mcp_add_image(&r, big, 8u << 20, "image/png");
    kr_mcp_tool_done(&c, &r);
    CHECK(strcmp(type_at(&c, 0), "image") == 0);
    CHECK(has(text_at(&c, 1), "left out: 5 MB at most"));
    json_decref(c.result);
    free(big);
}

static void result_errors_tell_what_may_be_told(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2025_11_25, .tool = &ours};
    struct kr_err err;

    kr_err_set(&err, KR_ERR_NOT_FOUND, 0, "there is no such sandbox");
    kr_mcp_tool_fail(&c, &err);
    CHECK(is_error(&c) && strcmp(text_at(&c, 0), "there is no such sandbox") == 0);
    json_decref(c.result);
    kr_err_set(&err, KR_ERR_SYSTEM, EIO, "open /var/secret");
    kr_mcp_tool_fail(&c, &err);
    CHECK(is_error(&c) && !has(text_at(&c, 0), "secret"));
    json_decref(c.result);
}

/* ---- what a model reads ---- */

static void outcome_init(struct kr_mcp_outcome *o)
{
    *o = (struct kr_mcp_outcome){.run_id = "r1", .session = "main", .sandbox = "s1", .next_seq = 9};
    o->displays = json_array();
    o->end = json_pack("{s:s, s:i, s:n, s:b, s:[], s:b}", "cause", "ok", "exit_code", 0, "message", "truncated", 0,
                       "files", "session_alive", 1);
    kr_buf_init(&o->out, 1u << 20);
    kr_buf_init(&o->err, 1u << 20);
    kr_buf_init(&o->both, 1u << 20);
}

static void outcome_done(struct kr_mcp_outcome *o)
{
    kr_buf_done(&o->out);
    kr_buf_done(&o->err);
    kr_buf_done(&o->both);
    json_decref(o->displays);
    json_decref(o->end);
    json_decref(o->result);
    json_decref(o->error);
    json_decref(o->small_files);
}

static void put(struct kr_mcp_outcome *o, const char *out, const char *err)
{
    kr_buf_add_str(&o->out, out);
    kr_buf_add_str(&o->err, err);
    o->out_bytes = o->out.len;
    o->err_bytes = o->err.len;
}

static void render_plain(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2025_11_25, .tool = &ours};
    struct kr_mcp_outcome o;

    outcome_init(&o);
    put(&o, "42\n", "");
    kr_mcp_render(&c, &o, NULL);
    CHECK(blocks(&c) == 1 && strcmp(text_at(&c, 0), "42") == 0 && !is_error(&c));
    CHECK(!json_object_get(c.result, "structuredContent"));
    json_decref(c.result);
    kr_buf_reset(&o.out);
    kr_mcp_render(&c, &o, NULL);
    CHECK(strcmp(text_at(&c, 0), "[no output]") == 0);
    json_decref(c.result);
    c.structured = true;
    kr_mcp_render(&c, &o, NULL);
    CHECK(strcmp(json_string_value(json_object_get(json_object_get(c.result, "structuredContent"), "cause")), "ok") ==
          0);
    json_decref(c.result);
    outcome_done(&o);
}

static void render_order(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2025_11_25, .tool = &ours};
    struct kr_mcp_outcome o;

    outcome_init(&o);
    put(&o, "out", "bad\n");
    o.result = json_pack("{s:s}", "text", "<Figure>");
    o.error = json_pack("{s:s}", "traceback", "Traceback: no");
    o.cause = KR_CAUSE_EXCEPTION;
    o.restarted = true;
    json_array_append_new(o.displays,
                          json_pack("{s:{s:s, s:s}}", "data", "image/png", "QUJD", "text/plain", "<Figure>"));
    json_array_append_new(o.displays, json_pack("{s:{s:s, s:s}}", "data", "text/html", "<b>", "text/plain", "table"));
    json_array_append_new(o.displays, json_pack("{s:{s:s, s:s, s:s}}", "data", "text/html", "<b>", "text/plain", "H",
                                                KR_MCP_READABLE, "| a |"));
    json_array_append_new(o.displays,
                          json_pack("{s:{s:s, s:s}}", "data", "text/html", "<b>", "text/plain", "<Figure>"));
    json_object_set_new(o.end, "hint", json_string("do this"));
    json_object_set_new(o.end, "files",
                        json_pack("[{s:s, s:s, s:i}, {s:s, s:s}]", "path", "a.txt", "change", "created", "size", 1500,
                                  "path", "b.txt", "change", "deleted"));
    kr_mcp_render(&c, &o, NULL);
    CHECK(strcmp(text_at(&c, 0),
                 "out\n[STDERR]:\nbad\n[result] <Figure>\nTraceback: no\n[figure]\ntable\n| a |\n[files]\n"
                 "a.txt 1.5 KB http://here/files/s1/a.txt\nb.txt deleted\n"
                 "[session restarted: variables gone, files kept]\n[hint] do this") == 0);
    CHECK(strcmp(type_at(&c, 1), "image") == 0);
    CHECK(strcmp(type_at(&c, 2), "resource_link") == 0);
    CHECK(blocks(&c) == 3 && is_error(&c));
    json_decref(c.result);
    c.rev = KR_REV_2025_03_26; /* has no links: nothing twice */
    kr_mcp_render(&c, &o, NULL);
    CHECK(blocks(&c) == 2);
    json_decref(c.result);
    c.rev = KR_REV_2026_07_28;
    o.small_files = json_pack("{s:s}", "a.txt", "hello");
    kr_mcp_render(&c, &o, NULL);
    CHECK(strcmp(type_at(&c, 2), "resource") == 0);
    json_decref(c.result);
    outcome_done(&o);
}

/* What a figure shows is told in words to clients that may drop the figure, and to no other. */
static void figures_in_words(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2025_11_25, .tool = &ours};
    struct kr_mcp_outcome o;

    outcome_init(&o);
    json_array_append_new(o.displays, json_pack("{s:{s:s, s:s, s:s}}", "data", "image/png", "QUJD", KR_MCP_READABLE,
                                                "[figure 3x2]", KR_MCP_ABOUT, "axes 'T'"));
    kr_mcp_render(&c, &o, NULL);
    CHECK(strcmp(text_at(&c, 0), "[figure 3x2]") == 0 && strcmp(type_at(&c, 1), "image") == 0);
    json_decref(c.result);
    c.reads_first = true;
    kr_mcp_render(&c, &o, NULL);
    CHECK(strcmp(text_at(&c, 0), "[figure 3x2]\n[it shows: axes 'T']") == 0 && strcmp(type_at(&c, 1), "image") == 0);
    json_decref(c.result);
    outcome_done(&o);
}

static void render_last_lines(void)
{
    static const struct {
        enum kr_cause cause;
        const char *message;
        int code;
        bool alive, error;
        const char *line;
    } rows[] = {
        {KR_CAUSE_TIMEOUT, "timeout after 45 s: the program was interrupted; variables kept", 124, true, true,
         "[timeout after 45 s; variables kept]"},
        {KR_CAUSE_MEMORY_LIMIT, "memory limit of 1 GiB reached: the program was killed; variables gone", 137, false,
         true, "[memory limit of 1 GiB reached; variables gone]"},
        {KR_CAUSE_EXIT, NULL, 3, true, true, "[exit code 3]"},
        {KR_CAUSE_EXIT, NULL, 0, true, false, "[no output]"},
        {KR_CAUSE_CANCELLED, NULL, 130, true, true, "[cancelled; variables kept]"},
        {KR_CAUSE_LOST, "the run is lost: the warden is gone", 125, false, true,
         "[the run is lost: the warden is gone]"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kr_mcp_call c = {.rev = KR_REV_2025_11_25, .tool = &ours};
        struct kr_mcp_outcome o;

        outcome_init(&o);
        o.cause = rows[i].cause;
        json_object_set_new(o.end, "message", rows[i].message ? json_string(rows[i].message) : json_null());
        json_object_set_new(o.end, "exit_code", json_integer(rows[i].code));
        json_object_set_new(o.end, "session_alive", json_boolean(rows[i].alive));
        kr_mcp_render(&c, &o, NULL);
        CHECK(strcmp(text_at(&c, 0), rows[i].line) == 0);
        CHECK(is_error(&c) == rows[i].error);
        json_decref(c.result);
        outcome_done(&o);
    }
}

static void render_states_of_reading(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2025_11_25, .tool = &ours};
    struct kr_mcp_render_how how = {.note = "timeout: 9 s was asked for, 5 s is the most"};
    struct kr_mcp_outcome o;

    outcome_init(&o);
    json_decref(o.end);
    o.end = NULL;
    o.running = true;
    put(&o, "so far\n", "");
    kr_mcp_render(&c, &o, &how);
    CHECK(has(text_at(&c, 0), "so far\n[still running: go on with read_run(run_id=\"r1\", from=9)"));
    CHECK(has(text_at(&c, 0), "[timeout: 9 s was asked for, 5 s is the most]"));
    CHECK(!is_error(&c));
    json_decref(c.result);
    o.more = true;
    kr_mcp_render(&c, &o, NULL);
    CHECK(has(text_at(&c, 0), "[more: read_run(run_id=\"r1\", from=9)]") && !has(text_at(&c, 0), "still running"));
    json_decref(c.result);
    outcome_done(&o);
}

static void render_terminal(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2025_11_25, .tool = &ours};
    struct kr_mcp_render_how how = {.is_terminal = true};
    struct kr_mcp_outcome o;

    outcome_init(&o);
    put(&o, "x\n", "");
    kr_mcp_render(&c, &o, &how);
    CHECK(strcmp(text_at(&c, 0), "x") == 0 && !is_error(&c));
    json_decref(c.result);
    o.cause = KR_CAUSE_EXIT;
    json_object_set_new(o.end, "exit_code", json_integer(2));
    kr_mcp_render(&c, &o, &how);
    CHECK(strcmp(text_at(&c, 0), "x\n[exit code 2]") == 0 && is_error(&c));
    json_decref(c.result);
    outcome_done(&o);
}

static void render_cuts_and_says_where(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2025_11_25, .tool = &ours};
    struct kr_mcp_outcome o;
    size_t shown;

    outcome_init(&o);
    for (int i = 0; i < 20000; i++) { /* two bytes a character */
        if (i % 500 == 0 && o.mark_count < KR_MCP_MARKS) {
            o.marks[o.mark_count].at = o.out.len;
            o.marks[o.mark_count++].seq = (uint64_t)(i / 500 + 2);
        }
        kr_buf_printf(&o.out, "é%05d\n", i);
    }
    o.out_bytes = o.out.len;
    kr_mcp_render(&c, &o, NULL);
    shown = kr_mcp_characters(text_at(&c, 0), strlen(text_at(&c, 0)));
    CHECK(shown <= KR_MCP_SHOWN_MAX + 100 && shown > KR_MCP_SHOWN_MAX - 600);
    CHECK(has(text_at(&c, 0), "é00000\n") && has(text_at(&c, 0), "é19999\n"));
    CHECK(has(text_at(&c, 0), "bytes left out …]\n"));
    CHECK(has(text_at(&c, 0), "[cut: 160.0 KB in all, read_run(run_id=\"r1\", from=5)]"));
    json_decref(c.result);
    outcome_done(&o);
}

static void render_leaves_nothing_out_of_a_page(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2025_11_25, .tool = &ours};
    char *big = calloc(1, KR_EVENT_TEXT_MAX + 1);
    struct kr_mcp_outcome o;

    memset(big, 'o', KR_EVENT_TEXT_MAX);
    outcome_init(&o);
    put(&o, big, "");
    o.result = json_pack("{s:s}", "text", big);
    o.page = true;
    kr_mcp_render(&c, &o, NULL);
    CHECK(strncmp(text_at(&c, 0), big, KR_EVENT_TEXT_MAX) == 0);
    json_decref(c.result);
    kr_buf_reset(&o.out);
    put(&o, "x", big);
    memset(big, 'o', 18000);
    big[18000] = '\0';
    kr_buf_reset(&o.err);
    put(&o, "", big);
    kr_mcp_render(&c, &o, NULL);
    CHECK(has(text_at(&c, 0), big) && !has(text_at(&c, 0), "[… 12"));
    json_decref(c.result);
    outcome_done(&o);
    free(big);
}

static void render_gives_each_part_room(void)
{
    struct kr_mcp_call c = {.rev = KR_REV_2025_11_25, .tool = &ours};
    struct kr_mcp_outcome o;
    char *big = calloc(1, 50001);
    const char *text;

    memset(big, 'o', 50000);
    outcome_init(&o);
    put(&o, big, "stderr is here");
    memset(big, 't', 50000);
    memcpy(big + 50000 - 9, "ValueErro", 9);
    o.error = json_pack("{s:s}", "traceback", big);
    o.cause = KR_CAUSE_EXCEPTION;
    kr_mcp_render(&c, &o, NULL);
    text = text_at(&c, 0);
    CHECK(has(text, "ooo") && has(text, "stderr is here") && has(text, "tttValueErro"));
    CHECK(kr_mcp_characters(text, strlen(text)) <= KR_MCP_SHOWN_MAX + 100);
    json_decref(c.result);
    outcome_done(&o);
    free(big);
}

static void sizes_for_people(void)
{
    char b[24];

    CHECK(strcmp(kr_mcp_show_size(0, b), "0 B") == 0);
    CHECK(strcmp(kr_mcp_show_size(999, b), "999 B") == 0);
    CHECK(strcmp(kr_mcp_show_size(1200000, b), "1.2 MB") == 0);
}

/* ---- the shell ---- */

static void terminal_code_is_python(void)
{
    struct kr_buf code;
    struct kr_mcp_terminal t = {.command = "echo \"a\\b\" 'c' \n # é \t\x01", .stdin_text = "x\n", .stdin_len = 2};

    t.command_len = strlen(t.command);
    kr_buf_init(&code, 1u << 20);
    CHECK(kr_mcp_terminal_code(&code, &t) >= 0);
    CHECK(has(code.data, "    command = \"echo \\\"a\\\\b\\\" 'c' \\n # é \\t\\u0001\"\n"));
    CHECK(has(code.data, "    text = \"x\\n\"\n    folder = \"/workspace\"\n"));
    CHECK(strncmp(code.data, "def _():  # $ echo \"a\\b\" 'c' \n    command", 40) == 0);
    CHECK(kr_mcp_terminal_is(code.data) && !kr_mcp_terminal_is("def _():\n    pass\n") && !kr_mcp_terminal_is(""));
    kr_buf_done(&code);
}

static void terminal_title_is_whole_characters(void)
{
    char command[300];
    struct kr_mcp_terminal t = {.command = command};
    struct kr_buf code;
    json_t *line;

    for (size_t n = 198; n < 204; n++) { /* the cut falls before, into and behind a character of two bytes */
        memset(command, 'a', sizeof command);
        memcpy(command + n - 2, "é", 2);
        t.command_len = n;
        kr_buf_init(&code, 1u << 20);
        CHECK(kr_mcp_terminal_code(&code, &t) >= 0);
        json_decref(line = json_stringn(code.data, strcspn(code.data, "\n")));
        CHECK(line); /* of valid UTF-8 only */
        CHECK(strcspn(code.data, "\n") <= strlen("def _():  # $ ") + 200);
        kr_buf_done(&code);
    }
}

int main(void)
{
    RUN(args_strings_stand_for_values);
    RUN(args_refused_by_name);
    RUN(args_deep_strings_are_no_values);
    RUN(schema_of_arguments);
    RUN(result_texts_are_utf8);
    RUN(result_downgrades);
    RUN(result_structure_of_ours_only_when_asked);
    RUN(result_fits_a_message);
    RUN(result_errors_tell_what_may_be_told);
    RUN(render_plain);
    RUN(render_order);
    RUN(figures_in_words);
    RUN(render_last_lines);
    RUN(render_states_of_reading);
    RUN(render_terminal);
    RUN(render_cuts_and_says_where);
    RUN(render_leaves_nothing_out_of_a_page);
    RUN(render_gives_each_part_room);
    RUN(sizes_for_people);
    RUN(terminal_code_is_python);
    RUN(terminal_title_is_whole_characters);
    CHECK_DONE();
}

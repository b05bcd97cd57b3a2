/* Terminals: create, list, read, write, resize, follow, close.
 *
 * Called through the route table. Invariants: every id is looked up with its owner, another's is 404; a client that
 * leaves before its terminal has begun leaves none behind. */
#include "terminal_routes.h"
#include "base64.h"
#include "body_read.h"
#include "buf.h"
#include "json.h"
#include "reply.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID "01hv5k8m2nq7r9t3w6x8y0z2a4"
#define ARGS_MAX 256

struct create_request {
    const char *sandbox, *term;
    int64_t cols, rows;
    json_t *command;
};
struct input_request {
    struct kr_text data, text;
};
struct size_request {
    int64_t cols, rows;
};
struct list_query {
    const char *sandbox;
};
/* Where a follower begins: a byte of the output. */
struct from_query {
    int64_t from; /* -1: the next one */
};

/* ---- rows ---- */

/* clang-format off */
#define SIDES(struct_, required_, cols_, rows_) \
    {.name = "cols", .type = KR_API_INT, KR_API_AT(struct_, cols), .required = (required_), .def = (cols_), \
     .nullable = !(required_), KR_API_RANGE(1, KR_TERMINAL_SIDE_MAX), .help = "Columns.", .example = "80"}, \
    {.name = "rows", .type = KR_API_INT, KR_API_AT(struct_, rows), .required = (required_), .def = (rows_), \
     .nullable = !(required_), KR_API_RANGE(1, KR_TERMINAL_SIDE_MAX), .help = "Rows.", .example = "24"}
static const struct kr_api_field create_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct create_request, sandbox), .nullable = true,
     KR_API_LENGTH(1, 64), .aliases = (const char *const[]){"sandbox", NULL},
     .help = "The sandbox, by id or name. Without it: `default`.", .example = "default"},
    SIDES(struct create_request, false, "80", "24"),
    {.name = "term", .type = KR_API_STRING, KR_API_AT(struct create_request, term), .def = "xterm-256color",
     .nullable = true, KR_API_LENGTH(0, 64), .help = "The value of TERM; empty: none is set.",
     .example = "xterm-256color"},
    {.name = "command", .type = KR_API_STRINGS, KR_API_AT(struct create_request, command), .nullable = true,
     KR_API_LENGTH(0, ARGS_MAX), .help = "The program and its arguments. Without it: a shell.",
     .example = "[\"python3\",\"-q\"]"},
};
static const struct kr_api_table create_table = KR_API_TABLE("TerminalCreateRequest", "A program on a terminal.",
    create_fields, struct create_request);
static const struct kr_api_field input_fields[] = {
    {.name = "data", .type = KR_API_TEXT, KR_API_AT(struct input_request, data), .nullable = true,
     .help = "Bytes that are typed, in base64; at most 64 KiB.", .example = "bHMK"},
    {.name = "text", .type = KR_API_TEXT, KR_API_AT(struct input_request, text), .nullable = true,
     .help = "In place of `data`: text that is typed.", .example = "ls\n"},
};
static const struct kr_api_table input_table = KR_API_TABLE("TerminalInputRequest", "What is typed: one of both.",
    input_fields, struct input_request);
static const struct kr_api_field size_fields[] = {SIDES(struct size_request, true, NULL, NULL)};
static const struct kr_api_table size_table = KR_API_TABLE("TerminalSizeRequest", "Another size.", size_fields,
    struct size_request);
static const struct kr_api_field list_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct list_query, sandbox), KR_API_LENGTH(1, 64),
     .help = "Only those of this sandbox, by id or name.", .example = "default"},
};
static const struct kr_api_table list_table = KR_API_TABLE(NULL, "Which terminals.", list_fields, struct list_query);
static const struct kr_api_field from_fields[] = {
    {.name = "from", .type = KR_API_INT, KR_API_AT(struct from_query, from), KR_API_AT_LEAST(-1), .def = "0",
     .help = "The first byte of output that is wanted; 0: all that is kept; -1: what comes from now on. "
             "Last-Event-ID does the same for server-sent events.", .example = "1042"},
};
static const struct kr_api_table from_table = KR_API_TABLE(NULL, "From where.", from_fields,
    struct from_query);

static const struct kr_api_prop terminal_props[] = {
    {.name = "terminal_id", .type = KR_API_STRING, .help = "The terminal.", .example = ID},
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "Its sandbox.", .example = ID},
    {.name = "sandbox", .type = KR_API_STRING, .help = "The name of that.", .example = "default"},
    {.name = "cols", .type = KR_API_INT, .help = "Columns.", .example = "80"},
    {.name = "rows", .type = KR_API_INT, .help = "Rows.", .example = "24"},
    {.name = "running", .type = KR_API_BOOL, .help = "Its program has not ended.", .example = "true"},
    {.name = "created_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.1"},
    {.name = "last_activity_at", .type = KR_API_NUMBER,
     .help = "Unix time: the last input, or output that was followed.", .example = "1763200002.4"},
    {.name = "first", .type = KR_API_INT, .help = "Number of the oldest byte of output that is kept.", .example = "0"},
    {.name = "next", .type = KR_API_INT, .help = "Number of the byte of output that comes next.", .example = "1042"},
    {.name = "followers", .type = KR_API_INT, .help = "Clients that follow it.", .example = "1"},
    {.name = "cause", .type = KR_API_STRING, .nullable = true,
     .help = "How its program ended: a cause, as of a run; null while it runs.", .example = "null"},
    {.name = "exit_code", .type = KR_API_INT, .nullable = true, .help = "Its exit status; null while it runs.",
     .example = "null"},
    {.name = "message", .type = KR_API_STRING, .nullable = true, .help = "Why it ended, beyond the cause.",
     .example = "null"},
};
static const struct kr_api_schema terminal_schema = KR_API_SCHEMA("Terminal", "A program on a terminal.",
    terminal_props);
static const struct kr_api_prop list_props[] = {
    {.name = "terminals", .type = KR_API_ARRAY, .of = &terminal_schema, .help = "Newest first."}};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("Terminals", "Terminals of the caller.", list_props);

static const char *const line_types[] = {"output", "lost", "end", NULL};
static const struct kr_api_prop line_props[] = {
    {.name = "type", .type = KR_API_ENUM, .choices = line_types,
     .help = "Bytes of output; bytes that are gone, as they came too long ago; its end, the last line.",
     .example = "output"},
    {.name = "at", .type = KR_API_INT, .help = "Number of the first byte.", .example = "1042"},
    {.name = "data", .type = KR_API_STRING, .optional = true, .format = "byte", .help = "Of `output`: the bytes.",
     .example = "JCA="},
    {.name = "bytes", .type = KR_API_INT, .optional = true, .help = "Of `lost`: how many.", .example = "4096"},
    {.name = "cause", .type = KR_API_STRING, .optional = true, .help = "Of `end`.", .example = "exit"},
    {.name = "exit_code", .type = KR_API_INT, .optional = true, .help = "Of `end`.", .example = "0"},
    {.name = "message", .type = KR_API_STRING, .optional = true, .nullable = true, .help = "Of `end`.",
     .example = "null"},
};
static const struct kr_api_schema line_schema = KR_API_SCHEMA("TerminalLine",
    "One line of a terminal that is followed.", line_props);
#define LINE_EXAMPLE "{\"type\":\"output\",\"at\":1042,\"data\":\"JCA=\"}"

static const struct kr_api_param params[] = {{"terminal_id", "The terminal's id.", ID}, {0}};
static const struct kr_api_response list_ok[] = {{200, "The terminals.", NULL, &list_schema, NULL, NULL}, {0}};
static const struct kr_api_response read_ok[] = {{200, "The terminal.", NULL, &terminal_schema, NULL, NULL}, {0}};
static const struct kr_api_response create_ok[] = {{201, "It runs.", NULL, &terminal_schema, NULL, NULL},
    {429, "As many as the sandbox, the user or the server may have.", NULL, &kr_api_error_schema,
     "{\"error\":{\"kind\":\"too_many\",\"message\":\"this sandbox has 4 terminals, the most that it may have; close "
     "one\",\"field\":null,\"request_id\":\"7f3a\"}}", NULL}, {0}};
#define ENDED {409, "Its program has ended.", NULL, &kr_api_error_schema, \
    "{\"error\":{\"kind\":\"conflict\",\"message\":\"the terminal has ended\",\"field\":null," \
    "\"request_id\":\"7f3a\"}}", NULL}
static const struct kr_api_response input_ok[] = {{204, "It is on its way.", NULL, NULL, NULL, NULL}, ENDED, {0}};
static const struct kr_api_response size_ok[] = {{200, "The terminal.", NULL, &terminal_schema, NULL, NULL}, ENDED,
    {0}};
static const struct kr_api_response close_ok[] = {{204, "It ends, and what it started.", NULL, NULL, NULL, NULL}, {0}};
static const struct kr_api_response output_ok[] = {
    {200, "Its output from there, and on until its end.", "application/x-ndjson", &line_schema, LINE_EXAMPLE, NULL},
    {200, "The same as server-sent events, by Accept; the id of an event is the number of the byte after it.",
     "text/event-stream", &line_schema, LINE_EXAMPLE, NULL}, {0}};
static const struct kr_api_response socket_ok[] = {
    {101, "The WebSocket is open.", NULL, NULL, NULL, NULL},
    {426, "The request is not a handshake of a WebSocket (RFC 6455, version 13).", NULL, &kr_api_error_schema,
     "{\"error\":{\"kind\":\"invalid\",\"message\":\"this path is a WebSocket\",\"field\":null,"
     "\"request_id\":\"7f3a\"}}", NULL}, {0}};

#define DOC(id_, summary_, needs_) .id = (id_), .tag = "terminals", .summary = (summary_), .voice = KR_API_KRAIT, \
    .needs = (needs_)
const struct kr_api_doc kr_api_terminals_list_doc = {DOC("list_terminals", "List terminals", KR_RIGHT_READ),
    .query = &list_table, .responses = list_ok};
const struct kr_api_doc kr_api_terminals_create_doc = {DOC("create_terminal", "Start a program on a terminal",
    KR_RIGHT_RUN), .body = &create_table, .responses = create_ok,
    .description = "It takes a slot as a session does. It ends with its program, when it is closed, or when nobody has "
                   "used it for `terminals.idle_timeout`."};
const struct kr_api_doc kr_api_terminals_read_doc = {DOC("read_terminal", "Read a terminal", KR_RIGHT_READ),
    .params = params, .responses = read_ok};
const struct kr_api_doc kr_api_terminals_delete_doc = {DOC("close_terminal", "Close a terminal", KR_RIGHT_RUN),
    .params = params, .responses = close_ok};
const struct kr_api_doc kr_api_terminals_input_doc = {DOC("write_terminal", "Type into a terminal", KR_RIGHT_RUN),
    .params = params, .body = &input_table, .body_example = "{\"data\":\"bHMK\"}", .responses = input_ok};
const struct kr_api_doc kr_api_terminals_size_doc = {DOC("resize_terminal", "Change the size of a terminal",
    KR_RIGHT_RUN), .params = params, .body = &size_table, .responses = size_ok};
const struct kr_api_doc kr_api_terminals_output_doc = {DOC("follow_terminal", "Follow a terminal from a byte",
    KR_RIGHT_READ), .params = params, .query = &from_table, .responses = output_ok,
    .description = "The last 256 KiB of output are kept. The follower that is furthest ahead holds the program back; "
                   "one that falls behind by more is told how many bytes it lost."};
const struct kr_api_doc kr_api_terminals_socket_doc = {DOC("connect_terminal", "A terminal as a WebSocket",
    KR_RIGHT_RUN), .params = params, .query = &from_table, .responses = socket_ok,
    .description = "Binary messages are what is typed, and output. Texts are JSON: from the client "
                   "`{\"type\":\"resize\",\"cols\":80,\"rows\":24}`; from the server `ready` (`at`: the number of the "
                   "first byte of output), `lost` and `end` as of follow_terminal, then it is closed with 1000. The "
                   "subprotocol is `krait.terminal`; a page offers its key beside it as `krait.key.` and the key in "
                   "base64url, as it cannot set a header."};
/* clang-format on */

/* ---- answers ---- */

static void reply_terminal(struct kr_http_ex *ex, int status, const struct kr_box_terminal *t)
{
    cleanup_buf struct kr_buf buf;
    struct kr_box_terminal_info info;
    struct kr_json j;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    kr_json_init(&j, &buf);
    kr_box_terminal_get_info(t, &info);
    kr_box_terminal_json(&j, &info);
    kr_api_reply(ex, status, &buf);
}

void kr_api_terminal_end_json(struct kr_buf *buf, const struct kr_box_terminal *t)
{
    struct kr_box_terminal_info info;
    struct kr_json j;

    kr_box_terminal_get_info(t, &info);
    kr_json_init(&j, buf);
    kr_json_object(&j);
    kr_json_key_str(&j, "type", "end");
    kr_json_key_uint(&j, "at", info.next);
    kr_json_key_str(&j, "cause", kr_cause_rows[info.cause].name);
    kr_json_key(&j, "exit_code");
    kr_json_int(&j, info.exit_code);
    kr_json_key_str(&j, "message", info.message[0] ? info.message : NULL);
    kr_json_object_end(&j);
}

/* The caller's terminal that the path names. NULL: answered. */
static struct kr_box_terminal *find_terminal(struct kr_api *api, struct kr_http_ex *ex, struct kr_api_who *who)
{
    struct kr_box_terminal *t;
    struct kr_err err;

    if (!kr_api_caller(api, ex, who))
        return NULL;
    t = kr_box_terminal_find(api->box, &who->caller, kr_http_param(ex, "terminal_id"), &err);
    if (!t)
        kr_api_fail(ex, &err);
    return t;
}

/* ---- create ---- */

struct creation {
    struct kr_http_ex *ex;
    struct kr_box_terminal *terminal;
};

static void on_terminal(void *data, struct kr_box_terminal *t, const struct kr_err *err)
{
    struct creation *c = data;
    struct kr_http_ex *ex = c->ex;
    struct kr_box_terminal_info info;
    char location[64];

    free(c);
    if (err) {
        kr_api_fail(ex, err);
        return;
    }
    kr_box_terminal_get_info(t, &info);
    snprintf(location, sizeof location, "/api/v1/terminals/%s", info.id);
    kr_http_set_header(ex, "Location", location); /* without memory: without it */
    reply_terminal(ex, 201, t);
}

static void on_creation_gone(void *data, struct kr_http_ex *ex)
{
    struct creation *c = data;

    (void)ex;
    kr_box_terminal_abandon(c->terminal);
    free(c);
}

static void create_terminal(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    static const struct kr_http_calls calls = {.on_gone = on_creation_gone};
    struct kr_api *api = app;
    const struct create_request *q = request;
    const char *words[ARGS_MAX];
    struct kr_box_terminal_new how = {.sandbox = q->sandbox,
                                      .how = {.cols = (uint32_t)q->cols,
                                              .rows = (uint32_t)q->rows,
                                              .term = q->term ? q->term : "",
                                              .argv = words,
                                              .argc = json_array_size(q->command)}};
    struct creation *c;
    struct kr_api_who who;
    struct kr_err err;

    (void)in;
    if (!kr_api_caller(api, ex, &who))
        return;
    for (size_t i = 0; i < how.how.argc && i < ARGS_MAX; i++)
        words[i] = json_string_value(json_array_get(q->command, i));
    c = calloc(1, sizeof *c);
    if (!c) {
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for a terminal");
        return;
    }
    c->ex = ex;
    if (kr_box_terminal_open(api->box, &who.caller, &how, on_terminal, c, &c->terminal, &err) < 0) {
        free(c);
        kr_api_fail_named(ex, &err);
        return;
    }
    kr_http_defer(ex, &calls, c);
}

void kr_api_terminals_create(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &create_table, create_terminal);
}

/* ---- list, read, close ---- */

static void on_listed(void *data, const struct kr_box_terminal_info *info)
{
    kr_box_terminal_json(data, info);
}

void kr_api_terminals_list(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_input struct kr_api_input in = {0};
    cleanup_buf struct kr_buf buf;
    struct list_query q;
    struct kr_api_who who;
    struct kr_json j;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    if (!kr_api_caller(api, ex, &who) || !kr_api_read_query(ex, &list_table, &q, &in))
        return;
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    kr_json_key(&j, "terminals");
    kr_json_array(&j);
    kr_box_terminals(api->box, &who.caller, q.sandbox, on_listed, &j);
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    kr_api_reply(ex, 200, &buf);
}

void kr_api_terminals_read(struct kr_http_ex *ex, void *app)
{
    struct kr_api_who who;
    struct kr_box_terminal *t = find_terminal(app, ex, &who);

    if (t)
        reply_terminal(ex, 200, t);
}

void kr_api_terminals_delete(struct kr_http_ex *ex, void *app)
{
    struct kr_api_who who;
    struct kr_box_terminal *t = find_terminal(app, ex, &who);

    if (!t)
        return;
    kr_box_terminal_close(t, &who.caller);
    kr_api_reply_nothing(ex);
}

/* ---- write, resize ---- */

static void type_bytes(struct kr_http_ex *ex, struct kr_box_terminal *t, const void *bytes, size_t len)
{
    struct kr_err err;

    if (!kr_box_terminal_wants(t))
        kr_api_fail_with(ex, KR_ERR_BUSY, "the program in the terminal does not read what was typed; try again");
    else if (kr_box_terminal_write(t, bytes, len, &err) < 0)
        kr_api_fail(ex, &err);
    else
        kr_api_reply_nothing(ex);
}

static void write_terminal(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct input_request *q = request;
    struct kr_api_who who;
    struct kr_box_terminal *t = find_terminal(app, ex, &who);
    const char *field = q->data.text ? "data" : "text";
    unsigned char *bytes;
    struct kr_err err;
    ssize_t n;

    if (!t)
        return;
    if (!q->data.text == !q->text.text) {
        kr_api_refuse(in, NULL, &err, "one of data and text is needed");
        kr_api_fail_input(ex, in, &err);
        return;
    }
    bytes = malloc(KR_TERMINAL_WRITE_MAX);
    n = !bytes         ? -ENOMEM
        : q->data.text ? kr_base64_decode(q->data.text, q->data.len, bytes, KR_TERMINAL_WRITE_MAX)
        : q->text.len > KR_TERMINAL_WRITE_MAX ? -ENOBUFS
                                              : (ssize_t)q->text.len;
    if (n < 0) {
        kr_api_refuse(in, field, &err, n == -ENOBUFS ? "must be at most 65536 bytes" : "must be base64 with padding");
        kr_api_fail_input(ex, in, &err);
    } else {
        type_bytes(ex, t, q->data.text ? (const void *)bytes : q->text.text, (size_t)n);
    }
    free(bytes);
}

void kr_api_terminals_input(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &input_table, write_terminal);
}

static void resize_terminal(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct size_request *q = request;
    struct kr_api_who who;
    struct kr_box_terminal *t = find_terminal(app, ex, &who);
    struct kr_err err;

    (void)in;
    if (!t)
        return;
    if (kr_box_terminal_resize(t, (uint32_t)q->cols, (uint32_t)q->rows, &err) < 0)
        kr_api_fail(ex, &err);
    else
        reply_terminal(ex, 200, t);
}

void kr_api_terminals_size(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &size_table, resize_terminal);
}

/* ---- follow ---- */

typedef void follow_fn(struct kr_api *api, struct kr_http_ex *ex, struct kr_box_terminal *t, uint64_t from);

static void follow_from(struct kr_http_ex *ex, struct kr_api *api, follow_fn *follow)
{
    cleanup_input struct kr_api_input in = {0};
    const char *last = kr_http_header(ex, "Last-Event-ID");
    struct from_query q;
    struct kr_api_who who;
    struct kr_box_terminal *t = find_terminal(api, ex, &who);

    if (!t || !kr_api_read_query(ex, &from_table, &q, &in))
        return;
    if (last && q.from == 0)
        q.from = (int64_t)strtoll(last, NULL, 10);
    follow(api, ex, t, q.from < 0 ? KR_TERMINAL_NOW : (uint64_t)q.from);
}

void kr_api_terminals_output(struct kr_http_ex *ex, void *app)
{
    follow_from(ex, app, kr_api_terminal_follow);
}

void kr_api_terminals_socket(struct kr_http_ex *ex, void *app)
{
    follow_from(ex, app, kr_api_terminal_connect);
}

/* Routes with their docs: bodies read on and off the loop, errors in both voices over a real connection, OpenAPI.
 *
 * `test-api-routes openapi` prints the document of this file's routes, for tests/unit/contract/openapi.py. */
#include "api-table.h"
#include "buf.h"
#include "check.h"
#include "table-check.h"
#include "route_doc.h"
#include "http.h"
#include "openapi.h"
#include "body_read.h"
#include "reply.h"
#include "reply_schema.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

static struct kr_err err;

/* ---- routes ---- */

/* clang-format off */
static const struct kr_api_prop run_props[] = {
    {.name = "id", .type = KR_API_STRING, .help = "Its name.", .example = "r1"},
    {.name = "seconds", .type = KR_API_NUMBER, .nullable = true, .help = "How long.", .example = "0.5"},
    {.name = "state", .type = KR_API_ENUM, .choices = modes, .help = "How it is.", .example = "quick"},
    {.name = "tags", .type = KR_API_STRINGS, .help = "Words.", .example = "[\"a\"]"},
    {.name = "env", .type = KR_API_STRING, .each = true, .help = "Environment.", .example = "{\"A\":\"1\"}"},
    {.name = "parent", .type = KR_API_STRING, .optional = true, .help = "Whose it is.", .example = "r0"},
};
static const struct kr_api_schema run_schema = KR_API_SCHEMA("Run", "A run.", run_props);
static const struct kr_api_prop runs_props[] = {
    {.name = "runs", .type = KR_API_ARRAY, .of = &run_schema, .help = "Runs."},
    {.name = "by_id", .type = KR_API_OBJECT, .of = &run_schema, .each = true, .help = "Runs by their ids."},
    {.name = "last", .type = KR_API_OBJECT, .of = &run_schema, .nullable = true, .help = "The last.",
     .example = "null"},
};
static const struct kr_api_schema runs_schema = KR_API_SCHEMA("Runs", "Some runs.", runs_props);
static const struct kr_api_prop text_props[] = {{.name = "text", .type = KR_API_TEXT, .help = "Output.",
    .example = "a\n"}};
static const struct kr_api_prop end_props[] = {{.name = "end", .type = KR_API_BOOL, .help = "The end.",
    .example = "true"}};
static const struct kr_api_schema text_schema = KR_API_SCHEMA("TextLine", "Output.", text_props), end_schema =
    KR_API_SCHEMA("EndLine", "The end.", end_props);
static const struct kr_api_schema *const lines[] = {&text_schema, &end_schema, NULL};
static const struct kr_api_schema line_schema = {.name = "Line", .help = "A line of a stream.", .one_of = lines};

static const struct kr_api_header run_headers[] = {{"X-Run-Id", "The run's id.", "r1"}, {NULL, NULL, NULL}};
static const struct kr_api_param run_params[] = {{"id", "The run's id.", "r1"}, {NULL, NULL, NULL}};
static const struct kr_api_param file_params[] = {{"id", "The sandbox's id.", "s1"}, {"path", "The file's path.",
    "a/b.txt"}, {NULL, NULL, NULL}};
static const struct kr_api_response run_answers[] = {
    {.status = 200, .help = "The run.", .schema = &line_schema, .media = "application/x-ndjson",
     .headers = run_headers},
    {.status = 200, .help = "The run.", .schema = &line_schema, .media = "text/event-stream"},
    {.status = 200, .help = "The run.", .schema = &run_schema,
     .example = "{\"id\":\"r1\",\"seconds\":null,\"state\":\"quick\",\"tags\":[],\"env\":{}}"},
    {.status = 409, .help = "It runs already.", .schema = &kr_api_error_schema},
    {.status = 0},
};
static const struct kr_api_response runs_answers[] = {{.status = 200, .help = "Runs.", .schema = &runs_schema},
    {.status = 0}};
static const struct kr_api_response gone_answers[] = {{.status = 204, .help = "It is gone."}, {.status = 0}};
static const struct kr_api_response file_answers[] = {{.status = 200, .help = "Its bytes.",
    .media = "application/octet-stream"}, {.status = 0}};
static const struct kr_api_response message_answers[] = {{.status = 200, .help = "Done.",
    .schema = &kr_api_message_schema}, {.status = 0}};
static const struct kr_api_media upload[] = {{"application/octet-stream", NULL, "The file's bytes.", NULL}, {NULL, NULL,
    NULL, NULL}};
static const struct kr_api_media form_media[] = {{"application/x-www-form-urlencoded", &file_table,
    "Name and password.", NULL}, {NULL, NULL, NULL, NULL}};

static const struct kr_api_doc
    run_doc = {.id = "run_create", .tag = "runs", .summary = "Run code", .description = "Runs it.",
        .needs = KR_RIGHT_RUN, .body = &table, .responses = run_answers},
    list_doc = {.id = "runs_list", .tag = "runs", .summary = "List runs", .needs = KR_RIGHT_READ, .query = &page_table,
        .responses = runs_answers},
    delete_doc = {.id = "run_delete", .tag = "runs", .summary = "Delete a run", .params = run_params,
        .responses = gone_answers},
    read_doc = {.id = "file_read", .tag = "files", .summary = "Read a file", .params = file_params,
        .responses = file_answers},
    write_doc = {.id = "file_write", .tag = "files", .summary = "Write a file", .params = file_params, .bodies = upload,
        .responses = gone_answers},
    execute_doc = {.id = "execute", .tag = KR_API_TAG_004, .summary = "Run code",
        .voice = KR_API_DOCUMENT, .body = &table,
        .responses = message_answers},
    token_doc = {.id = "token", .tag = "account", .summary = "Log in", .voice = KR_API_DOCUMENT, .open = true,
        .bodies = form_media, .responses = message_answers},
    page_doc = {.id = "page", .tag = "info", .summary = "The page", .hidden = true};
/* clang-format on */

/* ---- handlers ---- */

static uv_loop_t loop;
static bool parsed, parsed_inside; /* a body; before its handler returned */

static void on_run_parsed(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *input)
{
    struct request *r = request;

    (void)app;
    parsed = true;
    if (strcmp(r->session, "taken") == 0)
        kr_api_fail_with(ex, KR_ERR_CONFLICT, "%s is taken", r->session);
    else if (r->timeout == 99) {
        kr_api_refuse(input, "timeout", &err, "must be at most 98");
        kr_api_fail_input(ex, input, &err);
    } else {
        kr_api_reply_message(ex, 200, "%zu bytes", r->code.len);
    }
}

static void post_run(struct kr_http_ex *ex, void *app)
{
    parsed = false;
    kr_api_read_body(&loop, ex, app, &table, on_run_parsed);
    parsed_inside = parsed;
}

static void get_runs(struct kr_http_ex *ex, void *app)
{
    struct kr_api_input input;
    struct page p;

    (void)app;
    if (!kr_api_read_query(ex, &page_table, &p, &input))
        return;
    kr_api_reply_message(ex, 200, "%d", (int)p.limit);
    kr_api_input_done(&input);
}

/* An error of the kind that the path names. */
static void delete_run(struct kr_http_ex *ex, void *app)
{
    const char *id = kr_http_param(ex, "id");
    struct kr_err e;

    (void)app;
    if (strcmp(id, "nothing") == 0)
        return kr_api_reply_nothing(ex);
    if (strcmp(id, "inside") == 0)
        kr_err_set(&e, KR_ERR_SYSTEM, ENOENT, "open /var/lib/krait/secret");
    else if (strcmp(id, "errno") == 0)
        kr_err_set(&e, KR_ERR_NOT_FOUND, ENOENT, "no run has that id");
    else if (strcmp(id, "key") == 0)
        kr_err_set(&e, KR_ERR_UNAUTHORIZED, 0, "API key required");
    else if (strcmp(id, "later") == 0) {
        kr_err_set(&e, KR_ERR_TOO_MANY, 0, "too many");
        return kr_api_fail_later(ex, &e, 17);
    } else if (strcmp(id, "field") == 0) {
        kr_err_set(&e, KR_ERR_INVALID, 0, "no such thing");
        return kr_api_fail_field(ex, "id", &e);
    } else {
        kr_err_set(&e, KR_ERR_BUSY, 0, "no room");
    }
    kr_api_fail(ex, &e);
}

static void execute(struct kr_http_ex *ex, void *app)
{
    const char *query_text = kr_http_query(ex);

    if (strcmp(query_text, "teapot") == 0)
        kr_api_fail_status(ex, 418, "I'm a teapot");
    else if (strcmp(query_text, "field") == 0) {
        kr_err_set(&err, KR_ERR_INVALID, 0, "no such thing");
        kr_api_fail_field(ex, "code", &err);
    } else {
        kr_api_read_body(&loop, ex, app, &table, on_run_parsed);
    }
}

/* clang-format off */
static const struct kr_http_route routes[] = {
    {KR_HTTP_POST, "/api/v1/runs", 1u << 20, 0, post_run, &run_doc},
    {KR_HTTP_GET, "/api/v1/runs", 0, 0, get_runs, &list_doc},
    {KR_HTTP_DELETE, "/api/v1/runs/{id}", 0, 0, delete_run, &delete_doc},
    {KR_HTTP_GET, "/api/v1/sandboxes/{id}/files/{path*}", 0, 0, get_runs, &read_doc},
    {KR_HTTP_PUT, "/api/v1/sandboxes/{id}/files/{path*}", 1u << 20, 0, get_runs, &write_doc},
    {KR_HTTP_POST, "/api/v1/execute", 1u << 20, 0, execute, &execute_doc},
    {KR_HTTP_POST, "/execute", 1u << 20, 0, execute, &execute_doc},
    {KR_HTTP_POST, "/api/token", 4096, 0, execute, &token_doc},
    {KR_HTTP_GET, "/{path*}", 0, 0, get_runs, &page_doc},
};
/* clang-format on */
#define ROUTES (sizeof routes / sizeof routes[0])

static void error_body(void *app, unsigned tag, const char *path, int status, const char *text, const char *request_id,
                       struct kr_buf *out)
{
    (void)app;
    (void)tag;
    kr_api_engine_error(routes, ROUTES, path, status, text, request_id, out);
}

/* ---- one request over a real connection ---- */

static struct kr_http_server *server;
static char socket_path[64];

static void start_server(void)
{
    struct kr_http_config config = {.routes = routes, .route_count = ROUTES, .error_body = error_body};
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    uv_loop_init(&loop);
    snprintf(socket_path, sizeof socket_path, "/tmp/krait-test-api.%d", (int)getpid());
    memcpy(to.sun_path, socket_path, strlen(socket_path) + 1);
    unlink(socket_path);
    if (bind(fd, (struct sockaddr *)&to, sizeof to) < 0 || kr_http_server_new(&loop, &config, &server, &err) < 0 ||
        kr_http_server_listen(server, fd, 0, &err) < 0) {
        printf("FAIL start_server: %s\n", err.msg);
        exit(1);
    }
}

static void stop_server(void)
{
    kr_http_server_free(server);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    unlink(socket_path);
}

static struct kr_buf answer;

/* The whole answer into `answer`; its status. Server and client take turns in this thread. */
static int ask_n(const char *head, const char *body, size_t len)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), status = 0;
    cleanup_buf struct kr_buf request;
    char piece[65536];
    size_t sent = 0;
    ssize_t n = -1;

    kr_buf_init(&request, 4u << 20);
    kr_buf_reset(&answer);
    kr_buf_printf(&request, "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-ID: id-1\r\n", head);
    kr_buf_printf(&request, "Content-Length: %zu\r\n\r\n", len);
    kr_buf_add(&request, body, len);
    memcpy(to.sun_path, socket_path, strlen(socket_path) + 1);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        close(fd);
        return -1;
    }
    for (int i = 0; i < 200000 && n != 0; i++) {
        if (sent < request.len && (n = send(fd, request.data + sent, request.len - sent, MSG_NOSIGNAL)) > 0)
            sent += (size_t)n;
        uv_run(&loop, UV_RUN_NOWAIT);
        n = recv(fd, piece, sizeof piece, 0);
        if (n > 0)
            kr_buf_add(&answer, piece, (size_t)n);
        else if (n < 0)
            usleep(50);
    }
    close(fd);
    sscanf(kr_buf_str(&answer), "HTTP/1.1 %d", &status);
    return status;
}

static int ask(const char *head, const char *body)
{
    return ask_n(head, body, strlen(body));
}

static bool answer_is(const char *expected)
{
    const char *body = strstr(kr_buf_str(&answer), "\r\n\r\n");

    if (!body || strcmp(body + 4, expected) != 0)
        printf("# got %s\n# not %s\n", kr_buf_str(&answer), expected);
    return body && strcmp(body + 4, expected) == 0;
}

static bool answer_has(const char *text)
{
    return strcasestr(kr_buf_str(&answer), text) != NULL;
}

#define E(kind, message, field)                                                                                        \
    "{\"error\":{\"kind\":\"" kind "\",\"message\":\"" message "\",\"field\":" field ",\"request_id\":\"id-1\"}}"
/* The same in the documents' voice. */
#define D(kind, message, field, detail)                                                                                \
    "{\"error\":{\"kind\":\"" kind "\",\"message\":\"" message "\",\"field\":" field                                   \
    ",\"request_id\":\"id-1\"},\"detail\":" detail "}"

static void bodies_reach_their_handlers(void)
{
    static char large[300000];

    CHECK(ask("POST /api/v1/runs", "{\"code\":\"print(1)\"}") == 200 && answer_is("{\"message\":\"8 bytes\"}"));
    CHECK(parsed && parsed_inside);
    CHECK(ask("POST /api/v1/runs", "{\"cod\":\"print(1)\"}") == 400);
    CHECK(answer_is(E("invalid", "cod is not a field here; did you mean code?", "\"cod\"")));
    /* Off the loop: the handler has returned when the body is parsed. */
    memset(large, ' ', sizeof large);
    memcpy(large, "{\"code\":\"print(2)\"}", 19);
    CHECK(ask_n("POST /api/v1/runs", large, sizeof large) == 200 && answer_is("{\"message\":\"8 bytes\"}"));
    CHECK(parsed && !parsed_inside);
    large[0] = '[';
    CHECK(ask_n("POST /api/v1/runs", large, sizeof large) == 400 && answer_has("the body is not JSON"));
}

/* The peer leaves while a thread parses: no handler is called with a dead exchange (the sanitizers look on). */
static void a_peer_may_leave_while_a_thread_parses(void)
{
    static char large[900000];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char head[200];
    int n = snprintf(head, sizeof head, "POST /api/v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
                     sizeof large);

    memset(large, ' ', sizeof large);
    memcpy(large, "{\"code\":\"print(2)\"}", 19);
    memcpy(to.sun_path, socket_path, strlen(socket_path) + 1);
    for (int i = 0; i < 20; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        size_t sent = 0;

        CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && send(fd, head, (size_t)n, 0) == n);
        while (sent < sizeof large) {
            ssize_t r = send(fd, large + sent, sizeof large - sent, MSG_NOSIGNAL);

            sent += r > 0 ? (size_t)r : 0;
            if (r < 0)
                uv_run(&loop, UV_RUN_NOWAIT);
        }
        close(fd);
        for (int k = 0; k < 50; k++)
            uv_run(&loop, UV_RUN_NOWAIT);
    }
    CHECK(ask("POST /api/v1/runs", "{\"code\":\"x\"}") == 200);
}

static void errors_in_our_voice(void)
{
    CHECK(ask("POST /api/v1/runs", "{\"code\":\"x\",\"session\":\"taken\"}") == 409);
    CHECK(answer_is(E("conflict", "taken is taken", "null")));
    CHECK(ask("POST /api/v1/runs", "{\"code\":\"x\",\"timeout\":99}") == 400);
    CHECK(answer_is(E("invalid", "timeout must be at most 98", "\"timeout\"")));
    CHECK(ask("GET /api/v1/runs?limit=x", "") == 400 &&
          answer_is(E("invalid", "limit must be an integer", "\"limit\"")));
    CHECK(ask("GET /api/v1/runs?limit=3&api_key=k", "") == 200 && answer_is("{\"message\":\"3\"}"));
    CHECK(ask("DELETE /api/v1/runs/nothing", "") == 204);
    CHECK(ask("DELETE /api/v1/runs/inside", "") == 500 && answer_is(E("system", "internal error", "null")));
    CHECK(ask("DELETE /api/v1/runs/errno", "") == 404 && answer_is(E("not_found", "no run has that id", "null")));
    CHECK(ask("DELETE /api/v1/runs/key", "") == 401 && answer_has("\r\nWWW-Authenticate: Bearer\r\n"));
    CHECK(ask("DELETE /api/v1/runs/later", "") == 429 && answer_has("\r\nRetry-After: 17\r\n"));
    CHECK(ask("DELETE /api/v1/runs/busy", "") == 503 && answer_has("\r\nRetry-After: 1\r\n"));
    CHECK(ask("DELETE /api/v1/runs/field", "") == 400 && answer_is(E("invalid", "no such thing", "\"id\"")));
}

static void errors_in_their_voice(void)
{
    CHECK(ask("POST /execute", "{}") == 422);
    CHECK(answer_is(D("invalid", "code is missing", "\"code\"",
                      "[{\"type\":\"missing\",\"loc\":[\"body\",\"code\"],\"msg\":\"Field "
                      "required\",\"input\":{}}]")));
    CHECK(ask("POST /api/v1/execute", "{\"code\": \"print(Hello,") == 422 && answer_has("\"type\":\"json_invalid\""));
    CHECK(ask("POST /execute", "{\"code\":\"x\",\"session\":\"taken\"}") == 409);
    CHECK(answer_is(D("conflict", "taken is taken", "null", "\"taken is taken\"")));
    CHECK(ask("POST /execute", "{\"code\":\"x\",\"timeout\":99}") == 422 && answer_has("\"value_error\""));
    CHECK(ask("POST /execute?teapot", "{}") == 418 &&
          answer_is(D("invalid", "I'm a teapot", "null", "\"I'm a teapot\"")));
    CHECK(ask("POST /execute?field", "{}") == 422);
    CHECK(answer_is(D("invalid", "no such thing", "\"code\"",
                      "[{\"type\":\"value_error\",\"loc\":[\"body\",\"code\"],\"msg\":\"Value error, no such "
                      "thing\",\"input\":null}]")));
}

static const char *engine_error(const char *path, int status)
{
    kr_buf_reset(&answer);
    kr_api_engine_error(routes, ROUTES, path, status, "its words", "an-id", &answer);
    return kr_buf_str(&answer);
}

#define NOT_ALLOWED D("invalid", "Method Not Allowed", "null", "\"Method Not Allowed\"")

static void the_engines_errors_have_a_voice(void)
{
    CHECK(ask("PUT /execute", "") == 405 && answer_is(NOT_ALLOWED));
    CHECK(ask("PUT /nowhere", "") == 405 && answer_is(NOT_ALLOWED));
    CHECK(strstr(engine_error("/nowhere", 404), "{\"kind\":\"not_found\",\"message\":\"Not Found\",") &&
          strstr(kr_buf_str(&answer), "},\"detail\":\"Not Found\"}"));
    CHECK(strstr(engine_error("", 400), "},\"detail\":\"its words\"}") != NULL);
    CHECK(strcmp(engine_error("/api/v1/nowhere", 404), "{\"error\":{\"kind\":\"not_found\",\"message\":\"its words\","
                                                       "\"field\":null,\"request_id\":\"an-id\"}}") == 0);
    CHECK(ask("PUT /api/v1/execute", "") == 405 && answer_is(NOT_ALLOWED));
    CHECK(ask("PUT /api/v1/runs", "") == 405 && answer_has("{\"error\":{\"kind\":\"invalid\",\"message\":"));
    CHECK(ask("PUT /api/v1/nowhere", "") == 405 && answer_has("{\"error\":{\"kind\":\"invalid\",\"message\":"));
    CHECK(kr_api_voice_of_path(routes, ROUTES, "/api/v1/runs/x") == KR_API_KRAIT);
    CHECK(kr_api_voice_of_path(routes, ROUTES, "/api/v1") == KR_API_KRAIT);
    CHECK(kr_api_voice_of_path(routes, ROUTES, "/api/v1/sandboxes/a/files/b/c") == KR_API_KRAIT);
    CHECK(kr_api_voice_of_path(routes, ROUTES, "/api/v1/execute") == KR_API_DOCUMENT);
    CHECK(kr_api_voice_of_path(routes, ROUTES, "/ai/sandbox/v1/api/x") == KR_API_DOCUMENT);
    CHECK(kr_api_voice_of_path(routes, ROUTES, "") == KR_API_DOCUMENT);
}

/* ---- OpenAPI ---- */

static int write_openapi(struct kr_buf *out)
{
    struct kr_api_openapi config = {.version = "1.2.3", .auth = true};

    return kr_api_openapi_write(routes, ROUTES, &config, out, &err);
}

static void openapi_is_written_the_same_twice(void)
{
    cleanup_buf struct kr_buf a, b;
    json_t *doc;

    kr_buf_init(&a, KR_API_OPENAPI_MAX);
    kr_buf_init(&b, KR_API_OPENAPI_MAX);
    CHECK(docs_check(routes, ROUTES, &err) == 0);
    CHECK(write_openapi(&a) == 0 && write_openapi(&b) == 0 && a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    doc = json_loads(a.data, JSON_REJECT_DUPLICATES, NULL);
    CHECK(doc);
    CHECK(json_object_size(json_object_get(doc, "paths")) == 6); /* all paths but the hidden one */
    json_decref(doc);
}

/* A route that lacks something is refused by the check. */
static void docs_are_checked(void)
{
    struct kr_api_doc doc = delete_doc;
    struct kr_http_route two[2] = {{KR_HTTP_DELETE, "/a/{id}", 0, 0, delete_run, &doc}, routes[0]};

#define REFUSED(change)                                                                                                \
    do {                                                                                                               \
        doc = delete_doc;                                                                                              \
        change;                                                                                                        \
        CHECK(docs_check(two, 2, &err) == -EINVAL);                                                                    \
    } while (0)
    CHECK(docs_check(two, 2, &err) == 0);
    REFUSED(doc.id = "Has Blank");
    REFUSED(doc.id = "run_create"); /* the other's */
    REFUSED(doc.tag = "nonsense");
    REFUSED(doc.summary = "A sentence.");
    REFUSED(doc.params = NULL);
    REFUSED(doc.params = file_params);
    REFUSED(doc.responses = NULL);
    REFUSED(doc.body = &table); /* the row takes none */
    REFUSED(doc.query = &table);
    doc = delete_doc;
    two[0].doc = NULL;
    CHECK(docs_check(two, 2, &err) == -EINVAL && strstr(err.msg, "/a/{id}"));
}

static int print_openapi(void)
{
    cleanup_buf struct kr_buf out;

    kr_buf_init(&out, KR_API_OPENAPI_MAX);
    if (write_openapi(&out) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    return fwrite(out.data, 1, out.len, stdout) == out.len ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "openapi") == 0)
        return print_openapi();
    kr_buf_init(&answer, 1u << 20);
    start_server();
    RUN(bodies_reach_their_handlers);
    RUN(a_peer_may_leave_while_a_thread_parses);
    RUN(errors_in_our_voice);
    RUN(errors_in_their_voice);
    RUN(the_engines_errors_have_a_voice);
    stop_server();
    RUN(openapi_is_written_the_same_twice);
    RUN(docs_are_checked);
    kr_buf_done(&answer);
    CHECK_DONE();
}

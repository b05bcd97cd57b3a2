/* src/api/watch/monitor.c, health.c, metrics.c: events, and the answers of a real HTTP server. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "table-check.h"
#include "api.h"
#include "buf.h"
#include "clock.h"
#include "route_doc.h"
#include "fd.h"
#include "log.h"
#include "metrics.h"
#include "openapi.h"
#include "server_resources.h"
#include "monitor.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

/* ---- a server of these routes alone ---- */

static const struct kr_http_route routes[] = {
    {KR_HTTP_GET, "/health", 0, 0, kr_api_health, &kr_api_doc_health},
    {KR_HTTP_GET, "/api/v1/health", 0, 0, kr_api_health_v1, &kr_api_doc_health_v1},
    {KR_HTTP_GET, "/ready", 0, 0, kr_api_ready, &kr_api_doc_ready},
    {KR_HTTP_GET, "/metrics", 0, 0, kr_api_metrics, &kr_api_doc_metrics},
};

static struct {
    uv_loop_t loop;
    struct kr_api api;
    struct kr_monitor_state state;
    struct kr_resources_reader *resources;
    char path[100];
    unsigned collected;
} world;

static void look(void *data, struct kr_monitor_state *ret)
{
    CHECK(data == &world);
    *ret = world.state;
}

static void collect(void *data, struct kr_metrics *m)
{
    CHECK(data == &world);
    kr_metrics_set(m, KR_M_SANDBOXES, KR_AT_NONE, ++world.collected);
}

static bool has_docs(void *data, unsigned tag)
{
    return data == &world && tag == 0;
}

static void on_report(void *app, const struct kr_http_report *report)
{
    kr_monitor_http(((struct kr_api *)app)->monitor, report);
}

static int listener(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(world.path, sizeof world.path, "/tmp/krait-test-watch.%d", getpid());
    (void)unlink(world.path);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", world.path);
    return bind(fd, (struct sockaddr *)&a, sizeof a) < 0 ? -1 : fd;
}

static int begin(unsigned tag)
{
    const struct kr_http_config config = {
        .routes = routes, .route_count = sizeof routes / sizeof *routes, .app = &world.api, .on_report = on_report};
    struct kr_monitor_config watch = {.name = "krait",
                                      .version = "1.2.3",
                                      .api_endpoint = "/api/v1",
                                      .look = look,
                                      .collect = collect,
                                      .has_docs = has_docs,
                                      .data = &world};
    struct kr_err err;

    memset(&world, 0, sizeof world);
    watch.started_ns = kr_clock_ns() - 1500000000u;
    if (uv_loop_init(&world.loop) < 0 || kr_metrics_new(&world.api.metrics) < 0 ||
        kr_resources_new("", "/tmp", &world.resources) < 0)
        return -1;
    watch.metrics = world.api.metrics;
    watch.resources = world.resources;
    if (kr_monitor_new(&watch, (struct kr_monitor **)&world.api.monitor) < 0 ||
        kr_http_server_new(&world.loop, &config, &world.api.server, &err) < 0)
        return -1;
    return kr_http_server_listen(world.api.server, listener(), tag, &err);
}

static void end(void)
{
    kr_http_server_free(world.api.server);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    uv_loop_close(&world.loop);
    kr_monitor_free(world.api.monitor);
    kr_metrics_free(world.api.metrics);
    kr_resources_free(world.resources);
    unlink(world.path);
}

/* The whole answer to GET path; the status, or -1. The body is behind the head in `answer`. */
static char answer[1u << 20], *body;

static int get(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char request[200];
    size_t len = 0;
    uint64_t deadline = kr_clock_after_ms(30000);
    int status = -1;

    snprintf(a.sun_path, sizeof a.sun_path, "%s", world.path);
    snprintf(request, sizeof request,
             "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-ID: probe-1\r\n\r\n", path);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0 || kr_fd_write_all(fd, request, strlen(request)) < 0)
        return -1;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (kr_clock_ns() < deadline) {
        ssize_t n;

        uv_run(&world.loop, UV_RUN_NOWAIT);
        n = read(fd, answer + len, sizeof answer - 1 - len);
        if (n == 0)
            break;
        len += n > 0 ? (size_t)n : 0;
        if (n < 0)
            usleep(200);
    }
    uv_run(&world.loop, UV_RUN_NOWAIT);
    answer[len] = '\0';
    body = strstr(answer, "\r\n\r\n");
    body = body ? body + 4 : answer + len;
    return sscanf(answer, "HTTP/1.1 %d", &status) == 1 ? status : -1;
}

/* Has the object what its schema says, and nothing else? */
static int fits(const struct kr_api_schema *s, const json_t *o)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct kr_api_prop *p = &s->props[i];
        const json_t *v = json_object_get(o, p->name);
        int good = !v                         ? p->optional
                   : json_is_null(v)          ? p->nullable
                   : p->type == KR_API_OBJECT ? json_is_object(v) && (!p->of || fits(p->of, v))
                   : p->type == KR_API_INT    ? json_is_integer(v)
                   : p->type == KR_API_NUMBER ? json_is_number(v)
                   : p->type == KR_API_ARRAY  ? json_is_array(v)
                                              : json_is_string(v);

        for (size_t n = 0; good && p->type == KR_API_ARRAY && p->of && n < json_array_size(v); n++)
            good = fits(p->of, json_array_get(v, n));
        if (!good) {
            printf("# %s.%s is not as its schema says\n", s->name, p->name);
            return 0;
        }
    }
    return json_object_size(o) == s->count;
}

static json_t *got(const struct kr_api_doc *doc, int status)
{
    const struct kr_api_response *r = doc->responses;
    json_t *o = json_loads(body, JSON_REJECT_DUPLICATES, NULL);

    while (r->status && r->status != status)
        r++;
    if (!o || !r->status || !fits(r->schema, o)) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static const char *member(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "(none)";
}

/* ---- tests ---- */

static void rows_are_documented(void)
{
    struct kr_err err = {0};
    int r = docs_check(routes, sizeof routes / sizeof *routes, &err);

    if (r < 0)
        printf("# %s\n", err.msg);
    CHECK(r == 0);
    CHECK(kr_api_doc_health.open && kr_api_doc_health_v1.open && kr_api_doc_ready.open);
    CHECK(!kr_api_doc_metrics.open && strcmp(kr_api_doc_metrics.id, "metrics") == 0);
}

static void health_at_the_root(void)
{
    json_t *o;

    CHECK(begin(0) == 0);
    world.state.active_sessions = 3;
    CHECK(get("/health") == 200 && (o = got(&kr_api_doc_health, 200)));
    CHECK(strcmp(member(o, "status"), "healthy") == 0 && strcmp(member(o, "version"), "1.2.3") == 0);
    CHECK(json_integer_value(json_object_get(o, "active_sessions")) == 3);
    CHECK(json_number_value(json_object_get(o, "uptime")) >= 1.5 &&
          json_number_value(json_object_get(o, "uptime")) < 60);
    CHECK(strcmp(member(o, "docs"), "/docs") == 0 && json_is_null(json_object_get(o, "mcp_endpoint")));
    CHECK(json_integer_value(
              json_object_get(json_object_get(json_object_get(o, "resources"), "memory"), "used_bytes")) > 0);
    json_decref(o);
    world.state.stopping = true; /* alive for as long as it answers */
    CHECK(get("/health") == 200 && (o = got(&kr_api_doc_health, 200)) && strcmp(member(o, "status"), "healthy") == 0);
    json_decref(o);
    end();
}

static void health_of_another_listener(void)
{
    json_t *o;

    CHECK(begin(7) == 0);
    CHECK(get("/health") == 200 && (o = got(&kr_api_doc_health, 200)) && strcmp(member(o, "docs"), "disabled") == 0);
    json_decref(o);
    CHECK(get("/api/v1/health") == 200 && (o = got(&kr_api_doc_health_v1, 200)) && !json_object_get(o, "docs"));
    json_decref(o);
    end();
}

static void ready_says_what_is_missing(void)
{
    json_t *o;

    CHECK(begin(0) == 0);
    kr_monitor_miss(&world.state, "zygote data", "starting");
    CHECK(get("/ready") == 503 && strcasestr(answer, "\r\nRetry-After: 1\r\n") && (o = got(&kr_api_doc_ready, 503)));
    CHECK(strcmp(member(o, "status"), "starting") == 0 && json_array_size(json_object_get(o, "missing")) == 1);
    CHECK(strcmp(member(json_array_get(json_object_get(o, "missing"), 0), "what"), "zygote data") == 0);
    json_decref(o);
    world.state.missing_count = 0;
    CHECK(get("/ready") == 200 && !strcasestr(answer, "Retry-After") && (o = got(&kr_api_doc_ready, 200)));
    CHECK(strcmp(member(o, "status"), "ready") == 0);
    json_decref(o);
    world.state.stopping = true;
    CHECK(get("/ready") == 503 && (o = got(&kr_api_doc_ready, 503)) && strcmp(member(o, "status"), "stopping") == 0);
    json_decref(o);
    for (int i = 0; i < 20; i++) /* no more than there is room for */
        kr_monitor_miss(&world.state, "a name that is much longer than the room there is for it", "x");
    CHECK(world.state.missing_count == KR_MONITOR_MISSING_MAX && get("/ready") == 503);
    CHECK((o = got(&kr_api_doc_ready, 503)) &&
          json_array_size(json_object_get(o, "missing")) == KR_MONITOR_MISSING_MAX);
    json_decref(o);
    end();
}

static void metrics_move(void)
{
    CHECK(begin(0) == 0);
    CHECK(get("/metrics") == 200 &&
          strcasestr(answer, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    CHECK(strstr(body, "\nkrait_sandboxes 1\n") && strstr(body, "\nkrait_http_connections 1\n"));
    CHECK(strstr(body, "\nprocess_resident_memory_bytes ") && strstr(body, "\nsandbox_memory_usage_bytes "));
    CHECK(strstr(body, "\nkrait_ready 1\n") && strstr(body, "\nkrait_log_dropped_total{why=\"burst\"} "));
    world.state.stopping = true;
    CHECK(get("/metrics") == 200 && strstr(body, "\nkrait_sandboxes 2\n") && strstr(body, "\nkrait_ready 0\n"));
    CHECK(strstr(body, "\nkrait_http_requests_total{route=\"/metrics\",method=\"GET\",status=\"2xx\"} 1\n"));
    CHECK(strstr(body, "\nkrait_http_connections_total 2\n"));
    CHECK(get("/no/such/path") == 404 && get("/metrics") == 200);
    CHECK(strstr(body, "\nkrait_http_requests_total{route=\"none\",method=\"GET\",status=\"4xx\"} 1\n"));
    CHECK(strstr(body, "\nkrait_http_request_seconds_count{route=\"/metrics\"} 2\n"));
    CHECK(!strstr(body, "/no/such/path")); /* what a client makes up is no label */
    end();
}

static char said[1u << 16];

/* What fn() logs at info. */
static void listen_to(void (*fn)(void))
{
    cleanup_fd int saved = dup(2), fd = memfd_create("log", MFD_CLOEXEC);
    ssize_t n;

    kr_log_set_level(KR_LOG_INFO);
    dup2(fd, 2);
    fn();
    dup2(saved, 2);
    kr_log_set_level(KR_LOG_WARN);
    n = pread(fd, said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = '\0';
}

static void some_runs(void)
{
    const struct kr_monitor_run run = {
        .run = "r1", .session = "main", .sandbox = "sb1", .user = "u1", .request = "q1", .timeout_is_error = true};
    char code[300];
    struct kr_err err;

    memset(code, 'x', sizeof code);
    kr_monitor_run_started(world.api.monitor, &run, code, sizeof code, 5000000);
    kr_monitor_run_ended(world.api.monitor, &run, "ok", 1234567890);
    kr_monitor_run_ended(world.api.monitor, &run, "timeout", 2000000000);
    kr_err_set(&err, KR_ERR_BUSY, 0, "every session is busy");
    kr_monitor_run_refused(world.api.monitor, &(struct kr_monitor_run){.user = "u1"}, &err);
    kr_err_set(&err, KR_ERR_SYSTEM, ENOMEM, "fork");
    kr_monitor_run_refused(world.api.monitor, &(struct kr_monitor_run){0}, &err);
    kr_monitor_package(world.api.monitor, "os\nsystem", "blocked");
    kr_monitor_package(world.api.monitor, "numpy", "success");
    kr_monitor_session_opened(world.api.monitor, true, 300000);
    kr_monitor_session_ended(world.api.monitor, "idle");
}

static void events_are_logged_as_the_document_says(void)
{
    CHECK(begin(0) == 0);
    listen_to(some_runs);
    CHECK(strstr(
        said,
        "level=info who=krait msg=\"run started\" run=r1 session=main sandbox=sb1 user=u1 request=q1 code=\"xxx"));
    CHECK(strspn(strstr(said, "code=\"") + 6, "x") == 100);
    CHECK(strstr(said, "level=info who=krait msg=\"run ended\" run=r1 session=main sandbox=sb1 user=u1 request=q1 "
                       "cause=ok seconds=1.23\n"));
    CHECK(strstr(said, "level=error who=krait msg=\"run timed out\"") && strstr(said, "cause=timeout seconds=2.00\n"));
    CHECK(strstr(said, "level=info who=krait msg=\"run refused\" user=u1 kind=busy error=\"every session is busy\"\n"));
    CHECK(
        strstr(said, "level=error who=krait msg=\"run refused\" kind=system error=\"fork: Cannot allocate memory\"\n"));
    CHECK(strstr(said, "level=warn who=krait msg=\"blocked package\" package=\"os\\nsystem\" result=blocked\n"));
    end();
}

static void a_late_run(void)
{
    kr_monitor_run_ended(world.api.monitor, &(struct kr_monitor_run){.run = "r2"}, "timeout", 2000000000);
}

static void a_timeout_is_no_error_unless_a_document_says_so(void)
{
    CHECK(begin(0) == 0);
    listen_to(a_late_run);
    CHECK(strstr(said, "level=info who=krait msg=\"run timed out\" run=r2") && !strstr(said, "level=error"));
    end();
}

static void events_are_counted(void)
{
    const struct kr_metrics *m;

    CHECK(begin(0) == 0);
    m = world.api.metrics;
    listen_to(some_runs);
    CHECK(kr_metrics_get(m, KR_M_EXECUTIONS, KR_AT("success")) == 1 &&
          kr_metrics_get(m, KR_M_EXECUTIONS, KR_AT("error")) == 1);
    CHECK(kr_metrics_get(m, KR_M_EXECUTION_SECONDS, KR_AT_NONE) == 2 &&
          kr_metrics_get(m, KR_M_RUNS, KR_AT("timeout")) == 1);
    CHECK(kr_metrics_get(m, KR_M_RUN_SECONDS, KR_AT("ok")) == 1 &&
          kr_metrics_get(m, KR_M_RUN_WAIT_SECONDS, KR_AT_NONE) == 1);
    CHECK(kr_metrics_get(m, KR_M_ERRORS, KR_AT("timeout")) == 1 &&
          kr_metrics_get(m, KR_M_ERRORS, KR_AT("refused")) == 1);
    CHECK(kr_metrics_get(m, KR_M_ERRORS, KR_AT("internal")) == 1 &&
          kr_metrics_get(m, KR_M_ERRORS, KR_AT("blocked_package")) == 1);
    CHECK(kr_metrics_get(m, KR_M_RUNS_REFUSED, KR_AT("busy")) == 1 &&
          kr_metrics_get(m, KR_M_PACKAGE_INSTALLS, KR_AT("blocked")) == 1);
    CHECK(kr_metrics_get(m, KR_M_SESSIONS_OPENED, KR_AT("pool")) == 1 &&
          kr_metrics_get(m, KR_M_SESSIONS_ENDED, KR_AT("idle")) == 1);
    CHECK(kr_metrics_get(m, KR_M_SESSION_OPEN_SECONDS, KR_AT("pool")) == 1);
    end();
}

static void some_requests(void)
{
    get("/health");
    get("/metrics");
    get("/a%22b?api_key=hunter2");
}

static void requests_are_logged(void)
{
    CHECK(begin(0) == 0);
    listen_to(some_requests);
    CHECK(!strstr(said, "/health") && !strstr(said, "/metrics")); /* they come by the clock */
    CHECK(
        strstr(said, "level=info who=krait msg=\"request\" request=probe-1 method=GET path=\"/a%22b\" status=404 us="));
    CHECK(!strstr(said, "hunter2"));
    end();
}

static void nobody_watches(void)
{
    const struct kr_monitor_run run = {0};
    struct kr_err err = {.kind = KR_ERR_BUSY};

    kr_monitor_run_started(NULL, &run, "x", 1, 0);
    kr_monitor_run_ended(NULL, &run, "ok", 0);
    kr_monitor_run_refused(NULL, &run, &err);
    kr_monitor_session_opened(NULL, false, 0);
    kr_monitor_session_ended(NULL, "idle");
    kr_monitor_package(NULL, "x", "error");
    kr_monitor_collect(NULL, NULL);
    kr_monitor_free(NULL);
}

int main(void)
{
    RUN(rows_are_documented);
    RUN(health_at_the_root);
    RUN(health_of_another_listener);
    RUN(ready_says_what_is_missing);
    RUN(metrics_move);
    RUN(events_are_logged_as_the_document_says);
    RUN(a_timeout_is_no_error_unless_a_document_says_so);
    RUN(events_are_counted);
    RUN(requests_are_logged);
    RUN(nobody_watches);
    CHECK_DONE();
}

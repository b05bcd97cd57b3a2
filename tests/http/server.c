/* The server that tests/http/run.py drives: the HTTP engine with one small handler for each thing it can do.
 *
 *     server [setting=value…]
 *
 * prints `ports TCP TCP UNIX-PATH` (two IPv4 listeners of tags 1 and 2, a unix socket of tag 3) and serves until POST
 * /stop or the end of its standard input. Settings are the numbers of struct kr_http_config, and `nofile` for
 * RLIMIT_NOFILE. */
#include "buf.h"
#include "err.h"
#include "fd.h"
#include "http.h"
#include "json.h"
#include "log.h"
#include "loop.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#define BLOCK 65536u

static uv_loop_t loop;
static struct kr_http_server *server;
static uint64_t gone, reports, incomplete;
static int eaten[4096];
static size_t eaten_count;

static void on_count_gone(void *data, struct kr_http_ex *ex)
{
    (void)ex;
    gone++;
    free(data);
}

/* ---- at once ---- */

static void get_hello(struct kr_http_ex *ex, void *app)
{
    (void)app;
    kr_http_reply(ex, 200, "text/plain", "hello", 5);
}

/* So many bytes of text, `tag` with a tag of their own. */
static void get_text(struct kr_http_ex *ex, void *app)
{
    size_t n = (size_t)atoi(kr_http_param(ex, "n"));
    char *text = malloc(n + 1);

    (void)app;
    for (size_t i = 0; text && i < n; i++)
        text[i] = "krait speaks "[i % 13];
    if (strcmp(kr_http_query(ex), "tag") == 0)
        kr_http_set_header(ex, "ETag", "\"t\"");
    kr_http_reply(ex, 200, "text/plain", text, text ? n : 0);
    free(text);
}

static void post_echo(struct kr_http_ex *ex, void *app)
{
    size_t len;
    const char *body = kr_http_body(ex, &len);

    (void)app;
    kr_http_reply(ex, 200, "application/octet-stream", body, len);
}

static void post_taken(struct kr_http_ex *ex, void *app)
{
    size_t len;
    cleanup_free char *body = kr_http_take_body(ex, &len);

    (void)app;
    kr_http_reply(ex, kr_http_body(ex, &len)[0] ? 500 : 200, "text/plain", body, body ? strlen(body) : 0);
}

static void get_about(struct kr_http_ex *ex, void *app)
{
    static const char *const params[] = {"a", "b", "path"};
    cleanup_buf struct kr_buf b;
    struct kr_json j;
    char peer[KR_HTTP_PEER_MAX];

    (void)app;
    kr_buf_init(&b, 1u << 20);
    kr_json_init(&j, &b);
    kr_json_object(&j);
    kr_json_key_str(&j, "method", kr_http_method_name(kr_http_method(ex)));
    kr_json_key_str(&j, "path", kr_http_path(ex));
    kr_json_key_str(&j, "query", kr_http_query(ex));
    kr_json_key_str(&j, "peer", kr_http_peer(ex, peer));
    kr_json_key_uint(&j, "tag", kr_http_tag(ex));
    kr_json_key_str(&j, "id", kr_http_request_id(ex));
    kr_json_key_str(&j, "x", kr_http_header(ex, "X-Test"));
    kr_json_key_str(&j, "pattern", kr_http_route(ex)->pattern);
    for (size_t i = 0; i < 3; i++)
        kr_json_key_str(&j, params[i], kr_http_param(ex, params[i]));
    kr_json_object_end(&j);
    kr_http_set_header(ex, "Cache-Control", "max-age=60");
    kr_http_reply_json(ex, 200, &b);
}

static void get_nothing(struct kr_http_ex *ex, void *app)
{
    (void)ex;
    (void)app; /* neither answers nor defers: the engine must */
}

static unsigned long number(const struct kr_http_ex *ex)
{
    return strtoul(kr_http_param(ex, "n"), NULL, 10);
}

static void get_big(struct kr_http_ex *ex, void *app)
{
    size_t len = number(ex) << 20;
    cleanup_free char *body = malloc(len + 1);

    (void)app;
    if (body)
        memset(body, 'b', len);
    kr_http_reply(ex, body ? 200 : 503, "application/octet-stream", body, body ? len : 0);
}

static void get_short(struct kr_http_ex *ex, void *app)
{
    (void)app;
    kr_http_begin(ex, 200, "text/plain", 100);
    kr_http_write(ex, "only this", 9);
    kr_http_end(ex);
}

static void get_long(struct kr_http_ex *ex, void *app)
{
    (void)app;
    kr_http_begin(ex, 200, "text/plain", 5);
    kr_http_write(ex, "hello", 5);
    kr_http_write(ex, "HTTP/1.1 200 OK", 15);
    kr_http_end(ex);
}

/* ---- later ---- */

static const struct kr_http_calls pending_calls = {.on_gone = on_count_gone};

static void get_pending(struct kr_http_ex *ex, void *app)
{
    (void)app;
    kr_http_defer(ex, &pending_calls, NULL);
}

struct later {
    struct kr_http_ex *ex;
    struct kr_timer *timer;
};

static void on_later(void *data)
{
    struct later *l = data;
    const char *query = kr_http_query(l->ex);

    kr_http_reply(l->ex, 200, "text/plain", query, strlen(query));
    kr_timer_close(l->timer);
    free(l);
}

static void on_later_gone(void *data, struct kr_http_ex *ex)
{
    struct later *l = data;

    kr_timer_close(l->timer);
    on_count_gone(data, ex);
}

static const struct kr_http_calls later_calls = {.on_gone = on_later_gone};

static void get_later(struct kr_http_ex *ex, void *app)
{
    struct later *l = calloc(1, sizeof *l);

    (void)app;
    if (!l || kr_timer_new(&loop, on_later, l, &l->timer) < 0)
        abort();
    l->ex = ex;
    kr_http_defer(ex, &later_calls, l);
    kr_timer_arm(l->timer, number(ex));
}

/* ---- streams ---- */

struct source {
    uint64_t left;
};

static void pour(struct source *s, struct kr_http_ex *ex)
{
    static char block[BLOCK];

    memset(block, 's', sizeof block);
    while (s->left > 0) {
        size_t n = s->left < BLOCK ? (size_t)s->left : BLOCK;

        s->left -= n;
        if (kr_http_write(ex, block, n) > KR_HTTP_QUEUE_HIGH)
            return;
    }
    kr_http_end(ex);
    free(s);
}

static void on_pour(void *data, struct kr_http_ex *ex)
{
    pour(data, ex);
}

static const struct kr_http_calls pour_calls = {.on_drain = on_pour, .on_gone = on_count_gone};

static void begin_pour(struct kr_http_ex *ex, bool with_length)
{
    struct source *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    s->left = (uint64_t)number(ex) << 20;
    kr_http_defer(ex, &pour_calls, s);
    kr_http_begin(ex, 200, "application/octet-stream", with_length ? (int64_t)s->left : -1);
    pour(s, ex);
}

static void get_stream(struct kr_http_ex *ex, void *app)
{
    (void)app;
    begin_pour(ex, false);
}

static void get_fixed(struct kr_http_ex *ex, void *app)
{
    (void)app;
    begin_pour(ex, true);
}

static void get_ndjson(struct kr_http_ex *ex, void *app)
{
    char line[64];

    (void)app;
    kr_http_ndjson_begin(ex);
    for (unsigned long i = 0, n = number(ex); i < n; i++)
        kr_http_ndjson_line(ex, line, (size_t)snprintf(line, sizeof line, "{\"seq\":%lu}", i));
    kr_http_end(ex);
}

static void get_events(struct kr_http_ex *ex, void *app)
{
    static const char data[] = "one\ntwo\r\nthree\rfour";
    char id[32];

    (void)app;
    kr_http_sse_begin(ex);
    for (unsigned long i = 0, n = number(ex); i < n; i++) {
        snprintf(id, sizeof id, "%lu", i);
        kr_http_sse_event(ex, "tick", id, data, sizeof data - 1);
    }
    kr_http_sse_event(ex, "bad\nevent: injected", NULL, "", 0);
    kr_http_end(ex);
}

static void get_sse(struct kr_http_ex *ex, void *app)
{
    (void)app;
    kr_http_defer(ex, &pending_calls, NULL);
    kr_http_sse_begin(ex);
    kr_http_sse_event(ex, "hello", NULL, "{}", 2);
}

/* ---- uploads ---- */

struct upload {
    struct kr_http_ex *ex;
    struct kr_timer *timer; /* of the slow one */
    uint64_t got, since_pause;
    bool paused;
};

static void free_upload(struct upload *u)
{
    kr_timer_close(u->timer);
    free(u);
}

static void on_upload_again(void *data)
{
    struct upload *u = data;

    u->paused = false;
    kr_http_pause_body(u->ex, false);
}

static void on_upload(void *data, struct kr_http_ex *ex, const char *bytes, size_t len)
{
    struct upload *u = data;

    (void)bytes;
    u->got += u->paused ? 1u << 30 : len; /* nothing may come while it is paused: the sum would be wrong */
    u->since_pause += len;
    if (u->timer && u->since_pause > 1u << 20) {
        u->since_pause = 0;
        u->paused = true;
        kr_http_pause_body(ex, true);
        kr_timer_arm(u->timer, 1);
    }
}

static void on_upload_end(void *data, struct kr_http_ex *ex)
{
    struct upload *u = data;
    char text[32];

    kr_http_reply(ex, 200, "text/plain", text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)u->got));
    free_upload(u);
}

static void on_upload_gone(void *data, struct kr_http_ex *ex)
{
    (void)ex;
    gone++;
    free_upload(data);
}

static const struct kr_http_calls upload_calls = {on_upload, on_upload_end, NULL, on_upload_gone};

static struct upload *begin_upload(struct kr_http_ex *ex)
{
    struct upload *u = calloc(1, sizeof *u);

    if (!u)
        abort();
    u->ex = ex;
    kr_http_accept_body(ex, 0, &upload_calls, u);
    return u;
}

static void put_upload(struct kr_http_ex *ex, void *app)
{
    (void)app;
    begin_upload(ex);
}

static void put_slow(struct kr_http_ex *ex, void *app)
{
    struct upload *u = begin_upload(ex);

    (void)app;
    if (kr_timer_new(&loop, on_upload_again, u, &u->timer) < 0)
        abort();
}

static void post_refuse(struct kr_http_ex *ex, void *app)
{
    (void)app;
    kr_http_reply_error(ex, 403, "not this one");
}

static void on_early(void *data, struct kr_http_ex *ex, const char *bytes, size_t len)
{
    (void)data;
    kr_http_reply(ex, 202, "text/plain", bytes, len < 3 ? len : 3);
}

static const struct kr_http_calls early_calls = {.on_body = on_early, .on_gone = on_count_gone};

static void post_early(struct kr_http_ex *ex, void *app)
{
    (void)app;
    kr_http_accept_body(ex, 0, &early_calls, NULL);
}

/* ---- the server itself ---- */

static size_t open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n > 3 ? n - 3 : 0; /* itself, . and .. */
}

static uint64_t resident(void)
{
    char text[128];
    unsigned long pages = 0;

    if (kr_fd_read_file_at(AT_FDCWD, "/proc/self/statm", text, sizeof text) > 0)
        sscanf(text, "%*u %lu", &pages);
    return (uint64_t)pages * 4096;
}

static void get_stats(struct kr_http_ex *ex, void *app)
{
    const struct kr_http_stats *s = kr_http_server_stats(server);
    cleanup_buf struct kr_buf b;
    struct kr_json j;

    (void)app;
    kr_buf_init(&b, 4096);
    kr_json_init(&j, &b);
    kr_json_object(&j);
    kr_json_key_uint(&j, "gone", gone);
    kr_json_key_uint(&j, "reports", reports);
    kr_json_key_uint(&j, "incomplete", incomplete);
    kr_json_key_uint(&j, "connections", s->connections);
    kr_json_key_uint(&j, "connections_total", s->connections_total);
    kr_json_key_uint(&j, "refused", s->refused_total);
    kr_json_key_uint(&j, "exchanges", s->exchanges);
    kr_json_key_uint(&j, "requests", s->requests_total);
    kr_json_key_uint(&j, "malformed", s->malformed_total);
    kr_json_key_uint(&j, "timeouts", s->timeouts_total);
    kr_json_key_uint(&j, "bytes_out", s->bytes_out_total);
    kr_json_key_uint(&j, "collected", s->collected_bytes);
    kr_json_key_uint(&j, "unsent", s->unsent_bytes);
    kr_json_key_uint(&j, "cut", s->cut_total);
    kr_json_key_uint(&j, "rss", resident());
    kr_json_key_uint(&j, "fds", open_fds());
    kr_json_object_end(&j);
    kr_http_reply_json(ex, 200, &b);
}

static void post_eat(struct kr_http_ex *ex, void *app)
{
    int fd;

    (void)app;
    while (eaten_count < sizeof eaten / sizeof eaten[0] && (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        eaten[eaten_count++] = fd;
    kr_http_reply(ex, 200, "text/plain", "full", 4);
}

static void post_vomit(struct kr_http_ex *ex, void *app)
{
    (void)app;
    while (eaten_count > 0)
        kr_fd_close(eaten[--eaten_count]);
    kr_http_reply(ex, 200, "text/plain", "free", 4);
}

static void on_stopped(void *app)
{
    (void)app;
    kr_http_server_free(server);
    server = NULL;
    uv_stop(&loop);
}

static void post_stop(struct kr_http_ex *ex, void *app)
{
    (void)app;
    kr_http_server_stop(server, (unsigned)number(ex), on_stopped);
    kr_http_reply(ex, 200, "text/plain", "stopping", 8);
}

static bool gate(void *app, struct kr_http_ex *ex)
{
    const char *limit = kr_http_header(ex, "X-Limit");

    (void)app;
    if (limit)
        kr_http_set_body_limit(ex, strtoul(limit, NULL, 10));
    if (!kr_http_header(ex, "X-Forbidden"))
        return true;
    kr_http_reply_error(ex, 401, NULL);
    return false;
}

static void on_report(void *app, const struct kr_http_report *r)
{
    (void)app;
    reports++;
    incomplete += !r->complete;
}

/* clang-format off */
static const struct kr_http_route routes[] = {
    {KR_HTTP_GET, "/hello", 0, 0, get_hello, NULL},
    {KR_HTTP_GET, "/text/{n}", 0, 0, get_text, NULL},
    {KR_HTTP_POST, "/echo", 1u << 20, 0, post_echo, NULL},
    {KR_HTTP_POST, "/taken", 1024, 0, post_taken, NULL},
    {KR_HTTP_GET, "/about", 0, 0, get_about, NULL},
    {KR_HTTP_GET, "/about/{a}/{b}", 0, 0, get_about, NULL},
    {KR_HTTP_GET, "/about/{a}/fixed", 0, 0, get_about, NULL},
    {KR_HTTP_GET, "/files/{path*}", 0, 0, get_about, NULL},
    {KR_HTTP_PUT, "/files/one", 1024, 0, post_echo, NULL},
    {KR_HTTP_GET, "/nothing", 0, 0, get_nothing, NULL},
    {KR_HTTP_GET, "/big/{n}", 0, 0, get_big, NULL},
    {KR_HTTP_GET, "/short", 0, 0, get_short, NULL},
    {KR_HTTP_GET, "/long", 0, 0, get_long, NULL},
    {KR_HTTP_GET, "/pending", 0, 0, get_pending, NULL},
    {KR_HTTP_GET, "/later/{n}", 0, 0, get_later, NULL},
    {KR_HTTP_GET, "/stream/{n}", 0, 0, get_stream, NULL},
    {KR_HTTP_GET, "/fixed/{n}", 0, 0, get_fixed, NULL},
    {KR_HTTP_GET, "/ndjson/{n}", 0, 0, get_ndjson, NULL},
    {KR_HTTP_GET, "/events/{n}", 0, 0, get_events, NULL},
    {KR_HTTP_GET, "/sse", 0, 0, get_sse, NULL},
    {KR_HTTP_PUT, "/upload", 1u << 30, KR_HTTP_STREAM_BODY, put_upload, NULL},
    {KR_HTTP_PUT, "/slow", 1u << 30, KR_HTTP_STREAM_BODY, put_slow, NULL},
    {KR_HTTP_POST, "/refuse", 1u << 30, KR_HTTP_STREAM_BODY, post_refuse, NULL},
    {KR_HTTP_POST, "/early", 1u << 30, KR_HTTP_STREAM_BODY, post_early, NULL},
    {KR_HTTP_GET, "/stats", 0, 0, get_stats, NULL},
    {KR_HTTP_POST, "/eat", 0, 0, post_eat, NULL},
    {KR_HTTP_POST, "/vomit", 0, 0, post_vomit, NULL},
    {KR_HTTP_POST, "/stop/{n}", 0, 0, post_stop, NULL},
};
/* clang-format on */

static struct kr_http_config config = {
    .routes = routes,
    .route_count = sizeof routes / sizeof routes[0],
    .gate = gate,
    .on_report = on_report,
};

/* ---- starting ---- */

static const struct {
    const char *name;
    unsigned *at;
} settings[] = {
    {"connections_max", &config.connections_max},
    {"per_address_max", &config.per_address_max},
    {"head_ms", &config.head_ms},
    {"idle_ms", &config.idle_ms},
    {"body_ms", &config.body_ms},
    {"body_min_bytes", &config.body_min_bytes},
    {"write_ms", &config.write_ms},
    {"linger_ms", &config.linger_ms},
    {"beat_ms", &config.beat_ms},
};

static bool set(const char *arg)
{
    const char *equals = strchr(arg, '=');
    unsigned long value = equals ? strtoul(equals + 1, NULL, 10) : 0;
    struct rlimit r = {value, value};

    if (!equals)
        return false;
    if (strncmp(arg, "nofile=", 7) == 0)
        return setrlimit(RLIMIT_NOFILE, &r) == 0;
    if (strncmp(arg, "collected_bodies_max=", 21) == 0) {
        config.collected_bodies_max = value;
        return true;
    }
    if (strncmp(arg, "unsent_max=", 11) == 0) {
        config.unsent_max = value;
        return true;
    }
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (strlen(settings[i].name) == (size_t)(equals - arg) &&
            strncmp(arg, settings[i].name, (size_t)(equals - arg)) == 0) {
            *settings[i].at = (unsigned)value;
            return true;
        }
    return false;
}

static unsigned listen_tcp(unsigned tag)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    struct kr_err err;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || getsockname(fd, (struct sockaddr *)&a, &len) < 0 ||
        kr_http_server_listen(server, fd, tag, &err) < 0)
        return 0;
    return ntohs(a.sin_port);
}

static bool listen_unix(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct kr_err err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    return fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && kr_http_server_listen(server, fd, 3, &err) == 0;
}

static void on_stdin(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    uv_poll_stop(handle); /* the parent has ended, or asks the server to end */
    kr_http_server_stop(server, 0, on_stopped);
}

int main(int argc, char **argv)
{
    char path[64];
    struct kr_err err;
    unsigned ports[2];
    uv_poll_t input;

    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    kr_log_set_who("test-server");
    for (int i = 1; i < argc; i++)
        if (!set(argv[i])) {
            fprintf(stderr, "server: %s?\n", argv[i]);
            return 2;
        }
    uv_loop_init(&loop);
    if (kr_http_server_new(&loop, &config, &server, &err) < 0) {
        fprintf(stderr, "server: %s\n", err.msg);
        return 1;
    }
    snprintf(path, sizeof path, "/tmp/krait-test-http-%d", (int)getpid());
    ports[0] = listen_tcp(1);
    ports[1] = listen_tcp(2);
    if (!ports[0] || !ports[1] || !listen_unix(path))
        return 1;
    uv_poll_init(&loop, &input, STDIN_FILENO);
    uv_poll_start(&input, UV_READABLE | UV_DISCONNECT, on_stdin);
    printf("ports %u %u %s\n", ports[0], ports[1], path);
    uv_run(&loop, UV_RUN_DEFAULT);
    unlink(path);
    uv_close((uv_handle_t *)&input, NULL);
    uv_run(&loop, UV_RUN_DEFAULT); /* whatever does not end by itself now is a handle that was forgotten */
    return uv_loop_close(&loop) == 0 ? 0 : 3;
}

/* The server as a whole: its settings, its turn of the loop, its end. Called by the application.
 *
 * What a caller outside the loop's own callbacks asks for (an answer queued, a body accepted) puts its connection on
 * the soon list, which runs before and after every poll of the loop. Invariant: the loop never blocks while that list
 * has anything; the server's memory goes after the last handle's. */
#include "http_internal.h"
#include "err.h"
#include "fd.h"
#include "log.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

#define FDS_LEFT 256u /* descriptors that connections leave to the rest of the server by default */
#define DEFAULT_HEADER_BYTES 2048u

/* What an API's answers carry. Pages and files set their own. */
static const struct kr_http_default_header api_headers[] = {
    {"X-Content-Type-Options", "nosniff"},                                     /* a body is what its type says */
    {"Referrer-Policy", "no-referrer"},                                        /* ids in paths stay here */
    {"X-Frame-Options", "DENY"},                                               /* no page shows it in a frame */
    {"Cross-Origin-Resource-Policy", "same-origin"},                           /* no other site embeds it */
    {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"}, /* opened as a page it can do nothing */
    {"Cache-Control", "no-store"}, /* answers are of the moment, and private to a user */
};

static unsigned or_default(unsigned value, unsigned otherwise)
{
    return value ? value : otherwise;
}

static void fill_defaults(struct kr_http_config *c)
{
    struct rlimit r;

    if (!c->connections_max && getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < 16384 + FDS_LEFT)
        c->connections_max = r.rlim_cur > 2 * FDS_LEFT ? (unsigned)r.rlim_cur - FDS_LEFT : FDS_LEFT;
    c->connections_max = or_default(c->connections_max, 16384);
    c->per_address_max = or_default(c->per_address_max, 1024);
    c->collected_bodies_max = c->collected_bodies_max ? c->collected_bodies_max : 256u << 20;
    c->unsent_max = c->unsent_max ? c->unsent_max : 256u << 20;
    c->head_ms = or_default(c->head_ms, 10000);
    c->idle_ms = or_default(c->idle_ms, 75000);
    c->body_ms = or_default(c->body_ms, 10000);
    c->body_min_bytes = or_default(c->body_min_bytes, 5000);
    c->write_ms = or_default(c->write_ms, 30000);
    c->linger_ms = or_default(c->linger_ms, 1000);
    c->beat_ms = or_default(c->beat_ms, 15000);
    if (!c->headers) {
        c->headers = api_headers;
        c->header_count = sizeof api_headers / sizeof api_headers[0];
    }
}

static int check_headers(const struct kr_http_config *c, struct kr_err *err)
{
    size_t bytes = 0;

    for (size_t i = 0; i < c->header_count; i++)
        bytes += strlen(c->headers[i].name) + strlen(c->headers[i].value) + 4;
    if (c->header_count > DEFAULT_HEADERS_MAX || bytes > DEFAULT_HEADER_BYTES)
        return kr_err_set(err, KR_ERR_INTERNAL, E2BIG, "default headers");
    return 0;
}

/* ---- the turn of the loop ---- */

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* that it is active is all it is for: the poll does not block */
}

static void run_soon(struct kr_http_server *s)
{
    struct kr_http_conn *c;

    /* Who puts itself on the list anew waits for the next step. */
    for (unsigned n = s->soon_count; n > 0 && (c = TAILQ_FIRST(&s->soon)); n--) {
        kr_http_conn_not_soon(c);
        kr_http_conn_settle(c);
    }
    if (s->soon_count > 0)
        uv_idle_start(&s->idle, on_idle);
    else
        uv_idle_stop(&s->idle);
    if (s->stopping && !s->reported_stop && TAILQ_EMPTY(&s->conns)) {
        s->reported_stop = true;
        uv_timer_stop(&s->stop_timer);
        if (s->on_stopped)
            s->on_stopped(s->config.app);
    }
}

static void on_prepare(uv_prepare_t *prepare)
{
    run_soon(prepare->data);
}

static void on_check(uv_check_t *check)
{
    run_soon(check->data);
}

/* Initialises what the loop runs for us, none of which keeps it alive: listeners and connections do. None can fail. */
static void init_handles(struct kr_http_server *s)
{
    uv_handle_t *const handles[] = {(uv_handle_t *)&s->prepare,    (uv_handle_t *)&s->check,
                                    (uv_handle_t *)&s->idle,       (uv_handle_t *)&s->timer,
                                    (uv_handle_t *)&s->stop_timer, (uv_handle_t *)&s->again_timer};

    uv_prepare_init(s->loop, &s->prepare);
    uv_check_init(s->loop, &s->check);
    uv_idle_init(s->loop, &s->idle);
    uv_timer_init(s->loop, &s->timer);
    uv_timer_init(s->loop, &s->stop_timer);
    uv_timer_init(s->loop, &s->again_timer);
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        handles[i]->data = s;
        s->handles++;
        uv_unref(handles[i]);
    }
    uv_prepare_start(&s->prepare, on_prepare);
    uv_check_start(&s->check, on_check);
}

/* ---- beginning ---- */

int kr_http_server_new(struct uv_loop_s *loop, const struct kr_http_config *config, struct kr_http_server **ret_server,
                       struct kr_err *err)
{
    struct kr_http_server *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "http server");
    s->loop = loop;
    s->config = *config;
    s->spare_fd = -1;
    TAILQ_INIT(&s->conns);
    TAILQ_INIT(&s->soon);
    TAILQ_INIT(&s->listeners);
    for (unsigned i = 0; i < D_MAX_; i++)
        TAILQ_INIT(&s->timed[i]);
    fill_defaults(&s->config);
    r = check_headers(&s->config, err);
    if (r == 0 && getrandom(&s->id_prefix, sizeof s->id_prefix, 0) != (ssize_t)sizeof s->id_prefix)
        r = kr_err_set(err, KR_ERR_SYSTEM, EIO, "random numbers");
    if (r == 0)
        r = kr_http_router_new(config->routes, config->route_count, &s->router, err);
    if (r == 0 && (r = kr_http_peers_new(&s->peers)) < 0)
        kr_err_set(err, KR_ERR_SYSTEM, -r, "http server");
    if (r < 0) {
        kr_http_router_free(s->router);
        free(s);
        return r;
    }
    init_handles(s);
    *ret_server = s;
    return 0;
}

const struct kr_http_stats *kr_http_server_stats(const struct kr_http_server *s)
{
    return &s->stats;
}

const char *kr_http_server_date(struct kr_http_server *s)
{
    struct timespec now;
    struct tm tm;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (s->date_at != now.tv_sec) {
        s->date_at = now.tv_sec;
        gmtime_r(&now.tv_sec, &tm);
        strftime(s->date, sizeof s->date, "%a, %d %b %Y %H:%M:%S GMT", &tm); /* the program never sets a locale */
    }
    return s->date;
}

/* ---- the end ---- */

static void on_grace_over(uv_timer_t *timer)
{
    struct kr_http_server *s = timer->data;
    struct kr_http_conn *c;

    while ((c = TAILQ_FIRST(&s->conns)))
        kr_http_conn_gone(c);
}

void kr_http_server_drain(struct kr_http_server *s)
{
    s->draining = true;
}

void kr_http_server_stop(struct kr_http_server *s, unsigned grace_ms, void (*on_stopped)(void *app))
{
    struct kr_http_conn *c, *next;
    struct listener *l;

    s->on_stopped = on_stopped;
    if (!s->stopping) {
        s->stopping = true;
        uv_timer_stop(&s->again_timer);
        while ((l = TAILQ_FIRST(&s->listeners)))
            kr_http_listener_close(l);
        for (c = TAILQ_FIRST(&s->conns); c; c = next) {
            next = TAILQ_NEXT(c, all);
            if (c->state == C_HEAD && c->in_len == 0 && kr_http_out_pending(c) == 0)
                kr_http_conn_close(c);
        }
    }
    uv_update_time(s->loop);
    uv_timer_start(&s->stop_timer, on_grace_over, grace_ms, 0);
    uv_ref((uv_handle_t *)&s->stop_timer); /* on_stopped is promised, so the loop must come to it */
}

static void free_now(struct kr_http_server *s)
{
    kr_http_router_free(s->router);
    kr_http_peers_free(s->peers);
    free(s);
}

void kr_http_server_unhandle(struct kr_http_server *s)
{
    if (--s->handles == 0 && s->freed)
        free_now(s);
}

static void on_uv_closed(uv_handle_t *handle)
{
    kr_http_server_unhandle(handle->data);
}

void kr_http_server_free(struct kr_http_server *s)
{
    struct kr_http_conn *c;
    struct listener *l;

    if (!s)
        return;
    s->freed = true;
    while ((l = TAILQ_FIRST(&s->listeners)))
        kr_http_listener_close(l);
    while ((c = TAILQ_FIRST(&s->conns))) {
        if (c->ex)
            kr_http_ex_done(c->ex, false);
        kr_http_conn_close(c);
    }
    s->spare_fd = kr_fd_close(s->spare_fd);
    uv_close((uv_handle_t *)&s->prepare, on_uv_closed);
    uv_close((uv_handle_t *)&s->check, on_uv_closed);
    uv_close((uv_handle_t *)&s->idle, on_uv_closed);
    uv_close((uv_handle_t *)&s->timer, on_uv_closed);
    uv_close((uv_handle_t *)&s->stop_timer, on_uv_closed);
    uv_close((uv_handle_t *)&s->again_timer, on_uv_closed);
}

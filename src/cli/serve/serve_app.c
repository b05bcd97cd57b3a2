/* The server: HTTP, authentication, the domain and the store, in the process that the warden forked for it.
 *
 * Called by kr_warden_launch() for cmd_serve.c. Invariants: it has no privilege and, before its thread pool starts,
 * no more of the file system than it needs; the first SIGTERM or SIGINT ends it gracefully, a second one at once;
 * when the warden is gone it is gone. */
#include "pages.h"
#include "job.h"
#include "routes.h"
#include "serve.h"
#include "file_routes.h"
#include "accounts.h"
#include "checkpoint.h"
#include "clock.h"
#include "egress_client.h"
#include "exit_status.h"
#include "fd.h"
#include "guard.h"
#include "install.h"
#include "install_template.h"
#include "landlock.h"
#include "launch.h"
#include "log.h"
#include "loop.h"
#include "mcp.h"
#include "resource.h"
#include "metrics.h"
#include "notify.h"
#include "package_store.h"
#include "reply.h"
#include "server_resources.h"
#include "monitor.h"
#include "readiness.h"
#include "warden_holder.h"
#include "work.h"
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define LAST_WORDS_MS 500u /* for answers to reach their readers when all is over */
#define LARGE (256 << 10)
#define DESCRIPTORS_LEFT 4u /* of so many one is not for connections: sessions and files have theirs */

/* ---- figures ---- */

/* Their sandboxes' sessions come from the other zygotes meanwhile. */
static void look_at_templates(const struct kr_serve *s, struct kr_monitor_state *ret)
{
    for (size_t i = 0; s->said_ready && i < kr_box_preload_count(s->box); i++) {
        struct kr_box_preload p;
        char what[sizeof ret->missing[0].what];

        kr_box_preload_get(s->box, i, &p);
        snprintf(what, sizeof what, "template %.20s", p.template);
        if (p.why)
            kr_monitor_spare(ret, what, p.why);
    }
}

static void look_at_engine(void *data, struct kr_monitor_state *ret)
{
    struct kr_serve *s = data;
    struct kr_box_figures f;

    kr_box_figures(s->box, &f);
    ret->active_sessions = f.sessions;
    ret->stopping = s->stopping;
    ret->was_ready = s->said_ready;
    kr_readiness_tell(s->readiness, ret);
    for (size_t i = 0; i < kr_engine_zygote_count(s->engine); i++) {
        struct kr_engine_zygote z = kr_engine_zygote(s->engine, i);
        char what[32];

        snprintf(what, sizeof what, "zygote %s", kr_preload_names[z.preload]);
        if (z.given_up && s->said_ready)
            kr_monitor_spare(ret, what, "it could not be started; the log says why");
        else if (z.state != KR_ZYG_READY)
            kr_monitor_miss(ret, what, kr_zygote_state_names[z.state]);
    }
    look_at_templates(s, ret);
}

static void collect_figures(void *data, struct kr_metrics *m)
{
    struct kr_serve *s = data;
    struct kr_box_connection_figures connections;
    struct kr_security_figures security;
    struct kr_box_figures f;
    uint64_t sandboxes;

    kr_box_figures(s->box, &f);
    kr_box_connection_figures(s->box, &connections);
    security = kr_box_security_figures(s->box);
    kr_metrics_set(m, KR_M_SECURITY_DROPPED, KR_AT_NONE, (double)security.dropped);
    kr_metrics_set(m, KR_M_SECURITY_UNLISTED, KR_AT_NONE, (double)security.unlisted);
    kr_metrics_set(m, KR_M_CONNECTIONS_OPEN, KR_AT_NONE, s->egress ? (double)kr_egress_open(s->egress) : 0);
    kr_metrics_set(m, KR_M_CONNECTION_ROWS_DROPPED, KR_AT_NONE, (double)connections.dropped);
    kr_metrics_set(m, KR_M_CONNECTION_UNAUDITED, KR_AT_NONE, (double)connections.unaudited);
    kr_metrics_set(m, KR_M_SESSIONS, KR_AT("opening"), (double)f.opening);
    kr_metrics_set(m, KR_M_SESSIONS, KR_AT("busy"), (double)f.busy);
    kr_metrics_set(m, KR_M_SESSIONS, KR_AT("idle"), (double)(f.sessions - f.busy));
    kr_metrics_set(m, KR_M_TERMINALS, KR_AT_NONE, (double)f.terminals);
    kr_metrics_set(m, KR_M_RUNS_ACTIVE, KR_AT_NONE, (double)f.runs_active);
    kr_metrics_set(m, KR_M_RUNS_QUEUED, KR_AT_NONE, (double)f.runs_queued);
    kr_metrics_set(m, KR_M_RUNLOG_MEMORY, KR_AT_NONE, (double)f.runlogs.memory);
    kr_metrics_set(m, KR_M_RUNLOG_CUTS, KR_AT_NONE, (double)f.runlogs.cuts);
    if (kr_store_sandbox_count(s->store, &sandboxes, NULL) >= 0)
        kr_metrics_set(m, KR_M_SANDBOXES, KR_AT_NONE, (double)sandboxes);
    kr_metrics_set(m, KR_M_STORE_BYTES, KR_AT_NONE, (double)kr_store_size(s->store));
    kr_metrics_set(m, KR_M_DATA_BYTES, KR_AT_NONE, (double)f.data_bytes);
    for (size_t i = 0; i < kr_engine_zygote_count(s->engine); i++) {
        struct kr_engine_zygote z = kr_engine_zygote(s->engine, i);

        kr_metrics_set(m, KR_M_POOL_PARKED, KR_AT(kr_preload_names[z.preload]), z.parked);
        kr_metrics_set(m, KR_M_POOL_SIZE, KR_AT(kr_preload_names[z.preload]), z.pool_size);
    }
}

static bool refresh_readiness(void *data, struct kr_monitor_waiter *waiter)
{
    struct kr_serve *s = data;

    return s->stopping || kr_readiness_refresh(s->readiness, waiter);
}

static void forget_waiter(void *data, struct kr_monitor_waiter *waiter)
{
    kr_readiness_forget(((struct kr_serve *)data)->readiness, waiter);
}

static bool has_docs(void *data, unsigned tag)
{
    return kr_api_has_docs(&((struct kr_serve *)data)->api, tag);
}

/* ---- HTTP ---- */

static void write_error_body(void *app, unsigned tag, const char *path, int status, const char *text,
                             const char *request_id, struct kr_buf *out)
{
    (void)app, (void)tag;
    if (kr_mcp_engine_error(path, status, text, out))
        return;
    kr_api_engine_error(kr_api_routes, kr_api_routes_count, path, status, text, request_id, out);
}

static void on_report(void *app, const struct kr_http_report *report)
{
    kr_monitor_http(((struct kr_api *)app)->monitor, report);
}

static bool is_link(void *data, const struct kr_http_ex *ex)
{
    (void)data;
    return kr_api_is_link(ex);
}

static void audit_for_auth(void *data, const struct kr_caller *who, const char *what, const char *object,
                           const char *outcome, const char *detail)
{
    kr_box_audit(((struct kr_serve *)data)->box, who, what, object, outcome, detail);
}

/* The challenge to a refused MCP client: where tokens come from. NULL: there are keys alone. */
static const char *mcp_challenge(const struct kr_config *c)
{
    static char text[1024];
    const char *url = c->api.public_url;
    size_t len = url ? strlen(url) : 0;

    if (!c->mcp.authorization_servers.count || !url)
        return NULL;
    while (len > 0 && url[len - 1] == '/')
        len--;
    snprintf(text, sizeof text, "Bearer resource_metadata=\"%.*s/.well-known/oauth-protected-resource/mcp\"", (int)len,
             url);
    return text;
}

static int open_auth(struct kr_serve *s, struct kr_err *err)
{
    const struct kr_config *c = s->config;
    struct kr_guard_config guard = c->guard;
    struct kr_auth_config auth = c->auth;
    int r;

    guard.public_url = c->api.public_url;
    r = kr_guard_new(&guard, &s->guard, err);
    if (r < 0)
        return r;
    auth.on = c->auth_on;
    auth.loop = &s->loop;
    auth.store = s->store;
    auth.guard = s->guard;
    auth.metrics = s->metrics;
    auth.open_too = c->open_metrics ? kr_api_doc_metrics.id : NULL;
    auth.challenge = mcp_challenge(c);
    auth.is_link = is_link;
    auth.audit = audit_for_auth;
    auth.data = s;
    return kr_auth_new(&auth, &s->api.auth, err);
}

/* As many as configured, and not all the descriptors there are. */
static unsigned connections_max(const struct kr_config *c)
{
    uint64_t most = c->http.connections_max;
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && most > l.rlim_cur - l.rlim_cur / DESCRIPTORS_LEFT)
        most = l.rlim_cur - l.rlim_cur / DESCRIPTORS_LEFT;
    return (unsigned)most;
}

/* Those of the API and those of MCP as one table; GET / is MCP's, which hands on what is not for it. */
static int join_routes(struct kr_serve *s, size_t *ret_count, struct kr_err *err)
{
    size_t count = 0;

    s->routes = calloc(kr_api_routes_count + kr_mcp_routes_count, sizeof *s->routes);
    if (!s->routes)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "routes");
    for (size_t i = 0; i < kr_api_routes_count; i++)
        if (kr_api_routes[i].method != KR_HTTP_GET || strcmp(kr_api_routes[i].pattern, "/") != 0)
            s->routes[count++] = kr_api_routes[i];
    memcpy(s->routes + count, kr_mcp_routes, kr_mcp_routes_count * sizeof *s->routes);
    *ret_count = count + kr_mcp_routes_count;
    return 0;
}

static int open_http(struct kr_serve *s, struct kr_err *err)
{
    const struct kr_config *c = s->config;
    struct kr_http_config http = c->http;
    int r = join_routes(s, &http.route_count, err);

    http.routes = s->routes;
    http.app = &s->api;
    http.gate = kr_api_gate;
    http.error_body = write_error_body;
    http.on_report = on_report;
    http.connections_max = connections_max(c);
    if (http.per_address_max == 0) /* no bound of its own, as the setting says; to the engine 0 is its default */
        http.per_address_max = http.connections_max;
    if (r >= 0)
        r = kr_http_server_new(&s->loop, &http, &s->http, err);
    for (size_t i = 0; r >= 0 && i < c->listener_count; i++) {
        r = kr_http_server_listen(s->http, s->sockets[i], (unsigned)c->listeners[i].dialect, err);
        if (r >= 0)
            s->sockets[i] = -1;
    }
    s->api.server = s->http;
    return r;
}

static int open_box(struct kr_serve *s, struct kr_err *err)
{
    static const char *mounts[KR_MOUNTS_MAX], *templates[KR_CONFIG_TEMPLATE_ZYGOTES_MAX];
    const struct kr_config *c = s->config;
    struct kr_box_config box = c->box;

    box.store = s->store;
    box.data = c->data;
    box.egress = s->warden.egress ? s->egress : NULL;
    box.ca_bundle = s->ca_bundle;
    box.workspace = s->workspace;
    box.is_plain_shelf = s->warden.shelf.choice == KR_SHELF_FOLDER;
    box.image_dev = (uint64_t)s->image.st_dev;
    box.image_ino = (uint64_t)s->image.st_ino;
    box.profiles = c->profiles;
    box.dialect = (enum kr_dialect)c->dialect;
    box.preload = s->warden.zygotes[kr_engine_zygote_count(s->engine) - 1].preload;
    box.preload_templates = templates;
    box.preload_count = s->warden.zygote_count - kr_engine_zygote_count(s->engine);
    for (size_t i = 0; i < box.preload_count; i++)
        templates[i] = c->preloads[i].template;
    box.python = kr_serve_python_facts(s);
    box.mounts = mounts;
    box.mount_count = c->mounts.count;
    for (size_t i = 0; i < c->mounts.count; i++)
        mounts[i] = c->mounts.items[i].name;
    return kr_box_new(&s->loop, s->engine, &box, &kr_serve_box_calls, s, &s->box, err);
}

/* The warden's table by the number of the bit. */
static const char *const *layer_names(void)
{
    static const char *names[32];

    for (size_t i = 0; i < kr_layer_rows_count; i++)
        if (kr_layer_rows[i].bit != KR_LAYER_PROC) /* known of each cell alone */
            names[__builtin_ctz(kr_layer_rows[i].bit)] = kr_layer_rows[i].name;
    return names;
}

static int open_jobs(struct kr_serve *s, struct kr_err *err)
{
    const struct kr_jobs_config config = {
        .store = s->store, .logs = kr_box_runlogs(s->box), .retention_ms = kr_box_config(s->box)->retention_ms};

    return kr_jobs_new(&s->loop, &config, &s->api.jobs, err);
}

static struct kr_install_config install_config(const struct kr_serve *s)
{
    struct kr_install_config config = s->config->install;

    config.store = s->store;
    config.jobs = s->api.jobs;
    config.box = s->box;
    config.egress = s->warden.egress ? s->egress : NULL;
    config.packages = s->packages;
    config.metrics = s->metrics;
    config.python = kr_serve_python_facts(s);
    config.resolver = kr_cli_carried("resolve.py");
    config.builder = kr_cli_carried("build.py");
    config.compiler = kr_cli_carried("bytecode.py");
    config.index = s->config->egress.index_url;
    config.blocked = s->config->blocked_packages;
    return config;
}

static void fill_api(struct kr_serve *s)
{
    const struct kr_config *c = s->config;

    s->api.loop = &s->loop;
    s->api.box = s->box;
    s->api.store = s->store;
    s->api.metrics = s->metrics;
    s->api.monitor = s->watch;
    s->api.started_ns = kr_clock_ns();
    s->api.config = c->api;
    s->api.config.version = KR_VERSION;
    s->api.config.auth = c->auth_on;
    s->api.config.profiles = c->profiles;
    s->api.config.level_names = kr_level_names;
    s->api.config.layer_names = layer_names();
    s->api.config.layer_count = 32;
}

static int open_mcp(struct kr_serve *s, struct kr_err *err)
{
    struct kr_mcp_config mcp = s->config->mcp;

    mcp.version = KR_VERSION;
    mcp.dialect = (enum kr_dialect)s->config->dialect;
    mcp.workspace = s->workspace;
    return kr_mcp_new(&s->api, &mcp, &s->mcp, err);
}

static void on_watchdog(void *data)
{
    struct kr_serve *s = data;

    (void)kr_notify_watchdog();
    kr_timer_arm(s->watchdog, kr_notify_watchdog_ms());
}

/* ---- the engine's news ---- */

static void say_where(const struct kr_serve *s)
{
    const struct kr_config_listener *l = &s->config->listeners[0];
    bool v6 = strchr(l->address, ':') != NULL;
    char url[80];

    snprintf(url, sizeof url, "http://%s%s%s:%u", v6 ? "[" : "", l->address, v6 ? "]" : "", s->ports[0]);
    printf("krait is ready: %s/\n", url);
    printf("  page and API    %s/  %s/docs\n", url, url);
    kr_setup_hint(stdout, url);
    if (s->config->sse)
        printf("  MCP over SSE    %s/sse\n", url);
    printf("  try             curl -s %s/api/v1/runs -d '{\"code\": \"print(6 * 7)\", \"stream\": false}'%s\n", url,
           s->config->auth_on ? " -H \"Authorization: Bearer $API_KEY\"" : "");
    if (!s->config->auth_on)
        printf("  every user of this machine may use it; `krait serve --help` shows how to ask for a key\n");
    fflush(stdout);
}

/* No preload came, and none will by waiting: the warden has tried each twice. */
static void fail_start(struct kr_serve *s, const struct kr_holder_zygote *zygote)
{
    const char *name = kr_preload_names[kr_engine_zygote(s->engine, zygote->zygote).preload];
    struct kr_err err = zygote->err;

    kr_err_wrap(&err, 0, "the %s zygote cannot start (--python, --preload)", name);
    (void)kr_cli_fail("serve", &err);
    s->status = KR_EXIT_OURS;
    kr_serve_stop(s, 0);
}

/* Sandboxes that choose no preload get one that is there. */
static void do_without(struct kr_serve *s)
{
    const struct kr_box_config *box = kr_box_config(s->box);
    enum kr_preload lost[KR_PRELOAD_MAX_], there = box->preload;
    size_t count = 0;
    bool is_lost = false;

    for (size_t i = 0; i < kr_engine_zygote_count(s->engine); i++) {
        struct kr_engine_zygote z = kr_engine_zygote(s->engine, i);

        if (z.given_up && count < KR_PRELOAD_MAX_)
            lost[count++] = z.preload;
        else if (z.state == KR_ZYG_READY)
            there = z.preload;
        is_lost |= z.given_up && z.preload == box->preload;
    }
    if (is_lost)
        kr_box_set_preload(s->box, there);
    for (size_t i = 0; i < count; i++)
        kr_log(KR_LOG_ERROR, "serving without a preload that could not be started", "preload=%s default=%s",
               kr_preload_names[lost[i]], kr_preload_names[box->preload]);
}

/* How many zygotes are ready, and how many may still become so. */
static void count_zygotes(const struct kr_serve *s, unsigned *ret_ready, unsigned *ret_coming)
{
    *ret_ready = *ret_coming = 0;
    for (size_t i = 0; i < kr_engine_zygote_count(s->engine); i++) {
        struct kr_engine_zygote z = kr_engine_zygote(s->engine, i);

        *ret_ready += z.state == KR_ZYG_READY;
        *ret_coming += z.state != KR_ZYG_READY && !z.given_up;
    }
}

/* That of the settings, once there are sessions to build it with. */
static void begin_template(struct kr_serve *s)
{
    const struct kr_install_template_config *c = &s->config->template;
    struct kr_err err;

    if (c->requirements.count > 0 &&
        kr_install_template_new(&s->loop, s->api.install, s->box, s->metrics, c, &s->template, &err) < 0)
        kr_log(KR_LOG_ERROR, "template not built", "error=\"%s\"", err.msg);
}

static void on_zygote_news(void *data, const struct kr_holder_zygote *zygote)
{
    struct kr_serve *s = data;
    unsigned ready, coming;

    if (zygote->state == KR_ZYG_ENDED || zygote->state == KR_ZYG_FAILED)
        kr_metrics_inc(s->metrics, KR_M_ZYGOTE_RESTARTS,
                       KR_AT(kr_preload_names[kr_engine_zygote(s->engine, zygote->zygote).preload]));
    if (s->said_ready || !s->box || s->stdio)
        return;
    count_zygotes(s, &ready, &coming);
    if (coming > 0)
        return;
    if (ready == 0) {
        fail_start(s, zygote);
        return;
    }
    do_without(s);
    s->said_ready = true;
    begin_template(s);
    if (kr_box_preloads_begin(s->box) < 0)
        kr_log(KR_LOG_ERROR, "templates not preloaded", "error=\"out of memory\"");
    (void)kr_notify_ready();
    say_where(s);
}

/* Every run has ended as `lost` by now; its readers still get that end. */
static void on_warden_gone(void *data, const struct kr_err *err)
{
    struct kr_serve *s = data;

    if (!s->stopping) {
        kr_log(KR_LOG_ERROR, "the warden is gone", "error=\"%s\"", err->msg);
        s->status = 1;
    }
    kr_serve_stop(s, 0);
}

static void on_server_egress(void *data, int fd)
{
    struct kr_serve *s = data;
    int r = kr_egress_connect(s->egress, fd);

    if (r < 0)
        kr_log(KR_LOG_ERROR, "egress process not joined", "errno=%d", -r);
    else
        kr_log(KR_LOG_INFO, "egress process joined", NULL);
}

static void on_engine_stopped(void *data)
{
    uv_stop(&((struct kr_serve *)data)->loop);
}

/* ---- stop ---- */

static void stop_engine(struct kr_serve *s)
{
    if (s->http_stopped && s->box_stopped)
        kr_engine_stop(s->engine);
}

static void on_http_stopped(void *app)
{
    struct kr_serve *s = (struct kr_serve *)((char *)app - offsetof(struct kr_serve, api));

    s->http_stopped = true;
    stop_engine(s);
}

static void on_box_stopped(void *data)
{
    struct kr_serve *s = data;

    s->box_stopped = true;
    kr_http_server_stop(s->http, LAST_WORDS_MS, on_http_stopped); /* answers that wait for their runs have them now */
    stop_engine(s);
}

static void on_drain_over(void *data)
{
    struct kr_serve *s = data;

    if (!s->box_stopped)
        kr_http_server_stop(s->http, 2 * LAST_WORDS_MS, on_http_stopped);
}

void kr_serve_stop(struct kr_serve *s, uint64_t grace_ms)
{
    s->stopping = true;
    kr_serve_mcp_stop(s);
    kr_mcp_stop(s->mcp);
    /* Until the runs have ended connections are accepted and answered: /ready says that the server stops, readers of
     * runs get their ends, and what would start something is refused with 503. */
    kr_http_server_drain(s->http);
    kr_timer_arm(s->drained, grace_ms); /* what keeps coming cannot keep the server */
    if (s->box_stopped)
        return;
    kr_box_stop(s->box, grace_ms, on_box_stopped, s);
}

static void on_server_signal(uv_signal_t *handle, int signo)
{
    struct kr_serve *s = handle->data;

    if (signo == SIGHUP) { /* settings come from the warden's side (serve_reload.c): we reach no file of them */
        int r = kr_log_reopen();

        kr_log(r < 0 ? KR_LOG_ERROR : KR_LOG_INFO, "log files opened anew", "errno=%d", r < 0 ? -r : 0);
        return;
    }
    if (s->asked_to_stop++ > 0) { /* again: at once; once more: whatever is left */
        kr_serve_stop(s, 0);
        if (s->asked_to_stop > 2) {
            kr_http_server_stop(s->http, 0, on_http_stopped);
            kr_engine_stop(s->engine);
        }
        return;
    }
    kr_log(KR_LOG_INFO, "stopping", "signal=%d grace_ms=%llu", signo, (unsigned long long)s->config->stop_timeout_ms);
    (void)kr_notify_stopping();
    kr_serve_stop(s, s->stdio ? 0 : s->config->stop_timeout_ms); /* one client, and it asked for the end */
}

/* ---- life ---- */

static int watch_server_signals(struct kr_serve *s)
{
    static const int numbers[3] = {SIGTERM, SIGINT, SIGHUP};

    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < 3; i++) {
        s->signals[i].data = s;
        if (uv_signal_init(&s->loop, &s->signals[i]) < 0 ||
            uv_signal_start(&s->signals[i], on_server_signal, numbers[i]) < 0)
            return -ENOMEM;
        uv_unref((uv_handle_t *)&s->signals[i]);
    }
    return 0;
}

/* Before: the server's user reaches whatever that user may. After: its data, upload_roots, the libraries of the
 * system and the kernel's figures to read, and nothing else, for all threads it will ever have; it can run no
 * program, reach no other server and signal no process, and makes the system calls of its own table alone. A kernel
 * without Landlock is logged. */
static int confine_server(const struct kr_serve *s, struct kr_err *err)
{
    const struct kr_landlock_path usual[] = {
        {"/usr", KR_LL_READ},
        {"/lib", KR_LL_READ | KR_LL_MAY_MISS},
        {"/lib64", KR_LL_READ | KR_LL_MAY_MISS},
        {"/proc", KR_LL_READ}, /* of other processes only what every user may see */
        {"/sys", KR_LL_READ | KR_LL_MAY_MISS},
        {"/dev/null", KR_LL_READ | KR_LL_WRITE_FILE},
        {"/dev/urandom", KR_LL_READ},
        {s->config->data, KR_LL_READ | KR_LL_WRITE},
        {s->config->log_dir ? s->config->log_dir : s->config->data, KR_LL_READ | KR_LL_WRITE},
        {s->workspace ? s->workspace : s->config->data, KR_LL_READ | KR_LL_WRITE},
        /* `krait mcp` has one client, who started it and may have any file of his uploaded by its path. */
        {s->stdio ? "/" : s->config->data, KR_LL_READ}};
    const size_t count = sizeof usual / sizeof *usual, roots = s->config->mcp.upload_roots.count;
    cleanup_free struct kr_landlock_path *paths = calloc(count + roots, sizeof *paths);

    if (!paths)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "confine the server");
    memcpy(paths, usual, sizeof usual);
    for (size_t i = 0; i < roots; i++)
        paths[count + i] = (struct kr_landlock_path){s->config->mcp.upload_roots.items[i], KR_LL_READ | KR_LL_MAY_MISS};
    /* No TCP of its own either: its sockets are bound, and what they accept Landlock does not look at. */
    return kr_cli_confine(paths, count + roots, err);
}

static int open_server_engine(struct kr_serve *s, int control, struct kr_err *err)
{
    static const struct kr_engine_calls calls = {.on_zygote = on_zygote_news,
                                                 .on_gone = on_warden_gone,
                                                 .on_stopped = on_engine_stopped,
                                                 .on_egress = on_server_egress};
    struct kr_engine_config engine = s->config->engine;
    struct kr_holder *holder;
    int r;

    engine.egress = s->warden.egress != NULL;
    engine.shelf = s->shelf;
    engine.lazy = s->stdio;
    for (size_t i = 0; i < s->warden.zygote_count; i++)
        if (s->warden.zygotes[i].preload == KR_PRELOAD_TEMPLATE)
            engine.template_count++;
        else
            engine.preloads[engine.zygote_count++] = s->warden.zygotes[i].preload;
    if (s->workspace)
        engine.workspaces[engine.workspace_count++].path = s->workspace;
    r = kr_egress_new(&s->loop, &s->egress);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "the client of the egress process");
    r = kr_serve_setup_egress(s, err);
    if (r < 0)
        return r;
    r = kr_warden_holder_new(&s->loop, control, &holder);
    if (r >= 0)
        r = kr_engine_new(&s->loop, holder, &engine, &calls, s, &s->engine);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "the engine") : 0;
}

/* Metrics, the figures of the machine, and what /health and /metrics say of them. */
static int open_monitor(struct kr_serve *s, struct kr_err *err)
{
    struct kr_monitor_config watch = {.name = "krait",
                                      .version = KR_VERSION,
                                      .started_ns = kr_clock_ns(),
                                      .api_endpoint = "/api/v1",
                                      .mcp_endpoint = KR_API_MCP_ENDPOINT,
                                      .look = look_at_engine,
                                      .refresh = refresh_readiness,
                                      .forget = forget_waiter,
                                      .collect = collect_figures,
                                      .has_docs = has_docs,
                                      .data = s};

    if (kr_metrics_new(&s->metrics) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "metrics");
    watch.metrics = s->metrics;
    if (kr_resources_new("", s->config->data, &s->resources) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "resources");
    watch.resources = s->resources;
    if (kr_monitor_new(&watch, &s->watch) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "watch");
    return 0;
}

/* What the voices need before the HTTP server accepts connections. */
static int open_api(struct kr_serve *s, struct kr_err *err)
{
    struct kr_install_config install;
    int r;

    fill_api(s);
    if ((r = open_jobs(s, err)) < 0)
        return r;
    install = install_config(s);
    kr_engine_installs(s->engine, install.enabled && install.egress, &s->config->blocked_packages);
    if ((r = kr_install_new(&s->loop, &install, &s->api.install, err)) < 0 || (r = open_auth(s, err)) < 0 ||
        (r = kr_accounts_new(&s->api, err)) < 0)
        return r;
    return kr_api_files_new(&s->api, err);
}

static int open_server(struct kr_serve *s, int control, struct kr_err *err)
{
    int r;

    if (s->config->log_dir && !s->stdio && (r = kr_log_open(s->config->log_dir, err)) < 0)
        return r;
    if (!s->stdio)
        (void)kr_notify_open();
    kr_serve_read_certificates(s);
    if ((r = kr_serve_mcp_bind(s, err)) < 0 || (r = confine_server(s, err)) < 0 ||
        (r = kr_store_open(s->config->data, KR_STORE_CREATE, &s->store, err)) < 0)
        return r;
    if (kr_checkpoint_new(&s->loop, s->store, &s->checkpoint) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "checkpoints");
    if ((r = open_monitor(s, err)) < 0 || (r = open_server_engine(s, control, err)) < 0)
        return r;
    if (kr_readiness_new(&s->loop, s->engine, s->store, s->warden.shelf.choice != KR_SHELF_FOLDER, &s->readiness) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "readiness");
    if ((r = kr_serve_open_packages(s, err)) < 0 || (r = open_box(s, err)) < 0 || (r = open_api(s, err)) < 0)
        return r;
    if (kr_notify_watchdog_ms() > 0 && kr_timer_new(&s->loop, on_watchdog, s, &s->watchdog) >= 0)
        on_watchdog(s);
    if (kr_timer_new(&s->loop, on_drain_over, s, &s->drained) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the end of the server");
    if ((r = open_mcp(s, err)) < 0 || (r = open_http(s, err)) < 0)
        return r;
    if ((r = kr_serve_mcp_open(s, err)) < 0 || (r = kr_serve_reload_open(s, err)) < 0)
        return r;
    r = kr_jobs_resume(s->api.jobs, err);
    return r < 0 ? r : 0;
}

static void close_server(struct kr_serve *s)
{
    kr_watch_close(s->reload);
    kr_timer_close(s->watchdog);
    kr_timer_close(s->drained);
    kr_checkpoint_close(s->checkpoint);
    kr_http_server_free(s->http);
    kr_serve_mcp_close(s);
    kr_mcp_free(s->mcp);
    s->mcp = NULL; /* runs that end with the box are not reported any more */
    kr_install_template_close(s->template);
    kr_jobs_close(s->api.jobs);
    kr_install_free(s->api.install);
    s->api.install = NULL;
    if (s->api.files)
        kr_api_files_free(&s->api);
    if (s->api.accounts)
        kr_accounts_close(&s->api);
    kr_api_pages_free(&s->api);
    kr_auth_free(s->api.auth);
    kr_guard_free(s->guard);
    kr_box_free(s->box);
    kr_package_store_free(s->packages);
    kr_readiness_close(s->readiness);
    s->readiness = NULL;
    if (s->engine)
        kr_engine_free(s->engine);
    kr_egress_free(s->egress);
    kr_monitor_free(s->watch);
    kr_resources_free(s->resources);
    kr_metrics_free(s->metrics);
    uv_run(&s->loop, UV_RUN_NOWAIT);
    free(s->routes);
    kr_store_close(s->store);
    free(s->ca_bundle);
    kr_log_close();
}

int kr_serve_main(int control, void *arg)
{
    struct kr_serve *s = arg;
    struct kr_err err;
    int r;

    /* What is large is mapped: it grows without being copied, and goes back when it is freed. The C library would
     * learn from the first large one that is freed to do neither. */
    (void)mallopt(M_MMAP_THRESHOLD, LARGE);
    kr_log_set_who("server");
    kr_serve_no_core();
    kr_log_set_time(true);
    (void)setenv("UV_THREADPOOL_SIZE", KR_WORK_THREADS, 0); /* libuv reads it when the first work is started */
    if (uv_loop_init(&s->loop) < 0 || watch_server_signals(s) < 0)
        return KR_EXIT_OURS;
    r = open_server(s, control, &err);
    if (r < 0) {
        s->status = kr_cli_fail(s->stdio ? "mcp" : "serve", &err);
    } else if (s->stdio) {
        uv_run(&s->loop, UV_RUN_DEFAULT);
    } else {
        kr_log(KR_LOG_INFO, "listening", "port=%u data=%s auth=%s", s->ports[0], s->config->data,
               s->config->auth_on ? "on" : "off");
        uv_run(&s->loop, UV_RUN_DEFAULT);
    }
    close_server(s);
    return s->status;
}

/* Events as metrics and log lines.
 *
 * Called by the domain and the HTTP server through `krait serve`. Invariant: one event is reported once, so that the
 * metrics, the document's own names and the log never disagree; a line has at most 100 characters of code, and ids,
 * never keys or values of variables. */
#include "monitor.h"
#include "http.h"
#include "log.h"
#include "metrics.h"
#include "server_resources.h"
#include "monitor_internal.h"
#include "security.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kr_monitor_new(const struct kr_monitor_config *config, struct kr_monitor **ret_watch)
{
    struct kr_monitor *w = calloc(1, sizeof *w);

    if (!w)
        return -ENOMEM;
    w->config = *config;
    *ret_watch = w;
    return 0;
}

void kr_monitor_free(struct kr_monitor *w)
{
    free(w);
}

void kr_monitor_miss(struct kr_monitor_state *s, const char *what, const char *why)
{
    if (s->missing_count == KR_MONITOR_MISSING_MAX)
        return;
    snprintf(s->missing[s->missing_count].what, sizeof s->missing[0].what, "%s", what);
    snprintf(s->missing[s->missing_count].why, sizeof s->missing[0].why, "%s", why);
    s->missing_count++;
}

void kr_monitor_spare(struct kr_monitor_state *s, const char *what, const char *why)
{
    unsigned before = s->missing_count;

    kr_monitor_miss(s, what, why);
    s->spared_count += s->missing_count - before;
}

bool kr_monitor_is_ready(const struct kr_monitor_state *s)
{
    return !s->stopping && s->missing_count == s->spared_count;
}

static struct kr_metrics *metrics_of(const struct kr_monitor *w)
{
    return w ? w->config.metrics : NULL;
}

static double seconds_of(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* ---- runs, sessions, packages ---- */

#define RUN_FIELDS(r)                                                                                                  \
    KR_F_STR("run", (r)->run), KR_F_STR("session", (r)->session), KR_F_STR("sandbox", (r)->sandbox),                   \
        KR_F_STR("user", (r)->user), KR_F_STR((r)->request && (r)->request[0] ? "request" : NULL, (r)->request)

void kr_monitor_run_started(struct kr_monitor *w, const struct kr_monitor_run *run, const char *code, size_t len,
                            uint64_t waited_ns)
{
    if (!w)
        return;
    if (waited_ns > 0)
        kr_metrics_observe(metrics_of(w), KR_M_RUN_WAIT_SECONDS, KR_AT_NONE, seconds_of(waited_ns));
    kr_log_with(KR_LOG_INFO, "run started", RUN_FIELDS(run), KR_F_CODE("code", code, len));
}

void kr_monitor_run_ended(struct kr_monitor *w, const struct kr_monitor_run *run, const char *cause, uint64_t wall_ns)
{
    struct kr_metrics *m = metrics_of(w);
    bool ok = strcmp(cause, "ok") == 0, timeout = strcmp(cause, "timeout") == 0;
    double seconds = seconds_of(wall_ns);

    if (!w)
        return;
    kr_metrics_inc(m, KR_M_EXECUTIONS, KR_AT(ok ? "success" : "error"));
    kr_metrics_observe(m, KR_M_EXECUTION_SECONDS, KR_AT_NONE, seconds);
    kr_metrics_inc(m, KR_M_RUNS, KR_AT(cause));
    kr_metrics_observe(m, KR_M_RUN_SECONDS, KR_AT(cause), seconds);
    if (!ok)
        kr_metrics_inc(m, KR_M_ERRORS, KR_AT(cause));
    kr_log_with(timeout && run->timeout_is_error ? KR_LOG_ERROR : KR_LOG_INFO, timeout ? "run timed out" : "run ended",
                RUN_FIELDS(run), KR_F_STR("cause", cause), KR_F_REAL("seconds", seconds));
}

void kr_monitor_run_refused(struct kr_monitor *w, const struct kr_monitor_run *run, const struct kr_err *err)
{
    const struct kr_err_row *row = kr_err_row((enum kr_err_kind)err->kind);

    if (!w)
        return;
    kr_metrics_inc(metrics_of(w), KR_M_RUNS_REFUSED, KR_AT(row->name));
    kr_metrics_inc(metrics_of(w), KR_M_ERRORS,
                   KR_AT(row->http_status >= 500 && !row->text_is_public ? "internal" : "refused"));
    kr_log_with(row->text_is_public ? KR_LOG_INFO : KR_LOG_ERROR, "run refused", RUN_FIELDS(run),
                KR_F_STR("kind", row->name), KR_F_STR("error", err->msg));
}

void kr_monitor_session_opened(struct kr_monitor *w, bool pooled, uint64_t ns)
{
    const char *how = pooled ? "pool" : "new";

    kr_metrics_inc(metrics_of(w), KR_M_SESSIONS_OPENED, KR_AT(how));
    kr_metrics_observe(metrics_of(w), KR_M_SESSION_OPEN_SECONDS, KR_AT(how), seconds_of(ns));
    kr_log_with(KR_LOG_DEBUG, "session opened", KR_F_STR("from", how), KR_F_UINT("us", ns / 1000));
}

void kr_monitor_session_ended(struct kr_monitor *w, const char *why)
{
    kr_metrics_inc(metrics_of(w), KR_M_SESSIONS_ENDED, KR_AT(why));
}

void kr_monitor_connection(struct kr_monitor *w, const char *how, const char *verdict, uint64_t ms, uint64_t sent,
                           uint64_t received)
{
    struct kr_metrics *m = metrics_of(w);

    kr_metrics_inc(m, KR_M_CONNECTIONS, KR_AT(how, verdict));
    kr_metrics_observe(m, KR_M_CONNECTION_SECONDS, KR_AT(how), (double)ms / 1e3);
    kr_metrics_add(m, KR_M_CONNECTION_BYTES, KR_AT("sent"), (double)sent);
    kr_metrics_add(m, KR_M_CONNECTION_BYTES, KR_AT("received"), (double)received);
}

void kr_monitor_security(struct kr_monitor *w, const struct kr_security_event *e, bool is_told)
{
    const char *kind = kr_security_kinds[e->kind];

    kr_metrics_add(metrics_of(w), KR_M_SECURITY_EVENTS, KR_AT(kind), (double)e->count);
    if (!w || !is_told || e->kind == KR_SECURITY_EGRESS)
        return;
    kr_log_with(KR_LOG_INFO, "security event", KR_F_STR("kind", kind), KR_F_STR("rule", e->rule),
                KR_F_STR("run", e->run), KR_F_STR("sandbox", e->sandbox), KR_F_STR("user", e->user),
                KR_F_UINT(e->line ? "line" : NULL, e->line), KR_F_STR("text", e->text));
}

void kr_monitor_package(struct kr_monitor *w, const char *package, const char *result)
{
    bool blocked = strcmp(result, "blocked") == 0;

    if (!w)
        return;
    kr_metrics_inc(metrics_of(w), KR_M_PACKAGE_INSTALLS, KR_AT(result));
    if (blocked)
        kr_metrics_inc(metrics_of(w), KR_M_ERRORS, KR_AT("blocked_package"));
    kr_log_with(blocked ? KR_LOG_WARN : KR_LOG_INFO, blocked ? "blocked package" : "package install",
                KR_F_STR("package", package), KR_F_STR("result", result));
}

/* ---- HTTP ---- */

/* Requests that come by the clock and tell nothing. */
static bool is_probe(const char *pattern)
{
    static const char *const patterns[] = {"/health", "/ready", "/metrics", "/api/v1/health",
                                           "/ai/sandbox/v1/api/health"};

    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(pattern, patterns[i]) == 0)
            return true;
    return false;
}

void kr_monitor_http(struct kr_monitor *w, const struct kr_http_report *report)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    const char *pattern = report->route ? report->route->pattern : "none";
    int class = report->status / 100;

    if (!w)
        return;
    kr_metrics_inc(metrics_of(w), KR_M_HTTP_REQUESTS,
                   KR_AT(pattern, report->method, classes[class >= 1 && class <= 5 ? class : 0]));
    kr_metrics_observe(metrics_of(w), KR_M_HTTP_SECONDS, KR_AT(pattern), seconds_of(report->wall_ns));
    kr_log_with(is_probe(pattern) ? KR_LOG_DEBUG : KR_LOG_INFO, "request",
                KR_F_STR(report->request_id[0] ? "request" : NULL, report->request_id),
                KR_F_STR(report->method[0] ? "method" : NULL, report->method),
                KR_F_STR(report->path[0] ? "path" : NULL, report->path), KR_F_INT("status", report->status),
                KR_F_UINT("us", report->wall_ns / 1000), KR_F_UINT("in", report->bytes_in),
                KR_F_UINT("out", report->bytes_out), KR_F_STR(report->complete ? NULL : "cut", "yes"));
}

static void collect_http(struct kr_metrics *m, const struct kr_http_stats *s)
{
    kr_metrics_set(m, KR_M_HTTP_CONNECTIONS, KR_AT_NONE, (double)s->connections);
    kr_metrics_set(m, KR_M_HTTP_CONNECTIONS_TOTAL, KR_AT_NONE, (double)s->connections_total);
    kr_metrics_set(m, KR_M_HTTP_REFUSED, KR_AT_NONE, (double)s->refused_total);
    kr_metrics_set(m, KR_M_HTTP_MALFORMED, KR_AT_NONE, (double)s->malformed_total);
    kr_metrics_set(m, KR_M_HTTP_TIMEOUTS, KR_AT_NONE, (double)s->timeouts_total);
    kr_metrics_set(m, KR_M_HTTP_GONE, KR_AT_NONE, (double)s->gone_total);
    kr_metrics_set(m, KR_M_HTTP_UNSENT, KR_AT_NONE, (double)s->unsent_bytes);
    kr_metrics_set(m, KR_M_HTTP_CUT, KR_AT_NONE, (double)s->cut_total);
    kr_metrics_set(m, KR_M_HTTP_BYTES, KR_AT("in"), (double)s->bytes_in_total);
    kr_metrics_set(m, KR_M_HTTP_BYTES, KR_AT("out"), (double)s->bytes_out_total);
}

void kr_monitor_collect(struct kr_monitor *w, const struct kr_http_stats *http)
{
    struct kr_metrics *m = metrics_of(w);
    const struct kr_resources *r;
    struct kr_log_figures log = kr_log_figures();
    struct kr_monitor_state state = {0};

    if (!m)
        return;
    kr_metrics_look_at_process(m);
    kr_metrics_set(m, KR_M_LOG_DROPPED, KR_AT("burst"), (double)log.dropped_burst);
    kr_metrics_set(m, KR_M_LOG_DROPPED, KR_AT("stderr"), (double)log.dropped_stderr);
    kr_metrics_set(m, KR_M_LOG_DROPPED, KR_AT("file"), (double)log.dropped_file);
    r = kr_resources_read(w->config.resources);
    if (r->memory.used != KR_RESOURCES_UNKNOWN)
        kr_metrics_set(m, KR_M_SANDBOX_MEMORY, KR_AT_NONE, (double)r->memory.used);
    if (w->config.refresh)
        (void)w->config.refresh(w->config.data, NULL); /* for the next scrape */
    w->config.look(w->config.data, &state);
    kr_metrics_set(m, KR_M_READY, KR_AT_NONE, kr_monitor_is_ready(&state));
    if (http)
        collect_http(m, http);
    if (w->config.collect)
        w->config.collect(w->config.data, m);
}

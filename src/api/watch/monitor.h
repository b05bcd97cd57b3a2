/* Watching the server: what its events are in the metrics and in the log, and the answers of /health, /ready and
 * /metrics.
 *
 * The program owns one struct kr_monitor (kr_api.watch) and tells it what happens, in plain values; what it cannot
 * know it asks through the calls of its config. Loop thread only. docs/design/watching.md has the names of all of
 * it. */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct kr_api_doc;
struct kr_buf;
struct kr_http_ex;
struct kr_http_report;
struct kr_http_stats;
struct kr_metrics;
struct kr_resources_reader;
struct kr_security_event;
struct kr_monitor;

#define KR_MONITOR_MISSING_MAX 8u

/* What the program is at, asked for each /health and /ready. Filled from zeroes. */
struct kr_monitor_state {
    uint64_t active_sessions; /* live ones, the pool's apart */
    bool stopping;
    bool was_ready; /* once: what is missing now has failed and is not on its way */
    unsigned missing_count;
    unsigned spared_count; /* of them, what runs can do without; all are, and not stopping: ready */
    struct {
        char what[32]; /* "zygote data" */
        char why[96];  /* "starting" */
    } missing[KR_MONITOR_MISSING_MAX];
};
/* Adds to `missing`; does nothing if the list is full. */
void kr_monitor_miss(struct kr_monitor_state *s, const char *what, const char *why);
/* The same for something without which runs are taken. */
void kr_monitor_spare(struct kr_monitor_state *s, const char *what, const char *why);
/* Are runs taken? */
bool kr_monitor_is_ready(const struct kr_monitor_state *s);

/* Waits for a look at what runs need; in the memory of who waits, which may take it out of the list. */
struct kr_monitor_waiter {
    TAILQ_ENTRY(kr_monitor_waiter) link;
    void (*fn)(struct kr_monitor_waiter *w); /* it is out of the list by then */
};

/* Strings and pointers are borrowed for as long as the watch is there. */
struct kr_monitor_config {
    const char *name, *version;
    uint64_t started_ns;                   /* kr_clock_ns() of the start */
    struct kr_metrics *metrics;            /* may be NULL */
    struct kr_resources_reader *resources; /* may be NULL */
    const char *api_endpoint;              /* "/api/v1" */
    const char *mcp_endpoint;              /* NULL: there is none */
    void (*look)(void *data, struct kr_monitor_state *ret);
    /* Looks at what runs need, unless that was done a moment ago. True: `look` is up to date. False: it will be when
     * the waiter (may be NULL) is called. May be NULL: nothing has to be looked at. */
    bool (*refresh)(void *data, struct kr_monitor_waiter *waiter);
    /* The waiter is not called any more. NULL with refresh. */
    void (*forget)(void *data, struct kr_monitor_waiter *waiter);
    /* Sets the gauges and totals that only the program knows (sessions, pool, queue, store), before they are printed.
     * May be NULL. */
    void (*collect)(void *data, struct kr_metrics *m);
    /* Is /docs served on listeners of this tag? NULL: yes. */
    bool (*has_docs)(void *data, unsigned tag);
    void *data;
};

/* 0 or -ENOMEM. */
int kr_monitor_new(const struct kr_monitor_config *config, struct kr_monitor **ret_watch);
void kr_monitor_free(struct kr_monitor *w);

/* ---- what happens; each takes a NULL watch ---- */

/* Who and where, for the log; any may be NULL and is left out then. */
struct kr_monitor_run {
    const char *run, *session, *sandbox, *user, *request;
    bool timeout_is_error; /* struct kr_dialect_row */
};
/* A run starts: a line at info, with the first 100 characters of its code unless that is NULL. waited_ns is the time
 * since it was asked for; 0: not known, and not counted. */
void kr_monitor_run_started(struct kr_monitor *w, const struct kr_monitor_run *run, const char *code, size_t len,
                            uint64_t waited_ns);
/* It ended: metrics, and a line with the seconds. `cause` is its word (kr_cause_rows). */
void kr_monitor_run_ended(struct kr_monitor *w, const struct kr_monitor_run *run, const char *cause, uint64_t wall_ns);
/* A request for a run became none. */
void kr_monitor_run_refused(struct kr_monitor *w, const struct kr_monitor_run *run, const struct kr_err *err);
void kr_monitor_session_opened(struct kr_monitor *w, bool pooled, uint64_t ns);
/* `why` is a word of krait_sessions_ended_total: asked, idle, evicted, reset, died, stopping. */
void kr_monitor_session_ended(struct kr_monitor *w, const char *why);
/* A connection to the outside ended or was refused: words and figures of its row (egress_row.h). */
void kr_monitor_connection(struct kr_monitor *w, const char *how, const char *verdict, uint64_t ms, uint64_t sent,
                           uint64_t received);
/* Code was refused something. is_told: it gets a line of the log, unless it is a connection, which has one already. */
void kr_monitor_security(struct kr_monitor *w, const struct kr_security_event *e, bool is_told);
/* An installation that was asked for: "success", "error" or "blocked" (a warning in the log). */
void kr_monitor_package(struct kr_monitor *w, const char *package, const char *result);
/* An exchange is over: for kr_http_config.on_report. A line at info; at debug for /health, /ready and /metrics. */
void kr_monitor_http(struct kr_monitor *w, const struct kr_http_report *report);

/* ---- what is known ---- */

/* Brings everything up to date that is not counted as it happens: the process, the machine, the log, the program's own
 * gauges and (if not NULL) the HTTP server's. */
void kr_monitor_collect(struct kr_monitor *w, const struct kr_http_stats *http);

/* ---- handlers and their rows of the documentation; `app` is the struct kr_api ---- */

void kr_api_health(struct kr_http_ex *ex, void *app);    /* GET /health */
void kr_api_health_v1(struct kr_http_ex *ex, void *app); /* GET /api/v1/health, /ai/sandbox/v1/api/health */
void kr_api_ready(struct kr_http_ex *ex, void *app);     /* GET /ready */
void kr_api_metrics(struct kr_http_ex *ex, void *app);   /* GET /metrics */
extern const struct kr_api_doc kr_api_doc_health, kr_api_doc_health_v1, kr_api_doc_ready, kr_api_doc_metrics;

/* Metrics: one table of rows (metrics_rows.c), one registry of numbers, the Prometheus text format 0.0.4.
 *
 * A registry belongs to one thread, the loop's. Every call but kr_metrics_new() takes a NULL registry and then does
 * nothing, so that code which counts need not ask whether metrics are on. Memory is fixed when the registry is
 * made: a label has a set of values or room for so many texts, and what is past it is counted as "other". */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct kr_buf;
struct kr_metrics;

enum kr_metric {
    /* what the document of the Sandbox Service names */
    KR_M_EXECUTIONS,
    KR_M_EXECUTION_SECONDS,
    KR_M_PACKAGE_INSTALLS,
    KR_M_ERRORS,
    KR_M_SANDBOX_MEMORY,
    /* runs */
    KR_M_RUNS,
    KR_M_RUN_SECONDS,
    KR_M_RUN_WAIT_SECONDS,
    KR_M_RUNS_ACTIVE,
    KR_M_RUNS_QUEUED,
    KR_M_RUNS_REFUSED,
    /* sessions, sandboxes, the pool */
    KR_M_SESSIONS,
    KR_M_SESSIONS_OPENED,
    KR_M_SESSIONS_ENDED,
    KR_M_SESSION_OPEN_SECONDS,
    KR_M_TERMINALS,
    KR_M_TERMINALS_OPENED,
    KR_M_TERMINALS_ENDED,
    KR_M_TEMPLATE_BUILDS,
    KR_M_SANDBOXES,
    KR_M_POOL_PARKED,
    KR_M_POOL_SIZE,
    KR_M_ZYGOTE_RESTARTS,
    /* HTTP */
    KR_M_HTTP_REQUESTS,
    KR_M_HTTP_SECONDS,
    KR_M_HTTP_CONNECTIONS,
    KR_M_HTTP_CONNECTIONS_TOTAL,
    KR_M_HTTP_REFUSED,
    KR_M_HTTP_MALFORMED,
    KR_M_HTTP_TIMEOUTS,
    KR_M_HTTP_GONE,
    KR_M_HTTP_UNSENT,
    KR_M_HTTP_CUT,
    KR_M_HTTP_BYTES,
    KR_M_AUTH_FAILURES,
    /* packages */
    KR_M_PACKAGE_WHEELS,
    KR_M_PACKAGE_SECONDS,
    KR_M_PACKAGE_BYTES,
    KR_M_PACKAGE_STORE_BYTES,
    KR_M_PACKAGE_STORE_WHEELS,
    /* connections of sandboxes to the outside */
    KR_M_CONNECTIONS,
    KR_M_CONNECTIONS_OPEN,
    KR_M_CONNECTION_SECONDS,
    KR_M_CONNECTION_BYTES,
    KR_M_CONNECTION_ROWS_DROPPED,
    KR_M_CONNECTION_UNAUDITED,
    /* what code was refused */
    KR_M_SECURITY_EVENTS,
    KR_M_SECURITY_DROPPED,
    KR_M_SECURITY_UNLISTED,
    /* what is kept */
    KR_M_RUNLOG_MEMORY,
    KR_M_RUNLOG_CUTS,
    KR_M_STORE_BYTES,
    KR_M_DATA_BYTES,
    KR_M_LOG_DROPPED,
    /* the program */
    KR_M_READY,
    KR_M_BUILD_INFO,
    KR_M_PROCESS_CPU,
    KR_M_PROCESS_RESIDENT,
    KR_M_PROCESS_VIRTUAL,
    KR_M_PROCESS_FDS,
    KR_M_PROCESS_FDS_MAX,
    KR_M_PROCESS_THREADS,
    KR_M_PROCESS_START,
    KR_METRIC_MAX_,
};

enum kr_metric_type { KR_METRIC_COUNTER, KR_METRIC_GAUGE, KR_METRIC_HISTOGRAM, KR_METRIC_TYPE_MAX_ };

#define KR_METRIC_LABELS_MAX 3u
#define KR_METRIC_BUCKETS_MAX 16u
#define KR_METRIC_VALUE_MAX 96u /* bytes of a label's text; a longer one is "other" */

struct kr_metric_label {
    const char *name;
    const char *const *values; /* the set, ends with NULL; or NULL */
    unsigned room;             /* without a set: how many texts */
};

struct kr_metric_row {
    const char *name;
    enum kr_metric_type type;
    struct kr_metric_label labels[KR_METRIC_LABELS_MAX]; /* unused ones have no name */
    const double *buckets;                               /* upper bounds in seconds, ascending, ends with 0 */
    const char *help;
    const char *example; /* a query for Prometheus */
};
extern const struct kr_metric_row kr_metric_rows[KR_METRIC_MAX_];

/* The values of a row's labels in the row's order: KR_AT("basic"), KR_AT(pattern, "GET", "2xx"). What is left out or
 * NULL is "other". */
struct kr_metric_at {
    const char *values[KR_METRIC_LABELS_MAX];
};
#define KR_AT(...) ((struct kr_metric_at){.values = {__VA_ARGS__}})
#define KR_AT_NONE ((struct kr_metric_at){.values = {0}})

/* 0 or -ENOMEM. Counters and histograms without texts among their labels are there from the start, at zero; a gauge
 * once it is set; the rest once it is counted. */
int kr_metrics_new(struct kr_metrics **ret_metrics);
void kr_metrics_free(struct kr_metrics *m);

/* Counts up a counter, moves a gauge (n may be negative there; a counter ignores it). O(1). */
void kr_metrics_add(struct kr_metrics *m, enum kr_metric id, struct kr_metric_at at, double n);
/* Sets a gauge. A counter is set to a total that other code counts; it never goes down. */
void kr_metrics_set(struct kr_metrics *m, enum kr_metric id, struct kr_metric_at at, double value);
/* Puts a value into a histogram; below zero counts as zero, NaN not at all. */
void kr_metrics_observe(struct kr_metrics *m, enum kr_metric id, struct kr_metric_at at, double value);
static inline void kr_metrics_inc(struct kr_metrics *m, enum kr_metric id, struct kr_metric_at at)
{
    kr_metrics_add(m, id, at, 1);
}

/* What a counter or gauge has, or how many values a histogram took. */
double kr_metrics_get(const struct kr_metrics *m, enum kr_metric id, struct kr_metric_at at);

/* Sets the rows of the program itself: processor, memory, descriptors, threads, from /proc/self; what cannot be read is
 * left out. Cheap. */
void kr_metrics_look_at_process(struct kr_metrics *m);
/* Appends all of it in the text format. 0 or -errno of the buffer. */
#define KR_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"
int kr_metrics_write(const struct kr_metrics *m, struct kr_buf *out);
/* The table as Markdown: docs/reference/metrics.md. */
void kr_metrics_dump(FILE *out);

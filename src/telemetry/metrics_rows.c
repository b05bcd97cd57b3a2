/* The table of metrics: each row has a name, labels, buckets and a sentence.
 *
 * Read by metrics.c (numbers) and metrics_text.c (texts). Invariant: names are unique and follow Prometheus' custom (a
 * unit at the end, _total for counters); a label's set of values is that of the enum it stands for, which the unit test
 * compares; no label holds an id, an address or anything else that clients can invent without a bound. */
#include "metrics.h"

/* From a millisecond to two minutes, the longest run of the documents. */
static const double run_buckets[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                     1,     2.5,    5,     10,   30,    60,   120, 0};
/* From a tenth of a millisecond to ten seconds. */
static const double fast_buckets[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                      0.1,    0.25,    0.5,    1,     2.5,    5,     10,   0};

/* clang-format off */
static const char *const results[] = {"success", "error", NULL};
/* The words of src/engine/cause.c. */
static const char *const causes[] = {"ok", "exception", "exit", "timeout", "memory_limit", "cpu_limit", "disk_limit",
                                     "process_limit", "signal", "denied", "interrupted", "cancelled", "lost", NULL};
/* Causes that are failures, and what goes wrong before there is a run. */
static const char *const error_types[] = {"exception", "exit", "timeout", "memory_limit", "cpu_limit", "disk_limit",
                                          "process_limit", "signal", "denied", "interrupted", "cancelled", "lost",
                                          "refused", "blocked_package", "internal", NULL};
/* The kinds of src/base/err.c. */
static const char *const refusals[] = {"invalid", "not_found", "denied", "unavailable", "limit", "timeout", "system",
                                       "protocol", "internal", "unauthorized", "forbidden", "conflict", "too_many",
                                       "busy", "too_large", "unsupported", "no_space", NULL};
static const char *const installs[] = {"success", "error", "blocked", NULL};
static const char *const wheels[] = {"store", "index", "source", NULL};
static const char *const states[] = {"opening", "idle", "busy", NULL};
static const char *const hows[] = {"pool", "new", NULL};
static const char *const session_ends[] = {"asked", "idle", "evicted", "reset", "died", "stopping", NULL};
static const char *const terminal_ends[] = {"exit", "closed", "idle", "killed", "stopping", NULL};
static const char *const preloads[] = {"basic", "data", NULL};
static const char *const zygotes[] = {"basic", "data", "template", NULL};
static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", NULL};
static const char *const classes[] = {"1xx", "2xx", "3xx", "4xx", "5xx", "none", NULL};
static const char *const directions[] = {"in", "out", NULL};
static const char *const reasons[] = {"missing", "invalid", "expired", "revoked", "disabled", "password", "rights",
                                      "throttled", NULL};
/* The words of src/engine/egress/egress_row.c. */
static const char *const connection_hows[] = {"connect", "http", "https", "index", "fetch", NULL};
static const char *const verdicts[] = {"ok", "denied", "failed", "limit", NULL};
static const char *const flows[] = {"sent", "received", NULL};
/* The words of src/security/security.h. */
static const char *const security_kinds[] = {"policy", "syscall", "permission", "egress", "limit", NULL};
static const char *const drops[] = {"burst", "stderr", "file", NULL};

#define COUNTER .type = KR_METRIC_COUNTER
#define GAUGE .type = KR_METRIC_GAUGE
#define HISTOGRAM .type = KR_METRIC_HISTOGRAM
#define ROUTE {"route", NULL, 192}

const struct kr_metric_row kr_metric_rows[KR_METRIC_MAX_] = {
    [KR_M_EXECUTIONS] = { "sandbox_executions_total", COUNTER, .labels = {{"result", results, 0}},
      .help = "Runs that ended, by whether their cause was ok.",
      .example = "sum by (result) (rate(sandbox_executions_total[5m]))" },
    [KR_M_EXECUTION_SECONDS] = { "sandbox_execution_duration_seconds", HISTOGRAM, .buckets = run_buckets,
      .help = "Wall time of runs, without the time they waited.",
      .example = "histogram_quantile(0.95, rate(sandbox_execution_duration_seconds_bucket[5m]))" },
    [KR_M_PACKAGE_INSTALLS] = { "sandbox_package_installs_total", COUNTER, .labels = {{"result", installs, 0}},
      .help = "Installations of packages that were asked for.",
      .example = "increase(sandbox_package_installs_total{result=\"blocked\"}[1h])" },
    [KR_M_ERRORS] = { "sandbox_errors_total", COUNTER, .labels = {{"type", error_types, 0}},
      .help = "What went wrong: the cause of a run that did not end as ok, or a request that became no run.",
      .example = "topk(5, rate(sandbox_errors_total[15m]))" },
    [KR_M_SANDBOX_MEMORY] = { "sandbox_memory_usage_bytes", GAUGE,
      .help = "Memory of krait's cgroup with every sandbox in it, or of the machine where there is no cgroup.",
      .example = "sandbox_memory_usage_bytes / 2^30" },

    [KR_M_RUNS] = { "krait_runs_total", COUNTER, .labels = {{"cause", causes, 0}},
      .help = "Runs that ended, by cause.", .example = "rate(krait_runs_total{cause=\"timeout\"}[5m])" },
    [KR_M_RUN_SECONDS] = { "krait_run_seconds", HISTOGRAM, .labels = {{"cause", causes, 0}}, .buckets = run_buckets,
      .help = "Wall time of runs by cause, without the time they waited.",
      .example = "histogram_quantile(0.5, sum by (le) (rate(krait_run_seconds_bucket{cause=\"ok\"}[5m])))" },
    [KR_M_RUN_WAIT_SECONDS] = { "krait_run_wait_seconds", HISTOGRAM, .buckets = run_buckets,
      .help = "Time from a run's request to its start: for its session, for those before it, for room.",
      .example = "histogram_quantile(0.99, rate(krait_run_wait_seconds_bucket[5m]))" },
    [KR_M_RUNS_ACTIVE] = { "krait_runs_active", GAUGE, .help = "Runs that are running now.",
      .example = "krait_runs_active" },
    [KR_M_RUNS_QUEUED] = { "krait_runs_queued", GAUGE, .help = "Runs that wait for their session or for room.",
      .example = "max_over_time(krait_runs_queued[10m])" },
    [KR_M_RUNS_REFUSED] = { "krait_runs_refused_total", COUNTER, .labels = {{"reason", refusals, 0}},
      .help = "Requests for a run that became none, by the kind of their error.",
      .example = "rate(krait_runs_refused_total{reason=\"limit\"}[5m])" },

    [KR_M_SESSIONS] = { "krait_sessions", GAUGE, .labels = {{"state", states, 0}},
      .help = "Live sessions, those of the pool apart.", .example = "sum(krait_sessions)" },
    [KR_M_SESSIONS_OPENED] = { "krait_sessions_opened_total", COUNTER, .labels = {{"how", hows, 0}},
      .help = "Sessions that were opened: taken from the pool, or made anew.",
      .example = "rate(krait_sessions_opened_total{how=\"new\"}[5m])" },
    [KR_M_SESSIONS_ENDED] = { "krait_sessions_ended_total", COUNTER, .labels = {{"why", session_ends, 0}},
      .help = "Sessions that ended, by why.", .example = "increase(krait_sessions_ended_total{why=\"evicted\"}[1h])" },
    [KR_M_SESSION_OPEN_SECONDS] = { "krait_session_open_seconds", HISTOGRAM, .labels = {{"how", hows, 0}},
      .buckets = fast_buckets,
      .help = "Time from asking for a session to having it.",
      .example = "histogram_quantile(0.5, sum by (le) (rate(krait_session_open_seconds_bucket{how=\"pool\"}[5m])))" },
    [KR_M_TERMINALS] = { "krait_terminals", GAUGE, .help = "Terminals; each has a busy session.",
      .example = "krait_terminals" },
    [KR_M_TERMINALS_OPENED] = { "krait_terminals_opened_total", COUNTER, .help = "Terminals whose program began.",
      .example = "increase(krait_terminals_opened_total[1d])" },
    [KR_M_TERMINALS_ENDED] = { "krait_terminals_ended_total", COUNTER, .labels = {{"why", terminal_ends, 0}},
      .help = "Terminals that ended: their program did, a client closed them, they were idle, they were killed.",
      .example = "increase(krait_terminals_ended_total{why=\"idle\"}[1d])" },
    [KR_M_TEMPLATE_BUILDS] = { "krait_template_builds_total", COUNTER, .labels = {{"result", results, 0}},
      .help = "Builds of the template of the settings (`templates.requirements`) that were due at a start.",
      .example = "increase(krait_template_builds_total{result=\"error\"}[1d])" },
    [KR_M_SANDBOXES] = { "krait_sandboxes", GAUGE, .help = "Sandboxes in the store, of all users.",
      .example = "krait_sandboxes" },
    [KR_M_POOL_PARKED] = { "krait_pool_parked", GAUGE, .labels = {{"preload", preloads, 0}},
      .help = "Sessions that wait in the pool.", .example = "krait_pool_parked / krait_pool_size" },
    [KR_M_POOL_SIZE] = { "krait_pool_size", GAUGE, .labels = {{"preload", preloads, 0}},
      .help = "Sessions that the pool wants to have.", .example = "krait_pool_size" },
    [KR_M_ZYGOTE_RESTARTS] = { "krait_zygote_restarts_total", COUNTER, .labels = {{"preload", zygotes, 0}},
      .help = "Zygotes that were started beyond the first.", .example = "increase(krait_zygote_restarts_total[1h])" },

    [KR_M_HTTP_REQUESTS] = { "krait_http_requests_total", COUNTER,
      .labels = {ROUTE, {"method", methods, 0}, {"status", classes, 0}},
      .help = "Requests that are over, by route, method and class of status (none: the peer left before an answer).",
      .example = "sum by (status) (rate(krait_http_requests_total[5m]))" },
    [KR_M_HTTP_SECONDS] = { "krait_http_request_seconds", HISTOGRAM, .labels = {ROUTE}, .buckets = fast_buckets,
      .help = "Time from a request's head to the end of its answer; of a stream, its whole length.",
      .example = "histogram_quantile(0.99, sum by (le, route) (rate(krait_http_request_seconds_bucket[5m])))" },
    [KR_M_HTTP_CONNECTIONS] = { "krait_http_connections", GAUGE, .help = "Connections that are open now.",
      .example = "krait_http_connections" },
    [KR_M_HTTP_CONNECTIONS_TOTAL] = { "krait_http_connections_total", COUNTER,
      .help = "Connections that were accepted.", .example = "rate(krait_http_connections_total[5m])" },
    [KR_M_HTTP_REFUSED] = { "krait_http_refused_total", COUNTER,
      .help = "Connections that were turned away: too many, or no descriptors.",
      .example = "increase(krait_http_refused_total[5m]) > 0" },
    [KR_M_HTTP_MALFORMED] = { "krait_http_malformed_total", COUNTER,
      .help = "Requests whose head or body was not understood.", .example = "rate(krait_http_malformed_total[5m])" },
    [KR_M_HTTP_TIMEOUTS] = { "krait_http_timeouts_total", COUNTER,
      .help = "Connections cut because the peer was too slow.", .example = "rate(krait_http_timeouts_total[5m])" },
    [KR_M_HTTP_GONE] = { "krait_http_gone_total", COUNTER, .help = "Peers that left before their answer was whole.",
      .example = "rate(krait_http_gone_total[5m])" },
    [KR_M_HTTP_UNSENT] = { "krait_http_unsent_bytes", GAUGE, .help = "Memory of answers that wait for slow readers.",
      .example = "krait_http_unsent_bytes" },
    [KR_M_HTTP_CUT] = { "krait_http_cut_total", COUNTER,
      .help = "Connections cut because the answers that waited on them were too large.",
      .example = "increase(krait_http_cut_total[5m]) > 0" },
    [KR_M_HTTP_BYTES] = { "krait_http_bytes_total", COUNTER, .labels = {{"direction", directions, 0}},
      .help = "Bytes on the wire.", .example = "rate(krait_http_bytes_total{direction=\"out\"}[5m])" },
    [KR_M_AUTH_FAILURES] = { "krait_auth_failures_total", COUNTER, .labels = {{"reason", reasons, 0}},
      .help = "Requests and logins that showed no key or password that was good for them.",
      .example = "rate(krait_auth_failures_total{reason!=\"missing\"}[5m]) > 1" },

    [KR_M_PACKAGE_WHEELS] = { "krait_package_wheels_total", COUNTER, .labels = {{"from", wheels, 0}},
      .help = "Wheels that installs have put into sandboxes: from the store, from the index, built from source.",
      .example = "sum by (from) (rate(krait_package_wheels_total[1h]))" },
    [KR_M_PACKAGE_SECONDS] = { "krait_package_install_seconds", HISTOGRAM, .labels = {{"result", installs, 0}},
      .buckets = run_buckets, .help = "Time of installs from their turn to their end.",
      .example = "histogram_quantile(0.95, sum by (le) (rate(krait_package_install_seconds_bucket[1h])))" },
    [KR_M_PACKAGE_BYTES] = { "krait_package_fetched_bytes_total", COUNTER,
      .help = "Bytes of wheels that installs have fetched from the index.",
      .example = "rate(krait_package_fetched_bytes_total[1h])" },
    [KR_M_PACKAGE_STORE_BYTES] = { "krait_package_store_bytes", GAUGE,
      .help = "Size of the store of unpacked wheels, as the last sweep has measured it.",
      .example = "krait_package_store_bytes / 2^30" },
    [KR_M_PACKAGE_STORE_WHEELS] = { "krait_package_store_wheels", GAUGE,
      .help = "Wheels in the store, as the last sweep has counted them.", .example = "krait_package_store_wheels" },
    [KR_M_CONNECTIONS] = { "krait_connections_total", COUNTER,
      .labels = {{"how", connection_hows, 0}, {"verdict", verdicts, 0}},
      .help = "Connections of sandboxes to the outside that ended or were refused (denied), and fetches for them.",
      .example = "sum by (verdict) (rate(krait_connections_total[5m]))" },
    [KR_M_CONNECTIONS_OPEN] = { "krait_connections_open", GAUGE,
      .help = "Connections of sandboxes to the outside, or to its proxy, that are open now.",
      .example = "krait_connections_open > 900" },
    [KR_M_CONNECTION_SECONDS] = { "krait_connection_seconds", HISTOGRAM, .labels = {{"how", connection_hows, 0}},
      .buckets = run_buckets, .help = "Their lives, from the request to the last byte.",
      .example = "histogram_quantile(0.95, sum by (le, how) (rate(krait_connection_seconds_bucket[5m])))" },
    [KR_M_CONNECTION_BYTES] = { "krait_connection_bytes_total", COUNTER, .labels = {{"direction", flows, 0}},
      .help = "Bytes that they sent to the outside and received.",
      .example = "rate(krait_connection_bytes_total{direction=\"received\"}[5m])" },
    [KR_M_CONNECTION_ROWS_DROPPED] = { "krait_connection_rows_dropped_total", COUNTER,
      .help = "Rows of connections for which there was no room while the store took none.",
      .example = "increase(krait_connection_rows_dropped_total[1h]) > 0" },
    [KR_M_CONNECTION_UNAUDITED] = { "krait_connection_unaudited_total", COUNTER,
      .help = "Refused connections that the audit log has only as a number: more than 10 of a user in a minute.",
      .example = "rate(krait_connection_unaudited_total[5m])" },

    [KR_M_SECURITY_EVENTS] = { "krait_security_events_total", COUNTER, .labels = {{"kind", security_kinds, 0}},
      .help = "What code was refused: by the code policy, the system call filter, permissions, the network rule, "
              "limits.",
      .example = "sum by (kind) (rate(krait_security_events_total[5m]))" },
    [KR_M_SECURITY_DROPPED] = { "krait_security_events_dropped_total", COUNTER,
      .help = "Security events for which there was no room while the store took none.",
      .example = "increase(krait_security_events_dropped_total[1h]) > 0" },
    [KR_M_SECURITY_UNLISTED] = { "krait_security_events_unlisted_total", COUNTER,
      .help = "Security events that are only in the sum of their user's minute: past 300 rows of a user.",
      .example = "rate(krait_security_events_unlisted_total[5m])" },

    [KR_M_RUNLOG_MEMORY] = { "krait_runlog_memory_bytes", GAUGE, .help = "Memory of the logs of runs.",
      .example = "krait_runlog_memory_bytes" },
    [KR_M_RUNLOG_CUTS] = { "krait_runlog_cuts_total", COUNTER,
      .help = "Times that output was cut from a run's log for want of memory.",
      .example = "increase(krait_runlog_cuts_total[1h])" },
    [KR_M_STORE_BYTES] = { "krait_store_bytes", GAUGE, .help = "Size of the database.",
      .example = "krait_store_bytes" },
    [KR_M_DATA_BYTES] = { "krait_data_bytes", GAUGE, .help = "Size of the data folder, as last counted.",
      .example = "predict_linear(krait_data_bytes[6h], 86400)" },
    [KR_M_LOG_DROPPED] = { "krait_log_dropped_total", COUNTER, .labels = {{"why", drops, 0}},
      .help = "Lines of krait's own log that were dropped: a burst, stderr without a reader, a file that fails.",
      .example = "increase(krait_log_dropped_total[5m]) > 0" },

    [KR_M_READY] = { "krait_ready", GAUGE, .help = "1 if runs are taken: what /ready says.",
      .example = "krait_ready == 0" },
    [KR_M_BUILD_INFO] = { "krait_build_info", GAUGE, .labels = {{"version", NULL, 1}, {"compiler", NULL, 1}},
      .help = "Always 1; the labels tell what runs.", .example = "count by (version) (krait_build_info)" },
    [KR_M_PROCESS_CPU] = { "process_cpu_seconds_total", COUNTER,
      .help = "Processor time of the server, sandboxes apart.", .example = "rate(process_cpu_seconds_total[5m])" },
    [KR_M_PROCESS_RESIDENT] = { "process_resident_memory_bytes", GAUGE, .help = "Resident memory of the server.",
      .example = "process_resident_memory_bytes" },
    [KR_M_PROCESS_VIRTUAL] = { "process_virtual_memory_bytes", GAUGE, .help = "Virtual memory of the server.",
      .example = "process_virtual_memory_bytes" },
    [KR_M_PROCESS_FDS] = { "process_open_fds", GAUGE, .help = "Open descriptors of the server.",
      .example = "process_open_fds / process_max_fds" },
    [KR_M_PROCESS_FDS_MAX] = { "process_max_fds", GAUGE, .help = "Descriptors it may have.",
      .example = "process_max_fds" },
    [KR_M_PROCESS_THREADS] = { "process_threads", GAUGE, .help = "Threads of the server.",
      .example = "process_threads" },
    [KR_M_PROCESS_START] = { "process_start_time_seconds", GAUGE, .help = "When the server started, in Unix time.",
      .example = "time() - process_start_time_seconds" },
};
/* clang-format on */

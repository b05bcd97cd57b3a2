/* What happens in the domain, for metrics, the log and MCP's subscribers. Called by the box, which serve_app.c
 * opens. */
#include "install.h"
#include "serve.h"
#include "log.h"
#include "metrics.h"
#include "monitor.h"
#include "registry.h"
#include "resource.h"

static void on_session_opened(void *data, bool pooled, uint64_t ns)
{
    kr_monitor_session_opened(((struct kr_serve *)data)->watch, pooled, ns);
}

static void on_session_ended(void *data, const char *why)
{
    kr_monitor_session_ended(((struct kr_serve *)data)->watch, why);
}

static void on_terminal_opened(void *data)
{
    kr_metrics_inc(((struct kr_serve *)data)->metrics, KR_M_TERMINALS_OPENED, KR_AT_NONE);
}

static void on_terminal_ended(void *data, const char *why)
{
    kr_metrics_inc(((struct kr_serve *)data)->metrics, KR_M_TERMINALS_ENDED, KR_AT(why));
}

static void on_run_started(void *data, const struct kr_box_run *run)
{
    struct kr_monitor_run who = {.run = kr_box_run_id(run),
                                 .session = kr_box_run_session(run),
                                 .sandbox = kr_box_run_sandbox(run),
                                 .user = kr_box_run_user(run),
                                 .request = kr_box_run_request(run)};
    size_t len;
    const char *code = kr_box_run_code(run, &len);

    if (!kr_dialects[kr_box_run_profile(run)->dialect].logs_code && !kr_log_is_on(KR_LOG_DEBUG))
        code = NULL; /* it may hold what its user tells no log */
    kr_monitor_run_started(((struct kr_serve *)data)->watch, &who, code, len, kr_box_run_waited_ns(run));
}

static void on_run_ended(void *data, const struct kr_box_run *run, enum kr_cause cause, uint64_t wall_ns)
{
    struct kr_monitor_run who = {.run = kr_box_run_id(run),
                                 .session = kr_box_run_session(run),
                                 .sandbox = kr_box_run_sandbox(run),
                                 .user = kr_box_run_user(run),
                                 .request = kr_box_run_request(run),
                                 .timeout_is_error = kr_dialects[kr_box_run_profile(run)->dialect].timeout_is_error};

    kr_monitor_run_ended(((struct kr_serve *)data)->watch, &who, kr_cause_rows[cause].name, wall_ns);
    if (((struct kr_serve *)data)->mcp)
        kr_mcp_run_ended(((struct kr_serve *)data)->mcp, &((struct kr_serve *)data)->api, run);
}

static void on_refused(void *data, const struct kr_err *err)
{
    kr_monitor_run_refused(((struct kr_serve *)data)->watch, &(struct kr_monitor_run){0}, err);
}

static void on_connection(void *data, const json_t *row)
{
    kr_monitor_connection(((struct kr_serve *)data)->watch, json_string_value(json_object_get(row, "how")),
                          json_string_value(json_object_get(row, "verdict")),
                          (uint64_t)json_integer_value(json_object_get(row, "ms")),
                          (uint64_t)json_integer_value(json_object_get(row, "sent")),
                          (uint64_t)json_integer_value(json_object_get(row, "received")));
}

static void on_security(void *data, const struct kr_security_event *e, bool is_told)
{
    kr_monitor_security(((struct kr_serve *)data)->watch, e, is_told);
}

static void on_packages(void *data, const struct kr_box_asker *by, uint32_t number, const json_t *ask)
{
    struct kr_serve *s = data;

    if (s->api.install)
        kr_install_on_session(s->api.install, by, number, ask);
}

const struct kr_box_calls kr_serve_box_calls = {
    .on_session_opened = on_session_opened,
    .on_session_ended = on_session_ended,
    .on_run_started = on_run_started,
    .on_run_ended = on_run_ended,
    .on_terminal_opened = on_terminal_opened,
    .on_terminal_ended = on_terminal_ended,
    .on_refused = on_refused,
    .on_connection = on_connection,
    .on_security = on_security,
    .on_packages = on_packages,
};

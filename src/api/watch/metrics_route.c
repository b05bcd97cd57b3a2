/* GET /metrics: the registry in Prometheus' text format.
 *
 * Handler of the route table. Needs a key with the right to read when authentication is on, unless the configuration
 * opens it (kr_auth_config.open_too is this row's id). Invariant: what is not counted as it happens is brought up to
 * date just before it is printed. */
#include "metrics.h"
#include "api.h"
#include "buf.h"
#include "route_doc.h"
#include "reply.h"
#include "monitor.h"

#define BODY_MAX (8u << 20)

void kr_api_metrics(struct kr_http_ex *ex, void *app)
{
    const struct kr_api *api = app;
    cleanup_buf struct kr_buf body;

    kr_buf_init(&body, BODY_MAX);
    kr_monitor_collect(api->monitor, api->server ? kr_http_server_stats(api->server) : NULL);
    if (kr_metrics_write(api->metrics, &body) < 0)
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "the metrics do not fit");
    else
        kr_http_reply(ex, 200, KR_METRICS_TYPE, kr_buf_str(&body), body.len);
}

static const struct kr_api_response responses[] = {
    {200, .help = "Every metric that has a value.", .media = "text/plain",
     .example =
         "# HELP krait_runs_active Runs that are running now.\n# TYPE krait_runs_active gauge\nkrait_runs_active 0\n"},
    {0},
};

const struct kr_api_doc kr_api_doc_metrics = {
    .id = "metrics",
    .tag = "info",
    .summary = "Metrics for Prometheus",
    .description =
        "Text format 0.0.4; `docs/reference/metrics.md` has every name. Needs a key when keys are asked for, unless "
        "`open_metrics` is set.",
    .voice = KR_API_KRAIT,
    .needs = KR_RIGHT_READ,
    .responses = responses,
};

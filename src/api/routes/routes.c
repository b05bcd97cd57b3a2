/* THE table of routes: what the HTTP engine serves, what the gate asks rights for, what OpenAPI is written from.
 *
 * Given to kr_http_server_new() by `krait serve`. Each resource's rows are in its own header, beside its handlers; the
 * documents' rows are in src/dialect/rows. Invariant, held by tests/unit/api/routes/test-routes.c: every row has a
 * handler and a complete doc, no two rows are the same, rows of one resource are sorted by path. */
#include "accounts.h"
#include "api.h"
#include "connection_routes.h"
#include "dialect_routes.h"
#include "file_routes.h"
#include "info.h"
#include "job_routes.h"
#include "package_routes.h"
#include "pages.h"
#include "registry.h"
#include "routes.h"
#include "run_routes.h"
#include "sandbox_routes.h"
#include "security_routes.h"
#include "session_routes.h"
#include "template_routes.h"
#include "terminal_routes.h"
#include "validate.h"
#include "monitor.h"

#define OURS "/api/v1"
#define INPUT_MAX (1u << 20)

/* clang-format off */
#define RUNS_ROUTES \
    {KR_HTTP_GET,  OURS "/runs",                0, 0, kr_api_runs_list, &kr_api_runs_list_doc}, \
    {KR_HTTP_POST, OURS "/runs",                KR_API_CODE_MAX, KR_API_CONFIGURED_BODY, kr_api_runs_create, \
     &kr_api_runs_create_doc}, \
    {KR_HTTP_GET,  OURS "/runs/{run_id}",           0, 0, kr_api_runs_read, &kr_api_runs_read_doc}, \
    {KR_HTTP_POST, OURS "/runs/{run_id}/cancel",    0, 0, kr_api_runs_cancel, &kr_api_runs_cancel_doc}, \
    {KR_HTTP_GET,  OURS "/runs/{run_id}/events",    0, 0, kr_api_runs_events, &kr_api_runs_events_doc}, \
    {KR_HTTP_POST, OURS "/runs/{run_id}/input",     INPUT_MAX, 0, kr_api_runs_input, &kr_api_runs_input_doc}, \
    {KR_HTTP_POST, OURS "/runs/{run_id}/interrupt", 0, 0, kr_api_runs_interrupt, &kr_api_runs_interrupt_doc}, \
    {KR_HTTP_POST, OURS "/validate",                KR_API_CODE_MAX, KR_API_CONFIGURED_BODY, kr_api_validate, \
     &kr_api_validate_doc}

#define WATCHING_ROUTES \
    {KR_HTTP_GET, OURS "/health",     0, 0, kr_api_health_v1, &kr_api_doc_health_v1}, \
    {KR_HTTP_GET, "/health",          0, 0, kr_api_health, &kr_api_doc_health}, \
    {KR_HTTP_GET, "/metrics",         0, 0, kr_api_metrics, &kr_api_doc_metrics}, \
    {KR_HTTP_GET, "/ready",           0, 0, kr_api_ready, &kr_api_doc_ready}

const struct kr_http_route kr_api_routes[] = {
    KR_API_PAGES_ROUTES,
    WATCHING_ROUTES,
    KR_API_CONNECTIONS_ROUTES,
    KR_API_SECURITY_ROUTES,
    KR_API_INFO_ROUTES,
    RUNS_ROUTES,
    KR_API_SESSIONS_ROUTES(OURS),
    KR_API_SANDBOXES_ROUTES,
    KR_API_PACKAGES_ROUTES,
    KR_API_JOBS_ROUTES,
    KR_API_TEMPLATES_ROUTES,
    KR_API_TERMINALS_ROUTES,
    KR_API_FILES_ROUTES,
    KR_ACCOUNTS_ROUTES,
    KR_DIALECT_ROUTES,
};
/* clang-format on */
const size_t kr_api_routes_count = sizeof kr_api_routes / sizeof kr_api_routes[0];

bool kr_api_gate(void *app, struct kr_http_ex *ex)
{
    const struct kr_api *api = app;
    const struct kr_http_route *route = kr_http_route(ex);

    if (route && (route->flags & KR_API_CONFIGURED_BODY) && api->config.max_body)
        kr_http_set_body_limit(ex, api->config.max_body);
    return kr_auth_gate(api->auth, ex);
}

/* The one object of MCP: made, stopped, freed. Called by `krait serve` and `krait mcp`.
 *
 * Invariant: when it is freed no call is left, detached ones included: each was answered, or its on_cancel called. */
#include "mcp_internal.h"
#include "err.h"
#include "exec.h"
#include "mcp_http_session.h"
#include "mcp_http_tools.h"
#include "resource.h"
#include "request_state.h"
#include "tasks.h"
#include <errno.h>
#include <stdlib.h>

/* A request over REST changed a file. */
static void on_file_changed(struct kr_api *api, const char *user, const struct kr_sandbox *sandbox, const char *path)
{
    kr_mcp_file_changed(api->mcp, user, sandbox->row.id, sandbox->row.name, path);
    kr_mcp_files_moved(api->mcp, user);
}

int kr_mcp_new(struct kr_api *api, const struct kr_mcp_config *config, struct kr_mcp **ret_mcp, struct kr_err *err)
{
    struct kr_mcp *m = calloc(1, sizeof *m);

    if (!m)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "MCP");
    m->api = api;
    m->config = *config;
    TAILQ_INIT(&m->peers);
    TAILQ_INIT(&m->detached);
    TAILQ_INIT(&m->listens);
    if (kr_mcp_sessions_new(m) < 0 || kr_mcp_states_new(&m->states) < 0 ||
        kr_mcp_tasks_new(m, api->loop, &m->tasks) < 0) {
        kr_mcp_free(m);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "MCP");
    }
    api->mcp = m;
    api->on_file_changed = on_file_changed;
    api->openapi_more = kr_mcp_openapi_rows;
    *ret_mcp = m;
    return 0;
}

void kr_mcp_stop(struct kr_mcp *m)
{
    if (!m || m->stopping)
        return;
    m->stopping = true;
    kr_mcp_listens_end(m);
    kr_mcp_sessions_stop(m->sessions);
}

void kr_mcp_free(struct kr_mcp *m)
{
    struct kr_mcp_call *c;

    if (!m)
        return;
    m->stopping = true;
    kr_mcp_sessions_free(m->sessions);
    kr_mcp_tasks_free(m->tasks);
    while ((c = TAILQ_FIRST(&m->detached)))
        kr_mcp_call_end(c);
    kr_mcp_runs_free(m->runs);
    kr_mcp_states_free(m->states);
    kr_mcp_openapi_free(m->openapi);
    kr_timer_close(m->moved_timer);
    json_decref(m->moved);
    if (m->api->mcp == m) {
        m->api->mcp = NULL;
        m->api->on_file_changed = NULL;
        m->api->openapi_more = NULL;
    }
    free(m);
}

const struct kr_mcp_config *kr_mcp_config(const struct kr_mcp *m)
{
    return &m->config;
}

void kr_mcp_reload(struct kr_mcp *m, const struct kr_mcp_config *config)
{
    m->config.answer_after_ms = config->answer_after_ms;
}

struct kr_mcp_tasks *kr_mcp_tasks_of(const struct kr_mcp *m)
{
    return m->tasks;
}

struct kr_mcp_states *kr_mcp_states_of(const struct kr_mcp *m)
{
    return m->states;
}

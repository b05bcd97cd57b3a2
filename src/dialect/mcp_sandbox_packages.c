/* Packages of document 004 (mcp-sandbox): install_package_in_sandbox, check_package_installation_status, and the
 * installed_packages of list_sandboxes. Called through THE table of tools.
 *
 * An installation is asynchronous: a call waits five seconds for it, then says that it goes on; it ends with no call.
 * The status is looked at in the same way. */
#include "api.h"
#include "dialect_results.h"
#include "dialect_tools.h"
#include "err.h"
#include "exec_job.h"
#include "package_ask.h"
#include "package_shapes.h"
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 5000u
#define LISTED_MAX 100u /* sandboxes whose packages are looked at for one list */

struct package_args {
    const char *sandbox, *package;
};

/* clang-format off */
static const struct kr_api_field package_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct package_args, sandbox), .required = true,
     KR_API_LENGTH(1, 64),
     .help = "The sandbox's id, as create_sandbox or list_sandboxes gave it.",
     .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "package_name", .type = KR_API_STRING, KR_API_AT(struct package_args, package), .required = true,
     KR_API_LENGTH(1, KR_REQ_MAX), .aliases = (const char *const[]){"package", NULL},
     .help = "The package's name.", .example = "numpy"},
};
static const struct kr_api_table install_table = KR_API_TABLE("McpSandboxInstallInput", "What to install, and where.",
    package_fields, struct package_args);
static const struct kr_api_table status_table = KR_API_TABLE("McpSandboxPackageInput", "Which package, and where.",
    package_fields, struct package_args);
/* clang-format on */

static void answer_value(struct kr_mcp_call *c, json_t *value)
{
    kr_compat_answer(c, value, KR_COMPAT_PLAIN);
}

/* ---- install ---- */

static void render_sandbox_install(struct kr_mcp_call *c, const struct kr_mcp_job_state *state, void *data)
{
    answer_value(c, kr_mcp_sandbox_install_value(data, state->row, state->result, false));
}

static void run_sandbox_install(struct kr_mcp_call *c, const void *args)
{
    const struct package_args *a = args;
    struct kr_mcp_job_spec spec = {
        .answer_after_ms = WAIT_MS, .at_once = true, .render = render_sandbox_install, .free_data = free};
    struct kr_install_ask ask = {.op = KR_INSTALL, .what = {.line = a->package}};
    char id[KR_STORE_ID_ROOM];
    struct kr_err err;
    int r;

    if (!kr_compat_named_sandbox(c, a->sandbox, id))
        return;
    ask.sandbox = id;
    r = kr_api_packages_ask(kr_mcp_api(c), kr_mcp_caller(c), &ask, &spec.job, &err);
    if (r < 0) {
        answer_value(c, kr_mcp_sandbox_refused_value(a->package, kr_compat_reason(&err), kr_store_now()));
    } else if (r > 0) {
        answer_value(c, kr_mcp_sandbox_install_value(a->package, kr_job_row(spec.job), NULL, true));
    } else {
        spec.data = strdup(a->package);
        if (spec.data)
            kr_mcp_job_follow(c, &spec);
        else
            kr_mcp_tool_refuse(c, "out of memory");
    }
}

/* ---- status ---- */

/* A call that waits for a look at the disk. */
struct status_look {
    struct kr_mcp_call *call;
    struct kr_install_task *task;
    char *package;
};

static void close_look(struct status_look *l)
{
    free(l->package);
    free(l);
}

static void render_sandbox_progress(struct kr_mcp_call *c, const struct kr_mcp_job_state *state, void *data)
{
    answer_value(c, kr_mcp_sandbox_progress_value(data, state->row, state->result, kr_store_now()));
}

static void on_sandbox_status(void *data, const struct kr_install_status *status, const struct kr_err *err)
{
    struct kr_mcp_job_spec spec = {
        .answer_after_ms = WAIT_MS, .at_once = true, .render = render_sandbox_progress, .free_data = free};
    struct status_look *l = data;
    struct kr_mcp_call *c = l->call;

    kr_mcp_on_cancel(c, NULL, NULL);
    if (status && status->state == KR_INSTALL_INSTALLING)
        spec.job = kr_jobs_running(kr_mcp_api(c)->jobs, kr_mcp_caller(c)->user, status->job);
    if (spec.job) {
        spec.data = l->package;
        l->package = NULL;
        kr_mcp_job_follow(c, &spec);
    } else if (status) {
        answer_value(c, kr_mcp_sandbox_status_value(l->package, status));
    } else {
        answer_value(c, json_pack("{s:s, s:o, s:b, s:b}", "status", "error", "message",
                                  json_sprintf("Error checking package status: %s", kr_compat_reason(err)), "complete",
                                  1, "success", 0));
    }
    close_look(l);
}

static void on_sandbox_status_cancelled(void *data, struct kr_mcp_call *c)
{
    struct status_look *l = data;

    (void)c;
    kr_install_task_forget(l->task);
    close_look(l);
}

static void run_sandbox_status(struct kr_mcp_call *c, const void *args)
{
    const struct package_args *a = args;
    char id[KR_STORE_ID_ROOM];
    struct status_look *l;
    struct kr_err err;

    if (!kr_compat_named_sandbox(c, a->sandbox, id))
        return;
    l = calloc(1, sizeof *l);
    if (!l || !(l->package = strdup(a->package))) {
        free(l);
        kr_mcp_tool_refuse(c, "out of memory");
        return;
    }
    l->call = c;
    kr_mcp_on_cancel(c, on_sandbox_status_cancelled, l);
    if (kr_api_packages_status(kr_mcp_api(c), kr_mcp_caller(c), id, a->package, on_sandbox_status, l, &l->task, &err) <
        0)
        on_sandbox_status(l, NULL, &err);
}

/* ---- installed_packages ---- */

/* A list of sandboxes on its way to its answer: one is looked at after the other. */
struct packages_walk {
    struct kr_mcp_call *call;
    struct kr_install_task *task;
    json_t *list;
    size_t at;
};

static void look_at_next(struct packages_walk *w);

static void close_walk(struct packages_walk *w)
{
    json_decref(w->list);
    free(w);
}

static void on_walk_cancelled(void *data, struct kr_mcp_call *c)
{
    struct packages_walk *w = data;

    (void)c;
    kr_install_task_forget(w->task);
    close_walk(w);
}

static void on_walk_listed(void *data, const struct kr_install_listing *listing, const struct kr_err *err)
{
    struct packages_walk *w = data;

    (void)err; /* what cannot be looked at stays an empty list */
    if (listing)
        json_object_set_new(json_array_get(w->list, w->at), "installed_packages",
                            kr_api_packages_value(listing, false));
    w->at++;
    look_at_next(w);
}

/* Looks at one that can be looked at, or answers. */
static void look_at_next(struct packages_walk *w)
{
    const struct kr_caller *who = kr_mcp_caller(w->call);
    struct kr_err err;

    for (; w->at < json_array_size(w->list) && w->at < LISTED_MAX; w->at++) {
        const char *id = json_string_value(json_object_get(json_array_get(w->list, w->at), "sandbox_id"));

        if (kr_api_packages_list(kr_mcp_api(w->call), who, id, true, on_walk_listed, w, &w->task, &err) >= 0)
            return;
    }
    kr_mcp_on_cancel(w->call, NULL, NULL);
    answer_value(w->call, json_incref(w->list));
    close_walk(w);
}

void kr_compat_list_with_packages(struct kr_mcp_call *c, json_t *list)
{
    struct packages_walk *w = calloc(1, sizeof *w);

    if (!w) {
        json_decref(list);
        kr_mcp_tool_refuse(c, "out of memory");
        return;
    }
    w->call = c;
    w->list = list;
    kr_mcp_on_cancel(c, on_walk_cancelled, w);
    look_at_next(w);
}

const struct kr_mcp_tool kr_tool_mcp_sandbox_install = {
    .name = "install_package_in_sandbox",
    .title = "Install a package",
    .description =
        "Installs a Python package in a sandbox. It goes on in the background if it takes more than a few seconds: "
        "check_package_installation_status then tells how it stands.",
    .dialects = KR_IN_MCP_SANDBOX,
    .flags = KR_TOOL_IDEMPOTENT | KR_TOOL_OPEN_WORLD,
    .needs = KR_RIGHT_RUN,
    .input = &install_table,
    .run = run_sandbox_install,
};
const struct kr_mcp_tool kr_tool_mcp_sandbox_status = {
    .name = "check_package_installation_status",
    .title = "Package status",
    .description =
        "Tells whether a package is installed in a sandbox, or how its installation stands. While its status is "
        "`installing`, ask again.",
    .dialects = KR_IN_MCP_SANDBOX,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .input = &status_table,
    .run = run_sandbox_status,
};

/* POST /pip_install of document 002 (sandbox-service), its alias POST /pip/install, and the same as MCP tools. Called
 * through the tables of routes and of tools.
 *
 * Answers when the job has ended. A package that must not be installed is 400 with the reason, as a name that is none;
 * an index that does not have it is an outcome. The job goes on if the client leaves. */
#include "body_read.h"
#include "clock.h"
#include "dialect_results.h"
#include "dialect_routes.h"
#include "dialect_tools.h"
#include "err.h"
#include "exec_job.h"
#include "package_ask.h"
#include "package_shapes.h"
#include "reply.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LATEST "latest"
#define VERSION_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.!+-_*"
#define VERSION_MAX 100

struct pip_request {
    const char *package, *version;
    uint8_t version_given;
};

/* clang-format off */
static const struct kr_api_field pip_fields[] = {
    {.name = "package", .type = KR_API_STRING, KR_API_AT(struct pip_request, package), .required = true,
     KR_API_LENGTH(1, 100),
     .aliases = (const char *const[]){"package_name", NULL}, .help = "Its name.", .example = "requests"},
    {.name = "version", .type = KR_API_STRING, KR_API_AT(struct pip_request, version), .def = LATEST,
     KR_API_GIVEN(struct pip_request, version_given), .nullable = true, KR_API_LENGTH(0, VERSION_MAX),
     .help = "Its version.", .example = "2.31.0"},
};
static const struct kr_api_table route_table = KR_API_TABLE("ServiceInstallRequest", "What to install.", pip_fields,
    struct pip_request);
static const struct kr_api_table tool_table = KR_API_TABLE("SandboxServiceInstallInput", "What to install.",
    pip_fields, struct pip_request);

#define FOUR_PROPS \
    {.name = "success", .type = KR_API_BOOL, .help = "Whether it is installed now.", .example = "true"}, \
    {.name = "message", .type = KR_API_STRING, .help = "What was installed, or why it was not.", \
     .example = "Successfully installed requests-2.31.0"}, \
    {.name = "installed_version", .type = KR_API_STRING, .nullable = true, .help = "What is installed; null: not.", \
     .example = "2.31.0"}, \
    {.name = "installation_time", .type = KR_API_NUMBER, .help = "Seconds.", .example = "1.25"}
static const struct kr_api_prop install_props[] = {FOUR_PROPS};
static const struct kr_api_schema install_schema = KR_API_SCHEMA("ServiceInstallResult", "What became of it.",
    install_props);
static const struct kr_api_prop alias_props[] = {
    FOUR_PROPS,
    {.name = "output", .type = KR_API_STRING, .help = "What the installer printed.",
     .example = "Collecting requests\n"},
    {.name = "error", .type = KR_API_STRING, .nullable = true, .help = "Why it failed.", .example = "null"},
};
static const struct kr_api_schema alias_schema = KR_API_SCHEMA("ServiceInstallOutput", "What became of it.",
    alias_props);
#define REFUSED {400, "It must not be installed, or that is no name of a package.", NULL, &kr_api_detail_schema, \
    KR_API_DETAIL_EXAMPLE("invalid", "Package os is blocked for security reasons"), NULL}
static const struct kr_api_response install_ok[] = {
    {200, "The outcome; an installation that failed is one too.", NULL, &install_schema, NULL, NULL}, REFUSED, {0}};
static const struct kr_api_response alias_ok[] = {
    {200, "The outcome; an installation that failed is one too.", NULL, &alias_schema, NULL, NULL}, REFUSED, {0}};
const struct kr_api_doc kr_api_service_install_doc = {.id = "service_install", .tag = KR_API_TAG_002,
    .summary = "Install a package", .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_RUN, .body = &route_table,
    .body_example = "{\"package\":\"requests\",\"version\":\"latest\"}", .responses = install_ok};
const struct kr_api_doc kr_api_service_install_alias_doc = {.id = "service_install_output", .tag = KR_API_TAG_002,
    .summary = "Install a package, and show what the installer printed", .voice = KR_API_DOCUMENT,
    .needs = KR_RIGHT_RUN, .body = &route_table, .body_example = "{\"package\":\"requests\",\"version\":\"latest\"}",
    .responses = alias_ok};
/* clang-format on */

/* ---- asking ---- */

/* What one request asks for, and its answer needs. */
struct pip_ask {
    struct kr_install_refusal refusal;
    char canonical[KR_REQ_NAME_ROOM];
};

static bool is_latest(const char *version)
{
    return !version || !*version || strcmp(version, LATEST) == 0;
}

static int check_version(const char *version, struct kr_err *err)
{
    if (version[strspn(version, VERSION_CHARS)] == '\0')
        return 0;
    kr_err_set(err, KR_ERR_INVALID, 0, "Invalid version: %.80s", version);
    return -EINVAL;
}

/* "requests", or "requests==2.31.0". 0 or -errno with err. */
static int write_requirement(const struct pip_request *q, struct pip_ask *ask, json_t **ret_texts, struct kr_err *err)
{
    bool latest = is_latest(q->version);
    struct kr_requirement *requirement;
    struct kr_err why;

    if (kr_requirement_parse(q->package, strlen(q->package), &requirement, &why) < 0) {
        kr_err_set(err, KR_ERR_INVALID, 0, "Invalid package name format: %.200s", why.msg);
        return -EINVAL;
    }
    memcpy(ask->canonical, requirement->canonical, sizeof ask->canonical);
    kr_requirement_free(requirement);
    if (!latest && check_version(q->version, err) < 0)
        return -EINVAL;
    *ret_texts = json_pack("[o]", latest ? json_string(q->package) : json_sprintf("%s==%s", q->package, q->version));
    return *ret_texts ? 0 : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "packages");
}

/* As kr_install_start(). */
static int ask_for_package(struct kr_api *api, const struct kr_caller *who, const struct pip_request *q,
                           struct pip_ask *ask, struct kr_job **ret_job, struct kr_err *err)
{
    /* Who says "latest" wants that, and who says nothing what is there. */
    struct kr_install_ask install = {.sandbox = KR_STORE_DEFAULT,
                                     .op = KR_INSTALL,
                                     .upgrade = q->version_given == KR_API_VALUE && is_latest(q->version),
                                     .ret_refusal = &ask->refusal};
    json_t *texts = NULL;
    int r = write_requirement(q, ask, &texts, err);

    if (r < 0)
        return r;
    install.what.texts = texts;
    r = kr_api_packages_ask(api, who, &install, ret_job, err);
    json_decref(texts);
    return r;
}

/* ---- the route ---- */

struct pip_wait {
    struct kr_job_watch watch;
    struct kr_api *api;
    struct kr_http_ex *ex;
    struct pip_ask ask;
    uint64_t began_ns;
    bool with_output;
};

/* Takes the value. */
static void reply_outcome(struct kr_http_ex *ex, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    if (text)
        kr_http_reply(ex, 200, "application/json", text, strlen(text));
    else
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "out of memory");
    free(text);
}

/* The key of a client that waited long may have ended meanwhile: such a client gets the refusal. */
static bool may_have_answer(struct pip_wait *w)
{
    bool is_short = kr_clock_ns() - w->began_ns < KR_AUTH_LOOK_MS * UINT64_C(1000000);
    struct kr_api_who who;

    return is_short || kr_auth_still(w->api->auth, w->ex, NULL) || kr_auth_caller(w->api->auth, w->ex, &who);
}

static void on_pip_end(struct kr_job_watch *watch, const struct kr_store_job *row, const struct kr_err *err)
{
    struct pip_wait *w = (struct pip_wait *)watch; /* its first member */
    json_t *result;

    (void)err;
    if (may_have_answer(w)) {
        result = kr_install_result(w->api->install, row);
        reply_outcome(w->ex, kr_service_install_value(w->ask.canonical, row, result, w->with_output));
        json_decref(result);
    }
    free(w);
}

static void on_pip_gone(void *data, struct kr_http_ex *ex)
{
    struct pip_wait *w = data;

    (void)ex;
    kr_job_unwatch(&w->watch);
    free(w);
}

static void fail_pip(struct kr_http_ex *ex, const struct pip_ask *ask, const struct kr_err *err)
{
    if (ask->refusal.verdict == KR_PACKAGE_BLOCKED)
        kr_api_fail_status(ex, 400, "%s", err->msg); /* the document's status of what it refuses */
    else
        kr_api_fail(ex, err);
}

static void pip_install(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    static const struct kr_http_calls calls = {.on_gone = on_pip_gone};
    struct kr_api *api = app;
    struct pip_wait *w;
    struct kr_api_who who;
    struct kr_job *job;
    struct kr_err err;

    (void)in;
    if (!kr_api_caller(api, ex, &who))
        return;
    w = calloc(1, sizeof *w);
    if (!w) {
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "out of memory");
        return;
    }
    w->watch.on_end = on_pip_end;
    w->api = api;
    w->ex = ex;
    w->began_ns = kr_clock_ns();
    w->with_output = kr_http_route(ex)->doc == &kr_api_service_install_alias_doc;
    if (ask_for_package(api, &who.caller, request, &w->ask, &job, &err) < 0) {
        fail_pip(ex, &w->ask, &err);
        free(w);
        return;
    }
    kr_job_watch(job, &w->watch);
    kr_http_defer(ex, &calls, w);
}

void kr_api_service_install(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &route_table, pip_install);
}

/* ---- the tools ---- */

static void answer_outcome(struct kr_mcp_call *c, json_t *value, bool is_error)
{
    struct kr_mcp_result r;

    if (!value) {
        kr_mcp_tool_refuse(c, "out of memory");
        return;
    }
    kr_mcp_result_init(&r);
    kr_mcp_add_json(&r, value, 2);
    r.is_error = is_error;
    json_decref(value);
    kr_mcp_tool_done(c, &r);
}

static void render_pip(struct kr_mcp_call *c, const struct kr_mcp_job_state *state, void *data)
{
    const struct pip_ask *ask = data;

    answer_outcome(c, kr_service_install_value(ask->canonical, state->row, state->result, false), false);
}

static void run_pip(struct kr_mcp_call *c, const void *args)
{
    struct pip_ask *ask = calloc(1, sizeof *ask);
    struct kr_mcp_job_spec spec = {.render = render_pip, .free_data = free, .data = ask};
    struct kr_err err;
    int r;

    if (!ask) {
        kr_mcp_tool_refuse(c, "out of memory");
        return;
    }
    r = ask_for_package(kr_mcp_api(c), kr_mcp_caller(c), args, ask, &spec.job, &err);
    if (r < 0) {
        free(ask);
        answer_outcome(c, kr_service_refused_value(kr_compat_reason(&err)), true);
        return;
    }
    spec.own = r == 0;
    kr_mcp_job_follow(c, &spec);
}

#define PIP_FLAGS (KR_TOOL_TASK | KR_TOOL_IDEMPOTENT | KR_TOOL_OPEN_WORLD)
const struct kr_mcp_tool kr_tool_sandbox_service_install = {
    .name = "pip_install",
    .title = "Install a package",
    .description = "Installs a Python package into the sandbox. Answers with success, message, installed_version and "
                   "installation_time. Without a version: the latest.",
    .dialects = KR_IN_SANDBOX_SERVICE,
    .flags = PIP_FLAGS,
    .needs = KR_RIGHT_RUN,
    .input = &tool_table,
    .run = run_pip,
};
const struct kr_mcp_tool kr_tool_sandbox_service_install_post = {
    .name = "pip_install_pip_install_post",
    .title = "Install a package",
    .description = "pip_install under the name that the document's library made of its route.",
    .dialects = 0,
    .flags = PIP_FLAGS,
    .needs = KR_RIGHT_RUN,
    .input = &tool_table,
    .run = run_pip,
};

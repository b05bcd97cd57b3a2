/* Packages of a sandbox: install, uninstall, list, freeze, how it stands with one.
 *
 * Called through the route table. Invariants: what takes long is a job, answered as src/api/jobs answers all of them;
 * every sandbox is looked up among the caller's own, another's is 404. */
#include "package_routes.h"
#include "body_read.h"
#include "buf.h"
#include "job_routes.h"
#include "json.h"
#include "package_ask.h"
#include "reply.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID "01hv5k8m2nq7r9t3w6x8y0z2a4"

struct install_request {
    json_t *packages;
    struct kr_text requirements;
    bool upgrade, allow_similar, build;
    double wait;
};
struct uninstall_request {
    json_t *packages;
    double wait;
};
struct wait_query {
    double wait;
};
struct list_query {
    bool system;
};

/* ---- rows ---- */

/* clang-format off */
#define WAIT_FIELD(struct_) {.name = "wait", .type = KR_API_NUMBER, KR_API_AT(struct_, wait), .def = "0", \
     .nullable = true, KR_API_RANGE(0, KR_API_JOB_WAIT_MAX), \
     .help = "Seconds that the answer waits for the end of the job; it goes on all the same.", .example = "30"}
#define PACKAGES_FIELD(struct_, ...) {.name = "packages", .type = KR_API_STRINGS, KR_API_AT(struct_, packages), \
     KR_API_LENGTH(1, KR_REQS_MAX), __VA_ARGS__}

static const struct kr_api_field install_fields[] = {
    PACKAGES_FIELD(struct install_request, .nullable = true,
                   .help = "Each as pip knows it: name, extras, versions, marker. No addresses, paths or options. "
                           "Instead of `requirements`.",
                   .example = "[\"pandas\",\"numpy>=2\"]"),
    {.name = "requirements", .type = KR_API_TEXT, KR_API_AT(struct install_request, requirements), .nullable = true,
     KR_API_LENGTH(1, KR_REQS_TEXT_MAX), .help = "The text of a requirements.txt: comments, continued lines and "
     "`--hash` are understood, every other option is refused.", .example = "requests>=2.31\n"},
    {.name = "upgrade", .type = KR_API_BOOL, KR_API_AT(struct install_request, upgrade), .def = "false",
     .nullable = true,
     .help = "Newer versions of what is installed, where there are.", .example = "true"},
    {.name = "allow_similar", .type = KR_API_BOOL, KR_API_AT(struct install_request, allow_similar), .def = "false",
     .nullable = true,
     .help = "Names that look like those of well-known packages are meant as they are written.", .example = "true"},
    {.name = "build", .type = KR_API_BOOL, KR_API_AT(struct install_request, build), .def = "false",
     .nullable = true,
     .help = "Where there is no wheel, from source: code of the package runs. The sandbox's setting `allow_build` "
             "must be on.", .example = "false"},
    WAIT_FIELD(struct install_request),
};
static const struct kr_api_table install_table = KR_API_TABLE("PackageInstallRequest", "What to install.",
    install_fields, struct install_request);
static const struct kr_api_field uninstall_fields[] = {
    PACKAGES_FIELD(struct uninstall_request, .required = true, .help = "Names.", .example = "[\"pandas\"]"),
    WAIT_FIELD(struct uninstall_request),
};
static const struct kr_api_table uninstall_table = KR_API_TABLE("PackageUninstallRequest", "What to uninstall.",
    uninstall_fields, struct uninstall_request);
static const struct kr_api_field wait_fields[] = {WAIT_FIELD(struct wait_query)};
static const struct kr_api_table wait_table = KR_API_TABLE(NULL, "How long to wait.", wait_fields, struct wait_query);
static const struct kr_api_field list_fields[] = {
    {.name = "system", .type = KR_API_BOOL, KR_API_AT(struct list_query, system), .def = "false",
     .help = "Also what comes with the server's Python.", .example = "true"},
};
static const struct kr_api_table list_table = KR_API_TABLE(NULL, "Which packages.", list_fields, struct list_query);

static const struct kr_api_prop package_props[] = {
    {.name = "name", .type = KR_API_STRING, .help = "As the package calls itself.", .example = "requests"},
    {.name = "version", .type = KR_API_STRING, .help = "Its version.", .example = "2.31.0"},
    {.name = "requested", .type = KR_API_BOOL, .help = "It was asked for; else another one needs it.",
     .example = "true"},
    {.name = "system", .type = KR_API_BOOL, .help = "It comes with the server's Python: it is in every sandbox, and "
     "cannot be uninstalled.", .example = "false"},
    {.name = "file", .type = KR_API_STRING, .nullable = true, .help = "The wheel; null: not known.",
     .example = "requests-2.31.0-py3-none-any.whl"},
    {.name = "index", .type = KR_API_STRING, .nullable = true, .help = "Where the wheel came from.",
     .example = "https://pypi.org/simple/"},
    {.name = "sha256", .type = KR_API_STRING, .nullable = true, .help = "Of the wheel.",
     .example = "58cd2187c01e70e6e26505bca751777aa9f2ee0b7f4300988b709f44e013003f"},
};
static const struct kr_api_schema package_schema = KR_API_SCHEMA("Package", "A package that is installed.",
    package_props);
static const struct kr_api_prop list_props[] = {
    {.name = "packages", .type = KR_API_ARRAY, .of = &package_schema, .help = "By name; those of the system last."},
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("Packages", "What is installed.", list_props);
static const struct kr_api_prop status_props[] = {
    {.name = "name", .type = KR_API_STRING, .help = "As it was asked for.", .example = "requests"},
    {.name = "state", .type = KR_API_ENUM, .choices = kr_install_state_names,
     .help = "`success` and `failed` tell of the last job that named it; `installed`: it is there, and no job that is "
             "known has named it.", .example = "success"},
    {.name = "version", .type = KR_API_STRING, .nullable = true, .help = "Installed now; null: it is not.",
     .example = "2.31.0"},
    {.name = "job_id", .type = KR_API_STRING, .nullable = true, .help = "Of the last job that named it.",
     .example = ID},
    {.name = "text", .type = KR_API_STRING, .nullable = true, .help = "How far it is, or why it failed.",
     .example = "null"},
    {.name = "started_at", .type = KR_API_NUMBER, .nullable = true, .help = "Of that job; Unix time.",
     .example = "1763200000.1"},
    {.name = "ended_at", .type = KR_API_NUMBER, .nullable = true, .help = "Of that job; null: it has not ended.",
     .example = "1763200002.4"},
};
static const struct kr_api_schema status_schema = KR_API_SCHEMA("PackageStatus", "How it stands with a package.",
    status_props);

static const struct kr_api_param sandbox_params[] = {{"sandbox_id", "The sandbox's id, or its name.", "default"}, {0}};
static const struct kr_api_param package_params[] = {{"sandbox_id", "The sandbox's id, or its name.", "default"},
    {"package", "The package's name.", "requests"}, {0}};
#define REFUSED {403, "It is on the block list, or packages may not be installed here.", NULL, &kr_api_error_schema, \
    "{\"error\":{\"kind\":\"denied\",\"message\":\"Package os is blocked for security reasons\",\"field\":null," \
    "\"request_id\":\"7f3a\"}}", NULL}
static const struct kr_api_response job_ok[] = {KR_API_JOB_RESPONSES, REFUSED, {0}};
static const struct kr_api_response list_ok[] = {{200, "The packages.", NULL, &list_schema, NULL, NULL}, {0}};
static const struct kr_api_response status_ok[] = {{200, "How it stands.", NULL, &status_schema, NULL, NULL}, {0}};
static const struct kr_api_response freeze_ok[] = {{200, "A line for each package of the sandbox.", "text/plain", NULL,
    "requests==2.31.0\n", NULL}, {0}};

#define DOC(id_, summary_, needs_) .id = (id_), .tag = "packages", .summary = (summary_), .voice = KR_API_KRAIT, \
    .needs = (needs_)
const struct kr_api_doc kr_api_packages_get_doc = {DOC("list_packages", "List a sandbox's packages", KR_RIGHT_READ),
    .params = sandbox_params, .query = &list_table, .responses = list_ok};
const struct kr_api_doc kr_api_packages_install_doc = {DOC("install_packages", "Install packages into a sandbox",
    KR_RIGHT_RUN),
    .description = "A job: one of a sandbox runs at a time, and one that is asked for the same joins it. Live sessions "
                   "find what is new at their next import. The job's result names what was installed, from which "
                   "file and index, with its hash.",
    .params = sandbox_params, .body = &install_table, .body_example = "{\"packages\":[\"pandas\",\"numpy>=2\"]}",
    .responses = job_ok};
const struct kr_api_doc kr_api_packages_uninstall_doc = {DOC("uninstall_packages", "Uninstall packages of a sandbox",
    KR_RIGHT_RUN),
    .params = sandbox_params, .body = &uninstall_table, .responses = job_ok};
const struct kr_api_doc kr_api_package_get_doc = {DOC("package_status", "Tell how it stands with a package",
    KR_RIGHT_READ), .params = package_params, .responses = status_ok};
const struct kr_api_doc kr_api_package_delete_doc = {DOC("uninstall_package", "Uninstall a package of a sandbox",
    KR_RIGHT_RUN), .params = package_params, .query = &wait_table, .responses = job_ok};
const struct kr_api_doc kr_api_requirements_get_doc = {DOC("freeze_packages", "A sandbox's packages as a "
    "requirements.txt", KR_RIGHT_READ), .params = sandbox_params, .responses = freeze_ok};
/* clang-format on */

/* ---- install, uninstall ---- */

static void ask_and_answer(struct kr_api *api, struct kr_http_ex *ex, struct kr_install_ask *ask, double wait_s)
{
    struct kr_api_who who;
    struct kr_job *job;
    struct kr_err err;

    if (!kr_api_caller(api, ex, &who))
        return;
    ask->sandbox = kr_http_param(ex, "sandbox_id");
    if (kr_api_packages_ask(api, &who.caller, ask, &job, &err) < 0)
        kr_api_fail(ex, &err);
    else
        kr_api_job_answer(api, ex, job, (uint64_t)(wait_s * 1000));
}

static void install_packages(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct install_request *q = request;
    struct kr_install_ask ask = {.op = KR_INSTALL,
                                 .what = {.texts = q->packages, .file = q->requirements.text},
                                 .upgrade = q->upgrade,
                                 .allow_similar = q->allow_similar,
                                 .build = q->build};
    struct kr_err err;

    if (!q->packages == !q->requirements.text) {
        kr_api_refuse(in, "packages", &err, "or `requirements`: exactly one of them says what to install");
        kr_api_fail_input(ex, in, &err);
        return;
    }
    ask_and_answer(app, ex, &ask, q->wait);
}

void kr_api_packages_install(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &install_table, install_packages);
}

static void uninstall_packages(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct uninstall_request *q = request;
    struct kr_install_ask ask = {.op = KR_UNINSTALL, .what = {.texts = q->packages}};

    (void)in;
    ask_and_answer(app, ex, &ask, q->wait);
}

void kr_api_packages_uninstall(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &uninstall_table, uninstall_packages);
}

void kr_api_package_delete(struct kr_http_ex *ex, void *app)
{
    cleanup_input struct kr_api_input in = {0};
    struct kr_install_ask ask = {.op = KR_UNINSTALL};
    struct wait_query q;
    json_t *texts;

    if (!kr_api_read_query(ex, &wait_table, &q, &in))
        return;
    texts = json_pack("[s]", kr_http_param(ex, "package"));
    ask.what.texts = texts;
    ask_and_answer(app, ex, &ask, q.wait);
    json_decref(texts);
}

/* ---- looking ---- */

/* A request that waits for a look at the disk. */
struct package_look {
    struct kr_http_ex *ex;
    struct kr_install_task *task;
    char *name; /* of the package, owned; NULL: all */
};

static void close_look(struct package_look *l)
{
    free(l->name);
    free(l);
}

static void on_looker_gone(void *data, struct kr_http_ex *ex)
{
    struct package_look *l = data;

    (void)ex;
    kr_install_task_forget(l->task);
    close_look(l);
}

/* The caller and what waits for it, or NULL: answered. */
static struct package_look *new_look(struct kr_api *api, struct kr_http_ex *ex, const char *name,
                                     struct kr_api_who *ret_who)
{
    struct package_look *l;

    if (!kr_api_caller(api, ex, ret_who))
        return NULL;
    l = calloc(1, sizeof *l);
    if (!l || (name && !(l->name = strdup(name)))) {
        free(l);
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "out of memory");
        return NULL;
    }
    l->ex = ex;
    return l;
}

/* r: what kr_install_… said. */
static void await_look(struct package_look *l, int r, const struct kr_err *err)
{
    static const struct kr_http_calls calls = {.on_gone = on_looker_gone};

    if (r >= 0) {
        kr_http_defer(l->ex, &calls, l);
        return;
    }
    kr_api_fail(l->ex, err);
    close_look(l);
}

/* Takes the value. */
static void reply_value(struct kr_http_ex *ex, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    if (text)
        kr_http_reply(ex, 200, "application/json", text, strlen(text));
    else
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "out of memory");
    free(text);
}

static void on_packages_listed(void *data, const struct kr_install_listing *listing, const struct kr_err *err)
{
    struct package_look *l = data;

    if (listing)
        reply_value(l->ex, json_pack("{s:o}", "packages", kr_api_packages_value(listing, true)));
    else
        kr_api_fail(l->ex, err);
    close_look(l);
}

void kr_api_packages_get(struct kr_http_ex *ex, void *app)
{
    cleanup_input struct kr_api_input in = {0};
    struct list_query q;
    struct package_look *l;
    struct kr_api_who who;
    struct kr_err err;

    if (!kr_api_read_query(ex, &list_table, &q, &in) || !(l = new_look(app, ex, NULL, &who)))
        return;
    await_look(l,
               kr_api_packages_list(app, &who.caller, kr_http_param(ex, "sandbox_id"), q.system, on_packages_listed, l,
                                    &l->task, &err),
               &err);
}

static void on_packages_frozen(void *data, const struct kr_install_listing *listing, const struct kr_err *err)
{
    struct package_look *l = data;
    cleanup_buf struct kr_buf text = {0};

    kr_buf_init(&text, KR_API_REPLY_MAX);
    if (!listing)
        kr_api_fail(l->ex, err);
    else if (kr_package_list_freeze(listing->environment, NULL, 0, &text) < 0)
        kr_api_fail_with(l->ex, KR_ERR_INTERNAL, "out of memory");
    else
        kr_http_reply(l->ex, 200, "text/plain; charset=utf-8", kr_buf_str(&text), text.len);
    close_look(l);
}

void kr_api_requirements_get(struct kr_http_ex *ex, void *app)
{
    struct package_look *l;
    struct kr_api_who who;
    struct kr_err err;

    if (!(l = new_look(app, ex, NULL, &who)))
        return;
    await_look(l,
               kr_api_packages_list(app, &who.caller, kr_http_param(ex, "sandbox_id"), false, on_packages_frozen, l,
                                    &l->task, &err),
               &err);
}

static void on_package_status(void *data, const struct kr_install_status *status, const struct kr_err *err)
{
    struct package_look *l = data;

    if (status)
        reply_value(l->ex, kr_api_package_status_value(l->name, status));
    else
        kr_api_fail(l->ex, err);
    close_look(l);
}

void kr_api_package_get(struct kr_http_ex *ex, void *app)
{
    const char *name = kr_http_param(ex, "package");
    struct package_look *l;
    struct kr_api_who who;
    struct kr_err err;

    if (!(l = new_look(app, ex, name, &who)))
        return;
    await_look(l,
               kr_api_packages_status(app, &who.caller, kr_http_param(ex, "sandbox_id"), name, on_package_status, l,
                                      &l->task, &err),
               &err);
}

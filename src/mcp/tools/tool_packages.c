/* Our tools about packages: install, uninstall, list, how it stands with one. Called through THE table of tools.
 *
 * Invariants: an install is a job; the call waits for it as for a run (exec_job.h), and is answered with how far it is
 * before clients give up. What pip printed is shown only where something failed. */
#include "api.h"
#include "buf.h"
#include "err.h"
#include "exec_job.h"
#include "mcp.h"
#include "package_ask.h"
#include "render.h"
#include "tool_rows.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 50u      /* packages named in one line */
#define OUTPUT_SHOWN 3000u /* characters of what pip printed, of a failure */
#define TEXT_MAX (256u << 10)

struct install_args {
    struct kr_text packages;
    const char *sandbox;
    bool upgrade, allow_similar;
};
struct uninstall_args {
    struct kr_text packages;
    const char *sandbox;
};
struct list_args {
    const char *sandbox;
};
struct status_args {
    const char *package, *sandbox;
};

/* clang-format off */
#define SANDBOX(struct_) {.name = "sandbox_id", .type = KR_API_STRING, .tacit = true, \
     KR_API_AT(struct struct_, sandbox), .nullable = true, KR_API_LENGTH(1, 64), \
     .aliases = (const char *const[]){"sandbox", NULL}, .help = "Id or name; else `default`.", .example = "default"}
static const struct kr_api_field install_fields[] = {
    {.name = "packages", .type = KR_API_TEXT, KR_API_AT(struct install_args, packages), .required = true,
     .aliases = (const char *const[]){"package_names", "package_name", "package", "requirements", NULL},
     .help = "As for pip; or a requirements.txt.", .example = "pandas numpy>=2"},
    SANDBOX(install_args),
    {.name = "upgrade", .type = KR_API_BOOL, .tacit = true, KR_API_AT(struct install_args, upgrade), .nullable = true,
     .help = "Newer versions of what is installed, where there are.", .example = "true"},
    {.name = "allow_similar", .type = KR_API_BOOL, .tacit = true, KR_API_AT(struct install_args, allow_similar),
     .nullable = true, .help = "A name that looks like a well-known one is meant as it is written.", .example = "true"},
};
static const struct kr_api_table install_table = KR_API_TABLE("InstallPackageInput", "What to install.",
    install_fields, struct install_args);
static const struct kr_api_field uninstall_fields[] = {
    {.name = "packages", .type = KR_API_TEXT, KR_API_AT(struct uninstall_args, packages), .required = true,
     .aliases = (const char *const[]){"package_names", "package_name", "package", NULL},
     .help = "Names between blanks.", .example = "pandas"},
    SANDBOX(uninstall_args),
};
static const struct kr_api_table uninstall_table = KR_API_TABLE("UninstallPackageInput", "What to uninstall.",
    uninstall_fields, struct uninstall_args);
static const struct kr_api_field list_fields[] = {
    SANDBOX(list_args),
};
static const struct kr_api_table list_table = KR_API_TABLE("ListInstalledPackagesInput", "Which packages.",
    list_fields, struct list_args);
static const struct kr_api_field status_fields[] = {
    {.name = "package_name", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct status_args, package),
     .required = true, KR_API_LENGTH(1, KR_REQ_MAX), .aliases = (const char *const[]){"package", NULL},
     .help = "Its name.", .example = "pandas"},
    SANDBOX(status_args),
};
static const struct kr_api_table status_table = KR_API_TABLE("PackageStatusInput", "Which package.", status_fields,
    struct status_args);

static const struct kr_api_prop named_props[] = {
    {.name = "name", .type = KR_API_STRING, .help = "Of the package.", .example = "requests"},
    {.name = "version", .type = KR_API_STRING, .help = "Of the package.", .example = "2.31.0"},
};
static const struct kr_api_schema named_schema = {.name = "NamedPackageOutput", .help = "A package.",
    .props = named_props, .count = sizeof named_props / sizeof *named_props, .open = true};
static const struct kr_api_prop job_props[] = {
    {.name = "job_id", .type = KR_API_STRING, .help = "The job.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "still_running", .type = KR_API_BOOL, .help = "It goes on.",
     .example = "false"},
    {.name = "ok", .type = KR_API_BOOL, .optional = true, .help = "It ended well.", .example = "true"},
    {.name = "installed", .type = KR_API_ARRAY, .optional = true, .of = &named_schema, .help = "New, or replaced."},
    {.name = "error", .type = KR_API_STRING, .optional = true, .help = "Why it failed.",
     .example = "No matching distribution found for nonsense"},
};
static const struct kr_api_schema job_schema = {.name = "PackageJobOutput", .help = "What became of the packages.",
    .props = job_props, .count = sizeof job_props / sizeof *job_props, .open = true};
static const struct kr_api_prop list_props[] = {
    {.name = "packages", .type = KR_API_ARRAY, .of = &named_schema, .help = "What is installed."},
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("ListInstalledPackagesOutput", "What is installed.",
    list_props);
static const struct kr_api_prop status_props[] = {
    {.name = "name", .type = KR_API_STRING, .help = "As it was asked for.", .example = "pandas"},
    {.name = "state", .type = KR_API_ENUM, .choices = kr_install_state_names,
     .help = "Of the last job that named it, or what is there.", .example = "success"},
    {.name = "version", .type = KR_API_STRING, .nullable = true, .help = "Installed now.", .example = "2.2.0"},
    {.name = "job_id", .type = KR_API_STRING, .nullable = true, .help = "That job.",
     .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "text", .type = KR_API_STRING, .nullable = true, .help = "How far it is, or why it failed.",
     .example = "null"},
    {.name = "started_at", .type = KR_API_NUMBER, .nullable = true, .help = "Unix time.", .example = "1763200000.1"},
    {.name = "ended_at", .type = KR_API_NUMBER, .nullable = true, .help = "Unix time.", .example = "1763200002.4"},
};
static const struct kr_api_schema status_schema = KR_API_SCHEMA("PackageStatusOutput", "How it stands with it.",
    status_props);
/* clang-format on */

/* ---- what a model reads of a job ---- */

/* "Installed: requests 2.31.0, urllib3 2.0.7 (was 1.26.5)\n", unless there are none. */
static void tell_packages(struct kr_buf *out, const char *what, const json_t *list)
{
    const json_t *item;
    size_t i;

    if (json_array_size(list) == 0)
        return;
    kr_buf_printf(out, "%s: ", what);
    json_array_foreach(list, i, item)
    {
        const char *was = json_string_value(json_object_get(item, "was"));

        if (i == SHOWN_MAX) {
            kr_buf_printf(out, " and %zu more", json_array_size(list) - i);
            break;
        }
        kr_buf_printf(out, "%s%s %s%s%s%s", i > 0 ? ", " : "", json_string_value(json_object_get(item, "name")),
                      json_string_value(json_object_get(item, "version")), was ? " (was " : "", was ? was : "",
                      was ? ")" : "");
    }
    kr_buf_add_str(out, "\n");
}

static void tell_success(struct kr_buf *out, const json_t *result)
{
    const json_t *notes = json_object_get(result, "notes");

    tell_packages(out, "Installed", json_object_get(result, "installed"));
    tell_packages(out, "Removed", json_object_get(result, "removed"));
    tell_packages(out, "Already there", json_object_get(result, "satisfied"));
    if (out->len == 0)
        kr_buf_add_str(out, "Nothing was to be done.\n");
    for (size_t i = 0; i < json_array_size(notes); i++)
        kr_buf_printf(out, "[%s]\n", json_string_value(json_array_get(notes, i)));
    if (json_is_true(json_object_get(result, "restart")))
        kr_buf_add_str(out, "[running sessions keep what they have imported already: terminate_session for the new "
                            "versions]\n");
}

static void tell_failure(struct kr_buf *out, const struct kr_mcp_job_state *state)
{
    const char *error = json_string_value(json_object_get(state->result, "error"));
    const char *output = json_string_value(json_object_get(state->result, "output"));
    size_t head;

    kr_buf_printf(out, "%s\n", error ? error : state->row->message[0] ? state->row->message : state->row->cause);
    if (output && *output) {
        kr_buf_add_str(out, "[output]\n");
        (void)kr_mcp_clip_text(out, output, strlen(output), OUTPUT_SHOWN, &head);
    }
}

/* Of the structure; what pip printed is left out. NULL: no memory. */
static json_t *job_value(const struct kr_mcp_job_state *state)
{
    const struct kr_store_job *row = state->row;
    json_t *value = json_pack("{s:s, s:b}", "job_id", row->id, "still_running", row->ended == 0);

    if (value && state->result)
        json_object_update_missing(value, (json_t *)state->result);
    else if (value && row->ended)
        json_object_update_new(value, json_pack("{s:b, s:s}", "ok", 0, "error", row->message));
    json_object_del(value, "output");
    return value;
}

static void render_package_job(struct kr_mcp_call *c, const struct kr_mcp_job_state *state, void *data)
{
    bool good = json_is_true(json_object_get(state->result, "ok"));
    cleanup_buf struct kr_buf text = {0};
    char far[KR_MCP_JOB_TEXT_ROOM];
    struct kr_mcp_result r;

    (void)data;
    kr_buf_init(&text, TEXT_MAX);
    if (!state->row->ended)
        kr_buf_printf(&text,
                      "It goes on: %s. check_package_installation_status with a package's name tells when it has "
                      "ended.",
                      kr_mcp_job_text(state->row, far));
    else if (good)
        tell_success(&text, state->result);
    else
        tell_failure(&text, state);
    kr_mcp_result_init(&r);
    kr_mcp_add_text(&r, kr_buf_str(&text), text.len);
    r.structured = job_value(state);
    r.is_error = state->row->ended && !good;
    kr_mcp_tool_done(c, &r);
}

static void ask_packages(struct kr_mcp_call *c, const struct kr_install_ask *ask)
{
    struct kr_mcp_job_spec spec = {.answer_after_ms = kr_mcp_answer_after(c), .render = render_package_job};
    struct kr_err err;
    int r = kr_api_packages_ask(kr_mcp_api(c), kr_mcp_caller(c), ask, &spec.job, &err);

    spec.own = r == 0;
    if (r < 0)
        kr_mcp_tool_fail(c, &err);
    else
        kr_mcp_job_follow(c, &spec);
}

static void run_install_package(struct kr_mcp_call *c, const void *args)
{
    const struct install_args *a = args;
    struct kr_install_ask ask = {
        .sandbox = a->sandbox, .op = KR_INSTALL, .upgrade = a->upgrade, .allow_similar = a->allow_similar};

    if (strchr(a->packages.text, '\n')) /* comments, --hash: as a file is read */
        ask.what.file = a->packages.text;
    else
        ask.what.line = a->packages.text;
    ask_packages(c, &ask);
}

static void run_uninstall_package(struct kr_mcp_call *c, const void *args)
{
    const struct uninstall_args *a = args;
    const struct kr_install_ask ask = {.sandbox = a->sandbox, .op = KR_UNINSTALL, .what = {.line = a->packages.text}};

    ask_packages(c, &ask);
}

/* ---- looking ---- */

/* A call that waits for a look at the disk. */
struct package_look {
    struct kr_mcp_call *call;
    struct kr_install_task *task;
    char *name; /* of the package, owned; NULL: all */
};

static void close_look(struct package_look *l)
{
    free(l->name);
    free(l);
}

static void on_look_cancelled(void *data, struct kr_mcp_call *c)
{
    struct package_look *l = data;

    (void)c;
    kr_install_task_forget(l->task);
    close_look(l);
}

/* NULL: no memory, and it is answered. */
static struct package_look *new_look(struct kr_mcp_call *c, const char *name)
{
    struct package_look *l = calloc(1, sizeof *l);

    if (!l || (name && !(l->name = strdup(name)))) {
        free(l);
        kr_mcp_tool_refuse(c, "out of memory");
        return NULL;
    }
    l->call = c;
    return l;
}

static void await_look(struct package_look *l, int r, const struct kr_err *err)
{
    if (r >= 0) {
        kr_mcp_on_cancel(l->call, on_look_cancelled, l);
        return;
    }
    kr_mcp_tool_fail(l->call, err);
    close_look(l);
}

static void on_listed_for_tool(void *data, const struct kr_install_listing *listing, const struct kr_err *err)
{
    struct package_look *l = data;
    cleanup_buf struct kr_buf text = {0};
    struct kr_mcp_result r;

    kr_buf_init(&text, TEXT_MAX);
    if (listing) {
        (void)kr_package_list_columns(listing->environment, listing->system, listing->system_count, &text);
        if (text.len == 0)
            kr_buf_add_str(&text, "No packages are installed.");
        kr_mcp_result_init(&r);
        kr_mcp_add_text(&r, kr_buf_str(&text), text.len);
        r.structured = json_pack("{s:o}", "packages", kr_api_packages_value(listing, true));
        kr_mcp_tool_done(l->call, &r);
    } else {
        kr_mcp_tool_fail(l->call, err);
    }
    close_look(l);
}

static void run_list_packages(struct kr_mcp_call *c, const void *args)
{
    const struct list_args *a = args;
    struct package_look *l = new_look(c, NULL);
    struct kr_err err;

    if (l)
        await_look(l,
                   kr_api_packages_list(kr_mcp_api(c), kr_mcp_caller(c), a->sandbox, true, on_listed_for_tool, l,
                                        &l->task, &err),
                   &err);
}

static void on_status_for_tool(void *data, const struct kr_install_status *status, const struct kr_err *err)
{
    struct package_look *l = data;
    struct kr_mcp_result r;

    if (status) {
        kr_mcp_result_init(&r);
        r.structured = kr_api_package_status_value(l->name, status);
        kr_mcp_add_json(&r, r.structured, 0);
        kr_mcp_tool_done(l->call, &r);
    } else {
        kr_mcp_tool_fail(l->call, err);
    }
    close_look(l);
}

static void run_package_status(struct kr_mcp_call *c, const void *args)
{
    const struct status_args *a = args;
    struct package_look *l = new_look(c, a->package);
    struct kr_err err;

    if (l)
        await_look(l,
                   kr_api_packages_status(kr_mcp_api(c), kr_mcp_caller(c), a->sandbox, a->package, on_status_for_tool,
                                          l, &l->task, &err),
                   &err);
}

/* ---- rows ---- */

const struct kr_mcp_tool kr_tool_install_package = {
    .name = "install_package",
    .title = "Install packages",
    .description = "Installs Python packages.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_CORE | KR_TOOL_TASK | KR_TOOL_OPEN_WORLD,
    .needs = KR_RIGHT_RUN,
    .input = &install_table,
    .output = &job_schema,
    .run = run_install_package,
};
const struct kr_mcp_tool kr_tool_uninstall_package = {
    .name = "uninstall_package",
    .title = "Uninstall packages",
    .description = "Uninstalls packages of a sandbox; those of the server's Python stay.",
    .dialects = KR_UNLISTED,
    .flags = KR_TOOL_TASK | KR_TOOL_DESTRUCTIVE | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .input = &uninstall_table,
    .output = &job_schema,
    .run = run_uninstall_package,
};
const struct kr_mcp_tool kr_tool_list_packages = {
    .name = "list_installed_packages",
    .title = "List packages",
    .description = "Lists Python packages.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .input = &list_table,
    .output = &list_schema,
    .run = run_list_packages,
};
const struct kr_mcp_tool kr_tool_package_status = {
    .name = "check_package_installation_status",
    .title = "Package status",
    .description = "Tells how an installation stands.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .input = &status_table,
    .output = &status_schema,
    .run = run_package_status,
};

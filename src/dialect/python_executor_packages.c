/* install_package and list_installed_packages of document 003 (python-executor): answers that are one text for people.
 * Called through THE table of tools.
 *
 * The call waits for the end of the job, five minutes at most, as the document's server does. */
#include "dialect_results.h"
#include "dialect_tools.h"
#include "err.h"
#include "exec_job.h"
#include "package_ask.h"
#include "package_shapes.h"
#include <stdlib.h>
#include <string.h>

#define LIMIT_MS (5u * 60 * 1000) /* the text of package_shapes.c names it */
#define TEXT_MAX (1u << 20)

struct install_args {
    struct kr_text packages;
};

/* clang-format off */
static const struct kr_api_field install_fields[] = {
    {.name = "package_names", .type = KR_API_TEXT, KR_API_AT(struct install_args, packages), .required = true,
     .aliases = (const char *const[]){"packages", "package_name", "package", NULL},
     .help = "Names between blanks, with versions where they matter.", .example = "pandas requests>=2.28.0"},
};
static const struct kr_api_table install_table = KR_API_TABLE("PythonExecutorInstallInput", "What to install.",
    install_fields, struct install_args);
/* clang-format on */

static void render_executor_install(struct kr_mcp_call *c, const struct kr_mcp_job_state *state, void *data)
{
    cleanup_buf struct kr_buf text = {0};

    kr_buf_init(&text, TEXT_MAX);
    kr_executor_install_text(&text, data, state->row, state->result, state->timed_out);
    kr_compat_answer_text(c, kr_buf_str(&text), text.len, NULL);
}

static void answer_plain(struct kr_mcp_call *c, const char *before, const char *text)
{
    cleanup_buf struct kr_buf whole = {0};

    kr_buf_init(&whole, 4096);
    kr_buf_printf(&whole, "%s%s", before, text);
    kr_compat_answer_text(c, kr_buf_str(&whole), whole.len, NULL);
}

static void run_executor_install(struct kr_mcp_call *c, const void *args)
{
    const struct install_args *a = args;
    const struct kr_install_ask ask = {
        .sandbox = KR_STORE_DEFAULT, .op = KR_INSTALL, .what = {.line = a->packages.text}};
    struct kr_mcp_job_spec spec = {.limit_ms = LIMIT_MS, .render = render_executor_install, .free_data = free};
    struct kr_err err;
    int r;

    if (a->packages.text[strspn(a->packages.text, " \t\r\n")] == '\0') {
        answer_plain(c, "Error: ", "No package names provided");
        return;
    }
    spec.data = strdup(a->packages.text);
    if (!spec.data) {
        answer_plain(c, "Error: ", "out of memory");
        return;
    }
    r = kr_api_packages_ask(kr_mcp_api(c), kr_mcp_caller(c), &ask, &spec.job, &err);
    if (r < 0) {
        free(spec.data);
        answer_plain(c, "Installation failed:\n", kr_compat_reason(&err));
        return;
    }
    spec.own = r == 0;
    kr_mcp_job_follow(c, &spec);
}

/* ---- list ---- */

/* A call that waits for a look at the disk. */
struct executor_look {
    struct kr_mcp_call *call;
    struct kr_install_task *task;
};

static void on_executor_listed(void *data, const struct kr_install_listing *listing, const struct kr_err *err)
{
    struct executor_look *l = data;
    cleanup_buf struct kr_buf text = {0};

    kr_buf_init(&text, TEXT_MAX);
    if (listing)
        (void)kr_package_list_columns(listing->environment, listing->system, listing->system_count, &text);
    else
        kr_buf_printf(&text, "Error: %s", kr_compat_reason(err));
    if (text.len == 0)
        kr_buf_add_str(&text, "No packages installed (besides defaults).");
    kr_compat_answer_text(l->call, kr_buf_str(&text), text.len, NULL);
    free(l);
}

static void on_executor_look_cancelled(void *data, struct kr_mcp_call *c)
{
    struct executor_look *l = data;

    (void)c;
    kr_install_task_forget(l->task);
    free(l);
}

static void run_executor_list(struct kr_mcp_call *c, const void *args)
{
    struct executor_look *l = calloc(1, sizeof *l);
    struct kr_err err;

    (void)args;
    if (!l) {
        answer_plain(c, "Error: ", "out of memory");
        return;
    }
    l->call = c;
    if (kr_api_packages_list(kr_mcp_api(c), kr_mcp_caller(c), KR_STORE_DEFAULT, true, on_executor_listed, l, &l->task,
                             &err) < 0) {
        free(l);
        answer_plain(c, "Error: ", kr_compat_reason(&err));
        return;
    }
    kr_mcp_on_cancel(c, on_executor_look_cancelled, l);
}

const struct kr_mcp_tool kr_tool_python_executor_install = {
    .name = "install_package",
    .title = "Install packages",
    .description =
        "Installs Python packages into the sandbox; they stay until reset_sandbox. Several names between blanks, with "
        "versions where they matter: pandas requests>=2.28.0",
    .dialects = KR_IN_PYTHON_EXECUTOR,
    .flags = KR_TOOL_TASK | KR_TOOL_IDEMPOTENT | KR_TOOL_OPEN_WORLD,
    .needs = KR_RIGHT_RUN,
    .input = &install_table,
    .run = run_executor_install,
};
const struct kr_mcp_tool kr_tool_python_executor_list = {
    .name = "list_installed_packages",
    .title = "List packages",
    .description = "Lists all installed packages of the sandbox, as pip does.",
    .dialects = KR_IN_PYTHON_EXECUTOR,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .run = run_executor_list,
};

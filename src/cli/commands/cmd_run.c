/* `krait run`: a sandboxed python3.
 *
 * Called from main.c. What needs the caller's rights (reading the program, opening the folders) happens here, in the
 * process as started; then that process becomes the warden, and run_app.c does the rest in the engine. Invariant:
 * nothing is started before every argument has been found right. */
#include "commands.h"
#include "config.h"
#include "egress_start.h"
#include "exit_status.h"
#include "fd.h"
#include "install_cell.h"
#include "run_app.h"
#include "run_needs.h"
#include "streams.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX_URL "https://pypi.org/simple/"
#define CELLS_MAX 8u /* one, and those of it that were lost with their zygote and tried again */
#define EQUIPPED_CELLS_MAX 32u
#define CELL_OUTPUT_MAX (UINT64_C(2) << 30) /* bytecode of a wheel comes as output */

/* clang-format off */
#define AT(field) offsetof(struct kr_run_options, field)
static const struct kr_opt_row rows[] = {
    { .name = "code", .letter = 'c', .type = KR_OPT_LAST, .offset = AT(code), .value = "CODE", .example = "'print(1)'",
      .help = "Run this code; everything behind it are its arguments." },
    { .name = "workspace", .type = KR_OPT_TEXT, .offset = AT(workspace), .value = "DIR",
      .fallback = "a throw-away one", .example = ".",
      .help = "A folder that is /workspace inside: files in and out, imports beside the program." },
    { .name = "read-only", .type = KR_OPT_FLAG, .offset = AT(read_only), .example = "--read-only",
      .help = "The folder of --workspace cannot be changed from inside." },
    { .name = "preload", .type = KR_OPT_CHOICE, .offset = AT(preload), .value = "WHAT", .choices = kr_cli_preloads,
      .fallback = "basic", .example = "data",
      .help = "What is imported beforehand: basic, or data (numpy, pandas, scipy, matplotlib)." },
    { .name = "network", .type = KR_OPT_TEXT, .offset = AT(network), .value = "RULE", .fallback = "none",
      .example = "allow:pypi.org",
      .help = "none; loopback: nothing but 127.0.0.1 of its own; index: the package index, too (PIP_INDEX_URL); "
              "allow:HOST,…: those hosts, too; open: every public address." },
    { .name = "policy", .type = KR_OPT_CHOICE, .offset = AT(policy), .value = "MODE", .choices = kr_policy_names,
      .fallback = "open", .example = "restricted",
      .help = "open; or restricted: the program is judged before it runs and watched while it runs." },
    { .name = "profile", .type = KR_OPT_LIST, .offset = AT(profiles), .value = "NAME",
      .example = "data_science,filesystem",
      .help = "What restricted allows beside basic: data_science, network, filesystem; may be given again. Without "
              "network there is no network, without filesystem /workspace is read-only." },
    { .name = "allowed-imports", .type = KR_OPT_LIST, .offset = AT(allowed_imports), .value = "LIST",
      .example = "math,json",
      .help = "Modules that may be imported, in the place of those of the profiles; may be given again." },
    { .name = "env", .letter = 'e', .type = KR_OPT_LIST, .offset = AT(env), .value = "K=V", .example = "DEBUG=1",
      .help = "Set a variable of the environment; may be given again." },
    { .name = "with", .type = KR_OPT_LIST, .offset = AT(with), .value = "PACKAGE", .example = "'rich>=13'",
      .help = "A package that the program needs, as pip has it; may be given again. Implies --packages." },
    { .name = "requirements", .type = KR_OPT_TEXT, .offset = AT(requirements), .value = "FILE",
      .example = "requirements.txt", .help = "A requirements.txt of what the program needs. Implies --packages." },
    { .name = "packages", .type = KR_OPT_FLAG, .offset = AT(packages), .example = "--packages",
      .help = "The program has an environment of its own, /venv, which is gone with it: what its `# /// script` block "
              "names is installed first, and pip and uv work in it. From the index of PIP_INDEX_URL, else PyPI." },
    { .name = "cache", .type = KR_OPT_TEXT, .offset = AT(cache), .value = "DIR",
      .fallback = "~/.cache/krait", .example = "/tmp/krait-cache",
      .help = "Where unpacked wheels are kept for the next program that needs them." },
    { .name = "figures", .type = KR_OPT_TEXT, .offset = AT(figures), .value = "DIR", .example = "figures",
      .help = "Save displayed figures there as figure-1.png and so on." },
    { .name = "json", .type = KR_OPT_FLAG, .offset = AT(json), .example = "--json",
      .help = "Print one JSON object with cause, output, error, figures and usage instead of the output itself." },
    KR_CLI_COMMON_ROWS(struct kr_run_options),
};
/* clang-format on */

const struct kr_opt_table kr_run_options_table = {
    .command = "run",
    .usage = "[options] FILE|-|-c CODE [args...]",
    .about = "Runs a Python program as python3 would, in a sandbox: output streams, stdin is passed, the exit status "
             "is the program's own; "
             "124 when its time was over, 137 when a limit ended it, 125 when krait itself failed.",
    .notes = "Without --timeout a program may run as long as it likes; without --output and --json all of its output "
             "is passed on.\n"
             "Example: krait run --memory 512M --timeout 30s --workspace . script.py input.csv",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .limits = offsetof(struct kr_run_options, limits),
};

/* In the engine: the workspace as it may see it. */
static void take_view(void *arg, size_t index, int dir)
{
    struct kr_run_app *a = arg;

    if (index == 0)
        a->view = dir;
    else
        kr_fd_close(dir);
}

static const char *const file_hosts[] = {"files.pythonhosted.org"};

/* The way out, if the rule has one: of a package index, the one that pip would use here. */
static int prepare_egress(struct kr_run_app *a, const struct kr_run_options *o, struct kr_err *err)
{
    const char *given = getenv("PIP_INDEX_URL");
    int r = o->network ? kr_net_rule_parse(o->network, &a->rule, err) : 0;
    char *url;

    if (r < 0)
        return kr_err_wrap(err, r, "--network");
    if (a->rule.kind < KR_NET_EGRESS_MIN_ && !a->is_equipped)
        return 0;
    url = strdup(given && *given ? given : INDEX_URL);
    r = url ? kr_config_split_index(url, &a->credentials) : -ENOMEM;
    if (r < 0) {
        free(url);
        return kr_err_set(err, r == -EINVAL ? KR_ERR_INVALID : KR_ERR_SYSTEM, -r, KR_CONFIG_SPLIT_FAILED);
    }
    a->egress = (struct kr_egress_config){.index_url = url, .index_hosts = {file_hosts, 1}};
    a->has_egress = true;
    return 0;
}

/* Its packages: what it needs, the cache, and the settings that a server would have by default. */
static int prepare_packages(struct kr_run_app *a, const struct kr_run_options *o, const struct kr_run_source *source,
                            struct kr_run_needs *needs, struct kr_err *err)
{
    static char *words[] = {(char *)"run", (char *)"--data", (char *)"/nonexistent", NULL};
    const struct kr_config_how how = {.argc = 3, .argv = words};
    struct kr_run_equipment *e = &a->equipment;
    struct kr_run_needs_of of = {.with = &o->with,
                                 .file = o->requirements,
                                 .name = o->code ? "-c" : source->script.argv[0],
                                 .code = source->code,
                                 .len = source->len};
    int r;

    kr_cli_find_python(o->common.python, &e->python);
    if (!e->python.is_known)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0,
                          "packages cannot be installed: the name of the interpreter %.100s does not tell its version "
                          "(--python)",
                          o->common.python);
    of.python = e->python.version;
    if ((r = kr_run_needs_load(needs, &of, err)) < 0 || (r = kr_config_load(&how, &e->config, err)) < 0)
        return r;
    e->needs = needs->text;
    return kr_run_cache_prepare(&e->cache, o->cache, err);
}

/* Cells for installs beside the program's, and an engine to whom the cache belongs. */
static void add_packages(struct kr_run_app *a, struct kr_warden_config *config)
{
    struct kr_run_equipment *e = &a->equipment;
    struct kr_limits limits;

    e->index = a->egress.index_url;
    config->shelf = (struct kr_shelf_config){.path = e->cache.shelf, .choice = KR_SHELF_FOLDER, .is_private = 1};
    config->packages = e->cache.wheels;
    config->max_cells = EQUIPPED_CELLS_MAX;
    kr_install_cell_limits(&limits, 0);
    limits.output = CELL_OUTPUT_MAX;
    kr_limits_raise(&config->ceilings, &limits);
    config->engine_uid = e->cache.owner.uid;
    config->engine_gid = e->cache.owner.gid;
    config->engine_apart = e->cache.owner.uid != 0; /* with the owner's id */
}

/* In the warden: the streams and the saver are the engine's, and so are credentials. */
static void forget_in_run_warden(void *arg)
{
    struct kr_run_app *a = arg;

    kr_streams_forget();
    kr_figures_forget(&a->figures);
    if (a->credentials)
        explicit_bzero(a->credentials, strlen(a->credentials));
}

/* Lists ask for `restricted`; with --policy open they are an error. */
static int prepare_policy(struct kr_run_app *a, const struct kr_run_options *o, struct kr_err *err)
{
    static const struct kr_policy_spec open_policy = {.mode = KR_POLICY_OPEN};
    struct kr_policy_ask ask = {.has_mode = o->policy >= 0, .mode = (enum kr_policy)(o->policy >= 0 ? o->policy : 0)};
    int r = 0;

    for (size_t i = 0; i < o->profiles.count && r >= 0; i++)
        r = kr_policy_ask_profiles_text(&ask, o->profiles.items[i], err);
    for (size_t i = 0; i < o->allowed_imports.count && r >= 0; i++)
        r = kr_policy_ask_imports_text(&ask, o->allowed_imports.items[i], err);
    if (r >= 0)
        r = kr_policy_narrow(&open_policy, &ask, "krait", &a->policy, err);
    if (r < 0 || kr_policy_has(&a->policy, KR_POLICY_NETWORK) || !o->network || strcmp(o->network, "none") == 0)
        return r;
    return kr_err_set(err, KR_ERR_INVALID, 0, "--network: the policy restricted has none without --profile network");
}

static int prepare_run(struct kr_run_app *a, const struct kr_run_options *o, char **args, int count,
                       struct kr_run_source *source, struct kr_run_needs *needs, struct kr_warden_config *config,
                       char **ret_workspace, struct kr_err *err)
{
    int r;

    a->is_equipped = o->packages || o->with.count > 0 || o->requirements;
    a->is_tty = isatty(STDERR_FILENO) == 1;
    if (o->cache && !a->is_equipped)
        return kr_err_set(err, KR_ERR_INVALID, 0,
                          "--cache: nothing is kept there without --packages, --with or "
                          "--requirements");

    if (!o->code && count == 0)
        return kr_err_set(err, KR_ERR_INVALID, 0,
                          "what is to be run? a FILE, - for stdin, or -c CODE; see `krait run --help`");
    if (o->read_only && !o->workspace)
        return kr_err_set(err, KR_ERR_INVALID, 0, "--read-only: there is no folder to protect; give --workspace DIR");
    for (size_t i = 0; i < o->env.count; i++)
        if (o->env.items[i][0] == '=' || !strchr(o->env.items[i], '='))
            return kr_err_set(err, KR_ERR_INVALID, 0, "--env: \"%.60s\" is not NAME=VALUE; for example DEBUG=1",
                              o->env.items[i]);
    r = kr_cli_common_apply(&o->common, config, err);
    if (r >= 0)
        r = prepare_policy(a, o, err);
    if (r >= 0 && o->workspace)
        r = kr_cli_add_workspace(config, o->workspace, o->read_only, ret_workspace, err);
    if (r >= 0)
        r = kr_run_source_load(
            source, o->code, args, count, *ret_workspace,
            *ret_workspace || !kr_policy_has(&a->policy, KR_POLICY_FILESYSTEM) ? "/tmp" : "/workspace", err);
    if (r >= 0)
        r = prepare_egress(a, o, err);
    if (r >= 0 && a->is_equipped)
        r = prepare_packages(a, o, source, needs, err);
    if (r >= 0 && o->figures)
        r = kr_figures_open(&a->figures, o->figures, err);
    if (r < 0)
        return r;
    kr_cli_add_zygote(&o->common, config, (enum kr_preload)o->preload);
    if (a->is_equipped && o->preload != KR_PRELOAD_BASIC)
        kr_cli_add_zygote(&o->common, config, KR_PRELOAD_BASIC);
    config->stock = 0; /* one cell is all that is needed */
    config->max_cells = CELLS_MAX;
    config->ceilings = o->limits.values;
    config->rotate_after = 0;
    config->engine_apart = 1;
    if (a->has_egress)
        kr_cli_egress_use(config, &a->egress);
    if (a->is_equipped)
        add_packages(a, config);
    config->on_engine_folder = take_view;
    config->on_engine_forked = forget_in_run_warden;
    kr_streams_open();
    a->options = o;
    a->source = source;
    a->workspace = *ret_workspace;
    return 0;
}

int kr_cmd_run(int argc, char **argv)
{
    struct kr_run_options options = {.policy = -1};
    cleanup_free char *workspace = NULL;
    struct kr_run_source source = {0};
    struct kr_warden_config config;
    struct kr_run_app app = {.view = -1, .figures.saver = -1, .equipment.cache.lock = -1};
    struct kr_run_needs needs = {0};
    struct kr_err err;
    int operand, r;

    kr_cli_common_default(&options.common);
    kr_limits_default(&options.limits.values);
    r = kr_opt_parse(&kr_run_options_table, argc, argv, &options, &operand, &err);
    if (r == KR_OPT_HELP) {
        kr_opt_help(&kr_run_options_table, stdout);
        return fflush(stdout) != 0 ? KR_EXIT_OURS : 0;
    }
    if (!kr_opt_limit_given(&options.limits, "timeout"))
        options.limits.values.timeout_ms = 0; /* a program may take its time */
    if (r >= 0)
        r = prepare_run(&app, &options, argv + operand, argc - operand, &source, &needs, &config, &workspace, &err);
    if (r >= 0)
        r = kr_warden_launch(&config, kr_run_app_main, &app, &err);
    kr_figures_close(&app.figures);
    free((char *)app.egress.index_url);
    free(app.credentials);
    kr_run_cache_close(&app.equipment.cache);
    kr_config_free(app.equipment.config);
    kr_run_needs_done(&needs);
    kr_run_source_done(&source);
    return r < 0 ? kr_cli_fail("run", &err) : r;
}

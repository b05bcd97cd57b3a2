/* `krait check`: what a policy would find in code, without running it.
 *
 * Called from main.c. What needs the caller's rights (reading the files and the policy) happens here, in the process as
 * started; then that process becomes the warden, and check_app.c does the rest in the engine. Invariant: nothing is
 * started before every argument has been found right, and no code is parsed with the caller's rights. */
#include "check.h"
#include "commands.h"
#include "config_rows.h"
#include "exit_status.h"
#include "fd.h"
#include "policy_file.h"
#include "toml.h"
#include <stdlib.h>
#include <string.h>

#define CELLS_MAX 64u /* a new one for each unit that ends its session, some at a time */

/* clang-format off */
#define AT(field) offsetof(struct kr_check_options, field)
static const struct kr_opt_row rows[] = {
    { .name = "format", .type = KR_OPT_CHOICE, .offset = AT(format), .value = "FORMAT", .choices = kr_check_formats,
      .fallback = "text", .example = "sarif",
      .help = "text: a line for each finding. json: one object. sarif: SARIF 2.1.0, for code scanning." },
    { .name = "profile", .type = KR_OPT_LIST, .offset = AT(profiles), .value = "NAME", .fallback = "basic",
      .example = "data_science", .help = "Add the modules and rights of a profile; may be given again." },
    { .name = "allowed-imports", .type = KR_OPT_LIST, .offset = AT(allowed_imports), .value = "LIST",
      .fallback = "those of the profiles", .example = "math,json",
      .help = "The modules that may be imported, in the place of those of the profiles; may be given again." },
    { .name = "policy-file", .type = KR_OPT_TEXT, .offset = AT(policy_file), .value = "FILE", .example = "policy.toml",
      .help = "Judge by this policy file of a server; --profile and --allowed-imports only narrow it." },
    { .name = "user", .type = KR_OPT_TEXT, .offset = AT(user), .value = "NAME", .fallback = "[policy] alone",
      .example = "ada", .help = "With --policy-file: what holds for this user." },
    KR_CLI_COMMON_ROWS(struct kr_check_options),
};
/* clang-format on */

const struct kr_opt_table kr_check_options_table = {
    .command = "check",
    .usage = "[options] FILE|FOLDER|-...",
    .about = "Judges Python code by the policy restricted, and runs none of it: files, stdin (-), folders (their *.py "
             "and *.ipynb), the code cells of notebooks. The exit status is 0 if nothing was found, 1 if something "
             "was, 2 if something could not be judged.",
    .notes = "Each finding has the id of a rule: docs/reference/policy-rules.md has them all.\n"
             "Example: krait check --profile data_science --format sarif src > findings.sarif",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .limits = KR_OPT_NO_LIMITS,
};

/* The policy of the file; without one nothing is narrowed yet. */
static int read_policy_file(const struct kr_check_options *o, struct kr_policy_spec *ret, struct kr_err *err)
{
    struct kr_user_rules rules = {0};
    const struct kr_user_rule *rule;
    cleanup_free char *text = NULL;
    size_t len;
    int r;

    if (!o->policy_file)
        return o->user ? (kr_err_set(err, KR_ERR_INVALID, 0, "--user: needs --policy-file"), -1) : 0;
    r = kr_config_read_named(NULL, o->policy_file, KR_TOML_TEXT_MAX, &text, &len, err);
    if (r >= 0)
        r = kr_policy_file_parse(o->policy_file, text, len, &rules, err);
    if (r < 0)
        return r;
    rule = kr_user_rule_of(&rules, o->user ? o->user : "");
    if (rule && rule->has_policy)
        *ret = rule->policy;
    kr_user_rules_done(&rules);
    return 0;
}

/* Restricted, unless the file says open. */
static int make_policy(const struct kr_check_options *o, struct kr_policy_spec *ret, struct kr_err *err)
{
    struct kr_policy_spec has = {.mode = KR_POLICY_OPEN};
    struct kr_policy_ask ask = {0};
    int r = read_policy_file(o, &has, err);

    for (size_t i = 0; i < o->profiles.count && r >= 0; i++)
        r = kr_policy_ask_profiles_text(&ask, o->profiles.items[i], err);
    for (size_t i = 0; i < o->allowed_imports.count && r >= 0; i++)
        r = kr_policy_ask_imports_text(&ask, o->allowed_imports.items[i], err);
    if (r < 0)
        return r;
    if (!o->policy_file) {
        ask.has_mode = true;
        ask.mode = KR_POLICY_RESTRICTED;
    }
    return kr_policy_narrow(&has, &ask, "the policy file", ret, err);
}

static int prepare_check(struct kr_check_app *a, const struct kr_check_options *o, char **operands, int count,
                         struct kr_check_files *files, struct kr_warden_config *config, struct kr_err *err)
{
    int r;

    if (count == 0)
        return kr_err_set(err, KR_ERR_INVALID, 0,
                          "what is to be checked? files, folders, or - for stdin; see `krait check --help`");
    r = kr_cli_common_apply(&o->common, config, err);
    if (r >= 0)
        r = make_policy(o, &a->policy, err);
    if (r >= 0)
        r = kr_check_files_read(operands, count, files, err);
    if (r < 0)
        return r;
    kr_cli_add_zygote(&o->common, config, KR_PRELOAD_BASIC);
    config->stock = 0;
    config->max_cells = CELLS_MAX;
    kr_limits_default(&config->ceilings);
    config->engine_apart = 1;
    a->options = o;
    a->files = files;
    return 0;
}

int kr_cmd_check(int argc, char **argv)
{
    struct kr_check_options options = {0};
    struct kr_check_files files = {0};
    struct kr_warden_config config;
    struct kr_check_app app = {0};
    struct kr_err err;
    int operand, r;

    kr_cli_common_default(&options.common);
    r = kr_opt_parse(&kr_check_options_table, argc, argv, &options, &operand, &err);
    if (r == KR_OPT_HELP) {
        kr_opt_help(&kr_check_options_table, stdout);
        return fflush(stdout) != 0 ? KR_CHECK_FAILED : 0;
    }
    if (r >= 0)
        r = prepare_check(&app, &options, argv + operand, argc - operand, &files, &config, &err);
    if (r >= 0)
        r = kr_warden_launch(&config, kr_check_app_main, &app, &err);
    kr_check_files_done(&files);
    if (r >= 0)
        return r;
    (void)kr_cli_fail("check", &err);
    return KR_CHECK_FAILED;
}

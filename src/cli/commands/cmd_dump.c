/* `krait dump TABLE`: the program's own tables, one of those in `tables`. The pages under
 * docs/reference and the example files in the root of the repository are this output.
 *
 * Called from main.c. Invariant: nothing is printed that does not come from a table the program acts on. */
#include "commands.h"
#include "exit_status.h"
#include "config.h"
#include "import_name.h"
#include "mcp.h"
#include "metrics.h"
#include "policy_rules.h"
#include "sandbox_settings.h"
#include "seccomp.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int dump_config(int argc, char **argv)
{
    (void)argc, (void)argv;
    printf("# Options\n\n");
    for (size_t i = 0; i < kr_commands_count; i++)
        if (kr_commands[i].options)
            kr_opt_dump(kr_commands[i].options, stdout);
    kr_config_dump(stdout);
    return 0;
}

static int dump_limits(int argc, char **argv)
{
    (void)argc, (void)argv;
    printf("# Limits\n\nA size may be 512M or 1.5G, a time 100ms, 30s or 2m, cores 0.5.\n\n");
    kr_opt_dump_limits(stdout);
    return 0;
}

static int dump_sandbox_settings(int argc, char **argv)
{
    (void)argc, (void)argv;
    kr_sandbox_settings_dump(stdout);
    return 0;
}

static int dump_metrics(int argc, char **argv)
{
    (void)argc, (void)argv;
    kr_metrics_dump(stdout);
    return 0;
}

static int dump_seccomp(int argc, char **argv)
{
    (void)argc, (void)argv;
    return kr_seccomp_dump(stdout) < 0 ? KR_EXIT_OURS : 0;
}

static int dump_imports(int argc, char **argv)
{
    (void)argc, (void)argv;
    kr_import_dump(stdout);
    return 0;
}

static int dump_policy_rules(int argc, char **argv)
{
    (void)argc, (void)argv;
    printf("# Rules of the policy restricted\n\n"
           "P1.. are found before anything runs, by `krait check` as well; P2.. are refused while code runs. An id is "
           "never used again for another rule. [policy.md](../policy.md) says how to set a policy.\n");
    for (size_t i = 0; i < kr_policy_rules_count; i++) {
        const struct kr_policy_rule *rule = &kr_policy_rules[i];

        printf("\n## %s\n\n**%s.** %s\n\n- why: %s\n- instead: %s\n- for example: `%s`\n", rule->id, rule->name,
               rule->what, rule->why, rule->mend, rule->example);
    }
    return 0;
}

static int dump_tools(int argc, char **argv)
{
    (void)argc, (void)argv;
    kr_mcp_tools_dump(stdout);
    return 0;
}

static int dump_env_example(int argc, char **argv)
{
    (void)argc, (void)argv;
    kr_config_env_example(stdout);
    return 0;
}

static int dump_toml_example(int argc, char **argv)
{
    (void)argc, (void)argv;
    kr_config_toml_example(stdout);
    return 0;
}

/* What `krait serve` with these options would run with, here and now. */
static int dump_settings(int argc, char **argv)
{
    const struct kr_config_how how = {.argc = argc, .argv = argv, .environment = environ, .files = true};
    cleanup_config struct kr_config *config = NULL;
    struct kr_err err;
    int r = kr_config_load(&how, &config, &err);

    if (r == KR_OPT_HELP)
        kr_config_help(stdout);
    if (r < 0)
        return kr_cli_fail("dump settings", &err);
    if (r == 0)
        kr_config_show(config, stdout);
    return 0;
}

static const struct {
    const char *name;
    int (*dump)(int argc, char **argv); /* argv[0] is the table's name */
    bool takes_options;
    const char *help;
} tables[] = {
    {"config", dump_config, false, "every command's options and settings"},
    {"limits", dump_limits, false, "the limits of a session: defaults, ranges, examples"},
    {"sandbox-settings", dump_sandbox_settings, false, "the settings of a sandbox: types, bounds, examples"},
    {"metrics", dump_metrics, false, "what /metrics tells, row by row"},
    {"seccomp", dump_seccomp, false, "the system call filter, row by row, with its reasons"},
    {"imports", dump_imports, false, "which package has a module whose name is another"},
    {"policy-rules", dump_policy_rules, false, "the rules of the policy restricted: what, why, what to write instead"},
    {"tools", dump_tools, false, "the tools of the MCP server: what they do, their arguments"},
    {"settings", dump_settings, true,
     "what `krait serve` would run with here, and where each value comes from; takes its options"},
    {"env-example", dump_env_example, false, "every setting as a line of .env"},
    {"toml-example", dump_toml_example, false, "every setting as a line of krait.toml"},
};
#define TABLES (sizeof tables / sizeof tables[0])

static void dump_usage(FILE *out)
{
    fprintf(out, "Usage: krait dump TABLE\n\nPrints one of the program's own tables:\n");
    for (size_t i = 0; i < TABLES; i++)
        fprintf(out, "  %-17s %s\n", tables[i].name, tables[i].help);
}

static int unknown_table(const char *name)
{
    const char *names[TABLES + 1] = {0}, *near;
    char list[200] = "";
    struct kr_err err;

    for (size_t i = 0; i < TABLES; i++) {
        size_t len = strlen(list);

        names[i] = tables[i].name;
        snprintf(list + len, sizeof list - len, "%s%s", i == 0 ? "" : i + 1 < TABLES ? ", " : " or ", names[i]);
    }
    near = kr_opt_nearest(name, names);
    kr_err_set(&err, KR_ERR_INVALID, 0, "no table is called \"%.40s\"; it may be %s%s%s%s", name, list,
               near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
    return kr_cli_fail("dump", &err);
}

int kr_cmd_dump(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        dump_usage(stdout);
        return 0;
    }
    for (size_t i = 0; argc >= 2 && i < TABLES; i++)
        if (strcmp(tables[i].name, argv[1]) == 0 && (argc == 2 || tables[i].takes_options)) {
            int r = tables[i].dump(argc - 1, argv + 1);

            return fflush(stdout) != 0 ? KR_EXIT_OURS : r;
        }
    if (argc == 2)
        return unknown_table(argv[1]);
    dump_usage(stderr);
    return KR_EXIT_USAGE;
}

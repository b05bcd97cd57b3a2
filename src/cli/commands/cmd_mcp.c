/* `krait mcp`: MCP on stdin and stdout.
 *
 * There are three ways to answer, and the first that is possible is taken: the server named by --connect (relay.c);
 * the server that runs on the same data directory (mcp_join.c); else an engine of our own, which is `krait serve`
 * without listeners (serve_app.c) and starts nothing before it is asked to run something. Invariants: stdout carries
 * messages alone, from the first byte; the engine shares the data directory with others and ends only what is its
 * own. */
#include "commands.h"
#include "exit_status.h"
#include "config_rows.h"
#include "fd.h"
#include "launch.h"
#include "log.h"
#include "mcp_join.h"
#include "relay.h"
#include "serve.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENVIRONMENT_MAX 256u

/* clang-format off */
#define AT(field) offsetof(struct kr_mcp_spec, field)
static const struct kr_opt_row rows[] = {
    { .name = "connect", .type = KR_OPT_TEXT, .offset = AT(connect), .value = "URL", .example = "http://127.0.0.1:8642",
      .help = "Pass everything on to this server's /mcp. Its key is in KRAIT_API_KEY or --api-key-file." },
    { .name = "workspace", .type = KR_OPT_TEXT, .offset = AT(workspace), .value = "DIR",
      .fallback = "files of its own in the data folder", .example = ".",
      .help = "A folder of this machine that is /workspace of the sandbox `default`: files in and out, under their "
              "own names." },
    { .name = "no-join", .type = KR_OPT_FLAG, .offset = AT(no_join), .example = "--no-join",
      .help = "An engine of its own, also where a server runs on the same data folder." },
};
/* clang-format on */

const struct kr_opt_table kr_mcp_options_table = {
    .command = "mcp",
    .usage = "[options] [settings of krait serve]",
    .about =
        "Speaks MCP on stdin and stdout, for clients that start their servers themselves. Joins a krait that serves "
        "the same data folder, or runs sandboxes itself; nothing is started before the first message.",
    .notes =
        "Settings that say how sandboxes are made or what MCP clients see are those of `krait serve` and are given "
        "alike: --data, --dialect, --tools, --structured, --memory, --timeout, --network …, or KRAIT_NAME in the "
        "environment. With any but the first four it does not join.\n"
        "Example: krait mcp --workspace ~/project\n"
        "`krait setup CLIENT` prints what a client's configuration needs.",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .limits = KR_OPT_NO_LIMITS,
};

/* ---- flags ---- */

static const struct kr_opt_row *own_row(const char *arg)
{
    size_t len;

    if (strncmp(arg, "--", 2) != 0)
        return NULL;
    len = strcspn(arg + 2, "=");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].name) == len && strncmp(rows[i].name, arg + 2, len) == 0)
            return &rows[i];
    return NULL;
}

/* Takes our own flags out; what is left are settings. 0 or -EINVAL. */
static int split_flags(int argc, char **argv, struct kr_mcp_spec *spec, char **left, int *ret_left, struct kr_err *err)
{
    int count = 0;

    for (int i = 0; i < argc; i++) {
        const struct kr_opt_row *row = i ? own_row(argv[i]) : NULL;
        const char *value = row ? strchr(argv[i], '=') : NULL;

        if (!row) {
            left[count++] = argv[i];
        } else if (row->type == KR_OPT_FLAG) {
            if (value)
                return kr_err_set(err, KR_ERR_INVALID, 0, "--%s takes no value", row->name);
            spec->no_join = true;
        } else {
            value = value ? value + 1 : i + 1 < argc ? argv[++i] : "";
            if (!*value)
                return kr_err_set(err, KR_ERR_INVALID, 0, "--%s: %s is missing; for example --%s %s", row->name,
                                  row->value, row->name, row->example);
            *(const char **)((char *)spec + row->offset) = value;
        }
    }
    left[count] = NULL;
    *ret_left = count;
    return 0;
}

/* A desktop's environment has a HOST and a DEBUG of its own: only names that are krait's, or of document 001 (its
 * clients give them to the program that they start), count here. */
static void own_environment(char **ret)
{
    size_t count = 0;

    for (char **e = environ; *e && count < ENVIRONMENT_MAX; e++)
        if (strncmp(*e, "KRAIT_", 6) == 0 || strncmp(*e, "SANDBOX_", 8) == 0 || strncmp(*e, "HOME=", 5) == 0 ||
            strncmp(*e, "XDG_", 4) == 0)
            ret[count++] = *e;
    ret[count] = NULL;
}

static int load_settings(struct kr_serve *s, int argc, char **argv, struct kr_mcp_spec *spec, struct kr_err *err)
{
    cleanup_free char **left = calloc((size_t)argc + 1, sizeof *left);
    char *environment[ENVIRONMENT_MAX + 1];
    struct kr_config_how how = {.argv = left, .environment = environment, .strange_env = true};
    int r;

    if (!left)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "arguments");
    r = split_flags(argc, argv, spec, left, &how.argc, err);
    if (r < 0)
        return r;
    own_environment(environment);
    r = kr_config_load(&how, &s->config, err);
    if (r == 0 && !s->config->api_key_file &&
        kr_config_origin_of(s->config, kr_config_row("api-key"))->source == KR_FROM_FLAG)
        return kr_err_set(err, KR_ERR_INVALID, 0,
                          "--api-key: others can read a command line; give it as KRAIT_API_KEY or by --api-key-file");
    return r;
}

/* ---- which way ---- */

/* A document's client gave it to this program, which it takes for a server of its own; or it is about what code may do,
 * wherever it was given. */
static bool is_ours_alone(const struct kr_config_row *row, const struct kr_config_origin *origin)
{
    bool is_policy = row->section && strcmp(row->section, "policy") == 0;

    return origin->source >= KR_FROM_TOML && (is_policy || (origin->name && strncmp(origin->name, "SANDBOX_", 8) == 0));
}

/* What a server that is joined can do for its client. Every other setting on the command line asks for an engine of
 * our own. */
static bool can_join(const struct kr_config *c)
{
    static const char *const fine[] = {"data", "dialect", "structured", "transport", "log-level", "log-format"};
    size_t count;
    const struct kr_config_row *row = kr_config_rows(&count);
    bool is_fine = c->mcp.tools == KR_TOOLS_ALL;

    for (size_t i = 0; is_fine && i < count; i++) {
        const struct kr_config_origin *origin = kr_config_origin_of(c, &row[i]);
        bool known = origin->source != KR_FROM_FLAG && !is_ours_alone(&row[i], origin);

        for (size_t k = 0; !known && k < sizeof fine / sizeof *fine; k++)
            known = strcmp(row[i].flag, fine[k]) == 0;
        is_fine = known;
    }
    return is_fine;
}

/* Our own open file of a pipe or a terminal: O_NONBLOCK on the one we were given would be seen by the processes that
 * share it. */
static int own_stream(int fd, int access)
{
    char path[32];
    struct stat st;
    int own = -1;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
        own = open(path, access | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    return own >= 0 ? own : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static int find_workspace(struct kr_serve *s, const char *path, struct kr_err *err)
{
    struct kr_warden_config found = {0};

    return kr_cli_add_workspace(&found, path, false, &s->workspace, err);
}

/* An engine of our own: small, since it has one client. */
static int start_engine(struct kr_serve *s, const struct kr_mcp_spec *spec, struct kr_err *err)
{
    int r = spec->workspace ? find_workspace(s, spec->workspace, err) : 0;

    if (r < 0)
        return r;
    s->stdio = true;
    s->config->listener_count = 0;
    s->in = own_stream(STDIN_FILENO, O_RDONLY);
    s->out = own_stream(STDOUT_FILENO, O_WRONLY);
    if (s->in < 0 || s->out < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "stdin and stdout");
    if (!kr_config_given(s->config, "pool-size"))
        s->config->engine.pool_size = 1;
    return kr_serve_run(s, err);
}

int kr_mcp_start(struct kr_serve *s, const struct kr_mcp_spec *spec, struct kr_err *err)
{
    struct kr_config *c = s->config;
    int fd = -1;

    if (!kr_config_given(c, "log-level") && !c->api.debug)
        c->cells.log_level = KR_LOG_ERROR; /* many clients show every line of stderr as an error */
    kr_log_set_level((enum kr_log_level)c->cells.log_level);
    if (spec->connect && spec->workspace)
        return kr_err_set(err, KR_ERR_INVALID, 0, "--workspace: the server of --connect does not see this folder");
    if (spec->connect)
        return kr_relay_run(spec->connect, c->auth.api_key, err);
    if (!spec->no_join && !spec->workspace && can_join(c))
        fd = kr_join_connect(c->data, (enum kr_dialect)c->dialect, c->mcp.structured);
    if (fd >= 0)
        return kr_join_pump(fd, c->data);
    return start_engine(s, spec, err);
}

int kr_cmd_mcp(int argc, char **argv)
{
    static struct kr_serve s;
    struct kr_mcp_spec spec = {0};
    struct kr_err err;
    int r = load_settings(&s, argc, argv, &spec, &err), status;

    if (r == KR_OPT_HELP && !s.config) {
        kr_opt_help(&kr_mcp_options_table, stdout);
        return fflush(stdout) != 0 ? KR_EXIT_OURS : 0;
    }
    if (r == 0)
        r = kr_mcp_start(&s, &spec, &err);
    status = r;
    if (r < 0) {
        status = kr_cli_fail("mcp", &err);
        if (s.exit_status)
            status = s.exit_status;
    }
    free(s.workspace);
    kr_config_free(s.config);
    return status;
}

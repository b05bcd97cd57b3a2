/* krait, the program.
 *
 * Theory of operation. The process as started is the warden: it keeps whatever privilege it was given, and only
 * builds cells. A command that needs cells (`run`, `doctor`, `serve`, `mcp`) fills a kr_warden_config from its
 * options and calls kr_warden_launch(), which forks the engine: an unprivileged child that holds one end of a control
 * socket, runs the event loop (src/engine) and does everything the command is about. The warden serves it until it is
 * gone, cleans up and exits with its status. Commands that need no cells run right here.
 *
 * This file is the table of commands and what is said when a name is wrong. */
#include "commands.h"
#include "exit_status.h"
#include "fd.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

const struct kr_command kr_commands[] = {
    {"serve", kr_cmd_serve, "the server: runs over HTTP, sandboxes that last, users and keys", NULL},
    {"mcp", kr_cmd_mcp, "MCP on stdin and stdout, for clients that start their servers themselves",
     &kr_mcp_options_table},
    {"setup", kr_cmd_setup, "print the configuration an MCP client needs: claude-code, cursor, vscode and others",
     &kr_setup_options_table},
    {"run", kr_cmd_run, "run a Python program in a sandbox, as python3 would", &kr_run_options_table},
    {"check", kr_cmd_check, "judge Python code by a policy without running it, as a linter", &kr_check_options_table},
    {"shell", kr_cmd_shell, "a shell in a sandbox of a running server, on this terminal", &kr_shell_options_table},
    {"doctor", kr_cmd_doctor, "try every layer of isolation in real cells and say what is missing",
     &kr_doctor_options_table},
    {"keys", kr_cmd_keys, "make, list and revoke keys of the API", &kr_keys_options_table},
    {"users", kr_cmd_users, "add, list, disable and delete users of the API; passwords and rights",
     &kr_users_options_table},
    {"shelf", kr_cmd_shelf, "look at where sandboxes' files are kept, make it larger, move it",
     &kr_shelf_options_table},
    {"backup", kr_cmd_backup, "copy the data folder to a new folder, while the server runs", &kr_backup_options_table},
    {"restore", kr_cmd_restore, "make a data folder of a backup", &kr_restore_options_table},
    {"verify", kr_cmd_verify, "look for damage in a data folder or a backup", &kr_verify_options_table},
    {"dump", kr_cmd_dump, "print the program's own tables: config, limits, seccomp, settings and more", NULL},
};
const size_t kr_commands_count = sizeof kr_commands / sizeof kr_commands[0];

static void print_usage(FILE *out)
{
    fprintf(out, "krait runs Python in sandboxes.\n\nUsage: krait COMMAND [options]\n\nCommands:\n");
    for (size_t i = 0; i < kr_commands_count; i++)
        fprintf(out, "  %-10s %s\n", kr_commands[i].name, kr_commands[i].help);
    fprintf(out, "\n`krait COMMAND --help` shows a command's options.\n"
                 "Try: krait run -c 'print(2 ** 100)'\n");
}

static int unknown_command(const char *name)
{
    const char *names[sizeof kr_commands / sizeof kr_commands[0] + 1] = {0}, *near;
    char quoted[64];

    for (size_t i = 0; i < kr_commands_count; i++)
        names[i] = kr_commands[i].name;
    near = kr_opt_nearest(name, names);
    kr_log_quote(quoted, sizeof quoted, name, 40);
    if (near)
        fprintf(stderr, "krait: no command %s; did you mean `krait %s`?\n", quoted, near);
    else
        fprintf(stderr, "krait: no command %s; `krait --help` lists them\n", quoted);
    return KR_EXIT_USAGE;
}

/* A standard stream that we were started without is /dev/null: the next file we open would become it, and
 * what is meant for a person would be written into a socket. Before anything else opens a file. 0 or -errno. */
static int fill_standard_fds(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR); /* not CLOEXEC: 0, 1 and 2 are inherited */
        if (fd < 0)
            return -errno;
    } while (fd <= STDERR_FILENO);
    kr_fd_close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    int r = fill_standard_fds();

    if (r < 0) {
        fprintf(stderr, "krait: /dev/null: %s\n", strerror(-r)); /* seen if there is a stderr */
        return KR_EXIT_OURS;
    }
    if (argc < 2) {
        print_usage(stderr);
        return KR_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return fflush(stdout) != 0 ? KR_EXIT_OURS : 0;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("krait %s\n", KR_VERSION);
        return fflush(stdout) != 0 ? KR_EXIT_OURS : 0;
    }
    for (size_t i = 0; i < kr_commands_count; i++)
        if (strcmp(kr_commands[i].name, argv[1]) == 0)
            return kr_commands[i].run(argc - 1, argv + 1);
    return unknown_command(argv[1]);
}

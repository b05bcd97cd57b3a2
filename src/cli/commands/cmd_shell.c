/* `krait shell`: a shell, or another program, in a sandbox of a running server, on this terminal.
 *
 * Called from main.c; shell.c does the work. A key comes from a file or the environment, never from the command line,
 * which others can read. */
#include "commands.h"
#include "exit_status.h"
#include "fd.h"
#include "shell.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_ROOM 512

struct shell_options {
    const char *connect, *key_file, *escape;
};

/* clang-format off */
#define AT(field) offsetof(struct shell_options, field)
static const struct kr_opt_row rows[] = {
    { .name = "connect", .type = KR_OPT_TEXT, .offset = AT(connect), .value = "URL",
      .fallback = "KRAIT_URL; http://127.0.0.1:8642", .example = "http://127.0.0.1:8642",
      .help = "The server." },
    { .name = "api-key-file", .type = KR_OPT_TEXT, .offset = AT(key_file), .value = "PATH",
      .fallback = "KRAIT_API_KEY", .example = "~/.krait-key", .help = "A file whose first line is the key." },
    { .name = "escape", .type = KR_OPT_TEXT, .offset = AT(escape), .value = "KEY", .fallback = "^]", .example = "^B",
      .help = "The key that leaves and ends the program: ^ and a letter or one of @[\\]^_, or `none`." },
};
/* clang-format on */

const struct kr_opt_table kr_shell_options_table = {
    .command = "shell",
    .usage = "[options] [SANDBOX [COMMAND [ARG…]]]",
    .about = "A shell in a sandbox of a running server, on this terminal. Without SANDBOX it is `default`; without "
             "COMMAND it is bash or sh.",
    .notes = "It needs a server: `krait serve`. Ctrl-] leaves, which ends the program. The exit status is the "
             "program's; 129 when it was left.\n"
             "Example: krait shell analysis python3",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .limits = KR_OPT_NO_LIMITS,
};

/* The byte of a key, -1 for none. -EINVAL. */
static int read_escape(const char *text, int *ret, struct kr_err *err)
{
    int c = strlen(text) == 2 && text[0] == '^' ? text[1] : 0;

    c = c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c;
    *ret = -1;
    if (strcmp(text, "none") == 0)
        return 0;
    if (c < '@' || c > '_') {
        kr_err_set(err, KR_ERR_INVALID, 0, "--escape: \"%.20s\" is no key; for example ^] or none", text);
        return -EINVAL;
    }
    *ret = c - '@';
    return 0;
}

/* NULL: none. */
static int read_key(const char *file, char key[KEY_ROOM], const char **ret, struct kr_err *err)
{
    ssize_t n;

    *ret = getenv("KRAIT_API_KEY");
    if (*ret && !**ret)
        *ret = NULL;
    if (!file)
        return 0;
    n = kr_fd_read_file_at(AT_FDCWD, file, key, KEY_ROOM);
    if (n < 0) {
        kr_err_set(err, KR_ERR_INVALID, (int)-n, "--api-key-file: %.200s: %s", file, strerror((int)-n));
        return -EINVAL;
    }
    key[strcspn(key, "\r\n")] = '\0';
    *ret = key;
    return 0;
}

static bool is_header_text(const char *key)
{
    for (; key && *key; key++)
        if (*key <= ' ' || *key > '~')
            return false;
    return true;
}

int kr_cmd_shell(int argc, char **argv)
{
    struct shell_options o = {.connect = getenv("KRAIT_URL"), .escape = "^]"};
    struct kr_shell_spec spec = {0};
    char key[KEY_ROOM];
    struct kr_err err;
    int operand, r = kr_opt_parse(&kr_shell_options_table, argc, argv, &o, &operand, &err);

    if (r == KR_OPT_HELP) {
        kr_opt_help(&kr_shell_options_table, stdout);
        return 0;
    }
    if (r == 0)
        r = read_escape(o.escape, &spec.escape, &err);
    if (r == 0)
        r = read_key(o.key_file, key, &spec.key, &err);
    if (r == 0 && !is_header_text(spec.key)) {
        kr_err_set(&err, KR_ERR_INVALID, 0, "the key has a character that no key has");
        r = -EINVAL;
    }
    if (r < 0) {
        (void)kr_cli_fail("shell", &err);
        return KR_EXIT_USAGE;
    }
    spec.url = o.connect && *o.connect ? o.connect : "http://127.0.0.1:8642";
    spec.sandbox = operand < argc ? argv[operand] : NULL;
    spec.argv = (const char *const *)argv + (operand < argc ? operand + 1 : argc);
    spec.argc = operand < argc ? (size_t)(argc - operand - 1) : 0;
    r = kr_shell_run(&spec, &err);
    return r < 0 ? kr_cli_fail("shell", &err) : r;
}

/* A shell command as Python. Called by the tools that run one. Pure.
 *
 * Output goes to the session's own descriptors and streams as it comes. Invariant: when the snippet is interrupted
 * (timeout, cancel) the shell's whole process group is gone before it returns. */
#include "shell_snippet.h"
#include "buf.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define TITLE_MAX 200u /* bytes */

/* How the code of every command begins. No comment of its own: Python would look there for an encoding. */
static const char title[] = "def _():  # $ ";

/* Names are local: nothing stays in the session. A status other than 0 is the exit of the run, so that every voice has
 * it as exit_code; of a signal it is 128 + its number. */
static const char snippet[] =
    "    import os, signal, subprocess, sys, tempfile\n"
    "    if not os.path.isdir(folder):\n"
    "        sys.stderr.write('cwd: %s is no folder here\\n' % folder)\n"
    "        raise SystemExit(1)\n"
    "    sys.stdout.flush(); sys.stderr.flush()\n"
    "    shell = '/bin/bash' if os.path.exists('/bin/bash') else '/bin/sh'\n"
    "    with tempfile.TemporaryFile() as given:\n"
    "        given.write(text.encode('utf-8', 'surrogateescape')); given.seek(0)\n"
    "        child = subprocess.Popen([shell, '-c', command], stdin=given, cwd=folder, start_new_session=True)\n"
    "    def end(number):\n"
    "        try: os.killpg(child.pid, number)\n"
    "        except OSError: pass\n"
    "    try:\n"
    "        status = child.wait()\n"
    "    except BaseException:\n"
    "        end(signal.SIGINT)\n"
    "        try: child.wait(0.5)\n"
    "        except subprocess.TimeoutExpired: pass\n"
    "        end(signal.SIGKILL)\n"
    "        child.wait()\n"
    "        raise\n"
    "    if status != 0:\n"
    "        raise SystemExit(status if status > 0 else 128 - status)\n"
    "_()\n";

/* JSON's strings are Python's, as long as nothing but ASCII is escaped. */
static int add_literal(struct kr_buf *out, const char *name, const char *text, size_t len)
{
    json_t *string = json_stringn(text, len);
    char *literal = json_dumps(string, JSON_ENCODE_ANY);

    json_decref(string);
    if (!literal)
        return -1;
    kr_buf_printf(out, "    %s = %s\n", name, literal);
    free(literal);
    return out->failed;
}

/* The first line of the command, for the list of runs. */
static void add_title(struct kr_buf *out, const struct kr_mcp_terminal *t)
{
    size_t n = 0;

    while (n < t->command_len && n < TITLE_MAX && (unsigned char)t->command[n] >= 0x20 && t->command[n] != 0x7f)
        n++;
    while (n > 0 && n < t->command_len && ((unsigned char)t->command[n] & 0xc0) == 0x80) /* whole characters */
        n--;
    kr_buf_add_str(out, title);
    kr_buf_add(out, t->command, n);
    kr_buf_add_str(out, "\n");
}

bool kr_mcp_terminal_is(const char *code)
{
    return strncmp(code, title, strlen(title)) == 0;
}

int kr_mcp_terminal_code(struct kr_buf *out, const struct kr_mcp_terminal *t)
{
    const char *folder = t->folder ? t->folder : "/workspace";

    add_title(out, t);
    if (add_literal(out, "command", t->command, t->command_len) < 0 ||
        add_literal(out, "text", t->stdin_text ? t->stdin_text : "", t->stdin_len) < 0 ||
        add_literal(out, "folder", folder, strlen(folder)) < 0)
        return -1;
    return kr_buf_add_str(out, snippet);
}

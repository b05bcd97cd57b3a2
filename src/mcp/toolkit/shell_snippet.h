/* A shell command as a snippet, for the tools that run one. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct kr_buf;

struct kr_mcp_terminal {
    const char *command;
    size_t command_len;
    const char *stdin_text; /* NULL: nothing */
    size_t stdin_len;
    const char *folder; /* NULL: /workspace */
};
/* Appends Python that exits with the status of the command (128 + n of one that signal n ended) unless it is 0, with
 * its output on fd 1 and 2. Negative: no memory, or the buffer is full. Run it with stdin_text "", so that no client is
 * asked. */
int kr_mcp_terminal_code(struct kr_buf *out, const struct kr_mcp_terminal *t);
/* Whether a run's code, or the beginning of it that the store keeps, is such a snippet. */
bool kr_mcp_terminal_is(const char *code);

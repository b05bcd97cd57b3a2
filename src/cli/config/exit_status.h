/* Exit statuses of the commands, beside those of kinds of errors (err.h). */
#pragma once

struct kr_err;

#define KR_EXIT_USAGE 2
#define KR_EXIT_OURS 125
/* Prints `krait run: text` on stderr and returns the exit status of the error's kind. */
int kr_cli_fail(const char *command, const struct kr_err *err);

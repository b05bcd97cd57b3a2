/* How a command ends that failed. Called by every command; in the server's process too. */
#include "exit_status.h"
#include "err.h"
#include <stdio.h>

int kr_cli_fail(const char *command, const struct kr_err *err)
{
    fflush(stdout);
    fprintf(stderr, "krait %s: %s\n", command, err->msg);
    return kr_err_row((enum kr_err_kind)err->kind)->exit_status;
}

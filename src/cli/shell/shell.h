/* `krait shell`: a terminal of a sandbox in a person's own terminal, over the WebSocket of a running server. */
#pragma once
#include <stddef.h>

struct kr_err;

struct kr_shell_spec {
    const char *url;     /* http://HOST:PORT[/PREFIX] */
    const char *key;     /* NULL: none */
    const char *sandbox; /* NULL: the default one */
    const char *const *argv;
    size_t argc; /* 0: a shell */
    int escape;  /* the byte that leaves; -1: none */
};

#define KR_SHELL_LEFT 129 /* left by the escape key: as after a hang-up */

/* Until the program ends, or the person leaves. The exit status: the program's; or -errno with err. The terminal is as
 * it was before, whatever happened. Blocks. */
int kr_shell_run(const struct kr_shell_spec *spec, struct kr_err *err);

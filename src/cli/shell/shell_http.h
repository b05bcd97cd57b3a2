/* What `krait shell` asks of a server: one request at a time, and the WebSocket. Blocks, with deadlines. */
#pragma once
#include "relay_http.h"
#include <stdbool.h>
#include <stddef.h>

struct kr_err;

#define KR_SHELL_ANSWER_MAX 65536u
#define KR_SHELL_WAIT_MS 60000u /* a terminal waits for a slot: queue_wait */

struct kr_shell_server {
    struct kr_hx_target target;
    const char *url, *key;
    char prefix[1024]; /* of its paths */
};
/* Reads the URL and finds the address. 0 or -errno. */
int kr_shell_find(struct kr_shell_server *s, struct kr_err *err);

struct kr_shell_answer {
    unsigned status;
    size_t len;
    char body[KR_SHELL_ANSWER_MAX + 1]; /* NUL after it */
};
/* 0, or -errno: no server, or one that does not speak HTTP. `path` begins behind the prefix. */
int kr_shell_ask(const struct kr_shell_server *s, const char *method, const char *path, const char *body,
                 struct kr_shell_answer *ret, struct kr_err *err);
/* What an answer that is no success says, as an error. Always < 0. */
int kr_shell_refused(const struct kr_shell_answer *a, struct kr_err *err);
/* Opens the WebSocket. Its descriptor, nonblocking, with what came behind the head in `rest`; or -errno. */
int kr_shell_connect(const struct kr_shell_server *s, const char *path, struct kr_shell_answer *rest,
                     struct kr_err *err);

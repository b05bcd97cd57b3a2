/* The way out of a program: its cell is handed to the egress process, and what was refused becomes its hint.
 *
 * Called by run_app.c. Invariant: without a network beyond loopback there is no client, and nothing here does
 * anything. */
#include "run_egress.h"
#include "egress_client.h"
#include "egress_env.h"
#include "egress_row.h"
#include "egress_start.h"
#include "fd.h"
#include "log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_program_connection(void *data, const json_t *row)
{
    struct kr_run_egress *x = data;

    if (strcmp(json_string_value(json_object_get(row, "verdict")), "denied") == 0 && x->refused++ == 0)
        kr_egress_row_refusal(row, x->first, sizeof x->first);
}

static bool is_given(const struct kr_opt_list *env, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->items[i], name, len) == 0 && env->items[i][len] == '=')
            return true;
    return false;
}

static int fill_env(struct kr_run_egress *x, const struct kr_opt_list *env)
{
    for (size_t i = 0; i < env->count; i++)
        x->env[x->env_count++] = env->items[i];
    for (size_t i = 0; i < kr_egress_vars_of(&x->rule); i++) {
        char *text;

        if (is_given(env, kr_egress_vars[i].name))
            continue;
        if (asprintf(&text, "%s=%s", kr_egress_vars[i].name, kr_egress_vars[i].value) < 0)
            return -ENOMEM;
        x->texts[x->text_count++] = text;
        x->env[x->env_count++] = text;
    }
    return 0;
}

int kr_run_egress_open(struct kr_run_egress *x, struct uv_loop_s *loop, const struct kr_net_rule *rule, bool wanted,
                       const char *credentials, const struct kr_opt_list *env, struct kr_err *err)
{
    const struct kr_egress_calls calls = {on_program_connection, x};

    *x = (struct kr_run_egress){.rule = *rule};
    if (fill_env(x, env) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the environment");
    if (!wanted)
        return 0;
    if (kr_egress_new(loop, &x->client) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the way out");
    kr_egress_set_calls(x->client, &calls);
    return kr_cli_egress_setup(x->client, credentials, NULL, err);
}

void kr_run_egress_connect(struct kr_run_egress *x, int fd)
{
    int r;

    if (!x->client) {
        kr_fd_close(fd);
        return;
    }
    r = kr_egress_connect(x->client, fd);
    if (r < 0)
        kr_log(KR_LOG_ERROR, "egress process not joined", "errno=%d", -r);
}

void kr_run_egress_begin(struct kr_run_egress *x, struct kr_session *s)
{
    struct kr_egress_cell cell = {
        .cell = kr_session_cell(s), .sandbox = "run", .user = "run", .run = "run", .rule = x->rule};
    int listener = kr_session_listener(s), r;

    if (!x->client || listener < 0)
        return;
    r = kr_egress_add(x->client, &cell, listener);
    if (r < 0)
        kr_log(KR_LOG_ERROR, "program without its way out", "errno=%d", -r);
}

void kr_run_egress_hint(struct kr_run_egress *x, char *hint, size_t size)
{
    if (x->client)
        kr_egress_catch_up(x->client);
    if (x->refused > 0)
        snprintf(hint, size, "%s", x->first);
}

void kr_run_egress_close(struct kr_run_egress *x)
{
    kr_egress_free(x->client);
    for (size_t i = 0; i < x->text_count; i++)
        free(x->texts[i]);
    *x = (struct kr_run_egress){0};
}

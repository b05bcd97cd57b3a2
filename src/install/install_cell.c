/* A cell of the server's own: one engine session with one run, its listener with the egress process, its lines.
 *
 * Called by the steps of a job and the looks. Invariants: whoever started it hears of its end once, or has dropped it;
 * the egress process knows its listener from the moment the session is there until its end; a dropped cell is closed as
 * soon as the engine has it, and its memory goes with the last callback. */
#include "install_cell.h"
#include "egress_env.h"
#include "install_internal.h"
#include "log.h"
#include "run.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kr_install_cell {
    LIST_ENTRY(kr_install_cell) link;
    struct kr_install *in;                     /* NULL: it is going, only the engine has us */
    const struct kr_install_cell_calls *calls; /* NULL: dropped */
    void *data;
    struct kr_session *session; /* NULL: not there yet, or gone */
    uint64_t cell;              /* as the egress process knows it; 0: it does not */
    struct kr_run_spec run;     /* a copy */
    struct kr_net_rule rule;
    char sandbox[KR_STORE_ID_ROOM], user[KR_STORE_ID_ROOM];
    struct kr_buf line;  /* what has come of one that is not whole */
    struct kr_buf words; /* the last of what it said on stderr */
    bool has_ended;      /* its starter has heard, or is hearing */
    bool is_broken;      /* a line was too long */
};

#define WORDS_MAX 2048u /* of stderr, for the error of code that ended too early */

void kr_install_cell_limits(struct kr_limits *l, uint64_t timeout_ms)
{
    kr_limits_default(l);
    l->memory = UINT64_C(1) << 30;
    l->disk = UINT64_C(2) << 30;
    l->inodes = 200000;
    l->file_size = UINT64_C(1) << 30;
    l->cpu_milli = 2000;
    l->timeout_ms = timeout_ms;
    l->processes = 64;
    l->open_files = 1024;
}

static void free_cell(struct kr_install_cell *c)
{
    LIST_REMOVE(c, link);
    kr_run_spec_done(&c->run);
    kr_buf_done(&c->line);
    kr_buf_done(&c->words);
    free(c);
}

static void forget_egress(struct kr_install_cell *c)
{
    if (c->cell && c->in && c->in->config.egress)
        kr_egress_drop(c->in->config.egress, c->cell);
    c->cell = 0;
}

/* Tells its starter, unless that was done or the starter has left. */
static void tell_end(struct kr_install_cell *c, const struct kr_err *err)
{
    const struct kr_install_cell_calls *calls = c->has_ended ? NULL : c->calls;

    c->has_ended = true;
    c->calls = NULL;
    if (calls)
        calls->on_end(c->data, err);
}

/* ---- its output ---- */

static void hand_line(struct kr_install_cell *c)
{
    if (c->calls && c->line.len > 0)
        c->calls->on_line(c->data, kr_buf_str(&c->line), c->line.len);
    kr_buf_reset(&c->line);
}

static void on_cell_output(void *data, struct kr_run *r, enum kr_stream stream, const char *text, size_t len)
{
    struct kr_install_cell *c = data;

    if (stream != KR_STREAM_STDOUT) {
        if (c->words.len + len > c->words.max)
            kr_buf_reset(&c->words);
        (void)kr_buf_add(&c->words, text, len < c->words.max ? len : c->words.max);
        return;
    }
    while (len > 0 && !c->is_broken && c->calls) {
        const char *end = memchr(text, '\n', len);
        size_t part = end ? (size_t)(end - text) : len;

        if (kr_buf_add(&c->line, text, part) < 0) {
            c->is_broken = true;
            kr_run_cancel(r);
            return;
        }
        if (end)
            hand_line(c);
        part += end != NULL;
        text += part;
        len -= part;
    }
}

/* The last line of what it said last. */
static const char *last_words(struct kr_install_cell *c)
{
    char *text = c->words.data, *line;

    while (c->words.len > 0 && text[c->words.len - 1] <= ' ')
        text[--c->words.len] = '\0';
    line = c->words.len > 0 ? strrchr(text, '\n') : NULL;
    return line ? line + 1 : c->words.len > 0 ? text : "it said nothing";
}

static void on_cell_run_end(void *data, struct kr_run *r, const struct kr_run_end *end)
{
    struct kr_install_cell *c = data;
    struct kr_err err;

    (void)r;
    hand_line(c);
    kr_session_close(c->session);
    if (!c->is_broken && !end->truncated && end->verdict.cause == KR_CAUSE_OK) {
        tell_end(c, NULL);
        return;
    }
    if (c->is_broken || end->truncated)
        kr_err_set(&err, KR_ERR_LIMIT, 0, "it printed more than is taken");
    else if (end->verdict.cause == KR_CAUSE_TIMEOUT)
        kr_err_set(&err, KR_ERR_TIMEOUT, 0, "it took too long");
    else
        kr_err_set(&err, KR_ERR_SYSTEM, 0, "%s: %.150s", kr_cause_rows[end->verdict.cause].name,
                   end->message[0] ? end->message : last_words(c));
    tell_end(c, &err);
}

/* ---- its session ---- */

static int join_egress(struct kr_install_cell *c, struct kr_err *err)
{
    int listener = kr_session_listener(c->session), r;
    const struct kr_egress_cell cell = {
        .cell = kr_session_cell(c->session), .sandbox = c->sandbox, .user = c->user, .rule = c->rule};

    if (c->rule.kind < KR_NET_EGRESS_MIN_)
        return 0;
    if (listener < 0 || !c->in->config.egress)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "the cell has no way to the package index");
    r = kr_egress_add(c->in->config.egress, &cell, listener);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "the cell's way to the package index");
    c->cell = cell.cell;
    return 0;
}

static void on_cell_open(void *data, struct kr_session *s, const struct kr_err *failed)
{
    static const struct kr_run_calls calls = {.on_output = on_cell_output, .on_end = on_cell_run_end};
    struct kr_install_cell *c = data;
    struct kr_run *run;
    struct kr_err err;

    if (failed) {
        tell_end(c, failed);
        free_cell(c);
        return;
    }
    c->session = s;
    if (!c->calls || !c->in) {
        kr_session_close(s);
        return;
    }
    if (join_egress(c, &err) < 0 || kr_run_new(s, &c->run, &calls, c, &run, &err) < 0) {
        kr_session_close(s);
        tell_end(c, &err);
    }
    kr_run_spec_done(&c->run);
}

static void on_cell_ended(void *data, struct kr_session *s, enum kr_cause cause, const char *message)
{
    struct kr_install_cell *c = data;
    struct kr_err err;

    (void)s;
    forget_egress(c);
    kr_err_set(&err, KR_ERR_SYSTEM, 0, "its cell has ended (%s): %.120s", kr_cause_rows[cause].name,
               message ? message : "");
    tell_end(c, &err);
    free_cell(c);
}

/* ---- life ---- */

static uint32_t basic_zygote(const struct kr_engine *e)
{
    for (size_t i = 0; i < kr_engine_zygote_count(e); i++)
        if (kr_engine_zygote(e, i).preload == KR_PRELOAD_BASIC)
            return (uint32_t)i;
    return 0;
}

static const char **cell_env(const struct kr_net_rule *rule, size_t *ret_count)
{
    size_t count = kr_egress_vars_of(rule);
    const char **env = calloc(count + 1, sizeof *env);

    *ret_count = 0;
    for (size_t i = 0; env && i < count; i++) {
        char *text;

        if (asprintf(&text, "%s=%s", kr_egress_vars[i].name, kr_egress_vars[i].value) < 0)
            break;
        env[(*ret_count)++] = text;
    }
    return env;
}

static int open_session(struct kr_install_cell *c, const struct kr_install_cell_spec *spec, struct kr_err *err)
{
    static const struct kr_session_calls calls = {.on_open = on_cell_open, .on_ended = on_cell_ended};
    struct kr_engine *e = kr_box_engine(c->in->config.box);
    const struct kr_box_config *box = kr_box_config(c->in->config.box);
    size_t count;
    const char **env = cell_env(&c->rule, &count);
    struct kr_session_spec session = {.zygote = basic_zygote(e),
                                      .network = c->rule,
                                      .workspace = KR_WORKSPACE_NONE,
                                      .venv = spec->folder != NULL,
                                      .limits = spec->limits,
                                      .env = env,
                                      .env_count = count};
    int r;

    kr_limits_lower(&session.limits, &box->profiles[box->dialect].ceilings);
    snprintf(session.folder, sizeof session.folder, "%s", spec->folder ? spec->folder : "");
    r = env ? kr_engine_open(e, &session, spec->network == KR_NET_NONE, &calls, c, err)
            : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a cell for packages");
    for (size_t i = 0; env && i < count; i++)
        free((char *)env[i]);
    free(env);
    return r;
}

int kr_install_cell_open(struct kr_install *in, const struct kr_install_cell_spec *spec,
                         const struct kr_install_cell_calls *calls, void *data, struct kr_install_cell **ret_cell,
                         struct kr_err *err)
{
    const struct kr_run_spec run = {.code = {spec->code, strlen(spec->code)},
                                    .input = {"", 0},
                                    .variables = spec->variables,
                                    .timeout_ms = spec->timeout_ms,
                                    .output_cap = (int64_t)spec->output_max};
    struct kr_install_cell *c = calloc(1, sizeof *c);
    int r = c ? kr_run_spec_copy(&run, &c->run) : -ENOMEM;

    if (r < 0) {
        free(c);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a cell for packages");
    }
    LIST_INSERT_HEAD(&in->cells, c, link);
    c->in = in;
    c->calls = calls;
    c->data = data;
    c->rule.kind = spec->network;
    kr_buf_init(&c->line, spec->line_max);
    kr_buf_init(&c->words, WORDS_MAX);
    snprintf(c->sandbox, sizeof c->sandbox, "%s", spec->sandbox);
    snprintf(c->user, sizeof c->user, "%s", spec->user);
    r = open_session(c, spec, err);
    if (r < 0) {
        free_cell(c);
        return r;
    }
    *ret_cell = c;
    return 0;
}

void kr_install_cell_drop(struct kr_install_cell *c)
{
    if (!c)
        return;
    c->calls = NULL;
    c->has_ended = true;
    if (c->session)
        kr_session_close(c->session);
}

void kr_install_cells_close(struct kr_install *in)
{
    struct kr_install_cell *c, *next;

    for (c = LIST_FIRST(&in->cells); c; c = next) {
        next = LIST_NEXT(c, link);
        forget_egress(c);
        kr_install_cell_drop(c);
        LIST_REMOVE(c, link); /* the engine frees it by our callbacks, from a list of its own */
        c->link.le_next = NULL;
        c->link.le_prev = &c->link.le_next;
        c->in = NULL;
    }
}

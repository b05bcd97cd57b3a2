/* Sessions' ways out: what the egress process is told of their cells, and what it tells of connections.
 *
 * Called by box_sessions.c (a session is live, is gone) and box_run_events.c (a run begins, ends). Invariants: the
 * process knows a cell from the moment its session is live until its end, under the rule of the run that is in it; a
 * connection that was refused is told to the run's author, once. */
#include "box_internal.h"
#include "egress_client.h"
#include "egress_env.h"
#include "egress_row.h"
#include "log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The narrower of the two, as far as it can be told. */
static const struct kr_net_rule *rule_of(const struct kr_box_session *session, const struct kr_box_run *r)
{
    static const struct kr_net_rule nothing = {.kind = KR_NET_NONE};
    const struct kr_net_rule *own = &session->spec.network, *asked = r ? r->network : NULL;

    if (!asked || kr_net_rule_within(own, asked))
        return own;
    return kr_net_rule_within(asked, own) ? asked : &nothing;
}

static struct kr_egress_cell cell_of(const struct kr_box_session *session, const struct kr_box_run *r)
{
    return (struct kr_egress_cell){
        .cell = session->cell,
        .sandbox = session->sandbox,
        .user = session->user->id,
        .run = r ? r->id : NULL,
        .rule = *rule_of(session, r),
    };
}

void kr_box_egress_begin(struct kr_box_session *session)
{
    int listener = kr_session_listener(session->engine_session);
    struct kr_egress_cell cell;
    int r;

    if (listener < 0 || !session->box->config.egress)
        return;
    session->cell = kr_session_cell(session->engine_session);
    cell = cell_of(session, NULL);
    r = kr_egress_add(session->box->config.egress, &cell, listener);
    if (r >= 0)
        return;
    session->cell = 0;
    kr_log(KR_LOG_ERROR, "session without its way out", "session=%s sandbox=%s errno=%d", session->name,
           session->sandbox, -r);
}

void kr_box_egress_tell(struct kr_box_session *session, const struct kr_box_run *run)
{
    struct kr_egress_cell cell;
    int r;

    if (!session->cell)
        return;
    cell = cell_of(session, run);
    r = kr_egress_change(session->box->config.egress, &cell);
    if (r >= 0)
        return;
    kr_log(KR_LOG_ERROR, "session loses its way out", "session=%s errno=%d", session->name, -r);
    kr_box_egress_end(session); /* rather none than one under another rule */
}

void kr_box_egress_end(struct kr_box_session *session)
{
    if (session->cell)
        kr_egress_drop(session->box->config.egress, session->cell);
    session->cell = 0;
}

/* ---- what it tells ---- */

static struct kr_box_session *session_of_cell(struct kr_box *b, uint64_t cell)
{
    struct kr_box_session *session;

    TAILQ_FOREACH(session, &b->sessions, link)
    if (cell && session->cell == cell)
        return session;
    return NULL;
}

static const char *member(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));

    return text ? text : "";
}

/* The first that was refused is what its author is told. */
static void note_refusal(struct kr_box_run *r, const json_t *row)
{
    if (r->refused_count++ > 0)
        return;
    kr_egress_row_refusal(row, r->refused, sizeof r->refused);
}

static void on_connection(void *data, const json_t *row)
{
    struct kr_box *b = data;
    uint64_t cell = (uint64_t)json_integer_value(json_object_get(row, "cell"));
    const char *verdict = member(row, "verdict"), *run = json_string_value(json_object_get(row, "run"));
    struct kr_box_run *r = run ? kr_box_run_by_id(b, run) : NULL;
    const struct kr_box_session *session = session_of_cell(b, cell);

    if (cell && session && strcmp(session->user->id, member(row, "user")) != 0)
        return; /* a cell's connections are its user's, whatever the process says */
    if (strcmp(verdict, "denied") == 0 && r && r->state != KR_BOX_RUN_OVER &&
        strcmp(r->user->id, member(row, "user")) == 0)
        note_refusal(r, row);
    kr_connections_take(b, row);
    kr_security_note_connection(b->security, row);
    if (b->calls.on_connection)
        b->calls.on_connection(b->data, row);
}

void kr_box_egress_open(struct kr_box *b)
{
    const struct kr_egress_calls calls = {on_connection, b};

    if (b->config.egress)
        kr_egress_set_calls(b->config.egress, &calls);
}

void kr_box_egress_close(struct kr_box *b)
{
    struct kr_box_session *session;

    TAILQ_FOREACH(session, &b->sessions, link)
    kr_box_egress_end(session);
    if (b->config.egress)
        kr_egress_set_calls(b->config.egress, &(struct kr_egress_calls){0});
}

void kr_box_egress_hint(struct kr_box_run *r)
{
    if (r->session->cell)
        kr_egress_catch_up(r->box->config.egress);
    if (r->refused_count == 0)
        return;
    snprintf(r->hint, sizeof r->hint, "%s", r->refused);
}

/* ---- the environment ---- */

int kr_box_egress_env(const json_t *env, struct kr_session_spec *spec)
{
    for (size_t i = 0; i < kr_egress_vars_of(&spec->network); i++) {
        char *text;

        if (json_object_get(env, kr_egress_vars[i].name))
            continue;
        if (asprintf(&text, "%s=%s", kr_egress_vars[i].name, kr_egress_vars[i].value) < 0)
            return -ENOMEM;
        ((const char **)spec->env)[spec->env_count++] = text;
    }
    return 0;
}

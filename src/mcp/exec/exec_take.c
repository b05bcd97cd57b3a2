/* Events of a run's log become an outcome, and what the client hears of them meanwhile. Called by exec.c for each
 * event.
 *
 * Invariant: memory is bounded whatever the run writes (run_outcome.h has the bounds). */
#include "exec_internal.h"
#include "json_load.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- events ---- */

static json_t *load_event(const struct kr_event *e)
{
    return kr_json_load(e->data, e->len, JSON_ALLOW_NUL, NULL);
}

/* Where in the text the events stand, coarsely, so that a cut can say where to read on. */
static void note_mark(struct kr_mcp_exec *x, const struct kr_event *e)
{
    struct kr_mcp_outcome *o = &x->o;
    size_t n = o->mark_count;

    if (n < KR_MCP_MARKS && (n == 0 || x->run.out_bytes >= o->marks[n - 1].at + KR_MCP_MARK_STEP)) {
        o->marks[n].at = x->run.out_bytes;
        o->marks[n].seq = e->seq;
        o->mark_count++;
    }
}

static void take_question(struct kr_mcp_exec *x, const struct kr_event *e)
{
    json_t *question = load_event(e);
    const char *prompt = json_string_value(json_object_get(question, "prompt"));

    free(x->prompt);
    x->prompt = strdup(prompt ? prompt : "");
    x->password = json_is_true(json_object_get(question, "password"));
    x->question = e->seq;
    if (!x->password && prompt) /* as python3 does that reads from no terminal */
        kr_outcome_text(&x->run, KR_STREAM_STDOUT, prompt, strlen(prompt));
    json_decref(question);
}

/* The session and sandbox that an event names. */
static void take_names(struct kr_mcp_outcome *o, const json_t *object)
{
    const char *session = json_string_value(json_object_get(object, "session_id"));
    const char *sandbox = json_string_value(json_object_get(object, "sandbox_id"));

    if (session)
        snprintf(o->session, sizeof o->session, "%s", session);
    if (sandbox)
        snprintf(o->sandbox, sizeof o->sandbox, "%s", sandbox);
}

static void take_started(struct kr_mcp_exec *x, const struct kr_event *e)
{
    json_t *started = load_event(e);

    take_names(&x->o, started);
    x->o.restarted = json_is_true(json_object_get(started, "session_restarted"));
    if (x->o.restarted)
        kr_mcp_exec_log(x, KR_MCP_NOTICE, "session_restarted",
                        "the session is a new one: variables are gone, files kept");
    x->o.frozen = json_is_true(json_object_get(started, "session_frozen"));
    if (x->o.frozen)
        kr_mcp_exec_log(x, KR_MCP_NOTICE, "session_frozen",
                        "background work had used up background_cpu and was frozen until this run");
    json_decref(started);
}

static void take_queued(struct kr_mcp_exec *x, const struct kr_event *e)
{
    json_t *queued = load_event(e);
    char text[160], behind[sizeof x->o.behind];
    int len = snprintf(text, sizeof text, "[waiting: %lld runs ahead]\n",
                       (long long)json_integer_value(json_object_get(queued, "ahead")) + 1);

    if (*kr_box_run_behind_text(x->box, &x->who.caller, x->o.run_id, behind))
        len = snprintf(text, sizeof text, "[%s]\n", behind);
    kr_mcp_exec_news(x, text, (size_t)len);
    json_decref(queued);
}

static void take_run_end(struct kr_mcp_exec *x)
{
    json_decref(x->o.end);
    x->o.end = kr_outcome_object(&x->run.end);
    take_names(&x->o, x->o.end);
    if (json_array_size(json_object_get(x->o.end, "limits_hit")) > 0)
        kr_mcp_exec_log(x, KR_MCP_WARNING, "limits_hit", json_string_value(json_object_get(x->o.end, "message")));
}

void kr_mcp_exec_take(struct kr_mcp_exec *x, const struct kr_event *e)
{
    if (e->type == KR_EVENT_STDOUT)
        note_mark(x, e);
    kr_outcome_take(&x->run, e);
    switch (e->type) {
    case KR_EVENT_STDOUT:
    case KR_EVENT_STDERR:
        kr_mcp_exec_news(x, e->data, e->len);
        break;
    case KR_EVENT_INPUT:
        take_question(x, e);
        break;
    case KR_EVENT_STARTED:
        take_started(x, e);
        break;
    case KR_EVENT_QUEUED:
        take_queued(x, e);
        break;
    case KR_EVENT_END:
        take_run_end(x);
        break;
    case KR_EVENT_RESULT:
    case KR_EVENT_ERROR:
        x->o.told_seq = e->seq;
        break;
    case KR_EVENT_DISPLAY:
    case KR_EVENT_CUT:
    case KR_EVENT_NOTICE:
    case KR_EVENT_MAX_:
        break;
    }
}

/* ---- the whole ---- */

void kr_mcp_exec_init_outcome(struct kr_mcp_exec *x)
{
    static const struct kr_outcome_bounds bounds = {.text = KR_MCP_OUTPUT_MAX,
                                                    .displays = KR_MCP_DISPLAYS_BYTES,
                                                    .keep_tail = true,
                                                    .apart = true,
                                                    .together = true};

    kr_outcome_init(&x->run, &bounds);
    x->o = (struct kr_mcp_outcome){.running = true, .next_seq = 1};
    kr_buf_init(&x->news, KR_MCP_NEWS_MAX + KR_EVENT_TEXT_MAX);
}

static struct kr_buf move_buf(struct kr_buf *from)
{
    struct kr_buf moved = *from;

    kr_buf_init(from, 0);
    return moved;
}

void kr_mcp_exec_close_outcome(struct kr_mcp_exec *x)
{
    struct kr_mcp_outcome *o = &x->o;

    kr_outcome_close(&x->run);
    o->out = move_buf(&x->run.out);
    o->err = move_buf(&x->run.err);
    o->both = move_buf(&x->run.both);
    o->out_bytes = x->run.out_bytes;
    o->err_bytes = x->run.err_bytes;
    o->displays = kr_outcome_displays(&x->run);
    o->displays_left_out = x->run.displays_left_out;
    o->result = kr_outcome_object(&x->run.result);
    o->error = kr_outcome_object(&x->run.error);
    o->cause = x->run.cause;
    o->running = !x->run.ended;
    (void)kr_box_run_behind_text(x->box, &x->who.caller, o->run_id, o->behind);
    o->cut = x->run.cut;
    o->next_seq = x->run.next_seq;
    kr_outcome_done(&x->run);
}

void kr_mcp_exec_done_outcome(struct kr_mcp_exec *x)
{
    struct kr_buf *all[] = {&x->o.out, &x->o.err, &x->o.both, &x->news};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        kr_buf_done(all[i]);
    kr_outcome_done(&x->run);
    json_decref(x->o.displays);
    json_decref(x->o.result);
    json_decref(x->o.error);
    json_decref(x->o.end);
    json_decref(x->o.small_files);
    free(x->prompt);
}

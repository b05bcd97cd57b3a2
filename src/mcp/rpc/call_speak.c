/* What a call says before it is answered: progress, log messages, questions to the client. Called by handlers (call.h).
 *
 * Invariant: nothing is said that the client did not ask for (a token, a level, a capability), and a question ends with
 * an answer, with its deadline or with its call. */
#include "mcp_internal.h"
#include "buf.h"
#include "clock.h"
#include "tool.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ASK_MAX (1u << 20)
#define NOTE_MAX (KR_MCP_RESULT_MAX + 65536) /* that of a task's end carries its result */
#define QUESTIONS_MAX 16u                    /* open at once on one peer */
#define LOOK_MS 2000u                        /* how often an open question looks for its client */
#define MS UINT64_C(1000000)

/* ---- meanwhile ---- */

/* A JSON number without a fraction if it has none. New. */
static json_t *number(double value)
{
    bool whole = value > -9007199254740992.0 && value < 9007199254740992.0 && (double)(json_int_t)value == value;

    return whole ? json_integer((json_int_t)value) : json_real(value);
}

void kr_mcp_call_note(struct kr_mcp_call *c, const char *method, json_t *params)
{
    cleanup_buf struct kr_buf out;

    kr_buf_init(&out, NOTE_MAX);
    if (c->peer && !c->peer->dead && kr_mcp_write_note(&out, method, params) == 0)
        c->peer->wire->send(c->peer->data, c->stream, KR_MCP_NOTE, 0, out.data, out.len);
    json_decref(params);
}

void kr_mcp_progress(struct kr_mcp_call *c, double progress, double total, const char *message)
{
    uint64_t now = kr_clock_ns();
    json_t *params;

    if (!kr_mcp_has_token(c) || (c->progress_ns && progress <= c->progress))
        return;
    if (c->progress_ns && now - c->progress_ns < KR_MCP_PROGRESS_MS * MS && !(total >= 0 && progress >= total))
        return;
    c->progress = progress;
    c->progress_ns = now;
    params = json_pack("{s:O,s:o}", "progressToken", c->token, "progress", number(progress));
    if (total >= 0)
        json_object_set_new(params, "total", number(total));
    if (message && c->rev >= KR_REV_2025_03_26)
        json_object_set_new(params, "message", json_string(message));
    kr_mcp_call_note(c, "notifications/progress", params);
}

void kr_mcp_log(struct kr_mcp_call *c, enum kr_mcp_level level, const char *logger, json_t *data)
{
    json_t *params;

    if (!c->peer || (int)level < c->level || !data) {
        json_decref(data);
        return;
    }
    params = json_pack("{s:s,s:o}", "level", kr_mcp_level_names[level], "data", data);
    if (logger)
        json_object_set_new(params, "logger", json_string(logger));
    kr_mcp_call_note(c, "notifications/message", params);
}

/* ---- questions ---- */

bool kr_mcp_may_ask(const struct kr_mcp_call *c)
{
    const struct kr_mcp_peer *p = c->peer;

    if (!p)
        return c->outlet && c->outlet->on_ask;
    return !kr_mcp_revs[c->rev].modern && !p->dead && (!p->wire->may_ask || p->wire->may_ask(p->data, c->stream));
}

static bool declared(const struct kr_mcp_call *c, const char *method)
{
    if (strcmp(method, "elicitation/create") == 0)
        return kr_mcp_revs[c->rev].elicitation && kr_mcp_client_can(c, "elicitation");
    if (strcmp(method, "sampling/createMessage") == 0)
        return kr_mcp_client_can(c, "sampling");
    return strcmp(method, "roots/list") != 0 || kr_mcp_client_can(c, "roots");
}

static void withdraw(struct kr_mcp_question *q, const char *why)
{
    struct kr_mcp_call *c = q->call;
    uint64_t id = q->id;

    kr_mcp_question_drop(c->peer, q);
    kr_mcp_call_note(c, "notifications/cancelled", json_pack("{s:I,s:s}", "requestId", (json_int_t)id, "reason", why));
}

static bool is_over(struct kr_mcp_question *q)
{
    const struct kr_mcp_peer *p = q->call->peer;
    uint64_t now = kr_clock_ns();

    if (!p->wire->is_there || p->wire->is_there(p->data))
        q->absent_ns = 0;
    else if (!q->absent_ns)
        q->absent_ns = now;
    return now >= q->until_ns || (q->absent_ns && now - q->absent_ns >= KR_MCP_GONE_MS * MS);
}

/* The client is notified that no answer is awaited any more, and the call gets none. */
static void on_question_look(void *data)
{
    struct kr_mcp_question *q = data, asked = *q;

    if (!is_over(q)) {
        kr_timer_arm(q->look, LOOK_MS);
        return;
    }
    withdraw(q, "no answer in time");
    asked.on_answer(asked.data, asked.call, NULL);
}

static int ask_peer(struct kr_mcp_call *c, const char *method, const json_t *params, kr_mcp_answer_fn *on_answer,
                    void *data)
{
    struct kr_mcp_peer *p = c->peer;
    cleanup_buf struct kr_buf out;
    struct kr_mcp_question *q, *other;
    unsigned count = 0;

    kr_buf_init(&out, ASK_MAX);
    TAILQ_FOREACH(other, &p->questions, entry)
    count++;
    if (count >= QUESTIONS_MAX)
        return -EBUSY;
    if (!(q = calloc(1, sizeof *q)) || kr_timer_new(c->manner->mcp->api->loop, on_question_look, q, &q->look) < 0) {
        free(q);
        return -ENOMEM;
    }
    *q = (struct kr_mcp_question){.id = p->next_question++,
                                  .call = c,
                                  .on_answer = on_answer,
                                  .data = data,
                                  .look = q->look,
                                  .until_ns = kr_clock_after_ms(KR_MCP_ASK_MS)};
    TAILQ_INSERT_TAIL(&p->questions, q, entry);
    if (kr_mcp_write_ask(&out, q->id, method, params) < 0) {
        kr_mcp_question_drop(p, q);
        return -EINVAL;
    }
    kr_timer_arm(q->look, LOOK_MS);
    p->wire->send(p->data, c->stream, KR_MCP_ASK, 0, out.data, out.len);
    return 0;
}

int kr_mcp_ask(struct kr_mcp_call *c, const char *method, json_t *params, kr_mcp_answer_fn *on_answer, void *data)
{
    int r = -ENOTSUP;

    if (c->outlet)
        return c->outlet->on_ask ? c->outlet->on_ask(c->outlet_data, c, method, params, on_answer, data)
                                 : (json_decref(params), -ENOTSUP);
    if (kr_mcp_may_ask(c) && declared(c, method))
        r = ask_peer(c, method, params, on_answer, data);
    json_decref(params);
    return r;
}

void kr_mcp_unask(struct kr_mcp_call *c, const void *data)
{
    struct kr_mcp_question *q, *next;

    if (c->outlet && c->outlet->on_unask)
        c->outlet->on_unask(c->outlet_data, data);
    for (q = c->peer ? TAILQ_FIRST(&c->peer->questions) : NULL; q; q = next) {
        next = TAILQ_NEXT(q, entry);
        if (q->call == c && q->data == data)
            withdraw(q, "it is not waited for any more");
    }
}

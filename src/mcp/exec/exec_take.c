/* Events of a run's log become an outcome. Called by exec.c for each event.
 *
 * Invariants: memory is bounded whatever the run writes (head and tail of each text, displays up to a sum); what is not kept
 * is counted and marked as cut. */
#include "exec_internal.h"
#include "utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

static void clip_init(struct kr_mcp_clip *clip)
{
    kr_buf_init(&clip->head, KR_MCP_OUTPUT_MAX + 256);
    kr_buf_init(&clip->tail, KR_MCP_OUTPUT_MAX + KR_EVENT_TEXT_MAX);
    clip->total = 0;
}

/* Forgets the front of the tail, whole characters only. */
static void shorten_tail(struct kr_buf *tail)
{
    size_t from = tail->len - KR_MCP_CLIP_HALF;

    while (from < tail->len && ((unsigned char)tail->data[from] & 0xc0) == 0x80)
        from++;
    kr_buf_drop(tail, from);
}

static void clip_add(struct kr_mcp_clip *clip, const char *text, size_t len)
{
    size_t fits = 0;

    clip->total += len;
    if (clip->tail.len == 0 && clip->head.len < KR_MCP_CLIP_HALF) {
        fits = KR_MCP_CLIP_HALF - clip->head.len;
        fits = len <= fits ? len : kr_utf8_complete(text, fits);
        kr_buf_add(&clip->head, text, fits);
    }
    if (fits == len)
        return;
    kr_buf_add(&clip->tail, text + fits, len - fits);
    if (clip->tail.len > KR_MCP_OUTPUT_MAX)
        shorten_tail(&clip->tail);
}

/* Moves head and tail into `out`. True: something is missing between them. */
static bool clip_close(struct kr_mcp_clip *clip, struct kr_buf *out)
{
    uint64_t missing;

    if (clip->tail.len > KR_MCP_CLIP_HALF)
        shorten_tail(&clip->tail);
    missing = clip->total - clip->head.len - clip->tail.len;
    if (missing > 0)
        kr_buf_printf(&clip->head, "\n[%llu bytes left out]\n", (unsigned long long)missing);
    kr_buf_add(&clip->head, kr_buf_str(&clip->tail), clip->tail.len);
    kr_buf_done(&clip->tail);
    *out = clip->head;
    clip->head = (struct kr_buf){0};
    return missing > 0;
}

/* ---- events ---- */

/* Where in the text the events stand, coarsely, so that a cut can say where to read on. */
static void note_mark(struct kr_mcp_outcome *o, const struct kr_event *e)
{
    size_t n = o->mark_count;

    if (n < KR_MCP_MARKS && (n == 0 || o->out_bytes >= o->marks[n - 1].at + KR_MCP_MARK_STEP)) {
        o->marks[n].at = o->out_bytes;
        o->marks[n].seq = e->seq;
        o->mark_count++;
    }
}

static void take_text(struct kr_mcp_exec *x, const struct kr_event *e)
{
    if (e->type == KR_EVENT_STDOUT) {
        note_mark(&x->o, e);
        clip_add(&x->out, e->data, e->len);
        x->o.out_bytes += e->len;
    } else {
        clip_add(&x->err, e->data, e->len);
        x->o.err_bytes += e->len;
    }
    clip_add(&x->both, e->data, e->len);
    kr_mcp_exec_news(x, e->data, e->len);
}

static void take_display(struct kr_mcp_exec *x, const struct kr_event *e)
{
    json_t *display;

    if (x->display_bytes + e->len > KR_MCP_DISPLAYS_BYTES) {
        x->o.displays_left_out++;
        x->o.cut = true;
        return;
    }
    display = json_loadb(e->data, e->len, JSON_ALLOW_NUL, NULL);
    x->display_bytes += e->len;
    if (display)
        json_array_append_new(x->o.displays, display);
}

static json_t *load(const struct kr_event *e)
{
    return json_loadb(e->data, e->len, JSON_ALLOW_NUL, NULL);
}

static void keep_object(json_t **place, const struct kr_event *e)
{
    json_decref(*place);
    *place = load(e);
}

static void take_question(struct kr_mcp_exec *x, const struct kr_event *e)
{
    json_t *question = load(e);
    const char *prompt = json_string_value(json_object_get(question, "prompt"));

    free(x->prompt);
    x->prompt = strdup(prompt ? prompt : "");
    x->password = json_is_true(json_object_get(question, "password"));
    x->question = e->seq;
    if (!x->password && prompt) { /* as python3 does that reads from no terminal */
        clip_add(&x->out, prompt, strlen(prompt));
        clip_add(&x->both, prompt, strlen(prompt));
        x->o.out_bytes += strlen(prompt);
    }
    json_decref(question);
}

static void take_started(struct kr_mcp_exec *x, const struct kr_event *e)
{
    json_t *started = load(e);
    const char *session = json_string_value(json_object_get(started, "session_id"));
    const char *sandbox = json_string_value(json_object_get(started, "sandbox_id"));

    snprintf(x->o.session, sizeof x->o.session, "%s", session ? session : "");
    snprintf(x->o.sandbox, sizeof x->o.sandbox, "%s", sandbox ? sandbox : "");
    x->o.restarted = json_is_true(json_object_get(started, "session_restarted"));
    if (x->o.restarted)
        kr_mcp_exec_log(x, KR_MCP_NOTICE, "session_restarted",
                        "the session is a new one: variables are gone, files kept");
    json_decref(started);
}

static void take_queued(struct kr_mcp_exec *x, const struct kr_event *e)
{
    json_t *queued = load(e);
    char text[64];
    int len = snprintf(text, sizeof text, "[waiting: %lld runs ahead]\n",
                       (long long)json_integer_value(json_object_get(queued, "ahead")) + 1);

    kr_mcp_exec_news(x, text, (size_t)len);
    json_decref(queued);
}

static void take_end(struct kr_mcp_exec *x, const struct kr_event *e)
{
    const char *session, *sandbox;

    keep_object(&x->o.end, e);
    x->o.cause = e->cause;
    x->o.running = false;
    session = json_string_value(json_object_get(x->o.end, "session_id"));
    sandbox = json_string_value(json_object_get(x->o.end, "sandbox_id"));
    if (session)
        snprintf(x->o.session, sizeof x->o.session, "%s", session);
    if (sandbox)
        snprintf(x->o.sandbox, sizeof x->o.sandbox, "%s", sandbox);
    if (json_array_size(json_object_get(x->o.end, "limits_hit")) > 0)
        kr_mcp_exec_log(x, KR_MCP_WARNING, "limits_hit", json_string_value(json_object_get(x->o.end, "message")));
}

void kr_mcp_exec_take(struct kr_mcp_exec *x, const struct kr_event *e)
{
    switch (e->type) {
    case KR_EVENT_STDOUT:
    case KR_EVENT_STDERR:
        take_text(x, e);
        break;
    case KR_EVENT_DISPLAY:
        take_display(x, e);
        break;
    case KR_EVENT_RESULT:
        keep_object(&x->o.result, e);
        break;
    case KR_EVENT_ERROR:
        keep_object(&x->o.error, e);
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
    case KR_EVENT_CUT:
        x->o.cut = true;
        x->o.out_bytes += e->cut.bytes;
        break;
    case KR_EVENT_END:
        take_end(x, e);
        break;
    case KR_EVENT_NOTICE:
    case KR_EVENT_MAX_:
        break;
    }
    x->o.next_seq = e->seq + 1;
}

/* ---- the whole ---- */

void kr_mcp_exec_init_outcome(struct kr_mcp_exec *x)
{
    x->o = (struct kr_mcp_outcome){.displays = json_array(), .running = true, .next_seq = 1};
    clip_init(&x->out);
    clip_init(&x->err);
    clip_init(&x->both);
    kr_buf_init(&x->news, KR_MCP_NEWS_MAX + KR_EVENT_TEXT_MAX);
}

void kr_mcp_exec_close_outcome(struct kr_mcp_exec *x)
{
    bool cut = clip_close(&x->out, &x->o.out);

    cut |= clip_close(&x->err, &x->o.err);
    cut |= clip_close(&x->both, &x->o.both);
    x->o.cut |= cut;
}

void kr_mcp_exec_done_outcome(struct kr_mcp_exec *x)
{
    struct kr_buf *all[] = {&x->out.head,  &x->out.tail, &x->err.head, &x->err.tail, &x->both.head,
                            &x->both.tail, &x->o.out,    &x->o.err,    &x->o.both,   &x->news};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        kr_buf_done(all[i]);
    json_decref(x->o.displays);
    json_decref(x->o.result);
    json_decref(x->o.error);
    json_decref(x->o.end);
    json_decref(x->o.small_files);
    free(x->prompt);
}

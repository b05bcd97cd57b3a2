/* Events of a run's log become an outcome. Called by the voices for each event (run_collect.c, exec_take.c).
 *
 * Invariants: memory is bounded by what the caller allows, and what does not fit is counted or marked as cut; nothing
 * is parsed before a voice asks for it. */
#include "run_outcome.h"
#include "json_load.h"
#include "utf8.h"

#define MARK_MAX 256u /* bytes of the mark between head and tail */

/* ---- texts ---- */

static void init_text(struct kr_buf *head, struct kr_outcome_tail *tail, const struct kr_outcome_bounds *b, bool kept)
{
    kr_buf_init(head, !kept ? 0 : b->keep_tail ? b->text + MARK_MAX : b->text);
    kr_buf_init(&tail->buf, kept && b->keep_tail ? b->text + KR_EVENT_TEXT_MAX : 0);
    tail->total = 0;
}

/* Drops the front of the tail until it is half the bound, whole characters only. */
static void shorten_tail(struct kr_buf *tail, size_t half)
{
    size_t from = tail->len - half;

    while (from < tail->len && ((unsigned char)tail->data[from] & 0xc0) == 0x80)
        from++;
    kr_buf_drop(tail, from);
}

static void add_text(struct kr_outcome *o, struct kr_buf *head, struct kr_outcome_tail *tail, const char *text,
                     size_t len)
{
    size_t half = o->bounds.text / 2, fits = 0;

    tail->total += len;
    if (!o->bounds.keep_tail) {
        if (head->failed || kr_buf_add(head, text, len) < 0)
            o->cut = true;
        return;
    }
    if (tail->buf.len == 0 && head->len < half) {
        fits = half - head->len;
        fits = len <= fits ? len : kr_utf8_complete(text, fits);
        kr_buf_add(head, text, fits);
    }
    if (fits == len)
        return;
    kr_buf_add(&tail->buf, text + fits, len - fits);
    if (tail->buf.len > o->bounds.text)
        shorten_tail(&tail->buf, half);
}

static void close_text(struct kr_outcome *o, struct kr_buf *head, struct kr_outcome_tail *tail)
{
    uint64_t missing;

    if (!o->bounds.keep_tail)
        return;
    if (tail->buf.len > o->bounds.text / 2)
        shorten_tail(&tail->buf, o->bounds.text / 2);
    missing = tail->total - head->len - tail->buf.len;
    if (missing > 0)
        kr_buf_printf(head, "\n[%llu bytes left out]\n", (unsigned long long)missing);
    kr_buf_add(head, kr_buf_str(&tail->buf), tail->buf.len);
    kr_buf_done(&tail->buf);
    o->cut |= missing > 0;
}

void kr_outcome_text(struct kr_outcome *o, enum kr_stream stream, const char *text, size_t len)
{
    bool out = stream == KR_STREAM_STDOUT;

    *(out ? &o->out_bytes : &o->err_bytes) += len;
    if (o->bounds.apart)
        add_text(o, out ? &o->out : &o->err, out ? &o->out_tail : &o->err_tail, text, len);
    if (o->bounds.together)
        add_text(o, &o->both, &o->both_tail, text, len);
}

/* ---- objects ---- */

static void take_display(struct kr_outcome *o, const struct kr_event *e)
{
    struct kr_buf *all = &o->displays;
    size_t before = all->len;

    if ((before == 0 || kr_buf_add(all, ",", 1) == 0) && kr_buf_add(all, e->data, e->len) == 0)
        return;
    o->displays_left_out++;
    o->cut = true;
    all->len = before; /* without the comma */
    if (all->data)
        all->data[before] = '\0';
    all->failed = 0; /* a smaller one may fit */
}

static void take_object(struct kr_outcome *o, struct kr_buf *json, const struct kr_event *e)
{
    kr_buf_reset(json);
    if (kr_buf_add(json, e->data, e->len) < 0)
        o->cut = true;
}

void kr_outcome_take(struct kr_outcome *o, const struct kr_event *e)
{
    switch (e->type) {
    case KR_EVENT_STDOUT:
        kr_outcome_text(o, KR_STREAM_STDOUT, e->data, e->len);
        break;
    case KR_EVENT_STDERR:
        kr_outcome_text(o, KR_STREAM_STDERR, e->data, e->len);
        break;
    case KR_EVENT_DISPLAY:
        take_display(o, e);
        break;
    case KR_EVENT_RESULT:
        take_object(o, &o->result, e);
        break;
    case KR_EVENT_ERROR:
        take_object(o, &o->error, e);
        break;
    case KR_EVENT_CUT:
        o->cut = true;
        o->out_bytes += e->cut.bytes;
        break;
    case KR_EVENT_END:
        take_object(o, &o->end, e);
        o->cause = e->cause;
        o->ended = true;
        break;
    case KR_EVENT_QUEUED:
    case KR_EVENT_STARTED:
    case KR_EVENT_INPUT:
    case KR_EVENT_NOTICE:
    case KR_EVENT_MAX_:
        break;
    }
    o->next_seq = e->seq + 1;
}

json_t *kr_outcome_object(const struct kr_buf *json)
{
    return json->len > 0 ? kr_json_load(json->data, json->len, JSON_ALLOW_NUL, NULL) : NULL;
}

json_t *kr_outcome_displays(const struct kr_outcome *o)
{
    cleanup_buf struct kr_buf text;
    json_t *list;

    kr_buf_init(&text, o->displays.len + 2);
    kr_buf_add_str(&text, "[");
    kr_buf_add(&text, o->displays.data, o->displays.len);
    kr_buf_add_str(&text, "]");
    list = text.failed ? NULL : kr_json_load(text.data, text.len, JSON_ALLOW_NUL, NULL);
    return list ? list : json_array();
}

/* ---- the whole ---- */

void kr_outcome_init(struct kr_outcome *o, const struct kr_outcome_bounds *bounds)
{
    *o = (struct kr_outcome){.bounds = *bounds, .next_seq = 1};
    init_text(&o->out, &o->out_tail, bounds, bounds->apart);
    init_text(&o->err, &o->err_tail, bounds, bounds->apart);
    init_text(&o->both, &o->both_tail, bounds, bounds->together);
    kr_buf_init(&o->displays, bounds->displays);
    kr_buf_init(&o->result, KR_EVENT_DATA_MAX);
    kr_buf_init(&o->error, KR_EVENT_DATA_MAX);
    kr_buf_init(&o->end, KR_EVENT_DATA_MAX);
}

void kr_outcome_close(struct kr_outcome *o)
{
    close_text(o, &o->out, &o->out_tail);
    close_text(o, &o->err, &o->err_tail);
    close_text(o, &o->both, &o->both_tail);
}

void kr_outcome_done(struct kr_outcome *o)
{
    struct kr_buf *all[] = {&o->out,          &o->err,          &o->both,          &o->displays, &o->result,
                            &o->out_tail.buf, &o->err_tail.buf, &o->both_tail.buf, &o->error,    &o->end};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        kr_buf_done(all[i]);
}

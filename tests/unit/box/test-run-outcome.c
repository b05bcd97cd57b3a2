/* Outcomes: what is kept of a run's events within bounds, and what is said of the rest. */
#include "check.h"
#include "run_outcome.h"
#include <string.h>

static void take(struct kr_outcome *o, enum kr_event_type type, const char *data)
{
    struct kr_event e = {.seq = o->next_seq, .type = type, .data = data, .len = strlen(data)};

    kr_outcome_take(o, &e);
}

static void texts_are_kept_apart_and_together(void)
{
    static const struct kr_outcome_bounds bounds = {.text = 100, .displays = 100, .apart = true, .together = true};
    struct kr_outcome o;

    kr_outcome_init(&o, &bounds);
    take(&o, KR_EVENT_STARTED, "{}");
    take(&o, KR_EVENT_STDOUT, "a");
    take(&o, KR_EVENT_STDERR, "b");
    kr_outcome_text(&o, KR_STREAM_STDOUT, "c", 1);
    kr_outcome_close(&o);
    CHECK(strcmp(kr_buf_str(&o.out), "ac") == 0 && strcmp(kr_buf_str(&o.err), "b") == 0);
    CHECK(strcmp(kr_buf_str(&o.both), "abc") == 0);
    CHECK(o.out_bytes == 2 && o.err_bytes == 1 && !o.cut && !o.ended && o.next_seq == 4);
    kr_outcome_done(&o);
}

static void only_what_is_asked_for_takes_memory(void)
{
    struct kr_outcome_bounds bounds = {.text = 100, .displays = 100, .together = true};
    struct kr_outcome o;

    kr_outcome_init(&o, &bounds);
    take(&o, KR_EVENT_STDOUT, "a");
    CHECK(!o.out.data && o.both.len == 1 && !o.cut);
    kr_outcome_done(&o);
    bounds = (struct kr_outcome_bounds){.text = 100, .displays = 100, .apart = true};
    kr_outcome_init(&o, &bounds);
    take(&o, KR_EVENT_STDOUT, "a");
    CHECK(!o.both.data && o.out.len == 1 && !o.cut);
    kr_outcome_done(&o);
}

static void a_long_text_keeps_its_head(void)
{
    static const struct kr_outcome_bounds bounds = {.text = 10, .displays = 100, .apart = true};
    struct kr_outcome o;

    kr_outcome_init(&o, &bounds);
    take(&o, KR_EVENT_STDOUT, "12345678");
    CHECK(!o.cut);
    take(&o, KR_EVENT_STDOUT, "90123");
    take(&o, KR_EVENT_STDOUT, "4");
    kr_outcome_close(&o);
    CHECK(strcmp(kr_buf_str(&o.out), "12345678") == 0 && o.cut && o.out_bytes == 14);
    kr_outcome_done(&o);
}

static void a_long_text_keeps_head_and_tail(void)
{
    static const struct kr_outcome_bounds bounds = {
        .text = 20, .displays = 100, .keep_tail = true, .apart = true, .together = true};
    struct kr_outcome o;

    kr_outcome_init(&o, &bounds);
    take(&o, KR_EVENT_STDOUT, "0123456789");
    for (int i = 0; i < 50; i++)
        take(&o, KR_EVENT_STDOUT, "--");
    take(&o, KR_EVENT_STDOUT,
         "\xc3\xa4"
         "bcdefghi");
    kr_outcome_close(&o);
    CHECK(strcmp(kr_buf_str(&o.out), "0123456789\n[100 bytes left out]\n\xc3\xa4"
                                     "bcdefghi") == 0);
    CHECK(strcmp(kr_buf_str(&o.out), kr_buf_str(&o.both)) == 0);
    CHECK(o.cut && o.out_bytes == 120);
    kr_outcome_done(&o);
}

static void tails_begin_with_whole_characters(void)
{
    static const struct kr_outcome_bounds bounds = {.text = 20, .displays = 100, .keep_tail = true, .apart = true};
    struct kr_outcome o;

    kr_outcome_init(&o, &bounds);
    take(&o, KR_EVENT_STDOUT, "012345678\xc3\xa4"); /* the character would be cut at 10 */
    take(&o, KR_EVENT_STDOUT,
         "-----------\xc3\xa4"
         "bcdefghi-");
    kr_outcome_close(&o);
    CHECK(strcmp(kr_buf_str(&o.out), "012345678\n[15 bytes left out]\nbcdefghi-") == 0);
    kr_outcome_done(&o);
}

static void displays_past_the_bound_are_counted(void)
{
    static const struct kr_outcome_bounds bounds = {.text = 10, .displays = 22, .apart = true};
    json_t *list;
    struct kr_outcome o;

    kr_outcome_init(&o, &bounds);
    take(&o, KR_EVENT_DISPLAY, "{\"a\":\"\\u0000\"}");
    take(&o, KR_EVENT_DISPLAY, "{\"b\":\"too long\"}");
    take(&o, KR_EVENT_DISPLAY, "{\"c\":3}");
    CHECK(strcmp(kr_buf_str(&o.displays), "{\"a\":\"\\u0000\"},{\"c\":3}") == 0);
    CHECK(o.displays_left_out == 1 && o.cut);
    list = kr_outcome_displays(&o);
    CHECK(json_array_size(list) == 2 && json_integer_value(json_object_get(json_array_get(list, 1), "c")) == 3);
    json_decref(list);
    kr_outcome_done(&o);
}

static void objects_are_parsed_when_asked_for(void)
{
    static const struct kr_outcome_bounds bounds = {.text = 10, .displays = 10, .apart = true};
    struct kr_event end = {.seq = 9, .type = KR_EVENT_END, .data = "{\"x\":1}", .len = 7, .cause = KR_CAUSE_TIMEOUT};
    struct kr_event cut = {.seq = 8, .type = KR_EVENT_CUT, .cut = {.first = 2, .last = 8, .bytes = 500}};
    json_t *object, *list;
    struct kr_outcome o;

    kr_outcome_init(&o, &bounds);
    list = kr_outcome_displays(&o);
    CHECK(!kr_outcome_object(&o.end) && json_is_array(list) && json_array_size(list) == 0);
    json_decref(list);
    kr_outcome_take(&o, &cut);
    CHECK(o.cut && o.out_bytes == 500 && o.next_seq == 9 && !o.ended);
    kr_outcome_take(&o, &end);
    CHECK(o.ended && o.cause == KR_CAUSE_TIMEOUT && o.next_seq == 10);
    object = kr_outcome_object(&o.end);
    CHECK(json_integer_value(json_object_get(object, "x")) == 1);
    json_decref(object);
    kr_outcome_done(&o);
}

int main(void)
{
    RUN(texts_are_kept_apart_and_together);
    RUN(only_what_is_asked_for_takes_memory);
    RUN(a_long_text_keeps_its_head);
    RUN(a_long_text_keeps_head_and_tail);
    RUN(tails_begin_with_whole_characters);
    RUN(displays_past_the_bound_are_counted);
    RUN(objects_are_parsed_when_asked_for);
    CHECK_DONE();
}

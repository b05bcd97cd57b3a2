/* src/box/runlog: merging, readers, cuts, the shared budget, and everything at random, against what was really appended
 * (runlog-bench.h). Run by tests/run; a seed may be given as argument, and is printed. */
#define _GNU_SOURCE 1
#include "check.h"
#include "buf.h"
#include "runlog-bench.h"
#include <errno.h>
#include <time.h>

/* ---- simple things ---- */

static void text_merges_until_seen(void)
{
    struct bench b;
    struct truth t = {0};
    struct watcher w;
    struct kr_runlog *log;
    struct kr_runlog_figures f;

    CHECK(bench_open(&b, &(struct kr_runlogs_config){0}, false));
    CHECK((log = new_log(&b, "a")));
    add_json(log, &t, KR_EVENT_STARTED, "{\"session\":\"s\"}");
    add_text(log, &t, KR_STREAM_STDOUT, "one ", 4);
    add_text(log, &t, KR_STREAM_STDOUT, "two", 3);
    kr_runlog_figures(log, &f);
    CHECK(f.last_seq == 2 && f.still_running && !f.truncated && f.bytes == t.len);
    CHECK(watch(&w, log, &t, 0, 100) == 0);
    CHECK(w.calls == 0); /* never from here */
    turn(&b);
    CHECK(w.calls == 1 && w.events == 2 && !w.wrong);
    add_text(log, &t, KR_STREAM_STDOUT, " three", 6); /* the other was seen */
    add_text(log, &t, KR_STREAM_STDERR, "err", 3);
    add_text(log, &t, KR_STREAM_STDOUT, "out", 3);
    kr_runlog_figures(log, &f);
    CHECK(f.last_seq == 5);
    turn(&b);
    CHECK(w.calls == 2 && w.events == 5 && w.at == t.len && !w.wrong);
    end_log(log, &t, KR_CAUSE_EXCEPTION);
    CHECK(kr_runlog_text(log, KR_STREAM_STDOUT, "x", 1) == -EINVAL);
    CHECK(finish(&b, &w) && is_whole(&w) && w.cause == KR_CAUSE_EXCEPTION && w.cuts == 0);
    kr_runlog_figures(log, &f);
    CHECK(!f.still_running && f.cause == KR_CAUSE_EXCEPTION && f.last_seq == 6);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    truth_done(&t);
    CHECK(bench_close(&b));
}

static void long_text_is_split_between_characters(void)
{
    struct bench b;
    struct truth t = {0};
    struct kr_runlog *log;
    struct watcher w;
    size_t n = 3 * 40000;
    char *text = malloc(n);

    for (size_t i = 0; i < n; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3);
    CHECK(bench_open(&b, &(struct kr_runlogs_config){0}, false));
    CHECK((log = new_log(&b, "a")));
    add_text(log, &t, KR_STREAM_STDOUT, "x", 1);
    add_text(log, &t, KR_STREAM_STDOUT, text, n);
    end_log(log, &t, KR_CAUSE_OK);
    CHECK(watch(&w, log, &t, 1, 0) == 0);
    turn(&b);
    for (struct kr_event e; kr_runlog_peek(w.reader, &e) == 1;) {
        CHECK(e.type == KR_EVENT_END || e.len <= KR_EVENT_TEXT_MAX);
        CHECK(e.type == KR_EVENT_END || (e.len % 3 == (e.seq == 1))); /* the x is in the first */
        judge(&w, &e);
        kr_runlog_take(w.reader);
    }
    CHECK(is_whole(&w) && w.events == 5);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    free(text);
    truth_done(&t);
    CHECK(bench_close(&b));
}

static void readers_attach_anywhere(void)
{
    struct bench b;
    struct truth t = {0};
    struct watcher early, late, future, now;
    struct kr_runlog *log, *same;

    CHECK(bench_open(&b, &(struct kr_runlogs_config){0}, false));
    CHECK((log = new_log(&b, "run_1-A")));
    CHECK(kr_runlog_new(b.logs, &(struct kr_runlog_spec){.id = "run_1-A"}, &same) == -EEXIST);
    CHECK(kr_runlog_new(b.logs, &(struct kr_runlog_spec){.id = "../x"}, &same) == -EINVAL);
    CHECK(kr_runlog_new(b.logs, &(struct kr_runlog_spec){.id = ""}, &same) == -EINVAL);
    CHECK(kr_runlog_open(b.logs, "other", &same) == -ENOENT);
    CHECK(kr_runlog_open(b.logs, "run_1-A", &same) == 0 && same == log);
    kr_runlog_unref(same);
    for (int i = 0; i < 10; i++)
        add_json(log, &t, KR_EVENT_NOTICE, "{}");
    CHECK(watch(&early, log, &t, 1, 3) == 0 && watch(&late, log, &t, 8, 100) == 0);
    CHECK(watch(&future, log, &t, 12, 100) == 0 && watch(&now, log, &t, KR_RUNLOG_FROM_NOW, 100) == 0);
    now.next = 11;
    turn(&b);
    CHECK(early.events == 3 && late.events == 3 && future.events == 0 && now.events == 0);
    CHECK(kr_runlog_next_seq(early.reader) == 4 && kr_runlog_next_seq(now.reader) == 11);
    add_json(log, &t, KR_EVENT_NOTICE, "{}");
    turn(&b);
    CHECK(early.calls == 1); /* it has more and knows: not called */
    CHECK(late.events == 4 && future.events == 0 && now.events == 1 && !now.wrong);
    end_log(log, &t, KR_CAUSE_OK);
    CHECK(finish(&b, &late) && finish(&b, &future) && finish(&b, &now) && future.events == 1);
    early.wants_on = true;
    CHECK(finish(&b, &early) && is_whole(&early));
    CHECK(!late.wrong && !future.wrong && !now.wrong);
    kr_runlog_reader_close(early.reader);
    kr_runlog_reader_close(late.reader);
    kr_runlog_reader_close(future.reader);
    kr_runlog_reader_close(now.reader);
    kr_runlog_unref(log);
    truth_done(&t);
    CHECK(bench_close(&b));
}

struct closer {
    struct watcher *victims;
    int count, calls;
};

static void on_close_all(void *data, struct kr_runlog_reader *reader)
{
    struct closer *c = data;

    (void)reader;
    c->calls++;
    for (int i = 0; i < c->count; i++) {
        kr_runlog_reader_close(c->victims[i].reader);
        c->victims[i].reader = NULL;
    }
    c->count = 0;
}

static void readers_leave_from_callbacks(void)
{
    struct bench b;
    struct truth t = {0};
    struct watcher w[4];
    struct closer closer = {.victims = w, .count = 4};
    struct kr_runlog_reader *self;
    struct kr_runlog *log;

    CHECK(bench_open(&b, &(struct kr_runlogs_config){0}, false));
    CHECK((log = new_log(&b, "a")));
    add_text(log, &t, KR_STREAM_STDOUT, "x", 1);
    CHECK(watch(&w[0], log, &t, 1, 1) == 0);
    w[0].close_in_call = true;
    CHECK(watch(&w[1], log, &t, 1, 1) == 0); /* is called before the closer */
    CHECK(kr_runlog_read(log, 1, on_close_all, &closer, &self) == 0);
    CHECK(watch(&w[2], log, &t, 1, 1) == 0 && watch(&w[3], log, &t, 1, 1) == 0); /* would be called after it */
    turn(&b);
    CHECK(w[0].calls == 1 && w[1].calls == 1 && closer.calls == 1 && w[2].calls == 0 && w[3].calls == 0);
    turn(&b);
    CHECK(closer.calls == 1);
    kr_runlog_reader_close(self);
    /* The last reference goes with the reader, from its own callback. */
    CHECK(watch(&w[0], log, &t, 1, 1) == 0);
    w[0].close_in_call = true;
    end_log(log, &t, KR_CAUSE_OK);
    kr_runlog_unref(log);
    turn(&b);
    CHECK(w[0].calls == 1 && !w[0].reader);
    truth_done(&t);
    CHECK(bench_close(&b));
}

/* ---- limits ---- */

static void middle_is_cut_without_disk(void)
{
    const struct kr_runlogs_config config = {.run_memory_max = 64 << 10};
    struct kr_runlogs_figures f;
    struct kr_runlog_figures lf;
    struct bench b;
    struct truth t = {0};
    struct watcher w, mid;
    struct kr_runlog *log;
    struct kr_event e;
    char line[200];

    CHECK(bench_open(&b, &config, false));
    CHECK((log = new_log(&b, "a")));
    add_json(log, &t, KR_EVENT_STARTED, "{\"head\":1}");
    for (int i = 0; i < 5000; i++) {
        fill(line, sizeof line);
        CHECK(add_text(log, &t, i % 2 ? KR_STREAM_STDERR : KR_STREAM_STDOUT, line, sizeof line) == 0);
        kr_runlogs_figures(b.logs, &f);
        CHECK(f.memory <= (64 << 10) + 2048);
    }
    end_log(log, &t, KR_CAUSE_OK);
    kr_runlog_figures(log, &lf);
    CHECK(lf.truncated && lf.last_seq == 5002 && f.cuts > 0);
    CHECK(watch(&w, log, &t, 1, 0) == 0);
    turn(&b);
    CHECK(kr_runlog_peek(w.reader, &e) == 1 && e.type == KR_EVENT_STARTED); /* the head is kept */
    pull(&w, 100000);
    CHECK(is_whole(&w) && w.cuts == 1);
    CHECK(w.read_bytes > 20 << 10);                 /* and much of the tail */
    CHECK(watch(&mid, log, &t, 2500, 100000) == 0); /* into the hole */
    turn(&b);
    CHECK(mid.ended && !mid.wrong && mid.cuts == 1 && mid.cut_bytes == w.cut_bytes);
    kr_runlog_reader_close(w.reader);
    kr_runlog_reader_close(mid.reader);
    kr_runlog_unref(log);
    truth_done(&t);
    CHECK(bench_close(&b));
}

/* A reader that was within the log when it was cut is shown exactly what it missed. */
static void cut_is_exact_for_a_slow_reader(void)
{
    const struct kr_runlogs_config config = {.run_memory_max = 32 << 10};
    struct bench b;
    struct truth t = {0};
    struct watcher slow;
    struct kr_runlog *log;
    char line[100];

    CHECK(bench_open(&b, &config, false));
    CHECK((log = new_log(&b, "a")));
    CHECK(watch(&slow, log, &t, 1, 0) == 0);
    for (int i = 0; i < 4000; i++) {
        fill(line, sizeof line);
        add_text(log, &t, i % 2 ? KR_STREAM_STDERR : KR_STREAM_STDOUT, line, 1 + rnd(sizeof line));
        if (i % 7 == 0)
            pull(&slow, rnd(7));
    }
    end_log(log, &t, KR_CAUSE_OK);
    pull(&slow, 1000000);
    CHECK(is_whole(&slow) && slow.cuts > 3);
    kr_runlog_reader_close(slow.reader);
    kr_runlog_unref(log);
    truth_done(&t);
    CHECK(bench_close(&b));
}

static void budget_is_shared_and_the_largest_pays(void)
{
    const struct kr_runlogs_config config = {.memory_max = 512 << 10, .run_memory_max = 400 << 10};
    enum { SMALL = 20 };
    struct kr_runlogs_figures f;
    struct bench b;
    struct truth big = {0}, small[SMALL];
    struct kr_runlog *bomb, *logs[SMALL];
    struct watcher w;
    char text[1000], id[16];

    memset(small, 0, sizeof small);
    CHECK(bench_open(&b, &config, false));
    CHECK((bomb = new_log(&b, "bomb")));
    for (int i = 0; i < SMALL; i++) {
        snprintf(id, sizeof id, "s%d", i);
        CHECK((logs[i] = new_log(&b, id)));
    }
    for (int round = 0; round < 2000; round++) {
        fill(text, sizeof text);
        add_text(bomb, &big, round % 2 ? KR_STREAM_STDERR : KR_STREAM_STDOUT, text, sizeof text);
        if (round % 100 == 0)
            for (int i = 0; i < SMALL; i++)
                add_text(logs[i], &small[i], round % 200 ? KR_STREAM_STDERR : KR_STREAM_STDOUT, text, 100);
        kr_runlogs_figures(b.logs, &f);
        CHECK(f.memory <= config.memory_max);
    }
    CHECK(f.live == SMALL + 1);
    for (int i = 0; i < SMALL; i++) {
        end_log(logs[i], &small[i], KR_CAUSE_OK);
        CHECK(watch(&w, logs[i], &small[i], 1, 100000) == 0);
        turn(&b);
        CHECK(is_whole(&w) && w.cuts == 0); /* a run that prints little loses nothing */
        kr_runlog_reader_close(w.reader);
        kr_runlog_unref(logs[i]);
        truth_done(&small[i]);
    }
    end_log(bomb, &big, KR_CAUSE_OK);
    CHECK(watch(&w, bomb, &big, 1, 100000) == 0);
    turn(&b);
    CHECK(is_whole(&w) && w.cuts > 0);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(bomb);
    truth_done(&big);
    CHECK(bench_close(&b));
}

/* An event larger than all memory is lost as a cut; the end is there all the same. */
static void what_cannot_be_kept_is_said(void)
{
    const struct kr_runlogs_config config = {.memory_max = 128 << 10, .run_memory_max = 64 << 10};
    struct bench b;
    struct truth t = {0};
    struct kr_runlog *log;
    struct watcher w;
    char *json = malloc((1 << 20) + 1);

    memset(json, ' ', 1 << 20);
    json[0] = '{';
    json[(1 << 20) - 1] = '}';
    json[1 << 20] = '\0';
    CHECK(bench_open(&b, &config, false));
    CHECK((log = new_log(&b, "a")));
    add_text(log, &t, KR_STREAM_STDOUT, "before", 6);
    CHECK(add_json(log, &t, KR_EVENT_DISPLAY, json) == 0);
    add_text(log, &t, KR_STREAM_STDOUT, "after", 5);
    end_log(log, &t, KR_CAUSE_OK);
    CHECK(watch(&w, log, &t, 1, 100) == 0);
    turn(&b);
    CHECK(is_whole(&w) && w.cuts == 1 && w.cut_bytes >= 1 << 20);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    free(json);
    truth_done(&t);
    CHECK(bench_close(&b));
}

/* Ends are large here, and everything else must go before them. */
static void an_end_is_never_cut(void)
{
    const struct kr_runlogs_config config = {.memory_max = 256 << 10, .run_memory_max = 128 << 10};
    struct bench b;
    struct truth t = {0}, other = {0};
    struct kr_runlog *log, *bomb;
    struct watcher w;
    size_t len = 100 << 10;
    char *json = malloc(len), text[1000];

    memset(json, ' ', len);
    json[0] = '{';
    json[len - 1] = '}';
    CHECK(bench_open(&b, &config, false));
    CHECK((log = new_log(&b, "a")) && (bomb = new_log(&b, "bomb")));
    for (int i = 0; i < 100; i++) {
        fill(text, sizeof text);
        add_text(log, &t, i % 2 ? KR_STREAM_STDERR : KR_STREAM_STDOUT, text, sizeof text);
    }
    truth_add(&t, kind_of(KR_EVENT_END), json, len);
    kr_runlog_end(log, KR_CAUSE_EXIT, json, len);
    for (int i = 0; i < 1000; i++) {
        fill(text, sizeof text);
        add_text(bomb, &other, i % 2 ? KR_STREAM_STDERR : KR_STREAM_STDOUT, text, sizeof text);
    }
    CHECK(watch(&w, log, &t, 1, 1000) == 0);
    turn(&b);
    CHECK(is_whole(&w) && w.cause == KR_CAUSE_EXIT && w.cuts > 0);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    kr_runlog_unref(bomb);
    free(json);
    truth_done(&t);
    truth_done(&other);
    CHECK(bench_close(&b));
}

/* ---- everything at random ---- */

enum { LOGS = 5, READERS = 16 };

struct story {
    struct bench b;
    struct kr_runlogs_config config;
    struct truth truth[LOGS];
    struct kr_runlog *log[LOGS];
    bool ended[LOGS];
    struct watcher readers[READERS];
    int of[READERS]; /* which log; -1: none */
    unsigned round;
};

static void append_something(struct story *s, int i)
{
    char text[4000];
    size_t len = rnd(20) == 0 ? 1 + rnd(sizeof text) : 1 + rnd(60);

    fill(text, len);
    if (rnd(8) == 0)
        add_json(s->log[i], &s->truth[i], rnd(2) ? KR_EVENT_DISPLAY : KR_EVENT_NOTICE, "{\"k\":\"some json\"}");
    else
        add_text(s->log[i], &s->truth[i], rnd(4) ? KR_STREAM_STDOUT : KR_STREAM_STDERR, text, len);
    if (rnd(500) == 0) {
        end_log(s->log[i], &s->truth[i], KR_CAUSE_OK);
        s->ended[i] = true;
    }
}

/* Its truth cannot be freed while it has a reader: readers are closed with the log. */
static void forget(struct story *s, int i)
{
    for (int k = 0; k < READERS; k++)
        if (s->of[k] == i) {
            kr_runlog_reader_close(s->readers[k].reader);
            s->of[k] = -1;
        }
    kr_runlog_unref(s->log[i]);
    s->log[i] = NULL;
    truth_done(&s->truth[i]);
}

static void begin(struct story *s, int i)
{
    char id[32];

    snprintf(id, sizeof id, "s%u-%d", s->round++, i);
    s->ended[i] = false;
    s->log[i] = new_log(&s->b, id);
}

static void attach(struct story *s, int k)
{
    static const unsigned speeds[] = {0, 1, 2, 5, 1000};
    struct kr_runlog_figures f;
    int i = (int)rnd(LOGS);

    if (!s->log[i])
        return;
    kr_runlog_figures(s->log[i], &f);
    s->of[k] = i;
    watch(&s->readers[k], s->log[i], &s->truth[i], rnd(2) ? 1 : rnd((unsigned)f.last_seq + 3), speeds[rnd(5)]);
}

static const char *step(struct story *s)
{
    int i = (int)rnd(LOGS), k = (int)rnd(READERS);
    struct kr_runlogs_figures f;

    if (!s->log[i])
        begin(s, i);
    else if (!s->ended[i])
        for (unsigned n = 1 + rnd(10); n > 0 && !s->ended[i]; n--)
            append_something(s, i);
    else if (rnd(60) == 0)
        forget(s, i);
    if (s->of[k] < 0)
        attach(s, k);
    else if (rnd(200) == 0) {
        kr_runlog_reader_close(s->readers[k].reader);
        s->of[k] = -1;
    } else if (rnd(3) == 0)
        pull(&s->readers[k], rnd(50));
    if (rnd(2) == 0)
        turn(&s->b);
    kr_runlogs_figures(s->b.logs, &f);
    /* Beyond the budget: the reserve of each log (ended ones that wait for the disk are still there) and a block. */
    if (f.memory > s->config.memory_max + f.logs * (8 << 10) + (128 << 10))
        return "memory past its bound";
    for (k = 0; k < READERS; k++)
        if (s->of[k] >= 0 && (s->readers[k].wrong || s->readers[k].error))
            return s->readers[k].wrong ? s->readers[k].wrong : "a reader failed";
    return NULL;
}

/* Ends everything and lets every reader come to its end. */
static const char *close_story(struct story *s)
{
    const char *wrong = NULL;

    for (int i = 0; i < LOGS; i++)
        if (s->log[i] && !s->ended[i])
            end_log(s->log[i], &s->truth[i], KR_CAUSE_OK);
    for (int k = 0; k < READERS; k++) {
        struct watcher *w = &s->readers[k];

        if (s->of[k] < 0)
            continue;
        w->speed = 0;
        w->wants_on = true;
        finish(&s->b, w);
        if (w->wrong || !kr_runlog_done(w->reader) || (w->at != SIZE_MAX && w->at != w->truth->len))
            wrong = w->wrong ? w->wrong : "a reader did not come to the end";
    }
    for (int i = 0; i < LOGS; i++)
        if (s->log[i])
            forget(s, i);
    return wrong;
}

static const char *tell_story(const struct kr_runlogs_config *config, bool disk, unsigned steps)
{
    struct story *s = calloc(1, sizeof *s);
    const char *wrong = NULL, *wrong_end;

    s->config = *config;
    for (int k = 0; k < READERS; k++)
        s->of[k] = -1;
    if (!bench_open(&s->b, config, disk))
        wrong = "cannot start";
    for (unsigned n = 0; n < steps && !wrong; n++)
        wrong = step(s);
    wrong_end = close_story(s);
    if (!bench_close(&s->b) && !wrong)
        wrong = "something was left behind";
    free(s);
    return wrong ? wrong : wrong_end;
}

static void check_stories(const char *name, const struct kr_runlogs_config *config, bool disk)
{
    for (int i = 0; i < 6; i++) {
        unsigned long from = seed;
        const char *wrong = tell_story(config, disk, 6000);

        if (wrong) {
            printf("FAIL %s: seed %lu: %s\n", name, from, wrong);
            check_failed_ = 1;
            return;
        }
    }
}

static void random_stories_in_memory(void)
{
    check_stories(__func__, &(struct kr_runlogs_config){.memory_max = 300 << 10, .run_memory_max = 100 << 10}, false);
}

static void random_stories_on_disk(void)
{
    check_stories(__func__, &(struct kr_runlogs_config){.memory_max = 300 << 10, .run_memory_max = 100 << 10}, true);
}

static void random_stories_with_little_memory(void)
{
    check_stories(__func__,
                  &(struct kr_runlogs_config){
                      .memory_max = 48 << 10, .run_memory_max = 16 << 10, .run_file_max = 60 << 10, .flush_ms = 1},
                  true);
}

/* ---- JSON ---- */

static void events_become_json_lines(void)
{
    cleanup_buf struct kr_buf out;
    struct kr_event e = {.seq = 3, .type = KR_EVENT_STDOUT, .data = "a\"\n", .len = 3};

    kr_buf_init(&out, 4096);
    CHECK(kr_event_json(&out, &e) == 0);
    CHECK(strcmp(kr_buf_str(&out), "{\"seq\":3,\"type\":\"stdout\",\"text\":\"a\\\"\\n\"}") == 0);
    kr_buf_reset(&out);
    e = (struct kr_event){.seq = 9, .type = KR_EVENT_CUT, .cut = {.first = 4, .last = 9, .bytes = 77}};
    CHECK(kr_event_json(&out, &e) == 0);
    CHECK(strcmp(kr_buf_str(&out), "{\"seq\":9,\"type\":\"cut\",\"first\":4,\"last\":9,\"bytes\":77}") == 0);
    kr_buf_reset(&out);
    e = (struct kr_event){.seq = 10, .type = KR_EVENT_END, .data = "{\"cause\":\"ok\"}", .len = 14};
    CHECK(kr_event_json(&out, &e) == 0);
    CHECK(strcmp(kr_buf_str(&out), "{\"seq\":10,\"type\":\"end\",\"cause\":\"ok\"}") == 0);
    kr_buf_reset(&out);
    e = (struct kr_event){.seq = 4, .type = KR_EVENT_ERROR, .data = "{\"type\":\"E\"}", .len = 12};
    CHECK(kr_event_json(&out, &e) == 0);
    CHECK(strcmp(kr_buf_str(&out), "{\"seq\":4,\"type\":\"error\",\"error\":{\"type\":\"E\"}}") == 0);
    kr_buf_reset(&out);
    e = (struct kr_event){.seq = 1, .type = KR_EVENT_QUEUED, .data = "{}", .len = 2};
    CHECK(kr_event_json(&out, &e) == 0 && strcmp(kr_buf_str(&out), "{\"seq\":1,\"type\":\"queued\"}") == 0);
    for (int i = 0; i < KR_EVENT_MAX_; i++)
        CHECK(kr_event_names[i] && *kr_event_names[i]);
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoul(argv[1], NULL, 10) : (unsigned long)time(NULL);
    printf("seed %lu\n", seed);
    RUN(text_merges_until_seen);
    RUN(long_text_is_split_between_characters);
    RUN(readers_attach_anywhere);
    RUN(readers_leave_from_callbacks);
    RUN(middle_is_cut_without_disk);
    RUN(cut_is_exact_for_a_slow_reader);
    RUN(budget_is_shared_and_the_largest_pays);
    RUN(what_cannot_be_kept_is_said);
    RUN(an_end_is_never_cut);
    RUN(random_stories_in_memory);
    RUN(random_stories_on_disk);
    RUN(random_stories_with_little_memory);
    RUN(events_become_json_lines);
    CHECK_DONE();
}

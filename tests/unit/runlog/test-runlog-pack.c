/* src/runlog: small logs as bytes, and readers that are called from within an append. Run by tests/run; a seed may
 * be given as argument, and is printed. */
#define _GNU_SOURCE 1
#include "check.h"
#include "buf.h"
#include "runlog-bench.h"
#include "patience.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char the_end[] = "{\"cause\":\"ok\"}";

static int pack_end(struct kr_runlog *log, struct truth *t, struct kr_buf *ret)
{
    truth_add(t, kind_of(KR_EVENT_END), the_end, sizeof the_end - 1);
    return kr_runlog_end_packed(log, KR_CAUSE_OK, the_end, sizeof the_end - 1, ret);
}

static bool has_file(const struct bench *b, const char *name)
{
    struct stat st;

    return fstatat(b->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* In memory it is read as ever; no file is made; the bytes are enough to read it again in another life. */
static void a_small_log_is_bytes(void)
{
    const struct kr_runlogs_config config = {.flush_ms = 1000};
    struct kr_runlog_figures f;
    struct bench b;
    struct truth t = {0};
    struct watcher w;
    struct kr_runlog *log, *again;
    struct kr_buf bytes;

    kr_buf_init(&bytes, 64 << 10);
    CHECK(bench_open(&b, &config, true));
    CHECK((log = new_log(&b, "a")));
    add_json(log, &t, KR_EVENT_STARTED, "{\"run_id\":\"a\"}");
    add_text(log, &t, KR_STREAM_STDOUT, "hello\n", 6);
    add_text(log, &t, KR_STREAM_STDERR, "oh\n", 3);
    CHECK(pack_end(log, &t, &bytes) == 1 && bytes.len > 0);
    CHECK(kr_runlog_end_packed(log, KR_CAUSE_OK, "{}", 2, &bytes) == 0); /* it has ended */
    CHECK(watch(&w, log, &t, 1, 100) == 0 && finish(&b, &w) && is_whole(&w) && w.events == 4);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    CHECK(flush(&b) && !has_file(&b, "a.log"));
    CHECK(bench_restart(&b, &config));
    CHECK(kr_runlog_open(b.logs, "a", &log) == -ENOENT);
    CHECK(kr_runlog_open_packed(b.logs, "a", bytes.data, bytes.len, &log) == 0);
    CHECK(kr_runlog_open(b.logs, "a", &again) == 0 && again == log);
    kr_runlog_unref(again);
    kr_runlog_figures(log, &f);
    CHECK(!f.loading && !f.still_running && f.last_seq == 4 && f.cause == KR_CAUSE_OK && !f.truncated);
    for (uint64_t from = 1; from <= 4; from++) {
        CHECK(watch(&w, log, &t, from, 1) == 0);
        w.wants_on = true;
        CHECK(finish(&b, &w) && !w.wrong && w.events == 5 - from);
        kr_runlog_reader_close(w.reader);
    }
    kr_runlog_unref(log);
    CHECK(kr_runlogs_delete(b.logs, "a") == 0 && kr_runlog_open(b.logs, "a", &log) == -ENOENT);
    kr_buf_done(&bytes);
    truth_done(&t);
    CHECK(bench_close(&b));
}

/* Too large, or begun to be written: a file as ever, which has all of it. */
static void a_larger_or_older_log_has_a_file(void)
{
    const struct kr_runlogs_config config = {.flush_ms = 20};
    struct bench b;
    struct truth big = {0}, old = {0};
    struct kr_runlog *log;
    struct watcher w;
    struct kr_buf bytes;
    static char text[12000];

    kr_buf_init(&bytes, 64 << 10);
    fill(text, sizeof text);
    CHECK(bench_open(&b, &config, true));
    CHECK((log = new_log(&b, "big")));
    add_text(log, &big, KR_STREAM_STDOUT, text, sizeof text);
    CHECK(pack_end(log, &big, &bytes) == 0 && bytes.len == 0);
    kr_runlog_unref(log);
    CHECK((log = new_log(&b, "old")));
    add_text(log, &old, KR_STREAM_STDOUT, "tick\n", 5);
    for (long end = patience_end(); !has_file(&b, "old.log") && is_before(end);) {
        turn(&b);
        usleep(1000);
    }
    CHECK(has_file(&b, "old.log"));
    CHECK(pack_end(log, &old, &bytes) == 0 && bytes.len == 0);
    kr_runlog_unref(log);
    CHECK(flush(&b) && bench_restart(&b, &config));
    CHECK(kr_runlog_open(b.logs, "big", &log) == 0);
    CHECK(watch(&w, log, &big, 1, 100) == 0 && finish(&b, &w) && is_whole(&w));
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    CHECK(kr_runlog_open(b.logs, "old", &log) == 0);
    CHECK(watch(&w, log, &old, 1, 100) == 0 && finish(&b, &w) && is_whole(&w));
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    truth_done(&big);
    truth_done(&old);
    CHECK(bench_close(&b));
}

/* Memory is short: a packed log with a reference stays whole, one without goes. */
static void a_held_one_is_not_dropped(void)
{
    const struct kr_runlogs_config config = {.memory_max = 256 << 10, .run_memory_max = 128 << 10, .flush_ms = 1000};
    struct kr_runlogs_figures f;
    struct bench b;
    struct truth t = {0}, other = {0};
    struct watcher w;
    struct kr_runlog *log, *filler;
    struct kr_buf bytes, more;
    static char text[4000];

    kr_buf_init(&bytes, 64 << 10);
    kr_buf_init(&more, 64 << 10);
    CHECK(bench_open(&b, &config, true));
    CHECK((log = new_log(&b, "held")));
    add_text(log, &t, KR_STREAM_STDOUT, "kept\n", 5);
    CHECK(pack_end(log, &t, &bytes) == 1);
    CHECK(watch(&w, log, &t, 1, 0) == 0);
    kr_runlog_unref(log);
    for (int i = 0; i < 400; i++) { /* far more than the budget */
        char id[16];

        snprintf(id, sizeof id, "f%d", i);
        CHECK((filler = new_log(&b, id)));
        fill(text, sizeof text);
        add_text(filler, &other, KR_STREAM_STDOUT, text, sizeof text);
        kr_buf_reset(&more);
        CHECK(pack_end(filler, &other, &more) == 1);
        kr_runlog_unref(filler);
        kr_runlogs_figures(b.logs, &f);
        CHECK(f.memory <= config.memory_max);
    }
    CHECK(kr_runlog_open(b.logs, "f0", &filler) == -ENOENT && f.cuts == 0);
    CHECK(pull(&w, 10) == 2 && !w.wrong && is_whole(&w));
    kr_runlog_reader_close(w.reader);
    kr_buf_done(&bytes);
    kr_buf_done(&more);
    truth_done(&t);
    truth_done(&other);
    CHECK(bench_close(&b));
}

static void other_bytes_are_refused(void)
{
    struct bench b;
    struct truth t = {0};
    struct kr_runlog *log;
    struct kr_buf bytes;

    kr_buf_init(&bytes, 64 << 10);
    CHECK(bench_open(&b, &(struct kr_runlogs_config){0}, true));
    CHECK((log = new_log(&b, "a")));
    add_text(log, &t, KR_STREAM_STDOUT, "hello\n", 6);
    CHECK(pack_end(log, &t, &bytes) == 1);
    kr_runlog_unref(log);
    CHECK(kr_runlog_open_packed(b.logs, "b", bytes.data, bytes.len, &log) == 0); /* the control */
    kr_runlog_unref(log);
    for (size_t len = 0; len < bytes.len; len++)
        CHECK(kr_runlog_open_packed(b.logs, "c", bytes.data, len, &log) == -EBADMSG);
    for (size_t i = 0; i < bytes.len; i++) {
        bytes.data[i] ^= 0x10;
        CHECK(kr_runlog_open_packed(b.logs, "c", bytes.data, bytes.len, &log) == -EBADMSG);
        bytes.data[i] ^= 0x10;
    }
    CHECK(kr_runlog_open_packed(b.logs, "../c", bytes.data, bytes.len, &log) == -EINVAL);
    kr_buf_done(&bytes);
    truth_done(&t);
    CHECK(bench_close(&b));
}

/* ---- called from within ---- */

static void pull_now(void *data, struct kr_runlog_reader *reader)
{
    struct watcher *w = data;

    (void)reader;
    pull(w, 100);
}

static void an_eager_reader_does_not_wait_for_the_loop(void)
{
    struct bench b;
    struct truth t = {0};
    struct watcher eager, other;
    struct kr_runlog *log;

    CHECK(bench_open(&b, &(struct kr_runlogs_config){0}, true));
    CHECK((log = new_log(&b, "a")));
    CHECK(watch(&eager, log, &t, 1, 100) == 0 && watch(&other, log, &t, 1, 100) == 0);
    turn(&b);
    kr_runlog_eager(eager.reader, pull_now);
    add_text(log, &t, KR_STREAM_STDOUT, "one\n", 4);
    CHECK(eager.events == 1 && other.events == 0 && !eager.wrong);
    add_json(log, &t, KR_EVENT_NOTICE, "{}");
    CHECK(eager.events == 2 && other.events == 0);
    end_log(log, &t, KR_CAUSE_OK);
    CHECK(eager.events == 2 && !eager.ended); /* the end comes from the loop */
    CHECK(finish(&b, &eager) && is_whole(&eager) && finish(&b, &other) && is_whole(&other));
    kr_runlog_reader_close(eager.reader);
    kr_runlog_reader_close(other.reader);
    kr_runlog_unref(log);
    truth_done(&t);
    CHECK(flush(&b) && bench_close(&b));
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoul(argv[1], NULL, 10) : (unsigned long)getpid();
    printf("seed %lu\n", seed);
    RUN(a_small_log_is_bytes);
    RUN(a_larger_or_older_log_has_a_file);
    RUN(a_held_one_is_not_dropped);
    RUN(other_bytes_are_refused);
    RUN(an_eager_reader_does_not_wait_for_the_loop);
    CHECK_DONE();
}

/* src/box/runlog: files of logs: spilling, reading back, torn and refused ones, killed processes, retention. Run by
 * tests/run; a seed may be given as argument, and is printed. */
#define _GNU_SOURCE 1
#include "check.h"
#include "fd.h"
#include "runlog-bench.h"
#include "patience.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the disk ---- */

static void on_room(void *data, struct kr_runlog *log)
{
    (void)log;
    *(bool *)data = true;
}

/* Far more than memory: nothing is lost if the appender waits when an append returns 1. */
static void spills_while_running(void)
{
    const struct kr_runlogs_config config = {.memory_max = 1 << 20, .run_memory_max = 256 << 10};
    struct kr_runlogs_figures f;
    struct bench b;
    struct truth t = {0};
    struct watcher w;
    struct kr_runlog *log;
    bool room = true;
    unsigned pauses = 0;
    char text[3000];
    struct kr_runlog_spec spec = {.id = "big", .on_room = on_room, .data = &room};
    struct stat st;

    CHECK(bench_open(&b, &config, true));
    CHECK(kr_runlog_new(b.logs, &spec, &log) == 0);
    while (t.len < 8u << 20) {
        fill(text, sizeof text);
        if (add_text(log, &t, rnd(2) ? KR_STREAM_STDERR : KR_STREAM_STDOUT, text, 1 + rnd(sizeof text)) == 1) {
            pauses++;
            room = false;
            while (!room)
                uv_run(&b.loop, UV_RUN_ONCE);
        }
        kr_runlogs_figures(b.logs, &f);
        CHECK(f.memory <= config.memory_max);
    }
    CHECK(pauses > 0 && f.written > 6u << 20);
    CHECK(watch(&w, log, &t, 1, 50) == 0);
    w.wants_on = true;
    for (long end = patience_end(); w.at == 0 && is_before(end);) {
        turn(&b);
        usleep(500);
    }
    CHECK(w.at > 0 && w.at < t.len && !w.wrong); /* reads the file of a live log */
    end_log(log, &t, KR_CAUSE_OK);
    kr_runlog_unref(log);
    CHECK(finish(&b, &w) && is_whole(&w) && w.cuts == 0);
    kr_runlogs_figures(b.logs, &f);
    CHECK(f.cuts == 0 && f.disk_error == 0);
    kr_runlog_reader_close(w.reader);
    CHECK(flush(&b));
    CHECK(fstatat(b.dirfd, "big.log", &st, 0) == 0 && (st.st_mode & 07777) == 0600);
    truth_done(&t);
    CHECK(bench_close(&b));
}

static void file_has_a_limit_and_the_tail_is_kept(void)
{
    const struct kr_runlogs_config config = {.run_memory_max = 128 << 10, .run_file_max = 512 << 10};
    struct bench b;
    struct truth t = {0};
    struct watcher w;
    struct kr_runlog *log;
    bool room = true;
    char text[3000];
    struct stat st;
    struct kr_runlog_spec spec = {.id = "big", .on_room = on_room, .data = &room};

    CHECK(bench_open(&b, &config, true));
    CHECK(kr_runlog_new(b.logs, &spec, &log) == 0);
    while (t.len < 4u << 20) {
        fill(text, sizeof text);
        if (add_text(log, &t, rnd(2) ? KR_STREAM_STDERR : KR_STREAM_STDOUT, text, sizeof text) == 1) {
            room = false;
            while (!room)
                uv_run(&b.loop, UV_RUN_ONCE);
        }
    }
    end_log(log, &t, KR_CAUSE_OK);
    CHECK(flush(&b));
    CHECK(fstatat(b.dirfd, "big.log", &st, 0) == 0 && st.st_size < 1 << 20);
    kr_runlog_unref(log);
    CHECK(bench_restart(&b, &config));
    CHECK(kr_runlog_open(b.logs, "big", &log) == 0);
    CHECK(watch(&w, log, &t, 1, 1000) == 0);
    w.wants_on = true;
    CHECK(finish(&b, &w) && is_whole(&w) && w.cuts == 1 && w.read_bytes > 512 << 10);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    truth_done(&t);
    CHECK(bench_close(&b));
}

/* CRC-32C bit by bit, as the file's format says: whatever machine wrote it, every other can read it. */
static uint32_t slow_crc(const unsigned char *at, size_t len)
{
    uint32_t crc = ~0u;

    for (; len > 0; len--) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* How many records of a.log have the right checksum; -1: one has not. */
static int count_sums(const struct bench *b)
{
    enum { FILE_HEAD = 16, RECORD_HEAD = 32, MOST = 4 << 20 };
    unsigned char *data = malloc(MOST);
    int fd = openat(b->dirfd, "a.log", O_RDONLY | O_CLOEXEC), count = 0;
    ssize_t size = fd >= 0 && data ? read(fd, data, MOST) : -1;
    size_t at = FILE_HEAD;

    while (count >= 0 && size > 0 && at + RECORD_HEAD <= (size_t)size) {
        uint32_t sum, len;

        memcpy(&sum, data + at, sizeof sum);
        memcpy(&len, data + at + 4, sizeof len);
        if (at + RECORD_HEAD + le32toh(len) > (size_t)size)
            break;
        count = le32toh(sum) == slow_crc(data + at + 4, RECORD_HEAD - 4 + le32toh(len)) ? count + 1 : -1;
        at += RECORD_HEAD + le32toh(len);
    }
    close(fd);
    free(data);
    return count;
}

/* Many events, restart, every number as a position to begin at. */
static void file_is_read_from_any_number(void)
{
    const struct kr_runlogs_config config = {.run_memory_max = 4 << 20};
    struct bench b;
    struct truth t = {0};
    struct watcher w;
    struct kr_runlog *log;
    struct kr_runlog_figures f;
    char text[300];
    int n = 3000;

    CHECK(bench_open(&b, &config, true));
    CHECK((log = new_log(&b, "a")));
    for (int i = 0; i < n; i++) {
        fill(text, sizeof text);
        add_text(log, &t, i % 2 ? KR_STREAM_STDERR : KR_STREAM_STDOUT, text, 1 + rnd(sizeof text));
        if (i % 50 == 0)
            turn(&b);
    }
    end_log(log, &t, KR_CAUSE_TIMEOUT);
    kr_runlog_unref(log);
    CHECK(flush(&b));
    CHECK(count_sums(&b) == n + 1);
    CHECK(slow_crc((const unsigned char *)"123456789", 9) == 0xe3069283u);
    CHECK(bench_restart(&b, &config));
    CHECK(kr_runlog_open(b.logs, "a", &log) == 0);
    kr_runlog_figures(log, &f);
    CHECK(f.loading && !f.still_running);
    for (int i = 1; i <= n + 2; i += 1 + (int)rnd(150)) {
        CHECK(watch(&w, log, &t, (uint64_t)i, 100000) == 0);
        CHECK(finish(&b, &w) || (i == n + 2 && kr_runlog_done(w.reader)));
        CHECK(!w.wrong && w.events == (unsigned)(n + 2 - i));
        kr_runlog_reader_close(w.reader);
    }
    kr_runlog_figures(log, &f);
    CHECK(!f.loading && !f.still_running && !f.truncated && f.cause == KR_CAUSE_TIMEOUT && f.bytes == t.len);
    CHECK(watch(&w, log, &t, 1, 100000) == 0 && finish(&b, &w) && is_whole(&w) && w.cause == KR_CAUSE_TIMEOUT);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    truth_done(&t);
    CHECK(bench_close(&b));
}

/* Copies the file, `len` bytes of it, one byte changed at `flip` if that is within. */
static bool torn_copy(struct bench *b, const char *name, size_t len, size_t flip)
{
    char *data = malloc(len + 1);
    int from = openat(b->dirfd, "a.log", O_RDONLY | O_CLOEXEC);
    int to = openat(b->dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = from >= 0 && to >= 0 && (len == 0 || kr_fd_read_all(from, data, len) == 0);

    if (good && flip < len)
        data[flip] ^= 0x10;
    good = good && kr_fd_write_all(to, data, len) == 0;
    close(from);
    close(to);
    free(data);
    return good;
}

/* The file cut at any byte, or with a byte changed: what comes before is there, what comes after is not, the end is
 * `lost`, and a second look says the same. */
static void torn_files_end_as_lost(void)
{
    const struct kr_runlogs_config config = {0};
    struct bench b;
    struct truth t = {0};
    struct watcher w;
    struct kr_runlog *log;
    struct stat st, st2;
    char text[100];
    size_t last;

    CHECK(bench_open(&b, &config, true));
    CHECK((log = new_log(&b, "a")));
    for (int i = 0; i < 40; i++) {
        fill(text, sizeof text);
        add_text(log, &t, i % 2 ? KR_STREAM_STDERR : KR_STREAM_STDOUT, text, sizeof text);
    }
    end_log(log, &t, KR_CAUSE_OK);
    kr_runlog_unref(log);
    CHECK(flush(&b));
    CHECK(fstatat(b.dirfd, "a.log", &st, 0) == 0);
    last = 0;
    for (size_t len = 0; len <= (size_t)st.st_size; len += len < 400 ? 1 : 1 + rnd(60)) {
        bool flipped = len > 16 && rnd(3) == 0, whole = len == (size_t)st.st_size;
        size_t flip = flipped ? 16 + rnd((unsigned)len - 16) : SIZE_MAX;

        CHECK(torn_copy(&b, "torn.log", len, flip));
        for (int look = 0; look < 2; look++) {
            size_t sound;
            CHECK(bench_restart(&b, &config));
            CHECK(kr_runlog_open(b.logs, "torn", &log) == 0);
            CHECK(watch(&w, log, &t, 1, 0) == 0);
            for (long end = patience_end(); !w.ended && !w.error && is_before(end);) {
                struct kr_event e;

                turn(&b);
                /* The END of a torn file is ours, not the truth's. */
                while (kr_runlog_peek(w.reader, &e) == 1 && e.type != KR_EVENT_END) {
                    judge(&w, &e);
                    kr_runlog_take(w.reader);
                }
                if (kr_runlog_peek(w.reader, &e) == 1) {
                    w.ended = true;
                    w.cause = e.cause;
                    kr_runlog_take(w.reader);
                } else {
                    usleep(200);
                }
            }
            CHECK(!w.error && !w.wrong && w.ended && kr_runlog_done(w.reader));
            CHECK(w.cause == (whole && !flipped ? KR_CAUSE_OK : KR_CAUSE_LOST));
            sound = len < 16 ? 0 : ((flip < len ? flip : len) - 16) / 132; /* records of 32 and 100 bytes */
            CHECK(w.events == (sound < 40 ? sound : 40));
            CHECK(look == 0 || w.events == last);
            last = w.events;
            kr_runlog_reader_close(w.reader);
            kr_runlog_unref(log);
        }
    }
    CHECK(fstatat(b.dirfd, "torn.log", &st2, 0) == 0);
    /* A file that is none of ours fails, and is left as it is. */
    CHECK(torn_copy(&b, "torn.log", (size_t)st.st_size, 3));
    CHECK(bench_restart(&b, &config));
    CHECK(kr_runlog_open(b.logs, "torn", &log) == 0 && watch(&w, log, &t, 1, 10) == 0);
    CHECK(!finish(&b, &w) && w.error == -EBADMSG);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    CHECK(fstatat(b.dirfd, "torn.log", &st2, 0) == 0 && st2.st_size == st.st_size);
    truth_done(&t);
    CHECK(bench_close(&b));
}

enum { KILLED_TEXTS = 4000 }; /* a process appends so many at most before it is killed */

/* A process that is killed while it appends: what the next finds is a beginning of what was appended. */
static void killed_process_leaves_a_readable_log(void)
{
    struct kr_runlogs_config config = {.flush_ms = 1, .run_memory_max = 64 << 10};
    struct bench b;
    char text[500];

    CHECK(bench_open(&b, &config, true));
    for (int round = 0; round < 12; round++) {
        struct truth t = {0};
        struct kr_runlog *log;
        struct watcher w;
        unsigned long start = seed;
        char id[16];
        pid_t pid;
        unsigned long after;
        int r;

        snprintf(id, sizeof id, "k%d", round);
        pid = fork();
        if (pid == 0) {
            uv_loop_t loop;
            struct kr_runlogs *logs;
            struct kr_runlogs_config c = config;

            c.dirfd = b.dirfd;
            uv_loop_init(&loop);
            if (kr_runlogs_new(&loop, &c, &logs) < 0)
                _exit(1);
            kr_runlog_new(logs, &(struct kr_runlog_spec){.id = id}, &log);
            for (int i = 0;; i++) {
                fill(text, sizeof text);
                if (i < KILLED_TEXTS) /* on a loaded machine the kill may come late */
                    kr_runlog_text(log, KR_STREAM_STDOUT, text, sizeof text);
                uv_run(&loop, UV_RUN_NOWAIT);
                usleep(50);
            }
        }
        CHECK(pid > 0);
        usleep(20000 + rnd(30000));
        kill(pid, SIGKILL);
        CHECK(waitpid(pid, NULL, 0) == pid);
        after = seed;
        seed = start; /* what the child's numbers were */
        for (int i = 0; i < KILLED_TEXTS; i++) {
            fill(text, sizeof text);
            truth_add(&t, kind_of(KR_EVENT_STDOUT), text, sizeof text);
        }
        seed = after;
        r = kr_runlog_open(b.logs, id, &log);
        if (r == -ENOENT) { /* killed before its first write */
            truth_done(&t);
            continue;
        }
        CHECK(r == 0 && watch(&w, log, &t, 1, 0) == 0);
        for (long end = patience_end(); !w.ended && !w.error && !w.wrong && is_before(end);) {
            struct kr_event e;

            turn(&b);
            while (kr_runlog_peek(w.reader, &e) == 1) {
                if (e.type == KR_EVENT_END) {
                    w.ended = true;
                    w.cause = e.cause;
                } else if (e.type != KR_EVENT_CUT || w.cuts++ == 0) {
                    judge(&w, &e);
                }
                kr_runlog_take(w.reader);
            }
            usleep(200);
        }
        CHECK(!w.wrong && !w.error && w.ended && w.cause == KR_CAUSE_LOST);
        kr_runlog_reader_close(w.reader);
        kr_runlog_unref(log);
        truth_done(&t);
    }
    CHECK(bench_close(&b));
}

/* A disk that refuses: memory as without one, and all is written once it takes again. */
static void disk_that_fails_is_survived(void)
{
    const struct kr_runlogs_config config = {.run_memory_max = 64 << 10, .flush_ms = 10};
    struct kr_runlogs_figures f;
    struct bench b;
    struct truth t = {0};
    struct watcher w;
    struct kr_runlog *log;
    char text[500];

    CHECK(bench_open(&b, &config, true));
    CHECK(mkdirat(b.dirfd, "a.log", 0700) == 0); /* its name is taken by a folder */
    CHECK((log = new_log(&b, "a")));
    for (int i = 0; i < 1000; i++) {
        fill(text, sizeof text);
        add_text(log, &t, KR_STREAM_STDOUT, text, sizeof text);
        if (i % 100 == 0)
            turn(&b);
    }
    CHECK(!flush(&b) || (kr_runlogs_figures(b.logs, &f), f.disk_error < 0));
    kr_runlogs_figures(b.logs, &f);
    CHECK(f.disk_error == -EEXIST && f.memory <= (64 << 10) + (40 << 10));
    CHECK(unlinkat(b.dirfd, "a.log", AT_REMOVEDIR) == 0);
    end_log(log, &t, KR_CAUSE_OK);
    CHECK(flush(&b));
    kr_runlogs_figures(b.logs, &f);
    CHECK(f.disk_error == 0 && f.written > 0);
    kr_runlog_unref(log);
    CHECK(bench_restart(&b, &config));
    CHECK(kr_runlog_open(b.logs, "a", &log) == 0 && watch(&w, log, &t, 1, 1000) == 0);
    CHECK(finish(&b, &w) && is_whole(&w) && w.cuts >= 1);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    truth_done(&t);
    CHECK(bench_close(&b));
}

static uv_sem_t stalled;

static void on_stall(uv_work_t *work)
{
    (void)work;
    uv_sem_wait(&stalled);
}

static void on_stall_over(uv_work_t *work, int status)
{
    (void)work;
    (void)status;
}

/* A disk that takes nothing for a while (the thread pool is held): ended runs that wait for it stay within the budget,
 * the oldest go, the newest are written when it takes again. */
static void a_stalled_disk_is_bounded(void)
{
    const struct kr_runlogs_config config = {.memory_max = 512 << 10, .run_memory_max = 64 << 10};
    struct kr_runlogs_figures f;
    struct bench b;
    struct truth t = {0};
    struct kr_runlog *log;
    struct watcher w;
    uv_work_t holds[4]; /* as many as the pool has threads */
    char text[3000], id[32];

    CHECK(bench_open(&b, &config, true) && uv_sem_init(&stalled, 0) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(uv_queue_work(&b.loop, &holds[i], on_stall, on_stall_over) == 0);
    for (int i = 0; i < 1000; i++) {
        truth_done(&t);
        snprintf(id, sizeof id, "r%d", i);
        CHECK((log = new_log(&b, id)));
        fill(text, sizeof text);
        add_text(log, &t, KR_STREAM_STDOUT, text, sizeof text);
        end_log(log, &t, KR_CAUSE_OK);
        kr_runlog_unref(log);
        kr_runlogs_figures(b.logs, &f);
        CHECK(f.memory <= config.memory_max);
    }
    CHECK(f.cuts > 700 && f.written == 0);
    for (int i = 0; i < 4; i++)
        uv_sem_post(&stalled);
    CHECK(flush(&b) && bench_restart(&b, &config));
    CHECK(kr_runlog_open(b.logs, "r500", &log) == -ENOENT); /* not `lost`: it is not there */
    CHECK(kr_runlog_open(b.logs, "r999", &log) == 0 && watch(&w, log, &t, 1, 100) == 0);
    CHECK(finish(&b, &w) && is_whole(&w) && w.cuts == 0 && w.cause == KR_CAUSE_OK);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    uv_sem_destroy(&stalled);
    truth_done(&t);
    CHECK(bench_close(&b));
}

/* A write that fails half way, by RLIMIT_FSIZE, is as if it had not been; first of a new file, then within one. */
static void half_a_write_is_taken_back(void)
{
    const struct kr_runlogs_config config = {.run_memory_max = 4 << 20};
    struct rlimit was, small;
    struct kr_runlogs_figures f;
    struct bench b;
    struct truth t = {0};
    struct watcher w;
    struct kr_runlog *log;
    struct stat st;
    char text[500];

    CHECK(bench_open(&b, &config, true));
    CHECK((log = new_log(&b, "a")) && getrlimit(RLIMIT_FSIZE, &was) == 0);
    signal(SIGXFSZ, SIG_IGN);
    for (int half = 0; half < 2; half++) {
        small = (struct rlimit){.rlim_cur = half ? 75000 : 5000, .rlim_max = was.rlim_max};
        for (int i = 0; i < 100; i++) {
            fill(text, sizeof text);
            add_text(log, &t, i % 2 ? KR_STREAM_STDERR : KR_STREAM_STDOUT, text, sizeof text);
        }
        CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0 && flush(&b));
        kr_runlogs_figures(b.logs, &f);
        CHECK(f.disk_error == -EFBIG);
        if (half)
            CHECK(fstatat(b.dirfd, "a.log", &st, 0) == 0 && st.st_size == 16 + 100 * 532);
        else
            CHECK(faccessat(b.dirfd, "a.log", F_OK, 0) < 0);
        CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0 && flush(&b));
        kr_runlogs_figures(b.logs, &f);
        CHECK(f.disk_error == 0);
    }
    signal(SIGXFSZ, SIG_DFL);
    end_log(log, &t, KR_CAUSE_OK);
    kr_runlog_unref(log);
    CHECK(flush(&b) && bench_restart(&b, &config));
    CHECK(kr_runlog_open(b.logs, "a", &log) == 0 && watch(&w, log, &t, 1, 1000) == 0);
    CHECK(finish(&b, &w) && is_whole(&w) && w.cuts == 0);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    truth_done(&t);
    CHECK(bench_close(&b));
}

static void an_abandoned_log_is_lost(void)
{
    struct bench b;
    struct truth t = {0};
    struct watcher w;
    struct kr_runlog *log;

    CHECK(bench_open(&b, &(struct kr_runlogs_config){0}, true));
    CHECK((log = new_log(&b, "a")));
    add_text(log, &t, KR_STREAM_STDOUT, "x", 1);
    kr_runlog_unref(log);
    CHECK(flush(&b));
    CHECK(kr_runlog_open(b.logs, "a", &log) == 0 && watch(&w, log, &t, 2, 100) == 0);
    CHECK(finish(&b, &w) && w.cause == KR_CAUSE_LOST);
    kr_runlog_reader_close(w.reader);
    kr_runlog_unref(log);
    /* Memory only: no file, gone with its last reference. */
    CHECK(kr_runlog_new(b.logs, &(struct kr_runlog_spec){.id = "m", .memory_only = true}, &log) == 0);
    add_text(log, &t, KR_STREAM_STDOUT, "x", 1);
    end_log(log, &t, KR_CAUSE_OK);
    kr_runlog_unref(log);
    CHECK(flush(&b) && faccessat(b.dirfd, "m.log", F_OK, 0) < 0);
    CHECK(kr_runlog_open(b.logs, "m", &log) == -ENOENT);
    truth_done(&t);
    CHECK(bench_close(&b));
}

/* ---- retention ---- */

static void on_trimmed(void *data, const struct kr_runlogs_trimmed *result)
{
    *(struct kr_runlogs_trimmed *)data = *result;
    ((struct kr_runlogs_trimmed *)data)->error |= 1 << 20; /* called */
}

static bool trim(struct bench *b, const struct kr_runlogs_trim *how, struct kr_runlogs_trimmed *ret)
{
    *ret = (struct kr_runlogs_trimmed){0};
    if (kr_runlogs_trim(b->logs, how, on_trimmed, ret) < 0)
        return false;
    for (long end = patience_end(); !ret->error && is_before(end);) {
        turn(b);
        usleep(500);
    }
    return ret->error == 1 << 20;
}

static void retention_takes_the_oldest(void)
{
    const struct kr_runlogs_config config = {0};
    struct kr_runlogs_trimmed r;
    struct kr_runlog *log, *held, *live, *other;
    struct bench b;
    struct truth t = {0};
    char id[32], name[40];

    CHECK(bench_open(&b, &config, true));
    for (int i = 0; i < 600; i++) { /* more than one batch */
        snprintf(id, sizeof id, "r%03d", i);
        CHECK((log = new_log(&b, id)));
        end_log(log, &t, KR_CAUSE_OK);
        kr_runlog_unref(log);
    }
    CHECK((live = new_log(&b, "live")));
    add_text(live, &t, KR_STREAM_STDOUT, "x", 1);
    CHECK(flush(&b));
    for (int i = 0; i < 600; i++) { /* r000 is the oldest, 10,000 s; r599 is 4,010 s */
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - 10000 + i * 10}};

        snprintf(name, sizeof name, "r%03d.log", i);
        CHECK(utimensat(b.dirfd, name, times, 0) == 0);
    }
    CHECK(kr_runlog_open(b.logs, "r000", &held) == 0);
    close(openat(b.dirfd, "README", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); /* not ours */
    CHECK(trim(&b, &(struct kr_runlogs_trim){.max_age_s = 7005}, &r));
    CHECK(r.deleted_files == 299 && r.files == 302); /* r001 … r299; r000 is held */
    CHECK(faccessat(b.dirfd, "r000.log", F_OK, 0) == 0 && faccessat(b.dirfd, "r001.log", F_OK, 0) < 0);
    CHECK(faccessat(b.dirfd, "r299.log", F_OK, 0) < 0 && faccessat(b.dirfd, "r300.log", F_OK, 0) == 0);
    CHECK(kr_runlog_open(b.logs, "r100", &other) == -ENOENT);
    CHECK(kr_runlogs_delete(b.logs, "live") == -EBUSY && kr_runlogs_delete(b.logs, "r001") == -ENOENT);
    CHECK(trim(&b, &(struct kr_runlogs_trim){.max_bytes = 10 * 4096}, &r));
    CHECK(r.bytes <= 10 * 4096 && r.files > 2);
    CHECK(faccessat(b.dirfd, "r000.log", F_OK, 0) == 0 && faccessat(b.dirfd, "r599.log", F_OK, 0) == 0);
    CHECK(faccessat(b.dirfd, "live.log", F_OK, 0) == 0 && faccessat(b.dirfd, "README", F_OK, 0) == 0);
    CHECK(kr_runlogs_delete(b.logs, "r599") == 0 && kr_runlogs_delete(b.logs, "r599") == -ENOENT);
    CHECK(kr_runlogs_delete(b.logs, "r000") == 0); /* held: goes with its reference */
    CHECK(kr_runlog_open(b.logs, "r000", &other) == -ENOENT);
    kr_runlog_unref(held);
    kr_runlog_unref(live);
    CHECK(flush(&b));
    for (long end = patience_end(); is_before(end) && (faccessat(b.dirfd, "r000.log", F_OK, 0) == 0 ||
                                                       faccessat(b.dirfd, "r599.log", F_OK, 0) == 0);) {
        turn(&b);
        usleep(1000);
    }
    CHECK(faccessat(b.dirfd, "r000.log", F_OK, 0) < 0 && faccessat(b.dirfd, "r599.log", F_OK, 0) < 0);
    truth_done(&t);
    CHECK(bench_close(&b));
}

static void retention_without_a_folder(void)
{
    struct kr_runlogs_trimmed r;
    struct kr_runlog *log;
    struct kr_runlogs_figures f;
    struct bench b;
    struct truth t = {0};

    CHECK(bench_open(&b, &(struct kr_runlogs_config){.memory_max = 1 << 20}, false));
    CHECK((log = new_log(&b, "a")));
    end_log(log, &t, KR_CAUSE_OK);
    kr_runlog_unref(log);
    CHECK(kr_runlog_open(b.logs, "a", &log) == 0); /* kept in memory */
    kr_runlog_unref(log);
    CHECK(trim(&b, &(struct kr_runlogs_trim){.max_age_s = 1000}, &r) && r.deleted_files == 0);
    usleep(1100000);
    CHECK(trim(&b, &(struct kr_runlogs_trim){.max_age_s = 1}, &r) && r.deleted_files == 1);
    CHECK(kr_runlog_open(b.logs, "a", &log) == -ENOENT);
    kr_runlogs_figures(b.logs, &f);
    CHECK(f.memory == 0 && f.logs == 0);
    truth_done(&t);
    CHECK(bench_close(&b));
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoul(argv[1], NULL, 10) : (unsigned long)time(NULL);
    printf("seed %lu\n", seed);
    RUN(spills_while_running);
    RUN(file_has_a_limit_and_the_tail_is_kept);
    RUN(file_is_read_from_any_number);
    RUN(torn_files_end_as_lost);
    RUN(killed_process_leaves_a_readable_log);
    RUN(disk_that_fails_is_survived);
    RUN(a_stalled_disk_is_bounded);
    RUN(half_a_write_is_taken_back);
    RUN(an_abandoned_log_is_lost);
    RUN(retention_takes_the_oldest);
    RUN(retention_without_a_folder);
    CHECK_DONE();
}

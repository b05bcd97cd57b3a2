/* A folder, a loop and readers that check, for the tests of logs. Linked into test-runlog and test-runlog-disk. */
#define _GNU_SOURCE 1
#include "runlog-bench.h"
#include "patience.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned long seed = 1;

unsigned rnd(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

/* ---- a folder and a loop ---- */

static void remove_dir(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;

    while (d && (e = readdir(d)))
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(path);
}

bool bench_open(struct bench *b, const struct kr_runlogs_config *config, bool disk)
{
    struct kr_runlogs_config c = *config;

    snprintf(b->dir, sizeof b->dir, "/tmp/krait-test-runlog-XXXXXX");
    b->dirfd = -1;
    if (!mkdtemp(b->dir) || uv_loop_init(&b->loop) < 0)
        return false;
    b->dirfd = open(b->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    c.dirfd = disk ? b->dirfd : -1;
    return b->dirfd >= 0 && kr_runlogs_new(&b->loop, &c, &b->logs) == 0;
}

/* True if everything was given back. */
bool bench_close(struct bench *b)
{
    kr_runlogs_close(b->logs);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    close(b->dirfd);
    remove_dir(b->dir);
    return uv_loop_close(&b->loop) == 0;
}

/* Starts anew in the same folder, as a new process would. */
bool bench_restart(struct bench *b, const struct kr_runlogs_config *config)
{
    struct kr_runlogs_config c = *config;

    kr_runlogs_close(b->logs);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    c.dirfd = b->dirfd;
    return kr_runlogs_new(&b->loop, &c, &b->logs) == 0;
}

void turn(struct bench *b)
{
    uv_run(&b->loop, UV_RUN_NOWAIT);
}

static void on_flag(void *data)
{
    *(bool *)data = true;
}

bool flush(struct bench *b)
{
    bool done = false;

    if (kr_runlogs_flush(b->logs, on_flag, &done) < 0)
        return false;
    for (long end = patience_end(); !done && is_before(end);) {
        turn(b);
        if (!done)
            usleep(1000);
    }
    return done;
}

/* ---- the truth ---- */

void truth_add(struct truth *t, char kind, const char *data, size_t len)
{
    if (t->len + len > t->room) {
        t->room = (t->len + len) * 2;
        t->bytes = realloc(t->bytes, t->room);
        t->kinds = realloc(t->kinds, t->room);
        if (!t->bytes || !t->kinds)
            abort();
    }
    memcpy(t->bytes + t->len, data, len);
    memset(t->kinds + t->len, kind, len);
    t->len += len;
}

void truth_done(struct truth *t)
{
    free(t->bytes);
    free(t->kinds);
    *t = (struct truth){.bytes = NULL};
}

/* ---- a reader that checks ---- */

char kind_of(enum kr_event_type type)
{
    return (char)('a' + (int)type);
}

static void judge_cut(struct watcher *w, const struct kr_event *e)
{
    if (e->cut.last != e->seq || e->cut.first > e->cut.last || e->cut.first > w->next)
        w->wrong = "a cut's numbers";
    if (w->at != SIZE_MAX) {
        if (e->cut.first != w->next)
            w->wrong = "a cut does not begin where the reader is";
        w->at += e->cut.bytes;
        if (w->at > w->truth->len)
            w->wrong = "a cut of more bytes than there were";
    }
    w->cuts++;
    w->cut_bytes += e->cut.bytes;
    w->next = e->seq + 1;
}

void judge(struct watcher *w, const struct kr_event *e)
{
    const struct truth *t = w->truth;

    w->events++;
    if (w->ended)
        w->wrong = "an event after the end";
    if (e->type == KR_EVENT_CUT) {
        judge_cut(w, e);
        return;
    }
    if (e->seq != w->next)
        w->wrong = e->seq < w->next ? "an event twice" : "an event lost";
    w->next = e->seq + 1;
    w->read_bytes += e->len;
    if (w->at != SIZE_MAX) {
        if (w->at + e->len > t->len || (e->len > 0 && memcmp(t->bytes + w->at, e->data, e->len) != 0))
            w->wrong = "other bytes than were appended";
        for (size_t i = 0; !w->wrong && i < e->len; i++)
            if (t->kinds[w->at + i] != kind_of(e->type))
                w->wrong = "bytes under another type";
        w->at += e->len;
    }
    if (e->type == KR_EVENT_END) {
        w->ended = true;
        w->cause = e->cause;
    }
}

/* Takes at most n events. Returns how many. */
unsigned pull(struct watcher *w, unsigned n)
{
    struct kr_event e;
    unsigned taken = 0;
    int r = 1;

    while (taken < n && (r = kr_runlog_peek(w->reader, &e)) == 1) {
        struct kr_event again;

        if (kr_runlog_peek(w->reader, &again) != 1 || again.seq != e.seq || again.len != e.len)
            w->wrong = "two peeks differ";
        judge(w, &again);
        kr_runlog_take(w->reader);
        kr_runlog_take(w->reader); /* a second take is nothing */
        taken++;
    }
    if (r < 0)
        w->error = r;
    w->wants_on = taken == n && r == 1;
    return taken;
}

static void on_more(void *data, struct kr_runlog_reader *reader)
{
    struct watcher *w = data;

    w->calls++;
    if (reader != w->reader)
        w->wrong = "called for another reader";
    if (w->close_in_call) {
        kr_runlog_reader_close(w->reader);
        w->reader = NULL;
        return;
    }
    if (w->speed)
        pull(w, w->speed);
    else
        w->wants_on = true;
}

int watch(struct watcher *w, struct kr_runlog *log, const struct truth *truth, uint64_t from, unsigned speed)
{
    *w = (struct watcher){.truth = truth, .next = from > 1 ? from : 1, .at = from > 1 ? SIZE_MAX : 0, .speed = speed};
    return kr_runlog_read(log, from, on_more, w, &w->reader);
}

bool finish(struct bench *b, struct watcher *w)
{
    int turns = 0;

    for (long end = patience_end(); !kr_runlog_done(w->reader) && !w->error && is_before(end); turns++) {
        turn(b);
        if (w->wants_on)
            pull(w, 1000000);
        else if (turns > 10)
            usleep(1000);
    }
    return w->ended && kr_runlog_done(w->reader);
}

/* All was read: every byte accounted for, read or cut. */
bool is_whole(const struct watcher *w)
{
    return !w->wrong && w->ended && w->at == w->truth->len && w->read_bytes + w->cut_bytes == w->truth->len;
}

struct kr_runlog *new_log(struct bench *b, const char *id)
{
    struct kr_runlog_spec spec = {.id = id};
    struct kr_runlog *log = NULL;

    return kr_runlog_new(b->logs, &spec, &log) == 0 ? log : NULL;
}

int add_text(struct kr_runlog *log, struct truth *t, enum kr_stream stream, const char *text, size_t len)
{
    truth_add(t, kind_of(stream == KR_STREAM_STDOUT ? KR_EVENT_STDOUT : KR_EVENT_STDERR), text, len);
    return kr_runlog_text(log, stream, text, len);
}

int add_json(struct kr_runlog *log, struct truth *t, enum kr_event_type type, const char *json)
{
    truth_add(t, kind_of(type), json, strlen(json));
    return kr_runlog_add(log, type, json, strlen(json));
}

void end_log(struct kr_runlog *log, struct truth *t, enum kr_cause cause)
{
    static const char json[] = "{\"cause\":\"given\"}";

    truth_add(t, kind_of(KR_EVENT_END), json, sizeof json - 1);
    kr_runlog_end(log, cause, json, sizeof json - 1);
}

void fill(char *buf, size_t len)
{
    for (size_t i = 0; i < len; i++)
        buf[i] = (char)('!' + rnd(90));
}

/* Security events on their way into the store.
 *
 * Called by the domain, for the most part through security_facts.c. Invariants: noting an event costs no write; what
 * waits is bounded, and an event that found no room is counted; a user whose code is refused ten thousand times a
 * second makes at most USER_ROWS rows and USER_LINES lines of the log a minute, then one row of each kind with their
 * number. */
#include "security.h"
#include "clock.h"
#include "hash.h"
#include "log.h"
#include "loop.h"
#include "security_store.h"
#include "utf8.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define WAITING_MAX 512u /* events that differ */
#define WRITE_AT 64u     /* rows that are written together: some 3 ms */
#define WRITE_MS 500u    /* equal events within it are one row */
#define WRITE_AGAIN_MS 1000u

#define USER_ROWS 300u /* of a user in a window */
#define USER_LINES 10u /* of the log */
#define WINDOW_MS 60000u
#define WINDOWS_MAX 256u

const char *const kr_security_kinds[] = {"policy", "syscall", "permission", "egress", "limit", NULL};
static_assert(sizeof kr_security_kinds / sizeof *kr_security_kinds == KR_SECURITY_KIND_MAX_ + 1, "a word for each");

struct event {
    uint32_t hash;
    enum kr_security_kind kind;
    uint32_t line;
    uint64_t count;
    int64_t at;
    char user[KR_STORE_ID_ROOM], sandbox[KR_STORE_ID_ROOM], run[KR_STORE_ID_ROOM];
    char rule[KR_STORE_EVENT_RULE_MAX + 1], text[KR_STORE_EVENT_TEXT_MAX + 1];
};

/* A minute of a user's. */
struct window {
    TAILQ_ENTRY(window) link; /* by their ends */
    char user[KR_STORE_ID_ROOM];
    uint64_t end_ns;
    unsigned rows, lines;
    uint64_t rest[KR_SECURITY_KIND_MAX_]; /* events past USER_ROWS */
};
TAILQ_HEAD(windows, window);

struct kr_security {
    struct kr_store *store;
    uint64_t rows;
    struct kr_security_calls calls;
    void *data;
    struct kr_timer *writer, *windower;
    struct event *waiting[WAITING_MAX];
    size_t count;
    bool failing; /* the store did not take them at the last try; it has been said */
    struct windows windows;
    unsigned window_count;
    struct kr_security_figures figures;
};

/* ---- into the store ---- */

static void forget_written(struct kr_security *s, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(s->waiting[i]);
    s->count -= count;
    for (size_t i = 0; i < s->count; i++)
        s->waiting[i] = s->waiting[count + i];
}

static struct kr_store_event stored_event(const struct event *e)
{
    return (struct kr_store_event){.owner = e->user,
                                   .sandbox = e->sandbox,
                                   .run = e->run,
                                   .at = e->at,
                                   .kind = kr_security_kinds[e->kind],
                                   .rule = e->rule,
                                   .line = e->line,
                                   .count = e->count,
                                   .text = e->text};
}

/* 0 or -errno, and they wait. */
static int write_some(struct kr_security *s)
{
    struct kr_store_event rows[WRITE_AT] = {{0}};
    size_t count = s->count < WRITE_AT ? s->count : WRITE_AT;
    struct kr_err err;
    int r;

    for (size_t i = 0; i < count; i++)
        rows[i] = stored_event(s->waiting[i]);
    r = kr_store_events_add(s->store, rows, count, s->rows, &err);
    if (r < 0 && !s->failing)
        kr_log_with(KR_LOG_WARN, "security events not stored, trying again", KR_F_STR("error", err.msg));
    s->failing = r < 0;
    if (r >= 0)
        forget_written(s, count);
    return r;
}

static void write_all(struct kr_security *s)
{
    while (s->count > 0)
        if (write_some(s) < 0) {
            kr_timer_arm(s->writer, WRITE_AGAIN_MS);
            return;
        }
    kr_timer_disarm(s->writer);
}

static void on_write(void *data)
{
    write_all(data);
}

/* ---- one event ---- */

static uint32_t hash_of(const struct kr_security_event *e)
{
    uint32_t hash = kr_hash(KR_HASH_START, &e->kind, sizeof e->kind);

    hash = kr_hash_text(kr_hash_text(kr_hash_text(hash, e->user), e->sandbox), e->run);
    return kr_hash(kr_hash_text(hash, e->rule), &e->line, sizeof e->line);
}

static bool is_equal(const struct event *w, uint32_t hash, const struct kr_security_event *e)
{
    return w->hash == hash && w->kind == e->kind && w->line == e->line && strcmp(w->user, e->user) == 0 &&
           strcmp(w->sandbox, e->sandbox) == 0 && strcmp(w->run, e->run) == 0 && strcmp(w->rule, e->rule) == 0;
}

/* One that waits already and says the same, text apart; or NULL. */
static struct event *find_equal(struct kr_security *s, uint32_t hash, const struct kr_security_event *e)
{
    for (size_t i = s->count; i > 0; i--)
        if (is_equal(s->waiting[i - 1], hash, e))
            return s->waiting[i - 1];
    return NULL;
}

/* As much of the text as there is room for, without a half character at its end. */
static void cut_text(char *out, size_t size, const char *text)
{
    size_t len = strnlen(text, size - 1);

    if (text[len])
        len = kr_utf8_complete(text, len);
    memcpy(out, text, len);
    out[len] = '\0';
}

/* A new row; false: no room. */
static bool add_row(struct kr_security *s, uint32_t hash, const struct kr_security_event *e)
{
    struct event *w = s->count < WAITING_MAX ? calloc(1, sizeof *w) : NULL;

    if (!w)
        return false;
    w->hash = hash;
    w->kind = e->kind;
    w->line = e->line;
    w->count = e->count;
    w->at = kr_store_now();
    snprintf(w->user, sizeof w->user, "%s", e->user);
    snprintf(w->sandbox, sizeof w->sandbox, "%s", e->sandbox);
    snprintf(w->run, sizeof w->run, "%s", e->run);
    cut_text(w->rule, sizeof w->rule, e->rule);
    cut_text(w->text, sizeof w->text, e->text);
    s->waiting[s->count++] = w;
    if (s->failing)
        return true; /* the timer tries again */
    if (s->count >= WRITE_AT)
        write_all(s);
    else if (!kr_timer_armed(s->writer))
        kr_timer_arm(s->writer, WRITE_MS);
    return true;
}

/* ---- a user's minute ---- */

static void end_window(struct kr_security *s, struct window *w)
{
    for (unsigned kind = 0; kind < KR_SECURITY_KIND_MAX_; kind++) {
        struct kr_security_event e = {.kind = (enum kr_security_kind)kind,
                                      .rule = "more",
                                      .text = "more refusals in that minute than have rows of their own",
                                      .count = w->rest[kind],
                                      .user = w->user,
                                      .sandbox = "",
                                      .run = ""};

        if (e.count > 0 && !add_row(s, hash_of(&e), &e))
            s->figures.dropped += e.count;
    }
    TAILQ_REMOVE(&s->windows, w, link);
    s->window_count--;
    free(w);
}

static void on_windows(void *data)
{
    struct kr_security *s = data;
    uint64_t now = kr_clock_ns();
    struct window *w;

    while ((w = TAILQ_FIRST(&s->windows)) && w->end_ns <= now)
        end_window(s, w);
    if (w)
        kr_timer_arm(s->windower, (w->end_ns - now) / 1000000u + 1);
}

/* The user's; NULL: there are too many, and this one is bounded by WAITING_MAX alone. */
static struct window *window_of(struct kr_security *s, const char *user)
{
    struct window *w;

    TAILQ_FOREACH(w, &s->windows, link)
    if (strcmp(w->user, user) == 0)
        return w;
    w = s->window_count < WINDOWS_MAX ? calloc(1, sizeof *w) : NULL;
    if (!w)
        return NULL;
    snprintf(w->user, sizeof w->user, "%s", user);
    w->end_ns = kr_clock_after_ms(WINDOW_MS);
    TAILQ_INSERT_TAIL(&s->windows, w, link);
    if (s->window_count++ == 0)
        kr_timer_arm(s->windower, WINDOW_MS);
    return w;
}

/* Gives it a row, or counts it where it has none. */
static void keep_event(struct kr_security *s, struct window *w, const struct kr_security_event *e)
{
    uint32_t hash = hash_of(e);
    struct event *same = find_equal(s, hash, e);

    if (same) {
        same->count += e->count;
    } else if (w && w->rows >= USER_ROWS) {
        w->rest[e->kind] += e->count;
        s->figures.unlisted += e->count;
    } else if (!add_row(s, hash, e)) {
        s->figures.dropped += e->count;
    } else if (w) {
        w->rows++;
    }
}

void kr_security_note(struct kr_security *s, const struct kr_security_event *event)
{
    struct kr_security_event e = *event;
    struct window *w;
    bool is_told;

    if (!s)
        return;
    if (e.count == 0)
        e.count = 1;
    w = window_of(s, e.user);
    is_told = w && w->lines < USER_LINES;
    if (is_told)
        w->lines++;
    if (s->calls.on_event)
        s->calls.on_event(s->data, &e, is_told);
    keep_event(s, w, &e);
}

/* ---- life ---- */

int kr_security_new(struct uv_loop_s *loop, struct kr_store *store, uint64_t rows,
                    const struct kr_security_calls *calls, void *data, struct kr_security **ret)
{
    struct kr_security *s = calloc(1, sizeof *s);
    int r = s ? kr_timer_new(loop, on_write, s, &s->writer) : -ENOMEM;

    if (r >= 0 && s)
        r = kr_timer_new(loop, on_windows, s, &s->windower);
    if (r < 0 || !s) {
        if (s)
            kr_timer_close(s->writer);
        free(s);
        return r < 0 ? r : -ENOMEM;
    }
    s->store = store;
    s->rows = rows;
    s->calls = *calls;
    s->data = data;
    TAILQ_INIT(&s->windows);
    *ret = s;
    return 0;
}

void kr_security_set_rows(struct kr_security *s, uint64_t rows)
{
    if (s)
        s->rows = rows;
}

void kr_security_settle(struct kr_security *s)
{
    if (s && !s->failing)
        write_all(s);
}

void kr_security_flush(struct kr_security *s)
{
    struct window *w;

    if (!s)
        return;
    while ((w = TAILQ_FIRST(&s->windows)))
        end_window(s, w);
    write_all(s);
}

void kr_security_free(struct kr_security *s)
{
    if (!s)
        return;
    kr_security_flush(s);
    if (s->count > 0)
        kr_log(KR_LOG_ERROR, "security events lost", "rows=%zu", s->count);
    forget_written(s, s->count);
    kr_timer_close(s->writer);
    kr_timer_close(s->windower);
    free(s);
}

int kr_security_prune(struct kr_security *s, int64_t since)
{
    struct kr_store_keep keep = {.since = since};
    struct kr_err err;
    int r;

    if (!s)
        return 0;
    keep.count = s->rows;
    r = kr_store_events_prune(s->store, &keep, &err);
    if (r < 0)
        kr_log_with(KR_LOG_WARN, "security events not removed, trying again", KR_F_STR("error", err.msg));
    return r;
}

struct kr_security_figures kr_security_figures(const struct kr_security *s)
{
    return s ? s->figures : (struct kr_security_figures){0};
}

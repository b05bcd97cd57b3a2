/* The log: levels, bursts, stderr.
 *
 * Called from every process of krait, after fork too, and from any thread. log_line.c makes the lines, log_file.c keeps
 * the files. Invariant: a line is one write(2) to stderr, is one line whatever was put into it, and is built on the
 * stack; no line waits longer than STALL_MS for a reader, and then none does until the reader is back. */
#define _GNU_SOURCE 1
#include "clock.h"
#include "log_internal.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STALL_MS 200
#define TELL_MS 10000u
#define BURST 10000u
#define PER_SECOND 1000u
#define PAIRS_MAX 1536u

static const char *const level_names[] = {
    [KR_LOG_ERROR] = "error",
    [KR_LOG_WARN] = "warn",
    [KR_LOG_INFO] = "info",
    [KR_LOG_DEBUG] = "debug",
};
static_assert(sizeof level_names / sizeof level_names[0] == KR_LOG_MAX_, "every level has its name");

static _Atomic int current_level = KR_LOG_WARN, current_format = KR_LOG_LOGFMT;
static _Atomic bool with_time;
static const char *_Atomic current_who = "krait";
static _Thread_local char current_request[KR_LOG_REQUEST_MAX + 1];

/* Lines at error and warn have a bucket of their own, so that a flood of the others does not drown them. */
struct bucket {
    const char *of;
    double lines; /* that may be written now */
    uint64_t then_ns;
    uint64_t dropped; /* and not yet reported */
    uint64_t tell_at; /* a flood is reported once in TELL_MS, not with every line that gets through */
};
enum { LOUD, QUIET, BUCKETS };

/* All of it belongs to the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bucket buckets[BUCKETS] = {{.of = "warn", .lines = BURST}, {.of = "info", .lines = BURST}};
static uint32_t burst = BURST, per_second = PER_SECOND;
static bool stalled; /* the reader of stderr let STALL_MS pass */
static struct kr_log_figures figures;

void kr_log_set_level(enum kr_log_level level)
{
    current_level = level;
}

bool kr_log_is_on(enum kr_log_level level)
{
    return (unsigned)level < KR_LOG_MAX_ && (int)level <= current_level;
}

void kr_log_set_format(enum kr_log_format format)
{
    current_format = format;
}

void kr_log_set_time(bool on)
{
    with_time = on;
}

void kr_log_set_who(const char *who)
{
    current_who = who;
}

void kr_log_set_request(const char *id)
{
    size_t len = id ? strnlen(id, KR_LOG_REQUEST_MAX) : 0;

    if (len > 0)
        memcpy(current_request, id, len);
    current_request[len] = '\0';
}

void kr_log_set_rate(uint32_t lines, uint32_t lines_per_second)
{
    pthread_mutex_lock(&lock);
    burst = lines;
    per_second = lines_per_second;
    for (int i = 0; i < BUCKETS; i++) {
        buckets[i].lines = lines;
        buckets[i].tell_at = 0;
    }
    pthread_mutex_unlock(&lock);
}

struct kr_log_figures kr_log_figures(void)
{
    struct kr_log_figures f;

    pthread_mutex_lock(&lock);
    f = figures;
    pthread_mutex_unlock(&lock);
    return f;
}

/* ---- writing, under the lock ---- */

/* A pipe that has room for a page takes a line whole; regular files and terminals are always ready (poll(2)). */
static bool stderr_ready(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    int n;

    do
        n = poll(&p, 1, stalled ? 0 : STALL_MS);
    while (n < 0 && errno == EINTR);
    stalled = n == 0;
    return n != 0; /* what cannot be asked is tried */
}

static void write_line(const struct kr_log_line *l)
{
    ssize_t n = -1;

    if (stderr_ready())
        do
            n = write(STDERR_FILENO, l->text, l->len);
        while (n < 0 && errno == EINTR);
    figures.dropped_stderr += n < 0;
    figures.dropped_file += !kr_log_file_write(l->text, l->len);
}

/* May one more line be written? */
static bool take_line(struct bucket *b)
{
    uint64_t now = kr_clock_ns();

    if (per_second == 0)
        return true;
    b->lines += (double)(now - b->then_ns) / 1e9 * per_second;
    b->lines = b->lines < burst ? b->lines : burst;
    b->then_ns = now;
    if (b->lines < 1)
        return false;
    b->lines -= 1;
    return true;
}

static void begin_line(struct kr_log_line *l, enum kr_log_level level, const char *msg, bool with_request)
{
    bool json = current_format == KR_LOG_JSON;
    struct timespec now;
    struct tm tm;
    char ts[48];

    kr_log_line_begin(l, json);
    if (json || with_time) {
        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &tm);
        strftime(ts, sizeof ts, "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(ts + strlen(ts), 8, ".%03uZ", (unsigned)(now.tv_nsec / 1000000) % 1000);
        kr_log_line_text(l, "ts", ts, SIZE_MAX, sizeof ts, false);
    }
    kr_log_line_text(l, "level", level_names[level], SIZE_MAX, 16, false);
    kr_log_line_text(l, "who", current_who, SIZE_MAX, 32, false);
    kr_log_line_text(l, "msg", msg, SIZE_MAX, 500, true);
    if (with_request && current_request[0])
        kr_log_line_text(l, "request", current_request, SIZE_MAX, KR_LOG_REQUEST_MAX, false);
}

static void tell_dropped(struct bucket *b)
{
    struct kr_log_line l;
    char count[24];

    snprintf(count, sizeof count, "%llu", (unsigned long long)b->dropped);
    b->dropped = 0;
    b->tell_at = kr_clock_after_ms(TELL_MS);
    begin_line(&l, KR_LOG_WARN, "log lines were dropped: too many at once", false);
    kr_log_line_word(&l, "count", count);
    kr_log_line_text(&l, "up_to", b->of, SIZE_MAX, 16, false);
    kr_log_line_end(&l);
    write_line(&l);
}

static void emit(enum kr_log_level level, const struct kr_log_line *l)
{
    struct bucket *b = &buckets[level <= KR_LOG_WARN ? LOUD : QUIET];

    pthread_mutex_lock(&lock);
    figures.lines++;
    if (!take_line(b)) {
        b->dropped++;
        figures.dropped_burst++;
    } else {
        if (b->dropped > 0 && kr_clock_ns() >= b->tell_at)
            tell_dropped(b);
        write_line(l);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- lines ---- */

void kr_log(enum kr_log_level level, const char *msg, const char *fmt, ...)
{
    struct kr_log_line l;
    char pairs[PAIRS_MAX];
    int saved = errno, n = 0;
    va_list ap;

    if (!kr_log_is_on(level))
        return;
    begin_line(&l, level, msg, true);
    if (fmt) {
        va_start(ap, fmt);
        n = vsnprintf(pairs, sizeof pairs, fmt, ap);
        va_end(ap);
    }
    if (n > 0)
        kr_log_line_pairs(&l, pairs, (size_t)n < sizeof pairs ? (size_t)n : sizeof pairs - 1);
    kr_log_line_end(&l);
    emit(level, &l);
    errno = saved;
}

static void add_field(struct kr_log_line *l, const struct kr_log_field *f)
{
    char word[32] = "";

    switch (f->type) {
    case KR_LOG_TEXT_:
        if (f->text)
            kr_log_line_text(l, f->key, f->text, f->len, f->chars, false);
        return;
    case KR_LOG_INT_:
        snprintf(word, sizeof word, "%lld", (long long)f->i);
        break;
    case KR_LOG_UINT_:
        snprintf(word, sizeof word, "%llu", (unsigned long long)f->u);
        break;
    case KR_LOG_REAL_: /* NaN and the infinities are no JSON, and a time has none of them */
        snprintf(word, sizeof word, "%.2f", f->real > -1e15 && f->real < 1e15 ? f->real : 0.0);
        break;
    case KR_LOG_BOOL_:
        snprintf(word, sizeof word, "%s", f->truth ? "true" : "false");
        break;
    }
    kr_log_line_word(l, f->key, word);
}

void kr_log_fields(enum kr_log_level level, const char *msg, const struct kr_log_field *fields, size_t count)
{
    struct kr_log_line l;
    int saved = errno;
    bool own_request = false;

    if (!kr_log_is_on(level))
        return;
    for (size_t i = 0; i < count; i++)
        own_request = own_request || (fields[i].key && strcmp(fields[i].key, "request") == 0);
    begin_line(&l, level, msg, !own_request);
    for (size_t i = 0; i < count; i++)
        if (fields[i].key)
            add_field(&l, &fields[i]);
    kr_log_line_end(&l);
    emit(level, &l);
    errno = saved;
}

/* ---- files ---- */

int kr_log_open_sized(const char *dir, uint64_t file_max, unsigned files, struct kr_err *err)
{
    int r;

    pthread_mutex_lock(&lock);
    r = kr_log_file_open(dir, file_max, files, err);
    pthread_mutex_unlock(&lock);
    return r;
}

int kr_log_open(const char *dir, struct kr_err *err)
{
    return kr_log_open_sized(dir, KR_LOG_FILE_MAX, KR_LOG_FILES, err);
}

int kr_log_reopen(void)
{
    int r;

    pthread_mutex_lock(&lock);
    r = kr_log_file_reopen();
    pthread_mutex_unlock(&lock);
    return r;
}

void kr_log_close(void)
{
    pthread_mutex_lock(&lock);
    kr_log_file_close();
    pthread_mutex_unlock(&lock);
}

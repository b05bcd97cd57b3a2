/* Logs of runs: making them, appending, ending, holding and finding them.
 *
 * Called by the domain, on the loop thread. Invariants: events of a log are numbered 1, 2, 3 … without a gap, and every
 * number is in memory, in the file, or within a CUT of one of the two; what a reader has been shown is never changed,
 * only followed; the END is always there at the end.
 *
 * A log's memory holds its newest events, as an array sorted by number:
 *
 *     [ in the file too: cache ][ being written: pinned ][ not written: text may still be merged, the middle cut ]
 *                      written_seq             pinned_seq                                              last_seq
 */
#include "clock.h"
#include "hash.h"
#include "runlog_internal.h"
#include "utf8.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEMORY_DEFAULT (64u << 20)
#define RUN_MEMORY_DEFAULT (1u << 20)
#define RUN_FILE_DEFAULT (64u << 20)
#define FLUSH_DEFAULT_MS 1000u
#define TEXT_FIRST 512u /* room of a text event at first: most runs print a line or two */
#define END_ROOM 128u
#define SLACK 64u /* less than this is not worth giving back */

uint64_t rl_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

/* ---- all logs ---- */

static void on_check(uv_check_t *handle)
{
    rl_call_due(handle->data);
}

static void on_spin(uv_idle_t *handle)
{
    (void)handle;
}

void rl_wake(struct kr_runlogs *l)
{
    if (l->awake || l->closed)
        return;
    l->awake = true;
    uv_check_start(&l->check, on_check);
    uv_idle_start(&l->spin, on_spin);
}

int kr_runlogs_new(struct uv_loop_s *loop, const struct kr_runlogs_config *config, struct kr_runlogs **ret_logs)
{
    struct kr_runlogs *l = calloc(1, sizeof *l);
    int r;

    if (!l)
        return -ENOMEM;
    l->loop = loop;
    l->config = *config;
    if (!l->config.memory_max)
        l->config.memory_max = MEMORY_DEFAULT;
    if (!l->config.run_memory_max)
        l->config.run_memory_max = RUN_MEMORY_DEFAULT;
    if (!l->config.run_file_max)
        l->config.run_file_max = RUN_FILE_DEFAULT;
    if (!l->config.flush_ms)
        l->config.flush_ms = FLUSH_DEFAULT_MS;
    l->soft_max = l->config.memory_max / 4 * 3;
    TAILQ_INIT(&l->logs);
    TAILQ_INIT(&l->idle_written);
    TAILQ_INIT(&l->idle_memory);
    TAILQ_INIT(&l->idle_unwritten);
    TAILQ_INIT(&l->writes_waiting);
    TAILQ_INIT(&l->due);
    TAILQ_INIT(&l->calling);
    TAILQ_INIT(&l->loads_waiting);
    TAILQ_INIT(&l->unlinks);
    r = kr_timer_new(loop, rl_on_timer, l, &l->timer);
    if (r < 0) {
        free(l);
        return r;
    }
    uv_check_init(loop, &l->check); /* these two cannot fail */
    uv_idle_init(loop, &l->spin);
    l->check.data = l->spin.data = l;
    l->handles = 2;
    *ret_logs = l;
    return 0;
}

void rl_maybe_free(struct kr_runlogs *l)
{
    if (l->closed && l->handles == 0 && l->jobs == 0) {
        rl_trim_free(l->trim);
        free(l);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct kr_runlogs *l = handle->data;

    l->handles--;
    rl_maybe_free(l);
}

void kr_runlogs_close(struct kr_runlogs *l)
{
    struct kr_runlog *log, *next;

    if (!l)
        return;
    l->closed = true;
    kr_timer_close(l->timer);
    for (log = TAILQ_FIRST(&l->logs); log; log = next) {
        next = TAILQ_NEXT(log, link);
        log->refs = 0; /* as the header says; one that a job uses goes with the job */
        if (!log->writing && !log->scanning)
            rl_log_free(log);
    }
    uv_close((uv_handle_t *)&l->check, on_handle_closed);
    uv_close((uv_handle_t *)&l->spin, on_handle_closed);
}

void kr_runlogs_figures(const struct kr_runlogs *l, struct kr_runlogs_figures *ret)
{
    const struct kr_runlog *log;

    *ret = (struct kr_runlogs_figures){
        .memory = l->memory, .logs = l->log_count, .cuts = l->cuts, .written = l->written, .disk_error = l->disk_error};
    for (log = TAILQ_FIRST(&l->logs); log; log = TAILQ_NEXT(log, link))
        ret->live += !log->ended && !log->scanning;
}

/* ---- finding ---- */

static unsigned bucket_of(const char *id)
{
    return kr_hash_text(KR_HASH_START, id) % RL_BUCKETS;
}

struct kr_runlog *rl_find(const struct kr_runlogs *l, const char *id)
{
    struct kr_runlog *log = l->buckets[bucket_of(id)];

    while (log && strcmp(log->id, id) != 0)
        log = log->next_in_bucket;
    return log;
}

bool rl_valid_id(const char *id)
{
    size_t len = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");

    return len > 0 && len <= KR_RUNLOG_ID_MAX && !id[len];
}

int rl_log_new(struct kr_runlogs *l, const char *id, struct kr_runlog **ret_log)
{
    struct kr_runlog *log = calloc(1, sizeof *log);
    unsigned b = bucket_of(id);

    if (!log)
        return -ENOMEM;
    log->logs = l;
    log->refs = 1;
    snprintf(log->id, sizeof log->id, "%s", id);
    snprintf(log->name, sizeof log->name, "%s.log", log->id);
    TAILQ_INIT(&log->readers);
    log->next_in_bucket = l->buckets[b];
    l->buckets[b] = log;
    TAILQ_INSERT_TAIL(&l->logs, log, link);
    l->log_count++;
    *ret_log = log;
    return 0;
}

static void leave_idle(struct kr_runlog *log)
{
    if (!log->idle)
        return;
    TAILQ_REMOVE(log->idle, log, idle_link);
    log->idle = NULL;
    log->logs->idle_count--;
}

void rl_log_free(struct kr_runlog *log)
{
    struct kr_runlogs *l = log->logs;
    struct kr_runlog **at = &l->buckets[bucket_of(log->id)];

    leave_idle(log);
    rl_forget_write(log);
    while (*at != log)
        at = &(*at)->next_in_bucket;
    *at = log->next_in_bucket;
    TAILQ_REMOVE(&l->logs, log, link);
    l->log_count--;
    l->cached -= log->memory - log->unwritten;
    rl_account(log, 0, log->memory);
    for (size_t i = 0; i < log->count; i++)
        free(rl_at(log, i));
    free(log->events);
    free(log->index);
    free(log->spare_cut);
    free(log->spare_end);
    free(log);
}

int kr_runlog_new(struct kr_runlogs *l, const struct kr_runlog_spec *spec, struct kr_runlog **ret_log)
{
    struct kr_runlog *log;
    int r;

    if (!rl_valid_id(spec->id))
        return -EINVAL;
    if (rl_find(l, spec->id))
        return -EEXIST;
    r = rl_log_new(l, spec->id, &log);
    if (r < 0)
        return r;
    log->memory_only = spec->memory_only;
    log->on_room = spec->on_room;
    log->data = spec->data;
    log->spare_cut = calloc(1, sizeof *log->spare_cut);
    log->spare_end = calloc(1, sizeof *log->spare_end + END_ROOM);
    if (!log->spare_cut || !log->spare_end || !rl_reserve(log)) {
        rl_log_free(log);
        return -ENOMEM;
    }
    *ret_log = log;
    return 0;
}

int rl_open(struct kr_runlogs *l, const char *id, struct kr_runlog **ret_log)
{
    struct kr_runlog *log;

    if (!rl_valid_id(id))
        return -EINVAL;
    log = rl_find(l, id);
    if (log && log->doomed)
        return -ENOENT;
    if (!log)
        return rl_log_new(l, id, ret_log);
    *ret_log = kr_runlog_ref(log);
    return 1;
}

int kr_runlog_open(struct kr_runlogs *l, const char *id, struct kr_runlog **ret_log)
{
    struct kr_runlog *log;
    int r = rl_open(l, id, &log);

    if (r < 0)
        return r;
    if (r > 0) {
        *ret_log = log;
        return 0;
    }
    r = l->config.dirfd < 0 || rl_being_unlinked(l, log->name) ? -ENOENT : 0;
    /* A look at one name, which the system has in memory as a rule; what is in the file is read elsewhere. */
    if (r == 0 && faccessat(l->config.dirfd, log->name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    if (r == 0)
        r = rl_scan(log);
    if (r < 0) {
        rl_log_free(log);
        return r;
    }
    *ret_log = log;
    return 0;
}

struct kr_runlog *kr_runlog_ref(struct kr_runlog *log)
{
    leave_idle(log);
    log->refs++;
    return log;
}

static void make_idle(struct kr_runlog *log, struct rl_list *list)
{
    struct kr_runlogs *l = log->logs;

    if (log->idle == list)
        return;
    leave_idle(log);
    log->idle = list;
    TAILQ_INSERT_TAIL(list, log, idle_link);
    l->idle_count++;
    if (l->idle_count > RL_IDLE_MAX && !TAILQ_EMPTY(&l->idle_written))
        rl_log_free(TAILQ_FIRST(&l->idle_written));
}

void rl_settle(struct kr_runlog *log)
{
    struct kr_runlogs *l = log->logs;

    if (log->refs > 0 || log->writing || log->scanning)
        return;
    if (log->doomed && (log->file_len > 0 || log->failed))
        rl_unlink(l, log->name);
    if (log->doomed || log->memory_only || log->failed || l->closed)
        rl_log_free(log);
    else if (l->config.dirfd < 0)
        make_idle(log, &l->idle_memory);
    else if (log->written_seq == log->last_seq)
        make_idle(log, &l->idle_written);
    else {
        rl_write(log); /* comes back here; the timer tries again if it cannot */
        make_idle(log, &l->idle_unwritten);
    }
}

void kr_runlog_unref(struct kr_runlog *log)
{
    static const char abandoned[] = "{\"cause\":\"lost\",\"message\":\"the run was given up\"}";

    if (!log || --log->refs > 0)
        return;
    if (!log->ended && !log->scanning && !log->failed)
        kr_runlog_end(log, KR_CAUSE_LOST, abandoned, sizeof abandoned - 1);
    rl_settle(log);
}

void kr_runlog_figures(const struct kr_runlog *log, struct kr_runlog_figures *ret)
{
    *ret = (struct kr_runlog_figures){
        .loading = log->scanning,
        .still_running = !log->ended && !log->scanning && !log->failed,
        .truncated = log->truncated,
        .last_seq = log->last_seq,
        .bytes = log->bytes,
        .cause = log->cause,
        .failed = log->failed,
    };
}

/* ---- appending ---- */

/* The last text will not grow any more: gives back the room it was given for that. */
static void shrink_last(struct kr_runlog *log)
{
    struct rl_event *e = log->count ? rl_at(log, log->count - 1) : NULL, *smaller;
    size_t less;

    if (!e || e->seq <= log->pinned_seq || e->cap - e->len < SLACK)
        return;
    less = e->cap - e->len;
    smaller = realloc(e, sizeof *e + e->len);
    if (!smaller)
        return;
    smaller->cap = smaller->len;
    log->events[log->first + log->count - 1] = smaller;
    rl_account(log, 0, less);
    log->unwritten -= less;
}

/* Numbers the event, which is whole, and puts it into its slot. */
static void push_event(struct kr_runlog *log, struct rl_event *e)
{
    shrink_last(log);
    e->seq = e->first = ++log->last_seq;
    e->offset = log->bytes;
    e->bytes = e->len;
    e->time_ms = rl_now_ms();
    log->bytes += e->len;
    log->stuck = false;
    log->events[log->first + log->count++] = e;
    rl_account(log, rl_size(e), 0);
    log->unwritten += rl_size(e);
}

/* What follows every append: readers, the disk. Returns what the append returns. */
static int appended(struct kr_runlog *log)
{
    struct kr_runlogs *l = log->logs;

    rl_call_hungry(log);
    if (log->memory_only || l->config.dirfd < 0)
        return 0;
    if (log->ended || log->unwritten >= RL_CHUNK)
        rl_write(log);
    rl_arm_timer(l);
    log->paused = !log->ended && rl_is_behind(log);
    return log->paused;
}

static void add_event(struct kr_runlog *log, enum kr_event_type type, const char *data, size_t len, size_t cap)
{
    struct rl_event *e = NULL;

    if (len <= KR_EVENT_DATA_MAX && rl_make_room(log, sizeof *e + cap) && rl_reserve(log))
        e = malloc(sizeof *e + cap);
    if (!e) {
        rl_lose(log, len);
        return;
    }
    memset(e, 0, sizeof *e);
    e->type = (uint16_t)type;
    e->len = (uint32_t)len;
    e->cap = (uint32_t)cap;
    if (len > 0)
        memcpy(e->data, data, len);
    push_event(log, e);
}

/* Adds to the last event what it can take. Returns how many bytes that were. */
static size_t merge_text(struct kr_runlog *log, enum kr_event_type type, const char *text, size_t len)
{
    struct rl_event *e = log->count ? rl_at(log, log->count - 1) : NULL;
    size_t n, cap;

    if (!e || e->type != type || e->seq <= log->pinned_seq || e->seq <= log->seen_seq ||
        e->offset + e->bytes != log->bytes)
        return 0;
    n = KR_EVENT_TEXT_MAX - e->len < len ? kr_utf8_complete(text, KR_EVENT_TEXT_MAX - e->len) : len;
    if (e->len + n > e->cap) {
        struct rl_event *grown;

        cap = (e->len + n) * 2 < KR_EVENT_TEXT_MAX ? (e->len + n) * 2 : KR_EVENT_TEXT_MAX;
        if (!rl_make_room(log, cap - e->cap) || log->count == 0 || rl_at(log, log->count - 1) != e)
            return 0; /* it was cut itself */
        grown = realloc(e, sizeof *e + cap);
        if (!grown)
            return 0;
        rl_account(log, cap - grown->cap, 0);
        log->unwritten += cap - grown->cap;
        grown->cap = (uint32_t)cap;
        log->events[log->first + log->count - 1] = e = grown;
    }
    memcpy(e->data + e->len, text, n);
    e->len += (uint32_t)n;
    e->bytes += n;
    log->bytes += n;
    return n;
}

int kr_runlog_text(struct kr_runlog *log, enum kr_stream stream, const char *text, size_t len)
{
    enum kr_event_type type = stream == KR_STREAM_STDERR ? KR_EVENT_STDERR : KR_EVENT_STDOUT;
    size_t n;

    if (log->ended || log->scanning || log->failed)
        return -EINVAL;
    for (n = merge_text(log, type, text, len); n < len;) {
        size_t piece = len - n, cap;

        if (piece > KR_EVENT_TEXT_MAX)
            piece = kr_utf8_complete(text + n, KR_EVENT_TEXT_MAX);
        cap = piece < TEXT_FIRST ? TEXT_FIRST : piece;
        add_event(log, type, text + n, piece, cap);
        n += piece;
    }
    return appended(log);
}

int kr_runlog_add(struct kr_runlog *log, enum kr_event_type type, const char *json, size_t len)
{
    if (log->ended || log->scanning || log->failed || type >= KR_EVENT_MAX_ || type == KR_EVENT_STDOUT ||
        type == KR_EVENT_STDERR || type == KR_EVENT_CUT || type == KR_EVENT_END)
        return -EINVAL;
    add_event(log, type, json, len, len);
    return appended(log);
}

static void add_end(struct kr_runlog *log, enum kr_cause cause, const char *json, size_t len)
{
    struct rl_event *e = NULL;

    if (len <= KR_EVENT_DATA_MAX) {
        rl_make_room(log, sizeof *e + len); /* it is taken whatever the answer */
        rl_reserve(log);
        e = malloc(sizeof *e + len);
    }
    if (e) {
        memset(e, 0, sizeof *e);
        e->cap = e->len = (uint32_t)len;
        memcpy(e->data, json, len);
    } else {
        e = log->spare_end;
        log->spare_end = NULL;
        e->cap = END_ROOM;
        e->len =
            (uint32_t)snprintf(e->data, END_ROOM, "{\"cause\":\"%s\",\"truncated\":true}", kr_cause_rows[cause].name);
        log->truncated = true;
    }
    e->type = KR_EVENT_END;
    e->cause = (uint16_t)cause;
    push_event(log, e);
    log->ended = true;
    log->cause = cause;
    log->ended_ms = e->time_ms;
}

void kr_runlog_end(struct kr_runlog *log, enum kr_cause cause, const char *json, size_t len)
{
    if (log->ended || log->scanning || log->failed)
        return;
    add_end(log, cause, json, len);
    appended(log);
}

int kr_runlog_end_packed(struct kr_runlog *log, enum kr_cause cause, const char *json, size_t len, struct kr_buf *ret)
{
    int packed;

    if (log->ended || log->scanning || log->failed)
        return 0;
    add_end(log, cause, json, len);
    packed = rl_pack(log, ret);
    appended(log);
    return packed;
}

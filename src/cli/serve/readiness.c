/* What runs need, tried: the warden answers, the keeper of the shelf answers, the disk has room, the store takes a
 * write.
 *
 * Opened by serve_app.c; asked by /ready and /metrics. Invariants: at most one look is under way and a look begins at
 * most every FRESH_MS, however many ask; no look takes longer than DEADLINE_MS, and what has not answered by then does
 * not work; a part whose last question is still open is not asked again. The disk is touched on the thread pool alone,
 * and the loop never waits. */
#define _GNU_SOURCE 1
#include "readiness.h"
#include "clock.h"
#include "engine.h"
#include "files.h"
#include "log.h"
#include "loop.h"
#include "monitor.h"
#include "store.h"
#include "work.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define FRESH_MS 1000u
#define DEADLINE_MS 2000u

enum part { WARDEN, SHELF, DISK, STORE, PARTS };
static const char *const part_names[PARTS] = {
    [WARDEN] = "warden", [SHELF] = "shelf", [DISK] = "disk", [STORE] = "store"};

/* What the thread reads and writes. */
struct disk_look {
    struct kr_work work;
    char *path, *dir;
    uint64_t free, size;
    int disk, store; /* -errno */
    struct kr_err err;
};

struct kr_readiness {
    struct uv_loop_s *loop;
    struct kr_engine *engine;
    bool ask_shelf;
    struct kr_timer *deadline;
    struct kr_ping_ask ping;
    struct kr_shelf_ask shelf;
    struct disk_look *disk;
    unsigned awaited; /* bits of parts */
    bool looking;
    uint64_t looked_ns;   /* 0: never */
    char why[PARTS][96];  /* "": it works */
    bool told_bad[PARTS]; /* in the log */
    TAILQ_HEAD(, kr_monitor_waiter) waiters;
};

static void set_part(struct kr_readiness *r, enum part part, const char *why)
{
    snprintf(r->why[part], sizeof r->why[part], "%.*s", (int)sizeof r->why[part] - 1, why);
}

/* ---- the end of a look ---- */

static void log_change(struct kr_readiness *r, enum part part)
{
    bool bad = r->why[part][0] != '\0';

    if (bad == r->told_bad[part])
        return;
    r->told_bad[part] = bad;
    if (bad)
        kr_log(KR_LOG_ERROR, "not ready", "what=%s why=\"%s\"", part_names[part], r->why[part]);
    else
        kr_log(KR_LOG_INFO, "ready again", "what=%s", part_names[part]);
}

static void end_look(struct kr_readiness *r)
{
    struct kr_monitor_waiter *w;

    kr_timer_disarm(r->deadline);
    r->looking = false;
    r->looked_ns = kr_clock_ns();
    for (int i = 0; i < PARTS; i++)
        log_change(r, (enum part)i);
    while ((w = TAILQ_FIRST(&r->waiters))) {
        TAILQ_REMOVE(&r->waiters, w, link);
        w->fn(w);
    }
}

/* An answer that comes after the deadline says nothing of this look. */
static void answered(struct kr_readiness *r, enum part part, const char *why)
{
    if (!(r->awaited & 1u << part))
        return;
    set_part(r, part, why);
    r->awaited &= ~(1u << part);
    if (r->awaited == 0)
        end_look(r);
}

static void on_deadline(void *data)
{
    struct kr_readiness *r = data;

    for (int i = 0; i < PARTS; i++)
        if (r->awaited & 1u << i)
            snprintf(r->why[i], sizeof r->why[i], "no answer within %u s", DEADLINE_MS / 1000);
    r->awaited = 0;
    end_look(r);
}

/* ---- questions ---- */

static void on_pong(void *data, const struct kr_err *err)
{
    answered(data, WARDEN, err ? err->msg : "");
}

static void tell_room(char *why, size_t size, uint64_t room, uint64_t of)
{
    uint64_t reserve = kr_files_reserve(of);

    why[0] = '\0';
    if (room < reserve)
        snprintf(why, size, "%llu KiB are free and %llu KiB are kept in reserve", (unsigned long long)room >> 10,
                 (unsigned long long)reserve >> 10);
}

static void on_shelf_usage(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err)
{
    char why[96] = "";

    if (err)
        snprintf(why, sizeof why, "%.90s", err->msg);
    else if (shelved)
        tell_room(why, sizeof why, shelved->room, shelved->size);
    answered(data, SHELF, why);
}

static void look_at_disk(void *data)
{
    struct disk_look *d = data;
    struct statvfs f;

    d->disk = statvfs(d->dir, &f) < 0 ? -errno : 0;
    if (d->disk == 0) {
        d->free = (uint64_t)f.f_bavail * f.f_frsize;
        d->size = (uint64_t)f.f_blocks * f.f_frsize;
    }
    d->store = kr_store_try_write(d->path, d->dir, &d->err);
}

static void free_disk(struct disk_look *d)
{
    if (!d)
        return;
    free(d->path);
    free(d->dir);
    free(d);
}

static void on_disk_dropped(void *data)
{
    free_disk(((struct kr_readiness *)data)->disk);
    free(data);
}

static void on_disk_looked(void *data)
{
    struct kr_readiness *r = data;
    const struct disk_look *d = r->disk;
    char why[96];

    if (d->disk < 0)
        snprintf(why, sizeof why, "%s", strerrordesc_np(-d->disk));
    else
        tell_room(why, sizeof why, d->free, d->size);
    answered(r, DISK, why);
    answered(r, STORE, d->store < 0 ? d->err.msg : "");
}

/* The thread works on r->disk; of `r` itself it reads nothing but that pointer. */
static void run_look(void *data)
{
    look_at_disk(((struct kr_readiness *)data)->disk);
}

static void begin_look(struct kr_readiness *r)
{
    static const struct kr_work_calls calls = {.run = run_look, .done = on_disk_looked, .dropped = on_disk_dropped};
    const struct kr_w_shelf usage = {.op = KR_SHELF_USAGE};
    bool ask_warden = r->ping.id == 0, ask_shelf = r->ask_shelf && r->shelf.id == 0;

    r->looking = true;
    r->awaited = 0;
    kr_timer_arm(r->deadline, DEADLINE_MS);
    if (!kr_work_busy(&r->disk->work)) {
        r->awaited |= 1u << DISK | 1u << STORE;
        kr_work_start(r->loop, &r->disk->work, &calls, r);
    }
    if (ask_warden && kr_engine_ping(r->engine, &r->ping, on_pong, r) >= 0)
        r->awaited |= 1u << WARDEN;
    else if (ask_warden)
        set_part(r, WARDEN, "it takes no questions");
    if (ask_shelf && kr_engine_shelf(r->engine, &usage, &r->shelf, on_shelf_usage, r) >= 0)
        r->awaited |= 1u << SHELF;
    if (r->awaited == 0)
        end_look(r);
}

/* ---- for the server ---- */

bool kr_readiness_refresh(struct kr_readiness *r, struct kr_monitor_waiter *waiter)
{
    if (!r->looking && r->looked_ns != 0 && kr_clock_ns() - r->looked_ns < FRESH_MS * 1000000ull)
        return true;
    if (!r->looking)
        begin_look(r);
    if (!r->looking) /* nothing was left to ask */
        return true;
    if (waiter)
        TAILQ_INSERT_TAIL(&r->waiters, waiter, link);
    return false;
}

void kr_readiness_forget(struct kr_readiness *r, struct kr_monitor_waiter *waiter)
{
    TAILQ_REMOVE(&r->waiters, waiter, link);
}

void kr_readiness_tell(const struct kr_readiness *r, struct kr_monitor_state *state)
{
    for (int i = 0; i < PARTS; i++)
        if (r->why[i][0])
            kr_monitor_miss(state, part_names[i], r->why[i]);
}

int kr_readiness_new(struct uv_loop_s *loop, struct kr_engine *engine, const struct kr_store *store, bool ask_shelf,
                     struct kr_readiness **ret_readiness)
{
    struct kr_readiness *r = calloc(1, sizeof *r);

    if (!r)
        return -ENOMEM;
    r->loop = loop;
    r->engine = engine;
    r->ask_shelf = ask_shelf;
    TAILQ_INIT(&r->waiters);
    r->disk = calloc(1, sizeof *r->disk);
    if (r->disk) {
        r->disk->path = strdup(kr_store_path(store));
        r->disk->dir = strdup(kr_store_dir(store));
    }
    if (!r->disk || !r->disk->path || !r->disk->dir || kr_timer_new(loop, on_deadline, r, &r->deadline) < 0) {
        free_disk(r->disk);
        free(r);
        return -ENOMEM;
    }
    *ret_readiness = r;
    return 0;
}

void kr_readiness_close(struct kr_readiness *r)
{
    if (!r)
        return;
    kr_timer_close(r->deadline);
    kr_engine_forget_ping(r->engine, &r->ping);
    kr_engine_forget_shelf(r->engine, &r->shelf);
    if (!kr_work_drop(&r->disk->work)) {
        free_disk(r->disk);
        free(r);
    }
}

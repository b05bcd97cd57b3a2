/* Keeps the gauges of cells (src/view/gauges.h) true while runs last. Called from the loop by warden.c, and by birth.c
 * and cell.c when a cell is built, handed over, or changes its pace.
 *
 * Theory: a cell uses nothing between two runs, so its gauges need not move then; the engine tells when a run begins
 * after a pause and when a session has been idle for a second (W_PACE). At the one the clock in them is set, from then
 * on they are written twice a second, and once more at the other. The files of an idle cell hold what was true when it
 * came to rest.
 *
 * Invariants: no gauge is read here, and nothing of a cell's own is: all figures are the kernel's, of the cell's
 * cgroup. A gauge that cannot be written costs no run. Nothing is due while no cell runs. */
#include "clock.h"
#include "gauges.h"
#include "log.h"
#include "warden_internal.h"
#include <time.h>
#include <unistd.h>

#define PERIOD_MS 500u /* a reader must not find more than a second, also when the loop is busy */
#define SOON_MS 10u    /* for the first look at what a run uses: most runs are over by then, and pay for none */
#define BATCH 16u      /* cells at a time: with hundreds of runs, requests are answered in between */
#define MILLI 1000u

static const uint32_t spans_ms[3] = {60000, 300000, 900000};

unsigned kr_gauge_cpus_shown(const struct kr_warden *w)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t most = w->config->ceilings.cpu_milli;
    return kr_gauge_cpus(most > 0 ? most : (uint64_t)(online > 0 ? online : 1) * MILLI);
}

static uint64_t ms_of(clockid_t clock)
{
    struct timespec t = {0};
    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * MILLI + (uint64_t)t.tv_nsec / 1000000u;
}

uint64_t kr_gauge_born(void)
{
    return ms_of(CLOCK_BOOTTIME) / MILLI;
}

/* A load is the processors that were in use, each span a little nearer to what is now. */
static void average(struct kr_cell *c, uint64_t uptime_ms, uint64_t cpu_ns)
{
    uint32_t *load = c->gauge.facts.load_milli;
    uint64_t ms = uptime_ms - c->gauge.at_ms, use;
    if (ms == 0 || cpu_ns < c->gauge.cpu_ns)
        return;
    use = (cpu_ns - c->gauge.cpu_ns) / MILLI / ms; /* thousandths of a processor */
    for (int i = 0; i < 3; i++) {
        int64_t step = ((int64_t)use - load[i]) * (int64_t)ms / (int64_t)(ms + spans_ms[i]);
        load[i] = (uint32_t)(load[i] + step);
    }
    c->gauge.at_ms = uptime_ms;
    c->gauge.cpu_ns = cpu_ns;
}

/* The part that needs no look at the cgroup. */
static void set_clock(struct kr_cell *c)
{
    struct kr_gauge_facts *f = &c->gauge.facts;
    f->uptime_ms = ms_of(CLOCK_BOOTTIME) - c->family->born * MILLI;
    f->boot = (ms_of(CLOCK_REALTIME) - f->uptime_ms) / MILLI;
    f->cpus = kr_gauge_cpus(c->limits.cpu_milli);
    f->memory = c->limits.memory;
    f->tasks = f->tasks > 0 ? f->tasks : 1;
}

static void set_use(struct kr_cell *c)
{
    struct kr_gauge_facts *f = &c->gauge.facts;
    struct kr_group_now now;
    kr_cgroup_now(&c->family->w->cgroups, &c->group, &now);
    f->tasks = (uint32_t)(now.tasks > 0 ? now.tasks : 1);
    f->user_ns = now.user;
    f->system_ns = now.system;
    f->used = now.memory;
    f->cached = now.cached;
    f->shared = now.shared;
    f->active = now.active;
    f->inactive = now.inactive;
    average(c, f->uptime_ms, now.cpu_ns);
}

static void write_gauges(struct kr_cell *c, unsigned which, int again)
{
    int r = kr_gauges_write(c->family->gauges, c->index, which, again, &c->gauge.facts);
    if (r < 0)
        kr_log(KR_LOG_WARN, "gauges of a cell not written, ignoring", "errno=%d", -r);
}

int kr_cell_gauge_new(struct kr_cell *c, struct kr_err *err)
{
    int r;
    if (c->family->gauges < 0)
        return 0;
    kr_limits_default(&c->limits); /* until it is asked for */
    set_clock(c);
    r = kr_gauges_write(c->family->gauges, c->index, KR_GAUGES_ALL, 1, &c->gauge.facts);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "write the gauges of a cell") : 0;
}

/* Without the counters of cgroups there is nothing to follow, and no word of when a cell rests. */
static int is_followed(const struct kr_cell *c)
{
    return c->state == KR_CELL_STARTED && c->group.pace == KR_PACE_RUN && (c->layers & KR_LAYER_GAUGES);
}

static void follow(struct kr_cell *c, unsigned ms)
{
    struct kr_warden *w = c->family->w;
    c->gauge.due = kr_clock_after_ms(ms);
    if (!c->gauge.followed)
        TAILQ_INSERT_TAIL(&w->followed, c, gauge.link);
    c->gauge.followed = 1;
    if (w->gauges_at == 0 || c->gauge.due < w->gauges_at)
        w->gauges_at = c->gauge.due;
}

void kr_cell_gauge_start(struct kr_cell *c)
{
    struct kr_gauge_facts built = c->gauge.facts;
    int usual;
    if (!c->gauge.shown)
        return;
    set_clock(c);
    usual = c->gauge.facts.cpus == built.cpus && c->gauge.facts.memory == built.memory;
    write_gauges(c, usual ? 1u << KR_GAUGE_UPTIME : KR_GAUGES_ALL, c->gauge.facts.cpus != built.cpus);
}

void kr_cell_gauge_started(struct kr_cell *c)
{
    if (c->gauge.shown && is_followed(c))
        follow(c, SOON_MS);
}

void kr_cell_gauge_pace(struct kr_cell *c)
{
    if (!c->gauge.shown)
        return;
    set_clock(c);
    if (is_followed(c))
        follow(c, SOON_MS);
    else if (c->layers & KR_LAYER_GAUGES)
        set_use(c); /* for the last time before it rests */
    write_gauges(c, KR_GAUGES_ALL, 0);
}

void kr_cell_gauge_forget(struct kr_cell *c)
{
    if (c->gauge.followed)
        TAILQ_REMOVE(&c->family->w->followed, c, gauge.link);
    c->gauge.followed = 0;
}

void kr_gauges_tend(struct kr_warden *w)
{
    struct kr_cell *c, *next;
    uint64_t now = kr_clock_ns();
    unsigned room = BATCH;
    if (w->gauges_at == 0 || now < w->gauges_at)
        return;
    w->gauges_at = 0;
    for (c = TAILQ_FIRST(&w->followed); c; c = next) {
        next = TAILQ_NEXT(c, gauge.link);
        if (!is_followed(c)) {
            kr_cell_gauge_forget(c);
            continue;
        }
        if (now >= c->gauge.due && room > 0) {
            room--;
            set_clock(c);
            set_use(c);
            write_gauges(c, KR_GAUGES_ALL, 0);
            c->gauge.due = now + PERIOD_MS * 1000000ull;
        }
        if (w->gauges_at == 0 || c->gauge.due < w->gauges_at)
            w->gauges_at = c->gauge.due;
    }
}

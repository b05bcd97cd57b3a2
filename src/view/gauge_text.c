/* What the gauges of a cell say: pure text from facts, in the formats of proc(5).
 *
 * Called by gauges.c for the warden. Invariant: every line whose numbers change has a fixed width, so the length of
 * a text depends on the number of processors alone. */
#include "gauges.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HZ 100u /* USER_HZ, in which proc(5) counts, on every machine */
#define NS_PER_TICK (1000000000u / HZ)
#define WIDTH 48u     /* of a line that holds small numbers */
#define CPU_WIDTH 80u /* of one with the times of a processor */

struct text {
    char *buf;
    size_t len;
};

static void __attribute__((format(printf, 2, 3))) put(struct text *t, const char *format, ...)
{
    va_list ap;
    int n;
    va_start(ap, format);
    n = vsnprintf(t->buf + t->len, KR_GAUGE_TEXT_MAX - t->len, format, ap);
    va_end(ap);
    if (n > 0)
        t->len += (size_t)n < KR_GAUGE_TEXT_MAX - t->len ? (size_t)n : KR_GAUGE_TEXT_MAX - t->len - 1;
}

/* Ends a line at a fixed width: blanks behind the last field disturb no reader, in front of the first they would. */
static void end_line(struct text *t, size_t start, size_t width)
{
    size_t fill = t->len < start + width ? start + width - t->len : 0;
    if (fill + 1 >= KR_GAUGE_TEXT_MAX - t->len)
        return;
    memset(t->buf + t->len, ' ', fill);
    t->len += fill;
    t->buf[t->len++] = '\n';
    t->buf[t->len] = '\0';
}

/* The cell's time is shared out evenly: which of the machine's processors it ran on is the machine's business. */
static void put_cpu(struct text *t, const char *name, const struct kr_gauge_facts *f, uint64_t share)
{
    uint64_t user = f->user_ns / NS_PER_TICK / share, system = f->system_ns / NS_PER_TICK / share;
    uint64_t all = f->uptime_ms / (1000 / HZ) * (share == 1 ? f->cpus : 1);
    uint64_t idle = all > user + system ? all - user - system : 0;
    size_t start = t->len;
    put(t, "%s %" PRIu64 " 0 %" PRIu64 " %" PRIu64 " 0 0 0 0 0 0", name, user, system, idle);
    end_line(t, start, CPU_WIDTH);
}

static void put_stat(struct text *t, const struct kr_gauge_facts *f)
{
    char name[16];
    size_t start;
    put_cpu(t, "cpu ", f, 1);
    for (uint32_t i = 0; i < f->cpus; i++) {
        snprintf(name, sizeof name, "cpu%" PRIu32, i);
        put_cpu(t, name, f, f->cpus);
    }
    put(t, "intr 0\nctxt 0\nbtime %" PRIu64 "\n", f->boot);
    start = t->len;
    put(t, "processes %" PRIu32, f->tasks);
    end_line(t, start, WIDTH);
    put(t, "procs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n");
}

static void put_kib(struct text *t, const char *name, uint64_t bytes)
{
    put(t, "%-15s %12" PRIu64 " kB\n", name, bytes / 1024);
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static void put_meminfo(struct text *t, const struct kr_gauge_facts *f)
{
    uint64_t used = f->used < f->memory ? f->used : f->memory, free = f->memory - used;
    uint64_t cached = f->cached < used ? f->cached : used;
    uint64_t droppable = f->active + f->inactive < cached ? f->active + f->inactive : cached;
    put_kib(t, "MemTotal:", f->memory);
    put_kib(t, "MemFree:", free);
    put_kib(t, "MemAvailable:", free + droppable);
    put_kib(t, "Buffers:", 0);
    put_kib(t, "Cached:", cached);
    put_kib(t, "SwapCached:", 0);
    put_kib(t, "Active:", less(used, f->inactive));
    put_kib(t, "Inactive:", f->inactive);
    put_kib(t, "SwapTotal:", 0);
    put_kib(t, "SwapFree:", 0);
    put_kib(t, "Dirty:", 0);
    put_kib(t, "Writeback:", 0);
    put_kib(t, "AnonPages:", less(used, cached));
    put_kib(t, "Mapped:", 0);
    put_kib(t, "Shmem:", f->shared);
    put_kib(t, "Slab:", 0);
    put_kib(t, "SReclaimable:", 0);
    put_kib(t, "SUnreclaim:", 0);
    put_kib(t, "CommitLimit:", f->memory);
    put_kib(t, "Committed_AS:", less(used, cached));
    put_kib(t, "Hugepagesize:", 2u << 20);
}

static void put_uptime(struct text *t, const struct kr_gauge_facts *f)
{
    uint64_t used_ms = (f->user_ns + f->system_ns) / 1000000, all_ms = f->uptime_ms * f->cpus;
    uint64_t idle_ms = all_ms > used_ms ? all_ms - used_ms : 0;
    put(t, "%" PRIu64 ".%02u %" PRIu64 ".%02u", f->uptime_ms / 1000, (unsigned)(f->uptime_ms % 1000 / 10),
        idle_ms / 1000, (unsigned)(idle_ms % 1000 / 10));
    end_line(t, 0, WIDTH);
}

static void put_loadavg(struct text *t, const struct kr_gauge_facts *f)
{
    for (int i = 0; i < 3; i++)
        put(t, "%u.%02u ", f->load_milli[i] / 1000, f->load_milli[i] % 1000 / 10);
    put(t, "1/%" PRIu32 " %" PRIu32, f->tasks, f->tasks);
    end_line(t, 0, WIDTH);
}

size_t kr_gauge_text(enum kr_gauge which, const struct kr_gauge_facts *f, char buf[KR_GAUGE_TEXT_MAX])
{
    struct text t = {.buf = buf};
    switch (which) {
    case KR_GAUGE_STAT:
        put_stat(&t, f);
        break;
    case KR_GAUGE_MEMINFO:
        put_meminfo(&t, f);
        break;
    case KR_GAUGE_UPTIME:
        put_uptime(&t, f);
        break;
    case KR_GAUGE_LOADAVG:
        put_loadavg(&t, f);
        break;
    case KR_GAUGE_MAX_:
        break;
    }
    return t.len;
}

unsigned kr_gauge_cpus(uint64_t cpu_milli)
{
    uint64_t cpus = (cpu_milli + 999) / 1000;
    return cpus < 1 ? 1 : cpus > KR_GAUGE_CPUS_MAX ? KR_GAUGE_CPUS_MAX : (unsigned)cpus;
}

/* The sweep: what no environment refers to leaves the store of wheels, by time.
 *
 * Called by install.c. Invariant: one sweep at a time, on the thread pool; a store without a bound is only cleared of
 * what killed processes have left. */
#include "install_internal.h"
#include "log.h"
#include "loop.h"
#include "metrics.h"
#include <stdlib.h>

#define FIRST_MS (60u * 1000)
#define SOON_MS 1000u /* after the bound has changed */
#define EVERY_MS (15u * 60 * 1000)
#define GRACE_S 3600u

struct kr_install_sweeper {
    struct kr_install *in;
    struct kr_timer *timer;
    struct kr_work work;
    struct kr_package_sweep sweep;
    bool is_running, again;
    int shelf;                         /* the box's */
    struct kr_package_store_size size; /* afterwards */
    uint64_t freed;
    int result;
    struct kr_err err;
};

static void run_sweep(void *data)
{
    struct kr_install_sweeper *s = data;

    s->freed = 0;
    s->result = kr_package_store_sweep(s->in->config.packages, &s->sweep, &s->freed, &s->err);
    if (s->result >= 0 && kr_package_store_measure(s->in->config.packages, &s->size) < 0)
        s->size = (struct kr_package_store_size){0};
}

static void on_swept(void *data)
{
    struct kr_install_sweeper *s = data;

    s->in->works--;
    s->is_running = false;
    if (s->result < 0)
        kr_log(KR_LOG_WARN, "sweep of the store of packages failed, ignoring", "error=\"%s\"", s->err.msg);
    else if (s->freed > 0)
        kr_log(KR_LOG_INFO, "store of packages swept", "bytes=%llu", (unsigned long long)s->freed);
    kr_metrics_set(s->in->config.metrics, KR_M_PACKAGE_STORE_BYTES, KR_AT_NONE, (double)s->size.bytes);
    kr_metrics_set(s->in->config.metrics, KR_M_PACKAGE_STORE_WHEELS, KR_AT_NONE, (double)s->size.folders);
    if (s->timer)
        kr_timer_arm(s->timer, s->again ? SOON_MS : EVERY_MS);
    s->again = false;
}

static void on_sweep_time(void *data)
{
    static const struct kr_work_calls calls = {.run = run_sweep, .done = on_swept, .dropped = on_swept};
    struct kr_install_sweeper *s = data;
    struct kr_install *in = s->in;

    s->shelf = kr_box_shelf(in->config.box);
    s->sweep = (struct kr_package_sweep){.bytes_max = in->config.store_max ? in->config.store_max : UINT64_MAX,
                                         .grace_s = GRACE_S,
                                         .roots = &s->shelf,
                                         .root_count = 1};
    if (in->config.timeout_ms / 1000 > GRACE_S)
        s->sweep.grace_s = (uint32_t)(in->config.timeout_ms / 1000);
    in->works++;
    s->is_running = true;
    kr_work_start(in->loop, &s->work, &calls, s);
}

int kr_install_sweep_open(struct kr_install *in, struct kr_err *err)
{
    if (!in->config.packages)
        return 0;
    in->sweeper = calloc(1, sizeof *in->sweeper);
    if (!in->sweeper || kr_timer_new(in->loop, on_sweep_time, in->sweeper, &in->sweeper->timer) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the sweep of packages");
    in->sweeper->in = in;
    kr_timer_arm(in->sweeper->timer, FIRST_MS);
    return 0;
}

void kr_install_sweep_soon(struct kr_install *in)
{
    struct kr_install_sweeper *s = in->sweeper;

    if (!s || !s->timer)
        return;
    if (s->is_running)
        s->again = true;
    else
        kr_timer_arm(s->timer, SOON_MS);
}

void kr_install_sweep_stop(struct kr_install *in)
{
    if (!in->sweeper)
        return;
    kr_timer_close(in->sweeper->timer);
    in->sweeper->timer = NULL;
}

void kr_install_sweep_close(struct kr_install *in)
{
    free(in->sweeper);
    in->sweeper = NULL;
}

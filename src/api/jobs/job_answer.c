/* The answer of a request that has started a job: its log as it happens, or the job once it has ended or `wait` is
 * over.
 *
 * Called by the routes that start jobs. Invariants: the exchange is answered once; a client that leaves leaves the job
 * as it is. */
#include "buf.h"
#include "clock.h"
#include "job_routes.h"
#include "json.h"
#include "loop.h"
#include "reply.h"
#include "run_follow.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job_wait {
    struct kr_job_watch watch;
    struct kr_api *api;
    struct kr_http_ex *ex;
    struct kr_job *job;
    struct kr_timer *timer;
    uint64_t began_ns;
};

static void reply_job(struct kr_api *api, struct kr_http_ex *ex, const struct kr_store_job *row)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    kr_json_init(&j, &buf);
    kr_api_job_json(api, &j, row, true);
    kr_api_reply(ex, row->ended ? 200 : 202, &buf);
}

/* The key of a client that waited long may have ended meanwhile: such a client gets the refusal. */
static void answer_waiter(struct job_wait *w, const struct kr_store_job *row)
{
    bool is_short = kr_clock_ns() - w->began_ns < KR_AUTH_LOOK_MS * UINT64_C(1000000);
    struct kr_api_who who;

    if (is_short || kr_auth_still(w->api->auth, w->ex, NULL) || kr_auth_caller(w->api->auth, w->ex, &who))
        reply_job(w->api, w->ex, row);
    kr_timer_close(w->timer);
    free(w);
}

static void on_waited_end(struct kr_job_watch *watch, const struct kr_store_job *row, const struct kr_err *err)
{
    struct job_wait *w = (struct job_wait *)watch; /* its first member */

    (void)err;
    answer_waiter(w, row);
}

static void on_wait_over(void *data)
{
    struct job_wait *w = data;

    kr_job_unwatch(&w->watch);
    answer_waiter(w, kr_job_row(w->job));
}

static void on_waiter_gone(void *data, struct kr_http_ex *ex)
{
    struct job_wait *w = data;

    (void)ex;
    kr_job_unwatch(&w->watch);
    kr_timer_close(w->timer);
    free(w);
}

static int wait_for(struct kr_api *api, struct kr_http_ex *ex, struct kr_job *job, uint64_t wait_ms)
{
    static const struct kr_http_calls calls = {.on_gone = on_waiter_gone};
    struct job_wait *w = calloc(1, sizeof *w);

    if (!w || kr_timer_new(api->loop, on_wait_over, w, &w->timer) < 0) {
        free(w);
        return -ENOMEM;
    }
    w->watch.on_end = on_waited_end;
    w->api = api;
    w->ex = ex;
    w->job = job;
    w->began_ns = kr_clock_ns();
    kr_job_watch(job, &w->watch);
    kr_timer_arm(w->timer, wait_ms);
    kr_http_defer(ex, &calls, w);
    return 0;
}

static bool wants_lines(const struct kr_http_ex *ex)
{
    const char *accept = kr_http_header(ex, "Accept");

    return accept && (strstr(accept, "application/x-ndjson") || strstr(accept, "text/event-stream"));
}

void kr_api_job_answer(struct kr_api *api, struct kr_http_ex *ex, struct kr_job *job, uint64_t wait_ms)
{
    const struct kr_store_job *row = kr_job_row(job);
    char location[64];
    struct kr_runlog *log;

    snprintf(location, sizeof location, "/api/v1/jobs/%s", row->id);
    kr_http_set_header(ex, "X-Job-Id", row->id);
    kr_http_set_header(ex, "Location", location); /* without memory: without it */
    if (wants_lines(ex) && kr_jobs_open_log(api->jobs, row, &log) == 0) {
        kr_api_follow(api, ex, log, NULL, 0, kr_api_form_of(ex, false));
        kr_runlog_unref(log);
    } else if (!wait_ms || wait_for(api, ex, job, wait_ms) < 0) {
        reply_job(api, ex, row);
    }
}

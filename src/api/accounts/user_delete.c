/* DELETE /api/v1/users/{user_id}: a user goes with keys, logins, sandboxes, files and runs. A handler of the route
 * table, and the job kind that does the work.
 *
 * It takes a while (sessions end, thousands of runs are deleted some at a time), so it is a job in steps of a timer,
 * which goes on when the client has left. Invariant: the user is disabled before anything else happens; a user that
 * was half deleted when krait ended is disabled, and the job is continued by the next start. The folders of files are
 * removed by the box, which finds them among the doomed. */
#include "accounts.h"
#include "job.h"
#include "log.h"
#include "loop.h"
#include "reply.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEP_CALLS 4u     /* of kr_store_user_delete(): about 1 ms each */
#define SESSION_WAITS 100 /* of 50 ms, for sessions to end */

struct deletion {
    struct kr_job *job;
    struct kr_api *api;
    struct kr_timer *timer;
    unsigned waits;
    uint64_t runs; /* deleted by this process */
};

/* A request that waits for the job's end. */
struct delete_request {
    struct kr_job_watch watch;
    struct kr_http_ex *ex;
};

/* clang-format off */
const struct kr_api_doc kr_users_delete_doc = {
    .id = "delete_user", .tag = "users", .summary = "Delete a user with all that is theirs", .needs = KR_RIGHT_ADMIN,
    .description = "Ends the user's sessions and deletes keys, logins, sandboxes with their files, and runs. The "
                   "audit log keeps its rows.",
    .params = (const struct kr_api_param[]){{ "user_id", "A user's id.", "7zzzzzzzzzzzzzzzzzzzzzzzzz" }, { 0 }},
    .responses = (const struct kr_api_response[]){{.status = 204, .help = "Gone."}, {0}},
};
/* clang-format on */

/* ---- the job ---- */

static void free_deletion(struct kr_job *job)
{
    struct deletion *d = kr_job_data(job);

    kr_timer_close(d->timer);
    free(d);
}

static void on_run_gone(void *data, const char *run)
{
    struct deletion *d = data;

    d->runs++;
    kr_runlogs_delete(kr_box_runlogs(d->api->box), run); /* -ENOENT: the run has no log any more */
}

static void finish_deletion(struct deletion *d, const struct kr_err *err)
{
    const struct kr_store_job *row = kr_job_row(d->job);
    const struct kr_caller by = {.user = row->owner, .address = row->address, .request = row->request};
    struct kr_job *job = d->job;

    kr_auth_forget(d->api->auth);
    kr_box_audit(d->api->box, &by, "user.delete", row->subject, err ? "failed" : "ok", NULL);
    if (err)
        kr_log(KR_LOG_ERROR, "deletion of a user failed", "user=%s error=\"%s\"", row->subject, err->msg);
    free_deletion(job);
    kr_job_end(job, err ? KR_CAUSE_EXCEPTION : KR_CAUSE_OK, err);
}

static void count_session(void *data, const struct kr_box_session_info *info)
{
    (void)info;
    ++*(unsigned *)data;
}

static void on_step(void *data)
{
    struct deletion *d = data;
    const struct kr_store_job *row = kr_job_row(d->job);
    const struct kr_caller them = {.user = row->subject, .rights = KR_RIGHT_ALL, .address = "", .request = ""};
    unsigned sessions = 0;
    struct kr_err err;
    int r = 1;

    kr_box_sessions(d->api->box, &them, NULL, count_session, &sessions);
    if (sessions > 0 && d->waits++ < SESSION_WAITS) {
        kr_timer_arm(d->timer, 50);
        return;
    }
    for (unsigned i = 0; i < STEP_CALLS && r == 1; i++)
        r = kr_store_user_delete(d->api->store, row->subject, on_run_gone, d, &err);
    if (r == -ENOENT && row->attempt > 1)
        r = 0; /* the process before was killed after its last step */
    kr_job_progress(d->job, d->runs, 0, "runs deleted");
    if (r == 1)
        kr_timer_arm(d->timer, 1);
    else
        finish_deletion(d, r < 0 ? &err : NULL);
}

static int start_deletion(struct kr_job *job, void *app, struct kr_err *err)
{
    struct kr_api *api = app;
    struct deletion *d = calloc(1, sizeof *d);

    if (!d || kr_timer_new(api->loop, on_step, d, &d->timer) < 0) {
        free(d);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "deleting a user");
    }
    d->job = job;
    d->api = api;
    kr_job_set_data(job, d);
    kr_timer_arm(d->timer, 1);
    return 0;
}

const struct kr_job_kind kr_users_delete_kind = {
    .name = "user.delete",
    .help = "Deletes a user with keys, logins, sandboxes, files and runs.",
    .continues = true,
    .start = start_deletion,
    .close = free_deletion,
};

/* ---- the request ---- */

static void on_deleted(struct kr_job_watch *watch, const struct kr_store_job *row, const struct kr_err *err)
{
    struct delete_request *q = (struct delete_request *)watch;

    (void)row;
    if (err)
        kr_api_fail(q->ex, err);
    else
        kr_api_reply_nothing(q->ex);
    free(q);
}

static void on_delete_client_gone(void *data, struct kr_http_ex *ex)
{
    struct delete_request *q = data;

    (void)ex;
    kr_job_unwatch(&q->watch);
    free(q);
}

static int begin_deletion(struct kr_api *api, struct kr_http_ex *ex, const struct kr_api_who *who, struct kr_err *err)
{
    static const struct kr_http_calls calls = {.on_gone = on_delete_client_gone};
    const struct kr_job_spec spec = {.kind = kr_users_delete_kind.name,
                                     .owner = who->user,
                                     .subject = kr_http_param(ex, "user_id"),
                                     .address = who->address,
                                     .request = who->caller.request};
    struct delete_request *q = calloc(1, sizeof *q);
    struct kr_job *job;
    int r;

    if (!q)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "deleting a user");
    r = kr_job_start(api->jobs, &spec, &job, err);
    if (r < 0) {
        free(q);
        return r;
    }
    q->ex = ex;
    q->watch.on_end = on_deleted;
    kr_job_watch(job, &q->watch);
    kr_http_defer(ex, &calls, q);
    return 0;
}

void kr_users_delete(struct kr_http_ex *ex, void *app)
{
    const char *id = kr_http_param(ex, "user_id");
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;
    int r;

    if (!kr_api_caller(api, ex, &who))
        return;
    if (strcmp(who.user, id) == 0) {
        kr_api_fail_with(ex, KR_ERR_CONFLICT, "users cannot delete themselves: another administrator can");
        return;
    }
    r = kr_store_user_set_disabled(api->store, id, kr_store_now(), &err);
    if (r >= 0) {
        kr_auth_forget(api->auth);
        kr_accounts_end_work(api, id, &who);
        r = begin_deletion(api, ex, &who, &err);
    }
    if (r < 0)
        kr_accounts_fail(ex, &err);
}

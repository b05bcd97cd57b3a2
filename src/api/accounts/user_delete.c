/* DELETE /api/v1/users/{user}: a user goes with keys, logins, sandboxes, files and runs. Handler of the route table.
 *
 * It takes a while (sessions end, thousands of runs are deleted some at a time), so it goes on in steps by a timer, also
 * when whoever asked has left. Invariant: the user is disabled before anything else happens; one that was half deleted when
 * krait ended is a disabled user, and deleting can be asked for again. The folders of files are removed by the box, which
 * finds them among the doomed. */
#include "accounts.h"
#include "log.h"
#include "loop.h"
#include "reply.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_CALLS 4u     /* of kr_store_user_delete(): about 1 ms each */
#define SESSION_WAITS 100 /* of 50 ms, for sessions to end */

struct kr_deletion {
    LIST_ENTRY(kr_deletion) link;
    struct kr_api *api;
    struct kr_http_ex *ex; /* NULL: the peer has left */
    struct kr_timer *timer;
    unsigned waits;
    char user[KR_STORE_ID_ROOM];
    char by[KR_STORE_ID_ROOM], address[KR_HTTP_PEER_MAX], request[KR_HTTP_REQUEST_ID_MAX + 1];
};

/* clang-format off */
const struct kr_api_doc kr_users_delete_doc = {
    .id = "delete_user", .tag = "users", .summary = "Delete a user with all that is theirs", .needs = KR_RIGHT_ADMIN,
    .description = "Ends the user's sessions and deletes keys, logins, sandboxes with their files, and runs. The audit log keeps its rows.",
    .params = (const struct kr_api_param[]){{ "user", "A user's id.", "7zzzzzzzzzzzzzzzzzzzzzzzzz" }, { 0 }},
    .responses = (const struct kr_api_response[]){{.status = 204, .help = "Gone."}, {0}},
};
/* clang-format on */

static void end(struct kr_deletion *d)
{
    LIST_REMOVE(d, link);
    kr_timer_close(d->timer);
    free(d);
}

void kr_users_stop_deletions(struct kr_accounts *a)
{
    while (!LIST_EMPTY(&a->deletions))
        end(LIST_FIRST(&a->deletions));
}

static void on_run_gone(void *data, const char *run)
{
    struct kr_deletion *d = data;

    kr_runlogs_delete(kr_box_runlogs(d->api->box), run); /* a run may have none any more */
}

static void finish(struct kr_deletion *d, const struct kr_err *err)
{
    const struct kr_caller by = {.user = d->by, .address = d->address, .request = d->request};

    kr_auth_forget(d->api->auth);
    kr_box_audit(d->api->box, &by, "user.delete", d->user, err ? "failed" : "ok", NULL);
    if (err && !d->ex)
        kr_log(KR_LOG_ERROR, "a user cannot be deleted", "user=%s error=\"%s\"", d->user, err->msg);
    if (d->ex && err)
        kr_api_fail(d->ex, err);
    else if (d->ex)
        kr_api_reply_nothing(d->ex);
    end(d);
}

static void count_session(void *data, const struct kr_box_session_info *info)
{
    (void)info;
    ++*(unsigned *)data;
}

static void on_step(void *data)
{
    struct kr_deletion *d = data;
    const struct kr_caller them = {.user = d->user, .rights = KR_RIGHT_ALL, .address = "", .request = ""};
    unsigned sessions = 0;
    struct kr_err err;
    int r = 1;

    kr_box_sessions(d->api->box, &them, NULL, count_session, &sessions);
    if (sessions > 0 && d->waits++ < SESSION_WAITS) {
        kr_timer_arm(d->timer, 50);
        return;
    }
    for (unsigned i = 0; i < STEP_CALLS && r == 1; i++)
        r = kr_store_user_delete(d->api->store, d->user, on_run_gone, d, &err);
    if (r >= 0 && kr_box_commit(d->api->box, &err) < 0)
        r = -EIO;
    if (r == 1)
        kr_timer_arm(d->timer, 1);
    else
        finish(d, r < 0 ? &err : NULL);
}

static void on_gone(void *data, struct kr_http_ex *ex)
{
    struct kr_deletion *d = data;

    (void)ex;
    d->ex = NULL;
}

static int begin(struct kr_api *api, struct kr_http_ex *ex, const struct kr_api_who *who, struct kr_err *err)
{
    static const struct kr_http_calls calls = {.on_gone = on_gone};
    struct kr_deletion *d = calloc(1, sizeof *d);

    if (!d || kr_timer_new(api->loop, on_step, d, &d->timer) < 0) {
        free(d);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "deleting a user");
    }
    d->api = api;
    d->ex = ex;
    snprintf(d->user, sizeof d->user, "%s", kr_http_param(ex, "user"));
    snprintf(d->by, sizeof d->by, "%s", who->user);
    snprintf(d->address, sizeof d->address, "%s", who->address);
    snprintf(d->request, sizeof d->request, "%s", who->caller.request);
    LIST_INSERT_HEAD(&((struct kr_accounts *)api->account)->deletions, d, link);
    kr_http_defer(ex, &calls, d);
    kr_timer_arm(d->timer, 1);
    return 0;
}

void kr_users_delete(struct kr_http_ex *ex, void *app)
{
    const char *id = kr_http_param(ex, "user");
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;
    int r;

    if (!kr_api_caller(api, ex, &who))
        return;
    if (strcmp(who.user, id) == 0) {
        kr_api_fail_with(ex, KR_ERR_CONFLICT, "nobody deletes themselves: another administrator can");
        return;
    }
    r = kr_store_user_set_disabled(api->store, id, kr_store_now(), &err);
    if (r >= 0)
        r = kr_box_commit(api->box, &err);
    if (r >= 0) {
        kr_auth_forget(api->auth);
        kr_accounts_end_work(api, id, &who);
        r = begin(api, ex, &who, &err);
    }
    if (r < 0)
        kr_accounts_fail(ex, &err);
}

/* What the resources about accounts share: their state, answers that wait for a password, small JSON.
 *
 * Called by user_routes.c, key_routes.c, audit_routes.c, login_routes.c, mcp_sandbox_accounts.c. Invariant: an
 * exchange that waits has one struct kr_wait, which ends with the answer or with the peer, whichever comes first. */
#include "accounts.h"
#include "job.h"
#include "json.h"
#include "log.h"
#include "reply.h"
#include "store_run.h"
#include "throttle.h"
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)

const char *const kr_account_right_words[] = {"read", "run", "admin", NULL};

/* ---- state ---- */

static void free_accounts(struct kr_accounts *a)
{
    kr_passwords_close(a->passwords);
    kr_throttle_free(a->addresses);
    kr_throttle_free(a->names);
    kr_throttle_free(a->known);
    kr_throttle_free(a->registrations);
    free(a);
}

int kr_accounts_new(struct kr_api *api, struct kr_err *err)
{
    struct kr_accounts *a = calloc(1, sizeof *a);

    if (!a)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "accounts");
    if (kr_passwords_new(api->loop, &a->passwords) < 0 || kr_throttle_new(10, 6 * SECOND, &a->addresses) < 0 ||
        kr_throttle_new(50, 10 * SECOND, &a->names) < 0 || kr_throttle_new(1, 86400 * SECOND, &a->known) < 0 ||
        kr_throttle_new(10, 60 * SECOND, &a->registrations) < 0) {
        free_accounts(a);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "accounts");
    }
    if (kr_jobs_add_kind(api->jobs, &kr_users_delete_kind, api) < 0) {
        free_accounts(a);
        return kr_err_set(err, KR_ERR_INTERNAL, EEXIST, "kinds of jobs");
    }
    api->accounts = a;
    return 0;
}

void kr_accounts_close(struct kr_api *api)
{
    if (api->accounts)
        free_accounts(api->accounts);
    api->accounts = NULL;
}

/* ---- waiting for a password ---- */

void kr_wait_drop(struct kr_wait *w)
{
    sodium_memzero(w, w->size);
    free(w);
}

static void on_account_client_gone(void *data, struct kr_http_ex *ex)
{
    struct kr_wait *w = data;

    (void)ex;
    kr_password_forget(w->job);
    kr_wait_drop(w);
}

static void on_done(void *data, int r, const char *hash)
{
    struct kr_wait *w = data;

    w->job = NULL;
    w->then(w, r, hash);
    kr_wait_drop(w);
}

int kr_wait_start(struct kr_wait *w, const struct kr_password_ask *ask)
{
    static const struct kr_http_calls calls = {.on_gone = on_account_client_gone};
    struct kr_accounts *a = w->api->accounts;
    struct kr_err err;
    int r = kr_passwords_ask(a->passwords, ask, on_done, w, &w->job, &err);

    if (r < 0) {
        struct kr_http_ex *ex = w->ex;

        kr_wait_drop(w);
        kr_api_fail(ex, &err);
        return r;
    }
    kr_http_defer(w->ex, &calls, w);
    return 0;
}

/* ---- rights, times ---- */

int kr_accounts_rights(const json_t *words, unsigned otherwise, unsigned *ret_rights, struct kr_err *err)
{
    unsigned rights = 0, one;
    size_t i;
    json_t *word;

    if (!words) {
        *ret_rights = otherwise;
        return 0;
    }
    json_array_foreach(words, i, word)
    {
        int r = kr_rights_parse(json_string_value(word), &one, err);

        if (r < 0)
            return r;
        rights |= one;
    }
    if (!rights)
        return kr_err_set(err, KR_ERR_INVALID, 0, "rights: at least one of read, run, admin"), -EINVAL;
    *ret_rights = rights;
    return 0;
}

void kr_accounts_rights_json(struct kr_json *j, const char *key, unsigned rights)
{
    kr_json_key(j, key);
    kr_json_array(j);
    for (size_t i = 0; i < kr_right_rows_count; i++)
        if (rights & kr_right_rows[i].bit)
            kr_json_str(j, kr_right_rows[i].name);
    kr_json_array_end(j);
}

void kr_accounts_time_json(struct kr_json *j, const char *key, int64_t us)
{
    if (us)
        kr_json_key_double(j, key, (double)us / 1e6);
    else
        kr_json_key_null(j, key);
}

void kr_accounts_date_json(struct kr_json *j, const char *key, int64_t us)
{
    time_t seconds = (time_t)(us / 1000000);
    char day[32], text[48];
    struct tm tm;

    gmtime_r(&seconds, &tm);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, sizeof text, "%s.%06dZ", day, (int)(us % 1000000));
    kr_json_key_str(j, key, text);
}

/* ---- audit, errors ---- */

void kr_accounts_audit(struct kr_api *api, const struct kr_api_who *who, const char *what, const char *object,
                       const char *outcome, const char *detail)
{
    kr_box_audit(api->box, &who->caller, what, object, outcome, detail);
}

/* The store says "email: not an address": the part in front of the colon, if it is one word. */
void kr_accounts_fail(struct kr_http_ex *ex, const struct kr_err *err)
{
    size_t len = strspn(err->msg, "abcdefghijklmnopqrstuvwxyz_");
    struct kr_err own = *err;
    char field[32];

    if (err->code == EEXIST)
        own.kind = KR_ERR_CONFLICT;
    if (err->kind != KR_ERR_INVALID || len == 0 || len >= sizeof field || strncmp(err->msg + len, ": ", 2) != 0) {
        kr_api_fail(ex, &own);
        return;
    }
    snprintf(field, sizeof field, "%.*s", (int)len, err->msg);
    kr_api_fail_field(ex, field, &own);
}

/* ---- ending what a user has going ---- */

struct session_name {
    char sandbox[KR_STORE_ID_ROOM];
    char name[KR_BOX_SESSION_NAME_MAX + 1];
};
struct session_list {
    struct session_name *items;
    size_t count, room;
};

static void on_user_session(void *data, const struct kr_box_session_info *info)
{
    struct session_list *p = data;

    if (p->count == p->room) {
        size_t room = p->room ? 2 * p->room : 16;
        struct session_name *moved = reallocarray(p->items, room, sizeof *moved);

        if (!moved)
            return; /* what is left is ended by its own limits */
        p->items = moved;
        p->room = room;
    }
    snprintf(p->items[p->count].sandbox, sizeof p->items[0].sandbox, "%s", info->sandbox);
    snprintf(p->items[p->count].name, sizeof p->items[0].name, "%s", info->name);
    p->count++;
}

struct run_ids {
    char items[KR_STORE_PAGE_MAX][KR_STORE_ID_ROOM];
    size_t count;
};

static void on_user_run(void *data, const struct kr_store_run *run)
{
    struct run_ids *ids = data;

    memcpy(ids->items[ids->count++], run->id, KR_STORE_ID_ROOM);
}

void kr_accounts_end_work(struct kr_api *api, const char *user, const struct kr_api_who *who)
{
    const struct kr_caller them = {
        .user = user, .rights = KR_RIGHT_ALL, .address = who->caller.address, .request = who->caller.request};
    const struct kr_store_run_filter running = {.running = true};
    struct kr_store_page page = {.limit = KR_STORE_PAGE_MAX};
    struct run_ids *ids = calloc(1, sizeof *ids);
    struct session_list sessions = {0};
    struct kr_err err;

    kr_box_terminals_close(api->box, &them);
    kr_box_sessions(api->box, &them, NULL, on_user_session, &sessions);
    for (size_t i = 0; i < sessions.count; i++)
        kr_box_session_close(api->box, &them, sessions.items[i].sandbox, sessions.items[i].name, &err);
    free(sessions.items);
    if (ids && kr_store_runs_list(api->store, user, &running, &page, on_user_run, ids, &err) < 0)
        kr_log(KR_LOG_WARN, "the runs of a user are not all ended, ignoring", "user=%s error=\"%s\"", user, err.msg);
    for (size_t i = 0; ids && i < ids->count; i++)
        kr_box_run_cancel(api->box, &them, ids->items[i], true, &err);
    free(ids);
}

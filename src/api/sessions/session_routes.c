/* Sessions: list, open, end, interrupt. Reading one is session_read.c.
 *
 * Called through the route table. Invariant: every name is looked up among the caller's own sessions, another's is as
 * unknown as one that never was. */
#include "session_routes.h"
#include "buf.h"
#include "json.h"
#include "body_read.h"
#include "reply.h"
#include "report.h"
#include "session.h"
#include "session_routes_internal.h"
#include "file_fetch.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_ROOM (KR_STORE_ID_ROOM + KR_BOX_SESSION_NAME_MAX + 16)

/* ---- who and where ---- */

static void no_session(struct kr_http_ex *ex, const char *what)
{
    kr_api_fail_with(ex, KR_ERR_NOT_FOUND, "%s not found", what);
}

/* Reads who asks and in which sandbox; sandboxes are named by id from here on, as names can be changed. False:
 * answered. */
static bool ask_sandbox(struct kr_api *api, struct kr_http_ex *ex, struct kr_api_session_asked *ret)
{
    cleanup_input struct kr_api_input in = {0};
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_api_session_where where;
    struct kr_err err;
    int r;

    ret->sandbox[0] = '\0';
    if (!kr_api_caller(api, ex, &ret->who) || !kr_api_read_query(ex, &kr_api_session_where_table, &where, &in))
        return false;
    if (!where.sandbox || !where.sandbox[0])
        return true;
    r = kr_box_sandbox_find(api->box, &ret->who.caller, where.sandbox, &s, &err);
    if (r == -ENOENT)
        no_session(ex, "Sandbox");
    else if (r < 0)
        kr_api_fail(ex, &err);
    else
        memcpy(ret->sandbox, s.row.id, sizeof ret->sandbox);
    return r >= 0;
}

bool kr_api_session_find(struct kr_api *api, struct kr_http_ex *ex, struct kr_api_session_asked *a,
                         struct kr_box_session_info *ret)
{
    struct kr_err err;

    if (!ask_sandbox(api, ex, a))
        return false;
    if (kr_box_session_find(api->box, &a->who.caller, a->sandbox[0] ? a->sandbox : NULL,
                            kr_http_param(ex, "session_id"), ret, &err) == 0)
        return true;
    no_session(ex, "Session");
    return false;
}

void kr_api_session_write(struct kr_json *j, const struct kr_box_session_info *s)
{
    kr_json_key_str(j, "session_id", s->name);
    kr_json_key_double(j, "created_at", (double)s->created_us / 1e6);
    kr_json_key_double(j, "last_activity", (double)s->last_activity_us / 1e6);
    kr_json_key_bool(j, "is_busy", s->busy);
    kr_json_key_uint(j, "execution_count", s->executions);
    kr_json_key_str(j, "working_directory", KR_API_WORKSPACE);
    kr_json_key_str(j, "sandbox_id", s->sandbox);
    kr_json_key_str(j, "sandbox_name", s->sandbox_name);
    kr_json_key_str(j, "state", s->session ? kr_session_state_names[kr_session_state(s->session)] : "opening");
    kr_json_key_uint(j, "queued", s->queued);
}

/* ---- list ---- */

struct list {
    struct kr_box_session_info *items;
    size_t count, room;
    bool failed;
};

static void on_listed_session(void *data, const struct kr_box_session_info *info)
{
    struct list *l = data;

    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        struct kr_box_session_info *items = reallocarray(l->items, room, sizeof *items);

        if (!items) {
            l->failed = true;
            return;
        }
        l->items = items;
        l->room = room;
    }
    l->items[l->count++] = *info;
}

/* The session's name; if another has it as its key already, one that names the sandbox too. 0 or -ENOMEM. */
static int choose_key(json_t *taken, const struct kr_box_session_info *s, char key[KEY_ROOM])
{
    snprintf(key, KEY_ROOM, "%s", s->name);
    if (json_object_get(taken, key))
        snprintf(key, KEY_ROOM, "%s/%s", s->sandbox, s->name);
    for (unsigned i = 2; json_object_get(taken, key); i++) /* a session has that name */
        snprintf(key, KEY_ROOM, "%s/%s#%u", s->sandbox, s->name, i);
    return json_object_set_new_nocheck(taken, key, json_true()) < 0 ? -ENOMEM : 0;
}

/* The last used first: it is the one that its bare name finds. */
static int write_sessions(struct kr_json *j, const struct list *l)
{
    json_t *taken = json_object();
    char key[KEY_ROOM];
    int r = taken && !l->failed ? 0 : -ENOMEM;

    kr_json_object(j);
    kr_json_key(j, "sessions");
    kr_json_object(j);
    for (size_t i = l->count; i-- > 0 && r == 0;) {
        r = choose_key(taken, &l->items[i], key);
        kr_json_key(j, key);
        kr_json_object(j);
        kr_api_session_write(j, &l->items[i]);
        kr_json_object_end(j);
    }
    kr_json_object_end(j);
    kr_json_key_uint(j, "total", l->count);
    kr_json_object_end(j);
    json_decref(taken);
    return r;
}

void kr_api_sessions_list(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_buf struct kr_buf buf;
    struct list l = {0};
    struct kr_api_session_asked a;
    struct kr_json j;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    if (!ask_sandbox(api, ex, &a))
        return;
    kr_box_sessions(api->box, &a.who.caller, a.sandbox[0] ? a.sandbox : NULL, on_listed_session, &l);
    kr_json_init(&j, &buf);
    if (write_sessions(&j, &l) < 0)
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for the list of sessions");
    else
        kr_api_reply(ex, 200, &buf);
    free(l.items);
}

/* ---- open ---- */

/* Waits for a session that was asked for, then for files that were asked for with it. */
struct opening {
    struct kr_http_ex *ex; /* NULL: gone */
    struct kr_api *api;
    struct kr_file_fetches *fetches; /* under way */
    json_t *urls, *files;            /* owned; NULL: none */
    uint64_t timeout_ms;
    struct kr_caller who; /* points to the next three */
    char user[KR_STORE_ID_ROOM], address[65], request[129];
    char session[KR_BOX_SESSION_NAME_MAX + 1], sandbox[KR_STORE_ID_ROOM], sandbox_name[KR_STORE_NAME_ROOM];
};

static void free_opening(struct opening *o)
{
    json_decref(o->urls);
    json_decref(o->files);
    free(o);
}

static void on_opening_gone(void *data, struct kr_http_ex *ex)
{
    struct opening *o = data;

    (void)ex;
    o->ex = NULL;
    if (!o->fetches)
        return; /* its session is on the way */
    kr_file_fetches_forget(o->fetches);
    free_opening(o);
}

static void on_files_fetched(void *data, const json_t *names, const json_t *errors)
{
    struct opening *o = data;
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    kr_json_key_int(&j, "resultCode", 0);
    kr_json_key_str(&j, "resultMsg", "success");
    kr_json_key(&j, "data");
    kr_json_object(&j);
    kr_json_key_str(&j, "session_id", o->session);
    kr_json_key_str(&j, "working_directory", KR_API_WORKSPACE);
    kr_json_key(&j, "downloaded_files");
    kr_report_value(&j, names);
    kr_json_key(&j, "errors");
    kr_report_value(&j, errors);
    kr_json_key_str(&j, "sandbox_id", o->sandbox);
    kr_json_key_str(&j, "sandbox_name", o->sandbox_name);
    kr_json_object_end(&j);
    kr_json_object_end(&j);
    kr_api_reply(o->ex, 200, &buf);
    free_opening(o);
}

static void on_opened(void *data, const struct kr_box_session_info *info, const struct kr_err *err)
{
    struct opening *o = data;

    if (o->ex && !info)
        kr_api_fail(o->ex, err);
    if (!o->ex || !info) {
        free_opening(o);
        return;
    }
    snprintf(o->session, sizeof o->session, "%s", info->name);
    snprintf(o->sandbox, sizeof o->sandbox, "%s", info->sandbox);
    snprintf(o->sandbox_name, sizeof o->sandbox_name, "%s", info->sandbox_name);
    if (kr_file_fetches_start(o->api, &o->who, o->sandbox, o->urls, o->files, o->timeout_ms, on_files_fetched, o,
                              &o->fetches) >= 0)
        return;
    kr_api_fail_with(o->ex, KR_ERR_INTERNAL, "no memory for the files of a session");
    free_opening(o);
}

static struct opening *new_opening(struct kr_api *api, struct kr_http_ex *ex, const struct kr_api_who *who,
                                   const struct kr_api_session_create *q)
{
    struct opening *o = calloc(1, sizeof *o);

    if (!o)
        return NULL;
    o->ex = ex;
    o->api = api;
    o->urls = json_incref(q->urls);
    o->files = json_incref(q->files);
    o->timeout_ms = (uint64_t)q->timeout * 1000;
    snprintf(o->user, sizeof o->user, "%s", who->caller.user);
    snprintf(o->address, sizeof o->address, "%s", who->caller.address ? who->caller.address : "");
    snprintf(o->request, sizeof o->request, "%s", who->caller.request ? who->caller.request : "");
    o->who = who->caller;
    o->who.user = o->user;
    o->who.address = o->address;
    o->who.request = o->request;
    return o;
}

static void open_session(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    static const struct kr_http_calls calls = {.on_gone = on_opening_gone};
    struct kr_api *api = app;
    const struct kr_api_session_create *q = request;
    struct opening *o;
    struct kr_api_who who;
    struct kr_err err;
    int r;

    (void)in;
    if (!kr_api_caller(api, ex, &who))
        return;
    o = new_opening(api, ex, &who, q);
    if (!o) {
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for a session");
        return;
    }
    r = kr_box_session_open(api->box, &who.caller, q->sandbox, q->session, on_opened, o, &err);
    if (r == 0) {
        kr_http_defer(ex, &calls, o);
        return;
    }
    free_opening(o);
    if (r == -ENOENT)
        no_session(ex, "Sandbox");
    else
        kr_api_fail(ex, &err);
}

void kr_api_sessions_create(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &kr_api_session_create_table, open_session);
}

/* ---- end, interrupt ---- */

typedef int session_act(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                        struct kr_err *err);

static void act(struct kr_http_ex *ex, struct kr_api *api, session_act *act_on, const char *done)
{
    struct kr_box_session_info info;
    struct kr_api_session_asked a;
    struct kr_err err;

    if (!kr_api_session_find(api, ex, &a, &info))
        return;
    if (act_on(api->box, &a.who.caller, info.sandbox, info.name, &err) < 0)
        no_session(ex, "Session");
    else
        kr_api_reply_message(ex, 200, "Session %s %s", kr_http_param(ex, "session_id"), done);
}

void kr_api_sessions_delete(struct kr_http_ex *ex, void *app)
{
    act(ex, app, kr_box_session_close, "terminated");
}

void kr_api_sessions_interrupt(struct kr_http_ex *ex, void *app)
{
    act(ex, app, kr_box_session_interrupt, "interrupted");
}

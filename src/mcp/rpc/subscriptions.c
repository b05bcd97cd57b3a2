/* Notifications that answer no request: lists that changed, resources that changed, tasks that went on.
 *
 * Until 2025-11-25 a peer subscribes to resources one by one and hears of lists without asking; since 2026-07-28 a
 * request, subscriptions/listen, stays open for as long as its client wants to hear, and says of what. Called through
 * the table of methods, and by the code that changes something (mcp.h). Invariant: no client hears of another user's
 * resources or tasks. */
#include "mcp_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTENS_MAX 1024u         /* streams of all users; -32603 that says so */
#define LISTENS_PER_USER_MAX 128u /* the same of one user */
#define ITEMS_MAX 256u            /* resources, and tasks, of one stream; -32602 */
#define URI_MAX 4096u
#define SUBSCRIPTIONS_BYTES (64u << 10) /* of all addresses that one peer is subscribed to; -32603 */

/* Lists that may change. */
static const struct list {
    const char *kind, *filter, *method;
} lists[] = {
    {"tools", "toolsListChanged", "notifications/tools/list_changed"},
    {"prompts", "promptsListChanged", "notifications/prompts/list_changed"},
    {"resources", "resourcesListChanged", "notifications/resources/list_changed"},
};
#define LISTS (sizeof lists / sizeof lists[0])

/* One open subscriptions/listen. */
struct kr_mcp_listen {
    TAILQ_ENTRY(kr_mcp_listen) entry;
    struct kr_mcp_call *call;
    bool wants[LISTS];
    json_t *uris, *tasks; /* objects with a member for each, or NULL */
};

/* ---- until 2025-11-25 ---- */

/* The URI of a (un)subscribe; NULL: answered. */
static const char *uri_of(struct kr_mcp_call *c)
{
    json_t *uri = json_object_get(c->params, "uri");

    if (json_is_string(uri) && json_string_length(uri) > 0 && json_string_length(uri) <= URI_MAX &&
        strlen(json_string_value(uri)) == json_string_length(uri))
        return json_string_value(uri);
    kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "uri: a string of at most %u bytes is needed", URI_MAX);
    return NULL;
}

/* With one more of that length, does the peer keep no more than it may? */
static bool subscription_fits(json_t *subscriptions, size_t len)
{
    const char *uri;
    json_t *value;

    json_object_foreach(subscriptions, uri, value) len += strlen(uri);
    return json_object_size(subscriptions) < KR_MCP_SUBSCRIPTIONS_MAX && len <= SUBSCRIPTIONS_BYTES;
}

void kr_mcp_subscribe(struct kr_mcp_call *c)
{
    struct kr_mcp_peer *p = c->peer;
    const char *uri = uri_of(c);

    if (!uri)
        return;
    if (p->fleeting) {
        kr_mcp_fail(c, KR_RPC_INVALID_REQUEST, NULL, "subscriptions need a session: begin with `initialize`");
        return;
    }
    if (!p->subscriptions)
        p->subscriptions = json_object();
    if (!json_object_get(p->subscriptions, uri) && !subscription_fits(p->subscriptions, strlen(uri))) {
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "too many subscriptions: at most %u, with %u KiB of addresses",
                    KR_MCP_SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_BYTES >> 10);
        return;
    }
    json_object_set_new(p->subscriptions, uri, json_true());
    kr_mcp_reply(c, json_object());
}

void kr_mcp_unsubscribe(struct kr_mcp_call *c)
{
    const char *uri = uri_of(c);

    if (!uri)
        return;
    json_object_del(c->peer->subscriptions, uri);
    kr_mcp_reply(c, json_object());
}

/* ---- 2026-07-28 ---- */

static void listen_free(struct kr_mcp *m, struct kr_mcp_listen *l)
{
    TAILQ_REMOVE(&m->listens, l, entry);
    m->listen_count--;
    json_decref(l->uris);
    json_decref(l->tasks);
    free(l);
}

static void on_listen_cancel(void *data, struct kr_mcp_call *c)
{
    listen_free(kr_mcp_of(c), data);
}

/* An array of strings as an object with a member for each. NULL: it is absent, or (*ret_ok is false) no such array. */
static json_t *set_of(const json_t *list, bool *ret_ok)
{
    json_t *set, *item;
    size_t i;

    if (!list)
        return NULL;
    *ret_ok = *ret_ok && json_is_array(list) && json_array_size(list) <= ITEMS_MAX;
    if (!*ret_ok)
        return NULL;
    set = json_object();
    json_array_foreach(list, i, item)
    {
        *ret_ok = *ret_ok && json_is_string(item) && json_string_length(item) <= URI_MAX;
        if (*ret_ok)
            json_object_set_new(set, json_string_value(item), json_true());
    }
    return set;
}

/* Of the tasks that a client names only its user's own are there. */
static void drop_unknown(struct kr_mcp_call *c, json_t *tasks)
{
    const char *id;
    json_t *value;
    void *next;

    json_object_foreach_safe(tasks, next, id, value)
    {
        if (!kr_mcp_task_known(kr_mcp_of(c), kr_mcp_caller(c)->user, id))
            json_object_del(tasks, id);
    }
}

static json_t *names_of(json_t *set)
{
    json_t *list = json_array(), *value;
    const char *name;

    json_object_foreach(set, name, value)
    {
        json_array_append_new(list, json_string(name));
    }
    return list;
}

/* What of the request is honoured. */
static json_t *honoured(const struct kr_mcp_listen *l)
{
    json_t *granted = json_object();

    for (size_t i = 0; i < LISTS; i++)
        if (l->wants[i])
            json_object_set_new(granted, lists[i].filter, json_true());
    if (l->uris)
        json_object_set_new(granted, "resourceSubscriptions", names_of(l->uris));
    if (l->tasks)
        json_object_set_new(granted, "taskIds", names_of(l->tasks));
    return granted;
}

static json_t *tag(const struct kr_mcp_call *c)
{
    return json_pack("{s:O}", KR_MCP_META_SUBSCRIPTION, c->id);
}

static bool has_no_room(const struct kr_mcp *m, const char *user)
{
    const struct kr_mcp_listen *l;
    size_t own = 0;

    TAILQ_FOREACH(l, &m->listens, entry)
    own += strcmp(kr_mcp_caller(l->call)->user, user) == 0;
    return m->listen_count >= LISTENS_MAX || own >= LISTENS_PER_USER_MAX;
}

/* NULL: answered. */
static struct kr_mcp_listen *listen_new(struct kr_mcp_call *c, const json_t *wanted)
{
    struct kr_mcp_listen *l = calloc(1, sizeof *l);
    bool ok = json_is_object(wanted);

    if (!l) {
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "no memory");
        return NULL;
    }
    for (size_t i = 0; i < LISTS; i++) {
        const json_t *value = json_object_get(wanted, lists[i].filter);

        ok = ok && (!value || json_is_boolean(value));
        l->wants[i] = json_is_true(value);
    }
    l->uris = set_of(json_object_get(wanted, "resourceSubscriptions"), &ok);
    l->tasks = set_of(json_object_get(wanted, "taskIds"), &ok);
    l->call = c;
    if (ok)
        return l;
    json_decref(l->uris);
    json_decref(l->tasks);
    free(l);
    kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL,
                "notifications: an object of toolsListChanged, promptsListChanged, resourcesListChanged (true), "
                "resourceSubscriptions and taskIds (at most %u each)",
                ITEMS_MAX);
    return NULL;
}

void kr_mcp_listen(struct kr_mcp_call *c)
{
    struct kr_mcp *m = kr_mcp_of(c);
    const json_t *wanted = json_object_get(c->params, "notifications");
    struct kr_mcp_listen *l;

    if (has_no_room(m, kr_mcp_caller(c)->user)) {
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "too many open subscriptions: at most %u of one user, %u in all",
                    LISTENS_PER_USER_MAX, LISTENS_MAX);
        return;
    }
    if (!(l = listen_new(c, wanted)))
        return;
    TAILQ_INSERT_TAIL(&m->listens, l, entry);
    m->listen_count++;
    drop_unknown(c, l->tasks);
    kr_mcp_on_cancel(c, on_listen_cancel, l);
    kr_mcp_call_note(c, "notifications/subscriptions/acknowledged",
                     json_pack("{s:o,s:o}", "notifications", honoured(l), "_meta", tag(c)));
}

void kr_mcp_listens_end(struct kr_mcp *m)
{
    struct kr_mcp_listen *l;

    while ((l = TAILQ_FIRST(&m->listens))) {
        struct kr_mcp_call *c = l->call;

        listen_free(m, l);
        kr_mcp_on_cancel(c, NULL, NULL);
        kr_mcp_reply(c, json_pack("{s:o}", "_meta", tag(c)));
    }
}

/* ---- news ---- */

/* One notification on a listen stream: the params and the stream's tag. */
static void notify_listener(struct kr_mcp_listen *l, const char *method, const json_t *params)
{
    json_t *own = params ? json_copy((json_t *)params) : json_object(), *meta = json_object_get(own, "_meta");

    meta = meta ? json_copy(meta) : json_object();
    json_object_set(meta, KR_MCP_META_SUBSCRIPTION, l->call->id);
    json_object_set_new(own, "_meta", meta);
    kr_mcp_call_note(l->call, method, own);
}

static const struct list *const resources = &lists[2];

static bool hears_of_lists(const struct kr_mcp_peer *p, const char *user)
{
    return p->rev >= 0 && !p->fleeting && strcmp(p->who.user, user) == 0;
}

static bool listens_for_files(const struct kr_mcp_listen *l, const char *user)
{
    return l->wants[resources - lists] && strcmp(kr_mcp_caller(l->call)->user, user) == 0;
}

static bool has_hearers(const struct kr_mcp *m, const char *user)
{
    const struct kr_mcp_listen *l;
    const struct kr_mcp_peer *p;

    TAILQ_FOREACH(l, &m->listens, entry)
    if (listens_for_files(l, user))
        return true;
    TAILQ_FOREACH(p, &m->peers, entry)
    if (hears_of_lists(p, user))
        return true;
    return false;
}

static void on_files_moved(void *data)
{
    struct kr_mcp *m = data;
    json_t *users = m->moved, *value;
    struct kr_mcp_listen *l;
    struct kr_mcp_peer *p;
    const char *user;

    m->moved = NULL;
    json_object_foreach(users, user, value)
    {
        TAILQ_FOREACH(l, &m->listens, entry)
        if (listens_for_files(l, user))
            notify_listener(l, resources->method, NULL);
        TAILQ_FOREACH(p, &m->peers, entry)
        if (hears_of_lists(p, user))
            kr_mcp_peer_note(p, resources->method, NULL);
    }
    json_decref(users);
}

void kr_mcp_files_moved(struct kr_mcp *m, const char *user)
{
    if (m->stopping || !has_hearers(m, user))
        return;
    if (!m->moved_timer && kr_timer_new(m->api->loop, on_files_moved, m, &m->moved_timer) < 0)
        return; /* no memory: the next change tells of this one, too */
    if (!m->moved) {
        m->moved = json_object();
        kr_timer_arm(m->moved_timer, KR_MCP_MOVED_MS);
    }
    json_object_set_new(m->moved, user, json_true());
}

void kr_mcp_list_changed(struct kr_mcp *m, const char *kind)
{
    struct kr_mcp_listen *l;
    struct kr_mcp_peer *p;

    for (size_t i = 0; i < LISTS; i++) {
        if (strcmp(lists[i].kind, kind) != 0)
            continue;
        TAILQ_FOREACH(l, &m->listens, entry)
        if (l->wants[i])
            notify_listener(l, lists[i].method, NULL);
        TAILQ_FOREACH(p, &m->peers, entry)
        if (p->rev >= 0)
            kr_mcp_peer_note(p, lists[i].method, NULL);
    }
}

void kr_mcp_resource_updated(struct kr_mcp *m, const char *user, const char *uri)
{
    json_t *params = json_pack("{s:s}", "uri", uri);
    struct kr_mcp_listen *l;
    struct kr_mcp_peer *p;

    TAILQ_FOREACH(l, &m->listens, entry)
    if (json_object_get(l->uris, uri) && strcmp(kr_mcp_caller(l->call)->user, user) == 0)
        notify_listener(l, "notifications/resources/updated", params);
    TAILQ_FOREACH(p, &m->peers, entry)
    if (json_object_get(p->subscriptions, uri) && strcmp(p->who.user, user) == 0)
        kr_mcp_peer_note(p, "notifications/resources/updated", params);
    json_decref(params);
}

void kr_mcp_task_changed(struct kr_mcp *m, const char *user, const char *task, const json_t *params,
                         const json_t *legacy)
{
    struct kr_mcp_listen *l;
    struct kr_mcp_peer *p;

    TAILQ_FOREACH(l, &m->listens, entry)
    if (params && json_object_get(l->tasks, task) && strcmp(kr_mcp_caller(l->call)->user, user) == 0)
        notify_listener(l, "notifications/tasks", params);
    TAILQ_FOREACH(p, &m->peers, entry)
    if (legacy && p->rev >= 0 && kr_mcp_revs[p->rev].tasks && strcmp(p->who.user, user) == 0)
        kr_mcp_peer_note(p, "notifications/tasks/status", legacy);
}

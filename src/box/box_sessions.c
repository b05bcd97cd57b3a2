/* Named sessions of sandboxes. A session outlasts the processes (engine sessions) in it.
 *
 * Called by box_room.c, box_runs.c, box_sandboxes.c and the voices; callbacks of the engine arrive here. Invariants:
 * a session has a slot from OPENING until its process has ended; runs that wait while the process ends go on in a
 * new one, and the first of them says so; a session without runs and openers is not opened, and one for a single run
 * ends with it. */
#include "box_internal.h"
#include "clock.h"
#include "egress_env.h"
#include "fd.h"
#include "hash.h"
#include "json.h"
#include "log.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- finding, making, freeing ---- */

int kr_box_session_check_name(const char *name, struct kr_err *err)
{
    if (name && (!*name || strlen(name) > KR_BOX_SESSION_NAME_MAX))
        return kr_err_set(err, KR_ERR_INVALID, 0, "session_id: 1 to %u bytes", KR_BOX_SESSION_NAME_MAX), -EINVAL;
    for (const char *p = name; p && *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return kr_err_set(err, KR_ERR_INVALID, 0, "session_id: has control characters"), -EINVAL;
    /* It is a part of paths, where a slash divides and dots are steps, however they are written. */
    if (name && (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0))
        return kr_err_set(err, KR_ERR_INVALID, 0, "session_id: has a slash, or is only dots"), -EINVAL;
    return 0;
}

static struct kr_box_session_list *bucket(struct kr_box *b, const char *sandbox, const char *name)
{
    return &b->named[kr_hash_text(kr_hash_text(KR_HASH_START, sandbox), name) % KR_BOX_BUCKETS];
}

struct kr_box_session *kr_box_session_by_name(struct kr_box *b, const char *sandbox, const char *name)
{
    struct kr_box_session *session;

    TAILQ_FOREACH(session, bucket(b, sandbox, name), named_link)
    if (strcmp(session->name, name) == 0 && strcmp(session->sandbox, sandbox) == 0)
        return session;
    return NULL;
}

static int copy_env(const struct kr_box_session *session, const json_t *env, struct kr_session_spec *spec)
{
    const char **list = calloc(json_object_size(env) + kr_box_egress_env_most(session, spec) + 1, sizeof *list), *key;
    json_t *value;

    if (!list)
        return -ENOMEM;
    spec->env = list;
    json_object_foreach((json_t *)env, key, value)
    {
        char *text;

        if (json_object_get(session->secrets, key))
            continue;
        if (asprintf(&text, "%s=%s", key, json_string_value(value)) < 0)
            return -ENOMEM;
        list[spec->env_count++] = text;
    }
    return kr_box_egress_env(session, env, spec);
}

static void free_env(struct kr_session_spec *spec)
{
    for (size_t i = 0; i < spec->env_count; i++)
        free((char *)spec->env[i]);
    free((void *)spec->env);
    spec->env = NULL;
    spec->env_count = 0;
}

void kr_box_session_free(struct kr_box_session *session)
{
    free_env(&session->spec);
    free(session->policy);
    free(session->policy_ask);
    json_decref(session->secrets);
    kr_changes_leave(session);
    kr_box_user_drop(session->box, session->user);
    free(session);
}

/* Takes it out of the lists. Freed now, or when no look at its folder is under way any more. */
static void remove_session(struct kr_box_session *session)
{
    kr_box_session_set_state(session, KR_BOX_SESSION_GONE);
    TAILQ_REMOVE(&session->box->sessions, session, link);
    if (!session->thrown_away)
        TAILQ_REMOVE(bucket(session->box, session->sandbox, session->name), session, named_link);
    if (!kr_changes_looking(session))
        kr_box_session_free(session);
}

static bool has_slot(enum kr_box_session_state state)
{
    return state == KR_BOX_SESSION_OPENING || state == KR_BOX_SESSION_LIVE || state == KR_BOX_SESSION_LEAVING;
}

void kr_box_session_set_state(struct kr_box_session *session, enum kr_box_session_state next)
{
#define TO(state) (1u << KR_BOX_SESSION_##state)
    static const unsigned allowed[KR_BOX_SESSION_STATE_MAX_] = {
        [KR_BOX_SESSION_NEW] = TO(WAITING),
        [KR_BOX_SESSION_WAITING] = TO(OPENING) | TO(GONE),
        [KR_BOX_SESSION_OPENING] = TO(LIVE) | TO(WAITING) | TO(GONE), /* WAITING, GONE: the engine refused */
        [KR_BOX_SESSION_LIVE] = TO(LEAVING) | TO(ENDED),              /* ENDED: its process died */
        [KR_BOX_SESSION_LEAVING] = TO(ENDED),
        [KR_BOX_SESSION_ENDED] = TO(WAITING) | TO(GONE), /* WAITING: for a new process, as runs wait for it */
    };
#undef TO
    enum kr_box_session_state last = session->state;
    int waits = (next == KR_BOX_SESSION_WAITING) - (last == KR_BOX_SESSION_WAITING);
    int leaves = (next == KR_BOX_SESSION_LEAVING) - (last == KR_BOX_SESSION_LEAVING);
    int slots = has_slot(next) - has_slot(last);
    struct kr_box_user *u = session->user;
    struct kr_box *b = session->box;
    struct kr_box_share *share = &b->shares[session->profile->dialect];

    assert(allowed[last] & 1u << next);
    session->state = next;
    if (waits > 0)
        TAILQ_INSERT_TAIL(&b->waiting_list, session, waiting_link);
    else if (waits < 0)
        TAILQ_REMOVE(&b->waiting_list, session, waiting_link);
    b->waiting += (size_t)waits;
    u->waiting += (unsigned)waits;
    b->leaving += (size_t)leaves;
    u->leaving += (unsigned)leaves;
    b->live += (size_t)slots;
    u->sessions += (unsigned)slots;
    share->sessions += (unsigned)slots;
    share->leaving += (unsigned)leaves;
    if (slots < 0)
        kr_box_kick(b); /* another session may wait for the slot */
    if (slots < 0 && u->sessions == 0 && b->config.user_groups)
        kr_engine_forget_owner(b->engine, u->number);
}

uint32_t kr_box_zygote_of(const struct kr_box *b, enum kr_preload preload)
{
    for (size_t i = 0; i < kr_engine_zygote_count(b->engine); i++)
        if (kr_engine_zygote(b->engine, i).preload == preload)
            return (uint32_t)i;
    return 0;
}

/* ---- its policy ---- */

static const struct kr_policy_spec open_policy = {.mode = KR_POLICY_OPEN};

void kr_box_session_policy_now(const struct kr_box_session *session, const struct kr_sandbox *s,
                               struct kr_policy_spec *ret)
{
    *ret = s->policy;
    if (session->policy_ask)
        kr_policy_clip(&s->policy, session->policy_ask, ret);
}

bool kr_box_session_has_rights(const struct kr_box_session *session, const struct kr_policy_spec *policy)
{
    return kr_policy_same_rights(session->policy ? session->policy : &open_policy, policy);
}

/* Its rights become those of its cell. 0 or -ENOMEM. */
static int take_policy(struct kr_box_session *session, const struct kr_sandbox *s)
{
    struct kr_policy_spec now;

    free(session->policy);
    session->policy = NULL;
    kr_box_session_policy_now(session, s, &now);
    if (!kr_policy_has(&now, KR_POLICY_NETWORK))
        session->spec.network = (struct kr_net_rule){.kind = KR_NET_NONE};
    session->spec.read_only = !kr_policy_has(&now, KR_POLICY_FILESYSTEM);
    if (now.mode == KR_POLICY_OPEN)
        return 0;
    session->policy = malloc(sizeof now);
    if (!session->policy)
        return -ENOMEM;
    *session->policy = now;
    return 0;
}

/* What its sessions are opened with: the sandbox as it is now. 0 or -ENOMEM. */
static int fill_spec(struct kr_box_session *session, const struct kr_sandbox *s, bool in_folder)
{
    free_env(&session->spec);
    session->spec = (struct kr_session_spec){.zygote = kr_box_zygote_of(session->box, s->preload),
                                             .network = s->network,
                                             .workspace = !in_folder                        ? KR_WORKSPACE_NONE
                                                          : kr_box_is_host(session->box, s) ? 0
                                                                                            : KR_WORKSPACE_SHELF,
                                             .mounts = s->mounts,
                                             .background = s->background,
                                             .limits = s->limits};
    snprintf(session->home, sizeof session->home, "%s", s->row.folder);
    session->auto_install = s->auto_install;
    session->secrets_tls = s->secrets_tls;
    json_decref(session->secrets);
    session->secrets = json_incref(json_object_get(s->settings, "secrets"));
    if (session->spec.workspace == KR_WORKSPACE_SHELF)
        snprintf(session->spec.folder, sizeof session->spec.folder, "%s", s->row.folder);
    kr_changes_forget(session);
    if (take_policy(session, s) < 0)
        return -ENOMEM;
    return copy_env(session, json_object_get(s->settings, "env"), &session->spec);
}

static int keep_ask(struct kr_box_session *session, const struct kr_policy_ask *ask)
{
    if (!ask || kr_policy_ask_is_empty(ask))
        return 0;
    session->policy_ask = malloc(sizeof *ask);
    if (!session->policy_ask)
        return -ENOMEM;
    *session->policy_ask = *ask;
    return 0;
}

int kr_box_session_new(struct kr_box *b, struct kr_box_user *u, const struct kr_profile *profile,
                       const struct kr_sandbox *s, const struct kr_box_session_how *how, struct kr_box_session **ret,
                       struct kr_err *err)
{
    struct kr_box_session *session;

    if (b->waiting >= KR_BOX_WAITING_MAX || u->waiting >= KR_BOX_WAITING_USER_MAX)
        return kr_err_set(err, KR_ERR_BUSY, 0, "too many wait for a session; try again in a moment");
    session = calloc(1, sizeof *session);
    if (!session)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a session");
    session->box = b;
    session->user = u;
    session->profile = profile;
    u->refs++;
    session->thrown_away = how->thrown_away;
    session->created_us = session->used_us = kr_store_now();
    session->asked_ns = kr_clock_ns();
    session->deadline_ns = kr_clock_after_ms(b->config.queue_wait_ms);
    TAILQ_INIT(&session->waiting);
    snprintf(session->sandbox, sizeof session->sandbox, "%s", s->row.id);
    snprintf(session->sandbox_name, sizeof session->sandbox_name, "%s", s->row.name);
    snprintf(session->name, sizeof session->name, "%s", how->name);
    if (keep_ask(session, how->policy) < 0 || fill_spec(session, s, how->in_folder) < 0) {
        kr_box_session_free(session);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a session's environment");
    }
    TAILQ_INSERT_TAIL(&b->sessions, session, link);
    if (!how->thrown_away)
        TAILQ_INSERT_TAIL(bucket(b, session->sandbox, session->name), session, named_link);
    kr_box_session_set_state(session, KR_BOX_SESSION_WAITING);
    if (!how->thrown_away)
        session->restarted = kr_store_session_known(b->config.store, u->id, s->row.id, how->name, NULL) == 1;
    *ret = session;
    return 0;
}

/* ---- runs and openers that wait for it ---- */

static void tell_openers(struct kr_box_session *session, const struct kr_err *err)
{
    struct kr_box_session_info info;
    unsigned count = session->opener_count;

    session->opener_count = 0;
    kr_box_session_get_info(session, &info);
    for (unsigned i = 0; i < count; i++)
        session->openers[i].on_open(session->openers[i].data, err ? NULL : &info, err);
}

void kr_box_session_fail(struct kr_box_session *session, enum kr_cause cause, const struct kr_err *err)
{
    struct kr_box_run *r;

    if (session->box->calls.on_refused)
        session->box->calls.on_refused(session->box->data, err);
    tell_openers(session, err);
    while ((r = TAILQ_FIRST(&session->waiting)))
        kr_box_run_drop(r, cause, err);
    remove_session(session);
}

void kr_box_session_release(struct kr_box_session *session)
{
    if (session->waiting_count || session->opener_count)
        return;
    if (session->state == KR_BOX_SESSION_WAITING)
        remove_session(session);
    else if (session->thrown_away && !session->current && !session->terminal)
        kr_box_session_end(session, "asked");
}

/* ---- callbacks of the engine ---- */

static void open_failed(struct kr_box_session *session, const struct kr_err *err)
{
    struct kr_box *b = session->box;

    if (err->kind != KR_ERR_LIMIT || !kr_box_session_wait_again(session, err)) {
        struct kr_err why = *err;

        if (why.kind == KR_ERR_LIMIT) /* of this moment, and of none that the caller could change */
            why.kind = KR_ERR_BUSY;
        kr_box_session_fail(session, KR_CAUSE_LOST, &why);
    }
    kr_box_check_stopped(b);
}

static void on_open(void *data, struct kr_session *s, const struct kr_err *err)
{
    struct kr_box_session *session = data;
    struct kr_box *b = session->box;

    if (!s) {
        open_failed(session, err);
        return;
    }
    session->engine_session = s;
    kr_box_session_set_state(session, KR_BOX_SESSION_LIVE);
    kr_box_egress_begin(session);
    if (b->calls.on_session_opened)
        b->calls.on_session_opened(b->data, kr_session_pooled(s), kr_clock_ns() - session->asked_ns);
    if (session->end_reason || b->stopping) {
        kr_box_session_end(session, session->end_reason ? session->end_reason : "stopping");
        return;
    }
    tell_openers(session, NULL);
    kr_box_session_proceed(session);
}

/* Its sandbox may have been changed, reset or deleted since. 0 or -errno. */
static int refresh_spec(struct kr_box_session *session, struct kr_err *err)
{
    struct kr_caller owner = {.user = session->user->id, .address = "", .request = "", .profile = session->profile};
    cleanup_box_sandbox struct kr_sandbox s = {0};
    int r = kr_box_sandbox_find(session->box, &owner, session->sandbox, &s, err);

    if (r >= 0 && fill_spec(session, &s, session->spec.workspace != KR_WORKSPACE_NONE) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a session's environment");
    return r;
}

/* Its process has ended: opens another one if runs or openers wait, else removes it. */
static void open_again(struct kr_box_session *session)
{
    struct kr_box *b = session->box;
    bool is_wanted = session->waiting_count || session->opener_count, can_be = !session->thrown_away && !b->stopping;
    struct kr_err err;

    if (is_wanted && can_be && kr_changes_looking(session)) /* after that: the folder may not be its own any more */
        return;
    kr_err_set(&err, KR_ERR_BUSY, 0, b->stopping ? KR_STOPPING : "the session ended too early");
    if (is_wanted && can_be && refresh_spec(session, &err) == 0) {
        kr_box_session_set_state(session, KR_BOX_SESSION_WAITING);
        session->end_reason = NULL;
        session->created_us = session->used_us = kr_store_now(); /* a new interpreter, which counts anew */
        session->executions = 0;
        session->asked_ns = kr_clock_ns();
        session->deadline_ns = kr_clock_after_ms(b->config.queue_wait_ms);
        kr_box_kick(b);
    } else if (is_wanted) {
        kr_box_session_fail(session, KR_CAUSE_LOST, &err);
    } else {
        remove_session(session);
    }
}

static void on_ended(void *data, struct kr_session *s, enum kr_cause cause, const char *message)
{
    struct kr_box_session *session = data;
    struct kr_box *b = session->box;

    (void)s;
    session->engine_session = NULL;
    kr_box_egress_end(session);
    kr_box_session_set_state(session, KR_BOX_SESSION_ENDED);
    if (b->calls.on_session_ended)
        b->calls.on_session_ended(b->data, session->end_reason ? session->end_reason
                                           : b->stopping       ? "stopping"
                                                               : "died");
    if (!session->end_reason)
        kr_log(KR_LOG_INFO, "session ended", "session=%s sandbox=%s cause=%s message=\"%.100s\"", session->name,
               session->sandbox, kr_cause_rows[cause].name, message ? message : "");
    if (!session->end_reason && !session->current)
        kr_notes_add(b, session, message);
    session->restarted |= session->executions > 0; /* one that had no run had nothing to lose */
    session->end_reason = NULL;
    if (!session->current) /* else when the end of its run is complete */
        open_again(session);
    kr_box_check_stopped(b);
}

static void on_between(void *data, struct kr_session *s, enum kr_stream stream, const char *text, size_t len)
{
    struct kr_box_session *session = data;
    char quoted[160];

    (void)s;
    if (session->chatted) /* logged once between two runs: a thread may write for ever */
        return;
    session->chatted = true;
    kr_log(KR_LOG_INFO, "output between runs", "session=%s sandbox=%s stream=%s bytes=%zu text=%s", session->name,
           session->sandbox, kr_stream_names[stream], len,
           kr_log_quote(quoted, sizeof quoted, text, len < 100 ? len : 100));
}

static void on_stdin_drained(void *data, struct kr_session *s)
{
    struct kr_box_session *session = data;

    (void)s;
    if (session->terminal)
        kr_box_terminal_takes(session->terminal);
}

static const struct kr_session_calls session_calls = {
    .on_open = on_open, .on_ended = on_ended, .on_between = on_between, .on_stdin_drained = on_stdin_drained};

/* Code may have closed its folder to itself (chmod); its next session must be able to enter it. */
static void open_workspace(const struct kr_box *b, const struct kr_session_spec *spec)
{
    char path[KR_STORE_ID_ROOM + 8];
    struct stat st;

    if (spec->workspace != KR_WORKSPACE_SHELF)
        return;
    snprintf(path, sizeof path, "%s/files", spec->folder);
    if (fstatat(b->shelf, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
        (st.st_mode & S_IRWXU) != S_IRWXU && fchmodat(b->shelf, path, (st.st_mode & 07777) | S_IRWXU, 0) < 0)
        kr_log(KR_LOG_WARN, "closed folder of a sandbox not opened, ignoring", "sandbox_folder=%s errno=%d",
               spec->folder, errno);
}

void kr_box_session_start(struct kr_box_session *session)
{
    struct kr_box *b = session->box;
    const struct kr_box_run *first = TAILQ_FIRST(&session->waiting);
    struct kr_session_spec spec;
    struct kr_err err;

    kr_box_session_set_state(session, KR_BOX_SESSION_OPENING);
    if (session->look == KR_BOX_LOOK_NEEDED)
        kr_changes_look(session, NULL);
    open_workspace(b, &session->spec);
    session->spec.disk_left = kr_disk_left(b, session->user);
    kr_disk_look(b, session->user);
    session->spec.owner = b->config.user_groups ? session->user->number : 0;
    session->spec.joins = b->config.user_groups && session->user->sessions > 1;
    spec = session->spec;
    kr_box_env_show(b, session, &spec);
    if (first)
        spec.zygote = kr_engine_zygote_for(b->engine, spec.zygote, first->spec.code.text, first->spec.code.len);
    if (kr_engine_open(b->engine, &spec, true, &session_calls, session, &err) < 0)
        open_failed(session, &err);
}

/* ---- going on ---- */

void kr_box_session_proceed(struct kr_box_session *session)
{
    struct kr_box *b = session->box;

    if (session->current || session->terminal || kr_changes_looking(session))
        return;
    if (session->state == KR_BOX_SESSION_GONE) {
        kr_box_session_free(session);
        return;
    }
    if (session->state == KR_BOX_SESSION_ENDED) {
        open_again(session);
        return;
    }
    if (session->state != KR_BOX_SESSION_LIVE)
        return;
    if (kr_session_state(session->engine_session) >= KR_SESSION_KILLED) { /* its end comes, and then goes on */
        kr_box_session_leave(session);
        return;
    }
    if (session->waiting_count && session->look == KR_BOX_LOOK_NEEDED) {
        kr_changes_look(session, NULL);
        if (kr_changes_looking(session))
            return;
    }
    session->used_us = kr_store_now();
    TAILQ_REMOVE(&b->sessions, session, link); /* most recently used last */
    TAILQ_INSERT_TAIL(&b->sessions, session, link);
    while (session->waiting_count && !kr_box_run_begin(TAILQ_FIRST(&session->waiting)))
        ; /* that one is over: the next */
    if (session->current)
        return;
    if (session->thrown_away || session->retired || b->stopping)
        kr_box_session_end(session, b->stopping ? "stopping" : "asked");
    else
        kr_box_kick(b); /* idle: it may give its slot to a session that waits */
}

void kr_box_session_leave(struct kr_box_session *session)
{
    if (session->state == KR_BOX_SESSION_LIVE)
        kr_box_session_set_state(session, KR_BOX_SESSION_LEAVING);
}

void kr_box_session_end(struct kr_box_session *session, const char *why)
{
    session->end_reason = why;
    if (session->state != KR_BOX_SESSION_LIVE)
        return;
    kr_box_session_leave(session);
    kr_session_close(session->engine_session);
}

void kr_box_session_cancel(struct kr_box_session *session, const char *why)
{
    struct kr_box_run *r;
    struct kr_err err;

    kr_err_set(&err, KR_ERR_CONFLICT, 0, "the session was closed");
    while ((r = TAILQ_FIRST(&session->waiting)))
        kr_box_run_drop(r, KR_CAUSE_CANCELLED, &err);
    if (session->state == KR_BOX_SESSION_WAITING) {
        kr_box_session_fail(session, KR_CAUSE_CANCELLED, &err);
        return;
    }
    kr_box_session_end(session, why);
    if (session->state == KR_BOX_SESSION_OPENING) /* openers that come from here on get a new process */
        tell_openers(session, &err);
}

void kr_box_sessions_end_sandbox(struct kr_box *b, const char *sandbox)
{
    struct kr_box_session *session, *next;

    for (session = TAILQ_FIRST(&b->sessions); session; session = next) {
        next = TAILQ_NEXT(session, link);
        if (strcmp(session->sandbox, sandbox) == 0)
            kr_box_session_cancel(session, "reset");
    }
}

/* ---- for the voices ---- */

void kr_box_session_get_info(const struct kr_box_session *session, struct kr_box_session_info *ret)
{
    *ret = (struct kr_box_session_info){.name = session->name,
                                        .sandbox = session->sandbox,
                                        .sandbox_name = session->sandbox_name,
                                        .owner = session->user->id,
                                        .live = session->state == KR_BOX_SESSION_LIVE,
                                        .busy = session->current || session->waiting_count,
                                        .created_us = session->created_us,
                                        .last_activity_us = session->used_us,
                                        .executions = session->executions,
                                        .queued = session->waiting_count,
                                        .session = session->engine_session};
}

static bool is_owned_by(const struct kr_box_session *session, const struct kr_caller *who, const char *sandbox)
{
    return strcmp(session->user->id, who->user) == 0 &&
           (!sandbox || strcmp(session->sandbox, sandbox) == 0 || strcmp(session->sandbox_name, sandbox) == 0);
}

void kr_box_sessions(struct kr_box *b, const struct kr_caller *who, const char *sandbox,
                     void (*on_session)(void *data, const struct kr_box_session_info *info), void *data)
{
    struct kr_box_session *session;
    struct kr_box_session_info info;

    TAILQ_FOREACH(session, &b->sessions, link)
    if (is_owned_by(session, who, sandbox) && !session->thrown_away && !session->end_reason) {
        kr_box_session_get_info(session, &info);
        on_session(data, &info);
    }
}

static struct kr_box_session *find_owned(struct kr_box *b, const struct kr_caller *who, const char *sandbox,
                                         const char *name, struct kr_err *err)
{
    struct kr_box_session *session, *other = NULL;

    TAILQ_FOREACH_REVERSE(session, &b->sessions, kr_box_session_list, link)
    if (is_owned_by(session, who, sandbox) && strcmp(session->name, name) == 0 && !session->end_reason) {
        if (session->profile == kr_box_profile(b, who))
            return session;
        other = other ? other : session;
    }
    if (other)
        return other;
    kr_err_set(err, KR_ERR_NOT_FOUND, 0, "there is no session of that name");
    return NULL;
}

int kr_box_session_find(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                        struct kr_box_session_info *ret, struct kr_err *err)
{
    struct kr_box_session *session = find_owned(b, who, sandbox, name, err);

    if (!session)
        return -ENOENT;
    kr_box_session_get_info(session, ret);
    return 0;
}

int kr_box_session_close(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                         struct kr_err *err)
{
    struct kr_box_session *session = find_owned(b, who, sandbox, name, err);

    if (!session)
        return -ENOENT;
    kr_box_audit(b, who, "session.close", name, "ok", NULL);
    kr_box_session_cancel(session, "asked");
    return 0;
}

void kr_box_sessions_retire(struct kr_box *b, const struct kr_caller *who, const char *name)
{
    struct kr_box_session *session, *next;

    for (session = TAILQ_FIRST(&b->sessions); session; session = next) {
        next = TAILQ_NEXT(session, link);
        if (!is_owned_by(session, who, NULL) || strcmp(session->name, name) != 0 || session->end_reason)
            continue;
        kr_box_audit(b, who, "session.close", name, "ok", NULL);
        if (session->current || session->waiting_count || session->opener_count)
            session->retired = true;
        else
            kr_box_session_cancel(session, "asked");
    }
}

int kr_box_session_interrupt(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                             struct kr_err *err)
{
    struct kr_box_session *session = find_owned(b, who, sandbox, name, err);

    if (!session)
        return -ENOENT;
    if (session->current && session->current->run)
        kr_run_interrupt(session->current->run, false);
    kr_box_audit(b, who, "session.interrupt", name, "ok", NULL);
    return 0;
}

/* The opener of a session that is live already is called in the next turn, with the starters of runs. */
int kr_box_session_open(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                        void (*on_opened)(void *data, const struct kr_box_session_info *info, const struct kr_err *err),
                        void *data, struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    char made_up[KR_STORE_ID_ROOM];
    struct kr_box_session *session;
    struct kr_box_user *u;
    int r = kr_box_may_run(b, who, err);

    if (r >= 0)
        r = kr_box_sandbox_find(b, who, sandbox, &s, err);
    if (r < 0)
        return r;
    if (b->stopping)
        return kr_err_set(err, KR_ERR_BUSY, 0, KR_STOPPING);
    if (name && *name && (r = kr_box_session_check_name(name, err)) < 0)
        return r;
    if (!name || !*name) {
        kr_store_new_id(made_up);
        name = made_up;
    }
    session = kr_box_session_by_name(b, s.row.id, name);
    u = kr_box_user_get(b, who->user);
    if (!u)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a user");
    if (!session)
        r = kr_box_session_new(b, u, kr_box_profile(b, who), &s,
                               &(struct kr_box_session_how){.name = name, .in_folder = true}, &session, err);
    kr_box_user_drop(b, u);
    if (r < 0 || !session)
        return r;
    if (session->opener_count == KR_BOX_OPENERS_MAX)
        return kr_err_set(err, KR_ERR_TOO_MANY, 0, "too many wait for this session");
    session->openers[session->opener_count++] = (struct kr_box_opener){on_opened, data};
    b->live_openers |= session->state == KR_BOX_SESSION_LIVE;
    kr_box_audit(b, who, "session.open", name, "ok", NULL);
    kr_box_kick(b);
    return 0;
}

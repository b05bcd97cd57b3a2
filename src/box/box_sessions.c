/* Named sessions of sandboxes: seats, which outlast the processes in them.
 *
 * Called by box_room.c, box_runs.c, box_sandboxes.c and the voices; callbacks of the engine arrive here. Invariants: a seat has
 * a place from OPENING until its process has ended; runs of a session whose process ended go on in a new one, and are
 * told so; a seat that nobody wants is not opened, and one for a single run goes with it. */
#include "box_internal.h"
#include "clock.h"
#include "fd.h"
#include "json.h"
#include "log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- finding, making, freeing ---- */

int kr_seat_check_name(const char *name, struct kr_err *err)
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

int kr_seat_check_sandbox(const struct kr_sandbox *s, struct kr_err *err)
{
    if (s->row.state != KR_STORE_SANDBOX_FROZEN)
        return 0;
    return kr_err_set(err, KR_ERR_DENIED, 0, "the sandbox is frozen");
}

static struct kr_box_session_list *bucket(struct kr_box *b, const char *sandbox, const char *name)
{
    uint32_t h = 2166136261u;

    for (; *sandbox; sandbox++)
        h = (h ^ (unsigned char)*sandbox) * 16777619u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return &b->named[h % KR_BOX_BUCKETS];
}

struct kr_box_session *kr_seat_find(struct kr_box *b, const char *sandbox, const char *name)
{
    struct kr_box_session *seat;

    TAILQ_FOREACH(seat, bucket(b, sandbox, name), named_link)
    if (strcmp(seat->name, name) == 0 && strcmp(seat->sandbox, sandbox) == 0)
        return seat;
    return NULL;
}

static int copy_env(const json_t *env, struct kr_session_spec *spec)
{
    const char **list = calloc(json_object_size(env) + 1, sizeof *list), *key;
    json_t *value;

    if (!list)
        return -ENOMEM;
    spec->env = list;
    json_object_foreach((json_t *)env, key, value)
    {
        char *text;

        if (asprintf(&text, "%s=%s", key, json_string_value(value)) < 0)
            return -ENOMEM;
        list[spec->env_count++] = text;
    }
    return 0;
}

static void free_env(struct kr_session_spec *spec)
{
    for (size_t i = 0; i < spec->env_count; i++)
        free((char *)spec->env[i]);
    free((void *)spec->env);
    spec->env = NULL;
    spec->env_count = 0;
}

void kr_seat_free(struct kr_box_session *seat)
{
    free_env(&seat->spec);
    kr_snapshot_free(seat->before);
    kr_box_user_drop(seat->box, seat->user);
    free(seat);
}

/* Out of the list; freed now, or when nobody looks at its folder any more. */
void kr_seat_remove(struct kr_box_session *seat)
{
    kr_seat_set_state(seat, KR_SEAT_CLOSING);
    if (!seat->gone)
        TAILQ_REMOVE(&seat->box->sessions, seat, link);
    if (!seat->gone && !seat->thrown_away)
        TAILQ_REMOVE(bucket(seat->box, seat->sandbox, seat->name), seat, named_link);
    seat->gone = true;
    if (!seat->looking)
        kr_seat_free(seat);
}

void kr_seat_set_state(struct kr_box_session *seat, enum kr_box_session_state next)
{
    int waits = (next == KR_SEAT_WAITING) - (seat->state == KR_SEAT_WAITING);

    if (waits > 0)
        TAILQ_INSERT_TAIL(&seat->box->waiting_list, seat, waiting_link);
    else if (waits < 0)
        TAILQ_REMOVE(&seat->box->waiting_list, seat, waiting_link);
    seat->state = next;
    seat->box->waiting += (size_t)waits;
    seat->user->waiting += (unsigned)waits;
}

static uint32_t zygote_of(const struct kr_box *b, enum kr_preload preload)
{
    for (size_t i = 0; i < kr_engine_zygote_count(b->engine); i++)
        if (kr_engine_zygote(b->engine, i).preload == preload)
            return (uint32_t)i;
    return 0;
}

/* What its sessions are opened with: the sandbox as it is now. 0 or -ENOMEM. */
static int fill_spec(struct kr_box_session *seat, const struct kr_sandbox *s, bool in_folder)
{
    free_env(&seat->spec);
    seat->spec = (struct kr_session_spec){.zygote = zygote_of(seat->box, s->preload),
                                          .network = s->network,
                                          .workspace = !in_folder                     ? KR_WORKSPACE_NONE
                                                       : kr_box_is_host(seat->box, s) ? 0
                                                                                      : KR_WORKSPACE_SHELF,
                                          .mounts = s->mounts,
                                          .limits = s->limits};
    if (seat->spec.workspace == KR_WORKSPACE_SHELF)
        snprintf(seat->spec.folder, sizeof seat->spec.folder, "%s", s->row.folder);
    seat->looked = !in_folder;
    return copy_env(json_object_get(s->settings, "env"), &seat->spec);
}

int kr_seat_new(struct kr_box *b, struct kr_box_user *u, const struct kr_sandbox *s, const char *name, bool thrown_away,
                bool in_folder, struct kr_box_session **ret, struct kr_err *err)
{
    struct kr_box_session *seat;

    if (b->waiting >= KR_BOX_WAITING_MAX || u->waiting >= KR_BOX_WAITING_USER_MAX)
        return kr_err_set(err, KR_ERR_BUSY, 0, "too many wait for a session; try again in a moment");
    seat = calloc(1, sizeof *seat);
    if (!seat)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a session");
    seat->state = KR_SEAT_CLOSING; /* until it is in the list */
    seat->box = b;
    seat->user = u;
    u->refs++;
    seat->thrown_away = thrown_away;
    seat->created_us = seat->used_us = kr_store_now();
    seat->asked_ns = kr_clock_ns();
    seat->deadline_ns = kr_clock_after_ms(b->config.queue_wait_ms);
    TAILQ_INIT(&seat->waiting);
    snprintf(seat->sandbox, sizeof seat->sandbox, "%s", s->row.id);
    snprintf(seat->sandbox_name, sizeof seat->sandbox_name, "%s", s->row.name);
    snprintf(seat->name, sizeof seat->name, "%s", name);
    if (fill_spec(seat, s, in_folder) < 0) {
        kr_seat_free(seat);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a session's environment");
    }
    TAILQ_INSERT_TAIL(&b->sessions, seat, link);
    if (!thrown_away)
        TAILQ_INSERT_TAIL(bucket(b, seat->sandbox, seat->name), seat, named_link);
    kr_seat_set_state(seat, KR_SEAT_WAITING);
    if (!thrown_away)
        seat->restarted = kr_store_session_known(b->config.store, u->id, s->row.id, name, NULL) == 1;
    *ret = seat;
    return 0;
}

/* ---- who waits for it ---- */

static void tell_openers(struct kr_box_session *seat, const struct kr_err *err)
{
    struct kr_box_session_info info;
    unsigned count = seat->opener_count;

    seat->opener_count = 0;
    seat->box->openers -= count;
    kr_seat_info(seat, &info);
    for (unsigned i = 0; i < count; i++)
        seat->openers[i].on_open(seat->openers[i].data, err ? NULL : &info, err);
}

void kr_seat_failed(struct kr_box_session *seat, enum kr_cause cause, const struct kr_err *err)
{
    struct kr_box_run *r;

    if (seat->box->calls.on_refused)
        seat->box->calls.on_refused(seat->box->data, err);
    tell_openers(seat, err);
    while ((r = TAILQ_FIRST(&seat->waiting)))
        kr_box_run_drop(r, cause, err);
    kr_seat_remove(seat);
}

void kr_seat_left(struct kr_box_session *seat)
{
    if (seat->waiting_count || seat->opener_count)
        return;
    if (seat->state == KR_SEAT_WAITING)
        kr_seat_remove(seat);
    else if (seat->thrown_away && !seat->current)
        kr_seat_close(seat, "asked");
}

/* ---- the engine's word ---- */

static void leave_place(struct kr_box_session *seat)
{
    seat->box->live--;
    seat->user->sessions--;
    if (seat->leaving) {
        seat->leaving = false;
        seat->box->leaving--;
        seat->user->leaving--;
    }
    kr_box_kick(seat->box); /* somebody may wait for it */
}

static void open_failed(struct kr_box_session *seat, const struct kr_err *err)
{
    struct kr_box *b = seat->box;

    leave_place(seat);
    if (err->kind != KR_ERR_LIMIT || !kr_seat_waits_again(seat))
        kr_seat_failed(seat, KR_CAUSE_LOST, err);
    kr_box_check_stopped(b);
}

static void on_open(void *data, struct kr_session *s, const struct kr_err *err)
{
    struct kr_box_session *seat = data;
    struct kr_box *b = seat->box;

    if (!s) {
        open_failed(seat, err);
        return;
    }
    seat->session = s;
    kr_seat_set_state(seat, KR_SEAT_LIVE);
    if (b->calls.on_session_opened)
        b->calls.on_session_opened(b->data, kr_session_pooled(s), kr_clock_ns() - seat->asked_ns);
    if (seat->closed || b->stopping) {
        kr_seat_close(seat, seat->closed ? seat->why : "stopping");
        return;
    }
    tell_openers(seat, NULL);
    kr_seat_go_on(seat);
}

/* Its sandbox may have been changed, reset or deleted since. 0 or -errno. */
static int spec_again(struct kr_box_session *seat, struct kr_err *err)
{
    struct kr_caller owner = {.user = seat->user->id, .address = "", .request = ""};
    cleanup_box_sandbox struct kr_sandbox s = {0};
    int r = kr_box_sandbox_find(seat->box, &owner, seat->sandbox, &s, err);

    kr_snapshot_free(seat->before);
    seat->before = NULL;
    if (r >= 0 && fill_spec(seat, &s, seat->spec.workspace != KR_WORKSPACE_NONE) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a session's environment");
    return r;
}

/* Its process is gone: another for those who wait, or none. */
static void seat_again(struct kr_box_session *seat)
{
    struct kr_box *b = seat->box;
    bool is_wanted = seat->waiting_count || seat->opener_count, can_be = !seat->thrown_away && !b->stopping;
    struct kr_err err;

    if (is_wanted && can_be && seat->looking) { /* at a folder that may not be its own any more: after that */
        kr_seat_set_state(seat, KR_SEAT_CLOSING);
        return;
    }
    kr_err_set(&err, KR_ERR_UNAVAILABLE, 0, b->stopping ? KR_STOPPING : "the session ended too early");
    if (is_wanted && can_be && spec_again(seat, &err) == 0) {
        kr_seat_set_state(seat, KR_SEAT_WAITING);
        seat->closed = false;
        seat->created_us = seat->used_us = kr_store_now(); /* a new interpreter, which counts anew */
        seat->executions = 0;
        seat->asked_ns = kr_clock_ns();
        seat->deadline_ns = kr_clock_after_ms(b->config.queue_wait_ms);
        kr_box_kick(b);
    } else if (is_wanted) {
        kr_seat_failed(seat, KR_CAUSE_LOST, &err);
    } else {
        kr_seat_remove(seat);
    }
}

static void on_ended(void *data, struct kr_session *s, enum kr_cause cause, const char *message)
{
    struct kr_box_session *seat = data;
    struct kr_box *b = seat->box;

    (void)s;
    seat->session = NULL;
    leave_place(seat);
    if (b->calls.on_session_ended)
        b->calls.on_session_ended(b->data, seat->closed ? seat->why : b->stopping ? "stopping" : "died");
    if (!seat->closed)
        kr_log(KR_LOG_INFO, "a session ended", "session=%s sandbox=%s cause=%s message=\"%.100s\"", seat->name,
               seat->sandbox, kr_cause_rows[cause].name, message ? message : "");
    seat->restarted |= seat->executions > 0; /* one that had no run had nothing to lose */
    seat->closed = false;
    if (seat->current) /* its run's end is still being put together, and then goes on here */
        kr_seat_set_state(seat, KR_SEAT_CLOSING);
    else
        seat_again(seat);
    kr_box_check_stopped(b);
}

static void on_between(void *data, struct kr_session *s, enum kr_stream stream, const char *text, size_t len)
{
    struct kr_box_session *seat = data;
    char quoted[160];

    (void)s;
    if (seat->chatted) /* once between two runs: a thread may go on for ever */
        return;
    seat->chatted = true;
    kr_log(KR_LOG_INFO, "output between runs", "session=%s sandbox=%s stream=%s bytes=%zu text=%s", seat->name,
           seat->sandbox, kr_stream_names[stream], len,
           kr_log_quote(quoted, sizeof quoted, text, len < 100 ? len : 100));
}

static const struct kr_session_calls session_calls = {
    .on_open = on_open, .on_ended = on_ended, .on_between = on_between};

void kr_seat_open(struct kr_box_session *seat)
{
    struct kr_box *b = seat->box;
    struct kr_err err;

    kr_seat_set_state(seat, KR_SEAT_OPENING);
    b->live++;
    seat->user->sessions++;
    if (!seat->looked) {
        seat->looked = true;
        kr_changes_look(seat, NULL);
    }
    seat->spec.growth = kr_disk_left(b, seat->user, seat->spec.limits.disk);
    kr_disk_look(b, seat->user);
    if (kr_engine_open(b->engine, &seat->spec, true, &session_calls, seat, &err) < 0)
        open_failed(seat, &err);
}

/* ---- going on ---- */

void kr_seat_go_on(struct kr_box_session *seat)
{
    struct kr_box *b = seat->box;

    if (seat->gone) {
        if (!seat->looking)
            kr_seat_free(seat);
        return;
    }
    if (seat->current || seat->looking)
        return;
    if (seat->state == KR_SEAT_CLOSING && !seat->session) { /* its process went with its last run */
        seat_again(seat);
        return;
    }
    if (seat->state != KR_SEAT_LIVE)
        return;
    if (kr_session_state(seat->session) >= KR_SESSION_KILLED) { /* its end comes, and then goes on */
        kr_seat_leaves(seat);
        return;
    }
    if (seat->waiting_count && !seat->looked) {
        seat->looked = true;
        kr_changes_look(seat, NULL);
        if (seat->looking)
            return;
    }
    seat->used_us = kr_store_now();
    TAILQ_REMOVE(&b->sessions, seat, link); /* most recently used last */
    TAILQ_INSERT_TAIL(&b->sessions, seat, link);
    while (seat->waiting_count && !kr_box_run_begin(TAILQ_FIRST(&seat->waiting)))
        ; /* that one never will: the next */
    if (seat->current)
        return;
    if (seat->thrown_away || b->stopping)
        kr_seat_close(seat, b->stopping ? "stopping" : "asked");
    else
        kr_box_kick(b); /* idle: it may make room for somebody */
}

void kr_seat_leaves(struct kr_box_session *seat)
{
    if (seat->state != KR_SEAT_LIVE)
        return;
    kr_seat_set_state(seat, KR_SEAT_CLOSING);
    seat->leaving = true;
    seat->box->leaving++;
    seat->user->leaving++;
}

void kr_seat_close(struct kr_box_session *seat, const char *why)
{
    seat->closed = true;
    seat->why = why;
    if (seat->state != KR_SEAT_LIVE)
        return;
    kr_seat_leaves(seat);
    kr_session_close(seat->session);
}

/* A seat that has no session yet and is not wanted any more. */
static void seat_cancel(struct kr_box_session *seat, const char *why)
{
    struct kr_box_run *r;
    struct kr_err err;

    kr_err_set(&err, KR_ERR_CONFLICT, 0, "the session was closed");
    while ((r = TAILQ_FIRST(&seat->waiting)))
        kr_box_run_drop(r, KR_CAUSE_CANCELLED, &err);
    if (seat->state == KR_SEAT_WAITING) {
        kr_seat_failed(seat, KR_CAUSE_CANCELLED, &err);
        return;
    }
    kr_seat_close(seat, why);
    if (seat->state == KR_SEAT_OPENING) /* who comes from here on gets a new one */
        tell_openers(seat, &err);
}

void kr_seats_close_sandbox(struct kr_box *b, const char *sandbox)
{
    struct kr_box_session *seat, *next;

    for (seat = TAILQ_FIRST(&b->sessions); seat; seat = next) {
        next = TAILQ_NEXT(seat, link);
        if (strcmp(seat->sandbox, sandbox) == 0)
            seat_cancel(seat, "reset");
    }
}

/* ---- for the voices ---- */

void kr_seat_info(const struct kr_box_session *seat, struct kr_box_session_info *ret)
{
    *ret = (struct kr_box_session_info){.name = seat->name,
                                        .sandbox = seat->sandbox,
                                        .sandbox_name = seat->sandbox_name,
                                        .owner = seat->user->id,
                                        .live = seat->state == KR_SEAT_LIVE,
                                        .busy = seat->current || seat->waiting_count,
                                        .created_us = seat->created_us,
                                        .last_activity_us = seat->used_us,
                                        .executions = seat->executions,
                                        .queued = seat->waiting_count,
                                        .session = seat->session};
}

static bool is_of(const struct kr_box_session *seat, const struct kr_caller *who, const char *sandbox)
{
    return !seat->gone && strcmp(seat->user->id, who->user) == 0 &&
           (!sandbox || strcmp(seat->sandbox, sandbox) == 0 || strcmp(seat->sandbox_name, sandbox) == 0);
}

void kr_box_sessions(struct kr_box *b, const struct kr_caller *who, const char *sandbox,
                     void (*on_session)(void *data, const struct kr_box_session_info *info), void *data)
{
    struct kr_box_session *seat;
    struct kr_box_session_info info;

    TAILQ_FOREACH(seat, &b->sessions, link)
    if (is_of(seat, who, sandbox) && !seat->thrown_away && !seat->closed) {
        kr_seat_info(seat, &info);
        on_session(data, &info);
    }
}

static struct kr_box_session *find_of(struct kr_box *b, const struct kr_caller *who, const char *sandbox,
                                      const char *name, struct kr_err *err)
{
    struct kr_box_session *seat;

    TAILQ_FOREACH_REVERSE(seat, &b->sessions, kr_box_session_list, link)
    if (is_of(seat, who, sandbox) && strcmp(seat->name, name) == 0 && !seat->closed)
        return seat;
    kr_err_set(err, KR_ERR_NOT_FOUND, 0, "there is no session of that name");
    return NULL;
}

int kr_box_session_find(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                        struct kr_box_session_info *ret, struct kr_err *err)
{
    struct kr_box_session *seat = find_of(b, who, sandbox, name, err);

    if (!seat)
        return -ENOENT;
    kr_seat_info(seat, ret);
    return 0;
}

int kr_box_session_close(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                         struct kr_err *err)
{
    struct kr_box_session *seat = find_of(b, who, sandbox, name, err);

    if (!seat)
        return -ENOENT;
    kr_box_audit(b, who, "session.close", name, "ok", NULL);
    seat_cancel(seat, "asked");
    return 0;
}

int kr_box_session_interrupt(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                             struct kr_err *err)
{
    struct kr_box_session *seat = find_of(b, who, sandbox, name, err);

    if (!seat)
        return -ENOENT;
    if (seat->current && seat->current->run)
        kr_run_interrupt(seat->current->run, false);
    kr_box_audit(b, who, "session.interrupt", name, "ok", NULL);
    return 0;
}

/* A seat that is live already: its opener is told in the next turn, with those of runs. */
int kr_box_session_open(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                        void (*on_opened)(void *data, const struct kr_box_session_info *info, const struct kr_err *err),
                        void *data, struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    char made_up[KR_STORE_ID_ROOM];
    struct kr_box_session *seat;
    struct kr_box_user *u;
    int r = kr_box_sandbox_find(b, who, sandbox, &s, err);

    if (r < 0 || (r = kr_seat_check_sandbox(&s, err)) < 0)
        return r;
    if (b->stopping)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, KR_STOPPING);
    if (name && *name && (r = kr_seat_check_name(name, err)) < 0)
        return r;
    if (!name || !*name) {
        kr_store_new_id(made_up);
        name = made_up;
    }
    seat = kr_seat_find(b, s.row.id, name);
    u = kr_box_user_get(b, who->user);
    if (!u)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a user");
    if (!seat)
        r = kr_seat_new(b, u, &s, name, false, true, &seat, err);
    kr_box_user_drop(b, u);
    if (r < 0 || !seat)
        return r;
    if (seat->opener_count == KR_BOX_OPENERS_MAX)
        return kr_err_set(err, KR_ERR_TOO_MANY, 0, "too many wait for this session");
    seat->openers[seat->opener_count++] = (struct kr_box_opener){on_opened, data};
    b->openers++;
    kr_box_audit(b, who, "session.open", name, "ok", NULL);
    kr_box_kick(b);
    return 0;
}

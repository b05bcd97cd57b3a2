/* Runs: from a voice's specification to a position in the queue of a session; what a run is; its starter.
 *
 * Called by the voices, and by the other files of runs: box_run_events.c (from its begin to its end),
 * box_run_readers.c (readers, cancel). Invariants: the starter of a run hears of it exactly once, from the loop, and
 * never from inside its own call; what waits is bounded in number and bytes. */
#include "box_internal.h"
#include "clock.h"
#include "hash.h"
#include "json.h"
#include "log.h"
#include "policy_json.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_BYTES_MAX (16u << 10)  /* of a log that is kept with its run's row; the log itself has a smaller one */
#define TOUCH_US INT64_C(10000000) /* a sandbox's last use is noted so exactly */

/* ---- finding ---- */

static struct kr_box_run_list *bucket(struct kr_box *b, const char *id)
{
    return &b->buckets[kr_hash_text(KR_HASH_START, id) % KR_BOX_BUCKETS];
}

struct kr_box_run *kr_box_run_by_id(struct kr_box *b, const char *id)
{
    struct kr_box_run *r;

    TAILQ_FOREACH(r, bucket(b, id), all)
    if (strcmp(r->id, id) == 0)
        return r;
    return NULL;
}

struct kr_box_run *kr_box_run_find(struct kr_box *b, const struct kr_caller *who, const char *id)
{
    struct kr_box_run *r = kr_box_run_by_id(b, id);

    return r && strcmp(r->user->id, who->user) == 0 ? r : NULL;
}

/* ---- events, and the starter ---- */

void kr_box_run_log_json(struct kr_box_run *r, enum kr_event_type type, struct kr_buf *buf, struct kr_json *j)
{
    if (kr_json_done(j) < 0)
        return;
    if (kr_runlog_add(r->log, type, buf->data, buf->len) == 1 && r->run)
        kr_session_pause(kr_run_session(r->run), true);
}

static void log_queued(struct kr_box_run *r, unsigned ahead)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, 4096);
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    kr_json_key_str(&j, "run_id", r->id);
    kr_json_key_str(&j, "session_id", r->session_name);
    kr_json_key_uint(&j, "ahead", ahead);
    if (r->session->current) {
        kr_json_key_str(&j, "behind", r->session->current->id);
        kr_json_key_bool(&j, "behind_asks", r->session->current->run && kr_run_asks(r->session->current->run));
    }
    kr_json_object_end(&j);
    kr_box_run_log_json(r, KR_EVENT_QUEUED, &buf, &j);
}

void kr_box_run_log_started(struct kr_box_run *r)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, 4096);
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    kr_json_key_str(&j, "run_id", r->id);
    kr_json_key_str(&j, "session_id", r->session_name);
    kr_json_key_str(&j, "sandbox_id", r->sandbox);
    kr_json_key_bool(&j, "session_restarted", r->restarted);
    if (r->notice[0])
        kr_json_key_str(&j, "session_notice", r->notice);
    kr_json_key_bool(&j, "session_frozen", r->thawed);
    kr_json_object_end(&j);
    kr_box_run_log_json(r, KR_EVENT_STARTED, &buf, &j);
}

static void tell_in_this_turn(struct kr_box_run *r, enum kr_box_run_news news)
{
    if (r->news != KR_BOX_NEWS_NONE)
        return;
    r->news = news;
    TAILQ_INSERT_TAIL(&r->box->untold, r, untold);
    kr_box_kick(r->box);
}

void kr_box_run_tell_later(struct kr_box_run *r)
{
    tell_in_this_turn(r, KR_BOX_NEWS_RUN);
}

void kr_box_run_refuse_later(struct kr_box_run *r, const struct kr_err *err)
{
    r->refusal = *err;
    tell_in_this_turn(r, KR_BOX_NEWS_REFUSED);
}

void kr_box_run_tell_never(struct kr_box_run *r)
{
    if (r->news == KR_BOX_NEWS_RUN || r->news == KR_BOX_NEWS_REFUSED)
        TAILQ_REMOVE(&r->box->untold, r, untold);
    r->news = KR_BOX_NEWS_TOLD;
}

void kr_box_run_tell_now(struct kr_box_run *r)
{
    bool is_refused = r->news == KR_BOX_NEWS_REFUSED;

    if (r->news == KR_BOX_NEWS_TOLD)
        return;
    kr_box_run_tell_never(r);
    if (r->on_admitted)
        r->on_admitted(r->data, is_refused ? NULL : r, is_refused ? &r->refusal : NULL);
}

void kr_box_tell_admitted(struct kr_box *b)
{
    struct kr_box_run *r;

    while ((r = TAILQ_FIRST(&b->untold))) {
        kr_box_run_tell_now(r);
        if (r->state == KR_BOX_RUN_OVER)
            kr_box_run_free(r);
    }
}

/* ---- its state, its life as a struct ---- */

void kr_box_run_set_state(struct kr_box_run *r, enum kr_box_run_state next)
{
#define TO(state) (1u << KR_BOX_RUN_##state)
    static const unsigned allowed[KR_BOX_RUN_STATE_MAX_] = {
        [KR_BOX_RUN_WAITING] = TO(RUNNING) | TO(OVER), /* OVER: it never began */
        [KR_BOX_RUN_RUNNING] = TO(ENDING),             /* and is freed when its end is complete */
    };
#undef TO

    assert(allowed[r->state] & 1u << next);
    r->state = next;
}

/* What it was asked to run: with the engine, or not needed any more. */
void kr_box_run_free_texts(struct kr_box_run *r)
{
    r->box->queued_bytes -= r->queued_bytes;
    r->user->queued_bytes -= r->queued_bytes;
    r->queued_bytes = 0;
    kr_run_spec_done(&r->spec);
    r->spec.policy = NULL;
    free(r->policy);
    r->policy = NULL;
}

void kr_box_run_free(struct kr_box_run *r)
{
    kr_box_run_tell_never(r);
    kr_box_run_free_texts(r);
    TAILQ_REMOVE(bucket(r->box, r->id), r, all);
    r->box->run_count--;
    kr_timer_close(r->linger);
    free(r->network);
    kr_runlog_unref(r->log);
    kr_box_user_drop(r->box, r->user);
    kr_buf_done(&r->end);
    kr_buf_done(&r->log_bytes);
    free(r);
}

/* Counts what it takes while it waits. 0 or KR_ERR_TOO_MANY. */
static int count_texts(struct kr_box_run *r, struct kr_err *err)
{
    struct kr_box *b = r->box;
    size_t bytes = KR_BOX_RUN_BYTES + kr_run_spec_bytes(&r->spec);

    if (b->queued_bytes + bytes > KR_BOX_QUEUED_BYTES || r->user->queued_bytes + bytes > KR_BOX_QUEUED_USER_BYTES)
        return kr_err_set(err, KR_ERR_TOO_MANY, 0, "too many runs wait already; try again in a moment");
    r->queued_bytes = bytes;
    b->queued_bytes += bytes;
    r->user->queued_bytes += bytes;
    return 0;
}

static void on_log_room(void *data, struct kr_runlog *log)
{
    struct kr_box_run *r = data;

    (void)log;
    if (r->run)
        kr_session_pause(kr_run_session(r->run), false);
}

static int run_new(struct kr_box *b, struct kr_box_user *u, const struct kr_run_spec *spec, struct kr_box_run **ret,
                   struct kr_err *err)
{
    struct kr_box_run *r = calloc(1, sizeof *r);
    struct kr_runlog_spec log = {.on_room = on_log_room, .data = r};
    int e;

    if (!r)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a run");
    r->box = b;
    r->user = u;
    u->refs++;
    b->run_count++;
    kr_store_new_id(r->id);
    TAILQ_INSERT_TAIL(bucket(b, r->id), r, all);
    kr_buf_init(&r->end, 8u << 20);
    kr_buf_init(&r->log_bytes, LOG_BYTES_MAX);
    log.id = r->id;
    e = kr_run_spec_copy(spec, &r->spec);
    if (e >= 0)
        e = kr_runlog_new(b->logs, &log, &r->log);
    if (e < 0) {
        kr_box_run_free(r);
        return kr_err_set(err, KR_ERR_SYSTEM, -e, "a run");
    }
    e = count_texts(r, err);
    if (e < 0) {
        kr_box_run_free(r);
        return e;
    }
    *ret = r;
    return 0;
}

/* ---- start ---- */

/* Whether each key can be a name in Python. Letters of other alphabets are not judged here. */
static int check_variables(const json_t *variables, struct kr_err *err)
{
    const char *key, *p;
    json_t *value;

    if (variables && !json_is_object(variables))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "variables: an object");
    json_object_foreach((json_t *)variables, key, value)
    {
        for (p = key; isalpha((unsigned char)*p) || *p == '_' || (unsigned char)*p >= 0x80 ||
                      (p > key && isdigit((unsigned char)*p));
             p++)
            ;
        if (p == key || *p)
            return kr_err_set(err, KR_ERR_INVALID, 0, "variables: %.40s is no name", key), -EINVAL;
    }
    return 0;
}

static int check_spec(const struct kr_box *b, const struct kr_caller *who, const struct kr_run_spec *spec,
                      struct kr_err *err)
{
    uint64_t longest = kr_box_profile(b, who)->ceilings.timeout_ms;
    int r;

    if (b->stopping)
        return kr_err_set(err, KR_ERR_BUSY, 0, KR_STOPPING);
    if ((r = kr_box_may_run(b, who, err)) < 0)
        return r;
    if (!spec->code.text)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "code: missing");
    if (memchr(spec->code.text, '\0', spec->code.len))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "code: has a NUL character");
    if ((r = kr_box_session_check_name(spec->session, err)) < 0)
        return r;
    if (longest && spec->timeout_ms > longest)
        return kr_err_set(err, KR_ERR_INVALID, ERANGE, "timeout: at most %.10g s", (double)longest / 1000);
    if ((r = check_variables(spec->variables, err)) < 0)
        return r;
    return kr_box_env_check(spec->env, err);
}

/* The rule that it asked for, which may only take away from what the sandbox has. */
static int take_network(struct kr_box_run *r, const struct kr_net_rule *own, struct kr_err *err)
{
    struct kr_net_rule *rule = r->spec.network ? malloc(sizeof *rule) : NULL;
    char text[KR_NET_RULE_ROOM];
    int e;

    if (!r->spec.network)
        return 0;
    if (!rule)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a run");
    r->network = rule;
    e = kr_net_rule_parse(r->spec.network, rule, err);
    if (e < 0)
        return kr_err_wrap(err, e, "network");
    if (kr_net_rule_within(rule, own))
        return 0;
    return kr_err_set(err, KR_ERR_INVALID, 0,
                      "network: %.60s is more than the sandbox's own network, which is %.60s; a run can only lower it",
                      r->spec.network, kr_net_rule_text(own, text, sizeof text)),
           -ERANGE;
}

/* ---- its policy ---- */

#define JUDGE_MS 5000u /* of code that is judged and not run */
#define JUDGE_MEMORY (UINT64_C(256) << 20)

static int keep_policy(struct kr_box_run *r, const struct kr_policy_spec *policy, struct kr_err *err)
{
    if (policy->mode == KR_POLICY_OPEN || r->spec.own_code)
        return 0;
    if (r->spec.shell)
        return kr_err_set(err, KR_ERR_DENIED, 0, "shell commands are not allowed under the policy restricted");
    r->policy = malloc(sizeof *policy);
    if (!r->policy)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a run");
    *r->policy = *policy;
    return 0;
}

static int take_policy(struct kr_box_run *r, const struct kr_policy_spec *has, const struct kr_policy_ask *ask,
                       struct kr_err *err)
{
    struct kr_policy_spec policy;
    int e = kr_policy_narrow(has, ask, "the sandbox", &policy, err);

    if (e >= 0 && r->network && r->network->kind != KR_NET_NONE && !kr_policy_has(&policy, KR_POLICY_NETWORK))
        return kr_err_set(err, KR_ERR_INVALID, 0,
                          "network: %s needs the profile network, which the policy of this run does not have",
                          kr_net_kind_names[r->network->kind]),
               -EINVAL;
    return e < 0 ? e : keep_policy(r, &policy, err);
}

/* In a session that is there: its rights are those of its cell, its list of modules may be narrowed. */
static int join_policy(struct kr_box_run *r, const struct kr_sandbox *s, const struct kr_policy_ask *ask,
                       struct kr_err *err)
{
    struct kr_box_session *session = r->session;
    struct kr_policy_spec now, policy;
    int e;

    kr_box_session_policy_now(session, s, &now);
    e = kr_policy_narrow(&now, ask, "the session", &policy, err);
    if (e >= 0 && !kr_policy_same_rights(&now, &policy))
        return kr_err_set(err, KR_ERR_CONFLICT, 0,
                          "policy: session %.40s is there already with other rights; use another session, or a fresh "
                          "one",
                          session->name);
    if (e >= 0 && session->state == KR_BOX_SESSION_LIVE && !session->current && !session->waiting_count &&
        !kr_box_session_has_rights(session, &now))
        kr_box_session_end(session, "reset"); /* the policy of its sandbox has changed: a new session under that one */
    return e < 0 ? e : keep_policy(r, &policy, err);
}

/* A session for code that is judged: it needs nothing of the sandbox. */
static int take_judge(struct kr_box *b, struct kr_box_run *r, const struct kr_profile *profile,
                      const struct kr_sandbox *s, const struct kr_policy_ask *ask, struct kr_err *err)
{
    struct kr_box_session_how how = {.name = r->id, .thrown_away = true, .policy = ask};
    struct kr_sandbox mine = *s; /* borrowed */
    int e;

    mine.settings = NULL;
    mine.preload = KR_PRELOAD_BASIC;
    mine.network = (struct kr_net_rule){.kind = KR_NET_NONE};
    mine.mounts = 0;
    mine.auto_install = false;
    if (!mine.limits.memory || mine.limits.memory > JUDGE_MEMORY)
        mine.limits.memory = JUDGE_MEMORY;
    r->spec.timeout_ms = JUDGE_MS;
    r->spec.fresh = true;
    r->spec.shell = r->spec.interactive = false;
    e = take_policy(r, &mine.policy, ask, err);
    return e < 0 ? e : kr_box_session_new(b, r->user, profile, &mine, &how, &r->session, err);
}

/* Finds the session that it runs in, or makes one. */
static int take_session(struct kr_box *b, const struct kr_caller *who, const struct kr_run_spec *spec,
                        struct kr_box_run *r, struct kr_err *err)
{
    const struct kr_profile *profile = kr_box_profile(b, who);
    const char *name = spec->session ? spec->session : KR_BOX_MAIN;
    struct kr_policy_ask ask = {0};
    struct kr_box_session_how how = {.name = name, .in_folder = true, .policy = &ask};
    struct kr_sandbox *s = NULL;
    int e = spec->asks.policy ? kr_policy_ask_mode(&ask, spec->asks.policy, err) : 0;

    if (e >= 0)
        e = kr_policy_ask_json(&ask, NULL, spec->asks.profiles, spec->asks.allowed_imports, err);
    if (e >= 0)
        e = kr_box_sandbox_use(b, who, spec->sandbox, &s, err);
    if (e < 0)
        return e;
    snprintf(r->sandbox, sizeof r->sandbox, "%s", s->row.id);
    if (!r->spec.timeout_ms)
        r->spec.timeout_ms = s->limits.timeout_ms;
    if (!r->spec.output_cap || (uint64_t)r->spec.output_cap > s->limits.output)
        r->spec.output_cap = (int64_t)s->limits.output;
    r->touches = kr_store_now() - s->row.used >= TOUCH_US;
    if (r->touches)
        s->row.used = kr_store_now();
    if (spec->judge_only)
        return take_judge(b, r, profile, s, &ask, err);
    e = take_network(r, &s->network, err);
    if (e < 0)
        return e;
    if (spec->fresh) {
        struct kr_sandbox mine = *s; /* borrowed: its cell is made for this run, under the rule of this run */

        mine.network = r->network ? *r->network : s->network;
        how = (struct kr_box_session_how){
            .name = r->id, .thrown_away = true, .in_folder = spec->sandbox != NULL, .policy = &ask};
        e = take_policy(r, &s->policy, &ask, err);
        return e < 0 ? e : kr_box_session_new(b, r->user, profile, &mine, &how, &r->session, err);
    }
    r->session = kr_box_session_by_name(b, s->row.id, name);
    if (!r->session) {
        e = take_policy(r, &s->policy, &ask, err);
        return e < 0 ? e : kr_box_session_new(b, r->user, profile, s, &how, &r->session, err);
    }
    e = join_policy(r, s, &ask, err);
    if (e < 0)
        return e;
    if (r->session->state == KR_BOX_SESSION_LIVE && !r->session->current &&
        r->session->spec.workspace == KR_WORKSPACE_SHELF && strcmp(r->session->spec.folder, s->row.folder) != 0)
        kr_box_session_end(r->session,
                           "reset"); /* another process gave the sandbox a new folder: a new session in that one */
    if (r->session->waiting_count >= b->config.queue_max)
        return kr_err_set(err, KR_ERR_TOO_MANY, 0, "%u runs wait for this session already; try again in a moment",
                          b->config.queue_max);
    return 0;
}

void kr_box_run_note_start(struct kr_box_run *r, const struct kr_text *code)
{
    struct kr_box *b = r->box;
    struct kr_caller who = {.user = r->user->id, .address = r->address, .request = r->request};
    struct kr_store_run_start row = {.id = r->id,
                                     .owner = r->user->id,
                                     .sandbox = r->sandbox,
                                     .code = code->text,
                                     .code_len = code->len,
                                     .started = r->asked_us};
    struct kr_err err;

    if (r->noted)
        return;
    r->noted = true;
    row.session = r->session->thrown_away ? NULL : r->session->name;
    if (kr_store_run_start(b->config.store, &row, &err) < 0) {
        kr_log(KR_LOG_ERROR, "row of a run lost", "run=%s error=\"%s\"", r->id, err.msg);
        b->notes_fail = true;
    }
    kr_box_audit_soon(b, &who, "run.start", r->id, "ok", NULL); /* both are safe at the end of this turn */
    if (r->touches)
        (void)kr_store_sandbox_touch(b->config.store, r->user->id, r->sandbox, r->asked_us, NULL);
}

int kr_box_run_start(struct kr_box *b, const struct kr_caller *who, const struct kr_run_spec *spec,
                     kr_box_admitted_fn *on_admitted, void *data, struct kr_box_run **ret_run, struct kr_err *err)
{
    struct kr_box_user *u;
    struct kr_box_run *r = NULL;
    int e = check_spec(b, who, spec, err);

    if (e >= 0 && b->notes_fail) /* a run that leaves no row is refused before it has an effect */
        e = kr_box_can_note(b, err);
    if (e < 0)
        return e;
    u = kr_box_user_get(b, who->user);
    if (!u)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a user");
    e = kr_box_user_may_run(b, u, err);
    if (e >= 0)
        e = run_new(b, u, spec, &r, err);
    if (e >= 0 && r)
        e = take_session(b, who, spec, r, err);
    kr_box_user_drop(b, u);
    if (e < 0 || !r) {
        if (r)
            kr_box_run_free(r);
        if (b->calls.on_refused)
            b->calls.on_refused(b->data, err);
        return e;
    }
    r->profile = kr_box_profile(b, who);
    r->on_admitted = on_admitted;
    r->data = data;
    snprintf(r->session_name, sizeof r->session_name, "%s", r->session->name);
    r->asked_ns = kr_clock_ns();
    r->asked_us = r->started_us = kr_store_now();
    snprintf(r->request, sizeof r->request, "%s", who->request ? who->request : "");
    snprintf(r->address, sizeof r->address, "%s", who->address ? who->address : "");
    r->rights = who->rights;
    if (r->session->current || r->session->waiting_count) {
        log_queued(r, r->session->waiting_count);
        kr_box_run_tell_later(r);
    }
    TAILQ_INSERT_TAIL(&r->session->waiting, r, link);
    r->session->waiting_count++;
    if (r->session->state == KR_BOX_SESSION_LIVE)
        kr_box_session_proceed(r->session);
    else
        kr_box_kick(b);
    kr_box_run_note_start(r, &spec->code); /* after the code was sent, before the starter hears of the run */
    if (ret_run)
        *ret_run = r;
    return 0;
}

void kr_box_run_show(struct kr_box_run *r)
{
    if (r->news != KR_BOX_NEWS_NONE)
        return;
    log_queued(r, 0);
    kr_box_run_tell_later(r);
}

/* ---- what it is ---- */

const char *kr_box_run_id(const struct kr_box_run *r)
{
    return r->id;
}

const char *kr_box_run_session(const struct kr_box_run *r)
{
    return r->session_name;
}

const char *kr_box_run_sandbox(const struct kr_box_run *r)
{
    return r->sandbox;
}

const char *kr_box_run_code(const struct kr_box_run *r, size_t *ret_len)
{
    *ret_len = r->spec.code.len;
    return r->spec.code.text;
}

const struct kr_profile *kr_box_run_profile(const struct kr_box_run *r)
{
    return r->profile;
}

uint64_t kr_box_run_waited_ns(const struct kr_box_run *r)
{
    return r->waited_ns;
}

const char *kr_box_run_user(const struct kr_box_run *r)
{
    return r->user->id;
}

const char *kr_box_run_files(const struct kr_box_run *r)
{
    return r->row.files;
}

const char *kr_box_run_request(const struct kr_box_run *r)
{
    return r->request;
}

struct kr_runlog *kr_box_run_log(const struct kr_box_run *r)
{
    return r->log;
}

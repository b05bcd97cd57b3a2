/* Asking for packages: what can be refused before anything runs, and the job.
 *
 * Called by the voices. Invariants: what goes on from here are requirements of PEP 508 that were written anew, none of
 * them on the block list, a module of Python or, unless the caller insists, the look-alike of a popular name; a refusal
 * for a blocked name is logged, counted and in the audit log. */
#include "clock.h"
#include "install_internal.h"
#include "log.h"
#include "metrics.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USERS_MAX 4096u

/* ---- what is asked for ---- */

static int parse_texts(const json_t *texts, struct kr_requirements *ret, struct kr_err *err)
{
    size_t count = json_array_size(texts);
    int r = 0;

    *ret = (struct kr_requirements){0};
    if (!json_is_array(texts) || count > KR_REQS_MAX)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "packages: a list of at most %u texts", KR_REQS_MAX);
    ret->items = calloc(count + 1, sizeof(struct kr_requirement *));
    if (!ret->items)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "packages");
    for (size_t i = 0; i < count && r >= 0; i++) {
        const json_t *one = json_array_get(texts, i);

        if (!json_is_string(one))
            r = kr_err_set(err, KR_ERR_INVALID, EINVAL, "packages[%zu]: a text", i);
        else
            r = kr_requirement_parse(json_string_value(one), json_string_length(one), &ret->items[i], err);
        ret->count += r >= 0;
    }
    if (r < 0) {
        kr_requirements_done(ret);
        *ret = (struct kr_requirements){0};
    }
    return r;
}

static int parse_what(const struct kr_install_what *what, struct kr_requirements *ret, struct kr_err *err)
{
    int r = what->texts  ? parse_texts(what->texts, ret, err)
            : what->file ? kr_requirements_file(what->file, strlen(what->file), ret, err)
            : what->line ? kr_requirements_words(what->line, strlen(what->line), ret, err)
                         : kr_err_set(err, KR_ERR_INVALID, EINVAL, "no package is named");

    if (r < 0 || ret->count > 0)
        return r < 0 ? r : 0;
    kr_requirements_done(ret);
    *ret = (struct kr_requirements){0};
    return kr_err_set(err, KR_ERR_INVALID, EINVAL, "no package is named");
}

/* ---- judging names ---- */

static void note_blocked(struct kr_install *in, const struct kr_caller *who, const struct kr_requirement *r,
                         const char *sandbox)
{
    kr_log(KR_LOG_WARN, "blocked package", "package=%s user=%s sandbox=%s dependency=0", r->canonical, who->user,
           sandbox);
    kr_metrics_inc(in->config.metrics, KR_M_PACKAGE_INSTALLS, KR_AT("blocked"));
    kr_metrics_inc(in->config.metrics, KR_M_ERRORS, KR_AT("blocked_package"));
    kr_box_audit(in->config.box, who, "package.install", r->canonical, "denied", NULL);
}

static int judge_names(struct kr_install *in, const struct kr_caller *who, const struct kr_install_ask *ask,
                       const struct kr_requirements *wanted, const char *sandbox, struct kr_err *err)
{
    const struct kr_package_rules rules = {.blocked = in->config.blocked, .allow_similar = ask->allow_similar};

    for (size_t i = 0; i < wanted->count; i++) {
        const struct kr_requirement *r = wanted->items[i];
        struct kr_package_judgement judgement;

        kr_package_judge(&rules, r, &judgement);
        if (judgement.verdict == KR_PACKAGE_FINE)
            continue;
        if (ask->ret_refusal) {
            ask->ret_refusal->verdict = judgement.verdict;
            snprintf(ask->ret_refusal->name, sizeof ask->ret_refusal->name, "%s", r->name);
            snprintf(ask->ret_refusal->resembles, sizeof ask->ret_refusal->resembles, "%s", judgement.resembles);
        }
        if (judgement.verdict != KR_PACKAGE_BLOCKED)
            return kr_err_set(err, KR_ERR_INVALID, 0, "%.235s", judgement.text), -EINVAL;
        note_blocked(in, who, r, sandbox);
        return kr_err_set(err, KR_ERR_DENIED, 0, "%.235s", judgement.text), -EPERM;
    }
    return 0;
}

/* ---- how often ---- */

static struct kr_install_user *find_user(struct kr_install *in, const char *id)
{
    struct kr_install_user *u;
    unsigned count = 0;

    TAILQ_FOREACH(u, &in->users, link)
    {
        count++;
        if (strcmp(u->id, id) == 0)
            return u;
    }
    if (count >= USERS_MAX) { /* who has asked longest ago has all tokens again */
        u = TAILQ_LAST(&in->users, kr_install_users);
        TAILQ_REMOVE(&in->users, u, link);
        free(u);
    }
    u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    snprintf(u->id, sizeof u->id, "%s", id);
    u->tokens = in->config.per_minute;
    u->tokens_ns = kr_clock_ns();
    TAILQ_INSERT_HEAD(&in->users, u, link);
    return u;
}

static int take_token(struct kr_install *in, const char *user, struct kr_err *err)
{
    double most = in->config.per_minute;
    uint64_t now = kr_clock_ns();
    struct kr_install_user *u;

    if (in->config.per_minute == 0)
        return 0;
    u = find_user(in, user);
    if (!u)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "installs");
    u->tokens += (double)(now - u->tokens_ns) / 60e9 * most;
    u->tokens = u->tokens > most ? most : u->tokens;
    u->tokens_ns = now;
    TAILQ_REMOVE(&in->users, u, link);
    TAILQ_INSERT_HEAD(&in->users, u, link);
    if (u->tokens < 1)
        return kr_err_set(err, KR_ERR_TOO_MANY, 0,
                          "more than %u installs in a minute (packages.installs_per_minute): wait a moment",
                          in->config.per_minute);
    u->tokens -= 1;
    return 0;
}

/* ---- the job ---- */

static bool is_same_ask(const struct kr_install_job *a, const struct kr_install_job *b)
{
    if (a->op != b->op || a->upgrade != b->upgrade || a->build != b->build || a->wanted.count != b->wanted.count ||
        strcmp(a->user, b->user) != 0)
        return false;
    for (size_t i = 0; i < a->wanted.count; i++)
        if (strcmp(a->wanted.items[i]->text, b->wanted.items[i]->text) != 0 ||
            a->wanted.items[i]->hash_count != b->wanted.items[i]->hash_count ||
            (a->wanted.items[i]->hash_count > 0 &&
             memcmp(a->wanted.items[i]->hashes, b->wanted.items[i]->hashes,
                    a->wanted.items[i]->hash_count * sizeof *a->wanted.items[i]->hashes) != 0))
            return false;
    return true;
}

/* The last one of the sandbox, if it does what this one would and has not failed. What an earlier one does may be
 * undone by those behind it. */
static struct kr_install_job *find_same(struct kr_install *in, const struct kr_install_job *j)
{
    struct kr_install_job *other;

    TAILQ_FOREACH_REVERSE(other, &in->jobs, kr_install_jobs, link)
    if (strcmp(other->sandbox, j->sandbox) == 0)
        return other->step != KR_STEP_LEAVING && is_same_ask(other, j) ? other : NULL;
    return NULL;
}

/* What the row of the job tells of it: the names, as many as fit. New. */
static char *params_of(const struct kr_install_job *j)
{
    json_t *names = json_array(), *o = json_pack("{s:O,s:b}", "names", names, "upgrade", j->upgrade);
    char *text;

    for (size_t i = 0; i < j->wanted.count; i++)
        json_array_append_new(names, json_string(j->wanted.items[i]->canonical));
    while ((text = json_dumps(o, JSON_COMPACT)) && strlen(text) >= KR_STORE_JOB_PARAMS_ROOM) {
        free(text);
        json_array_remove(names, json_array_size(names) - 1);
    }
    json_decref(names);
    json_decref(o);
    return text;
}

static int start_job(struct kr_install_job *j, const struct kr_caller *who, struct kr_job **ret_job, struct kr_err *err)
{
    char *params = params_of(j);
    const struct kr_job_spec spec = {.kind = j->op == KR_INSTALL ? KR_INSTALL_KIND : KR_UNINSTALL_KIND,
                                     .owner = j->user,
                                     .subject = j->sandbox,
                                     .params = params,
                                     .address = who->address,
                                     .request = who->request};
    int r;

    j->in->coming = j;
    r = kr_job_start(j->in->config.jobs, &spec, ret_job, err);
    j->in->coming = NULL;
    free(params);
    return r;
}

static struct kr_install_job *new_job(struct kr_install *in, const struct kr_caller *who,
                                      const struct kr_install_ask *ask, const struct kr_sandbox *s)
{
    struct kr_install_job *j = calloc(1, sizeof *j);

    if (!j)
        return NULL;
    j->in = in;
    j->op = ask->op;
    j->upgrade = ask->upgrade;
    j->folder = -1;
    j->rights = who->rights;
    j->notes = json_array();
    j->build = ask->op == KR_INSTALL && in->config.allow_build && s->allow_build;
    kr_buf_init(&j->output, KR_INSTALL_OUTPUT_MAX);
    snprintf(j->sandbox, sizeof j->sandbox, "%s", s->row.id);
    snprintf(j->user, sizeof j->user, "%s", who->user);
    return j;
}

static int check_leave(const struct kr_install *in, const struct kr_install_ask *ask, const struct kr_sandbox *s,
                       struct kr_err *err)
{
    if (!ask->build || (in->config.allow_build && s->allow_build))
        return 0;
    return kr_err_set(err, KR_ERR_DENIED, EPERM, "packages are not built from source here: %s",
                      in->config.allow_build ? "the sandbox needs the setting allow_build"
                                             : "this server does not allow it (packages.allow_build)");
}

static int check_server(const struct kr_install *in, const struct kr_install_ask *ask, struct kr_err *err)
{
    const struct kr_holder_info *info = kr_engine_info(kr_box_engine(in->config.box));

    if (!in->config.enabled)
        return kr_err_set(err, KR_ERR_DENIED, EPERM, "packages cannot be installed on this server (packages.enabled)");
    if (!in->config.packages || !in->config.python || !in->config.resolver ||
        (ask->op == KR_INSTALL && !in->config.egress))
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "packages cannot be installed on this server");
    if (info && info->level == KR_LEVEL_CONTAINED)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP,
                          "packages cannot be installed: at level contained sandboxes have no environment");
    if (kr_box_stopping(in->config.box))
        return kr_err_set(err, KR_ERR_BUSY, 0, KR_STOPPING);
    return 0;
}

int kr_install_start(struct kr_install *in, const struct kr_caller *who, const struct kr_install_ask *ask,
                     struct kr_job **ret_job, struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_requirements wanted = {0};
    struct kr_install_job *j = NULL, *same;
    int r;

    if (ask->ret_refusal)
        *ask->ret_refusal = (struct kr_install_refusal){.verdict = KR_PACKAGE_FINE};
    if ((r = check_server(in, ask, err)) < 0 || (r = parse_what(&ask->what, &wanted, err)) < 0)
        return r;
    if (ask->op == KR_INSTALL)
        r = judge_names(in, who, ask, &wanted, ask->sandbox ? ask->sandbox : KR_STORE_DEFAULT, err);
    if (r >= 0 && (r = kr_box_sandbox_find(in->config.box, who, ask->sandbox, &s, err)) >= 0)
        r = check_leave(in, ask, &s, err);
    if (r >= 0)
        r = (j = new_job(in, who, ask, &s)) ? 0 : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "an install");
    if (r < 0) {
        kr_requirements_done(&wanted);
        return r;
    }
    j->wanted = wanted;
    same = find_same(in, j);
    if (same) {
        kr_install_job_free(j);
        *ret_job = same->job;
        return 1;
    }
    if ((r = take_token(in, who->user, err)) < 0 || (r = start_job(j, who, ret_job, err)) < 0)
        kr_install_job_free(j);
    return r < 0 ? r : 0;
}

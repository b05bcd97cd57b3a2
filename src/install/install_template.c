/* Builds the template of the settings.
 *
 * Called by `krait serve` when it is ready. Invariants: the template under the name is replaced only by one that is
 * complete; the sandbox that it is built in is gone afterwards, and one that a killed server left is deleted before;
 * which requirements a template was built from is told by its description, with a hash of all of them. */
#include "install_template.h"
#include "hash.h"
#include "install.h"
#include "job.h"
#include "log.h"
#include "loop.h"
#include "metrics.h"
#include "store_user.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 5u
#define AGAIN_MS 10000u /* the way to the index may not stand yet */
#define SHOWN_MAX 400u  /* bytes of requirements in the description */

struct kr_install_template {
    struct kr_job_watch watch; /* its first member */
    struct kr_install *in;
    struct kr_box *box;
    struct kr_metrics *metrics;
    struct kr_install_template_config config;
    struct kr_timer *timer;
    struct kr_job *job;       /* while it is watched */
    struct kr_box_task *task; /* while it is saved */
    unsigned tries;
    char description[KR_STORE_DESCRIPTION_MAX + 1];
    char sandbox[KR_STORE_ID_ROOM]; /* "": there is none */
};

static const struct kr_caller root = {.user = KR_STORE_ROOT, .rights = KR_RIGHT_ALL, .address = "", .request = ""};

/* ---- what is wanted ---- */

static void describe(struct kr_install_template *t)
{
    const struct kr_words *words = &t->config.requirements;
    uint32_t hash = KR_HASH_START;
    char shown[SHOWN_MAX + 1] = "";
    size_t len = 0;

    for (size_t i = 0; i < words->count; i++) {
        hash = kr_hash(hash, words->items[i], strlen(words->items[i]) + 1);
        if (len < SHOWN_MAX)
            len += (size_t)snprintf(shown + len, sizeof shown - len, " %s", words->items[i]);
    }
    snprintf(t->description, sizeof t->description, "built from templates.requirements:%s%s (%08x)", shown,
             len > SHOWN_MAX ? "…" : "", hash);
}

static bool is_there(struct kr_install_template *t)
{
    cleanup_template struct kr_store_template have = {0};
    struct kr_err ignored;

    return kr_box_template_find(t->box, &root, t->config.name, &have, &ignored) >= 0 &&
           strcmp(have.owner, KR_STORE_ROOT) == 0 && strcmp(have.description, t->description) == 0 &&
           have.shared == t->config.shared;
}

/* ---- the end ---- */

static void drop_sandbox(struct kr_install_template *t)
{
    struct kr_err err;

    if (t->sandbox[0] && kr_box_sandbox_delete(t->box, &root, t->sandbox, &err) < 0)
        kr_log(KR_LOG_WARN, "sandbox of a template not deleted, ignoring", "sandbox=%s error=\"%s\"", t->sandbox,
               err.msg);
    t->sandbox[0] = '\0';
}

static void fail_build(struct kr_install_template *t, const char *why)
{
    kr_log(KR_LOG_ERROR, "template not built", "template=%s error=\"%.300s\"", t->config.name, why);
    kr_metrics_inc(t->metrics, KR_M_TEMPLATE_BUILDS, KR_AT("error"));
    drop_sandbox(t);
}

/* In place of the one before. */
static int take_name(struct kr_install_template *t, const char *id, struct kr_err *err)
{
    cleanup_template struct kr_store_template have = {0};
    struct kr_err none;
    int r = kr_box_template_find(t->box, &root, t->config.name, &have, &none);

    if (r >= 0 && strcmp(have.owner, KR_STORE_ROOT) == 0 &&
        (r = kr_box_template_delete(t->box, &root, have.id, err)) < 0)
        return r;
    return kr_box_template_change(t->box, &root, id, t->config.name, NULL, -1, err);
}

static void on_template_saved(void *data, const struct kr_store_template *saved, const struct kr_err *err)
{
    struct kr_install_template *t = data;
    struct kr_err why;

    t->task = NULL;
    if (err || take_name(t, saved->id, &why) < 0) {
        fail_build(t, err ? err->msg : why.msg);
        return;
    }
    kr_log(KR_LOG_INFO, "template built", "template=%s bytes=%llu", t->config.name, (unsigned long long)saved->bytes);
    kr_metrics_inc(t->metrics, KR_M_TEMPLATE_BUILDS, KR_AT("success"));
    drop_sandbox(t);
}

/* ---- the install ---- */

static void save(struct kr_install_template *t)
{
    struct kr_box_template how = {.sandbox = t->sandbox, .description = t->description, .shared = t->config.shared};
    struct kr_err err;

    if (kr_box_template_save(t->box, &root, &how, on_template_saved, t, &t->task, &err) < 0)
        fail_build(t, err.msg);
}

static void on_template_job(struct kr_job_watch *watch, const struct kr_store_job *row, const struct kr_err *err)
{
    struct kr_install_template *t = (struct kr_install_template *)watch;
    json_t *result = kr_install_result(t->in, row);
    const char *why = json_string_value(json_object_get(result, "error"));

    t->job = NULL;
    if (json_is_true(json_object_get(result, "ok")))
        save(t);
    else
        fail_build(t, why ? why : err ? err->msg : "the install did not end well");
    json_decref(result);
}

static int make_sandbox(struct kr_install_template *t, struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0}, old = {0};
    char name[KR_STORE_NAME_ROOM];
    struct kr_err none;
    int r;

    snprintf(name, sizeof name, "template-%.32s", t->config.name);
    if (kr_box_sandbox_find(t->box, &root, name, &old, &none) >= 0 &&
        (r = kr_box_sandbox_delete(t->box, &root, old.row.id, err)) < 0)
        return r;
    r = kr_box_sandbox_create(t->box, &root, name, NULL, &s, err);
    if (r >= 0)
        snprintf(t->sandbox, sizeof t->sandbox, "%s", s.row.id);
    return r;
}

static int start_job(struct kr_install_template *t, struct kr_err *err)
{
    struct kr_install_ask ask = {.sandbox = t->sandbox, .op = KR_INSTALL, .allow_similar = true};
    json_t *texts = json_array();
    int r;

    for (size_t i = 0; i < t->config.requirements.count; i++)
        json_array_append_new(texts, json_string(t->config.requirements.items[i]));
    ask.what.texts = texts;
    r = kr_install_start(t->in, &root, &ask, &t->job, err);
    json_decref(texts);
    if (r < 0) {
        t->job = NULL;
        return r;
    }
    t->watch.on_end = on_template_job;
    kr_job_watch(t->job, &t->watch);
    return 0;
}

static void build(void *data)
{
    struct kr_install_template *t = data;
    struct kr_err err;
    int r;

    if (is_there(t)) {
        kr_log(KR_LOG_INFO, "template is as its requirements say", "template=%s", t->config.name);
        return;
    }
    r = t->sandbox[0] ? 0 : make_sandbox(t, &err);
    if (r >= 0)
        r = start_job(t, &err);
    if (r >= 0)
        kr_log(KR_LOG_INFO, "building a template", "template=%s packages=%zu", t->config.name,
               t->config.requirements.count);
    else if ((err.kind == KR_ERR_UNAVAILABLE || err.kind == KR_ERR_BUSY) && ++t->tries < TRIES)
        kr_timer_arm(t->timer, AGAIN_MS);
    else
        fail_build(t, err.msg);
}

/* ---- life ---- */

int kr_install_template_new(struct uv_loop_s *loop, struct kr_install *in, struct kr_box *box,
                            struct kr_metrics *metrics, const struct kr_install_template_config *config,
                            struct kr_install_template **ret_template, struct kr_err *err)
{
    struct kr_install_template *t = calloc(1, sizeof *t);

    if (!t || kr_timer_new(loop, build, t, &t->timer) < 0) {
        free(t);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a template");
    }
    t->in = in;
    t->box = box;
    t->metrics = metrics;
    t->config = *config;
    describe(t);
    kr_timer_arm(t->timer, 0);
    *ret_template = t;
    return 0;
}

void kr_install_template_close(struct kr_install_template *t)
{
    if (!t)
        return;
    if (t->job)
        kr_job_unwatch(&t->watch);
    if (t->task)
        kr_box_task_forget(t->task);
    kr_timer_close(t->timer);
    free(t);
}

/* Which files an install needs: from the resolutions of the last minutes, else from pip's resolver in a cell.
 *
 * Called by install_steps.c. Invariants: the cell has the rule `index`, no workspace and the sandbox's /venv, and no
 * code of a package runs in it unless the job may build; what it says is read strictly (install_answer.c); a resolution
 * is used again only for the same requirements, flags and installed wheels, of any user: the index is the same for
 * all. */
#include "clock.h"
#include "install_internal.h"
#include "log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MAX 64u
#define KEPT_BYTES_MAX (256u << 10) /* of one */
#define KEPT_S 300u
#define INDEX "http://" KR_ANSWER_HOST "/index/simple/"

struct kr_install_resolution {
    TAILQ_ENTRY(kr_install_resolution) link; /* newest first */
    char *key, *line;
    uint64_t made_ns;
};

/* ---- what was resolved lately ---- */

static void drop_resolution(struct kr_install *in, struct kr_install_resolution *one)
{
    TAILQ_REMOVE(&in->resolutions, one, link);
    in->resolution_count--;
    free(one->key);
    free(one->line);
    free(one);
}

void kr_install_resolutions_clear(struct kr_install *in)
{
    struct kr_install_resolution *one;

    while ((one = TAILQ_FIRST(&in->resolutions)))
        drop_resolution(in, one);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Everything that the answer follows from: what is installed by its hash, for a wheel that was built can say what it
 * likes about itself, and the answer is handed to other users. New, or NULL. */
static char *key_of(const struct kr_install_job *j)
{
    const char **texts = calloc(j->wanted.count + 1, sizeof *texts);
    cleanup_buf struct kr_buf key = {0};

    if (!texts)
        return NULL;
    kr_buf_init(&key, 1u << 20);
    for (size_t i = 0; i < j->wanted.count; i++)
        texts[i] = j->wanted.items[i]->text;
    qsort(texts, j->wanted.count, sizeof *texts, compare_texts);
    (void)kr_buf_printf(&key, "build=%d\n", j->build);
    for (size_t i = 0; i < j->wanted.count; i++)
        (void)kr_buf_printf(&key, "%s\n", texts[i]);
    for (size_t i = 0; i < j->before->count; i++)
        (void)kr_buf_printf(&key, "has %s %s %s\n", j->before->items[i].name, j->before->items[i].version,
                            j->before->items[i].sha256);
    free(texts);
    return key.failed ? NULL : kr_buf_steal(&key, NULL);
}

static const char *find_resolution(struct kr_install *in, const char *key)
{
    struct kr_install_resolution *one, *next;
    uint64_t now = kr_clock_ns();

    for (one = TAILQ_FIRST(&in->resolutions); one; one = next) {
        next = TAILQ_NEXT(one, link);
        if (now - one->made_ns > KEPT_S * UINT64_C(1000000000))
            drop_resolution(in, one);
        else if (strcmp(one->key, key) == 0)
            return one->line;
    }
    return NULL;
}

static void keep_resolution(struct kr_install_job *j, const char *line, size_t len)
{
    struct kr_install *in = j->in;
    struct kr_install_resolution *one;

    if (j->upgrade || len > KEPT_BYTES_MAX || !(one = calloc(1, sizeof *one)))
        return;
    one->key = key_of(j);
    one->line = strndup(line, len);
    one->made_ns = kr_clock_ns();
    TAILQ_INSERT_HEAD(&in->resolutions, one, link);
    in->resolution_count++;
    if (!one->key || !one->line)
        drop_resolution(in, one);
    if (in->resolution_count > KEPT_MAX)
        drop_resolution(in, TAILQ_LAST(&in->resolutions, kr_install_resolutions));
}

static bool use_kept(struct kr_install_job *j)
{
    char *key = j->upgrade || j->tries > 0 ? NULL : key_of(j), progress[KR_ANSWER_PROGRESS_MAX + 1];
    const char *line = key ? find_resolution(j->in, key) : NULL;
    struct kr_err err;

    free(key);
    if (!line || kr_answer_line(&j->answer, line, strlen(line), j->build, progress, &err) < 0)
        return false;
    return j->is_kept = j->answer.is_whole;
}

/* ---- the cell ---- */

static void on_resolver_line(void *data, const char *line, size_t len)
{
    struct kr_install_job *j = data;
    char progress[KR_ANSWER_PROGRESS_MAX + 1], text[KR_ANSWER_PROGRESS_MAX + 16];
    bool was_whole = j->answer.is_whole;
    struct kr_err err;
    int r = kr_answer_line(&j->answer, line, len, j->build, progress, &err);

    if (r < 0) {
        kr_log(KR_LOG_WARN, "answer of a resolver refused", "job=%s error=\"%s\"", kr_job_row(j->job)->id, err.msg);
        kr_install_fail(j, "resolver", NULL, "%s", err.msg);
    } else if (r == 1) {
        snprintf(text, sizeof text, "resolving: %s", progress);
        kr_job_progress(j->job, 0, 0, text);
        kr_install_say(j, "%s", progress);
    } else if (!was_whole && j->answer.is_whole && !j->answer.error) {
        keep_resolution(j, line, len);
    }
}

static void on_resolver_end(void *data, const struct kr_err *err)
{
    struct kr_install_job *j = data;
    bool is_late = err && err->kind == KR_ERR_TIMEOUT;

    j->cell = NULL;
    if (!kr_install_end(j))
        return;
    if (err)
        kr_install_fail(j, is_late ? "timeout" : "resolver", NULL, "the resolver has failed: %s", err->msg);
    else if (!j->answer.is_whole)
        kr_install_fail(j, "resolver", NULL, "the resolver has ended without an answer");
    else if (j->answer.error)
        kr_install_fail(j, j->answer.kind, j->answer.names, "%s", j->answer.error);
    else
        kr_install_answered(j);
}

static json_t *request_of(const struct kr_install_job *j)
{
    json_t *texts = json_array();

    for (size_t i = 0; i < j->wanted.count; i++)
        json_array_append_new(texts, json_string(j->wanted.items[i]->text));
    return json_pack("{s:{s:o,s:b,s:b,s:s}}", "REQUEST", "requirements", texts, "upgrade", j->upgrade, "build",
                     j->build, "index", INDEX);
}

static int open_resolver(struct kr_install_job *j, struct kr_err *err)
{
    static const struct kr_install_cell_calls calls = {.on_line = on_resolver_line, .on_end = on_resolver_end};
    uint64_t timeout_ms = j->in->config.timeout_ms;
    struct kr_install_cell_spec spec = {.sandbox = j->sandbox,
                                        .user = j->user,
                                        .folder = j->folder_name,
                                        .network = KR_NET_INDEX,
                                        .code = j->in->config.resolver,
                                        .timeout_ms = timeout_ms,
                                        .output_max = KR_ANSWER_MAX,
                                        .line_max = KR_ANSWER_MAX};
    int r;

    spec.variables = request_of(j);
    if (!spec.variables)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the request to the resolver");
    kr_install_cell_limits(&spec.limits, timeout_ms);
    r = kr_install_cell_open(j->in, &spec, &calls, j, &j->cell, err);
    json_decref(spec.variables);
    return r;
}

void kr_install_resolve(struct kr_install_job *j)
{
    struct kr_err err;

    kr_install_set_step(j, KR_STEP_RESOLVING);
    kr_answer_done(&j->answer);
    j->is_kept = false;
    if (use_kept(j)) {
        kr_install_answered(j);
        return;
    }
    kr_answer_done(&j->answer);
    kr_job_progress(j->job, 0, 0, "resolving");
    kr_install_begin(j);
    if (open_resolver(j, &err) >= 0)
        return;
    (void)kr_install_end(j);
    kr_install_fail_with(j, &err);
}

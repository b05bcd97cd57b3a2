/* Packages of a program that `krait run` runs: a server's own parts (store, box, jobs, installs) over the data of this
 * run alone, and the wheels of the user's cache.
 *
 * Called by run_app.c in the engine. Invariants: of what is made here only unpacked wheels outlive the program; a run
 * has one sandbox, the default one, whose environment is /venv; an answer goes to the run that is on. */
#include "run_packages.h"
#include "box.h"
#include "clock.h"
#include "config.h"
#include "engine.h"
#include "fd.h"
#include "install.h"
#include "job.h"
#include "json_load.h"
#include "log.h"
#include "package_store.h"
#include "run.h"
#include "run_sweep.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define ASKER "run" /* its one run, by which answers find it */
#define LINE_MAX_ 240u

struct kr_run_packages {
    struct kr_job_watch watch; /* the first member */
    struct uv_loop_s *loop;
    const struct kr_run_equipment *with;
    struct kr_run_packages_calls calls;
    void *data;
    struct kr_store *store;
    struct kr_box *box;
    struct kr_jobs *jobs;
    struct kr_package_store *wheels;
    struct kr_install *install;
    struct kr_run_sweep sweep;
    struct kr_sandbox sandbox;
    struct kr_runlog *log;
    struct kr_runlog_reader *reader;
    struct kr_run *run; /* that is on */
    struct kr_err failed;
    bool is_over, is_told, has_stopped; /* is_over: the install has ended */
    char line[LINE_MAX_ + 1];           /* of its output, until its end has come */
};

static const struct kr_caller local_user = {.user = "root", .rights = KR_RIGHT_ALL, .address = "", .request = ""};

/* ---- how far it is ---- */

static void tell_text(struct kr_run_packages *p, const char *text, size_t len)
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t n = end ? (size_t)(end - text) : len, have = strlen(p->line), room = LINE_MAX_ - have;

        memcpy(p->line + have, text, n < room ? n : room);
        p->line[have + (n < room ? n : room)] = '\0';
        if (end) {
            if (p->line[0] && strncmp(p->line, "ERROR: ", 7) != 0) /* which is said at the end */
                p->calls.on_step(p->data, p->line, false);
            p->line[0] = '\0';
            n++;
        }
        text += n;
        len -= n;
    }
}

static void tell_progress(struct kr_run_packages *p, const char *json, size_t len)
{
    json_t *o = kr_json_load(json, len, 0, NULL);
    const char *code = json_string_value(json_object_get(o, "code")),
               *text = json_string_value(json_object_get(o, "text"));
    double done = json_number_value(json_object_get(o, "done")), total = json_number_value(json_object_get(o, "total"));
    char line[LINE_MAX_];

    if (code && strcmp(code, "progress") == 0 && text && *text) {
        if (total > 0)
            snprintf(line, sizeof line, "%.160s, %.1f of %.1f MB", text, done / 1e6, total / 1e6);
        else
            snprintf(line, sizeof line, "%.160s", text);
        p->calls.on_step(p->data, line, true);
    }
    json_decref(o);
}

/* Frees nothing; on_ready may end the program. */
static void tell_ready(struct kr_run_packages *p)
{
    if (p->is_told)
        return;
    p->is_told = true;
    p->calls.on_ready(p->data, p->failed.kind ? &p->failed : NULL);
}

static void on_install_more(void *data, struct kr_runlog_reader *reader)
{
    struct kr_run_packages *p = data;
    struct kr_event event;
    int r;

    while ((r = kr_runlog_peek(reader, &event)) == 1) {
        if (event.type == KR_EVENT_STDOUT || event.type == KR_EVENT_STDERR)
            tell_text(p, event.data, event.len);
        else if (event.type == KR_EVENT_NOTICE)
            tell_progress(p, event.data, event.len);
        kr_runlog_take(reader);
    }
    if (p->is_over && (r < 0 || kr_runlog_done(reader)))
        tell_ready(p);
}

static void on_install_end(struct kr_job_watch *watch, const struct kr_store_job *row, const struct kr_err *err)
{
    struct kr_run_packages *p = (struct kr_run_packages *)watch;
    json_t *result = kr_install_result(p->install, row);
    const char *why = json_string_value(json_object_get(result, "error"));

    p->is_over = true;
    if (!json_is_true(json_object_get(result, "ok")))
        kr_err_set(&p->failed, err ? (enum kr_err_kind)err->kind : KR_ERR_SYSTEM, 0, "packages: %.200s",
                   why   ? why
                   : err ? err->msg
                         : "the install was lost");
    json_decref(result);
    if (p->reader)
        on_install_more(p, p->reader);
    else
        tell_ready(p);
}

/* ---- opening ---- */

static int open_box(struct kr_run_packages *p, struct kr_engine *engine, enum kr_preload preload, struct kr_err *err)
{
    const struct kr_config *c = p->with->config;
    struct kr_box_config box = c->box;
    int r;

    box.store = p->store;
    box.data = p->with->cache.run;
    box.is_plain_shelf = true;
    box.profiles = c->profiles;
    box.dialect = (enum kr_dialect)c->dialect;
    box.preload = preload;
    box.python = &p->with->python.facts;
    r = kr_box_new(p->loop, engine, &box, NULL, p, &p->box, err);
    return r < 0 ? r : kr_box_sandbox_find(p->box, &local_user, NULL, &p->sandbox, err);
}

/* A part of an answer for pip in the cell. */
static int answer_run(void *data, const char *by, uint32_t number, const char *json, size_t len, bool is_last)
{
    struct kr_run_packages *p = data;

    (void)by;
    return p->run ? kr_run_packaged(p->run, number, json, len, is_last) : -ESRCH;
}

static int open_install(struct kr_run_packages *p, struct kr_egress *egress, struct kr_err *err)
{
    const struct kr_jobs_config jobs = {.store = p->store, .logs = kr_box_runlogs(p->box)};
    struct kr_install_config install = p->with->config->install;
    int r = kr_jobs_new(p->loop, &jobs, &p->jobs, err);

    if (r < 0)
        return r;
    install.store = p->store;
    install.jobs = p->jobs;
    install.box = p->box;
    install.egress = egress;
    install.packages = p->wheels;
    install.python = &p->with->python.facts;
    install.resolver = kr_cli_carried("resolve.py");
    install.builder = kr_cli_carried("build.py");
    install.compiler = kr_cli_carried("bytecode.py");
    install.index = p->with->index;
    install.blocked = p->with->config->blocked_packages;
    install.data = p->with->cache.path;
    install.answer = answer_run;
    install.answer_data = p;
    install.per_minute = 0;
    install.store_max = 0; /* which environments of other runs refer to is not known to the sweep */
    return kr_install_new(p->loop, &install, &p->install, err);
}

static int begin_install(struct kr_run_packages *p, struct kr_err *err)
{
    const struct kr_install_ask ask = {.op = KR_INSTALL, .what.file = p->with->needs};
    struct kr_job *job;
    int r = kr_install_start(p->install, &local_user, &ask, &job, err);

    if (r < 0)
        return r;
    p->watch.on_end = on_install_end;
    kr_job_watch(job, &p->watch);
    if (kr_jobs_open_log(p->jobs, kr_job_row(job), &p->log) < 0)
        p->log = NULL;
    else if (kr_runlog_read(p->log, 0, on_install_more, p, &p->reader) < 0)
        p->reader = NULL;
    return 0;
}

static int open_all(struct kr_run_packages *p, struct kr_engine *engine, struct kr_egress *egress,
                    enum kr_preload preload, struct kr_err *err)
{
    cleanup_fd int cache = open(p->with->cache.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct kr_holder_info *info = kr_engine_info(engine);
    int r;

    if (info && info->level == KR_LEVEL_CONTAINED)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0,
                          "packages cannot be installed: at level contained programs have no environment");
    if (cache < 0)
        return kr_err_set_disk(err, errno, "open the cache (--cache)");
    kr_run_cache_clear(&p->with->cache);
    if ((r = kr_store_open(p->with->cache.run, KR_STORE_CREATE, &p->store, err)) < 0 ||
        (r = kr_package_store_open(cache, &p->wheels, err)) < 0 || (r = open_box(p, engine, preload, err)) < 0 ||
        (r = open_install(p, egress, err)) < 0)
        return r;
    p->sweep = (struct kr_run_sweep){
        .cache = &p->with->cache, .store = p->wheels, .bytes_max = p->with->config->install.store_max};
    kr_run_sweep_start(&p->sweep, p->loop);
    if (p->with->needs)
        return begin_install(p, err);
    tell_ready(p);
    return 0;
}

int kr_run_packages_open(struct uv_loop_s *loop, struct kr_engine *engine, struct kr_egress *egress,
                         const struct kr_run_equipment *with, enum kr_preload preload,
                         const struct kr_run_packages_calls *calls, void *data, struct kr_run_packages **ret,
                         struct kr_err *err)
{
    struct kr_run_packages *p = calloc(1, sizeof *p);

    *ret = p;
    if (!p)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "packages");
    p->loop = loop;
    p->with = with;
    p->calls = *calls;
    p->data = data;
    return open_all(p, engine, egress, preload, err);
}

int kr_run_packages_show(struct kr_run_packages *p, struct kr_session_spec *spec, struct kr_err *err)
{
    return p ? kr_box_sandbox_env(p->box, &p->sandbox, spec, err) : 0;
}

/* ---- while it runs ---- */

static struct kr_box_asker asker_of(const struct kr_run_packages *p)
{
    return (struct kr_box_asker){.id = ASKER, .sandbox = p->sandbox.row.id, .who = local_user};
}

void kr_run_packages_ask(struct kr_run_packages *p, struct kr_run *run, uint32_t number, const json_t *ask)
{
    struct kr_box_asker by = asker_of(p);

    p->run = run;
    kr_install_on_session(p->install, &by, number, ask);
}

void kr_run_packages_over(struct kr_run_packages *p)
{
    struct kr_box_asker by;

    if (!p || !p->run)
        return;
    by = asker_of(p);
    kr_install_on_session(p->install, &by, 0, NULL);
    p->run = NULL;
}

/* ---- the end ---- */

static void on_box_stopped(void *data)
{
    ((struct kr_run_packages *)data)->has_stopped = true;
}

void kr_run_packages_close(struct kr_run_packages *p)
{
    if (!p)
        return;
    p->is_told = true; /* nothing is told any more */
    kr_runlog_reader_close(p->reader);
    kr_runlog_unref(p->log);
    if (p->install && p->with->needs && !p->is_over && p->watch.on_end)
        kr_job_unwatch(&p->watch);
    kr_jobs_close(p->jobs);
    kr_install_free(p->install);
    if (p->box) {
        kr_box_stop(p->box, 0, on_box_stopped, p);
        while (!p->has_stopped || kr_run_sweep_busy(&p->sweep))
            (void)uv_run(p->loop, UV_RUN_ONCE);
    }
    kr_sandbox_done(&p->sandbox);
    kr_box_free(p->box);
    kr_package_store_free(p->wheels);
}

void kr_run_packages_free(struct kr_run_packages *p)
{
    if (!p)
        return;
    kr_store_close(p->store);
    kr_run_cache_remove(&p->with->cache);
    free(p);
}

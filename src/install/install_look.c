/* What is installed, and how it stands with one package.
 *
 * Called by the voices. Invariants: a caller that waits is called back once, from the loop, unless it has left; what
 * the system's Python has is asked of that Python, in a cell without a network, once in some minutes. */
#include "clock.h"
#include "fd.h"
#include "install_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYSTEM_MS 30000u
#define SYSTEM_S 600u     /* until it is asked anew */
#define SYSTEM_MAX 10000u /* distributions */
#define JOBS_LOOKED_AT 200u

struct kr_install_system {
    json_t *texts; /* [[name, version], …] */
    struct kr_package_system *items;
    size_t count;
    uint64_t made_ns;
};

struct kr_install_task {
    LIST_ENTRY(kr_install_task) link;
    struct kr_install *in; /* NULL: the room has closed */
    struct kr_work work;
    int folder;
    char sandbox[KR_STORE_ID_ROOM], user[KR_STORE_ID_ROOM], name[KR_REQ_NAME_ROOM];
    bool with_system;
    struct kr_package_list *list;
    int64_t read_us; /* when that was read, at the earliest */
    struct kr_install_cell *cell;
    struct kr_install_system *coming;
    int result;
    struct kr_err err;
    kr_install_list_fn *on_list; /* one of the two, or neither: the caller has left */
    kr_install_status_fn *on_status;
    void *data;
};

static const char system_code[] =
    "import importlib.metadata, json, sys\n"
    "found = {}\n"
    "paths = [one for one in sys.path if not one.startswith(('/venv', '/krait', '/workspace'))]\n"
    "for one in importlib.metadata.distributions(path=paths):\n"
    "    name, version = one.metadata['Name'], one.version\n"
    "    if name and version:\n"
    "        found.setdefault(name, version)\n"
    "print(json.dumps({'system': sorted(found.items(), key=lambda row: row[0].lower())}))\n";

/* ---- what the system has ---- */

static void free_system(struct kr_install_system *s)
{
    if (!s)
        return;
    json_decref(s->texts);
    free(s->items);
    free(s);
}

/* New; NULL: it makes no sense. */
static struct kr_install_system *read_system(const char *line, size_t len)
{
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL), *list = json_object_get(o, "system");
    struct kr_install_system *s = calloc(1, sizeof *s);
    size_t count = json_array_size(list);

    if (s && json_is_array(list) && count <= SYSTEM_MAX && (s->items = calloc(count + 1, sizeof *s->items))) {
        s->texts = json_incref(list);
        s->made_ns = kr_clock_ns();
        for (size_t i = 0; i < count; i++) {
            const json_t *row = json_array_get(list, i);
            const char *name = json_string_value(json_array_get(row, 0));
            const char *version = json_string_value(json_array_get(row, 1));
            char canonical[KR_REQ_NAME_ROOM];

            if (name && version && kr_requirement_canonical(name, strlen(name), canonical) &&
                strlen(version) < KR_PKG_VERSION_MAX && version[strcspn(version, "\r\n\t ")] == '\0')
                s->items[s->count++] = (struct kr_package_system){name, version};
        }
    }
    json_decref(o);
    if (s && s->texts)
        return s;
    free_system(s);
    return NULL;
}

static const struct kr_install_system *system_of(const struct kr_install *in)
{
    const struct kr_install_system *s = in->system;

    return s && kr_clock_ns() - s->made_ns < SYSTEM_S * UINT64_C(1000000000) ? s : NULL;
}

/* ---- the end of a look ---- */

static void free_look(struct kr_install_task *t)
{
    LIST_REMOVE(t, link);
    kr_fd_close(t->folder);
    kr_package_list_free(t->list);
    free_system(t->coming);
    free(t);
}

struct naming {
    const char *name;
    struct kr_store_job job;
    bool is_found;
};

static bool names_it(const struct kr_store_job *row, const char *name)
{
    json_t *params = json_loads(row->params, 0, NULL), *one;
    bool is_there = false;
    size_t i;

    json_array_foreach(json_object_get(params, "names"), i, one)
    {
        is_there |= json_is_string(one) && strcmp(json_string_value(one), name) == 0;
    }
    json_decref(params);
    return is_there;
}

static bool on_named_job(void *data, const struct kr_store_job *row)
{
    struct naming *n = data;

    if ((strcmp(row->kind, KR_INSTALL_KIND) != 0 && strcmp(row->kind, KR_UNINSTALL_KIND) != 0) ||
        !names_it(row, n->name))
        return true;
    n->job = *row;
    n->is_found = true;
    return false;
}

static enum kr_install_state state_of(const struct naming *n, bool is_there)
{
    bool is_install = n->is_found && strcmp(n->job.kind, KR_INSTALL_KIND) == 0;

    if (is_install && !n->job.ended)
        return KR_INSTALL_INSTALLING;
    if (is_install && strcmp(n->job.cause, kr_cause_rows[KR_CAUSE_OK].name) != 0)
        return KR_INSTALL_FAILED;
    if (!is_there)
        return KR_INSTALL_NOT_FOUND;
    return is_install ? KR_INSTALL_SUCCESS : KR_INSTALL_INSTALLED;
}

static const char *version_of(const struct kr_install_task *t)
{
    const struct kr_package_item *item = kr_package_list_find(t->list, t->name);
    const struct kr_install_system *s = t->in->system;

    for (size_t i = 0; !item && s && i < s->count; i++) {
        char canonical[KR_REQ_NAME_ROOM];

        if (kr_requirement_canonical(s->items[i].name, strlen(s->items[i].name), canonical) &&
            strcmp(canonical, t->name) == 0)
            return s->items[i].version;
    }
    return item ? item->version : "";
}

/* A row of a running job is as old as its last note: what it says now is in memory. */
static void freshen(const struct kr_install_task *t, struct naming *n)
{
    const struct kr_job *job = n->is_found ? kr_jobs_running(t->in->config.jobs, t->user, n->job.id) : NULL;

    if (job)
        n->job = *kr_job_row(job);
}

static void read_anew(struct kr_install_task *t);

/* False: a job has ended since the environment was read, which is read once more. */
static bool tell_status(struct kr_install_task *t)
{
    struct naming n = {.name = t->name};
    struct kr_install_status status = {.version = version_of(t), .job = "", .text = ""};
    struct kr_err err;

    if (kr_store_jobs_about(t->in->config.store, t->user, t->sandbox, JOBS_LOOKED_AT, on_named_job, &n, &err) < 0) {
        t->on_status(t->data, NULL, &err);
        return true;
    }
    freshen(t, &n);
    if (n.is_found && n.job.ended >= t->read_us) {
        read_anew(t);
        return false;
    }
    status.state = state_of(&n, status.version[0] != '\0');
    if (n.is_found) {
        status.job = n.job.id;
        status.started_us = n.job.started;
        status.ended_us = n.job.ended;
        status.text = status.state == KR_INSTALL_INSTALLING ? n.job.text
                      : status.state == KR_INSTALL_FAILED   ? n.job.message
                                                            : "";
    }
    t->on_status(t->data, &status, NULL);
    return true;
}

static void finish_look(struct kr_install_task *t, const struct kr_err *err)
{
    const struct kr_install_system *s = t->with_system && t->in ? t->in->system : NULL;
    const struct kr_install_listing listing = {
        .environment = t->list, .system = s ? s->items : NULL, .system_count = s ? s->count : 0};

    if (t->on_list)
        t->on_list(t->data, err ? NULL : &listing, err);
    else if (t->on_status && err)
        t->on_status(t->data, NULL, err);
    else if (t->on_status && !tell_status(t))
        return;
    free_look(t);
}

/* ---- the look ---- */

static void on_system_line(void *data, const char *line, size_t len)
{
    struct kr_install_task *t = data;
    struct kr_install_system *s = t->coming ? NULL : read_system(line, len);

    if (s)
        t->coming = s;
}

static void on_system_end(void *data, const struct kr_err *err)
{
    struct kr_install_task *t = data;
    struct kr_err none;

    t->cell = NULL;
    if (t->coming) {
        free_system(t->in->system);
        t->in->system = t->coming;
        t->coming = NULL;
        read_anew(t); /* that took its time */
        return;
    }
    if (!err)
        kr_err_set(&none, KR_ERR_SYSTEM, 0, "the server's Python did not say which packages it has");
    finish_look(t, err ? err : &none);
}

static void ask_system(struct kr_install_task *t)
{
    static const struct kr_install_cell_calls calls = {.on_line = on_system_line, .on_end = on_system_end};
    struct kr_install_cell_spec spec = {.sandbox = t->sandbox,
                                        .user = t->user,
                                        .network = KR_NET_NONE,
                                        .code = system_code,
                                        .timeout_ms = SYSTEM_MS,
                                        .output_max = 1u << 20,
                                        .line_max = 1u << 20};
    struct kr_err err;

    kr_install_cell_limits(&spec.limits, SYSTEM_MS);
    if (kr_install_cell_open(t->in, &spec, &calls, t, &t->cell, &err) < 0)
        finish_look(t, &err);
}

static void run_look(void *data)
{
    struct kr_install_task *t = data;

    t->result = kr_package_env_read(t->folder, &t->list, &t->err);
}

static void on_looked(void *data)
{
    struct kr_install_task *t = data;

    if (t->in)
        t->in->works--;
    if (!t->in || (!t->on_list && !t->on_status))
        free_look(t);
    else if (t->result < 0)
        finish_look(t, &t->err);
    else if (t->with_system && !system_of(t->in))
        ask_system(t);
    else
        finish_look(t, NULL);
}

static int start_reading(struct kr_install_task *t)
{
    static const struct kr_work_calls calls = {.run = run_look, .done = on_looked, .dropped = on_looked};

    t->read_us = kr_store_now();
    if (kr_lane_start(t->in->lane, &t->work, &calls, t) < 0)
        return kr_err_set(&t->err, KR_ERR_BUSY, EBUSY, "too many wait for the disk: try again in a moment");
    t->in->works++;
    return 0;
}

static void read_anew(struct kr_install_task *t)
{
    kr_package_list_free(t->list);
    t->list = NULL;
    if (start_reading(t) < 0)
        finish_look(t, &t->err);
}

static int start_look(struct kr_install *in, const struct kr_caller *who, const char *sandbox,
                      struct kr_install_task **ret, struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_install_task *t;
    int folder, r = kr_box_sandbox_find(in->config.box, who, sandbox, &s, err);

    if (r < 0 || (r = folder = kr_box_sandbox_home(in->config.box, &s, err)) < 0)
        return r;
    t = calloc(1, sizeof *t);
    if (!t) {
        kr_fd_close(folder);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a look at packages");
    }
    LIST_INSERT_HEAD(&in->tasks, t, link);
    t->in = in;
    t->folder = folder;
    snprintf(t->sandbox, sizeof t->sandbox, "%s", s.row.id);
    snprintf(t->user, sizeof t->user, "%s", who->user);
    r = start_reading(t);
    if (r < 0) {
        *err = t->err;
        free_look(t);
        return r;
    }
    *ret = t;
    return 0;
}

int kr_install_list(struct kr_install *in, const struct kr_caller *who, const char *sandbox, bool with_system,
                    kr_install_list_fn *fn, void *data, struct kr_install_task **ret_task, struct kr_err *err)
{
    struct kr_install_task *t = NULL;
    int r = start_look(in, who, sandbox, &t, err);

    if (r < 0 || !t)
        return r;
    t->with_system = with_system;
    t->on_list = fn;
    t->data = data;
    *ret_task = t;
    return 0;
}

int kr_install_status(struct kr_install *in, const struct kr_caller *who, const char *sandbox, const char *name,
                      kr_install_status_fn *fn, void *data, struct kr_install_task **ret_task, struct kr_err *err)
{
    struct kr_requirement *requirement = NULL;
    struct kr_install_task *t = NULL;
    int r = kr_requirement_parse(name, strlen(name), &requirement, err);

    if (r < 0)
        return r;
    r = start_look(in, who, sandbox, &t, err);
    if (r < 0 || !t) {
        kr_requirement_free(requirement);
        return r;
    }
    snprintf(t->name, sizeof t->name, "%s", requirement->canonical);
    kr_requirement_free(requirement);
    t->with_system = true;
    t->on_status = fn;
    t->data = data;
    *ret_task = t;
    return 0;
}

void kr_install_task_forget(struct kr_install_task *task)
{
    task->on_list = NULL;
    task->on_status = NULL;
}

void kr_install_looks_close(struct kr_install *in)
{
    struct kr_install_task *t, *next;

    for (t = LIST_FIRST(&in->tasks); t; t = next) {
        next = LIST_NEXT(t, link);
        kr_install_task_forget(t);
        if (!t->cell) /* its work goes on, and frees it */
            continue;
        kr_install_cell_drop(t->cell);
        free_look(t);
    }
    free_system(in->system);
    in->system = NULL;
}

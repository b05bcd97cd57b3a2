/* Guests: zygotes that import the packages of a template, whose code is not krait's to vouch for
 * (docs/design/preload.md).
 *
 * Called by warden.c (the request), family.c (its start, what it says, its end) and birth.c (its cells). Invariants:
 * what is asked for is one name of a folder on the shelf, checked as that of a session's workspace is; the
 * interpreter is executed only in a control group with limits; a guest serves only if nothing but itself is in that
 * group; it may say no more than it was asked; one that keeps ending is given up. */
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "log.h"
#include "warden_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROCESSES 64 /* itself, and sessions on their way into their own control groups */
#define CPU_MILLI 1000
#define GONE_MS 2000
#define SAID_MORE 8 /* than two for each question: its greeting, a failure */

int kr_is_guest(const struct kr_warden *w, unsigned index)
{
    return w->config->zygotes[index].preload == KR_PRELOAD_TEMPLATE;
}

/* The last of the instance's ids: cells have those from 1 on, two each, and it is not the builder's, so that it owns no
 * user namespace of a cell. */
uint32_t kr_guest_id(const struct kr_warden *w)
{
    return w->standing.id_count - 1;
}

/* ---- the start ---- */

static int check_machine(const struct kr_warden *w, struct kr_err *err)
{
    const uint32_t groups = KR_LAYER_CGROUP_MEMORY | KR_LAYER_CGROUP_PIDS;
    if (w->standing.level != KR_LEVEL_ROOT || !w->standing.unique)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "packages of templates are preloaded only where krait is root");
    if (2 * w->cell_max >= kr_guest_id(w))
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "there is no id left for a zygote of a template");
    if ((w->cgroups.layers & groups) != groups)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0,
                          "packages of templates are preloaded only where control groups limit memory and processes");
    return 0;
}

static int make_group(struct kr_family *f, struct kr_err *err)
{
    struct kr_warden *w = f->w;
    struct kr_limits l;
    int r = kr_cgroup_take(&w->cgroups, ++w->serial << 16 | 0xffff, &f->group, err);
    kr_limits_default(&l);
    l.memory = w->config->guest_memory;
    l.processes = PROCESSES;
    l.cpu_milli = CPU_MILLI;
    return r < 0 ? r : kr_cgroup_limit(&w->cgroups, &f->group, &l, err);
}

/* The template's environment as the zygote sees it: read-only, and its owner is the zygote. */
static int open_venv(const struct kr_family *f, struct kr_err *err)
{
    const struct kr_warden *w = f->w;
    cleanup_fd int idmap = -1;
    struct kr_workspace folder;
    int r = kr_workspace_on_shelf(&w->shelf, w->guests[f->index].folder, KR_SHELF_ENV, &folder, err);
    if (r < 0)
        return r;
    folder.read_only = 1;
    idmap = kr_idmap_new(folder.uid, folder.gid, w->standing.first_id + kr_guest_id(w), err);
    r = idmap < 0 ? idmap : kr_workspace_tree(&folder, idmap, err);
    close(folder.dir);
    return r;
}

int kr_guest_begin(struct kr_family *f, int *ret_venv, struct kr_err *err)
{
    int r = check_machine(f->w, err);
    if (r < 0 || (r = open_venv(f, err)) < 0)
        return r;
    *ret_venv = r;
    f->start_deadline = kr_clock_after_ms(f->w->config->guest_start_ms);
    return make_group(f, err);
}

int kr_guest_go(struct kr_family *f, struct kr_err *err)
{
    const struct kr_cgroups *g = &f->w->cgroups;
    int tasks[KR_HIERARCHIES_MAX], n, r = kr_cgroup_attach(g, &f->group, f->zygote, err);
    if (r < 0 || (n = kr_cgroup_tasks(g, &f->group, tasks, err)) < 0)
        return r < 0 ? r : -EIO;
    r = kr_frame_send(f->zygote_control, KR_Z_GO, 0, NULL, 0, tasks, (unsigned)n);
    while (n > 0)
        close(tasks[--n]);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "tell a zygote to go") : 0;
}

/* It says that it has imported its packages. Threads and processes of theirs, daemons too, are in its group. */
int kr_guest_greeted(struct kr_family *f, struct kr_err *err)
{
    struct kr_usage usage;
    int r = kr_cgroup_check(&f->w->cgroups, &f->group, f->zygote, err);
    if (r < 0)
        return r;
    kr_cgroup_usage(&f->w->cgroups, &f->group, &usage);
    if (!(usage.have & KR_LAYER_CGROUP_PIDS) || usage.pids != 1)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "after its imports there are %llu processes and threads, not 1",
                          (unsigned long long)usage.pids);
    return 0;
}

/* ---- what it says ---- */

int kr_guest_may_say(struct kr_family *f)
{
    return ++f->said <= 2 * f->questions + SAID_MORE;
}

/* Its code may have written it: one line of plain text, of a kind that promises nothing. */
void kr_guest_plain(struct kr_err *err)
{
    err->kind = KR_ERR_UNAVAILABLE;
    err->code = 0;
    for (char *at = err->msg; *at; at++)
        if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\')
            *at = '\'';
}

void kr_guest_why(struct kr_family *f)
{
    struct kr_usage usage;
    kr_cgroup_usage(&f->w->cgroups, &f->group, &usage);
    if (f->err.kind != KR_ERR_NONE)
        return;
    if (usage.oom_kills > 0)
        kr_err_set(&f->err, KR_ERR_LIMIT, 0, "its packages need more memory than templates.zygote_memory (%llu MiB)",
                   (unsigned long long)(f->w->config->guest_memory >> 20));
    else
        kr_err_set(&f->err, KR_ERR_UNAVAILABLE, 0,
                   f->ready_at != 0 ? "it ended after it had imported its packages"
                                    : "it ended while it imported its packages");
}

/* ---- its cells ---- */

/* While its init waits for our word, so that its namespaces are those that it was cloned into. */
int kr_cell_open_spaces(struct kr_cell *c, struct kr_err *err)
{
    static const char *const names[KR_SPACES_] = {
        [KR_SPACE_PID] = "pid", [KR_SPACE_NET] = "net",   [KR_SPACE_IPC] = "ipc",
        [KR_SPACE_UTS] = "uts", [KR_SPACE_USER] = "user", [KR_SPACE_MNT] = "mnt"};
    struct stat space;
    char path[48];
    for (int i = 0; i < KR_SPACES_; i++) {
        snprintf(path, sizeof path, "/proc/%d/ns/%s", c->init, names[i]);
        c->spaces[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (c->spaces[i] < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the %s namespace of a cell", names[i]);
    }
    /* The number was the init's all the while only if it is not reaped yet. */
    if (syscall(SYS_pidfd_send_signal, c->init_pidfd, 0, NULL, 0) < 0 || fstat(c->spaces[KR_SPACE_PID], &space) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the namespaces of a cell");
    c->pid_space = space.st_ino;
    return 0;
}

/* The zygote's word is that its child is in the cell; the packages' code may have said it. */
static int check_space(const struct kr_cell *c, struct kr_err *err)
{
    struct stat space;
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/ns/pid", c->session);
    if (stat(path, &space) < 0 || syscall(SYS_pidfd_send_signal, c->session_pidfd, 0, NULL, 0) < 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "the session ended before it was ready");
    if (space.st_ino != c->pid_space)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPERM, "the session named is not in its cell");
    return 0;
}

int kr_guest_check_forked(struct kr_cell *c, struct kr_err *err)
{
    struct kr_family *f = c->family;
    int r = check_space(c, err);
    if (r < 0 && err->kind != KR_ERR_PROTOCOL)
        return r;
    /* On v1 it was given the tasks files of the cell for its child. */
    if (r >= 0)
        r = kr_cgroup_check(&f->w->cgroups, &f->group, f->zygote, err);
    if (r < 0 && kr_fd_wait(f->zygote_pidfd, POLLIN, 0) > 0) /* an ended process is in no group */
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EAGAIN, "the zygote ended; it is being replaced");
    if (r < 0) {
        kr_log(KR_LOG_ERROR, "a zygote of a template is killed", "index=%u error=\"%s\"", f->index, err->msg);
        kr_family_kill(f);
    }
    return r;
}

void kr_cell_close_spaces(struct kr_cell *c)
{
    for (int i = 0; i < KR_SPACES_; i++)
        c->spaces[i] = kr_fd_close(c->spaces[i]);
}

/* ---- the request ---- */

static void refuse_opens(struct kr_warden *w, unsigned index)
{
    struct kr_err err;
    kr_err_set(&err, KR_ERR_UNAVAILABLE, EAGAIN, "the zygote is being replaced");
    for (struct kr_open *o; (o = STAILQ_FIRST(&w->opens[index])); free(o)) {
        STAILQ_REMOVE_HEAD(&w->opens[index], link);
        w->open_count--;
        w->queued -= o->req.limits.memory;
        kr_warden_refuse(w, o->id, &err);
    }
}

static void tell_failed(struct kr_warden *w, unsigned index, const struct kr_err *err)
{
    struct kr_w_zygote z = {.zygote = index, .state = KR_ZYG_FAILED, .generation = ++w->generation, .err = *err};
    (void)kr_warden_tell(w, KR_W_ZYGOTE, 0, &z, sizeof z, NULL, 0);
}

void kr_guest_preload(struct kr_warden *w, const struct kr_w_preload *req)
{
    struct kr_err err = {0};
    unsigned i = req->zygote;
    if (i >= w->config->zygote_count || !kr_is_guest(w, i)) {
        kr_log(KR_LOG_ERROR, "the engine named no zygote for templates, ignoring", "zygote=%u", i);
        return;
    }
    snprintf(w->guests[i].folder, sizeof w->guests[i].folder, "%.*s", (int)sizeof req->folder - 1, req->folder);
    w->guests[i].epoch++;
    w->crashes[i] = 0;
    w->greeted[i] = 0;
    w->restart_at[i] = 0;
    refuse_opens(w, i);
    kr_family_retire(w, i);
    for (struct kr_family *f = w->families; f; f = f->next)
        if (f->index == i)
            kr_guest_tend(f);
    w->woken[i] = w->guests[i].folder[0] != '\0';
    if (w->woken[i] && w->asleep)
        kr_err_set(&err, KR_ERR_UNAVAILABLE, 0, "no zygote was asked for yet");
    else if (w->woken[i] && kr_guest_lingers(w, i))
        w->restart_at[i] = kr_clock_ns(); /* when that has ended: see kr_family_tend() */
    else if (w->woken[i])
        (void)kr_family_start(w, i, &err);
    if (err.kind != KR_ERR_NONE)
        tell_failed(w, i, &err);
}

/* ---- its end ---- */

int kr_guest_lingers(const struct kr_warden *w, unsigned index)
{
    for (const struct kr_family *f = w->families; f; f = f->next)
        if (f->index == index && f->builder > 0 && (f->lost || (f->state == KR_ZYG_RETIRED && f->zygote_control >= 0)))
            return 1;
    return 0;
}

/* Otherwise it would hold its memory for as long as a session of it lives, beside the one that took its place. */
void kr_guest_tend(struct kr_family *f)
{
    const struct kr_warden *w = f->w;
    if (!f->is_guest || f->state != KR_ZYG_RETIRED || f->lost || f->zygote_control < 0 || f->zygote_pidfd < 0 ||
        f->uses[KR_USE_WANTED] > 0)
        return;
    for (unsigned i = 0; i < w->cell_max; i++)
        if (w->cells[i] && w->cells[i]->family == f && w->cells[i]->debtor == KR_OWES_ZYGOTE)
            return;
    kr_family_lose_zygote(f);
}

/* The engine is told, and the family's own state stays what it is: it may have sessions that live on. */
void kr_guest_given_up(struct kr_family *f, unsigned ends)
{
    struct kr_err err;
    kr_guest_why(f);
    kr_err_set(&err, KR_ERR_UNAVAILABLE, 0, "it was given up after it had ended %u times: %.150s", ends, f->err.msg);
    tell_failed(f->w, f->index, &err);
}

int kr_guest_gone(struct kr_family *f)
{
    uint64_t now = kr_clock_ns();
    int r;
    if (f->group.name == 0)
        return 1;
    if (f->give_up_at == 0)
        f->give_up_at = now + GONE_MS * 1000000ull;
    r = kr_cgroup_remove(&f->w->cgroups, &f->group);
    if (r == -EBUSY && now < f->give_up_at)
        return 0; /* the last task leaves a moment after it is reaped */
    if (r < 0)
        kr_log(KR_LOG_WARN, "a zygote's cgroup stays until the next start, ignoring", "errno=%d", -r);
    f->group.name = 0;
    return 1;
}

/* A cell as the warden keeps it: its state, who owes it an answer, and its end. How it comes to be is birth.c's
 * business. Invariants: a cell's ids, cgroup and index are given to another only after its init is reaped, and an init
 * is reaped only after every process of its pid namespace is (pid_namespaces(7)); a cell that a builder or a zygote
 * still owes an answer is kept until the answer or their end comes; its requester is answered once, however it ends.
 * Nothing is freed but by kr_cell_finish(), which only the loop calls. */
#include "clock.h"
#include "fd.h"
#include "warden_internal.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define ANSWER_MS 5000
#define RETRY_MS 2 /* of a busy cgroup */
#define GIVE_UP_MS 1000
#define STOCK_RETRY_MS 1000
#ifndef PIDFD_SIGNAL_PROCESS_GROUP
#define PIDFD_SIGNAL_PROCESS_GROUP (1UL << 2) /* Linux 6.9 */
#endif

struct kr_cell *kr_cell_find(struct kr_warden *w, uint64_t id)
{
    unsigned index = (unsigned)(id & 0xffff);
    struct kr_cell *c = index < w->cell_max ? w->cells[index] : NULL;
    return c && c->id == id ? c : NULL;
}

struct kr_cell *kr_cell_new(struct kr_family *f, uint32_t network, struct kr_err *err)
{
    struct kr_warden *w = f->w;
    unsigned index = w->free_from;
    struct kr_cell *c;
    while (index < w->cell_max && w->cells[index])
        index++;
    w->free_from = index;
    c = index < w->cell_max ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        kr_err_set(err, KR_ERR_LIMIT, EAGAIN, "%u cells are live, as many as may be", w->cell_count);
        return NULL;
    }
    *c = (struct kr_cell){.id = ++w->serial << 16 | index,
                          .index = index,
                          .state = KR_CELL_BUILDING,
                          .use = KR_USE_SPARE,
                          .family = f,
                          .network = network,
                          .init_pidfd = -1,
                          .init_channel = -1,
                          .session_pidfd = -1,
                          .ends = {-1, -1, -1, -1},
                          .spaces = {-1, -1, -1, -1, -1, -1},
                          .listener = -1,
                          .gate = -1,
                          .init = -1,
                          .session = -1,
                          .session_inside = -1};
    w->cells[index] = c;
    w->cell_count++;
    f->cells++;
    f->uses[c->use]++;
    TAILQ_INSERT_TAIL(&f->spares, c, spare_link);
    return c;
}

/* ---- whose it is ---- */

static unsigned list_of(uint64_t number)
{
    return (unsigned)((number ^ number >> 16) % KR_LISTS);
}

/* Into one of the warden's tables, or out of it; where it is that already it stays. */
#define PUT(c, table, number, link, is_in)                                                                             \
    do {                                                                                                               \
        if ((c)->link.le_prev && !(is_in)) {                                                                           \
            LIST_REMOVE(c, link);                                                                                      \
            (c)->link.le_prev = NULL;                                                                                  \
        } else if (!(c)->link.le_prev && (is_in)) {                                                                    \
            LIST_INSERT_HEAD(&(c)->family->w->table[list_of(number)], c, link);                                        \
        }                                                                                                              \
    } while (0)

void kr_cell_set_owner(struct kr_cell *c, uint64_t owner)
{
    PUT(c, by_owner, c->owner, owner_link, 0);
    c->owner = owner;
    PUT(c, by_owner, owner, owner_link, owner != 0 && c->state != KR_CELL_ENDING);
}

void kr_cell_placed(struct kr_cell *c)
{
    PUT(c, by_user, c->group.user, user_link, c->group.user != 0);
    PUT(c, running, c->group.user, running_link, c->group.user != 0 && c->group.pace == KR_PACE_RUN);
}

uint64_t kr_cell_user_of(const struct kr_warden *w, uint64_t owner)
{
    const struct kr_cell *c;
    LIST_FOREACH(c, &w->by_owner[list_of(owner)], owner_link)
    if (owner != 0 && c->owner == owner)
        return c->group.user;
    return 0;
}

/* Is no other cell in its user's cgroup? */
static int is_alone(const struct kr_cell *c)
{
    const struct kr_cell *other;
    if (c->group.user != 0)
        LIST_FOREACH(other, &c->family->w->by_user[list_of(c->group.user)], user_link)
    if (other != c && other->group.user == c->group.user)
        return 0;
    return 1;
}

/* Does a cell of its user run? */
static int user_runs(const struct kr_cell *c, int without)
{
    const struct kr_cell *other;
    LIST_FOREACH(other, &c->family->w->running[list_of(c->group.user)], running_link)
    if (other->group.user == c->group.user && !(without && other == c))
        return 1;
    return 0;
}

/* ---- state ---- */

void kr_cell_set_state(struct kr_cell *c, enum kr_cell_state state)
{
    c->state = state;
}

void kr_cell_set_use(struct kr_cell *c, enum kr_use use)
{
    if (c->use == KR_USE_SPARE)
        TAILQ_REMOVE(&c->family->spares, c, spare_link);
    if (use == KR_USE_SPARE)
        TAILQ_INSERT_TAIL(&c->family->spares, c, spare_link);
    c->family->uses[c->use]--;
    c->family->uses[use]++;
    c->use = use;
}

void kr_cell_owe(struct kr_cell *c, enum kr_debtor debtor)
{
    struct kr_warden *w = c->family->w;
    w->debts -= c->debtor != KR_OWES_NOBODY;
    w->debts += debtor != KR_OWES_NOBODY;
    c->debtor = debtor;
    c->deadline = kr_clock_after_ms(ANSWER_MS);
}

void kr_cell_promise(struct kr_cell *c, uint64_t memory)
{
    c->family->w->promised += memory - c->promised;
    c->promised = memory;
}

/* Taken out of the epoll first: a copy that a child has for a moment would keep it there (epoll(7)). */
static void cell_close_channel(struct kr_cell *c)
{
    if (c->init_channel >= 0)
        (void)epoll_ctl(c->family->w->epoll, EPOLL_CTL_DEL, c->init_channel, NULL);
    c->init_channel = kr_fd_close(c->init_channel);
}

static void cell_free(struct kr_cell *c)
{
    struct kr_warden *w = c->family->w;
    kr_cell_owe(c, KR_OWES_NOBODY);
    kr_cell_promise(c, 0);
    kr_cell_gauge_forget(c);
    cell_close_channel(c);
    kr_fd_close(c->init_pidfd);
    kr_fd_close(c->session_pidfd);
    kr_fd_close(c->gate);
    for (int i = 0; i < 4; i++)
        kr_fd_close(c->ends[i]);
    kr_fd_close(c->listener);
    kr_cell_close_spaces(c);
    while (c->task_count > 0)
        kr_fd_close(c->tasks[--c->task_count]);
    PUT(c, by_owner, c->owner, owner_link, 0);
    PUT(c, by_user, c->group.user, user_link, 0);
    PUT(c, running, c->group.user, running_link, 0);
    w->cells[c->index] = NULL;
    if (c->index < w->free_from)
        w->free_from = c->index;
    w->cell_count--;
    w->gone_count--;
    TAILQ_REMOVE(&w->gone, c, gone_link);
    if (c->use == KR_USE_SPARE)
        TAILQ_REMOVE(&c->family->spares, c, spare_link);
    c->family->uses[c->use]--;
    c->family->cells--;
    free(c);
}

int kr_cell_signal(struct kr_cell *c, uint64_t since_ns, int signo)
{
    if (c->session_pidfd < 0 || c->state == KR_CELL_ENDING)
        return -ESRCH;
    if (since_ns != 0 && kr_cgroup_signal(&c->family->w->cgroups, &c->group, c->session, since_ns, signo) >= 0)
        return syscall(SYS_pidfd_send_signal, c->session_pidfd, signo, NULL, 0) < 0 ? -errno : 0;
    if (syscall(SYS_pidfd_send_signal, c->session_pidfd, signo, NULL, PIDFD_SIGNAL_PROCESS_GROUP) == 0)
        return 0;
    if (errno != EINVAL)
        return -errno;
    /* Before Linux 6.9 a pidfd cannot name its group. The pid is still the session's if the pidfd says that it lives:
     * it leads its own group, and its parent reports the end before another process can have the number. */
    if (syscall(SYS_pidfd_send_signal, c->session_pidfd, 0, NULL, 0) < 0)
        return -errno;
    return kill(-c->session, signo) < 0 ? -errno : 0;
}

/* By way of the session, for the init has made itself unreadable. The number was the session's all the while if it is
 * not reaped yet. What lies on the way is the root that the init built, in which the cell
 * can mount and rename nothing. */
int kr_cell_proc(const struct kr_cell *c)
{
    struct statfs fs;
    char path[40];
    cleanup_fd int proc = -1;
    if (c->family->w->standing.level == KR_LEVEL_CONTAINED || !(c->layers & KR_LAYER_PROC))
        return -EOPNOTSUPP;
    snprintf(path, sizeof path, "/proc/%d/root/proc", c->session);
    proc = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (proc < 0 || fstatfs(proc, &fs) < 0)
        return -errno;
    if (syscall(SYS_pidfd_send_signal, c->session_pidfd, 0, NULL, 0) < 0)
        return -errno;
    return fs.f_type == PROC_SUPER_MAGIC ? steal_fd(&proc) : -EOPNOTSUPP;
}

/* A cell that rests rests among all cells only if its user's cgroup does: the weights of cells count within it. */
static void pace_user(const struct kr_cell *c, int without)
{
    struct kr_warden *w = c->family->w;
    enum kr_pace pace = user_runs(c, without) ? KR_PACE_RUN : KR_PACE_REST;
    struct kr_group user = {.user = c->group.user};
    struct kr_err err;
    user.pace = pace == KR_PACE_RUN ? KR_PACE_REST : KR_PACE_RUN;
    if (kr_cgroup_pace(&w->cgroups, &user, pace, &err) < 0)
        kr_log(KR_LOG_WARN, "pace of a user not set, ignoring", "error=\"%s\"", err.msg);
}

void kr_cell_pace(struct kr_cell *c, enum kr_pace pace)
{
    int ends = c->state == KR_CELL_ENDING, r;
    struct kr_err err;
    pace = ends ? KR_PACE_RUN : pace;
    if ((c->state != KR_CELL_STARTED && !ends) || c->group.pace == pace)
        return;
    r = kr_cgroup_pace(&c->family->w->cgroups, &c->group, pace, &err);
    kr_cell_placed(c);
    if (c->group.user != 0)
        pace_user(c, 0);
    if (r >= 0 && !ends)
        kr_cell_gauge_pace(c);
    if (r >= 0)
        return;
    kr_log(KR_LOG_WARN, ends || pace == KR_PACE_REST ? "pace of a cell not set, ignoring" : "pace of a cell not set",
           "error=\"%s\"", err.msg);
    if (!ends && pace != KR_PACE_REST)
        kr_cell_kill(c);
}

void kr_cell_fail(struct kr_cell *c, const struct kr_err *err)
{
    struct kr_warden *w = c->family->w;
    if (c->asked != 0) {
        kr_warden_refuse(w, c->asked, err);
        c->asked = 0;
    } else if (c->use == KR_USE_SPARE) {
        kr_log(KR_LOG_WARN, "no cell for the stock", "error=\"%s\"", err->msg);
    }
    kr_cell_kill(c);
}

void kr_cell_kill(struct kr_cell *c)
{
    struct kr_warden *w = c->family->w;
    int contained = w->standing.level == KR_LEVEL_CONTAINED;
    if (c->use == KR_USE_SPARE && !c->family->lost) /* another would end as this one does */
        w->calm_at = kr_clock_after_ms(STOCK_RETRY_MS);
    kr_cell_set_state(c, KR_CELL_ENDING);
    kr_cell_set_owner(c, c->owner);
    kr_cell_set_use(c, KR_USE_GIVEN);
    cell_close_channel(c);
    if (c->debtor == KR_OWES_INIT)
        kr_cell_owe(c, KR_OWES_NOBODY);
    if (!contained && c->init_pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, c->init_pidfd, SIGKILL, NULL, 0);
    /* Without a pid namespace the zygote kills the rest of the group when it reaps the leader. */
    if (contained && c->session_pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, c->session_pidfd, SIGKILL, NULL, 0);
    kr_cell_pace(c, KR_PACE_RUN);
    /* Nothing of it lives, unless the answer that is owed brings it. */
    if (c->debtor == KR_OWES_NOBODY && (contained ? c->session_pidfd : c->init_pidfd) < 0)
        kr_cell_gone(c);
    if (c->unwatched)
        kr_cell_gone(c);
}

void kr_cell_gone(struct kr_cell *c)
{
    if (c->init_gone)
        return;
    c->init_gone = 1;
    c->family->w->gone_count++;
    TAILQ_INSERT_TAIL(&c->family->w->gone, c, gone_link);
    if (c->state != KR_CELL_ENDING)
        kr_cell_kill(c);
}

static void session_ended(struct kr_cell *c, int status, uint64_t cpu_ns)
{
    c->status = status;
    c->cpu_ns = cpu_ns;
    c->status_known = 1;
    if (c->state != KR_CELL_ENDING)
        kr_cell_kill(c);
}

void kr_cell_on_exit(struct kr_family *f, const struct kr_z_exit *e)
{
    struct kr_warden *w = f->w;
    struct kr_cell *c = kr_cell_find(w, e->cell);
    if (!c || c->family != f || c->status_known)
        return;
    session_ended(c, e->status, e->cpu_ns);
    if (w->standing.level == KR_LEVEL_CONTAINED)
        kr_cell_gone(c);
}

/* The number is the dead zygote's word. It could only exchange the ends of its own sessions by it, which KR_Z_EXIT let
 * it do as well. One whose end is known does not count: the number may be another's since. */
void kr_cell_on_orphan_exit(struct kr_family *f, const struct kr_b_exit *e)
{
    struct kr_warden *w = f->w;
    for (unsigned i = 0; i < w->cell_max; i++) {
        struct kr_cell *c = w->cells[i];
        if (!c || c->family != f || c->session_pidfd < 0 || c->status_known || c->session_inside != e->pid)
            continue;
        session_ended(c, e->status, e->cpu_ns);
        return;
    }
}

void kr_cell_on_init_end(struct kr_cell *c)
{
    (void)epoll_ctl(c->family->w->epoll, EPOLL_CTL_DEL, c->init_pidfd, NULL);
    kr_cell_gone(c);
}

void kr_cell_usage(struct kr_cell *c, struct kr_usage *ret)
{
    kr_cgroup_usage(&c->family->w->cgroups, &c->group, ret);
    if (c->status_known && !(ret->have & KR_LAYER_CGROUP_CPU))
        ret->cpu_ns = c->cpu_ns;
}

/* Is something still to come? The session was reaped before the init could end, so the report of it is under way. */
static int is_awaited(struct kr_cell *c, uint64_t now)
{
    if (c->family->builder < 0)
        return 0;
    if (c->debtor != KR_OWES_NOBODY) /* a deadline of its own */
        return 1;
    if (c->unwatched && kr_fd_wait(c->init_pidfd, POLLIN, 0) == 0)
        return 1;
    return c->session_pidfd >= 0 && !c->status_known && now < c->give_up_at;
}

/* Once: the engine learns of the end, and a request that still waits is refused. */
static void say_ended(struct kr_cell *c)
{
    struct kr_warden *w = c->family->w;
    struct kr_w_ended ended = {.cell = c->id, .status = c->status, .known = c->status_known != 0};
    struct kr_err err;
    if (c->announced) {
        kr_cell_usage(c, &ended.usage);
        (void)kr_warden_tell(w, KR_W_ENDED, 0, &ended, sizeof ended, NULL, 0);
        c->announced = 0;
    }
    if (c->asked == 0)
        return;
    if (c->family->lost)
        kr_err_set(&err, KR_ERR_UNAVAILABLE, EAGAIN, "the zygote does not answer; it is being replaced");
    else
        kr_err_set(&err, KR_ERR_SYSTEM, 0, "the cell's init ended before its session had started");
    kr_warden_refuse(w, c->asked, &err);
    c->asked = 0;
}

/* All of its pid namespace was reaped before its init was. What is still in its cgroup was never in the cell: a child
 * of a guest, whose packages were given the cell's tasks files (v1). First it is killed there; what is in some
 * hierarchies alone, with the family. 1: the removal is to be tried again. */
static int evict(struct kr_cell *c, uint64_t now)
{
    struct kr_warden *w = c->family->w;
    struct kr_err err = {0};
    if (!c->family->is_guest || c->evicted > 1)
        return 0;
    c->give_up_at = now + GIVE_UP_MS * 1000000u;
    if (c->evicted++ == 0)
        (void)kr_cgroup_clear(&w->cgroups, &c->group, 0, 0, 1, &err);
    else
        kr_family_kill(c->family);
    kr_log(KR_LOG_WARN, "processes of a zygote in the cgroup of an ended cell are killed",
           "index=%u family=%d error=\"%s\"", c->family->index, c->evicted > 1, err.msg);
    return 1;
}

int kr_cell_finish(struct kr_cell *c)
{
    struct kr_warden *w = c->family->w;
    uint64_t now = kr_clock_ns();
    int r;
    if (c->give_up_at == 0)
        c->give_up_at = now + GIVE_UP_MS * 1000000u;
    if (is_awaited(c, now))
        return 0;
    say_ended(c);
    if (now < c->retry_at)
        return 0;
    if (c->retry_at == 0) /* the first try: what was awaited may have taken long */
        c->give_up_at = now + GIVE_UP_MS * 1000000u;
    /* An instance with a stock of cells keeps folders for them. */
    r = !w->stopping && w->config->stock > 0 && is_alone(c) && !c->evicted ? kr_cgroup_keep(&w->cgroups, &c->group) : 0;
    if (r == 0 || (r < 0 && now >= c->give_up_at))
        r = kr_cgroup_remove(&w->cgroups, &c->group);
    c->retry_at = now + RETRY_MS * 1000000u;
    if (r == -EBUSY && now < c->give_up_at)
        return 0; /* the last task leaves its cgroup a moment after it is reaped */
    if (r == -EBUSY && evict(c, now))
        return 0;
    if (r < 0)
        kr_log(KR_LOG_WARN, "a cell's cgroup stays until the next start, ignoring", "errno=%d", -r);
    if (w->standing.level == KR_LEVEL_CONTAINED) {
        char name[64];
        snprintf(name, sizeof name, "scratch-%u/c%016llx", w->instance.slot, (unsigned long long)c->id);
        kr_instance_remove(&w->instance, name);
    }
    if (!is_alone(c))
        pace_user(c, 1);
    cell_free(c);
    return 1;
}

void kr_cells_look(struct kr_warden *w)
{
    uint64_t now = kr_clock_ns();
    struct kr_err err;
    for (unsigned i = 0; w->debts > 0 && i < w->cell_max; i++) {
        struct kr_cell *c = w->cells[i];
        if (!c || c->debtor == KR_OWES_NOBODY || now < c->deadline)
            continue;
        if (c->debtor == KR_OWES_INIT) {
            kr_err_set(&err, KR_ERR_BUSY, ETIMEDOUT, "the cell's init did not answer within %d s", ANSWER_MS / 1000);
            kr_cell_fail(c, &err);
        } else if (c->debtor == KR_OWES_ZYGOTE && !c->family->lost) {
            kr_log(KR_LOG_ERROR, "a zygote does not answer and is killed", "index=%u", c->family->index);
            kr_family_lose_zygote(c->family);
        } else if (!c->family->lost) {
            kr_log(KR_LOG_ERROR, "a family does not answer and is killed", "index=%u", c->family->index);
            kr_family_kill(c->family);
        }
    }
}

/* Retention: deleting the files of logs that are too old or too many.
 *
 * Called by the domain from time to time, on the loop thread. Invariant: whether a log may go is decided on the loop
 * thread, where no reader can come at the same time; from then until its file is gone, opening it says that it is
 * not there. The thread pool only lists and unlinks. */
#include "fd.h"
#include "runlog_internal.h"
#include "work.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct found {
    char name[RL_NAME_MAX];
    uint64_t bytes, mtime_ms;
};

/* A batch of files being unlinked. */
struct rl_unlink {
    TAILQ_ENTRY(rl_unlink) link;
    struct kr_work work;
    struct kr_runlogs *logs;
    struct rl_trim *trim; /* which goes on after it, or NULL */
    int dirfd;
    size_t count;
    char names[][RL_NAME_MAX];
};

struct rl_trim {
    struct kr_work work;
    struct kr_runlogs *logs;
    struct kr_runlogs_trim how;
    void (*on_trimmed)(void *data, const struct kr_runlogs_trimmed *result);
    void *data;
    int dirfd;
    struct found *files; /* oldest first */
    size_t count, room, next;
    struct kr_runlogs_trimmed result;
};

/* ---- unlinking ---- */

static void delete_next(struct rl_trim *t);

static void run_unlink(void *data)
{
    struct rl_unlink *u = data;

    for (size_t i = 0; i < u->count; i++)
        unlinkat(u->dirfd, u->names[i], 0); /* what stays is met again by the next trim */
}

static void on_unlink_done(void *data)
{
    struct rl_unlink *u = data;
    struct kr_runlogs *l = u->logs;
    struct rl_trim *t = u->trim;

    l->jobs--;
    TAILQ_REMOVE(&l->unlinks, u, link);
    free(u);
    if (l->closed)
        rl_maybe_free(l);
    else if (t)
        delete_next(t);
}

static struct rl_unlink *new_unlink(struct kr_runlogs *l, size_t room)
{
    struct rl_unlink *u = calloc(1, sizeof *u + room * sizeof u->names[0]);

    if (!u)
        return NULL;
    u->logs = l;
    u->dirfd = l->config.dirfd;
    return u;
}

static void start_unlink(struct rl_unlink *u)
{
    static const struct kr_work_calls calls = {.run = run_unlink, .done = on_unlink_done};

    kr_work_start(u->logs->loop, &u->work, &calls, u);
    u->logs->jobs++;
    TAILQ_INSERT_TAIL(&u->logs->unlinks, u, link);
}

void rl_unlink(struct kr_runlogs *l, const char *name)
{
    struct rl_unlink *u = l->closed ? NULL : new_unlink(l, 1);

    if (!u)
        return; /* retention finds it by its age */
    memcpy(u->names[u->count++], name, strlen(name) + 1);
    start_unlink(u);
}

bool rl_being_unlinked(const struct kr_runlogs *l, const char *name)
{
    const struct rl_unlink *u;

    for (u = TAILQ_FIRST(&l->unlinks); u; u = TAILQ_NEXT(u, link))
        for (size_t i = 0; i < u->count; i++)
            if (strcmp(u->names[i], name) == 0)
                return true;
    return false;
}

/* ---- listing ---- */

/* The id in a file's name. False if it is none of ours. */
static bool id_of(const char *name, char id[static KR_RUNLOG_ID_MAX + 1])
{
    size_t len = strlen(name);

    if (len < 5 || len >= RL_NAME_MAX || strcmp(name + len - 4, ".log") != 0)
        return false;
    memcpy(id, name, len - 4);
    id[len - 4] = '\0';
    return rl_valid_id(id);
}

static int note_file(struct rl_trim *t, int dirfd, const char *name)
{
    char id[KR_RUNLOG_ID_MAX + 1];
    struct found *f;
    struct stat st;

    if (!id_of(name, id) || fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (t->count == t->room) {
        size_t room = t->room ? t->room * 2 : 64;
        void *grown = reallocarray(t->files, room, sizeof *t->files);

        if (!grown)
            return -ENOMEM;
        t->files = grown;
        t->room = room;
    }
    f = &t->files[t->count++];
    memcpy(f->name, name, strlen(name) + 1);
    f->mtime_ms = (uint64_t)st.st_mtim.tv_sec * 1000u + (uint64_t)st.st_mtim.tv_nsec / 1000000u;
    f->bytes = (uint64_t)st.st_blocks * 512;
    if (f->bytes < (uint64_t)st.st_size)
        f->bytes = (uint64_t)st.st_size;
    t->result.files++;
    t->result.bytes += f->bytes;
    return 0;
}

static int compare_ages(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    if (x->mtime_ms != y->mtime_ms)
        return x->mtime_ms < y->mtime_ms ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void run_list(void *data)
{
    struct rl_trim *t = data;
    int fd = openat(t->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct dirent *e;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        t->result.error = -errno;
        kr_fd_close(fd);
        return;
    }
    while (t->result.error == 0 && (e = readdir(dir)))
        t->result.error = note_file(t, dirfd(dir), e->d_name);
    closedir(dir);
    if (t->count > 0)
        qsort(t->files, t->count, sizeof *t->files, compare_ages);
}

/* ---- deciding ---- */

static bool is_too_old(const struct rl_trim *t, uint64_t mtime_ms)
{
    uint64_t now = rl_now_ms();

    return t->how.max_age_s > 0 && now > mtime_ms && now - mtime_ms > t->how.max_age_s * 1000u;
}

/* Frees the log in memory if there is one; false if it is live or has a reference. */
static bool may_delete(const struct rl_trim *t, const char *name)
{
    char id[KR_RUNLOG_ID_MAX + 1];
    struct kr_runlog *log = id_of(name, id) ? rl_find(t->logs, id) : NULL;

    if (!log)
        return !t->how.keeps || !id_of(name, id) || !t->how.keeps(t->how.data, id);
    if (!log->idle || log->writing)
        return false;
    rl_log_free(log);
    return true;
}

void rl_trim_free(struct rl_trim *t)
{
    if (!t)
        return;
    free(t->files);
    free(t);
}

static void finish_trim(struct rl_trim *t)
{
    struct kr_runlogs *l = t->logs;

    l->trim = NULL;
    t->on_trimmed(t->data, &t->result);
    rl_trim_free(t);
}

/* The next batch, or the end. */
static void delete_next(struct rl_trim *t)
{
    struct rl_unlink *u = new_unlink(t->logs, RL_UNLINK_MAX);
    uint64_t until_ms = 0;

    for (; u && t->next < t->count && u->count < RL_UNLINK_MAX; t->next++) {
        const struct found *f = &t->files[t->next];
        bool too_much = t->how.max_bytes > 0 && t->result.bytes > t->how.max_bytes;

        if (!too_much && !is_too_old(t, f->mtime_ms)) {
            t->next = t->count; /* those that follow are younger */
            break;
        }
        if (!may_delete(t, f->name))
            continue;
        memcpy(u->names[u->count++], f->name, sizeof f->name);
        until_ms = f->mtime_ms;
        t->result.files--;
        t->result.bytes -= f->bytes;
        t->result.deleted_files++;
        t->result.deleted_bytes += f->bytes;
    }
    if (u && u->count > 0) {
        if (t->how.on_deleting)
            t->how.on_deleting(t->how.data, until_ms);
        u->trim = t;
        start_unlink(u);
        return;
    }
    free(u);
    finish_trim(t);
}

/* Logs that are in memory alone, where there is no folder. */
static void trim_memory(struct rl_trim *t)
{
    struct kr_runlog *log;

    while ((log = TAILQ_FIRST(&t->logs->idle_memory)) && is_too_old(t, log->ended_ms)) {
        t->result.deleted_files++;
        t->result.deleted_bytes += log->memory;
        rl_log_free(log);
    }
}

static void on_list_done(void *data)
{
    struct rl_trim *t = data;
    struct kr_runlogs *l = t->logs;

    l->jobs--;
    if (l->closed) {
        rl_maybe_free(l); /* and t with it */
        return;
    }
    trim_memory(t);
    delete_next(t);
}

static void run_nothing(void *data)
{
    (void)data;
}

int kr_runlogs_trim(struct kr_runlogs *l, const struct kr_runlogs_trim *how,
                    void (*on_trimmed)(void *data, const struct kr_runlogs_trimmed *result), void *data)
{
    static const struct kr_work_calls calls = {.run = run_list, .done = on_list_done};
    static const struct kr_work_calls no_folder = {.run = run_nothing, .done = on_list_done};
    struct rl_trim *t;

    if (l->trim)
        return -EBUSY;
    t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    *t = (struct rl_trim){.logs = l, .how = *how, .on_trimmed = on_trimmed, .data = data, .dirfd = l->config.dirfd};
    kr_work_start(l->loop, &t->work, t->dirfd < 0 ? &no_folder : &calls, t);
    l->jobs++;
    l->trim = t;
    return 0;
}

int kr_runlogs_delete(struct kr_runlogs *l, const char *id)
{
    char name[RL_NAME_MAX];
    struct kr_runlog *log;

    if (!rl_valid_id(id))
        return -ENOENT;
    log = rl_find(l, id);
    if (log && log->doomed)
        return -ENOENT;
    if (log && !log->ended && !log->scanning && !log->failed)
        return -EBUSY;
    if (log) {
        log->doomed = true;
        rl_settle(log);
        return 0;
    }
    snprintf(name, sizeof name, "%s.log", id);
    if (l->config.dirfd < 0 || rl_being_unlinked(l, name) ||
        faccessat(l->config.dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return -ENOENT;
    rl_unlink(l, name);
    return 0;
}

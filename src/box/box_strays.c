/* What a killed process left on the shelf: half of an upload, and folders of sandboxes that were never made.
 *
 * Called once, by the first upkeep. The shelf is read on the thread pool. Invariants: what is younger than this
 * process is left alone, as it may be under way; a folder is removed only if it is empty and no row of the store
 * names it, so that no file of a user can go with it (a sandbox is used only after its row was committed). */
#include "box_internal.h"
#include "fd.h"
#include "files.h"
#include "id.h"
#include "log.h"
#include "work.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define AT_ONCE 256u      /* folders asked for in a turn of the loop */
#define EMPTY_MAX 100000u /* the next start has the rest */

struct kr_strays {
    struct kr_work work;
    struct kr_box *box;
    struct kr_timer *next;
    int shelf; /* its own descriptor */
    struct timespec born;
    char (*empty)[KR_STORE_ID_ROOM]; /* folders without a file */
    size_t count, room;
};

static void keep_empty(struct kr_strays *s, const char *name)
{
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        void *more = room > EMPTY_MAX ? NULL : reallocarray(s->empty, room, sizeof *s->empty);

        if (!more)
            return;
        s->empty = more;
        s->room = room;
    }
    memcpy(s->empty[s->count++], name, KR_STORE_ID_ROOM);
}

/* One without `files` may be a spare of this process (box_shelf.c). */
static bool is_older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static void look_at(struct kr_strays *s, const char *name)
{
    cleanup_fd int folder = openat(s->shelf, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_fd int files = folder < 0 ? -1 : openat(folder, "files", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct kr_err err;
    struct stat st;

    if (folder < 0 || fstat(folder, &st) < 0)
        return;
    if (files < 0 ? is_older(&st.st_ctim, &s->born) : kr_files_clean(files, &s->born, &err) == 1)
        keep_empty(s, name);
}

/* On the thread pool: it does not touch the box. */
static void run_look(void *data)
{
    struct kr_strays *s = data;
    int fd = openat(s->shelf, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!dir) {
        kr_fd_close(fd);
        return;
    }
    while ((e = readdir(dir)))
        if (kr_id_valid(e->d_name))
            look_at(s, e->d_name);
    closedir(dir);
}

static void strays_free(struct kr_strays *s)
{
    kr_timer_close(s->next);
    kr_fd_close(s->shelf);
    free(s->empty);
    free(s);
}

/* rmdir() alone: whatever is in it stays. */
static void remove_empty(const struct kr_strays *s, const char *name)
{
    cleanup_fd int folder = openat(s->shelf, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (folder >= 0 && (unlinkat(folder, "files", AT_REMOVEDIR) == 0 || errno == ENOENT) &&
        unlinkat(s->shelf, name, AT_REMOVEDIR) == 0)
        kr_log(KR_LOG_INFO, "removed a folder without a sandbox", "folder=%s", name);
}

/* The row is asked for in the turn in which the folder goes: a sandbox's folder and row are made in one turn, too. */
static void on_next(void *data)
{
    struct kr_strays *s = data;
    struct kr_err err;

    for (unsigned i = 0; i < AT_ONCE && s->count > 0; i++) {
        const char *name = s->empty[--s->count];

        if (kr_store_folder_known(s->box->config.store, name, &err) == 0)
            remove_empty(s, name);
    }
    if (s->count > 0 && !s->box->stopping) {
        kr_timer_arm(s->next, 1);
        return;
    }
    s->box->strays = NULL;
    strays_free(s);
}

static void on_looked(void *data)
{
    struct kr_strays *s = data;
    struct kr_box *b = s->box;

    if (!kr_box_job_end(b)) {
        strays_free(s);
        return;
    }
    on_next(s);
    kr_box_check_stopped(b);
}

void kr_strays_look(struct kr_box *b)
{
    static const struct kr_work_calls calls = {.run = run_look, .done = on_looked};
    struct kr_strays *s = calloc(1, sizeof *s);

    if (!s)
        return;
    s->box = b;
    s->shelf = openat(b->shelf, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->born = b->born;
    if (s->shelf < 0 || kr_timer_new(b->loop, on_next, s, &s->next) < 0) {
        strays_free(s);
        return;
    }
    kr_work_start(b->loop, &s->work, &calls, s);
    b->strays = s;
    kr_box_job_begin(b);
}

/* While its timer waits. A job that is under way frees itself. */
void kr_strays_close(struct kr_box *b)
{
    if (b->strays && kr_timer_armed(b->strays->next))
        strays_free(b->strays);
    b->strays = NULL;
}

/* Watches of the folders of a tree.
 *
 * Called by mirror.c, one thread at a time. Invariants: an event that cannot be kept makes the watch lost, never goes
 * by unseen; memory is bounded by the folders and names that the header allows; the kernel's limits are left to others
 * by half and more. */
#include "tree_watch.h"
#include "fd.h"
#include "files_internal.h"
#include "hash.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* What tells of a new name, of a name that is gone, and of an open or a change by name. A write needs an open before it
 * (a file that may be open is looked at each time), truncate(2) is a modification by name, chmod(2), link(2) and
 * utimensat(2) are ATTRIB or CREATE. */
#define MASK (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_ATTRIB | IN_OPEN)
#define NAMES_FIRST 256u /* slots; a power of two */
#define WD_MAX (1 << 20)
#define INSTANCES_MAX 64u
#define WATCHES_MAX 262144u
#define READ_BYTES (64u << 10)

struct touched {
    int wd;
    bool appeared;   /* it was made or moved here since, and is still here */
    bool moved_away; /* the last that was told of it */
    char *name;
};

struct kr_tree_watch {
    int fd;
    char **folders; /* paths by wd; NULL: not watched */
    size_t folders_room, folder_count, folder_bytes;
    struct touched *touched;
    uint32_t *slots; /* index in touched + 1; 0: free */
    size_t touched_count, touched_room, slot_count, name_bytes;
    uint64_t events;
    unsigned watches_max; /* of the whole process */
    bool lost, doubt;
};

static atomic_uint instances, watches;

/* A number of /proc/sys/fs/inotify divided, or most. */
static unsigned share_of(const char *name, unsigned divisor, unsigned most)
{
    char path[64], text[24] = "";
    cleanup_fd int fd = -1;
    unsigned long n;

    snprintf(path, sizeof path, "/proc/sys/fs/inotify/%s", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return most;
    n = strtoul(text, NULL, 10) / divisor;
    return n < most ? (unsigned)n : most;
}

int kr_tree_watch_new(struct kr_tree_watch **ret)
{
    struct kr_tree_watch *w;

    if (atomic_fetch_add(&instances, 1) >= share_of("max_user_instances", 2, INSTANCES_MAX)) {
        atomic_fetch_sub(&instances, 1);
        return -EMFILE;
    }
    w = calloc(1, sizeof *w);
    if (w)
        w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (!w || w->fd < 0) {
        int r = w ? -errno : -ENOMEM;

        atomic_fetch_sub(&instances, 1);
        free(w);
        return r;
    }
    w->watches_max = share_of("max_user_watches", 4, WATCHES_MAX);
    *ret = w;
    return 0;
}

void kr_tree_watch_forget(struct kr_tree_watch *w)
{
    for (size_t i = 0; i < w->touched_count; i++)
        free(w->touched[i].name);
    if (w->slots)
        memset(w->slots, 0, w->slot_count * sizeof *w->slots);
    w->touched_count = w->name_bytes = 0;
    w->events = 0;
    w->doubt = false;
}

void kr_tree_watch_free(struct kr_tree_watch *w)
{
    if (!w)
        return;
    kr_tree_watch_forget(w);
    for (size_t i = 0; i < w->folders_room; i++)
        free(w->folders[i]);
    atomic_fetch_sub(&watches, (unsigned)w->folder_count);
    atomic_fetch_sub(&instances, 1);
    kr_fd_close(w->fd);
    free(w->folders);
    free(w->touched);
    free(w->slots);
    free(w);
}

bool kr_tree_watch_lost(const struct kr_tree_watch *w)
{
    return w->lost;
}

bool kr_tree_watch_doubt(const struct kr_tree_watch *w)
{
    return w->doubt;
}

size_t kr_tree_watch_touched_count(const struct kr_tree_watch *w)
{
    return w->touched_count;
}

size_t kr_tree_watch_bytes(const struct kr_tree_watch *w)
{
    return sizeof *w + w->folders_room * sizeof *w->folders + w->folder_bytes + w->name_bytes +
           w->touched_room * sizeof *w->touched + w->slot_count * sizeof *w->slots;
}

/* ---- folders ---- */

static bool reserve_wd(struct kr_tree_watch *w, int wd)
{
    size_t room = w->folders_room ? w->folders_room : 64;
    char **grown;

    if (wd < 0 || wd >= WD_MAX)
        return false;
    while (room <= (size_t)wd)
        room *= 2;
    if (room == w->folders_room)
        return true;
    grown = reallocarray(w->folders, room, sizeof *grown);
    if (!grown)
        return false;
    memset(grown + w->folders_room, 0, (room - w->folders_room) * sizeof *grown);
    w->folders = grown;
    w->folders_room = room;
    return true;
}

static void forget_folder(struct kr_tree_watch *w, int wd)
{
    if (wd < 0 || (size_t)wd >= w->folders_room || !w->folders[wd])
        return;
    w->folder_bytes -= strlen(w->folders[wd]) + 1;
    free(w->folders[wd]);
    w->folders[wd] = NULL;
    w->folder_count--;
    atomic_fetch_sub(&watches, 1);
}

/* A folder that is watched already keeps its wd, and gets the path that it has now. */
static int keep_folder(struct kr_tree_watch *w, int wd, const char *path)
{
    char *copy = strdup(path);

    if (!copy || !reserve_wd(w, wd)) {
        free(copy);
        return -ENOMEM;
    }
    forget_folder(w, wd);
    w->folders[wd] = copy;
    w->folder_bytes += strlen(copy) + 1;
    w->folder_count++;
    atomic_fetch_add(&watches, 1);
    return 0;
}

int kr_tree_watch_add(struct kr_tree_watch *w, int ws, const char *path)
{
    cleanup_fd int fd = kr_files_at(ws, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    char link[32];
    int wd, r = fd < 0 ? fd : 0;

    if (r == 0 && (w->folder_count >= KR_TREE_FOLDERS_MAX || atomic_load(&watches) >= w->watches_max))
        r = -ENOSPC;
    if (r == 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd); /* the folder that was opened, whatever the name is now */
        wd = inotify_add_watch(w->fd, link, MASK | IN_ONLYDIR);
        r = wd < 0 ? -errno : keep_folder(w, wd, path);
    }
    if (r < 0 && r != -ENOENT && r != -ELOOP && r != -ENOTDIR) /* gone or swapped meanwhile: an event tells of it */
        w->lost = true;
    return r;
}

/* ---- events ---- */

static size_t slot_of(const struct kr_tree_watch *w, int wd, const char *name)
{
    size_t i = kr_hash_text(KR_HASH_START ^ (uint32_t)wd * 2654435761u, name) & (w->slot_count - 1);

    while (w->slots[i]) {
        const struct touched *t = &w->touched[w->slots[i] - 1];

        if (t->wd == wd && strcmp(t->name, name) == 0)
            break;
        i = (i + 1) & (w->slot_count - 1);
    }
    return i;
}

/* Room for one more name, with half of the slots free. */
static bool reserve_touched(struct kr_tree_watch *w)
{
    size_t room = w->touched_room ? 2 * w->touched_room : NAMES_FIRST;
    struct touched *grown;
    uint32_t *slots;

    if (w->touched_count < w->touched_room)
        return true;
    if (room > KR_TREE_TOUCHED_MAX)
        return false;
    grown = reallocarray(w->touched, room, sizeof *grown);
    if (!grown)
        return false;
    w->touched = grown;
    slots = calloc(2 * room, sizeof *slots);
    if (!slots)
        return false;
    free(w->slots);
    w->slots = slots;
    w->slot_count = 2 * room;
    w->touched_room = room;
    for (size_t i = 0; i < w->touched_count; i++)
        w->slots[slot_of(w, w->touched[i].wd, w->touched[i].name)] = (uint32_t)i + 1;
    return true;
}

/* NULL: there is no room. */
static struct touched *get_touched(struct kr_tree_watch *w, int wd, const char *name)
{
    struct touched *t;
    size_t slot;

    if (!reserve_touched(w))
        return NULL;
    slot = slot_of(w, wd, name);
    if (w->slots[slot])
        return &w->touched[w->slots[slot] - 1];
    t = &w->touched[w->touched_count];
    *t = (struct touched){.wd = wd, .name = strdup(name)};
    if (!t->name)
        return NULL;
    w->slots[slot] = (uint32_t)++w->touched_count;
    w->name_bytes += strlen(name) + 1;
    return t;
}

/* A name that came and went again, or was replaced, before it was looked at may have been a second name of another
 * file, which was changed by it. */
static void touch(struct kr_tree_watch *w, struct touched *t, uint32_t mask)
{
    bool comes = mask & (IN_CREATE | IN_MOVED_TO), goes = mask & (IN_DELETE | IN_MOVED_FROM);

    w->doubt |= t->appeared && (comes || mask & IN_DELETE);
    if (comes || goes)
        t->appeared = comes;
    t->moved_away = mask & IN_MOVED_FROM;
}

/* False: it could not be kept, or others before it were not. */
static bool take_event(struct kr_tree_watch *w, const struct inotify_event *e)
{
    struct touched *t;

    if (e->mask & (IN_Q_OVERFLOW | IN_UNMOUNT) || ++w->events > KR_TREE_EVENTS_MAX)
        return false;
    if (e->mask & IN_IGNORED) {
        forget_folder(w, e->wd);
        w->doubt = true;
        return true;
    }
    if (e->mask & IN_ISDIR || e->len == 0) {
        w->doubt |= (e->mask & (MASK & ~(unsigned)IN_OPEN)) != 0; /* opening a folder changes nothing */
        return true;
    }
    t = get_touched(w, e->wd, e->name);
    if (t)
        touch(w, t, e->mask);
    return t != NULL;
}

bool kr_tree_watch_drain(struct kr_tree_watch *w, size_t max_bytes)
{
    _Alignas(struct inotify_event) char buf[READ_BYTES];
    size_t taken = 0;
    ssize_t n;

    while (!w->lost && taken < max_bytes) {
        n = read(w->fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            w->lost |= n < 0 && errno != EAGAIN;
            return false;
        }
        taken += (size_t)n;
        for (char *at = buf; at < buf + n;) {
            const struct inotify_event *e = (const struct inotify_event *)(void *)at;

            w->lost |= !take_event(w, e);
            at += sizeof *e + e->len;
        }
    }
    return !w->lost;
}

bool kr_tree_watch_touched(const struct kr_tree_watch *w, size_t i, struct kr_tree_name *ret)
{
    const struct touched *t = &w->touched[i];
    const char *folder = t->wd >= 0 && (size_t)t->wd < w->folders_room ? w->folders[t->wd] : NULL;
    int len;

    if (!folder)
        return false;
    len = snprintf(ret->path, sizeof ret->path, "%s%s%s", folder, *folder ? "/" : "", t->name);
    ret->appeared = t->appeared;
    ret->moved_away = t->moved_away;
    return len >= 0 && (size_t)len < sizeof ret->path;
}

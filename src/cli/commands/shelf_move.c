/* Moves sandboxes between an image and a plain folder.
 *
 * Called by cmd_shelf.c, as root, without a server. Files are copied by cp(1), which keeps what a copy must keep.
 * Invariants: one rename or one unlink decides where the sandboxes are, and it comes when the copy is on the disk;
 * before it the source is untouched, after it the source is only removed. An image that exists is what counts, whatever
 * the folder beneath it still holds: so a folder is filled before the image goes, and an image is named before the
 * folder is emptied. */
#include "shelf_move.h"
#include "shelf_copy.h"
#include "fd.h"
#include "id.h"
#include "shelf.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "sandboxes"
#define IMAGE FOLDER KR_SHELF_IMAGE_SUFFIX
#define MOVING "sandboxes-moving"
#define MOVING_IMAGE MOVING KR_SHELF_IMAGE_SUFFIX

/* ---- copies ---- */

/* Of one folder of a sandbox into another that is there. */
static int copy_folder(int from_dir, int to_dir, const char *name, struct kr_err *err)
{
    cleanup_fd int from = openat(from_dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_fd int to = openat(to_dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char path[40];
    int r, kept;

    if (from < 0 || to < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the folder %s", name);
    kept = dup(to); /* not close-on-exec: cp reaches it through /proc */
    if (kept < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the folder %s", name);
    snprintf(path, sizeof path, "/proc/self/fd/%d/.", kept);
    r = kr_shelf_copy(from, path, err);
    close(kept);
    return r;
}

/* Calls fn for each sandbox's folder. Anything else there is refused: it would be lost. */
static int each_folder(int shelf, int (*fn)(void *data, const char *name, struct kr_err *err), void *data,
                       struct kr_err *err)
{
    int fd = openat(shelf, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!dir) {
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "read the folder of sandboxes");
        kr_fd_close(fd);
        return r;
    }
    while (r >= 0 && (errno = 0, e = readdir(dir))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        r = kr_id_valid(e->d_name)
                ? fn(data, e->d_name, err)
                : kr_err_set(err, KR_ERR_CONFLICT, 0,
                             "\"%.60s\" in the folder of sandboxes is no sandbox's: remove it first", e->d_name);
    }
    if (r >= 0 && errno != 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "read the folder of sandboxes");
    closedir(dir);
    return r;
}

/* ---- what is left of another try ---- */

static int remove_moving(int data, struct kr_err *err)
{
    cleanup_fd int dir = openat(data, MOVING, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = dir < 0 ? 0 : kr_shelf_empty(dir, err);

    if (r < 0)
        return r;
    if ((unlinkat(data, MOVING, AT_REMOVEDIR) < 0 && errno != ENOENT) ||
        (unlinkat(data, MOVING_IMAGE, 0) < 0 && errno != ENOENT))
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "remove what an earlier move left");
    return 0;
}

/* ---- what both have in common ---- */

struct move {
    const char *path; /* of the data directory */
    int data;
    int from;  /* DATA/sandboxes, beneath an image if there is one; locked */
    int to;    /* the new folder; locked */
    int image; /* the top of the image that is left, while it is named: locked */
    struct kr_shelf shelf;
    bool is_up;
};

static int lock_shelf(int dir, struct kr_err *err)
{
    if (flock(dir, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return kr_err_set(err, KR_ERR_BUSY, 0, "a krait has this data directory: stop it first"), -EBUSY;
    return kr_err_set(err, KR_ERR_SYSTEM, errno, "lock the folder of sandboxes");
}

/* Of a move that ended between our open and our lock the folder may be one that has no name any more. */
static int lock_source(const struct move *m, struct kr_err *err)
{
    struct stat held, named;
    int r = lock_shelf(m->from, err);

    if (r < 0)
        return r;
    if (fstat(m->from, &held) < 0 || fstatat(m->data, FOLDER, &named, AT_SYMLINK_NOFOLLOW) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "stat %s/" FOLDER, m->path);
    if (held.st_ino != named.st_ino || held.st_dev != named.st_dev)
        return kr_err_set(err, KR_ERR_BUSY, 0, "the sandboxes are being moved by another command"), -EBUSY;
    return 0;
}

/* A new folder beside the sandboxes', with the same owner and mode, and locked before it has their name. */
static int make_moving(struct move *m, int like, struct kr_err *err)
{
    cleanup_fd int dir = -1;
    struct stat st;
    int r;

    if (mkdirat(m->data, MOVING, 0700) < 0 ||
        (dir = openat(m->data, MOVING, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0 || fstat(like, &st) < 0 ||
        fchown(dir, st.st_uid, st.st_gid) < 0 || fchmod(dir, st.st_mode & 07777) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make %s/" MOVING, m->path);
    r = lock_shelf(dir, err);
    return r < 0 ? r : steal_fd(&dir);
}

/* Mounts the image over the folder of that name, which is opened in the namespace that it is mounted in. */
static int raise_image(struct move *m, const char *name, uint64_t size, struct kr_err *err)
{
    static char path[4096]; /* the shelf keeps it */
    cleanup_fd int point = -1;
    struct kr_shelf_config config = {.path = path, .choice = KR_SHELF_IMAGE, .size = size, .discard = 1};
    struct kr_shelf_plan plan;
    int r;

    snprintf(path, sizeof path, "%s/%s", m->path, name);
    r = kr_shelf_plan(&config, &plan, err);
    if (r >= 0 && !plan.image)
        r = kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "no image can be used here: %s", plan.why);
    if (r >= 0)
        r = kr_shelf_namespace(err);
    if (r >= 0 && (point = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "open %.100s", path);
    if (r >= 0)
        r = kr_shelf_up(&config, &plan, point, &m->shelf, err);
    m->is_up = r >= 0;
    return r;
}

static int begin_move(struct move *m, const char *data, struct kr_err *err)
{
    *m = (struct move){.path = data, .data = -1, .from = -1, .to = -1, .image = -1, .shelf = KR_SHELF_NONE};
    if (geteuid() != 0)
        return kr_err_set(err, KR_ERR_DENIED, EPERM, "moving sandboxes needs root");
    m->data = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (m->data < 0 || (m->from = openat(m->data, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open %s/" FOLDER, data);
    return lock_source(m, err);
}

static void end_move(struct move *m)
{
    if (m->is_up)
        kr_shelf_down(&m->shelf);
    m->is_up = false;
    m->image = kr_fd_close(m->image);
    m->to = kr_fd_close(m->to);
    m->from = kr_fd_close(m->from);
    m->data = kr_fd_close(m->data);
}

/* ---- to an image ---- */

static int copy_to_image(void *data, const char *name, struct kr_err *err)
{
    struct move *m = data;
    struct kr_w_shelf question = {.op = KR_SHELF_MAKE};
    struct kr_w_shelved made;
    int r;

    snprintf(question.name, sizeof question.name, "%s", name);
    r = kr_shelf_do(&m->shelf, &question, &made, err); /* the server sets its limits when it is used */
    return r < 0 ? r : copy_folder(m->from, m->shelf.dir, name, err);
}

static int fill_image(struct move *m, uint64_t size, struct kr_err *err)
{
    int r = remove_moving(m->data, err);

    if (r >= 0)
        r = m->to = make_moving(m, m->from, err);
    m->to = kr_fd_close(m->to); /* and its lock: the image is mounted over it */
    if (r >= 0)
        r = raise_image(m, MOVING, size, err);
    if (r >= 0)
        r = each_folder(m->from, copy_to_image, m, err);
    if (r >= 0 && syncfs(m->shelf.dir) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "write the image");
    return r;
}

int kr_shelf_to_image(const char *data, uint64_t size, struct kr_err *err)
{
    struct kr_err ignored;
    struct move m;
    int r = begin_move(&m, data, err);
    bool exists = r >= 0 && faccessat(m.data, IMAGE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;

    if (r >= 0 && !exists) {
        r = fill_image(&m, size, err);
        if (m.is_up)
            kr_shelf_down(&m.shelf);
        m.is_up = false;
        if (r >= 0 && (renameat(m.data, MOVING_IMAGE, m.data, IMAGE) < 0 || fsync(m.data) < 0))
            r = kr_err_set(err, KR_ERR_SYSTEM, errno, "name the image");
        if (r < 0 && m.data >= 0 && r != -EBUSY)
            (void)remove_moving(m.data, &ignored); /* the error that counts is the first */
    }
    if (r >= 0) /* the image counts from now on; also what an earlier move could not remove */
        r = kr_shelf_empty(m.from, err);
    if (r >= 0)
        r = remove_moving(m.data, err);
    end_move(&m);
    return r;
}

/* ---- to a folder ---- */

static int copy_to_folder(void *data, const char *name, struct kr_err *err)
{
    struct move *m = data;

    if (mkdirat(m->to, name, 0700) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make the folder %s", name);
    return copy_folder(m->shelf.dir, m->to, name, err);
}

static int fill_folder(struct move *m, struct kr_err *err)
{
    int r = raise_image(m, FOLDER, 0, err);

    if (r >= 0)
        r = lock_shelf(m->shelf.dir, err);
    if (r >= 0 && (m->image = fcntl(m->shelf.dir, F_DUPFD_CLOEXEC, 0)) < 0) /* the lock outlives the mount */
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "hold the image");
    if (r >= 0)
        r = remove_moving(m->data, err);
    if (r >= 0)
        r = kr_shelf_empty(m->from, err); /* beneath the image: what an earlier move left */
    if (r >= 0)
        r = m->to = make_moving(m, m->shelf.dir, err);
    if (r >= 0)
        r = each_folder(m->shelf.dir, copy_to_folder, m, err);
    if (r >= 0 && syncfs(m->to) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "write the folder of sandboxes");
    return r;
}

int kr_shelf_to_folder(const char *data, struct kr_err *err)
{
    struct kr_err ignored;
    struct move m;
    int r = begin_move(&m, data, err);

    if (r >= 0 && faccessat(m.data, IMAGE, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        end_move(&m);
        return 0; /* it is one */
    }
    if (r >= 0)
        r = fill_folder(&m, err);
    if (m.is_up)
        kr_shelf_down(&m.shelf);
    m.is_up = false;
    if (r >= 0 && (renameat(m.data, MOVING, m.data, FOLDER) < 0 || fsync(m.data) < 0))
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "name the folder of sandboxes");
    if (r >= 0 && (unlinkat(m.data, IMAGE, 0) < 0 || fsync(m.data) < 0))
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "remove the image");
    if (r < 0 && m.data >= 0 && r != -EBUSY)
        (void)remove_moving(m.data, &ignored);
    end_move(&m);
    return r;
}

/* `krait backup DIR` and `krait restore DIR`.
 *
 * Called from main.c. A backup is a folder: `krait.db`, `pepper`, `secrets.key`, `ca.pem`, `krait.notes.N`, `logs`,
 * `sandboxes`, and the list of all of them with their hashes (manifest.h), which is written last. Invariants: a backup
 * changes nothing in the data directory (a snapshot of a sandbox apart, which is dropped again) and writes to a folder
 * that was empty; a restore writes to a data directory that was empty, and names the store last, so that half a restore
 * does not start. */
#include "fd.h"
#include "manifest.h"
#include "shelf_copy.h"
#include "shelf_open.h"
#include "store_run.h"
#include "store_sandbox.h"
#include "verbs.h"
#include "verify.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRIES 3u          /* to copy a plain folder in which files come and go */
#define SNAPSHOT "backup" /* what the names of snapshots begin with: no sandbox's folder does */

struct backup_options {
    struct kr_verb_options common;
};

/* clang-format off */
static const struct kr_opt_row option_rows[] = { KR_VERB_ROWS(struct backup_options) };

const struct kr_opt_table kr_backup_options_table = {
    .command = "backup",
    .usage = "[options] DIR",
    .about = "Copies the data folder of `krait serve` to DIR, a new or empty folder, while the server runs: the store "
             "as of one moment, the logs of runs, every sandbox's files, and a list of all with their hashes. A "
             "sandbox on an image is copied from a snapshot; one in a plain folder file by file, so end its sessions "
             "if its files must belong together.",
    .notes = "Example: krait backup /mnt/backup/2026-11-16\n"
             "It holds the keys' secret and everything users have stored: keep it as safe as the data folder.",
    .rows = option_rows, .count = 2, .limits = KR_OPT_NO_LIMITS,
};
const struct kr_opt_table kr_restore_options_table = {
    .command = "restore",
    .usage = "[options] DIR",
    .about = "Checks the backup in DIR and copies it to the data folder, which must be missing or empty. Sandboxes are "
             "restored to a plain folder; `krait shelf move --to image` moves them.",
    .notes = "Example: krait restore /mnt/backup/2026-11-16 --data /var/lib/krait",
    .rows = option_rows, .count = 2, .limits = KR_OPT_NO_LIMITS,
};
/* clang-format on */

/* ---- folders ---- */

static bool is_empty_folder(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    unsigned names = 0;

    if (!d) {
        kr_fd_close(fd);
        return false;
    }
    while (names < 3 && readdir(d))
        names++;
    closedir(d);
    return names == 2;
}

/* A new or empty folder, closed to others. */
static int take_folder(const char *path, const char *what, struct kr_err *err)
{
    cleanup_fd int fd = -1;

    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make %s %.150s", what, path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open %s %.150s", what, path);
    if (!is_empty_folder(fd))
        return kr_err_set(err, KR_ERR_CONFLICT, 0, "%s %.150s is not empty: it is left as it is", what, path),
               -ENOTEMPTY;
    if (fchmod(fd, 0700) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "%s %.150s", what, path);
    return steal_fd(&fd);
}

static int copy_name(int from_dir, const char *name, const char *to_dir, const char *as, struct kr_err *err)
{
    cleanup_fd int from = openat(from_dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char to[4300];

    if (from < 0)
        return errno == ENOENT ? 0 : kr_err_set(err, KR_ERR_SYSTEM, errno, "open %s", name);
    snprintf(to, sizeof to, "%s/%s", to_dir, as);
    return kr_shelf_copy(from, to, err);
}

/* ---- backup ---- */

struct backup {
    const char *to;
    int data, out;
    struct kr_store *store;
    struct kr_shelf_opened shelf;
    bool has_copies; /* of plain folders */
    size_t count, failed;
    struct kr_err *err;
    int r;
};

static int copy_notes(void *data, const char *name, struct kr_err *err)
{
    struct backup *b = data;

    return copy_name(b->data, name, b->to, name, err);
}

static int copy_snapshot(struct backup *b, const char *folder, const char *to, struct kr_err *err)
{
    struct kr_w_shelf question = {.op = KR_SHELF_DROP};
    struct kr_w_shelved ignored;
    struct kr_err unused;
    char name[KR_FOLDER_ROOM];
    int r, dropped;

    snprintf(name, sizeof name, SNAPSHOT "%.19s", folder + strlen(folder) - 19);
    r = kr_shelf_snapshot(&b->shelf.shelf, folder, name, err);
    if (r < 0)
        return r;
    r = copy_name(b->shelf.shelf.dir, name, to, folder, err);
    memcpy(question.name, name, sizeof question.name);
    dropped = kr_shelf_do(&b->shelf.shelf, &question, &ignored, r < 0 ? &unused : err);
    return r < 0 ? r : dropped;
}

/* Files may come and go while they are copied, which cp(1) takes for an error: a few tries. */
static int copy_plain(struct backup *b, const char *folder, const char *to, struct kr_err *err)
{
    cleanup_fd int out = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = -EIO;

    b->has_copies = true;
    for (unsigned i = 0; r < 0 && i < TRIES; i++) {
        if (i > 0 && (r = kr_shelf_remove(out, folder, err)) < 0)
            return r;
        r = copy_name(b->shelf.shelf.dir, folder, to, folder, err);
    }
    return r;
}

static void on_folder(void *data, const char *folder, bool is_used)
{
    struct backup *b = data;
    char to[4200];

    (void)is_used;
    if (b->r < 0 || faccessat(b->shelf.shelf.dir, folder, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return; /* it was never used, or is gone: `krait verify` says which */
    snprintf(to, sizeof to, "%s/sandboxes", b->to);
    b->r = copy_snapshot(b, folder, to, b->err);
    if (b->r == -EOPNOTSUPP)
        b->r = copy_plain(b, folder, to, b->err);
    b->count++;
    if (b->r >= 0 && kr_manifest_may_say())
        fprintf(stderr, "\r%zu sandboxes copied", b->count);
}

/* What a backup that was killed left: it would be in the way of `krait shelf move`. */
static void drop_old_snapshots(struct backup *b)
{
    int fd = openat(b->shelf.shelf.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    while (dir && (e = readdir(dir))) {
        struct kr_w_shelf question = {.op = KR_SHELF_DROP};
        struct kr_w_shelved ignored;
        struct kr_err unused;

        if (strncmp(e->d_name, SNAPSHOT, strlen(SNAPSHOT)) != 0 || strlen(e->d_name) >= sizeof question.name)
            continue;
        snprintf(question.name, sizeof question.name, "%.*s", (int)sizeof question.name - 1, e->d_name);
        (void)kr_shelf_do(&b->shelf.shelf, &question, &ignored, &unused);
    }
    if (dir)
        closedir(dir);
    else
        kr_fd_close(fd);
}

static int copy_sandboxes(struct backup *b, const char *data, struct kr_err *err)
{
    int r = kr_shelf_open(data, &b->shelf, err);
    struct stat st;

    if (r < 0)
        return r;
    r = kr_shelf_hold(b->shelf.shelf.dir, err);
    if (r >= 0 && (mkdirat(b->out, "sandboxes", 0700) < 0 || fstat(b->shelf.shelf.dir, &st) < 0 ||
                   fchownat(b->out, "sandboxes", st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0))
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "make %.150s/sandboxes", b->to);
    if (r >= 0) {
        drop_old_snapshots(b);
        b->err = err;
        r = kr_store_folders(b->store, on_folder, b, err);
        r = b->r < 0 ? b->r : r;
        if (kr_manifest_may_say() && b->count > 0)
            fprintf(stderr, "\r\033[K");
    }
    kr_shelf_down(&b->shelf.shelf);
    return r;
}

/* Retention goes on: runs of the copy whose logs it has removed are marked there, too. */
static int copy_marks(struct backup *b, struct kr_err *err)
{
    struct kr_store_logs live, copied;
    struct kr_store *copy = NULL;
    int r = kr_store_logs_get(b->store, &live, err);

    if (r >= 0)
        r = kr_store_open(b->to, KR_STORE_AS_IS, &copy, err);
    if (r >= 0)
        r = kr_store_logs_get(copy, &copied, err);
    if (r >= 0 && live.pruned > copied.pruned)
        r = kr_store_logs_pruned(copy, live.pruned, err);
    kr_store_close(copy);
    (void)unlinkat(b->out, "krait.lock", 0);
    return r;
}

/* A run has ended in the store before its log is written: the one that ended last gets its time. */
static int copy_logs(struct backup *b, int64_t ended, struct kr_err *err)
{
    int64_t wait = ended + KR_STORE_RUN_SETTLE_US - kr_store_now();
    int r;

    if (wait > 0 && wait <= KR_STORE_RUN_SETTLE_US)
        usleep((useconds_t)wait);
    r = copy_name(b->data, "logs", b->to, "logs", err);
    return r < 0 ? r : copy_marks(b, err);
}

/* The notes first: what is settled after that is in the database. The logs behind it: a run that the database knows as
 * ended has its log. */
static int copy_parts(struct backup *b, const char *data, struct kr_err *err)
{
    char path[4200];
    int64_t ended = 0;
    struct stat st;
    int r = kr_store_notes_each(b->store, copy_notes, b, err);

    snprintf(path, sizeof path, "%s/krait.db", b->to);
    if (r >= 0)
        r = kr_store_copy(b->store, path, err);
    if (r >= 0 && (ended = kr_store_logs_newest(b->store, err)) < 0)
        r = (int)ended;
    if (r >= 0 && (fstat(b->data, &st) < 0 || fchmodat(b->out, "krait.db", 0600, 0) < 0 ||
                   fchownat(b->out, "krait.db", st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0))
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "%.150s", path);
    if (r >= 0)
        r = copy_name(b->data, "pepper", b->to, "pepper", err);
    if (r >= 0)
        r = copy_name(b->data, "secrets.key", b->to, "secrets.key", err);
    if (r >= 0)
        r = copy_name(b->data, "ca.pem", b->to, "ca.pem", err);
    if (r >= 0)
        r = copy_sandboxes(b, data, err);
    if (r >= 0)
        r = copy_logs(b, ended, err);
    return r;
}

static int write_list(const struct backup *b, struct kr_err *err)
{
    cleanup_buf struct kr_buf lines;
    char head[300], instance[64] = "", when[40];
    time_t now = time(NULL);
    struct tm tm;
    int r;

    kr_buf_init(&lines, KR_MANIFEST_MAX);
    r = kr_store_setting_get(b->store, "instance", instance, sizeof instance - 1, err);
    if (r >= 0)
        r = kr_manifest_make(b->to, &lines, kr_manifest_may_say(), err);
    if (r < 0)
        return r;
    if (!gmtime_r(&now, &tm) || strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(when, sizeof when, "-");
    snprintf(head, sizeof head, "krait backup 1\nversion %s\ninstance %s\nmade %s\nsandboxes %s\n\n", KR_VERSION,
             instance, when, b->has_copies ? "copied" : "snapshots");
    return kr_manifest_write(b->to, head, &lines, err);
}

/* One at a time: the second would drop the snapshots of the first. Nothing else locks the pepper. */
static int take_turn(int data, struct kr_err *err)
{
    int fd = openat(data, "pepper", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open pepper");
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return fd;
    close(fd);
    return kr_err_set(err, KR_ERR_BUSY, EBUSY, "another backup of this data folder runs: try again when it has ended");
}

static int do_backup(struct kr_verb_call *c, struct kr_err *err)
{
    cleanup_store struct kr_store *store = NULL;
    cleanup_fd int data = -1, out = -1, turn = -1;
    struct backup *b = calloc(1, sizeof *b);
    int r;

    if (!b)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a backup");
    r = kr_store_open(c->data, 0, &store, err);
    if (r >= 0 && (data = open(c->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "open %.180s", c->data);
    if (r >= 0)
        r = (turn = take_turn(data, err)) < 0 ? turn : 0;
    if (r >= 0)
        r = out = take_folder(c->operands[0], "the backup's folder", err);
    *b = (struct backup){.to = c->operands[0], .data = data, .out = out, .store = store};
    if (r >= 0)
        r = copy_parts(b, c->data, err);
    if (r >= 0)
        r = write_list(b, err);
    if (r >= 0)
        fprintf(stderr, "krait backup: %zu sandboxes, the store and the logs are in %s\n", b->count, b->to);
    free(b);
    return r;
}

/* ---- restore ---- */

/* The store's name comes last: without it a server does not start, as the pepper is there. */
static int copy_back(int from, int to, const char *to_path, struct kr_err *err)
{
    static const char *const names[] = {"sandboxes", "logs", "pepper", "secrets.key", "ca.pem"};
    int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!dir) {
        kr_fd_close(fd);
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "read the backup");
    }
    for (size_t i = 0; r >= 0 && i < sizeof names / sizeof *names; i++)
        r = copy_name(from, names[i], to_path, names[i], err);
    while (r >= 0 && (e = readdir(dir)))
        if (strncmp(e->d_name, "krait.notes.", 12) == 0)
            r = copy_name(from, e->d_name, to_path, e->d_name, err);
    closedir(dir);
    if (r >= 0)
        r = copy_name(from, "krait.db", to_path, "krait.db.restored", err);
    if (r >= 0 && (syncfs(to) < 0 || renameat(to, "krait.db.restored", to, "krait.db") < 0 || fsync(to) < 0))
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "name the store in %.150s", to_path);
    return r;
}

static int do_restore(struct kr_verb_call *c, struct kr_err *err)
{
    cleanup_fd int from = -1, to = -1;
    struct stat st;
    int r = kr_verify_backup(c->operands[0], false, err);

    if (r < 0)
        return r;
    from = open(c->operands[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || fstatat(from, "krait.db", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open %.180s", c->operands[0]);
    r = to = take_folder(c->data, "the data folder", err);
    if (r >= 0 && fchown(to, st.st_uid, st.st_gid) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "give %.150s to uid %u", c->data, st.st_uid);
    if (r >= 0)
        r = copy_back(from, to, c->data, err);
    if (r >= 0)
        fprintf(stderr, "krait restore: %s is restored; start the server\n", c->data);
    return r;
}

/* ---- the commands ---- */

static int run_command(const struct kr_opt_table *table, int (*run)(struct kr_verb_call *c, struct kr_err *err),
                       int argc, char **argv)
{
    struct backup_options options = {0};
    const struct kr_verb row = {.name = table->command, .operands = "DIR", .least = 1, .most = 1, .flags = ""};
    const struct kr_verbs verbs = {.table = table, .rows = &row, .count = 1};
    struct kr_verb_call call = {.options = &options};
    struct kr_err err;
    int r = kr_verbs_begin(&verbs, argc, argv, &call, &err);

    if (r == KR_OPT_HELP)
        return 0;
    if (r >= 0)
        r = run(&call, &err);
    if (r == -EUCLEAN) {
        (void)kr_cli_fail(table->command, &err);
        return KR_EXIT_DAMAGED;
    }
    return r < 0 ? kr_cli_fail(table->command, &err) : 0;
}

int kr_cmd_backup(int argc, char **argv)
{
    return run_command(&kr_backup_options_table, do_backup, argc, argv);
}

int kr_cmd_restore(int argc, char **argv)
{
    return run_command(&kr_restore_options_table, do_restore, argc, argv);
}

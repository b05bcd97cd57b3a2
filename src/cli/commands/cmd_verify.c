/* `krait verify [DIR]`: damage in a data directory, beside a running server, or in a backup.
 *
 * Called from main.c; kr_verify_backup() also by `krait restore`. Invariant: nothing is changed. Findings are lines on
 * stdout, and the exit status is 1 if there is one; what could not be looked at is an error. */
#include "fd.h"
#include "id.h"
#include "manifest.h"
#include "runlog.h"
#include "shelf_open.h"
#include "store_run.h"
#include "store_sandbox.h"
#include "verbs.h"
#include "verify.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PRINT_MAX 100u                     /* findings that are printed; the rest is counted */
#define REMOVAL_US (INT64_C(60) * 1000000) /* from the end of a run to the last write of its log */

struct verify_options {
    struct kr_verb_options common;
};

/* clang-format off */
static const struct kr_opt_row option_rows[] = { KR_VERB_ROWS(struct verify_options) };

const struct kr_opt_table kr_verify_options_table = {
    .command = "verify",
    .usage = "[options] [DIR]",
    .about = "Looks for damage and prints what it finds. Without DIR: in the data folder, also while a server runs: "
             "the store's pages, indexes, references and totals, the pepper, notes of runs, logs of "
             "runs and their checksums, folders of sandboxes, and that these belong to the store's rows. With DIR: in "
             "that backup, every file against its hash as well.",
    .notes = "Exit status: 0 nothing was found, 1 damage, 2 wrong usage, 125 it could not be looked at, 127 no such "
             "folder.\nExample: krait verify /mnt/backup/2026-11-16",
    .rows = option_rows, .count = 2, .limits = KR_OPT_NO_LIMITS,
};
/* clang-format on */

struct findings {
    bool prints;
    size_t count;
    struct kr_err *first;
};

static void find(struct findings *f, const char *what, const char *path, size_t len, const char *more)
{
    if (f->count++ == 0)
        kr_err_set(f->first, KR_ERR_SYSTEM, 0, "damage: %s %.*s%s", what, len > 150 ? 150 : (int)len, path, more);
    if (f->prints && f->count <= PRINT_MAX)
        printf("%s %.*s%s\n", what, (int)len, path, more);
}

/* Damage that a check has put in words. Other errors are the caller's. */
static int note_damage(struct findings *f, int r, const struct kr_err *err)
{
    if (r == -EUCLEAN)
        find(f, "damaged:", err->msg, strlen(err->msg), "");
    return r == -EUCLEAN ? 0 : r;
}

/* ---- parts ---- */

struct logs {
    struct findings *findings;
    struct kr_store *store; /* NULL: its rows are not looked at */
    struct kr_store_logs marks;
    int dir;
};

static void check_log_of(void *data, const char *id)
{
    const struct logs *l = data;
    char path[KR_STORE_ID_ROOM + 12];

    snprintf(path, sizeof path, "logs/%s.log", id);
    if (faccessat(l->dir, path + strlen("logs/"), F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        find(l->findings, "missing", path, strlen(path), ": the store knows a run with it");
}

/* The log of a run, or of an attempt of a job (ID-2.log). One that a killed server had still to remove is as old as
 * what it removed. */
static int check_owner(const struct logs *l, const char *name, struct kr_err *err)
{
    size_t len = strcspn(name, "-.");
    char id[KR_STORE_ID_ROOM] = "", path[300];
    struct stat st;
    int64_t written;
    int r = 0;

    if (fstatat(l->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    written = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
    if (written < l->marks.pruned + REMOVAL_US || written < l->marks.users)
        return 0;
    if (len < sizeof id) {
        memcpy(id, name, len);
        r = kr_store_log_known(l->store, id, err);
    }
    snprintf(path, sizeof path, "logs/%s", name);
    if (r == 0 && faccessat(l->dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        find(l->findings, "unknown", path, strlen(path), ": no run and no job of the store has it");
    return r < 0 ? r : 0;
}

static int check_log_owners(struct logs *l, DIR *dir, struct kr_err *err)
{
    const struct dirent *e;
    int r = kr_store_logs_get(l->store, &l->marks, err);

    if (r >= 0 && l->marks.pruned > 0) /* else no server noted yet what it has removed */
        r = kr_store_logs_each(l->store, l->marks.pruned, check_log_of, l, err);
    rewinddir(dir);
    while (r >= 0 && (e = readdir(dir)))
        if (strlen(e->d_name) > 4 && strcmp(e->d_name + strlen(e->d_name) - 4, ".log") == 0)
            r = check_owner(l, e->d_name, err);
    return note_damage(l->findings, r, err);
}

static int check_logs(int dir_of, struct kr_store *store, struct findings *f, struct kr_err *err)
{
    int fd = openat(dir_of, "logs", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct logs logs = {.findings = f, .store = store, .dir = fd};
    const struct dirent *e;

    if (!dir) {
        kr_fd_close(fd);
        find(f, "missing", "logs", 4, "");
        return 0;
    }
    while (r >= 0 && (e = readdir(dir))) {
        size_t len = strlen(e->d_name);
        char more[60];
        uint64_t at = 0;

        if (len < 5 || strcmp(e->d_name + len - 4, ".log") != 0)
            continue;
        r = kr_runlog_file_check(fd, e->d_name, &at);
        if (r == -EBADMSG) {
            snprintf(more, sizeof more, " at byte %llu, a log of a run", (unsigned long long)at);
            find(f, "damaged: logs/", e->d_name, len, more);
        }
        r = r == -EBADMSG || r == -ENOENT ? 0 : r; /* retention may have removed it */
        if (r < 0)
            kr_err_set(err, KR_ERR_SYSTEM, -r, "read logs/%s", e->d_name);
    }
    if (r >= 0 && store)
        r = check_log_owners(&logs, dir, err);
    closedir(dir);
    return r;
}

struct folders {
    struct findings *findings;
    int shelf;
};

static void check_folder(void *data, const char *folder, bool is_used)
{
    struct folders *f = data;
    char path[KR_STORE_ID_ROOM + 8];

    snprintf(path, sizeof path, "%s/files", folder);
    if (is_used && faccessat(f->shelf, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        find(f->findings, "missing sandboxes/", path, strlen(path), ": the store knows a sandbox with it");
}

static int check_unknown(struct kr_store *s, int shelf, struct findings *f, struct kr_err *err)
{
    int fd = openat(shelf, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!dir) {
        kr_fd_close(fd);
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "read the folder of sandboxes");
    }
    while (r >= 0 && (e = readdir(dir))) {
        char path[sizeof e->d_name + 8];

        if (!kr_id_valid(e->d_name))
            continue;
        snprintf(path, sizeof path, "%s/files", e->d_name);
        if (faccessat(shelf, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* made in advance by a server */
        r = kr_store_folder_known(s, e->d_name, err);
        if (r == 0)
            find(f, "unknown sandboxes/", e->d_name, strlen(e->d_name), ": no sandbox of the store has it");
    }
    closedir(dir);
    return r < 0 ? r : 0;
}

static int check_store(struct kr_store *s, struct findings *f, struct kr_err *err)
{
    int r = note_damage(f, kr_store_verify(s, err), err);

    return r < 0 ? r : note_damage(f, kr_store_notes_verify(s, err), err);
}

static int check_folders(struct kr_store *s, int shelf, struct findings *f, struct kr_err *err)
{
    struct folders folders = {f, shelf};
    int r = kr_store_folders(s, check_folder, &folders, err);

    return r < 0 ? note_damage(f, r, err) : check_unknown(s, shelf, f, err);
}

/* Only a look: what cannot be judged without changing it is told, and is no damage. */
static void tell_unlooked(const char *dir, const char *why)
{
    fprintf(stderr, "krait verify: rows of the store are not looked at, as %s %s\n", dir, why);
}

/* ---- a data directory ---- */

static int verify_data(const char *data, struct findings *f, struct kr_err *err)
{
    cleanup_store struct kr_store *store = NULL;
    cleanup_fd int dir = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct kr_shelf_opened o;
    int r;

    if (dir < 0)
        return kr_err_set(err, errno == ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_SYSTEM, errno, "open %.180s", data);
    r = kr_store_open(data, KR_STORE_AS_IS, &store, err);
    if (r == -ESTALE) { /* to bring it up to date is for the server, which its operator starts when a backup is made */
        tell_unlooked(data, "was last written by an older krait; a start of this one brings it up to date");
        return check_logs(dir, NULL, f, err);
    }
    if (r < 0)
        return note_damage(f, r, err);
    r = check_store(store, f, err);
    if (r >= 0)
        r = check_logs(dir, store, f, err);
    if (r >= 0 && faccessat(dir, "sandboxes", F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        find(f, "missing", "sandboxes", 9, "");
        return 0;
    }
    if (r >= 0)
        r = kr_shelf_open(data, &o, err);
    if (r < 0)
        return r;
    r = check_folders(store, o.shelf.dir, f, err);
    kr_shelf_down(&o.shelf);
    return r;
}

/* ---- a backup ---- */

static void on_difference(void *data, const char *what, const char *path, size_t len)
{
    find(data, what, path, len, "");
}

/* The store of a backup is opened in place: that makes its lock and, while it is open, its log; both go again. One of
 * an older krait would be brought up to date by that, and no more be what the list says: it is left alone. */
static int check_backup_store(const char *dir, int fd, struct findings *f, struct kr_err *err)
{
    cleanup_fd int shelf = openat(fd, "sandboxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct kr_store *store = NULL;
    int r = kr_store_open(dir, KR_STORE_AS_IS, &store, err);

    if (r >= 0)
        r = check_store(store, f, err);
    if (r >= 0 && shelf >= 0)
        r = check_folders(store, shelf, f, err);
    if (r >= 0)
        r = check_logs(fd, store, f, err);
    kr_store_close(store);
    (void)unlinkat(fd, "krait.lock", 0);
    if (r == -EROFS || r == -EACCES || r == -ESTALE) { /* its bytes are right, which the list has shown */
        tell_unlooked(dir, r == -ESTALE ? "was made by an older krait" : "cannot be written");
        r = check_logs(fd, NULL, f, err);
    }
    return note_damage(f, r, err);
}

static int verify_backup(const char *dir, struct findings *f, struct kr_err *err)
{
    cleanup_buf struct kr_buf list, found;
    cleanup_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *lines;
    int r;

    kr_buf_init(&list, KR_MANIFEST_MAX + 1);
    kr_buf_init(&found, KR_MANIFEST_MAX);
    if (fd < 0)
        return kr_err_set(err, errno == ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_SYSTEM, errno, "open %.180s", dir);
    r = kr_manifest_read(dir, &list, &lines, err);
    if (r < 0)
        return note_damage(f, r, err);
    r = kr_manifest_make(dir, &found, kr_manifest_may_say(), err);
    if (r >= 0)
        (void)kr_manifest_compare(lines, kr_buf_str(&found), on_difference, f);
    return r;
}

int kr_verify_backup(const char *dir, bool prints, struct kr_err *err)
{
    struct kr_err first = {0};
    struct findings f = {.prints = prints, .first = &first};
    cleanup_fd int fd = -1;
    int r = verify_backup(dir, &f, err);

    if (r >= 0 && f.count == 0) { /* the bytes are those of the backup: do the parts belong together? */
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = check_backup_store(dir, fd, &f, err);
    }
    if (r < 0 || f.count == 0)
        return r;
    if (prints && f.count > PRINT_MAX)
        printf("and %zu more\n", f.count - PRINT_MAX);
    *err = first;
    return -EUCLEAN;
}

/* ---- the command ---- */

int kr_cmd_verify(int argc, char **argv)
{
    static const struct kr_verb row = {.name = "verify", .operands = "DIR", .least = 0, .most = 1, .flags = ""};
    static const struct kr_verbs verbs = {.table = &kr_verify_options_table, .rows = &row, .count = 1};
    struct verify_options options = {0};
    struct kr_verb_call call = {.options = &options};
    struct kr_err err, first;
    struct findings f = {.prints = true, .first = &first};
    int r = kr_verbs_begin(&verbs, argc, argv, &call, &err);

    if (r == KR_OPT_HELP)
        return 0;
    if (r >= 0 && call.count > 0) {
        r = kr_verify_backup(call.operands[0], true, &err);
        f.count = r == -EUCLEAN;
        r = r == -EUCLEAN ? 0 : r;
    } else if (r >= 0) {
        r = verify_data(call.data, &f, &err);
    }
    if (r < 0)
        return kr_cli_fail("verify", &err);
    if (f.count == 0)
        printf("no damage found in %s\n", call.count > 0 ? call.operands[0] : call.data);
    return fflush(stdout) != 0 ? KR_EXIT_OURS : f.count > 0 ? KR_EXIT_DAMAGED : 0;
}

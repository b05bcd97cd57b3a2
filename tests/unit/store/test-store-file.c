/* src/store, the files: opening, migrations, damage, a full disk, what reaches the disk, two processes, kill -9.
 * Run by tests/run. */
#include "check.h"
#include "store-common.h"
#include "store_key.h"
#include "patience.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

/* What SQLite and the store sync goes through these two: the linker finds them before libc's. */
static int syncs, sync_fails;
int fsync(int fd)
{
    syncs++;
    if (sync_fails) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}
int fdatasync(int fd)
{
    syncs++;
    if (sync_fails) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

static const char *file_of(const char *dir, const char *name)
{
    static char paths[2][200]; /* two at once, for rename() and the like */
    static int turn;
    char *path = paths[turn++ % 2];

    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

/* Opens, expecting failure; the error must be one line that names the directory. */
static int open_fails(const char *dir, unsigned flags)
{
    struct kr_store *s = NULL;
    int r = kr_store_open(dir, flags, &s, &err);

    if (r >= 0) {
        kr_store_close(s);
        return 0;
    }
    if (strchr(err.msg, '\n') || !strstr(err.msg, dir) || !err.msg[0]) {
        printf("# not one clear line: %s\n", err.msg);
        return -1;
    }
    return r;
}

static unsigned mode_of(const char *path)
{
    struct stat st;

    return stat(path, &st) < 0 ? 0 : st.st_mode & 07777;
}

static int add_audit(struct kr_store *s, const char *what)
{
    return kr_store_audit_add(s, &(struct kr_store_audit){.at = NOW, .what = what, .object = "o"}, &err);
}

/* ---- opening ---- */

static int count_files(const char *dir)
{
    struct dirent *entry;
    DIR *d = opendir(dir);
    int count = 0;

    while (d && (entry = readdir(d)))
        count += entry->d_name[0] != '.';
    if (d)
        closedir(d);
    return count;
}

static void test_open(void)
{
    const char *dir = fresh_dir();
    char instance[KR_STORE_ID_ROOM];
    struct kr_store *s;
    mode_t old = umask(0);

    CHECK(open_fails(dir, 0) == -ENOENT && err.kind == KR_ERR_NOT_FOUND);
    s = must_open(dir);
    CHECK(add_audit(s, "x") == 0);
    CHECK(mode_of(dir) == 0700 && mode_of(file_of(dir, "krait.db")) == 0600 && mode_of(file_of(dir, "pepper")) == 0600);
    CHECK(mode_of(file_of(dir, "krait.db-wal")) == 0600 && mode_of(file_of(dir, "krait.db-shm")) == 0600);
    CHECK(mode_of(file_of(dir, "krait.lock")) == 0600 && mode_of(file_of(dir, "secrets.key")) == 0600);
    CHECK(count_files(dir) == 6);
    umask(old);
    CHECK(sql_int(s, "PRAGMA foreign_keys") == 1 && sql_int(s, "PRAGMA synchronous") == 1);
    CHECK(sql_int(s, "PRAGMA auto_vacuum") == 2 && sql_int(s, "PRAGMA application_id") == KR_STORE_APPLICATION);
    CHECK(sql_int(s, "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND NOT strict "
                     "AND name NOT LIKE 'sqlite_%'") == 0);
    CHECK(sql_int(s, "SELECT count(*) FROM pragma_table_list WHERE strict") == 17);
    snprintf(instance, sizeof instance, "%s", s->instance);
    kr_store_close(s);
    chmod(file_of(dir, "krait.db"), 0644); /* as a copy from somewhere may be */
    CHECK(kr_store_open(dir, KR_STORE_CHECK, &s, &err) == 0 && !strcmp(s->instance, instance));
    CHECK(mode_of(file_of(dir, "krait.db")) == 0600 && sql_int(s, "SELECT count(*) FROM audit") == 1);
    kr_store_close(s);
    kr_store_close(NULL);
}

static void test_open_refused(void)
{
    char dir[96], other[96];

    snprintf(dir, sizeof dir, "%s", fresh_dir());
    kr_store_close(must_open(dir));
    CHECK(open_fails(file_of(dir, "krait.db"), KR_STORE_CREATE) == -ENOTDIR);
    CHECK(open_fails(file_of(dir, "no/such"), KR_STORE_CREATE) == -ENOENT);
    snprintf(other, sizeof other, "%s", fresh_dir());
    CHECK(mkdir(other, 0700) == 0 && symlink(file_of(dir, "krait.db"), file_of(other, "krait.db")) == 0);
    CHECK(open_fails(other, KR_STORE_CREATE) == -ELOOP);
}

/* As an ordinary user: a directory that cannot be written, a file that cannot be read. */
static void test_no_rights(void)
{
    char dir[96], closed[96];
    int status = -1;
    pid_t pid;

    snprintf(dir, sizeof dir, "%s", fresh_dir());
    kr_store_close(must_open(dir));
    snprintf(closed, sizeof closed, "%s", fresh_dir());
    CHECK(mkdir(closed, 0555) == 0 && chmod(dir, 0755) == 0);
    pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
            _exit(9);
        if (geteuid() != 65534 && chmod(file_of(dir, "krait.db"), 0) < 0)
            _exit(9);
        _exit(open_fails(closed, KR_STORE_CREATE) != -EACCES ? 1 : open_fails(dir, KR_STORE_CREATE) != -EACCES ? 2 : 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    chmod(closed, 0700);
}

/* `krait keys` as root, before the server of another user was ever started: the server must be able to use it all. */
static void test_root_makes_it_for_the_owner(void)
{
    static const char *const names[] = {"krait.db", "krait.db-wal", "krait.db-shm", "krait.lock", "pepper"};
    const char *dir = fresh_dir();
    struct kr_store *s;
    struct stat st;

    if (geteuid() != 0) {
        printf("SKIP test_root_makes_it_for_the_owner_as_root: needs root\n");
        return;
    }
    CHECK(mkdir(dir, 0700) == 0 && chown(dir, 65534, 65534) == 0);
    s = must_open(dir);
    CHECK(add_audit(s, "x") == 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK(stat(file_of(dir, names[i]), &st) == 0 && st.st_uid == 65534 && st.st_gid == 65534);
    kr_store_close(s);
}

/* ---- versions ---- */

/* A store of an older version, as the krait of that time left it. */
static bool make_old(const char *dir, size_t version)
{
    sqlite3 *db = NULL;
    bool good;

    mkdir(dir, 0700);
    good = sqlite3_open(file_of(dir, "krait.db"), &db) == SQLITE_OK &&
           sqlite3_exec(db, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL", NULL, NULL, NULL) ==
               SQLITE_OK &&
           kr_store_migrate(db, kr_migrations, version, &err) == 0 &&
           sqlite3_exec(db, "INSERT INTO users VALUES ('u', 'old', NULL, NULL, 3, 5, NULL)", NULL, NULL, NULL) ==
               SQLITE_OK;
    sqlite3_close(db);
    return good;
}

static void test_older_versions(void)
{
    for (size_t version = 1; version < kr_migrations_count; version++) {
        const char *dir = fresh_dir();
        struct kr_store_user user;
        struct kr_store_totals t;
        struct kr_store *s;

        CHECK(kr_migrations[version].version == kr_migrations[version - 1].version + 1);
        CHECK(make_old(dir, version));
        CHECK(kr_store_open(dir, 0, &s, &err) == 0);
        CHECK(sql_int(s, "PRAGMA user_version") == kr_migrations[kr_migrations_count - 1].version);
        CHECK(kr_store_user_find(s, "old", &user, NULL, &err) == 0 && !strcmp(user.id, "u") && user.created == 5);
        CHECK(add_audit(s, "x") == 0 && kr_store_totals(s, &t, &err) == 0 && t.audits == 1);
        CHECK(is_sound(s));
        kr_store_close(s);
    }
}

static void test_a_step_is_whole_or_not_at_all(void)
{
    static const struct kr_migration bad[] = {
        {1, "CREATE TABLE settings (key TEXT PRIMARY KEY, value BLOB); CREATE TABLE one (a)"},
        {2, "CREATE TABLE two (a); INSERT INTO two VALUES (1); INSERT INTO nowhere VALUES (1)"},
        {3, "CREATE TABLE three (a)"},
    };
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;

    CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
    CHECK(kr_store_migrate(db, bad, 3, &err) < 0);
    CHECK(kr_store_version(db, "x", 1, &err) == 1);
    CHECK(sqlite3_prepare_v2(db, "SELECT group_concat(name) FROM sqlite_schema WHERE type = 'table'", -1, &st, NULL) ==
          0);
    CHECK(sqlite3_step(st) == SQLITE_ROW && !strcmp((const char *)sqlite3_column_text(st, 0), "settings,one"));
    sqlite3_finalize(st);
    sqlite3_close(db);
}

static void test_newer_version(void)
{
    const char *dir = fresh_dir();
    char before[4096], after[4096];
    sqlite3 *db = NULL;
    int fd;

    kr_store_close(must_open(dir));
    CHECK(sqlite3_open(file_of(dir, "krait.db"), &db) == SQLITE_OK);
    CHECK(sqlite3_exec(db,
                       "UPDATE settings SET value = CAST('9.8.7' AS BLOB) WHERE key = 'krait_version';"
                       "PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)",
                       NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
    fd = open(file_of(dir, "krait.db"), O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && pread(fd, before, sizeof before, 0) == sizeof before);
    CHECK(open_fails(dir, KR_STORE_CREATE) == -EPROTONOSUPPORT);
    CHECK(strstr(err.msg, "format 99") && strstr(err.msg, "krait 9.8.7") &&
          strstr(err.msg, "this is krait " KR_VERSION));
    CHECK(pread(fd, after, sizeof after, 0) == sizeof after && !memcmp(before, after, sizeof before));
    close(fd);
}

/* A new krait does not change the format under a running old one. */
static void test_no_update_under_another(void)
{
    struct kr_store running = {.dir_fd = -1, .lock_fd = -1};
    const char *dir = fresh_dir();

    CHECK(make_old(dir, 2));
    CHECK(kr_store_dir_open(&running, dir, 0, &err) == 0 && kr_store_lock(&running, false, &err) == 0);
    CHECK(open_fails(dir, 0) == -EBUSY && strstr(err.msg, "another krait"));
    close(running.lock_fd);
    close(running.dir_fd);
    free(running.dir);
    free(running.path);
    CHECK(open_fails(dir, 0) == 0); /* opens */
}

/* ---- damage ---- */

static bool overwrite(const char *path, off_t at, int byte, size_t len)
{
    char junk[65536];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool good;

    memset(junk, byte, sizeof junk);
    good = fd >= 0 && pwrite(fd, junk, len, at) == (ssize_t)len;
    close(fd);
    return good;
}

static void test_damage(void)
{
    char dir[96];
    struct kr_txn fill = {0};
    struct kr_store *s;
    sqlite3 *db = NULL;

    snprintf(dir, sizeof dir, "%s", fresh_dir());
    CHECK(mkdir(dir, 0700) == 0 && overwrite(file_of(dir, "krait.db"), 0, 'x', 5000));
    CHECK(open_fails(dir, KR_STORE_CREATE) == -EUCLEAN);

    snprintf(dir, sizeof dir, "%s", fresh_dir());
    CHECK(mkdir(dir, 0700) == 0 && sqlite3_open(file_of(dir, "krait.db"), &db) == SQLITE_OK);
    CHECK(sqlite3_exec(db, "CREATE TABLE theirs (a); PRAGMA user_version = 3", NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
    CHECK(open_fails(dir, KR_STORE_CREATE) == -EUCLEAN && strstr(err.msg, "another program"));

    snprintf(dir, sizeof dir, "%s", fresh_dir());
    s = must_open(dir);
    CHECK(kr_txn_begin(&fill, s, &err) == 0);
    for (int i = 0; i < 3000; i++)
        CHECK(add_audit(s, "fill") == 0);
    CHECK(kr_txn_commit(&fill, false, &err) == 0);
    kr_store_close(s);
    CHECK(open_fails(dir, KR_STORE_CHECK) == 0); /* the control: it opens */
    CHECK(overwrite(file_of(dir, "krait.db"), 40 * 4096, 0xa5, 3 * 4096));
    CHECK(open_fails(dir, KR_STORE_CHECK) == -EUCLEAN && strstr(err.msg, "damaged"));
    CHECK(truncate(file_of(dir, "krait.db"), 30 * 4096) == 0);
    CHECK(open_fails(dir, KR_STORE_CHECK) == -EUCLEAN);
    CHECK(truncate(file_of(dir, "krait.db"), 0) == 0);
    CHECK(open_fails(dir, KR_STORE_CREATE) == -EUCLEAN && strstr(err.msg, "pepper"));
    CHECK(unlink(file_of(dir, "pepper")) == 0 && open_fails(dir, KR_STORE_CREATE) == 0); /* begins anew */
}

static void test_pepper(void)
{
    char dir[96], kept[200];
    struct kr_store *s;
    struct kr_store_grant grant;
    char text[KR_STORE_KEY_ROOM];

    snprintf(dir, sizeof dir, "%s", fresh_dir());
    s = must_open(dir);
    CHECK(kr_store_key_add(s, &(struct kr_store_key_new){KR_STORE_ROOT, "k", 7, 0, NOW}, text, NULL, &err) == 0);
    kr_store_close(s);
    snprintf(kept, sizeof kept, "%s", file_of(dir, "kept"));
    CHECK(rename(file_of(dir, "pepper"), kept) == 0);
    CHECK(open_fails(dir, KR_STORE_CREATE) == -EUCLEAN && strstr(err.msg, "pepper is missing"));
    CHECK(overwrite(file_of(dir, "pepper"), 0, 'p', 32));
    CHECK(open_fails(dir, KR_STORE_CREATE) == -EUCLEAN && strstr(err.msg, "not the one"));
    CHECK(truncate(file_of(dir, "pepper"), 7) == 0 && open_fails(dir, 0) == -EUCLEAN);
    CHECK(rename(kept, file_of(dir, "pepper")) == 0);
    s = must_open(dir);
    CHECK(kr_store_grant(s, text, NOW, &grant, &err) == 0 && !strcmp(grant.user, KR_STORE_ROOT));
    kr_store_close(s);
}

/* ---- what reaches the disk ---- */

static void test_syncs(void)
{
    struct kr_store *s = must_open(fresh_dir());
    struct kr_store_key_new new = {KR_STORE_ROOT, "k", 7, 0, NOW};
    char text[KR_STORE_KEY_ROOM];
    struct kr_store_key key;
    struct kr_txn t = {0};

    syncs = 0;
    CHECK(add_audit(s, "x") == 0 && kr_store_token_add(s, KR_STORE_ROOT, NOW + 1, NOW, text, &err) == 0 && syncs == 0);
    CHECK(kr_store_key_add(s, &new, text, &key, &err) == 0 && syncs >= 1);
    syncs = 0;
    CHECK(kr_store_key_revoke(s, KR_STORE_ROOT, key.id, NOW, &err) == 0 && syncs == 1);
    syncs = 0;
    for (int i = 1; i <= 10; i++)
        CHECK(kr_store_key_add(s, &new, text, &key, &err) == 0 && syncs == i); /* one for each */
    syncs = 0;
    CHECK(kr_txn_begin(&t, s, &err) == 0 && add_audit(s, "x") == 0 && kr_txn_commit(&t, false, &err) == 0);
    CHECK(syncs == 0);
    CHECK(kr_txn_begin(&t, s, &err) == 0 && add_audit(s, "x") == 0 && kr_txn_commit(&t, true, &err) == 0);
    CHECK(syncs == 1);
    sync_fails = 1;
    CHECK(kr_store_key_revoke(s, KR_STORE_ROOT, key.id, NOW, &err) == -EIO);
    sync_fails = 0;
    kr_store_close(s);
}

/* ---- a full disk ---- */

/* Writes until it fails; then: the error is clear, reading works, with room again writing works, and nothing that was
 * promised is lost. 0, or the number of the step that failed. */
static int fill_up(const char *dir, int expected, int (*make_room)(void))
{
    struct kr_store *s = must_open(dir);
    struct kr_store_totals t;
    struct kr_store_user user;
    int rows = 0, r = 0;

    for (int i = 0; i < 10000 && r == 0; i++) {
        cleanup_txn struct kr_txn fill = {0};

        r = kr_txn_begin(&fill, s, &err);
        for (int k = 0; k < 16 && r == 0; k++)
            r = add_audit(s, "fill");
        if (r == 0)
            r = kr_txn_commit(&fill, false, &err);
        if (r == 0)
            rows += 16;
    }
    printf("# full after %d rows: %s\n", rows, err.msg);
    if (r != -expected || rows == 0 || strchr(err.msg, '\n'))
        return 1;
    if (kr_store_user_get(s, KR_STORE_ROOT, &user, &err) < 0 || kr_store_totals(s, &t, &err) < 0 ||
        (int)t.audits != rows)
        return 2;
    if (make_room() < 0)
        return 3;
    if (add_audit(s, "after") < 0 || !is_sound(s))
        return 4;
    kr_store_close(s);
    if (kr_store_open(dir, KR_STORE_CHECK, &s, &err) < 0 || kr_store_totals(s, &t, &err) < 0)
        return 5;
    kr_store_close(s);
    return (int)t.audits == rows + 1 ? 0 : 6;
}

static int raise_limit(void)
{
    return setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
}

static void test_file_size_limit(void)
{
    const char *dir = fresh_dir();
    int status = -1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, RLIM_INFINITY});
        status = fill_up(dir, EFBIG, raise_limit);
        fflush(stdout);
        _exit(status);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static char mounted[96];
static int enlarge(void)
{
    return mount("tmpfs", mounted, "tmpfs", MS_REMOUNT, "size=64m");
}

static void test_full_disk(void)
{
    const char *dir = fresh_dir();
    int status = -1;
    pid_t pid;

    snprintf(mounted, sizeof mounted, "%s", dir);
    CHECK(mkdir(mounted, 0700) == 0);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", mounted, "tmpfs", 0, "size=1m") < 0)
            _exit(77);
        status = fill_up(mounted, ENOSPC, enlarge);
        fflush(stdout);
        _exit(status);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        printf("SKIP test_full_disk_by_tmpfs: no mount namespace can be made here\n");
        return;
    }
    CHECK(status == 0);
}

/* ---- several processes ---- */

/* Runs a function in so many processes at once. How many ended with 0. */
static int in_parallel(int count, const char *dir, int (*job)(const char *dir, int number))
{
    int good = 0, status, gate[2];
    char byte;

    if (pipe2(gate, O_CLOEXEC) < 0)
        return -1;
    fflush(stdout);
    for (int i = 0; i < count; i++) {
        if (fork() == 0) {
            close(gate[1]);
            (void)!read(gate[0], &byte, 1); /* end of file: all are there */
            _exit(job(dir, i));
        }
    }
    close(gate[1]);
    close(gate[0]);
    for (int i = 0; i < count; i++)
        good += wait(&status) > 0 && status == 0;
    return good;
}

static int job_open(const char *dir, int number)
{
    struct kr_store *s;

    (void)number;
    if (kr_store_open(dir, KR_STORE_CREATE, &s, &err) < 0) {
        fprintf(stderr, "# %s\n", err.msg);
        return 1;
    }
    return add_audit(s, s->instance) < 0 ? 2 : 0; /* and no close: the process just ends */
}

static void test_first_starts_at_once(void)
{
    for (int i = 0; i < 10; i++) {
        const char *dir = fresh_dir();
        struct kr_store *s;

        CHECK(in_parallel(4, dir, job_open) == 4);
        CHECK(kr_store_open(dir, KR_STORE_CHECK, &s, &err) == 0);
        CHECK(sql_int(s, "SELECT count(*) FROM audit") == 4 &&
              sql_int(s, "SELECT count(DISTINCT what) FROM audit") == 1);
        kr_store_close(s);
    }
}

static int job_update(const char *dir, int number)
{
    return job_open(dir, number);
}

static void test_updates_at_once(void)
{
    const char *dir = fresh_dir();
    struct kr_store *s;

    CHECK(make_old(dir, 1) && in_parallel(4, dir, job_update) == 4);
    s = must_open(dir);
    CHECK(sql_int(s, "SELECT count(*) FROM audit") == 4);
    kr_store_close(s);
}

/* Does one piece of work, again as long as it is refused because the other process holds the store: a writer waits for
 * another a second at most, and then says so. */
static int when_free(int (*work)(struct kr_store *s, const char *name), struct kr_store *s, const char *name)
{
    int r = work(s, name);

    for (long end = patience_end(); r == -EBUSY && is_before(end);)
        r = work(s, name);
    if (r < 0)
        fprintf(stderr, "# %s: %s\n", name, err.msg);
    return r;
}

static int write_user(struct kr_store *s, const char *name)
{
    return kr_store_user_add(s, &(struct kr_store_user_new){.name = name, .rights = 1, .now = NOW}, NULL, &err);
}

static int write_key(struct kr_store *s, const char *name)
{
    struct kr_store_key_new key = {KR_STORE_ROOT, "k", 7, 0, NOW};
    char text[KR_STORE_KEY_ROOM];

    (void)name;
    return kr_store_key_add(s, &key, text, NULL, &err);
}

static int write_rows(struct kr_store *s, const char *name)
{
    cleanup_txn struct kr_txn rows = {0};
    int r = kr_txn_begin(&rows, s, &err);

    for (int k = 0; k < 10 && r >= 0; k++)
        r = add_audit(s, name);
    return r < 0 ? r : kr_txn_commit(&rows, false, &err);
}

static int job_write(const char *dir, int number)
{
    struct kr_store *s = must_open(dir);
    char name[20];

    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "u%d-%d", number, i);
        if (when_free(write_user, s, name) < 0 || when_free(write_key, s, name) < 0 ||
            when_free(write_rows, s, name) < 0)
            return 1;
    }
    kr_store_close(s);
    return 0;
}

static void test_two_processes(void)
{
    const char *dir = fresh_dir();
    struct kr_store *s = must_open(dir); /* open all the while, as a server's is */

    CHECK(in_parallel(2, dir, job_write) == 2);
    CHECK(sql_int(s, "SELECT count(*) FROM users") == 81 && sql_int(s, "SELECT count(*) FROM audit") == 800);
    CHECK(sql_int(s, "SELECT count(*) FROM keys") == 80 && is_sound(s));
    kr_store_close(s);
}

/* ---- kill -9 ---- */

static int start_run(struct kr_store *s, char *id)
{
    kr_store_new_id(id);
    return kr_store_run_start(
        s, &(struct kr_store_run_start){.id = id, .owner = KR_STORE_ROOT, .code = "x", .code_len = 1, .started = NOW},
        &err);
}

static void sleep_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static void test_runs_of_the_dead_are_lost(void)
{
    const char *dir = fresh_dir();
    char ours[KR_STORE_ID_ROOM], ended[KR_STORE_ID_ROOM], theirs[KR_STORE_ID_ROOM];
    cleanup_store_run struct kr_store_run run = {0}, mine = {0};
    struct kr_store *s = must_open(dir);
    int pipes[2], status;
    pid_t pid;

    CHECK(start_run(s, ours) == 0 && pipe2(pipes, O_CLOEXEC) == 0);
    pid = fork();
    if (pid == 0) {
        struct kr_store *other = must_open(dir);

        if (start_run(other, ended) == 0 && start_run(other, theirs) == 0 &&
            kr_store_run_end(other, KR_STORE_ROOT, ended, &(struct kr_store_run_end){.ended = 1, .cause = "ok"},
                             &err) == 0)
            (void)!write(pipes[1], theirs, sizeof theirs);
        pause();
        _exit(1);
    }
    CHECK(read(pipes[0], theirs, sizeof theirs) == sizeof theirs);
    CHECK(kr_store_runs_lost(s, NOW, &err) == 0); /* it lives */
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
    CHECK(kr_store_runs_lost(s, NOW + 3, &err) == 1 && kr_store_runs_lost(s, NOW, &err) == 0);
    CHECK(kr_store_run_get(s, KR_STORE_ROOT, theirs, &run, &err) == 0);
    CHECK(!strcmp(run.cause, "lost") && run.ended == NOW + 3);
    CHECK(kr_store_run_get(s, KR_STORE_ROOT, ours, &mine, &err) == 0 && !mine.ended);
    close(pipes[0]);
    close(pipes[1]);
    kr_store_close(s);
}

/* Writes for ever: a sandbox, then four runs and eight audit rows in one transaction; writes a "+" for each that is
 * committed. */
static void write_for_ever(const char *dir, int pipe)
{
    struct kr_store *s = must_open(dir);
    char name[40], id[KR_STORE_ID_ROOM];

    for (int i = 0;; i++) {
        struct kr_txn rows = {0};
        int r;

        kr_store_new_id(name);
        r = kr_store_sandbox_add(s, &(struct kr_store_sandbox_new){.owner = KR_STORE_ROOT, .name = name, .now = NOW},
                                 NULL, &err);
        if (r == 0)
            r = kr_txn_begin(&rows, s, &err);
        for (int k = 0; k < 4 && r == 0; k++)
            r = start_run(s, id);
        for (int k = 0; k < 8 && r == 0; k++)
            r = add_audit(s, "kill");
        if (r < 0 || kr_txn_commit(&rows, false, &err) < 0 || write(pipe, "+", 1) != 1)
            _exit(1);
        if (i % 16 == 15)
            kr_store_checkpoint(kr_store_path(s), &err);
        if (i % 24 == 23)
            kr_store_audit_prune(s, &(struct kr_store_keep){.since = 1}, &err);
    }
}

static void test_kill(void)
{
    const char *dir = fresh_dir();
    int64_t promised = 0, commits, sandboxes;
    int status, pipes[2];
    char buf[4096];
    ssize_t n;

    srandom(4711);
    for (int i = 0; i < 50; i++) {
        struct kr_store *s;
        pid_t pid;

        CHECK(pipe2(pipes, O_CLOEXEC) == 0);
        pid = fork();
        if (pid == 0)
            write_for_ever(dir, pipes[1]);
        close(pipes[1]);
        if (i % 2) /* every other one has surely begun to write, however slow the machine */
            CHECK(poll(&(struct pollfd){.fd = pipes[0], .events = POLLIN}, 1, PATIENCE_S * 1000) == 1);
        sleep_us(1000 + random() % 20000);
        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
        while ((n = read(pipes[0], buf, sizeof buf)) > 0)
            promised += n;
        close(pipes[0]);
        CHECK(kr_store_open(dir, KR_STORE_CREATE | KR_STORE_CHECK, &s, &err) == 0 && is_sound(s));
        while ((status = kr_store_runs_lost(s, NOW, &err)) > 0)
            ;
        CHECK(status == 0 && sql_int(s, "SELECT count(*) FROM runs WHERE ended IS NULL") == 0);
        commits = sql_int(s, "SELECT count(*) FROM runs") / 4;
        /* at most the one transaction that was committed but not written to the pipe yet is more */
        CHECK(commits >= promised && commits <= promised + 1);
        CHECK(sql_int(s, "SELECT count(*) FROM runs") == 4 * commits);
        sandboxes = sql_int(s, "SELECT count(*) FROM sandboxes");
        CHECK(sandboxes >= commits && sandboxes <= commits + i + 1); /* one more for each kill between the two */
        CHECK(sql_int(s, "SELECT count(*) FROM audit") == 8 * commits);
        CHECK(sql_int(s, "SELECT count FROM totals WHERE what = 'audit'") == 8 * commits);
        CHECK(sql_int(s, "SELECT count(*) FROM pragma_foreign_key_check") == 0);
        promised = commits;
        kr_store_close(s);
    }
    printf("# %lld transactions over 50 kills\n", (long long)promised);
    CHECK(promised >= 25);
}

/* The first start, killed at any moment: the next one finds nothing it cannot go on from. */
static void test_kill_while_made(void)
{
    int killed_early = 0, status;

    for (int i = 0; i < 40; i++) {
        const char *dir = fresh_dir();
        struct kr_store *s;
        pid_t pid = fork();

        if (pid == 0) {
            must_open(dir);
            _exit(0);
        }
        sleep_us(200 + i * 300);
        kill(pid, SIGKILL);
        CHECK(waitpid(pid, &status, 0) == pid);
        killed_early += WIFSIGNALED(status) && access(dir, F_OK) == 0;
        CHECK(kr_store_open(dir, KR_STORE_CREATE | KR_STORE_CHECK, &s, &err) == 0);
        CHECK(sql_int(s, "PRAGMA auto_vacuum") == 2 && add_audit(s, "x") == 0);
        kr_store_close(s);
    }
    printf("# %d of 40 were killed while the store was being made\n", killed_early);
    CHECK(killed_early > 0);
}

int main(void)
{
    RUN(test_open);
    RUN(test_open_refused);
    RUN(test_no_rights);
    RUN(test_root_makes_it_for_the_owner);
    RUN(test_older_versions);
    RUN(test_a_step_is_whole_or_not_at_all);
    RUN(test_newer_version);
    RUN(test_no_update_under_another);
    RUN(test_damage);
    RUN(test_pepper);
    RUN(test_syncs);
    RUN(test_file_size_limit);
    RUN(test_full_disk);
    RUN(test_first_starts_at_once);
    RUN(test_updates_at_once);
    RUN(test_two_processes);
    RUN(test_runs_of_the_dead_are_lost);
    RUN(test_kill);
    RUN(test_kill_while_made);
    remove_top();
    CHECK_DONE();
}

/* src/store/notes.c: rows that wait, are seen by every reader, survive kill -9, and reach the database once.
 * Run by tests/run. */
#include "check.h"
#include "store-common.h"
#include "fd.h"
#include "notes.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int start(struct kr_store *s, const char *owner, char *id, const char *session)
{
    struct kr_store_run_start row = {
        .owner = owner, .sandbox = "box", .session = session, .code = "print(1)", .code_len = 8, .started = NOW};

    kr_store_new_id(id);
    row.id = id;
    return kr_store_run_start(s, &row, &err);
}

static int end(struct kr_store *s, const char *owner, const char *id, const char *files, const char *log)
{
    struct kr_store_run_end row = {.ended = NOW + 5,
                                   .cause = "ok",
                                   .exit_code = 3,
                                   .hits = 2,
                                   .message = "said",
                                   .wall_us = 11,
                                   .cpu_us = 12,
                                   .peak_memory = 13,
                                   .output_bytes = 14,
                                   .kept_bytes = 15,
                                   .files = files,
                                   .log = log,
                                   .log_len = log ? strlen(log) : 0};

    return kr_store_run_end(s, owner, id, &row, &err);
}

static int add_audit(struct kr_store *s, const char *object)
{
    struct kr_store_audit row = {.at = NOW, .who = "root", .what = "test", .object = object, .outcome = "ok"};

    return kr_store_audit_add(s, &row, &err);
}

/* Files of notes in the directory. */
static int files_of(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    int count = 0;

    while (d && (e = readdir(d)))
        count += strncmp(e->d_name, "krait.notes.", 12) == 0;
    if (d)
        closedir(d);
    return count;
}

static struct kr_store *open_with_notes(const char *dir)
{
    struct kr_store *s = must_open(dir);

    if (kr_store_notes_open(s, false, &err) < 0) {
        printf("FAIL notes: %s\n", err.msg);
        exit(1);
    }
    return s;
}

/* ---- waiting, and being seen ---- */

static void test_rows_wait_and_are_seen(void)
{
    const char *dir = fresh_dir();
    struct kr_store *s = open_with_notes(dir);
    char whole[KR_STORE_ID_ROOM], open[KR_STORE_ID_ROOM];
    struct kr_store_run run = {0};
    void *log = NULL;
    size_t len = 0;

    CHECK(start(s, KR_STORE_ROOT, whole, "main") == 0 &&
          end(s, KR_STORE_ROOT, whole, "[{\"path\":\"a\"}]", "LOG") == 0);
    CHECK(start(s, KR_STORE_ROOT, open, "other") == 0 && add_audit(s, whole) == 0);
    CHECK(kr_store_notes_waiting(s) > 0 && sql_int(s, "SELECT count(*) FROM runs") == 0);
    CHECK(kr_store_session_known(s, KR_STORE_ROOT, "box", "other", &err) == 1);
    CHECK(kr_store_session_known(s, KR_STORE_ROOT, "box", "none", &err) == 0);
    CHECK(kr_store_notes_waiting(s) > 0); /* that is answered without settling */
    CHECK(kr_store_run_get(s, KR_STORE_ROOT, whole, &run, &err) == 0 && kr_store_notes_waiting(s) == 0);
    CHECK(!strcmp(run.session, "main") && !strcmp(run.sandbox, "box") && !strcmp(run.code, "print(1)"));
    CHECK(run.started == NOW && run.ended == NOW + 5 && !strcmp(run.cause, "ok") && run.exit_code == 3 &&
          run.hits == 2);
    CHECK(!strcmp(run.message, "said") && run.wall_us == 11 && run.cpu_us == 12 && run.peak_memory == 13);
    CHECK(run.output_bytes == 14 && run.kept_bytes == 15 && !run.truncated && !strcmp(run.files, "[{\"path\":\"a\"}]"));
    kr_store_run_done(&run);
    CHECK(kr_store_run_log(s, KR_STORE_ROOT, whole, &log, &len, &err) == 0 && len == 3 && !memcmp(log, "LOG", 3));
    free(log);
    CHECK(kr_store_run_log(s, "nobody", whole, &log, &len, &err) == -ENOENT);
    CHECK(kr_store_run_log(s, KR_STORE_ROOT, open, &log, &len, &err) == -ENOENT);
    CHECK(kr_store_run_get(s, KR_STORE_ROOT, open, &run, &err) == 0 && run.ended == 0);
    kr_store_run_done(&run);
    CHECK(end(s, KR_STORE_ROOT, open, NULL, NULL) == 0); /* its start is in the database already */
    CHECK(kr_store_run_get(s, KR_STORE_ROOT, open, &run, &err) == 0 && run.ended == NOW + 5 && !run.files);
    CHECK(sql_int(s, "SELECT count(*) FROM audit") == 1);
    store = s;
    CHECK(totals_are_true());
    CHECK(files_of(dir) == 1);
    kr_store_close(s);
    CHECK(files_of(dir) == 0);
}

/* The row that one INSERT makes is the one that two statements make. */
static void test_both_ways_make_the_same_row(void)
{
    struct kr_store *s = must_open(fresh_dir());
    char a[KR_STORE_ID_ROOM], b[KR_STORE_ID_ROOM];
    static const char *const files[] = {NULL, "[]", "[{\"path\":\"x\"}]", "no json"};

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        CHECK(start(s, KR_STORE_ROOT, a, "m") == 0 && end(s, KR_STORE_ROOT, a, files[i], "L") == 0);
        if (s->notes_fd < 0)
            CHECK(kr_store_notes_open(s, false, &err) == 0);
        CHECK(start(s, KR_STORE_ROOT, b, "m") == 0 && end(s, KR_STORE_ROOT, b, files[i], "L") == 0);
        CHECK(kr_store_settle(s, &err) == 0);
        CHECK(sql_int(
                  s,
                  "SELECT count(*) FROM (SELECT DISTINCT owner, sandbox, session, code, holder, started, ended, cause, "
                  "exit_code, hits, message, wall_us, cpu_us, peak_memory, output_bytes, kept_bytes, truncated, files, "
                  "log, size FROM runs)") == 1);
        CHECK(sql_int(s, "SELECT count(*) FROM runs") == 2);
        CHECK(sqlite3_exec(s->db, "DELETE FROM runs", NULL, NULL, NULL) == SQLITE_OK);
        if (i == 0) { /* from here on both are noted, the first settled in between */
            CHECK(start(s, KR_STORE_ROOT, a, "m") == 0 && kr_store_settle(s, &err) == 0);
            CHECK(sqlite3_exec(s->db, "DELETE FROM runs", NULL, NULL, NULL) == SQLITE_OK);
        }
    }
    kr_store_close(s);
}

static void test_a_row_that_cannot_be_keeps_no_other_out(void)
{
    struct kr_store *s = open_with_notes(fresh_dir());
    char good[KR_STORE_ID_ROOM], bad[KR_STORE_ID_ROOM];

    CHECK(start(s, "nobody", bad, "m") == 0 && start(s, KR_STORE_ROOT, good, "m") == 0);
    CHECK(end(s, "nobody", bad, NULL, NULL) == 0 && end(s, KR_STORE_ROOT, good, NULL, NULL) == 0 &&
          add_audit(s, "x") == 0);
    CHECK(kr_store_settle(s, &err) == 0 && sql_int(s, "SELECT count(*) FROM runs") == 1);
    CHECK(sql_int(s, "SELECT count(*) FROM audit") == 1 && kr_store_notes_waiting(s) == 0);
    kr_store_close(s);
}

/* ---- limits ---- */

static void test_there_is_no_end_of_notes(void)
{
    struct kr_store *s = open_with_notes(fresh_dir());
    static char detail[4000];
    size_t most = 0;

    memset(detail, 'x', sizeof detail - 1);
    for (int i = 0; i < 2000; i++) {
        struct kr_store_audit row = {.at = NOW, .what = "test", .object = detail, .outcome = "ok", .detail = "{}"};

        CHECK(kr_store_audit_add(s, &row, &err) == 0);
        for (int k = 0; k < 10; k++)
            CHECK(add_audit(s, detail) == 0);
        most = kr_store_notes_waiting(s) > most ? kr_store_notes_waiting(s) : most;
    }
    CHECK(most > 1 << 20 && most < 4 << 20);
    CHECK(kr_store_settle(s, &err) == 0 && sql_int(s, "SELECT count(*) FROM audit") == 22000);
    kr_store_close(s);
}

/* No byte more may be written: rows wait, reading goes on, and with room again they are there. */
static void test_a_full_disk(void)
{
    const char *dir = fresh_dir();
    struct kr_store *s = open_with_notes(dir);
    struct rlimit had, none;
    char id[KR_STORE_ID_ROOM];
    struct kr_store_run run = {0};
    int refused;

    CHECK(start(s, KR_STORE_ROOT, id, "m") == 0 && end(s, KR_STORE_ROOT, id, NULL, NULL) == 0);
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &had) == 0);
    none = (struct rlimit){.rlim_cur = 1, .rlim_max = had.rlim_max};
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
    refused = kr_store_settle(s, &err) < 0 && kr_store_notes_waiting(s) > 0;
    refused += kr_store_run_get(s, KR_STORE_ROOT, "none", &run, &err) == -ENOENT;
    refused += add_audit(s, "x") == 0 && kr_store_notes_write(s, &err) < 0;
    CHECK(setrlimit(RLIMIT_FSIZE, &had) == 0);
    CHECK(refused == 3);
    CHECK(kr_store_notes_write(s, &err) == 0 && kr_store_settle(s, &err) == 0);
    CHECK(kr_store_run_get(s, KR_STORE_ROOT, id, &run, &err) == 0 && run.ended == NOW + 5);
    CHECK(sql_int(s, "SELECT count(*) FROM audit") == 1);
    kr_store_close(s);
    CHECK(files_of(dir) == 0);
}

/* ---- kill -9 ---- */

/* A run that is over, one that runs, and an audit row, again and again; a byte for each time that they were safe. */
static void note_for_ever(const char *dir, int pipe)
{
    struct kr_store *s = open_with_notes(dir);
    char done[KR_STORE_ID_ROOM], open[KR_STORE_ID_ROOM];

    for (unsigned i = 0;; i++) {
        if (start(s, KR_STORE_ROOT, done, "m") < 0 || end(s, KR_STORE_ROOT, done, "[]", "L") < 0 ||
            start(s, KR_STORE_ROOT, open, "m") < 0 || add_audit(s, done) < 0 || kr_store_notes_write(s, &err) < 0 ||
            write(pipe, "+", 1) != 1)
            _exit(1);
        if (i % 7 == 6 && kr_store_settle(s, &err) < 0)
            _exit(1);
    }
}

static void test_kill(void)
{
    const char *dir = fresh_dir();
    int64_t promised = 0, times = 0;
    int status, pipes[2], left = 0;
    char buf[4096];
    ssize_t n;

    srandom(815);
    for (int i = 0; i < 40; i++) {
        struct kr_store *s;
        pid_t pid;

        CHECK(pipe2(pipes, O_CLOEXEC) == 0);
        pid = fork();
        if (pid == 0)
            note_for_ever(dir, pipes[1]);
        close(pipes[1]);
        CHECK(read(pipes[0], buf, 1) == 1);
        promised++;
        usleep((useconds_t)(random() % 15000));
        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
        while ((n = read(pipes[0], buf, sizeof buf)) > 0)
            promised += n;
        close(pipes[0]);
        left += files_of(dir);
        s = open_with_notes(dir);
        CHECK(files_of(dir) == 1);
        while ((status = kr_store_runs_lost(s, NOW, &err)) > 0)
            ;
        times = sql_int(s, "SELECT count(*) FROM audit");
        CHECK(status == 0 && times >= promised && times <= promised + 1);
        CHECK(sql_int(s, "SELECT count(*) FROM runs WHERE cause = 'ok' AND log IS NOT NULL") >= times);
        CHECK(sql_int(s, "SELECT count(*) FROM runs WHERE cause = 'lost'") >= times);
        CHECK(sql_int(s, "SELECT count(*) FROM runs") <= 2 * times + 2);
        CHECK(sql_int(s, "SELECT count(*) FROM (SELECT id FROM runs GROUP BY id HAVING count(*) > 1)") == 0);
        CHECK(sql_int(s, "SELECT count(*) FROM runs WHERE ended IS NULL") == 0);
        promised = times;
        kr_store_close(s);
        CHECK(files_of(dir) == 0);
    }
    printf("# %lld times over 40 kills, %d files left\n", (long long)promised, left);
    CHECK(left == 40);
}

/* What another process that lives has noted is left alone. */
static void test_the_living_keep_theirs(void)
{
    const char *dir = fresh_dir();
    struct kr_store *first = open_with_notes(dir), *second;
    char id[KR_STORE_ID_ROOM];

    CHECK(start(first, KR_STORE_ROOT, id, "m") == 0 && kr_store_notes_write(first, &err) == 0);
    second = open_with_notes(dir);
    CHECK(files_of(dir) == 2 && sql_int(second, "SELECT count(*) FROM runs") == 0);
    CHECK(end(first, KR_STORE_ROOT, id, NULL, NULL) == 0 && kr_store_settle(first, &err) == 0);
    CHECK(sql_int(second, "SELECT count(*) FROM runs") == 1);
    kr_store_close(second);
    CHECK(files_of(dir) == 1);
    kr_store_close(first);
    CHECK(files_of(dir) == 0);
}

/* Killed between the commit and the end of its file: the same notes again are no rows again. Torn and strange ones do
 * not count. */
static void test_the_same_notes_twice(void)
{
    const char *dir = fresh_dir();
    struct kr_store *s = open_with_notes(dir);
    char id[KR_STORE_ID_ROOM], path[256];
    uint64_t generation = s->notes_generation;
    static const char other_kind[24] = "?";
    int fd;

    CHECK(start(s, KR_STORE_ROOT, id, "m") == 0 && add_audit(s, "x") == 0 && kr_store_notes_write(s, &err) == 0);
    snprintf(path, sizeof path, "%s/krait.notes.%llx", dir, (unsigned long long)s->holder);
    CHECK(kr_store_settle(s, &err) == 0 && s->notes_generation == generation + 1);
    /* as if it had been killed now: what the file has is of a generation that the database has */
    kr_fd_close(s->notes_fd);
    s->notes_fd = -1;
    kr_buf_done(&s->notes);
    kr_store_close(s);
    CHECK(files_of(dir) == 1);
    s = open_with_notes(dir);
    CHECK(sql_int(s, "SELECT count(*) FROM runs") == 1 && sql_int(s, "SELECT count(*) FROM audit") == 1);
    CHECK(sql_int(s, "SELECT count(*) FROM settings WHERE key LIKE 'krait.notes.%'") == 0);
    kr_store_close(s);
    snprintf(path, sizeof path, "%s/krait.notes.7", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && write(fd, other_kind, sizeof other_kind) == sizeof other_kind && close(fd) == 0);
    s = must_open(dir);
    CHECK(kr_store_notes_open(s, false, &err) == -EUCLEAN && strstr(err.msg, "krait.notes.7 is damaged"));
    CHECK(kr_store_notes_open(s, true, &err) == 0 && sql_int(s, "SELECT count(*) FROM runs") == 1);
    CHECK(files_of(dir) == 2); /* its own, and the one set aside */
    kr_store_close(s);
}

/* ---- what the dead leave ---- */

/* As if it had been killed: nothing is settled, its file stays. Its path. */
static const char *die(struct kr_store *s, const char *dir)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/krait.notes.%llx", dir, (unsigned long long)s->holder);
    if (kr_store_notes_write(s, &err) < 0)
        printf("FAIL notes: %s\n", err.msg);
    kr_fd_close(s->notes_fd);
    s->notes_fd = -1;
    kr_buf_done(&s->notes);
    kr_store_close(s);
    return path;
}

static int open_path(const char *path)
{
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Each byte of a file in turn: a wrong one is noticed, unless it is in what looks torn at the end; all other records
 * are read. */
static void test_damage_is_noticed(void)
{
    const char *dir = fresh_dir(), *path;
    struct kr_store *s = open_with_notes(dir);
    char whole[4096], wrong[4096];
    size_t at = 0, spot, unnoticed = 0;
    uint64_t generation = 0;
    ssize_t len;
    int fd;

    CHECK(add_audit(s, "one") == 0 && add_audit(s, "two") == 0 && add_audit(s, "three") == 0);
    path = die(s, dir);
    fd = open_path(path);
    len = read(fd, whole, sizeof whole);
    kr_fd_close(fd);
    CHECK(len > 200 && !kr_notes_damaged(whole, (size_t)len, 0, &spot));
    for (ssize_t cut = 0; cut < len; cut++) /* a kill in the middle of a write */
        CHECK(!kr_notes_damaged(whole, (size_t)cut, 0, &spot));
    for (ssize_t i = 0; i < len; i++) {
        memcpy(wrong, whole, (size_t)len);
        wrong[i] ^= 4;
        unnoticed += !kr_notes_damaged(wrong, (size_t)len, 0, &spot);
    }
    CHECK(unnoticed <= 4); /* the length of the last record: it then seems cut short */
    wrong[len - 1] = whole[len - 1];
    wrong[40] ^= 1;
    at = kr_notes_resync(wrong, (size_t)len, 0, 0, &generation);
    CHECK(at > 40 && at < (size_t)len && generation == 1);
    CHECK(kr_notes_resync(wrong, (size_t)len, 0, 1, &generation) == (size_t)len);
}

/* Two start at once after a crash: the one that does not get the notes must not call runs lost whose end is in them. */
static void test_no_run_is_lost_whose_end_is_noted(void)
{
    const char *dir = fresh_dir(), *path;
    struct kr_store *s = open_with_notes(dir), *second;
    char done[KR_STORE_ID_ROOM], open[KR_STORE_ID_ROOM];
    struct kr_store_run run = {0};
    int fd;

    CHECK(start(s, KR_STORE_ROOT, done, "m") == 0 && start(s, KR_STORE_ROOT, open, "m") == 0);
    CHECK(kr_store_settle(s, &err) == 0 && end(s, KR_STORE_ROOT, done, NULL, "L") == 0);
    path = die(s, dir);
    fd = open_path(path);
    CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0); /* the first of them is at it */
    second = open_with_notes(dir);
    CHECK(files_of(dir) == 2 && kr_store_runs_lost(second, NOW, &err) == 0);
    kr_store_close(second);
    kr_fd_close(fd);
    second = open_with_notes(dir);
    CHECK(files_of(dir) == 1 && kr_store_runs_lost(second, NOW, &err) == 1);
    CHECK(kr_store_run_get(second, KR_STORE_ROOT, done, &run, &err) == 0 && !strcmp(run.cause, "ok"));
    kr_store_run_done(&run);
    CHECK(kr_store_run_get(second, KR_STORE_ROOT, open, &run, &err) == 0 && !strcmp(run.cause, "lost"));
    kr_store_run_done(&run);
    kr_store_close(second);
}

/* A last record that was not written whole, and a file that is far too long: what is before counts. */
static void test_torn_and_huge(void)
{
    const char *dir = fresh_dir(), *path;
    struct kr_store *s = open_with_notes(dir);
    size_t whole;

    CHECK(add_audit(s, "a") == 0 && add_audit(s, "b") == 0);
    whole = kr_store_notes_waiting(s);
    CHECK(add_audit(s, "c") == 0);
    path = die(s, dir);
    CHECK(truncate(path, (off_t)whole + 30) == 0);
    s = open_with_notes(dir);
    CHECK(sql_int(s, "SELECT count(*) FROM audit WHERE object IN ('a', 'b')") == 2);
    CHECK(sql_int(s, "SELECT count(*) FROM audit") == 2 && files_of(dir) == 1);
    CHECK(add_audit(s, "d") == 0);
    path = die(s, dir);
    CHECK(truncate(path, (off_t)1 << 40) == 0);
    s = open_with_notes(dir);
    CHECK(sql_int(s, "SELECT count(*) FROM audit WHERE object = 'd'") == 1);
    CHECK(sql_int(s, "SELECT count(*) FROM audit") == 3 && files_of(dir) == 1);
    kr_store_close(s);
}

/* A kind of another version, and a record of a known kind that is too short: neither keeps the others out. */
static void test_strange_records(void)
{
    const char *dir = fresh_dir();
    struct kr_store *s = open_with_notes(dir);
    static const uint32_t kinds[] = {77, KR_NOTE_START, KR_NOTE_END, KR_NOTE_AUDIT};

    CHECK(add_audit(s, "a") == 0);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char record[KR_NOTE_HEAD + 3] = {0};
        uint32_t len = 3;

        memcpy(record + 8, &len, sizeof len);
        memcpy(record + 12, &kinds[i], sizeof kinds[i]);
        memcpy(record + 16, &s->notes_generation, sizeof s->notes_generation);
        kr_note_hash(record, sizeof record, (unsigned char *)record);
        CHECK(kr_buf_add(&s->notes, record, sizeof record) == 0);
    }
    CHECK(add_audit(s, "b") == 0);
    die(s, dir);
    s = open_with_notes(dir);
    CHECK(sql_int(s, "SELECT count(*) FROM audit") == 2 && sql_int(s, "SELECT count(*) FROM runs") == 0);
    CHECK(files_of(dir) == 1);
    kr_store_close(s);
}

/* Root's notes in a directory of the server's user are the server's to take over. */
static void test_whose_file_it_is(void)
{
    const char *dir = fresh_dir(), *path;
    struct kr_store *s;
    struct stat st = {0};

    if (geteuid() != 0) {
        printf("# not root: nothing to see\n");
        return;
    }
    CHECK(mkdir(dir, 0700) == 0 && chown(dir, 1234, 1235) == 0);
    s = open_with_notes(dir);
    CHECK(add_audit(s, "a") == 0);
    path = die(s, dir);
    CHECK(stat(path, &st) == 0 && st.st_uid == 1234 && st.st_gid == 1235 && (st.st_mode & 07777) == 0600);
}

/* While nothing can be settled: the last room is for ends, and a reader does not try for it each time. */
static void test_ends_have_room_of_their_own(void)
{
    struct kr_store *s = open_with_notes(fresh_dir());
    char id[KR_STORE_ID_ROOM], refused[KR_STORE_ID_ROOM];
    struct kr_store_run run = {0};
    int64_t taken = 0;
    size_t waiting;

    CHECK(start(s, KR_STORE_ROOT, id, "m") == 0);
    s->settle_after_ns = UINT64_MAX; /* as after a failure */
    while (taken < 100000 && add_audit(s, id) == 0)
        taken++;
    waiting = kr_store_notes_waiting(s);
    CHECK(taken > 1000 && waiting > 2 << 20 && waiting < 4 << 20 && start(s, KR_STORE_ROOT, refused, "m") == -ENOBUFS);
    CHECK(kr_store_run_get(s, KR_STORE_ROOT, "none", &run, &err) == -ENOENT && kr_store_notes_waiting(s) == waiting);
    CHECK(end(s, KR_STORE_ROOT, id, "[]", "L") == 0 && kr_store_notes_waiting(s) > waiting);
    CHECK(kr_store_settle(s, &err) == 0 && kr_store_notes_waiting(s) == 0);
    CHECK(sql_int(s, "SELECT count(*) FROM audit") == taken);
    CHECK(kr_store_run_get(s, KR_STORE_ROOT, id, &run, &err) == 0 && !strcmp(run.cause, "ok"));
    kr_store_run_done(&run);
    CHECK(s->settle_after_ns == 0 && add_audit(s, "x") == 0);
    kr_store_close(s);
}

int main(void)
{
    atexit(remove_top);
    RUN(test_rows_wait_and_are_seen);
    RUN(test_both_ways_make_the_same_row);
    RUN(test_a_row_that_cannot_be_keeps_no_other_out);
    RUN(test_there_is_no_end_of_notes);
    RUN(test_a_full_disk);
    RUN(test_kill);
    RUN(test_the_living_keep_theirs);
    RUN(test_the_same_notes_twice);
    RUN(test_damage_is_noticed);
    RUN(test_no_run_is_lost_whose_end_is_noted);
    RUN(test_torn_and_huge);
    RUN(test_strange_records);
    RUN(test_whose_file_it_is);
    RUN(test_ends_have_room_of_their_own);
    CHECK_DONE();
}

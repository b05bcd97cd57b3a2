/* src/box/files, walk, changes, media: a workspace with hostile code in it. Each refusal has a control beside it: the
 * same thing by plain calls, which must succeed, or the refusal would show nothing. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "compare-snapshots.h"
#include "buf.h"
#include "changes.h"
#include "clock.h"
#include "fd.h"
#include "files.h"
#include "json.h"
#include "measure.h"
#include "media.h"
#include "walk.h"
#include "write-file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECRET "the secret of the host"

static char base[64];   /* a folder for each test */
static int outside, ws; /* base/outside with `secret` in it, base/ws */
static struct kr_err err;

static void run(const char *command)
{
    if (system(command) != 0)
        abort();
}

static void put(int dir, const char *path, const char *text)
{
    int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
    close(fd);
}

static void setup(void)
{
    char path[100];

    snprintf(base, sizeof base, "/tmp/krait-test-files-XXXXXX");
    if (!mkdtemp(base) || chmod(base, 0755) < 0)
        abort();
    snprintf(path, sizeof path, "%s/outside", base);
    if (mkdir(path, 0755) < 0 || (outside = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        abort();
    snprintf(path, sizeof path, "%s/ws", base);
    if (mkdir(path, 0777) < 0 || chmod(path, 0777) < 0 || (ws = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        abort();
    put(outside, "secret", SECRET);
    memset(&err, 0, sizeof err);
}

/* The secret is as it was, and goes with the rest. */
static bool teardown(void)
{
    char text[64], command[100];
    bool good = kr_fd_read_file_at(outside, "secret", text, sizeof text) == (ssize_t)strlen(SECRET) &&
                strcmp(text, SECRET) == 0;

    close(outside);
    close(ws);
    snprintf(command, sizeof command, "rm -rf %s", base);
    run(command);
    return good;
}

/* What is in the file, by our call; NULL if it was refused. */
static const char *content(const char *path)
{
    static char text[4096];
    ssize_t n;
    int fd;

    if (kr_files_open(ws, path, &fd, NULL, &err) < 0)
        return NULL;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n < 0)
        return NULL;
    text[n] = '\0';
    return text;
}

/* The control: the same by a plain openat(), which follows what it meets. */
static const char *plain_content(const char *path)
{
    static char text[4096];

    return kr_fd_read_file_at(ws, path, text, sizeof text) < 0 ? NULL : text;
}

static bool is(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

/* Entries of a folder, . and .. not counted. */
static int count_in(int dir, const char *path)
{
    int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = -2;
    DIR *d = fdopendir(fd);

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* ---- paths ---- */

static void paths_are_judged(void)
{
    static const struct {
        const char *path, *result; /* NULL: refused */
    } rows[] = {
        {"a", "a"},
        {"a/b//c/./d/", "a/b/c/d"},
        {"", ""},
        {".", ""},
        {"/workspace", ""},
        {"/workspace/a", "a"},
        {"/app/results/x.png", "x.png"},
        {"/home/user", ""},
        {"/mnt/data/x.csv", "x.csv"},
        {"/mnt/database", NULL},
        {"/workspacex", NULL},
        {"/etc/passwd", NULL},
        {"/", NULL},
        {"..", NULL},
        {"a/../b", NULL},
        {"a/..", NULL},
        {"..a/b..", "..a/b.."},
        {"new\nline", "new\nline"},
        {"\xff", "\xff"},
    };
    static const char *const not_new[] = {"", "a\nb", "\xff", "a\x7f", ".krait-upload-1", "/workspace/"};
    char out[KR_FILES_PATH_MAX], big[KR_FILES_PATH_MAX + 10];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int r = kr_files_path(rows[i].path, out, &err);

        CHECK(rows[i].result ? r == 0 && strcmp(out, rows[i].result) == 0 : r == -EINVAL);
        if (r < 0)
            CHECK(err.kind == KR_ERR_INVALID && strstr(err.msg, rows[i].path));
    }
    for (size_t i = 0; i < sizeof not_new / sizeof *not_new; i++)
        CHECK(kr_files_new_path(not_new[i], out, &err) == -EINVAL);
    CHECK(kr_files_new_path("\xc3\xa4/\xe5\x9b\xbe 1.png", out, &err) == 0);
    memset(big, 'x', sizeof big);
    big[256] = '\0';
    CHECK(kr_files_path(big, out, &err) == -EINVAL);
    big[255] = '\0';
    CHECK(kr_files_path(big, out, &err) == 0);
    for (size_t i = 0; i < sizeof big - 1; i++)
        big[i] = i % 200 == 199 ? '/' : 'x';
    big[sizeof big - 1] = '\0';
    CHECK(kr_files_path(big, out, &err) == -EINVAL && strlen(err.msg) < sizeof err.msg);
}

/* ---- what must not be reached ---- */

static void links_are_not_followed(void)
{
    char text[128];
    struct kr_file_info info;
    struct kr_files_list list;

    setup();
    snprintf(text, sizeof text, "%s/outside/secret", base);
    CHECK(symlinkat(text, ws, "abs") == 0 && symlinkat("../outside/secret", ws, "rel") == 0);
    CHECK(symlinkat("../outside", ws, "dir") == 0 && symlinkat("/proc/self/root", ws, "magic") == 0);
    CHECK(symlinkat("inner", ws, "benign") == 0);
    put(ws, "inner", "in");
    /* Controls: all four lead out by plain calls. */
    CHECK(is(plain_content("abs"), SECRET) && is(plain_content("rel"), SECRET) &&
          is(plain_content("dir/secret"), SECRET));
    snprintf(text, sizeof text, "magic%s/outside/secret", base);
    CHECK(is(plain_content(text), SECRET) && is(content("inner"), "in"));
    CHECK(!content("abs") && err.kind == KR_ERR_DENIED && err.code == ELOOP && strstr(err.msg, "symbolic link"));
    CHECK(!content("rel") && !content("dir/secret") && !content(text) && !content("benign"));
    CHECK(!content("../outside/secret") && !content("dir/../outside/secret"));
    CHECK(kr_files_stat(ws, "abs", &info, &err) == 0 && info.type == KR_FILE_LINK);
    CHECK(kr_files_stat(ws, "dir/secret", &info, &err) == -ELOOP ||
          kr_files_stat(ws, "dir/secret", &info, &err) == -ENOTDIR);
    CHECK(kr_files_list(ws, "dir", &(struct kr_files_list_spec){0}, &list, &err) < 0);
    CHECK(kr_files_mkdir(ws, "dir/new", &err) < 0 && faccessat(outside, "new", F_OK, 0) < 0);
    CHECK(write_file(ws, "dir/secret", "x", 1, &err) < 0);
    CHECK(kr_files_delete(ws, "dir/secret", true, NULL, &err) < 0);
    /* Writing to a link's own name replaces the link. */
    CHECK(write_file(ws, "abs", "mine", 4, &err) == 0 && is(content("abs"), "mine"));
    CHECK(kr_files_delete(ws, "dir", true, NULL, &err) == 0 && faccessat(outside, "secret", F_OK, 0) == 0);
    CHECK(teardown());
}

static void special_files_do_not_block(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct kr_file_info info;
    char byte;
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fifo;

    setup();
    alarm(10); /* a call that blocks ends the suite */
    CHECK(mkfifoat(ws, "fifo", 0666) == 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s/ws/socket", base);
    CHECK(bind(s, (struct sockaddr *)&a, sizeof a) == 0);
    CHECK(mkdirat(ws, "folder", 0755) == 0);
    /* Control: a FIFO is there, and opening it without care waits for a writer. */
    fifo = openat(ws, "fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(fifo >= 0);
    CHECK(!content("fifo") && err.code == ENXIO && strstr(err.msg, "not a regular file"));
    CHECK(!content("socket") && err.code == ENXIO && !content("folder") && err.code == EISDIR);
    CHECK(kr_files_stat(ws, "fifo", &info, &err) == 0 && info.type == KR_FILE_OTHER);
    CHECK(write_file(ws, "fifo", "file", 4, &err) == 0 && is(content("fifo"), "file") && read(fifo, &byte, 1) <= 0);
    CHECK(write_file(ws, "folder", "x", 1, &err) == -EISDIR && err.kind == KR_ERR_INVALID);
    CHECK(kr_files_delete(ws, "socket", false, NULL, &err) == 0 && !content("socket") && err.kind == KR_ERR_NOT_FOUND);
    close(fifo);
    close(s);
    alarm(0);
    CHECK(teardown());
}

/* ---- writing ---- */

static void files_are_written_whole(void)
{
    struct kr_file_info info;

    setup();
    CHECK(write_file(ws, "a/b/c.txt", "one", 3, &err) == 0 && is(content("a/b/c.txt"), "one"));
    CHECK(kr_files_stat(ws, "a/b/c.txt", &info, &err) == 0 && info.mode == 0644 && info.size == 3);
    CHECK(fchmodat(ws, "a/b/c.txt", 0755, 0) == 0 && write_file(ws, "a/b/c.txt", "two!", 4, &err) == 0);
    CHECK(kr_files_stat(ws, "a/b/c.txt", &info, &err) == 0 && info.mode == 0755 && info.size == 4);
    CHECK(linkat(ws, "a/b/c.txt", ws, "other", 0) == 0 && write_file(ws, "a/b/c.txt", "three", 5, &err) == 0);
    CHECK(is(content("other"), "two!")); /* another name of the old file keeps the old content */
    CHECK(write_file(ws, "log", "123", 3, &err) == 0 && write_file(ws, "new/log", "1", 1, &err) == 0);
    CHECK(kr_files_mkdir(ws, "x/y/z", &err) == 0 && kr_files_mkdir(ws, "x/y/z", &err) == 0);
    CHECK(kr_files_mkdir(ws, "log", &err) == -ENOTDIR && kr_files_mkdir(ws, "log/sub", &err) == -ENOTDIR);
    CHECK(write_file(ws, "log/x", "", 0, &err) == -ENOTDIR && strstr(err.msg, "log/x"));
    CHECK(write_file(ws, "empty", NULL, 0, &err) == 0 && is(content("empty"), ""));
    CHECK(count_in(ws, ".") == 6); /* a other log new x empty: no temporary file is left */
    CHECK(teardown());
}

static void uploads_have_a_limit_and_leave_nothing(void)
{
    struct kr_files_upload *u;
    struct kr_files_list list;
    pid_t pid;

    setup();
    CHECK(kr_files_upload_begin(ws, "big", 10, &u, &err) == 0);
    CHECK(kr_files_upload_write(u, "12345", 5, &err) == 0 && kr_files_upload_size(u) == 5);
    CHECK(count_in(ws, ".") == 1 && !content("big"));
    CHECK(kr_files_upload_write(u, "678901", 6, &err) == -EFBIG && err.kind == KR_ERR_LIMIT);
    CHECK(kr_files_upload_write(u, "6", 1, &err) < 0); /* nothing after a failure */
    CHECK(kr_files_upload_commit(u, &err) < 0 && count_in(ws, ".") == 0);
    CHECK(kr_files_upload_begin(ws, "big", 10, &u, &err) == 0 && kr_files_upload_write(u, "0123456789", 10, &err) == 0);
    CHECK(kr_files_upload_commit(u, &err) == 0 && is(content("big"), "0123456789") && count_in(ws, ".") == 1);
    CHECK(kr_files_upload_begin(ws, "big", 10, &u, &err) == 0);
    kr_files_upload_abort(u);
    CHECK(is(content("big"), "0123456789") && count_in(ws, ".") == 1);
    /* A process that dies leaves its temporary file, which is not listed and goes with the next start. */
    pid = fork();
    if (pid == 0) {
        kr_files_upload_begin(ws, "never", 10, &u, &err);
        kr_files_upload_write(u, "x", 1, &err);
        _exit(0);
    }
    CHECK(waitpid(pid, NULL, 0) == pid && count_in(ws, ".") == 2);
    CHECK(kr_files_list(ws, "", &(struct kr_files_list_spec){0}, &list, &err) == 0 && list.count == 1);
    kr_files_list_done(&list);
    CHECK(kr_files_clean(ws, &(struct timespec){1, 0}, &err) == 0 && count_in(ws, ".") == 2); /* too young */
    CHECK(kr_files_clean(ws, NULL, &err) == 0 && count_in(ws, ".") == 1);
    CHECK(unlinkat(ws, "big", 0) == 0 && kr_files_clean(ws, NULL, &err) == 1);
    CHECK(teardown());
}

/* ---- lists ---- */

static void lists_are_ordered_and_paged(void)
{
    static const char *const expected[] = {"a", "a/x", "a/x/1", "a/y", "a-b", "a.txt", "b", "b/\xff", "c\nd"};
    const size_t n = sizeof expected / sizeof *expected;
    struct kr_files_list list;
    char after[100];

    setup();
    CHECK(kr_files_mkdir(ws, "a/x", &err) == 0 && kr_files_mkdir(ws, "b", &err) == 0);
    put(ws, "a/x/1", "1");
    put(ws, "a/y", "22");
    put(ws, "a-b", "");
    put(ws, "a.txt", "");
    put(ws, "b/\xff", "");
    put(ws, "c\nd", "");
    for (size_t limit = 1; limit <= n + 1; limit++) {
        size_t at = 0;
        bool more = true;

        *after = '\0';
        while (more) {
            struct kr_files_list_spec spec = {.recursive = true, .limit = limit, .after = *after ? after : NULL};

            CHECK(kr_files_list(ws, "", &spec, &list, &err) == 0 && !list.incomplete);
            for (size_t i = 0; i < list.count; i++)
                CHECK(at < n && strcmp(list.entries[i].path, expected[at++]) == 0);
            more = list.more;
            CHECK(list.count == limit || !more);
            if (list.count)
                snprintf(after, sizeof after, "%s", list.entries[list.count - 1].path);
            kr_files_list_done(&list);
        }
        CHECK(at == n);
    }
    CHECK(kr_files_list(ws, "/workspace/a", &(struct kr_files_list_spec){0}, &list, &err) == 0 && list.count == 2);
    CHECK(is(list.entries[0].path, "a/x") && list.entries[0].info.type == KR_FILE_FOLDER && !list.more);
    CHECK(is(list.entries[1].path, "a/y") && list.entries[1].info.size == 2 && !list.incomplete);
    kr_files_list_done(&list);
    CHECK(kr_files_list(ws, "", &(struct kr_files_list_spec){.recursive = true, .depth = 1}, &list, &err) == 0);
    CHECK(list.count == 5 && !list.incomplete); /* asked for, not met */
    kr_files_list_done(&list);
    /* A page that ends with a folder: what is in it is another page. */
    CHECK(write_file(ws, "z/last/file", "", 0, &err) == 0);
    CHECK(kr_files_list(ws, "z", &(struct kr_files_list_spec){.recursive = true, .limit = 1}, &list, &err) == 0);
    CHECK(list.count == 1 && list.more);
    kr_files_list_done(&list);
    CHECK(kr_files_list(ws, "a.txt", &(struct kr_files_list_spec){0}, &list, &err) == -ENOTDIR);
    CHECK(kr_files_list(ws, "none", &(struct kr_files_list_spec){0}, &list, &err) == -ENOENT &&
          err.kind == KR_ERR_NOT_FOUND);
    CHECK(teardown());
}

static void huge_folders_are_bounded(void)
{
    struct kr_files_list list;
    struct kr_measure usage;
    char name[32];
    size_t seen = 0;
    int calls;

    setup();
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "f%05d", (i * 7919) % 5000); /* not in order */
        CHECK(mknodat(ws, name, S_IFREG | 0644, 0) == 0);
    }
    for (bool more = true; more; seen += 700) {
        char after[32];
        struct kr_files_list_spec spec = {.limit = 700, .after = seen ? after : NULL};

        snprintf(after, sizeof after, "f%05zu", seen - 1);
        CHECK(kr_files_list(ws, "", &spec, &list, &err) == 0);
        for (size_t i = 0; i < list.count; i++) {
            snprintf(name, sizeof name, "f%05zu", seen + i);
            CHECK(is(list.entries[i].path, name));
        }
        more = list.more;
        CHECK(more ? list.count == 700 : seen + list.count == 5000);
        kr_files_list_done(&list);
    }
    CHECK(kr_files_list(ws, "", &(struct kr_files_list_spec){.entries_max = 100}, &list, &err) == 0);
    CHECK(list.count == 100 && list.incomplete);
    kr_files_list_done(&list);
    CHECK(kr_files_list(ws, "", &(struct kr_files_list_spec){.deadline_ns = 1}, &list, &err) == 0 && list.incomplete);
    kr_files_list_done(&list);
    CHECK(kr_files_usage(ws, "", &(struct kr_measure_max){.entries = 10}, &usage, &err) == 0);
    CHECK(usage.gap == KR_MEASURE_TOO_MANY && usage.entries == 10);
    CHECK(kr_files_usage(ws, "", NULL, &usage, &err) == 0 && usage.gap == KR_MEASURE_WHOLE && usage.entries == 5000);
    CHECK(kr_files_delete(ws, "", false, NULL, &err) == -ENOTEMPTY);
    calls = 1;
    while (kr_files_delete(ws, "", true, &(struct kr_files_budget){.steps = 500}, &err) == 1)
        calls++;
    CHECK(calls >= 10 && calls <= 13 && count_in(ws, ".") == 0);
    CHECK(teardown());
}

static void usage_counts_an_inode_once(void)
{
    struct kr_measure one, three;
    char block[8192];

    setup();
    memset(block, 'x', sizeof block);
    CHECK(write_file(ws, "a", block, sizeof block, &err) == 0);
    sync();
    CHECK(kr_files_usage(ws, "", NULL, &one, &err) == 0 && one.entries == 1 && one.bytes >= sizeof block);
    CHECK(linkat(ws, "a", ws, "b", 0) == 0 && linkat(ws, "a", ws, "c", 0) == 0);
    CHECK(kr_files_usage(ws, "", NULL, &three, &err) == 0 && three.entries == 3 && three.bytes == one.bytes);
    CHECK(teardown());
}

static void names_in_json(void)
{
    cleanup_buf struct kr_buf out;
    struct kr_json j;

    kr_buf_init(&out, 1000);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_files_json_path(&j, "path", "\xe5\x9b\xbe 1.png");
    kr_files_json_path(&j, "other", "a\xff\n");
    kr_json_object_end(&j);
    CHECK(kr_json_done(&j) == 0);
    CHECK(is(kr_buf_str(&out),
             "{\"path\":\"\xe5\x9b\xbe 1.png\",\"other\":\"a\xef\xbf\xbd\\n\",\"other_b64\":\"Yf8K\"}"));
}

/* ---- deleting ---- */

static void trees_of_any_depth_are_deleted(void)
{
    int fd, levels = 0, calls = 0, r;
    struct kr_files_list list;
    char name[201];

    setup();
    /* A chain far past PATH_MAX, as a program makes one: each level from within the one above. */
    memset(name, 'd', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK(mkdirat(ws, "chain", 0755) == 0);
    fd = openat(ws, "chain", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (; levels < 3000; levels++) {
        int next;

        if (mkdirat(fd, name, 0755) < 0 || mknodat(fd, "file", S_IFREG | 0644, 0) < 0 || symlinkat("/", fd, "link") < 0)
            break;
        next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    close(fd);
    CHECK(levels == 3000);
    CHECK(kr_files_list(ws, "", &(struct kr_files_list_spec){.recursive = true}, &list, &err) == 0 && list.incomplete);
    CHECK(list.count > 30);
    kr_files_list_done(&list);
    CHECK(kr_files_delete(ws, "chain", false, NULL, &err) == -ENOTEMPTY);
    while ((r = kr_files_delete(ws, "chain", true, &(struct kr_files_budget){.steps = 2000}, &err)) == 1 &&
           calls < 1000)
        calls++;
    CHECK(r == 0 && calls > 3 && count_in(ws, ".") == 0);
    CHECK(kr_files_delete(ws, "chain", true, NULL, &err) == -ENOENT);
    CHECK(teardown());
}

/* As an ordinary user, whom permission bits hold. */
static int in_child(int (*fn)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (geteuid() == 0 && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
            _exit(99);
        _exit(fn());
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define STEP(n, cond)                                                                                                  \
    if (!(cond))                                                                                                       \
    return n

static int modes_as_user(void)
{
    char path[500] = "t";
    struct kr_measure usage;
    struct kr_snapshot *s;
    struct stat st;

    STEP(1, write_file(ws, "tree/a/b/file", "x", 1, &err) == 0 && write_file(ws, "zero", "x", 1, &err) == 0);
    STEP(2, fchmodat(ws, "zero", 0, 0) == 0);
    STEP(3, openat(ws, "zero", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES); /* control: the bits hold */
    STEP(4, !content("zero") && err.kind == KR_ERR_DENIED && strstr(err.msg, "permission bits"));
    STEP(5, fchmodat(ws, "tree/a/b", 0555, 0) == 0 && fchmodat(ws, "tree/a", 0, 0) == 0);
    STEP(6, unlinkat(ws, "tree/a/b/file", 0) < 0 && errno == EACCES); /* control */
    /* What its owner has closed to itself is measured, and closed again. */
    STEP(7, kr_files_usage(ws, "", NULL, &usage, &err) == 0 && usage.gap == KR_MEASURE_WHOLE && usage.entries == 5);
    STEP(71, fstatat(ws, "tree/a", &st, 0) == 0 && (st.st_mode & 0777) == 0);
    STEP(8, kr_snapshot_take(ws, 0, 0, &s) == 0 && kr_snapshot_incomplete(s));
    kr_snapshot_free(s);
    STEP(9, kr_files_delete(ws, "tree", true, NULL, &err) == 0 && faccessat(ws, "tree", F_OK, 0) < 0);
    STEP(10, kr_files_delete(ws, "zero", false, NULL, &err) == 0 && count_in(ws, ".") == 0);
    /* Deep, and without rights on every level. */
    for (int i = 0; i < 60; i++)
        snprintf(path + strlen(path), sizeof path - strlen(path), "/d%d", i);
    STEP(11, kr_files_mkdir(ws, path, &err) == 0);
    while (strchr(path, '/')) {
        STEP(12, fchmodat(ws, path, 0, 0) == 0);
        *strrchr(path, '/') = '\0';
    }
    STEP(13, kr_files_delete(ws, "t", true, NULL, &err) == 0 && count_in(ws, ".") == 0);
    return 0;
}

static void modes_do_not_stop_a_delete(void)
{
    setup();
    CHECK(in_child(modes_as_user) == 0);
    CHECK(teardown());
}

/* ---- races ---- */

static atomic_bool stop;
static atomic_ulong swaps;

/* Swaps `door` between a folder with a harmless `secret` and a link to the folder outside. */
static void *swap_door(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        if (renameat2(ws, "door", ws, "link", RENAME_EXCHANGE) < 0 && errno != ENOENT)
            return NULL;
        atomic_fetch_add(&swaps, 1);
    }
    return NULL;
}

static void races_never_lead_out(void)
{
    unsigned plain_leaks = 0, leaks = 0, good = 0;
    struct kr_files_list list;
    pthread_t thread;
    uint64_t until = kr_clock_after_ms(1000), latest = kr_clock_after_ms(20000); /* a busy machine */

    setup();
    CHECK(write_file(ws, "door/secret", "harmless", 8, &err) == 0);
    CHECK(write_file(ws, "door/sub/secret", "harmless", 8, &err) == 0);
    CHECK(symlinkat("../outside", ws, "link") == 0);
    put(outside, "marker", ""); /* no list may show it */
    atomic_store(&stop, false);
    CHECK(pthread_create(&thread, NULL, swap_door, NULL) == 0);
    while (kr_clock_ns() < until ||
           ((!good || !plain_leaks || atomic_load(&swaps) <= 1000) && kr_clock_ns() < latest)) {
        const char *text = content("door/secret");

        good += is(text, "harmless");
        leaks += is(text, SECRET);
        plain_leaks += is(plain_content("door/secret"), SECRET); /* the control: the race is real */
        write_file(ws, "door/made", "x", 1, &err);
        write_file(ws, "door/secret2", "x", 1, &err);
        kr_files_mkdir(ws, "door/a/b", &err);
        if (kr_files_list(ws, "", &(struct kr_files_list_spec){.recursive = true}, &list, &err) == 0) {
            for (size_t i = 0; i < list.count; i++)
                leaks += strstr(list.entries[i].path, "marker") != NULL;
            kr_files_list_done(&list);
        }
        kr_files_delete(ws, "door/a", true, NULL, &err);
    }
    CHECK(faccessat(outside, "made", F_OK, 0) < 0 && faccessat(outside, "secret2", F_OK, 0) < 0);
    CHECK(faccessat(outside, "a", F_OK, 0) < 0 && count_in(outside, ".") == 2);
    CHECK(leaks == 0 && good > 0 && plain_leaks > 0 && atomic_load(&swaps) > 1000);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    CHECK(teardown());
}

/* Swaps `name` between a file and a FIFO without a writer. */
static void *swap_fifo(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop))
        renameat2(ws, "name", ws, "fifo", RENAME_EXCHANGE);
    return NULL;
}

static void a_fifo_swapped_in_does_not_block(void)
{
    unsigned good = 0, refused = 0;
    pthread_t thread;
    uint64_t until, latest;

    setup();
    put(ws, "name", "x");
    CHECK(mkfifoat(ws, "fifo", 0666) == 0);
    atomic_store(&stop, false);
    alarm(60); /* a call that blocks ends the suite */
    CHECK(pthread_create(&thread, NULL, swap_fifo, NULL) == 0);
    until = kr_clock_after_ms(1000);
    latest = kr_clock_after_ms(20000); /* a busy machine */
    while (kr_clock_ns() < until || ((good <= 10 || refused <= 10) && kr_clock_ns() < latest)) {
        if (content("name"))
            good++;
        else
            refused += err.code == ENXIO;
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    alarm(0);
    CHECK(good > 10 && refused > 10);
    CHECK(teardown());
}

/* Makes `tree/d` anew with files in it, and puts a link to the outside in its place, over and over. */
static void *disturb_tree(void *arg)
{
    (void)arg;
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        char name[32];

        mkdirat(ws, "tree", 0755);
        mkdirat(ws, "tree/d", 0755);
        snprintf(name, sizeof name, "tree/d/%u", i);
        mknodat(ws, name, S_IFREG | 0644, 0);
        renameat2(ws, "tree/d", ws, "link", RENAME_EXCHANGE);
        atomic_fetch_add(&swaps, 1);
    }
    return NULL;
}

static void deleting_a_tree_that_changes(void)
{
    struct kr_files_budget work = {.steps = 300};
    uint64_t until = kr_clock_after_ms(1000), latest = kr_clock_after_ms(20000); /* a busy machine */
    pthread_t thread;
    unsigned calls = 0;

    setup();
    for (int i = 0; i < 50; i++) {
        char name[32];

        snprintf(name, sizeof name, "kept%d", i);
        put(outside, name, "kept");
    }
    CHECK(symlinkat("../outside", ws, "link") == 0);
    atomic_store(&stop, false);
    atomic_store(&swaps, 0);
    CHECK(pthread_create(&thread, NULL, disturb_tree, NULL) == 0);
    while (kr_clock_ns() < until || ((calls <= 10 || atomic_load(&swaps) <= 100) && kr_clock_ns() < latest)) {
        int r = kr_files_delete(ws, "tree", true, &work, &err);

        CHECK(r >= 0 || r == -ENOENT || r == -ENOTEMPTY || r == -ENOTDIR || r == -EXDEV);
        calls++;
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    CHECK(count_in(outside, ".") == 51 && calls > 10 && atomic_load(&swaps) > 100);
    CHECK(kr_files_delete(ws, "", true, &(struct kr_files_budget){.steps = 10000000}, &err) == 0 &&
          count_in(ws, ".") == 0);
    CHECK(count_in(outside, ".") == 51);
    CHECK(teardown());
}

/* ---- changes ---- */

static bool change_is(const struct kr_changes *c, size_t i, enum kr_change change, const char *path)
{
    return i < c->count && c->files[i].change == change && strcmp(c->files[i].path, path) == 0;
}

static void changes_are_found(void)
{
    struct kr_snapshot *before, *after;
    struct timespec old[2];
    struct kr_changes c;
    struct stat st;

    setup();
    CHECK(write_file(ws, "same", "1", 1, &err) == 0 && write_file(ws, "sub/grown", "1", 1, &err) == 0);
    CHECK(write_file(ws, "gone", "123", 3, &err) == 0 && write_file(ws, "forged", "aaa", 3, &err) == 0);
    CHECK(write_file(ws, "replaced", "x", 1, &err) == 0);
    CHECK(fstatat(ws, "forged", &st, 0) == 0);
    usleep(20000); /* past the tick of the clock that stamps files */
    CHECK(kr_snapshot_take(ws, 0, 0, &before) == 0 && kr_snapshot_count(before) == 5 &&
          !kr_snapshot_incomplete(before));
    CHECK(kr_changes_find(before, before, 0, &c) == 0 && c.count == 0 && !c.incomplete);
    kr_changes_done(&c);
    CHECK(append_plainly(ws, "sub/grown", "2") && kr_files_delete(ws, "gone", false, NULL, &err) == 0);
    CHECK(write_file(ws, "sub/deep/er/new.png", "png", 3, &err) == 0);
    put(ws, "forged", "bbb"); /* the same size, and the old times put back */
    old[0] = st.st_atim;
    old[1] = st.st_mtim;
    CHECK(utimensat(ws, "forged", old, 0) == 0);
    CHECK(write_file(ws, "replaced", "y", 1, &err) == 0);
    CHECK(symlinkat("/etc/passwd", ws, "link") == 0 && mkfifoat(ws, "fifo", 0666) == 0); /* no files */
    CHECK(kr_snapshot_take(ws, 0, 0, &after) == 0);
    CHECK(kr_changes_find(before, after, 0, &c) == 0 && c.count == 5 && !c.incomplete);
    CHECK(change_is(&c, 0, KR_CHANGE_MODIFIED, "forged") && change_is(&c, 1, KR_CHANGE_DELETED, "gone"));
    CHECK(c.files[1].size == 3 && change_is(&c, 2, KR_CHANGE_MODIFIED, "replaced"));
    CHECK(change_is(&c, 3, KR_CHANGE_CREATED, "sub/deep/er/new.png") &&
          change_is(&c, 4, KR_CHANGE_MODIFIED, "sub/grown"));
    CHECK(c.files[4].size == 2);
    kr_changes_done(&c);
    CHECK(kr_changes_find(before, after, 2, &c) == 0 && c.count == 2 && c.incomplete);
    kr_changes_done(&c);
    kr_snapshot_free(before);
    kr_snapshot_free(after);
    CHECK(teardown());
}

static void changes_say_when_they_are_incomplete(void)
{
    struct kr_snapshot *before, *after, *late;
    struct kr_changes c;
    char name[32];

    setup();
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "f%02d", i);
        put(ws, name, "x");
    }
    usleep(20000);
    CHECK(kr_snapshot_take(ws, 10, 0, &before) == 0 && kr_snapshot_incomplete(before) &&
          kr_snapshot_count(before) == 10);
    CHECK(kr_snapshot_take(ws, 0, 1, &late) == 0 && kr_snapshot_incomplete(late)); /* the deadline is over */
    put(ws, "new", "x");
    put(ws, "f49", "changed");
    CHECK(kr_snapshot_take(ws, 0, 0, &after) == 0 && kr_snapshot_count(after) == 51);
    /* The forty that the first did not see are not called new; the two that were touched are found. */
    CHECK(kr_changes_find(before, after, 0, &c) == 0 && c.count == 2 && c.incomplete);
    CHECK(strcmp(c.files[0].path, "f49") == 0 && change_is(&c, 1, KR_CHANGE_CREATED, "new"));
    kr_changes_done(&c);
    /* Nor is anything called deleted by one that has not seen all. */
    CHECK(kr_changes_find(after, before, 0, &c) == 0 && c.incomplete);
    for (size_t i = 0; i < c.count; i++)
        CHECK(c.files[i].change != KR_CHANGE_DELETED);
    kr_changes_done(&c);
    kr_snapshot_free(before);
    kr_snapshot_free(after);
    kr_snapshot_free(late);
    CHECK(teardown());
}

/* ---- types ---- */

static void media_types(void)
{
    static const struct {
        const char *name, *head, *header;
        bool active;
    } rows[] = {
        {"a.png", "\x89PNG", "image/png", false},
        {"A.PNG", "", "image/png", false},
        {"t.csv", "a,b\n", "text/csv; charset=utf-8", false},
        {"t.csv", "\xff\xfe", "text/csv", false},
        {"x.xlsx", "PK", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false},
        {"page.html", "<p>", "text/html; charset=utf-8", true},
        {"i.svg", "<svg/>", "image/svg+xml; charset=utf-8", true},
        {"noext", "hello \xc3\xa4", "text/plain; charset=utf-8", false},
        {"noext", "\x01\x02", "application/octet-stream", false},
        {"noext", "GIF89a...", "image/gif", false},
        {".html", "x", "text/plain; charset=utf-8", false},
        {"a.b/c", "x", "text/plain; charset=utf-8", false},
        {"x.unknown", "<html>", "text/plain; charset=utf-8", false}, /* never guessed to be HTML */
        {"zip", "PK\x03\x04", "application/zip", false},
        {"data.zst", "x", "application/zstd", false},
    };
    static const char *const all[] = {"7z", "avif", "c", "json", "py", "yml", "zip", "zst", "md", "pdf"};
    char header[128], name[32];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t len = strlen(rows[i].head);
        const struct kr_media *m = kr_media_of(rows[i].name, rows[i].head, len, true);

        CHECK(is(kr_media_header(m, rows[i].head, len, true, header, sizeof header), rows[i].header));
        CHECK(m->active == rows[i].active);
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) { /* found by bisection: the table is sorted */
        snprintf(name, sizeof name, "f.%s", all[i]);
        CHECK(is(kr_media_of(name, NULL, 0, true)->extension, all[i]));
    }
    CHECK(is(kr_media_of("f", NULL, 0, true)->type, "application/octet-stream"));
    CHECK(kr_media_is_text("a\xc3", 2, false) && !kr_media_is_text("a\xc3", 2, true) &&
          !kr_media_is_text("a\0b", 3, true));
}

int main(void)
{
    RUN(paths_are_judged);
    RUN(links_are_not_followed);
    RUN(special_files_do_not_block);
    RUN(files_are_written_whole);
    RUN(uploads_have_a_limit_and_leave_nothing);
    RUN(lists_are_ordered_and_paged);
    RUN(huge_folders_are_bounded);
    RUN(usage_counts_an_inode_once);
    RUN(names_in_json);
    RUN(trees_of_any_depth_are_deleted);
    RUN(modes_do_not_stop_a_delete);
    RUN(races_never_lead_out);
    RUN(a_fifo_swapped_in_does_not_block);
    RUN(deleting_a_tree_that_changes);
    RUN(changes_are_found);
    RUN(changes_say_when_they_are_incomplete);
    RUN(media_types);
    CHECK_DONE();
}

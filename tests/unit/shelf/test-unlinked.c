/* src/shelf/unlinked: deleted files that processes have open. The /proc is a folder of this test: its numbers lead to
 * descriptors and processes of the real one. Run by tests/run. */
#include "check.h"
#include "unlinked.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (1u << 20)
#define MUST(cond) ((cond) ? (void)0 : abort())

static char top[] = "/tmp/krait-test-unlinked-XXXXXX";
static int proc = -1;
static dev_t dev;

static int count(struct kr_w_counted *ret)
{
    return kr_unlinked_count(proc, dev, ret);
}

static void put_folder(const char *path)
{
    MUST(mkdirat(proc, path, 0755) == 0);
}

/* A process with one thread and no descriptors yet. */
static void put_process(const char *number)
{
    char path[64];
    put_folder(number);
    snprintf(path, sizeof path, "%s/task", number);
    put_folder(path);
    snprintf(path, sizeof path, "%s/task/%s", number, number);
    put_folder(path);
    snprintf(path, sizeof path, "%s/task/%s/fd", number, number);
    put_folder(path);
}

static void put_link(const char *at, const char *to)
{
    MUST(symlinkat(to, proc, at) == 0);
}

static void put_descriptor(const char *at, int fd)
{
    char to[64];
    snprintf(to, sizeof to, "/proc/%d/fd/%d", getpid(), fd);
    put_link(at, to);
}

static void put_real_process(const char *at, pid_t pid)
{
    char to[32];
    snprintf(to, sizeof to, "/proc/%d", pid);
    put_link(at, to);
}

static void begin(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/proc", top);
    MUST(mkdir(path, 0755) == 0);
    proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void end(void)
{
    char command[64];
    close(proc);
    snprintf(command, sizeof command, "rm -rf %s/proc", top);
    MUST(system(command) == 0);
}

static void fill(int fd)
{
    static const char block[SIZE];
    MUST(write(fd, block, SIZE) == (ssize_t)SIZE && fsync(fd) == 0);
}

/* `gone`: deleted again. */
static int make_file(const char *name, int gone)
{
    char path[64];
    int fd;
    snprintf(path, sizeof path, "%s/%s", top, name);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    MUST(fd >= 0 && (!gone || unlink(path) == 0));
    fill(fd);
    return fd;
}

static void only_deleted_files_of_the_filesystem_count(void)
{
    struct kr_w_counted c;
    int deleted = make_file("deleted", 1), named = make_file("named", 0), again = dup(deleted);
    int memory = memfd_create("memory", MFD_CLOEXEC);
    fill(memory);
    begin();
    put_process("42");
    put_descriptor("42/task/42/fd/3", named);
    put_descriptor("42/task/42/fd/4", memory);
    CHECK(count(&c) == 0 && c.bytes == 0 && c.files == 0 && !c.blind);
    put_descriptor("42/task/42/fd/5", deleted);
    CHECK(count(&c) == 0 && c.files == 1 && !c.blind);
    CHECK(c.bytes >= SIZE && c.bytes < 2 * SIZE);
    put_descriptor("42/task/42/fd/6", again); /* the same file, once more and elsewhere */
    put_process("43");
    put_descriptor("43/task/43/fd/0", deleted);
    CHECK(count(&c) == 0 && c.files == 1 && c.bytes < 2 * SIZE && !c.blind);
    close(named);
    named = make_file("deleted", 1);
    put_descriptor("43/task/43/fd/1", named);
    CHECK(count(&c) == 0 && c.files == 2 && c.bytes >= 2 * SIZE && !c.blind);
    close(deleted);
    close(again);
    CHECK(count(&c) == 0 && c.files == 1 && !c.blind); /* links to what was closed are no failure */
    close(named);
    close(memory);
    end();
}

static void the_init_and_what_is_no_number_are_left_out(void)
{
    struct kr_w_counted c;
    int deleted = make_file("deleted", 1);
    begin();
    CHECK(count(&c) == -EACCES);
    put_process("1");
    put_descriptor("1/task/1/fd/3", deleted);
    put_process("self");
    put_descriptor("self/task/self/fd/3", deleted);
    CHECK(count(&c) == -EACCES);
    put_process("2");
    put_descriptor("2/task/2/fd/3x", deleted);
    CHECK(count(&c) == 0 && c.files == 0 && !c.blind);
    put_descriptor("2/task/2/fd/3", deleted);
    CHECK(count(&c) == 0 && c.files == 1);
    close(deleted);
    end();
}

static void what_cannot_be_looked_at_is_told(void)
{
    struct kr_w_counted c;
    int deleted = make_file("deleted", 1);
    begin();
    put_process("2");
    put_descriptor("2/task/2/fd/3", deleted);
    put_link("3", "/nowhere"); /* has ended */
    CHECK(count(&c) == 0 && c.files == 1 && !c.blind);
    put_folder("4");
    CHECK(mknodat(proc, "4/task", S_IFREG | 0600, 0) == 0); /* ENOTDIR, for any failure but an end */
    CHECK(count(&c) == 0 && c.files == 1 && c.blind);
    CHECK(unlinkat(proc, "4/task", 0) == 0 && count(&c) == 0 && !c.blind);
    put_link("2/task/2/fd/4", "4"); /* ELOOP */
    CHECK(count(&c) == 0 && c.files == 1 && c.blind);
    close(deleted);
    end();
}

/* As many threads that share a table of descriptors. */
static void looks_are_bounded(void)
{
    enum { EACH = 500 };
    struct kr_w_counted c;
    char path[64];
    begin();
    put_process("2");
    for (int i = 3; i < EACH; i++) {
        snprintf(path, sizeof path, "2/task/2/fd/%d", i);
        put_descriptor(path, 2);
    }
    CHECK(count(&c) == 0 && !c.blind);
    for (int i = 3; i < EACH; i++) {
        snprintf(path, sizeof path, "2/task/%d", i);
        put_link(path, "2");
    }
    CHECK(count(&c) == 0 && c.blind && c.files == 0);
    end();
}

static void *hold_on(void *arg)
{
    while (pause() < 0) /* whatever wakes it */
        ;
    return arg;
}

/* One thread that outlives the first, or one with descriptors of its own. */
static _Noreturn void be_process(int own_table, int ready)
{
    pthread_t thread;
    int file = make_file("deleted", 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pthread_create(&thread, NULL, hold_on, NULL) != 0)
        _exit(1);
    if (own_table) {
        MUST(unshare(CLONE_FILES) == 0); /* the first thread's; the other keeps the file */
        close(file);
    }
    MUST(write(ready, "x", 1) == 1);
    if (own_table)
        hold_on(NULL);
    syscall(SYS_exit, 0);
    abort();
}

static void every_thread_is_looked_at(void)
{
    struct kr_w_counted c;
    for (int own_table = 0; own_table < 2; own_table++) {
        int ready[2];
        char byte;
        pid_t pid;
        CHECK(pipe2(ready, O_CLOEXEC) == 0);
        pid = fork();
        if (pid == 0)
            be_process(own_table, ready[1]);
        CHECK(read(ready[0], &byte, 1) == 1);
        begin();
        put_real_process("2", pid);
        CHECK(count(&c) == 0 && c.files == 1 && c.bytes >= SIZE && !c.blind);
        kill(pid, SIGKILL);
        CHECK(waitpid(pid, NULL, 0) == pid);
        CHECK(count(&c) == 0 && c.files == 0 && !c.blind); /* a control: gone with its process */
        end();
        close(ready[0]);
        close(ready[1]);
    }
}

int main(void)
{
    struct stat st;
    char named[64];
    MUST(mkdtemp(top) && stat(top, &st) == 0);
    dev = st.st_dev;
    RUN(only_deleted_files_of_the_filesystem_count);
    RUN(the_init_and_what_is_no_number_are_left_out);
    RUN(what_cannot_be_looked_at_is_told);
    RUN(looks_are_bounded);
    RUN(every_thread_is_looked_at);
    snprintf(named, sizeof named, "%s/named", top);
    MUST(unlink(named) == 0 && rmdir(top) == 0);
    CHECK_DONE();
}

/* mkfs in a child: no shell, no environment, one open file that it knows as /proc/self/fd/3. Called once in the life of
 * an image. */
#include "clock.h"
#include "fd.h"
#include "shelf_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MKFS_MS 60000
#define FILE_FD 3

/* One copy of the metadata: the image lies on a filesystem that has its own, and a second would double each fsync.
 * Nothing is discarded, since the file is empty. ext4 without reserved blocks: the shelf keeps its own reserve. */
static const char *const btrfs_argv[] = {"mkfs.btrfs",      "-q", "-K", "-m", "single", "-d", "single",
                                         "/proc/self/fd/3", NULL};
static const char *const ext4_argv[] = {
    "mkfs.ext4",       "-q", "-F", "-m", "0", "-O", "project,quota", "-E", "nodiscard,quotatype=prjquota",
    "/proc/self/fd/3", NULL};
static const char *const folders[] = {"/usr/sbin", "/sbin", "/usr/bin"};

static const char *const *argv_of(enum kr_shelf_kind kind)
{
    return kind == KR_SHELF_IS_BTRFS ? btrfs_argv : ext4_argv;
}

static int find_program(const char *name, char path[64])
{
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, 64, "%s/%s", folders[i], name);
        if (access(path, X_OK) == 0)
            return 0;
    }
    return -ENOENT;
}

int kr_shelf_has_mkfs(enum kr_shelf_kind kind)
{
    char path[64];
    return find_program(argv_of(kind)[0], path) == 0;
}

static _Noreturn void be_mkfs(const char *path, const char *const *argv, int file, int errors)
{
    static char *const none[] = {NULL};
    sigset_t empty;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigemptyset(&empty);
    sigprocmask(SIG_SETMASK, &empty, NULL);
    /* dup2 gives descriptors that survive exec; everything else of the warden is close-on-exec. The file comes last: it
     * may be any number but these three. */
    if (null < 0 || dup2(errors, STDERR_FILENO) < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        (file == FILE_FD ? fcntl(file, F_SETFD, 0) : dup2(file, FILE_FD)) < 0)
        _exit(126);
    execve(path, (char *const *)(uintptr_t)argv, none);
    _exit(127);
}

/* The exit status, or -ETIMEDOUT after it was killed. */
static int wait_for(pid_t pid)
{
    cleanup_fd int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    int status = 0, late = pidfd < 0 || kr_fd_wait(pidfd, POLLIN, kr_clock_after_ms(MKFS_MS)) <= 0;
    if (late)
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return late ? -ETIMEDOUT : status;
}

int kr_shelf_mkfs(enum kr_shelf_kind kind, int file, struct kr_err *err)
{
    const char *const *argv = argv_of(kind);
    char path[64], said[160] = "";
    cleanup_fd int errors_r = -1, errors_w = -1;
    int pair[2], status;
    ssize_t n;
    pid_t pid;
    if (find_program(argv[0], path) < 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, ENOENT, "%s is not installed (package %s)", argv[0],
                          kind == KR_SHELF_IS_BTRFS ? "btrfs-progs" : "e2fsprogs");
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "pipe");
    errors_r = pair[0];
    errors_w = pair[1];
    pid = fork();
    if (pid < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "fork %s", argv[0]);
    if (pid == 0)
        be_mkfs(path, argv, file, errors_w);
    status = wait_for(pid);
    if (status == 0)
        return 0;
    n = read(errors_r, said, sizeof said - 1);
    said[n > 0 ? strcspn(said, "\n") : 0] = '\0';
    return kr_err_set(err, KR_ERR_SYSTEM, status == -ETIMEDOUT ? ETIMEDOUT : 0, "%s failed (status 0x%x) %s", argv[0],
                      (unsigned)status, said);
}

/* The server's system calls: the set of rows that krait's own unprivileged process (the server, and the engine of
 * `krait run` and of doctor) may use, each with what it is for. Every other call of the table is refused to it, with
 * ENOSYS where sessions get that, else with EPERM. Compiled and printed by seccomp.c; `krait dump seccomp` prints it.
 *
 * Invariant: sorted by number; only constants. What is not here by intent: any way to another program or process
 * (execve, fork, kill, ptrace), to another socket than those accepted or handed over (socket, connect, bind), to
 * namespaces and mounts, to memory that can be executed, and io_uring, whose requests pass no filter. */
#define _GNU_SOURCE 1
#include "seccomp_rules.h"
#include <stdbool.h>
#include <sys/syscall.h>

#define LEN(a) (sizeof(a) / sizeof *(a))
#define SERVER(n, a, why)                                                                                              \
    {                                                                                                                  \
        SYS_##n, KR_SC_##a, why                                                                                        \
    }
#define NUMBER(nr, a, why)                                                                                             \
    {                                                                                                                  \
        nr, KR_SC_##a, why                                                                                             \
    }

#define STREAMS "connections, pipes of sessions, files"
#define MEMORY "the allocator and the stacks of threads; never memory that can be executed"
#define PATHS "the store, sandboxes' files, logs; Landlock decides which"
#define TIMES "deadlines"
#define THREADS "the thread pool"
#define SIGNALS "SIGTERM, SIGINT and SIGHUP reach the loop by a handler"
#define LOOP "the event loop"
#define SOCKETS "accepted connections, the warden's socket, channels of sessions"
#define SELF "who the process is: log lines, checks of owners, the store's locks"
#define CHANGES "the watcher of a sandbox's files"

/* clang-format off */
const struct kr_sc_server_row kr_sc_server_rows[] = {
    SERVER(read, ALLOW, STREAMS),
    SERVER(write, ALLOW, STREAMS),
    SERVER(open, OPEN, PATHS),
    SERVER(close, ALLOW, STREAMS),
    SERVER(stat, ALLOW, PATHS),
    SERVER(fstat, ALLOW, PATHS),
    SERVER(lstat, ALLOW, PATHS),
    SERVER(poll, ALLOW, LOOP),
    SERVER(lseek, ALLOW, STREAMS),
    SERVER(mmap, MMAP_DATA, MEMORY),
    SERVER(mprotect, MPROTECT_DATA, MEMORY),
    SERVER(munmap, ALLOW, MEMORY),
    SERVER(brk, ALLOW, MEMORY),
    SERVER(rt_sigaction, ALLOW, SIGNALS),
    SERVER(rt_sigprocmask, ALLOW, SIGNALS),
    SERVER(rt_sigreturn, ALLOW, SIGNALS),
    SERVER(ioctl, IOCTL, "how much waits in a pipe, close-on-exec and non-blocking flags, is it a terminal"),
    SERVER(pread64, ALLOW, STREAMS),
    SERVER(pwrite64, ALLOW, STREAMS),
    SERVER(readv, ALLOW, STREAMS),
    SERVER(writev, ALLOW, STREAMS),
    SERVER(access, ALLOW, PATHS),
    SERVER(sched_yield, ALLOW, THREADS),
    SERVER(mremap, ALLOW, MEMORY),
    SERVER(madvise, MADVISE, MEMORY),
    SERVER(dup, ALLOW, STREAMS),
    SERVER(nanosleep, ALLOW, TIMES),
    SERVER(getpid, ALLOW, SELF),
    SERVER(sendfile, ALLOW, "downloads"),
    SERVER(accept, ALLOW, SOCKETS),
    SERVER(sendto, SEND_CONNECTED, SOCKETS),
    SERVER(recvfrom, ALLOW, SOCKETS),
    SERVER(sendmsg, SENDMSG, SOCKETS),
    SERVER(recvmsg, ALLOW, SOCKETS),
    SERVER(shutdown, ALLOW, SOCKETS),
    SERVER(listen, ALLOW, "the listeners, which were bound before"),
    SERVER(getsockname, ALLOW, SOCKETS),
    SERVER(getpeername, ALLOW, SOCKETS),
    SERVER(setsockopt, SOCKOPT, SOCKETS),
    SERVER(getsockopt, ALLOW, SOCKETS),
    SERVER(clone, THREAD, THREADS),
    SERVER(exit, ALLOW, THREADS),
    SERVER(uname, ALLOW, SELF),
    SERVER(fcntl, FCNTL, "flags, and the store's locks"),
    SERVER(flock, ALLOW, "one server a data directory"),
    SERVER(fsync, ALLOW, "the store, files that are kept"),
    SERVER(fdatasync, ALLOW, "the store, files that are kept"),
    SERVER(truncate, ALLOW, PATHS),
    SERVER(ftruncate, ALLOW, PATHS),
    SERVER(getcwd, ALLOW, PATHS),
    SERVER(rename, ALLOW, PATHS),
    SERVER(mkdir, MODE1, PATHS),
    SERVER(rmdir, ALLOW, PATHS),
    SERVER(link, ALLOW, PATHS),
    SERVER(unlink, ALLOW, PATHS),
    SERVER(symlink, ALLOW, PATHS),
    SERVER(readlink, ALLOW, PATHS),
    SERVER(chmod, MODE1, PATHS),
    SERVER(fchmod, MODE1, PATHS),
    SERVER(umask, ALLOW, PATHS),
    SERVER(gettimeofday, ALLOW, TIMES),
    SERVER(getrlimit, ALLOW, SELF),
    SERVER(getrusage, ALLOW, "the server's own use, for its metrics"),
    SERVER(sysinfo, ALLOW, "the machine's memory, for /health and admission"),
    SERVER(times, ALLOW, SELF),
    SERVER(getuid, ALLOW, SELF),
    SERVER(getgid, ALLOW, SELF),
    SERVER(geteuid, ALLOW, SELF),
    SERVER(getegid, ALLOW, SELF),
    SERVER(getppid, ALLOW, SELF),
    SERVER(sigaltstack, ALLOW, SIGNALS),
    SERVER(utime, ALLOW, PATHS),
    SERVER(statfs, ALLOW, "free space of the data directory"),
    SERVER(fstatfs, ALLOW, "free space of the data directory"),
    SERVER(gettid, ALLOW, THREADS),
    SERVER(time, ALLOW, TIMES),
    SERVER(futex, ALLOW, THREADS),
    SERVER(sched_getaffinity, ALLOW, "how many processors there are"),
    SERVER(epoll_create, ALLOW, LOOP),
    SERVER(getdents64, ALLOW, PATHS),
    SERVER(set_tid_address, ALLOW, THREADS),
    SERVER(restart_syscall, ALLOW, TIMES),
    SERVER(fadvise64, ALLOW, "downloads"),
    SERVER(clock_gettime, ALLOW, TIMES),
    SERVER(clock_getres, ALLOW, TIMES),
    SERVER(clock_nanosleep, ALLOW, TIMES),
    SERVER(exit_group, ALLOW, "the end"),
    SERVER(epoll_wait, ALLOW, LOOP),
    SERVER(epoll_ctl, ALLOW, LOOP),
    SERVER(tgkill, ABORT, "a failed assertion ends the process"),
    SERVER(inotify_add_watch, ALLOW, CHANGES),
    SERVER(inotify_rm_watch, ALLOW, CHANGES),
    SERVER(openat, OPENAT, PATHS),
    SERVER(mkdirat, MODE2, PATHS),
    SERVER(newfstatat, ALLOW, PATHS),
    SERVER(unlinkat, ALLOW, PATHS),
    SERVER(renameat, ALLOW, PATHS),
    SERVER(linkat, ALLOW, PATHS),
    SERVER(symlinkat, ALLOW, PATHS),
    SERVER(readlinkat, ALLOW, PATHS),
    SERVER(fchmodat, MODE2, PATHS),
    SERVER(faccessat, ALLOW, PATHS),
    SERVER(ppoll, ALLOW, LOOP),
    SERVER(set_robust_list, ALLOW, THREADS),
    SERVER(splice, ALLOW, "uploads and downloads"),
    SERVER(utimensat, ALLOW, PATHS),
    SERVER(epoll_pwait, ALLOW, LOOP),
    SERVER(fallocate, ALLOW, "room for an upload"),
    SERVER(accept4, ALLOW, SOCKETS),
    SERVER(eventfd2, ALLOW, LOOP),
    SERVER(epoll_create1, ALLOW, LOOP),
    SERVER(dup3, ALLOW, STREAMS),
    SERVER(pipe2, ALLOW, LOOP),
    SERVER(inotify_init1, ALLOW, CHANGES),
    SERVER(preadv, ALLOW, STREAMS),
    SERVER(pwritev, ALLOW, STREAMS),
    SERVER(prlimit64, PRLIMIT_ASK, SELF),
    SERVER(syncfs, ALLOW, "a sandbox's files, before they are said to be kept"),
    SERVER(getcpu, ALLOW, SELF),
    SERVER(renameat2, RENAME2, PATHS),
    SERVER(getrandom, ALLOW, "ids, keys, nonces"),
    SERVER(membarrier, ALLOW, THREADS),
    SERVER(copy_file_range, ALLOW, "copies of files"),
    SERVER(statx, ALLOW, PATHS),
    SERVER(rseq, ALLOW, THREADS),
    SERVER(close_range, ALLOW, STREAMS),
    SERVER(openat2, ALLOW, "each path that comes from a client: beneath its sandbox, without links"),
    SERVER(faccessat2, ALLOW, PATHS),
    SERVER(epoll_pwait2, ALLOW, LOOP),
    NUMBER(452, MODE2, "fchmodat2: a folder that its session closed to its owner is opened again"),
};
/* clang-format on */
const size_t kr_sc_server_rows_count = LEN(kr_sc_server_rows);

unsigned kr_sc_act(const struct kr_sc_row *row, enum kr_seccomp_profile profile)
{
    bool server = profile == KR_SECCOMP_SERVER;
    const struct kr_sc_server_row *rows = server ? kr_sc_server_rows : kr_sc_egress_rows;
    size_t count = server ? kr_sc_server_rows_count : kr_sc_egress_rows_count;

    if (profile < KR_SECCOMP_SESSIONS_)
        return row->act[profile];
    for (size_t i = 0; i < count; i++)
        if (rows[i].nr == row->nr)
            return rows[i].act;
    return row->act[KR_SECCOMP_CELL_NONE] == KR_SC_ENOSYS ? KR_SC_ENOSYS : KR_SC_EPERM;
}

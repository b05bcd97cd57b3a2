/* The egress process's system calls: the set of rows that the one process that connects to the outside may use, each
 * with what it is for. Every other call of the table is refused to it, as to the server (server_rules.c). Compiled and
 * printed by seccomp.c; `krait dump seccomp` prints it.
 *
 * Invariant: sorted by number; only constants. What is not here by intent: any way to another program or process
 * (execve, fork, kill, ptrace), to a socket of another kind than TCP and UDP, to a port of its own (bind, listen), to a
 * new name in a folder (mkdir, rename, unlink, link), to namespaces and mounts, to memory that can be executed, and
 * io_uring, whose requests pass no filter. */
#define _GNU_SOURCE 1
#include "seccomp_rules.h"
#include <sys/syscall.h>

#define EGRESS(n, a, why)                                                                                              \
    {                                                                                                                  \
        SYS_##n, KR_SC_##a, why                                                                                        \
    }

#define STREAMS "connections, the engine's socket, files that are fetched"
#define MEMORY "the allocator and the stacks of threads; never memory that can be executed"
#define PATHS "the resolver's files, a folder of wheels; Landlock decides which"
#define FETCHES "files that are fetched, which the engine has opened"
#define TIMES "deadlines"
#define THREADS "the thread pool, on which names are resolved"
#define SIGNALS "handlers of the C library and its threads"
#define LOOP "the event loop"
#define SOCKETS "connections of cells and to the outside, the engine's socket"
#define SELF "who the process is: log lines, the C library"

/* clang-format off */
const struct kr_sc_server_row kr_sc_egress_rows[] = {
    EGRESS(read, ALLOW, STREAMS),
    EGRESS(write, ALLOW, STREAMS),
    EGRESS(open, OPEN, PATHS),
    EGRESS(close, ALLOW, STREAMS),
    EGRESS(stat, ALLOW, PATHS),
    EGRESS(fstat, ALLOW, PATHS),
    EGRESS(lstat, ALLOW, PATHS),
    EGRESS(poll, ALLOW, "the resolver, which waits for answers"),
    EGRESS(lseek, ALLOW, STREAMS),
    EGRESS(mmap, MMAP_DATA, MEMORY),
    EGRESS(mprotect, MPROTECT_DATA, MEMORY),
    EGRESS(munmap, ALLOW, MEMORY),
    EGRESS(brk, ALLOW, MEMORY),
    EGRESS(rt_sigaction, ALLOW, SIGNALS),
    EGRESS(rt_sigprocmask, ALLOW, SIGNALS),
    EGRESS(rt_sigreturn, ALLOW, SIGNALS),
    EGRESS(ioctl, IOCTL, "how much waits in a socket, non-blocking flags"),
    EGRESS(pread64, ALLOW, STREAMS),
    EGRESS(pwrite64, ALLOW, STREAMS),
    EGRESS(readv, ALLOW, STREAMS),
    EGRESS(writev, ALLOW, STREAMS),
    EGRESS(access, ALLOW, PATHS),
    EGRESS(sched_yield, ALLOW, THREADS),
    EGRESS(mremap, ALLOW, MEMORY),
    EGRESS(madvise, MADVISE, MEMORY),
    EGRESS(nanosleep, ALLOW, TIMES),
    EGRESS(getpid, ALLOW, SELF),
    EGRESS(socket, SOCKET_OUT, "connections to the outside, the resolver's questions"),
    EGRESS(connect, ALLOW, "to addresses that passed the table of addresses, and to resolvers"),
    EGRESS(sendto, SEND_CONNECTED, SOCKETS),
    EGRESS(recvfrom, ALLOW, SOCKETS),
    EGRESS(sendmsg, SENDMSG, SOCKETS),
    EGRESS(recvmsg, ALLOW, SOCKETS),
    EGRESS(shutdown, ALLOW, SOCKETS),
    EGRESS(getsockname, ALLOW, SOCKETS),
    EGRESS(getpeername, ALLOW, SOCKETS),
    EGRESS(setsockopt, SOCKOPT, SOCKETS),
    EGRESS(getsockopt, ALLOW, SOCKETS),
    EGRESS(clone, THREAD, THREADS),
    EGRESS(exit, ALLOW, THREADS),
    EGRESS(uname, ALLOW, SELF),
    EGRESS(fcntl, FCNTL, "non-blocking flags, the size of a pipe"),
    EGRESS(fsync, ALLOW, FETCHES),
    EGRESS(fdatasync, ALLOW, FETCHES),
    EGRESS(ftruncate, ALLOW, FETCHES),
    EGRESS(getcwd, ALLOW, PATHS),
    EGRESS(readlink, ALLOW, PATHS),
    EGRESS(gettimeofday, ALLOW, TIMES),
    EGRESS(getrlimit, ALLOW, SELF),
    EGRESS(getrusage, ALLOW, SELF),
    EGRESS(sysinfo, ALLOW, MEMORY),
    EGRESS(getuid, ALLOW, SELF),
    EGRESS(getgid, ALLOW, SELF),
    EGRESS(geteuid, ALLOW, SELF),
    EGRESS(getegid, ALLOW, SELF),
    EGRESS(getppid, ALLOW, SELF),
    EGRESS(sigaltstack, ALLOW, SIGNALS),
    EGRESS(gettid, ALLOW, THREADS),
    EGRESS(time, ALLOW, TIMES),
    EGRESS(futex, ALLOW, THREADS),
    EGRESS(sched_getaffinity, ALLOW, THREADS),
    EGRESS(getdents64, ALLOW, PATHS),
    EGRESS(restart_syscall, ALLOW, TIMES),
    EGRESS(clock_gettime, ALLOW, TIMES),
    EGRESS(clock_getres, ALLOW, TIMES),
    EGRESS(clock_nanosleep, ALLOW, TIMES),
    EGRESS(exit_group, ALLOW, "the end"),
    EGRESS(epoll_wait, ALLOW, LOOP),
    EGRESS(epoll_ctl, ALLOW, LOOP),
    EGRESS(tgkill, ABORT, "a failed assertion ends the process"),
    EGRESS(openat, OPENAT, PATHS),
    EGRESS(newfstatat, ALLOW, PATHS),
    EGRESS(readlinkat, ALLOW, PATHS),
    EGRESS(faccessat, ALLOW, PATHS),
    EGRESS(ppoll, ALLOW, "the resolver, which waits for answers"),
    EGRESS(set_robust_list, ALLOW, THREADS),
    EGRESS(splice, ALLOW, "bytes of tunnels, from socket to socket by a pipe"),
    EGRESS(epoll_pwait, ALLOW, LOOP),
    EGRESS(accept4, ALLOW, "connections of cells"),
    EGRESS(eventfd2, ALLOW, LOOP),
    EGRESS(pipe2, ALLOW, "bytes of tunnels, from socket to socket by a pipe"),
    EGRESS(prlimit64, PRLIMIT_ASK, SELF),
    EGRESS(sendmmsg, SENDTO, "the resolver, which asks for both families at once"),
    EGRESS(getcpu, ALLOW, SELF),
    EGRESS(getrandom, ALLOW, "ids of questions, keys of TLS"),
    EGRESS(membarrier, ALLOW, THREADS),
    EGRESS(statx, ALLOW, PATHS),
    EGRESS(rseq, ALLOW, THREADS),
    EGRESS(faccessat2, ALLOW, PATHS),
    EGRESS(epoll_pwait2, ALLOW, LOOP),
};
/* clang-format on */
const size_t kr_sc_egress_rows_count = sizeof kr_sc_egress_rows / sizeof *kr_sc_egress_rows;

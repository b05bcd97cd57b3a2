/* Calls that the kernel is asked in earnest, with and without the filter: included by test-seccomp.c and test-server-
 * filter.c alone. Each says what it gives without one, so that a refusal is known to be the filter's. */
#pragma once
#include "seccomp.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { ANY_ERROR = -1 }; /* unfiltered: whatever it is, it is not the filter's answer */
#define SAME(e)                                                                                                        \
    {                                                                                                                  \
        {e, e, e}, 0                                                                                                   \
    }
#define CELLS(e, contained)                                                                                            \
    {                                                                                                                  \
        {e, e, contained}, 0                                                                                           \
    }
#define EACH(none, loopback, contained)                                                                                \
    {                                                                                                                  \
        {none, loopback, contained}, 0                                                                                 \
    }
#define ROOT_SAME(e)                                                                                                   \
    {                                                                                                                  \
        {e, e, e}, 1                                                                                                   \
    }
#define NOPID 0x7ffffff0L
#define HIGH 0x100000000L
#define MISSING ((long)"/nonexistent/x")

/* A call, what it gives without a filter (0: it works), and with one in each profile. ROOT_: without CAP_SYS_ADMIN
 * the kernel itself says EPERM, so only root can show whose answer it was. */
static const struct probe {
    const char *name;
    long nr, a[6];
    int plain;
    struct {
        int filtered[KR_SECCOMP_SESSIONS_], root;
    } want;
} probes[] = {
    /* clang-format off */
    {"getpid", SYS_getpid, {0}, 0, SAME(0)},
    {"kill a missing process", SYS_kill, {NOPID, 0}, ESRCH, SAME(ESRCH)},
    {"rt_sigqueueinfo", SYS_rt_sigqueueinfo, {NOPID, 0, 0}, EFAULT, CELLS(EFAULT, EPERM)},
    {"pidfd_open", SYS_pidfd_open, {NOPID, 0}, ESRCH, CELLS(ESRCH, EPERM)},
    {"setpgid", SYS_setpgid, {NOPID, 0}, ESRCH, CELLS(ESRCH, EPERM)},
    {"setsid", SYS_setsid, {0}, 0, CELLS(0, EPERM)},
    {"prlimit64 of oneself", SYS_prlimit64, {0, 7, 0, 0}, 0, SAME(0)},
    {"prlimit64 of oneself, upper half set", SYS_prlimit64, {HIGH, 7, 0, 0}, 0, SAME(0)},
    {"prlimit64 of another", SYS_prlimit64, {NOPID, 7, 0, 0}, ESRCH, SAME(EPERM)},
    {"prlimit64 reads RLIMIT_CORE", SYS_prlimit64, {0, RLIMIT_CORE, 0, 0}, 0, SAME(0)},
    {"prlimit64 sets RLIMIT_CORE", SYS_prlimit64, {0, RLIMIT_CORE, 1, 0}, EFAULT, SAME(EPERM)},
    {"prlimit64 sets RLIMIT_CORE, upper halves set", SYS_prlimit64, {HIGH, HIGH | RLIMIT_CORE, HIGH, 0}, EFAULT,
        SAME(EPERM)},
    {"prlimit64 sets RLIMIT_NOFILE", SYS_prlimit64, {0, RLIMIT_NOFILE, 1, 0}, EFAULT, SAME(EFAULT)},
    {"setrlimit RLIMIT_CORE", SYS_setrlimit, {RLIMIT_CORE, 1}, EFAULT, SAME(EPERM)},
    {"setrlimit RLIMIT_CORE, upper half set", SYS_setrlimit, {HIGH | RLIMIT_CORE, 1}, EFAULT, SAME(EPERM)},
    {"setrlimit RLIMIT_NOFILE", SYS_setrlimit, {RLIMIT_NOFILE, 1}, EFAULT, SAME(EFAULT)},
    {"setpriority of oneself", SYS_setpriority, {0, 0, 0}, 0, SAME(0)},
    {"setpriority of another", SYS_setpriority, {0, NOPID, 0}, ESRCH, CELLS(ESRCH, EPERM)},
    {"setpriority of a user", SYS_setpriority, {2, NOPID, 0}, ESRCH, CELLS(ESRCH, EPERM)},
    {"ioprio_set of another", SYS_ioprio_set, {1, NOPID, 2 << 13 | 4}, ESRCH, CELLS(ESRCH, EPERM)},
    {"sched_setaffinity of another", SYS_sched_setaffinity, {NOPID, 8, 0}, ANY_ERROR, CELLS(ANY_ERROR, EPERM)},
    {"sched_setscheduler of another", SYS_sched_setscheduler, {NOPID, 0, 0}, EINVAL, CELLS(EINVAL, EPERM)},
    {"clone with a namespace", SYS_clone, {CLONE_NEWNS | CLONE_FS}, EINVAL, SAME(EPERM)},
    {"clone with a user namespace", SYS_clone, {CLONE_NEWUSER | CLONE_FS}, EINVAL, SAME(EPERM)},
    {"clone as a sibling", SYS_clone, {CLONE_PARENT | CLONE_THREAD}, EINVAL, SAME(EPERM)},
    {"clone, wrong but harmless", SYS_clone, {CLONE_THREAD}, EINVAL, SAME(EINVAL)},
    {"clone3", SYS_clone3, {0, 0}, EINVAL, SAME(ENOSYS)},
    {"unshare", SYS_unshare, {1}, EINVAL, SAME(EPERM)},
    {"setns", SYS_setns, {-1, 0}, EBADF, SAME(EPERM)},
    {"mount", SYS_mount, {0, 0, 0, 0, 0}, EFAULT, SAME(EPERM)},
    {"umount2", SYS_umount2, {MISSING, ~0L}, EINVAL, SAME(EPERM)},
    {"open_tree", SYS_open_tree, {-1, MISSING, 0x7fffffff}, EINVAL, SAME(EPERM)},
    {"fsopen", SYS_fsopen, {0, 0x7fffffff}, EINVAL, ROOT_SAME(EPERM)},
    {"move_mount", SYS_move_mount, {-1, MISSING, -1, MISSING, 0x7fffffff}, EINVAL, ROOT_SAME(EPERM)},
    {"mount_setattr", SYS_mount_setattr, {-1, MISSING, 0x7fffffff, 0, 0}, EINVAL, SAME(EPERM)},
    {"pivot_root", SYS_pivot_root, {0, 0}, EFAULT, ROOT_SAME(EPERM)},
    {"chroot", SYS_chroot, {0}, EFAULT, SAME(EPERM)},
    {"name_to_handle_at", SYS_name_to_handle_at, {-1, MISSING, 0, 0, 0x7fff0000}, EINVAL, SAME(EPERM)},
    {"open_by_handle_at", SYS_open_by_handle_at, {-1, 0, 0}, ANY_ERROR, ROOT_SAME(EPERM)},
    {"ptrace", SYS_ptrace, {16, NOPID, 0, 0}, ESRCH, SAME(EPERM)},
    {"process_vm_readv", SYS_process_vm_readv, {NOPID, 0, 0, 0, 0, 1}, EINVAL, SAME(EPERM)},
    {"process_vm_writev", SYS_process_vm_writev, {NOPID, 0, 0, 0, 0, 1}, EINVAL, SAME(EPERM)},
    {"pidfd_getfd", SYS_pidfd_getfd, {-1, 0, 0}, EBADF, SAME(EPERM)},
    {"kcmp", SYS_kcmp, {NOPID, NOPID, 0, 0, 0}, ESRCH, SAME(EPERM)},
    {"io_uring_setup", SYS_io_uring_setup, {8, 0}, EFAULT, SAME(EPERM)},
    {"userfaultfd", SYS_userfaultfd, {0x7fff0000}, EINVAL, ROOT_SAME(EPERM)},
    {"bpf", SYS_bpf, {0x7fff, 0, 0}, ANY_ERROR, ROOT_SAME(EPERM)},
    {"perf_event_open", SYS_perf_event_open, {0, 0, -1, -1, 0x7fff}, EINVAL, SAME(EPERM)},
    {"vmsplice", SYS_vmsplice, {-1, 0, 0, 0}, EBADF, SAME(EPERM)},
    {"splice", SYS_splice, {-1, 0, -1, 0, 1, 0}, EBADF, SAME(EBADF)},
    {"io_setup", SYS_io_setup, {0, 0}, EFAULT, SAME(EPERM)},
    {"mq_open", SYS_mq_open, {0, 0, 0, 0}, EFAULT, SAME(EPERM)},
    {"add_key", SYS_add_key, {0, 0, 0, 0, 0}, EFAULT, SAME(EPERM)},
    {"keyctl", SYS_keyctl, {0x7fff}, EOPNOTSUPP, SAME(EPERM)},
    {"init_module", SYS_init_module, {0, 0, 0}, ANY_ERROR, ROOT_SAME(EPERM)},
    {"finit_module", SYS_finit_module, {-1, 0, 0}, ANY_ERROR, ROOT_SAME(EPERM)},
    {"kexec_load", SYS_kexec_load, {0, 99, 0, 0}, ANY_ERROR, ROOT_SAME(EPERM)},
    {"reboot", SYS_reboot, {0, 0, 0, 0}, EINVAL, ROOT_SAME(EPERM)},
    {"swapon", SYS_swapon, {0, 0}, EFAULT, ROOT_SAME(EPERM)},
    {"acct", SYS_acct, {1}, EFAULT, ROOT_SAME(EPERM)},
    {"syslog", SYS_syslog, {99, 0, 0}, EINVAL, ROOT_SAME(EPERM)},
    {"sethostname", SYS_sethostname, {0, -1}, EINVAL, ROOT_SAME(EPERM)},
    {"iopl", SYS_iopl, {4}, EINVAL, SAME(EPERM)},
    {"ioperm", SYS_ioperm, {-1, 2, 0}, EINVAL, SAME(EPERM)},
    {"modify_ldt", SYS_modify_ldt, {0, 0, 0}, 0, SAME(EPERM)},
    {"clock_settime", SYS_clock_settime, {0x7fff, 0}, EINVAL, SAME(EPERM)},
    {"settimeofday", SYS_settimeofday, {1, 0}, EFAULT, SAME(EPERM)},
    {"syncfs", SYS_syncfs, {-1}, EBADF, SAME(EPERM)},
    {"fanotify_init", SYS_fanotify_init, {0x7fffffff, 0}, EINVAL, ROOT_SAME(EPERM)},
    {"inotify_init1", SYS_inotify_init1, {0x7fff}, EINVAL, SAME(EPERM)},
    {"inotify_add_watch", SYS_inotify_add_watch, {-1, 0, 1}, EBADF, SAME(EPERM)},
    {"setuid", SYS_setuid, {0}, 0, ROOT_SAME(EPERM)},
    {"setuid, no id", SYS_setuid, {-1}, EINVAL, SAME(EINVAL)},
    {"setreuid", SYS_setreuid, {-1, 0}, 0, ROOT_SAME(EPERM)},
    {"setresgid", SYS_setresgid, {-1, -1, 0}, 0, ROOT_SAME(EPERM)},
    {"setresgid, as it is", SYS_setresgid, {-1, -1, -1}, 0, SAME(0)},
    {"capset", SYS_capset, {0, 0}, EFAULT, SAME(EPERM)},
    {"seccomp", SYS_seccomp, {2, 0, 0}, EFAULT, SAME(EPERM)},
    {"seccomp, a listener", SYS_seccomp, {1, 8, 0}, EFAULT, SAME(EPERM)},
    {"prctl PR_SET_SECCOMP", SYS_prctl, {PR_SET_SECCOMP, 99}, EINVAL, SAME(EPERM)},
    {"prctl PR_SET_DUMPABLE", SYS_prctl, {PR_SET_DUMPABLE, 99}, EINVAL, SAME(EPERM)},
    {"prctl PR_SET_DUMPABLE, upper half set", SYS_prctl, {HIGH | PR_SET_DUMPABLE, 99}, EINVAL, SAME(EPERM)},
    {"prctl PR_SET_MM", SYS_prctl, {PR_SET_MM, 99, 0, 0, 1}, EINVAL, SAME(EPERM)},
    {"prctl PR_SET_NAME", SYS_prctl, {PR_SET_NAME, (long)"probe"}, 0, SAME(0)},
    {"prctl PR_SET_PDEATHSIG", SYS_prctl, {PR_SET_PDEATHSIG, SIGTERM}, 0, CELLS(0, EPERM)},
    {"personality, asked", SYS_personality, {0xffffffff}, 0, SAME(0)},
    {"personality READ_IMPLIES_EXEC", SYS_personality, {0x0400000}, 0, SAME(EPERM)},
    {"socket AF_INET", SYS_socket, {AF_INET, SOCK_STREAM, 0}, 0, EACH(EPERM, 0, EPERM)},
    {"socket AF_INET6", SYS_socket, {AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 17}, ANY_ERROR,
        EACH(EPERM, ANY_ERROR, EPERM)},
    {"socket AF_INET, upper half set", SYS_socket, {HIGH | AF_INET, SOCK_STREAM, 0}, 0, EACH(EPERM, 0, EPERM)},
    {"socket AF_UNIX", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, 0, CELLS(0, EPERM)},
    {"socket AF_NETLINK", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, 0, SAME(EPERM)},
    {"socket raw", SYS_socket, {AF_INET, SOCK_RAW, 1}, 0, ROOT_SAME(EPERM)},
    {"socket AF_PACKET", SYS_socket, {AF_PACKET, SOCK_RAW, 0}, ANY_ERROR, ROOT_SAME(EPERM)},
    {"socket AF_VSOCK", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}, ANY_ERROR, SAME(EPERM)},
    {"socket MPTCP", SYS_socket, {AF_INET, SOCK_STREAM, 262}, ANY_ERROR, SAME(EPERM)},
    {"connect", SYS_connect, {-1, 0, 0}, EBADF, CELLS(EBADF, EPERM)},
    {"setsockopt SO_ATTACH_FILTER", SYS_setsockopt, {-1, SOL_SOCKET, SO_ATTACH_FILTER, 0, 0}, EBADF, SAME(EPERM)},
    {"setsockopt SO_LINGER", SYS_setsockopt, {-1, SOL_SOCKET, SO_LINGER, 0, 0}, EBADF, SAME(EPERM)},
    {"setsockopt SO_REUSEADDR", SYS_setsockopt, {-1, SOL_SOCKET, SO_REUSEADDR, 0, 0}, EBADF, SAME(EBADF)},
    {"setsockopt SO_PASSPIDFD", SYS_setsockopt, {-1, SOL_SOCKET, 76, 0, 0}, EBADF, SAME(ENOPROTOOPT)},
    {"setsockopt SO_PASSRIGHTS", SYS_setsockopt, {-1, SOL_SOCKET, 83, 0, 0}, EBADF, SAME(ENOPROTOOPT)},
    {"setsockopt TCP_MD5SIG", SYS_setsockopt, {-1, IPPROTO_TCP, 14, 0, 0}, EBADF, SAME(EPERM)},
    {"setsockopt TCP_AO_ADD_KEY", SYS_setsockopt, {-1, IPPROTO_TCP, HIGH | 38, 0, 0}, EBADF, SAME(EPERM)},
    {"setsockopt TCP_NODELAY", SYS_setsockopt, {-1, IPPROTO_TCP, 1, 0, 0}, EBADF, SAME(EBADF)},
    {"getsockopt SO_PEERPIDFD", SYS_getsockopt, {-1, SOL_SOCKET, 77, 0, 0}, EBADF, SAME(ENOPROTOOPT)},
    {"getsockopt SO_PEERCRED", SYS_getsockopt, {-1, SOL_SOCKET, SO_PEERCRED, 0, 0}, EBADF, SAME(EBADF)},
    {"preadv2", SYS_preadv2, {-1, 0, 0, 0, 0, 0}, EBADF, SAME(EBADF)},
    {"preadv2 RWF_NOWAIT", SYS_preadv2, {-1, 0, 0, 0, 0, HIGH | 8}, EBADF, SAME(EOPNOTSUPP)},
    {"fadvise64 WILLNEED", SYS_fadvise64, {-1, 0, 0, 3}, EBADF, SAME(EBADF)},
    {"fadvise64 DONTNEED", SYS_fadvise64, {-1, 0, 0, 4}, EBADF, SAME(EPERM)},
    {"membarrier, asked", SYS_membarrier, {0, 0, 0}, 0, SAME(0)},
    {"membarrier global", SYS_membarrier, {1, 0, 0}, 0, SAME(EPERM)},
    {"membarrier own", SYS_membarrier, {16, 0, 0}, 0, SAME(0)},
    {"arch_prctl ARCH_GET_FS", SYS_arch_prctl, {0x1003, 0}, EFAULT, SAME(EFAULT)},
    {"arch_prctl ARCH_MAP_VDSO_64", SYS_arch_prctl, {0x2003, 0}, ANY_ERROR, SAME(EPERM)},
    {"arch_prctl not listed", SYS_arch_prctl, {0x1025, 0x7f}, EINVAL, SAME(EINVAL)},
    {"sendto", SYS_sendto, {-1, 0, 0, 0, 0, 0}, EBADF, SAME(EBADF)},
    {"sendto MSG_OOB", SYS_sendto, {-1, 0, 0, MSG_OOB, 0, 0}, EBADF, SAME(EPERM)},
    {"sendmsg MSG_OOB", SYS_sendmsg, {-1, 0, HIGH | MSG_OOB}, EBADF, SAME(EPERM)},
    {"sendmmsg MSG_OOB", SYS_sendmmsg, {-1, 0, 0, MSG_OOB}, EBADF, SAME(EPERM)},
    {"sendto an address", SYS_sendto, {-1, 0, 0, 0, 1, 0}, EBADF, SAME(EBADF)},
    {"sendto MSG_FASTOPEN", SYS_sendto, {-1, 0, 0, MSG_FASTOPEN, 0, 0}, EBADF, SAME(EOPNOTSUPP)},
    {"sendmsg MSG_FASTOPEN", SYS_sendmsg, {-1, 0, HIGH | MSG_FASTOPEN}, EBADF, SAME(EOPNOTSUPP)},
    {"sendmmsg MSG_FASTOPEN", SYS_sendmmsg, {-1, 0, 0, MSG_FASTOPEN}, EBADF, SAME(EOPNOTSUPP)},
    {"shmget", SYS_shmget, {0, 0, 0}, EINVAL, CELLS(EINVAL, EPERM)},
    {"shmget SHM_HUGETLB", SYS_shmget, {0, 0, SHM_HUGETLB | IPC_CREAT}, EINVAL, SAME(EPERM)},
    {"renameat2", SYS_renameat2, {AT_FDCWD, MISSING, AT_FDCWD, MISSING, 1}, ENOENT, SAME(ENOENT)},
    {"renameat2 RENAME_WHITEOUT", SYS_renameat2, {AT_FDCWD, MISSING, AT_FDCWD, MISSING, 4}, ENOENT, SAME(EPERM)},
    {"chmod", SYS_chmod, {MISSING, 0755}, ENOENT, {{ENOENT, ENOENT, EPERM}, 0}},
    {"utimensat", SYS_utimensat, {AT_FDCWD, MISSING, 0, 0}, ENOENT, {{ENOENT, ENOENT, EPERM}, 0}},
    {"chmod set-user-id", SYS_chmod, {MISSING, 04755}, ENOENT, SAME(EPERM)},
    {"fchmod set-group-id", SYS_fchmod, {-1, 02755}, EBADF, SAME(EPERM)},
    {"fchmodat set-user-id", SYS_fchmodat, {AT_FDCWD, MISSING, 04755}, ENOENT, SAME(EPERM)},
    {"mkdir set-group-id", SYS_mkdir, {MISSING, 02755}, ENOENT, SAME(EPERM)},
    {"mkdirat", SYS_mkdirat, {AT_FDCWD, MISSING, 0755}, ENOENT, SAME(ENOENT)},
    {"creat set-user-id", SYS_creat, {MISSING, 04755}, ENOENT, SAME(EPERM)},
    {"open, mode without meaning", SYS_open, {MISSING, O_RDONLY | O_DIRECTORY, 06755}, ENOENT, SAME(ENOENT)},
    {"open O_CREAT set-user-id", SYS_open, {MISSING, O_CREAT | O_WRONLY, 04755}, ENOENT, SAME(EPERM)},
    {"openat O_TMPFILE set-group-id", SYS_openat, {AT_FDCWD, MISSING, O_TMPFILE | O_RDWR, 02755}, ENOENT, SAME(EPERM)},
    {"openat O_CREAT", SYS_openat, {AT_FDCWD, MISSING, O_CREAT | O_WRONLY, 0755}, ENOENT, SAME(ENOENT)},
    {"openat2", SYS_openat2, {AT_FDCWD, MISSING, 0, 0}, EINVAL, SAME(ENOSYS)},
    {"mknod device", SYS_mknod, {MISSING, S_IFCHR | 0666, 0x101}, ENOENT, SAME(EPERM)},
    {"mknodat device", SYS_mknodat, {AT_FDCWD, MISSING, S_IFBLK | 0666, 0x101}, ENOENT, SAME(EPERM)},
    {"mknod pipe", SYS_mknod, {MISSING, S_IFIFO | 0666, 0}, ENOENT, SAME(ENOENT)},
    {"setxattr", SYS_setxattr, {MISSING, (long)"user.x", 0, 0, 0}, ENOENT, SAME(EOPNOTSUPP)},
    {"chown", SYS_chown, {MISSING, -1, -1}, ENOENT, CELLS(ENOENT, EPERM)},
    {"ioctl TCGETS", SYS_ioctl, {-1, TCGETS, 0}, EBADF, SAME(EBADF)},
    {"ioctl TIOCSTI", SYS_ioctl, {-1, TIOCSTI, 0}, EBADF, SAME(EPERM)},
    {"ioctl TIOCSTI, upper half set", SYS_ioctl, {-1, HIGH | TIOCSTI, 0}, EBADF, SAME(EPERM)},
    {"ioctl TIOCLINUX", SYS_ioctl, {-1, TIOCLINUX, 0}, EBADF, SAME(EPERM)},
    {"ioctl FIOSETOWN", SYS_ioctl, {-1, FIOSETOWN, 0}, EBADF, SAME(EPERM)},
    {"ioctl not listed", SYS_ioctl, {-1, 0x5460, 0}, EBADF, SAME(ENOTTY)},
    {"ioctl SIOCGIFINDEX", SYS_ioctl, {-1, 0x8933, 0}, EBADF, EACH(ENOTTY, EBADF, ENOTTY)},
    {"fcntl F_GETFD", SYS_fcntl, {-1, F_GETFD, 0}, EBADF, SAME(EBADF)},
    {"fcntl F_SETOWN", SYS_fcntl, {-1, F_SETOWN, 0}, EBADF, SAME(EPERM)},
    {"fcntl F_NOTIFY", SYS_fcntl, {-1, F_NOTIFY, 0}, EBADF, SAME(EPERM)},
    {"fcntl not listed", SYS_fcntl, {-1, 5000, 0}, EBADF, SAME(EINVAL)},
    {"mmap", SYS_mmap, {0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}, EINVAL, SAME(EINVAL)},
    {"mmap MAP_HUGETLB", SYS_mmap, {0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0}, EINVAL,
        SAME(EPERM)},
    {"madvise MADV_MERGEABLE", SYS_madvise, {1, 4096, MADV_MERGEABLE}, EINVAL, SAME(EPERM)},
    {"memfd_create", SYS_memfd_create, {0, 0}, EFAULT, SAME(EFAULT)},
    {"memfd_create MFD_HUGETLB", SYS_memfd_create, {0, 4}, EFAULT, SAME(EPERM)},
    {"landlock_create_ruleset", SYS_landlock_create_ruleset, {0, 0, 1}, ANY_ERROR, SAME(ANY_ERROR)},
    {"futex_waitv", 449, {0, 0, 0, 0, 0}, EINVAL, SAME(ENOSYS)},
    {"x32 getpid", 0x40000000 | SYS_getpid, {0}, ANY_ERROR, SAME(ENOSYS)},
    /* clang-format on */
};

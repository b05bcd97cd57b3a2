/* The syscall table: one row per x86-64 call, each with its answer under every profile and its reason. Compiled
 * and printed by seccomp.c; `krait dump seccomp` is this file in print. To change what a session may do, change a
 * row here.
 *
 * Invariant: only constants. Nothing is decided by the name of a caller or by memory a pointer leads to; a call
 * whose danger sits behind a pointer is refused as a whole (clone3, openat2, seccomp). Numbers the table does not
 * have are ENOSYS. */
#define _GNU_SOURCE 1
#include "seccomp_rules.h"
#include "seccomp_groups.h"
#include <asm/ioctls.h>
#include <asm/prctl.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define LEN(a) (sizeof(a) / sizeof *(a))

/* --- checks on arguments --------------------------------------------------- */

/* clang-format off */

#define IS(n, v) {.op = KR_SC_EQ, .arg = (n), .mask = 0xffffffffu, .value = (uint32_t)(v)}
#define NOT(n, v) {.op = KR_SC_NE, .arg = (n), .mask = 0xffffffffu, .value = (uint32_t)(v)}
#define NOT_HIGH(n, v) {.op = KR_SC_NE, .arg = (n), .high = 1, .mask = 0xffffffffu, .value = (uint32_t)(v)}
#define IS_HIGH(n, v) {.op = KR_SC_EQ, .arg = (n), .high = 1, .mask = 0xffffffffu, .value = (uint32_t)(v)}
#define IS_IN(n, m, v) {.op = KR_SC_EQ, .arg = (n), .mask = (m), .value = (uint32_t)(v)}
#define NOT_IN(n, m, v) {.op = KR_SC_NE, .arg = (n), .mask = (m), .value = (uint32_t)(v)}
#define ANY(n, v) {.op = KR_SC_ANY, .arg = (n), .mask = 0xffffffffu, .value = (uint32_t)(v)}
/* One value of one argument, let through or refused under the name it has in the headers. */
#define YES(n, v) {#v, 0, {IS(n, v)}}
#define NO(n, v) {#v, EPERM, {IS(n, v)}}
/* The same for values these headers may be too old to name. */
#define YES_AS(n, name, v) {name, 0, {IS(n, v)}}
#define NO_AS(n, name, v) {name, EPERM, {IS(n, v)}}

/* The kernel takes the lower 32 bits of clone's flags and the lowest byte of those as a signal. CLONE_NEWTIME sits
 * in that byte, where clone cannot see it today; no signal has the bit, so it is refused too. */
#define CLONE_NEW_ANY \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | 0x80)
static const struct kr_sc_rule clone_rules[] = {
    {"CLONE_NEW*", EPERM, {ANY(0, CLONE_NEW_ANY)}},
    {"CLONE_PARENT", EPERM, {ANY(0, CLONE_PARENT)}},
};

static const struct kr_sc_rule socket_unix_rules[] = {YES(0, AF_UNIX)};

/* socket(2) takes the type from the lowest four bits (SOCK_TYPE_MASK) and refuses flags it does not know.
 * SOCK_PACKET under AF_INET would become AF_PACKET, so types are listed, not excluded; so are protocols: the rest
 * is ICMP, raw, MPTCP, SCTP, L2TP and the like. */
#define SOCK_KIND 0xfu
static const struct kr_sc_rule socket_inet_rules[] = {
    YES(0, AF_UNIX),
    {"other than AF_INET, AF_INET6", EPERM, {NOT(0, AF_INET), NOT(0, AF_INET6)}},
    {"type other than SOCK_STREAM, SOCK_DGRAM", EPERM,
        {NOT_IN(1, SOCK_KIND, SOCK_STREAM), NOT_IN(1, SOCK_KIND, SOCK_DGRAM)}},
    {"protocol other than 0, TCP, UDP", EPERM, {NOT(2, 0), NOT(2, IPPROTO_TCP), NOT(2, IPPROTO_UDP)}},
};

/* A SOCK_DGRAM end of a pair can be connected again, or sent from, to any path: only kinds that stay connected. */
static const struct kr_sc_rule pair_bound_rules[] = {
    {"other than AF_UNIX", EPERM, {NOT(0, AF_UNIX)}},
    {"type SOCK_STREAM", 0, {IS_IN(1, SOCK_KIND, SOCK_STREAM)}},
    {"type SOCK_SEQPACKET", 0, {IS_IN(1, SOCK_KIND, SOCK_SEQPACKET)}},
};

/* A socket with a linger time makes the process that closes it last wait. A socket that a session sends along the
 * channel is closed last by the engine, which would stand still for that time. */
#define OPT(level, name) {#name, EPERM, {IS(1, level), IS(2, name)}}
#define OPT_AS(level, name, v) {name, EPERM, {IS(1, level), IS(2, v)}}
/* A pidfd of the process that made the other end: on the channel, of the warden. The answer is that of a kernel without
 * it, after which callers ask for SO_PEERCRED. SO_PASSRIGHTS is off on both ends of the channel (birth.c), and stays
 * so. */
#define OPT_UNKNOWN(name, v) {name, ENOPROTOOPT, {IS(1, SOL_SOCKET), IS(2, v)}}
static const struct kr_sc_rule sockopt_rules[] = {
    OPT(SOL_SOCKET, SO_ATTACH_FILTER), OPT(SOL_SOCKET, SO_ATTACH_BPF), OPT(SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF),
    OPT(SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF), OPT(SOL_SOCKET, SO_LINGER), OPT(IPPROTO_TCP, TCP_ULP),
    OPT(IPPROTO_TCP, TCP_MD5SIG), OPT_AS(IPPROTO_TCP, "TCP_MD5SIG_EXT", 32),
    OPT_AS(IPPROTO_TCP, "TCP_AO_ADD_KEY", 38), OPT_AS(IPPROTO_TCP, "TCP_AO_DEL_KEY", 39),
    OPT_AS(IPPROTO_TCP, "TCP_AO_INFO", 40), OPT_AS(IPPROTO_TCP, "TCP_AO_REPAIR", 42),
    OPT_AS(IPPROTO_UDP, "UDP_ENCAP", 100), OPT_UNKNOWN("SO_PASSPIDFD", 76), OPT_UNKNOWN("SO_PASSRIGHTS", 83),
};
static const struct kr_sc_rule getsockopt_rules[] = {OPT_UNKNOWN("SO_PEERPIDFD", 77)};

/* MSG_FASTOPEN makes a send connect a TCP socket, past the row of connect() and past Landlock, which judges connect()
 * alone; a listener that was shut down can be such a socket. The answer is that of a kernel whose net.ipv4.tcp_fastopen
 * is off, after which callers connect. TCP_FASTOPEN_CONNECT stays: it only delays what connect() was granted. */
#define SEND_RULES(n) {"MSG_OOB", EPERM, {ANY(n, MSG_OOB)}}, {"MSG_FASTOPEN", EOPNOTSUPP, {ANY(n, MSG_FASTOPEN)}}
static const struct kr_sc_rule sendto_rules[] = {SEND_RULES(3)};
static const struct kr_sc_rule sendmsg_rules[] = {SEND_RULES(2)};
/* All that the server sends to is connected. A name in sendmsg() is behind a pointer. */
static const struct kr_sc_rule send_connected_rules[] = {
    SEND_RULES(3), {"an address", EPERM, {NOT(4, 0)}}, {"an address far up", EPERM, {NOT_HIGH(4, 0)}},
};

#define SET_ID (S_ISUID | S_ISGID)
static const struct kr_sc_rule mode1_rules[] = {{"S_ISUID, S_ISGID", EPERM, {ANY(1, SET_ID)}}};
static const struct kr_sc_rule mode2_rules[] = {{"S_ISUID, S_ISGID", EPERM, {ANY(2, SET_ID)}}};
/* O_TMPFILE shares bits with O_DIRECTORY: only the bit of its own tells them apart. */
#define CREATES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
#define CREATE_LABEL "S_ISUID or S_ISGID in the mode of O_CREAT or O_TMPFILE"
static const struct kr_sc_rule open_rules[] = {{CREATE_LABEL, EPERM, {ANY(1, CREATES), ANY(2, SET_ID)}}};
static const struct kr_sc_rule openat_rules[] = {{CREATE_LABEL, EPERM, {ANY(2, CREATES), ANY(3, SET_ID)}}};

#define NODE_RULES(n) \
    {"S_ISUID, S_ISGID", EPERM, {ANY(n, SET_ID)}}, {"plain file", 0, {IS_IN(n, S_IFMT, 0)}}, \
    {"S_IFREG", 0, {IS_IN(n, S_IFMT, S_IFREG)}}, {"S_IFIFO", 0, {IS_IN(n, S_IFMT, S_IFIFO)}}, \
    {"S_IFSOCK", 0, {IS_IN(n, S_IFMT, S_IFSOCK)}}
static const struct kr_sc_rule mknod_rules[] = {NODE_RULES(1)};
static const struct kr_sc_rule mknodat_rules[] = {NODE_RULES(2)};

/* The command is an unsigned int. Reading a terminal's state is harmless; putting input into one, or naming who
 * gets SIGIO (FIOSETOWN and SIOCSPGRP are F_SETOWN by another door), is not. The rest is ENOTTY, which isatty(),
 * cp --reflink and friends expect.
 *
 * A cell has terminals of its own and no descriptor of another's (its streams are pipes), so it sets them up, owns one
 * and does job control in it. Line disciplines stay closed: they are drivers that load on request. */
#define IOCTL_RULES \
    YES(1, TCGETS), YES_AS(1, "TCGETS2", 0x802c542a), YES(1, TIOCGWINSZ), YES(1, TIOCGPGRP), \
    YES(1, TIOCGSID), YES(1, TIOCOUTQ), YES(1, FIONREAD), YES(1, FIONBIO), YES(1, FIOCLEX), YES(1, FIONCLEX), \
    NO(1, TIOCSTI), NO(1, TIOCLINUX), NO(1, TIOCSETD), \
    NO(1, TIOCCONS), NO(1, TIOCVHANGUP), NO(1, FIOASYNC), NO(1, FIOSETOWN), NO(1, SIOCSPGRP), \
    NO(1, FS_IOC_SETFLAGS), NO(1, FS_IOC_FSSETXATTR)
#define TERMINAL_RULES \
    {"0x5400 to 0x540f (TCGETS to TIOCGPGRP: state, breaks, flow, TIOCSCTTY)", 0, {IS_IN(1, ~0xfu, 0x5400)}}, \
    YES(1, TIOCNOTTY), YES(1, TIOCSPGRP), YES(1, TIOCSWINSZ), YES_AS(1, "TCSETS2", 0x402c542b), \
    YES_AS(1, "TCSETSW2", 0x402c542c), YES_AS(1, "TCSETSF2", 0x402c542d), YES(1, TCSBRKP), YES(1, TIOCGPTN), \
    YES(1, TIOCSPTLCK), YES(1, TIOCGPTPEER), YES(1, TIOCPKT)
static const struct kr_sc_rule ioctl_rules[] = {
    IOCTL_RULES, NO(1, TIOCSCTTY), NO(1, TIOCNOTTY), NO(1, TIOCSPGRP),
};
static const struct kr_sc_rule ioctl_cell_rules[] = {IOCTL_RULES, TERMINAL_RULES};
static const struct kr_sc_rule ioctl_inet_rules[] = {
    IOCTL_RULES, TERMINAL_RULES,
    YES(1, SIOCGIFNAME), YES(1, SIOCGIFINDEX), YES(1, SIOCGIFCONF), YES(1, SIOCGIFFLAGS), YES(1, SIOCGIFADDR),
    YES(1, SIOCGIFNETMASK), YES(1, SIOCGIFMTU), YES(1, SIOCGIFHWADDR),
    {"SIOCETHTOOL", EOPNOTSUPP, {IS(1, SIOCETHTOOL)}}, /* as many drivers answer; psutil raises another error */
};

static const struct kr_sc_rule fcntl_rules[] = {
    YES(1, F_DUPFD), YES(1, F_GETFD), YES(1, F_SETFD), YES(1, F_GETFL), YES(1, F_SETFL), YES(1, F_DUPFD_CLOEXEC),
    YES(1, F_GETLK), YES(1, F_SETLK), YES(1, F_SETLKW), YES(1, F_OFD_GETLK), YES(1, F_OFD_SETLK), YES(1, F_OFD_SETLKW),
    YES(1, F_GETPIPE_SZ), YES(1, F_SETPIPE_SZ), YES(1, F_ADD_SEALS), YES(1, F_GET_SEALS),
    YES(1, F_GETOWN), YES(1, F_GETOWN_EX), YES(1, F_GETSIG), YES(1, F_GETLEASE), YES_AS(1, "F_DUPFD_QUERY", 1027),
    NO(1, F_SETOWN), NO(1, F_SETOWN_EX), NO(1, F_SETSIG), NO(1, F_SETLEASE), NO(1, F_NOTIFY),
};

/* PR_SET_VMA's second argument is an unsigned long to the kernel: both halves count. */
#define PRCTL_GRANTED \
    YES(0, PR_SET_NAME), YES(0, PR_GET_NAME), \
    {"PR_SET_VMA with PR_SET_VMA_ANON_NAME", 0, {IS(0, PR_SET_VMA), IS(1, PR_SET_VMA_ANON_NAME), IS_HIGH(1, 0)}}, \
    YES(0, PR_GET_PDEATHSIG), YES(0, PR_GET_DUMPABLE), YES(0, PR_GET_KEEPCAPS), YES(0, PR_GET_SECCOMP), \
    YES(0, PR_CAPBSET_READ), YES(0, PR_GET_SECUREBITS), YES(0, PR_SET_TIMERSLACK), YES(0, PR_GET_TIMERSLACK), \
    YES(0, PR_GET_CHILD_SUBREAPER), YES(0, PR_SET_NO_NEW_PRIVS), YES(0, PR_GET_NO_NEW_PRIVS), \
    YES(0, PR_GET_THP_DISABLE), YES(0, PR_GET_SPECULATION_CTRL)
#define PRCTL_RULES \
    PRCTL_GRANTED, \
    NO(0, PR_SET_DUMPABLE), NO(0, PR_SET_KEEPCAPS), NO(0, PR_SET_SECCOMP), NO(0, PR_CAPBSET_DROP), NO(0, PR_SET_TSC), \
    NO(0, PR_SET_SECUREBITS), NO(0, PR_MCE_KILL), NO(0, PR_SET_MM), NO(0, PR_SET_PTRACER), NO(0, PR_SET_THP_DISABLE), \
    NO(0, PR_CAP_AMBIENT), NO(0, PR_SET_SPECULATION_CTRL), NO(0, PR_SET_IO_FLUSHER), \
    NO(0, PR_SET_SYSCALL_USER_DISPATCH), NO(0, PR_SCHED_CORE), NO_AS(0, "PR_SET_MEMORY_MERGE", 67)
static const struct kr_sc_rule prctl_rules[] = {
    PRCTL_RULES, YES(0, PR_SET_PDEATHSIG), YES(0, PR_SET_CHILD_SUBREAPER),
};
static const struct kr_sc_rule prctl_self_rules[] = {
    PRCTL_RULES, NO(0, PR_SET_PDEATHSIG), NO(0, PR_SET_CHILD_SUBREAPER),
};

/* The id that a session has in its cell (src/kernel/enter.c), or -1, "as it is": to the kernel that is no change. */
#define OTHER_ID(n) {"another id than 1000 or -1", EPERM, {NOT(n, 1000), NOT(n, -1)}}
static const struct kr_sc_rule own_id_rules[] = {OTHER_ID(0)};
static const struct kr_sc_rule own_id2_rules[] = {OTHER_ID(0), OTHER_ID(1)};
static const struct kr_sc_rule own_id3_rules[] = {OTHER_ID(0), OTHER_ID(1), OTHER_ID(2)};

static const struct kr_sc_rule personality_rules[] = {
    YES_AS(0, "0 (plain Linux)", 0), YES_AS(0, "0xffffffff (ask)", 0xffffffffu),
};
static const struct kr_sc_rule pid0_rules[] = {YES_AS(0, "0 (oneself)", 0)};
/* Who 0 means the caller only beside PRIO_PROCESS; beside PRIO_USER it means everything of this uid, the server
 * too. */
static const struct kr_sc_rule prio_self_rules[] = {{"PRIO_PROCESS 0 (oneself)", 0, {IS(0, 0), IS(1, 0)}}};
static const struct kr_sc_rule ioprio_self_rules[] = {{"IOPRIO_WHO_PROCESS 0 (oneself)", 0, {IS(0, 1), IS(1, 0)}}};

static const struct kr_sc_rule mmap_rules[] = {{"MAP_HUGETLB", EPERM, {ANY(3, MAP_HUGETLB)}}};
static const struct kr_sc_rule memfd_rules[] = {{"MFD_HUGETLB", EPERM, {ANY(1, 4)}}};
static const struct kr_sc_rule shmget_rules[] = {{"SHM_HUGETLB", EPERM, {ANY(2, SHM_HUGETLB)}}};
/* The kernel lets any process make the device 0:0 that stands for a deleted file in an overlay. */
static const struct kr_sc_rule rename2_rules[] = {{"RENAME_WHITEOUT", EPERM, {ANY(4, RENAME_WHITEOUT)}}};
/* The kernel starts no handler of core_pattern at a limit of 1, and does at 0: where it is, it stays. */
static const struct kr_sc_rule setrlimit_rules[] = {NO(0, RLIMIT_CORE)};
static const struct kr_sc_rule prlimit_rules[] = {
    {"another process", EPERM, {NOT(0, 0)}},
    {"RLIMIT_CORE, a new one", EPERM, {IS(1, RLIMIT_CORE), NOT(2, 0)}},
    {"RLIMIT_CORE, a new one far up", EPERM, {IS(1, RLIMIT_CORE), NOT_HIGH(2, 0)}},
};
static const struct kr_sc_rule madvise_rules[] = {
    NO(2, MADV_MERGEABLE), NO(2, MADV_HWPOISON), NO_AS(2, "MADV_SOFT_OFFLINE", 101),
};

static const struct kr_sc_rule fadvise_rules[] = {NO(3, POSIX_FADV_DONTNEED)};
/* Whether a page of a shared file is in memory tells what others run. The answer is that of a file that cannot do it,
 * after which callers read without the flag. */
static const struct kr_sc_rule read_flags_rules[] = {{"RWF_NOWAIT", EOPNOTSUPP, {ANY(5, RWF_NOWAIT)}}};
static const struct kr_sc_rule membarrier_rules[] = {
    YES_AS(0, "MEMBARRIER_CMD_QUERY", 0), YES_AS(0, "MEMBARRIER_CMD_PRIVATE_EXPEDITED", 8),
    YES_AS(0, "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED", 16),
    YES_AS(0, "MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE", 32),
    YES_AS(0, "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE", 64),
    YES_AS(0, "MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ", 128),
    YES_AS(0, "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ", 256),
    YES_AS(0, "MEMBARRIER_CMD_GET_REGISTRATIONS", 512),
    NO_AS(0, "MEMBARRIER_CMD_GLOBAL", 1), NO_AS(0, "MEMBARRIER_CMD_GLOBAL_EXPEDITED", 2),
    NO_AS(0, "MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED", 4),
};
static const struct kr_sc_rule arch_prctl_rules[] = {
    YES(0, ARCH_SET_FS), YES(0, ARCH_GET_FS), YES(0, ARCH_SET_GS), YES(0, ARCH_GET_GS), YES(0, ARCH_GET_CPUID),
    YES_AS(0, "ARCH_GET_XCOMP_SUPP", 0x1021), YES_AS(0, "ARCH_GET_XCOMP_PERM", 0x1022),
    YES_AS(0, "ARCH_REQ_XCOMP_PERM", 0x1023), YES_AS(0, "ARCH_SHSTK_ENABLE", 0x5001),
    YES_AS(0, "ARCH_SHSTK_DISABLE", 0x5002), YES_AS(0, "ARCH_SHSTK_LOCK", 0x5003),
    YES_AS(0, "ARCH_SHSTK_STATUS", 0x5005), NO(0, ARCH_SET_CPUID), NO(0, ARCH_MAP_VDSO_X32), NO(0, ARCH_MAP_VDSO_32),
    NO(0, ARCH_MAP_VDSO_64), NO_AS(0, "ARCH_ENABLE_TAGGED_ADDR", 0x4002), NO_AS(0, "ARCH_FORCE_TAGGED_SVA", 0x4004),
};

/* The server starts threads and no process: fork() and what else lacks CLONE_THREAD is refused, and with it every new
 * namespace, which a thread cannot have. */
static const struct kr_sc_rule thread_rules[] = {
    {"without CLONE_THREAD", EPERM, {NOT_IN(0, CLONE_THREAD, CLONE_THREAD)}},
    {"CLONE_NEW*", EPERM, {ANY(0, CLONE_NEW_ANY)}},
};
/* Its code was mapped when it started. */
static const struct kr_sc_rule mmap_data_rules[] = {
    {"PROT_EXEC", EPERM, {ANY(2, PROT_EXEC)}}, {"MAP_HUGETLB", EPERM, {ANY(3, MAP_HUGETLB)}},
};
static const struct kr_sc_rule mprotect_data_rules[] = {{"PROT_EXEC", EPERM, {ANY(2, PROT_EXEC)}}};
static const struct kr_sc_rule abort_rules[] = {YES(2, SIGABRT)};
static const struct kr_sc_rule prlimit_ask_rules[] = {
    {"another process", EPERM, {NOT(0, 0)}},
    {"a new limit", EPERM, {NOT(2, 0)}},
    {"a new limit far up", EPERM, {NOT_HIGH(2, 0)}},
};

/* The egress process connects TCP, and asks resolvers over UDP. */
static const struct kr_sc_rule socket_out_rules[] = {
    {"other than AF_INET, AF_INET6", EPERM, {NOT(0, AF_INET), NOT(0, AF_INET6)}},
    {"type other than SOCK_STREAM, SOCK_DGRAM", EPERM,
        {NOT_IN(1, SOCK_KIND, SOCK_STREAM), NOT_IN(1, SOCK_KIND, SOCK_DGRAM)}},
    {"protocol other than 0, TCP, UDP", EPERM, {NOT(2, 0), NOT(2, IPPROTO_TCP), NOT(2, IPPROTO_UDP)}},
};

/* What is left of a session's making to a guest (guest_rules.c): no namespace but that of control groups, no way back
 * to privilege, limits of its own alone, filters that nothing listens to. */
static const struct kr_sc_rule own_cgroups_rules[] = {YES(0, CLONE_NEWCGROUP)};
static const struct kr_sc_rule prctl_setup_rules[] = {
    PRCTL_GRANTED, YES(0, PR_SET_PDEATHSIG), YES(0, PR_SET_DUMPABLE), YES(0, PR_CAPBSET_DROP),
    YES(0, PR_SET_CHILD_SUBREAPER),
    {"PR_CAP_AMBIENT_CLEAR_ALL", 0, {IS(0, PR_CAP_AMBIENT), IS(1, PR_CAP_AMBIENT_CLEAR_ALL)}},
};
static const struct kr_sc_rule add_filter_rules[] = {{"SECCOMP_SET_MODE_FILTER with SECCOMP_FILTER_FLAG_TSYNC alone", 0,
    {IS(0, SECCOMP_SET_MODE_FILTER), IS(1, SECCOMP_FILTER_FLAG_TSYNC), IS_HIGH(1, 0)}}};

#define CHECK(act, text, what, table, rest) [KR_SC_##act - KR_SC_CHECK_FIRST_] = {text, what, table, LEN(table), rest}
const struct kr_sc_check kr_sc_checks[] = {
    CHECK(CLONE, "clone", "flags", clone_rules, 0),
    CHECK(SOCKET_UNIX, "unix-only", "family", socket_unix_rules, EPERM),
    CHECK(SOCKET_INET, "socket-inet", "family", socket_inet_rules, 0),
    CHECK(PAIR_BOUND, "pair-bound", "family", pair_bound_rules, EPERM),
    CHECK(SOCKOPT, "sockopt", "option", sockopt_rules, 0),
    CHECK(MODE1, "mode", "mode", mode1_rules, 0),
    CHECK(MODE2, "mode-at", "mode", mode2_rules, 0),
    CHECK(OPEN, "open", "flags and mode", open_rules, 0),
    CHECK(OPENAT, "openat", "flags and mode", openat_rules, 0),
    CHECK(MKNOD, "node", "mode", mknod_rules, EPERM),
    CHECK(MKNODAT, "node-at", "mode", mknodat_rules, EPERM),
    CHECK(IOCTL, "ioctl", "command", ioctl_rules, ENOTTY),
    CHECK(IOCTL_CELL, "ioctl-cell", "command", ioctl_cell_rules, ENOTTY),
    CHECK(IOCTL_INET, "ioctl-inet", "command", ioctl_inet_rules, ENOTTY),
    CHECK(FCNTL, "fcntl", "command", fcntl_rules, EINVAL),
    CHECK(PRCTL, "prctl", "option", prctl_rules, EINVAL),
    CHECK(PRCTL_SELF, "prctl-self", "option", prctl_self_rules, EINVAL),
    CHECK(OWN_ID, "own-id", "id", own_id_rules, 0),
    CHECK(OWN_ID2, "own-ids", "ids", own_id2_rules, 0),
    CHECK(OWN_ID3, "own-three-ids", "ids", own_id3_rules, 0),
    CHECK(PERSONALITY, "personality", "persona", personality_rules, EPERM),
    CHECK(PID0, "own-pid", "pid", pid0_rules, EPERM),
    CHECK(PRIO_SELF, "own-priority", "which and who", prio_self_rules, EPERM),
    CHECK(IOPRIO_SELF, "own-io-priority", "which and who", ioprio_self_rules, EPERM),
    CHECK(MMAP, "mmap", "flags", mmap_rules, 0),
    CHECK(MADVISE, "madvise", "advice", madvise_rules, 0),
    CHECK(MEMFD, "memfd", "flags", memfd_rules, 0),
    CHECK(SHMGET, "shmget", "flags", shmget_rules, 0),
    CHECK(RENAME2, "rename", "flags", rename2_rules, 0),
    CHECK(SETRLIMIT, "setrlimit", "resource", setrlimit_rules, 0),
    CHECK(PRLIMIT, "prlimit", "whose and which", prlimit_rules, 0),
    CHECK(SENDTO, "sendto", "flags", sendto_rules, 0),
    CHECK(SENDMSG, "sendmsg", "flags", sendmsg_rules, 0),
    CHECK(SEND_CONNECTED, "send-connected", "flags and address", send_connected_rules, 0),
    CHECK(GETSOCKOPT, "getsockopt", "option", getsockopt_rules, 0),
    CHECK(FADVISE, "fadvise", "advice", fadvise_rules, 0),
    CHECK(READ_FLAGS, "read-flags", "flags", read_flags_rules, 0),
    CHECK(MEMBARRIER, "membarrier", "command", membarrier_rules, EINVAL),
    CHECK(ARCH_PRCTL, "arch-prctl", "option", arch_prctl_rules, EINVAL),
    CHECK(THREAD, "thread", "flags", thread_rules, 0),
    CHECK(MMAP_DATA, "mmap-data", "protection and flags", mmap_data_rules, 0),
    CHECK(MPROTECT_DATA, "mprotect-data", "protection", mprotect_data_rules, 0),
    CHECK(ABORT, "abort", "signal", abort_rules, EPERM),
    CHECK(PRLIMIT_ASK, "own-limits", "whose and what", prlimit_ask_rules, 0),
    CHECK(SOCKET_OUT, "socket-out", "family", socket_out_rules, 0),
    CHECK(OWN_CGROUPS, "own-cgroups", "flags", own_cgroups_rules, EPERM),
    CHECK(PRCTL_SETUP, "prctl-setup", "option", prctl_setup_rules, EINVAL),
    CHECK(ADD_FILTER, "add-filter", "operation and flags", add_filter_rules, EPERM),
};
static_assert(LEN(kr_sc_checks) == KR_SC_ACT_MAX_ - KR_SC_CHECK_FIRST_, "a check for every conditional action");

/* --- groups: a reason shared by many rows ---------------------------------- */

#define GROUP_ID(id, why) G_##id,
#define GROUP_ROW(id, why) [G_##id] = {#id, why},
enum group { KR_SC_GROUPS(GROUP_ID) G_MAX_ };
const struct kr_sc_group kr_sc_groups[] = {KR_SC_GROUPS(GROUP_ROW)};
const size_t kr_sc_groups_count = LEN(kr_sc_groups);
static_assert(LEN(kr_sc_groups) == G_MAX_, "a sentence for every group");

/* --- rows, by number ------------------------------------------------------- */

/* The same in every profile; the same in both kinds of cell; different in each (cell without network, with
 * loopback, contained). */
#define ALL(n, g, a, ...) {#n, SYS_##n, G_##g, {KR_SC_##a, KR_SC_##a, KR_SC_##a}, "" __VA_ARGS__}
#define CELL(n, g, a, b, ...) {#n, SYS_##n, G_##g, {KR_SC_##a, KR_SC_##a, KR_SC_##b}, "" __VA_ARGS__}
#define EACH(n, g, a, b, c, ...) {#n, SYS_##n, G_##g, {KR_SC_##a, KR_SC_##b, KR_SC_##c}, "" __VA_ARGS__}
/* Numbers that the headers of Debian 12 do not have; all ENOSYS. */
#define LATE(n, nr, g, ...) {#n, nr, G_##g, {KR_SC_ENOSYS, KR_SC_ENOSYS, KR_SC_ENOSYS}, "" __VA_ARGS__}

#define CHMOD_WHY "contained, it would reach any file of the same owner: Landlock does not look at modes and times"
#define SEND_WHY \
    "all but out-of-band bytes, whose code for unix sockets gave a browser's sandbox away (CVE-2025-38236), and TCP " \
    "connections that a send opens, which Landlock does not judge"
const struct kr_sc_row kr_sc_rows[] = {
    ALL(read, IO, ALLOW),
    ALL(write, IO, ALLOW),
    ALL(open, CREATE, OPEN),
    ALL(close, IO, ALLOW),
    ALL(stat, FILE, ALLOW),
    ALL(fstat, FILE, ALLOW),
    ALL(lstat, FILE, ALLOW),
    ALL(poll, EVENT, ALLOW),
    ALL(lseek, IO, ALLOW),
    ALL(mmap, MEMORY, MMAP, "huge pages come from a pool of the host's that the memory limit does not count"),
    ALL(mprotect, MEMORY, ALLOW),
    ALL(munmap, MEMORY, ALLOW),
    ALL(brk, MEMORY, ALLOW),
    ALL(rt_sigaction, SIGNAL, ALLOW),
    ALL(rt_sigprocmask, SIGNAL, ALLOW),
    ALL(rt_sigreturn, SIGNAL, ALLOW),
    EACH(ioctl, IOCTL, IOCTL_CELL, IOCTL_INET, IOCTL),
    ALL(pread64, IO, ALLOW),
    ALL(pwrite64, IO, ALLOW),
    ALL(readv, IO, ALLOW),
    ALL(writev, IO, ALLOW),
    ALL(access, FILE, ALLOW),
    ALL(pipe, IO, ALLOW),
    ALL(select, EVENT, ALLOW),
    ALL(sched_yield, PROCESS, ALLOW),
    ALL(mremap, MEMORY, ALLOW),
    ALL(msync, MEMORY, ALLOW),
    ALL(mincore, MEMORY, ALLOW, "Linux calls every page of a file that the caller may not write present (since 5.2)"),
    ALL(madvise, MEMORY, MADVISE,
        "merging equal pages with other cells is a timing channel; poisoning pages is the machine's affair"),
    CELL(shmget, SYSV, SHMGET, EPERM),
    CELL(shmat, SYSV, ALLOW, EPERM),
    CELL(shmctl, SYSV, ALLOW, EPERM),
    ALL(dup, IO, ALLOW),
    ALL(dup2, IO, ALLOW),
    ALL(pause, SIGNAL, ALLOW),
    ALL(nanosleep, TIME, ALLOW),
    ALL(getitimer, TIME, ALLOW),
    ALL(alarm, TIME, ALLOW),
    ALL(setitimer, TIME, ALLOW),
    ALL(getpid, SELF, ALLOW),
    ALL(sendfile, IO, ALLOW),
    EACH(socket, SOCKET, SOCKET_UNIX, SOCKET_INET, EPERM,
        "only the families the network rule grants; Landlock does not judge connect() to a path, so "
        "contained sessions get no socket at all"),
    CELL(connect, NAMED, ALLOW, EPERM),
    CELL(accept, NAMED, ALLOW, EPERM),
    ALL(sendto, SOCKET, SENDTO, SEND_WHY),
    ALL(recvfrom, SOCKET, ALLOW),
    ALL(sendmsg, SOCKET, SENDMSG, SEND_WHY),
    ALL(recvmsg, SOCKET, ALLOW),
    ALL(shutdown, SOCKET, ALLOW),
    CELL(bind, NAMED, ALLOW, EPERM),
    CELL(listen, NAMED, ALLOW, EPERM),
    ALL(getsockname, SOCKET, ALLOW),
    ALL(getpeername, SOCKET, ALLOW),
    CELL(socketpair, SOCKET, SOCKET_UNIX, PAIR_BOUND,
        "both ends are the caller's; a datagram end can still be sent elsewhere by name, so contained sessions "
        "get connected kinds only"),
    ALL(setsockopt, SOCKET, SOCKOPT,
        "everything but attaching BPF programs, stacking protocols and signing segments (TCP_MD5SIG, TCP_AO), all ways "
        "to kernel code that plain sockets do not reach, a linger time, which would be the engine's to wait, handles "
        "on the sender's process, and taking descriptors along the channel; UDP_SEGMENT stays, as sendmsg can ask for "
        "it where no filter sees it"),
    ALL(getsockopt, SOCKET, GETSOCKOPT, "all but a handle on the process at the other end, which may be outside"),
    ALL(clone, PROCESS, CLONE,
        "threads and children yes; new namespaces open the kernel's mount and netfilter code, and "
        "CLONE_PARENT would plant a child on the zygote"),
    ALL(fork, PROCESS, ALLOW),
    ALL(vfork, PROCESS, ALLOW),
    ALL(execve, PROCESS, ALLOW),
    ALL(exit, PROCESS, ALLOW),
    ALL(wait4, PROCESS, ALLOW),
    ALL(kill, KILL, ALLOW),
    ALL(uname, SELF, ALLOW),
    CELL(semget, SYSV, ALLOW, EPERM),
    CELL(semop, SYSV, ALLOW, EPERM),
    CELL(semctl, SYSV, ALLOW, EPERM),
    CELL(shmdt, SYSV, ALLOW, EPERM),
    CELL(msgget, SYSV, ALLOW, EPERM),
    CELL(msgsnd, SYSV, ALLOW, EPERM),
    CELL(msgrcv, SYSV, ALLOW, EPERM),
    CELL(msgctl, SYSV, ALLOW, EPERM),
    ALL(fcntl, FCNTL, FCNTL),
    ALL(flock, IO, ALLOW),
    ALL(fsync, IO, ALLOW),
    ALL(fdatasync, IO, ALLOW),
    ALL(truncate, FILE, ALLOW),
    ALL(ftruncate, IO, ALLOW),
    ALL(getdents, FILE, ALLOW),
    ALL(getcwd, FILE, ALLOW),
    ALL(chdir, FILE, ALLOW),
    ALL(fchdir, FILE, ALLOW),
    ALL(rename, FILE, ALLOW),
    ALL(mkdir, SETIDBIT, MODE1),
    ALL(rmdir, FILE, ALLOW),
    ALL(creat, SETIDBIT, MODE1),
    ALL(link, FILE, ALLOW),
    ALL(unlink, FILE, ALLOW),
    ALL(symlink, FILE, ALLOW),
    ALL(readlink, FILE, ALLOW),
    CELL(chmod, SETIDBIT, MODE1, EPERM, CHMOD_WHY),
    CELL(fchmod, SETIDBIT, MODE1, EPERM, CHMOD_WHY),
    CELL(chown, CHOWN, ALLOW, EPERM),
    CELL(fchown, CHOWN, ALLOW, EPERM),
    CELL(lchown, CHOWN, ALLOW, EPERM),
    ALL(umask, FILE, ALLOW),
    ALL(gettimeofday, TIME, ALLOW),
    ALL(getrlimit, LIMIT, ALLOW),
    ALL(getrusage, SELF, ALLOW),
    ALL(sysinfo, SELF, ALLOW),
    ALL(times, SELF, ALLOW),
    ALL(ptrace, TRACE, EPERM),
    ALL(getuid, SELF, ALLOW),
    ALL(syslog, MACHINE, EPERM),
    ALL(getgid, SELF, ALLOW),
    ALL(setuid, SETID, OWN_ID),
    ALL(setgid, SETID, OWN_ID),
    ALL(geteuid, SELF, ALLOW),
    ALL(getegid, SELF, ALLOW),
    CELL(setpgid, GROUP, ALLOW, EPERM),
    ALL(getppid, SELF, ALLOW),
    ALL(getpgrp, SELF, ALLOW),
    CELL(setsid, GROUP, ALLOW, EPERM),
    ALL(setreuid, SETID, OWN_ID2),
    ALL(setregid, SETID, OWN_ID2),
    ALL(getgroups, SELF, ALLOW),
    ALL(setgroups, SETID, EPERM),
    ALL(setresuid, SETID, OWN_ID3),
    ALL(getresuid, SELF, ALLOW),
    ALL(setresgid, SETID, OWN_ID3),
    ALL(getresgid, SELF, ALLOW),
    ALL(getpgid, SELF, ALLOW),
    ALL(setfsuid, SETID, OWN_ID),
    ALL(setfsgid, SETID, OWN_ID),
    ALL(getsid, SELF, ALLOW),
    ALL(capget, SELF, ALLOW),
    ALL(capset, SETID, EPERM),
    ALL(rt_sigpending, SIGNAL, ALLOW),
    ALL(rt_sigtimedwait, SIGNAL, ALLOW),
    CELL(rt_sigqueueinfo, SIGVALUE, ALLOW, EPERM),
    ALL(rt_sigsuspend, SIGNAL, ALLOW),
    ALL(sigaltstack, SIGNAL, ALLOW),
    CELL(utime, FILE, ALLOW, EPERM, CHMOD_WHY),
    ALL(mknod, DEVICE, MKNOD),
    ALL(uselib, MACHINE, EPERM),
    ALL(personality, PERSON, PERSONALITY),
    ALL(ustat, MACHINE, EPERM),
    ALL(statfs, FILE, ALLOW),
    ALL(fstatfs, FILE, ALLOW),
    ALL(sysfs, MACHINE, EPERM),
    ALL(getpriority, SCHED, ALLOW),
    CELL(setpriority, SCHED, ALLOW, PRIO_SELF),
    CELL(sched_setparam, SCHED, ALLOW, PID0),
    ALL(sched_getparam, SCHED, ALLOW),
    CELL(sched_setscheduler, SCHED, ALLOW, PID0),
    ALL(sched_getscheduler, SCHED, ALLOW),
    ALL(sched_get_priority_max, SCHED, ALLOW),
    ALL(sched_get_priority_min, SCHED, ALLOW),
    ALL(sched_rr_get_interval, SCHED, ALLOW),
    ALL(mlock, MEMORY, ALLOW),
    ALL(munlock, MEMORY, ALLOW),
    ALL(mlockall, MEMORY, ALLOW),
    ALL(munlockall, MEMORY, ALLOW),
    ALL(vhangup, MACHINE, EPERM),
    ALL(modify_ldt, SURFACE, EPERM, "16-bit segments: only old emulators need them (CVE-2015-5157, CVE-2017-17053)"),
    ALL(pivot_root, NAMESPACE, EPERM),
    ALL(_sysctl, RETIRED, ENOSYS),
    CELL(prctl, PRCTL, PRCTL, PRCTL_SELF),
    ALL(arch_prctl, PROCESS, ARCH_PRCTL,
        "thread pointers, wide registers and shadow stacks; not tagged addresses, CPUID faults or a vDSO elsewhere"),
    ALL(adjtimex, CLOCK, EPERM),
    ALL(setrlimit, LIMIT, SETRLIMIT),
    ALL(chroot, NAMESPACE, EPERM),
    ALL(sync, MACHINE, EPERM,
        "flushes every disk of the host; the call has no error to report, so callers never notice"),
    ALL(acct, MACHINE, EPERM),
    ALL(settimeofday, CLOCK, EPERM),
    ALL(mount, MOUNT, EPERM),
    ALL(umount2, MOUNT, EPERM),
    ALL(swapon, MACHINE, EPERM),
    ALL(swapoff, MACHINE, EPERM),
    ALL(reboot, MACHINE, EPERM),
    ALL(sethostname, MACHINE, EPERM),
    ALL(setdomainname, MACHINE, EPERM),
    ALL(iopl, MACHINE, EPERM),
    ALL(ioperm, MACHINE, EPERM),
    ALL(create_module, RETIRED, ENOSYS),
    ALL(init_module, MODULE, EPERM),
    ALL(delete_module, MODULE, EPERM),
    ALL(get_kernel_syms, RETIRED, ENOSYS),
    ALL(query_module, RETIRED, ENOSYS),
    ALL(quotactl, MACHINE, EPERM),
    ALL(nfsservctl, RETIRED, ENOSYS),
    ALL(getpmsg, RETIRED, ENOSYS),
    ALL(putpmsg, RETIRED, ENOSYS),
    ALL(afs_syscall, RETIRED, ENOSYS),
    ALL(tuxcall, RETIRED, ENOSYS),
    ALL(security, RETIRED, ENOSYS),
    ALL(gettid, SELF, ALLOW),
    ALL(readahead, IO, ALLOW),
    ALL(setxattr, XATTR, EOPNOTSUPP),
    ALL(lsetxattr, XATTR, EOPNOTSUPP),
    ALL(fsetxattr, XATTR, EOPNOTSUPP),
    ALL(getxattr, FILE, ALLOW),
    ALL(lgetxattr, FILE, ALLOW),
    ALL(fgetxattr, FILE, ALLOW),
    ALL(listxattr, FILE, ALLOW),
    ALL(llistxattr, FILE, ALLOW),
    ALL(flistxattr, FILE, ALLOW),
    ALL(removexattr, XATTR, EOPNOTSUPP),
    ALL(lremovexattr, XATTR, EOPNOTSUPP),
    ALL(fremovexattr, XATTR, EOPNOTSUPP),
    ALL(tkill, KILL, ALLOW),
    ALL(time, TIME, ALLOW),
    ALL(futex, PROCESS, ALLOW),
    CELL(sched_setaffinity, SCHED, ALLOW, PID0),
    ALL(sched_getaffinity, SCHED, ALLOW),
    ALL(set_thread_area, RETIRED, ENOSYS),
    ALL(io_setup, AIO, EPERM),
    ALL(io_destroy, AIO, EPERM),
    ALL(io_getevents, AIO, EPERM),
    ALL(io_submit, AIO, EPERM),
    ALL(io_cancel, AIO, EPERM),
    ALL(get_thread_area, RETIRED, ENOSYS),
    ALL(lookup_dcookie, MACHINE, EPERM),
    ALL(epoll_create, EVENT, ALLOW),
    ALL(epoll_ctl_old, RETIRED, ENOSYS),
    ALL(epoll_wait_old, RETIRED, ENOSYS),
    ALL(remap_file_pages, SURFACE, EPERM, "emulated since Linux 4.0 and used by nothing"),
    ALL(getdents64, FILE, ALLOW),
    ALL(set_tid_address, PROCESS, ALLOW),
    ALL(restart_syscall, SIGNAL, ALLOW),
    CELL(semtimedop, SYSV, ALLOW, EPERM),
    ALL(fadvise64, IO, FADVISE,
        "all but POSIX_FADV_DONTNEED, which throws pages of the host's own files out of memory for everyone"),
    ALL(timer_create, TIME, ALLOW),
    ALL(timer_settime, TIME, ALLOW),
    ALL(timer_gettime, TIME, ALLOW),
    ALL(timer_getoverrun, TIME, ALLOW),
    ALL(timer_delete, TIME, ALLOW),
    ALL(clock_settime, CLOCK, EPERM),
    ALL(clock_gettime, TIME, ALLOW),
    ALL(clock_getres, TIME, ALLOW),
    ALL(clock_nanosleep, TIME, ALLOW),
    ALL(exit_group, PROCESS, ALLOW),
    ALL(epoll_wait, EVENT, ALLOW),
    ALL(epoll_ctl, EVENT, ALLOW),
    ALL(tgkill, KILL, ALLOW),
    CELL(utimes, FILE, ALLOW, EPERM, CHMOD_WHY),
    ALL(vserver, RETIRED, ENOSYS),
    ALL(mbind, NUMA, EPERM),
    ALL(set_mempolicy, NUMA, EPERM),
    ALL(get_mempolicy, MEMORY, ALLOW),
    ALL(mq_open, MQUEUE, EPERM),
    ALL(mq_unlink, MQUEUE, EPERM),
    ALL(mq_timedsend, MQUEUE, EPERM),
    ALL(mq_timedreceive, MQUEUE, EPERM),
    ALL(mq_notify, MQUEUE, EPERM),
    ALL(mq_getsetattr, MQUEUE, EPERM),
    ALL(kexec_load, MODULE, EPERM),
    ALL(waitid, PROCESS, ALLOW),
    ALL(add_key, KEYS, EPERM),
    ALL(request_key, KEYS, EPERM),
    ALL(keyctl, KEYS, EPERM),
    CELL(ioprio_set, SCHED, ALLOW, IOPRIO_SELF),
    ALL(ioprio_get, SCHED, ALLOW),
    ALL(inotify_init, INOTIFY, EPERM),
    ALL(inotify_add_watch, INOTIFY, EPERM),
    ALL(inotify_rm_watch, INOTIFY, EPERM),
    ALL(migrate_pages, NUMA, EPERM),
    ALL(openat, CREATE, OPENAT),
    ALL(mkdirat, SETIDBIT, MODE2),
    ALL(mknodat, DEVICE, MKNODAT),
    CELL(fchownat, CHOWN, ALLOW, EPERM),
    CELL(futimesat, FILE, ALLOW, EPERM, CHMOD_WHY),
    ALL(newfstatat, FILE, ALLOW),
    ALL(unlinkat, FILE, ALLOW),
    ALL(renameat, FILE, ALLOW),
    ALL(linkat, FILE, ALLOW),
    ALL(symlinkat, FILE, ALLOW),
    ALL(readlinkat, FILE, ALLOW),
    CELL(fchmodat, SETIDBIT, MODE2, EPERM, CHMOD_WHY),
    ALL(faccessat, FILE, ALLOW),
    ALL(pselect6, EVENT, ALLOW),
    ALL(ppoll, EVENT, ALLOW),
    ALL(unshare, NAMESPACE, EPERM),
    ALL(set_robust_list, PROCESS, ALLOW),
    ALL(get_robust_list, TRACE, EPERM, "tells addresses inside another process; only debuggers ask"),
    ALL(splice, SPLICE, ALLOW),
    ALL(tee, SPLICE, ALLOW),
    ALL(sync_file_range, IO, ALLOW),
    ALL(vmsplice, SURFACE, EPERM, "maps user pages into pipes (CVE-2008-0600); nothing in Python calls it"),
    ALL(move_pages, NUMA, EPERM),
    CELL(utimensat, FILE, ALLOW, EPERM, CHMOD_WHY),
    ALL(epoll_pwait, EVENT, ALLOW),
    ALL(signalfd, SIGNAL, ALLOW),
    ALL(timerfd_create, TIME, ALLOW),
    ALL(eventfd, EVENT, ALLOW),
    ALL(fallocate, IO, ALLOW),
    ALL(timerfd_settime, TIME, ALLOW),
    ALL(timerfd_gettime, TIME, ALLOW),
    CELL(accept4, NAMED, ALLOW, EPERM),
    ALL(signalfd4, SIGNAL, ALLOW),
    ALL(eventfd2, EVENT, ALLOW),
    ALL(epoll_create1, EVENT, ALLOW),
    ALL(dup3, IO, ALLOW),
    ALL(pipe2, IO, ALLOW),
    ALL(inotify_init1, INOTIFY, EPERM),
    ALL(preadv, IO, ALLOW),
    ALL(pwritev, IO, ALLOW),
    CELL(rt_tgsigqueueinfo, SIGVALUE, ALLOW, EPERM),
    ALL(perf_event_open, SURFACE, EPERM, "measures other processes and has a long record of bugs"),
    ALL(recvmmsg, SOCKET, ALLOW),
    ALL(fanotify_init, FANOTIFY, EPERM),
    ALL(fanotify_mark, FANOTIFY, EPERM),
    ALL(prlimit64, LIMIT, PRLIMIT,
        "the caller's limits only: a hard limit can be lowered, never raised; another's could be lowered to break it"),
    ALL(name_to_handle_at, HANDLE, EPERM),
    ALL(open_by_handle_at, HANDLE, EPERM),
    ALL(clock_adjtime, CLOCK, EPERM),
    ALL(syncfs, MACHINE, EPERM, "flushes a whole file system of the host; fsync flushes the caller's own files"),
    ALL(sendmmsg, SOCKET, SENDTO, SEND_WHY),
    ALL(setns, NAMESPACE, EPERM),
    ALL(getcpu, SELF, ALLOW),
    ALL(process_vm_readv, TRACE, EPERM),
    ALL(process_vm_writev, TRACE, EPERM),
    ALL(kcmp, TRACE, EPERM),
    ALL(finit_module, MODULE, EPERM),
    ALL(sched_setattr, SCHED, EPERM, "would set its own slice, and others wait; sched_setscheduler and nice remain"),
    ALL(sched_getattr, SCHED, ALLOW),
    ALL(renameat2, FILE, RENAME2),
    ALL(seccomp, SECCOMP, EPERM),
    ALL(getrandom, SELF, ALLOW),
    ALL(memfd_create, MEMORY, MEMFD,
        "anonymous files count against the memory limit, unless made of huge pages; what runs from one stays "
        "under this filter"),
    ALL(kexec_file_load, MODULE, EPERM),
    ALL(bpf, SURFACE, EPERM, "loads programs into the kernel"),
    ALL(execveat, PROCESS, ALLOW),
    ALL(userfaultfd, SURFACE, EPERM,
        "stops the kernel in the middle of a copy, the tool that makes kernel races winnable"),
    ALL(membarrier, MEMORY, MEMBARRIER,
        "barriers among the caller's own threads; the global ones interrupt or wait for every processor"),
    ALL(mlock2, MEMORY, ALLOW),
    ALL(copy_file_range, IO, ALLOW),
    ALL(preadv2, IO, READ_FLAGS, "all but RWF_NOWAIT, by which a read asks whether a page of a file is in memory"),
    ALL(pwritev2, IO, ALLOW),
    ALL(pkey_mprotect, MEMORY, ALLOW),
    ALL(pkey_alloc, MEMORY, ALLOW),
    ALL(pkey_free, MEMORY, ALLOW),
    ALL(statx, FILE, ALLOW),
    ALL(io_pgetevents, AIO, EPERM),
    ALL(rseq, PROCESS, ALLOW),
    LATE(uretprobe, 335, UPROBE),
    LATE(uprobe, 336, UPROBE),
    CELL(pidfd_send_signal, PIDFD, ALLOW, EPERM),
    ALL(io_uring_setup, URING, EPERM),
    ALL(io_uring_enter, URING, EPERM),
    ALL(io_uring_register, URING, EPERM),
    ALL(open_tree, MOUNT, EPERM),
    ALL(move_mount, MOUNT, EPERM),
    ALL(fsopen, MOUNT, EPERM),
    ALL(fsconfig, MOUNT, EPERM),
    ALL(fsmount, MOUNT, EPERM),
    ALL(fspick, MOUNT, EPERM),
    CELL(pidfd_open, PIDFD, ALLOW, EPERM),
    ALL(clone3, BLIND, ENOSYS, "its flags are in memory, where a filter cannot read them: glibc falls back to clone"),
    ALL(close_range, IO, ALLOW),
    ALL(openat2, BLIND, ENOSYS,
        "its flags and mode are in memory, where a filter cannot read them: callers fall back to openat"),
    ALL(pidfd_getfd, TRACE, EPERM),
    ALL(faccessat2, FILE, ALLOW),
    ALL(process_madvise, TRACE, EPERM),
    ALL(epoll_pwait2, EVENT, ALLOW),
    ALL(mount_setattr, MOUNT, EPERM),
    ALL(quotactl_fd, MACHINE, EPERM),
    ALL(landlock_create_ruleset, LANDLOCK, ALLOW),
    ALL(landlock_add_rule, LANDLOCK, ALLOW),
    ALL(landlock_restrict_self, LANDLOCK, ALLOW),
    ALL(memfd_secret, SURFACE, EPERM, "memory that no monitor of the host can read"),
    ALL(process_mrelease, TRACE, EPERM),
    ALL(futex_waitv, NEW, ENOSYS),
    ALL(set_mempolicy_home_node, NEW, ENOSYS),
    LATE(cachestat, 451, NEW),
    LATE(fchmodat2, 452, NEW, "libc falls back to fchmodat, whose mode is checked above"),
    LATE(map_shadow_stack, 453, NEW),
    LATE(futex_wake, 454, NEW),
    LATE(futex_wait, 455, NEW),
    LATE(futex_requeue, 456, NEW),
    LATE(statmount, 457, NEW),
    LATE(listmount, 458, NEW),
    LATE(lsm_get_self_attr, 459, NEW),
    LATE(lsm_set_self_attr, 460, NEW),
    LATE(lsm_list_modules, 461, NEW),
    LATE(mseal, 462, NEW),
    LATE(setxattrat, 463, NEW),
    LATE(getxattrat, 464, NEW),
    LATE(listxattrat, 465, NEW),
    LATE(removexattrat, 466, NEW),
    LATE(open_tree_attr, 467, NEW),
    LATE(file_getattr, 468, NEW),
    LATE(file_setattr, 469, NEW),
};
const size_t kr_sc_rows_count = LEN(kr_sc_rows);
/* clang-format on */

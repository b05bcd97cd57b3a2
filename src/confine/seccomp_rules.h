/* The rows behind the syscall filter: what each call may do under each profile, and why. Read by seccomp.c (which
 * compiles and prints them) and by tests/unit/confine/test-seccomp.c (which works out the expected answer from them).
 * Constant data. Invariant: kr_sc_rows[] is sorted by number, and a check reads nothing but
 * registers, so no other thread can change what was judged. */
#pragma once
#include "seccomp.h"
#include <linux/audit.h>
#include <stddef.h>
#include <stdint.h>

/* Only this block depends on the machine. Another machine needs its AUDIT_ARCH_ here and its own kr_sc_rows[]; the
 * checks are shared as long as its argument order is this one (clone's is not the same everywhere: see
 * CONFIG_CLONE_BACKWARDS in clone(2)). */
#if defined(__x86_64__) && defined(__LP64__)
#define KR_SC_ARCH AUDIT_ARCH_X86_64
#define KR_SC_ARCH_NAME "x86-64"
#else
#error "no syscall table for this machine yet"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the halves of an argument are read in little-endian order"
#endif

/* What happens to a call. Everything from KR_SC_CHECK_FIRST_ on is a row of kr_sc_checks[]. */
enum kr_sc_act {
    KR_SC_ALLOW,
    KR_SC_EPERM,
    KR_SC_ENOSYS,
    KR_SC_EOPNOTSUPP,
    KR_SC_CHECK_FIRST_,
    KR_SC_CLONE = KR_SC_CHECK_FIRST_,
    KR_SC_SOCKET_UNIX,
    KR_SC_SOCKET_INET,
    KR_SC_PAIR_BOUND,
    KR_SC_SOCKOPT,
    KR_SC_MODE1,
    KR_SC_MODE2,
    KR_SC_OPEN,
    KR_SC_OPENAT,
    KR_SC_MKNOD,
    KR_SC_MKNODAT,
    KR_SC_IOCTL,
    KR_SC_IOCTL_CELL,
    KR_SC_IOCTL_INET,
    KR_SC_FCNTL,
    KR_SC_PRCTL,
    KR_SC_PRCTL_SELF,
    KR_SC_OWN_ID,
    KR_SC_OWN_ID2,
    KR_SC_OWN_ID3,
    KR_SC_PERSONALITY,
    KR_SC_PID0,
    KR_SC_PRIO_SELF,
    KR_SC_IOPRIO_SELF,
    KR_SC_MMAP,
    KR_SC_MADVISE,
    KR_SC_MEMFD,
    KR_SC_SHMGET,
    KR_SC_RENAME2,
    KR_SC_SETRLIMIT,
    KR_SC_PRLIMIT,
    KR_SC_SENDTO,
    KR_SC_SENDMSG,
    KR_SC_SEND_CONNECTED,
    KR_SC_GETSOCKOPT,
    KR_SC_FADVISE,
    KR_SC_READ_FLAGS,
    KR_SC_MEMBARRIER,
    KR_SC_ARCH_PRCTL,
    KR_SC_THREAD,
    KR_SC_MMAP_DATA,
    KR_SC_MPROTECT_DATA,
    KR_SC_ABORT,
    KR_SC_PRLIMIT_ASK,
    KR_SC_SOCKET_OUT,
    KR_SC_OWN_CGROUPS,
    KR_SC_PRCTL_SETUP,
    KR_SC_ADD_FILTER,
    KR_SC_ACT_MAX_,
};

enum kr_sc_op {
    KR_SC_END, /* no further test in this rule */
    KR_SC_EQ,  /* (half & mask) == value */
    KR_SC_NE,  /* (half & mask) != value */
    KR_SC_ANY, /* half & value: one of the bits is set */
};

/* One comparison. Most arguments are int, unsigned or umode_t in the kernel, which drops the upper half of the
 * register before it looks: so does the test, or a caller could hide a value from us that the kernel would still
 * see. */
struct kr_sc_test {
    uint8_t op;
    uint8_t arg;
    uint8_t high; /* the upper 32 bits, where the kernel reads an unsigned long */
    uint32_t mask;
    uint32_t value;
};
#define KR_SC_TESTS_MAX 3

/* If every test holds, the call ends in `error` (0: it is let through). */
struct kr_sc_rule {
    const char *label;
    uint16_t error;
    struct kr_sc_test tests[KR_SC_TESTS_MAX];
};

/* Rules are tried in order; the first that matches decides, else `otherwise`. */
struct kr_sc_check {
    const char *name;
    const char *subject; /* what the labels are values of */
    const struct kr_sc_rule *rules;
    size_t count;
    uint16_t otherwise;
};
/* Indexed by act - KR_SC_CHECK_FIRST_. */
extern const struct kr_sc_check kr_sc_checks[KR_SC_ACT_MAX_ - KR_SC_CHECK_FIRST_];

struct kr_sc_row {
    const char *name;
    uint16_t nr;
    uint8_t group;                     /* index into kr_sc_groups[] */
    uint8_t act[KR_SECCOMP_SESSIONS_]; /* enum kr_sc_act */
    const char *why;                   /* "": the group's sentence says it */
};
extern const struct kr_sc_row kr_sc_rows[];
extern const size_t kr_sc_rows_count;
/* The calls with which a zygote makes a session of its copy: judged in the session's own filter, not in the
 * zygote's. */
extern const uint16_t kr_sc_setup[];
extern const size_t kr_sc_setup_count;

/* What the server may use (server_rules.c); the calls that are not here are refused to it. */
struct kr_sc_server_row {
    uint16_t nr;
    uint8_t act; /* enum kr_sc_act */
    const char *why;
};
extern const struct kr_sc_server_row kr_sc_server_rows[];
extern const size_t kr_sc_server_rows_count;
/* What the egress process may use (egress_rules.c), in the same way. */
extern const struct kr_sc_server_row kr_sc_egress_rows[];
extern const size_t kr_sc_egress_rows_count;
/* What a zygote that imports the packages of a template may use of those calls (guest_rules.c), and of those on which
 * the kinds of cell differ; a call that is not here is let through by KR_SECCOMP_GUEST. */
extern const struct kr_sc_server_row kr_sc_guest_rows[];
extern const size_t kr_sc_guest_rows_count;
/* What happens to the call under a profile: enum kr_sc_act. */
unsigned kr_sc_act(const struct kr_sc_row *row, enum kr_seccomp_profile profile);

struct kr_sc_group {
    const char *name;
    const char *why;
};
extern const struct kr_sc_group kr_sc_groups[];
extern const size_t kr_sc_groups_count;

/* What a zygote may ask of the kernel from the moment it imports the packages of a template, of the calls with which it
 * makes sessions and of those on which the kinds of cell differ. All else is judged by the common part of the filter.
 *
 * Read by seccomp.c. Invariant: every row of kr_sc_setup[] that could give more than a session's making needs is here
 * (tests/unit/confine/test-guest-filter.c). What is left: setns() with descriptors that the warden sends, ids of its
 * own user namespace, dropping capabilities. */
#include "seccomp_rules.h"
#include <sys/syscall.h>

#define LEN(a) (sizeof(a) / sizeof *(a))
#define GUEST(name_, act_, why_)                                                                                       \
    {                                                                                                                  \
        .nr = SYS_##name_, .act = KR_SC_##act_, .why = (why_)                                                          \
    }

/* clang-format off */
const struct kr_sc_server_row kr_sc_guest_rows[] = {
    GUEST(ioctl, IOCTL_INET, "those of a session with a network of its own"),
    GUEST(socket, SOCKET_INET, "those of a session with a network of its own"),
    GUEST(prctl, PRCTL_SETUP, "a session's capabilities, its parent's end"),
    GUEST(unshare, OWN_CGROUPS, "a session's view of its control groups"),
    GUEST(prlimit64, PID0, "a session's limits"),
    GUEST(seccomp, ADD_FILTER, "a session's filter"),
};
/* clang-format on */
const size_t kr_sc_guest_rows_count = LEN(kr_sc_guest_rows);

/* Ids and capabilities go, the namespaces are entered, RLIMIT_CORE is set, the session leads its own group and the last
 * filter is put on; the zygote names its child by a pidfd. */
const uint16_t kr_sc_setup[] = {SYS_setns, SYS_unshare,   SYS_setgroups, SYS_setresgid, SYS_setresuid, SYS_capset,
                                SYS_prctl, SYS_prlimit64, SYS_setsid,    SYS_seccomp,   SYS_pidfd_open};
const size_t kr_sc_setup_count = LEN(kr_sc_setup);

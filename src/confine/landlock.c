/* Landlock: the session's last restriction, taken in its own process after its mounts stand and before user code.
 * Called by the session (through the CPython extension) and by what reports the kernel's ABI.
 *
 * Invariant: every right the kernel can handle is handled, so what no path grants is refused. An older kernel
 * handles fewer; nothing is pretended, the ABI that held is returned. What a missing ABI costs:
 *   below 2  renaming or linking across directories fails with EXDEV (the kernel always refuses it)
 *   below 3  truncating a file that may be read is not refused, only opening it for writing is
 *   below 4  TCP bind and connect are not refused here; seccomp and the empty network namespace still do
 *   below 5  device ioctls are not refused here; seccomp's list of commands still does
 *   below 6  signals and abstract sockets are not kept inside; the pid and network namespaces still do (the contained
 *            level has none, and therefore needs 6)
 * What no ABI polices: stat, chmod, chown, utime, xattrs, flock, inotify and connect() to a path socket. Mounts
 * and seccomp answer for those. */
#define _GNU_SOURCE 1
#include "landlock.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Debian 12's headers end at ABI 2, so what came later has its own names here; values from the kernel's
 * landlock.h. */
#define FS_TRUNCATE (1ull << 14)          /* ABI 3 */
#define FS_IOCTL_DEV (1ull << 15)         /* ABI 5 */
#define NET_BIND_TCP (1ull << 0)          /* ABI 4 */
#define NET_CONNECT_TCP (1ull << 1)       /* ABI 4 */
#define SCOPE_ABSTRACT_UNIX (1ull << 0)   /* ABI 6 */
#define SCOPE_SIGNAL (1ull << 1)          /* ABI 6 */
#define SELF_LOG_SAME_EXEC_OFF (1u << 0)  /* ABI 7 */
#define SELF_LOG_SUBDOMAINS_OFF (1u << 2) /* ABI 7 */

/* The first version had the first field only. A kernel takes a longer structure than it knows if the rest is zero. */
struct ruleset_attr {
    uint64_t fs, net, scoped;
};

#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* Everything that changes a directory's content, device nodes and socket files left out. */
#define FS_CHANGE                                                                                                      \
    (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |                    \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM |                        \
     LANDLOCK_ACCESS_FS_REFER)
#define FS_NODES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
#define FS_WRITE_FILE (LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)
/* The rights a rule on something that is not a directory may name; more is EINVAL (landlock_add_rule(2)). */
#define FS_OF_A_FILE (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | FS_WRITE_FILE | FS_IOCTL_DEV)

/* One row per KR_LL_ right that a rule can grant. */
static const struct {
    unsigned right;
    uint64_t fs;
} rights[] = {
    {KR_LL_READ, FS_READ},
    {KR_LL_EXEC, LANDLOCK_ACCESS_FS_EXECUTE},
    {KR_LL_WRITE, FS_WRITE_FILE | FS_CHANGE},
    {KR_LL_WRITE_FILE, FS_WRITE_FILE},
    {KR_LL_IOCTL_DEV, FS_IOCTL_DEV},
    {KR_LL_MAKE_SOCK, LANDLOCK_ACCESS_FS_MAKE_SOCK},
};

/* /dev is written to, never added to; /proc not even that: oom_score_adj, clear_refs and the like are no cell's to
 * choose. /venv is read-only where it is mounted, else an empty folder of the root tree; /krait/packages lies below /.
 * Socket files can be made where only this cell can reach them. The workspace is shared by the sessions of a sandbox,
 * and a path socket ignores network namespaces: through one there a session could hand memory to another and leave it
 * uncounted when it ends. */
const struct kr_landlock_path kr_landlock_cell_paths[] = {
    {"/", KR_LL_READ | KR_LL_EXEC},
    {"/tmp", KR_LL_READ | KR_LL_WRITE | KR_LL_EXEC | KR_LL_MAKE_SOCK},
    {"/dev", KR_LL_READ | KR_LL_WRITE_FILE | KR_LL_IOCTL_DEV},
    {"/dev/shm", KR_LL_READ | KR_LL_WRITE | KR_LL_EXEC | KR_LL_MAKE_SOCK},
    {"/proc", KR_LL_READ},
};
const size_t kr_landlock_cell_paths_count = sizeof kr_landlock_cell_paths / sizeof *kr_landlock_cell_paths;
const struct kr_landlock_path kr_landlock_late_paths[] = {
    {"/workspace", KR_LL_READ | KR_LL_WRITE | KR_LL_EXEC},
    {"/venv", KR_LL_READ | KR_LL_EXEC | KR_LL_MAY_MISS},
};
const size_t kr_landlock_late_paths_count = sizeof kr_landlock_late_paths / sizeof *kr_landlock_late_paths;

int kr_landlock_abi(void)
{
    long r = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    /* ENOSYS: not built in; EOPNOTSUPP: built in, not switched on at boot. */
    return r > 0 ? (int)r : 0;
}

static uint64_t handled_fs(int abi)
{
    uint64_t fs = FS_READ | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_NODES |
                  LANDLOCK_ACCESS_FS_MAKE_SOCK | (FS_CHANGE & ~(uint64_t)LANDLOCK_ACCESS_FS_REFER);

    if (abi >= 2)
        fs |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3)
        fs |= FS_TRUNCATE;
    if (abi >= 5)
        fs |= FS_IOCTL_DEV;
    return fs;
}

static struct ruleset_attr handled(int abi, int tcp)
{
    struct ruleset_attr a = {.fs = handled_fs(abi)};

    if (abi >= 4 && tcp != KR_LANDLOCK_TCP_ALL)
        a.net = NET_BIND_TCP | (tcp == KR_LANDLOCK_TCP_NONE ? NET_CONNECT_TCP : 0);
    if (abi >= 6)
        a.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
    return a;
}

static uint64_t granted(unsigned wanted)
{
    uint64_t fs = 0;

    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        if (wanted & rights[i].right)
            fs |= rights[i].fs;
    }
    return fs;
}

static int add_path(int ruleset, const struct kr_landlock_path *p, uint64_t handled_rights, struct kr_err *err)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = granted(p->rights) & handled_rights};
    cleanup_fd int fd = open(p->path, O_PATH | O_CLOEXEC);
    struct stat st;

    if (fd < 0) {
        if (errno == ENOENT && p->rights & KR_LL_MAY_MISS)
            return 0;
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "Landlock: cannot open %s", p->path);
    }
    if (fstat(fd, &st) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "Landlock: cannot look at %s", p->path);
    if (!S_ISDIR(st.st_mode))
        rule.allowed_access &= FS_OF_A_FILE;
    /* A rule that grants nothing is an error to the kernel (ENOMSG) and nothing to us. */
    if (rule.allowed_access == 0)
        return 0;
    rule.parent_fd = fd;
    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "Landlock: no rule for %s", p->path);
    return 0;
}

/* At most the newest ABI that this code handles; a newer kernel is used as that one. */
static int usable_abi(void)
{
    int abi = kr_landlock_abi();

    return abi > KR_LANDLOCK_ABI_KNOWN ? KR_LANDLOCK_ABI_KNOWN : abi;
}

static int add_paths(int ruleset, const struct kr_landlock_path *paths, size_t count, int abi, struct kr_err *err)
{
    for (size_t i = 0; i < count; i++) {
        int r = add_path(ruleset, &paths[i], handled_fs(abi), err);

        if (r < 0)
            return r;
    }
    return 0;
}

static int make_ruleset(const struct kr_landlock_path *paths, size_t count, int tcp, int abi, struct kr_err *err)
{
    struct ruleset_attr attr = handled(abi, tcp);
    cleanup_fd int ruleset = -1;
    int r;

    if (abi < 1)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "this kernel has no Landlock");
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (ruleset < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "Landlock: cannot make a ruleset for ABI %d", abi);
    r = add_paths(ruleset, paths, count, abi, err);
    return r < 0 ? r : steal_fd(&ruleset);
}

/* Before: the thread reaches what mounts and modes allow. After: it and all it starts, for good, only the paths
 * given, of TCP what `tcp` says, and signals and abstract sockets only within its own domain. If it fails
 * nothing is restricted, so the caller must not go on to user code. */
static int restrict_self(int ruleset, int abi, struct kr_err *err)
{
    /* ABI 7 writes refusals to the audit log. Code in a cell causes them all the time, and a log that a guest can fill
     * is a hole. */
    unsigned flags = abi >= 7 ? SELF_LOG_SAME_EXEC_OFF | SELF_LOG_SUBDOMAINS_OFF : 0;

    if (syscall(SYS_landlock_restrict_self, ruleset, flags) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "Landlock: cannot restrict the session");
    return abi;
}

int kr_landlock_restrict_abi(const struct kr_landlock_path *paths, size_t count, int tcp, int abi, struct kr_err *err)
{
    cleanup_fd int ruleset = make_ruleset(paths, count, tcp, abi, err);

    return ruleset < 0 ? ruleset : restrict_self(ruleset, abi, err);
}

int kr_landlock_restrict(const struct kr_landlock_path *paths, size_t count, int tcp, struct kr_err *err)
{
    return kr_landlock_restrict_abi(paths, count, tcp, usable_abi(), err);
}

int kr_landlock_ruleset(const struct kr_landlock_path *paths, size_t count, int tcp, struct kr_err *err)
{
    return make_ruleset(paths, count, tcp, usable_abi(), err);
}

int kr_landlock_enforce(int ruleset, const struct kr_landlock_path *paths, size_t count, struct kr_err *err)
{
    cleanup_fd int own = ruleset;
    int abi = usable_abi(), r;

    if (own < 0 || abi < 1)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "there is no Landlock ruleset to enforce");
    r = add_paths(own, paths, count, abi, err);
    return r < 0 ? r : restrict_self(own, abi, err);
}

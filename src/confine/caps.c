/* Capabilities and ids of the calling thread. Raw system calls: glibc's setresuid() signals other threads, and libcap
 * has nothing shorter. */
#include "caps.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int caps_get(struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    return syscall(SYS_capget, &head, data) < 0 ? -errno : 0;
}

uint64_t kr_caps_effective(void)
{
    struct __user_cap_data_struct data[2];
    if (caps_get(data) < 0)
        return 0;
    return (uint64_t)data[1].effective << 32 | data[0].effective;
}

/* May a capability stay in the bounding set because it cannot be taken out? Only where the process never had a
 * capability (a plain user has none, not even CAP_SETPCAP) and no exec can draw from the set (no_new_privs). */
static int may_stay_bound(void)
{
    struct __user_cap_data_struct data[2];
    return caps_get(data) == 0 && data[0].permitted == 0 && data[1].permitted == 0 &&
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

/* The bounding set becomes these at most; the other sets stay. CAP_SETPCAP is needed as long as there is something to
 * take out: so before an id is changed, which loses it. A process that never had a capability and is under no_new_privs
 * keeps its bounding set, from which nothing can be drawn. 0 or -errno. */
static int shrink_bounding_set(uint64_t keep, struct kr_err *err)
{
    for (int cap = 0; cap < 64; cap++) {
        int has = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        if (has < 0 && errno == EINVAL) /* past the kernel's last capability */
            return 0;
        if (has < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, errno, "read the bounding set");
        if (!has || (keep & KR_CAP(cap)) || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
            continue;
        if (errno == EPERM && may_stay_bound())
            return 0;
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "drop capability %d from the bounding set (needs CAP_SETPCAP)",
                          cap);
    }
    return 0;
}

int kr_caps_hold(uint64_t keep, struct kr_err *err)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    int r;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "clear ambient capabilities");
    r = caps_get(data);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "capget");
    for (int i = 0; i < 2; i++) {
        data[i].permitted &= (uint32_t)(keep >> (32 * i));
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &head, data) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "capset");
    return 0;
}

int kr_caps_keep(uint64_t keep, struct kr_err *err)
{
    int r = shrink_bounding_set(keep, err);
    return r < 0 ? r : kr_caps_hold(keep, err);
}

int kr_no_new_privs(struct kr_err *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "no_new_privs");
    return 0;
}

/* A namespace whose maker could give no group away says "deny", and setgroups() is EPERM in it (user_namespaces(7)). */
static int groups_are_denied(void)
{
    char text[16];
    return kr_fd_read_file_at(AT_FDCWD, "/proc/self/setgroups", text, sizeof text) > 0 && strncmp(text, "deny", 4) == 0;
}

int kr_become(uint32_t uid, uint32_t gid, struct kr_err *err)
{
    if (syscall(SYS_setgroups, 0, NULL) < 0) {
        int code = errno;
        if (code != EPERM || (syscall(SYS_getgroups, 0, NULL) != 0 && !groups_are_denied()))
            return kr_err_set(err, KR_ERR_SYSTEM, code, "setgroups");
    }
    if (syscall(SYS_setresgid, gid, gid, gid) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "setresgid %u", gid);
    if (syscall(SYS_setresuid, uid, uid, uid) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "setresuid %u", uid);
    return 0;
}

/* Before: the host's root, or the user who started us. After: the user given, or the same, who can gain nothing. The
 * bounding set goes first: a change of ids takes away CAP_SETPCAP, without which it stays full. If it fails the caller
 * must not go on. */
int kr_become_powerless(uint32_t uid, uint32_t gid, struct kr_err *err)
{
    int r;
    if ((r = kr_no_new_privs(err)) < 0 || (r = shrink_bounding_set(0, err)) < 0)
        return r;
    if (uid != 0 && geteuid() == 0 && (r = kr_become(uid, gid, err)) < 0)
        return r;
    return kr_caps_keep(0, err);
}

/* Before: root of a user namespace. After: an id that owns nothing there, with these capabilities, which an exec
 * keeps (ambient ones), and no way to another. The bounding set goes first, as long as there is CAP_SETPCAP; the
 * change of ids clears all but the permitted set. If it fails the caller must not go on. */
int kr_caps_pass_on(uint32_t id, uint64_t caps, struct kr_err *err)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    int r = shrink_bounding_set(caps, err);
    if (r < 0)
        return r;
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "keep capabilities");
    if ((r = kr_become(id, id, err)) < 0)
        return r;
    for (int i = 0; i < 2; i++)
        data[i].permitted = data[i].effective = data[i].inheritable = (uint32_t)(caps >> (32 * i));
    if (syscall(SYS_capset, &head, data) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "capset");
    for (int cap = 0; cap < 64; cap++)
        if ((caps & KR_CAP(cap)) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, errno, "keep capability %d over an exec", cap);
    if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "keep capabilities no longer");
    return 0;
}

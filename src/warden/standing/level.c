/* Levels and ids. The trial in a child is the only honest test for user namespaces: sysctls, AppArmor and seccomp
 * filters can each forbid them. */
#include "level.h"
#include "caps.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEEDED (KR_CAP(CAP_SYS_ADMIN) | KR_CAP(CAP_SETUID) | KR_CAP(CAP_SETGID))
#define FULL_FIRST 0x70000000u /* no distribution allocates ids here; systemd's ranges end below */
#define FULL_PER_SLOT 65536u
#define FULL_SLOTS 2048u
#define SMALL_PER_SLOT 1024u

/* errno of trying to make the namespaces a cell is made of, or 0. */
static int try_namespaces(void)
{
    int status;
    pid_t pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0) {
        int flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET;
        if (unshare(flags) < 0)
            _exit(errno);
        /* Ubuntu 24.04 lets the call through and takes the capabilities away instead. */
        _exit((kr_caps_effective() & NEEDED) == NEEDED ? 0 : EPERM);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return errno;
    if (!WIFEXITED(status))
        return EIO;
    return WEXITSTATUS(status);
}

static long long read_number(const char *path, long long otherwise)
{
    char text[64];
    return kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text) > 0 ? strtoll(text, NULL, 10) : otherwise;
}

/* In a chroot no mount is at "/", and the kernel refuses user namespaces (user_namespaces(7)). */
static int in_chroot(void)
{
    static char text[65536];
    return kr_fd_read_file_at(AT_FDCWD, "/proc/self/mountinfo", text, sizeof text) > 0 && !strstr(text, " / / ");
}

/* Which setting is in the way; the first that applies. */
static const char *namespace_fix(int code)
{
    if (code == EPERM && in_chroot())
        return "this is a chroot, where the kernel refuses them: pivot_root into it instead";
    if (read_number("/proc/sys/user/max_user_namespaces", 1) == 0)
        return "sysctl user.max_user_namespaces=10000";
    if (read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
        return "sysctl kernel.apparmor_restrict_unprivileged_userns=0";
    if (read_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
        return "sysctl kernel.unprivileged_userns_clone=1";
    if (code == ENOSPC)
        return "sysctl user.max_user_namespaces=10000";
    return "in a container: --security-opt seccomp=deploy/seccomp-krait.json, or --allow-contained for the weaker "
           "level";
}

int kr_level_find(int wanted, int allow_contained, enum kr_level *ret, struct kr_err *err)
{
    int privileged = (kr_caps_effective() & NEEDED) == NEEDED;
    int code;
    if (wanted == KR_LEVEL_ROOT && !privileged)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EPERM, "level root needs CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID");
    if (wanted == KR_LEVEL_CONTAINED && !allow_contained)
        return kr_err_set(err, KR_ERR_DENIED, 0, "level contained must be allowed: --allow-contained");
    if (wanted == KR_LEVEL_CONTAINED) {
        *ret = KR_LEVEL_CONTAINED;
        return 0;
    }
    code = try_namespaces();
    if (code == 0) {
        *ret = wanted >= 0 ? (enum kr_level)wanted : privileged ? KR_LEVEL_ROOT : KR_LEVEL_USER;
        return 0;
    }
    if (allow_contained && wanted < 0) {
        *ret = KR_LEVEL_CONTAINED;
        return 0;
    }
    return kr_err_set(err, KR_ERR_UNAVAILABLE, code, "no user namespaces here (%s)", namespace_fix(code));
}

/* The largest range above the system's own ids in a uid_map or gid_map; both maps must have it, so it is asked
 * twice. */
static void largest_range(const char *path, uint32_t *first, uint32_t *count)
{
    char text[4096], *save = NULL;
    *first = *count = 0;
    if (kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        unsigned long inside, outside, n;
        if (sscanf(line, "%lu %lu %lu", &inside, &outside, &n) != 3)
            continue;
        if (inside < 1000 && n > 1000 - inside) { /* ids below 1000 belong to the system that runs here */
            n -= 1000 - inside;
            inside = 1000;
        }
        if (inside >= 1000 && n > *count) {
            *first = (uint32_t)inside;
            *count = (uint32_t)n;
        }
    }
}

void kr_ids_find(enum kr_level level, struct kr_id_space *ret)
{
    uint32_t u, un, g, gn;
    *ret = (struct kr_id_space){.first = 0, .per_slot = 1, .slots = 1024};
    if (level != KR_LEVEL_ROOT)
        return;
    largest_range("/proc/self/uid_map", &u, &un);
    largest_range("/proc/self/gid_map", &g, &gn);
    if (u != g || un != gn)
        return;
    if (u <= FULL_FIRST && (uint64_t)u + un >= (uint64_t)FULL_FIRST + (uint64_t)FULL_PER_SLOT * FULL_SLOTS)
        *ret = (struct kr_id_space){FULL_FIRST, FULL_PER_SLOT, FULL_SLOTS};
    else if (un >= 8 * SMALL_PER_SLOT) /* the upper half: the lower is where a distribution puts its users */
        *ret = (struct kr_id_space){u + un / 2, SMALL_PER_SLOT, un / 2 / SMALL_PER_SLOT};
}

int kr_maps_write(int pid, const char *map_uid, const char *map_gid, int deny_setgroups, struct kr_err *err)
{
    const struct {
        const char *file, *text;
    } writes[] = {{"setgroups", deny_setgroups ? "deny" : NULL}, {"uid_map", map_uid}, {"gid_map", map_gid}};
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        char path[64];
        int r;
        if (!writes[i].text)
            continue;
        snprintf(path, sizeof path, "/proc/%d/%s", pid, writes[i].file);
        r = kr_fd_write_file_at(AT_FDCWD, path, writes[i].text);
        if (r < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, -r, "write %s", writes[i].file);
    }
    return 0;
}

int kr_level_enter(struct kr_err *err)
{
    char map_uid[32], map_gid[32];
    snprintf(map_uid, sizeof map_uid, "0 %u 1\n", geteuid());
    snprintf(map_gid, sizeof map_gid, "0 %u 1\n", getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "enter a user namespace");
    return kr_maps_write(getpid(), map_uid, map_gid, 1, err);
}

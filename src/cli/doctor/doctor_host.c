/* What can be said where no cell could be made: each namespace and each filter tried alone, in a child, and the
 * setting that is in the way.
 *
 * Called by cmd_doctor.c after kr_warden_launch() has failed. Invariant: nothing is changed here: every trial is a
 * child that ends at once. */
#include "doctor.h"
#include "caps.h"
#include "clock.h"
#include "fd.h"
#include "landlock.h"
#include "seccomp.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    enum kr_doctor_layer layer;
    int flag;
    const char *setting; /* beneath /proc/sys/user */
} spaces[] = {
    {KR_DOC_USER, CLONE_NEWUSER, "max_user_namespaces"},
    {KR_DOC_PID, CLONE_NEWPID, "max_pid_namespaces"},
    {KR_DOC_MOUNT, CLONE_NEWNS, "max_mnt_namespaces"},
    {KR_DOC_NETWORK, CLONE_NEWNET, "max_net_namespaces"},
    {KR_DOC_IPC, CLONE_NEWIPC, "max_ipc_namespaces"},
    {KR_DOC_UTS, CLONE_NEWUTS, "max_uts_namespaces"},
    {KR_DOC_CGROUPNS, CLONE_NEWCGROUP, "max_cgroup_namespaces"},
};

static long long setting(const char *path, long long otherwise)
{
    char full[128], text[64];

    snprintf(full, sizeof full, "/proc/sys/%s", path);
    return kr_fd_read_file_at(AT_FDCWD, full, text, sizeof text) > 0 ? strtoll(text, NULL, 10) : otherwise;
}

/* Is there a syscall filter on us already, as a container engine sets one? */
static bool filtered(void)
{
    char text[4096];
    const char *at;

    return kr_fd_read_file_at(AT_FDCWD, "/proc/self/status", text, sizeof text) > 0 &&
           (at = strstr(text, "\nSeccomp:")) && strtol(at + 9, NULL, 10) == 2;
}

static int in_child(int (*fn)(int arg), int arg)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(fn(arg));
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
        return EIO;
    return WEXITSTATUS(status);
}

/* The namespace inside a new user namespace: as a cell is made. */
static int try_unshare(int flag)
{
    if (unshare(CLONE_NEWUSER | flag) < 0)
        return errno;
    return kr_caps_effective() & KR_CAP(21)
               ? 0
               : EPERM; /* CAP_SYS_ADMIN; Ubuntu 24.04 takes it away instead of refusing the call */
}

/* ---- why, and what helps ---- */

static void user_namespace_fix(struct kr_doctor_report *r, int error)
{
    if (setting("user/max_user_namespaces", 1) == 0 || error == ENOSPC)
        kr_doctor_fix(r, KR_DOC_USER, "sysctl -w user.max_user_namespaces=10000 (to keep it: a file in /etc/sysctl.d)");
    else if (setting("kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
        kr_doctor_fix(r, KR_DOC_USER,
                      "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for krait with "
                      "`userns,`");
    else if (setting("kernel/unprivileged_userns_clone", 1) == 0)
        kr_doctor_fix(r, KR_DOC_USER, "sysctl -w kernel.unprivileged_userns_clone=1");
    else
        kr_doctor_fix(
            r, KR_DOC_USER,
            "in a container: --security-opt seccomp=deploy/seccomp-krait.json --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined; or the weaker level: krait … --allow-contained");
}

static void explain_user(struct kr_doctor_report *r, int error)
{
    char word[24], found[200] = "";
    static const char *const names[] = {"user/max_user_namespaces", "kernel/apparmor_restrict_unprivileged_userns",
                                        "kernel/unprivileged_userns_clone"};
    static const long long bad[] = {0, 1, 0};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char dotted[64];

        if (setting(names[i], -1) != bad[i])
            continue;
        snprintf(dotted, sizeof dotted, "%s", names[i]);
        *strchr(dotted, '/') = '.';
        snprintf(found + strlen(found), sizeof found - strlen(found), ", %s is %lld", dotted, bad[i]);
    }
    if (filtered())
        snprintf(found + strlen(found), sizeof found - strlen(found), ", a seccomp filter is set on this process");
    kr_doctor_set(r, KR_DOC_USER, KR_DOCTOR_MISSING, "unshare: %s%s", kr_doctor_word(error, word, sizeof word), found);
    user_namespace_fix(r, error);
}

static void try_namespaces(struct kr_doctor_report *r)
{
    int user = in_child(try_unshare, 0);
    char word[24], path[64];

    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        int error = user ? user : in_child(try_unshare, spaces[i].flag);

        if (error == 0) {
            kr_doctor_set(r, spaces[i].layer, KR_DOCTOR_OK, "can be made (tried alone, outside a cell)");
            continue;
        }
        if (spaces[i].layer == KR_DOC_USER) {
            explain_user(r, error);
            continue;
        }
        snprintf(path, sizeof path, "user/%s", spaces[i].setting);
        if (user)
            kr_doctor_set(r, spaces[i].layer, KR_DOCTOR_MISSING, "needs the user namespace");
        else
            kr_doctor_set(r, spaces[i].layer, KR_DOCTOR_MISSING, "unshare: %s, user.%s is %lld",
                          kr_doctor_word(error, word, sizeof word), spaces[i].setting, setting(path, -1));
        if (user)
            kr_doctor_fix(r, spaces[i].layer, "%s", r->findings[KR_DOC_USER].fix);
        else if (setting(path, 1) == 0)
            kr_doctor_fix(r, spaces[i].layer, "sysctl -w user.%s=10000", spaces[i].setting);
    }
}

/* ---- filters ---- */

/* 0 if a file that may be read may not be written any more. */
static int try_landlock(int arg)
{
    static const struct kr_landlock_path paths[] = {{"/", KR_LL_READ | KR_LL_EXEC}};
    struct kr_err err;

    (void)arg;
    if (kr_no_new_privs(&err) < 0 || kr_landlock_restrict(paths, 1, 0, &err) < 0)
        return err.code ? err.code : EIO;
    return open("/dev/null", O_WRONLY | O_CLOEXEC) < 0 && errno == EACCES ? 0 : EIO;
}

static int try_seccomp(int arg)
{
    struct kr_seccomp filter;
    struct kr_err err;

    (void)arg;
    if (kr_no_new_privs(&err) < 0 || kr_seccomp_compile(KR_SECCOMP_CELL_NONE, KR_SECCOMP_WHOLE, &filter, &err) < 0 ||
        kr_seccomp_install(&filter, &err) < 0)
        return err.code ? err.code : EIO;
    return syscall(SYS_keyctl, 0xffff, 0, 0, 0) < 0 && errno == EPERM ? 0 : EIO;
}

static void try_filters(struct kr_doctor_report *r)
{
    int landlock = in_child(try_landlock, 0), seccomp = in_child(try_seccomp, 0);
    char word[24];

    if (landlock == 0)
        kr_doctor_set(r, KR_DOC_LANDLOCK, KR_DOCTOR_OK, "ABI %d (tried alone, outside a cell)", kr_landlock_abi());
    else
        kr_doctor_set(r, KR_DOC_LANDLOCK, KR_DOCTOR_MISSING, "ABI %d: %s", kr_landlock_abi(),
                      kr_doctor_word(landlock, word, sizeof word));
    if (seccomp == 0)
        kr_doctor_set(r, KR_DOC_SECCOMP, KR_DOCTOR_OK, "the filter can be set (tried alone, outside a cell)");
    else
        kr_doctor_set(r, KR_DOC_SECCOMP, KR_DOCTOR_MISSING, "%s", kr_doctor_word(seccomp, word, sizeof word));
}

void kr_doctor_host(struct kr_doctor_report *r)
{
    try_namespaces(r);
    try_filters(r);
    for (int i = 0; i < KR_DOC_MAX_; i++)
        if (r->findings[i].state == KR_DOCTOR_UNTRIED)
            kr_doctor_set(r, (enum kr_doctor_layer)i, KR_DOCTOR_UNTRIED, "not tried: there is no cell to try it in");
}

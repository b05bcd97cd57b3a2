/* The rows of `krait doctor`: one table, filled up from the layers' own.
 *
 * Called by everything of doctor. Invariant: a layer that the warden knows is described once
 * (src/warden/layers.c). */
#include "doctor.h"
#include "utf8.h"
#include <assert.h>
#include <stdarg.h>
#include <string.h>

/* clang-format off */
static const struct kr_doctor_row rows[] = {
    [KR_DOC_USER]     = {"Namespaces", "user", KR_LAYER_USERNS, NULL, NULL, NULL, 0},
    [KR_DOC_PID]      = {"Namespaces", "pid", KR_LAYER_PIDNS, NULL, NULL, NULL, 0},
    [KR_DOC_MOUNT]    = {"Namespaces", "mount", KR_LAYER_MOUNTNS, NULL, NULL, NULL, 0},
    [KR_DOC_NETWORK]  = {"Namespaces", "network", KR_LAYER_NETNS, NULL, NULL, NULL, 0},
    [KR_DOC_IPC]      = {"Namespaces", "ipc", KR_LAYER_IPCNS, NULL, NULL, NULL, 0},
    [KR_DOC_UTS]      = {"Namespaces", "uts", KR_LAYER_UTSNS, NULL, NULL, NULL, 0},
    [KR_DOC_CGROUPNS] = {"Namespaces", "cgroup", KR_LAYER_CGROUPNS, NULL, NULL, NULL, 0},
    [KR_DOC_LANDLOCK] = {"Restrictions", "Landlock", KR_LAYER_LANDLOCK, NULL, NULL, NULL, 0},
    [KR_DOC_SECCOMP]  = {"Restrictions", "seccomp", KR_LAYER_SECCOMP, NULL, NULL, NULL, 0},
    [KR_DOC_NNP]      = {"Restrictions", "no new privileges", 0, "no_new_privs",
        "a set-id program gives a session another user's rights", "a kernel with no_new_privs (3.5 or later)", 1},
    [KR_DOC_CAPS]     = {"Restrictions", "capabilities", 0, "capabilities",
        "a session has rights over its own namespaces, and with them more of the kernel to attack",
        "nothing to be set: krait gives them up itself", 1},
    [KR_DOC_UIDS]     = {"Restrictions", "ids of its own", KR_LAYER_UIDS, NULL, NULL, NULL, 0},
    [KR_DOC_PROC]     = {"Restrictions", "/proc", KR_LAYER_PROC, NULL, NULL, NULL, 0},
    [KR_DOC_FILES]    = {"Restrictions", "inodes of its own", KR_LAYER_FILES, NULL, NULL, NULL, 0},
    [KR_DOC_DEVICES]  = {"Restrictions", "device nodes", KR_LAYER_DEVICES, NULL, NULL, NULL, 0},
    [KR_DOC_TERMINALS] = {"Restrictions", "terminals", KR_LAYER_TERMINALS, NULL, NULL, NULL, 0},
    [KR_DOC_GAUGES]   = {"Restrictions", "limits in /proc", KR_LAYER_GAUGES, NULL, NULL, NULL, 0},
    [KR_DOC_CORE]     = {"Restrictions", "no core dumps", 0, "core_dumps",
        "a crash writes a session's memory to disk, or starts the host's crash handler",
        "start krait with a hard limit for core files other than 0 (ulimit -Hc unlimited); krait lowers it itself", 1},
    [KR_DOC_CGROUP]   = {"Limits", "cgroups", 0, "cgroup_backend",
        "limits count single processes, not the whole session",
        "run as root, or in a delegated cgroup: systemd-run --user --scope -p Delegate=yes krait …", 0},
    [KR_DOC_MEMORY]   = {"Limits", "memory", KR_LAYER_CGROUP_MEMORY, NULL, NULL, NULL, 0},
    [KR_DOC_PIDS]     = {"Limits", "processes", KR_LAYER_CGROUP_PIDS, NULL, NULL, NULL, 0},
    [KR_DOC_CPU]      = {"Limits", "CPU share", KR_LAYER_CGROUP_CPU, NULL, NULL, NULL, 0},
    [KR_DOC_DISK]     = {"Limits", "disk, throw-away", 0, "disk_quota", "a session can fill the disk of the host",
        "it comes with the mount namespace: see there", 1},
    [KR_DOC_FOLDER]   = {"Limits", "disk, host folders", 0, "disk_quota_folders",
        "between two looks a session can write more than its limit to a host folder",
        "give --workspace a folder on a filesystem of the size it may have", 0},
    [KR_DOC_SHELF]    = {"Limits", "disk, sandboxes", 0, "disk_quota_sandboxes",
        "between two looks of the server a sandbox can hold more than its limit",
        "run as root with loop devices and btrfs-progs, or put the data directory on a filesystem with project quotas",
        0},
    [KR_DOC_BASIC]    = {"Zygotes", "basic", 0, "zygote_basic", "nothing can be run",
        "a Python from 3.8 on: apt-get install python3, or --python PATH", 1},
    [KR_DOC_DATA]     = {"Zygotes", "data", 0, "zygote_data",
        "no session starts with numpy, pandas, scipy and matplotlib imported",
        "apt-get install python3-numpy python3-pandas python3-scipy python3-matplotlib", 0},
};
/* clang-format on */
static_assert(sizeof rows / sizeof rows[0] == KR_DOC_MAX_, "every layer has its row");

struct kr_doctor_row kr_doctor_row(enum kr_doctor_layer layer)
{
    struct kr_doctor_row row = rows[layer];

    for (size_t i = 0; row.bit && i < kr_layer_rows_count; i++) {
        if (kr_layer_rows[i].bit != row.bit)
            continue;
        row.name = kr_layer_rows[i].name;
        row.lost = kr_layer_rows[i].lost;
        row.fix = kr_layer_rows[i].fix;
        row.required = kr_layer_rows[i].required;
    }
    return row;
}

/* Text that came from elsewhere, fit for a terminal. */
static void clean(char *text)
{
    text[kr_utf8_complete(text, strlen(text))] = '\0';
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
}

void kr_doctor_set(struct kr_doctor_report *r, enum kr_doctor_layer layer, enum kr_doctor_state state, const char *fmt,
                   ...)
{
    struct kr_doctor_finding *f = &r->findings[layer];
    va_list ap;

    f->state = state;
    va_start(ap, fmt);
    vsnprintf(f->detail, sizeof f->detail, fmt, ap);
    va_end(ap);
    clean(f->detail);
}

void kr_doctor_fix(struct kr_doctor_report *r, enum kr_doctor_layer layer, const char *fmt, ...)
{
    struct kr_doctor_finding *f = &r->findings[layer];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(f->fix, sizeof f->fix, fmt, ap);
    va_end(ap);
    clean(f->fix);
}

bool kr_doctor_holds(const struct kr_doctor_report *r)
{
    for (int i = 0; i < KR_DOC_MAX_; i++) {
        enum kr_doctor_state state = r->findings[i].state;

        if (state == KR_DOCTOR_FAILED || (kr_doctor_row((enum kr_doctor_layer)i).required && state != KR_DOCTOR_OK))
            return false;
    }
    return r->level >= 0 && r->finished;
}

/* The layers of a cell, one row each: what doctor prints, what --json reports, what a start may insist on. */
#include "warden.h"

const char *const kr_level_names[KR_LEVEL_MAX_] = {"root", "user", "contained"};

#define USERNS_FIX                                                                                                     \
    "sysctl user.max_user_namespaces=10000 (Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0; in a container: "  \
    "deploy/seccomp-krait.json)"
#define CGROUP_FIX "run as root, or in a delegated cgroup: systemd-run --user --scope -p Delegate=yes krait …"

/* clang-format off */
const struct kr_layer_row kr_layer_rows[] = {
    {KR_LAYER_USERNS, "user_namespace", "user namespace", "root inside the cell would be root outside", USERNS_FIX, 1},
    {KR_LAYER_PIDNS, "pid_namespace", "pid namespace", "a session sees and signals other processes", USERNS_FIX, 1},
    {KR_LAYER_MOUNTNS, "mount_namespace", "mount namespace", "a session sees the host's files", USERNS_FIX, 1},
    {KR_LAYER_NETNS, "network_namespace", "network namespace", "abstract sockets and interfaces are shared", USERNS_FIX,
     1},
    {KR_LAYER_IPCNS, "ipc_namespace", "ipc namespace", "SysV and POSIX queues are shared", USERNS_FIX, 1},
    {KR_LAYER_UTSNS, "uts_namespace", "uts namespace", "the host's name is visible", USERNS_FIX, 1},
    {KR_LAYER_CGROUPNS, "cgroup_namespace", "cgroup namespace", "the host's cgroup paths are visible", USERNS_FIX, 1},
    {KR_LAYER_CGROUP_MEMORY, "cgroup_memory", "memory limit by cgroup",
     "memory is limited per process only (RLIMIT_DATA), shared memory not at all", CGROUP_FIX, 0},
    {KR_LAYER_CGROUP_PIDS, "cgroup_pids", "process limit by cgroup", "processes are limited by RLIMIT_NPROC only",
     CGROUP_FIX, 0},
    {KR_LAYER_CGROUP_CPU, "cgroup_cpu", "CPU share by cgroup",
     "a session may use every core, and go on after a run has ended: background and background_cpu do nothing",
     CGROUP_FIX, 0},
    {KR_LAYER_UIDS, "unique_ids", "ids of its own", "all cells share our host uid", "run as root", 0},
    {KR_LAYER_PROC, "proc", "fresh /proc",
     "no /proc of its own: it is empty and ps, /proc/self and some libraries fail (at level contained: krait's own, "
     "behind Landlock)", "a host whose /proc is not masked (docker: --security-opt systempaths=unconfined)", 0},
    {KR_LAYER_FILES, "private_files", "inodes of its own",
     "a lock on a system file or in a data set reaches the host and other cells",
     "a kernel that mounts overlays in user namespaces (5.11), no mounts inside /usr, at most one overlay beneath", 0},
    {KR_LAYER_DEVICES, "private_devices", "device nodes of its own",
     "a lock on /dev/null, /dev/zero or another of its devices reaches the host and other cells", "run as root", 0},
    {KR_LAYER_TERMINALS, "terminals", "pseudo-terminals of its own",
     "there is no /dev/ptmx: pty, pexpect, script and other programs that need a terminal fail",
     "a kernel that mounts devpts in user namespaces (4.7); level contained has none", 0},
    {KR_LAYER_GAUGES, "gauges", "limits and use in /proc",
     "free, top and psutil do not work, or show a session's limits without its use",
     "a /proc of its own, and cgroups: see there", 0},
    {KR_LAYER_LANDLOCK, "landlock", "Landlock", "no second wall behind the mount namespace",
     "a kernel with CONFIG_SECURITY_LANDLOCK and lsm=landlock,…", 1},
    {KR_LAYER_SECCOMP, "seccomp", "seccomp filter", "every system call of the kernel is reachable",
     "a kernel with CONFIG_SECCOMP_FILTER", 1},
};
/* clang-format on */
const size_t kr_layer_rows_count = sizeof kr_layer_rows / sizeof *kr_layer_rows;

void kr_warden_config_default(struct kr_warden_config *c)
{
    *c = (struct kr_warden_config){
        .level = -1, .stock = 0, .max_cells = 1024, .rotate_after = 1000, .rotate_rest_ms = 30000};
    for (size_t i = 0; i < kr_layer_rows_count; i++)
        if (kr_layer_rows[i].required)
            c->required |= kr_layer_rows[i].bit;
}

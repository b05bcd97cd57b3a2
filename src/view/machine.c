/* What a cell may know of the machine it is on, as text: tables of files, one row each.
 *
 * Called by the builder, once per family. Invariant: of the host come the lines of /proc/cpuinfo that CPUID tells as
 * well, the names that uname(2) gives, and bounds of the kernel that a program can find by trying; nothing that says
 * how long or how hard the machine works, and no number by which one machine is told from another. */
#include "machine.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define BLOCK_MAX 8192

/* Lines of /proc/cpuinfo, by machine: x86, then arm64. Not the frequency, which tells the load, nor the microcode. */
static const char *const shown[] = {"vendor_id",  "cpu family",  "model",           "model name",       "stepping",
                                    "cache size", "fpu",         "fpu_exception",   "cpuid level",      "wp",
                                    "flags",      "bogomips",    "clflush size",    "cache_alignment",  "address sizes",
                                    "BogoMIPS",   "Features",    "CPU implementer", "CPU architecture", "CPU variant",
                                    "CPU part",   "CPU revision"};

/* Files of `machine` itself; NULL: made by write_version(). */
static const struct {
    const char *name, *text;
} files[] = {
    {"vmstat", "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\n"},
    {"filesystems", "nodev\tproc\nnodev\ttmpfs\nnodev\toverlay\n\text4\n\txfs\n\tbtrfs\n"},
    {"diskstats", ""},
};

/* Folders and files of /proc/sys. Text NULL: the host's value, if it has one. */
static const char *const sys_dirs[] = {"", "/kernel", "/vm", "/fs", "/net", "/net/core", "/devices", "/devices/cpu"};
static const struct {
    const char *name, *text;
} sys_files[] = {
    {"kernel/ostype", NULL},        {"kernel/osrelease", NULL},        {"kernel/version", NULL},
    {"kernel/hostname", "krait\n"}, {"kernel/domainname", "(none)\n"}, {"kernel/pid_max", NULL},
    {"kernel/cap_last_cap", NULL},  {"kernel/ngroups_max", NULL},      {"kernel/overflowuid", NULL},
    {"kernel/overflowgid", NULL},   {"vm/overcommit_memory", NULL},    {"vm/max_map_count", NULL},
    {"fs/nr_open", NULL},           {"fs/pipe-max-size", NULL},        {"net/core/somaxconn", "4096\n"},
};
/* What /sys/devices/system/cpu has, which is a link to /proc/sys/devices/cpu. */
static const char *const cpu_lists[] = {"online", "possible", "present"};

static int write_text(int dir, const char *path, const char *text, size_t len)
{
    cleanup_fd int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    return fd < 0 ? -errno : kr_fd_write_all(fd, text, len);
}

static int write_version(int dir)
{
    struct utsname u;
    char text[512];
    int n;
    if (uname(&u) < 0)
        return -errno;
    n = snprintf(text, sizeof text, "Linux version %s (krait) %s\n", u.release, u.version);
    return write_text(dir, "version", text, (size_t)n);
}

static int is_shown(const char *line)
{
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        size_t len = strlen(shown[i]);
        if (strncmp(line, shown[i], len) == 0 && (line[len] == '\t' || line[len] == ':'))
            return 1;
    }
    return 0;
}

/* The shown lines of the first processor. Its length; 0 where the host shows nothing. */
static size_t read_block(char block[BLOCK_MAX])
{
    char text[BLOCK_MAX];
    size_t len = 0;
    cleanup_fd int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    for (char *line = text, *end; n > 0 && (end = strchr(line, '\n')) && end != line; line = end + 1) {
        if (is_shown(line)) {
            memcpy(block + len, line, (size_t)(end + 1 - line));
            len += (size_t)(end + 1 - line);
        }
    }
    return len;
}

static int write_cpuinfo(int dir, unsigned cpus, const char *block, size_t len)
{
    cleanup_fd int fd = openat(dir, "cpuinfo", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    char text[160];
    int r = fd < 0 ? -errno : 0;
    for (unsigned i = 0; r >= 0 && i < cpus; i++) {
        int n = snprintf(text, sizeof text, "processor\t: %u\n", i);
        r = kr_fd_write_all(fd, text, (size_t)n);
        if (r >= 0)
            r = kr_fd_write_all(fd, block, len);
        n = snprintf(text, sizeof text, "physical id\t: 0\nsiblings\t: %u\ncore id\t\t: %u\ncpu cores\t: %u\n\n", cpus,
                     i, cpus);
        if (r >= 0)
            r = kr_fd_write_all(fd, text, (size_t)n);
    }
    return r;
}

static int write_cpu_lists(int dir, unsigned cpus)
{
    char path[64], text[32];
    int r = 0, n = snprintf(text, sizeof text, cpus == 1 ? "0\n" : "0-%u\n", cpus - 1);
    for (size_t i = 0; r >= 0 && i < sizeof cpu_lists / sizeof *cpu_lists; i++) {
        snprintf(path, sizeof path, "sys/devices/cpu/%s", cpu_lists[i]);
        r = write_text(dir, path, text, (size_t)n);
    }
    return r;
}

static int write_sys_file(int dir, size_t i)
{
    char path[64], text[256];
    ssize_t n;
    if (sys_files[i].text) {
        snprintf(path, sizeof path, "sys/%s", sys_files[i].name);
        return write_text(dir, path, sys_files[i].text, strlen(sys_files[i].text));
    }
    snprintf(path, sizeof path, "/proc/sys/%s", sys_files[i].name);
    n = kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text);
    return n < 0 ? 0 : write_text(dir, path + strlen("/proc/"), text, (size_t)n);
}

/* `first`: the folder whose files another number of processors shares. */
static int write_sys(int dir, int first)
{
    char path[64];
    int r = 0;
    for (size_t i = 0; i < sizeof sys_dirs / sizeof *sys_dirs; i++) {
        snprintf(path, sizeof path, "sys%s", sys_dirs[i]);
        if (mkdirat(dir, path, 0755) < 0)
            return -errno;
    }
    for (size_t i = 0; r >= 0 && i < sizeof sys_files / sizeof *sys_files; i++) {
        snprintf(path, sizeof path, "sys/%s", sys_files[i].name);
        if (first < 0)
            r = write_sys_file(dir, i);
        else if (linkat(first, path, dir, path, 0) < 0 && errno != ENOENT)
            r = -errno;
    }
    return r;
}

static int open_folder(int dir, unsigned cpus)
{
    char name[16];
    int fd;
    snprintf(name, sizeof name, "%u", cpus);
    if (mkdirat(dir, name, 0755) < 0)
        return -errno;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int kr_machine_write(const char *at, unsigned cpus)
{
    cleanup_fd int dir = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC), first = -1;
    char block[BLOCK_MAX];
    size_t len = read_block(block);
    int r = dir < 0 ? -errno : write_version(dir);
    for (size_t i = 0; r >= 0 && i < sizeof files / sizeof *files; i++)
        r = write_text(dir, files[i].name, files[i].text, strlen(files[i].text));
    for (unsigned n = 1; r >= 0 && n <= cpus; n++) {
        cleanup_fd int own = open_folder(dir, n);
        if (own < 0)
            return own;
        if ((r = write_sys(own, first)) < 0 || (r = write_cpuinfo(own, n, block, len)) < 0 ||
            (r = write_cpu_lists(own, n)) < 0)
            return r;
        if (first < 0)
            first = steal_fd(&own);
    }
    return r;
}

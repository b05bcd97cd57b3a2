/* src/api/watch/server_resources.c beneath roots of our own making, and once beneath the real one. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "server_resources.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void begin(void)
{
    strcpy(root, "/tmp/krait-test-resources.XXXXXX");
    if (!mkdtemp(root))
        abort();
}

static void end(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes root/path, with the folders above it. */
static void put(const char *path, const char *text)
{
    char full[400];
    FILE *f;

    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(full, 0755) < 0 && errno != EEXIST)
            abort();
        *slash = '/';
    }
    f = fopen(full, "we");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

static struct kr_resources look(const char *data)
{
    struct kr_resources_reader *r = NULL;
    struct kr_resources now;

    if (kr_resources_new(root, data, &r) < 0)
        abort();
    now = *kr_resources_read(r);
    kr_resources_free(r);
    return now;
}

static void put_machine(void)
{
    put("/proc/meminfo", "MemTotal:        8000000 kB\nMemFree:          100000 kB\nMemAvailable:    6000000 kB\n");
    put("/proc/loadavg", "0.20 0.18 0.12 1/80 11206\n");
    put("/proc/stat", "cpu  100 0 100 5000 30 0 0 0 0 0\ncpu0 …\n");
    put("/proc/sys/kernel/threads-max", "63000\n");
    put("/proc/self/status", "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-2,5\nThreads:\t1\n");
    put("/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"
                             "Max processes             unlimited            unlimited            processes \n"
                             "Max address space         unlimited            unlimited            bytes     \n");
}

static void put_v2(const char *own)
{
    char text[200];

    put("/proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw\n"
                                "30 1 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
    snprintf(text, sizeof text, "0::%s\n", own);
    put("/proc/self/cgroup", text);
    put("/sys/fs/cgroup/cgroup.procs", "");
    put("/sys/fs/cgroup/a.slice/cgroup.procs", "");
    put("/sys/fs/cgroup/a.slice/memory.max", "3000000000\n");
    put("/sys/fs/cgroup/a.slice/pids.max", "900\n");
    put("/sys/fs/cgroup/a.slice/krait.service/cgroup.procs", "");
    put("/sys/fs/cgroup/a.slice/krait.service/memory.current", "500000000\n");
    put("/sys/fs/cgroup/a.slice/krait.service/memory.max", "max\n");
    put("/sys/fs/cgroup/a.slice/krait.service/memory.stat", "anon 1\ninactive_file 200000000\nactive_file 5\n");
    put("/sys/fs/cgroup/a.slice/krait.service/pids.current", "17\n");
    put("/sys/fs/cgroup/a.slice/krait.service/pids.max", "max\n");
    put("/sys/fs/cgroup/a.slice/krait.service/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/a.slice/krait.service/cpu.stat", "usage_usec 5000000\nuser_usec 1\n");
    put("/sys/fs/cgroup/a.slice/krait.service/krait-host/cgroup.procs", "");
    put("/sys/fs/cgroup/a.slice/krait.service/krait-host/memory.current", "1\n");
}

static void a_cgroup_of_version_2(void)
{
    struct kr_resources r;

    begin();
    put_machine();
    put_v2("/a.slice/krait.service");
    r = look(NULL);
    CHECK(r.memory.used == 300000000 && r.memory.used_of == KR_OF_CGROUP_V2);
    CHECK(r.memory.limit == 3000000000 && r.memory.limit_of == KR_OF_CGROUP_V2); /* of the cgroup above */
    CHECK(r.processes.count == 17 && r.processes.count_of == KR_OF_CGROUP_V2);
    CHECK(r.processes.limit == 900 && r.processes.limit_of == KR_OF_CGROUP_V2);
    CHECK(r.cpu.cores == 1.5 && r.cpu.used == -1 && r.cpu.load[0] == 0.20 && r.cpu.load[2] == 0.12);
    CHECK(r.disk.total == KR_RESOURCES_UNKNOWN);
    put_v2("/a.slice/krait.service/krait-host"); /* the leaf the warden steps into: the cells are beside it */
    r = look(NULL);
    CHECK(r.memory.used == 300000000 && r.processes.count == 17);
    put_v2("/not/in/this/namespace"); /* a container that sees its own cgroup as the root */
    put("/sys/fs/cgroup/memory.current", "7000\n");
    r = look(NULL);
    CHECK(r.memory.used == 7000 && r.memory.used_of == KR_OF_CGROUP_V2);
    CHECK(r.memory.limit == 8000000ull * 1024 && r.memory.limit_of == KR_OF_MACHINE);
    end();
}

static void put_v1(void)
{
    put("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                                "31 1 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
                                "32 1 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                                "33 1 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/proc/self/cgroup", "4:memory:/krait\n3:pids:/krait\n2:cpu,cpuacct:/krait\n0::/\n");
    put("/sys/fs/cgroup/unified/cgroup.procs", "");
    put("/sys/fs/cgroup/memory/krait/cgroup.procs", "");
    put("/sys/fs/cgroup/memory/krait/memory.usage_in_bytes", "1000000\n");
    put("/sys/fs/cgroup/memory/krait/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/krait/memory.stat", "inactive_file 9\ntotal_inactive_file 400000\n");
    put("/sys/fs/cgroup/pids/krait/cgroup.procs", "");
    put("/sys/fs/cgroup/pids/krait/pids.current", "5\n");
    put("/sys/fs/cgroup/pids/krait/pids.max", "max\n");
    put("/sys/fs/cgroup/cpu/krait/cgroup.procs", "");
    put("/sys/fs/cgroup/cpu/krait/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/krait/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu/krait/cpuacct.usage", "2000000000\n");
}

static void a_cgroup_of_version_1(void)
{
    struct kr_resources r;

    begin();
    put_machine();
    put_v1();
    r = look(NULL);
    CHECK(r.memory.used == 600000 && r.memory.used_of == KR_OF_CGROUP_V1);
    CHECK(r.memory.limit == 8000000ull * 1024 && r.memory.limit_of == KR_OF_MACHINE); /* that number is no limit */
    CHECK(r.processes.count == 5 && r.processes.count_of == KR_OF_CGROUP_V1 && r.processes.limit == 63000);
    CHECK(r.cpu.cores == 4);
    put("/sys/fs/cgroup/memory/krait/memory.limit_in_bytes", "2000000\n");
    put("/sys/fs/cgroup/cpu/krait/cpu.cfs_quota_us", "50000\n");
    r = look(NULL);
    CHECK(r.memory.limit == 2000000 && r.memory.limit_of == KR_OF_CGROUP_V1 && r.cpu.cores == 0.5);
    end();
}

static void no_cgroup_at_all(void)
{
    struct kr_resources r;

    begin();
    put_machine();
    r = look(NULL);
    CHECK(r.memory.used == 2000000ull * 1024 && r.memory.used_of == KR_OF_MACHINE);
    CHECK(r.memory.limit == 8000000ull * 1024 && r.memory.limit_of == KR_OF_MACHINE);
    CHECK(r.processes.count == 80 && r.processes.count_of == KR_OF_MACHINE && r.processes.limit == 63000);
    CHECK(r.cpu.cores == 4);
    put("/proc/self/limits", "Max processes             1000                 2000                 processes \n"
                             "Max address space         1000000              unlimited            bytes     \n");
    r = look(NULL);
    CHECK(r.memory.limit == 1000000 && r.memory.limit_of == KR_OF_RLIMIT);
    CHECK(r.processes.limit == 1000 && r.processes.limit_of == KR_OF_RLIMIT);
    end();
}

static void nothing_can_be_read(void)
{
    struct kr_resources r;

    begin();
    r = look("/nonexistent/data");
    CHECK(r.memory.used == KR_RESOURCES_UNKNOWN && r.memory.limit == KR_RESOURCES_UNKNOWN);
    CHECK(r.memory.used_of == KR_OF_NOBODY && r.processes.count_of == KR_OF_NOBODY);
    CHECK(r.processes.count == KR_RESOURCES_UNKNOWN && r.processes.limit == KR_RESOURCES_UNKNOWN);
    CHECK(r.cpu.cores == -1 && r.cpu.used == -1 && r.cpu.load[0] == -1 && r.disk.free == KR_RESOURCES_UNKNOWN);
    CHECK(kr_resources_read(NULL)->memory.used == KR_RESOURCES_UNKNOWN);
    end();
}

static void rubbish_is_unknown(void)
{
    static const char *const texts[] = {"",
                                        "\n",
                                        "abc",
                                        "-5\n",
                                        "99999999999999999999999\n",
                                        "0::",
                                        ":::",
                                        " - \n",
                                        "1 2 3 - x\n",
                                        "cpu x\n",
                                        "MemTotal: kB\n",
                                        "Cpus_allowed_list:\t5-2\n",
                                        "Cpus_allowed_list:\t0-999999999\n"};
    static const char *const files[] = {"/proc/meminfo",
                                        "/proc/loadavg",
                                        "/proc/stat",
                                        "/proc/self/status",
                                        "/proc/self/limits",
                                        "/proc/self/cgroup",
                                        "/proc/self/mountinfo",
                                        "/sys/fs/cgroup/a.slice/krait.service/memory.current",
                                        "/sys/fs/cgroup/a.slice/krait.service/cpu.max",
                                        "/sys/fs/cgroup/a.slice/krait.service/memory.stat"};

    begin();
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
            struct kr_resources r;

            put_machine();
            put_v2("/a.slice/krait.service");
            put(files[f], texts[t]);
            r = look(NULL);
            CHECK(r.cpu.cores != 0 && r.cpu.cores < 100000 && !isnan(r.cpu.cores));
            CHECK(r.memory.used == KR_RESOURCES_UNKNOWN || r.memory.used <= 2000000ull * 1024);
            CHECK((r.memory.used == KR_RESOURCES_UNKNOWN) == (r.memory.used_of == KR_OF_NOBODY));
            CHECK((r.processes.count == KR_RESOURCES_UNKNOWN) == (r.processes.count_of == KR_OF_NOBODY));
        }
    end();
}

static void figures_are_a_second_old_at_most(void)
{
    struct kr_resources_reader *r = NULL;

    begin();
    put_machine();
    put_v2("/a.slice/krait.service");
    CHECK(kr_resources_new(root, NULL, &r) == 0);
    CHECK(kr_resources_read(r)->memory.used == 300000000);
    put("/sys/fs/cgroup/a.slice/krait.service/memory.current", "600000000\n");
    put("/sys/fs/cgroup/a.slice/krait.service/cpu.stat", "usage_usec 5550000\n");
    CHECK(kr_resources_read(r)->memory.used == 300000000); /* remembered */
    usleep(1100000);
    CHECK(kr_resources_read(r)->memory.used == 400000000);
    /* 0.55 s of processor in some 1.1 s */
    CHECK(kr_resources_read(r)->cpu.used > 0.2 && kr_resources_read(r)->cpu.used < 0.51);
    CHECK(kr_resources_read(r)->cpu.used_of == KR_OF_CGROUP_V2);
    kr_resources_free(r);
    end();
}

static void this_machine(void)
{
    struct kr_resources_reader *r = NULL;
    const struct kr_resources *now;

    CHECK(kr_resources_new("", "/tmp", &r) == 0);
    now = kr_resources_read(r);
    CHECK(now->memory.used_of != KR_OF_NOBODY && now->memory.used > 0 && now->memory.limit >= now->memory.used / 2);
    CHECK(now->processes.count > 0 && now->processes.count < 10000000);
    CHECK(now->cpu.cores > 0 && now->cpu.cores <= (double)sysconf(_SC_NPROCESSORS_CONF) && now->cpu.load[0] >= 0);
    CHECK(now->disk.total > 0 && now->disk.used <= now->disk.total && now->disk.free <= now->disk.total);
    kr_resources_free(r);
}

int main(void)
{
    RUN(a_cgroup_of_version_2);
    RUN(a_cgroup_of_version_1);
    RUN(no_cgroup_at_all);
    RUN(nothing_can_be_read);
    RUN(rubbish_is_unknown);
    RUN(figures_are_a_second_old_at_most);
    RUN(this_machine);
    CHECK_DONE();
}

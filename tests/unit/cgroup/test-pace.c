/* The pace of a cell on a v1 hierarchy that is a plain folder here, so that a file can be made to fail. */
#include "cgroup.h"
#include "check.h"
#include "fd.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CELL "c0000000000000001"

static char top[] = "/tmp/krait-pace-XXXXXX";
static struct kr_cgroups g;

static void put(const char *name, const char *text)
{
    char path[128];
    cleanup_fd int fd = -1;

    snprintf(path, sizeof path, "%s/" CELL "/%s", top, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* Everything that was written to a FIFO since it was last asked. A plain file would keep the tail of a longer text. */
static int was_told(int fifo, const char *text)
{
    char found[64] = "";
    ssize_t n = read(fifo, found, sizeof found - 1);

    found[n > 0 ? n : 0] = '\0';
    return strcmp(found, text) == 0;
}

static void a_freeze_that_fails_half_way_is_taken_back(void)
{
    struct kr_group group = {.name = 1, .limited = 1, .pace = KR_PACE_REST, .limits = {.cpu_milli = 500}};
    cleanup_fd int period = -1;
    struct kr_err err;
    char path[128];

    put("cpu.shares", "2");
    CHECK(mkfifoat(g.hier[0].dir, CELL "/cpu.cfs_period_us", 0600) == 0);
    period = openat(g.hier[0].dir, CELL "/cpu.cfs_period_us", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/" CELL "/cpu.cfs_quota_us", top);
    CHECK(period >= 0 && mkdir(path, 0700) == 0); /* no write succeeds there */
    CHECK(kr_cgroup_pace(&g, &group, KR_PACE_FROZEN, &err) < 0 && group.pace == KR_PACE_REST);
    CHECK(was_told(period, "1000000100000"));
    CHECK(rmdir(path) == 0);
    put("cpu.cfs_quota_us", "50000");
    CHECK(kr_cgroup_pace(&g, &group, KR_PACE_FROZEN, &err) >= 0 && group.pace == KR_PACE_FROZEN);
    CHECK(was_told(period, "1000000"));
    CHECK(kr_cgroup_pace(&g, &group, KR_PACE_RUN, &err) >= 0 && group.pace == KR_PACE_RUN);
    CHECK(was_told(period, "100000"));
}

static void make_folders(void)
{
    char folder[128];

    CHECK(mkdtemp(top));
    snprintf(folder, sizeof folder, "%s/" CELL, top);
    CHECK(mkdir(folder, 0700) == 0);
    g.count = 1;
    g.hier[0].is.layers = KR_LAYER_CGROUP_CPU;
    g.hier[0].dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(g.hier[0].dir >= 0);
}

static void remove_folders(void)
{
    static const char *const names[] = {CELL "/cpu.shares", CELL "/cpu.cfs_period_us", CELL "/cpu.cfs_quota_us"};

    for (size_t i = 0; i < 3; i++)
        (void)unlinkat(g.hier[0].dir, names[i], 0);
    CHECK(unlinkat(g.hier[0].dir, CELL, AT_REMOVEDIR) == 0 && rmdir(top) == 0);
    close(g.hier[0].dir);
}

int main(void)
{
    RUN(make_folders);
    RUN(a_freeze_that_fails_half_way_is_taken_back);
    RUN(remove_folders);
    CHECK_DONE();
}

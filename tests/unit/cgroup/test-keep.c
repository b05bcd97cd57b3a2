/* A folder that is kept for the next cell, on a v1 hierarchy that is a plain folder here, so that each of its files can
 * say what the test wants. */
#include "cgroup.h"
#include "check.h"
#include "fd.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CELL "c0000000000000001"

static char top[] = "/tmp/krait-keep-XXXXXX";
static struct kr_cgroups g;

/* What a cell leaves that reached its limits. */
static const struct {
    const char *name, *text;
} files[] = {
    {"pids.current", "0\n"},
    {"pids.events", "max 0\n"},
    {"memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"},
    {"memory.usage_in_bytes", "4096\n"},
    {"memory.max_usage_in_bytes", "7"},
    {"memory.failcnt", "7"},
    {"memory.memsw.failcnt", "7"},
    {"cpuacct.usage", "7"},
};
#define FILES (sizeof files / sizeof *files)

static void path_of(size_t i, char *buf, size_t size)
{
    snprintf(buf, size, "%s/" CELL "/%s", top, files[i].name);
}

static void put_files(void)
{
    char path[128];

    for (size_t i = 0; i < FILES; i++) {
        cleanup_fd int fd = -1;

        path_of(i, path, sizeof path);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        CHECK(fd >= 0 && write(fd, files[i].text, strlen(files[i].text)) == (ssize_t)strlen(files[i].text));
    }
}

/* Does every counter that the cell left at 7 say 0? */
static int all_are_set_back(void)
{
    char path[128], text[64];

    for (size_t i = 0; i < FILES; i++) {
        path_of(i, path, sizeof path);
        if (strcmp(files[i].text, "7") != 0 || access(path, F_OK) < 0)
            continue;
        if (kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text) < 0 || strcmp(text, "0") != 0) {
            printf("%s: %s\n", files[i].name, text);
            return 0;
        }
    }
    return 1;
}

static int keep(void)
{
    struct kr_group group = {.name = 1, .limited = 1};

    g.free_count = 0;
    return kr_cgroup_keep(&g, &group);
}

static int remove_one(const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "%s/" CELL "/%s", top, name);
    return unlink(path);
}

static void the_next_cell_finds_no_count_of_the_last(void)
{
    put_files();
    CHECK(keep() == 1 && all_are_set_back());
}

static void a_kernel_that_counts_no_swap_keeps_folders(void)
{
    put_files();
    CHECK(remove_one("memory.memsw.failcnt") == 0 && keep() == 1 && all_are_set_back());
}

static void what_cannot_be_set_back_is_not_kept(void)
{
    put_files();
    CHECK(remove_one("memory.failcnt") == 0 && keep() == 0);
}

static void make_folders(void)
{
    char folder[128];

    CHECK(mkdtemp(top));
    snprintf(folder, sizeof folder, "%s/" CELL, top);
    CHECK(mkdir(folder, 0700) == 0);
    g.kind = KR_CGROUP_V1;
    g.count = 1;
    g.hier[0].is = (struct kr_w_hier){.layers = KR_LAYER_CGROUP_MEMORY | KR_LAYER_CGROUP_PIDS, .accounting = 1};
    g.hier[0].dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(g.hier[0].dir >= 0);
}

static void remove_folders(void)
{
    for (size_t i = 0; i < FILES; i++)
        (void)remove_one(files[i].name);
    CHECK(unlinkat(g.hier[0].dir, CELL, AT_REMOVEDIR) == 0 && rmdir(top) == 0);
    close(g.hier[0].dir);
}

int main(void)
{
    RUN(make_folders);
    RUN(the_next_cell_finds_no_count_of_the_last);
    RUN(a_kernel_that_counts_no_swap_keeps_folders);
    RUN(what_cannot_be_set_back_is_not_kept);
    RUN(remove_folders);
    CHECK_DONE();
}

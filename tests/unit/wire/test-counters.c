/* src/wire/counters.c: what a cell's cgroup files say, and what is said of those that cannot be read. Run by
 * tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "counters.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int file_of(const char *text)
{
    int fd = memfd_create("counter", MFD_CLOEXEC);

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? fd : -1;
}

static void numbers_are_found(void)
{
    uint64_t value;
    /* clang-format off */
    static const struct {
        const char *text, *key;
        int r;
        uint64_t value;
    } rows[] = {
        { "4096\n",                                  NULL,       0,        4096 },
        { "18446744073709551615\n",                  NULL,       0,        UINT64_MAX },
        { "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill", 0,  3 },
        { "max 7\n",                                 "max",      0,        7 },
        { "max_other 7\nmax 9\n",                    "max",      0,        9 },
        { "low 1\nhigh 2\n",                         "max",      -ENODATA, 0 },
        { "",                                        NULL,       -ENODATA, 0 },
        { "",                                        "max",      -ENODATA, 0 },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fd = file_of(rows[i].text);

        value = 0;
        CHECK(kr_counter_look(fd, rows[i].key, &value) == rows[i].r);
        CHECK(value == rows[i].value);
        close(fd);
    }
    CHECK(kr_counter_look(-1, NULL, &value) == -EBADF);
}

/* A hierarchy in which one file answers as it is told, and all others say 5. */
struct fake {
    const char *file;
    int r;
    unsigned asked;
};

static int look(const void *arg, unsigned hier, const char *file, const char *key, uint64_t *ret)
{
    struct fake *f = (struct fake *)(uintptr_t)arg;

    (void)key;
    f->asked += hier == 2;
    *ret = 5;
    return f->file && strcmp(file, f->file) == 0 ? f->r : 0;
}

static void a_hierarchy_says_what_it_counts(void)
{
    const struct kr_w_hier memory = {.layers = KR_LAYER_CGROUP_MEMORY},
                           all = {.layers = KR_LAYER_CGROUP_MEMORY | KR_LAYER_CGROUP_PIDS | KR_LAYER_CGROUP_CPU,
                                  .v2 = 1,
                                  .accounting = 1},
                           cpuacct = {.accounting = 1};
    struct kr_usage u = {0};
    struct fake f = {0};

    CHECK(kr_counters_read(&memory, 2, look, &f, &u) == 0);
    CHECK(f.asked == 4 && u.memory_peak == 5 && u.oom_kills == 5 && u.cpu_ns == 0 && u.have == KR_LAYER_CGROUP_MEMORY);
    CHECK(u.memory_hits == 10); /* of memory and of memory with swap */
    CHECK(kr_counters_read(&cpuacct, 2, look, &f, &u) == 0);
    CHECK(f.asked == 5 && u.cpu_ns == 5 && u.have == (KR_LAYER_CGROUP_MEMORY | KR_LAYER_CGROUP_CPU));
    u = (struct kr_usage){0};
    CHECK(kr_counters_read(&all, 2, look, &f, &u) == 0);
    CHECK(f.asked == 12 && u.memory_hits == 5 && u.cpu_ns == 5000 && u.pids_hits == 5 && u.have == all.layers);
    CHECK(u.pids == 5 && u.processes == 5 && kr_usage_others(&u) == 4);
    u = (struct kr_usage){.pids = 1};
    CHECK(kr_usage_others(&u) == 0);
    u = (struct kr_usage){.pids = 3, .processes = 1};
    CHECK(kr_usage_others(&u) == 0); /* threads */
    u = (struct kr_usage){.pids = 3};
    CHECK(kr_usage_others(&u) == -1);
    u = (struct kr_usage){0};
    CHECK(kr_usage_others(&u) == -1);
}

static void what_cannot_be_read_is_said(void)
{
    const struct kr_w_hier v1 = {.layers = KR_LAYER_CGROUP_MEMORY}, v2 = {.layers = KR_LAYER_CGROUP_MEMORY, .v2 = 1};
    struct kr_usage u = {0};

    CHECK(kr_counters_read(&v1, 2, look, &(struct fake){"memory.max_usage_in_bytes", -ENOENT, 0}, &u) == -ENOENT);
    CHECK(u.memory_peak == 0 && u.oom_kills == 5); /* the others were read all the same */
    u = (struct kr_usage){0};
    CHECK(kr_counters_read(&v2, 2, look, &(struct fake){"memory.peak", -ENOENT, 0}, &u) == 0); /* an older kernel */
    CHECK(u.memory_peak == 0 && u.oom_kills == 5);
    CHECK(kr_counters_read(&v2, 2, look, &(struct fake){"memory.peak", -EMFILE, 0}, &u) == -EMFILE);
    CHECK(kr_counters_read(&v2, 2, look, &(struct fake){"memory.events", -ENOENT, 0}, &u) == -ENOENT);
}

static void a_hit_is_looked_at_after_a_kill(void)
{
    const struct kr_w_hier v1 = {.layers = KR_LAYER_CGROUP_MEMORY}, v2 = {.layers = KR_LAYER_CGROUP_MEMORY, .v2 = 1};
    struct kr_usage u = {0};

    CHECK(kr_counters_read(&v1, 2, look, &(struct fake){"memory.oom_control", -EIO, 0}, &u) == -EIO);
    CHECK(u.memory_peak == 5 && u.memory_hits == 0);
    CHECK(kr_counters_read(&v1, 2, look, &(struct fake){"memory.memsw.failcnt", -ENOENT, 0}, &u) == 0); /* no swap */
    CHECK(u.memory_hits == 5);
    u = (struct kr_usage){0};
    CHECK(kr_counters_read(&v1, 2, look, &(struct fake){"memory.failcnt", -ENOENT, 0}, &u) == -ENOENT);
    u = (struct kr_usage){0};
    CHECK(kr_counters_read(&v2, 2, look, &(struct fake){0}, &u) == 0 && u.memory_hits == 5);
}

static void folders_have_the_wardens_names(void)
{
    char name[KR_GROUP_NAME_ROOM];

    kr_group_name(0, 0xabc, name);
    CHECK(strcmp(name, "c0000000000000abc") == 0);
    kr_group_name(UINT64_MAX, UINT64_MAX, name);
    CHECK(strcmp(name, "uffffffffffffffff/cffffffffffffffff") == 0);
    kr_group_name(0xabc, 0, name);
    CHECK(strcmp(name, "u0000000000000abc") == 0);
}

int main(void)
{
    RUN(numbers_are_found);
    RUN(a_hierarchy_says_what_it_counts);
    RUN(what_cannot_be_read_is_said);
    RUN(a_hit_is_looked_at_after_a_kill);
    RUN(folders_have_the_wardens_names);
    CHECK_DONE();
}

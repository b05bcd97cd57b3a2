/* src/files/mirror.c: what a mirror says is what a walk says, whatever is done to the folder. Processes do thousands of
 * random things to a tree: files made, written, mapped and written later, renamed over, given second names that come
 * and go, folders moved and deleted while they are walked. At each barrier the mirror is compared with a walk: what has
 * changed since the last barrier. KR_SEED repeats a sequence, KR_ROUNDS makes it longer. Run by tests/run. */
#define _GNU_SOURCE 1
#include "changes_internal.h"
#include "check.h"
#include "clock.h"
#include "compare-snapshots.h"
#include "fd.h"
#include "mirror.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 2, FOLDERS = 6, NAMES = 100, HELD = 8, PAGE = 4096 };
enum kind { PLAIN, TRICKY, NASTY, KINDS }; /* files by usual means; by unusual ones; folders too */

/* What the test and its writers share. */
struct shared {
    atomic_int go[WRITERS], done[WRITERS]; /* operations to do in this round; rounds done */
    atomic_int round;
    atomic_int kind;
};

static char top[64];
static struct shared *shared;
static unsigned seed;
static uint64_t born_ns; /* the writers */
static pid_t pids[WRITERS];

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 8;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

/* ---- a writer ---- */

struct writer {
    unsigned random;
    int fds[HELD];
    char *maps[HELD];
};

static void pick(struct writer *w, char *path, size_t size)
{
    unsigned folder = next_random(&w->random) % FOLDERS, name = next_random(&w->random) % NAMES;

    if (folder == 0)
        snprintf(path, size, "n%u", name);
    else
        snprintf(path, size, next_random(&w->random) % 8 ? "d%u/n%u" : "d%u/e/f/n%u", folder, name);
}

/* Both at the same depth: a tree that is moved must not grow deeper and deeper. */
static void pick_folders(struct writer *w, char *x, char *y, size_t size)
{
    const char *end = next_random(&w->random) % 2 ? "" : "/e";

    snprintf(x, size, "d%u%s", 1 + next_random(&w->random) % (FOLDERS - 1), end);
    snprintf(y, size, "d%u%s", 1 + next_random(&w->random) % (FOLDERS - 1), end);
}

static void write_file(const char *path, int flags, unsigned n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | flags, 0644); /* it may be a FIFO */

    if (fd < 0)
        return;
    if (write(fd, "0123456789abcdef", n % 16) < 0 && errno != EAGAIN)
        _exit(3);
    close(fd);
}

static sigjmp_buf no_page;

static void on_bus_error(int signo)
{
    (void)signo;
    siglongjmp(no_page, 1); /* what was mapped has been cut off */
}

/* Keeps a file open, or mapped with its descriptor closed, and writes to what was kept in another round. */
static void use_held(struct writer *w, const char *path, unsigned n)
{
    unsigned i = n % HELD;
    struct stat st;

    if (w->maps[i]) {
        if (sigsetjmp(no_page, 1) == 0)
            w->maps[i][n % PAGE]++;
        if (n % 3 == 0) {
            munmap(w->maps[i], PAGE);
            w->maps[i] = NULL;
        }
        return;
    }
    if (w->fds[i] >= 0) {
        if (write(w->fds[i], "x", 1) < 0 || n % 3 == 0) {
            close(w->fds[i]);
            w->fds[i] = -1;
        }
        return;
    }
    w->fds[i] = open(path, O_RDWR | O_NONBLOCK);
    if (w->fds[i] < 0 || n % 4 == 0)
        return;
    if (fstat(w->fds[i], &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= PAGE) {
        w->maps[i] = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, w->fds[i], 0);
        if (w->maps[i] == MAP_FAILED)
            w->maps[i] = NULL;
    }
    close(w->fds[i]);
    w->fds[i] = -1;
}

/* A second name, used to write, and gone again: nothing tells the first name. */
static void write_by_second_name(struct writer *w, const char *a, unsigned n)
{
    char b[32];

    snprintf(b, sizeof b, "second-%u", next_random(&w->random));
    if (link(a, b) < 0)
        return;
    if (n % 8 == 0)
        use_held(w, b, n / 8); /* kept open by that name */
    else
        write_file(b, n % 2 ? O_APPEND : O_TRUNC, n / 8);
    if (n % 3 != 0)
        unlink(b);
}

static void write_unnamed(const char *folder, const char *path, unsigned n)
{
    int fd = open(folder, O_TMPFILE | O_RDWR, 0644);
    char link_path[32];

    if (fd < 0)
        return;
    if (write(fd, "unnamed", n % 8) < 0)
        _exit(3);
    snprintf(link_path, sizeof link_path, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, link_path, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 && write(fd, "y", 1) < 0)
        _exit(3);
    close(fd);
}

static void do_plain(struct writer *w, const char *a, const char *b, unsigned n)
{
    switch (n % 10) {
    case 0:
        write_file(a, O_TRUNC, n / 7);
        break;
    case 1:
        write_file(a, O_APPEND, n / 7);
        break;
    case 2:
        unlink(a);
        break;
    case 3:
        rename(a, b);
        break;
    case 4:
        chmod(a, n & 64 ? 0600 : 0644);
        break;
    case 5:
        if (truncate(a, n % 100) < 0)
            write_file(a, 0, 4);
        break;
    default:
        use_held(w, a, n / 7);
        break;
    }
}

static void do_tricky(struct writer *w, const char *a, const char *b, unsigned n)
{
    switch (n % 6) {
    case 0:
    case 1:
        write_by_second_name(w, a, n / 6);
        break;
    case 2:
        n -= link(a, b) == 0; /* may fail, as all of these */
        break;
    case 3:
        n -= (n & 64 ? symlink("n1", a) : mkfifo(a, 0644)) == 0;
        break;
    case 4:
        renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
        break;
    default:
        write_unnamed(".", a, n / 6);
        break;
    }
}

static void do_nasty(struct writer *w, unsigned n)
{
    char x[64], y[64];

    pick_folders(w, x, y, sizeof x);
    switch (n % 6) {
    case 0:
        mkdir(x, 0755);
        mkdir(y, 0755);
        break;
    case 1:
        rename(x, y);
        break;
    case 2:
        renameat2(AT_FDCWD, x, AT_FDCWD, y, RENAME_EXCHANGE);
        break;
    case 3:
        if (n / 6 % 4 == 0)
            nftw(x, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        break;
    case 4:
        chmod(x, n & 64 ? 0700 : 0755);
        break;
    default:
        snprintf(x, sizeof x, "d%u/e", 1 + n / 12 % 5);
        mkdir(x, 0755);
        snprintf(x, sizeof x, "d%u/e/f", 1 + n / 12 % 5);
        mkdir(x, 0755);
        break;
    }
}

static void do_something(struct writer *w, enum kind kind)
{
    unsigned n = next_random(&w->random);
    char a[64], b[64];

    pick(w, a, sizeof a);
    pick(w, b, sizeof b);
    if (kind == NASTY && n % 3 == 0)
        do_nasty(w, n / 3);
    else if (kind != PLAIN && n % 3 == 1)
        do_tricky(w, a, b, n / 3);
    else
        do_plain(w, a, b, n / 3);
}

static void run_writer(int number, int round)
{
    struct writer w = {.random = seed * 31 + (unsigned)number * 7 + (unsigned)round};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGBUS, on_bus_error);
    memset(w.fds, -1, sizeof w.fds);
    if (chdir(top) < 0)
        _exit(2);
    for (;;) {
        while (atomic_load(&shared->round) == round)
            usleep(50);
        round = atomic_load(&shared->round);
        for (int i = 0; i < atomic_load(&shared->go[number]); i++)
            do_something(&w, (enum kind)atomic_load(&shared->kind));
        atomic_store(&shared->done[number], round);
    }
}

static void end_writers(void)
{
    for (int i = 0; i < WRITERS; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

/* What the last ones had open or mapped is not so any more. */
static void start_writers(int round)
{
    born_ns = kr_clock_ns();
    for (int i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            run_writer(i, round);
    }
}

/* ---- the comparison ---- */

static int problems;

static void complain(const char *what, const char *path, int round)
{
    if (problems++ < 5)
        fprintf(stderr, "round %d, seed %u: %s %s\n", round, seed, what, path);
}

static bool same_changes(const struct kr_changes *a, const struct kr_changes *b, int round)
{
    size_t i = 0, k = 0;
    int before = problems;

    while (i < a->count || k < b->count) {
        int order = i == a->count ? 1 : k == b->count ? -1 : strcmp(a->files[i].path, b->files[k].path);

        if (order < 0)
            complain("the mirror alone has changed", a->files[i].path, round);
        else if (order > 0)
            complain("the walk alone has changed", b->files[k].path, round);
        else if (a->files[i].change != b->files[k].change || a->files[i].size != b->files[k].size)
            complain("another change of", a->files[i].path, round);
        i += order <= 0;
        k += order >= 0;
    }
    return problems == before;
}

static void start_round(int round, enum kind kind, int count)
{
    atomic_store(&shared->kind, kind);
    for (int i = 0; i < WRITERS; i++)
        atomic_store(&shared->go[i], count);
    atomic_store(&shared->round, round);
}

static bool writers_are_done(int round)
{
    for (int i = 0; i < WRITERS; i++)
        if (atomic_load(&shared->done[i]) != round)
            return false;
    return true;
}

struct counts {
    int here, walks, watched;
};

/* One barrier: the mirror is brought up to date, on "the loop" if it can be, and compared. */
static void compare_round(struct kr_mirror *m, int ws, int round, struct kr_snapshot **before,
                          struct kr_mirror_mark *mark, struct counts *counts)
{
    struct kr_mirror_max max = {.here = true, .oldest_ns = born_ns, .deadline_ns = kr_clock_after_ms(10000)};
    struct kr_changes by_mirror, by_walk;
    struct kr_snapshot *after;
    int r = kr_mirror_sync(m, ws, &max);

    counts->here += r == 0;
    counts->walks += r == -EAGAIN;
    max.here = false;
    if (r == -EAGAIN)
        r = kr_mirror_sync(m, ws, &max);
    counts->watched += kr_mirror_watched(m);
    if (r < 0 || kr_snapshot_take(ws, 0, 0, &after) < 0 || kr_snapshot_incomplete(after) ||
        kr_mirror_changes(m, mark, &by_mirror) < 0) {
        complain("no look", strerror(-r), round);
        return;
    }
    if (kr_changes_find(*before, after, 0, &by_walk) < 0 || by_walk.incomplete || by_mirror.incomplete)
        complain("incomplete", "", round);
    same_changes(&by_mirror, &by_walk, round);
    kr_changes_done(&by_walk);
    kr_changes_done(&by_mirror);
    kr_snapshot_free(*before);
    *before = after;
    *mark = kr_mirror_mark(m);
    kr_mirror_trim(m, mark);
}

static void make_tree(void)
{
    char path[128];

    for (int d = 1; d < FOLDERS; d++) {
        snprintf(path, sizeof path, "%s/d%d", top, d);
        CHECK(mkdir(path, 0755) == 0);
        for (int i = 0; i < NAMES; i++) {
            snprintf(path, sizeof path, "%s/d%d/n%d", top, d, i);
            write_file(path, 0, 5);
            CHECK(truncate(path, PAGE) == 0);
        }
    }
}

static void mirror_is_what_a_walk_finds(void)
{
    const char *rounds_text = getenv("KR_ROUNDS"), *seed_text = getenv("KR_SEED");
    int rounds = rounds_text ? atoi(rounds_text) : 1500, fd;
    struct kr_mirror_max max = {.here = true, .oldest_ns = UINT64_MAX, .deadline_ns = kr_clock_after_ms(10000)};
    struct counts counts[KINDS] = {0};
    struct kr_snapshot *before = NULL;
    struct kr_mirror_mark mark;
    struct kr_mirror *m = NULL;

    seed = seed_text ? (unsigned)atoi(seed_text) : (unsigned)kr_clock_ns() % 1000000u;
    make_tree();
    fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0 && kr_mirror_new(&m) == 0);
    CHECK(kr_mirror_sync(m, fd, &max) == -EAGAIN); /* too many for the loop */
    max.here = false;
    CHECK(kr_mirror_sync(m, fd, &max) == 0 && kr_mirror_watched(m));
    CHECK(kr_snapshot_take(fd, 0, 0, &before) == 0);
    mark = kr_mirror_mark(m);
    start_writers(0);
    for (int round = 1; round <= rounds; round++) {
        enum kind kind = round % 10 == 0 ? NASTY : round % 3 == 0 ? TRICKY : PLAIN;

        if (round % 40 == 0) {
            end_writers();
            start_writers(round - 1);
        }
        start_round(round, kind, kind == NASTY ? 12 : 1 + round % 3);
        while (!writers_are_done(round)) {
            if (kind == NASTY && round % 20 == 0) { /* a look while they write */
                max = (struct kr_mirror_max){.oldest_ns = born_ns, .deadline_ns = kr_clock_after_ms(10000)};
                if (kr_mirror_sync(m, fd, &max) < 0)
                    complain("no look", "while they write", round);
            }
            kr_mirror_drain(m);
            usleep(50);
        }
        compare_round(m, fd, round, &before, &mark, &counts[kind]);
    }
    CHECK(problems == 0);
    CHECK(counts[PLAIN].watched + counts[TRICKY].watched + counts[NASTY].watched == rounds); /* no event was lost */
    CHECK(counts[PLAIN].here > rounds / 20);  /* control: plain rounds needed no walk … */
    CHECK(counts[NASTY].walks > rounds / 20); /* … and others did */
    end_writers();
    kr_snapshot_free(before);
    kr_mirror_free(m);
    close(fd);
}

/* More events than the kernel keeps: they are missed, that is known, and a walk says what happened. */
static void lost_events_are_made_up_for(void)
{
    struct kr_mirror_max max = {.here = true, .oldest_ns = UINT64_MAX, .deadline_ns = kr_clock_after_ms(20000)};
    struct kr_mirror_mark mark;
    struct kr_changes c;
    struct kr_mirror *m = NULL;
    char path[160];
    int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof path, "%s/still%d", top, i);
        write_file(path, 0, 3);
    }
    CHECK(kr_mirror_new(&m) == 0 && kr_mirror_sync(m, fd, &max) == -EAGAIN);
    max.here = false;
    CHECK(kr_mirror_sync(m, fd, &max) == 0 && kr_mirror_watched(m));
    mark = kr_mirror_mark(m);
    max.oldest_ns = 0;
    for (int i = 0; i < 20000; i++) { /* two events each, never the same twice in a row */
        snprintf(path, sizeof path, "%s/flood%d", top, i % 2);
        write_file(path, O_TRUNC, 4);
    }
    snprintf(path, sizeof path, "%s/late", top);
    write_file(path, 0, 3);
    CHECK(kr_mirror_sync(m, fd, &max) == 0 && !kr_mirror_watched(m));
    CHECK(kr_mirror_changes(m, &mark, &c) == 0 && c.count == 3 && !c.incomplete);
    CHECK(c.count == 3 && strcmp(c.files[2].path, "late") == 0 && c.files[2].change == KR_CHANGE_CREATED);
    kr_changes_done(&c);
    mark = kr_mirror_mark(m);
    unlink(path);
    CHECK(kr_mirror_sync(m, fd, &max) == 0 && !kr_mirror_watched(m)); /* it rests first */
    CHECK(kr_mirror_changes(m, &mark, &c) == 0 && c.count == 1 && c.files[0].change == KR_CHANGE_DELETED);
    kr_changes_done(&c);
    kr_mirror_free(m);
    close(fd);
}

int main(void)
{
    snprintf(top, sizeof top, "%s/krait-mirror-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(top))
        return 1;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    RUN(mirror_is_what_a_walk_finds);
    RUN(lost_events_are_made_up_for);
    nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    CHECK_DONE();
}

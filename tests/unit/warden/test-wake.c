/* A warden that sleeps until it is asked (KR_W_WAKE), and an engine that means it ill. The engine is this program's own
 * function (raw-engine.h). Needs root and an interpreter; each case is a warden of its own, with a lock folder of its
 * own. */
#include "check.h"
#include "counters.h"
#include "fd.h"
#include "log.h"
#include "raw-engine.h"
#include "warden.h"
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PYTHON "/usr/bin/python3"
#define USER_MEMORY (UINT64_C(2) << 30)

static char folder[] = "/tmp/krait-test-wake-XXXXXX";
static char workspace[64], other[64], locks[64], data[64], shelf[80];
static struct kr_limits ceilings; /* of the next warden */

/* Everything that names a cell, where there can be none. */
static void expect_no_cell(int control, union payload *p)
{
    struct kr_w_cell c = {.cell = 0x10000};
    struct kr_w_signal s = {.cell = c.cell, .signo = 2};
    struct kr_w_start start = {.cell = c.cell, .workspace = KR_WORKSPACE_NONE};

    kr_limits_default(&start.limits);
    tell(control, KR_W_KILL, 0, &c, sizeof c);
    tell(control, KR_W_SIGNAL, 0, &s, sizeof s);
    tell(control, KR_W_STAT, 5, &c, sizeof c);
    expect(control, KR_W_FAILED, p);
    tell(control, KR_W_START, 6, &start, sizeof start);
    expect(control, KR_W_FAILED, p);
}

static int asks_too_early(int control, void *arg)
{
    union payload p;

    (void)arg;
    expect_no_cell(control, &p);
    ask_open(control);
    expect(control, KR_W_FAILED, &p);
    MUST(strstr(p.err.msg, "not asked for yet") != NULL);
    wake(control, 1); /* not given at start */
    wake(control, UINT32_MAX);
    expect_quiet(control);
    MUST(rmdir(locks) == 0); /* there is no lock in it: nothing was looked at, nothing made */
    return 0;
}

/* The control: the same engine, asking properly, gets its cell; asking twice starts nothing twice. */
static int asks_properly(int control, void *arg)
{
    union payload p;
    struct kr_w_cell cell;

    (void)arg;
    wake(control, 0);
    wake(control, 0);
    expect(control, KR_W_HELLO, &p);
    expect_zygote(control, KR_ZYG_STARTING, &p);
    expect_zygote(control, KR_ZYG_READY, &p);
    MUST(p.zygote.generation == 1);
    wake(control, 0);
    expect_no_cell(control, &p);
    ask_open(control);
    expect(control, KR_W_OPENED, &p);
    cell.cell = p.opened.cell;
    tell(control, KR_W_KILL, 0, &cell, sizeof cell);
    expect(control, KR_W_ENDED, &p);
    MUST(p.ended.cell == cell.cell);
    expect_quiet(control);
    return 0;
}

/* What the cell's memory is limited to by its cgroup; 0: by none. */
static uint64_t memory_limit(uint64_t user, uint64_t group)
{
    static const char *const files[] = {"memory.limit_in_bytes", "memory.max"};
    char name[KR_GROUP_NAME_ROOM], path[96], text[64];

    kr_group_name(user, group, name);
    for (unsigned i = 0; i < 2 * group_count; i++) {
        snprintf(path, sizeof path, "%s/%s", name, files[i % 2]);
        if (kr_fd_read_file_at(groups[i / 2], path, text, sizeof text) > 0)
            return strtoull(text, NULL, 10);
    }
    return 0;
}

/* The administrator's ceilings hold whatever the engine asks for; what is within them is given. */
static int asks_for_too_much(int control, void *arg)
{
    struct kr_w_start start = {.workspace = KR_WORKSPACE_NONE};
    union payload p;
    uint64_t *limit, most, group;

    (void)arg;
    wake(control, 0);
    expect(control, KR_W_HELLO, &p);
    expect_zygote(control, KR_ZYG_STARTING, &p);
    expect_zygote(control, KR_ZYG_READY, &p);
    ask_open(control); /* a parked session has krait's defaults, which are past them here */
    expect(control, KR_W_OPENED, &p);
    start.cell = p.opened.cell;
    group = p.opened.group;
    MUST(kr_fd_wait(channel, POLLIN, kr_clock_after_ms(WAIT_MS)) > 0); /* it has entered its cell */
    MUST(memory_limit(0, group) == 0 || memory_limit(0, group) == ceilings.memory);
    kr_limits_default(&start.limits);
    kr_limits_lower(&start.limits, &ceilings);
    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        most = *kr_limit_at(&ceilings, &kr_limit_rows[i]);
        limit = kr_limit_at(&start.limits, &kr_limit_rows[i]);
        if (most == 0)
            continue;
        *limit = most + 1;
        tell(control, KR_W_START, 8, &start, sizeof start);
        expect(control, KR_W_FAILED, &p);
        MUST(strstr(p.err.msg, "past the ceiling") != NULL);
        *limit = most;
    }
    MUST(memory_limit(0, group) == 0 || memory_limit(0, group) == ceilings.memory);
    tell(control, KR_W_START, 9, &start, sizeof start);
    expect(control, KR_W_STARTED, &p);
    return 0;
}

static uint64_t opened_for(int control, uint64_t owner, union payload *p)
{
    ask_open_for(control, owner);
    expect(control, KR_W_OPENED, p);
    MUST(kr_fd_wait(channel, POLLIN, kr_clock_after_ms(WAIT_MS)) > 0);
    return p->opened.user;
}

/* Sessions of one owner are in one bounded cgroup, those of another in another; none changes its owner. */
static int asks_for_owners(int control, void *arg)
{
    struct kr_w_start start = {.workspace = KR_WORKSPACE_NONE, .owner = 6}, parked = start;
    union payload p;
    uint64_t five, six;

    (void)arg;
    wake(control, 0);
    expect(control, KR_W_HELLO, &p);
    expect_zygote(control, KR_ZYG_STARTING, &p);
    expect_zygote(control, KR_ZYG_READY, &p);
    kr_limits_default(&start.limits);
    five = opened_for(control, 5, &p);
    start.cell = p.opened.cell;
    MUST(memory_limit(five, 0) == 0 || memory_limit(five, 0) == USER_MEMORY);
    MUST(memory_limit(five, p.opened.group) == 0 || memory_limit(five, p.opened.group) == start.limits.memory);
    MUST(opened_for(control, 5, &p) == five);
    six = opened_for(control, 6, &p);
    MUST(six != five && opened_for(control, 0, &p) != five && p.opened.user != six);
    parked.cell = p.opened.cell;
    tell(control, KR_W_START, 8, &start, sizeof start);
    expect(control, KR_W_FAILED, &p);
    MUST(strstr(p.err.msg, "another owner") != NULL);
    start.owner = 5;
    tell(control, KR_W_START, 9, &start, sizeof start);
    expect(control, KR_W_STARTED, &p);
    parked.limits = start.limits;
    tell(control, KR_W_START, 10, &parked, sizeof parked);
    expect(control, KR_W_FAILED, &p);
    MUST(strstr(p.err.msg, "cannot join") != NULL);
    parked.owner = 7;
    tell(control, KR_W_START, 11, &parked, sizeof parked);
    expect(control, KR_W_STARTED, &p);
    return 0;
}

/* A question without a number: its answer would be none, and its cell would wait for one. The warden stops. */
static int asks_without_a_number(int control, void *arg)
{
    struct {
        struct kr_frame head;
        struct kr_w_open open;
    } q = {.head = {.type = KR_W_OPEN, .len = sizeof q.open},
           .open = {.workspace = KR_WORKSPACE_NONE, .network = KR_NET_NONE, .flags = KR_OPEN_PARK}};
    union payload p;
    struct kr_frame f;

    (void)arg;
    wake(control, 0);
    expect(control, KR_W_HELLO, &p);
    expect_zygote(control, KR_ZYG_STARTING, &p);
    expect_zygote(control, KR_ZYG_READY, &p);
    kr_limits_default(&q.open.limits);
    MUST(send(control, &q, sizeof q, MSG_NOSIGNAL) == (ssize_t)sizeof q);
    MUST(hear(control, &p, &f, WAIT_MS) == -ENODATA);
    return 0;
}

/* The workspace was given as a path. What it leads to when the warden wakes is the engine's doing. */
static int puts_another_folder_there(int control, void *arg)
{
    union payload p;
    char aside[80];

    (void)arg;
    snprintf(aside, sizeof aside, "%s.aside", workspace);
    MUST(rename(workspace, aside) == 0 && symlink(other, workspace) == 0);
    wake(control, 0);
    expect_zygote(control, KR_ZYG_FAILED, &p);
    MUST(strstr(p.zygote.err.msg, "not the folder it was") != NULL);
    wake(control, 0);
    expect_quiet(control);
    expect_no_cell(control, &p);
    ask_open(control);
    expect(control, KR_W_FAILED, &p);
    MUST(strstr(p.err.msg, "not the folder it was") != NULL);
    MUST(unlink(workspace) == 0 && rename(aside, workspace) == 0);
    return 0;
}

/* The image has the size that the administrator chose, whatever the engine asks for. */
static void expect_no_growth(int control, union payload *p)
{
    uint64_t size;

    ask_shelf(control, 10, KR_SHELF_USAGE, "", 0);
    expect(control, KR_W_SHELVED, p);
    size = p->shelved.size;
    ask_shelf(control, 11, KR_SHELF_GROW, "", 2 * KR_SHELF_SIZE_MIN);
    expect(control, KR_W_FAILED, p);
    ask_shelf(control, 12, KR_SHELF_USAGE, "", 0);
    expect(control, KR_W_SHELVED, p);
    MUST(p->shelved.size == size);
}

/* An image is mounted before there is an engine, which sees it at its path; its keeper comes by the first question,
 * before any zygote. The ceilings hold there, too. What is no question is refused, and many at once are all
 * answered. */
static int asks_for_the_shelf(int control, void *arg)
{
    union payload p;
    struct kr_frame f;
    char path[96];

    (void)arg;
    MUST(access(shelf, F_OK) == 0);
    ask_shelf(control, 1, KR_SHELF_OPEN, "", 0);
    expect(control, KR_W_SHELVED, &p);
    MUST(p.shelved.kind != KR_SHELF_IS_FOLDER && p.shelved.image == 1);
    for (uint64_t bytes = 0; bytes <= 64 << 20; bytes += 32 << 20) {
        ask_shelf(control, 2, bytes == 0 ? KR_SHELF_MAKE : KR_SHELF_LIMIT, "abc", bytes);
        expect(control, KR_W_SHELVED, &p);
        MUST(p.shelved.max_bytes >= ceilings.disk && p.shelved.max_bytes <= ceilings.disk + (1 << 20));
    }
    snprintf(path, sizeof path, "%s/abc", shelf);
    MUST(access(path, W_OK) == 0);
    ask_shelf(control, 3, KR_SHELF_MAKE, "../abc", 1 << 20);
    expect(control, KR_W_FAILED, &p);
    ask_shelf(control, 4, KR_SHELF_OP_MAX_, "abc", 0);
    expect(control, KR_W_FAILED, &p);
    expect_no_growth(control, &p);
    for (uint32_t i = 100; i < 300; i++)
        ask_shelf(control, i, KR_SHELF_USAGE, "abc", 0);
    for (uint32_t i = 100; i < 300; i++)
        MUST(hear(control, &p, &f, WAIT_MS) == 0 && (f.type == KR_W_SHELVED || f.type == KR_W_FAILED));
    expect_quiet(control);
    wake(control, 0);
    expect(control, KR_W_HELLO, &p);
    expect_zygote(control, KR_ZYG_STARTING, &p);
    expect_zygote(control, KR_ZYG_READY, &p);
    ask_shelf(control, 5, KR_SHELF_DROP, "abc", 0);
    expect(control, KR_W_SHELVED, &p);
    MUST(access(path, F_OK) < 0);
    return 0;
}

static void preload(int control, uint32_t zygote, const char *name)
{
    struct kr_w_preload q = {.zygote = zygote};

    memcpy(q.folder, name, strnlen(name, sizeof q.folder));
    tell(control, KR_W_PRELOAD, 0, &q, sizeof q);
}

static void ask_open_guest(int control, uint32_t epoch)
{
    struct kr_w_open o = {.zygote = 1, .workspace = KR_WORKSPACE_NONE, .flags = KR_OPEN_PARK, .epoch = epoch};

    kr_limits_default(&o.limits);
    tell(control, KR_W_OPEN, 8, &o, sizeof o);
}

/* A zygote for templates imports from a folder of the shelf by its name, and from nothing else. */
static int asks_for_a_template(int control, void *arg)
{
    static const char *const wrong[] = {"../abc", "ABC",     "abc/env",
                                        ".",      "missing", "0123456789012345678901234567890123"};
    union payload p;

    (void)arg;
    preload(control, 1, "abc");
    expect_zygote(control, KR_ZYG_FAILED, &p); /* nothing was looked at yet */
    wake(control, 1);                          /* not by that */
    wake(control, 0);
    expect(control, KR_W_HELLO, &p);
    expect_zygote(control, KR_ZYG_STARTING, &p);
    expect_zygote(control, KR_ZYG_READY, &p);
    preload(control, 0, "abc");
    preload(control, UINT32_MAX, "abc");
    preload(control, 1, "");
    expect_quiet(control);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        preload(control, 1, wrong[i]);
        expect_zygote(control, KR_ZYG_FAILED, &p);
        MUST(p.zygote.zygote == 1 && p.zygote.err.msg[0] != '\0');
    }
    ask_open_guest(control, 3); /* not the last of its epochs */
    expect(control, KR_W_FAILED, &p);
    MUST(p.err.code == EAGAIN && strstr(p.err.msg, "other packages") != NULL);
    ask_open_guest(control, 8);
    expect(control, KR_W_FAILED, &p);
    MUST(strstr(p.err.msg, "not ready") != NULL);
    ask_open(control); /* the control */
    expect(control, KR_W_OPENED, &p);
    return 0;
}

static int launch(kr_engine_main *engine, struct kr_err *err)
{
    struct kr_warden_config c;

    kr_warden_config_default(&c);
    c.lazy = 1;
    c.zygotes[0] = (struct kr_zygote_config){.preload = KR_PRELOAD_BASIC, .python = PYTHON};
    c.zygote_count = 1;
    c.workspaces[0] = (struct kr_workspace_config){.path = workspace};
    c.workspace_count = 1;
    if (engine == asks_for_the_shelf)
        c.shelf = (struct kr_shelf_config){.path = shelf, .choice = KR_SHELF_IMAGE, .size = KR_SHELF_SIZE_MIN};
    if (engine == asks_for_a_template) {
        c.shelf = (struct kr_shelf_config){.path = shelf, .choice = KR_SHELF_FOLDER};
        c.zygotes[c.zygote_count++] =
            (struct kr_zygote_config){.preload = KR_PRELOAD_TEMPLATE, .python = PYTHON, .modules = ""};
        c.guest_memory = 256 << 20;
        c.guest_start_ms = 60000;
    }
    c.runtime_dir = locks;
    c.ceilings = ceilings;
    c.user_groups = engine == asks_for_owners;
    c.user_memory = USER_MEMORY;
    return kr_warden_launch(&c, engine, NULL, err);
}

static void check_engine(const char *name, kr_engine_main *engine)
{
    struct kr_err err = {0};
    int r;

    (void)mkdir(locks, 0700);
    r = launch(engine, &err);
    if (r != 0) {
        printf("FAIL %s: status %d %s\n", name, r, err.msg);
        check_failed_ = 1;
    }
}

#define CASE(engine)                                                                                                   \
    static void engine##_test(void)                                                                                    \
    {                                                                                                                  \
        check_engine(#engine, engine);                                                                                 \
    }
CASE(asks_too_early)
CASE(asks_properly)
CASE(asks_without_a_number)
CASE(puts_another_folder_there)
CASE(asks_for_too_much)
CASE(asks_for_owners)
CASE(asks_for_the_shelf)
CASE(asks_for_a_template)

int main(void)
{
    char command[96];

    if (geteuid() != 0 || access(PYTHON, X_OK) < 0) {
        printf("SKIP wake: needs root and %s\n", PYTHON);
        return 0;
    }
    if (!mkdtemp(folder) || chmod(folder, 0755) < 0)
        return 1;
    snprintf(workspace, sizeof workspace, "%s/workspace", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    snprintf(locks, sizeof locks, "%s/locks", folder);
    snprintf(data, sizeof data, "%s/data", folder);
    snprintf(shelf, sizeof shelf, "%s/sandboxes", data);
    if (mkdir(workspace, 0755) < 0 || mkdir(other, 0755) < 0 || mkdir(data, 0755) < 0 || mkdir(shelf, 0700) < 0)
        return 1;
    kr_log_set_level(KR_LOG_ERROR);
    RUN(asks_too_early_test);
    RUN(asks_properly_test);
    RUN(asks_without_a_number_test);
    RUN(puts_another_folder_there_test);
    RUN(asks_for_owners_test);
    RUN(asks_for_a_template_test);
    ceilings = (struct kr_limits){
        .memory = 64 << 20, .processes = 32, .cpu_milli = 500, .disk = 16 << 20, .inodes = 1000, .cpu_time_ms = 60000};
    RUN(asks_for_too_much_test);
    RUN(asks_for_the_shelf_test);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        return 1;
    CHECK_DONE();
}

/* A copy of a sandbox's or template's folder under a new name on the shelf.
 *
 * Called by box_templates.c. Where the filesystem can (btrfs), the keeper takes a snapshot, which costs a millisecond
 * whatever is in it; elsewhere a new folder with its limits is filled on the thread pool. Invariants: until a row of
 * the store takes the new folder it is on lease (kr_store_folder_lease()), so that what a killed process began is
 * removed; a copy that failed is doomed at once; the caller hears of it exactly once, from the loop, unless the box is
 * freed before. */
#include "box_internal.h"
#include "clock.h"
#include "fd.h"
#include "files.h"
#include "measure.h"
#include "work.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_MS (10u * 60 * 1000)
#define LEASE_US (INT64_C(60) * 60 * 1000000)
#define COPY_ENTRIES 1000000u

struct kr_folder_copy {
    struct kr_work work;
    struct kr_shelf_ask ask;
    struct kr_box *box;
    char from[KR_STORE_ID_ROOM], to[KR_STORE_ID_ROOM];
    struct kr_limits limits;
    uint64_t bytes; /* that the copied folder holds, or is charged for where snapshots are taken */
    int shelf;      /* its own descriptor, for the thread */
    int r;
    struct kr_err err;
    kr_folder_copied_fn *fn;
    void *data;
};

static void free_copy(struct kr_folder_copy *c)
{
    kr_fd_close(c->shelf);
    free(c);
}

static void end_copy(struct kr_folder_copy *c)
{
    struct kr_err ignored;

    if (c->r < 0) {
        /* Doomed from now on, and no longer from the end of the lease. */
        (void)kr_store_doomed_done(c->box->config.store, c->to, &ignored);
        (void)kr_store_folder_lease(c->box->config.store, c->to, kr_store_now(), &ignored);
    }
    c->fn(c->data, c->to, c->bytes, c->r < 0 ? &c->err : NULL);
    free_copy(c);
}

static void end_job(struct kr_folder_copy *c)
{
    if (!kr_box_job_end(c->box)) {
        free_copy(c);
        return;
    }
    end_copy(c);
}

/* ---- by the thread pool ---- */

static int copy_files(struct kr_folder_copy *c)
{
    const struct kr_files_copy_max max = {.entries = c->limits.inodes ? c->limits.inodes : COPY_ENTRIES,
                                          .deadline_ns = kr_clock_after_ms(COPY_MS)};
    const struct kr_measure_max most = {.deadline_ns = max.deadline_ns};
    struct kr_measure usage;
    int r;
    cleanup_fd int from = openat(c->shelf, c->from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), to = -1;

    if (from < 0)
        return kr_err_set(&c->err, errno == ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_SYSTEM, errno,
                          "open the folder to copy");
    if (mkdirat(c->shelf, c->to, 0700) < 0 && errno != EEXIST) /* the keeper may have made it, with its limits */
        return kr_err_set_disk(&c->err, errno, "make the folder of a copy");
    to = openat(c->shelf, c->to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return kr_err_set(&c->err, KR_ERR_SYSTEM, errno, "open the folder of a copy");
    r = kr_files_copy(from, to, &max, &c->err);
    if (r >= 0 && kr_measure(to, &most, &usage) >= 0)
        c->bytes = usage.bytes;
    return r;
}

static void run_copy(void *data)
{
    struct kr_folder_copy *c = data;

    c->r = copy_files(c);
}

static void on_copied(void *data)
{
    end_job(data);
}

static void start_work(struct kr_folder_copy *c)
{
    static const struct kr_work_calls calls = {.run = run_copy, .done = on_copied};

    kr_work_start(c->box->loop, &c->work, &calls, c);
}

/* ---- by the keeper ---- */

/* -errno: no answer will come, and the job has to be ended. */
static int ask_keeper(struct kr_folder_copy *c, enum kr_shelf_op op, kr_shelf_fn *fn)
{
    bool is_usage = op == KR_SHELF_USAGE;
    struct kr_w_shelf question = {.op = op};

    if (!is_usage) {
        question.bytes = c->limits.disk;
        question.inodes = c->limits.inodes;
    }
    snprintf(question.name, sizeof question.name, "%s", is_usage ? c->from : c->to);
    if (op == KR_SHELF_COPY)
        snprintf(question.from, sizeof question.from, "%s", c->from);
    return kr_engine_shelf(c->box->engine, &question, &c->ask, fn, c);
}

static const struct kr_err no_keeper = {.kind = KR_ERR_UNAVAILABLE, .msg = "the keeper of the shelf does not answer"};

static void fail_copy(struct kr_folder_copy *c, const struct kr_err *err)
{
    c->r = -1;
    c->err = *err;
    end_job(c);
}

static void on_made(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err)
{
    struct kr_folder_copy *c = data;

    if (!shelved)
        fail_copy(c, err);
    else
        start_work(c);
}

static void on_snapshot(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err)
{
    struct kr_folder_copy *c = data;

    if (shelved)
        end_job(c);
    else if (err->code != EOPNOTSUPP)
        fail_copy(c, err);
    else if (ask_keeper(c, KR_SHELF_MAKE, on_made) < 0)
        fail_copy(c, &no_keeper);
}

static void on_measured(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err)
{
    struct kr_folder_copy *c = data;

    (void)err;
    c->bytes = shelved ? shelved->bytes : 0;
    if (ask_keeper(c, KR_SHELF_COPY, on_snapshot) < 0)
        fail_copy(c, &no_keeper);
}

int kr_folder_copy(struct kr_box *b, const char *from, const struct kr_limits *limits, kr_folder_copied_fn *fn,
                   void *data, struct kr_err *err)
{
    struct kr_folder_copy *c = calloc(1, sizeof *c);
    int r;

    if (!c)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "copy of a folder");
    c->box = b;
    c->limits = *limits;
    c->fn = fn;
    c->data = data;
    snprintf(c->from, sizeof c->from, "%s", from);
    kr_store_new_id(c->to);
    c->shelf = fcntl(b->shelf, F_DUPFD_CLOEXEC, 3);
    r = c->shelf < 0 ? kr_err_set(err, KR_ERR_SYSTEM, errno, "copy of a folder")
                     : kr_store_folder_lease(b->config.store, c->to, kr_store_now() + LEASE_US, err);
    if (r < 0) {
        free_copy(c);
        return r;
    }
    kr_box_job_begin(b);
    if (!kr_shelf_enforces(b)) {
        start_work(c);
    } else if (ask_keeper(c, KR_SHELF_USAGE, on_measured) < 0) {
        (void)kr_box_job_end(b);
        free_copy(c);
        *err = no_keeper;
        return -EAGAIN;
    }
    return 0;
}

/* Checkpoints of the store, off the loop.
 *
 * Opened and closed by serve_app.c. A checkpoint is two syncs and up to a few megabytes of writes: on the loop thread
 * it would hold every connection up for as long as the disk takes. Without this file a commit does it itself once the
 * log is eight times as long. Invariant: at most one thread is at it; it owns a copy of the path and no other
 * memory. */
#include "checkpoint.h"
#include "err.h"
#include "log.h"
#include "loop.h"
#include "store.h"
#include "work.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 1000u

struct kr_checkpoint {
    struct uv_loop_s *loop;
    const struct kr_store *store;
    struct kr_timer *timer;
    char *path;
    struct kr_work work;
    struct kr_err err; /* the thread's, until it is done */
    int result;
};

static void free_checkpoint(void *data)
{
    struct kr_checkpoint *c = data;

    free(c->path);
    free(c);
}

static void run_checkpoint(void *data)
{
    struct kr_checkpoint *c = data;

    c->result = kr_store_checkpoint(c->path, &c->err);
}

static void on_checkpoint_done(void *data)
{
    const struct kr_checkpoint *c = data;

    if (c->result < 0)
        kr_log(KR_LOG_WARN, "checkpoint of the store failed, trying again", "error=\"%s\"", c->err.msg);
}

static void on_look(void *data)
{
    static const struct kr_work_calls calls = {
        .run = run_checkpoint, .done = on_checkpoint_done, .dropped = free_checkpoint};
    struct kr_checkpoint *c = data;

    kr_timer_arm(c->timer, LOOK_MS);
    if (!kr_work_busy(&c->work) && kr_store_wal_pages(c->store) >= KR_STORE_WAL_PAGES)
        kr_work_start(c->loop, &c->work, &calls, c);
}

int kr_checkpoint_new(struct uv_loop_s *loop, const struct kr_store *store, struct kr_checkpoint **ret_checkpoint)
{
    struct kr_checkpoint *c = calloc(1, sizeof *c);

    if (!c)
        return -ENOMEM;
    c->loop = loop;
    c->store = store;
    c->path = strdup(kr_store_path(store));
    if (!c->path || kr_timer_new(loop, on_look, c, &c->timer) < 0) {
        free_checkpoint(c);
        return -ENOMEM;
    }
    kr_timer_arm(c->timer, LOOK_MS);
    *ret_checkpoint = c;
    return 0;
}

void kr_checkpoint_close(struct kr_checkpoint *c)
{
    if (!c)
        return;
    kr_timer_close(c->timer);
    if (!kr_work_drop(&c->work))
        free_checkpoint(c);
}

/* How much disk a user has, so that an upload does not pass the user's limit. Called by file_feed.c and
 * file_routes.c.
 *
 * An account is measured by the box's walker (box_disk.c) and believed for FRESH_MS, or FAR_FRESH_MS when it is far
 * from the limit; uploads of that time are added to it as their bytes come, so that several at once share what is
 * left. What programs write meanwhile is seen at the next measuring. Invariant: an account lives while an upload has
 * a share in it or it is being measured; a share that waits is called once. */
#include "file_request.h"
#include "clock.h"
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define FRESH_MS 30000u
#define FAR_FRESH_MS 600000u /* while less than half of the limit is used */
#define ACCOUNTS_MAX 256u    /* kept without an upload */

struct kr_quota {
    TAILQ_ENTRY(kr_quota) link; /* most recently used first */
    struct kr_api_files *files;
    char user[KR_STORE_ID_ROOM];
    uint64_t used, measured_ns; /* measured_ns 0: not yet, or stale */
    uint64_t templates;         /* kr_store_templates_version() when it was measured: they count as well */
    unsigned shares;
    bool busy;
    TAILQ_HEAD(, kr_quota_share) waiting;
    struct kr_disk_ask ask; /* while it is measured */
};

/* ---- measuring ---- */

static void free_account(struct kr_quota *q)
{
    TAILQ_REMOVE(&q->files->quotas, q, link);
    q->files->quota_count--;
    kr_fileops_unref(&q->files->ops);
    free(q);
}

static void on_measured(struct kr_disk_ask *ask, uint64_t bytes)
{
    struct kr_quota *q = (struct kr_quota *)((char *)ask - offsetof(struct kr_quota, ask));
    struct kr_quota_share *share;

    q->busy = false;
    q->used = bytes;
    q->measured_ns = kr_clock_ns();
    q->templates = q->files->api ? kr_store_templates_version(q->files->api->store) : 0;
    q->shares++; /* a caller may leave in its on_ready */
    while ((share = TAILQ_FIRST(&q->waiting))) {
        TAILQ_REMOVE(&q->waiting, share, link);
        share->waiting = false;
        share->on_ready(share);
    }
    q->shares--;
    if (!q->files->api && q->shares == 0)
        free_account(q);
}

static int measure_account(struct kr_quota *q, struct kr_err *err)
{
    int r;

    q->busy = true;
    q->ask.on_measured = on_measured;
    r = kr_box_disk_measure(q->files->api->box, q->user, &q->ask, err);
    if (r < 0)
        q->busy = false;
    return r;
}

/* ---- accounts ---- */

static bool account_is_far(const struct kr_quota *q)
{
    return q->used < kr_box_config(q->files->api->box)->max_disk_per_user / 2;
}

static bool account_is_fresh(const struct kr_quota *q)
{
    uint64_t age_ms = (kr_clock_ns() - q->measured_ns) / 1000000;

    return !q->busy && q->measured_ns && q->templates == kr_store_templates_version(q->files->api->store) &&
           age_ms < (account_is_far(q) ? FAR_FRESH_MS : FRESH_MS);
}

static struct kr_quota *find_account(struct kr_api_files *f, const char *user)
{
    struct kr_quota *q;

    TAILQ_FOREACH(q, &f->quotas, link)
    if (strcmp(q->user, user) == 0)
        return q;
    return NULL;
}

/* Lets go of the account that was not used for longest. Forwards: TAILQ_LAST() of glibc reads the links as another type
 * than they are written, and the optimizer takes it at its word. */
static void drop_oldest_account(struct kr_api_files *f)
{
    struct kr_quota *q, *oldest = NULL;

    if (f->quota_count < ACCOUNTS_MAX)
        return;
    TAILQ_FOREACH(q, &f->quotas, link)
    if (q->shares == 0 && !q->busy)
        oldest = q;
    if (oldest)
        free_account(oldest);
}

static struct kr_quota *get_account(struct kr_api_files *f, const char *user)
{
    struct kr_quota *q = find_account(f, user);

    if (q) {
        TAILQ_REMOVE(&f->quotas, q, link);
        TAILQ_INSERT_HEAD(&f->quotas, q, link);
        return q;
    }
    drop_oldest_account(f);
    q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->files = f;
    kr_fileops_ref(&f->ops);
    memcpy(q->user, user, strnlen(user, sizeof q->user - 1));
    TAILQ_INIT(&q->waiting);
    TAILQ_INSERT_HEAD(&f->quotas, q, link);
    f->quota_count++;
    return q;
}

int kr_quota_join(struct kr_api_files *f, const struct kr_caller *who, struct kr_quota_share *share,
                  void (*on_ready)(struct kr_quota_share *share), struct kr_err *err)
{
    struct kr_quota *q;
    int r = 0;

    *share = (struct kr_quota_share){.on_ready = on_ready};
    if (kr_box_config(f->api->box)->max_disk_per_user == 0) {
        on_ready(share);
        return 0;
    }
    q = get_account(f, who->user);
    if (!q)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "disk account");
    share->quota = q;
    q->shares++;
    if (account_is_fresh(q)) {
        on_ready(share);
        return 0;
    }
    share->waiting = true;
    TAILQ_INSERT_TAIL(&q->waiting, share, link);
    if (!q->busy)
        r = measure_account(q, err);
    if (r < 0)
        kr_quota_leave(share);
    return r;
}

int kr_quota_room(const struct kr_quota_share *share, uint64_t bytes, struct kr_err *err)
{
    uint64_t limit, used;

    if (!share->quota || !share->quota->files->api)
        return 0;
    limit = kr_box_config(share->quota->files->api->box)->max_disk_per_user;
    used = share->quota->used;
    if (used <= limit && bytes <= limit - used)
        return 0;
    if (used >= KR_DISK_UNKNOWN)
        kr_err_set(err, KR_ERR_LIMIT, 0,
                   "your files cannot be measured whole (too many, or in folders that cannot be read), which counts as "
                   "over the limit of %" PRIu64 " bytes: delete some first",
                   limit);
    else
        kr_err_set(err, KR_ERR_LIMIT, 0,
                   "your files may take %" PRIu64 " bytes in all, and %" PRIu64 " are taken: delete some first", limit,
                   used);
    err->code = EDQUOT;
    return -EDQUOT;
}

int kr_quota_charge(struct kr_quota_share *share, uint64_t bytes, struct kr_err *err)
{
    int r = kr_quota_room(share, bytes, err);

    if (r < 0 || !share->quota)
        return r;
    share->quota->used += bytes;
    share->charged += bytes;
    return 0;
}

void kr_quota_leave(struct kr_quota_share *share)
{
    struct kr_quota *q = share->quota;
    int64_t now;

    if (!q)
        return;
    if (share->waiting)
        TAILQ_REMOVE(&q->waiting, share, link);
    now = (int64_t)(q->used - (share->charged < q->used ? share->charged : q->used)) + share->kept;
    q->used = now > 0 ? (uint64_t)now : 0;
    *share = (struct kr_quota_share){0};
    q->shares--;
    if (!q->files->api && q->shares == 0 && !q->busy)
        free_account(q);
}

void kr_quota_stale(struct kr_api_files *f, const char *user)
{
    struct kr_quota *q = find_account(f, user);

    if (q && f->api && !account_is_far(q))
        q->measured_ns = 0;
}

void kr_quotas_close(struct kr_api_files *f)
{
    struct kr_quota *q, *next;

    for (q = TAILQ_FIRST(&f->quotas); q; q = next) {
        next = TAILQ_NEXT(q, link);
        kr_box_disk_forget(&q->ask);
        q->busy = false;
        if (q->shares == 0)
            free_account(q);
    }
}

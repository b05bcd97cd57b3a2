/* A request's body on its way to the disk. Called by file_put.c and file_post.c.
 *
 * Two buffers: one fills from the connection while a thread of the pool works on the other. Past KR_FEED_PAUSE the
 * peer is held back, so that an upload of any size takes KR_FEED_ROOM twice. Invariant: `out` belongs to the thread
 * while a step runs, `in` always to the loop; bytes are charged to the user's disk account before they are kept. */
#include "file_request.h"
#include "reply.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static struct kr_file_feed *feed_of(struct kr_fileop *w)
{
    return (struct kr_file_feed *)w;
}

/* On the thread pool. */
static void step_take(struct kr_fileop *w)
{
    struct kr_file_feed *f = feed_of(w);

    w->r = f->take(f, f->out, f->out_len);
}

static void feed_next(struct kr_file_feed *f);

static void on_taken(struct kr_fileop *w)
{
    if (w->r < 0)
        feed_of(w)->failed(w);
    else
        feed_next(feed_of(w));
}

static void feed_next(struct kr_file_feed *f)
{
    if (kr_fileop_busy(&f->w))
        return;
    if (f->refused) {
        f->w.err = f->refusal;
        f->failed(&f->w);
    } else if (f->in_len > 0) {
        char *swap = f->out;

        f->out = f->in;
        f->out_len = f->in_len;
        f->in = swap;
        f->in_len = 0;
        kr_fileop_run(&f->w, step_take, on_taken);
        kr_http_pause_body(kr_file_ex(&f->w), false);
    } else if (f->ended) {
        f->finish(&f->w);
    }
}

static int keep_bytes(struct kr_file_feed *f, const char *bytes, size_t len)
{
    int r = kr_quota_charge(&f->share, len, &f->refusal);

    if (r < 0)
        return r;
    if (!f->in && !(f->in = malloc(KR_FEED_ROOM)))
        return kr_err_set(&f->refusal, KR_ERR_SYSTEM, ENOMEM, "upload");
    if (len > KR_FEED_ROOM - f->in_len) /* the engine's pieces are smaller than what is left at KR_FEED_PAUSE */
        return kr_err_set(&f->refusal, KR_ERR_INTERNAL, ENOBUFS, "a piece of a body is too large");
    memcpy(f->in + f->in_len, bytes, len);
    f->in_len += len;
    return 0;
}

void kr_feed_on_body(void *data, struct kr_http_ex *ex, const char *bytes, size_t len)
{
    struct kr_file_feed *f = data;

    f->refused = keep_bytes(f, bytes, len) < 0;
    if (kr_fileop_busy(&f->w) && (f->refused || f->in_len >= KR_FEED_PAUSE))
        kr_http_pause_body(ex, true);
    feed_next(f);
}

void kr_feed_on_body_end(void *data, struct kr_http_ex *ex)
{
    struct kr_file_feed *f = data;

    (void)ex;
    f->ended = true;
    feed_next(f);
}

static void on_feed_account_ready(struct kr_quota_share *share)
{
    struct kr_file_feed *f = (struct kr_file_feed *)((char *)share - offsetof(struct kr_file_feed, share));
    int64_t length = kr_http_content_length(kr_file_ex(&f->w));

    if (kr_quota_room(share, length > 0 ? (uint64_t)length : 0, &f->w.err) < 0)
        kr_file_fail(&f->w);
    else
        f->start(&f->w);
}

void kr_feed_open(struct kr_file_feed *f)
{
    if (kr_quota_join(kr_file_home(&f->w), &f->w.who, &f->share, on_feed_account_ready, &f->w.err) < 0)
        kr_file_fail(&f->w);
}

void kr_feed_accept(struct kr_file_feed *f)
{
    kr_http_accept_body(kr_file_ex(&f->w), kr_file_api(&f->w)->config.max_upload,
                        &((const struct kr_file_kind *)f->w.kind)->calls, f);
}

void kr_feed_done(struct kr_file_feed *f)
{
    kr_quota_leave(&f->share);
    free(f->in);
    free(f->out);
}

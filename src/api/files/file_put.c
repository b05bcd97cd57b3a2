/* PUT of one file: the body as it is. Called through the table of routes.
 *
 * The bytes go into a temporary file of the workspace; at their end it takes its name. Invariant: until then nothing
 * is seen of it, and an upload that fails or is left leaves nothing. Preconditions are judged before the body is
 * asked for and, `If-None-Match: *`, again by the very rename. */
#include "file_request.h"
#include "buf.h"
#include "fd.h"
#include "file_range.h"
#include "hash.h"
#include "json.h"
#include "body_read.h"
#include "reply.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

struct putting {
    struct kr_file_feed feed;
    struct kr_files_upload *upload; /* the thread's while busy */
    bool create_only, existed, is_folder, stored;
    uint64_t size, old_size;
    char if_match[KR_ETAG_ROOM]; /* "" if it was not asked for */
    char etag[KR_ETAG_ROOM];     /* of what is there, then of what was stored; "" if nothing is */
};

static struct putting *putting_of(struct kr_fileop *w)
{
    return (struct putting *)w;
}

/* ---- on the thread pool ---- */

/* What is under the name now. */
static void look_at_target(struct putting *p)
{
    struct kr_fileop *w = &p->feed.w;
    cleanup_fd int fd = -1;
    struct kr_file_info info;
    struct kr_err ignored;
    struct stat st;

    p->etag[0] = '\0';
    p->existed = kr_files_stat(w->ws, w->path, &info, &ignored) == 0;
    p->is_folder = p->existed && info.type == KR_FILE_FOLDER;
    p->old_size = p->existed && info.type == KR_FILE_REGULAR ? info.size : 0;
    if (kr_files_open(w->ws, w->path, &fd, NULL, &ignored) == 0 && fstat(fd, &st) == 0)
        kr_etag_write(&st, p->etag);
}

static int check_conditions(struct putting *p)
{
    struct kr_err *err = &p->feed.w.err;

    look_at_target(p);
    if (p->create_only && p->existed)
        return kr_err_set(err, KR_ERR_CONFLICT, 0, "something of that name is there already"), -EEXIST;
    if (p->if_match[0] && (!p->etag[0] || !kr_etag_in(p->if_match, p->etag, false)))
        return kr_err_set(err, KR_ERR_CONFLICT, 0, "the file is not the one that If-Match names"), -ESTALE;
    if (p->is_folder)
        return kr_err_set(err, KR_ERR_CONFLICT, 0, "it is a folder"), -EISDIR;
    return 0;
}

static void step_begin(struct kr_fileop *w)
{
    struct putting *p = putting_of(w);

    w->r = check_conditions(p);
    if (w->r >= 0)
        w->r = kr_files_upload_begin(w->ws, w->path, UINT64_MAX, &p->upload, &w->err);
    w->unfinished = p->upload != NULL;
}

static int put_bytes(struct kr_file_feed *f, const void *data, size_t len)
{
    return kr_files_upload_write(((struct putting *)f)->upload, data, len, &f->w.err);
}

/* One at a time for each file: two that name the same content in If-Match must not both find it there. A file's lock is
 * that of its name's hash, so a few files share one. */
#define LOCKS 64u
static pthread_mutex_t locks[LOCKS] = {[0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t *lock_of(const struct kr_fileop *w)
{
    struct stat st = {0};
    uint32_t hash;

    if (fstat(w->ws, &st) < 0)
        st.st_ino = 0;
    hash = kr_hash_text(KR_HASH_START ^ (uint32_t)st.st_ino, w->path);
    return &locks[hash % LOCKS];
}

static void commit_upload(struct kr_fileop *w)
{
    struct putting *p = putting_of(w);
    bool replaced;

    w->r = check_conditions(p);
    if (w->r < 0)
        return;
    p->size = kr_files_upload_size(p->upload);
    w->r = p->create_only ? kr_files_upload_create(p->upload, &w->err) : kr_files_upload_commit(p->upload, &w->err);
    p->upload = NULL;
    w->unfinished = false;
    if (w->r < 0)
        return;
    p->stored = true;
    p->feed.share.kept = (int64_t)p->size - (int64_t)p->old_size;
    replaced = p->existed;
    look_at_target(p); /* for the validator: of what is there now, if another writer came in between */
    p->existed = replaced;
}

static void step_commit(struct kr_fileop *w)
{
    pthread_mutex_t *lock = lock_of(w);

    pthread_mutex_lock(lock);
    commit_upload(w);
    pthread_mutex_unlock(lock);
}

static void step_abort_put(struct kr_fileop *w)
{
    kr_files_upload_abort(putting_of(w)->upload);
    putting_of(w)->upload = NULL;
}

/* ---- on the loop ---- */

static void report_put(struct kr_fileop *w)
{
    struct putting *p = putting_of(w);

    if (p->stored)
        kr_fileop_changed(w, "file.write", "ok", w->path, (int64_t)p->size);
}

static void fail_putting(struct kr_fileop *w)
{
    if ((w->r == -EEXIST && putting_of(w)->create_only) || w->r == -ESTALE)
        kr_file_fail_status(w, 412, KR_ERR_CONFLICT, &w->err);
    else
        kr_file_fail(w);
}

static void on_committed(struct kr_fileop *w)
{
    const struct putting *p = putting_of(w);
    cleanup_buf struct kr_buf out = {0};
    struct kr_json j;

    if (w->r < 0) {
        fail_putting(w);
        return;
    }
    report_put(w);
    kr_buf_init(&out, KR_API_REPLY_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "path", w->path);
    kr_json_key_uint(&j, "size", p->size);
    kr_json_key_bool(&j, "created", !p->existed);
    kr_json_object_end(&j);
    if (p->etag[0])
        kr_http_set_header(kr_file_ex(w), "ETag", p->etag);
    kr_api_reply(kr_file_take(w), p->existed ? 200 : 201, &out);
    kr_fileop_end(w);
}

static void finish_putting(struct kr_fileop *w)
{
    if (kr_fileop_still_there(w) < 0)
        kr_file_fail(w);
    else
        kr_fileop_run(w, step_commit, on_committed);
}

static void on_begun(struct kr_fileop *w)
{
    if (w->r < 0)
        fail_putting(w);
    else
        kr_feed_accept(&putting_of(w)->feed);
}

static void start_putting(struct kr_fileop *w)
{
    kr_fileop_run(w, step_begin, on_begun);
}

static void free_putting(struct kr_fileop *w)
{
    kr_feed_done(&putting_of(w)->feed);
}

static const struct kr_file_kind kind = {
    .op = {.size = sizeof(struct putting), .late = report_put, .release = step_abort_put, .done = free_putting},
    .calls = {.on_body = kr_feed_on_body, .on_body_end = kr_feed_on_body_end, .on_gone = kr_file_on_gone},
};

/* If-None-Match other than `*`, and an If-Match too long to be ours, are conditions we cannot keep. False: answered. */
static bool read_conditions(struct putting *p)
{
    struct kr_http_ex *ex = kr_file_ex(&p->feed.w);
    const char *none = kr_http_header(ex, "if-none-match"), *match = kr_http_header(ex, "if-match");

    if ((none && strcmp(none, "*") != 0) || (match && strlen(match) >= sizeof p->if_match)) {
        kr_file_fail_with(&p->feed.w, KR_ERR_INVALID,
                          "If-None-Match: * and If-Match: with one ETag are understood here");
        return false;
    }
    p->create_only = none != NULL;
    if (match)
        memcpy(p->if_match, match, strlen(match) + 1);
    return true;
}

void kr_api_files_put(struct kr_http_ex *ex, void *app)
{
    struct putting *p = kr_file_new(ex, app, &kind);

    if (!p || !kr_file_caller(&p->feed.w) || !read_conditions(p))
        return;
    if (!kr_file_place(&p->feed.w, kr_http_param(ex, "sandbox_id"), kr_http_param(ex, "path"), true))
        return;
    p->feed.take = put_bytes;
    p->feed.start = start_putting;
    p->feed.failed = kr_file_fail;
    p->feed.finish = finish_putting;
    kr_feed_open(&p->feed);
}

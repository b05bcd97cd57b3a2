/* Reading: the content of a file, in a range or whole, or the list of a folder. Called by file_routes.c and
 * file_link.c.
 *
 * The first piece of disk work opens the file, looks at it and reads its beginning, which is all of a small one.
 * After that a piece is read whenever the connection has room: a slow reader holds one piece in memory and
 * KR_HTTP_QUEUE_LOW in the queue. Invariant: the length that was said is what is sent, or the connection is cut: a
 * file that shrinks meanwhile is never filled up. */
#include "file_request.h"
#include "buf.h"
#include "clock.h"
#include "route_doc.h"
#include "fd.h"
#include "file_range.h"
#include "guard.h"
#include "json.h"
#include "media.h"
#include "query.h"
#include "reply.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PIECE (128u << 10)
#define LIST_MS 2000u
#define TYPE_ROOM 160u

struct reading {
    struct kr_fileop w;
    struct kr_file_reading_spec spec;
    char *after;
    int fd;
    bool opened, listed;
    struct kr_buf json; /* of a list */
    uint64_t size;
    time_t modified;
    char etag[KR_ETAG_ROOM], type[TYPE_ROOM];
    char *piece;
    size_t got;
    uint64_t pos, end;
};

/* ---- on the thread pool ---- */

static void write_file_entry(struct kr_json *j, const struct kr_files_entry *e)
{
    uint64_t us = e->info.mtime_ns / 1000; /* a double holds times of this century to the microsecond */

    kr_json_object(j);
    kr_files_json_path(j, "path", e->path);
    kr_json_key_str(j, "type", kr_file_type_names[e->info.type]);
    kr_json_key_uint(j, "size", e->info.size);
    kr_json_key_double(j, "modified_at", (double)us / 1e6);
    kr_json_object_end(j);
}

static void write_file_list(struct reading *r, const struct kr_files_list *list)
{
    struct kr_json j;

    kr_json_init(&j, &r->json);
    kr_json_object(&j);
    kr_files_json_path(&j, "path", r->w.path);
    kr_json_key(&j, "files");
    kr_json_array(&j);
    for (size_t i = 0; i < list->count; i++)
        write_file_entry(&j, &list->entries[i]);
    kr_json_array_end(&j);
    if (list->more && list->count > 0)
        kr_files_json_path(&j, "next", list->entries[list->count - 1].path);
    else
        kr_json_key_null(&j, "next");
    kr_json_key_bool(&j, "incomplete", list->incomplete);
    kr_json_object_end(&j);
    if (kr_json_done(&j) < 0 && !r->json.failed)
        r->json.failed = -ENOBUFS;
}

static int list_read_folder(struct reading *r)
{
    struct kr_files_list_spec spec = {
        .recursive = r->spec.recursive,
        .limit = r->spec.limit,
        .after = r->after,
        .deadline_ns = kr_clock_after_ms(LIST_MS),
    };
    struct kr_files_list list;
    int e = kr_files_list(r->w.ws, r->w.path, &spec, &list, &r->w.err);

    if (e < 0)
        return e;
    write_file_list(r, &list);
    kr_files_list_done(&list);
    r->listed = true;
    return 0;
}

static int look_at_file(struct reading *r)
{
    struct stat st;
    const struct kr_media *media;
    size_t head;
    ssize_t n;

    if (fstat(r->fd, &st) < 0)
        return kr_err_set(&r->w.err, KR_ERR_SYSTEM, errno, "look at a file");
    r->size = (uint64_t)st.st_size;
    r->modified = st.st_mtim.tv_sec;
    kr_etag_write(&st, r->etag);
    r->piece = malloc(r->size < PIECE ? (size_t)r->size + 1 : PIECE);
    if (!r->piece)
        return kr_err_set(&r->w.err, KR_ERR_SYSTEM, ENOMEM, "read a file");
    n = kr_fd_read_at(r->fd, r->piece, r->size < PIECE ? (size_t)r->size : PIECE, 0);
    if (n < 0)
        return kr_err_set(&r->w.err, KR_ERR_SYSTEM, (int)n, "read a file");
    r->got = (size_t)n;
    if (r->got < PIECE)
        r->size = r->got; /* it shrank between the two */
    head = r->got < KR_MEDIA_SNIFF ? r->got : KR_MEDIA_SNIFF;
    media = kr_media_of(r->w.path, r->piece, head, head == r->size);
    kr_media_header(media, r->piece, head, head == r->size, r->type, sizeof r->type);
    return 0;
}

static void step_open_file(struct kr_fileop *w)
{
    struct reading *r = (struct reading *)w;

    w->r = r->spec.list ? -EISDIR : kr_files_open(w->ws, w->path, &r->fd, NULL, &w->err);
    r->opened = w->r >= 0;
    if (w->r == -EISDIR && r->spec.folder)
        w->r = list_read_folder(r);
    else if (w->r >= 0)
        w->r = look_at_file(r);
}

static void step_read_piece(struct kr_fileop *w)
{
    struct reading *r = (struct reading *)w;
    uint64_t left = r->end - r->pos;
    ssize_t n = kr_fd_read_at(r->fd, r->piece, left < PIECE ? (size_t)left : PIECE, r->pos);

    w->r = n < 0 ? (int)n : 0;
    r->got = n < 0 ? 0 : (size_t)n;
}

/* ---- on the loop ---- */

static void read_next_piece(struct reading *r);

static void write_piece(struct reading *r, const char *data, size_t len)
{
    r->pos += len;
    if (r->pos == r->end) {
        struct kr_http_ex *ex = kr_file_take(&r->w);

        kr_http_write(ex, data, len);
        kr_http_end(ex);
        kr_fileop_end(&r->w);
    } else if (kr_http_write(kr_file_ex(&r->w), data, len) < KR_HTTP_QUEUE_LOW) {
        read_next_piece(r);
    }
}

static void on_piece_read(struct kr_fileop *w)
{
    struct reading *r = (struct reading *)w;

    if (r->got == 0) { /* shorter than it was, or the disk fails: the peer must see that it is not whole */
        kr_http_abort(kr_file_take(w));
        kr_fileop_end(w);
        return;
    }
    write_piece(r, r->piece, r->got);
}

static void read_next_piece(struct reading *r)
{
    kr_fileop_run(&r->w, step_read_piece, on_piece_read);
}

static void on_reader_drain(void *data, struct kr_http_ex *ex)
{
    struct reading *r = data;

    (void)ex;
    if (!kr_fileop_busy(&r->w))
        read_next_piece(r);
}

static int set_file_headers(const struct reading *r)
{
    struct kr_guard_header guard[KR_GUARD_HEADERS_MAX];
    size_t n = kr_guard_security_headers(r->spec.link ? KR_GUARD_LINK : KR_GUARD_FILE, r->type, guard);
    struct kr_http_ex *ex = kr_file_ex(&r->w);
    cleanup_buf struct kr_buf disposition = {0};
    char date[48];
    struct tm tm;
    int e = 0;

    for (size_t i = 0; i < n && e == 0; i++)
        e = kr_http_set_header(ex, guard[i].name, guard[i].value);
    kr_buf_init(&disposition, 2048);
    kr_disposition_add(&disposition, r->spec.download ? "attachment" : "inline", r->w.path);
    if (e == 0)
        e = kr_http_set_header(ex, "Content-Disposition",
                               disposition.failed ? (r->spec.download ? "attachment" : "inline")
                                                  : kr_buf_str(&disposition));
    if (e == 0)
        e = kr_http_set_header(ex, "ETag", r->etag);
    if (e == 0)
        e = kr_http_set_header(ex, "Cache-Control", "private, no-cache");
    if (e == 0)
        e = kr_http_set_header(ex, "Accept-Ranges", "bytes");
    if (e == 0 && gmtime_r(&r->modified, &tm) && strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0)
        e = kr_http_set_header(ex, "Last-Modified", date);
    return e;
}

/* The range the request asks for; the status of the answer. */
static int choose_part(struct reading *r)
{
    const char *range = kr_http_header(kr_file_ex(&r->w), "range");
    char text[96];

    r->pos = 0;
    r->end = r->size;
    if (!range || kr_http_method(kr_file_ex(&r->w)) != KR_HTTP_GET ||
        !kr_etag_allows_range(kr_http_header(kr_file_ex(&r->w), "if-range"), r->etag))
        return 200;
    switch (kr_range_read(range, r->size, &r->pos, &r->end)) {
    case KR_RANGE_PART:
        snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, r->pos, r->end - 1, r->size);
        kr_http_set_header(kr_file_ex(&r->w), "Content-Range", text);
        return 206;
    case KR_RANGE_NONE:
        snprintf(text, sizeof text, "bytes */%" PRIu64, r->size);
        kr_http_set_header(kr_file_ex(&r->w), "Content-Range", text);
        return 416;
    case KR_RANGE_ALL:
        break;
    }
    return 200;
}

static void answer_file(struct reading *r)
{
    struct kr_http_ex *ex = kr_file_ex(&r->w);
    uint64_t have = r->got;
    int status;

    if (kr_etag_in(kr_http_header(ex, "if-none-match"), r->etag, true)) {
        kr_http_reply(kr_file_take(&r->w), 304, NULL, NULL, 0);
        kr_fileop_end(&r->w);
        return;
    }
    status = choose_part(r);
    if (status == 416) {
        kr_api_fail_status(kr_file_take(&r->w), 416, "range: the file has %" PRIu64 " bytes", r->size);
        kr_fileop_end(&r->w);
        return;
    }
    kr_http_begin(ex, status, r->type, (int64_t)(r->end - r->pos));
    if (r->pos == r->end || kr_http_method(ex) == KR_HTTP_HEAD) {
        kr_http_end(kr_file_take(&r->w));
        kr_fileop_end(&r->w);
    } else if (r->pos < have) {
        uint64_t end = r->end < have ? r->end : have;

        write_piece(r, r->piece + r->pos, (size_t)(end - r->pos));
    } else {
        read_next_piece(r);
    }
}

static void on_file_open(struct kr_fileop *w)
{
    struct reading *r = (struct reading *)w;

    w->ws = kr_fd_close(w->ws); /* a reader holds one descriptor */
    if (w->r < 0) {
        kr_file_missing(&w->err, !r->spec.list);
        kr_file_fail(w);
    } else if (r->listed) {
        kr_api_reply(kr_file_take(w), 200, &r->json);
        kr_fileop_end(w);
    } else if (set_file_headers(r) < 0) { /* never without the lines that tame a browser */
        kr_file_fail_with(w, KR_ERR_INTERNAL, "headers of a file do not fit");
    } else {
        answer_file(r);
    }
}

static void free_file_reading(struct kr_fileop *w)
{
    struct reading *r = (struct reading *)w;

    if (r->opened)
        kr_fd_close(r->fd);
    kr_buf_done(&r->json);
    free(r->after);
    free(r->piece);
}

const struct kr_file_kind kr_file_reading = {
    .op = {.size = sizeof(struct reading), .done = free_file_reading},
    .calls = {.on_drain = on_reader_drain, .on_gone = kr_file_on_gone},
};

void kr_file_read(struct kr_fileop *w, const struct kr_file_reading_spec *spec)
{
    struct reading *r = (struct reading *)w;

    r->spec = *spec;
    r->spec.after = NULL;
    kr_buf_init(&r->json, KR_API_REPLY_MAX);
    if (spec->after && !(r->after = strdup(spec->after))) {
        kr_file_fail_with(w, KR_ERR_INTERNAL, "no memory for a request");
        return;
    }
    kr_fileop_run(w, step_open_file, on_file_open);
}

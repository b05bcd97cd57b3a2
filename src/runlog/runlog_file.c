/* The file of a run's log: records one after the other, each with its length and a checksum.
 *
 * Called on the thread pool by runlog_spill.c. Invariant: a record counts only if it is whole and its checksum is
 * right, and nothing behind the first that is not counts; so that a process killed while it writes loses the record it
 * was writing and nothing else. No fsync: a log survives the death of krait, and of the machine as far as the system
 * had written it.
 *
 *     file    "kraitlog" version(4) 0(4)   then records
 *     record  crc(4) len(4) seq(8) time_ms(8) type(2) cause(2) 0(4)   then len bytes of data
 * A CUT's data is first(8) bytes(8). Little-endian. The checksum is of all that follows it. */
#include "buf.h"
#include "crc32c.h"
#include "fd.h"
#include "runlog_internal.h"
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define HEAD 32u
#define CUT_LEN 16u
#define VERSION 1u

static const char lost_text[] = "{\"cause\":\"lost\",\"truncated\":true,\"message\":\"krait ended before this run did; "
                                "what it had printed last may be missing\"}";
static const char file_magic[8] = {'k', 'r', 'a', 'i', 't', 'l', 'o', 'g'};

/* ---- one record ---- */

static void put16(char *p, uint16_t v)
{
    v = htole16(v);
    memcpy(p, &v, sizeof v);
}

static void put32(char *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof v);
}

static void put64(char *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof v);
}

static uint16_t get16(const char *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof v);
    return le16toh(v);
}

static uint32_t get32(const char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static uint64_t get64(const char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static size_t data_len(const struct rl_event *e)
{
    return e->type == KR_EVENT_CUT ? CUT_LEN : e->len;
}

size_t rl_file_size(const struct rl_event *e)
{
    return HEAD + data_len(e);
}

/* Fills the head, and for a CUT the data behind it. */
static void make_head(const struct rl_event *e, char head[static HEAD + CUT_LEN])
{
    const void *data = e->data;

    memset(head, 0, HEAD + CUT_LEN);
    put32(head + 4, (uint32_t)data_len(e));
    put64(head + 8, e->seq);
    put64(head + 16, e->time_ms);
    put16(head + 24, e->type);
    put16(head + 26, e->cause);
    if (e->type == KR_EVENT_CUT) {
        put64(head + HEAD, e->first);
        put64(head + HEAD + 8, e->bytes);
        data = head + HEAD;
    }
    put32(head, ~kr_crc32c_add(kr_crc32c_add(~0u, head + 4, HEAD - 4), data, data_len(e)));
}

int rl_record_read(const char *data, size_t len, bool check, struct rl_record *ret)
{
    size_t data_size;

    if (len < HEAD)
        return 0;
    data_size = get32(data + 4);
    if (data_size > KR_EVENT_DATA_MAX)
        return -EBADMSG;
    if (len - HEAD < data_size)
        return 0;
    if (check && get32(data) != ~kr_crc32c_add(~0u, data + 4, HEAD - 4 + data_size))
        return -EBADMSG;
    *ret = (struct rl_record){
        .seq = get64(data + 8),
        .time_ms = get64(data + 16),
        .type = get16(data + 24),
        .cause = get16(data + 26),
        .data = data + HEAD,
        .len = data_size,
        .size = HEAD + data_size,
        .bytes = data_size,
    };
    ret->first = ret->seq;
    if (ret->type >= KR_EVENT_MAX_ || ret->cause >= KR_CAUSE_MAX_)
        return -EBADMSG;
    if (ret->type != KR_EVENT_CUT)
        return 1;
    if (data_size != CUT_LEN)
        return -EBADMSG;
    ret->first = get64(ret->data);
    ret->bytes = get64(ret->data + 8);
    ret->len = 0;
    return ret->first <= ret->seq && ret->first > 0 ? 1 : -EBADMSG;
}

/* ---- writing ---- */

static int write_parts(int fd, struct iovec *parts, int count, uint64_t at)
{
    while (count > 0) {
        ssize_t n = pwritev(fd, parts, count, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        at += (uint64_t)n;
        while (count > 0 && (size_t)n >= parts->iov_len) {
            n -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + n;
            parts->iov_len -= (size_t)n;
        }
    }
    return 0;
}

static void make_file_head(char head[static RL_FILE_START])
{
    memset(head, 0, RL_FILE_START);
    memcpy(head, file_magic, sizeof file_magic);
    put32(head + sizeof file_magic, VERSION);
}

static int append_to(int fd, uint64_t at, struct rl_event *const *events, size_t count)
{
    cleanup_free char *heads = malloc(count * (HEAD + CUT_LEN));
    cleanup_free struct iovec *parts = calloc(2 * count + 1, sizeof *parts);
    char file_head[RL_FILE_START];
    int n = 0;

    if (!heads || !parts)
        return -ENOMEM;
    if (at == 0) {
        make_file_head(file_head);
        parts[n++] = (struct iovec){file_head, sizeof file_head};
    }
    for (size_t i = 0; i < count; i++) {
        char *head = heads + i * (HEAD + CUT_LEN);
        bool is_cut = events[i]->type == KR_EVENT_CUT;

        make_head(events[i], head);
        parts[n++] = (struct iovec){head, is_cut ? HEAD + CUT_LEN : HEAD};
        if (!is_cut && events[i]->len > 0)
            parts[n++] = (struct iovec){events[i]->data, events[i]->len};
    }
    return write_parts(fd, parts, n, at);
}

int rl_file_append(int dirfd, const char *name, uint64_t at, struct rl_event *const *events, size_t count)
{
    cleanup_fd int fd = openat(dirfd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (at == 0 ? O_CREAT | O_EXCL : 0), 0600);
    int r;

    if (fd < 0)
        return -errno;
    r = append_to(fd, at, events, count);
    if (r == 0)
        return 0;
    /* As before, so that the next try writes at the same position. A tail that stays all the same is overwritten
     * then, or dropped by the next scan. */
    if (at == 0)
        unlinkat(dirfd, name, 0);
    else if (ftruncate(fd, (off_t)at) < 0)
        return r;
    return r;
}

int rl_file_pack(struct kr_buf *ret, struct rl_event *const *events, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char head[HEAD + CUT_LEN];
        bool is_cut = events[i]->type == KR_EVENT_CUT;

        make_head(events[i], head);
        kr_buf_add(ret, head, is_cut ? HEAD + CUT_LEN : HEAD);
        if (!is_cut)
            kr_buf_add(ret, events[i]->data, events[i]->len);
    }
    return ret->failed;
}

/* ---- reading ---- */

/* A window on the file that moves forward and grows to hold one record. */
struct window {
    int fd;
    char *data;
    size_t start, len, room; /* what is there: len bytes from start on */
    uint64_t at, end;        /* of data[start] in the file; where the file ends */
};

/* Room for `need` bytes from the start on. 0 or -ENOMEM. */
static int window_reserve(struct window *w, size_t need)
{
    char *grown;

    if (w->start + need <= w->room)
        return 0;
    if (w->start > 0)
        memmove(w->data, w->data + w->start, w->len);
    w->start = 0;
    if (need <= w->room)
        return 0;
    grown = realloc(w->data, need);
    if (!grown)
        return -ENOMEM;
    w->data = grown;
    w->room = need;
    return 0;
}

/* Reads on until `need` bytes are there or the file ends. 0 or -errno. */
static int window_fill(struct window *w, size_t need)
{
    int r = window_reserve(w, need);

    while (r == 0 && w->len < need && w->at + w->len < w->end) {
        uint64_t at = w->at + w->len, left = w->end - at;
        size_t want = need - w->len < left ? need - w->len : (size_t)left;
        ssize_t n = pread(w->fd, w->data + w->start + w->len, want, (off_t)at);

        if (n == 0)
            break;
        if (n > 0)
            w->len += (size_t)n;
        else if (errno != EINTR)
            r = -errno;
    }
    return r;
}

static void window_forward(struct window *w, size_t n)
{
    w->start += n;
    w->len -= n;
    w->at += n;
}

/* The record at `pos` of the window; reads more if it is not all there. 1, 0 at the end of the file or a torn record,
 * -errno. */
static int window_record(struct window *w, size_t pos, struct rl_record *ret)
{
    size_t need;
    int r = 0;

    if (w->len < pos + HEAD)
        r = window_fill(w, pos + RL_BLOCK);
    if (r < 0)
        return r;
    if (w->len < pos + HEAD)
        return 0;
    need = pos + HEAD + get32(w->data + w->start + pos + 4);
    if (need - pos > HEAD + KR_EVENT_DATA_MAX)
        return -EBADMSG;
    if (need > w->len) {
        r = window_fill(w, need > pos + RL_BLOCK ? need : pos + RL_BLOCK);
        if (r < 0)
            return r;
    }
    return rl_record_read(w->data + w->start + pos, w->len - pos, true, ret);
}

/* How many bytes of sound records are at the window's start, those before `want` left behind. */
static int gather(struct window *w, uint64_t want, uint64_t *offset, size_t *ret_len)
{
    struct rl_record rec;
    size_t len = 0;
    int r;

    for (;;) {
        r = window_record(w, len, &rec);
        if (r <= 0)
            break;
        if (rec.seq < want) {
            *offset += rec.bytes;
            window_forward(w, rec.size);
            continue;
        }
        if (len > 0 && len + rec.size > RL_BLOCK)
            break;
        len += rec.size;
        if (len > RL_BLOCK / 2 || w->len - len < HEAD)
            break; /* enough, or more would have to be read */
    }
    *ret_len = len;
    if (len > 0)
        return 0; /* an error in what follows is returned when that is asked for */
    return r < 0 ? r : -EBADMSG;
}

int rl_file_load(int dirfd, const char *name, const struct rl_index *from, uint64_t end, uint64_t want,
                 struct rl_block *ret)
{
    cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct window w = {.fd = fd, .at = from->at, .end = end};
    struct rl_block b = {.offset = from->offset};
    int r = fd < 0 ? -errno : window_fill(&w, RL_BLOCK);

    if (r == 0)
        r = gather(&w, want, &b.offset, &b.len);
    if (r < 0 || b.len == 0) {
        free(w.data);
        return r < 0 ? r : -EBADMSG;
    }
    /* The block begins at the data's start, so that its memory is what is counted. */
    memmove(w.data, w.data + w.start, b.len);
    b.data = realloc(w.data, b.len);
    if (!b.data)
        b.data = w.data;
    *ret = b;
    return 0;
}

/* ---- looking at a whole file ---- */

static int add_index(struct rl_scan *s, size_t *room, const struct rl_index *entry)
{
    if (s->index_count == *room) {
        size_t more = *room ? *room * 2 : 16;
        void *grown = reallocarray(s->index, more, sizeof *s->index);

        if (!grown)
            return -ENOMEM;
        s->index = grown;
        *room = more;
    }
    s->index[s->index_count++] = *entry;
    return 0;
}

/* Reads sound records to the first that is not. *ret_ended: one of them was an END. */
static int scan_records(struct window *w, struct rl_scan *s, bool *ret_ended)
{
    struct rl_index entry = {.at = RL_FILE_START};
    struct rl_record rec;
    size_t room = 0;
    int r = add_index(s, &room, &entry);

    while (r == 0 && !*ret_ended) {
        r = window_record(w, 0, &rec);
        if (r <= 0)
            return r == -EBADMSG ? 0 : r;
        if (rec.first != s->last_seq + 1)
            return 0;
        r = 0;
        if (w->at - s->index[s->index_count - 1].at >= RL_CHUNK) {
            entry = (struct rl_index){.seq = rec.seq, .at = w->at, .offset = s->bytes};
            r = add_index(s, &room, &entry);
        }
        s->last_seq = rec.seq;
        s->bytes += rec.bytes;
        s->ended_ms = rec.time_ms;
        s->truncated |= rec.type == KR_EVENT_CUT;
        s->cause = rec.cause;
        *ret_ended = rec.type == KR_EVENT_END;
        window_forward(w, rec.size);
    }
    return r;
}

/* Writes the END that the run did not get to, over what is torn. */
static int close_as_lost(int fd, struct rl_scan *s)
{
    const size_t len = sizeof lost_text - 1;
    cleanup_free struct rl_event *e = calloc(1, sizeof *e + len);
    struct rl_event *const events[] = {e};
    uint64_t at = s->len <= RL_FILE_START ? 0 : s->len;
    int r;

    if (!e)
        return -ENOMEM;
    *e = (struct rl_event){.seq = s->last_seq + 1,
                           .first = s->last_seq + 1,
                           .len = (uint32_t)len,
                           .time_ms = rl_now_ms(),
                           .type = KR_EVENT_END,
                           .cause = KR_CAUSE_LOST};
    memcpy(e->data, lost_text, len);
    if (ftruncate(fd, (off_t)at) < 0)
        return -errno;
    r = append_to(fd, at, events, 1);
    if (r < 0)
        return r;
    s->len = (at ? at : RL_FILE_START) + rl_file_size(e);
    s->last_seq++;
    s->bytes += len;
    s->ended_ms = e->time_ms;
    s->truncated = true;
    s->cause = KR_CAUSE_LOST;
    return 0;
}

static int scan_file(int fd, struct window *w, struct rl_scan *s)
{
    char expected[RL_FILE_START];
    bool ended = false;
    int r = window_fill(w, RL_BLOCK);

    if (r < 0)
        return r;
    make_file_head(expected);
    /* A file shorter than its head was torn at birth; another head is none of ours. */
    if (memcmp(w->data, expected, w->len < RL_FILE_START ? w->len : RL_FILE_START) != 0)
        return -EBADMSG;
    window_forward(w, w->len < RL_FILE_START ? w->len : RL_FILE_START);
    r = scan_records(w, s, &ended);
    if (r < 0)
        return r;
    s->len = w->at;
    return ended ? 0 : close_as_lost(fd, s);
}

int rl_file_scan(int dirfd, const char *name, struct rl_scan *ret)
{
    cleanup_fd int fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct window w = {.fd = fd};
    struct rl_scan s = {.len = 0};
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EBADMSG;
    w.end = (uint64_t)st.st_size;
    r = scan_file(fd, &w, &s);
    free(w.data);
    if (r < 0) {
        free(s.index);
        return r;
    }
    *ret = s;
    return 0;
}

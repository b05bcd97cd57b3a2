/* Rows of runs and of the audit log on their way into the database: a buffer in memory, and the same bytes in a file.
 *
 * Each process that has them has a file of its own, called by its number (see kr_store_hold()).
 *
 * Called by store_run.c and store_audit.c once kr_store_notes_open() was called: a server's runs are many and short,
 * and a transaction for each would cost more than the run. Invariants: what kr_store_notes_write() returned 0 for is
 * there after kill -9, because the next kr_store_notes_open() reads the file; a row reaches the database once, because
 * the number of the generation that was taken over is written in the same transaction; a reader of runs or of the audit
 * log settles first, and so sees every row.
 *
 *     record  hash(8) len(4) kind(4) generation(8)   then len bytes: numbers of 8 bytes, texts as len(4) bytes NUL
 * The hash (SipHash) is of all that follows it. A new generation begins at the start of the file: what is behind its
 * last record has an older number, and does not count. The file is this machine's own: numbers are in its byte
 * order. */
#include "notes.h"
#include "store_audit.h"
#include "store_internal.h"
#include "store_run.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#define NOTES_ROOM (64u << 10) /* that a file must still take to be good for the next notes */

/* ---- writing one ---- */

static void put_number(struct kr_buf *b, int64_t number)
{
    kr_buf_add(b, &number, sizeof number);
}

static void put_bytes(struct kr_buf *b, const void *data, size_t size)
{
    uint32_t len = data ? (uint32_t)size : KR_NOTE_NO_TEXT;

    kr_buf_add(b, &len, sizeof len);
    if (data)
        kr_buf_add(b, data, size);
    kr_buf_add(b, "", 1);
}

static void put_text(struct kr_buf *b, const char *text)
{
    put_bytes(b, text, text ? strlen(text) : 0);
}

void kr_note_hash(const char *record, size_t len, unsigned char ret_hash[static KR_NOTE_HASH])
{
    static const unsigned char key[crypto_shorthash_KEYBYTES];

    crypto_shorthash(ret_hash, (const unsigned char *)record + KR_NOTE_HASH, len - KR_NOTE_HASH, key);
}

static size_t begin(struct kr_store *s, enum kr_note_kind kind)
{
    char head[KR_NOTE_HEAD] = {0};
    uint32_t word = kind;
    size_t at = s->notes.len;

    memcpy(head + 12, &word, sizeof word);
    memcpy(head + 16, &s->notes_generation, sizeof s->notes_generation);
    kr_buf_add(&s->notes, head, sizeof head);
    return at;
}

/* The record is whole, or there is none. */
static int finish(struct kr_store *s, size_t at, struct kr_err *err)
{
    uint32_t len;

    if (s->notes.failed) {
        int r = s->notes.failed;

        s->notes.failed = 0;
        s->notes.len = at;
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "the store cannot keep a note");
    }
    len = (uint32_t)(s->notes.len - at - KR_NOTE_HEAD);
    memcpy(s->notes.data + at + 8, &len, sizeof len);
    kr_note_hash(s->notes.data + at, s->notes.len - at, (unsigned char *)s->notes.data + at);
    return 0;
}

/* Room for one more, if what is there can be settled. The caller that settles in time reports a failure. */
static int make_room(struct kr_store *s, enum kr_note_kind kind, struct kr_err *err)
{
    if (s->notes.len > KR_NOTES_MAX / 2)
        kr_store_settle_quietly(s);
    if (kind != KR_NOTE_END && s->notes.len > KR_NOTES_MAX - KR_NOTES_ENDS)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOBUFS, "the store cannot keep a note");
    return 0;
}

int kr_note_start(struct kr_store *s, const struct kr_store_run_start *run, struct kr_err *err)
{
    size_t at;
    int r = make_room(s, KR_NOTE_START, err);

    if (r < 0)
        return r;
    at = begin(s, KR_NOTE_START);
    put_text(&s->notes, run->id);
    put_text(&s->notes, run->owner);
    put_text(&s->notes, run->sandbox);
    put_text(&s->notes, run->session);
    put_text(&s->notes, run->code);
    put_number(&s->notes, s->holder);
    put_number(&s->notes, run->started);
    return finish(s, at, err);
}

int kr_note_end(struct kr_store *s, const char *owner, const char *id, const struct kr_store_run_end *end,
                struct kr_err *err)
{
    int64_t numbers[] = {end->ended,
                         end->exit_code,
                         end->hits,
                         (int64_t)end->wall_us,
                         (int64_t)end->cpu_us,
                         (int64_t)end->peak_memory,
                         (int64_t)end->output_bytes,
                         (int64_t)end->kept_bytes,
                         end->truncated};
    size_t at;
    int r = make_room(s, KR_NOTE_END, err);

    if (r < 0)
        return r;
    at = begin(s, KR_NOTE_END);
    put_text(&s->notes, id);
    put_text(&s->notes, owner);
    put_text(&s->notes, end->cause);
    put_text(&s->notes, end->message);
    put_text(&s->notes, end->files);
    put_bytes(&s->notes, end->log, end->log_len);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put_number(&s->notes, numbers[i]);
    return finish(s, at, err);
}

int kr_note_audit(struct kr_store *s, const struct kr_store_audit *row, struct kr_err *err)
{
    size_t at;
    int r = make_room(s, KR_NOTE_AUDIT, err);

    if (r < 0)
        return r;
    at = begin(s, KR_NOTE_AUDIT);
    put_text(&s->notes, row->who);
    put_text(&s->notes, row->what);
    put_text(&s->notes, row->object);
    put_text(&s->notes, row->outcome);
    put_text(&s->notes, row->address);
    put_text(&s->notes, row->request);
    put_text(&s->notes, row->detail);
    put_number(&s->notes, row->at);
    return finish(s, at, err);
}

static int notes_fail(int code, struct kr_err *err)
{
    if (code == ENOSPC || code == EDQUOT)
        return kr_err_set(err, KR_ERR_NO_SPACE, code, "the server's disk is full: the store cannot write its notes");
    return kr_err_set(err, KR_ERR_BUSY, code, "the store cannot write its notes");
}

int kr_store_notes_write(struct kr_store *s, struct kr_err *err)
{
    while (s->notes_fd >= 0 && s->notes_written < s->notes.len) {
        ssize_t n = pwrite(s->notes_fd, s->notes.data + s->notes_written, s->notes.len - s->notes_written,
                           (off_t)s->notes_written);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return notes_fail(n < 0 ? errno : EIO, err);
        s->notes_written += (size_t)n;
    }
    return 0;
}

int kr_store_notes_ready(struct kr_store *s, struct kr_err *err)
{
    int r = kr_store_notes_write(s, err);

    if (r < 0 || s->notes_fd < 0)
        return r;
    if (fallocate(s->notes_fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)(s->notes.len + NOTES_ROOM)) == 0 ||
        errno == EOPNOTSUPP || errno == EINTR)
        return 0;
    return notes_fail(errno, err);
}

size_t kr_store_notes_waiting(const struct kr_store *s)
{
    return s->notes.len;
}

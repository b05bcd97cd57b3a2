/* Notes on their way out: into the database, from the buffer or from the file that a killed process left.
 *
 * Called by readers of rows of runs or of the audit log, by the domain's timer, and at the store's open and close.
 * Invariants: see notes.c; and a record that cannot be (its user is gone, its file was damaged) keeps no other out. */
#include "clock.h"
#include "fd.h"
#include "log.h"
#include "notes.h"
#include "store_audit.h"
#include "store_internal.h"
#include "store_run.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SETTLE_AGAIN_MS 1000u
#define NAME_ROOM 40u /* of the file, and of the setting that has the last generation in the database */

/* ---- reading them ---- */

/* What is left of a record's content; records are our own and whole, but a file may be anything. */
struct cursor {
    const char *at, *end;
    bool bad;
};

static int64_t get_number(struct cursor *c)
{
    int64_t number = 0;

    c->bad |= (size_t)(c->end - c->at) < sizeof number;
    if (c->bad)
        return 0;
    memcpy(&number, c->at, sizeof number);
    c->at += sizeof number;
    return number;
}

static const char *get_bytes(struct cursor *c, size_t *ret_len)
{
    const char *text;
    uint32_t len = 0;

    *ret_len = 0;
    c->bad |= (size_t)(c->end - c->at) < sizeof len;
    if (c->bad)
        return NULL;
    memcpy(&len, c->at, sizeof len);
    c->at += sizeof len;
    text = len == KR_NOTE_NO_TEXT ? NULL : c->at;
    len = len == KR_NOTE_NO_TEXT ? 0 : len;
    c->bad |= (size_t)(c->end - c->at) <= len || c->at[len] != '\0';
    if (c->bad)
        return NULL;
    c->at += len + 1;
    *ret_len = len;
    return text;
}

static const char *get_text(struct cursor *c)
{
    size_t len;

    return get_bytes(c, &len);
}

/* The content of the record at *at, which moves behind it. 0 (no kind): the bytes end, or the record is not sound or
 * not of that generation. */
static unsigned next_record(const char *data, size_t len, size_t *at, uint64_t generation, bool check,
                            struct cursor *ret)
{
    unsigned char hash[KR_NOTE_HASH];
    uint32_t size, kind;
    uint64_t number;

    if (len - *at < KR_NOTE_HEAD)
        return 0;
    memcpy(&size, data + *at + 8, sizeof size);
    memcpy(&kind, data + *at + 12, sizeof kind);
    memcpy(&number, data + *at + 16, sizeof number);
    if (size > len - *at - KR_NOTE_HEAD || number != generation)
        return 0;
    if (check) {
        kr_note_hash(data + *at, KR_NOTE_HEAD + size, hash);
        if (memcmp(hash, data + *at, sizeof hash) != 0)
            return 0;
    }
    *ret = (struct cursor){.at = data + *at + KR_NOTE_HEAD, .end = data + *at + KR_NOTE_HEAD + size};
    *at += KR_NOTE_HEAD + size;
    return kind;
}

static void read_start(struct cursor *c, struct kr_note_start *ret)
{
    ret->id = get_text(c);
    ret->owner = get_text(c);
    ret->sandbox = get_text(c);
    ret->session = get_text(c);
    ret->code = get_text(c);
    ret->holder = get_number(c);
    ret->started = get_number(c);
}

bool kr_notes_know_session(const struct kr_store *s, const char *owner, const char *sandbox, const char *session)
{
    struct kr_note_start start;
    struct cursor c;
    unsigned kind;

    for (size_t at = 0; (kind = next_record(s->notes.data, s->notes.len, &at, s->notes_generation, false, &c));) {
        if (kind != KR_NOTE_START)
            continue;
        read_start(&c, &start);
        if (!c.bad && !strcmp(start.owner, owner) && !strcmp(start.sandbox, sandbox) && !strcmp(start.session, session))
            return true;
    }
    return false;
}

/* ---- into the database ---- */

static const char *name_of(int64_t holder, char name[static NAME_ROOM])
{
    snprintf(name, NAME_ROOM, KR_STORE_NOTES "%llx", (unsigned long long)holder);
    return name;
}

/* Runs whose end has not been met yet. */
struct starts {
    struct kr_note_start *list;
    size_t count, room;
};

/* A row that the schema refuses (its user is gone) must not keep the others out. */
static int tolerate(int r, const char *what, const char *id, const struct kr_err *why)
{
    if (r != -EEXIST && r != -ENOENT && r != -EINVAL)
        return r < 0 ? r : 0;
    kr_log(KR_LOG_WARN, "a row of the store is lost", "what=\"%s\" id=%s error=\"%s\"", what, id, why->msg);
    return 0;
}

static int take_start(struct starts *starts, struct cursor *c, struct kr_err *err)
{
    if (starts->count == starts->room) {
        size_t room = starts->room ? 2 * starts->room : 64;
        void *grown = reallocarray(starts->list, room, sizeof *starts->list);

        if (!grown)
            return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the store cannot settle");
        starts->list = grown;
        starts->room = room;
    }
    read_start(c, &starts->list[starts->count]);
    starts->count += !c->bad && starts->list[starts->count].id;
    return 0;
}

/* The start of that run, taken out; false if the database has it already. */
static bool find_start(struct starts *starts, const char *id, struct kr_note_start *ret)
{
    for (size_t i = starts->count; i > 0; i--)
        if (!strcmp(starts->list[i - 1].id, id)) {
            *ret = starts->list[i - 1];
            starts->list[i - 1] = starts->list[--starts->count];
            return true;
        }
    return false;
}

static int take_end(struct kr_store *s, struct starts *starts, struct cursor *c, struct kr_err *err)
{
    struct kr_store_run_end end = {0};
    struct kr_note_start start;
    struct kr_err why = {0};
    const char *id = get_text(c), *owner = get_text(c);
    int r;

    end.cause = get_text(c);
    end.message = get_text(c);
    end.files = get_text(c);
    end.log = get_bytes(c, &end.log_len);
    end.ended = get_number(c);
    end.exit_code = (int)get_number(c);
    end.hits = (unsigned)get_number(c);
    end.wall_us = (uint64_t)get_number(c);
    end.cpu_us = (uint64_t)get_number(c);
    end.peak_memory = (uint64_t)get_number(c);
    end.output_bytes = (uint64_t)get_number(c);
    end.kept_bytes = (uint64_t)get_number(c);
    end.truncated = get_number(c) != 0;
    if (c->bad || !id)
        return 0;
    r = find_start(starts, id, &start) ? kr_run_put_whole(s, &start, &end, &why)
                                       : kr_run_put_end(s, owner, id, &end, &why);
    r = tolerate(r, "run", id, &why);
    if (r < 0 && err)
        *err = why;
    return r;
}

static int take_audit(struct kr_store *s, struct cursor *c, struct kr_err *err)
{
    struct kr_store_audit row = {0};
    struct kr_err why = {0};
    int r;

    row.who = get_text(c);
    row.what = get_text(c);
    row.object = get_text(c);
    row.outcome = get_text(c);
    row.address = get_text(c);
    row.request = get_text(c);
    row.detail = get_text(c);
    row.at = get_number(c);
    if (c->bad)
        return 0;
    r = tolerate(kr_audit_put(s, &row, &why), "audit", row.object, &why);
    if (r < 0 && err)
        *err = why;
    return r;
}

static int put_open_starts(struct kr_store *s, struct starts *starts, struct kr_err *err)
{
    struct kr_err why = {0};
    int r = 0;

    for (size_t i = 0; i < starts->count && r >= 0; i++)
        r = tolerate(kr_run_put_start(s, &starts->list[i], &why), "run", starts->list[i].id, &why);
    if (r < 0 && err)
        *err = why;
    return r;
}

/* Records of that generation up to `at`, or behind a damaged spot. */
static unsigned next_or_later(const char *data, size_t len, size_t *at, uint64_t generation, bool check,
                              struct cursor *ret)
{
    unsigned kind = next_record(data, len, at, generation, check, ret);

    if (kind || !check)
        return kind;
    *at = kr_notes_resync(data, len, *at, generation - 1, &generation);
    return next_record(data, len, at, generation, check, ret);
}

/* Every sound record of that generation, and its number, in the transaction that is open. `from`: the file they were
 * read from; NULL: they are our own. */
static int take_over(struct kr_store *s, const char *data, size_t len, uint64_t generation, const char *from,
                     struct kr_err *err)
{
    char name[NAME_ROOM];
    struct starts starts = {0};
    struct cursor c;
    unsigned kind, strange = 0;
    int r = 0;

    for (size_t at = 0; r >= 0 && (kind = next_or_later(data, len, &at, generation, from != NULL, &c));) {
        if (kind == KR_NOTE_START)
            r = take_start(&starts, &c, err);
        else if (kind == KR_NOTE_END)
            r = take_end(s, &starts, &c, err);
        else if (kind == KR_NOTE_AUDIT)
            r = take_audit(s, &c, err);
        strange += c.bad || kind > KR_NOTE_AUDIT;
    }
    if (strange)
        kr_log(KR_LOG_WARN, "rows of the store cannot be read and are lost", "notes=%s rows=%u", from ? from : "own",
               strange);
    if (r >= 0)
        r = put_open_starts(s, &starts, err);
    free(starts.list);
    if (r < 0)
        return r;
    return kr_st_exec(s, KR_ST_SETTING_SET, err, "tb", from ? from : name_of(s->holder, name), &generation,
                      sizeof generation);
}

int kr_store_settle(struct kr_store *s, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    int r;

    if (s->notes.len == 0)
        return 0;
    if ((r = kr_txn_begin(&t, s, err)) < 0 ||
        (r = take_over(s, s->notes.data, s->notes.len, s->notes_generation, NULL, err)) < 0 ||
        (r = kr_txn_commit(&t, false, err)) < 0) {
        s->settle_after_ns = kr_clock_after_ms(SETTLE_AGAIN_MS);
        return r;
    }
    s->settle_after_ns = 0;
    kr_buf_reset(&s->notes);
    s->notes_written = 0;
    s->notes_generation++;
    return 0;
}

/* A full disk does not stop reads: they answer without the rows that wait. After a failure the next tries are skipped
 * for a while, so that not every read pays for one. */
void kr_store_settle_quietly(struct kr_store *s)
{
    struct kr_err ignored;

    if (kr_clock_ns() >= s->settle_after_ns)
        (void)kr_store_settle(s, &ignored); /* the domain's timer tries again, and says why it cannot */
}

/* ---- opening and closing ---- */

static int read_all(int fd, struct kr_buf *ret)
{
    char piece[65536];
    ssize_t n;

    while ((n = read(fd, piece, sizeof piece)) != 0) {
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0 && kr_buf_add(ret, piece, (size_t)n) < 0)
            return ret->failed == -ENOBUFS ? 0 : ret->failed; /* what is too long to be ours does not count */
    }
    return 0;
}

/* The number of the process whose notes they are. 0: the file is none of ours. */
int64_t kr_notes_holder(const char *name)
{
    size_t prefix = strlen(KR_STORE_NOTES);
    char *end;
    long long holder;

    if (strncmp(name, KR_STORE_NOTES, prefix) != 0 || !isxdigit((unsigned char)name[prefix]))
        return 0;
    holder = strtoll(name + prefix, &end, 16);
    return *end || holder == LLONG_MAX ? 0 : holder;
}

/* The records of a file that the database does not have yet. 1: those that can be read, of a damaged file; without
 * `accepts` that is -EUCLEAN. */
static int replay(struct kr_store *s, const char *name, int fd, bool accepts, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    cleanup_buf struct kr_buf found;
    uint64_t generation = 0, known = 0;
    size_t spot = 0;
    bool damaged;
    int r;

    kr_buf_init(&found, KR_NOTES_MAX + (64u << 10));
    if ((r = read_all(fd, &found)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "read %.120s/%s", s->dir, name);
    r = kr_store_setting_get(s, name, &known, sizeof known, err);
    if (r < 0 && r != -ENOENT)
        return r;
    damaged = found.len > 0 && kr_notes_damaged(found.data, found.len, known, &spot);
    if (damaged && !accepts)
        return kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN,
                            "%.90s/%s is damaged at byte %zu, and runs in it would be lost: put it back from a backup, "
                            "or start once with --accept-loss",
                            s->dir, name, spot);
    if (found.len == 0 || kr_notes_resync(found.data, found.len, 0, known, &generation) == found.len)
        return damaged;
    if ((r = kr_txn_begin(&t, s, err)) < 0 || (r = take_over(s, found.data, found.len, generation, name, err)) < 0)
        return r;
    r = kr_txn_commit(&t, false, err);
    return r < 0 ? r : damaged;
}

/* They are in the database, and their file may go. The order is such that a crash within leaves no row twice. */
static void forget(struct kr_store *s, const char *name)
{
    struct kr_err err;

    if (unlinkat(s->dir_fd, name, 0) < 0 || kr_st_exec(s, KR_ST_SETTING_DELETE, &err, "t", name) < 0)
        kr_log(KR_LOG_WARN, "ignoring that notes cannot be cleared away", "name=%s", name);
}

static void set_aside(struct kr_store *s, const char *name)
{
    char aside[NAME_ROOM + 16];
    struct kr_err err;

    snprintf(aside, sizeof aside, "%.*s.damaged", NAME_ROOM, name);
    if (renameat(s->dir_fd, name, s->dir_fd, aside) < 0 || kr_st_exec(s, KR_ST_SETTING_DELETE, &err, "t", name) < 0)
        kr_log(KR_LOG_WARN, "ignoring that damaged notes cannot be set aside", "name=%s", name);
    else
        kr_log(KR_LOG_ERROR, "damaged notes of an earlier process are set aside, runs in them may be lost", "name=%s",
               aside);
}

/* What a process that was killed left; the lock is against another who finds it, too. What cannot be written now (a
 * full disk) waits in the file for the next start. 0, or -EUCLEAN: the file is damaged, and that is not accepted. */
static int take_from(struct kr_store *s, const char *name, bool accepts, struct kr_err *ret_err)
{
    cleanup_fd int fd = openat(s->dir_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    struct kr_err err;
    int r;

    if (fd < 0 && errno != ENOENT)
        kr_log(KR_LOG_ERROR, "notes of an earlier process cannot be opened", "name=%s errno=%d", name, errno);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 || st.st_nlink == 0 || !S_ISREG(st.st_mode))
        return 0;
    r = replay(s, name, fd, accepts, &err);
    if (r == -EUCLEAN) {
        *ret_err = err;
        return r;
    }
    if (r < 0)
        kr_log(KR_LOG_ERROR, "notes of an earlier process stay where they are", "name=%s error=\"%s\"", name, err.msg);
    else if (r > 0)
        set_aside(s, name);
    else
        forget(s, name);
    return 0;
}

static int take_from_dead(struct kr_store *s, bool accepts, struct kr_err *err)
{
    int r = 0;
    int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct dirent *e;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        kr_fd_close(fd);
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "list the data directory");
    }
    while (r >= 0 && (e = readdir(dir))) {
        int64_t holder = kr_notes_holder(e->d_name);

        if (holder > 0 && !kr_store_holder_lives(s, holder))
            r = take_from(s, e->d_name, accepts, err);
    }
    closedir(dir);
    return r;
}

bool kr_notes_left_by(const struct kr_store *s, int64_t holder)
{
    char name[NAME_ROOM];
    struct stat st;

    return fstatat(s->dir_fd, name_of(holder, name), &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

int kr_store_notes_open(struct kr_store *s, bool accepts_loss, struct kr_err *err)
{
    char name[NAME_ROOM];
    int r = take_from_dead(s, accepts_loss, err), fd;

    if (r < 0)
        return r;
    fd = kr_store_file_open(s, name_of(s->holder, name), O_RDWR);
    if (fd < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -fd, "make %s", name);
    kr_buf_init(&s->notes, KR_NOTES_MAX);
    s->notes_fd = fd;
    s->notes_generation = 1;
    s->notes_written = 0;
    return kr_store_logs_begin(s, err);
}

void kr_store_notes_close(struct kr_store *s)
{
    char name[NAME_ROOM];
    struct kr_err err;

    if (s->notes_fd < 0)
        return;
    if (kr_store_settle(s, &err) >= 0) {
        forget(s, name_of(s->holder, name));
    } else {
        kr_log(KR_LOG_ERROR, "rows of runs and audit stay in the notes", "error=\"%s\"", err.msg);
        if (kr_store_notes_write(s, &err) < 0)
            kr_log(KR_LOG_ERROR, "rows of runs and audit are lost", "error=\"%s\"", err.msg);
    }
    s->notes_fd = kr_fd_close(s->notes_fd);
    kr_buf_done(&s->notes);
}

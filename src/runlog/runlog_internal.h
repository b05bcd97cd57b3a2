/* What the files of runlog.h share: the structs behind it, and the file's codec. Not for others. */
#pragma once
#include "loop.h"
#include "runlog.h"
#include <sys/queue.h>
#include <uv.h>

#define RL_CHUNK (64u << 10)  /* unwritten bytes that start a write; a step of the index; cache left of a live log */
#define RL_BLOCK (128u << 10) /* a reader's block of a file, or one record */
#define RL_JOB_EVENTS 511u /* of one write: IOV_MAX is 1024, a record is two parts, and the head of the file is one */
#define RL_JOB_BYTES (1u << 20)
#define RL_RESERVE (8u << 10) /* of a log that the shared budget never takes */
#define RL_IDLE_MAX 1024u     /* ended logs kept in memory that are on disk too */
#define RL_LOADS_MAX 8u       /* blocks being read at once */
#define RL_RETRY_MS 1000u     /* after a failed write */
#define RL_WRITES_MAX 8u /* writes under way at once: the thread pool has other work, and what waits can still be cut */
#define RL_BUCKETS 1024u
#define RL_NAME_MAX (KR_RUNLOG_ID_MAX + 5u) /* id.log */
#define RL_UNLINK_MAX 256u                  /* files deleted by one job */

/* ---- events in memory ---- */

struct rl_event {
    uint64_t seq, first; /* the same, but for a CUT */
    uint64_t offset;     /* bytes of data in the log before it */
    uint64_t bytes;      /* of data it is or stands for; the next event's offset is offset + bytes or, after a loss that
                            could not be numbered, more */
    uint64_t time_ms;
    uint32_t len, cap;
    uint16_t type, cause;
    char data[];
};

/* ---- the file (runlog_file.c): pure functions for the thread pool ---- */

struct rl_record {
    uint64_t seq, first, bytes, time_ms;
    uint16_t type, cause;
    const char *data;
    size_t len, size; /* of data; of the whole record in the file */
};

struct rl_index {
    uint64_t seq;    /* of the record at `at`; 0 for the first */
    uint64_t at;     /* in the file */
    uint64_t offset; /* bytes of data before it */
};

/* Records as they are in the file, all of them sound. */
struct rl_block {
    char *data;
    size_t len, pos;
    uint64_t offset; /* bytes of data before the one at pos */
};

struct rl_scan {
    uint64_t len; /* of the sound file, an END included */
    uint64_t last_seq, bytes, ended_ms;
    bool truncated;
    enum kr_cause cause;
    struct rl_index *index;
    size_t index_count;
};

/* Size of an event's record. */
size_t rl_file_size(const struct rl_event *e);
#define RL_FILE_START 16u /* where the first record is */
/* Appends the events' records at `at`, where the file ends; 0 makes the file. 0, or -errno and the file is as
 * before. */
int rl_file_append(int dirfd, const char *name, uint64_t at, struct rl_event *const *events, size_t count);
/* The records from number `want` on, RL_BLOCK bytes of them or one, from `from` (an entry of the index) to `end`. */
int rl_file_load(int dirfd, const char *name, const struct rl_index *from, uint64_t end, uint64_t want,
                 struct rl_block *ret);
/* The events' records, as they would be in a file. 0 or -errno of the buffer. */
int rl_file_pack(struct kr_buf *ret, struct rl_event *const *events, size_t count);
/* Reads all of it; drops what is torn, and if there is no END writes one with `lost`. 0 or -errno. */
int rl_file_scan(int dirfd, const char *name, struct rl_scan *ret);
/* Decodes the record at the start of the bytes, whose checksum is looked at if `check`. 1; 0: cut off by their end;
 * -EBADMSG. */
int rl_record_read(const char *data, size_t len, bool check, struct rl_record *ret);

/* ---- logs ---- */

TAILQ_HEAD(rl_list, kr_runlog);
TAILQ_HEAD(rl_readers, kr_runlog_reader);

struct kr_runlog {
    TAILQ_ENTRY(kr_runlog) link, idle_link, write_link;
    struct kr_runlog *next_in_bucket;
    struct kr_runlogs *logs;
    struct rl_list *idle; /* the list it is in, or NULL */
    char id[KR_RUNLOG_ID_MAX + 1], name[RL_NAME_MAX];
    unsigned refs;
    bool packed; /* the caller of kr_runlog_end_packed() keeps its bytes: no file, and never dropped while held */
    bool memory_only, scanning, writing, write_waits, ended, truncated, doomed, paused;
    int failed; /* -errno: its file cannot be read */
    enum kr_cause cause;
    uint64_t last_seq, bytes, seen_seq, ended_ms;

    struct rl_event **events; /* room for them; those in use are count from first on */
    size_t first, count, room;
    size_t memory, unwritten; /* counted bytes; of these not in the file */
    bool stuck;               /* nothing in it can be cut just now */

    uint64_t written_seq, pinned_seq; /* what is in the file; what the write under way will have put there */
    uint64_t file_len, retry_ns;
    struct rl_index *index;
    size_t index_count, index_room;

    struct rl_event *spare_cut, *spare_end; /* for when there is no memory */
    struct rl_readers readers;
    void (*on_room)(void *data, struct kr_runlog *log);
    void *data;
};

struct kr_runlog_reader {
    TAILQ_ENTRY(kr_runlog_reader) link, due_link, load_link;
    struct kr_runlog *log;
    kr_runlog_more_fn *on_more, *on_now; /* on_now: may be NULL */
    void *data;
    uint64_t want;
    uint64_t offset; /* bytes of data before `want`, if known */
    bool offset_known, hungry, is_due, loading, load_waits, closed;
    int failed;
    struct rl_block block;
    uint64_t shown_seq, shown_offset; /* of the last peek: what is taken, and the bytes up to its end; 0: nothing */
    size_t shown_size;                /* of its record, if it is the block's next */
    struct rl_readers *due_in;        /* the list it is in, if due */
};

struct rl_trim; /* runlog_trim.c */

struct kr_runlogs {
    struct uv_loop_s *loop;
    struct kr_runlogs_config config;
    size_t memory, soft_max;
    size_t cached; /* of memory: events that are in files too */
    size_t blocks; /* of memory: readers' blocks */
    struct rl_list logs;
    struct rl_list idle_written, idle_memory, idle_unwritten; /* ended and unheld: on disk; no disk; waiting for it */
    struct rl_list writes_waiting;
    size_t log_count, idle_count;
    struct kr_runlog *buckets[RL_BUCKETS];
    struct rl_readers due, calling, loads_waiting; /* to be called; those whose turn it is; waiting for a block */
    unsigned loads, writes, jobs;                  /* under way; jobs are all of them */
    uv_check_t check;
    uv_idle_t spin; /* keeps the loop from sleeping while a reader is due */
    bool awake, closed;
    int handles; /* still open */
    struct kr_timer *timer;
    void (*on_flushed)(void *data);
    void *flushed_data;
    struct rl_trim *trim;
    TAILQ_HEAD(, rl_unlink) unlinks;
    uint64_t cuts, written;
    int disk_error;
};

/* runlog.c */
struct kr_runlog *rl_find(const struct kr_runlogs *l, const char *id);
bool rl_valid_id(const char *id);
int rl_log_new(struct kr_runlogs *l, const char *id, struct kr_runlog **ret_log);
/* The log of that id if it is in memory: 1, and a reference. Else a new one, without events yet: 0. Or -errno. */
int rl_open(struct kr_runlogs *l, const char *id, struct kr_runlog **ret_log);
/* It has no reference, and no job is under way. */
void rl_log_free(struct kr_runlog *log);
/* Nothing refers to it: it goes to a list of idle ones, to the disk or away. */
void rl_settle(struct kr_runlog *log);
void rl_wake(struct kr_runlogs *l);
/* After the last job and handle of a closed one. */
void rl_maybe_free(struct kr_runlogs *l);
uint64_t rl_now_ms(void);

/* runlog_pack.c */
/* Turns a log that has just ended into bytes: 1, or 0 if it is too large or has a file. */
int rl_pack(struct kr_runlog *log, struct kr_buf *ret);

/* runlog_memory.c */
size_t rl_size(const struct rl_event *e);
static inline struct rl_event *rl_at(const struct kr_runlog *log, size_t i)
{
    return log->events[log->first + i];
}
/* Index of the first event in memory with this number or a later one; count if there is none. */
size_t rl_index_of(const struct kr_runlog *log, uint64_t seq);
void rl_account(struct kr_runlog *log, size_t more, size_t less);
/* Makes room for `need` bytes more in this log, by dropping what is on disk too and by cutting. False: there is
 * none. */
bool rl_make_room(struct kr_runlog *log, size_t need);
/* The same for a reader's block, which cuts nothing. */
void rl_ease(struct kr_runlogs *l);
/* Drops cached events until at most `keep` bytes of them are left. */
void rl_drop_cached(struct kr_runlog *log, size_t keep);
/* Slots for two more events. False: no memory, one may still be there. */
bool rl_reserve(struct kr_runlog *log);
/* An event of len bytes that cannot be kept. */
void rl_lose(struct kr_runlog *log, size_t len);

/* runlog_spill.c */
/* Whether what this log has too much of may go to its file, now or soon. */
bool rl_can_spill(const struct kr_runlog *log);
bool rl_is_behind(const struct kr_runlog *log);
void rl_write(struct kr_runlog *log);
/* It is not to be written after all. */
void rl_forget_write(struct kr_runlog *log);
int rl_scan(struct kr_runlog *log);
void rl_flush_check(struct kr_runlogs *l);
void rl_on_timer(void *data);
void rl_arm_timer(struct kr_runlogs *l);

/* runlog_reader.c */
void rl_call_soon(struct kr_runlog_reader *r);
void rl_call_hungry(struct kr_runlog *log);
void rl_call_all(struct kr_runlog *log);
void rl_drop_block(struct kr_runlog_reader *r);
void rl_call_due(struct kr_runlogs *l);

/* runlog_trim.c */
/* Deletes a log's file on the thread pool. */
void rl_unlink(struct kr_runlogs *l, const char *name);
bool rl_being_unlinked(const struct kr_runlogs *l, const char *name);
void rl_trim_free(struct rl_trim *t);

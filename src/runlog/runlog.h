/* The output log of a run: numbered events, bounded, kept for a while after the run's end, readable again from any
 * number. Every voice is a reader of it. docs/design/runlog.md has the layout and what happens at each limit.
 *
 * All of this belongs to the loop thread; files are written and read on the thread pool. Several processes may share a
 * folder, if none opens a log that another still writes (box.h asks the store). */
#pragma once
#include "cause.h"
#include "err.h"
#include "output.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_buf;
struct kr_runlogs;       /* all logs of the process: the shared budget, the folder */
struct kr_runlog;        /* one run's log */
struct kr_runlog_reader; /* a cursor in one */
struct uv_loop_s;

/* ---- events ---- */

enum kr_event_type {
    KR_EVENT_QUEUED,
    KR_EVENT_STARTED,
    KR_EVENT_STDOUT, /* data is text; pieces of one stream that follow each other may come as one */
    KR_EVENT_STDERR,
    KR_EVENT_DISPLAY, /* data of this and all others but CUT is one JSON object */
    KR_EVENT_RESULT,
    KR_EVENT_ERROR,
    KR_EVENT_INPUT,  /* input() asks */
    KR_EVENT_NOTICE, /* session_restarted and the like */
    KR_EVENT_CUT,    /* events are missing here: `cut` says which; no data. Only the log makes it */
    KR_EVENT_END,    /* the last one, never lost */
    KR_EVENT_MAX_,
};
/* The `type` in JSON. */
extern const char *const kr_event_names[KR_EVENT_MAX_];

struct kr_event {
    uint64_t seq;     /* 1, 2, 3 …; of a CUT that of the last event it stands for, so that seq + 1 is always next */
    uint64_t time_ms; /* Unix time */
    enum kr_event_type type;
    const char *data;
    size_t len;
    struct {
        uint64_t first, last; /* the numbers that are missing */
        uint64_t bytes;       /* of data in them */
    } cut;
    enum kr_cause cause; /* of an END */
};

#define KR_EVENT_TEXT_MAX (32u << 10) /* longer text becomes several events, never within a character */
#define KR_EVENT_DATA_MAX (20u << 20) /* a JSON event: a display is 16 MiB at most. More is lost as if cut */

/* Appends the event as one JSON object without a newline: {"seq":3,"type":"stdout","text":"…"}, {"seq":4,
 * "type":"cut","first":…,"last":…,"bytes":…}, {"seq":5,"type":"error","error":{…}}, and for the others seq, type and
 * the members of their data. 0 or -errno of the buffer. */
int kr_event_json(struct kr_buf *out, const struct kr_event *e);

/* ---- all logs ---- */

struct kr_runlogs_config {
    int dirfd;             /* the folder of the files, which exists; borrowed. -1: nothing is ever on disk */
    size_t memory_max;     /* all logs together, readers' blocks included; 0: 64 MiB */
    size_t run_memory_max; /* one log; 0: 1 MiB. Past it the middle is cut, or with a folder spilled */
    uint64_t run_file_max; /* one log's file while it runs; 0: 64 MiB. Past it the log goes on in memory */
    uint64_t flush_ms;     /* what is older than this is in the file; 0: 1000 */
};

struct kr_runlogs_figures {
    size_t memory;     /* bytes counted now */
    size_t logs, live; /* in memory; of these with a run */
    uint64_t cuts;     /* times that something was lost for want of memory, ever */
    uint64_t written;  /* bytes of files, ever */
    int disk_error;    /* -errno of the last write, 0 once one has succeeded */
};

/* 0 or -errno. */
int kr_runlogs_new(struct uv_loop_s *loop, const struct kr_runlogs_config *config, struct kr_runlogs **ret_logs);
/* Writes what is not yet in the files, live logs included, and calls back when it is done or has failed; the callback
 * comes from the loop. For a graceful stop: after the runs have ended, before the loop does. One at a time: -EBUSY. */
int kr_runlogs_flush(struct kr_runlogs *l, void (*on_flushed)(void *data), void *data);
/* Every reader is closed and every reference given back before this. Memory goes when the loop says so. Takes NULL. */
void kr_runlogs_close(struct kr_runlogs *l);
void kr_runlogs_figures(const struct kr_runlogs *l, struct kr_runlogs_figures *ret);

/* ---- writing one ---- */

struct kr_runlog_spec {
    const char *id;   /* KR_RUNLOG_ID_MAX of [A-Za-z0-9_-] at most; names the file */
    bool memory_only; /* never on disk: gone with its last reference */
    /* After an append that returned 1: go on. From the loop. May be NULL. */
    void (*on_room)(void *data, struct kr_runlog *log);
    void *data;
};
#define KR_RUNLOG_ID_MAX 64u

/* A new log with a reference for the caller; the id is one that no run has had. 0; -EINVAL (id), -EEXIST, -ENOMEM. */
int kr_runlog_new(struct kr_runlogs *l, const struct kr_runlog_spec *spec, struct kr_runlog **ret_log);
/* Appends. Readers are called from the loop, never from here (but see kr_runlog_eager()). 0; 1: taken, but the disk
 * is behind: pause the session until on_room, or else the middle may be cut; negative only for our own mistakes
 * (-EINVAL: after the end, a text type or CUT or END in kr_runlog_add). Want of memory is not an error: there is a
 * cut then. */
int kr_runlog_text(struct kr_runlog *log, enum kr_stream stream, const char *text, size_t len);
int kr_runlog_add(struct kr_runlog *log, enum kr_event_type type, const char *json, size_t len);
/* The end, with its JSON object. Always taken: if there is no memory for the object, with the cause alone. */
void kr_runlog_end(struct kr_runlog *log, enum kr_cause cause, const char *json, size_t len);

/* The same, and gives the whole log as bytes if it is small and nothing of it is in a file yet: then no file is
 * made, and the caller keeps the bytes, for kr_runlog_open_packed(). 1: they are in `ret`; 0: there is or will be a
 * file. */
int kr_runlog_end_packed(struct kr_runlog *log, enum kr_cause cause, const char *json, size_t len, struct kr_buf *ret);

/* ---- finding and holding ---- */

/* The log of a run, from memory or from its file; a reference. A file whose run has no end (krait died) is closed as
 * `lost`. 0, -ENOENT, -EINVAL (id), -ENOMEM. What a file holds is looked at on the thread pool: figures are there at
 * a reader's first on_more. */
int kr_runlog_open(struct kr_runlogs *l, const char *id, struct kr_runlog **ret_log);
/* The same, of bytes that kr_runlog_end_packed() gave, unless it is in memory. -EBADMSG: they are something else. */
int kr_runlog_open_packed(struct kr_runlogs *l, const char *id, const void *bytes, size_t len,
                          struct kr_runlog **ret_log);
struct kr_runlog *kr_runlog_ref(struct kr_runlog *log);
/* The last reference of a log without an end ends it as `lost`. Takes NULL. */
void kr_runlog_unref(struct kr_runlog *log);

struct kr_runlog_figures {
    bool loading;        /* its file is being looked at; nothing else is known */
    bool still_running;  /* no END yet */
    bool truncated;      /* something was cut */
    uint64_t last_seq;   /* 0: no event yet */
    uint64_t bytes;      /* of data ever appended */
    enum kr_cause cause; /* unless still_running */
    int failed;          /* -errno: its file cannot be read, and nothing else is known */
};
void kr_runlog_figures(const struct kr_runlog *log, struct kr_runlog_figures *ret);

/* ---- reading ---- */

#define KR_RUNLOG_FROM_NOW UINT64_MAX /* only what comes from now on */

/* There is more, or the end, or a failure: called once after attaching, and after a peek that returned 0. It takes
 * what it can by peek and take, and may close its own or any other reader. */
typedef void kr_runlog_more_fn(void *data, struct kr_runlog_reader *reader);

/* A reader whose first event is number `from` (0 and 1: the first) or, if that is within a cut, the CUT. Holds the log.
 * A number that is not there yet is waited for. 0 or -ENOMEM. */
int kr_runlog_read(struct kr_runlog *log, uint64_t from, kr_runlog_more_fn *on_more, void *data,
                   struct kr_runlog_reader **ret_reader);
/* `on_now` is called from within each append, but for that of the end, so that what was appended can leave at once
 * and not at the end of the turn. It peeks and takes as in on_more, and must do nothing else to this log, its run or
 * its readers. */
void kr_runlog_eager(struct kr_runlog_reader *r, kr_runlog_more_fn *on_now);
/* The next event, without taking it: 1; 0: nothing now, on_more follows if there ever is (see kr_runlog_done); or
 * -errno for good (its file is damaged or gone). May be called at any time, not only in on_more: a reader that could
 * not take more calls again when it can. The data is valid until the next call of a kr_runlog function or the return
 * to the loop. An event that was shown never changes; one that was not taken may be cut before the next look. */
int kr_runlog_peek(struct kr_runlog_reader *r, struct kr_event *ret_event);
/* Takes the event that peek has shown last; the next is seq + 1. Nothing if there was none. */
void kr_runlog_take(struct kr_runlog_reader *r);
/* on_more is called again in the loop's next round, though nothing has been added: for a reader that leaves the rest
 * for then. */
void kr_runlog_come_back(struct kr_runlog_reader *r);
/* The END is taken: nothing will come. */
bool kr_runlog_done(const struct kr_runlog_reader *r);
/* The number of the next event; what a client says to continue. */
uint64_t kr_runlog_next_seq(const struct kr_runlog_reader *r);
/* May be called at any time, also from its own on_more. Takes NULL. */
void kr_runlog_reader_close(struct kr_runlog_reader *r);

/* ---- retention ---- */

struct kr_runlogs_trim {
    uint64_t max_age_s; /* since the last write; 0: no limit */
    uint64_t max_bytes; /* of the folder; 0: no limit */
    /* Is the log of this id another process's to write? Then it stays. NULL: there are no others. */
    bool (*keeps)(void *data, const char *id);
    /* Files last written until then are about to be deleted. From the loop; NULL: not asked for. */
    void (*on_deleting)(void *data, uint64_t until_ms);
    void *data;
};
struct kr_runlogs_trimmed {
    uint64_t files, bytes;                 /* that are there now */
    uint64_t deleted_files, deleted_bytes; /* by this call */
    int error;                             /* -errno of the folder, 0 */
};

/* Deletes logs that are too old, and then the oldest until the folder is small enough; never one that is live or held.
 * on_trimmed comes from the loop. One at a time: -EBUSY. 0, -ENOMEM. */
int kr_runlogs_trim(struct kr_runlogs *l, const struct kr_runlogs_trim *how,
                    void (*on_trimmed)(void *data, const struct kr_runlogs_trimmed *result), void *data);
/* Deletes one log: at once, or with its last reference if it is held. -EBUSY for a live one, -ENOENT. */
int kr_runlogs_delete(struct kr_runlogs *l, const char *id);

/* Looks at a file of a log without changing it: 0, -EBADMSG (damaged at *ret_at), or -errno. May block. */
int kr_runlog_file_check(int dirfd, const char *name, uint64_t *ret_at);

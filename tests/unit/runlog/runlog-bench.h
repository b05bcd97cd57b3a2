/* What the tests of logs share: a folder and a loop, the truth of what was appended, and readers that check every event
 * they get against it: each number once and in order, the very bytes, and a CUT that says what is missing. */
#pragma once
#include "runlog.h"
#include <stdbool.h>
#include <uv.h>

extern unsigned long seed;

struct bench {
    uv_loop_t loop;
    struct kr_runlogs *logs;
    char dir[64];
    int dirfd;
};

/* All bytes ever appended, in order, with the stream or type of each: a reader's text must be exactly the part that
 * its numbers stand for, however it was cut into events. */
struct truth {
    char *bytes, *kinds;
    size_t len, room;
};

struct watcher {
    struct kr_runlog_reader *reader;
    const struct truth *truth;
    uint64_t next;  /* number */
    size_t at;      /* in the truth; SIZE_MAX: not known, after attaching in the middle */
    unsigned speed; /* events at a time; 0: only when driven by hand */
    unsigned calls, events, cuts;
    size_t cut_bytes, read_bytes;
    bool ended, close_in_call, wants_on;
    enum kr_cause cause;
    const char *wrong;
    int error;
};

/* The same numbers for the same seed. */
unsigned rnd(unsigned below);
bool bench_open(struct bench *b, const struct kr_runlogs_config *config, bool disk);
/* True if everything was given back. */
bool bench_close(struct bench *b);
/* Starts anew in the same folder, as a new process would. */
bool bench_restart(struct bench *b, const struct kr_runlogs_config *config);
/* One round of the loop, without waiting. */
void turn(struct bench *b);
/* False if it took too long. */
bool flush(struct bench *b);
void truth_add(struct truth *t, char kind, const char *data, size_t len);
void truth_done(struct truth *t);
/* How the truth marks the bytes of a type. */
char kind_of(enum kr_event_type type);
/* Checks one event against the truth. */
void judge(struct watcher *w, const struct kr_event *e);
/* Takes at most n events. Returns how many. */
unsigned pull(struct watcher *w, unsigned n);
/* A reader that checks what it gets; it takes `speed` events each time it is called, none by itself if 0. */
int watch(struct watcher *w, struct kr_runlog *log, const struct truth *truth, uint64_t from, unsigned speed);
/* Lets it read to the end, or as long as tests wait (patience.h). */
bool finish(struct bench *b, struct watcher *w);
/* All was read: every byte accounted for, read or cut. */
bool is_whole(const struct watcher *w);
struct kr_runlog *new_log(struct bench *b, const char *id);
/* These append to the log and to the truth. */
int add_text(struct kr_runlog *log, struct truth *t, enum kr_stream stream, const char *text, size_t len);
int add_json(struct kr_runlog *log, struct truth *t, enum kr_event_type type, const char *json);
void end_log(struct kr_runlog *log, struct truth *t, enum kr_cause cause);
void fill(char *buf, size_t len);

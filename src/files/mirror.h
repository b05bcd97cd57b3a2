/* A mirror of a workspace: its regular files as they were last seen, and a journal of what became different.
 *
 * Runs of several sessions share one. A run keeps a mark from before it began; after it, the journal from that mark on
 * says what the run (or anything else at that time) changed. Bringing a mirror up to date is a walk, or, where the
 * kernel told which names were touched (tree_watch.h), a look at those names. Both give the same result
 * (docs/design/files.md, Mirrors). One thread at a time. */
#pragma once
#include "changes.h"

struct kr_mirror;

/* A moment of a mirror. */
struct kr_mirror_mark {
    uint64_t sync, at;
};

/* How far a look may go. */
struct kr_mirror_max {
    bool here;            /* on the loop: a few names or a small folder only, else -EAGAIN */
    uint64_t oldest_ns;   /* since when the oldest process runs that may have files open; UINT64_MAX: there is none */
    uint64_t deadline_ns; /* kr_clock_ns() scale */
};

/* 0 or -errno. */
int kr_mirror_new(struct kr_mirror **ret);
/* May block for some milliseconds if it is watched. Takes NULL. */
void kr_mirror_free(struct kr_mirror *m);
/* Makes it what the folder is now. Everything that was written before the call is in it. 0, -EAGAIN, or -errno. */
int kr_mirror_sync(struct kr_mirror *m, int ws, const struct kr_mirror_max *max);
/* Of the last look. */
struct kr_mirror_mark kr_mirror_mark(const struct kr_mirror *m);
/* What differs between a mark and the last look: at most KR_CHANGES_MAX. Paths live until the next call for the mirror.
 * 0 or -ENOMEM. */
int kr_mirror_changes(struct kr_mirror *m, const struct kr_mirror_mark *since, struct kr_changes *ret);
/* Bytes of all its files, as they say their sizes. `changed`: since the last call; many files are added up once in a
 * second at most. */
uint64_t kr_mirror_sum(struct kr_mirror *m, bool changed);
/* How many changes it keeps for the sake of marks. */
size_t kr_mirror_kept(const struct kr_mirror *m);
/* No mark before this one is kept any more. */
void kr_mirror_trim(struct kr_mirror *m, const struct kr_mirror_mark *oldest);
/* Takes what the kernel has queued, so that it loses nothing: to be called every few milliseconds while code runs. */
void kr_mirror_drain(struct kr_mirror *m);
/* Does the kernel tell what changes? */
bool kr_mirror_watched(const struct kr_mirror *m);
/* Bytes of memory. */
size_t kr_mirror_bytes(const struct kr_mirror *m);

/* Snapshots of a workspace, and the files that a run made, changed or deleted. Pure: thread pool. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_snapshot;

enum kr_change { KR_CHANGE_CREATED, KR_CHANGE_MODIFIED, KR_CHANGE_DELETED, KR_CHANGE_MAX_ };
extern const char *const kr_change_names[KR_CHANGE_MAX_];

struct kr_changed {
    enum kr_change change;
    const char *path; /* from the workspace; lives as long as both snapshots */
    uint64_t size;    /* of a deleted one as it was */
    uint64_t mtime_ns;
};

struct kr_changes {
    struct kr_changed *files; /* sorted by path */
    size_t count;
    bool incomplete; /* a bound was met: there may be others */
};

#define KR_SNAPSHOT_FILES_MAX 20000u
#define KR_CHANGES_MAX 1000u

/* Looks at every regular file beneath ws, at most max_files (0: KR_SNAPSHOT_FILES_MAX) and ten times as many
 * entries, until deadline_ns (kr_clock_ns() scale; 0: none). 0 or -errno. The one after a run may serve as the one
 * before the next. */
int kr_snapshot_take(int ws, size_t max_files, uint64_t deadline_ns, struct kr_snapshot **ret);
bool kr_snapshot_incomplete(const struct kr_snapshot *s);
size_t kr_snapshot_count(const struct kr_snapshot *s);
/* Takes NULL. */
void kr_snapshot_free(struct kr_snapshot *s);

void kr_changes_done(struct kr_changes *c);

/* cgroups of the cells: v2, v1, hybrid and none behind one small interface. Only the warden calls it.
 * Invariant: nothing outside the folder "krait-…" that this instance made is ever changed. */
#pragma once
#include "err.h"
#include "proto.h"
#include <stdint.h>
#include <sys/types.h>

enum kr_cgroup_kind { KR_CGROUP_NONE, KR_CGROUP_V1, KR_CGROUP_V2, KR_CGROUP_HYBRID, KR_CGROUP_MAX_ };
extern const char *const kr_cgroup_kind_names[KR_CGROUP_MAX_];

struct kr_cgroup_hier {
    int dir;             /* our folder in this hierarchy */
    struct kr_w_hier is; /* which it is, as the engine receives it */
    char path[512];
};

/* A cell's folder in each hierarchy. */
struct kr_group {
    uint64_t user; /* the folder that it is in, named after the first cell there; 0: in our own */
    uint64_t name; /* of the cell it was made for; 0: it has none yet */
    int limited;
    struct kr_limits limits; /* what it is set to, if it is */
    enum kr_pace pace;
    struct kr_group_files *files; /* kept open since it was used before; NULL: each is opened when it is needed */
};
/* What the cells in a folder may have together; 0: no bound. */
struct kr_cgroup_bounds {
    uint64_t memory, processes;
};
#define KR_GROUPS_FREE_MAX 16
#define KR_GROUPS_OPEN_MAX 32     /* folders with open files, some eleven each, in use or free */
#define KR_GROUPS_OPEN_SHARE 512u /* and no more than one for so many descriptors that we may have */

struct kr_cgroups {
    enum kr_cgroup_kind kind;
    unsigned count;
    uint32_t layers;                /* all of them together */
    struct kr_cgroup_bounds bounds; /* what all cells may have; 0 where nothing can bound it */
    struct kr_cgroup_bounds users;  /* and those of one user */
    int used;                       /* the file that says what memory all cells use; -1: none. Of count 0: undefined */
    struct kr_cgroup_hier hier[KR_HIERARCHIES_MAX];
    struct kr_group free[KR_GROUPS_FREE_MAX]; /* as good as new, for the next cells */
    unsigned free_count, open_count, open_max;
    char why[192]; /* what is missing and how to get it */
    /* Called with each folder before it is made, so that the next start finds it if we are killed meanwhile. */
    int (*note)(void *arg, const char *path);
    void *note_arg;
};

/* Finds the hierarchies and makes our folder in each, of a name no other instance has; `note` and `note_arg` are the
 * caller's. Never fails for lack of cgroups: that is kind NONE with `why` filled. -errno where it cannot be known. */
int kr_cgroups_init(struct kr_cgroups *g, const char *name, struct kr_err *err);
/* Removes our folders; -errno if one is still there, for the next start to remove. */
int kr_cgroups_done(struct kr_cgroups *g);

/* Bounds what all cells may have together. Wanted 0: four fifths of what this machine, or the folders around ours, have
 * to give; for one user, half of that. Before the first cell. */
int kr_cgroups_bound(struct kr_cgroups *g, const struct kr_cgroup_bounds *wanted,
                     const struct kr_cgroup_bounds *wanted_users, struct kr_err *err);
/* Is there memory for one more session, where all of them were promised so much? 0, or -EAGAIN (KR_ERR_LIMIT). */
int kr_cgroups_admit(const struct kr_cgroups *g, uint64_t promised, struct kr_err *err);
/* Is there in the folder of this user? 0, or -EAGAIN (KR_ERR_BUSY). */
int kr_cgroups_admit_user(const struct kr_cgroups *g, uint64_t user, struct kr_err *err);

/* Makes a cell's folder, or takes a free one. Until the cell's limits are set at hand-off it runs only our own code. */
int kr_cgroup_take(struct kr_cgroups *g, uint64_t cell, struct kr_group *ret, struct kr_err *err);
/* The same in the folder of a user that has cells; user 0: in one of its own, for a user that has none. */
int kr_cgroup_take_for(struct kr_cgroups *g, uint64_t cell, uint64_t user, struct kr_group *ret, struct kr_err *err);
/* Sets the limits; what is the same already is not written again. */
int kr_cgroup_limit(const struct kr_cgroups *g, struct kr_group *group, const struct kr_limits *l, struct kr_err *err);
/* v2: moves a session in. On v1 it moves itself, through kr_cgroup_tasks(), because only a thread that moves itself is
 * spared the lock whose first use after an idle spell costs 10 ms. */
int kr_cgroup_attach(const struct kr_cgroups *g, const struct kr_group *group, pid_t pid, struct kr_err *err);
/* The v1 hierarchies' tasks files, opened for the process that will write "0" to each. Their count, or -errno. */
int kr_cgroup_tasks(const struct kr_cgroups *g, const struct kr_group *group, int ret_fds[KR_HIERARCHIES_MAX],
                    struct kr_err *err);
/* Is the process in the cell's folder of every hierarchy? 0, or -errno with err. */
int kr_cgroup_check(const struct kr_cgroups *g, const struct kr_group *group, pid_t pid, struct kr_err *err);
/* Writes what the pace needs, if it is another: RUN for a run, REST and FROZEN between two. 0, or -errno with err. */
int kr_cgroup_pace(const struct kr_cgroups *g, struct kr_group *group, enum kr_pace pace, struct kr_err *err);
/* Sends a signal to every process in the cell's folder that is in that process group, but its leader and those started
 * before since_ns (CLOCK_BOOTTIME, whole ticks). How many there were, or -errno. */
int kr_cgroup_signal(const struct kr_cgroups *g, const struct kr_group *group, pid_t leader, uint64_t since_ns,
                     int signo);
/* Sends SIGKILL to every process in the cell's folder but `spared`, and those started before since_ns (CLOCK_BOOTTIME,
 * whole ticks; 0: none). hard: no process can be started there meanwhile. How many there were (0: none is left), or
 * -errno with err. */
int kr_cgroup_clear(const struct kr_cgroups *g, const struct kr_group *group, pid_t spared, uint64_t since_ns, int hard,
                    struct kr_err *err);
/* What it uses at this moment; bytes, except where the name says otherwise. user, system: nanoseconds. */
struct kr_group_now {
    uint64_t cpu_ns, user, system, memory, cached, shared, active, inactive, tasks;
};
void kr_cgroup_now(const struct kr_cgroups *g, const struct kr_group *group, struct kr_group_now *ret);
void kr_cgroup_usage(const struct kr_cgroups *g, const struct kr_group *group, struct kr_usage *ret);
/* Keeps a folder whose cell has ended for the next one, if it can be made as good as new. One in a user's folder goes
 * with that, so no other cell may be in there. 1 kept, 0 not: it is to be
 * removed, -EBUSY when a process of it is not yet reaped. */
int kr_cgroup_keep(struct kr_cgroups *g, struct kr_group *group);
/* 0 when every folder is gone, -EBUSY when one is still occupied. That of its user goes with the last cell in it. */
int kr_cgroup_remove(struct kr_cgroups *g, struct kr_group *group);
/* Removes a folder an instance that is no more left behind, with its cells. 0, or -errno of what stayed. */
int kr_cgroup_remove_stale(const char *path);

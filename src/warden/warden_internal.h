/* What the warden's own files share: its state, its zygote families and its cells. No other folder includes this. */
#pragma once
#include "cgroup.h"
#include "gauges.h"
#include "instance.h"
#include "level.h"
#include "proto.h"
#include "shelf.h"
#include "warden.h"
#include "workspace.h"
#include <sys/queue.h>
#include <sys/types.h>

/* What every cell has, except at level contained, because clone() would have failed otherwise. */
#define KR_LAYERS_NAMESPACES                                                                                           \
    (KR_LAYER_USERNS | KR_LAYER_PIDNS | KR_LAYER_MOUNTNS | KR_LAYER_NETNS | KR_LAYER_IPCNS | KR_LAYER_UTSNS |          \
     KR_LAYER_CGROUPNS)

/* What counts the use of a cell, for its gauges. */
#define KR_LAYERS_COUNTED (KR_LAYER_CGROUP_MEMORY | KR_LAYER_CGROUP_PIDS | KR_LAYER_CGROUP_CPU)

#define KR_IDMAPS_KEPT 256 /* one takes 0.3 ms to make, and a descriptor to keep; low indices are used the most */

struct kr_warden;
struct kr_family;
struct kr_cell;

/* What an epoll event is about. */
enum kr_source_kind {
    KR_SRC_ENGINE,
    KR_SRC_SIGNAL,
    KR_SRC_BUILDER,
    KR_SRC_ZYGOTE,
    KR_SRC_INIT,
    KR_SRC_INIT_END,
    KR_SRC_KEEPER
};
struct kr_source {
    enum kr_source_kind kind;
    void *owner;
};

TAILQ_HEAD(kr_cells, kr_cell);
/* Cells by a number of theirs: a table of lists. */
#define KR_LISTS 1024
LIST_HEAD(kr_cell_list, kr_cell);

/* What a cell is there for: the stock, an OPEN that is under way, or a session the engine knows (or nothing any
 * more). */
enum kr_use { KR_USE_SPARE, KR_USE_WANTED, KR_USE_GIVEN, KR_USE_MAX_ };

/* A builder, its zygote and their cells. */
struct kr_family {
    struct kr_family *next;
    struct kr_warden *w;
    unsigned index; /* in config.zygotes */
    uint32_t generation;
    enum kr_zygote_state state;
    pid_t builder, zygote; /* as we see them */
    int builder_pidfd, zygote_pidfd, control, zygote_control;
    int gauges;  /* the tmpfs of its cells' gauges, -1: they have none */
    int devices; /* the tmpfs of its cells' device nodes, -1: they have the host's */
    uint32_t layers, landlock_abi, forks, cells;
    uint32_t uses[KR_USE_MAX_]; /* how many of the cells are what */
    struct kr_cells spares;     /* those of KR_USE_SPARE: the stock, and what is built for it */
    unsigned shared;            /* kr_oom_shared() of the zygote; 0: not known yet */
    int lost;                   /* killed, or its end is near: what it owes will not come */
    uint64_t ready_at;
    uint64_t start_deadline, rotate_at; /* rotate: not before */
    uint64_t born;                      /* CLOCK_BOOTTIME in seconds: where the uptime of its cells begins */
    struct kr_source from_builder, from_zygote;
    struct kr_err err;
    int is_guest;             /* its zygote has imported packages of a template: guest.c */
    struct kr_group group;    /* of a guest's zygote */
    uint32_t questions, said; /* to and by a guest's zygote */
    uint64_t give_up_at;      /* on the removal of that group */
};

/* BUILDING until its init is ready, FORKING until its session is attached, PARKED until START, STARTING until the init
 * has attached the workspace. */
enum kr_cell_state {
    KR_CELL_BUILDING,
    KR_CELL_STOCK,
    KR_CELL_FORKING,
    KR_CELL_PARKED,
    KR_CELL_STARTING,
    KR_CELL_STARTED,
    KR_CELL_ENDING,
    KR_CELL_STATE_MAX_
};
/* Who owes the cell an answer. */
enum kr_debtor { KR_OWES_NOBODY, KR_OWES_BUILDER, KR_OWES_INIT, KR_OWES_ZYGOTE };

struct kr_cell {
    TAILQ_ENTRY(kr_cell) spare_link, gone_link; /* in the family's spares while it is one; in the warden's gone */
    LIST_ENTRY(kr_cell) owner_link, user_link, running_link; /* in the warden's tables; le_prev NULL: in none */
    uint64_t id;                                             /* serial << 16 | index */
    unsigned index;                                          /* decides its ids */
    enum kr_cell_state state;
    enum kr_use use;
    enum kr_debtor debtor;
    uint64_t deadline; /* of what is owed */
    struct kr_family *family;
    uint32_t network, layers;
    uint32_t asked; /* the engine's OPEN or START that is to be answered; 0: none */
    uint32_t flags; /* of the OPEN */
    int init_pidfd, init_channel, session_pidfd;
    int spaces[KR_SPACES_];                    /* of a guest's cell: its namespaces, until its session is forked */
    uint64_t pid_space;                        /* of a guest's cell: the inode of its pid namespace */
    int tasks[KR_HIERARCHIES_MAX], task_count; /* of its v1 cgroups, until its session is forked */
    int ends[4];                               /* the engine's: channel, stdout, stderr, stdin, until it has them */
    int listener;                              /* the egress process's, by way of the engine, until it has it; or -1 */
    int gate;                                  /* what a parked session waits at; a byte lets it start */
    pid_t init, session;                       /* as we see them */
    pid_t session_inside;                      /* as its zygote and builder see it; the zygote's word */
    int announced;                             /* the engine knows it and gets its end */
    int status, status_known, init_gone, unwatched;
    uint64_t cpu_ns; /* as the zygote's wait4() counted it; the cgroup's count, where there is one, is better */
    uint64_t retry_at, give_up_at; /* its cgroup is still busy */
    unsigned evicted;              /* of a guest's cell: how often the processes in that cgroup were killed */
    struct kr_group group;
    uint64_t owner; /* whose session it is, with that owner's others in one cgroup; 0: not known, or no such cgroups */
    struct kr_limits limits;        /* asked for */
    uint64_t promised;              /* memory: what it counts for in the warden's sum */
    int placed;                     /* its session was seen in its cgroup, which it has no means to leave */
    uint64_t tmp_bytes, tmp_inodes; /* what its tmpfs have */
    uint64_t workspace_dev;         /* the filesystem of the folder that is its workspace; 0: none is */
    unsigned cpus;                  /* how many processors its /proc shows */
    struct {
        int shown, followed; /* its init has put them in place; it is in the warden's list */
        TAILQ_ENTRY(kr_cell) link;
        uint64_t due;                /* while it has a run: when they are written next */
        uint64_t at_ms, cpu_ns;      /* where the load was reckoned last */
        struct kr_gauge_facts facts; /* as they were written */
    } gauge;
    struct kr_source from_init, from_init_end;
};

/* An OPEN that waits until its zygote has time for it. */
struct kr_open {
    STAILQ_ENTRY(kr_open) link;
    uint32_t id;
    struct kr_w_open req;
};
STAILQ_HEAD(kr_opens, kr_open);

struct kr_warden {
    const struct kr_warden_config *config;
    void *arg; /* of its callbacks */
    struct kr_standing standing;
    struct kr_cgroups cgroups;
    struct kr_instance instance;
    struct kr_workspace workspaces[KR_WORKSPACES_MAX], mounts[KR_MOUNTS_MAX], shelf, packages; /* dir -1: none */
    struct kr_shelf_plan plan; /* what the shelf will be */
    struct kr_shelf quota;     /* what enforces the limits of its folders, once it is up */
    int keeper;                /* the socket of the process that sets them; -1: none */
    pid_t keeper_pid;
    struct {
        pid_t pid;                 /* 0: none runs */
        uint64_t since_ns, due_ns; /* when it was started; not before that is the next one */
        unsigned ends;             /* in a row, each soon after its start */
    } egress;
    pid_t reload_pid; /* reads settings again; 0: none */
    int reload_due;   /* another is to begin when that one is reaped */
    int *idmaps; /* by index of cell, the first KR_IDMAPS_KEPT: what the shelf's folders are mapped with; -1: not yet */
    char pythons[KR_ZYGOTES_MAX][256], prefixes[KR_ZYGOTES_MAX][256];
    struct kr_family *families;
    struct kr_cell **cells;                    /* by index */
    unsigned cell_max, cell_count, gone_count; /* gone: their init is reaped, their cgroup is not yet removed */
    unsigned free_from;                        /* no index below it is free */
    struct kr_cells gone;                      /* as gone_count counts them */
    unsigned debts;                            /* cells that wait for an answer */
    /* by_owner: those that are not ending; by_user: by the cgroup of their user; running: those at KR_PACE_RUN */
    struct kr_cell_list by_owner[KR_LISTS], by_user[KR_LISTS], running[KR_LISTS];
    uint64_t promised; /* memory that the limits of all sessions promise */
    uint64_t queued;   /* and those of opens that wait for their turn */
    struct kr_opens opens[KR_ZYGOTES_MAX];
    unsigned open_count;
    uint64_t serial, calm_at; /* calm: until then a hand-over is under way, and stocking would be in its way */
    uint64_t look_at;         /* for answers that have not come */
    struct kr_cells followed; /* cells whose gauges are kept true, since they have a run */
    uint64_t gauges_at;       /* when gauges are written next; 0: no cell has a run */
    uint32_t generation;
    unsigned crashes[KR_ZYGOTES_MAX];
    uint8_t greeted[KR_ZYGOTES_MAX];     /* has been ready once: it is tried on whatever happens */
    uint64_t restart_at[KR_ZYGOTES_MAX]; /* 0: nothing to restart */
    int landlock_abi;                    /* asked once: sessions get what was required at the start */
    int epoll, engine, lifeline_r, lifeline_w, signals;
    pid_t engine_pid;
    uint32_t engine_uid, engine_gid; /* what the engine becomes; 0: it stays who we are */
    int views[KR_WORKSPACES_MAX];    /* the engine's own of the workspaces, until it is forked; -1: none */
    int stopping, children_ended;
    int asleep;                    /* lazy, and no zygote was asked for yet */
    uint8_t woken[KR_ZYGOTES_MAX]; /* zygotes that were asked for, or need not be */
    struct {
        char folder[KR_FOLDER_ROOM]; /* whose environment it imports from; "": none */
        uint32_t epoch;              /* requests for it */
    } guests[KR_ZYGOTES_MAX];
    struct kr_err why_not; /* lazy: why no zygote can be started here; kind NONE: they can */
    struct kr_source from_engine, from_signals, from_keeper;
};

/* warden.c */
int kr_warden_tell(struct kr_warden *w, uint16_t type, uint32_t id, const void *payload, size_t len, const int *fds,
                   unsigned nfds);
void kr_warden_refuse(struct kr_warden *w, uint32_t id, const struct kr_err *err);
int kr_warden_watch(struct kr_warden *w, int fd, struct kr_source *source, enum kr_source_kind kind, void *owner);

/* family.c */
int kr_family_start(struct kr_warden *w, unsigned index, struct kr_err *err);
void kr_family_on_builder(struct kr_family *f);
void kr_family_on_zygote(struct kr_family *f);
/* SIGKILL to its PID 1: the zygote and every cell go with it. */
void kr_family_kill(struct kr_family *f);
/* Its zygote has ended, or does not answer and is killed. Opens that are under way are refused; sessions live on, and
 * the family until the last of them has ended. At level contained, or before it was ready, it is killed as a whole. */
void kr_family_lose_zygote(struct kr_family *f);
/* The family that forks sessions for a zygote of the config, or NULL. */
struct kr_family *kr_family_current(struct kr_warden *w, unsigned index);
/* Those of this index serve no more opens; none is started in their place. */
void kr_family_retire(struct kr_warden *w, unsigned index);
/* Retires it when it has forked enough, frees it when it is dead and empty. */
void kr_family_tend(struct kr_warden *w);

/* cell.c: a cell's state, its end */
struct kr_cell *kr_cell_find(struct kr_warden *w, uint64_t id);
struct kr_cell *kr_cell_new(struct kr_family *f, uint32_t network, struct kr_err *err);
void kr_cell_set_state(struct kr_cell *c, enum kr_cell_state state);
void kr_cell_set_use(struct kr_cell *c, enum kr_use use);
void kr_cell_owe(struct kr_cell *c, enum kr_debtor debtor);
/* Whose it is; 0: not known. */
void kr_cell_set_owner(struct kr_cell *c, uint64_t owner);
/* It has its cgroup. */
void kr_cell_placed(struct kr_cell *c);
/* The cgroup of the owner's live cells, or 0. One that is ending is not joined: it is gone before the next is. */
uint64_t kr_cell_user_of(const struct kr_warden *w, uint64_t owner);
/* Its session has this limit of memory; 0: there is none. */
void kr_cell_promise(struct kr_cell *c, uint64_t memory);
int kr_cell_signal(struct kr_cell *c, uint64_t since_ns, int signo);
/* It will not become what was asked for: the requester gets the error, and the cell ends. */
void kr_cell_fail(struct kr_cell *c, const struct kr_err *err);
void kr_cell_kill(struct kr_cell *c);
/* The cell's own /proc, in which its processes are and no others: a descriptor, -EOPNOTSUPP where the cell has none, or
 * -errno. */
int kr_cell_proc(const struct kr_cell *c);
/* Only a cell whose session was handed over is paced, and one that ends runs freely: it must have the time to die. One
 * that can be neither frozen nor thawed is ended. */
void kr_cell_pace(struct kr_cell *c, enum kr_pace pace);
/* A zygote reports the end of one of its own sessions. */
void kr_cell_on_exit(struct kr_family *f, const struct kr_z_exit *e);
/* A builder reports the end of a child that may be a session of its ended zygote. */
void kr_cell_on_orphan_exit(struct kr_family *f, const struct kr_b_exit *e);
void kr_cell_on_init_end(struct kr_cell *c);
/* No process of it is left: it can be finished. */
void kr_cell_gone(struct kr_cell *c);
void kr_cell_usage(struct kr_cell *c, struct kr_usage *ret);
/* Tells the engine, removes the cgroup of an ended cell; 1 when the cell is freed, 0 when it must be tried again. */
int kr_cell_finish(struct kr_cell *c);
/* Answers that have not come in time: an init's costs its cell, a builder's its family, a zygote's the zygote. */
void kr_cells_look(struct kr_warden *w);

/* birth.c: a cell's way from nothing to a started session */
/* The cell that the builder or the zygote of this family owes its answer number `id` to, or NULL: then it is no
 * answer. */
struct kr_cell *kr_cell_owed(struct kr_family *f, int by_zygote, uint32_t id);
int kr_cell_build(struct kr_family *f, uint32_t network, struct kr_cell **ret, struct kr_err *err);
/* The init's and the session's pidfd, which is the cell's from here on; so is the listener, -1 if it has none. */
void kr_cell_on_made(struct kr_cell *c, int pidfd, int listener);
void kr_cell_on_forked(struct kr_cell *c, pid_t inside, int pidfd);
void kr_cell_on_init(struct kr_cell *c);
/* Takes an OPEN on, with a cell that stands, one that is being built, or a new one. It answers by itself. */
void kr_cell_open(struct kr_family *f, uint32_t id, const struct kr_w_open *req);
/* Is the session in its cgroup? Looked up until it is. */
int kr_cell_check_place(struct kr_cell *c, struct kr_err *err);
/* The answer to START, whose id is in c->asked, comes when the init has done its part. */
int kr_cell_start(struct kr_cell *c, const struct kr_w_start *req, struct kr_err *err);
/* The session's uid as we see it; 0 where all cells share ours. */
uint32_t kr_cell_session_id(const struct kr_cell *c);

/* attach.c: tells the init what to attach. The gate is the init's afterwards. */
int kr_cell_attach(struct kr_cell *c, const struct kr_w_start *req, struct kr_err *err);

/* guest.c: zygotes that import the packages of a template */
int kr_is_guest(const struct kr_warden *w, unsigned index);
/* The id of their zygotes in the family's user namespace. */
uint32_t kr_guest_id(const struct kr_warden *w);
void kr_guest_preload(struct kr_warden *w, const struct kr_w_preload *req);
/* Before its builder: a control group, the deadline, *ret_venv: a detached mount of the environment, the caller's. */
int kr_guest_begin(struct kr_family *f, int *ret_venv, struct kr_err *err);
/* Its zygote is there, and waits to be in its group. */
int kr_guest_go(struct kr_family *f, struct kr_err *err);
/* May it serve? 0, or -errno with err. */
int kr_guest_greeted(struct kr_family *f, struct kr_err *err);
/* May it say one thing more? */
int kr_guest_may_say(struct kr_family *f);
/* What it gave as a reason, made harmless. */
void kr_guest_plain(struct kr_err *err);
/* Why it ended, if that is not known: into f->err. */
void kr_guest_why(struct kr_family *f);
/* Does a zygote of this index that serves no more still live? Those of a template are counted. */
int kr_guest_lingers(const struct kr_warden *w, unsigned index);
/* One that serves no more ends as soon as it owes nothing; its sessions live on. */
void kr_guest_tend(struct kr_family *f);
/* It has ended so often that it is not started again: the engine gets the reason. */
void kr_guest_given_up(struct kr_family *f, unsigned ends);
/* Is the session that it named in its cell, and itself in its group? 0, or -errno with err; if not, the family is
 * killed. */
int kr_guest_check_forked(struct kr_cell *c, struct kr_err *err);
/* Removes its group: 1, or 0 when it must be tried again. */
int kr_guest_gone(struct kr_family *f);
int kr_cell_open_spaces(struct kr_cell *c, struct kr_err *err);
void kr_cell_close_spaces(struct kr_cell *c);

/* outlet.c: the egress process */
/* Starts it where it is due. */
void kr_outlet_tend(struct kr_warden *w);
/* How long until it is due, in milliseconds; -1: nothing is. */
int kr_outlet_pause_ms(const struct kr_warden *w);
/* A child of ours has ended; was it that one? */
void kr_outlet_reap(struct kr_warden *w);
/* Ends it for good. */
void kr_outlet_end(struct kr_warden *w);

/* gauge.c: what the files of /proc say of a cell */
/* The most processors that cells are shown. */
unsigned kr_gauge_cpus_shown(const struct kr_warden *w);
/* The moment from which a family that starts now counts. */
uint64_t kr_gauge_born(void);
/* Before its init mounts them: nothing of the cell that had the index before is left in them. */
int kr_cell_gauge_new(struct kr_cell *c, struct kr_err *err);
/* At the hand-over, while the init attaches: the clock, and limits that are not those it was built with. */
void kr_cell_gauge_start(struct kr_cell *c);
/* From now on they are written while its runs last. */
void kr_cell_gauge_started(struct kr_cell *c);
/* It has another pace. */
void kr_cell_gauge_pace(struct kr_cell *c);
/* The cell goes. */
void kr_cell_gauge_forget(struct kr_cell *c);
/* Writes those that are due. */
void kr_gauges_tend(struct kr_warden *w);

/* child.c */
/* The pid behind a pidfd as this process sees it, if it is a live child of `parent`; else -errno. A family's word for
 * who its child is is not taken. */
pid_t kr_child_of(int pidfd, pid_t parent, const char *who, struct kr_err *err);
pid_t kr_pid_of(int pidfd);

/* What the frames carry. Every type is one row of kr_frame_types[] (proto.c): name, payload size bounds, how many
 * descriptors it declares, whether it is a question. docs/design/wire.md has the order in which they pass. */
#pragma once
#include "err.h"
#include "id.h"
#include "limit.h"
#include "net_rule.h"
#include <stdint.h>

#define KR_PROTO_VERSION 2u
/* Status of a session whose channel is gone or makes no sense: how its run would have ended is not known. */
#define KR_EXIT_NO_CHANNEL 117

/* clang-format off */
enum kr_frame_type {
    KR_F_NONE = 0,
    /* engine <-> warden */
    KR_W_HELLO,   /* warden: struct kr_w_hello + our folder in each cgroup hierarchy */
    KR_W_ZYGOTE,  /* warden: struct kr_w_zygote; a zygote changed state */
    KR_W_OPEN,    /* engine: struct kr_w_open */
    KR_W_OPENED,  /* warden: struct kr_w_opened + channel, stdout, stderr[, stdin][, listener: KR_OPENED_LISTENER] */
    KR_W_START,   /* engine: struct kr_w_start; a parked session is handed over */
    KR_W_STARTED, /* warden: struct kr_w_cell */
    KR_W_SIGNAL,  /* engine: struct kr_w_signal; no answer */
    KR_W_KILL,    /* engine: struct kr_w_cell; no answer but ENDED */
    KR_W_STAT,    /* engine: struct kr_w_cell */
    KR_W_STATS,   /* warden: struct kr_w_stats */
    KR_W_ENDED,   /* warden: struct kr_w_ended; the session's process is reaped and its cell is being taken down */
    KR_W_FAILED,  /* warden: struct kr_err; the answer to a request that failed */
    /* warden <-> builder (PID 1 of a zygote's namespaces) */
    KR_B_READY,   /* builder: the tree stands, the zygote is started: struct kr_b_ready + pidfd of the zygote */
    KR_B_CELL,    /* warden: struct kr_b_cell + init channel, lifeline */
    KR_B_MADE,    /* builder: struct kr_b_made + pidfd of the init[, listener: of a network kind that has one] */
    KR_B_GONE,    /* builder: struct kr_b_gone; the zygote was reaped */
    KR_B_FAILED,  /* builder: struct kr_err */
    /* warden <-> init */
    KR_I_GO,      /* warden: struct kr_i_go; the id maps are written: build the cell (a builder: the tree) */
    KR_I_READY,   /* init: struct kr_i_ready */
    KR_I_ATTACH,  /* warden: struct kr_i_attach + gate [, detached mounts: workspace, environment, /data/NAME each] */
    KR_I_DONE,    /* init: attached, rights given up */
    KR_I_FAILED,  /* init: struct kr_err */
    /* warden <-> zygote */
    KR_Z_HELLO,   /* zygote: struct kr_z_hello; imported, frozen, single-threaded */
    KR_Z_FORK,    /* warden: struct kr_z_fork + channel, stdout, stderr, gate[, init pidfd: not when contained; with
                     `spaces` the cell's namespaces instead, KR_SPACES_ of them]
                     [, stdin: not with null_stdin][, v1 tasks files] */
    KR_Z_FORKED,  /* zygote: struct kr_z_forked + pidfd of the session */
    KR_Z_EXIT,    /* zygote: struct kr_z_exit */
    KR_Z_FAILED,  /* zygote: struct kr_err */
    /* the session's channel (stream, no descriptors) */
    KR_S_GO,      /* warden: empty; the session is in its cgroups: enter the cell */
    KR_S_READY,   /* session: JSON, the layers it holds */
    KR_S_FAILED,  /* session: struct kr_err; it could not enter its cell */
    KR_S_START,   /* engine: struct kr_s_start [+ JSON]; limits, directory, environment: take the last restrictions,
                     once the gate is open */
    KR_S_STARTED, /* session: JSON; Landlock holds, user code may come */
    KR_S_RUN,     /* engine: JSON, id = run */
    KR_S_DISPLAY, /* session: JSON, id = run */
    KR_S_INPUT,   /* session: JSON, id = run; asks for a line */
    KR_S_REPLY,   /* engine: JSON, id = run; the line, or end of input */
    KR_S_END,     /* session: JSON, id = run */
    /* engine <-> warden, again */
    KR_W_WAKE,    /* engine: struct kr_w_wake; of a lazy warden: start this zygote. No answer but ZYGOTE */
    /* the session's channel, again */
    KR_S_INTERRUPT, /* engine: empty, id = run; a SIGINT for it follows by way of the warden. Once a run */
    /* warden <-> builder, again */
    KR_B_EXIT,    /* builder: struct kr_b_exit; it reaped a child of its zygote, which has ended before */
    /* engine <-> warden, once more */
    KR_W_PACE,    /* engine: struct kr_w_pace; no answer */
    KR_W_CLEAR,   /* engine: struct kr_w_clear; ends every process of the cell but its session */
    KR_W_CLEARED, /* warden: struct kr_w_cleared */
    /* engine <-> warden, for folders of sandboxes; the keeper does the work and its answers are passed on */
    KR_W_SHELF,   /* engine: struct kr_w_shelf */
    KR_W_SHELVED, /* warden: struct kr_w_shelved */
    /* engine <-> warden: is it there */
    KR_W_PING,    /* engine: empty */
    KR_W_PONG,    /* warden: empty, at once */
    /* engine <-> warden: deleted files of the workspace that processes of the cell have open */
    KR_W_COUNT,   /* engine: struct kr_w_cell */
    KR_W_COUNTED, /* warden: struct kr_w_counted; the keeper's answer is passed on */
    KR_K_COUNT,   /* warden, to the keeper: struct kr_k_count + /proc of the cell */
    /* the session's channel: the sandbox's packages */
    KR_S_PACKAGES, /* session: JSON, id = its own number of the question; asks for a job (docs/design/packages.md) */
    KR_S_PACKAGED, /* engine: JSON, id = that number; progress any number of times, then the end */
    /* the session's channel: a terminal takes the place of a run (docs/design/terminal.md) */
    KR_S_TERMINAL, /* engine: struct kr_s_terminal + texts, id = run; bytes go over stdin and stdout from here on */
    KR_S_STEER,    /* engine: struct kr_s_steer, id = run; another size, or a signal */
    KR_S_EXITED,   /* session: struct kr_s_exited, id = run; its program has ended, all that it wrote is in stdout */
    /* engine <-> egress process, on a socket that the warden hands to both (docs/design/egress.md) */
    KR_W_EGRESS,     /* warden, to the engine: empty + socket; there is an egress process, a new one each time */
    KR_E_CELL,       /* engine: JSON + listening socket of a cell; what its code may reach */
    KR_E_RULE,       /* engine: JSON; another rule, or another run, of a cell */
    KR_E_DROP,       /* engine: struct kr_e_cell; the cell is gone: its connections end */
    KR_E_CONNECTION, /* egress: JSON; a connection has ended or was refused */
    KR_E_FETCH,      /* engine: JSON + file to write; fetches one address for the server itself */
    KR_E_CANCEL,     /* engine: empty, id = a fetch */
    KR_E_PROGRESS,   /* egress: struct kr_e_progress, id = the fetch */
    KR_E_FETCHED,    /* egress: JSON, id = the fetch; its end, good or bad */
    KR_E_SETUP,      /* engine: JSON, the first of all; what the warden that forked the process must not know */
    KR_E_OPEN,       /* egress: struct kr_e_open; connections of cells that are open now */
    /* a zygote with packages of a template (docs/design/preload.md) */
    KR_W_PRELOAD, /* engine: struct kr_w_preload; no answer but ZYGOTE */
    KR_Z_GO,      /* warden, before it executes the interpreter: empty[ + v1 tasks files]; go into your control group */
    KR_F_MAX_,
};

enum kr_level { KR_LEVEL_ROOT, KR_LEVEL_USER, KR_LEVEL_CONTAINED, KR_LEVEL_MAX_ };
/* Of TEMPLATE there may be several, and no sandbox chooses it: it is `basic` and packages of a template. */
enum kr_preload { KR_PRELOAD_BASIC, KR_PRELOAD_DATA, KR_PRELOAD_MAX_, KR_PRELOAD_TEMPLATE = KR_PRELOAD_MAX_ };
enum kr_zygote_state { KR_ZYG_STARTING, KR_ZYG_READY, KR_ZYG_RETIRED, KR_ZYG_FAILED, KR_ZYG_ENDED, KR_ZYG_STATE_MAX_ };

/* How much processor time a cell gets: its limit; what others leave of it, between two runs; none. */
enum kr_pace { KR_PACE_RUN, KR_PACE_REST, KR_PACE_FROZEN, KR_PACE_MAX_ };

/* Layers of a cell, as bits: what the warden could give. docs and doctor name them from one table. */
enum kr_layer {
    KR_LAYER_USERNS = 1 << 0,
    KR_LAYER_PIDNS = 1 << 1,
    KR_LAYER_MOUNTNS = 1 << 2,
    KR_LAYER_NETNS = 1 << 3,
    KR_LAYER_IPCNS = 1 << 4,
    KR_LAYER_UTSNS = 1 << 5,
    KR_LAYER_CGROUPNS = 1 << 6,
    KR_LAYER_CGROUP_MEMORY = 1 << 7,
    KR_LAYER_CGROUP_PIDS = 1 << 8,
    KR_LAYER_CGROUP_CPU = 1 << 9,
    KR_LAYER_UIDS = 1 << 10,     /* host ids no other live cell has */
    KR_LAYER_PROC = 1 << 11,     /* a fresh /proc */
    KR_LAYER_LANDLOCK = 1 << 12,
    KR_LAYER_SECCOMP = 1 << 13,
    KR_LAYER_FILES = 1 << 14,    /* inodes of its own for what it sees of the host */
    KR_LAYER_DEVICES = 1 << 15,  /* device nodes of its own */
    KR_LAYER_TERMINALS = 1 << 16, /* pseudo-terminals of its own */
    KR_LAYER_GAUGES = 1 << 17,   /* files of /proc that tell its limits and its use */
};

/* Set by the session itself, for good, before user code. */
enum kr_rlimit { KR_RLIMIT_DATA, KR_RLIMIT_FSIZE, KR_RLIMIT_NOFILE, KR_RLIMIT_NPROC, KR_RLIMIT_CPU, KR_RLIMIT_MAX_ };

#define KR_HIERARCHIES_MAX 4
struct kr_w_hier {          /* what a cgroup hierarchy says of a cell */
    uint32_t layers;        /* enum kr_layer bits it carries, 0: only accounting */
    uint32_t v2, accounting, pad; /* accounting: has CPU usage */
};
struct kr_w_hello {
    uint32_t version;
    uint32_t level;         /* enum kr_level */
    uint32_t layers;        /* bits this machine can give */
    uint32_t landlock_abi;
    uint32_t cgroup_kind;   /* 0 none, 1 v1, 2 v2, 3 hybrid */
    uint32_t id_count;      /* host ids for cells; 1 = all share ours */
    struct kr_w_hier hier[KR_HIERARCHIES_MAX]; /* one for each descriptor */
    char detail[256];       /* what is missing and why, one line each, newline separated */
};
struct kr_w_zygote {
    uint32_t zygote;        /* index in the table given at start */
    uint32_t state;         /* enum kr_zygote_state */
    uint32_t generation;
    int32_t status;         /* when ENDED: of the builder; 0 if only its zygote has ended */
    struct kr_err err;      /* when FAILED */
};
#define KR_OPEN_STDIN 1u    /* give a stdin pipe */
#define KR_OPEN_PARK 2u     /* do not attach the workspace yet: a START follows later */
struct kr_w_open {
    uint32_t zygote, network, flags; /* network: enum kr_net_kind */
    int32_t workspace;      /* index in the table given at start; -1: a sized tmpfs */
    uint64_t owner;         /* whose session, as a number that means nothing to the warden; 0: not known yet */
    uint32_t epoch, pad;    /* of a zygote of a template: how many PRELOADs had been sent for it; else 0 */
    struct kr_limits limits;
};
struct kr_w_wake {
    uint32_t zygote, pad;   /* index in the table given at start */
};
#define KR_FOLDER_ROOM KR_ID_ROOM
struct kr_w_preload {
    uint32_t zygote, pad;        /* index of one for templates in the table given at start */
    char folder[KR_FOLDER_ROOM]; /* whose environment it imports from, as in struct kr_w_start; "": it is to end */
};
#define KR_OPENED_LISTENER 1u /* the last descriptor is a socket that listens on KR_EGRESS_PORT in the cell */
struct kr_w_opened {
    uint64_t cell;
    uint64_t user, group;   /* the names of its cgroup folders, kr_group_name() */
    uint32_t layers, flags;
};
struct kr_w_cell {
    uint64_t cell;
};
/* Where the egress process listens in a cell whose rule goes beyond loopback. */
#define KR_EGRESS_PORT 3128
#define KR_WORKSPACE_NONE (-1)  /* a sized tmpfs */
#define KR_WORKSPACE_SHELF (-2) /* the folder named, of those that the engine keeps on the shelf given at start */
#define KR_MOUNTS_MAX 16
struct kr_w_start {
    uint64_t cell;
    int32_t workspace;           /* index in the table given at start, or one of the above */
    uint32_t mounts;             /* bit i: the read-only folder i of those given at start, at /data/NAME */
    char folder[KR_FOLDER_ROOM]; /* lower-case letters and digits, NUL terminated; "" unless on the shelf or venv */
    uint64_t owner;              /* that of OPEN, unless that had none */
    uint32_t venv;               /* 1: the folder's environment (FOLDER/env) at /venv, whatever the workspace is */
    uint32_t read_only;          /* 1: its workspace, whatever that is */
    struct kr_limits limits;
};
struct kr_w_signal {
    uint64_t cell;
    uint64_t since_ns;      /* spares processes started before that, by CLOCK_BOOTTIME in whole ticks; 0: none */
    uint32_t signo, pad;    /* SIGINT only */
};
struct kr_usage {
    uint64_t memory_peak, cpu_ns;
    uint64_t oom_kills, pids_hits; /* oom_kills: processes killed for want of memory, its own or an ancestor's */
    uint64_t memory_hits;          /* its own memory limit was reached; read only where oom_kills is not 0 */
    uint64_t pids;                 /* threads and processes there are now, dead ones that no parent has awaited too */
    uint64_t processes;            /* that live, the session's own too; 0 (not read) where pids is 1 or less */
    uint32_t have;                 /* enum kr_layer bits of the counters that are real */
    uint32_t pad;
};
struct kr_w_stats {
    uint64_t cell;
    struct kr_usage usage;
};
struct kr_w_pace {
    uint64_t cell;
    uint32_t pace, pad;     /* enum kr_pace */
};
struct kr_w_clear {
    uint64_t cell;
    uint64_t since_ns;      /* only those started then or later, by CLOCK_BOOTTIME in whole ticks; 0: all */
    uint32_t hard, pad;     /* 1: no process can be started while it is done */
};
struct kr_w_cleared {
    uint64_t cell;
    uint32_t left, pad;     /* processes that were there and were sent SIGKILL; asked again: that are not gone yet */
    struct kr_usage usage;
};
struct kr_w_ended {
    uint64_t cell;
    int32_t status;         /* as waitpid gives it */
    uint32_t known;         /* 0: the status could not be read */
    struct kr_usage usage;
};

/* What an engine may ask about the shelf. Any of them first brings the shelf up where the start was lazy. */
enum kr_shelf_op {
    KR_SHELF_OPEN,  /* brings it up; no name. Then DATA/sandboxes is the shelf: what was opened before may be another
                       folder beneath the mount and is opened anew */
    KR_SHELF_MAKE,  /* makes the folder `name`, the server's, mode 0700, with these limits; where limits cannot be
                       enforced (kind FOLDER) nothing is made. EEXIST: it is there */
    KR_SHELF_COPY,  /* as MAKE, with all that is in the folder `from`, at once and as it is at one moment. EOPNOTSUPP:
                       only BTRFS can; the server makes the folder and copies what is in it */
    KR_SHELF_LIMIT, /* changes the limits of `name` */
    KR_SHELF_DROP,  /* removes `name` with all that is in it, at once, where it can be (BTRFS); else forgets its limits,
                       and the server removes the files before that */
    KR_SHELF_USAGE, /* of `name`, or of the shelf if there is no name */
    KR_SHELF_GROW,  /* makes the image `bytes` large; no name. Of commands alone: the warden refuses it */
    KR_SHELF_OP_MAX_
};
/* What enforces the limits of a folder. */
enum kr_shelf_kind {
    KR_SHELF_IS_FOLDER,  /* nothing: the server counts */
    KR_SHELF_IS_BTRFS,   /* a subvolume and its quota group: bytes */
    KR_SHELF_IS_PROJECT, /* a project id and its quota: bytes and inodes */
    KR_SHELF_KIND_MAX_
};
struct kr_w_shelf {
    uint32_t op, pad;            /* enum kr_shelf_op */
    char name[KR_FOLDER_ROOM];   /* lower-case letters and digits, NUL terminated; "": none */
    char from[KR_FOLDER_ROOM];   /* the same, of COPY */
    uint64_t bytes, inodes;      /* MAKE, COPY, LIMIT: at most; 0: no limit */
};
struct kr_w_shelved {
    uint32_t kind;               /* enum kr_shelf_kind: of the folder named, else of the shelf */
    uint32_t image;              /* 1: the shelf is on an image that krait made */
    uint64_t bytes, inodes;      /* used; by what is unlinked and still open, too. inodes 0: not known */
    uint64_t max_bytes, max_inodes; /* what is enforced; 0: no limit */
    uint64_t room;               /* bytes that the shelf still takes, whatever the limit of the folder */
    uint64_t size;               /* bytes of the shelf's filesystem */
    uint64_t host_free;          /* bytes that are free where the image lies; without one: as room */
};
/* Deleted files that are still open. */
struct kr_w_counted {
    uint64_t bytes;              /* as the blocks on disk count them; one that is open several times counts once */
    uint64_t took_ns;            /* the look at them */
    uint32_t files;
    uint32_t blind;              /* 1: something could not be looked at, so there may be more */
};
struct kr_k_count {
    uint64_t dev;                /* st_dev of the workspace */
};

struct kr_e_cell {
    uint64_t cell;
};
struct kr_e_progress {
    uint64_t bytes, total; /* total 0: not known */
};
struct kr_e_open {
    uint64_t connections;
};

struct kr_b_ready {
    uint32_t layers, pad;
    int32_t zygote_pid, pad2; /* in the builder's namespace */
};
struct kr_b_cell {
    uint64_t cell;
    uint32_t network;
    uint32_t init_id, session_id; /* ids in the zygote's namespace */
    uint32_t shared_id;           /* 1: there is one id, and both are it */
};
struct kr_b_made {
    uint64_t cell;
    int32_t pid, pad;
};
struct kr_b_gone {
    int32_t pid, status;
    uint32_t zygote, pad;   /* 1: it was the zygote, the one child whose end is reported */
};
struct kr_b_exit {
    uint64_t cpu_ns; /* of the process and the children it waited for */
    int32_t pid, status;    /* pid: in the builder's namespace */
};
struct kr_i_go {
    uint64_t tmp_bytes, tmp_inodes;
    uint32_t cpus, pad;             /* processors that its /proc shows */
};
struct kr_i_ready {
    uint32_t layers, pad;
};
struct kr_i_attach {
    uint64_t tmp_bytes, tmp_inodes; /* for /tmp, and for /workspace unless a mount came along */
    uint32_t workspace, resize;     /* a mount came along for it; resize 0: the sizes are what they were at GO */
    uint32_t mounts;                /* bits, of the names given at start: one mount came along for each */
    uint32_t cpus;                  /* processors that its /proc shows; 0: as at GO */
    uint32_t venv;                  /* 1: a mount came along for it */
    uint32_t read_only;             /* 1: /workspace, whatever is there */
};
struct kr_z_hello {
    uint32_t version, landlock_abi;
    uint64_t data_bytes;    /* VmData of the zygote: what RLIMIT_DATA starts from */
    char python[64];
};
/* The namespaces of a cell, in the order in which a session of such a zygote enters them. */
enum kr_space { KR_SPACE_PID, KR_SPACE_NET, KR_SPACE_IPC, KR_SPACE_UTS, KR_SPACE_USER, KR_SPACE_MNT, KR_SPACES_ };
struct kr_z_fork {
    uint64_t cell;
    uint32_t network, level, contained;
    uint32_t null_stdin;    /* 1: the session opens the /dev/null of its own cell */
    uint32_t spaces, pad;   /* 1: the cell's namespaces came along, each by its own descriptor */
};
struct kr_z_forked {
    uint64_t cell;
    int32_t pid, pad;       /* in the zygote's namespace */
};
struct kr_z_exit {
    uint64_t cell;
    uint64_t cpu_ns; /* of the session and the children it waited for */
    int32_t status, pad;
};
/* What most sessions start with. JSON follows where there is more to say (environment, script, several CPUs, level
 * contained); it says all of this again, and is obeyed instead. */
struct kr_s_start {
    uint64_t rlimits[KR_RLIMIT_MAX_]; /* 0: as it is; of data: beyond what the zygote has */
    uint32_t landlock;                /* 1: must hold */
    uint32_t venv;                    /* 1: the sandbox's environment is at /venv */
};
/* A program on a pseudo-terminal of the cell. `texts` texts follow, each with its NUL: the value of TERM, and the
 * program with its arguments; none of the latter: a shell. */
#define KR_TERMINAL_SIDE_MAX 4096u /* columns, rows */
struct kr_s_terminal {
    uint32_t cols, rows;
    uint32_t texts, pad;
};
struct kr_s_steer {
    uint32_t cols, rows;    /* 0: as they are */
    uint32_t signo, pad;    /* to the process group in its foreground; 0: none */
};
struct kr_s_exited {
    int32_t status;         /* as waitpid gives it */
    uint32_t pad;
};
/* clang-format on */

struct kr_frame_type_row {
    const char *name;
    uint32_t min_len, max_len; /* payload bounds */
    uint8_t min_fds, max_fds;
    uint8_t answered; /* 1: a question; its id is repeated by the answer, and 0 is none */
};
extern const struct kr_frame_type_row kr_frame_types[KR_F_MAX_];

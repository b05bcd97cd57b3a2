/* `krait doctor`: every layer of a cell, tried in real cells. cmd_doctor.c runs it all, doctor_app.c makes the
 * cells, doctor_bait.c what stands outside, doctor_judge.c and doctor_limits.c the verdicts, doctor_host.c what can
 * be said without a cell, doctor_show.c the table and the JSON. */
#pragma once
#include "embed.h"
#include "err.h"
#include "holder.h"
#include "launch.h"
#include "run.h"
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum kr_doctor_state {
    KR_DOCTOR_UNTRIED, /* nothing was found out; shown as missing */
    KR_DOCTOR_OK,
    KR_DOCTOR_DEGRADED, /* something weaker holds instead */
    KR_DOCTOR_MISSING,
    KR_DOCTOR_FAILED, /* it should be there, and a probe got through or got no answer */
    KR_DOCTOR_STATE_MAX_,
};

enum kr_doctor_layer {
    KR_DOC_USER,
    KR_DOC_PID,
    KR_DOC_MOUNT,
    KR_DOC_NETWORK,
    KR_DOC_IPC,
    KR_DOC_UTS,
    KR_DOC_CGROUPNS,
    KR_DOC_LANDLOCK,
    KR_DOC_SECCOMP,
    KR_DOC_NNP,
    KR_DOC_CAPS,
    KR_DOC_UIDS,
    KR_DOC_PROC,
    KR_DOC_FILES,
    KR_DOC_DEVICES,
    KR_DOC_TERMINALS,
    KR_DOC_GAUGES,
    KR_DOC_CORE,
    KR_DOC_CGROUP,
    KR_DOC_MEMORY,
    KR_DOC_PIDS,
    KR_DOC_CPU,
    KR_DOC_DISK,
    KR_DOC_FOLDER,
    KR_DOC_SHELF,
    KR_DOC_BASIC,
    KR_DOC_DATA,
    KR_DOC_MAX_,
};

/* One row of the table. What belongs to a layer bit comes from kr_layer_rows. */
struct kr_doctor_row {
    const char *group; /* heading above it */
    const char *title; /* beneath that heading */
    uint32_t bit;      /* enum kr_layer, 0: none */
    const char *name, *lost, *fix;
    int required; /* the native tier does not hold without it */
};
struct kr_doctor_row kr_doctor_row(enum kr_doctor_layer layer);

struct kr_doctor_finding {
    enum kr_doctor_state state;
    char detail[480];
    char fix[240]; /* better than the row's own; "" if there is none */
};

/* What is found out. In memory shared by the warden's process, which prints it, and the engine, which fills it: no
 * pointers. */
struct kr_doctor_report {
    int level;       /* enum kr_level, -1: no cell could be made */
    bool finished;   /* the engine went through all of its trials */
    int stopped_by;  /* signal, 0: none */
    char error[240]; /* why nothing could be started, or "" */
    struct kr_doctor_finding findings[KR_DOC_MAX_];
};

/* Notes a finding; control characters become '?', what is too long is cut. */
void kr_doctor_set(struct kr_doctor_report *r, enum kr_doctor_layer layer, enum kr_doctor_state state, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));
void kr_doctor_fix(struct kr_doctor_report *r, enum kr_doctor_layer layer, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Does the native tier hold? Every required row is ok and none failed. */
bool kr_doctor_holds(const struct kr_doctor_report *r);

/* ---- what stands outside ---- */

/* A system call that the filter must refuse, with arguments that do no harm where it does not. */
struct kr_doctor_call {
    const char *name;
    long number;
    long args[4];
    const char *wanted; /* errno inside */
};
extern const struct kr_doctor_call kr_doctor_calls[];
extern const size_t kr_doctor_calls_count;

#define KR_DOCTOR_CALLS_MAX 16
struct kr_doctor_bait {
    const char *file, *home; /* NULL: there is none, or the control outside could not reach it */
    char abstract[64];       /* listens; "" if it does not */
    int socket, shm;         /* -1: none */
    int lock_usr, lock_null; /* shared locks are held through these; -1: none */
    void *shm_at;
    int landlock_rooms;                  /* as the probe counts them, outside */
    char calls[KR_DOCTOR_CALLS_MAX][24]; /* what each call says outside */
};
/* Puts it up; what cannot be put up is left out. */
void kr_doctor_bait_open(struct kr_doctor_bait *b, const char *file, const char *home);
void kr_doctor_bait_close(struct kr_doctor_bait *b);
/* What the probes get of it, in an object that is the caller's. */
void kr_doctor_bait_tell(const struct kr_doctor_bait *b, json_t *params);
/* "EPERM" for EPERM, "ok" for 0. Returns buf. */
const char *kr_doctor_word(int error, char *buf, size_t size);

/* ---- the trials ---- */

enum kr_trial {
    KR_TRIAL_BATTERY,
    KR_TRIAL_OWN_MEMORY,
    KR_TRIAL_SHARED_MEMORY,
    KR_TRIAL_PROCESSES,
    KR_TRIAL_DISK,
    KR_TRIAL_FOLDER,
    KR_TRIAL_DATA,
    KR_TRIAL_PROCESSOR, /* last, when no zygote imports any more */
    KR_TRIAL_MAX_,
};

/* How one went. */
struct kr_doctor_trial {
    bool opened, ended;
    uint64_t open_ns; /* from the question (or the zygote, if that came later) to a session that takes code */
    struct kr_verdict verdict;
    char message[280]; /* why it was not opened, or how the run ended */
    json_t *facts;     /* what the probe says, or NULL */
};

struct kr_doctor_limits {
    uint64_t memory, processes, cpu_milli, disk, inodes; /* 0: the default */
};
extern const struct kr_doctor_limits kr_doctor_limits[KR_TRIAL_MAX_];

struct kr_doctor_facts {
    struct kr_holder_info hello;
    uint32_t layers; /* of the cell of the battery */
    int landlock_abi;
    char python[64];
    uint64_t ready_ns[KR_PRELOAD_MAX_]; /* from the start of the engine, 0: not ready */
    char zygote_error[KR_PRELOAD_MAX_][240];
    bool word_came_out;   /* what the folder trial wrote was found outside, with our uid */
    double cores_outside; /* what a busy loop gets here */
    const struct kr_doctor_bait *bait;
    struct kr_doctor_trial trials[KR_TRIAL_MAX_];
};
/* Facts into findings. */
void kr_doctor_judge(const struct kr_doctor_facts *f, struct kr_doctor_report *r);
/* The same for the limits and the zygotes. */
void kr_doctor_judge_limits(const struct kr_doctor_facts *f, struct kr_doctor_report *r);
/* The answer of a probe: the texts of one JSON object, made printable. NULL if it is none. */
json_t *kr_doctor_take_facts(const char *text, size_t len);
/* The folder trial alone. */
void kr_doctor_judge_folder(const struct kr_doctor_facts *f, struct kr_doctor_report *r);
/* A word of a trial; NULL if it gave none. */
const char *kr_doctor_fact(const struct kr_doctor_trial *t, const char *name);

/* ---- the engine's side ---- */

struct kr_doctor_app {
    struct kr_doctor_report *report; /* shared */
    volatile sig_atomic_t *stop;     /* a signal that came before the engine could see to it, or 0 */
    const char *folder;              /* try this host folder as a workspace and nothing else; NULL: everything else */
    const char *file, *home;         /* bait */
    struct kr_doctor_bait bait;      /* put up before the engine is forked, with the caller's rights */
    int view;                        /* of the folder, for an engine that is another user; -1: none */
};
/* A kr_engine_main. */
int kr_doctor_app_main(int control, void *arg);
extern const struct kr_embed kr_doctor_files[];

/* Without a cell: which namespaces and filters can be had at all, tried in children, and the setting that is in the
 * way. */
void kr_doctor_host(struct kr_doctor_report *r);
struct kr_doctor_place {
    const char *folder; /* empty, for the trial: on the filesystem of the data directory if that is there */
    const char *data;   /* the data directory, also if it is not there; NULL: not known */
    bool is_there;
    bool is_elsewhere; /* the folder is on whichever filesystem TMPDIR is */
    int choice;        /* enum kr_shelf_choice */
};
/* What limits the disks of that data directory's sandboxes; an image may be left beside the folder. Changes the mount
 * namespace of its process. */
void kr_doctor_shelf(const struct kr_doctor_place *p, struct kr_doctor_report *r);

struct kr_doctor_look {
    bool colour, utf8;
    int width;
};
void kr_doctor_show(const struct kr_doctor_report *r, const struct kr_doctor_look *look, FILE *out);
/* One object and a newline. 0 or -errno. */
int kr_doctor_json(const struct kr_doctor_report *r, FILE *out);

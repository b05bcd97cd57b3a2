/* How a run ended: one of thirteen words, decided from facts. Pure: no clock, no descriptor, no state.
 * docs/design/engine.md has the fact that confirms each word. */
#pragma once
#include "limit.h"
#include "proto.h"
#include <stdbool.h>

enum kr_cause {
    KR_CAUSE_OK,
    KR_CAUSE_EXCEPTION,
    KR_CAUSE_EXIT,
    KR_CAUSE_TIMEOUT,
    KR_CAUSE_MEMORY_LIMIT,
    KR_CAUSE_CPU_LIMIT,
    KR_CAUSE_DISK_LIMIT,
    KR_CAUSE_PROCESS_LIMIT,
    KR_CAUSE_SIGNAL,
    KR_CAUSE_DENIED,
    KR_CAUSE_INTERRUPTED,
    KR_CAUSE_CANCELLED,
    KR_CAUSE_LOST,
    KR_CAUSE_MAX_,
};

struct kr_cause_row {
    const char *name; /* the word in JSON */
    const char *help;
};
extern const struct kr_cause_row kr_cause_rows[KR_CAUSE_MAX_];

/* Limits that were hit, as bits; the name of each is that of its limit row. */
enum kr_hit {
    KR_HIT_MEMORY = 1 << 0,
    KR_HIT_CPU_TIME = 1 << 1,
    KR_HIT_DISK = 1 << 2,
    KR_HIT_FILE_SIZE = 1 << 3,
    KR_HIT_PROCESSES = 1 << 4,
    KR_HIT_TIMEOUT = 1 << 5,
    KR_HIT_OUTPUT = 1 << 6,
    KR_HIT_INODES = 1 << 7,
};
struct kr_hit_row {
    unsigned bit;
    const char *name;
};
extern const struct kr_hit_row kr_hit_rows[];
extern const size_t kr_hit_rows_count;

/* How the session describes its run's end (S_END): a claim. */
enum kr_claim {
    KR_CLAIM_NONE,
    KR_CLAIM_OK,
    KR_CLAIM_EXCEPTION,
    KR_CLAIM_EXIT,
    KR_CLAIM_DENIED, /* the policy refused the code before it ran */
    KR_CLAIM_MAX_,
};

/* What an uncaught exception points at; made from its type, errno and text by kr_blame_of(). */
enum kr_blame {
    KR_BLAME_NONE,
    KR_BLAME_KEYBOARD,  /* KeyboardInterrupt */
    KR_BLAME_MEMORY,    /* MemoryError or a subclass, ENOMEM */
    KR_BLAME_DISK,      /* ENOSPC, EDQUOT */
    KR_BLAME_FILE_SIZE, /* EFBIG */
    KR_BLAME_PROCESSES, /* EAGAIN, "can't start new thread" */
    KR_BLAME_MAX_,
};
/* type and message may be NULL. */
enum kr_blame kr_blame_of(const char *type, const char *message, int error_errno);

struct kr_cause_facts {
    /* the claim */
    enum kr_claim claim;
    enum kr_blame blame;
    int claimed_code; /* the exit code it says its process has, or would have */
    bool raised;      /* the session claims that no limit made the exception: a `raise`, /dev/full, an empty pipe */
    bool inodes;      /* it claims that there was room for bytes, but not for files */
    /* the process, from the warden */
    bool ended; /* it is gone */
    bool status_known;
    int status; /* as waitpid gives it */
    /* the limits' counters, from the cgroup; `have` says which are real */
    struct kr_usage before, after;
    struct kr_limits limits;
    bool data_limited; /* RLIMIT_DATA was set for this session */
    /* what we did ourselves */
    bool timed_out;       /* the wall timer fired before the end */
    bool interrupted;     /* SIGINT on request */
    bool cancelled;       /* killed on request */
    bool cpu_exceeded;    /* our look at the counters found the CPU time used up */
    bool disk_exceeded;   /* our look at the folder found it too large, or could not measure it */
    bool inodes_exceeded; /* it found too many files in it */
    bool host_short;      /* we ended it because the server's disk was almost full */
    bool host_full;       /* the server's disk is full: no limit of the session's refused its bytes */
    bool killed;          /* we sent SIGKILL */
    bool broken;          /* it broke the protocol, or its end of it is lost */
    bool hung_up; /* broken by nothing else than that it closed its channel, and its end was waited for in vain */
    bool output_cut;
};

struct kr_verdict {
    enum kr_cause cause;
    int exit_code; /* what `krait run` exits with: the script's own, 124, 125, 130, 137, 128 + signal */
    unsigned hits; /* enum kr_hit bits */
    bool by_kill;  /* the process was killed, as against an exception that ended the run */
    bool shortage; /* of memory around the cell, and not of its own: KR_CAUSE_LOST */
};

/* Decides. The facts need not be consistent: a hostile session makes any of them. */
struct kr_verdict kr_cause_decide(const struct kr_cause_facts *f);

/* A holder without a warden for test-holder.c: it forks fake sessions itself and speaks no frame of the control
 * socket. */
#pragma once
#include "holder.h"

struct uv_loop_s;

/* What was asked of it, to be looked at by a test. */
struct fake_holder_log {
    unsigned preloads, wakes, opens, starts, signals, kills, usages, asks, releases, closes;
    unsigned paces, clears, hards;
    uint64_t since_ns;                      /* of the last signal or clear */
    uint64_t processes;                     /* that its counters tell; 0: none but the session */
    bool uncounted;                         /* they tell nothing of processes */
    enum kr_pace pace;                      /* the last one */
    uint64_t burnt_ns;                      /* CPU time that a session has used between two looks at its counters */
    unsigned blind, mute;                   /* so many next questions about counters get no counters, no answer */
    unsigned pids_hits;                     /* what its counters say */
    unsigned early;                         /* looks at the counters that held up the code of a run */
    unsigned late;                          /* so many next opens are refused, as if they had taken too long */
    unsigned refusals;                      /* so many next opens are refused, as if there were no room */
    bool all_at_once;                       /* counters are always read at once */
    unsigned left;                          /* processes that the next clear finds, one less each time */
    struct kr_session_spec opened, started; /* the last of each; env is not copied */
};

/* It says what it gives and that its one zygote is ready as soon as the loop runs. */
struct kr_holder *fake_holder_new(struct uv_loop_s *loop, struct fake_holder_log *log);
/* Its zygote of that index has changed its state. */
void fake_holder_zygote(struct kr_holder *h, uint32_t zygote, enum kr_zygote_state state, uint32_t generation);
/* From now on it refuses to open. */
void fake_holder_refuse(struct kr_holder *h, const char *why);
/* It is gone, as a runtime that crashed is. */
void fake_holder_vanish(struct kr_holder *h);

/* One run: code in, output and displays out, an end with its cause. Runs on one session go in order. */
#pragma once
#include "cause.h"
#include "claim.h"
#include "hint.h"
#include "output.h"
#include "run_spec.h"
#include "session.h"

struct kr_run;

/* How it ended. Valid during on_end. */
struct kr_run_end {
    struct kr_verdict verdict;
    char message[280];       /* what a person should know beyond the cause, "" if nothing */
    char hint[KR_HINT_ROOM]; /* what its author can do next, "" if nothing */
    const struct kr_claim_end *claim;
    bool truncated;        /* output or displays were cut */
    bool session_alive;    /* its variables are still there */
    bool session_frozen;   /* its session was frozen for its background_cpu when it began */
    uint64_t output_bytes; /* all that came, also what was cut */
    uint64_t wall_ns, cpu_ns;
    uint64_t peak_memory;
    uint64_t background; /* processes that run on in its session */
    bool have_cpu, have_peak, have_background;
};

struct kr_run_calls {
    void (*on_output)(void *data, struct kr_run *r, enum kr_stream stream, const char *text, size_t len);
    /* {"data":{},"metadata":{}}; borrowed. May be NULL. */
    /* JSON of {"data":{mime: …},"metadata":{…}}, on one line. */
    void (*on_display)(void *data, struct kr_run *r, const char *json, size_t len);
    /* input() asks for a line: answer with kr_run_reply(), now or later. NULL: end of input. */
    void (*on_input)(void *data, struct kr_run *r, const char *prompt, bool password);
    /* A program of the cell asks for packages (docs/design/packages.md): answer `number` with kr_run_packaged(), now or
     * later. `ask` is an object, borrowed. NULL: they are not to be had. */
    void (*on_packages)(void *data, struct kr_run *r, uint32_t number, const json_t *ask);
    /* The last call; the pointer is dead when it returns. */
    void (*on_end)(void *data, struct kr_run *r, const struct kr_run_end *end);
};

/* While input() waits for its line the wall time stands still: for one line as long as the run's own timeout, within
 * these two bounds, and then it has the end of input; and for so long in one run, and then waiting counts as everything
 * else does. */
#define KR_RUN_ASK_LEAST_MS (5u * 1000)
#define KR_RUN_ASK_MS (10u * 60 * 1000)
#define KR_RUN_ASKS_MS (60u * 60 * 1000)

#define KR_RUN_QUEUE_MAX 64
#define KR_RUN_DISPLAYS_MAX 1000u            /* displays of one run, and */
#define KR_RUN_DISPLAY_BYTES_MAX (64u << 20) /* their bytes, that are handed on, whatever the output cap */

/* Queues a run; the spec is not used after the return. 0, or -errno with err and no callback will come. on_end may come
 * at any later time, but never from here. */
int kr_run_new(struct kr_session *s, const struct kr_run_spec *spec, const struct kr_run_calls *calls, void *data,
               struct kr_run **ret_run, struct kr_err *err);
/* KeyboardInterrupt in the run; if `insist`, its session is killed when it has not ended after the grace. A queued
 * run ends at once. */
void kr_run_interrupt(struct kr_run *r, bool insist);
/* Of a terminal: another size, or a signal for what runs in its foreground. 0, -ESRCH: it has ended; -ENOBUFS: too much
 * waits already. */
int kr_run_steer(struct kr_run *r, const struct kr_s_steer *how);
/* Kills its session. */
void kr_run_cancel(struct kr_run *r);
/* Answers on_input; text NULL is end of input. -EINVAL if nothing was asked. */
int kr_run_reply(struct kr_run *r, const char *text, size_t len);
/* A part of the answer to on_packages, or the last of them: JSON on one line. 0; -ESRCH: it has ended; -ENOBUFS: a part
 * that is dropped, because it does not read. */
int kr_run_packaged(struct kr_run *r, uint32_t number, const char *json, size_t len, bool is_last);
/* No answer will come: it has the end of input, and its end says so. */
void kr_run_unanswered(struct kr_run *r);
/* Does it wait for a line? */
bool kr_run_asks(const struct kr_run *r);
/* For how many milliseconds it does. */
uint64_t kr_run_asks_ms(const struct kr_run *r);
struct kr_session *kr_run_session(const struct kr_run *r);

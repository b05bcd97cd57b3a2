/* Security events: what code was refused, on its way into the store, the metrics and the log.
 *
 * One call for each refusal, from whoever learns of it: equal ones of a moment become one row with their number, and
 * what a user causes beyond a bound in a minute becomes one row of each kind. Loop thread only. docs/design/security.md
 */
#pragma once
#include "err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct kr_run_end;
struct kr_security;
struct kr_store;
struct uv_loop_s;

/* What refused. The names are those of REST, MCP and the metric krait_security_events_total. */
enum kr_security_kind {
    KR_SECURITY_POLICY,     /* the judge before the run, or a guard while it ran */
    KR_SECURITY_SYSCALL,    /* the system call filter ended it */
    KR_SECURITY_PERMISSION, /* the kernel refused a file, and the exception ended the run */
    KR_SECURITY_EGRESS,     /* a connection that the network rule or a bound refused */
    KR_SECURITY_LIMIT,      /* a limit was hit, survived or not */
    KR_SECURITY_KIND_MAX_,
};
extern const char *const kr_security_kinds[KR_SECURITY_KIND_MAX_ + 1]; /* NULL at the end */

struct kr_security_event {
    enum kr_security_kind kind;
    const char *rule;                 /* a rule id ("P101"), a limit, an errno, a verdict */
    uint32_t line;                    /* of the run's code; 0: not known */
    const char *text;                 /* for a person; what is too long is cut */
    uint64_t count;                   /* equal ones that it stands for; 0 is 1 */
    const char *user, *sandbox, *run; /* ids; sandbox and run may be "" */
};

struct kr_security_calls {
    /* For metrics, and (is_told) for a line of the log. May be NULL. */
    void (*on_event)(void *data, const struct kr_security_event *e, bool is_told);
};

struct kr_security_figures {
    uint64_t dropped;  /* events without a row: the store took none for too long */
    uint64_t unlisted; /* events that are in a user's rest of a minute, not in a row of their own */
};

/* `rows`: as many are kept in the store. 0 or -ENOMEM. */
int kr_security_new(struct uv_loop_s *loop, struct kr_store *store, uint64_t rows,
                    const struct kr_security_calls *calls, void *data, struct kr_security **ret);
/* Writes what waits. Takes NULL. */
void kr_security_free(struct kr_security *s);
void kr_security_set_rows(struct kr_security *s, uint64_t rows);
/* Notes one. Cheap: no write before the timer, or the 64th that differs. s may be NULL. */
void kr_security_note(struct kr_security *s, const struct kr_security_event *e);
/* The same of a run that has ended: how, and the limits that it hit. */
void kr_security_note_run(struct kr_security *s, const char *user, const char *sandbox, const char *run,
                          const struct kr_run_end *end);
/* The same of a connection's row, checked; one that was not refused is none. */
void kr_security_note_connection(struct kr_security *s, const json_t *row);
/* What waits reaches the store now, for a list that is about to be read. */
void kr_security_settle(struct kr_security *s);
/* The same, and the rests of all users: the server ends. */
void kr_security_flush(struct kr_security *s);
/* Removes a small piece of what is past retention (since 0: no bound by age) or too many. How many rows, or -errno,
 * which was logged. */
int kr_security_prune(struct kr_security *s, int64_t since);
struct kr_security_figures kr_security_figures(const struct kr_security *s);

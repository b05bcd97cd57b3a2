/* Refusals as events: those of a run that has ended, and of connections.
 *
 * Called by the domain (src/box). Invariant: what only the session says of itself (an exception, its line, what the
 * policy found) is never the reason to believe in a refusal of the kernel's: causes and limits are the engine's own,
 * and a PermissionError that a statement of the code raised is none. */
#include "security.h"
#include "run.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RULES_MAX 32u /* of one run that have rows of their own */

static int64_t number_in(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static const char *text_in(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

/* One of a run's events on its way: where they go, and whose they are. */
struct place {
    struct kr_security *security;
    const char *user, *sandbox, *run;
};

static void note_for(const struct place *p, enum kr_security_kind kind, const char *rule, int64_t line,
                     const char *text)
{
    kr_security_note(p->security,
                     &(struct kr_security_event){.kind = kind,
                                                 .rule = rule,
                                                 .line = line > 0 && line <= INT32_MAX ? (uint32_t)line : 0,
                                                 .text = text,
                                                 .user = p->user,
                                                 .sandbox = p->sandbox,
                                                 .run = p->run});
}

static bool is_limit(enum kr_cause cause)
{
    return cause == KR_CAUSE_TIMEOUT || cause == KR_CAUSE_MEMORY_LIMIT || cause == KR_CAUSE_CPU_LIMIT ||
           cause == KR_CAUSE_DISK_LIMIT || cause == KR_CAUSE_PROCESS_LIMIT;
}

/* The message of an end by a limit is about that one; others were survived. */
static void note_limits(const struct place *p, const struct kr_run_end *end)
{
    int64_t line = number_in(end->claim->error, "line");

    for (size_t i = 0; i < kr_hit_rows_count; i++) {
        const struct kr_hit_row *row = &kr_hit_rows[i];
        bool is_cause = is_limit(end->verdict.cause) && (end->verdict.hits & ~(unsigned)KR_HIT_OUTPUT) == row->bit;
        char text[96];

        if (!(end->verdict.hits & row->bit))
            continue;
        snprintf(text, sizeof text, "the %s limit was hit", row->name);
        note_for(p, KR_SECURITY_LIMIT, row->name, row->bit == KR_HIT_OUTPUT ? 0 : line, is_cause ? end->message : text);
    }
}

/* The kernel refused a file or a call, and the exception ended the run. */
static void note_permission(const struct place *p, const struct kr_run_end *end)
{
    const json_t *error = end->claim->error;
    int64_t number = number_in(error, "errno");
    const char *name = number == EACCES || number == EPERM || number == EROFS ? strerrorname_np((int)number) : NULL;

    if (end->verdict.cause == KR_CAUSE_EXCEPTION && name && !end->claim->raised)
        note_for(p, KR_SECURITY_PERMISSION, name, number_in(error, "line"), text_in(error, "message"));
}

/* What the judge found before the run, or the guards refused during it: the session's own words, all of one run. */
static void note_rules(const struct place *p, const json_t *rows)
{
    size_t count = json_array_size(rows);

    for (size_t i = 0; i < count && i < RULES_MAX; i++) {
        const json_t *row = json_array_get(rows, i);

        note_for(p, KR_SECURITY_POLICY, text_in(row, "id"), number_in(row, "line"), text_in(row, "text"));
    }
    if (count > RULES_MAX)
        kr_security_note(p->security, &(struct kr_security_event){.kind = KR_SECURITY_POLICY,
                                                                  .rule = "more",
                                                                  .text = "more refusals of this run",
                                                                  .count = count - RULES_MAX,
                                                                  .user = p->user,
                                                                  .sandbox = p->sandbox,
                                                                  .run = p->run});
}

void kr_security_note_run(struct kr_security *s, const char *user, const char *sandbox, const char *run,
                          const struct kr_run_end *end)
{
    const struct place place = {s, user, sandbox, run}, *p = &place;

    if (end->verdict.cause == KR_CAUSE_DENIED && !end->verdict.by_kill)
        note_rules(p, end->claim->findings); /* of code that was judged and not meant to run nothing was refused */
    note_rules(p, end->claim->refused);
    if (end->verdict.cause == KR_CAUSE_DENIED && end->verdict.by_kill)
        note_for(p, KR_SECURITY_SYSCALL, "seccomp", 0, end->message);
    note_limits(p, end);
    note_permission(p, end);
}

void kr_security_note_connection(struct kr_security *s, const json_t *row)
{
    const char *verdict = text_in(row, "verdict");
    char text[600];

    if (strcmp(verdict, "denied") != 0 && strcmp(verdict, "limit") != 0)
        return;
    snprintf(text, sizeof text, "%s:%lld: %s", text_in(row, "host"), (long long)number_in(row, "port"),
             text_in(row, "why"));
    kr_security_note(s, &(struct kr_security_event){.kind = KR_SECURITY_EGRESS,
                                                    .rule = verdict,
                                                    .text = text,
                                                    .user = text_in(row, "user"),
                                                    .sandbox = text_in(row, "sandbox"),
                                                    .run = text_in(row, "run")});
}

/* A run from its begin to its end: the engine's callbacks become events of its log.
 *
 * Called by box_sessions.c (begin, drop) and box_changes.c (finish). Invariants: everything that happens to a run is
 * an event in its log, and the last one is its end; a run ends once, through kr_box_run_finish() or
 * kr_box_run_drop(). */
#include "box_internal.h"
#include "clock.h"
#include "json.h"
#include "log.h"
#include "report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTED_NS UINT64_C(1000000000)

/* ---- while it runs ---- */

static void on_output(void *data, struct kr_run *run, enum kr_stream stream, const char *text, size_t len)
{
    struct kr_box_run *r = data;

    if (kr_runlog_text(r->log, stream, text, len) == 1)
        kr_session_pause(kr_run_session(run), true);
}

static void on_display(void *data, struct kr_run *run, const char *json, size_t len)
{
    struct kr_box_run *r = data;

    if (kr_runlog_add(r->log, KR_EVENT_DISPLAY, json, len) == 1)
        kr_session_pause(kr_run_session(run), true);
}

static void on_input(void *data, struct kr_run *run, const char *prompt, bool password)
{
    struct kr_box_run *r = data;
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, 256u << 10);
    if (!r->spec.interactive) {
        kr_run_reply(run, NULL, 0);
        return;
    }
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    kr_json_key_str(&j, "prompt", prompt);
    kr_json_key_bool(&j, "password", password);
    kr_json_object_end(&j);
    if (kr_json_done(&j) < 0)
        kr_run_reply(run, NULL, 0); /* the question cannot be written */
    else
        kr_box_run_log_json(r, KR_EVENT_INPUT, &buf, &j);
}

/* ---- the end ---- */

static void log_claims(struct kr_box_run *r, const struct kr_claim_end *claim)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;
    char *text;

    if (claim->result) {
        kr_buf_init(&buf, 8u << 20);
        kr_json_init(&j, &buf);
        kr_json_object(&j);
        kr_json_key(&j, "text");
        kr_report_value(&j, claim->result);
        kr_json_object_end(&j);
        kr_box_run_log_json(r, KR_EVENT_RESULT, &buf, &j);
    } else {
        kr_buf_init(&buf, 1);
    }
    text = claim->error ? json_dumps(claim->error, JSON_COMPACT) : NULL;
    if (text)
        kr_runlog_add(r->log, KR_EVENT_ERROR, text, strlen(text));
    free(text);
}

/* A run whose row the store cannot keep is not answered as it ended: its reader would look for it in vain. The code has
 * run, so the message says how it ended. A fault that is known, or a run long enough for one to have come since its
 * start was noted: else the note of the start is proof enough. */
static void judge_row(const struct kr_box_run *r, struct kr_run_end *end)
{
    const char *name = kr_cause_rows[end->verdict.cause].name;
    struct kr_err err;

    if ((!r->box->notes_fail && end->wall_ns < NOTED_NS) || kr_box_can_note(r->box, &err) >= 0)
        return;
    snprintf(end->message, sizeof end->message, "it ended as %s, but the server could not note it: %.150s", name,
             kr_err_row((enum kr_err_kind)err.kind)->text_is_public ? err.msg : "its store failed");
    end->verdict.cause = KR_CAUSE_LOST;
}

/* What only the engine's callback can say is kept; the rest of the end comes when the files have been looked at. */
static void keep_end(struct kr_box_run *r, const struct kr_run_end *end)
{
    struct kr_run_end mine = *end;
    struct kr_json j;

    if (r->cancelled && (end->verdict.cause == KR_CAUSE_INTERRUPTED || end->verdict.cause == KR_CAUSE_LOST))
        mine.verdict.cause = KR_CAUSE_CANCELLED;
    judge_row(r, &mine);
    r->cause = mine.verdict.cause;
    r->wall_ns = end->wall_ns;
    snprintf(r->message, sizeof r->message, "%s", mine.message);
    memcpy(r->hint, mine.hint, sizeof r->hint);
    r->row = (struct kr_store_run_end){.cause = kr_cause_rows[r->cause].name,
                                       .exit_code = mine.verdict.exit_code,
                                       .hits = mine.verdict.hits,
                                       .message = r->message,
                                       .wall_us = end->wall_ns / 1000,
                                       .cpu_us = end->cpu_ns / 1000,
                                       .peak_memory = end->peak_memory,
                                       .output_bytes = end->output_bytes,
                                       .truncated = end->truncated};
    kr_json_init(&j, &r->end);
    kr_json_object(&j);
    kr_json_key_str(&j, "run_id", r->id);
    kr_json_key_str(&j, "session_id", r->session_name);
    kr_json_key_str(&j, "sandbox_id", r->sandbox);
    kr_report_end(&j, &mine);
    kr_json_key_bool(&j, "session_alive", end->session_alive && !r->session->thrown_away);
    kr_json_key_bool(&j, "session_restarted", r->restarted);
    if (r->notice[0])
        kr_json_key_str(&j, "session_notice", r->notice);
    kr_json_key_bool(&j, "session_frozen", r->thawed);
    kr_json_key_double(&j, "started_at", (double)r->started_us / 1e6);
    /* open: close_end() adds the rest */
}

static void on_end(void *data, struct kr_run *run, const struct kr_run_end *end)
{
    struct kr_box_run *r = data;

    if (end->session_alive)
        kr_session_pause(kr_run_session(run), false); /* on_log_room() does not reach it any more */
    else
        kr_box_session_leave(r->session);
    kr_box_run_packages_over(r);
    r->run = NULL;
    kr_box_run_set_state(r, KR_BOX_RUN_ENDING);
    log_claims(r, end->claim);
    keep_end(r, end);
    kr_box_egress_hint(r);
    kr_security_note_run(r->box->security, r->user->id, r->sandbox, r->id, end);
    kr_disk_look(r->box, r->user);
    if (r->session->spec.workspace != KR_WORKSPACE_NONE)
        kr_changes_look(r->session, r);
    else
        kr_box_run_finish(r, NULL, false, 0);
}

static void note_end(struct kr_box_run *r, const char *files)
{
    struct kr_box *b = r->box;
    struct kr_caller who = {.user = r->user->id, .address = "", .request = ""};
    struct kr_err err;

    if (!r->noted) /* it could not even begin */
        kr_box_run_note_start(r, &r->spec.code);
    r->row.ended = kr_store_now();
    r->row.files = files;
    if (kr_store_run_end(b->config.store, r->user->id, r->id, &r->row, &err) < 0)
        kr_log(KR_LOG_ERROR, "end of a run lost", "run=%s error=\"%s\"", r->id, err.msg);
    kr_box_audit_soon(b, &who, "run.end", r->id, kr_cause_rows[r->cause].name, NULL);
    kr_box_noted(b, true);
    if (b->calls.on_run_ended && r->news != KR_BOX_NEWS_NONE) /* else it was refused, and is counted as that */
        b->calls.on_run_ended(b->data, r, r->cause, r->wall_ns);
}

/* A small log is kept with the run's row. */
static void end_log(struct kr_box_run *r)
{
    const char *json = r->end.failed ? "{}" : r->end.data;
    size_t len = r->end.failed ? 2 : r->end.len;

    if (kr_runlog_end_packed(r->log, r->cause, json, len, &r->log_bytes) == 1) {
        r->row.log = r->log_bytes.data;
        r->row.log_len = r->log_bytes.len;
    }
}

/* The members that are known last. */
static void close_end(struct kr_box_run *r, const char *files, bool files_incomplete)
{
    struct kr_json j;

    kr_buf_add_str(&r->end, ",\"hint\":");
    kr_json_init(&j, &r->end);
    if (r->hint[0])
        kr_json_str(&j, r->hint);
    else
        kr_json_null(&j);
    kr_buf_printf(&r->end, ",\"files_incomplete\":%s,\"files\":", files_incomplete ? "true" : "false");
    kr_buf_add_str(&r->end, files ? files : "[]");
    kr_buf_add_str(&r->end, "}");
}

void kr_box_run_finish(struct kr_box_run *r, const char *files, bool files_incomplete, uint64_t files_bytes)
{
    struct kr_box_session *session = r->session;
    struct kr_box *b = r->box;

    if (!r->hint[0])
        (void)kr_hint_disk(files_bytes, session->spec.limits.disk, r->hint, sizeof r->hint);
    kr_buf_printf(&r->end, ",\"ended_at\":%.6f", (double)kr_store_now() / 1e6);
    close_end(r, files, files_incomplete);
    end_log(r);
    note_end(r, files);
    kr_box_run_tell_now(r);
    session->current = NULL;
    kr_box_egress_tell(session, NULL);
    kr_box_run_free(r);
    kr_box_session_proceed(session);
    kr_box_check_stopped(b);
}

/* Writes the end of a run that never had an engine's. */
static void keep_short_end(struct kr_box_run *r, enum kr_cause cause, const struct kr_err *err)
{
    struct kr_claim_end claim = {.claim = KR_CLAIM_NONE};
    struct kr_run_end end = {.verdict = {.cause = cause, .exit_code = -1}, .claim = &claim};

    snprintf(end.message, sizeof end.message, "%s", err && kr_err_row(err->kind)->text_is_public ? err->msg : "");
    keep_end(r, &end);
}

void kr_box_run_drop(struct kr_box_run *r, enum kr_cause cause, const struct kr_err *err)
{
    struct kr_box *b = r->box;

    TAILQ_REMOVE(&r->session->waiting, r, link);
    r->session->waiting_count--;
    keep_short_end(r, cause, err);
    close_end(r, NULL, false);
    end_log(r);
    note_end(r, NULL);
    r->session = NULL;
    kr_box_run_set_state(r, KR_BOX_RUN_OVER);
    kr_box_run_free_texts(r);
    if (r->news == KR_BOX_NEWS_TOLD) {
        kr_box_run_free(r);
        kr_box_check_stopped(b);
        return;
    }
    kr_box_run_refuse_later(r, err); /* unless it was queued: then its log has the rest */
}

static void note_frozen(struct kr_box_run *r)
{
    uint64_t budget_ms = r->session->spec.limits.background_cpu_ms;
    char text[32];

    snprintf(r->notice, sizeof r->notice,
             "between two runs: background_cpu of %s was used up; the session was frozen until this run",
             kr_limit_show(kr_limit_find("background_cpu"), budget_ms, text, sizeof text));
}

bool kr_box_run_begin(struct kr_box_run *r)
{
    static const struct kr_run_calls calls = {.on_output = on_output,
                                              .on_display = on_display,
                                              .on_input = on_input,
                                              .on_packages = kr_box_run_on_packages,
                                              .on_end = on_end};
    struct kr_box_session *session = r->session;
    bool frozen = kr_session_spent(session->engine_session);
    struct kr_err err;

    r->spec.auto_install = session->auto_install && !r->spec.script;
    r->spec.policy = r->policy;
    if (!r->spec.own_code &&
        !kr_box_session_has_rights(session, r->policy ? r->policy : &(struct kr_policy_spec){.mode = KR_POLICY_OPEN})) {
        kr_err_set(&err, KR_ERR_CONFLICT, 0, "the policy of the sandbox has changed: close the session and run again");
        kr_box_run_drop(r, KR_CAUSE_DENIED, &err);
        return false;
    }
    kr_box_egress_tell(session, r);
    if (kr_run_new(session->engine_session, &r->spec, &calls, r, &r->run, &err) < 0) {
        kr_box_egress_tell(session, NULL);
        kr_box_run_drop(r, err.kind == KR_ERR_INVALID ? KR_CAUSE_DENIED : KR_CAUSE_LOST, &err);
        return false;
    }
    TAILQ_REMOVE(&session->waiting, r, link);
    session->waiting_count--;
    session->current = r;
    session->executions++;
    session->chatted = false;
    kr_box_run_set_state(r, KR_BOX_RUN_RUNNING);
    kr_changes_begin(session);
    r->started_us = kr_store_now();
    r->restarted = session->restarted;
    session->restarted = false;
    if (r->restarted)
        kr_notes_take(r->box, session, r->notice);
    r->thawed = frozen;
    if (frozen)
        note_frozen(r);
    r->waited_ns = kr_clock_ns() - r->asked_ns;
    kr_box_run_log_started(r);
    if (r->box->calls.on_run_started)
        r->box->calls.on_run_started(r->box->data, r);
    kr_box_run_free_texts(r);
    kr_box_run_tell_later(r);
    return true;
}

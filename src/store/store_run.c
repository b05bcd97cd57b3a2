/* Runs: their start, their end, lists, and retention.
 *
 * Called by the domain for every run: start and end are the two writes of a run, collected as notes by a server.
 * Invariants: a run ends once; a run whose process has died is ended as `lost` by the next start; no statement that
 * answers a user finds a run without its owner. */
#include "store_run.h"
#include "notes.h"
#include "store_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_such_run(struct kr_err *err)
{
    return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no such run");
}

void kr_store_run_done(struct kr_store_run *run)
{
    free((char *)run->files);
    run->files = NULL;
}

/* ---- the rows ---- */

int kr_run_put_start(struct kr_store *s, const struct kr_note_start *start, struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_RUN_START, err, "tttttii", start->id, start->owner, start->sandbox, start->session,
                       start->code, start->holder, start->started);

    return r < 0 ? r : 0;
}

int kr_run_put_end(struct kr_store *s, const char *owner, const char *id, const struct kr_store_run_end *end,
                   struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_RUN_END, err, "ttitiitiiiiiitb", id, owner, end->ended, end->cause,
                       (int64_t)end->exit_code, (int64_t)end->hits, end->message, (int64_t)end->wall_us,
                       (int64_t)end->cpu_us, (int64_t)end->peak_memory, (int64_t)end->output_bytes,
                       (int64_t)end->kept_bytes, (int64_t)end->truncated, end->files, end->log, end->log_len);

    return r < 0 ? r : r == 0 ? no_such_run(err) : 0;
}

int kr_run_put_whole(struct kr_store *s, const struct kr_note_start *start, const struct kr_store_run_end *end,
                     struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_RUN_WHOLE, err, "tttttiiitiitiiiiiitb", start->id, start->owner, start->sandbox,
                       start->session, start->code, start->holder, start->started, end->ended, end->cause,
                       (int64_t)end->exit_code, (int64_t)end->hits, end->message, (int64_t)end->wall_us,
                       (int64_t)end->cpu_us, (int64_t)end->peak_memory, (int64_t)end->output_bytes,
                       (int64_t)end->kept_bytes, (int64_t)end->truncated, end->files, end->log, end->log_len);

    return r < 0 ? r : 0;
}

/* ---- for the domain ---- */

int kr_store_run_start(struct kr_store *s, const struct kr_store_run_start *run, struct kr_err *err)
{
    char code[4 * KR_STORE_CODE_CHARS + 1], session[KR_STORE_SESSION_MAX + 1];
    const char *name = run->session ? run->session : "";
    struct kr_store_run_start own = {.id = run->id, .owner = run->owner, .started = run->started};
    struct kr_note_start row;
    int r;

    kr_store_text_cut(code, sizeof code, run->code, run->code_len, KR_STORE_CODE_CHARS);
    kr_store_text_cut(session, sizeof session, name, strlen(name), KR_STORE_SESSION_MAX);
    if (strlen(run->id) >= KR_STORE_ID_ROOM || (run->sandbox && strlen(run->sandbox) >= KR_STORE_ID_ROOM))
        return kr_store_err(err, KR_ERR_INTERNAL, EINVAL, "id: at most %d characters", KR_STORE_ID_ROOM - 1);
    own.sandbox = run->sandbox ? run->sandbox : "";
    own.session = session;
    own.code = code;
    if (s->notes_fd >= 0)
        return kr_note_start(s, &own, err);
    row = (struct kr_note_start){own.id, own.owner, own.sandbox, own.session, own.code, s->holder, own.started};
    r = kr_run_put_start(s, &row, err);
    return r == -ENOENT ? kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no such user") : r;
}

int kr_store_run_end(struct kr_store *s, const char *owner, const char *id, const struct kr_store_run_end *end,
                     struct kr_err *err)
{
    bool too_long = end->files && strnlen(end->files, KR_STORE_FILES_MAX + 1) > KR_STORE_FILES_MAX;
    char message[KR_STORE_MESSAGE_ROOM], cause[KR_STORE_CAUSE_ROOM];
    const char *text = end->message ? end->message : "";
    struct kr_store_run_end own = *end;

    own.message = kr_store_text_cut(message, sizeof message, text, strlen(text), sizeof message);
    own.cause = kr_store_text_cut(cause, sizeof cause, end->cause, strlen(end->cause), sizeof cause);
    own.truncated = end->truncated || too_long;
    own.files = too_long ? "[]" : end->files;
    return s->notes_fd >= 0 ? kr_note_end(s, owner, id, &own, err) : kr_run_put_end(s, owner, id, &own, err);
}

/* Holders are few (a process each), but a list of them is bounded all the same. */
int kr_store_runs_lost(struct kr_store *s, int64_t now, struct kr_err *err)
{
    int64_t holders[64];
    int count = 0, ended = 0, r = kr_store_settle(s, err);

    if (r < 0)
        return r;
    {
        cleanup_st sqlite3_stmt *st = NULL;

        r = kr_st_open(s, KR_ST_RUN_HOLDERS, &st, err, "");
        while (r >= 0 && count < 64 && (r = kr_st_step(s, st, err)) > 0) {
            int64_t holder = sqlite3_column_int64(st, 0);

            if (!kr_store_holder_lives(s, holder) && !kr_notes_left_by(s, holder))
                holders[count++] = holder;
        }
    }
    for (int i = 0; i < count && r >= 0 && ended < (int)KR_STORE_PRUNE_MAX; i++) {
        r = kr_st_exec(s, KR_ST_RUN_LOST, err, "iii", holders[i], now, (int64_t)KR_STORE_PRUNE_MAX - ended);
        if (r > 0)
            ended += r;
    }
    return r < 0 ? r : ended;
}

int kr_store_run_elsewhere(struct kr_store *s, const char *id, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int64_t holder, ended;
    int r = kr_st_open(s, KR_ST_RUN_HOLDER, &st, err, "t", id);

    if (r < 0 || (r = kr_st_step(s, st, err)) <= 0)
        return r;
    holder = sqlite3_column_int64(st, 0);
    ended = sqlite3_column_int64(st, 1);
    return holder != s->holder && (!ended || kr_store_now() - ended < KR_STORE_RUN_SETTLE_US) &&
           kr_store_holder_lives(s, holder);
}

static void fill(sqlite3_stmt *st, struct kr_store_run *run)
{
    memset(run, 0, sizeof *run);
    kr_st_text(st, 0, run->id, sizeof run->id);
    kr_st_text(st, 1, run->owner, sizeof run->owner);
    kr_st_text(st, 2, run->sandbox, sizeof run->sandbox);
    kr_st_text(st, 3, run->session, sizeof run->session);
    kr_st_text(st, 4, run->code, sizeof run->code);
    run->started = sqlite3_column_int64(st, 5);
    run->ended = sqlite3_column_int64(st, 6);
    kr_st_text(st, 7, run->cause, sizeof run->cause);
    run->exit_code = sqlite3_column_int(st, 8);
    run->hits = (unsigned)sqlite3_column_int64(st, 9);
    kr_st_text(st, 10, run->message, sizeof run->message);
    run->wall_us = (uint64_t)sqlite3_column_int64(st, 11);
    run->cpu_us = (uint64_t)sqlite3_column_int64(st, 12);
    run->peak_memory = (uint64_t)sqlite3_column_int64(st, 13);
    run->output_bytes = (uint64_t)sqlite3_column_int64(st, 14);
    run->kept_bytes = (uint64_t)sqlite3_column_int64(st, 15);
    run->truncated = sqlite3_column_int(st, 16);
}

int kr_store_run_get(struct kr_store *s, const char *owner, const char *id, struct kr_store_run *ret_run,
                     struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    const char *files;
    char *copy = NULL;
    int r;

    kr_store_settle_quietly(s);
    if ((r = kr_st_open(s, KR_ST_RUN_GET, &st, err, "tt", id, owner)) < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return no_such_run(err);
    files = (const char *)sqlite3_column_text(st, 17);
    if (files && !(copy = strdup(files)))
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the store cannot read a run");
    fill(st, ret_run);
    ret_run->files = copy;
    ret_run->files_len = copy ? strlen(copy) : 0;
    return 0;
}

int kr_store_run_log(struct kr_store *s, const char *owner, const char *id, void **ret_log, size_t *ret_len,
                     struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    const void *log;
    size_t len;
    int r;

    kr_store_settle_quietly(s);
    if ((r = kr_st_open(s, KR_ST_RUN_LOG, &st, err, "tt", id, owner)) < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    log = r > 0 ? sqlite3_column_blob(st, 0) : NULL;
    if (!log)
        return no_such_run(err);
    len = (size_t)sqlite3_column_bytes(st, 0);
    *ret_log = malloc(len);
    if (!*ret_log)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the store cannot read a run's log");
    memcpy(*ret_log, log, len);
    *ret_len = len;
    return 0;
}

int kr_store_session_known(struct kr_store *s, const char *owner, const char *sandbox, const char *session,
                           struct kr_err *err)
{
    if (kr_notes_know_session(s, owner, sandbox ? sandbox : "", session ? session : ""))
        return 1;
    return (int)kr_st_int(s, KR_ST_RUN_KNOWN, err, "ttt", owner, sandbox ? sandbox : "", session ? session : "");
}

static bool is_column(sqlite3_stmt *st, int column, const char *wanted)
{
    const char *text = wanted ? (const char *)sqlite3_column_text(st, column) : NULL;

    return !wanted || (text && strcmp(text, wanted) == 0);
}

/* Before fill(): a row that is passed over costs little. */
static bool passes(const struct kr_store_run_filter *f, sqlite3_stmt *st)
{
    return is_column(st, 2, f->sandbox) && is_column(st, 3, f->session) && is_column(st, 7, f->cause) &&
           (!f->running || sqlite3_column_type(st, 6) == SQLITE_NULL);
}

/* By the index of one filter, the one that leaves the fewest rows in a usual store; the others pass over rows. */
static int open_runs(struct kr_store *s, const char *owner, const struct kr_store_run_filter *f,
                     const struct kr_walk *w, sqlite3_stmt **ret_st, struct kr_err *err)
{
    if (f->running)
        return kr_st_open(s, KR_ST_RUN_LIST_OPEN, ret_st, err, "tit", owner, w->time, w->id);
    if (f->cause && strcmp(f->cause, "ok") != 0)
        return kr_st_open(s, KR_ST_RUN_LIST_CAUSE, ret_st, err, "titt", owner, w->time, w->id, f->cause);
    if (f->sandbox && f->session)
        return kr_st_open(s, KR_ST_RUN_LIST_PLACE, ret_st, err, "tittt", owner, w->time, w->id, f->sandbox, f->session);
    if (f->session)
        return kr_st_open(s, KR_ST_RUN_LIST_SESSION, ret_st, err, "titt", owner, w->time, w->id, f->session);
    if (f->sandbox)
        return kr_st_open(s, KR_ST_RUN_LIST_SANDBOX, ret_st, err, "titt", owner, w->time, w->id, f->sandbox);
    return kr_st_open(s, KR_ST_RUN_LIST, ret_st, err, "tit", owner, w->time, w->id);
}

int kr_store_runs_list(struct kr_store *s, const char *owner, const struct kr_store_run_filter *filter,
                       struct kr_store_page *page, void (*on_run)(void *data, const struct kr_store_run *run),
                       void *data, struct kr_err *err)
{
    static const struct kr_store_run_filter none;
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_run run;
    struct kr_walk w;
    int r = kr_walk_init(&w, page, false, err);

    if (r < 0)
        return r;
    kr_store_settle_quietly(s);
    filter = filter ? filter : &none;
    r = open_runs(s, owner, filter, &w, &st, err);
    if (r < 0)
        return r;
    while ((r = kr_st_step(s, st, err)) > 0) {
        bool wanted = passes(filter, st);

        if (!kr_walk_more(&w, wanted))
            break;
        kr_walk_at(&w, sqlite3_column_int64(st, 5), (const char *)sqlite3_column_text(st, 0));
        if (!wanted)
            continue;
        fill(st, &run);
        on_run(data, &run);
    }
    return r < 0 ? r : (int)w.given;
}

/* ---- retention ---- */

/* The oldest runs that are beyond keep, and when the last of them ended. How many, or -errno. */
static int find_old(struct kr_store *s, const struct kr_store_keep *keep, char (*ids)[KR_STORE_ID_ROOM],
                    int64_t *ret_ended, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_totals t;
    int count = 0, r;

    if ((r = kr_store_totals(s, &t, err)) < 0 ||
        (r = kr_st_open(s, KR_ST_RUN_OLDEST, &st, err, "i", (int64_t)KR_STORE_PRUNE_MAX)) < 0)
        return r;
    while ((r = kr_st_step(s, st, err)) > 0) {
        uint64_t size = (uint64_t)sqlite3_column_int64(st, 2);

        if (!(keep->since && sqlite3_column_int64(st, 1) < keep->since) && !(keep->count && t.runs > keep->count) &&
            !(keep->bytes && t.run_bytes > keep->bytes))
            break;
        kr_st_text(st, 0, ids[count++], KR_STORE_ID_ROOM);
        *ret_ended = sqlite3_column_int64(st, 1);
        t.runs--;
        t.run_bytes -= size < t.run_bytes ? size : t.run_bytes;
    }
    return r < 0 ? r : count;
}

int kr_store_runs_delete(struct kr_store *s, char (*ids)[KR_STORE_ID_ROOM], int count, struct kr_err *err)
{
    int r = 0;

    for (int i = 0; i < count && r >= 0; i++)
        r = kr_st_exec(s, KR_ST_RUN_DELETE, err, "t", ids[i]);
    return r < 0 ? r : 0;
}

int kr_store_runs_prune(struct kr_store *s, const struct kr_store_keep *keep,
                        void (*on_gone)(void *data, const char *id), void *data, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    char ids[KR_STORE_PRUNE_MAX][KR_STORE_ID_ROOM];
    int64_t ended = 0;
    int count, r;

    if ((r = kr_store_settle(s, err)) < 0 || (r = kr_txn_begin(&t, s, err)) < 0)
        return r;
    count = find_old(s, keep, ids, &ended, err);
    if (count < 0)
        return count;
    if ((count > 0 && (r = kr_store_logs_mark(s, ended, false, err)) < 0) ||
        (r = kr_store_runs_delete(s, ids, count, err)) < 0 || (r = kr_txn_commit(&t, false, err)) < 0)
        return r;
    for (int i = 0; i < count && on_gone; i++)
        on_gone(data, ids[i]);
    return count;
}

/* Terminals: a thrown-away session with a program on a pseudo-terminal, the ring of its output, its readers.
 *
 * Called by the voices; box_sessions.c tells of its session. Invariants: a terminal that has not ended has a session,
 * and that session has no run but the program; a terminal is freed when it has ended, its time is over and it has no
 * reader; byte n of the output is in the ring at n % KR_TERMINAL_KEPT while first <= n < next. */
#include "box_internal.h"
#include "clock.h"
#include "json.h"
#include "log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDED_MS 60000u                       /* for its last bytes, and how it ended */
#define ENDED_MAX 64u                         /* as many are kept so */
#define ARGS_MAX 256u                         /* words of a program */
#define ARGS_BYTES 32768u                     /* of them and TERM */
#define TERM_MAX 64u                          /* bytes of its name */
#define STDIN_FULL (KR_SESSION_STDIN_MAX / 2) /* input that waits for a program that reads none */
#define LEAD_MAX (KR_TERMINAL_KEPT / 2) /* the program is held back when its quickest reader is so far behind, … */
#define LEAD_LOW (KR_TERMINAL_KEPT / 4) /* … until it is here again */

struct kr_box_terminal {
    TAILQ_ENTRY(kr_box_terminal) link;
    struct kr_box *box;
    struct kr_box_session *session; /* NULL: it has ended */
    struct kr_run *run;             /* NULL: it has not begun, or has ended */
    struct kr_timer *timer;         /* until it is idle for too long; then, until it is forgotten */
    char id[KR_STORE_ID_ROOM], user[KR_STORE_ID_ROOM], sandbox[KR_STORE_ID_ROOM], sandbox_name[KR_STORE_NAME_ROOM];
    char address[KR_BOX_ADDRESS_ROOM], request[KR_BOX_REQUEST_ROOM]; /* of the request that opened it */
    struct kr_box_asker asker;                                       /* its texts are those above */
    unsigned packages;      /* asks of its cell for packages that are not answered yet */
    kr_box_terminal_fn *fn; /* the starter's, until it was called */
    void *data;
    struct kr_run_terminal how; /* its texts are in `texts` */
    char *texts;
    const char **argv;
    int64_t created_us, used_us;
    uint64_t active_ns; /* the last thing that a person did or saw */
    uint64_t next;      /* bytes of output so far */
    char *ring;
    TAILQ_HEAD(kr_terminal_readers, kr_terminal_reader) readers;
    unsigned reader_count;
    bool paused, over; /* over: ENDED_MS have passed, or it was closed after its end */
    bool idle;         /* closed for that */
    enum kr_cause cause;
    int exit_code;
    char message[280];
};

/* ---- making, freeing ---- */

static void free_terminal(struct kr_box_terminal *t)
{
    TAILQ_REMOVE(&t->box->terminals, t, link);
    kr_timer_close(t->timer);
    free(t->texts);
    free((void *)t->argv);
    free(t->ring);
    free(t);
}

static void forget_terminal(struct kr_box_terminal *t)
{
    t->over = true;
    if (!t->session && t->reader_count == 0)
        free_terminal(t);
}

void kr_box_terminals_free(struct kr_box *b)
{
    struct kr_box_terminal *t;

    while ((t = TAILQ_FIRST(&b->terminals)))
        free_terminal(t);
}

/* Of its texts, each with its NUL. */
static size_t how_bytes(const struct kr_run_terminal *how)
{
    size_t bytes = strlen(how->term) + 1;

    for (size_t i = 0; i < how->argc; i++)
        bytes += strlen(how->argv[i]) + 1;
    return bytes;
}

static int check_how(const struct kr_run_terminal *how, struct kr_err *err)
{
    if (how->cols < 1 || how->cols > KR_TERMINAL_SIDE_MAX || how->rows < 1 || how->rows > KR_TERMINAL_SIDE_MAX)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "cols, rows: 1 to %u", KR_TERMINAL_SIDE_MAX);
    if (strlen(how->term) > TERM_MAX ||
        strspn(how->term, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._") != strlen(how->term))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "term: the name of a terminal, as xterm-256color");
    if (how->argc > ARGS_MAX || how_bytes(how) > ARGS_BYTES)
        return kr_err_set(err, KR_ERR_INVALID, E2BIG, "command: at most %u words and %u bytes", ARGS_MAX, ARGS_BYTES);
    if (how->argc > 0 && !*how->argv[0])
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "command: the name of the program is empty");
    return 0;
}

static char *copy_word(char **at, const char *text)
{
    char *copy = *at;
    size_t len = strlen(text) + 1;

    memcpy(copy, text, len);
    *at += len;
    return copy;
}

static int copy_how(struct kr_box_terminal *t, const struct kr_run_terminal *how)
{
    char *at;

    t->texts = at = malloc(how_bytes(how));
    t->argv = calloc(how->argc + 1, sizeof *t->argv);
    t->ring = malloc(KR_TERMINAL_KEPT);
    if (!t->texts || !t->argv || !t->ring)
        return -ENOMEM;
    t->how = *how;
    t->how.term = copy_word(&at, how->term);
    for (size_t i = 0; i < how->argc; i++)
        t->argv[i] = copy_word(&at, how->argv[i]);
    t->how.argv = t->argv;
    return 0;
}

/* How many run: of the sandbox, of the user, of all. */
static int check_bounds(const struct kr_box *b, const struct kr_caller *who, const char *sandbox, struct kr_err *err)
{
    const struct kr_box_config *c = &b->config;
    unsigned all = 0, of_user = 0, of_sandbox = 0;
    const struct kr_box_terminal *t;

    TAILQ_FOREACH(t, &b->terminals, link)
    {
        all += t->session != NULL;
        of_user += t->session && strcmp(t->user, who->user) == 0;
        of_sandbox += t->session && strcmp(t->sandbox, sandbox) == 0;
    }
    if (c->max_terminals_per_sandbox && of_sandbox >= c->max_terminals_per_sandbox)
        return kr_err_set(err, KR_ERR_TOO_MANY, 0,
                          "this sandbox has %u terminals, the most that it may have; close one", of_sandbox);
    if (c->max_terminals_per_user && of_user >= c->max_terminals_per_user)
        return kr_err_set(err, KR_ERR_TOO_MANY, 0, "you have %u terminals, the most that a user may have; close one",
                          of_user);
    if (c->max_terminals && all >= c->max_terminals)
        return kr_err_set(err, KR_ERR_TOO_MANY, 0, "the server has %u terminals, the most that it may have", all);
    return 0;
}

/* ---- waiting readers, idle time ---- */

static uint64_t oldest_byte(const struct kr_box_terminal *t)
{
    return t->next > KR_TERMINAL_KEPT ? t->next - KR_TERMINAL_KEPT : 0;
}

static void tell_readers(struct kr_box_terminal *t)
{
    struct kr_terminal_reader *r, *next;

    for (r = TAILQ_FIRST(&t->readers); r; r = next) {
        next = TAILQ_NEXT(r, link);
        r->on_more(r);
    }
}

/* Holds the program back while even its quickest reader is behind. */
static void pace_terminal(struct kr_box_terminal *t)
{
    const struct kr_terminal_reader *r;
    uint64_t lead = t->reader_count ? UINT64_MAX : 0;
    bool pause;

    TAILQ_FOREACH(r, &t->readers, link)
    if (t->next - r->at < lead)
        lead = t->next - r->at;
    pause = lead > (t->paused ? LEAD_LOW : LEAD_MAX);
    if (pause == t->paused || !t->session || !t->session->engine_session)
        return;
    t->paused = pause;
    kr_session_pause(t->session->engine_session, pause);
}

static void touch_terminal(struct kr_box_terminal *t)
{
    t->active_ns = kr_clock_ns();
    t->used_us = kr_store_now();
}

static void on_terminal_time(void *data)
{
    struct kr_box_terminal *t = data;
    uint64_t most = t->box->config.terminal_idle_ms, idle_ms = (kr_clock_ns() - t->active_ns) / 1000000;

    if (!t->session) {
        forget_terminal(t);
    } else if (most && idle_ms >= most) {
        t->idle = true;
        kr_box_session_end(t->session, "idle");
    } else { /* the bound may be changed while it runs */
        kr_timer_arm(t->timer, most && most - idle_ms < ENDED_MS ? most - idle_ms : ENDED_MS);
    }
}

/* ---- the program ---- */

/* The oldest that has ended makes room. */
static void bound_ended(struct kr_box *b)
{
    struct kr_box_terminal *t, *oldest = NULL;
    unsigned count = 0;

    TAILQ_FOREACH(t, &b->terminals, link)
    if (!t->session && !t->over) {
        oldest = oldest ? oldest : t;
        count++;
    }
    if (count > ENDED_MAX)
        forget_terminal(oldest);
}

static const char *why_ended(const struct kr_box_terminal *t)
{
    return t->idle                                                ? "idle"
           : t->box->stopping                                     ? "stopping"
           : t->cause == KR_CAUSE_CANCELLED                       ? "closed"
           : t->cause == KR_CAUSE_OK || t->cause == KR_CAUSE_EXIT ? "exit"
                                                                  : "killed";
}

/* It ends; its session goes on to do so. */
static void end_terminal(struct kr_box_terminal *t)
{
    struct kr_box *b = t->box;
    struct kr_caller who = {.user = t->user, .address = "", .request = ""};

    kr_box_packages_over(b, &t->asker, &t->packages);
    t->session->terminal = NULL;
    t->session = NULL;
    t->run = NULL;
    t->paused = false;
    if (t->idle)
        snprintf(t->message, sizeof t->message, "nothing was typed or followed for %llu s (terminals.idle_timeout)",
                 (unsigned long long)(b->config.terminal_idle_ms / 1000));
    else if (!t->message[0] && t->cause == KR_CAUSE_CANCELLED)
        snprintf(t->message, sizeof t->message, "%s", b->stopping ? KR_STOPPING : "the terminal was closed");
    kr_box_audit_soon(b, &who, "terminal.end", t->id, why_ended(t), NULL);
    if (b->calls.on_terminal_ended)
        b->calls.on_terminal_ended(b->data, why_ended(t));
    kr_timer_arm(t->timer, ENDED_MS);
    t->reader_count++; /* a reader's leave must not free it */
    tell_readers(t);
    t->reader_count--;
    if (t->over)
        forget_terminal(t);
    bound_ended(b);
}

static void on_terminal_output(void *data, struct kr_run *run, enum kr_stream stream, const char *text, size_t len)
{
    struct kr_box_terminal *t = data;

    (void)run;
    (void)stream;
    if (len > KR_TERMINAL_KEPT) { /* no read is so large; the numbers stay true all the same */
        t->next += len - KR_TERMINAL_KEPT;
        text += len - KR_TERMINAL_KEPT;
        len = KR_TERMINAL_KEPT;
    }
    while (len > 0) {
        size_t at = (size_t)(t->next % KR_TERMINAL_KEPT), room = KR_TERMINAL_KEPT - at, n = len < room ? len : room;

        memcpy(t->ring + at, text, n);
        t->next += n;
        text += n;
        len -= n;
    }
    if (t->reader_count > 0)
        touch_terminal(t);
    tell_readers(t);
    pace_terminal(t);
}

static void on_terminal_end(void *data, struct kr_run *run, const struct kr_run_end *end)
{
    struct kr_box_terminal *t = data;
    struct kr_box_session *session = t->session;

    (void)run;
    t->cause = end->verdict.cause;
    t->exit_code = end->verdict.exit_code;
    snprintf(t->message, sizeof t->message, "%s", end->message);
    kr_changes_end(session);
    end_terminal(t);
    if (session->state == KR_BOX_SESSION_LIVE)
        kr_box_session_end(session, "asked");
}

static void on_terminal_packages(void *data, struct kr_run *run, uint32_t number, const json_t *ask)
{
    struct kr_box_terminal *t = data;

    kr_box_packages_ask(t->box, &t->asker, &t->packages, run, number, ask);
}

struct kr_run *kr_box_terminal_program(struct kr_box *b, const char *id, unsigned **ret_packages)
{
    struct kr_box_terminal *t;

    TAILQ_FOREACH(t, &b->terminals, link)
    if (t->run && strcmp(t->id, id) == 0) {
        *ret_packages = &t->packages;
        return t->run;
    }
    return NULL;
}

static void refuse_terminal(struct kr_box_terminal *t, const struct kr_err *err)
{
    struct kr_box_session *session = t->session;

    session->terminal = NULL;
    t->session = NULL;
    if (t->fn)
        t->fn(t->data, NULL, err);
    free_terminal(t);
}

/* Its session has a process, or will have none. */
static void on_terminal_session(void *data, const struct kr_box_session_info *info, const struct kr_err *err)
{
    static const struct kr_run_calls calls = {
        .on_output = on_terminal_output, .on_end = on_terminal_end, .on_packages = on_terminal_packages};
    struct kr_box_terminal *t = data;
    struct kr_box_session *session = t->session;
    struct kr_run_spec spec = {.terminal = &t->how, .raw = true};
    struct kr_err why;

    if (!err && kr_run_new(info->session, &spec, &calls, t, &t->run, &why) < 0) {
        err = &why;
        kr_box_session_end(session, "asked");
    }
    if (err) {
        refuse_terminal(t, err);
        return;
    }
    session->executions++;
    kr_changes_begin(session);
    kr_changes_forget(session);
    touch_terminal(t);
    on_terminal_time(t); /* arms it */
    if (t->box->calls.on_terminal_opened)
        t->box->calls.on_terminal_opened(t->box->data);
    if (t->fn)
        t->fn(t->data, t, NULL);
    t->fn = NULL;
}

void kr_box_terminal_takes(struct kr_box_terminal *t)
{
    if (t->run)
        tell_readers(t);
}

/* In the list, without a session. NULL: no memory. */
static struct kr_box_terminal *new_terminal(struct kr_box *b, const struct kr_caller *who, const struct kr_sandbox *s,
                                            const struct kr_run_terminal *how)
{
    struct kr_box_terminal *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->box = b;
    TAILQ_INIT(&t->readers);
    TAILQ_INSERT_TAIL(&b->terminals, t, link);
    if (copy_how(t, how) < 0 || kr_timer_new(b->loop, on_terminal_time, t, &t->timer) < 0) {
        free_terminal(t);
        return NULL;
    }
    kr_store_new_id(t->id);
    snprintf(t->user, sizeof t->user, "%s", who->user);
    snprintf(t->sandbox, sizeof t->sandbox, "%s", s->row.id);
    snprintf(t->sandbox_name, sizeof t->sandbox_name, "%s", s->row.name);
    snprintf(t->address, sizeof t->address, "%s", who->address ? who->address : "");
    snprintf(t->request, sizeof t->request, "%s", who->request ? who->request : "");
    t->asker = (struct kr_box_asker){.id = t->id,
                                     .sandbox = t->sandbox,
                                     .who = {.user = t->user,
                                             .rights = who->rights,
                                             .address = t->address,
                                             .request = t->request,
                                             .profile = kr_box_profile(b, who)}};
    t->created_us = t->used_us = kr_store_now();
    return t;
}

static int begin_terminal(struct kr_box_terminal *t, const struct kr_caller *who, const struct kr_sandbox *s,
                          struct kr_err *err)
{
    struct kr_box *b = t->box;
    struct kr_box_user *u = kr_box_user_get(b, who->user);
    struct kr_box_session_how named = {.name = t->id, .thrown_away = true, .in_folder = true};
    int r = u ? kr_box_user_may_run(b, u, err) : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a user");

    if (r >= 0)
        r = kr_box_session_new(b, u, kr_box_profile(b, who), s, &named, &t->session, err);
    if (u)
        kr_box_user_drop(b, u);
    if (r < 0)
        return r;
    t->session->terminal = t;
    t->session->spec.stdin_pipe = true;
    t->session->openers[t->session->opener_count++] = (struct kr_box_opener){on_terminal_session, t};
    kr_box_audit(b, who, "terminal.open", t->id, "ok", NULL);
    kr_box_kick(b);
    return 0;
}

int kr_box_terminal_open(struct kr_box *b, const struct kr_caller *who, const struct kr_box_terminal_new *how,
                         kr_box_terminal_fn *fn, void *data, struct kr_box_terminal **ret, struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_box_terminal *t;
    int r = check_how(&how->how, err);

    if (r >= 0 && b->stopping)
        r = kr_err_set(err, KR_ERR_BUSY, 0, KR_STOPPING);
    if (r >= 0)
        r = kr_box_may_run(b, who, err);
    if (r >= 0)
        r = kr_box_sandbox_find(b, who, how->sandbox, &s, err);
    if (r >= 0 && s.policy.mode != KR_POLICY_OPEN)
        r = kr_err_set(err, KR_ERR_DENIED, 0, "terminals are not allowed under the policy restricted");
    if (r >= 0)
        r = check_bounds(b, who, s.row.id, err);
    if (r < 0)
        return r;
    t = new_terminal(b, who, &s, &how->how);
    if (!t)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a terminal");
    t->fn = fn;
    t->data = data;
    r = begin_terminal(t, who, &s, err);
    if (r < 0) {
        free_terminal(t);
        return r;
    }
    *ret = t;
    return 0;
}

void kr_box_terminal_abandon(struct kr_box_terminal *t)
{
    struct kr_box_session *session = t->session;

    t->fn = NULL;
    if (!session)
        return;
    kr_box_session_cancel(session, "asked");
}

/* ---- what it is ---- */

void kr_box_terminal_get_info(const struct kr_box_terminal *t, struct kr_box_terminal_info *ret)
{
    *ret = (struct kr_box_terminal_info){.id = t->id,
                                         .sandbox = t->sandbox,
                                         .sandbox_name = t->sandbox_name,
                                         .cols = t->how.cols,
                                         .rows = t->how.rows,
                                         .created_us = t->created_us,
                                         .used_us = t->used_us,
                                         .first = oldest_byte(t),
                                         .next = t->next,
                                         .readers = t->reader_count,
                                         .running = t->session != NULL,
                                         .cause = t->cause,
                                         .exit_code = t->exit_code,
                                         .message = t->message};
}

/* A starter knows it from its call on; others when it has begun. */
static bool is_shown(const struct kr_box_terminal *t, const struct kr_caller *who)
{
    return !t->over && !t->fn && (t->run || !t->session) && strcmp(t->user, who->user) == 0;
}

struct kr_box_terminal *kr_box_terminal_find(struct kr_box *b, const struct kr_caller *who, const char *id,
                                             struct kr_err *err)
{
    struct kr_box_terminal *t;

    TAILQ_FOREACH(t, &b->terminals, link)
    if (strcmp(t->id, id) == 0 && is_shown(t, who))
        return t;
    kr_err_set(err, KR_ERR_NOT_FOUND, 0, "there is no terminal of that id");
    return NULL;
}

void kr_box_terminals(struct kr_box *b, const struct kr_caller *who, const char *sandbox,
                      void (*on_terminal)(void *data, const struct kr_box_terminal_info *info), void *data)
{
    struct kr_box_terminal_info info;
    struct kr_box_terminal *t;

    TAILQ_FOREACH_REVERSE(t, &b->terminals, kr_box_terminal_list, link)
    if (is_shown(t, who) && (!sandbox || strcmp(t->sandbox, sandbox) == 0 || strcmp(t->sandbox_name, sandbox) == 0)) {
        kr_box_terminal_get_info(t, &info);
        on_terminal(data, &info);
    }
}

void kr_box_terminal_json(struct kr_json *j, const struct kr_box_terminal_info *info)
{
    kr_json_object(j);
    kr_json_key_str(j, "terminal_id", info->id);
    kr_json_key_str(j, "sandbox_id", info->sandbox);
    kr_json_key_str(j, "sandbox", info->sandbox_name);
    kr_json_key_uint(j, "cols", info->cols);
    kr_json_key_uint(j, "rows", info->rows);
    kr_json_key_bool(j, "running", info->running);
    kr_json_key_double(j, "created_at", (double)info->created_us / 1e6);
    kr_json_key_double(j, "last_activity_at", (double)info->used_us / 1e6);
    kr_json_key_uint(j, "first", info->first);
    kr_json_key_uint(j, "next", info->next);
    kr_json_key_uint(j, "followers", info->readers);
    kr_json_key_str(j, "cause", info->running ? NULL : kr_cause_rows[info->cause].name);
    kr_json_key(j, "exit_code");
    if (info->running)
        kr_json_null(j);
    else
        kr_json_int(j, info->exit_code);
    kr_json_key_str(j, "message", info->message[0] ? info->message : NULL);
    kr_json_object_end(j);
}

/* ---- input ---- */

static struct kr_session *process_of(const struct kr_box_terminal *t)
{
    return t->run && t->session ? t->session->engine_session : NULL;
}

bool kr_box_terminal_wants(const struct kr_box_terminal *t)
{
    const struct kr_session *s = process_of(t);

    return !s || kr_session_stdin_pending(s) < STDIN_FULL;
}

static int has_ended(struct kr_err *err)
{
    kr_err_set(err, KR_ERR_CONFLICT, ESRCH, "the terminal has ended");
    return -ESRCH;
}

int kr_box_terminal_write(struct kr_box_terminal *t, const void *data, size_t len, struct kr_err *err)
{
    struct kr_session *s = process_of(t);
    int r;

    if (!s)
        return has_ended(err);
    touch_terminal(t);
    r = kr_session_stdin_write(s, data, len);
    if (r == -ENOBUFS) {
        kr_err_set(err, KR_ERR_BUSY, EAGAIN, "the program in the terminal does not read what was written; try again");
        return -EAGAIN;
    }
    return r < 0 ? has_ended(err) : 0;
}

int kr_box_terminal_resize(struct kr_box_terminal *t, uint32_t cols, uint32_t rows, struct kr_err *err)
{
    struct kr_s_steer how = {.cols = cols, .rows = rows};
    int r;

    if (cols < 1 || cols > KR_TERMINAL_SIDE_MAX || rows < 1 || rows > KR_TERMINAL_SIDE_MAX)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "cols, rows: 1 to %u", KR_TERMINAL_SIDE_MAX);
    touch_terminal(t);
    r = t->run ? kr_run_steer(t->run, &how) : -ESRCH;
    if (r == -ENOBUFS) {
        kr_err_set(err, KR_ERR_BUSY, EAGAIN, "too many changes of its size wait; try again in a moment");
        return -EAGAIN;
    }
    if (r < 0)
        return has_ended(err);
    t->how.cols = cols;
    t->how.rows = rows;
    return 0;
}

void kr_box_terminal_close(struct kr_box_terminal *t, const struct kr_caller *who)
{
    kr_box_audit(t->box, who, "terminal.close", t->id, "ok", NULL);
    if (t->session)
        kr_box_session_end(t->session, "asked");
    else
        forget_terminal(t);
}

void kr_box_terminals_close(struct kr_box *b, const struct kr_caller *who)
{
    struct kr_box_terminal *t, *next;

    for (t = TAILQ_FIRST(&b->terminals); t; t = next) {
        next = TAILQ_NEXT(t, link);
        if (t->session && is_shown(t, who))
            kr_box_terminal_close(t, who);
    }
}

/* ---- readers ---- */

void kr_terminal_read(struct kr_box_terminal *t, struct kr_terminal_reader *r, uint64_t from)
{
    r->terminal = t;
    r->at = from == 0 ? oldest_byte(t) : from < t->next ? from : t->next;
    TAILQ_INSERT_TAIL(&t->readers, r, link);
    t->reader_count++;
    touch_terminal(t);
    pace_terminal(t);
}

bool kr_terminal_peek(struct kr_terminal_reader *r, const char **ret_data, size_t *ret_len, uint64_t *ret_lost)
{
    const struct kr_box_terminal *t = r->terminal;
    uint64_t first = oldest_byte(t), from = r->at < first ? first : r->at;
    size_t at = (size_t)(from % KR_TERMINAL_KEPT), room = KR_TERMINAL_KEPT - at;

    *ret_lost = from - r->at;
    *ret_data = t->ring + at;
    *ret_len = t->next - from < room ? (size_t)(t->next - from) : room;
    return *ret_len > 0;
}

void kr_terminal_take(struct kr_terminal_reader *r, size_t len)
{
    const char *data;
    uint64_t lost;
    size_t most;

    (void)kr_terminal_peek(r, &data, &most, &lost);
    r->at += lost + (len < most ? len : most);
    pace_terminal(r->terminal);
}

bool kr_terminal_done(const struct kr_terminal_reader *r)
{
    return !r->terminal->session && r->at >= r->terminal->next;
}

void kr_terminal_leave(struct kr_terminal_reader *r)
{
    struct kr_box_terminal *t = r->terminal;

    if (!t)
        return;
    r->terminal = NULL;
    TAILQ_REMOVE(&t->readers, r, link);
    t->reader_count--;
    touch_terminal(t);
    if (t->over)
        forget_terminal(t);
    else
        pace_terminal(t);
}

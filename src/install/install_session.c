/* Installs that programs in a cell ask for: pip and its like (src/kernel/python/pip_command.py), by way of the
 * session's kernel, the engine and the box.
 *
 * Called by `krait serve` with what the box hands on. Invariants: what a cell sends is read by a table of members and
 * nothing more of it is used; the sandbox is that of the run or terminal, the caller the one that started it; a job
 * that nothing else waits for ends with the program that asked for it, and with its run or terminal; each ask has one
 * last answer. */
#include "import_name.h"
#include "install_internal.h"
#include "runlog.h"
#include "utf8.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX (48u << 10) /* bytes of one answer; the frame takes 64 KiB */
#define PART_MAX (8u << 10)    /* of a text in one */

/* An ask that has its job. */
struct kr_install_session {
    struct kr_job_watch watch; /* the first member */
    LIST_ENTRY(kr_install_session) link;
    struct kr_install *in;
    char by[KR_STORE_ID_ROOM], user[KR_STORE_ID_ROOM], job[KR_STORE_ID_ROOM]; /* by: the run or terminal */
    uint32_t number;
    bool own; /* the job was started for it */
    struct kr_runlog_reader *reader;
    struct kr_runlog *log;
    json_t *last; /* the job has ended: its answer, which waits until the log has been read to its end */
};

/* ---- answers ---- */

static void send_answer(struct kr_install *in, const char *by, uint32_t number, json_t *answer, bool is_last)
{
    char *text = json_dumps(answer, JSON_COMPACT);

    if (text && strlen(text) > ANSWER_MAX) { /* more packages than a program prints */
        bool ok = json_is_true(json_object_get(answer, "ok"));

        free(text);
        json_decref(answer);
        answer = json_pack("{s:b,s:b,s:s}", "end", is_last, "ok", ok, "error", "its answer is too long to be shown");
        text = json_dumps(answer, JSON_COMPACT);
    }
    if (text && in->config.answer)
        (void)in->config.answer(in->config.answer_data, by, number, text, strlen(text), is_last);
    else if (text)
        (void)kr_box_packaged(in->config.box, by, number, text, strlen(text), is_last);
    free(text);
    json_decref(answer);
}

static void refuse_session(struct kr_install *in, const char *by, uint32_t number, const char *kind,
                           const struct kr_err *err)
{
    send_answer(in, by, number,
                json_pack("{s:b,s:b,s:s,s:s}", "end", 1, "ok", 0, "kind", kind, "error",
                          kr_err_row((enum kr_err_kind)err->kind)->text_is_public ? err->msg : "the server failed"),
                true);
}

static void session_ask_free(struct kr_install_session *ask)
{
    LIST_REMOVE(ask, link);
    kr_runlog_reader_close(ask->reader);
    kr_runlog_unref(ask->log);
    json_decref(ask->last);
    free(ask);
}

/* ---- while the job runs ---- */

static void send_text(const struct kr_install_session *ask, const char *text, size_t len)
{
    while (len > 0) {
        size_t n = len < PART_MAX ? len : kr_utf8_complete(text, PART_MAX);
        json_t *part = json_stringn(text, n);

        if (!part || n == 0)
            return;
        send_answer(ask->in, ask->by, ask->number, json_pack("{s:o}", "text", part), false);
        text += n;
        len -= n;
    }
}

/* Frees it. */
static void send_last(struct kr_install_session *ask)
{
    send_answer(ask->in, ask->by, ask->number, json_incref(ask->last), true);
    session_ask_free(ask);
}

/* Output of the job, as its program prints it. What is not in memory any more comes a little later. */
static void on_log_more(void *data, struct kr_runlog_reader *reader)
{
    struct kr_install_session *ask = data;
    struct kr_event event;
    int r;

    while ((r = kr_runlog_peek(reader, &event)) == 1) {
        if (event.type == KR_EVENT_STDOUT || event.type == KR_EVENT_STDERR)
            send_text(ask, event.data, event.len);
        kr_runlog_take(reader);
    }
    if (ask->last && (r < 0 || kr_runlog_done(reader)))
        send_last(ask);
}

static void on_session_job_end(struct kr_job_watch *watch, const struct kr_store_job *row, const struct kr_err *err)
{
    struct kr_install_session *ask = (struct kr_install_session *)watch;
    json_t *answer = kr_install_result(ask->in, row);

    if (answer && ask->reader)
        json_object_del(answer, "output"); /* it has been sent */
    if (!answer)
        answer =
            json_pack("{s:b,s:s,s:s}", "ok", 0, "kind", "failed", "error",
                      err && kr_err_row((enum kr_err_kind)err->kind)->text_is_public ? err->msg : "the job was lost");
    json_object_set_new(answer, "end", json_true());
    ask->last = answer;
    if (ask->reader)
        on_log_more(ask, ask->reader);
    else
        send_last(ask);
}

/* The program has gone, or its run has ended. */
static void withdraw(struct kr_install_session *ask)
{
    struct kr_job *job = ask->last ? NULL : kr_jobs_running(ask->in->config.jobs, ask->user, ask->job);
    struct kr_err ignored;

    if (!ask->last) /* else it has heard of the job's end */
        kr_job_unwatch(&ask->watch);
    if (job && ask->own && !kr_job_is_watched(job))
        (void)kr_jobs_cancel(ask->in->config.jobs, ask->user, ask->job, &ignored);
    session_ask_free(ask);
}

static void withdraw_all(struct kr_install *in, const char *by, uint32_t number)
{
    struct kr_install_session *ask, *next;

    for (ask = LIST_FIRST(&in->sessions); ask; ask = next) {
        next = LIST_NEXT(ask, link);
        if (strcmp(ask->by, by) == 0 && (number == 0 || ask->number == number))
            withdraw(ask);
    }
}

void kr_install_sessions_close(struct kr_install *in)
{
    struct kr_install_session *ask, *next;

    for (ask = LIST_FIRST(&in->sessions); ask; ask = next) {
        next = LIST_NEXT(ask, link);
        session_ask_free(ask);
    }
}

/* ---- asking ---- */

/* {"op":"install"|"uninstall","file":text|null,"names":[text]|null,"upgrade":bool}; nothing else. */
static int read_session_ask(const json_t *ask, struct kr_install_ask *ret, struct kr_err *err)
{
    const char *op = json_string_value(json_object_get(ask, "op"));
    const json_t *file = json_object_get(ask, "file"), *names = json_object_get(ask, "names"), *one;
    size_t i;

    *ret = (struct kr_install_ask){.upgrade = json_is_true(json_object_get(ask, "upgrade"))};
    if (!op || (strcmp(op, "install") != 0 && strcmp(op, "uninstall") != 0))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "op: install, uninstall or cancel");
    ret->op = op[0] == 'i' ? KR_INSTALL : KR_UNINSTALL;
    if (json_is_string(file) && (!names || json_is_null(names))) {
        ret->what.file = json_string_value(file);
        return strlen(ret->what.file) == json_string_length(file)
                   ? 0
                   : kr_err_set(err, KR_ERR_INVALID, EINVAL, "file: a text without NUL");
    }
    if (!json_is_array(names) || (file && !json_is_null(file)))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "either file, a text, or names, an array of texts");
    json_array_foreach(names, i, one) if (!json_is_string(one)) return kr_err_set(err, KR_ERR_INVALID, EINVAL,
                                                                                  "names: an array of texts");
    ret->what.texts = names;
    return 0;
}

/* {"op":"auto","names":[words of a session's hint]}: the package of a module that a run did not find. */
static int read_missing(const struct kr_install *in, const json_t *ask, json_t **ret_names, struct kr_err *err)
{
    const char *words = json_string_value(json_array_get(json_object_get(ask, "names"), 0));
    char distribution[KR_REQ_NAME_ROOM];
    struct kr_import_miss miss;

    if (!words || !kr_import_miss_read(words, &miss) ||
        !kr_import_installable(&miss, &in->config.blocked, distribution))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "it is not installed unasked");
    *ret_names = json_pack("[s]", distribution);
    return *ret_names ? 0 : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "an install");
}

static int follow(struct kr_install *in, const struct kr_box_asker *by, uint32_t number, struct kr_job *job, bool own)
{
    struct kr_install_session *ask = calloc(1, sizeof *ask);
    const struct kr_store_job *row = kr_job_row(job);

    if (!ask)
        return -ENOMEM;
    ask->in = in;
    ask->number = number;
    ask->own = own;
    snprintf(ask->by, sizeof ask->by, "%s", by->id);
    snprintf(ask->user, sizeof ask->user, "%s", by->who.user);
    snprintf(ask->job, sizeof ask->job, "%s", row->id);
    ask->watch.on_end = on_session_job_end;
    LIST_INSERT_HEAD(&in->sessions, ask, link);
    kr_job_watch(job, &ask->watch);
    if (kr_jobs_open_log(in->config.jobs, row, &ask->log) < 0) /* then the end has all of it */
        ask->log = NULL;
    else if (kr_runlog_read(ask->log, 0, on_log_more, ask, &ask->reader) < 0)
        ask->reader = NULL;
    return 0;
}

void kr_install_on_session(struct kr_install *in, const struct kr_box_asker *by, uint32_t number, const json_t *ask)
{
    const char *op = json_string_value(json_object_get(ask, "op"));
    struct kr_install_refusal refusal = {.verdict = KR_PACKAGE_FINE};
    struct kr_install_ask what = {.op = KR_INSTALL};
    json_t *missing = NULL;
    struct kr_job *job;
    struct kr_err err;
    int r;

    if (!ask || (op && strcmp(op, "cancel") == 0)) {
        withdraw_all(in, by->id, ask ? number : 0);
        return;
    }
    if (op && strcmp(op, "auto") == 0) {
        r = read_missing(in, ask, &missing, &err);
        what.what.texts = missing;
    } else {
        r = read_session_ask(ask, &what, &err);
    }
    what.sandbox = by->sandbox;
    what.ret_refusal = &refusal;
    if (r >= 0)
        r = kr_install_start(in, &by->who, &what, &job, &err);
    if (r >= 0 && follow(in, by, number, job, r == 0) < 0)
        r = kr_err_set(&err, KR_ERR_SYSTEM, ENOMEM, "an install");
    if (r < 0)
        refuse_session(in, by->id, number, kr_package_verdict_names[refusal.verdict], &err);
    json_decref(missing);
}

/* Answers and errors, in the voice of the route. Called by every handler, by the gate and, for the engine's own
 * errors, by the HTTP server.
 *
 * Invariant: what a client reads of an error is a kind and a text that the table of kinds calls public; errno's words,
 * and everything about our inside, go to the log. */
#include "reply.h"
#include "buf.h"
#include "route_doc.h"
#include "http.h"
#include "json.h"
#include "json_load.h"
#include "log.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ERROR_MAX 65536u

/* ---- answers ---- */

void kr_api_reply(struct kr_http_ex *ex, int status, const struct kr_buf *json)
{
    kr_http_reply_json(ex, status, json);
}

void kr_api_reply_nothing(struct kr_http_ex *ex)
{
    kr_http_reply(ex, 204, NULL, NULL, 0);
}

void kr_api_page_begin(struct kr_json *j, struct kr_buf *out, const char *rows)
{
    kr_json_init(j, out);
    kr_json_object(j);
    kr_json_key(j, rows);
    kr_json_array(j);
}

void kr_api_page_end(struct kr_json *j, const char *next)
{
    kr_json_array_end(j);
    kr_json_key_str(j, "next", next[0] ? next : NULL);
    kr_json_object_end(j);
}

void kr_api_reply_message(struct kr_http_ex *ex, int status, const char *fmt, ...)
{
    cleanup_buf struct kr_buf out;
    char text[512];
    struct kr_json j;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    kr_buf_init(&out, ERROR_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "message", text);
    kr_json_object_end(&j);
    kr_http_reply_json(ex, status, &out);
}

/* ---- the table's words ---- */

int kr_api_status_of(const struct kr_err *err)
{
    const struct kr_err_row *row = kr_err_row((enum kr_err_kind)err->kind);

    return row->http_status >= 400 ? row->http_status : 500; /* an error of kind none is a defect */
}

const char *kr_api_public_text(const struct kr_err *err, char *room)
{
    const struct kr_err_row *row = kr_err_row((enum kr_err_kind)err->kind);
    const char *errno_text = err->code ? strerrordesc_np(err->code) : NULL;
    size_t len, tail = errno_text ? strlen(errno_text) : 0;

    snprintf(room, sizeof err->msg, "%s",
             row->text_is_public && kr_api_status_of(err) != 500 ? err->msg : "internal error");
    len = strlen(room);
    if (tail && len > tail + 2 && strcmp(room + len - tail, errno_text) == 0 &&
        memcmp(room + len - tail - 2, ": ", 2) == 0)
        room[len - tail - 2] = '\0';
    if (!room[0])
        snprintf(room, sizeof err->msg, "%s", row->help);
    return room;
}

/* What the engine refuses, in the words of our kinds. */
static const char *kind_of_status(int status)
{
    static const struct {
        int status;
        enum kr_err_kind kind;
    } rows[] = {
        {401, KR_ERR_UNAUTHORIZED}, {403, KR_ERR_FORBIDDEN},   {404, KR_ERR_NOT_FOUND},   {408, KR_ERR_TIMEOUT},
        {409, KR_ERR_CONFLICT},     {413, KR_ERR_TOO_LARGE},   {414, KR_ERR_TOO_LARGE},   {429, KR_ERR_TOO_MANY},
        {431, KR_ERR_TOO_LARGE},    {500, KR_ERR_INTERNAL},    {501, KR_ERR_UNSUPPORTED}, {503, KR_ERR_BUSY},
        {504, KR_ERR_TIMEOUT},      {505, KR_ERR_UNSUPPORTED}, {507, KR_ERR_NO_SPACE},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status == status)
            return kr_err_row(rows[i].kind)->name;
    return kr_err_row(status >= 500 ? KR_ERR_INTERNAL : KR_ERR_INVALID)->name;
}

/* ---- bodies ---- */

/* The member that every error has, whichever the voice. */
static void write_error(struct kr_json *j, const char *kind, const char *text, const char *field,
                        const char *request_id)
{
    kr_json_key(j, "error");
    kr_json_object(j);
    kr_json_key_str(j, "kind", kind);
    kr_json_key_str(j, "message", text);
    kr_json_key_str(j, "field", field && field[0] ? field : NULL);
    kr_json_key_str(j, "request_id", request_id && request_id[0] ? request_id : NULL);
    kr_json_object_end(j);
}

void kr_api_error_body(enum kr_api_voice voice, int status, const char *kind, const char *text, const char *field,
                       const char *request_id, struct kr_buf *out)
{
    struct kr_json j;

    kr_json_init(&j, out);
    kr_json_object(&j);
    write_error(&j, kind ? kind : kind_of_status(status), text, field, request_id);
    if (voice == KR_API_DOCUMENT)
        kr_json_key_str(&j, "detail", text);
    kr_json_object_end(&j);
}

void kr_api_engine_error(const struct kr_http_route *routes, size_t count, const char *path, int status,
                         const char *text, const char *request_id, struct kr_buf *out)
{
    enum kr_api_voice voice = kr_api_voice_of_path(routes, count, path);

    if (voice == KR_API_DOCUMENT && status == 404)
        text = "Not Found";
    else if (voice == KR_API_DOCUMENT && status == 405)
        text = "Method Not Allowed";
    kr_api_error_body(voice, status, NULL, text, NULL, request_id, out);
}

/* FastAPI's list with one row, for a field that a handler refuses. */
static void write_flaw(const char *field, const char *text, const char *request_id, struct kr_buf *out)
{
    struct kr_json j;
    char msg[sizeof((struct kr_err *)0)->msg + 16];

    snprintf(msg, sizeof msg, "Value error, %s", text);
    kr_json_init(&j, out);
    kr_json_object(&j);
    write_error(&j, kr_err_row(KR_ERR_INVALID)->name, text, field, request_id);
    kr_json_key(&j, "detail");
    kr_json_array(&j);
    kr_json_object(&j);
    kr_json_key_str(&j, "type", "value_error");
    kr_json_key(&j, "loc");
    kr_json_array(&j);
    kr_json_str(&j, "body");
    kr_json_str(&j, field);
    kr_json_array_end(&j);
    kr_json_key_str(&j, "msg", msg);
    kr_json_key_null(&j, "input");
    kr_json_object_end(&j);
    kr_json_array_end(&j);
    kr_json_object_end(&j);
}

/* ---- failing ---- */

static void set_retry(struct kr_http_ex *ex, unsigned seconds)
{
    char text[16];

    if (!seconds)
        return;
    snprintf(text, sizeof text, "%u", seconds);
    kr_http_set_header(ex, "Retry-After", text); /* fails only for want of memory: then without */
}

static void log_inside(const struct kr_http_ex *ex, const struct kr_err *err)
{
    const struct kr_err_row *row = kr_err_row((enum kr_err_kind)err->kind);

    if (!row->text_is_public || kr_api_status_of(err) == 500)
        kr_log_with(KR_LOG_ERROR, "request failed", KR_F_STR("path", kr_http_path(ex)), KR_F_STR("kind", row->name),
                    KR_F_STR("error", err->msg), KR_F_STR("request_id", kr_http_request_id(ex)));
}

/* What failed for a shortage that passes is an outage (503), and no defect (500). */
static void soften(struct kr_err *err)
{
    static const int shortages[] = {ENOMEM, EMFILE, ENFILE, EAGAIN, ENOBUFS, EROFS, EBUSY, ETIMEDOUT};

    if (err->kind != KR_ERR_SYSTEM)
        return;
    for (size_t i = 0; i < sizeof shortages / sizeof *shortages; i++)
        if (err->code == shortages[i]) {
            kr_err_set(err, KR_ERR_BUSY, err->code, "the server cannot do this at the moment");
            return;
        }
}

static void write_failure(struct kr_http_ex *ex, const char *field, const struct kr_err *why, unsigned retry_after_s)
{
    struct kr_err softened = *why;
    const struct kr_err *err = &softened;
    const struct kr_err_row *row;
    enum kr_api_voice voice = kr_api_voice_of(ex);
    char room[sizeof err->msg];
    const char *text;
    cleanup_buf struct kr_buf out;
    int status;

    kr_buf_init(&out, ERROR_MAX);
    log_inside(ex, err);
    soften(&softened);
    row = kr_err_row((enum kr_err_kind)err->kind);
    text = kr_api_public_text(err, room);
    status = kr_api_status_of(err);
    set_retry(ex, retry_after_s ? retry_after_s : (unsigned)row->retry_after_s);
    if (status == 401)
        kr_http_set_header(ex, "WWW-Authenticate", "Bearer");
    if (voice == KR_API_DOCUMENT && field && err->kind == KR_ERR_INVALID) {
        status = 422;
        write_flaw(field, text, kr_http_request_id(ex), &out);
    } else {
        kr_api_error_body(voice, status, row->name, text, field, kr_http_request_id(ex), &out);
    }
    kr_http_reply_json(ex, status, &out);
}

void kr_api_fail(struct kr_http_ex *ex, const struct kr_err *err)
{
    write_failure(ex, NULL, err, (unsigned)kr_err_row((enum kr_err_kind)err->kind)->retry_after_s);
}

void kr_api_fail_later(struct kr_http_ex *ex, const struct kr_err *err, unsigned retry_after_s)
{
    write_failure(ex, NULL, err, retry_after_s);
}

void kr_api_fail_field(struct kr_http_ex *ex, const char *field, const struct kr_err *err)
{
    write_failure(ex, field, err, (unsigned)kr_err_row((enum kr_err_kind)err->kind)->retry_after_s);
}

void kr_api_fail_named(struct kr_http_ex *ex, const struct kr_err *err)
{
    size_t len = strcspn(err->msg, ":");
    char field[KR_API_NAME_MAX] = "";

    if ((err->kind == KR_ERR_INVALID || err->kind == KR_ERR_CONFLICT) && len < sizeof field && err->msg[len] == ':' &&
        !memchr(err->msg, ' ', len))
        memcpy(field, err->msg, len);
    kr_api_fail_field(ex, field[0] ? field : NULL, err);
}

void kr_api_fail_input(struct kr_http_ex *ex, const struct kr_api_input *in, const struct kr_err *err)
{
    cleanup_buf struct kr_buf out;
    char *list = in->voice == KR_API_DOCUMENT && in->flaws ? kr_json_dump(in->flaws, 0) : NULL;
    char room[sizeof err->msg];
    struct kr_json j;

    kr_buf_init(&out, KR_API_REPLY_MAX);
    if (!list || err->kind != KR_ERR_INVALID) {
        free(list);
        write_failure(ex, in->field[0] ? in->field : NULL, err, 0);
        return;
    }
    kr_json_init(&j, &out);
    kr_json_object(&j);
    write_error(&j, kr_err_row(KR_ERR_INVALID)->name, kr_api_public_text(err, room), in->field, kr_http_request_id(ex));
    kr_json_key(&j, "detail");
    kr_json_raw(&j, list, strlen(list));
    kr_json_object_end(&j);
    free(list);
    kr_http_reply_json(ex, 422, &out);
}

void kr_api_fail_with(struct kr_http_ex *ex, enum kr_err_kind kind, const char *fmt, ...)
{
    struct kr_err err = {.kind = (uint16_t)kind};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(err.msg, sizeof err.msg, fmt, ap);
    va_end(ap);
    kr_api_fail(ex, &err);
}

void kr_api_fail_status(struct kr_http_ex *ex, int status, const char *fmt, ...)
{
    char text[sizeof((struct kr_err *)0)->msg];
    cleanup_buf struct kr_buf out;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    kr_buf_init(&out, ERROR_MAX);
    if (status == 401)
        kr_http_set_header(ex, "WWW-Authenticate", "Bearer");
    kr_api_error_body(kr_api_voice_of(ex), status, NULL, text, NULL, kr_http_request_id(ex), &out);
    kr_http_reply_json(ex, status, &out);
}

/* Answers: JSON, and errors by the one table of kinds (src/base/err.c) in the voice of the route.
 *
 * Every error:            {"error":{"kind":"not_found","message":"…","field":null,"request_id":"…"}}
 * in the documents' voice: "detail":"…" beside it, and for a body or query that does not parse 422 with
 *                         "detail":[{type,loc,msg,input}]
 *
 * Every call here answers: the exchange is over when it returns. A text that the table does not call public goes to the
 * log with the request's id, and the client reads "internal error". */
#pragma once
#include "err.h"
#include "field.h"
#include "reply_schema.h"

struct kr_buf;
struct kr_json;
struct kr_http_ex;
struct kr_http_route;

#define KR_API_REPLY_MAX (16u << 20) /* bytes of one JSON answer; give it to kr_buf_init() */

/* What the writer of JSON left in `json`; a buffer that failed becomes a 500. The buffer stays the caller's. */
void kr_api_reply(struct kr_http_ex *ex, int status, const struct kr_buf *json);
/* A page of a list, {"ROWS":[…],"next":…}: begins it in `out`; what follows are the rows; ends it. `next` "" is the
 * end. */
void kr_api_page_begin(struct kr_json *j, struct kr_buf *out, const char *rows);
void kr_api_page_end(struct kr_json *j, const char *next);
/* 204. */
void kr_api_reply_nothing(struct kr_http_ex *ex);
/* {"message":"…"} */
void kr_api_reply_message(struct kr_http_ex *ex, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The error: status, text and headers (Retry-After, WWW-Authenticate) by its kind. */
void kr_api_fail(struct kr_http_ex *ex, const struct kr_err *err);
/* The same with another Retry-After than the kind's; 0: none. */
void kr_api_fail_later(struct kr_http_ex *ex, const struct kr_err *err, unsigned retry_after_s);
/* The same for one field of the request, which only a handler could judge; field NULL: as kr_api_fail(). */
void kr_api_fail_field(struct kr_http_ex *ex, const char *field, const struct kr_err *err);
/* The same where the store and the domain name what they refuse ("limits.memory: …"): that is the field. */
void kr_api_fail_named(struct kr_http_ex *ex, const struct kr_err *err);
/* A parse that failed (field.h), or a kr_api_refuse(): 400 or 422. Other kinds (no memory) as kr_api_fail(). */
void kr_api_fail_input(struct kr_http_ex *ex, const struct kr_api_input *in, const struct kr_err *err);
/* Made and answered in one: kr_api_fail_with(ex, KR_ERR_NOT_FOUND, "no sandbox has the id %s", id). For a document's
 * own words: kr_api_fail_with(ex, KR_ERR_NOT_FOUND, "Session not found"). */
void kr_api_fail_with(struct kr_http_ex *ex, enum kr_err_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* An error with a status of its own, where a document fixes one. */
void kr_api_fail_status(struct kr_http_ex *ex, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The status of an error, and the text a client may see (never longer than msg; `room` has sizeof err->msg bytes). */
int kr_api_status_of(const struct kr_err *err);
const char *kr_api_public_text(const struct kr_err *err, char *room);

/* The body of an error into `out`, for errors that are not an answer (a line of a stream) and for the engine's own.
 * `kind` NULL: by the status. `field` and `request_id` may be NULL. */
void kr_api_error_body(enum kr_api_voice voice, int status, const char *kind, const char *text, const char *field,
                       const char *request_id, struct kr_buf *out);
/* For kr_http_config.error_body, which the application forwards with its routes: the documents' voice says the phrase
 * of the status ("Not Found") where FastAPI does. */
void kr_api_engine_error(const struct kr_http_route *routes, size_t count, const char *path, int status,
                         const char *text, const char *request_id, struct kr_buf *out);

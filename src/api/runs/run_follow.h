/* A run's log on its way into an answer: as a stream, or collected into one object. */
#pragma once
#include "api.h"
#include "buf.h"
#include "run_outcome.h"

/* How a stream's lines look. */
enum kr_api_form {
    KR_FORM_LINES,    /* NDJSON: {"seq":1,"type":"stdout","text":"…"} */
    KR_FORM_EVENTS,   /* the same objects as server-sent events; id is the number, event the type */
    KR_FORM_DOCUMENT, /* NDJSON of document 000 (sandbox-mcp): {"text"}, {"image","format"}, {"error","traceback"} */
    KR_FORM_DOCUMENT_EVENTS,
};

/* The form that a request asks for by Accept: text/event-stream gives events. */
enum kr_api_form kr_api_form_of(const struct kr_http_ex *ex, bool document);
/* Streams the log from that number until its end; watches the run meanwhile (run_id NULL: it is a job's log). Takes the
 * exchange, which has not answered yet; takes a reference of the log of its own. */
void kr_api_follow(struct kr_api *api, struct kr_http_ex *ex, struct kr_runlog *log, const char *run_id, uint64_t from,
                   enum kr_api_form form);

#define KR_API_COLLECT_MAX (48u << 20) /* bytes of each text of an outcome, and of its displays */
/* Bytes of one answer: what is past a connection's queue would be cut off in its midst. An outcome that is larger,
 * as a text of control characters is when they are written as JSON, is answered without its output, and says so. */
#define KR_API_ANSWER_MAX (KR_HTTP_QUEUE_MAX - (1u << 20))

/* Reads the log to its end and answers with the JSON object that `write` makes of it; a large one is made on the thread
 * pool: `write` is pure. It leaves texts out that do not fit (buf->failed), or the answer is an error. */
typedef void kr_api_write_fn(struct kr_buf *buf, const struct kr_outcome *o, bool with_output);
void kr_api_collect(struct kr_api *api, struct kr_http_ex *ex, struct kr_runlog *log, const char *run_id, bool both,
                    kr_api_write_fn *write);

/* What went wrong in the words of document 000 (sandbox-mcp), members of an open object: the exception ("NameError:
 * name 'x' is not defined") and the lines of its traceback, or why krait ended the run. `error` is the exception's
 * object, or empty; `end` that of the end. False: nothing went wrong. */
struct kr_json;
bool kr_api_document_failure(struct kr_json *j, enum kr_cause cause, const struct kr_buf *error, const char *end,
                             size_t end_len);

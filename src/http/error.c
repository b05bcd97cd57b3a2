/* The engine's own answers. Called by input.c and conn.c for requests that are refused, and by handlers that want the
 * same shape.
 *
 * One table has the words of every status. Invariant: a refused request gets one answer and its connection is closed
 * lingering, whatever the peer still sends. */
#include "http_internal.h"
#include "buf.h"
#include "json.h"
#include <string.h>

#define BODY_MAX 65536u
#define REFUSED_MAX 256u /* bytes of a refused head in which its path is looked for */

/* clang-format off */
static const struct {
    int status;
    const char *reason, *text;
} statuses[] = {
    {101, "Switching Protocols", "switching protocols"},
    {200, "OK", "ok"},
    {201, "Created", "created"},
    {202, "Accepted", "accepted"},
    {204, "No Content", "no content"},
    {206, "Partial Content", "partial content"},
    {301, "Moved Permanently", "moved permanently"},
    {302, "Found", "found"},
    {303, "See Other", "see other"},
    {304, "Not Modified", "not modified"},
    {307, "Temporary Redirect", "temporary redirect"},
    {308, "Permanent Redirect", "permanent redirect"},
    {400, "Bad Request", "the request is malformed"},
    {401, "Unauthorized", "a key is needed"},
    {403, "Forbidden", "not allowed"},
    {404, "Not Found", "not found"},
    {405, "Method Not Allowed", "this path does not have that method"},
    {406, "Not Acceptable", "none of the accepted types can be served"},
    {408, "Request Timeout", "the request was not whole in time"},
    {409, "Conflict", "conflict"},
    {410, "Gone", "gone"},
    {411, "Length Required", "a Content-Length is needed"},
    {412, "Precondition Failed", "precondition failed"},
    {413, "Content Too Large", "the body is larger than this path takes"},
    {414, "URI Too Long", "the request line is longer than 8192 bytes"},
    {415, "Unsupported Media Type", "this path does not take that type"},
    {416, "Range Not Satisfiable", "range not satisfiable"},
    {417, "Expectation Failed", "the only expectation known is 100-continue"},
    {421, "Misdirected Request", "this host is not served here"},
    {422, "Unprocessable Content", "the request does not make sense"},
    {423, "Locked", "locked"},
    {425, "Too Early", "too early"},
    {426, "Upgrade Required", "this path speaks another protocol"},
    {428, "Precondition Required", "precondition required"},
    {429, "Too Many Requests", "too many requests"},
    {431, "Request Header Fields Too Large", "the head is larger than 16384 bytes or has more than 64 fields"},
    {500, "Internal Server Error", "internal error"},
    {501, "Not Implemented", "not implemented"},
    {502, "Bad Gateway", "bad gateway"},
    {503, "Service Unavailable", "no room for this request now"},
    {504, "Gateway Timeout", "gateway timeout"},
    {505, "HTTP Version Not Supported", "HTTP/1.1 and HTTP/1.0 are spoken here"},
    {507, "Insufficient Storage", "insufficient storage"},
};
/* clang-format on */

static size_t error_row_of(int status)
{
    size_t i = 0, count = sizeof statuses / sizeof statuses[0];

    while (i < count && statuses[i].status != status)
        i++;
    return i;
}

const char *kr_http_status_reason(int status)
{
    size_t i = error_row_of(status);

    return i < sizeof statuses / sizeof statuses[0] ? statuses[i].reason : "Status";
}

static void default_body(int status, const char *text, struct kr_buf *out)
{
    struct kr_json j;

    kr_buf_reset(out);
    kr_json_init(&j, out);
    kr_json_object(&j);
    kr_json_key(&j, "error");
    kr_json_object(&j);
    kr_json_key_int(&j, "status", status);
    kr_json_key_str(&j, "message", text);
    kr_json_object_end(&j);
    kr_json_object_end(&j);
}

/* The body of an error, by the application's shape if it has one. */
static void make_body(struct kr_http_conn *c, const char *path, const char *id, int status, const char *text,
                      struct kr_buf *out)
{
    const struct kr_http_config *config = &c->server->config;
    size_t i = error_row_of(status);

    if (!text)
        text = i < sizeof statuses / sizeof statuses[0] ? statuses[i].text : "refused";
    if (config->error_body)
        config->error_body(config->app, c->tag, path, status, text, id, out);
    if (out->len == 0 || out->failed)
        default_body(status, text, out);
}

void kr_http_reply_error(struct kr_http_ex *ex, int status, const char *text)
{
    cleanup_buf struct kr_buf body;

    kr_buf_init(&body, BODY_MAX);
    make_body(ex->conn, kr_http_path(ex), kr_http_request_id(ex), status, text, &body);
    kr_http_reply(ex, status, "application/json", kr_buf_str(&body), body.len);
}

static void report_refused(struct kr_http_conn *c, const char *id, int status)
{
    const struct kr_http_config *config = &c->server->config;
    struct kr_http_report report = {.method = "", .path = "", .request_id = id, .tag = c->tag, .status = status};

    report.complete = true;
    if (config->on_report)
        config->on_report(config->app, &report);
}

static void fail_at(struct kr_http_conn *c, const char *path, int status, const char *text)
{
    cleanup_buf struct kr_buf body;
    struct kr_http_ex *ex = c->ex;
    char made[20];
    const char *id = ex ? kr_http_request_id(ex) : made;

    kr_buf_init(&body, BODY_MAX);
    if (!ex) {
        kr_http_make_id(c->server, made);
    } else {
        bool begun = ex->begun;

        kr_http_ex_tell_gone(ex);
        if (begun) { /* there is no taking back: cut it short */
            kr_http_ex_done(ex, false);
            kr_http_conn_close(c);
            return;
        }
        ex->status = status;
    }
    make_body(c, path, id, status, text, &body);
    kr_http_refuse(c, ex, id, status, kr_buf_str(&body), body.len);
    if (ex)
        kr_http_ex_done(ex, true);
    else
        report_refused(c, made, status);
    kr_http_conn_move(c, C_FLUSH);
}

void kr_http_fail(struct kr_http_conn *c, int status, const char *text)
{
    fail_at(c, c->ex ? kr_http_path(c->ex) : "", status, text);
}

void kr_http_fail_head(struct kr_http_conn *c, int status, const char *bytes, size_t len)
{
    const char *end = bytes + (len < REFUSED_MAX ? len : REFUSED_MAX),
               *from = memchr(bytes, ' ', (size_t)(end - bytes));
    char path[REFUSED_MAX] = "";
    size_t n = 0;

    for (const char *p = from ? from + 1 : end; p<end && * p> ' ' && *p < 0x7f && *p != '?'; p++)
        path[n++] = *p;
    path[n] = '\0';
    fail_at(c, path[0] == '/' ? path : "", status, NULL);
}

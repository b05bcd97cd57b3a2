/* NDJSON lines and server-sent events. Called by handlers between begin and end.
 *
 * Invariant: a line or an event is queued whole, as one chunk, so that a reader that takes chunk by chunk sees whole
 * ones; nothing the application passes can break out of its line. */
#include "http_internal.h"
#include "buf.h"
#include <string.h>

#define EVENT_MAX (KR_HTTP_QUEUE_MAX / 2)

/* Proxies that gather answers (nginx) would hold a stream back. */
static void begin_stream(struct kr_http_ex *ex, const char *type)
{
    kr_http_set_header(ex, "X-Accel-Buffering", "no"); /* fails only when there is no memory: then without */
    kr_http_begin(ex, 200, type, -1);
}

void kr_http_ndjson_begin(struct kr_http_ex *ex)
{
    begin_stream(ex, "application/x-ndjson; charset=utf-8");
}

size_t kr_http_ndjson_line(struct kr_http_ex *ex, const char *json, size_t len)
{
    struct iovec parts[2] = {{(void *)json, len}, {(void *)"\n", 1}};

    return kr_http_piece_write(ex, parts, 2);
}

void kr_http_sse_begin(struct kr_http_ex *ex)
{
    begin_stream(ex, "text/event-stream");
    ex->sse = !ex->over && !ex->no_body;
}

static void add_field(struct kr_buf *b, const char *name, const char *value)
{
    if (value && !strpbrk(value, "\r\n"))
        kr_buf_printf(b, "%s: %s\n", name, value);
}

/* Each line of the data as a field; no data is one empty line. */
static void add_data(struct kr_buf *b, const char *data, size_t len)
{
    const char *end = data + len;

    for (;;) {
        const char *p = data;

        while (p < end && *p != '\n' && *p != '\r')
            p++;
        kr_buf_add(b, "data: ", 6);
        kr_buf_add(b, data, (size_t)(p - data));
        kr_buf_add(b, "\n", 1);
        if (p == end)
            return;
        data = p + (p[0] == '\r' && p + 1 < end && p[1] == '\n' ? 2 : 1);
    }
}

size_t kr_http_sse_event(struct kr_http_ex *ex, const char *event, const char *id, const char *data, size_t len)
{
    cleanup_buf struct kr_buf b;

    kr_buf_init(&b, EVENT_MAX);
    add_field(&b, "event", event);
    add_field(&b, "id", id);
    add_data(&b, data, len);
    kr_buf_add(&b, "\n", 1);
    if (b.failed) { /* no half events: the stream ends here */
        ex->conn->broken = true;
        kr_http_conn_soon(ex->conn);
        return 0;
    }
    return kr_http_write(ex, b.data, b.len);
}

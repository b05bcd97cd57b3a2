/* The output of a terminal as lines of JSON or server-sent events.
 *
 * Called by terminal_routes.c. Invariants: a slow client holds back itself, and the program only if none is quicker; a
 * client that leaves closes its reader at once. */
#include "base64.h"
#include "buf.h"
#include "json.h"
#include "loop.h"
#include "reply.h"
#include "terminal_routes.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct terminal_follower {
    struct kr_terminal_reader reader;
    struct kr_api *api;
    struct kr_http_ex *ex;
    struct kr_timer *timer; /* until its key is looked at again */
    bool events;
    struct kr_buf buf;
};

static void close_terminal_follower(struct terminal_follower *f)
{
    kr_terminal_leave(&f->reader);
    kr_timer_close(f->timer);
    kr_buf_done(&f->buf);
    free(f);
}

/* What is in the buffer, with the number of the byte after it. */
static void send_line(struct terminal_follower *f, const char *type, uint64_t next)
{
    char id[24];

    snprintf(id, sizeof id, "%" PRIu64, next);
    if (f->events)
        (void)kr_http_sse_event(f->ex, type, id, kr_buf_str(&f->buf), f->buf.len);
    else
        (void)kr_http_ndjson_line(f->ex, kr_buf_str(&f->buf), f->buf.len);
    kr_buf_reset(&f->buf);
}

static void send_terminal_output(struct terminal_follower *f, const char *data, size_t len, uint64_t lost)
{
    char text[KR_BASE64_ROOM(KR_API_TERMINAL_PIECE)];
    uint64_t at = f->reader.at;

    if (lost > 0) {
        kr_buf_printf(&f->buf, "{\"type\":\"lost\",\"at\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", at, lost);
        send_line(f, "lost", at + lost);
    }
    kr_base64_encode(data, len, text);
    kr_buf_printf(&f->buf, "{\"type\":\"output\",\"at\":%" PRIu64 ",\"data\":\"%s\"}", at + lost, text);
    send_line(f, "output", at + lost + len);
}

/* Frees it at the end. */
static void send_terminal_more(struct terminal_follower *f)
{
    struct kr_http_ex *ex = f->ex;
    const char *data;
    uint64_t lost;
    size_t len;

    while (kr_http_queued(ex) <= KR_HTTP_QUEUE_HIGH && kr_terminal_peek(&f->reader, &data, &len, &lost)) {
        if (len > KR_API_TERMINAL_PIECE)
            len = KR_API_TERMINAL_PIECE;
        send_terminal_output(f, data, len, lost);
        kr_terminal_take(&f->reader, len);
    }
    if (!kr_terminal_done(&f->reader))
        return;
    kr_api_terminal_end_json(&f->buf, f->reader.terminal);
    send_line(f, "end", f->reader.at);
    close_terminal_follower(f);
    kr_http_end(ex);
}

static void on_follower_more(struct kr_terminal_reader *r)
{
    send_terminal_more((struct terminal_follower *)r); /* its first member */
}

static void on_follower_drain(void *data, struct kr_http_ex *ex)
{
    (void)ex;
    send_terminal_more(data);
}

static void on_follower_gone(void *data, struct kr_http_ex *ex)
{
    (void)ex;
    close_terminal_follower(data);
}

static void on_follower_time(void *data)
{
    struct terminal_follower *f = data;
    struct kr_http_ex *ex = f->ex;

    if (kr_auth_still(f->api->auth, ex, NULL)) {
        kr_timer_arm(f->timer, KR_AUTH_LOOK_MS);
        return;
    }
    close_terminal_follower(f);
    kr_http_abort(ex);
}

void kr_api_terminal_follow(struct kr_api *api, struct kr_http_ex *ex, struct kr_box_terminal *t, uint64_t from)
{
    static const struct kr_http_calls calls = {.on_drain = on_follower_drain, .on_gone = on_follower_gone};
    const char *accept = kr_http_header(ex, "Accept");
    struct terminal_follower *f = calloc(1, sizeof *f);

    if (!f || kr_timer_new(api->loop, on_follower_time, f, &f->timer) < 0) {
        free(f);
        kr_http_reply_error(ex, 503, "out of memory");
        return;
    }
    f->api = api;
    f->ex = ex;
    f->events = accept && strstr(accept, "text/event-stream");
    f->reader.on_more = on_follower_more;
    kr_buf_init(&f->buf, 4 * KR_API_TERMINAL_PIECE);
    kr_http_defer(ex, &calls, f);
    if (f->events)
        kr_http_sse_begin(ex);
    else
        kr_http_ndjson_begin(ex);
    kr_timer_arm(f->timer, KR_AUTH_LOOK_MS);
    kr_terminal_read(t, &f->reader, from);
    send_terminal_more(f);
}

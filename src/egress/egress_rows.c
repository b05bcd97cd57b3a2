/* Rows of connections, and every other frame to the engine: sent at once, or kept until the socket takes them.
 *
 * Called by whatever ends a connection or a fetch. Invariant: frames go out in the order in which they were sent, and a
 * row that finds no room is counted, and logged when there is room again. */
#include "egress_parts.h"
#include "frame.h"
#include "log.h"
#include "loop.h"
#include "proto.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OPEN_MS 100u     /* between two reports of how many connections are open */
#define OTHERS_MAX 1024u /* frames that wait besides rows: ends of fetches, whose number is bounded */

struct waiting {
    TAILQ_ENTRY(waiting) link;
    uint16_t type;
    uint32_t id;
    size_t len;
    char payload[];
};

struct kr_eg_rows {
    TAILQ_HEAD(, waiting) queue;
    unsigned count;
    uint64_t dropped; /* rows, since the last one that went out */
};

uint64_t kr_eg_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

int kr_eg_rows_new(struct kr_eg_rows **ret_rows)
{
    struct kr_eg_rows *rows = calloc(1, sizeof *rows);

    if (!rows)
        return -ENOMEM;
    TAILQ_INIT(&rows->queue);
    *ret_rows = rows;
    return 0;
}

static void free_first(struct kr_eg_rows *rows)
{
    struct waiting *w = TAILQ_FIRST(&rows->queue);

    TAILQ_REMOVE(&rows->queue, w, link);
    rows->count--;
    free(w);
}

void kr_eg_rows_free(struct kr_eg_rows *rows)
{
    if (!rows)
        return;
    while (!TAILQ_EMPTY(&rows->queue))
        free_first(rows);
    free(rows);
}

static int send_now(struct kr_eg *eg, uint16_t type, uint32_t id, const void *payload, size_t len)
{
    int r;

    if (!eg->control)
        return -EPIPE;
    r = kr_frame_send(kr_watch_fd(eg->control), type, id, payload, len, NULL, 0);
    if (r < 0 && r != -EAGAIN)
        kr_eg_end(eg, 0); /* the engine has ended */
    return r;
}

void kr_eg_rows_flush(struct kr_eg *eg)
{
    struct waiting *w;

    while ((w = TAILQ_FIRST(&eg->rows->queue))) {
        int r = send_now(eg, w->type, w->id, w->payload, w->len);

        if (r == -EAGAIN)
            return;
        free_first(eg->rows);
        if (r < 0)
            return;
    }
    if (eg->control)
        kr_watch_want_write(eg->control, false);
}

static int keep_frame(struct kr_eg *eg, uint16_t type, uint32_t id, const void *payload, size_t len)
{
    struct waiting *w;

    if (eg->rows->count >= KR_EG_ROWS_MAX + (type == KR_E_CONNECTION ? 0 : OTHERS_MAX))
        return -ENOBUFS;
    w = malloc(sizeof *w + len);
    if (!w)
        return -ENOMEM;
    *w = (struct waiting){.type = type, .id = id, .len = len};
    if (len > 0)
        memcpy(w->payload, payload, len);
    TAILQ_INSERT_TAIL(&eg->rows->queue, w, link);
    eg->rows->count++;
    kr_watch_want_write(eg->control, true);
    return 0;
}

int kr_eg_send(struct kr_eg *eg, uint16_t type, uint32_t id, const void *payload, size_t len)
{
    int r = TAILQ_EMPTY(&eg->rows->queue) ? send_now(eg, type, id, payload, len) : -EAGAIN;

    return r == -EAGAIN && eg->control ? keep_frame(eg, type, id, payload, len) : r;
}

void kr_eg_open_changed(struct kr_eg *eg)
{
    if (eg->open_due)
        return;
    eg->open_due = true;
    kr_timer_arm(eg->open_timer, OPEN_MS);
}

void kr_eg_on_open_due(void *data)
{
    struct kr_eg *eg = data;
    const struct kr_e_open open = {.connections = eg->connections};

    eg->open_due = false;
    if (eg->connections == eg->told_connections)
        return;
    if (kr_eg_send(eg, KR_E_OPEN, 0, &open, sizeof open) >= 0)
        eg->told_connections = eg->connections;
    else if (!eg->ending)
        kr_eg_open_changed(eg); /* no room now */
}

/* "timeout" is a word of fetches. */
static const char *verdict_word(enum kr_eg_verdict verdict)
{
    return kr_eg_verdict_names[verdict == KR_EG_TIMEOUT ? KR_EG_FAILED : verdict];
}

static json_t *row_as_json(const struct kr_eg_row *row)
{
    return json_pack("{sI ss ss ss? sI sI ss ss ss si ss sI sI si ss ss ss}", "cell", (json_int_t)row->cell, "sandbox",
                     row->sandbox, "user", row->user, "run", row->run && *row->run ? row->run : NULL, "at_us",
                     (json_int_t)row->at_us, "ms", (json_int_t)row->ms, "how", row->how, "method", row->method, "host",
                     row->host, "port", (int)row->port, "address", row->address, "sent", (json_int_t)row->sent,
                     "received", (json_int_t)row->received, "status", (int)row->status, "verdict",
                     verdict_word(row->verdict), "why", row->why ? row->why : "", "secrets",
                     row->secrets ? row->secrets : "");
}

void kr_eg_row_send(struct kr_eg *eg, const struct kr_eg_row *row)
{
    json_t *json = row_as_json(row);
    char *text;
    int r;

    text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    r = text ? kr_eg_send(eg, KR_E_CONNECTION, 0, text, strlen(text)) : -ENOMEM;
    free(text);
    if (r < 0) {
        eg->rows->dropped++;
    } else if (eg->rows->dropped > 0) {
        kr_log_with(KR_LOG_WARN, "connections not told of", KR_F_UINT("rows", eg->rows->dropped));
        eg->rows->dropped = 0;
    }
}

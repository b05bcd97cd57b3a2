/* Connections to the outside on their way into the store, and what the audit log has of those that were refused.
 *
 * Called by box_egress.c for each row that the egress process sends. Rows are collected and written together: at once
 * when there are many, else a moment later, or when a list is asked for. Invariants: what waits is bounded, and a row
 * that found no room is counted; code that is refused ten thousand times a second makes a dozen rows of the audit log a
 * minute, and the last says how many there were. */
#include "box_internal.h"
#include "clock.h"
#include "egress_client.h"
#include "log.h"
#include "store_connection.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAITING_MAX 1024u /* rows */
#define WRITE_AT 64u      /* rows that are written together: some 3 ms */
#define WRITE_MS 200u
#define CATCH_UPS 8u         /* of 64 rows each: what a list takes before it is read */
#define WRITE_AGAIN_MS 1000u /* after the store did not take them */

#define REFUSALS_TOLD 10u /* of a user in a window */
#define WINDOW_MS 60000u
#define WINDOWS_MAX 256u

/* A minute of a user's that began with a refused connection. */
struct window {
    TAILQ_ENTRY(window) link; /* by their ends */
    char user[KR_STORE_ID_ROOM];
    uint64_t end_ns;
    uint64_t refused;
};
TAILQ_HEAD(windows, window);

struct kr_connections {
    struct kr_box *box;
    struct kr_timer *writer, *windower;
    json_t *rows[WAITING_MAX];
    size_t count;
    bool failing; /* the store did not take them at the last try; it has been said */
    struct windows windows;
    unsigned window_count;
    struct kr_box_connection_figures figures;
};

static const char *text_in(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));

    return text ? text : "";
}

static int64_t number_in(const json_t *row, const char *name)
{
    return json_integer_value(json_object_get(row, name));
}

/* ---- into the store ---- */

/* A time of the future would keep a row for ever. */
static int64_t begin_of(const json_t *row, int64_t now)
{
    int64_t at = number_in(row, "at_us");

    return at > now ? now : at;
}

static struct kr_store_connection stored_row(const json_t *row, int64_t now)
{
    return (struct kr_store_connection){.owner = text_in(row, "user"),
                                        .sandbox = text_in(row, "sandbox"),
                                        .run = text_in(row, "run"),
                                        .at = begin_of(row, now),
                                        .ms = (uint64_t)number_in(row, "ms"),
                                        .how = text_in(row, "how"),
                                        .method = text_in(row, "method"),
                                        .host = text_in(row, "host"),
                                        .port = (uint16_t)number_in(row, "port"),
                                        .address = text_in(row, "address"),
                                        .sent = (uint64_t)number_in(row, "sent"),
                                        .received = (uint64_t)number_in(row, "received"),
                                        .status = (unsigned)number_in(row, "status"),
                                        .verdict = text_in(row, "verdict"),
                                        .why = text_in(row, "why"),
                                        .secrets = text_in(row, "secrets")};
}

static void forget_written(struct kr_connections *c, size_t count)
{
    for (size_t i = 0; i < count; i++)
        json_decref(c->rows[i]);
    c->count -= count;
    for (size_t i = 0; i < c->count; i++)
        c->rows[i] = c->rows[count + i];
}

/* 0 or -errno, and they wait. */
static int write_some(struct kr_connections *c)
{
    struct kr_store_connection rows[WRITE_AT];
    size_t count = c->count < WRITE_AT ? c->count : WRITE_AT;
    int64_t now = kr_store_now();
    struct kr_err err;
    int r;

    for (size_t i = 0; i < count; i++)
        rows[i] = stored_row(c->rows[i], now);
    r = kr_store_connections_add(c->box->config.store, rows, count, c->box->config.connection_rows, &err);
    if (r < 0 && !c->failing)
        kr_log_with(KR_LOG_WARN, "connections not stored, trying again", KR_F_STR("error", err.msg));
    c->failing = r < 0;
    if (r >= 0)
        forget_written(c, count);
    return r;
}

static void write_rows(struct kr_connections *c)
{
    while (c->count > 0)
        if (write_some(c) < 0) {
            kr_timer_arm(c->writer, WRITE_AGAIN_MS);
            return;
        }
    kr_timer_disarm(c->writer);
}

static void on_write(void *data)
{
    write_rows(data);
}

static void keep_row(struct kr_connections *c, const json_t *row)
{
    if (c->count == WAITING_MAX) {
        c->figures.dropped++;
        return;
    }
    c->rows[c->count++] = json_incref((json_t *)(uintptr_t)row);
    if (c->failing)
        return; /* the timer tries again */
    if (c->count >= WRITE_AT)
        write_rows(c);
    else if (!kr_timer_armed(c->writer))
        kr_timer_arm(c->writer, WRITE_MS);
}

/* ---- refusals in the audit log ---- */

static void audit_refusal(struct kr_box *b, const char *user, const char *object, json_t *detail)
{
    const struct kr_caller who = {.user = user, .address = "", .request = ""};
    char *text = detail ? json_dumps(detail, JSON_COMPACT) : NULL;

    kr_box_audit_soon(b, &who, "connection.refused", object, "denied", text);
    free(text);
    json_decref(detail);
}

static void tell_refusal(struct kr_box *b, const json_t *row)
{
    char object[300];

    snprintf(object, sizeof object, "%s:%lld", text_in(row, "host"), (long long)number_in(row, "port"));
    audit_refusal(b, text_in(row, "user"), object,
                  json_pack("{ss ss ss ss ss}", "sandbox", text_in(row, "sandbox"), "run", text_in(row, "run"), "how",
                            text_in(row, "how"), "method", text_in(row, "method"), "why", text_in(row, "why")));
    kr_log_with(KR_LOG_INFO, "connection refused", KR_F_STR("sandbox", text_in(row, "sandbox")),
                KR_F_STR("run", text_in(row, "run")), KR_F_STR("user", text_in(row, "user")),
                KR_F_STR("object", object), KR_F_STR("why", text_in(row, "why")));
}

static void end_window(struct kr_connections *c, struct window *w)
{
    if (w->refused > REFUSALS_TOLD)
        audit_refusal(c->box, w->user, "",
                      json_pack("{sI sI}", "refused", (json_int_t)w->refused, "left_out",
                                (json_int_t)(w->refused - REFUSALS_TOLD)));
    TAILQ_REMOVE(&c->windows, w, link);
    c->window_count--;
    free(w);
}

static void on_windows(void *data)
{
    struct kr_connections *c = data;
    uint64_t now = kr_clock_ns();
    struct window *w;

    while ((w = TAILQ_FIRST(&c->windows)) && w->end_ns <= now)
        end_window(c, w);
    if (w)
        kr_timer_arm(c->windower, (w->end_ns - now) / 1000000u + 1);
}

static struct window *window_of(struct kr_connections *c, const char *user)
{
    struct window *w;

    TAILQ_FOREACH(w, &c->windows, link)
    if (strcmp(w->user, user) == 0)
        return w;
    w = c->window_count < WINDOWS_MAX ? calloc(1, sizeof *w) : NULL;
    if (!w)
        return NULL;
    snprintf(w->user, sizeof w->user, "%s", user);
    w->end_ns = kr_clock_after_ms(WINDOW_MS);
    TAILQ_INSERT_TAIL(&c->windows, w, link);
    if (c->window_count++ == 0)
        kr_timer_arm(c->windower, WINDOW_MS);
    return w;
}

static void note_denied(struct kr_connections *c, const json_t *row)
{
    struct window *w = window_of(c, text_in(row, "user"));

    if (w && ++w->refused <= REFUSALS_TOLD)
        tell_refusal(c->box, row);
    else
        c->figures.unaudited++;
}

/* ---- life ---- */

void kr_connections_take(struct kr_box *b, const json_t *row)
{
    if (!b->connections)
        return;
    keep_row(b->connections, row);
    if (strcmp(text_in(row, "verdict"), "denied") == 0)
        note_denied(b->connections, row);
}

int kr_connections_open(struct kr_box *b)
{
    struct kr_connections *c = calloc(1, sizeof *c);

    if (!c || kr_timer_new(b->loop, on_write, c, &c->writer) < 0 ||
        kr_timer_new(b->loop, on_windows, c, &c->windower) < 0) {
        if (c)
            kr_timer_close(c->writer);
        free(c);
        return -1;
    }
    c->box = b;
    TAILQ_INIT(&c->windows);
    b->connections = c;
    return 0;
}

void kr_connections_flush(struct kr_box *b)
{
    struct window *w;

    if (!b->connections)
        return;
    while ((w = TAILQ_FIRST(&b->connections->windows)))
        end_window(b->connections, w);
    write_rows(b->connections);
}

void kr_connections_close(struct kr_box *b)
{
    struct kr_connections *c = b->connections;

    if (!c)
        return;
    kr_connections_flush(b);
    if (c->count > 0)
        kr_log(KR_LOG_ERROR, "connections lost", "rows=%zu", c->count);
    forget_written(c, c->count);
    kr_timer_close(c->writer);
    kr_timer_close(c->windower);
    b->connections = NULL;
    free(c);
}

int kr_connections_prune(struct kr_box *b, int64_t since)
{
    const struct kr_store_keep keep = {.since = since, .count = b->config.connection_rows};
    struct kr_err err;
    int r = kr_store_connections_prune(b->config.store, &keep, &err);

    if (r < 0)
        kr_log_with(KR_LOG_WARN, "connections not removed, trying again", KR_F_STR("error", err.msg));
    return r;
}

void kr_box_connections_settle(struct kr_box *b)
{
    for (unsigned i = 0; b->config.egress && i < CATCH_UPS; i++)
        kr_egress_catch_up(b->config.egress);
    if (b->connections && !b->connections->failing)
        write_rows(b->connections);
}

void kr_box_connection_figures(const struct kr_box *b, struct kr_box_connection_figures *ret)
{
    *ret = b->connections ? b->connections->figures : (struct kr_box_connection_figures){0};
}

/* ---- what was refused, these among it ---- */

int kr_box_security_open(struct kr_box *b)
{
    const struct kr_security_calls calls = {.on_event = b->calls.on_security};

    return kr_security_new(b->loop, b->config.store, b->config.security_rows, &calls, b->data, &b->security);
}

void kr_box_security_settle(struct kr_box *b)
{
    kr_box_connections_settle(b);
    kr_security_settle(b->security);
}

struct kr_security_figures kr_box_security_figures(const struct kr_box *b)
{
    return kr_security_figures(b->security);
}

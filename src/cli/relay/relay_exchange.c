/* The relay's exchanges: which headers a message needs, and which lines its answer becomes.
 *
 * Called by relay.c for each message of stdin. What a revision wants of HTTP is added here and nowhere else: until
 * 2025-11-25 the session's id, the agreed version, a GET for messages of the server's own accord, another with
 * Last-Event-ID for a stream that broke; in 2026-07-28 the envelope's version, method and name as headers, and
 * cancelling by leaving. */
#include "base64.h"
#include "clock.h"
#include "err.h"
#include "json_load.h"
#include "loop.h"
#include "relay_internal.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MS 1000u
#define RETRY_MAX_MS 30000u
#define NAME_MAX_BYTES 2048u

static void start_exchange(struct kr_relay_ex *e, const char *method, const struct kr_mcp_message *m, const char *body,
                           size_t len);

void kr_relay_ex_free(struct kr_relay_ex *e)
{
    struct kr_relay *r = e->relay;

    TAILQ_REMOVE(&r->exchanges, e, link);
    r->requests -= e->what == KR_RELAY_REQUEST;
    r->notes -= e->what == KR_RELAY_NOTE;
    r->waits -= e->opens || e->begins;
    r->has_stream &= e->what != KR_RELAY_STREAM;
    kr_hx_close(e->hx);
    kr_timer_close(e->again);
    kr_buf_done(&e->in);
    kr_buf_done(&e->data);
    json_decref(e->id);
    free(e);
}

void kr_relay_hold(struct kr_relay *r, bool hold)
{
    struct kr_relay_ex *e;

    TAILQ_FOREACH(e, &r->exchanges, link)
    if (e->hx)
        kr_hx_hold(e->hx, hold);
}

static struct kr_relay_ex *ex_new(struct kr_relay *r, enum kr_relay_what what)
{
    struct kr_relay_ex *e = calloc(1, sizeof *e);

    if (!e)
        return NULL;
    e->relay = r;
    e->what = what;
    e->retry_ms = RETRY_MS;
    kr_buf_init(&e->in, KR_RELAY_ANSWER_MAX);
    kr_buf_init(&e->data, KR_RELAY_ANSWER_MAX);
    TAILQ_INSERT_TAIL(&r->exchanges, e, link);
    r->requests += what == KR_RELAY_REQUEST;
    r->notes += what == KR_RELAY_NOTE;
    r->has_stream |= what == KR_RELAY_STREAM;
    return e;
}

static void open_stream(struct kr_relay *r)
{
    struct kr_relay_ex *e = r->has_stream || r->ended ? NULL : ex_new(r, KR_RELAY_STREAM);

    if (e)
        start_exchange(e, "GET", NULL, NULL, 0);
}

/* ---- what came back ---- */

static bool is_answer(const struct kr_relay_ex *e, const json_t *root)
{
    return e->id && json_is_object(root) && !json_object_get(root, "method") &&
           json_equal(json_object_get(root, "id"), e->id);
}

/* `initialize` agreed upon a version. */
static void note_version(struct kr_relay *r, const json_t *root)
{
    const char *version = json_string_value(json_object_get(json_object_get(root, "result"), "protocolVersion"));

    if (version && strlen(version) < sizeof r->version && strspn(version, "0123456789-") == strlen(version))
        snprintf(r->version, sizeof r->version, "%s", version);
}

/* A message of the server's. False: it is none. */
static bool pass_message(struct kr_relay_ex *e, const char *text, size_t len)
{
    struct kr_relay *r = e->relay;
    json_t *root = kr_json_load(text, len, JSON_ALLOW_NUL, NULL);

    kr_mcp_exact_id(root, text, len);
    if (!json_is_object(root) && !json_is_array(root)) {
        json_decref(root);
        return false;
    }
    if (is_answer(e, root) || json_is_array(root)) {
        e->answered = true;
        if (e->opens)
            note_version(r, root);
    } else if (e->status >= 400 && e->id && json_is_object(json_object_get(root, "error"))) {
        /* A refusal of the transport's: without an id, or with an unknown one. */
        json_t *error = json_object_get(root, "error");
        json_int_t code = json_integer_value(json_object_get(error, "code"));
        const char *said = json_string_value(json_object_get(error, "message"));

        e->answered = true;
        kr_relay_fail(r, e->id, code ? (int)code : KR_RPC_INTERNAL, "%s%.400s",
                      e->status == 401 ? "give the server's key by KRAIT_API_KEY or --api-key-file: " : "",
                      said ? said : "refused");
        json_decref(root);
        return true;
    }
    json_decref(root);
    kr_relay_write(r, text, len);
    return true;
}

/* ---- events ---- */

static void on_event(struct kr_relay_ex *e)
{
    if (e->skipping)
        fprintf(stderr, "krait mcp: a message of the server's was too long and is lost\n");
    else if (e->data.len > 0)
        (void)pass_message(e, e->data.data, e->data.len - 1); /* the last line's end */
    e->skipping = false;
    kr_buf_reset(&e->data);
}

static bool has_name(const char *line, size_t len, const char *name, const char **ret_value, size_t *ret_len)
{
    size_t n = strlen(name);

    if (len < n || memcmp(line, name, n) != 0 || (len > n && line[n] != ':'))
        return false;
    n += len > n;
    n += len > n && line[n] == ' ';
    *ret_value = line + n;
    *ret_len = len - n;
    return true;
}

static void on_event_line(struct kr_relay_ex *e, const char *line, size_t len)
{
    const char *value;
    size_t n;

    if (len > 0 && line[len - 1] == '\r')
        len--;
    if (len == 0) {
        on_event(e);
    } else if (has_name(line, len, "data", &value, &n)) {
        if (kr_buf_add(&e->data, value, n) < 0 || kr_buf_add(&e->data, "\n", 1) < 0)
            e->skipping = true;
        if (e->data.len == 1) /* an event that only primes */
            kr_buf_reset(&e->data);
    } else if (has_name(line, len, "id", &value, &n) && n > 0 && n < sizeof e->event) {
        snprintf(e->event, sizeof e->event, "%.*s", (int)n, value);
        for (char *p = e->event; *p; p++)
            if ((unsigned char)*p < 0x21 || (unsigned char)*p > 0x7e)
                e->event[0] = '\0';
    } else if (has_name(line, len, "retry", &value, &n) && n > 0 && n < 8) {
        e->retry_ms = strtoull(value, NULL, 10);
    }
}

static void take_events(struct kr_relay_ex *e, const char *bytes, size_t len)
{
    while (len > 0) {
        const char *end = memchr(bytes, '\n', len);
        size_t n = end ? (size_t)(end - bytes) : len;

        if (kr_buf_add(&e->in, bytes, n) < 0)
            e->skipping = true;
        if (!end)
            return;
        on_event_line(e, kr_buf_str(&e->in), e->in.len);
        kr_buf_reset(&e->in);
        bytes = end + 1;
        len -= n + 1;
    }
}

/* ---- HTTP's news ---- */

static void on_head(void *data, const struct kr_hx_head *head)
{
    struct kr_relay_ex *e = data;
    struct kr_relay *r = e->relay;
    bool visible = head->session[0];

    e->status = head->status;
    e->is_events = strncmp(head->type, "text/event-stream", 17) == 0;
    for (const char *p = head->session; *p; p++)
        visible &= (unsigned char)*p >= 0x21 && (unsigned char)*p <= 0x7e;
    if (e->opens && head->status < 300 && visible)
        snprintf(r->session, sizeof r->session, "%s", head->session);
}

static void on_body(void *data, const char *bytes, size_t len)
{
    struct kr_relay_ex *e = data;

    if (e->is_events)
        take_events(e, bytes, len);
    else
        (void)kr_buf_add(&e->in, bytes, len); /* one that is too long stays failed, and is answered so */
}

static void tell_refusal(struct kr_relay_ex *e)
{
    struct kr_relay *r = e->relay;

    if (e->status == 401 || e->status == 403)
        kr_relay_fail(r, e->id, KR_RPC_INTERNAL, "http://%s refused us (%d)%s", r->target.field, e->status,
                      e->status == 401 ? ": give its key by KRAIT_API_KEY or --api-key-file" : "");
    else if (e->status == 404 && r->session[0])
        kr_relay_fail(r, e->id, KR_RPC_INTERNAL,
                      "the server no longer knows this session (it was started anew, or the session was idle for too "
                      "long): connect again");
    else if (e->status >= 400)
        kr_relay_fail(r, e->id, KR_RPC_INTERNAL, "http://%s%s answered with status %d", r->target.field, r->target.path,
                      e->status);
    else
        kr_relay_fail(r, e->id, KR_RPC_INTERNAL, "http://%s ended its answer without a result", r->target.field);
}

static void on_again(void *data)
{
    struct kr_relay_ex *e = data;

    kr_hx_close(e->hx);
    e->hx = NULL;
    kr_buf_reset(&e->in);
    kr_buf_reset(&e->data);
    start_exchange(e, "GET", NULL, NULL, 0);
}

/* A stream that ended too early is picked up again, if it can be. */
static bool goes_on(struct kr_relay_ex *e)
{
    bool is_broken = e->what == KR_RELAY_STREAM ? e->status == 200 || e->status == 0
                                                : e->id && !e->answered && e->is_events && e->event[0] && !e->modern;

    if (!is_broken || e->relay->ended || e->resumes >= KR_RELAY_RESUMES_MAX ||
        (e->what == KR_RELAY_STREAM && e->status == 0 && e->resumes == 0))
        return false;
    if (!e->again && kr_timer_new(&e->relay->loop, on_again, e, &e->again) < 0)
        return false;
    e->resumes++;
    if (e->what == KR_RELAY_STREAM && e->retry_ms < RETRY_MAX_MS && e->status == 0)
        e->retry_ms *= 2; /* it is away for longer */
    kr_timer_arm(e->again, e->retry_ms < RETRY_MAX_MS ? e->retry_ms : RETRY_MAX_MS);
    return true;
}

static void on_exchange_end(void *data, const struct kr_err *err)
{
    struct kr_relay_ex *e = data;
    struct kr_relay *r = e->relay;
    bool begins = e->begins && e->status < 300, bye = e->what == KR_RELAY_BYE;

    if (e->is_events && e->data.len > 0)
        kr_buf_reset(&e->data); /* an event without its end is none */
    if (!e->is_events && !err && e->in.len > 0 && !e->in.failed && e->what == KR_RELAY_REQUEST)
        (void)pass_message(e, e->in.data, e->in.len);
    if (goes_on(e))
        return;
    if (e->id && !e->answered && err)
        kr_relay_fail(r, e->id, KR_RPC_INTERNAL, "http://%s cannot be reached: %s", r->target.field, err->msg);
    else if (e->id && !e->answered && e->in.failed)
        kr_relay_fail(r, e->id, KR_RPC_INTERNAL, "the server's answer is larger than %u MiB",
                      KR_RELAY_ANSWER_MAX >> 20);
    else if (e->id && !e->answered)
        tell_refusal(e);
    else if (e->what == KR_RELAY_NOTE && (err || e->status >= 400))
        fprintf(stderr, "krait mcp: a message without an answer was not taken: %s\n", err ? err->msg : "refused");
    kr_relay_ex_free(e);
    if (bye) {
        kr_relay_end(r, 0);
        return;
    }
    if (begins && r->session[0])
        open_stream(r);
    kr_relay_go_on(r);
}

/* ---- the request ---- */

/* As it is, or in base64 where a header cannot hold it (mcp.md: =?base64?…?=). */
static void add_name(struct kr_buf *head, const char *value)
{
    char coded[KR_BASE64_ROOM(NAME_MAX_BYTES)];
    size_t len = strlen(value);
    bool plain = len > 0 && value[0] != ' ' && value[len - 1] != ' ' && strncmp(value, "=?base64?", 9) != 0;

    if (len > NAME_MAX_BYTES)
        return; /* the server says what is missing */
    for (size_t i = 0; i < len; i++)
        plain &= (unsigned char)value[i] >= 0x20 && (unsigned char)value[i] < 0x7f;
    if (plain) {
        (void)kr_buf_printf(head, "Mcp-Name: %s\r\n", value);
        return;
    }
    kr_base64_encode(value, len, coded);
    (void)kr_buf_printf(head, "Mcp-Name: =?base64?%s?=\r\n", coded);
}

static bool is_token(const char *text)
{
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f)
            return false;
    return *text;
}

/* The member of params that Mcp-Name repeats: of any server's methods, whatever this krait has. */
static const struct {
    const char *method, *member;
} named[] = {
    {"tools/call", "name"},  {"prompts/get", "name"},    {"resources/read", "uri"},
    {"tasks/get", "taskId"}, {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"},
};

static void add_envelope(struct kr_buf *head, const struct kr_mcp_message *m)
{
    const char *version = json_string_value(kr_mcp_meta(m, KR_MCP_META_VERSION)), *name;

    if (version && is_token(version))
        (void)kr_buf_printf(head, "MCP-Protocol-Version: %s\r\n", version);
    if (m->method && is_token(m->method))
        (void)kr_buf_printf(head, "Mcp-Method: %s\r\n", m->method);
    for (size_t i = 0; m->method && i < sizeof named / sizeof *named; i++)
        if (strcmp(named[i].method, m->method) == 0 &&
            (name = json_string_value(json_object_get(m->params, named[i].member))))
            add_name(head, name);
}

static void start_exchange(struct kr_relay_ex *e, const char *method, const struct kr_mcp_message *m, const char *body,
                           size_t len)
{
    static const struct kr_hx_calls calls = {on_head, on_body, on_exchange_end};
    struct kr_relay *r = e->relay;
    struct kr_buf head;
    int error;

    kr_buf_init(&head, KR_HX_HEAD_MAX);
    e->status = 0;
    (void)kr_buf_printf(&head,
                        "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: krait/" KR_VERSION "\r\nConnection: close\r\n",
                        method, r->target.path, r->target.field);
    (void)kr_buf_printf(&head, "Accept: %s\r\n", body ? "application/json, text/event-stream" : "text/event-stream");
    if (body)
        (void)kr_buf_printf(&head, "Content-Type: application/json\r\nContent-Length: %zu\r\n", len);
    if (r->key)
        (void)kr_buf_printf(&head, "Authorization: Bearer %s\r\n", r->key);
    if (e->modern && m)
        add_envelope(&head, m);
    else if (!e->opens) {
        if (r->session[0])
            (void)kr_buf_printf(&head, "Mcp-Session-Id: %s\r\n", r->session);
        if (r->version[0])
            (void)kr_buf_printf(&head, "MCP-Protocol-Version: %s\r\n", r->version);
    }
    if (!body && e->event[0])
        (void)kr_buf_printf(&head, "Last-Event-ID: %s\r\n", e->event);
    error = kr_buf_add_str(&head, "\r\n");
    if (error >= 0)
        error = kr_hx_new(&r->loop, &r->target, &head, body, len, &calls, e, &e->hx);
    kr_buf_done(&head);
    if (error >= 0)
        return;
    if (e->id)
        kr_relay_fail(r, e->id, KR_RPC_INTERNAL, "the relay: %s", strerror(-error));
    kr_relay_ex_free(e);
}

/* 2026-07-28: to cancel is to leave. True: done. */
static bool leave(struct kr_relay *r, const struct kr_mcp_message *m)
{
    const json_t *id = json_object_get(m->params, "requestId");
    struct kr_relay_ex *e;

    if (m->kind != KR_MCP_NOTIFICATION || strcmp(m->method, "notifications/cancelled") != 0 || !id)
        return false;
    TAILQ_FOREACH(e, &r->exchanges, link)
    if (e->id && json_equal(e->id, id))
        break;
    if (!e || !e->modern)
        return false;
    kr_relay_ex_free(e);
    return true;
}

void kr_relay_send(struct kr_relay *r, const struct kr_mcp_message *m, const char *text, size_t len)
{
    bool asks = m->kind == KR_MCP_REQUEST || m->kind == KR_MCP_BATCH;
    struct kr_relay_ex *e;

    if (leave(r, m))
        return;
    if (asks && r->requests >= KR_RELAY_REQUESTS_MAX) {
        kr_relay_fail(r, m->id, KR_RPC_INTERNAL, "more than %u requests at once", KR_RELAY_REQUESTS_MAX);
        return;
    }
    e = ex_new(r, asks ? KR_RELAY_REQUEST : KR_RELAY_NOTE);
    if (!e) {
        kr_relay_fail(r, m->id, KR_RPC_INTERNAL, "no memory");
        return;
    }
    e->id = m->kind == KR_MCP_REQUEST ? json_incref(m->id) : NULL;
    e->modern = kr_mcp_meta(m, KR_MCP_META_VERSION) != NULL;
    e->opens = m->kind == KR_MCP_REQUEST && !e->modern && strcmp(m->method, "initialize") == 0;
    e->begins = m->kind == KR_MCP_NOTIFICATION && strcmp(m->method, "notifications/initialized") == 0;
    r->waits += e->opens || e->begins;
    start_exchange(e, "POST", m, text, len);
}

bool kr_relay_bye(struct kr_relay *r)
{
    struct kr_relay_ex *e = r->session[0] ? ex_new(r, KR_RELAY_BYE) : NULL;

    if (e)
        start_exchange(e, "DELETE", NULL, NULL, 0);
    return e != NULL;
}

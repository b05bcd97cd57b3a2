/* Connections of cells: heads of requests, what becomes of them, limits, deadlines, rows, and ends.
 *
 * Called by egress_cells.c for what a listener accepted, by the proxy's own parts (eg_http.c, eg_tunnel.c) and by
 * hooks. Invariants: nothing is dialled before eg_judge.c has allowed it; a request that began has exactly one row,
 * which is on its way to the engine before its client sees an end; a connection that closed is touched by no callback,
 * and its memory is there until the loop's next turn, so that a caller can see that it closed. */
#include "eg_conn.h"
#include "clock.h"
#include "eg_judge.h"
#include "eg_tls.h"
#include "egress_parts.h"
#include "fd.h"
#include "loop.h"
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_STEP 16384u
#define LEAVING_MAX 32u    /* of a cell: one more is closed without waiting for its client */
#define LINGER_MS 1000u    /* for the client to read its answer */
#define LINGER_BYTES 65536 /* that it may send meanwhile */

/* ---- states and deadlines ---- */

static uint64_t deadline_of(const struct kr_eg_conn *c)
{
    uint64_t idle = c->idle_from_ns + c->eg->limits.idle_ms * 1000000ull, until = idle;

    if (c->state == KR_EG_CONN_DIAL) /* which has its own */
        until = UINT64_MAX;
    else if (c->until_ns)
        until = c->until_ns;
    return until < c->total_until_ns ? until : c->total_until_ns;
}

static void arm_deadline(struct kr_eg_conn *c)
{
    uint64_t now = kr_clock_ns(), until = deadline_of(c);

    kr_timer_arm(c->timer, until > now ? (until - now) / 1000000u + 1 : 0);
}

void kr_eg_conn_enter(struct kr_eg_conn *c, enum kr_eg_conn_state state)
{
    assert(c->state != KR_EG_CONN_CLOSED);
    c->state = state;
    c->idle_from_ns = kr_clock_ns();
    c->until_ns = 0;
    arm_deadline(c);
}

void kr_eg_conn_limit(struct kr_eg_conn *c, uint64_t ms)
{
    c->until_ns = kr_clock_after_ms(ms);
    arm_deadline(c);
}

static bool is_closed(const struct kr_eg_conn *c)
{
    return c->state == KR_EG_CONN_CLOSED;
}

/* ---- rows ---- */

static void open_row(struct kr_eg_conn *c)
{
    c->row_open = true;
    c->at_us = kr_eg_now_us();
    c->at_ns = kr_clock_ns();
    c->sent = c->received = 0;
    c->address[0] = c->secrets[0] = '\0';
    memcpy(c->run, c->cell->run, sizeof c->run);
}

static void send_row(struct kr_eg_conn *c, unsigned status, enum kr_eg_verdict verdict, const char *why)
{
    const struct kr_eg_row row = {
        .cell = c->cell->id,
        .sandbox = c->sandbox->id,
        .user = c->cell->user,
        .run = c->run,
        .at_us = c->at_us,
        .ms = (kr_clock_ns() - c->at_ns) / 1000000u,
        .how = c->req.connect  ? "connect"
               : c->req.origin ? "index"
               : c->inside     ? "https"
                               : "http",
        .method = c->req.connect ? "" : c->req.method,
        .host = c->req.host,
        .address = c->address,
        .port = c->req.port,
        .sent = c->sent,
        .received = c->received,
        .status = status,
        .verdict = verdict,
        .why = why,
        .secrets = c->secrets,
    };

    if (!c->row_open)
        return;
    c->row_open = false;
    kr_eg_row_send(c->eg, &row);
}

/* ---- the end ---- */

static void drop_upstream(struct kr_eg_conn *c)
{
    kr_eg_stream_close(c->upstream);
    c->upstream = NULL;
}

/* What belongs to the request. The connection to its server stays where another request may use it. */
static void drop_request(struct kr_eg_conn *c, bool keep_upstream)
{
    kr_eg_http_drop(c);
    kr_eg_tunnel_drop(c);
    kr_eg_dial_cancel(c->dial);
    c->dial = NULL;
    if (!keep_upstream)
        drop_upstream(c);
}

/* One that only waits for its client takes no other's place. */
static void stop_counting(struct kr_eg_conn *c)
{
    if (c->leaving)
        return;
    c->leaving = true;
    c->cell->leaving++;
    c->cell->conn_count--;
    c->sandbox->connections--;
}

static void close_conn(struct kr_eg_conn *c)
{
    struct kr_eg *eg = c->eg;
    struct kr_eg_taker taker = c->taker;

    if (is_closed(c))
        return;
    c->state = KR_EG_CONN_CLOSED;
    c->taker = (struct kr_eg_taker){0};
    if (taker.on_gone)
        taker.on_gone(taker.data);
    drop_request(c, false);
    kr_timer_close(c->timer);
    c->timer = NULL;
    kr_eg_stream_close(c->client);
    c->client = NULL;
    LIST_REMOVE(c, link);
    LIST_INSERT_HEAD(&eg->dead, c, link);
    stop_counting(c);
    c->cell->leaving--;
    c->cell = NULL;
    kr_eg_sandbox_unref(c->sandbox);
    c->sandbox = NULL;
    eg->connections--;
    kr_eg_open_changed(eg);
    kr_soon_ask(eg->burial);
}

void kr_eg_conn_bury(struct kr_eg *eg)
{
    struct kr_eg_conn *c;

    while ((c = LIST_FIRST(&eg->dead))) {
        LIST_REMOVE(c, link);
        kr_buf_done(&c->in);
        kr_buf_done(&c->head);
        free(c->target);
        free(c);
    }
    kr_eg_cells_resume(eg);
}

void kr_eg_conn_abort(struct kr_eg_conn *c, enum kr_eg_verdict verdict, const char *why)
{
    if (is_closed(c))
        return;
    send_row(c, 0, verdict, why);
    close_conn(c);
}

/* ---- answers of our own ---- */

static const char *reason_of(unsigned status)
{
    static const struct {
        unsigned status;
        const char *reason;
    } rows[] = {{400, "Bad Request"},
                {403, "Forbidden"},
                {404, "Not Found"},
                {408, "Request Timeout"},
                {414, "URI Too Long"},
                {417, "Expectation Failed"},
                {429, "Too Many Requests"},
                {431, "Request Header Fields Too Large"},
                {501, "Not Implemented"},
                {502, "Bad Gateway"},
                {503, "Service Unavailable"},
                {504, "Gateway Timeout"},
                {505, "HTTP Version Not Supported"}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].status == status)
            return rows[i].reason;
    return "Refused";
}

/* One line of printable ASCII: it stands in a status line and in a field. */
static void write_line(const struct kr_eg_conn *c, const char *why, char *buf, size_t size)
{
    if (c->req.host[0] && !c->req.origin)
        snprintf(buf, size, "krait: %s:%u: %s", c->req.host, c->req.port, why);
    else
        snprintf(buf, size, "krait: %s", why);
    for (char *p = buf; *p; p++)
        if (*p < 0x20 || *p > 0x7e)
            *p = '?';
}

/* The reason stands behind the status as well: of a refused CONNECT that is all that most clients show. */
static int write_answer(struct kr_eg_conn *c, unsigned status, enum kr_eg_verdict verdict, const char *why)
{
    bool denied = verdict == KR_EG_DENIED, bodiless = strcmp(c->req.method, "HEAD") == 0;
    char line[KR_EG_HOST_ROOM + KR_EG_WHY_ROOM + 32];
    int r;

    write_line(c, why, line, sizeof line);
    kr_buf_reset(&c->head);
    r = kr_buf_printf(&c->head,
                      "HTTP/1.1 %u %s (%s)\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
                      "Connection: close\r\n",
                      status, reason_of(status), line, strlen(line) + 1);
    if (r >= 0 && denied)
        r = kr_buf_printf(&c->head, "X-Krait-Denied: %s\r\n", line);
    if (r >= 0)
        r = kr_buf_printf(&c->head, "\r\n%s%s", bodiless ? "" : line, bodiless ? "" : "\n");
    return r;
}

/* Reads on until the client closes: bytes that are not read would make the kernel reset the connection, and the answer
 * would be lost. */
static void on_answer_readable(void *data)
{
    struct kr_eg_conn *c = data;
    char rest[READ_STEP];
    ssize_t n = kr_eg_stream_read(c->client, rest, sizeof rest);

    if (n > 0)
        c->moved += (uint64_t)n;
    if (n == 0 || (n < 0 && n != -EAGAIN) || c->moved > LINGER_BYTES)
        close_conn(c);
}

static void on_answer_writable(void *data)
{
    struct kr_eg_conn *c = data;
    ssize_t n = c->head.len > 0 ? kr_eg_stream_write(c->client, c->head.data, c->head.len) : 0;

    if (n > 0)
        kr_buf_drop(&c->head, (size_t)n);
    if (n < 0 && n != -EAGAIN) {
        close_conn(c);
        return;
    }
    if (c->head.len > 0) {
        kr_eg_stream_want(c->client, true, true);
        return;
    }
    kr_eg_stream_shut(c->client);
    if (c->cell->leaving > LEAVING_MAX)
        close_conn(c);
    else
        kr_eg_stream_want(c->client, true, false);
}

/* Writes what is in c->head, and leaves when the client has read it. */
static void take_leave(struct kr_eg_conn *c)
{
    static const struct kr_eg_stream_calls calls = {on_answer_readable, on_answer_writable};

    stop_counting(c);
    kr_eg_conn_enter(c, KR_EG_CONN_ANSWER);
    kr_eg_conn_limit(c, LINGER_MS);
    c->moved = 0;
    kr_eg_stream_set_calls(c->client, &calls, c);
    on_answer_writable(c);
}

void kr_eg_conn_refuse(struct kr_eg_conn *c, unsigned status, enum kr_eg_verdict verdict, const char *why)
{
    if (is_closed(c))
        return;
    if (!c->row_open)
        open_row(c);
    c->taker = (struct kr_eg_taker){0};
    send_row(c, status, verdict, why);
    drop_request(c, false);
    if (write_answer(c, status, verdict, why) < 0) {
        close_conn(c);
        return;
    }
    take_leave(c);
}

static void refuse_as(struct kr_eg_conn *c, const struct kr_eg_refusal *refusal)
{
    kr_eg_conn_refuse(c, refusal->status, refusal->verdict, refusal->why);
}

/* ---- limits ---- */

/* A client that has seen nothing of the reply is told why. */
static void end_at_limit(struct kr_eg_conn *c, const char *why)
{
    if (c->state == KR_EG_CONN_HTTP && !kr_eg_http_has_answered(c))
        kr_eg_conn_refuse(c, 429, KR_EG_LIMIT, why);
    else
        kr_eg_conn_abort(c, KR_EG_LIMIT, why);
}

bool kr_eg_conn_moved(struct kr_eg_conn *c, uint64_t sent, uint64_t received)
{
    bool hour_left = kr_eg_sandbox_moved(c->eg, c->sandbox, sent + received);

    c->sent += sent;
    c->received += received;
    c->moved += sent + received;
    c->idle_from_ns = kr_clock_ns();
    if (c->moved > c->eg->limits.connection_bytes)
        end_at_limit(c, "more bytes than one connection may move ([egress] max_bytes)");
    else if (!hour_left)
        end_at_limit(c, "more bytes than a sandbox may move in an hour ([egress] hour_bytes)");
    else
        return true;
    return false;
}

static void on_conn_deadline(void *data)
{
    struct kr_eg_conn *c = data;
    uint64_t now = kr_clock_ns();

    if (now < deadline_of(c)) {
        arm_deadline(c);
        return;
    }
    if (c->state == KR_EG_CONN_ANSWER)
        close_conn(c);
    else if (now >= c->total_until_ns)
        kr_eg_conn_abort(c, KR_EG_LIMIT, "open for longer than a connection may be ([egress] max_time)");
    else if (c->state == KR_EG_CONN_HEAD && c->in.len > 0)
        kr_eg_conn_refuse(c, 408, KR_EG_TIMEOUT, "the head of the request did not come in time");
    else
        kr_eg_conn_abort(c, KR_EG_TIMEOUT, "no byte in either direction for too long ([egress] idle_timeout)");
}

/* ---- heads ---- */

ssize_t kr_eg_conn_read_client(struct kr_eg_conn *c, size_t max)
{
    char bytes[READ_STEP];
    size_t room = c->in.len < max ? max - c->in.len : 0;
    ssize_t n;

    if (room == 0)
        return -EAGAIN;
    n = kr_eg_stream_read(c->client, bytes, room < sizeof bytes ? room : sizeof bytes);
    if (n > 0 && kr_buf_add(&c->in, bytes, (size_t)n) < 0)
        return -ENOMEM;
    return n;
}

static void begin_index(struct kr_eg_conn *c)
{
    drop_upstream(c);
    if (strncmp(c->req.path, "/index/", 7) != 0)
        kr_eg_conn_refuse(c, 404, KR_EG_FAILED, "this is krait's proxy: it has the package index at /index/simple/");
    else if (!kr_eg_hooks.on_index || !c->eg->config->index_url)
        kr_eg_conn_refuse(c, 404, KR_EG_FAILED, "this server has no package index ([mirror] pypi_index_url)");
    else
        kr_eg_hooks.on_index(c);
}

static void begin_request(struct kr_eg_conn *c)
{
    struct kr_eg_refusal refusal;

    open_row(c);
    if (kr_eg_request_read(c, &refusal) < 0 || !kr_eg_request_allowed(c, &refusal))
        refuse_as(c, &refusal);
    else if (kr_eg_sandbox_is_full(c->eg, c->sandbox))
        kr_eg_conn_refuse(c, 429, KR_EG_LIMIT,
                          "the sandbox has moved all bytes that it may in this hour ([egress] hour_bytes)");
    else if (c->req.origin)
        begin_index(c);
    else if (c->req.connect)
        kr_eg_conn_dial(c);
    else
        kr_eg_http_begin(c);
}

static const char *why_bad(int status)
{
    switch (status) {
    case 414:
        return "the address is too long";
    case 417:
        return "only 100-continue can be expected";
    case 431:
        return "the head of the request is too long";
    case 501:
        return "the transfer coding is not chunked";
    case 505:
        return "only HTTP/1.0 and HTTP/1.1 are spoken here";
    default:
        return "this is no request of HTTP/1.1 to a proxy";
    }
}

static void refuse_head(struct kr_eg_conn *c, int status)
{
    c->req.host[0] = c->req.method[0] = '\0';
    c->req.port = 0;
    c->req.connect = c->req.origin = false;
    kr_eg_conn_refuse(c, (unsigned)status, KR_EG_FAILED, why_bad(status));
}

/* Looks at what there is of a head. True: it is whole, or refused. */
static bool take_head(struct kr_eg_conn *c)
{
    int n = kr_http_proxy_head_parse(kr_buf_str(&c->in), c->in.len, &c->scan, &c->req.head);

    if (n == 0 && c->in.len >= c->eg->limits.head_bytes)
        n = -431;
    if (n == 0)
        return false;
    if (n < 0) {
        refuse_head(c, -n);
        return true;
    }
    kr_buf_reset(&c->head);
    if (kr_buf_add(&c->head, kr_buf_str(&c->in), (size_t)n) < 0) {
        close_conn(c);
        return true;
    }
    kr_buf_drop(&c->in, (size_t)n);
    kr_eg_stream_want(c->client, false, false);
    begin_request(c);
    return true;
}

static void on_head_readable(void *data)
{
    struct kr_eg_conn *c = data;
    size_t before = c->in.len;
    ssize_t n = kr_eg_conn_read_client(c, c->eg->limits.head_bytes);
    char why[KR_EG_WHY_ROOM];

    if (n == -EAGAIN)
        return;
    if (n < 0 && c->inside && c->up_fresh && kr_eg_tls_why(c->client)[0]) {
        snprintf(why, sizeof why, "TLS with the code inside: %s", kr_eg_tls_why(c->client));
        open_row(c);
        kr_eg_conn_abort(c, KR_EG_FAILED, why);
        return;
    }
    if (n <= 0) {
        close_conn(c);
        return;
    }
    if (before == 0 && c->until_ns == 0) {
        kr_eg_conn_limit(c, c->eg->limits.head_ms);
    }
    (void)take_head(c);
}

static void read_head(struct kr_eg_conn *c)
{
    static const struct kr_eg_stream_calls calls = {on_head_readable, NULL};

    kr_eg_conn_enter(c, KR_EG_CONN_HEAD);
    c->scan = (struct kr_http_scan){0};
    kr_eg_stream_set_calls(c->client, &calls, c);
    if (c->in.len > 0) {
        kr_eg_conn_limit(c, c->eg->limits.head_ms);
        if (take_head(c))
            return;
    }
    kr_eg_stream_want(c->client, true, false);
}

/* ---- what hooks call ---- */

void kr_eg_conn_take(struct kr_eg_conn *c, const struct kr_eg_taker *taker)
{
    kr_eg_conn_enter(c, KR_EG_CONN_TAKEN);
    c->taker = *taker;
}

void kr_eg_conn_finish(struct kr_eg_conn *c, unsigned status, enum kr_eg_verdict verdict, const char *why, bool keep)
{
    if (is_closed(c))
        return;
    c->taker = (struct kr_eg_taker){0};
    send_row(c, status, verdict, why);
    drop_request(c, keep);
    if (keep) {
        read_head(c);
        return;
    }
    kr_buf_reset(&c->head);
    take_leave(c);
}

/* ---- tunnels whose TLS ends here ---- */

bool kr_eg_conn_can_open_tls(const struct kr_eg_conn *c)
{
    return kr_eg_hooks.has_ca && kr_eg_hooks.has_ca(c->eg);
}

/* The tunnel's row is written: what follows are requests, with rows of their own. The server is spoken to in TLS from
 * now on, and its certificate has been accepted before it gets a byte of a request. */
void kr_eg_conn_open_tls(struct kr_eg_conn *c)
{
    int r;

    kr_eg_tunnel_drop(c);
    memcpy(c->inside_host, c->req.host, sizeof c->inside_host);
    c->inside_port = c->req.port;
    r = kr_eg_hooks.serve_tls(c->eg, &c->client, c->inside_host, &c->in);
    if (r == 0)
        r = kr_eg_hooks.ask_tls(c->eg, &c->upstream, c->inside_host);
    if (r < 0) {
        kr_eg_conn_abort(c, KR_EG_FAILED, "TLS could not be set up between the two");
        return;
    }
    send_row(c, 200, KR_EG_OK, "");
    c->inside = c->up_fresh = true;
    kr_eg_stream_set_calls(c->upstream, &(struct kr_eg_stream_calls){NULL, NULL}, c);
    kr_eg_stream_want(c->upstream, false, false);
    read_head(c);
    kr_eg_conn_limit(c, c->eg->limits.head_ms);
}

/* ---- dialling ---- */

static void on_conn_dialled(void *data, const struct kr_eg_dial_end *end)
{
    struct kr_eg_conn *c = data;
    int r;

    c->dial = NULL;
    memcpy(c->address, end->address, sizeof c->address);
    if (end->verdict != KR_EG_OK) {
        kr_eg_conn_refuse(c, end->status, end->verdict, end->why);
        return;
    }
    r = kr_eg_stream_new(&c->eg->loop, end->fd, &c->upstream);
    if (r < 0) {
        kr_fd_close(end->fd);
        kr_eg_conn_refuse(c, 503, KR_EG_FAILED, "out of memory");
        return;
    }
    memcpy(c->up_host, c->req.host, sizeof c->up_host);
    c->up_port = c->req.port;
    c->up_fresh = false;
    if (c->inside && kr_eg_hooks.ask_tls(c->eg, &c->upstream, c->req.host) < 0)
        kr_eg_conn_refuse(c, 503, KR_EG_FAILED, "out of memory");
    else if (c->req.connect)
        kr_eg_tunnel_connected(c);
    else
        kr_eg_http_connected(c);
}

void kr_eg_conn_dial(struct kr_eg_conn *c)
{
    const struct kr_eg_dial_ask ask = {.host = c->req.host, .port = c->req.port, .sandbox = c->sandbox->id};

    drop_upstream(c);
    kr_eg_conn_enter(c, KR_EG_CONN_DIAL);
    if (kr_eg_dial_start(c->eg, &ask, on_conn_dialled, c, &c->dial) < 0)
        kr_eg_conn_refuse(c, 503, KR_EG_FAILED, "out of memory");
}

/* ---- from cells ---- */

/* Whether one more is too many, and how that is called. */
static const char *past_limit(const struct kr_eg_cell *cell)
{
    const struct kr_egress_limits *l = &cell->eg->limits;

    if (cell->sandbox->connections >= l->sandbox_connections)
        return "the sandbox has as many connections open as it may ([egress] connections)";
    if (cell->conn_count >= l->cell_connections)
        return "this session has as many connections open as it may";
    return NULL;
}

static struct kr_eg_conn *new_conn(struct kr_eg_cell *cell, int fd)
{
    struct kr_eg_conn *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    if (kr_timer_new(&cell->eg->loop, on_conn_deadline, c, &c->timer) < 0 ||
        kr_eg_stream_new(&cell->eg->loop, fd, &c->client) < 0) {
        kr_timer_close(c->timer);
        free(c);
        return NULL;
    }
    c->eg = cell->eg;
    c->cell = cell;
    c->sandbox = cell->sandbox;
    c->sandbox->refs++;
    kr_buf_init(&c->in, KR_HTTP_PARSE_HEAD_MAX);
    kr_buf_init(&c->head, 2 * KR_HTTP_PARSE_HEAD_MAX);
    c->total_until_ns = kr_clock_ns() + c->eg->limits.total_ms * 1000000ull;
    LIST_INSERT_HEAD(&cell->conns, c, link);
    cell->conn_count++;
    c->sandbox->connections++;
    c->eg->connections++;
    kr_eg_open_changed(c->eg);
    return c;
}

void kr_eg_conn_open(struct kr_eg_cell *cell, int fd)
{
    const char *over = past_limit(cell);
    struct kr_eg_conn *c;
    int on = 1;

    if (over && cell->leaving >= LEAVING_MAX) {
        kr_fd_close(fd);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* without it answers are slower, only */
    if (cell->sandbox->connections >= KR_EG_ROOMY_CONNECTIONS)
        kr_eg_bound_buffers(fd);
    c = new_conn(cell, fd);
    if (!c) {
        kr_fd_close(fd);
        return;
    }
    if (over) {
        kr_eg_conn_refuse(c, 429, KR_EG_LIMIT, over);
        return;
    }
    read_head(c);
    kr_eg_conn_limit(c, c->eg->limits.head_ms);
}

void kr_eg_conn_close_all(struct kr_eg_cell *cell, const char *why)
{
    struct kr_eg_conn *c = LIST_FIRST(&cell->conns);

    while (c) {
        struct kr_eg_conn *next = LIST_NEXT(c, link);

        if (c->row_open)
            kr_eg_conn_abort(c, KR_EG_FAILED, why);
        else
            close_conn(c);
        c = next;
    }
}

static bool has_request(const struct kr_eg_conn *c)
{
    return c->row_open && c->state != KR_EG_CONN_ANSWER;
}

void kr_eg_conn_judge_again(struct kr_eg_cell *cell)
{
    struct kr_eg_conn *c = LIST_FIRST(&cell->conns);

    while (c) {
        struct kr_eg_conn *next = LIST_NEXT(c, link);
        struct kr_eg_refusal refusal;

        if (has_request(c) && (!kr_eg_request_allowed(c, &refusal) || !kr_eg_tunnel_allowed(c, &refusal)))
            kr_eg_conn_abort(c, KR_EG_DENIED, refusal.why);
        c = next;
    }
}

/* MCP over descriptors: one message a line, as stdio has it and as the socket in the data directory does.
 *
 * Called by `krait mcp` for its own stdin and stdout, and by `krait serve` for each connection of that socket.
 * Invariants: nothing but messages is written, each whole and with its line's end; a line past the cap is skipped to
 * its end and refused, and no line ends the peer; a client that does not read is not read from any more, so that what
 * waits is bounded; when the input ends, calls are cancelled at once and what is written already has LAST_MS to be
 * taken. */
#include "buf.h"
#include "fd.h"
#include "log.h"
#include "loop.h"
#include "mcp.h"
#include "peer.h"
#include "rpc_id.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHUNK (64u << 10)
#define OUT_MAX (64u << 20) /* that wait for a reader: past it the peer is cut */
#define OUT_HIGH (1u << 20) /* … from here on nothing is read and notifications are dropped */
#define LAST_MS 500u        /* for what waits when the input has ended */
#define TOO_LONG "a message is at most 4 MiB"

struct kr_mcp_lines {
    struct kr_mcp_peer *peer;  /* NULL once it is over */
    struct kr_watch *in, *out; /* NULL where there is no readiness; one for both if they are one descriptor */
    struct kr_outq *outq;
    int in_file, out_file;      /* such descriptors, or -1 */
    struct kr_timer *timer;     /* reads a file, or tells that it is over */
    struct kr_buf buf;          /* what came and is not handed on yet */
    bool skipping;              /* a line that was too long */
    struct kr_mcp_id_scan scan; /* of that line */
    bool paused;                /* its reader is slow */
    bool ended;                 /* of the input */
    bool failed;                /* nothing can be written: it ends when the loop comes round */
    bool began;                 /* a message came */
    void (*on_closed)(void *data), (*on_first)(void *data);
    void *data;
};

/* ---- the end ---- */

/* Nothing comes in any more. What waits may still go out, if anything can. */
static void finish_lines(struct kr_mcp_lines *l, bool can_write)
{
    struct kr_mcp_peer *peer = l->peer;

    if (!peer)
        return;
    l->peer = NULL;
    l->ended = true;
    if (l->in)
        kr_watch_want_read(l->in, false);
    kr_mcp_peer_free(peer);
    kr_timer_arm(l->timer, can_write && l->outq && kr_outq_pending(l->outq) > 0 ? LAST_MS : 0);
}

static void on_drained(void *data)
{
    struct kr_mcp_lines *l = data;

    if (!l->peer)
        kr_timer_arm(l->timer, 0);
    else if (l->paused) {
        l->paused = false;
        kr_timer_arm(l->timer, 0); /* goes on with what it has, then with the descriptor */
    }
}

static void on_output_failed(void *data, int error)
{
    (void)error;
    finish_lines(data, false);
}

/* ---- out ---- */

static int write_message(struct kr_mcp_lines *l, const char *json, size_t len)
{
    struct iovec parts[2] = {{(void *)json, len}, {(void *)"\n", 1}};
    int r;

    if (l->outq)
        return kr_outq_addv(l->outq, parts, 2);
    r = kr_fd_write_all(l->out_file, json, len);
    return r < 0 ? r : kr_fd_write_all(l->out_file, "\n", 1);
}

static void send_message(void *data, void *stream, enum kr_mcp_sent what, int code, const char *json, size_t len)
{
    struct kr_mcp_lines *l = data;
    size_t waits = l->outq ? kr_outq_pending(l->outq) : 0;
    int r;

    (void)stream, (void)code;
    if (what == KR_MCP_SILENCE || !l->peer || l->failed || (what == KR_MCP_NOTE && waits > OUT_HIGH))
        return;
    r = write_message(l, json, len);
    if (r == -ENOBUFS)
        kr_log(KR_LOG_WARN, "MCP client does not read its answers: connection ended", "waiting=%zu", waits);
    if (r < 0) { /* not from here: the sender is in the midst of a call, which must not be cancelled meanwhile */
        l->failed = true;
        kr_timer_arm(l->timer, 0);
    }
}

static const struct kr_mcp_wire wire = {.send = send_message};

/* ---- in ---- */

static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r", text[i]) || !text[i])
            return false;
    return true;
}

static void take_line(struct kr_mcp_lines *l, const char *text, size_t len)
{
    if (l->skipping || len > KR_MCP_MESSAGE_MAX) {
        kr_mcp_id_scan(&l->scan, text, len);
        kr_mcp_peer_refuse(l->peer, NULL, kr_mcp_id_found(&l->scan), KR_RPC_INVALID_REQUEST, TOO_LONG);
        l->scan = (struct kr_mcp_id_scan){0};
    } else if (!is_blank(text, len)) {
        kr_mcp_peer_receive(l->peer, text, len, NULL);
        if (!l->began && l->on_first)
            l->on_first(l->data);
        l->began = true;
    }
    l->skipping = false;
    l->paused = l->peer && l->outq && kr_outq_pending(l->outq) > OUT_HIGH;
}

/* Hands on whole lines, until there are none or their answers are not read. */
static void take_lines(struct kr_mcp_lines *l)
{
    size_t at = 0;

    while (l->peer && !l->paused && !l->failed && at < l->buf.len) {
        const char *line = l->buf.data + at, *end = memchr(line, '\n', l->buf.len - at);

        if (!end)
            break;
        take_line(l, line, (size_t)(end - line));
        at += (size_t)(end - line) + 1;
    }
    kr_buf_drop(&l->buf, at);
    if (!l->paused && (l->skipping || l->buf.len > KR_MCP_MESSAGE_MAX)) { /* and still no end of the line */
        l->skipping = true;
        kr_mcp_id_scan(&l->scan, l->buf.data, l->buf.len);
        kr_buf_reset(&l->buf);
    }
    if (l->buf.len == 0 && l->buf.cap > CHUNK)
        kr_buf_done(&l->buf);
}

/* What came with the end of the input is a message too, if it is whole. */
static void on_input_end(struct kr_mcp_lines *l)
{
    l->ended = true;
    if (l->peer && l->buf.len > 0 && !l->paused) {
        take_line(l, l->buf.data, l->buf.len);
        kr_buf_reset(&l->buf);
    }
    finish_lines(l, true);
}

/* True: there may be more. */
static bool read_some(struct kr_mcp_lines *l, int fd)
{
    char chunk[CHUNK];
    ssize_t n;

    do
        n = read(fd, chunk, sizeof chunk);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return true;
    if (n > 0 && kr_buf_add(&l->buf, chunk, (size_t)n) == 0) {
        take_lines(l);
        return l->peer != NULL;
    }
    if (n > 0)
        kr_log(KR_LOG_ERROR, "no memory for a message", NULL);
    on_input_end(l);
    return false;
}

static void on_readable(void *data)
{
    struct kr_mcp_lines *l = data;

    if (l->peer && !l->paused && read_some(l, kr_watch_fd(l->in)))
        kr_watch_want_read(l->in, !l->paused);
}

static void on_lines_timer(void *data)
{
    struct kr_mcp_lines *l = data;

    if (!l->peer) {
        l->on_closed(l->data);
        return;
    }
    if (l->failed) {
        finish_lines(l, false);
        return;
    }
    take_lines(l);
    if (!l->peer || l->paused)
        return;
    if (l->in)
        kr_watch_want_read(l->in, true);
    else if (read_some(l, l->in_file) && !l->paused)
        kr_timer_arm(l->timer, 0);
}

/* ---- life ---- */

/* A regular file or /dev/null has no readiness: it is read and written right away. */
static int watch(struct kr_mcp_lines *l, const struct kr_mcp_lines_spec *s)
{
    static const struct kr_watch_calls calls = {.on_readable = on_readable};
    static const struct kr_outq_calls out_calls = {on_drained, on_output_failed};
    int r = kr_watch_new(s->loop, s->in, &calls, l, &l->in);

    if (r == -EPERM)
        l->in_file = s->in;
    else if (r < 0)
        return r;
    if (s->in == s->out) {
        l->out = l->in;
        r = l->in ? 0 : -EPERM;
    } else {
        r = kr_watch_new(s->loop, s->out, &calls, l, &l->out);
        if (r == -EPERM) {
            l->out_file = s->out;
            return 0;
        }
    }
    return r < 0 ? r : kr_outq_new(l->out, OUT_MAX, &out_calls, l, &l->outq);
}

/* The descriptors stay the caller's. */
static void let_go_of_peer(struct kr_mcp_lines *l)
{
    if (l->out && l->out != l->in)
        (void)kr_watch_release(l->out);
    if (l->in)
        (void)kr_watch_release(l->in);
    kr_timer_close(l->timer);
    kr_mcp_peer_free(l->peer);
    free(l);
}

int kr_mcp_lines_open(struct kr_mcp *m, const struct kr_mcp_lines_spec *spec, struct kr_mcp_lines **ret_lines)
{
    struct kr_mcp_lines *l = calloc(1, sizeof *l);
    struct kr_mcp_peer_config config = {.wire = &wire,
                                        .data = l,
                                        .who = *spec->who,
                                        .dialect = spec->dialect,
                                        .structured = spec->structured,
                                        .local = spec->local};
    int r;

    if (!l)
        return -ENOMEM;
    l->in_file = l->out_file = -1;
    l->on_closed = spec->on_closed;
    l->on_first = spec->on_first;
    l->data = spec->data;
    kr_buf_init(&l->buf, KR_MCP_MESSAGE_MAX + 2 * CHUNK);
    r = kr_timer_new(spec->loop, on_lines_timer, l, &l->timer);
    if (r >= 0)
        r = kr_mcp_peer_new(m, &config, &l->peer);
    if (r >= 0)
        r = watch(l, spec);
    if (r < 0) {
        let_go_of_peer(l);
        return r;
    }
    if (l->in) /* from the loop, as everything that follows */
        kr_watch_want_read(l->in, true);
    else
        kr_timer_arm(l->timer, 0);
    *ret_lines = l;
    return 0;
}

void kr_mcp_lines_close(struct kr_mcp_lines *l)
{
    struct kr_mcp_peer *peer;

    if (!l)
        return;
    peer = steal_ptr(&l->peer);
    kr_mcp_peer_free(peer);
    if (l->out != l->in)
        kr_watch_close(l->out);
    kr_watch_close(l->in);
    kr_fd_close(l->in_file);
    kr_fd_close(l->out_file);
    kr_timer_close(l->timer);
    kr_buf_done(&l->buf);
    free(l);
}

/* A person's terminal on one side, a terminal of a sandbox on the other.
 *
 * Called by cmd_shell.c. Invariants: the person's terminal is raw only inside converse(), and is restored at each of
 * its ends, a signal among them; nothing is read from the person that there is no room to pass on; the server's
 * terminal is closed unless its program has ended. */
#include "shell.h"
#include "buf.h"
#include "clock.h"
#include "err.h"
#include "fd.h"
#include "json.h"
#include "json_load.h"
#include "shell_http.h"
#include "ws_frame.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#define PIECE 4096u
#define OUT_MAX (256u << 10)
#define OUT_HIGH (64u << 10)
#define MESSAGE_MAX (1u << 20)
#define SILENCE_MS 120000u /* the server pings more often */
#define GONE_TEXT "the connection to the server was lost"

struct shell {
    const struct kr_shell_spec *spec;
    struct kr_shell_server server;
    struct kr_ws_parser parser;
    struct kr_buf out;
    int fd, signals;
    uint64_t heard_ns;
    bool over, left;
    bool ended; /* the program has; then: */
    int status;
    char said[300];     /* for the person, when the terminal is restored */
    struct kr_err *err; /* of a failure, with its return in r */
    int r;
    char id[64];
};

static struct kr_shell_answer answer;

/* ---- frames to the server ---- */

static void fail_shell(struct shell *s, enum kr_err_kind kind, int code, const char *text)
{
    if (!s->over)
        s->r = kr_err_set(s->err, kind, code, "%s", text);
    s->r = s->r < 0 ? s->r : -EIO;
    s->over = true;
}

static void flush_out(struct shell *s)
{
    while (s->out.len > 0) {
        ssize_t n = send(s->fd, s->out.data, s->out.len, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            fail_shell(s, KR_ERR_UNAVAILABLE, errno, GONE_TEXT);
            return;
        }
        kr_buf_drop(&s->out, (size_t)n);
    }
}

static void send_message(struct shell *s, enum kr_ws_op op, const char *data, size_t len)
{
    unsigned char head[KR_WS_HEAD_MAX], mask[4];
    char masked[PIECE];
    size_t n;

    if (len > sizeof masked || getrandom(mask, sizeof mask, 0) != sizeof mask)
        return;
    memcpy(masked, data, len);
    kr_ws_mask(masked, len, mask, 0);
    n = kr_ws_head(head, op, len, mask);
    if (kr_buf_add(&s->out, head, n) < 0 || kr_buf_add(&s->out, masked, len) < 0)
        fail_shell(s, KR_ERR_UNAVAILABLE, ENOBUFS, "the server takes nothing any more");
    flush_out(s);
}

static void send_size(struct shell *s)
{
    struct winsize size;
    char text[80];

    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0 || size.ws_row == 0)
        return;
    snprintf(text, sizeof text, "{\"type\":\"resize\",\"cols\":%u,\"rows\":%u}", size.ws_col, size.ws_row);
    send_message(s, KR_WS_TEXT, text, strlen(text));
}

/* ---- what comes ---- */

static void take_text(struct shell *s, const char *text, size_t len)
{
    json_t *m = kr_json_load(text, len, 0, NULL);
    const char *type = json_string_value(json_object_get(m, "type"));
    const char *message = json_string_value(json_object_get(m, "message"));

    if (type && strcmp(type, "lost") == 0) {
        snprintf(s->said, sizeof s->said, "%lld bytes of output were lost on the way",
                 (long long)json_integer_value(json_object_get(m, "bytes")));
    } else if (type && strcmp(type, "end") == 0) {
        s->ended = s->over = true;
        s->status = (int)json_integer_value(json_object_get(m, "exit_code"));
        if (message)
            snprintf(s->said, sizeof s->said, "%s", message);
    }
    json_decref(m);
}

static void take_event(struct shell *s, enum kr_ws_event event, const struct kr_ws_piece *p)
{
    char text[160];

    switch (event) {
    case KR_WS_GOT_BINARY:
        if (p->len > 0 && kr_fd_write_all(STDOUT_FILENO, p->data, p->len) < 0)
            fail_shell(s, KR_ERR_SYSTEM, errno, "the terminal takes nothing any more");
        break;
    case KR_WS_GOT_TEXT:
        take_text(s, p->data, p->len);
        break;
    case KR_WS_GOT_PING:
        send_message(s, KR_WS_PONG, p->data, p->len);
        break;
    case KR_WS_GOT_CLOSE:
        snprintf(text, sizeof text, "the server closed the terminal: %.*s", (int)p->len, p->data);
        fail_shell(s, KR_ERR_UNAVAILABLE, 0, p->len > 0 ? text : GONE_TEXT);
        break;
    case KR_WS_BAD:
        fail_shell(s, KR_ERR_PROTOCOL, EPROTO, "the server does not speak as krait does");
        break;
    case KR_WS_GOT_PONG:
    case KR_WS_MORE:
        break;
    }
}

static void take_bytes(struct shell *s, const char *in, size_t len)
{
    struct kr_ws_piece piece;
    enum kr_ws_event event;

    s->heard_ns = kr_clock_ns();
    while (!s->over && (event = kr_ws_next(&s->parser, &in, &len, &piece)) != KR_WS_MORE)
        take_event(s, event, &piece);
}

static void on_server(struct shell *s)
{
    char in[16384];
    ssize_t n = recv(s->fd, in, sizeof in, 0);

    if (n > 0)
        take_bytes(s, in, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        fail_shell(s, KR_ERR_UNAVAILABLE, n < 0 ? errno : EPIPE, GONE_TEXT);
}

static void on_person(struct shell *s)
{
    char in[PIECE];
    ssize_t n = read(STDIN_FILENO, in, sizeof in);
    const char *escape;

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) { /* the person's terminal is gone */
        s->left = s->over = true;
        return;
    }
    escape = s->spec->escape >= 0 ? memchr(in, s->spec->escape, (size_t)n) : NULL;
    if (escape != in)
        send_message(s, KR_WS_BINARY, in, escape ? (size_t)(escape - in) : (size_t)n);
    if (escape)
        s->left = s->over = true;
}

static void on_signal(struct shell *s)
{
    struct signalfd_siginfo info;

    if (read(s->signals, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo == SIGWINCH) {
        send_size(s);
    } else {
        s->left = s->over = true;
        s->status = 128 + (int)info.ssi_signo;
    }
}

/* ---- the conversation ---- */

static void turn(struct shell *s)
{
    bool room = s->out.len < OUT_HIGH;
    struct pollfd p[] = {{room ? STDIN_FILENO : -1, POLLIN, 0},
                         {s->fd, (short)(POLLIN | (s->out.len > 0 ? POLLOUT : 0)), 0},
                         {s->signals, POLLIN, 0}};
    int n = poll(p, 3, SILENCE_MS);

    if (n < 0 && errno != EINTR)
        fail_shell(s, KR_ERR_SYSTEM, errno, "poll");
    if (n <= 0) {
        if (kr_clock_ns() - s->heard_ns > SILENCE_MS * UINT64_C(1000000))
            fail_shell(s, KR_ERR_TIMEOUT, ETIMEDOUT, GONE_TEXT);
        return;
    }
    if (p[2].revents)
        on_signal(s);
    if (p[1].revents & POLLOUT)
        flush_out(s);
    if (!s->over && p[1].revents & ~POLLOUT)
        on_server(s);
    if (!s->over && p[0].revents)
        on_person(s);
}

static void make_raw(struct termios *t)
{
    cfmakeraw(t);
    t->c_cc[VMIN] = 1;
    t->c_cc[VTIME] = 0;
}

static int converse(struct shell *s)
{
    struct termios before, raw;
    sigset_t set, old;

    sigemptyset(&set);
    for (size_t i = 0; i < 5; i++)
        sigaddset(&set, (const int[]){SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGQUIT}[i]);
    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return kr_err_set(s->err, KR_ERR_SYSTEM, errno, "the terminal");
    (void)sigprocmask(SIG_BLOCK, &set, &old);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    raw = before;
    make_raw(&raw);
    if (s->signals < 0 || tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0) {
        s->r = kr_err_set(s->err, KR_ERR_SYSTEM, errno, "make the terminal raw");
    } else {
        send_size(s); /* it may have changed since the request */
        take_bytes(s, answer.body, answer.len);
        while (!s->over)
            turn(s);
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    }
    s->signals = kr_fd_close(s->signals);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    return s->r;
}

/* ---- the terminal of the server ---- */

static int create(struct shell *s)
{
    const struct kr_shell_spec *spec = s->spec;
    const char *term = getenv("TERM");
    cleanup_buf struct kr_buf body;
    struct winsize size = {0};
    struct kr_json j;
    json_t *made;
    int r;

    (void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
    kr_buf_init(&body, KR_SHELL_ANSWER_MAX);
    kr_json_init(&j, &body);
    kr_json_object(&j);
    if (spec->sandbox)
        kr_json_key_str(&j, "sandbox_id", spec->sandbox);
    kr_json_key_uint(&j, "cols", size.ws_col ? size.ws_col : 80);
    kr_json_key_uint(&j, "rows", size.ws_row ? size.ws_row : 24);
    if (term && *term)
        kr_json_key_str(&j, "term", term);
    kr_json_key(&j, "command");
    kr_json_array(&j);
    for (size_t i = 0; i < spec->argc; i++)
        kr_json_str(&j, spec->argv[i]);
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    if (kr_json_done(&j) < 0)
        return kr_err_set(s->err, KR_ERR_INVALID, E2BIG, "the command is too long");
    r = kr_shell_ask(&s->server, "POST", "/api/v1/terminals", kr_buf_str(&body), &answer, s->err);
    if (r < 0)
        return r;
    if (answer.status != 201)
        return kr_shell_refused(&answer, s->err);
    made = kr_json_load(answer.body, answer.len, 0, NULL);
    snprintf(s->id, sizeof s->id, "%s",
             json_string_value(json_object_get(made, "terminal_id"))
                 ? json_string_value(json_object_get(made, "terminal_id"))
                 : "");
    json_decref(made);
    return s->id[0] ? 0 : kr_err_set(s->err, KR_ERR_PROTOCOL, EPROTO, "the server named no terminal");
}

/* Also where the person has left: nothing goes on unseen. */
static void close_terminal(struct shell *s)
{
    struct kr_err ignored;
    char path[128];

    snprintf(path, sizeof path, "/api/v1/terminals/%s", s->id);
    (void)kr_shell_ask(&s->server, "DELETE", path, "", &answer, &ignored);
}

int kr_shell_run(const struct kr_shell_spec *spec, struct kr_err *err)
{
    struct shell s = {
        .spec = spec, .server = {.url = spec->url, .key = spec->key}, .fd = -1, .signals = -1, .err = err};
    char path[128];
    int r;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return kr_err_set(err, KR_ERR_INVALID, ENOTTY,
                          "stdin and stdout must be a terminal; `krait run` runs programs without one");
    r = kr_shell_find(&s.server, err);
    if (r >= 0)
        r = create(&s);
    if (r < 0)
        return r;
    kr_buf_init(&s.out, OUT_MAX);
    kr_ws_parser_init(&s.parser, false, MESSAGE_MAX);
    s.heard_ns = kr_clock_ns();
    snprintf(path, sizeof path, "/api/v1/terminals/%s/socket", s.id);
    r = s.fd = kr_shell_connect(&s.server, path, &answer, err);
    if (r >= 0)
        r = converse(&s);
    s.fd = kr_fd_close(s.fd);
    kr_buf_done(&s.out);
    if (!s.ended)
        close_terminal(&s);
    if (s.said[0])
        fprintf(stderr, "krait shell: %s\n", s.said);
    if (r < 0)
        return r;
    return s.ended ? s.status & 0xff : s.status ? s.status : KR_SHELL_LEFT;
}

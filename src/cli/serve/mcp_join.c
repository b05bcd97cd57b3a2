/* `krait mcp` where a server runs on the same data directory: bytes from stdin to its socket and back.
 *
 * Called by cmd_mcp.c instead of starting an engine. Invariants: nothing is read for which there is no room to pass
 * it on, so that a reader that is slow slows down its writer; the end of stdin is passed on and what the server still
 * says is written; a server that ends first is reported on stderr and by the exit status. */
#include "mcp_join.h"
#include "clock.h"
#include "exit_status.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WELCOME_MS 2000u
#define LAST_MS 1000u /* from the end of stdin to the server's own */
#define PIECE 4096u   /* PIPE_BUF: what a pipe takes at once when it says that it is writable */

void kr_join_address(int folder, struct sockaddr_un *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->sun_family = AF_UNIX;
    snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/" KR_JOIN_SOCKET, folder);
}

/* Byte by byte: what follows the line is not ours. 0 or -errno. */
static int read_welcome(int fd)
{
    uint64_t deadline = kr_clock_after_ms(WELCOME_MS);
    char line[sizeof KR_JOIN_WELCOME];
    size_t len = 0;

    while (len < sizeof line - 1) {
        int r = kr_fd_wait(fd, POLLIN, deadline);
        ssize_t n = r > 0 ? read(fd, line + len, 1) : 0;

        if (n <= 0)
            return r < 0 ? r : r == 0 ? -ETIMEDOUT : -EPIPE;
        if (line[len++] == '\n')
            break;
    }
    return len == sizeof KR_JOIN_WELCOME - 1 && memcmp(line, KR_JOIN_WELCOME, len) == 0 ? 0 : -EPROTO;
}

int kr_join_connect(const char *data, enum kr_dialect dialect, bool structured)
{
    cleanup_fd int folder = open(data, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
    struct sockaddr_un address;
    char line[KR_JOIN_LINE_MAX];
    int len, r;

    if (folder < 0)
        return -errno;
    kr_join_address(folder, &address);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return -errno;
    len = snprintf(line, sizeof line, "{\"krait\":{\"version\":%d,\"dialect\":\"%s\",\"structured\":%s}}\n",
                   KR_JOIN_VERSION, kr_dialect_names[dialect], structured ? "true" : "false");
    if (send(fd, line, (size_t)len, MSG_NOSIGNAL) != len)
        return -EPIPE;
    r = read_welcome(fd);
    return r < 0 ? r : steal_fd(&fd);
}

/* ---- the pump ---- */

/* One way of it. */
struct way {
    int from, to;
    char data[64 << 10];
    size_t len, sent;
    bool ended; /* `from` has, and all of it is passed on when len is 0 */
};

/* Never more than a pipe takes at once when it says that it is writable: the descriptor is shared and may block. */
static int pass_on(struct way *w)
{
    size_t most = w->len - w->sent < PIECE ? w->len - w->sent : PIECE;
    ssize_t n = write(w->to, w->data + w->sent, most);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    w->sent += (size_t)n;
    if (w->sent == w->len)
        w->sent = w->len = 0;
    return 0;
}

static void take_bytes(struct way *w)
{
    ssize_t n = read(w->from, w->data, sizeof w->data);

    if (n > 0)
        w->len = (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        w->ended = true;
}

/* 0, or -errno of the end that cannot be written. */
static int turn_way(struct way *w, const struct pollfd *p)
{
    if (w->len > 0)
        return p->revents ? pass_on(w) : 0;
    if (!w->ended && p->revents)
        take_bytes(w);
    return 0;
}

static struct pollfd wanted_events(const struct way *w)
{
    if (w->len > 0)
        return (struct pollfd){.fd = w->to, .events = POLLOUT};
    return (struct pollfd){.fd = w->ended ? -1 : w->from, .events = POLLIN};
}

int kr_join_pump(int fd, const char *data)
{
    static struct way in, out;
    uint64_t deadline = 0;
    bool told = false, broken = false;

    signal(SIGPIPE, SIG_IGN);
    in = (struct way){.from = STDIN_FILENO, .to = fd};
    out = (struct way){.from = fd, .to = STDOUT_FILENO};
    while (!(out.ended && out.len == 0) && (!deadline || kr_clock_ns() < deadline)) {
        struct pollfd p[2] = {wanted_events(&in), wanted_events(&out)};

        if (poll(p, 2, deadline ? (int)LAST_MS : -1) < 0 && errno != EINTR)
            break;
        if (turn_way(&out, &p[1]) < 0) { /* the reader of stdout has gone: that is an end, too */
            told = true;
            break;
        }
        if (turn_way(&in, &p[0]) < 0) { /* the server is gone: what it said before it went comes first */
            in.ended = broken = true;
            in.len = 0;
            deadline = kr_clock_after_ms(LAST_MS);
        }
        if (in.ended && in.len == 0 && !told && !broken) {
            told = true;
            (void)shutdown(fd, SHUT_WR);
            deadline = kr_clock_after_ms(LAST_MS);
        }
    }
    kr_fd_close(fd);
    if (told)
        return 0;
    fprintf(stderr, "krait mcp: the server on %s has gone\n", data);
    return KR_EXIT_OURS;
}

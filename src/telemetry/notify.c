/* Messages to systemd, as sd_notify(3) describes them, without its library.
 *
 * Called by the server from its loop. Invariant: one connected datagram socket, or none; nothing here blocks, and a
 * failure is a line at debug. */
#define _GNU_SOURCE 1
#include "notify.h"
#include "fd.h"
#include "log.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int sock = -1;

/* 1 if $NOTIFY_SOCKET is an address of ours to use, 0 if there is none, -errno. */
static int find_address(struct sockaddr_un *ret, socklen_t *ret_len)
{
    const char *name = getenv("NOTIFY_SOCKET");
    size_t len = name ? strlen(name) : 0;

    if (len == 0)
        return 0;
    if (name[0] != '/' && name[0] != '@')
        return -EAFNOSUPPORT; /* vsock is for the inside of virtual machines */
    if (len >= sizeof ret->sun_path || len < 2)
        return -EINVAL;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, name, len);
    if (name[0] == '@')
        ret->sun_path[0] = '\0'; /* an abstract name: it is as long as the address says (unix(7)) */
    *ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
    return 1;
}

int kr_notify_open(void)
{
    struct sockaddr_un address;
    socklen_t len;
    cleanup_fd int fd = -1;
    int r = find_address(&address, &len);

    kr_notify_close();
    if (r == 0)
        return 0;
    if (r > 0) {
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        r = fd < 0 || connect(fd, (const struct sockaddr *)&address, len) < 0 ? -errno : 1;
    }
    if (r < 0) {
        kr_log(KR_LOG_DEBUG, "systemd message not sent", "errno=%d", -r);
        return r;
    }
    sock = steal_fd(&fd);
    return 1;
}

void kr_notify_close(void)
{
    sock = kr_fd_close(sock);
}

static int send_message(const char *message)
{
    ssize_t n;

    if (sock < 0)
        return 0;
    n = send(sock, message, strlen(message), MSG_NOSIGNAL);
    if (n < 0 && (errno == ECONNREFUSED || errno == ENOTCONN || errno == ECONNRESET)) {
        if (kr_notify_open() <= 0) /* the socket was made anew: once more by its name */
            return -ECONNREFUSED;
        n = send(sock, message, strlen(message), MSG_NOSIGNAL);
    }
    if (n < 0) {
        int r = -errno;

        kr_log(KR_LOG_DEBUG, "systemd message not sent", "errno=%d", -r);
        return r;
    }
    return 1;
}

int kr_notify_ready(void)
{
    return send_message("READY=1");
}

int kr_notify_stopping(void)
{
    return send_message("STOPPING=1");
}

int kr_notify_watchdog(void)
{
    return send_message("WATCHDOG=1");
}

/* A number of the environment; 0 if it is missing or none. */
static uint64_t env_number(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    unsigned long long value;

    if (!text || text[0] < '0' || text[0] > '9')
        return 0;
    errno = 0;
    value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' ? value : 0;
}

uint64_t kr_notify_watchdog_ms(void)
{
    uint64_t usec = env_number("WATCHDOG_USEC"), pid = env_number("WATCHDOG_PID");

    /* WATCHDOG_PID is the process systemd started; the server is its child. */
    if (getenv("WATCHDOG_PID") && pid != (uint64_t)getpid() && pid != (uint64_t)getppid())
        return 0;
    return usec / 2000 > 0 ? usec / 2000 : usec > 0;
}

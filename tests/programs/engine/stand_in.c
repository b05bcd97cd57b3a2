/* See stand_in.h. It takes E_CELL and nothing else; a listener stays until the end, since no suite opens more than a
 * few hundred cells. */
#include "stand_in.h"
#include "fd.h"
#include "frame.h"
#include "proto.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTENERS_MAX 512
#define READ_MS 2000

/* Whoever connects is read once, so that nothing of his is left when the connection closes, and answered. */
static void answer(int listener)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\n" KR_STAND_IN_WORD;
    cleanup_fd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct timeval patience = {.tv_sec = READ_MS / 1000};
    char buf[4096];

    if (fd < 0)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (recv(fd, buf, sizeof buf, 0) >= 0)
        (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}

int kr_stand_in_main(int fd, void *arg)
{
    static char payload[KR_FRAME_EGRESS_MAX];
    struct pollfd watched[1 + LISTENERS_MAX] = {{fd, POLLIN, 0}};
    unsigned count = 1;

    (void)arg;
    for (;;) {
        struct kr_frame f;
        struct kr_err err;
        int listener = -1, r;

        if (poll(watched, count, -1) < 0)
            return 1;
        for (unsigned i = 1; i < count; i++)
            if (watched[i].revents)
                answer(watched[i].fd);
        if (!watched[0].revents)
            continue;
        r = kr_frame_recv_few(fd, &f, payload, sizeof payload, &listener, 1, 0, &err);
        if (r < 0 && r != -ETIMEDOUT)
            return r != -ENODATA;
        if (r >= 0 && listener >= 0 && count < 1 + LISTENERS_MAX)
            watched[count++] = (struct pollfd){listener, POLLIN, 0};
        else
            kr_fd_close(listener);
    }
}

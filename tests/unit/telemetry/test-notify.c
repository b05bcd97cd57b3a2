/* src/telemetry/notify.c against sockets of our own. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "fd.h"
#include "notify.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char path[108];

/* systemd's end: a bound datagram socket. '@' begins an abstract name. */
static int manager(const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    size_t len = strlen(name);

    memcpy(a.sun_path, name, len);
    if (name[0] == '@')
        a.sun_path[0] = '\0';
    else
        (void)unlink(name);
    if (bind(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
        abort();
    return fd;
}

static const char *received(int fd)
{
    static char text[1024];
    ssize_t n = recv(fd, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void messages_arrive(const char *name)
{
    cleanup_fd int fd = manager(name);

    setenv("NOTIFY_SOCKET", name, 1);
    CHECK(kr_notify_open() == 1);
    unsetenv("NOTIFY_SOCKET"); /* it is connected: a name that is gone since does not matter */
    CHECK(kr_notify_ready() == 1 && strcmp(received(fd), "READY=1") == 0);
    CHECK(kr_notify_watchdog() == 1 && strcmp(received(fd), "WATCHDOG=1") == 0);
    CHECK(kr_notify_stopping() == 1 && strcmp(received(fd), "STOPPING=1") == 0);
    CHECK(strcmp(received(fd), "") == 0);
    kr_notify_close();
    CHECK(kr_notify_ready() == 0);
}

static void a_path(void)
{
    messages_arrive(path);
    unlink(path);
}

static void an_abstract_name(void)
{
    char name[64];

    snprintf(name, sizeof name, "@krait-test-notify-%d", getpid());
    messages_arrive(name);
}

static void without_a_manager(void)
{
    unsetenv("NOTIFY_SOCKET");
    CHECK(kr_notify_open() == 0 && kr_notify_ready() == 0 && kr_notify_stopping() == 0);
    setenv("NOTIFY_SOCKET", "", 1);
    CHECK(kr_notify_open() == 0);
}

static void bad_addresses_do_no_harm(void)
{
    char long_name[200];

    memset(long_name, 'x', sizeof long_name);
    long_name[0] = '/';
    long_name[199] = '\0';
    setenv("NOTIFY_SOCKET", long_name, 1);
    CHECK(kr_notify_open() == -EINVAL && kr_notify_ready() == 0);
    setenv("NOTIFY_SOCKET", "@", 1);
    CHECK(kr_notify_open() == -EINVAL);
    setenv("NOTIFY_SOCKET", "vsock:2:1234", 1);
    CHECK(kr_notify_open() == -EAFNOSUPPORT);
    setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
    CHECK(kr_notify_open() == -ENOENT && kr_notify_ready() == 0);
}

static void a_manager_that_comes_again(void)
{
    int fd = manager(path);

    setenv("NOTIFY_SOCKET", path, 1);
    CHECK(kr_notify_open() == 1);
    close(fd);
    CHECK(kr_notify_ready() < 0); /* it is gone */
    fd = manager(path);
    CHECK(kr_notify_open() == 1);
    close(fd);
    fd = manager(path); /* a new socket under the old name */
    CHECK(kr_notify_ready() == 1 && strcmp(received(fd), "READY=1") == 0);
    close(fd);
    unlink(path);
    kr_notify_close();
}

static void a_manager_that_does_not_read(void)
{
    cleanup_fd int fd = manager(path);
    int r = 1;

    setenv("NOTIFY_SOCKET", path, 1);
    CHECK(fd >= 0 && kr_notify_open() == 1);
    for (int i = 0; i < 100000 && r == 1; i++)
        r = kr_notify_watchdog();
    CHECK(r == -EAGAIN); /* and does not block */
    kr_notify_close();
    unlink(path);
}

static void the_watchdog_s_time(void)
{
    char pid[32];

    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    CHECK(kr_notify_watchdog_ms() == 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    CHECK(kr_notify_watchdog_ms() == 15000);
    snprintf(pid, sizeof pid, "%d", getpid());
    setenv("WATCHDOG_PID", pid, 1);
    CHECK(kr_notify_watchdog_ms() == 15000);
    snprintf(pid, sizeof pid, "%d", getppid());
    setenv("WATCHDOG_PID", pid, 1);
    CHECK(kr_notify_watchdog_ms() == 15000); /* the server is a child of the process systemd started */
    setenv("WATCHDOG_PID", "1999999999", 1);
    CHECK(kr_notify_watchdog_ms() == 0);
    setenv("WATCHDOG_PID", "x", 1);
    CHECK(kr_notify_watchdog_ms() == 0);
    unsetenv("WATCHDOG_PID");
    setenv("WATCHDOG_USEC", "-5", 1);
    CHECK(kr_notify_watchdog_ms() == 0);
    setenv("WATCHDOG_USEC", "100", 1);
    CHECK(kr_notify_watchdog_ms() == 1);
    unsetenv("WATCHDOG_USEC");
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/krait-test-notify.%d", getpid());
    RUN(a_path);
    RUN(an_abstract_name);
    RUN(without_a_manager);
    RUN(bad_addresses_do_no_harm);
    RUN(a_manager_that_comes_again);
    RUN(a_manager_that_does_not_read);
    RUN(the_watchdog_s_time);
    CHECK_DONE();
}

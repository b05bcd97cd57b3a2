/* What `krait serve` needs before it forks: bound sockets and a data directory that is the server's.
 *
 * Called by cmd_serve.c with whatever privilege krait was started with. Each failure is one line that says what, why
 * and which setting changes it. */
#include "caps.h"
#include "clock.h"
#include "exit_status.h"
#include "fd.h"
#include "id.h"
#include "landlock.h"
#include "launch.h"
#include "own_folder.h"
#include "serve.h"
#include "store_sandbox.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORE_MS 20000u /* for a store's one answer before the start; a usual one takes milliseconds */

/* ---- sockets ---- */

static socklen_t make_address(const struct kr_config_listener *l, struct sockaddr_storage *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, l->address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(l->port);
        return sizeof *v4;
    }
    if (inet_pton(AF_INET6, l->address, &v6->sin6_addr) != 1)
        return 0;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(l->port);
    return sizeof *v6;
}

static int bind_one(struct kr_serve *s, size_t i, struct kr_err *err)
{
    const struct kr_config_listener *l = &s->config->listeners[i];
    struct sockaddr_storage address;
    socklen_t len = make_address(l, &address);
    char origin[160];
    int on = 1;
    cleanup_fd int fd = len ? socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;

    if (fd < 0)
        return kr_err_set(err, KR_ERR_INVALID, len ? errno : EINVAL, "listen on %s", l->address);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    /* listen() already here: with SO_REUSEADDR two can bind a port, but only one can listen on it. */
    if (bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 1) < 0) {
        int code = errno;

        kr_config_origin(s->config, "port", origin, sizeof origin);
        if (code == EADDRINUSE) {
            s->exit_status = KR_EXIT_PORT_TAKEN;
            kr_err_set(err, KR_ERR_UNAVAILABLE, 0,
                       "port %u of %s is taken by another program (port: %s); choose one with --port", l->port,
                       l->address, origin);
            return -EADDRINUSE;
        }
        return kr_err_set(err, KR_ERR_INVALID, code, "listen on %s port %u (--host, --port, --listen)", l->address,
                          l->port);
    }
    if (getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        s->ports[i] = ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                                         : ((struct sockaddr_in6 *)&address)->sin6_port);
    s->sockets[i] = steal_fd(&fd);
    return 0;
}

int kr_serve_bind(struct kr_serve *s, struct kr_err *err)
{
    for (size_t i = 0; i < KR_CONFIG_LISTENERS_MAX; i++)
        s->sockets[i] = -1;
    for (size_t i = 0; i < s->config->listener_count; i++) {
        int r = bind_one(s, i, err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- the data directory ---- */

/* A folder that must be the server's: what it is, for a person. */
static const struct kr_own_folder data_folder = {"data", "--data", "--data or --user"},
                                  log_folder = {"log", "--log-dir", "--log-dir or --user"};

static struct kr_owner owner_of(const struct kr_serve *s)
{
    return (struct kr_owner){.uid = s->warden.engine_uid, .gid = s->warden.engine_gid};
}

static int find_user(struct kr_serve *s, struct kr_err *err)
{
    struct kr_owner owner;
    int r = kr_own_find_user(s->config->user, &owner, err);

    s->warden.engine_uid = owner.uid;
    s->warden.engine_gid = owner.gid;
    return r;
}

static int own_folder(const struct kr_serve *s, int at, const char *path, const struct kr_own_folder *f,
                      struct kr_err *err)
{
    struct kr_owner owner = owner_of(s);

    return kr_own_folder(&owner, at, path, f, err);
}

/* The same, when nothing beneath it is looked at. */
static int check_folder(const struct kr_serve *s, int at, const char *path, const struct kr_own_folder *f,
                        struct kr_err *err)
{
    int fd = own_folder(s, at, path, f, err);

    kr_fd_close(fd);
    return fd < 0 ? fd : 0;
}

/* ---- folders that are gone ---- */

/* Is there a folder of a sandbox, or an image of them? What cannot be read is not known to be gone. */
static bool has_sandboxes(int data)
{
    int fd = openat(data, "sandboxes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    bool found = false;

    if (faccessat(data, "sandboxes" KR_SHELF_IMAGE_SUFFIX, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        found = true;
    else if (!dir)
        found = errno != ENOENT;
    while (dir && !found && (e = readdir(dir)))
        found = kr_id_valid(e->d_name);
    if (dir)
        closedir(dir);
    else
        kr_fd_close(fd);
    return found;
}

/* In the child. Before: root, or the user who started us. After: the server's user without any right beyond its own,
 * within Landlock and the server's filter, for a server that was taken over may have written the store, and SQLite
 * reads it here. Failing means that it is not read. */
static int count_used(const struct kr_serve *s, uint64_t *ret, struct kr_err *err)
{
    const struct kr_landlock_path paths[] = {{"/usr", KR_LL_READ},
                                             {"/proc", KR_LL_READ},
                                             {"/dev/urandom", KR_LL_READ},
                                             {s->config->data, KR_LL_READ | KR_LL_WRITE}};
    cleanup_store struct kr_store *store = NULL;
    int r;

    if ((r = kr_become_powerless(s->warden.engine_uid, s->warden.engine_gid, err)) < 0 ||
        (r = kr_cli_confine(paths, sizeof paths / sizeof *paths, err)) < 0 ||
        (r = kr_store_open(s->config->data, 0, &store, err)) < 0)
        return r;
    return kr_store_sandbox_count_used(store, ret, err);
}

/* How many sandboxes the store says have been used. Asked in a child process, as the store belongs to the server's
 * user. 0 also where the store cannot be read: the server says why when it opens it. -errno where there is no answer in
 * time. */
static int ask_store(const struct kr_serve *s, uint64_t *ret, struct kr_err *err)
{
    uint64_t used = 0;
    int p[2], status, in_time = 1;
    pid_t pid;

    *ret = 0;
    if (pipe2(p, O_CLOEXEC) < 0)
        return 0;
    pid = fork();
    if (pid == 0) {
        ssize_t n = count_used(s, &used, err) < 0 ? -1 : write(p[1], &used, sizeof used);

        _exit(n == (ssize_t)sizeof used ? 0 : 1);
    }
    close(p[1]);
    if (pid > 0 && (in_time = kr_fd_wait(p[0], POLLIN, kr_clock_after_ms(STORE_MS))) > 0 &&
        read(p[0], &used, sizeof used) == (ssize_t)sizeof used)
        *ret = used;
    close(p[0]);
    if (pid > 0)
        (void)kill(pid, SIGKILL); /* what it has to say is said */
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (in_time > 0)
        return 0;
    return kr_err_set(err, KR_ERR_SYSTEM, 0,
                      "there are no folders of sandboxes, and %.100s/krait.db did not answer within %u s whether there "
                      "should be: restore it, or start once with --accept-loss, which does not ask",
                      s->config->data, STORE_MS / 1000),
           -ETIMEDOUT;
}

/* A store that knows sandboxes, and none of their folders there: a volume that is not mounted must not look like an
 * empty server. Before the folder is made, and before an image is. */
static int check_sandboxes(const struct kr_serve *s, int data, struct kr_err *err)
{
    uint64_t used;
    int r;

    if (s->config->box.accepts_loss || faccessat(data, "krait.db", F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
        has_sandboxes(data))
        return 0;
    r = ask_store(s, &used, err);
    if (r < 0 || used == 0)
        return r;
    return kr_err_set(err, KR_ERR_SYSTEM, 0,
                      "the folders of all %llu sandboxes are gone from %s: mount or restore it, or start once with "
                      "--accept-loss to go on with empty ones",
                      (unsigned long long)used, s->shelf),
           -ENOENT;
}

/* The store of packages: cells enter it by names that they know, and list nothing. */
static int prepare_packages(struct kr_serve *s, int data, struct kr_err *err)
{
    cleanup_fd int top = -1, wheels = -1;
    int r;

    kr_cli_find_python(s->config->cells.python, &s->python);
    if (!s->python.is_known)
        return 0;
    if ((r = top = own_folder(s, data, "packages", &data_folder, err)) < 0 ||
        (r = wheels = own_folder(s, top, "store", &data_folder, err)) < 0)
        return r;
    if (fchmod(wheels, 0711) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "the folder of packages");
    snprintf(s->wheels, sizeof s->wheels, "%s/packages/store", s->config->data);
    return 0;
}

int kr_serve_prepare_data(struct kr_serve *s, struct kr_err *err)
{
    cleanup_fd int data = -1;
    struct kr_owner owner;
    int r = find_user(s, err);

    if (r < 0)
        return r;
    s->exit_status = KR_EXIT_DATA;
    owner = owner_of(s);
    snprintf(s->shelf, sizeof s->shelf, "%s/sandboxes", s->config->data);
    r = kr_own_way(&owner, s->config->data, &data_folder, err);
    if (r >= 0)
        r = data = own_folder(s, AT_FDCWD, s->config->data, &data_folder, err);
    if (r >= 0 && (r = check_sandboxes(s, data, err)) < 0)
        s->exit_status = KR_EXIT_OURS;
    if (r >= 0)
        r = check_folder(s, data, "sandboxes", &data_folder, err);
    if (r >= 0)
        r = prepare_packages(s, data, err);
    if (r >= 0 && s->config->log_dir)
        r = check_folder(s, AT_FDCWD, s->config->log_dir, &log_folder, err);
    if (r >= 0)
        s->exit_status = 0;
    return r < 0 ? r : 0;
}

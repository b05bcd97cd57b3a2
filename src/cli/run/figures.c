/* Saving figures.
 *
 * Called by cmd_run.c before the engine is forked, and by run_app.c for each display. The engine may be another user
 * than the caller and reaches no file, so a process with the caller's uid writes what the engine hands over. Invariant:
 * a figure is written whole under a name of ours beneath the one folder that was given; nothing of the name comes from
 * the sandbox, and no link is followed. */
#include "figures.h"
#include "base64.h"
#include "caps.h"
#include "exit_status.h"
#include "fd.h"
#include "launch.h"
#include "run.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAVE_S 30 /* for one figure; a disk that takes longer loses it */

static const struct {
    const char *mime, *suffix;
    int is_text; /* as it stands, not base64 */
} kinds[] = {
    {"image/png", "png", 0}, {"image/svg+xml", "svg", 1},   {"image/jpeg", "jpg", 0},
    {"image/gif", "gif", 0}, {"application/pdf", "pdf", 0},
};

/* ---- the saver ---- */

/* What the engine asks for; the bytes follow, and an errno comes back. */
struct request {
    uint32_t kind, number;
    uint64_t len;
};

static int write_figure(int dir, int from, const struct request *req)
{
    char name[32], chunk[65536];
    cleanup_fd int fd = -1;
    int r = 0;

    snprintf(name, sizeof name, "figure-%u.%s", req->number, kinds[req->kind].suffix);
    /* The folder may be the workspace: a session's FIFO of that name must not hold us up. */
    fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0)
        r = -errno;
    for (uint64_t left = req->len; left > 0;) { /* what cannot be saved is read all the same: the next one follows */
        ssize_t n = read(from, chunk, left < sizeof chunk ? (size_t)left : sizeof chunk);

        if (n <= 0)
            return -EPIPE;
        left -= (uint64_t)n;
        if (r >= 0)
            r = kr_fd_write_all(fd, chunk, (size_t)n);
    }
    return r < 0 ? r : 0;
}

/* Before: a copy of the process as started, with the caller's rights. After: the caller's uid without capabilities, one
 * folder to write to, the system calls of the server. It believes nothing but a kind, a number and a length, and ends
 * with the engine. */
static _Noreturn void be_saver(int dir, int from)
{
    char path[32];
    struct kr_landlock_path folder = {path, KR_LL_READ | KR_LL_WRITE};
    struct request req;
    struct kr_err err;

    for (int signo = 1; signo < SIGRTMIN; signo++) /* a terminal's Ctrl-C is the engine's; EOF ends us */
        if (signo != SIGKILL && signo != SIGSTOP && signo != SIGSEGV && signo != SIGABRT)
            signal(signo, SIG_IGN);
    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    if (kr_no_new_privs(&err) < 0 || kr_caps_keep(0, &err) < 0 || kr_cli_confine(&folder, 1, &err) < 0)
        _exit(KR_EXIT_OURS);
    while (read(from, &req, sizeof req) == sizeof req) {
        int32_t answer;

        if (req.kind >= sizeof kinds / sizeof kinds[0] || req.len > KR_RUN_DISPLAY_BYTES_MAX)
            _exit(KR_EXIT_OURS);
        answer = write_figure(dir, from, &req);
        if (write(from, &answer, sizeof answer) != sizeof answer)
            break;
    }
    _exit(0);
}

static int start_saver(struct kr_figures *f, int dir, struct kr_err *err)
{
    const struct timeval patience = {.tv_sec = SAVE_S};
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "--figures: socketpair");
    f->pid = fork();
    if (f->pid == 0) {
        close(pair[0]);
        be_saver(dir, pair[1]);
    }
    close(pair[1]);
    f->saver = pair[0];
    if (f->pid < 0 || setsockopt(f->saver, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0 ||
        setsockopt(f->saver, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "--figures: start the process that saves");
    return 0;
}

int kr_figures_open(struct kr_figures *f, const char *path, struct kr_err *err)
{
    cleanup_fd int dir = -1;

    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return kr_err_set(err, KR_ERR_INVALID, errno, "--figures: cannot make \"%.100s\"", path);
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return kr_err_set(err, KR_ERR_INVALID, errno, "--figures: \"%.100s\"", path);
    return start_saver(f, dir, err);
}

void kr_figures_forget(struct kr_figures *f)
{
    f->saver = kr_fd_close(f->saver);
}

void kr_figures_close(struct kr_figures *f)
{
    kr_figures_forget(f);
    if (f->pid > 0)
        (void)waitpid(f->pid, NULL, 0); /* the last end of its socket is closed */
    f->pid = 0;
}

/* ---- the engine's side ---- */

static int send_all(int fd, const void *data, size_t len)
{
    for (const char *at = data; len > 0;) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int hand_over(struct kr_figures *f, const struct request *req, const void *data)
{
    int32_t answer = -EPIPE;
    ssize_t n = -1;
    int r = send_all(f->saver, req, sizeof *req);

    if (r >= 0)
        r = send_all(f->saver, data, req->len);
    while (r >= 0 && (n = recv(f->saver, &answer, sizeof answer, 0)) < 0 && errno == EINTR)
        ;
    if (r < 0 || n != sizeof answer) { /* it does not answer in time, or is gone: nor will it the next one */
        f->saver = kr_fd_close(f->saver);
        return r < 0 ? r : -ETIMEDOUT;
    }
    return answer;
}

static int write_file(struct kr_figures *f, uint32_t kind, const char *name, const void *data, size_t len,
                      struct kr_err *err)
{
    const struct request req = {.kind = kind, .number = f->saved + 1, .len = len};
    int r = hand_over(f, &req, data);

    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "cannot save %s", name) : 0;
}

static int save(struct kr_figures *f, uint32_t kind, const char *text, size_t len, struct kr_err *err)
{
    cleanup_free char *bytes = NULL;
    char name[32];
    ssize_t n;

    snprintf(name, sizeof name, "figure-%u.%s", f->saved + 1, kinds[kind].suffix);
    if (kinds[kind].is_text)
        return write_file(f, kind, name, text, len, err);
    while (len > 0 && text[len - 1] == '\n') /* base64.encodebytes() ends in one */
        len--;
    bytes = malloc(len + 1);
    n = bytes ? kr_base64_decode(text, len, bytes, len + 1) : -ENOMEM;
    if (n < 0)
        return kr_err_set(err, KR_ERR_INVALID, 0, "%s is not base64 and is not saved", name);
    return write_file(f, kind, name, bytes, (size_t)n, err);
}

int kr_figures_take(struct kr_figures *f, const json_t *display, struct kr_err *err)
{
    const json_t *data = json_object_get(display, "data");
    int r;

    for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const json_t *image = json_object_get(data, kinds[i].mime);

        if (!json_is_string(image))
            continue;
        if (f->saver < 0) {
            f->unsaved++;
            return 0;
        }
        r = save(f, i, json_string_value(image), json_string_length(image), err);
        if (r < 0)
            return r;
        f->saved++;
        return 1;
    }
    return 0;
}

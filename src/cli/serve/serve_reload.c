/* SIGHUP: the settings are read again, and what can change while the server runs does.
 *
 * The server is confined: it reaches no file of settings, and its user could mostly not read them. So a short-lived
 * child of the warden, with the rights that krait was started with, reads the files and keeps their texts (a "tray",
 * config_tray.h) in a memory file, whose descriptor it sends to the server. The server makes a configuration of them as
 * at the start, with the options and the environment of the start, and takes over what its table allows.
 *
 * Invariants: the server never waits for a file, and chooses none: what its user could have put in a file's place is
 * not read (config_file.c); a configuration that is wrong in any place changes nothing, and its
 * line in the log says where it is wrong; each reload ends with one line that names what changed and, if there is
 * something, one that names what waits for a restart. */
#include "config_tray.h"
#include "fd.h"
#include "install.h"
#include "job.h"
#include "log.h"
#include "loop.h"
#include "mcp.h"
#include "serve.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- before anything is forked ---- */

int kr_serve_reload_prepare(struct kr_serve *s, struct kr_err *err)
{
    int pair[2];

    s->reload_in = s->reload_out = -1;
    if (s->stdio || s->how.argc == 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "the channel of settings");
    s->reload_in = pair[0];
    s->reload_out = pair[1];
    return 0;
}

/* ---- in a child of the warden ---- */

static int send_file(int to, int fd)
{
    char byte = 0, room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(to, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* What is wrong in the files is found again by the server, who has the log: here the error only ends the reading. */
void kr_serve_reload_read(void *arg)
{
    struct kr_serve *s = arg;
    cleanup_config struct kr_config *config = NULL;
    cleanup_config_tray struct kr_config_tray tray = {.reader_uid = s->warden.engine_uid,
                                                      .reader_gid = s->warden.engine_gid};
    struct kr_config_how how = s->how;
    cleanup_fd int file = memfd_create("settings", MFD_CLOEXEC);
    int r = file < 0 ? -errno : 0;

    how.tray = &tray;
    (void)kr_config_load(&how, &config, NULL);
    if (r >= 0)
        r = kr_config_tray_write(&tray, file);
    if (r >= 0)
        r = send_file(s->reload_out, file);
    if (r < 0)
        kr_log(KR_LOG_ERROR, "settings not read again", "errno=%d", -r);
}

/* ---- in the server ---- */

static int receive_file(int from)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    const struct cmsghdr *c;
    int fd = -1;

    if (recvmsg(from, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0)
        return -errno;
    c = CMSG_FIRSTHDR(&m);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof fd))
        return -ENODATA; /* the warden has ended */
    memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* To those who have copies of their own; the profiles are shared. Every row with `reload` is here or there. */
static void hand_out(struct kr_serve *s, const char *old_key)
{
    const struct kr_config *c = s->config;
    struct kr_install_config install = c->install;

    install.blocked = c->blocked_packages;
    kr_log_set_level((enum kr_log_level)c->cells.log_level);
    s->api.config.link_ttl_ms = c->api.link_ttl_ms;
    s->api.config.max_body = c->api.max_body;
    s->api.config.max_upload = c->api.max_upload;
    kr_box_reload(s->box, &c->box);
    kr_jobs_retain(s->api.jobs, c->box.retention_ms);
    kr_install_reload(s->api.install, &install);
    kr_engine_installs(s->engine, install.enabled && s->warden.egress, &c->blocked_packages);
    kr_mcp_reload(s->mcp, &c->mcp);
    if (c->auth.api_key != old_key && kr_auth_set_key(s->api.auth, c->auth.api_key) < 0)
        kr_log(KR_LOG_ERROR, "no memory for the new key, ignoring", NULL);
}

static void take_over(struct kr_serve *s, struct kr_config *from)
{
    const char *old_key = s->config->auth.api_key;
    struct kr_config_changes changes;

    kr_config_reload(s->config, from, &s->warden.ceilings, &changes);
    hand_out(s, old_key);
    for (size_t i = 0; i < from->notes.count; i++)
        kr_log(KR_LOG_WARN, from->notes.items[i], NULL);
    kr_log(KR_LOG_INFO, "settings read again", "changed=\"%s\"", changes.changed);
    if (changes.waiting[0])
        kr_log(KR_LOG_WARN, "settings that need a restart", "changed=\"%s\"", changes.waiting);
}

static void reload_from(struct kr_serve *s, int file, struct kr_err *err)
{
    cleanup_config struct kr_config *config = NULL;
    cleanup_config_tray struct kr_config_tray tray = {0};
    struct kr_config_how how = s->how;
    int r = kr_config_tray_read(file, &tray);

    how.tray = &tray;
    if (r < 0)
        (void)kr_err_set(err, KR_ERR_SYSTEM, -r, "what was read again");
    else
        r = kr_config_load(&how, &config, err);
    if (r == 0)
        take_over(s, config);
    else
        kr_log(KR_LOG_ERROR, "settings stay as they are", "error=\"%s\"", err->msg);
}

static void on_reload_file(void *data)
{
    struct kr_serve *s = data;
    struct kr_err err = {0};
    cleanup_fd int file = receive_file(kr_watch_fd(s->reload));

    if (file >= 0 && !s->stopping)
        reload_from(s, file, &err);
    else if (file == -ENODATA)
        kr_watch_want_read(s->reload, false);
}

int kr_serve_reload_open(struct kr_serve *s, struct kr_err *err)
{
    static const struct kr_watch_calls calls = {.on_readable = on_reload_file};
    int r;

    if (s->reload_in < 0 || s->stdio)
        return 0;
    s->reload_out = kr_fd_close(s->reload_out);
    r = kr_watch_new(&s->loop, s->reload_in, &calls, s, &s->reload);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "the channel of settings");
    kr_watch_want_read(s->reload, true);
    return 0;
}

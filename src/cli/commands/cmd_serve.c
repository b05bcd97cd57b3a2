/* `krait serve`: the server.
 *
 * The process as started reads the configuration, binds the sockets, prepares the data directory and becomes the
 * warden; the server is the engine it forks, with a user of its own. Invariant: a start that fails says one line,
 * leaves nothing, and its exit status tells a taken port from a data directory from missing isolation. */
#include "commands.h"
#include "egress_start.h"
#include "exit_status.h"
#include "fd.h"
#include "launch.h"
#include "log.h"
#include "pool.h"
#include "serve.h"
#include "signals.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STOCK_MAX 2u /* cells that lie ready for a preload, to fill its pool from */

/* Builders and inits of cells are copies of the warden: what only the server needs to know ends here. So do our
 * copies of its sockets, or the kernel would take connections for as long as we live, which no process serves once
 * the server stops. */
static void forget_in_warden(void *arg)
{
    struct kr_serve *s = arg;
    cleanup_fd int null = -1;

    kr_config_forget_secrets(s->config);
    for (size_t i = 0; i < s->config->listener_count; i++)
        s->sockets[i] = kr_fd_close(s->sockets[i]);
    s->reload_in = kr_fd_close(s->reload_in);
    if (!s->stdio)
        return;
    s->in = kr_fd_close(s->in);
    s->out = kr_fd_close(s->out);
    /* So do the client's streams, which are no other process's: nothing but the server may ever write there. */
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0 && (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0))
        kr_log(KR_LOG_WARN, "stdin and stdout stay open, ignoring", "errno=%d", errno);
}

/* A client that waits for its first answer does not wait for an image to be made; one that is there is used. */
static void choose_shelf(struct kr_serve *s)
{
    const struct kr_config *c = s->config;
    char image[sizeof s->shelf + 16];

    snprintf(image, sizeof image, "%s" KR_SHELF_IMAGE_SUFFIX, s->shelf);
    s->warden.shelf = (struct kr_shelf_config){
        .path = s->shelf, .choice = (enum kr_shelf_choice)c->shelf, .size = c->shelf_size, .discard = c->shelf_discard};
    if (s->stdio && c->shelf == KR_SHELF_AUTO && access(image, F_OK) < 0)
        s->warden.shelf.choice = KR_SHELF_FOLDER;
}

/* In the engine: which image it is that is mounted, to be held against the one that has the name (box.c). */
static void note_image(void *arg, int image)
{
    struct kr_serve *s = arg;

    if (image >= 0 && fstat(image, &s->image) < 0)
        s->image = (struct stat){0};
}

/* What it must never connect to, whatever a rule says: ourselves, by a port of this machine or, where a proxy is in
 * front, by the name and the port of the public URL. */
static void choose_egress(struct kr_serve *s)
{
    struct kr_egress_config *e = &s->config->egress;
    const char *url = s->config->api.public_url;
    struct kr_web_address public;

    e->own_ports = s->ports;
    e->own_ports_count = s->config->listener_count;
    if (url && kr_web_address_parse(url, strlen(url), &public, NULL) == 0) {
        snprintf(s->own_host, sizeof s->own_host, "%s%s%s:%u", public.v6 ? "[" : "", public.host, public.v6 ? "]" : "",
                 public.port);
        s->own_hosts[0] = s->own_host;
        e->own_hosts = (struct kr_words){.items = s->own_hosts, .count = 1};
    }
    kr_cli_egress_use(&s->warden, e);
}

static int fill_warden(struct kr_serve *s, struct kr_err *err)
{
    const struct kr_config *c = s->config;
    uint32_t uid = s->warden.engine_uid, gid = s->warden.engine_gid;
    unsigned owners = c->box.user_groups ? KR_POOL_OWNERS_MAX : 0;
    size_t parked =
        c->engine.pool_max > c->engine.pool_size && c->engine.pool_size > 0 ? c->engine.pool_max : c->engine.pool_size;
    int r = kr_cli_common_apply(&c->cells, &s->warden, err);

    if (r < 0)
        return r;
    s->warden.engine_uid = uid;
    s->warden.engine_gid = gid;
    s->warden.packages = s->wheels[0] ? s->wheels : NULL;
    choose_shelf(s);
    choose_egress(s);
    s->warden.on_engine_forked = forget_in_warden;
    s->warden.on_engine_shelf = note_image;
    s->warden.on_reload = s->reload_out >= 0 ? kr_serve_reload_read : NULL;
    s->warden.lazy = s->stdio;
    if (s->workspace)
        s->warden.workspaces[s->warden.workspace_count++] = (struct kr_workspace_config){.path = s->workspace};
    if (!s->stdio) /* one client needs no stock */
        s->warden.stock = (uint32_t)(c->engine.pool_size < STOCK_MAX ? c->engine.pool_size : STOCK_MAX);
    if (c->box.max_sessions > 0)
        s->warden.max_cells = (uint32_t)(c->box.max_sessions + (parked + s->warden.stock + owners) * c->preload.count +
                                         s->warden.stock * c->preload_count + 16);
    s->warden.total_memory = c->total_memory;
    s->warden.total_processes = c->total_processes;
    s->warden.user_memory = c->user_memory;
    s->warden.user_processes = c->user_processes;
    s->warden.user_groups = c->box.user_groups;
    s->warden.ceilings = c->profiles[0].ceilings;
    for (size_t d = 1; d < KR_DIALECT_MAX_; d++)
        kr_limits_raise(&s->warden.ceilings, &c->profiles[d].ceilings);
    for (size_t i = 0; i < c->preload.count; i++)
        kr_cli_add_zygote(&c->cells, &s->warden,
                          strcmp(c->preload.items[i], "data") == 0 ? KR_PRELOAD_DATA : KR_PRELOAD_BASIC);
    for (size_t i = 0; !s->stdio && i < c->preload_count; i++) { /* behind the others: serve_app.c */
        kr_cli_add_zygote(&c->cells, &s->warden, KR_PRELOAD_TEMPLATE);
        s->warden.zygotes[s->warden.zygote_count - 1].modules = c->preloads[i].modules;
    }
    s->warden.guest_memory = c->template_zygote_memory;
    s->warden.guest_start_ms = (uint32_t)c->template_zygote_timeout_ms;
    if (c->mounts.count > KR_MOUNTS_MAX)
        return kr_err_set(err, KR_ERR_INVALID, 0, "mounts: at most %d", KR_MOUNTS_MAX);
    for (size_t i = 0; i < c->mounts.count; i++)
        s->warden.mounts[i] = (struct kr_mount_config){c->mounts.items[i].name, c->mounts.items[i].path};
    s->warden.mount_count = c->mounts.count;
    return 0;
}

static int start_server(struct kr_serve *s, int argc, char **argv, struct kr_err *err)
{
    int r;

    s->how = (struct kr_config_how){.argc = argc, .argv = argv, .environment = environ, .files = true};
    r = kr_config_load(&s->how, &s->config, err);
    if (r != 0)
        return r;
    if (s->config->transport == KR_TRANSPORT_STDIO)
        return kr_mcp_start(s, &(struct kr_mcp_spec){0}, err);
    return kr_serve_run(s, err);
}

int kr_serve_run(struct kr_serve *s, struct kr_err *err)
{
    int r;

    kr_signals_ignore_strays();
    kr_log_set_level((enum kr_log_level)s->config->cells.log_level);
    kr_log_set_format((enum kr_log_format)s->config->log_format);
    for (size_t i = 0; i < s->config->notes.count; i++)
        kr_log(KR_LOG_WARN, s->config->notes.items[i], NULL);
    if ((r = kr_serve_bind(s, err)) < 0 || (r = kr_serve_prepare_data(s, err)) < 0 ||
        (r = kr_serve_reload_prepare(s, err)) < 0 || (r = fill_warden(s, err)) < 0)
        return r;
    return kr_warden_launch(&s->warden, kr_serve_main, s, err);
}

int kr_cmd_serve(int argc, char **argv)
{
    static struct kr_serve s;
    struct kr_err err;
    int r = start_server(&s, argc, argv, &err), status;

    if (r == KR_OPT_HELP && !s.config) {
        kr_config_help(stdout);
        return fflush(stdout) != 0 ? KR_EXIT_OURS : 0;
    }
    status = r;
    if (r < 0) {
        status = kr_cli_fail("serve", &err);
        if (s.exit_status)
            status = s.exit_status;
    }
    kr_config_free(s.config);
    return status;
}

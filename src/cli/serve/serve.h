/* What the files of `krait serve` share: the command (cmd_serve.c), its sockets and folders (serve_start.c), the server
 * itself, which runs in the engine's process (serve_app.c). */
#pragma once
#include "api.h"
#include "config.h"
#include "python_facts.h"
#include "warden.h"
#include "web_address.h"
#include <stdio.h>
#include <sys/stat.h>
#include <uv.h>

/* Exit statuses of a start that fails, beside those of errors. */
#define KR_EXIT_PORT_TAKEN 98 /* EADDRINUSE */
#define KR_EXIT_DATA 73       /* the data directory: EX_CANTCREAT of sysexits(3) */

struct kr_mcp;
struct kr_package_store;
struct kr_watch;
struct kr_readiness;
struct kr_serve_mcp;

struct kr_serve {
    struct kr_config *config;
    struct kr_warden_config warden;
    struct kr_config_how how;  /* the sources of the configuration; argc 0: they are not read again */
    int reload_in, reload_out; /* serve_reload.c: files that were read again, to the server; -1 without sources */
    int sockets[KR_CONFIG_LISTENERS_MAX];
    uint16_t ports[KR_CONFIG_LISTENERS_MAX];
    char own_host[KR_WEB_HOST_ROOM + 8]; /* of the public URL, "NAME:PORT"; or "" */
    const char *own_hosts[1];
    char shelf[4096], wheels[4096]; /* folders of the data directory */
    struct kr_cli_python python;
    int exit_status; /* of a start that failed with its own */
    /* `krait mcp`: one client instead of listeners */
    bool stdio;
    int in, out;     /* its descriptors, our own open files where that can be */
    char *workspace; /* the real path of a folder of the host's, or NULL */

    /* in the engine's process */
    struct stat image; /* that is mounted over the shelf; st_ino 0: none */
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct kr_engine *engine;
    struct kr_egress *egress; /* client of the egress process */
    struct kr_store *store;
    struct kr_package_store *packages;    /* NULL: there is none, and nothing can be installed */
    struct kr_install_template *template; /* of the settings; NULL: none */
    struct kr_checkpoint *checkpoint;
    struct kr_readiness *readiness;
    struct kr_box *box;
    struct kr_guard *guard;
    struct kr_metrics *metrics;
    struct kr_monitor *watch;
    struct kr_resources_reader *resources;
    struct kr_watch *reload;   /* of reload_in */
    struct kr_timer *watchdog; /* systemd's; NULL: not asked for */
    struct kr_timer *drained;  /* the end of the grace: nothing more is accepted */
    char *ca_bundle;           /* what sandboxes with secrets_tls trust; NULL: there are none */
    struct kr_http_server *http;
    struct kr_http_route *routes; /* of it; owned */
    struct kr_api api;
    struct kr_mcp *mcp;
    struct kr_serve_mcp *local; /* serve_mcp.c: stdio, the socket in the data directory */
    bool said_ready, stopping, http_stopped, box_stopped;
    unsigned asked_to_stop;
    int status;
};

/* serve_start.c: before anything is forked. 0 or -errno with one line: what, why, the flag. */
int kr_serve_bind(struct kr_serve *s, struct kr_err *err);
int kr_serve_prepare_data(struct kr_serve *s, struct kr_err *err);
/* serve_packages.c: what is known of the interpreter, NULL: nothing; the store, in the server. */
const struct kr_package_python *kr_serve_python_facts(const struct kr_serve *s);
int kr_serve_open_packages(struct kr_serve *s, struct kr_err *err);
/* serve_secrets.c: the server leaves no core dumps; what is trusted, before the server is confined; what the egress
 * process is told first, once the store is open. 0 or -errno. */
void kr_serve_no_core(void);
void kr_serve_read_certificates(struct kr_serve *s);
int kr_serve_setup_egress(struct kr_serve *s, struct kr_err *err);
/* serve_reload.c: what SIGHUP does beside the log. The channel, before anything is forked; the warden's callback; in
 * the server, when everything else stands. 0 or -errno. */
int kr_serve_reload_prepare(struct kr_serve *s, struct kr_err *err);
void kr_serve_reload_read(void *arg);
int kr_serve_reload_open(struct kr_serve *s, struct kr_err *err);
/* cmd_serve.c: from a configuration that is loaded to the end of the server. The exit status, or -errno with err.
 * Blocks. */
int kr_serve_run(struct kr_serve *s, struct kr_err *err);

/* cmd_mcp.c: one MCP client on stdin and stdout, by joining a server or by an engine of its own; the configuration is
 * loaded. The exit status, or -errno with err. Blocks. */
struct kr_mcp_spec {
    const char *connect, *workspace;
    bool no_join;
};
int kr_mcp_start(struct kr_serve *s, const struct kr_mcp_spec *spec, struct kr_err *err);

/* serve_mcp.c: the lock and the socket of the data directory (nothing for stdio), before the server is confined;
 * local clients, when everything else stands; no new ones; all gone. */
int kr_serve_mcp_bind(struct kr_serve *s, struct kr_err *err);
int kr_serve_mcp_open(struct kr_serve *s, struct kr_err *err);
void kr_serve_mcp_stop(struct kr_serve *s);
void kr_serve_mcp_close(struct kr_serve *s);
/* cmd_setup.c: how to reach the server, for the user who started it. */
void kr_setup_hint(FILE *out, const char *url);

/* serve_events.c */
extern const struct kr_box_calls kr_serve_box_calls;

/* serve_app.c: ends everything; runs may go on for so long. Again: with the shorter grace. */
void kr_serve_stop(struct kr_serve *s, uint64_t grace_ms);
/* kr_engine_main. */
int kr_serve_main(int control, void *arg);

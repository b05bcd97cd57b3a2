/* The egress process from its first instruction to its last.
 *
 * Theory of operation. The warden forks it with one socket, an id of its own, no capability and no_new_privs
 * (warden/outlet.c). It opens what it will read, restricts itself for good (egress_confine.c), and only then looks at
 * the socket. From there on everything happens in one loop: the engine hands over listening sockets of cells with their
 * rules (egress_control.c, egress_cells.c); what they accept is judged and passed (eg_conn.c, eg_judge.c, eg_http.c,
 * eg_tunnel.c) to addresses that dial.c has checked; each connection becomes a row (egress_rows.c). The second half of
 * the room joins by eg_hooks.c. Names are resolved on the thread pool, since the C library blocks.
 *
 * Invariant: the first byte from outside is read after the process has restricted itself. */
#include "eg_conn.h"
#include "egress_parts.h"
#include "fd.h"
#include "log.h"
#include "loop.h"
#include "work.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define THREADS "16"
#define LOOKUPS_RUNNING 12u /* of those threads: the others are the hooks' */
#define LOOKUPS_WAITING 1024u
#define DESCRIPTORS_EACH 6u /* of a connection: two sockets, and two pipes where much passes */
#define DESCRIPTORS_KEPT 64u
#define FAILED 1

const struct kr_egress_limits kr_egress_limits_default = {
    .cell_connections = 128,
    .sandbox_connections = 128,
    .connections = 1024,
    .head_bytes = 16384,
    .head_ms = 10000,
    .resolve_ms = 5000,
    .connect_ms = 10000,
    .idle_ms = 5 * 60 * 1000,
    .total_ms = 60 * 60 * 1000,
    .connection_bytes = 4ull << 30,
    .hour_bytes = 16ull << 30,
    .sandbox_lookups = 4,
    .fetches = 8,
};

#define OR_DEFAULT(name)                                                                                               \
    if (l->name == 0)                                                                                                  \
    l->name = kr_egress_limits_default.name

static void fill_limits(struct kr_egress_limits *l)
{
    OR_DEFAULT(cell_connections);
    OR_DEFAULT(sandbox_connections);
    OR_DEFAULT(connections);
    OR_DEFAULT(head_bytes);
    OR_DEFAULT(head_ms);
    OR_DEFAULT(resolve_ms);
    OR_DEFAULT(connect_ms);
    OR_DEFAULT(idle_ms);
    OR_DEFAULT(total_ms);
    OR_DEFAULT(connection_bytes);
    OR_DEFAULT(hour_bytes);
    OR_DEFAULT(sandbox_lookups);
    OR_DEFAULT(fetches);
    if (l->head_bytes > kr_egress_limits_default.head_bytes) /* what the parser takes */
        l->head_bytes = kr_egress_limits_default.head_bytes;
}

/* As many descriptors as the process may have, and not more connections than these allow. */
static void fit_descriptors(struct kr_egress_limits *l)
{
    struct rlimit files;
    uint64_t most;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 && getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    most = files.rlim_cur > 2 * DESCRIPTORS_KEPT ? (files.rlim_cur - DESCRIPTORS_KEPT) / DESCRIPTORS_EACH : 8;
    if (l->connections <= most)
        return;
    kr_log_with(KR_LOG_WARN, "fewer connections than configured, for want of descriptors",
                KR_F_UINT("connections", most));
    l->connections = (uint32_t)most;
}

static void on_burial(void *data)
{
    kr_eg_conn_bury(data);
}

static int open_parts(struct kr_eg *eg, int fd, struct kr_err *err)
{
    int r;

    if ((r = kr_eg_rows_new(&eg->rows)) < 0 || (r = kr_soon_new(&eg->loop, on_burial, eg, &eg->burial)) < 0 ||
        (r = kr_timer_new(&eg->loop, kr_eg_on_open_due, eg, &eg->open_timer)) < 0 ||
        (r = kr_lane_new(&eg->loop, LOOKUPS_RUNNING, LOOKUPS_WAITING, &eg->lookups)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "the egress process");
    kr_lane_bound_each(eg->lookups, eg->limits.sandbox_lookups);
    if (kr_eg_hooks.start && (r = kr_eg_hooks.start(eg, &eg->second, err)) < 0)
        return r;
    if ((r = kr_eg_confine(eg, err)) < 0)
        return r;
    r = kr_eg_control_open(eg, fd);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "the engine's socket") : 0;
}

static void close_parts(struct kr_eg *eg)
{
    kr_eg_cells_close(eg);
    if (kr_eg_hooks.stop && eg->second)
        kr_eg_hooks.stop(eg);
    kr_eg_control_close(eg);
    kr_lane_close(eg->lookups);
    kr_soon_close(eg->burial);
    kr_timer_close(eg->open_timer);
    uv_run(&eg->loop, UV_RUN_NOWAIT);
    kr_eg_rows_free(eg->rows);
}

int kr_egress_main(int fd, const struct kr_egress_config *config)
{
    struct kr_eg eg = {.config = config, .limits = config->limits};
    struct kr_err err;

    signal(SIGPIPE, SIG_IGN); /* a closed socket is the errno of a write */
    (void)setenv("UV_THREADPOOL_SIZE", THREADS, 1);
    fill_limits(&eg.limits);
    fit_descriptors(&eg.limits);
    if (uv_loop_init(&eg.loop) < 0)
        return FAILED;
    if (open_parts(&eg, fd, &err) < 0) {
        kr_log_with(KR_LOG_ERROR, "the egress process cannot begin", KR_F_STR("error", err.msg));
        eg.status = FAILED;
    } else {
        uv_run(&eg.loop, UV_RUN_DEFAULT);
    }
    close_parts(&eg);
    return eg.status;
}

/* The room's own state, and what it offers in words.
 *
 * Called by `krait serve` (new, reload, free) and the voices. Loop thread only. */
#include "fd.h"
#include "install_internal.h"
#include "loop.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define LANE_RUNNING 2u
#define LANE_WAITING 4096u

const char *const kr_install_state_names[KR_INSTALL_STATE_MAX_ + 1] = {
    [KR_INSTALL_NOT_FOUND] = "not_found", [KR_INSTALL_INSTALLED] = "installed", [KR_INSTALL_INSTALLING] = "installing",
    [KR_INSTALL_SUCCESS] = "success",     [KR_INSTALL_FAILED] = "failed",
};
static_assert(KR_INSTALL_STATE_MAX_ == 5, "every state has its word");

static int open_parts(struct kr_install *in, const char *index, struct kr_err *err)
{
    int r = kr_install_turns_open(in, err);

    in->index = strdup(index ? index : "");
    in->config.index = in->index;
    if (r >= 0 && (!in->index || kr_lane_new(in->loop, LANE_RUNNING, LANE_WAITING, &in->lane) < 0))
        r = kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "installs");
    for (size_t i = 0; i < kr_install_kinds_count && r >= 0; i++)
        if (kr_jobs_add_kind(in->config.jobs, &kr_install_kinds[i], in) < 0)
            r = kr_err_set(err, KR_ERR_INTERNAL, 0, "jobs of installs");
    if (r >= 0)
        r = kr_install_compiler_open(in, err);
    return r < 0 ? r : kr_install_sweep_open(in, err);
}

int kr_install_new(struct uv_loop_s *loop, const struct kr_install_config *config, struct kr_install **ret_install,
                   struct kr_err *err)
{
    struct kr_install *in = calloc(1, sizeof *in);
    int r;

    if (!in)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "installs");
    in->loop = loop;
    in->config = *config;
    in->tmp = -1;
    TAILQ_INIT(&in->jobs);
    TAILQ_INIT(&in->users);
    TAILQ_INIT(&in->resolutions);
    LIST_INIT(&in->cells);
    LIST_INIT(&in->tasks);
    LIST_INIT(&in->sessions);
    r = open_parts(in, config->index, err);
    if (r < 0) {
        kr_install_free(in);
        return r;
    }
    *ret_install = in;
    return 0;
}

void kr_install_reload(struct kr_install *in, const struct kr_install_config *config)
{
    struct kr_install_config next = *config;

    next.store = in->config.store;
    next.jobs = in->config.jobs;
    next.box = in->config.box;
    next.egress = in->config.egress;
    next.packages = in->config.packages;
    next.metrics = in->config.metrics;
    next.python = in->config.python;
    next.resolver = in->config.resolver;
    next.builder = in->config.builder;
    next.compiler = in->config.compiler;
    next.index = in->index; /* of the egress process, which was started with it */
    if (next.store_max != in->config.store_max)
        kr_install_sweep_soon(in);
    in->config = next;
}

/* The store of packages goes after us: no function of ours may still be at it. They have been told to stop, and each
 * has a file or a rename at most to finish. */
static void wait_for_works(struct kr_install *in)
{
    while (in->works > 0)
        (void)uv_run(in->loop, UV_RUN_ONCE);
}

void kr_install_free(struct kr_install *in)
{
    struct kr_install_job *j;
    struct kr_install_user *u;

    if (!in)
        return;
    in->is_closing = true;
    kr_soon_close(in->soon); /* no job has a turn any more */
    in->soon = NULL;
    kr_install_looks_close(in);
    kr_install_sweep_stop(in);
    kr_install_cells_close(in);
    wait_for_works(in);
    kr_install_sweep_close(in);
    kr_install_compiler_close(in);
    kr_lane_close(in->lane);
    while ((j = TAILQ_FIRST(&in->jobs))) {
        TAILQ_REMOVE(&in->jobs, j, link);
        kr_install_job_free(j);
    }
    while ((u = TAILQ_FIRST(&in->users))) {
        TAILQ_REMOVE(&in->users, u, link);
        free(u);
    }
    kr_install_resolutions_clear(in);
    kr_fd_close(in->tmp);
    kr_install_sessions_close(in);
    free(in->index);
    free(in);
}

bool kr_install_is_on(const struct kr_install *in)
{
    return in->config.enabled && in->config.egress && in->config.packages && in->config.python;
}

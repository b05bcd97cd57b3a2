/* The room's own state, and what it offers in words.
 *
 * Called by `krait serve` (new, reload, free) and the voices. Loop thread only. */
#include "install_internal.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const kr_install_state_names[KR_INSTALL_STATE_MAX_] = {
    [KR_INSTALL_NOT_FOUND] = "not_found", [KR_INSTALL_INSTALLED] = "installed", [KR_INSTALL_INSTALLING] = "installing",
    [KR_INSTALL_SUCCESS] = "success",     [KR_INSTALL_FAILED] = "failed",
};
static_assert(KR_INSTALL_STATE_MAX_ == 5, "every state has its word");

int kr_install_new(struct uv_loop_s *loop, const struct kr_install_config *config, struct kr_install **ret_install,
                   struct kr_err *err)
{
    struct kr_install *in = calloc(1, sizeof *in);
    int r;

    if (!in)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "installs");
    in->loop = loop;
    in->config = *config;
    in->index = strdup(config->index ? config->index : "");
    r = in->index ? 0 : -ENOMEM;
    in->config.index = in->index;
    if (r < 0) {
        kr_install_free(in);
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "installs");
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
    next.index = in->index; /* of the egress process, which was started with it */
    in->config = next;
}

void kr_install_free(struct kr_install *in)
{
    if (!in)
        return;
    free(in->index);
    free(in);
}

bool kr_install_is_on(const struct kr_install *in)
{
    return in->config.enabled && in->config.egress && in->config.packages;
}

int kr_install_start(struct kr_install *in, const struct kr_caller *who, const struct kr_install_ask *ask,
                     struct kr_job **ret_job, struct kr_err *err)
{
    (void)in, (void)who, (void)ask, (void)ret_job;
    return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "packages cannot be installed");
}

json_t *kr_install_result(struct kr_install *in, const struct kr_store_job *row)
{
    (void)in, (void)row;
    return NULL;
}

void kr_install_task_forget(struct kr_install_task *task)
{
    (void)task;
}

int kr_install_list(struct kr_install *in, const struct kr_caller *who, const char *sandbox, bool with_system,
                    kr_install_list_fn *fn, void *data, struct kr_install_task **ret_task, struct kr_err *err)
{
    (void)in, (void)who, (void)sandbox, (void)with_system, (void)fn, (void)data, (void)ret_task;
    return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "packages cannot be listed");
}

int kr_install_status(struct kr_install *in, const struct kr_caller *who, const char *sandbox, const char *name,
                      kr_install_status_fn *fn, void *data, struct kr_install_task **ret_task, struct kr_err *err)
{
    (void)in, (void)who, (void)sandbox, (void)name, (void)fn, (void)data, (void)ret_task;
    return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "packages cannot be listed");
}

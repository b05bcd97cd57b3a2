/* What the kernel has counted for a session, read without a word to the warden.
 *
 * Called at a run's end, where a question and its answer would take longer than a short run does. Invariant: what is given is this session's own. Its
 * cgroup folder goes to another cell only after the warden has said ENDED: so what was read counts only if nothing of the warden's waits unread. */
#include "counters.h"
#include "fd.h"
#include "engine_internal.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int look(const void *arg, unsigned hier, const char *file, const char *key, uint64_t *ret)
{
    const struct kr_session *s = arg;
    char folder[KR_GROUP_NAME_ROOM], path[96];

    kr_group_name(s->group, folder);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    cleanup_fd int fd = openat(s->engine->hier_dirs[hier], path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : kr_counter_look(fd, key, ret);
}

void kr_session_usage_done(struct kr_engine *e)
{
    while (e->hier_count > 0)
        kr_fd_close(e->hier_dirs[--e->hier_count]);
}

int kr_session_usage(const struct kr_session *s, struct kr_usage *ret)
{
    struct kr_engine *e = s->engine;
    int r = 0;

    memset(ret, 0, sizeof *ret);
    if (e->hier_count == 0)
        return -ENOENT;
    for (unsigned i = 0; i < e->hier_count && r >= 0; i++)
        r = kr_counters_read(&e->hello.hier[i], i, look, s, ret);
    if (r == -EACCES || r == -EPERM) { /* and it will not be better next time */
        kr_log(KR_LOG_INFO, "the warden is asked for each run's counters: they cannot be read here", "errno=%d", -r);
        kr_session_usage_done(e);
    }
    if (r < 0)
        return r;
    return kr_wc_is_silent(e->wc) && ret->cpu_ns >= s->usage.cpu_ns ? 0 : -EAGAIN;
}

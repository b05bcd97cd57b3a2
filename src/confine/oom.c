/* /proc/PID/oom_score_adj. Called by the warden: once for itself before it forks anything, by the egress process, and
 * for each session before that is let go. Invariant: no process of a cell is spared where one of krait's own is killed.
 *
 * Raising needs no privilege. A process may lower its own value again, down to the last one that was set by a writer
 * with CAP_SYS_RESOURCE; Landlock lets no session write there. */
#include "oom.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define PROTECTED "-900" /* not -1000: a process of ours that leaks memory must still be one that can be killed */
#define EXPOSED 1000u
#define SHARED_MAX 500u

static int set_own(const char *score, struct kr_err *err)
{
    int r = kr_fd_write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", score);
    if (r == -EACCES || r == -EROFS || r == -ENOENT)
        return 0;
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "say who is killed first where memory runs out") : 0;
}

int kr_oom_protect(struct kr_err *err)
{
    return set_own(PROTECTED, err);
}

int kr_oom_unprotect(struct kr_err *err)
{
    return set_own("0", err);
}

unsigned kr_oom_shared(pid_t zygote, uint64_t memory)
{
    char path[48], text[128];
    uint64_t pages = 0, share;
    snprintf(path, sizeof path, "/proc/%d/statm", zygote);
    if (kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text) <= 0 || sscanf(text, "%*u %" SCNu64, &pages) != 1)
        pages = 0;
    share = memory > 0 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) * 1000 / memory : 0;
    return share < 1 ? 1 : share > SHARED_MAX ? SHARED_MAX : (unsigned)share;
}

int kr_oom_expose(pid_t pid, unsigned shared, struct kr_err *err)
{
    char path[48], text[16];
    int r;
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", pid);
    snprintf(text, sizeof text, "%u", EXPOSED - (shared < SHARED_MAX ? shared : SHARED_MAX));
    r = kr_fd_write_file_at(AT_FDCWD, path, text);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "make the session the first to be killed for memory") : 0;
}

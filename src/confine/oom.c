/* /proc/PID/oom_score_adj. Called by the warden: once for itself before it forks anything, and for each session before
 * that is let go. Invariant: no process of a cell is spared where one of krait's own is killed.
 *
 * Raising needs no privilege. A process may lower its own value again, down to the last one that was set by a writer
 * with CAP_SYS_RESOURCE; Landlock lets no session write there. */
#include "oom.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define PROTECTED "-900" /* not -1000: a process of ours that leaks memory must still be one that can be killed */
#define EXPOSED "1000"

void kr_oom_protect(void)
{
    (void)kr_fd_write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", PROTECTED);
}

int kr_oom_expose(pid_t pid, struct kr_err *err)
{
    char path[48];
    int r;
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", pid);
    r = kr_fd_write_file_at(AT_FDCWD, path, EXPOSED);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "make the session the first to be killed for memory") : 0;
}

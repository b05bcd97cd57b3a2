/* Whom the kernel kills first where memory runs out, of the machine or of a cgroup around krait: sessions before
 * anything else of the machine, krait's own processes after everything else. */
#pragma once
#include "err.h"
#include <sys/types.h>

/* Protects the calling process and what it will fork. Needs CAP_SYS_RESOURCE; without it things stay as they are. */
void kr_oom_protect(void);
/* Makes a process, and what it will fork, the first to be killed. 0, or -errno with err. */
int kr_oom_expose(pid_t pid, struct kr_err *err);

/* Whom the kernel kills first where memory runs out, of the machine or of a cgroup around krait: sessions before
 * anything else of the machine, krait's own processes after everything else, but for the egress process. */
#pragma once
#include "err.h"
#include <stdint.h>
#include <sys/types.h>

/* Protects the calling process and what it will fork. Needs CAP_SYS_RESOURCE; without it, or where /proc is not to be
 * written, things stay as they are. 0, or -errno with err. */
int kr_oom_protect(struct kr_err *err);
/* As any process of the machine: of one of ours that can be started again. */
int kr_oom_unprotect(struct kr_err *err);
/* What a session shares with its zygote, in thousandths of `memory`: the kernel counts it as the session's size, though
 * its end frees none of it. At least 1. */
unsigned kr_oom_shared(pid_t zygote, uint64_t memory);
/* Makes a process, and what it will fork, the first to be killed, by what it has beyond `shared`. 0, or -errno with
 * err. */
int kr_oom_expose(pid_t pid, unsigned shared, struct kr_err *err);

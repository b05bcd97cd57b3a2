/* The syscall filters: rows with reasons, compiled to balanced trees. Called by the zygote (compile once, install the
 * common part), the session (install the rest) and the server (the whole of its own). Invariant: a number the table
 * does not know is ENOSYS; a call it knows and refuses is EPERM, unless its row says which other error lets callers go
 * on. */
#pragma once
#include "err.h"
#include <linux/filter.h>
#include <stddef.h>
#include <stdio.h>

enum kr_seccomp_profile {
    KR_SECCOMP_CELL_NONE,                     /* inside a cell, network none */
    KR_SECCOMP_CELL_LOOPBACK,                 /* inside a cell, AF_INET and AF_INET6 allowed (own network namespace) */
    KR_SECCOMP_CONTAINED,                     /* no namespaces: process-control calls on oneself only, no socket() */
    KR_SECCOMP_SESSIONS_,                     /* those above are sessions' */
    KR_SECCOMP_SERVER = KR_SECCOMP_SESSIONS_, /* krait's own unprivileged process */
    KR_SECCOMP_EGRESS,                        /* the process that connects to the outside */
    KR_SECCOMP_MAX_,
};

/* A profile's filter is one program, or two that give the same answers together: what is common to all sessions of a
 * zygote, which takes it once, and the rest, which each session adds. The first lets through what is judged by the
 * second; of two refusals the kernel takes the later filter's. GUEST is what a zygote takes besides the common part
 * before it imports the packages of a template: of what that lets through, only what makes a session. */
enum kr_seccomp_part { KR_SECCOMP_WHOLE, KR_SECCOMP_COMMON, KR_SECCOMP_REST, KR_SECCOMP_GUEST };

/* A compiled filter. */
struct kr_seccomp {
    struct sock_filter *insns;
    unsigned short count;
};

/* Compiles the table for a profile. The common part is the same for both kinds of cell. May allocate. 0 or -errno. */
int kr_seccomp_compile(enum kr_seccomp_profile profile, enum kr_seccomp_part part, struct kr_seccomp *ret,
                       struct kr_err *err);
void kr_seccomp_done(struct kr_seccomp *s);
/* Installs it on the calling thread; no_new_privs must be set. 0 or -errno. */
int kr_seccomp_install(const struct kr_seccomp *s, struct kr_err *err);
/* `krait dump seccomp`: every row as a table: number, name, what happens per profile, condition, reason. */
int kr_seccomp_dump(FILE *out);
/* What the filter answers to a call, by running the BPF program in user space: SECCOMP_RET_*; for unit tests. */
unsigned kr_seccomp_simulate(const struct kr_seccomp *s, unsigned arch, int nr, const unsigned long long args[6]);

/* The layers of the staircase, as bits of a FORK request's `pad`. Shared by layers.c, which asks, and zygote.c, which
 * obeys. */
#pragma once

#define KR_BENCH_CGROUP 1u     /* wait for S_GO, which comes when the parent has attached us; rlimits too */
#define KR_BENCH_NAMESPACES 2u /* enter a cell: namespaces, uid 1000, no capability */
#define KR_BENCH_INIT 4u       /* that cell is built in the measured time, not before */
#define KR_BENCH_LANDLOCK 8u
#define KR_BENCH_SECCOMP 16u
#define KR_BENCH_ALL 31u

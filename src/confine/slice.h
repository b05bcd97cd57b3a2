/* How long a process of ours may keep a processor that somebody else waits for. */
#pragma once
#include <stdint.h>

/* The warden and the engine do little at a time, and everybody waits for them. */
#define KR_SLICE_OWN_NS 100000u
/* Sessions: less than the kernel's own 0.7 ms and more, so that one among many that have much to do answers soon. */
#define KR_SLICE_SESSION_NS 500000u

/* Of the calling thread and whatever it starts. A share of the processor it is not. Kernels before 6.12, and a container's filter, do not take it, and
 * then it is as ever: so there is no answer. */
void kr_slice_set(uint64_t ns);

/* How long a process of ours may keep a processor that another process waits for. */
#pragma once
#include <stdint.h>

/* The warden and the engine do little at a time, and every session waits for them. */
#define KR_SLICE_OWN_NS 100000u
/* Sessions: less than the kernel's own 0.7 ms and more, so that one among many that have much to do answers soon. */
#define KR_SLICE_SESSION_NS 500000u

/* Sets the slice of the calling thread and of what it starts; its share of the processor stays the same. Kernels before
 * 6.12 and a container's filter ignore or refuse the call, and nothing changes then: so nothing is returned. */
void kr_slice_set(uint64_t ns);

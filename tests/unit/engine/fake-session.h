/* A session without Python, for the fake warden and the fake holder: it speaks the frames of a session's channel and
 * does what the first word of its code says. Invariant: it dies with its parent. */
#pragma once
#include <stdbool.h>
#include <stdnoreturn.h>

/* Runs in a child whose descriptors 0, 1 and 2 are the session's. lame: it says that it is not confined. */
noreturn void fake_session(int channel, bool lame);

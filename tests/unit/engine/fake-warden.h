/* A warden without cells for test-engine.c: a forked process that speaks the control protocol and forks sessions that
 * are small C programs. A session does what the first word of its code says. Invariant: nothing outlives the control
 * socket: the sessions die with their parent, and the parent exits at its end of file. */
#pragma once

/* Forks it; returns our end of the control socket. */
int fake_warden_start(void);

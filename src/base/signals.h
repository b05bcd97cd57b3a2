/* Signals that mean nothing to krait's processes. */
#pragma once
#include <signal.h>

/* Those that end a process by default although no fault is behind them, and that no process of a service has a use for:
 * SIGUSR1, SIGUSR2, SIGALRM and the like. Neither those that stop it (SIGTERM, SIGINT, SIGHUP, SIGQUIT) nor faults. */
void kr_signals_strays(sigset_t *ret_set);
/* Ignores them in this process and in what it forks; execve(2) keeps that, too. */
void kr_signals_ignore_strays(void);

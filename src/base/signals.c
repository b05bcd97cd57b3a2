/* The set of signals that must not end a service.
 *
 * Called by `krait serve` and `krait mcp` before anything is forked, by the keeper of the shelf, and before a zygote is
 * executed, which blocks them: what it ignored its sessions would ignore. Invariant: one list, for every process. */
#include "signals.h"

static const int strays[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGPIPE};

void kr_signals_strays(sigset_t *ret_set)
{
    sigemptyset(ret_set);
    for (unsigned i = 0; i < sizeof strays / sizeof *strays; i++)
        sigaddset(ret_set, strays[i]);
}

void kr_signals_ignore_strays(void)
{
    for (unsigned i = 0; i < sizeof strays / sizeof *strays; i++)
        (void)signal(strays[i], SIG_IGN);
}

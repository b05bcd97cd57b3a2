/* The files of a cell's /proc and /sys that do not change: what kind of machine it is. */
#pragma once

/* Makes them in the folder `at`, which is empty: those that all cells share, and for each number of processors from 1
 * to `cpus` a folder of that name. Called by the builder while it still sees the host's /proc. 0, or -errno. */
int kr_machine_write(const char *at, unsigned cpus);

/* The options of every command that starts cells; of `krait serve` they are settings. launch.h turns them into the
 * warden's configuration. */
#pragma once
#include <stdbool.h>

struct kr_cli_common {
    const char *python;
    int level; /* enum kr_level, -1: the best there is */
    bool allow_contained;
    int log_level; /* enum kr_log_level, -1: not given */
    bool verbose;
};

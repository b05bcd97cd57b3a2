/* The watch's memory, for watch.c and health.c alone. */
#pragma once
#include "watch.h"

struct kr_monitor {
    struct kr_monitor_config config;
};

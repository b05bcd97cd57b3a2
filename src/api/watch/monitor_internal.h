/* The watch's memory, for monitor.c and health.c alone. */
#pragma once
#include "monitor.h"

struct kr_monitor {
    struct kr_monitor_config config;
};

/* The shelf of a data directory, for a command: mounted in a namespace of its own, beside a server or without one. */
#pragma once
#include "shelf.h"

struct kr_shelf_opened {
    char path[4096 + 16];
    struct kr_shelf_plan plan;
    struct kr_shelf shelf;
};

/* Brings up what is there, and makes nothing. 0, and kr_shelf_down(&ret->shelf) ends it; or -errno with err. */
int kr_shelf_open(const char *data, struct kr_shelf_opened *ret, struct kr_err *err);

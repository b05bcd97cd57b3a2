/* Figures that a run displays, saved as files. */
#pragma once
#include "err.h"
#include <jansson.h>

struct kr_figures {
    int dir; /* where they go, -1: nowhere */
    unsigned saved, unsaved;
};

/* Makes the folder if it is not there and opens it. 0 or -errno. */
int kr_figures_open(struct kr_figures *f, const char *path, struct kr_err *err);
void kr_figures_close(struct kr_figures *f);
/* Saves the image of a display, if it has one, as figure-1.png and so on. 1 saved, 0 no image or nowhere to save it,
 * -errno. */
int kr_figures_take(struct kr_figures *f, const json_t *display, struct kr_err *err);

/* Figures that a run displays, saved as files. */
#pragma once
#include "err.h"
#include <jansson.h>

struct kr_figures {
    int saver; /* a process that writes them, -1: none */
    int pid;   /* its, in the process as started; 0: none */
    unsigned saved, unsaved;
};

/* Makes the folder if it is not there, and starts a process with our rights that writes to it and nothing else. 0 or
 * -errno. */
int kr_figures_open(struct kr_figures *f, const char *path, struct kr_err *err);
/* In a process that saves none: what is left of it is the engine's. */
void kr_figures_forget(struct kr_figures *f);
/* Waits for the saver, which ends when the engine has. */
void kr_figures_close(struct kr_figures *f);
/* Saves the image of a display, if it has one, as figure-1.png and so on. 1 saved, 0 no image or nowhere to save it,
 * -errno. */
int kr_figures_take(struct kr_figures *f, const json_t *display, struct kr_err *err);

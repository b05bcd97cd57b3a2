/* The warden's start: what machine this is, the engine's fork, folders and locks; and the way back. */
#pragma once
#include "warden_internal.h"

int kr_setup(struct kr_warden *w, kr_engine_main *engine, void *arg, struct kr_err *err);
/* What a lazy kr_setup() left out. On failure what it made so far stays for kr_setup_undo(). */
int kr_setup_late(struct kr_warden *w, struct kr_err *err);
/* Brings the shelf up where it is not yet, and its keeper. */
int kr_setup_shelf(struct kr_warden *w, struct kr_err *err);
/* The keeper alone, of a warden without a shelf. */
int kr_setup_keeper(struct kr_warden *w, struct kr_err *err);
void kr_setup_undo(struct kr_warden *w);
/* Layers every cell here will have. */
uint32_t kr_setup_layers(const struct kr_warden *w);

/* Opens and unpacks made wheels, and says what came of it. */
#pragma once
#include "err.h"
#include "wheel-maker.h"
#include "wheel.h"

extern struct kr_err err; /* of the last call */
extern char scratch[];    /* for mkdtemp() first */

/* A new empty folder in the scratch folder. */
int new_folder(void);
void remove_scratch(void);
/* How many names are in it. */
int entries_in(int folder);
/* Opens and unpacks, into *ret_folder if it is not NULL. 0, 1: refused before anything was written, 2: while
 * unpacking, -1: refused when something was written. */
int take_as(const struct made_wheel *w, const char *name, const struct kr_wheel_limits *limits, int *ret_folder);
int take(const struct made_wheel *w);
/* Was it refused, with these words? Says what came if not. */
bool refused(const char *what, int r, const char *words);
bool was_taken(const char *what, int r);

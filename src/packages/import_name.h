/* From the module that an import did not find to what its author does next: which distribution has it, and how it is
 * installed. Pure; any thread.
 *
 * Called by the engine for the hint of a run that ended with ModuleNotFoundError (hint.c), and by whoever installs what
 * is missing (kr_import_installable()). */
#pragma once
#include "requirement.h"
#include "words.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A module and the distribution that has it, or the module that took its place. */
struct kr_import_row {
    const char *module, *other;
};
extern const struct kr_import_row kr_import_rows[];
extern const size_t kr_import_rows_count;
extern const struct kr_import_row kr_import_old[];
extern const size_t kr_import_old_count;

#define KR_IMPORT_MODULE_MAX 100u /* characters of a dotted name */
#define KR_IMPORT_MODULE_ROOM 101u
#define KR_IMPORT_NAME "NAME" /* in a call: where the distribution goes */

/* An import that failed, as far as its session can tell. */
struct kr_import_miss {
    char module[KR_IMPORT_MODULE_ROOM]; /* "cv2"; dotted only where a part of a namespace is missing */
    char near[KR_IMPORT_MODULE_ROOM];   /* a module that is there and looks like it; "" */
    char there[256];                    /* some that are there, for who cannot install any: "numpy, pandas"; "" */
    bool standard;                      /* a module of the standard library, which this interpreter lacks */
};
/* Reads what a session sends: "module NAME NEAR|- THERE|-", or "standard NAME". False: it is something else. */
bool kr_import_miss_read(const char *text, struct kr_import_miss *ret_miss);

struct kr_import_rules {
    const char *call; /* what installs a distribution, with NAME in its place; NULL: nothing can be installed */
    struct kr_words blocked;
};
/* The line for its author, "" if there is nothing to say. A name on the block list is not recommended. */
void kr_import_advise(const struct kr_import_miss *miss, const struct kr_import_rules *rules, char *buf, size_t size);
/* May it be installed without asking its author? Not what is blocked, a look-alike of a name that is well known, close
 * to a module that is there, or a module of Python itself. */
bool kr_import_installable(const struct kr_import_miss *miss, const struct kr_words *blocked,
                           char ret_distribution[KR_REQ_NAME_ROOM]);

/* The table as a page. */
void kr_import_dump(FILE *out);

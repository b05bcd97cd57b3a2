/* Which names may be installed: the block list, modules of Python itself, and names that look like those of popular
 * distributions. Pure; any thread.
 *
 * Called by jobs for every requirement before anything runs (kr_package_judge()), and for every distribution that a
 * resolver chose (kr_package_judge_name(): dependencies, too). */
#pragma once
#include "requirement.h"
#include "words.h"
#include <stdbool.h>

enum kr_package_verdict {
    KR_PACKAGE_FINE,
    KR_PACKAGE_BLOCKED,    /* on the block list: refused, a warning in the log, counted as blocked */
    KR_PACKAGE_STDLIB,     /* a module of Python itself: refused, and explained */
    KR_PACKAGE_QUESTIONED, /* looks like a popular name: refused unless the caller insists */
    KR_PACKAGE_VERDICT_MAX_,
};
extern const char *const kr_package_verdict_names[KR_PACKAGE_VERDICT_MAX_];

struct kr_package_rules {
    struct kr_words blocked; /* the setting blocked-packages; compared by canonical name */
    bool allow_similar;      /* the caller said `allow_similar: true` */
};

struct kr_package_judgement {
    enum kr_package_verdict verdict;
    char resembles[KR_REQ_NAME_ROOM]; /* of QUESTIONED */
    char text[512];                   /* for a person; "" if FINE */
};

/* The texts:
 * BLOCKED      Package os is blocked for security reasons
 * STDLIB       json is a module of Python itself: import it, nothing has to be installed
 * QUESTIONED   "reqeusts" looks like "requests", which is well known: install that, or … */
void kr_package_judge(const struct kr_package_rules *rules, const struct kr_requirement *r,
                      struct kr_package_judgement *ret_judgement);
/* The block list alone: for what others require. */
void kr_package_judge_name(const struct kr_package_rules *rules, const char *name,
                           struct kr_package_judgement *ret_judgement);
/* Is it in the table of well-known names? */
bool kr_package_is_popular(const char *canonical);
/* Is it a module of the standard library (Python 3.8 to 3.13)? */
bool kr_package_is_stdlib(const char *module);
/* The popular name that this one could be taken for, or NULL: none, or it is popular itself. */
const char *kr_package_lookalike(const char *canonical);

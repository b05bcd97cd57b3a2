/* Requirements by the grammar of PEP 508, without what could lead elsewhere: no `name @ address`, no options, no paths,
 * nothing for a shell. Pure; any thread.
 *
 * Called by jobs before anything of a request is used, and for the links of an index. Invariant: what a parser here
 * takes consists of a name, extras, specifiers and a marker of the grammar, and `text` is written anew from these, so
 * that no other program reads more into it. */
#pragma once
#include "marker.h"
#include "pkg_version.h"
#include <stdbool.h>
#include <stddef.h>

struct kr_err;

#define KR_REQ_NAME_MAX 100u /* characters of a name or extra */
#define KR_REQ_NAME_ROOM 101u
#define KR_REQ_MAX 2048u /* bytes of one requirement */
#define KR_REQ_EXTRAS_MAX 16u
#define KR_REQ_SPECS_MAX 16u
#define KR_REQ_HASHES_MAX 64u         /* --hash of one requirement */
#define KR_REQS_MAX 256u              /* requirements of a list */
#define KR_REQS_TEXT_MAX (256u << 10) /* bytes of a list */

struct kr_requirement {
    char name[KR_REQ_NAME_ROOM];                      /* as it was written */
    char canonical[KR_REQ_NAME_ROOM];                 /* PEP 503: lower case, runs of - _ . are one - */
    char extras[KR_REQ_EXTRAS_MAX][KR_REQ_NAME_ROOM]; /* canonical */
    unsigned extra_count;
    struct kr_pkg_spec specs[KR_REQ_SPECS_MAX];
    unsigned spec_count;
    struct kr_marker *marker; /* NULL: always */
    char *text;               /* for a resolver: "numpy[x,y]>=1,<2 ; python_version >= \"3\"" */
    bool insists;             /* "name!": the caller means this name although it looks like another */
    char (*hashes)[65];       /* 64 lower-case hex digits each, of requirements.txt's --hash=sha256: */
    unsigned hash_count;
    unsigned line; /* of requirements.txt, from 1; 0 elsewhere */
};

/* Writes the canonical form of a name (PEP 503); false if it is none, or too long. */
bool kr_requirement_canonical(const char *name, size_t len, char ret_canonical[KR_REQ_NAME_ROOM]);

/* One requirement, all of the text. The error names the position (from 1) and the reason. New. */
int kr_requirement_parse(const char *text, size_t len, struct kr_requirement **ret_requirement, struct kr_err *err);
void kr_requirement_free(struct kr_requirement *r);

/* Does this version do? Markers are not looked at; a pre-release does if a specifier names one, or if there is no
 * specifier that says otherwise and `pre` is true. */
bool kr_requirement_takes(const struct kr_requirement *r, const char *version, bool pre);
/* Is it for this Python? Pass the extras that were asked for in env's KR_MARKER_EXTRA one at a time; "" is none. */
bool kr_requirement_applies(const struct kr_requirement *r, const struct kr_marker_env *env);
/* May a file of this hash (64 hex digits) be installed for it: no --hash was given, or this one. */
bool kr_requirement_hash_fits(const struct kr_requirement *r, const char *sha256);

struct kr_requirements {
    struct kr_requirement **items;
    size_t count;
};
void kr_requirements_done(struct kr_requirements *list);

/* A line of requirements between blanks or commas: "pandas numpy>=2, requests [socks] <3". At most KR_REQS_MAX. An
 * empty line gives an empty list. What was in *ret_list is not freed. */
int kr_requirements_words(const char *text, size_t len, struct kr_requirements *ret_list, struct kr_err *err);
/* The text of a requirements.txt: comments, continued lines, --hash=sha256:…. Every other option, address or path is
 * refused by its name, with the number of the line. */
int kr_requirements_file(const char *text, size_t len, struct kr_requirements *ret_list, struct kr_err *err);

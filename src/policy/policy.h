/* The policy of a run: which modules its code may import and what else it may do, as governance within the walls of its
 * cell. docs/design/policy.md.
 *
 * A policy is a value: a mode, profiles, and perhaps a list of modules in the place of those of the profiles. It is
 * copied by assignment. It can be narrowed, by a sandbox's settings and again by a run, and never widened. */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_json;

enum kr_policy {
    KR_POLICY_OPEN,       /* all of Python: the cell is what holds it */
    KR_POLICY_RESTRICTED, /* code is judged before it runs and watched while it runs */
    KR_POLICY_MAX_,
};
extern const char *const kr_policy_names[KR_POLICY_MAX_ + 1]; /* NULL terminated */

/* A profile is a list of modules, and under `restricted` also a right: without NETWORK a cell has no socket, without
 * FILESYSTEM its workspace is read-only. */
enum kr_policy_profile {
    KR_POLICY_BASIC, /* every restricted policy has it */
    KR_POLICY_DATA_SCIENCE,
    KR_POLICY_NETWORK,
    KR_POLICY_FILESYSTEM,
    KR_POLICY_PROFILE_MAX_,
};
#define KR_POLICY_BIT(profile) (1u << (profile))
#define KR_POLICY_PROFILES_ALL ((1u << KR_POLICY_PROFILE_MAX_) - 1)

struct kr_policy_profile_row {
    const char *name;
    const char *const *modules; /* NULL terminated, sorted; each with its submodules */
    const char *right;          /* what it gives beside its modules, as a phrase; NULL: nothing */
    const char *help;           /* a sentence */
};
extern const struct kr_policy_profile_row kr_policy_profiles[KR_POLICY_PROFILE_MAX_];
extern const char *const kr_policy_profile_names[KR_POLICY_PROFILE_MAX_ + 1]; /* NULL terminated */

#define KR_POLICY_MODULE_MAX 128u   /* bytes of a module's name */
#define KR_POLICY_IMPORTS_MAX 128u  /* modules of a list */
#define KR_POLICY_IMPORTS_ROOM 2048 /* of a list as text */

struct kr_policy_spec {
    enum kr_policy mode;
    uint32_t profiles; /* bits of enum kr_policy_profile; 0 with OPEN */
    bool has_imports;  /* `imports` counts, in the place of the profiles' modules; an empty list allows none */
    char imports[KR_POLICY_IMPORTS_ROOM]; /* "a,b.c": these modules and what is below them */
};

/* What is asked for: members that are absent change nothing. */
struct kr_policy_ask {
    bool has_mode, has_profiles, has_imports;
    enum kr_policy mode;
    uint32_t profiles;
    char imports[KR_POLICY_IMPORTS_ROOM];
};

/* ---- from text: 0, or negative with err (KR_ERR_INVALID), which names the setting ---- */

/* "open" or "restricted". */
int kr_policy_ask_mode(struct kr_policy_ask *ask, const char *text, struct kr_err *err);
/* Adds one profile; `basic` is always among them. */
int kr_policy_ask_profile(struct kr_policy_ask *ask, const char *name, struct kr_err *err);
/* Begins an empty list, or an empty set of profiles, so that none is asked for unless more is added. */
void kr_policy_ask_no_imports(struct kr_policy_ask *ask);
void kr_policy_ask_basic(struct kr_policy_ask *ask);
/* Adds one module to the list. One that is there already is not added again. */
int kr_policy_ask_import(struct kr_policy_ask *ask, const char *module, struct kr_err *err);
/* Words with commas or spaces between them, as options and variables have them. */
int kr_policy_ask_profiles_text(struct kr_policy_ask *ask, const char *text, struct kr_err *err);
int kr_policy_ask_imports_text(struct kr_policy_ask *ask, const char *text, struct kr_err *err);
/* Nothing is asked for. */
bool kr_policy_ask_is_empty(const struct kr_policy_ask *ask);

/* ---- narrowing ---- */

/* What holds after `ask`, where `has` held before; `whose` has it: "the server", "the sandbox". Profiles or imports
 * without a mode ask for `restricted`; `restricted` without profiles is what was there, or of an open policy `basic`.
 * 0; or -ERANGE with err that names the setting, if it is more than `has`; or -EINVAL if it contradicts itself. */
int kr_policy_narrow(const struct kr_policy_spec *has, const struct kr_policy_ask *ask, const char *whose,
                     struct kr_policy_spec *ret, struct kr_err *err);
/* The same, but what is more than `has` is left out, and nothing is refused: for what was asked for under a wider
 * policy. */
void kr_policy_clip(const struct kr_policy_spec *has, const struct kr_policy_ask *ask, struct kr_policy_spec *ret);
/* `a` and `b` give the same rights: they may differ in modules. */
bool kr_policy_same_rights(const struct kr_policy_spec *a, const struct kr_policy_spec *b);
bool kr_policy_is_same(const struct kr_policy_spec *a, const struct kr_policy_spec *b);

/* ---- what holds ---- */

static inline bool kr_policy_has(const struct kr_policy_spec *p, enum kr_policy_profile profile)
{
    return p->mode == KR_POLICY_OPEN || (p->profiles & KR_POLICY_BIT(profile));
}

/* May this module be imported: it, or what a dotted prefix of it names, is allowed. */
bool kr_policy_allows(const struct kr_policy_spec *p, const char *module);
/* The profile of which this module is a part, or KR_POLICY_PROFILE_MAX_: for advice. */
enum kr_policy_profile kr_policy_profile_of(const char *module);
/* The array of the modules that may be imported: the product of list and profiles. */
void kr_policy_write_imports(struct kr_json *j, const struct kr_policy_spec *p);
/* The array of its profiles' names. */
void kr_policy_write_profiles(struct kr_json *j, const struct kr_policy_spec *p);
/* The member `policy` of the frame KR_S_RUN: {"mode","imports","profiles","judge_only"}. */
void kr_policy_write(struct kr_json *j, const struct kr_policy_spec *p, bool judge_only);

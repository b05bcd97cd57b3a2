/* What a session sends in its JSON frames, checked: shapes first, then the words. It is a claim. */
#pragma once
#include "cause.h"
#include "err.h"
#include <jansson.h>
#include <stddef.h>

/* S_READY and S_STARTED: the layers that the session says it holds. */
struct kr_claim_ready {
    bool seccomp, no_new_privs;
    int landlock_abi;
    char python[32];
};

#define KR_CLAIM_FINDINGS_MAX 200u /* of one end */
#define KR_CLAIM_RULE_MAX 16u      /* bytes of a rule's id */

/* S_END. The JSON values are owned; the report writes them out again. */
struct kr_claim_end {
    enum kr_claim claim;
    int exit_code;
    enum kr_blame blame;
    bool raised, inodes;
    json_t *result;    /* string or NULL */
    json_t *error;     /* object or NULL */
    json_t *variables; /* array of strings or NULL */
    json_t *hint;      /* string or NULL */

    /* Of a policy (docs/design/judge.md), each NULL if the session has sent none. */
    json_t *findings;        /* array of {"id","line","column","end_line","end_column","text","why"}: before the run */
    json_t *refused;         /* array of {"id","line","text"}: while it ran */
    json_t *analysis;        /* object: figures of code that was judged and not run */
    json_t *recommendations; /* array of strings: what its author could do */
};

/* 0 or -EPROTO. */
int kr_claim_ready(const void *data, size_t len, struct kr_claim_ready *ret, struct kr_err *err);
int kr_claim_started(const void *data, size_t len, struct kr_claim_ready *ret, struct kr_err *err);
/* S_PACKAGES: an object, a new reference; what is in it is for who carries it out to check. */
int kr_claim_packages(const void *data, size_t len, json_t **ret, struct kr_err *err);
int kr_claim_end(const void *data, size_t len, struct kr_claim_end *ret, struct kr_err *err);
void kr_claim_end_done(struct kr_claim_end *c);
/* A display, checked: JSON of {"data":{…},"metadata":{…}} on one line. It is the payload itself; only if that says
 * more than this is it written anew, into *ret_made (to be freed; else NULL). 0, or -EPROTO or -ENOMEM with err. */
int kr_claim_display(const char *data, size_t len, const char **ret_json, size_t *ret_len, char **ret_made,
                     struct kr_err *err);
/* A question for a line. The prompt is owned by the caller (free). 0 or -EPROTO, -ENOMEM. */
int kr_claim_input(const void *data, size_t len, char **ret_prompt, bool *ret_password, struct kr_err *err);

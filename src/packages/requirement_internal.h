/* What requirement.c and requirement_list.c share: a reader of requirements in a longer text. */
#pragma once
#include "requirement.h"
#include <stdarg.h>

struct kr_req_reader {
    const char *text;
    size_t len, at;
    size_t start; /* of the requirement at hand: positions count from there */
    bool list;    /* another requirement may follow, with or without a comma */
    struct kr_err *err;
};

/* Reads one requirement from in->at on, and leaves in->at behind it. */
int kr_req_read(struct kr_req_reader *in, struct kr_requirement **ret_requirement);
void kr_req_skip_blanks(struct kr_req_reader *in);
/* An error at in->at. */
int kr_req_fail(struct kr_req_reader *in, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

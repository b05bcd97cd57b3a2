/* The hint of a run: one line that tells its author what to do next. Pure. */
#pragma once
#include "import_name.h"
#include "net_rule.h"
#include <stdint.h>

#define KR_HINT_ROOM 400u
#define KR_HINT_SAID_MAX 2048u /* bytes: how much of the end of a shell command's output is kept for its hint */

struct kr_hint_facts {
    const char *claimed;             /* what the session sent: a line, or a word that stands for one; NULL: nothing */
    enum kr_net_kind network;        /* the session's */
    const char *offer;               /* what the caller may choose to have 127.0.0.1, as a clause; NULL: nothing */
    const char *said;                /* the end of what a shell command wrote; NULL: the run is none */
    bool failed;                     /* the command's exit code is not 0 */
    struct kr_import_rules installs; /* what installs packages in this session, as its caller would say it */
};

/* Writes the hint into buf, "" if there is none. */
void kr_hint_write(const struct kr_hint_facts *f, char *buf, size_t size);
/* The hint of a workspace whose files add up to so much; false: there is room. */
bool kr_hint_disk(uint64_t used, uint64_t limit, char *buf, size_t size);

/* The protocol's revisions: one row each says what its messages may hold. Pure. */
#pragma once
#include <stdbool.h>

enum kr_mcp_rev {
    KR_REV_2024_11_05,
    KR_REV_2025_03_26,
    KR_REV_2025_06_18,
    KR_REV_2025_11_25, /* the newest that is opened with `initialize` */
    KR_REV_2026_07_28, /* stateless: each request carries its version */
    KR_REV_MAX_,
};

struct kr_mcp_rev_row {
    const char *name; /* "2025-11-25" */
    bool modern;      /* no `initialize`, no sessions, no requests by the server; every result has a resultType */
    bool batches;
    bool audio;         /* content of type audio; else an embedded blob */
    bool resource_link; /* content of type resource_link; else a line of text with the URI */
    bool structured;    /* structuredContent and outputSchema */
    bool titles;        /* `title` and `_meta` on items */
    bool icons;         /* and the server's description */
    bool annotations;   /* of tools */
    bool elicitation;   /* asked by a request of the server's */
    bool tasks;         /* the core design: execution.taskSupport, params.task, tasks/result */
    bool priming;       /* streams begin with an event without data, and may be polled */
    int not_found;      /* code of a resource that is not there */
};
extern const struct kr_mcp_rev_row kr_mcp_revs[KR_REV_MAX_];

/* The revision of that name, or -1 (also for NULL). */
int kr_mcp_rev_find(const char *name);

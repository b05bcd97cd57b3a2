/* The engine's end of the egress process: which cells it serves, by which rule, and what the server has it fetch.
 *
 * Loop thread only. The process may end and come again (kr_egress_connect() is called once for each): the client then
 * hands it every cell anew, so it keeps a descriptor of each listening socket. Fetches that were under way end with
 * KR_ERR_UNAVAILABLE. docs/design/egress.md has the frames. */
#pragma once
#include "err.h"
#include "id.h"
#include "net_rule.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct kr_egress;
struct kr_session;
struct uv_loop_s;

struct kr_egress_calls {
    /* A connection has ended or was refused: the object of KR_E_CONNECTION, checked member by member (types, bounds);
     * borrowed for the call. */
    void (*on_connection)(void *data, const json_t *row);
    void *data;
};

/* 0 or -ENOMEM. Without a process every fetch is refused, and cells wait. */
int kr_egress_new(struct uv_loop_s *loop, struct kr_egress **ret_egress);
void kr_egress_set_calls(struct kr_egress *e, const struct kr_egress_calls *calls);
/* What each process is told first, in place of its predecessor's: credentials that the warden, which forks it, does
 * not keep. NULL: there is none. 0 or -errno. Before the first kr_egress_connect(). */
struct kr_egress_setup {
    const char *index_user, *index_password;
    const char *own_ca; /* PEM of the server's own certificate authority, with its key */
};
int kr_egress_set_setup(struct kr_egress *e, const struct kr_egress_setup *setup);
/* The socket becomes the client's. */
int kr_egress_connect(struct kr_egress *e, int fd);
bool kr_egress_connected(const struct kr_egress *e);
/* Connections of cells that are open, as of the last tenth of a second. */
uint64_t kr_egress_open(const struct kr_egress *e);
/* Handles what the process has said until now: its rows of a run that has just ended. */
void kr_egress_catch_up(struct kr_egress *e);
void kr_egress_free(struct kr_egress *e);

/* ---- cells ---- */

/* Who a cell's connections belong to: what the rows tell. Texts are copied. */
struct kr_egress_cell {
    uint64_t cell;           /* a number of the engine's, never used again */
    const char *sandbox;     /* id */
    const char *user;        /* id */
    const char *run;         /* id, or NULL between runs */
    struct kr_net_rule rule; /* KR_NET_INDEX, KR_NET_ALLOW or KR_NET_OPEN */
    /* Array of {"name","placeholder","value","hosts":[…]}; NULL: none. Copies of it are wiped when they have served. */
    const json_t *secrets;
};
/* `listener` is duplicated. 0 or -errno. */
int kr_egress_add(struct kr_egress *e, const struct kr_egress_cell *cell, int listener);
/* Another run, or another rule for it; what is open and no longer allowed is closed. */
int kr_egress_change(struct kr_egress *e, const struct kr_egress_cell *cell);
void kr_egress_drop(struct kr_egress *e, uint64_t cell);

/* ---- fetches ---- */

/* One address, fetched for the server itself: a wheel, a page of the index, a file that a client named. */
struct kr_egress_fetch {
    const char *url;            /* https://…, http://…, or "index:PATH": PATH beneath the index as cells have it */
    const char *accept;         /* of the Accept header, or NULL */
    struct kr_net_rule rule;    /* that judges it and every redirect; ignored for "index:" */
    const char *sandbox, *user; /* of the rows */
    uint64_t max_bytes, timeout_ms;
    int file; /* open for writing, the caller's: it is duplicated */
};
struct kr_egress_fetched {
    unsigned status; /* of HTTP */
    uint64_t bytes;
    const char *type;     /* Content-Type, or "" */
    const char *name;     /* of Content-Disposition, else of the address's path; or "" */
    const char *sha256;   /* of the bytes written, 64 hex digits */
    const char *promised; /* "index:": the hash that the index's page gave for this file, or "" */
};
struct kr_egress_ask {
    void (*on_progress)(struct kr_egress_ask *ask, uint64_t bytes, uint64_t total); /* may be NULL */
    /* Once. fetched NULL: it failed, and err says why (KR_ERR_DENIED: the rule; KR_ERR_LIMIT: too large). A status
     * other than 200 is no failure here. */
    void (*on_end)(struct kr_egress_ask *ask, const struct kr_egress_fetched *fetched, const struct kr_err *err);
    uint32_t id; /* the client's; 0: nothing is under way */
};
/* 0 and on_end comes, from the loop; or -errno with err. */
int kr_egress_fetch(struct kr_egress *e, const struct kr_egress_fetch *fetch, struct kr_egress_ask *ask,
                    struct kr_err *err);
/* on_end does not come any more. */
void kr_egress_cancel(struct kr_egress *e, struct kr_egress_ask *ask);

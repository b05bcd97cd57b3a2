/* Connections of cells, as the files of the proxy see them; egress_internal.h has what hooks see. */
#pragma once
#include "egress_internal.h"

struct kr_eg_refusal;

/* Takes the descriptor. One past a limit is answered and closed. */
void kr_eg_conn_open(struct kr_eg_cell *cell, int fd);
/* The cell is gone: its connections end. */
void kr_eg_conn_close_all(struct kr_eg_cell *cell, const char *why);
/* The cell has another rule: what is open and no longer allowed ends. */
void kr_eg_conn_judge_again(struct kr_eg_cell *cell);
/* Frees what closed. */
void kr_eg_conn_bury(struct kr_eg *eg);

/* Each state has one way in. Deadlines are those of the new state. */
void kr_eg_conn_enter(struct kr_eg_conn *c, enum kr_eg_conn_state state);
/* The state ends so soon, whatever passes. */
void kr_eg_conn_limit(struct kr_eg_conn *c, uint64_t ms);
/* Connects to req.host; then c->upstream is set and the state's own part goes on (kr_eg_http_connected,
 * kr_eg_tunnel_connected). */
void kr_eg_conn_dial(struct kr_eg_conn *c);
/* Reads what the client sends into c->in, at most `max` bytes there. > 0: bytes came; 0: the client sends no more;
 * -EAGAIN; -errno. */
ssize_t kr_eg_conn_read_client(struct kr_eg_conn *c, size_t max);

/* ---- plain HTTP (eg_http.c) ---- */

void kr_eg_http_begin(struct kr_eg_conn *c);
void kr_eg_http_connected(struct kr_eg_conn *c);
/* Whether the client has been sent something of the reply. */
bool kr_eg_http_has_answered(const struct kr_eg_conn *c);
/* Frees c->http. */
void kr_eg_http_drop(struct kr_eg_conn *c);

/* ---- tunnels (eg_tunnel.c) ---- */

void kr_eg_tunnel_connected(struct kr_eg_conn *c);
/* Whether the rule still lets pass what a tunnel's client said first; true of what is no tunnel. */
bool kr_eg_tunnel_allowed(const struct kr_eg_conn *c, struct kr_eg_refusal *ret_refusal);
/* Frees c->tunnel. */
void kr_eg_tunnel_drop(struct kr_eg_conn *c);

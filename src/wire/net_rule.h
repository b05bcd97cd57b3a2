/* A network rule: what the code in a cell can reach. A value: a kind and its parameters, copied by assignment. As
 * text: "none", "loopback", "index", "allow:ITEM,…", "open". An ITEM of allow is one of
 *
 *   HOST[:PORT]                             any method, plain or over TLS; without a port: 80 and 443
 *   [METHOD[|METHOD…] ]http://HOST[:PORT][/PATH]   requests of plain HTTP alone; without a port: 80
 *
 * HOST is a name, "*." and a name for everything below it, or an IPv4 address. PATH is compared as it was sent, without
 * its query; with "*" behind it, it is the beginning of what is allowed. */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of what they give: a rule of a smaller kind reaches less. allow and open reach the index, too. */
enum kr_net_kind {
    KR_NET_NONE,     /* no socket */
    KR_NET_LOOPBACK, /* 127.0.0.1 of the cell's own */
    KR_NET_INDEX,    /* the package index */
    KR_NET_ALLOW,    /* the hosts that are named */
    KR_NET_OPEN,     /* public addresses */
    KR_NET_KIND_MAX_,
};
/* This kind and those above it need an egress process. */
#define KR_NET_EGRESS_MIN_ KR_NET_INDEX

#define KR_NET_HOSTS_ROOM 1024 /* of all items of a rule together */
#define KR_NET_HOSTS_COUNT_MAX 64
#define KR_NET_RULE_ROOM (KR_NET_HOSTS_ROOM + 8)

struct kr_net_rule {
    enum kr_net_kind kind;
    char hosts[KR_NET_HOSTS_ROOM]; /* KR_NET_ALLOW: the items, "a.example,*.b.example:8443"; "" otherwise */
};

extern const char *const kr_net_kind_names[KR_NET_KIND_MAX_];

/* Reads the text of a rule. 0, or negative with err (KR_ERR_INVALID), which does not name the setting. */
int kr_net_rule_parse(const char *text, struct kr_net_rule *ret_rule, struct kr_err *err);
/* Writes the text that kr_net_rule_parse() reads. Returns buf; KR_NET_RULE_ROOM is always enough. */
const char *kr_net_rule_text(const struct kr_net_rule *rule, char *buf, size_t size);
/* Whether the warden can build cells with this rule, which has an egress process or none: 0, or negative with err
 * (KR_ERR_UNSUPPORTED), which says what is missing. */
int kr_net_rule_check(const struct kr_net_rule *rule, bool egress, struct kr_err *err);
/* The same for a kind as a frame carries it. */
int kr_net_kind_check(unsigned kind, bool egress, struct kr_err *err);

/* ---- what a rule allows: of a rule that kr_net_rule_parse() made ---- */

/* `host` in lower case, without a last dot. What is asked is anything at all at that port: a tunnel. */
bool kr_net_rule_allows(const struct kr_net_rule *rule, const char *host, uint16_t port);
/* The same, and an item names this port itself (or the rule is open). */
bool kr_net_rule_names_port(const struct kr_net_rule *rule, const char *host, uint16_t port);
/* One request of plain HTTP. `path` as it was sent, with its query or without. Under an item with a path, a path in
 * which a server may see another one (dot segments, empty segments, escaped slashes and dots) is not allowed. */
bool kr_net_rule_allows_request(const struct kr_net_rule *rule, const char *method, const char *host, uint16_t port,
                                const char *path);
/* The package index, by its paths on KR_EGRESS_PORT. */
bool kr_net_rule_allows_index(const struct kr_net_rule *rule);
/* Whether all that `rule` allows is allowed by `ceiling`. May say no where only several items together would cover it.
 */
bool kr_net_rule_within(const struct kr_net_rule *rule, const struct kr_net_rule *ceiling);

/* A network rule: what the code in a cell can reach. A value: a kind and its parameters, copied by assignment. As
 * text: "none", "loopback", "index", "allow:HOST,…", "open"; a host is a name, or "*." and a name for everything below
 * it. */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stddef.h>

/* In the order of what they give: a rule of a smaller kind reaches less. */
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

#define KR_NET_HOSTS_ROOM 1024 /* of all hosts of a rule together */
#define KR_NET_HOSTS_COUNT_MAX 64
#define KR_NET_RULE_ROOM (KR_NET_HOSTS_ROOM + 8)

struct kr_net_rule {
    enum kr_net_kind kind;
    char hosts[KR_NET_HOSTS_ROOM]; /* KR_NET_ALLOW: "a.example,*.b.example", lower case; "" otherwise */
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

/* Network rules: their text, and which of them can be built.
 *
 * Used by the engine and the warden for what they are asked for, and by whatever reads a rule from a client or a
 * setting. Invariant: a rule that kr_net_rule_parse() has made is written by kr_net_rule_text() so that it parses to an
 * equal rule. */
#include "net_rule.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define HOST_MAX 253u /* RFC 1035, 2.3.4, without the last dot */
#define LABEL_MAX 63u
#define HOSTS "allow:"

const char *const kr_net_kind_names[] = {[KR_NET_NONE] = "none",
                                         [KR_NET_LOOPBACK] = "loopback",
                                         [KR_NET_INDEX] = "index",
                                         [KR_NET_ALLOW] = "allow",
                                         [KR_NET_OPEN] = "open"};
static_assert(sizeof kr_net_kind_names / sizeof *kr_net_kind_names == KR_NET_KIND_MAX_, "every kind has its name");

/* ---- hosts ---- */

static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

/* Labels of letters, digits and inner hyphens, at least one; "*." may come before them. */
static bool is_host(const char *host, size_t len)
{
    size_t label = 0;

    if (len > 2 && host[0] == '*' && host[1] == '.') {
        host += 2;
        len -= 2;
    }
    if (len == 0 || len > HOST_MAX)
        return false;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && is_host_char(host[i])) {
            label++;
            continue;
        }
        if (i < len && host[i] != '.')
            return false;
        if (label == 0 || label > LABEL_MAX || host[i - label] == '-' || host[i - 1] == '-')
            return false;
        label = 0;
    }
    return true;
}

static int check_hosts(const char *hosts, struct kr_err *err)
{
    unsigned count = 0;

    for (const char *at = hosts;; at++) {
        size_t len = strcspn(at, ",");

        if (!is_host(at, len))
            return kr_err_set(err, KR_ERR_INVALID, 0, "\"%.*s\" is not a host name", len < 60 ? (int)len : 60, at);
        if (++count > KR_NET_HOSTS_COUNT_MAX)
            return kr_err_set(err, KR_ERR_INVALID, 0, "more than %d hosts", KR_NET_HOSTS_COUNT_MAX);
        at += len;
        if (!*at)
            return 0;
    }
}

static int parse_hosts(const char *text, struct kr_net_rule *rule, struct kr_err *err)
{
    size_t len = strlen(text);

    if (len >= sizeof rule->hosts)
        return kr_err_set(err, KR_ERR_INVALID, 0, "the hosts are longer than %zu bytes", sizeof rule->hosts - 1);
    for (size_t i = 0; i < len; i++)
        rule->hosts[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + ('a' - 'A')) : text[i];
    return check_hosts(rule->hosts, err);
}

/* ---- rules ---- */

int kr_net_rule_parse(const char *text, struct kr_net_rule *ret_rule, struct kr_err *err)
{
    struct kr_net_rule rule = {0};

    if (strncmp(text, HOSTS, strlen(HOSTS)) == 0) {
        int r = parse_hosts(text + strlen(HOSTS), &rule, err);

        if (r < 0)
            return r;
        rule.kind = KR_NET_ALLOW;
        *ret_rule = rule;
        return 0;
    }
    for (int kind = 0; kind < KR_NET_KIND_MAX_; kind++)
        if (kind != KR_NET_ALLOW && strcmp(text, kr_net_kind_names[kind]) == 0) {
            rule.kind = (enum kr_net_kind)kind;
            *ret_rule = rule;
            return 0;
        }
    return kr_err_set(err, KR_ERR_INVALID, 0, "\"%.60s\" is not one of none, loopback, index, " HOSTS "HOST,…, open",
                      text);
}

const char *kr_net_rule_text(const struct kr_net_rule *rule, char *buf, size_t size)
{
    bool hosts = rule->kind == KR_NET_ALLOW;

    snprintf(buf, size, "%s%s%s", kr_net_kind_names[rule->kind], hosts ? ":" : "", hosts ? rule->hosts : "");
    return buf;
}

int kr_net_kind_check(unsigned kind, bool egress, struct kr_err *err)
{
    if (kind >= KR_NET_KIND_MAX_)
        return kr_err_set(err, KR_ERR_INVALID, 0, "network kind %u does not exist", kind);
    if (egress || kind < KR_NET_EGRESS_MIN_)
        return 0;
    return kr_err_set(err, KR_ERR_UNSUPPORTED, 0,
                      "network %s needs an egress proxy, which is not started here; use none or loopback",
                      kr_net_kind_names[kind]);
}

int kr_net_rule_check(const struct kr_net_rule *rule, bool egress, struct kr_err *err)
{
    int r = rule->kind == KR_NET_ALLOW ? check_hosts(rule->hosts, err) : 0;

    return r < 0 ? r : kr_net_kind_check(rule->kind, egress, err);
}

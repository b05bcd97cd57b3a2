/* Network rules: their text, and which of them can be built.
 *
 * Used by the engine and the warden for what they are asked for, and by whatever reads a rule from a client or a
 * setting. Invariant: a rule that kr_net_rule_parse() has made is written by kr_net_rule_text() so that it parses to an
 * equal rule. */
#include "net_rule.h"
#include "net_item.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define HOSTS "allow:"

const char *const kr_net_kind_names[] = {[KR_NET_NONE] = "none",
                                         [KR_NET_LOOPBACK] = "loopback",
                                         [KR_NET_INDEX] = "index",
                                         [KR_NET_ALLOW] = "allow",
                                         [KR_NET_OPEN] = "open"};
static_assert(sizeof kr_net_kind_names / sizeof *kr_net_kind_names == KR_NET_KIND_MAX_, "every kind has its name");

/* ---- items ---- */

static int check_hosts(const char *hosts, struct kr_err *err)
{
    struct kr_net_item item;
    unsigned count = 0;

    for (const char *at = hosts;; at++) {
        size_t len = strcspn(at, ",");
        int r = kr_net_item_read(at, len, &item, err);

        if (r < 0)
            return r;
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
    memcpy(rule->hosts, text, len + 1);
    for (char *at = rule->hosts; *at; at += *at == ',') {
        size_t n = strcspn(at, ",");

        kr_net_item_lower(at, n);
        at += n;
    }
    return check_hosts(rule->hosts, err);
}

/* The next item of a rule: true, or false at the end. *at begins as rule->hosts. */
static bool next_item(const char **at, struct kr_net_item *ret_item)
{
    while (**at) {
        const char *text = *at;
        size_t len = strcspn(text, ",");

        *at += len + (text[len] == ',');
        if (kr_net_item_read(text, len, ret_item, NULL) == 0)
            return true;
    }
    return false;
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

/* ---- judging ---- */

bool kr_net_rule_allows(const struct kr_net_rule *rule, const char *host, uint16_t port)
{
    const char *at = rule->hosts;
    struct kr_net_item item;

    if (rule->kind != KR_NET_ALLOW)
        return rule->kind == KR_NET_OPEN;
    while (next_item(&at, &item))
        if (!item.plain && kr_net_item_has_host(&item, host) && kr_net_item_has_port(&item, port))
            return true;
    return false;
}

bool kr_net_rule_names_port(const struct kr_net_rule *rule, const char *host, uint16_t port)
{
    const char *at = rule->hosts;
    struct kr_net_item item;

    if (rule->kind != KR_NET_ALLOW)
        return rule->kind == KR_NET_OPEN;
    while (next_item(&at, &item))
        if (!item.plain && item.port == port && kr_net_item_has_host(&item, host))
            return true;
    return false;
}

bool kr_net_rule_allows_request(const struct kr_net_rule *rule, const char *method, const char *host, uint16_t port,
                                const char *path)
{
    const char *at = rule->hosts;
    struct kr_net_item item;

    if (rule->kind != KR_NET_ALLOW)
        return rule->kind == KR_NET_OPEN;
    while (next_item(&at, &item))
        if (kr_net_item_has_host(&item, host) && kr_net_item_has_port(&item, port) &&
            kr_net_item_has_method(&item, method, strlen(method)) && kr_net_item_has_path(&item, path))
            return true;
    return false;
}

bool kr_net_rule_allows_index(const struct kr_net_rule *rule)
{
    return rule->kind >= KR_NET_INDEX;
}

static bool port_within(const struct kr_net_item *item, const struct kr_net_rule *ceiling, uint16_t port)
{
    const char *at = ceiling->hosts;
    struct kr_net_item wide;

    while (next_item(&at, &wide))
        if (kr_net_item_covers(&wide, item, port))
            return true;
    return false;
}

bool kr_net_rule_within(const struct kr_net_rule *rule, const struct kr_net_rule *ceiling)
{
    const char *at = rule->hosts;
    struct kr_net_item item;

    if (rule->kind != ceiling->kind || rule->kind != KR_NET_ALLOW)
        return rule->kind <= ceiling->kind;
    while (next_item(&at, &item)) {
        if (item.port ? !port_within(&item, ceiling, item.port)
                      : !port_within(&item, ceiling, 80) || !port_within(&item, ceiling, 443))
            return false;
    }
    return true;
}

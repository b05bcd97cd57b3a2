/* Fuzzes the grammar of network rules. What must hold: the text of a rule that was read is read as the same rule; a
 * rule is within itself and within `open`; what it allows, `open` allows; a refusal says why.
 *
 * An input is: a rule, a NUL, and what is asked of it as METHOD NUL HOST NUL PATH. */
#define FUZZ_NAME "fuzz-net-rule"
#include "net_rule.h"
#include "replay.h"

static const char *next_text(const char **at, const char *end)
{
    const char *text = *at;

    *at = text < end ? text + strlen(text) + 1 : end;
    return text < end ? text : "";
}

static void ask(const struct kr_net_rule *rule, const char *at, const char *end)
{
    static const struct kr_net_rule open_rule = {.kind = KR_NET_OPEN}, none = {.kind = KR_NET_NONE};
    static const uint16_t ports[] = {80, 443, 8080};
    const char *method = next_text(&at, end), *host = next_text(&at, end), *path = next_text(&at, end);

    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        bool tunnel = kr_net_rule_allows(rule, host, ports[i]);

        must(!tunnel || kr_net_rule_allows(&open_rule, host, ports[i]), "open allows a tunnel");
        must(!tunnel || kr_net_rule_allows_request(rule, method, host, ports[i], path), "a tunnel could carry it");
        must(!kr_net_rule_names_port(rule, host, ports[i]) || tunnel, "a port that is named is allowed");
        must(!kr_net_rule_allows_request(&none, method, host, ports[i], path), "none allows nothing");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct kr_net_rule open_rule = {.kind = KR_NET_OPEN};
    struct kr_net_rule rule, again;
    char text[KR_NET_RULE_ROOM], *copy = malloc(size + 1);
    struct kr_err err = {0};

    if (!copy)
        return 0;
    memcpy(copy, data, size);
    copy[size] = '\0';
    if (kr_net_rule_parse(copy, &rule, &err) < 0) {
        must(err.kind == KR_ERR_INVALID && err.msg[0], "a refusal says why");
    } else {
        kr_net_rule_text(&rule, text, sizeof text);
        must(kr_net_rule_parse(text, &again, &err) == 0 && memcmp(&rule, &again, sizeof rule) == 0, "a round trip");
        must(kr_net_rule_within(&rule, &rule), "a rule is within itself");
        must(kr_net_rule_within(&rule, &open_rule), "a rule is within open");
        ask(&rule, copy + strlen(copy) + 1, copy + size);
    }
    free(copy);
    return 0;
}

/* The policies of the profiles, made of the settings. Run by tests/run. */
#include "check.h"
#include "config_rows.h"
#include <errno.h>

#define ARGS_MAX 24

static struct kr_config *config;
static struct kr_err err;

/* Loads with these flags and variables, split at blanks, and no files. */
static int load(const char *flags, const char *variables)
{
    char text[2][1024], *argv[ARGS_MAX] = {"serve"}, *environment[ARGS_MAX] = {0}, *rest;
    int argc = 1, count = 0;
    struct kr_config_how how = {.argv = argv, .environment = environment};

    kr_config_free(config);
    config = NULL;
    memset(&err, 0, sizeof err);
    snprintf(text[0], sizeof text[0], "%s", flags);
    snprintf(text[1], sizeof text[1], "%s", variables);
    for (char *word = strtok_r(text[0], " ", &rest); word && argc < ARGS_MAX; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    for (char *word = strtok_r(text[1], " ", &rest); word && count < ARGS_MAX - 1; word = strtok_r(NULL, " ", &rest))
        environment[count++] = word;
    how.argc = argc;
    return kr_config_load(&how, &config, &err);
}

static bool says(const char *part)
{
    if (strstr(err.msg, part))
        return true;
    printf("  it says: %s\n", err.msg);
    return false;
}

static bool allows(enum kr_dialect dialect, const char *module)
{
    return kr_policy_allows(&config->profiles[dialect].policy, module);
}

static void policies_are_made_of_the_settings(void)
{
    const enum kr_dialect ours = KR_DIALECT_KRAIT, theirs = KR_DIALECT_PYTHON_SANDBOX;
    const struct kr_policy_spec *p;

    CHECK(load("", "") == 0 && config->profiles[ours].policy.mode == KR_POLICY_OPEN);
    CHECK(config->profiles[theirs].policy.mode == KR_POLICY_RESTRICTED && allows(theirs, "math"));
    CHECK(load("--policy restricted --policy-filesystem", "SANDBOX_ENABLE_DATA_SCIENCE=true") == 0);
    p = &config->profiles[ours].policy;
    CHECK(kr_policy_has(p, KR_POLICY_FILESYSTEM) && kr_policy_has(p, KR_POLICY_DATA_SCIENCE));
    CHECK(!kr_policy_has(p, KR_POLICY_NETWORK) && allows(ours, "numpy") && !allows(ours, "httpx"));
    CHECK(kr_policy_is_same(p, &config->profiles[theirs].policy) && kr_policy_is_same(p, &config->profile.policy));
    CHECK(load("--policy restricted", "SANDBOX_ENABLE_NETWORK=true") == 0 && allows(ours, "httpx"));
    CHECK(config->box.network.kind == KR_NET_OPEN);
    CHECK(load("--policy restricted --policy-network=false --network open", "") == 0 && !allows(ours, "httpx"));
    CHECK(load("", "SANDBOX_ALLOWED_IMPORTS=math,xml") == 0 && allows(ours, "xml.sax") && !allows(ours, "json"));
    CHECK(load("--policy open", "SANDBOX_ALLOWED_IMPORTS=math") == -EINVAL && says("needs the policy restricted"));
    CHECK(load("", "SANDBOX_ENABLE_DATA_SCIENCE=true") == 0 && allows(ours, "numpy"));
    CHECK(load("", "SANDBOX_ENABLE_DATA_SCIENCE=false") == -EINVAL &&
          says("SANDBOX_ENABLE_DATA_SCIENCE (environment)"));
    CHECK(load("--dialect python-sandbox", "SANDBOX_ENABLE_DATA_SCIENCE=false") == 0 && !allows(theirs, "numpy"));
}

/* An MCP client may choose its dialect. */
static void a_document_without_a_listener_is_not_wider(void)
{
    CHECK(load("--dialect python-sandbox", "") == 0 && !kr_policy_allows(&config->profiles[0].policy, "os"));
    CHECK(load("--listen 9000=python-sandbox", "") == 0 && !kr_policy_allows(&config->profiles[0].policy, "os"));
    CHECK(load("--listen 9000=python-sandbox,9001=krait", "") == 0);
    CHECK(kr_policy_allows(&config->profiles[KR_DIALECT_KRAIT].policy, "os"));
    CHECK(!kr_policy_allows(&config->profiles[KR_DIALECT_PYTHON_SANDBOX].policy, "os"));
    CHECK(load("--dialect python-sandbox --policy open", "") == 0);
    CHECK(kr_policy_allows(&config->profiles[KR_DIALECT_PYTHON_SANDBOX].policy, "os"));
}

int main(void)
{
    RUN(policies_are_made_of_the_settings);
    RUN(a_document_without_a_listener_is_not_wider);
    kr_config_free(config);
    CHECK_DONE();
}

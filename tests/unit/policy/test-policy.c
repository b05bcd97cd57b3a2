/* src/policy: what is asked for as text, what a policy allows, and that narrowing never widens. Run by tests/run. */
#include "buf.h"
#include "check.h"
#include "json.h"
#include "policy_json.h"
#include <errno.h>

static const struct kr_policy_spec open_policy = {.mode = KR_POLICY_OPEN};

/* A policy of these texts, where NULL asks for nothing; or what was wrong. */
static int make(const struct kr_policy_spec *has, const char *mode, const char *profiles, const char *imports,
                struct kr_policy_spec *ret, struct kr_err *err)
{
    struct kr_policy_ask ask = {0};
    int r = 0;

    err->msg[0] = '\0';
    if (mode)
        r = kr_policy_ask_mode(&ask, mode, err);
    if (r >= 0 && profiles)
        r = kr_policy_ask_profiles_text(&ask, profiles, err);
    if (r >= 0 && imports)
        r = kr_policy_ask_imports_text(&ask, imports, err);
    return r < 0 ? r : kr_policy_narrow(has, &ask, "the server", ret, err);
}

static struct kr_policy_spec policy(const char *profiles, const char *imports)
{
    struct kr_policy_spec made = {0};
    struct kr_err err;

    if (make(&open_policy, "restricted", profiles, imports, &made, &err) < 0)
        printf("%s\n", err.msg);
    return made;
}

static bool refuses(const struct kr_policy_spec *has, const char *mode, const char *profiles, const char *imports,
                    const char *why)
{
    struct kr_policy_spec made;
    struct kr_err err;
    bool refused =
        make(has, mode, profiles, imports, &made, &err) < 0 && err.kind == KR_ERR_INVALID && strcmp(err.msg, why) == 0;

    if (!refused)
        printf("not \"%s\": %s\n", why, err.msg);
    return refused;
}

static void profiles_have_the_modules_of_the_document(void)
{
    static const char *const documents[KR_POLICY_PROFILE_MAX_][42] = {
        {"math",
         "random",
         "statistics",
         "decimal",
         "fractions",
         "collections",
         "itertools",
         "functools",
         "heapq",
         "bisect",
         "string",
         "textwrap",
         "re",
         "difflib",
         "unicodedata",
         "base64",
         "binascii",
         "hashlib",
         "hmac",
         "secrets",
         "json",
         "csv",
         "html.parser",
         "xml.etree",
         "urllib.parse",
         "datetime",
         "uuid",
         "calendar",
         "dataclasses",
         "enum",
         "typing",
         "time",
         "operator",
         "copy",
         "cmath",
         "html",
         "configparser",
         "abc",
         "contextlib",
         "types",
         "xml.etree.ElementTree",
         NULL},
        {"numpy", "pandas", "scipy", "matplotlib", "seaborn", "sklearn", "statsmodels", "plotly", "sympy", NULL},
        {"httpx", "requests", "urllib.request", "aiohttp", "websocket", "email", "smtplib", "ftplib", NULL},
        {"pathlib", "os.path", "tempfile", "shutil", "glob", "zipfile", "tarfile", NULL},
    };

    for (int i = 0; i < KR_POLICY_PROFILE_MAX_; i++) {
        struct kr_policy_spec p = policy(kr_policy_profiles[i].name, NULL);

        for (const char *const *m = documents[i]; *m; m++) {
            CHECK(kr_policy_allows(&p, *m));
            CHECK(kr_policy_profile_of(*m) == (enum kr_policy_profile)i);
        }
        for (const char *const *m = kr_policy_profiles[i].modules; m[0] && m[1]; m++)
            CHECK(strcmp(m[0], m[1]) < 0);
    }
    CHECK(kr_policy_profile_of("os") == KR_POLICY_PROFILE_MAX_);
}

static void a_module_is_allowed_with_what_is_below_it(void)
{
    struct kr_policy_spec p = policy(NULL, NULL);

    CHECK(p.mode == KR_POLICY_RESTRICTED && p.profiles == KR_POLICY_BIT(KR_POLICY_BASIC) && !p.has_imports);
    CHECK(kr_policy_allows(&p, "xml.etree") && kr_policy_allows(&p, "xml.etree.ElementTree"));
    CHECK(kr_policy_allows(&p, "collections.abc"));
    CHECK(!kr_policy_allows(&p, "xml") && !kr_policy_allows(&p, "xml.sax") && !kr_policy_allows(&p, "xml.etreeX"));
    CHECK(!kr_policy_allows(&p, "urllib") && !kr_policy_allows(&p, "urllib.request"));
    CHECK(!kr_policy_allows(&p, "os") && !kr_policy_allows(&p, "numpy") && !kr_policy_allows(&p, "mathx"));
    CHECK(kr_policy_allows(&open_policy, "os"));
    CHECK(!kr_policy_has(&p, KR_POLICY_NETWORK) && kr_policy_has(&open_policy, KR_POLICY_NETWORK));
}

static void a_list_replaces_the_profiles_modules(void)
{
    struct kr_policy_spec p = policy("network", "math, os.path"), none = policy(NULL, "");

    CHECK(kr_policy_has(&p, KR_POLICY_NETWORK) && !kr_policy_has(&p, KR_POLICY_FILESYSTEM));
    CHECK(kr_policy_allows(&p, "math") && kr_policy_allows(&p, "os.path") && !kr_policy_allows(&p, "os"));
    CHECK(!kr_policy_allows(&p, "json") && !kr_policy_allows(&p, "httpx"));
    CHECK(none.has_imports && !kr_policy_allows(&none, "math"));
}

static void lists_alone_ask_for_restricted(void)
{
    struct kr_policy_spec p;
    struct kr_err err;

    CHECK(make(&open_policy, NULL, NULL, "math", &p, &err) == 0 && p.mode == KR_POLICY_RESTRICTED);
    CHECK(make(&open_policy, NULL, "network", NULL, &p, &err) == 0 && p.mode == KR_POLICY_RESTRICTED);
    CHECK(p.profiles == (KR_POLICY_BIT(KR_POLICY_BASIC) | KR_POLICY_BIT(KR_POLICY_NETWORK)));
    CHECK(make(&open_policy, NULL, NULL, NULL, &p, &err) == 0 && p.mode == KR_POLICY_OPEN);
    CHECK(refuses(&open_policy, "open", NULL, "math",
                  "allowed_imports: needs the policy restricted, and open was asked for"));
    CHECK(
        refuses(&open_policy, "open", "basic", NULL, "profiles: needs the policy restricted, and open was asked for"));
}

static void narrowing_takes_away_and_never_adds(void)
{
    struct kr_policy_spec has = policy("data_science,network", NULL), listed = policy(NULL, "xml,json"), p;
    struct kr_err err;

    CHECK(make(&has, NULL, "network", NULL, &p, &err) == 0 && !kr_policy_allows(&p, "numpy"));
    CHECK(kr_policy_allows(&p, "httpx") && kr_policy_has(&p, KR_POLICY_NETWORK));
    CHECK(make(&has, "restricted", NULL, "numpy.linalg,math", &p, &err) == 0 && p.profiles == has.profiles);
    CHECK(kr_policy_allows(&p, "numpy.linalg") && !kr_policy_allows(&p, "numpy") && !kr_policy_allows(&p, "json"));
    CHECK(make(&listed, NULL, NULL, "xml.etree", &p, &err) == 0 && !kr_policy_allows(&p, "json"));
    CHECK(make(&has, NULL, NULL, NULL, &p, &err) == 0 && kr_policy_is_same(&p, &has));
    CHECK(!kr_policy_is_same(&has, &listed));

    CHECK(refuses(&has, "open", NULL, NULL, "policy: open is more than the server allows, which is restricted"));
    CHECK(refuses(&has, NULL, "filesystem,network", NULL,
                  "profiles: filesystem is more than the server allows, which is basic,data_science,network"));
    CHECK(refuses(&has, NULL, NULL, "math,os",
                  "allowed_imports: os is more than the server allows; a list can only narrow it"));
    CHECK(refuses(&listed, NULL, NULL, "math",
                  "allowed_imports: math is more than the server allows; a list can only narrow it"));
}

/* The policy that is left of what was asked for under another one. */
static struct kr_policy_spec clipped(const struct kr_policy_spec *has, const char *profiles, const char *imports)
{
    struct kr_policy_ask ask = {0};
    struct kr_policy_spec made;
    struct kr_err err;

    if (profiles)
        kr_policy_ask_profiles_text(&ask, profiles, &err);
    if (imports)
        kr_policy_ask_imports_text(&ask, imports, &err);
    kr_policy_clip(has, &ask, &made);
    return made;
}

static void clipping_keeps_what_both_allow(void)
{
    struct kr_policy_spec basic = policy(NULL, NULL), listed = policy("network", "xml,json.decoder"), p;

    p = clipped(&basic, "network,data_science", NULL);
    CHECK(p.mode == KR_POLICY_RESTRICTED && p.profiles == KR_POLICY_BIT(KR_POLICY_BASIC));
    p = clipped(&basic, NULL, "math,numpy,xml,math.sub");
    CHECK(strcmp(p.imports, "math,math.sub,xml.etree") == 0);
    p = clipped(&listed, NULL, "json,xml.sax,os");
    CHECK(strcmp(p.imports, "xml.sax,json.decoder") == 0 && kr_policy_has(&p, KR_POLICY_NETWORK));
    p = clipped(&listed, "filesystem", NULL);
    CHECK(strcmp(p.imports, listed.imports) == 0 && p.profiles == KR_POLICY_BIT(KR_POLICY_BASIC));
    p = clipped(&open_policy, NULL, NULL);
    CHECK(p.mode == KR_POLICY_OPEN);
    p = clipped(&open_policy, "network", "os");
    CHECK(p.mode == KR_POLICY_RESTRICTED && kr_policy_allows(&p, "os") && kr_policy_has(&p, KR_POLICY_NETWORK));
    CHECK(kr_policy_same_rights(&listed, &p) && !kr_policy_same_rights(&basic, &p));
}

static void json_is_read_by_its_fields(void)
{
    struct kr_policy_ask ask = {0};
    struct kr_err err;
    json_t *names = json_pack("[ss]", "network", "basic"), *modules = json_pack("[s]", "math"),
           *bad = json_pack("[i]", 1);

    CHECK(kr_policy_ask_json(&ask, NULL, NULL, NULL, &err) == 0 && kr_policy_ask_is_empty(&ask));
    CHECK(kr_policy_ask_json(&ask, NULL, names, modules, &err) == 0 && !ask.has_mode && ask.has_profiles);
    CHECK(strcmp(ask.imports, "math") == 0);
    CHECK(kr_policy_ask_json(&ask, NULL, bad, NULL, &err) < 0 && strcmp(err.msg, "profiles: a list of names") == 0);
    CHECK(kr_policy_ask_json(&ask, NULL, NULL, names, &err) == 0);
    CHECK(kr_policy_ask_json(&ask, NULL, NULL, json_true(), &err) < 0 && strstr(err.msg, "allowed_imports") == err.msg);
    CHECK(kr_policy_ask_json(&ask, bad, NULL, NULL, &err) < 0 && strcmp(err.msg, "policy: open or restricted") == 0);
    json_decref(names);
    json_decref(modules);
    json_decref(bad);
}

static void bad_texts_are_named(void)
{
    char many[KR_POLICY_IMPORTS_ROOM * 2] = "", word[16];
    struct kr_policy_spec p;
    struct kr_err err;

    CHECK(refuses(&open_policy, "Restricted", NULL, NULL, "policy: \"Restricted\" is neither open nor restricted"));
    CHECK(refuses(&open_policy, NULL, "data", NULL,
                  "profiles: \"data\" is not one of basic,data_science,network,filesystem"));
    CHECK(refuses(&open_policy, NULL, NULL, "a..b", "allowed_imports: \"a..b\" is not the name of a module"));
    CHECK(refuses(&open_policy, NULL, NULL, "os.", "allowed_imports: \"os.\" is not the name of a module"));
    CHECK(refuses(&open_policy, NULL, NULL, "7z", "allowed_imports: \"7z\" is not the name of a module"));
    CHECK(refuses(&open_policy, NULL, NULL, "*", "allowed_imports: \"*\" is not the name of a module"));
    for (unsigned i = 0; i <= KR_POLICY_IMPORTS_MAX; i++) {
        snprintf(word, sizeof word, "m%u,", i);
        strcat(many, word);
    }
    CHECK(refuses(&open_policy, NULL, NULL, many, "allowed_imports: more than 128 modules or 2047 bytes"));
    memset(many, 'x', KR_POLICY_MODULE_MAX + 1);
    many[KR_POLICY_MODULE_MAX + 1] = '\0';
    CHECK(make(&open_policy, NULL, NULL, many, &p, &err) == -EINVAL);
    many[KR_POLICY_MODULE_MAX] = '\0';
    CHECK(make(&open_policy, NULL, NULL, many, &p, &err) == 0 && kr_policy_allows(&p, many));
    CHECK(make(&open_policy, NULL, NULL, "math math,math", &p, &err) == 0 && strcmp(p.imports, "math") == 0);
}

static bool writes(const struct kr_policy_spec *p, bool judge_only, const char *json)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, 8192);
    kr_json_init(&j, &buf);
    kr_policy_write(&j, p, judge_only);
    return kr_json_done(&j) == 0 && strcmp(kr_buf_str(&buf), json) == 0;
}

static void the_kernel_is_told_the_product(void)
{
    struct kr_policy_spec p = policy("filesystem", "math,xml.etree"), basic = policy(NULL, NULL);
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    CHECK(writes(&p, false,
                 "{\"mode\":\"restricted\",\"imports\":[\"math\",\"xml.etree\"],\"profiles\":[\"basic\","
                 "\"filesystem\"],\"judge_only\":false}"));
    CHECK(writes(&open_policy, true, "{\"mode\":\"open\",\"imports\":[],\"profiles\":[],\"judge_only\":true}"));
    kr_buf_init(&buf, 8192);
    kr_json_init(&j, &buf);
    kr_policy_write_imports(&j, &basic);
    CHECK(kr_json_done(&j) == 0 && strstr(kr_buf_str(&buf), "\"urllib.parse\"") && !strstr(kr_buf_str(&buf), "numpy"));
}

int main(void)
{
    RUN(profiles_have_the_modules_of_the_document);
    RUN(a_module_is_allowed_with_what_is_below_it);
    RUN(a_list_replaces_the_profiles_modules);
    RUN(lists_alone_ask_for_restricted);
    RUN(narrowing_takes_away_and_never_adds);
    RUN(clipping_keeps_what_both_allow);
    RUN(json_is_read_by_its_fields);
    RUN(bad_texts_are_named);
    RUN(the_kernel_is_told_the_product);
    CHECK_DONE();
}

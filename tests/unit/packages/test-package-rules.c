/* Which names may be installed. */
#include "check.h"
#include "err.h"
#include "package_rules_internal.h"

static const char *const blocked[] = {"os", "subprocess", "crypto-locker", "Foo_Bar"};

static void judge(const char *text, bool allow_similar, struct kr_package_judgement *j)
{
    struct kr_package_rules rules = {.blocked = {blocked, 4}, .allow_similar = allow_similar};
    struct kr_requirement *r;
    struct kr_err err;

    memset(j, 0, sizeof *j);
    j->verdict = KR_PACKAGE_VERDICT_MAX_;
    if (kr_requirement_parse(text, strlen(text), &r, &err) < 0)
        return;
    kr_package_judge(&rules, r, j);
    kr_requirement_free(r);
}

static void check_sorted(const char *const *table, size_t count)
{
    char canonical[KR_REQ_NAME_ROOM];

    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(table[i - 1], table[i]) >= 0)
            printf("# %s %s\n", table[i - 1], table[i]);
        CHECK(i == 0 || strcmp(table[i - 1], table[i]) < 0);
        CHECK(kr_requirement_canonical(table[i], strlen(table[i]), canonical));
        CHECK(table == kr_package_stdlib || strcmp(canonical, table[i]) == 0);
    }
}

static void tables_are_in_order(void)
{
    check_sorted(kr_package_stdlib, kr_package_stdlib_count);
    check_sorted(kr_package_popular, kr_package_popular_count);
    CHECK(kr_package_popular_count >= 200 && kr_package_stdlib_count >= 200);
    /* A popular name that is a module of Python, too, could never be installed. */
    for (size_t i = 0; i < kr_package_popular_count; i++)
        CHECK(!kr_package_is_stdlib(kr_package_popular[i]));
}

static void block_list_comes_first(void)
{
    struct kr_package_judgement j;
    struct kr_package_rules rules = {.blocked = {blocked, 4}};

    judge("os", true, &j);
    CHECK(j.verdict == KR_PACKAGE_BLOCKED);
    CHECK(strncmp(j.text, "Package os is blocked for security reasons", 42) == 0);
    judge("Crypto.Locker>=1", true, &j);
    CHECK(j.verdict == KR_PACKAGE_BLOCKED);
    CHECK(strcmp(j.text, "Package Crypto.Locker is blocked for security reasons") == 0);
    judge("foo-bar!", true, &j);
    CHECK(j.verdict == KR_PACKAGE_BLOCKED);
    judge("foo-bar-baz", true, &j);
    CHECK(j.verdict == KR_PACKAGE_FINE && j.text[0] == '\0');
    kr_package_judge_name(&rules, "FOO.BAR", &j);
    CHECK(j.verdict == KR_PACKAGE_BLOCKED);
    kr_package_judge_name(&rules, "reqeusts", &j);
    CHECK(j.verdict == KR_PACKAGE_FINE);
}

static void standard_library_is_explained(void)
{
    static const char *const modules[] = {"json", "importlib", "tomllib", "math", "asyncio", "distutils"};
    struct kr_package_judgement j;

    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        judge(modules[i], true, &j);
        CHECK(j.verdict == KR_PACKAGE_STDLIB && strstr(j.text, "is a module of Python itself"));
    }
    CHECK(kr_package_is_stdlib("os") && !kr_package_is_stdlib("numpy"));
}

static void lookalikes_are_questioned(void)
{
    static const struct {
        const char *name, *resembles;
    } rows[] = {
        {"reqeusts", "requests"},
        {"requets", "requests"},
        {"requestss", "requests"},
        {"requests2", "requests"},
        {"python-requests", "requests"},
        {"py-requests", "requests"},
        {"numpi", "numpy"},
        {"nunpy", "numpy"},
        {"pandsa", "pandas"},
        {"panda", "pandas"},
        {"scikitlearn", "scikit-learn"},
        {"colourama", "colorama"},
        {"urlib3", "urllib3"},
        {"djang0", "django"},
        {"colorrama", "colorama"},
        {"beautifulsoup", "beautifulsoup4"},
        {"jwt", "pyjwt"},
        {"yaml", "pyyaml"},
        {"opencv", "opencv-python"},
        {"dotenv", "python-dotenv"},
        {"tensorfow", "tensorflow"},
        {"typing_extension", "typing-extensions"},
        {"matplot-lib", "matplotlib"},
        {"pytorch", "torch"},
        /* themselves, and what is far enough */
        {"requests", NULL},
        {"Numpy", NULL},
        {"pyjwt", NULL},
        {"python-dateutil", NULL},
        {"psycopg", NULL},
        {"krait-test-wheel", NULL},
        {"suspicious-package", NULL},
        {"foo", NULL},
    };
    struct kr_package_judgement j;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char canonical[KR_REQ_NAME_ROOM], insisting[128];
        const char *like;

        CHECK(kr_requirement_canonical(rows[i].name, strlen(rows[i].name), canonical));
        like = kr_package_lookalike(canonical);
        if (strcmp(like ? like : "", rows[i].resembles ? rows[i].resembles : "") != 0)
            printf("# %s: %s\n", rows[i].name, like ? like : "nothing");
        CHECK(strcmp(like ? like : "", rows[i].resembles ? rows[i].resembles : "") == 0);
        if (!rows[i].resembles)
            continue;
        judge(rows[i].name, false, &j);
        CHECK(j.verdict == KR_PACKAGE_QUESTIONED && strcmp(j.resembles, rows[i].resembles) == 0);
        CHECK(strstr(j.text, "allow_similar") && strstr(j.text, rows[i].resembles));
        judge(rows[i].name, true, &j);
        CHECK(j.verdict == KR_PACKAGE_FINE);
        snprintf(insisting, sizeof insisting, "%s!", rows[i].name);
        judge(insisting, false, &j);
        CHECK(j.verdict == KR_PACKAGE_FINE);
    }
}

int main(void)
{
    RUN(tables_are_in_order);
    RUN(block_list_comes_first);
    RUN(standard_library_is_explained);
    RUN(lookalikes_are_questioned);
    CHECK_DONE();
}

/* Requirements, versions and markers, by the examples of PEP 440 and PEP 508. */
#include "check.h"
#include "err.h"
#include "requirement.h"

static struct kr_err err;

static int order(const char *a, const char *b)
{
    struct kr_pkg_version va, vb;

    if (kr_pkg_version_parse(a, strlen(a), &va) < 0 || kr_pkg_version_parse(b, strlen(b), &vb) < 0)
        return 99;
    return kr_pkg_version_compare(&va, &vb);
}

static const char *normal(const char *text)
{
    static char out[KR_PKG_VERSION_MAX];
    struct kr_pkg_version v;

    return kr_pkg_version_parse(text, strlen(text), &v) < 0 ? "refused" : kr_pkg_version_text(&v, out, sizeof out);
}

static void versions_stand_in_order(void)
{
    static const char *const ascending[] = {
        "1.dev0",
        "1.0.dev456",
        "1.0a1",
        "1.0a2.dev456",
        "1.0a12.dev456",
        "1.0a12",
        "1.0b1.dev456",
        "1.0b2",
        "1.0b2.post345.dev456",
        "1.0b2.post345",
        "1.0rc1.dev456",
        "1.0rc1",
        "1.0",
        "1.0+abc.5",
        "1.0+abc.7",
        "1.0+5",
        "1.0.post456.dev34",
        "1.0.post456",
        "1.0.15",
        "1.1.dev1",
        "1!0.1",
    };
    size_t n = sizeof ascending / sizeof *ascending;

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            int r = order(ascending[i], ascending[j]);

            if ((r > 0) - (r < 0) != (i > j) - (i < j))
                printf("# %s %s: %d\n", ascending[i], ascending[j], r);
            CHECK((r > 0) - (r < 0) == (i > j) - (i < j));
        }
    CHECK(order("1.0", "1.0.0") == 0 && order("1", "1.0.0.0") == 0);
    CHECK(order("1.0+00007", "1.0+7") == 0 && order("1.0+10", "1.0+9") > 0);
}

static void versions_have_a_normal_form(void)
{
    static const struct {
        const char *text, *normal;
    } rows[] = {
        {"v1.0", "1.0"},
        {"1.1RC1", "1.1rc1"},
        {"1.1-a", "1.1a0"},
        {"1.1.preview_2", "1.1rc2"},
        {"1.2-post2", "1.2.post2"},
        {"1.0-1", "1.0.post1"},
        {"1.0-r4", "1.0.post4"},
        {"1.2-dev2", "1.2.dev2"},
        {"1.0+ubuntu-1", "1.0+ubuntu.1"},
        {" 1.0 ", "1.0"},
        {"00001.02", "1.2"},
        {"2!1.0c3", "2!1.0rc3"},
        {"1.0alpha1", "1.0a1"},
        {"", "refused"},
        {"1.", "refused"},
        {"1.0+", "refused"},
        {"a", "refused"},
        {"1.0 0", "refused"},
        {"1.0+a..b", "refused"},
        {"1!", "refused"},
        {"1.0.x", "refused"},
        {"9999999999999999999", "refused"},
        {"-1", "refused"},
        {"1.0\n;", "refused"},
        {"1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1", "refused"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(normal(rows[i].text), rows[i].normal) != 0)
            printf("# \"%s\": %s\n", rows[i].text, normal(rows[i].text));
        CHECK(strcmp(normal(rows[i].text), rows[i].normal) == 0);
    }
}

static int takes(const char *requirement, const char *version)
{
    struct kr_requirement *r;
    int yes;

    if (kr_requirement_parse(requirement, strlen(requirement), &r, &err) < 0)
        return -1;
    yes = kr_requirement_takes(r, version, false);
    kr_requirement_free(r);
    return yes;
}

static void specifiers_match_as_pep_440_says(void)
{
    static const struct {
        const char *requirement, *version;
        int takes;
    } rows[] = {
        {"x~=2.2", "2.9", 1},
        {"x~=2.2", "3.0", 0},
        {"x~=2.2", "2.1", 0},
        {"x~=1.4.5", "1.4.9", 1},
        {"x~=1.4.5", "1.5", 0},
        {"x~=2.2.post3", "2.3", 1},
        {"x~=2", "2.1", -1},
        {"x==1.1", "1.1.0", 1},
        {"x==1.1", "1.1.post1", 0},
        {"x==1.1.*", "1.1.post1", 1},
        {"x==1.1.*", "1.10", 0},
        {"x==1.1.*", "1.1", 1},
        {"x!=1.1.*", "1.1.3", 0},
        {"x!=1.1", "1.1+local", 0},
        {"x==1.1", "1.1+local", 1},
        {"x==1.1+a", "1.1+a", 1},
        {"x==1.1+a", "1.1+b", 0},
        {"x==1.1+a", "1.1", 0},
        {"x>1.7", "1.7.0.post1", 0},
        {"x>1.7.post2", "1.7.post3", 1},
        {"x>1.7", "1.7.1", 1},
        {"x>1.7", "1.7+local", 0},
        {"x<2.0", "2.0rc1", 0},
        {"x<2.0rc2", "2.0rc1", 1},
        {"x>=1,<2", "1.5", 1},
        {"x>=1,<2", "2", 0},
        {"x>=1.0", "1.1rc1", 0},
        {"x>=1.1rc1", "1.1rc2", 1},
        {"x===1.0", "1.0", 1},
        {"x===1.0", "1.0.0", 0},
        {"x===weird", "WEIRD", 1},
        {"x<=1.0", "1.0+local", 1},
        {"x", "1.0", 1},
        {"x", "1.0rc1", 0},
        {"x==2!1.0", "1.0", 0},
        {"x==2!1.*", "2!1.5", 1},
        {"x>=1.*", "1", -1},
        {"x>=1.0+a", "1", -1},
        {"x==1.0.dev1.*", "1", -1},
        {"x~=1!1.0", "1.5", 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int yes = takes(rows[i].requirement, rows[i].version);

        if (yes != rows[i].takes)
            printf("# %s %s: %d %s\n", rows[i].requirement, rows[i].version, yes, yes < 0 ? err.msg : "");
        CHECK(yes == rows[i].takes);
    }
}

/* What is taken, and how it is written anew. */
static void requirements_are_written_anew(void)
{
    static const struct {
        const char *text, *anew;
    } rows[] = {
        {"A", "A"},
        {"A.B-C_D", "A.B-C_D"},
        {"aa", "aa"},
        {"name", "name"},
        {"name<=1", "name<=1"},
        {"name>=3", "name>=3"},
        {"name>=3,<2", "name>=3,<2"},
        {"name (>=3 , <2)", "name>=3,<2"},
        {"name [fred , bar] >= 3", "name[fred,bar]>=3"},
        {"name[]", "name"},
        {"name[quux, strange];python_version<'2.7' and platform_version=='2'",
         "name[quux,strange] ; python_version < \"2.7\" and platform_version == \"2\""},
        {"name; os_name=='a' or os_name=='b'", "name ; os_name == \"a\" or os_name == \"b\""},
        {"name; os_name=='a' and os_name=='b' or os_name=='c'",
         "name ; os_name == \"a\" and os_name == \"b\" or os_name == \"c\""},
        {"name; (os_name=='a' or os_name=='b') and os_name not  in 'c'",
         "name ; (os_name == \"a\" or os_name == \"b\") and os_name not in \"c\""},
        {"  requests>=2.28.0\n", "requests>=2.28.0"},
        {"numpy!", "numpy"},
        {"numpy! >=2", "numpy>=2"},
        {"x; 'it\"s' in sys.platform", "x ; 'it\"s' in sys_platform"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kr_requirement *r = NULL, *again = NULL;

        if (kr_requirement_parse(rows[i].text, strlen(rows[i].text), &r, &err) < 0)
            printf("# %s: %s\n", rows[i].text, err.msg);
        CHECK(r);
        if (strcmp(r->text, rows[i].anew) != 0)
            printf("# %s: %s\n", rows[i].text, r->text);
        CHECK(strcmp(r->text, rows[i].anew) == 0);
        CHECK(kr_requirement_parse(r->text, strlen(r->text), &again, &err) == 0);
        CHECK(strcmp(r->text, again->text) == 0);
        kr_requirement_free(r);
        kr_requirement_free(again);
    }
}

static void what_leads_elsewhere_is_refused(void)
{
    static const struct {
        const char *text;
        unsigned position;
        const char *why;
    } rows[] = {
        {"", 1, "a name is missing"},
        {"   ", 1, "a name is missing"},
        {"-r", 1, "options"},
        {"--index-url=http://x", 1, "options"},
        {"../x", 1, "paths"},
        {"/etc/passwd", 1, "paths"},
        {"~/x", 1, "paths"},
        {"a/b", 2, "addresses and paths"},
        {"http://x/y", 5, "addresses and paths"},
        {"file:///etc/passwd", 5, "addresses and paths"},
        {"git+https://x/y", 4, "does not belong"},
        {"name@http://foo.com", 5, "addresses"},
        {"name @ http://foo.com", 6, "addresses"},
        {"evil.whl", 1, "files (.whl)"},
        {"x-1.0.tar.gz", 1, "files (.tar.gz)"},
        {"a;b", 3, "a marker has"},
        {"a b", 3, "does not belong"},
        {"a$(id)", 2, "does not belong"},
        {"a`id`", 2, "does not belong"},
        {"a|sh", 2, "does not belong"},
        {"a&b", 2, "does not belong"},
        {"a>=1;os_name=='x' ;rm", 19, "does not belong"},
        {"1.24.0", 1, "a version without a name"},
        {"numpy=1.0", 6, "a single ="},
        {"numpy 1.0", 7, "does not belong"},
        {"numpy>=", 8, "a version is missing"},
        {"numpy>=1,", 10, "an operator"},
        {"numpy>=a.b", 8, "not a version"},
        {"numpy(>=1", 10, "closing parenthesis"},
        {"numpy[a", 8, "closing ]"},
        {"numpy[a,]", 9, "missing behind the comma"},
        {"numpy[-x]", 7, "name of an extra"},
        {"numpy_", 6, "a name ends"},
        {"x; os_name", 11, "a marker compares"},
        {"x; os_name == 'a", 15, "closing quote"},
        {"x; (os_name == 'a'", 19, "closing parenthesis"},
        {"x; os_name == 'a\\x'", 17, "cannot stand"},
        {"x; nothing == 'a'", 4, "a marker has"},
        {"na\xc3\xafve", 3, "does not belong"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kr_requirement *r = NULL;
        char position[32];
        int error = kr_requirement_parse(rows[i].text, strlen(rows[i].text), &r, &err);

        snprintf(position, sizeof position, "position %u: ", rows[i].position);
        if (error == 0 || !strstr(err.msg, position) || !strstr(err.msg, rows[i].why))
            printf("# %s: %d %s\n", rows[i].text, error, err.msg);
        CHECK(error < 0 && err.kind == KR_ERR_INVALID);
        CHECK(strstr(err.msg, position) && strstr(err.msg, rows[i].why));
    }
}

static void names_have_a_bound(void)
{
    char text[200];
    struct kr_requirement *r;

    memset(text, 'a', sizeof text);
    CHECK(kr_requirement_parse(text, 100, &r, &err) == 0);
    CHECK(strlen(r->canonical) == 100);
    kr_requirement_free(r);
    CHECK(kr_requirement_parse(text, 101, &r, &err) < 0 && strstr(err.msg, "at most 100"));
    CHECK(kr_requirement_parse("a\0b", 3, &r, &err) < 0);
    CHECK(kr_requirement_parse("Zope.Interface__x", 17, &r, &err) == 0);
    CHECK(strcmp(r->canonical, "zope-interface-x") == 0 && strcmp(r->name, "Zope.Interface__x") == 0);
    kr_requirement_free(r);
    CHECK(kr_requirement_parse("reqests!", 8, &r, &err) == 0 && r->insists);
    kr_requirement_free(r);
    CHECK(kr_requirement_parse("reqests!=1", 10, &r, &err) == 0 && !r->insists && r->spec_count == 1);
    kr_requirement_free(r);
}

static void markers_hold_for_the_cell(void)
{
    static const struct {
        const char *marker;
        int holds;
    } rows[] = {
        {"python_version >= '3.9'", 1},
        {"python_version < '3.9'", 0}, /* 3.11, not a text before "3.9" */
        {"python_full_version ~= '3.11.0'", 1},
        {"python_version == '3.*'", 1},
        {"'3.9' < python_version", 1},
        {"os_name == 'posix' and sys_platform == 'linux'", 1},
        {"sys_platform == 'win32' or sys_platform == 'darwin'", 0},
        {"sys_platform != 'win32'", 1},
        {"platform_python_implementation == 'CPython'", 1},
        {"implementation_name in 'cpython pypy'", 1},
        {"implementation_name not in 'cpython pypy'", 0},
        {"extra == 'Test_It'", 1},
        {"extra == 'other'", 0},
        {"extra == 'other' or os_name == 'posix' and python_version > '3'", 1},
        {"(extra == 'other' or os_name == 'posix') and python_version < '3'", 0},
        {"platform_system ~= 'Linux'", 0},
    };
    struct kr_marker_env env;

    kr_marker_env_init(&env, "3.11.2");
    snprintf(env.values[KR_MARKER_EXTRA], sizeof env.values[KR_MARKER_EXTRA], "test-it");
    CHECK(strcmp(env.values[KR_MARKER_PYTHON_VERSION], "3.11") == 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        struct kr_requirement *r;
        int holds;

        snprintf(text, sizeof text, "x;%s", rows[i].marker);
        CHECK(kr_requirement_parse(text, strlen(text), &r, &err) == 0);
        holds = kr_requirement_applies(r, &env);
        if (holds != rows[i].holds)
            printf("# %s\n", rows[i].marker);
        CHECK(holds == rows[i].holds);
        kr_requirement_free(r);
    }
}

static void words_make_a_list(void)
{
    static const char text[] = " pandas matplotlib>=3, seaborn [stats] (>=0.12,<1) numpy >= 2 , < 3 x;os_name=='a' y\n";
    static const char *const want[] = {"pandas",      "matplotlib>=3",        "seaborn[stats]>=0.12,<1",
                                       "numpy>=2,<3", "x ; os_name == \"a\"", "y"};
    static const char *const refused[] = {
        "numpy --index-url http://x", "a -r /etc/passwd", "a b;c", "a b>=", "a(>=1)b", "numpy 1.24.0"};
    struct kr_requirements list = {0};

    CHECK(kr_requirements_words(text, sizeof text - 1, &list, &err) == 0);
    CHECK(list.count == sizeof want / sizeof *want);
    for (size_t i = 0; i < list.count; i++)
        CHECK(strcmp(list.items[i]->text, want[i]) == 0);
    kr_requirements_done(&list);
    CHECK(kr_requirements_words("  ", 2, &list, &err) == 0 && list.count == 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK(kr_requirements_words(refused[i], strlen(refused[i]), &list, &err) < 0);
    CHECK(list.count == 0);
}

#define HEX "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef"

static void files_have_comments_and_hashes(void)
{
    static const char text[] = "\xef\xbb\xbf# all of it\r\n"
                               "numpy >= 1.20  # the oldest\r\n"
                               "\r\n"
                               "requests[socks] \\\n"
                               "    --hash=sha256:" HEX " \\\n"
                               "    --hash=sha256:1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
                               "x ; python_version < '3' # never";
    static const struct {
        const char *text, *why;
    } refused[] = {
        {"a\n-r other.txt\n", "line 2: invalid requirement \"-r other.txt\", position 1: the option -r is not taken"},
        {"-c c.txt", "the option -c is"},
        {"--index-url=http://x/", "the option --index-url is"},
        {"-e .", "the option -e is"},
        {"a --global-option=x", "the option --global-option is"},
        {"a --hash=md5:12", "the option --hash is"},
        {"a --hash=sha256:12", "64 hex"},
        {"./here", "paths"},
        {"a @ http://x/", "addresses"},
        {"${HOME}", "begins with"},
        {"\n\na b", "line 3: "},
    };
    struct kr_requirements list = {0};

    CHECK(kr_requirements_file(text, sizeof text - 1, &list, &err) == 0);
    CHECK(list.count == 3);
    CHECK(list.items[0]->line == 2 && list.items[1]->line == 4 && list.items[2]->line == 7);
    CHECK(strcmp(list.items[1]->text, "requests[socks]") == 0 && list.items[1]->hash_count == 2);
    CHECK(kr_requirement_hash_fits(list.items[1], HEX));
    CHECK(!kr_requirement_hash_fits(list.items[1], "2123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"));
    CHECK(kr_requirement_hash_fits(list.items[0], HEX));
    kr_requirements_done(&list);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int r = kr_requirements_file(refused[i].text, strlen(refused[i].text), &list, &err);

        if (r == 0 || !strstr(err.msg, refused[i].why))
            printf("# %s: %s\n", refused[i].text, err.msg);
        CHECK(r < 0 && strstr(err.msg, refused[i].why));
    }
    CHECK(list.count == 0);
}

int main(void)
{
    RUN(versions_stand_in_order);
    RUN(versions_have_a_normal_form);
    RUN(specifiers_match_as_pep_440_says);
    RUN(requirements_are_written_anew);
    RUN(what_leads_elsewhere_is_refused);
    RUN(names_have_a_bound);
    RUN(markers_hold_for_the_cell);
    RUN(words_make_a_list);
    RUN(files_have_comments_and_hashes);
    CHECK_DONE();
}

/* src/packages/import_name.c: what is said of an import that found nothing, and what may be installed for it. */
#include "check.h"
#include "import_name.h"
#include <stdio.h>
#include <string.h>

static const char *const blocked_words[] = {"torch", "PyYAML"};
static const struct kr_words blocked = {blocked_words, 2};

static void tables_are_in_order(void)
{
    char own[KR_REQ_NAME_ROOM], other[KR_REQ_NAME_ROOM];

    CHECK(kr_import_rows_count >= 150);
    for (size_t i = 0; i < kr_import_rows_count; i++) {
        const struct kr_import_row *row = &kr_import_rows[i];

        CHECK(i == 0 || strcmp(kr_import_rows[i - 1].module, row->module) < 0);
        CHECK(kr_requirement_canonical(row->other, strlen(row->other), other));
        if (strchr(row->module, '.'))
            continue; /* the first part alone says nothing */
        CHECK(kr_requirement_canonical(row->module, strlen(row->module), own));
        if (strcmp(own, other) == 0)
            printf("# %s is published as itself\n", row->module);
        CHECK(strcmp(own, other) != 0);
    }
    for (size_t i = 1; i < kr_import_old_count; i++)
        CHECK(strcmp(kr_import_old[i - 1].module, kr_import_old[i].module) < 0);
}

static void a_session_sends_words(void)
{
    static const char *const wrong[] = {
        "",
        "module",
        "module ",
        "module a",
        "module a -",
        "module a - - -",
        "module a;b - -",
        "module a b;c -",
        "module a - x;y",
        "module 1a - -",
        "module .a - -",
        "standard a -",
        "standard",
        "modul a - -",
        "module a\n - -",
        "module é - -",
    };
    char longer[700] = "module ";
    struct kr_import_miss miss;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(!kr_import_miss_read(wrong[i], &miss));
    CHECK(kr_import_miss_read("module a.b jsson numpy,pandas", &miss));
    CHECK(strcmp(miss.module, "a.b") == 0 && strcmp(miss.near, "jsson") == 0 && !miss.standard);
    CHECK(strcmp(miss.there, "numpy, pandas") == 0);
    CHECK(kr_import_miss_read("standard tkinter", &miss) && miss.standard && !miss.near[0]);
    memset(longer + 7, 'a', KR_IMPORT_MODULE_MAX + 1);
    strcpy(longer + 7 + KR_IMPORT_MODULE_MAX + 1, " - -");
    CHECK(!kr_import_miss_read(longer, &miss));
    memset(longer + 7, 'a', 690);
    longer[697] = '\0';
    CHECK(!kr_import_miss_read(longer, &miss));
}

/* clang-format off */
static const struct {
    const char *sent, *call, *line;
} said[] = {
    {"module cv2 - -", "pip install NAME",
     "module cv2 (package opencv-python-headless) is not installed: pip install opencv-python-headless"},
    {"module cv2 csv -", "add(\"NAME\")",
     "module cv2 (package opencv-python-headless) is not installed: add(\"opencv-python-headless\")"},
    {"module pandas - -", "pip install NAME", "module pandas is not installed: pip install pandas"},
    {"module ujson json -", "pip install NAME", "module ujson is not installed: pip install ujson"},
    {"module jsson json -", "pip install NAME", "there is no module jsson; did you mean json?"},
    {"module reqeusts - -", "pip install NAME",
     "there is no module reqeusts; did you mean requests? pip install requests installs that"},
    {"module surely_not - -", "pip install NAME", "module surely_not is not installed; "
     "if there is a package of that name, this installs it: pip install surely-not"},
    {"module beautifulsoup4 - -", "pip install NAME", "the package beautifulsoup4 is imported as bs4"},
    {"module pillow - -", NULL, "the package pillow is imported as PIL"},
    {"module urllib2 urllib3 -", NULL, "module urllib2 is one of older Pythons; its place has urllib.request"},
    {"module google.nothing - -", "pip install NAME", ""},
    {"module google.cloud.storage - -", "pip install NAME",
     "module google.cloud.storage (package google-cloud-storage) is not installed: pip install google-cloud-storage"},
    {"standard tkinter", "pip install NAME", "module tkinter belongs to Python itself, and the Python here was built "
     "without it; no package brings it"},
    {"standard distutils", "pip install NAME",
     "module distutils (package setuptools) is not installed: pip install setuptools"},
    {"module IPython - -", "pip install NAME", "module IPython is not installed here; display(object) needs no import"},
    {"module torch - -", "pip install NAME", "module torch is not installed, and this server does not allow it to be "
     "installed"},
    {"module yaml - -", "pip install NAME", "module yaml (package PyYAML) is not installed, and this server does not "
     "allow it to be installed"},
    {"module cv2 - numpy", NULL, "module cv2 (package opencv-python-headless) is not installed, and packages cannot be "
     "installed here; `pip list` names those that are there: numpy …"},
};
/* clang-format on */

static void each_has_its_line(void)
{
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        struct kr_import_rules rules = {.call = said[i].call, .blocked = blocked};
        struct kr_import_miss miss;
        char line[400];

        CHECK(kr_import_miss_read(said[i].sent, &miss));
        kr_import_advise(&miss, &rules, line, sizeof line);
        if (strcmp(line, said[i].line) != 0)
            printf("# %s: %s\n", said[i].sent, line);
        CHECK(strcmp(line, said[i].line) == 0);
    }
}

static bool installs(const char *sent, const char *distribution)
{
    char name[KR_REQ_NAME_ROOM] = "";
    struct kr_import_miss miss;

    return kr_import_miss_read(sent, &miss) && kr_import_installable(&miss, &blocked, name) &&
           strcmp(name, distribution) == 0;
}

static void only_what_is_meant_is_installed_unasked(void)
{
    static const char *const never[] = {
        "module torch - -",    "module yaml - -",           "module jsson json -",
        "module reqeusts - -", "module beautifulsoup4 - -", "standard tkinter",
        "module urllib2 - -",  "module google.nothing - -", "module winreg - -",
    };

    CHECK(installs("module cv2 csv -", "opencv-python-headless"));
    CHECK(installs("module pandas - -", "pandas"));
    CHECK(installs("module surely_not - -", "surely-not"));
    CHECK(installs("standard distutils", "setuptools"));
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        char name[KR_REQ_NAME_ROOM];
        struct kr_import_miss miss;

        CHECK(kr_import_miss_read(never[i], &miss) && !kr_import_installable(&miss, &blocked, name));
    }
}

int main(void)
{
    RUN(tables_are_in_order);
    RUN(a_session_sends_words);
    RUN(each_has_its_line);
    RUN(only_what_is_meant_is_installed_unasked);
    CHECK_DONE();
}

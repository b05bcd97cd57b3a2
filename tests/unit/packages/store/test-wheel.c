/* Wheels: texts that must agree, names, and what comes out. Each refusal says what was wrong. */
#include "check.h"
#include "take-wheel.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- texts ---- */

#define HEAD "Metadata-Version: 2.1\n"
#define NAMED HEAD "Name: good\nVersion: 1.0\n"

static const struct {
    struct made_texts texts;
    const char *words;
} texts[] = {
    {{.metadata = NAMED "Requires-Dist: other[x] (>=1) ; extra == 'a'\n"}, NULL},
    {{.metadata = ""}, "no METADATA"},
    {{.metadata = " "}, "lacks Metadata-Version"},
    {{.metadata = HEAD "Name: GOOD\nVersion: 1.0.0\n"}, "is not the version"},
    {{.metadata = HEAD "Name: G.ood\nVersion: 1.0\n"}, "is not the name"},
    {{.metadata = HEAD "Name: good\nVersion: v1.0\n"}, NULL},
    {{.metadata = HEAD "Name: good\nName: good\nVersion: 1.0\n"}, "two names"},
    {{.metadata = HEAD "Name: good\nVersion: 1.0\nVersion: 1.0\n"}, "two versions"},
    {{.metadata = "Metadata-Version: 3.0\nName: good\nVersion: 1.0\n"}, "other than 1 or 2"},
    {{.metadata = HEAD "Name good\n"}, "not a header"},
    {{.metadata = HEAD "Summary: a\n folded\nName: good\nVersion: 1.0\n"}, NULL},
    {{.metadata = HEAD "Name: good\n\nVersion: 1.0\n"}, "lacks"},
    {{.metadata = HEAD "Name: good\nVersion: 1.0\nSummary: \xff\n"}, "not text in UTF-8"},
    {{.metadata = NAMED "Requires-Dist: other @ http://elsewhere.example/x.whl\n"}, "an address of its own"},
    {{.metadata = NAMED "Requires-Dist: other[a]@http://elsewhere.example/x.whl\n"}, "an address of its own"},
    {{.metadata = NAMED "Requires-Dist: --index-url=http://elsewhere.example x\n"}, "not the name of a distribution"},
    {{.wheel = "Wheel-Version: 1.9\r\nRoot-Is-Purelib: False\r\n"}, NULL},
    {{.wheel = ""}, "no WHEEL"},
    {{.wheel = "Wheel-Version: 2.0\nRoot-Is-Purelib: true\n"}, "other than 1"},
    {{.wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: maybe\n"}, "true or false"},
    {{.wheel = "Wheel-Version: 1.0\n"}, "lacks"},
    {{.points = "[console_scripts]\nrun = good:main\n[other]\nanything goes\n"}, NULL},
    {{.points = "[console_scripts]\nrun = good.sub : a.b [extra]\n"}, NULL},
    {{.points = "[console_scripts]\n../run = good:main\n"}, "is not NAME"},
    {{.points = "[console_scripts]\nrun = good:main;import os\n"}, "is not NAME"},
    {{.points = "[console_scripts]\nrun = good\n"}, "is not NAME"},
    {{.points = "[console_scripts]\nrun\n"}, "is not NAME"},
    {{.points = "[console_scripts]\nrun = good:main\n[gui_scripts]\nrun = good:main\n"}, "one name twice"},
    {{.points = "[console_scripts]\nrun = good:main\nRun = good:main\n"}, "upper and lower case"},
};

static void texts_agree(void)
{
    bool fine = true;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct made_wheel *w = maker_make(NULL, &texts[i].texts);
        char what[32];

        snprintf(what, sizeof what, "text %zu", i);
        if (!(texts[i].words ? refused(what, take(w), texts[i].words) : was_taken(what, take(w))))
            fine = false;
        maker_free(w);
    }
    CHECK(fine);
}

#define HASH "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
static const struct {
    const char *what, *from, *to, *words;
} records[] = {
    {"quoted", "good/more.py,", "\"good/more.py\",", NULL},
    {"without a size", ",23\n", ",\n", NULL},
    {"carriage returns", "\n", "\r\n", NULL},
    {"another hash", "good/more.py,sha256=", "good/more.py," HASH ",23\n#", "another hash"},
    {"short hash", "more.py,sha256=", "more.py,sha256=A,23\n#", "other than sha256"},
    {"md5", "more.py,sha256=", "more.py,md5=", "other than sha256"},
    {"no hash", "more.py,sha256=", "more.py,,23\n#", "has no hash"},
    {"another size", ",23\n", ",24\n", "another size"},
    {"no size", ",23\n", ",x\n", "another size"},
    {"twice", "good/more.py,", "good/__init__.py,", "two lines"},
    {"not there", "good/more.py,", "good/less.py,", "is not in the archive"},
    {"a quote", "good/more.py,", "good/mo\"re.py,", "is not PATH,HASH,SIZE"},
    {"an open quote", "good/more.py,", "\"good/more.py,", "is not PATH,HASH,SIZE"},
    {"a comma too many", ",23\n", ",23,\n", "is not PATH,HASH,SIZE"},
    {"a comma too few", "good/more.py,", "good/more.py", "is not PATH,HASH,SIZE"},
};

/* The RECORD of a good wheel. */
static char *good_record(void)
{
    struct made_wheel *w = maker_make(NULL, NULL);
    int fd = maker_file(w->data, w->len);
    char *text = calloc(1, 4096);
    FILE *p;
    char command[200];

    snprintf(command, sizeof command,
             "/usr/bin/python3 -c 'import zipfile; print(zipfile.ZipFile(\"/proc/%d/fd/%d\").read(\"" MAKER_INFO
             "RECORD\").decode(), end=\"\")'",
             (int)getpid(), fd);
    p = popen(command, "r");
    if (p) {
        text[fread(text, 1, 4095, p)] = '\0';
        pclose(p);
    }
    close(fd);
    maker_free(w);
    return text;
}

/* All occurrences, or the first alone if the rest of its line is to be a comment of ours ("#" in `to`). */
static char *replaced(const char *text, const char *from, const char *to)
{
    char *out = calloc(1, 16384), *at = out;
    bool cut_line = strchr(to, '#');

    while (*text) {
        if (strncmp(text, from, strlen(from)) != 0) {
            *at++ = *text++;
            continue;
        }
        at += sprintf(at, "%.*s", (int)strcspn(to, "#"), to);
        text += strlen(from);
        if (cut_line)
            text += strcspn(text, "\n") + 1;
    }
    return out;
}

static void record_agrees(void)
{
    char *good = good_record();
    bool fine = strstr(good, "good/more.py,sha256=") && strstr(good, ",23\n");

    for (size_t i = 0; fine && i < sizeof records / sizeof *records; i++) {
        char *text = replaced(good, records[i].from, records[i].to);
        const struct made_texts with = {.record = text};
        struct made_wheel *w = maker_make(NULL, &with);

        if (!(records[i].words ? refused(records[i].what, take(w), records[i].words)
                               : was_taken(records[i].what, take(w))))
            fine = false;
        maker_free(w);
        free(text);
    }
    free(good);
    CHECK(fine);
}

static void every_file_is_recorded(void)
{
    const struct made_entry extra[] = {{.name = "good/extra.py", .text = "x", .unrecorded = true}, {0}};
    static const struct made_texts empty = {.record = "\n"}, none = {.record = ""};
    struct made_wheel *w = maker_make(extra, NULL);

    CHECK(refused("extra", take(w), "is in the archive and has no line"));
    maker_free(w);
    w = maker_make(NULL, &empty);
    CHECK(refused("empty", take(w), "has no line"));
    maker_free(w);
    w = maker_make(NULL, &none);
    CHECK(refused("none", take(w), "no RECORD"));
    maker_free(w);
}

/* ---- names of wheels ---- */

static void file_names(void)
{
    static const char *const good[] = {"good-1.0-py3-none-any.whl", "good-1.0-1build-py2.py3-none-any.whl",
                                       "Good_Name-1.0+cpu-cp311-cp311-manylinux2014_x86_64.whl"};
    static const char *const bad[] = {"good-1.0.tar.gz",
                                      "good-1.0-py3-none.whl",
                                      "good-1.0-x-py3-none-any.whl",
                                      "good--py3-none-any.whl",
                                      "-1.0-py3-none-any.whl",
                                      "../good-1.0-py3-none-any.whl",
                                      "good-1.0-py3-none-a/b.whl",
                                      "good-1.0-a-b-py3-none-any.whl",
                                      ".whl",
                                      "",
                                      "good-one-py3-none-any.whl",
                                      "good-1.0-py3--any.whl"};
    struct kr_wheel_name n;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(kr_wheel_name_parse(good[i], &n, &err) == 0);
    CHECK(strcmp(n.name, "good-name") == 0 && strcmp(n.version, "1.0+cpu") == 0 && n.build[0] == '\0');
    CHECK(strcmp(n.python, "cp311") == 0 && strcmp(n.platform, "manylinux2014_x86_64") == 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (kr_wheel_name_parse(bad[i], &n, &err) == 0)
            printf("# taken: %s\n", bad[i]);
        CHECK(kr_wheel_name_parse(bad[i], &n, &err) < 0 && err.kind == KR_ERR_INVALID);
    }
}

static bool fits(const char *tags)
{
    char name[200], machine[64] = "";
    struct kr_wheel_name n;
    FILE *p = popen("uname -m", "r");

    if (p && fscanf(p, "%63s", machine) != 1)
        machine[0] = '\0';
    if (p)
        pclose(p);
    snprintf(name, sizeof name, "x-1-%s.whl", tags);
    if (strstr(name, "MACHINE")) {
        char rest[80];

        snprintf(rest, sizeof rest, "%s.whl", machine);
        snprintf(strstr(name, "MACHINE"), 100, "%s", rest);
    }
    return kr_wheel_name_parse(name, &n, &err) == 0 && kr_wheel_name_fits(&n, "3.11.2");
}

static void tags_fit(void)
{
    CHECK(fits("py3-none-any") && fits("py2.py3-none-any") && fits("py38-none-any") &&
          fits("cp311-cp311-linux_MACHINE"));
    CHECK(fits("cp38-abi3-manylinux_2_17_MACHINE") && fits("cp311-none-any"));
    CHECK(!fits("py2-none-any") && !fits("cp312-cp312-linux_MACHINE") && !fits("cp310-cp310-linux_MACHINE"));
    CHECK(!fits("cp312-abi3-linux_MACHINE") && !fits("cp311-cp311-win_amd64") &&
          !fits("cp311-cp311-macosx_11_0_arm64"));
    CHECK(!fits("cp311-cp311-musllinux_1_1_MACHINE") && !fits("pp39-pypy39_pp73-linux_MACHINE"));
    CHECK(!fits("cp311-cp311-manylinux2014_other"));
}

static void another_file_name(void)
{
    struct made_wheel *w = maker_make(NULL, NULL);

    CHECK(refused("name", take_as(w, "bad-1.0-py3-none-any.whl", &kr_wheel_limits_default, NULL), "another name"));
    CHECK(refused("version", take_as(w, "good-1.1-py3-none-any.whl", &kr_wheel_limits_default, NULL), "another name"));
    CHECK(was_taken("spelling", take_as(w, "Good-1.0-py3-none-any.whl", &kr_wheel_limits_default, NULL)));
    maker_free(w);
}

/* ---- what is unpacked ---- */

static bool has_text(int folder, const char *path, const char *text, mode_t mode)
{
    int fd = openat(folder, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char is[4096];
    struct stat st;
    ssize_t n = fd < 0 ? -1 : read(fd, is, sizeof is - 1);
    bool fine = n >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 07777) == mode && st.st_nlink == 1;

    is[n < 0 ? 0 : n] = '\0';
    if (fd >= 0)
        close(fd);
    if (!fine || strcmp(is, text) != 0)
        printf("# %s: %zd %o %s\n", path, n, n < 0 ? 0 : (unsigned)st.st_mode, is);
    return fine && strcmp(is, text) == 0;
}

static void files_come_out_whole(void)
{
    const struct made_entry more[] = {{.name = "good/tool", .text = "t", .mode = 0100775},
                                      {.name = "good-1.0.data/purelib/_second.py", .text = "S = 2\n"},
                                      {.name = "good-1.0.data/scripts/first", .text = "#!python -s\nprint(1)\n"},
                                      {.name = "good-1.0.data/scripts/windowed", .text = "#!pythonw\n"},
                                      {.name = "good-1.0.data/scripts/shell", .text = "#!/bin/sh\necho\n"},
                                      {.name = "good-1.0.data/scripts/short", .text = "x"},
                                      {.name = "good-1.0.data/data/share/good/d", .text = "data"},
                                      {.name = "good-1.0.data/headers/good.h", .text = "header"},
                                      {.name = MAKER_INFO "INSTALLER", .text = "another"},
                                      {.name = MAKER_INFO "direct_url.json", .text = "{}"},
                                      {0}};
    static const struct made_texts with = {.points = "[console_scripts]\ngo = good.cli:Main.run\n"};
    struct made_wheel *w = maker_make(more, &with);
    const char *const *list;
    struct kr_wheel *wheel;
    int folder, fd;

    CHECK(was_taken("good", take_as(w, MAKER_NAME, &kr_wheel_limits_default, &folder)));
    CHECK(has_text(folder, "site/good/__init__.py", "VALUE = 1\n", 0644) &&
          has_text(folder, "site/good/tool", "t", 0755));
    CHECK(has_text(folder, "site/_second.py", "S = 2\n", 0644));
    CHECK(has_text(folder, "bin/first", "#!/venv/bin/python -s\nprint(1)\n", 0755));
    CHECK(has_text(folder, "bin/windowed", "#!/venv/bin/python\n", 0755));
    CHECK(has_text(folder, "bin/shell", "#!/bin/sh\necho\n", 0755) && has_text(folder, "bin/short", "x", 0755));
    CHECK(has_text(folder, "bin/go",
                   "#!/venv/bin/python\nimport sys\nfrom good.cli import Main\nif __name__ == \"__main__\":\n"
                   "    sys.exit(Main.run())\n",
                   0755));
    CHECK(has_text(folder, "data/share/good/d", "data", 0644) &&
          has_text(folder, "headers/good/good.h", "header", 0644));
    CHECK(has_text(folder, "site/" MAKER_INFO "INSTALLER", "krait\n", 0644));
    CHECK(faccessat(folder, "site/" MAKER_INFO "direct_url.json", F_OK, 0) < 0);
    CHECK(faccessat(folder, "site/" MAKER_INFO "RECORD", F_OK, 0) == 0);
    close(folder);
    fd = maker_file(w->data, w->len);
    CHECK(kr_wheel_open(fd, MAKER_NAME, &kr_wheel_limits_default, &wheel, &err) == 0);
    CHECK(kr_wheel_modules(wheel, &list) == 2 && strcmp(list[0], "_second") == 0 && strcmp(list[1], "good") == 0);
    CHECK(kr_wheel_scripts(wheel, &list) == 5 && strcmp(list[0], "first") == 0 && strcmp(list[1], "go") == 0);
    CHECK(strcmp(kr_wheel_title(wheel), "Good") == 0 && kr_wheel_files(wheel) == w->count + 9);
    kr_wheel_free(wheel);
    close(fd);
    maker_free(w);
}

/* A folder whose library looks for others beside its wheel is made in environments, not linked. */
static void libraries_that_look_out(void)
{
    static char far[200000];
    const struct made_entry more[] = {
        {.name = "good/a/lib.so", .text = "x\0$ORIGIN/../../other/lib\0", .len = 26},
        {.name = "good/b/lib.so.1", .text = "x\0$ORIGIN/../../good.libs:$ORIGIN\0", .len = 34},
        {.name = "good/c/lib.so", .text = far, .len = sizeof far},
        {.name = "good/d/lib.py", .text = "$ORIGIN/../../other"},
        {.name = "good.libs/x.so", .text = "$ORIGIN"},
        {0}};
    struct made_wheel *w;
    const char *const *list;
    struct kr_wheel *wheel;
    int fd, folder = new_folder();

    memcpy(far + (64 << 10) - 4, "$ORIGIN/../../other", 19); /* across the pieces that a reader hands out */
    w = maker_make(more, NULL);
    fd = maker_file(w->data, w->len);
    CHECK(kr_wheel_open(fd, MAKER_NAME, &kr_wheel_limits_default, &wheel, &err) == 0);
    CHECK(kr_wheel_unpack(wheel, folder, NULL, &err) == 0);
    CHECK(kr_wheel_spread(wheel, &list) == 2 && strcmp(list[0], "good/a") == 0 && strcmp(list[1], "good/c") == 0);
    kr_wheel_free(wheel);
    close(fd);
    close(folder);
    maker_free(w);
}

/* A library full of the word costs no more than one that has it a few times. */
static void libraries_with_many_origins(void)
{
    static const char word[] = "$ORIGIN/../b";
    enum { TIMES = 2000000, LEN = TIMES * sizeof word };
    char *text = malloc(LEN);
    const struct made_entry more[] = {{.name = "good/a/lib.so", .text = text, .len = LEN}, {.name = "good/b/x"}, {0}};
    struct kr_wheel_limits limits = kr_wheel_limits_default;
    int folder;
    struct made_wheel *w;

    if (!text)
        return;
    for (size_t i = 0; i < TIMES; i++)
        memcpy(text + i * sizeof word, word, sizeof word);
    w = maker_make(more, NULL);
    CHECK(was_taken("origins", take_as(w, MAKER_NAME, &limits, &folder)));
    close(folder);
    maker_free(w);
    free(text);
}

/* Folders count as files do: one name can stand for many. */
static void folders_count(void)
{
    const struct made_entry more[] = {{.name = "good/a/b/c/d"}, {.name = "good/a/bc/d"}, {.name = "e/f/g/h/i/j"}, {0}};
    struct made_wheel *w = maker_make(more, NULL);
    struct kr_wheel_limits limits = kr_wheel_limits_default;

    limits.files_max = (uint32_t)w->count + 11; /* good, a, a/b, a/b/c, a/bc; e to e/f/g/h/i; *.dist-info */
    CHECK(was_taken("folders", take_as(w, MAKER_NAME, &limits, NULL)));
    limits.files_max--;
    CHECK(refused("folders", take_as(w, MAKER_NAME, &limits, NULL), "files and folders"));
    maker_free(w);
}

static void unpacking_can_be_stopped(void)
{
    struct made_wheel *w = maker_make(NULL, NULL);
    int fd = maker_file(w->data, w->len), folder = new_folder();
    const volatile bool stop = true;
    struct kr_wheel *wheel;

    CHECK(kr_wheel_open(fd, MAKER_NAME, &kr_wheel_limits_default, &wheel, &err) == 0);
    CHECK(kr_wheel_unpack(wheel, folder, &stop, &err) == -ECANCELED && entries_in(folder) == 0);
    CHECK(kr_wheel_unpack(wheel, folder, NULL, &err) == 0);
    kr_wheel_free(wheel);
    close(fd);
    close(folder);
    maker_free(w);
}

int main(void)
{
    if (!mkdtemp(scratch))
        return 1;
    RUN(texts_agree);
    RUN(record_agrees);
    RUN(every_file_is_recorded);
    RUN(file_names);
    RUN(tags_fit);
    RUN(another_file_name);
    RUN(files_come_out_whole);
    RUN(libraries_that_look_out);
    RUN(libraries_with_many_origins);
    RUN(folders_count);
    RUN(unpacking_can_be_stopped);
    remove_scratch();
    CHECK_DONE();
}

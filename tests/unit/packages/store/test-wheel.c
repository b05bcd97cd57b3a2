/* Wheels: what is refused, beside what of the same kind is taken. Each refusal says what was wrong. */
#include "check.h"
#include "err.h"
#include "wheel-maker.h"
#include "wheel.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct kr_err err;
static char scratch[] = "/tmp/kr-test-wheel-XXXXXX";

/* A new empty folder in the scratch folder. */
static int new_folder(void)
{
    static unsigned count;
    char path[64];

    snprintf(path, sizeof path, "%s/%u", scratch, count++);
    mkdir(path, 0700);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void remove_scratch(void)
{
    char command[96];

    snprintf(command, sizeof command, "rm -rf %s", scratch);
    if (system(command) != 0)
        printf("# %s stays\n", scratch);
}

static int entries_in(int folder)
{
    DIR *d = fdopendir(dup(folder));
    int n = 0;

    rewinddir(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

/* Opens and unpacks. 0, 1: refused before anything was written, 2: while unpacking. */
static int take_as(const struct made_wheel *w, const char *name, const struct kr_wheel_limits *limits, int *ret_folder)
{
    int fd = maker_file(w->data, w->len), folder = new_folder(), r;
    struct kr_wheel *wheel;

    memset(&err, 0, sizeof err);
    r = kr_wheel_open(fd, name, limits, &wheel, &err) < 0 ? 1 : 0;
    if (r == 0) {
        r = kr_wheel_unpack(wheel, folder, NULL, &err) < 0 ? 2 : 0;
        kr_wheel_free(wheel);
    } else if (entries_in(folder) != 0) {
        r = -1;
    }
    close(fd);
    if (ret_folder)
        *ret_folder = folder;
    else
        close(folder);
    return r;
}

static int take(const struct made_wheel *w)
{
    return take_as(w, MAKER_NAME, &kr_wheel_limits_default, NULL);
}

/* Was it refused, with these words? Says what came if not. */
static bool refused(const char *what, int r, const char *words)
{
    bool fine =
        (r == 1 || r == 2) && strstr(err.msg, words) && (err.kind == KR_ERR_INVALID || err.kind == KR_ERR_LIMIT);

    if (!fine)
        printf("# %s: %d %s\n", what, r, err.msg);
    return fine;
}

static bool was_taken(const char *what, int r)
{
    if (r != 0)
        printf("# %s: %d %s\n", what, r, err.msg);
    return r == 0;
}

/* ---- entries ---- */

static const char long_part[] =
    "good/"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
static char deep[300] = "";

struct entry_case {
    struct made_entry entries[3];
    const char *words; /* NULL: is taken */
};

static const struct entry_case names[] = {
    {{{.name = "good/deep/er/x.py"}}, NULL},
    {{{.name = "/etc/passwd"}}, "is absolute"},
    {{{.name = "good/../../x"}}, "is . or .."},
    {{{.name = "../x"}}, "is . or .."},
    {{{.name = "good/.."}}, "is . or .."},
    {{{.name = "good/./x"}}, "is . or .."},
    {{{.name = "good/...py"}}, NULL},
    {{{.name = "good//x"}}, "empty part"},
    {{{.name = "good\\..\\x"}}, "backslash"},
    {{{.name = "C:\\x"}}, "backslash"},
    {{{.name = "good/a\001b"}}, "control character"},
    {{{.name = "good/a\nb"}}, "control character"},
    {{{.name = "good/a\177b"}}, "control character"},
    {{{.name = "good/a\0b", .name_len = 8}}, "control character"},
    {{{.name = "good/a b,c.py"}}, NULL},
    {{{.name = "good/\xff"}}, "not UTF-8"},
    {{{.name = "good/\xc0\xaf"}}, "not UTF-8"},
    {{{.name = "good/\xed\xa0\x80"}}, "not UTF-8"},
    {{{.name = "good/\xc3\xa4.py"}}, NULL},
    {{{.name = "good/\xc3\xa4.py", .plain = true}}, "not marked as UTF-8"},
    {{{.name = "good/plain.py", .plain = true}}, NULL},
    {{{.name = "good/a\xcc\x88.py"}}, "second spelling"},    /* a and a combining diaeresis */
    {{{.name = "good/\xe2\x84\xab.py"}}, "second spelling"}, /* the sign of Angstrom */
    {{{.name = "good/a\xe2\x80\xae.py"}}, "invisible"},      /* from right to left */
    {{{.name = "good/a\xe2\x80\x8b.py"}}, "invisible"},      /* no width */
    {{{.name = long_part}}, "longer than 255"},
    {{{.name = deep}}, "64 folders deep"},
    {{{.name = "good/x.py"}, {.name = "good/x.py"}}, "one name twice"},
    {{{.name = "good/__init__.py"}}, "one name twice"},
    {{{.name = "good/X.py"}, {.name = "good/x.py"}}, "upper and lower case"},
    {{{.name = "good/\xc3\x84.py"}, {.name = "good/\xc3\xa4.py"}}, "upper and lower case"},
    {{{.name = "good/sub/a.py"}, {.name = "good/Sub/b.py"}}, "folders that differ"},
    {{{.name = "good/Sub/", .mode = 040755}, {.name = "good/sub/b.py"}}, "folders that differ"},
    {{{.name = "good/sub/a.py"}, {.name = "good/sub/A-b.py"}}, NULL},
    {{{.name = "good/both"}, {.name = "good/both/x.py"}}, "a file and something within it"},
    {{{.name = "good/sub/", .mode = 040755}, {.name = "good/sub/x.py"}}, NULL},
    {{{.name = "good/sub/", .mode = 040755}, {.name = "good/sub/", .mode = 040755}}, "one name twice"},
};

static const struct entry_case kinds[] = {
    {{{.name = "good/tool", .mode = 0100755}}, NULL},
    {{{.name = "good/link", .text = "/etc/passwd", .mode = 0120777}}, "symbolic link"},
    {{{.name = "good/there/", .mode = 0120777}}, "symbolic link"},
    {{{.name = "good/null", .mode = 0020666}}, "a device"},
    {{{.name = "good/disk", .mode = 0060666}}, "a device"},
    {{{.name = "good/pipe", .mode = 0010666}}, "a pipe"},
    {{{.name = "good/socket", .mode = 0140666}}, "a socket"},
    {{{.name = "good/tool", .mode = 0104755}}, "setuid"},
    {{{.name = "good/tool", .mode = 0102755}}, "setgid"},
    {{{.name = "good/tool", .mode = 0101755}}, "sticky"},
    {{{.name = "good/folder", .mode = 0040755}}, "not by both"},
    {{{.name = "good/folder/", .mode = 0100755}}, "not by both"},
    {{{.name = "good/folder/", .mode = 0040755}}, NULL},
    {{{.name = "good/folder/", .mode = 0040755, .text = "x", .stored = true}}, "folder with contents"},
};

static const struct entry_case forms[] = {
    {{{.name = "good/x", .text = "as it is", .stored = true}}, NULL},
    {{{.name = "good/x", .text = "in a stream", .streamed = true}}, NULL},
    {{{.name = "good/x", .text = "in a stream", .streamed = true, .stored = true}}, "stored as a stream"},
    {{{.name = "good/x", .text = "of zip64", .wide = true}}, NULL},
    {{{.name = "good/x", .text = "of zip64", .local_wide = true}}, NULL},
    {{{.name = "good/x", .extra = "UT\5\0\1\0\0\0\0", .extra_len = 9}}, NULL},
    {{{.name = "good/x", .extra = "UT\6\0\1\0\0\0\0", .extra_len = 9}}, "broken extra fields"},
    {{{.name = "good/x", .extra = "UT\5", .extra_len = 3}}, "broken extra fields"},
    {{{.name = "good/x", .extra = "\x75\x70\6\0\1\0\0\0\0x", .extra_len = 10}}, "other readers take"},
    {{{.name = "good/x", .extra = "\x6e\x75\0\0", .extra_len = 4}}, "other readers take"},
    {{{.name = "good/x", .extra = "\x01\x99\0\0", .extra_len = 4}}, "other readers take"},
    {{{.name = "good/x", .extra = "\1\0\x8\0\0\0\0\0\0\0\0\0", .extra_len = 12}}, "zip64 field that does not fit"},
    {{{.name = "good/x", .wide = true, .extra = "\1\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", .extra_len = 20}},
     "zip64 field that does not fit"},
};

static const struct entry_case places[] = {
    {{{.name = "good-1.0.data/purelib/other.py"}}, NULL},
    {{{.name = "good-1.0.data/platlib/other.py"}}, NULL},
    {{{.name = "good-1.0.data/scripts/run"}}, NULL},
    {{{.name = "good-1.0.data/data/share/x"}}, NULL},
    {{{.name = "good-1.0.data/headers/x.h"}}, NULL},
    {{{.name = "good-1.0.data/elsewhere/x"}}, "not known"},
    {{{.name = "good-1.0.data/x"}}, "not known"},
    {{{.name = "other-1.0.data/data/x"}}, "another distribution"},
    {{{.name = "good-1.0.data/purelib/good/more.py"}}, "one name twice"},
    {{{.name = "good-1.0.data/purelib/x.py"}, {.name = "good-1.0.data/platlib/x.py"}}, "one name twice"},
    {{{.name = "good-1.0.data/purelib/other-1.dist-info/METADATA"}}, "*.dist-info within"},
    {{{.name = "other-2.0.dist-info/METADATA"}}, "second *.dist-info"},
    {{{.name = "good-1.0.data/scripts/../../x"}}, "is . or .."},
};

static bool run_entries(const struct entry_case *cases, size_t count)
{
    bool fine = true;

    for (size_t i = 0; i < count; i++) {
        struct made_wheel *w = maker_make(cases[i].entries, NULL);
        const char *name = cases[i].entries[0].name;

        if (!(cases[i].words ? refused(name, take(w), cases[i].words) : was_taken(name, take(w))))
            fine = false;
        maker_free(w);
    }
    return fine;
}
#define RUN_ENTRIES(cases) run_entries(cases, sizeof cases / sizeof *cases)

static void names_stay_beneath_the_folder(void)
{
    for (unsigned i = 0; i < 70; i++)
        strcat(deep, "d/");
    strcat(deep, "x");
    CHECK(RUN_ENTRIES(names));
}

static void only_files_and_folders(void)
{
    CHECK(RUN_ENTRIES(kinds));
}

static void forms_of_entries(void)
{
    CHECK(RUN_ENTRIES(forms));
}

static void places_in_a_wheel(void)
{
    CHECK(RUN_ENTRIES(places));
}

/* ---- the archive's own numbers ---- */

static void nothing(struct made_wheel *w)
{
    (void)w;
}
static void front(struct made_wheel *w)
{
    maker_insert(w, 0, "#!/bin/sh\n", 10);
}
static void front_uncorrected(struct made_wheel *w)
{
    memmove(w->data + 10, w->data, w->len);
    w->len += 10;
}
static void gap(struct made_wheel *w)
{
    maker_insert(w, w->local[1], "between", 7);
}
static void gap_before_directory(struct made_wheel *w)
{
    maker_insert(w, w->directory, "between", 7);
}
static void gap_before_end(struct made_wheel *w)
{
    maker_insert(w, w->end, "between", 7);
}
static void behind(struct made_wheel *w)
{
    memcpy(w->data + w->len, "behind", 6);
    w->len += 6;
}
static void comment(struct made_wheel *w)
{
    behind(w);
    maker_put16(w, w->end + 20, 6);
}
static void second_end(struct made_wheel *w)
{
    memcpy(w->data + w->len, w->data + w->end, 22);
    maker_put16(w, w->end + 20, 22);
    w->len += 22;
}
static void cut(struct made_wheel *w)
{
    w->len /= 2;
}
static void emptied(struct made_wheel *w)
{
    w->len = 0;
}
static void not_zip(struct made_wheel *w)
{
    memset(w->data, '<', w->len);
}
static void overlap(struct made_wheel *w)
{
    maker_put32(w, w->central[1] + 42, (uint32_t)w->local[0]);
}
static void behind_directory(struct made_wheel *w)
{
    maker_put32(w, w->central[w->count - 1] + 42, (uint32_t)w->end);
}
static void in_another(struct made_wheel *w)
{
    maker_put32(w, w->central[1] + 42, (uint32_t)w->local[0] + 5);
}
static void more_packed(struct made_wheel *w)
{
    maker_put32(w, w->central[0] + 20, 5000);
    maker_put32(w, w->local[0] + 18, 5000);
}
static void less_packed(struct made_wheel *w)
{
    maker_put32(w, w->central[0] + 20, 3);
    maker_put32(w, w->local[0] + 18, 3);
}
static void local_size(struct made_wheel *w)
{
    maker_put32(w, w->local[0] + 22, 9);
}
static void local_crc(struct made_wheel *w)
{
    w->data[w->local[0] + 14] ^= 1;
}
static void crc(struct made_wheel *w)
{
    w->data[w->local[0] + 14] ^= 1;
    w->data[w->central[0] + 16] ^= 1;
}
/* Of RECORD, whose size no line of RECORD tells. */
static void set_size(struct made_wheel *w, uint32_t size)
{
    maker_put32(w, w->local[w->count - 1] + 22, size);
    maker_put32(w, w->central[w->count - 1] + 24, size);
}
static void larger(struct made_wheel *w)
{
    set_size(w, 1000);
}
static void smaller(struct made_wheel *w)
{
    set_size(w, 9);
}
static void local_name(struct made_wheel *w)
{
    w->data[w->local[0] + 30] = 'f';
}
static void local_method(struct made_wheel *w)
{
    maker_put16(w, w->local[0] + 8, 0);
}
static void local_signature(struct made_wheel *w)
{
    w->data[w->local[0]] = 'X';
}
static void central_signature(struct made_wheel *w)
{
    w->data[w->central[1]] = 'X';
}
static void encrypted(struct made_wheel *w)
{
    w->data[w->central[0] + 8] |= 1;
}
static void odd_flags(struct made_wheel *w)
{
    w->data[w->central[0] + 9] |= 0x20;
}
static void local_encrypted(struct made_wheel *w)
{
    w->data[w->local[0] + 6] |= 1;
}
static void method(struct made_wheel *w)
{
    maker_put16(w, w->central[0] + 10, 12);
}
static void version(struct made_wheel *w)
{
    maker_put16(w, w->central[0] + 6, 63);
}
static void disk(struct made_wheel *w)
{
    maker_put16(w, w->central[0] + 34, 1);
}
static void disks(struct made_wheel *w)
{
    maker_put16(w, w->end + 4, 1);
}
static void dos_folder(struct made_wheel *w)
{
    w->data[w->central[0] + 38] |= 0x10;
}
static void fewer_entries(struct made_wheel *w)
{
    maker_put16(w, w->end + 8, (uint16_t)(w->count - 1));
    maker_put16(w, w->end + 10, (uint16_t)(w->count - 1));
}
static void more_entries(struct made_wheel *w)
{
    maker_put16(w, w->end + 8, (uint16_t)(w->count + 1));
    maker_put16(w, w->end + 10, (uint16_t)(w->count + 1));
}
static void two_counts(struct made_wheel *w)
{
    maker_put16(w, w->end + 8, (uint16_t)(w->count + 1));
}
static void broken_stream(struct made_wheel *w)
{
    w->data[w->local[0] + 30 + 16] = 0xff;
}
static void lone_all_ones(struct made_wheel *w)
{
    maker_put32(w, w->central[0] + 24, 0xffffffff);
}
static void bomb_claim(struct made_wheel *w)
{
    maker_put32(w, w->local[0] + 22, 1u << 30);
    maker_put32(w, w->central[0] + 24, 1u << 30);
}

static const struct {
    const char *what;
    void (*change)(struct made_wheel *w);
    const char *words; /* NULL: is taken */
} changes[] = {
    {"nothing", nothing, NULL},
    {"front", front, "does not begin with its first entry"},
    {"front, uncorrected", front_uncorrected, "between its directory and its end"},
    {"gap", gap, "belong to no entry"},
    {"gap before the directory", gap_before_directory, "belong to no entry"},
    {"gap before the end", gap_before_end, "between its directory and its end"},
    {"behind", behind, "does not end with the record"},
    {"comment", comment, "does not end with the record"},
    {"second end", second_end, "between its directory and its end"},
    {"cut", cut, "does not end with the record"},
    {"empty", emptied, "too short"},
    {"not a zip", not_zip, "does not end with the record"},
    {"overlap", overlap, "overlaps"},
    {"behind the directory", behind_directory, "lies behind the directory"},
    {"in another", in_another, "overlaps"},
    {"more packed", more_packed, "overlaps"},
    {"less packed", less_packed, "belong to no entry"},
    {"local size", local_size, "own header"},
    {"local crc", local_crc, "own header"},
    {"crc", crc, "CRC-32"},
    {"larger", larger, "fewer bytes"},
    {"smaller", smaller, "more bytes"},
    {"local name", local_name, "another name"},
    {"local method", local_method, "differ in how it is packed"},
    {"local signature", local_signature, "no header of its own"},
    {"central signature", central_signature, "broken directory"},
    {"encrypted", encrypted, "is encrypted"},
    {"odd flags", odd_flags, "flags that are not known"},
    {"local encrypted", local_encrypted, "differ in how it is packed"},
    {"method", method, "other than deflate"},
    {"version", version, "later version"},
    {"disk", disk, "another part"},
    {"disks", disks, "several parts"},
    {"dos folder", dos_folder, "by its attributes"},
    {"fewer entries", fewer_entries, "more in its directory"},
    {"more entries", more_entries, "broken directory"},
    {"two counts", two_counts, "several parts"},
    {"broken stream", broken_stream, "broken compressed data"},
    {"all ones without zip64", lone_all_ones, "lacks its zip64 field"},
    {"bomb claim", bomb_claim, "better than is possible"},
};

static void archives_mean_one_thing(void)
{
    bool fine = true;

    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct made_wheel *w = maker_make(NULL, NULL);

        changes[i].change(w);
        if (!(changes[i].words ? refused(changes[i].what, take(w), changes[i].words)
                               : was_taken(changes[i].what, take(w))))
            fine = false;
        maker_free(w);
    }
    CHECK(fine);
}

static void zip64_ends(void)
{
    static const struct made_texts texts = {.end64 = true};
    /* In the zip64 end record and its locator, 76 bytes before the plain one. */
    static const struct {
        size_t at;
        const char *words;
    } lies[] = {
        {4, "broken zip64 end record"},      {16, "broken zip64 end record"},     {24, "broken zip64 end record"},
        {40, "two end records that differ"}, {48, "two end records that differ"}, {56 + 8, "leads elsewhere"},
        {56 + 16, "leads elsewhere"},
    };
    struct made_wheel *w = maker_make(NULL, &texts);

    CHECK(was_taken("zip64", take(w)));
    maker_put32(w, w->end + 16, 0xffffffff); /* as large archives have it */
    maker_put16(w, w->end + 8, 0xffff);
    maker_put16(w, w->end + 10, 0xffff);
    CHECK(was_taken("zip64, all ones", take(w)));
    maker_free(w);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        w = maker_make(NULL, &texts);
        w->data[w->end - 76 + lies[i].at] ^= 1;
        CHECK(refused("zip64", take(w), lies[i].words));
        maker_free(w);
    }
}

/* ---- limits ---- */

static void limits_are_kept(void)
{
    static char zeros[2u << 20];
    const struct made_entry large[] = {{.name = "good/zeros", .text = zeros, .len = sizeof zeros}, {0}};
    struct made_wheel *w = maker_make(large, NULL);
    struct kr_wheel_limits l = kr_wheel_limits_default;

    CHECK(was_taken("all", take_as(w, MAKER_NAME, &l, NULL)));
    l.ratio_max = 100;
    CHECK(refused("ratio", take_as(w, MAKER_NAME, &l, NULL), "better than is possible"));
    l = kr_wheel_limits_default;
    l.file_max = sizeof zeros - 1;
    CHECK(refused("file", take_as(w, MAKER_NAME, &l, NULL), "2097152 bytes, and 2097151") && err.kind == KR_ERR_LIMIT);
    l = kr_wheel_limits_default;
    l.bytes_max = sizeof zeros;
    CHECK(refused("bytes", take_as(w, MAKER_NAME, &l, NULL), "when unpacked") && err.kind == KR_ERR_LIMIT);
    l = kr_wheel_limits_default;
    l.files_max = (uint32_t)w->count;
    CHECK(was_taken("count", take_as(w, MAKER_NAME, &l, NULL)));
    l.files_max--;
    CHECK(refused("count", take_as(w, MAKER_NAME, &l, NULL), "6 files, and 5") && err.kind == KR_ERR_LIMIT);
    l = kr_wheel_limits_default;
    l.archive_max = w->len - 1;
    CHECK(refused("archive", take_as(w, MAKER_NAME, &l, NULL), "bytes, and") && err.kind == KR_ERR_LIMIT);
    maker_free(w);
}

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
        char rest[64];

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
    CHECK(strcmp(kr_wheel_title(wheel), "Good") == 0 && kr_wheel_files(wheel) == w->count);
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
    RUN(names_stay_beneath_the_folder);
    RUN(only_files_and_folders);
    RUN(forms_of_entries);
    RUN(places_in_a_wheel);
    RUN(archives_mean_one_thing);
    RUN(zip64_ends);
    RUN(limits_are_kept);
    RUN(texts_agree);
    RUN(record_agrees);
    RUN(every_file_is_recorded);
    RUN(file_names);
    RUN(tags_fit);
    RUN(another_file_name);
    RUN(files_come_out_whole);
    RUN(libraries_that_look_out);
    RUN(unpacking_can_be_stopped);
    remove_scratch();
    CHECK_DONE();
}

/* Archives: what is refused, beside what of the same kind is taken. Each refusal says what was wrong. */
#include "check.h"
#include "take-wheel.h"

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
    l.files_max = (uint32_t)w->count + 2; /* and the folders */
    CHECK(was_taken("count", take_as(w, MAKER_NAME, &l, NULL)));
    l.files_max = (uint32_t)w->count - 1;
    CHECK(refused("count", take_as(w, MAKER_NAME, &l, NULL), "6 files, and 5") && err.kind == KR_ERR_LIMIT);
    l = kr_wheel_limits_default;
    l.archive_max = w->len - 1;
    CHECK(refused("archive", take_as(w, MAKER_NAME, &l, NULL), "bytes, and") && err.kind == KR_ERR_LIMIT);
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
    remove_scratch();
    CHECK_DONE();
}

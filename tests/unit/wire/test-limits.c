/* src/wire/limits.c: the table of limits, their spelling, ceilings. Run by tests/run. */
#include "check.h"
#include "limit.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void limit_rows_are_complete(void)
{
    struct kr_limits l;
    struct kr_err err;

    memset(&l, 0xff, sizeof l);
    kr_limits_default(&l);
    CHECK(kr_limits_check(&l, &err) == 0);
    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        const struct kr_limit_row *row = &kr_limit_rows[i];
        uint64_t value = 0;

        CHECK(row->name[0] && row->help[0] && row->help[strlen(row->help) - 1] == '.' && row->example[0]);
        CHECK(kr_limit_parse(row, row->example, &value, &err) == 0 && value != row->value); /* shows something */
        CHECK(row->min <= row->value && row->value <= row->max && *kr_limit_at(&l, row) == row->value);
        CHECK(!row->zero_is_none || row->min == 0);
        CHECK(kr_limit_find(row->name) == row);
        for (size_t k = 0; k < i; k++)
            CHECK(kr_limit_rows[k].offset != row->offset && strcmp(kr_limit_rows[k].name, row->name) != 0);
    }
    CHECK(l.memory == 1u << 30 && l.disk == 256u << 20 && l.inodes == 50000 && l.file_size == 256u << 20);
    CHECK(l.output == 8u << 20 && l.cpu_milli == 1000 && l.cpu_time_ms == 0 && l.timeout_ms == 45000);
    CHECK(l.grace_ms == 2000 && l.processes == 64 && l.open_files == 256);
    CHECK(kr_limit_find("open-files") == kr_limit_find("open_files") && kr_limit_find("open_files"));
    CHECK(!kr_limit_find("open") && !kr_limit_find("memory2") && !kr_limit_find("") && !kr_limit_find("--memory"));
}

static void limits_parse(void)
{
    /* clang-format off */
    static const struct {
        const char *row, *text;
        uint64_t want;
    } rows[] = {
        {"memory", "512M", UINT64_C(512) << 20}, {"memory", "1.5G", UINT64_C(1536) << 20},
        {"memory", "16777216", 16777216}, {"memory", "1t", UINT64_C(1) << 40}, {"memory", "64MiB", 64u << 20},
        {"memory", "64mb", 64u << 20}, {"memory", "0.1G", 107374182}, {"memory", "16384K", 16777216},
        {"memory", "0000000000512M", 512u << 20}, {"memory", "1024.000G", UINT64_C(1) << 40},
        {"output", "4096B", 4096}, {"cpu", "0.5", 500}, {"cpu", "2", 2000}, {"cpu", "0.010", 10},
        {"cpu", "1.2500000", 1250}, {"timeout", "30", 30000}, {"timeout", "30s", 30000},
        {"timeout", "2m", 120000}, {"timeout", "1h", 3600000}, {"timeout", "100ms", 100},
        {"timeout", "0.25", 250}, {"timeout", "0", 0}, {"timeout", "1.5m", 90000}, {"cpu_time", "0s", 0},
        {"grace", "0", 0}, {"processes", "1", 1}, {"processes", "32768", 32768}, {"open_files", "16", 16},
        {"processes", "64.0", 64},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t value = 0;
        struct kr_err err = {0};
        int r = kr_limit_parse(kr_limit_find(rows[i].row), rows[i].text, &value, &err);

        if (r != 0 || value != rows[i].want)
            printf("# %s=%s: %d, %llu, %s\n", rows[i].row, rows[i].text, r, (unsigned long long)value, err.msg);
        CHECK(r == 0 && value == rows[i].want);
    }
}

static void limits_refuse(void)
{
    /* clang-format off */
    static const char *const rows[][2] = {
        {"memory", ""}, {"memory", " 512M"}, {"memory", "512M "}, {"memory", "512 M"}, {"memory", "-512M"},
        {"memory", "+512M"}, {"memory", "512Q"}, {"memory", "512MM"}, {"memory", "0x200M"}, {"memory", "1e9"},
        {"memory", "nan"}, {"memory", "inf"}, {"memory", ".5G"}, {"memory", "1.G"}, {"memory", "1..5G"},
        {"memory", "1,5G"}, {"memory", "16777216.5"}, {"memory", "15M"}, {"memory", "16777215"},
        {"memory", "2T"}, {"memory", "0"}, {"memory", "18446744073709551616"},
        {"memory", "18446744073709551615T"}, {"memory", "99999999999999999999999999999999"},
        {"memory", "1.00000000000000000000001G"}, {"memory", "512M\n"}, {"memory", "\xd9\xa5"},
        {"cpu", "0.009"}, {"cpu", "0.0105"}, {"cpu", "1s"}, {"cpu", "nan"}, {"cpu", "0"}, {"cpu", "2000"},
        {"timeout", "3601"}, {"timeout", "61m"}, {"timeout", "0.0001"}, {"timeout", "0.5ms"}, {"timeout", "1d"},
        {"timeout", "5S"}, {"timeout", "-1"}, {"timeout", "NaN"}, {"processes", "0"}, {"processes", "32769"},
        {"processes", "1.5"}, {"processes", "1k"}, {"open_files", "15"}, {"grace", "61s"}, {"cpu_time", "-0"},
        {"timeout", "18446744073709551615h"},
        {"memory", "16777216.5T"}, {"timeout", "144115188075855872h"}, /* in range if 2^64 is taken for 0 */
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct kr_limit_row *row = kr_limit_find(rows[i][0]);
        uint64_t value = 4711;
        struct kr_err err = {0};
        int r = kr_limit_parse(row, rows[i][1], &value, &err);

        if (r != -EINVAL)
            printf("# %s=%s was taken as %llu\n", rows[i][0], rows[i][1], (unsigned long long)value);
        CHECK(r == -EINVAL && value == 4711 && err.kind == KR_ERR_INVALID && err.code == EINVAL);
        CHECK(kr_limit_parse(row, rows[i][1], &value, NULL) == -EINVAL);
    }
}

static void limits_refusals_say_what_is_right(void)
{
    char longest[500];
    struct kr_err err;
    uint64_t value;

    kr_limit_parse(kr_limit_find("open_files"), "12", &value, &err);
    CHECK(strcmp(err.msg, "--open-files: \"12\" is out of range; it may be 16 to 1048576, for example 1024") == 0);
    kr_limit_parse(kr_limit_find("memory"), "12Q\n", &value, &err);
    CHECK(strcmp(err.msg, "--memory: \"12Q\\n\" is not a size; it may be 16 MiB to 1 TiB, for example 512M") == 0);
    kr_limit_parse(kr_limit_find("timeout"), "2h", &value, &err);
    CHECK(strcmp(err.msg, "--timeout: \"2h\" is out of range; it may be 0 (none) or 1 ms to 1 h, for example 2m") == 0);
    memset(longest, 1, sizeof longest); /* each byte is four when quoted */
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        kr_limit_parse(&kr_limit_rows[i], longest, &value, &err);
        CHECK(strstr(err.msg, kr_limit_rows[i].example)); /* the end of the text is there: it was not cut */
    }
}

static void limits_check_names_the_first_that_is_wrong(void)
{
    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        const struct kr_limit_row *row = &kr_limit_rows[i];
        struct kr_limits l;
        struct kr_err err = {0};
        char flag[40];

        snprintf(flag, sizeof flag, "--%s: ", row->name);
        for (char *c = flag; *c; c++)
            *c = *c == '_' ? '-' : *c;
        kr_limits_default(&l);
        *kr_limit_at(&l, row) = row->max + 1;
        CHECK(kr_limits_check(&l, &err) == -EINVAL && strncmp(err.msg, flag, strlen(flag)) == 0);
        *kr_limit_at(&l, row) = UINT64_MAX;
        CHECK(kr_limits_check(&l, &err) == -EINVAL && err.kind == KR_ERR_INVALID);
        if (row->min > 0) {
            *kr_limit_at(&l, row) = row->min - 1;
            CHECK(kr_limits_check(&l, &err) == -EINVAL && strncmp(err.msg, flag, strlen(flag)) == 0);
        }
        *kr_limit_at(&l, row) = row->min;
        CHECK(kr_limits_check(&l, &err) == 0);
        *kr_limit_at(&l, row) = row->max;
        CHECK(kr_limits_check(&l, NULL) == 0);
    }
}

static void ceilings_hold_and_are_raised(void)
{
    struct kr_limits ceilings = {.memory = 100, .cpu_time_ms = 60}, none = {0}, l = {.memory = 100, .cpu_time_ms = 60};
    struct kr_err err = {0};

    CHECK(kr_limits_within(&l, &ceilings, &err) == 0 && kr_limits_within(&l, &none, &err) == 0);
    l.disk = UINT64_MAX; /* there is no ceiling for it */
    CHECK(kr_limits_within(&l, &ceilings, &err) == 0);
    l.memory = 101;
    CHECK(kr_limits_within(&l, &ceilings, &err) == -EINVAL && strstr(err.msg, "memory") && strstr(err.msg, "ceiling"));
    l.memory = 0; /* of memory 0 is a value like others */
    CHECK(kr_limits_within(&l, &ceilings, &err) == 0);
    l.cpu_time_ms = 0; /* no limit is past any ceiling */
    CHECK(kr_limits_within(&l, &ceilings, &err) == -EINVAL && strstr(err.msg, "cpu_time"));
    l.memory = 101;
    kr_limits_lower(&l, &ceilings);
    CHECK(l.memory == 100 && l.cpu_time_ms == 60 && l.disk == UINT64_MAX);
    kr_limits_raise(&ceilings, &(struct kr_limits){.memory = 200, .cpu_time_ms = 30, .disk = 5});
    CHECK(ceilings.memory == 200 && ceilings.cpu_time_ms == 60 && ceilings.disk == 0);
    kr_limits_raise(&ceilings, &none);
    CHECK(ceilings.memory == 0 && ceilings.cpu_time_ms == 0);
}

static void limits_show(void)
{
    /* clang-format off */
    static const struct {
        const char *row;
        uint64_t value;
        const char *want;
    } rows[] = {
        {"memory", UINT64_C(512) << 20, "512 MiB"}, {"memory", UINT64_C(1536) << 20, "1.5 GiB"},
        {"memory", 0, "0 bytes"}, {"memory", 1023, "1023 bytes"}, {"memory", 1024, "1 KiB"},
        {"memory", 107374182, "102.399 MiB"}, {"memory", UINT64_C(1) << 40, "1 TiB"}, {"cpu", 500, "0.5 cores"},
        {"cpu", 1000, "1 core"}, {"cpu", 1250, "1.25 cores"}, {"cpu", 10, "0.01 cores"},
        {"timeout", 45000, "45 s"}, {"timeout", 100, "100 ms"}, {"timeout", 1500, "1.5 s"},
        {"timeout", 0, "none"}, {"timeout", 3600000, "1 h"}, {"timeout", 120000, "2 min"},
        {"timeout", 90000, "90 s"}, {"grace", 0, "0 s"}, {"processes", 64, "64"},
        {"memory", UINT64_MAX, "16777215.999 TiB"},
    };
    /* clang-format on */
    char buf[32];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kr_limit_show(kr_limit_find(rows[i].row), rows[i].value, buf, sizeof buf);
        if (strcmp(buf, rows[i].want) != 0)
            printf("# %s %llu is shown as %s\n", rows[i].row, (unsigned long long)rows[i].value, buf);
        CHECK(strcmp(buf, rows[i].want) == 0);
    }
}

int main(void)
{
    RUN(limit_rows_are_complete);
    RUN(limits_parse);
    RUN(limits_refuse);
    RUN(limits_refusals_say_what_is_right);
    RUN(limits_check_names_the_first_that_is_wrong);
    RUN(ceilings_hold_and_are_raised);
    RUN(limits_show);
    CHECK_DONE();
}

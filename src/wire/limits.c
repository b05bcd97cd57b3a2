/* A session's limits: the one table, its parser and its checker.
 *
 * Called by the command line, the engine (JSON) and the warden, which trusts neither. Invariant: a value that parsed
 * is in its row's range, and every text is either taken whole or refused with the flag, what came and what would be
 * right. */
#define _GNU_SOURCE 1
#include "limit.h"
#include "log.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define AT(field) offsetof(struct kr_limits, field)

/* clang-format off */
const struct kr_limit_row kr_limit_rows[] = {
    /* name         offset           unit            min       max            default   0?  example  help */
    { "memory",     AT(memory),      KR_UNIT_BYTES,  16 * MIB, TIB,           GIB,       0, "512M",
      "Memory of the session and all it starts, files in /tmp and /dev/shm included; a process gets a MemoryError a "
      "sixteenth (at most 16 MiB) below it." },
    { "disk",       AT(disk),        KR_UNIT_BYTES,  64 * KIB, TIB,           256 * MIB, 0, "1G",
      "Bytes that may be stored in memory: in /tmp, /dev/shm and a /workspace that is no folder, together; a folder "
      "may grow by as much." },
    { "inodes",     AT(inodes),      KR_UNIT_COUNT,  16,       100000000,     50000,     0, "10000",
      "Files and directories that may exist in /tmp, /dev/shm and a /workspace that is no folder, together; a folder "
      "may get as many more." },
    { "file_size",  AT(file_size),   KR_UNIT_BYTES,  4 * KIB,  TIB,           256 * MIB, 0, "64M",
      "Size of the largest file that may be written." },
    { "output",     AT(output),      KR_UNIT_BYTES,  KIB,      GIB,           8 * MIB,   0, "1M",
      "Bytes of a run's output that are kept; what is past them is cut with a mark and the run goes on." },
    { "cpu",        AT(cpu_milli),   KR_UNIT_MILLI,  10,       1024 * 1000,   1000,      0, "0.5",
      "Cores' worth of processor time that may be used at once." },
    { "cpu_time",   AT(cpu_time_ms), KR_UNIT_MS,     0,        7 * 24 * HOUR, 0,         1, "60s",
      "Processor time of the session over its whole life; 0 is no limit." },
    { "timeout",    AT(timeout_ms),  KR_UNIT_MS,     0,        HOUR,          45 * SECOND, 1, "2m",
      "Wall time of one run, after which it is interrupted; 0 is no limit." },
    { "grace",      AT(grace_ms),    KR_UNIT_MS,     0,        MINUTE,        2 * SECOND, 0, "500ms",
      "Time that an interrupted run has to end by itself before its session is killed." },
    { "processes",  AT(processes),   KR_UNIT_COUNT,  1,        32768,         64,        0, "16",
      "Processes and threads that may exist at once." },
    { "open_files", AT(open_files),  KR_UNIT_COUNT,  16,       1048576,       256,       0, "1024",
      "Files that one process may have open at once." },
    { "background_cpu", AT(background_cpu_ms), KR_UNIT_MS, 0,  7 * 24 * HOUR, MINUTE,    1, "10s",
      "Processor time that a session may use between two runs, after which it is frozen until the next one; 0 is no "
      "limit." },
};
/* clang-format on */
const size_t kr_limit_rows_count = sizeof kr_limit_rows / sizeof kr_limit_rows[0];
static_assert(sizeof kr_limit_rows / sizeof kr_limit_rows[0] == sizeof(struct kr_limits) / sizeof(uint64_t),
              "every limit has its row");

struct suffix {
    const char *text;
    uint64_t factor;
};

/* The first row of each unit is what a bare number means. */
static const struct suffix bytes_suffixes[] = {
    {"", 1},    {"B", 1},    {"K", KIB},   {"KB", KIB}, {"KiB", KIB}, {"M", MIB},   {"MB", MIB}, {"MiB", MIB},
    {"G", GIB}, {"GB", GIB}, {"GiB", GIB}, {"T", TIB},  {"TB", TIB},  {"TiB", TIB}, {NULL, 0},
};
static const struct suffix milli_suffixes[] = {{"", 1000}, {NULL, 0}};
static const struct suffix ms_suffixes[] = {{"", SECOND}, {"ms", 1},        {"s", SECOND}, {"m", MINUTE},
                                            {"h", HOUR},  {"d", 24 * HOUR}, {NULL, 0}};
static const struct suffix count_suffixes[] = {{"", 1}, {NULL, 0}};

static const struct {
    const struct suffix *suffixes;
    const char *word; /* "… is not a <word>" */
    int round;        /* a fraction of the unit is dropped, not refused */
} units[] = {
    [KR_UNIT_BYTES] = {bytes_suffixes, "size", 1},
    [KR_UNIT_MILLI] = {milli_suffixes, "number of cores in thousandths", 0},
    [KR_UNIT_MS] = {ms_suffixes, "time in whole milliseconds", 0},
    [KR_UNIT_COUNT] = {count_suffixes, "whole number", 0},
};
static_assert(sizeof units / sizeof units[0] == KR_UNIT_MAX_, "every unit is known");

void kr_limits_default(struct kr_limits *l)
{
    for (size_t i = 0; i < kr_limit_rows_count; i++)
        *kr_limit_at(l, &kr_limit_rows[i]) = kr_limit_rows[i].value;
}

const struct kr_limit_row *kr_limit_find(const char *name)
{
    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        const char *a = kr_limit_rows[i].name, *b = name;

        while (*a && (*a == *b || (*a == '_' && *b == '-'))) {
            a++;
            b++;
        }
        if (*a == '\0' && *b == '\0')
            return &kr_limit_rows[i];
    }
    return NULL;
}

/* "cpu_time" -> "--cpu-time". */
static const char *flag_of(const struct kr_limit_row *row, char *buf, size_t size)
{
    snprintf(buf, size, "--%s", row->name);
    for (char *p = buf; *p; p++)
        if (*p == '_')
            *p = '-';
    return buf;
}

static int refuse_limit(const struct kr_limit_row *row, const char *given, const char *what, struct kr_err *err)
{
    char flag[32], low[32], high[32];

    kr_err_set(err, KR_ERR_INVALID, 0, "%s: %s %s; it may be %s%s to %s, for example %s",
               flag_of(row, flag, sizeof flag), given, what, row->zero_is_none ? "0 (none) or " : "",
               kr_limit_show(row, row->zero_is_none && row->min == 0 ? 1 : row->min, low, sizeof low),
               kr_limit_show(row, row->max, high, sizeof high), row->example);
    if (err)
        err->code = EINVAL; /* set here so that ": Invalid argument" is not appended to a text that says more */
    return -EINVAL;
}

static const struct suffix *find_suffix(enum kr_limit_unit unit, const char *text)
{
    for (const struct suffix *s = units[unit].suffixes; s->text; s++)
        if (unit == KR_UNIT_BYTES ? strcasecmp(s->text, text) == 0 : strcmp(s->text, text) == 0)
            return s;
    return NULL;
}

/* Digits to a number: 0, -EINVAL if there are none, -ERANGE if they are too many. Moves *text past them. */
static int take_digits(const char **text, uint64_t *ret_value, uint64_t *ret_scale)
{
    uint64_t value = 0, scale = 1;
    const char *p = *text;

    if (*p < '0' || *p > '9')
        return -EINVAL;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value) ||
            __builtin_mul_overflow(scale, 10u, &scale))
            return -ERANGE;
    *text = p;
    *ret_value = value;
    *ret_scale = scale;
    return 0;
}

/* The number in the row's unit, without its range. Integers throughout: no rounding of binary fractions, no locale. */
static int scan(enum kr_limit_unit unit, const char *text, uint64_t *ret_value)
{
    uint64_t whole, fraction = 0, scale = 1, value;
    const struct suffix *suffix;
    unsigned __int128 part;
    int r;

    r = take_digits(&text, &whole, &(uint64_t){0});
    if (r < 0)
        return r;
    if (*text == '.') {
        text++;
        if (take_digits(&text, &fraction, &scale) < 0)
            return -EINVAL;
    }
    suffix = find_suffix(unit, text);
    if (!suffix)
        return -EINVAL;
    part = (unsigned __int128)fraction * suffix->factor;
    if (part % scale != 0 && (!units[unit].round || suffix->factor == 1))
        return -EINVAL;
    if (__builtin_mul_overflow(whole, suffix->factor, &value) ||
        __builtin_add_overflow(value, (uint64_t)(part / scale), &value))
        return -ERANGE;
    *ret_value = value;
    return 0;
}

int kr_limit_parse(const struct kr_limit_row *row, const char *text, uint64_t *ret_value, struct kr_err *err)
{
    char given[64], what[64];
    uint64_t value = 0;
    int r;

    kr_log_quote(given, sizeof given, text, 40);
    r = scan(row->unit, text, &value);
    if (r == -EINVAL) {
        snprintf(what, sizeof what, "is not a %s", units[row->unit].word);
        return refuse_limit(row, given, what, err);
    }
    if (r < 0 || value < row->min || value > row->max)
        return refuse_limit(row, given, "is out of range", err);
    *ret_value = value;
    return 0;
}

int kr_limits_check(const struct kr_limits *l, struct kr_err *err)
{
    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        const struct kr_limit_row *row = &kr_limit_rows[i];
        uint64_t value;
        char given[32];

        memcpy(&value, (const char *)l + row->offset, sizeof value);
        if (value >= row->min && value <= row->max)
            continue;
        return refuse_limit(row, kr_limit_show(row, value, given, sizeof given), "is out of range", err);
    }
    return 0;
}

static bool is_past(const struct kr_limit_row *row, uint64_t value, uint64_t ceiling)
{
    return ceiling > 0 && (value > ceiling || (value == 0 && row->zero_is_none));
}

int kr_limits_within(const struct kr_limits *l, const struct kr_limits *ceilings, struct kr_err *err)
{
    struct kr_limits limits = *l, most = *ceilings;

    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        const struct kr_limit_row *row = &kr_limit_rows[i];
        uint64_t value = *kr_limit_at(&limits, row), ceiling = *kr_limit_at(&most, row);
        char given[32], shown[32];

        if (is_past(row, value, ceiling))
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "%s %s is past the ceiling of %s", row->name,
                              kr_limit_show(row, value, given, sizeof given),
                              kr_limit_show(row, ceiling, shown, sizeof shown));
    }
    return 0;
}

void kr_limits_raise(struct kr_limits *ceilings, const struct kr_limits *other)
{
    struct kr_limits more = *other;

    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        uint64_t *at = kr_limit_at(ceilings, &kr_limit_rows[i]), value = *kr_limit_at(&more, &kr_limit_rows[i]);

        if (*at > 0 && (value == 0 || value > *at))
            *at = value;
    }
}

void kr_limits_lower(struct kr_limits *l, const struct kr_limits *ceilings)
{
    struct kr_limits most = *ceilings;

    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        uint64_t *at = kr_limit_at(l, &kr_limit_rows[i]), ceiling = *kr_limit_at(&most, &kr_limit_rows[i]);

        if (is_past(&kr_limit_rows[i], *at, ceiling))
            *at = ceiling;
    }
}

/* value / unit with up to three decimals, no trailing zeros, rounded down. */
static void show_ratio(uint64_t value, uint64_t unit, const char *word, char *buf, size_t size)
{
    unsigned thousandths = (unsigned)((unsigned __int128)(value % unit) * 1000 / unit);
    char digits[8];
    size_t n = 0;

    if (thousandths) {
        n = (size_t)snprintf(digits, sizeof digits, ".%03u", thousandths % 1000);
        while (digits[n - 1] == '0')
            n--;
    }
    digits[n] = '\0';
    snprintf(buf, size, "%" PRIu64 "%s %s", value / unit, digits, word);
}

const char *kr_limit_show(const struct kr_limit_row *row, uint64_t value, char *buf, size_t size)
{
    static const struct suffix bytes[] = {{"TiB", TIB}, {"GiB", GIB}, {"MiB", MIB}, {"KiB", KIB}, {"bytes", 1}};
    static const struct suffix times[] = {{"h", HOUR}, {"min", MINUTE}};
    size_t i = 0;

    if (value == 0 && row->zero_is_none) {
        snprintf(buf, size, "none");
        return buf;
    }
    switch (row->unit) {
    case KR_UNIT_BYTES:
        while (bytes[i].factor > 1 && value < bytes[i].factor)
            i++;
        show_ratio(value, bytes[i].factor, bytes[i].text, buf, size);
        break;
    case KR_UNIT_MILLI:
        show_ratio(value, 1000, value == 1000 ? "core" : "cores", buf, size);
        break;
    case KR_UNIT_MS:
        while (i < 2 && (value == 0 || value % times[i].factor != 0))
            i++;
        if (i < 2)
            show_ratio(value, times[i].factor, times[i].text, buf, size);
        else
            show_ratio(value, value > 0 && value < SECOND ? 1 : SECOND, value > 0 && value < SECOND ? "ms" : "s", buf,
                       size);
        break;
    case KR_UNIT_COUNT:
    case KR_UNIT_MAX_:
        snprintf(buf, size, "%" PRIu64, value);
        break;
    }
    return buf;
}

/* A session's limits: one row each, for flags, ranges, help, JSON and the warden's own re-check. Texts: a size is
 * bytes or has K, M, G, T (powers of 1024, "iB" or "B" may follow); a time is seconds or has ms, s, m, h, d; cpu is
 * cores. Fractions are decimal; a time or a share finer than its unit is refused, a size is rounded down. */
#pragma once
#include "err.h"
#include <stddef.h>
#include <stdint.h>

struct kr_limits {
    uint64_t memory; /* bytes */
    uint64_t disk;   /* bytes in /tmp and /workspace, each */
    uint64_t inodes;
    uint64_t file_size;   /* bytes of one file */
    uint64_t output;      /* bytes kept of a run's output */
    uint64_t cpu_milli;   /* thousandths of a core */
    uint64_t cpu_time_ms; /* CPU time of the whole cell over its life, 0: none */
    uint64_t timeout_ms;  /* wall time of one run, 0: none */
    uint64_t grace_ms;    /* from SIGINT to SIGKILL */
    uint64_t processes;   /* processes and threads */
    uint64_t open_files;
    uint64_t background_cpu_ms; /* CPU time of the whole cell between two runs, 0: none */
};

enum kr_limit_unit { KR_UNIT_BYTES, KR_UNIT_MILLI, KR_UNIT_MS, KR_UNIT_COUNT, KR_UNIT_MAX_ };

struct kr_limit_row {
    const char *name; /* JSON key and long flag: "memory" -> --memory; '_' is '-' in a flag */
    size_t offset;    /* in struct kr_limits */
    enum kr_limit_unit unit;
    uint64_t min, max, value; /* value: the default */
    int zero_is_none;         /* 0 switches the limit off and is shown as "none" */
    const char *example, *help;
};
extern const struct kr_limit_row kr_limit_rows[];
extern const size_t kr_limit_rows_count;

void kr_limits_default(struct kr_limits *l);
static inline uint64_t *kr_limit_at(struct kr_limits *l, const struct kr_limit_row *row)
{
    return (uint64_t *)((char *)l + row->offset);
}
/* The row of that name ("open_files", or "open-files" as in a flag); NULL if there is none. */
const struct kr_limit_row *kr_limit_find(const char *name);
/* Parses "512M", "1.5G", "0.5" (cores), "30s", "2m", "100ms", "64" into the row's unit and checks its range.
 * 0 or -EINVAL with the flag's name, what came and what would be right. */
int kr_limit_parse(const struct kr_limit_row *row, const char *text, uint64_t *ret_value, struct kr_err *err);
/* Checks every field's range; names the first that is wrong. */
int kr_limits_check(const struct kr_limits *l, struct kr_err *err);
/* Is no limit past its ceiling? 0 is no ceiling, or no limit where the row says so. Names the first that is. */
int kr_limits_within(const struct kr_limits *l, const struct kr_limits *ceilings, struct kr_err *err);
/* Raises ceilings to what another set of them allows. */
void kr_limits_raise(struct kr_limits *ceilings, const struct kr_limits *other);
/* Lowers limits to ceilings. */
void kr_limits_lower(struct kr_limits *l, const struct kr_limits *ceilings);
/* Writes the value as a person would ("512 MiB", "45 s", "0.5 cores"). Returns buf. */
const char *kr_limit_show(const struct kr_limit_row *row, uint64_t value, char *buf, size_t size);

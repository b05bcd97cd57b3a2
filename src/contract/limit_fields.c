/* Limits in requests and replies: the rows. Used by the tables of sandboxes, sessions and info.
 *
 * Invariant: the names are those of kr_limit_rows, in their order; what a value may be is for the domain to say. */
#include "limit_fields.h"
#include "limit.h"
#include <assert.h>

/* clang-format off */
#define ROW(i, name_, help_, example_) \
    {.name = (name_), .type = KR_API_ANY, KR_API_AT(struct kr_api_limits_given, values[i]), .nullable = true, \
     .help = (help_), .example = (example_)}

static const struct kr_api_field fields[] = {
    ROW(0, "memory", "Bytes of memory of a session and all it starts, or a text like \"512M\".", "\"512M\""),
    ROW(1, "disk", "Bytes in /tmp, or a text like \"1G\".", "\"1G\""),
    ROW(2, "inodes", "Files and folders in /tmp.", "10000"),
    ROW(3, "file_size", "Bytes of the largest file, or a text.", "\"64M\""),
    ROW(4, "output", "Bytes of a run's output that are kept, or a text.", "\"1M\""),
    ROW(5, "cpu", "Cores.", "0.5"),
    ROW(6, "cpu_time", "Seconds of CPU in a session's life, or a text like \"2m\"; 0 is no limit.", "60"),
    ROW(7, "timeout", "Seconds that one run may take, or a text; 0 is no limit.", "120"),
    ROW(8, "grace", "Seconds that an interrupted run has to end by itself, or a text.", "2"),
    ROW(9, "processes", "Processes and threads.", "16"),
    ROW(10, "open_files", "Files that one process may have open.", "1024"),
    ROW(11, "background_cpu", "Seconds of CPU between two runs, or a text; then the session is frozen; 0 is no limit.",
        "10"),
};
static_assert(sizeof fields / sizeof fields[0] == KR_API_LIMITS_MAX, "every limit has its row");
const struct kr_api_table kr_api_limits_table =
    KR_API_TABLE("LimitsRequest", "Limits to be set; null takes one away, and the server's holds.", fields,
        struct kr_api_limits_given);

static const struct kr_api_prop props[] = {
    {.name = "memory", .type = KR_API_INT, .help = "Bytes.", .example = "1073741824"},
    {.name = "disk", .type = KR_API_INT, .help = "Bytes in /tmp.", .example = "268435456"},
    {.name = "inodes", .type = KR_API_INT, .help = "Files and folders in /tmp.", .example = "50000"},
    {.name = "file_size", .type = KR_API_INT, .help = "Bytes of one file.", .example = "268435456"},
    {.name = "output", .type = KR_API_INT, .help = "Bytes kept of a run's output.", .example = "8388608"},
    {.name = "cpu", .type = KR_API_NUMBER, .help = "Cores.", .example = "1"},
    {.name = "cpu_time", .type = KR_API_NUMBER, .nullable = true,
     .help = "Seconds of CPU in a session's life; null: no limit.", .example = "null"},
    {.name = "timeout", .type = KR_API_NUMBER, .nullable = true, .help = "Seconds of one run; null: no limit.",
     .example = "45"},
    {.name = "grace", .type = KR_API_NUMBER, .help = "Seconds to end by itself.", .example = "2"},
    {.name = "processes", .type = KR_API_INT, .help = "Processes and threads.", .example = "64"},
    {.name = "open_files", .type = KR_API_INT, .help = "Open files of one process.", .example = "256"},
    {.name = "background_cpu", .type = KR_API_NUMBER, .nullable = true,
     .help = "Seconds of CPU between two runs; null: no limit.", .example = "60"},
};
static_assert(sizeof props / sizeof props[0] == KR_API_LIMITS_MAX, "every limit is in replies");
const struct kr_api_schema kr_api_limits_schema =
    KR_API_SCHEMA("Limits", "Limits in force: bytes, counts, cores, seconds.", props);
/* clang-format on */

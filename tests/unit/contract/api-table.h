/* The table that test-api and test-api-routes read requests by: a row of every type. */
#pragma once
#include "err.h"
#include "field.h"
#include <errno.h>

struct limits {
    int64_t memory;
    double cpu;
};
struct request {
    struct kr_text code;
    const char *session;
    int64_t timeout;
    uint8_t timeout_given, note_given;
    double share;
    bool fresh;
    int mode;
    json_t *variables, *env, *tags, *files, *extra;
    struct limits limits;
    const char *note, *password;
};
struct file {
    const char *url;
    int64_t id;
};

static int check_session(const char *value, struct kr_err *err)
{
    return value[0] == '-' ? kr_err_set(err, KR_ERR_INVALID, EINVAL, "must not begin with a dash") : 0;
}

static const char *const modes[] = {"quick", "careful", NULL}, *const session_names[] = {"session_id", "sid", NULL};
/* clang-format off */
static const struct kr_api_field limit_fields[] = {
    {.name = "memory", .type = KR_API_INT, KR_API_AT(struct limits, memory), KR_API_RANGE(1, 4096), .def = "512",
     .help = "Megabytes.", .example = "256"},
    {.name = "cpu", .type = KR_API_NUMBER, KR_API_AT(struct limits, cpu), KR_API_AT_LEAST(0.5), .def = "1.5",
     .help = "Cores.", .example = "2.5"},
};
static const struct kr_api_table limit_table = KR_API_TABLE("Limits", "What it may use.", limit_fields, struct limits);
static const struct kr_api_field file_fields[] = {
    {.name = "url", .type = KR_API_STRING, KR_API_AT(struct file, url), .required = true, .help = "Where from.",
     .example = "https://example.org/a"},
    {.name = "id", .type = KR_API_INT, KR_API_AT(struct file, id), .help = "A number.", .example = "1"},
};
static const struct kr_api_table file_table = KR_API_TABLE("FileToFetch", "A file to fetch.", file_fields, struct file);
static const struct kr_api_field fields[] = {
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct request, code), .required = true, KR_API_LENGTH(1, 20),
     .help = "What to run.", .example = "print(1)"},
    {.name = "session", .type = KR_API_STRING, KR_API_AT(struct request, session), .def = "main",
     .aliases = session_names, .check = check_session, KR_API_LENGTH(1, 8), .help = "Where.", .example = "main"},
    {.name = "timeout", .type = KR_API_INT, KR_API_AT(struct request, timeout),
     KR_API_GIVEN(struct request, timeout_given), .nullable = true, KR_API_RANGE(1, 120), .def = "30",
     .help = "Seconds.", .example = "10"},
    {.name = "share", .type = KR_API_NUMBER, KR_API_AT(struct request, share), KR_API_RANGE(0, 1), .help = "A part.",
     .example = "0.5"},
    {.name = "fresh", .type = KR_API_BOOL, KR_API_AT(struct request, fresh), .def = "true", .help = "A new one?.",
     .example = "false"},
    {.name = "mode", .type = KR_API_ENUM, KR_API_AT(struct request, mode), .choices = modes, .help = "How.",
     .example = "careful"},
    {.name = "variables", .type = KR_API_OBJECT, KR_API_AT(struct request, variables), KR_API_LENGTH(0, 2),
     .help = "Names and values.", .example = "{\"x\":1}"},
    {.name = "env", .type = KR_API_MAP, KR_API_AT(struct request, env), .help = "Environment.",
     .example = "{\"A\":\"1\"}"},
    {.name = "tags", .type = KR_API_STRINGS, KR_API_AT(struct request, tags), KR_API_LENGTH(0, 2), .help = "Words.",
     .example = "[\"a\"]"},
    {.name = "files", .type = KR_API_ARRAY, KR_API_AT(struct request, files), .of = &file_table, .help = "Files.",
     .example = "[{\"url\":\"https://example.org/a\"}]"},
    {.name = "extra", .type = KR_API_ANY, KR_API_AT(struct request, extra), .help = "Anything.", .example = "null"},
    {.name = "limits", .type = KR_API_OBJECT, KR_API_AT(struct request, limits), .of = &limit_table, .help = "Limits.",
     .example = "{\"memory\":256}"},
    {.name = "note", .type = KR_API_STRING, KR_API_AT(struct request, note), KR_API_GIVEN(struct request, note_given),
     .nullable = true, .help = "A note.", .example = "hello"},
    {.name = "password", .type = KR_API_STRING, KR_API_AT(struct request, password), .secret = true,
     KR_API_LENGTH(3, 9), .help = "Secret.", .example = "secret"},
};
static const struct kr_api_table table = KR_API_TABLE("RunIt", "A request.", fields, struct request);

struct page {
    int64_t limit;
    bool follow;
    json_t *tags;
    const char *after;
};
static const struct kr_api_field page_fields[] = {
    {.name = "limit", .type = KR_API_INT, KR_API_AT(struct page, limit), KR_API_RANGE(1, 100), .def = "20",
     .help = "How many.", .example = "50"},
    {.name = "follow", .type = KR_API_BOOL, KR_API_AT(struct page, follow), .help = "Wait for more?.",
     .example = "true"},
    {.name = "tags", .type = KR_API_STRINGS, KR_API_AT(struct page, tags), .help = "Words.",
     .example = "[\"a\",\"b\"]"},
    {.name = "after", .type = KR_API_STRING, KR_API_AT(struct page, after), .help = "From where on.", .example = "abc"},
};
static const struct kr_api_table page_table = KR_API_TABLE(NULL, "A page.", page_fields, struct page);
/* clang-format on */

/* A sandbox's settings (src/box/sandbox_settings.h) as rows of requests and replies, for REST and for tools. The
 * tables that take them are filled before main() and never written again. */
#pragma once
#include "limit_fields.h"
#include "sandbox_settings.h"

/* Where the value of one setting is in a request's struct. */
union kr_api_setting {
    const char *text;
    json_t *value;
    int word; /* WORD: -1 if absent */
    struct kr_api_limits_given limits;
};

/* Who writes the request: a client of REST names each limit, and may send null for a member; a tool's arguments are
 * kept short, since a model reads their schema. */
enum kr_api_settings_voice { KR_API_SETTINGS_REST, KR_API_SETTINGS_TOOL };

/* Adds a row for each setting behind the *count rows that are there; `at` is the offset of an array of
 * KR_SANDBOX_SETTINGS_MAX union kr_api_setting. */
void kr_api_settings_fields(struct kr_api_field *fields, size_t *count, size_t at, enum kr_api_settings_voice voice);
/* Adds a row for each setting that tells what holds, behind the *count rows that are there. */
void kr_api_settings_props(struct kr_api_prop *props, size_t *count);
/* What was set: every setting, each optional. */
extern struct kr_api_schema kr_api_settings_schema;

/* The settings of a request's body, nulls included if wanted; NULL: no memory. */
json_t *kr_api_settings_of_body(const json_t *body, bool nulls);
/* The settings of a tool's arguments; NULL: no memory. */
json_t *kr_api_settings_of_args(const union kr_api_setting *given);

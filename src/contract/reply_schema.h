/* Replies: one table for the fields of what we write. Handlers write JSON by hand (src/base/json.h); the table becomes
 * a component of OpenAPI, and the tests hold every reply against it (tests/lib/openapi.py). */
#pragma once
#include "field.h"

struct kr_api_schema;

/* One field of a reply. It is always there unless .optional. */
struct kr_api_prop {
    const char *name;
    enum kr_api_type type; /* as in requests; with .of the object it is (OBJECT) or each item is (ARRAY) */
    bool optional;         /* may be left out */
    bool unlisted;         /* a tool's outputSchema leaves it out, which allows it all the same */
    bool nullable;         /* may be null */
    bool each;             /* an object with keys of any name, each of whose values is what the row says */
    const struct kr_api_schema *of;
    const char *const *choices; /* ENUM: words, NULL terminated; of STRINGS those that may be in it */
    const char *format;         /* "date-time", "uuid", "byte" (base64), "uri"; NULL: none */
    const char *help;           /* a sentence; always */
    const char *example; /* STRING, TEXT, ENUM as plain text; else as JSON. May be NULL with .of: made from its rows */
};

/* An object; or, with one_of, any of several. */
struct kr_api_schema {
    const char *name; /* "Run"; unique among schemas and request tables */
    const char *help; /* a sentence */
    const struct kr_api_prop *props;
    size_t count;
    bool open;                                 /* other fields may be there too; else the tests refuse them */
    const struct kr_api_schema *const *one_of; /* NULL terminated: the lines of a stream */
};
/* const struct kr_api_schema kr_api_run_schema = KR_API_SCHEMA("Run", "A run.", run_props); */
/* clang-format off */
#define KR_API_SCHEMA(name_, help_, props_) \
    {.name = (name_), .help = (help_), .props = (props_), .count = sizeof(props_) / sizeof((props_)[0])}
/* clang-format on */

/* Shapes that every resource uses. */
extern const struct kr_api_schema kr_api_error_schema;  /* our voice: {"error":{…}} */
extern const struct kr_api_schema kr_api_detail_schema; /* the documents' voice: "detail":"…" too */
extern const struct kr_api_schema kr_api_flaws_schema;  /* the documents' voice, 422: "detail":[…] too */
/* An example of kr_api_detail_schema: a kind and a text, both literals. */
#define KR_API_DETAIL_EXAMPLE(kind_, text_)                                                                            \
    "{\"error\":{\"kind\":\"" kind_ "\",\"message\":\"" text_                                                          \
    "\",\"field\":null,\"request_id\":\"3f0c9a52d1b84e7f\"},\"detail\":\"" text_ "\"}"
extern const struct kr_api_schema kr_api_message_schema; /* {"message":"…"} */

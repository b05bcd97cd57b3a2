/* Reply tables: the shapes that every resource uses, and what JSON Schema calls the types of rows. Used by the writers
 * of OpenAPI and of tools' schemas. */
#include "reply_schema.h"

const struct kr_api_type_words kr_api_type_words[KR_API_TYPE_MAX_] = {
    [KR_API_STRING] = {"string", "minLength", "maxLength"},
    [KR_API_TEXT] = {"string", "minLength", "maxLength"},
    [KR_API_INT] = {"integer", "minimum", "maximum"},
    [KR_API_NUMBER] = {"number", "minimum", "maximum"},
    [KR_API_BOOL] = {"boolean", NULL, NULL},
    [KR_API_ENUM] = {"string", NULL, NULL},
    [KR_API_OBJECT] = {"object", "minProperties", "maxProperties"},
    [KR_API_MAP] = {"object", "minProperties", "maxProperties"},
    [KR_API_STRINGS] = {"array", "minItems", "maxItems"},
    [KR_API_ARRAY] = {"array", "minItems", "maxItems"},
    [KR_API_ANY] = {NULL, NULL, NULL},
};

/* clang-format off */
static const struct kr_api_prop error_inner_props[] = {
    {.name = "kind", .type = KR_API_STRING, .help = "What is wrong, as one word.", .example = "not_found"},
    {.name = "message", .type = KR_API_STRING, .help = "The same as a sentence for a person.",
     .example = "no sandbox has that id"},
    {.name = "field", .type = KR_API_STRING, .nullable = true,
     .help = "The field of the request that is wrong, if it is one.", .example = "timeout"},
    {.name = "request_id", .type = KR_API_STRING, .nullable = true,
     .help = "Names the request in the log; also in the header X-Request-ID.", .example = "3f0c9a52d1b84e7f"},
};
static const struct kr_api_schema error_inner_schema =
    KR_API_SCHEMA("ErrorInfo", "What is wrong with a request.", error_inner_props);
#define ERROR_PROP {.name = "error", .type = KR_API_OBJECT, .of = &error_inner_schema, .help = "What is wrong."}
static const struct kr_api_prop error_props[] = {ERROR_PROP};
const struct kr_api_schema kr_api_error_schema =
    KR_API_SCHEMA("Error", "The answer to a request that failed.", error_props);

static const struct kr_api_prop detail_props[] = {
    ERROR_PROP,
    {.name = "detail", .type = KR_API_STRING, .help = "The message again, where the document's clients look for it.",
     .example = "Not Found"},
};
const struct kr_api_schema kr_api_detail_schema =
    KR_API_SCHEMA("Detail", "The answer to a request that failed, on a document's route.", detail_props);

static const struct kr_api_prop flaw_props[] = {
    {.name = "type", .type = KR_API_STRING, .help = "What is wrong, as one word.", .example = "missing"},
    {.name = "loc", .type = KR_API_ARRAY, .help = "Where: body or query, then names and indexes.",
     .example = "[\"body\",\"code\"]"},
    {.name = "msg", .type = KR_API_STRING, .help = "What is wrong, as a sentence.", .example = "Field required"},
    {.name = "input", .type = KR_API_ANY, .nullable = true, .help = "What came instead, if it is short.",
     .example = "{}"},
    {.name = "ctx", .type = KR_API_OBJECT, .optional = true,
     .help = "The limit that was passed, or the parser's words.", .example = "{\"le\":120}"},
};
static const struct kr_api_schema flaw_schema =
    KR_API_SCHEMA("ValidationError", "One thing that is wrong with a request.", flaw_props);
static const struct kr_api_prop flaws_props[] = {
    ERROR_PROP,
    {.name = "detail", .type = KR_API_ARRAY, .of = &flaw_schema, .help = "Everything that is wrong."},
};
const struct kr_api_schema kr_api_flaws_schema = KR_API_SCHEMA("HTTPValidationError", "The answer to a request whose "
                                                                                      "fields are wrong, on a "
                                                                                      "document's route.", flaws_props);

static const struct kr_api_prop message_props[] = {
    {.name = "message", .type = KR_API_STRING, .help = "What was done.", .example = "Session main terminated"},
};
const struct kr_api_schema kr_api_message_schema =
    KR_API_SCHEMA("Message", "What was done, as a sentence.", message_props);
/* clang-format on */

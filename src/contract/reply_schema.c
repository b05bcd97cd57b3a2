/* Reply tables: their check, and the shapes that every resource uses. Called by the unit tests and by the writer of
 * OpenAPI.
 *
 * Invariant: a schema that passes can be documented from without another look. */
#include "reply_schema.h"
#include "err.h"
#include <errno.h>
#include <string.h>

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

#define DEPTH_MAX 16 /* of schemas in each other */

static int bad(const struct kr_api_schema *s, const char *prop, const char *what, struct kr_err *err)
{
    kr_err_set(err, KR_ERR_INTERNAL, 0, "schema %s: %s: %s", s->name ? s->name : "?", prop ? prop : "?", what);
    return -EINVAL;
}

static int check_prop(const struct kr_api_schema *s, const struct kr_api_prop *p, struct kr_err *err)
{
    json_t *example;

    if (!p->name || !p->name[0])
        return bad(s, p->name, "has no name", err);
    if ((unsigned)p->type >= KR_API_TYPE_MAX_)
        return bad(s, p->name, "is of no type", err);
    if (!p->help || !p->help[0] || p->help[strlen(p->help) - 1] != '.')
        return bad(s, p->name, "has no help, or its help is not a sentence", err);
    if ((p->type == KR_API_ENUM) != (p->choices != NULL))
        return bad(s, p->name, "an enum has choices, and nothing else has", err);
    if (p->of && p->type != KR_API_OBJECT && p->type != KR_API_ARRAY)
        return bad(s, p->name, "only an object or an array is of a schema", err);
    if (!p->example && !p->of)
        return bad(s, p->name, "has no example", err);
    if (!p->example || (!p->each && (p->type == KR_API_STRING || p->type == KR_API_TEXT || p->type == KR_API_ENUM)))
        return 0;
    example = json_loads(p->example, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!example)
        return bad(s, p->name, "its example is not JSON", err);
    json_decref(example);
    return 0;
}

static int check_at(const struct kr_api_schema *s, unsigned depth, struct kr_err *err)
{
    int r = 0;

    if (!s->name || !s->name[0] || !s->help || !s->help[0])
        return bad(s, NULL, "has no name or no help", err);
    if (depth > DEPTH_MAX)
        return bad(s, NULL, "holds itself", err);
    for (size_t i = 0; s->one_of && s->one_of[i] && r == 0; i++)
        r = check_at(s->one_of[i], depth + 1, err);
    for (size_t i = 0; i < s->count && r == 0; i++) {
        const struct kr_api_prop *p = &s->props[i];

        r = check_prop(s, p, err);
        for (size_t k = 0; k < i && r == 0; k++)
            if (strcmp(s->props[k].name, p->name) == 0)
                r = bad(s, p->name, "is there twice", err);
        if (r == 0 && p->of)
            r = check_at(p->of, depth + 1, err);
    }
    return r;
}

int kr_api_schema_check(const struct kr_api_schema *schema, struct kr_err *err)
{
    return check_at(schema, 0, err);
}

/* ---- shapes that every resource uses ---- */

/* clang-format off */
static const struct kr_api_prop error_inner_props[] = {
    {.name = "kind", .type = KR_API_STRING, .help = "What is wrong, as one word.", .example = "not_found"},
    {.name = "message", .type = KR_API_STRING, .help = "The same as a sentence for a person.", .example = "no sandbox has that id"},
    {.name = "field", .type = KR_API_STRING, .nullable = true, .help = "The field of the request that is wrong, if it is one.", .example = "timeout"},
    {.name = "request_id", .type = KR_API_STRING, .nullable = true, .help = "Names the request in the log; also in the header X-Request-ID.", .example = "3f0c9a52d1b84e7f"},
};
static const struct kr_api_schema error_inner_schema = KR_API_SCHEMA("ErrorInfo", "What is wrong with a request.", error_inner_props);
static const struct kr_api_prop error_props[] = {
    {.name = "error", .type = KR_API_OBJECT, .of = &error_inner_schema, .help = "What is wrong."},
};
const struct kr_api_schema kr_api_error_schema = KR_API_SCHEMA("Error", "The answer to a request that failed.", error_props);

static const struct kr_api_prop detail_props[] = {
    {.name = "detail", .type = KR_API_STRING, .help = "What is wrong, as a sentence.", .example = "Not Found"},
};
const struct kr_api_schema kr_api_detail_schema = KR_API_SCHEMA("Detail", "The answer to a request that failed, on a document's route.", detail_props);

static const struct kr_api_prop flaw_props[] = {
    {.name = "type", .type = KR_API_STRING, .help = "What is wrong, as one word.", .example = "missing"},
    {.name = "loc", .type = KR_API_ARRAY, .help = "Where: body or query, then names and indexes.", .example = "[\"body\",\"code\"]"},
    {.name = "msg", .type = KR_API_STRING, .help = "What is wrong, as a sentence.", .example = "Field required"},
    {.name = "input", .type = KR_API_ANY, .nullable = true, .help = "What came instead, if it is short.", .example = "{}"},
    {.name = "ctx", .type = KR_API_OBJECT, .optional = true, .help = "The limit that was passed, or the parser's words.", .example = "{\"le\":120}"},
};
static const struct kr_api_schema flaw_schema = KR_API_SCHEMA("ValidationError", "One thing that is wrong with a request.", flaw_props);
static const struct kr_api_prop flaws_props[] = {
    {.name = "detail", .type = KR_API_ARRAY, .of = &flaw_schema, .help = "Everything that is wrong."},
};
const struct kr_api_schema kr_api_flaws_schema = KR_API_SCHEMA("HTTPValidationError", "The answer to a request whose fields are wrong, on a document's route.", flaws_props);

static const struct kr_api_prop message_props[] = {
    {.name = "message", .type = KR_API_STRING, .help = "What was done.", .example = "Session main terminated"},
};
const struct kr_api_schema kr_api_message_schema = KR_API_SCHEMA("Message", "What was done, as a sentence.", message_props);
/* clang-format on */

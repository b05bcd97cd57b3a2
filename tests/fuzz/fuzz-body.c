/* Fuzzes the reading of requests: an input is a body, a form and a query, each read in both voices by a table that has
 * a row of every type. What is filled must obey its row; what is refused must say why. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-body"
#include "err.h"
#include "field.h"
#include "replay.h"
#include <errno.h>
#include <stdbool.h>

struct inner {
    int64_t memory;
};
struct request {
    struct kr_text code, bytes;
    const char *name, *secret;
    int64_t timeout;
    uint8_t timeout_given;
    double share;
    bool fresh;
    int mode;
    json_t *object, *map, *strings, *items, *any;
    struct inner limits;
};

static const char *const modes[] = {"a", "b", NULL}, *const names[] = {"title", NULL};
#define AT(member) KR_API_AT(struct request, member)
#define SAID .help = "A field.", .example = "1"
/* clang-format off */
static const struct kr_api_field inner_fields[] = {
    {.name = "memory", .type = KR_API_INT, KR_API_AT(struct inner, memory), KR_API_RANGE(1, 9), .def = "5", SAID},
};
static const struct kr_api_table inner_table = KR_API_TABLE("Inner", "Inner.", inner_fields, struct inner);
static const struct kr_api_field fields[] = {
    {.name = "code", .type = KR_API_TEXT, AT(code), .required = true, KR_API_LENGTH(1, 100), SAID},
    {.name = "bytes", .type = KR_API_TEXT, AT(bytes), .nul_ok = true, SAID},
    {.name = "name", .type = KR_API_STRING, AT(name), .aliases = names, KR_API_LENGTH(1, 8), SAID},
    {.name = "secret", .type = KR_API_STRING, AT(secret), .secret = true, KR_API_LENGTH(4, 8), SAID},
    {.name = "timeout", .type = KR_API_INT, AT(timeout), KR_API_GIVEN(struct request, timeout_given), .nullable = true,
     KR_API_RANGE(1, 120), .def = "30", SAID},
    {.name = "share", .type = KR_API_NUMBER, AT(share), KR_API_RANGE(0, 1), SAID},
    {.name = "fresh", .type = KR_API_BOOL, AT(fresh), .def = "true", SAID},
    {.name = "mode", .type = KR_API_ENUM, AT(mode), .choices = modes, SAID},
    {.name = "object", .type = KR_API_OBJECT, AT(object), KR_API_LENGTH(0, 2), SAID},
    {.name = "map", .type = KR_API_MAP, AT(map), SAID},
    {.name = "strings", .type = KR_API_STRINGS, AT(strings), KR_API_LENGTH(0, 3), SAID},
    {.name = "items", .type = KR_API_ARRAY, AT(items), .of = &inner_table, SAID},
    {.name = "any", .type = KR_API_ANY, AT(any), SAID},
    {.name = "limits", .type = KR_API_OBJECT, AT(limits), .of = &inner_table, SAID},
};
/* clang-format on */
static const struct kr_api_table table = KR_API_TABLE("Request", "A request.", fields, struct request);

static void must_obey(const struct request *r)
{
    json_t *item;
    size_t i;

    must(r->code.text && r->code.len > 0 && strlen(r->code.text) == r->code.len, "a text has no NUL in it");
    must(!r->name || (r->name[0] && strlen(r->name) <= 32), "a name is within its length");
    must(r->timeout >= 1 && r->timeout <= 120, "an integer is within its range");
    must(r->share >= 0 && r->share <= 1, "a number is within its range");
    must(r->mode >= -1 && r->mode <= 1, "a choice is one of them");
    must(!r->object || json_object_size(r->object) <= 2, "an object is within its size");
    must(!r->map || json_is_object(r->map), "a map is an object");
    must(!r->strings || json_array_size(r->strings) <= 3, "an array is within its size");
    json_array_foreach(r->strings, i, item) must(json_is_string(item), "an item is a string");
    json_array_foreach(r->items, i, item) must(json_is_object(item), "an item is an object");
    must(r->limits.memory >= 1 && r->limits.memory <= 9, "an inner field is within its range");
}

static void judge(int r, const struct request *request, struct kr_api_input *in, const struct kr_err *err)
{
    if (r == 0) {
        must_obey(request);
    } else {
        must(r == -EINVAL && err->kind == KR_ERR_INVALID && err->msg[0], "a refusal says why");
        must(strlen(in->field) < sizeof in->field, "the field's name ends");
        must((in->voice == KR_API_DOCUMENT) == (in->flaws != NULL), "their voice has a list");
        must(json_array_size(in->flaws) <= KR_API_FLAWS_MAX, "the list is bounded");
    }
    if (in->flaws) {
        char *text = json_dumps(in->flaws, JSON_COMPACT);

        must(text && strlen(text) < 65536, "the list can be told");
        free(text);
    }
    kr_api_input_done(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (int voice = KR_API_KRAIT; voice <= KR_API_DOCUMENT; voice++) {
        struct kr_api_input in;
        struct request request;
        struct kr_err err = {0};
        int r;

        kr_api_input_init(&in, (enum kr_api_voice)voice);
        r = kr_api_parse_body(&table, (const char *)data, size, &request, &in, &err); /* no NUL after it */
        judge(r, &request, &in, &err);
        kr_api_input_init(&in, (enum kr_api_voice)voice);
        r = kr_api_parse_form(&table, (const char *)data, size, &request, &in, &err);
        judge(r, &request, &in, &err);
        kr_api_input_init(&in, (enum kr_api_voice)voice);
        r = kr_api_parse_query(&table, text, &request, &in, &err);
        judge(r, &request, &in, &err);
    }
    free(text);
    return 0;
}

/* Arguments of tools. Called by tools.c.
 *
 * Invariant: pure; what a tool gets obeys its table, and the client's own objects are never changed. Models and hosts
 * write numbers, flags and objects as JSON in a string ("10", "true", "{\"A\":\"1\"}"): for a parameter that is no text
 * such a string is read as what it says. */
#include "tool_args.h"
#include "err.h"
#include "json_load.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define INNER_DEPTH_MAX 64u /* as that of a message */

struct kr_mcp_args {
    struct kr_api_input in;
    bool has_struct;
    max_align_t request[];
};

static bool is_text(enum kr_api_type type)
{
    return type == KR_API_STRING || type == KR_API_TEXT || type == KR_API_ENUM || type == KR_API_ANY;
}

/* Deeper than a message may be: then it is of no use. Bounded by jansson's own limit on what it parses. */
static bool too_deep(const json_t *value, unsigned left)
{
    const char *key;
    json_t *item;
    size_t i;

    if (left == 0)
        return true;
    json_object_foreach((json_t *)value, key, item) if (too_deep(item, left - 1)) return true;
    json_array_foreach(value, i, item) if (too_deep(item, left - 1)) return true;
    return false;
}

/* What the string says, or NULL: nothing that is not a string again. */
static json_t *read_string(const json_t *string)
{
    json_t *value = kr_json_load(json_string_value(string), json_string_length(string),
                                 JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

    if (json_is_string(value) || (value && too_deep(value, INNER_DEPTH_MAX))) {
        json_decref(value);
        return NULL;
    }
    return value;
}

static void unwrap_one(json_t *object, const struct kr_api_field *f, const char *name)
{
    json_t *given = json_object_get(object, name), *value;

    if (is_text(f->type) || !json_is_string(given))
        return;
    value = read_string(given);
    if (value)
        json_object_set_new(object, name, value);
}

/* A copy in which strings that stand for something else are that. */
static json_t *unwrap(const struct kr_api_table *table, json_t *arguments)
{
    json_t *copy = json_copy(arguments);

    for (size_t i = 0; copy && i < table->count; i++) {
        const struct kr_api_field *f = &table->fields[i];

        unwrap_one(copy, f, f->name);
        for (const char *const *a = f->aliases; a && *a; a++)
            unwrap_one(copy, f, *a);
    }
    return copy;
}

/* The object to check; a reference. NULL with err. */
static json_t *object_of(const struct kr_mcp_tool *tool, json_t *arguments, struct kr_err *err)
{
    json_t *object, *copy;

    if (!arguments || json_is_null(arguments))
        object = json_object();
    else if (json_is_string(arguments))
        object = read_string(arguments);
    else
        object = json_incref(arguments);
    if (!kr_json_is_object(object)) {
        json_decref(object);
        kr_err_set(err, KR_ERR_INVALID, EINVAL, "arguments must be an object");
        return NULL;
    }
    if (!tool->input)
        return object;
    copy = unwrap(tool->input, object);
    json_decref(object);
    if (!copy)
        kr_err_set(err, KR_ERR_INTERNAL, ENOMEM, "arguments");
    return copy;
}

int kr_mcp_args_parse(const struct kr_mcp_tool *tool, json_t *arguments, struct kr_mcp_args **ret_args,
                      struct kr_err *err)
{
    json_t *object = object_of(tool, arguments, err);
    struct kr_mcp_args *a;
    int r;

    if (!object)
        return err->kind == KR_ERR_INVALID ? -EINVAL : -ENOMEM;
    a = calloc(1, sizeof *a + (tool->input ? tool->input->size : 0));
    if (!a) {
        json_decref(object);
        return kr_err_set(err, KR_ERR_INTERNAL, ENOMEM, "arguments");
    }
    kr_api_input_init(&a->in, tool->dialects & KR_IN_KRAIT ? KR_API_KRAIT : KR_API_DOCUMENT);
    a->in.null_is_absent = true; /* models and clients fill in what they leave out */
    a->has_struct = tool->input != NULL;
    if (tool->input_schema && !tool->input)
        r = 0; /* the tool looks for itself */
    else
        r = kr_api_parse_object(tool->input, object, a->request, &a->in, err);
    json_decref(object);
    if (r < 0) {
        kr_mcp_args_free(a);
        return r;
    }
    *ret_args = a;
    return 0;
}

const void *kr_mcp_args_struct(const struct kr_mcp_args *args)
{
    return args->has_struct ? args->request : NULL;
}

void kr_mcp_args_free(void *args)
{
    struct kr_mcp_args *a = args;

    if (!a)
        return;
    kr_api_input_done(&a->in);
    free(a);
}

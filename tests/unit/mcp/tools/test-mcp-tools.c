/* The table of tools: rows that are complete, tables that are sound, names that mean one thing in a dialect. */
#include "check.h"
#include "table-check.h"
#include "err.h"
#include "tool.h"
#include "tool_args.h"
#include "tool_schema.h"
#include <ctype.h>

/* A failure that names the row. */
#define CHECK_ROW(tool, cond)                                                                                          \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            printf("FAIL %s: %s: %s\n", __func__, (tool)->name, #cond);                                                \
            check_failed_ = 1;                                                                                         \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

static bool is_name(const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("_-.", name[i]))
            return false;
    return len > 0 && len <= 64;
}

static void rows_are_complete(void)
{
    CHECK(kr_mcp_tools_count > 8);
    for (size_t i = 0; i < kr_mcp_tools_count; i++) {
        const struct kr_mcp_tool *t = kr_mcp_tools[i];

        CHECK_ROW(t, is_name(t->name));
        CHECK_ROW(t, t->title && t->title[0]);
        CHECK_ROW(t, t->description && strlen(t->description) > 10);
        CHECK_ROW(t, t->run);
        CHECK_ROW(t, !(t->flags & KR_TOOL_READ_ONLY) || !(t->flags & KR_TOOL_DESTRUCTIVE));
        CHECK_ROW(t, t->needs != 0 || !(t->flags & KR_TOOL_CORE));
    }
}

static void tables_are_sound(void)
{
    for (size_t i = 0; i < kr_mcp_tools_count; i++) {
        const struct kr_mcp_tool *t = kr_mcp_tools[i];
        struct kr_err err = {0};
        json_t *schema;

        if (t->input && table_check(t->input, &err) < 0) {
            printf("FAIL %s: %s: %s\n", __func__, t->name, err.msg);
            check_failed_ = 1;
            return;
        }
        if (t->output && schema_check(t->output, &err) < 0) {
            printf("FAIL %s: %s: %s\n", __func__, t->name, err.msg);
            check_failed_ = 1;
            return;
        }
        schema = t->input_schema ? json_loads(t->input_schema, 0, NULL) : kr_mcp_input_schema(t->input, true);
        CHECK_ROW(t, strcmp(json_string_value(json_object_get(schema, "type")), "object") == 0);
        json_decref(schema);
    }
}

static void names_mean_one_thing(void)
{
    for (size_t i = 0; i < kr_mcp_tools_count; i++)
        for (size_t k = i + 1; k < kr_mcp_tools_count; k++)
            CHECK_ROW(kr_mcp_tools[i], strcmp(kr_mcp_tools[i]->name, kr_mcp_tools[k]->name) != 0 ||
                                           (kr_mcp_tools[i]->dialects & kr_mcp_tools[k]->dialects) == 0);
}

/* Every core tool is ours and stands before the others. */
static void core_comes_first(void)
{
    bool over = false;

    for (size_t i = 0; i < kr_mcp_tools_count; i++) {
        bool core = (kr_mcp_tools[i]->flags & KR_TOOL_CORE) != 0;

        CHECK_ROW(kr_mcp_tools[i], !core || (!over && kr_mcp_tools[i]->dialects & KR_IN_KRAIT));
        over |= !core;
    }
}

/* A required field's example, or one of the row's choices. */
static json_t *sample_of(const struct kr_api_field *f)
{
    bool is_text = f->type == KR_API_STRING || f->type == KR_API_TEXT || f->type == KR_API_ENUM;
    json_t *value = is_text ? NULL : json_loads(f->example, JSON_DECODE_ANY, NULL);

    return value ? value : json_string(f->choices ? f->choices[0] : f->example);
}

/* Models and clients fill in what they leave out. The same of a required one is refused: the control. */
static void null_is_absent_in_every_tool(void)
{
    for (size_t i = 0; i < kr_mcp_tools_count; i++) {
        const struct kr_mcp_tool *tool = kr_mcp_tools[i];
        json_t *arguments = json_object();
        const char *required = NULL;
        struct kr_mcp_args *args;
        struct kr_err err = {0};
        int r;

        for (size_t k = 0; tool->input && k < tool->input->count; k++) {
            const struct kr_api_field *f = &tool->input->fields[k];

            required = f->required ? f->name : required;
            json_object_set_new(arguments, f->name, f->required ? sample_of(f) : json_null());
        }
        r = kr_mcp_args_parse(tool, arguments, &args, &err);
        if (r < 0)
            printf("%s: %s\n", tool->name, err.msg);
        CHECK_ROW(tool, r == 0);
        kr_mcp_args_free(r < 0 ? NULL : args);
        if (required) {
            json_object_set_new(arguments, required, json_null());
            CHECK_ROW(tool, kr_mcp_args_parse(tool, arguments, &args, &err) < 0);
        }
        json_decref(arguments);
    }
}

int main(void)
{
    RUN(rows_are_complete);
    RUN(tables_are_sound);
    RUN(names_mean_one_thing);
    RUN(core_comes_first);
    RUN(null_is_absent_in_every_tool);
    CHECK_DONE();
}

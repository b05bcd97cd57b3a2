/* validate_code: code is judged by a policy and not run. Called through the table of tools.
 *
 * The judge runs in a cell of its own; a model reads a line for each finding. Invariant: "valid" is said only of code
 * that was judged to its end. */
#include "api.h"
#include "buf.h"
#include "exec.h"
#include "tool_rows.h"
#include "validate.h"
#include <string.h>

#define FINDINGS_SHOWN 50u

struct validate_args {
    struct kr_run_spec spec; /* filled by the table */
};

/* clang-format off */
static const struct kr_api_field validate_fields[] = {
    {.name = "code", .type = KR_API_TEXT, .tacit = true, KR_API_AT(struct validate_args, spec.code), .required = true,
     .aliases = (const char *const[]){"python_code", "script", NULL}, .help = "Python code.", .example = "import os"},
    {.name = "sandbox_id", .type = KR_API_STRING, .unlisted = true, KR_API_AT(struct validate_args, spec.sandbox),
     .nullable = true, KR_API_LENGTH(1, 64), .aliases = (const char *const[]){"sandbox", NULL},
     .help = "The sandbox whose policy holds; else `default`.", .example = "default"},
    {.name = "policy", .type = KR_API_STRING, .unlisted = true, KR_API_AT(struct validate_args, spec.asks.policy),
     .nullable = true, KR_API_LENGTH(1, 32), .help = "restricted, where the sandbox is open.", .example = "restricted"},
    {.name = "profiles", .type = KR_API_STRINGS, .unlisted = true,
     KR_API_AT(struct validate_args, spec.asks.profiles), .nullable = true, KR_API_LENGTH(0, KR_POLICY_PROFILE_MAX_),
     .aliases = (const char *const[]){"profile", NULL}, .choices = kr_policy_profile_names,
     .help = "Profiles to judge by.", .example = "[\"basic\"]"},
    {.name = "allowed_imports", .type = KR_API_STRINGS, .unlisted = true,
     KR_API_AT(struct validate_args, spec.asks.allowed_imports), .nullable = true,
     KR_API_LENGTH(0, KR_POLICY_IMPORTS_MAX), .help = "Modules that it may import.", .example = "[\"math\"]"},
};
static const struct kr_api_table validate_table = KR_API_TABLE("ToolValidateCode", "What to judge.", validate_fields,
    struct validate_args);
/* clang-format on */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static void add_findings(struct kr_buf *text, const json_t *findings)
{
    size_t i, count = json_array_size(findings);
    json_t *one;

    json_array_foreach(findings, i, one)
    {
        if (i == FINDINGS_SHOWN) {
            kr_buf_printf(text, "… and %zu more\n", count - i);
            break;
        }
        kr_buf_printf(text, "Line %lld, column %lld: %s [%s: %s]\n", json_integer_value(json_object_get(one, "line")),
                      json_integer_value(json_object_get(one, "column")), text_of(one, "text"), text_of(one, "id"),
                      text_of(one, "why"));
        if (*text_of(one, "caret"))
            kr_buf_printf(text, "%s\n", text_of(one, "caret"));
    }
}

static void render_validation(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    json_t *value = kr_api_validation(o->end), *one;
    const json_t *analysis = json_object_get(value, "analysis");
    cleanup_buf struct kr_buf text;
    struct kr_mcp_result r;
    size_t i;

    (void)data;
    kr_buf_init(&text, KR_MCP_TEXT_MAX);
    kr_buf_add_str(&text, json_is_true(json_object_get(value, "valid")) ? "valid\n" : "not valid\n");
    add_findings(&text, json_object_get(value, "findings"));
    kr_buf_printf(&text, "[%lld lines, %lld characters, complexity %s]\n",
                  json_integer_value(json_object_get(analysis, "line_count")),
                  json_integer_value(json_object_get(analysis, "character_count")),
                  *text_of(analysis, "estimated_complexity") ? text_of(analysis, "estimated_complexity") : "not known");
    json_array_foreach(json_object_get(value, "recommendations"), i, one)
    {
        kr_buf_printf(&text, "- %s\n", json_string_value(one) ? json_string_value(one) : "");
    }
    kr_mcp_result_init(&r);
    kr_mcp_add_text(&r, kr_buf_str(&text), text.len);
    if (kr_mcp_structured(c))
        r.structured = json_incref(value);
    json_decref(value);
    kr_mcp_tool_done(c, &r);
}

static void validate(struct kr_mcp_call *c, const void *args)
{
    const struct validate_args *a = args;
    struct kr_mcp_run_spec spec = {.spec = a->spec, .render = render_validation};

    spec.spec.judge_only = true;
    kr_mcp_run(c, &spec);
}

const struct kr_mcp_tool kr_tool_validate_code = {
    .name = "validate_code",
    .title = "Check Python",
    .description = "Checks Python's syntax, and the sandbox's policy, without running it.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .input = &validate_table,
    .run = validate,
};

/* validate_code, get_sandbox_info and list_capabilities of document 001 (python-sandbox): what its policy is, and what
 * that says of code that is not run. Called through THE table of tools.
 *
 * Invariant: what is told is what holds for execute_code on this listener; a module is listed only if a cell finds it.
 */
#include "api.h"
#include "dialect_results.h"
#include "dialect_tools.h"
#include "json.h"
#include "proto.h"
#include "validate.h"
#include <stdlib.h>
#include <string.h>

#define PROBE_MS 20000u
#define MEMORY_ROOM 32u

static const struct kr_policy_spec *policy_of(const struct kr_mcp_call *c)
{
    return &kr_box_profile(kr_mcp_api(c)->box, kr_mcp_caller(c))->policy;
}

/* ---- validate_code ---- */

struct validate_args {
    struct kr_text code;
};

/* clang-format off */
static const struct kr_api_field validate_fields[] = {
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct validate_args, code), .required = true,
     .help = "Python to judge.", .example = "import os"},
};
static const struct kr_api_table validate_table = KR_API_TABLE("PythonSandboxValidateInput", "What to judge.",
    validate_fields, struct validate_args);
/* clang-format on */

/* One text for each finding: "Line 1: Import 'os' is not allowed". */
static json_t *errors_of(const json_t *findings)
{
    json_t *list = json_array(), *one;
    size_t i;

    json_array_foreach(findings, i, one)
    {
        const char *text = json_string_value(json_object_get(one, "text"));

        json_array_append_new(list, json_sprintf("Line %" JSON_INTEGER_FORMAT ": %s",
                                                 json_integer_value(json_object_get(one, "line")), text ? text : ""));
    }
    return list;
}

static const char *message_of(const json_t *findings)
{
    const char *first = json_string_value(json_object_get(json_array_get(findings, 0), "id"));

    if (!first)
        return "Code passed validation";
    if (strcmp(first, "P100") == 0)
        return "Code has a syntax error";
    return strcmp(first, "P108") == 0 ? "Code could not be judged" : "Code contains restricted operations";
}

static void render_validation(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    json_t *found = kr_api_validation(o->end);
    json_t *findings = json_object_get(found, "findings");

    (void)data;
    kr_compat_answer(c,
                     json_pack("{s:{s:b, s:o, s:s, s:O}, s:O, s:O}", "validation", "valid",
                               json_is_true(json_object_get(found, "valid")), "errors", errors_of(findings), "message",
                               message_of(findings), "findings", findings, "analysis",
                               json_object_get(found, "analysis"), "recommendations",
                               json_object_get(found, "recommendations")),
                     KR_COMPAT_COMPACT);
    json_decref(found);
}

static void run_validate(struct kr_mcp_call *c, const void *args)
{
    const struct validate_args *a = args;
    struct kr_mcp_run_spec spec = {.spec = {.code = a->code, .judge_only = true}, .render = render_validation};

    kr_mcp_run(c, &spec);
}

/* ---- get_sandbox_info ---- */

/* Which of the modules a cell finds: only a name with a dot imports anything, its packages. */
static const char probe[] = "import importlib.util, json\n"
                            "found = []\n"
                            "for one in modules:\n"
                            "    try:\n"
                            "        if importlib.util.find_spec(one) is not None:\n"
                            "            found.append(one)\n"
                            "    except Exception:\n"
                            "        pass\n"
                            "print(json.dumps(found))\n";

static bool has_text(const json_t *list, const char *text)
{
    size_t i;
    json_t *one;

    json_array_foreach(list, i, one)
    {
        if (strcmp(json_string_value(one) ? json_string_value(one) : "", text) == 0)
            return true;
    }
    return false;
}

/* A profile's modules that are there; with a list in the profiles' place, those that it allows. */
static json_t *modules_of(const struct kr_policy_spec *policy, const struct kr_policy_profile_row *row,
                          const json_t *found)
{
    json_t *list = json_array();

    for (const char *const *m = row->modules; *m; m++)
        if ((!found || has_text(found, *m)) && (!policy->has_imports || kr_policy_allows(policy, *m)))
            json_array_append_new(list, json_string(*m));
    return list;
}

static json_t *profiles_value(const struct kr_policy_spec *policy, const json_t *found)
{
    json_t *value = json_object();

    for (int i = 0; i < KR_POLICY_PROFILE_MAX_; i++)
        json_object_set_new(value, kr_policy_profiles[i].name,
                            json_pack("{s:b, s:o}", "enabled", kr_policy_has(policy, (enum kr_policy_profile)i),
                                      "modules", modules_of(policy, &kr_policy_profiles[i], found)));
    return value;
}

/* As Docker has it: "128m". */
static void write_memory(uint64_t bytes, char out[MEMORY_ROOM])
{
    if (bytes > 0 && bytes % (1u << 30) == 0)
        snprintf(out, MEMORY_ROOM, "%llug", (unsigned long long)(bytes >> 30));
    else if (bytes % (1u << 20) == 0)
        snprintf(out, MEMORY_ROOM, "%llum", (unsigned long long)(bytes >> 20));
    else
        snprintf(out, MEMORY_ROOM, "%llub", (unsigned long long)bytes);
}

static json_t *info_value(const struct kr_mcp_call *c, const json_t *found)
{
    const struct kr_profile *profile = kr_box_profile(kr_mcp_api(c)->box, kr_mcp_caller(c));
    char memory[MEMORY_ROOM];

    write_memory(profile->limits.memory, memory);
    return json_pack(
        "{s:b, s:s, s:o, s:{s:f, s:I, s:s}, s:{s:b, s:b}}", "success", 1, "policy",
        kr_policy_names[profile->policy.mode], "security_profiles", profiles_value(&profile->policy, found),
        "resource_limits", "timeout", (double)kr_compat_timeout(c, KR_DIALECT_PYTHON_SANDBOX) / 1000, "max_output_size",
        (json_int_t)profile->limits.output, "memory_limit", memory, "container_mode", "available", 0, "enabled", 0);
}

/* Whole seconds without a fraction, as the document has them. */
static void tidy_timeout(json_t *value)
{
    json_t *limits = json_object_get(value, "resource_limits");
    double seconds = json_number_value(json_object_get(limits, "timeout"));

    if (seconds == (double)(json_int_t)seconds)
        json_object_set_new(limits, "timeout", json_integer((json_int_t)seconds));
}

static void render_info(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    json_t *found =
        o->cause == KR_CAUSE_OK ? json_loadb(kr_buf_str(&o->out), o->out.len, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    json_t *value = info_value(c, json_is_array(found) ? found : NULL);

    (void)data;
    tidy_timeout(value);
    if (value && !json_is_array(found))
        json_object_set_new(value, "note", json_string("the modules were not looked for: code does not run here now"));
    json_decref(found);
    kr_compat_answer(c, value, KR_COMPAT_COMPACT);
}

static void run_info(struct kr_mcp_call *c, const void *args)
{
    json_t *names = json_array(), *variables = json_pack("{s:o}", "modules", names);
    struct kr_mcp_run_spec spec = {
        .spec = {.fresh = true,
                 .code = {probe, sizeof probe - 1},
                 .own_code = true,
                 .variables = variables,
                 .input = {"", 0},
                 .timeout_ms = PROBE_MS},
        .render = render_info,
    };

    (void)args;
    for (int i = 0; i < KR_POLICY_PROFILE_MAX_; i++)
        for (const char *const *m = kr_policy_profiles[i].modules; *m; m++)
            json_array_append_new(names, json_string(*m));
    kr_mcp_run(c, &spec);
    json_decref(variables);
}

/* ---- list_capabilities ---- */

static json_t *features_of(const struct kr_api *api)
{
    const struct kr_holder_info *hello = kr_engine_info(kr_box_engine(api->box));
    json_t *list = json_array();

    for (size_t i = 0; hello && i < api->config.layer_count; i++)
        if (api->config.layer_names[i] && hello->layers & 1u << i)
            json_array_append_new(list, json_string(api->config.layer_names[i]));
    return list;
}

/* The modules that may be imported, or "*". */
static json_t *safe_modules(const struct kr_policy_spec *policy)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, 65536);
    if (policy->mode == KR_POLICY_OPEN)
        return json_string("*");
    kr_json_init(&j, &buf);
    kr_policy_write_imports(&j, policy);
    return kr_json_done(&j) < 0 ? NULL : json_loadb(buf.data, buf.len, 0, NULL);
}

static void run_capabilities(struct kr_mcp_call *c, const void *args)
{
    const struct kr_api *api = kr_mcp_api(c);
    const struct kr_limits *l = &kr_box_profile(api->box, kr_mcp_caller(c))->limits;

    (void)args;
    kr_compat_answer(c,
                     json_pack("{s:s, s:b, s:b, s:b, s:{s:f, s:i, s:I, s:I}, s:o, s:o}", "sandbox_type",
                               "krait: processes in namespaces of their own", "restricted_python_available", 1,
                               "container_runtime_available", 0, "container_mode_enabled", 0, "limits",
                               "default_timeout", (double)kr_compat_timeout(c, KR_DIALECT_PYTHON_SANDBOX) / 1000,
                               "max_timeout", 300, "max_output_size", (json_int_t)l->output, "memory_limit_bytes",
                               (json_int_t)l->memory, "safe_modules", safe_modules(policy_of(c)), "security_features",
                               features_of(api)),
                     KR_COMPAT_COMPACT);
}

const struct kr_mcp_tool kr_tool_python_sandbox_validate = {
    .name = "validate_code",
    .title = "Validate Python code",
    .description = "Judges Python by the sandbox's policy without running it: every operation that is not allowed, "
                   "syntax errors, how complex it is, and what to change.",
    .dialects = KR_IN_PYTHON_SANDBOX,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .input = &validate_table,
    .run = run_validate,
};
const struct kr_mcp_tool kr_tool_python_sandbox_info = {
    .name = "get_sandbox_info",
    .title = "Sandbox information",
    .description = "Tells which profiles and modules code may use, and the limits of an execution.",
    .dialects = KR_IN_PYTHON_SANDBOX,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .run = run_info,
};
const struct kr_mcp_tool kr_tool_python_sandbox_capabilities = {
    .name = "list_capabilities",
    .title = "List capabilities",
    .description = "Tells what holds the sandbox and what its limits are.",
    .dialects = 0, /* an old name of the document's, which listed it no longer */
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .run = run_capabilities,
};

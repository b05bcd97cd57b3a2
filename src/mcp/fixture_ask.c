/* Fixtures that ask the client by a request: on the stream of the call, or inside a task. Called through THE table of
 * tools. */
#include "fixture.h"
#include "input.h"
#include "tool.h"
#include <stdlib.h>
#include <string.h>

/* Asks, or answers that this client cannot be asked. */
static void ask(struct kr_mcp_call *c, const char *method, json_t *params, kr_mcp_answer_fn *on_answer)
{
    if (kr_mcp_ask(c, method, params, on_answer, NULL) < 0)
        kr_mcp_tool_refuse(c, "this client cannot be asked (%s)", method);
}

/* ---- sampling ---- */

static void on_sampled(void *data, struct kr_mcp_call *c, const json_t *result)
{
    const json_t *content = json_object_get(result, "content");
    const char *text = json_string_value(json_object_get(content, "text"));

    (void)data;
    if (!result)
        kr_mcp_tool_refuse(c, "there was no answer");
    else
        kr_fixture_say(c, "LLM response: %.2048s", text ? text : "(no text)");
}

static void sampling(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    ask(c, "sampling/createMessage",
        json_pack("{s:[{s:s, s:{s:s, s:s}}], s:i}", "messages", "role", "user", "content", "type", "text", "text",
                  kr_fixture_arg(c, "prompt"), "maxTokens", 100),
        on_sampled);
}

/* ---- forms ---- */

static void on_filled(void *data, struct kr_mcp_call *c, const json_t *result)
{
    const char *action = json_string_value(json_object_get(result, "action"));
    char *content;

    (void)data;
    if (!action) {
        kr_mcp_tool_refuse(c, "there was no answer");
        return;
    }
    content = json_dumps(json_object_get(result, "content"), JSON_COMPACT | JSON_ENCODE_ANY);
    kr_fixture_say(c, "User response: action=%.32s, content=%.2048s", action, content ? content : "{}");
    free(content);
}

static void elicitation(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    ask(c, "elicitation/create",
        kr_fixture_form(kr_fixture_arg(c, "message"),
                        "{\"type\":\"object\",\"properties\":{"
                        "\"username\":{\"type\":\"string\",\"description\":\"User's response\"},"
                        "\"email\":{\"type\":\"string\",\"description\":\"User's email address\"}},"
                        "\"required\":[\"username\",\"email\"]}"),
        on_filled);
}

static void elicitation_defaults(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    ask(c, "elicitation/create",
        kr_fixture_form("Please look at the defaults",
                        "{\"type\":\"object\",\"properties\":{"
                        "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
                        "\"age\":{\"type\":\"integer\",\"default\":30},"
                        "\"score\":{\"type\":\"number\",\"default\":95.5},"
                        "\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],"
                        "\"default\":\"active\"},"
                        "\"verified\":{\"type\":\"boolean\",\"default\":true}},\"required\":[]}"),
        on_filled);
}

static void elicitation_enums(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    ask(c, "elicitation/create",
        kr_fixture_form(
            "Please choose",
            "{\"type\":\"object\",\"properties\":{"
            "\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\",\"option3\"]},"
            "\"titledSingle\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"value1\",\"title\":\"First Option\"},"
            "{\"const\":\"value2\",\"title\":\"Second Option\"},{\"const\":\"value3\",\"title\":\"Third Option\"}]},"
            "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
            "\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
            "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\","
            "\"enum\":[\"option1\",\"option2\",\"option3\"]}},"
            "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"value1\",\"title\":\"First "
            "Choice\"},"
            "{\"const\":\"value2\",\"title\":\"Second Choice\"},{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}},"
            "\"required\":[]}"),
        on_filled);
}

/* ---- inside a task ---- */

static const char confirm_schema[] = "{\"type\":\"object\",\"properties\":{\"confirm\":{\"type\":\"boolean\"}},"
                                     "\"required\":[\"confirm\"]}";

static bool confirmed(const json_t *answer)
{
    return json_is_true(json_object_get(json_object_get(answer, "content"), "confirm"));
}

static void on_confirmed(void *data, struct kr_mcp_call *c, const json_t *result)
{
    (void)data;
    kr_fixture_say(c, "%s %.512s", confirmed(result) ? "deleted" : "kept", kr_fixture_arg(c, "filename"));
}

static void confirm_delete(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_mcp_task_begin(c);
    ask(c, "elicitation/create", kr_fixture_form("Delete the file?", confirm_schema), on_confirmed);
}

struct both {
    unsigned open, yes;
};

static void on_both_cancel(void *data, struct kr_mcp_call *c)
{
    (void)c;
    free(data);
}

static void on_both(void *data, struct kr_mcp_call *c, const json_t *result)
{
    struct both *b = data;
    unsigned yes;

    b->yes += confirmed(result);
    if (--b->open > 0)
        return;
    yes = b->yes;
    free(b);
    kr_fixture_say(c, "%u of 2 confirmed", yes);
}

static void multi_input(struct kr_mcp_call *c, const void *args)
{
    struct both *b = calloc(1, sizeof *b);

    (void)args;
    kr_mcp_task_begin(c);
    if (b) {
        kr_mcp_on_cancel(c, on_both_cancel, b);
        for (unsigned i = 0; i < 2; i++)
            b->open +=
                kr_mcp_ask(c, "elicitation/create",
                           kr_fixture_form(i == 0 ? "The first?" : "The second?", confirm_schema), on_both, b) == 0;
    }
    if (b && b->open > 0)
        return;
    free(b);
    kr_mcp_tool_refuse(c, "this client cannot be asked");
}

/* ---- rows ---- */

/* clang-format off */
#define ROW(symbol, name_, what, run_, flags_, schema_) \
    const struct kr_mcp_tool kr_fixture_##symbol = { \
        .name = (name_), .title = (name_), .description = "Conformance fixture: " what, .dialects = KR_IN_KRAIT, \
        .flags = KR_TOOL_FIXTURE | (flags_), .input_schema = (schema_), .run = (run_)}
#define NONE "{\"type\":\"object\"}"
#define TEXT(name) "{\"type\":\"object\",\"properties\":{\"" name "\":{\"type\":\"string\"}},\"required\":[\"" name "\"]}"
ROW(sampling, "test_sampling", "asks the client's model.", sampling, 0, TEXT("prompt"));
ROW(elicitation, "test_elicitation", "asks by a form.", elicitation, 0, TEXT("message"));
ROW(elicitation_defaults, "test_elicitation_sep1034_defaults", "a form with defaults.", elicitation_defaults, 0, NONE);
ROW(elicitation_enums, "test_elicitation_sep1330_enums", "a form with choices.", elicitation_enums, 0, NONE);
ROW(confirm_delete, "confirm_delete", "a task that asks once.", confirm_delete, KR_TOOL_TASK, TEXT("filename"));
ROW(multi_input, "multi_input", "a task that asks two things at once.", multi_input, KR_TOOL_TASK, NONE);
/* clang-format on */

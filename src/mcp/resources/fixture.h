/* What the conformance suite asks of a server beyond the protocol: tools, prompts and resources of fixed content,
 * there only with --conformance-fixtures (config.fixtures). Their rows are like any other: the tools stand at the
 * end of THE table (tools_table.c), prompts and resources in tables of their own that prompts.c and resources.c look
 * into. */
#pragma once
#include "prompt.h"
#include "resource.h"
#include "tool.h"

/* clang-format off */
#define KR_MCP_FIXTURE_TOOLS(X) \
    X(simple_text) X(image_content) X(audio_content) X(embedded_resource) X(multiple_content_types) X(error_handling) \
    X(json_schema) X(x_mcp_header) X(missing_capability) X(trigger_tool_change) X(trigger_prompt_change) X(greet) \
    X(with_logging) X(logging_tool) X(with_progress) X(reconnection) X(slow_compute) X(failing_job) X(protocol_error_job) \
    X(sampling) X(elicitation) X(elicitation_defaults) X(elicitation_enums) X(confirm_delete) X(multi_input) \
    X(streaming_elicitation) X(mrtr_elicitation) X(mrtr_sampling) X(mrtr_list_roots) X(mrtr_request_state) \
    X(mrtr_multiple_inputs) X(mrtr_multi_round) X(mrtr_tampered_state) X(mrtr_capabilities) X(tool_with_task)
#define KR_MCP_FIXTURE_DECLARE(name) extern const struct kr_mcp_tool kr_fixture_##name;
KR_MCP_FIXTURE_TOOLS(KR_MCP_FIXTURE_DECLARE)
/* A row; the rest of its members may follow. */
#define KR_MCP_FIXTURE_ROW(name_, what_, run_) \
    .name = (name_), .title = (name_), .description = "Conformance fixture: " what_, .dialects = KR_IN_KRAIT, \
    .input_schema = "{\"type\":\"object\"}", .run = (run_)
/* clang-format on */

extern const struct kr_mcp_prompt kr_mcp_fixture_prompts[];
extern const size_t kr_mcp_fixture_prompts_count;
extern const struct kr_mcp_resource kr_mcp_fixture_resources[];
extern const size_t kr_mcp_fixture_resources_count;

/* The smallest files there are, in base64. */
extern const char kr_fixture_png[], kr_fixture_wav[];

/* An argument of a tools/call that is a text; "" if it is none. */
const char *kr_fixture_arg(const struct kr_mcp_call *c, const char *name);
/* Answers with one text. */
void kr_fixture_say(struct kr_mcp_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Params of an elicitation/create that wants the properties (JSON) of the form; new. */
json_t *kr_fixture_form(const char *message, const char *schema);
/* A text of the content of an accepted form, or NULL. */
const char *kr_fixture_field(const json_t *answer, const char *name);

/* ---- fixture_later.c ---- */

/* Something that takes its time. It goes with its call: when the client cancels, by itself. */
struct kr_fixture_later {
    struct kr_mcp_call *call;
    struct kr_timer *timer;
    void (*on_time)(struct kr_fixture_later *l);
    unsigned step;
    char text[128];
};
/* on_time comes after ms; it answers by kr_fixture_later_end(), or asks for another turn by
 * kr_fixture_later_again(). NULL: the call is answered with an error. */
struct kr_fixture_later *kr_fixture_later_new(struct kr_mcp_call *c, void (*on_time)(struct kr_fixture_later *l),
                                              uint64_t ms);
void kr_fixture_later_again(struct kr_fixture_later *l, uint64_t ms);
/* Frees it; the call that is to be answered. */
struct kr_mcp_call *kr_fixture_later_end(struct kr_fixture_later *l);

/* fixture_mrtr.c: get of the prompt that asks. */
void kr_fixture_asking_prompt(struct kr_mcp_call *c, const char *const *values);

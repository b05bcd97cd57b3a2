/* Fixtures that answer at once, and what all fixtures share. Called through THE table of tools. */
#include "fixture.h"
#include "mcp.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char kr_fixture_png[] =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
const char kr_fixture_wav[] = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

#define FLAGS (KR_TOOL_FIXTURE | KR_TOOL_READ_ONLY)

const char *kr_fixture_arg(const struct kr_mcp_call *c, const char *name)
{
    const char *text = json_string_value(json_object_get(json_object_get(kr_mcp_params(c), "arguments"), name));

    return text ? text : "";
}

void kr_fixture_say(struct kr_mcp_call *c, const char *fmt, ...)
{
    struct kr_mcp_result r;
    char text[4096];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    kr_mcp_result_init(&r);
    kr_mcp_add_text(&r, text, strlen(text));
    kr_mcp_tool_done(c, &r);
}

json_t *kr_fixture_form(const char *message, const char *schema)
{
    return json_pack("{s:s, s:o}", "message", message, "requestedSchema", json_loads(schema, 0, NULL));
}

const char *kr_fixture_field(const json_t *answer, const char *name)
{
    const char *action = json_string_value(json_object_get(answer, "action"));

    if (!action || strcmp(action, "accept") != 0)
        return NULL;
    return json_string_value(json_object_get(json_object_get(answer, "content"), name));
}

/* ---- content ---- */

static void add_png(struct kr_mcp_result *r)
{
    kr_mcp_add_image(r, kr_fixture_png, strlen(kr_fixture_png), "image/png");
}

static void simple_text(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_fixture_say(c, "This is a simple text response for testing.");
}

static void image_content(struct kr_mcp_call *c, const void *args)
{
    struct kr_mcp_result r;

    (void)args;
    kr_mcp_result_init(&r);
    add_png(&r);
    kr_mcp_tool_done(c, &r);
}

static void audio_content(struct kr_mcp_call *c, const void *args)
{
    struct kr_mcp_result r;

    (void)args;
    kr_mcp_result_init(&r);
    kr_mcp_add_audio(&r, kr_fixture_wav, strlen(kr_fixture_wav), "audio/wav");
    kr_mcp_tool_done(c, &r);
}

static void embedded_resource(struct kr_mcp_call *c, const void *args)
{
    static const char text[] = "This is an embedded resource content.";
    struct kr_mcp_result r;

    (void)args;
    kr_mcp_result_init(&r);
    kr_mcp_add_resource_text(&r, "test://embedded-resource", "text/plain", text, strlen(text));
    kr_mcp_tool_done(c, &r);
}

static void multiple_content_types(struct kr_mcp_call *c, const void *args)
{
    static const char text[] = "Multiple content types test:", json[] = "{\"test\":\"data\",\"value\":123}";
    struct kr_mcp_result r;

    (void)args;
    kr_mcp_result_init(&r);
    kr_mcp_add_text(&r, text, strlen(text));
    add_png(&r);
    kr_mcp_add_resource_text(&r, "test://mixed-content-resource", "application/json", json, strlen(json));
    kr_mcp_tool_done(c, &r);
}

static void error_handling(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_mcp_tool_refuse(c, "This tool intentionally returns an error for testing");
}

static void greet(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_fixture_say(c, "Hello, %.512s!", kr_fixture_arg(c, "name"));
}

/* ---- schemas and headers ---- */

static void json_schema(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_fixture_say(c, "JSON Schema 2020-12 tool called");
}

static void x_mcp_header(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_fixture_say(c, "region: %.512s", kr_fixture_arg(c, "region"));
}

/* ---- protocol ---- */

static void missing_capability(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    if (kr_mcp_client_can(c, "sampling"))
        kr_fixture_say(c, "the client can sample");
    else
        kr_mcp_fail(c, KR_RPC_NO_CAPABILITY, json_pack("{s:{s:{}}}", "requiredCapabilities", "sampling"),
                    "this tool needs the client's capability sampling");
}

/* The lists of krait never change while it runs: what is tested is that those who listen are told. */
static void trigger_tool_change(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_mcp_list_changed(kr_mcp_of(c), "tools");
    kr_fixture_say(c, "told whoever listens to tools");
}

static void trigger_prompt_change(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_mcp_list_changed(kr_mcp_of(c), "prompts");
    kr_fixture_say(c, "told whoever listens to prompts");
}

/* ---- rows ---- */

/* clang-format off */
static const char schema_2020_12[] =
    "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","
    "\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\","
    "\"properties\":{\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},"
    "\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},"
    "\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},"
    "\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},"
    "\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],"
    "\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},\"required\":[\"contactMethod\"]},"
    "\"then\":{\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},\"additionalProperties\":false}";
static const char schema_header[] =
    "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"},"
    "\"level\":{\"type\":\"integer\"}},\"required\":[\"region\"]}";
static const char schema_name[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]}";

#define ROW(symbol, name_, what, run_) \
    const struct kr_mcp_tool kr_fixture_##symbol = {KR_MCP_FIXTURE_ROW(name_, what, run_), .flags = FLAGS}
#define ROW_WITH(symbol, name_, what, run_, schema_) \
    const struct kr_mcp_tool kr_fixture_##symbol = { \
        .name = (name_), .title = (name_), .description = "Conformance fixture: " what, .dialects = KR_IN_KRAIT, \
        .flags = FLAGS, .input_schema = (schema_), .run = (run_)}
ROW(simple_text, "test_simple_text", "a text.", simple_text);
ROW(image_content, "test_image_content", "an image.", image_content);
ROW(audio_content, "test_audio_content", "a sound.", audio_content);
ROW(embedded_resource, "test_embedded_resource", "an embedded resource.", embedded_resource);
ROW(multiple_content_types, "test_multiple_content_types", "text, image and resource.", multiple_content_types);
ROW(error_handling, "test_error_handling", "a result that is an error.", error_handling);
ROW_WITH(json_schema, "json_schema_2020_12_tool", "a schema with all of 2020-12.", json_schema, schema_2020_12);
ROW_WITH(x_mcp_header, "test_x_mcp_header", "an argument that a header repeats.", x_mcp_header, schema_header);
ROW(missing_capability, "test_missing_capability", "needs the capability sampling.", missing_capability);
ROW(trigger_tool_change, "test_trigger_tool_change", "tells of a change of tools.", trigger_tool_change);
ROW(trigger_prompt_change, "test_trigger_prompt_change", "tells of a change of prompts.", trigger_prompt_change);
ROW_WITH(greet, "greet", "says hello, at once.", greet, schema_name);
/* clang-format on */

/* Fixtures: prompts and resources. Rows that prompts.c and resources.c look into with --conformance-fixtures. */
#include "fixture.h"
#include <stdio.h>
#include <string.h>

/* ---- prompts ---- */

static json_t *user_message(json_t *content)
{
    return json_pack("{s:s, s:o}", "role", "user", "content", content);
}

static json_t *text_content(const char *text)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", text);
}

static void simple_prompt(struct kr_mcp_call *c, const char *const *values)
{
    (void)values;
    kr_mcp_prompt_text(c, "A simple prompt", "This is a simple prompt for testing.");
}

static void prompt_with_arguments(struct kr_mcp_call *c, const char *const *values)
{
    char text[1024];

    snprintf(text, sizeof text, "Prompt with arguments: arg1='%.256s', arg2='%.256s'", values[0], values[1]);
    kr_mcp_prompt_text(c, "A prompt with arguments", text);
}

static void prompt_with_resource(struct kr_mcp_call *c, const char *const *values)
{
    json_t *resource = json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource", "uri", values[0],
                                 "mimeType", "text/plain", "text", "Embedded resource content for testing.");

    kr_mcp_reply(c, json_pack("{s:[o, o]}", "messages", user_message(resource),
                              user_message(text_content("Please process the embedded resource above."))));
}

static void prompt_with_image(struct kr_mcp_call *c, const char *const *values)
{
    json_t *image = json_pack("{s:s, s:s, s:s}", "type", "image", "data", kr_fixture_png, "mimeType", "image/png");

    (void)values;
    kr_mcp_reply(c, json_pack("{s:[o, o]}", "messages", user_message(image),
                              user_message(text_content("Please analyze the image above."))));
}

static const struct kr_mcp_prompt_arg two_args[] = {
    {.name = "arg1", .title = "First", .description = "First test argument", .required = true},
    {.name = "arg2", .title = "Second", .description = "Second test argument", .required = true},
    {.name = NULL},
};
static const struct kr_mcp_prompt_arg uri_arg[] = {
    {.name = "resourceUri", .title = "URI", .description = "URI of the resource to embed", .required = true},
    {.name = NULL},
};

/* clang-format off */
#define PROMPT(name_, description_, args_, get_) \
    {.name = (name_), .title = (name_), .description = "Conformance fixture: " description_, .fixture = true, \
     .args = (args_), .get = (get_)}
const struct kr_mcp_prompt kr_mcp_fixture_prompts[] = {
    PROMPT("test_simple_prompt", "a text.", NULL, simple_prompt),
    PROMPT("test_prompt_with_arguments", "a text with two arguments.", two_args, prompt_with_arguments),
    PROMPT("test_prompt_with_embedded_resource", "a resource and a text.", uri_arg, prompt_with_resource),
    PROMPT("test_prompt_with_image", "an image and a text.", NULL, prompt_with_image),
    PROMPT("test_input_required_result_prompt", "asks first.", NULL, kr_fixture_asking_prompt),
};
/* clang-format on */
const size_t kr_mcp_fixture_prompts_count = sizeof kr_mcp_fixture_prompts / sizeof kr_mcp_fixture_prompts[0];

/* ---- resources ---- */

#define TEMPLATE_HEAD "test://template/"
#define TEMPLATE_TAIL "/data"

static void read_text(struct kr_mcp_call *c, const char *uri)
{
    static const char text[] = "This is the content of the static text resource.";

    kr_mcp_contents(c, uri, "text/plain", text, strlen(text), false);
}

static void read_binary(struct kr_mcp_call *c, const char *uri)
{
    kr_mcp_contents(c, uri, "image/png", kr_fixture_png, strlen(kr_fixture_png), true);
}

/* The id is what stands between head and tail, and has no slash. */
static size_t id_of(const char *uri, const char **ret_id)
{
    size_t head = strlen(TEMPLATE_HEAD), len;

    if (strncmp(uri, TEMPLATE_HEAD, head) != 0)
        return 0;
    len = strcspn(uri + head, "/");
    if (strcmp(uri + head + len, TEMPLATE_TAIL) != 0)
        return 0;
    *ret_id = uri + head;
    return len;
}

static bool is_templated(const char *uri)
{
    const char *id;

    return id_of(uri, &id) > 0;
}

static void read_templated(struct kr_mcp_call *c, const char *uri)
{
    const char *id = "";
    size_t len = id_of(uri, &id);
    json_t *doc = json_pack("{s:s%, s:b, s:s}", "id", id, len, "templateTest", 1, "data", "Data for the id above");
    char text[1024];
    size_t n = doc ? json_dumpb(doc, text, sizeof text, JSON_COMPACT) : 0;

    json_decref(doc);
    if (n == 0 || n > sizeof text)
        kr_mcp_no_resource(c, uri);
    else
        kr_mcp_contents(c, uri, "application/json", text, n, false);
}

/* clang-format off */
const struct kr_mcp_resource kr_mcp_fixture_resources[] = {
    {.uri = "test://static-text", .name = "static-text", .title = "Static text", .description = "Conformance fixture: a text.",
     .mime = "text/plain", .fixture = true, .read = read_text},
    {.uri = "test://static-binary", .name = "static-binary", .title = "Static image",
     .description = "Conformance fixture: an image.", .mime = "image/png", .fixture = true, .read = read_binary},
    {.uri = "test://watched-resource", .name = "watched-resource", .title = "Watched",
     .description = "Conformance fixture: one to subscribe to.", .mime = "text/plain", .fixture = true, .read = read_text},
    {.uri = TEMPLATE_HEAD "{id}" TEMPLATE_TAIL, .name = "template", .title = "Template",
     .description = "Conformance fixture: a template.", .mime = "application/json", .is_template = true, .fixture = true,
     .read = read_templated, .matches = is_templated},
};
/* clang-format on */
const size_t kr_mcp_fixture_resources_count = sizeof kr_mcp_fixture_resources / sizeof kr_mcp_fixture_resources[0];

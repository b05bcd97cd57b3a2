/* prompts/list and prompts/get: the rows, and their texts. Called through the table of methods.
 *
 * Invariants: what is listed depends on the dialect alone; arguments are texts, checked by the row, before a prompt is
 * made; texts that came with the request go into a message and nowhere else. */
#include "prompt.h"
#include "buf.h"
#include "additions.h"
#include "guide.h"
#include "mcp.h"
#include "rpc_method.h"
#include "tool.h"
#include <string.h>

#define TEXT_MAX (4 * KR_MCP_PROMPT_TEXT_MAX)

/* ---- ours ---- */

/* Answers with one text of the user's. */
static void reply_text(struct kr_mcp_call *c, const char *description, const char *text)
{
    kr_mcp_reply(c, json_pack("{s:s, s:[{s:s, s:{s:s, s:s}}]}", "description", description, "messages", "role", "user",
                              "content", "type", "text", "text", text));
}

static void get_use_krait(struct kr_mcp_call *c, const char *const *values)
{
    cleanup_buf struct kr_buf text = {0};

    kr_buf_init(&text, TEXT_MAX);
    kr_buf_add_str(&text, kr_mcp_guide);
    if (values[0][0])
        kr_buf_printf(&text, "\n## The task\n%s\n", values[0]);
    reply_text(c, "How to work with krait's tools.", kr_buf_str(&text));
}

static const struct kr_mcp_prompt_arg use_krait_args[] = {
    {.name = "task", .title = "Task", .description = "What is to be done; it is put behind the guide."},
    {0},
};

/* ---- 000 ---- */

static const char *const styles[] = {"clean", "verbose", "minimal", NULL};
static const char *const yes_no[] = {"true", "false", NULL};

static void get_code_execution(struct kr_mcp_call *c, const char *const *values)
{
    static const char *const how[] = {
        "Write code that is well laid out, with names that tell what they hold.",
        "Write out every step, and print what happens as it goes on.",
        "Write as little code as does the task.",
    };
    cleanup_buf struct kr_buf text = {0};
    size_t style = 0;

    while (styles[style + 1] && strcmp(values[1], styles[style]) != 0)
        style++;
    kr_buf_init(&text, TEXT_MAX);
    kr_buf_printf(
        &text,
        "Do this with Python, running it with the tool execute_python_code:\n\n%s\n\n%s %s\n"
        "Run the code, look at what comes back, and mend it until the task is done. Variables stay from call to "
        "call when you give the same session_id; figures that are shown come back as pictures.",
        values[0], how[style],
        strcmp(values[2], "true") == 0 ? "Explain what is not obvious in comments." : "Leave comments out.");
    reply_text(c, "Solve a task by running Python code.", kr_buf_str(&text));
}

static const struct kr_mcp_prompt_arg code_execution_args[] = {
    {.name = "task_description", .title = "Task", .description = "What the code is to do.", .required = true},
    {.name = "code_style",
     .title = "Style",
     .description = "How the code is written: clean, verbose or minimal.",
     .choices = styles,
     .def = "clean"},
    {.name = "include_comments",
     .title = "Comments",
     .description = "Whether the code has comments: true or false.",
     .choices = yes_no,
     .def = "true"},
    {0},
};

/* ---- 004 ---- */

static void get_sandbox_workflow(struct kr_mcp_call *c, const char *const *values)
{
    cleanup_buf struct kr_buf text = {0};

    kr_buf_init(&text, TEXT_MAX);
    kr_buf_printf(
        &text,
        "You can run Python in sandboxes. Work in this order:\n"
        "1. list_sandboxes: if there is one, use it.\n"
        "2. create_sandbox only if there is none; keep its sandbox_id.\n"
        "3. execute_python_code(sandbox_id, code). Every call is a process of its own, so each needs its imports.\n"
        "4. Save figures and tables to files in the working directory; their links are in file_links. Show them to the "
        "user "
        "(pictures as ![name](link)). Do not use plt.show().\n"
        "5. If something fails, read stderr, mend the code and run it again.\n"
        "%s%s",
        values[0][0] ? "\nThe task:\n" : "", values[0]);
    reply_text(c, "The way from a task to files, through sandboxes.", kr_buf_str(&text));
}

static const struct kr_mcp_prompt_arg workflow_args[] = {
    {.name = "task", .title = "Task", .description = "What is to be done."},
    {0},
};

/* ---- rows ---- */

const struct kr_mcp_prompt kr_mcp_prompts[] = {
    {.name = "use_krait",
     .title = "Use krait well",
     .description =
         "How to run code with krait: what stays between calls, how figures and files come back, what to do when "
         "something fails.",
     .dialects = KR_IN_KRAIT,
     .args = use_krait_args,
     .get = get_use_krait},
    {.name = "code_execution_prompt",
     .title = "Solve a task with code",
     .description = "Asks for Python code that does a task, in a given style, and for running it.",
     .dialects = KR_IN_SANDBOX_MCP,
     .args = code_execution_args,
     .get = get_code_execution},
    {.name = "sandbox_workflow",
     .title = "Work with sandboxes",
     .description = "The order of work with sandboxes: find or make one, run code, show its files.",
     .dialects = KR_IN_MCP_SANDBOX,
     .args = workflow_args,
     .get = get_sandbox_workflow},
};
const size_t kr_mcp_prompts_count = sizeof kr_mcp_prompts / sizeof kr_mcp_prompts[0];

const struct kr_mcp_prompt *kr_mcp_prompt_at(size_t i)
{
    if (i < kr_mcp_prompts_count)
        return &kr_mcp_prompts[i];
    i -= kr_mcp_prompts_count;
    return i < kr_mcp_additions.prompt_count ? &kr_mcp_additions.prompts[i] : NULL;
}

/* ---- prompts/list ---- */

static json_t *describe_prompt(const struct kr_mcp_call *c, const struct kr_mcp_prompt *p)
{
    bool titles = kr_mcp_revs[kr_mcp_call_rev(c)].titles;
    json_t *args = json_array();

    for (const struct kr_mcp_prompt_arg *a = p->args; a && a->name; a++)
        json_array_append_new(args,
                              json_pack("{s:s, s:s*, s:s*, s:b}", "name", a->name, "title", titles ? a->title : NULL,
                                        "description", a->description, "required", a->required));
    return json_pack("{s:s, s:s*, s:s*, s:o}", "name", p->name, "title", titles ? p->title : NULL, "description",
                     p->description, "arguments", args);
}

void kr_mcp_prompts_list(struct kr_mcp_call *c)
{
    const json_t *cursor = json_object_get(kr_mcp_params(c), "cursor");
    const struct kr_mcp_prompt *p;
    json_t *list;

    if (cursor && !json_is_null(cursor)) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "that cursor is none of ours: all prompts are on one page");
        return;
    }
    list = json_array();
    for (size_t i = 0; (p = kr_mcp_prompt_at(i)); i++)
        if (p->dialects & KR_DIALECT_BIT(kr_mcp_call_dialect(c)))
            json_array_append_new(list, describe_prompt(c, p));
    kr_mcp_reply(c, json_pack("{s:o}", "prompts", list));
}

/* ---- prompts/get ---- */

static const struct kr_mcp_prompt *find_prompt(const char *name)
{
    const struct kr_mcp_prompt *p;

    for (size_t i = 0; (p = kr_mcp_prompt_at(i)); i++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

static bool is_choice(const struct kr_mcp_prompt_arg *a, const char *value)
{
    for (size_t i = 0; a->choices && a->choices[i]; i++)
        if (strcmp(a->choices[i], value) == 0)
            return true;
    return !a->choices;
}

/* The argument's text, or its default. NULL: answered. */
static const char *value_of(struct kr_mcp_call *c, const struct kr_mcp_prompt_arg *a, const json_t *given)
{
    const json_t *value = json_object_get(given, a->name);
    const char *text = json_string_value(value);

    if (!value && !a->required)
        return a->def ? a->def : "";
    if (!value)
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "%s: the argument is missing", a->name);
    else if (!text || strlen(text) != json_string_length(value))
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "%s: must be a text without NUL", a->name);
    else if (json_string_length(value) > KR_MCP_PROMPT_TEXT_MAX)
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "%s: longer than %u bytes", a->name, KR_MCP_PROMPT_TEXT_MAX);
    else if (!is_choice(a, text))
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "%s: %.40s is none of its words (%s)", a->name, text,
                    a->description);
    else
        return text;
    return NULL;
}

void kr_mcp_prompts_get(struct kr_mcp_call *c)
{
    const char *name = json_string_value(json_object_get(kr_mcp_params(c), "name"));
    const json_t *given = json_object_get(kr_mcp_params(c), "arguments");
    const struct kr_mcp_prompt *p = name ? find_prompt(name) : NULL;
    const char *values[KR_MCP_PROMPT_ARGS_MAX] = {0};

    if (!p) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "Unknown prompt: %.100s", name ? name : "(no name)");
        return;
    }
    if (given && !json_is_null(given) && !json_is_object(given)) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "arguments: must be an object of texts");
        return;
    }
    for (size_t i = 0; p->args && p->args[i].name && i < KR_MCP_PROMPT_ARGS_MAX; i++)
        if (!(values[i] = value_of(c, &p->args[i], given)))
            return;
    p->get(c, values);
}

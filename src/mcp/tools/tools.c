/* tools/list and tools/call: from a name to its row, from arguments to the row's function.
 *
 * Called through the table of methods. Invariants: what is listed depends on the dialect, the revision and the start of
 * the program, never on an earlier call; whatever is wrong with arguments is a result that says what to mend, and only
 * an unknown name is an error of the protocol. */
#include "tool_args.h"
#include "additions.h"
#include "err.h"
#include "mcp_internal.h"
#include "nearest.h"
#include "tool.h"
#include "tool_schema.h"
#include "call_input.h"
#include <errno.h>
#include <string.h>

/* ---- finding ---- */

/* The i-th of all, additions included, or NULL. */
static const struct kr_mcp_tool *tool_at(size_t i)
{
    if (i < kr_mcp_tools_count)
        return kr_mcp_tools[i];
    i -= kr_mcp_tools_count;
    return i < kr_mcp_additions.tool_count ? kr_mcp_additions.tools[i] : NULL;
}

const struct kr_mcp_tool *kr_mcp_tool_find(enum kr_dialect dialect, const char *name)
{
    const struct kr_mcp_tool *ours = NULL, *any = NULL, *tool;

    for (size_t i = 0; (tool = tool_at(i)); i++) {
        if (strcmp(tool->name, name) != 0)
            continue;
        if (tool->dialects & KR_DIALECT_BIT(dialect))
            return tool;
        if (tool->dialects & KR_IN_KRAIT && !ours)
            ours = tool;
        if (!any)
            any = tool;
    }
    return ours ? ours : any;
}

/* The name of a tools/call, or NULL: it is no text. */
static const char *name_of(const struct kr_mcp_call *c)
{
    const json_t *name = json_object_get(kr_mcp_params(c), "name");

    return json_is_string(name) && strlen(json_string_value(name)) == json_string_length(name) ? json_string_value(name)
                                                                                               : NULL;
}

const struct kr_mcp_tool *kr_mcp_call_tool(const struct kr_mcp_call *c)
{
    const char *name = strcmp(kr_mcp_call_method(c), "tools/call") == 0 ? name_of(c) : NULL;

    return name ? kr_mcp_tool_find(kr_mcp_call_dialect(c), name) : NULL;
}

/* ---- tools/list ---- */

bool kr_mcp_tool_listed(const struct kr_mcp *m, enum kr_dialect dialect, const struct kr_mcp_tool *tool)
{
    if (!(tool->dialects & KR_DIALECT_BIT(dialect)))
        return false;
    return kr_mcp_config(m)->tools == KR_TOOLS_ALL || !(tool->dialects & KR_IN_KRAIT) || (tool->flags & KR_TOOL_CORE);
}

static bool is_listed(const struct kr_mcp_call *c, const struct kr_mcp_tool *tool)
{
    if (kr_mcp_is_core(c) && tool->dialects & KR_IN_KRAIT && !(tool->flags & KR_TOOL_CORE))
        return false;
    return kr_mcp_tool_listed(kr_mcp_of(c), kr_mcp_call_dialect(c), tool);
}

/* Those that differ from what the protocol takes for granted: not read-only, destructive, not idempotent, of an open
 * world. What only reads neither destroys nor minds being repeated. The title is a member of newer revisions. */
static json_t *annotations(const struct kr_mcp_tool *tool, bool with_title)
{
    bool reads = (tool->flags & KR_TOOL_READ_ONLY) != 0;
    json_t *hints = json_object();

    if (with_title && tool->title)
        json_object_set_new(hints, "title", json_string(tool->title));
    if (reads)
        json_object_set_new(hints, "readOnlyHint", json_true());
    if (!reads && !(tool->flags & KR_TOOL_DESTRUCTIVE))
        json_object_set_new(hints, "destructiveHint", json_false());
    if (!reads && tool->flags & KR_TOOL_IDEMPOTENT)
        json_object_set_new(hints, "idempotentHint", json_true());
    if (!(tool->flags & KR_TOOL_OPEN_WORLD))
        json_object_set_new(hints, "openWorldHint", json_false());
    return hints;
}

/* `timeout` of krait's tools, at most what is configured for the caller, which the rows do not know. A run that asks
 * for more has the most, and is told; a sandbox that asks for more is refused. */
static json_t *input_schema(const struct kr_mcp_call *c, const struct kr_mcp_tool *tool, bool ours)
{
    uint64_t most_ms = ours ? kr_box_profile(kr_mcp_api(c)->box, kr_mcp_caller(c))->ceilings.timeout_ms : 0;
    json_t *schema = kr_mcp_input_schema(tool->input, ours);

    kr_mcp_bound_timeout(schema, most_ms);
    return schema;
}

static json_t *describe_tool(const struct kr_mcp_call *c, const struct kr_mcp_tool *tool)
{
    const struct kr_mcp_rev_row *rev = &kr_mcp_revs[kr_mcp_call_rev(c)];
    bool ours = (tool->dialects & KR_IN_KRAIT) != 0;
    json_t *item = json_pack("{s:s}", "name", tool->name);

    if (rev->titles && tool->title)
        json_object_set_new(item, "title", json_string(tool->title));
    json_object_set_new(item, "description", json_string(tool->description));
    json_object_set_new(item, "inputSchema",
                        tool->input_schema ? json_loads(tool->input_schema, 0, NULL) : input_schema(c, tool, ours));
    if (rev->structured && tool->output && (!ours || kr_mcp_structured(c)))
        json_object_set_new(item, "outputSchema", kr_mcp_output_schema(tool->output));
    if (rev->annotations)
        json_object_set_new(item, "annotations", annotations(tool, !rev->titles));
    if (rev->tasks && tool->flags & KR_TOOL_TASK)
        json_object_set_new(item, "execution", json_pack("{s:s}", "taskSupport", "optional"));
    return item;
}

void kr_mcp_tools_list(struct kr_mcp_call *c)
{
    const json_t *cursor = json_object_get(kr_mcp_params(c), "cursor");
    const struct kr_mcp_tool *tool;
    json_t *list;

    if (cursor && !json_is_null(cursor)) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "that cursor is none of ours: all tools are on one page");
        return;
    }
    list = json_array();
    for (size_t i = 0; (tool = tool_at(i)); i++)
        if (is_listed(c, tool))
            json_array_append_new(list, describe_tool(c, tool));
    kr_mcp_reply(c, json_pack("{s:o}", "tools", list));
}

/* ---- tools/call ---- */

static void unknown_tool(struct kr_mcp_call *c, const char *name)
{
    const struct kr_mcp_tool *tool;
    const char *near = NULL;
    unsigned least = 4;

    for (size_t i = 0; (tool = tool_at(i)); i++) {
        unsigned d = is_listed(c, tool) ? kr_edit_distance(name, tool->name) : least;

        if (d < least) {
            least = d;
            near = tool->name;
        }
    }
    kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "Unknown tool: %.128s%s%s%s", name, near ? " (did you mean " : "",
                near ? near : ": tools/list names those there are", near ? "?)" : "");
}

/* What the table takes, for the text of a refusal. */
static void list_arguments(const struct kr_api_table *table, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; table && i < table->count && len < size; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%s%s", i > 0 ? ", " : "", table->fields[i].name,
                                table->fields[i].required ? " (required)" : "");
}

static void wrong_arguments(struct kr_mcp_call *c, const struct kr_mcp_tool *tool, const struct kr_err *err)
{
    char names[1024];

    if (!(tool->dialects & KR_IN_KRAIT)) {
        kr_mcp_tool_refuse(c, "Error executing tool %s: %s", tool->name, err->msg);
        return;
    }
    list_arguments(tool->input, names, sizeof names);
    kr_mcp_tool_refuse(c, "%s: %s\nIt takes %s.", tool->name, err->msg, names[0] ? names : "no arguments");
}

static bool may_call(struct kr_mcp_call *c, const struct kr_mcp_tool *tool)
{
    unsigned rights = kr_mcp_caller(c)->rights;
    char have[KR_RIGHTS_ROOM], need[KR_RIGHTS_ROOM];

    if ((tool->needs & ~rights) == 0)
        return true;
    kr_mcp_refused(c, KR_ERR_FORBIDDEN);
    kr_mcp_tool_refuse(
        c, "%s needs a key with the right `%s`; this one has `%s`. Ask the operator of this server for another key.",
        tool->name, kr_rights_show(tool->needs & ~rights, need), kr_rights_show(rights, have));
    return false;
}

/* Tasks that the client asked for begin here, whatever comes of them; those it did not ask for are the tool's own
 * idea. */
static bool settle_task(struct kr_mcp_call *c, const struct kr_mcp_tool *tool)
{
    int r;

    if (!kr_mcp_task_wanted(c))
        return true;
    if (!(tool->flags & KR_TOOL_TASK)) {
        kr_mcp_fail(c, KR_RPC_NO_METHOD, NULL, "%s does not run as a task: call it without `task`", tool->name);
        return false;
    }
    r = kr_mcp_task_begin(c);
    if (r < 0)
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL,
                    r == -EBUSY ? "too many tasks: cancel one, or wait until one has ended"
                                : "the task cannot be made");
    return r >= 0;
}

void kr_mcp_tools_call(struct kr_mcp_call *c)
{
    const char *name = name_of(c);
    const struct kr_mcp_tool *tool = name ? kr_mcp_call_tool(c) : NULL;
    struct kr_mcp_args *args;
    struct kr_err err;

    if (!name) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "name: the tool's name is missing");
        return;
    }
    if (!tool) {
        unknown_tool(c, name);
        return;
    }
    if (!settle_task(c, tool) || !may_call(c, tool))
        return;
    if (kr_mcp_args_parse(tool, json_object_get(kr_mcp_params(c), "arguments"), &args, &err) < 0) {
        wrong_arguments(c, tool, &err);
        return;
    }
    c->tool = args;
    c->free_tool = kr_mcp_args_free;
    tool->run(c, kr_mcp_args_struct(args));
}

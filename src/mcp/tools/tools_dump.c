/* `krait dump tools`: the table of tools as docs/reference/tools.md. Called by src/cli. Invariant: nothing but rows. */
#include "dialect.h"
#include "mcp.h"
#include "store_user.h"
#include "tool.h"
#include <stdio.h>

static const char *const type_words[] = {
    [KR_API_STRING] = "text",           [KR_API_TEXT] = "text",           [KR_API_INT] = "integer",
    [KR_API_NUMBER] = "number",         [KR_API_BOOL] = "flag",           [KR_API_ENUM] = "one of",
    [KR_API_OBJECT] = "object",         [KR_API_MAP] = "object of texts", [KR_API_ARRAY] = "list",
    [KR_API_STRINGS] = "list of texts", [KR_API_ANY] = "anything",
};

/* A text within a cell of a table. */
static void put_cell(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '|')
            fputs("\\|", out);
        else
            fputc(*text == '\n' ? ' ' : *text, out);
}

static void put_range(FILE *out, const struct kr_api_field *f)
{
    if (f->choices)
        for (const char *const *c = f->choices; *c; c++)
            fprintf(out, "%s`%s`", c == f->choices ? " " : ", ", *c);
    if (f->has_min && f->has_max)
        fprintf(out, ", %.15g to %.15g", f->min, f->max);
    else if (f->has_min)
        fprintf(out, ", at least %.15g", f->min);
    else if (f->has_max)
        fprintf(out, ", at most %.15g", f->max);
}

static void put_field(FILE *out, const struct kr_api_field *f)
{
    fprintf(out, "| `%s`", f->name);
    for (const char *const *a = f->aliases; a && *a; a++)
        fprintf(out, "%s`%s`", a == f->aliases ? " (also " : ", ", *a);
    fprintf(out, "%s | %s", f->aliases && f->aliases[0] ? ")" : "", type_words[f->type]);
    put_range(out, f);
    fprintf(out, " | %s%s%s | ", f->required ? "required" : f->def ? "`" : "", f->def ? f->def : "", f->def ? "`" : "");
    put_cell(out, f->help);
    fputs(" |\n", out);
}

static void put_traits(FILE *out, const struct kr_mcp_tool *t)
{
    static const struct {
        unsigned flag;
        const char *word;
    } traits[] = {
        {KR_TOOL_CORE, "core"},
        {KR_TOOL_READ_ONLY, "read-only"},
        {KR_TOOL_DESTRUCTIVE, "destructive"},
        {KR_TOOL_IDEMPOTENT, "idempotent"},
        {KR_TOOL_OPEN_WORLD, "open world"},
        {KR_TOOL_TASK, "may go on as a task"},
    };
    const char *between = "Listed in: ";
    char rights[KR_RIGHTS_ROOM];

    for (int d = 0; d < KR_DIALECT_MAX_; d++)
        if (t->dialects & KR_DIALECT_BIT(d)) {
            fprintf(out, "%s`%s`", between, kr_dialect_names[d]);
            between = ", ";
        }
    if (!t->dialects)
        fputs("Never listed, always callable", out);
    if (t->needs)
        fprintf(out, ". Needs the right `%s`", kr_rights_show(t->needs, rights));
    between = ". Traits: ";
    for (size_t i = 0; i < sizeof traits / sizeof traits[0]; i++)
        if (t->flags & traits[i].flag) {
            fprintf(out, "%s%s", between, traits[i].word);
            between = ", ";
        }
    fputs(".\n\n", out);
}

static void put_tool(FILE *out, const struct kr_mcp_tool *t)
{
    fprintf(out, "\n## %s\n\n%s\n\n", t->name, t->description);
    put_traits(out, t);
    if (!t->input || t->input->count == 0) {
        fputs("No arguments.\n", out);
        return;
    }
    fputs("| argument | type | default | |\n|---|---|---|---|\n", out);
    for (size_t i = 0; i < t->input->count; i++)
        put_field(out, &t->input->fields[i]);
}

void kr_mcp_tools_dump(FILE *out)
{
    fputs("# Tools\n\nThe tools of krait's MCP server, as `krait dump tools` prints them. A name may stand here more "
          "than once: a "
          "call means the row of its own dialect, else krait's, else any.\n",
          out);
    for (size_t i = 0; i < kr_mcp_tools_count; i++)
        put_tool(out, kr_mcp_tools[i]);
}

/* How a conversation opens: initialize (until 2025-11-25), server/discover (2026-07-28), ping, logging/setLevel; and
 * what a model reads about krait. Called through the table of methods.
 *
 * Invariant: a capability is declared if and only if its methods are in the table for that revision. */
#include "mcp_internal.h"
#include <string.h>
#include <strings.h>

/* For a model that has the list of tools in front of it: what they do not say. */
static const char instructions[] =
    "Python and shell commands run in a Linux sandbox: no access to the host, and no network unless it was "
    "allowed.\n"
    "- execute_python works like a notebook: variables, imports and functions stay for the next call, the value of the "
    "last expression is shown, figures come back as images (plt.show(), or leave them open). Do not repeat set-up "
    "code.\n"
    "- Python calls without session_id share one session, shell commands another: over HTTP those of this MCP session "
    "alone, else `main` and `terminal`. Give a session_id to work in parallel or to share variables with other "
    "clients, fresh=true for a run that leaves nothing behind. Without sandbox_id all work in the sandbox "
    "`default`.\n"
    "- Files belong in /workspace, the current folder; they outlive sessions. The sandbox sees no other file of the "
    "host or "
    "of the user: bring data in with upload_file_to_sandbox.\n"
    "- A long run answers with its run id and what it has printed so far: go on with read_run, end it with stop_run. "
    "timeout is in seconds.\n"
    "- Python packages: install_package, where code imports them at once; list_installed_packages names what is "
    "there.\n"
    "- input() asks the user where the client can be asked; elsewhere pass the lines as stdin.\n"
    "- When something fails, the last line of the result says why or what to do.";

static const char documents[] = "Python runs in a sandbox of its own: no access to the host, and no network unless "
                                "it was allowed. Files are in "
                                "/workspace. Each tool says whether variables are kept between calls.";

json_t *kr_mcp_server_info(const struct kr_mcp *m, enum kr_mcp_rev rev)
{
    json_t *info = json_pack("{s:s,s:s}", "name", "krait", "version", m->config.version ? m->config.version : "0");

    if (kr_mcp_revs[rev].titles)
        json_object_set_new(info, "title", json_string("krait: Python in sandboxes"));
    if (kr_mcp_revs[rev].icons)
        json_object_set_new(info, "description",
                            json_string("Runs Python in native Linux sandboxes that keep their variables and files."));
    return info;
}

static bool has_method(const char *method, enum kr_mcp_rev rev)
{
    return kr_mcp_method_find(method, rev) != NULL;
}

static json_t *capabilities(enum kr_mcp_rev rev)
{
    json_t *can = json_object();

    if (has_method("tools/list", rev))
        json_object_set_new(can, "tools", json_pack("{s:b}", "listChanged", 1));
    if (has_method("prompts/list", rev))
        json_object_set_new(can, "prompts", json_pack("{s:b}", "listChanged", 1));
    if (has_method("resources/list", rev))
        json_object_set_new(can, "resources", json_pack("{s:b,s:b}", "subscribe", 1, "listChanged", 1));
    if (rev >= KR_REV_2025_03_26 && has_method("completion/complete", rev))
        json_object_set_new(can, "completions", json_object());
    json_object_set_new(can, "logging", json_object());
    if (kr_mcp_revs[rev].tasks && has_method("tasks/get", rev))
        json_object_set_new(can, "tasks",
                            json_pack("{s:{},s:{},s:{s:{s:{}}}}", "list", "cancel", "requests", "tools", "call"));
    if (kr_mcp_revs[rev].modern && has_method("tasks/get", rev))
        json_object_set_new(can, "extensions", json_pack("{s:{}}", KR_MCP_TASKS_EXTENSION));
    return can;
}

/* New. With `krait mcp --workspace` the files are the user's own, which no text that is fixed can say. */
static json_t *instructions_for(const struct kr_mcp_call *c)
{
    const char *folder = kr_mcp_is_local(c) ? c->manner->mcp->config.workspace : NULL;
    bool ours = kr_mcp_call_dialect(c) == KR_DIALECT_KRAIT;
    json_t *text;

    if (!ours || !folder)
        return json_string(ours ? instructions : documents);
    text = json_sprintf("%s\n- /workspace is the folder %s of the user's machine: what you change there is changed "
                        "for good. Code opens its files as /workspace/NAME.",
                        instructions, folder);
    return text ? text : json_string(instructions); /* a path that is no UTF-8 */
}

/* The version asked for if it has a handshake, else the newest that has. */
static enum kr_mcp_rev agree(const char *asked)
{
    int rev = kr_mcp_rev_find(asked);

    return rev >= 0 && !kr_mcp_revs[rev].modern ? (enum kr_mcp_rev)rev : KR_REV_2025_11_25;
}

bool kr_mcp_reads_first(const json_t *info)
{
    /* "mcp" is what the Python SDK calls a client that gives no name: smolagents and CrewAI are behind it (mcpadapt,
     * content[0].text). Others behind it read all blocks, and lose nothing by a line more. */
    static const char *const names[] = {"mcp", "mcpadapt", "smolagents", "crewai"};
    const char *name = json_string_value(json_object_get(info, "name"));

    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

void kr_mcp_initialize(struct kr_mcp_call *c)
{
    struct kr_mcp_peer *p = c->peer;
    json_t *asked = json_object_get(c->params, "protocolVersion"), *can = json_object_get(c->params, "capabilities");
    enum kr_mcp_rev rev;

    if (!json_is_string(asked)) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "protocolVersion: a string is needed");
        return;
    }
    if (can && !json_is_object(can)) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "capabilities: must be an object");
        return;
    }
    if (can && kr_mcp_cost(can) >= KR_MCP_LARGE) { /* they are kept as long as the conversation lasts */
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "capabilities: larger than %u KiB", KR_MCP_LARGE >> 10);
        return;
    }
    rev = agree(json_string_value(asked));
    p->rev = (int)rev;
    p->era = KR_ERA_LEGACY;
    json_decref(p->can);
    p->can = json_incref(can);
    p->reads_first = kr_mcp_reads_first(json_object_get(c->params, "clientInfo"));
    kr_mcp_reply(c, json_pack("{s:s,s:o,s:o,s:o}", "protocolVersion", kr_mcp_revs[rev].name, "capabilities",
                              capabilities(rev), "serverInfo", kr_mcp_server_info(c->manner->mcp, rev), "instructions",
                              instructions_for(c)));
}

void kr_mcp_discover(struct kr_mcp_call *c)
{
    json_t *versions = kr_mcp_versions(NULL);

    kr_mcp_reply(c, json_pack("{s:O,s:o,s:o}", "supportedVersions", json_object_get(versions, "supported"),
                              "capabilities", capabilities(c->rev), "instructions", instructions_for(c)));
    json_decref(versions);
}

void kr_mcp_ping(struct kr_mcp_call *c)
{
    kr_mcp_reply(c, json_object());
}

void kr_mcp_set_level(struct kr_mcp_call *c)
{
    const char *name = json_string_value(json_object_get(c->params, "level"));

    for (int i = 0; name && i < KR_MCP_LEVEL_MAX_; i++)
        if (strcmp(kr_mcp_level_names[i], name) == 0) {
            c->peer->level = i;
            kr_mcp_reply(c, json_object());
            return;
        }
    kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL,
                "level: one of debug, info, notice, warning, error, critical, alert, emergency");
}

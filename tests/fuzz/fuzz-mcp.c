/* Fuzzes src/mcp from the text of a message to its answer: the parser, the decision for a POST, a peer with its
 * dispatcher. An input is lines: the first three are headers (MCP-Protocol-Version, Mcp-Method, Mcp-Name; empty:
 * absent), the rest is messages of one conversation. Methods that need an engine are judged, and not called. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-mcp"
#include "replay.h"
#include "api.h"
#include "err.h"
#include "mcp_http_decide.h"
#include "mcp.h"
#include "json_load.h"
#include "mcp_internal.h"
#include <uv.h>

#define MESSAGES_MAX 32

static uv_loop_t loop;
static struct kr_api api;
static struct kr_mcp *mcp;
static unsigned answers, requests;

static void on_send(void *data, void *stream, enum kr_mcp_sent what, int code, const char *json, size_t len)
{
    json_t *message = json ? kr_json_load(json, len, 0, NULL) : NULL;

    (void)data, (void)stream;
    answers += what == KR_MCP_ANSWER;
    must((what == KR_MCP_SILENCE) == !json, "silence has no text");
    must(!json || (json_is_object(message) && !memchr(json, '\n', len)), "a message is an object of one line");
    must(what != KR_MCP_ANSWER || !json_object_get(message, "error") == !code, "an error has its code");
    json_decref(message);
}

/* The engine is not there: what would reach it stays out. */
static bool needs_engine(const json_t *root)
{
    static const char *const methods[] = {"tools/",   "resources/list", "resources/read", "resources/templates",
                                          "prompts/", "completion/"};
    const char *method = json_string_value(json_object_get(root, "method"));

    for (size_t i = 0; method && i < sizeof methods / sizeof methods[0]; i++)
        if (strncmp(method, methods[i], strlen(methods[i])) == 0)
            return true;
    return false;
}

static void try_decide(const struct kr_mcp_heads *heads, json_t *root)
{
    struct kr_mcp_decision step;

    kr_mcp_http_decide(heads, root, &step);
    must(step.way != KR_WAY_REFUSE || (step.flaw.code < 0 && step.flaw.text[0] && step.status == 400),
         "a refusal says why");
    must(step.way != KR_WAY_MODERN || (step.msg.id && heads->version && heads->method), "a modern request is whole");
    must(step.way != KR_WAY_BATCH || (json_array_size(root) > 0 && json_array_size(root) <= KR_MCP_BATCH_MAX),
         "a batch is bounded");
    json_decref(step.data);
}

static void try_message(struct kr_mcp_peer *peer, const struct kr_mcp_heads *heads, const char *text, size_t len)
{
    struct kr_mcp_flaw f;
    json_t *root = NULL, *item;
    size_t i;
    bool skip;

    if (kr_mcp_parse(text, len, &root, &f) < 0) {
        must(f.code < 0 && f.text[0], "what is no JSON is told why");
        requests++; /* it is answered */
        kr_mcp_peer_receive(peer, text, len, NULL);
        return;
    }
    try_decide(heads, root);
    skip = needs_engine(root);
    if (json_is_array(root))
        json_array_foreach(root, i, item)
        {
            skip = skip || needs_engine(item);
        }
    requests += json_is_array(root) ? (unsigned)json_array_size(root) + 1 : 1;
    if (!skip)
        kr_mcp_peer_receive_json(peer, root, NULL);
    json_decref(root);
}

/* The next line, and how long it is; NULL: there is none. */
static const char *next_line(const char **at, const char *end, size_t *ret_len)
{
    const char *start = *at, *stop;

    if (start >= end)
        return NULL;
    stop = memchr(start, '\n', (size_t)(end - start));
    *ret_len = (size_t)((stop ? stop : end) - start);
    *at = stop ? stop + 1 : end;
    return start;
}

static const char *head(const char **at, const char *end, char *room, size_t size)
{
    size_t len;
    const char *line = next_line(at, end, &len);

    if (!line || len == 0)
        return NULL;
    snprintf(room, size, "%.*s", (int)(len < size ? len : size - 1), line);
    return room;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct kr_mcp_wire wire = {.send = on_send};
    struct kr_mcp_peer_config peer_config = {.wire = &wire, .who = {.user = "root", .address = "", .request = ""}};
    struct kr_mcp_config config = {.version = "1"};
    const char *at = (const char *)data, *end = at + size, *line;
    char version[128], method[256], name[256];
    struct kr_mcp_heads heads;
    struct kr_mcp_peer *peer;
    struct kr_err err;
    size_t len;

    if (!mcp) {
        uv_loop_init(&loop);
        api.loop = &loop;
        if (kr_mcp_new(&api, &config, &mcp, &err) < 0)
            abort();
    }
    if (kr_mcp_peer_new(mcp, &peer_config, &peer) < 0)
        return 0;
    heads = (struct kr_mcp_heads){.version = head(&at, end, version, sizeof version)};
    heads.method = head(&at, end, method, sizeof method);
    heads.name = head(&at, end, name, sizeof name);
    answers = requests = 0;
    for (unsigned i = 0; i < MESSAGES_MAX && (line = next_line(&at, end, &len)); i++)
        try_message(peer, &heads, line, len);
    must(answers <= requests, "nothing is answered twice");
    must(kr_mcp_peer_calls(peer) <= KR_MCP_CALLS_MAX, "calls are bounded");
    kr_mcp_peer_free(peer);
    must(mcp->listen_count == 0 && TAILQ_EMPTY(&mcp->peers) && TAILQ_EMPTY(&mcp->detached), "nothing is left");
    uv_run(&loop, UV_RUN_NOWAIT); /* closed timers go */
    return 0;
}

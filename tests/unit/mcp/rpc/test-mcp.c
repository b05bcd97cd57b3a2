/* src/mcp: messages, the decision for a POST row by row, the table of methods, and a peer over a wire that remembers.
 * Run by tests/run. No engine: only methods that need none are called. */
#define _GNU_SOURCE 1
#include "check.h"
#include "api.h"
#include "err.h"
#include "mcp_http_decide.h"
#include "mcp.h"
#include "mcp_internal.h"
#include "buf.h"
#include "rpc_id.h"
#include <errno.h>
#include <stdarg.h>
#include <uv.h>

#define META(version) "\"_meta\":{\"" KR_MCP_META_VERSION "\":" version ",\"" KR_MCP_META_CAPABILITIES "\":{}}"
#define MODERN META("\"2026-07-28\"")

/* ---- messages ---- */

static int code_of(const char *text)
{
    struct kr_mcp_message m;
    struct kr_mcp_flaw f;
    json_t *root;
    int code = 0;

    if (kr_mcp_parse(text, strlen(text), &root, &f) < 0)
        return f.code;
    if (kr_mcp_classify(root, &m, &f) < 0)
        code = f.code;
    json_decref(root);
    return code;
}

static void messages_are_judged(void)
{
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ping\"}", 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"ping\",\"params\":{}}", 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":-9223372036854775808,\"method\":\"ping\"}", 0},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"x\"}}", 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"unknown\":1}", 0},
        {"[]", 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}", 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":99999999999999999999,\"method\":\"ping\"}", 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":1e999}", KR_RPC_INVALID_REQUEST},
        {"1e999", KR_RPC_INVALID_REQUEST},
        {"", KR_RPC_PARSE},
        {"{", KR_RPC_PARSE},
        {"nonsense", KR_RPC_PARSE},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} x", KR_RPC_PARSE},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", KR_RPC_PARSE},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xff\"}", KR_RPC_PARSE},
        {"1", KR_RPC_INVALID_REQUEST},
        {"null", KR_RPC_INVALID_REQUEST},
        {"{}", KR_RPC_INVALID_REQUEST},
        {"{\"id\":1,\"method\":\"ping\"}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"ping\"}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":1}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\\u0000ng\"}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":null}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}", KR_RPC_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"result\":{}}", KR_RPC_INVALID_REQUEST},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int code = code_of(rows[i].text);

        if (code != rows[i].code)
            printf("%s: %d, not %d\n", rows[i].text, code, rows[i].code);
        CHECK(code == rows[i].code);
    }
}

static void sizes_are_bounded(void)
{
    struct kr_mcp_flaw f;
    json_t *root;
    char *deep = malloc(2 * KR_MCP_DEPTH_MAX + 3), *wide = malloc(2 * KR_MCP_VALUES_MAX + 8);
    size_t n = KR_MCP_DEPTH_MAX;

    memset(deep, '[', n);
    memset(deep + n, ']', n);
    CHECK(kr_mcp_parse(deep, 2 * n, &root, &f) == 0);
    json_decref(root);
    memset(deep, '[', n + 1);
    memset(deep + n + 1, ']', n + 1);
    CHECK(kr_mcp_parse(deep, 2 * n + 2, &root, &f) < 0 && f.code == KR_RPC_INVALID_REQUEST);
    wide[0] = '[';
    for (size_t i = 0; i <= KR_MCP_VALUES_MAX; i++) {
        wide[1 + 2 * i] = '1';
        wide[2 + 2 * i] = ',';
    }
    wide[2 + 2 * KR_MCP_VALUES_MAX] = ']';
    CHECK(kr_mcp_parse(wide, 3 + 2 * KR_MCP_VALUES_MAX, &root, &f) < 0 && f.code == KR_RPC_INVALID_REQUEST);
    CHECK(kr_mcp_parse("", (size_t)KR_MCP_MESSAGE_MAX + 1, &root, &f) < 0 && f.code == KR_RPC_INVALID_REQUEST);
    free(deep);
    free(wide);
}

/* The id as it is echoed, "" for none. */
static void ids_are_found_in_what_is_no_message(void)
{
    static const struct {
        const char *text, *id;
    } rows[] = {
        {"{\"id\":7,\"x\":NaN}", "7"},
        {"{\"x\":{\"id\":1},\"id\":2,", "2"},
        {"{\"x\":[{\"id\":1},\"\\\"id\\\":3,\"], \"id\" : \"a\\\"b\" ,", "\"a\\\"b\""},
        {"{\"id\":18446744073709551616,\"id\":2}", "18446744073709551616"},
        {"{\"id\":1.50}", "1.50"},
        {"{\"id\":1e3 }", "1e3"},
        {"{\"ids\":1,\"i\":2,\"\":3,\"di\":4}", ""},
        {"{\"id\":null}", ""},
        {"{\"id\":{}}", ""},
        {"{\"id\":[5]}", ""},
        {"{\"id\":7", ""}, /* it may go on */
        {"{\"id\":\"", ""},
        {"[{\"id\":1}]", ""},
        {"\"id\":1", ""},
        {"", ""},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t len = strlen(rows[i].text);
        struct kr_mcp_id_scan slow = {0};
        struct kr_buf out;
        json_t *id = kr_mcp_find_id(rows[i].text, len), *again;
        char want[64];

        for (size_t at = 0; at < len; at++)
            kr_mcp_id_scan(&slow, rows[i].text + at, 1);
        again = kr_mcp_id_found(&slow);
        CHECK(json_equal(id, again) || (!id && !again));
        kr_buf_init(&out, 4096);
        CHECK(kr_mcp_write_error(&out, id, -1, "x", NULL) == 0);
        snprintf(want, sizeof want, rows[i].id[0] ? "\"id\":%s,\"error\"" : "%s\"2.0\",\"error\"", rows[i].id);
        if (!strstr(kr_buf_str(&out), want))
            printf("%s: %s\n", rows[i].text, kr_buf_str(&out));
        CHECK(strstr(kr_buf_str(&out), want));
        kr_buf_done(&out);
        json_decref(id);
        json_decref(again);
    }
}

/* ---- the decision for a POST ---- */

struct row {
    const char *version, *method, *name, *body;
    enum kr_mcp_way way;
    int code;
};
#define CALL(more) "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{" more "}}"
#define LIST(more) "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\",\"params\":{" more "}}"
#define INIT(more) "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"initialize\",\"params\":{" more "}}"
#define NOTE(more) "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{" more "}}"
#define ANSWER "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}"

/* clang-format off */
static const struct row rungs[] = {
    /* arrays */
    {NULL, NULL, NULL, "[]", KR_WAY_REFUSE, KR_RPC_INVALID_REQUEST},
    {NULL, NULL, NULL, "[1]", KR_WAY_REFUSE, KR_RPC_INVALID_REQUEST},
    {NULL, NULL, NULL, "[[]]", KR_WAY_REFUSE, KR_RPC_INVALID_REQUEST},
    {NULL, NULL, NULL, "[" LIST(MODERN) "]", KR_WAY_REFUSE, KR_RPC_INVALID_REQUEST},
    {NULL, NULL, NULL, "[" INIT("") "]", KR_WAY_REFUSE, KR_RPC_INVALID_REQUEST},
    {"2026-07-28", NULL, NULL, "[" LIST("") "]", KR_WAY_REFUSE, KR_RPC_INVALID_REQUEST},
    {NULL, NULL, NULL, "[" LIST("") "," NOTE("") "]", KR_WAY_BATCH, 0},
    /* answers of the client */
    {NULL, NULL, NULL, ANSWER, KR_WAY_LEGACY, 0},
    {"2025-11-25", NULL, NULL, ANSWER, KR_WAY_LEGACY, 0},
    {"2026-07-28", NULL, NULL, ANSWER, KR_WAY_REFUSE, KR_RPC_INVALID_REQUEST},
    /* notifications */
    {NULL, NULL, NULL, NOTE(""), KR_WAY_LEGACY, 0},
    {"2025-06-18", NULL, NULL, NOTE(""), KR_WAY_LEGACY, 0},
    {"2026-07-28", NULL, NULL, NOTE(""), KR_WAY_MODERN_NOTE, 0},
    {"2099-01-01", NULL, NULL, NOTE(""), KR_WAY_MODERN_NOTE, 0},
    {NULL, NULL, NULL, NOTE(MODERN), KR_WAY_MODERN_NOTE, 0},
    /* initialize */
    {NULL, NULL, NULL, INIT("\"protocolVersion\":\"2025-11-25\""), KR_WAY_INITIALIZE, 0},
    {"2025-11-25", NULL, NULL, INIT(""), KR_WAY_INITIALIZE, 0},
    {"2026-07-28", NULL, NULL, INIT(""), KR_WAY_REFUSE, KR_RPC_HEADER_MISMATCH},
    {NULL, NULL, NULL, INIT(META("1")), KR_WAY_INITIALIZE, 0},
    {"2026-07-28", "initialize", NULL, INIT(MODERN), KR_WAY_MODERN, 0}, /* its method is not there: 404 */
    /* no claim */
    {NULL, NULL, NULL, LIST(""), KR_WAY_LEGACY, 0},
    {"2025-03-26", NULL, NULL, LIST(""), KR_WAY_LEGACY, 0},
    {"2026-07-28", "tools/list", NULL, LIST(""), KR_WAY_REFUSE, KR_RPC_INVALID_PARAMS},
    {"1999-01-01", NULL, NULL, LIST(""), KR_WAY_REFUSE, KR_RPC_INVALID_PARAMS},
    /* the envelope */
    {"2026-07-28", "tools/list", NULL, LIST(META("1")), KR_WAY_REFUSE, KR_RPC_INVALID_PARAMS},
    {"2026-07-28", "tools/list", NULL, LIST("\"_meta\":{\"" KR_MCP_META_VERSION "\":\"2026-07-28\"}"), KR_WAY_REFUSE,
     KR_RPC_INVALID_PARAMS},
    {"2026-07-28", "tools/list", NULL,
     LIST("\"_meta\":{\"" KR_MCP_META_VERSION "\":\"2026-07-28\",\"" KR_MCP_META_CAPABILITIES "\":[]}"), KR_WAY_REFUSE,
     KR_RPC_INVALID_PARAMS},
    /* headers against the body: before whether the version is served */
    {"2025-11-25", "tools/list", NULL, LIST(MODERN), KR_WAY_REFUSE, KR_RPC_HEADER_MISMATCH},
    {"2026-07-28", "tools/list", NULL, LIST(META("\"2099-01-01\"")), KR_WAY_REFUSE, KR_RPC_HEADER_MISMATCH},
    {"2099-01-01", "tools/list", NULL, LIST(META("\"2099-01-01\"")), KR_WAY_REFUSE, KR_RPC_NO_VERSION},
    {"2025-11-25", "tools/list", NULL, LIST(META("\"2025-11-25\"")), KR_WAY_REFUSE, KR_RPC_NO_VERSION},
    {"2099-01-01", "tools/call", NULL, LIST(META("\"2099-01-01\"")), KR_WAY_REFUSE, KR_RPC_HEADER_MISMATCH},
    {NULL, "tools/list", NULL, LIST(MODERN), KR_WAY_REFUSE, KR_RPC_HEADER_MISMATCH},
    {"2026-07-28", NULL, NULL, LIST(MODERN), KR_WAY_REFUSE, KR_RPC_HEADER_MISMATCH},
    {"2026-07-28", "TOOLS/LIST", NULL, LIST(MODERN), KR_WAY_REFUSE, KR_RPC_HEADER_MISMATCH},
    {"2026-07-28", "tools/list", NULL, LIST(MODERN), KR_WAY_MODERN, 0},
    {"2026-07-28", "tools/list", "ignored", LIST(MODERN), KR_WAY_MODERN, 0},
    /* names */
    {"2026-07-28", "tools/call", NULL, CALL("\"name\":\"a\"," MODERN), KR_WAY_REFUSE, KR_RPC_HEADER_MISMATCH},
    {"2026-07-28", "tools/call", "b", CALL("\"name\":\"a\"," MODERN), KR_WAY_REFUSE, KR_RPC_HEADER_MISMATCH},
    {"2026-07-28", "tools/call", "A", CALL("\"name\":\"a\"," MODERN), KR_WAY_REFUSE, KR_RPC_HEADER_MISMATCH},
    {"2026-07-28", "tools/call", "a", CALL("\"name\":\"a\"," MODERN), KR_WAY_MODERN, 0},
    {"2026-07-28", "tools/call", "=?base64?YQ==?=", CALL("\"name\":\"a\"," MODERN), KR_WAY_MODERN, 0},
    {"2026-07-28", "tools/call", "=?base64?w6k=?=", CALL("\"name\":\"\xc3\xa9\"," MODERN), KR_WAY_MODERN, 0},
    {"2026-07-28", "tools/call", "=?base64?YQ?=", CALL("\"name\":\"a\"," MODERN), KR_WAY_REFUSE,
     KR_RPC_HEADER_MISMATCH},
    {"2026-07-28", "tools/call", "=?BASE64?YQ==?=", CALL("\"name\":\"a\"," MODERN), KR_WAY_REFUSE,
     KR_RPC_HEADER_MISMATCH},
    {"2026-07-28", "tools/call", "=?base64?YQ==", CALL("\"name\":\"=?base64?YQ==\"," MODERN), KR_WAY_MODERN, 0},
    {"2026-07-28", "tools/call", "a", CALL(MODERN), KR_WAY_REFUSE, KR_RPC_HEADER_MISMATCH},
    {"2026-07-28", "tools/call", NULL, CALL(MODERN), KR_WAY_MODERN, 0}, /* the method refuses it */
    {"2026-07-28", "foo/bar", NULL, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"foo/bar\",\"params\":{" MODERN "}}",
     KR_WAY_MODERN, 0},
    /* no message */
    {NULL, NULL, NULL, "{}", KR_WAY_REFUSE, KR_RPC_INVALID_REQUEST},
    {"2026-07-28", NULL, NULL, "1", KR_WAY_REFUSE, KR_RPC_INVALID_REQUEST},
};
/* clang-format on */

static void each_rung_holds(void)
{
    for (size_t i = 0; i < sizeof rungs / sizeof rungs[0]; i++) {
        const struct row *r = &rungs[i];
        struct kr_mcp_heads heads = {.version = r->version, .method = r->method, .name = r->name};
        json_t *root = json_loads(r->body, JSON_DECODE_ANY, NULL);
        struct kr_mcp_decision step;

        CHECK(root);
        kr_mcp_http_decide(&heads, root, &step);
        if (step.way != r->way || step.flaw.code * (step.way == KR_WAY_REFUSE) != r->code)
            printf("row %zu: way %d code %d %s: %s\n", i, (int)step.way, step.flaw.code, step.flaw.text, r->body);
        CHECK(step.way == r->way && (step.way != KR_WAY_REFUSE || step.flaw.code == r->code));
        CHECK(step.way != KR_WAY_REFUSE || (step.status == 400 && step.flaw.text[0]));
        CHECK(!step.data == (step.way != KR_WAY_REFUSE || r->code != KR_RPC_NO_VERSION));
        json_decref(step.data);
        json_decref(root);
    }
}

static void headers_that_come_twice_are_refused(void)
{
    struct kr_mcp_heads heads = {"2026-07-28", "tools/list", NULL, "Mcp-Method"};
    json_t *root = json_loads(LIST(MODERN), 0, NULL);
    struct kr_mcp_decision step;

    kr_mcp_http_decide(&heads, root, &step);
    CHECK(step.way == KR_WAY_REFUSE && step.flaw.code == KR_RPC_HEADER_MISMATCH &&
          strstr(step.flaw.text, "Mcp-Method"));
    json_decref(root);
}

static const char *region;
static const char *header(const void *data, const char *name)
{
    (void)data;
    return strcmp(name, "Mcp-Param-Region") == 0 ? region : NULL;
}

static void annotated_arguments_need_their_headers(void)
{
    json_t *schema = json_loads("{\"properties\":{\"region\":{\"x-mcp-header\":\"Region\"},\"other\":{}}}", 0, NULL);
    static const struct {
        const char *header, *arguments;
        int r;
    } rows[] = {
        {NULL, "{}", 0},
        {"x", "{}", 0},
        {NULL, "{\"region\":null}", 0},
        {NULL, "{\"other\":1}", 0},
        {NULL, "{\"region\":\"eu\"}", -EINVAL},
        {"us", "{\"region\":\"eu\"}", -EINVAL},
        {"eu", "{\"region\":\"eu\"}", 0},
        {"=?base64?ZXU=?=", "{\"region\":\"eu\"}", 0},
        {"=?base64?ZXU?=", "{\"region\":\"eu\"}", -EINVAL},
        {"7", "{\"region\":7}", 0},
        {"007", "{\"region\":7}", 0},
        {"7x", "{\"region\":7}", -EINVAL},
        {"true", "{\"region\":true}", 0},
        {"True", "{\"region\":true}", -EINVAL},
        {"[]", "{\"region\":[]}", -EINVAL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *arguments = json_loads(rows[i].arguments, 0, NULL);
        struct kr_mcp_flaw f;

        region = rows[i].header;
        CHECK(kr_mcp_head_params(schema, arguments, header, NULL, &f) == rows[i].r);
        json_decref(arguments);
    }
    json_decref(schema);
}

/* ---- the tables ---- */

static void methods_are_sorted_and_apart(void)
{
    for (size_t i = 0; i < kr_mcp_methods_count; i++) {
        const struct kr_mcp_method *m = &kr_mcp_methods[i];

        CHECK(m->handle && m->since <= m->until && m->until < KR_REV_MAX_);
        CHECK(i == 0 || strcmp(kr_mcp_methods[i - 1].name, m->name) < 0);
        for (int rev = 0; rev < KR_REV_MAX_; rev++)
            CHECK(!kr_mcp_method_find(m->name, (enum kr_mcp_rev)rev) == (rev < (int)m->since || rev > (int)m->until));
    }
    for (int rev = 1; rev < KR_REV_MAX_; rev++)
        CHECK(strcmp(kr_mcp_revs[rev - 1].name, kr_mcp_revs[rev].name) < 0);
    CHECK(kr_mcp_rev_find("2025-11-25") == KR_REV_2025_11_25 && kr_mcp_rev_find("x") < 0 && kr_mcp_rev_find(NULL) < 0);
}

/* ---- a peer ---- */

static uv_loop_t loop;
static struct kr_api api;
static struct kr_mcp *mcp;
static struct kr_mcp_peer *peer;
static json_t *sent[64]; /* what went out, in order */
static size_t sent_count, silences;

static void on_send(void *data, void *stream, enum kr_mcp_sent what, int code, const char *json, size_t len)
{
    (void)data, (void)stream;
    if (what == KR_MCP_SILENCE) {
        silences++;
        return;
    }
    if (sent_count < 64)
        sent[sent_count++] = json_loadb(json, len, 0, NULL);
    if (code && sent_count && !json_object_get(sent[sent_count - 1], "error"))
        abort(); /* a code is told with an error, and only then */
}

static void forget(void)
{
    while (sent_count)
        json_decref(sent[--sent_count]);
    silences = 0;
}

static void fresh_peer(void)
{
    static const struct kr_mcp_wire wire = {.send = on_send};
    struct kr_mcp_peer_config config = {.wire = &wire, .who = {.user = "root", .address = "", .request = ""}};

    forget();
    kr_mcp_peer_free(peer);
    peer = NULL;
    kr_mcp_peer_new(mcp, &config, &peer);
}

static void say(const char *text)
{
    kr_mcp_peer_receive(peer, text, strlen(text), NULL);
}

/* The error code of the last message; 0: a result. */
static int last_code(void)
{
    json_t *last = sent_count ? sent[sent_count - 1] : NULL;

    return (int)json_integer_value(json_object_get(json_object_get(last, "error"), "code"));
}

static const json_t *last_result(const char *member)
{
    return sent_count ? json_object_get(json_object_get(sent[sent_count - 1], "result"), member) : NULL;
}

#define SAY_INIT(version)                                                                                              \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":" version                 \
    ",\"capabilities\":{\"roots\":{}}}}"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}"
#define DISCOVER "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{" MODERN "}}"
#define LISTEN                                                                                                         \
    "{\"jsonrpc\":\"2.0\",\"id\":\"L\",\"method\":\"subscriptions/listen\",\"params\":{\"notifications\":{"            \
    "\"toolsListChanged\":true,\"resourceSubscriptions\":[\"a:b\"]}," MODERN "}}"

static void versions_are_agreed_upon(void)
{
    static const char *const rows[][2] = {{"\"2024-11-05\"", "2024-11-05"}, {"\"2025-03-26\"", "2025-03-26"},
                                          {"\"2025-06-18\"", "2025-06-18"}, {"\"2025-11-25\"", "2025-11-25"},
                                          {"\"2026-07-28\"", "2025-11-25"}, {"\"1999\"", "2025-11-25"}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];

        fresh_peer();
        snprintf(text, sizeof text, SAY_INIT("%s"), rows[i][0]);
        say(text);
        CHECK(sent_count == 1 && json_is_integer(json_object_get(sent[0], "id")));
        CHECK(strcmp(json_string_value(last_result("protocolVersion")), rows[i][1]) == 0);
        CHECK(!last_result("resultType") && last_result("instructions"));
    }
    fresh_peer();
    say(SAY_INIT("1"));
    CHECK(last_code() == KR_RPC_INVALID_PARAMS && kr_mcp_peer_rev(peer) < 0);
}

static void eras_are_told_apart(void)
{
    fresh_peer();
    say(PING);
    CHECK(last_code() == 0 && json_object_size(json_object_get(sent[0], "result")) == 0);
    say(SAY_INIT("\"2025-11-25\""));
    CHECK(last_code() == 0);
    say(DISCOVER); /* each message by itself */
    CHECK(last_code() == 0 && strcmp(json_string_value(last_result("resultType")), "complete") == 0);
    CHECK(json_integer_value(last_result("ttlMs")) > 0 && last_result("cacheScope"));

    fresh_peer();
    say(DISCOVER);
    say(SAY_INIT("\"2025-11-25\"")); /* a client that only tried */
    CHECK(last_code() == 0);

    fresh_peer();
    say(LISTEN);
    CHECK(strcmp(json_string_value(json_object_get(sent[0], "method")), "notifications/subscriptions/acknowledged") ==
          0);
    say(PING);
    CHECK(last_code() == KR_RPC_INVALID_PARAMS);
    say(SAY_INIT("\"2025-11-25\""));
    CHECK(last_code() == KR_RPC_NO_VERSION);
    say("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\",\"params\":{" MODERN "}}");
    CHECK(last_code() == KR_RPC_NO_METHOD);
    say("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{" META("\"2099-01-01\"") "}}");
    CHECK(last_code() == KR_RPC_NO_VERSION);
}

static void garbage_is_answered_and_survived(void)
{
    fresh_peer();
    say("garbage");
    CHECK(sent_count == 1 && last_code() == KR_RPC_PARSE && !json_object_get(sent[0], "id"));
    say("[]");
    CHECK(sent_count == 2 && last_code() == KR_RPC_INVALID_REQUEST);
    say("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"nope\"}");
    CHECK(sent_count == 3 && last_code() == KR_RPC_NO_METHOD &&
          json_integer_value(json_object_get(sent[2], "id")) == 5);
    say("{\"jsonrpc\":\"2.0\",\"method\":\"nope\"}"); /* a notification is never answered */
    say("{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}");
    say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":99}}");
    CHECK(sent_count == 3);
    say(PING);
    CHECK(sent_count == 4 && last_code() == 0 && json_is_string(json_object_get(sent[3], "id")));
}

static void batches_are_of_one_revision(void)
{
    fresh_peer();
    say(SAY_INIT("\"2025-03-26\""));
    say("[" PING ",{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}," PING "]");
    CHECK(sent_count == 3 && last_code() == 0);
    fresh_peer();
    say(SAY_INIT("\"2025-06-18\""));
    say("[" PING "]");
    CHECK(sent_count == 2 && last_code() == KR_RPC_INVALID_REQUEST);
}

static void listeners_hear_what_they_asked_for(void)
{
    fresh_peer();
    say(LISTEN);
    kr_mcp_list_changed(mcp, "prompts");
    kr_mcp_resource_updated(mcp, "root", "a:c");
    kr_mcp_resource_updated(mcp, "other", "a:b");
    CHECK(sent_count == 1);
    kr_mcp_list_changed(mcp, "tools");
    kr_mcp_resource_updated(mcp, "root", "a:b");
    CHECK(sent_count == 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *meta = json_object_get(json_object_get(sent[i], "params"), "_meta");

        CHECK(strcmp(json_string_value(json_object_get(meta, KR_MCP_META_SUBSCRIPTION)), "L") == 0);
    }
    say(LISTEN); /* the id is in use */
    CHECK(last_code() == KR_RPC_INVALID_REQUEST);
    CHECK(kr_mcp_peer_calls(peer) == 1 && mcp->listen_count == 1);
    say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"L\"}}");
    CHECK(silences == 1 && kr_mcp_peer_calls(peer) == 0 && mcp->listen_count == 0);
    kr_mcp_list_changed(mcp, "tools");
    CHECK(sent_count == 4);
}

/* A number is one id however it is written; an integer that a double would round is compared by its digits. */
static void a_cancel_means_the_number(void)
{
    static const struct {
        const char *id, *cancelled;
        bool same;
    } rows[] = {
        {"1", "1", true},
        {"1.0", "1.0", true},
        {"1", "1.0", true},
        {"1.0", "1", true},
        {"1e3", "1000", true},
        {"0", "-0.0", true},
        {"0.5", "5e-1", true},
        {"9007199254740993", "9007199254740993", true},
        {"9223372036854775808", "9223372036854775808", true},
        {"1", "2.0", false},
        {"1", "1.5", false},
        {"1", "\"1\"", false},
        {"\"1\"", "1", false},
        {"1", "true", false},
        {"1", "null", false},
        {"9007199254740993", "9007199254740992.0", false},
        {"9223372036854775809", "9223372036854775808", false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];

        fresh_peer();
        snprintf(text, sizeof text,
                 "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"subscriptions/"
                 "listen\",\"params\":{\"notifications\":{}," MODERN "}}",
                 rows[i].id);
        say(text);
        CHECK(kr_mcp_peer_calls(peer) == 1);
        snprintf(text, sizeof text,
                 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%s}}",
                 rows[i].cancelled);
        say(text);
        if (kr_mcp_peer_calls(peer) != (rows[i].same ? 0 : 1))
            printf("id %s, requestId %s\n", rows[i].id, rows[i].cancelled);
        CHECK(kr_mcp_peer_calls(peer) == (rows[i].same ? 0 : 1));
    }
}

static void calls_in_flight_are_bounded(void)
{
    fresh_peer();
    for (unsigned i = 0; i <= KR_MCP_CALLS_MAX; i++) {
        char text[512];

        snprintf(text, sizeof text,
                 "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"subscriptions/"
                 "listen\",\"params\":{\"notifications\":{}," MODERN "}}",
                 i);
        forget();
        say(text);
    }
    CHECK(kr_mcp_peer_calls(peer) == KR_MCP_CALLS_MAX && last_code() == KR_RPC_INTERNAL);
    for (unsigned i = 0; i < KR_MCP_CALLS_MAX; i++) {
        char text[128];

        snprintf(text, sizeof text,
                 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%u}}", i);
        say(text);
    }
    CHECK(kr_mcp_peer_calls(peer) == 0 && mcp->listen_count == 0);
}

static void subscriptions_are_each_peers(void)
{
    fresh_peer();
    say(SAY_INIT("\"2025-11-25\""));
    kr_mcp_list_changed(mcp, "tools");
    CHECK(sent_count == 2);
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"a:b\"}}");
    kr_mcp_resource_updated(mcp, "root", "a:b");
    CHECK(sent_count == 4);
    kr_mcp_resource_updated(mcp, "other", "a:b");
    say("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/unsubscribe\",\"params\":{\"uri\":\"a:b\"}}");
    kr_mcp_resource_updated(mcp, "root", "a:b");
    CHECK(sent_count == 5 && last_code() == 0);
    say("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"resources/subscribe\",\"params\":{}}");
    CHECK(last_code() == KR_RPC_INVALID_PARAMS);
}

static void levels_are_checked(void)
{
    fresh_peer();
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":{\"level\":\"debug\"}}");
    CHECK(last_code() == 0 && json_object_size(json_object_get(sent[0], "result")) == 0);
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":{\"level\":\"loud\"}}");
    CHECK(last_code() == KR_RPC_INVALID_PARAMS);
}

static void a_stop_ends_what_listens(void)
{
    fresh_peer();
    say(LISTEN);
    kr_mcp_stop(mcp);
    CHECK(sent_count == 2 && last_code() == 0 && kr_mcp_peer_calls(peer) == 0);
    CHECK(strcmp(json_string_value(json_object_get(last_result("_meta"), KR_MCP_META_SUBSCRIPTION)), "L") == 0);
    say(LISTEN);
    CHECK(last_code() == KR_RPC_INTERNAL);
}

int main(void)
{
    struct kr_mcp_config config = {.version = "1"};
    struct kr_err err;

    RUN(messages_are_judged);
    RUN(sizes_are_bounded);
    RUN(ids_are_found_in_what_is_no_message);
    RUN(each_rung_holds);
    RUN(headers_that_come_twice_are_refused);
    RUN(annotated_arguments_need_their_headers);
    RUN(methods_are_sorted_and_apart);
    uv_loop_init(&loop);
    api.loop = &loop;
    if (kr_mcp_new(&api, &config, &mcp, &err) < 0) {
        printf("FAIL kr_mcp_new: %s\n", err.msg);
        return 1;
    }
    RUN(versions_are_agreed_upon);
    RUN(eras_are_told_apart);
    RUN(garbage_is_answered_and_survived);
    RUN(batches_are_of_one_revision);
    RUN(listeners_hear_what_they_asked_for);
    RUN(a_cancel_means_the_number);
    RUN(calls_in_flight_are_bounded);
    RUN(subscriptions_are_each_peers);
    RUN(levels_are_checked);
    RUN(a_stop_ends_what_listens);
    forget();
    kr_mcp_peer_free(peer);
    kr_mcp_free(mcp);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    CHECK_DONE();
}

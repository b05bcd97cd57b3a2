/* GET /health and GET /ready: is it alive, what does it use, does it take runs.
 *
 * Handlers of the route table; both are open whatever the authentication. Invariant: /health says "healthy" for as
 * long as any client can ask it (a process manager restarts what does not answer; it must not restart what is busy,
 * starting or stopping), /ready says 503 whenever a run would not be taken. A figure that is not known is null. */
#include "api.h"
#include "buf.h"
#include "clock.h"
#include "route_doc.h"
#include "json.h"
#include "reply.h"
#include "server_resources.h"
#include "monitor_internal.h"
#include <stdlib.h>

#define BODY_MAX 16384u

/* ---- bodies ---- */

static void key_known(struct kr_json *j, const char *key, uint64_t value)
{
    if (value == KR_RESOURCES_UNKNOWN)
        kr_json_key_null(j, key);
    else
        kr_json_key_uint(j, key, value);
}

/* Two decimals; below zero it is not known. */
static void key_number(struct kr_json *j, const char *key, double value)
{
    if (value < 0)
        kr_json_key_null(j, key);
    else
        kr_json_key_double(j, key, (double)(uint64_t)(value * 100 + 0.5) / 100);
}

static void key_of(struct kr_json *j, const char *key, enum kr_resources_of of)
{
    kr_json_key_str(j, key, kr_resources_of_names[of]);
}

static void write_resources(struct kr_json *j, const struct kr_resources *r)
{
    kr_json_key(j, "resources");
    kr_json_object(j);
    kr_json_key(j, "memory");
    kr_json_object(j);
    key_known(j, "used_bytes", r->memory.used);
    key_known(j, "limit_bytes", r->memory.limit);
    key_of(j, "used_of", r->memory.used_of);
    key_of(j, "limit_of", r->memory.limit_of);
    kr_json_object_end(j);
    kr_json_key(j, "processes");
    kr_json_object(j);
    key_known(j, "count", r->processes.count);
    key_known(j, "limit", r->processes.limit);
    key_of(j, "count_of", r->processes.count_of);
    key_of(j, "limit_of", r->processes.limit_of);
    kr_json_object_end(j);
    kr_json_key(j, "cpu");
    kr_json_object(j);
    key_number(j, "cores", r->cpu.cores);
    key_number(j, "used_cores", r->cpu.used);
    key_of(j, "used_of", r->cpu.used_of);
    key_number(j, "load_1m", r->cpu.load[0]);
    key_number(j, "load_5m", r->cpu.load[1]);
    key_number(j, "load_15m", r->cpu.load[2]);
    kr_json_object_end(j);
    kr_json_key(j, "disk");
    kr_json_object(j);
    key_known(j, "total_bytes", r->disk.total);
    key_known(j, "used_bytes", r->disk.used);
    key_known(j, "free_bytes", r->disk.free);
    kr_json_object_end(j);
    kr_json_object_end(j);
}

/* Bodies, each one JSON object. `at_root`: with the name and the endpoints. */
static int monitor_health_json(struct kr_monitor *w, bool at_root, unsigned tag, struct kr_buf *out)
{
    const struct kr_monitor_config *c = &w->config;
    uint64_t up_ms = (kr_clock_ns() - c->started_ns) / 1000000;
    struct kr_monitor_state state = {0};
    struct kr_json j;

    c->look(c->data, &state);
    kr_json_init(&j, out);
    kr_json_object(&j);
    kr_json_key_str(&j, "status", "healthy");
    kr_json_key_str(&j, "version", c->version);
    kr_json_key_uint(&j, "active_sessions", state.active_sessions);
    kr_json_key_double(&j, "uptime", (double)up_ms / 1000);
    if (at_root) {
        kr_json_key_str(&j, "name", c->name);
        kr_json_key_str(&j, "docs", !c->has_docs || c->has_docs(c->data, tag) ? "/docs" : "disabled");
        kr_json_key_str(&j, "mcp_endpoint", c->mcp_endpoint);
        kr_json_key_str(&j, "api_endpoint", c->api_endpoint);
    }
    write_resources(&j, kr_resources_read(c->resources));
    kr_json_object_end(&j);
    return kr_json_done(&j);
}

/* 200 or 503, or -errno of the buffer. */
static int monitor_ready_json(struct kr_monitor *w, struct kr_buf *out)
{
    struct kr_monitor_state state = {0};
    struct kr_json j;
    int r;

    w->config.look(w->config.data, &state);
    kr_json_init(&j, out);
    kr_json_object(&j);
    kr_json_key_str(&j, "status",
                    state.stopping                ? "stopping"
                    : state.missing_count == 0    ? "ready"
                    : kr_monitor_is_ready(&state) ? "degraded"
                    : state.was_ready             ? "unavailable"
                                                  : "starting");
    kr_json_key(&j, "missing");
    kr_json_array(&j);
    for (unsigned i = 0; i < state.missing_count; i++) {
        kr_json_object(&j);
        kr_json_key_str(&j, "what", state.missing[i].what);
        kr_json_key_str(&j, "why", state.missing[i].why);
        kr_json_object_end(&j);
    }
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    r = kr_json_done(&j);
    return r < 0 ? r : kr_monitor_is_ready(&state) ? 200 : 503;
}

/* ---- handlers ---- */

static void answer_health(struct kr_http_ex *ex, const struct kr_api *api, bool at_root)
{
    cleanup_buf struct kr_buf body;

    kr_buf_init(&body, BODY_MAX);
    if (monitor_health_json(api->monitor, at_root, kr_http_tag(ex), &body) < 0)
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "the health does not fit");
    else
        kr_api_reply(ex, 200, &body);
}

void kr_api_health(struct kr_http_ex *ex, void *app)
{
    answer_health(ex, app, true);
}

void kr_api_health_v1(struct kr_http_ex *ex, void *app)
{
    answer_health(ex, app, false);
}

static void answer_ready(struct kr_http_ex *ex, struct kr_monitor *monitor)
{
    cleanup_buf struct kr_buf body;
    int status;

    kr_buf_init(&body, BODY_MAX);
    status = monitor_ready_json(monitor, &body);
    if (status < 0) {
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "the state does not fit");
        return;
    }
    if (status == 503)
        kr_http_set_header(ex, "Retry-After", "1");
    kr_api_reply(ex, status, &body);
}

/* A request that waits for the look. */
struct ready_ask {
    struct kr_monitor_waiter waiter;
    struct kr_monitor *monitor;
    struct kr_http_ex *ex;
};

static void on_looked(struct kr_monitor_waiter *w)
{
    struct ready_ask *ask = (struct ready_ask *)w;

    answer_ready(ask->ex, ask->monitor);
    free(ask);
}

static void on_ready_gone(void *data, struct kr_http_ex *ex)
{
    struct ready_ask *ask = data;

    (void)ex;
    ask->monitor->config.forget(ask->monitor->config.data, &ask->waiter);
    free(ask);
}

void kr_api_ready(struct kr_http_ex *ex, void *app)
{
    static const struct kr_http_calls calls = {.on_gone = on_ready_gone};
    struct kr_monitor *monitor = ((const struct kr_api *)app)->monitor;
    struct ready_ask *ask = monitor->config.refresh ? malloc(sizeof *ask) : NULL;

    if (ask)
        *ask = (struct ready_ask){.waiter = {.fn = on_looked}, .monitor = monitor, .ex = ex};
    if (ask && !monitor->config.refresh(monitor->config.data, &ask->waiter)) {
        kr_http_defer(ex, &calls, ask);
        return;
    }
    free(ask);
    answer_ready(ex, monitor);
}

/* ---- documentation ---- */

/* clang-format off */
static const char *const whose[] = {"unknown", "cgroup_v2", "cgroup_v1", "rlimit", "machine", NULL};

#define WHOSE(name_, help_) { name_, KR_API_ENUM, .choices = whose, .help = (help_), .example = "cgroup_v2" }
#define KNOWN(name_, help_, example_) { name_, KR_API_INT, .nullable = true, .help = (help_), .example = (example_) }
#define NUMBER(name_, help_, example_) { name_, KR_API_NUMBER, .nullable = true, .help = (help_), \
    .example = (example_) }

static const struct kr_api_prop memory_props[] = {
    KNOWN("used_bytes", "Memory in use, without page cache that can be dropped; null if it is not known.", "268435456"),
    KNOWN("limit_bytes", "The smallest limit that holds; null if there is none.", "4294967296"),
    WHOSE("used_of", "Whose use it is: krait's cgroup with every sandbox, or the whole machine."),
    WHOSE("limit_of", "Where the limit comes from."),
};
static const struct kr_api_prop process_props[] = {
    KNOWN("count", "Processes and threads; null if it is not known.", "42"),
    KNOWN("limit", "The smallest limit that holds; null if there is none.", "4096"),
    WHOSE("count_of", "Whose they are."),
    WHOSE("limit_of", "Where the limit comes from."),
};
static const struct kr_api_prop cpu_props[] = {
    NUMBER("cores", "Processors that may be used, by affinity and quota.", "2"),
    NUMBER("used_cores", "Processors in use since this was last asked; null the first time.", "0.75"),
    WHOSE("used_of", "Whose use it is."),
    NUMBER("load_1m", "Load of the machine, one minute.", "0.5"),
    NUMBER("load_5m", "Load of the machine, five minutes.", "0.4"),
    NUMBER("load_15m", "Load of the machine, fifteen minutes.", "0.3"),
};
static const struct kr_api_prop disk_props[] = {
    KNOWN("total_bytes", "Size of the file system that holds the data folder.", "107374182400"),
    KNOWN("used_bytes", "Bytes of it in use, by all processes.", "21474836480"),
    KNOWN("free_bytes", "Bytes that krait may still take.", "85899345920"),
};
static const struct kr_api_schema memory_schema = KR_API_SCHEMA("ResourcesMemory", "Memory.", memory_props);
static const struct kr_api_schema process_schema =
    KR_API_SCHEMA("ResourcesProcesses", "Processes and threads.", process_props);
static const struct kr_api_schema cpu_schema = KR_API_SCHEMA("ResourcesCpu", "Processors.", cpu_props);
static const struct kr_api_schema disk_schema =
    KR_API_SCHEMA("ResourcesDisk", "The disk of the data folder.", disk_props);
static const struct kr_api_prop resource_props[] = {
    { "memory", KR_API_OBJECT, .of = &memory_schema, .help = "Memory." },
    { "processes", KR_API_OBJECT, .of = &process_schema, .help = "Processes and threads." },
    { "cpu", KR_API_OBJECT, .of = &cpu_schema, .help = "Processors." },
    { "disk", KR_API_OBJECT, .of = &disk_schema, .help = "The disk of the data folder." },
};
static const struct kr_api_schema resources_schema =
    KR_API_SCHEMA("Resources", "What krait uses of the machine, at most a second old.", resource_props);

#define HEALTH_PROPS \
    { "status", KR_API_STRING, .help = "Always healthy: whatever else is the case, it answers.", \
      .example = "healthy" }, \
    { "version", KR_API_STRING, .help = "krait's version.", .example = "0.1.0" }, \
    { "active_sessions", KR_API_INT, .help = "Live sessions of all users.", .example = "3" }, \
    { "uptime", KR_API_NUMBER, .help = "Seconds since the start.", .example = "3600.25" }, \
    { "resources", KR_API_OBJECT, .of = &resources_schema, .help = "What krait uses of the machine." }

static const struct kr_api_prop health_v1_props[] = {HEALTH_PROPS};
static const struct kr_api_prop health_props[] = {
    HEALTH_PROPS,
    { "name", KR_API_STRING, .help = "The server's name.", .example = "krait" },
    { "docs", KR_API_STRING, .help = "Where the interactive page is, or disabled.", .example = "/docs" },
    { "mcp_endpoint", KR_API_STRING, .nullable = true, .help = "Where MCP is spoken; null if it is not.",
     .example = "/mcp" },
    { "api_endpoint", KR_API_STRING, .help = "Where the REST routes begin.", .example = "/api/v1" },
};
static const struct kr_api_schema health_v1_schema = KR_API_SCHEMA("Health", "The server is alive.", health_v1_props);
static const struct kr_api_schema health_schema =
    KR_API_SCHEMA("ServerHealth", "The server is alive, and where its parts are.", health_props);

static const char *const ready_words[] = {"ready", "degraded", "starting", "unavailable", "stopping", NULL};
static const struct kr_api_prop missing_props[] = {
    { "what", KR_API_STRING,
      .help = "What is not there or does not work: a zygote, `warden`, `shelf`, `disk`, `store`.",
      .example = "zygote data" },
    { "why", KR_API_STRING, .help = "What it is at, or what is wrong with it.", .example = "starting" },
};
static const struct kr_api_schema missing_schema =
    KR_API_SCHEMA("ReadyMissing", "Something that runs need and that is not there or does not work.", missing_props);
static const struct kr_api_prop ready_props[] = {
    { "status", KR_API_ENUM, .choices = ready_words,
      .help = "Whether runs are taken: `ready`, and `degraded`, without what `missing` names.", .example = "ready" },
    { "missing", KR_API_ARRAY, .of = &missing_schema, .help = "What is missing; empty when ready.", .example = "[]" },
};
static const struct kr_api_schema ready_schema = KR_API_SCHEMA("Ready", "Whether runs are taken.", ready_props);

static const struct kr_api_response health_responses[] = { { 200, .help = "It is alive.", .schema = &health_schema },
    { 0 } };
static const struct kr_api_response health_v1_responses[] = { { 200, .help = "It is alive.",
    .schema = &health_v1_schema }, { 0 } };
static const struct kr_api_header retry_headers[] = { { "Retry-After", "Seconds until it is worth asking again.", "1" },
    { NULL, NULL, NULL } };
static const struct kr_api_response ready_responses[] = {
    { 200, .help = "Runs are taken.", .schema = &ready_schema },
    { 503, .help = "Not yet, or no more: `missing` says what is not there.", .schema = &ready_schema,
     .headers = retry_headers,
      .example = "{\"status\":\"starting\",\"missing\":[{\"what\":\"zygote data\",\"why\":\"starting\"}]}" },
    { 0 },
};

const struct kr_api_doc kr_api_doc_health = {
    .id = "health", .tag = "info", .summary = "Is the server alive, and what does it use", .voice = KR_API_DOCUMENT,
    .open = true,
    .description = "For liveness probes: answers 200 for as long as the process runs, starting and stopping included. "
                   "Needs no key.",
    .responses = health_responses,
};
const struct kr_api_doc kr_api_doc_health_v1 = {
    .id = "health_v1", .tag = "info", .summary = "The same beneath the REST prefix", .voice = KR_API_DOCUMENT,
    .open = true,
    .description = "As `GET /health`, without the server's name and endpoints. Needs no key.",
    .responses = health_v1_responses,
};
const struct kr_api_doc kr_api_doc_ready = {
    .id = "ready", .tag = "info", .summary = "Are runs taken", .voice = KR_API_KRAIT, .open = true,
    .description = "For readiness probes and load balancers: 503 until every zygote is ready, while something that "
                   "runs need does not work (the warden answers, the disk has room, the store takes a write; tried at "
                   "most once a second), and from the moment the server begins to stop. Needs no key.",
    .responses = ready_responses,
};
/* clang-format on */

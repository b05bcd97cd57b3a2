/* GET /api/v1/info: the server as a client needs to know it.
 *
 * Called through the route table, for any caller with a good key. Invariants: layers are what the warden says that this
 * machine gives, and unknown (null) until it has spoken; nothing here names a path, an address or another user. */
#include "info.h"
#include "api.h"
#include "buf.h"
#include "clock.h"
#include "install.h"
#include "json.h"
#include "pages.h"
#include "reply.h"
#include "report.h"
#include "sandbox_fields.h"

/* ---- rows ---- */

/* clang-format off */
static const struct kr_api_prop layers_props[] = {
    {.name = "level", .type = KR_API_STRING, .nullable = true,
     .help = "How krait was started: `root`, `user` or `contained`.", .example = "root"},
    {.name = "layers", .type = KR_API_BOOL, .each = true,
     .help = "What holds a sandbox; false: missing on this machine.",
     .example = "{\"user_namespace\":true,\"seccomp\":true,\"landlock\":true}"},
    {.name = "cgroup", .type = KR_API_STRING, .nullable = true, .help = "`none`, `v1`, `v2` or `hybrid`.",
     .example = "v2"},
    {.name = "landlock_abi", .type = KR_API_INT, .nullable = true, .help = "0: the kernel has none.", .example = "6"},
};
static const struct kr_api_schema isolation_schema =
    KR_API_SCHEMA("Isolation", "The walls of every sandbox.", layers_props);

static const struct kr_api_prop preload_props[] = {
    {.name = "name", .type = KR_API_STRING, .help = "What a sandbox's `preload` may be.", .example = "data"},
    {.name = "state", .type = KR_API_STRING, .help = "`ready`, or why not.", .example = "ready"},
    {.name = "parked", .type = KR_API_INT, .help = "Sessions that wait to be handed out.", .example = "4"},
    {.name = "pool_size", .type = KR_API_INT, .help = "How many there should be.", .example = "4"},
};
static const struct kr_api_schema preload_schema =
    KR_API_SCHEMA("Preload", "What sessions have imported when they start.", preload_props);

static const struct kr_api_prop preloaded_props[] = {
    {.name = "template", .type = KR_API_STRING, .help = "Its name.", .example = "science"},
    {.name = "state", .type = KR_API_STRING,
     .help = "`ready`: sandboxes with its packages begin with them imported; else why not.", .example = "ready"},
    {.name = "reason", .type = KR_API_STRING, .nullable = true, .help = "Why it is absent or has failed.",
     .example = "null"},
};
static const struct kr_api_schema preloaded_schema =
    KR_API_SCHEMA("PreloadedTemplate", "A template whose packages a zygote imports.", preloaded_props);

static const struct kr_api_prop bounds_props[] = {
    {.name = "sessions", .type = KR_API_INT, .nullable = true,
     .help = "Live sessions of all users; null: as many as there is room for.", .example = "null"},
    {.name = "sessions_per_user", .type = KR_API_INT, .nullable = true, .help = "Live sessions of one user.",
     .example = "null"},
    {.name = "sandboxes_per_user", .type = KR_API_INT, .nullable = true,
     .help = "Sandboxes of one user, `default` apart.", .example = "100"},
    {.name = "runs_per_minute", .type = KR_API_INT, .nullable = true, .help = "Runs that one user may start.",
     .example = "null"},
    {.name = "queued_runs", .type = KR_API_INT, .help = "Runs that may wait on one session.", .example = "16"},
    {.name = "terminals_per_user", .type = KR_API_INT, .nullable = true,
     .help = "Terminals of one user at once; null: no bound of its own.", .example = "16"},
    {.name = "templates_per_user", .type = KR_API_INT, .nullable = true,
     .help = "Templates of one user; null: no bound.", .example = "50"},
    {.name = "disk_per_user", .type = KR_API_INT, .nullable = true, .help = "Bytes of files of one user.",
     .example = "null"},
    {.name = "body_bytes", .type = KR_API_INT, .help = "Bytes of a request.", .example = "16777216"},
    {.name = "upload_bytes", .type = KR_API_INT, .help = "Bytes of a file that is uploaded.", .example = "104857600"},
    {.name = "idle_timeout", .type = KR_API_NUMBER, .nullable = true,
     .help = "Seconds after which an idle session is ended.", .example = "14400"},
    {.name = "retention", .type = KR_API_NUMBER, .nullable = true,
     .help = "Seconds that runs are kept after their end.", .example = "604800"},
};
static const struct kr_api_schema bounds_schema =
    KR_API_SCHEMA("Bounds", "What there is at most; null: no bound.", bounds_props);

static const struct kr_api_prop features_props[] = {
    {.name = "streaming", .type = KR_API_BOOL, .help = "Output comes while code runs.", .example = "true"},
    {.name = "files", .type = KR_API_BOOL, .help = "Files can be listed, read and written.", .example = "true"},
    {.name = "auth", .type = KR_API_BOOL, .help = "A key is asked for.", .example = "false"},
    {.name = "registration", .type = KR_API_BOOL, .help = "Any client may make an account.", .example = "false"},
    {.name = "packages", .type = KR_API_BOOL, .help = "Packages can be installed.", .example = "true"},
    {.name = "egress", .type = KR_API_BOOL, .help = "A sandbox can be let out to the network.", .example = "false"},
    {.name = "mcp", .type = KR_API_BOOL, .help = "The Model Context Protocol is spoken.", .example = "false"},
};
static const struct kr_api_schema features_schema =
    KR_API_SCHEMA("Features", "What this build and this configuration can do.", features_props);

static const struct kr_api_prop endpoints_props[] = {
    {.name = "api", .type = KR_API_STRING, .help = "What all else of the API is beneath.", .example = "/api/v1"},
    {.name = "docs", .type = KR_API_STRING, .nullable = true, .help = "The page of the API; null: hidden.",
     .example = "/docs"},
    {.name = "openapi", .type = KR_API_STRING, .help = "The description of the API.", .example = "/openapi.json"},
    {.name = "health", .type = KR_API_STRING, .help = "Whether it is alive.", .example = "/health"},
    {.name = "ready", .type = KR_API_STRING, .help = "Whether it takes runs.", .example = "/ready"},
    {.name = "metrics", .type = KR_API_STRING, .help = "Figures for Prometheus.", .example = "/metrics"},
    {.name = "mcp", .type = KR_API_STRING, .nullable = true,
     .help = "The Model Context Protocol; null: not in this build.", .example = "null"},
};
static const struct kr_api_schema endpoints_schema = KR_API_SCHEMA("Endpoints", "Where things are.", endpoints_props);

static struct kr_api_prop defaults_props[KR_SANDBOX_SETTINGS_MAX];
static struct kr_api_schema defaults_schema = {.name = "SandboxDefaults",
    .help = "What holds in a sandbox that sets nothing.", .props = defaults_props};

static const struct kr_api_prop info_props[] = {
    {.name = "name", .type = KR_API_STRING, .help = "The program.", .example = "krait"},
    {.name = "version", .type = KR_API_STRING, .help = "Its version.", .example = "0.1.0"},
    {.name = "status", .type = KR_API_STRING, .help = "`running`, or `stopping`: no new runs.", .example = "running"},
    {.name = "uptime", .type = KR_API_NUMBER, .help = "Seconds since its start.", .example = "12.5"},
    {.name = "isolation", .type = KR_API_OBJECT, .of = &isolation_schema, .help = "The walls of every sandbox."},
    {.name = "defaults", .type = KR_API_OBJECT, .of = &defaults_schema,
     .help = "What holds in a sandbox that sets nothing."},
    {.name = "limits", .type = KR_API_OBJECT, .of = &kr_api_limits_schema,
     .help = "Limits of a sandbox that sets none."},
    {.name = "ceilings", .type = KR_API_OBJECT, .of = &kr_api_limits_schema, .help = "The most that may be asked for."},
    {.name = "bounds", .type = KR_API_OBJECT, .of = &bounds_schema, .help = "What there is at most."},
    {.name = "preloads", .type = KR_API_ARRAY, .of = &preload_schema, .help = "What sessions can have imported."},
    {.name = "preloaded_templates", .type = KR_API_ARRAY, .of = &preloaded_schema,
     .help = "Templates whose packages are imported beforehand, as the server's settings name them."},
    {.name = "default_preload", .type = KR_API_STRING, .help = "Of sandboxes that choose none.", .example = "data"},
    {.name = "networks", .type = KR_API_STRINGS, .help = "What a sandbox's `network` may be.",
     .example = "[\"none\",\"loopback\"]"},
    {.name = "max_network", .type = KR_API_STRING, .help = "The most that it may be, as a rule.",
     .example = "index"},
    {.name = "default_network", .type = KR_API_STRING, .help = "Of sandboxes that choose none.", .example = "none"},
    {.name = "mounts", .type = KR_API_STRINGS, .help = "Data sets that a sandbox's `mounts` may name.",
     .example = "[]"},
    {.name = "dialect", .type = KR_API_STRING, .help = "Whose defaults this listener has.", .example = "krait"},
    {.name = "dialects", .type = KR_API_STRINGS, .help = "All that this build knows.",
     .example = "[\"krait\",\"sandbox-mcp\"]"},
    {.name = "features", .type = KR_API_OBJECT, .of = &features_schema, .help = "What it can do."},
    {.name = "endpoints", .type = KR_API_OBJECT, .of = &endpoints_schema, .help = "Where things are."},
};
static const struct kr_api_schema info_schema = KR_API_SCHEMA("Info", "What this server is and can do.", info_props);
static const struct kr_api_response info_ok[] = {{200, "The server.", NULL, &info_schema, NULL, NULL}, {0}};
const struct kr_api_doc kr_api_info_doc = {.id = "read_info", .tag = "info",
    .summary = "Read what this server is and can do",
    .voice = KR_API_KRAIT, .needs = KR_RIGHT_READ, .responses = info_ok};
/* clang-format on */

__attribute__((constructor)) static void derive_defaults_schema(void)
{
    kr_api_settings_props(defaults_props, &defaults_schema.count);
}

/* ---- parts ---- */

static void write_layers(struct kr_json *j, const struct kr_api_config *c, const struct kr_holder_info *hello)
{
    kr_json_key(j, "layers");
    kr_json_object(j);
    for (size_t i = 0; hello && i < c->layer_count; i++)
        if (c->layer_names[i])
            kr_json_key_bool(j, c->layer_names[i], hello->layers & 1u << i);
    kr_json_object_end(j);
}

static void write_isolation(struct kr_json *j, const struct kr_api *api)
{
    static const char *const cgroups[] = {"none", "v1", "v2", "hybrid"};
    const struct kr_holder_info *hello = kr_engine_info(kr_box_engine(api->box));
    const struct kr_api_config *c = &api->config;

    kr_json_key(j, "isolation");
    kr_json_object(j);
    kr_json_key_str(j, "level",
                    hello && c->level_names && hello->level < KR_LEVEL_MAX_ ? c->level_names[hello->level] : NULL);
    write_layers(j, c, hello);
    kr_json_key_str(j, "cgroup",
                    hello && hello->cgroup_kind < sizeof cgroups / sizeof *cgroups ? cgroups[hello->cgroup_kind]
                                                                                   : NULL);
    if (hello)
        kr_json_key_uint(j, "landlock_abi", hello->landlock_abi);
    else
        kr_json_key_null(j, "landlock_abi");
    kr_json_object_end(j);
}

/* 0 is no bound. */
static void key_bound(struct kr_json *j, const char *key, uint64_t value)
{
    if (value)
        kr_json_key_uint(j, key, value);
    else
        kr_json_key_null(j, key);
}

static void key_seconds(struct kr_json *j, const char *key, uint64_t ms)
{
    if (ms)
        kr_json_key_double(j, key, (double)ms / 1000);
    else
        kr_json_key_null(j, key);
}

static void write_bounds(struct kr_json *j, const struct kr_api *api, const struct kr_profile *p)
{
    const struct kr_box_config *b = kr_box_config(api->box);

    kr_json_key(j, "bounds");
    kr_json_object(j);
    key_bound(j, "sessions", p->max_sessions ? p->max_sessions : b->max_sessions);
    key_bound(j, "sessions_per_user", b->max_sessions_per_user);
    key_bound(j, "sandboxes_per_user", p->max_sandboxes_per_user);
    key_bound(j, "templates_per_user", b->max_templates_per_user);
    key_bound(j, "terminals_per_user", b->max_terminals_per_user);
    key_bound(j, "runs_per_minute", b->runs_per_minute);
    kr_json_key_uint(j, "queued_runs", b->queue_max);
    key_bound(j, "disk_per_user", b->max_disk_per_user);
    kr_json_key_uint(j, "body_bytes", api->config.max_body);
    kr_json_key_uint(j, "upload_bytes", api->config.max_upload);
    key_seconds(j, "idle_timeout", p->idle_timeout_ms);
    key_seconds(j, "retention", b->retention_ms);
    kr_json_object_end(j);
}

static void write_preloads(struct kr_json *j, const struct kr_engine *engine)
{
    kr_json_key(j, "preloads");
    kr_json_array(j);
    for (size_t i = 0; i < kr_engine_zygote_count(engine); i++) {
        struct kr_engine_zygote z = kr_engine_zygote(engine, i);

        kr_json_object(j);
        kr_json_key_str(j, "name", kr_preload_names[z.preload]);
        kr_json_key_str(j, "state", kr_zygote_state_names[z.state]);
        kr_json_key_uint(j, "parked", z.parked);
        kr_json_key_uint(j, "pool_size", z.pool_size);
        kr_json_object_end(j);
    }
    kr_json_array_end(j);
}

static void write_preloaded(struct kr_json *j, const struct kr_box *box)
{
    kr_json_key(j, "preloaded_templates");
    kr_json_array(j);
    for (size_t i = 0; i < kr_box_preload_count(box); i++) {
        struct kr_box_preload p;

        kr_box_preload_get(box, i, &p);
        kr_json_object(j);
        kr_json_key_str(j, "template", p.template);
        kr_json_key_str(j, "state", p.state);
        if (p.why)
            kr_json_key_str(j, "reason", p.why);
        else
            kr_json_key_null(j, "reason");
        kr_json_object_end(j);
    }
    kr_json_array_end(j);
}

static void key_names(struct kr_json *j, const char *key, const char *const *names, size_t count)
{
    kr_json_key(j, key);
    kr_json_array(j);
    for (size_t i = 0; i < count; i++)
        kr_json_str(j, names[i]);
    kr_json_array_end(j);
}

static void write_offers(struct kr_json *j, const struct kr_api *api, const struct kr_profile *p)
{
    const struct kr_box_config *b = kr_box_config(api->box);
    char network[KR_NET_RULE_ROOM];

    write_preloads(j, kr_box_engine(api->box));
    write_preloaded(j, api->box);
    kr_json_key_str(j, "default_preload", kr_preload_names[b->preload]);
    key_names(j, "networks", kr_net_kind_names, (size_t)b->max_network.kind + 1);
    kr_json_key_str(j, "max_network", kr_net_rule_text(&b->max_network, network, sizeof network));
    kr_json_key_str(j, "default_network", kr_net_rule_text(&b->network, network, sizeof network));
    key_names(j, "mounts", b->mounts, b->mount_count);
    kr_json_key_str(j, "dialect", kr_dialect_names[p->dialect]);
    key_names(j, "dialects", kr_dialect_names, KR_DIALECT_MAX_);
}

static void write_features(struct kr_json *j, const struct kr_api *api, const struct kr_profile *p)
{
    kr_json_key(j, "features");
    kr_json_object(j);
    kr_json_key_bool(j, "streaming", true);
    kr_json_key_bool(j, "files", true);
    kr_json_key_bool(j, "auth", api->config.auth);
    kr_json_key_bool(j, "registration", p->allow_registration);
    kr_json_key_bool(j, "packages", api->install && kr_install_is_on(api->install));
    kr_json_key_bool(j, "egress", false);
    kr_json_key_bool(j, "mcp", true);
    kr_json_object_end(j);
}

static void write_endpoints(struct kr_json *j, const struct kr_api *api, unsigned tag)
{
    kr_json_key(j, "endpoints");
    kr_json_object(j);
    kr_json_key_str(j, "api", KR_API_ENDPOINT);
    kr_json_key_str(j, "docs", kr_api_has_docs(api, tag) ? "/docs" : NULL);
    kr_json_key_str(j, "openapi", "/openapi.json");
    kr_json_key_str(j, "health", "/health");
    kr_json_key_str(j, "ready", "/ready");
    kr_json_key_str(j, "metrics", "/metrics");
    kr_json_key_str(j, "mcp", KR_API_MCP_ENDPOINT);
    kr_json_object_end(j);
}

static void write_defaults(struct kr_json *j, const struct kr_api *api, const struct kr_caller *who)
{
    struct kr_sandbox s = {0};

    kr_box_sandbox_defaults(api->box, who, &s);
    kr_json_key(j, "defaults");
    kr_json_object(j);
    kr_sandbox_settings_tell(j, &s);
    kr_json_object_end(j);
    kr_json_key(j, "limits");
    kr_report_limits(j, &s.limits);
}

/* ---- the handler ---- */

void kr_api_info(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    const struct kr_profile *p = kr_api_profile(api, ex);
    uint64_t uptime_ms = (kr_clock_ns() - api->started_ns) / 1000000;
    cleanup_buf struct kr_buf buf;
    struct kr_api_who who;
    struct kr_json j;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    if (!kr_api_caller(api, ex, &who))
        return;
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    kr_json_key_str(&j, "name", KR_API_NAME);
    kr_json_key_str(&j, "version", api->config.version);
    kr_json_key_str(&j, "status", kr_box_stopping(api->box) ? "stopping" : "running");
    kr_json_key_double(&j, "uptime", (double)uptime_ms / 1000);
    write_isolation(&j, api);
    write_defaults(&j, api, &who.caller);
    kr_json_key(&j, "ceilings");
    kr_report_limits(&j, &p->ceilings);
    write_bounds(&j, api, p);
    write_offers(&j, api, p);
    write_features(&j, api, p);
    write_endpoints(&j, api, kr_http_tag(ex));
    kr_json_object_end(&j);
    kr_api_reply(ex, 200, &buf);
}

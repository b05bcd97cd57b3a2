/* get_sandbox_info: what holds a sandbox, what is in it, what may be asked of it. Called through THE table of tools.
 *
 * Layers and limits are the warden's and the domain's word; disk use is measured on the thread pool; the Python version
 * and the packages are what a short run in the sandbox finds, since only there it is true. A caller who may not run
 * code, and a sandbox that cannot run any, gets null for those two and the reason. */
#include "api.h"
#include "buf.h"
#include "clock.h"
#include "err.h"
#include "exec.h"
#include "mcp_fileop.h"
#include "json.h"
#include "report.h"
#include "sandbox_fields.h"
#include "tool_rows.h"
#include "measure.h"
#include <stdlib.h>
#include <string.h>

#define PROBE_MS 20000u
#define PACKAGES_MAX 1000u
#define USAGE_MS 1000u
#define USAGE_ENTRIES 100000u

/* Prints one object. In a session of its own, which has no variables of the user's. */
static const char probe[] = "import json, sys\n"
                            "from importlib import metadata\n"
                            "found = {}\n"
                            "for one in metadata.distributions():\n"
                            "    try:\n"
                            "        found.setdefault(str(one.metadata['Name']), str(one.version))\n"
                            "    except Exception:\n"
                            "        pass\n"
                            "print(json.dumps({'version': sys.version.split()[0],\n"
                            "                  'packages': sorted(found.items(), key=lambda p: p[0].lower())}))\n";

struct info_args {
    const char *sandbox;
};

/* clang-format off */
static const struct kr_api_field info_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct info_args, sandbox), .nullable = true,
     KR_API_LENGTH(0, 64), .aliases = (const char *const[]){"sandbox", NULL},
     .help = "Id or name; else `default`.", .example = "default"},
};
static const struct kr_api_table info_table = KR_API_TABLE("SandboxInfoInput", "Which sandbox.", info_fields,
    struct info_args);

static struct kr_api_prop info_props[10 + KR_SANDBOX_SETTINGS_MAX] = {
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "The sandbox.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "name", .type = KR_API_STRING, .help = "Its name.", .example = "default"},
    {.name = "python", .type = KR_API_STRING, .nullable = true, .help = "The interpreter's version.",
     .example = "3.11.2"},
    {.name = "workspace", .type = KR_API_STRING, .help = "Where its files are, as its code sees it.",
     .example = "/workspace"},
    {.name = "ceilings", .type = KR_API_OBJECT, .help = "The most that may be asked for.",
     .example = "{\"memory\":1073741824}"},
    {.name = "disk", .type = KR_API_OBJECT, .help = "Bytes and entries of its files.",
     .example = "{\"bytes\":4096,\"entries\":1,\"incomplete\":false}"},
    {.name = "isolation", .type = KR_API_OBJECT,
     .help = "What holds it: level, layers (false: missing on this machine).",
     .example = "{\"level\":\"root\",\"layers\":{}}"},
    {.name = "sessions", .type = KR_API_ARRAY, .help = "Its live sessions.", .example = "[]"},
    {.name = "packages", .type = KR_API_ARRAY, .nullable = true, .help = "What is installed: name and version.",
     .example = "[{\"name\":\"numpy\",\"version\":\"1.24.2\"}]"},
    {.name = "note", .type = KR_API_STRING, .optional = true, .help = "Why something is not known.",
     .example = "this key may not run code"},
};
static struct kr_api_schema info_schema = {.name = "SandboxInfoOutput", .help = "A sandbox, and what holds it.",
    .props = info_props, .count = 10};
/* clang-format on */

__attribute__((constructor)) static void derive_info_schema(void)
{
    kr_api_settings_props(info_props, &info_schema.count);
}

struct looking {
    struct kr_fileop op;
    struct kr_measure usage;
};

/* ---- parts ---- */

static json_t *limits_value(const struct kr_limits *limits)
{
    cleanup_buf struct kr_buf buf = {0};
    struct kr_json j;

    kr_buf_init(&buf, 65536);
    kr_json_init(&j, &buf);
    kr_report_limits(&j, limits);
    return kr_json_done(&j) < 0 ? NULL : json_loadb(buf.data, buf.len, 0, NULL);
}

static json_t *isolation_value(const struct kr_api *api)
{
    static const char *const cgroups[] = {"none", "v1", "v2", "hybrid"};
    const struct kr_holder_info *hello = kr_engine_info(kr_box_engine(api->box));
    const struct kr_api_config *config = &api->config;
    json_t *value = json_object(), *layers = json_object();

    for (size_t i = 0; hello && i < config->layer_count; i++)
        if (config->layer_names[i])
            json_object_set_new(layers, config->layer_names[i], json_boolean(hello->layers & 1u << i));
    json_object_set_new(value, "level",
                        hello && config->level_names && hello->level < KR_LEVEL_MAX_
                            ? json_string(config->level_names[hello->level])
                            : json_null());
    json_object_set_new(value, "layers", layers);
    json_object_set_new(value, "cgroup",
                        hello && hello->cgroup_kind < sizeof cgroups / sizeof *cgroups
                            ? json_string(cgroups[hello->cgroup_kind])
                            : json_null());
    json_object_set_new(value, "landlock_abi", hello ? json_integer(hello->landlock_abi) : json_null());
    return value;
}

static void on_info_session(void *data, const struct kr_box_session_info *info)
{
    json_array_append_new(data, kr_mcp_session_value(info));
}

/* What holds of the sandbox's settings. */
static json_t *settings_value(const struct kr_sandbox *s)
{
    cleanup_buf struct kr_buf buf = {0};
    struct kr_json j;

    kr_buf_init(&buf, 65536);
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    kr_sandbox_settings_tell(&j, s);
    kr_json_object_end(&j);
    return kr_json_done(&j) < 0 ? NULL : json_loadb(buf.data, buf.len, 0, NULL);
}

/* All but what the probe finds. */
static json_t *info_value(const struct looking *l)
{
    const struct kr_sandbox *s = &l->op.sandbox;
    const struct kr_api *api = kr_file_api(&l->op);
    json_t *sessions = json_array(), *settings = settings_value(s), *value, *rest;

    kr_box_sessions(api->box, &l->op.who, s->row.id, on_info_session, sessions);
    value = json_pack("{s:s, s:s, s:n, s:s}", "sandbox_id", s->row.id, "name", s->row.name, "python", "workspace",
                      "/workspace");
    rest = json_pack("{s:o, s:{s:I, s:I, s:b}, s:o, s:o, s:n}", "ceilings",
                     limits_value(&kr_box_profile(api->box, &l->op.who)->ceilings), "disk", "bytes",
                     (json_int_t)l->usage.bytes, "entries", (json_int_t)l->usage.entries, "incomplete",
                     l->usage.gap != KR_MEASURE_WHOLE, "isolation", isolation_value(api), "sessions", sessions,
                     "packages");
    if (json_object_update(value, settings) < 0 || json_object_update(value, rest) < 0) {
        json_decref(value);
        value = NULL;
    }
    json_decref(settings);
    json_decref(rest);
    return value;
}

/* What the probe printed, or NULL: it failed, or code in the sandbox's files made it print something else. */
static json_t *read_probe(const struct kr_mcp_outcome *o)
{
    json_t *found =
        o->cause == KR_CAUSE_OK ? json_loadb(kr_buf_str(&o->out), o->out.len, JSON_DISABLE_EOF_CHECK, NULL) : NULL;

    if (json_is_string(json_object_get(found, "version")) && json_is_array(json_object_get(found, "packages")))
        return found;
    json_decref(found);
    return NULL;
}

static json_t *packages_value(const json_t *pairs)
{
    json_t *list = json_array(), *pair;
    size_t i;

    json_array_foreach(pairs, i, pair)
    {
        const char *name = json_string_value(json_array_get(pair, 0));
        const char *version = json_string_value(json_array_get(pair, 1));

        if (name && version && json_array_size(list) < PACKAGES_MAX)
            json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "version", version));
    }
    return list;
}

/* ---- ours ---- */

/* As JSON whose packages are one line, which is how much room they deserve. */
static void answer_info(struct kr_mcp_call *c, json_t *value)
{
    struct kr_mcp_result r;

    if (!value) {
        kr_mcp_tool_refuse(c, "out of memory");
        return;
    }
    kr_mcp_result_init(&r);
    kr_mcp_add_json(&r, value, 0);
    r.structured = value;
    kr_mcp_tool_done(c, &r);
}

static void render_sandbox_info(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    json_t *value = json_incref(data), *found = read_probe(o);

    if (found) {
        json_object_set(value, "python", json_object_get(found, "version"));
        json_object_set_new(value, "packages", packages_value(json_object_get(found, "packages")));
    } else {
        json_object_set_new(value, "note", json_string("code that looks for packages did not run to its end there"));
    }
    json_decref(found);
    answer_info(c, value);
}

static void free_value(void *value)
{
    json_decref(value);
}

static void run_probe(struct kr_mcp_call *c, const char *sandbox,
                      void (*render)(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data), json_t *value)
{
    struct kr_mcp_run_spec spec = {
        .spec = {.sandbox = sandbox,
                 .fresh = true,
                 .code = {probe, sizeof probe - 1},
                 .own_code = true,
                 .input = {"", 0},
                 .timeout_ms = PROBE_MS},
        .render = render,
        .free_data = free_value,
        .data = value,
    };

    kr_mcp_run(c, &spec);
}

static void look_at_workspace(struct kr_fileop *op)
{
    struct kr_measure_max max = {.entries = USAGE_ENTRIES, .deadline_ns = kr_clock_after_ms(USAGE_MS)};

    op->r = kr_files_usage(op->ws, "", &max, &((struct looking *)op)->usage, &op->err);
}

static void on_workspace_looked(struct kr_fileop *op)
{
    struct looking *l = (struct looking *)op;
    struct kr_mcp_call *c = kr_mcp_fileop_take(op);
    char sandbox[KR_STORE_ID_ROOM];
    json_t *value;

    if (op->r < 0) {
        kr_mcp_tool_fail(c, &op->err);
        kr_fileop_end(op);
        return;
    }
    value = info_value(l);
    memcpy(sandbox, op->sandbox.row.id, sizeof sandbox);
    if (!value || !(op->who.rights & KR_RIGHT_RUN)) {
        json_object_set_new(value, "note", json_string("packages are found by running code, which this key may not"));
        answer_info(c, value);
    } else {
        run_probe(c, sandbox, render_sandbox_info, value);
    }
    kr_fileop_end(op);
}

static void run_sandbox_info(struct kr_mcp_call *c, const void *args)
{
    static const struct kr_fileop_kind kind = {.size = sizeof(struct looking)};
    const struct info_args *a = args;
    struct kr_err err;
    struct looking *l = kr_mcp_fileop_new(c, &kind, &err);

    if (!l) {
        kr_mcp_tool_fail(c, &err);
    } else if (kr_mcp_fileop_place(&l->op, a->sandbox, "", false) < 0) {
        kr_mcp_tool_fail(kr_mcp_fileop_take(&l->op), &l->op.err);
        kr_fileop_end(&l->op);
    } else {
        kr_fileop_run(&l->op, look_at_workspace, on_workspace_looked);
    }
}

const struct kr_mcp_tool kr_tool_get_sandbox_info = {
    .name = "get_sandbox_info",
    .title = "Sandbox info",
    .description = "Tells of a sandbox: Python, packages, limits, network, sessions, disk use.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT | KR_TOOL_CORE,
    .needs = KR_RIGHT_READ,
    .input = &info_table,
    .output = &info_schema,
    .run = run_sandbox_info,
};

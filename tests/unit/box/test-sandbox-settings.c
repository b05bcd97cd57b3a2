/* The table of sandbox settings: every row is complete, and is in all that is derived from it: the settings' JSON, the
 * fields of REST, OpenAPI, the tools' schemas, the reference page. Bad values are refused by an error that names the
 * setting. */
#include "api.h"
#include "buf.h"
#include "check.h"
#include "err.h"
#include "json.h"
#include "openapi.h"
#include "package_env.h"
#include "route_doc.h"
#include "sandbox_fields.h"
#include "tool_rows.h"
#include "tool_schema.h"
#include <errno.h>
#include <stddef.h>

static const char *const mounts[] = {"census", "maps"};
static struct kr_box_config config = {
    .max_network = {.kind = KR_NET_LOOPBACK}, .preload = KR_PRELOAD_DATA, .mounts = mounts, .mount_count = 2};
static struct kr_profile profile;
static const struct kr_setting_server server = {
    .config = &config, .profile = &profile, .preloads = 1u << KR_PRELOAD_DATA};

#define FOR_ROWS(row)                                                                                                  \
    for (const struct kr_sandbox_setting *row = kr_sandbox_settings;                                                   \
         row < kr_sandbox_settings + kr_sandbox_settings_count; row++)

static bool is_text(const struct kr_sandbox_setting *row)
{
    return row->type == KR_SETTING_WORD || row->type == KR_SETTING_RULE;
}

static json_t *example_of(const struct kr_sandbox_setting *row)
{
    return is_text(row) ? json_string(row->example) : json_loads(row->example, 0, NULL);
}

/* Of the right JSON type, and wrong. */
static json_t *wrong_of(const struct kr_sandbox_setting *row)
{
    switch (row->type) {
    case KR_SETTING_LIMITS:
        return json_pack("{s:s}", "memory", "900T");
    case KR_SETTING_TEXTS:
        return json_pack("{s:s}", "KRAIT_X", "1");
    case KR_SETTING_NAMES:
        return json_pack("[s]", "no-such-name");
    case KR_SETTING_WORD:
    case KR_SETTING_RULE:
    case KR_SETTING_TYPE_MAX_:
        break;
    }
    return json_string("no-such-word");
}

static json_t *written(const json_t *settings)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, 65536);
    kr_json_init(&j, &buf);
    kr_sandbox_settings_json(&j, settings);
    return kr_json_done(&j) < 0 ? NULL : json_loadb(buf.data, buf.len, 0, NULL);
}

static const struct kr_api_field *field_of(const struct kr_api_table *table, const char *name)
{
    for (size_t i = 0; table && i < table->count; i++)
        if (strcmp(table->fields[i].name, name) == 0)
            return &table->fields[i];
    return NULL;
}

static const struct kr_api_table *body_of(const char *doc)
{
    for (size_t i = 0; i < kr_api_routes_count; i++) {
        const struct kr_api_doc *d = kr_api_routes[i].doc;

        if (strcmp(d->id, doc) == 0)
            return d->body;
    }
    return NULL;
}

/* ---- the rows ---- */

static void rows_are_complete(void)
{
    CHECK(kr_sandbox_settings_count >= 5 && kr_sandbox_settings_count <= KR_SANDBOX_SETTINGS_MAX);
    FOR_ROWS(row)
    {
        CHECK(row->name && row->apply && row->bound && row->help && row->example);
        CHECK(row->help[strlen(row->help) - 1] == '.');
        CHECK(row->type == KR_SETTING_NAMES || (row->type == KR_SETTING_WORD) == (row->words != NULL));
        for (const struct kr_sandbox_setting *other = kr_sandbox_settings; other < row; other++)
            CHECK(strcmp(other->name, row->name) != 0);
        CHECK(row->merge == KR_SETTING_REPLACES || row->type == KR_SETTING_LIMITS || row->type == KR_SETTING_TEXTS);
    }
}

/* That it is there is all that settings ask. */
static void have_egress(bool there)
{
    static const struct kr_package_python python;
    static char something;

    config.egress = there ? (struct kr_egress *)(void *)&something : NULL;
    config.ca_bundle = there ? "certificates" : NULL;
    config.python = there ? &python : NULL;
}

static bool is_taken(const char *text, const char *why)
{
    json_t *settings = json_loads(text, 0, NULL);
    struct kr_sandbox s = {0};
    struct kr_err err = {0};
    int r = kr_sandbox_settings_apply(&server, settings, &s, &err);

    json_decref(settings);
    return why ? r < 0 && strstr(err.msg, why) : r == 0;
}

static void secrets_need_what_puts_them_in(void)
{
    CHECK(is_taken("{\"secrets\": {}, \"secrets_tls\": \"no\"}", NULL));
    CHECK(is_taken("{\"secrets\": {\"A\": \"a\"}}", "no egress process") &&
          is_taken("{\"secrets_tls\": \"yes\"}", "no certificate authority"));
    have_egress(true);
    CHECK(is_taken("{\"secrets\": {\"A\": \"a\"}, \"secrets_tls\": \"yes\"}", NULL));
    CHECK(is_taken("{\"secrets\": {\"KRAIT_A\": \"a\"}}", "KRAIT_A") &&
          is_taken("{\"secrets\": {\"A\": 5}}", "secrets.A") && is_taken("{\"secrets\": {\"A=\": \"a\"}}", "A=") &&
          is_taken("{\"secrets\": {\"A\": \"a b\"}}", "secrets.A"));
    CHECK(is_taken("{\"secrets\": {\"A\":\"a\",\"B\":\"a\",\"C\":\"a\",\"D\":\"a\",\"E\":\"a\",\"F\":\"a\",\"G\":\"a\","
                   "\"H\":\"a\",\"I\":\"a\"}}",
                   "at most 8"));
    have_egress(false);
}

static void examples_make_a_round_trip(void)
{
    have_egress(true);
    FOR_ROWS(row)
    {
        json_t *settings = json_object(), *changes = json_object(), *shown, *value = example_of(row);
        struct kr_sandbox s = {0};
        struct kr_err err = {0};

        CHECK(value && json_object_set(changes, row->name, value) == 0);
        CHECK(kr_sandbox_settings_change(settings, changes) == 0 && json_equal(settings, changes));
        if (kr_sandbox_settings_apply(&server, settings, &s, &err) < 0)
            printf("FAIL %s: %s: %s\n", __func__, row->name, err.msg);
        CHECK(kr_sandbox_settings_apply(&server, settings, &s, &err) == 0);
        shown = written(settings);
        CHECK(shown && json_object_get(shown, row->name));
        CHECK(json_equal(shown, settings) == !row->secret);
        CHECK(json_object_size(json_object_get(shown, row->name)) == json_object_size(value));
        json_object_set_new(changes, row->name, json_null());
        CHECK(kr_sandbox_settings_change(settings, changes) == 0 && json_object_size(settings) == 0);
        json_decref(value), json_decref(shown), json_decref(settings), json_decref(changes);
    }
    have_egress(false);
}

static void changes_join_or_replace(void)
{
    json_t *settings = json_pack("{s:{s:s, s:i}, s:[s]}", "limits", "memory", "64M", "timeout", 5, "mounts", "census");
    json_t *changes = json_pack("{s:{s:n, s:i}, s:[s]}", "limits", "memory", "inodes", 99, "mounts", "maps");
    json_t *expected = json_pack("{s:{s:i, s:i}, s:[s]}", "limits", "timeout", 5, "inodes", 99, "mounts", "maps");

    CHECK(kr_sandbox_settings_change(settings, changes) == 0 && json_equal(settings, expected));
    json_decref(settings), json_decref(changes), json_decref(expected);
}

static bool is_refused(const struct kr_sandbox_setting *row, json_t *value)
{
    json_t *settings = json_pack("{s:o}", row->name, value);
    struct kr_sandbox s = {0};
    struct kr_err err = {0};
    int r = kr_sandbox_settings_apply(&server, settings, &s, &err);
    bool is_named = strncmp(err.msg, row->name, strlen(row->name)) == 0 && strchr(":.", err.msg[strlen(row->name)]);

    if (r >= 0 || !is_named)
        printf("FAIL %s: %s: %d \"%s\"\n", __func__, row->name, r, err.msg);
    json_decref(settings);
    return r < 0 && is_named;
}

static void bad_values_are_refused_by_name(void)
{
    json_t *unknown = json_pack("{s:s}", "colour", "green");
    struct kr_sandbox s = {0};
    struct kr_err err = {0};

    FOR_ROWS(row)
    {
        CHECK(is_refused(row, wrong_of(row)));
        CHECK(is_refused(row, json_integer(5)));
        CHECK(is_refused(row, json_null()));
    }
    CHECK(kr_sandbox_settings_apply(&server, unknown, &s, &err) < 0 && strncmp(err.msg, "colour:", 7) == 0);
    json_decref(unknown);
}

static int ask_network(const char *most, const char *text, struct kr_sandbox *s, struct kr_err *err)
{
    json_t *settings = json_pack("{s:s}", "network", text);
    int r;

    if (kr_net_rule_parse(most, &config.max_network, err) < 0)
        return 0;
    r = kr_sandbox_settings_apply(&server, settings, s, err);
    json_decref(settings);
    return r;
}

/* A sandbox may ask for more than the server allows, and the error names the server's setting and its value. */
static void a_network_past_the_ceiling_is_refused(void)
{
    static const struct {
        const char *most, *asked;
        bool allowed;
    } rows[] = {
        {"none", "none", true},
        {"none", "loopback", false},
        {"loopback", "loopback", true},
        {"loopback", "index", false},
        {"loopback", "allow:example.com", false},
        {"index", "index", true},
        {"index", "open", false},
        {"allow:pypi.org,*.example.com", "allow:pypi.org", true},
        {"allow:pypi.org,*.example.com", "allow:a.example.com", true},
        {"allow:pypi.org,*.example.com", "allow:example.org", false},
        {"allow:pypi.org", "open", false},
        {"open", "allow:example.org", true},
        {"open", "open", true},
    };
    struct kr_sandbox s = {0};
    struct kr_err err = {0};
    char text[200];

    config.egress = (struct kr_egress *)&config; /* there is one */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int r = ask_network(rows[i].most, rows[i].asked, &s, &err);

        CHECK((r >= 0) == rows[i].allowed);
        snprintf(text, sizeof text, "network: %s is more than this server allows: the server's max_network is %s",
                 rows[i].asked, rows[i].most);
        CHECK(r >= 0 || (r == -ERANGE && err.kind == KR_ERR_INVALID && strcmp(err.msg, text) == 0));
    }
    CHECK(ask_network("loopback", "everything", &s, &err) < 0 && strstr(err.msg, "network: \"everything\""));
    config.egress = NULL;
    CHECK(ask_network("open", "index", &s, &err) < 0 && strstr(err.msg, "no egress process"));
    CHECK(ask_network("open", "loopback", &s, &err) >= 0);
}

/* ---- what is derived ---- */

static void rest_has_every_row(void)
{
    const struct kr_api_table *create = body_of("create_sandbox"), *change = body_of("change_sandbox");
    union {
        max_align_t align;
        char room[8192];
    } request;

    CHECK(create && change && create->size <= sizeof request && change->size <= sizeof request);
    FOR_ROWS(row)
    {
        cleanup_input struct kr_api_input in, bad;
        json_t *body = json_pack("{s:o}", row->name, example_of(row)), *kept;
        struct kr_err err = {0};
        char text[128];

        kr_api_input_init(&in, KR_API_KRAIT);
        kr_api_input_init(&bad, KR_API_KRAIT);
        CHECK(field_of(create, row->name) && field_of(change, row->name));
        if (kr_api_parse_object(create, body, &request, &in, &err) < 0)
            printf("FAIL %s: %s: %s\n", __func__, row->name, err.msg);
        CHECK(!err.msg[0]);
        kept = kr_api_settings_of_body(body, false);
        CHECK(json_equal(kept, body));
        snprintf(text, sizeof text, "{\"%s\": 5}", row->name);
        CHECK(kr_api_parse_body(create, text, strlen(text), &request, &bad, &err) < 0);
        CHECK(strcmp(bad.field, row->name) == 0);
        json_decref(body), json_decref(kept);
    }
}

static void the_tool_has_every_row_but_those_of_rest(void)
{
    const struct kr_api_table *input = kr_tool_create_sandbox.input;
    json_t *schema = kr_mcp_input_schema(input, true);
    union {
        max_align_t align;
        char room[8192];
    } request;

    CHECK(schema && input->size <= sizeof request);
    FOR_ROWS(row)
    {
        const struct kr_api_field *f = field_of(input, row->name);
        cleanup_input struct kr_api_input in;
        json_t *arguments = json_pack("{s:o}", row->name, example_of(row)), *kept;
        size_t first = field_of(input, kr_sandbox_settings[0].name)->offset;
        struct kr_err err = {0};

        kr_api_input_init(&in, KR_API_KRAIT);
        CHECK((json_object_get(json_object_get(schema, "properties"), row->name) == NULL) ==
              (row->rest_only || row->unlisted));
        if (row->rest_only) {
            CHECK(!f);
            json_decref(arguments);
            continue;
        }
        CHECK(f);
        CHECK(kr_api_parse_object(input, arguments, &request, &in, &err) == 0);
        kept = kr_api_settings_of_args((const union kr_api_setting *)(const void *)(request.room + first));
        CHECK(json_equal(kept, arguments));
        json_decref(arguments), json_decref(kept);
    }
    json_decref(schema);
}

static bool has_prop(const struct kr_api_schema *schema, const char *name)
{
    for (size_t i = 0; i < schema->count; i++)
        if (strcmp(schema->props[i].name, name) == 0)
            return true;
    return false;
}

static void what_holds_is_told(void)
{
    FOR_ROWS(row)
    {
        CHECK(has_prop(kr_tool_create_sandbox.output, row->name) == (row->tell != NULL));
        CHECK(has_prop(kr_tool_get_sandbox_info.output, row->name) == (row->tell != NULL));
        CHECK(has_prop(&kr_api_settings_schema, row->name));
    }
}

static void openapi_has_every_row(void)
{
    struct kr_api_openapi about = {.version = "1", .auth = true};
    cleanup_buf struct kr_buf out;
    struct kr_err err = {0};
    json_t *doc, *schemas;

    kr_buf_init(&out, KR_API_OPENAPI_MAX);
    CHECK(kr_api_openapi_write(kr_api_routes, kr_api_routes_count, &about, &out, &err) == 0);
    doc = json_loadb(out.data, out.len, 0, NULL);
    schemas = json_object_get(json_object_get(doc, "components"), "schemas");
    FOR_ROWS(row)
    {
        static const char *const all[] = {"SandboxRequest", "SandboxSet"}, *const told[] = {"Sandbox",
                                                                                            "SandboxDefaults"};

        for (size_t i = 0; i < 2; i++) {
            json_t *whole = json_object_get(json_object_get(schemas, all[i]), "properties");
            json_t *part = json_object_get(json_object_get(schemas, told[i]), "properties");

            CHECK(json_object_get(whole, row->name) && json_is_object(part));
            CHECK((json_object_get(part, row->name) != NULL) == (row->tell != NULL));
        }
    }
    json_decref(doc);
}

static void the_page_has_every_row(void)
{
    char *text = NULL, cell[64];
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    CHECK(out);
    kr_sandbox_settings_dump(out);
    CHECK(fclose(out) == 0);
    FOR_ROWS(row)
    {
        snprintf(cell, sizeof cell, "\n| `%s` | ", row->name);
        CHECK(strstr(text, cell) && strstr(text, row->help) && strstr(text, row->example) && strstr(text, row->bound));
    }
    free(text);
}

/* The fields of a run that a row names are there; a row that names none has no field of its name. */
static void runs_change_what_the_rows_say(void)
{
    const struct kr_api_table *run = body_of("create_run");

    CHECK(run);
    FOR_ROWS(row)
    {
        const char *at = row->run_fields;

        CHECK(at || !field_of(run, row->name));
        while (at && *at) {
            size_t len = strcspn(at, ",");
            char name[64];

            snprintf(name, sizeof name, "%.*s", (int)len, at);
            CHECK(field_of(run, name));
            at += len + (at[len] == ',');
        }
    }
}

/* A sandbox that was set by way of a listener with higher ceilings keeps working on one with lower ones. */
static void limits_of_another_listener_are_cut(void)
{
    struct kr_limits highest = profile.ceilings;
    struct kr_setting_server reading = server;
    struct kr_sandbox s = {0};
    json_t *settings = json_pack("{s:{s:i}}", "limits", "timeout", 600);
    struct kr_err err;

    highest.timeout_ms = 900000;
    CHECK(kr_sandbox_settings_apply(&reading, settings, &s, &err) == -ERANGE); /* a client's own value is refused */
    reading.highest = &highest;
    CHECK(kr_sandbox_settings_apply(&reading, settings, &s, &err) == 0 && s.limits.timeout_ms == 300000);
    highest.timeout_ms = 500000;
    CHECK(kr_sandbox_settings_apply(&reading, settings, &s, &err) == -ERANGE); /* past what any listener allows */
    json_decref(settings);
}

int main(void)
{
    kr_limits_default(&profile.limits);
    kr_limits_default(&profile.ceilings);
    profile.ceilings.timeout_ms = 300000;
    RUN(rows_are_complete);
    RUN(secrets_need_what_puts_them_in);
    RUN(examples_make_a_round_trip);
    RUN(changes_join_or_replace);
    RUN(bad_values_are_refused_by_name);
    RUN(limits_of_another_listener_are_cut);
    RUN(a_network_past_the_ceiling_is_refused);
    RUN(rest_has_every_row);
    RUN(the_tool_has_every_row_but_those_of_rest);
    RUN(what_holds_is_told);
    RUN(openapi_has_every_row);
    RUN(the_page_has_every_row);
    RUN(runs_change_what_the_rows_say);
    CHECK_DONE();
}

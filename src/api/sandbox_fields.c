/* Rows of requests and replies, made from the table of sandbox settings.
 *
 * Called by the constructors of the tables that hold them, before main(), and by handlers for what came. Invariant:
 * every setting has a row in each table; nothing here knows a setting by name. */
#include "sandbox_fields.h"
#include <string.h>

static struct kr_api_prop set_props[KR_SANDBOX_SETTINGS_MAX];
struct kr_api_schema kr_api_settings_schema = {.name = "SandboxSet",
                                               .help =
                                                   "What was set of a sandbox; texts of secret settings are \"***\".",
                                               .props = set_props};

static enum kr_api_type field_type(enum kr_setting_type type, enum kr_api_settings_voice voice)
{
    switch (type) {
    case KR_SETTING_WORD:
        return KR_API_ENUM;
    case KR_SETTING_RULE:
        return KR_API_STRING;
    case KR_SETTING_NAMES:
        return KR_API_STRINGS;
    case KR_SETTING_TEXTS:
        return voice == KR_API_SETTINGS_TOOL ? KR_API_MAP : KR_API_OBJECT; /* a map takes no null */
    case KR_SETTING_LIMITS:
    case KR_SETTING_TYPE_MAX_:
        break;
    }
    return KR_API_OBJECT;
}

void kr_api_settings_fields(struct kr_api_field *fields, size_t *count, size_t at, enum kr_api_settings_voice voice)
{
    for (size_t i = 0; i < kr_sandbox_settings_count; i++) {
        const struct kr_sandbox_setting *row = &kr_sandbox_settings[i];

        if (row->rest_only && voice == KR_API_SETTINGS_TOOL)
            continue;
        fields[(*count)++] = (struct kr_api_field){
            .name = row->name,
            .type = field_type(row->type, voice),
            .offset = at + i * sizeof(union kr_api_setting),
            .nullable = true,
            .secret = row->secret,
            .unlisted = row->unlisted && voice == KR_API_SETTINGS_TOOL,
            .has_min = row->max > 0,
            .min = row->type == KR_SETTING_RULE,
            .has_max = row->max > 0,
            .max = row->max,
            .choices = row->words,
            .of = row->type == KR_SETTING_LIMITS && voice == KR_API_SETTINGS_REST ? &kr_api_limits_table : NULL,
            .help = row->help,
            .example = row->example,
        };
    }
}

void kr_api_settings_props(struct kr_api_prop *props, size_t *count)
{
    for (size_t i = 0; i < kr_sandbox_settings_count; i++) {
        const struct kr_sandbox_setting *row = &kr_sandbox_settings[i];

        if (!row->tell)
            continue;
        props[(*count)++] = (struct kr_api_prop){
            .name = row->name,
            .type = field_type(row->type, KR_API_SETTINGS_REST),
            .choices = row->words,
            .unlisted = row->unlisted || row->rest_only,
            .of = row->type == KR_SETTING_LIMITS ? &kr_api_limits_schema : NULL,
            .help = row->help,
            .example =
                row->type == KR_SETTING_LIMITS ? NULL : row->example, /* there it is made from the limits' rows */
        };
    }
}

__attribute__((constructor)) static void derive_settings_schema(void)
{
    for (size_t i = 0; i < kr_sandbox_settings_count; i++) {
        const struct kr_sandbox_setting *row = &kr_sandbox_settings[i];

        set_props[i] = (struct kr_api_prop){
            .name = row->name,
            .type = field_type(row->type, KR_API_SETTINGS_REST),
            .optional = true,
            .unlisted = row->unlisted || row->rest_only,
            .choices = row->words,
            .help = row->help,
            .example = row->example,
        };
    }
    kr_api_settings_schema.count = kr_sandbox_settings_count;
}

json_t *kr_api_settings_of_body(const json_t *body, bool nulls)
{
    json_t *settings = json_object();
    int r = settings ? 0 : -1;

    for (size_t i = 0; i < kr_sandbox_settings_count && r == 0; i++) {
        json_t *value = json_object_get(body, kr_sandbox_settings[i].name);

        if (value && (nulls || !json_is_null(value)))
            r = json_object_set(settings, kr_sandbox_settings[i].name, value);
    }
    if (r == 0)
        return settings;
    json_decref(settings);
    return NULL;
}

/* The value as JSON: a new reference, NULL if it is absent. */
static json_t *given_value(const struct kr_sandbox_setting *row, const union kr_api_setting *given)
{
    if (row->type == KR_SETTING_WORD)
        return given->word >= 0 ? json_string(row->words[given->word]) : NULL;
    if (row->type == KR_SETTING_RULE)
        return given->text ? json_string(given->text) : NULL;
    return json_incref(given->value);
}

json_t *kr_api_settings_of_args(const union kr_api_setting *given)
{
    json_t *settings = json_object();
    int r = settings ? 0 : -1;

    for (size_t i = 0; i < kr_sandbox_settings_count && r == 0; i++) {
        json_t *value = kr_sandbox_settings[i].rest_only ? NULL : given_value(&kr_sandbox_settings[i], &given[i]);

        if (value)
            r = json_object_set_new(settings, kr_sandbox_settings[i].name, value);
    }
    if (r == 0)
        return settings;
    json_decref(settings);
    return NULL;
}

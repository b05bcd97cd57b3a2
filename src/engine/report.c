/* The report of a run, from its verdict to JSON.
 *
 * Called by the commands and by the domain. Invariant: every member that docs/design/wire.md lists is always there;
 * what is not known is null, never a made-up number. */
#include "report.h"
#include "json_load.h"
#include <stdlib.h>

void kr_report_value(struct kr_json *j, const json_t *value)
{
    char *text;

    if (!value) {
        kr_json_null(j);
        return;
    }
    if (json_is_string(value)) {
        kr_json_str_n(j, json_string_value(value), json_string_length(value));
        return;
    }
    text = kr_json_dump(value, JSON_ENCODE_ANY);
    if (text)
        kr_json_raw(j, text, __builtin_strlen(text));
    else
        kr_json_null(j);
    free(text);
}

void kr_report_limits(struct kr_json *j, const struct kr_limits *limits)
{
    struct kr_limits l = *limits;

    kr_json_object(j);
    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        const struct kr_limit_row *row = &kr_limit_rows[i];
        uint64_t value = *kr_limit_at(&l, row);

        kr_json_key(j, row->name);
        if (value == 0 && row->zero_is_none)
            kr_json_null(j);
        else if (row->unit == KR_UNIT_MILLI || row->unit == KR_UNIT_MS)
            kr_json_double(j, (double)value / 1000);
        else
            kr_json_uint(j, value);
    }
    kr_json_object_end(j);
}

static void seconds(struct kr_json *j, const char *key, uint64_t ns)
{
    uint64_t us = ns / 1000; /* no digits that mean nothing */

    kr_json_key_double(j, key, (double)us / 1e6);
}

/* What a policy found and refused: members that are there only if there is something to say. */
static void report_policy(struct kr_json *j, const struct kr_claim_end *claim)
{
    const struct {
        const char *name;
        const json_t *value;
    } rows[] = {
        {"findings", claim->findings},
        {"refused", claim->refused},
        {"analysis", claim->analysis},
        {"recommendations", claim->recommendations},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].value)
            continue;
        kr_json_key(j, rows[i].name);
        kr_report_value(j, rows[i].value);
    }
}

void kr_report_end(struct kr_json *j, const struct kr_run_end *end)
{
    const struct kr_claim_end *claim = end->claim;

    kr_json_key_str(j, "cause", kr_cause_rows[end->verdict.cause].name);
    kr_json_key_int(j, "exit_code", end->verdict.exit_code);
    kr_json_key_str(j, "message", end->message[0] ? end->message : NULL);
    kr_json_key(j, "result");
    kr_report_value(j, claim->result);
    kr_json_key(j, "error");
    kr_report_value(j, claim->error);
    kr_json_key(j, "variables");
    if (claim->variables) {
        kr_report_value(j, claim->variables);
    } else {
        kr_json_array(j);
        kr_json_array_end(j);
    }
    kr_json_key_bool(j, "truncated", end->truncated);
    kr_json_key(j, "limits_hit");
    kr_json_array(j);
    for (size_t i = 0; i < kr_hit_rows_count; i++)
        if (end->verdict.hits & kr_hit_rows[i].bit)
            kr_json_str(j, kr_hit_rows[i].name);
    kr_json_array_end(j);
    seconds(j, "wall_s", end->wall_ns);
    if (end->have_cpu)
        seconds(j, "cpu_s", end->cpu_ns);
    else
        kr_json_key_null(j, "cpu_s");
    if (end->have_peak)
        kr_json_key_uint(j, "peak_memory_bytes", end->peak_memory);
    else
        kr_json_key_null(j, "peak_memory_bytes");
    kr_json_key_uint(j, "output_bytes", end->output_bytes);
    if (end->have_background)
        kr_json_key_uint(j, "background", end->background);
    else
        kr_json_key_null(j, "background");
    report_policy(j, claim);
}

void kr_report_hint(struct kr_json *j, const char *hint)
{
    kr_json_key_str(j, "hint", hint[0] ? hint : NULL);
}

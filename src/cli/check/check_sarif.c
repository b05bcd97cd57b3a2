/* Findings as SARIF 2.1.0 (OASIS), for the tools that show results of linters: one run, its rules, its results.
 *
 * Called by check_report.c. Invariants: columns count characters from 1, and an end column is the one behind the last
 * character, as the judge counts; a cell of a notebook has no region, because its lines are not those of the file. */
#include "check.h"
#include "json.h"
#include "policy_rules.h"
#include <stdio.h>
#include <string.h>

#define SCHEMA "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
#define RULES_MAX 64u

#ifndef KR_VERSION
#define KR_VERSION "0"
#endif

/* The rules that findings quote, in the order in which they appear. */
struct rules {
    const char *ids[RULES_MAX];
    size_t count;
};

static size_t index_of(const struct rules *rules, const char *id)
{
    size_t i;

    for (i = 0; i < rules->count && strcmp(rules->ids[i], id) != 0; i++)
        ;
    return i;
}

static void collect_rules(const struct kr_check_report *r, struct rules *rules)
{
    for (size_t i = 0; i < r->units->count; i++) {
        const json_t *finding;
        size_t k;

        json_array_foreach(r->units->rows[i].findings, k, finding)
        {
            const char *id = kr_check_text(finding, "id");

            if (index_of(rules, id) == rules->count && rules->count < RULES_MAX)
                rules->ids[rules->count++] = id;
        }
    }
}

static void key_message(struct kr_json *j, const char *key, const char *text)
{
    kr_json_key(j, key);
    kr_json_object(j);
    kr_json_key_str(j, "text", text[0] ? text : "-");
    kr_json_object_end(j);
}

/* What docs/reference/policy-rules.md says of it. */
static void describe_rule(struct kr_json *j, const char *id)
{
    for (size_t i = 0; i < kr_policy_rules_count; i++) {
        const struct kr_policy_rule *rule = &kr_policy_rules[i];

        if (strcmp(rule->id, id) != 0)
            continue;
        kr_json_key_str(j, "name", rule->name);
        key_message(j, "shortDescription", rule->what);
        key_message(j, "fullDescription", rule->why);
        key_message(j, "help", rule->mend);
    }
}

static void write_rules(struct kr_json *j, const struct rules *rules)
{
    kr_json_key(j, "rules");
    kr_json_array(j);
    for (size_t i = 0; i < rules->count; i++) {
        kr_json_object(j);
        kr_json_key_str(j, "id", rules->ids[i]);
        describe_rule(j, rules->ids[i]);
        kr_json_object_end(j);
    }
    kr_json_array_end(j);
}

/* ---- places ---- */

/* A path as a URI reference: absolute ones with their scheme, relative ones relative to the folder that krait was
 * started in. */
static void write_uri(struct kr_json *j, const char *path)
{
    cleanup_buf struct kr_buf uri;

    kr_buf_init(&uri, 1u << 16);
    kr_buf_add_str(&uri, path[0] == '/' ? "file://" : "");
    for (const char *p = strncmp(path, "./", 2) == 0 ? path + 2 : path; *p; p++) {
        bool is_plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
                        strchr("-._~/", *p) != NULL;

        if (is_plain)
            kr_buf_add(&uri, p, 1);
        else
            kr_buf_printf(&uri, "%%%02X", (unsigned)(unsigned char)*p);
    }
    kr_json_key_str(j, "uri", kr_buf_str(&uri));
}

static void write_region(struct kr_json *j, const json_t *finding)
{
    static const char *const names[][2] = {
        {"line", "startLine"}, {"column", "startColumn"}, {"end_line", "endLine"}, {"end_column", "endColumn"}};

    if (kr_check_number(finding, "line") == 0)
        return;
    kr_json_key(j, "region");
    kr_json_object(j);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (kr_check_number(finding, names[i][0]) > 0)
            kr_json_key_int(j, names[i][1], kr_check_number(finding, names[i][0]));
    kr_json_object_end(j);
}

static void write_location(struct kr_json *j, const struct kr_check_unit *u, const json_t *finding)
{
    char cell[32];

    kr_json_key(j, "locations");
    kr_json_array(j);
    kr_json_object(j);
    kr_json_key(j, "physicalLocation");
    kr_json_object(j);
    kr_json_key(j, "artifactLocation");
    kr_json_object(j);
    write_uri(j, u->file->path);
    kr_json_object_end(j);
    if (finding && !u->cell)
        write_region(j, finding);
    kr_json_object_end(j);
    if (u->cell) {
        snprintf(cell, sizeof cell, "cell %u", u->cell);
        kr_json_key(j, "logicalLocations");
        kr_json_array(j);
        kr_json_object(j);
        kr_json_key_str(j, "name", cell);
        kr_json_object_end(j);
        kr_json_array_end(j);
    }
    kr_json_object_end(j);
    kr_json_array_end(j);
}

/* ---- results ---- */

static void write_result(struct kr_json *j, const struct kr_check_unit *u, const json_t *finding,
                         const struct rules *rules)
{
    const char *id = kr_check_text(finding, "id"), *text = kr_check_text(finding, "text");
    char within[512];

    snprintf(within, sizeof within, "cell %u, line %lld: %.440s", u->cell, (long long)kr_check_number(finding, "line"),
             text);
    kr_json_object(j);
    kr_json_key_str(j, "ruleId", id);
    if (index_of(rules, id) < rules->count)
        kr_json_key_uint(j, "ruleIndex", index_of(rules, id));
    kr_json_key_str(j, "level", "error");
    key_message(j, "message", u->cell ? within : text);
    write_location(j, u, finding);
    kr_json_object_end(j);
}

static void write_results(struct kr_json *j, const struct kr_check_report *r, const struct rules *rules)
{
    kr_json_key(j, "results");
    kr_json_array(j);
    for (size_t i = 0; i < r->units->count; i++) {
        const struct kr_check_unit *u = &r->units->rows[i];

        for (size_t k = 0; k < json_array_size(u->findings); k++)
            write_result(j, u, json_array_get(u->findings, k), rules);
    }
    kr_json_array_end(j);
}

/* What was not judged is a notification of the tool's, and the invocation was not successful. */
static void write_invocation(struct kr_json *j, const struct kr_check_report *r)
{
    kr_json_key(j, "invocations");
    kr_json_array(j);
    kr_json_object(j);
    kr_json_key_bool(j, "executionSuccessful", kr_check_count(r).failed == 0);
    kr_json_key(j, "toolExecutionNotifications");
    kr_json_array(j);
    for (size_t i = 0; i < r->units->count; i++) {
        const struct kr_check_unit *u = &r->units->rows[i];

        if (!u->why[0])
            continue;
        kr_json_object(j);
        kr_json_key_str(j, "level", "error");
        key_message(j, "message", u->why);
        write_location(j, u, NULL);
        kr_json_object_end(j);
    }
    kr_json_array_end(j);
    kr_json_object_end(j);
    kr_json_array_end(j);
}

int kr_check_write_sarif(const struct kr_check_report *r, struct kr_buf *buf)
{
    struct rules rules = {.count = 0};
    struct kr_json j;

    collect_rules(r, &rules);
    kr_json_init(&j, buf);
    kr_json_object(&j);
    kr_json_key_str(&j, "$schema", SCHEMA);
    kr_json_key_str(&j, "version", "2.1.0");
    kr_json_key(&j, "runs");
    kr_json_array(&j);
    kr_json_object(&j);
    kr_json_key(&j, "tool");
    kr_json_object(&j);
    kr_json_key(&j, "driver");
    kr_json_object(&j);
    kr_json_key_str(&j, "name", "krait");
    kr_json_key_str(&j, "semanticVersion", KR_VERSION);
    write_rules(&j, &rules);
    kr_json_object_end(&j);
    kr_json_object_end(&j);
    kr_json_key_str(&j, "columnKind", "unicodeCodePoints");
    write_invocation(&j, r);
    write_results(&j, r, &rules);
    kr_json_object_end(&j);
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    kr_buf_add_str(buf, "\n");
    return kr_json_done(&j);
}

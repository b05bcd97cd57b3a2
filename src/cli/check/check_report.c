/* What `krait check` prints: a line for each finding, or one JSON object.
 *
 * Called by check_app.c. Invariant: findings came from a session, so each member may be absent or of any size; a line
 * is one line, whatever a text contains. */
#include "check.h"
#include "json.h"
#include "report.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_MAX 400u /* bytes of a text in a line */

const char *const kr_check_formats[] = {
    [KR_CHECK_TEXT] = "text", [KR_CHECK_JSON] = "json", [KR_CHECK_SARIF] = "sarif", [KR_CHECK_FORMAT_MAX_] = NULL};
static_assert(sizeof kr_check_formats / sizeof *kr_check_formats == KR_CHECK_FORMAT_MAX_ + 1, "a word for each");

int64_t kr_check_number(const json_t *finding, const char *name)
{
    int64_t value = json_integer_value(json_object_get(finding, name));

    return value > 0 && value <= INT32_MAX ? value : 0;
}

const char *kr_check_text(const json_t *finding, const char *name)
{
    const char *text = json_string_value(json_object_get(finding, name));

    return text ? text : "";
}

struct kr_check_counts kr_check_count(const struct kr_check_report *r)
{
    struct kr_check_counts counts = {0};

    for (size_t i = 0; i < r->units->count; i++) {
        size_t findings = json_array_size(r->units->rows[i].findings);

        counts.findings += findings;
        counts.with_findings += findings > 0;
        counts.failed += r->units->rows[i].why[0] != '\0';
    }
    return counts;
}

/* ---- lines ---- */

/* Without what would end the line or control a terminal. */
static void add_shown(struct kr_buf *buf, const char *text)
{
    for (size_t i = 0; i < SHOWN_MAX && text[i]; i++)
        kr_buf_add(buf, (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? " " : &text[i], 1);
}

static void add_place(struct kr_buf *buf, const struct kr_check_unit *u)
{
    add_shown(buf, u->file->path);
    if (u->cell)
        kr_buf_printf(buf, "[cell %u]", u->cell);
}

static void write_lines(const struct kr_check_report *r, struct kr_buf *buf)
{
    for (size_t i = 0; i < r->units->count; i++) {
        const struct kr_check_unit *u = &r->units->rows[i];
        const json_t *finding;
        size_t k;

        json_array_foreach(u->findings, k, finding)
        {
            add_place(buf, u);
            kr_buf_printf(buf, ":%lld:%lld: ", (long long)kr_check_number(finding, "line"),
                          (long long)kr_check_number(finding, "column"));
            add_shown(buf, kr_check_text(finding, "id"));
            kr_buf_add_str(buf, " ");
            add_shown(buf, kr_check_text(finding, "text"));
            kr_buf_add_str(buf, "\n");
        }
        if (!u->why[0])
            continue;
        add_place(buf, u);
        kr_buf_add_str(buf, ": not judged: ");
        add_shown(buf, u->why);
        kr_buf_add_str(buf, "\n");
    }
}

/* ---- JSON ---- */

static void key_position(struct kr_json *j, const json_t *finding, const char *name)
{
    int64_t value = kr_check_number(finding, name);

    if (value > 0)
        kr_json_key_int(j, name, value);
    else
        kr_json_key_null(j, name);
}

static void key_place(struct kr_json *j, const struct kr_check_unit *u)
{
    kr_json_key_str(j, "file", u->file->path);
    if (u->cell)
        kr_json_key_uint(j, "cell", u->cell);
    else
        kr_json_key_null(j, "cell");
}

static void write_findings(struct kr_json *j, const struct kr_check_unit *u)
{
    static const char *const positions[] = {"line", "column", "end_line", "end_column"};
    const json_t *finding;
    size_t i;

    json_array_foreach(u->findings, i, finding)
    {
        kr_json_object(j);
        key_place(j, u);
        kr_json_key_str(j, "rule", kr_check_text(finding, "id"));
        for (size_t k = 0; k < sizeof positions / sizeof *positions; k++)
            key_position(j, finding, positions[k]);
        kr_json_key_str(j, "text", kr_check_text(finding, "text"));
        kr_json_key_str(j, "why", kr_check_text(finding, "why"));
        kr_json_object_end(j);
    }
}

/* {"files","policy":{…},"findings":[…],"not_judged":[{"file","cell","why"}]} */
static int write_json(const struct kr_check_report *r, struct kr_buf *buf)
{
    struct kr_json j;

    kr_json_init(&j, buf);
    kr_json_object(&j);
    kr_json_key_uint(&j, "files", r->files->count);
    kr_json_key(&j, "policy");
    kr_json_object(&j);
    kr_json_key_str(&j, "mode", kr_policy_names[r->policy->mode]);
    kr_json_key(&j, "profiles");
    kr_policy_write_profiles(&j, r->policy);
    kr_json_object_end(&j);
    kr_json_key(&j, "findings");
    kr_json_array(&j);
    for (size_t i = 0; i < r->units->count; i++)
        write_findings(&j, &r->units->rows[i]);
    kr_json_array_end(&j);
    kr_json_key(&j, "not_judged");
    kr_json_array(&j);
    for (size_t i = 0; i < r->units->count; i++) {
        if (!r->units->rows[i].why[0])
            continue;
        kr_json_object(&j);
        key_place(&j, &r->units->rows[i]);
        kr_json_key_str(&j, "why", r->units->rows[i].why);
        kr_json_object_end(&j);
    }
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    kr_buf_add_str(buf, "\n");
    return kr_json_done(&j);
}

int kr_check_write(const struct kr_check_report *r, enum kr_check_format format, struct kr_buf *buf)
{
    if (format == KR_CHECK_SARIF)
        return kr_check_write_sarif(r, buf);
    if (format == KR_CHECK_JSON)
        return write_json(r, buf);
    write_lines(r, buf);
    return buf->failed;
}

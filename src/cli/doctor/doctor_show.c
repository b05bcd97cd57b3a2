/* The report of `krait doctor`, as a table for people and as JSON.
 *
 * Called by cmd_doctor.c. Invariant: both are made from the same findings and rows; what is not ok always comes with
 * what is lost and what helps. */
#include "doctor.h"
#include "buf.h"
#include "json.h"
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#define TITLE_WIDTH 20
#define STATE_WIDTH 10
#define PIECE_MAX 44
#define DETAIL_AT (4 + TITLE_WIDTH + STATE_WIDTH)

static const struct {
    const char *name; /* in JSON and in the table */
    const char *symbol, *plain;
    const char *colour; /* SGR */
} states[] = {
    [KR_DOCTOR_UNTRIED] = {"missing", "–", "-", "33"},   [KR_DOCTOR_OK] = {"ok", "✓", "+", "32"},
    [KR_DOCTOR_DEGRADED] = {"degraded", "!", "!", "33"}, [KR_DOCTOR_MISSING] = {"missing", "–", "-", "33"},
    [KR_DOCTOR_FAILED] = {"failed", "✗", "x", "1;31"},
};
_Static_assert(sizeof states / sizeof states[0] == KR_DOCTOR_STATE_MAX_, "every state has its word");

static const char *fix_of(const struct kr_doctor_finding *f, const struct kr_doctor_row *row)
{
    if (f->fix[0])
        return f->fix;
    return f->state == KR_DOCTOR_FAILED
               ? "this must not be: run nothing untrusted here, and report it (SECURITY.md) with this output"
               : row->fix;
}

/* A required row that is not there is as bad as a failed one. */
static const char *colour_of(const struct kr_doctor_finding *f, const struct kr_doctor_row *row)
{
    return row->required && f->state != KR_DOCTOR_OK ? states[KR_DOCTOR_FAILED].colour : states[f->state].colour;
}

/* ---- the table ---- */

struct page {
    const struct kr_doctor_look *look;
    FILE *out;
};

static void paint(const struct page *p, const char *colour, const char *text)
{
    if (p->look->colour)
        fprintf(p->out, "\033[%sm%s\033[0m", colour, text);
    else
        fputs(text, p->out);
}

static int columns(const char *text, size_t len)
{
    int n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* What should stay on one line: from one comma or semicolon to the next if that is not far, else one word. */
static size_t piece(const char *text, bool after_comma)
{
    size_t end = 0, word = strcspn(text, " ");

    if (!after_comma)
        return word;
    while (text[end] && !((text[end] == ',' || text[end] == ';') && text[end + 1] == ' '))
        end++;
    end += text[end] != '\0';
    return columns(text, end) <= PIECE_MAX ? end : word;
}

/* From column `at` on, wrapped, continued there. */
static void wrap(const struct page *p, const char *text, int at)
{
    int column = at;
    bool after_comma = true;

    while (*text) {
        size_t len = piece(text, after_comma);
        int wide = columns(text, len);

        if (column > at && column + 1 + wide > p->look->width) {
            fprintf(p->out, "\n%*s", at, "");
            column = at;
        } else if (column > at) {
            fputc(' ', p->out);
            column++;
        }
        fwrite(text, 1, len, p->out);
        column += wide;
        after_comma = text[len - 1] == ',' || text[len - 1] == ';';
        text += len + strspn(text + len, " ");
    }
    fputc('\n', p->out);
}

static void labelled(const struct page *p, const char *label, const char *text)
{
    fprintf(p->out, "%*s", DETAIL_AT, "");
    paint(p, "2", label);
    fprintf(p->out, "%*s", 6 - (int)strlen(label), "");
    wrap(p, text, DETAIL_AT + 6);
}

static void show_row(const struct page *p, const struct kr_doctor_finding *f, const struct kr_doctor_row *row,
                     const char **fix)
{
    const char *colour = colour_of(f, row);

    fputs("  ", p->out);
    paint(p, colour, p->look->utf8 ? states[f->state].symbol : states[f->state].plain);
    fprintf(p->out, " %-*s", TITLE_WIDTH, row->title);
    paint(p, colour, states[f->state].name);
    fprintf(p->out, "%*s", STATE_WIDTH - (int)strlen(states[f->state].name), "");
    wrap(p, f->detail[0] ? f->detail : "not tried", DETAIL_AT);
    if (f->state == KR_DOCTOR_OK || f->state == KR_DOCTOR_UNTRIED)
        return;
    if (*fix && strcmp(*fix, fix_of(f, row)) == 0) { /* one fix for several layers is shown once */
        char text[400];

        snprintf(text, sizeof text, "%s (fix: as above)", row->lost);
        labelled(p, "lost", text);
        return;
    }
    labelled(p, "lost", row->lost);
    *fix = fix_of(f, row);
    labelled(p, "fix", *fix);
}

static void show_end(const struct page *p, const struct kr_doctor_report *r)
{
    unsigned counts[KR_DOCTOR_STATE_MAX_] = {0};
    bool holds = kr_doctor_holds(r);
    char text[160];

    for (int i = 0; i < KR_DOC_MAX_; i++)
        counts[r->findings[i].state]++;
    fputc('\n', p->out);
    paint(p, holds ? "1;32" : "1;31", holds ? "The native tier holds." : "The native tier does not hold here.");
    snprintf(text, sizeof text, " %u ok, %u degraded, %u missing, %u failed.\n", counts[KR_DOCTOR_OK],
             counts[KR_DOCTOR_DEGRADED], counts[KR_DOCTOR_MISSING] + counts[KR_DOCTOR_UNTRIED],
             counts[KR_DOCTOR_FAILED]);
    fputs(text, p->out);
    if (r->error[0])
        wrap(p, r->error, 0);
    if (r->stopped_by)
        fputs("Stopped before everything was tried.\n", p->out);
    if (r->level == KR_LEVEL_CONTAINED)
        wrap(p,
             "Level contained: programs can be run with --allow-contained, behind Landlock, seccomp and rlimits alone, "
             "for one user only.",
             0);
}

void kr_doctor_show(const struct kr_doctor_report *r, const struct kr_doctor_look *look, FILE *out)
{
    const struct page page = {look, out};
    const char *group = "", *fix = NULL, *dot = look->utf8 ? "·" : "-";
    struct utsname u = {0};

    uname(&u);
    paint(&page, "1", "krait " KR_VERSION);
    fprintf(out, " %s %s %s %s %s ", dot, u.sysname, u.release, u.machine, dot);
    if (r->level >= 0)
        fprintf(out, "level %s\n", kr_level_names[r->level]);
    else
        fputs("no cells\n", out);
    for (int i = 0; i < KR_DOC_MAX_; i++) {
        struct kr_doctor_row row = kr_doctor_row((enum kr_doctor_layer)i);

        if (strcmp(group, row.group) != 0) {
            fputc('\n', out);
            paint(&page, "1", row.group);
            fputc('\n', out);
        }
        group = row.group;
        show_row(&page, &r->findings[i], &row, &fix);
    }
    show_end(&page, r);
}

/* ---- JSON ---- */

int kr_doctor_json(const struct kr_doctor_report *r, FILE *out)
{
    cleanup_buf struct kr_buf buf;
    struct utsname u = {0};
    struct kr_json j;

    uname(&u);
    kr_buf_init(&buf, 1u << 20);
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    kr_json_key_bool(&j, "ok", kr_doctor_holds(r));
    kr_json_key_str(&j, "level", r->level >= 0 ? kr_level_names[r->level] : NULL);
    kr_json_key_str(&j, "version", KR_VERSION);
    kr_json_key_str(&j, "kernel", u.release);
    kr_json_key_str(&j, "error", r->error[0] ? r->error : r->stopped_by ? "stopped before everything was tried" : NULL);
    kr_json_key(&j, "layers");
    kr_json_array(&j);
    for (int i = 0; i < KR_DOC_MAX_; i++) {
        const struct kr_doctor_finding *f = &r->findings[i];
        struct kr_doctor_row row = kr_doctor_row((enum kr_doctor_layer)i);

        kr_json_object(&j);
        kr_json_key_str(&j, "name", row.name);
        kr_json_key_str(&j, "state", states[f->state].name);
        kr_json_key_bool(&j, "required", row.required != 0);
        kr_json_key_str(&j, "detail", f->detail[0] ? f->detail : "not tried");
        kr_json_key_str(&j, "lost", row.lost);
        kr_json_key_str(&j, "fix", fix_of(f, &row));
        kr_json_object_end(&j);
    }
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    if (kr_json_done(&j) < 0)
        return -ENOMEM;
    return fprintf(out, "%s\n", kr_buf_str(&buf)) < 0 ? -EIO : 0;
}

/* The registry as text: Prometheus' format 0.0.4, and the table as a page of the reference.
 *
 * Called for GET /metrics and `krait dump metrics`. Invariant: what is written is valid UTF-8 whatever the labels hold,
 * in the order of the table, a metric's lines together behind its HELP and TYPE. */
#include "buf.h"
#include "metrics_internal.h"
#include "utf8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = {
    [KR_METRIC_COUNTER] = "counter",
    [KR_METRIC_GAUGE] = "gauge",
    [KR_METRIC_HISTOGRAM] = "histogram",
};
_Static_assert(sizeof type_names / sizeof *type_names == KR_METRIC_TYPE_MAX_, "every type has its name");

/* The shortest text that reads back as the same number. */
static void add_number(struct kr_buf *out, double v)
{
    char text[40];

    if (isnan(v) || isinf(v)) {
        kr_buf_add_str(out, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    kr_buf_add_str(out, text);
}

/* A text with backslashes and line breaks escaped, and in labels quotes; what is no UTF-8 becomes U+FFFD. */
static void add_escaped(struct kr_buf *out, const char *text, bool in_label)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len;) {
        int n = kr_utf8_next((const unsigned char *)text + i, len - i, NULL);

        if (n <= 0)
            kr_buf_add_str(out, "\xef\xbf\xbd");
        else if (text[i] == '\n')
            kr_buf_add_str(out, "\\n");
        else if (text[i] == '\\' || (in_label && text[i] == '"'))
            kr_buf_printf(out, "\\%c", text[i]);
        else
            kr_buf_add(out, text + i, (size_t)n);
        i += n > 0 ? (size_t)n : n < 0 ? (size_t)-n : len - i;
    }
}

static const char *value_at(const struct kr_metric_state *s, const struct kr_metric_label *label, unsigned i,
                            size_t position)
{
    if (position == kr_metric_positions(label) - 1)
        return "other";
    return label->values ? label->values[position] : s->texts[i].texts[position];
}

/* `{a="x",b="y",le="0.5"}`, or nothing if there is no label. le NULL: none. */
static void add_labels(struct kr_buf *out, const struct kr_metric_state *s, const struct kr_metric_row *row, size_t n,
                       const double *le)
{
    size_t positions[KR_METRIC_LABELS_MAX] = {0};
    unsigned count = 0;

    while (count < KR_METRIC_LABELS_MAX && row->labels[count].name)
        count++;
    if (count == 0 && !le)
        return;
    for (unsigned i = count; i-- > 0;) {
        unsigned all = kr_metric_positions(&row->labels[i]);

        positions[i] = n % all;
        n /= all;
    }
    for (unsigned i = 0; i < count; i++) {
        kr_buf_printf(out, "%c%s=\"", i == 0 ? '{' : ',', row->labels[i].name);
        add_escaped(out, value_at(s, &row->labels[i], i, positions[i]), true);
        kr_buf_add(out, "\"", 1);
    }
    if (le) {
        kr_buf_printf(out, "%cle=\"", count == 0 ? '{' : ',');
        add_number(out, *le);
        kr_buf_add(out, "\"", 1);
    }
    kr_buf_add(out, "}", 1);
}

static void add_line(struct kr_buf *out, const struct kr_metric_state *s, const struct kr_metric_row *row, size_t n,
                     const char *suffix, const double *le, double value)
{
    kr_buf_add_str(out, row->name);
    kr_buf_add_str(out, suffix);
    add_labels(out, s, row, n, le);
    kr_buf_add(out, " ", 1);
    add_number(out, value);
    kr_buf_add(out, "\n", 1);
}

static void add_histogram(struct kr_buf *out, const struct kr_metric_state *s, const struct kr_metric_row *row,
                          size_t n)
{
    const uint64_t *buckets = s->buckets + n * (s->bucket_count + 1);
    uint64_t count = 0;

    for (unsigned i = 0; i <= s->bucket_count; i++) {
        double le = i < s->bucket_count ? row->buckets[i] : INFINITY;

        count += buckets[i];
        add_line(out, s, row, n, "_bucket", &le, (double)count);
    }
    add_line(out, s, row, n, "_sum", NULL, s->values[n]);
    add_line(out, s, row, n, "_count", NULL, (double)count);
}

static void add_metric(struct kr_buf *out, const struct kr_metric_state *s, const struct kr_metric_row *row)
{
    bool begun = false;

    for (size_t n = 0; n < s->count; n++) {
        if (!s->shown[n])
            continue;
        if (!begun) {
            kr_buf_printf(out, "# HELP %s ", row->name);
            add_escaped(out, row->help, false);
            kr_buf_printf(out, "\n# TYPE %s %s\n", row->name, type_names[row->type]);
            begun = true;
        }
        if (row->type == KR_METRIC_HISTOGRAM)
            add_histogram(out, s, row, n);
        else
            add_line(out, s, row, n, "", NULL, s->values[n]);
    }
}

int kr_metrics_write(const struct kr_metrics *m, struct kr_buf *out)
{
    for (unsigned id = 0; m && id < KR_METRIC_MAX_; id++)
        add_metric(out, &m->states[id], &kr_metric_rows[id]);
    return out->failed;
}

/* ---- the page ---- */

static void dump_labels(FILE *out, const struct kr_metric_row *row)
{
    for (unsigned i = 0; i < KR_METRIC_LABELS_MAX && row->labels[i].name; i++) {
        const struct kr_metric_label *label = &row->labels[i];

        fprintf(out, "- `%s`: ", label->name);
        for (unsigned n = 0; label->values && label->values[n]; n++)
            fprintf(out, "%s`%s`", n > 0 ? ", " : "", label->values[n]);
        if (!label->values)
            fprintf(out, "at most %u values, further ones count as `other`", label->room);
        fprintf(out, "\n");
    }
    if (row->buckets) {
        fprintf(out, "- buckets in seconds:");
        for (unsigned n = 0; row->buckets[n] > 0; n++)
            fprintf(out, " %g", row->buckets[n]);
        fprintf(out, "\n");
    }
}

void kr_metrics_dump(FILE *out)
{
    fprintf(out, "# Metrics\n\n`GET /metrics` answers in Prometheus' text format 0.0.4. Counters and histograms are "
                 "there from the start, at zero;\n"
                 "gauges once they are known; what has a label without a fixed set of values once it is counted.\n");
    for (unsigned id = 0; id < KR_METRIC_MAX_; id++) {
        const struct kr_metric_row *row = &kr_metric_rows[id];

        fprintf(out, "\n## %s\n%s. %s\n\n", row->name,
                row->type == KR_METRIC_COUNTER ? "Counter"
                : row->type == KR_METRIC_GAUGE ? "Gauge"
                                               : "Histogram",
                row->help);
        dump_labels(out, row);
        fprintf(out, "- for example `%s`\n", row->example);
    }
}

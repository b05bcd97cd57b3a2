/* The registry: the numbers behind kr_metric_rows.
 *
 * Counted into by every folder above through the loop's thread, read by metrics_text.c. Each metric is one array with a
 * position for every combination of its labels' values, found by arithmetic; a label with texts keeps them in the order
 * they came, found by a small hash table. Invariant: nothing is allocated after kr_metrics_new(), whatever the
 * texts. */
#include "metrics_internal.h"
#include "hash.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* Positions of a label: its values, and "other". */
unsigned kr_metric_positions(const struct kr_metric_label *label)
{
    unsigned n = 0;

    if (!label->values)
        return label->room + 1;
    while (label->values[n])
        n++;
    return n + 1;
}

/* The position of a text among those a label has taken; takes it if `take` and there is room. */
static unsigned place_of_text(struct kr_metric_texts *t, const char *text, bool take)
{
    size_t len = strnlen(text, KR_METRIC_VALUE_MAX + 1);
    unsigned at;

    if (len > KR_METRIC_VALUE_MAX)
        return t->room;
    at = kr_hash(KR_HASH_START, text, len) & (t->slots - 1);
    while (t->table[at] != 0) { /* there are more slots than texts, so one is free */
        if (strcmp(t->texts[t->table[at] - 1], text) == 0)
            return t->table[at] - 1u;
        at = (at + 1) & (t->slots - 1);
    }
    if (!take || t->count == t->room)
        return t->room;
    memcpy(t->texts[t->count], text, len + 1);
    t->table[at] = (uint16_t)++t->count;
    return t->count - 1;
}

static unsigned place_of(struct kr_metric_state *s, const struct kr_metric_label *label, unsigned i, const char *value,
                         bool take)
{
    unsigned n = 0;

    if (!label->values)
        return value ? place_of_text(&s->texts[i], value, take) : label->room;
    while (label->values[n] && (!value || strcmp(label->values[n], value) != 0))
        n++;
    return n;
}

/* The position of the whole combination. The struct is not changed unless `take`. */
static size_t series_of(struct kr_metric_state *s, const struct kr_metric_row *row, const struct kr_metric_at *at,
                        bool take)
{
    size_t index = 0;

    for (unsigned i = 0; i < KR_METRIC_LABELS_MAX && row->labels[i].name; i++)
        index = index * kr_metric_positions(&row->labels[i]) + place_of(s, &row->labels[i], i, at->values[i], take);
    return index;
}

/* Is every position of it there from the start? */
static bool known_beforehand(const struct kr_metric_row *row)
{
    for (unsigned i = 0; i < KR_METRIC_LABELS_MAX && row->labels[i].name; i++)
        if (!row->labels[i].values)
            return false;
    return row->type != KR_METRIC_GAUGE;
}

static int texts_init(struct kr_metric_texts *t, unsigned room)
{
    t->room = room;
    for (t->slots = 2; t->slots < 2 * room;)
        t->slots *= 2;
    t->table = calloc(t->slots, sizeof *t->table);
    t->texts = calloc(room, sizeof *t->texts);
    return t->table && t->texts ? 0 : -ENOMEM;
}

/* Shows every combination of values but those with an "other" in it. */
static void show_all(struct kr_metric_state *s, const struct kr_metric_row *row)
{
    for (size_t n = 0; n < s->count; n++) {
        size_t rest = n;
        bool other = false;

        for (unsigned i = KR_METRIC_LABELS_MAX; i-- > 0;) {
            unsigned positions = row->labels[i].name ? kr_metric_positions(&row->labels[i]) : 1;

            other = other || (positions > 1 && rest % positions == positions - 1);
            rest /= positions;
        }
        s->shown[n] = !other;
    }
}

static int state_init(struct kr_metric_state *s, const struct kr_metric_row *row)
{
    s->count = 1;
    for (unsigned i = 0; i < KR_METRIC_LABELS_MAX && row->labels[i].name; i++) {
        s->count *= kr_metric_positions(&row->labels[i]);
        if (!row->labels[i].values && texts_init(&s->texts[i], row->labels[i].room) < 0)
            return -ENOMEM;
    }
    while (row->buckets && row->buckets[s->bucket_count] > 0)
        s->bucket_count++;
    s->shown = calloc(s->count, sizeof *s->shown);
    s->values = calloc(s->count, sizeof *s->values);
    if (row->type == KR_METRIC_HISTOGRAM)
        s->buckets = calloc(s->count * (s->bucket_count + 1), sizeof *s->buckets);
    if (!s->shown || !s->values || (row->type == KR_METRIC_HISTOGRAM && !s->buckets))
        return -ENOMEM;
    if (known_beforehand(row))
        show_all(s, row);
    return 0;
}

int kr_metrics_new(struct kr_metrics **ret_metrics)
{
    struct kr_metrics *m = calloc(1, sizeof *m);

    if (!m)
        return -ENOMEM;
    for (unsigned id = 0; id < KR_METRIC_MAX_; id++)
        if (state_init(&m->states[id], &kr_metric_rows[id]) < 0) {
            kr_metrics_free(m);
            return -ENOMEM;
        }
    kr_metrics_set(m, KR_M_BUILD_INFO, KR_AT(KR_VERSION, COMPILER), 1);
    *ret_metrics = m;
    return 0;
}

void kr_metrics_free(struct kr_metrics *m)
{
    if (!m)
        return;
    for (unsigned id = 0; id < KR_METRIC_MAX_; id++) {
        struct kr_metric_state *s = &m->states[id];

        for (unsigned i = 0; i < KR_METRIC_LABELS_MAX; i++) {
            free(s->texts[i].table);
            free(s->texts[i].texts);
        }
        free(s->shown);
        free(s->values);
        free(s->buckets);
    }
    free(m);
}

/* The state of a metric if it is one of that kind, with the position in *ret_n, which is shown from now on. */
static struct kr_metric_state *touch_series(struct kr_metrics *m, enum kr_metric id, const struct kr_metric_at *at,
                                            bool histogram, size_t *ret_n)
{
    struct kr_metric_state *s;

    if (!m || (unsigned)id >= KR_METRIC_MAX_ || (kr_metric_rows[id].type == KR_METRIC_HISTOGRAM) != histogram)
        return NULL;
    s = &m->states[id];
    *ret_n = series_of(s, &kr_metric_rows[id], at, true);
    s->shown[*ret_n] = true;
    return s;
}

void kr_metrics_add(struct kr_metrics *m, enum kr_metric id, struct kr_metric_at at, double n)
{
    size_t position;
    struct kr_metric_state *s = touch_series(m, id, &at, false, &position);

    if (s && !isnan(n) && (n > 0 || kr_metric_rows[id].type == KR_METRIC_GAUGE))
        s->values[position] += n;
}

void kr_metrics_set(struct kr_metrics *m, enum kr_metric id, struct kr_metric_at at, double value)
{
    size_t position;
    struct kr_metric_state *s = touch_series(m, id, &at, false, &position);

    if (s && (kr_metric_rows[id].type == KR_METRIC_GAUGE || value > s->values[position]))
        s->values[position] = value;
}

void kr_metrics_observe(struct kr_metrics *m, enum kr_metric id, struct kr_metric_at at, double value)
{
    const double *bounds = (unsigned)id < KR_METRIC_MAX_ ? kr_metric_rows[id].buckets : NULL;
    struct kr_metric_state *s;
    unsigned bucket = 0;
    size_t position;

    if (isnan(value) || !(s = touch_series(m, id, &at, true, &position)))
        return;
    value = value > 0 ? value : 0;
    while (bucket < s->bucket_count && value > bounds[bucket])
        bucket++;
    s->buckets[position * (s->bucket_count + 1) + bucket]++;
    s->values[position] += value;
}

double kr_metrics_get(const struct kr_metrics *m, enum kr_metric id, struct kr_metric_at at)
{
    struct kr_metric_state s;
    uint64_t count = 0;
    size_t position;

    if (!m || (unsigned)id >= KR_METRIC_MAX_)
        return 0;
    s = m->states[id];
    position = series_of(&s, &kr_metric_rows[id], &at, false);
    if (kr_metric_rows[id].type != KR_METRIC_HISTOGRAM)
        return s.values[position];
    for (unsigned i = 0; i <= s.bucket_count; i++)
        count += s.buckets[position * (s.bucket_count + 1) + i];
    return (double)count;
}

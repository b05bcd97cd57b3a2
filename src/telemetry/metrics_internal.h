/* The registry's memory, for metrics.c and metrics_text.c alone. */
#pragma once
#include "metrics.h"
#include <stdbool.h>

/* Texts that a label without a set has taken. */
struct kr_metric_texts {
    unsigned room, count;
    unsigned slots;  /* of the table: a power of two, at least twice the room */
    uint16_t *table; /* number of a text plus 1; 0: free */
    char (*texts)[KR_METRIC_VALUE_MAX + 1];
};

struct kr_metric_state {
    size_t count;   /* of series: every combination of positions */
    bool *shown;    /* of a series: it is printed */
    double *values; /* a counter's or gauge's; of a histogram the sum */
    unsigned bucket_count;
    uint64_t *buckets; /* of a histogram: bucket_count + 1 for each series, each for itself */
    struct kr_metric_texts texts[KR_METRIC_LABELS_MAX];
};

struct kr_metrics {
    struct kr_metric_state states[KR_METRIC_MAX_];
};

/* The values of a label, one more for "other". */
unsigned kr_metric_positions(const struct kr_metric_label *label);

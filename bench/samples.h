/* Measurements of one command and the line of JSON that answers it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define KR_BENCH_SERIES 6
#define KR_BENCH_SAMPLES 4096

/* A few named rows of microseconds. Large: kept in static memory, so that adding to it never allocates while a clock
 * runs. */
struct kr_bench_samples {
    struct {
        const char *name;
        size_t count;
        double us[KR_BENCH_SAMPLES];
    } rows[KR_BENCH_SERIES];
};

/* Microseconds of the monotonic clock. */
double kr_bench_now(void);
/* Empties it and touches its pages. */
void kr_bench_clear(struct kr_bench_samples *s);
/* Adds to the row of that name (a literal); what has no room any more is dropped. */
void kr_bench_add(struct kr_bench_samples *s, const char *name, double us);
/* Writes {"ok":true,"name":[…],…} and a newline, flushes, empties the rows. */
void kr_bench_answer(struct kr_bench_samples *s);
/* Writes {"ok":false,"error":"…"}. */
void kr_bench_refuse(const char *why);
/* Splits a command at spaces into at most max words; returns how many. */
size_t kr_bench_words(char *line, char **words, size_t max);

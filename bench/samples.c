/* Rows of numbers and their answer. Called by the three programs of this folder; the driver (bench/run) reads the
 * lines.
 *
 * Invariant: one command, one line, so that the driver never has to guess where an answer ends. */
#include "samples.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

double kr_bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void kr_bench_clear(struct kr_bench_samples *s)
{
    memset(s, 0, sizeof *s);
}

void kr_bench_add(struct kr_bench_samples *s, const char *name, double us)
{
    for (size_t i = 0; i < KR_BENCH_SERIES; i++) {
        if (s->rows[i].name && strcmp(s->rows[i].name, name) != 0)
            continue;
        s->rows[i].name = name;
        if (s->rows[i].count < KR_BENCH_SAMPLES)
            s->rows[i].us[s->rows[i].count++] = us;
        return;
    }
}

void kr_bench_answer(struct kr_bench_samples *s)
{
    printf("{\"ok\":true");
    for (size_t i = 0; i < KR_BENCH_SERIES && s->rows[i].name; i++) {
        printf(",\"%s\":[", s->rows[i].name);
        for (size_t k = 0; k < s->rows[i].count; k++)
            printf("%s%.1f", k > 0 ? "," : "", s->rows[i].us[k]);
        printf("]");
    }
    printf("}\n");
    fflush(stdout);
    kr_bench_clear(s);
}

void kr_bench_refuse(const char *why)
{
    printf("{\"ok\":false,\"error\":\"");
    for (; *why != '\0'; why++)
        putchar(*why == '"' || *why == '\\' || (unsigned char)*why < ' ' ? '\'' : *why);
    printf("\"}\n");
    fflush(stdout);
}

size_t kr_bench_words(char *line, char **words, size_t max)
{
    size_t n = 0;
    char *state;
    for (char *w = strtok_r(line, " \n", &state); w && n < max; w = strtok_r(NULL, " \n", &state))
        words[n++] = w;
    return n;
}

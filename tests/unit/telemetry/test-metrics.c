/* src/base/metrics*.c: the table, the numbers, the text format. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "buf.h"
#include "cause.h"
#include "egress_row.h"
#include "engine.h"
#include "err.h"
#include "metrics.h"
#include "security.h"
#include "http_method.h"
#include <ctype.h>
#include <fcntl.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

static struct kr_metrics *fresh(void)
{
    struct kr_metrics *m = NULL;

    if (kr_metrics_new(&m) < 0)
        abort();
    return m;
}

static char *text_of(const struct kr_metrics *m)
{
    struct kr_buf b;

    kr_buf_init(&b, 8u << 20);
    if (kr_metrics_write(m, &b) < 0)
        abort();
    return kr_buf_steal(&b, NULL);
}

/* Is this whole line there? */
static int has_line(const char *text, const char *line)
{
    size_t len = strlen(line);

    for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        if (strncmp(at, line, len) == 0 && at[len] == '\n')
            return 1;
    return 0;
}

/* ---- the table ---- */

static int is_name(const char *s)
{
    for (const char *p = s; *p; p++)
        if (!islower((unsigned char)*p) && *p != '_' && !(isdigit((unsigned char)*p) && p > s))
            return 0;
    return *s != '\0';
}

static int ends_with(const char *s, const char *end)
{
    return strlen(s) >= strlen(end) && strcmp(s + strlen(s) - strlen(end), end) == 0;
}

static void rows_are_complete(void)
{
    for (unsigned id = 0; id < KR_METRIC_MAX_; id++) {
        const struct kr_metric_row *row = &kr_metric_rows[id];

        CHECK(row->name && is_name(row->name));
        CHECK(row->help && ends_with(row->help, ".") && row->example && strstr(row->example, row->name));
        CHECK((row->type == KR_METRIC_COUNTER) == ends_with(row->name, "_total"));
        CHECK((row->type == KR_METRIC_HISTOGRAM) == (row->buckets != NULL));
        CHECK(row->type != KR_METRIC_HISTOGRAM || ends_with(row->name, "_seconds"));
        for (unsigned other = 0; other < id; other++)
            CHECK(strcmp(row->name, kr_metric_rows[other].name) != 0);
        for (unsigned i = 0; i < KR_METRIC_LABELS_MAX && row->labels[i].name; i++) {
            CHECK(is_name(row->labels[i].name) && strcmp(row->labels[i].name, "le") != 0);
            CHECK((row->labels[i].values != NULL) != (row->labels[i].room > 0));
        }
    }
}

static void buckets_ascend_over_the_stated_range(void)
{
    for (unsigned id = 0; id < KR_METRIC_MAX_; id++) {
        const double *b = kr_metric_rows[id].buckets;
        unsigned n = 0;

        for (; b && b[n] > 0; n++)
            CHECK(n < KR_METRIC_BUCKETS_MAX && (n == 0 || b[n] > b[n - 1]));
        CHECK(!b || n >= 10);
    }
    CHECK(kr_metric_rows[KR_M_RUN_SECONDS].buckets[0] == 0.001 && kr_metric_rows[KR_M_RUN_SECONDS].buckets[15] == 120);
    CHECK(kr_metric_rows[KR_M_HTTP_SECONDS].buckets[0] == 0.0001 &&
          kr_metric_rows[KR_M_HTTP_SECONDS].buckets[15] == 10);
}

static const char *const *values_of(enum kr_metric id, unsigned label, size_t *ret_count)
{
    const char *const *v = kr_metric_rows[id].labels[label].values;

    *ret_count = 0;
    while (v[*ret_count])
        ++*ret_count;
    return v;
}

/* The sets stand in src/base, which cannot see the enums of the folders above it. */
static void sets_are_those_of_their_enums(void)
{
    static const enum kr_metric preloads[] = {KR_M_POOL_PARKED, KR_M_POOL_SIZE, KR_M_ZYGOTE_RESTARTS};
    size_t n;
    const char *const *v = values_of(KR_M_RUNS, 0, &n);

    CHECK(n == KR_CAUSE_MAX_);
    for (size_t i = 0; i < n; i++)
        CHECK(strcmp(v[i], kr_cause_rows[i].name) == 0);
    v = values_of(KR_M_ERRORS, 0, &n);
    CHECK(n > KR_CAUSE_MAX_ - 1);
    for (size_t i = 1; i < KR_CAUSE_MAX_; i++)
        CHECK(strcmp(v[i - 1], kr_cause_rows[i].name) == 0);
    v = values_of(KR_M_RUNS_REFUSED, 0, &n);
    CHECK(n == KR_ERR_MAX_ - 1);
    for (size_t i = 0; i < n; i++)
        CHECK(strcmp(v[i], kr_err_row((enum kr_err_kind)(i + 1))->name) == 0);
    for (size_t p = 0; p < sizeof preloads / sizeof *preloads; p++) {
        v = values_of(preloads[p], 0, &n);
        CHECK(n == KR_PRELOAD_MAX_ + (preloads[p] == KR_M_ZYGOTE_RESTARTS)); /* and those of templates */
        for (size_t i = 0; i < n; i++)
            CHECK(strcmp(v[i], kr_preload_names[i]) == 0);
    }
    v = values_of(KR_M_CONNECTIONS, 0, &n);
    for (size_t i = 0; i <= n; i++)
        CHECK(i < n ? strcmp(v[i], kr_egress_hows[i]) == 0 : !kr_egress_hows[i]);
    v = values_of(KR_M_CONNECTIONS, 1, &n);
    for (size_t i = 0; i <= n; i++)
        CHECK(i < n ? strcmp(v[i], kr_egress_verdicts[i]) == 0 : !kr_egress_verdicts[i]);
    v = values_of(KR_M_SECURITY_EVENTS, 0, &n);
    for (size_t i = 0; i <= n; i++)
        CHECK(i < n ? strcmp(v[i], kr_security_kinds[i]) == 0 : !kr_security_kinds[i]);
    v = values_of(KR_M_HTTP_REQUESTS, 1, &n);
    CHECK(n == KR_HTTP_OTHER);
    for (size_t i = 0; i < n; i++)
        CHECK(strcmp(v[i], kr_http_method_name((enum kr_http_method)i)) == 0);
}

/* ---- numbers ---- */

static void counters_and_gauges(void)
{
    struct kr_metrics *m = fresh();

    kr_metrics_inc(m, KR_M_RUNS, KR_AT("ok"));
    kr_metrics_add(m, KR_M_RUNS, KR_AT("ok"), 2);
    kr_metrics_add(m, KR_M_RUNS, KR_AT("ok"), -7); /* a counter never goes down */
    kr_metrics_add(m, KR_M_RUNS, KR_AT("ok"), NAN);
    kr_metrics_inc(m, KR_M_RUNS, KR_AT("timeout"));
    CHECK(kr_metrics_get(m, KR_M_RUNS, KR_AT("ok")) == 3 && kr_metrics_get(m, KR_M_RUNS, KR_AT("timeout")) == 1);
    CHECK(kr_metrics_get(m, KR_M_RUNS, KR_AT("lost")) == 0);
    kr_metrics_set(m, KR_M_HTTP_REFUSED, KR_AT_NONE, 10);
    kr_metrics_set(m, KR_M_HTTP_REFUSED, KR_AT_NONE, 4);
    CHECK(kr_metrics_get(m, KR_M_HTTP_REFUSED, KR_AT_NONE) == 10);
    kr_metrics_add(m, KR_M_RUNS_ACTIVE, KR_AT_NONE, 2);
    kr_metrics_add(m, KR_M_RUNS_ACTIVE, KR_AT_NONE, -1);
    CHECK(kr_metrics_get(m, KR_M_RUNS_ACTIVE, KR_AT_NONE) == 1);
    kr_metrics_set(m, KR_M_RUNS_ACTIVE, KR_AT_NONE, 0);
    CHECK(kr_metrics_get(m, KR_M_RUNS_ACTIVE, KR_AT_NONE) == 0);
    kr_metrics_observe(m, KR_M_RUNS, KR_AT("ok"), 5); /* not a histogram: ignored */
    kr_metrics_inc(m, KR_M_RUN_SECONDS, KR_AT("ok")); /* nor that a counter */
    kr_metrics_inc(m, (enum kr_metric)9999, KR_AT_NONE);
    CHECK(kr_metrics_get(m, KR_M_RUNS, KR_AT("ok")) == 3 && kr_metrics_get(m, KR_M_RUN_SECONDS, KR_AT("ok")) == 0);
    kr_metrics_free(m);
}

static void nobody_interested_is_fine(void)
{
    struct kr_buf b;

    kr_metrics_inc(NULL, KR_M_RUNS, KR_AT("ok"));
    kr_metrics_set(NULL, KR_M_SANDBOXES, KR_AT_NONE, 1);
    kr_metrics_observe(NULL, KR_M_RUN_SECONDS, KR_AT("ok"), 1);
    kr_metrics_look_at_process(NULL);
    kr_metrics_free(NULL);
    kr_buf_init(&b, 100);
    CHECK(kr_metrics_write(NULL, &b) == 0 && b.len == 0 && kr_metrics_get(NULL, KR_M_RUNS, KR_AT("ok")) == 0);
}

static void unknown_values_are_other(void)
{
    struct kr_metrics *m = fresh();
    char *text = text_of(m);

    CHECK(!strstr(text, "krait_runs_total{cause=\"other\"}"));
    free(text);
    kr_metrics_inc(m, KR_M_RUNS, KR_AT("nonsense"));
    kr_metrics_inc(m, KR_M_RUNS, KR_AT_NONE);
    text = text_of(m);
    CHECK(has_line(text, "krait_runs_total{cause=\"other\"} 2"));
    free(text);
    kr_metrics_free(m);
}

static void texts_are_bounded(void)
{
    const unsigned room = kr_metric_rows[KR_M_HTTP_REQUESTS].labels[0].room;
    struct kr_metrics *m = fresh();
    char route[KR_METRIC_VALUE_MAX + 8], *text;
    unsigned lines = 0;

    for (unsigned i = 0; i < 10 * room; i++) {
        snprintf(route, sizeof route, "/r/%u", i);
        kr_metrics_inc(m, KR_M_HTTP_REQUESTS, KR_AT(route, "GET", "2xx"));
    }
    for (unsigned i = 0; i < room; i++) { /* those that were first keep their place */
        snprintf(route, sizeof route, "/r/%u", i);
        CHECK(kr_metrics_get(m, KR_M_HTTP_REQUESTS, KR_AT(route, "GET", "2xx")) == 1);
    }
    memset(route, 'x', sizeof route);
    route[KR_METRIC_VALUE_MAX + 1] = '\0';
    kr_metrics_inc(m, KR_M_HTTP_REQUESTS, KR_AT(route, "GET", "2xx")); /* too long */
    CHECK(kr_metrics_get(m, KR_M_HTTP_REQUESTS, KR_AT(NULL, "GET", "2xx")) == 9 * room + 1);
    text = text_of(m);
    for (const char *at = text; (at = strstr(at, "\nkrait_http_requests_total{")); at++)
        lines++;
    CHECK(lines == room + 1);
    free(text);
    kr_metrics_free(m);
}

static void a_text_as_long_as_may_be(void)
{
    struct kr_metrics *m = fresh();
    char route[KR_METRIC_VALUE_MAX + 1];

    memset(route, 'y', sizeof route);
    route[KR_METRIC_VALUE_MAX] = '\0';
    kr_metrics_inc(m, KR_M_HTTP_REQUESTS, KR_AT(route, "GET", "2xx"));
    CHECK(kr_metrics_get(m, KR_M_HTTP_REQUESTS, KR_AT(route, "GET", "2xx")) == 1);
    CHECK(kr_metrics_get(m, KR_M_HTTP_REQUESTS, KR_AT(NULL, "GET", "2xx")) == 0);
    kr_metrics_free(m);
}

static void histograms_are_cumulative_in_text(void)
{
    struct kr_metrics *m = fresh();
    char *text;

    kr_metrics_observe(m, KR_M_EXECUTION_SECONDS, KR_AT_NONE, 0.0004);
    kr_metrics_observe(m, KR_M_EXECUTION_SECONDS, KR_AT_NONE, 0.001); /* a bound is in its bucket */
    kr_metrics_observe(m, KR_M_EXECUTION_SECONDS, KR_AT_NONE, 0.3);
    kr_metrics_observe(m, KR_M_EXECUTION_SECONDS, KR_AT_NONE, 500);
    kr_metrics_observe(m, KR_M_EXECUTION_SECONDS, KR_AT_NONE, -1); /* a clock that was set back */
    kr_metrics_observe(m, KR_M_EXECUTION_SECONDS, KR_AT_NONE, NAN);
    CHECK(kr_metrics_get(m, KR_M_EXECUTION_SECONDS, KR_AT_NONE) == 5);
    text = text_of(m);
    CHECK(has_line(text, "# TYPE sandbox_execution_duration_seconds histogram"));
    CHECK(has_line(text, "sandbox_execution_duration_seconds_bucket{le=\"0.001\"} 3"));
    CHECK(has_line(text, "sandbox_execution_duration_seconds_bucket{le=\"0.25\"} 3"));
    CHECK(has_line(text, "sandbox_execution_duration_seconds_bucket{le=\"0.5\"} 4"));
    CHECK(has_line(text, "sandbox_execution_duration_seconds_bucket{le=\"120\"} 4"));
    CHECK(has_line(text, "sandbox_execution_duration_seconds_bucket{le=\"+Inf\"} 5"));
    CHECK(has_line(text, "sandbox_execution_duration_seconds_sum 500.3014"));
    CHECK(has_line(text, "sandbox_execution_duration_seconds_count 5"));
    free(text);
    kr_metrics_free(m);
}

/* ---- text ---- */

static void the_start_shows_zeroes_and_no_guesses(void)
{
    struct kr_metrics *m = fresh();
    char *text = text_of(m);

    CHECK(has_line(text, "sandbox_executions_total{result=\"success\"} 0"));
    CHECK(has_line(text, "sandbox_executions_total{result=\"error\"} 0"));
    CHECK(has_line(text, "sandbox_package_installs_total{result=\"success\"} 0"));
    CHECK(has_line(text, "sandbox_errors_total{type=\"timeout\"} 0"));
    CHECK(has_line(text, "sandbox_execution_duration_seconds_count 0"));
    CHECK(has_line(text, "krait_run_seconds_bucket{cause=\"ok\",le=\"+Inf\"} 0"));
    CHECK(!strstr(text, "krait_sandboxes")); /* the number was not set */
    CHECK(!strstr(text, "krait_http_requests_total"));
    CHECK(strstr(text, "krait_build_info{version=\"" KR_VERSION "\",compiler=\""));
    free(text);
    kr_metrics_free(m);
}

static void labels_are_escaped(void)
{
    struct kr_metrics *m = fresh();
    char *text;

    kr_metrics_inc(m, KR_M_HTTP_REQUESTS, KR_AT("a\"b\\c\nd\xff\xe2\x82", "POST", "5xx"));
    text = text_of(m);
    CHECK(has_line(text, "krait_http_requests_total{route=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\xef\xbf\xbd\",method=\"POST\","
                         "status=\"5xx\"} 1"));
    free(text);
    kr_metrics_free(m);
}

static void numbers_read_back(void)
{
    static const double values[] = {
        0, 1, 0.1, 1e9, 123456789012345, 9007199254740992, 1.0 / 3, 5e-324, 1.7976931348623157e308};
    struct kr_metrics *m = fresh();
    char *text;

    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const char *at;

        kr_metrics_set(m, KR_M_STORE_BYTES, KR_AT_NONE, values[i]);
        text = text_of(m);
        at = strstr(text, "\nkrait_store_bytes ");
        CHECK(at && strtod(at + strlen("\nkrait_store_bytes "), NULL) == values[i]);
        free(text);
    }
    kr_metrics_set(m, KR_M_STORE_BYTES, KR_AT_NONE, INFINITY);
    kr_metrics_set(m, KR_M_DATA_BYTES, KR_AT_NONE, NAN);
    text = text_of(m);
    CHECK(has_line(text, "krait_store_bytes +Inf") && has_line(text, "krait_data_bytes NaN"));
    free(text);
    kr_metrics_free(m);
}

/* Every line is a comment of a known form or `name{labels} value`; a metric's lines stand together. */
static void every_line_has_the_form(void)
{
    struct kr_metrics *m = fresh();
    char *text, *save = NULL, current[64] = "";
    unsigned count = 0;

    kr_metrics_look_at_process(m);
    kr_metrics_inc(m, KR_M_HTTP_REQUESTS, KR_AT("/x", "GET", "2xx"));
    text = text_of(m);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), count++) {
        char name[64];
        int at = 0;
        char *value;

        if (strncmp(line, "# HELP ", 7) == 0) {
            CHECK(sscanf(line + 7, "%63[a-z_] ", current) == 1);
            continue;
        }
        if (strncmp(line, "# TYPE ", 7) == 0) {
            CHECK(sscanf(line + 7, "%63[a-z_] ", name) == 1 && strcmp(name, current) == 0);
            continue;
        }
        CHECK(sscanf(line, "%63[a-z_]%n", name, &at) == 1 && strncmp(name, current, strlen(current)) == 0);
        CHECK(line[at] == '{' || line[at] == ' ');
        value = strrchr(line, ' ');
        CHECK(value && (line[at] != '{' || value[-1] == '}'));
        CHECK(value[1] && strspn(value + 1, "0123456789.e+-Inf") == strlen(value + 1));
    }
    CHECK(count > 300);
    free(text);
    kr_metrics_free(m);
}

static void a_full_buffer_is_told(void)
{
    struct kr_metrics *m = fresh();
    struct kr_buf b;

    kr_buf_init(&b, 500);
    CHECK(kr_metrics_write(m, &b) < 0);
    kr_buf_done(&b);
    kr_metrics_free(m);
}

static void the_process_is_looked_at(void)
{
    struct kr_metrics *m = fresh();
    double fds, start;
    int fd;

    kr_metrics_look_at_process(m);
    fds = kr_metrics_get(m, KR_M_PROCESS_FDS, KR_AT_NONE);
    start = kr_metrics_get(m, KR_M_PROCESS_START, KR_AT_NONE);
    CHECK(fds >= 3 && fds <= 1000 && kr_metrics_get(m, KR_M_PROCESS_THREADS, KR_AT_NONE) == 1);
    CHECK(kr_metrics_get(m, KR_M_PROCESS_RESIDENT, KR_AT_NONE) > 100000);
    CHECK(kr_metrics_get(m, KR_M_PROCESS_VIRTUAL, KR_AT_NONE) >= kr_metrics_get(m, KR_M_PROCESS_RESIDENT, KR_AT_NONE));
    CHECK(kr_metrics_get(m, KR_M_PROCESS_FDS_MAX, KR_AT_NONE) >= fds);
    CHECK(fabs(start - (double)time(NULL)) < 60);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    kr_metrics_look_at_process(m);
    CHECK(kr_metrics_get(m, KR_M_PROCESS_FDS, KR_AT_NONE) == fds + 1);
    CHECK(kr_metrics_get(m, KR_M_PROCESS_START, KR_AT_NONE) == start);
    close(fd);
    kr_metrics_free(m);
}

static void the_page_has_every_row(void)
{
    char *page = NULL;
    size_t len;
    FILE *out = open_memstream(&page, &len);

    kr_metrics_dump(out);
    fclose(out);
    for (unsigned id = 0; id < KR_METRIC_MAX_; id++) {
        char head[80];

        snprintf(head, sizeof head, "\n## %s\n", kr_metric_rows[id].name);
        CHECK(strstr(page, head) && strstr(page, kr_metric_rows[id].help) && strstr(page, kr_metric_rows[id].example));
    }
    free(page);
}

int main(void)
{
    RUN(rows_are_complete);
    RUN(buckets_ascend_over_the_stated_range);
    RUN(sets_are_those_of_their_enums);
    RUN(counters_and_gauges);
    RUN(nobody_interested_is_fine);
    RUN(unknown_values_are_other);
    RUN(texts_are_bounded);
    RUN(a_text_as_long_as_may_be);
    RUN(histograms_are_cumulative_in_text);
    RUN(the_start_shows_zeroes_and_no_guesses);
    RUN(labels_are_escaped);
    RUN(numbers_read_back);
    RUN(every_line_has_the_form);
    RUN(a_full_buffer_is_told);
    RUN(the_process_is_looked_at);
    RUN(the_page_has_every_row);
    CHECK_DONE();
}

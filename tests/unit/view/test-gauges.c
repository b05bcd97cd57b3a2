/* The texts of gauges: what they say, in the formats that programs read, and always as long. */
#include "gauges.h"
#include "check.h"
#include <inttypes.h>

static const struct kr_gauge_facts some = {
    .uptime_ms = 100000,
    .boot = 1700000000,
    .cpus = 2,
    .tasks = 3,
    .user_ns = 12000000000,
    .system_ns = 3000000000,
    .memory = 1u << 30,
    .used = 300u << 20,
    .cached = 100u << 20,
    .shared = 60u << 20,
    .active = 10u << 20,
    .inactive = 30u << 20,
    .load_milli = {1500, 250, 0},
};

static uint64_t kib_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : UINT64_MAX;
}

static void stat_tells_the_time_used(void)
{
    char text[KR_GAUGE_TEXT_MAX];
    kr_gauge_text(KR_GAUGE_STAT, &some, text);
    /* 100 s of two processors, of which 12 were a program's and 3 the kernel's. */
    CHECK(strncmp(text, "cpu  1200 0 300 18500 0 0 0 0 0 0 ", 34) == 0);
    CHECK(strstr(text, "\ncpu0 600 0 150 9250 0 ") && strstr(text, "\ncpu1 600 0 150 9250 0 "));
    CHECK(!strstr(text, "\ncpu2 "));
    CHECK(strstr(text, "\nbtime 1700000000\n") && strstr(text, "\nctxt 0\n") && strstr(text, "\nprocesses 3 "));
}

static void meminfo_adds_up(void)
{
    char text[KR_GAUGE_TEXT_MAX];
    kr_gauge_text(KR_GAUGE_MEMINFO, &some, text);
    CHECK(kib_of(text, "MemTotal:") == 1u << 20);
    CHECK(kib_of(text, "MemFree:") == 724u << 10);
    CHECK(kib_of(text, "MemAvailable:") == 764u << 10); /* with what a shortage would drop */
    CHECK(kib_of(text, "\nCached:") == 100u << 10);
    CHECK(kib_of(text, "Shmem:") == 60u << 10);
    CHECK(kib_of(text, "AnonPages:") == 200u << 10);
    CHECK(kib_of(text, "SwapTotal:") == 0);
}

/* The kernel charges in batches: a figure may pass another for a moment. */
static void meminfo_never_shows_more_than_there_is(void)
{
    struct kr_gauge_facts odd = some;
    char text[KR_GAUGE_TEXT_MAX];
    odd.used = odd.memory + (1u << 20);
    odd.cached = odd.active = odd.inactive = 2ull << 30;
    kr_gauge_text(KR_GAUGE_MEMINFO, &odd, text);
    CHECK(kib_of(text, "MemFree:") == 0);
    CHECK(kib_of(text, "MemAvailable:") <= kib_of(text, "MemTotal:"));
    CHECK(kib_of(text, "\nCached:") <= kib_of(text, "MemTotal:"));
}

static void uptime_and_load_stand_first_in_their_lines(void)
{
    char text[KR_GAUGE_TEXT_MAX];
    kr_gauge_text(KR_GAUGE_UPTIME, &some, text);
    CHECK(strncmp(text, "100.00 185.00 ", 14) == 0);
    kr_gauge_text(KR_GAUGE_LOADAVG, &some, text);
    CHECK(strncmp(text, "1.50 0.25 0.00 1/3 3 ", 21) == 0);
}

static void every_text_keeps_its_length(void)
{
    struct kr_gauge_facts small = {.cpus = 64, .boot = 1700000000, .tasks = 1, .memory = 1u << 20};
    struct kr_gauge_facts large = {.uptime_ms = 400ull * 86400 * 1000,
                                   .boot = 1999999999,
                                   .cpus = 64,
                                   .tasks = 4000000,
                                   .user_ns = 400ull * 86400 * 64 * 1000000000,
                                   .system_ns = 86400ull * 1000000000,
                                   .memory = 4ull << 40,
                                   .used = 3ull << 40,
                                   .cached = 1ull << 40,
                                   .load_milli = {64000, 64000, 64000}};
    char text[KR_GAUGE_TEXT_MAX];
    for (int i = 0; i < KR_GAUGE_MAX_; i++) {
        size_t one = kr_gauge_text((enum kr_gauge)i, &small, text);
        CHECK(one > 0 && one < KR_GAUGE_TEXT_MAX - 1 && text[one - 1] == '\n');
        CHECK(kr_gauge_text((enum kr_gauge)i, &large, text) == one && text[one - 1] == '\n');
    }
}

static void a_limit_is_shown_in_whole_processors(void)
{
    CHECK(kr_gauge_cpus(10) == 1 && kr_gauge_cpus(500) == 1 && kr_gauge_cpus(1000) == 1);
    CHECK(kr_gauge_cpus(1001) == 2 && kr_gauge_cpus(2000) == 2);
    CHECK(kr_gauge_cpus(1024000) == KR_GAUGE_CPUS_MAX);
}

int main(void)
{
    RUN(stat_tells_the_time_used);
    RUN(meminfo_adds_up);
    RUN(meminfo_never_shows_more_than_there_is);
    RUN(uptime_and_load_stand_first_in_their_lines);
    RUN(every_text_keeps_its_length);
    RUN(a_limit_is_shown_in_whole_processors);
    CHECK_DONE();
}

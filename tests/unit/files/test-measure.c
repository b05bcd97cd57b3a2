/* src/files/measure: what a folder holds, and whether that is too much. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "files.h"
#include "measure.h"
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct kr_err err;

/* Deeper than any path and than the descriptors that a walk keeps. */
static void any_depth_is_measured(void)
{
    enum { DEPTH = 3000 };
    char block[8192];
    struct kr_measure usage;
    char folder[] = "/tmp/krait-test-measure-XXXXXX";
    int at, next, ws;

    CHECK(mkdtemp(folder));
    ws = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    memset(block, 'x', sizeof block);
    at = openat(ws, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEPTH; i++) {
        CHECK(mkdirat(at, "d", 0755) == 0);
        CHECK(mknodat(at, "beside", S_IFREG | 0644, 0) == 0);
        next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    next = openat(at, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK(write(next, block, sizeof block) == (ssize_t)sizeof block);
    close(next);
    close(at);
    CHECK(kr_files_usage(ws, "", NULL, &usage, &err) == 0);
    CHECK(usage.gap == KR_MEASURE_WHOLE && usage.entries == 2 * DEPTH + 1 && usage.bytes >= sizeof block);
    CHECK(kr_files_usage(ws, "", &(struct kr_measure_max){.entries = DEPTH}, &usage, &err) == 0);
    CHECK(usage.gap == KR_MEASURE_TOO_MANY && usage.entries == DEPTH);
    CHECK(kr_files_usage(ws, "", &(struct kr_measure_max){.deadline_ns = 1}, &usage, &err) == 0);
    CHECK(usage.gap == KR_MEASURE_TOO_LATE);
    while (kr_files_delete(ws, "", true, NULL, &err) == 1)
        ;
    close(ws);
    CHECK(rmdir(folder) == 0);
}

static void a_measurement_is_judged_on_the_safe_side(void)
{
    const struct kr_measure_bound whole = {.bytes = 100, .entries = 10, .left = UINT64_MAX};
    const struct kr_measure_bound grows = {.bytes = 100, .entries = 10, .left = UINT64_MAX, .grows = true};
    const struct kr_measure_bound poor = {.bytes = 100, .entries = 10, .left = 5};
    const struct {
        const struct kr_measure_bound *bound;
        struct kr_measure base, now;
        enum kr_measure_over over;
    } rows[] = {
        {&whole, {.bytes = 50}, {.bytes = 100}, KR_MEASURE_WITHIN},
        {&whole, {.bytes = 50}, {.bytes = 101}, KR_MEASURE_OVER_BYTES},
        {&whole, {.bytes = 200}, {.bytes = 200}, KR_MEASURE_WITHIN}, /* it was there, and may be read and deleted */
        {&whole, {.bytes = 200}, {.bytes = 201}, KR_MEASURE_OVER_BYTES},
        {&whole, {.entries = 3}, {.entries = 11}, KR_MEASURE_OVER_ENTRIES},
        {&whole, {.gap = KR_MEASURE_TOO_MANY}, {.gap = KR_MEASURE_TOO_MANY}, KR_MEASURE_OVER_GAP},
        {&whole, {0}, {.gap = KR_MEASURE_UNREADABLE, .unreadable = 1}, KR_MEASURE_OVER_GAP},
        {&grows, {.bytes = 200}, {.bytes = 300}, KR_MEASURE_WITHIN},
        {&grows, {.bytes = 200}, {.bytes = 301}, KR_MEASURE_OVER_BYTES},
        {&grows,
         {.gap = KR_MEASURE_UNREADABLE, .unreadable = 1},
         {.gap = KR_MEASURE_UNREADABLE, .unreadable = 1},
         KR_MEASURE_WITHIN}, /* another user's folder, from before */
        {&grows,
         {.gap = KR_MEASURE_UNREADABLE, .unreadable = 1},
         {.gap = KR_MEASURE_UNREADABLE, .unreadable = 2},
         KR_MEASURE_OVER_GAP},
        {&poor, {.bytes = 50}, {.bytes = 55}, KR_MEASURE_WITHIN},
        {&poor, {.bytes = 50}, {.bytes = 56}, KR_MEASURE_OVER_BYTES},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK(kr_measure_judge(rows[i].bound, &rows[i].base, &rows[i].now) == rows[i].over);
}

int main(void)
{
    RUN(any_depth_is_measured);
    RUN(a_measurement_is_judged_on_the_safe_side);
    CHECK_DONE();
}

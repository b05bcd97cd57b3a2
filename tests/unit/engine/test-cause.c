/* src/box without a loop: causes as a table, output streams, claims, the size of a folder. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "cause.h"
#include "claim.h"
#include "output.h"
#include "json_scan.h"
#include "measure.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- causes ---- */

#define EXITED(n) .ended = true, .status_known = true, .status = (n) << 8
#define SIGNALED(n) .ended = true, .status_known = true, .status = (n)
#define MIB (UINT64_C(1) << 20)
#define ALL (KR_LAYER_CGROUP_MEMORY | KR_LAYER_CGROUP_PIDS | KR_LAYER_CGROUP_CPU)
#define CLAIM(word) .claim = KR_CLAIM_##word
#define RAISES(what) .claim = KR_CLAIM_EXCEPTION, .claimed_code = 1, .blame = KR_BLAME_##what, .data_limited = true

/* clang-format off */
static const struct {
    const char *what;
    struct kr_cause_facts facts;
    enum kr_cause cause;
    int exit_code;
    unsigned hits;
} causes[] = {
    /* the claim, while the session lives */
    {"ok", {CLAIM(OK)}, KR_CAUSE_OK, 0, 0},
    {"exception", {RAISES(NONE)}, KR_CAUSE_EXCEPTION, 1, 0},
    {"sys.exit(3)", {CLAIM(EXIT), .claimed_code = 3}, KR_CAUSE_EXIT, 3, 0},
    {"refused by the policy", {CLAIM(DENIED)}, KR_CAUSE_DENIED, 126, 0},
    {"a script refused by the policy", {CLAIM(DENIED), .claimed_code = 126, EXITED(126)}, KR_CAUSE_DENIED, 126, 0},
    {"no claim, no end", {0}, KR_CAUSE_LOST, 125, 0},
    /* the process */
    {"script ok", {CLAIM(OK), EXITED(0)}, KR_CAUSE_OK, 0, 0},
    {"script sys.exit(7)", {CLAIM(EXIT), .claimed_code = 7, EXITED(7)}, KR_CAUSE_EXIT, 7, 0},
    {"script exception", {RAISES(NONE), EXITED(1)}, KR_CAUSE_EXCEPTION, 1, 0},
    {"says ok, exits 3", {CLAIM(OK), EXITED(3)}, KR_CAUSE_EXIT, 3, 0},
    {"says ok, dies of SIGSEGV", {CLAIM(OK), SIGNALED(SIGSEGV)}, KR_CAUSE_SIGNAL, 139, 0},
    {"os._exit(0)", {EXITED(0)}, KR_CAUSE_EXIT, 0, 0},
    {"os._exit(5)", {EXITED(5)}, KR_CAUSE_EXIT, 5, 0},
    {"abort", {SIGNALED(SIGABRT)}, KR_CAUSE_SIGNAL, 134, 0},
    {"abort with a core", {SIGNALED(SIGABRT | 0x80)}, KR_CAUSE_SIGNAL, 134, 0},
    {"kills itself", {SIGNALED(SIGKILL), .after.have = ALL}, KR_CAUSE_SIGNAL, 137, 0},
    {"SIGSYS", {SIGNALED(SIGSYS)}, KR_CAUSE_DENIED, 125, 0},
    {"unknown status", {.ended = true}, KR_CAUSE_LOST, 125, 0},
    {"unknown status after ok", {CLAIM(OK), .ended = true}, KR_CAUSE_LOST, 125, 0},
    {"broke the protocol", {CLAIM(OK), .broken = true, .killed = true, SIGNALED(SIGKILL)}, KR_CAUSE_LOST, 125, 0},
    {"closed its channel and lives on", {.broken = true, .hung_up = true, .killed = true}, KR_CAUSE_LOST, 125, 0},
    /* memory */
    {"oom kill, and a death that takes long",
     {.broken = true, .hung_up = true, .killed = true, .limits.memory = 64 * MIB,
      .after = {.have = ALL, .oom_kills = 1, .memory_hits = 4, .memory_peak = 64 * MIB}},
     KR_CAUSE_MEMORY_LIMIT, 137, KR_HIT_MEMORY},
    {"oom kill of a child, and bytes that are no frame",
     {.broken = true, .killed = true, .limits.memory = 64 * MIB,
      .after = {.have = ALL, .oom_kills = 1, .memory_hits = 4, .memory_peak = 64 * MIB}},
     KR_CAUSE_LOST, 125, KR_HIT_MEMORY},
    {"oom kill",
     {SIGNALED(SIGKILL), .after = {.have = ALL, .oom_kills = 1, .memory_hits = 1}},
     KR_CAUSE_MEMORY_LIMIT, 137, KR_HIT_MEMORY},
    {"oom kill at the limit",
     {SIGNALED(SIGKILL), .limits.memory = 64 * MIB,
      .after = {.have = ALL, .oom_kills = 1, .memory_hits = 4, .memory_peak = 64 * MIB}},
     KR_CAUSE_MEMORY_LIMIT, 137, KR_HIT_MEMORY},
    {"oom kill, an ancestor's shortage",
     {SIGNALED(SIGKILL), .limits.memory = 1024 * MIB,
      .after = {.have = ALL, .oom_kills = 1, .memory_peak = 82 * MIB}}, KR_CAUSE_LOST, 125, 0},
    {"oom kill, an ancestor's shortage near the limit",
     {SIGNALED(SIGKILL), .limits.memory = 64 * MIB,
      .after = {.have = ALL, .oom_kills = 1, .memory_peak = 60 * MIB}}, KR_CAUSE_LOST, 125, 0},
    {"oom kill, an ancestor's shortage after a hit of another cell's of the same folder",
     {SIGNALED(SIGKILL), .limits.memory = 64 * MIB,
      .after = {.have = ALL, .oom_kills = 1, .memory_hits = 3, .memory_peak = 20 * MIB}}, KR_CAUSE_LOST, 125, 0},
    {"oom kill, an ancestor's shortage, after one of its own",
     {SIGNALED(SIGKILL), .limits.memory = 64 * MIB,
      .before = {.have = ALL, .oom_kills = 1, .memory_hits = 3, .memory_peak = 64 * MIB},
      .after = {.have = ALL, .oom_kills = 2, .memory_hits = 3, .memory_peak = 64 * MIB}}, KR_CAUSE_LOST, 125, 0},
    {"child killed for an ancestor's shortage, survived",
     {CLAIM(OK), .limits.memory = 64 * MIB, .after = {.have = ALL, .oom_kills = 1, .memory_peak = 20 * MIB}},
     KR_CAUSE_OK, 0, 0},
    {"MemoryError while a child was killed for an ancestor's shortage",
     {RAISES(MEMORY), .raised = true, .limits.memory = 64 * MIB,
      .after = {.have = ALL, .oom_kills = 1, .memory_peak = 20 * MIB}}, KR_CAUSE_EXCEPTION, 1, 0},
    {"oom kill of an earlier run",
     {SIGNALED(SIGKILL), .before = {.have = ALL, .oom_kills = 1}, .after = {.have = ALL, .oom_kills = 1}},
     KR_CAUSE_SIGNAL, 137, 0},
    {"oom kill without a counter", {SIGNALED(SIGKILL), .after = {.oom_kills = 1}}, KR_CAUSE_SIGNAL, 137, 0},
    {"child oom killed, survived",
     {CLAIM(OK), .before.have = ALL, .after = {.have = ALL, .oom_kills = 1, .memory_hits = 1}},
     KR_CAUSE_OK, 0, KR_HIT_MEMORY},
    {"MemoryError at the limit",
     {RAISES(MEMORY), .raised = true, .limits.memory = 100 * MIB, .after = {.have = ALL, .memory_peak = 95 * MIB}},
     KR_CAUSE_MEMORY_LIMIT, 137, KR_HIT_MEMORY},
    {"MemoryError of RLIMIT_DATA",
     {RAISES(MEMORY), .limits.memory = 100 * MIB, .after = {.have = ALL, .memory_peak = 5 * MIB}},
     KR_CAUSE_MEMORY_LIMIT, 137, KR_HIT_MEMORY},
    {"raise MemoryError",
     {RAISES(MEMORY), .raised = true, .limits.memory = 100 * MIB, .after = {.have = ALL, .memory_peak = 5 * MIB}},
     KR_CAUSE_EXCEPTION, 1, 0},
    {"MemoryError in a script", {RAISES(MEMORY), EXITED(1)}, KR_CAUSE_MEMORY_LIMIT, 137, KR_HIT_MEMORY},
    /* disk */
    {"ENOSPC", {RAISES(DISK)}, KR_CAUSE_DISK_LIMIT, 137, KR_HIT_DISK},
    {"EFBIG", {RAISES(FILE_SIZE)}, KR_CAUSE_DISK_LIMIT, 137, KR_HIT_FILE_SIZE},
    {"SIGXFSZ", {SIGNALED(SIGXFSZ)}, KR_CAUSE_DISK_LIMIT, 137, KR_HIT_FILE_SIZE},
    {"sweep", {.disk_exceeded = true, .killed = true, SIGNALED(SIGKILL)}, KR_CAUSE_DISK_LIMIT, 137, KR_HIT_DISK},
    /* processes */
    {"EAGAIN and the counter",
     {RAISES(PROCESSES), .after = {.have = ALL, .pids_hits = 1}}, KR_CAUSE_PROCESS_LIMIT, 137, KR_HIT_PROCESSES},
    {"EAGAIN and no hit", {RAISES(PROCESSES), .after = {.have = ALL}}, KR_CAUSE_EXCEPTION, 1, 0},
    {"EAGAIN and no counter", {RAISES(PROCESSES)}, KR_CAUSE_PROCESS_LIMIT, 137, KR_HIT_PROCESSES},
    {"fork refused, survived", {CLAIM(OK), .after = {.have = ALL, .pids_hits = 4}}, KR_CAUSE_OK, 0, KR_HIT_PROCESSES},
    /* CPU time */
    {"SIGXCPU at the limit",
     {SIGNALED(SIGXCPU), .limits.cpu_time_ms = 1000, .after = {.have = ALL, .cpu_ns = 1100000000}},
     KR_CAUSE_CPU_LIMIT, 137, KR_HIT_CPU_TIME},
    {"SIGXCPU without a limit",
     {SIGNALED(SIGXCPU), .after = {.have = ALL, .cpu_ns = 1100000000}}, KR_CAUSE_SIGNAL, 128 + SIGXCPU, 0},
    {"SIGXCPU, ticks ahead of the counter",
     {SIGNALED(SIGXCPU), .limits.cpu_time_ms = 1000, .after = {.have = ALL, .cpu_ns = 700000000}},
     KR_CAUSE_CPU_LIMIT, 137, KR_HIT_CPU_TIME},
    {"SIGXCPU far from the limit",
     {SIGNALED(SIGXCPU), .limits.cpu_time_ms = 9000, .after = {.have = ALL, .cpu_ns = 100}},
     KR_CAUSE_SIGNAL, 128 + SIGXCPU, 0},
    {"SIGXCPU without a counter",
     {SIGNALED(SIGXCPU), .limits.cpu_time_ms = 1000}, KR_CAUSE_CPU_LIMIT, 137, KR_HIT_CPU_TIME},
    {"our look",
     {.cpu_exceeded = true, .killed = true, SIGNALED(SIGKILL), .limits.cpu_time_ms = 1000},
     KR_CAUSE_CPU_LIMIT, 137, KR_HIT_CPU_TIME},
    /* time, interrupts, cancels */
    {"timeout, interrupted", {RAISES(KEYBOARD), .timed_out = true}, KR_CAUSE_TIMEOUT, 124, KR_HIT_TIMEOUT},
    {"timeout, killed", {.timed_out = true, .killed = true, SIGNALED(SIGKILL)}, KR_CAUSE_TIMEOUT, 124, KR_HIT_TIMEOUT},
    {"timeout, caught", {CLAIM(OK), .timed_out = true}, KR_CAUSE_TIMEOUT, 124, KR_HIT_TIMEOUT},
    {"interrupted", {RAISES(KEYBOARD), .interrupted = true}, KR_CAUSE_INTERRUPTED, 130, 0},
    {"interrupted and caught", {CLAIM(OK), .interrupted = true}, KR_CAUSE_OK, 0, 0},
    {"interrupted, another exception", {RAISES(NONE), .interrupted = true}, KR_CAUSE_EXCEPTION, 1, 0},
    {"interrupted, killed", {.interrupted = true, .killed = true, SIGNALED(SIGKILL)}, KR_CAUSE_INTERRUPTED, 130, 0},
    {"dies of our SIGINT", {.interrupted = true, SIGNALED(SIGINT)}, KR_CAUSE_INTERRUPTED, 130, 0},
    {"dies of a SIGINT of its own", {SIGNALED(SIGINT)}, KR_CAUSE_SIGNAL, 130, 0},
    {"raises KeyboardInterrupt itself", {RAISES(KEYBOARD)}, KR_CAUSE_EXCEPTION, 130, 0},
    {"cancelled", {.cancelled = true, .killed = true, SIGNALED(SIGKILL)}, KR_CAUSE_CANCELLED, 143, 0},
    {"script that hangs after its end", {CLAIM(OK), .killed = true, SIGNALED(SIGKILL)}, KR_CAUSE_OK, 0, 0},
    {"output cut", {CLAIM(OK), .output_cut = true}, KR_CAUSE_OK, 0, KR_HIT_OUTPUT},
};
/* clang-format on */

static void cause_table(void)
{
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        struct kr_verdict v = kr_cause_decide(&causes[i].facts);

        if (v.cause != causes[i].cause || v.exit_code != causes[i].exit_code || v.hits != causes[i].hits) {
            printf("FAIL cause_table: %s: got %s %d hits %#x\n", causes[i].what, kr_cause_rows[v.cause].name,
                   v.exit_code, v.hits);
            check_failed_ = 1;
        }
    }
}

static void blames(void)
{
    CHECK(kr_blame_of("MemoryError", "", 0) == KR_BLAME_MEMORY);
    CHECK(kr_blame_of("numpy.core._exceptions._ArrayMemoryError", "Unable to allocate", 0) == KR_BLAME_MEMORY);
    CHECK(kr_blame_of("OSError", NULL, ENOSPC) == KR_BLAME_DISK);
    CHECK(kr_blame_of("OSError", NULL, EDQUOT) == KR_BLAME_DISK);
    CHECK(kr_blame_of("OSError", NULL, EFBIG) == KR_BLAME_FILE_SIZE);
    CHECK(kr_blame_of("BlockingIOError", NULL, EAGAIN) == KR_BLAME_PROCESSES);
    CHECK(kr_blame_of("RuntimeError", "can't start new thread", 0) == KR_BLAME_PROCESSES);
    CHECK(kr_blame_of("RuntimeError", "something else", 0) == KR_BLAME_NONE);
    CHECK(kr_blame_of("ValueError", "x", 0) == KR_BLAME_NONE);
    CHECK(kr_blame_of(NULL, NULL, 0) == KR_BLAME_NONE);
}

/* ---- output ---- */

struct taken {
    char text[2][4096];
    size_t len[2];
};

static void take(void *arg, enum kr_stream stream, const char *data, size_t len)
{
    struct taken *t = arg;

    memcpy(t->text[stream] + t->len[stream], data, len);
    t->len[stream] += len;
    t->text[stream][t->len[stream]] = '\0';
}

static void output_splits_utf8(void)
{
    struct taken t = {0};
    struct kr_output o;
    const char *text = "a\xe2\x82\xac\xf0\x9f\x90\x8d!";

    kr_output_init(&o, false, 0, take, &t);
    for (const char *p = text; *p; p++) {
        kr_output_feed(&o, KR_STREAM_STDOUT, p, 1);
        kr_output_feed(&o, KR_STREAM_STDERR, "e", 1); /* the other stream in between does not disturb */
    }
    kr_output_feed(&o, KR_STREAM_STDOUT, "\xe2\x82", 2);
    kr_output_finish(&o);
    CHECK(strcmp(t.text[0], "a\xe2\x82\xac\xf0\x9f\x90\x8d!\xef\xbf\xbd") == 0);
}

static void output_is_cut_once(void)
{
    struct taken t = {0};
    struct kr_output o;

    kr_output_init(&o, false, 10, take, &t);
    kr_output_feed(&o, KR_STREAM_STDERR, "123456", 6);
    kr_output_feed(&o, KR_STREAM_STDOUT, "abc\xe2\x82\xac", 6); /* the cut falls into the character */
    kr_output_feed(&o, KR_STREAM_STDOUT, "more", 4);
    kr_output_feed(&o, KR_STREAM_STDERR, "more", 4);
    kr_output_finish(&o);
    CHECK(o.cut && o.total == 20);
    CHECK(strcmp(t.text[1], "123456") == 0);
    CHECK(strncmp(t.text[0], "abc\n[output cut: ", 17) == 0);
    CHECK(t.text[0][t.len[0] - 1] == '\n' && strchr(t.text[0] + 5, '\n') == t.text[0] + t.len[0] - 1);
}

static void output_exactly_at_the_cap(void)
{
    struct taken t = {0};
    struct kr_output o;

    kr_output_init(&o, false, 4, take, &t);
    kr_output_feed(&o, KR_STREAM_STDOUT, "1234", 4);
    CHECK(!o.cut);
    kr_output_feed(&o, KR_STREAM_STDOUT, "5", 1);
    CHECK(o.cut && strstr(t.text[0], "[output cut: "));
}

static void raw_output_is_bytes(void)
{
    struct taken t = {0};
    struct kr_output o;

    kr_output_init(&o, true, 0, take, &t);
    kr_output_feed(&o, KR_STREAM_STDOUT, "\xff\xfe\xe2", 3);
    kr_output_finish(&o);
    CHECK(t.len[0] == 3 && memcmp(t.text[0], "\xff\xfe\xe2", 3) == 0);
}

/* ---- claims ---- */

static void claims_are_checked(void)
{
    static const char *const bad[] = {
        "",
        "[]",
        "nope",
        "{\"cause\":\"lost\"}",
        "{\"cause\":1}",
        "{\"cause\":\"ok\",\"cause\":\"exit\"}",
        "{}",
        "{\"cause\":\"ok\",\"result\":1}",
        "{\"cause\":\"ok\",\"exit_code\":\"0\"}",
        "{\"cause\":\"exception\",\"error\":{}}",
        "{\"cause\":\"exception\",\"error\":{\"type\":1}}",
        "{\"cause\":\"ok\",\"variables\":{}}",
        "{\"cause\":\"ok\",\"variables\":[null]}",
        "{\"cause\":\"ok\",\"hint\":[]}",
        "{\"cause\":\"denied\"}",
        "{\"cause\":\"denied\",\"findings\":[]}",
        "{\"cause\":\"denied\",\"findings\":[1]}",
        "{\"cause\":\"denied\",\"findings\":[{\"id\":\"P101\"}]}",
        "{\"cause\":\"denied\",\"findings\":[{\"id\":\"P1234567890123456\",\"text\":\"t\"}]}",
        "{\"cause\":\"denied\",\"findings\":[{\"id\":\"P101\",\"text\":\"t\",\"line\":\"1\"}]}",
        "{\"cause\":\"ok\",\"refused\":{}}",
        "{\"cause\":\"ok\",\"analysis\":[]}",
        "{\"cause\":\"ok\",\"recommendations\":[1]}",
        "{\"cause\":\"ok\"} x",
        "{\"cause\":\"\xff\"}",
    };
    struct kr_claim_end c;
    struct kr_err err;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(kr_claim_end(bad[i], strlen(bad[i]), &c, &err) == -EPROTO);
    CHECK(kr_claim_end("{\"cause\":\"exit\",\"exit_code\":4,\"result\":\"a\\u0000b\"}", 50, &c, &err) == 0);
    CHECK(c.claim == KR_CLAIM_EXIT && c.exit_code == 4 && json_string_length(c.result) == 3 && !c.error);
    kr_claim_end_done(&c);
}

static void what_a_policy_says_is_taken(void)
{
    static const char json[] =
        "{\"cause\":\"denied\",\"exit_code\":126,\"findings\":[{\"id\":\"P101\",\"line\":1,\"text\":"
        "\"t\"}],\"refused\":[{\"id\":\"P201\",\"line\":null,\"text\":\"u\"}],"
        "\"analysis\":{},\"recommendations\":[\"r\"]}";
    struct kr_claim_end c;
    struct kr_err err;

    CHECK(kr_claim_end(json, strlen(json), &c, &err) == 0);
    CHECK(c.claim == KR_CLAIM_DENIED && json_array_size(c.findings) == 1 && json_array_size(c.refused) == 1);
    CHECK(c.analysis && json_array_size(c.recommendations) == 1);
    kr_claim_end_done(&c);
    CHECK(!c.findings && !c.refused && !c.analysis && !c.recommendations);
}

static void displays_are_one_line_of_two_members(void)
{
    static const struct {
        const char *said, *handed_on; /* NULL: refused */
    } rows[] = {
        {"{\"data\":{\"a\":0.1},\"metadata\":{}}", "{\"data\":{\"a\":0.1},\"metadata\":{}}"},
        {"{\"data\": {\"a\":\"\\n\\u0000\"}, \"metadata\":{}}", "{\"data\": {\"a\":\"\\n\\u0000\"}, \"metadata\":{}}"},
        {"{\"data\":{}}", "{\"data\":{},\"metadata\":{}}"},
        {"{\"data\":{},\"metadata\":null}", "{\"data\":{},\"metadata\":{}}"},
        {"{\"data\":{},\"metadata\":{},\"seq\":9}", "{\"data\":{},\"metadata\":{}}"},
        {"{\"data\":{},\n\"metadata\":{}}", "{\"data\":{},\"metadata\":{}}"},
        {"{\"data\":{},\r\"metadata\":{}}", "{\"data\":{},\"metadata\":{}}"},
        {" {\"data\":{},\"metadata\":{}}", "{\"data\":{},\"metadata\":{}}"},
        {"{\"data\":{},\"metadata\":{}} ", "{\"data\":{},\"metadata\":{}}"},
        {"{\"data\":{},\"data\":{}}", NULL},
        {"{\"metadata\":{}}", NULL},
        {"{\"data\":[]}", NULL},
        {"{\"data\":{},\"metadata\":[]}", NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *json = NULL;
        char *made = NULL;
        size_t len = 0;
        struct kr_err err;
        int r = kr_claim_display(rows[i].said, strlen(rows[i].said), &json, &len, &made, &err);

        CHECK(r == (rows[i].handed_on ? 0 : -EPROTO));
        CHECK(!rows[i].handed_on || (len == strlen(rows[i].handed_on) && memcmp(json, rows[i].handed_on, len) == 0));
        free(made);
    }
}

static void scan_counts_what_a_parser_would_build(void)
{
    static const struct kr_scan_max max = {.values = 5, .depth = 2, .scalar = 4, .bare = 12};
    static const struct {
        const char *text;
        bool fits;
    } rows[] = {
        {"{\"a\":1}", true},
        {"[1,2,3,4]", true},
        {"[1,2,3,4,5]", false},      /* six values, the array among them */
        {"{\"a\":1,\"b\":2}", true}, /* keys count: five */
        {"{\"a\":1,\"b\":[]}", true},
        {"{\"a\":1,\"b\":2,\"c\":3}", false},
        {"[[]]", true},
        {"[[[]]]", false},
        {"[[],[],[]]", true}, /* beside each other is not within each other */
        {"[1234]", true},
        {"[12345]", false},
        {"\"[[[[[,,,,,,,,,,,,,,,,,,,,,,,,,,\"", true}, /* text is text */
        {"\"a\\\"[[[[[\"", true},                      /* a quote behind a backslash ends no string */
        {"\"a\\\\\"[[[", false},                       /* but one behind two does */
        {"            ", true},
        {"             ", false},
        {"\"never ends [[[[", true}, /* the parser finds no value beyond it either */
        {"\"\\", true},
        {"", true},
        {"]]]]", true},
        {"]]]][[[", false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t len = strlen(rows[i].text);
        char *exact = malloc(len ? len : 1); /* without the final zero: a read past the end is seen by the sanitizer */

        memcpy(exact, rows[i].text, len);
        if ((kr_scan_json(exact, len, &max) == KR_SCAN_FITS) != rows[i].fits)
            printf("row %zu: %s\n", i, rows[i].text);
        CHECK((kr_scan_json(exact, len, &max) == KR_SCAN_FITS) == rows[i].fits);
        free(exact);
    }
}

/* As bodies and messages are bounded: keys do not count, an empty array counts twice, and text of any length is one. */
static void scan_counts_slots(void)
{
    static const struct kr_scan_max max = {.slots = 3, .depth = 2};
    static const struct {
        const char *text;
        enum kr_scan excess;
    } rows[] = {
        {"[1,2]", KR_SCAN_FITS},
        {"[1,2,3]", KR_SCAN_TOO_MANY},
        {"{\"a\":1,\"b\":2}", KR_SCAN_FITS},
        {"[[]]", KR_SCAN_FITS},
        {"[[],[]]", KR_SCAN_TOO_MANY},
        {"[[[", KR_SCAN_TOO_DEEP},
        {"123456789012345678901234567890", KR_SCAN_FITS},
        {"\"[,,,,,,\"", KR_SCAN_FITS},
        {",,,", KR_SCAN_TOO_MANY},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK(kr_scan_json(rows[i].text, strlen(rows[i].text), &max) == rows[i].excess);
}

static void sweep_measures(void)
{
    char dir[] = "/tmp/krait-sweep-XXXXXX", path[64];
    static const char data[100000];
    const struct kr_measure_max max = {0};
    struct kr_measure before, after;
    int fd, top;

    CHECK(mkdtemp(dir));
    top = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(top >= 0 && kr_measure(top, &max, &before) == 0);
    snprintf(path, sizeof path, "%s/sub", dir);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/sub/file", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(write(fd, data, sizeof data) == (ssize_t)sizeof data);
    close(fd);
    snprintf(path, sizeof path, "%s/link", dir);
    CHECK(symlink("/usr", path) == 0);
    CHECK(kr_measure(top, &max, &after) == 0 && after.gap == KR_MEASURE_WHOLE && after.entries == 3);
    CHECK(after.bytes - before.bytes >= sizeof data && after.bytes - before.bytes < 2 * sizeof data + 65536);
    close(top);
    unlink(path);
    snprintf(path, sizeof path, "%s/sub/file", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/sub", dir);
    rmdir(path);
    rmdir(dir);
}

int main(void)
{
    RUN(cause_table);
    RUN(blames);
    RUN(output_splits_utf8);
    RUN(output_is_cut_once);
    RUN(output_exactly_at_the_cap);
    RUN(raw_output_is_bytes);
    RUN(claims_are_checked);
    RUN(what_a_policy_says_is_taken);
    RUN(displays_are_one_line_of_two_members);
    RUN(scan_counts_what_a_parser_would_build);
    RUN(scan_counts_slots);
    RUN(sweep_measures);
    CHECK_DONE();
}

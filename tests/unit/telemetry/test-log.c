/* src/base/log*.c beyond what test-base.c has: formats, fields, secrets, bursts, files. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "err.h"
#include "fd.h"
#include "log.h"
#include "utf8.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[1u << 20];

/* What fn() writes to stderr, in `said`; its length. */
static size_t listen_to(void (*fn)(void))
{
    cleanup_fd int saved = dup(2), fd = memfd_create("log", MFD_CLOEXEC);
    ssize_t n;

    dup2(fd, 2);
    fn();
    dup2(saved, 2);
    n = pread(fd, said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

static void plain(void)
{
    kr_log_set_level(KR_LOG_INFO);
    kr_log_set_format(KR_LOG_LOGFMT);
    kr_log_set_time(false);
    kr_log_set_who("test");
    kr_log_set_request(NULL);
    kr_log_set_rate(4000, 400);
}

static unsigned count_lines(const char *text)
{
    unsigned n = 0;

    for (; (text = strchr(text, '\n')); text++)
        n++;
    return n;
}

/* ---- levels and fields ---- */

static void one_line_at_each_level(void)
{
    for (int i = 0; i <= KR_LOG_MAX_; i++)
        kr_log((enum kr_log_level)i, "x", "i=%d", i);
}

static void levels_decide_what_is_written(void)
{
    plain();
    listen_to(one_line_at_each_level);
    CHECK(count_lines(said) == 3 && strstr(said, "level=error ") && strstr(said, "level=warn ") &&
          strstr(said, "level=info ") && !strstr(said, "level=debug "));
    kr_log_set_level(KR_LOG_DEBUG);
    listen_to(one_line_at_each_level);
    CHECK(count_lines(said) == 4 && strstr(said, "level=debug ")); /* and none for the level that does not exist */
}

static const char *const wild = "a b\n\"c\"\\ \x1b[31m \xc2\x9b \xff \xe2\x82\xac";

static void fields(void)
{
    kr_log_with(KR_LOG_INFO, "run started", KR_F_STR("run", "r_12-3"), KR_F_STR("empty", ""), KR_F_STR("none", NULL),
                KR_F_STR(NULL, "left out"), KR_F_STR("wild", wild), KR_F_INT("i", -5), KR_F_UINT("u", INT64_MAX),
                KR_F_REAL("seconds", 1.239), KR_F_BOOL("yes", true), KR_F_CODE("code", "print(1)\nx", 10));
}

static void fields_in_logfmt(void)
{
    plain();
    CHECK(listen_to(fields) > 0);
    CHECK(strcmp(said,
                 "level=info who=test msg=\"run started\" run=r_12-3 empty=\"\" "
                 "wild=\"a b\\n\\\"c\\\"\\\\ \\x1b[31m \\xc2\\x9b \\xff \xe2\x82\xac\" i=-5 u=9223372036854775807 "
                 "seconds=1.24 yes=true code=\"print(1)\\nx\"\n") == 0);
}

static json_t *parsed(void)
{
    return json_loads(said, JSON_REJECT_DUPLICATES, NULL);
}

static const char *member(json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "(none)";
}

static void fields_in_json(void)
{
    json_t *o;
    const char *ts;

    plain();
    kr_log_set_format(KR_LOG_JSON);
    listen_to(fields);
    CHECK(count_lines(said) == 1 && (o = parsed()));
    ts = member(o, "ts");
    CHECK(strlen(ts) == 24 && ts[10] == 'T' && ts[19] == '.' && ts[23] == 'Z' && strncmp(ts, "20", 2) == 0);
    CHECK(strcmp(member(o, "level"), "info") == 0 && strcmp(member(o, "who"), "test") == 0);
    CHECK(strcmp(member(o, "wild"), "a b\n\"c\"\\ \x1b[31m \xc2\x9b \xef\xbf\xbd \xe2\x82\xac") == 0);
    CHECK(json_integer_value(json_object_get(o, "i")) == -5 && json_real_value(json_object_get(o, "seconds")) == 1.24);
    CHECK(json_is_true(json_object_get(o, "yes")) && !json_object_get(o, "none"));
    for (const unsigned char *p = (const unsigned char *)said; *p != '\n'; p++)
        CHECK(*p >= 0x20 && *p != 0x7f);
    json_decref(o);
}

static void old_shape(void)
{
    kr_log(KR_LOG_WARN, "zygote ended", "preload=%s status=%d ms=%.1f why=\"no \"x\" here\" path=%s big=%s", "basic", 9,
           1.5, "/a/b c", "123456789012345678901");
}

static void forged(void)
{
    kr_log(KR_LOG_WARN, "m", "level=%s msg=\"x\" request=r1 request=r2 rest=z leading=007 neg=-3 dash=- dot=1.",
           "error");
}

static void no_pairs(void)
{
    kr_log(KR_LOG_WARN, "m", "%s", "some words \"and\" more");
}

static void escaped(void)
{
    char q[100];

    kr_log(KR_LOG_WARN, "m", "a=%s b=2", kr_log_quote(q, sizeof q, "x\" b=3 \\ \n \x01", 50));
}

static void the_old_shape_in_json(void)
{
    json_t *o;

    plain();
    kr_log_set_format(KR_LOG_JSON);
    listen_to(old_shape);
    CHECK((o = parsed()));
    CHECK(strcmp(member(o, "preload"), "basic") == 0 && json_integer_value(json_object_get(o, "status")) == 9);
    CHECK(json_real_value(json_object_get(o, "ms")) == 1.5 && strcmp(member(o, "why"), "no \"x\" here") == 0);
    CHECK(strcmp(member(o, "path"), "/a/b c") == 0 && strcmp(member(o, "big"), "123456789012345678901") == 0);
    json_decref(o);
    listen_to(forged);
    CHECK((o = parsed())); /* duplicates would be refused */
    CHECK(strcmp(member(o, "level"), "warn") == 0 && strcmp(member(o, "field_level"), "error") == 0);
    CHECK(strcmp(member(o, "msg"), "m") == 0 && strcmp(member(o, "field_msg"), "x") == 0);
    CHECK(strcmp(member(o, "request"), "r1") == 0 && strcmp(member(o, "field_request"), "r2") == 0);
    CHECK(strcmp(member(o, "leading"), "007") == 0 && json_integer_value(json_object_get(o, "neg")) == -3);
    CHECK(strcmp(member(o, "dash"), "-") == 0 && strcmp(member(o, "dot"), "1.") == 0);
    json_decref(o);
    listen_to(no_pairs);
    CHECK((o = parsed()) && strcmp(member(o, "rest"), "some words \"and\" more") == 0);
    json_decref(o);
    listen_to(escaped);
    CHECK((o = parsed()) && strcmp(member(o, "a"), "x\" b=3 \\ \n \\x01") == 0);
    CHECK(json_integer_value(json_object_get(o, "b")) == 2);
    json_decref(o);
}

static void the_time_is_asked_for(void)
{
    plain();
    kr_log_set_time(true);
    listen_to(old_shape);
    CHECK(strncmp(said, "ts=20", 5) == 0 && strstr(said, "Z level=warn who=test msg=\"zygote ended\" "));
}

static void with_request(void)
{
    kr_log(KR_LOG_INFO, "one", "a=1");
    kr_log_with(KR_LOG_INFO, "two", KR_F_STR("request", "own"));
}

static void requests_are_on_every_line(void)
{
    char id[400];

    plain();
    kr_log_set_request("req-1 \"x\"");
    listen_to(with_request);
    CHECK(strcmp(said, "level=info who=test msg=\"one\" request=\"req-1 \\\"x\\\"\" a=1\n"
                       "level=info who=test msg=\"two\" request=own\n") == 0);
    memset(id, 'r', sizeof id);
    id[sizeof id - 1] = '\0';
    kr_log_set_request(id);
    CHECK(listen_to(with_request) < 400);
    kr_log_set_request(NULL);
    listen_to(with_request);
    CHECK(strstr(said, "msg=\"one\" a=1\n"));
}

/* ---- bounds ---- */

static char code[4000];

static void code_line(void)
{
    kr_log_with(KR_LOG_INFO, "run started", KR_F_CODE("code", code, strlen(code)));
}

static void code_is_a_hundred_characters(void)
{
    plain();
    memset(code, 'x', sizeof code - 1);
    listen_to(code_line);
    CHECK(strstr(said, "code=\"xxx") && strspn(strstr(said, "code=\"") + 6, "x") == 100 && strstr(said, "x...\"\n"));
    code[100] = '\0'; /* just as long: whole, and without a mark */
    listen_to(code_line);
    CHECK(strspn(strstr(said, "code=") + 5, "x") == 100 && !strstr(said, "..."));
    code[0] = '\0';
    for (int i = 0; i < 101; i++)
        strcat(code, "\xe2\x82\xac"); /* characters, not bytes */
    listen_to(code_line);
    CHECK(strlen(strstr(said, "code=\"")) == 6 + 300 + strlen("...\"\n"));
    kr_log_set_format(KR_LOG_JSON);
    for (int c = 0; c < 256; c++) { /* every byte, a hundred times and more */
        json_t *o;

        memset(code, c ? c : 1, 300);
        code[300] = '\0';
        listen_to(code_line);
        CHECK((o = parsed()));
        CHECK(strlen(member(o, "code")) <= 303);
        json_decref(o);
    }
}

static unsigned char noise[3000];

static void noisy_lines(void)
{
    kr_log_with(KR_LOG_INFO, (const char *)noise, KR_F_STR("a", (const char *)noise),
                KR_F_STR("b", (const char *)noise + 900), KR_F_STR("c", (const char *)noise + 1800),
                KR_F_CODE("d", (const char *)noise, 2999));
    kr_log(KR_LOG_INFO, (const char *)noise, "a=\"%s\" b=%s", (const char *)noise + 500, (const char *)noise + 2500);
}

/* Anything at all in any place: lines stay lines, JSON stays JSON, no line is longer than its bound. */
static void noise_stays_in_its_line(void)
{
    unsigned seed = 1;

    for (int round = 0; round < 400; round++) {
        size_t max = round % 2 ? 4096 : 2048;
        char *save = NULL;

        plain();
        kr_log_set_format(round % 2 ? KR_LOG_JSON : KR_LOG_LOGFMT);
        for (size_t i = 0; i + 1 < sizeof noise; i++) {
            seed = seed * 1103515245u + 12345u;
            noise[i] = round % 4 < 2 ? (unsigned char)(seed >> 16) : (unsigned char)"\"\\ =\nab\x80"[seed >> 16 & 7];
            noise[i] = noise[i] ? noise[i] : 'n';
        }
        listen_to(noisy_lines);
        CHECK(count_lines(said) == 2);
        for (char *line = strtok_r(said, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            json_t *o = json_loads(line, 0, NULL);

            CHECK(strlen(line) < max && kr_utf8_complete(line, strlen(line)) == strlen(line));
            CHECK(round % 2 == 0 || (json_is_object(o) && strcmp(member(o, "level"), "info") == 0));
            json_decref(o);
        }
    }
}

static void secrets(void)
{
    kr_log_with(
        KR_LOG_INFO, "m", KR_F_STR("q", "/x?api_key=hunter2hunter2&a=1"),
        KR_F_STR("h", "Authorization: Bearer abc.def-ghi"),
        KR_F_STR("own", "kr_abcdefgh234567abcdefghijklmnopqrstuvwxyz"), KR_F_STR("short", "kr_abc"),
        KR_F_CODE("code", "API_KEY = 'sk-verysecret'; password: geheim\nos.environ[\"SECRET\"] = \"s3cret\"", 75));
    kr_log(KR_LOG_INFO, "m", "token=%s key=k_12 url=\"?api_key=%s\"", "t0psecret", "hunter2");
}

static void secrets_are_masked(void)
{
    static const char *const words[] = {"hunter2", "abc.def", "ijklmnop", "verysecret",
                                        "geheim",  "s3cret",  "t0psecret"};

    for (int format = 0; format < KR_LOG_FORMATS_; format++) {
        plain();
        kr_log_set_format((enum kr_log_format)format);
        listen_to(secrets);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            CHECK(!strstr(said, words[i]));
        CHECK(strstr(said, "kr_abcdefgh**") && strstr(said, "kr_abc") && strstr(said, "k_12") && strstr(said, "&a=1"));
        CHECK(count_lines(said) == 2);
    }
}

static void flood(void)
{
    for (int i = 0; i < 1000; i++)
        kr_log(KR_LOG_INFO, "flood", "i=%d", i);
    kr_log(KR_LOG_ERROR, "still heard", NULL);
}

static void one_line(void)
{
    kr_log(KR_LOG_INFO, "after", NULL);
}

static void bursts_are_bounded_and_counted(void)
{
    struct kr_log_figures before = kr_log_figures(), after;
    unsigned long dropped = 0;

    plain();
    kr_log_set_rate(100, 50);
    listen_to(flood);
    after = kr_log_figures();
    CHECK(count_lines(said) >= 101 && count_lines(said) < 600); /* the bucket fills meanwhile */
    CHECK(strstr(said, "msg=\"still heard\""));                 /* a flood of information does not drown errors */
    CHECK(after.dropped_burst - before.dropped_burst == 1001 - count_lines(said) && after.lines - before.lines == 1001);
    usleep(100000);
    listen_to(one_line);
    CHECK(sscanf(said, "level=warn who=test msg=\"log lines were dropped: too many at once\" count=%lu up_to=info",
                 &dropped) == 1);
    CHECK(dropped == after.dropped_burst - before.dropped_burst &&
          strstr(said, "\nlevel=info who=test msg=\"after\"\n"));
    listen_to(one_line);
    CHECK(strcmp(said, "level=info who=test msg=\"after\"\n") == 0);
    kr_log_set_rate(100, 0);
    listen_to(flood);
    CHECK(count_lines(said) == 1001);
}

static void long_flood(void)
{
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 20; k++)
            kr_log(KR_LOG_INFO, "flood", "i=%d", i);
        usleep(2000);
    }
}

/* Lines get through all the time, since the bucket fills again, and the report is one. */
static void a_flood_is_reported_once(void)
{
    struct kr_log_figures before = kr_log_figures(), after;
    unsigned reports = 0;

    plain();
    kr_log_set_rate(2, 2000);
    listen_to(long_flood);
    after = kr_log_figures();
    CHECK(after.dropped_burst - before.dropped_burst > 100 && count_lines(said) > 20);
    for (const char *at = said; (at = strstr(at, "log lines were dropped")); at++)
        reports++;
    CHECK(reports == 1);
}

/* stderr is a pipe without a reader: the lines are dropped and nothing waits for long. */
static void a_reader_that_sleeps_delays_no_writer(void)
{
    cleanup_fd int saved = dup(2);
    struct kr_log_figures before = kr_log_figures(), after;
    struct timespec a, b;
    int p[2];

    plain();
    kr_log_set_rate(0, 0);
    CHECK(pipe2(p, O_CLOEXEC) == 0);
    dup2(p[1], 2);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < 3; i++)
        flood();
    clock_gettime(CLOCK_MONOTONIC, &b);
    after = kr_log_figures();
    dup2(saved, 2);
    close(p[0]);
    close(p[1]);
    CHECK(after.dropped_stderr - before.dropped_stderr > 500);
    CHECK((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9 < 3);
    listen_to(one_line); /* and it speaks again */
    CHECK(strcmp(said, "level=info who=test msg=\"after\"\n") == 0);
}

static void *log_much(void *arg)
{
    for (int i = 0; i < 2000; i++)
        kr_log(KR_LOG_INFO, "thread", "n=%d i=%d", *(int *)arg, i);
    return NULL;
}

static void threads_log(void)
{
    pthread_t threads[4];
    int numbers[4] = {0, 1, 2, 3};

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, log_much, &numbers[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void lines_of_threads_stay_whole(void)
{
    char *save = NULL;

    plain();
    kr_log_set_rate(0, 0);
    listen_to(threads_log);
    CHECK(count_lines(said) == 8000);
    for (const char *line = strtok_r(said, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        CHECK(strncmp(line, "level=info who=test msg=\"thread\" n=", 35) == 0);
}

/* ---- files ---- */

static char dir[] = "/tmp/krait-test-log.XXXXXX", sub[64];

static char *contents(unsigned n)
{
    static char text[1u << 16];
    char path[128];
    ssize_t len;

    snprintf(path, sizeof path, n ? "%s/krait.log.%u" : "%s/krait.log", sub, n);
    len = kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text);
    return len >= 0 ? text : NULL;
}

static void remove_files(void)
{
    char path[128];

    for (unsigned n = 0; n < 12; n++) {
        snprintf(path, sizeof path, n ? "%s/krait.log.%u" : "%s/krait.log", sub, n);
        (void)unlink(path);
        (void)rmdir(path);
    }
}

static void hundred_lines(void)
{
    for (int i = 0; i < 100; i++)
        kr_log(KR_LOG_INFO, "line", "i=%03d filler=%s", i, "0123456789012345678901234567890123456789");
}

static void files_rotate_and_lose_nothing_but_the_oldest(void)
{
    struct kr_err err;
    int last = 99, first = -1;
    unsigned n;

    plain();
    CHECK(kr_log_open_sized(sub, 1000, 4, &err) == 0); /* makes the folder */
    listen_to(hundred_lines);
    for (n = 0; contents(n); n++) {
        char *text = contents(n), *at = text;
        int i = -1, previous = -1;

        CHECK(strlen(text) <= 1000 && text[strlen(text) - 1] == '\n');
        for (; (at = strstr(at, "i=")); at++) {
            CHECK(sscanf(at, "i=%d", &i) == 1 && (previous < 0 || i == previous + 1));
            first = previous < 0 ? i : first;
            previous = i;
        }
        CHECK(i == last); /* the file before begins where this one ends */
        last = first - 1;
    }
    CHECK(n == 4);
    CHECK(count_lines(said) == 100); /* stderr has all of them */
    kr_log_close();
    listen_to(one_line);
    CHECK(!strstr(contents(0), "after"));
    CHECK(kr_log_open_sized(sub, 1000, 4, &err) == 0); /* goes on where it was */
    listen_to(one_line);
    CHECK(strstr(contents(0), "i=099") && strstr(contents(0), "after"));
    kr_log_close();
    remove_files();
}

static void a_child_writes_no_files(void)
{
    struct kr_err err;
    int status = -1;
    pid_t pid;

    plain();
    CHECK(kr_log_open(sub, &err) == 0);
    listen_to(one_line);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        listen_to(hundred_lines);
        _exit(count_lines(said) == 100 ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(count_lines(contents(0)) == 1);
    kr_log_close();
    remove_files();
}

static void somebody_else_renames(void)
{
    struct kr_err err;
    char from[128], to[128];

    plain();
    CHECK(kr_log_open_sized(sub, 500, 4, &err) == 0);
    listen_to(one_line);
    snprintf(from, sizeof from, "%s/krait.log", sub);
    snprintf(to, sizeof to, "%s/krait.log.1", sub);
    CHECK(rename(from, to) == 0);
    CHECK(kr_log_reopen() == 0);
    listen_to(one_line);
    CHECK(count_lines(contents(0)) == 1 && count_lines(contents(1)) == 1);
    CHECK(rename(from, to) == 0); /* and without a word: found out when the file is full */
    listen_to(hundred_lines);
    CHECK(contents(0) && strstr(contents(0), "i=099") && strlen(contents(0)) <= 500);
    kr_log_close();
    CHECK(kr_log_reopen() == 0);
    remove_files();
}

static void what_cannot_be_renamed_does_not_grow(void)
{
    struct kr_log_figures before = kr_log_figures(), after;
    struct kr_err err;
    char path[128];

    plain();
    snprintf(path, sizeof path, "%s/krait.log.1", sub);
    CHECK(mkdir(sub, 0700) == 0 || errno == EEXIST);
    CHECK(mkdir(path, 0700) == 0); /* rename(2) puts no file on a folder: EISDIR */
    CHECK(kr_log_open_sized(sub, 1000, 2, &err) == 0);
    listen_to(hundred_lines);
    after = kr_log_figures();
    CHECK(strlen(contents(0)) <= 1000 && strstr(contents(0), "i=000"));
    CHECK(after.dropped_file - before.dropped_file > 80 && count_lines(said) == 100);
    kr_log_close();
    remove_files();
}

static void not_every_place_is_taken(void)
{
    struct kr_err err;
    char path[128];

    plain();
    CHECK(kr_log_open("/nonexistent/folder", &err) == -ENOENT && strstr(err.msg, "/nonexistent/folder"));
    CHECK(kr_log_open("/dev/null", &err) < 0);
    snprintf(path, sizeof path, "%s/krait.log", sub);
    CHECK(symlink("/dev/null", path) == 0);
    CHECK(kr_log_open(sub, &err) == -ELOOP); /* a symbolic link is not followed */
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    CHECK(kr_log_open(sub, &err) < 0); /* nor makes us wait */
    CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
    CHECK(kr_log_open(sub, &err) < 0);
    remove_files();
}

static void what_cannot_be_written_is_counted(void)
{
    cleanup_fd int full = open("/dev/full", O_WRONLY | O_CLOEXEC), saved = dup(2);
    struct kr_log_figures before = kr_log_figures(), after;

    CHECK(full >= 0);
    plain();
    dup2(full, 2);
    one_line();
    dup2(saved, 2);
    after = kr_log_figures();
    CHECK(after.dropped_stderr == before.dropped_stderr + 1);
}

/* A full disk, for which RLIMIT_FSIZE stands here, cuts a line; the next one is a line of its own. */
static void a_cut_line_is_not_joined_by_the_next(void)
{
    cleanup_fd int null = open("/dev/null", O_WRONLY | O_CLOEXEC), saved = dup(2);
    struct rlimit limit, small;
    struct kr_err err;

    plain();
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0 && kr_log_open(sub, &err) == 0);
    small = (struct rlimit){.rlim_cur = 50, .rlim_max = limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    dup2(null, 2);
    one_line();
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    one_line();
    one_line();
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    one_line();
    dup2(saved, 2);
    kr_log_close();
    CHECK(strcmp(contents(0),
                 "level=info who=test msg=\"after\"\nlevel=info who=tes\nlevel=info who=test msg=\"after\"\n") == 0);
    remove_files();
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    snprintf(sub, sizeof sub, "%s/logs", dir);
    RUN(levels_decide_what_is_written);
    RUN(fields_in_logfmt);
    RUN(fields_in_json);
    RUN(the_old_shape_in_json);
    RUN(the_time_is_asked_for);
    RUN(requests_are_on_every_line);
    RUN(code_is_a_hundred_characters);
    RUN(noise_stays_in_its_line);
    RUN(secrets_are_masked);
    RUN(bursts_are_bounded_and_counted);
    RUN(a_flood_is_reported_once);
    RUN(a_reader_that_sleeps_delays_no_writer);
    RUN(lines_of_threads_stay_whole);
    RUN(files_rotate_and_lose_nothing_but_the_oldest);
    RUN(a_child_writes_no_files);
    RUN(somebody_else_renames);
    RUN(what_cannot_be_renamed_does_not_grow);
    RUN(not_every_place_is_taken);
    RUN(what_cannot_be_written_is_counted);
    RUN(a_cut_line_is_not_joined_by_the_next);
    remove_files();
    rmdir(sub);
    rmdir(dir);
    CHECK_DONE();
}

/* src/base: errors, descriptors, log lines, buffers, JSON, base64, UTF-8. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "base64.h"
#include "buf.h"
#include "clock.h"
#include "crc32c.h"
#include "err.h"
#include "fd.h"
#include "hash.h"
#include "id.h"
#include "json.h"
#include "log.h"
#include "utf8.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define FFFD "\xef\xbf\xbd"

/* ---- errors ---- */

static void ids_have_one_form(void)
{
    char longest[KR_ID_ROOM + 1];

    CHECK(kr_id_valid("0") && kr_id_valid("0123456789abcdefghjkmnpqrs") &&
          kr_id_valid("0123456789abcdefghjkmnpqrsn12"));
    CHECK(!kr_id_valid(NULL) && !kr_id_valid("") && !kr_id_valid("A") && !kr_id_valid(".") && !kr_id_valid("..") &&
          !kr_id_valid("a/b") && !kr_id_valid("a-b") && !kr_id_valid("a b") && !kr_id_valid("\xc3\xa9"));
    memset(longest, 'z', sizeof longest);
    longest[KR_ID_ROOM] = '\0';
    CHECK(!kr_id_valid(longest));
    longest[KR_ID_ROOM - 1] = '\0';
    CHECK(kr_id_valid(longest));
}

/* The published test vectors of FNV-1a. */
static void hash_known_texts(void)
{
    CHECK(kr_hash_text(KR_HASH_START, "") == 0x811c9dc5u && kr_hash_text(KR_HASH_START, "a") == 0xe40c292cu);
    CHECK(kr_hash_text(KR_HASH_START, "foobar") == 0xbf9cf968u);
    CHECK(kr_hash(kr_hash(KR_HASH_START, "foo", 3), "bar", 3) == 0xbf9cf968u);
}

static void crc32c_is_the_same_both_ways(void)
{
    unsigned char text[300];
    uint32_t state = 1;

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)((state = state * 1664525u + 1013904223u) >> 24);
    CHECK(~kr_crc32c_add(~0u, "123456789", 9) == 0xe3069283u);
    CHECK(~kr_crc32c_add_plain(~0u, "123456789", 9) == 0xe3069283u);
    for (size_t at = 0; at < 16; at++)
        for (size_t len = 0; len <= sizeof text - 16; len += 1 + len / 9)
            CHECK(kr_crc32c_add(state, text + at, len) == kr_crc32c_add_plain(state, text + at, len));
    CHECK(kr_crc32c_add(kr_crc32c_add(~0u, text, 13), text + 13, 100) == kr_crc32c_add_plain(~0u, text, 113));
}

static void err_rows_are_complete(void)
{
    for (int a = 0; a < KR_ERR_MAX_; a++) {
        const struct kr_err_row *row = kr_err_row((enum kr_err_kind)a);

        CHECK(row->name && row->name[0] && row->help && row->help[0]);
        CHECK((a == KR_ERR_NONE) == (row->exit_status == 0));
        CHECK((a == KR_ERR_NONE) == (row->jsonrpc_code == 0));
        for (int b = 0; b < a; b++)
            CHECK(strcmp(row->name, kr_err_row((enum kr_err_kind)b)->name) != 0);
    }
    CHECK(kr_err_row((enum kr_err_kind)999) == kr_err_row(KR_ERR_INTERNAL));
    CHECK(kr_err_row(KR_ERR_INVALID)->text_is_public && !kr_err_row(KR_ERR_SYSTEM)->text_is_public);
}

static void err_set_makes_and_returns(void)
{
    struct kr_err e;

    CHECK(kr_err_set(&e, KR_ERR_SYSTEM, ENOENT, "open %s", "/x") == -ENOENT);
    CHECK(e.kind == KR_ERR_SYSTEM && e.code == ENOENT && e.pad == 0);
    CHECK(strcmp(e.msg, "open /x: No such file or directory") == 0);
    CHECK(kr_err_set(&e, KR_ERR_DENIED, 0, "no") == -EIO);
    CHECK(e.code == 0 && strcmp(e.msg, "no") == 0);
    CHECK(kr_err_set(NULL, KR_ERR_DENIED, EPERM, "no") == -EPERM);
    CHECK(kr_err_set(&e, KR_ERR_SYSTEM, -ENOENT, "x") == -ENOENT);
    CHECK(kr_err_set(&e, KR_ERR_SYSTEM, 3999, "x") == -3999);
    CHECK(strcmp(e.msg, "x: error 3999") == 0);
}

static void err_texts_are_cut_not_overrun(void)
{
    char text[1000];
    struct kr_err e;

    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    kr_err_set(&e, KR_ERR_SYSTEM, ENOENT, "%s", text);
    CHECK(strlen(e.msg) == sizeof e.msg - 1);
    CHECK(kr_err_wrap(&e, -5, "context") == -5);
    CHECK(strlen(e.msg) == sizeof e.msg - 1 && strncmp(e.msg, "context: aaa", 12) == 0);
    kr_err_set(&e, KR_ERR_SYSTEM, 0, "cause");
    CHECK(kr_err_wrap(&e, -5, "%s", text) == -5);
    CHECK(strcmp(e.msg, "cause") == 0);
}

static void err_wrap_leaves_no_old_bytes(void)
{
    struct kr_err e, clean = {0};
    size_t len;

    kr_err_set(&e, KR_ERR_SYSTEM, EPERM, "mount");
    CHECK(kr_err_wrap(&e, -EPERM, "cell %d", 7) == -EPERM);
    CHECK(strcmp(e.msg, "cell 7: mount: Operation not permitted") == 0);
    len = strlen(e.msg);
    CHECK(memcmp(e.msg + len, clean.msg + len, sizeof e.msg - len) == 0);
    CHECK(kr_err_wrap(NULL, -EPERM, "x") == -EPERM);
}

static void err_from_wire_is_made_safe(void)
{
    struct kr_err e;

    memset(&e, 0xff, sizeof e);
    kr_err_from_wire(&e);
    CHECK(e.kind == KR_ERR_PROTOCOL && e.code == EPROTO && e.pad == 0);
    CHECK(strlen(e.msg) == sizeof e.msg - 1);
    kr_err_set(&e, KR_ERR_LIMIT, ENOSPC, "full");
    kr_err_from_wire(&e);
    CHECK(e.kind == KR_ERR_LIMIT && e.code == ENOSPC && strcmp(e.msg, "full: No space left on device") == 0);
}

/* ---- descriptors ---- */

static void fd_close_keeps_errno(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    errno = ERANGE;
    CHECK(kr_fd_close(fd) == -1 && errno == ERANGE);
    CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
    errno = ERANGE;
    CHECK(kr_fd_close(-1) == -1 && errno == ERANGE);
}

static int opened_and_left(int steal, int *ret_stolen)
{
    cleanup_fd int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cleanup_free char *p = malloc(10);
    int number = fd;

    free(steal_ptr(&p));
    if (steal)
        *ret_stolen = steal_fd(&fd);
    return number;
}

static void fd_cleanup_closes_unless_stolen(void)
{
    int stolen = -1, fd = opened_and_left(0, &stolen);

    CHECK(fcntl(fd, F_GETFD) == -1);
    fd = opened_and_left(1, &stolen);
    CHECK(fd >= 0 && stolen == fd && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    close(fd);
}

static void fd_read_all_tells_the_two_ends(void)
{
    char buf[8] = "";
    int p[2];

    CHECK(pipe2(p, O_CLOEXEC) == 0);
    CHECK(kr_fd_write_all(p[1], "abcdef", 6) == 0);
    CHECK(kr_fd_read_all(p[0], buf, 4) == 0 && memcmp(buf, "abcd", 4) == 0);
    close(p[1]);
    CHECK(kr_fd_read_all(p[0], buf, 4) == -EPIPE);
    CHECK(kr_fd_read_all(p[0], buf, 4) == -ENODATA);
    close(p[0]);
    CHECK(kr_fd_read_all(p[0], buf, 4) == -EBADF);
    CHECK(kr_fd_write_all(p[1], buf, 4) == -EBADF);
}

static void fd_files_are_read_and_written_whole(void)
{
    char dir[] = "/tmp/krait-base-XXXXXX", path[64], buf[8];
    int fd;

    CHECK(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    CHECK(kr_fd_write_file_at(AT_FDCWD, path, "x") == -ENOENT); /* never creates */
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
    fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    CHECK(kr_fd_read_file_at(fd, "f", buf, sizeof buf) == 0 && buf[0] == '\0');
    CHECK(kr_fd_write_file_at(fd, "f", "1234567") == 0);
    CHECK(kr_fd_read_file_at(fd, "f", buf, sizeof buf) == 7 && strcmp(buf, "1234567") == 0);
    CHECK(kr_fd_write_file_at(fd, "f", "12345678") == 0);
    CHECK(kr_fd_read_file_at(fd, "f", buf, sizeof buf) == -E2BIG && strcmp(buf, "1234567") == 0);
    CHECK(kr_fd_read_file_at(fd, "g", buf, sizeof buf) == -ENOENT && buf[0] == '\0');
    CHECK(kr_fd_read_file_at(fd, "f", buf, 0) == -EINVAL);
    CHECK(kr_fd_read_file_at(AT_FDCWD, dir, buf, sizeof buf) == -EISDIR && buf[0] == '\0');
    close(fd);
    unlink(path);
    CHECK(rmdir(dir) == 0);
}

static void on_alarm(int signo)
{
    (void)signo;
}

static void fd_wait_keeps_its_deadline(void)
{
    struct sigaction act = {.sa_handler = on_alarm};
    struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    uint64_t start, deadline;
    int p[2];

    CHECK(pipe2(p, O_CLOEXEC) == 0);
    CHECK(kr_fd_wait(p[0], POLLIN, 0) == 0);
    CHECK(sigaction(SIGALRM, &act, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    start = kr_clock_ns();
    deadline = kr_clock_after_ms(30);
    CHECK(kr_fd_wait(p[0], POLLIN, deadline) == 0); /* interrupted some ten times on the way */
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(kr_clock_ns() >= deadline && deadline - start >= 30000000u);
    CHECK(write(p[1], "x", 1) == 1);
    CHECK(kr_fd_wait(p[0], POLLIN, 0) == 1);
    CHECK(kr_fd_wait(p[0], POLLIN, UINT64_MAX) == 1);
    close(p[1]);
    CHECK(read(p[0], &(char){0}, 1) == 1);
    CHECK(kr_fd_wait(p[0], POLLIN, UINT64_MAX) == 1); /* end of file is news */
    close(p[0]);
    CHECK(kr_fd_wait(p[0], POLLIN, UINT64_MAX) == -EBADF);
    CHECK(kr_fd_wait(-1, POLLIN, UINT64_MAX) == -EBADF);
}

/* ---- log ---- */

static void log_quotes(void)
{
    static const struct {
        const char *text, *want;
        unsigned long max;
    } rows[] = {
        {"plain", "\"plain\"", 100},
        {"", "\"\"", 100},
        {NULL, "\"\"", 100},
        {"a\"b\\c", "\"a\\\"b\\\\c\"", 100},
        {"a\nb\tc\r\x01\x7f", "\"a\\nb\\tc\\r\\x01\\x7f\"", 100},
        {"\xe2\x82\xac", "\"\xe2\x82\xac\"", 100}, /* valid UTF-8 stays */
        {"\xe2\x82", "\"\\xe2\\x82\"", 100},       /* what is cut does not */
        {"\xc2\x9b", "\"\\xc2\\x9b\"", 100},       /* nor a control sequence introducer */
        {"abcdef", "\"abcdef\"", 6},
        {"abcdefg", "\"abcdef...\"", 6},
    };
    char buf[64];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK(strcmp(kr_log_quote(buf, sizeof buf, rows[i].text, rows[i].max), rows[i].want) == 0);
}

static void log_quote_fits_any_size(void)
{
    char buf[64];

    for (size_t size = 0; size < sizeof buf; size++) {
        memset(buf, '#', sizeof buf);
        kr_log_quote(buf, size, "aaaa\x01\x02\x03 \xe2\x82\xac \xe2\x82\xac and a longer text than all that", 100);
        CHECK(buf[size] == '#');
        CHECK(size == 0 || strnlen(buf, size) < size);
        CHECK(size < 6 || (buf[0] == '"' && buf[strlen(buf) - 1] == '"'));
    }
}

/* What fn() writes to stderr. */
static size_t stderr_of(void (*fn)(void), char *buf, size_t size)
{
    int p[2], saved = dup(2);
    ssize_t n;

    if (saved < 0 || pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
        return 0;
    dup2(p[1], 2);
    fn();
    dup2(saved, 2);
    n = read(p[0], buf, size - 1);
    close(saved);
    close(p[0]);
    close(p[1]);
    buf[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

static void some_lines(void)
{
    kr_log(KR_LOG_INFO, "not shown", NULL);
    kr_log(KR_LOG_WARN, "zygote \"1\" ended", "preload=%s status=%d", "basic", 9);
    kr_log(KR_LOG_ERROR, "forged", "text=%s", "a\nlevel=error msg=\"b\"");
    errno = EXDEV;
    kr_log(KR_LOG_ERROR, "bare", NULL);
}

static void long_line(void)
{
    kr_log(KR_LOG_ERROR, "long", "%0*d", 5000, 7);
}

static void log_lines(void)
{
    char buf[8192];
    size_t len;

    kr_log_set_who("test");
    CHECK(stderr_of(some_lines, buf, sizeof buf) > 0);
    CHECK(errno == EXDEV);
    CHECK(strcmp(buf, "level=warn who=test msg=\"zygote \\\"1\\\" ended\" preload=basic status=9\n"
                      "level=error who=test msg=\"forged\" text=a?level=error msg=\"b\"\n"
                      "level=error who=test msg=\"bare\"\n") == 0);
    len = stderr_of(long_line, buf, sizeof buf);
    CHECK(len > 1000 && len <= 2048 && buf[len - 1] == '\n' && strchr(buf, '\n') == buf + len - 1);
    kr_log_set_level(KR_LOG_INFO);
    CHECK(stderr_of(some_lines, buf, sizeof buf) > 0 && strstr(buf, "level=info who=test msg=\"not shown\"\n") == buf);
    kr_log_set_level(KR_LOG_WARN);
}

/* ---- buffers ---- */

static void buf_grows_to_its_maximum_and_fails_for_good(void)
{
    cleanup_buf struct kr_buf b;

    kr_buf_init(&b, 1000);
    CHECK(strcmp(kr_buf_str(&b), "") == 0);
    for (int i = 0; i < 100; i++)
        CHECK(kr_buf_add(&b, "0123456789", 10) == 0);
    CHECK(b.len == 1000 && strlen(kr_buf_str(&b)) == 1000 && b.cap <= 1001);
    CHECK(kr_buf_add(&b, "x", 0) == 0);
    CHECK(kr_buf_add(&b, "x", 1) == -ENOBUFS && b.len == 1000);
    kr_buf_drop(&b, 500);
    CHECK(b.len == 500 && kr_buf_add(&b, "x", 1) == -ENOBUFS); /* there is room, but something is missing before it */
    kr_buf_reset(&b);
    CHECK(b.len == 0 && kr_buf_printf(&b, "%s-%d", "a", 5) == 0 && strcmp(kr_buf_str(&b), "a-5") == 0);
    CHECK(kr_buf_printf(&b, "%0998d", 5) == -ENOBUFS && strcmp(kr_buf_str(&b), "a-5") == 0);
}

static void buf_hands_over(void)
{
    struct kr_buf b;
    size_t len = 77;
    char *p;

    kr_buf_init(&b, 10);
    p = kr_buf_steal(&b, &len);
    CHECK(!p && len == 0);
    CHECK(kr_buf_add_str(&b, "0123456789") == 0);
    kr_buf_drop(&b, 3);
    p = kr_buf_steal(&b, &len);
    CHECK(p && len == 7 && strcmp(p, "3456789") == 0 && b.len == 0 && b.max == 10);
    free(p);
    kr_buf_done(&b);
}

/* ---- JSON ---- */

static int json_str_is(const char *text, size_t len, const char *want)
{
    cleanup_buf struct kr_buf b;
    struct kr_json j;

    kr_buf_init(&b, 1000);
    kr_json_init(&j, &b);
    kr_json_str_n(&j, text, len);
    return kr_json_done(&j) == 0 && strcmp(kr_buf_str(&b), want) == 0;
}

static void json_escapes(void)
{
    CHECK(json_str_is("", 0, "\"\""));
    CHECK(json_str_is("a\"b\\c/", 6, "\"a\\\"b\\\\c/\""));
    CHECK(json_str_is("\n\r\t\b\f", 5, "\"\\n\\r\\t\\b\\f\""));
    CHECK(json_str_is("\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\\u007f\""));
    CHECK(json_str_is("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""));
}

/* Texts are looked at by words: each byte at each place of one, and behind one. */
static void json_escapes_at_every_place(void)
{
    for (unsigned c = 0; c < 0x80; c++) {
        cleanup_buf struct kr_buf one;
        struct kr_json j;

        kr_buf_init(&one, 16);
        kr_json_init(&j, &one);
        kr_json_str_n(&j, &(char){(char)c}, 1); /* alone it is no word */
        CHECK(kr_json_done(&j) == 0 && one.len >= 3);
        for (unsigned at = 0; at < 20; at++) {
            char text[] = "aaaaaaaaaaaaaaaaaaaa", want[64];

            text[at] = (char)c;
            snprintf(want, sizeof want, "\"%.*s%.*s%.*s\"", (int)at, "aaaaaaaaaaaaaaaaaaaa", (int)one.len - 2,
                     one.data + 1, 19 - (int)at, "aaaaaaaaaaaaaaaaaaaa");
            CHECK(json_str_is(text, 20, want));
        }
    }
}

static void json_replaces_what_is_not_utf8(void)
{
    CHECK(json_str_is("a\xff"
                      "b",
                      3, "\"a" FFFD "b\""));
    CHECK(json_str_is("\x80\x80", 2, "\"" FFFD FFFD "\""));
    CHECK(json_str_is("\xc0\xaf", 2, "\"" FFFD FFFD "\"")); /* overlong / */
    CHECK(json_str_is("\xf0\x80\x80\xaf", 4, "\"" FFFD FFFD FFFD FFFD "\""));
    CHECK(json_str_is("\xe0\x80\xaf", 3, "\"" FFFD FFFD FFFD "\""));
    CHECK(json_str_is("\xed\xa0\x80", 3, "\"" FFFD FFFD FFFD "\"")); /* a surrogate */
    CHECK(json_str_is("\xf4\x90\x80\x80", 4, "\"" FFFD FFFD FFFD FFFD "\""));
    CHECK(json_str_is("x\xe2\x82", 3, "\"x" FFFD "\"")); /* cut off: one for the longest valid beginning */
    CHECK(json_str_is("\xf0\x9f\x98"
                      "a",
                      4, "\"" FFFD "a\""));
    CHECK(json_str_is("\xe2\"", 2, "\"" FFFD "\\\"\"")); /* what ends it is not swallowed */
}

static void json_document(void)
{
    cleanup_buf struct kr_buf b;
    struct kr_json j;

    kr_buf_init(&b, 1000);
    kr_json_init(&j, &b);
    kr_json_object(&j);
    kr_json_key_str(&j, "s", "t");
    kr_json_key_str(&j, "n", NULL);
    kr_json_key_int(&j, "i", INT64_MIN);
    kr_json_key_uint(&j, "u", UINT64_MAX);
    kr_json_key_bool(&j, "b", true);
    kr_json_key_bool(&j, "c", false);
    kr_json_key_null(&j, "z");
    kr_json_key_double(&j, "d", 0.01);
    kr_json_key(&j, "a\"");
    kr_json_array(&j);
    kr_json_array(&j);
    kr_json_array_end(&j);
    kr_json_object(&j);
    kr_json_object_end(&j);
    kr_json_raw(&j, "{\"x\":1}", 7);
    kr_json_array_end(&j);
    kr_json_key_int(&j, "last", -1);
    CHECK(kr_json_done(&j) == -EINVAL); /* still open */
    kr_json_object_end(&j);
    CHECK(kr_json_done(&j) == 0);
    CHECK(strcmp(kr_buf_str(&b),
                 "{\"s\":\"t\",\"n\":null,\"i\":-9223372036854775808,\"u\":18446744073709551615,\"b\":true,\"c\":false,"
                 "\"z\":null,\"d\":0.01,\"a\\\"\":[[],{},{\"x\":1}],\"last\":-1}") == 0);
}

static void json_doubles_read_back(void)
{
    static const double values[] = {0.0, 1.0, -1.5, 0.1, 1.0 / 3, 1e300, 5e-324, 123456789.123456789, -2.5e-7};
    cleanup_buf struct kr_buf b;
    struct kr_json j;

    kr_buf_init(&b, 100);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        kr_buf_reset(&b);
        kr_json_init(&j, &b);
        kr_json_double(&j, values[i]);
        CHECK(kr_json_done(&j) == 0 && strtod(kr_buf_str(&b), NULL) == values[i]);
    }
    kr_buf_reset(&b);
    kr_json_init(&j, &b);
    kr_json_array(&j);
    kr_json_double(&j, (double)NAN);
    kr_json_double(&j, (double)-INFINITY);
    kr_json_double(&j, 0.1);
    kr_json_array_end(&j);
    CHECK(strcmp(kr_buf_str(&b), "[null,null,0.1]") == 0);
}

enum misuse {
    VALUE_WITHOUT_KEY,
    KEY_IN_ARRAY,
    TWO_KEYS,
    TWO_VALUES,
    WRONG_END,
    END_OF_NOTHING,
    KEY_WITHOUT_VALUE,
    TOO_DEEP,
    MISUSES
};

static void misuse(struct kr_json *j, enum misuse what)
{
    switch (what) {
    case VALUE_WITHOUT_KEY:
        kr_json_object(j);
        kr_json_int(j, 1);
        kr_json_object_end(j);
        break;
    case KEY_IN_ARRAY:
        kr_json_array(j);
        kr_json_key_int(j, "k", 1);
        kr_json_array_end(j);
        break;
    case TWO_KEYS:
        kr_json_object(j);
        kr_json_key(j, "k");
        kr_json_key_int(j, "k", 1);
        kr_json_object_end(j);
        break;
    case TWO_VALUES:
        kr_json_int(j, 1);
        kr_json_int(j, 2);
        break;
    case WRONG_END:
        kr_json_object(j);
        kr_json_array_end(j);
        break;
    case END_OF_NOTHING:
        kr_json_int(j, 1);
        kr_json_object_end(j);
        break;
    case KEY_WITHOUT_VALUE:
        kr_json_object(j);
        kr_json_key(j, "k");
        kr_json_object_end(j);
        break;
    case TOO_DEEP:
        for (unsigned i = 0; i <= KR_JSON_DEPTH_MAX; i++)
            kr_json_array(j);
        for (unsigned i = 0; i <= KR_JSON_DEPTH_MAX; i++)
            kr_json_array_end(j);
        break;
    case MISUSES:
        break;
    }
}

static void json_misuse_is_told(void)
{
    cleanup_buf struct kr_buf b;
    struct kr_json j;

    kr_buf_init(&b, 100);
    for (int what = 0; what < MISUSES; what++) {
        kr_buf_reset(&b);
        kr_json_init(&j, &b);
        misuse(&j, (enum misuse)what);
        CHECK(kr_json_done(&j) == -EINVAL);
    }
    kr_buf_reset(&b);
    kr_json_init(&j, &b);
    CHECK(kr_json_done(&j) == -EINVAL); /* nothing is no document */
    for (unsigned i = 0; i < KR_JSON_DEPTH_MAX; i++)
        kr_json_array(&j);
    for (unsigned i = 0; i < KR_JSON_DEPTH_MAX; i++)
        kr_json_array_end(&j);
    CHECK(kr_json_done(&j) == 0 && b.len == 2 * KR_JSON_DEPTH_MAX);
}

static void json_full_is_told(void)
{
    cleanup_buf struct kr_buf b;
    struct kr_json j;

    kr_buf_init(&b, 12);
    kr_json_init(&j, &b);
    kr_json_array(&j);
    kr_json_str(&j, "0123456789");
    kr_json_array_end(&j);
    CHECK(kr_json_done(&j) == -ENOBUFS && b.len <= 12);
}

/* ---- base64 ---- */

static void base64_known_texts(void)
{
    static const char *const rows[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"},
                                          {"\xfb\xff", "+/8="}};
    char text[16], back[16];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t len = strlen(rows[i][0]);

        CHECK(kr_base64_encode(rows[i][0], len, text) == strlen(rows[i][1]) && strcmp(text, rows[i][1]) == 0);
        CHECK(KR_BASE64_ROOM(len) == strlen(text) + 1);
        CHECK(kr_base64_decode(text, strlen(text), back, sizeof back) == (ssize_t)len);
        CHECK(memcmp(back, rows[i][0], len) == 0);
        CHECK(len == 0 || kr_base64_decode(text, strlen(text), back, len - 1) == -ENOBUFS);
    }
}

static void base64_refuses(void)
{
    static const char *const bad[] = {"Z",    "Zg",   "Zg=",  "Zh==", "Zm9=", "Zg==Zg==", "Zm9v\n",
                                      "Z===", "====", "Zm 9", "Zm-_", "=g==", "Zm9\xff"};
    char out[16];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(kr_base64_decode(bad[i], strlen(bad[i]), out, sizeof out) == -EINVAL);
}

static void base64_all_bytes_and_lengths(void)
{
    unsigned char data[300], back[300];
    char text[KR_BASE64_ROOM(300)];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t len = 0; len <= sizeof data; len++) {
        size_t n = kr_base64_encode(data, len, text);

        CHECK(n + 1 == KR_BASE64_ROOM(len));
        CHECK(kr_base64_decode(text, n, back, len) == (ssize_t)len && memcmp(back, data, len) == 0);
        CHECK(kr_base64_decode(text, n, text, sizeof text) == (ssize_t)len &&
              memcmp(text, data, len) == 0); /* in place */
    }
}

/* ---- UTF-8 ---- */

static const char mixed[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"               /* valid, 1 to 4 bytes */
                            "\xff\xc0\xaf\xe0\x9f\xbf\xed\xa0\x80\xf4\x90\x80\x80" /* invalid */
                            "\xe2\x82"
                            "b\xf0\x9f\x98\xe2\x82\xac\xf0\x90\xc3" /* cut off, each by something else */
                            "\xf0\x9f\x98";                         /* and by the end */
static const char mixed_text[] =
    "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z" FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD
    "b" FFFD "\xe2\x82\xac" FFFD FFFD FFFD;

static void utf8_same_text_at_every_split(void)
{
    size_t len = sizeof mixed - 1;
    char out[KR_UTF8_ROOM(sizeof mixed) * 2];

    for (size_t a = 0; a <= len; a++) {
        for (size_t b = a; b <= len; b++) {
            struct kr_utf8 u = {0};
            size_t n = kr_utf8_feed(&u, mixed, a, out);

            n += kr_utf8_feed(&u, mixed + a, b - a, out + n);
            n += kr_utf8_feed(&u, mixed + b, len - b, out + n);
            n += kr_utf8_finish(&u, out + n);
            CHECK(n == sizeof mixed_text - 1 && memcmp(out, mixed_text, n) == 0);
        }
    }
}

static void utf8_byte_by_byte_is_never_late(void)
{
    struct kr_utf8 u = {0};
    char out[KR_UTF8_ROOM(1)];

    CHECK(kr_utf8_feed(&u, "a", 1, out) == 1);
    CHECK(kr_utf8_feed(&u, "\xf0", 1, out) == 0 && kr_utf8_feed(&u, "\x9f", 1, out) == 0);
    CHECK(kr_utf8_feed(&u, "\x98", 1, out) == 0 && u.held_len == 3);
    CHECK(kr_utf8_feed(&u, "\x80", 1, out) == 4 && memcmp(out, "\xf0\x9f\x98\x80", 4) == 0 && u.held_len == 0);
    CHECK(kr_utf8_feed(&u, "\xff", 1, out) == 3 && u.held_len == 0); /* can never become valid: not held */
    CHECK(kr_utf8_feed(&u, "\xe2", 1, out) == 0 && kr_utf8_feed(&u, "x", 1, out) == 4);
    CHECK(memcmp(out, FFFD "x", 4) == 0 && kr_utf8_finish(&u, out) == 0);
}

static void utf8_complete_never_cuts(void)
{
    static const struct {
        const char *bytes;
        size_t want;
    } rows[] = {{"", 0},
                {"abc", 3},
                {"a\xc3", 1},
                {"a\xc3\xa9", 3},
                {"\xe2", 0},
                {"\xe2\x82", 0},
                {"\xe2\x82\xac", 3},
                {"\xf0", 0},
                {"\xf0\x9f", 0},
                {"\xf0\x9f\x98", 0},
                {"\xf0\x9f\x98\x80", 4},
                {"a\xff", 2},
                {"a\x80", 2},
                {"\xe0\x80", 2},
                {"\xed\xa0", 2},
                {"\xf4\x90", 2},
                {"\x80\x80\x80\x80", 4},
                {"\xc3\xc3", 1},
                {"\xf0\x9f\x98\x80\xf0\x9f", 4},
                {"\xe2\x82\xac\x80\x80", 5},
                {"\xc0", 1},
                {"\xf5", 1}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK(kr_utf8_complete(rows[i].bytes, strlen(rows[i].bytes)) == rows[i].want);
}

/* Every code point: encoded, decoded, and each of its proper beginnings unfinished. */
static void utf8_every_code_point(void)
{
    for (uint32_t c = 0; c <= 0x10ffff + 0x1000; c++) {
        unsigned char s[4];
        uint32_t got = 0;
        int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        int valid = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);

        s[0] = (unsigned char)(n == 1 ? c : (0xf00u >> n) | c >> (6 * (n - 1)));
        for (int i = 1; i < n; i++)
            s[i] = (unsigned char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
        CHECK(valid ? kr_utf8_next(s, (size_t)n, &got) == n && got == c : kr_utf8_next(s, (size_t)n, &got) < 0);
        for (int i = 1; i < n && valid; i++)
            CHECK(kr_utf8_next(s, (size_t)i, &got) == 0 && kr_utf8_complete(s, (size_t)i) == 0);
    }
}

int main(void)
{
    RUN(crc32c_is_the_same_both_ways);
    RUN(ids_have_one_form);
    RUN(hash_known_texts);
    RUN(err_rows_are_complete);
    RUN(err_set_makes_and_returns);
    RUN(err_texts_are_cut_not_overrun);
    RUN(err_wrap_leaves_no_old_bytes);
    RUN(err_from_wire_is_made_safe);
    RUN(fd_close_keeps_errno);
    RUN(fd_cleanup_closes_unless_stolen);
    RUN(fd_read_all_tells_the_two_ends);
    RUN(fd_files_are_read_and_written_whole);
    RUN(fd_wait_keeps_its_deadline);
    RUN(log_quotes);
    RUN(log_quote_fits_any_size);
    RUN(log_lines);
    RUN(buf_grows_to_its_maximum_and_fails_for_good);
    RUN(buf_hands_over);
    RUN(json_escapes);
    RUN(json_escapes_at_every_place);
    RUN(json_replaces_what_is_not_utf8);
    RUN(json_document);
    RUN(json_doubles_read_back);
    RUN(json_misuse_is_told);
    RUN(json_full_is_told);
    RUN(base64_known_texts);
    RUN(base64_refuses);
    RUN(base64_all_bytes_and_lengths);
    RUN(utf8_same_text_at_every_split);
    RUN(utf8_byte_by_byte_is_never_late);
    RUN(utf8_complete_never_cuts);
    RUN(utf8_every_code_point);
    CHECK_DONE();
}

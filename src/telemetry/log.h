/* Log lines: one line each, logfmt or JSON, to stderr and, in the process that opened them, to files that rotate. User
 * code at debug alone and never beyond its first 100 characters (a dialect may promise them at info), never output, a
 * key or the value of a variable. docs/design/watching.md has every bound.
 *
 * Any thread may log. A line never blocks for long: if no process reads stderr it is dropped, and counted. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_err;

enum kr_log_level { KR_LOG_ERROR, KR_LOG_WARN, KR_LOG_INFO, KR_LOG_DEBUG, KR_LOG_MAX_ };
enum kr_log_format { KR_LOG_LOGFMT, KR_LOG_JSON, KR_LOG_FORMATS_ };

/* ---- settings ---- */

/* Lines above this level are dropped; WARN by default. */
void kr_log_set_level(enum kr_log_level level);
/* Are lines of that level written? */
bool kr_log_is_on(enum kr_log_level level);
/* LOGFMT by default. */
void kr_log_set_format(enum kr_log_format format);
/* Shall lines begin with the time (UTC, milliseconds)? Off by default; JSON lines always do. */
void kr_log_set_time(bool on);
/* Names the process in its lines: "warden", "engine", "builder". The string is kept, not copied. */
void kr_log_set_who(const char *who);
/* Every line of this thread carries `request=id` until the next call; NULL: none. Copied, KR_LOG_REQUEST_MAX bytes of
 * it. For the length of a handler's call. */
#define KR_LOG_REQUEST_MAX 128u
void kr_log_set_request(const char *id);
/* Bursts: of lines at error and warn, and of lines at info and debug, each, so many at once and so many a second in the
 * long run; those past it are dropped and counted, and once in ten seconds a line that says how many precedes the next
 * that is written. 0 a second: no bound. 10000 and 1000 by default. */
void kr_log_set_rate(uint32_t burst, uint32_t per_second);

/* ---- files ---- */

#define KR_LOG_FILE "krait.log"
#define KR_LOG_FILE_MAX (5u << 20) /* bytes of one file */
#define KR_LOG_FILES 10u           /* krait.log, krait.log.1 … krait.log.9 */

/* Writes to dir/krait.log as well, from this process alone (a child's lines go to stderr). The folder is made if it is
 * missing (its parent is not). A full file becomes krait.log.1 and so on, the last goes. If that fails, nothing is
 * written past the size and it is tried again in a minute. 0, or -errno with err: not a folder, not a regular file, not
 * writable. */
int kr_log_open(const char *dir, struct kr_err *err);
/* The same with other sizes; for tests. */
int kr_log_open_sized(const char *dir, uint64_t file_max, unsigned files, struct kr_err *err);
/* Opens krait.log again, which another program has renamed (SIGHUP). Nothing if no folder is open. 0 or -errno: then
 * the old one stays. */
int kr_log_reopen(void);
void kr_log_close(void);

/* Lines that were dropped, ever: by the bound on bursts, by a reader of stderr who does not read, by a full disk. */
struct kr_log_figures {
    uint64_t lines; /* asked for at a level that is written */
    uint64_t dropped_burst, dropped_stderr, dropped_file;
};
struct kr_log_figures kr_log_figures(void);

/* ---- lines ---- */

/* `level=warn who=warden msg="text" key=value…`: fmt gives everything after msg: kr_log(KR_LOG_WARN, "zygote ended",
 * "preload=%s status=%d", …). fmt may be NULL. Values with blanks or from outside come through kr_log_quote(), or by
 * kr_log_with(). One write(2); safe after fork. */
void kr_log(enum kr_log_level level, const char *msg, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A field of kr_log_with(). Texts may be anything: they are quoted where needed and bounded. */
struct kr_log_field {
    const char *key; /* a word of [a-z0-9_]; NULL: the field is left out */
    enum { KR_LOG_TEXT_, KR_LOG_INT_, KR_LOG_UINT_, KR_LOG_REAL_, KR_LOG_BOOL_ } type;
    union {
        struct {
            const char *text;  /* NULL: the field is left out */
            size_t len, chars; /* bytes there, characters of them that are shown */
        };
        int64_t i;
        uint64_t u;
        double real; /* two decimals */
        bool truth;
    };
};
#define KR_LOG_TEXT_CHARS 256u
#define KR_LOG_CODE_CHARS 100u
/* clang-format off */
#define KR_F_STR(k, v) {.key = (k), .type = KR_LOG_TEXT_, .text = (v), .len = SIZE_MAX, .chars = KR_LOG_TEXT_CHARS}
#define KR_F_CODE(k, v, n) {.key = (k), .type = KR_LOG_TEXT_, .text = (v), .len = (n), .chars = KR_LOG_CODE_CHARS}
#define KR_F_INT(k, v) {.key = (k), .type = KR_LOG_INT_, .i = (v)}
#define KR_F_UINT(k, v) {.key = (k), .type = KR_LOG_UINT_, .u = (v)}
#define KR_F_REAL(k, v) {.key = (k), .type = KR_LOG_REAL_, .real = (v)}
#define KR_F_BOOL(k, v) {.key = (k), .type = KR_LOG_BOOL_, .truth = (v)}
/* clang-format on */
/* kr_log_with(KR_LOG_INFO, "run started", KR_F_STR("run", id), KR_F_CODE("code", text, len)); SIZE_MAX as a length: up
 * to the NUL. */
#define kr_log_with(level, msg, ...)                                                                                   \
    kr_log_fields(level, msg, (const struct kr_log_field[]){__VA_ARGS__},                                              \
                  sizeof((const struct kr_log_field[]){__VA_ARGS__}) / sizeof(struct kr_log_field))
void kr_log_fields(enum kr_log_level level, const char *msg, const struct kr_log_field *fields, size_t count);

/* Writes `text` quoted for logfmt, at most `max` input bytes, control characters escaped; returns buf. */
const char *kr_log_quote(char *buf, unsigned long size, const char *text, unsigned long max);

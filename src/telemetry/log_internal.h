/* Between the files of the log alone: log.c decides and writes, log_line.c makes lines, log_file.c keeps files. */
#pragma once
#include "log.h"

#define LOG_LOGFMT_MAX 2048u
#define LOG_JSON_MAX 4096u /* PIPE_BUF: a line to a pipe is never torn by another's */

/* A line in the making. What does not fit is cut; the line stays well-formed. */
struct kr_log_line {
    char text[LOG_JSON_MAX];
    size_t len, room; /* room leaves space for the end of the line */
    bool json, any;
    bool has_request; /* the request's id is in it */
};
void kr_log_line_begin(struct kr_log_line *l, bool json);
/* A text: len bytes (SIZE_MAX: up to the NUL), at most `chars` characters of it. quoted: with quotes in logfmt whether
 * it needs them or not. */
void kr_log_line_text(struct kr_log_line *l, const char *key, const char *text, size_t len, size_t chars, bool quoted);
/* A value that is a word in both formats: a number, true, false. */
void kr_log_line_word(struct kr_log_line *l, const char *key, const char *word);
/* `key=value key="value"…` as kr_log() is given it. */
void kr_log_line_pairs(struct kr_log_line *l, char *pairs, size_t len);
/* Hides what looks like a key, closes the line and ends it with a newline. */
void kr_log_line_end(struct kr_log_line *l);

/* Appends to the files if this process has opened them; the caller holds the log's lock. False: it was dropped. */
bool kr_log_file_write(const char *line, size_t len);
int kr_log_file_open(const char *dir, uint64_t file_max, unsigned files, struct kr_err *err);
int kr_log_file_reopen(void);
void kr_log_file_close(void);

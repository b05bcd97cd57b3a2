/* `krait check`: code is judged by a policy, and not run. cmd_check.c reads the files with the caller's rights; the
 * engine (check_app.c) makes units of them, has each judged in a cell, and writes the report. */
#pragma once
#include "buf.h"
#include "err.h"
#include "launch.h"
#include "options.h"
#include "policy.h"
#include <jansson.h>

#define KR_CHECK_FILE_MAX (10u << 20)   /* bytes of one file */
#define KR_CHECK_FILES_MAX 10000u       /* of one call */
#define KR_CHECK_BYTES_MAX (128u << 20) /* of all of them */

/* Exit statuses. */
#define KR_CHECK_CLEAN 0
#define KR_CHECK_FINDINGS 1
#define KR_CHECK_FAILED 2 /* wrong use, or something could not be judged */

enum kr_check_format { KR_CHECK_TEXT, KR_CHECK_JSON, KR_CHECK_SARIF, KR_CHECK_FORMAT_MAX_ };
extern const char *const kr_check_formats[KR_CHECK_FORMAT_MAX_ + 1]; /* NULL terminated */

struct kr_check_options {
    struct kr_cli_common common;
    int format;
    const char *policy_file, *user;
    struct kr_opt_list profiles, allowed_imports;
};

/* ---- what is judged (check_files.c) ---- */

struct kr_check_file {
    char *path; /* as it was given, or found below it; "<stdin>" */
    char *text; /* NULL: `why` says why not */
    size_t len;
    char why[160];
};
struct kr_check_files {
    struct kr_check_file *rows;
    size_t count, room;
    size_t bytes;
};
/* Reads the operands: files, `-`, and folders, of which *.py and *.ipynb are taken. A file that cannot be read is a row
 * with a reason. 0, or -errno with err if nothing can be judged at all. */
int kr_check_files_read(char **operands, int count, struct kr_check_files *ret, struct kr_err *err);
void kr_check_files_done(struct kr_check_files *files);

/* A text that is judged by itself: a file, or a cell of a notebook. */
struct kr_check_unit {
    const struct kr_check_file *file;
    unsigned cell;    /* 1 is the first code cell; 0: it is no notebook */
    const char *text; /* NULL: it cannot be judged */
    size_t len;
    char *owned;      /* of a cell: the text */
    json_t *findings; /* an array, or NULL */
    char why[320];    /* why it could not be judged; "": it was */
};
struct kr_check_units {
    struct kr_check_unit *rows;
    size_t count, room;
};
/* In the engine: parses what came from outside. 0 or -ENOMEM. */
int kr_check_units_make(const struct kr_check_files *files, struct kr_check_units *ret);
void kr_check_units_done(struct kr_check_units *units);

/* ---- the report (check_report.c, check_sarif.c) ---- */

struct kr_check_report {
    const struct kr_check_units *units;
    const struct kr_check_files *files;
    const struct kr_policy_spec *policy;
};
struct kr_check_counts {
    size_t findings, with_findings, failed; /* of findings; of units */
};
struct kr_check_counts kr_check_count(const struct kr_check_report *r);
/* 0 or -ENOBUFS, -ENOMEM. */
int kr_check_write(const struct kr_check_report *r, enum kr_check_format format, struct kr_buf *buf);
int kr_check_write_sarif(const struct kr_check_report *r, struct kr_buf *buf);
/* Members of a finding, which came from a session: 0 and "" if they are absent or of another type. */
int64_t kr_check_number(const json_t *finding, const char *name);
const char *kr_check_text(const json_t *finding, const char *name);

/* ---- the engine's side ---- */

struct kr_check_app {
    const struct kr_check_options *options;
    const struct kr_check_files *files;
    struct kr_policy_spec policy;
};
/* A kr_engine_main. arg: the kr_check_app. */
int kr_check_app_main(int control, void *arg);

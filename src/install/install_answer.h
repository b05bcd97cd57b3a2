/* What the resolver says (src/kernel/python/resolve.py), a line of JSON at a time, checked before anything believes it:
 * with a build, code of packages has run beside it. Pure. */
#pragma once
#include "package_env.h"
#include "requirement.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct kr_err;

#define KR_ANSWER_MAX (2u << 20)        /* bytes of all its lines */
#define KR_ANSWER_PATH_MAX 8192u        /* of a file beneath the index */
#define KR_ANSWER_PROGRESS_MAX 200u     /* characters of a line of progress */
#define KR_ANSWER_HOST "127.0.0.1:3128" /* where a cell finds the index; KR_EGRESS_PORT */
#define KR_ANSWER_INDEX "index/"        /* beneath it; KR_EG_INDEX_PATH */

/* A file that is to be installed. */
struct kr_answer_file {
    char name[KR_REQ_NAME_ROOM]; /* as its metadata has it */
    char canonical[KR_REQ_NAME_ROOM];
    char version[KR_PKG_VERSION_MAX];
    char file[KR_WHEEL_NAME_ROOM]; /* the last part of its path, decoded */
    char *path;                    /* "index/file/…", beneath the host */
    char sha256[KR_SHA256_ROOM];   /* "": the index has none */
    bool requested, sdist;
};

/* What is there already. */
struct kr_answer_have {
    char name[KR_REQ_NAME_ROOM], canonical[KR_REQ_NAME_ROOM], version[KR_PKG_VERSION_MAX];
    bool requested, in_venv; /* else it is the system's */
};

struct kr_answer {
    struct kr_answer_file *files; /* in order of installation */
    size_t file_count;
    struct kr_answer_have *have;
    size_t have_count;
    json_t *notes; /* array of texts */
    char *error;   /* NULL: it has found an answer */
    char kind[16]; /* of the error */
    json_t *names; /* of the error: array of texts */
    bool is_whole; /* the object has come */
};
void kr_answer_done(struct kr_answer *a);

/* One line without its end. `build`: source distributions may be in it. 1: it was progress, and progress has the text;
 * 0: it was the answer, or nothing that means anything; -EPROTO with err: it makes no sense. */
int kr_answer_line(struct kr_answer *a, const char *line, size_t len, bool build,
                   char progress[KR_ANSWER_PROGRESS_MAX + 1], struct kr_err *err);

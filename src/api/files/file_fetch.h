/* Files by address: fetched by the egress process into a sandbox's workspace, as jobs of kind `files.fetch`.
 * docs/design/files-api.md. Loop thread only. */
#pragma once
#include "job.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct kr_api;
struct kr_api_files;
struct kr_caller;

#define KR_FILE_FETCH_TIMEOUT_S 300
#define KR_FILE_FETCH_TIMEOUT_MAX_S 3600
#define KR_FILE_FETCH_URL_MAX 2048u

/* Its app is api->files. */
extern const struct kr_job_kind kr_file_fetch_kind;

struct kr_file_fetch_ask {
    const char *url;     /* https://… or http://… */
    const char *sandbox; /* id or name; NULL: the default one */
    const char *path;    /* where: a path, or a folder if it ends with / or is one; NULL: the workspace */
    const char *id;      /* what the client calls it: not fetched again while the file that it was is there; or NULL */
    bool keep;           /* what is there already is not replaced */
    uint64_t timeout_ms;
};
/* 0 and a job; or -errno with err: KR_ERR_DENIED (no rule reaches anything), KR_ERR_INVALID, KR_ERR_UNAVAILABLE, …
 *
 * Its result: {"path","name","size","type","sha256","created","url"}, or of an id that is there {"path","present"}. */
int kr_file_fetch_start(struct kr_api *api, const struct kr_caller *who, const struct kr_file_fetch_ask *ask,
                        struct kr_job **ret_job, struct kr_err *err);

/* ---- several, for a session that is opened with files (file_fetches.c) ---- */

/* `names`: of those that are there now; `errors`: "URL: why" of the others. Borrowed for the call. */
typedef void kr_file_fetches_fn(void *data, const json_t *names, const json_t *errors);
struct kr_file_fetches;
/* Fetches each address of `urls` (texts; or NULL) and `files` (objects with url and id; or NULL), some at a time, all
 * within timeout_ms. fn is called once, from the loop or before this returns; -ENOMEM and it is not. */
int kr_file_fetches_start(struct kr_api *api, const struct kr_caller *who, const char *sandbox, const json_t *urls,
                          const json_t *files, uint64_t timeout_ms, kr_file_fetches_fn *fn, void *data,
                          struct kr_file_fetches **ret_fetches);
/* The caller has left: fn is not called any more; what is under way goes on, and nothing else is begun. */
void kr_file_fetches_forget(struct kr_file_fetches *fetches);

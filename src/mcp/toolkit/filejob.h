/* A call's work on the files of a sandbox: pieces on the thread pool, everything else on the loop.
 *
 * A job outlives its call: a client that cancels takes `call` away, and the job ends when its piece has. While a piece runs,
 * ws, path, r, err and what the kind adds belong to the thread. The workspace is reached as by src/files/files.h alone. */
#pragma once
#include "api.h"
#include "call.h"
#include "files.h"
#include "work.h"

struct kr_api_files;
struct kr_mcp_job;

typedef void kr_mcp_job_fn(struct kr_mcp_job *j);

struct kr_mcp_job_kind {
    size_t size;         /* of the struct that begins with a struct kr_mcp_job */
    kr_mcp_job_fn *late; /* on the loop: a piece has ended whose client left; the server is there. May be NULL */
    kr_mcp_job_fn *done; /* on the loop: frees what the kind has added. May be NULL */
};

struct kr_mcp_job {
    struct kr_work work;
    const struct kr_mcp_job_kind *kind;
    struct kr_mcp_call *call; /* NULL: answered, or the client left */
    struct kr_api_files *files;
    struct kr_mcp *mcp; /* NULL with `call` */
    struct kr_caller who;
    char user[KR_STORE_ID_ROOM], address[KR_HTTP_PEER_MAX], request[KR_HTTP_REQUEST_ID_MAX + 1];
    struct kr_sandbox sandbox;
    int ws; /* its folder */
    bool busy;
    kr_mcp_job_fn *step, *then;
    int r;
    struct kr_err err;
    char path[KR_FILES_PATH_MAX]; /* checked, relative */
};

/* A new one for a call, which is cancelled with it. NULL: there are too many (KR_FILE_WORKS_MAX), or no memory; err. */
void *kr_mcp_job_new(struct kr_mcp_call *c, const struct kr_mcp_job_kind *kind, struct kr_err *err);
/* The sandbox (id or name; NULL: default) and the path (NULL: none); `made`: it is to be written. 0 or -errno with j->err. */
int kr_mcp_job_place(struct kr_mcp_job *j, const char *sandbox, const char *path, bool made);
/* The path from the workspace, if it is a path of the machine beneath the folder of `krait mcp --workspace`, which is how
 * results name files then; else as it is. The sandbox is known. */
const char *kr_mcp_job_inside(const struct kr_mcp_job *j, const char *path);
/* Is the sandbox still there, with the same folder? 0, or -ENOENT with j->err. */
int kr_mcp_job_still_there(struct kr_mcp_job *j);
/* Does `step` on the thread pool, then `then` on the loop; not if the client has left by then. */
void kr_mcp_job_run(struct kr_mcp_job *j, kr_mcp_job_fn *step, kr_mcp_job_fn *then);
/* Takes the call to answer it; end() is next, before or after the answer. */
struct kr_mcp_call *kr_mcp_job_take(struct kr_mcp_job *j);
/* The job goes, now or after the piece that runs. */
void kr_mcp_job_end(struct kr_mcp_job *j);
/* A file was written (path: relative): a row of the audit log, the sandbox's sessions and the subscribers are told. */
void kr_mcp_job_wrote(struct kr_mcp_job *j, const char *path, uint64_t size);

/* A job on behalf of a call: followed, its progress told, cancelled when the client cancels, and at its end (or when
 * the client has waited long enough) rendered by the function that the tool named. */
#pragma once
#include "job.h"
#include "tool.h"
#include <jansson.h>

struct kr_mcp_job_state {
    const struct kr_store_job *row; /* ended 0: it goes on */
    const json_t *result;           /* as kr_install_result() has it; NULL: it goes on, or left none */
    bool timed_out;                 /* limit_ms is over, and the call's own job was told to end */
};
typedef void kr_mcp_job_render(struct kr_mcp_call *c, const struct kr_mcp_job_state *state, void *data);

struct kr_mcp_job_spec {
    struct kr_job *job;
    bool own;                  /* started by this call: it ends with it, unless another call waits for it */
    uint64_t answer_after_ms;  /* answered then with how far it is, and it goes on; 0: not before its end. Not for
                                * calls that are tasks or report progress, unless `at_once` */
    bool at_once;              /* the answer comes after that time, whatever the client can */
    uint64_t limit_ms;         /* the job is told to end then; 0: its own limits are enough */
    kr_mcp_job_render *render; /* answers the call */
    void (*free_data)(void *data);
    void *data;
};
/* Whatever goes wrong is answered. */
void kr_mcp_job_follow(struct kr_mcp_call *c, const struct kr_mcp_job_spec *spec);

/* How far it is, for people: "downloading (3.1 MB of 12.0 MB)"; its figures are bytes. Returns buf. */
#define KR_MCP_JOB_TEXT_ROOM (KR_STORE_JOB_TEXT_ROOM + 64)
const char *kr_mcp_job_text(const struct kr_store_job *row, char buf[KR_MCP_JOB_TEXT_ROOM]);

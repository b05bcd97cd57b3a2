/* POST of an address: a file is fetched into a sandbox, as a job. Called through the table of routes; file_fetch.c does
 * it. */
#include "body_read.h"
#include "file_fetch.h"
#include "file_request.h"
#include "job_routes.h"
#include "reply.h"
#include <errno.h>

struct fetch_request {
    const char *url, *path;
    bool overwrite;
    double timeout, wait;
};

/* clang-format off */
static const struct kr_api_field fetch_fields[] = {
    {.name = "url", .type = KR_API_STRING, KR_API_AT(struct fetch_request, url), .required = true,
     KR_API_LENGTH(1, KR_FILE_FETCH_URL_MAX), .help = "Where the file is: https or http.",
     .example = "https://example.org/data.csv"},
    {.name = "path", .type = KR_API_STRING, KR_API_AT(struct fetch_request, path), .nullable = true,
     KR_API_LENGTH(0, 4000),
     .help = "Where it goes to: a path, or a folder if it ends with / or is one. In a folder it has the name that the "
             "server gave it, or the last part of the address. Without it: the workspace.", .example = "data/"},
    {.name = "overwrite", .type = KR_API_BOOL, KR_API_AT(struct fetch_request, overwrite), .def = "true",
     .nullable = true, .help = "A file of that name is replaced; else that is a conflict.", .example = "false"},
    {.name = "timeout", .type = KR_API_NUMBER, KR_API_AT(struct fetch_request, timeout), .def = "300",
     .nullable = true, KR_API_RANGE(1, KR_FILE_FETCH_TIMEOUT_MAX_S), .help = "Seconds that it may take.",
     .example = "60"},
    {.name = "wait", .type = KR_API_NUMBER, KR_API_AT(struct fetch_request, wait), .def = "0", .nullable = true,
     KR_API_RANGE(0, KR_API_JOB_WAIT_MAX),
     .help = "Seconds that the answer waits for the end of the job; it goes on all the same.", .example = "30"},
};
static const struct kr_api_table fetch_table = KR_API_TABLE("FileFetchRequest", "A file by its address.", fetch_fields,
    struct fetch_request);
static const struct kr_api_param sandbox_params[] = {{"sandbox_id", "The sandbox's id, or its name.", "default"}, {0}};
static const struct kr_api_response fetch_answers[] = {KR_API_JOB_RESPONSES,
    {403, "No network rule lets anything be fetched into this sandbox.", NULL, &kr_api_error_schema,
     "{\"error\":{\"kind\":\"denied\",\"message\":\"the sandbox's network is none, so no address is fetched\","
     "\"field\":null,\"request_id\":\"7f3a\"}}", NULL}, {0}};

const struct kr_api_doc kr_api_fetch_post_doc = {.id = "fetch_file", .tag = "files", .voice = KR_API_KRAIT,
    .summary = "Fetch a file into a sandbox by its address", .needs = KR_RIGHT_RUN,
    .description = "A job, whose result has path, name, size, type and sha256. What may be reached is what the "
                   "sandbox's own network and the server's `fetch_network` allow; each redirect is judged anew. A file "
                   "is there whole or not at all, and counts as an upload.",
    .params = sandbox_params, .body = &fetch_table, .body_example = "{\"url\":\"https://example.org/data.csv\"}",
    .responses = fetch_answers};
/* clang-format on */

static void fetch_file(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct fetch_request *q = request;
    struct kr_file_fetch_ask ask = {.url = q->url,
                                    .path = q->path,
                                    .keep = !q->overwrite,
                                    .timeout_ms = (uint64_t)(q->timeout * 1000),
                                    .sandbox = kr_http_param(ex, "sandbox_id")};
    struct kr_api_who who;
    struct kr_job *job;
    struct kr_err err;

    (void)in;
    if (!kr_api_caller(app, ex, &who))
        return;
    if (kr_file_fetch_start(app, &who.caller, &ask, &job, &err) < 0)
        kr_api_fail(ex, &err);
    else
        kr_api_job_answer(app, ex, job, (uint64_t)(q->wait * 1000));
}

void kr_api_fetch_post(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &fetch_table, fetch_file);
}

/* Jobs over HTTP: list, read, follow, cancel; and the answer of a request that has started one. Our own voice. */
#pragma once
#include "api.h"
#include "job.h"
#include "route_doc.h"

struct kr_json;

kr_http_handler kr_api_jobs_list, kr_api_jobs_read, kr_api_jobs_events, kr_api_jobs_cancel;
extern const struct kr_api_doc kr_api_jobs_list_doc, kr_api_jobs_read_doc, kr_api_jobs_events_doc,
    kr_api_jobs_cancel_doc;
extern const struct kr_api_schema kr_api_job_schema, kr_api_job_line_schema;

/* An object; of a job that has ended with its result, if `with_result`. */
void kr_api_job_json(struct kr_api *api, struct kr_json *j, const struct kr_store_job *row, bool with_result);

/* Answers a request that has started a job, or joined one (job_answer.c): with its log, line by line, if Accept asks
 * for lines or events; else with the job, 200 when it has ended within wait_ms, 202 when it has not. The job goes on
 * when the client leaves. */
void kr_api_job_answer(struct kr_api *api, struct kr_http_ex *ex, struct kr_job *job, uint64_t wait_ms);
#define KR_API_JOB_WAIT_MAX 3600 /* seconds */

/* What routes that start jobs say of their answers. */
extern const struct kr_api_header kr_api_job_headers[];
/* clang-format off */
#define KR_API_JOB_LINE_EXAMPLE "{\"seq\":2,\"type\":\"notice\",\"code\":\"progress\",\"done\":1,\"total\":3," \
    "\"text\":\"downloading\"}"
#define KR_API_JOB_RESPONSES \
    {200, "The job, which has ended within `wait`; or its log, line by line as it happens, if Accept asks for that.", \
     "application/json", &kr_api_job_schema, NULL, kr_api_job_headers}, \
    {200, "Its log.", "application/x-ndjson", &kr_api_job_line_schema, KR_API_JOB_LINE_EXAMPLE, NULL}, \
    {200, "Its log as server-sent events.", "text/event-stream", &kr_api_job_line_schema, KR_API_JOB_LINE_EXAMPLE, \
     NULL}, \
    {202, "The job, which goes on.", "application/json", &kr_api_job_schema, NULL, kr_api_job_headers}

/* Rows of the one table (routes.c). */
#define KR_API_JOBS_ROUTES \
    {KR_HTTP_GET,    "/api/v1/jobs",                 0, 0, kr_api_jobs_list, &kr_api_jobs_list_doc}, \
    {KR_HTTP_DELETE, "/api/v1/jobs/{job_id}",        0, 0, kr_api_jobs_cancel, &kr_api_jobs_cancel_doc}, \
    {KR_HTTP_GET,    "/api/v1/jobs/{job_id}",        0, 0, kr_api_jobs_read, &kr_api_jobs_read_doc}, \
    {KR_HTTP_POST,   "/api/v1/jobs/{job_id}/cancel", 0, 0, kr_api_jobs_cancel, &kr_api_jobs_cancel_doc}, \
    {KR_HTTP_GET,    "/api/v1/jobs/{job_id}/events", 0, 0, kr_api_jobs_events, &kr_api_jobs_events_doc}
/* clang-format on */

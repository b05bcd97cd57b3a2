/* A request's body into its struct. Called by handlers.
 *
 * Large bodies are parsed by a thread of the pool, which owns the body: the exchange may be gone before it is done. Invariant: `then` is called with a live exchange and a filled struct, or not at all. */
#include "body_read.h"
#include "route_doc.h"
#include "err.h"
#include "http.h"
#include "reply.h"
#include "work.h"
#include <stdlib.h>

struct body_job {
    struct kr_work work;
    struct kr_http_ex *ex;
    void *app;
    const struct kr_api_table *table;
    kr_api_then *then;
    char *text; /* owned; NULL: the exchange has it */
    size_t len;
    void *request; /* owned */
    struct kr_api_input in;
    struct kr_err err;
    int r;
};

static void free_body_job(void *data)
{
    struct body_job *job = data;

    kr_api_input_done(&job->in);
    free(job->request);
    free(job->text);
    free(job);
}

/* Of a parse that is over: the answer or the handler's next step. */
static void finish_body(struct body_job *job)
{
    kr_http_drop_body(job->ex);
    if (job->r < 0)
        kr_api_fail_input(job->ex, &job->in, &job->err);
    else
        job->then(job->ex, job->app, job->request, &job->in);
}

static void on_client_gone(void *data, struct kr_http_ex *ex)
{
    struct body_job *job = data;

    (void)ex;
    kr_work_drop(&job->work);
}

static void run_parse(void *data)
{
    struct body_job *job = data;

    job->r = kr_api_parse_body(job->table, job->text, job->len, job->request, &job->in, &job->err);
}

static void on_parse_done(void *data)
{
    struct body_job *job = data;

    finish_body(job);
    free_body_job(job);
}

static int start_parse(struct uv_loop_s *loop, struct body_job *job)
{
    static const struct kr_http_calls calls = {.on_gone = on_client_gone};
    static const struct kr_work_calls work = {.run = run_parse, .done = on_parse_done, .dropped = free_body_job};

    job->text = kr_http_take_body(job->ex, &job->len);
    if (!job->text)
        return -1;
    kr_work_start(loop, &job->work, &work, job);
    kr_http_defer(job->ex, &calls, job);
    return 0;
}

void kr_api_read_body(struct uv_loop_s *loop, struct kr_http_ex *ex, void *app, const struct kr_api_table *table,
                      kr_api_then *then)
{
    struct body_job *job = calloc(1, sizeof *job);
    size_t len;
    const char *text = kr_http_body(ex, &len);

    if (!job || !(job->request = calloc(1, table && table->size ? table->size : 1))) {
        free(job);
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for a request");
        return;
    }
    job->ex = ex;
    job->app = app;
    job->table = table;
    job->then = then;
    kr_api_input_init(&job->in, kr_api_voice_of(ex));
    if (len > KR_API_INLINE_MAX) {
        if (start_parse(loop, job) == 0)
            return;
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for a request");
    } else {
        job->r = kr_api_parse_body(table, text, len, job->request, &job->in, &job->err);
        finish_body(job);
    }
    free_body_job(job);
}

bool kr_api_read_query(struct kr_http_ex *ex, const struct kr_api_table *table, void *request, struct kr_api_input *in)
{
    struct kr_err err;

    kr_api_input_init(in, kr_api_voice_of(ex));
    if (kr_api_parse_query(table, kr_http_query(ex), request, in, &err) == 0)
        return true;
    kr_api_fail_input(ex, in, &err);
    kr_api_input_done(in);
    return false;
}

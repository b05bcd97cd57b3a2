/* From the body of a POST to JSON. Called by mcp_http_post.c and mcp_http_sse.c. Invariant: a thread of the pool that parses
 * owns the text, so that the exchange may go meanwhile; `then` is called with a live exchange or not at all. */
#include "mcp_http_body.h"
#include "api.h"
#include "mcp_http_stream.h"
#include "body_read.h"
#include "work.h"
#include <stdlib.h>

#define PARSING_MAX (128u << 20) /* bytes of bodies that wait for a thread, of all clients; past it 503 */

struct parse_job {
    struct kr_work work;
    struct kr_http_ex *ex;
    struct kr_api *api;
    kr_mcp_http_then *then;
    char *text;
    size_t len;
    json_t *root;
    struct kr_mcp_flaw flaw;
};

static void run_parse(void *data)
{
    struct parse_job *job = data;

    if (kr_mcp_parse(job->text, job->len, &job->root, &job->flaw) < 0)
        job->root = NULL;
}

static void end_parse(struct parse_job *job, bool wanted)
{
    struct kr_mcp *m = job->api->mcp; /* NULL: MCP has ended, and HTTP before it without a call of on_gone */

    free(job->text);
    if (m)
        m->parsing -= job->len;
    if (wanted && m)
        job->then(job->ex, job->api, job->root, &job->flaw);
    else
        json_decref(job->root);
    free(job);
}

static void on_parse_done(void *data)
{
    end_parse(data, true);
}

static void on_parse_dropped(void *data)
{
    end_parse(data, false);
}

static void on_client_gone(void *data, struct kr_http_ex *ex)
{
    struct parse_job *job = data;

    (void)ex;
    kr_work_drop(&job->work);
}

static void read_later(struct kr_http_ex *ex, struct kr_api *api, kr_mcp_http_then *then)
{
    static const struct kr_http_calls calls = {.on_gone = on_client_gone};
    static const struct kr_work_calls work = {.run = run_parse, .done = on_parse_done, .dropped = on_parse_dropped};
    struct parse_job *job = calloc(1, sizeof *job);

    if (job) {
        *job = (struct parse_job){.ex = ex, .api = api, .then = then};
        job->text = kr_http_take_body(ex, &job->len);
    }
    if (!job || !job->text) {
        free(job);
        kr_mcp_http_refuse(ex, 503, NULL, KR_RPC_INTERNAL, "no memory", NULL);
        return;
    }
    ((struct kr_mcp *)api->mcp)->parsing += job->len;
    kr_work_start(api->loop, &job->work, &work, job);
    kr_http_defer(ex, &calls, job);
}

void kr_mcp_http_read(struct kr_http_ex *ex, struct kr_api *api, kr_mcp_http_then *then)
{
    struct kr_mcp_flaw flaw;
    json_t *root = NULL;
    size_t len;
    const char *text = kr_http_body(ex, &len);

    if (len > KR_API_INLINE_MAX && ((struct kr_mcp *)api->mcp)->parsing + len > PARSING_MAX) {
        kr_http_drop_body(ex);
        kr_http_set_header(ex, "Retry-After", "1");
        kr_mcp_http_refuse(ex, 503, NULL, KR_RPC_INTERNAL, "too many large messages at once: try again in a moment",
                           NULL);
        return;
    }
    if (len > KR_API_INLINE_MAX) {
        read_later(ex, api, then);
        return;
    }
    if (kr_mcp_parse(text, len, &root, &flaw) < 0)
        root = NULL;
    kr_http_drop_body(ex);
    then(ex, api, root, &flaw);
}

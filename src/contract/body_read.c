/* From a request's body to what it means. Called by handlers, and for MCP's messages by mcp_http_body.c.
 *
 * Large bodies are parsed by a thread of the pool, which owns the body: the exchange may be gone before it is done.
 * Invariant: `done` is called with a live exchange, `then` also with a filled struct, or not at all. */
#include "body_read.h"
#include "route_doc.h"
#include "err.h"
#include "http.h"
#include "reply.h"
#include "work.h"
#include <errno.h>
#include <stdlib.h>

/* ---- any body ---- */

/* A body that a thread parses. */
struct body_read {
    struct kr_work work;
    struct kr_http_ex *ex;
    const struct kr_body_calls *calls;
    void *data;
    char *text;
    size_t len;
};

static void free_body_read(struct body_read *r)
{
    free(r->text);
    free(r);
}

static void run_parse(void *data)
{
    struct body_read *r = data;

    r->calls->parse(r->data, r->text, r->len);
}

static void on_parse_done(void *data)
{
    struct body_read *r = data, own = *r;

    free_body_read(r);
    own.calls->done(own.data, own.ex);
}

static void on_parse_dropped(void *data)
{
    struct body_read *r = data, own = *r;

    free_body_read(r);
    own.calls->dropped(own.data);
}

static void on_body_client_gone(void *data, struct kr_http_ex *ex)
{
    struct body_read *r = data;

    (void)ex;
    kr_work_drop(&r->work);
}

static int read_on_thread(struct uv_loop_s *loop, struct kr_http_ex *ex, const struct kr_body_calls *calls, void *data)
{
    static const struct kr_http_calls gone = {.on_gone = on_body_client_gone};
    static const struct kr_work_calls work = {.run = run_parse, .done = on_parse_done, .dropped = on_parse_dropped};
    struct body_read *r = calloc(1, sizeof *r);

    if (r) {
        *r = (struct body_read){.ex = ex, .calls = calls, .data = data};
        r->text = kr_http_take_body(ex, &r->len);
    }
    if (!r || !r->text) {
        free(r);
        return -ENOMEM;
    }
    kr_work_start(loop, &r->work, &work, r);
    kr_http_defer(ex, &gone, r);
    return 0;
}

int kr_body_read(struct uv_loop_s *loop, struct kr_http_ex *ex, const struct kr_body_calls *calls, void *data)
{
    size_t len;
    const char *text = kr_http_body(ex, &len);

    if (len > KR_API_INLINE_MAX)
        return read_on_thread(loop, ex, calls, data);
    calls->parse(data, text, len);
    kr_http_drop_body(ex);
    calls->done(data, ex);
    return 0;
}

/* ---- a body by its table ---- */

struct table_read {
    void *app;
    const struct kr_api_table *table;
    kr_api_then *then;
    void *request; /* owned */
    struct kr_api_input in;
    struct kr_err err;
    int r;
};

static void free_table_read(void *data)
{
    struct table_read *t = data;

    if (!t)
        return;
    kr_api_input_done(&t->in);
    free(t->request);
    free(t);
}

static void parse_table(void *data, const char *text, size_t len)
{
    struct table_read *t = data;

    t->r = kr_api_parse_body(t->table, text, len, t->request, &t->in, &t->err);
}

static void on_table_parsed(void *data, struct kr_http_ex *ex)
{
    struct table_read *t = data;

    if (t->r < 0)
        kr_api_fail_input(ex, &t->in, &t->err);
    else
        t->then(ex, t->app, t->request, &t->in);
    free_table_read(t);
}

void kr_api_read_body(struct uv_loop_s *loop, struct kr_http_ex *ex, void *app, const struct kr_api_table *table,
                      kr_api_then *then)
{
    static const struct kr_body_calls calls = {
        .parse = parse_table, .done = on_table_parsed, .dropped = free_table_read};
    struct table_read *t = calloc(1, sizeof *t);

    if (t) {
        *t = (struct table_read){.app = app, .table = table, .then = then};
        kr_api_input_init(&t->in, kr_api_voice_of(ex));
        t->request = calloc(1, table && table->size ? table->size : 1);
    }
    if (t && t->request && kr_body_read(loop, ex, &calls, t) == 0)
        return;
    free_table_read(t);
    kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for a request");
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

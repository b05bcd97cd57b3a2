/* The time between a request for a run and its admission.
 *
 * Called by the handlers that run code. Invariant: exactly one of three things happens: the voice takes over, the
 * error is answered, or the peer has left and nothing is answered. */
#include "run_start.h"
#include "reply.h"
#include <stdlib.h>

struct starting {
    struct kr_api *api;
    struct kr_http_ex *ex; /* NULL: the peer has left */
    struct kr_box_run *run;
    kr_api_admitted *then;
    unsigned how;
};

static void on_admitted(void *data, struct kr_box_run *run, const struct kr_err *err)
{
    struct starting *s = data;

    if (s->ex && !run) {
        kr_api_fail(s->ex, err);
    } else if (s->ex) {
        (void)kr_http_set_header(s->ex, "X-Run-Id", kr_box_run_id(run));
        (void)kr_http_set_header(s->ex, "X-Session-Id", kr_box_run_session(run));
        s->then(s->api, s->ex, kr_box_run_log(run), kr_box_run_id(run), s->how);
    }
    free(s);
}

static void on_gone(void *data, struct kr_http_ex *ex)
{
    struct starting *s = data;

    (void)ex;
    kr_box_run_forget(s->run); /* on_admitted does not come any more */
    free(s);
}

void kr_api_start(struct kr_api *api, struct kr_http_ex *ex, const struct kr_api_who *who,
                  const struct kr_run_spec *spec, kr_api_admitted *then, unsigned how)
{
    static const struct kr_http_calls calls = {.on_gone = on_gone};
    struct starting *s = calloc(1, sizeof *s);
    struct kr_err err;

    if (!s) {
        kr_http_reply_error(ex, 503, "out of memory");
        return;
    }
    *s = (struct starting){.api = api, .ex = ex, .then = then, .how = how};
    if (kr_box_run_start(api->box, &who->caller, spec, on_admitted, s, &s->run, &err) < 0) {
        free(s);
        kr_api_fail_named(ex, &err);
        return;
    }
    kr_http_defer(ex, &calls, s);
}

/* krait-engine on the engine's side. krait-engine.c fills the configuration and forks; engine_app.c is the loop and the
 * events, engine_ops.c the requests. */
#pragma once
#include "engine.h"
#include "json.h"
#include "launch.h"
#include "run.h"
#include "streams.h"
#include "buf.h"
#include <jansson.h>
#include <sys/queue.h>
#include <uv.h>

TAILQ_HEAD(kr_engine_clients, kr_engine_client);
TAILQ_HEAD(kr_engine_runs, kr_engine_run);

struct kr_engine_app {
    struct kr_engine_config config;
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct kr_engine *engine;
    struct kr_sink *out;
    struct kr_source *in;
    struct kr_buf line;               /* what has come of the request being read */
    size_t scanned;                   /* of it, without a newline */
    struct kr_engine_clients clients; /* whose sessions are open */
    uint32_t last_number;
    bool paused; /* our reader is slow: sessions and requests wait */
    bool stopping, done;
    int outlet; /* to the stand-in for the egress process; -1: there is none */
    int status;
};

/* A session that a client has opened. */
struct kr_engine_client {
    TAILQ_ENTRY(kr_engine_client) link;
    struct kr_engine_app *app;
    struct kr_session *session;
    uint32_t number;            /* how requests name it */
    struct kr_engine_runs runs; /* the first is the current one */
    json_t *open_id;            /* of the request that opened it, until answered */
    json_t *close_id;           /* of the request that closed it, or NULL */
    uint64_t asked_ns;
    uint64_t timeout_ms; /* of runs that bring none */
};

/* A kr_engine_main. */
int kr_engine_app_main(int control, void *arg);

/* An answer: {"id":…,"event":…, and whatever is added until kr_answer_send(). id NULL: an event that answers no
 * request. */
struct kr_answer {
    struct kr_engine_app *app;
    struct kr_buf buf;
    struct kr_json json;
};
void kr_answer_begin(struct kr_answer *a, struct kr_engine_app *app, const json_t *id, const char *event);
void kr_answer_send(struct kr_answer *a);
void kr_answer_error(struct kr_engine_app *app, const json_t *id, const struct kr_err *err);

/* One line of the client. */
void kr_engine_request(struct kr_engine_app *app, const char *line, size_t len);

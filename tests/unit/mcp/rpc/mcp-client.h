/* A client of src/mcp for unit tests: messages go in as text, and what comes out is kept. No transport, no engine:
 * only tools that need none (the fixtures) can be called. */
#pragma once
#include "mcp.h"
#include "peer.h"
#include <jansson.h>
#include <uv.h>

struct client {
    struct kr_mcp_peer *peer;
    json_t *got; /* messages that came and were not taken, in their order */
    int last_id;
    bool modern;
    const char *capabilities; /* JSON; of every request (modern), or of initialize */
};

/* The server they talk to. */
struct kr_mcp *bench_start(void);
void bench_stop(void);

/* A client of this user's; a legacy one has said initialize with 2025-11-25. */
void client_open(struct client *cl, const char *user, bool modern, const char *capabilities);
void client_close(struct client *cl);
/* Sends a request and does not wait; its id. params is taken. */
int client_send(struct client *cl, const char *method, json_t *params);
/* The message that answers the id: waits for it up to five seconds. A new reference; NULL: it did not come. */
json_t *client_take_answer(struct client *cl, int id);
/* The next request or notification of this method, waited for; the same. */
json_t *client_take(struct client *cl, const char *method);
/* A request and its answer. */
json_t *client_call(struct client *cl, const char *method, json_t *params);
/* tools/call. arguments is taken, may be NULL. */
json_t *client_tool(struct client *cl, const char *name, json_t *arguments);
/* Answers a question of the server's. result is taken. */
void client_answer(struct client *cl, const json_t *question, json_t *result);
/* The loop runs for that long. */
void bench_wait(uint64_t ms);

/* Members along a path of names; borrowed, NULL where it breaks off. */
const json_t *at(const json_t *value, ...) __attribute__((sentinel));
/* The same, as a text: "" if it is none. */
const char *text_at(const json_t *value, const char *one, const char *two);
int code_of(const json_t *answer); /* of the error; 0: it is a result */

/* See mcp-client.h. */
#include "mcp-client.h"
#include "api.h"
#include "clock.h"
#include "err.h"
#include "loop.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 30000u

static struct {
    uv_loop_t loop;
    struct kr_api api;
    struct kr_mcp *mcp;
} world;

/* ---- the server ---- */

struct kr_mcp *bench_start(void)
{
    static const struct kr_mcp_config config = {.version = "0"};
    struct kr_err err;

    uv_loop_init(&world.loop);
    world.api.loop = &world.loop;
    if (kr_mcp_new(&world.api, &config, &world.mcp, &err) < 0) {
        printf("FAIL bench_start: %s\n", err.msg);
        exit(1);
    }
    return world.mcp;
}

void bench_stop(void)
{
    kr_mcp_stop(world.mcp);
    kr_mcp_free(world.mcp);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    uv_loop_close(&world.loop);
}

static void on_time(void *data)
{
    *(bool *)data = true;
}

/* Turns until there is something, or the time is over. */
static void turn(struct client *cl, bool (*is_there)(const struct client *cl, const void *what), const void *what,
                 uint64_t ms)
{
    struct kr_timer *timer;
    bool over = false;

    if (kr_timer_new(&world.loop, on_time, &over, &timer) < 0)
        return;
    kr_timer_arm(timer, ms);
    while (!over && !(is_there && is_there(cl, what)))
        uv_run(&world.loop, UV_RUN_ONCE);
    kr_timer_close(timer);
    uv_run(&world.loop, UV_RUN_NOWAIT);
}

void bench_wait(uint64_t ms)
{
    turn(NULL, NULL, NULL, ms);
}

/* ---- a client ---- */

static void on_message(void *data, void *stream, enum kr_mcp_sent what, int code, const char *json, size_t len)
{
    struct client *cl = data;

    (void)stream;
    (void)what;
    (void)code;
    if (json)
        json_array_append_new(cl->got, json_loadb(json, len, 0, NULL));
}

static const struct kr_mcp_wire wire = {.send = on_message};

void client_open(struct client *cl, const char *user, bool modern, const char *capabilities)
{
    struct kr_mcp_peer_config config = {
        .wire = &wire, .data = cl, .who = {.user = user, .rights = ~0u, .address = "", .request = ""}};

    *cl = (struct client){.got = json_array(), .modern = modern, .capabilities = capabilities};
    if (kr_mcp_peer_new(world.mcp, &config, &cl->peer) < 0)
        abort();
    if (!modern)
        json_decref(
            client_call(cl, "initialize",
                        json_pack("{s:s, s:o, s:{s:s, s:s}}", "protocolVersion", "2025-11-25", "capabilities",
                                  json_loads(capabilities, 0, NULL), "clientInfo", "name", "test", "version", "0")));
}

void client_close(struct client *cl)
{
    kr_mcp_peer_free(cl->peer);
    json_decref(cl->got);
}

static void send_json(struct client *cl, json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);

    kr_mcp_peer_receive(cl->peer, text, strlen(text), cl);
    free(text);
    json_decref(message);
}

int client_send(struct client *cl, const char *method, json_t *params)
{
    if (!params)
        params = json_object();
    if (cl->modern)
        json_object_set_new(params, "_meta",
                            json_pack("{s:s, s:o}", "io.modelcontextprotocol/protocolVersion", "2026-07-28",
                                      "io.modelcontextprotocol/clientCapabilities",
                                      json_loads(cl->capabilities, 0, NULL)));
    cl->last_id++;
    send_json(
        cl, json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", cl->last_id, "method", method, "params", params));
    return cl->last_id;
}

static size_t find_answer(const struct client *cl, int id)
{
    json_t *message;
    size_t i;

    json_array_foreach(cl->got, i, message) if (!json_object_get(message, "method") &&
                                                json_integer_value(json_object_get(message, "id")) == id) return i;
    return SIZE_MAX;
}

static size_t find_method(const struct client *cl, const char *method)
{
    json_t *message;
    size_t i;

    json_array_foreach(cl->got, i, message)
    {
        const char *name = json_string_value(json_object_get(message, "method"));

        if (name && strcmp(name, method) == 0)
            return i;
    }
    return SIZE_MAX;
}

static bool has_answer(const struct client *cl, const void *id)
{
    return find_answer(cl, *(const int *)id) != SIZE_MAX;
}

static bool has_method(const struct client *cl, const void *method)
{
    return find_method(cl, method) != SIZE_MAX;
}

static json_t *take_at(struct client *cl, size_t i)
{
    json_t *message = json_incref(json_array_get(cl->got, i));

    if (message)
        json_array_remove(cl->got, i);
    return message;
}

json_t *client_take_answer(struct client *cl, int id)
{
    turn(cl, has_answer, &id, WAIT_MS);
    return take_at(cl, find_answer(cl, id));
}

json_t *client_take(struct client *cl, const char *method)
{
    turn(cl, has_method, method, WAIT_MS);
    return take_at(cl, find_method(cl, method));
}

json_t *client_call(struct client *cl, const char *method, json_t *params)
{
    return client_take_answer(cl, client_send(cl, method, params));
}

json_t *client_tool(struct client *cl, const char *name, json_t *arguments)
{
    return client_call(cl, "tools/call",
                       json_pack("{s:s, s:o}", "name", name, "arguments", arguments ? arguments : json_object()));
}

void client_answer(struct client *cl, const json_t *question, json_t *result)
{
    send_json(cl,
              json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", json_object_get(question, "id"), "result", result));
}

/* ---- looking ---- */

const json_t *at(const json_t *value, ...)
{
    const char *name;
    va_list ap;

    va_start(ap, value);
    while ((name = va_arg(ap, const char *)))
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(name)) : json_object_get(value, name);
    va_end(ap);
    return value;
}

const char *text_at(const json_t *value, const char *one, const char *two)
{
    const char *text = json_string_value(two ? at(value, one, two, NULL) : at(value, one, NULL));

    return text ? text : "";
}

int code_of(const json_t *answer)
{
    return (int)json_integer_value(at(answer, "error", "code", NULL));
}

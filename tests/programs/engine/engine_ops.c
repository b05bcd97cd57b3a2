/* The requests of krait-engine: one row each.
 *
 * Called by engine_app.c for each line. Invariants: every request is answered, at least by an `error` that names what
 * is wrong; a client is freed when its session has ended, a run's id when its end was sent. */
#include "clock.h"
#include "engine_app.h"
#include "frame.h"
#include "log.h"
#include "cli_report.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENV_MAX 256u

struct kr_engine_run {
    TAILQ_ENTRY(kr_engine_run) link;
    struct kr_engine_client *client;
    struct kr_run *run;
    json_t *id;
    bool asks; /* input() is the client's to answer */
};

/* ---- what a request says ---- */

static int wrong(struct kr_err *err, const char *field, const char *right)
{
    return kr_err_set(err, KR_ERR_INVALID, 0, "\"%s\" must be %s", field, right);
}

/* A number that may be a JSON number or text with a unit. */
static int take_limit(const json_t *value, const struct kr_limit_row *row, uint64_t *ret, struct kr_err *err)
{
    char text[64];

    if (json_is_string(value))
        return kr_limit_parse(row, json_string_value(value), ret, err);
    if (json_is_null(value) && row->zero_is_none) {
        *ret = 0;
        return 0;
    }
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, sizeof text, "%.3f", json_real_value(value));
    else
        return wrong(err, row->name, "a number or a text like \"512M\"");
    return kr_limit_parse(row, text, ret, err);
}

static int take_limits(const json_t *object, struct kr_limits *limits, struct kr_err *err)
{
    const char *key;
    json_t *value;
    int r;

    kr_limits_default(limits);
    if (!object || json_is_null(object))
        return 0;
    if (!json_is_object(object))
        return wrong(err, "limits", "an object");
    json_object_foreach((json_t *)object, key, value)
    {
        const struct kr_limit_row *row = kr_limit_find(key);

        if (!row)
            return kr_err_set(err, KR_ERR_INVALID, 0, "there is no limit \"%.40s\"", key);
        r = take_limit(value, row, kr_limit_at(limits, row), err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The index of a word in a list; the first if it was not given. */
static int take_word(const json_t *request, const char *field, const char *const *words, int *ret, struct kr_err *err)
{
    const json_t *value = json_object_get(request, field);
    char right[96] = "one of";

    *ret = 0;
    if (!value || json_is_null(value))
        return 0;
    for (int i = 0; words[i]; i++) {
        if (json_is_string(value) && strcmp(words[i], json_string_value(value)) == 0) {
            *ret = i;
            return 0;
        }
        snprintf(right + strlen(right), sizeof right - strlen(right), " %s", words[i]);
    }
    return wrong(err, field, right);
}

static struct kr_engine_client *take_client(struct kr_engine_app *app, const json_t *request, struct kr_err *err)
{
    const json_t *value = json_object_get(request, "session");
    struct kr_engine_client *c = TAILQ_FIRST(&app->clients);

    while (c && c->number != json_integer_value(value)) /* 0 for what is no integer, and no number is 0 */
        c = TAILQ_NEXT(c, link);
    if (!c)
        kr_err_set(err, KR_ERR_NOT_FOUND, 0, "there is no such session");
    return c;
}

/* ---- open ---- */

static void free_client(struct kr_engine_client *c)
{
    json_decref(c->open_id);
    json_decref(c->close_id);
    free(c);
}

/* The stand-in answers for every cell alike. */
static void hand_over_listener(const struct kr_engine_app *app, const struct kr_session *s)
{
    int listener = kr_session_listener(s);

    if (listener >= 0 && (app->outlet < 0 || kr_frame_send(app->outlet, KR_E_CELL, 0, "{}", 2, &listener, 1) < 0))
        kr_log(KR_LOG_ERROR, "a cell has no egress process", NULL);
}

static void on_open(void *data, struct kr_session *s, const struct kr_err *err)
{
    struct kr_engine_client *c = data;
    struct kr_answer a;

    if (!s) {
        kr_answer_error(c->app, c->open_id, err);
        free_client(c);
        return;
    }
    c->session = s;
    c->number = ++c->app->last_number;
    TAILQ_INIT(&c->runs);
    TAILQ_INSERT_TAIL(&c->app->clients, c, link);
    hand_over_listener(c->app, s);
    kr_session_pause(s, c->app->paused);
    kr_answer_begin(&a, c->app, c->open_id, "opened");
    kr_json_key_uint(&a.json, "session", c->number);
    kr_json_key_double(&a.json, "ms", (double)(kr_clock_ns() - c->asked_ns) / 1e6);
    kr_json_key_str(&a.json, "python", kr_session_python(s));
    kr_answer_send(&a);
    json_decref(c->open_id);
    c->open_id = NULL;
}

static void on_session_ended(void *data, struct kr_session *s, enum kr_cause cause, const char *message)
{
    struct kr_engine_client *c = data;
    struct kr_answer a;

    (void)s;
    TAILQ_REMOVE(&c->app->clients, c, link);
    if (c->close_id) {
        kr_answer_begin(&a, c->app, c->close_id, "closed");
    } else {
        kr_answer_begin(&a, c->app, NULL, "session_ended");
        kr_json_key_str(&a.json, "cause", kr_cause_rows[cause].name);
        kr_json_key_str(&a.json, "message", message[0] ? message : NULL);
    }
    kr_json_key_uint(&a.json, "session", c->number);
    kr_answer_send(&a);
    free_client(c);
}

static void on_between(void *data, struct kr_session *s, enum kr_stream stream, const char *text, size_t len)
{
    struct kr_engine_client *c = data;
    struct kr_answer a;

    (void)s;
    kr_answer_begin(&a, c->app, NULL, "between_runs");
    kr_json_key_uint(&a.json, "session", c->number);
    kr_json_key_str(&a.json, "stream", kr_stream_names[stream]);
    kr_json_key(&a.json, "text");
    kr_json_str_n(&a.json, text, len);
    kr_answer_send(&a);
}

static int take_zygote(const struct kr_engine_app *app, const json_t *request, uint32_t *ret, struct kr_err *err)
{
    int preload;
    int r = take_word(request, "preload", kr_cli_preloads, &preload, err);

    if (r < 0)
        return r;
    if (!json_object_get(request, "preload"))
        preload = (int)app->config.preloads[0];
    for (uint32_t i = 0; i < app->config.zygote_count; i++)
        if ((int)app->config.preloads[i] == preload) {
            *ret = i;
            return 0;
        }
    return kr_err_set(err, KR_ERR_INVALID, 0, "no zygote with preload %s was started", kr_cli_preloads[preload]);
}

/* {"K":"V"} into "K=V" texts, which the caller frees. */
static int take_env(const json_t *object, char **texts, size_t *ret_count, struct kr_err *err)
{
    const char *key;
    json_t *value;

    *ret_count = 0;
    if (!object || json_is_null(object))
        return 0;
    if (!json_is_object(object) || json_object_size(object) > ENV_MAX)
        return wrong(err, "env", "an object with at most 256 members");
    json_object_foreach((json_t *)object, key, value)
    {
        if (!json_is_string(value))
            return wrong(err, "env", "an object of texts");
        if (asprintf(&texts[*ret_count], "%s=%s", key, json_string_value(value)) < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "env");
        ++*ret_count;
    }
    return 0;
}

static int take_network(const json_t *value, struct kr_net_rule *ret, struct kr_err *err)
{
    *ret = (struct kr_net_rule){.kind = KR_NET_NONE};
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_string(value))
        return wrong(err, "network", "the text of a rule");
    if (kr_net_rule_parse(json_string_value(value), ret, err) < 0)
        return kr_err_wrap(err, -EINVAL, "network");
    return 0;
}

static int take_background(const json_t *value, enum kr_background *ret, struct kr_err *err)
{
    const char *word = json_string_value(value);

    *ret = KR_BACKGROUND_KEEP;
    for (int i = 0; word && i < KR_BACKGROUND_MAX_; i++)
        if (strcmp(word, kr_background_names[i]) == 0) {
            *ret = (enum kr_background)i;
            return 0;
        }
    return value && !json_is_null(value) ? wrong(err, "background", "keep, freeze or end") : 0;
}

static int take_spec(const struct kr_engine_app *app, const json_t *request, struct kr_session_spec *spec,
                     struct kr_err *err)
{
    const json_t *workspace = json_object_get(request, "workspace");
    const char *folder = json_string_value(json_object_get(request, "venv"));
    int r;

    r = take_zygote(app, request, &spec->zygote, err);
    if (r >= 0)
        r = take_network(json_object_get(request, "network"), &spec->network, err);
    if (r >= 0)
        r = take_limits(json_object_get(request, "limits"), &spec->limits, err);
    if (r < 0)
        return r;
    r = take_background(json_object_get(request, "background"), &spec->background, err);
    if (r < 0)
        return r;
    spec->owner = (uint64_t)json_integer_value(json_object_get(request, "owner"));
    spec->joins = json_is_true(json_object_get(request, "joins"));
    spec->read_only = json_is_true(json_object_get(request, "read_only"));
    spec->venv = folder != NULL;
    if (folder && snprintf(spec->folder, sizeof spec->folder, "%s", folder) >= (int)sizeof spec->folder)
        return wrong(err, "venv", "the name of a folder of --shelf");
    spec->workspace = -1;
    if (json_is_integer(workspace))
        spec->workspace = (int32_t)json_integer_value(workspace);
    else if (workspace && !json_is_null(workspace))
        return wrong(err, "workspace", "null or the number of a --workspace folder");
    return 0;
}

static int op_open(struct kr_engine_app *app, const json_t *id, const json_t *request, struct kr_err *err)
{
    static const struct kr_session_calls calls = {
        .on_open = on_open, .on_ended = on_session_ended, .on_between = on_between};
    struct kr_engine_client *c = calloc(1, sizeof *c);
    struct kr_session_spec spec = {0};
    char *env[ENV_MAX] = {0};
    int r = c ? take_spec(app, request, &spec, err) : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "open");

    if (r >= 0)
        r = take_env(json_object_get(request, "env"), env, &spec.env_count, err);
    if (r >= 0 && c) {
        spec.env = (const char *const *)env;
        c->app = app;
        c->open_id = json_incref((json_t *)id);
        c->asked_ns = kr_clock_ns();
        c->timeout_ms = spec.limits.timeout_ms;
        r = kr_engine_open(app->engine, &spec, json_is_true(json_object_get(request, "pooled")), &calls, c, err);
    }
    for (size_t i = 0; i < ENV_MAX; i++)
        free(env[i]);
    if (r < 0 && c)
        free_client(c);
    return r;
}

/* ---- run ---- */

static void on_output(void *data, struct kr_run *r, enum kr_stream stream, const char *text, size_t len)
{
    struct kr_engine_run *running = data;
    struct kr_answer a;

    (void)r;
    kr_answer_begin(&a, running->client->app, running->id, kr_stream_names[stream]);
    kr_json_key(&a.json, "text");
    kr_json_str_n(&a.json, text, len);
    kr_answer_send(&a);
}

static void on_display(void *data, struct kr_run *r, const char *json, size_t len)
{
    json_t *display = json_loadb(json, len, JSON_ALLOW_NUL, NULL);
    struct kr_engine_run *running = data;
    struct kr_answer a;

    (void)r;
    kr_answer_begin(&a, running->client->app, running->id, "display");
    kr_json_key(&a.json, "data");
    kr_report_value(&a.json, json_object_get(display, "data"));
    kr_json_key(&a.json, "metadata");
    kr_report_value(&a.json, json_object_get(display, "metadata"));
    kr_answer_send(&a);
    json_decref(display);
}

static void on_input(void *data, struct kr_run *r, const char *prompt, bool password)
{
    struct kr_engine_run *running = data;
    struct kr_answer a;

    if (!running->asks) {
        kr_run_reply(r, NULL, 0);
        return;
    }
    kr_answer_begin(&a, running->client->app, running->id, "input");
    kr_json_key_str(&a.json, "prompt", prompt);
    kr_json_key_bool(&a.json, "password", password);
    kr_answer_send(&a);
}

static void on_end(void *data, struct kr_run *r, const struct kr_run_end *end)
{
    static const struct kr_holder_info unknown = {0};
    struct kr_engine_run *running = data;
    const struct kr_holder_info *info = kr_engine_info(running->client->app->engine);
    struct kr_answer a;

    kr_answer_begin(&a, running->client->app, running->id, "end");
    kr_report_run(&a.json, end, kr_run_session(r), info ? info : &unknown);
    kr_json_key_bool(&a.json, "session_alive", end->session_alive);
    kr_json_key_bool(&a.json, "session_frozen", end->session_frozen);
    kr_answer_send(&a);
    TAILQ_REMOVE(&running->client->runs, running, link);
    json_decref(running->id);
    free(running);
}

static int op_run(struct kr_engine_app *app, const json_t *id, const json_t *request, struct kr_err *err)
{
    static const struct kr_run_calls calls = {on_output, on_display, on_input, NULL, on_end};
    const json_t *code = json_object_get(request, "code"), *text = json_object_get(request, "stdin");
    const json_t *timeout = json_object_get(request, "timeout");
    struct kr_engine_client *c = take_client(app, request, err);
    struct kr_run_spec spec = {0};
    struct kr_engine_run *running;
    int r = 0;

    if (!c)
        return -ENOENT;
    if (!json_is_string(code))
        return wrong(err, "code", "a text");
    if (text && !json_is_null(text) && !json_is_string(text))
        return wrong(err, "stdin", "null or a text");
    spec.code = (struct kr_text){json_string_value(code), json_string_length(code)};
    spec.input = (struct kr_text){json_string_value(text), json_string_length(text)};
    spec.output_cap = (int64_t)kr_session_limits(c->session)->output;
    spec.timeout_ms = c->timeout_ms;
    if (timeout)
        r = take_limit(timeout, kr_limit_find("timeout"), &spec.timeout_ms, err);
    running = r < 0 ? NULL : calloc(1, sizeof *running);
    if (!running)
        return r < 0 ? r : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "run");
    *running = (struct kr_engine_run){
        .client = c, .id = json_incref((json_t *)id), .asks = json_is_true(json_object_get(request, "input"))};
    r = kr_run_new(c->session, &spec, &calls, running, &running->run, err);
    if (r < 0) {
        json_decref(running->id);
        free(running);
        return r;
    }
    TAILQ_INSERT_TAIL(&c->runs, running, link);
    return 0;
}

/* ---- the rest ---- */

static void answer_done(struct kr_engine_app *app, const json_t *id)
{
    struct kr_answer a;

    kr_answer_begin(&a, app, id, "done");
    kr_answer_send(&a);
}

static int op_interrupt(struct kr_engine_app *app, const json_t *id, const json_t *request, struct kr_err *err)
{
    struct kr_engine_client *c = take_client(app, request, err);

    if (!c)
        return -ENOENT;
    if (!TAILQ_EMPTY(&c->runs))
        kr_run_interrupt(TAILQ_FIRST(&c->runs)->run, true);
    answer_done(app, id);
    return 0;
}

static int op_reply(struct kr_engine_app *app, const json_t *id, const json_t *request, struct kr_err *err)
{
    const json_t *text = json_object_get(request, "text");
    struct kr_engine_client *c = take_client(app, request, err);
    struct kr_engine_run *current = c ? TAILQ_FIRST(&c->runs) : NULL;

    if (!c)
        return -ENOENT;
    if (!json_is_string(text) && !json_is_true(json_object_get(request, "eof")))
        return wrong(err, "text", "a text, or \"eof\" true");
    if (!current || kr_run_reply(current->run, json_string_value(text), json_string_length(text)) < 0)
        return kr_err_set(err, KR_ERR_INVALID, 0, "nothing was asked");
    answer_done(app, id);
    return 0;
}

static int op_close(struct kr_engine_app *app, const json_t *id, const json_t *request, struct kr_err *err)
{
    struct kr_engine_client *c = take_client(app, request, err);

    if (!c)
        return -ENOENT;
    if (c->close_id)
        return kr_err_set(err, KR_ERR_INVALID, 0, "the session is being closed already");
    c->close_id = json_incref((json_t *)id);
    kr_session_close(c->session);
    return 0;
}

static void write_zygotes(struct kr_json *j, const struct kr_engine_app *app)
{
    kr_json_key(j, "zygotes");
    kr_json_array(j);
    for (size_t i = 0; i < kr_engine_zygote_count(app->engine); i++) {
        struct kr_engine_zygote z = kr_engine_zygote(app->engine, i);

        kr_json_object(j);
        kr_json_key_str(j, "preload", kr_preload_names[z.preload]);
        kr_json_key_str(j, "state", kr_zygote_state_names[z.state]);
        kr_json_key_uint(j, "generation", z.generation);
        kr_json_object_end(j);
    }
    kr_json_array_end(j);
    kr_json_key(j, "pool");
    kr_json_object(j);
    for (size_t i = 0; i < kr_engine_zygote_count(app->engine); i++) {
        struct kr_engine_zygote z = kr_engine_zygote(app->engine, i);

        kr_json_key(j, kr_preload_names[z.preload]);
        kr_json_object(j);
        kr_json_key_uint(j, "parked", z.parked);
        kr_json_key_uint(j, "size", z.pool_size);
        kr_json_object_end(j);
    }
    kr_json_object_end(j);
}

static int op_info(struct kr_engine_app *app, const json_t *id, const json_t *request, struct kr_err *err)
{
    const struct kr_holder_info *info = kr_engine_info(app->engine);
    struct kr_engine_client *c;
    struct kr_answer a;
    unsigned sessions = 0;

    (void)request, (void)err;
    kr_answer_begin(&a, app, id, "info");
    kr_json_key(&a.json, "hello");
    if (info) {
        kr_json_object(&a.json);
        kr_json_key(&a.json, "layers");
        kr_report_layers(&a.json, info->layers, (int)info->landlock_abi, info);
        kr_json_key_uint(&a.json, "ids", info->id_count);
        kr_json_key_str(&a.json, "detail", info->detail);
        kr_json_object_end(&a.json);
    } else {
        kr_json_null(&a.json);
    }
    write_zygotes(&a.json, app);
    TAILQ_FOREACH(c, &app->clients, link)
    sessions++;
    kr_json_key_uint(&a.json, "sessions", sessions);
    kr_answer_send(&a);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct kr_engine_app *app, const json_t *id, const json_t *request, struct kr_err *err);
} ops[] = {
    {"open", op_open},   {"run", op_run},     {"interrupt", op_interrupt},
    {"reply", op_reply}, {"close", op_close}, {"info", op_info},
};

void kr_engine_request(struct kr_engine_app *app, const char *line, size_t len)
{
    json_error_t where;
    json_t *request = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    const json_t *id = json_object_get(request, "id");
    const char *op = json_string_value(json_object_get(request, "op"));
    struct kr_err err;
    int r = -EINVAL;

    kr_err_set(&err, KR_ERR_INVALID, 0, "there is no op \"%.40s\"", op ? op : "");
    if (!request)
        kr_err_set(&err, KR_ERR_INVALID, 0, "the line is no JSON: %.100s", where.text);
    else if (!id)
        kr_err_set(&err, KR_ERR_INVALID, 0, "the request has no \"id\"");
    for (size_t i = 0; id && op && i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i].name, op) == 0)
            r = ops[i].run(app, id, request, &err);
    if (r < 0)
        kr_answer_error(app, id, &err);
    json_decref(request);
}

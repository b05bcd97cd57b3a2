/* Checks of what sessions send.
 *
 * Called by session_wire.c for each frame that came through a channel. Invariants: a value that leaves this file has
 * the shape that docs/design/wire.md gives it; anything else is -EPROTO, and the session is killed for it; the parser
 * sees nothing that json_scan.c has not found small enough: its trees take up to 80 times the bytes they came in. */
#include "claim.h"
#include "log.h"
#include "json_load.h"
#include "json_scan.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Far above what a session of ours says (src/kernel/python/channel.py keeps below), far below what would be felt. */
static const struct kr_scan_max scan_max = {.values = 50000, .depth = 64, .scalar = 512, .bare = 4u << 20};

static int wrong(struct kr_err *err, const char *what)
{
    kr_err_set(err, KR_ERR_PROTOCOL, 0, "the session sent %s", what);
    return -EPROTO;
}

/* Parses one frame's JSON: an object, no duplicate keys, valid UTF-8, at most 50,000 values, 64 deep. NULL with err
 * set. */
static json_t *parse_claim(const void *data, size_t len, struct kr_err *err)
{
    static const char *const excesses[] = {
        [KR_SCAN_TOO_MANY] = "JSON of too many values",
        [KR_SCAN_TOO_DEEP] = "JSON nested too deep",
        [KR_SCAN_LONG_SCALAR] = "JSON with too long a number",
        [KR_SCAN_TOO_BARE] = "JSON of too many bytes outside of strings",
    };
    enum kr_scan excess = kr_scan_json(data, len, &scan_max);
    char why[160];
    json_error_t e;
    json_t *j;

    static_assert(sizeof excesses / sizeof *excesses == KR_SCAN_MAX_, "every excess has its text");
    if (excess != KR_SCAN_FITS) {
        wrong(err, excesses[excess]);
        return NULL;
    }
    j = kr_json_load(data, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!j) {
        /* Quoted: it repeats bytes of the session's, and goes to terminals. */
        kr_err_set(err, KR_ERR_PROTOCOL, 0, "the session sent what is no JSON: %s",
                   kr_log_quote(why, sizeof why, e.text, 100));
        return NULL;
    }
    if (!json_is_object(j)) {
        json_decref(j);
        wrong(err, "JSON that is no object");
        return NULL;
    }
    return j;
}

/* A member that may be missing or null. 1 there, 0 not, -EPROTO of another type. */
static int member(const json_t *object, const char *key, json_type type, json_t **ret, struct kr_err *err)
{
    json_t *value = json_object_get(object, key);
    bool boolean = type == JSON_TRUE;
    char what[64];

    *ret = NULL;
    if (!value || json_is_null(value))
        return 0;
    if (boolean ? !json_is_boolean(value) : json_typeof(value) != type) {
        snprintf(what, sizeof what, "a \"%s\" of the wrong type", key);
        return wrong(err, what);
    }
    *ret = value;
    return 1;
}

static int get_bool(const json_t *object, const char *key, bool *ret, struct kr_err *err)
{
    json_t *value;
    int r = member(object, key, JSON_TRUE, &value, err);

    if (r < 0)
        return r;
    *ret = r && json_is_true(value);
    return 0;
}

static int get_int(const json_t *object, const char *key, int *ret, struct kr_err *err)
{
    json_t *value;
    int r = member(object, key, JSON_INTEGER, &value, err);

    if (r < 0)
        return r;
    *ret = r ? (int)json_integer_value(value) : 0;
    return 0;
}

int kr_claim_ready(const void *data, size_t len, struct kr_claim_ready *ret, struct kr_err *err)
{
    json_t *j = parse_claim(data, len, err), *python;
    struct kr_claim_ready c = {0};
    int r;

    if (!j)
        return -EPROTO;
    r = get_bool(j, "seccomp", &c.seccomp, err);
    if (r >= 0)
        r = get_bool(j, "no_new_privs", &c.no_new_privs, err);
    if (r >= 0)
        r = member(j, "python", JSON_STRING, &python, err);
    if (r > 0)
        snprintf(c.python, sizeof c.python, "%s", json_string_value(python));
    json_decref(j);
    if (r < 0)
        return r;
    *ret = c;
    return 0;
}

int kr_claim_started(const void *data, size_t len, struct kr_claim_ready *ret, struct kr_err *err)
{
    json_t *j = parse_claim(data, len, err);
    int r, abi;

    if (!j)
        return -EPROTO;
    r = get_int(j, "landlock_abi", &abi, err);
    json_decref(j);
    if (r < 0)
        return r;
    ret->landlock_abi = abi;
    return 0;
}

int kr_claim_packages(const void *data, size_t len, json_t **ret, struct kr_err *err)
{
    json_t *j = parse_claim(data, len, err);

    if (!j)
        return -EPROTO;
    *ret = j;
    return 0;
}

/* {"type","message","traceback","line","errno","raised","inodes"}. */
static int check_error(json_t *error, struct kr_claim_end *c, struct kr_err *err)
{
    json_t *type, *message, *traceback;
    int number = 0, line, r;

    r = member(error, "type", JSON_STRING, &type, err);
    if (r == 0)
        return wrong(err, "an error without its type");
    if (r >= 0)
        r = member(error, "message", JSON_STRING, &message, err);
    if (r >= 0)
        r = member(error, "traceback", JSON_STRING, &traceback, err);
    if (r >= 0)
        r = get_int(error, "line", &line, err);
    if (r >= 0)
        r = get_int(error, "errno", &number, err);
    if (r >= 0)
        r = get_bool(error, "raised", &c->raised, err);
    if (r >= 0)
        r = get_bool(error, "inodes", &c->inodes, err);
    if (r < 0)
        return r;
    json_object_del(error, "raised"); /* for the verdict, not for the report */
    json_object_del(error, "inodes");
    c->blame = kr_blame_of(json_string_value(type), json_string_value(message), number);
    return 0;
}

static int check_variables(const json_t *list, struct kr_err *err)
{
    json_t *name;
    size_t i;

    json_array_foreach(list, i, name) if (!json_is_string(name)) return wrong(err, "a variable whose name is no text");
    return 0;
}

/* Findings, and refusals while the code ran: objects with an id and a text, of lines that may be null. */
static int check_rules(const json_t *list, size_t most, struct kr_err *err)
{
    json_t *row, *value;
    int r = 0, line;
    size_t i;

    if (json_array_size(list) > most)
        return wrong(err, "too many findings");
    json_array_foreach(list, i, row)
    {
        if (!json_is_object(row))
            return wrong(err, "a finding that is no object");
        r = member(row, "id", JSON_STRING, &value, err);
        if (r > 0 && json_string_length(value) > KR_CLAIM_RULE_MAX)
            r = 0;
        if (r > 0)
            r = member(row, "text", JSON_STRING, &value, err);
        if (r == 0)
            return wrong(err, "a finding without its rule or its text");
        if (r > 0)
            r = get_int(row, "line", &line, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_texts(const json_t *list, struct kr_err *err)
{
    json_t *text;
    size_t i;

    json_array_foreach(list, i, text) if (!json_is_string(text)) return wrong(err, "a recommendation that is no text");
    return 0;
}

/* What a policy adds. */
static int check_policy(const json_t *j, struct kr_claim_end *c, struct kr_err *err)
{
    int r = member(j, "findings", JSON_ARRAY, &c->findings, err);

    if (r > 0)
        r = check_rules(c->findings, KR_CLAIM_FINDINGS_MAX, err);
    if (r >= 0)
        r = member(j, "refused", JSON_ARRAY, &c->refused, err);
    if (r > 0)
        r = check_rules(c->refused, KR_CLAIM_FINDINGS_MAX, err);
    if (r >= 0)
        r = member(j, "analysis", JSON_OBJECT, &c->analysis, err);
    if (r >= 0)
        r = member(j, "recommendations", JSON_ARRAY, &c->recommendations, err);
    if (r > 0)
        r = check_texts(c->recommendations, err);
    if (r >= 0 && c->claim == KR_CLAIM_DENIED && json_array_size(c->findings) == 0)
        r = wrong(err, "a denial without a finding");
    return r < 0 ? r : 0;
}

static int check_cause(const json_t *j, struct kr_claim_end *c, struct kr_err *err)
{
    static const char *const words[] = {[KR_CLAIM_OK] = "ok",
                                        [KR_CLAIM_EXCEPTION] = "exception",
                                        [KR_CLAIM_EXIT] = "exit",
                                        [KR_CLAIM_DENIED] = "denied"};
    const char *word = json_string_value(json_object_get(j, "cause"));

    for (int i = KR_CLAIM_OK; word && i < KR_CLAIM_MAX_; i++)
        if (strcmp(words[i], word) == 0)
            c->claim = (enum kr_claim)i;
    return c->claim == KR_CLAIM_NONE ? wrong(err, "an end without a known cause") : 0;
}

static int check_end(const json_t *j, struct kr_claim_end *c, struct kr_err *err)
{
    int r = check_cause(j, c, err);

    if (r >= 0)
        r = get_int(j, "exit_code", &c->exit_code, err);
    if (r >= 0)
        r = member(j, "result", JSON_STRING, &c->result, err);
    if (r >= 0)
        r = member(j, "error", JSON_OBJECT, &c->error, err);
    if (r > 0)
        r = check_error(c->error, c, err);
    if (r >= 0)
        r = member(j, "variables", JSON_ARRAY, &c->variables, err);
    if (r > 0)
        r = check_variables(c->variables, err);
    if (r >= 0)
        r = member(j, "hint", JSON_STRING, &c->hint, err);
    if (r >= 0)
        r = check_policy(j, c, err);
    return r < 0 ? r : 0;
}

int kr_claim_end(const void *data, size_t len, struct kr_claim_end *ret, struct kr_err *err)
{
    json_t *j = parse_claim(data, len, err);
    struct kr_claim_end c = {0};
    int r;

    if (!j)
        return -EPROTO;
    r = check_end(j, &c, err);
    if (r == 0) {
        json_incref(c.result);
        json_incref(c.error);
        json_incref(c.variables);
        json_incref(c.hint);
        json_incref(c.findings);
        json_incref(c.refused);
        json_incref(c.analysis);
        json_incref(c.recommendations);
        *ret = c;
    }
    json_decref(j);
    return r;
}

void kr_claim_end_done(struct kr_claim_end *c)
{
    json_decref(c->result);
    json_decref(c->error);
    json_decref(c->variables);
    json_decref(c->hint);
    json_decref(c->findings);
    json_decref(c->refused);
    json_decref(c->analysis);
    json_decref(c->recommendations);
    *c = (struct kr_claim_end){0};
}

/* May the payload itself be handed on? Readers of the log put members between its braces, and lines end at a line feed;
 * within strings those are escaped, so one that is there stands between values. */
static bool is_plain_display(const json_t *j, const char *data, size_t len)
{
    return json_object_size(j) == 2 && json_is_object(json_object_get(j, "metadata")) && data[0] == '{' &&
           data[len - 1] == '}' && !memchr(data, '\n', len) && !memchr(data, '\r', len);
}

int kr_claim_display(const char *data, size_t len, const char **ret_json, size_t *ret_len, char **ret_made,
                     struct kr_err *err)
{
    json_t *j = parse_claim(data, len, err), *bundle, *metadata, *checked;
    char *made = NULL;
    int r;

    if (!j)
        return -EPROTO;
    r = member(j, "data", JSON_OBJECT, &bundle, err);
    if (r == 0)
        r = wrong(err, "a display without data");
    if (r >= 0)
        r = member(j, "metadata", JSON_OBJECT, &metadata, err);
    if (r >= 0 && !is_plain_display(j, data, len)) {
        checked = json_pack("{sOso}", "data", bundle, "metadata", metadata ? json_incref(metadata) : json_object());
        made = checked ? kr_json_dump(checked, 0) : NULL;
        json_decref(checked);
        r = made ? 0 : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "display");
    }
    json_decref(j);
    if (r < 0)
        return r;
    *ret_made = made;
    *ret_json = made ? made : data;
    *ret_len = made ? strlen(made) : len;
    return 0;
}

int kr_claim_input(const void *data, size_t len, char **ret_prompt, bool *ret_password, struct kr_err *err)
{
    json_t *j = parse_claim(data, len, err), *prompt;
    bool password = false;
    char *text = NULL;
    int r;

    if (!j)
        return -EPROTO;
    r = member(j, "prompt", JSON_STRING, &prompt, err);
    if (r >= 0)
        r = get_bool(j, "password", &password, err);
    if (r >= 0) {
        text = strdup(prompt ? json_string_value(prompt) : "");
        r = text ? 0 : -ENOMEM;
    }
    json_decref(j);
    if (r < 0)
        return r;
    *ret_prompt = text;
    *ret_password = password;
    return 0;
}

/* What is wrong with a request, in both voices: ours has the first flaw (a sentence and the field's name), the
 * documents' a list of up to KR_API_FLAWS_MAX in the words of FastAPI and pydantic. Called by the files of the tables.
 *
 * Invariant: what came is echoed only to its sender, in small pieces, and never a secret. */
#include "field_internal.h"
#include "err.h"
#include "utf8.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ECHO_MAX 1024 /* bytes of an `input`, roughly */

bool kr_api_parse_is_over(const struct kr_api_parse *p)
{
    return p->error == -ENOMEM || (p->error && p->in->voice == KR_API_KRAIT) || p->flaws >= KR_API_FLAWS_MAX;
}

void kr_api_flaw_memory(struct kr_api_parse *p)
{
    p->error = -ENOMEM;
    kr_err_set(p->err, KR_ERR_INTERNAL, ENOMEM, "parse a request");
}

/* ---- names ---- */

/* "limits.memory", "files[2].url"; what does not fit is cut. Returns the length. */
static size_t write_path(const struct kr_api_path *path, char *buf, size_t size)
{
    size_t len = path->up ? write_path(path->up, buf, size) : 0;
    int n;

    if (len >= size - 1)
        return size - 1;
    if (path->name)
        n = snprintf(buf + len, size - len, "%s%s", len ? "." : "", path->name);
    else
        n = snprintf(buf + len, size - len, "[%zu]", path->index);
    len += n > 0 ? (size_t)n : 0;
    return len < size - 1 ? len : size - 1;
}

/* A json_t of any text: json_string() refuses what is not UTF-8, and cutting may have left such. */
static json_t *clean_string(const char *text)
{
    char in[256], out[KR_UTF8_ROOM(sizeof in)];
    struct kr_utf8 u = {0};
    size_t len;

    snprintf(in, sizeof in, "%s", text);
    len = kr_utf8_feed(&u, in, strlen(in), out);
    len += kr_utf8_finish(&u, out + len);
    return json_stringn(out, len);
}

static int add_loc(json_t *loc, const struct kr_api_path *path)
{
    if (path->up && add_loc(loc, path->up) < 0)
        return -1;
    return json_array_append_new(loc, path->name ? clean_string(path->name) : json_integer((json_int_t)path->index));
}

/* ---- the list ---- */

/* What is left of the budget after the value. */
static long budget_after(json_t *value, long budget)
{
    const char *key;
    json_t *inner;
    size_t i;

    budget -= 8;
    if (json_is_string(value))
        budget -= (long)(json_string_length(value) < ECHO_MAX ? json_string_length(value) : ECHO_MAX);
    if (json_is_array(value))
        for (i = 0; i < json_array_size(value) && budget > 0; i++)
            budget = budget_after(json_array_get(value, i), budget);
    json_object_foreach(value, key, inner)
    { /* nothing unless it is an object */
        if (budget <= 0)
            break;
        budget = budget_after(inner, budget - (long)strlen(key));
    }
    return budget;
}

static json_t *echo_of(json_t *input)
{
    if (!input || budget_after(input, ECHO_MAX) <= 0)
        return json_null();
    return json_incref(input);
}

static void add_flaw(struct kr_api_parse *p, json_t *loc, const char *type, const char *msg, json_t *input,
                     json_t *limit)
{
    json_t *flaw = json_object();
    int r = 0;

    if (!p->in->flaws)
        p->in->flaws = json_array();
    r |= json_object_set_new(flaw, "type", json_string(type));
    r |= json_object_set(flaw, "loc", loc);
    r |= json_object_set_new(flaw, "msg", clean_string(msg));
    r |= json_object_set_new(flaw, "input", input);
    if (limit)
        r |= json_object_set(flaw, "ctx", limit);
    r |= json_array_append(p->in->flaws, flaw);
    json_decref(flaw);
    if (r)
        kr_api_flaw_memory(p);
}

/* The first flaw is the one that err tells, whichever the voice. */
static void note_flaw(struct kr_api_parse *p, const char *field, const char *text)
{
    p->flaws++;
    if (p->error)
        return;
    p->error = -EINVAL;
    snprintf(p->in->field, sizeof p->in->field, "%s", field);
    kr_err_set(p->err, KR_ERR_INVALID, 0, "%s", text);
}

void kr_api_flaw(struct kr_api_parse *p, const struct kr_api_path *path, json_t *input, json_t *limit, const char *type,
                 const char *msg, const char *fmt, ...)
{
    char field[KR_API_NAME_MAX], text[sizeof p->err->msg];
    va_list ap;
    size_t len;

    if (!kr_api_parse_is_over(p)) {
        write_path(path, field, sizeof field);
        len = (size_t)snprintf(text, sizeof text, "%s ", field);
        va_start(ap, fmt);
        vsnprintf(text + len, sizeof text - len, fmt, ap);
        va_end(ap);
        note_flaw(p, field, text);
        if (p->in->voice == KR_API_DOCUMENT) {
            json_t *loc = json_array();

            json_array_append_new(loc, json_string(p->in->source == KR_API_QUERY ? "query" : "body"));
            if (add_loc(loc, path) < 0)
                kr_api_flaw_memory(p);
            add_flaw(p, loc, type, msg, echo_of(input), limit);
            json_decref(loc);
        }
    }
    json_decref(limit);
}

void kr_api_flaw_body(struct kr_api_parse *p, long at, const char *type, const char *msg, const char *detail,
                      const char *fmt, ...)
{
    char text[sizeof p->err->msg];
    va_list ap;

    if (kr_api_parse_is_over(p))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    note_flaw(p, "", text);
    if (p->in->voice == KR_API_DOCUMENT) {
        json_t *loc = json_array(), *limit = NULL;

        json_array_append_new(loc, json_string(p->in->source == KR_API_QUERY ? "query" : "body"));
        if (at >= 0)
            json_array_append_new(loc, json_integer(at));
        if (detail && (limit = json_object()))
            json_object_set_new(limit, "error", clean_string(detail));
        add_flaw(p, loc, type, msg, at >= 0 ? json_object() : json_null(), limit);
        json_decref(loc);
        json_decref(limit);
    }
}

int kr_api_refuse(struct kr_api_input *in, const char *field, struct kr_err *err, const char *fmt, ...)
{
    struct kr_api_parse p = {.in = in, .err = err};
    struct kr_api_path path = {.name = field};
    char text[sizeof err->msg], msg[sizeof text + 16];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(msg, sizeof msg, "Value error, %s", text);
    if (field)
        kr_api_flaw(&p, &path, json_object_get(in->root, field), NULL, "value_error", msg, "%s", text);
    else
        kr_api_flaw_body(&p, -1, "value_error", msg, NULL, "%s", text);
    return p.error;
}

/* Finding the id in text that is not JSON, too deep or too long. Called by jsonrpc.c and by the transports.
 *
 * Invariant: words are cut as json_scan.c cuts them, whatever the text is; only a member of the outermost object is an
 * id, never one within params. */
#include "rpc_id.h"
#include "json_load.h"
#include <stdlib.h>
#include <string.h>

#define EXACT_MAX (1LL << 53) /* every integer up to it is a double */

bool kr_mcp_is_id(const json_t *id)
{
    return json_is_number(id) || kr_json_kept(id) || (json_is_string(id) && json_string_length(id) <= KR_MCP_ID_MAX);
}

/* The value of a number as a double; false: it is none, or an integer that a double may round. */
static bool round_value(const json_t *id, double *ret)
{
    const char *kept = kr_json_kept(id);

    if (kept ? !strpbrk(kept, ".eE")
             : !json_is_number(id) || json_integer_value(id) > EXACT_MAX || json_integer_value(id) < -EXACT_MAX)
        return false;
    *ret = kept ? strtod(kept, NULL) : json_number_value(id);
    return true;
}

bool kr_mcp_same_id(const json_t *a, const json_t *b)
{
    double x, y;

    return json_equal(a, b) || (round_value(a, &x) && round_value(b, &y) && x >= y && x <= y);
}

static void take_byte(struct kr_mcp_id_scan *s, char c)
{
    if (s->len < sizeof s->text)
        s->text[s->len++] = c;
    else
        s->taking = false; /* too long to be echoed */
}

static void in_string(struct kr_mcp_id_scan *s, char c)
{
    bool ends = c == '"' && !s->escaped;

    s->escaped = c == '\\' && !s->escaped;
    if (s->taking)
        take_byte(s, c);
    else if (s->at_key && !ends && s->key_len < sizeof s->key)
        s->key[s->key_len++] = c;
    if (!ends)
        return;
    s->in_string = false;
    s->taken = s->taking;
}

static bool is_id_value(const struct kr_mcp_id_scan *s)
{
    return s->depth == 1 && s->at_value && s->key_len == 2 && memcmp(s->key, "id", 2) == 0;
}

static void between_values(struct kr_mcp_id_scan *s, char c)
{
    s->taken = s->taking;
    if (c == '}' || c == ']')
        s->depth -= s->depth > 0;
    if (s->depth != 1)
        return;
    if (c == ',') {
        s->at_key = true;
        s->at_value = false;
        s->key_len = 0;
    } else if (c == ':') {
        s->at_key = false;
        s->at_value = true;
    }
}

static void outside_string(struct kr_mcp_id_scan *s, char c)
{
    if (c == '{' || c == '[') {
        if (s->depth++ == 0) {
            s->is_array = c == '[';
            s->at_key = true;
        }
    } else if (strchr(" \t\r\n,:}]", c) && c) {
        between_values(s, c);
    } else {
        if (!s->taking && is_id_value(s)) {
            s->taking = true;
            s->len = 0;
        }
        if (s->taking)
            take_byte(s, c);
        s->in_string = c == '"';
    }
}

void kr_mcp_id_scan(struct kr_mcp_id_scan *s, const char *text, size_t len)
{
    for (size_t i = 0; i < len && !s->taken && !s->is_array; i++)
        if (s->in_string)
            in_string(s, text[i]);
        else
            outside_string(s, text[i]);
}

json_t *kr_mcp_id_found(const struct kr_mcp_id_scan *s)
{
    json_t *id;

    if (!s->taken)
        return NULL;
    id = kr_json_number(s->text, s->len);
    if (!id)
        id = kr_json_load(s->text, s->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (id && !kr_mcp_is_id(id)) {
        json_decref(id);
        id = NULL;
    }
    return id;
}

json_t *kr_mcp_find_id(const char *text, size_t len)
{
    struct kr_mcp_id_scan s = {0};

    kr_mcp_id_scan(&s, text, len);
    return kr_mcp_id_found(&s);
}

void kr_mcp_exact_id(json_t *root, const char *text, size_t len)
{
    json_t *id = json_is_real(json_object_get(root, "id")) ? kr_mcp_find_id(text, len) : NULL;

    if (id)
        json_object_set_new(root, "id", id);
}

/* Rows of connections and ends of fetches, as the egress process sends them, checked member by member.
 *
 * Called by egress_client.c. The process reads bytes of the whole world, so it is believed as little as a session: a
 * row that passes has each member once, of its type, within its bounds. Invariant: nothing else reaches the store. */
#include "egress_row.h"
#include "secret_terms.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WHY_MAX 512u
#define NAME_MAX_BYTES 255u
#define SHA256_DIGITS 64u

enum form { FORM_TEXT, FORM_TEXT_OR_NULL, FORM_NUMBER, FORM_WORD };
struct member {
    const char *name;
    enum form form;
    json_int_t max;           /* of a number; bytes of a text */
    const char *const *words; /* FORM_WORD: up to NULL */
};

const char *const kr_egress_hows[] = {"connect", "http", "https", "index", "fetch", NULL};
const char *const kr_egress_verdicts[] = {"ok", "denied", "failed", "limit", NULL};

static const struct member row_members[] = {
    {"cell", FORM_NUMBER, INT64_MAX, NULL},
    {"sandbox", FORM_TEXT, KR_ID_ROOM - 1, NULL},
    {"user", FORM_TEXT, KR_ID_ROOM - 1, NULL},
    {"run", FORM_TEXT_OR_NULL, KR_ID_ROOM - 1, NULL},
    {"at_us", FORM_NUMBER, INT64_MAX, NULL},
    {"ms", FORM_NUMBER, INT64_MAX, NULL},
    {"how", FORM_WORD, 0, kr_egress_hows},
    {"method", FORM_TEXT, 32, NULL},
    {"host", FORM_TEXT, NAME_MAX_BYTES, NULL},
    {"port", FORM_NUMBER, 65535, NULL},
    {"address", FORM_TEXT, 64, NULL},
    {"sent", FORM_NUMBER, INT64_MAX, NULL},
    {"received", FORM_NUMBER, INT64_MAX, NULL},
    {"status", FORM_NUMBER, 999, NULL},
    {"verdict", FORM_WORD, 0, kr_egress_verdicts},
    {"why", FORM_TEXT, WHY_MAX, NULL},
    {"secrets", FORM_TEXT, KR_SECRETS_MAX *(KR_SECRET_NAME_MAX + 1), NULL},
};

static const struct member fetched_members[] = {
    {"status", FORM_NUMBER, 999, NULL},
    {"bytes", FORM_NUMBER, INT64_MAX, NULL},
    {"type", FORM_TEXT, 512, NULL},
    {"name", FORM_TEXT, NAME_MAX_BYTES, NULL},
    {"sha256", FORM_TEXT, SHA256_DIGITS, NULL},
    {"promised", FORM_TEXT, SHA256_DIGITS, NULL},
};

/* Errors of a fetch, and what each is to the caller. */
static const struct {
    const char *word;
    enum kr_err_kind kind;
} failures[] = {
    {"denied", KR_ERR_DENIED},
    {"limit", KR_ERR_LIMIT},
    {"timeout", KR_ERR_TIMEOUT},
    {"failed", KR_ERR_UNAVAILABLE},
};

static bool is_word(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static bool member_fits(const json_t *value, const struct member *m)
{
    switch (m->form) {
    case FORM_NUMBER:
        return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= m->max;
    case FORM_TEXT_OR_NULL:
        return json_is_null(value) || (json_is_string(value) && json_string_length(value) <= (size_t)m->max);
    case FORM_TEXT:
        return json_is_string(value) && json_string_length(value) <= (size_t)m->max;
    case FORM_WORD:
        return json_is_string(value) && is_word(json_string_value(value), m->words);
    default:
        return false;
    }
}

static int check_members(const json_t *object, const char *what, const struct member *members, size_t count,
                         struct kr_err *err)
{
    if (!json_is_object(object))
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the egress process sent %s that is no object", what);
    for (size_t i = 0; i < count; i++)
        if (!member_fits(json_object_get(object, members[i].name), &members[i]))
            return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the egress process sent %s with a wrong %s", what,
                              members[i].name);
    if (json_object_size(object) != count)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the egress process sent %s with members that none has", what);
    return 0;
}

int kr_egress_row_check(const json_t *row, struct kr_err *err)
{
    return check_members(row, "a connection", row_members, sizeof row_members / sizeof *row_members, err);
}

void kr_egress_row_refusal(const json_t *row, char *buf, size_t size)
{
    snprintf(buf, size, "%s:%lld was refused: %s", json_string_value(json_object_get(row, "host")),
             (long long)json_integer_value(json_object_get(row, "port")),
             json_string_value(json_object_get(row, "why")));
}

static int read_failure(const json_t *end, struct kr_err *ret_failed)
{
    const char *word = json_string_value(json_object_get(end, "error"));
    const char *why = json_string_value(json_object_get(end, "why"));

    for (size_t i = 0; word && why && i < sizeof failures / sizeof *failures; i++)
        if (strcmp(word, failures[i].word) == 0)
            return kr_err_set(ret_failed, failures[i].kind, 0, "%s", why);
    return kr_err_set(ret_failed, KR_ERR_PROTOCOL, EPROTO, "the egress process gave no reason for a fetch that failed");
}

static const char *member_text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

int kr_egress_fetched_read(const json_t *end, struct kr_egress_fetched *ret_fetched, struct kr_err *ret_failed)
{
    int r;

    if (json_object_get(end, "error"))
        return read_failure(end, ret_failed);
    r = check_members(end, "a fetch", fetched_members, sizeof fetched_members / sizeof *fetched_members, ret_failed);
    if (r < 0)
        return r;
    *ret_fetched = (struct kr_egress_fetched){
        .status = (unsigned)json_integer_value(json_object_get(end, "status")),
        .bytes = (uint64_t)json_integer_value(json_object_get(end, "bytes")),
        .type = member_text(end, "type"),
        .name = member_text(end, "name"),
        .sha256 = member_text(end, "sha256"),
        .promised = member_text(end, "promised"),
    };
    return 0;
}

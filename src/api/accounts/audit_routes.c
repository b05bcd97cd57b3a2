/* The audit log over HTTP: GET /api/v1/audit. Handler of the route table.
 *
 * Administrators see all of it, others the rows about what they did themselves. Invariant: a user who is not an
 * administrator reads no number of a row (`id`, cursor) as it is: numbers tell how much is going on. Their cursor is
 * the number encrypted. */
#include "accounts.h"
#include "buf.h"
#include "json.h"
#include "body_read.h"
#include "reply.h"
#include "store_audit.h"
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_MAX (8u << 20) /* 500 rows of 5 KiB at most */

/* clang-format off */
static const struct kr_api_prop row_props[] = {
    { .name = "id", .type = KR_API_INT, .nullable = true,
     .help = "The row's number, ascending; null for others than administrators.", .example = "4711" },
    { .name = "at", .type = KR_API_NUMBER, .help = "When, in seconds since 1970.", .example = "1800000000.25" },
    { .name = "user_id", .type = KR_API_STRING, .nullable = true, .help = "Who did it: a user's id; null: not known.",
     .example = "6zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { .name = "user", .type = KR_API_STRING, .nullable = true, .help = "The same as `user_id`.",
     .example = "6zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { .name = "what", .type = KR_API_STRING, .help = "What was done.", .example = "key.revoke" },
    { .name = "object", .type = KR_API_STRING, .help = "To what: an id, a name, a path; may be empty.",
     .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { .name = "outcome", .type = KR_API_STRING, .help = "ok, the cause of a run's end, or why it was refused.",
     .example = "ok" },
    { .name = "address", .type = KR_API_STRING, .help = "Whence it was asked for; may be empty.",
     .example = "192.0.2.7" },
    { .name = "request_id", .type = KR_API_STRING, .help = "The request's id; may be empty.",
     .example = "5e0c7a4400000012" },
    { .name = "request", .type = KR_API_STRING, .help = "The same as `request_id`.", .example = "5e0c7a4400000012" },
    { .name = "detail", .type = KR_API_OBJECT, .nullable = true, .help = "More, as that kind of row has it.",
     .example = "{\"method\":\"POST\"}" },
};
static const struct kr_api_schema row_schema = KR_API_SCHEMA("AuditRow", "A row of the audit log.", row_props);
static const struct kr_api_prop list_props[] = {
    { .name = "rows", .type = KR_API_ARRAY, .of = &row_schema, .help = "Newest first." },
    { .name = "next", .type = KR_API_STRING, .nullable = true,
      .help = "What to pass as `after` for the next page; null at the end. A page may be short, even empty, and have "
              "a next one.", .example = "4710" },
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("AuditRows", "A page of the audit log.", list_props);

struct query {
    struct kr_accounts_page page;
    const char *user, *what, *object, *outcome, *request;
    double since, until;
};
static const struct kr_api_field fields[] = {
    { .name = "user_id", .type = KR_API_STRING, KR_API_AT(struct query, user), KR_API_LENGTH(1, KR_STORE_ID_ROOM - 1),
      .aliases = (const char *const[]){"user", NULL},
      .help = "Who did it: a user's id. Of another user only for administrators.",
      .example = "6zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { .name = "what", .type = KR_API_STRING, KR_API_AT(struct query, what), KR_API_LENGTH(1, 48),
     .help = "What was done.", .example = "key.revoke" },
    { .name = "object", .type = KR_API_STRING, KR_API_AT(struct query, object), KR_API_LENGTH(1, 256),
     .help = "To what.", .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { .name = "outcome", .type = KR_API_STRING, KR_API_AT(struct query, outcome), KR_API_LENGTH(1, 32),
     .help = "How it ended.", .example = "ok" },
    { .name = "request_id", .type = KR_API_STRING, KR_API_AT(struct query, request), KR_API_LENGTH(1, 128),
     .aliases = (const char *const[]){"request", NULL}, .help = "A request's id.", .example = "5e0c7a4400000012" },
    { .name = "since", .type = KR_API_NUMBER, KR_API_AT(struct query, since), KR_API_RANGE(0, 9e9),
     .help = "Nothing before this time, in seconds since 1970.", .example = "1800000000" },
    { .name = "until", .type = KR_API_NUMBER, KR_API_AT(struct query, until), KR_API_RANGE(0, 9e9),
     .help = "Only before this time.", .example = "1800003600" },
    KR_ACCOUNTS_PAGE_FIELDS(struct query),
};
static const struct kr_api_table table = KR_API_TABLE(NULL, "Which rows.", fields, struct query);

const struct kr_api_doc kr_audit_list_doc = {
    .id = "list_audit", .tag = "audit", .summary = "Read the audit log",
    .description = "Every run, login, use of a key and refusal, and every change of users, keys and sandboxes. Others "
                   "than administrators see what they did themselves. "
                   "Needs the right read, or admin.",
    .query = &table,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "A page.", .schema = &list_schema}, {0}},
};
/* clang-format on */

/* ---- cursors ---- */

#define ROUNDS 6

/* A permutation of 64 bits under a key (a Feistel network with SipHash): `back` undoes it. */
static uint64_t permute(const unsigned char key[crypto_shorthash_KEYBYTES], uint64_t x, bool back)
{
    uint32_t half[2] = {(uint32_t)(x >> 32), (uint32_t)x};

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t round = back ? ROUNDS - 1 - i : i, in[2] = {round, half[!(round & 1)]};
        uint64_t f;

        crypto_shorthash((unsigned char *)&f, (const unsigned char *)in, sizeof in, key);
        half[round & 1] ^= (uint32_t)f;
    }
    return (uint64_t)half[0] << 32 | half[1];
}

static int cursor_key(struct kr_api *api, unsigned char key[crypto_shorthash_KEYBYTES], struct kr_err *err)
{
    return kr_store_secret(api->store, "audit_cursor", key, crypto_shorthash_KEYBYTES, err);
}

/* The number that `text` stands for, as text. 0 or -EINVAL. */
static int open_cursor(const unsigned char *key, const char *text, char ret[KR_STORE_CURSOR_ROOM])
{
    uint64_t sealed;
    int used = 0;

    if (strlen(text) != 16 || sscanf(text, "%16" SCNx64 "%n", &sealed, &used) != 1 || used != 16)
        return -EINVAL;
    snprintf(ret, KR_STORE_CURSOR_ROOM, "%" PRIu64, permute(key, sealed, true));
    return 0;
}

static void seal_cursor(const unsigned char *key, char next[KR_STORE_CURSOR_ROOM])
{
    if (next[0])
        snprintf(next, KR_STORE_CURSOR_ROOM, "%016" PRIx64, permute(key, strtoull(next, NULL, 10), false));
}

/* ---- the list ---- */

struct writing {
    struct kr_json j;
    bool admin;
};

static void on_audit_row(void *data, const struct kr_store_audit *row)
{
    struct writing *w = data;
    struct kr_json *j = &w->j;

    kr_json_object(j);
    if (w->admin)
        kr_json_key_int(j, "id", row->id);
    else
        kr_json_key_null(j, "id");
    kr_json_key_double(j, "at", (double)row->at / 1e6);
    kr_json_key_str(j, "user_id", row->who[0] ? row->who : NULL);
    kr_json_key_str(j, "user", row->who[0] ? row->who : NULL); /* as clients knew it before */
    kr_json_key_str(j, "what", row->what);
    kr_json_key_str(j, "object", row->object);
    kr_json_key_str(j, "outcome", row->outcome);
    kr_json_key_str(j, "address", row->address);
    kr_json_key_str(j, "request_id", row->request);
    kr_json_key_str(j, "request", row->request);
    kr_json_key(j, "detail");
    if (row->detail && row->detail[0])
        kr_json_raw(j, row->detail, strlen(row->detail));
    else
        kr_json_null(j);
    kr_json_object_end(j);
}

static int list_audit(struct kr_api *api, const struct kr_api_who *who, const struct query *q, struct kr_buf *out,
                      struct kr_err *err)
{
    struct writing w = {.admin = who->caller.rights & KR_RIGHT_ADMIN};
    struct kr_store_audit_filter filter = {.who = w.admin ? q->user : who->user,
                                           .what = q->what,
                                           .object = q->object,
                                           .outcome = q->outcome,
                                           .request = q->request,
                                           .since = (int64_t)(q->since * 1e6),
                                           .until = (int64_t)(q->until * 1e6)};
    struct kr_store_page page = {.after = q->page.after, .limit = (unsigned)q->page.limit};
    unsigned char key[crypto_shorthash_KEYBYTES];
    char after[KR_STORE_CURSOR_ROOM];
    int r = w.admin ? 0 : cursor_key(api, key, err);

    if (r < 0)
        return r;
    if (!w.admin && page.after) {
        if (open_cursor(key, page.after, after) < 0)
            return kr_err_set(err, KR_ERR_INVALID, 0, "after: not one that a list gave"), -EINVAL;
        page.after = after;
    }
    kr_api_page_begin(&w.j, out, "rows");
    r = kr_store_audit_list(api->store, &filter, &page, on_audit_row, &w, err);
    if (r < 0)
        return r;
    if (!w.admin)
        seal_cursor(key, page.next);
    kr_api_page_end(&w.j, page.next);
    return 0;
}

void kr_audit_list(struct kr_http_ex *ex, void *app)
{
    cleanup_buf struct kr_buf out;
    struct kr_api_input in;
    struct kr_api_who who;
    struct kr_err err;
    struct query q;

    kr_buf_init(&out, REPLY_MAX);
    if (!kr_api_caller(app, ex, &who) || !kr_api_read_query(ex, &table, &q, &in))
        return;
    if (!(who.caller.rights & (KR_RIGHT_READ | KR_RIGHT_ADMIN)))
        kr_api_fail_with(ex, KR_ERR_FORBIDDEN, "this needs the right to read");
    else if (q.user && strcmp(q.user, who.user) != 0 && !(who.caller.rights & KR_RIGHT_ADMIN))
        kr_api_fail_with(ex, KR_ERR_FORBIDDEN, "what others did is for administrators");
    else if (list_audit(app, &who, &q, &out, &err) < 0)
        kr_accounts_fail(ex, &err);
    else
        kr_api_reply(ex, 200, &out);
    kr_api_input_done(&in);
}

/* `krait keys create|list|revoke`: keys of the API, in a data directory's store, whether the server runs or not.
 *
 * Called from main.c. Invariant: a key's text is written once, to stdout, and then wiped. */
#include "buf.h"
#include "limit.h"
#include "store_key.h"
#include "verbs.h"
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_MAX (64u << 20)
#define DAY_MS (UINT64_C(86400) * 1000)

struct keys_options {
    struct kr_verb_options common;
    const char *user, *name, *rights, *expires;
};

/* clang-format off */
#define AT(field) offsetof(struct keys_options, field)
static const struct kr_opt_row option_rows[] = {
    { .name = "user", .type = KR_OPT_TEXT, .offset = AT(user), .value = "NAME",
      .fallback = "create: root; list: all users", .example = "alice",
      .help = "Whose key or keys: a user's name or id." },
    { .name = "name", .type = KR_OPT_TEXT, .offset = AT(name), .value = "TEXT", .fallback = "key",
      .example = "laptop", .help = "create: what the key is called." },
    { .name = "rights", .type = KR_OPT_TEXT, .offset = AT(rights), .value = "LIST", .fallback = "the user's",
      .example = "read,run", .help = "create: some of read, run, admin; or all." },
    { .name = "expires", .type = KR_OPT_TEXT, .offset = AT(expires), .value = "TIME", .fallback = "never",
      .example = "90d", .help = "create: how long the key is good." },
    KR_VERB_ROWS(struct keys_options),
};
/* clang-format on */

const struct kr_opt_table kr_keys_options_table = {
    .command = "keys",
    .usage = "create|list|revoke [options] [ID]",
    .about =
        "Makes, lists and revokes keys of the API in the data folder of `krait serve`, which may be running: a new key "
        "is good at once, a revoked one is refused two seconds later at the latest.",
    .notes = "Example: krait keys create --user alice --name laptop --expires 90d\n"
             "The key is the only line on stdout, and is shown this once.",
    .rows = option_rows,
    .count = sizeof option_rows / sizeof option_rows[0],
    .limits = KR_OPT_NO_LIMITS,
};

static int name_of_owner(struct kr_store *s, const char *id, char name[KR_STORE_NAME_ROOM])
{
    struct kr_store_user user;
    int r = kr_store_user_get(s, id, &user, NULL);

    snprintf(name, KR_STORE_NAME_ROOM, "%s", r < 0 ? "?" : user.name);
    return r;
}

static void write_key(struct kr_json *j, struct kr_store *s, const struct kr_store_key *key, const char *text)
{
    char name[KR_STORE_NAME_ROOM];

    name_of_owner(s, key->owner, name);
    kr_json_object(j);
    kr_json_key_str(j, "id", key->id);
    kr_json_key_str(j, "user", key->owner);
    kr_json_key_str(j, "user_name", name);
    kr_json_key_str(j, "name", key->name);
    kr_json_key_str(j, "prefix", key->shown);
    kr_verbs_json_rights(j, key->rights);
    kr_verbs_json_time(j, "created_at", key->created);
    kr_verbs_json_time(j, "expires_at", key->expires);
    kr_verbs_json_time(j, "last_used_at", key->last_used);
    kr_verbs_json_time(j, "revoked_at", key->revoked);
    if (text)
        kr_json_key_str(j, "key", text);
    kr_json_object_end(j);
}

/* ---- create ---- */

static int show_made(const struct kr_verb_call *c, const struct kr_store_key *key, const char *text, struct kr_err *err)
{
    const struct keys_options *o = c->options;
    cleanup_buf struct kr_buf out;
    char name[KR_STORE_NAME_ROOM], rights[KR_RIGHTS_ROOM], expires[KR_VERBS_TIME_ROOM];
    struct kr_json j;
    int r;

    kr_buf_init(&out, JSON_MAX);
    if (o->common.json) {
        kr_json_init(&j, &out);
        write_key(&j, c->store, key, text);
        r = kr_verbs_print(&j, err);
        if (out.data)
            sodium_memzero(out.data, out.cap);
        return r;
    }
    name_of_owner(c->store, key->owner, name);
    printf("%s\n", text);
    fprintf(stderr, "krait keys: key %s \"%s\" of %s, rights %s%s%s; this is the only time it is shown\n", key->id,
            key->name, name, kr_rights_show(key->rights, rights), key->expires ? ", good until " : "",
            key->expires ? kr_verbs_time(key->expires, expires) : "");
    return 0;
}

static int create(struct kr_verb_call *c, struct kr_err *err)
{
    static const struct kr_limit_row expires_row = {
        .name = "expires", .unit = KR_UNIT_MS, .min = 1000, .max = 36600 * DAY_MS, .example = "90d"};
    const struct keys_options *o = c->options;
    struct kr_store_key_new new = {.name = o->name ? o->name : "key", .now = kr_store_now()};
    char text[KR_STORE_KEY_ROOM] = "";
    struct kr_store_user user;
    struct kr_store_key key;
    uint64_t expires = 0;
    int r = kr_verbs_user(c->store, o->user ? o->user : KR_STORE_ROOT, &user, err);

    if (r < 0 || (o->expires && (r = kr_limit_parse(&expires_row, o->expires, &expires, err)) < 0))
        return r;
    new.owner = user.id;
    new.rights = user.rights;
    if (o->rights && (r = kr_rights_parse(o->rights, &new.rights, err)) < 0)
        return r;
    if (new.rights & ~user.rights)
        fprintf(stderr, "krait keys: %s has not all of these rights: the key will not either\n", user.name);
    new.expires = expires ? new.now + (int64_t)expires * 1000 : 0;
    r = kr_store_key_add(c->store, &new, text, &key, err);
    if (r < 0)
        return r;
    kr_verbs_audit(c->store, "key.create", key.id);
    r = show_made(c, &key, text, err);
    sodium_memzero(text, sizeof text);
    return r;
}

/* ---- list ---- */

struct listing {
    struct kr_store *store;
    struct kr_json *j; /* NULL: for a person */
};

static const char *state_of(const struct kr_store_key *key)
{
    if (key->revoked)
        return "revoked";
    return key->expires && key->expires <= kr_store_now() ? "expired" : "good";
}

static void on_listed_key(void *data, const struct kr_store_key *key)
{
    char name[KR_STORE_NAME_ROOM], rights[KR_RIGHTS_ROOM], created[KR_VERBS_TIME_ROOM], expires[KR_VERBS_TIME_ROOM],
        used[KR_VERBS_TIME_ROOM];
    struct listing *l = data;

    if (l->j) {
        write_key(l->j, l->store, key, NULL);
        return;
    }
    name_of_owner(l->store, key->owner, name);
    printf("%-26s  %-11s  %-16s  %-16s  %-14s  %-7s  %-16s  %-16s  %s\n", key->id, key->shown, name, key->name,
           kr_rights_show(key->rights, rights), state_of(key), kr_verbs_time(key->created, created),
           kr_verbs_time(key->last_used, used), kr_verbs_time(key->expires, expires));
}

static int list_all(struct listing *l, const char *owner, struct kr_err *err)
{
    struct kr_store_page page = {.limit = KR_STORE_PAGE_MAX};
    int r;

    do {
        r = owner ? kr_store_keys_list(l->store, owner, &page, on_listed_key, l, err)
                  : kr_store_keys_list_all(l->store, &page, on_listed_key, l, err);
        page.after = page.next;
    } while (r >= 0 && page.next[0]);
    return r < 0 ? r : 0;
}

static int list_keys(struct kr_verb_call *c, struct kr_err *err)
{
    const struct keys_options *o = c->options;
    struct listing l = {.store = c->store};
    cleanup_buf struct kr_buf out;
    struct kr_store_user user;
    struct kr_json j;
    int r;

    kr_buf_init(&out, JSON_MAX);
    if (o->user && (r = kr_verbs_user(c->store, o->user, &user, err)) < 0)
        return r;
    if (!o->common.json) {
        printf("%-26s  %-11s  %-16s  %-16s  %-14s  %-7s  %-16s  %-16s  %s\n", "ID", "PREFIX", "USER", "NAME", "RIGHTS",
               "STATE", "CREATED", "LAST USED", "EXPIRES");
        return list_all(&l, o->user ? user.id : NULL, err);
    }
    l.j = &j;
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key(&j, "keys");
    kr_json_array(&j);
    r = list_all(&l, o->user ? user.id : NULL, err);
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    return r < 0 ? r : kr_verbs_print(&j, err);
}

/* ---- revoke ---- */

/* Looks for a key by the characters that lists show. */
struct search {
    const char *text;
    unsigned found;
    char id[KR_STORE_ID_ROOM];
};

static void on_searched(void *data, const struct kr_store_key *key)
{
    struct search *s = data;

    if (strncmp(s->text, key->shown, strlen(key->shown)) != 0 || key->revoked)
        return;
    s->found++;
    memcpy(s->id, key->id, sizeof s->id);
}

/* The id behind an id or a prefix. 0 or -ENOENT. */
static int find_key(struct kr_store *s, const char *text, char id[KR_STORE_ID_ROOM], struct kr_err *err)
{
    struct kr_store_page page = {.limit = KR_STORE_PAGE_MAX};
    struct search search = {.text = text};
    int r = 0;

    snprintf(id, KR_STORE_ID_ROOM, "%s", text);
    if (strncmp(text, KR_STORE_KEY_PREFIX, strlen(KR_STORE_KEY_PREFIX)) != 0)
        return 0;
    do {
        r = kr_store_keys_list_all(s, &page, on_searched, &search, err);
        page.after = page.next;
    } while (r >= 0 && page.next[0]);
    if (r < 0)
        return r;
    if (search.found > 1)
        return kr_err_set(err, KR_ERR_INVALID, 0, "%u keys begin like this: name one by its id", search.found), -EINVAL;
    if (search.found == 0)
        return kr_err_set(err, KR_ERR_NOT_FOUND, 0, "no good key begins like this"), -ENOENT;
    memcpy(id, search.id, KR_STORE_ID_ROOM);
    return 0;
}

static int revoke(struct kr_verb_call *c, struct kr_err *err)
{
    const struct keys_options *o = c->options;
    char id[KR_STORE_ID_ROOM], owner[KR_STORE_ID_ROOM];
    cleanup_buf struct kr_buf out;
    struct kr_store_key key;
    struct kr_json j;
    int r = find_key(c->store, c->operands[0], id, err);

    kr_buf_init(&out, JSON_MAX);
    if (r < 0)
        return r;
    r = kr_store_key_owner(c->store, id, owner, err);
    if (r == -ENOENT)
        return kr_err_set(err, KR_ERR_NOT_FOUND, 0, "no key has the id \"%.40s\"", id), -ENOENT;
    if (r < 0 || (r = kr_store_key_revoke(c->store, owner, id, kr_store_now(), err)) < 0 ||
        (r = kr_store_key_get(c->store, owner, id, &key, err)) < 0)
        return r;
    kr_verbs_audit(c->store, "key.revoke", id);
    if (!o->common.json) {
        fprintf(stderr, "krait keys: key %s \"%s\" is revoked\n", key.id, key.name);
        return 0;
    }
    kr_json_init(&j, &out);
    write_key(&j, c->store, &key, NULL);
    return kr_verbs_print(&j, err);
}

static const struct kr_verb verb_rows[] = {
    {"create", NULL, 0, 0, true, "user name rights expires", create, "Make a key and print it."},
    {"list", NULL, 0, 0, false, "user", list_keys, "List keys: all users', or one user's."},
    {"revoke", "ID", 1, 1, false, "", revoke, "Refuse a key from now on; ID as listed, or its prefix."},
};

int kr_cmd_keys(int argc, char **argv)
{
    static const struct kr_verbs verbs = {&kr_keys_options_table, verb_rows, sizeof verb_rows / sizeof verb_rows[0]};
    struct keys_options options = {0};

    return kr_verbs_main(&verbs, argc, argv, &options);
}

/* src/store: users, passwords, keys, tokens, settings, transactions. Run by tests/run. Sandboxes, runs and the audit
 * log are in test-store-work.c, the file itself (opening, migrations, damage, crashes) in test-store-file.c. */
#include "check.h"
#include "password.h"
#include "secret.h"
#include "store-common.h"
#include "store_key.h"
#include <ctype.h>
#include <errno.h>
#include <pthread.h>

/* ---- ids and statements ---- */

static void test_ids(void)
{
    static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
    unsigned char raw[32], back[32] = {0};
    char text[60], a[KR_STORE_ID_ROOM], b[KR_STORE_ID_ROOM];

    for (unsigned i = 0; i < sizeof raw; i++)
        raw[i] = (unsigned char)(i * 37 + 200);
    kr_base32(raw, sizeof raw, text);
    CHECK(strlen(text) == 52);
    for (unsigned bit = 0; bit < 256; bit++) {
        unsigned digit = (unsigned)(strchr(alphabet, text[bit / 5]) - alphabet);

        back[bit / 8] |= (unsigned char)((digit >> (4 - bit % 5) & 1) << (7 - bit % 8));
    }
    CHECK(!memcmp(raw, back, sizeof raw));
    kr_store_new_id(a);
    kr_store_new_id(b);
    CHECK(kr_id_valid(a) && strlen(a) == 26 && strspn(a, alphabet) == 26 && strcmp(a, b));
}

/* Every statement compiles; none sorts, and none reads a whole table where an index could serve. */
static void test_statements_use_indexes(void)
{
    for (int i = 0; i < KR_ST_MAX_; i++) {
        sqlite3_stmt *st = NULL;
        char sql[1200];

        CHECK(kr_st_rows[i].what && kr_st_rows[i].sql);
        snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", kr_st_rows[i].sql);
        if (sqlite3_prepare_v2(store->db, sql, -1, &st, NULL) != SQLITE_OK) {
            printf("# %s: %s\n", kr_st_rows[i].sql, sqlite3_errmsg(store->db));
            CHECK(!"a statement does not compile");
        }
        while (sqlite3_step(st) == SQLITE_ROW) {
            const char *plan = (const char *)sqlite3_column_text(st, 3);
            bool scan = !strncmp(plan, "SCAN", 4) && !strstr(plan, "INDEX") && strcmp(plan, "SCAN CONSTANT ROW");
            bool may = i == KR_ST_AUDIT_OLDEST || i == KR_ST_SANDBOX_USED || i == KR_ST_FOLDERS;

            if (strstr(plan, "TEMP B-TREE") || (scan && !may)) {
                printf("# %s: %s\n", kr_st_rows[i].sql, plan);
                CHECK(!"a statement does more than it should");
            }
        }
        sqlite3_finalize(st);
    }
}

/* ---- users ---- */

static void test_rights(void)
{
    char buf[KR_RIGHTS_ROOM];
    unsigned rights = 0;

    CHECK(kr_rights_parse("read,run", &rights, &err) == 0 && rights == (KR_RIGHT_READ | KR_RIGHT_RUN));
    CHECK(kr_rights_parse(" admin ", &rights, &err) == 0 && rights == KR_RIGHT_ADMIN);
    CHECK(kr_rights_parse("all", &rights, &err) == 0 && rights == KR_RIGHT_ALL);
    CHECK(!strcmp(kr_rights_show(rights, buf), "read,run,admin"));
    CHECK(kr_rights_parse("", &rights, &err) == -EINVAL);
    CHECK(kr_rights_parse("read,ru", &rights, &err) == -EINVAL && strstr(err.msg, "ru is none"));
    CHECK(kr_rights_parse("runs", &rights, &err) == -EINVAL && rights == KR_RIGHT_ALL);
}

static void test_users(void)
{
    struct kr_store_user_new new = {.name = "Carol", .email = "carol@example.org", .rights = 3, .now = NOW};
    struct kr_store_user user, again;
    char hash[KR_PASSWORD_ROOM];

    CHECK(kr_store_user_add(store, &new, &user, &err) == 0);
    CHECK(!strcmp(user.name, "Carol") && !strcmp(user.email, "carol@example.org") && user.rights == 3);
    CHECK(user.created == NOW && !user.disabled && !user.has_password && kr_id_valid(user.id));
    CHECK(kr_store_user_find(store, "cAROL", &again, hash, &err) == 0 && !strcmp(again.id, user.id) && !hash[0]);
    CHECK(kr_store_user_get(store, "nobody", &again, &err) == -ENOENT && err.kind == KR_ERR_NOT_FOUND);
    new.email = "other@example.org";
    CHECK(kr_store_user_add(store, &new, NULL, &err) == -EEXIST && !strcmp(err.msg, "name: already registered"));
    new.name = "carol2", new.email = "CAROL@example.org";
    CHECK(kr_store_user_add(store, &new, NULL, &err) == -EEXIST && !strcmp(err.msg, "email: already registered"));
    CHECK(kr_store_user_set_email(store, user.id, NULL, &err) == 0);
    CHECK(kr_store_user_add(store, &new, NULL, &err) == 0);
    CHECK(kr_store_user_set_email(store, user.id, "carol@example.org", &err) == -EEXIST);
    CHECK(kr_store_user_set_rights(store, user.id, KR_RIGHT_READ, &err) == 0);
    CHECK(kr_store_user_set_rights(store, user.id, 0, &err) == -EINVAL);
    CHECK(kr_store_user_set_rights(store, user.id, 8, &err) == -EINVAL);
    CHECK(kr_store_user_set_password(store, user.id, "$argon2id$x", &err) == 0);
    CHECK(kr_store_user_find(store, "carol", &again, hash, &err) == 0 && !strcmp(hash, "$argon2id$x"));
    CHECK(again.rights == KR_RIGHT_READ && again.has_password && !again.email[0]);
    CHECK(kr_store_user_set_password(store, "nobody", NULL, &err) == -ENOENT);
    CHECK(kr_store_user_set_disabled(store, "nobody", NOW, &err) == -ENOENT);
}

static void test_user_fields(void)
{
    static const char *const bad_names[] = {"",
                                            " a",
                                            "a ",
                                            "a\nb",
                                            "a\x7f",
                                            "a\xc2\x85",
                                            "\xff",
                                            "\xc3",
                                            "a\xed\xa0\x80",
                                            "123456789012345678901234567890123456789012345678901234567890123456789"};
    static const char *const bad_mails[] = {"a", "@b", "a@", "a@b@c", "a b@c", "a@b\n", "<a@b>"};

    for (size_t i = 0; i < sizeof bad_names / sizeof bad_names[0]; i++) {
        struct kr_store_user_new new = {.name = bad_names[i], .rights = 1, .now = NOW};

        CHECK(kr_store_user_add(store, &new, NULL, &err) == -EINVAL && !strncmp(err.msg, "name: ", 6));
    }
    for (size_t i = 0; i < sizeof bad_mails / sizeof bad_mails[0]; i++) {
        struct kr_store_user_new new = {.name = "dora", .email = bad_mails[i], .rights = 1, .now = NOW};

        CHECK(kr_store_user_add(store, &new, NULL, &err) == -EINVAL && !strncmp(err.msg, "email: ", 7));
    }
    CHECK(kr_store_user_add(store, &(struct kr_store_user_new){.name = "Zoë 图", .rights = 1, .now = NOW}, NULL,
                            &err) == 0);
}

static void test_root_stays(void)
{
    struct kr_store_user user;

    CHECK(kr_store_user_get(store, KR_STORE_ROOT, &user, &err) == 0);
    CHECK(!strcmp(user.name, "root") && user.rights == KR_RIGHT_ALL && !user.has_password && !user.disabled);
    CHECK(kr_store_user_set_rights(store, KR_STORE_ROOT, 1, &err) == -EPERM && err.kind == KR_ERR_DENIED);
    CHECK(kr_store_user_set_disabled(store, KR_STORE_ROOT, NOW, &err) == -EPERM);
    CHECK(kr_store_user_delete(store, KR_STORE_ROOT, NULL, NULL, &err) == -EPERM);
    CHECK(kr_store_user_add(store, &(struct kr_store_user_new){.name = "Root", .rights = 1}, NULL, &err) == -EEXIST);
}

static void test_user_delete(void)
{
    char eve[KR_STORE_ID_ROOM], id[KR_STORE_ID_ROOM], key[KR_STORE_KEY_ROOM], token[KR_STORE_KEY_ROOM];
    struct kr_store_grant grant;
    struct kr_store_user user;
    struct kr_store_totals before, after;
    struct kr_txn fill = {0};
    int gone = 0, calls = 0, r;

    CHECK(kr_store_totals(store, &before, &err) == 0);
    CHECK(add_user("eve", eve) == 0 && add_sandbox(eve, "one", id) == 0 && add_sandbox(eve, "two", id) == 0);
    CHECK(kr_store_key_add(store, &(struct kr_store_key_new){eve, "k", 1, 0, NOW}, key, NULL, &err) == 0);
    CHECK(kr_store_token_add(store, eve, NOW + SECOND, NOW, token, &err) == 0);
    CHECK(kr_txn_begin(&fill, store, &err) == 0);
    for (int i = 0; i < 600; i++)
        CHECK(add_run(eve, id, NOW + i, 10, (char[KR_STORE_ID_ROOM]){0}) == 0);
    CHECK(kr_txn_commit(&fill, false, &err) == 0);
    while ((r = kr_store_user_delete(store, eve, on_gone, &gone, &err)) > 0) {
        calls++;
        CHECK(kr_store_user_get(store, eve, &user, &err) == 0);
    }
    CHECK(r == 0 && calls == 600 / (int)KR_STORE_PRUNE_MAX && gone == 600);
    CHECK(kr_store_user_get(store, eve, &user, &err) == -ENOENT);
    CHECK(kr_store_grant(store, key, NOW, &grant, &err) == -ENOKEY);
    CHECK(kr_store_grant(store, token, NOW, &grant, &err) == -ENOKEY);
    CHECK(sql_int(store, "SELECT count(*) FROM doomed") == 2 && kr_store_sandboxes_count(store, eve, &err) == 0);
    CHECK(kr_store_totals(store, &after, &err) == 0 && !memcmp(&before, &after, sizeof before));
    CHECK(kr_store_user_delete(store, eve, NULL, NULL, &err) == -ENOENT);
    sqlite3_exec(store->db, "DELETE FROM doomed", NULL, NULL, NULL);
}

/* ---- passwords ---- */

static void *verify_thread(void *hash)
{
    return (void *)(intptr_t)kr_password_verify(hash, "correct horse", 13);
}

static void test_passwords(void)
{
    char hash[KR_PASSWORD_ROOM], other[KR_PASSWORD_ROOM], parameters[64], long_one[KR_PASSWORD_MAX + 2];
    pthread_t thread;
    void *result;

    CHECK(kr_password_hash("correct horse", 13, hash, &err) == 0);
    CHECK(kr_password_hash("correct horse", 13, other, &err) == 0 && strcmp(hash, other)); /* salted */
    snprintf(parameters, sizeof parameters, "$argon2id$v=19$m=%u,t=%u,p=1$", KR_PASSWORD_MEMORY >> 10,
             KR_PASSWORD_PASSES);
    CHECK(!strncmp(hash, parameters, strlen(parameters)));
    CHECK(pthread_create(&thread, NULL, verify_thread, other) == 0); /* as on the thread pool: two at once */
    CHECK(kr_password_verify(hash, "correct horse", 13) == 0);
    CHECK(pthread_join(thread, &result) == 0 && !result);
    CHECK(kr_password_verify(hash, "correct horsf", 13) == -EKEYREJECTED);
    CHECK(kr_password_verify(NULL, "correct horse", 13) == -EKEYREJECTED);
    CHECK(kr_password_verify("", "", 0) == -EKEYREJECTED);
    CHECK(kr_password_verify("$argon2id$v=19$nonsense", "a", 1) == -EKEYREJECTED);
    CHECK(!kr_password_is_old(hash));
    CHECK(kr_password_is_old("$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$"
                             "c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0c29tZXNhbHQ"));
    memset(long_one, 'a', sizeof long_one);
    CHECK(kr_password_hash(long_one, KR_PASSWORD_MAX + 1, hash, &err) == -EINVAL && strstr(err.msg, "password"));
    CHECK(kr_password_hash("", 0, hash, &err) == -EINVAL);
}

/* ---- keys and tokens ---- */

static void test_keys(void)
{
    struct kr_store_key_new new = {alice, "laptop", KR_RIGHT_READ | KR_RIGHT_ADMIN, NOW + 10 * SECOND, NOW};
    struct kr_store_grant grant;
    struct kr_store_key key;
    char text[KR_STORE_KEY_ROOM], owner[KR_STORE_ID_ROOM];

    CHECK(kr_store_key_add(store, &new, text, &key, &err) == 0);
    CHECK(strlen(text) == 55 && !strncmp(text, "kr_", 3) && !strncmp(key.shown, text, 11) && strlen(key.shown) == 11);
    CHECK(!key.last_used && key.created == NOW && key.expires == NOW + 10 * SECOND && !strcmp(key.owner, alice));
    CHECK(kr_store_grant(store, text, NOW, &grant, &err) == 0);
    CHECK(!strcmp(grant.user, alice) && !strcmp(grant.name, "alice") && !strcmp(grant.key, key.id));
    CHECK(grant.rights == KR_RIGHT_READ); /* alice is no administrator, whatever her key says */
    CHECK(kr_store_grant(store, text, NOW + 10 * SECOND, &grant, &err) == -EKEYEXPIRED && err.kind == KR_ERR_DENIED);
    CHECK(kr_store_user_set_disabled(store, alice, NOW, &err) == 0);
    CHECK(kr_store_grant(store, text, NOW, &grant, &err) == -EACCES);
    CHECK(kr_store_user_set_disabled(store, alice, 0, &err) == 0);
    CHECK(kr_store_key_get(store, bob, key.id, &key, &err) == -ENOENT);
    CHECK(kr_store_key_revoke(store, bob, key.id, NOW, &err) == -ENOENT);
    CHECK(kr_store_grant(store, text, NOW, &grant, &err) == 0);
    CHECK(kr_store_key_owner(store, key.id, owner, &err) == 0 && !strcmp(owner, alice));
    CHECK(kr_store_key_revoke(store, alice, key.id, NOW + 5, &err) == 0);
    CHECK(kr_store_key_revoke(store, alice, key.id, NOW + 9, &err) == 0);
    CHECK(kr_store_key_get(store, alice, key.id, &key, &err) == 0 && key.revoked == NOW + 5);
    CHECK(kr_store_grant(store, text, NOW, &grant, &err) == -EKEYREVOKED);
    new.owner = "nobody";
    CHECK(kr_store_key_add(store, &new, text, &key, &err) == -ENOENT && err.kind == KR_ERR_NOT_FOUND);
    new.owner = alice, new.expires = NOW;
    CHECK(kr_store_key_add(store, &new, text, &key, &err) == -EINVAL);
    new.expires = 0, new.rights = 0;
    CHECK(kr_store_key_add(store, &new, text, &key, &err) == -EINVAL);
}

static void test_key_use_is_noted_by_the_minute(void)
{
    struct kr_store_grant grant;
    struct kr_store_key key;
    char text[KR_STORE_KEY_ROOM];
    int64_t changes;

    CHECK(kr_store_key_add(store, &(struct kr_store_key_new){alice, "k", 1, 0, NOW}, text, &key, &err) == 0);
    CHECK(kr_store_grant(store, text, NOW, &grant, &err) == 0);
    CHECK(kr_store_key_get(store, alice, key.id, &key, &err) == 0 && key.last_used == NOW);
    changes = sqlite3_total_changes64(store->db);
    CHECK(kr_store_grant(store, text, NOW + 59 * SECOND, &grant, &err) == 0);
    CHECK(sqlite3_total_changes64(store->db) == changes);
    CHECK(kr_store_grant(store, text, NOW + 60 * SECOND, &grant, &err) == 0);
    CHECK(kr_store_key_get(store, alice, key.id, &key, &err) == 0 && key.last_used == NOW + 60 * SECOND);
}

static void test_texts_that_are_no_keys(void)
{
    struct kr_store_grant grant;
    char text[KR_STORE_KEY_ROOM], other[KR_STORE_KEY_ROOM + 2];

    CHECK(kr_store_key_add(store, &(struct kr_store_key_new){alice, "k", 1, 0, NOW}, text, NULL, &err) == 0);
    CHECK(kr_store_grant(store, "", NOW, &grant, &err) == -ENOKEY);
    CHECK(kr_store_grant(store, "kr_", NOW, &grant, &err) == -ENOKEY);
    snprintf(other, sizeof other, "krt_%s", text + 3); /* a key's bits as a token */
    CHECK(kr_store_grant(store, other, NOW, &grant, &err) == -ENOKEY);
    snprintf(other, sizeof other, "%s0", text);
    CHECK(kr_store_grant(store, other, NOW, &grant, &err) == -ENOKEY);
    snprintf(other, sizeof other, "%s", text);
    other[54] = other[54] == '0' ? 'g' : '0';
    CHECK(kr_store_grant(store, other, NOW, &grant, &err) == -ENOKEY);
    for (char *p = strcpy(other, text); *p; p++)
        *p = (char)toupper(*p);
    CHECK(kr_store_grant(store, other, NOW, &grant, &err) == -ENOKEY);
    CHECK(kr_store_grant(store, text, NOW, &grant, &err) == 0);
}

/* Neither the text of a key nor that of a token is in any file of the data directory. */
static void test_no_key_is_stored(void)
{
    static const char *const names[] = {KR_STORE_DB, KR_STORE_LOCK, KR_STORE_PEPPER};
    char key[KR_STORE_KEY_ROOM], token[KR_STORE_KEY_ROOM], path[200];
    char dir[96];
    bool shown = false;

    CHECK(kr_store_key_add(store, &(struct kr_store_key_new){alice, "seek", 1, 0, NOW}, key, NULL, &err) == 0);
    CHECK(kr_store_token_add(store, alice, NOW + SECOND, NOW, token, &err) == 0);
    snprintf(dir, sizeof dir, "%s", kr_store_dir(store));
    kr_store_close(store); /* closing a descriptor of an open database would drop its locks */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        static char content[8 << 20];
        FILE *f;
        size_t len;

        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        f = fopen(path, "re");
        CHECK(f);
        len = fread(content, 1, sizeof content, f);
        fclose(f);
        CHECK(len < sizeof content);
        CHECK(!memmem(content, len, key + 11, 20) && !memmem(content, len, token + 4, 20));
        shown |= memmem(content, len, key, 11) != NULL; /* the search does find what is there */
    }
    CHECK(shown);
    store = must_open(dir);
}

static void test_secrets(void)
{
    unsigned char key[KR_SIGN_KEY_BYTES] = "k", other[KR_SIGN_KEY_BYTES] = "o";
    char text[KR_SIGN_ROOM];

    CHECK(kr_secret_equal("abc", "abc") && kr_secret_equal("", "") && !kr_secret_equal("abc", "abd"));
    CHECK(!kr_secret_equal("abc", "ab") && !kr_secret_equal(NULL, "a") && !kr_secret_equal("a", NULL));
    kr_sign(key, "a link", 6, text);
    CHECK(strlen(text) == 52 && kr_sign_check(key, "a link", 6, text));
    CHECK(!kr_sign_check(key, "a link", 5, text) && !kr_sign_check(other, "a link", 6, text));
    CHECK(!kr_sign_check(key, "a link", 6, NULL) && !kr_sign_check(key, "a link", 6, ""));
    text[3] ^= 1;
    CHECK(!kr_sign_check(key, "a link", 6, text));
}

static void test_key_limit(void)
{
    struct kr_store_key_new new = {.name = "k", .rights = 1, .now = NOW};
    char text[KR_STORE_KEY_ROOM], frank[KR_STORE_ID_ROOM];
    int pruned, sum = 0;
    struct kr_store_key key;

    CHECK(add_user("frank", frank) == 0);
    new.owner = frank;
    for (unsigned i = 0; i < KR_STORE_KEYS_MAX; i++)
        CHECK(kr_store_key_add(store, &new, text, &key, &err) == 0);
    CHECK(kr_store_key_add(store, &new, text, &key, &err) == -EDQUOT && err.kind == KR_ERR_LIMIT);
    /* a user who makes and revokes keys for ever fills nothing */
    for (unsigned i = 0; i < KR_STORE_KEYS_MAX + 50; i++) {
        CHECK(kr_store_key_revoke(store, frank, key.id, NOW + i, &err) == 0);
        new.now = NOW + i;
        CHECK(kr_store_key_add(store, &new, text, &key, &err) == 0);
    }
    CHECK(sql_int(store, "SELECT count(*) FROM keys WHERE owner = (SELECT id FROM users WHERE name = 'frank')") ==
          2 * KR_STORE_KEYS_MAX);
    CHECK(sql_int(store, "SELECT count(*) FROM keys WHERE revoked IS NOT NULL AND name = 'k' AND owner = "
                         "(SELECT id FROM users WHERE name = 'frank')") == KR_STORE_KEYS_MAX);
    while ((pruned = kr_store_grants_prune(store, NOW + 3600 * SECOND, NOW, &err)) > 0)
        sum += pruned;
    CHECK(pruned == 0 && sum >= (int)KR_STORE_KEYS_MAX);
    CHECK(sql_int(store, "SELECT count(*) FROM keys WHERE ifnull(revoked, expires) < 1800003600000000") == 0);
    CHECK(sql_int(store, "SELECT count(*) FROM keys WHERE name = 'k' AND owner = "
                         "(SELECT id FROM users WHERE name = 'frank')") == KR_STORE_KEYS_MAX);
}

static void test_tokens(void)
{
    const char *of_bob = "SELECT count(*) FROM tokens WHERE owner = (SELECT id FROM users WHERE name = 'bob')";
    char first[KR_STORE_KEY_ROOM], text[KR_STORE_KEY_ROOM];
    struct kr_store_grant grant;

    CHECK(kr_store_token_add(store, bob, NOW + SECOND, NOW, first, &err) == 0);
    CHECK(!strncmp(first, "krt_", 4) && strlen(first) == 56);
    CHECK(kr_store_grant(store, first, NOW, &grant, &err) == 0);
    CHECK(!strcmp(grant.user, bob) && !grant.key[0] && grant.rights == 3 && grant.expires == NOW + SECOND);
    CHECK(kr_store_grant(store, first, NOW + SECOND, &grant, &err) == -EKEYEXPIRED);
    CHECK(kr_store_token_add(store, "nobody", NOW + SECOND, NOW, text, &err) == -ENOENT);
    CHECK(kr_store_token_add(store, bob, NOW, NOW, text, &err) == -EINVAL);
    for (unsigned i = 1; i <= KR_STORE_TOKENS_MAX; i++)
        CHECK(kr_store_token_add(store, bob, NOW + 9 * SECOND, NOW + i, text, &err) == 0);
    CHECK(kr_store_grant(store, first, NOW, &grant, &err) == -ENOKEY); /* one more ended the oldest */
    CHECK(kr_store_grant(store, text, NOW, &grant, &err) == 0);
    CHECK(kr_store_token_revoke(store, text, &err) == 0);
    CHECK(kr_store_grant(store, text, NOW, &grant, &err) == -ENOKEY);
    CHECK(kr_store_token_revoke(store, text, &err) == -ENOKEY);
    CHECK(sql_int(store, of_bob) == KR_STORE_TOKENS_MAX - 1);
    CHECK(kr_store_token_add(store, bob, NOW + SECOND, NOW, text, &err) == 0);
    CHECK(kr_store_user_set_password(store, bob, "$argon2id$new", &err) == 0);
    CHECK(kr_store_grant(store, text, NOW, &grant, &err) == -ENOKEY); /* a new password ends the logins */
    CHECK(sql_int(store, of_bob) == 0);
    CHECK(kr_store_token_add(store, bob, NOW + SECOND, NOW, text, &err) == 0);
    CHECK(kr_store_grants_prune(store, 1, NOW + SECOND, &err) >= 1);
    CHECK(sql_int(store, "SELECT count(*) FROM tokens") == 0);
}

/* ---- settings, transactions, upkeep ---- */

static void test_settings(void)
{
    unsigned char key[32], again[32], none[32] = {0};
    char buf[8];

    CHECK(kr_id_valid(store->instance));
    CHECK(kr_store_setting_get(store, "x", buf, sizeof buf, &err) == -ENOENT);
    CHECK(kr_store_setting_set(store, "x", "hello", 5, &err) == 0 &&
          kr_store_setting_set(store, "x", "hey", 3, &err) == 0);
    CHECK(kr_store_setting_get(store, "x", buf, sizeof buf, &err) == 3 && !memcmp(buf, "hey", 3));
    CHECK(kr_store_setting_get(store, "x", buf, 2, &err) == -ENOBUFS);
    CHECK(kr_store_setting_set(store, "x", NULL, 0, &err) == 0 && kr_store_setting_get(store, "x", buf, 1, &err) == 0);
    CHECK(kr_store_secret(store, "link", key, sizeof key, &err) == 0 && memcmp(key, none, sizeof key));
    CHECK(kr_store_secret(store, "link", again, sizeof again, &err) == 0 && !memcmp(key, again, sizeof key));
    CHECK(kr_store_secret(store, "link", again, 16, &err) < 0);
}

static void test_transactions(void)
{
    struct kr_store *other = must_open(kr_store_dir(store));
    struct kr_store_audit row = {.at = NOW, .what = "txn"};
    struct kr_store_sandbox_new new = {.owner = alice, .name = "in a transaction", .now = NOW};
    const char *count = "SELECT count(*) FROM audit WHERE what = 'txn'";
    struct kr_txn t = {0}, left_open = {0};

    CHECK(kr_txn_begin(&t, store, &err) == 0 && t.s == store && !sqlite3_get_autocommit(store->db));
    CHECK(kr_store_audit_add(store, &row, &err) == 0 && kr_store_audit_add(store, &row, &err) == 0);
    CHECK(sql_int(store, count) == 2 && sql_int(other, count) == 0);
    CHECK(kr_store_audit_add(other, &row, &err) == -EBUSY && err.kind == KR_ERR_BUSY);
    CHECK(kr_txn_commit(&t, false, &err) == 0 && !t.s && sqlite3_get_autocommit(store->db));
    CHECK(sql_int(other, count) == 2);
    CHECK(kr_txn_begin(&t, store, &err) == 0 && kr_store_audit_add(store, &row, &err) == 0);
    kr_txn_cleanup_(&t); /* not committed: undone */
    CHECK(sql_int(store, count) == 2 && sqlite3_get_autocommit(store->db));
    CHECK(kr_store_sandbox_add(store, &new, NULL, &err) == 0);
    CHECK(kr_store_sandbox_add(store, &new, NULL, &err) == -EEXIST && sqlite3_get_autocommit(store->db));
    CHECK(kr_txn_begin(&left_open, other, &err) == 0 && kr_store_audit_add(other, &row, &err) == 0);
    kr_store_close(other); /* undoes it */
    CHECK(sql_int(store, count) == 2 && kr_store_audit_add(store, &row, &err) == 0 && sql_int(store, count) == 3);
}

static void test_upkeep(void)
{
    struct kr_txn fill = {0};
    char path[200];
    uint64_t size;

    CHECK(kr_txn_begin(&fill, store, &err) == 0);
    for (int i = 0; i < 9000; i++)
        CHECK(kr_store_audit_add(store, &(struct kr_store_audit){.at = NOW, .what = "fill"}, &err) == 0);
    CHECK(kr_txn_commit(&fill, false, &err) == 0 && kr_store_wal_pages(store) > 100);
    snprintf(path, sizeof path, "%s", kr_store_path(store));
    CHECK(kr_store_checkpoint(path, &err) == 0);
    CHECK(kr_store_audit_add(store, &(struct kr_store_audit){.at = NOW, .what = "fill"}, &err) == 0);
    CHECK(kr_store_wal_pages(store) < 20); /* the log begins anew */
    size = kr_store_size(store);
    CHECK(size > 1 << 20);
    while (kr_store_audit_prune(store, &(struct kr_store_keep){.count = 1}, &err) > 0)
        ;
    CHECK(kr_store_shrink(store, 2000, &err) == 0 && kr_store_checkpoint(path, &err) == 0);
    CHECK(sql_int(store, "PRAGMA page_count") < 300 && sql_int(store, "PRAGMA freelist_count") == 0);
    CHECK(is_sound(store));
}

int main(void)
{
    store = must_open(fresh_dir());
    if (add_user("alice", alice) < 0 || add_user("bob", bob) < 0)
        return 1;
    RUN(test_ids);
    RUN(test_statements_use_indexes);
    RUN(test_rights);
    RUN(test_users);
    RUN(test_user_fields);
    RUN(test_root_stays);
    RUN(test_user_delete);
    RUN(test_passwords);
    RUN(test_keys);
    RUN(test_key_use_is_noted_by_the_minute);
    RUN(test_texts_that_are_no_keys);
    RUN(test_no_key_is_stored);
    RUN(test_secrets);
    RUN(test_key_limit);
    RUN(test_tokens);
    RUN(test_settings);
    RUN(test_transactions);
    RUN(test_upkeep);
    kr_store_close(store);
    remove_top();
    CHECK_DONE();
}

/* src/store/secrets: values that are sealed, and for whom they open; bounds, lists, what goes with a user; the file of
 * the authority. Run by tests/run. */
#include "check.h"
#include "../store-common.h"
#include "store_secret.h"
#include <errno.h>
#include <fcntl.h>

#define HOSTS "[\"https://api.example.org:443\"]"

static char dir[96];
static char value[KR_SECRET_VALUE_MAX + 1];
static struct kr_store_secret found;

static int put(const char *owner, const char *name, const char *text)
{
    return kr_store_secret_put(store, owner, name, HOSTS, text, NOW, &err);
}

static bool opens_as(const char *owner, const char *name, const char *text)
{
    return kr_store_secret_open(store, owner, name, &found, value, &err) == 0 && strcmp(value, text) == 0;
}

static void test_a_value_comes_back_to_its_owner(void)
{
    char first[KR_STORE_ID_ROOM];

    CHECK(put(alice, "service", "the value of alice") == 0 && opens_as(alice, "service", "the value of alice"));
    CHECK(strcmp(found.name, "service") == 0 && strcmp(found.hosts, HOSTS) == 0 && found.created == NOW);
    memcpy(first, found.id, sizeof first);
    CHECK(kr_store_secret_open(store, bob, "service", &found, value, &err) == -ENOENT && err.kind == KR_ERR_NOT_FOUND);
    CHECK(put(bob, "service", "that of bob") == 0 && opens_as(alice, "service", "the value of alice"));
    CHECK(kr_store_secret_put(store, alice, "service", HOSTS, "another one", NOW + SECOND, &err) == 0);
    CHECK(opens_as(alice, "service", "another one") && found.created == NOW && found.changed == NOW + SECOND);
    CHECK(strcmp(found.id, first) != 0);
    CHECK(put("nobody", "service", "the value of none") == -ENOENT);
}

/* What was changed by hand, or moved to another row, does not open. */
static void test_a_row_opens_as_it_was_sealed(void)
{
    CHECK(put(alice, "moved", "a value to move") == 0);
    CHECK(sqlite3_exec(store->db, "UPDATE secrets SET hosts = '[\"https://evil.example:443\"]' WHERE name = 'moved'",
                       NULL, NULL, NULL) == SQLITE_OK);
    CHECK(kr_store_secret_open(store, alice, "moved", &found, value, &err) == -EBADMSG && strstr(err.msg, "moved"));
    CHECK(put(alice, "moved", "a value to move") == 0 && opens_as(alice, "moved", "a value to move"));
    CHECK(sqlite3_exec(store->db, "UPDATE secrets SET sealed = x'00' WHERE name = 'moved'", NULL, NULL, NULL) ==
          SQLITE_OK);
    CHECK(kr_store_secret_open(store, alice, "moved", &found, value, &err) == -EBADMSG);
    CHECK(kr_store_secret_delete(store, alice, "moved", &err) == 0);
    CHECK(kr_store_secret_delete(store, alice, "moved", &err) == -ENOENT);
}

static void test_no_value_is_in_the_files(void)
{
    char path[200], bytes[1 << 16];

    CHECK(put(alice, "hidden", "a-value-to-look-for") == 0 &&
          kr_store_secret_delete(store, alice, "hidden", &err) == 0);
    for (int i = 0; i < 2; i++) {
        int fd;
        ssize_t n;

        snprintf(path, sizeof path, "%s/krait.db%s", dir, i ? "-wal" : "");
        fd = open(path, O_RDONLY);
        CHECK(fd >= 0);
        while ((n = read(fd, bytes, sizeof bytes)) > 0)
            CHECK(!memmem(bytes, (size_t)n, "a-value-to-look-for", 19));
        close(fd);
    }
}

static void on_counted(void *data, const struct kr_store_secret *secret)
{
    char *last = data;

    CHECK(strcmp(last, secret->name) < 0);
    strcpy(last, secret->name);
}

static void test_a_user_has_so_many(void)
{
    char name[32], last[KR_SECRET_NAME_MAX + 1] = "";
    int had = kr_store_secrets_list(store, bob, on_counted, last, &err);

    for (unsigned i = (unsigned)had; i < KR_STORE_SECRETS_MAX; i++) {
        snprintf(name, sizeof name, "n%u", i);
        CHECK(put(bob, name, "one of many values") == 0);
    }
    CHECK(put(bob, "one-more", "one value too many") == -EDQUOT && err.kind == KR_ERR_LIMIT);
    CHECK(put(bob, "n50", "in place of another") == 0);
    last[0] = '\0';
    CHECK(kr_store_secrets_list(store, bob, on_counted, last, &err) == (int)KR_STORE_SECRETS_MAX);
}

static void test_placeholders_differ(void)
{
    char one[KR_SECRET_PLACEHOLDER_LEN + 1], other[KR_SECRET_PLACEHOLDER_LEN + 1];

    kr_store_secret_placeholder(store, alice, "box", "service", one);
    CHECK(kr_secret_is_placeholder(one));
    kr_store_secret_placeholder(store, alice, "box", "service", other);
    CHECK(strcmp(one, other) == 0);
    kr_store_secret_placeholder(store, alice, "other", "service", other);
    CHECK(strcmp(one, other) != 0);
    kr_store_secret_placeholder(store, alice, "box", "another", other);
    CHECK(strcmp(one, other) != 0);
    kr_store_secret_placeholder(store, bob, "box", "service", other);
    CHECK(strcmp(one, other) != 0);
}

static int makes;

static int make_pem(char **ret_pem)
{
    makes++;
    *ret_pem = strdup("the pem of an authority\n");
    return *ret_pem ? 0 : -ENOMEM;
}

static void test_the_authority_is_made_once(void)
{
    for (int i = 0; i < 2; i++) {
        char *pem = NULL;

        CHECK(kr_store_authority(store, make_pem, &pem, &err) == 0 && strcmp(pem, "the pem of an authority\n") == 0);
        free(pem);
    }
    CHECK(makes == 1);
}

/* Nothing but a plain file, which others cannot read. */
static void test_the_authority_is_a_plain_file(void)
{
    char path[200], other[200], *pem = NULL;
    struct stat st;
    int fd;

    snprintf(path, sizeof path, "%s/ca.pem", dir);
    snprintf(other, sizeof other, "%s/another.pem", dir);
    CHECK(chmod(path, 0644) == 0);
    CHECK(kr_store_authority(store, make_pem, &pem, &err) == 0);
    free(pem);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(rename(path, other) == 0 && symlink("another.pem", path) == 0);
    CHECK(kr_store_authority(store, make_pem, &pem, &err) == -ELOOP && strstr(err.msg, "ca.pem"));
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    CHECK(kr_store_authority(store, make_pem, &pem, &err) == -EUCLEAN);
    CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
    CHECK(kr_store_authority(store, make_pem, &pem, &err) == -EUCLEAN);
    CHECK(rmdir(path) == 0 && (fd = open(path, O_WRONLY | O_CREAT, 0600)) >= 0);
    CHECK(kr_store_authority(store, make_pem, &pem, &err) == -EUCLEAN);
    CHECK(ftruncate(fd, 16384) == 0 && close(fd) == 0);
    CHECK(kr_store_authority(store, make_pem, &pem, &err) == -EUCLEAN);
    CHECK(rename(other, path) == 0);
    CHECK(kr_store_authority(store, make_pem, &pem, &err) == 0 && strcmp(pem, "the pem of an authority\n") == 0);
    free(pem);
    CHECK(makes == 1);
}

/* After the store was opened again; and with another key. */
static void test_the_key_is_a_file(void)
{
    char path[200];
    struct stat st;
    int fd;

    snprintf(path, sizeof path, "%s/secrets.key", dir);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_size == 32);
    kr_store_close(store);
    store = must_open(dir);
    CHECK(opens_as(alice, "service", "another one"));
    kr_store_close(store);
    fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && write(fd, "01234567890123456789012345678901", 32) == 32 && close(fd) == 0);
    store = must_open(dir);
    CHECK(kr_store_secret_open(store, alice, "service", &found, value, &err) == -EBADMSG);
    CHECK(truncate(path, 5) == 0);
    kr_store_close(store);
    CHECK(kr_store_open(dir, 0, &store, &err) == -EUCLEAN && strstr(err.msg, "secrets.key"));
    CHECK(unlink(path) == 0);
    store = must_open(dir);
    CHECK(put(alice, "service", "a value stored anew") == 0 && opens_as(alice, "service", "a value stored anew"));
}

static void test_secrets_go_with_their_user(void)
{
    CHECK(sql_int(store, "SELECT count(*) FROM secrets") > 0);
    CHECK(sqlite3_exec(store->db, "DELETE FROM users WHERE name IN ('alice', 'bob')", NULL, NULL, NULL) == SQLITE_OK);
    CHECK(sql_int(store, "SELECT count(*) FROM secrets") == 0);
}

int main(void)
{
    snprintf(dir, sizeof dir, "%s", fresh_dir());
    store = must_open(dir);
    if (add_user("alice", alice) < 0 || add_user("bob", bob) < 0)
        return 1;
    RUN(test_a_value_comes_back_to_its_owner);
    RUN(test_a_row_opens_as_it_was_sealed);
    RUN(test_no_value_is_in_the_files);
    RUN(test_a_user_has_so_many);
    RUN(test_placeholders_differ);
    RUN(test_the_authority_is_made_once);
    RUN(test_the_authority_is_a_plain_file);
    RUN(test_the_key_is_a_file);
    RUN(test_secrets_go_with_their_user);
    kr_store_close(store);
    remove_top();
    CHECK_DONE();
}

/* The store of unpacked wheels: opening, asking, adding. See package_store.h; package_sweep.c removes.
 *
 *   DATA/packages/key          32 random bytes: they make a folder's name of a wheel's hash
 *   DATA/packages/lock         held shared while a folder is named or an environment refers to it, exclusively while
 *                              folders are removed; for moments
 *   DATA/packages/store/KEY/   site/ bin/ data/ headers/ krait.json
 *   DATA/packages/index/KEY    empty; its time is that of the last ask
 *   DATA/packages/tmp/         folders on their way to store/, each locked by who fills it; downloads */
#include "package_store_internal.h"
#include "err.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_MS 30000u
#define HASH_PIECE (1u << 20)
#define TEXT_MAX 300u

bool kr_package_key_valid(const char *key)
{
    return strlen(key) == KR_PACKAGE_KEY_LEN && strspn(key, "abcdefghijklmnopqrstuvwxyz234567") == KR_PACKAGE_KEY_LEN;
}

static bool is_sha256(const char *sha256)
{
    return strlen(sha256) == KR_SHA256_ROOM - 1 && strspn(sha256, "0123456789abcdef") == KR_SHA256_ROOM - 1;
}

/* 100 bits as 20 digits: with /krait/packages/ and /site/ in front of it, most links stay within the 59 bytes that
 * ext4 keeps in an inode. */
static void make_key(const unsigned char secret[32], const char *sha256, char ret_key[KR_PACKAGE_KEY_ROOM])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char hash[KR_PACKAGE_KEY_LEN];

    crypto_generichash(hash, sizeof hash, (const unsigned char *)sha256, strlen(sha256), secret, 32);
    for (size_t i = 0; i < KR_PACKAGE_KEY_LEN; i++)
        ret_key[i] = digits[hash[i] & 31];
    ret_key[KR_PACKAGE_KEY_LEN] = '\0';
}

int kr_package_store_lock(const struct kr_package_store *s, int kind)
{
    cleanup_fd int fd = openat(s->top, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : kr_package_flock(fd, kind, LOCK_MS);

    return r < 0 ? r : steal_fd(&fd);
}

/* ---- opening ---- */

/* Reads the key, or makes it: by a name of its own that is linked to `key`, so that another process reads all of it or
 * finds none. */
static int load_key(struct kr_package_store *s)
{
    for (int tries = 0; tries < 10; tries++) {
        cleanup_fd int fd = openat(s->top, "key", O_RDONLY | O_NOFOLLOW | O_CLOEXEC), fresh = -1;
        unsigned char key[32];
        char name[32];
        int r;

        if (fd >= 0)
            return kr_fd_read_all(fd, s->key, sizeof s->key) == 0 ? 0 : -EIO;
        if (errno != ENOENT)
            return -errno;
        randombytes_buf(key, sizeof key);
        snprintf(name, sizeof name, ".key-%08x", randombytes_random());
        fresh = openat(s->top, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        r = fresh < 0 ? -errno : kr_fd_write_all(fresh, key, sizeof key);
        if (r == 0 && fsync(fresh) < 0)
            r = -errno;
        if (r == 0 && renameat2(s->top, name, s->top, "key", RENAME_NOREPLACE) < 0)
            r = errno == EEXIST ? 0 : -errno;
        unlinkat(s->top, name, 0);
        if (r == 0 && fsync(s->top) < 0)
            r = -errno;
        if (r < 0)
            return r;
    }
    return -EIO;
}

static int open_folders(struct kr_package_store *s, int data)
{
    cleanup_fd int lock = -1;

    if ((s->top = kr_package_make_folder(data, "packages", 0711)) < 0)
        return s->top;
    if ((s->store = kr_package_make_folder(s->top, "store", 0711)) < 0)
        return s->store;
    if ((s->tmp = kr_package_make_folder(s->top, "tmp", 0700)) < 0)
        return s->tmp;
    if ((s->index = kr_package_make_folder(s->top, "index", 0700)) < 0)
        return s->index;
    lock = openat(s->top, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return lock < 0 ? -errno : load_key(s);
}

int kr_package_store_open(int data, struct kr_package_store **ret_store, struct kr_err *err)
{
    struct kr_package_store *s = calloc(1, sizeof *s);
    int r;

    if (!s || sodium_init() < 0) {
        free(s);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the store of packages");
    }
    s->top = s->store = s->tmp = s->index = -1;
    r = open_folders(s, data);
    if (r < 0) {
        kr_package_store_free(s);
        return kr_err_set_disk(err, r, "open the store of packages");
    }
    *ret_store = s;
    return 0;
}

void kr_package_store_free(struct kr_package_store *s)
{
    if (!s)
        return;
    kr_fd_close(s->index);
    kr_fd_close(s->tmp);
    kr_fd_close(s->store);
    kr_fd_close(s->top);
    sodium_memzero(s->key, sizeof s->key);
    free(s);
}

/* ---- asking ---- */

/* It was asked for now. */
static int touch(const struct kr_package_store *s, const char *key)
{
    cleanup_fd int fd = openat(s->index, key, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    return fd < 0 || futimens(fd, NULL) < 0 ? -errno : 0;
}

/* Is the folder there? Folders come by rename, whole. */
static int is_there(int store, const char *key)
{
    struct stat st;

    if (fstatat(store, key, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return S_ISDIR(st.st_mode) ? 1 : -ENOTDIR;
}

int kr_package_store_has(struct kr_package_store *s, const char *sha256, char ret_key[KR_PACKAGE_KEY_ROOM])
{
    char key[KR_PACKAGE_KEY_ROOM];
    cleanup_fd int lock = -1;
    int r;

    if (!is_sha256(sha256))
        return -EINVAL;
    make_key(s->key, sha256, key);
    if ((lock = kr_package_store_lock(s, LOCK_SH)) < 0)
        return lock;
    r = is_there(s->store, key);
    if (r > 0 && (r = touch(s, key)) == 0)
        r = 1;
    if (r > 0)
        memcpy(ret_key, key, sizeof key);
    return r;
}

json_t *kr_package_load_facts(int store, const char *key, int *ret_error)
{
    cleanup_fd int folder = kr_package_key_valid(key) ? kr_package_open_folder(store, key) : -ENOENT;

    if (folder < 0) {
        *ret_error = folder;
        return NULL;
    }
    return kr_package_read_json(folder, KR_PACKAGE_FACTS, ret_error);
}

/* A member that is text and fits; false if not. */
static bool take_text(const json_t *facts, const char *member, char *to, size_t room)
{
    const char *text = json_string_value(json_object_get(facts, member));

    if (!text || strlen(text) >= room)
        return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static int read_facts(int folders, const char *key, struct kr_package_facts *ret_facts)
{
    struct kr_package_facts f = {0};
    json_t *facts;
    bool whole;
    int r;

    facts = kr_package_load_facts(folders, key, &r);
    if (!facts)
        return r;
    f.bytes = (uint64_t)json_integer_value(json_object_get(facts, "bytes"));
    f.files = (uint32_t)json_integer_value(json_object_get(facts, "files"));
    whole = take_text(facts, "name", f.name, sizeof f.name) &&
            take_text(facts, "version", f.version, sizeof f.version) &&
            take_text(facts, "file", f.file, sizeof f.file) && take_text(facts, "sha256", f.sha256, sizeof f.sha256);
    json_decref(facts);
    if (!whole)
        return -EIO;
    *ret_facts = f;
    return 0;
}

int kr_package_store_facts(struct kr_package_store *s, const char *key, struct kr_package_facts *ret_facts)
{
    return read_facts(s->store, key, ret_facts);
}

int kr_package_own_facts(int env, const char *key, struct kr_package_facts *ret_facts)
{
    cleanup_fd int own = kr_package_open_folder(env, "own");

    return own < 0 ? own : read_facts(own, key, ret_facts);
}

/* ---- adding ---- */

static int hash_file(int fd, const volatile bool *stop, char ret_sha256[KR_SHA256_ROOM], struct kr_err *err)
{
    cleanup_free unsigned char *piece = malloc(HASH_PIECE);
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;

    if (!piece)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "hashing a wheel");
    crypto_hash_sha256_init(&state);
    for (uint64_t at = 0;;) {
        ssize_t n = kr_fd_read_at(fd, piece, HASH_PIECE, at);

        if (n < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, (int)-n, "cannot read the wheel");
        if (stop && *stop)
            return kr_err_set(err, KR_ERR_SYSTEM, ECANCELED, "adding a wheel");
        crypto_hash_sha256_update(&state, piece, (unsigned long long)n);
        at += (uint64_t)n;
        if ((size_t)n < HASH_PIECE)
            break;
    }
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(ret_sha256, KR_SHA256_ROOM, hash, sizeof hash);
    return 0;
}

static json_t *json_texts(size_t count, const char *const *texts)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

/* What could not be read again would be a folder that counts as empty. */
static int write_facts(int folder, const struct kr_wheel *w, const char *file_name, const char *sha256,
                       struct kr_err *err)
{
    const char *const *modules, *const *scripts, *const *spread;
    size_t module_count = kr_wheel_modules(w, &modules), script_count = kr_wheel_scripts(w, &scripts);
    size_t spread_count = kr_wheel_spread(w, &spread);
    json_t *facts =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:i, s:o, s:o, s:o}", "name", kr_wheel_title(w), "version",
                  kr_wheel_version(w), "file", file_name, "sha256", sha256, "bytes", (json_int_t)kr_wheel_bytes(w),
                  "files", (int)kr_wheel_files(w), "modules", json_texts(module_count, modules), "scripts",
                  json_texts(script_count, scripts), "spread", json_texts(spread_count, spread));
    cleanup_free char *text = facts ? json_dumps(facts, JSON_COMPACT) : NULL;
    int r;

    json_decref(facts);
    if (text && strlen(text) > KR_PACKAGE_JSON_MAX)
        return kr_err_set(err, KR_ERR_LIMIT, 0, "the names of the wheel's modules take more than %u bytes",
                          KR_PACKAGE_JSON_MAX),
               -E2BIG;
    r = text ? kr_package_write_file(folder, KR_PACKAGE_FACTS, text, strlen(text), true) : -ENOMEM;
    return r < 0 ? kr_err_set_disk(err, r, "unpack a wheel") : 0;
}

/* Fills a new folder and makes sure that all of it is on the disk. */
static int fill(int folder, struct kr_wheel *w, const char *file_name, const char *sha256, const volatile bool *stop,
                struct kr_err *err)
{
    int r = kr_wheel_unpack(w, folder, stop, err);

    if (r < 0)
        return r;
    if ((r = write_facts(folder, w, file_name, sha256, err)) < 0)
        return r;
    if ((fchmod(folder, 0755) < 0 && (r = -errno) < 0) || (syncfs(folder) < 0 && (r = -errno) < 0))
        return kr_err_set_disk(err, r, "unpack a wheel");
    return 0;
}

/* Makes `to`/KEY of the wheel, by way of a folder in `tmp`. 0 or -errno with err; -EEXIST without: another was
 * faster. */
static int unpack_to(int tmp, int to, const char *key, struct kr_wheel *w, const char *file_name, const char *sha256,
                     const volatile bool *stop, struct kr_err *err)
{
    cleanup_fd int folder = -1;
    char name[KR_PACKAGE_KEY_ROOM + 16];
    int r;

    snprintf(name, sizeof name, ".%s-%08x", key, randombytes_random());
    if (mkdirat(tmp, name, 0700) < 0 || (folder = kr_package_open_folder(tmp, name)) < 0)
        return kr_err_set_disk(err, folder < -1 ? folder : errno, "unpack a wheel");
    if (flock(folder, LOCK_EX | LOCK_NB) < 0) /* a sweep has it, which is about to remove it */
        return kr_err_set(err, KR_ERR_BUSY, EAGAIN, "the store of packages is being cleared");
    r = fill(folder, w, file_name, sha256, stop, err);
    if (r == 0 && renameat2(tmp, name, to, key, RENAME_NOREPLACE) < 0)
        r = errno == EEXIST ? -EEXIST : kr_err_set_disk(err, errno, "unpack a wheel");
    if (r == 0 && fsync(to) < 0)
        return kr_err_set_disk(err, errno, "unpack a wheel");
    if (r < 0)
        kr_package_remove(tmp, name); /* if it stays, a sweep finds it */
    return r;
}

static int add_new(struct kr_package_store *s, const char *key, int fd, const char *file_name, const char *sha256,
                   const struct kr_wheel_limits *limits, const volatile bool *stop, struct kr_err *err)
{
    struct kr_wheel *w;
    int r = kr_wheel_open(fd, file_name, limits, &w, err);

    if (r < 0)
        return r;
    r = unpack_to(s->tmp, s->store, key, w, file_name, sha256, stop, err);
    kr_wheel_free(w);
    return r == -EEXIST ? 0 : r;
}

int kr_package_store_add(struct kr_package_store *s, int fd, const char *file_name, const char *sha256,
                         const struct kr_wheel_limits *limits, const volatile bool *stop,
                         char ret_key[KR_PACKAGE_KEY_ROOM], struct kr_err *err)
{
    char found[KR_SHA256_ROOM], key[KR_PACKAGE_KEY_ROOM];
    int r;

    if (!is_sha256(sha256))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "the hash of %.100s is not a SHA-256", file_name);
    if ((r = hash_file(fd, stop, found, err)) < 0)
        return r;
    if (strcmp(found, sha256) != 0) {
        kr_err_set(err, KR_ERR_INVALID, 0, "%.60s has the hash %.16s…, not %.16s… as was said", file_name, found,
                   sha256);
        return -EBADMSG;
    }
    for (int tries = 0; tries < 2; tries++) { /* twice: a sweep may take what was there a moment ago */
        r = kr_package_store_has(s, sha256, ret_key);
        if (r > 0)
            return 0;
        if (r < 0)
            return kr_err_set_disk(err, r, "look into the store of packages");
        make_key(s->key, sha256, key);
        if ((r = touch(s, key)) < 0)
            return kr_err_set_disk(err, r, "write to the store of packages");
        if ((r = add_new(s, key, fd, file_name, sha256, limits, stop, err)) < 0)
            return r;
    }
    r = kr_package_store_has(s, sha256, ret_key);
    return r > 0 ? 0 : kr_err_set_disk(err, r < 0 ? r : ENOENT, "keep a wheel in the store of packages");
}

int kr_package_own_add(int env, int fd, const char *file_name, const struct kr_wheel_limits *limits,
                       const volatile bool *stop, char ret_key[KR_PACKAGE_KEY_ROOM], char ret_sha256[KR_SHA256_ROOM],
                       struct kr_err *err)
{
    static const unsigned char no_secret[32] = {0}; /* the folder is the sandbox's alone: its names are no secret */
    cleanup_fd int own = kr_package_make_folder(env, "own", 0755);
    char key[KR_PACKAGE_KEY_ROOM], sha256[KR_SHA256_ROOM];
    struct kr_wheel *w;
    int r;

    if (own < 0)
        return kr_err_set_disk(err, own, "make a folder for built packages");
    if ((r = hash_file(fd, stop, sha256, err)) < 0)
        return r;
    make_key(no_secret, sha256, key);
    if ((r = is_there(own, key)) < 0)
        return kr_err_set_disk(err, r, "look for a built package");
    if (r == 0) {
        if ((r = kr_wheel_open(fd, file_name, limits, &w, err)) < 0)
            return r;
        r = unpack_to(own, own, key, w, file_name, sha256, stop, err);
        kr_wheel_free(w);
        if (r < 0 && r != -EEXIST)
            return r;
    }
    memcpy(ret_key, key, sizeof key);
    memcpy(ret_sha256, sha256, sizeof sha256);
    return 0;
}

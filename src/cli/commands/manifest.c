/* See manifest.h. Called by cmd_backup.c and cmd_verify.c, as the user who makes the backup.
 *
 * Invariant: the list is written when every file that it names is on the disk; a backup without it, or with one whose
 * own hash is wrong, is none. Hashes are BLAKE2b-256: they are against damage, and against nobody's intent. */
#include "manifest.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASH_BYTES 32u
#define HASH_TEXT (2 * HASH_BYTES + 1)
#define PIECE (256u << 10)
#define SAY_EVERY 1000u

bool kr_manifest_may_say(void)
{
    return isatty(STDERR_FILENO) == 1;
}

static void hash_text(const void *data, size_t len, char ret[static HASH_TEXT])
{
    unsigned char hash[HASH_BYTES];

    crypto_generichash(hash, sizeof hash, data, len, NULL, 0);
    sodium_bin2hex(ret, HASH_TEXT, hash, sizeof hash);
}

static int hash_file(const char *path, char ret[static HASH_TEXT], uint64_t *ret_size)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    static unsigned char piece[PIECE];
    unsigned char hash[HASH_BYTES];
    crypto_generichash_state state;
    ssize_t n;

    if (fd < 0)
        return -errno;
    *ret_size = 0;
    crypto_generichash_init(&state, NULL, 0, sizeof hash);
    while ((n = read(fd, piece, sizeof piece)) != 0) {
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            crypto_generichash_update(&state, piece, (unsigned long long)n);
        *ret_size += n > 0 ? (uint64_t)n : 0;
    }
    crypto_generichash_final(&state, hash, sizeof hash);
    sodium_bin2hex(ret, HASH_TEXT, hash, sizeof hash);
    return 0;
}

/* One byte of a path as it is in a line. Returns how many there are of it. */
static size_t escape(unsigned char c, char ret[static 3])
{
    static const char hex[] = "0123456789abcdef";

    ret[0] = (char)c;
    if (c > ' ' && c != '%' && c != 0x7f)
        return 1;
    ret[0] = '%';
    ret[1] = hex[c >> 4];
    ret[2] = hex[c & 15];
    return 3;
}

static void add_path(struct kr_buf *out, const char *path)
{
    char escaped[3];

    for (; *path; path++)
        kr_buf_add(out, escaped, escape((unsigned char)*path, escaped));
    kr_buf_add(out, "\n", 1);
}

static int add_entry(const FTSENT *e, const char *path, struct kr_buf *out)
{
    char hash[HASH_TEXT] = "-", target[4096], line[HASH_TEXT + 40];
    uint64_t size = 0;
    ssize_t n;
    int r = 0;
    char type = e->fts_info == FTS_D ? 'd' : e->fts_info == FTS_F ? 'f' : e->fts_info == FTS_SL ? 'l' : 'o';

    if (e->fts_info == FTS_SLNONE)
        type = 'l';
    if (type == 'f') {
        r = hash_file(e->fts_accpath, hash, &size);
    } else if (type == 'l') {
        n = readlink(e->fts_accpath, target, sizeof target);
        size = n < 0 ? 0 : (uint64_t)n;
        if (n >= 0)
            hash_text(target, (size_t)n, hash);
        r = n < 0 ? -errno : 0;
    }
    if (r < 0)
        return r;
    snprintf(line, sizeof line, "%c %s %llu ", type, hash, (unsigned long long)size);
    kr_buf_add(out, line, strlen(line));
    add_path(out, path);
    return out->failed;
}

/* In the order of the lines, whose bytes may be escaped. */
static int by_name(const FTSENT **a, const FTSENT **b)
{
    const char *x = (*a)->fts_name, *y = (*b)->fts_name;
    char ex[3], ey[3];

    for (; *x && *x == *y; x++, y++)
        ;
    if (!*x || !*y)
        return *x ? 1 : *y ? -1 : 0;
    (void)escape((unsigned char)*x, ex);
    (void)escape((unsigned char)*y, ey);
    if (ex[0] != ey[0])
        return (unsigned char)ex[0] - (unsigned char)ey[0];
    return (unsigned char)*x - (unsigned char)*y; /* both are escaped: their digits have the same order */
}

static int walk(FTS *fts, size_t skip, struct kr_buf *out, bool says, struct kr_err *err)
{
    unsigned long count = 0;
    FTSENT *e;
    int r = 0;

    while (r >= 0 && (errno = 0, e = fts_read(fts))) {
        const char *path = e->fts_path + skip;

        if (e->fts_level == 0 || e->fts_info == FTS_DP || strcmp(path, KR_MANIFEST) == 0)
            continue;
        if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS)
            r = kr_err_set(err, KR_ERR_SYSTEM, e->fts_errno, "read %.180s", e->fts_path);
        else if ((r = add_entry(e, path, out)) < 0)
            r = kr_err_set(err, KR_ERR_SYSTEM, -r, "read %.180s", e->fts_path);
        if (says && ++count % SAY_EVERY == 0)
            fprintf(stderr, "\r%lu files read", count);
    }
    if (says && count >= SAY_EVERY)
        fprintf(stderr, "\r\033[K");
    if (r >= 0 && errno != 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "read the files of the backup");
    return r;
}

int kr_manifest_make(const char *dir, struct kr_buf *ret, bool says, struct kr_err *err)
{
    char *const paths[] = {(char *)dir, NULL};
    size_t len = strlen(dir);
    FTS *fts;
    int r;

    if (sodium_init() < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, EIO, "libsodium cannot start");
    fts = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW, by_name);
    if (!fts)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "read %.180s", dir);
    r = walk(fts, len > 0 && dir[len - 1] == '/' ? len : len + 1, ret, says, err); /* fts puts no second slash */
    fts_close(fts);
    return r;
}

/* ---- the file ---- */

int kr_manifest_write(const char *dir, const char *head, const struct kr_buf *lines, struct kr_err *err)
{
    cleanup_buf struct kr_buf all;
    cleanup_fd int fd = -1, folder = -1;
    char path[4200], hash[HASH_TEXT];
    int r;

    kr_buf_init(&all, KR_MANIFEST_MAX);
    kr_buf_add(&all, head, strlen(head));
    if (lines->len > 0)
        kr_buf_add(&all, lines->data, lines->len);
    hash_text(all.data, all.len, hash);
    kr_buf_add(&all, "end ", 4);
    kr_buf_add(&all, hash, strlen(hash));
    kr_buf_add(&all, "\n", 1);
    if (all.failed)
        return kr_err_set(err, KR_ERR_SYSTEM, -all.failed, "the list of the backup");
    snprintf(path, sizeof path, "%s/" KR_MANIFEST, dir);
    folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || folder < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make %.180s", path);
    r = syncfs(folder) < 0 ? -errno : kr_fd_write_all(fd, all.data, all.len);
    if (r >= 0 && (fsync(fd) < 0 || fsync(folder) < 0))
        r = -errno;
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "write %.180s", path) : 0;
}

int kr_manifest_read(const char *dir, struct kr_buf *ret, const char **ret_lines, struct kr_err *err)
{
    char path[4200], piece[65536], hash[HASH_TEXT];
    cleanup_fd int fd = -1;
    const char *end = NULL;
    ssize_t n;

    snprintf(path, sizeof path, "%s/" KR_MANIFEST, dir);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return kr_err_set(err, errno == ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_SYSTEM, errno,
                          "%.150s is no complete backup: %s", dir, KR_MANIFEST);
    while ((n = read(fd, piece, sizeof piece)) > 0)
        if (kr_buf_add(ret, piece, (size_t)n) < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, -ret->failed, "read %.180s", path);
    if (n < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "read %.180s", path);
    if (sodium_init() < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, EIO, "libsodium cannot start");
    if (ret->len > HASH_TEXT + 5)
        end = kr_buf_str(ret) + ret->len - (4 + HASH_TEXT);
    if (end)
        hash_text(ret->data, (size_t)(end - ret->data), hash);
    *ret_lines = end ? strstr(ret->data, "\n\n") : NULL;
    if (!end || strncmp(end, "end ", 4) != 0 || strncmp(end + 4, hash, HASH_TEXT - 1) != 0 || !*ret_lines) {
        kr_err_set(err, KR_ERR_SYSTEM, 0, "%.180s is damaged: its own hash is wrong", path);
        return -EUCLEAN;
    }
    *ret_lines += 2;
    ret->data[end - ret->data] = '\0'; /* the lines end here */
    return 0;
}

/* ---- comparing ---- */

struct line {
    const char *text, *path;
    size_t len, path_len;
};

/* The line at *at, which moves behind it; false at the end. */
static bool next_line(const char **at, struct line *ret)
{
    size_t len = strcspn(*at, "\n"), blanks = 0, i = 0;

    if (len == 0)
        return false;
    for (; i < len && blanks < 3; i++)
        blanks += (*at)[i] == ' ';
    *ret = (struct line){.text = *at, .len = len, .path = *at + i, .path_len = len - i};
    *at += len + ((*at)[len] == '\n');
    return true;
}

/* As the walk has them: a folder's own entries before its neighbour's. */
static int compare_paths(const struct line *a, const struct line *b)
{
    for (size_t i = 0;; i++) {
        int x = i < a->path_len ? a->path[i] == '/' ? 1 : 2 + (unsigned char)a->path[i] : 0;
        int y = i < b->path_len ? b->path[i] == '/' ? 1 : 2 + (unsigned char)b->path[i] : 0;

        if (x != y || x == 0)
            return x - y;
    }
}

size_t kr_manifest_compare(const char *listed, const char *found,
                           void (*fn)(void *data, const char *what, const char *path, size_t len), void *data)
{
    struct line a, b;
    bool has_a = next_line(&listed, &a), has_b = next_line(&found, &b);
    size_t count = 0;

    while (has_a || has_b) {
        int order = !has_a ? 1 : !has_b ? -1 : compare_paths(&a, &b);
        bool same = order == 0 && a.len == b.len && memcmp(a.text, b.text, a.len) == 0;

        if (!same) {
            const struct line *l = order > 0 ? &b : &a;

            fn(data, order == 0 ? "changed" : order < 0 ? "missing" : "unknown", l->path, l->path_len);
            count++;
        }
        if (order <= 0)
            has_a = next_line(&listed, &a);
        if (order >= 0)
            has_b = next_line(&found, &b);
    }
    return count;
}

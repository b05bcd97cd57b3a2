/* Writing a wheel's files. See wheel.h.
 *
 * The folder is new and only this writes to it, and no link is ever made in it: paths can be used as they are. Each
 * file is new (O_EXCL); its bytes are checked against the archive's CRC and RECORD's hash as they are written. */
#include "buf.h"
#include "err.h"
#include "fd.h"
#include "wheel_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PYTHON "/venv/bin/python" /* as cells see it */
#define SHEBANG_MAX 256u
#define RECORD_MAX (64u << 20)
#define SPREAD_MAX 4096u
#define ORIGIN "$ORIGIN"
#define ORIGIN_ROOM 512u /* longest text after which a $ORIGIN is looked at */
#define ORIGINS_MAX 64u  /* of one library that are looked at: each may read the names of all files */

/* One file on its way: the first line of a script waits, a shared library's texts are looked at. */
struct writing {
    struct kr_wheel *w;
    const struct kr_wheel_file *file;
    int fd;
    crypto_hash_sha256_state hash;
    bool script; /* its first line is still to come */
    char first[SHEBANG_MAX];
    size_t first_len;
    bool library, spread;
    unsigned origins;
    const volatile bool *stop;
    char seen[ORIGIN_ROOM + 8]; /* the last bytes of what came before */
    size_t seen_len;
    struct kr_err *err;
};

static int no_memory(struct kr_err *err)
{
    return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "unpacking a wheel");
}

static int check_stop(const volatile bool *stop, struct kr_err *err)
{
    return stop && *stop ? kr_err_set(err, KR_ERR_SYSTEM, ECANCELED, "unpacking a wheel") : 0;
}

/* ---- libraries that look for others outside of their wheel ---- */

/* Is there a folder `path` below site/ in this wheel? Files are in order of names, which is not that of paths; few
 * wheels ask, and rarely. */
static bool has_folder(const struct kr_wheel *w, const char *path)
{
    size_t len = strlen(path);

    for (uint32_t i = 0; i < w->file_count; i++) {
        const struct kr_wheel_file *f = &w->files[i];

        if (f->place == KR_WHEEL_SITE && strncmp(f->path + 5, path, len) == 0 && f->path[5 + len] == '/')
            return true;
    }
    return false;
}

/* `text` follows $ORIGIN in a library whose folder is `folder`: does it lead to a folder that this wheel lacks? In an
 * environment that one may come from another wheel, beside this. */
static bool leads_out(const struct kr_wheel *w, const char *folder, const char *text)
{
    char path[KR_ZIP_NAME_MAX + ORIGIN_ROOM + 2];
    size_t len = strlen(folder);

    memcpy(path, folder, len + 1);
    while (*text == '/') {
        size_t n;

        text += strspn(text, "/");
        n = strcspn(text, "/:");
        if (n == 2 && strncmp(text, "..", 2) == 0) {
            char *slash = strrchr(path, '/');

            if (len == 0)
                return false; /* past site-packages: not to another wheel */
            len = slash ? (size_t)(slash - path) : 0;
            path[len] = '\0';
        } else if (n > 0 && !(n == 1 && *text == '.')) {
            if (len + n + 2 > sizeof path)
                return false;
            len += (size_t)snprintf(path + len, sizeof path - len, "%s%.*s", len ? "/" : "", (int)n, text);
        }
        text += n;
    }
    return len == 0 || !has_folder(w, path);
}

static void look_for_origin(struct writing *wr, const char *bytes, size_t len, bool is_end)
{
    const char *at = bytes, *end = bytes + len, *path = wr->file->path + 5;
    const char *slash = strrchr(path, '/');
    char folder[KR_ZIP_NAME_MAX + 1], text[ORIGIN_ROOM];

    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 0, path);
    while (!wr->spread && wr->origins < ORIGINS_MAX && (at = memmem(at, (size_t)(end - at), ORIGIN, strlen(ORIGIN)))) {
        size_t left = (size_t)(end - at) - strlen(ORIGIN);

        if (left < sizeof text && !is_end)
            return; /* with the next bytes */
        at += strlen(ORIGIN);
        snprintf(text, sizeof text, "%.*s", (int)(left < sizeof text ? left : sizeof text - 1), at);
        text[strcspn(text, ":")] = '\0';
        wr->spread = leads_out(wr->w, folder, text);
        wr->origins++;
    }
}

/* Pieces are looked at together with the end of the one before. */
static int look_at_library(struct writing *wr, const char *bytes, size_t len, bool is_end)
{
    cleanup_free char *both = malloc(wr->seen_len + len + 1);
    size_t all = wr->seen_len + len;

    if (!both)
        return no_memory(wr->err);
    memcpy(both, wr->seen, wr->seen_len);
    memcpy(both + wr->seen_len, bytes, len);
    look_for_origin(wr, both, all, is_end);
    wr->seen_len = all < sizeof wr->seen ? all : sizeof wr->seen;
    memcpy(wr->seen, both + all - wr->seen_len, wr->seen_len);
    return 0;
}

/* ---- one file ---- */

static int put(struct writing *wr, const void *bytes, size_t len)
{
    int r = kr_fd_write_all(wr->fd, bytes, len);

    return r < 0 ? kr_err_set_disk(wr->err, r, "unpack a wheel") : 0;
}

/* The first line of a script is complete, or there is none: "#!python -s" becomes "#!/venv/bin/python -s". */
static int put_first(struct writing *wr)
{
    const char *line = wr->first;
    size_t len = wr->first_len, skip;
    int r = 0;

    wr->script = false;
    if (len >= 8 && memcmp(line, "#!python", 8) == 0) {
        skip = len >= 9 && line[8] == 'w' ? 9 : 8;
        if ((r = put(wr, "#!" PYTHON, strlen("#!" PYTHON))) < 0)
            return r;
        line += skip;
        len -= skip;
    }
    return put(wr, line, len);
}

static int take_piece(void *data, const void *bytes, size_t len)
{
    struct writing *wr = data;
    const char *at = bytes;
    int r = check_stop(wr->stop, wr->err); /* a file may have gigabytes */

    if (r < 0)
        return r;
    crypto_hash_sha256_update(&wr->hash, bytes, len);
    if (wr->library && (r = look_at_library(wr, at, len, false)) < 0)
        return r;
    while (wr->script && len > 0) {
        wr->first[wr->first_len++] = *at;
        len--;
        if ((*at++ == '\n' || wr->first_len == sizeof wr->first) && (r = put_first(wr)) < 0)
            return r;
    }
    return put(wr, at, len);
}

static int wrong_hash(const struct kr_wheel_file *f, struct kr_err *err)
{
    char shown[KR_ZIP_SHOWN_ROOM];

    kr_err_set(err, KR_ERR_INVALID, 0, "the wheel's %s has another hash than RECORD says",
               kr_zip_show(f->entry->name, strlen(f->entry->name), shown));
    return -EBADMSG;
}

/* Is it a shared library, by its name: x.so, x.so.1? */
static bool is_library(const char *path)
{
    const char *slash = strrchr(path, '/'), *so = strstr(slash ? slash : path, ".so");

    return so && (so[3] == '\0' || so[3] == '.');
}

static int write_contents(struct writing *wr, struct kr_err *err)
{
    unsigned char hash[KR_SHA256_SIZE];
    int r = kr_zip_read(&wr->w->zip, wr->file->entry, take_piece, wr, err);

    if (r == 0 && wr->library)
        r = look_at_library(wr, "", 0, true);
    if (r == 0 && wr->script)
        r = put_first(wr);
    if (r < 0)
        return r;
    crypto_hash_sha256_final(&wr->hash, hash);
    return sodium_memcmp(hash, wr->file->hash, sizeof hash) == 0 ? 0 : wrong_hash(wr->file, err);
}

/* Adds the folder of a library to those that environments make themselves. */
static int note_spread(struct kr_wheel *w, const char *path, struct kr_err *err)
{
    const char *slash = strrchr(path, '/');

    if (!slash || w->spread.count >= SPREAD_MAX) /* at the top of site/: that is always made */
        return 0;
    return kr_texts_add(&w->spread, path, (size_t)(slash - path)) < 0 ? no_memory(err) : 0;
}

static int write_file(struct kr_wheel *w, const struct kr_wheel_file *f, int folder, const volatile bool *stop,
                      struct kr_err *err)
{
    cleanup_fd int fd = openat(folder, f->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct writing wr = {.w = w, .file = f, .fd = fd, .stop = stop, .err = err};
    int r;

    if (fd < 0)
        return kr_err_set_disk(err, errno, "unpack a wheel");
    wr.script = f->place == KR_WHEEL_BIN;
    wr.library = f->place == KR_WHEEL_SITE && is_library(f->path);
    crypto_hash_sha256_init(&wr.hash);
    if ((r = write_contents(&wr, err)) < 0)
        return r;
    if (wr.spread && (r = note_spread(w, f->path + 5, err)) < 0)
        return r;
    if (fchmod(fd, f->place == KR_WHEEL_BIN || f->entry->executable ? 0755 : 0644) < 0)
        return kr_err_set_disk(err, errno, "unpack a wheel");
    return 0;
}

/* A file of ours. */
static int write_text(int folder, const char *path, const char *text, size_t len, mode_t mode, struct kr_err *err)
{
    cleanup_fd int fd = openat(folder, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : kr_fd_write_all(fd, text, len);

    if (r == 0 && fchmod(fd, mode) < 0)
        r = -errno;
    return r < 0 ? kr_err_set_disk(err, r, "unpack a wheel") : 0;
}

/* ---- folders ---- */

static int make_folder(int folder, const char *path, struct kr_err *err)
{
    if (mkdirat(folder, path, 0700) < 0)
        return errno == EEXIST ? 0 : kr_err_set_disk(err, errno, "unpack a wheel");
    return fchmodat(folder, path, 0755, 0) < 0 ? kr_err_set_disk(err, errno, "unpack a wheel") : 0;
}

/* The folders that `path` lies in; those that it shares with the path before are there. */
static int make_parents(int folder, const char *path, const char *before, struct kr_err *err)
{
    char part[KR_ZIP_NAME_MAX + 160];
    size_t same = 0;
    int r;

    while (before[same] && before[same] == path[same])
        same++;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - path);

        if (len < same)
            continue;
        if (len >= sizeof part)
            return kr_err_set(err, KR_ERR_SYSTEM, ENAMETOOLONG, "unpacking a wheel");
        memcpy(part, path, len);
        part[len] = '\0';
        if ((r = make_folder(folder, part, err)) < 0)
            return r;
    }
    return 0;
}

/* ---- what the wheel does not have ---- */

static int write_command(const struct kr_wheel_point *p, int folder, struct kr_err *err)
{
    cleanup_free char *text = NULL;
    char path[300];
    size_t first = strcspn(p->attribute, ".");
    int n = asprintf(&text,
                     "#!" PYTHON "\n"
                     "import sys\n"
                     "from %s import %.*s\n"
                     "if __name__ == \"__main__\":\n"
                     "    sys.exit(%s())\n",
                     p->module, (int)first, p->attribute, p->attribute);

    if (n < 0) {
        text = NULL;
        return no_memory(err);
    }
    snprintf(path, sizeof path, "bin/%s", p->name);
    return write_text(folder, path, text, (size_t)n, 0755, err);
}

/* A path in the form of CSV: in quotes where it has a comma or a quote. */
static int add_csv(struct kr_buf *b, const char *path)
{
    if (!strpbrk(path, ",\""))
        return kr_buf_add_str(b, path);
    kr_buf_add_str(b, "\"");
    for (; *path; path++)
        kr_buf_add(b, *path == '"' ? "\"\"" : path, *path == '"' ? 2 : 1);
    return kr_buf_add_str(b, "\"");
}

/* RECORD as an installer leaves it: where the files are now. What we have written or changed has no hash. */
static int write_record(const struct kr_wheel *w, int folder, struct kr_err *err)
{
    struct kr_buf b cleanup_buf;
    char path[KR_ZIP_NAME_MAX + 64], hash[64];
    int r;

    kr_buf_init(&b, RECORD_MAX);
    for (uint32_t i = 0; i < w->file_count; i++) {
        const struct kr_wheel_file *f = &w->files[i];

        if (f->place == KR_WHEEL_LEFT_OUT || f->place == KR_WHEEL_HEADERS)
            continue;
        sodium_bin2base64(hash, sizeof hash, f->hash, sizeof f->hash, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
        if (f->place == KR_WHEEL_SITE) {
            add_csv(&b, f->path + 5);
            kr_buf_printf(&b, ",sha256=%s,%llu\n", hash, (unsigned long long)f->entry->bytes);
        } else { /* lib/pythonX.Y/site-packages is three folders down */
            kr_buf_add_str(&b, "../../../");
            add_csv(&b, f->place == KR_WHEEL_DATA ? f->path + 5 : f->path);
            kr_buf_add_str(&b, ",,\n");
        }
    }
    for (size_t i = 0; i < w->point_count; i++)
        kr_buf_printf(&b, "../../../bin/%s,,\n", w->points[i].name);
    add_csv(&b, w->info);
    kr_buf_add_str(&b, "/INSTALLER,,\n");
    add_csv(&b, w->info);
    r = kr_buf_add_str(&b, "/RECORD,,\n");
    if (r < 0)
        return kr_err_set(err, KR_ERR_LIMIT, -r, "the RECORD of a wheel");
    snprintf(path, sizeof path, "site/%s/RECORD", w->info);
    if ((r = write_text(folder, path, b.data, b.len, 0644, err)) < 0)
        return r;
    snprintf(path, sizeof path, "site/%s/INSTALLER", w->info);
    return write_text(folder, path, "krait\n", 6, 0644, err);
}

static int write_ours(const struct kr_wheel *w, int folder, struct kr_err *err)
{
    int r;

    if (w->point_count > 0 && (r = make_folder(folder, "bin", err)) < 0)
        return r;
    for (size_t i = 0; i < w->point_count; i++)
        if ((r = write_command(&w->points[i], folder, err)) < 0)
            return r;
    return write_record(w, folder, err);
}

int kr_wheel_unpack(struct kr_wheel *w, int folder, const volatile bool *stop, struct kr_err *err)
{
    const char *before = "";
    int r;

    for (uint32_t i = 0; i < w->file_count; i++) {
        const struct kr_wheel_file *f = &w->files[i];

        if ((r = check_stop(stop, err)) < 0)
            return r;
        if (!f->path)
            continue;
        if ((r = make_parents(folder, f->path, before, err)) < 0 || (r = write_file(w, f, folder, stop, err)) < 0)
            return r;
        before = f->path;
    }
    kr_texts_settle(&w->spread);
    return write_ours(w, folder, err);
}

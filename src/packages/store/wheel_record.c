/* RECORD of a wheel: a line for each file, with its SHA-256 and size. Hostile. See wheel_internal.h.
 *
 * Invariant: when this has succeeded, each file that will be unpacked has exactly one line, and each line a file. */
#include "err.h"
#include "wheel_internal.h"
#include <errno.h>
#include <string.h>

#define HASH_WORD "sha256="
#define HASH_DIGITS 43u /* of 32 bytes in base64 without padding */

struct fields {
    char path[KR_ZIP_NAME_MAX + 2];
    size_t path_len;
    const char *hash, *size;
    size_t hash_len, size_len;
};

static int refuse(struct kr_err *err, const char *name, size_t len, const char *what)
{
    char shown[KR_ZIP_SHOWN_ROOM];

    kr_err_set(err, KR_ERR_INVALID, 0, "the wheel's RECORD: %s %s", kr_zip_show(name, len, shown), what);
    return -EINVAL;
}

/* The first field, which may be in quotes. Where it ends in the line, or 0: it is none. */
static size_t read_path(const char *line, size_t len, struct fields *f)
{
    bool quoted = len > 0 && line[0] == '"';
    size_t at = quoted;

    f->path_len = 0;
    for (;; at++) {
        if (quoted ? at >= len : at >= len || line[at] == ',')
            break;
        if (line[at] == '"') {
            if (!quoted)
                return 0;
            if (at + 1 >= len || line[at + 1] != '"')
                break;
            at++;
        }
        if (f->path_len > KR_ZIP_NAME_MAX)
            return 0;
        f->path[f->path_len++] = line[at];
    }
    f->path[f->path_len] = '\0';
    if (quoted && (at >= len || line[at++] != '"'))
        return 0;
    return f->path_len > 0 && at < len && line[at] == ',' ? at : 0;
}

static bool read_fields(const char *line, size_t len, struct fields *f)
{
    size_t at = read_path(line, len, f);
    const char *comma;

    if (at == 0)
        return false;
    f->hash = line + at + 1;
    comma = memchr(f->hash, ',', len - at - 1);
    if (!comma)
        return false;
    f->hash_len = (size_t)(comma - f->hash);
    f->size = comma + 1;
    f->size_len = len - (size_t)(f->size - line);
    return !memchr(f->size, ',', f->size_len) && !memchr(f->hash, '"', f->hash_len) &&
           !memchr(f->size, '"', f->size_len);
}

/* The digits of base64 for URLs, exactly those of 32 bytes. */
static bool read_hash(const char *text, size_t len, unsigned char hash[KR_SHA256_SIZE])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned bits = 0, have = 0;
    size_t out = 0;

    if (len != strlen(HASH_WORD) + HASH_DIGITS || strncmp(text, HASH_WORD, strlen(HASH_WORD)) != 0)
        return false;
    for (size_t i = strlen(HASH_WORD); i < len; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

        if (!digit)
            return false;
        bits = bits << 6 | (unsigned)(digit - digits);
        have += 6;
        if (have >= 8) {
            have -= 8;
            hash[out++] = (unsigned char)(bits >> have);
            bits &= (1u << have) - 1;
        }
    }
    return bits == 0; /* those that are left over say nothing, and must */
}

static bool size_fits(const struct fields *f, uint64_t bytes)
{
    uint64_t size = 0;

    if (f->size_len == 0)
        return true;
    if (f->size_len > 18)
        return false;
    for (size_t i = 0; i < f->size_len; i++) {
        if (f->size[i] < '0' || f->size[i] > '9')
            return false;
        size = size * 10 + (uint64_t)(f->size[i] - '0');
    }
    return size == bytes;
}

/* RECORD itself and its signatures have no hash in it. */
static bool has_no_hash(const struct kr_wheel *w, const char *name)
{
    size_t info = strlen(w->info);

    if (strncmp(name, w->info, info) != 0 || name[info] != '/')
        return false;
    name += info + 1;
    return strcmp(name, "RECORD") == 0 || strcmp(name, "RECORD.jws") == 0 || strcmp(name, "RECORD.p7s") == 0;
}

static int read_line(struct kr_wheel *w, const char *line, size_t len, struct kr_err *err)
{
    struct fields f;
    struct kr_wheel_file *file;

    if (!read_fields(line, len, &f))
        return refuse(err, line, len, "is not PATH,HASH,SIZE");
    file = kr_wheel_find(w, f.path, f.path_len);
    if (!file || file->entry->folder)
        return refuse(err, f.path, f.path_len, "is not in the archive");
    if (has_no_hash(w, file->entry->name))
        return 0;
    if (file->recorded)
        return refuse(err, f.path, f.path_len, "has two lines");
    if (f.hash_len == 0)
        return refuse(err, f.path, f.path_len, "has no hash");
    if (!read_hash(f.hash, f.hash_len, file->hash))
        return refuse(err, f.path, f.path_len, "has a hash other than sha256=… of 43 digits");
    if (!size_fits(&f, file->entry->bytes))
        return refuse(err, f.path, f.path_len, "has another size in the archive");
    file->recorded = true;
    return 0;
}

int kr_wheel_read_record(struct kr_wheel *w, const char *text, size_t len, struct kr_err *err)
{
    for (size_t at = 0; at < len;) {
        const char *newline = memchr(text + at, '\n', len - at);
        size_t n = newline ? (size_t)(newline - text) - at : len - at;
        size_t whole = n;
        int r;

        if (n > 0 && text[at + n - 1] == '\r')
            n--;
        if (n > 0 && (r = read_line(w, text + at, n, err)) < 0)
            return r;
        at += whole + 1;
    }
    for (uint32_t i = 0; i < w->file_count; i++) {
        const struct kr_wheel_file *f = &w->files[i];

        if (!f->entry->folder && !f->recorded && !has_no_hash(w, f->entry->name))
            return refuse(err, f->entry->name, strlen(f->entry->name), "is in the archive and has no line");
    }
    return 0;
}

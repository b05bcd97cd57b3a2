/* Names of an archive, one by one and beside each other. See path_list.h. */
#include "path_list.h"
#include "err.h"
#include "fd.h"
#include "utf8.h"
#include "zip_read.h"
#include <errno.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#define PART_MAX 255u /* bytes: what filesystems take */

/* Characters that have another spelling in Unicode's normal forms, or that cannot be seen: two names could look alike
 * and be different, or be different here and the same on another filesystem. */
static const struct {
    uint32_t first, last;
} ambiguous[] = {
    {0x0080, 0x00a0},                                     /* controls, the blank that is none */
    {0x00ad, 0x00ad},                                     /* soft hyphen */
    {0x0300, 0x036f},                                     /* combining marks: the decomposed forms */
    {0x037e, 0x037e}, {0x0387, 0x0387}, {0x1100, 0x11ff}, /* parts of Hangul syllables */
    {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x1f71, 0x1fff}, /* Greek with two forms */
    {0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x206f}, /* blanks, joiners, directions */
    {0x20d0, 0x20ff}, {0x2126, 0x2126}, {0x212a, 0x212b}, {0x3099, 0x309a}, {0xd7b0, 0xd7ff},   {0xf900, 0xfb4f},
    {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0xfff0, 0xffff}, {0x2f800, 0x2fa1f}, {0xe0000, 0xe0fff},
};

static bool is_ambiguous(uint32_t c)
{
    for (size_t i = 0; i < sizeof ambiguous / sizeof *ambiguous; i++)
        if (c >= ambiguous[i].first && c <= ambiguous[i].last)
            return true;
    return false;
}

static const char *part_flaw(const char *part, size_t len)
{
    if (len == 0)
        return "has an empty part";
    if (len > PART_MAX)
        return "has a part that is longer than 255 bytes";
    if (part[0] == '.' && (len == 1 || (len == 2 && part[1] == '.')))
        return "has a part that is . or ..";
    return NULL;
}

static const char *character_flaw(const char *name, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        int n = kr_utf8_next((const unsigned char *)name + i, len - i, &c);

        if (n <= 0)
            return "is not UTF-8";
        if (c < 0x20 || c == 0x7f)
            return "has a control character";
        if (c == '\\')
            return "has a backslash";
        if (is_ambiguous(c))
            return "has a character that is invisible or has a second spelling";
        i += (size_t)n;
    }
    return NULL;
}

const char *kr_path_flaw(const char *name, size_t len)
{
    unsigned depth = 0;
    const char *flaw;

    if (len == 0)
        return "is empty";
    if (len > KR_ZIP_NAME_MAX)
        return "is longer than 1024 bytes";
    if (name[0] == '/')
        return "is absolute";
    if ((flaw = character_flaw(name, len)))
        return flaw;
    for (size_t at = 0, end; at <= len; at = end + 1) {
        const char *slash = memchr(name + at, '/', len - at);

        end = slash ? (size_t)(slash - name) : len;
        if ((flaw = part_flaw(name + at, end - at)))
            return flaw;
        if (++depth > KR_ZIP_DEPTH_MAX)
            return "lies more than 64 folders deep";
    }
    return NULL;
}

/* ---- beside each other ---- */

struct folded {
    char *key; /* the path in lower case, \1 for its slashes so that what is in a folder follows it at once */
    const struct kr_path_item *item;
};

/* Up and down again, so that letters with two lower-case forms (sigma, the long s) become one. */
static uint32_t lower(uint32_t c, locale_t loc)
{
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    return loc == (locale_t)0 ? c : (uint32_t)towlower_l(towupper_l((wint_t)c, loc), loc);
}

/* Returns the end of what it wrote: at most twice the length, since no letter of two bytes or more takes over four. */
static char *fold(const char *path, char *out, locale_t loc)
{
    size_t len = strlen(path);

    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        int n = kr_utf8_next((const unsigned char *)path + i, len - i, &c);

        if (n <= 0) { /* was refused before; kept as it is */
            *out++ = path[i++];
            continue;
        }
        out += kr_utf8_put(c == '/' ? 1 : lower(c, loc), out);
        i += (size_t)n;
    }
    *out++ = '\0';
    return out;
}

static int by_key(const void *a, const void *b)
{
    const struct folded *x = a, *y = b;
    int r = strcmp(x->key, y->key);

    return r ? r : strcmp(x->item->path, y->item->path);
}

static int clash(const struct folded *a, const struct folded *b, const char *how, struct kr_err *err)
{
    char one[KR_ZIP_SHOWN_ROOM], other[KR_ZIP_SHOWN_ROOM];

    kr_zip_show(a->item->path, strlen(a->item->path), one);
    kr_zip_show(b->item->path, strlen(b->item->path), other);
    kr_err_set(err, KR_ERR_INVALID, 0, "%s and %s %s", one, other, how);
    return -EINVAL;
}

/* Neighbours in order of their keys: if any two clash, two neighbours do. */
static int compare_neighbours(const struct folded *a, const struct folded *b, struct kr_err *err)
{
    const char *x = a->item->path, *y = b->item->path;
    size_t folded = 0, last = 0, i = 0, len;

    if (strcmp(a->key, b->key) == 0)
        return clash(a, b, strcmp(x, y) == 0 ? "are one name twice" : "differ by upper and lower case alone", err);
    len = strlen(a->key);
    if (strncmp(a->key, b->key, len) == 0 && b->key[len] == '\1') {
        if (!a->item->folder)
            return clash(a, b, "are a file and something within it", err);
        last++; /* the folder's own name, too */
    }
    /* The folders that both are in, by their keys, must be spelt the same. */
    for (; a->key[folded] && a->key[folded] == b->key[folded]; folded++)
        last += a->key[folded] == '\1';
    for (; (x[i] == y[i] || (!x[i] && y[i] == '/')) && last > 0; i++) {
        last -= y[i] == '/';
        if (!x[i])
            break;
    }
    return last == 0 ? 0 : clash(a, b, "have folders that differ by upper and lower case alone", err);
}

int kr_path_list_check(const struct kr_path_item *items, size_t count, struct kr_err *err)
{
    cleanup_free struct folded *all = calloc(count ? count : 1, sizeof *all);
    cleanup_free char *room = NULL;
    locale_t loc = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    size_t size = 1;
    char *at;
    int r = 0;

    for (size_t i = 0; i < count; i++)
        size += 2 * strlen(items[i].path) + 1;
    at = room = malloc(size);
    if (all && room) {
        for (size_t i = 0; i < count; i++) {
            all[i] = (struct folded){at, &items[i]};
            at = fold(items[i].path, at, loc);
        }
        qsort(all, count, sizeof *all, by_key);
        for (size_t i = 0; i + 1 < count && r == 0; i++)
            r = compare_neighbours(&all[i], &all[i + 1], err);
    } else {
        r = kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "names of an archive");
    }
    if (loc != (locale_t)0)
        freelocale(loc);
    return r;
}

/* Looking up what the program carries, and deciding between the whole file, its gzip and 304.
 *
 * Called by the routes of the pages. Invariant: a tag belongs to one sequence of bytes (the gzip of a file has a tag of
 * its own), and every encoding of a file that has two says so in Vary. */
#include "assets.h"
#include "coding.h"
#include <stdlib.h>
#include <string.h>

struct wanted {
    const char *path;
    size_t len;
};

static int compare(const void *key, const void *row)
{
    const struct wanted *w = key;
    const char *path = ((const struct kr_asset *)row)->path;
    int r = strncmp(w->path, path, w->len);

    return r ? r : path[w->len] ? -1 : 0;
}

const struct kr_asset *kr_asset_find(const char *path, size_t len)
{
    struct wanted w = {path, len};

    if (memchr(path, '\0', len))
        return NULL;
    return bsearch(&w, kr_assets, kr_assets_count, sizeof kr_assets[0], compare);
}

/* ---- header lists ---- */

/* The next element of a comma-separated list, without the blanks around it; false at the end. */
static bool next_element(const char **at, const char **ret, size_t *ret_len)
{
    const char *p = *at + strspn(*at, ", \t");
    size_t len = strcspn(p, ",");

    *at = p + len;
    while (len > 0 && (p[len - 1] == ' ' || p[len - 1] == '\t'))
        len--;
    *ret = p;
    *ret_len = len;
    return len > 0;
}

/* If-None-Match compares weakly (RFC 9110 13.1.2): a proxy may have put W/ in front. */
static bool is_named(const char *if_none_match, const struct kr_asset_body *body)
{
    const char *at = if_none_match, *element;
    size_t len;

    while (at && body->data && next_element(&at, &element, &len)) {
        if (len == 1 && element[0] == '*')
            return true;
        if (len > 2 && element[0] == 'W' && element[1] == '/') {
            element += 2;
            len -= 2;
        }
        if (len == strlen(body->etag) && memcmp(element, body->etag, len) == 0)
            return true;
    }
    return false;
}

void kr_asset_answer(const struct kr_asset *a, const char *accept_encoding, const char *if_none_match,
                     struct kr_asset_reply *ret)
{
    bool gzip = a->gzip.data && kr_http_takes_gzip(accept_encoding);

    *ret = (struct kr_asset_reply){
        .status = 200,
        .body = gzip ? &a->gzip : &a->identity,
        .content_encoding = gzip ? "gzip" : NULL,
        .vary = a->gzip.data != NULL,
    };
    /* Only the tag of what would be sent counts: the client must not use the other encoding's bytes. */
    if (is_named(if_none_match, ret->body))
        ret->status = 304;
}

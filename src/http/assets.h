/* The pages, scripts, styles and icons the program carries in itself, made from web/ at build time (tools/web-build,
 * tools/embed-web.py). Pure lookups in read-only memory; nothing is ever freed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct kr_asset_body {
    const unsigned char *data;
    size_t len;
    const char *etag; /* strong, with its quotes; of this encoding */
};

struct kr_asset {
    const char *path;          /* "/", "/docs", "/assets/docs-B1x2.js" */
    const char *content_type;  /* "text/html; charset=utf-8" */
    const char *cache_control; /* pages are asked for again each time; files with a hash in their name never */
    bool is_page;              /* HTML: KR_GUARD_PAGE, else KR_GUARD_ASSET */
    struct kr_asset_body identity;
    struct kr_asset_body gzip; /* data is NULL when it would not be smaller */
};

/* Generated; sorted by path (strcmp). */
extern const struct kr_asset kr_assets[];
extern const size_t kr_assets_count;
/* Whether the full pages were built, or only those that say what is missing. */
extern const bool kr_assets_complete;

/* By the path of a request, without query, of len bytes; NULL if there is none. */
const struct kr_asset *kr_asset_find(const char *path, size_t len);

/* What to answer to a GET (a HEAD sends no body). */
struct kr_asset_reply {
    int status; /* 200, or 304: no body, and no Content-Type, Content-Encoding, Content-Length */
    const struct kr_asset_body *body;
    const char *content_encoding; /* "gzip" or NULL */
    bool vary;                    /* `Vary: Accept-Encoding` belongs on it, 304 too */
};
/* Chooses the encoding and compares the tags; both arguments are header values or NULL. */
void kr_asset_answer(const struct kr_asset *a, const char *accept_encoding, const char *if_none_match,
                     struct kr_asset_reply *ret);

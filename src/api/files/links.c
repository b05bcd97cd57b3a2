/* Links to files: signing, checking, writing them down. Called by file_link.c, and by the voices that show files.
 *
 * Invariant: what is signed is the whole meaning of the link (owner, sandbox, end, path) in a form that can be read
 * in one way only: ids have no line feed, and the path is last. */
#include "links.h"
#include "api.h"
#include "base64.h"
#include "buf.h"
#include "file_request.h"
#include "id.h"
#include "query.h"
#include "utf8.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIGNED_ROOM (64 + 2 * KR_STORE_ID_ROOM + KR_FILES_PATH_MAX)
#define EXPIRES_MAX INT64_C(99999999999) /* the year 5138 */

static size_t write_signed(const struct kr_link *link, const char *path, char out[static SIGNED_ROOM])
{
    int n = snprintf(out, SIGNED_ROOM, "krait file link 1\n%s\n%s\n%" PRId64 "\n%s", link->owner, link->sandbox,
                     link->expires, path);

    return n < (int)SIGNED_ROOM ? (size_t)n : 0;
}

const char *kr_link_sign(const unsigned char key[KR_SIGN_KEY_BYTES], const struct kr_link *link, const char *path,
                         char out[static KR_LINK_TOKEN_ROOM])
{
    char text[SIGNED_ROOM], signature[KR_SIGN_ROOM];

    kr_sign(key, text, write_signed(link, path, text), signature);
    snprintf(out, KR_LINK_TOKEN_ROOM, "%s.%s.%" PRId64 ".%s", link->owner, link->sandbox, link->expires, signature);
    return out;
}

/* Takes the next part of a token, at most room - 1 bytes; moves *at behind its dot. */
static bool take_part(const char **at, char *out, size_t room)
{
    size_t n = strcspn(*at, ".");

    if (n == 0 || n >= room || (*at)[n] != '.')
        return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n + 1;
    return true;
}

static bool take_time(const char **at, int64_t *ret)
{
    char text[16], *end;

    if (!take_part(at, text, sizeof text) || text[0] == '0' || strspn(text, "0123456789") != strlen(text))
        return false;
    *ret = strtoll(text, &end, 10);
    return *ret <= EXPIRES_MAX;
}

int kr_link_check(const unsigned char key[KR_SIGN_KEY_BYTES], const char *token, const char *path, int64_t now,
                  struct kr_link *ret, struct kr_err *err)
{
    char text[SIGNED_ROOM];
    struct kr_link link = {0};
    size_t len = 0;

    if (take_part(&token, link.owner, sizeof link.owner) && kr_id_valid(link.owner) &&
        take_part(&token, link.sandbox, sizeof link.sandbox) && kr_id_valid(link.sandbox) &&
        take_time(&token, &link.expires))
        len = write_signed(&link, path, text);
    if (len == 0 || !kr_sign_check(key, text, len, token))
        return kr_err_set(err, KR_ERR_NOT_FOUND, 0, "there is no such link"), -EKEYREJECTED;
    if (now >= link.expires)
        return kr_err_set(err, KR_ERR_DENIED, 0, "the time of this link is over: ask for a new one"), -EKEYEXPIRED;
    *ret = link;
    return 0;
}

/* Can the path stand in a URL and be what the router makes of it? */
static bool fits_url(const char *path)
{
    const unsigned char *at = (const unsigned char *)path;
    int n;

    for (size_t left = strlen(path); left > 0; at += n, left -= (size_t)n) {
        n = kr_utf8_next(at, left, NULL);
        if (n <= 0 || *at < 0x20 || *at == 0x7f || *at == '\\')
            return false;
    }
    return true;
}

int kr_link_add_path(struct kr_buf *url, const char *token, const char *path)
{
    char b64[KR_BASE64_ROOM(KR_FILES_PATH_MAX)];

    kr_buf_printf(url, "%s%s/", KR_LINK_PREFIX, token);
    if (fits_url(path))
        return kr_percent_encode(url, path, strlen(path), "/");
    kr_base64_encode(path, strlen(path), b64);
    kr_buf_add_str(url, "file");
    return kr_query_add(url, "path_b64", b64);
}

/* ---- of the server ---- */

int kr_link_add_base(const struct kr_api *api, const struct kr_http_ex *ex, struct kr_buf *url)
{
    const char *base = api->config.public_url, *host = ex ? kr_http_header(ex, "host") : NULL;
    size_t len = base ? strlen(base) : 0;

    while (len > 0 && base[len - 1] == '/')
        len--;
    if (len > 0)
        return kr_buf_add(url, base, len);
    return kr_buf_printf(url, "http://%s", host && host[0] ? host : "localhost");
}

static int fill_link(const struct kr_api *api, const char *owner, const char *sandbox, uint64_t seconds,
                     struct kr_link *ret)
{
    *ret =
        (struct kr_link){.expires = kr_store_now() / 1000000 + (int64_t)(seconds ? seconds : kr_api_link_most_s(api))};
    snprintf(ret->owner, sizeof ret->owner, "%s", owner);
    snprintf(ret->sandbox, sizeof ret->sandbox, "%s", sandbox);
    return 0;
}

/* What follows the base: ours, which is always signed. */
static int add_signed(const struct kr_api *api, const char *owner, const char *sandbox, const char *relative,
                      uint64_t seconds, struct kr_buf *url, int64_t *ret_expires, struct kr_err *err)
{
    const struct kr_api_files *files = api->files;
    char token[KR_LINK_TOKEN_ROOM];
    struct kr_link link;
    int r;

    fill_link(api, owner, sandbox, seconds, &link);
    r = kr_link_add_path(url, kr_link_sign(files->link_key, &link, relative, token), relative);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, r, "link");
    if (ret_expires)
        *ret_expires = link.expires;
    return 0;
}

/* What follows the base: the route of the API, where no key is needed. */
static int add_plain(const char *sandbox, const char *relative, struct kr_buf *url, struct kr_err *err)
{
    int r = kr_buf_printf(url, "/api/v1/sandboxes/%s/files/", sandbox);

    if (r >= 0)
        r = kr_percent_encode(url, relative, strlen(relative), "/");
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, r, "link") : 0;
}

/* What follows the base, in the form of document 004 (mcp-sandbox). */
static int add_document(const struct kr_api *api, const char *owner, const char *sandbox, const char *relative,
                        bool sign, struct kr_buf *url, struct kr_err *err)
{
    const struct kr_api_files *files = api->files;
    char shown[KR_FILES_PATH_MAX + 16], token[KR_LINK_TOKEN_ROOM];
    struct kr_link link;
    int r;

    if (!fits_url(relative))
        return add_signed(api, owner, sandbox, relative, 0, url, NULL, err);
    snprintf(shown, sizeof shown, "/app/results/%s", relative);
    kr_buf_add_str(url, "/sandbox/file");
    kr_query_add(url, "sandbox_id", sandbox);
    r = kr_query_add(url, "file_path", shown);
    if (sign) {
        fill_link(api, owner, sandbox, 0, &link);
        r = kr_query_add(url, "token", kr_link_sign(files->link_key, &link, relative, token));
    }
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, r, "link") : 0;
}

int kr_link_add(const struct kr_api *api, const struct kr_http_ex *ex, const char *owner, const char *sandbox,
                const char *path, uint64_t seconds, struct kr_buf *url, int64_t *ret_expires, struct kr_err *err)
{
    char relative[KR_FILES_PATH_MAX];
    int r = kr_files_path(path, relative, err);

    if (r < 0)
        return r;
    kr_link_add_base(api, ex, url);
    return add_signed(api, owner, sandbox, relative, seconds, url, ret_expires, err);
}

int kr_link_add_at(const struct kr_api *api, const char *base, const char *owner, const char *sandbox, const char *path,
                   bool document, bool token, struct kr_buf *url, struct kr_err *err)
{
    char relative[KR_FILES_PATH_MAX];
    int r = kr_files_path(path, relative, err);

    if (r < 0)
        return r;
    kr_buf_add_str(url, base);
    if (document)
        return add_document(api, owner, sandbox, relative, token, url, err);
    if (token || !fits_url(relative))
        return add_signed(api, owner, sandbox, relative, 0, url, NULL, err);
    return add_plain(sandbox, relative, url, err);
}

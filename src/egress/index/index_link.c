/* Links to files of the index: written by the pages' rewriters, read for each file that a cell asks for.
 *
 * MAC is the first half of HMAC-SHA256 over hash, a newline and the address, in hexadecimal. The key is new with each
 * start of the process: links of an earlier one are refused, and a client that asks for the page again gets new ones.
 * The file's name stands behind the address once more ("URL/NAME"), because clients take the last part of a path, as it
 * is written, for the name. */
#include "index_link.h"
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#define MAC_BYTES 16
#define MAC_TEXT (2 * MAC_BYTES)
#define METADATA ".metadata"

static const char hex_digits[] = "0123456789abcdef";

bool kr_index_is_sha256(const char *text, size_t len, char *ret)
{
    if (len != KR_INDEX_HASH_ROOM - 1)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] | 32) : text[i];

        if (!c || !strchr(hex_digits, c))
            return false;
        ret[i] = c;
    }
    ret[len] = '\0';
    return true;
}

static int make_mac(const unsigned char *key, const char *url, const char *sha256, char ret[MAC_TEXT + 1])
{
    char text[KR_WEB_TEXT_ROOM + KR_INDEX_HASH_ROOM + 2];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    int n = snprintf(text, sizeof text, "%s\n%s", sha256, url);

    if (n < 0 || (size_t)n >= sizeof text ||
        !HMAC(EVP_sha256(), key, KR_INDEX_KEY_SIZE, (const unsigned char *)text, (size_t)n, digest, &size))
        return -EINVAL;
    for (unsigned i = 0; i < MAC_BYTES; i++)
        snprintf(ret + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

/* Percent-encodes all but what RFC 3986 calls unreserved. */
static int add_encoded(const char *text, char *buf, size_t size, size_t *at)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("-._~", c);

        if (*at + (plain ? 1 : 3) >= size)
            return -ENOBUFS;
        if (plain)
            buf[(*at)++] = (char)c;
        else
            *at += (size_t)snprintf(buf + *at, size - *at, "%%%02X", c);
    }
    buf[*at] = '\0';
    return 0;
}

/* "/NAME" behind the address: the last part of its path as it is there, which may be encoded. */
static int add_name(const char *url, char *buf, size_t size, size_t *at)
{
    const char *end = url + strcspn(url, "?#"), *from = end;

    while (from > url && from[-1] != '/')
        from--;
    if (from == end)
        return 0;
    if (*at + (size_t)(end - from) + 2 > size)
        return -ENOBUFS;
    buf[(*at)++] = '/';
    memcpy(buf + *at, from, (size_t)(end - from));
    *at += (size_t)(end - from);
    buf[*at] = '\0';
    return 0;
}

int kr_index_link_write(const unsigned char key[KR_INDEX_KEY_SIZE], const char *url, const char *sha256, char *buf,
                        size_t size)
{
    char mac[MAC_TEXT + 1];
    size_t at;
    int n, r;

    if (!sha256)
        sha256 = "";
    if (strlen(url) >= KR_WEB_TEXT_ROOM || make_mac(key, url, sha256, mac) < 0)
        return -ENOBUFS;
    n = snprintf(buf, size, "%s%s/%s/", KR_INDEX_FILE_PATH, mac, *sha256 ? sha256 : "-");
    if (n < 0 || (size_t)n >= size)
        return -ENOBUFS;
    at = (size_t)n;
    r = add_encoded(url, buf, size, &at);
    return r < 0 ? r : add_name(url, buf, size, &at);
}

static int from_hex(char c)
{
    const char *at = c ? strchr(hex_digits, c >= 'A' && c <= 'F' ? c | 32 : c) : NULL;

    return at ? (int)(at - hex_digits) : -1;
}

/* The address, up to the slash that ends it. */
static int decode_url(const char *text, size_t len, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++, n++) {
        int c = (unsigned char)text[i];

        if (c == '%') {
            int high = i + 2 < len ? from_hex(text[i + 1]) : -1, low = i + 2 < len ? from_hex(text[i + 2]) : -1;

            if (high < 0 || low < 0)
                return -EINVAL;
            c = high << 4 | low;
            i += 2;
        }
        if (c <= 0x20 || c >= 0x7f || n + 1 >= size)
            return -EINVAL;
        out[n] = (char)c;
    }
    out[n] = '\0';
    return n > 0 ? 0 : -EINVAL;
}

static bool mac_is(const unsigned char *key, const struct kr_index_link *l, const char *mac)
{
    char right[MAC_TEXT + 1];

    return make_mac(key, l->url, l->sha256, right) == 0 && CRYPTO_memcmp(mac, right, MAC_TEXT) == 0;
}

static bool cut_metadata(char *text, size_t len)
{
    size_t tail = sizeof METADATA - 1;

    if (len <= tail || memcmp(text + len - tail, METADATA, tail) != 0)
        return false;
    text[len - tail] = '\0';
    return true;
}

static bool ends_in(const char *text, size_t len, const char *tail)
{
    size_t n = strlen(tail);

    return len > n && memcmp(text + len - n, tail, n) == 0;
}

/* Of the name behind the address: one may end so itself. */
static bool asks_metadata(const char *url, const char *name)
{
    bool own = ends_in(url, strcspn(url, "?#"), METADATA);

    return ends_in(name, strlen(name), own ? METADATA METADATA : METADATA);
}

int kr_index_link_read(const unsigned char key[KR_INDEX_KEY_SIZE], const char *path, struct kr_index_link *ret)
{
    const char *mac = path + sizeof KR_INDEX_FILE_PATH - 1, *hash = mac + MAC_TEXT + 1, *url, *end;
    size_t hash_len;

    if (strncmp(path, KR_INDEX_FILE_PATH, sizeof KR_INDEX_FILE_PATH - 1) != 0 || strnlen(mac, MAC_TEXT + 1) <= MAC_TEXT)
        return -EINVAL;
    hash_len = strcspn(hash, "/");
    url = hash + hash_len + 1;
    if (mac[MAC_TEXT] != '/' || hash[hash_len] != '/')
        return -EINVAL;
    ret->sha256[0] = '\0';
    if (!(hash_len == 1 && *hash == '-') && !kr_index_is_sha256(hash, hash_len, ret->sha256))
        return -EINVAL;
    end = url + strcspn(url, "/?#");
    if (decode_url(url, (size_t)(end - url), ret->url, sizeof ret->url) < 0)
        return -EINVAL;
    ret->metadata = false;
    if (mac_is(key, ret, mac))
        ret->metadata = *end == '/' && asks_metadata(ret->url, end);
    else if (cut_metadata(ret->url, strlen(ret->url)) && mac_is(key, ret, mac))
        ret->metadata = true;
    else
        return -EACCES;
    return 0;
}

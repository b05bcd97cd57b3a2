/* Addresses of the web. Called for the index's own address, for links of its pages, for redirects and fetches.
 *
 * Invariant: an address that was read has exactly one spelling of host, port and target; nothing of it can be taken for
 * a second host by another reader (no userinfo, no backslash, no control character, no escape in the host). */
#include "web_address.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_host_char(char c)
{
    return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' || c == '.' || c == '_';
}

static int bad_address(struct kr_err *err, const char *why)
{
    return kr_err_set(err, KR_ERR_INVALID, EINVAL, "the address is not valid: %s", why);
}

/* ---- the authority ---- */

static int read_host(const char *p, size_t len, struct kr_web_address *a, struct kr_err *err)
{
    if (!a->v6 && len > 1 && p[len - 1] == '.')
        len--;
    if (len == 0 || len >= KR_WEB_HOST_ROOM - 2)
        return bad_address(err, "its host is empty or too long");
    for (size_t i = 0; i < len; i++) {
        bool ok = a->v6 ? hex_value(p[i]) >= 0 || p[i] == ':' || p[i] == '.' : is_host_char(p[i]);

        if (!ok || (!a->v6 && p[i] == '.' && (i == 0 || i == len - 1 || p[i - 1] == '.')))
            return bad_address(err, "its host is no name and no address");
        a->host[i] = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] | 32) : p[i];
    }
    a->host[len] = '\0';
    return 0;
}

static int read_port(const char *p, size_t len, struct kr_web_address *a, struct kr_err *err)
{
    unsigned port = 0;

    if (len == 0 || len > 5)
        return bad_address(err, "its port is not a number from 1 to 65535");
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(p[i]))
            return bad_address(err, "its port is not a number from 1 to 65535");
        port = port * 10 + (unsigned)(p[i] - '0');
    }
    if (port == 0 || port > 65535)
        return bad_address(err, "its port is not a number from 1 to 65535");
    a->port = (uint16_t)port;
    return 0;
}

static int read_authority(const char *p, size_t len, struct kr_web_address *a, struct kr_err *err)
{
    const char *end = p + len, *stop;
    int r;

    a->port = a->tls ? 443 : 80;
    a->v6 = len > 0 && *p == '[';
    if (memchr(p, '@', len))
        return bad_address(err, "a user name in it");
    if (a->v6) {
        p++;
        stop = memchr(p, ']', (size_t)(end - p));
        if (!stop || (stop + 1 < end && stop[1] != ':'))
            return bad_address(err, "its host is no name and no address");
    } else {
        stop = memchr(p, ':', len);
    }
    r = read_host(p, (size_t)((stop ? stop : end) - p), a, err);
    if (r < 0)
        return r;
    if (a->v6)
        stop++;
    if (!stop || stop == end)
        return 0;
    return read_port(stop + 1, (size_t)(end - stop - 1), a, err);
}

/* ---- the target ---- */

static bool is_target_char(unsigned char c)
{
    return c > 0x20 && c < 0x7f && c != '"' && c != '<' && c != '>' && c != '\\' && c != '#' && c != '`';
}

/* Where the path ends: at '?' or the end. */
static size_t path_length(const char *target, size_t len)
{
    const char *question = memchr(target, '?', len);

    return question ? (size_t)(question - target) : len;
}

/* Takes "." and ".." out of a path that begins with '/' (RFC 3986 5.2.4), in place. Returns its new length. */
static size_t resolve_dots(char *path, size_t len)
{
    size_t in = 0, out = 0;

    while (in < len) {
        size_t end = in + 1, part;

        while (end < len && path[end] != '/')
            end++;
        part = end - in; /* with its slash */
        if (part == 2 && path[in + 1] == '.') {
            if (end == len)
                path[out++] = '/';
        } else if (part == 3 && path[in + 1] == '.' && path[in + 2] == '.') {
            while (out > 0 && path[--out] != '/')
                ;
            if (end == len)
                path[out++] = '/';
        } else {
            memmove(path + out, path + in, part);
            out += part;
        }
        in = end;
    }
    if (out == 0)
        path[out++] = '/';
    return out;
}

/* `text` begins with '/' or is empty, or begins with '?'. */
static int set_target(struct kr_web_address *a, const char *text, size_t len, struct kr_err *err)
{
    size_t at = 0, path;

    if (len == 0 || text[0] == '?')
        a->target[at++] = '/';
    if (len + at >= KR_WEB_TARGET_ROOM)
        return bad_address(err, "too long");
    for (size_t i = 0; i < len; i++)
        if (!is_target_char((unsigned char)text[i]))
            return bad_address(err, "a character in its path that must be escaped");
    memcpy(a->target + at, text, len);
    len += at;
    path = path_length(a->target, len);
    at = resolve_dots(a->target, path);
    memmove(a->target + at, a->target + path, len - path);
    a->target[at + len - path] = '\0';
    return 0;
}

static size_t without_fragment(const char *text, size_t len)
{
    const char *hash = memchr(text, '#', len);

    return hash ? (size_t)(hash - text) : len;
}

int kr_web_address_parse(const char *text, size_t len, struct kr_web_address *ret, struct kr_err *err)
{
    struct kr_web_address a = {.tls = false};
    size_t stop;
    int r;

    len = without_fragment(text, len);
    a.tls = len > 8 && strncasecmp(text, "https://", 8) == 0;
    if (!a.tls && !(len > 7 && strncasecmp(text, "http://", 7) == 0))
        return bad_address(err, "it does not begin with http:// or https://");
    text += a.tls ? 8 : 7;
    len -= a.tls ? 8 : 7;
    for (stop = 0; stop < len && text[stop] != '/' && text[stop] != '?'; stop++)
        if (!is_target_char((unsigned char)text[stop]))
            return bad_address(err, "a character in its host that hosts do not have");
    r = read_authority(text, stop, &a, err);
    if (r == 0)
        r = set_target(&a, text + stop, len - stop, err);
    if (r == 0)
        *ret = a;
    return r;
}

/* ---- references ---- */

/* A scheme in front: letters, digits and "+-." up to a colon that comes before any '/' or '?'. */
static bool has_scheme(const char *ref, size_t len)
{
    for (size_t i = 0; i < len && ref[i] != '/' && ref[i] != '?'; i++)
        if (ref[i] == ':')
            return true;
    return false;
}

static int join_path(const struct kr_web_address *base, const char *ref, size_t len, struct kr_web_address *a,
                     struct kr_err *err)
{
    char joined[2 * KR_WEB_TARGET_ROOM];
    size_t keep = path_length(base->target, strlen(base->target));

    if (len >= KR_WEB_TARGET_ROOM)
        return bad_address(err, "too long");
    if (len == 0)
        keep = strlen(base->target);
    else if (ref[0] != '?')
        while (keep > 0 && base->target[keep - 1] != '/')
            keep--;
    memcpy(joined, base->target, keep);
    memcpy(joined + keep, ref, len);
    return set_target(a, joined, keep + len, err);
}

int kr_web_address_join(const struct kr_web_address *base, const char *ref, size_t len, struct kr_web_address *ret,
                        struct kr_err *err)
{
    struct kr_web_address a = *base;
    char text[KR_WEB_TEXT_ROOM];
    int n, r;

    len = without_fragment(ref, len);
    if (has_scheme(ref, len))
        return kr_web_address_parse(ref, len, ret, err);
    if (len >= 2 && ref[0] == '/' && ref[1] == '/') {
        n = snprintf(text, sizeof text, "%s:%.*s", base->tls ? "https" : "http", (int)(len < 4096 ? len : 4096), ref);
        if (n < 0 || (size_t)n >= sizeof text)
            return bad_address(err, "too long");
        return kr_web_address_parse(text, (size_t)n, ret, err);
    }
    r = len > 0 && ref[0] == '/' ? set_target(&a, ref, len, err) : join_path(base, ref, len, &a, err);
    if (r == 0)
        *ret = a;
    return r;
}

/* ---- written ---- */

const char *kr_web_address_host(const struct kr_web_address *a, char *buf, size_t size)
{
    const char *open = a->v6 ? "[" : "", *shut = a->v6 ? "]" : "";

    if (a->port == (a->tls ? 443 : 80))
        snprintf(buf, size, "%s%s%s", open, a->host, shut);
    else
        snprintf(buf, size, "%s%s%s:%u", open, a->host, shut, a->port);
    return buf;
}

const char *kr_web_address_text(const struct kr_web_address *a, char *buf, size_t size)
{
    char host[KR_WEB_HOST_ROOM + 16];

    snprintf(buf, size, "%s://%s%s", a->tls ? "https" : "http", kr_web_address_host(a, host, sizeof host), a->target);
    return buf;
}

bool kr_web_address_same_origin(const struct kr_web_address *a, const struct kr_web_address *b)
{
    return a->tls == b->tls && a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* Decodes %XX; false: a broken escape, or it does not fit. */
static bool decode(const char *p, size_t len, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++, n++) {
        char c = p[i];

        if (c == '%') {
            int high = i + 2 < len ? hex_value(p[i + 1]) : -1, low = i + 2 < len ? hex_value(p[i + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0' || n + 1 >= size)
            return false;
        out[n] = c;
    }
    out[n] = '\0';
    return true;
}

const char *kr_web_address_name(const struct kr_web_address *a, char *buf, size_t size)
{
    size_t end = path_length(a->target, strlen(a->target)), from = end;

    while (from > 0 && a->target[from - 1] != '/')
        from--;
    if (!decode(a->target + from, end - from, buf, size) || strcmp(buf, ".") == 0 || strcmp(buf, "..") == 0)
        buf[0] = '\0';
    for (const char *p = buf; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '/' || *p == '\\') {
            buf[0] = '\0';
            break;
        }
    return buf;
}

int kr_web_address_split_user(const char *text, char *rest, size_t size, char ret_user[KR_WEB_USER_ROOM],
                              char ret_password[KR_WEB_USER_ROOM])
{
    const char *from = strstr(text, "://"), *stop, *at, *colon;
    int n;

    ret_user[0] = ret_password[0] = '\0';
    if (!from)
        return -EINVAL;
    from += 3;
    stop = from + strcspn(from, "/?#");
    for (at = stop; at > from && at[-1] != '@'; at--)
        ;
    if (at == from) {
        n = snprintf(rest, size, "%s", text);
        return n >= 0 && (size_t)n < size ? 0 : -EINVAL;
    }
    n = snprintf(rest, size, "%.*s%s", (int)(from - text), text, at);
    colon = memchr(from, ':', (size_t)(at - 1 - from));
    if (n < 0 || (size_t)n >= size)
        return -EINVAL;
    if (!decode(from, (size_t)((colon ? colon : at - 1) - from), ret_user, KR_WEB_USER_ROOM))
        return -EINVAL;
    if (colon && !decode(colon + 1, (size_t)(at - 1 - colon - 1), ret_password, KR_WEB_USER_ROOM))
        return -EINVAL;
    return 0;
}

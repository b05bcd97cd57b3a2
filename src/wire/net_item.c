/* Items of allow rules: their grammar, and what each allows.
 *
 * Called by net_rule.c for the text of a rule that a client or a setting gave, and for each request that the egress
 * process judges. Invariant: two readers see the same item in a text that kr_net_item_read() took: there is one
 * spelling of ports and paths, and only a host may be written in capitals. */
#include "net_item.h"
#include <string.h>

#define HOST_MAX 253u /* RFC 1035, 2.3.4, without the last dot */
#define LABEL_MAX 63u
#define METHOD_MAX 20u
#define PLAIN "http://"
#define PLAIN_LEN (sizeof PLAIN - 1)

/* ---- characters ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-';
}

/* What a path may have of RFC 3986 without a meaning to rules: no escape, no query, no comma, which ends the item. */
static bool is_path_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || (c && strchr("/-._~!$&'()+=:@", c));
}

/* ---- hosts ---- */

/* Labels of letters, digits and inner hyphens, at least one. */
static bool is_host(const char *host, size_t len)
{
    size_t label = 0;

    if (len == 0 || len > HOST_MAX)
        return false;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && is_host_char(host[i])) {
            label++;
            continue;
        }
        if (i < len && host[i] != '.')
            return false;
        if (label == 0 || label > LABEL_MAX || host[i - label] == '-' || host[i - 1] == '-')
            return false;
        label = 0;
    }
    return true;
}

/* A name whose last label is a number is an address to some readers: then it must be one to all. */
static bool ends_in_number(const char *host, size_t len)
{
    size_t at = len;

    while (at > 0 && host[at - 1] != '.')
        at--;
    if (len - at > 1 && host[at] == '0' && host[at + 1] == 'x')
        return true;
    for (size_t i = at; i < len; i++)
        if (!is_digit(host[i]))
            return false;
    return true;
}

/* Four decimal numbers, no zero in front. */
static bool is_ipv4(const char *host, size_t len)
{
    unsigned parts = 0, value = 0, digits = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && is_digit(host[i])) {
            if (digits > 0 && value == 0)
                return false;
            value = value * 10 + (unsigned)(host[i] - '0');
            if (++digits > 3 || value > 255)
                return false;
            continue;
        }
        if (digits == 0 || (i < len && host[i] != '.'))
            return false;
        parts++;
        value = digits = 0;
    }
    return parts == 4;
}

/* ---- reading ---- */

static int wrong(struct kr_err *err, const char *text, size_t len, const char *what)
{
    return kr_err_set(err, KR_ERR_INVALID, 0, "\"%.*s\" %s", len < 60 ? (int)len : 60, text, what);
}

/* METHOD|METHOD and a blank, if the item begins with them. Bytes taken, or negative. */
static int read_methods(const char *text, size_t len, struct kr_net_item *item)
{
    size_t at = 0, word = 0;

    for (; at < len && text[at] != ' '; at++) {
        if (text[at] == '|') {
            if (word == 0)
                return -1;
            word = 0;
        } else if (text[at] < 'A' || text[at] > 'Z' || ++word > METHOD_MAX) {
            return -1;
        }
    }
    if (at == len || word == 0)
        return -1;
    item->methods = text;
    item->methods_len = at;
    return (int)at + 1;
}

/* ":PORT" at the end of what is not the path. */
static int read_port(const char *text, size_t len, uint16_t *ret_port)
{
    unsigned port = 0;

    if (len == 0 || len > 5 || text[0] == '0')
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(text[i]))
            return -1;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    if (port > UINT16_MAX)
        return -1;
    *ret_port = (uint16_t)port;
    return 0;
}

static int read_path(const char *text, size_t len, struct kr_net_item *item)
{
    bool beginning = len > 0 && text[len - 1] == '*';
    size_t n = beginning ? len - 1 : len;

    for (size_t i = 0; i < n; i++)
        if (!is_path_char(text[i]) || (i > 0 && text[i] == '/' && text[i - 1] == '/'))
            return -1;
    item->path = text;
    item->path_len = n;
    item->whole_path = !beginning;
    if (n == 1 && beginning) /* all paths */
        item->path_len = 0;
    return 0;
}

static int read_host(const char *text, size_t len, struct kr_net_item *item)
{
    item->wild = len > 2 && text[0] == '*' && text[1] == '.';
    item->host = text + (item->wild ? 2 : 0);
    item->host_len = len - (item->wild ? 2 : 0);
    if (!is_host(item->host, item->host_len))
        return -1;
    return ends_in_number(item->host, item->host_len) && (item->wild || !is_ipv4(item->host, item->host_len)) ? -1 : 0;
}

int kr_net_item_read(const char *text, size_t len, struct kr_net_item *ret_item, struct kr_err *err)
{
    struct kr_net_item item = {.methods_len = 0};
    const char *p = text, *end = text + len, *slash, *colon;
    bool blank = memchr(text, ' ', len) != NULL;
    int methods = blank ? read_methods(text, len, &item) : 0;

    if (methods < 0)
        return wrong(err, text, len, "does not begin with methods, such as GET|HEAD, and one blank");
    p += methods;
    item.plain = (size_t)(end - p) >= PLAIN_LEN && memcmp(p, PLAIN, PLAIN_LEN) == 0;
    if (methods > 0 && !item.plain)
        return wrong(err, text, len, "has methods, which only plain HTTP shows: write " PLAIN "HOST behind them");
    if (!item.plain && (memchr(p, '/', (size_t)(end - p)) || memchr(p, '|', (size_t)(end - p))))
        return wrong(err, text, len, "is not a host name; what has a path is written " PLAIN "HOST/PATH");
    p += item.plain ? PLAIN_LEN : 0;
    slash = memchr(p, '/', (size_t)(end - p));
    if (slash && read_path(slash, (size_t)(end - slash), &item) < 0)
        return wrong(err, text, len, "has a path that is not plain: letters, digits and -._~ between single slashes");
    end = slash ? slash : end;
    colon = memchr(p, ':', (size_t)(end - p));
    if (colon && read_port(colon + 1, (size_t)(end - colon - 1), &item.port) < 0)
        return wrong(err, text, len, "has no port from 1 to 65535 behind the colon");
    end = colon ? colon : end;
    if (read_host(p, (size_t)(end - p), &item) < 0)
        return wrong(err, p, (size_t)(end - p), "is not a host name");
    if (item.plain && item.port == 0)
        item.port = 80;
    *ret_item = item;
    return 0;
}

/* The host is behind the methods and the scheme, and ends at the path. */
void kr_net_item_lower(char *text, size_t len)
{
    const char *blank = memchr(text, ' ', len);
    size_t at = blank ? (size_t)(blank - text) + 1 : 0;

    if (len - at >= PLAIN_LEN && memcmp(text + at, PLAIN, PLAIN_LEN) == 0)
        at += PLAIN_LEN;
    for (; at < len && text[at] != '/'; at++)
        if (text[at] >= 'A' && text[at] <= 'Z')
            text[at] = (char)(text[at] + ('a' - 'A'));
}

/* ---- judging ---- */

static bool host_matches(const struct kr_net_item *item, const char *host, size_t len)
{
    if (!item->wild)
        return len == item->host_len && memcmp(host, item->host, len) == 0;
    return len > item->host_len + 1 && host[len - item->host_len - 1] == '.' &&
           memcmp(host + len - item->host_len, item->host, item->host_len) == 0;
}

bool kr_net_item_has_host(const struct kr_net_item *item, const char *host)
{
    return host_matches(item, host, strlen(host));
}

bool kr_net_item_has_port(const struct kr_net_item *item, uint16_t port)
{
    return item->port ? item->port == port : port == 80 || port == 443;
}

bool kr_net_item_has_method(const struct kr_net_item *item, const char *method, size_t len)
{
    const char *p = item->methods, *end = p + item->methods_len;

    if (item->methods_len == 0)
        return true;
    while (p < end) {
        const char *bar = memchr(p, '|', (size_t)(end - p)), *to = bar ? bar : end;

        if ((size_t)(to - p) == len && memcmp(p, method, len) == 0)
            return true;
        p = to + 1;
    }
    return false;
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of an escape, or -1. */
static int escaped_byte(const char *p, size_t left)
{
    int high = left > 2 && *p == '%' ? hex_digit(p[1]) : -1, low = high >= 0 ? hex_digit(p[2]) : -1;

    return low < 0 ? -1 : high * 16 + low;
}

/* The first bytes of a form that is longer than its character needs, which some decoders take for ASCII. */
static bool is_long_form(int byte, int next)
{
    return byte == 0xc0 || byte == 0xc1 || (byte == 0xe0 && next < 0xa0) || (byte == 0xf0 && next < 0x90) ||
           byte >= 0xf8;
}

/* Not an escape that some server reads as structure: a dot, slash, backslash, another escape, a control character, a
 * long form of ASCII. */
static bool is_plain_escape(const char *p, size_t left)
{
    int byte = escaped_byte(p, left);

    return byte >= 0x20 && byte != 0x7f && !memchr("./\\%;?#", byte, 8) &&
           !is_long_form(byte, left > 3 ? escaped_byte(p + 3, left - 3) : -1);
}

/* A path that means one thing to every server: no empty or dot segment, no parameter, and no escape of what would make
 * one. */
static bool is_plain_path(const char *path, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        size_t dots = 0;

        if (path[i] == '\\' || path[i] == ';' || (path[i] == '%' && !is_plain_escape(path + i, len - i)))
            return false;
        if (path[i] != '/')
            continue;
        while (i + 1 + dots < len && path[i + 1 + dots] == '.')
            dots++;
        if (i + 1 + dots == len ? dots > 0 : path[i + 1 + dots] == '/')
            return false;
    }
    return true;
}

bool kr_net_item_has_path(const struct kr_net_item *item, const char *path)
{
    size_t len = strcspn(path, "?");

    if (item->path_len == 0)
        return true;
    if (!is_plain_path(path, len))
        return false;
    if (item->whole_path)
        return len == item->path_len && memcmp(path, item->path, len) == 0;
    return len >= item->path_len && memcmp(path, item->path, item->path_len) == 0;
}

static bool covers_methods(const struct kr_net_item *wide, const struct kr_net_item *item)
{
    const char *p = item->methods, *end = p + item->methods_len;

    if (wide->methods_len == 0)
        return true;
    if (item->methods_len == 0)
        return false;
    while (p < end) {
        const char *bar = memchr(p, '|', (size_t)(end - p)), *to = bar ? bar : end;

        if (!kr_net_item_has_method(wide, p, (size_t)(to - p)))
            return false;
        p = to + 1;
    }
    return true;
}

static bool covers_path(const struct kr_net_item *wide, const struct kr_net_item *item)
{
    if (wide->path_len == 0)
        return true;
    if (wide->whole_path)
        return item->whole_path && item->path_len == wide->path_len &&
               memcmp(item->path, wide->path, wide->path_len) == 0;
    return item->path_len >= wide->path_len && memcmp(item->path, wide->path, wide->path_len) == 0;
}

bool kr_net_item_covers(const struct kr_net_item *wide, const struct kr_net_item *item, uint16_t port)
{
    if (!kr_net_item_has_port(wide, port) || (wide->plain && !item->plain))
        return false;
    if (item->wild) { /* "*.a.b" is below "*.b", and below itself */
        if (!wide->wild || (!host_matches(wide, item->host, item->host_len) &&
                            (item->host_len != wide->host_len || memcmp(item->host, wide->host, item->host_len) != 0)))
            return false;
    } else if (!host_matches(wide, item->host, item->host_len)) {
        return false;
    }
    return !wide->plain || (covers_methods(wide, item) && covers_path(wide, item));
}

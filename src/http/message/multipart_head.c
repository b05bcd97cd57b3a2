/* The header lines of one part of a multipart body, and the Content-Type that announces such a body.
 *
 * Called by multipart.c when a head is whole, and by the upload routes (kr_multipart_boundary). Invariant: names that
 * come out are valid UTF-8 without control characters; everything is read in place, nothing is allocated.
 *
 * Quoting is a muddle of decades: RFC 7578's clients write \" or %22 for a quote and send a backslash as it is. So \"
 * and \\ are taken for one character, %22 for a quote, and any other backslash or percent sign for itself. */
#include "multipart_head.h"
#include "err.h"
#include "multipart.h"
#include "query.h"
#include "utf8.h"
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A parameter of a header value, as it stands in the text. */
struct param {
    const char *name;
    size_t name_len;
    char *value; /* between the quotes */
    size_t value_len;
    bool quoted;
};

static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static char *skip_blanks(char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    return p;
}

static bool is_named(const struct param *p, const char *name)
{
    return p->name_len == strlen(name) && strncasecmp(p->name, name, p->name_len) == 0;
}

/* A token ending at the first character that is none; its length. */
static size_t token_length(const char *p, const char *end)
{
    size_t n = 0;

    while (p + n < end && is_token(p[n]))
        n++;
    return n;
}

/* The closing quote of the string that p is in, or NULL. */
static char *closing_quote(char *p, const char *end)
{
    for (; p < end && *p != '"'; p++)
        if (*p == '\\' && p + 1 < end && (p[1] == '"' || p[1] == '\\'))
            p++;
    return p < end ? p : NULL;
}

/* Reads `; name=value`; *at moves past it, the blanks after it and the next `;`, for the value's end may be written
 * over that. 1, 0 at the end, -1 if it is broken. */
static int next_param(char **at, const char *end, struct param *ret)
{
    char *p = skip_blanks(*at, end);

    while (p < end && *p == ';') /* an empty parameter, or one `;` at the end, is common */
        p = skip_blanks(p + 1, end);
    *at = p;
    if (p == end)
        return 0;
    ret->name = p;
    ret->name_len = token_length(p, end);
    p += ret->name_len;
    if (ret->name_len == 0 || p == end || *p != '=')
        return -1;
    p++;
    ret->quoted = p < end && *p == '"';
    ret->value = ret->quoted ? p + 1 : p;
    if (ret->quoted) {
        char *quote = closing_quote(p + 1, end);

        if (!quote)
            return -1;
        ret->value_len = (size_t)(quote - ret->value);
        p = quote + 1;
    } else {
        ret->value_len = token_length(p, end);
        if (ret->value_len == 0)
            return -1;
        p += ret->value_len;
    }
    p = skip_blanks(p, end);
    if (p < end && *p != ';')
        return -1;
    *at = p < end ? p + 1 : p;
    return 1;
}

/* Undoes the quoting in place and ends it with a NUL (at most over the quote, the `;` or the CR after it). */
static void unquote(struct param *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->value_len; i++) {
        char c = p->value[i];
        size_t left = p->value_len - i;

        if (p->quoted && c == '\\' && left > 1 && (p->value[i + 1] == '"' || p->value[i + 1] == '\\')) {
            c = p->value[++i];
        } else if (p->quoted && left > 2 && memcmp(p->value + i, "%22", 3) == 0) {
            c = '"';
            i += 2;
        }
        p->value[n++] = c;
    }
    p->value[n] = '\0';
    p->value_len = n;
}

static bool is_clean(const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        uint32_t c = 0;
        int n = kr_utf8_next((const unsigned char *)text + at, len - at, &c);

        if (n <= 0 || c < 0x20 || (c >= 0x7f && c <= 0x9f))
            return false;
        at += (size_t)n;
    }
    return true;
}

/* filename*=UTF-8'lang'percent-encoded (RFC 5987), in place. */
static int decode_extended(struct param *p)
{
    char *end = p->value + p->value_len, *quote = memchr(p->value, '\'', p->value_len), *second;
    long n;

    if (p->quoted || !quote || quote - p->value != 5 || strncasecmp(p->value, "UTF-8", 5) != 0)
        return -1;
    second = memchr(quote + 1, '\'', (size_t)(end - quote - 1));
    if (!second)
        return -1;
    p->value = second + 1;
    n = kr_percent_decode(p->value, (size_t)(end - p->value), false, p->value, "", NULL);
    if (n < 0)
        return -1;
    p->value_len = (size_t)n;
    return 0;
}

static int say(char *why, size_t why_size, const char *text)
{
    snprintf(why, why_size, "%s", text);
    return -EINVAL;
}

/* ---- the lines ---- */

struct lines {
    struct kr_multipart_part *part;
    bool have_disposition;
    char *why;
    size_t why_size;
};

static int read_disposition(struct lines *l, char *value, const char *end)
{
    char *at = value + token_length(value, end);
    bool have_extended = false;
    struct param p;
    int r;

    if (l->have_disposition)
        return say(l->why, l->why_size, "two Content-Disposition lines");
    l->have_disposition = true;
    if (at - value != 9 || strncasecmp(value, "form-data", 9) != 0)
        return say(l->why, l->why_size, "its Content-Disposition is not form-data");
    at = skip_blanks(at, end);
    if (at < end && *at != ';')
        return say(l->why, l->why_size, "its Content-Disposition cannot be read");
    while ((r = next_param(&at, end, &p)) > 0) {
        bool is_name = is_named(&p, "name"), is_filename = is_named(&p, "filename");

        if (is_named(&p, "filename*")) {
            if (have_extended || decode_extended(&p) < 0)
                return say(l->why, l->why_size, "its filename* is given twice or is not UTF-8''…");
            have_extended = true;
        } else if (is_name || is_filename) {
            unquote(&p);
        } else {
            continue;
        }
        if (!is_clean(p.value, p.value_len))
            return say(l->why, l->why_size, "its name or filename is not UTF-8 or has a control character");
        if (is_name && l->part->name)
            return say(l->why, l->why_size, "its name is given twice");
        if (is_filename && l->part->filename && !have_extended)
            return say(l->why, l->why_size, "its filename is given twice");
        if (is_name)
            l->part->name = p.value;
        else if (!is_filename || !have_extended)
            l->part->filename = p.value;
    }
    if (r < 0)
        return say(l->why, l->why_size, "its Content-Disposition cannot be read");
    return l->part->name ? 0 : say(l->why, l->why_size, "its Content-Disposition has no name");
}

static int read_type(struct lines *l, char *value, char *end)
{
    if (l->part->content_type)
        return say(l->why, l->why_size, "two Content-Type lines");
    if (!is_clean(value, (size_t)(end - value)))
        return say(l->why, l->why_size, "its Content-Type is not UTF-8 or has a control character");
    *end = '\0'; /* over the CR, or a blank before it */
    l->part->content_type = value;
    return 0;
}

static int read_transfer_encoding(struct lines *l, const char *value, const char *end)
{
    static const char *const plain[] = {"binary", "8bit", "7bit"};

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if ((size_t)(end - value) == strlen(plain[i]) && strncasecmp(value, plain[i], strlen(plain[i])) == 0)
            return 0;
    return say(l->why, l->why_size, "its Content-Transfer-Encoding is not binary");
}

/* One line, without its CR LF. */
static int read_line(struct lines *l, char *line, char *end)
{
    struct param header = {.name = line, .name_len = token_length(line, end)};
    char *value = line + header.name_len;

    if (header.name_len == 0 || value == end || *value != ':')
        return say(l->why, l->why_size, "a header line is not `Name: value`");
    for (const char *p = value; p < end; p++)
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            return say(l->why, l->why_size, "a header line has a control character");
    value = skip_blanks(value + 1, end);
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (is_named(&header, "Content-Disposition"))
        return read_disposition(l, value, end);
    if (is_named(&header, "Content-Type"))
        return read_type(l, value, end);
    if (is_named(&header, "Content-Transfer-Encoding"))
        return read_transfer_encoding(l, value, end);
    return 0;
}

int kr_multipart_head(char *text, size_t len, struct kr_multipart_part *part, char *why, size_t why_size)
{
    struct lines l = {.part = part, .why = why, .why_size = why_size};
    char *p = text, *end = text + len;

    for (unsigned count = 0; p < end; count++) {
        char *cr = memchr(p, '\r', (size_t)(end - p)); /* there is one: lines are whole */
        int r;

        if (count == KR_MULTIPART_HEADERS_MAX) {
            snprintf(why, why_size, "more than %u header lines", KR_MULTIPART_HEADERS_MAX);
            return -E2BIG;
        }
        r = read_line(&l, p, cr);
        if (r < 0)
            return r;
        p = cr + 2;
    }
    return l.have_disposition ? 0 : say(why, why_size, "it has no Content-Disposition");
}

/* ---- the Content-Type of the whole body ---- */

static bool is_boundary(const char *text, size_t len)
{
    if (len == 0 || len > KR_MULTIPART_BOUNDARY_MAX || text[len - 1] == ' ')
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c != '\0' && strchr("'()+_,-./:=? ", c))))
            return false;
    }
    return true;
}

int kr_multipart_boundary(const char *content_type, char out[KR_MULTIPART_BOUNDARY_MAX + 1], struct kr_err *err)
{
    static const char type[] = "multipart/form-data";
    char text[512];
    size_t len = content_type ? strlen(content_type) : 0;
    char *at = text + sizeof type - 1, *end;
    struct param p, found = {0};
    int r;

    if (len < sizeof type - 1 || strncasecmp(content_type, type, sizeof type - 1) != 0)
        return 0;
    if (content_type[sizeof type - 1] && !strchr("; \t", content_type[sizeof type - 1]))
        return 0;
    if (len >= sizeof text) {
        kr_err_set(err, KR_ERR_INVALID, 0, "the Content-Type is longer than %zu bytes", sizeof text - 1);
        return -EINVAL;
    }
    memcpy(text, content_type, len + 1); /* read in place */
    end = text + len;
    at = skip_blanks(at, end);
    r = at < end && *at != ';' ? -1 : 1;
    while (r > 0 && (r = next_param(&at, end, &p)) > 0) {
        if (!is_named(&p, "boundary"))
            continue;
        if (found.value)
            break; /* r stays 1 */
        unquote(&p);
        found = p;
    }
    if (r != 0 || !found.value || !is_boundary(found.value, found.value_len)) {
        kr_err_set(err, KR_ERR_INVALID, 0, "the Content-Type multipart/form-data has no usable boundary, or two");
        return -EINVAL;
    }
    memcpy(out, found.value, found.value_len + 1);
    return 1;
}

/* One line of the log, made on the stack: logfmt or JSON.
 *
 * Called by log.c alone. Invariant: whatever the texts hold, the result is one line, valid UTF-8 without control
 * characters, at most LOG_LOGFMT_MAX or LOG_JSON_MAX bytes; a JSON line is one whole object in which no key that the
 * log itself writes comes twice; what looks like a krait key or a password is masked. */
#define _GNU_SOURCE 1
#include "log_internal.h"
#include "utf8.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CUT "..."

/* ---- characters ---- */

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* Writes one character of the text, escaped for logfmt or JSON, to out (at least 12 bytes). Returns how many input
 * bytes it took. */
static size_t escape_one(const unsigned char *s, size_t len, bool json, char *out, size_t *ret_len)
{
    uint32_t c = 0;
    int n = kr_utf8_next(s, len, &c);

    if (n <= 0 || is_control(c)) {
        const char *known = s[0] == '\n' ? "\\n" : s[0] == '\t' ? "\\t" : s[0] == '\r' ? "\\r" : NULL;

        /* A control character of two bytes (U+0080 to U+009F) is escaped a byte at a time in logfmt. */
        if (known)
            *ret_len = (size_t)sprintf(out, "%s", known);
        else if (!json)
            *ret_len = (size_t)sprintf(out, "\\x%02x", s[0]);
        else
            *ret_len = (size_t)sprintf(out, "\\u%04x", n <= 0 ? 0xfffdu : c);
        return json && n > 0 ? (size_t)n : 1;
    }
    *ret_len = 0;
    if (c == '"' || c == '\\')
        out[(*ret_len)++] = '\\';
    memcpy(out + *ret_len, s, (size_t)n);
    *ret_len += (size_t)n;
    return (size_t)n;
}

const char *kr_log_quote(char *buf, unsigned long size, const char *text, unsigned long max)
{
    static const char cut[] = CUT "\"";
    const unsigned char *s = (const unsigned char *)(text ? text : "");
    size_t len = strnlen((const char *)s, max), at = 0, used = 1;
    int whole = s[0] == '\0' || len < max || s[len] == '\0';

    if (size < sizeof cut + 1) {
        if (size > 0)
            buf[0] = '\0';
        return buf;
    }
    buf[0] = '"';
    while (at < len) {
        char one[12];
        size_t one_len, taken = escape_one(s + at, len - at, false, one, &one_len);

        if (used + one_len + sizeof cut > size) {
            whole = 0;
            break;
        }
        memcpy(buf + used, one, one_len);
        used += one_len;
        at += taken;
    }
    snprintf(buf + used, size - used, "%s", whole ? "\"" : cut);
    return buf;
}

/* Values should have come through kr_log_quote(); if one did not, it still can neither forge a second line nor speak to
 * the terminal, be it in the control characters of two bytes (U+0080 to U+009F) or in bytes that are no UTF-8. */
static void blank_controls(char *line, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        int n = kr_utf8_next((const unsigned char *)line + i, len - i, &c);
        bool bad = n <= 0 || is_control(c);

        n = n <= 0 ? 1 : n;
        if (bad)
            memset(line + i, '?', (size_t)n);
        i += (size_t)n;
    }
}

/* ---- fields ---- */

void kr_log_line_begin(struct kr_log_line *l, bool json)
{
    l->json = json;
    l->any = l->has_request = false;
    l->len = 0;
    l->room = (json ? LOG_JSON_MAX : LOG_LOGFMT_MAX) - 2; /* a brace and the newline */
    if (json)
        l->text[l->len++] = '{';
}

/* `key=` or `"key":` with what separates it from the field before. False, and nothing is added, if there is no room for
 * it and `more` bytes. */
static bool add_key(struct kr_log_line *l, const char *key, size_t more)
{
    size_t len = strlen(key), need = len + 4 + more;

    if (l->len + need > l->room)
        return false;
    if (l->any)
        l->text[l->len++] = l->json ? ',' : ' ';
    if (l->json)
        l->text[l->len++] = '"';
    l->has_request = l->has_request || strcmp(key, "request") == 0;
    memcpy(l->text + l->len, key, len);
    l->len += len;
    if (l->json)
        l->text[l->len++] = '"';
    l->text[l->len++] = l->json ? ':' : '=';
    l->any = true;
    return true;
}

/* May it stand in logfmt without quotes? */
static bool is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && (text[i] == '\0' || !strchr("_./:@+-", text[i])))
            return false;
    return len > 0;
}

void kr_log_line_text(struct kr_log_line *l, const char *key, const char *text, size_t len, size_t chars, bool quoted)
{
    const size_t end = strlen(CUT) + 1; /* what closes it at the latest */
    const unsigned char *s = (const unsigned char *)text;
    bool bare;

    len = len == SIZE_MAX ? strnlen(text, LOG_JSON_MAX) : len;
    bare = !l->json && !quoted && len <= chars && is_plain(text, len);
    if (!add_key(l, key, bare ? len : end + 12))
        return;
    if (bare) {
        memcpy(l->text + l->len, text, len);
        l->len += len;
        return;
    }
    l->text[l->len++] = '"';
    while (len > 0) {
        char one[12];
        size_t one_len, taken = escape_one(s, len, l->json, one, &one_len);

        if (chars-- == 0 || l->len + one_len + end > l->room) {
            memcpy(l->text + l->len, CUT, strlen(CUT));
            l->len += strlen(CUT);
            break;
        }
        memcpy(l->text + l->len, one, one_len);
        l->len += one_len;
        s += taken;
        len -= taken;
    }
    l->text[l->len++] = '"';
}

void kr_log_line_word(struct kr_log_line *l, const char *key, const char *word)
{
    size_t len = strlen(word);

    if (!add_key(l, key, len))
        return;
    memcpy(l->text + l->len, word, len);
    l->len += len;
}

/* ---- pairs as kr_log() is given them ---- */

/* The length of `key=` at the beginning, or 0. */
static size_t key_at(const char *s, size_t len)
{
    size_t n = 0;

    while (n < len && (isalnum((unsigned char)s[n]) || s[n] == '_'))
        n++;
    return n > 0 && n < len && s[n] == '=' ? n + 1 : 0;
}

/* Does a value end at s: at the end of the text, or before the next pair? An unescaped quote within a text is
 * thereby no end. */
static bool ends_at(const char *s, size_t len)
{
    return len == 0 || (s[0] == ' ' && (len == 1 || key_at(s + 1, len - 1) > 0));
}

/* Takes a quoted value (s is behind its quote) and unescapes it in place. Returns how many bytes it took with the
 * closing quote, and the value's length. */
static size_t unquote(char *s, size_t len, size_t *ret_len)
{
    size_t in = 0, out = 0;

    while (in < len) {
        char c = s[in++];

        if (c == '"' && ends_at(s + in, len - in))
            break;
        if (c == '\\' && in < len && strchr("\"\\ntr", s[in])) {
            c = s[in++];
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
        s[out++] = c;
    }
    *ret_len = out;
    return in;
}

static bool is_number(const char *s, size_t len)
{
    size_t i = len > 0 && s[0] == '-', digits = 0, dots = 0;

    if (i + 1 < len && s[i] == '0' && s[i + 1] != '.')
        return false;
    for (; i < len; i++) {
        digits += isdigit((unsigned char)s[i]) != 0;
        dots += s[i] == '.' && digits > 0 && i + 1 < len;
    }
    return digits > 0 && digits <= 15 && dots <= 1 && digits + dots + (s[0] == '-') == len;
}

/* Keys that the log writes itself; a pair that calls itself so gets another name. */
static bool is_reserved(const struct kr_log_line *l, const char *key, size_t len)
{
    static const char *const names[] = {"request", "ts", "level", "who", "msg", "rest"};

    for (size_t i = l->has_request ? 0 : 1; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == len && memcmp(names[i], key, len) == 0)
            return true;
    return false;
}

/* One pair as a member. Returns the bytes it took. */
static size_t add_pair(struct kr_log_line *l, char *s, size_t len)
{
    size_t key_len = key_at(s, len), value_len = 0, took;
    char key[48], word[20];

    if (key_len == 0 || key_len > 32) { /* no pair at all: all of it is a text */
        kr_log_line_text(l, "rest", s, len, LOG_JSON_MAX, true);
        return len;
    }
    snprintf(key, sizeof key, "%s%.*s", is_reserved(l, s, key_len - 1) ? "field_" : "", (int)key_len - 1, s);
    s += key_len;
    len -= key_len;
    if (len > 0 && s[0] == '"') {
        took = 1 + unquote(s + 1, len - 1, &value_len);
        kr_log_line_text(l, key, s + 1, value_len, LOG_JSON_MAX, true);
        return key_len + took;
    }
    while (!ends_at(s + value_len, len - value_len))
        value_len++;
    if (is_number(s, value_len)) {
        snprintf(word, sizeof word, "%.*s", (int)value_len, s);
        kr_log_line_word(l, key, word);
    } else {
        kr_log_line_text(l, key, s, value_len, LOG_JSON_MAX, true);
    }
    return key_len + value_len;
}

void kr_log_line_pairs(struct kr_log_line *l, char *pairs, size_t len)
{
    blank_controls(pairs, len);
    if (l->json) {
        while (len > 0) {
            size_t took = pairs[0] == ' ' ? 1 : add_pair(l, pairs, len);

            pairs += took;
            len -= took;
        }
        return;
    }
    if (l->len + 1 >= l->room)
        return;
    l->text[l->len++] = ' ';
    len = len < l->room - l->len ? len : l->room - l->len;
    len = kr_utf8_complete(pairs, len);
    memcpy(l->text + l->len, pairs, len);
    l->len += len;
}

/* ---- keys ---- */

/* The length of what names a secret at s, with what stands between the name and its value, or 0. */
static size_t secret_name(const char *s, size_t len)
{
    static const char *const names[] = {"api_key", "api-key", "apikey", "password", "passwd", "secret", "token"};
    size_t n = 0;

    if (len > 7 && strncasecmp(s, "bearer ", 7) == 0)
        return 7;
    for (size_t i = 0; i < sizeof names / sizeof *names && n == 0; i++)
        if (len > strlen(names[i]) && strncasecmp(s, names[i], strlen(names[i])) == 0)
            n = strlen(names[i]);
    if (n == 0)
        return 0;
    while (n < len && strchr("\"'\\ ]", s[n]))
        n++;
    if (n == len || !strchr("=:", s[n]))
        return 0;
    while (n < len && strchr("=:\"'\\ ", s[n]))
        n++;
    return n;
}

/* kr_ or krt_ and the first eight characters behind it, by which a person knows a key again; 0 if it is none. */
static size_t own_key(const char *s, size_t len)
{
    size_t prefix = len > 4 && memcmp(s, "krt_", 4) == 0 ? 4 : len > 3 && memcmp(s, "kr_", 3) == 0 ? 3 : 0, n = prefix;

    while (prefix > 0 && n < len && isalnum((unsigned char)s[n]))
        n++;
    return prefix > 0 && n - prefix >= 24 ? prefix + 8 : 0;
}

/* Puts stars over values of secrets. In place and of the same length, so that the line stays well-formed. */
static void mask_secrets(char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        size_t n;

        if (i > 0 && isalnum((unsigned char)s[i - 1]))
            continue;
        n = own_key(s + i, len - i);
        if (n == 0)
            n = secret_name(s + i, len - i);
        if (n == 0)
            continue;
        for (i += n; i < len && !strchr("&,;)}] \"'\\", s[i]); i++)
            s[i] = '*';
    }
}

void kr_log_line_end(struct kr_log_line *l)
{
    mask_secrets(l->text, l->len);
    if (l->json)
        l->text[l->len++] = '}';
    l->text[l->len++] = '\n';
}

/* Values of secrets in what servers answer. See secret_mask.h.
 *
 * Every form of every value is a pattern. A place in the text is compared with patterns only if its first two bytes
 * begin one. A byte is covered once the scan has passed it, since a value may begin inside another. */
#include "secret_mask.h"
#include "base64.h"
#include "secret_terms.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORM_MAX (6 * KR_SECRET_VALUE_MAX + 16) /* the longest form of a value: \u00XX for each character */
#define PATTERNS_MAX (16 * KR_SECRETS_MAX)
#define COVER '*'

struct pattern {
    char *bytes; /* lower case */
    size_t len;
};

struct kr_secret_mask {
    struct pattern patterns[PATTERNS_MAX];
    size_t count, longest;
    size_t covered;          /* of the first bytes of the next call, by what began before them */
    uint8_t pairs[1u << 13]; /* a bit for every two bytes that begin a pattern */
};

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static unsigned pair_of(const char *p)
{
    return (unsigned)lower(p[0]) << 8 | lower(p[1]);
}

/* ---- patterns ---- */

static int add_pattern(struct kr_secret_mask *m, const char *bytes, size_t len)
{
    char *copy;
    unsigned pair;

    if (len < KR_SECRET_VALUE_MIN || m->count == PATTERNS_MAX)
        return 0;
    copy = malloc(len);
    if (!copy)
        return -ENOMEM;
    for (size_t i = 0; i < len; i++)
        copy[i] = (char)lower(bytes[i]);
    for (size_t i = 0; i < m->count; i++)
        if (m->patterns[i].len == len && memcmp(m->patterns[i].bytes, copy, len) == 0) {
            explicit_bzero(copy, len);
            free(copy);
            return 0;
        }
    m->patterns[m->count++] = (struct pattern){copy, len};
    if (len > m->longest)
        m->longest = len;
    pair = pair_of(copy);
    m->pairs[pair >> 3] |= (uint8_t)(1u << (pair & 7));
    return 0;
}

/* How a character is written in a form; "" is itself. */
typedef void spell_fn(char c, char out[8]);

static void write_as(char out[8], const char *text)
{
    snprintf(out, 8, "%s", text);
}

static void spell_percent(char c, char out[8])
{
    static const char digits[] = "0123456789abcdef";
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~", c);

    memcpy(out, (char[]){'%', digits[c >> 4 & 15], digits[c & 15], '\0'}, 4);
    if (plain)
        memcpy(out, (char[]){c, '\0'}, 2);
}

/* As forms do. */
static void spell_form(char c, char out[8])
{
    spell_percent(c, out);
    if (c == ' ')
        write_as(out, "+");
}

static void spell_json(char c, char out[8])
{
    memcpy(out, (char[]){'\\', c, '\0'}, 3);
    if (c != '"' && c != '\\')
        memcpy(out, (char[]){c, '\0'}, 2);
}

static void spell_json_slash(char c, char out[8])
{
    spell_json(c, out);
    if (c == '/')
        write_as(out, "\\/");
}

/* As writers of JSON do whose text may stand in HTML. */
static void spell_json_html(char c, char out[8])
{
    static const char digits[] = "0123456789abcdef";

    spell_json(c, out);
    if (strchr("<>&'", c))
        memcpy(out, (char[]){'\\', 'u', '0', '0', digits[c >> 4 & 15], digits[c & 15], '\0'}, 7);
}

static void spell_html(char c, char out[8])
{
    memcpy(out, (char[]){c, '\0'}, 2);
    if (c == '&')
        write_as(out, "&amp;");
    else if (c == '<')
        write_as(out, "&lt;");
    else if (c == '>')
        write_as(out, "&gt;");
    else if (c == '"')
        write_as(out, "&quot;");
    else if (c == '\'')
        write_as(out, "&#39;");
}

static void spell_html_hex(char c, char out[8])
{
    spell_html(c, out);
    if (c == '"')
        write_as(out, "&#34;");
    else if (c == '\'')
        write_as(out, "&#x27;");
}

static void spell_hex(char c, char out[8])
{
    static const char digits[] = "0123456789abcdef";

    memcpy(out, (char[]){digits[c >> 4 & 15], digits[c & 15], '\0'}, 3);
}

static int add_spelled(struct kr_secret_mask *m, const char *value, spell_fn *spell)
{
    char form[FORM_MAX], one[8];
    size_t len = 0;
    int r;

    for (; *value; value++) {
        size_t n;

        spell(*value, one);
        n = strlen(one);
        memcpy(form + len, one, n);
        len += n;
    }
    r = add_pattern(m, form, len);
    explicit_bzero(form, sizeof form);
    return r;
}

/* What base64 has of the value, whatever stands before and behind it: `before` is how many bytes of a group of three
 * do. */
static int add_base64(struct kr_secret_mask *m, const char *value, size_t before)
{
    char plain[KR_SECRET_VALUE_MAX + 3], text[KR_BASE64_ROOM(KR_SECRET_VALUE_MAX + 3)];
    size_t len = strlen(value), from = (before * 8 + 5) / 6, to = (before + len) * 8 / 6;
    int r;

    memset(plain, 0, before);
    memcpy(plain + before, value, len); // NOLINT(bugprone-not-null-terminated-result)
    kr_base64_encode(plain, before + len, text);
    r = add_pattern(m, text + from, to - from);
    for (size_t i = from; i < to; i++)
        text[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
    if (r == 0)
        r = add_pattern(m, text + from, to - from);
    explicit_bzero(plain, sizeof plain);
    explicit_bzero(text, sizeof text);
    return r;
}

int kr_secret_mask_add(struct kr_secret_mask *m, const char *value)
{
    static spell_fn *const spells[] = {spell_percent,   spell_form, spell_json,     spell_json_slash,
                                       spell_json_html, spell_html, spell_html_hex, spell_hex};
    int r = add_pattern(m, value, strlen(value));

    for (size_t i = 0; r == 0 && i < sizeof spells / sizeof *spells; i++)
        r = add_spelled(m, value, spells[i]);
    for (size_t before = 0; r == 0 && before < 3; before++)
        r = add_base64(m, value, before);
    return r;
}

int kr_secret_mask_new(struct kr_secret_mask **ret_mask)
{
    *ret_mask = calloc(1, sizeof **ret_mask);
    return *ret_mask ? 0 : -ENOMEM;
}

void kr_secret_mask_free(struct kr_secret_mask *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        explicit_bzero(m->patterns[i].bytes, m->patterns[i].len);
        free(m->patterns[i].bytes);
    }
    explicit_bzero(m, sizeof *m);
    free(m);
}

/* ---- the scan ---- */

static bool begins_same(const struct pattern *p, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (lower(bytes[i]) != (unsigned char)p->bytes[i])
            return false;
    return true;
}

/* How long the longest pattern is that stands here whole. *ret_open: one may begin here that is not whole yet. */
static size_t pattern_at(const struct kr_secret_mask *m, const char *bytes, size_t left, bool *ret_open)
{
    size_t longest = 0;

    *ret_open = false;
    if (left >= 2) {
        unsigned pair = pair_of(bytes);

        if (!(m->pairs[pair >> 3] & 1u << (pair & 7)))
            return 0;
    }
    for (size_t i = 0; i < m->count; i++) {
        const struct pattern *p = &m->patterns[i];

        if (p->len > left)
            *ret_open = *ret_open || begins_same(p, bytes, left);
        else if (p->len > longest && begins_same(p, bytes, p->len))
            longest = p->len;
    }
    return longest;
}

/* Returns where the scan stopped; *covered counts from there. */
static size_t scan(const struct kr_secret_mask *m, char *bytes, size_t len, bool end, size_t *covered)
{
    size_t cover = *covered, at = 0;

    for (; at < len; at++) {
        bool open;
        size_t n = pattern_at(m, bytes + at, len - at, &open);

        if (open && !end)
            break;
        if (at + n > cover)
            cover = at + n;
        if (at < cover)
            bytes[at] = COVER;
    }
    *covered = cover > at ? cover - at : 0;
    return at;
}

void kr_secret_mask_whole(const struct kr_secret_mask *m, char *bytes, size_t len)
{
    size_t covered = 0;

    (void)scan(m, bytes, len, true, &covered);
}

size_t kr_secret_mask_pass(struct kr_secret_mask *m, char *bytes, size_t len, bool end)
{
    return scan(m, bytes, len, end, &m->covered);
}

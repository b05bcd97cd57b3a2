/* Values of secrets in what servers answer. See secret_mask.h.
 *
 * Each form of each value is a pattern, whose characters are worked out when they are compared. A match is a value that
 * may have begun: its pattern, where in the text it began, how many of its characters are found. Matches wait at the
 * place in the text where their next character must stand; a character may take several bytes, so the places ahead have
 * lists of their own, in a ring. The scan takes each place once: it moves the matches there on, and begins others.
 *
 * How many matches there are: the first 8 characters of a value do not come again in it (secret_terms.h), so a text
 * that is written in one way has few. A value and a server that were chosen for it could have more, since an escape
 * can be read as a character or as its bytes: past MATCHES_MAX at one place the reply is given up. */
#include "secret_mask.h"
#include "secret_escape.h"
#include "secret_terms.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MATCHES_MAX 96u
#define RING (KR_SECRET_ESCAPE_MAX + 1)
#define FORMS 5u
#define PATTERNS_MAX (FORMS * KR_SECRETS_MAX)
#define NO_SEXTET 64u
#define COVER '*'

enum form {
    FORM_TEXT,     /* as it is, or with escapes */
    FORM_HEX,      /* hexadecimal digits */
    FORM_BASE64_0, /* what base64 has of it, if so many bytes of a group of three stand before it */
    FORM_BASE64_1,
    FORM_BASE64_2,
};

struct pattern {
    const char *value; /* borrowed */
    enum form form;
    uint16_t len; /* characters */
};

struct match {
    uint64_t begin; /* in the text */
    uint16_t found; /* characters */
    uint8_t pattern;
};

struct place {
    struct match matches[MATCHES_MAX];
    size_t count;
};

struct kr_secret_mask {
    struct pattern patterns[PATTERNS_MAX];
    size_t count;
    uint64_t begins[256]; /* for each byte: the patterns that it may begin, a bit each */
    struct place ring[RING];
    uint64_t base, at; /* in the text: the first byte that was not let go, and the first that was not scanned */
    uint64_t *steps, own_steps;
    /* Where in its list a match of this value and length was added last: two that meet are one. */
    uint8_t last[KR_SECRETS_MAX][KR_SECRET_VALUE_MAX + 1];
};

static_assert(PATTERNS_MAX <= 64, "a bit for each pattern");
static_assert(MATCHES_MAX <= UINT8_MAX, "places in a list are bytes");

/* ---- characters of patterns ---- */

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static unsigned sextet_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0') + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : NO_SEXTET;
}

/* The first six bits that a character of base64 has of the value alone are behind `before` whole bytes. */
static unsigned sextet_at(const struct pattern *p, size_t i)
{
    size_t before = p->form - FORM_BASE64_0, first = (before * 8 + 5) / 6, bit = (first + i) * 6 - before * 8;
    const char *v = p->value + bit / 8; /* its NUL stands in for a byte behind the last, of which no bit is taken */

    return ((unsigned)v[0] << 8 | (unsigned)v[1]) >> (10 - bit % 8) & 63;
}

static bool is_at(const struct pattern *p, size_t i, char c)
{
    char own;

    if (p->form >= FORM_BASE64_0)
        return sextet_of(c) == sextet_at(p, i);
    own = p->value[p->form == FORM_HEX ? i / 2 : i];
    if (p->form == FORM_TEXT)
        return lower(c) == lower(own) || (c == '+' && own == ' ');
    return lower(c) == (unsigned char)"0123456789abcdef"[own >> (i % 2 ? 0 : 4) & 15];
}

static void add_pattern(struct kr_secret_mask *m, const char *value, enum form form, size_t len)
{
    struct pattern *p = &m->patterns[m->count];
    uint64_t bit = UINT64_C(1) << m->count++;

    *p = (struct pattern){value, form, (uint16_t)len};
    for (unsigned byte = 0; byte < 256; byte++)
        if (is_at(p, 0, (char)byte) || (form == FORM_TEXT && byte && strchr(KR_SECRET_ESCAPES, (int)byte)))
            m->begins[byte] |= bit;
}

int kr_secret_mask_add(struct kr_secret_mask *m, const char *value)
{
    size_t len = strlen(value);

    if (m->count + FORMS > PATTERNS_MAX || len > KR_SECRET_VALUE_MAX)
        return -E2BIG;
    add_pattern(m, value, FORM_TEXT, len);
    add_pattern(m, value, FORM_HEX, 2 * len);
    for (size_t before = 0; before < 3; before++)
        add_pattern(m, value, FORM_BASE64_0 + before, (before + len) * 8 / 6 - (before * 8 + 5) / 6);
    return 0;
}

int kr_secret_mask_new(uint64_t *steps, struct kr_secret_mask **ret_mask)
{
    struct kr_secret_mask *m = calloc(1, sizeof *m);

    if (!m)
        return -ENOMEM;
    m->steps = steps ? steps : &m->own_steps;
    *ret_mask = m;
    return 0;
}

void kr_secret_mask_free(struct kr_secret_mask *m)
{
    free(m);
}

/* ---- the scan ---- */

/* 0 or -EOVERFLOW. */
static int add_match(struct kr_secret_mask *m, uint64_t at, const struct match *match)
{
    struct place *place = &m->ring[at % RING];

    if (m->patterns[match->pattern].form == FORM_TEXT) { /* no other form is read in two ways */
        uint8_t *last = &m->last[match->pattern / FORMS][match->found];
        struct match *met = &place->matches[*last];

        if (*last < place->count && met->pattern == match->pattern && met->found == match->found) {
            if (match->begin < met->begin)
                met->begin = match->begin;
            return 0;
        }
        *last = (uint8_t)place->count;
    }
    if (place->count == MATCHES_MAX)
        return -EOVERFLOW;
    place->matches[place->count++] = *match;
    return 0;
}

/* The next character of a match is compared with the byte here, and with the escape of `escape` bytes, if it is one. */
static int move_on(struct kr_secret_mask *m, const struct match *match, char byte, size_t escape, char escaped)
{
    const struct pattern *p = &m->patterns[match->pattern];
    struct match next = {match->begin, (uint16_t)(match->found + 1), match->pattern};
    int r = 0;

    ++*m->steps;
    if (is_at(p, match->found, byte))
        r = add_match(m, m->at + 1, &next);
    if (r == 0 && escape > 0 && p->form == FORM_TEXT && lower(escaped) == lower(p->value[match->found]))
        r = add_match(m, m->at + escape, &next);
    return r;
}

/* Covers what ends where the scan is. */
static void cover_found(struct kr_secret_mask *m, char *bytes)
{
    struct place *place = &m->ring[m->at % RING];
    size_t kept = 0;

    for (size_t i = 0; i < place->count; i++) {
        const struct match match = place->matches[i];

        if (match.found == m->patterns[match.pattern].len)
            memset(bytes + (match.begin - m->base), COVER, (size_t)(m->at - match.begin));
        else
            place->matches[kept++] = match;
    }
    place->count = kept;
}

/* Takes the byte where the scan is. 1; 0: an escape may begin here that is not whole; -EOVERFLOW. */
static int scan_byte(struct kr_secret_mask *m, const char *bytes, size_t left, bool end)
{
    struct place *place = &m->ring[m->at % RING];
    uint64_t begins = m->begins[(unsigned char)bytes[0]];
    char escaped = '\0';
    int escape = 0, r = 0;

    ++*m->steps;
    if (place->count > 0 || begins)
        escape = kr_secret_escape_read(bytes, left, &escaped);
    if (escape < 0 && !end)
        return 0;
    if (escape < 0)
        escape = 0;
    for (size_t i = 0; r == 0 && i < place->count; i++)
        r = move_on(m, &place->matches[i], bytes[0], (size_t)escape, escaped);
    for (; r == 0 && begins; begins &= begins - 1) {
        const struct match match = {m->at, 0, (uint8_t)__builtin_ctzll(begins)};

        r = move_on(m, &match, bytes[0], (size_t)escape, escaped);
    }
    place->count = 0;
    m->at++;
    return r < 0 ? r : 1;
}

/* How many bytes no match holds. */
static size_t count_free(const struct kr_secret_mask *m)
{
    uint64_t first = m->at;

    for (size_t i = 0; i < RING; i++) {
        *m->steps += m->ring[i].count;
        for (size_t k = 0; k < m->ring[i].count; k++)
            if (m->ring[i].matches[k].begin < first)
                first = m->ring[i].matches[k].begin;
    }
    return (size_t)(first - m->base);
}

ssize_t kr_secret_mask_pass(struct kr_secret_mask *m, char *bytes, size_t len, bool end)
{
    uint64_t to = m->base + len;
    size_t gone = len;
    int r = 1;

    for (;;) {
        cover_found(m, bytes);
        if (r == 0 || m->at == to)
            break;
        r = scan_byte(m, bytes + (m->at - m->base), (size_t)(to - m->at), end);
        if (r < 0)
            return r;
    }
    if (end)
        for (size_t i = 0; i < RING; i++)
            m->ring[i].count = 0;
    else
        gone = count_free(m);
    m->base += gone;
    return (ssize_t)gone;
}

int kr_secret_mask_whole(struct kr_secret_mask *m, char *bytes, size_t len)
{
    ssize_t n = kr_secret_mask_pass(m, bytes, len, true);

    return n < 0 ? (int)n : 0;
}

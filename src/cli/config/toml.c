/* The TOML reader.
 *
 * Called by config_load.c and fuzzed by tests/fuzz/fuzz-toml.c. Invariant: a pair is handed over only when its line has
 * been read to the end, so that half a value never counts; whatever is not the subset is refused with its line. */
#include "toml.h"
#include "buf.h"
#include "fd.h"
#include "plain.h"
#include "utf8.h"
#include <assert.h>
#include <errno.h>
#include <string.h>

const char *const kr_toml_type_names[] = {
    [KR_TOML_STRING] = "string",
    [KR_TOML_INTEGER] = "whole number",
    [KR_TOML_BOOLEAN] = "boolean",
    [KR_TOML_ARRAY] = "array of strings",
};
static_assert(sizeof kr_toml_type_names / sizeof *kr_toml_type_names == KR_TOML_TYPE_MAX_, "every type has its word");

/* Where a name stands in the text; a header's `section` is its own number. */
struct seen {
    unsigned section, line;
    const char *name;
    size_t len;
    bool is_header;
};

struct parser {
    struct kr_plain in;
    unsigned section; /* number of the header we are under; 0 before the first */
    char section_name[KR_TOML_NAME_MAX + 1];
    struct seen seen[KR_TOML_KEYS_MAX];
    size_t seen_count;
    struct kr_buf strings; /* the value's strings, each with its NUL */
    size_t offsets[KR_TOML_ITEMS_MAX];
    size_t count;
};

static bool looking_at(const struct parser *p, const char *word)
{
    size_t len = strlen(word);

    return (size_t)(p->in.end - p->in.at) >= len && memcmp(p->in.at, word, len) == 0;
}

/* Blanks and a comment, up to the line's end or the text's. */
static void skip_rest(struct parser *p)
{
    kr_plain_skip_blanks(&p->in);
    if (kr_plain_here(&p->in) == '#')
        while (p->in.at < p->in.end && *p->in.at != '\n' && *p->in.at != '\r')
            p->in.at++;
}

static bool take_newline(struct parser *p)
{
    if (kr_plain_here(&p->in) == '\r')
        p->in.at++; /* a \n follows: checked beforehand */
    if (kr_plain_here(&p->in) != '\n')
        return false;
    p->in.at++;
    p->in.line++;
    return true;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Where a key or section begins, and its length; NULL if that is none, and the error is set. */
static const char *take_name(struct parser *p, const char *what, size_t *ret_len)
{
    const char *start = p->in.at;

    while (is_name_byte(kr_plain_here(&p->in)))
        p->in.at++;
    *ret_len = (size_t)(p->in.at - start);
    if (*ret_len == 0 && (kr_plain_here(&p->in) == '"' || kr_plain_here(&p->in) == '\''))
        kr_plain_fail(&p->in, "quoted names are not read; a %s is letters, digits, '_' and '-'", what);
    else if (*ret_len == 0)
        kr_plain_fail(&p->in, "a %s is missing", what);
    else if (kr_plain_here(&p->in) == '.')
        kr_plain_fail(&p->in, "dotted names are not read; write [section] and the key below it");
    else if (*ret_len > KR_TOML_NAME_MAX)
        kr_plain_fail(&p->in, "a %s may have %u characters", what, KR_TOML_NAME_MAX);
    else
        return start;
    return NULL;
}

/* Notes the name; -EINVAL if it is there already. */
static int remember_key(struct parser *p, const char *name, size_t len, bool is_header)
{
    for (size_t i = 0; i < p->seen_count; i++) {
        const struct seen *s = &p->seen[i];

        if (s->is_header == is_header && (is_header || s->section == p->section) && s->len == len &&
            memcmp(s->name, name, len) == 0)
            return kr_plain_fail(&p->in, "%s '%.*s' is there already, in line %u", is_header ? "section" : "key",
                                 (int)len, name, s->line);
    }
    if (p->seen_count == KR_TOML_KEYS_MAX)
        return kr_plain_fail(&p->in, "there may be %u keys and sections", KR_TOML_KEYS_MAX);
    p->seen[p->seen_count++] =
        (struct seen){.section = p->section, .line = p->in.line, .name = name, .len = len, .is_header = is_header};
    return 0;
}

/* ---- strings ---- */

static int add_bytes(struct parser *p, size_t start, const char *data, size_t len)
{
    if (p->strings.len - start + len > KR_TOML_STRING_MAX)
        return kr_plain_fail(&p->in, "a string may have %u bytes", KR_TOML_STRING_MAX);
    if (kr_buf_add(&p->strings, data, len) < 0)
        return kr_plain_fail(&p->in, "the strings of a value may have %zu bytes", p->strings.max);
    return 0;
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* \u0041 and \U0001F40D, behind the letter. */
static int take_code_point(struct parser *p, size_t start, int digits)
{
    uint32_t c = 0;
    char bytes[4];

    for (int i = 0; i < digits; i++) {
        int value = hex_value(kr_plain_here(&p->in));

        if (value < 0)
            return kr_plain_fail(&p->in, "an escape needs %d hexadecimal digits", digits);
        c = c << 4 | (uint32_t)value;
        p->in.at++;
    }
    if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return kr_plain_fail(&p->in, "U+%04X is not a character that a string may have", c);
    return add_bytes(p, start, bytes, kr_utf8_put(c, bytes));
}

static int take_escape(struct parser *p, size_t start)
{
    static const char letters[] = "btnfr\"\\", means[] = "\b\t\n\f\r\"\\";
    const char *found;
    char c;

    p->in.at++; /* the backslash */
    c = kr_plain_here(&p->in);
    if (c == '\0' || c == '\n' || c == '\r')
        return kr_plain_fail(&p->in, "the string has no end on its line");
    p->in.at++;
    if (c == 'u' || c == 'U')
        return take_code_point(p, start, c == 'u' ? 4 : 8);
    found = strchr(letters, c);
    if (!found)
        return kr_plain_fail(&p->in, "there is no such escape; a backslash itself is \\\\, or use 'single quotes'");
    return add_bytes(p, start, &means[found - letters], 1);
}

/* Adds one string to p->strings, with its NUL. */
static int take_string(struct parser *p)
{
    char quote = kr_plain_here(&p->in);
    size_t start = p->strings.len;
    int r = 0;

    if (looking_at(p, "\"\"\"") || looking_at(p, "'''"))
        return kr_plain_fail(&p->in, "strings over several lines are not read");
    p->in.at++;
    while (r == 0 && kr_plain_here(&p->in) != quote) {
        size_t len = 0;

        if (p->in.at == p->in.end || kr_plain_here(&p->in) == '\n' || kr_plain_here(&p->in) == '\r')
            return kr_plain_fail(&p->in, "the string has no end on its line");
        if (quote == '"' && kr_plain_here(&p->in) == '\\') {
            r = take_escape(p, start);
            continue;
        }
        while (p->in.at + len < p->in.end && p->in.at[len] != quote && p->in.at[len] != '\n' && p->in.at[len] != '\r' &&
               (quote != '"' || p->in.at[len] != '\\'))
            len++;
        r = add_bytes(p, start, p->in.at, len);
        p->in.at += len;
    }
    if (r < 0)
        return r;
    p->in.at++;
    if (kr_buf_add(&p->strings, "", 1) < 0)
        return kr_plain_fail(&p->in, "the strings of a value may have %zu bytes", p->strings.max);
    return 0;
}

/* ---- the other values ---- */

static int take_integer(struct parser *p, int64_t *ret)
{
    bool negative = kr_plain_here(&p->in) == '-';
    const char *digits;
    int64_t value = 0;

    if (negative || kr_plain_here(&p->in) == '+')
        p->in.at++;
    digits = p->in.at;
    for (; (kr_plain_here(&p->in) >= '0' && kr_plain_here(&p->in) <= '9') || kr_plain_here(&p->in) == '_'; p->in.at++) {
        int digit = kr_plain_here(&p->in) - '0';

        if (kr_plain_here(&p->in) == '_') {
            if (p->in.at == digits || p->in.at + 1 == p->in.end || p->in.at[1] < '0' || p->in.at[1] > '9')
                return kr_plain_fail(&p->in, "'_' may stand between digits only");
            continue;
        }
        if (__builtin_mul_overflow(value, 10, &value) ||
            (negative ? __builtin_sub_overflow(value, digit, &value) : __builtin_add_overflow(value, digit, &value)))
            return kr_plain_fail(&p->in, "the number is too large");
    }
    if (p->in.at == digits)
        return kr_plain_fail(&p->in, "a value is missing or is none krait reads: \"text\", 12, true, [\"a\", \"b\"]");
    if (*digits == '0' && p->in.at - digits > 1)
        return kr_plain_fail(&p->in, "a number has no leading zero");
    if (is_name_byte(kr_plain_here(&p->in)) || kr_plain_here(&p->in) == '.' || kr_plain_here(&p->in) == ':')
        return kr_plain_fail(
            &p->in, "is not a whole number; sizes, times and fractions are strings: \"1.5G\", \"30s\", \"0.5\"");
    *ret = value;
    return 0;
}

/* Blanks, comments and line ends within an array. */
static void skip_lines(struct parser *p)
{
    do
        skip_rest(p);
    while (take_newline(p));
}

static int take_array(struct parser *p)
{
    p->in.at++; /* [ */
    for (;;) {
        int r;

        skip_lines(p);
        if (kr_plain_here(&p->in) == ']')
            break;
        if (kr_plain_here(&p->in) != '"' && kr_plain_here(&p->in) != '\'')
            return kr_plain_fail(&p->in,
                                 p->in.at == p->in.end ? "the array has no end" : "an array may have strings only");
        if (p->count == KR_TOML_ITEMS_MAX)
            return kr_plain_fail(&p->in, "an array may have %u strings", KR_TOML_ITEMS_MAX);
        p->offsets[p->count] = p->strings.len;
        r = take_string(p);
        if (r < 0)
            return r;
        p->count++;
        skip_lines(p);
        if (kr_plain_here(&p->in) == ',')
            p->in.at++;
        else if (kr_plain_here(&p->in) != ']')
            return kr_plain_fail(&p->in, p->in.at == p->in.end ? "the array has no end"
                                                               : "a comma or ']' is missing in the array");
    }
    p->in.at++;
    return 0;
}

static int take_toml_value(struct parser *p, struct kr_toml_value *v)
{
    kr_buf_reset(&p->strings);
    p->count = 0;
    if (kr_plain_here(&p->in) == '"' || kr_plain_here(&p->in) == '\'') {
        v->type = KR_TOML_STRING;
        return take_string(p);
    }
    if (kr_plain_here(&p->in) == '[') {
        v->type = KR_TOML_ARRAY;
        return take_array(p);
    }
    if (kr_plain_here(&p->in) == '{')
        return kr_plain_fail(&p->in, "inline tables are not read; write [section] and the keys below it");
    if (looking_at(p, "true") || looking_at(p, "false")) {
        v->type = KR_TOML_BOOLEAN;
        v->boolean = kr_plain_here(&p->in) == 't';
        p->in.at += v->boolean ? 4 : 5;
        return is_name_byte(kr_plain_here(&p->in)) ? kr_plain_fail(&p->in, "a string needs quotes") : 0;
    }
    if (is_name_byte(kr_plain_here(&p->in)) && kr_plain_here(&p->in) != '-' &&
        (kr_plain_here(&p->in) < '0' || kr_plain_here(&p->in) > '9'))
        return kr_plain_fail(&p->in, "a string needs quotes");
    v->type = KR_TOML_INTEGER;
    return take_integer(p, &v->integer);
}

/* ---- lines ---- */

static int end_of_line(struct parser *p)
{
    skip_rest(p);
    if (p->in.at < p->in.end && kr_plain_here(&p->in) != '\n' && kr_plain_here(&p->in) != '\r')
        return kr_plain_fail(&p->in, "there is more on the line than belongs there");
    return 0;
}

static int take_header(struct parser *p)
{
    const char *name;
    size_t len;
    int r;

    p->in.at++; /* [ */
    if (kr_plain_here(&p->in) == '[')
        return kr_plain_fail(&p->in, "arrays of tables are not read");
    kr_plain_skip_blanks(&p->in);
    name = take_name(p, "section", &len);
    if (!name)
        return -EINVAL;
    kr_plain_skip_blanks(&p->in);
    if (kr_plain_here(&p->in) != ']')
        return kr_plain_fail(&p->in, "']' is missing behind the section's name");
    p->in.at++;
    r = end_of_line(p);
    if (r >= 0)
        r = remember_key(p, name, len, true);
    if (r < 0)
        return r;
    p->section++;
    memcpy(p->section_name, name, len);
    p->section_name[len] = '\0';
    return 0;
}

static int hand_over(struct parser *p, const char *key, struct kr_toml_value *v, unsigned line, kr_toml_pair *pair,
                     void *data)
{
    const char *items[KR_TOML_ITEMS_MAX];
    int r;

    for (size_t i = 0; i < p->count; i++)
        items[i] = kr_buf_str(&p->strings) + p->offsets[i];
    v->items = items;
    v->count = p->count;
    v->string = v->type == KR_TOML_STRING ? kr_buf_str(&p->strings) : NULL;
    r = pair(data, p->section_name, key, v, line, p->in.err);
    return r < 0 ? kr_err_wrap(p->in.err, r, "%.100s:%u", p->in.name, line) : 0;
}

static int take_pair(struct parser *p, kr_toml_pair *pair, void *data)
{
    struct kr_toml_value v = {0};
    char key[KR_TOML_NAME_MAX + 1];
    unsigned line = p->in.line;
    size_t len;
    const char *name = take_name(p, "key", &len);
    int r;

    if (!name)
        return -EINVAL;
    kr_plain_skip_blanks(&p->in);
    if (kr_plain_here(&p->in) != '=')
        return kr_plain_fail(&p->in, "'=' is missing behind '%.*s'", (int)len, name);
    p->in.at++;
    kr_plain_skip_blanks(&p->in);
    r = remember_key(p, name, len, false);
    if (r >= 0)
        r = take_toml_value(p, &v);
    if (r >= 0)
        r = end_of_line(p);
    if (r < 0)
        return r;
    memcpy(key, name, len);
    key[len] = '\0';
    return hand_over(p, key, &v, line, pair, data);
}

int kr_toml_parse(const char *name, const char *text, size_t len, kr_toml_pair *pair, void *data, struct kr_err *err)
{
    cleanup_free struct parser *p = calloc(1, sizeof *p);
    int r = kr_plain_check(name, text, len, KR_TOML_TEXT_MAX, err);

    if (r < 0)
        return r;
    if (!p)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "%.100s", name);
    *p = (struct parser){.in = {.name = name, .at = text, .end = text + len, .line = 1, .err = err}};
    kr_buf_init(&p->strings, KR_TOML_TEXT_MAX);
    while (r >= 0) {
        skip_rest(p);
        if (take_newline(p))
            continue;
        if (p->in.at == p->in.end)
            break;
        r = kr_plain_here(&p->in) == '[' ? take_header(p) : take_pair(p, pair, data);
    }
    if (p->strings.data)
        explicit_bzero(p->strings.data, p->strings.cap); /* there may be a key among them */
    kr_buf_done(&p->strings);
    return r;
}

/* The reader of `.env` files.
 *
 * Called by config_load.c and fuzzed by tests/fuzz/fuzz-dotenv.c. Invariant: a value is what is written, never what
 * something else would make of it: where a shell or another reader would put something in its origin, the line is
 * refused. */
#include "dotenv.h"
#include "fd.h"
#include "plain.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct parser {
    struct kr_plain in; /* its end is that of the line */
    size_t value_len;
    char value[KR_DOTENV_VALUE_MAX + 1];
    size_t count;
    struct {
        const char *name;
        size_t len;
        unsigned line;
    } seen[KR_DOTENV_NAMES_MAX];
};

static bool is_name_byte(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

static int add_byte(struct parser *p, char c)
{
    if (p->value_len == KR_DOTENV_VALUE_MAX)
        return kr_plain_fail(&p->in, "a value may have %u bytes", KR_DOTENV_VALUE_MAX);
    p->value[p->value_len++] = c;
    return 0;
}

/* A shell would replace it: ${NAME}, $NAME, $1, $(command), `command`. */
static bool would_be_replaced(const struct parser *p)
{
    char next = p->in.at + 1 < p->in.end ? p->in.at[1] : '\0';

    return kr_plain_here(&p->in) == '`' ||
           (kr_plain_here(&p->in) == '$' && next != '\0' && next != ' ' && next != '\t' && next != '"');
}

static int refuse_replacing(struct parser *p)
{
    return kr_plain_fail(&p->in, "nothing is substituted here; 'single quotes' keep a $ or ` as it is");
}

static int take_single(struct parser *p)
{
    for (p->in.at++; kr_plain_here(&p->in) != '\''; p->in.at++) {
        int r =
            p->in.at == p->in.end ? kr_plain_fail(&p->in, "the quote has no end on its line") : add_byte(p, *p->in.at);

        if (r < 0)
            return r;
    }
    p->in.at++;
    return 0;
}

static int take_double(struct parser *p)
{
    static const char letters[] = "nrt\"\\$", means[] = "\n\r\t\"\\$";

    for (p->in.at++; kr_plain_here(&p->in) != '"'; p->in.at++) {
        const char *found;
        char c = kr_plain_here(&p->in);
        int r;

        if (p->in.at == p->in.end)
            return kr_plain_fail(&p->in, "the quote has no end on its line");
        if (would_be_replaced(p))
            return refuse_replacing(p);
        if (c == '\\') {
            p->in.at++;
            found = p->in.at < p->in.end ? strchr(letters, *p->in.at) : NULL;
            if (!found)
                return kr_plain_fail(&p->in,
                                     "there is no such escape; a backslash itself is \\\\, or use 'single quotes'");
            c = means[found - letters];
        }
        r = add_byte(p, c);
        if (r < 0)
            return r;
    }
    p->in.at++;
    return 0;
}

/* Up to a blank with a # behind it, or the end; blanks at the end do not count. */
static int take_bare(struct parser *p)
{
    for (; p->in.at < p->in.end; p->in.at++) {
        int r;

        if (*p->in.at == '#' && p->value_len > 0 && (p->in.at[-1] == ' ' || p->in.at[-1] == '\t'))
            break;
        if (*p->in.at == '\\')
            return kr_plain_fail(&p->in, "a value with a backslash needs quotes");
        if (would_be_replaced(p))
            return refuse_replacing(p);
        r = add_byte(p, *p->in.at);
        if (r < 0)
            return r;
    }
    while (p->value_len > 0 && (p->value[p->value_len - 1] == ' ' || p->value[p->value_len - 1] == '\t'))
        p->value_len--;
    return 0;
}

static int take_env_value(struct parser *p)
{
    int r;

    p->value_len = 0;
    kr_plain_skip_blanks(&p->in);
    if (kr_plain_here(&p->in) == '#')
        p->in.at = p->in.end; /* NAME= # comment */
    else if (kr_plain_here(&p->in) == '\'' || kr_plain_here(&p->in) == '"') {
        r = kr_plain_here(&p->in) == '\'' ? take_single(p) : take_double(p);
        if (r < 0)
            return r;
        kr_plain_skip_blanks(&p->in);
        if (p->in.at < p->in.end && kr_plain_here(&p->in) != '#')
            return kr_plain_fail(&p->in, "there is more on the line than the quoted value");
    } else {
        r = take_bare(p);
        if (r < 0)
            return r;
    }
    p->value[p->value_len] = '\0';
    return 0;
}

/* Where the name begins, and its length; NULL if there is none, and the error is set. */
static const char *take_name(struct parser *p, size_t *ret_len)
{
    const char *start = p->in.at;

    while (is_name_byte(kr_plain_here(&p->in), p->in.at == start))
        p->in.at++;
    *ret_len = (size_t)(p->in.at - start);
    if (*ret_len == 0)
        kr_plain_fail(&p->in, "a line is NAME=value");
    else if (*ret_len > KR_DOTENV_NAME_MAX)
        kr_plain_fail(&p->in, "a name may have %u characters", KR_DOTENV_NAME_MAX);
    else
        return start;
    return NULL;
}

static int remember_name(struct parser *p, const char *name, size_t len)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->seen[i].len == len && memcmp(p->seen[i].name, name, len) == 0)
            return kr_plain_fail(&p->in, "'%.*s' is there already, in line %u", (int)len, name, p->seen[i].line);
    if (p->count == KR_DOTENV_NAMES_MAX)
        return kr_plain_fail(&p->in, "there may be %u names", KR_DOTENV_NAMES_MAX);
    p->seen[p->count].name = name;
    p->seen[p->count].len = len;
    p->seen[p->count++].line = p->in.line;
    return 0;
}

static int take_env_line(struct parser *p, kr_dotenv_pair *pair, void *data)
{
    char name[KR_DOTENV_NAME_MAX + 1];
    const char *start;
    size_t len;
    int r;

    kr_plain_skip_blanks(&p->in);
    if (p->in.at == p->in.end || kr_plain_here(&p->in) == '#')
        return 0;
    if (p->in.end - p->in.at > 7 && memcmp(p->in.at, "export", 6) == 0 && (p->in.at[6] == ' ' || p->in.at[6] == '\t')) {
        p->in.at += 6;
        kr_plain_skip_blanks(&p->in);
    }
    start = take_name(p, &len);
    if (!start)
        return -EINVAL;
    kr_plain_skip_blanks(&p->in);
    if (kr_plain_here(&p->in) != '=')
        return kr_plain_fail(&p->in, "'=' is missing behind '%.*s'", (int)len, start);
    p->in.at++;
    r = remember_name(p, start, len);
    if (r >= 0)
        r = take_env_value(p);
    if (r < 0)
        return r;
    memcpy(name, start, len);
    name[len] = '\0';
    r = pair(data, name, p->value, p->in.line, p->in.err);
    return r < 0 ? kr_err_wrap(p->in.err, r, "%.100s:%u", p->in.name, p->in.line) : 0;
}

int kr_dotenv_parse(const char *file, const char *text, size_t len, kr_dotenv_pair *pair, void *data,
                    struct kr_err *err)
{
    cleanup_free struct parser *p = calloc(1, sizeof *p);
    const char *end = text + len;
    int r = kr_plain_check(file, text, len, KR_DOTENV_TEXT_MAX, err);

    if (r < 0)
        return r;
    if (!p)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "%.100s", file);
    *p = (struct parser){.in = {.name = file, .err = err}};
    while (r >= 0 && text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));

        p->in.at = text;
        p->in.end = newline ? newline : end;
        if (p->in.end > p->in.at && p->in.end[-1] == '\r')
            p->in.end--;
        p->in.line++;
        r = take_env_line(p, pair, data);
        text = newline ? newline + 1 : end;
    }
    explicit_bzero(p->value, sizeof p->value); /* the last one may be a key */
    return r;
}

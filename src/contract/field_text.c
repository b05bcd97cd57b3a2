/* Texts as values: the numbers and words of queries, forms and defaults. Called by field_value.c and field_check.c.
 *
 * Invariant: the whole text is the value, or there is none. */
#include "field_internal.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TARGET(type_) ((type_ *)(void *)((char *)request + f->offset))

/* ---- numbers from text ---- */

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t\r\n");
}

bool kr_api_int_of(const char *text, bool lenient, int64_t *ret_value)
{
    const char *s = lenient ? skip_blanks(text) : text;
    long long value;
    char *end;

    if (s[strspn(s, "+-")] < '0' || s[strspn(s, "+-")] > '9' || strspn(s, "+-") > 1)
        return false;
    errno = 0;
    value = strtoll(s, &end, 10);
    if (errno)
        return false;
    if (lenient && *end == '.')
        end += 1 + strspn(end + 1, "0");
    if (lenient)
        end = (char *)skip_blanks(end);
    if (*end)
        return false;
    *ret_value = value;
    return true;
}

bool kr_api_number_of(const char *text, bool lenient, double *ret_value)
{
    const char *s = lenient ? skip_blanks(text) : text;
    size_t len = strspn(s, "0123456789+-.eE"); /* no hexadecimal, no words */
    double value;
    char *end;

    if (!len)
        return false;
    value = strtod(s, &end);
    if (end != s + len || !isfinite(value))
        return false;
    if (*(lenient ? skip_blanks(end) : end))
        return false;
    *ret_value = value;
    return true;
}

/* "true", "1" and, of the documents, what pydantic takes. -1: neither. */
int kr_api_bool_of(const char *text, bool lenient)
{
    static const struct {
        const char *word;
        int value;
        bool strict;
    } words[] = {{"true", 1, true}, {"false", 0, true}, {"1", 1, true},   {"0", 0, true},
                 {"yes", 1, false}, {"no", 0, false},   {"on", 1, false}, {"off", 0, false},
                 {"t", 1, false},   {"f", 0, false},    {"y", 1, false},  {"n", 0, false}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if ((words[i].strict || lenient) &&
            (lenient ? strcasecmp(words[i].word, text) : strcmp(words[i].word, text)) == 0)
            return words[i].value;
    return -1;
}

int kr_api_choice_of(const char *const *choices, const char *word)
{
    for (int i = 0; choices[i]; i++)
        if (strcmp(choices[i], word) == 0)
            return i;
    return -1;
}

/* ---- what stands for nothing ---- */

void kr_api_fill_default(const struct kr_api_field *f, void *request)
{
    const char *def = f->def;

    switch (f->type) {
    case KR_API_STRING:
        *TARGET(const char *) = def;
        break;
    case KR_API_TEXT:
        *TARGET(struct kr_text) = (struct kr_text){def, def ? strlen(def) : 0};
        break;
    case KR_API_INT:
        *TARGET(int64_t) = def ? strtoll(def, NULL, 10) : 0;
        break;
    case KR_API_NUMBER:
        *TARGET(double) = def ? strtod(def, NULL) : 0;
        break;
    case KR_API_BOOL:
        *TARGET(bool) = def && strcmp(def, "true") == 0;
        break;
    case KR_API_ENUM:
        *TARGET(int) = def ? kr_api_choice_of(f->choices, def) : -1;
        break;
    case KR_API_OBJECT:
    case KR_API_MAP:
    case KR_API_STRINGS:
    case KR_API_ARRAY:
    case KR_API_ANY:
    case KR_API_TYPE_MAX_:
        break; /* zeroed */
    }
}

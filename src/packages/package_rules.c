/* Judges names: the block list first, then modules of Python, then names that resemble a popular one.
 *
 * Called by jobs. Invariant: a verdict depends on the name and the rules alone, never on the index: what is questioned
 * is questioned before a byte is fetched. */
#include "package_rules.h"
#include "package_rules_internal.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shorter popular names have too many neighbours that are meant. */
#define EDIT_LENGTH_MIN 5u
/* What is left of a name without its prefix must still say something. */
#define STEM_MIN 3u

const char *const kr_package_verdict_names[KR_PACKAGE_VERDICT_MAX_] = {
    [KR_PACKAGE_FINE] = "fine",
    [KR_PACKAGE_BLOCKED] = "blocked",
    [KR_PACKAGE_STDLIB] = "stdlib",
    [KR_PACKAGE_QUESTIONED] = "questioned",
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, *(const char *const *)b);
}

static const char *find_name(const char *name, const char *const *table, size_t count)
{
    const char *const *found = bsearch(name, table, count, sizeof *table, compare_names);

    return found ? *found : NULL;
}

bool kr_package_is_stdlib(const char *module)
{
    return find_name(module, kr_package_stdlib, kr_package_stdlib_count) != NULL;
}

bool kr_package_is_popular(const char *canonical)
{
    return find_name(canonical, kr_package_popular, kr_package_popular_count) != NULL;
}

/* ---- look-alikes ---- */

/* One letter changed, added, left out, or two neighbours exchanged (Damerau). */
static bool is_one_edit_away(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), same = 0, end = 0;

    if (n > m + 1 || m > n + 1)
        return false;
    while (a[same] && a[same] == b[same])
        same++;
    while (end < n - same && end < m - same && a[n - 1 - end] == b[m - 1 - end])
        end++;
    n -= same + end;
    m -= same + end;
    if (n <= 1 && m <= 1)
        return n + m > 0;
    return n == 2 && m == 2 && a[same] == b[same + 1] && a[same + 1] == b[same];
}

static bool strip_prefix(const char **name, size_t *len, const char *prefix)
{
    size_t n = strlen(prefix);

    if (*len < n + STEM_MIN || strncmp(*name, prefix, n) != 0)
        return false;
    *name += n;
    *len -= n;
    return true;
}

static bool strip_suffix(const char *name, size_t *len, const char *suffix)
{
    size_t n = strlen(suffix);

    if (*len < n + STEM_MIN || strncmp(name + *len - n, suffix, n) != 0)
        return false;
    *len -= n;
    return true;
}

/* What is left of a name when everything is taken away that is easily mistaken: separators, python- or py in front,
 * -python or -py behind, doubled letters, digits that look like letters. */
static void fold_name(const char *name, char out[KR_REQ_NAME_ROOM])
{
    static const struct {
        char digit, letter;
    } likes[] = {{'0', 'o'}, {'1', 'l'}, {'3', 'e'}, {'5', 's'}};
    size_t len = strlen(name), n = 0;

    if (!strip_prefix(&name, &len, "python-") && !strip_prefix(&name, &len, "py-") &&
        !strip_prefix(&name, &len, "python"))
        strip_prefix(&name, &len, "py");
    if (!strip_suffix(name, &len, "-python3") && !strip_suffix(name, &len, "-python"))
        strip_suffix(name, &len, "-py");
    for (size_t i = 0; i < len; i++) {
        char c = name[i];

        for (size_t k = 0; k < sizeof likes / sizeof *likes; k++)
            c = c == likes[k].digit ? likes[k].letter : c;
        if (c != '-' && (n == 0 || out[n - 1] != c))
            out[n++] = c;
    }
    out[n] = '\0';
}

const char *kr_package_lookalike(const char *canonical)
{
    char folded[KR_REQ_NAME_ROOM], other[KR_REQ_NAME_ROOM];
    const char *near = NULL;

    if (strlen(canonical) >= KR_REQ_NAME_ROOM || kr_package_is_popular(canonical))
        return NULL;
    fold_name(canonical, folded);
    for (size_t i = 0; i < kr_package_popular_count; i++) {
        const char *popular = kr_package_popular[i];

        fold_name(popular, other);
        if (strcmp(folded, other) == 0)
            return popular; /* more alike than any neighbour */
        if (!near && strlen(popular) >= EDIT_LENGTH_MIN && is_one_edit_away(canonical, popular))
            near = popular;
    }
    return near;
}

/* ---- verdicts ---- */

static bool is_blocked(const struct kr_package_rules *rules, const char *canonical)
{
    char word[KR_REQ_NAME_ROOM];

    for (size_t i = 0; i < rules->blocked.count; i++) {
        const char *item = rules->blocked.items[i];

        if (kr_requirement_canonical(item, strlen(item), word) && strcmp(word, canonical) == 0)
            return true;
    }
    return false;
}

/* The module that a canonical name could stand for, or NULL: "concurrent-futures" is none. */
static const char *stdlib_of(const char *canonical)
{
    char module[KR_REQ_NAME_ROOM];

    snprintf(module, sizeof module, "%s", canonical);
    for (char *c = module; *c; c++)
        *c = *c == '-' ? '_' : *c;
    return find_name(module, kr_package_stdlib, kr_package_stdlib_count);
}

static void say_blocked(const char *name, const char *module, struct kr_package_judgement *j)
{
    j->verdict = KR_PACKAGE_BLOCKED;
    snprintf(j->text, sizeof j->text, "Package %s is blocked for security reasons%s%s%s", name,
             module ? " (it is a module of Python itself: `import " : "", module ? module : "",
             module ? "` works without installing anything)" : "");
}

void kr_package_judge(const struct kr_package_rules *rules, const struct kr_requirement *r,
                      struct kr_package_judgement *ret_judgement)
{
    const char *module = stdlib_of(r->canonical), *like;

    *ret_judgement = (struct kr_package_judgement){.verdict = KR_PACKAGE_FINE};
    if (is_blocked(rules, r->canonical)) {
        say_blocked(r->name, module, ret_judgement);
    } else if (module) {
        ret_judgement->verdict = KR_PACKAGE_STDLIB;
        snprintf(ret_judgement->text, sizeof ret_judgement->text,
                 "%s is a module of Python itself: `import %s` works without installing anything", r->name, module);
    } else if (!rules->allow_similar && !r->insists && (like = kr_package_lookalike(r->canonical))) {
        ret_judgement->verdict = KR_PACKAGE_QUESTIONED;
        snprintf(ret_judgement->resembles, sizeof ret_judgement->resembles, "%s", like);
        snprintf(
            ret_judgement->text, sizeof ret_judgement->text,
            "\"%s\" looks like \"%s\", which is well known, and was not installed. Install \"%s\" if you mean that "
            "one; if you do mean \"%s\", ask for \"%s!\" or set allow_similar to true",
            r->name, like, like, r->name, r->name);
    }
}

void kr_package_judge_name(const struct kr_package_rules *rules, const char *name,
                           struct kr_package_judgement *ret_judgement)
{
    char canonical[KR_REQ_NAME_ROOM];

    *ret_judgement = (struct kr_package_judgement){.verdict = KR_PACKAGE_FINE};
    if (kr_requirement_canonical(name, strlen(name), canonical) && is_blocked(rules, canonical))
        say_blocked(name, stdlib_of(canonical), ret_judgement);
}

/* PEP 440: reading versions in every spelling, their order, and what a specifier matches.
 *
 * Called by requirement.c, marker.c and wheel_name.c. Invariant: two versions that compare equal have the same normal
 * form but for trailing zeros of their release. */
#include "pkg_version.h"
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DIGITS_MAX 18u

/* clang-format off */
const char *const kr_pkg_op_names[KR_PKG_OP_MAX_] = {
    [KR_PKG_EQ] = "==", [KR_PKG_NE] = "!=", [KR_PKG_LE] = "<=", [KR_PKG_GE] = ">=",
    [KR_PKG_LT] = "<", [KR_PKG_GT] = ">", [KR_PKG_COMPATIBLE] = "~=", [KR_PKG_SAME_TEXT] = "===",
};

/* The longest word that fits comes first. */
static const struct { const char *word; char letter; } pre_words[] = {
    {"alpha", 'a'}, {"beta", 'b'}, {"preview", 'r'}, {"pre", 'r'}, {"rc", 'r'}, {"a", 'a'}, {"b", 'b'}, {"c", 'r'},
};
/* clang-format on */
static const char *const post_words[] = {"post", "rev", "r"};

struct reader {
    const char *at, *end;
};

static bool read_number(struct reader *in, uint64_t *ret)
{
    const char *start = in->at;
    uint64_t n = 0;

    while (in->at < in->end && isdigit((unsigned char)*in->at))
        n = n * 10 + (uint64_t)(*in->at++ - '0'); /* may wrap; refused below then */
    if (in->at == start || (size_t)(in->at - start) > DIGITS_MAX)
        return false;
    *ret = n;
    return true;
}

static bool read_word(struct reader *in, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(in->end - in->at) < len || strncasecmp(in->at, word, len) != 0)
        return false;
    in->at += len;
    return true;
}

static void skip_separator(struct reader *in)
{
    if (in->at < in->end && (*in->at == '-' || *in->at == '_' || *in->at == '.'))
        in->at++;
}

/* The number behind a word, which may be missing: 0. False: too many digits. */
static bool read_number_of_word(struct reader *in, uint64_t *ret)
{
    struct reader ahead = *in;

    *ret = 0;
    skip_separator(&ahead);
    if (ahead.at == ahead.end || !isdigit((unsigned char)*ahead.at))
        return true;
    *in = ahead;
    return read_number(in, ret);
}

static bool read_pre(struct reader *in, struct kr_pkg_version *v)
{
    struct reader ahead = *in;

    skip_separator(&ahead);
    for (size_t i = 0; i < sizeof pre_words / sizeof *pre_words; i++)
        if (read_word(&ahead, pre_words[i].word)) {
            v->pre = pre_words[i].letter;
            *in = ahead;
            return read_number_of_word(in, &v->pre_number);
        }
    return true;
}

static bool read_post(struct reader *in, struct kr_pkg_version *v)
{
    struct reader ahead = *in;

    if (in->end - in->at >= 2 && in->at[0] == '-' && isdigit((unsigned char)in->at[1])) {
        in->at++;
        v->has_post = true;
        return read_number(in, &v->post);
    }
    skip_separator(&ahead);
    for (size_t i = 0; i < sizeof post_words / sizeof *post_words; i++)
        if (read_word(&ahead, post_words[i])) {
            v->has_post = true;
            *in = ahead;
            return read_number_of_word(in, &v->post);
        }
    return true;
}

static bool read_dev(struct reader *in, struct kr_pkg_version *v)
{
    struct reader ahead = *in;

    skip_separator(&ahead);
    if (!read_word(&ahead, "dev"))
        return true;
    v->has_dev = true;
    *in = ahead;
    return read_number_of_word(in, &v->dev);
}

static bool read_local(struct reader *in, struct kr_pkg_version *v)
{
    size_t len = 0;
    bool after_separator = true;

    if (in->at == in->end || *in->at != '+')
        return true;
    for (in->at++; in->at < in->end; in->at++) {
        unsigned char c = (unsigned char)*in->at;

        if (len + 1 >= sizeof v->local || (!isalnum(c) && (after_separator || !strchr("-_.", c))) || c == 0)
            return false;
        after_separator = !isalnum(c);
        v->local[len++] = after_separator ? '.' : (char)tolower(c);
    }
    return len > 0 && !after_separator;
}

static bool read_release(struct reader *in, struct kr_pkg_version *v)
{
    if (!read_number(in, &v->release[0]))
        return false;
    if (in->at < in->end && *in->at == '!') {
        v->epoch = v->release[0];
        in->at++;
        if (!read_number(in, &v->release[0]))
            return false;
    }
    for (v->release_count = 1; in->end - in->at >= 2 && in->at[0] == '.' && isdigit((unsigned char)in->at[1]);) {
        in->at++;
        if (v->release_count == KR_PKG_RELEASE_MAX || !read_number(in, &v->release[v->release_count++]))
            return false;
    }
    return true;
}

int kr_pkg_version_parse(const char *text, size_t len, struct kr_pkg_version *ret_version)
{
    struct reader in = {text, text + len};
    struct kr_pkg_version v = {0};

    if (len >= KR_PKG_VERSION_MAX)
        return -EINVAL;
    while (in.at < in.end && isspace((unsigned char)*in.at))
        in.at++;
    while (in.end > in.at && isspace((unsigned char)in.end[-1]))
        in.end--;
    if (in.at < in.end && (*in.at == 'v' || *in.at == 'V'))
        in.at++;
    if (!read_release(&in, &v) || !read_pre(&in, &v) || !read_post(&in, &v) || !read_dev(&in, &v) ||
        !read_local(&in, &v) || in.at != in.end)
        return -EINVAL;
    *ret_version = v;
    return 0;
}

static void __attribute__((format(printf, 4, 5))) put(char *out, size_t size, size_t *len, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(out + *len, size - *len, fmt, args);
    va_end(args);
    if (n > 0)
        *len = (size_t)n < size - *len ? *len + (size_t)n : size - 1;
}

const char *kr_pkg_version_text(const struct kr_pkg_version *v, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    if (v->epoch > 0)
        put(out, size, &len, "%llu!", (unsigned long long)v->epoch);
    for (unsigned i = 0; i < v->release_count; i++)
        put(out, size, &len, "%s%llu", i > 0 ? "." : "", (unsigned long long)v->release[i]);
    if (v->pre)
        put(out, size, &len, "%c%s%llu", v->pre, v->pre == 'r' ? "c" : "", (unsigned long long)v->pre_number);
    if (v->has_post)
        put(out, size, &len, ".post%llu", (unsigned long long)v->post);
    if (v->has_dev)
        put(out, size, &len, ".dev%llu", (unsigned long long)v->dev);
    if (v->local[0])
        put(out, size, &len, "+%s", v->local);
    return out;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* The first `count` numbers; what is missing is 0. */
static int compare_release(const struct kr_pkg_version *a, const struct kr_pkg_version *b, unsigned count)
{
    for (unsigned i = 0; i < count && i < KR_PKG_RELEASE_MAX; i++) {
        int r = compare_numbers(i < a->release_count ? a->release[i] : 0, i < b->release_count ? b->release[i] : 0);

        if (r != 0)
            return r;
    }
    return 0;
}

/* 1.0.dev1 stands before 1.0a1, which stands before 1.0. */
static int rank_of_pre(const struct kr_pkg_version *v)
{
    if (v->pre)
        return v->pre; /* 'a' < 'b' < 'r' */
    return v->has_dev && !v->has_post ? 0 : 'z';
}

/* Numbers stand behind words, more parts behind fewer. */
static int compare_local(const char *a, const char *b)
{
    while (*a && *b) {
        size_t n = strcspn(a, "."), m = strcspn(b, ".");
        bool a_number = strspn(a, "0123456789") >= n, b_number = strspn(b, "0123456789") >= m;
        int r;

        if (a_number != b_number)
            return a_number ? 1 : -1;
        if (a_number) {
            for (; n > 1 && *a == '0'; n--)
                a++;
            for (; m > 1 && *b == '0'; m--)
                b++;
        }
        r = a_number && n != m ? (n < m ? -1 : 1) : strncmp(a, b, n < m ? n : m);
        if (r == 0 && n != m)
            r = n < m ? -1 : 1;
        if (r != 0)
            return r;
        a += n + (a[n] == '.');
        b += m + (b[m] == '.');
    }
    return *a ? 1 : *b ? -1 : 0;
}

static int compare_public(const struct kr_pkg_version *a, const struct kr_pkg_version *b)
{
    int r = compare_numbers(a->epoch, b->epoch);

    if (r == 0)
        r = compare_release(a, b, KR_PKG_RELEASE_MAX);
    if (r == 0)
        r = rank_of_pre(a) - rank_of_pre(b);
    if (r == 0 && a->pre)
        r = compare_numbers(a->pre_number, b->pre_number);
    if (r == 0)
        r = compare_numbers(a->has_post ? a->post + 1 : 0, b->has_post ? b->post + 1 : 0);
    if (r == 0)
        r = compare_numbers(a->has_dev ? a->dev : UINT64_MAX, b->has_dev ? b->dev : UINT64_MAX);
    return r;
}

int kr_pkg_version_compare(const struct kr_pkg_version *a, const struct kr_pkg_version *b)
{
    int r = compare_public(a, b);

    return r != 0 ? r : compare_local(a->local, b->local);
}

bool kr_pkg_version_is_pre(const struct kr_pkg_version *v)
{
    return v->pre || v->has_dev;
}

static int parse_same_text(const char *text, size_t len, struct kr_pkg_spec *spec, const char **ret_why)
{
    *ret_why = "=== needs a version behind it, without blanks";
    if (len == 0 || len >= sizeof spec->text)
        return -EINVAL;
    for (size_t i = 0; i < len; i++)
        if (!isgraph((unsigned char)text[i]) || strchr(";)(,\"'`$\\", text[i]))
            return -EINVAL;
    memcpy(spec->text, text, len);
    return 0;
}

int kr_pkg_spec_parse(enum kr_pkg_op op, const char *text, size_t len, struct kr_pkg_spec *ret_spec,
                      const char **ret_why)
{
    struct kr_pkg_spec spec = {.op = op};

    if (op == KR_PKG_SAME_TEXT) {
        if (parse_same_text(text, len, &spec, ret_why) < 0)
            return -EINVAL;
        *ret_spec = spec;
        return 0;
    }
    if (len > 2 && memcmp(text + len - 2, ".*", 2) == 0) {
        *ret_why = ".* is for == and != alone";
        if (op != KR_PKG_EQ && op != KR_PKG_NE)
            return -EINVAL;
        spec.wildcard = true;
        len -= 2;
    }
    *ret_why = "not a version of PEP 440";
    if (len >= sizeof spec.text || kr_pkg_version_parse(text, len, &spec.version) < 0)
        return -EINVAL;
    memcpy(spec.text, text, len);
    *ret_why = ".* cannot stand behind a dev or local version";
    if (spec.wildcard && (spec.version.has_dev || spec.version.local[0]))
        return -EINVAL;
    *ret_why = "a local version (+…) is for ==, != and === alone";
    if (spec.version.local[0] && op != KR_PKG_EQ && op != KR_PKG_NE)
        return -EINVAL;
    *ret_why = "~= needs at least two numbers, such as ~=1.4";
    if (op == KR_PKG_COMPATIBLE && spec.version.release_count < 2)
        return -EINVAL;
    *ret_spec = spec;
    return 0;
}

/* ==1.2.* takes 1.2 and 1.2.3rc1, ==1.2rc1.* takes 1.2rc1.post2. */
static bool has_prefix(const struct kr_pkg_version *prefix, unsigned count, const struct kr_pkg_version *v)
{
    if (v->epoch != prefix->epoch || compare_release(prefix, v, count) != 0)
        return false;
    if (!prefix->pre && !prefix->has_post)
        return true;
    if (compare_release(prefix, v, KR_PKG_RELEASE_MAX) != 0 || v->pre != prefix->pre ||
        (prefix->pre && v->pre_number != prefix->pre_number))
        return false;
    return !prefix->has_post || (v->has_post && v->post == prefix->post);
}

static bool is_equal(const struct kr_pkg_spec *spec, const struct kr_pkg_version *v)
{
    if (spec->wildcard)
        return has_prefix(&spec->version, spec->version.release_count, v);
    return spec->version.local[0] ? kr_pkg_version_compare(v, &spec->version) == 0
                                  : compare_public(v, &spec->version) == 0;
}

static bool same_base(const struct kr_pkg_version *a, const struct kr_pkg_version *b)
{
    return a->epoch == b->epoch && compare_release(a, b, KR_PKG_RELEASE_MAX) == 0;
}

/* <1.0 does not take 1.0rc1 unless it names a pre-release itself. */
static bool is_less(const struct kr_pkg_version *than, const struct kr_pkg_version *v)
{
    if (kr_pkg_version_compare(v, than) >= 0)
        return false;
    return kr_pkg_version_is_pre(than) || !kr_pkg_version_is_pre(v) || !same_base(than, v);
}

/* >1.0 takes neither 1.0.post1 nor 1.0+local. */
static bool is_greater(const struct kr_pkg_version *than, const struct kr_pkg_version *v)
{
    if (kr_pkg_version_compare(v, than) <= 0)
        return false;
    if (!than->has_post && v->has_post && same_base(than, v))
        return false;
    return !v->local[0] || !same_base(than, v);
}

bool kr_pkg_spec_matches(const struct kr_pkg_spec *spec, const char *text, const struct kr_pkg_version *v)
{
    switch (spec->op) {
    case KR_PKG_EQ:
        return is_equal(spec, v);
    case KR_PKG_NE:
        return !is_equal(spec, v);
    case KR_PKG_LE:
        return compare_public(v, &spec->version) <= 0;
    case KR_PKG_GE:
        return compare_public(v, &spec->version) >= 0;
    case KR_PKG_LT:
        return is_less(&spec->version, v);
    case KR_PKG_GT:
        return is_greater(&spec->version, v);
    case KR_PKG_COMPATIBLE:
        return compare_public(v, &spec->version) >= 0 && v->epoch == spec->version.epoch &&
               compare_release(&spec->version, v, spec->version.release_count - 1) == 0;
    case KR_PKG_SAME_TEXT:
        return strcasecmp(spec->text, text) == 0;
    case KR_PKG_OP_MAX_:
        break;
    }
    return false;
}

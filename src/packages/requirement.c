/* PEP 508 without addresses: one requirement, read from left to right.
 *
 * Called by jobs, and by requirement_list.c for lists. Invariant: what is refused is refused with the position of the
 * first character that does not fit, counted from 1. */
#include "requirement.h"
#include "buf.h"
#include "err.h"
#include "requirement_internal.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SHOWN 48 /* characters of a requirement that an error shows */

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

bool kr_requirement_canonical(const char *name, size_t len, char ret_canonical[KR_REQ_NAME_ROOM])
{
    size_t out = 0;

    if (len == 0 || len > KR_REQ_NAME_MAX || !isalnum((unsigned char)name[0]) || !isalnum((unsigned char)name[len - 1]))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_name_char(name[i]))
            return false;
        if (isalnum((unsigned char)name[i]))
            ret_canonical[out++] = (char)tolower((unsigned char)name[i]);
        else if (ret_canonical[out - 1] != '-')
            ret_canonical[out++] = '-';
    }
    ret_canonical[out] = '\0';
    return true;
}

int kr_req_fail(struct kr_req_reader *in, const char *fmt, ...)
{
    char shown[SHOWN * 4 + 4], why[160];
    size_t len = 0;
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    for (size_t i = in->start; i < in->len && i - in->start < SHOWN && in->text[i] != '\n'; i++) {
        unsigned char c = (unsigned char)in->text[i];

        len += (size_t)snprintf(shown + len, sizeof shown - len, c >= 0x20 && c < 0x7f ? "%c" : "\\x%02x", c);
    }
    shown[len] = '\0';
    kr_err_set(in->err, KR_ERR_INVALID, 0, "invalid requirement \"%.*s%s\", position %zu: %s", SHOWN + 8, shown,
               in->len - in->start > SHOWN ? "…" : "", in->at - in->start + 1, why);
    return -EINVAL;
}

static char peek(const struct kr_req_reader *in)
{
    return in->at < in->len ? in->text[in->at] : '\0';
}

void kr_req_skip_blanks(struct kr_req_reader *in)
{
    while (peek(in) == ' ' || peek(in) == '\t')
        in->at++;
}

static size_t measure_name(const struct kr_req_reader *in)
{
    size_t n = 0;

    while (in->at + n < in->len && is_name_char(in->text[in->at + n]))
        n++;
    return n;
}

/* What a name is not, said in the words of who wrote it. */
static int refuse_beginning(struct kr_req_reader *in)
{
    switch (peek(in)) {
    case '-':
        return kr_req_fail(in, "options are not taken, only names of the index");
    case '.':
    case '/':
    case '~':
    case '\\':
        return kr_req_fail(in, "paths are not taken, only names of the index");
    case '\0':
        return kr_req_fail(in, in->at < in->len ? "a NUL character" : "a name is missing");
    default:
        return kr_req_fail(in, "a name begins with a letter or digit");
    }
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    size_t n = strlen(end);

    return len > n && strncasecmp(text + len - n, end, n) == 0;
}

static int read_name(struct kr_req_reader *in, struct kr_requirement *r)
{
    static const char *const files[] = {".whl", ".tar.gz", ".tgz", ".zip", ".tar.bz2", ".txt", ".py", ".egg"};
    size_t n = measure_name(in);
    const char *name = in->text + in->at;

    if (n == 0 || !isalnum((unsigned char)*name))
        return refuse_beginning(in);
    if (n > KR_REQ_NAME_MAX)
        return kr_req_fail(in, "a name has at most %u characters, this one has %zu", KR_REQ_NAME_MAX, n);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (ends_with(name, n, files[i]))
            return kr_req_fail(in, "files (%s) are not taken, only names of the index", files[i]);
    if (in->at + n < in->len && strchr("/\\:", name[n]) && name[n]) {
        in->at += n;
        return kr_req_fail(in, "addresses and paths are not taken, only names of the index");
    }
    for (size_t i = 0; i <= n; i++) {
        if (i == n)
            return kr_req_fail(in, "a version without a name: write NAME==%.*s", (int)(n < 40 ? n : 40), name);
        if (!isdigit((unsigned char)name[i]) && name[i] != '.')
            break;
    }
    if (!kr_requirement_canonical(name, n, r->canonical)) {
        in->at += n - 1;
        return kr_req_fail(in, "a name ends with a letter or digit");
    }
    memcpy(r->name, name, n);
    in->at += n;
    if (peek(in) == '!' && !(in->at + 1 < in->len && in->text[in->at + 1] == '=')) {
        r->insists = true;
        in->at++;
    }
    return 0;
}

static int read_extras(struct kr_req_reader *in, struct kr_requirement *r)
{
    kr_req_skip_blanks(in);
    if (peek(in) != '[')
        return 0;
    in->at++;
    kr_req_skip_blanks(in);
    while (peek(in) != ']') {
        size_t n = measure_name(in);

        if (r->extra_count == KR_REQ_EXTRAS_MAX)
            return kr_req_fail(in, "more than %u extras", KR_REQ_EXTRAS_MAX);
        if (!kr_requirement_canonical(in->text + in->at, n, r->extras[r->extra_count]))
            return kr_req_fail(in, "the name of an extra, or ], is missing");
        r->extra_count++;
        in->at += n;
        kr_req_skip_blanks(in);
        if (peek(in) == ',') {
            in->at++;
            kr_req_skip_blanks(in);
            if (peek(in) == ']')
                return kr_req_fail(in, "the name of an extra is missing behind the comma");
        } else if (peek(in) != ']') {
            return kr_req_fail(in, "the closing ] of the extras is missing");
        }
    }
    in->at++;
    return 0;
}

/* The operator at the reader's position, the longest that fits; KR_PKG_OP_MAX_: none. */
static enum kr_pkg_op peek_op(const struct kr_req_reader *in, size_t *ret_len)
{
    enum kr_pkg_op found = KR_PKG_OP_MAX_;

    *ret_len = 0;
    for (int i = 0; i < KR_PKG_OP_MAX_; i++) {
        size_t n = strlen(kr_pkg_op_names[i]);

        if (n > *ret_len && in->len - in->at >= n && memcmp(in->text + in->at, kr_pkg_op_names[i], n) == 0) {
            found = (enum kr_pkg_op)i;
            *ret_len = n;
        }
    }
    return found;
}

static int read_spec(struct kr_req_reader *in, struct kr_requirement *r)
{
    size_t op_len, n = 0;
    enum kr_pkg_op op = peek_op(in, &op_len);
    const char *why;

    if (r->spec_count == KR_REQ_SPECS_MAX)
        return kr_req_fail(in, "more than %u specifiers", KR_REQ_SPECS_MAX);
    in->at += op_len;
    kr_req_skip_blanks(in);
    while (in->at + n < in->len && !strchr(" \t\r\n,;()", in->text[in->at + n]))
        n++;
    if (n == 0)
        return kr_req_fail(in, "a version is missing behind %s", kr_pkg_op_names[op]);
    if (kr_pkg_spec_parse(op, in->text + in->at, n, &r->specs[r->spec_count], &why) < 0)
        return kr_req_fail(in, "\"%.*s\": %s", (int)(n < 40 ? n : 40), in->text + in->at, why);
    r->spec_count++;
    in->at += n;
    return 0;
}

/* Behind a comma: does another specifier follow, or does the next of a list? */
static bool spec_follows_comma(const struct kr_req_reader *in)
{
    struct kr_req_reader ahead = *in;
    size_t len;

    ahead.at++;
    kr_req_skip_blanks(&ahead);
    return peek_op(&ahead, &len) != KR_PKG_OP_MAX_ || !in->list;
}

static int read_specs(struct kr_req_reader *in, struct kr_requirement *r)
{
    size_t len;
    bool parens;

    kr_req_skip_blanks(in);
    parens = peek(in) == '(';
    if (parens) {
        in->at++;
        kr_req_skip_blanks(in);
    } else if (peek_op(in, &len) == KR_PKG_OP_MAX_) {
        return 0;
    }
    for (;;) {
        int error;

        if (peek_op(in, &len) == KR_PKG_OP_MAX_)
            return kr_req_fail(in, peek(in) == '=' ? "a single =: write == for one version"
                                                   : "an operator such as == or >= is missing");
        if ((error = read_spec(in, r)) < 0)
            return error;
        len = in->at;
        kr_req_skip_blanks(in);
        if (peek(in) != ',' || (!parens && !spec_follows_comma(in)))
            break;
        in->at++;
        kr_req_skip_blanks(in);
    }
    if (parens && peek(in) != ')')
        return kr_req_fail(in, "the closing parenthesis is missing");
    in->at += parens;
    return 0;
}

static int read_marker(struct kr_req_reader *in, struct kr_requirement *r)
{
    size_t used = 0, at = 0;
    const char *why = NULL;
    int error;

    kr_req_skip_blanks(in);
    if (peek(in) == '@')
        return kr_req_fail(in, "addresses (@ …) are not taken, only names of the index");
    if (peek(in) == '=')
        return kr_req_fail(in, "a single =: write == for one version");
    if (peek(in) != ';')
        return 0;
    in->at++;
    error = kr_marker_parse(in->text + in->at, in->len - in->at, &r->marker, &used, &at, &why);
    in->at += error < 0 ? at : used;
    return error == -ENOMEM ? error : error < 0 ? kr_req_fail(in, "%s", why) : 0;
}

static int write_text(struct kr_requirement *r)
{
    struct kr_buf b;
    int error;

    kr_buf_init(&b, 4 * KR_REQ_MAX);
    kr_buf_add_str(&b, r->name);
    for (unsigned i = 0; i < r->extra_count; i++)
        kr_buf_printf(&b, "%s%s", i > 0 ? "," : "[", r->extras[i]);
    if (r->extra_count > 0)
        kr_buf_add_str(&b, "]");
    for (unsigned i = 0; i < r->spec_count; i++)
        kr_buf_printf(&b, "%s%s%s%s", i > 0 ? "," : "", kr_pkg_op_names[r->specs[i].op], r->specs[i].text,
                      r->specs[i].wildcard ? ".*" : "");
    if (r->marker)
        kr_buf_printf(&b, " ; %s", kr_marker_text(r->marker));
    error = b.failed;
    r->text = kr_buf_steal(&b, NULL);
    return error;
}

int kr_req_read(struct kr_req_reader *in, struct kr_requirement **ret_requirement)
{
    struct kr_requirement *r = calloc(1, sizeof *r);
    int error;

    if (!r)
        return kr_err_set(in->err, KR_ERR_SYSTEM, ENOMEM, "requirement");
    in->start = in->at;
    error = read_name(in, r);
    if (error == 0)
        error = read_extras(in, r);
    if (error == 0)
        error = read_specs(in, r);
    if (error == 0)
        error = read_marker(in, r);
    if (error == 0)
        error = write_text(r);
    if (error == 0 && in->at - in->start > KR_REQ_MAX)
        error = kr_req_fail(in, "longer than %u bytes", KR_REQ_MAX);
    if (error == -ENOMEM)
        kr_err_set(in->err, KR_ERR_SYSTEM, ENOMEM, "requirement");
    if (error < 0) {
        kr_requirement_free(r);
        return error;
    }
    *ret_requirement = r;
    return 0;
}

int kr_requirement_parse(const char *text, size_t len, struct kr_requirement **ret_requirement, struct kr_err *err)
{
    struct kr_req_reader in = {.text = text, .len = len, .err = err};
    struct kr_requirement *r = NULL;
    int error;

    if (len > KR_REQ_MAX)
        return kr_err_set(err, KR_ERR_INVALID, 0, "a requirement has at most %u bytes, this one has %zu", KR_REQ_MAX,
                          len);
    while (in.at < len && isspace((unsigned char)text[in.at]))
        in.at++;
    while (in.len > in.at && isspace((unsigned char)text[in.len - 1]))
        in.len--;
    error = kr_req_read(&in, &r);
    if (error < 0)
        return error;
    kr_req_skip_blanks(&in);
    if (in.at < in.len) {
        kr_requirement_free(r);
        return kr_req_fail(&in, "this does not belong to a requirement");
    }
    *ret_requirement = r;
    return 0;
}

void kr_requirement_free(struct kr_requirement *r)
{
    if (!r)
        return;
    kr_marker_free(r->marker);
    free(r->text);
    free(r->hashes);
    free(r);
}

bool kr_requirement_takes(const struct kr_requirement *r, const char *version, bool pre)
{
    struct kr_pkg_version v;
    bool is_version = kr_pkg_version_parse(version, strlen(version), &v) == 0, names_pre = pre;

    for (unsigned i = 0; i < r->spec_count; i++) {
        const struct kr_pkg_spec *spec = &r->specs[i];

        if (!is_version && spec->op != KR_PKG_SAME_TEXT)
            return false;
        names_pre |= spec->op == KR_PKG_SAME_TEXT || (spec->op != KR_PKG_NE && kr_pkg_version_is_pre(&spec->version));
        if (!kr_pkg_spec_matches(spec, version, &v))
            return false;
    }
    return !is_version || names_pre || !kr_pkg_version_is_pre(&v);
}

bool kr_requirement_applies(const struct kr_requirement *r, const struct kr_marker_env *env)
{
    return kr_marker_holds(r->marker, env);
}

bool kr_requirement_hash_fits(const struct kr_requirement *r, const char *sha256)
{
    for (unsigned i = 0; i < r->hash_count; i++)
        if (strcasecmp(r->hashes[i], sha256) == 0)
            return true;
    return r->hash_count == 0;
}

/* PEP 508's markers: a parser that goes down the grammar, and an evaluation of what it leaves in postfix order.
 *
 * Called by requirement.c. Invariant: a marker that was read has at most KR_MARKER_NODES_MAX nodes, each operator after
 * its two operands, so the evaluation needs a stack of that many truths and cannot run out of it. */
#include "marker.h"
#include "buf.h"
#include "pkg_version.h"
#include "requirement.h"
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define TEXT_MAX 4096u

/* clang-format off */
const char *const kr_marker_var_names[KR_MARKER_VAR_MAX_] = {
    [KR_MARKER_OS_NAME] = "os_name",
    [KR_MARKER_SYS_PLATFORM] = "sys_platform",
    [KR_MARKER_PLATFORM_MACHINE] = "platform_machine",
    [KR_MARKER_PLATFORM_PYTHON_IMPLEMENTATION] = "platform_python_implementation",
    [KR_MARKER_PLATFORM_RELEASE] = "platform_release",
    [KR_MARKER_PLATFORM_SYSTEM] = "platform_system",
    [KR_MARKER_PLATFORM_VERSION] = "platform_version",
    [KR_MARKER_PYTHON_VERSION] = "python_version",
    [KR_MARKER_PYTHON_FULL_VERSION] = "python_full_version",
    [KR_MARKER_IMPLEMENTATION_NAME] = "implementation_name",
    [KR_MARKER_IMPLEMENTATION_VERSION] = "implementation_version",
    [KR_MARKER_EXTRA] = "extra",
};

/* What setuptools wrote before PEP 508. */
static const struct { const char *name; enum kr_marker_var var; } old_names[] = {
    {"os.name", KR_MARKER_OS_NAME},
    {"sys.platform", KR_MARKER_SYS_PLATFORM},
    {"platform.machine", KR_MARKER_PLATFORM_MACHINE},
    {"platform.version", KR_MARKER_PLATFORM_VERSION},
    {"platform.python_implementation", KR_MARKER_PLATFORM_PYTHON_IMPLEMENTATION},
    {"python_implementation", KR_MARKER_PLATFORM_PYTHON_IMPLEMENTATION},
};
/* clang-format on */

enum op { OP_IN = KR_PKG_OP_MAX_, OP_NOT_IN };
enum node_kind { COMPARE, AND, OR };

struct operand {
    bool is_var;
    enum kr_marker_var var;
    char text[KR_MARKER_VALUE_ROOM];
};

struct node {
    enum node_kind kind;
    int op; /* enum kr_pkg_op or enum op */
    struct operand left, right;
};

struct kr_marker {
    struct node *nodes;
    size_t count;
    char *text;
};

struct parser {
    const char *text;
    size_t len, at;
    struct kr_marker *m;
    struct kr_buf out;
    unsigned depth;
    int error;
    const char *why;
};

void kr_marker_env_init(struct kr_marker_env *env, const char *python_version)
{
    struct utsname u = {0};
    int minor = 0, dots = 0;

    memset(env, 0, sizeof *env);
    uname(&u);
    for (minor = 0; python_version[minor] && (python_version[minor] != '.' || ++dots < 2); minor++)
        ;
#define SET(var, ...) snprintf(env->values[var], sizeof env->values[var], __VA_ARGS__)
    SET(KR_MARKER_OS_NAME, "posix");
    SET(KR_MARKER_SYS_PLATFORM, "linux");
    SET(KR_MARKER_PLATFORM_MACHINE, "%s", u.machine);
    SET(KR_MARKER_PLATFORM_PYTHON_IMPLEMENTATION, "CPython");
    SET(KR_MARKER_PLATFORM_RELEASE, "%s", u.release);
    SET(KR_MARKER_PLATFORM_SYSTEM, "Linux");
    SET(KR_MARKER_PLATFORM_VERSION, "%s", u.version);
    SET(KR_MARKER_PYTHON_VERSION, "%.*s", minor, python_version);
    SET(KR_MARKER_PYTHON_FULL_VERSION, "%s", python_version);
    SET(KR_MARKER_IMPLEMENTATION_NAME, "cpython");
    SET(KR_MARKER_IMPLEMENTATION_VERSION, "%s", python_version);
#undef SET
}

/* ---- reading ---- */

static int parse_or(struct parser *p);

static int fail(struct parser *p, int code, const char *why)
{
    p->why = why;
    return p->error = -code;
}

static void skip_blanks(struct parser *p)
{
    while (p->at < p->len && (p->text[p->at] == ' ' || p->text[p->at] == '\t'))
        p->at++;
}

static size_t word_length(const struct parser *p)
{
    size_t n = 0;

    while (p->at + n < p->len && (isalnum((unsigned char)p->text[p->at + n]) || strchr("_.", p->text[p->at + n])) &&
           p->text[p->at + n] != '\0')
        n++;
    return n;
}

static bool take_word(struct parser *p, const char *word)
{
    skip_blanks(p);
    if (word_length(p) != strlen(word) || memcmp(p->text + p->at, word, strlen(word)) != 0)
        return false;
    p->at += strlen(word);
    return true;
}

static void emit(struct parser *p, const char *token)
{
    if (p->out.len > 0 && p->out.data[p->out.len - 1] != '(' && token[0] != ')')
        kr_buf_add_str(&p->out, " ");
    kr_buf_add_str(&p->out, token);
}

static struct node *new_node(struct parser *p, enum node_kind kind)
{
    struct node *n = p->m->count < KR_MARKER_NODES_MAX ? &p->m->nodes[p->m->count++] : NULL;

    if (n)
        *n = (struct node){.kind = kind};
    else
        fail(p, EINVAL, "the marker has too many parts");
    return n;
}

static int parse_quoted(struct parser *p, struct operand *o)
{
    char quote = p->text[p->at], token[KR_MARKER_VALUE_ROOM + 2];
    size_t start = ++p->at, n;

    for (; p->at < p->len && p->text[p->at] != quote; p->at++)
        if ((unsigned char)p->text[p->at] < 0x20 || (unsigned char)p->text[p->at] >= 0x7f || p->text[p->at] == '\\')
            return fail(p, EINVAL, "this character cannot stand in a marker's text");
    n = p->at - start;
    if (p->at == p->len || n >= sizeof o->text) {
        p->at = start - 1;
        return fail(p, EINVAL, n >= sizeof o->text ? "the text is too long" : "the closing quote is missing");
    }
    memcpy(o->text, p->text + start, n);
    o->text[n] = '\0';
    p->at++;
    quote = strchr(o->text, '"') ? '\'' : '"';
    snprintf(token, sizeof token, "%c%s%c", quote, o->text, quote);
    emit(p, token);
    return 0;
}

static int parse_operand(struct parser *p, struct operand *o)
{
    size_t n;

    skip_blanks(p);
    if (p->at < p->len && (p->text[p->at] == '"' || p->text[p->at] == '\''))
        return parse_quoted(p, o);
    n = word_length(p);
    o->is_var = true;
    for (int i = 0; i < KR_MARKER_VAR_MAX_; i++)
        if (strlen(kr_marker_var_names[i]) == n && memcmp(kr_marker_var_names[i], p->text + p->at, n) == 0) {
            o->var = (enum kr_marker_var)i;
            goto found;
        }
    for (size_t i = 0; i < sizeof old_names / sizeof *old_names; i++)
        if (strlen(old_names[i].name) == n && memcmp(old_names[i].name, p->text + p->at, n) == 0) {
            o->var = old_names[i].var;
            goto found;
        }
    return fail(p, EINVAL, "a marker has a variable such as python_version or a quoted text here");
found:
    p->at += n;
    emit(p, kr_marker_var_names[o->var]);
    return 0;
}

static int parse_op(struct parser *p, int *ret_op)
{
    size_t longest = 0;

    if (take_word(p, "in")) {
        *ret_op = OP_IN;
        emit(p, "in");
        return 0;
    }
    if (take_word(p, "not")) {
        if (!take_word(p, "in"))
            return fail(p, EINVAL, "`in` is missing behind `not`");
        *ret_op = OP_NOT_IN;
        emit(p, "not in");
        return 0;
    }
    for (int i = 0; i < KR_PKG_OP_MAX_; i++) {
        size_t n = strlen(kr_pkg_op_names[i]);

        if (n > longest && p->len - p->at >= n && memcmp(p->text + p->at, kr_pkg_op_names[i], n) == 0) {
            longest = n;
            *ret_op = i;
        }
    }
    if (longest == 0)
        return fail(p, EINVAL, "a marker compares: ==, !=, <, <=, >, >=, ~=, ===, in or not in is missing");
    p->at += longest;
    emit(p, kr_pkg_op_names[*ret_op]);
    return 0;
}

static int parse_compare(struct parser *p)
{
    struct node *n;
    int r;

    skip_blanks(p);
    if (p->at < p->len && p->text[p->at] == '(') {
        if (p->depth++ == KR_MARKER_DEPTH_MAX)
            return fail(p, EINVAL, "too many parentheses within each other");
        p->at++;
        emit(p, "(");
        if ((r = parse_or(p)) < 0)
            return r;
        skip_blanks(p);
        if (p->at == p->len || p->text[p->at] != ')')
            return fail(p, EINVAL, "the closing parenthesis is missing");
        p->at++;
        p->depth--;
        emit(p, ")");
        return 0;
    }
    if (!(n = new_node(p, COMPARE)))
        return p->error;
    if ((r = parse_operand(p, &n->left)) < 0)
        return r;
    skip_blanks(p);
    if ((r = parse_op(p, &n->op)) < 0)
        return r;
    return parse_operand(p, &n->right);
}

static int parse_chain(struct parser *p, enum node_kind kind)
{
    const char *word = kind == OR ? "or" : "and";
    int r = kind == OR ? parse_chain(p, AND) : parse_compare(p);

    while (r == 0) {
        size_t before = p->at;

        if (!take_word(p, word)) {
            p->at = before; /* blanks behind a marker are not its own */
            return 0;
        }
        emit(p, word);
        r = kind == OR ? parse_chain(p, AND) : parse_compare(p);
        if (r == 0 && !new_node(p, kind))
            r = p->error;
    }
    return r;
}

static int parse_or(struct parser *p)
{
    return parse_chain(p, OR);
}

int kr_marker_parse(const char *text, size_t len, struct kr_marker **ret_marker, size_t *ret_used, size_t *ret_at,
                    const char **ret_why)
{
    struct parser p = {.text = text, .len = len};
    int r;

    kr_buf_init(&p.out, TEXT_MAX);
    p.m = calloc(1, sizeof *p.m);
    if (p.m)
        p.m->nodes = calloc(KR_MARKER_NODES_MAX, sizeof *p.m->nodes);
    r = p.m && p.m->nodes ? parse_or(&p) : fail(&p, ENOMEM, "out of memory");
    if (r == 0 && p.out.failed)
        r = fail(&p, p.out.failed == -ENOMEM ? ENOMEM : EINVAL, "the marker is too long");
    if (r == 0) {
        struct node *fit = reallocarray(p.m->nodes, p.m->count, sizeof *fit);

        p.m->nodes = fit ? fit : p.m->nodes;
        p.m->text = kr_buf_steal(&p.out, NULL);
        *ret_marker = p.m;
        *ret_used = p.at;
        return 0;
    }
    kr_buf_done(&p.out);
    kr_marker_free(p.m);
    *ret_at = p.at;
    *ret_why = p.why;
    return r;
}

void kr_marker_free(struct kr_marker *m)
{
    if (!m)
        return;
    free(m->nodes);
    free(m->text);
    free(m);
}

const char *kr_marker_text(const struct kr_marker *m)
{
    return m->text;
}

/* ---- evaluating ---- */

static bool compare_texts(int op, const char *a, const char *b)
{
    int order = strcmp(a, b);

    switch (op) {
    case OP_IN:
        return strstr(b, a) != NULL;
    case OP_NOT_IN:
        return strstr(b, a) == NULL;
    case KR_PKG_EQ:
    case KR_PKG_SAME_TEXT:
        return order == 0;
    case KR_PKG_NE:
        return order != 0;
    case KR_PKG_LE:
        return order <= 0;
    case KR_PKG_GE:
        return order >= 0;
    case KR_PKG_LT:
        return order < 0;
    case KR_PKG_GT:
        return order > 0;
    default:
        return false; /* ~= of what is no version is undefined: it holds for no environment */
    }
}

static bool compare_holds(const struct node *n, const struct kr_marker_env *env)
{
    const char *a = n->left.is_var ? env->values[n->left.var] : n->left.text;
    const char *b = n->right.is_var ? env->values[n->right.var] : n->right.text;
    bool of_extra =
        (n->left.is_var && n->left.var == KR_MARKER_EXTRA) || (n->right.is_var && n->right.var == KR_MARKER_EXTRA);
    char a_name[KR_REQ_NAME_ROOM], b_name[KR_REQ_NAME_ROOM];
    struct kr_pkg_version v;
    struct kr_pkg_spec spec;
    const char *why;

    if (of_extra) {
        a = kr_requirement_canonical(a, strlen(a), a_name) ? a_name : a;
        b = kr_requirement_canonical(b, strlen(b), b_name) ? b_name : b;
    } else if (n->op < KR_PKG_OP_MAX_ && kr_pkg_spec_parse((enum kr_pkg_op)n->op, b, strlen(b), &spec, &why) == 0 &&
               kr_pkg_version_parse(a, strlen(a), &v) == 0) {
        return kr_pkg_spec_matches(&spec, a, &v);
    }
    return compare_texts(n->op, a, b);
}

bool kr_marker_holds(const struct kr_marker *m, const struct kr_marker_env *env)
{
    bool stack[KR_MARKER_NODES_MAX] = {0};
    size_t top = 0;

    for (size_t i = 0; m && i < m->count; i++) {
        const struct node *n = &m->nodes[i];

        if (n->kind == COMPARE) {
            stack[top++] = compare_holds(n, env);
            continue;
        }
        top--;
        stack[top - 1] = n->kind == AND ? stack[top - 1] && stack[top] : stack[top - 1] || stack[top];
    }
    return top == 0 || stack[0];
}

/* What a program of `krait run` needs, as one text of requirements.
 *
 * Called by cmd_run.c before anything is started, with the rights of the caller. Invariants: each requirement has been
 * read by PEP 508's grammar here, and is read again by the install; of a script's metadata only `dependencies` and
 * `requires-python` count, and tables of other tools are not looked at. */
#include "run_needs.h"
#include "buf.h"
#include "fd.h"
#include "requirement.h"
#include "toml.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN "# /// script"
#define CLOSE "# ///"

struct metadata {
    struct kr_buf *out;
    const char *python;
};

static int add_requirement(struct kr_buf *out, const char *text, struct kr_err *err)
{
    struct kr_requirement *r = NULL;
    int e = kr_requirement_parse(text, strlen(text), &r, err);

    if (e < 0)
        return e;
    kr_requirement_free(r);
    return kr_buf_printf(out, "%s\n", text) < 0
               ? kr_err_set(err, KR_ERR_INVALID, 0, "more requirements than %u KiB", KR_REQS_TEXT_MAX >> 10)
               : 0;
}

/* ---- requirements.txt ---- */

static int add_file(struct kr_buf *out, const char *path, struct kr_err *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct kr_requirements list = {0};
    size_t from = out->len;
    char part[4096];
    ssize_t n;
    int r;

    if (fd < 0)
        return kr_err_set(err, KR_ERR_INVALID, errno, "--requirements: \"%.100s\"", path);
    while ((n = read(fd, part, sizeof part)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kr_err_set(err, KR_ERR_INVALID, errno, "--requirements: \"%.100s\"", path);
        if (kr_buf_add(out, part, (size_t)n) < 0)
            return kr_err_set(err, KR_ERR_INVALID, 0, "--requirements: \"%.100s\" is larger than %u KiB", path,
                              KR_REQS_TEXT_MAX >> 10);
    }
    r = memchr(kr_buf_str(out) + from, '\0', out->len - from)
            ? kr_err_set(err, KR_ERR_INVALID, 0, "it is no text")
            : kr_requirements_file(kr_buf_str(out) + from, out->len - from, &list, err);
    kr_requirements_done(&list);
    if (r < 0)
        return kr_err_wrap(err, r, "--requirements: \"%.100s\"", path);
    return kr_buf_add_str(out, "\n") < 0 ? kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "requirements") : 0;
}

/* ---- what the program says of itself ---- */

/* ">=3.11" of a Python whose last number is not known. */
static int check_python(const struct metadata *m, const char *spec, struct kr_err *err)
{
    struct kr_requirement *r = NULL;
    char text[256], last[32];
    int known = (int)(strrchr(m->python, '.') - m->python);
    bool fits;
    int e = snprintf(text, sizeof text, "python%s", spec) < (int)sizeof text
                ? kr_requirement_parse(text, strlen(text), &r, err)
                : kr_err_set(err, KR_ERR_INVALID, 0, "it is too long");

    if (e < 0)
        return kr_err_wrap(err, e, "requires-python");
    snprintf(last, sizeof last, "%.*s.99", known, m->python);
    fits = kr_requirement_takes(r, m->python, true) || kr_requirement_takes(r, last, true);
    kr_requirement_free(r);
    return fits ? 0
                : kr_err_set(err, KR_ERR_INVALID, 0,
                             "it requires Python %.60s, and this one is %.*s; choose another with --python", spec,
                             known, m->python);
}

static int on_metadata(void *data, const char *section, const char *key, const struct kr_toml_value *v, unsigned line,
                       struct kr_err *err)
{
    struct metadata *m = data;
    int r = 0;

    (void)section, (void)line;
    if (strcmp(key, "requires-python") == 0)
        return v->type == KR_TOML_STRING ? check_python(m, v->string, err)
                                         : kr_err_set(err, KR_ERR_INVALID, 0, "requires-python: a string");
    if (strcmp(key, "dependencies") != 0)
        return 0;
    if (v->type != KR_TOML_ARRAY)
        return kr_err_set(err, KR_ERR_INVALID, 0, "dependencies: an array of strings");
    for (size_t i = 0; i < v->count && r >= 0; i++)
        r = add_requirement(m->out, v->items[i], err);
    return r;
}

static bool line_is(const char *line, size_t len, const char *text)
{
    while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' '))
        len--;
    return len == strlen(text) && memcmp(line, text, len) == 0;
}

/* The lines of the block, without their signs, up to its first table. 1: there is one; 0: none; -EINVAL: two. */
static int find_block(const char *code, size_t len, struct kr_buf *ret, struct kr_err *err)
{
    bool in_block = false, in_table = false, found = false;
    const char *end = code + len, *next;

    for (const char *line = code; line < end; line = next) {
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((eol ? eol : end) - line);

        next = eol ? eol + 1 : end;
        if (!in_block) {
            if (!line_is(line, n, OPEN))
                continue;
            if (found)
                return kr_err_set(err, KR_ERR_INVALID, EINVAL, "two blocks \"" OPEN "\"");
            in_block = true;
            kr_buf_reset(ret);
            continue;
        }
        if (line_is(line, n, CLOSE)) {
            found = true;
            in_block = false;
        } else if (n == 0 || line[0] != '#' || (n > 1 && line[1] != ' ' && line[1] != '\r')) {
            in_block = false; /* it was not closed: a comment like others */
        } else {
            size_t skip = n > 1 ? 2 : 1;

            in_table |= n > 2 && line[2] == '[';
            if (!in_table && (kr_buf_add(ret, line + skip, n - skip) < 0 || kr_buf_add_str(ret, "\n") < 0))
                return kr_err_set(err, KR_ERR_INVALID, E2BIG, "the block \"" OPEN "\" is too long");
        }
    }
    return found;
}

static int add_metadata(struct kr_buf *out, const struct kr_run_needs_of *of, struct kr_err *err)
{
    cleanup_buf struct kr_buf block = {0};
    struct metadata m = {.out = out, .python = of->python};
    char name[160];
    int r;

    kr_buf_init(&block, KR_TOML_TEXT_MAX);
    r = find_block(of->code, of->len, &block, err);
    snprintf(name, sizeof name, "metadata of %.100s", of->name);
    if (r > 0)
        r = kr_toml_parse(name, kr_buf_str(&block), block.len, on_metadata, &m, err);
    else if (r < 0)
        return kr_err_wrap(err, r, "%s", name);
    return r;
}

/* ---- all of it ---- */

int kr_run_needs_load(struct kr_run_needs *ret, const struct kr_run_needs_of *of, struct kr_err *err)
{
    cleanup_buf struct kr_buf out = {0};
    int r = 0;

    *ret = (struct kr_run_needs){0};
    kr_buf_init(&out, KR_REQS_TEXT_MAX);
    if (of->file)
        r = add_file(&out, of->file, err);
    for (size_t i = 0; i < of->with->count && r >= 0; i++) {
        r = add_requirement(&out, of->with->items[i], err);
        if (r < 0)
            kr_err_wrap(err, r, "--with: \"%.60s\"", of->with->items[i]);
    }
    if (r >= 0)
        r = add_metadata(&out, of, err);
    if (r < 0)
        return r;
    if (out.len > 0) {
        size_t len;

        ret->text = kr_buf_steal(&out, &len);
    }
    return 0;
}

void kr_run_needs_done(struct kr_run_needs *n)
{
    free(n->text);
    *n = (struct kr_run_needs){0};
}

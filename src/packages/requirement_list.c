/* Lists of requirements: words on one line, and requirements.txt.
 *
 * Called by jobs. Invariant: a list is read as a whole or not at all. */
#include "buf.h"
#include "err.h"
#include "fd.h"
#include "requirement_internal.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kr_requirements_done(struct kr_requirements *list)
{
    for (size_t i = 0; i < list->count; i++)
        kr_requirement_free(list->items[i]);
    free(list->items);
    *list = (struct kr_requirements){0};
}

static int add_requirement(struct kr_requirements *list, struct kr_requirement *r, struct kr_err *err)
{
    if (list->count == KR_REQS_MAX) {
        kr_requirement_free(r);
        return kr_err_set(err, KR_ERR_INVALID, 0, "more than %u requirements", KR_REQS_MAX);
    }
    if (!list->items)
        list->items = calloc(KR_REQS_MAX, sizeof(struct kr_requirement *));
    if (!list->items) {
        kr_requirement_free(r);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "requirements");
    }
    list->items[list->count++] = r;
    return 0;
}

static bool is_separator(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',';
}

int kr_requirements_words(const char *text, size_t len, struct kr_requirements *ret_list, struct kr_err *err)
{
    struct kr_req_reader in = {.text = text, .len = len, .list = true, .err = err};
    struct kr_requirements list = {0};
    int r = 0;

    if (len > KR_REQS_TEXT_MAX)
        return kr_err_set(err, KR_ERR_INVALID, 0, "requirements of more than %u bytes", KR_REQS_TEXT_MAX);
    while (r == 0) {
        struct kr_requirement *one = NULL;

        while (in.at < len && is_separator(text[in.at]))
            in.at++;
        if (in.at == len)
            break;
        r = kr_req_read(&in, &one);
        if (r == 0 && in.at < len && !is_separator(text[in.at]) && !is_separator(text[in.at - 1])) {
            kr_requirement_free(one);
            r = kr_req_fail(&in, "a blank or comma is missing before this");
        } else if (r == 0) {
            r = add_requirement(&list, one, err);
        }
    }
    if (r < 0)
        kr_requirements_done(&list);
    else
        *ret_list = list;
    return r;
}

/* ---- requirements.txt ---- */

/* One logical line: continued ones joined, without the comment. *at moves behind it, *line counts. */
static int next_line(const char *text, size_t len, size_t *at, unsigned *line, struct kr_buf *out)
{
    bool more = true;

    kr_buf_reset(out);
    while (more && *at < len) {
        const char *start = text + *at, *end = memchr(start, '\n', len - *at);
        size_t n = end ? (size_t)(end - start) : len - *at;

        *at += n + (end != NULL);
        ++*line;
        while (n > 0 && start[n - 1] == '\r')
            n--;
        for (size_t i = 0; i < n; i++)
            if (start[i] == '#' && (i == 0 || isspace((unsigned char)start[i - 1])))
                n = i;
        more = n > 0 && start[n - 1] == '\\';
        kr_buf_add(out, start, n - more);
        if (more)
            kr_buf_add_str(out, " ");
    }
    return out->failed;
}

static int read_hash(struct kr_req_reader *in, struct kr_requirement *r)
{
    static const char word[] = "--hash=sha256:";
    const char *text = in->text + in->at;
    size_t n = strcspn(text, " \t=");

    if (strncmp(text, word, sizeof word - 1) != 0)
        return kr_req_fail(in, "the option %.*s is not taken, only --hash=sha256:HEX is", (int)(n < 40 ? n : 40), text);
    in->at += sizeof word - 1;
    text += sizeof word - 1;
    n = strspn(text, "0123456789abcdefABCDEF");
    if (n != 64 || (text[n] && !isspace((unsigned char)text[n])))
        return kr_req_fail(in, "a SHA-256 has 64 hexadecimal digits");
    if (r->hash_count == KR_REQ_HASHES_MAX)
        return kr_req_fail(in, "more than %u hashes", KR_REQ_HASHES_MAX);
    if (!r->hashes && !(r->hashes = calloc(KR_REQ_HASHES_MAX, sizeof *r->hashes)))
        return kr_err_set(in->err, KR_ERR_SYSTEM, ENOMEM, "hashes");
    for (size_t i = 0; i < 64; i++)
        r->hashes[r->hash_count][i] = (char)tolower((unsigned char)text[i]);
    r->hash_count++;
    in->at += 64;
    return 0;
}

static int read_line(const struct kr_buf *line, unsigned number, struct kr_requirements *list, struct kr_err *err)
{
    struct kr_req_reader in = {.text = kr_buf_str(line), .len = line->len, .err = err};
    struct kr_requirement *one = NULL;
    size_t n;
    int r;

    kr_req_skip_blanks(&in);
    if (in.at == in.len)
        return 0;
    in.start = in.at;
    n = strcspn(in.text + in.at, " \t=");
    if (in.text[in.at] == '-')
        return kr_req_fail(&in, "the option %.*s is not taken", (int)(n < 40 ? n : 40), in.text + in.at);
    r = kr_req_read(&in, &one);
    for (kr_req_skip_blanks(&in); r == 0 && in.at < in.len; kr_req_skip_blanks(&in))
        r = in.text[in.at] == '-' ? read_hash(&in, one) : kr_req_fail(&in, "this does not belong to a requirement");
    if (r < 0) {
        kr_requirement_free(one);
        return r;
    }
    one->line = number;
    return add_requirement(list, one, err);
}

int kr_requirements_file(const char *text, size_t len, struct kr_requirements *ret_list, struct kr_err *err)
{
    struct kr_requirements list = {0};
    cleanup_buf struct kr_buf line;
    unsigned number = 0;
    size_t at = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    int r = 0;

    kr_buf_init(&line, KR_REQS_TEXT_MAX + KR_REQS_MAX);
    if (len > KR_REQS_TEXT_MAX)
        return kr_err_set(err, KR_ERR_INVALID, 0, "requirements of more than %u bytes", KR_REQS_TEXT_MAX);
    while (r == 0 && at < len) {
        unsigned first = number + 1;

        r = next_line(text, len, &at, &number, &line);
        if (r < 0)
            kr_err_set(err, KR_ERR_SYSTEM, -r, "requirements");
        else if ((r = read_line(&line, first, &list, err)) < 0)
            kr_err_wrap(err, r, "line %u", first);
    }
    if (r < 0)
        kr_requirements_done(&list);
    else
        *ret_list = list;
    return r;
}

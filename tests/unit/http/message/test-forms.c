/* src/http: query strings and forms, Content-Disposition, multipart bodies, the assets. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "assets.h"
#include "buf.h"
#include "err.h"
#include "multipart.h"
#include "query.h"
#include <errno.h>
#include <stdbool.h>

/* ---- queries ---- */

static int parse(struct kr_query *q, const char *text, struct kr_err *err)
{
    return kr_query_parse(q, text, strlen(text), err);
}

static bool pair_is(const struct kr_query *q, unsigned i, const char *key, const char *value)
{
    return i < q->count && strcmp(q->pairs[i].key, key) == 0 && q->pairs[i].key_len == strlen(key) &&
           strcmp(q->pairs[i].value, value) == 0 && q->pairs[i].value_len == strlen(value);
}

static void query_pairs_are_decoded(void)
{
    cleanup_query struct kr_query q = {0};
    struct kr_err err;

    CHECK(parse(&q, "a=1&b+c=%41%2b+%2526&flag&empty=&d==%3d&&k%C3%A4se=%E5%9B%BE", &err) == 0);
    CHECK(q.count == 6 && !q.repeated);
    CHECK(pair_is(&q, 0, "a", "1"));
    CHECK(pair_is(&q, 1, "b c", "A+ %26"));
    CHECK(pair_is(&q, 2, "flag", ""));
    CHECK(pair_is(&q, 3, "empty", ""));
    CHECK(pair_is(&q, 4, "d", "=="));
    CHECK(pair_is(&q, 5, "k\xc3\xa4se", "\xe5\x9b\xbe"));
}

static void query_nothing_is_nothing(void)
{
    cleanup_query struct kr_query q = {0};
    struct kr_err err;
    const char *value = "before";

    CHECK(parse(&q, "", &err) == 0 && q.count == 0);
    CHECK(parse(&q, "&&&", &err) == 0 && q.count == 0);
    CHECK(kr_query_get(&q, "a", &value, &err) == 0 && strcmp(value, "before") == 0);
}

static void query_broken_text_is_refused_by_name(void)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"a=%", "the value of parameter 1 (a) has a %"},
        {"a=1&b=%4", "the value of parameter 2 (b) has a %"},
        {"a=%4g", "hexadecimal"},
        {"a=%g4", "hexadecimal"},
        {"a=%+4", "hexadecimal"},
        {"%zz=1", "the name of parameter 1 has a %"},
        {"a=%00", "NUL"},
        {"a=\n", "control character"},
        {"a=\x7f", "control character"},
        {"=1", "the name of parameter 1 is empty"},
        {"a=%ff", "UTF-8"},
        {"a=%C3", "UTF-8"},
        {"a=%ED%A0%80", "UTF-8"}, /* a surrogate */
        {"a=%C0%AF", "UTF-8"},    /* an overlong slash */
    };
    struct kr_query q;
    struct kr_err err;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK(parse(&q, cases[i].text, &err) == -EINVAL);
        CHECK(err.kind == KR_ERR_INVALID && strstr(err.msg, cases[i].says));
        CHECK(q.count == 0 && !q.text);
    }
    CHECK(kr_query_parse(&q, "a=\0b", 4, &err) == -EINVAL);
}

static void query_repeated_keys_are_told(void)
{
    cleanup_query struct kr_query q = {0};
    struct kr_err err;
    const char *value = NULL;

    CHECK(parse(&q, "a=1&b=2&%61=3", &err) == 0);
    CHECK(q.repeated && strcmp(q.repeated, "a") == 0);
    CHECK(kr_query_get(&q, "a", &value, &err) == -EINVAL && strstr(err.msg, "more than once"));
    CHECK(kr_query_get(&q, "b", &value, &err) == 1 && strcmp(value, "2") == 0);
}

static void query_maxima_hold(void)
{
    cleanup_buf struct kr_buf text;
    cleanup_query struct kr_query q = {0};
    struct kr_err err;

    kr_buf_init(&text, 1 << 20);
    for (unsigned i = 0; i < KR_QUERY_PAIRS_MAX; i++)
        kr_buf_printf(&text, "&k%u", i);
    CHECK(parse(&q, kr_buf_str(&text), &err) == 0 && q.count == KR_QUERY_PAIRS_MAX);
    kr_query_done(&q);
    kr_buf_add_str(&text, "&x");
    CHECK(parse(&q, kr_buf_str(&text), &err) == -E2BIG && strstr(err.msg, "more than 64 parameters"));
    kr_buf_reset(&text);
    kr_buf_add_str(&text, "a=");
    while (text.len < KR_QUERY_TEXT_MAX)
        kr_buf_add_str(&text, "x");
    CHECK(parse(&q, kr_buf_str(&text), &err) == 0 && q.pairs[0].value_len == KR_QUERY_TEXT_MAX - 2);
    kr_query_done(&q);
    kr_buf_add_str(&text, "x");
    CHECK(parse(&q, kr_buf_str(&text), &err) == -E2BIG);
}

static void query_decode_works_in_place(void)
{
    char text[] = "a%2Fb+c%C3%A4";
    struct kr_err err;

    CHECK(kr_percent_decode(text, strlen(text), false, text, "path", &err) == 7);
    CHECK(strcmp(text, "a/b+c\xc3\xa4") == 0);
    strcpy(text, "x%2");
    CHECK(kr_percent_decode(text, strlen(text), false, text, "the path", &err) == -EINVAL);
    CHECK(strncmp(err.msg, "the path has", 12) == 0);
}

/* What is written is read again as it was, whatever it is. */
static void query_written_is_read_again(void)
{
    static const char *const values[] = {"", "plain", "a b&c=d?e#f%20+", "/app/results/\xe5\x9b\xbe 1.png",
                                         "\"'<>\\\x01"};
    cleanup_buf struct kr_buf url;
    cleanup_query struct kr_query q = {0};
    struct kr_err err;

    kr_buf_init(&url, 4096);
    kr_buf_add_str(&url, "http://h/sandbox/file");
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char key[16];

        snprintf(key, sizeof key, "k&%zu", i);
        CHECK(kr_query_add(&url, key, values[i]) == 0);
    }
    CHECK(strchr(kr_buf_str(&url), '?') && !strpbrk(kr_buf_str(&url), " \"<>\\\x01#"));
    CHECK(parse(&q, strchr(kr_buf_str(&url), '?') + 1, &err) == 0 && q.count == sizeof values / sizeof values[0]);
    for (unsigned i = 0; i < q.count; i++)
        CHECK(strcmp(q.pairs[i].value, values[i]) == 0);
    CHECK(strstr(kr_buf_str(&url), "=/app/results/%E5%9B%BE%201.png"));
}

/* ---- Content-Disposition ---- */

static void disposition_names_survive(void)
{
    static const struct {
        const char *name, *want;
    } cases[] = {
        {"a.csv", "inline; filename=\"a.csv\""},
        {"/app/results/plot 1.png", "inline; filename=\"plot 1.png\""},
        {"\xe5\x9b\xbe 1.png", "inline; filename=\"_ 1.png\"; filename*=UTF-8''%E5%9B%BE%201.png"},
        {"a\"b.txt", "inline; filename=\"a_b.txt\"; filename*=UTF-8''a%22b.txt"},
        {"a\r\nX: y", "inline; filename=\"a__X: y\""},
        {"50%.txt", "inline; filename=\"50_.txt\"; filename*=UTF-8''50%25.txt"},
        {"a\\b", "inline; filename=\"a_b\""},
        {"bad\xff\xfe.txt", "inline; filename=\"bad__.txt\"; filename*=UTF-8''bad%EF%BF%BD%EF%BF%BD.txt"},
        {"x\xe2\x80\xaegnp.exe", "inline; filename=\"x_gnp.exe\""}, /* right-to-left override */
        {"", "inline"},
        {"dir/", "inline"},
        {NULL, "inline"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cleanup_buf struct kr_buf out;

        kr_buf_init(&out, 8192);
        CHECK(kr_disposition_add(&out, "inline", cases[i].name) == 0);
        CHECK(strcmp(kr_buf_str(&out), cases[i].want) == 0);
    }
}

static void disposition_long_names_are_cut(void)
{
    cleanup_buf struct kr_buf out;
    char name[5000];

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    kr_buf_init(&out, 8192);
    CHECK(kr_disposition_add(&out, "attachment", name) == 0);
    CHECK(out.len < 1200 && strstr(kr_buf_str(&out), "attachment; filename=\"xxx"));
    kr_buf_done(&out);
    kr_buf_init(&out, 10);
    CHECK(kr_disposition_add(&out, "attachment", "a.txt") == -ENOBUFS);
}

/* ---- multipart ---- */

/* Everything the callbacks said, as text, so that two ways of feeding can be compared. */
struct heard {
    struct kr_buf log;
    bool in_part;
    int refuse_part, refuse_data; /* what to return */
};

static int on_part(void *ctx, const struct kr_multipart_part *part, struct kr_err *err)
{
    struct heard *h = ctx;

    if (h->in_part)
        kr_buf_add_str(&h->log, "!in part!");
    h->in_part = true;
    kr_buf_printf(&h->log, "<%u|%s|%s|%s>", part->index, part->name, part->filename ? part->filename : "-",
                  part->content_type ? part->content_type : "-");
    if (h->refuse_part)
        kr_err_set(err, KR_ERR_DENIED, 0, "not this one");
    return h->refuse_part;
}

static int on_data(void *ctx, const void *data, size_t len, struct kr_err *err)
{
    struct heard *h = ctx;

    kr_buf_add_str(&h->log, h->in_part && len > 0 ? "" : "!data!");
    kr_buf_add(&h->log, data, len);
    if (h->refuse_data)
        kr_err_set(err, KR_ERR_LIMIT, 0, "full");
    return h->refuse_data;
}

static int on_part_end(void *ctx, struct kr_err *err)
{
    struct heard *h = ctx;

    (void)err;
    kr_buf_add_str(&h->log, h->in_part ? "</>" : "!end!");
    h->in_part = false;
    return 0;
}

static const struct kr_multipart_ops ops = {on_part, on_data, on_part_end};

/* Feeds in pieces of `piece` bytes, the first of `first`; returns feed's or finish's result. */
static int feed(struct heard *h, const char *body, size_t len, size_t first, size_t piece, struct kr_err *err)
{
    struct kr_multipart *m = kr_multipart_new("XyZ", 3, &ops, h);
    size_t n = first < len ? first : len;
    int r = -ENOMEM;

    while (m) {
        r = kr_multipart_feed(m, body, n, err);
        body += n;
        len -= n;
        if (r < 0 || len == 0)
            break;
        n = piece < len ? piece : len;
    }
    if (r == 0)
        r = kr_multipart_finish(m, err);
    kr_multipart_free(m);
    return r;
}

/* All cuts in two and all sizes of pieces give the same; what that is, goes to *ret. */
static bool same_in_all_pieces(const char *body, size_t len, struct heard *ret, int *ret_r, struct kr_err *ret_err)
{
    bool same = true;

    kr_buf_init(&ret->log, 1 << 20);
    *ret_r = feed(ret, body, len, len, len, ret_err);
    for (size_t cut = 0; cut <= 2 * len; cut++) {
        struct heard h = {.in_part = false};
        struct kr_err err = {0};
        int r;

        kr_buf_init(&h.log, 1 << 20);
        r = cut <= len ? feed(&h, body, len, cut, len, &err) : feed(&h, body, len, cut - len, cut - len, &err);
        if (r != *ret_r || strcmp(kr_buf_str(&h.log), kr_buf_str(&ret->log)) != 0 ||
            (r < 0 && strcmp(err.msg, ret_err->msg) != 0))
            same = false;
        kr_buf_done(&h.log);
    }
    return same;
}

#define HEAD_A "Content-Disposition: form-data; name=\"a\"\r\n\r\n"

static void multipart_good_bodies(void)
{
    /* clang-format off */
    static const struct {
        const char *body, *want;
    } cases[] = {
        {"--XyZ\r\n" HEAD_A "one\r\n--XyZ--\r\n", "<0|a|-|->one</>"},
        {"--XyZ\r\n" HEAD_A "one\r\n--XyZ--", "<0|a|-|->one</>"},
        {"\r\n--XyZ\r\n" HEAD_A "one\r\n--XyZ-- \t\r\n", "<0|a|-|->one</>"},
        {"--XyZ--\r\n", ""},
        {"--XyZ \t \r\n" HEAD_A "\r\n--XyZ\r\n" HEAD_A "\r\n\r\n--XyZ--", "<0|a|-|-></><1|a|-|->\r\n</>"},
        /* without content and without its own CRLF */
        {"--XyZ\r\n" HEAD_A "--XyZ\r\n" HEAD_A "--XyZ--", "<0|a|-|-></><1|a|-|-></>"},
        /* almost boundaries */
        {"--XyZ\r\n" HEAD_A "--XyA\r\n--Xy\r\n-\r\r\n--\r\n--xyz\r\r\n--XyZ--",
         "<0|a|-|->--XyA\r\n--Xy\r\n-\r\r\n--\r\n--xyz\r</>"},
        {"--XyZ\r\n" HEAD_A "-\r\n--XyZ--", "<0|a|-|->-</>"},
        {"--XyZ\r\ncontent-type:text/csv ;x=1 \r\nX-Other: \xff?\r\n"
         "CONTENT-DISPOSITION:form-data;name=f ; filename=\"d/\xc3\xa4.csv\";\r\n"
         "Content-Transfer-Encoding: BINARY\r\n\r\n1,2\n\r\n--XyZ--",
         "<0|f|d/\xc3\xa4.csv|text/csv ;x=1>1,2\n</>"},
        {"--XyZ\r\nContent-Disposition: form-data; name=\"a;\\\"b\\\\\"; "
         "filename=\"q%22\\x%41.txt\"\r\n\r\n\r\n--XyZ--",
         "<0|a;\"b\\|q\"\\x%41.txt|-></>"},
        {"--XyZ\r\nContent-Disposition: form-data; name=\"\"; filename=\"\"\r\n\r\n\r\n--XyZ--", "<0|||-></>"},
        {"--XyZ\r\nContent-Disposition: form-data; filename=\"_.png\"; filename*=utf-8'en'%E5%9B%BE%201.png; "
         "name=u\r\n\r\n\r\n--XyZ--",
         "<0|u|\xe5\x9b\xbe 1.png|-></>"},
        {"--XyZ\r\nContent-Disposition: form-data; name=u; filename*=UTF-8''a; filename=b\r\n\r\n\r\n--XyZ--",
         "<0|u|a|-></>"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct heard h = {.in_part = false};
        struct kr_err err = {0};
        bool same;
        int r = 0;

        same = same_in_all_pieces(cases[i].body, strlen(cases[i].body), &h, &r, &err);
        if (r != 0 || strcmp(kr_buf_str(&h.log), cases[i].want) != 0)
            printf("# case %zu: %d %s: %s\n", i, r, err.msg, kr_buf_str(&h.log));
        CHECK(r == 0 && same);
        CHECK(strcmp(kr_buf_str(&h.log), cases[i].want) == 0);
        kr_buf_done(&h.log);
    }
}

#define PART(lines) "--XyZ\r\n" lines "\r\n\r\nx\r\n--XyZ--"
#define DISPOSITION "Content-Disposition: form-data; name=a"

static void multipart_bad_bodies_say_what_is_wrong(void)
{
    /* clang-format off */
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"", "ends before its last boundary"},
        {"preamble\r\n--XyZ--", "byte 0: it does not start with the boundary"},
        {"\r\n\r\n--XyZ--", "does not start with the boundary"},
        {"--Other--", "does not start with the boundary"},
        {"--XyZ", "ends before its last boundary"},
        {"--XyZ-", "ends before its last boundary"},
        {"--XyZ-x", "followed by other text"},
        {"--XyZZ\r\n", "followed by other text"},
        {"--XyZ\n" HEAD_A, "followed by other text"},
        {"--XyZ\rx", "does not end with CR LF"},
        {"--XyZ  x\r\n", "followed by other text"},
        {"--XyZ--\r\nepilogue", "byte 9: there is something after the last boundary"},
        {"--XyZ--\n", "something after the last"},
        {"--XyZ--\r\n\r\n", "something after the last"},
        {"--XyZ--\r", "ends before its last boundary"},
        {"--XyZ\r\n" HEAD_A "data", "ends inside part 1"},
        {"--XyZ\r\n" HEAD_A "data\r\n--XyZ", "ends before its last boundary (1 parts)"},
        {"--XyZ\r\n" HEAD_A "data\r\n--XyZ \r\nA: b", "ends inside part 2"},
        {"--XyZ\r\n" HEAD_A "data\r\n--XyZabc\r\n--XyZ--", "followed by other text"},
        {"--XyZ\r\n\r\nx\r\n--XyZ--", "part 1: it has no Content-Disposition"},
        {PART("Content-Type: a/b"), "it has no Content-Disposition"},
        {PART("Content-Disposition: form-data"), "has no name"},
        {PART("Content-Disposition: form-data; filename=a"), "has no name"},
        {PART("Content-Disposition: attachment; name=a"), "is not form-data"},
        {PART("Content-Disposition: form-datax; name=a"), "is not form-data"},
        {PART("Content-Disposition: form-data name=a"), "cannot be read"},
        {PART("Content-Disposition: form-data; name=\"a"), "cannot be read"},
        {PART("Content-Disposition: form-data; name=\"a\"b"), "cannot be read"},
        {PART("Content-Disposition: form-data; name=\"a\\\""), "cannot be read"},
        {PART("Content-Disposition: form-data; name"), "cannot be read"},
        {PART("Content-Disposition: form-data; name="), "cannot be read"},
        {PART(DISPOSITION "; name=b"), "name is given twice"},
        {PART(DISPOSITION "; filename=b; filename=c"), "filename is given twice"},
        {PART(DISPOSITION "; filename*=latin1''b"), "filename*"},
        {PART(DISPOSITION "; filename*=UTF-8''%00"), "filename*"},
        {PART(DISPOSITION "; filename*=UTF-8''%0Ab"), "control character"},
        {PART(DISPOSITION "; filename*=UTF-8''%ff"), "filename*"},
        {PART("Content-Disposition: form-data; name=\"\xff\""), "not UTF-8"},
        {PART("Content-Disposition: form-data; name=\"a\tb\""), "control character"},
        {PART(DISPOSITION "\r\n" DISPOSITION), "two Content-Disposition"},
        {PART(DISPOSITION "\r\nContent-Type: a/b\r\nContent-Type: a/b"), "two Content-Type"},
        {PART(DISPOSITION "\r\nContent-Transfer-Encoding: base64"), "Content-Transfer-Encoding"},
        {PART(DISPOSITION "\r\n folded: x"), "not `Name: value`"},
        {PART(DISPOSITION "\r\nX : y"), "not `Name: value`"},
        {PART(DISPOSITION "\r\nnothing"), "not `Name: value`"},
        {PART(DISPOSITION "\r\nX: \x01"), "control character"},
        {PART(DISPOSITION "\nX: y"), "does not end with CR LF"},
        {PART(DISPOSITION "\rX: y"), "does not end with CR LF"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct heard h = {.in_part = false};
        struct kr_err err = {0};
        bool same;
        int r = 0;

        same = same_in_all_pieces(cases[i].body, strlen(cases[i].body), &h, &r, &err);
        if (!strstr(err.msg, cases[i].says) || !same)
            printf("# case %zu: %d %s\n", i, r, err.msg);
        kr_buf_done(&h.log);
        CHECK(r == -EINVAL && same && err.kind == KR_ERR_INVALID);
        CHECK(strstr(err.msg, cases[i].says));
    }
}

static void multipart_maxima_hold(void)
{
    cleanup_buf struct kr_buf body;
    struct heard h = {.in_part = false};
    struct kr_err err = {0};
    bool same;
    int r;

    kr_buf_init(&body, 1 << 20);
    for (int i = 0; i < 4; i++)
        kr_buf_printf(&body, "%s--XyZ\r\n" HEAD_A "x", i ? "\r\n" : "");
    kr_buf_add_str(&body, "\r\n--XyZ--");
    same = same_in_all_pieces(body.data, body.len, &h, &r, &err);
    kr_buf_done(&h.log);
    CHECK(same && r == -E2BIG && strstr(err.msg, "more than 3 parts"));

    kr_buf_reset(&body);
    kr_buf_add_str(&body, "--XyZ\r\nX: ");
    while (body.len < KR_MULTIPART_HEAD_MAX + 100)
        kr_buf_add_str(&body, "y");
    kr_buf_init(&h.log, 1000);
    r = feed(&h, body.data, body.len, body.len, 1, &err);
    CHECK(r == -E2BIG && strstr(err.msg, "part 1: its header lines are longer than 4096"));

    kr_buf_reset(&body);
    kr_buf_add_str(&body, "--XyZ\r\n");
    for (unsigned i = 0; i <= KR_MULTIPART_HEADERS_MAX; i++)
        kr_buf_add_str(&body, "X: y\r\n");
    kr_buf_add_str(&body, "\r\n");
    r = feed(&h, body.data, body.len, body.len, 1, &err);
    kr_buf_done(&h.log);
    CHECK(r == -E2BIG && strstr(err.msg, "more than 16 header lines"));
}

static void multipart_callbacks_can_end_it(void)
{
    static const char body[] = "--XyZ\r\n" HEAD_A "x\r\n--XyZ--";
    struct heard h = {.refuse_part = -EACCES};
    struct kr_err err = {0};
    struct kr_multipart *m = kr_multipart_new("XyZ", 3, &ops, &h);

    kr_buf_init(&h.log, 1000);
    CHECK(m && kr_multipart_feed(m, body, sizeof body - 1, &err) == -EACCES && err.kind == KR_ERR_DENIED);
    CHECK(strcmp(kr_buf_str(&h.log), "<0|a|-|->") == 0);
    memset(&err, 0, sizeof err);
    CHECK(kr_multipart_feed(m, "x", 1, &err) == -EACCES && err.kind == KR_ERR_DENIED); /* it stays */
    CHECK(kr_multipart_finish(m, NULL) == -EACCES);
    kr_multipart_free(m);
    kr_buf_reset(&h.log);
    h = (struct heard){.log = h.log, .refuse_data = -ENOSPC};
    CHECK(feed(&h, body, sizeof body - 1, 1, 1, &err) == -ENOSPC && strcmp(err.msg, "full") == 0);
    kr_buf_done(&h.log);
}

/* A file of several pieces comes through in pieces as large as they went in: nothing is collected, nothing cut up. */
static void multipart_data_is_not_cut_up(void)
{
    static const char head[] = "--XyZ\r\n" HEAD_A;
    struct heard h = {.in_part = false};
    struct kr_err err = {0};
    struct kr_multipart *m = kr_multipart_new("XyZ", 3, &ops, &h);
    char lines[4000];

    for (size_t i = 0; i < sizeof lines; i++)
        lines[i] = "a\r\n-"[i % 4];
    kr_buf_init(&h.log, 1 << 20);
    CHECK(m && kr_multipart_feed(m, head, sizeof head - 1, &err) == 0);
    kr_buf_reset(&h.log);
    CHECK(kr_multipart_feed(m, lines, sizeof lines, &err) == 0);
    CHECK(h.log.len == sizeof lines - 3); /* "\r\n-" may be a boundary's beginning */
    CHECK(kr_multipart_feed(m, "z", 1, &err) == 0 && h.log.len == sizeof lines + 1);
    CHECK(memcmp(h.log.data, lines, sizeof lines) == 0);
    kr_multipart_free(m);
    kr_buf_done(&h.log);
}

static void multipart_boundary_of_content_type(void)
{
    static const struct {
        const char *type, *boundary; /* NULL: refused; "": not multipart */
    } cases[] = {
        {"multipart/form-data; boundary=abc", "abc"},
        {"Multipart/Form-Data;charset=utf-8 ; BOUNDARY=\"a b?\" ;", "a b?"},
        {"multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
         "----WebKitFormBoundary7MA4YWxkTrZu0gW"},
        {"multipart/form-data", NULL},
        {"multipart/form-data; boundary=", NULL},
        {"multipart/form-data; boundary=\"\"", NULL},
        {"multipart/form-data; boundary=\"a \"", NULL},
        {"multipart/form-data; boundary=\"a\\\\b\"", NULL},
        {"multipart/form-data; boundary=a; boundary=b", NULL},
        {"multipart/form-data boundary=a", NULL},
        {"multipart/form-data; boundary=a\xc3\xa4", NULL},
        {"multipart/form-data; boundary=1234567890123456789012345678901234567890123456789012345678901234567890",
         "1234567890123456789012345678901234567890123456789012345678901234567890"},
        {"multipart/form-data; boundary=12345678901234567890123456789012345678901234567890123456789012345678901", NULL},
        {"multipart/form-datax; boundary=a", ""},
        {"multipart/mixed; boundary=a", ""},
        {"application/json", ""},
        {"", ""},
        {NULL, ""},
    };
    char out[KR_MULTIPART_BOUNDARY_MAX + 1];
    struct kr_err err;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *want = cases[i].boundary;
        int r = kr_multipart_boundary(cases[i].type, out, &err);

        CHECK(r == (!want ? -EINVAL : *want ? 1 : 0));
        CHECK(r != 1 || strcmp(out, want) == 0);
    }
    CHECK(!kr_multipart_new("", 1, &ops, NULL) && !kr_multipart_new("a\r", 1, &ops, NULL));
}

/* ---- assets ---- */

static void assets_are_sorted_and_whole(void)
{
    CHECK(kr_assets_count >= 4);
    for (size_t i = 0; i < kr_assets_count; i++) {
        const struct kr_asset *a = &kr_assets[i];

        CHECK(a->path[0] == '/' && a->identity.data && a->identity.len > 0);
        CHECK(i == 0 || strcmp(kr_assets[i - 1].path, a->path) < 0);
        CHECK(kr_asset_find(a->path, strlen(a->path)) == a);
        CHECK(!a->gzip.data || (a->gzip.len < a->identity.len && memcmp(a->gzip.data, "\x1f\x8b\x08", 3) == 0));
        CHECK(a->identity.etag[0] == '"' && (!a->gzip.data || strcmp(a->identity.etag, a->gzip.etag) != 0));
        CHECK(a->is_page == (strncmp(a->content_type, "text/html", 9) == 0));
        CHECK(!a->is_page || strcmp(a->cache_control, "no-cache") == 0);
    }
}

static void assets_are_found_by_their_whole_path(void)
{
    CHECK(kr_asset_find("/", 1) && kr_asset_find("/", 1)->is_page);
    CHECK(kr_asset_find("/docs?x", 5) && kr_asset_find("/docs?x", 5)->is_page);
    CHECK(kr_asset_find("/favicon.svg", 12));
    CHECK(!kr_asset_find("/doc", 4) && !kr_asset_find("/docs/", 6) && !kr_asset_find("/docsx", 6));
    CHECK(!kr_asset_find("", 0) && !kr_asset_find("/docs\0x", 7) && !kr_asset_find("/index.html", 11));
}

static void assets_encodings_are_chosen(void)
{
    static const struct {
        const char *accept;
        bool gzip;
    } cases[] = {
        {NULL, false},
        {"", false},
        {"gzip", true},
        {"GZip", true},
        {"deflate, gzip;q=0.5, br", true},
        {"x-gzip", true},
        {"*", true},
        {"identity, *;q=0", false},
        {"*, gzip;q=0", false},
        {"gzip;q=0.000", false},
        {"gzip ; Q=0", false},
        {"gzip;q=0.001", true},
        {"gzipped, br", false},
        {",,gzip,,", true},
    };
    const struct kr_asset *a = kr_asset_find("/docs", 5);
    struct kr_asset_reply reply;

    CHECK(a && a->gzip.data);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kr_asset_answer(a, cases[i].accept, NULL, &reply);
        CHECK(reply.status == 200 && reply.vary);
        CHECK(reply.body == (cases[i].gzip ? &a->gzip : &a->identity));
        CHECK((reply.content_encoding != NULL) == cases[i].gzip);
    }
}

static void assets_tags_are_compared(void)
{
    const struct kr_asset *a = kr_asset_find("/docs", 5);
    struct kr_asset_reply reply;
    char list[300];

    CHECK(a && a->gzip.data);
    snprintf(list, sizeof list, "\"other\" , W/%s", a->identity.etag);
    kr_asset_answer(a, NULL, list, &reply);
    CHECK(reply.status == 304 && reply.vary && reply.body == &a->identity);
    kr_asset_answer(a, "gzip", list, &reply); /* the tag of other bytes */
    CHECK(reply.status == 200);
    kr_asset_answer(a, "gzip", a->gzip.etag, &reply);
    CHECK(reply.status == 304 && reply.body == &a->gzip);
    kr_asset_answer(a, NULL, "*", &reply);
    CHECK(reply.status == 304);
    kr_asset_answer(a, NULL, "\"\"", &reply);
    CHECK(reply.status == 200);
    snprintf(list, sizeof list, "%.*s", (int)strlen(a->identity.etag) - 1, a->identity.etag);
    kr_asset_answer(a, NULL, list, &reply);
    CHECK(reply.status == 200);
}

int main(void)
{
    RUN(query_pairs_are_decoded);
    RUN(query_nothing_is_nothing);
    RUN(query_broken_text_is_refused_by_name);
    RUN(query_repeated_keys_are_told);
    RUN(query_maxima_hold);
    RUN(query_decode_works_in_place);
    RUN(query_written_is_read_again);
    RUN(disposition_names_survive);
    RUN(disposition_long_names_are_cut);
    RUN(multipart_good_bodies);
    RUN(multipart_bad_bodies_say_what_is_wrong);
    RUN(multipart_maxima_hold);
    RUN(multipart_callbacks_can_end_it);
    RUN(multipart_data_is_not_cut_up);
    RUN(multipart_boundary_of_content_type);
    RUN(assets_are_sorted_and_whole);
    RUN(assets_are_found_by_their_whole_path);
    RUN(assets_encodings_are_chosen);
    RUN(assets_tags_are_compared);
    CHECK_DONE();
}

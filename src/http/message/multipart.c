/* The push parser for multipart/form-data.
 *
 * Called by the upload routes with the pieces of a body as they come off the connection. Invariant: a byte is handed on
 * as content only when it cannot be part of a boundary any more, and never twice; memory is the struct and nothing
 * else.
 *
 * A boundary inside a body is CRLF, two dashes, the word. Its CR is the only one, so when a match breaks off, what was
 * matched is content and nothing of it can begin another match: one counter is the whole state of the search. The lines
 * of a part's head are read in multipart_head.c. */
#include "multipart.h"
#include "err.h"
#include "multipart_head.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PADDING_MAX 64u /* blanks after a boundary (RFC 2046's transport padding) */

enum state {
    START,      /* before the first boundary */
    AFTER,      /* after a boundary: what follows tells which one it was */
    AFTER_DASH, /* one dash of the last boundary's two */
    PADDING,    /* blanks after a boundary that opens a part */
    PADDING_LF, /* its CR has come */
    HEAD,       /* a part's header lines */
    BODY,       /* a part's content */
    LAST,       /* after the last boundary: blanks, one CRLF, the end */
    LAST_LF,    /* its CR has come */
    END,        /* nothing may follow */
};

struct kr_multipart {
    const struct kr_multipart_ops *ops;
    void *ctx;
    enum state state;
    int failed; /* 0 or the -errno that stays */
    struct kr_err err;
    unsigned parts, parts_max;
    unsigned padding;
    uint64_t at;                                   /* bytes taken, for the texts of errors */
    size_t matched;                                /* bytes of the delimiter matched so far */
    size_t first;                                  /* of them, those that were no bytes of the content: 2 or 0 */
    size_t delimiter_len;                          /* CR LF - - word */
    char delimiter[KR_MULTIPART_BOUNDARY_MAX + 5]; /* NUL-terminated */
    size_t head_len;
    char head[KR_MULTIPART_HEAD_MAX + 1];
};

static int fail_multipart(struct kr_multipart *m, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static int fail_multipart(struct kr_multipart *m, int code, const char *fmt, ...)
{
    char text[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    kr_err_set(&m->err, KR_ERR_INVALID, 0, "multipart body, byte %" PRIu64 ": %s", m->at, text);
    m->failed = -code;
    return m->failed;
}

/* What a callback returned is the end of the parse if it is negative. */
static int called(struct kr_multipart *m, int r)
{
    if (r < 0)
        m->failed = r;
    return r;
}

struct kr_multipart *kr_multipart_new(const char *boundary, unsigned parts_max, const struct kr_multipart_ops *ops,
                                      void *ctx)
{
    size_t len = strlen(boundary);
    struct kr_multipart *m;

    if (len == 0 || len > KR_MULTIPART_BOUNDARY_MAX || strpbrk(boundary, "\r\n"))
        return NULL;
    m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->ops = ops;
    m->ctx = ctx;
    m->parts_max = parts_max;
    m->delimiter_len = 4 + len;
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, boundary, len);
    m->matched = 2; /* a body that starts with the boundary has no CRLF before it */
    m->first = 2;
    return m;
}

void kr_multipart_free(struct kr_multipart *m)
{
    free(m);
}

/* ---- one step each: takes bytes from *p, at least one, up to end ---- */

static int step_start(struct kr_multipart *m, const char **p)
{
    /* One CRLF before the first boundary is what some clients send. */
    if (m->matched == 2 && m->first == 2 && **p == '\r') {
        m->matched = 0;
        m->first = 0;
    }
    if (**p != m->delimiter[m->matched])
        return fail_multipart(m, EINVAL, "it does not start with the boundary that Content-Type names");
    (*p)++;
    m->at++;
    if (++m->matched == m->delimiter_len)
        m->state = AFTER;
    return 0;
}

/* The boundary has come whole: is it the last, or does a part follow? */
static int step_after(struct kr_multipart *m, const char **p)
{
    char c = **p;

    if (m->state == AFTER && c == '-')
        m->state = AFTER_DASH;
    else if (m->state == AFTER_DASH && c == '-') {
        m->state = LAST;
        m->padding = 0;
    } else if (m->state == AFTER && (c == ' ' || c == '\t' || c == '\r')) {
        m->state = PADDING;
        m->padding = 0;
        return 0; /* looked at again there */
    } else {
        return fail_multipart(m, EINVAL, "a boundary is followed by other text on its line");
    }
    (*p)++;
    m->at++;
    return 0;
}

static int step_padding(struct kr_multipart *m, const char **p)
{
    char c = **p;

    if (m->state == PADDING_LF) {
        if (c != '\n')
            return fail_multipart(m, EINVAL, "a boundary's line does not end with CR LF");
        if (m->parts == m->parts_max)
            return fail_multipart(m, E2BIG, "more than %u parts", m->parts_max);
        m->state = HEAD;
        m->head_len = 0;
    } else if (c == '\r') {
        m->state = PADDING_LF;
    } else if ((c != ' ' && c != '\t') || ++m->padding > PADDING_MAX) {
        return fail_multipart(m, EINVAL, "a boundary is followed by other text on its line");
    }
    (*p)++;
    m->at++;
    return 0;
}

static int step_last(struct kr_multipart *m, const char **p)
{
    char c = **p;

    if (m->state == LAST && (c == ' ' || c == '\t') && ++m->padding <= PADDING_MAX)
        ;
    else if (m->state == LAST && c == '\r')
        m->state = LAST_LF;
    else if (m->state == LAST_LF && c == '\n')
        m->state = END;
    else
        return fail_multipart(m, EINVAL, "there is something after the last boundary");
    (*p)++;
    m->at++;
    return 0;
}

/* The head is whole (its last line is empty): read it, and let the part begin. */
static int begin_part(struct kr_multipart *m)
{
    struct kr_multipart_part part = {.index = m->parts};
    char why[128];
    int r = kr_multipart_head(m->head, m->head_len, &part, why, sizeof why);

    if (r < 0)
        return fail_multipart(m, -r, "part %u: %s", m->parts + 1, why);
    m->parts++;
    m->state = BODY;
    /* The empty line's CRLF may be the one of a boundary: a part without content may leave out its own. */
    m->matched = 2;
    m->first = 2;
    return called(m, m->ops->on_part(m->ctx, &part, &m->err));
}

static int step_head(struct kr_multipart *m, const char **p)
{
    char c = *(*p)++;

    m->at++;
    if (m->head_len == KR_MULTIPART_HEAD_MAX)
        return fail_multipart(m, E2BIG, "part %u: its header lines are longer than %u bytes", m->parts + 1,
                              KR_MULTIPART_HEAD_MAX);
    /* A CR belongs to a LF and a LF to a CR: judged here, so that no piece hides it. */
    if ((m->head_len > 0 && m->head[m->head_len - 1] == '\r') != (c == '\n'))
        return fail_multipart(m, EINVAL, "part %u: a header line does not end with CR LF", m->parts + 1);
    m->head[m->head_len++] = c;
    if (c != '\n')
        return 0;
    if (m->head_len == 2 || (m->head_len > 3 && memcmp(m->head + m->head_len - 4, "\r\n\r\n", 4) == 0)) {
        m->head_len -= 2;
        return begin_part(m);
    }
    return 0;
}

static int pass_content(struct kr_multipart *m, const char *data, size_t len)
{
    if (len == 0 || !m->ops->on_data)
        return 0;
    return called(m, m->ops->on_data(m->ctx, data, len, &m->err));
}

static int end_part(struct kr_multipart *m)
{
    m->state = AFTER;
    return m->ops->on_part_end ? called(m, m->ops->on_part_end(m->ctx, &m->err)) : 0;
}

/* How far the delimiter's beginning is at p. */
static size_t match_length(const struct kr_multipart *m, const char *p, const char *end)
{
    size_t n = 0;

    while (n < m->delimiter_len && p + n < end && p[n] == m->delimiter[n])
        n++;
    return n;
}

/* A match that began in an earlier piece (or in the empty line of the head) goes on, or breaks off and was content. */
static int step_match(struct kr_multipart *m, const char **p)
{
    size_t from = m->first, held = m->matched - m->first;

    if (**p == m->delimiter[m->matched]) {
        (*p)++;
        m->at++;
        return ++m->matched == m->delimiter_len ? end_part(m) : 0;
    }
    m->matched = 0;
    m->first = 0;
    return pass_content(m, m->delimiter + from, held);
}

/* Content up to a boundary, to what may be the beginning of one at the end of the piece, or to that end: in one go, so
 * that text full of CRs is not handed on line by line. */
static int step_body(struct kr_multipart *m, const char **p, const char *end)
{
    const char *from = *p, *cr = from;
    size_t n = 0;

    if (m->matched > 0)
        return step_match(m, p);
    while ((cr = memchr(cr, '\r', (size_t)(end - cr)))) {
        n = match_length(m, cr, end);
        if (n == m->delimiter_len || cr + n == end)
            break;
        cr += n; /* a beginning holds no second CR */
    }
    m->matched = cr ? n : 0;
    *p = cr ? cr + n : end;
    m->at += (uint64_t)(*p - from);
    if (pass_content(m, from, (size_t)((cr ? cr : end) - from)) < 0)
        return m->failed;
    return m->matched == m->delimiter_len ? end_part(m) : 0;
}

static int step_multipart(struct kr_multipart *m, const char **p, const char *end)
{
    switch (m->state) {
    case START:
        return step_start(m, p);
    case AFTER:
    case AFTER_DASH:
        return step_after(m, p);
    case PADDING:
    case PADDING_LF:
        return step_padding(m, p);
    case HEAD:
        return step_head(m, p);
    case BODY:
        return step_body(m, p, end);
    case LAST:
    case LAST_LF:
    case END:
        return step_last(m, p);
    }
    return fail_multipart(m, EINVAL, "unknown state");
}

static int report(const struct kr_multipart *m, struct kr_err *err)
{
    if (m->failed < 0 && err)
        *err = m->err;
    return m->failed;
}

int kr_multipart_feed(struct kr_multipart *m, const void *data, size_t len, struct kr_err *err)
{
    const char *p = data, *end = p + len;

    while (p < end && m->failed == 0)
        step_multipart(m, &p, end);
    return report(m, err);
}

int kr_multipart_finish(struct kr_multipart *m, struct kr_err *err)
{
    if (m->failed == 0 && m->state != LAST && m->state != END)
        fail_multipart(m, EINVAL,
                       m->state == BODY || m->state == HEAD ? "it ends inside part %u, before a boundary"
                                                            : "it ends before its last boundary (%u parts)",
                       m->state == HEAD ? m->parts + 1 : m->parts);
    return report(m, err);
}

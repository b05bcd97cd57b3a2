/* Error kinds and the texts that go with them.
 *
 * Called from every folder, from forked children and from inside zygotes. Invariant: an error is built on the caller's
 * memory without allocation, and msg is always terminated, so that it may be sent through a pipe as it stands. */
#define _GNU_SOURCE 1
#include "err.h"
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(struct kr_err) == 248, "an error is one small write, and has no holes to leak memory through");

/* Exit statuses follow env(1), timeout(1) and the shells: 124 deadline, 125 our own failure, 126 refused, 127 not
 * found, 137 ended by a limit, 2 wrong use. Texts of system, protocol and internal speak of our inside and stay on this
 * side. */
/* clang-format off */
static const struct kr_err_row rows[] = {
    [KR_ERR_NONE]         = { "none",           0, 200,      0, 1, 0, "Nothing is wrong." },
    [KR_ERR_INVALID]      = { "invalid",        2, 400, -32602, 1, 0, "An argument is wrong; the text names it." },
    [KR_ERR_NOT_FOUND]    = { "not_found",    127, 404, -32002, 1, 0, "What was named does not exist." },
    [KR_ERR_DENIED]       = { "denied",       126, 403, -32003, 1, 0, "Refused before running." },
    [KR_ERR_UNAVAILABLE]  = { "unavailable",  125, 503, -32004, 1, 0,
                              "A required layer of isolation is missing here." },
    [KR_ERR_LIMIT]        = { "limit",        137, 429, -32005, 1, 0, "A limit of krait is reached." },
    [KR_ERR_TIMEOUT]      = { "timeout",      124, 504, -32006, 1, 0, "A deadline of krait passed." },
    [KR_ERR_SYSTEM]       = { "system",       125, 500, -32603, 0, 0, "A system call failed." },
    [KR_ERR_PROTOCOL]     = { "protocol",     125, 500, -32603, 0, 0,
                              "A peer broke the framing or the order of frames." },
    [KR_ERR_INTERNAL]     = { "internal",     125, 500, -32603, 0, 0, "A defect in krait." },
    [KR_ERR_UNAUTHORIZED] = { "unauthorized", 126, 401, -32007, 1, 0,
                              "A key is needed, or the one given is not good." },
    [KR_ERR_FORBIDDEN]    = { "forbidden",    126, 403, -32008, 1, 0, "The key does not have the right." },
    [KR_ERR_CONFLICT]     = { "conflict",     125, 409, -32009, 1, 0,
                              "It is there already, or its state does not allow this." },
    [KR_ERR_TOO_MANY]     = { "too_many",     125, 429, -32010, 1, 1,
                              "Too many requests, or too many wait: ask again later." },
    [KR_ERR_BUSY]         = { "busy",         125, 503, -32011, 1, 1, "No room at the moment: ask again later." },
    [KR_ERR_TOO_LARGE]    = { "too_large",      2, 413, -32012, 1, 0, "More bytes than are taken." },
    [KR_ERR_UNSUPPORTED]  = { "unsupported",  125, 501, -32013, 1, 0, "Not in this build, or not yet." },
    [KR_ERR_NO_SPACE]     = { "no_space",     125, 507, -32014, 1, 0, "The server's disk is full." },
};
/* clang-format on */
static_assert(sizeof rows / sizeof rows[0] == KR_ERR_MAX_, "every kind has its row");

const struct kr_err_row *kr_err_row(enum kr_err_kind kind)
{
    if ((unsigned)kind >= KR_ERR_MAX_)
        return &rows[KR_ERR_INTERNAL];
    return &rows[kind];
}

/* Appends ": text of errno" as far as there is room. strerrordesc_np(), as strerror() may allocate and translate. */
static void append_errno(struct kr_err *err, int code)
{
    size_t len = strlen(err->msg);
    const char *text = strerrordesc_np(code);

    if (text)
        snprintf(err->msg + len, sizeof err->msg - len, ": %s", text);
    else
        snprintf(err->msg + len, sizeof err->msg - len, ": error %d", code);
}

int kr_err_set(struct kr_err *err, enum kr_err_kind kind, int code, const char *fmt, ...)
{
    va_list ap;

    if (code < 0)
        code = -code; /* -errno was handed on as it came: the meaning is plain */
    if (err) {
        memset(err, 0, sizeof *err);
        err->kind = (uint16_t)kind;
        err->code = code;
        va_start(ap, fmt);
        vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
        if (code)
            append_errno(err, code);
    }
    return code ? -code : -EIO;
}

int kr_err_set_disk(struct kr_err *err, int code, const char *what)
{
    if (abs(code) == ENOSPC || abs(code) == EDQUOT)
        return kr_err_set(err, KR_ERR_NO_SPACE, code, "the server's disk is full: cannot %s", what);
    return kr_err_set(err, KR_ERR_SYSTEM, code, "cannot %s", what);
}

int kr_err_wrap(struct kr_err *err, int r, const char *fmt, ...)
{
    char context[sizeof err->msg];
    size_t len, keep;
    va_list ap;
    int n;

    if (!err)
        return r;
    va_start(ap, fmt);
    n = vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n + 2 >= sizeof err->msg / 2)
        return r; /* the cause is worth more than its context */
    len = (size_t)n;
    keep = strnlen(err->msg, sizeof err->msg - 1);
    if (keep > sizeof err->msg - 1 - len - 2)
        keep = sizeof err->msg - 1 - len - 2;
    memmove(err->msg + len + 2, err->msg, keep);
    memcpy(err->msg, context, len);
    memcpy(err->msg + len, ": ", 2);
    memset(err->msg + len + 2 + keep, 0, sizeof err->msg - len - 2 - keep); /* it may be sent whole: no old bytes */
    return r;
}

void kr_err_from_wire(struct kr_err *err)
{
    err->msg[sizeof err->msg - 1] = '\0';
    err->pad = 0;
    if (err->kind == KR_ERR_NONE || err->kind >= KR_ERR_MAX_)
        err->kind = KR_ERR_PROTOCOL;
    if (err->code < 0 || err->code > 4095) /* MAX_ERRNO of the kernel */
        err->code = EPROTO;
}

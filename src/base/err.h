/* Errors that reach a person or the wire: a kind from one table, an errno, and a short text.
 * Under 256 bytes and without pointers, so a child can send it through a pipe in one write. */
#pragma once
#include <stdint.h>

/* Kinds, their exit status and whether a client may see the text: the table is in err.c. */
enum kr_err_kind {
    KR_ERR_NONE = 0,
    KR_ERR_INVALID, /* the caller's input is wrong: names the field */
    KR_ERR_NOT_FOUND,
    KR_ERR_DENIED,       /* refused before running */
    KR_ERR_UNAVAILABLE,  /* a layer of isolation is missing here */
    KR_ERR_LIMIT,        /* a limit of ours is reached */
    KR_ERR_TIMEOUT,      /* a deadline of ours passed */
    KR_ERR_SYSTEM,       /* a system call failed */
    KR_ERR_PROTOCOL,     /* a peer broke the framing or the order */
    KR_ERR_INTERNAL,     /* our bug */
    KR_ERR_UNAUTHORIZED, /* no key, or a wrong one */
    KR_ERR_FORBIDDEN,    /* the key is good but has not the right */
    KR_ERR_CONFLICT,     /* it is there already, or its state does not allow this */
    KR_ERR_TOO_MANY,     /* asked too often, or too many wait: later it will do */
    KR_ERR_BUSY,         /* no room at the moment, for any caller: later it will do */
    KR_ERR_TOO_LARGE,    /* more bytes than are taken */
    KR_ERR_UNSUPPORTED,  /* not in this build, or not yet */
    KR_ERR_NO_SPACE,     /* the server's own disk is full, for any caller */
    KR_ERR_MAX_,
};

struct kr_err {
    uint16_t kind; /* enum kr_err_kind */
    uint16_t pad;
    int32_t code; /* errno, 0 if none */
    char msg[240];
};

struct kr_err_row {
    const char *name; /* metric label and JSON word */
    int exit_status;  /* of a command that ends with it */
    int http_status;
    int jsonrpc_code;
    int text_is_public; /* may a client see msg? */
    int retry_after_s;  /* when to ask again, unless the refusal says more; 0: asking again changes nothing */
    const char *help;
};

/* The row of a kind; never NULL. */
const struct kr_err_row *kr_err_row(enum kr_err_kind kind);

/* Fills *err (which may be NULL) and returns -code, or -EIO when code is 0. `%m` is not supported: when code is
 * not 0 the text of that errno is appended as ": text". */
int kr_err_set(struct kr_err *err, enum kr_err_kind kind, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for a call on the server's own disk that failed: one that is full says so, to the client too. `what` was to
 * be done: "make the folder of a sandbox". */
int kr_err_set_disk(struct kr_err *err, int code, const char *what);

/* Puts "context: " in front of the text; returns r unchanged. At most once per layer. */
int kr_err_wrap(struct kr_err *err, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Makes an error that came from a peer safe to use: terminates the text, brings kind and code into their ranges.
 * The receiver of a struct kr_err calls this before reading it. */
void kr_err_from_wire(struct kr_err *err);

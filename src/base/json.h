/* A streaming JSON writer into a kr_buf: what comes out is valid JSON in valid UTF-8, or kr_json_done() says that it
 * is not.
 *
 * Calls return nothing; the first failure (buffer full, out of memory, a call out of order) sticks and is returned by
 * kr_json_done(). Several documents may follow each other in one buffer (a line each): init again for each. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_buf;

#define KR_JSON_DEPTH_MAX 32u

struct kr_json {
    struct kr_buf *buf;
    unsigned depth;
    uint32_t is_object; /* bit per depth: an object, not an array, is open there */
    uint32_t has_items; /* bit per depth: a comma is due there */
    bool have_key;      /* a key waits for its value */
    bool complete;      /* the one top-level value is written */
    int error;          /* 0 or the first -errno */
};

void kr_json_init(struct kr_json *j, struct kr_buf *buf);
/* 0 if one whole value was written; -EINVAL if a call was out of order or something is open; -ENOBUFS, -ENOMEM. */
int kr_json_done(const struct kr_json *j);

void kr_json_object(struct kr_json *j);
void kr_json_object_end(struct kr_json *j);
void kr_json_array(struct kr_json *j);
void kr_json_array_end(struct kr_json *j);
void kr_json_key(struct kr_json *j, const char *key);

/* NULL is written as null. Invalid UTF-8 becomes U+FFFD; a sequence cut off by the end of the text is invalid. */
void kr_json_str(struct kr_json *j, const char *text);
void kr_json_str_n(struct kr_json *j, const char *text, size_t len);
void kr_json_int(struct kr_json *j, int64_t value);
void kr_json_uint(struct kr_json *j, uint64_t value);
/* The shortest text that reads back as the same number; what JSON has no number for (NaN, infinities) is null. */
void kr_json_double(struct kr_json *j, double value);
void kr_json_null(struct kr_json *j);
/* Text that is one JSON value already, written by this writer or checked by a parser. */
void kr_json_raw(struct kr_json *j, const char *json, size_t len);

/* key and value in one. */
void kr_json_key_str(struct kr_json *j, const char *key, const char *text);
void kr_json_key_int(struct kr_json *j, const char *key, int64_t value);
void kr_json_key_uint(struct kr_json *j, const char *key, uint64_t value);
void kr_json_key_double(struct kr_json *j, const char *key, double value);
void kr_json_key_bool(struct kr_json *j, const char *key, bool value);
void kr_json_key_null(struct kr_json *j, const char *key);

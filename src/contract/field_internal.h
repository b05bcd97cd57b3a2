/* What the files of the request tables share. */
#pragma once
#include "field.h"

/* Where a value is, from itself up to the body: limits → memory, files → 0 → url. */
struct kr_api_path {
    const struct kr_api_path *up;
    const char *name; /* NULL: an item of an array */
    size_t index;
};

/* One parse. */
struct kr_api_parse {
    struct kr_api_input *in;
    struct kr_err *err;
    bool from_text; /* values are strings: a query or a form */
    unsigned flaws; /* found so far */
    int error;      /* 0, -EINVAL from the first flaw on, -ENOMEM for good */
};

/* A flaw: `type` and `msg` are FastAPI's words, the rest is ours and follows the name ("timeout must be…"). `input` is
 * what came (borrowed; NULL: left out), `limit` FastAPI's ctx (stolen; NULL: none). */
void kr_api_flaw(struct kr_api_parse *p, const struct kr_api_path *path, json_t *input, json_t *limit, const char *type,
                 const char *msg, const char *fmt, ...) __attribute__((format(printf, 7, 8)));
/* The same for the body as a whole; `at` is the byte where it is not JSON, -1: all of it. Our words stand alone. */
void kr_api_flaw_body(struct kr_api_parse *p, long at, const char *type, const char *msg, const char *detail,
                      const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void kr_api_flaw_memory(struct kr_api_parse *p);
/* In our own voice one flaw is enough. */
bool kr_api_parse_is_over(const struct kr_api_parse *p);

/* Strict JSON within the limits, NUL in strings allowed; NULL with a flaw, which with `hides` repeats nothing of it. */
json_t *kr_api_load(struct kr_api_parse *p, const char *text, size_t len, bool hides);
/* Pairs as an object of strings, repeated keys as arrays of them; NULL with a flaw. */
json_t *kr_api_load_pairs(struct kr_api_parse *p, const char *text, size_t len);

/* The object's fields into `request`, which is zeroed. */
void kr_api_fill(struct kr_api_parse *p, const struct kr_api_table *table, json_t *object,
                 const struct kr_api_path *path, void *request);
/* One value that is not null into its member. */
void kr_api_fill_value(struct kr_api_parse *p, const struct kr_api_field *f, json_t *value,
                       const struct kr_api_path *path, void *request);
/* The default, or what stands for nothing. */
void kr_api_fill_default(const struct kr_api_field *f, void *request);

/* A whole text as a number. `lenient`: as FastAPI's, with blanks around and "10.0" for 10. */
bool kr_api_int_of(const char *text, bool lenient, int64_t *ret_value);
bool kr_api_number_of(const char *text, bool lenient, double *ret_value);
/* 1, 0, or -1: neither. */
int kr_api_bool_of(const char *text, bool lenient);
int kr_api_choice_of(const char *const *choices, const char *word);

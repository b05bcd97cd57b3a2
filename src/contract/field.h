/* Requests: one table for the fields of a body, a form or a query string. The row drives parsing (into a plain C
 * struct), errors that name the field, and OpenAPI.
 *
 * Parsing is pure: no I/O, no loop, nothing shared; any thread may do it (body_read.h does it off the loop for large
 * bodies). Strings and json_t of a filled struct are borrowed from the struct kr_api_input and die with it. */
#pragma once
#include "text.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_buf;
struct kr_err;

#define KR_API_DEPTH_MAX 32u /* arrays and objects in each other */
#define KR_API_VALUES_MAX                                                                                              \
    100000u /* values in one body (slots of json_scan.h): each costs some 64 bytes of memory, however short its text */
#define KR_API_NAME_MAX 64u   /* bytes of a field's name */
#define KR_API_FIELDS_MAX 64u /* rows of a table */
#define KR_API_FLAWS_MAX 16u  /* of one request that the documents' voice tells */

/* Whose conventions a route follows. */
enum kr_api_voice {
    KR_API_KRAIT,    /* ours: strict; unknown fields refused; {"error":{…}} */
    KR_API_DOCUMENT, /* the documents': FastAPI's; unknown fields ignored, "10" is an integer; `detail` in errors */
};

/* What a field is, and the type of its member in the request's struct. */
enum kr_api_type {
    KR_API_STRING,  /* const char *: one line, without control characters. min, max: characters */
    KR_API_TEXT,    /* struct kr_text: any characters but NUL (with .nul_ok that too). min, max: characters */
    KR_API_INT,     /* int64_t */
    KR_API_NUMBER,  /* double */
    KR_API_BOOL,    /* bool */
    KR_API_ENUM,    /* int: number of the word in .choices; -1 if absent and without a default */
    KR_API_OBJECT,  /* with .of: that table's struct, in place. Without: json_t *, any object. min, max: members */
    KR_API_MAP,     /* json_t *: an object whose values are strings without NUL. min, max: members */
    KR_API_STRINGS, /* json_t *: an array of strings without NUL. min, max: items. In a query: the key repeated */
    KR_API_ARRAY,   /* json_t *: an array; with .of each item is an object that obeys that table. min, max: items */
    KR_API_ANY,     /* json_t *: any value */
    KR_API_TYPE_MAX_,
};

/* What JSON Schema calls it, and its bounds. */
struct kr_api_type_words {
    const char *type; /* NULL: any */
    const char *min, *max;
};
extern const struct kr_api_type_words kr_api_type_words[KR_API_TYPE_MAX_];

/* What the request said of a field; kept where .given points. */
enum kr_api_given { KR_API_ABSENT = 0, KR_API_VALUE, KR_API_NULL };

/* Maxima that an administrator sets, which a row cannot know. */
enum kr_api_ceiling { KR_API_NO_CEILING = 0, KR_API_CEILING_TIMEOUT, KR_API_CEILING_LINK, KR_API_CEILING_MAX_ };

struct kr_api_table;

/* One field. Absent and without a default: 0, NULL, false, -1 (enum). */
struct kr_api_field {
    const char *name;
    enum kr_api_type type;
    size_t offset;         /* KR_API_AT(struct run_request, code) */
    size_t given;          /* KR_API_GIVEN(struct …, timeout_given): a uint8_t (enum kr_api_given); 0: not kept */
    bool required;         /* refused without it. A required one has no default */
    bool tacit;            /* tools/list leaves its help out: the name says it */
    bool unlisted;         /* tools/list leaves it out: few callers need it, and every model would read it */
    bool nullable;         /* null is allowed, and is the default's value, or as if absent */
    bool nul_ok;           /* TEXT: U+0000 may be in it */
    bool secret;           /* never echoed, not even to its sender */
    bool has_min, has_max; /* KR_API_RANGE(1, 3600), KR_API_LENGTH(1, 100), KR_API_AT_LEAST(0) */
    double min, max;
    enum kr_api_ceiling ceiling;   /* of INT, NUMBER: seconds; the handler refuses what is past it */
    const char *const *choices;    /* ENUM: words, NULL terminated; of STRINGS the words that its handler takes */
    const struct kr_api_table *of; /* OBJECT, ARRAY */
    const char *def;               /* default of a STRING, TEXT, ENUM, INT, NUMBER, BOOL, as plain text; NULL: none */
    const char *const *aliases; /* the documents' names for the same thing, NULL terminated; one of all may be given */
    int (*check)(const char *value, struct kr_err *err); /* STRING: what the row cannot say; 0, or -errno with err */
    const char *format;  /* OpenAPI's: "uuid", "email", "date-time", "uri", "password"; NULL: none */
    const char *help;    /* a sentence; always */
    const char *example; /* always; STRING, TEXT, ENUM as plain text; else as JSON */
};

#define KR_API_AT(type_, member) .offset = offsetof(type_, member)
#define KR_API_GIVEN(type_, member) .given = (offsetof(type_, member) + 1)
#define KR_API_RANGE(lo, hi) .has_min = true, .min = (lo), .has_max = true, .max = (hi)
#define KR_API_LENGTH(lo, hi) KR_API_RANGE(lo, hi)
#define KR_API_AT_LEAST(lo) .has_min = true, .min = (lo)

struct kr_api_table {
    const char *name; /* of the schema: "RunRequest"; unique among tables and schemas. A query's may be NULL */
    const char *help; /* a sentence */
    const struct kr_api_field *fields;
    size_t count;
    size_t size; /* of the request's struct */
};
/* static const struct kr_api_table run_table = KR_API_TABLE("RunRequest", "What to run.", run_fields, struct
 * run_request); */
/* clang-format off */
#define KR_API_TABLE(name_, help_, fields_, type_) \
    {.name = (name_), .help = (help_), .fields = (fields_), .count = sizeof(fields_) / sizeof((fields_)[0]), \
     .size = sizeof(type_)}
/* clang-format on */

/* Where the fields came from; the documents' voice says so in `loc`. */
enum kr_api_source { KR_API_BODY, KR_API_QUERY };

/* What one request brought: the memory that its struct borrows from and, after a refusal, what was wrong. One request
 * may use one for its body and another for its query. */
struct kr_api_input {
    enum kr_api_voice voice;
    enum kr_api_source source;
    bool null_is_absent;         /* for every field that is not required: arguments of tools */
    json_t *root;                /* owned */
    json_t *flaws;               /* owned: in the documents' voice FastAPI's list of what is wrong, else NULL */
    char field[KR_API_NAME_MAX]; /* the field of the first flaw; "" if it is not about one */
};
void kr_api_input_init(struct kr_api_input *in, enum kr_api_voice voice);
void kr_api_input_done(struct kr_api_input *in);
#define cleanup_input __attribute__((cleanup(kr_api_input_done)))

/* Each parses into `request` (table->size bytes, zeroed here) and returns 0, or -errno with err: -EINVAL (kind
 * invalid; answer with kr_api_fail_input()) or -ENOMEM (kind internal). A `table` of NULL takes no field. May be
 * called once for one `in`. */

/* A body: one JSON object whatever its Content-Type; nothing at all is {} unless a field is required. */
int kr_api_parse_body(const struct kr_api_table *table, const char *text, size_t len, void *request,
                      struct kr_api_input *in, struct kr_err *err);
/* A body that is a form (application/x-www-form-urlencoded); one that begins with `{` is read as JSON. */
int kr_api_parse_form(const struct kr_api_table *table, const char *text, size_t len, void *request,
                      struct kr_api_input *in, struct kr_err *err);
/* A query string without its `?`. The key `api_key` is never a field, nor refused. */
int kr_api_parse_query(const struct kr_api_table *table, const char *text, void *request, struct kr_api_input *in,
                       struct kr_err *err);
/* An object that is there already: an item of an ARRAY, say. Borrowed, must outlive the struct. */
int kr_api_parse_object(const struct kr_api_table *table, json_t *object, void *request, struct kr_api_input *in,
                        struct kr_err *err);

/* What only a handler can judge: refuses `field` (NULL: the request) with a sentence, in the manner of a parse.
 * Returns -EINVAL. The sentence begins after the name: "must be at most 120", and the client reads "timeout must be at
 * most 120". */
int kr_api_refuse(struct kr_api_input *in, const char *field, struct kr_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

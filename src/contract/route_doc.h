/* What a route says of itself: kr_http_route.doc of every row of the route table points to one. The gate reads `needs`
 * and `open` from it, errors are written in its voice, OpenAPI is written from it. Aliases (the same operation under
 * another path) share one. */
#pragma once
#include "field.h"
#include "reply_schema.h"
#include "store_user.h" /* enum kr_right */

struct kr_http_ex;
struct kr_http_route;

/* A parameter of the pattern. */
struct kr_api_param {
    const char *name, *help, *example;
};

struct kr_api_header {
    const char *name, *help, *example;
};

/* One kind of answer. Several rows may share a status: one for each media type. */
struct kr_api_response {
    int status;
    const char *help;                    /* a sentence; that of a status' first row is used */
    const char *media;                   /* NULL: application/json with a schema, nothing without */
    const struct kr_api_schema *schema;  /* of the body; of each line (application/x-ndjson) or each event's data
                                           (text/event-stream); NULL: any bytes */
    const char *example;                 /* JSON (with a schema) or text; NULL: made from the schema's rows */
    const struct kr_api_header *headers; /* NULL terminated (by name); those of a status' first row are used */
};

/* A body that is not our JSON object: a form, multipart, raw bytes. */
struct kr_api_media {
    const char *type;                 /* "application/octet-stream", "multipart/form-data" */
    const struct kr_api_table *table; /* fields of a form; NULL: bytes */
    const char *help, *example;       /* example: as JSON with a table, else text; NULL: none */
};

struct kr_api_doc {
    const char *id;          /* operationId: a word of [a-z0-9_], unique; aliases get a number appended */
    const char *tag;         /* a name of kr_api_tags */
    const char *summary;     /* a few words without a full stop */
    const char *description; /* sentences, Markdown; NULL: none */
    enum kr_api_voice voice;
    unsigned needs; /* KR_RIGHT_* that the caller must have, all of them; 0: any caller */
    bool open;      /* no key is asked for, even when authentication is on */
    bool hidden;    /* left out of OpenAPI: pages, assets, aliases with a slash at the end */

    const struct kr_api_table *body;   /* JSON; NULL: none */
    const char *body_example;          /* JSON; NULL: made from the rows */
    const char *body_schema;           /* JSON Schema of a JSON body that no table of ours describes; NULL: none */
    bool body_required;                /* that body must be there */
    const struct kr_api_media *bodies; /* other bodies it takes, NULL terminated (by type) */
    const struct kr_api_table *query;  /* NULL: none */
    const struct kr_api_param *params; /* of the pattern, NULL terminated (by name) */
    const struct kr_api_response *responses; /* what it answers when all is well, and errors that need their own text;
                                                 status 0 ends it. The usual errors are added to all routes */
};

struct kr_api_tag {
    const char *name, *help;
};
extern const struct kr_api_tag kr_api_tags[]; /* in the order of /docs; name NULL ends it */
/* Of routes that clients of other servers know; they come last. */
#define KR_API_TAG_DOCUMENT "document "
#define KR_API_TAG_000 KR_API_TAG_DOCUMENT "000 (sandbox-mcp)"
#define KR_API_TAG_002 KR_API_TAG_DOCUMENT "002 (sandbox-service)"
#define KR_API_TAG_004 KR_API_TAG_DOCUMENT "004 (mcp-sandbox)"

/* The doc of an exchange's route; NULL if no route matched. */
const struct kr_api_doc *kr_api_doc_of(const struct kr_http_ex *ex);
/* The voice an exchange is answered in: its route's or, without one, its path's (kr_api_voice_of_path()). */
enum kr_api_voice kr_api_voice_of(const struct kr_http_ex *ex);
/* The voice of a path that may have no route: that of a row whose pattern it fits (another method's, say); else ours
 * beneath /api/v1/, the documents' elsewhere. `path` is raw. */
enum kr_api_voice kr_api_voice_of_path(const struct kr_http_route *routes, size_t count, const char *path);

/* The pattern as OpenAPI writes paths: `{name*}` is {name}. `buf` has KR_API_PATH_MAX bytes. */
#define KR_API_PATH_MAX 512u
const char *kr_api_path_of(const char *pattern, char *buf);
/* The next parameter of a pattern from *at on, into name (KR_API_NAME_MAX bytes); false: no more. */
bool kr_api_next_param(const char **at, char *name, bool *ret_rest);

/* The id of a request whose text cannot be parsed, so that its error reaches the client that waits for it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define KR_MCP_ID_MAX 1024u /* bytes of an id that is a string */

/* A text that comes in pieces. Zeroed: none has come. */
struct kr_mcp_id_scan {
    unsigned depth;
    bool in_string, escaped;
    bool is_array;         /* the text is no object: it has no id of its own */
    bool at_key, at_value; /* of the outermost object */
    bool taking, taken;    /* the id's text */
    unsigned key_len, len;
    char key[4];                      /* enough to tell "id" from any other */
    char text[KR_MCP_ID_MAX * 6 + 4]; /* as it came: each byte may be an escape */
};

/* More of the text. No memory, one pass. */
void kr_mcp_id_scan(struct kr_mcp_id_scan *s, const char *text, size_t len);
/* The first `id` of the object that came so far, a string or a number, or NULL: none that could be echoed. New. */
json_t *kr_mcp_id_found(const struct kr_mcp_id_scan *s);
/* Both for a whole text. */
json_t *kr_mcp_find_id(const char *text, size_t len);
/* Puts the id into the message that was parsed from this text as it came, if it is a number that would be written
 * differently (1.0, 1e3): a client may compare texts. */
void kr_mcp_exact_id(json_t *root, const char *text, size_t len);
/* Do two ids name one request? A string as it is, a number by its value: 1, 1.0 and 1e0 are one, "1" is another. */
bool kr_mcp_same_id(const json_t *a, const json_t *b);
/* Is it an id? A string of at most KR_MCP_ID_MAX bytes, or any number. */
bool kr_mcp_is_id(const json_t *id);

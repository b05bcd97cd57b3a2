/* PEP 691: JSON with one object for each file in "files". Everything else of the page passes as it is; each file is
 * read, its address rewritten, and written anew with the members that installers use. Called by index_page.c, fuzzed by
 * tests/fuzz/fuzz-index-page.c.
 *
 * The page is never held whole: a scanner follows strings and brackets, keeps the one object that is open, and jansson
 * reads that. Invariant: an address of a file never passes as it was. */
#include "index_page_internal.h"
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_DEPTH_MAX 8

/* Members of a file that go to the cell as they are, if they are of this type. */
static const struct {
    const char *name;
    json_type type;
} kept[] = {
    {"filename", JSON_STRING},    {"requires-python", JSON_STRING}, {"size", JSON_INTEGER},
    {"upload-time", JSON_STRING}, {"yanked", JSON_STRING},          {"yanked", JSON_TRUE},
    {"yanked", JSON_FALSE},       {"hashes", JSON_OBJECT},
};
static const char *const cores[] = {"core-metadata", "dist-info-metadata", "data-dist-info-metadata"};

/* ---- one file ---- */

static int add_core(json_t *to, const json_t *from, const char *name)
{
    const json_t *value = json_object_get(from, name), *hash;
    char text[KR_INDEX_HASH_ROOM];

    if (json_is_boolean(value))
        return json_object_set_new(to, name, json_boolean(json_is_true(value)));
    hash = json_object_get(value, "sha256");
    if (!json_is_string(hash) || !kr_index_is_sha256(json_string_value(hash), json_string_length(hash), text))
        return 0;
    return json_object_set_new(to, name, json_pack("{s:s}", "sha256", text));
}

/* A new object, or NULL with *ret_error: -ENOENT (not for cells), -EBADMSG, -ENOMEM. */
static json_t *rewrite_file(const struct kr_index_page *p, const json_t *from, int *ret_error)
{
    const json_t *url = json_object_get(from, "url"),
                 *hash = json_object_get(json_object_get(from, "hashes"), "sha256");
    char path[KR_INDEX_LINK_ROOM], sha256[KR_INDEX_HASH_ROOM] = "";
    json_t *to;
    int r = 0;

    *ret_error = -EBADMSG;
    if (!json_is_string(url) || !json_is_string(json_object_get(from, "filename")))
        return NULL;
    if (json_is_string(hash) && !kr_index_is_sha256(json_string_value(hash), json_string_length(hash), sha256))
        sha256[0] = '\0';
    *ret_error =
        kr_index_page_link(p, json_string_value(url), strcspn(json_string_value(url), "#"), sha256, path, sizeof path);
    if (*ret_error < 0)
        return NULL;
    to = json_object();
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        json_t *value = json_object_get(from, kept[i].name);

        if (value && json_typeof(value) == kept[i].type)
            r |= json_object_set(to, kept[i].name, value);
    }
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++)
        r |= add_core(to, from, cores[i]);
    r |= json_object_set_new(to, "url", json_string(path));
    if (!json_object_get(to, "hashes"))
        r |= json_object_set_new(to, "hashes", json_object());
    if (r == 0)
        return to;
    *ret_error = -ENOMEM;
    json_decref(to);
    return NULL;
}

static int end_entry(struct kr_index_page *p, struct kr_buf *out)
{
    struct kr_page_json *j = &p->js;
    json_t *from = json_loadb(j->entry.data, j->entry.len, JSON_REJECT_DUPLICATES, NULL), *to = NULL;
    char *text = NULL;
    int r = -EBADMSG;

    kr_buf_reset(&j->entry);
    if (from)
        to = rewrite_file(p, from, &r);
    json_decref(from);
    if (!to)
        return r == -ENOENT || r == -ENOBUFS ? 0 : r; /* a file that cells cannot have is left out */
    text = json_dumps(to, JSON_COMPACT);
    json_decref(to);
    r = text ? 0 : -ENOMEM;
    if (r == 0 && j->any_file)
        r = kr_buf_add_str(out, ",");
    if (r == 0)
        r = kr_buf_add_str(out, text);
    free(text);
    j->any_file = true;
    return r;
}

/* ---- the scanner ---- */

static bool is_json_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* A byte inside of "files": [ … ], outside of an object. */
static int feed_between(struct kr_index_page *p, char c, struct kr_buf *out)
{
    struct kr_page_json *j = &p->js;

    if (is_json_blank(c) || c == ',')
        return 0;
    if (c == ']') {
        j->in_files = false;
        j->depth--;
        return kr_buf_add_str(out, "]");
    }
    if (c != '{')
        return -EBADMSG;
    j->entry_depth = 1;
    return kr_buf_add(&j->entry, &c, 1);
}

/* A byte of an object of "files". */
static int feed_entry(struct kr_index_page *p, char c, struct kr_buf *out)
{
    struct kr_page_json *j = &p->js;
    int r = kr_buf_add(&j->entry, &c, 1);

    if (r < 0)
        return r;
    if (j->in_string) {
        j->in_string = j->escaped || c != '"';
        j->escaped = !j->escaped && c == '\\';
        return 0;
    }
    if (c == '"')
        j->in_string = true;
    else if ((c == '{' || c == '[') && ++j->entry_depth > ENTRY_DEPTH_MAX)
        return -EBADMSG;
    else if ((c == '}' || c == ']') && --j->entry_depth == 0)
        return end_entry(p, out);
    return 0;
}

/* A string of the part that passes; one of the top object that comes where a key does is kept as its key. No key of the
 * format needs an escape, and one that is written with them could be "files" unseen. */
static int feed_string(struct kr_page_json *j, char c)
{
    bool ends = !j->escaped && c == '"';

    j->escaped = !j->escaped && c == '\\';
    if (ends) {
        j->in_string = false;
    } else if (j->depth == 1 && j->key_ahead) {
        if (c == '\\')
            return -EBADMSG;
        if (j->key_len < sizeof j->key)
            j->key[j->key_len] = c;
        j->key_len++;
    }
    return 0;
}

static int open_bracket(struct kr_page_json *j, char c)
{
    bool files = c == '[' && j->depth == 1 && !j->key_ahead && j->key_len == 5 && memcmp(j->key, "files", 5) == 0;

    if ((j->depth == 0 && c != '{') || j->depth >= sizeof j->kinds)
        return -EBADMSG;
    j->kinds[j->depth++] = (uint8_t)c;
    j->key_ahead = j->depth == 1;
    j->key_len = j->depth == 1 ? 0 : j->key_len;
    j->in_files = files;
    j->any_file = false;
    return 0;
}

static int close_bracket(struct kr_page_json *j, char c)
{
    if (j->depth == 0 || j->kinds[j->depth - 1] != (c == '}' ? '{' : '['))
        return -EBADMSG;
    j->depth--;
    j->ended = j->depth == 0;
    return 0;
}

static int feed_passing(struct kr_page_json *j, char c)
{
    if (j->in_string)
        return c == '\0' ? -EBADMSG : feed_string(j, c);
    if (j->ended || (j->depth == 0 && c != '{'))
        return is_json_blank(c) ? 0 : -EBADMSG;
    switch (c) {
    case '\0':
        return -EBADMSG;
    case '"':
        j->in_string = true;
        if (j->depth == 1 && j->key_ahead)
            j->key_len = 0;
        return 0;
    case ':':
        if (j->depth == 1)
            j->key_ahead = false;
        return 0;
    case ',':
        if (j->depth == 1)
            j->key_ahead = true;
        return 0;
    case '{':
    case '[':
        return open_bracket(j, c);
    case '}':
    case ']':
        return close_bracket(j, c);
    default:
        return 0;
    }
}

int kr_page_json_feed(struct kr_index_page *p, const char *bytes, size_t len, bool end, struct kr_buf *out)
{
    struct kr_page_json *j = &p->js;
    size_t from = 0, i;
    int r = 0;

    for (i = 0; i < len && r == 0; i++) {
        if (j->entry_depth > 0 || j->in_files) {
            r = j->entry_depth > 0 ? feed_entry(p, bytes[i], out) : feed_between(p, bytes[i], out);
            from = i + 1;
            continue;
        }
        r = feed_passing(j, bytes[i]);
        if (r == 0 && j->in_files) {
            r = kr_buf_add(out, bytes + from, i + 1 - from);
            from = i + 1;
        }
    }
    if (r == 0 && from < len)
        r = kr_buf_add(out, bytes + from, len - from);
    return r < 0 || !end ? r : j->ended ? 0 : -EBADMSG;
}

/* What the two rewriters share with index_page.c. */
#pragma once
#include "buf.h"
#include "index_page.h"
#include <stdint.h>

struct kr_page_html {
    enum { KR_HTML_TEXT, KR_HTML_TAG, KR_HTML_COMMENT } state;
    char quote;      /* of an attribute's value that is open, or 0 */
    uint32_t dashes; /* of a comment's end */
    bool began;      /* the head is written */
    bool in_link;    /* between <a …> and </a>: text is its name */
    struct kr_buf tag, link, name;
};

struct kr_page_json {
    unsigned depth;
    bool in_string, escaped, key_ahead, in_files, any_file, ended;
    char key[16]; /* of the top object: the member that is read, if it is short */
    size_t key_len;
    struct kr_buf entry; /* one object of "files" */
    unsigned entry_depth;
    uint8_t kinds[32]; /* by depth: '{' or '[' */
};

struct kr_index_page {
    struct kr_index_page_ask ask;
    struct kr_web_address base;
    bool json;
    union {
        struct kr_page_html html;
        struct kr_page_json js;
    };
};

int kr_page_html_feed(struct kr_index_page *p, const char *bytes, size_t len, bool end, struct kr_buf *out);
int kr_page_json_feed(struct kr_index_page *p, const char *bytes, size_t len, bool end, struct kr_buf *out);

/* Where a link of the page leads for a cell. 0, -ENOENT: nowhere (not an address, or not for cells), -errno. `sha256`
 * may be "". */
int kr_index_page_link(const struct kr_index_page *p, const char *href, size_t len, const char *sha256, char *buf,
                       size_t size);
/* "true", or "sha256=" and 64 digits: what PEP 658 and 714 let the attribute be. */
bool kr_index_page_is_core(const char *value);

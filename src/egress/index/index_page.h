/* Rewriters of the index's pages: links to files become links of this process (index_link.h), everything that a cell
 * does not need is left out. Bytes go in as they come, bytes come out; what is kept meanwhile is one link. Pure but for
 * memory. */
#pragma once
#include "index_link.h"
#include "web_address.h"
#include <stdbool.h>
#include <stddef.h>

struct kr_buf;
struct kr_index_page;

#define KR_INDEX_ENTRY_MAX (64u << 10) /* of one link with its attributes; a longer one ends the page */
#define KR_INDEX_HTML "text/html"
#define KR_INDEX_JSON "application/vnd.pypi.simple.v1+json"
#define KR_INDEX_SIMPLE_PATH "/index/simple/"

struct kr_index_page_ask {
    const unsigned char *key;                                     /* borrowed: KR_INDEX_KEY_SIZE bytes */
    const struct kr_web_address *base;                            /* of the page, after redirects; copied */
    bool root;                                                    /* the list of projects: its links lead to pages */
    bool (*takes)(void *data, const struct kr_web_address *file); /* may cells have this file? NULL: any */
    void *data;
};

/* PEP 691's JSON or PEP 503's HTML, by the Content-Type; NULL with errno: -EPROTONOSUPPORT another type, -ENOMEM. */
int kr_index_page_new(const char *content_type, const struct kr_index_page_ask *ask, struct kr_index_page **ret_page);
void kr_index_page_free(struct kr_index_page *p);
/* The Content-Type of what comes out. */
const char *kr_index_page_type(const struct kr_index_page *p);
/* Takes the next bytes of the page and adds what they become to `out`; with `end` nothing comes after them. 0;
 * -EBADMSG: it is no page of an index; -E2BIG: a link is too long; -errno of the buffer. */
int kr_index_page_feed(struct kr_index_page *p, const char *bytes, size_t len, bool end, struct kr_buf *out);

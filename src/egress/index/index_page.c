/* What both rewriters of pages begin with: which one it is, and where links lead. Called by the egress process for
 * every page of the index. */
#include "index_page_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 1024

static bool type_is(const char *content_type, const char *type)
{
    size_t len = strlen(type);

    return strncasecmp(content_type, type, len) == 0 &&
           (content_type[len] == '\0' || content_type[len] == ';' || content_type[len] == ' ');
}

int kr_index_page_new(const char *content_type, const struct kr_index_page_ask *ask, struct kr_index_page **ret_page)
{
    bool json = type_is(content_type, KR_INDEX_JSON);
    struct kr_index_page *p;

    if (!json && !type_is(content_type, KR_INDEX_HTML) && !type_is(content_type, "application/vnd.pypi.simple.v1+html"))
        return -EPROTONOSUPPORT;
    p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->ask = *ask;
    p->base = *ask->base;
    p->json = json;
    if (json) {
        kr_buf_init(&p->js.entry, KR_INDEX_ENTRY_MAX);
    } else {
        kr_buf_init(&p->html.tag, KR_INDEX_ENTRY_MAX);
        kr_buf_init(&p->html.link, KR_INDEX_ENTRY_MAX);
        kr_buf_init(&p->html.name, NAME_MAX_BYTES);
    }
    *ret_page = p;
    return 0;
}

void kr_index_page_free(struct kr_index_page *p)
{
    if (!p)
        return;
    if (p->json) {
        kr_buf_done(&p->js.entry);
    } else {
        kr_buf_done(&p->html.tag);
        kr_buf_done(&p->html.link);
        kr_buf_done(&p->html.name);
    }
    free(p);
}

const char *kr_index_page_type(const struct kr_index_page *p)
{
    return p->json ? KR_INDEX_JSON : KR_INDEX_HTML "; charset=utf-8";
}

int kr_index_page_feed(struct kr_index_page *p, const char *bytes, size_t len, bool end, struct kr_buf *out)
{
    int r = p->json ? kr_page_json_feed(p, bytes, len, end, out) : kr_page_html_feed(p, bytes, len, end, out);

    return r == -ENOBUFS ? -E2BIG : r;
}

int kr_index_page_link(const struct kr_index_page *p, const char *href, size_t len, const char *sha256, char *buf,
                       size_t size)
{
    struct kr_web_address file;
    char url[KR_WEB_TEXT_ROOM];

    if (kr_web_address_join(&p->base, href, len, &file, NULL) < 0)
        return -ENOENT;
    if (p->ask.takes && !p->ask.takes(p->ask.data, &file))
        return -ENOENT;
    return kr_index_link_write(p->ask.key, kr_web_address_text(&file, url, sizeof url), sha256, buf, size);
}

bool kr_index_page_is_core(const char *value)
{
    char hash[KR_INDEX_HASH_ROOM];

    return strcmp(value, "true") == 0 ||
           (strncmp(value, "sha256=", 7) == 0 && kr_index_is_sha256(value + 7, strlen(value + 7), hash));
}

/* PEP 503: HTML with one <a> for each file. Of a page, the links are written anew and everything else is left out:
 * scripts, comments, other tags. Called by index_page.c, fuzzed by tests/fuzz/fuzz-index-page.c.
 *
 * Invariant: what comes out is made of our own words and of values that were escaped again; it has no address but links
 * of this process. */
#include "index_page_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char page_begin[] = "<!DOCTYPE html>\n<html>\n<head>"
                                 "<meta name=\"pypi:repository-version\" content=\"1.0\"></head>\n<body>\n";
static const char page_end[] = "</body>\n</html>\n";

/* ---- text of HTML ---- */

static const struct {
    const char *name;
    char c;
} entities[] = {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}};

static size_t put_utf8(unsigned long code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    out[0] = (char)(0xe0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 0x3f));
    out[2] = (char)(0x80 | (code & 0x3f));
    return 3;
}

/* One reference at text[0] == '&'. The bytes it takes, 0: it is none. What it stands for never takes more bytes. */
static size_t read_entity(const char *text, size_t len, char *out, size_t *ret_len)
{
    char *end;
    unsigned long code;

    for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++)
        if (len > strlen(entities[i].name) && strncmp(text + 1, entities[i].name, strlen(entities[i].name)) == 0) {
            *out = entities[i].c;
            *ret_len = 1;
            return strlen(entities[i].name) + 1;
        }
    if (len < 4 || text[1] != '#')
        return 0;
    if (text[2] == 'x' || text[2] == 'X') {
        if (!strchr("0123456789abcdefABCDEF", text[3]))
            return 0;
        code = strtoul(text + 3, &end, 16);
    } else {
        if (text[2] < '0' || text[2] > '9')
            return 0;
        code = strtoul(text + 2, &end, 10);
    }
    if (*end != ';' || code == 0 || code > 0xffff)
        return 0;
    *ret_len = put_utf8(code, out);
    return (size_t)(end + 1 - text);
}

/* Resolves references in place; text is NUL-terminated. Returns the length. */
static size_t unescape(char *text)
{
    size_t len = strlen(text), in = 0, out = 0;

    while (in < len) {
        size_t made = 0, took = text[in] == '&' ? read_entity(text + in, len - in, text + out, &made) : 0;

        if (took == 0) {
            text[out++] = text[in++];
        } else {
            out += made;
            in += took;
        }
    }
    text[out] = '\0';
    return out;
}

static int add_escaped(struct kr_buf *out, const char *text)
{
    int r = 0;

    for (; *text && r == 0; text++) {
        const char *word = *text == '&'   ? "&amp;"
                           : *text == '<' ? "&lt;"
                           : *text == '>' ? "&gt;"
                           : *text == '"' ? "&quot;"
                                          : NULL;

        if (word)
            r = kr_buf_add_str(out, word);
        else if ((unsigned char)*text >= 0x20)
            r = kr_buf_add(out, text, 1);
    }
    return r;
}

/* ---- attributes ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Cuts the next attribute out of the text at *at, whose references are resolved. False at the end. */
static bool next_attribute(char **at, char **ret_name, char **ret_value)
{
    char *p = *at, quote;

    while (is_blank(*p) || *p == '/')
        p++;
    if (!*p)
        return false;
    *ret_name = p;
    p += *p == '=';
    while (*p && !is_blank(*p) && *p != '=' && *p != '/')
        p++;
    *ret_value = p;
    if (*p && *p != '=') {
        *p++ = '\0';
        while (is_blank(*p))
            p++;
        *ret_value = p - 1;
    }
    if (*p != '=') {
        **ret_value = '\0';
        *at = p;
        return true;
    }
    *p++ = '\0';
    while (is_blank(*p))
        p++;
    quote = *p == '"' || *p == '\'' ? *p++ : 0;
    *ret_value = p;
    while (*p && (quote ? *p != quote : !is_blank(*p)))
        p++;
    if (*p)
        *p++ = '\0';
    unescape(*ret_value);
    *at = p;
    return true;
}

/* "sha256=…" of a fragment; `hash` gets "" where it is another one. */
static void hash_of(const char *href, char hash[KR_INDEX_HASH_ROOM])
{
    const char *fragment = strchr(href, '#');

    hash[0] = '\0';
    if (fragment && strncmp(fragment, "#sha256=", 8) == 0 &&
        !kr_index_is_sha256(fragment + 8, strcspn(fragment + 8, "&"), hash))
        hash[0] = '\0';
}

/* The attributes that go with a link, as they are called in PEP 503, 592 and 714. */
static int add_attribute(struct kr_buf *link, const char *name, const char *value)
{
    bool core = strcasecmp(name, "data-dist-info-metadata") == 0 || strcasecmp(name, "data-core-metadata") == 0;
    int r;

    if (core ? !kr_index_page_is_core(value)
             : strcasecmp(name, "data-requires-python") != 0 && strcasecmp(name, "data-yanked") != 0)
        return 0;
    for (const char *p = name; *p; p++) {
        char c = *p >= 'A' && *p <= 'Z' ? (char)(*p | 32) : *p;

        r = p == name ? kr_buf_add_str(link, " ") : 0;
        if (r < 0 || (r = kr_buf_add(link, &c, 1)) < 0)
            return r;
    }
    r = kr_buf_add_str(link, "=\"");
    if (r == 0)
        r = add_escaped(link, value);
    return r < 0 ? r : kr_buf_add_str(link, "\"");
}

/* ---- tags ---- */

static int begin_link(struct kr_index_page *p, char *attributes)
{
    struct kr_page_html *h = &p->html;
    char *name, *value, path[KR_INDEX_LINK_ROOM], hash[KR_INDEX_HASH_ROOM] = "";
    struct kr_buf more;
    bool have = false;
    int r = 0;

    kr_buf_reset(&h->link);
    kr_buf_reset(&h->name);
    kr_buf_init(&more, KR_INDEX_ENTRY_MAX);
    while (r == 0 && next_attribute(&attributes, &name, &value)) {
        if (strcasecmp(name, "href") != 0 || have) {
            r = add_attribute(&more, name, value);
            continue;
        }
        have = true;
        hash_of(value, hash);
        if (p->ask.root)
            continue;
        r = kr_index_page_link(p, value, strlen(value), hash, path, sizeof path);
        if (r == 0)
            r = kr_buf_printf(&h->link, "<a href=\"%s%s%s\"", path, *hash ? "#sha256=" : "", hash);
        if (r == -ENOENT || r == -ENOBUFS)
            have = false, r = 0;
    }
    h->in_link = have;
    if (r == 0 && have && !p->ask.root && more.len > 0)
        r = kr_buf_add(&h->link, more.data, more.len);
    kr_buf_done(&more);
    return r;
}

/* The name of a project as its page is called (PEP 503); "" where it is none. */
static void project_path(const char *name, char *buf, size_t size)
{
    size_t n = 0;

    for (; *name && n + 1 < size; name++) {
        char c = *name >= 'A' && *name <= 'Z' ? (char)(*name | 32) : *name;

        if (c == '-' || c == '_' || c == '.') {
            if (n == 0 || buf[n - 1] != '-')
                buf[n++] = '-';
        } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
            buf[n++] = c;
        } else {
            n = 0;
            break;
        }
    }
    buf[n] = '\0';
}

static int end_link(struct kr_index_page *p, struct kr_buf *out)
{
    struct kr_page_html *h = &p->html;
    char path[256];
    char *name = h->name.data ? h->name.data : "";
    int r = 0;

    if (!h->in_link)
        return 0;
    h->in_link = false;
    if (*name) {
        size_t from = strspn(name, " \t\r\n"), len = strlen(name);

        while (len > from && is_blank(name[len - 1]))
            name[--len] = '\0';
        name += from;
        unescape(name);
    }
    if (p->ask.root) {
        project_path(name, path, sizeof path);
        if (!*path)
            return 0;
        r = kr_buf_printf(out, "<a href=\"%s%s/\"", KR_INDEX_SIMPLE_PATH, path);
    } else {
        r = kr_buf_add_str(out, kr_buf_str(&h->link));
    }
    if (r == 0)
        r = kr_buf_add_str(out, ">");
    if (r == 0)
        r = add_escaped(out, name);
    return r < 0 ? r : kr_buf_add_str(out, "</a><br>\n");
}

static void set_base(struct kr_index_page *p, char *attributes)
{
    struct kr_web_address base;
    char *name, *value;

    while (next_attribute(&attributes, &name, &value))
        if (strcasecmp(name, "href") == 0 && kr_web_address_join(&p->base, value, strlen(value), &base, NULL) == 0) {
            p->base = base;
            return;
        }
}

/* A whole tag, without its '<' and '>'. */
static int end_tag(struct kr_index_page *p, struct kr_buf *out)
{
    struct kr_page_html *h = &p->html;
    char *text = h->tag.data ? h->tag.data : "";
    size_t word = strcspn(text, " \t\r\n\f/");
    int r = 0;

    if (*text == '/' && strncasecmp(text + 1, "a", 1) == 0 && (!text[2] || is_blank(text[2])))
        r = end_link(p, out);
    else if (word == 1 && (*text | 32) == 'a') {
        r = end_link(p, out); /* one that was never closed */
        if (r == 0)
            r = begin_link(p, text + word);
    } else if (word == 4 && strncasecmp(text, "base", 4) == 0) {
        set_base(p, text + word);
    }
    kr_buf_reset(&h->tag);
    return r;
}

/* Whether a quote that comes now opens a value. */
static bool after_equals(const struct kr_buf *tag)
{
    size_t at = tag->len;

    while (at > 0 && is_blank(tag->data[at - 1]))
        at--;
    return at > 0 && tag->data[at - 1] == '=';
}

/* One byte inside a tag. */
static int feed_tag(struct kr_index_page *p, char c, struct kr_buf *out)
{
    struct kr_page_html *h = &p->html;
    int r;

    if (c == '\0')
        return -EBADMSG;
    if (!h->quote && c == '>') {
        h->state = KR_HTML_TEXT;
        return end_tag(p, out);
    }
    if (h->quote ? c == h->quote : (c == '"' || c == '\'') && after_equals(&h->tag))
        h->quote = h->quote ? 0 : c;
    r = kr_buf_add(&h->tag, &c, 1);
    if (r == 0 && h->tag.len == 3 && memcmp(h->tag.data, "!--", 3) == 0) {
        h->state = KR_HTML_COMMENT;
        h->dashes = 0;
        h->quote = 0;
        kr_buf_reset(&h->tag);
    }
    return r;
}

static int feed_byte(struct kr_index_page *p, char c, struct kr_buf *out)
{
    struct kr_page_html *h = &p->html;

    switch (h->state) {
    case KR_HTML_TEXT:
        if (c == '<') {
            h->state = KR_HTML_TAG;
            h->quote = 0;
        } else if (h->in_link) {
            return c == '\0' ? -EBADMSG : kr_buf_add(&h->name, &c, 1);
        }
        return 0;
    case KR_HTML_TAG:
        return feed_tag(p, c, out);
    case KR_HTML_COMMENT:
        if (c == '>' && h->dashes >= 2)
            h->state = KR_HTML_TEXT;
        h->dashes = c == '-' ? h->dashes + 1 : 0;
        return 0;
    }
    return -EBADMSG;
}

int kr_page_html_feed(struct kr_index_page *p, const char *bytes, size_t len, bool end, struct kr_buf *out)
{
    int r = 0;

    if (!p->html.began) {
        p->html.began = true;
        r = kr_buf_add_str(out, page_begin);
    }
    for (size_t i = 0; i < len && r == 0; i++)
        r = feed_byte(p, bytes[i], out);
    if (r < 0 || !end)
        return r;
    if (p->html.state != KR_HTML_TEXT)
        return -EBADMSG; /* cut off inside of a tag */
    return kr_buf_add_str(out, page_end);
}

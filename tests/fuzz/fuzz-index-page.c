/* Fuzzes the rewriters of index pages. What must hold: what comes out does not depend on how the bytes are cut into
 * pieces; every address in it is a link of ours that leads back.
 *
 * An input is: a byte for the size of the pieces, whose highest bit says JSON, then the page. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-index-page"
#include "buf.h"
#include "index_page.h"
#include "replay.h"
#include <jansson.h>

#define OUT_MAX (32u << 20)

static const unsigned char key[KR_INDEX_KEY_SIZE] = "a key of the fuzzer";

static int rewrite_in_pieces(bool json, const char *text, size_t size, size_t piece, struct kr_buf *out)
{
    struct kr_web_address base = {.tls = true, .port = 443, .host = "h", .target = "/simple/x/"};
    struct kr_index_page_ask ask = {key, &base, false, NULL, NULL};
    struct kr_index_page *page;
    int r;

    kr_buf_init(out, OUT_MAX);
    if (kr_index_page_new(json ? KR_INDEX_JSON : KR_INDEX_HTML, &ask, &page) < 0)
        abort();
    r = kr_index_page_feed(page, "", 0, false, out);
    for (size_t at = 0; at < size && r == 0; at += piece)
        r = kr_index_page_feed(page, text + at, at + piece < size ? piece : size - at, false, out);
    if (r == 0)
        r = kr_index_page_feed(page, "", 0, true, out);
    kr_index_page_free(page);
    return r;
}

static void must_be_ours(const char *link, size_t len)
{
    static char path[KR_INDEX_LINK_ROOM];
    struct kr_index_link l;
    size_t hash = 0;

    while (hash < len && link[hash] != '#')
        hash++;
    must(hash < sizeof path, "a link fits");
    if (hash >= sizeof path)
        return;
    memcpy(path, link, hash);
    path[hash] = '\0';
    must(kr_index_link_read(key, path, &l) == 0, "a link is ours");
}

static void inspect_html(const char *text)
{
    for (const char *at = strstr(text, "<a "); at; at = strstr(at, "<a ")) {
        must(strncmp(at, "<a href=\"", 9) == 0, "a link begins with its address");
        at += 9;
        must_be_ours(at, strcspn(at, "\""));
    }
}

static void inspect_json(const char *text)
{
    json_t *page = json_loads(text, 0, NULL), *file;
    size_t i;

    json_array_foreach(json_object_get(page, "files"), i, file) if (json_is_object(file))
        must_be_ours(json_string_value(json_object_get(file, "url")), json_string_length(json_object_get(file, "url")));
    json_decref(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kr_buf whole, cut;
    int r;

    if (size < 2)
        return 0;
    r = rewrite_in_pieces(data[0] & 0x80, (const char *)data + 1, size - 1, size, &whole);
    must(r == rewrite_in_pieces(data[0] & 0x80, (const char *)data + 1, size - 1, (data[0] & 0x7f) + 1u, &cut),
         "the verdict is the same in pieces");
    if (r == 0) {
        must(whole.len == cut.len && memcmp(whole.data, cut.data, whole.len) == 0, "the page too");
        if (data[0] & 0x80)
            inspect_json(kr_buf_str(&whole));
        else
            inspect_html(kr_buf_str(&whole));
    }
    kr_buf_done(&whole);
    kr_buf_done(&cut);
    return 0;
}

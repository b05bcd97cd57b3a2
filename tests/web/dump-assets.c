/* Writes what the program carries of the web pages to a folder, for tests/web: N.identity and N.gzip for the N-th
 * asset, and index.json with their paths, types, tags and the header lines that go with them, and those of a user's
 * file. */
#define _GNU_SOURCE 1
#include "assets.h"
#include "buf.h"
#include "guard.h"
#include "json.h"
#include <stdio.h>
#include <string.h>

static int write_file(const char *folder, const char *name, const void *data, size_t len)
{
    char path[4096];
    FILE *file;
    int bad;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "wb");
    if (!file)
        return -1;
    bad = fwrite(data, 1, len, file) != len;
    return fclose(file) != 0 || bad ? -1 : 0;
}

static int dump_body(struct kr_json *j, const char *folder, size_t number, const char *encoding,
                     const struct kr_asset_body *body)
{
    char name[64];

    if (!body->data)
        return 0;
    snprintf(name, sizeof name, "%zu.%s", number, encoding);
    kr_json_key(j, encoding);
    kr_json_object(j);
    kr_json_key_str(j, "file", name);
    kr_json_key_str(j, "etag", body->etag);
    kr_json_object_end(j);
    return write_file(folder, name, body->data, body->len);
}

static void dump_headers(struct kr_json *j, enum kr_guard_kind kind, const char *content_type)
{
    struct kr_guard_header headers[KR_GUARD_HEADERS_MAX];
    size_t n = kr_guard_security_headers(kind, content_type, headers);

    for (size_t i = 0; i < n; i++)
        kr_json_key_str(j, headers[i].name, headers[i].value);
}

static int dump_asset(struct kr_json *j, const char *folder, size_t number, const struct kr_asset *a)
{
    int bad;

    kr_json_object(j);
    kr_json_key_str(j, "path", a->path);
    kr_json_key_bool(j, "is_page", a->is_page);
    kr_json_key(j, "headers");
    kr_json_object(j);
    kr_json_key_str(j, "Content-Type", a->content_type);
    kr_json_key_str(j, "Cache-Control", a->cache_control);
    dump_headers(j, a->is_page ? KR_GUARD_PAGE : KR_GUARD_ASSET, a->content_type);
    kr_json_object_end(j);
    bad = dump_body(j, folder, number, "identity", &a->identity) < 0;
    bad |= dump_body(j, folder, number, "gzip", &a->gzip) < 0;
    kr_json_object_end(j);
    return bad;
}

int main(int argc, char **argv)
{
    cleanup_buf struct kr_buf text;
    struct kr_json j;
    int bad = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: dump-assets FOLDER\n");
        return 2;
    }
    kr_buf_init(&text, 1 << 20);
    kr_json_init(&j, &text);
    kr_json_object(&j);
    kr_json_key_bool(&j, "complete", kr_assets_complete);
    kr_json_key(&j, "file_headers");
    kr_json_object(&j);
    dump_headers(&j, KR_GUARD_FILE, NULL);
    kr_json_object_end(&j);
    kr_json_key(&j, "assets");
    kr_json_array(&j);
    for (size_t i = 0; i < kr_assets_count; i++)
        bad |= dump_asset(&j, argv[1], i, &kr_assets[i]);
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    if (kr_json_done(&j) < 0 || bad || write_file(argv[1], "index.json", text.data, text.len) < 0) {
        fprintf(stderr, "dump-assets: cannot write to %s\n", argv[1]);
        return 1;
    }
    return 0;
}

/* Content types.
 *
 * Called by the API for downloads and links. Invariant: the type comes from the name if its extension is known, so
 * that a file is what its name says; the bytes only decide what has no known extension, and whether a charset may be
 * promised. */
#include "media.h"
#include "utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Sorted by extension. */
/* clang-format off */
static const struct kr_media rows[] = {
    {"7z", "application/x-7z-compressed", false, false},
    {"avif", "image/avif", false, false},
    {"bmp", "image/bmp", false, false},
    {"bz2", "application/x-bzip2", false, false},
    {"c", "text/x-c", true, false},
    {"css", "text/css", true, false},
    {"csv", "text/csv", true, false},
    {"doc", "application/msword", false, false},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", false, false},
    {"eps", "application/postscript", false, false},
    {"feather", "application/vnd.apache.arrow.file", false, false},
    {"gif", "image/gif", false, false},
    {"gz", "application/gzip", false, false},
    {"h5", "application/x-hdf5", false, false},
    {"htm", "text/html", true, true},
    {"html", "text/html", true, true},
    {"ico", "image/vnd.microsoft.icon", false, false},
    {"ini", "text/plain", true, false},
    {"ipynb", "application/x-ipynb+json", true, false},
    {"jpeg", "image/jpeg", false, false},
    {"jpg", "image/jpeg", false, false},
    {"js", "text/javascript", true, true},
    {"json", "application/json", true, false},
    {"jsonl", "application/x-ndjson", true, false},
    {"log", "text/plain", true, false},
    {"md", "text/markdown", true, false},
    {"mjs", "text/javascript", true, true},
    {"mov", "video/quicktime", false, false},
    {"mp3", "audio/mpeg", false, false},
    {"mp4", "video/mp4", false, false},
    {"ndjson", "application/x-ndjson", true, false},
    {"npy", "application/x-npy", false, false},
    {"npz", "application/zip", false, false},
    {"odp", "application/vnd.oasis.opendocument.presentation", false, false},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet", false, false},
    {"odt", "application/vnd.oasis.opendocument.text", false, false},
    {"ogg", "audio/ogg", false, false},
    {"parquet", "application/vnd.apache.parquet", false, false},
    {"pdf", "application/pdf", false, true},
    {"png", "image/png", false, false},
    {"ppt", "application/vnd.ms-powerpoint", false, false},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation", false, false},
    {"ps", "application/postscript", false, false},
    {"py", "text/x-python", true, false},
    {"rst", "text/x-rst", true, false},
    {"rtf", "application/rtf", false, false},
    {"sh", "text/x-shellscript", true, false},
    {"sqlite", "application/vnd.sqlite3", false, false},
    {"svg", "image/svg+xml", true, true},
    {"tar", "application/x-tar", false, false},
    {"tex", "text/x-tex", true, false},
    {"tgz", "application/gzip", false, false},
    {"tif", "image/tiff", false, false},
    {"tiff", "image/tiff", false, false},
    {"toml", "application/toml", true, false},
    {"ts", "text/plain", true, false},
    {"tsv", "text/tab-separated-values", true, false},
    {"txt", "text/plain", true, false},
    {"wasm", "application/wasm", false, true},
    {"wav", "audio/wav", false, false},
    {"webm", "video/webm", false, false},
    {"webp", "image/webp", false, false},
    {"whl", "application/zip", false, false},
    {"woff2", "font/woff2", false, false},
    {"xhtml", "application/xhtml+xml", true, true},
    {"xls", "application/vnd.ms-excel", false, false},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false, false},
    {"xml", "application/xml", true, true},
    {"xsl", "application/xml", true, true},
    {"xz", "application/x-xz", false, false},
    {"yaml", "application/yaml", true, false},
    {"yml", "application/yaml", true, false},
    {"zip", "application/zip", false, false},
    {"zst", "application/zstd", false, false},
};
/* clang-format on */

static const struct kr_media plain = {NULL, "text/plain", true, false};
static const struct kr_media unknown = {NULL, "application/octet-stream", false, false};

/* First bytes that no text begins with. */
static const struct magic {
    const char *bytes;
    size_t len;
    struct kr_media media;
} magics[] = {
    {"\x89PNG\r\n\x1a\n", 8, {NULL, "image/png", false, false}},
    {"\xff\xd8\xff", 3, {NULL, "image/jpeg", false, false}},
    {"GIF87a", 6, {NULL, "image/gif", false, false}},
    {"GIF89a", 6, {NULL, "image/gif", false, false}},
    {"%PDF-", 5, {NULL, "application/pdf", false, true}},
    {"PK\x03\x04", 4, {NULL, "application/zip", false, false}},
    {"\x1f\x8b", 2, {NULL, "application/gzip", false, false}},
};

static int compare_rows(const void *key, const void *row)
{
    return strcasecmp(key, ((const struct kr_media *)row)->extension);
}

bool kr_media_is_text(const void *head, size_t len, bool whole)
{
    const unsigned char *at = head;
    int n;

    for (; len > 0; at += n, len -= (size_t)n) {
        n = kr_utf8_next(at, len, NULL);
        if (n <= 0)
            return n == 0 && !whole;
        if ((*at < 0x20 && !strchr("\t\n\f\r\x1b", *at)) || *at == 0 || *at == 0x7f)
            return false;
    }
    return true;
}

const struct kr_media *kr_media_of(const char *name, const void *head, size_t len, bool whole)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = strrchr(base, '.');
    const struct kr_media *found = NULL;

    if (dot && dot > base) /* not a name that is nothing but an extension, as .html */
        found = bsearch(dot + 1, rows, sizeof rows / sizeof *rows, sizeof *rows, compare_rows);
    if (found)
        return found;
    for (size_t i = 0; head && i < sizeof magics / sizeof *magics; i++)
        if (len >= magics[i].len && memcmp(head, magics[i].bytes, magics[i].len) == 0)
            return &magics[i].media;
    return head && kr_media_is_text(head, len, whole) ? &plain : &unknown;
}

const char *kr_media_header(const struct kr_media *m, const void *head, size_t len, bool whole, char *out, size_t size)
{
    bool utf8 = m->text && head && kr_media_is_text(head, len, whole);

    snprintf(out, size, "%s%s", m->type, utf8 ? "; charset=utf-8" : "");
    return out;
}

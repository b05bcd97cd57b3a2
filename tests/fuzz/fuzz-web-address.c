/* Fuzzes what reads addresses, paths of the index and names of files. What must hold: an address that was read is
 * written as one that is read again, the same; what joins a base keeps to its grammar; a path that this process did not
 * write leads nowhere; a file's name is one part of a path.
 *
 * An input is one text. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-web-address"
#include "file_name.h"
#include "index_link.h"
#include "replay.h"
#include "web_address.h"

static const unsigned char key[KR_INDEX_KEY_SIZE] = "a key of the fuzzer";

static void inspect_address(const struct kr_web_address *a)
{
    char text[KR_WEB_TEXT_ROOM], name[KR_WEB_TARGET_ROOM], path[KR_INDEX_LINK_ROOM];
    struct kr_web_address again;
    struct kr_index_link link;

    kr_web_address_text(a, text, sizeof text);
    must(kr_web_address_parse(text, strlen(text), &again, NULL) == 0, "what is written is read");
    must(kr_web_address_same_origin(a, &again) && strcmp(a->target, again.target) == 0, "and is the same");
    must(a->target[0] == '/' && a->host[0] && a->port, "it is whole");
    for (const char *p = text; *p; p++)
        must((unsigned char)*p > 0x20 && (unsigned char)*p < 0x7f, "it is printable");
    kr_web_address_name(a, name, sizeof name);
    must(!strchr(name, '/') && strcmp(name, "..") != 0, "its name is one part of a path");
    if (kr_index_link_write(key, text, NULL, path, sizeof path) == 0)
        must(kr_index_link_read(key, path, &link) == 0 && strcmp(link.url, text) == 0, "a link of it leads to it");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kr_web_address base = {.tls = true, .port = 443, .host = "h.example", .target = "/simple/x/"}, a;
    char text[4096], name[128], path[4096 + sizeof KR_INDEX_FILE_PATH];
    struct kr_index_link link;

    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (kr_web_address_parse(text, size, &a, NULL) == 0)
        inspect_address(&a);
    if (kr_web_address_join(&base, text, size, &a, NULL) == 0)
        inspect_address(&a);
    snprintf(path, sizeof path, "%s%s", KR_INDEX_FILE_PATH, text);
    must(kr_index_link_read(key, path, &link) < 0, "only our links lead anywhere");
    kr_disposition_name(text, name, sizeof name);
    must(!strchr(name, '/') && !strchr(name, '\\') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0,
         "a file's name is one part of a path");
    if (kr_project_of_file(text, name, sizeof name))
        must(!strpbrk(name, "_./ ") && name[0] != '-', "a project's name is canonical");
    return 0;
}

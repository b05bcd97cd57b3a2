/* src/egress/index: addresses, links with a MAC, pages rewritten. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "buf.h"
#include "index_page.h"
#include "web_address.h"
#include <errno.h>
#include <jansson.h>

static const unsigned char test_key[KR_INDEX_KEY_SIZE] = "a key of the test";
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* ---- addresses ---- */

static const char *read_address(const char *text)
{
    static char buf[KR_WEB_TEXT_ROOM];
    struct kr_web_address a;

    return kr_web_address_parse(text, strlen(text), &a, NULL) < 0 ? "-" : kr_web_address_text(&a, buf, sizeof buf);
}

static void addresses_have_one_spelling(void)
{
    static const struct {
        const char *text, *read;
    } rows[] = {
        {"https://PyPI.org/simple/", "https://pypi.org/simple/"},
        {"HTTP://a.example:80", "http://a.example/"},
        {"https://a.example.:443/x", "https://a.example/x"},
        {"https://a.example:80/x", "https://a.example:80/x"},
        {"http://[::1]:8080/x?y=/../z#f", "http://[::1]:8080/x?y=/../z"},
        {"http://a/b/../c/./d/..", "http://a/c/"},
        {"http://a/../../b", "http://a/b"},
        {"http://a?q", "http://a/?q"},
        {"http://a/%2e%2e/b", "http://a/%2e%2e/b"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK(strcmp(read_address(rows[i].text), rows[i].read) == 0);
}

static void doubtful_addresses_are_refused(void)
{
    static const char *const bad[] = {
        "ftp://a/",
        "https:/a",
        "https://",
        "https:///x",
        "http://u:p@a/",
        "http://a@b/",
        "http://a:0/",
        "http://a:65536/",
        "http://a:/",
        "http://a:8a/",
        "http://a b/",
        "http://a\\b/",
        "http://a/b c",
        "http://a/\xc3\xa4",
        "http://a/\x01",
        "http://a/<",
        "http://a..b/",
        "http://.a/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[::1%25eth0]/",
        "http://a%2eb/",
        "http://a\r\n/",
        "//a/b",
        "a/b",
        "",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(strcmp(read_address(bad[i]), "-") == 0);
}

static void references_are_joined(void)
{
    static const struct {
        const char *ref, *to;
    } rows[] = {
        {"x.whl", "https://h/simple/name/x.whl"},
        {"../../files/x.whl#sha256=1", "https://h/files/x.whl"},
        {"/x", "https://h/x"},
        {"//other/x", "https://other/x"},
        {"?a=b", "https://h/simple/name/?a=b"},
        {"", "https://h/simple/name/?q=1"},
        {"http://o:81/x", "http://o:81/x"},
        {"javascript:alert(1)", "-"},
        {"mailto:x", "-"},
        {"//u@other/x", "-"},
    };
    struct kr_web_address base, to;
    char buf[KR_WEB_TEXT_ROOM];

    CHECK(kr_web_address_parse("https://h/simple/name/?q=1", 26, &base, NULL) == 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int r = kr_web_address_join(&base, rows[i].ref, strlen(rows[i].ref), &to, NULL);

        CHECK(strcmp(r < 0 ? "-" : kr_web_address_text(&to, buf, sizeof buf), rows[i].to) == 0);
    }
}

static void names_of_files_are_read(void)
{
    static const struct {
        const char *text, *name;
    } rows[] = {
        {"http://a/b/c%20d.txt?x=/y", "c d.txt"},
        {"http://a/", ""},
        {"http://a/%2e%2e", ""},
        {"http://a/x%2fy", ""},
        {"http://a/x%00y", ""},
        {"http://a/x%0ay", ""},
        {"http://a/%zz", ""},
    };
    struct kr_web_address a;
    char buf[64];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK(kr_web_address_parse(rows[i].text, strlen(rows[i].text), &a, NULL) == 0);
        CHECK(strcmp(kr_web_address_name(&a, buf, sizeof buf), rows[i].name) == 0);
    }
}

static void credentials_are_taken_out(void)
{
    char rest[128], user[KR_WEB_USER_ROOM], password[KR_WEB_USER_ROOM];

    CHECK(kr_web_address_split_user("https://me:p%40ss:w@h/x@y", rest, sizeof rest, user, password) == 0);
    CHECK(strcmp(rest, "https://h/x@y") == 0 && strcmp(user, "me") == 0 && strcmp(password, "p@ss:w") == 0);
    CHECK(kr_web_address_split_user("https://h/x@y", rest, sizeof rest, user, password) == 0);
    CHECK(strcmp(rest, "https://h/x@y") == 0 && !*user && !*password);
    CHECK(kr_web_address_split_user("https://tok@h", rest, sizeof rest, user, password) == 0);
    CHECK(strcmp(rest, "https://h") == 0 && strcmp(user, "tok") == 0 && !*password);
}

/* ---- links ---- */

static void links_lead_back(void)
{
    static const char *const urls[] = {"https://files.example/a/thing-1.0.whl", "http://[::1]:81/x?token=a/b&c=d",
                                       "https://h/x/thing.whl?sig=%2F", "https://h/x.metadata"};
    char path[KR_INDEX_LINK_ROOM + 16];
    struct kr_index_link link;

    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        CHECK(kr_index_link_write(test_key, urls[i], i % 2 ? NULL : HASH, path, sizeof path) == 0);
        CHECK(strncmp(path, KR_INDEX_FILE_PATH, strlen(KR_INDEX_FILE_PATH)) == 0 && !strpbrk(path, "?#& "));
        CHECK(kr_index_link_read(test_key, path, &link) == 0);
        CHECK(strcmp(link.url, urls[i]) == 0 && !link.metadata && strcmp(link.sha256, i % 2 ? "" : HASH) == 0);
        strcat(path, ".metadata");
        CHECK(kr_index_link_read(test_key, path, &link) == 0);
        CHECK(strcmp(link.url, urls[i]) == 0 && link.metadata);
    }
    CHECK(kr_index_link_write(test_key, urls[2], HASH, path, sizeof path) == 0);
    CHECK(strcmp(path + strlen(path) - 10, "/thing.whl") == 0); /* the name that clients take */
}

static void other_links_are_refused(void)
{
    char path[KR_INDEX_LINK_ROOM], changed[KR_INDEX_LINK_ROOM];
    unsigned char other_key[KR_INDEX_KEY_SIZE] = "another key";
    struct kr_index_link link;

    CHECK(kr_index_link_write(test_key, "https://h/thing.whl", HASH, path, sizeof path) == 0);
    CHECK(kr_index_link_read(test_key, path, &link) == 0);
    CHECK(kr_index_link_read(other_key, path, &link) == -EACCES);
    for (size_t i = strlen(KR_INDEX_FILE_PATH); path + i < strrchr(path, '/');
         i++) { /* the name is for clients alone */
        strcpy(changed, path);
        changed[i] = (changed[i] | 32) == 'a' ? 'b' : 'a';
        CHECK(kr_index_link_read(test_key, changed, &link) < 0);
    }
    CHECK(kr_index_link_read(test_key, "/index/file/", &link) == -EINVAL);
    CHECK(kr_index_link_read(test_key, "/index/file/aa/-/http%3A%2F%2Fh", &link) == -EINVAL);
    CHECK(kr_index_link_read(test_key, "/index/file/00000000000000000000000000000000/-/http%3A%2F%2Fh", &link) ==
          -EACCES);
    CHECK(kr_index_link_read(test_key, "/index/file/00000000000000000000000000000000/-/", &link) == -EINVAL);
}

/* ---- pages ---- */

static bool not_from_elsewhere(void *data, const struct kr_web_address *file)
{
    (void)data;
    return strcmp(file->host, "elsewhere") != 0;
}

/* The page rewritten, in pieces of this size; to be freed, NULL if it is refused. */
static char *rewrite_page(const char *type, const char *text, bool root, size_t piece)
{
    struct kr_web_address base;
    struct kr_index_page_ask ask = {test_key, &base, root, not_from_elsewhere, NULL};
    struct kr_index_page *page;
    size_t len = strlen(text);
    struct kr_buf out;
    int r;

    kr_buf_init(&out, 1 << 20);
    if (kr_web_address_parse("https://h/simple/thing/", 23, &base, NULL) < 0 ||
        kr_index_page_new(type, &ask, &page) < 0)
        return NULL;
    r = kr_index_page_feed(page, "", 0, false, &out);
    for (size_t at = 0; at < len && r == 0; at += piece)
        r = kr_index_page_feed(page, text + at, at + piece < len ? piece : len - at, false, &out);
    if (r == 0)
        r = kr_index_page_feed(page, "", 0, true, &out);
    kr_index_page_free(page);
    if (r == 0)
        return kr_buf_steal(&out, NULL);
    kr_buf_done(&out);
    return NULL;
}

static bool page_has(const char *type, const char *text, const char *part)
{
    static const size_t pieces[] = {1, 2, 7, 1 << 16};
    bool has = true;

    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        char *out = rewrite_page(type, text, false, pieces[i]);

        has &= out && strstr(out, part);
        free(out);
    }
    return has;
}

static bool page_leads_to(const char *type, const char *text, const char *url, const char *sha256)
{
    char path[KR_INDEX_LINK_ROOM];

    return kr_index_link_write(test_key, url, sha256, path, sizeof path) == 0 && page_has(type, text, path);
}

#define HTML "text/html; charset=UTF-8"
#define FILE_A "https://files/a.whl"

static void html_links_are_rewritten(void)
{
    char *out;

    CHECK(page_leads_to(HTML, "<a href=\"" FILE_A "#sha256=" HASH "\">a.whl</a>", FILE_A, HASH));
    CHECK(page_has(HTML, "<a href=\"" FILE_A "#sha256=" HASH "\">a.whl</a>", "#sha256=" HASH "\">a.whl</a>"));
    CHECK(page_leads_to(HTML, "<A\n HREF = '../../files/a.whl' >a.whl</A>", "https://h/files/a.whl", NULL));
    CHECK(page_leads_to(HTML, "<a href=" FILE_A ">a.whl</a>", FILE_A, NULL));
    CHECK(page_leads_to(HTML, "<base href='https://b/x/'><a href=a.whl>a.whl</a>", "https://b/x/a.whl", NULL));
    CHECK(page_leads_to(HTML, "<p don't><a href='" FILE_A "?a=1&amp;b=&#x32;'>a.whl</a>", FILE_A "?a=1&b=2", NULL));
    CHECK(page_has(HTML, "<a href='" FILE_A "' data-requires-python='&gt;=3.8' data-yanked onclick='x'>a</a>",
                   " data-requires-python=\"&gt;=3.8\" data-yanked=\"\">a</a>"));
    CHECK(page_has(HTML, "<a data-core-metadata='sha256=" HASH "' href='" FILE_A "'>a</a>",
                   " data-core-metadata=\"sha256=" HASH "\""));
    out = rewrite_page(HTML,
                       "<!DOCTYPE html><!-- <a href='x'>x</a> --><script src=y></script><a href='javascript:1'>j</a>"
                       "<a href='https://elsewhere/x'>e</a><a>n</a><a href='" FILE_A "'><b>a</b> &lt;1></a><img src=z>",
                       false, 5);
    CHECK(out && strstr(out, ">a &lt;1&gt;</a>") && !strstr(out, "src") && !strstr(out, "javascript"));
    CHECK(!strstr(out, "elsewhere") && !strstr(strstr(out, "<a ") + 1, "<a ") && !strstr(out, "onclick"));
    free(out);
    CHECK(!rewrite_page(HTML, "<a href='" FILE_A "'>a</a><a hre", false, 3)); /* cut off */
    CHECK((out = rewrite_page(HTML, "<a href='" FILE_A "'>a</a>", false, 3)));
    free(out);
}

static void the_list_of_projects_leads_to_pages(void)
{
    char *out =
        rewrite_page(HTML, "<a href=\"https://elsewhere/simple/My.Thing/\">My.Thing</a><a href='/x'>../x</a>", true, 9);

    CHECK(out && strstr(out, "<a href=\"/index/simple/my-thing/\">My.Thing</a>"));
    CHECK(!strstr(out, "elsewhere") && !strstr(out, "../x"));
    free(out);
    out = rewrite_page(KR_INDEX_JSON, "{\"meta\":{\"api-version\":\"1.0\"},\"projects\":[{\"name\":\"a\"}]}", true, 4);
    CHECK(out && strcmp(out, "{\"meta\":{\"api-version\":\"1.0\"},\"projects\":[{\"name\":\"a\"}]}") == 0);
    free(out);
}

static void json_files_are_rewritten(void)
{
    static const char text[] =
        "{ \"name\": \"thing\", \"x\": [{\"files\": [1]}], \"files\" : [\n {\"filename\":\"a.whl\",\"url\":\"" FILE_A
        "\",\"hashes\":{\"sha256\":\"" HASH "\"},\"core-metadata\":{\"sha256\":\"" HASH
        "\"},\"yanked\":\"say \\\"no\\\" ]}\",\"odd\":1}, "
        "{\"filename\":\"e\",\"url\":\"https://elsewhere/e\",\"hashes\":{}}, "
        "{\"url\":\"b.whl#x\",\"filename\":\"b.whl\",\"hashes\":{},\"yanked\":false,\"core-metadata\":true}],"
        "\"meta\":{\"api-version\":\"1.1\"}}  ";
    char *out;
    json_t *page, *files;

    CHECK(page_leads_to(KR_INDEX_JSON, text, FILE_A, HASH));
    CHECK(page_leads_to(KR_INDEX_JSON, text, "https://h/simple/thing/b.whl", NULL));
    out = rewrite_page(KR_INDEX_JSON, text, false, 11);
    CHECK(out && !strstr(out, "elsewhere") && !strstr(out, "odd"));
    page = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
    files = json_object_get(page, "files");
    CHECK(json_array_size(files) == 2 && strcmp(json_string_value(json_object_get(page, "name")), "thing") == 0);
    CHECK(strcmp(json_string_value(json_object_get(json_array_get(files, 0), "yanked")), "say \"no\" ]}") == 0);
    CHECK(json_is_false(json_object_get(json_array_get(files, 1), "yanked")));
    CHECK(json_is_object(json_object_get(json_array_get(files, 0), "core-metadata")));
    json_decref(page);
    free(out);
}

static void what_is_no_page_is_refused(void)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{\"files\":[",
        "{\"files\":[{}]}",
        "{\"files\":[1]}",
        "{\"files\":[{\"url\":\"x\"}]}",
        "{\"a\":[}]}",
        "{} x",
        "{\"files\":[{\"url\":\"x\",\"filename\":\"y\"",
        "{\"a\":1",
    };
    struct kr_web_address base = {.tls = true, .host = "h", .target = "/"};
    struct kr_index_page_ask ask = {test_key, &base, false, NULL, NULL};
    struct kr_index_page *page;
    char *out;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!rewrite_page(KR_INDEX_JSON, bad[i], false, 2));
    CHECK((out = rewrite_page(KR_INDEX_JSON, "{\"files\":[]}", false, 2)));
    free(out);
    CHECK(kr_index_page_new("text/plain", &ask, &page) == -EPROTONOSUPPORT);
    CHECK(kr_index_page_new("", &ask, &page) == -EPROTONOSUPPORT);
}

static void long_links_are_refused(void)
{
    size_t room = KR_INDEX_ENTRY_MAX + 256;
    char *text = calloc(1, room + 64), *out;

    CHECK(text);
    memset(text, ' ', room);
    memcpy(text, "<a ", 3);
    CHECK(!rewrite_page(HTML, text, false, 4096));
    strcpy(text + 1000, "href='" FILE_A "'>a</a>");
    CHECK((out = rewrite_page(HTML, text, false, 4096)) && strstr(out, "<a href"));
    free(out);
    free(text);
}

int main(void)
{
    RUN(addresses_have_one_spelling);
    RUN(doubtful_addresses_are_refused);
    RUN(references_are_joined);
    RUN(names_of_files_are_read);
    RUN(credentials_are_taken_out);
    RUN(links_lead_back);
    RUN(other_links_are_refused);
    RUN(html_links_are_rewritten);
    RUN(the_list_of_projects_leads_to_pages);
    RUN(json_files_are_rewritten);
    RUN(what_is_no_page_is_refused);
    RUN(long_links_are_refused);
    CHECK_DONE();
}

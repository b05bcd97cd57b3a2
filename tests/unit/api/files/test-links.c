/* Links to files and what a request may ask of a file: src/api/files/links.c, file_range.c, and the docs of the
 * routes. */
#include "file_routes.h"
#include "buf.h"
#include "check.h"
#include "table-check.h"
#include "err.h"
#include "files.h"
#include "file_range.h"
#include "links.h"
#include "openapi.h"
#include <errno.h>
#include <sys/stat.h>

#define NOW INT64_C(1763200000)
#define ID "01hv5k8m2nq7r9t3w6x8y0z2a4"

static const unsigned char key[KR_SIGN_KEY_BYTES] = "0123456789abcdef0123456789abcdef";
static const unsigned char other_key[KR_SIGN_KEY_BYTES] = "0123456789abcdef0123456789abcdeg";
static const struct kr_link link_ = {.owner = "root", .sandbox = ID, .expires = NOW + 60};

static int judge(const char *token, const char *path, int64_t now, struct kr_err *err)
{
    struct kr_link ret;

    return kr_link_check(key, token, path, now, &ret, err);
}

static void a_link_opens_its_path_until_its_time(void)
{
    char token[KR_LINK_TOKEN_ROOM];
    struct kr_link ret;
    struct kr_err err;

    kr_link_sign(key, &link_, "plots/a.png", token);
    CHECK(kr_link_check(key, token, "plots/a.png", NOW, &ret, &err) == 0);
    CHECK(strcmp(ret.owner, "root") == 0 && strcmp(ret.sandbox, ID) == 0 && ret.expires == NOW + 60);
    CHECK(judge(token, "plots/a.png", NOW + 59, &err) == 0);
    CHECK(judge(token, "plots/a.png", NOW + 60, &err) == -EKEYEXPIRED && err.kind == KR_ERR_DENIED);
    CHECK(judge(token, "plots/b.png", NOW, &err) == -EKEYREJECTED && err.kind == KR_ERR_NOT_FOUND);
    CHECK(judge(token, "plots/a.png2", NOW, &err) == -EKEYREJECTED);
    CHECK(judge(token, "", NOW, &err) == -EKEYREJECTED);
    /* One that is forged is not told apart from one that is forged and old. */
    CHECK(judge(token, "plots/b.png", NOW + 999, &err) == -EKEYREJECTED);
}

static void another_servers_link_opens_nothing(void)
{
    char token[KR_LINK_TOKEN_ROOM];
    struct kr_err err;

    kr_link_sign(other_key, &link_, "a", token);
    CHECK(judge(token, "a", NOW, &err) == -EKEYREJECTED);
}

static void no_byte_of_a_token_can_be_changed(void)
{
    char token[KR_LINK_TOKEN_ROOM], forged[KR_LINK_TOKEN_ROOM];
    struct kr_err err;

    kr_link_sign(key, &link_, "a", token);
    for (size_t i = 0; token[i]; i++)
        for (const char *c = "0a9z.-"; *c; c++) {
            memcpy(forged, token, sizeof forged);
            if (forged[i] == *c)
                continue;
            forged[i] = *c;
            CHECK(judge(forged, "a", NOW, &err) < 0);
        }
    for (size_t i = 0; token[i]; i++) { /* nor cut */
        memcpy(forged, token, sizeof forged);
        forged[i] = '\0';
        CHECK(judge(forged, "a", NOW, &err) == -EKEYREJECTED);
    }
    snprintf(forged, sizeof forged, "%.*s0", (int)strlen(token), token);
    CHECK(judge(forged, "a", NOW, &err) == -EKEYREJECTED);
}

/* The parts must not be movable from one field to the next. */
static void the_end_cannot_be_moved(void)
{
    struct kr_link later = link_;
    char token[KR_LINK_TOKEN_ROOM], moved[KR_LINK_TOKEN_ROOM];
    const char *signature;
    struct kr_err err;

    kr_link_sign(key, &link_, "a", token);
    signature = strrchr(token, '.') + 1;
    later.expires += 1000;
    snprintf(moved, sizeof moved, "%s.%s.%lld.%s", later.owner, later.sandbox, (long long)later.expires, signature);
    CHECK(judge(moved, "a", NOW, &err) == -EKEYREJECTED);
    snprintf(moved, sizeof moved, "%s.%s.0%lld.%s", link_.owner, link_.sandbox, (long long)link_.expires, signature);
    CHECK(judge(moved, "a", NOW, &err) == -EKEYREJECTED);
}

static void junk_is_no_link(void)
{
    static const char *const junk[] = {
        "",
        ".",
        "...",
        "a",
        "a.b",
        "a.b.1",
        "a.b.1.",
        "a.b..c",
        "root." ID "..x",
        "root." ID ".-5.x",
        "root." ID ".99999999999999999999.x",
        "ROOT." ID ".1763200060.x",
        "root/../x." ID ".1763200060.x",
        "rootrootrootrootrootrootrootrootroot." ID ".1763200060.x",
        "root\n." ID ".1763200060.x",
    };
    struct kr_err err;

    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++)
        CHECK(judge(junk[i], "a", NOW, &err) == -EKEYREJECTED);
}

static void a_path_of_any_length_is_signed(void)
{
    char path[KR_FILES_PATH_MAX], token[KR_LINK_TOKEN_ROOM];
    struct kr_err err;

    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    kr_link_sign(key, &link_, path, token);
    CHECK(judge(token, path, NOW, &err) == 0);
    path[sizeof path - 2] = 'y';
    CHECK(judge(token, path, NOW, &err) == -EKEYREJECTED);
}

static void the_url_says_the_path(void)
{
    struct kr_buf url;

    kr_buf_init(&url, 65536);
    CHECK(kr_link_add_path(&url, "T", "plots/图 1.png") == 0);
    CHECK(strcmp(kr_buf_str(&url), "/files/T/plots/%E5%9B%BE%201.png") == 0);
    kr_buf_reset(&url);
    CHECK(kr_link_add_path(&url, "T", "a?b#c%d&e") == 0);
    CHECK(strcmp(kr_buf_str(&url), "/files/T/a%3Fb%23c%25d%26e") == 0);
    kr_buf_reset(&url);
    CHECK(kr_link_add_path(&url, "T", "a\xff") == 0);
    CHECK(strcmp(kr_buf_str(&url), "/files/T/file?path_b64=Yf8%3D") == 0);
    kr_buf_reset(&url);
    CHECK(kr_link_add_path(&url, "T", "a\\b") == 0);
    CHECK(strcmp(kr_buf_str(&url), "/files/T/file?path_b64=YVxi") == 0);
    kr_buf_reset(&url);
    CHECK(kr_link_add_path(&url, "T", "a\nb") == 0);
    CHECK(strcmp(kr_buf_str(&url), "/files/T/file?path_b64=YQpi") == 0);
    kr_buf_done(&url);
}

/* ---- ranges ---- */

static void ranges(void)
{
    static const struct {
        const char *header;
        uint64_t size;
        enum kr_range range;
        uint64_t first, end;
    } rows[] = {
        {NULL, 100, KR_RANGE_ALL, 0, 0},
        {"bytes=0-0", 100, KR_RANGE_PART, 0, 1},
        {"bytes=0-99", 100, KR_RANGE_PART, 0, 100},
        {"bytes=10-19", 100, KR_RANGE_PART, 10, 20},
        {"bytes=10-", 100, KR_RANGE_PART, 10, 100},
        {"bytes=99-", 100, KR_RANGE_PART, 99, 100},
        {"bytes=90-500", 100, KR_RANGE_PART, 90, 100},
        {"bytes=-10", 100, KR_RANGE_PART, 90, 100},
        {"bytes=-500", 100, KR_RANGE_PART, 0, 100},
        {"bytes= 1-2 ", 100, KR_RANGE_PART, 1, 3},
        {"bytes=100-", 100, KR_RANGE_NONE, 0, 0},
        {"bytes=100-200", 100, KR_RANGE_NONE, 0, 0},
        {"bytes=-0", 100, KR_RANGE_NONE, 0, 0},
        {"bytes=0-0", 0, KR_RANGE_NONE, 0, 0},
        {"bytes=-5", 0, KR_RANGE_NONE, 0, 0},
        {"bytes=0-1,5-6", 100, KR_RANGE_ALL, 0, 0},
        {"bytes=5-1", 100, KR_RANGE_ALL, 0, 0},
        {"bytes=-", 100, KR_RANGE_ALL, 0, 0},
        {"bytes=", 100, KR_RANGE_ALL, 0, 0},
        {"bytes=a-b", 100, KR_RANGE_ALL, 0, 0},
        {"bytes=1-2x", 100, KR_RANGE_ALL, 0, 0},
        {"bytes=+1-2", 100, KR_RANGE_ALL, 0, 0},
        {"bytes=--5", 100, KR_RANGE_ALL, 0, 0},
        {"lines=1-2", 100, KR_RANGE_ALL, 0, 0},
        {"bytes=99999999999999999999999-", 100, KR_RANGE_ALL, 0, 0},
        {"bytes=0-18446744073709551610", 100, KR_RANGE_ALL, 0, 0},
        {"bytes=0-1844674407370955160", 100, KR_RANGE_PART, 0, 100},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t first = 0, end = 0;
        enum kr_range got = kr_range_read(rows[i].header, rows[i].size, &first, &end);

        if (got != rows[i].range || first != rows[i].first || end != rows[i].end)
            printf("# %s of %llu: %d %llu %llu\n", rows[i].header, (unsigned long long)rows[i].size, got,
                   (unsigned long long)first, (unsigned long long)end);
        CHECK(got == rows[i].range && first == rows[i].first && end == rows[i].end);
    }
}

static void validators(void)
{
    struct stat a = {.st_ino = 1, .st_size = 2, .st_mtim = {3, 4}, .st_ctim = {5, 6}}, b = a;
    char tag[KR_ETAG_ROOM], other[KR_ETAG_ROOM], text[4 * KR_ETAG_ROOM];

    kr_etag_write(&a, tag);
    CHECK(tag[0] == '"' && tag[strlen(tag) - 1] == '"');
    b.st_ctim.tv_nsec++;
    CHECK(strcmp(kr_etag_write(&b, other), tag) != 0);
    a.st_ino = b.st_ino = UINT64_MAX;
    a.st_size = INT64_MAX;
    a.st_mtim.tv_sec = a.st_ctim.tv_sec = UINT32_MAX;
    CHECK(kr_etag_write(&a, tag)[strlen(tag) - 1] == '"'); /* fits at its longest */

    CHECK(!kr_etag_in(NULL, tag, true));
    CHECK(!kr_etag_in("", tag, true));
    CHECK(kr_etag_in("*", tag, true));
    CHECK(kr_etag_in(tag, tag, false));
    snprintf(text, sizeof text, "\"x\", W/\"y\" ,%s", tag);
    CHECK(kr_etag_in(text, tag, false));
    snprintf(text, sizeof text, "W/%s", tag);
    CHECK(kr_etag_in(text, tag, true));
    CHECK(!kr_etag_in(text, tag, false));
    CHECK(!kr_etag_in("\"x\"", tag, true));
    CHECK(!kr_etag_in("\"x", tag, true));
    CHECK(!kr_etag_in("x, *", tag, true));

    CHECK(kr_etag_allows_range(NULL, tag));
    CHECK(kr_etag_allows_range(tag, tag));
    CHECK(!kr_etag_allows_range(text, tag));
    CHECK(!kr_etag_allows_range("Wed, 21 Oct 2015 07:28:00 GMT", tag));
}

static void the_routes_are_documented(void)
{
    static const struct kr_http_route routes[] = {KR_API_FILES_ROUTES};
    struct kr_err err;
    int r = docs_check(routes, sizeof routes / sizeof *routes, &err);

    if (r < 0)
        printf("# %s\n", err.msg);
    CHECK(r == 0);
}

int main(void)
{
    RUN(a_link_opens_its_path_until_its_time);
    RUN(another_servers_link_opens_nothing);
    RUN(no_byte_of_a_token_can_be_changed);
    RUN(the_end_cannot_be_moved);
    RUN(junk_is_no_link);
    RUN(a_path_of_any_length_is_signed);
    RUN(the_url_says_the_path);
    RUN(ranges);
    RUN(validators);
    RUN(the_routes_are_documented);
    CHECK_DONE();
}

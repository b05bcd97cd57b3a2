/* src/http/message: frames of WebSockets whole, at every split and a byte at a time; the words of the handshake; SHA-1.
 * tests/integration/terminals.py has the connections. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "sha1.h"
#include "ws_frame.h"
#include <stdint.h>

#define MAX 100000u

/* What a parse gave: a letter for each event, with codes, and all bytes of binary messages. */
struct story {
    char events[256], bytes[1u << 18];
    size_t len;
};

static void tell(struct story *s, struct kr_ws_parser *p, const char *in, size_t len)
{
    struct kr_ws_piece piece;
    enum kr_ws_event e;

    while ((e = kr_ws_next(p, &in, &len, &piece)) != KR_WS_MORE) {
        size_t at = strlen(s->events), room = sizeof s->events - at;

        if (e == KR_WS_GOT_BINARY) {
            memcpy(s->bytes + s->len, piece.data, piece.len);
            s->len += piece.len;
            if (piece.whole)
                snprintf(s->events + at, room, "b%zu ", s->len);
        } else if (e == KR_WS_GOT_TEXT || e == KR_WS_GOT_PING || e == KR_WS_GOT_PONG) {
            snprintf(s->events + at, room, "%c%.*s ",
                     e == KR_WS_GOT_TEXT   ? 't'
                     : e == KR_WS_GOT_PING ? 'p'
                                           : 'o',
                     (int)piece.len, piece.data);
        } else {
            snprintf(s->events + at, room, "%c%u ", e == KR_WS_BAD ? '!' : 'c', piece.code);
        }
    }
}

static struct story whole, cut;

/* The events; "split" if a way to cut the input gives others. */
static const char *parse(const char *in, size_t len, bool masked)
{
    struct kr_ws_parser p;

    whole = (struct story){0};
    kr_ws_parser_init(&p, masked, MAX);
    tell(&whole, &p, in, len);
    for (size_t at = 0; at <= len; at += len > 2000 ? 997 : 1) {
        cut = (struct story){0};
        kr_ws_parser_init(&p, masked, MAX);
        tell(&cut, &p, in, at);
        tell(&cut, &p, in + at, len - at);
        if (strcmp(cut.events, whole.events) != 0 || cut.len != whole.len || memcmp(cut.bytes, whole.bytes, cut.len))
            return "split";
    }
    cut = (struct story){0};
    kr_ws_parser_init(&p, masked, MAX);
    for (size_t at = 0; at < len; at++)
        tell(&cut, &p, in + at, 1);
    return strcmp(cut.events, whole.events) == 0 && cut.len == whole.len ? whole.events : "byte by byte";
}

#define LIT(text) text, sizeof(text) - 1
#define M "\1\2\3\4" /* a mask */

static const struct {
    const char *in;
    size_t len;
    bool masked;
    const char *events;
} frames[] = {
    {LIT("\x82\x80" M), true, "b0 "},
    {LIT("\x82\x83" M "\x60\x60\x60"), true, "b3 "},
    {LIT("\x81\x85" M "\x69\x67\x6f\x68\x6e"), true, "thello "},
    {LIT("\x81\x05hello"), false, "thello "},
    {LIT("\x01\x03hel\x89\x02hi\x80\x02lo"), false, "phi thello "},
    {LIT("\x02\x03hel\x8a\x00\x00\x00\x80\x02lo"), false, "o b5 "},
    {LIT("\x81\x00"), false, "t "},
    {LIT("\x01\x01\xc3\x80\x01\xa9"), false, "t\xc3\xa9 "},
    {LIT("\x88\x00\x82\x01x"), false, "c1005 "},
    {LIT("\x88\x04\x03\xe8ok\x82\x01x"), false, "c1000 "},
    {LIT("\x88\x02\x0f\xa0"), false, "c4000 "},
    {LIT("\x82\x01x"), true, "!1002 "},
    {LIT("\x82\x81" M "x"), false, "!1002 "},
    {LIT("\xc2\x00"), false, "!1002 "},
    {LIT("\xa2\x00"), false, "!1002 "},
    {LIT("\x92\x00"), false, "!1002 "},
    {LIT("\x83\x00"), false, "!1002 "},
    {LIT("\x87\x00"), false, "!1002 "},
    {LIT("\x8b\x00"), false, "!1002 "},
    {LIT("\x8f\x00"), false, "!1002 "},
    {LIT("\x80\x00"), false, "!1002 "},
    {LIT("\x00\x00"), false, "!1002 "},
    {LIT("\x02\x01x\x82\x01y"), false, "!1002 "},
    {LIT("\x82\x01x\x80\x01y"), false, "b1 !1002 "},
    {LIT("\x09\x00"), false, "!1002 "},
    {LIT("\x89\x7e\x00\x7e"), false, "!1002 "},
    {LIT("\x82\x7e\x00\x7d"), false, "!1002 "},
    {LIT("\x82\x7f\0\0\0\0\0\0\xff\xff"), false, "!1002 "},
    {LIT("\x82\x7f\xff\0\0\0\0\0\0\0"), false, "!1002 "},
    {LIT("\x82\x7f\0\0\0\0\0\2\0\0"), false, "!1009 "},
    {LIT("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"), false, "!1009 "},
    {LIT("\x02\x01x\x80\x7f\0\0\0\0\0\1\x86\xa0"), false, "!1009 "},
    {LIT("\x81\x7e\x10\x01"), false, "!1009 "},
    {LIT("\x81\x01\xff"), false, "!1007 "},
    {LIT("\x81\x03\xed\xa0\x80"), false, "!1007 "},
    {LIT("\x81\x01\xc3"), false, "!1007 "},
    {LIT("\x88\x01\x03"), false, "!1002 "},
    {LIT("\x88\x02\x03\xe7"), false, "!1002 "},
    {LIT("\x88\x02\x03\xec"), false, "!1002 "},
    {LIT("\x88\x02\x03\xed"), false, "!1002 "},
    {LIT("\x88\x02\x03\xee"), false, "!1002 "},
    {LIT("\x88\x02\x03\xf7"), false, "!1002 "},
    {LIT("\x88\x02\x0b\xb7"), false, "!1002 "},
    {LIT("\x88\x02\x13\x88"), false, "!1002 "},
    {LIT("\x88\x03\x03\xe8\xff"), false, "!1007 "},
};

static void frames_give_their_events(void)
{
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        const char *got = parse(frames[i].in, frames[i].len, frames[i].masked);

        if (strcmp(got, frames[i].events) != 0)
            printf("# frame %zu: %s\n", i, got);
        CHECK(strcmp(got, frames[i].events) == 0);
    }
}

static void what_is_written_is_read(void)
{
    static const uint64_t lengths[] = {0, 1, 125, 126, 65535, 65536, MAX};
    static const unsigned char mask[4] = {9, 8, 7, 6};
    static char in[MAX + KR_WS_HEAD_MAX];
    char expected[32];

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int masked = 0; masked < 2; masked++) {
            size_t len = (size_t)lengths[i];
            size_t head = kr_ws_head((unsigned char *)in, KR_WS_BINARY, len, masked ? mask : NULL);

            for (size_t at = 0; at < len; at++)
                in[head + at] = (char)(at * 7);
            if (masked) {
                kr_ws_mask(in + head, len / 3, mask, 0);
                kr_ws_mask(in + head + len / 3, len - len / 3, mask, len / 3);
            }
            snprintf(expected, sizeof expected, "b%zu ", len);
            CHECK(strcmp(parse(in, head + len, masked), expected) == 0);
            for (size_t at = 0; at < len; at++)
                CHECK(whole.bytes[at] == (char)(at * 7));
        }
    }
}

static void handshakes_have_their_words(void)
{
    char accept[KR_WS_ACCEPT_ROOM];

    kr_ws_accept("dGhlIHNhbXBsZSBub25jZQ==", accept); /* RFC 6455, section 1.3 */
    CHECK(strcmp(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") == 0);
    CHECK(kr_ws_key_is_good("dGhlIHNhbXBsZSBub25jZQ=="));
    CHECK(!kr_ws_key_is_good(NULL) && !kr_ws_key_is_good("") && !kr_ws_key_is_good("dGhlIHNhbXBsZSBub25jZQ"));
    CHECK(!kr_ws_key_is_good("dGhlIHNhbXBsZSBub25jZQ==x") && !kr_ws_key_is_good("dGhlIHNhbXBsZSBub25jZWU="));
    CHECK(!kr_ws_key_is_good("dGhlIHNhbXBsZSBub25jZ*=="));
    CHECK(kr_ws_lists("keep-alive, Upgrade", "upgrade") && kr_ws_lists("upgrade", "Upgrade"));
    CHECK(kr_ws_lists(" a ,\tb", "b") && !kr_ws_lists("ab", "b") && !kr_ws_lists("b2", "b"));
    CHECK(!kr_ws_lists(NULL, "b") && !kr_ws_lists("", "b") && !kr_ws_lists(",,", "b"));
}

static void sha1_is_that_of_the_standard(void)
{
    static const struct {
        const char *text, *digest;
    } rows[] = {
        {"", "\xda\x39\xa3\xee\x5e\x6b\x4b\x0d\x32\x55\xbf\xef\x95\x60\x18\x90\xaf\xd8\x07\x09"},
        {"abc", "\xa9\x99\x3e\x36\x47\x06\x81\x6a\xba\x3e\x25\x71\x78\x50\xc2\x6c\x9c\xd0\xd8\x9d"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "\x84\x98\x3e\x44\x1c\x3b\xd2\x6e\xba\xae\x4a\xa1\xf9\x51\x29\xe5\xe5\x46\x70\xf1"},
    };
    unsigned char digest[KR_SHA1_BYTES];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kr_sha1(rows[i].text, strlen(rows[i].text), digest);
        CHECK(memcmp(digest, rows[i].digest, sizeof digest) == 0);
    }
}

int main(void)
{
    RUN(frames_give_their_events);
    RUN(what_is_written_is_read);
    RUN(handshakes_have_their_words);
    RUN(sha1_is_that_of_the_standard);
    CHECK_DONE();
}

/* src/egress/net/hello.c: names that a ClientHello has, and every way to have two readers see two. Run by tests/run. */
#include "hello.h"
#include "check.h"
#include <errno.h>
#include <stdint.h>

struct message {
    unsigned char bytes[4 * KR_EG_HELLO_MAX];
    size_t len;
};

static void put(struct message *m, unsigned value, unsigned size)
{
    while (size-- > 0)
        m->bytes[m->len++] = (unsigned char)(value >> (8 * size));
}

static void put_bytes(struct message *m, const void *data, size_t len)
{
    memcpy(m->bytes + m->len, data, len);
    m->len += len;
}

/* An extension server_name with these names. */
static void put_names(struct message *m, const char *const *names, size_t count)
{
    size_t all = 0;

    for (size_t i = 0; i < count; i++)
        all += 3 + strlen(names[i]);
    put(m, 0, 2);
    put(m, (unsigned)all + 2, 2);
    put(m, (unsigned)all, 2);
    for (size_t i = 0; i < count; i++) {
        put(m, 0, 1);
        put(m, (unsigned)strlen(names[i]), 2);
        put_bytes(m, names[i], strlen(names[i]));
    }
}

/* The body of a ClientHello with these extensions; NULL: none at all. */
static struct message body_with(const struct message *extensions)
{
    struct message m = {.len = 0};

    put(&m, 0x0303, 2);
    for (int i = 0; i < 32; i++)
        put(&m, (unsigned)i, 1);
    put(&m, 0, 1);
    put(&m, 4, 2);
    put(&m, 0x13011302, 4);
    put(&m, 1, 1);
    put(&m, 0, 1);
    if (extensions) {
        put(&m, (unsigned)extensions->len, 2);
        put_bytes(&m, extensions->bytes, extensions->len);
    }
    return m;
}

static struct message message_of(const struct message *body)
{
    struct message m = {.len = 0};

    put(&m, 1, 1);
    put(&m, (unsigned)body->len, 3);
    put_bytes(&m, body->bytes, body->len);
    return m;
}

/* In records of at most `piece` bytes. */
static struct message records_of(const struct message *message, size_t piece)
{
    struct message m = {.len = 0};

    for (size_t at = 0; at < message->len; at += piece) {
        size_t n = message->len - at < piece ? message->len - at : piece;

        put(&m, 22, 1);
        put(&m, 0x0301, 2);
        put(&m, (unsigned)n, 2);
        put_bytes(&m, message->bytes + at, n);
    }
    return m;
}

static struct message hello_named(const char *const *names, size_t count)
{
    struct message extensions = {.len = 0}, body, message;

    if (count > 0)
        put_names(&extensions, names, count);
    put(&extensions, 43, 2);
    put(&extensions, 3, 2);
    put(&extensions, 0x020304, 3);
    body = body_with(&extensions);
    message = message_of(&body);
    return records_of(&message, 1 << 14);
}

static int parse(const struct message *m, struct kr_eg_hello *ret)
{
    return kr_eg_hello_parse((const char *)m->bytes, m->len, ret);
}

static void names_are_read(void)
{
    static const struct {
        const char *name, *want; /* want NULL: refused */
    } rows[] = {{"example.org", "example.org"},
                {"EXAMPLE.Org", "example.org"},
                {"a", "a"},
                {"_dmarc.x-y.z1", "_dmarc.x-y.z1"},
                {"", NULL},
                {".example.org", NULL},
                {"example.org.", NULL},
                {"a..b", NULL},
                {"a b", NULL},
                {"a/b", NULL},
                {"::1", NULL},
                {"b\xc3\xbc.example", NULL}};
    struct kr_eg_hello hello;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct message m = hello_named(&rows[i].name, 1);
        int r = parse(&m, &hello);

        if (!rows[i].want)
            CHECK(r == -EBADMSG);
        else
            CHECK(r == (int)m.len && strcmp(hello.name, rows[i].want) == 0 && !hello.hidden);
    }
}

static void a_name_has_no_nul(void)
{
    static const char *const name[] = {"aXevil.example"};
    struct message m = hello_named(name, 1);
    struct kr_eg_hello hello;

    CHECK(parse(&m, &hello) == (int)m.len);
    *(char *)memchr(m.bytes, 'X', m.len) = '\0';
    CHECK(parse(&m, &hello) == -EBADMSG);
}

static void without_a_name(void)
{
    struct message body = body_with(NULL), message = message_of(&body), bare = records_of(&message, 4096);
    struct message none = hello_named(NULL, 0);
    struct kr_eg_hello hello;

    CHECK(parse(&none, &hello) == (int)none.len && !hello.name[0]);
    CHECK(parse(&bare, &hello) == (int)bare.len && !hello.name[0]);
}

static void two_names_are_refused(void)
{
    static const char *const both[] = {"a.example", "b.example"};
    struct message in_one = hello_named(both, 2), extensions = {.len = 0}, body, message, twice;
    struct kr_eg_hello hello;

    put_names(&extensions, both, 1);
    put_names(&extensions, both + 1, 1);
    body = body_with(&extensions);
    message = message_of(&body);
    twice = records_of(&message, 4096);
    CHECK(parse(&in_one, &hello) == -EBADMSG);
    CHECK(parse(&twice, &hello) == -EBADMSG);
}

static void encrypted_hellos_are_seen(void)
{
    static const char *const name[] = {"a.example"};
    struct message extensions = {.len = 0}, body, message, m;
    struct kr_eg_hello hello;

    put_names(&extensions, name, 1);
    put(&extensions, 0xfe0d, 2);
    put(&extensions, 4, 2);
    put(&extensions, 0, 4);
    body = body_with(&extensions);
    message = message_of(&body);
    m = records_of(&message, 4096);
    CHECK(parse(&m, &hello) == (int)m.len && hello.hidden);
}

/* The verdict depends on the bytes, not on their pieces: of records, and of what has come so far. */
static void pieces_change_nothing(void)
{
    static const char *const name[] = {"pieces.example"};
    struct message whole = hello_named(name, 1), message = {.len = 0};
    struct kr_eg_hello hello;

    put_bytes(&message, whole.bytes + 5, whole.len - 5);
    for (size_t piece = 1; piece < 40; piece++) {
        struct message m = records_of(&message, piece);

        CHECK(parse(&m, &hello) == (int)m.len && strcmp(hello.name, name[0]) == 0);
        for (size_t n = 0; n < m.len; n++)
            CHECK(kr_eg_hello_parse((const char *)m.bytes, n, &hello) == 0);
        put(&m, 0x17030300, 4); /* what follows is another record's */
        CHECK(parse(&m, &hello) == (int)m.len - 4);
    }
}

/* Each length one more or one less, each byte of the framing another one. */
static void every_length_is_held_against_the_rest(void)
{
    static const char *const name[] = {"lengths.example"};
    struct message whole = hello_named(name, 1);
    static const size_t lengths[] = {8, 43, 45, 50, 53, 57, 59, 62};
    struct kr_eg_hello hello;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int by = -1; by <= 1; by += 2) {
            struct message m = whole;
            int r;

            m.bytes[lengths[i]] = (unsigned char)(m.bytes[lengths[i]] + by);
            r = parse(&m, &hello);
            CHECK(r == -EBADMSG || (r == 0 && lengths[i] == 8 && by > 0));
        }
}

static void what_is_no_hello(void)
{
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {{"GET / HTTP/1.1\r\n", 16},   {"\x15\x03\x01\0\x02\x02\x28", 7}, {"\x16\x02\x01\0\x05", 5},
                {"\x16\x03\x05\0\x05", 5},    {"\x16\x03\x01\0\0", 5},           {"\x16\x03\x01\xff\xff", 5},
                {"\x16\x03\x01\0\x01\x02", 6}};
    struct kr_eg_hello hello;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(kr_eg_hello_parse(rows[i].bytes, rows[i].len, &hello) == -EBADMSG);
    CHECK(kr_eg_hello_begins("\x16", 1) && !kr_eg_hello_begins("G", 1) && !kr_eg_hello_begins("", 0));
}

static void too_long_is_refused(void)
{
    struct message extensions = {.len = 0}, body, message, m;
    struct kr_eg_hello hello;

    put(&extensions, 21, 2);
    put(&extensions, KR_EG_HELLO_MAX, 2);
    extensions.len += KR_EG_HELLO_MAX;
    body = body_with(&extensions);
    message = message_of(&body);
    m = records_of(&message, 1 << 13);
    CHECK(parse(&m, &hello) == -EBADMSG);
    CHECK(kr_eg_hello_parse((const char *)m.bytes, KR_EG_HELLO_MAX / 2, &hello) == 0 ||
          kr_eg_hello_parse((const char *)m.bytes, KR_EG_HELLO_MAX / 2, &hello) == -EBADMSG);
}

int main(void)
{
    RUN(names_are_read);
    RUN(a_name_has_no_nul);
    RUN(without_a_name);
    RUN(two_names_are_refused);
    RUN(encrypted_hellos_are_seen);
    RUN(pieces_change_nothing);
    RUN(every_length_is_held_against_the_rest);
    RUN(what_is_no_hello);
    RUN(too_long_is_refused);
    CHECK_DONE();
}

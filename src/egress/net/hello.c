/* The parser of ClientHellos. Called by eg_tunnel.c with all that a client has sent so far, and by
 * tests/fuzz/fuzz-hello.c.
 *
 * Records are put together first, since a message may be cut anywhere into several; then the message is read once.
 * Invariant: nothing is read past the bytes given, and every length is held against what is left. */
#include "hello.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>

#define RECORD_HEAD 5u
#define RECORD_HANDSHAKE 22
#define MESSAGE_HEAD 4u
#define MESSAGE_CLIENT_HELLO 1
#define RANDOM_BYTES 32u
#define SESSION_ID_MAX 32u
#define EXT_SERVER_NAME 0u
#define EXT_ECH 0xfe0du
#define NAME_TYPE_HOST 0
#define NAME_MAX_BYTES 253u

/* What is left to read. */
struct span {
    const unsigned char *p;
    size_t len;
};

static bool take(struct span *s, size_t n, struct span *ret)
{
    if (s->len < n)
        return false;
    *ret = (struct span){s->p, n};
    s->p += n;
    s->len -= n;
    return true;
}

static bool take_number(struct span *s, unsigned bytes, unsigned *ret)
{
    struct span digits;

    if (!take(s, bytes, &digits))
        return false;
    *ret = 0;
    for (unsigned i = 0; i < bytes; i++)
        *ret = *ret << 8 | digits.p[i];
    return true;
}

/* A vector: its length in so many bytes, then it. */
static bool take_vector(struct span *s, unsigned bytes, struct span *ret)
{
    unsigned len;

    return take_number(s, bytes, &len) && take(s, len, ret);
}

/* ---- extensions ---- */

static bool is_name_char(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

static bool read_name(struct span name, char ret[KR_EG_HOST_ROOM])
{
    if (name.len == 0 || name.len > NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = name.p[i];

        if (c >= 'A' && c <= 'Z')
            c = (unsigned char)(c + ('a' - 'A'));
        if (!is_name_char(c) || (c == '.' && (i == 0 || i + 1 == name.len || name.p[i + 1] == '.')))
            return false;
        ret[i] = (char)c;
    }
    ret[name.len] = '\0';
    return true;
}

/* RFC 6066 3: a list, which has one name of a host. */
static bool read_server_name(struct span ext, struct kr_eg_hello *ret)
{
    struct span list, name;
    unsigned type;

    return ret->name[0] == '\0' && take_vector(&ext, 2, &list) && ext.len == 0 && take_number(&list, 1, &type) &&
           type == NAME_TYPE_HOST && take_vector(&list, 2, &name) && list.len == 0 && read_name(name, ret->name);
}

static bool read_extensions(struct span all, struct kr_eg_hello *ret)
{
    while (all.len > 0) {
        struct span ext;
        unsigned type;

        if (!take_number(&all, 2, &type) || !take_vector(&all, 2, &ext))
            return false;
        if (type == EXT_SERVER_NAME && !read_server_name(ext, ret))
            return false;
        if (type == EXT_ECH)
            ret->hidden = true;
    }
    return true;
}

/* ---- the message ---- */

static bool read_hello(struct span body, struct kr_eg_hello *ret)
{
    struct span part, extensions;
    unsigned version;

    if (!take_number(&body, 2, &version) || version >> 8 != 3 || !take(&body, RANDOM_BYTES, &part) ||
        !take_vector(&body, 1, &part) || part.len > SESSION_ID_MAX)
        return false;
    if (!take_vector(&body, 2, &part) || part.len < 2 || part.len % 2 != 0) /* cipher suites */
        return false;
    if (!take_vector(&body, 1, &part) || part.len < 1) /* compression methods */
        return false;
    if (body.len == 0) /* before TLS 1.3 there may be no extensions */
        return true;
    return take_vector(&body, 2, &extensions) && body.len == 0 && read_extensions(extensions, ret);
}

/* One record: its bytes of the message. 1; 0: it is not whole; -EBADMSG. What there is of its head is judged at
 * once. */
static int take_record(struct span *in, struct span *ret)
{
    size_t len;

    if ((in->len > 0 && in->p[0] != RECORD_HANDSHAKE) || (in->len > 1 && in->p[1] != 3) ||
        (in->len > 2 && in->p[2] > 4))
        return -EBADMSG;
    if (in->len < RECORD_HEAD)
        return 0;
    len = (size_t)in->p[3] << 8 | in->p[4];
    if (len == 0 || len > KR_EG_HELLO_MAX)
        return -EBADMSG;
    if (in->len < RECORD_HEAD + len)
        return 0;
    *ret = (struct span){in->p + RECORD_HEAD, len};
    in->p += RECORD_HEAD + len;
    in->len -= RECORD_HEAD + len;
    return 1;
}

bool kr_eg_hello_begins(const char *bytes, size_t len)
{
    return len > 0 && bytes[0] == RECORD_HANDSHAKE;
}

int kr_eg_hello_parse(const char *bytes, size_t len, struct kr_eg_hello *ret)
{
    struct span in = {(const unsigned char *)bytes, len < KR_EG_HELLO_MAX ? len : KR_EG_HELLO_MAX};
    unsigned char message[KR_EG_HELLO_MAX];
    size_t have = 0, need = MESSAGE_HEAD;

    while (have < need) {
        struct span part;
        int r = take_record(&in, &part);

        if (r == 0 && len >= KR_EG_HELLO_MAX)
            return -EBADMSG;
        if (r <= 0)
            return r;
        memcpy(message + have, part.p, part.len); /* all of them together are shorter than what they came in */
        have += part.len;
        if (message[0] != MESSAGE_CLIENT_HELLO)
            return -EBADMSG;
        if (have >= MESSAGE_HEAD)
            need = MESSAGE_HEAD + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
        if (need > KR_EG_HELLO_MAX)
            return -EBADMSG;
    }
    *ret = (struct kr_eg_hello){.hidden = false};
    if (have != need || !read_hello((struct span){message + MESSAGE_HEAD, need - MESSAGE_HEAD}, ret))
        return -EBADMSG;
    return (int)(len < KR_EG_HELLO_MAX ? len : KR_EG_HELLO_MAX) - (int)in.len;
}

/* See wheel-maker.h. A writer of zip archives that knows nothing of the reader. */
#include "wheel-maker.h"
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#define ROOM (4u << 20)

static void put(struct made_wheel *w, const void *bytes, size_t len)
{
    if (w->len + len > ROOM)
        abort();
    if (len > 0)
        memcpy(w->data + w->len, bytes, len);
    w->len += len;
}

static void put_number(struct made_wheel *w, uint64_t value, unsigned bytes)
{
    for (; bytes > 0; bytes--, value >>= 8)
        put(w, &(unsigned char){(unsigned char)value}, 1);
}

void maker_put16(struct made_wheel *w, size_t at, uint16_t value)
{
    w->data[at] = (unsigned char)value;
    w->data[at + 1] = (unsigned char)(value >> 8);
}

void maker_put32(struct made_wheel *w, size_t at, uint32_t value)
{
    maker_put16(w, at, (uint16_t)value);
    maker_put16(w, at + 2, (uint16_t)(value >> 16));
}

static uint32_t get32(const struct made_wheel *w, size_t at)
{
    const unsigned char *p = w->data + at;

    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* What is known of an entry once it is packed. */
struct packed {
    struct made_entry e;
    unsigned char *data;
    size_t packed, name_len, len;
    uint32_t crc;
};

static void pack(struct packed *p)
{
    z_stream z = {0};

    p->len = p->e.len ? p->e.len : strlen(p->e.text);
    p->name_len = p->e.name_len ? p->e.name_len : strlen(p->e.name);
    p->crc = (uint32_t)crc32(0, (const unsigned char *)p->e.text, (uInt)p->len);
    p->data = malloc(p->len + 1024);
    p->packed = p->len;
    memcpy(p->data, p->e.text, p->len);
    if (p->e.stored)
        return;
    deflateInit2(&z, 9, Z_DEFLATED, -15, 9, 0);
    z.next_in = (unsigned char *)p->e.text;
    z.avail_in = (uInt)p->len;
    z.next_out = p->data;
    z.avail_out = (uInt)(p->len + 1024);
    deflate(&z, Z_FINISH);
    p->packed = z.total_out;
    deflateEnd(&z);
}

static uint16_t flags_of(const struct made_entry *e)
{
    return (uint16_t)((e->plain ? 0 : 0x800) | (e->streamed ? 8 : 0));
}

static void put_wide(struct made_wheel *w, const struct packed *p)
{
    put_number(w, 1, 2);
    put_number(w, 16, 2);
    put_number(w, p->len, 8);
    put_number(w, p->packed, 8);
}

static void put_local(struct made_wheel *w, const struct packed *p)
{
    bool wide = p->e.wide || p->e.local_wide;

    put(w, "PK\3\4", 4);
    put_number(w, wide ? 45 : 20, 2);
    put_number(w, flags_of(&p->e), 2);
    put_number(w, p->e.stored ? 0 : 8, 2);
    put_number(w, 0x58210000, 4);
    put_number(w, p->e.streamed ? 0 : p->crc, 4);
    put_number(w, wide ? 0xffffffff : p->e.streamed ? 0 : p->packed, 4);
    put_number(w, wide ? 0xffffffff : p->e.streamed ? 0 : p->len, 4);
    put_number(w, p->name_len, 2);
    put_number(w, wide ? 20 : 0, 2);
    put(w, p->e.name, p->name_len);
    if (wide)
        put_wide(w, p);
    put(w, p->data, p->packed);
    if (!p->e.streamed)
        return;
    put(w, "PK\7\10", 4);
    put_number(w, p->crc, 4);
    put_number(w, p->packed, 4);
    put_number(w, p->len, 4);
}

static void put_central(struct made_wheel *w, const struct packed *p, size_t local)
{
    put(w, "PK\1\2", 4);
    put_number(w, 0x0314, 2);
    put_number(w, p->e.wide ? 45 : 20, 2);
    put_number(w, flags_of(&p->e), 2);
    put_number(w, p->e.stored ? 0 : 8, 2);
    put_number(w, 0x58210000, 4);
    put_number(w, p->crc, 4);
    put_number(w, p->e.wide ? 0xffffffff : p->packed, 4);
    put_number(w, p->e.wide ? 0xffffffff : p->len, 4);
    put_number(w, p->name_len, 2);
    put_number(w, (p->e.wide ? 20u : 0u) + p->e.extra_len, 2);
    put_number(w, 0, 2);
    put_number(w, 0, 2);
    put_number(w, 0, 2);
    put_number(w, (uint64_t)(p->e.mode ? p->e.mode : 0100644) << 16, 4);
    put_number(w, local, 4);
    put(w, p->e.name, p->name_len);
    if (p->e.wide)
        put_wide(w, p);
    put(w, p->e.extra, p->e.extra_len);
}

static void put_end(struct made_wheel *w, bool end64)
{
    size_t size = w->end - w->directory;

    if (end64) {
        put(w, "PK\6\6", 4);
        put_number(w, 44, 8);
        put_number(w, 45, 2);
        put_number(w, 45, 2);
        put_number(w, 0, 8);
        put_number(w, w->count, 8);
        put_number(w, w->count, 8);
        put_number(w, size, 8);
        put_number(w, w->directory, 8);
        put(w, "PK\6\7", 4);
        put_number(w, 0, 4);
        put_number(w, w->end, 8);
        put_number(w, 1, 4);
        w->end = w->len;
    }
    put(w, "PK\5\6", 4);
    put_number(w, 0, 4);
    put_number(w, w->count, 2);
    put_number(w, w->count, 2);
    put_number(w, size, 4);
    put_number(w, w->directory, 4);
    put_number(w, 0, 2);
}

/* The lines of RECORD for all entries so far. */
static char *record_of(const struct packed *all, size_t count, const char *record)
{
    char *text = calloc(1, 64u << 10), *at = text;

    for (size_t i = 0; i < count; i++) {
        unsigned char hash[crypto_hash_sha256_BYTES];
        char digits[64];
        bool quoted = memchr(all[i].e.name, ',', all[i].name_len);

        if (all[i].e.unrecorded || (all[i].name_len > 0 && all[i].e.name[all[i].name_len - 1] == '/'))
            continue;
        crypto_hash_sha256(hash, (const unsigned char *)all[i].e.text, all[i].len);
        sodium_bin2base64(digits, sizeof digits, hash, sizeof hash, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
        at += sprintf(at, "%s%.*s%s,sha256=%s,%zu\n", quoted ? "\"" : "", (int)all[i].name_len, all[i].e.name,
                      quoted ? "\"" : "", digits, all[i].len);
    }
    sprintf(at, "%s,,\n", record);
    return text;
}

static void add(struct packed *all, size_t *count, const char *name, const char *text)
{
    if (text[0] == '\0')
        return;
    all[*count].e = (struct made_entry){.name = name, .text = text};
    pack(&all[(*count)++]);
}

static size_t pack_all(struct packed *all, size_t count, const struct made_entry *more)
{
    for (; more && more->name; more++) {
        all[count].e = *more;
        if (!more->text)
            all[count].e.text = "";
        pack(&all[count++]);
    }
    return count;
}

/* Entries, the directory and the end. */
static struct made_wheel *write_all(struct packed *all, size_t count, bool end64)
{
    struct made_wheel *w = calloc(1, sizeof *w);

    w->data = malloc(ROOM);
    w->count = count;
    for (size_t i = 0; i < count; i++) {
        w->local[i] = w->len;
        put_local(w, &all[i]);
    }
    w->directory = w->len;
    for (size_t i = 0; i < count; i++) {
        w->central[i] = w->len;
        put_central(w, &all[i], w->local[i]);
        free(all[i].data);
    }
    w->end = w->len;
    put_end(w, end64);
    return w;
}

static struct made_wheel *make(const char *info, struct packed *all, size_t count, const struct made_entry *more,
                               const struct made_texts *texts)
{
    static const char *const files[] = {"METADATA", "WHEEL", "entry_points.txt", "RECORD"};
    struct made_wheel *w;
    char names[4][128], *record;

    for (size_t i = 0; i < 4; i++)
        snprintf(names[i], sizeof names[i], "%s%s", info, files[i]);
    count = pack_all(all, count, more);
    add(all, &count, names[0],
        texts->metadata ? texts->metadata : "Metadata-Version: 2.1\nName: Good\nVersion: 1.0\n\nText\n");
    add(all, &count, names[1],
        texts->wheel ? texts->wheel : "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n");
    if (texts->points)
        add(all, &count, names[2], texts->points);
    record = record_of(all, count, names[3]);
    add(all, &count, names[3], texts->record ? texts->record : record);
    w = write_all(all, count, texts->end64);
    free(record);
    return w;
}

struct made_wheel *maker_make_bare(const struct made_entry *entries)
{
    struct packed all[MAKER_ENTRIES] = {0};

    return write_all(all, pack_all(all, 0, entries), false);
}

struct made_wheel *maker_make(const struct made_entry *more, const struct made_texts *texts)
{
    static const struct made_texts none;
    struct packed all[MAKER_ENTRIES] = {0};
    size_t count = 0;

    add(all, &count, "good/__init__.py", "VALUE = 1\n");
    add(all, &count, "good/more.py", "from good import VALUE\n");
    return make(MAKER_INFO, all, count, more, texts ? texts : &none);
}

struct made_wheel *maker_make_named(const char *name, const struct made_entry *more, const struct made_texts *texts)
{
    struct packed all[MAKER_ENTRIES] = {0};
    char info[100];

    snprintf(info, sizeof info, "%s-1.0.dist-info/", name);
    return make(info, all, 0, more, texts);
}

void maker_free(struct made_wheel *w)
{
    free(w->data);
    free(w);
}

void maker_insert(struct made_wheel *w, size_t at, const void *bytes, size_t len)
{
    if (w->len + len > ROOM)
        abort();
    memmove(w->data + at + len, w->data + at, w->len - at);
    memcpy(w->data + at, bytes, len);
    w->len += len;
    w->end += len;
    if (w->directory >= at) {
        w->directory += len;
        maker_put32(w, w->end + 16, (uint32_t)w->directory);
    }
    for (size_t i = 0; i < w->count; i++) {
        w->central[i] += w->central[i] >= at ? len : 0;
        if (w->local[i] >= at) {
            w->local[i] += len;
            maker_put32(w, w->central[i] + 42, get32(w, w->central[i] + 42) + (uint32_t)len);
        }
    }
}

int maker_file(const void *data, size_t len)
{
    int fd = memfd_create("wheel", MFD_CLOEXEC);

    if (fd < 0 || pwrite(fd, data, len, 0) != (ssize_t)len)
        abort();
    return fd;
}

const char *maker_sha256(const void *data, size_t len)
{
    static char text[65];
    unsigned char hash[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(hash, data, len);
    return sodium_bin2hex(text, sizeof text, hash, sizeof hash);
}

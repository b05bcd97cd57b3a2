/* Zip archives, strictly: APPNOTE.TXT 6.3 less everything in which two readers could differ. See zip_read.h. */
#include "zip_read.h"
#include "err.h"
#include "fd.h"
#include "path_list.h"
#include "utf8.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define LOCAL_SIZE 30u
#define CENTRAL_SIZE 46u
#define END_SIZE 22u
#define END64_SIZE 56u
#define LOCATOR_SIZE 20u
#define DESCRIPTOR_MAX 24u

#define FLAG_DEFLATE 0x0006u /* how hard it was compressed: says nothing to a reader */
#define FLAG_DESCRIPTOR 0x0008u
#define FLAG_UTF8 0x0800u
#define FLAGS_KNOWN (FLAG_DEFLATE | FLAG_DESCRIPTOR | FLAG_UTF8)
#define METHOD_STORED 0u
#define METHOD_DEFLATED 8u
#define VERSION_MAX 45u /* that of zip64 */
#define EXTRA_ZIP64 0x0001u
#define DOS_FOLDER 0x10u
#define RATIO_FREE (1u << 20) /* smaller files may be compressed as well as they are */
#define PIECE (64u << 10)

/* Extra fields that give a second name, a link's target or other contents: some readers follow them. */
static const uint16_t extras_refused[] = {0x000d, 0x0017, 0x6375, 0x7075, 0x756e, 0x9901};

/* ---- numbers ---- */

static uint16_t get16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get32(const unsigned char *p)
{
    return (uint32_t)get16(p) | (uint32_t)get16(p + 2) << 16;
}

static uint64_t get64(const unsigned char *p)
{
    return (uint64_t)get32(p) | (uint64_t)get32(p + 4) << 32;
}

/* ---- errors ---- */

static int broken(struct kr_err *err, const char *what)
{
    kr_err_set(err, KR_ERR_INVALID, 0, "the archive %s", what);
    return -EBADMSG;
}

const char *kr_zip_show(const char *name, size_t len, char out[KR_ZIP_SHOWN_ROOM])
{
    size_t n = 0;

    out[n++] = '"';
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        int k = kr_utf8_next((const unsigned char *)name + i, len - i, &c);
        bool fine = k > 0 && c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xa0) && c < 0x2000;

        if (n + (fine ? (size_t)k : 1) > KR_ZIP_SHOWN_ROOM - 5) {
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        memcpy(out + n, fine ? name + i : "?", fine ? (size_t)k : 1);
        n += fine ? (size_t)k : 1;
        i += k > 0 ? (size_t)k : 1;
    }
    out[n++] = '"';
    out[n] = '\0';
    return out;
}

static int bad_entry(struct kr_err *err, const char *name, size_t len, const char *what)
{
    char shown[KR_ZIP_SHOWN_ROOM];

    kr_err_set(err, KR_ERR_INVALID, 0, "the archive's entry %s %s", kr_zip_show(name, len, shown), what);
    return -EBADMSG;
}

/* Exactly these bytes of the file. */
static int read_at(const struct kr_zip *zip, void *to, size_t len, uint64_t at, struct kr_err *err)
{
    ssize_t n;

    if (at > zip->size || len > zip->size - at)
        return broken(err, "ends before what it says it has");
    n = kr_fd_read_at(zip->fd, to, len, at);
    if (n < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, (int)-n, "cannot read the archive");
    return (size_t)n == len ? 0 : broken(err, "has become shorter while it was read");
}

/* ---- the end ---- */

struct directory {
    uint64_t at, size, count;
    uint64_t behind; /* where it must end */
};

/* The zip64 end record; `d` has what the plain one says, whose numbers must be the same or all ones. */
static int read_end64(const struct kr_zip *zip, uint64_t locator_at, const unsigned char *locator, struct directory *d,
                      struct kr_err *err)
{
    unsigned char end[END64_SIZE];
    uint64_t count, size, at;
    int r;

    if (locator_at < END64_SIZE || get64(locator + 8) != locator_at - END64_SIZE || get32(locator + 4) != 0 ||
        get32(locator + 16) != 1)
        return broken(err, "has a zip64 locator that leads elsewhere");
    if ((r = read_at(zip, end, sizeof end, locator_at - END64_SIZE, err)) < 0)
        return r;
    if (memcmp(end, "PK\6\6", 4) != 0 || get64(end + 4) != END64_SIZE - 12 || get32(end + 16) != 0 ||
        get32(end + 20) != 0 || get64(end + 24) != get64(end + 32))
        return broken(err, "has a broken zip64 end record");
    count = get64(end + 32);
    size = get64(end + 40);
    at = get64(end + 48);
    if ((d->count != 0xffff && d->count != count) || (d->size != 0xffffffff && d->size != size) ||
        (d->at != 0xffffffff && d->at != at))
        return broken(err, "has two end records that differ");
    *d = (struct directory){at, size, count, locator_at - END64_SIZE};
    return 0;
}

static int read_end(const struct kr_zip *zip, struct directory *d, struct kr_err *err)
{
    unsigned char end[END_SIZE], locator[LOCATOR_SIZE];
    int r;

    if (zip->size < END_SIZE)
        return broken(err, "is too short to be a zip archive");
    if ((r = read_at(zip, end, sizeof end, zip->size - END_SIZE, err)) < 0)
        return r;
    if (memcmp(end, "PK\5\6", 4) != 0 || get16(end + 20) != 0)
        return broken(err, "does not end with the record that ends a zip archive");
    if (get16(end + 4) != 0 || get16(end + 6) != 0 || get16(end + 8) != get16(end + 10))
        return broken(err, "is one of several parts");
    *d = (struct directory){get32(end + 16), get32(end + 12), get16(end + 10), zip->size - END_SIZE};
    if (zip->size >= END_SIZE + LOCATOR_SIZE) {
        uint64_t at = zip->size - END_SIZE - LOCATOR_SIZE;

        if ((r = read_at(zip, locator, sizeof locator, at, err)) < 0)
            return r;
        if (memcmp(locator, "PK\6\7", 4) == 0 && (r = read_end64(zip, at, locator, d, err)) < 0)
            return r;
    }
    if (d->at > d->behind || d->size != d->behind - d->at)
        return broken(err, "has bytes between its directory and its end");
    return 0;
}

/* ---- extra fields ---- */

struct sizes {
    uint64_t bytes, packed, header;
};

/* Walks the extra fields. Those of `want` that are all ones are taken from the zip64 field, which must have these and
 * no others; in an entry's own header it may also say both sizes once more (Bazel writes such). NULL or what is
 * wrong. */
static const char *read_extras(const unsigned char *at, size_t len, bool local, struct sizes *want)
{
    bool seen = false;
    uint64_t *members[] = {&want->bytes, &want->packed, &want->header};
    unsigned needed = 0;

    for (unsigned i = 0; i < 3; i++)
        needed += *members[i] == 0xffffffff;
    while (len > 0) {
        uint16_t id, size;

        if (len < 4 || (size = get16(at + 2)) > len - 4)
            return "has broken extra fields";
        id = get16(at);
        for (size_t i = 0; i < sizeof extras_refused / sizeof *extras_refused; i++)
            if (id == extras_refused[i])
                return "has an extra field that other readers take for its name or contents";
        if (id == EXTRA_ZIP64) {
            const unsigned char *p = at + 4;

            bool again = local && needed == 0 && size == 16 && get64(p) == want->bytes && get64(p + 8) == want->packed;

            if (seen || (size != 8 * needed && !again))
                return "has a zip64 field that does not fit";
            seen = true;
            for (unsigned i = 0; i < 3; i++)
                if (*members[i] == 0xffffffff) {
                    *members[i] = get64(p);
                    p += 8;
                }
        }
        at += 4u + size;
        len -= 4u + size;
    }
    return seen || needed == 0 ? NULL : "lacks its zip64 field";
}

/* ---- the directory ---- */

struct reading {
    struct kr_zip *zip;
    const struct kr_wheel_limits *limits;
    unsigned char *directory;
    size_t size;
    char *names; /* where the next name goes */
    struct kr_err *err;
};

/* NULL or what is wrong with the kind of file that an entry says it is. */
static const char *kind_flaw(const unsigned char *head, bool folder, bool *ret_executable)
{
    uint32_t attributes = get32(head + 38);
    uint32_t mode = attributes >> 16, kind = mode & S_IFMT;

    if (mode & (S_ISUID | S_ISGID | S_ISVTX))
        return "is setuid, setgid or sticky";
    if (kind == S_IFLNK)
        return "is a symbolic link";
    if (kind != 0 && kind != S_IFREG && kind != S_IFDIR)
        return "is a device, a pipe or a socket";
    if ((kind == S_IFDIR) != folder && kind != 0)
        return "is a folder by its name or by its mode, but not by both";
    if ((attributes & DOS_FOLDER) && !folder)
        return "is a folder by its attributes, but not by its name";
    *ret_executable = mode & 0111;
    return NULL;
}

/* NULL or what is wrong with flags, method, version and sizes. */
static const char *form_flaw(const struct kr_wheel_limits *limits, const struct kr_zip_entry *e,
                             const unsigned char *head)
{
    uint16_t flags = get16(head + 8);

    if (flags & 1u)
        return "is encrypted";
    if (flags & ~FLAGS_KNOWN)
        return "has flags that are not known";
    if (e->method != METHOD_STORED && e->method != METHOD_DEFLATED)
        return "is compressed in a way other than deflate";
    if ((get16(head + 6) & 0xff) > VERSION_MAX)
        return "needs a later version of the format";
    if (get16(head + 34) != 0)
        return "is in another part of the archive";
    if (get16(head + 32) != 0)
        return "has a comment";
    if (e->method == METHOD_STORED && e->packed != e->bytes)
        return "is stored with two different sizes";
    if (e->folder && (e->bytes != 0 || e->crc != 0))
        return "is a folder with contents";
    if (e->bytes > RATIO_FREE && e->bytes / limits->ratio_max > e->packed)
        return "claims to be compressed better than is possible";
    return NULL;
}

static const char *name_flaw(const char *name, size_t len, uint16_t flags)
{
    for (size_t i = 0; i < len && !(flags & FLAG_UTF8); i++)
        if ((unsigned char)name[i] >= 0x80)
            return "has a name that is not ASCII and not marked as UTF-8";
    return kr_path_flaw(name, len);
}

/* Reads the entry at *at of the directory. */
static int read_entry(struct reading *in, size_t *at, struct kr_zip_entry *e)
{
    const unsigned char *head = in->directory + *at;
    size_t left = in->size - *at, len, extra, full;
    struct sizes sizes;
    const char *name, *flaw;

    if (left < CENTRAL_SIZE || memcmp(head, "PK\1\2", 4) != 0)
        return broken(in->err, "has a broken directory");
    full = len = get16(head + 28);
    extra = get16(head + 30);
    name = (const char *)head + CENTRAL_SIZE;
    if (left - CENTRAL_SIZE < len + extra + get16(head + 32))
        return broken(in->err, "has a broken directory");
    sizes = (struct sizes){get32(head + 24), get32(head + 20), get32(head + 42)};
    if ((flaw = read_extras(head + CENTRAL_SIZE + len, extra, false, &sizes)))
        return bad_entry(in->err, name, full, flaw);
    if (len > 1 && name[len - 1] == '/')
        len--;
    e->folder = len < full;
    if ((flaw = name_flaw(name, len, get16(head + 8))) || (flaw = kind_flaw(head, e->folder, &e->executable)))
        return bad_entry(in->err, name, full, flaw);
    e->method = get16(head + 10);
    e->crc = get32(head + 16);
    e->bytes = sizes.bytes;
    e->packed = sizes.packed;
    e->header = sizes.header;
    if ((flaw = form_flaw(in->limits, e, head)))
        return bad_entry(in->err, name, full, flaw);
    memcpy(in->names, name, len);
    in->names[len] = '\0';
    e->name = in->names;
    in->names += len + 1;
    *at += CENTRAL_SIZE + full + extra + get16(head + 32);
    return 0;
}

static int too_large(struct kr_err *err, const char *what, uint64_t has, uint64_t max)
{
    kr_err_set(err, KR_ERR_LIMIT, 0, "the archive has %llu %s, and %llu are taken", (unsigned long long)has, what,
               (unsigned long long)max);
    return -EFBIG;
}

static int within_limits(const struct reading *in, const struct kr_zip_entry *e)
{
    char shown[KR_ZIP_SHOWN_ROOM];

    if (e->bytes > in->limits->file_max) {
        kr_err_set(in->err, KR_ERR_LIMIT, 0, "the archive's entry %s has %llu bytes, and %llu are taken",
                   kr_zip_show(e->name, strlen(e->name), shown), (unsigned long long)e->bytes,
                   (unsigned long long)in->limits->file_max);
        return -EFBIG;
    }
    if (e->bytes > in->limits->bytes_max - in->zip->bytes)
        return too_large(in->err, "bytes or more when unpacked", in->zip->bytes + e->bytes, in->limits->bytes_max);
    return 0;
}

static int read_directory(struct reading *in, const struct directory *d)
{
    struct kr_zip *zip = in->zip;
    size_t at = 0;
    int r;

    if (d->count > in->limits->files_max)
        return too_large(in->err, "files", d->count, in->limits->files_max);
    if (d->size > KR_ZIP_DIRECTORY_MAX)
        return too_large(in->err, "bytes of directory", d->size, KR_ZIP_DIRECTORY_MAX);
    if (d->count * CENTRAL_SIZE > d->size)
        return broken(in->err, "has a broken directory");
    in->size = (size_t)d->size;
    in->directory = malloc(in->size + 1);
    zip->entries = calloc((size_t)d->count + 1, sizeof *zip->entries);
    zip->names = in->names = malloc(in->size + 1); /* a name and its NUL take less than its entry */
    if (!in->directory || !zip->entries || !zip->names)
        return kr_err_set(in->err, KR_ERR_SYSTEM, ENOMEM, "an archive's directory");
    if ((r = read_at(zip, in->directory, in->size, d->at, in->err)) < 0)
        return r;
    for (; zip->count < d->count; zip->count++) {
        struct kr_zip_entry *e = &zip->entries[zip->count];

        if ((r = read_entry(in, &at, e)) < 0 || (r = within_limits(in, e)) < 0)
            return r;
        zip->bytes += e->bytes;
    }
    return at == in->size ? 0 : broken(in->err, "has more in its directory than it says");
}

/* ---- the entries' own headers ---- */

/* The numbers behind the data of an entry that was written as a stream: how many bytes they are, or 0: wrong. Their
 * form is known by where the next entry begins. */
static size_t descriptor_size(const unsigned char *p, size_t len, const struct kr_zip_entry *e)
{
    size_t start = len == 16 || len == 24 ? 4 : 0;
    bool wide = len >= 20;

    if (len != 12 && len != 16 && len != 20 && len != 24)
        return 0;
    if (start && memcmp(p, "PK\7\10", 4) != 0)
        return 0;
    p += start;
    if (get32(p) != e->crc)
        return 0;
    if (wide ? get64(p + 4) != e->packed || get64(p + 12) != e->bytes
             : get32(p + 4) != e->packed || get32(p + 8) != e->bytes)
        return 0;
    return len;
}

/* NULL if this header says of the entry what the directory says. */
static const char *local_flaw(const unsigned char *head, const unsigned char *rest, const struct kr_zip_entry *e,
                              bool *ret_descriptor)
{
    size_t len = get16(head + 26), name_len = strlen(e->name);
    struct sizes sizes = {get32(head + 22), get32(head + 18), 0};
    bool descriptor = get16(head + 6) & FLAG_DESCRIPTOR;
    const char *flaw;

    *ret_descriptor = descriptor;
    if (get16(head + 6) & ~FLAGS_KNOWN || get16(head + 8) != e->method)
        return "has two headers that differ in how it is packed";
    if (len != name_len + e->folder || memcmp(rest, e->name, name_len) != 0 || (e->folder && rest[name_len] != '/'))
        return "has another name in its own header";
    for (size_t i = 0; i < name_len && !(get16(head + 6) & FLAG_UTF8); i++)
        if ((unsigned char)e->name[i] >= 0x80)
            return "has a name that its own header does not mark as UTF-8";
    if ((flaw = read_extras(rest + len, get16(head + 28), true, &sizes)))
        return flaw;
    if (descriptor && e->method == METHOD_STORED && e->bytes > 0)
        return "is stored as a stream: where it ends is not said before its data";
    if (descriptor && get32(head + 14) == 0 && sizes.bytes == 0 && sizes.packed == 0)
        return NULL; /* they follow the data */
    if (get32(head + 14) != e->crc || sizes.bytes != e->bytes || sizes.packed != e->packed)
        return "has another size or checksum in its own header";
    return NULL;
}

/* The header of the entry whose bytes must end at `end`. */
static int read_local(struct kr_zip *zip, struct kr_zip_entry *e, uint64_t end, struct kr_err *err)
{
    unsigned char head[LOCAL_SIZE + KR_ZIP_NAME_MAX + 1 + 1024], tail[DESCRIPTOR_MAX];
    size_t more;
    bool descriptor;
    const char *flaw;
    uint64_t behind;
    int r;

    if ((r = read_at(zip, head, LOCAL_SIZE, e->header, err)) < 0)
        return r;
    more = (size_t)get16(head + 26) + get16(head + 28);
    if (memcmp(head, "PK\3\4", 4) != 0 || more > sizeof head - LOCAL_SIZE)
        return bad_entry(err, e->name, strlen(e->name), "has no header of its own where the directory says");
    if ((r = read_at(zip, head + LOCAL_SIZE, more, e->header + LOCAL_SIZE, err)) < 0)
        return r;
    if ((flaw = local_flaw(head, head + LOCAL_SIZE, e, &descriptor)))
        return bad_entry(err, e->name, strlen(e->name), flaw);
    e->data = e->header + LOCAL_SIZE + more;
    if (e->data > end || e->packed > end - e->data)
        return bad_entry(err, e->name, strlen(e->name), "overlaps with what follows it");
    behind = end - e->data - e->packed;
    if (!descriptor && behind != 0)
        return bad_entry(err, e->name, strlen(e->name), "is followed by bytes that belong to no entry");
    if (!descriptor)
        return 0;
    if (behind > sizeof tail)
        return bad_entry(err, e->name, strlen(e->name), "is followed by bytes that belong to no entry");
    if ((r = read_at(zip, tail, (size_t)behind, e->data + e->packed, err)) < 0)
        return r;
    if (descriptor_size(tail, (size_t)behind, e) == 0)
        return bad_entry(err, e->name, strlen(e->name), "has another size or checksum behind its data");
    return 0;
}

static int by_header(const void *a, const void *b)
{
    const struct kr_zip_entry *const *x = a, *const *y = b;

    return (*x)->header < (*y)->header ? -1 : (*x)->header > (*y)->header;
}

/* Every entry's header, and that the entries lie one behind the other from the first byte to the directory. */
static int read_locals(struct kr_zip *zip, uint64_t directory_at, struct kr_err *err)
{
    cleanup_free struct kr_zip_entry **order = calloc(zip->count + 1u, sizeof(void *));
    int r = 0;

    if (!order)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "an archive's entries");
    for (uint32_t i = 0; i < zip->count; i++)
        order[i] = &zip->entries[i];
    qsort(order, zip->count, sizeof(void *), by_header);
    if (zip->count > 0 ? order[0]->header != 0 : directory_at != 0)
        return broken(err, "does not begin with its first entry");
    for (uint32_t i = 0; i < zip->count && r == 0; i++) {
        uint64_t end = i + 1 < zip->count ? order[i + 1]->header : directory_at;

        if (end > directory_at)
            return bad_entry(err, order[i + 1]->name, strlen(order[i + 1]->name), "lies behind the directory");
        r = read_local(zip, order[i], end, err);
    }
    return r;
}

static int check_names(const struct kr_zip *zip, struct kr_err *err)
{
    cleanup_free struct kr_path_item *items = calloc(zip->count + 1u, sizeof *items);

    if (!items)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "an archive's names");
    for (uint32_t i = 0; i < zip->count; i++)
        items[i] = (struct kr_path_item){zip->entries[i].name, zip->entries[i].folder};
    return kr_path_list_check(items, zip->count, err);
}

int kr_zip_open(int fd, const struct kr_wheel_limits *limits, struct kr_zip *zip, struct kr_err *err)
{
    struct reading in = {.zip = zip, .limits = limits, .err = err};
    struct directory d;
    struct stat st;
    int r;

    *zip = (struct kr_zip){.fd = fd};
    if (fstat(fd, &st) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "cannot read the archive");
    zip->size = (uint64_t)st.st_size;
    if (zip->size > limits->archive_max)
        return too_large(err, "bytes", zip->size, limits->archive_max);
    if ((r = read_end(zip, &d, err)) < 0)
        return r;
    r = read_directory(&in, &d);
    free(in.directory);
    if (r < 0 || (r = read_locals(zip, d.at, err)) < 0)
        return r;
    return check_names(zip, err);
}

void kr_zip_done(struct kr_zip *zip)
{
    free(zip->entries);
    free(zip->names);
    zip->entries = NULL;
    zip->names = NULL;
    zip->count = 0;
}

/* ---- contents ---- */

struct contents {
    const struct kr_zip *zip;
    const struct kr_zip_entry *e;
    kr_zip_sink *sink;
    void *data;
    struct kr_err *err;
    uint64_t out;
    uint32_t crc;
    unsigned char packed[PIECE], piece[PIECE];
};

static int hand_out(struct contents *c, const unsigned char *bytes, size_t len)
{
    if (len > c->e->bytes - c->out)
        return bad_entry(c->err, c->e->name, strlen(c->e->name), "has more bytes than it says");
    c->out += len;
    c->crc = (uint32_t)crc32(c->crc, bytes, (uInt)len);
    return c->sink(c->data, bytes, len);
}

/* Hands out what these bytes inflate to; *ret_end: the stream has ended. */
static int inflate_piece(struct contents *c, z_stream *z, size_t len, bool *ret_end)
{
    int r, done = Z_OK;

    z->next_in = c->packed;
    z->avail_in = (uInt)len;
    do {
        z->next_out = c->piece;
        z->avail_out = PIECE;
        done = inflate(z, Z_NO_FLUSH);
        if (done == Z_MEM_ERROR)
            return kr_err_set(c->err, KR_ERR_SYSTEM, ENOMEM, "inflating");
        if (done != Z_OK && done != Z_STREAM_END && done != Z_BUF_ERROR)
            return bad_entry(c->err, c->e->name, strlen(c->e->name), "has broken compressed data");
        if ((r = hand_out(c, c->piece, PIECE - z->avail_out)) < 0)
            return r;
    } while (done != Z_STREAM_END && z->avail_out == 0);
    *ret_end = done == Z_STREAM_END;
    if (z->avail_in > 0)
        return bad_entry(c->err, c->e->name, strlen(c->e->name), "has bytes behind its compressed data");
    return 0;
}

static int read_contents(struct contents *c, z_stream *z)
{
    bool ended = !z;
    int r = 0;

    for (uint64_t at = 0; at < c->e->packed && r == 0;) {
        size_t n = c->e->packed - at < PIECE ? (size_t)(c->e->packed - at) : PIECE;

        if (z && ended)
            return bad_entry(c->err, c->e->name, strlen(c->e->name), "has bytes behind its compressed data");
        if ((r = read_at(c->zip, c->packed, n, c->e->data + at, c->err)) < 0)
            return r;
        r = z ? inflate_piece(c, z, n, &ended) : hand_out(c, c->packed, n);
        at += n;
    }
    if (r < 0)
        return r;
    if (!ended || c->out != c->e->bytes)
        return bad_entry(c->err, c->e->name, strlen(c->e->name), "has fewer bytes than it says");
    if (c->crc != c->e->crc)
        return bad_entry(c->err, c->e->name, strlen(c->e->name), "has a wrong checksum (CRC-32)");
    return 0;
}

int kr_zip_read(const struct kr_zip *zip, const struct kr_zip_entry *e, kr_zip_sink *sink, void *data,
                struct kr_err *err)
{
    cleanup_free struct contents *c = malloc(sizeof *c);
    z_stream z = {0};
    int r;

    if (!c)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "reading an archive");
    c->zip = zip;
    c->e = e;
    c->sink = sink;
    c->data = data;
    c->err = err;
    c->out = 0;
    c->crc = 0;
    if (e->method == METHOD_STORED)
        return read_contents(c, NULL);
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "inflating");
    r = read_contents(c, &z);
    inflateEnd(&z);
    return r;
}

struct collected {
    char *text;
    size_t len;
};

static int collect(void *data, const void *bytes, size_t len)
{
    struct collected *to = data;

    memcpy(to->text + to->len, bytes, len);
    to->len += len;
    return 0;
}

int kr_zip_read_all(const struct kr_zip *zip, const struct kr_zip_entry *e, size_t max, char **ret_text,
                    size_t *ret_len, struct kr_err *err)
{
    cleanup_free char *text = NULL;
    struct collected to = {0};
    char shown[KR_ZIP_SHOWN_ROOM];
    int r;

    if (e->bytes > max) {
        kr_err_set(err, KR_ERR_LIMIT, 0, "the archive's entry %s has %llu bytes, and %zu are taken",
                   kr_zip_show(e->name, strlen(e->name), shown), (unsigned long long)e->bytes, max);
        return -EFBIG;
    }
    text = to.text = malloc((size_t)e->bytes + 1);
    if (!text)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "reading an archive");
    if ((r = kr_zip_read(zip, e, collect, &to, err)) < 0)
        return r;
    text[to.len] = '\0';
    *ret_text = steal_ptr(&text);
    *ret_len = to.len;
    return 0;
}

/* Bytecode beside the sources of an unpacked wheel. See package_store.h.
 *
 * The archive was made by our own compiler in a cell in which no code of a wheel ran; it is read as strictly as a wheel
 * all the same. What is taken is bytecode of sources that the wheel has, and nothing of the wheel is replaced. Files
 * are complete and on the disk before they get their names: an interpreter that finds half of one would fail. */
#include "err.h"
#include "fd.h"
#include "package_store_internal.h"
#include "zip_read.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE "__pycache__/"
#define HEAD_SIZE 16u
#define UNCHECKED 1u /* PEP 552: valid by a hash of the source which is not looked at again */

#define TIMES_SOURCE 4u /* bytecode of a wheel may have so many times its bytes, */
#define MORE (1u << 20) /* and these */

static const struct kr_wheel_limits most = {
    .archive_max = 1u << 30, .bytes_max = 2ull << 30, .file_max = 64u << 20, .files_max = 100000, .ratio_max = 1100};

/* A few lines can compile to gigabytes, which neither a sandbox's limit nor the size of the store would count. */
static struct kr_wheel_limits limits_of(const struct kr_package_facts *facts)
{
    struct kr_wheel_limits l = most;

    if (facts->bytes < l.bytes_max / TIMES_SOURCE - MORE)
        l.bytes_max = TIMES_SOURCE * facts->bytes + MORE;
    return l;
}

static int refuse(struct kr_err *err, const char *name, const char *what)
{
    char shown[KR_ZIP_SHOWN_ROOM];

    kr_err_set(err, KR_ERR_INVALID, 0, "the bytecode %s %s", kr_zip_show(name, strlen(name), shown), what);
    return -EINVAL;
}

/* "pkg/__pycache__/mod.cpython-311.pyc" is of "pkg/mod.py". */
static bool source_of(const char *name, char source[KR_ZIP_NAME_MAX + 1])
{
    const char *slash = strrchr(name, '/'), *file = slash ? slash + 1 : name, *tag;
    size_t folder = (size_t)(file - name), cache = strlen(CACHE), len = strlen(file);

    if (folder < cache || strncmp(file - cache, CACHE, cache) != 0 || (folder > cache && file[-(long)cache - 1] != '/'))
        return false;
    if (len <= 4 || strcmp(file + len - 4, ".pyc") != 0)
        return false;
    for (tag = file + len - 4; tag > file && tag[-1] != '.'; tag--)
        continue;
    if (tag - file < 2 || strncmp(tag, "cpython-", 8) != 0 || strspn(tag + 8, "0123456789") != strlen(tag) - 8 - 4)
        return false;
    snprintf(source, KR_ZIP_NAME_MAX + 1, "%.*s%.*s.py", (int)(folder - cache), name, (int)(tag - 1 - file), file);
    return true;
}

struct writing {
    int fd;
    size_t head_len;
    unsigned char head[HEAD_SIZE];
};

static int take_piece(void *data, const void *bytes, size_t len)
{
    struct writing *wr = data;
    size_t n = HEAD_SIZE - wr->head_len < len ? HEAD_SIZE - wr->head_len : len;

    memcpy(wr->head + wr->head_len, bytes, n);
    wr->head_len += n;
    return kr_fd_write_all(wr->fd, bytes, len);
}

/* Writes one file into `tmp` under its number. */
static int write_one(const struct kr_zip *zip, uint32_t number, int site, int tmp, struct kr_err *err)
{
    const struct kr_zip_entry *e = &zip->entries[number];
    char source[KR_ZIP_NAME_MAX + 1], name[16];
    struct writing wr = {.fd = -1};
    cleanup_fd int fd = -1;
    struct stat st;
    int r;

    if (e->folder || !source_of(e->name, source))
        return refuse(err, e->name, "is not named as bytecode");
    if (fstatat(site, source, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return refuse(err, e->name, "belongs to no source of the wheel");
    snprintf(name, sizeof name, "%u", number);
    wr.fd = fd = openat(tmp, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return kr_err_set_disk(err, errno, "keep bytecode");
    if ((r = kr_zip_read(zip, e, take_piece, &wr, err)) < 0)
        return r;
    if (wr.head_len < HEAD_SIZE || wr.head[4] != UNCHECKED || wr.head[5] || wr.head[6] || wr.head[7])
        return refuse(err, e->name, "is not bytecode of the unchecked form");
    return fchmod(fd, 0644) < 0 ? kr_err_set_disk(err, errno, "keep bytecode") : 0;
}

/* Gives one file its name; one that is there stays. */
static int place_one(const char *path, uint32_t number, int site, int tmp)
{
    char name[16], folder[KR_ZIP_NAME_MAX + 1];
    cleanup_fd int made = -1;

    snprintf(name, sizeof name, "%u", number);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    made = kr_package_make_folder(site, folder, 0755);
    if (made < 0)
        return made;
    return renameat2(tmp, name, site, path, RENAME_NOREPLACE) < 0 && errno != EEXIST ? -errno : 0;
}

static int add_files(const struct kr_zip *zip, int site, int tmp, struct kr_err *err)
{
    int r = 0;

    for (uint32_t i = 0; i < zip->count && r == 0; i++)
        r = write_one(zip, i, site, tmp, err);
    if (r < 0)
        return r;
    if (syncfs(tmp) < 0)
        return kr_err_set_disk(err, errno, "keep bytecode");
    for (uint32_t i = 0; i < zip->count && r == 0; i++)
        r = place_one(zip->entries[i].name, i, site, tmp);
    return r < 0 ? kr_err_set_disk(err, r, "keep bytecode") : 0;
}

/* By way of a folder in tmp/, which a sweep clears if this process is killed. */
static int add_through(struct kr_package_store *s, const struct kr_zip *zip, int site, struct kr_err *err)
{
    cleanup_fd int tmp = -1;
    char name[32];
    int r;

    snprintf(name, sizeof name, ".bytecode-%08x", randombytes_random());
    if (mkdirat(s->tmp, name, 0700) < 0 || (tmp = kr_package_open_folder(s->tmp, name)) < 0)
        return kr_err_set_disk(err, tmp < -1 ? tmp : errno, "keep bytecode");
    r = flock(tmp, LOCK_EX | LOCK_NB) < 0 ? kr_err_set(err, KR_ERR_BUSY, EAGAIN, "the store is being cleared")
                                          : add_files(zip, site, tmp, err);
    kr_package_remove(s->tmp, name);
    return r;
}

int kr_package_store_add_bytecode(struct kr_package_store *s, const char *key, int fd, struct kr_err *err)
{
    cleanup_fd int folder = kr_package_key_valid(key) ? kr_package_open_folder(s->store, key) : -ENOENT;
    cleanup_fd int site = folder < 0 ? folder : kr_package_open_folder(folder, "site");
    struct kr_zip zip = {0};
    struct kr_package_facts facts;
    struct kr_wheel_limits limits;
    int r;

    if (site < 0)
        return kr_err_set(err, site == -ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_SYSTEM, -site, "a folder of the store");
    if ((r = kr_package_store_facts(s, key, &facts)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "what a folder of the store is");
    limits = limits_of(&facts);
    r = kr_zip_open(fd, &limits, &zip, err);
    if (r == 0)
        r = add_through(s, &zip, site, err);
    kr_zip_done(&zip);
    return r;
}

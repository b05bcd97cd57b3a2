/* Fuzzes the reader of archives and wheels. What must hold: a wheel that opens has no path that leaves its folder, and
 * its entries' sizes are within the limits; unpacking what opened ends, with an error or with files beneath the folder.
 *
 * An input is an archive; its name is always the same. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-wheel"
#include "err.h"
#include "replay.h"
#include "wheel_internal.h"
#include <sys/mman.h>

#define MAX (1u << 20)

static const struct kr_wheel_limits limits = {
    .archive_max = MAX, .bytes_max = 4 * MAX, .file_max = 2 * MAX, .files_max = 200, .ratio_max = 1100};

static int count_bytes(void *data, const void *bytes, size_t len)
{
    uint64_t *count = data;

    (void)bytes;
    *count += len;
    return 0;
}

static void inspect_path(const char *path)
{
    must(path[0] != '/' && path[0] != '\0' && !strstr(path, "//"), "a path is relative and has no empty part");
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        must(strncmp(part, "../", 3) != 0 && strcmp(part, "..") != 0, "a path goes down alone");
    }
}

static void inspect(const struct kr_wheel *w)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < w->file_count; i++) {
        const struct kr_zip_entry *e = w->files[i].entry;
        uint64_t bytes = 0;
        struct kr_err err;

        inspect_path(e->name);
        if (w->files[i].path)
            inspect_path(w->files[i].path);
        must(e->bytes <= limits.file_max && e->data + e->packed <= w->zip.size, "an entry lies within the archive");
        if (kr_zip_read(&w->zip, e, count_bytes, &bytes, &err) == 0)
            must(bytes == e->bytes, "an entry has the size that it says");
        must(bytes <= e->bytes, "an entry hands out no more than it says");
        sum += e->bytes;
    }
    must(sum == kr_wheel_bytes(w) && sum <= limits.bytes_max, "the sum is right");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("wheel", MFD_CLOEXEC);
    struct kr_wheel *w;
    struct kr_err err;

    if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    if (kr_wheel_open(fd, "good-1.0-py3-none-any.whl", &limits, &w, &err) == 0) {
        inspect(w);
        kr_wheel_free(w);
    } else {
        must(err.msg[0] != '\0' && err.kind != KR_ERR_NONE, "a refusal says why");
    }
    close(fd);
    return 0;
}

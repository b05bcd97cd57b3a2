/* Whether the file of a log is damaged, for `krait verify`. Changes nothing, unlike the scan of a server
 * (runlog_file.c), and works beside one: a record that is cut off at the end is being written, or was when its writer
 * was killed. */
#include "fd.h"
#include "runlog_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX_BYTES (256u << 20) /* a live log has 64 MiB (runlog.h), and one event more */
#define RECORD_HEAD 32u

static int check_records(const char *data, size_t len, uint64_t *ret_at)
{
    static const char zeros[RECORD_HEAD];
    struct rl_record rec;
    uint64_t last = 0;
    size_t at = RL_FILE_START;
    int r;

    if (len < RL_FILE_START)
        return 0;
    *ret_at = 0;
    if (memcmp(data, "kraitlog", 8) != 0)
        return -EBADMSG;
    while ((r = rl_record_read(data + at, len - at, true, &rec)) > 0) {
        *ret_at = at;
        if (rec.first != last + 1)
            return -EBADMSG;
        last = rec.seq;
        at += rec.size;
    }
    *ret_at = at;
    if (r < 0 && len - at >= RECORD_HEAD && memcmp(data + at, zeros, RECORD_HEAD) == 0)
        return 0; /* a power cut: the length was written, the bytes were not */
    return r;
}

int kr_runlog_file_check(int dirfd, const char *name, uint64_t *ret_at)
{
    cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    cleanup_free char *data = NULL;
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    *ret_at = 0;
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)FILE_MAX_BYTES)
        return -EBADMSG;
    data = malloc((size_t)st.st_size + 1);
    if (!data)
        return -ENOMEM;
    n = kr_fd_read_at(fd, data, (size_t)st.st_size, 0);
    return n < 0 ? (int)n : check_records(data, (size_t)n, ret_at);
}

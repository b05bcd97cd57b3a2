/* Writes a file of a workspace as an upload does: for the tests of src/files. */
#pragma once
#include "files.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* 0 or -errno with e. */
static inline int write_file(int dir, const char *path, const void *data, size_t len, struct kr_err *e)
{
    struct kr_files_upload *u = NULL;
    int r = kr_files_upload_begin(dir, path, len, &u, e);

    if (r < 0)
        return r;
    r = kr_files_upload_write(u, data, len, e);
    if (r < 0) {
        kr_files_upload_abort(u);
        return r;
    }
    return kr_files_upload_commit(u, e);
}

/* As a program in the workspace does. */
static inline bool append_plainly(int ws, const char *path, const char *text)
{
    int fd = openat(ws, path, O_WRONLY | O_APPEND | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    close(fd);
    return good;
}

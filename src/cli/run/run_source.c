/* Finding the program: -c CODE, stdin or a file.
 *
 * Called by cmd_run.c before anything is started, with the rights of the caller. Invariant: sys.argv is
 * what python3 would give; __file__ is a path inside the sandbox that shows the same text: the file itself when it
 * lies in the workspace folder, else a copy in the throw-away workspace, or in /tmp when the workspace is a folder of
 * the host that must not be littered. */
#include "run_source.h"
#include "buf.h"
#include "fd.h"
#include "utf8.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODE_MAX (12u << 20) /* leaves room for JSON's escapes within a frame */

static int read_fd(int fd, const char *name, struct kr_buf *buf, struct kr_err *err)
{
    char chunk[65536];
    ssize_t n;

    while ((n = read(fd, chunk, sizeof chunk)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, errno, "cannot read \"%.100s\"", name);
        if (kr_buf_add(buf, chunk, (size_t)n) < 0)
            return kr_err_set(err, KR_ERR_INVALID, 0, "\"%.100s\" is larger than %u MiB", name, CODE_MAX >> 20);
    }
    return 0;
}

static int read_file(const char *path, struct kr_buf *buf, struct kr_err *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return kr_err_set(err, errno == ENOENT ? KR_ERR_INVALID : KR_ERR_SYSTEM, errno, "can't open file \"%.100s\"",
                          path);
    return read_fd(fd, path, buf, err);
}

/* Code travels as JSON text. */
static int check_text(const char *name, const struct kr_buf *buf, struct kr_err *err)
{
    const unsigned char *p = (const unsigned char *)kr_buf_str(buf), *end = p + buf->len;

    while (p < end) {
        int n = kr_utf8_next(p, (size_t)(end - p), NULL);

        if (n <= 0)
            return kr_err_set(err, KR_ERR_INVALID, 0, "\"%.100s\" is not UTF-8 (byte %zu)", name,
                              (size_t)(p - (const unsigned char *)buf->data));
        p += n;
    }
    return 0;
}

/* Where a file is seen inside. */
static int set_location(struct kr_run_source *s, const char *path, const char *workspace, const char *copies,
                        struct kr_err *err)
{
    cleanup_free char *real = realpath(path, NULL), *copy = strdup(path);
    size_t len = workspace ? strlen(workspace) : 0;
    int r;

    if (!real || !copy)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "\"%.100s\"", path);
    if (workspace && strncmp(real, workspace, len) == 0 && (real[len] == '/' || strcmp(workspace, "/") == 0)) {
        r = asprintf(&s->file, "/workspace/%s", real + (strcmp(workspace, "/") == 0 ? 1 : len + 1));
    } else {
        r = asprintf(&s->file, "%s/%s", copies, basename(copy));
        s->script.write = true;
    }
    if (r < 0) {
        s->file = NULL;
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "path");
    }
    return 0;
}

static int load(struct kr_run_source *s, const char *code, char **args, int count, const char *workspace,
                const char *copies, struct kr_err *err)
{
    cleanup_buf struct kr_buf buf;
    bool is_file = !code && strcmp(args[0], "-") != 0;
    const char *name = code ? "-c" : args[0];
    size_t skip;
    int r = 0;

    kr_buf_init(&buf, CODE_MAX);
    if (code)
        r = kr_buf_add_str(&buf, code) < 0
                ? kr_err_set(err, KR_ERR_INVALID, 0, "-c: the code is larger than %u MiB", CODE_MAX >> 20)
                : 0;
    else if (is_file)
        r = read_file(name, &buf, err);
    else
        r = read_fd(0, name, &buf, err);
    if (r >= 0)
        r = check_text(name, &buf, err);
    if (r >= 0 && is_file)
        r = set_location(s, name, workspace, copies, err);
    if (r < 0)
        return r;
    if (!is_file)
        s->file = strdup(name);
    skip = buf.len >= 3 && memcmp(buf.data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte order mark, as python3 does */
    kr_buf_drop(&buf, skip);
    s->code = kr_buf_steal(&buf, &s->len);
    if (!s->code)
        s->code = calloc(1, 1);
    /* argv[0] is what was typed: -c, -, or the path; the rest as it came */
    s->argv = calloc((size_t)count + 2, sizeof *s->argv);
    if (!s->argv || !s->code || !s->file)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "arguments");
    s->argv[s->script.argc++] = name;
    for (int i = code ? 0 : 1; i < count; i++)
        s->argv[s->script.argc++] = args[i];
    s->script.argv = s->argv;
    s->script.file = s->file;
    return 0;
}

int kr_run_source_load(struct kr_run_source *ret, const char *code, char **args, int count, const char *workspace,
                       const char *copies, struct kr_err *err)
{
    int r;

    *ret = (struct kr_run_source){0};
    r = load(ret, code, args, count, workspace, copies, err);
    if (r < 0)
        kr_run_source_done(ret);
    return r;
}

void kr_run_source_done(struct kr_run_source *s)
{
    free(s->code);
    free(s->file);
    free((void *)s->argv);
    *s = (struct kr_run_source){0};
}

/* Saving figures.
 *
 * Called by cmd_run.c for each display. Invariant: a figure is written whole under a name of ours beneath the one
 * folder that was given; nothing of the name comes from the sandbox, and no link is followed. */
#include "figures.h"
#include "base64.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *mime, *suffix;
    int is_text; /* as it stands, not base64 */
} kinds[] = {
    {"image/png", "png", 0}, {"image/svg+xml", "svg", 1},   {"image/jpeg", "jpg", 0},
    {"image/gif", "gif", 0}, {"application/pdf", "pdf", 0},
};

int kr_figures_open(struct kr_figures *f, const char *path, struct kr_err *err)
{
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return kr_err_set(err, KR_ERR_INVALID, errno, "--figures: cannot make \"%.100s\"", path);
    f->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir < 0)
        return kr_err_set(err, KR_ERR_INVALID, errno, "--figures: \"%.100s\"", path);
    return 0;
}

void kr_figures_close(struct kr_figures *f)
{
    f->dir = kr_fd_close(f->dir);
}

static int write_file(int dir, const char *name, const void *data, size_t len, struct kr_err *err)
{
    cleanup_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    int r = fd < 0 ? -errno : kr_fd_write_all(fd, data, len);

    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "cannot save %s", name) : 0;
}

static int save(struct kr_figures *f, const char *suffix, int is_text, const char *text, size_t len, struct kr_err *err)
{
    cleanup_free char *bytes = NULL;
    char name[32];
    ssize_t n;

    snprintf(name, sizeof name, "figure-%u.%s", f->saved + 1, suffix);
    if (is_text)
        return write_file(f->dir, name, text, len, err);
    while (len > 0 && text[len - 1] == '\n') /* base64.encodebytes() ends in one */
        len--;
    bytes = malloc(len + 1);
    n = bytes ? kr_base64_decode(text, len, bytes, len + 1) : -ENOMEM;
    if (n < 0)
        return kr_err_set(err, KR_ERR_INVALID, 0, "%s is not base64 and is not saved", name);
    return write_file(f->dir, name, bytes, (size_t)n, err);
}

int kr_figures_take(struct kr_figures *f, const json_t *display, struct kr_err *err)
{
    const json_t *data = json_object_get(display, "data");
    int r;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const json_t *image = json_object_get(data, kinds[i].mime);

        if (!json_is_string(image))
            continue;
        if (f->dir < 0) {
            f->unsaved++;
            return 0;
        }
        r = save(f, kinds[i].suffix, kinds[i].is_text, json_string_value(image), json_string_length(image), err);
        if (r < 0)
            return r;
        f->saved++;
        return 1;
    }
    return 0;
}

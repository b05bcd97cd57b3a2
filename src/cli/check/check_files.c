/* The files that are judged, read with the rights of the caller.
 *
 * Called by cmd_check.c before anything is started. Invariants: nothing that is read here is parsed here; of a folder
 * only plain files are opened, and no link of it is followed; what is read is bounded in files and bytes. */
#include "check.h"
#include "fd.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 32u

void kr_check_files_done(struct kr_check_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->rows[i].path);
        free(files->rows[i].text);
    }
    free(files->rows);
    *files = (struct kr_check_files){0};
}

/* A row for this path; NULL with err. */
static struct kr_check_file *add_file(struct kr_check_files *files, const char *path, struct kr_err *err)
{
    size_t room = files->room ? 2 * files->room : 16;
    struct kr_check_file *more;

    if (files->count == KR_CHECK_FILES_MAX) {
        kr_err_set(err, KR_ERR_INVALID, 0, "more than %u files; check them in parts", KR_CHECK_FILES_MAX);
        return NULL;
    }
    if (files->count == files->room) {
        more = reallocarray(files->rows, room, sizeof *more);
        if (!more) {
            kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the list of files");
            return NULL;
        }
        files->rows = more;
        files->room = room;
    }
    files->rows[files->count] = (struct kr_check_file){.path = strdup(path)};
    if (!files->rows[files->count].path) {
        kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the list of files");
        return NULL;
    }
    return &files->rows[files->count++];
}

/* The rest of an open file. 0, or -errno with err; a file that is too large is a row with a reason. */
static int read_text(struct kr_check_files *files, struct kr_check_file *file, int fd, struct kr_err *err)
{
    cleanup_buf struct kr_buf buf;
    char chunk[65536];
    ssize_t n;

    kr_buf_init(&buf, KR_CHECK_FILE_MAX);
    while ((n = read(fd, chunk, sizeof chunk)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            snprintf(file->why, sizeof file->why, "%s", strerror(errno));
            return 0;
        }
        if (kr_buf_add(&buf, chunk, (size_t)n) == -ENOBUFS) {
            snprintf(file->why, sizeof file->why, "larger than %u MiB", KR_CHECK_FILE_MAX >> 20);
            return 0;
        }
    }
    files->bytes += buf.len;
    if (files->bytes > KR_CHECK_BYTES_MAX)
        return kr_err_set(err, KR_ERR_INVALID, 0, "more than %u MiB of files; check them in parts",
                          KR_CHECK_BYTES_MAX >> 20);
    file->text = buf.failed ? NULL : kr_buf_steal(&buf, &file->len);
    if (!file->text)
        file->text = calloc(1, 1); /* an empty one */
    return file->text ? 0 : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "\"%.100s\"", file->path);
}

static int take_file(struct kr_check_files *files, const char *path, int dir, const char *name, int flags,
                     struct kr_err *err)
{
    struct kr_check_file *file = add_file(files, path, err);
    cleanup_fd int fd = -1;

    if (!file)
        return -ENOMEM;
    fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);
    if (fd < 0) {
        snprintf(file->why, sizeof file->why, "%s", strerror(errno));
        return 0;
    }
    return read_text(files, file, fd, err);
}

/* ---- folders ---- */

static bool is_python(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && (strcmp(dot, ".py") == 0 || strcmp(dot, ".ipynb") == 0);
}

/* What is no source of the folder's owner. */
static bool is_skipped(const char *name)
{
    return name[0] == '.' || strcmp(name, "__pycache__") == 0 || strcmp(name, "node_modules") == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; names && i < count; i++)
        free(names[i]);
    free(names);
}

/* The names in a folder, sorted; how many, or -errno. */
static ssize_t list_names(int dir, char ***ret)
{
    DIR *d = fdopendir(dup(dir));
    size_t count = 0, room = 0;
    char **names = NULL, **more;
    struct dirent *e;

    while (d && (e = readdir(d))) {
        if (is_skipped(e->d_name) || count == KR_CHECK_FILES_MAX)
            continue;
        if (count == room) {
            more = reallocarray(names, room = room ? 2 * room : 32, sizeof *names);
            if (!more)
                break;
            names = more;
        }
        if (!(names[count] = strdup(e->d_name)))
            break;
        count++;
    }
    if (!d || e) {
        int error = d ? ENOMEM : errno;

        if (d)
            closedir(d);
        free_names(names, count);
        return -error;
    }
    closedir(d);
    if (count > 0)
        qsort(names, count, sizeof *names, by_name);
    *ret = names;
    return (ssize_t)count;
}

static int walk(struct kr_check_files *files, const char *path, int dir, unsigned depth, struct kr_err *err);

static int take_name(struct kr_check_files *files, const char *folder, int dir, const char *name, unsigned depth,
                     struct kr_err *err)
{
    cleanup_free char *path = NULL;
    cleanup_fd int inner = -1;
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* gone meanwhile */
    if (asprintf(&path, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name) < 0) {
        path = NULL;
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the list of files");
    }
    if (S_ISREG(st.st_mode) && is_python(name))
        return take_file(files, path, dir, name, O_NOFOLLOW | O_NONBLOCK, err);
    if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
        return 0;
    inner = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return walk(files, path, inner, depth + 1, err);
}

/* dir: the folder, or -1 with errno. */
static int walk(struct kr_check_files *files, const char *path, int dir, unsigned depth, struct kr_err *err)
{
    char **names = NULL;
    ssize_t count = dir < 0 ? -errno : list_names(dir, &names);
    struct kr_check_file *file;
    int r = 0;

    if (count < 0) {
        file = add_file(files, path, err);
        if (file)
            snprintf(file->why, sizeof file->why, "%s", strerror((int)-count));
        return file ? 0 : -ENOMEM;
    }
    for (ssize_t i = 0; names && i < count && r >= 0; i++)
        r = take_name(files, path, dir, names[i], depth, err);
    free_names(names, (size_t)count);
    return r;
}

/* ---- operands ---- */

static int take_stdin(struct kr_check_files *files, struct kr_err *err)
{
    struct kr_check_file *file = add_file(files, "<stdin>", err);

    return file ? read_text(files, file, STDIN_FILENO, err) : -ENOMEM;
}

static int take_folder(struct kr_check_files *files, const char *path, struct kr_err *err)
{
    cleanup_fd int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t before = files->count;
    int r = walk(files, path, dir, 0, err);

    if (r >= 0 && files->count == before)
        r = kr_err_set(err, KR_ERR_INVALID, 0, "\"%.100s\" has no file that ends in .py or .ipynb", path);
    return r;
}

int kr_check_files_read(char **operands, int count, struct kr_check_files *ret, struct kr_err *err)
{
    struct kr_check_files files = {0};
    struct stat st;
    int r = 0;

    for (int i = 0; i < count && r >= 0; i++) {
        if (strcmp(operands[i], "-") == 0)
            r = take_stdin(&files, err);
        else if (stat(operands[i], &st) == 0 && S_ISDIR(st.st_mode))
            r = take_folder(&files, operands[i], err);
        else
            r = take_file(&files, operands[i], AT_FDCWD, operands[i], 0, err);
    }
    if (r < 0) {
        kr_check_files_done(&files);
        return r;
    }
    *ret = files;
    return 0;
}

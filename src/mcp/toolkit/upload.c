/* Uploads by tools: where the bytes come from, whether they may, the disk account, the file. Called by tool_upload.c
 * and mcp_sandbox_tools.c.
 *
 * Files of the machine are read for a client that sits on it (kr_mcp_is_local()) or beneath the configured
 * upload_roots, and for no other: any remote client could otherwise read the server's secrets. Beneath a root no link
 * is followed and nothing but a regular file is opened. Invariants: bytes are charged to the user's disk account before
 * they are kept; the file has its name when all of it is there, or never; nothing is left of an upload that fails. */
#include "upload.h"
#include "base64.h"
#include "fd.h"
#include "mcp_fileop.h"
#include "mcp.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE (256u << 10)

struct uploading {
    struct kr_fileop op;
    struct kr_mcp_upload u; /* borrowed texts: only while the call is there */
    struct kr_quota_share share;
    char dest[KR_FILES_PATH_MAX], name[256];
    bool into_folder;
    /* The source: bytes, … */
    char *bytes;
    size_t len;
    /* … or a file. */
    char *local, *root; /* copies; root NULL: any */
    int fd;
    uint64_t size, max, old_size;
    bool existed, stored;
};

static struct uploading *uploading_of(struct kr_fileop *op)
{
    return (struct uploading *)op;
}

static void finish_upload(struct uploading *u, const struct kr_err *err)
{
    struct kr_mcp_call *c = kr_mcp_fileop_take(&u->op);
    const char *slash = strrchr(u->op.path, '/');
    struct kr_mcp_uploaded stored = {.path = u->op.path,
                                     .name = slash ? slash + 1 : u->op.path,
                                     .sandbox = u->op.sandbox.row.id,
                                     .sandbox_name = u->op.sandbox.row.name,
                                     .size = u->size,
                                     .created = !u->existed};

    u->u.answer(c, err ? NULL : &stored, err, u->dest);
    kr_fileop_end(&u->op);
}

/* ---- on the thread pool ---- */

/* Beneath its root, through no link. */
static int open_beneath(const char *root, const char *path)
{
    cleanup_fd int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *inner = path + strlen(root); /* root_of() has found it to be the path's beginning */
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd;

    if (dir < 0)
        return -errno;
    while (*inner == '/')
        inner++;
    fd = syscall(SYS_openat2, dir, inner, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

static int open_local(struct uploading *u)
{
    struct kr_err *err = &u->op.err;
    struct stat st;

    u->fd = u->root ? open_beneath(u->root, u->local) : open(u->local, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (!u->root && u->fd < 0)
        u->fd = -errno;
    if (u->fd == -ENOENT || u->fd == -ENOTDIR)
        return kr_err_set(err, KR_ERR_NOT_FOUND, 0, "Local file not found: %.150s", u->local);
    if (u->fd == -ELOOP || u->fd == -EXDEV)
        return kr_err_set(err, KR_ERR_DENIED, 0, "local_file_path: links are not followed there: %.120s", u->local);
    if (u->fd < 0) {
        kr_err_set(
            err, KR_ERR_DENIED, 0,
            "local_file_path: krait may not read %.100s (%s). Send the bytes as `content`, or have the folder named "
            "in upload_roots",
            u->local, strerror(-u->fd));
        return u->fd;
    }
    if (fstat(u->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return kr_err_set(err, KR_ERR_INVALID, 0, "local_file_path: not a regular file: %.150s", u->local);
    u->size = (uint64_t)st.st_size;
    return 0;
}

/* Where it goes to: into a folder it keeps its name. */
static int settle_upload(struct uploading *u)
{
    struct kr_fileop *op = &u->op;
    char path[KR_FILES_PATH_MAX];
    struct kr_file_info info;
    struct kr_err ignored;
    int n;

    if (kr_files_stat(op->ws, u->dest, &info, &ignored) == 0 && info.type == KR_FILE_FOLDER)
        u->into_folder = true;
    if (u->into_folder && !u->name[0])
        return kr_err_set(&op->err, KR_ERR_INVALID, 0, "path: /workspace%s%.100s is a folder; name the file in it",
                          u->dest[0] ? "/" : "", u->dest);
    n = u->into_folder ? snprintf(path, sizeof path, "%s%s%s", u->dest, u->dest[0] ? "/" : "", u->name)
                       : snprintf(path, sizeof path, "%s", u->dest);
    if (n >= (int)sizeof path)
        return kr_err_set(&op->err, KR_ERR_INVALID, 0, "path: longer than %u bytes", KR_FILES_PATH_MAX - 1);
    n = kr_files_new_path(path, op->path, &op->err);
    if (n < 0)
        return n;
    u->existed = kr_files_stat(op->ws, op->path, &info, &ignored) == 0;
    u->old_size = u->existed && info.type == KR_FILE_REGULAR ? info.size : 0;
    return 0;
}

static void step_open(struct kr_fileop *op)
{
    struct uploading *u = uploading_of(op);

    op->r = u->local ? open_local(u) : 0;
    if (op->r >= 0 && u->size > u->max)
        op->r = kr_err_set(&op->err, KR_ERR_TOO_LARGE, EFBIG,
                           "the file has %" PRIu64 " bytes, and %" PRIu64 " are taken", u->size, u->max);
    if (op->r >= 0)
        op->r = settle_upload(u);
}

static int copy(struct uploading *u, struct kr_files_upload *to)
{
    cleanup_free char *piece = malloc(PIECE);
    ssize_t n;
    int r;

    if (!piece)
        return kr_err_set(&u->op.err, KR_ERR_SYSTEM, ENOMEM, "upload");
    for (;;) {
        n = read(u->fd, piece, PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kr_err_set(&u->op.err, KR_ERR_SYSTEM, errno, "read a file to upload");
        if (n == 0)
            return 0;
        r = kr_files_upload_write(to, piece, (size_t)n, &u->op.err);
        if (r < 0)
            return r;
    }
}

static void step_store(struct kr_fileop *op)
{
    struct uploading *u = uploading_of(op);
    struct kr_files_upload *to;

    op->r = kr_files_upload_begin(op->ws, op->path, u->size, &to, &op->err);
    if (op->r < 0)
        return;
    op->r = u->local ? copy(u, to) : kr_files_upload_write(to, u->bytes, u->len, &op->err);
    if (op->r < 0) {
        kr_files_upload_abort(to);
        return;
    }
    u->size = kr_files_upload_size(to);
    op->r = kr_files_upload_commit(to, &op->err);
    u->stored = op->r >= 0;
}

/* ---- on the loop ---- */

static void tell_stored(struct kr_fileop *op)
{
    struct uploading *u = uploading_of(op);

    if (!u->stored)
        return;
    u->share.kept = (int64_t)u->size - (int64_t)u->old_size;
    kr_fileop_changed(op, "file.write", "ok", op->path, (int64_t)u->size);
}

static void on_stored(struct kr_fileop *op)
{
    if (op->r >= 0)
        tell_stored(op);
    finish_upload(uploading_of(op), op->r < 0 ? &op->err : NULL);
}

static void on_account_ready(struct kr_quota_share *share)
{
    struct uploading *u = (struct uploading *)((char *)share - offsetof(struct uploading, share));
    struct kr_fileop *op = &u->op;

    if (kr_quota_charge(share, u->size, &op->err) < 0 || kr_fileop_still_there(op) < 0)
        finish_upload(u, &op->err);
    else
        kr_fileop_run(op, step_store, on_stored);
}

static void on_opened(struct kr_fileop *op)
{
    struct uploading *u = uploading_of(op);

    if (op->r < 0 || kr_quota_join(kr_file_home(op), &op->who, &u->share, on_account_ready, &op->err) < 0)
        finish_upload(u, &op->err);
}

static void free_upload(struct kr_fileop *op)
{
    struct uploading *u = uploading_of(op);

    kr_quota_leave(&u->share);
    kr_fd_close(u->fd);
    free(u->bytes);
    free(u->local);
    free(u->root);
}

/* ---- may it be read? ---- */

static bool is_plain_name(const char *path)
{
    return path[0] == '/' && !strstr(path, "/../") && (strlen(path) < 3 || strcmp(path + strlen(path) - 3, "/..") != 0);
}

/* The length of the root that the path is beneath, as the path has it, without slashes at its end; 0: there is none. */
static size_t root_of(const struct kr_mcp_config *config, const char *path)
{
    for (size_t i = 0; i < config->upload_roots.count; i++) {
        const char *root = config->upload_roots.items[i];
        size_t n = strlen(root);

        while (n > 1 && root[n - 1] == '/')
            n--;
        if (n > 0 && strncmp(path, root, n) == 0 && (path[n] == '/' || n == 1))
            return n;
    }
    return 0;
}

static int take_local(struct uploading *u, const char *path)
{
    struct kr_mcp_call *c = u->op.peer;
    bool local = kr_mcp_is_local(c);
    size_t root = local || !is_plain_name(path) ? 0 : root_of(kr_mcp_config(kr_mcp_of(c)), path);
    struct kr_err *err = &u->op.err;

    if (!local && root == 0)
        return kr_err_set(
            err, KR_ERR_DENIED, 0,
            "local_file_path: krait's own machine is not read for this client. Send the bytes as `content` "
            "(with encoding base64 if they are not text), or have the folder named in upload_roots");
    if (!is_plain_name(path))
        return kr_err_set(err, KR_ERR_INVALID, 0, "local_file_path: must be an absolute path without ..");
    snprintf(u->name, sizeof u->name, "%s", strrchr(path, '/') + 1);
    u->local = strdup(path);
    u->root = root > 0 ? strndup(path, root) : NULL;
    if (!u->local || (root > 0 && !u->root))
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "upload");
    return 0;
}

static int take_content(struct uploading *u, const struct kr_text *content, bool base64)
{
    struct kr_err *err = &u->op.err;
    ssize_t n;

    u->bytes = malloc(content->len + 1);
    if (!u->bytes)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "upload");
    memcpy(u->bytes, content->text, content->len);
    n = base64 ? kr_base64_decode(u->bytes, content->len, u->bytes, content->len) : (ssize_t)content->len;
    if (n < 0)
        return kr_err_set(err, KR_ERR_INVALID, 0, "content: not base64 (whole padding, no blanks or line ends)");
    u->len = (size_t)n;
    u->size = u->len;
    return 0;
}

static int take_dest(struct uploading *u, const char *dest)
{
    size_t len = dest ? strlen(dest) : 0;

    u->into_folder = len == 0 || dest[len - 1] == '/';
    return kr_files_path(dest ? kr_mcp_fileop_inside(&u->op, dest) : "", u->dest, &u->op.err);
}

void kr_mcp_upload(struct kr_mcp_call *c, const struct kr_mcp_upload *spec)
{
    static const struct kr_fileop_kind kind = {
        .size = sizeof(struct uploading), .late = tell_stored, .done = free_upload};
    struct kr_err err;
    struct uploading *u = kr_mcp_fileop_new(c, &kind, &err);
    int r;

    if (!u) {
        spec->answer(c, NULL, &err, "");
        return;
    }
    u->u = *spec;
    u->fd = -1;
    u->max = kr_file_api(&u->op)->config.max_upload;
    if (!!spec->local == !!spec->content.text)
        r = kr_err_set(&u->op.err, KR_ERR_INVALID, 0, "give either content or local_file_path");
    else
        r = spec->local ? take_local(u, spec->local) : take_content(u, &spec->content, spec->base64);
    if (r >= 0)
        r = kr_mcp_fileop_place(&u->op, spec->sandbox, NULL, true);
    if (r >= 0)
        r = take_dest(u, spec->dest);
    if (r < 0)
        finish_upload(u, &u->op.err);
    else
        kr_fileop_run(&u->op, step_open, on_opened);
}

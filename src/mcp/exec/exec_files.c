/* Short texts among the files that a run changed, read on the thread pool before its answer is rendered. Called by
 * exec.c.
 *
 * Invariants: at most SMALL_COUNT files of SMALL_BYTES; what cannot be read, or is no text, is only named; the exec is
 * freed by the job's end if the client leaves meanwhile. */
#include "exec_internal.h"
#include "fd.h"
#include "mcp_fileop.h"
#include "media.h"
#include <string.h>
#include <unistd.h>

#define SMALL_COUNT 5u
#define SMALL_BYTES 2048u

struct small {
    char *path; /* owned */
    char text[SMALL_BYTES + 1];
    ssize_t len; /* -1: not taken */
};

struct reading {
    struct kr_fileop op;
    struct kr_mcp_exec *x; /* NULL: rendered */
    struct small files[SMALL_COUNT];
    unsigned count;
};

static bool is_small(const json_t *file)
{
    const char *change = json_string_value(json_object_get(file, "change"));
    json_int_t size = json_integer_value(json_object_get(file, "size"));

    return json_object_get(file, "path") && !json_object_get(file, "path_b64") && change &&
           strcmp(change, "deleted") != 0 && size > 0 && size <= (json_int_t)SMALL_BYTES;
}

static void read_one(int ws, struct small *s)
{
    cleanup_fd int fd = -1;
    struct kr_file_info info;
    struct kr_err err;
    size_t len = 0;
    ssize_t n = 0;

    s->len = -1;
    if (kr_files_open(ws, s->path, &fd, &info, &err) < 0)
        return;
    while (len < sizeof s->text && (n = read(fd, s->text + len, sizeof s->text - len)) > 0)
        len += (size_t)n;
    if (n >= 0 && len <= SMALL_BYTES && kr_media_is_text(s->text, len, true))
        s->len = (ssize_t)len;
}

static void read_small_files(struct kr_fileop *op)
{
    struct reading *r = (struct reading *)op;

    for (unsigned i = 0; i < r->count; i++)
        read_one(op->ws, &r->files[i]);
}

static void on_files_read(struct kr_fileop *op)
{
    struct reading *r = (struct reading *)op;
    struct kr_mcp_exec *x = r->x;

    r->x = NULL;
    x->o.small_files = json_object();
    for (unsigned i = 0; i < r->count; i++)
        if (r->files[i].len >= 0)
            json_object_set_new(x->o.small_files, r->files[i].path,
                                json_stringn(r->files[i].text, (size_t)r->files[i].len));
    (void)kr_mcp_fileop_take(op);
    kr_mcp_exec_render(x);
    kr_fileop_end(op);
}

static void on_reading_done(struct kr_fileop *op)
{
    struct reading *r = (struct reading *)op;

    for (unsigned i = 0; i < r->count; i++)
        free(r->files[i].path);
    if (r->x)
        kr_mcp_exec_free(r->x);
}

bool kr_mcp_exec_read_files(struct kr_mcp_exec *x)
{
    static const struct kr_fileop_kind kind = {.size = sizeof(struct reading), .done = on_reading_done};
    const json_t *files = json_object_get(x->o.end, "files");
    struct reading *r = NULL;
    struct kr_err err;
    json_t *file;
    size_t i;

    if (!x->small_files || !kr_mcp_revs[kr_mcp_call_rev(x->call)].resource_link)
        return false;
    json_array_foreach(files, i, file)
    {
        if (!is_small(file) || (r && r->count == SMALL_COUNT))
            continue;
        if (!r && !(r = kr_mcp_fileop_new(x->call, &kind, &err)))
            return false;
        r->files[r->count].path = strdup(json_string_value(json_object_get(file, "path")));
        r->count += r->files[r->count].path != NULL;
    }
    if (!r)
        return false;
    if (r->count == 0 || kr_mcp_fileop_place(&r->op, x->o.sandbox, NULL, false) < 0) {
        (void)kr_mcp_fileop_take(&r->op); /* the call is still x's to answer */
        kr_fileop_end(&r->op);
        return false;
    }
    r->x = x;
    kr_fileop_run(&r->op, read_small_files, on_files_read);
    return true;
}

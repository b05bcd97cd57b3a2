/* Bytecode for wheels that have just come into the store: a cell without a network compiles them
 * (src/kernel/python/bytecode.py), the store keeps what belongs to a file of the wheel.
 *
 * Called by install_job.c when a job has ended well; in the background, one cell at a time. Invariants: a wheel without
 * bytecode is complete, so a failure is only logged; no code of a wheel runs in the cell, and each wheel has a cell of
 * its own, so that one that took over the compiler could only speak of itself. */
#include "base64.h"
#include "fd.h"
#include "install_internal.h"
#include "log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 1000u /* that wait */
#define ARCHIVE_MAX (UINT64_C(256) << 20)
#define LINE_MAX_BYTES (256u << 10)
#define COMPILE_MS (5u * 60 * 1000)

struct kr_install_compiler {
    struct kr_install *in;
    char (*keys)[KR_PACKAGE_KEY_ROOM]; /* that wait; the first is the cell's, if there is one */
    size_t count;
    struct kr_install_cell *cell;
    char key[KR_PACKAGE_KEY_ROOM]; /* whose archive comes; "": none */
    uint64_t bytes;
    int fd; /* of the archive; -1: none */
    struct kr_work work;
    /* of the work, which stores archives one after the other; the cell waits for none of them */
    struct archive {
        struct archive *next;
        char key[KR_PACKAGE_KEY_ROOM];
        int fd;
    } * archives;
    struct archive *current;
    int result;
    struct kr_err err;
};

static void compile_next(struct kr_install_compiler *c);

/* ---- keeping archives ---- */

static void run_keep(void *data)
{
    struct kr_install_compiler *c = data;

    c->result = kr_package_store_add_bytecode(c->in->config.packages, c->current->key, c->current->fd, &c->err);
}

static void keep_next(struct kr_install_compiler *c);

static void on_kept(void *data)
{
    struct kr_install_compiler *c = data;

    c->in->works--;
    if (c->result < 0)
        kr_log(KR_LOG_WARN, "bytecode of a package not kept, ignoring", "error=\"%s\"", c->err.msg);
    kr_fd_close(c->current->fd);
    free(c->current);
    c->current = NULL;
    keep_next(c);
}

static void keep_next(struct kr_install_compiler *c)
{
    static const struct kr_work_calls calls = {.run = run_keep, .done = on_kept, .dropped = on_kept};

    if (c->current || !c->archives || c->in->is_closing)
        return;
    c->current = c->archives;
    c->archives = c->current->next;
    c->in->works++;
    kr_work_start(c->in->loop, &c->work, &calls, c);
}

static void add_archive(struct kr_install_compiler *c)
{
    struct archive *a = calloc(1, sizeof *a), **at = &c->archives;

    if (!a)
        return;
    snprintf(a->key, sizeof a->key, "%s", c->key);
    a->fd = steal_fd(&c->fd);
    while (*at)
        at = &(*at)->next;
    *at = a;
    keep_next(c);
}

/* ---- its lines ---- */

static void drop_archive(struct kr_install_compiler *c)
{
    c->fd = kr_fd_close(c->fd);
    c->key[0] = '\0';
    c->bytes = 0;
}

static void take_piece(struct kr_install_compiler *c, const json_t *value)
{
    size_t room = json_string_length(value);
    char *bytes = malloc(room + 1);
    ssize_t n = bytes ? kr_base64_decode(json_string_value(value), room, bytes, room) : -ENOMEM;

    if (n < 0 || c->bytes + (uint64_t)n > ARCHIVE_MAX || kr_fd_write_all(c->fd, bytes, (size_t)n) < 0)
        drop_archive(c);
    else
        c->bytes += (uint64_t)n;
    free(bytes);
}

static void on_compile_line(void *data, const char *line, size_t len)
{
    struct kr_install_compiler *c = data;
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    const char *key = json_string_value(json_object_get(o, "key"));
    struct kr_err err;

    if (key && strcmp(c->keys[0], key) == 0) {
        drop_archive(c);
        c->fd = kr_install_temp(c->in, &err);
        if (c->fd >= 0)
            snprintf(c->key, sizeof c->key, "%s", key);
    } else if (c->fd >= 0 && json_is_string(json_object_get(o, "data"))) {
        take_piece(c, json_object_get(o, "data"));
    } else if (c->fd >= 0 && json_is_true(json_object_get(o, "end"))) {
        add_archive(c);
        drop_archive(c);
    }
    json_decref(o);
}

static void on_compile_end(void *data, const struct kr_err *err)
{
    struct kr_install_compiler *c = data;

    c->cell = NULL;
    drop_archive(c);
    if (err)
        kr_log(KR_LOG_WARN, "packages not compiled, ignoring", "error=\"%s\"", err->msg);
    c->count--;
    memmove(c->keys, c->keys + 1, c->count * sizeof *c->keys);
    compile_next(c);
}

/* ---- its cell ---- */

static void compile_next(struct kr_install_compiler *c)
{
    static const struct kr_install_cell_calls calls = {.on_line = on_compile_line, .on_end = on_compile_end};
    struct kr_install_cell_spec spec = {.sandbox = "",
                                        .user = "",
                                        .network = KR_NET_NONE,
                                        .code = c->in->config.compiler,
                                        .timeout_ms = COMPILE_MS,
                                        .output_max = UINT64_C(2) << 30,
                                        .line_max = LINE_MAX_BYTES};
    struct kr_err err;

    if (c->count == 0 || c->cell || c->in->is_closing || !spec.code)
        return;
    spec.variables = json_pack("{s:{s:[s],s:I}}", "REQUEST", "keys", c->keys[0], "limit", (json_int_t)ARCHIVE_MAX);
    kr_install_cell_limits(&spec.limits, COMPILE_MS);
    spec.limits.output = spec.output_max;
    if (kr_install_cell_open(c->in, &spec, &calls, c, &c->cell, &err) < 0) {
        kr_log(KR_LOG_WARN, "packages not compiled, ignoring", "error=\"%s\"", err.msg);
        c->count = 0;
    }
    json_decref(spec.variables);
}

void kr_install_compile(struct kr_install *in, const struct kr_install_job *j)
{
    struct kr_install_compiler *c = in->compiler;

    for (size_t i = 0; i < j->row_count && c->count < KEYS_MAX; i++)
        if (!j->rows[i].own && j->rows[i].is_fresh)
            memcpy(c->keys[c->count++], j->rows[i].key, KR_PACKAGE_KEY_ROOM);
    compile_next(c);
}

int kr_install_compiler_open(struct kr_install *in, struct kr_err *err)
{
    struct kr_install_compiler *c = calloc(1, sizeof *c);

    in->compiler = c;
    if (c)
        c->keys = calloc(KEYS_MAX, sizeof *c->keys);
    if (!c || !c->keys)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the compiler of packages");
    c->in = in;
    c->fd = -1;
    return 0;
}

void kr_install_compiler_close(struct kr_install *in)
{
    struct kr_install_compiler *c = in->compiler;
    struct archive *a;

    in->compiler = NULL;
    if (!c)
        return;
    while ((a = c->archives)) {
        c->archives = a->next;
        kr_fd_close(a->fd);
        free(a);
    }
    kr_fd_close(c->fd);
    free(c->keys);
    free(c);
}

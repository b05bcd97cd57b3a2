/* Builds of packages that have no wheel: a cell of its own fetches the source, builds it with pip
 * (src/kernel/python/build.py) and prints the wheel.
 *
 * Called by install_fetch.c, only for jobs that may build (the server's setting and the sandbox's). Invariants: code
 * of the package runs in that cell alone, under the rule `index`, without a workspace, and ends with it; what it hands
 * over is taken for a wheel that no index vouches for, checked as every wheel, and kept for this environment alone. */
#include "base64.h"
#include "fd.h"
#include "install_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES (256u << 10)
#define WHEEL_MAX (UINT64_C(512) << 20)
#define PROGRESS_MAX 100u /* lines that are handed on; ours are two */
#define INDEX "http://" KR_ANSWER_HOST "/index/simple/"

/* A wheel as it comes out of the cell. */
struct kr_install_wheel {
    uint64_t bytes, promised;
    unsigned progress;
    bool is_named, is_whole;
    char kind[16];
    char *error; /* why there is none */
};

static void free_wheel(struct kr_install_row *row)
{
    if (row->wheel)
        free(row->wheel->error);
    free(row->wheel);
    row->wheel = NULL;
}

/* The last word wins only if there was none before. */
static void refuse_wheel(struct kr_install_wheel *w, const char *kind, const char *text)
{
    if (w->error)
        return;
    w->error = strdup(text);
    snprintf(w->kind, sizeof w->kind, "%s", kind);
}

/* ---- its lines ---- */

/* What it claims to be must be what was asked for. */
static void take_wheel_name(struct kr_install_row *row, const json_t *o)
{
    struct kr_install_wheel *w = row->wheel;
    const char *name = json_string_value(json_object_get(o, "wheel"));
    json_int_t bytes = json_integer_value(json_object_get(o, "bytes"));
    struct kr_wheel_name n;
    struct kr_pkg_version a, b;

    if (w->is_named || !name || strlen(name) >= sizeof row->name || kr_wheel_name_parse(name, &n, NULL) < 0 ||
        strcmp(n.name, row->file->canonical) != 0 || kr_pkg_version_parse(n.version, strlen(n.version), &a) < 0 ||
        kr_pkg_version_parse(row->file->version, strlen(row->file->version), &b) < 0 ||
        kr_pkg_version_compare(&a, &b) != 0 || !kr_wheel_name_fits(&n, row->job->in->config.python->version)) {
        refuse_wheel(w, "build", "what was built is not the wheel of this package");
        return;
    }
    if (bytes <= 0 || (uint64_t)bytes > WHEEL_MAX) {
        refuse_wheel(w, "too_large", "the wheel that was built is too large");
        return;
    }
    w->promised = (uint64_t)bytes;
    w->is_named = true;
    snprintf(row->name, sizeof row->name, "%s", name);
}

static void take_data(struct kr_install_row *row, const json_t *value)
{
    struct kr_install_wheel *w = row->wheel;
    size_t room = json_string_length(value);
    char *bytes = malloc(room + 1);
    ssize_t n = bytes ? kr_base64_decode(json_string_value(value), room, bytes, room) : -ENOMEM;

    if (n < 0 || !w->is_named || w->bytes + (uint64_t)n > w->promised)
        refuse_wheel(w, "build", "the wheel that was built came damaged");
    else if (kr_fd_write_all(row->fd, bytes, (size_t)n) < 0)
        refuse_wheel(w, "no_space", "there is no room for the wheel that was built");
    else
        w->bytes += (uint64_t)n;
    free(bytes);
}

static void on_build_line(void *data, const char *line, size_t len)
{
    struct kr_install_row *row = data;
    struct kr_install_wheel *w = row->wheel;
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    const char *progress = json_string_value(json_object_get(o, "progress"));
    const char *error = json_string_value(json_object_get(o, "error"));

    if (progress && (strlen(progress) >= 200 || w->progress++ >= PROGRESS_MAX)) {
        /* not ours */
    } else if (progress) {
        kr_install_say(row->job, "%s", progress);
        kr_install_fetch_progress(row->job, progress);
    } else if (error && strncmp(error, "hash: ", 6) == 0) {
        refuse_wheel(w, "hash", error + 6);
    } else if (error) {
        refuse_wheel(w, "build", error);
    } else if (json_object_get(o, "wheel")) {
        take_wheel_name(row, o);
    } else if (json_is_string(json_object_get(o, "data")) && !w->error) {
        take_data(row, json_object_get(o, "data"));
    } else if (json_is_true(json_object_get(o, "end"))) {
        w->is_whole = w->is_named && w->bytes == w->promised;
    }
    json_decref(o);
}

static void on_build_end(void *data, const struct kr_err *err)
{
    struct kr_install_row *row = data;
    struct kr_install_job *j = row->job;
    struct kr_install_wheel *w = row->wheel;
    json_t *names = json_pack("[s]", row->file->name);

    row->cell = NULL;
    row->state = KR_ROW_LACKING;
    if (err)
        refuse_wheel(w, err->kind == KR_ERR_TIMEOUT ? "timeout" : "build", err->msg);
    else if (!w->is_whole)
        refuse_wheel(w, "build", "the build has ended without a wheel");
    if (!kr_install_end(j)) {
        free_wheel(row);
    } else if (w->error) {
        kr_install_fail(j, w->kind, names, "%s: %s", row->file->file, w->error);
        free_wheel(row);
    } else {
        free_wheel(row);
        row->own = true;
        kr_install_unpack(row);
    }
    json_decref(names);
}

/* ---- the cell ---- */

static int open_builder(struct kr_install_row *row, struct kr_err *err)
{
    static const struct kr_install_cell_calls calls = {.on_line = on_build_line, .on_end = on_build_end};
    struct kr_install_job *j = row->job;
    struct kr_install_cell_spec spec = {.sandbox = j->sandbox,
                                        .user = j->user,
                                        .network = KR_NET_INDEX,
                                        .code = j->in->config.builder,
                                        .timeout_ms = j->in->config.timeout_ms,
                                        .output_max = WHEEL_MAX / 3 * 4 + (64u << 20),
                                        .line_max = LINE_MAX_BYTES};
    char url[KR_ANSWER_PATH_MAX + 64];
    int r;

    snprintf(url, sizeof url, "http://" KR_ANSWER_HOST "/%s", row->file->path);
    spec.variables =
        json_pack("{s:{s:s,s:s?,s:s,s:s}}", "REQUEST", "url", url, "sha256",
                  row->file->sha256[0] ? row->file->sha256 : NULL, "file", row->file->file, "index", INDEX);
    if (!spec.variables)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the request to a build");
    kr_install_cell_limits(&spec.limits, spec.timeout_ms);
    spec.limits.memory *= 2;
    spec.limits.output = spec.output_max;
    spec.limits.processes *= 2;
    r = kr_install_cell_open(j->in, &spec, &calls, row, &row->cell, err);
    json_decref(spec.variables);
    return r;
}

void kr_install_build(struct kr_install_row *row)
{
    struct kr_install_job *j = row->job;
    struct kr_err err;

    row->wheel = calloc(1, sizeof *row->wheel);
    row->fd = row->wheel ? kr_install_temp(j->in, &err) : kr_err_set(&err, KR_ERR_SYSTEM, ENOMEM, "a build");
    if (row->fd < 0) {
        free_wheel(row);
        kr_install_fail_with(j, &err);
        return;
    }
    kr_install_begin(j);
    row->state = KR_ROW_BUILDING;
    if (open_builder(row, &err) >= 0)
        return;
    row->state = KR_ROW_LACKING;
    (void)kr_install_end(j);
    free_wheel(row);
    kr_install_fail_with(j, &err);
}

void kr_install_build_stop(struct kr_install_row *row)
{
    kr_install_cell_drop(row->cell);
    row->cell = NULL;
    row->state = KR_ROW_LACKING;
    free_wheel(row);
    (void)kr_install_end(row->job);
}

/* Reads the resolver's lines.
 *
 * Called for every line that the resolver's cell writes. Invariants: a file has a name and a version that are such, a
 * path of the cell's own index and, unless it says that there is none, a hash; no distribution is there twice; what is
 * too long or of another type is refused, and nothing of an answer is used before all of it was read. */
#include "install_answer.h"
#include "err.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "http://" KR_ANSWER_HOST "/"
#define FILES KR_ANSWER_INDEX "file/"
#define ERROR_MAX 8192u
#define NAMES_MAX 64u
#define NOTES_MAX 32u
#define NOTE_MAX 1000u

static const char *const kinds[] = {"invalid",  "not_found", "no_version", "needs_build", "python",
                                    "conflict", "index",     "build",      "resolver"};

/* Is it one of the words that an error of the resolver can have? */
static bool is_kind(const char *word)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i], word) == 0)
            return true;
    return false;
}

static void free_files(struct kr_answer *a)
{
    for (size_t i = 0; i < a->file_count; i++)
        free(a->files[i].path);
    free(a->files);
}

void kr_answer_done(struct kr_answer *a)
{
    free_files(a);
    free(a->have);
    json_decref(a->notes);
    json_decref(a->names);
    free(a->error);
    *a = (struct kr_answer){0};
}

static int refuse(struct kr_err *err, const char *what)
{
    return kr_err_set(err, KR_ERR_PROTOCOL, 0, "the resolver's answer: %s", what), -EPROTO;
}

/* ---- members ---- */

/* A text of at most `room` - 1 bytes, not empty. */
static bool take_text(const json_t *row, const char *key, char *out, size_t room)
{
    const json_t *value = json_object_get(row, key);
    size_t len = json_string_length(value);

    if (!json_is_string(value) || len == 0 || len >= room || strlen(json_string_value(value)) != len)
        return false;
    memcpy(out, json_string_value(value), len + 1);
    return true;
}

static bool take_bool(const json_t *row, const char *key, bool *ret)
{
    const json_t *value = json_object_get(row, key);

    *ret = json_is_true(value);
    return json_is_boolean(value);
}

static bool take_version(const json_t *row, char out[KR_PKG_VERSION_MAX])
{
    struct kr_pkg_version v;

    return take_text(row, "version", out, KR_PKG_VERSION_MAX) && kr_pkg_version_parse(out, strlen(out), &v) == 0;
}

static bool take_name(const json_t *row, char name[KR_REQ_NAME_ROOM], char canonical[KR_REQ_NAME_ROOM])
{
    return take_text(row, "name", name, KR_REQ_NAME_ROOM) && kr_requirement_canonical(name, strlen(name), canonical);
}

/* 64 lower-case hex digits, or null. */
static bool take_sha256(const json_t *row, char out[KR_SHA256_ROOM])
{
    out[0] = '\0';
    if (json_is_null(json_object_get(row, "sha256")))
        return true;
    return take_text(row, "sha256", out, KR_SHA256_ROOM) && strspn(out, "0123456789abcdef") == KR_SHA256_ROOM - 1;
}

static int hex_of(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* A link's last part is the file's name, percent-encoded. */
static bool take_file(const char *path, char out[KR_WHEEL_NAME_ROOM])
{
    const char *last = strrchr(path, '/') + 1;
    size_t n = 0;

    for (size_t i = 0; last[i] && !strchr("?#", last[i]); i++) {
        int high = last[i] == '%' ? hex_of(last[i + 1]) : -1, low = high >= 0 ? hex_of(last[i + 2]) : -1;
        char c = low >= 0 ? (char)(high * 16 + low) : last[i];

        if ((unsigned char)c <= ' ' || (unsigned char)c >= 127 || c == '/' || n + 1 >= KR_WHEEL_NAME_ROOM)
            return false;
        out[n++] = c;
        i += low >= 0 ? 2 : 0;
    }
    out[n] = '\0';
    return n > 0 && out[0] != '.' && out[0] != '-';
}

/* Of the cell's own index, with nothing in it that is not written in an address. */
static bool take_path(const json_t *row, struct kr_answer_file *f)
{
    char url[sizeof PREFIX + KR_ANSWER_PATH_MAX];
    const char *path = url + strlen(PREFIX);

    if (!take_text(row, "url", url, sizeof url) || strncmp(url, PREFIX FILES, strlen(PREFIX FILES)) != 0)
        return false;
    for (const char *c = url; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 127)
            return false;
    f->path = take_file(path, f->file) ? strdup(path) : NULL;
    return f->path != NULL;
}

/* ---- rows ---- */

static bool has_file(const struct kr_answer *a, const char *canonical)
{
    for (size_t i = 0; i < a->file_count; i++)
        if (strcmp(a->files[i].canonical, canonical) == 0)
            return true;
    return false;
}

/* A wheel's file name says what it is, and says the same. */
static bool is_named_so(const struct kr_answer_file *f)
{
    struct kr_wheel_name n;
    struct kr_pkg_version a, b;

    return kr_wheel_name_parse(f->file, &n, NULL) == 0 && strcmp(n.name, f->canonical) == 0 &&
           kr_pkg_version_parse(n.version, strlen(n.version), &a) == 0 &&
           kr_pkg_version_parse(f->version, strlen(f->version), &b) == 0 && kr_pkg_version_compare(&a, &b) == 0;
}

static int take_row(struct kr_answer *a, const json_t *row, bool build, struct kr_err *err)
{
    struct kr_answer_file f = {0};
    int r = 0;

    if (!take_name(row, f.name, f.canonical) || has_file(a, f.canonical))
        r = refuse(err, "a name");
    else if (!take_version(row, f.version))
        r = refuse(err, "a version");
    else if (!take_bool(row, "requested", &f.requested) || !take_bool(row, "sdist", &f.sdist) || (f.sdist && !build))
        r = refuse(err, "what a file is");
    else if (!take_sha256(row, f.sha256))
        r = refuse(err, "a hash");
    else if (!take_path(row, &f))
        r = refuse(err, "an address");
    else if (!f.sdist && !is_named_so(&f))
        r = refuse(err, "a file of another name");
    if (r < 0) {
        free(f.path);
        return r;
    }
    a->files[a->file_count++] = f;
    return 0;
}

static int take_install(struct kr_answer *a, const json_t *rows, bool build, struct kr_err *err)
{
    size_t count = json_array_size(rows);
    int r = 0;

    if (!json_is_array(rows) || count > KR_PACKAGE_ITEMS_MAX)
        return refuse(err, "what is to be installed");
    a->files = calloc(count + 1, sizeof *a->files);
    if (!a->files)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the resolver's answer");
    for (size_t i = 0; i < count && r >= 0; i++)
        r = take_row(a, json_array_get(rows, i), build, err);
    return r;
}

static int take_satisfied(struct kr_answer *a, const json_t *rows, struct kr_err *err)
{
    size_t count = json_array_size(rows);

    if (!json_is_array(rows) || count > KR_PACKAGE_ITEMS_MAX)
        return refuse(err, "what is there");
    a->have = calloc(count + 1, sizeof *a->have);
    if (!a->have)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the resolver's answer");
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i), *place = json_object_get(row, "location");
        struct kr_answer_have *h = &a->have[a->have_count];

        if (!take_name(row, h->name, h->canonical) || !take_text(row, "version", h->version, sizeof h->version) ||
            !take_bool(row, "requested", &h->requested) || !json_is_string(place))
            return refuse(err, "what is there");
        h->in_venv = strncmp(json_string_value(place), "/venv/", 6) == 0 ||
                     strncmp(json_string_value(place), "/krait/packages/", 16) == 0;
        a->have_count++;
    }
    return 0;
}

/* Texts, cut where they are too long, at most so many. */
static json_t *take_texts(const json_t *list, size_t max, size_t len)
{
    json_t *out = json_array();

    for (size_t i = 0; i < json_array_size(list) && i < max; i++) {
        const json_t *one = json_array_get(list, i);

        if (json_is_string(one) && json_string_length(one) <= len)
            json_array_append(out, (json_t *)one);
    }
    return out;
}

static int take_error(struct kr_answer *a, const json_t *o, struct kr_err *err)
{
    const char *text = json_string_value(json_object_get(o, "error"));
    const char *kind = json_string_value(json_object_get(o, "kind"));

    if (!text || strlen(text) > ERROR_MAX || !kind || !is_kind(kind))
        return refuse(err, "an error without a kind");
    a->error = strdup(text);
    a->names = take_texts(json_object_get(o, "names"), NAMES_MAX, KR_REQ_NAME_MAX);
    snprintf(a->kind, sizeof a->kind, "%s", kind);
    return a->error ? 0 : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the resolver's answer");
}

static int take_answer(struct kr_answer *a, const json_t *o, bool build, struct kr_err *err)
{
    int r;

    if (a->is_whole)
        return refuse(err, "there are two");
    if (json_object_get(o, "error"))
        r = take_error(a, o, err);
    else if ((r = take_install(a, json_object_get(o, "install"), build, err)) >= 0)
        r = take_satisfied(a, json_object_get(o, "satisfied"), err);
    if (r < 0)
        return r;
    a->notes = take_texts(json_object_get(o, "warnings"), NOTES_MAX, NOTE_MAX);
    a->is_whole = true;
    return 0;
}

int kr_answer_line(struct kr_answer *a, const char *line, size_t len, bool build,
                   char progress[KR_ANSWER_PROGRESS_MAX + 1], struct kr_err *err)
{
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    int r = 0;

    if (!json_is_object(o)) { /* a module of the machine's Python may print something when it is imported */
        json_decref(o);
        return 0;
    }
    if (json_object_get(o, "progress"))
        r = take_text(o, "progress", progress, KR_ANSWER_PROGRESS_MAX + 1);
    else if (json_object_get(o, "install") || json_object_get(o, "error"))
        r = take_answer(a, o, build, err);
    json_decref(o);
    return r;
}

/* What is judged by itself: files, and the code cells of notebooks.
 *
 * Called by check_app.c, in the engine, since a file may be hostile: nothing is parsed with the caller's rights.
 * Invariant: a unit has a text, or a reason why it cannot be judged; a text is UTF-8 without NUL, as the kernel's
 * frames need it. */
#include "check.h"
#include "json_load.h"
#include "json_scan.h"
#include "utf8.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS_MAX 10000u /* of a notebook */

static const struct kr_scan_max scan_max = {.values = 1000000, .depth = 64, .scalar = 512};

void kr_check_units_done(struct kr_check_units *units)
{
    for (size_t i = 0; i < units->count; i++) {
        free(units->rows[i].owned);
        json_decref(units->rows[i].findings);
    }
    free(units->rows);
    *units = (struct kr_check_units){0};
}

static struct kr_check_unit *add_unit(struct kr_check_units *units, const struct kr_check_file *file)
{
    size_t room = units->room ? 2 * units->room : 16;
    struct kr_check_unit *more;

    if (units->count == units->room) {
        more = reallocarray(units->rows, room, sizeof *more);
        if (!more)
            return NULL;
        units->rows = more;
        units->room = room;
    }
    units->rows[units->count] = (struct kr_check_unit){.file = file};
    return &units->rows[units->count++];
}

/* Takes the text, if the kernel can be sent it. */
static void set_text(struct kr_check_unit *u, const char *text, size_t len)
{
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark, as python3 does */
        text += 3;
        len -= 3;
    }
    for (size_t at = 0; at < len;) {
        int n = kr_utf8_next((const unsigned char *)text + at, len - at, NULL);

        if (n <= 0 || text[at] == '\0') {
            snprintf(u->why, sizeof u->why, n <= 0 ? "is not UTF-8 (byte %zu)" : "has a NUL character (byte %zu)", at);
            return;
        }
        at += (size_t)n;
    }
    u->text = text;
    u->len = len;
}

/* ---- notebooks ---- */

static bool is_notebook(const struct kr_check_file *file)
{
    const char *dot = strrchr(file->path, '.');

    return dot && strcmp(dot, ".ipynb") == 0;
}

/* nbformat 4: a text, or an array of lines with their line ends. NULL: neither, or no memory. */
static char *source_of(const json_t *cell, size_t *ret_len)
{
    const json_t *source = json_object_get(cell, "source"), *line;
    struct kr_buf buf;
    size_t i;

    kr_buf_init(&buf, KR_CHECK_FILE_MAX);
    if (json_is_string(source))
        kr_buf_add(&buf, json_string_value(source), json_string_length(source));
    else if (!json_is_array(source))
        return NULL;
    json_array_foreach(source, i, line)
    {
        if (!json_is_string(line)) {
            kr_buf_done(&buf);
            return NULL;
        }
        kr_buf_add(&buf, json_string_value(line), json_string_length(line));
    }
    if (buf.failed || buf.len == 0) {
        bool is_empty = !buf.failed;

        kr_buf_done(&buf);
        *ret_len = 0;
        return is_empty ? calloc(1, 1) : NULL;
    }
    return kr_buf_steal(&buf, ret_len);
}

static int add_cell(struct kr_check_units *units, const struct kr_check_file *file, const json_t *cell, unsigned number)
{
    struct kr_check_unit *u = add_unit(units, file);
    size_t len = 0;

    if (!u)
        return -ENOMEM;
    u->cell = number;
    u->owned = source_of(cell, &len);
    if (u->owned)
        set_text(u, u->owned, len);
    else
        snprintf(u->why, sizeof u->why, "has no source that can be read");
    return 0;
}

static int refuse_notebook(struct kr_check_units *units, const struct kr_check_file *file, const char *why)
{
    struct kr_check_unit *u = add_unit(units, file);

    if (!u)
        return -ENOMEM;
    snprintf(u->why, sizeof u->why, "is not a notebook: %s", why);
    return 0;
}

static int add_notebook(struct kr_check_units *units, const struct kr_check_file *file)
{
    json_t *notebook, *cells, *cell;
    json_error_t where;
    unsigned number = 0;
    int r = 0;
    size_t i;

    if (kr_scan_json(file->text, file->len, &scan_max) != KR_SCAN_FITS)
        return refuse_notebook(units, file, "JSON of too many values or too deep");
    notebook = kr_json_load(file->text, file->len, 0, &where);
    if (!notebook)
        return refuse_notebook(units, file, where.text);
    cells = json_object_get(notebook, "cells");
    if (!json_is_array(cells) || json_array_size(cells) > CELLS_MAX)
        r = refuse_notebook(units, file, "no array of cells, or too many of them");
    json_array_foreach(json_is_array(cells) && json_array_size(cells) <= CELLS_MAX ? cells : NULL, i, cell)
    {
        const char *type = json_string_value(json_object_get(cell, "cell_type"));

        if (type && strcmp(type, "code") == 0 && r >= 0)
            r = add_cell(units, file, cell, ++number);
    }
    json_decref(notebook);
    return r;
}

/* ---- all of them ---- */

static int add_file_units(struct kr_check_units *units, const struct kr_check_file *file)
{
    struct kr_check_unit *u;

    if (file->text && is_notebook(file))
        return add_notebook(units, file);
    u = add_unit(units, file);
    if (!u)
        return -ENOMEM;
    if (file->text)
        set_text(u, file->text, file->len);
    else
        snprintf(u->why, sizeof u->why, "cannot be read: %s", file->why);
    return 0;
}

int kr_check_units_make(const struct kr_check_files *files, struct kr_check_units *ret)
{
    struct kr_check_units units = {0};
    int r = 0;

    for (size_t i = 0; i < files->count && r >= 0; i++)
        r = add_file_units(&units, &files->rows[i]);
    if (r < 0) {
        kr_check_units_done(&units);
        return r;
    }
    *ret = units;
    return 0;
}

/* Fuzzes the texts of a wheel: its file name, METADATA, WHEEL, entry_points.txt and RECORD. What must hold: what is
 * taken fits in its room and can be written into a script or a list.
 *
 * An input is: a byte that says which text (0 to 4), then the text. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-wheel-texts"
#include "err.h"
#include "path_list.h"
#include "replay.h"
#include "wheel_internal.h"
#include <ctype.h>

static struct kr_zip_entry entries[] = {
    {.name = "good-1.0.dist-info/METADATA", .bytes = 3},
    {.name = "good-1.0.dist-info/RECORD"},
    {.name = "good/__init__.py", .bytes = 10},
    {.name = "good/a, \"b\".py"},
};

static void inspect_name(const char *text)
{
    struct kr_wheel_name n;
    struct kr_err err;

    if (kr_wheel_name_parse(text, &n, &err) < 0)
        return;
    must(strlen(text) < KR_WHEEL_NAME_ROOM && !strchr(text, '/'), "a file name is one part of a path");
    must(strspn(n.name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(n.name), "a name is canonical");
    kr_wheel_name_fits(&n, "3.11.2");
}

static void inspect_points(const struct kr_wheel *w)
{
    for (size_t i = 0; i < w->point_count; i++) {
        const struct kr_wheel_point *p = &w->points[i];

        must(!kr_path_flaw(p->name, strlen(p->name)) && !strchr(p->name, '/'), "a command is a file name");
        for (const char *c = p->module; *c; c++)
            must((unsigned char)*c >= 0x80 || isalnum((unsigned char)*c) || *c == '_' || *c == '.',
                 "a module is a name");
        for (const char *c = p->attribute; *c; c++)
            must((unsigned char)*c >= 0x80 || isalnum((unsigned char)*c) || *c == '_' || *c == '.',
                 "so is its attribute");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kr_wheel_file files[sizeof entries / sizeof *entries] = {0};
    struct kr_wheel *w = calloc(1, sizeof *w);
    char *text = strndup((const char *)data + (size > 0), size > 0 ? size - 1 : 0);
    const char *bytes = (const char *)data + 1;
    struct kr_err err = {0};
    int r = 0;

    if (size == 0 || !w || !text || kr_wheel_name_parse("good-1.0-py3-none-any.whl", &w->name, &err) < 0) {
        free(text);
        free(w);
        return 0;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        files[i].entry = &entries[i];
    w->files = files;
    w->file_count = sizeof files / sizeof *files;
    w->info = "good-1.0.dist-info";
    switch (data[0] % 5) {
    case 0:
        inspect_name(text);
        break;
    case 1:
        r = kr_wheel_read_metadata(w, bytes, size - 1, &err);
        must(r < 0 || (strcmp(w->title, "good") == 0 || strcasecmp(w->title, "good") == 0), "the name is the wheel's");
        break;
    case 2:
        r = kr_wheel_read_wheel(w, bytes, size - 1, &err);
        break;
    case 3:
        r = kr_wheel_read_points(w, bytes, size - 1, &err);
        inspect_points(w);
        break;
    default:
        r = kr_wheel_read_record(w, bytes, size - 1, &err);
        must(r < 0 || (files[0].recorded && files[2].recorded && files[3].recorded), "each file has its line");
    }
    must(r >= 0 || err.msg[0] != '\0', "a refusal says why");
    w->files = NULL;
    w->file_count = 0;
    w->info = NULL;
    kr_wheel_free(w);
    free(text);
    return 0;
}

/* Opening a wheel: the archive, its name and the texts in *.dist-info must agree before anything is written. See
 * wheel.h. */
#include "err.h"
#include "fd.h"
#include "path_list.h"
#include "pkg_version.h"
#include "requirement.h"
#include "wheel_internal.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB (1ull << 30)
#define METADATA_MAX (4u << 20)
#define WHEEL_MAX (64u << 10)
#define RECORD_MAX (32u << 20)
#define POINTS_TEXT_MAX (1u << 20)
#define INFO ".dist-info"
#define DATA ".data"

const struct kr_wheel_limits kr_wheel_limits_default = {
    .archive_max = 4 * GIB, .bytes_max = 8 * GIB, .file_max = 4 * GIB, .files_max = 100000, .ratio_max = 1100};

static int refuse(struct kr_err *err, const char *name, size_t len, const char *what)
{
    char shown[KR_ZIP_SHOWN_ROOM];

    kr_err_set(err, KR_ERR_INVALID, 0, "the wheel's %s %s", kr_zip_show(name, len, shown), what);
    return -EINVAL;
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    return len > strlen(end) && memcmp(text + len - strlen(end), end, strlen(end)) == 0;
}

/* Is this NAME-VERSION of the wheel, in whatever spelling? */
static bool is_of_wheel(const struct kr_wheel *w, const char *text, size_t len)
{
    char canonical[KR_REQ_NAME_ROOM], version[KR_PKG_VERSION_MAX];
    struct kr_pkg_version v;

    for (size_t i = 1; i + 1 < len; i++)
        if (text[i] == '-' && len - i - 1 < KR_PKG_VERSION_MAX && kr_requirement_canonical(text, i, canonical) &&
            strcmp(canonical, w->name.name) == 0 && kr_pkg_version_parse(text + i + 1, len - i - 1, &v) == 0 &&
            strcmp(kr_pkg_version_text(&v, version, sizeof version), w->name.version) == 0)
            return true;
    return false;
}

/* ---- finding ---- */

static int by_name(const void *a, const void *b)
{
    const struct kr_wheel_file *x = a, *y = b;

    return strcmp(x->entry->name, y->entry->name);
}

struct kr_wheel_file *kr_wheel_find(const struct kr_wheel *w, const char *name, size_t len)
{
    struct kr_zip_entry entry;
    struct kr_wheel_file wanted = {.entry = &entry};

    if (strlen(name) != len || w->file_count == 0)
        return NULL;
    entry.name = name;
    return bsearch(&wanted, w->files, w->file_count, sizeof *w->files, by_name);
}

static int list_files(struct kr_wheel *w, struct kr_err *err)
{
    w->files = calloc(w->zip.count + 1u, sizeof *w->files);
    if (!w->files)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the files of a wheel");
    for (w->file_count = 0; w->file_count < w->zip.count; w->file_count++)
        w->files[w->file_count] =
            (struct kr_wheel_file){.entry = &w->zip.entries[w->file_count], .place = KR_WHEEL_LEFT_OUT};
    qsort(w->files, w->file_count, sizeof *w->files, by_name);
    return 0;
}

/* Folders take room on a disk as files do, and one name can stand for 63 of them. */
static int count_folders(struct kr_wheel *w, struct kr_err *err)
{
    const char *before = "";

    for (uint32_t i = 0; i < w->file_count; i++) { /* in order of names: what is in one folder is together */
        const char *name = w->files[i].entry->name;
        size_t same = 0;

        if (w->files[i].entry->folder)
            continue; /* counts with what is in it; empty ones are not made */
        w->made_count++;
        while (before[same] && before[same] == name[same])
            same++;
        for (const char *slash = strchr(name + same, '/'); slash; slash = strchr(slash + 1, '/'))
            w->made_count++;
        before = name;
    }
    if (kr_wheel_files(w) <= w->limits.files_max)
        return 0;
    kr_err_set(err, KR_ERR_LIMIT, 0, "the archive has %u files and folders, and %u are taken", kr_wheel_files(w),
               w->limits.files_max);
    return -EFBIG;
}

/* The one folder NAME-VERSION.dist-info; *.data must be of the same spelling. */
static int find_info(struct kr_wheel *w, struct kr_err *err)
{
    for (uint32_t i = 0; i < w->file_count; i++) {
        const char *name = w->files[i].entry->name;
        size_t len = strcspn(name, "/");

        if (!ends_with(name, len, INFO) || (w->info && strlen(w->info) == len && strncmp(w->info, name, len) == 0))
            continue;
        if (w->info)
            return refuse(err, name, len, "is a second *.dist-info");
        if (!is_of_wheel(w, name, len - strlen(INFO)))
            return refuse(err, name, len, "is for another name or version than the wheel's file name");
        w->info = strndup(name, len);
        if (!w->info)
            return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the files of a wheel");
    }
    if (!w->info) {
        kr_err_set(err, KR_ERR_INVALID, 0, "the wheel has no *.dist-info");
        return -EINVAL;
    }
    return 0;
}

/* ---- the texts ---- */

typedef int read_text(struct kr_wheel *w, const char *text, size_t len, struct kr_err *err);

static int read_info(struct kr_wheel *w, const char *file, size_t max, bool required, read_text *read,
                     struct kr_err *err)
{
    char name[KR_ZIP_NAME_MAX + 32];
    int n = snprintf(name, sizeof name, "%s/%s", w->info, file);
    const struct kr_wheel_file *f = n < (int)sizeof name ? kr_wheel_find(w, name, (size_t)n) : NULL;
    cleanup_free char *text = NULL;
    size_t len;
    int r;

    if (!f || f->entry->folder) {
        if (!required)
            return 0;
        kr_err_set(err, KR_ERR_INVALID, 0, "the wheel has no %s", file);
        return -EINVAL;
    }
    r = kr_zip_read_all(&w->zip, f->entry, max, &text, &len, err);
    return r < 0 ? r : read(w, text, len, err);
}

static int read_texts(struct kr_wheel *w, struct kr_err *err)
{
    int r;

    if ((r = read_info(w, "METADATA", METADATA_MAX, true, kr_wheel_read_metadata, err)) < 0 ||
        (r = read_info(w, "WHEEL", WHEEL_MAX, true, kr_wheel_read_wheel, err)) < 0 ||
        (r = read_info(w, "RECORD", RECORD_MAX, true, kr_wheel_read_record, err)) < 0)
        return r;
    return read_info(w, "entry_points.txt", POINTS_TEXT_MAX, false, kr_wheel_read_points, err);
}

/* ---- where each file goes ---- */

/* What we write ourselves, or what says how a distribution was installed: that is for who installs it to say. */
static bool is_ours(const struct kr_wheel *w, const char *name)
{
    static const char *const ours[] = {"RECORD",    "RECORD.jws", "RECORD.p7s",
                                       "INSTALLER", "REQUESTED",  "direct_url.json"};
    size_t info = strlen(w->info);

    if (strncmp(name, w->info, info) != 0 || name[info] != '/')
        return false;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(name + info + 1, ours[i]) == 0)
            return true;
    return false;
}

/* Where a file of *.data goes: *ret_rest is what follows the scheme. LEFT_OUT: it has no place. */
static enum kr_wheel_place scheme_of(const char *rest, const char **ret_rest)
{
    static const struct {
        const char *word;
        enum kr_wheel_place place;
    } schemes[] = {{"purelib/", KR_WHEEL_SITE},
                   {"platlib/", KR_WHEEL_SITE},
                   {"scripts/", KR_WHEEL_BIN},
                   {"data/", KR_WHEEL_DATA},
                   {"headers/", KR_WHEEL_HEADERS}};

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(rest, schemes[i].word, strlen(schemes[i].word)) == 0) {
            *ret_rest = rest + strlen(schemes[i].word);
            return schemes[i].place;
        }
    return KR_WHEEL_LEFT_OUT;
}

static int set_path(const struct kr_wheel *w, struct kr_wheel_file *f, const char *rest)
{
    int n;

    switch (f->place) {
    case KR_WHEEL_SITE:
        n = asprintf(&f->path, "site/%s", rest);
        break;
    case KR_WHEEL_BIN:
        n = asprintf(&f->path, "bin/%s", rest);
        break;
    case KR_WHEEL_DATA:
        n = asprintf(&f->path, "data/%s", rest);
        break;
    case KR_WHEEL_HEADERS:
        n = asprintf(&f->path, "headers/%s/%s", w->name.name, rest);
        break;
    case KR_WHEEL_LEFT_OUT:
    default:
        return 0;
    }
    if (n < 0) {
        f->path = NULL;
        return -ENOMEM;
    }
    return 0;
}

static int place_file(struct kr_wheel *w, struct kr_wheel_file *f, struct kr_err *err)
{
    const char *name = f->entry->name, *rest = name;
    size_t top = strcspn(name, "/"), stem = strlen(w->info) - strlen(INFO);

    if (name[top] == '/' && ends_with(name, top, DATA)) {
        if (top != stem + strlen(DATA) || strncmp(name, w->info, stem) != 0)
            return refuse(err, name, strlen(name), "is in the *.data of another distribution");
        f->place = scheme_of(name + top + 1, &rest);
        if (f->place == KR_WHEEL_LEFT_OUT)
            return f->entry->folder ? 0 : refuse(err, name, strlen(name), "is in a folder of *.data that is not known");
        top = strcspn(rest, "/");
        if (f->place == KR_WHEEL_SITE && ends_with(rest, top, INFO))
            return refuse(err, name, strlen(name), "is a *.dist-info within *.data");
    } else if (!is_ours(w, name)) {
        f->place = KR_WHEEL_SITE;
    }
    if (f->entry->folder)
        f->place = KR_WHEEL_LEFT_OUT; /* folders come with what is in them */
    return set_path(w, f, rest) < 0 ? kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the files of a wheel") : 0;
}

/* A second time, now where things are put: two schemes, or a script and a command, may meet. */
static int check_places(const struct kr_wheel *w, struct kr_err *err)
{
    cleanup_free struct kr_path_item *items = calloc(w->file_count + w->point_count + 1, sizeof *items);
    struct kr_texts commands = {0};
    size_t count = 0;
    int r = items ? 0 : -ENOMEM;

    for (size_t i = 0; i < w->point_count && r == 0; i++) {
        char path[300];
        int n = snprintf(path, sizeof path, "bin/%s", w->points[i].name);

        r = kr_texts_add(&commands, path, (size_t)n);
    }
    for (size_t i = 0; i < commands.count && r == 0; i++)
        items[count++] = (struct kr_path_item){commands.items[i], false};
    for (uint32_t i = 0; i < w->file_count && r == 0; i++)
        if (w->files[i].path)
            items[count++] = (struct kr_path_item){w->files[i].path, false};
    r = r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the files of a wheel") : kr_path_list_check(items, count, err);
    kr_texts_done(&commands);
    return r;
}

/* ---- what it offers ---- */

static bool is_identifier(const char *text, size_t len)
{
    if (len == 0 || isdigit((unsigned char)text[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x80 && !isalnum((unsigned char)text[i]) && text[i] != '_')
            return false;
    return true;
}

static bool is_code(const char *path, size_t len)
{
    return ends_with(path, len, ".py") || ends_with(path, len, ".so") || ends_with(path, len, ".pyc");
}

static int list_offers(struct kr_wheel *w, struct kr_err *err)
{
    int r = 0;

    for (uint32_t i = 0; i < w->file_count && r == 0; i++) {
        const struct kr_wheel_file *f = &w->files[i];
        const char *rest = f->path ? strchr(f->path, '/') + 1 : NULL;
        size_t top;

        if (f->place == KR_WHEEL_BIN)
            r = kr_texts_add(&w->scripts, rest, strlen(rest));
        if (f->place != KR_WHEEL_SITE || !is_code(rest, strlen(rest)))
            continue;
        top = strcspn(rest, "/");
        if (rest[top] == '\0')
            top = strcspn(rest, ".");
        if (is_identifier(rest, top) && strncmp(rest, "__pycache__", top) != 0)
            r = kr_texts_add(&w->modules, rest, top);
    }
    for (size_t i = 0; i < w->point_count && r == 0; i++)
        r = kr_texts_add(&w->scripts, w->points[i].name, strlen(w->points[i].name));
    kr_texts_settle(&w->modules);
    kr_texts_settle(&w->scripts);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the files of a wheel") : 0;
}

/* ---- the whole ---- */

static int open_wheel(struct kr_wheel *w, int fd, const char *file_name, struct kr_err *err)
{
    int r;

    if ((r = kr_wheel_name_parse(file_name, &w->name, err)) < 0 ||
        (r = kr_zip_open(fd, &w->limits, &w->zip, err)) < 0 || (r = list_files(w, err)) < 0 ||
        (r = count_folders(w, err)) < 0 || (r = find_info(w, err)) < 0 || (r = read_texts(w, err)) < 0)
        return r;
    for (uint32_t i = 0; i < w->file_count; i++)
        if ((r = place_file(w, &w->files[i], err)) < 0)
            return r;
    if ((r = check_places(w, err)) < 0)
        return r;
    return list_offers(w, err);
}

int kr_wheel_open(int fd, const char *file_name, const struct kr_wheel_limits *limits, struct kr_wheel **ret_wheel,
                  struct kr_err *err)
{
    struct kr_wheel *w = calloc(1, sizeof *w);
    int r;

    if (!w)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a wheel");
    w->limits = *limits;
    r = open_wheel(w, fd, file_name, err);
    if (r < 0)
        kr_wheel_free(w);
    else
        *ret_wheel = w;
    return r;
}

void kr_wheel_free(struct kr_wheel *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->file_count; i++)
        free(w->files[i].path);
    for (size_t i = 0; i < w->point_count; i++) {
        free(w->points[i].name);
        free(w->points[i].module);
        free(w->points[i].attribute);
    }
    kr_texts_done(&w->modules);
    kr_texts_done(&w->scripts);
    kr_texts_done(&w->spread);
    free(w->points);
    free(w->files);
    free(w->info);
    kr_zip_done(&w->zip);
    free(w);
}

const char *kr_wheel_title(const struct kr_wheel *w)
{
    return w->title;
}

const char *kr_wheel_version(const struct kr_wheel *w)
{
    return w->version;
}

uint64_t kr_wheel_bytes(const struct kr_wheel *w)
{
    return w->zip.bytes;
}

uint32_t kr_wheel_files(const struct kr_wheel *w)
{
    return w->made_count;
}

size_t kr_wheel_modules(const struct kr_wheel *w, const char *const **ret_modules)
{
    *ret_modules = (const char *const *)w->modules.items;
    return w->modules.count;
}

size_t kr_wheel_scripts(const struct kr_wheel *w, const char *const **ret_scripts)
{
    *ret_scripts = (const char *const *)w->scripts.items;
    return w->scripts.count;
}

size_t kr_wheel_spread(const struct kr_wheel *w, const char *const **ret_folders)
{
    *ret_folders = (const char *const *)w->spread.items;
    return w->spread.count;
}

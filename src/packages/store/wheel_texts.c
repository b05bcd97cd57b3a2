/* The texts of a wheel's *.dist-info but RECORD: METADATA, WHEEL, entry_points.txt. Hostile, read strictly; what is not
 * needed is not judged. See wheel_internal.h. */
#include "err.h"
#include "fd.h"
#include "pkg_version.h"
#include "requirement.h"
#include "utf8.h"
#include "wheel_internal.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define POINTS_MAX 2000u
#define POINT_MAX 255u /* bytes of a name, of a module */

static int refuse(struct kr_err *err, const char *file, const char *what)
{
    kr_err_set(err, KR_ERR_INVALID, 0, "the wheel's %s %s", file, what);
    return -EINVAL;
}

static int refuse_text(struct kr_err *err, const char *file, const char *text, size_t len, const char *what)
{
    char shown[KR_ZIP_SHOWN_ROOM];

    kr_err_set(err, KR_ERR_INVALID, 0, "the wheel's %s: %s %s", file, kr_zip_show(text, len, shown), what);
    return -EINVAL;
}

/* ---- lists of texts ---- */

int kr_texts_add(struct kr_texts *list, const char *text, size_t len)
{
    char *copy;

    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 16;
        char **items = realloc(list->items, room * sizeof *items);

        if (!items)
            return -ENOMEM;
        list->items = items;
        list->room = room;
    }
    copy = strndup(text, len);
    if (!copy)
        return -ENOMEM;
    list->items[list->count++] = copy;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void kr_texts_settle(struct kr_texts *list)
{
    size_t kept = 0;

    if (list->count == 0)
        return;
    qsort(list->items, list->count, sizeof(char *), by_text);
    for (size_t i = 0; i < list->count; i++)
        if (kept > 0 && strcmp(list->items[kept - 1], list->items[i]) == 0)
            free(list->items[i]);
        else
            list->items[kept++] = list->items[i];
    list->count = kept;
}

void kr_texts_done(struct kr_texts *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct kr_texts){0};
}

/* ---- headers as those of mail ---- */

struct header {
    const char *name, *value; /* the value without blanks around it; a folded one only its first line */
    size_t name_len, value_len;
};

/* The next line, without its end. False at the end of the text. */
static bool next_line(const char **at, const char *end, const char **ret_line, size_t *ret_len)
{
    const char *newline;

    if (*at >= end)
        return false;
    newline = memchr(*at, '\n', (size_t)(end - *at));
    *ret_line = *at;
    *ret_len = (size_t)((newline ? newline : end) - *at);
    *at = newline ? newline + 1 : end;
    if (*ret_len > 0 && (*ret_line)[*ret_len - 1] == '\r')
        (*ret_len)--;
    return true;
}

static void trim(const char **text, size_t *len)
{
    while (*len > 0 && (**text == ' ' || **text == '\t')) {
        (*text)++;
        (*len)--;
    }
    while (*len > 0 && ((*text)[*len - 1] == ' ' || (*text)[*len - 1] == '\t'))
        (*len)--;
}

/* 1: a header, 0: no more (an empty line or the end), -EINVAL: neither a header nor the rest of one. */
static int next_header(const char **at, const char *end, struct header *ret_header)
{
    const char *line, *colon;
    size_t len;

    while (next_line(at, end, &line, &len)) {
        if (len == 0)
            return 0;
        if (line[0] == ' ' || line[0] == '\t')
            continue;
        colon = memchr(line, ':', len);
        if (!colon || colon == line)
            return -EINVAL;
        ret_header->name = line;
        ret_header->name_len = (size_t)(colon - line);
        ret_header->value = colon + 1;
        ret_header->value_len = len - ret_header->name_len - 1;
        for (size_t i = 0; i < ret_header->name_len; i++)
            if (!isgraph((unsigned char)line[i]))
                return -EINVAL;
        trim(&ret_header->value, &ret_header->value_len);
        return 1;
    }
    return 0;
}

static bool is_named(const struct header *h, const char *name)
{
    return h->name_len == strlen(name) && strncasecmp(h->name, name, h->name_len) == 0;
}

static bool is_text(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        int n = kr_utf8_next((const unsigned char *)text + i, len - i, NULL);

        if (n <= 0 || text[i] == '\0')
            return false;
        i += (size_t)n;
    }
    return true;
}

/* ---- METADATA ---- */

/* What another distribution's name is followed by says whether it is asked of the index. */
static int check_required(const struct header *h, struct kr_err *err)
{
    size_t at = 0;

    while (at < h->value_len && (isalnum((unsigned char)h->value[at]) || strchr("-_.", h->value[at])))
        at++;
    if (at == 0 || !isalnum((unsigned char)h->value[0]))
        return refuse_text(err, "METADATA", h->value, h->value_len,
                           "is required, and is not the name of a distribution");
    while (at < h->value_len && isspace((unsigned char)h->value[at]))
        at++;
    if (at < h->value_len && h->value[at] == '[') {
        const char *close = memchr(h->value + at, ']', h->value_len - at);

        at = close ? (size_t)(close - h->value) + 1 : h->value_len;
        while (at < h->value_len && isspace((unsigned char)h->value[at]))
            at++;
    }
    if (at < h->value_len && h->value[at] == '@')
        return refuse_text(err, "METADATA", h->value, h->value_len, "is required from an address of its own");
    return 0;
}

/* One of the headers that must be there once. */
static int check_own(struct kr_wheel *w, const struct header *h, unsigned *seen, struct kr_err *err)
{
    char canonical[KR_REQ_NAME_ROOM], text[KR_PKG_VERSION_MAX];
    struct kr_pkg_version version;

    if (is_named(h, "Name")) {
        if ((*seen)++ > 0)
            return refuse(err, "METADATA", "has two names");
        if (!kr_requirement_canonical(h->value, h->value_len, canonical) || strcmp(canonical, w->name.name) != 0)
            return refuse_text(err, "METADATA", h->value, h->value_len, "is not the name in the wheel's file name");
        memcpy(w->title, h->value, h->value_len);
        w->title[h->value_len] = '\0';
        return 0;
    }
    if ((*seen)++ > 0)
        return refuse(err, "METADATA", "has two versions");
    if (h->value_len >= sizeof w->version || kr_pkg_version_parse(h->value, h->value_len, &version) < 0 ||
        strcmp(kr_pkg_version_text(&version, text, sizeof text), w->name.version) != 0)
        return refuse_text(err, "METADATA", h->value, h->value_len, "is not the version in the wheel's file name");
    memcpy(w->version, h->value, h->value_len);
    w->version[h->value_len] = '\0';
    return 0;
}

int kr_wheel_read_metadata(struct kr_wheel *w, const char *text, size_t len, struct kr_err *err)
{
    const char *at = text, *end = text + len;
    unsigned names = 0, versions = 0, formats = 0;
    struct header h;
    int r;

    if (!is_text(text, len))
        return refuse(err, "METADATA", "is not text in UTF-8");
    while ((r = next_header(&at, end, &h)) > 0) {
        if (is_named(&h, "Name"))
            r = check_own(w, &h, &names, err);
        else if (is_named(&h, "Version"))
            r = check_own(w, &h, &versions, err);
        else if (is_named(&h, "Requires-Dist"))
            r = check_required(&h, err);
        else if (is_named(&h, "Metadata-Version") &&
                 (formats++ > 0 || h.value_len < 3 || h.value[1] != '.' || (h.value[0] != '1' && h.value[0] != '2')))
            return refuse(err, "METADATA", "has a Metadata-Version other than 1 or 2");
        if (r < 0)
            return r;
    }
    if (r < 0)
        return refuse(err, "METADATA", "has a line that is not a header");
    if (names != 1 || versions != 1 || formats != 1)
        return refuse(err, "METADATA", "lacks Metadata-Version, Name or Version");
    return 0;
}

/* ---- WHEEL ---- */

int kr_wheel_read_wheel(struct kr_wheel *w, const char *text, size_t len, struct kr_err *err)
{
    const char *at = text, *end = text + len;
    unsigned versions = 0, pures = 0;
    struct header h;
    int r;

    if (!is_text(text, len))
        return refuse(err, "WHEEL", "is not text in UTF-8");
    while ((r = next_header(&at, end, &h)) > 0) {
        if (is_named(&h, "Wheel-Version") && (versions++ > 0 || h.value_len < 3 || strncmp(h.value, "1.", 2) != 0))
            return refuse(err, "WHEEL", "has a Wheel-Version other than 1");
        if (!is_named(&h, "Root-Is-Purelib"))
            continue;
        w->pure = h.value_len == 4 && strncasecmp(h.value, "true", 4) == 0;
        if (pures++ > 0 || (!w->pure && (h.value_len != 5 || strncasecmp(h.value, "false", 5) != 0)))
            return refuse(err, "WHEEL", "has a Root-Is-Purelib other than true or false");
    }
    if (r < 0)
        return refuse(err, "WHEEL", "has a line that is not a header");
    if (versions != 1 || pures != 1)
        return refuse(err, "WHEEL", "lacks Wheel-Version or Root-Is-Purelib");
    return 0;
}

/* ---- entry_points.txt ---- */

/* Names of Python with dots between them. Letters of any script: what is no name is an error of Python's later, and
 * none of the characters here can end the line that it is put into. */
static bool is_dotted_name(const char *text, size_t len)
{
    bool start = true;

    if (len == 0 || len > POINT_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '.') {
            if (start)
                return false;
            start = true;
            continue;
        }
        if (c < 0x80 && c != '_' && !isalpha(c) && (start || !isdigit(c)))
            return false;
        start = false;
    }
    return !start;
}

static bool is_command_name(const char *text, size_t len)
{
    if (len == 0 || len > POINT_MAX || text[0] == '.' || text[0] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("-_.+", text[i]))
            return false;
    return true;
}

static int add_point(struct kr_wheel *w, const char *name, size_t name_len, const char *value, size_t len)
{
    const char *colon = memchr(value, ':', len), *module = value, *attribute;
    size_t module_len, attribute_len;
    struct kr_wheel_point *points, *p;

    if (!colon || w->point_count >= POINTS_MAX)
        return -EINVAL;
    module_len = (size_t)(colon - value);
    attribute = colon + 1;
    attribute_len = len - module_len - 1;
    if (memchr(attribute, '[', attribute_len)) /* extras: what they need is not ours to see to */
        attribute_len = (size_t)((const char *)memchr(attribute, '[', attribute_len) - attribute);
    trim(&module, &module_len);
    trim(&attribute, &attribute_len);
    if (!is_command_name(name, name_len) || !is_dotted_name(module, module_len) ||
        !is_dotted_name(attribute, attribute_len))
        return -EINVAL;
    points = realloc(w->points, (w->point_count + 1) * sizeof *points);
    if (!points)
        return -ENOMEM;
    w->points = points;
    p = &points[w->point_count++];
    p->name = strndup(name, name_len);
    p->module = strndup(module, module_len);
    p->attribute = strndup(attribute, attribute_len);
    return p->name && p->module && p->attribute ? 0 : -ENOMEM;
}

int kr_wheel_read_points(struct kr_wheel *w, const char *text, size_t len, struct kr_err *err)
{
    const char *at = text, *end = text + len, *line, *equals;
    bool wanted = false;
    size_t n;
    int r;

    if (!is_text(text, len))
        return refuse(err, "entry_points.txt", "is not text in UTF-8");
    while (next_line(&at, end, &line, &n)) {
        const char *whole = line;
        size_t whole_len = n, name_len;

        trim(&line, &n);
        if (n == 0 || line[0] == '#' || line[0] == ';')
            continue;
        if (line[0] == '[') {
            wanted = (n == 17 && strncmp(line, "[console_scripts]", n) == 0) ||
                     (n == 13 && strncmp(line, "[gui_scripts]", n) == 0);
            continue;
        }
        if (!wanted)
            continue;
        equals = memchr(line, '=', n);
        name_len = equals ? (size_t)(equals - line) : 0;
        if (equals) {
            const char *name = line, *value = equals + 1;
            size_t value_len = n - name_len - 1;

            trim(&name, &name_len);
            trim(&value, &value_len);
            r = add_point(w, name, name_len, value, value_len);
            if (r == -ENOMEM)
                return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "entry points");
            if (r == 0)
                continue;
        }
        return refuse_text(err, "entry_points.txt", whole, whole_len, "is not NAME = MODULE:ATTRIBUTE");
    }
    return 0;
}

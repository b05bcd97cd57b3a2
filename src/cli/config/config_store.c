/* From texts to values: one checker per type, and the numbers' way back.
 *
 * Called by config_load.c and config_check.c for every value, wherever it came from. Invariant: a value is stored
 * whole or not at all; a refusal says what came (never a secret), what it should be and an example. */
#include "config_rows.h"
#include "fd.h"
#include "log.h"
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ITEMS_MAX 64u
#define WORD_MAX 1024u

/* What a value of the type is called in "… is not X". */
static const char *const type_words[] = {
    [KR_SET_BOOL] = "true or false",
    [KR_SET_COUNT] = "a whole number",
    [KR_SET_SIZE] = "a size",
    [KR_SET_TIME] = "a time",
    [KR_SET_CORES] = "a number of cores",
    [KR_SET_CHOICE] = "one of",
    [KR_SET_TEXT] = "a name",
    [KR_SET_SECRET] = "a key: 1 to 256 visible ASCII characters",
    [KR_SET_PATH] = "a path",
    [KR_SET_ADDRESS] = "an IP address or localhost",
    [KR_SET_URL] = "an http or https URL without query",
    [KR_SET_INDEX] = "an http or https URL without query, or the path of a folder",
    [KR_SET_WORDS] = "a list",
    [KR_SET_PATHS] = "a list of paths",
    [KR_SET_MOUNTS] = "a list of NAME=DIR",
    [KR_SET_RULE] = "a network rule: none, loopback, index, allow:HOST,… or open",
};
static_assert(sizeof type_words / sizeof *type_words == KR_SET_MAX_, "every type has its words");

bool kr_config_is_list(const struct kr_config_row *row)
{
    return row->type == KR_SET_WORDS || row->type == KR_SET_PATHS || row->type == KR_SET_MOUNTS;
}

bool kr_config_is_number(const struct kr_config_row *row)
{
    return row->type >= KR_SET_COUNT && row->type <= KR_SET_CORES;
}

struct kr_config_origin *kr_config_origin_of(const struct kr_config *c, const struct kr_config_row *row)
{
    size_t count;

    return &c->origins->rows[row - kr_config_rows(&count)];
}

static void *at(struct kr_config *c, const struct kr_config_row *row)
{
    return (char *)c + row->offset;
}

int kr_config_list_add(struct kr_words *l, const char *text)
{
    const char **items = realloc((void *)l->items, (l->count + 1) * sizeof *items);
    char *copy;

    if (!items)
        return -ENOMEM;
    l->items = items;
    copy = strdup(text);
    if (!copy)
        return -ENOMEM;
    items[l->count++] = copy;
    return 0;
}

void kr_config_list_free(struct kr_words *l)
{
    for (size_t i = 0; i < l->count; i++)
        free((void *)l->items[i]);
    free((void *)l->items);
    *l = (struct kr_words){0};
}

/* A member's width and the const of its text are its subsystem's choice: both go by memcpy(). */
uint64_t kr_config_number_of(const struct kr_config *c, const struct kr_config_row *row)
{
    const char *from = (const char *)c + row->offset;
    uint64_t wide;
    uint32_t narrow;

    if (row->size == sizeof wide) {
        memcpy(&wide, from, sizeof wide);
        return wide;
    }
    memcpy(&narrow, from, sizeof narrow);
    return narrow;
}

static void set_number(struct kr_config *c, const struct kr_config_row *row, uint64_t value)
{
    uint32_t narrow = (uint32_t)value; /* the row's maximum fits: unit test */

    memcpy(at(c, row), row->size == sizeof value ? (const void *)&value : &narrow, row->size);
}

const char *kr_config_text_of(const struct kr_config *c, const struct kr_config_row *row)
{
    const char *text;

    memcpy(&text, (const char *)c + row->offset, sizeof text);
    return text;
}

static void set_text(struct kr_config *c, const struct kr_config_row *row, const char *text)
{
    memcpy(at(c, row), &text, sizeof text);
}

void kr_config_note(struct kr_config *c, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (c->notes.count < ITEMS_MAX)
        (void)kr_config_list_add(&c->notes, text); /* without memory nothing else will come far either */
}

static void free_text(char *text, bool is_secret)
{
    if (text && is_secret)
        explicit_bzero(text, strlen(text));
    free(text);
}

void kr_config_clear(struct kr_config *c, const struct kr_config_row *row)
{
    struct kr_config_mounts *mounts = at(c, row);

    switch (row->type) {
    case KR_SET_TEXT:
    case KR_SET_SECRET:
    case KR_SET_PATH:
    case KR_SET_ADDRESS:
    case KR_SET_URL:
    case KR_SET_INDEX:
        free_text((char *)kr_config_text_of(c, row), row->type == KR_SET_SECRET || row->type == KR_SET_INDEX);
        set_text(c, row, NULL);
        break;
    case KR_SET_WORDS:
    case KR_SET_PATHS:
        kr_config_list_free(at(c, row));
        break;
    case KR_SET_MOUNTS:
        for (size_t i = 0; i < mounts->count; i++) {
            free(mounts->items[i].name);
            free(mounts->items[i].path);
        }
        free(mounts->items);
        *mounts = (struct kr_config_mounts){0};
        break;
    case KR_SET_BOOL:
    case KR_SET_COUNT:
    case KR_SET_SIZE:
    case KR_SET_TIME:
    case KR_SET_CORES:
    case KR_SET_CHOICE:
    case KR_SET_RULE:
    case KR_SET_MAX_:
        break;
    }
}

/* ---- numbers ---- */

static enum kr_limit_unit unit_of(const struct kr_config_row *row)
{
    return row->type == KR_SET_SIZE    ? KR_UNIT_BYTES
           : row->type == KR_SET_TIME  ? KR_UNIT_MS
           : row->type == KR_SET_CORES ? KR_UNIT_MILLI
                                       : KR_UNIT_COUNT;
}

const char *kr_config_show_number(const struct kr_config_row *row, uint64_t value, char *buf, size_t size)
{
    const struct kr_limit_row shown = {.unit = unit_of(row)};

    if (value == 0 && row->zero) {
        snprintf(buf, size, "%s", row->zero);
        return buf;
    }
    if (row->type == KR_SET_TIME && value >= 2 * 24 * 3600000u && value % (24 * 3600000u) == 0) {
        snprintf(buf, size, "%" PRIu64 " days", value / (24 * 3600000u));
        return buf;
    }
    return kr_limit_show(&shown, value, buf, size);
}

const char *kr_config_plain(const struct kr_config_row *row, uint64_t value, char *buf, size_t size)
{
    static const struct {
        enum kr_config_type type;
        uint64_t factor;
        const char *unit;
    } units[] = {
        {KR_SET_SIZE, UINT64_C(1) << 40, "T"},
        {KR_SET_SIZE, 1 << 30, "G"},
        {KR_SET_SIZE, 1 << 20, "M"},
        {KR_SET_SIZE, 1 << 10, "K"},
        {KR_SET_TIME, 86400000, "d"},
        {KR_SET_TIME, 3600000, "h"},
        {KR_SET_TIME, 60000, "m"},
        {KR_SET_TIME, 1000, "s"},
        {KR_SET_TIME, 1, "ms"},
    };

    if (row->type == KR_SET_CORES && value % 1000 != 0) {
        snprintf(buf, size, "%" PRIu64 ".%03" PRIu64, value / 1000, value % 1000);
        for (size_t len = strlen(buf); buf[len - 1] == '0'; len--)
            buf[len - 1] = '\0';
        return buf;
    }
    for (size_t i = 0; value > 0 && i < sizeof units / sizeof *units; i++)
        if (units[i].type == row->type && value % units[i].factor == 0) {
            snprintf(buf, size, "%" PRIu64 "%s", value / units[i].factor, units[i].unit);
            return buf;
        }
    snprintf(buf, size, "%" PRIu64, row->type == KR_SET_CORES ? value / 1000 : value);
    return buf;
}

const char *kr_config_range(const struct kr_config_row *row, char *buf, size_t size)
{
    char low[32], high[32];
    size_t len = 0;

    if (kr_config_is_number(row)) {
        snprintf(buf, size, "%s%s%s%s to %s", row->zero ? "0 (" : "", row->zero ? row->zero : "",
                 row->zero ? ") or " : "",
                 kr_config_show_number(row, row->zero && row->min == 0 ? 1 : row->min, low, sizeof low),
                 kr_config_show_number(row, row->max, high, sizeof high));
        return buf;
    }
    buf[0] = '\0';
    for (size_t i = 0; row->choices && row->choices[i] && len < size; i++)
        len += (size_t)snprintf(buf + len, size - len, "%s%s", i ? ", " : "", row->choices[i]);
    return buf;
}

int kr_config_number(const struct kr_config_row *row, const char *text, uint64_t *ret)
{
    const struct kr_limit_row any = {
        .name = row->flag, .unit = unit_of(row), .max = row->max, .min = row->zero ? 0 : row->min, .example = ""};
    struct kr_err err; /* speaks of a flag: ours is written where the origin is known */
    uint64_t value;
    int r = kr_limit_parse(&any, text, &value, &err);

    if (r < 0 || (value != 0 && value < row->min))
        return -EINVAL;
    *ret = value;
    return 0;
}

/* ---- words ---- */

int kr_config_bool(const char *text)
{
    static const char *const yes[] = {"true", "1", "yes", "on", "y"}, *const no[] = {"false", "0", "no", "off", "n"};

    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0)
            return strcasecmp(text, yes[i]) == 0;
    return -EINVAL;
}

int kr_config_choice(const struct kr_config_row *row, const char *text)
{
    for (size_t i = 0; row->synonyms && row->synonyms[i][0]; i++)
        if (strcasecmp(row->synonyms[i][0], text) == 0)
            text = row->synonyms[i][1];
    for (int i = 0; row->choices[i]; i++)
        if (strcasecmp(row->choices[i], text) == 0)
            return i;
    return -EINVAL;
}

/* 1 to max visible characters; ASCII only, if asked. */
static bool is_word(const char *text, size_t max, bool ascii)
{
    size_t len = strlen(text);

    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p <= ' ' || *p == 0x7f || (ascii && *p > 0x7f))
            return false;
    return len > 0 && len <= max;
}

static bool is_plain_name(const char *text, size_t max)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

    return len > 0 && len <= max && !text[len] && text[0] != '-' && text[0] != '.';
}

static bool is_url(const char *text)
{
    const char *host = strncmp(text, "http://", 7) == 0 ? text + 7 : strncmp(text, "https://", 8) == 0 ? text + 8 : "";

    return is_word(text, WORD_MAX, true) && *host && *host != '/' && *host != ':' && !strpbrk(text, "?#\"<>\\@");
}

static bool is_address(const char *text)
{
    struct in6_addr any;

    return inet_pton(AF_INET, text, &any) == 1 || inet_pton(AF_INET6, text, &any) == 1;
}

/* *ret (to be freed): the path, beneath `folder` if it is relative. 0, -EINVAL or -ENOMEM. */
static int make_absolute(const char *text, const char *folder, char **ret)
{
    char *path;

    if (!*text || strlen(text) > WORD_MAX || (text[0] != '/' && !folder))
        return -EINVAL;
    if (text[0] == '/')
        path = strdup(text);
    else if (asprintf(&path, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, text) < 0)
        path = NULL;
    *ret = path;
    return path ? 0 : -ENOMEM;
}

/* An index: its address, which may have credentials before the host, or a folder of wheels. */
static int make_index(const char *text, const char *folder, char **ret)
{
    size_t scheme = strncmp(text, "http://", 7) == 0 ? 7 : strncmp(text, "https://", 8) == 0 ? 8 : 0;
    size_t host = strcspn(text + scheme, "/");
    const char *at = memrchr(text + scheme, '@', host);
    cleanup_free char *plain = NULL, *path = NULL;
    int r;

    if (!scheme) {
        r = make_absolute(strncmp(text, "file://", 7) == 0 ? text + 7 : text, folder, &path);
        return r < 0 ? r : asprintf(ret, "file://%s", path) < 0 ? -ENOMEM : 0;
    }
    if (asprintf(&plain, "%.*s%s", (int)scheme, text, at ? at + 1 : text + scheme) < 0)
        return -ENOMEM;
    if (!is_url(plain) || !is_word(text, WORD_MAX, true))
        return -EINVAL;
    *ret = strdup(text);
    return *ret ? 0 : -ENOMEM;
}

/* *ret (to be freed): the text as it is kept. 0, -EINVAL or -ENOMEM. */
static int parse_text(const struct kr_config_row *row, const char *text, const char *folder, char **ret)
{
    bool good = false;

    if (row->type == KR_SET_PATH || row->type == KR_SET_PATHS)
        return make_absolute(text, folder, ret);
    if (row->type == KR_SET_INDEX)
        return make_index(text, folder, ret);
    if (row->type == KR_SET_ADDRESS && strcasecmp(text, "localhost") == 0)
        text = "127.0.0.1";
    if (row->type == KR_SET_TEXT)
        good = is_plain_name(text, 32);
    else if (row->type == KR_SET_SECRET)
        good = is_word(text, 256, true);
    else if (row->type == KR_SET_ADDRESS)
        good = is_address(text);
    else if (row->type == KR_SET_URL)
        good = is_url(text);
    else if (row->type == KR_SET_WORDS)
        good = is_word(text, WORD_MAX, false) && (!row->choices || kr_config_choice(row, text) >= 0);
    if (!good)
        return -EINVAL;
    *ret = strdup(text);
    return *ret ? 0 : -ENOMEM;
}

/* ---- refusals ---- */

const char *kr_config_origin_name(const struct kr_config_row *row, const struct kr_config_origin *origin, char *buf,
                                  size_t size)
{
    if (origin->source == KR_FROM_FLAG)
        snprintf(buf, size, "--%s", origin->name);
    else if (origin->source == KR_FROM_ENVIRONMENT)
        snprintf(buf, size, "%s (environment)", origin->name);
    else if (origin->source == KR_FROM_DOTENV)
        snprintf(buf, size, "%s", origin->name);
    else if (origin->source == KR_FROM_TOML)
        snprintf(buf, size, "%s.%s", row->section, row->key);
    else
        snprintf(buf, size, "default of --%s", row->flag);
    return buf;
}

static int refuse_value(const struct kr_config_row *row, const struct kr_config_origin *origin, const char *text,
                        struct kr_err *err)
{
    char name[64], quoted[64] = "it", range[96] = "";

    kr_config_origin_name(row, origin, name, sizeof name);
    if (row->type != KR_SET_SECRET && !(row->type == KR_SET_INDEX && strchr(text, '@')))
        kr_log_quote(quoted, sizeof quoted, text, 40);
    if (row->type == KR_SET_COUNT && strncmp(text, "tcp://", 6) == 0) {
        kr_err_set(err, KR_ERR_INVALID, 0,
                   "%s: %s is what Kubernetes says of a service of that name; set enableServiceLinks: false", name,
                   quoted);
        return -EINVAL;
    }
    kr_config_range(row, range, sizeof range);
    kr_err_set(err, KR_ERR_INVALID, 0, "%s: %s is not %s%s%s; for example %s", name, quoted,
               row->choices ? "one of" : type_words[row->type],
               row->choices ? " "
               : range[0]   ? ", "
                            : "",
               range, row->example);
    return -EINVAL;
}

static int no_memory(struct kr_err *err)
{
    return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the configuration");
}

/* ---- lists ---- */

static bool has_item(const struct kr_words *l, const char *text)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->items[i], text) == 0)
            return true;
    return false;
}

static int add_item(const struct kr_config_row *row, struct kr_words *to, const char *text, const char *folder)
{
    cleanup_free char *value = NULL;
    int r = parse_text(row, text, folder, &value);

    if (r < 0)
        return r;
    return has_item(to, value) ? 0 : kr_config_list_add(to, value);
}

static int add_mount(struct kr_config_mounts *to, const char *text, const char *folder)
{
    const char *equals = strchr(text, '=');
    cleanup_free char *name = NULL, *path = NULL;
    struct kr_config_mount *items;
    int r;

    if (!equals)
        return -EINVAL;
    name = strndup(text, (size_t)(equals - text));
    if (!name)
        return -ENOMEM;
    if (!is_plain_name(name, 32))
        return -EINVAL;
    for (size_t i = 0; i < to->count; i++)
        if (strcmp(to->items[i].name, name) == 0)
            return -EEXIST;
    r = make_absolute(equals + 1, folder, &path);
    if (r < 0)
        return r;
    items = realloc(to->items, (to->count + 1) * sizeof *items);
    if (!items)
        return -ENOMEM;
    to->items = items;
    items[to->count++] = (struct kr_config_mount){.name = steal_ptr(&name), .path = steal_ptr(&path)};
    return 0;
}

int kr_config_set_items(struct kr_config *c, const struct kr_config_row *row, const char *const *items, size_t count,
                        const struct kr_config_origin *origin, struct kr_err *err)
{
    struct kr_config_origin *have = kr_config_origin_of(c, row);
    bool append = have->source == KR_FROM_FLAG && origin->source == KR_FROM_FLAG;
    bool keep = have->source == KR_FROM_NONE || append;
    struct kr_config *scratch = calloc(1, sizeof *scratch); /* a value that does not count is checked all the same */
    struct kr_config *to = keep ? c : scratch;
    int r = scratch ? 0 : -ENOMEM;
    char name[64];

    kr_config_origin_name(row, origin, name, sizeof name);

    for (size_t i = 0; r >= 0 && i < count; i++) {
        size_t now = row->type == KR_SET_MOUNTS ? ((struct kr_config_mounts *)at(to, row))->count
                                                : ((struct kr_words *)at(to, row))->count;

        r = now >= ITEMS_MAX             ? -E2BIG
            : row->type == KR_SET_MOUNTS ? add_mount(at(to, row), items[i], origin->folder)
                                         : add_item(row, at(to, row), items[i], origin->folder);
        if (r == -EINVAL)
            refuse_value(row, origin, items[i], err);
        if (r == -EEXIST) {
            kr_err_set(err, KR_ERR_INVALID, 0, "%s: two of its names are the same", name);
            r = -EINVAL;
        }
        if (r == -E2BIG) {
            kr_err_set(err, KR_ERR_INVALID, 0, "%s: it may have %u entries", name, ITEMS_MAX);
            r = -EINVAL;
        }
    }
    if (scratch)
        kr_config_clear(scratch, row);
    free(scratch);
    if (r == -ENOMEM)
        return no_memory(err);
    if (r >= 0 && keep)
        *have = *origin;
    return r;
}

/* A list in one text: a JSON array of strings, or words with commas between them. */
static int set_list(struct kr_config *c, const struct kr_config_row *row, const char *text,
                    const struct kr_config_origin *origin, struct kr_err *err)
{
    cleanup_free char *copy = strdup(text);
    const char *items[ITEMS_MAX + 1];
    json_t *array = NULL;
    size_t count = 0;
    char *rest = copy;
    int r;

    if (!copy)
        return no_memory(err);
    if (text[0] == '[' && strchr("\"] ", text[1])) { /* [::1]:80 is none */
        array = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        for (size_t i = 0; i < json_array_size(array) && count <= ITEMS_MAX; i++) {
            const char *item = json_string_value(json_array_get(array, i));

            if (item)
                items[count++] = item;
        }
        if (!json_is_array(array) || (count <= ITEMS_MAX && count != json_array_size(array))) {
            json_decref(array);
            return refuse_value(row, origin, text, err);
        }
    } else {
        for (char *word; count <= ITEMS_MAX && (word = strsep(&rest, ","));) {
            word += strspn(word, " \t");
            for (size_t len = strlen(word); len > 0 && strchr(" \t", word[len - 1]); len--)
                word[len - 1] = '\0';
            items[count++] = word;
        }
    }
    r = kr_config_set_items(c, row, items, count, origin, err);
    json_decref(array);
    return r;
}

/* ---- one value ---- */

struct value {
    uint64_t number;
    int choice;
    char *text; /* owned */
    struct kr_net_rule rule;
};

static int parse(const struct kr_config_row *row, const char *text, const char *folder, struct value *v)
{
    if (kr_config_is_number(row))
        return kr_config_number(row, text, &v->number);
    if (row->type == KR_SET_BOOL)
        return v->choice = kr_config_bool(text);
    if (row->type == KR_SET_CHOICE)
        return v->choice = kr_config_choice(row, text);
    if (row->type == KR_SET_RULE)
        return kr_net_rule_parse(text, &v->rule, NULL) < 0 ? -EINVAL : 0;
    return parse_text(row, text, folder, &v->text);
}

int kr_config_set(struct kr_config *c, const struct kr_config_row *row, const char *text,
                  const struct kr_config_origin *origin, struct kr_err *err)
{
    struct kr_config_origin *have = kr_config_origin_of(c, row);
    struct value v = {0};
    int r;

    if (kr_config_is_list(row))
        return set_list(c, row, text, origin, err);
    r = parse(row, text, origin->folder, &v);
    if (r == -ENOMEM)
        return no_memory(err);
    if (r < 0)
        return refuse_value(row, origin, text, err);
    if (have->source != KR_FROM_NONE && !(have->source == KR_FROM_FLAG && origin->source == KR_FROM_FLAG)) {
        free_text(v.text, row->type == KR_SET_SECRET || row->type == KR_SET_INDEX);
        return 0;
    }
    kr_config_clear(c, row);
    if (kr_config_is_number(row))
        set_number(c, row, v.number);
    else if (row->type == KR_SET_BOOL)
        *(bool *)at(c, row) = v.choice;
    else if (row->type == KR_SET_CHOICE)
        *(int *)at(c, row) = v.choice;
    else if (row->type == KR_SET_RULE)
        *(struct kr_net_rule *)at(c, row) = v.rule;
    else
        set_text(c, row, v.text);
    *have = *origin;
    return 0;
}

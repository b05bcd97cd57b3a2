/* Fuzzes the TOML reader with any bytes: what it hands over is what its header promises, a refusal names file and line,
 * and the same text written anew from what was handed over reads the same. */
#include "buf.h"
#include "replay.h"
#include "toml.h"
#include "utf8.h"

#define NAME "x.toml"

struct seen {
    struct kr_buf again; /* the pairs, as TOML */
    char section[KR_TOML_NAME_MAX + 1];
    unsigned line, lines;
    uint64_t sum;
    size_t pairs;
};

static void mix(struct seen *s, const char *text)
{
    for (; *text; text++)
        s->sum = (s->sum ^ (unsigned char)*text) * 1099511628211u;
    s->sum = (s->sum ^ 0xff) * 1099511628211u;
}

static void check_text(const char *text, size_t max)
{
    size_t len = strlen(text);

    must(len <= max, "a string is as long as it may be");
    for (size_t i = 0; i < len;) {
        int n = kr_utf8_next((const unsigned char *)text + i, len - i, NULL);

        must(n > 0, "a string is UTF-8");
        i += n > 0 ? (size_t)n : len;
    }
}

static void add_string(struct seen *s, const char *text)
{
    check_text(text, KR_TOML_STRING_MAX);
    mix(s, text);
    kr_buf_add_str(&s->again, "\"");
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < 0x20 || *text == 0x7f)
            kr_buf_printf(&s->again, "\\u%04x", (unsigned)*text);
        else
            kr_buf_add(&s->again, text, 1);
    kr_buf_add_str(&s->again, "\"");
}

static int on_pair(void *data, const char *section, const char *key, const struct kr_toml_value *v, unsigned line,
                   struct kr_err *err)
{
    struct seen *s = data;

    (void)err;
    s->pairs++;
    must(line >= s->line && line <= s->lines, "lines go up and are there");
    must(key[0] && strlen(key) <= KR_TOML_NAME_MAX && strlen(section) <= KR_TOML_NAME_MAX,
         "names are as long as they may be");
    s->line = line;
    mix(s, section);
    mix(s, key);
    if (strcmp(section, s->section) != 0) {
        snprintf(s->section, sizeof s->section, "%s", section);
        kr_buf_printf(&s->again, "[%s]\n", section);
    }
    kr_buf_printf(&s->again, "%s = ", key);
    if (v->type == KR_TOML_STRING)
        add_string(s, v->string);
    else if (v->type == KR_TOML_INTEGER)
        kr_buf_printf(&s->again, "%lld", (long long)v->integer);
    else if (v->type == KR_TOML_BOOLEAN)
        kr_buf_add_str(&s->again, v->boolean ? "true" : "false");
    else {
        must(v->count <= KR_TOML_ITEMS_MAX, "an array is as long as it may be");
        kr_buf_add_str(&s->again, "[");
        for (size_t i = 0; i < v->count; i++) {
            add_string(s, v->items[i]);
            kr_buf_add_str(&s->again, ",");
        }
        kr_buf_add_str(&s->again, "]");
    }
    kr_buf_add_str(&s->again, "\n");
    s->sum = (s->sum ^ (uint64_t)v->integer ^ v->boolean ^ (uint64_t)v->type << 8) * 1099511628211u;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen first = {.lines = 1}, second = {.lines = 1u << 20};
    struct kr_err err = {0};
    unsigned line;
    int r;

    kr_buf_init(&first.again, 4u << 20);
    kr_buf_init(&second.again, 4u << 20);
    for (size_t i = 0; i < size; i++)
        first.lines += data[i] == '\n';
    r = kr_toml_parse(NAME, (const char *)data, size, on_pair, &first, &err);
    must(r == 0 || r == -22, "it is read or refused");
    if (r < 0)
        must(err.kind == KR_ERR_INVALID && (size > KR_TOML_TEXT_MAX || (sscanf(err.msg, NAME ":%u: ", &line) == 1 &&
                                                                        line >= 1 && line <= first.lines)),
             "a refusal names the file and a line of it");
    /* A text with the same section in two places is refused, so the pairs alone make the same sections again. */
    if (r == 0 && first.again.len <= KR_TOML_TEXT_MAX) {
        r = kr_toml_parse(NAME, kr_buf_str(&first.again), first.again.len, on_pair, &second, &err);
        must(r == 0 && first.pairs == second.pairs && first.sum == second.sum, "written anew it reads the same");
    }
    kr_buf_done(&first.again);
    kr_buf_done(&second.again);
    return 0;
}

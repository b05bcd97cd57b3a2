/* Texts, sizes and the structure of an outcome. Called by render.c and tools. Pure. */
#include "render.h"
#include "fold.h"
#include "utf8.h"
#include <stdio.h>
#include <string.h>

size_t kr_mcp_characters(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

size_t kr_mcp_front(const char *text, size_t len, size_t n)
{
    size_t i = 0;

    for (; i < len; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80 && n-- == 0)
            break;
    return i;
}

/* Where the last n characters begin. */
static size_t back(const char *text, size_t len, size_t n)
{
    size_t i = len;

    while (i > 0 && n > 0)
        if (((unsigned char)text[--i] & 0xc0) != 0x80)
            n--;
    return i;
}

/* To whole lines, if one ends or begins nearby. */
static size_t after_line(const char *text, size_t at, size_t near)
{
    for (size_t i = at; i > 0 && at - i < near; i--)
        if (text[i - 1] == '\n')
            return i;
    return at;
}

static size_t next_line(const char *text, size_t len, size_t at, size_t near)
{
    for (size_t i = at; i < len && i - at < near; i++)
        if (text[i] == '\n')
            return i + 1;
    return at;
}

bool kr_mcp_clip_text(struct kr_buf *out, const char *text, size_t len, size_t max, size_t *ret_head)
{
    const size_t near = 200;
    size_t head, tail;

    *ret_head = len;
    if (len <= max || kr_mcp_characters(text, len) <= max) {
        kr_buf_add(out, text, len);
        return false;
    }
    if (max < 200) { /* no room for two halves and the words between them */
        *ret_head = kr_mcp_front(text, len, max);
        kr_buf_add(out, text, *ret_head);
        return true;
    }
    max -= 60; /* the line between */
    head = after_line(text, kr_mcp_front(text, len, max / 2), near);
    tail = next_line(text, len, back(text, len, max - max / 2), near);
    kr_buf_add(out, text, head);
    kr_buf_printf(out, "%s[… %zu bytes left out …]\n", head > 0 && text[head - 1] == '\n' ? "" : "\n", tail - head);
    kr_buf_add(out, text + tail, len - tail);
    *ret_head = head;
    return true;
}

const char *kr_mcp_show_size(uint64_t bytes, char buf[static 24])
{
    if (bytes < 1000)
        snprintf(buf, 24, "%llu B", (unsigned long long)bytes);
    else if (bytes < 1000000)
        snprintf(buf, 24, "%.1f KB", (double)bytes / 1e3);
    else if (bytes < 1000000000)
        snprintf(buf, 24, "%.1f MB", (double)bytes / 1e6);
    else
        snprintf(buf, 24, "%.1f GB", (double)bytes / 1e9);
    return buf;
}

/* ---- structure ---- */

/* clang-format off */
static const struct kr_api_prop file_props[] = {
    {.name = "path", .type = KR_API_STRING, .help = "From the workspace.", .example = "plot.png"},
    {.name = "change", .type = KR_API_STRING, .help = "created, changed or deleted.", .example = "created"},
    {.name = "size", .type = KR_API_INT, .optional = true, .help = "Bytes.", .example = "10240"},
};
static const struct kr_api_schema file_schema = {.name = "ToolRunFile", .help = "A file that the run changed.",
    .props = file_props,
    .count = sizeof file_props / sizeof *file_props, .open = true};
static const struct kr_api_prop structure_props[] = {
    {.name = "run_id", .type = KR_API_STRING, .help = "For read_run and stop_run.",
     .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "session_id", .type = KR_API_STRING, .help = "Its session.", .example = "main"},
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "Its sandbox.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "still_running", .type = KR_API_BOOL, .help = "It has not ended: read_run goes on from next_seq.",
     .example = "false"},
    {.name = "behind", .type = KR_API_STRING, .optional = true,
     .help = "Only while it waits for its turn: behind what.", .example = "queued behind run x, which is running"},
    {.name = "next_seq", .type = KR_API_INT, .help = "The number from which read_run goes on.", .example = "5"},
    {.name = "cause", .type = KR_API_STRING, .nullable = true,
     .help = "How it ended: one of thirteen words; null while it runs.", .example = "ok"},
    {.name = "stdout", .type = KR_API_TEXT, .help = "What it wrote to stdout.", .example = "42\n"},
    {.name = "stderr", .type = KR_API_TEXT, .help = "What it wrote to stderr.", .example = ""},
    {.name = "result", .type = KR_API_TEXT, .nullable = true, .help = "repr of the last expression's value.",
     .example = "42"},
    {.name = "error", .type = KR_API_OBJECT, .nullable = true, .help = "The exception: type, message, traceback, line.",
     .example = "null"},
    {.name = "exit_code", .type = KR_API_INT, .nullable = true, .help = "As a program's exit status.", .example = "0"},
    {.name = "truncated", .type = KR_API_BOOL, .help = "Something is missing.", .example = "false"},
    {.name = "duration_ms", .type = KR_API_NUMBER, .nullable = true, .help = "Wall time.", .example = "12.5"},
    {.name = "session_restarted", .type = KR_API_BOOL, .help = "Its session is a new one: earlier variables are gone.",
     .example = "false"},
    {.name = "session_frozen", .type = KR_API_BOOL,
     .help = "Its session had used up background_cpu and was frozen until this run.", .example = "false"},
    {.name = "files", .type = KR_API_ARRAY, .of = &file_schema, .help = "Files it made, changed or deleted.",
     .example = "[]"},
    {.name = "hint", .type = KR_API_TEXT, .nullable = true, .help = "One line on what to do next.",
     .example = "null"},
};
const struct kr_api_schema kr_mcp_structure_schema = {.name = "ToolRun", .help = "What a run left.",
    .props = structure_props,
    .count = sizeof structure_props / sizeof *structure_props};
/* clang-format on */

#define STREAM_MAX (256u << 10) /* bytes of a stream in the structure */

static json_t *stream(const struct kr_buf *text, bool *cut)
{
    struct kr_buf shown, folded;
    json_t *value;
    size_t head;

    kr_buf_init(&shown, STREAM_MAX * 5);
    kr_buf_init(&folded, text->len + 1);
    if (kr_fold_needed(kr_buf_str(text), text->len) && kr_fold_text(&folded, text->data, text->len) == 0)
        text = &folded;
    *cut |= kr_mcp_clip_text(&shown, kr_buf_str(text), text->len, STREAM_MAX, &head);
    value = json_stringn(kr_buf_str(&shown), shown.len);
    kr_buf_done(&shown);
    kr_buf_done(&folded);
    return value ? value : json_string("");
}

/* The member of the end, or null. */
static json_t *member(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return value ? json_incref(value) : json_null();
}

const char *kr_mcp_hint(const struct kr_mcp_outcome *o)
{
    if (o->cause != KR_CAUSE_OK && o->input_secret)
        return "passwords are not asked for here: pass what is secret by `env`, and read it with os.environ";
    if (o->cause != KR_CAUSE_OK && o->input_refused)
        return "input() cannot ask this client: pass what it is to read as `stdin`, one line each";
    if (o->cause != KR_CAUSE_OK && o->input_declined)
        return "the client gave no answer to input()";
    return json_string_value(json_object_get(o->end, "hint"));
}

json_t *kr_mcp_structure(const struct kr_mcp_outcome *o, bool is_terminal)
{
    bool cut = o->cut || json_is_true(json_object_get(o->end, "truncated"));
    json_t *object = json_object(), *files = json_object_get(o->end, "files");
    bool over = o->end && !o->more;
    const char *hint = kr_mcp_hint(o);

    json_object_set_new(object, "run_id", json_string(o->run_id));
    json_object_set_new(object, "session_id", json_string(o->session));
    json_object_set_new(object, "sandbox_id", json_string(o->sandbox));
    json_object_set_new(object, "still_running", json_boolean(o->running && !o->more));
    if (o->behind[0])
        json_object_set_new(object, "behind", json_string(o->behind));
    json_object_set_new(object, "next_seq", json_integer((json_int_t)o->next_seq));
    json_object_set_new(object, "cause", over ? json_string(kr_cause_rows[o->cause].name) : json_null());
    json_object_set_new(object, "stdout", stream(&o->out, &cut));
    json_object_set_new(object, "stderr", stream(&o->err, &cut));
    json_object_set_new(object, "result", member(o->result, "text"));
    json_object_set_new(object, "error", o->error ? json_incref(o->error) : json_null());
    json_object_set_new(object, "exit_code", member(o->end, "exit_code"));
    json_object_set_new(object, "truncated", json_boolean(cut));
    json_object_set_new(object, "duration_ms",
                        over ? json_real(json_number_value(json_object_get(o->end, "wall_s")) * 1000) : json_null());
    json_object_set_new(object, "session_restarted", json_boolean(o->restarted));
    json_object_set_new(object, "session_frozen", json_boolean(o->frozen));
    json_object_set_new(object, "files", files ? json_incref(files) : json_array());
    json_object_set_new(object, "hint", hint ? json_string(hint) : json_null());
    if (is_terminal && over && o->cause != KR_CAUSE_EXCEPTION) /* of the snippet around a shell that was stopped */
        json_object_set_new(object, "error", json_null());
    return object;
}

/* "What a model reads": a run's outcome as blocks of content, in the krait dialect.
 *
 * Called by exec.c through the specification of krait's execution tools. Order: stdout; stderr; the result; the
 * traceback; files; only when the end is no plain ok, what a model has to know; and behind this one text the figures.
 * Invariants: at most KR_MCP_SHOWN_MAX characters of text, in one block; what is left out is said, with the number from
 * which read_run goes on. */
#include "render.h"
#include "files.h"
#include "fold.h"
#include "media.h"
#include "mcp_internal.h"
#include "shell_snippet.h"
#include "uri.h"
#include <stdio.h>
#include <string.h>

#define TRACE_MAX 6000u  /* characters of a traceback */
#define RESULT_MAX 8000u /* of the repr of a value */
#define ERR_MAX 6000u    /* of stderr, while there is stdout too */
#define SHOW_MAX 4000u   /* of the text of one display */
#define FILES_MAX 20u    /* files that are named */
#define PAGE_MAX 24000u  /* characters of a result or traceback on a page of read_run */

/* The answer on its way. */
struct page {
    struct kr_mcp_call *call;
    const struct kr_mcp_outcome *o;
    const struct kr_mcp_render_how *how;
    struct kr_mcp_result r;
    struct kr_buf text;             /* of the one block of text */
    struct kr_text out, err;        /* what it wrote, lines in their last state */
    struct kr_buf out_buf, err_buf; /* of them, where a line was written over */
    json_t *images;                 /* that follow it: [{data, mime}] */
    size_t left;                    /* characters */
    bool cut;
    uint64_t cut_at;    /* bytes of stdout before the cut */
    bool cut_streams;   /* the cut is in stdout */
    bool cut_unknown;   /* … where no number leads: all of it is to be read again */
    size_t cut_told;    /* bytes of the result or traceback that are shown, of which more is there; 0: it is whole */
    uint64_t told_size; /* its bytes */
};

static const char *get_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void end_line(struct kr_buf *b)
{
    if (b->len > 0 && b->data[b->len - 1] != '\n')
        kr_buf_add_str(b, "\n");
}

/* The text is one block, before all others: there are clients that read the first block alone (smolagents), and what
 * they must not miss is in the text. */
static void flush(struct page *p)
{
    const json_t *image;
    size_t i;

    while (p->text.len > 0 && p->text.data[p->text.len - 1] == '\n')
        p->text.len--;
    if (p->text.len > 0)
        kr_mcp_add_text(&p->r, p->text.data, p->text.len);
    kr_buf_reset(&p->text);
    json_array_foreach(p->images, i, image)
    {
        const json_t *data = json_object_get(image, "data");

        kr_mcp_add_image(&p->r, json_string_value(data), json_string_length(data), get_text(image, "mime"));
    }
}

/* A part with its heading ("" for none), of at most max characters and what is left. Returns the bytes of its head. */
static size_t add_part(struct page *p, const char *heading, const char *text, size_t len, size_t max)
{
    size_t room = max < p->left ? max : p->left, head = len, n = kr_mcp_characters(text, len);

    end_line(&p->text);
    kr_buf_add_str(&p->text, heading);
    p->cut |= kr_mcp_clip_text(&p->text, text, len, room, &head);
    p->left -= n < room ? n : room;
    return head;
}

/* ---- what it wrote ---- */

/* The result or the traceback: head and tail, or on a page of read_run a piece of it. */
static void add_told(struct page *p, const char *heading, const char *text, size_t max)
{
    size_t len = strlen(text), start = p->o->page && p->how ? (size_t)p->how->offset : 0, n;
    char from[48];

    if (!p->o->page) {
        bool before = p->cut;

        p->cut = false;
        n = add_part(p, heading, text, len, max);
        p->cut_told = p->cut ? n : 0;
        p->cut |= before;
    } else {
        start = start > len ? len : start;
        while (start > 0 && start < len && ((unsigned char)text[start] & 0xc0) == 0x80)
            start--;
        snprintf(from, sizeof from, "[from byte %zu on]\n", start);
        n = kr_mcp_front(text + start, len - start, PAGE_MAX);
        end_line(&p->text);
        kr_buf_add_str(&p->text, start > 0 ? from : heading);
        kr_buf_add(&p->text, text + start, n);
        p->cut_told = start + n < len ? start + n : 0;
    }
    p->told_size = len;
}

/* The stream with its lines in their last state; in `made` only if one was written over. */
static struct kr_text fold_stream(const struct kr_buf *text, struct kr_buf *made)
{
    kr_buf_init(made, text->len + 1);
    if (kr_fold_needed(kr_buf_str(text), text->len) && kr_fold_text(made, text->data, text->len) == 0)
        return (struct kr_text){kr_buf_str(made), made->len};
    kr_buf_done(made);
    return (struct kr_text){kr_buf_str(text), text->len};
}

/* What is behind stdout comes out of the same sum, but not at its cost alone. */
static size_t reserve(const struct page *p, const char *trace, const char *value)
{
    size_t n = trace ? kr_mcp_characters(trace, strlen(trace)) : 0,
           m = value ? kr_mcp_characters(value, strlen(value)) : 0;
    size_t e = kr_mcp_characters(p->err.text, p->err.len);

    return (n < TRACE_MAX ? n : TRACE_MAX) + (m < RESULT_MAX ? m : RESULT_MAX) + (e < ERR_MAX ? e : ERR_MAX);
}

static bool is_terminal_run(const struct page *p)
{
    return p->how && p->how->is_terminal;
}

/* How the snippet around a shell command was interrupted is no news. */
static void add_output(struct page *p)
{
    const struct kr_mcp_outcome *o = p->o;
    bool hide = is_terminal_run(p) && o->cause != KR_CAUSE_EXCEPTION;
    const char *trace = hide ? NULL : get_text(o->error, "traceback");
    const char *value = get_text(o->result, "text");
    size_t kept = reserve(p, trace, value), head;

    if (p->out.len > 0) {
        head = add_part(p, "", p->out.text, p->out.len, p->left - kept);
        p->cut_at = p->out_buf.len > 0 && p->cut ? kr_fold_source(kr_buf_str(&o->out), o->out.len, head) : head;
        p->cut_streams = p->cut;
    }
    if (p->err.len > 0)
        add_part(p, "[STDERR]:\n", p->err.text, p->err.len, p->out.len > 0 && !o->page ? ERR_MAX : p->left);
    p->cut_unknown = p->cut && !p->cut_streams;
    if (value)
        add_told(p, strchr(value, '\n') ? "[result]\n" : "[result] ", value, RESULT_MAX); /* columns */
    if (trace)
        add_told(p, "", trace, TRACE_MAX);
    end_line(&p->text);
}

/* ---- what it showed ---- */

static bool add_image(struct page *p, const json_t *data, const char *mime)
{
    const json_t *image = json_object_get(data, mime);

    if (!json_is_string(image))
        return false;
    json_array_append_new(p->images, json_pack("{s:O, s:s}", "data", image, "mime", mime));
    return true;
}

/* What stands for a figure in the text: a client that reads the first block alone, or drops images, must not take the
 * answer for an empty one, and some fail on a first block that has no text. */
static void add_figure_line(struct page *p, const json_t *data)
{
    const char *note = get_text(data, KR_MCP_READABLE), *about = get_text(data, KR_MCP_ABOUT);

    add_part(p, "", note ? note : "[figure]", strlen(note ? note : "[figure]"), SHOW_MAX);
    if (about && kr_mcp_client_reads_first(p->call)) {
        add_part(p, "[it shows: ", about, strlen(about), SHOW_MAX);
        kr_buf_add_str(&p->text, "]");
    }
}

static void add_displays(struct page *p)
{
    const char *value = get_text(p->o->result, "text");
    bool before = p->cut;
    json_t *display;
    size_t i;

    json_array_foreach(p->o->displays, i, display)
    {
        const json_t *data = json_object_get(display, "data");
        const char *text = get_text(data, KR_MCP_READABLE);

        text = text ? text : get_text(data, "text/plain");
        if (add_image(p, data, "image/png") || add_image(p, data, "image/jpeg")) {
            add_figure_line(p, data);
            continue;
        }
        if (!text || (value && strcmp(value, text) == 0)) /* the result, which is there already */
            continue;
        add_part(p, "", text, strlen(text), p->o->page ? PAGE_MAX : SHOW_MAX);
    }
    end_line(&p->text);
    p->cut_unknown |= p->cut && !before;
    if (p->o->displays_left_out > 0)
        kr_buf_printf(&p->text, "[%u more displays left out: too large]\n", p->o->displays_left_out);
}

/* ---- the files it changed ---- */

/* Where the client finds it: on its own disk, by a link, or by an address to read. */
static void add_place(struct page *p, const char *path)
{
    const char *workspace = kr_mcp_config(kr_mcp_of(p->call))->workspace;

    if (workspace && kr_mcp_is_local(p->call))
        kr_buf_printf(&p->text, "%s/%s", workspace, path);
    else if (kr_mcp_link_add(p->call, p->o->sandbox, path, false, &p->text) < 0)
        kr_mcp_uri_file(&p->text, p->o->sandbox, path);
}

static void name_files(struct page *p, const json_t *files)
{
    size_t n = json_array_size(files);
    char size[24];

    kr_buf_add_str(&p->text, "[files]\n");
    for (size_t i = 0; i < n && i < FILES_MAX; i++) {
        const json_t *file = json_array_get(files, i);
        const char *path = get_text(file, "path"), *change = get_text(file, "change");

        if (!path || !change)
            continue;
        if (strcmp(change, "deleted") == 0) {
            kr_buf_printf(&p->text, "%s deleted\n", path);
            continue;
        }
        kr_buf_printf(&p->text, "%s %s ", path,
                      kr_mcp_show_size((uint64_t)json_integer_value(json_object_get(file, "size")), size));
        add_place(p, path);
        kr_buf_add_str(&p->text, "\n");
    }
    if (n > FILES_MAX)
        kr_buf_printf(&p->text, "and %zu more: list_files tells them\n", n - FILES_MAX);
}

/* The same for the client's program. Revisions without links have the lines above. */
static void link_files(struct page *p, const json_t *files)
{
    size_t n = json_array_size(files);

    if (!kr_mcp_revs[kr_mcp_call_rev(p->call)].resource_link)
        return;
    for (size_t i = 0; i < n && i < FILES_MAX; i++) {
        const json_t *file = json_array_get(files, i);
        const char *path = get_text(file, "path"), *change = get_text(file, "change");
        const json_t *text = json_object_get(p->o->small_files, path ? path : "");
        struct kr_buf uri;

        if (!path || !change || strcmp(change, "deleted") == 0)
            continue;
        kr_buf_init(&uri, KR_MCP_URI_MAX);
        if (kr_mcp_uri_file(&uri, p->o->sandbox, path) >= 0 && text)
            kr_mcp_add_resource_text(&p->r, kr_buf_str(&uri), kr_media_of(path, NULL, 0, false)->type,
                                     json_string_value(text), json_string_length(text));
        else if (!uri.failed)
            kr_mcp_add_link(&p->r, kr_buf_str(&uri), path, NULL, kr_media_of(path, NULL, 0, false)->type,
                            (int64_t)json_integer_value(json_object_get(file, "size")));
        kr_buf_done(&uri);
    }
}

/* ---- the last lines ---- */

/* "timeout after 45 s: the program was interrupted; variables kept", shorter: what matters is what is left. */
static void add_message(struct page *p, const char *message)
{
    static const char kept[] = "; variables kept";
    const char *what = strstr(message, ": the program "), *then = what ? strchr(what, ';') : NULL;

    kr_buf_add_str(&p->text, "[");
    kr_buf_add(&p->text, message, what ? (size_t)(what - message) : strlen(message));
    if (is_terminal_run(p) && then && strncmp(then, kept, strlen(kept)) == 0)
        then += strlen(kept); /* a shell has none */
    kr_buf_printf(&p->text, "%s]\n", then ? then : "");
}

static void add_cause(struct page *p)
{
    const struct kr_mcp_outcome *o = p->o;
    const char *message = get_text(o->end, "message");
    bool alive = json_is_true(json_object_get(o->end, "session_alive"));
    long long code = json_integer_value(json_object_get(o->end, "exit_code"));

    if (o->running || o->more)
        return;
    if (o->cause == KR_CAUSE_OK || o->cause == KR_CAUSE_EXCEPTION) {
        if (message)
            add_message(p, message);
        return;
    }
    if (o->cause == KR_CAUSE_EXIT && code != 0)
        kr_buf_printf(&p->text, "[exit code %lld%s]\n", code, alive ? "" : "; variables gone");
    else if (o->cause != KR_CAUSE_EXIT && message)
        add_message(p, message);
    else if (o->cause != KR_CAUSE_EXIT)
        kr_buf_printf(&p->text, "[%s; variables %s]\n", kr_cause_rows[o->cause].name, alive ? "kept" : "gone");
}

static uint64_t cut_seq(const struct page *p)
{
    uint64_t seq = 1;

    if (p->cut_unknown)
        return seq;
    for (size_t i = 0; i < p->o->mark_count && p->o->marks[i].at <= p->cut_at; i++)
        seq = p->o->marks[i].seq;
    return seq;
}

/* What is missing here, how much there is, and how to read it; what the sandbox did not keep, and of how much. */
static void add_cut(struct page *p)
{
    const struct kr_mcp_outcome *o = p->o;
    uint64_t kept = o->out_bytes + o->err_bytes;
    uint64_t wrote = (uint64_t)json_integer_value(json_object_get(o->end, "output_bytes"));
    char size[24], all[24];

    if (json_is_true(json_object_get(o->end, "truncated")) && wrote > kept && !o->page)
        kr_buf_printf(&p->text, "[output limit: %s of %s are kept, the rest is lost]\n", kr_mcp_show_size(kept, size),
                      kr_mcp_show_size(wrote, all));
    else if (json_is_true(json_object_get(o->end, "truncated")) && !o->page)
        kr_buf_add_str(&p->text, "[output limit: displays past it are not kept]\n");
    if ((p->cut && (p->cut_streams || p->cut_unknown || !p->cut_told)) || o->cut)
        kr_buf_printf(&p->text, "[cut: %s in all, read_run(run_id=\"%s\", from=%llu)]\n", kr_mcp_show_size(kept, size),
                      o->run_id, (unsigned long long)cut_seq(p));
    else if (p->cut_told)
        kr_buf_printf(&p->text, "[%s: %s in all, read_run(run_id=\"%s\", from=%llu, offset=%zu)]\n",
                      o->page ? "more" : "cut", kr_mcp_show_size(p->told_size, size), o->run_id,
                      (unsigned long long)o->told_seq, p->cut_told);
}

static void add_states(struct page *p)
{
    const struct kr_mcp_outcome *o = p->o;
    const char *notice = get_text(o->end, "session_notice");

    if (notice && *notice)
        kr_buf_printf(&p->text, "[%s]\n", notice);
    if (o->restarted)
        kr_buf_add_str(&p->text, "[session restarted: variables gone, files kept]\n");
    add_cause(p);
    add_cut(p);
    if (o->more)
        kr_buf_printf(&p->text, "[more: read_run(run_id=\"%s\", from=%llu)]\n", o->run_id,
                      (unsigned long long)o->next_seq);
    else if (o->running)
        kr_buf_printf(&p->text,
                      "[still running: go on with read_run(run_id=\"%s\", from=%llu), or end it with stop_run]\n",
                      o->run_id, (unsigned long long)o->next_seq);
    if (o->behind[0] && !o->more)
        kr_buf_printf(&p->text, "[%s]\n", o->behind);
    if (o->asks && !o->more)
        kr_buf_add_str(&p->text, "[it waits for input()]\n");
    if (p->how && p->how->note[0])
        kr_buf_printf(&p->text, "[%s]\n", p->how->note);
}

static bool failed(const struct page *p)
{
    const struct kr_mcp_outcome *o = p->o;

    if (o->running || o->more || (p->how && p->how->is_fine))
        return false;
    if (o->cause == KR_CAUSE_EXIT)
        return json_integer_value(json_object_get(o->end, "exit_code")) != 0;
    return o->cause != KR_CAUSE_OK;
}

void kr_mcp_render(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    struct page p = {.call = c, .o = o, .how = data, .left = KR_MCP_SHOWN_MAX};
    const json_t *files = json_object_get(o->end, "files");
    const char *hint;

    if (o->page) /* one event at least, and what may be behind it */
        p.left = KR_EVENT_TEXT_MAX + ERR_MAX + RESULT_MAX + TRACE_MAX;
    kr_mcp_result_init(&p.r);
    kr_buf_init(&p.text, KR_MCP_TEXT_MAX);
    p.images = json_array();
    p.out = fold_stream(&o->out, &p.out_buf);
    p.err = fold_stream(&o->err, &p.err_buf);
    add_output(&p);
    add_displays(&p);
    if (json_array_size(files) > 0)
        name_files(&p, files);
    add_states(&p);
    hint = kr_mcp_hint(o);
    if (hint)
        kr_buf_printf(&p.text, "[hint] %s\n", hint);
    flush(&p);
    if (json_array_size(p.r.content) == 0)
        kr_mcp_add_textf(&p.r, "[no output]");
    link_files(&p, files);
    kr_buf_done(&p.text);
    kr_buf_done(&p.out_buf);
    kr_buf_done(&p.err_buf);
    json_decref(p.images);
    p.r.is_error = failed(&p);
    if (kr_mcp_structured(c))
        p.r.structured = kr_mcp_structure(o, is_terminal_run(&p));
    kr_mcp_tool_done(c, &p.r);
}

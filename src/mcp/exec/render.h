/* Pieces of what a model reads of a run. render.c puts them together; the terminal tool uses some. Pure but for
 * links. */
#pragma once
#include "exec.h"

#define KR_MCP_READABLE "text/vnd.krait.readable" /* of a display: its text, made by the kernel (readable.py) */
#define KR_MCP_ABOUT "text/vnd.krait.about"       /* of a figure: what it shows, in words */

/* What the renderer gets beside the outcome: kr_mcp_render()'s data, or NULL. */
struct kr_mcp_render_how {
    char note[160];   /* a line of its own at the end, "" for none: a timeout that was clamped */
    bool is_fine;     /* however it ended, it is no error */
    bool is_terminal; /* of a shell command: nothing of the snippet around it is shown */
    uint64_t offset;  /* of a page: bytes of the result or traceback that were shown already */
};

/* The requested time as milliseconds, within the server's ceiling; one that was brought down is said in the note. */
uint64_t kr_mcp_clamp_timeout(const struct kr_mcp_call *c, double seconds, struct kr_mcp_render_how *how);
/* When a run is answered before its end; clients give a call 60 s. */
uint64_t kr_mcp_answer_after(const struct kr_mcp_call *c);
/* Appends the text, of which at most max characters are kept, head and tail; true: something was left out. Tells how
 * many bytes of the head were kept. */
bool kr_mcp_clip_text(struct kr_buf *out, const char *text, size_t len, size_t max, size_t *ret_head);
/* Characters of valid UTF-8. */
size_t kr_mcp_characters(const char *text, size_t len);
/* "12 B", "3.4 KB", "1.2 MB". Returns buf. */
const char *kr_mcp_show_size(uint64_t bytes, char buf[static 24]);
/* Bytes of the first n characters. */
size_t kr_mcp_front(const char *text, size_t len, size_t n);
/* The line that says what to do next: the run's, or what it is about input(); NULL: there is none. */
const char *kr_mcp_hint(const struct kr_mcp_outcome *o);
/* The outcome as an object, for clients that asked for structure. New. `is_terminal`: as in struct
 * kr_mcp_render_how. */
json_t *kr_mcp_structure(const struct kr_mcp_outcome *o, bool is_terminal);
extern const struct kr_api_schema kr_mcp_structure_schema;

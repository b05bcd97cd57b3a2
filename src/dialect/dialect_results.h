/* What the documents' dialects share: their answers' forms, and a run's outcome as their fields. */
#pragma once
#include "exec.h"
#include "tool.h"

struct kr_err;

/* How a value reaches the client (contracts: each stack's own). */
enum kr_compat_form {
    KR_COMPAT_PLAIN,   /* text of two blanks' indentation, no structure (documents 002 and 004) */
    KR_COMPAT_WRAPPED, /* the same, and {"result": value} as the structure (000) */
    KR_COMPAT_COMPACT, /* text without blanks, and the value as the structure (001) */
};
/* Answers with a value, taken. NULL: no memory, and that is the answer. */
void kr_compat_answer(struct kr_mcp_call *c, json_t *value, enum kr_compat_form form);
/* The text of an error that a client may see. */
const char *kr_compat_reason(const struct kr_err *err);

/* A value of an outcome whose texts are at most `cap` bytes each. */
typedef json_t *kr_compat_make(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, size_t cap, void *data);
/* The largest of them whose text fits in a block of an answer. */
json_t *kr_compat_fit(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, kr_compat_make *make, void *data,
                      enum kr_compat_form form);

/* Did it end well (also by sys.exit(0))? And its exit status: 0 then, else what it was or 1. */
bool kr_compat_good(const struct kr_mcp_outcome *o, int *ret_code);
/* A member of the end, or NULL. */
const json_t *kr_compat_end(const struct kr_mcp_outcome *o, const char *name);
/* stderr as a script's: what was written, the traceback, why krait ended it. */
void kr_compat_stderr(struct kr_buf *out, const struct kr_mcp_outcome *o);
/* A text as JSON, at most `chars` characters and `bytes` bytes; where it is cut (or `cut`: was before), the mark
 * follows. */
json_t *kr_compat_text(const struct kr_buf *text, size_t chars, size_t bytes, bool cut, const char *mark);
/* The lines of the traceback. */
json_t *kr_compat_traceback(const struct kr_mcp_outcome *o);
/* "ValueError: no", or why it ended otherwise. New. */
json_t *kr_compat_error(const struct kr_mcp_outcome *o);
/* Milliseconds that a run of that document has which asks for none: at most what the caller's listener allows. */
uint64_t kr_compat_timeout(const struct kr_mcp_call *c, enum kr_dialect dialect);

/* Answers with one text, whose structure is {"result": text} (003); `note` (may be NULL) is a block behind it. */
void kr_compat_answer_text(struct kr_mcp_call *c, const char *text, size_t len, const char *note);

/* The id of a sandbox that a call of document 004 names (KR_STORE_ID_ROOM); false: answered (mcp_sandbox_tools.c). */
bool kr_compat_named_sandbox(struct kr_mcp_call *c, const char *given, char *id);
/* Answers with a list of sandboxes, taken, to each of which `installed_packages` is added (mcp_sandbox_packages.c). */
void kr_compat_list_with_packages(struct kr_mcp_call *c, json_t *list);
/* Runs code as document 004 (mcp-sandbox) does: a process of its own in a named sandbox, its files linked
 * (mcp_sandbox_tools.c). */
void kr_compat_run_in_sandbox(struct kr_mcp_call *c, const char *sandbox, const struct kr_text *code);

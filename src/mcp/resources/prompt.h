/* Prompts: one row each, from which come prompts/list, the check of arguments and their completion. */
#pragma once
#include "call.h"
#include <stddef.h>

struct kr_mcp_prompt_arg {
    const char *name, *title, *description;
    bool required;
    const char *const *choices; /* words it may be, NULL terminated; NULL: any text */
    const char *def;            /* what an argument that is left out is; NULL: "" */
};
#define KR_MCP_PROMPT_ARGS_MAX 8u
#define KR_MCP_PROMPT_TEXT_MAX 65536u /* bytes of one argument */

struct kr_mcp_prompt {
    const char *name, *title, *description;
    unsigned dialects;                    /* KR_IN_* (tool.h): where it is listed; it can be asked for everywhere */
    const struct kr_mcp_prompt_arg *args; /* NULL terminated by name; NULL: none */
    /* Answers, now or later. values: of the arguments in the order of the rows, checked; valid during the call. */
    void (*get)(struct kr_mcp_call *c, const char *const *values);
};
/* krait's, in the order in which they are listed (prompts.c); those of additions.h follow. */
extern const struct kr_mcp_prompt kr_mcp_prompts[];
extern const size_t kr_mcp_prompts_count;
/* The i-th of all, additions included, or NULL. */
const struct kr_mcp_prompt *kr_mcp_prompt_at(size_t i);

/* Tools, prompts and resources that a program adds to krait's own. krait adds none; a test program that links the same
 * libraries defines kr_mcp_additions itself (tests/mcp/fixtures). */
#pragma once
#include <stddef.h>

struct kr_mcp_prompt;
struct kr_mcp_resource;
struct kr_mcp_tool;

/* Rows like any other, listed after krait's. `krait dump` and OpenAPI leave them out. */
struct kr_mcp_additions {
    const struct kr_mcp_tool *const *tools;
    size_t tool_count;
    const struct kr_mcp_prompt *prompts;
    size_t prompt_count;
    const struct kr_mcp_resource *resources;
    size_t resource_count;
};
extern const struct kr_mcp_additions kr_mcp_additions; /* a weak symbol: additions.c */

/* What krait adds to its own rows: nothing. Read by tools.c, prompts.c and resources.c.
 *
 * The symbol is weak: a program that defines its own replaces this one when it is linked. No file but this one
 * may define it in src, so that compilers cannot know its value where it is read. */
#include "additions.h"

__attribute__((weak)) const struct kr_mcp_additions kr_mcp_additions = {0};

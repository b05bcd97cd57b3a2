/* The table of revisions. Pure. Invariant: rows are in the order of their dates, so that `rev >= KR_REV_…` means
 * "since". */
#include "rev.h"
#include <string.h>

/* clang-format off */
const struct kr_mcp_rev_row kr_mcp_revs[KR_REV_MAX_] = {
    [KR_REV_2024_11_05] = {.name = "2024-11-05", .not_found = -32002},
    [KR_REV_2025_03_26] = {.name = "2025-03-26", .batches = true, .audio = true, .annotations = true,
        .not_found = -32002},
    [KR_REV_2025_06_18] = {.name = "2025-06-18", .audio = true, .annotations = true, .resource_link = true,
                           .structured = true, .titles = true, .elicitation = true, .not_found = -32002},
    [KR_REV_2025_11_25] = {.name = "2025-11-25", .audio = true, .annotations = true, .resource_link = true,
                           .structured = true, .titles = true, .elicitation = true, .icons = true, .tasks = true,
                           .priming = true, .not_found = -32002},
    [KR_REV_2026_07_28] = {.name = "2026-07-28", .modern = true, .audio = true, .annotations = true,
                           .resource_link = true, .structured = true, .titles = true, .icons = true,
                           .not_found = -32602},
};
/* clang-format on */

int kr_mcp_rev_find(const char *name)
{
    for (int i = 0; name && i < KR_REV_MAX_; i++)
        if (strcmp(kr_mcp_revs[i].name, name) == 0)
            return i;
    return -1;
}

/* Edit distance between short words. Pure; lengths are bounded so that a row fits on the stack. */
#include "nearest.h"
#include <string.h>

unsigned kr_edit_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned row[KR_NEAREST_MAX + 1];

    if (n > KR_NEAREST_MAX || m > KR_NEAREST_MAX)
        return KR_NEAREST_MAX;
    for (size_t j = 0; j <= m; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);

            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[m];
}

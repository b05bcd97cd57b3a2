/* The one check of an id's form. Called where an id arrives as text: folder names, links, tokens. */
#include "id.h"
#include <string.h>

bool kr_id_valid(const char *text)
{
    size_t len = text ? strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz") : 0;

    return len > 0 && len < KR_ID_ROOM && !text[len];
}

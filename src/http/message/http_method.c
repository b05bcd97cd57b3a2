/* Methods by name. Called by the parser, the router and the logs. Invariant: the table has a row for each. */
#include "http_method.h"
#include <string.h>

static const char *const names[] = {
    [KR_HTTP_GET] = "GET",     [KR_HTTP_HEAD] = "HEAD",     [KR_HTTP_POST] = "POST",       [KR_HTTP_PUT] = "PUT",
    [KR_HTTP_PATCH] = "PATCH", [KR_HTTP_DELETE] = "DELETE", [KR_HTTP_OPTIONS] = "OPTIONS", [KR_HTTP_OTHER] = "OTHER",
};
_Static_assert(sizeof names / sizeof names[0] == KR_HTTP_METHOD_MAX_, "a name for each");

const char *kr_http_method_name(enum kr_http_method method)
{
    return method < KR_HTTP_METHOD_MAX_ ? names[method] : names[KR_HTTP_OTHER];
}

enum kr_http_method kr_http_method_of(const char *text, size_t len)
{
    for (unsigned i = 0; i < KR_HTTP_OTHER; i++)
        if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0)
            return (enum kr_http_method)i;
    return KR_HTTP_OTHER;
}

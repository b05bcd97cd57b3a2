/* Methods by name. Called by the parser, the router and the logs. Invariant: the table has a row for each. */
#include "http_method.h"
#include <string.h>

static const char *const names[] = {
    [KR_HTTP_GET] = "GET",     [KR_HTTP_HEAD] = "HEAD",     [KR_HTTP_POST] = "POST",       [KR_HTTP_PUT] = "PUT",
    [KR_HTTP_PATCH] = "PATCH", [KR_HTTP_DELETE] = "DELETE", [KR_HTTP_OPTIONS] = "OPTIONS", [KR_HTTP_OTHER] = "OTHER",
};
_Static_assert(sizeof names / sizeof names[0] == KR_HTTP_METHOD_MAX_, "a name for each");

/* The rest of IANA's registry of HTTP methods, sorted; `*` and PRI apart, which are no methods of a request. */
static const char *const registered[] = {
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PROPFIND",
    "PROPPATCH",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "TRACE",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
};

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

bool kr_http_method_is_registered(const char *text)
{
    for (size_t i = 0; i < sizeof registered / sizeof registered[0]; i++)
        if (strcmp(registered[i], text) == 0)
            return true;
    return false;
}

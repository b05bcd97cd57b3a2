/* The methods krait speaks. A request with any other gets 405 if HTTP has it, else 501. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum kr_http_method {
    KR_HTTP_GET,
    KR_HTTP_HEAD,
    KR_HTTP_POST,
    KR_HTTP_PUT,
    KR_HTTP_PATCH,
    KR_HTTP_DELETE,
    KR_HTTP_OPTIONS,
    KR_HTTP_OTHER, /* a valid token we do not know; no handler ever sees it */
    KR_HTTP_METHOD_MAX_,
};

/* "GET"; "OTHER" for KR_HTTP_OTHER. Never NULL. */
const char *kr_http_method_name(enum kr_http_method method);
/* By exact spelling: methods are case-sensitive (RFC 9110 9.1). */
enum kr_http_method kr_http_method_of(const char *text, size_t len);
/* Is it a method of HTTP that krait serves nowhere? */
bool kr_http_method_is_registered(const char *text);

/* Reading a request's body into its struct, large ones off the loop. */
#pragma once
#include "field.h"

struct kr_http_ex;
struct uv_loop_s;

#define KR_API_INLINE_MAX (256u * 1024) /* bytes of a body that the loop's thread parses itself */

/* One way from a body to what it means, for any format. */
struct kr_body_calls {
    void (*parse)(void *data, const char *text, size_t len); /* pure: for a large body on a thread of the pool */
    void (*done)(void *data, struct kr_http_ex *ex);         /* parsed, the body's memory given back; frees data */
    void (*dropped)(void *data);                             /* instead of done: the peer has left; frees data */
};
/* Parses kr_http_body(ex): before it returns for a body of at most KR_API_INLINE_MAX, else later. 0, or -ENOMEM: no
 * call came, `data` is still the caller's and the exchange is not answered. For handlers of routes without
 * KR_HTTP_STREAM_BODY, before they defer. */
int kr_body_read(struct uv_loop_s *loop, struct kr_http_ex *ex, const struct kr_body_calls *calls, void *data);

/* The body is parsed. `request` (the table's struct) and what it borrows live until this returns; `in` may be used for
 * kr_api_refuse(). Answers, or defers as a handler does. */
typedef void kr_api_then(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in);

/* Parses kr_http_body(ex) by `table` in the voice of the route and calls `then`: before it returns for a body of at
 * most KR_API_INLINE_MAX, else later, from the loop, after a thread of the pool has done it. A body that does not
 * parse is answered here; `then` is not called, nor is it when the peer leaves meanwhile. The body's memory is given
 * back before `then`. For handlers of routes without KR_HTTP_STREAM_BODY, before they defer. */
void kr_api_read_body(struct uv_loop_s *loop, struct kr_http_ex *ex, void *app, const struct kr_api_table *table,
                      kr_api_then *then);
/* The same for the query string, which is short: at once. True: *request is filled; the caller ends with
 * kr_api_input_done(in). False: it has answered, and `in` is done. */
bool kr_api_read_query(struct kr_http_ex *ex, const struct kr_api_table *table, void *request, struct kr_api_input *in);

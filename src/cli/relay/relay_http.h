/* One HTTP/1.1 exchange of the relay: a request that is at hand, an answer that comes in pieces. Loop thread only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct kr_buf;
struct kr_err;
struct kr_hx;
struct uv_loop_s;

/* What a URL says. */
struct kr_hx_target {
    char host[256]; /* a name or an address, without brackets */
    char port[6];
    char field[272]; /* of the Host field */
    char path[1024]; /* with its query; /mcp if the URL has none */
    struct sockaddr_storage address;
    socklen_t address_len; /* 0: kr_hx_resolve() was not called yet */
};
/* http://HOST[:PORT][/PATH][?QUERY]. 0, or -EINVAL with what is wrong with it. */
int kr_hx_target_parse(const char *url, struct kr_hx_target *ret, struct kr_err *err);
/* Finds its address. May block for as long as the system's resolver takes. 0 or -errno. */
int kr_hx_resolve(struct kr_hx_target *t, struct kr_err *err);

#define KR_HX_HEAD_MAX 16384u
#define KR_HX_VALUE_MAX 512u
#define KR_HX_CONNECT_MS 10000u

struct kr_hx_head {
    int status;
    char type[KR_HX_VALUE_MAX];    /* Content-Type, in lower case */
    char session[KR_HX_VALUE_MAX]; /* Mcp-Session-Id; "" */
};

struct kr_hx_calls {
    void (*on_head)(void *data, const struct kr_hx_head *head);
    void (*on_body)(void *data, const char *bytes, size_t len);
    /* Once, and last: the answer is whole (err NULL), or will never be. kr_hx_close() may be called here, as from
     * all. */
    void (*on_end)(void *data, const struct kr_err *err);
};

/* Connects and sends head and body (copied). Callbacks come from the loop. 0 or -errno. */
int kr_hx_new(struct uv_loop_s *loop, const struct kr_hx_target *to, const struct kr_buf *head, const char *body,
              size_t len, const struct kr_hx_calls *calls, void *data, struct kr_hx **ret_hx);
/* At once; no callback comes any more. Takes NULL. */
void kr_hx_close(struct kr_hx *x);
/* While it is held, nothing is read from the server. */
void kr_hx_hold(struct kr_hx *x, bool hold);

/* The package index, by its paths as cells have them: pages whose links lead here, and the files that they name. One
 * struct kr_eg_index for the process, one struct kr_eg_index_get for each request. Loop thread only. */
#pragma once
#include "eg_get.h"
#include "err.h"
#include "index_link.h"
#include "index_page.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_eg;
struct kr_eg_index;
struct kr_eg_index_get;
struct kr_eg_tls_trust;

#define KR_EG_INDEX_PATH "/index/"
#define KR_EG_INDEX_PAGE_MAX (64u << 20) /* bytes of a page as the index sends it */
#define KR_EG_INDEX_PAGE_MS 120000u      /* until a page is whole */
#define KR_EG_INDEX_IDLE_MS 12000u       /* without a byte of a page: less than clients of the index wait for one */
#define KR_EG_INDEX_NAME_MAX 128u        /* bytes of a project's name */

/* 0 or -errno with err: the address is wrong. No index (index_url NULL) is none of these. */
int kr_eg_index_new(struct kr_eg *eg, const struct kr_eg_tls_trust *trust, struct kr_eg_index **ret_index,
                    struct kr_err *err);
void kr_eg_index_free(struct kr_eg_index *x);
/* Of Basic authentication; user NULL: none. Forgets those it had. */
void kr_eg_index_set_user(struct kr_eg_index *x, const char *user, const char *password);
/* The folder of wheels, or NULL: it is on the web. */
const char *kr_eg_index_folder(const struct kr_eg_index *x);

struct kr_eg_index_reply {
    const char *type;     /* Content-Type */
    int64_t length;       /* -1: not known */
    bool page;            /* else a file */
    const char *name;     /* of the file, or "" */
    const char *promised; /* hash that a page of the index gave for the file, or "": of a part, too */
    bool ranges;          /* parts of the file may be asked for */
    const char *range;    /* it is a part: Content-Range, "bytes 0-99/1000"; else "" */
};

struct kr_eg_index_calls {
    void (*on_url)(void *data, const struct kr_web_address *url); /* is about to be asked; may be NULL */
    /* As those of struct kr_eg_get_calls. There is a reply only to what the index has (200, 206). */
    int (*on_reply)(void *data, const struct kr_eg_index_reply *reply, struct kr_err *err);
    int (*on_body)(void *data, const char *bytes, size_t len, struct kr_err *err);
    void (*on_hop)(void *data, const struct kr_eg_hop *hop); /* none for a folder */
    int (*on_moved)(void *data, uint64_t sent, uint64_t received, struct kr_err *err);
    /* Once, from the loop. status: 200, or what to answer with (404: the index does not have it). */
    void (*on_end)(void *data, enum kr_eg_verdict verdict, unsigned status, const char *why);
};

struct kr_eg_index_ask {
    const char *path; /* "/index/simple/NAME/", "/index/file/…" */
    bool head;        /* no body is wanted */
    const char *accept;
    const char *range;            /* of a file, "bytes=0-99", or NULL: all of it; a folder has no parts */
    const char *sandbox;          /* id, or "" */
    uint64_t timeout_ms, idle_ms; /* of a file; a page has its own */
};
/* 0 and on_end comes, from the loop; or negative with err: KR_ERR_NOT_FOUND (no such path), KR_ERR_DENIED (a link that
 * this process did not write), KR_ERR_UNAVAILABLE (there is no index). */
int kr_eg_index_start(struct kr_eg_index *x, const struct kr_eg_index_ask *ask, const struct kr_eg_index_calls *calls,
                      void *data, struct kr_eg_index_get **ret_get, struct kr_err *err);
void kr_eg_index_pause(struct kr_eg_index_get *g, bool pause);
/* As kr_eg_get_cancel(). */
void kr_eg_index_cancel(struct kr_eg_index_get *g);

/* What handlers share: `app` of every handler is a struct kr_api. Made by `krait serve`, used on the loop thread. */
#pragma once
#include "auth.h"
#include "box.h"
#include "http.h"

struct kr_jobs;
struct kr_accounts;
struct kr_api_files;
struct kr_install;
struct kr_mcp;
struct kr_metrics;
struct kr_monitor;
struct kr_pages;
struct uv_loop_s;

/* Plain values, made from the configuration by `krait serve`. Strings are borrowed. */
struct kr_api_config {
    const char *version;
    bool auth; /* callers must show a key */
    uint64_t link_ttl_ms;
    const char *public_url; /* NULL: links are made from the request's Host */
    bool debug;
    uint64_t max_body, max_upload;
    const struct kr_profile *profiles; /* by enum kr_dialect, which is a listener's tag */
    /* For info, from the warden's tables, which are out of reach here. */
    const char *const *level_names; /* by enum kr_level; NULL: left out */
    const char *const *layer_names; /* by the number of the bit; a NULL among them: no such layer */
    size_t layer_count;
};

struct kr_api {
    struct uv_loop_s *loop;
    struct kr_box *box;
    struct kr_store *store;
    struct kr_auth *auth;
    struct kr_metrics *metrics;
    struct kr_jobs *jobs;
    struct kr_install *install;
    struct kr_http_server *server;
    struct kr_api_config config;
    uint64_t started_ns; /* kr_clock_ns() of the start */
    /* What those parts keep between requests; NULL before they are made. */
    struct kr_api_files *files;
    struct kr_accounts *accounts;
    struct kr_monitor *monitor;
    struct kr_pages *pages[KR_DIALECT_MAX_]; /* by listener's tag */
    struct kr_mcp *mcp;
    /* A user's file was changed by a request. Set by what notifies subscribers; NULL: nothing does. */
    void (*on_file_changed)(struct kr_api *api, const char *user, const struct kr_sandbox *sandbox, const char *path);
    /* Rows that /openapi.json tells beside kr_api_routes, for a listener where a run may ask for timeout_ms (0: for any
     * time). Kept until the next call by what set this; NULL: no memory. May itself be NULL: there are none. */
    const struct kr_http_route *(*openapi_more)(struct kr_api *api, uint64_t timeout_ms, size_t *ret_count);
};

/* THE table of routes (routes.c). */
extern const struct kr_http_route kr_api_routes[];
extern const size_t kr_api_routes_count;

/* What holds for clients of that dialect. */
static inline const struct kr_profile *kr_api_dialect_profile(const struct kr_api *api, enum kr_dialect dialect)
{
    return &api->config.profiles[dialect];
}

/* What holds on the listener of the exchange. */
static inline const struct kr_profile *kr_api_profile(const struct kr_api *api, const struct kr_http_ex *ex)
{
    return kr_api_dialect_profile(api, (enum kr_dialect)kr_http_tag(ex));
}

/* Seconds that a link may be good for. */
static inline uint64_t kr_api_link_most_s(const struct kr_api *api)
{
    return (api->config.link_ttl_ms + 999) / 1000;
}

/* The caller of the exchange, or false: it is answered already. */
static inline bool kr_api_caller(struct kr_api *api, struct kr_http_ex *ex, struct kr_api_who *ret)
{
    if (!kr_auth_caller(api->auth, ex, ret))
        return false;
    ret->caller.profile = kr_api_profile(api, ex);
    return true;
}

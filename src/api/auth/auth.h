/* The gate of the HTTP server: who may talk to us from a browser (src/http/message/guard.h), who asks, and with what
 * right.
 *
 * A key comes as `Authorization: Bearer KEY`, `X-API-Key: KEY` or `?api_key=KEY`; it is the one configured key (which
 * acts as root), a user's key or a login token. The gate judges before the body is read; a handler, which may be
 * called much later, asks again (kr_api_caller()). Verdicts of the store are remembered for KR_AUTH_REMEMBER_MS, so
 * that asking again is cheap; changes made by this process count at once (kr_auth_forget()), those of `krait keys`
 * after that time. docs/design/auth.md has the rules. Loop thread only. */
#pragma once
#include "caller.h"
#include "http.h"
#include "store_key.h"
#include <stdbool.h>
#include <stdint.h>

struct kr_auth;
struct kr_err;
struct kr_guard;
struct kr_metrics;
struct uv_loop_s;

#define KR_AUTH_REMEMBER_MS 2000u
#define KR_AUTH_FAILURES_MAX 20u    /* wrong keys of one address at once, … */
#define KR_AUTH_FAILURE_MS 3000u    /* … and then one in this time; the rest is slowed (slow.h) */
#define KR_AUTH_AUDIT_MAX 200u      /* rows about refused keys at once, of all clients, … */
#define KR_AUTH_AUDIT_MS 1000u      /* … and then one in this time; the rest is counted and logged */
#define KR_AUTH_USE_MS (600 * 1000) /* a key's use is a row of the audit log at most this often */

/* Borrowed for as long as the gate is there, api_key apart, which is copied. */
struct kr_auth_config {
    bool on;             /* false: every caller is root, with every right, and no key is looked at */
    const char *api_key; /* the single configured one; NULL: none */
    struct uv_loop_s *loop;
    struct kr_store *store;
    const struct kr_guard *guard; /* NULL: Host and Origin are not judged (tests) */
    struct kr_metrics *metrics;   /* may be NULL */
    const char *challenge;        /* a WWW-Authenticate more with a 401; NULL: none */
    const char *open_too;         /* operationId of a route that is open by configuration ("metrics"); NULL: none */

    /* Is this a request for a signed link (which a page of another site may show as an image)? May be NULL. */
    bool (*is_link)(void *data, const struct kr_http_ex *ex);
    /* A row of the audit log (kr_box_audit()). May be NULL. */
    void (*audit)(void *data, const struct kr_caller *who, const char *what, const char *object, const char *outcome,
                  const char *detail);
    void *data;
};

/* 0 or -ENOMEM. */
int kr_auth_new(const struct kr_auth_config *config, struct kr_auth **ret_auth, struct kr_err *err);
/* Another configured key in place of the one it has: the old one is wiped and wrong from now on. 0 or -ENOMEM. */
int kr_auth_set_key(struct kr_auth *a, const char *api_key);
/* Takes NULL. The copy of the key is wiped. */
void kr_auth_free(struct kr_auth *a);

/* For kr_http_config.gate: CORS headers, preflights, and every refusal in the voice of the route. True: go on. */
bool kr_auth_gate(struct kr_auth *a, struct kr_http_ex *ex);

/* How a caller is known. */
enum kr_auth_how {
    KR_AUTH_NOBODY, /* no good key, on a route that is open */
    KR_AUTH_OFF,    /* authentication is off */
    KR_AUTH_SINGLE, /* the configured key */
    KR_AUTH_KEY,
    KR_AUTH_TOKEN,
};

/* The caller of a request, with the memory its texts are in: not to be copied, nor kept past the exchange. */
struct kr_api_who {
    struct kr_caller caller; /* user "" and no rights: unknown */
    enum kr_auth_how how;
    char user[KR_STORE_ID_ROOM];
    char name[KR_STORE_NAME_ROOM]; /* the user's */
    char key[KR_STORE_ID_ROOM];    /* the key's id; "" unless KR_AUTH_KEY */
    int64_t expires;               /* of the key or token; 0: never */
    char address[KR_HTTP_PEER_MAX];
};

/* Who asks. True; or false when the key is no longer good or lacks the route's right: it has answered then. On a route
 * that is open a key that is missing or not good makes the caller unknown. Cheap: a hash and a comparison. */
bool kr_auth_caller(struct kr_auth *a, struct kr_http_ex *ex, struct kr_api_who *ret);
/* Of an answer that goes on: is the key that asked for it still good, and this user's (NULL: whose it was)? Looked at
 * every KR_AUTH_LOOK_MS. Answers and counts nothing. A store that fails does not end anything. */
#define KR_AUTH_LOOK_MS 3000u
bool kr_auth_still(struct kr_auth *a, const struct kr_http_ex *ex, const char *user);
/* The key or token as it came, for logging out, and for replies that repeat the key of the request: 0, or -ENOENT. */
#define KR_AUTH_TEXT_MAX 256u
int kr_auth_shown(const struct kr_http_ex *ex, char text[KR_AUTH_TEXT_MAX + 1]);

/* A key was revoked, a user disabled, deleted, or given other rights: what is remembered is asked for again. */
void kr_auth_forget(struct kr_auth *a);

/* ---- for the tests ---- */

/* Takes the clock of throttling and remembering (nanoseconds) from `clock` instead of kr_clock_ns(). */
void kr_auth_set_clock(struct kr_auth *a, uint64_t (*clock)(void));

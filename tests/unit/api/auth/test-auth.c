/* src/api: the gate (auth, credential, grants, throttle) behind a real HTTP server on loopback and over a real store,
 * with a clock of the test's own; and the queue of passwords. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "auth.h"
#include "route_doc.h"
#include "err.h"
#include "grants.h"
#include "guard.h"
#include "log.h"
#include "passwords.h"
#include "store-common.h"
#include "throttle.h"
#include <arpa/inet.h>
#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <uv.h>

#define S_NS UINT64_C(1000000000)

/* ---- throttle ---- */

static void failures_add_up_and_are_forgiven_one_by_one(void)
{
    struct kr_throttle *t = NULL;
    uint64_t now = 1000 * S_NS;

    CHECK(kr_throttle_new(3, 10 * S_NS, &t) == 0);
    CHECK(kr_throttle_wait(t, "a", now) == 0);
    CHECK(kr_throttle_fail(t, "a", now) == 0 && kr_throttle_fail(t, "a", now) == 0);
    CHECK(kr_throttle_fail(t, "a", now) == 10 * S_NS); /* the third was the last one free */
    CHECK(kr_throttle_wait(t, "a", now + 9 * S_NS) == 1 * S_NS);
    CHECK(kr_throttle_wait(t, "a", now + 10 * S_NS) == 0);
    CHECK(kr_throttle_fail(t, "a", now + 10 * S_NS) == 10 * S_NS); /* one more, and wait again */
    CHECK(kr_throttle_wait(t, "b", now) == 0);
    kr_throttle_free(t);
}

static void what_is_owed_has_a_bound(void)
{
    struct kr_throttle *t = NULL;
    uint64_t now = 1000 * S_NS;

    CHECK(kr_throttle_new(3, 10 * S_NS, &t) == 0);
    for (int i = 0; i < 1000; i++)
        kr_throttle_fail(t, "a", now);
    CHECK(kr_throttle_wait(t, "a", now) == 20 * S_NS);
    kr_throttle_free(t);
}

/* A client with a hundred thousand addresses does not make the table forget who failed often. */
static void the_worst_stay_in_a_full_table(void)
{
    struct kr_throttle *t = NULL;
    uint64_t now = 1000 * S_NS;
    char key[32];

    CHECK(kr_throttle_new(3, 10 * S_NS, &t) == 0);
    for (int i = 0; i < 5; i++)
        kr_throttle_fail(t, "the worst", now);
    for (int i = 0; i < 100000; i++) {
        snprintf(key, sizeof key, "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
        kr_throttle_fail(t, key, now);
    }
    CHECK(kr_throttle_wait(t, "the worst", now) > 0);
    kr_throttle_free(t);
}

static void an_address_is_its_network(void)
{
    char a[KR_THROTTLE_KEY_ROOM], b[KR_THROTTLE_KEY_ROOM];

    CHECK(!strcmp(kr_throttle_network("192.0.2.7", a), "192.0.2.7"));
    CHECK(!strcmp(kr_throttle_network("unix", a), "unix"));
    CHECK(!strcmp(kr_throttle_network("2001:db8:1:2:3:4:5:6", a), kr_throttle_network("2001:db8:1:2::9", b)));
    CHECK(strcmp(kr_throttle_network("2001:db8:1:2::1", a), kr_throttle_network("2001:db8:1:3::1", b)) != 0);
}

/* ---- grants ---- */

static void grants_are_remembered_for_a_while(void)
{
    struct kr_store_grant in = {.user = "u", .rights = 3}, out;
    struct kr_grants *g = NULL;

    CHECK(kr_grants_new(2 * S_NS, &g) == 0);
    CHECK(!kr_grants_find(g, "kr_a", 10 * S_NS, NOW, &out));
    CHECK(kr_grants_keep(g, "kr_a", &in, 10 * S_NS, 100 * S_NS));
    CHECK(kr_grants_find(g, "kr_a", 11 * S_NS, NOW, &out) && !strcmp(out.user, "u") && out.rights == 3);
    CHECK(!kr_grants_find(g, "kr_b", 11 * S_NS, NOW, &out));
    CHECK(!kr_grants_find(g, "kr_a", 12 * S_NS, NOW, &out));
    CHECK(!kr_grants_keep(g, "kr_a", &in, 12 * S_NS, 100 * S_NS)); /* its use was noted two seconds ago */
    CHECK(kr_grants_keep(g, "kr_a", &in, 111 * S_NS, 100 * S_NS));
    kr_grants_forget(g);
    CHECK(!kr_grants_find(g, "kr_a", 111 * S_NS, NOW, &out));
    in.expires = NOW + 1;
    kr_grants_keep(g, "kr_a", &in, 111 * S_NS, 100 * S_NS);
    CHECK(kr_grants_find(g, "kr_a", 111 * S_NS, NOW, &out));
    CHECK(!kr_grants_find(g, "kr_a", 111 * S_NS, NOW + 1, &out));
    kr_grants_free(g);
}

/* ---- a server with a gate ---- */

static uint64_t fake_now = 5000 * S_NS;
static uint64_t fake_clock(void)
{
    return fake_now;
}

static uv_loop_t loop;
static struct kr_auth *auth;
static struct kr_guard *guard;
static struct kr_http_server *server;
static uint16_t port;

static struct {
    unsigned total, refused, used;
    char what[48], object[256], outcome[32], user[KR_STORE_ID_ROOM], detail[256];
} audited;

static void on_audit(void *data, const struct kr_caller *who, const char *what, const char *object, const char *outcome,
                     const char *detail)
{
    (void)data;
    audited.total++;
    audited.refused += strcmp(what, "auth.refused") == 0;
    audited.used += strcmp(what, "key.use") == 0;
    snprintf(audited.what, sizeof audited.what, "%s", what);
    snprintf(audited.object, sizeof audited.object, "%s", object);
    snprintf(audited.outcome, sizeof audited.outcome, "%s", outcome);
    snprintf(audited.user, sizeof audited.user, "%s", who->user);
    snprintf(audited.detail, sizeof audited.detail, "%s", detail ? detail : "");
}

static bool on_is_link(void *data, const struct kr_http_ex *ex)
{
    (void)data;
    return strstr(kr_http_query(ex), "link=1") != NULL;
}

static bool gate(void *app, struct kr_http_ex *ex)
{
    (void)app;
    return kr_auth_gate(auth, ex);
}

/* Says who asks: "user rights how". */
static void say_who(struct kr_http_ex *ex, void *app)
{
    struct kr_api_who who;
    char text[160];

    (void)app;
    if (!kr_auth_caller(auth, ex, &who))
        return;
    snprintf(text, sizeof text, "%s %u %d %s", who.caller.user, who.caller.rights, (int)who.how, who.caller.address);
    kr_http_reply(ex, 200, "text/plain", text, strlen(text));
}

static const struct kr_api_doc read_doc = {.id = "read", .needs = KR_RIGHT_READ};
static const struct kr_api_doc admin_doc = {.id = "admin", .needs = KR_RIGHT_ADMIN};
static const struct kr_api_doc open_doc = {.id = "open", .open = true};
static const struct kr_api_doc open_admin_doc = {.id = "open_admin", .open = true, .needs = KR_RIGHT_ADMIN};
static const struct kr_api_doc metrics_doc = {.id = "metrics"};
static const struct kr_api_doc document_doc = {.id = "execute", .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_RUN};
static const struct kr_api_doc account_doc = {.id = "me", .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_READ};
static const struct kr_http_route routes[] = {
    {KR_HTTP_GET, "/api/v1/read", 0, 0, say_who, &read_doc},
    {KR_HTTP_POST, "/api/v1/read", 1000, 0, say_who, &read_doc},
    {KR_HTTP_GET, "/api/v1/admin", 0, 0, say_who, &admin_doc},
    {KR_HTTP_GET, "/open", 0, 0, say_who, &open_doc},
    {KR_HTTP_GET, "/open/admin", 0, 0, say_who, &open_admin_doc},
    {KR_HTTP_GET, "/metrics", 0, 0, say_who, &metrics_doc},
    {KR_HTTP_GET, "/execute", 0, 0, say_who, &document_doc},
    {KR_HTTP_GET, "/api/users/me", 0, 0, say_who, &account_doc},
};

static int listen_on_loopback(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        abort();
    port = ntohs(a.sin_port);
    return fd;
}

/* Also what a check that failed has left. */
static void stop(void)
{
    if (!server)
        return;
    kr_http_server_free(server);
    uv_run(&loop, UV_RUN_DEFAULT);
    kr_auth_free(auth);
    kr_guard_free(guard);
    server = NULL;
}

static void start(bool on, const char *api_key, const char *open_too)
{
    static const char *const origins[] = {"https://app.example.com"};
    const struct kr_guard_config guard_config = {.cors_origins = {origins, 1}};
    const struct kr_http_config http = {
        .routes = routes, .route_count = sizeof routes / sizeof routes[0], .gate = gate};
    struct kr_auth_config config = {.on = on,
                                    .api_key = api_key,
                                    .loop = &loop,
                                    .store = store,
                                    .open_too = open_too,
                                    .is_link = on_is_link,
                                    .audit = on_audit};

    stop();
    memset(&audited, 0, sizeof audited);
    if (kr_guard_new(&guard_config, &guard, &err) < 0)
        abort();
    config.guard = guard;
    if (kr_auth_new(&config, &auth, &err) < 0 || kr_http_server_new(&loop, &http, &server, &err) < 0 ||
        kr_http_server_listen(server, listen_on_loopback(), 0, &err) < 0)
        abort();
    kr_auth_set_clock(auth, fake_clock);
}

static int connect_from(const char *address)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, address, &from.sin_addr);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof from) < 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        abort();
    return fd;
}

static char reply[8192];

/* Turns the loop until the peer's answer is whole (it closes); its status, or -1 when there is none within 10 s. */
static int await(int fd)
{
    size_t len = 0;
    uint64_t until = uv_hrtime() + 10 * S_NS;

    reply[0] = '\0';
    while (uv_hrtime() < until) {
        ssize_t n;

        uv_run(&loop, UV_RUN_NOWAIT);
        n = recv(fd, reply + len, sizeof reply - 1 - len, MSG_DONTWAIT);
        if (n == 0)
            break;
        if (n > 0)
            len += (size_t)n;
        reply[len] = '\0';
    }
    close(fd);
    return len > 12 ? atoi(reply + 9) : -1;
}

/* A request from an address; `head` has further lines, each with its end. */
static int ask_from(const char *address, const char *line, const char *head)
{
    char text[2048];
    int fd = connect_from(address), n;

    n = snprintf(text, sizeof text, "%s HTTP/1.1\r\nConnection: close\r\n%s%s\r\n", line,
                 strstr(head, "Host:") ? "" : "Host: localhost\r\n", head);
    if (write(fd, text, (size_t)n) != n)
        abort();
    return await(fd);
}

static int ask(const char *line, const char *head)
{
    return ask_from("127.0.0.1", line, head);
}

static bool said(const char *text)
{
    return strstr(reply, text) != NULL;
}

static const char *bearer(const char *key)
{
    static char head[400];

    snprintf(head, sizeof head, "Authorization: Bearer %s\r\n", key);
    return head;
}

static char alice_key[KR_STORE_KEY_ROOM], alice_key_id[KR_STORE_ID_ROOM], read_key[KR_STORE_KEY_ROOM];

static void make_key(const char *owner, unsigned rights, char *text, char *id)
{
    struct kr_store_key key;
    struct kr_store_key_new new = {.owner = owner, .name = "k", .rights = rights, .now = NOW};

    if (kr_store_key_add(store, &new, text, &key, &err) < 0)
        abort();
    if (id)
        memcpy(id, key.id, sizeof key.id);
}

/* ---- the gate ---- */

static void with_authentication_off_every_client_is_root(void)
{
    start(false, NULL, NULL);
    CHECK(ask("GET /api/v1/admin", "") == 200 && said("root 7 1 127.0.0.1"));
    CHECK(ask("GET /api/v1/admin", bearer("whatever")) == 200 && said("root 7 1"));
    CHECK(audited.total == 0);
    stop();
}

static void without_a_key_nothing_but_what_is_open(void)
{
    start(true, "the key", "metrics");
    CHECK(ask("GET /api/v1/read", "") == 401 && said("WWW-Authenticate: Bearer") && said("X-API-Key: KEY"));
    CHECK(said("\"kind\":\"unauthorized\"") && said("krait keys create"));
    CHECK(ask("GET /execute", "") == 401 && said(",\"detail\":\"API key required\"}"));
    CHECK(ask("GET /execute", "Authorization: Basic dXNlcjpwYXNz\r\n") == 401 && said("API key required"));
    CHECK(ask("GET /execute", "Authorization: Bearer\r\n") == 401 && said("API key required"));
    CHECK(ask("GET /execute", bearer("wrong")) == 401 && said(",\"detail\":\"Invalid API key\"}"));
    CHECK(ask("GET /api/users/me", "") == 401 && said("Could not validate credentials"));
    CHECK(ask("GET /nowhere", "") == 404);
    CHECK(ask("PUT /execute", "") == 405);
    CHECK(ask("GET /open", "") == 200 && said("\r\n\r\n 0 0 127.0.0.1"));
    CHECK(ask("GET /open", bearer("wrong")) == 200 && said("\r\n\r\n 0 0 "));
    CHECK(ask("GET /metrics", "") == 200);
    stop();
    start(true, "the-key", NULL);
    CHECK(ask("GET /metrics", "") == 401);
    stop();
}

static void the_configured_key_is_root_from_every_carrier(void)
{
    start(true, "the-key", NULL);
    CHECK(ask("GET /api/v1/admin", bearer("the-key")) == 200 && said("root 7 2"));
    CHECK(ask("GET /api/v1/admin", "authorization: bEaReR   the-key\r\n") == 200);
    CHECK(ask("GET /api/v1/admin", "x-api-key: the-key\r\n") == 200);
    CHECK(ask("GET /api/v1/admin?a=1&api_key=the-key", "") == 200);
    CHECK(ask("GET /api/v1/admin?api%5Fkey=the%2Dkey", "") == 200);
    CHECK(ask("GET /api/v1/admin?api_key=the-key", "X-API-Key: the-key\r\nAuthorization: Bearer the-key\r\n") == 200);
    CHECK(ask("GET /api/v1/admin", bearer("the-keyy")) == 401);
    CHECK(ask("GET /api/v1/admin", bearer("the-ke")) == 401);
    CHECK(ask("GET /api/v1/admin?api_key=", "") == 401 && said("required"));
    CHECK(audited.used == 1 && !strcmp(audited.object, "/api/v1/admin")); /* the last row is that of a refusal */
    stop();
}

static void two_different_keys_are_refused(void)
{
    start(true, "the-key", NULL);
    CHECK(ask("GET /api/v1/read", "X-API-Key: other\r\nAuthorization: Bearer the-key\r\n") == 400 &&
          said("two different"));
    CHECK(ask("GET /api/v1/read?api_key=other", bearer("the-key")) == 400);
    CHECK(ask("GET /api/v1/read", "X-API-Key: the-key\r\nX-API-Key: other\r\n") == 400);
    CHECK(ask("GET /api/v1/read?api_key=the-key&api_key=other", "") == 400);
    CHECK(ask("GET /api/v1/read", "X-API-Key: a b\r\nAuthorization: Bearer the-key\r\n") == 400);
    CHECK(ask("GET /api/v1/read", "Authorization: Bearer the-key\r\nX-API-Key: a b\r\n") == 400);
    CHECK(ask("GET /api/v1/read", "X-API-Key: a b\r\n") == 401);
    stop();
}

static void users_have_the_rights_of_their_keys(void)
{
    start(true, NULL, NULL);
    CHECK(ask("GET /api/v1/read", bearer(alice_key)) == 200 && said(alice) && said(" 3 3 "));
    CHECK(!strcmp(audited.what, "key.use") && !strcmp(audited.object, alice_key_id) && !strcmp(audited.user, alice));
    CHECK(ask("GET /execute", bearer(alice_key)) == 200);
    CHECK(ask("GET /api/v1/admin", bearer(alice_key)) == 403 && said("this needs admin"));
    CHECK(!strcmp(audited.outcome, "rights") && !strcmp(audited.user, alice));
    CHECK(ask("GET /execute", bearer(read_key)) == 403 && said("the right to read; this needs run"));
    CHECK(ask("GET /api/v1/read", bearer(read_key)) == 200);
    CHECK(ask("GET /open", bearer(alice_key)) == 200 && said(alice));
    CHECK(ask("GET /open/admin", bearer(alice_key)) == 200 && said("\r\n\r\n 0 0 "));
    CHECK(audited.used == 2 && !strstr(audited.detail, alice_key));
    stop();
}

static void login_tokens_are_as_good(void)
{
    char token[KR_STORE_KEY_ROOM];
    int64_t now = kr_store_now();

    start(true, NULL, NULL);
    CHECK(kr_store_token_add(store, alice, now + 60 * SECOND, now, token, &err) == 0);
    CHECK(ask("GET /api/v1/read", bearer(token)) == 200 && said(alice) && said(" 3 4 "));
    CHECK(kr_store_token_revoke(store, token, &err) == 0);
    kr_auth_forget(auth);
    CHECK(ask("GET /api/v1/read", bearer(token)) == 401);
    CHECK(audited.used == 0);
    stop();
}

static void what_was_revoked_is_refused(void)
{
    char text[KR_STORE_KEY_ROOM], id[KR_STORE_ID_ROOM];

    start(true, NULL, NULL);
    make_key(alice, 3, text, id);
    CHECK(ask("GET /api/v1/read", bearer(text)) == 200);
    CHECK(kr_store_key_revoke(store, alice, id, NOW, &err) == 0); /* by another process, as far as the gate knows */
    CHECK(ask("GET /api/v1/read", bearer(text)) == 200);
    fake_now += KR_AUTH_REMEMBER_MS * S_NS / 1000;
    CHECK(ask("GET /api/v1/read", bearer(text)) == 401 && said("revoked"));
    CHECK(ask("GET /execute", bearer(text)) == 401 && said("Invalid API key"));
    make_key(alice, 3, text, id);
    CHECK(ask("GET /api/v1/read", bearer(text)) == 200);
    CHECK(kr_store_key_revoke(store, alice, id, NOW, &err) == 0);
    kr_auth_forget(auth); /* by ourselves */
    CHECK(ask("GET /api/v1/read", bearer(text)) == 401);
    CHECK(!strcmp(audited.outcome, "revoked") && strstr(audited.detail, "\"prefix\":\"kr_") &&
          !strstr(audited.detail, text));
    stop();
}

static void what_ran_out_and_who_is_disabled_is_refused(void)
{
    int64_t now = kr_store_now(); /* the store's clock is the real one */
    const struct kr_store_key_new soon = {
        .owner = alice, .name = "soon", .rights = 3, .expires = now + 10000, .now = now};
    char text[KR_STORE_KEY_ROOM];

    start(true, NULL, NULL);
    CHECK(kr_store_key_add(store, &soon, text, NULL, &err) == 0);
    usleep(20000);
    CHECK(ask("GET /api/v1/read", bearer(text)) == 401 && said("run out"));
    CHECK(kr_store_user_set_disabled(store, bob, NOW, &err) == 0);
    make_key(bob, 3, text, NULL);
    CHECK(ask("GET /api/v1/read", bearer(text)) == 403 && said("disabled"));
    CHECK(ask("GET /api/users/me", bearer(text)) == 400 && said(",\"detail\":\"Inactive user\"}"));
    CHECK(kr_store_user_set_disabled(store, bob, 0, &err) == 0);
    CHECK(ask("GET /api/users/me", bearer(text)) == 200);
    stop();
}

/* The gate let it pass; the key is revoked before the body has come. */
static void a_handler_asks_again(void)
{
    char text[KR_STORE_KEY_ROOM], id[KR_STORE_ID_ROOM], head[600];
    int fd, n;

    start(true, NULL, NULL);
    for (int revoke = 0; revoke < 2; revoke++) {
        make_key(alice, 3, text, id);
        fd = connect_from("127.0.0.1");
        n = snprintf(
            head, sizeof head,
            "POST /api/v1/read HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n%s\r\n",
            bearer(text));
        CHECK(write(fd, head, (size_t)n) == n);
        for (int i = 0; i < 50; i++)
            uv_run(&loop, UV_RUN_NOWAIT);
        if (revoke) {
            CHECK(kr_store_key_revoke(store, alice, id, NOW, &err) == 0);
            kr_auth_forget(auth);
        }
        CHECK(write(fd, "{}", 2) == 2);
        CHECK(await(fd) == (revoke ? 401 : 200));
    }
    stop();
}

/* ---- throttling ---- */

static void wrong_keys_are_throttled_by_address(void)
{
    start(true, "the-key", NULL);
    for (unsigned i = 0; i < KR_AUTH_FAILURES_MAX; i++)
        CHECK(ask("GET /api/v1/read", bearer("wrong")) == 401);
    CHECK(audited.refused == KR_AUTH_FAILURES_MAX);
    CHECK(ask("GET /api/v1/read", bearer("wrong")) == 429 && said("Retry-After: 4") && said("too_many"));
    CHECK(ask("GET /api/v1/read", bearer("the-key")) == 200); /* a good key is let in all the same */
    CHECK(ask("GET /open", bearer("the-key")) == 200 && said("\r\n\r\nroot 7 "));
    CHECK(audited.refused == KR_AUTH_FAILURES_MAX);
    CHECK(ask("GET /api/v1/read", bearer(alice_key)) == 200);
    CHECK(ask("GET /api/v1/read", "") == 401); /* no key is no guess */
    CHECK(ask_from("127.0.0.2", "GET /api/v1/read", bearer("wrong")) == 401);
    fake_now += KR_AUTH_FAILURE_MS * S_NS / 1000;
    CHECK(ask("GET /api/v1/read", bearer("wrong")) == 401);
    CHECK(ask("GET /api/v1/read", bearer("wrong")) == 429);
    stop();
}

/* Refusals past the bound leave one after the other's time; good keys overtake them, and a peer that leaves takes its
 * own with it. */
static void wrong_keys_wait_and_good_ones_pass_them(void)
{
    int waiting[8];
    char text[256];
    int n;

    start(true, "the-key", NULL);
    for (unsigned i = 0; i < KR_AUTH_FAILURES_MAX; i++)
        ask("GET /api/v1/read", bearer("wrong"));
    n = snprintf(text, sizeof text,
                 "POST /api/v1/read HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n%sContent-Length: 9\r\n\r\nabc",
                 bearer("wrong"));
    for (unsigned i = 0; i < 8; i++) {
        waiting[i] = connect_from("127.0.0.1");
        CHECK(write(waiting[i], text, (size_t)n) == n);
    }
    for (int i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    close(waiting[0]);
    CHECK(ask("GET /api/v1/read", bearer("the-key")) == 200);
    CHECK(recv(waiting[1], text, sizeof text, MSG_DONTWAIT) < 0); /* not yet */
    for (unsigned i = 1; i < 8; i++)
        CHECK(await(waiting[i]) == 429 && said("Retry-After: "));
    stop();
}

static void no_key_at_all_is_never_throttled(void)
{
    start(true, "the-key", NULL);
    for (unsigned i = 0; i < 2 * KR_AUTH_FAILURES_MAX; i++)
        CHECK(ask("GET /api/v1/read", "") == 401);
    CHECK(audited.total == 0);
    CHECK(ask("GET /api/v1/read", bearer("the-key")) == 200);
    stop();
}

static void refusals_do_not_flood_the_audit_log(void)
{
    char address[32];

    start(true, "the-key", NULL);
    for (unsigned i = 0; i < KR_AUTH_AUDIT_MAX + 50; i++) {
        snprintf(address, sizeof address, "127.0.%u.%u", 1 + i / 250, 1 + i % 250);
        CHECK(ask_from(address, "GET /api/v1/read", bearer("wrong")) == 401);
    }
    CHECK(audited.refused == KR_AUTH_AUDIT_MAX);
    fake_now += KR_AUTH_AUDIT_MS * S_NS / 1000;
    CHECK(ask_from("127.0.9.9", "GET /api/v1/read", bearer("wrong")) == 401);
    CHECK(audited.refused == KR_AUTH_AUDIT_MAX + 1);
    stop();
}

/* ---- browsers ---- */

static void strange_hosts_and_origins_are_refused_first(void)
{
    start(true, "the-key", NULL);
    CHECK(ask("GET /api/v1/read", "Host: evil.example.org\r\nX-API-Key: the-key\r\n") == 400 &&
          said("Invalid host header"));
    CHECK(said("{\"error\":"));
    CHECK(ask("GET /execute", "Host: evil.example.org\r\n") == 400 && said(",\"detail\":\"Invalid host header\"}"));
    CHECK(ask("GET /open", "Origin: https://evil.example.org\r\n") == 403);
    CHECK(ask("GET /open", "Origin: null\r\n") == 403);
    CHECK(ask("GET /open", "Sec-Fetch-Site: cross-site\r\n") == 403);
    CHECK(ask("GET /open?link=1",
              "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n") == 200);
    CHECK(ask("GET /nowhere", "Origin: https://evil.example.org\r\n") == 403);
    CHECK(audited.total == 0);
    stop();
}

static void configured_origins_get_their_headers(void)
{
    static const char origin[] = "Origin: https://app.example.com\r\n";

    start(true, "the-key", NULL);
    CHECK(ask("GET /open", origin) == 200 && said("Access-Control-Allow-Origin: https://app.example.com"));
    CHECK(said("Vary: Origin"));
    CHECK(ask("GET /api/v1/read", origin) == 401 && said("Access-Control-Allow-Origin: https://app.example.com"));
    CHECK(ask("OPTIONS /api/v1/read", "Origin: https://app.example.com\r\nAccess-Control-Request-Method: GET\r\n"
                                      "Access-Control-Request-Headers: authorization\r\n") == 204);
    CHECK(said("Access-Control-Allow-Headers: ") && said("Authorization"));
    CHECK(ask("GET /open", "") == 200 && !said("Access-Control-Allow-Origin"));
    stop();
}

/* ---- passwords ---- */

static struct {
    int calls, result;
    char hash[KR_PASSWORD_ROOM];
} done;

static void on_done(void *data, int r, const char *hash)
{
    (void)data;
    done.calls++;
    done.result = r;
    snprintf(done.hash, sizeof done.hash, "%s", hash ? hash : "");
}

static int work(struct kr_passwords *p, struct kr_password_ask ask_for)
{
    struct kr_password_job *job;
    int before = done.calls, r = kr_passwords_ask(p, &ask_for, on_done, NULL, &job, &err);

    if (r < 0)
        return r;
    while (done.calls == before)
        uv_run(&loop, UV_RUN_ONCE);
    return done.result;
}

static void passwords_are_hashed_and_checked(void)
{
    char hash[KR_PASSWORD_ROOM], weak[KR_PASSWORD_ROOM];
    struct kr_passwords *p = NULL;

    stop();
    CHECK(kr_passwords_new(&loop, &p) == 0);
    CHECK(work(p, (struct kr_password_ask){.fresh = "secret", .fresh_len = 6}) == 0 && done.hash[0] == '$');
    memcpy(hash, done.hash, sizeof hash);
    CHECK(work(p, (struct kr_password_ask){.check = true, .hash = hash, .password = "secret", .len = 6}) == 0);
    CHECK(done.hash[0] == '\0');
    CHECK(work(p, (struct kr_password_ask){.check = true, .hash = hash, .password = "Secret", .len = 6}) ==
          -EKEYREJECTED);
    CHECK(work(p, (struct kr_password_ask){.check = true, .password = "secret", .len = 6}) == -EKEYREJECTED);
    CHECK(work(p,
               (struct kr_password_ask){
                   .check = true, .hash = hash, .password = "wrong", .len = 5, .fresh = "new one", .fresh_len = 7}) ==
          -EKEYREJECTED);
    CHECK(done.hash[0] == '\0');
    CHECK(work(p,
               (struct kr_password_ask){
                   .check = true, .hash = hash, .password = "secret", .len = 6, .fresh = "new one", .fresh_len = 7}) ==
          0);
    CHECK(kr_password_verify(done.hash, "new one", 7) == 0);
    CHECK(work(p, (struct kr_password_ask){.fresh = "", .fresh_len = 0}) == -EINVAL);
    CHECK(work(p, (struct kr_password_ask){.fresh = "x", .fresh_len = KR_PASSWORD_MAX + 1}) == -EINVAL);
    CHECK(crypto_pwhash_argon2id_str(weak, "secret", 6, 1, 8192) == 0); /* of other parameters: is made anew */
    CHECK(work(p, (struct kr_password_ask){.check = true, .hash = weak, .password = "secret", .len = 6}) == 0);
    CHECK(kr_password_verify(done.hash, "secret", 6) == 0 && !kr_password_is_old(done.hash));
    kr_passwords_close(p);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void few_passwords_at_a_time(void)
{
    const struct kr_password_ask one = {.fresh = "secret", .fresh_len = 6};
    struct kr_password_job *jobs[KR_PASSWORDS_AT_ONCE + KR_PASSWORDS_WAITING], *more;
    struct kr_passwords *p = NULL;

    memset(&done, 0, sizeof done);
    CHECK(kr_passwords_new(&loop, &p) == 0);
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        CHECK(kr_passwords_ask(p, &one, on_done, NULL, &jobs[i], &err) == 0);
    CHECK(kr_passwords_ask(p, &one, on_done, NULL, &more, &err) == -EBUSY && err.kind == KR_ERR_BUSY);
    kr_password_forget(jobs[0]); /* is at work: goes on, its result is dropped */
    for (size_t i = 3; i < sizeof jobs / sizeof jobs[0]; i++)
        kr_password_forget(jobs[i]);
    CHECK(kr_passwords_ask(p, &one, on_done, NULL, &more, &err) == 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(done.calls == 3); /* jobs 1 and 2, and the last one */
    CHECK(kr_passwords_ask(p, &one, on_done, NULL, &more, &err) == 0);
    kr_passwords_close(p); /* with one at work */
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(done.calls == 3);
}

int main(void)
{
    atexit(remove_top);
    kr_log_set_level(KR_LOG_ERROR); /* refusals are what this is about */
    if (sodium_init() < 0 || uv_loop_init(&loop) != 0)
        return 1;
    store = must_open(fresh_dir());
    if (add_user("alice", alice) < 0 || add_user("bob", bob) < 0)
        return 1;
    make_key(alice, 7, alice_key, alice_key_id); /* more than alice has */
    make_key(alice, KR_RIGHT_READ, read_key, NULL);
    RUN(failures_add_up_and_are_forgiven_one_by_one);
    RUN(what_is_owed_has_a_bound);
    RUN(the_worst_stay_in_a_full_table);
    RUN(an_address_is_its_network);
    RUN(grants_are_remembered_for_a_while);
    RUN(with_authentication_off_every_client_is_root);
    RUN(without_a_key_nothing_but_what_is_open);
    RUN(the_configured_key_is_root_from_every_carrier);
    RUN(two_different_keys_are_refused);
    RUN(users_have_the_rights_of_their_keys);
    RUN(login_tokens_are_as_good);
    RUN(what_was_revoked_is_refused);
    RUN(what_ran_out_and_who_is_disabled_is_refused);
    RUN(a_handler_asks_again);
    RUN(wrong_keys_are_throttled_by_address);
    RUN(wrong_keys_wait_and_good_ones_pass_them);
    RUN(no_key_at_all_is_never_throttled);
    RUN(refusals_do_not_flood_the_audit_log);
    RUN(strange_hosts_and_origins_are_refused_first);
    RUN(configured_origins_get_their_headers);
    RUN(passwords_are_hashed_and_checked);
    RUN(few_passwords_at_a_time);
    kr_store_close(store);
    uv_loop_close(&loop);
    CHECK_DONE();
}

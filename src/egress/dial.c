/* From a name to a connected socket.
 *
 * Called for the target of every request of a cell, for the index and for fetches. A name is resolved on the thread
 * pool, in a lane in which sandboxes take turns. Each of its addresses is judged by the table in address.c; what is
 * connected to is one of those that passed, as bytes, so that a second answer of the resolver changes nothing. Several
 * are tried one after the other, both families in turn, and a slow one does not hold up the next. Invariant: a host of
 * this server's own is never connected to, whatever rule or exception names it. */
#include "dial.h"
#include "address.h"
#include "clock.h"
#include "egress_internal.h"
#include "fd.h"
#include "hash.h"
#include "loop.h"
#include "work.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ADDRESSES_MAX 16u
#define NEXT_ADDRESS_MS 250u
#define SMALL_BUFFER (96 << 10) /* of a socket, in each direction; the kernel doubles it for its own use */

const char *const kr_eg_verdict_names[KR_EG_VERDICT_MAX_] = {[KR_EG_OK] = "ok",
                                                             [KR_EG_DENIED] = "denied",
                                                             [KR_EG_FAILED] = "failed",
                                                             [KR_EG_LIMIT] = "limit",
                                                             [KR_EG_TIMEOUT] = "timeout"};

/* On the thread pool. It outlives a dial that is cancelled or too late: a resolver cannot be interrupted. */
struct lookup {
    struct kr_work work;
    struct kr_eg_dial *dial;
    char host[KR_EG_HOST_ROOM];
    struct sockaddr_storage found[ADDRESSES_MAX];
    unsigned count;
    int error; /* of getaddrinfo(3) */
};

struct attempt {
    struct kr_eg_dial *dial;
    struct kr_watch *watch; /* NULL: not begun, or failed */
    struct sockaddr_storage address;
};

struct kr_eg_dial {
    struct kr_eg *eg;
    kr_eg_dial_fn *on_end;
    void *data;
    char host[KR_EG_HOST_ROOM];
    uint16_t port;
    bool exempt;  /* reserved addresses are allowed */
    bool crowded; /* the sandbox has many connections */
    struct lookup *lookup;
    struct kr_timer *deadline, *stagger;
    struct kr_soon *soon;
    struct attempt attempts[ADDRESSES_MAX];
    unsigned count, next, open;
    struct kr_eg_dial_end end; /* why it fails, of what was tried last */
};

/* ---- ends ---- */

static void free_dial(struct kr_eg_dial *d)
{
    if (d->lookup) {
        d->lookup->dial = NULL;
        kr_work_drop(&d->lookup->work);
    }
    for (unsigned i = 0; i < d->count; i++)
        kr_watch_close(d->attempts[i].watch);
    kr_timer_close(d->deadline);
    kr_timer_close(d->stagger);
    kr_soon_close(d->soon);
    free(d);
}

static void end_dial(struct kr_eg_dial *d)
{
    struct kr_eg_dial_end end = d->end;
    kr_eg_dial_fn *on_end = d->on_end;
    void *data = d->data;

    free_dial(d);
    on_end(data, &end);
}

static void set_failure(struct kr_eg_dial *d, enum kr_eg_verdict verdict, unsigned status)
{
    d->end.verdict = verdict;
    d->end.status = status;
    d->end.fd = -1;
}

static void on_dial_soon(void *data)
{
    end_dial(data);
}

static void on_dial_deadline(void *data)
{
    struct kr_eg_dial *d = data;
    const struct kr_egress_limits *limits = &d->eg->limits;

    set_failure(d, KR_EG_TIMEOUT, 504);
    if (d->lookup)
        snprintf(d->end.why, sizeof d->end.why, "the name was not resolved within %u ms", limits->resolve_ms);
    else
        snprintf(d->end.why, sizeof d->end.why, "no connection within %u ms", limits->connect_ms);
    end_dial(d);
}

/* ---- exceptions ---- */

/* Is it one of the words "NAME[:PORT]"? An address of IPv6 stands in brackets. */
static bool word_is_host(const char *word, const char *host, uint16_t port)
{
    size_t len = *word == '[' ? strcspn(word, "]") : strcspn(word, ":");
    const char *rest = word + len;

    if (*word == '[') {
        word++;
        len--;
        rest += *rest == ']';
    }
    if (len != strlen(host) || strncasecmp(word, host, len) != 0)
        return false;
    return *rest != ':' || strtoul(rest + 1, NULL, 10) == port;
}

bool kr_eg_words_have_host(const struct kr_words *words, const char *host, uint16_t port)
{
    for (size_t i = 0; i < words->count; i++)
        if (word_is_host(words->items[i], host, port))
            return true;
    return false;
}

static bool is_own_port(const struct kr_egress_config *config, uint16_t port)
{
    for (size_t i = 0; i < config->own_ports_count; i++)
        if (config->own_ports[i] == port)
            return true;
    return false;
}

/* ---- connecting ---- */

static void begin_attempts(struct kr_eg_dial *d);

static void attempt_failed(struct kr_eg_dial *d, const struct attempt *a, int error)
{
    set_failure(d, KR_EG_FAILED, 502);
    kr_eg_address_text((const struct sockaddr *)&a->address, d->end.address, sizeof d->end.address);
    snprintf(d->end.why, sizeof d->end.why, "%.160s: %s", d->end.address, strerror(error));
}

/* A socket that was given its own port as a peer is connected to itself. */
static bool is_joined_to_itself(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_len = sizeof here, there_len = sizeof there;

    return getsockname(fd, (struct sockaddr *)&here, &here_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_len) == 0 && here_len == there_len &&
           memcmp(&here, &there, here_len) == 0;
}

static void on_attempt_writable(void *data)
{
    struct attempt *a = data;
    struct kr_eg_dial *d = a->dial;
    int fd = kr_watch_fd(a->watch), error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error == 0 && is_joined_to_itself(fd))
        error = ECONNREFUSED;
    if (error != 0) {
        kr_watch_close(a->watch);
        a->watch = NULL;
        d->open--;
        attempt_failed(d, a, error);
        begin_attempts(d);
        return;
    }
    d->end.verdict = KR_EG_OK;
    d->end.fd = kr_watch_release(a->watch);
    a->watch = NULL;
    d->end.status = 0;
    d->end.why[0] = '\0';
    kr_eg_address_text((const struct sockaddr *)&a->address, d->end.address, sizeof d->end.address);
    end_dial(d);
}

void kr_eg_bound_buffers(int fd)
{
    static const int bytes = SMALL_BUFFER;

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes); /* fails for no socket of ours */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

static int begin_attempt(struct attempt *a)
{
    static const struct kr_watch_calls calls = {NULL, on_attempt_writable};
    const struct sockaddr *address = (const struct sockaddr *)&a->address;
    cleanup_fd int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1, r;

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* without it requests are slower, only */
    if (a->dial->crowded)
        kr_eg_bound_buffers(fd);
    if (connect(fd, address,
                address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)) < 0 &&
        errno != EINPROGRESS)
        return -errno;
    r = kr_watch_new(&a->dial->eg->loop, fd, &calls, a, &a->watch);
    if (r < 0)
        return r;
    steal_fd(&fd);
    kr_watch_want_write(a->watch, true);
    return 0;
}

/* Begins the next address; one that fails at once is passed over. With none left and none open the dial has failed. */
static void begin_attempts(struct kr_eg_dial *d)
{
    while (d->next < d->count) {
        struct attempt *a = &d->attempts[d->next++];
        int r = begin_attempt(a);

        if (r == 0) {
            d->open++;
            if (d->next < d->count)
                kr_timer_arm(d->stagger, NEXT_ADDRESS_MS);
            return;
        }
        attempt_failed(d, a, -r);
    }
    if (d->open == 0)
        kr_soon_ask(d->soon);
}

static void on_stagger(void *data)
{
    begin_attempts(data);
}

/* ---- judging ---- */

static bool address_passes(struct kr_eg_dial *d, const struct sockaddr *address)
{
    const char *what = NULL, *why = NULL;
    enum kr_eg_address_use use = kr_eg_address_use(address, &what);

    if (use == KR_EG_ADDRESS_NEVER || (use == KR_EG_ADDRESS_RESERVED && !d->exempt))
        why = "which is not on the public internet";
    else if (is_own_port(d->eg->config, d->port) && kr_eg_address_is_own(address))
        why = "and krait itself listens there";
    if (!why)
        return true;
    set_failure(d, KR_EG_DENIED, 403);
    kr_eg_address_text(address, d->end.address, sizeof d->end.address);
    snprintf(d->end.why, sizeof d->end.why, "%s is %s, %s", d->end.address, what ? what : "an address of this machine",
             why);
    return false;
}

/* Keeps the addresses that pass, the two families in turn as long as there are both, the resolver's first one first. */
static void take_addresses(struct kr_eg_dial *d, const struct sockaddr_storage *found, unsigned count)
{
    const struct sockaddr_storage *passed[ADDRESSES_MAX];
    unsigned n = 0;
    int family = 0;

    for (unsigned i = 0; i < count; i++)
        if (address_passes(d, (const struct sockaddr *)&found[i]))
            passed[n++] = &found[i];
    for (unsigned left = n; left > 0; left--) {
        unsigned pick = 0;

        while (pick < n && (!passed[pick] || passed[pick]->ss_family == family))
            pick++;
        for (unsigned i = 0; pick == n; i++)
            if (passed[i])
                pick = i;
        family = passed[pick]->ss_family;
        d->attempts[d->count] = (struct attempt){.dial = d, .address = *passed[pick]};
        kr_eg_address_set_port(&d->attempts[d->count].address, d->port);
        d->count++;
        passed[pick] = NULL;
    }
}

static void connect_to(struct kr_eg_dial *d, const struct sockaddr_storage *found, unsigned count)
{
    take_addresses(d, found, count);
    kr_timer_arm(d->deadline, d->eg->limits.connect_ms);
    if (d->count == 0)
        kr_soon_ask(d->soon); /* address_passes() said why */
    else
        begin_attempts(d);
}

/* ---- resolving ---- */

static void run_lookup(void *data)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct lookup *l = data;
    struct addrinfo *list = NULL;

    l->error = getaddrinfo(l->host, NULL, &hints, &list);
    if (l->error != 0)
        return;
    for (const struct addrinfo *a = list; a && l->count < ADDRESSES_MAX; a = a->ai_next)
        if (a->ai_addrlen <= sizeof *l->found && (a->ai_family == AF_INET || a->ai_family == AF_INET6))
            memcpy(&l->found[l->count++], a->ai_addr, a->ai_addrlen);
    freeaddrinfo(list);
}

static void lookup_failed(struct kr_eg_dial *d, int error)
{
    bool unknown = error == 0 || error == EAI_NONAME || error == EAI_NODATA;

    set_failure(d, KR_EG_FAILED, 502);
    snprintf(d->end.why, sizeof d->end.why, "%.160s: %s", d->host, unknown ? "no such host" : gai_strerror(error));
}

static void on_lookup_done(void *data)
{
    struct lookup *l = data;
    struct kr_eg_dial *d = l->dial;

    d->lookup = NULL;
    if (l->error != 0 || l->count == 0) {
        lookup_failed(d, l->error);
        kr_soon_ask(d->soon);
    } else {
        connect_to(d, l->found, l->count);
    }
    free(l);
}

static void on_lookup_dropped(void *data)
{
    free(data);
}

static int begin_lookup(struct kr_eg_dial *d, const char *sandbox)
{
    static const struct kr_work_calls calls = {run_lookup, on_lookup_done, on_lookup_dropped};
    struct lookup *l = calloc(1, sizeof *l);

    if (!l)
        return -ENOMEM;
    l->dial = d;
    memcpy(l->host, d->host, sizeof l->host);
    if (kr_lane_start_for(d->eg->lookups, kr_hash_text(KR_HASH_START, sandbox), &l->work, &calls, l) < 0) {
        free(l);
        set_failure(d, KR_EG_LIMIT, 429);
        snprintf(d->end.why, sizeof d->end.why, "too many names are being resolved; try again");
        kr_soon_ask(d->soon);
        return 0;
    }
    d->lookup = l;
    kr_timer_arm(d->deadline, d->eg->limits.resolve_ms);
    return 0;
}

/* ---- from outside ---- */

/* What the words of the settings and the spelling of the host say, before anything is resolved. False: d->end has
 * it. */
static bool judge_host(struct kr_eg_dial *d, enum kr_eg_host_kind kind)
{
    const char *why = NULL;

    if (kind == KR_EG_HOST_BAD)
        why = "is neither a name nor an address in its usual form";
    else if (kr_eg_words_have_host(&d->eg->config->own_hosts, d->host, d->port))
        why = "is krait itself";
    if (!why)
        return true;
    set_failure(d, KR_EG_DENIED, 403);
    snprintf(d->end.why, sizeof d->end.why, "%.160s %s", d->host, why);
    return false;
}

static int begin_dial(struct kr_eg_dial *d, const struct kr_eg_dial_ask *ask)
{
    struct sockaddr_storage address;
    enum kr_eg_host_kind kind = kr_eg_host_read(d->host, &address);

    if (!judge_host(d, kind))
        kr_soon_ask(d->soon);
    else if (kind == KR_EG_HOST_NAME)
        return begin_lookup(d, ask->sandbox);
    else
        connect_to(d, &address, 1);
    return 0;
}

int kr_eg_dial_start(struct kr_eg *eg, const struct kr_eg_dial_ask *ask, kr_eg_dial_fn *on_end, void *data,
                     struct kr_eg_dial **ret_dial)
{
    struct kr_eg_dial *d = calloc(1, sizeof *d);
    int r;

    if (!d)
        return -ENOMEM;
    d->eg = eg;
    d->on_end = on_end;
    d->data = data;
    d->port = ask->port;
    d->end.fd = -1;
    /* One that does not fit is no host: cut it would be another one. */
    snprintf(d->host, sizeof d->host, "%s", strlen(ask->host) < sizeof d->host ? ask->host : "");
    d->crowded = kr_eg_sandbox_is_crowded(eg, ask->sandbox);
    d->exempt = ask->trusted || kr_eg_words_have_host(&eg->config->private_hosts, d->host, d->port);
    r = kr_timer_new(&eg->loop, on_dial_deadline, d, &d->deadline);
    if (r >= 0)
        r = kr_timer_new(&eg->loop, on_stagger, d, &d->stagger);
    if (r >= 0)
        r = kr_soon_new(&eg->loop, on_dial_soon, d, &d->soon);
    if (r >= 0)
        r = begin_dial(d, ask);
    if (r < 0) {
        free_dial(d);
        return r;
    }
    *ret_dial = d;
    return 0;
}

void kr_eg_dial_cancel(struct kr_eg_dial *d)
{
    if (d)
        free_dial(d);
}

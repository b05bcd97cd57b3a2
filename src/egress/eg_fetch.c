/* Fetches for the server itself: wheels and pages of the index, files that a client named by their address.
 *
 * Called by the control socket. So many at a time run as the limit says, the rest wait in order, each within its own
 * time, which begins when it is asked for. What comes is written and hashed on the thread pool; the source pauses while
 * that is slower. Invariants: every fetch ends with one KR_E_FETCHED; an address is judged by the rule that came with
 * it, and so is every redirect; no more than max_bytes are written. */
#include "eg_fetch.h"
#include "clock.h"
#include "eg_index.h"
#include "egress_internal.h"
#include "fd.h"
#include "loop.h"
#include "proto.h"
#include "work.h"
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX_SCHEME "index:"
#define WRITE_FROM (256u << 10)  /* bytes from which on they are written */
#define WAITING_MAX (1u << 20)   /* bytes that wait to be written: past that the source pauses */
#define BUF_MAX (16u << 20)      /* a page comes in pieces of up to 4 MiB */
#define PROGRESS_NS 100000000ull /* between two reports */
#define TIMEOUT_MAX_MS (24u * 3600u * 1000u)
#define NAME_BYTES 255u

struct kr_eg_fetches {
    struct kr_eg *eg;
    struct kr_eg_index *index;
    const struct kr_eg_tls_trust *trust;
    TAILQ_HEAD(, fetch) all;
    unsigned running;
    struct kr_soon *soon;
};

struct fetch {
    TAILQ_ENTRY(fetch) link;
    struct kr_eg_fetches *fetches;
    uint32_t id;
    char *url, *accept;
    bool of_index, started;
    struct kr_net_rule rule;
    struct kr_eg_sandbox *sandbox;
    char sandbox_id[KR_EG_TEXT_ROOM], user[KR_EG_TEXT_ROOM];
    uint64_t max_bytes, until_ns;
    struct kr_timer *timer;
    struct kr_eg_get *get;
    struct kr_eg_index_get *index_get;
    /* What has come. */
    unsigned status;
    uint64_t bytes, total, told_ns;
    char type[KR_EG_TYPE_ROOM], name[NAME_BYTES + 1], promised[KR_INDEX_HASH_ROOM];
    struct kr_buf waiting;
    bool paused, ended; /* ended: the source has no more */
    /* On the thread pool. */
    struct kr_work work;
    struct kr_buf writing;
    EVP_MD_CTX *md;
    int file, write_error;
};

static void start_next(struct kr_eg_fetches *all);

/* ---- ends ---- */

static void free_fetch(struct fetch *f)
{
    kr_timer_close(f->timer);
    kr_fd_close(f->file);
    EVP_MD_CTX_free(f->md);
    kr_buf_done(&f->waiting);
    kr_buf_done(&f->writing);
    free(f->url);
    free(f->accept);
    free(f);
}

/* It is nobody's any more; its memory goes now, or when the thread that writes for it has returned. */
static void remove_fetch(struct fetch *f)
{
    struct kr_eg_fetches *all = f->fetches;

    TAILQ_REMOVE(&all->all, f, link);
    if (f->started)
        all->running--;
    kr_eg_get_cancel(f->get);
    kr_eg_index_cancel(f->index_get);
    f->get = NULL;
    f->index_get = NULL;
    if (f->sandbox)
        kr_eg_sandbox_unref(f->sandbox);
    if (kr_work_busy(&f->work))
        kr_work_drop(&f->work);
    else
        free_fetch(f);
}

static void send_end(struct kr_eg *eg, uint32_t id, json_t *end)
{
    char *text = end ? json_dumps(end, JSON_COMPACT) : NULL;
    static const char broken[] = "{\"error\":\"failed\",\"why\":\"the reason is not text\"}";

    json_decref(end);
    kr_eg_send(eg, KR_E_FETCHED, id, text ? text : broken, text ? strlen(text) : sizeof broken - 1);
    free(text);
}

static void fail(struct fetch *f, enum kr_eg_verdict verdict, const char *why)
{
    struct kr_eg_fetches *all = f->fetches;

    send_end(all->eg, f->id, json_pack("{ss ss%}", "error", kr_eg_verdict_names[verdict], "why", why, strlen(why)));
    remove_fetch(f);
    start_next(all);
}

/* Text of a header, for JSON: what is not ASCII becomes "?". */
static const char *plain(char *text)
{
    for (char *p = text; *p; p++)
        if ((unsigned char)*p >= 0x7f || (unsigned char)*p < 0x20)
            *p = '?';
    return text;
}

static void succeed(struct fetch *f)
{
    struct kr_eg_fetches *all = f->fetches;
    unsigned char digest[EVP_MAX_MD_SIZE];
    char sha256[KR_INDEX_HASH_ROOM] = "";
    unsigned size = 0;

    EVP_DigestFinal_ex(f->md, digest, &size);
    for (unsigned i = 0; i < size; i++)
        snprintf(sha256 + 2 * i, 3, "%02x", digest[i]);
    send_end(all->eg, f->id,
             json_pack("{si sI ss ss ss ss}", "status", (int)f->status, "bytes", (json_int_t)f->bytes, "type",
                       plain(f->type), "name", f->name, "sha256", sha256, "promised", f->promised));
    remove_fetch(f);
    start_next(all);
}

static void on_fetch_time(void *data)
{
    fail(data, KR_EG_TIMEOUT, "the fetch did not finish in time");
}

/* ---- writing ---- */

static void begin_writing(struct fetch *f);

static void run_write(void *data)
{
    struct fetch *f = data;

    f->write_error = kr_fd_write_all(f->file, f->writing.data, f->writing.len);
    EVP_DigestUpdate(f->md, f->writing.data, f->writing.len);
}

static void pause_source(struct fetch *f, bool pause)
{
    if (f->paused == pause)
        return;
    f->paused = pause;
    if (f->get)
        kr_eg_get_pause(f->get, pause);
    if (f->index_get)
        kr_eg_index_pause(f->index_get, pause);
}

static void on_written(void *data)
{
    struct fetch *f = data;
    char why[KR_EG_WHY_ROOM];

    kr_buf_reset(&f->writing);
    if (f->write_error < 0) {
        snprintf(why, sizeof why, "what came cannot be written: %s", strerror(-f->write_error));
        fail(f, KR_EG_FAILED, why);
        return;
    }
    if (f->ended || f->waiting.len >= WRITE_FROM)
        begin_writing(f);
    else
        pause_source(f, false);
}

static void on_write_dropped(void *data)
{
    free_fetch(data);
}

/* What waits goes to the thread pool, unless a thread writes already. With the last of it the fetch has ended. */
static void begin_writing(struct fetch *f)
{
    static const struct kr_work_calls calls = {run_write, on_written, on_write_dropped};
    struct kr_buf empty = f->writing;

    if (kr_work_busy(&f->work))
        return;
    if (f->waiting.len == 0) {
        if (f->ended)
            succeed(f);
        return;
    }
    f->writing = f->waiting;
    f->waiting = empty;
    kr_work_start(&f->fetches->eg->loop, &f->work, &calls, f);
    pause_source(f, false);
}

/* ---- what comes ---- */

static void tell_progress(struct fetch *f)
{
    const struct kr_e_progress p = {.bytes = f->bytes, .total = f->total};
    uint64_t now = kr_clock_ns();

    if (now - f->told_ns < PROGRESS_NS)
        return;
    f->told_ns = now;
    kr_eg_send(f->fetches->eg, KR_E_PROGRESS, f->id, &p, sizeof p);
}

static int too_large(const struct fetch *f, struct kr_err *err)
{
    return kr_err_set(err, KR_ERR_LIMIT, EFBIG, "the file is larger than the %llu bytes that are allowed",
                      (unsigned long long)f->max_bytes);
}

static int take_reply(struct fetch *f, unsigned status, const char *type, int64_t length, struct kr_err *err)
{
    f->status = status;
    f->total = length > 0 ? (uint64_t)length : 0;
    snprintf(f->type, sizeof f->type, "%s", type);
    return f->total > f->max_bytes ? too_large(f, err) : 0;
}

static int on_fetch_body(void *data, const char *bytes, size_t len, struct kr_err *err)
{
    struct fetch *f = data;
    int r;

    if (len > f->max_bytes - f->bytes)
        return too_large(f, err);
    r = kr_buf_add(&f->waiting, bytes, len);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "keep what came");
    f->bytes += len;
    tell_progress(f);
    if (f->waiting.len >= WAITING_MAX)
        pause_source(f, true);
    if (f->waiting.len >= WRITE_FROM)
        begin_writing(f);
    return 0;
}

static int on_fetch_moved(void *data, uint64_t sent, uint64_t received, struct kr_err *err)
{
    const struct fetch *f = data;

    if (!f->sandbox || kr_eg_sandbox_moved(f->fetches->eg, f->sandbox, sent + received))
        return 0;
    return kr_err_set(err, KR_ERR_LIMIT, 0, "the sandbox has moved its bytes of this hour (setting egress-hour-bytes)");
}

static void on_fetch_hop(void *data, const struct kr_eg_hop *hop)
{
    const struct fetch *f = data;
    const struct kr_eg_row row = {
        .sandbox = f->sandbox_id,
        .user = f->user,
        .at_us = hop->at_us,
        .ms = hop->ms,
        .how = "fetch",
        .method = "GET",
        .host = hop->url.host,
        .port = hop->url.port,
        .address = hop->address,
        .sent = hop->sent,
        .received = hop->received,
        .status = hop->status,
        .verdict = hop->verdict,
        .why = hop->why,
    };

    kr_eg_row_send(f->fetches->eg, &row);
}

static void on_source_end(struct fetch *f, enum kr_eg_verdict verdict, const char *why)
{
    f->get = NULL;
    f->index_get = NULL;
    if (verdict != KR_EG_OK) {
        fail(f, verdict, why);
        return;
    }
    f->ended = true;
    begin_writing(f);
}

/* ---- an address ---- */

static int judge_fetch(void *data, const struct kr_web_address *url, bool *ret_trusted, struct kr_err *err)
{
    const struct fetch *f = data;
    char where[KR_WEB_HOST_ROOM + 16];
    bool allowed = url->tls ? kr_net_rule_allows(&f->rule, url->host, url->port)
                            : kr_net_rule_allows_request(&f->rule, "GET", url->host, url->port, url->target);

    *ret_trusted = false;
    if (allowed)
        return 0;
    return kr_err_set(err, KR_ERR_DENIED, EACCES, "%.120s is not allowed by the network rule of this fetch (\"%s\")",
                      kr_web_address_host(url, where, sizeof where), kr_net_kind_names[f->rule.kind]);
}

static bool ends_in_gz(const char *name)
{
    size_t len = strlen(name);

    return (len > 3 && strcmp(name + len - 3, ".gz") == 0) || (len > 4 && strcmp(name + len - 4, ".tgz") == 0);
}

static int on_web_reply(void *data, const struct kr_eg_reply *reply, struct kr_err *err)
{
    struct fetch *f = data;
    char name[KR_WEB_TARGET_ROOM];

    snprintf(name, sizeof name, "%s", reply->name);
    if (!*name)
        kr_web_address_name(reply->url, name, sizeof name);
    /* Servers say of an archive that it is compressed, which it is: that is no coding to undo. */
    if (reply->encoded && !ends_in_gz(name))
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "%.120s sent the file compressed, which was not asked for",
                          reply->url->host);
    if (strlen(name) <= NAME_BYTES)
        memcpy(f->name, plain(name), strlen(name) + 1);
    return take_reply(f, reply->status, reply->type, reply->length, err);
}

static void on_web_end(void *data, enum kr_eg_verdict verdict, unsigned status, const char *why)
{
    (void)status;
    on_source_end(data, verdict, why);
}

static int start_web(struct fetch *f, uint64_t left_ms, struct kr_err *err)
{
    static const struct kr_eg_get_calls calls = {
        .judge = judge_fetch,
        .on_reply = on_web_reply,
        .on_body = on_fetch_body,
        .on_hop = on_fetch_hop,
        .on_moved = on_fetch_moved,
        .on_end = on_web_end,
    };
    struct kr_web_address url;
    const struct kr_eg_get_ask ask = {
        .trust = f->fetches->trust,
        .url = &url,
        .accept = f->accept,
        .sandbox = f->sandbox_id,
        .timeout_ms = left_ms,
        .idle_ms = f->fetches->eg->limits.idle_ms,
        .timeout_what = "the server",
    };
    int r = kr_web_address_parse(f->url, strlen(f->url), &url, err);

    if (r < 0)
        return r;
    r = kr_eg_get_start(f->fetches->eg, &ask, &calls, f, &f->get);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "fetch") : 0;
}

/* ---- the index ---- */

static int on_index_reply(void *data, const struct kr_eg_index_reply *reply, struct kr_err *err)
{
    struct fetch *f = data;

    snprintf(f->name, sizeof f->name, "%s", reply->name);
    plain(f->name);
    snprintf(f->promised, sizeof f->promised, "%s", reply->promised);
    return take_reply(f, 200, reply->type, reply->length, err);
}

static void on_index_end(void *data, enum kr_eg_verdict verdict, unsigned status, const char *why)
{
    struct fetch *f = data;

    if (verdict == KR_EG_FAILED && status == 404) { /* a status is no failure */
        f->status = 404;
        verdict = KR_EG_OK;
    }
    on_source_end(f, verdict, why);
}

static int start_index(struct fetch *f, uint64_t left_ms, struct kr_err *err)
{
    static const struct kr_eg_index_calls calls = {
        .on_reply = on_index_reply,
        .on_body = on_fetch_body,
        .on_hop = on_fetch_hop,
        .on_moved = on_fetch_moved,
        .on_end = on_index_end,
    };
    char path[KR_INDEX_LINK_ROOM + sizeof KR_EG_INDEX_PATH];
    const struct kr_eg_index_ask ask = {
        .path = path,
        .accept = f->accept,
        .sandbox = f->sandbox_id,
        .timeout_ms = left_ms,
        .idle_ms = f->fetches->eg->limits.idle_ms,
    };
    const char *rest = f->url + sizeof INDEX_SCHEME - 1;
    int n = snprintf(path, sizeof path, "%s%s", KR_EG_INDEX_PATH, rest);

    if (n < 0 || (size_t)n >= sizeof path)
        return kr_err_set(err, KR_ERR_INVALID, ENAMETOOLONG, "the path of the index is too long");
    return kr_eg_index_start(f->fetches->index, &ask, &calls, f, &f->index_get, err);
}

/* ---- beginning ---- */

static enum kr_eg_verdict verdict_of(const struct kr_err *err)
{
    return err->kind == KR_ERR_DENIED ? KR_EG_DENIED : err->kind == KR_ERR_LIMIT ? KR_EG_LIMIT : KR_EG_FAILED;
}

static void begin_fetch(struct fetch *f)
{
    uint64_t now = kr_clock_ns(), left_ms = f->until_ns > now ? (f->until_ns - now) / 1000000u + 1 : 1;
    struct kr_err err;
    int r;

    f->started = true;
    f->fetches->running++;
    if (f->sandbox && kr_eg_sandbox_is_full(f->fetches->eg, f->sandbox))
        r = kr_err_set(&err, KR_ERR_LIMIT, 0, "the sandbox has moved its bytes of this hour");
    else
        r = f->of_index ? start_index(f, left_ms, &err) : start_web(f, left_ms, &err);
    if (r < 0)
        fail(f, verdict_of(&err), err.msg);
}

/* From the loop: a fetch that fails at once would begin the next one on the same stack. */
static void on_fetches_soon(void *data)
{
    struct kr_eg_fetches *all = data;
    struct fetch *f;

    TAILQ_FOREACH(f, &all->all, link)
    if (!f->started)
        break;
    if (!f || all->running >= all->eg->limits.fetches)
        return;
    kr_soon_ask(all->soon);
    begin_fetch(f);
}

static void start_next(struct kr_eg_fetches *all)
{
    kr_soon_ask(all->soon);
}

/* ---- from outside ---- */

static const char *text_of(const json_t *ask, const char *name)
{
    const char *text = json_string_value(json_object_get(ask, name));

    return text && strlen(text) == json_string_length(json_object_get(ask, name)) ? text : NULL;
}

static bool is_field_text(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

static int read_ask(struct fetch *f, const json_t *ask, struct kr_err *err)
{
    const char *url = text_of(ask, "url"), *rule = text_of(ask, "rule"), *accept = text_of(ask, "accept");
    const char *sandbox = text_of(ask, "sandbox"), *user = text_of(ask, "user");
    json_int_t max = json_integer_value(json_object_get(ask, "max_bytes"));
    json_int_t time = json_integer_value(json_object_get(ask, "timeout_ms"));

    if (!url || !rule || !sandbox || !user || max < 0 || time <= 0 || strlen(sandbox) >= sizeof f->sandbox_id ||
        strlen(user) >= sizeof f->user || (accept && (strlen(accept) > 1024 || !is_field_text(accept))))
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the fetch has members that make no sense");
    f->of_index = strncmp(url, INDEX_SCHEME, sizeof INDEX_SCHEME - 1) == 0;
    f->max_bytes = (uint64_t)max;
    f->until_ns = kr_clock_after_ms(time < TIMEOUT_MAX_MS ? (uint64_t)time : TIMEOUT_MAX_MS);
    memcpy(f->sandbox_id, sandbox, strlen(sandbox) + 1);
    memcpy(f->user, user, strlen(user) + 1);
    f->url = strdup(url);
    f->accept = accept ? strdup(accept) : NULL;
    f->md = EVP_MD_CTX_new();
    f->sandbox = *sandbox ? kr_eg_sandbox_ref(f->fetches->eg, sandbox) : NULL;
    if (!f->url || (accept && !f->accept) || (*sandbox && !f->sandbox) || !f->md ||
        EVP_DigestInit_ex(f->md, EVP_sha256(), NULL) != 1)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "fetch");
    return f->of_index ? 0 : kr_net_rule_parse(rule, &f->rule, err);
}

static struct fetch *find_fetch(struct kr_eg_fetches *all, uint32_t id)
{
    struct fetch *f;

    TAILQ_FOREACH(f, &all->all, link)
    if (f->id == id)
        return f;
    return NULL;
}

void kr_eg_fetch_start(struct kr_eg_fetches *all, uint32_t id, const json_t *ask, int file)
{
    struct fetch *f = find_fetch(all, id) ? NULL : calloc(1, sizeof *f);
    struct kr_err err;
    int r;

    if (!f) {
        kr_fd_close(file);
        send_end(all->eg, id, json_pack("{ss ss}", "error", "failed", "why", "out of memory"));
        return;
    }
    f->fetches = all;
    f->id = id;
    f->file = file;
    kr_buf_init(&f->waiting, BUF_MAX);
    kr_buf_init(&f->writing, BUF_MAX);
    TAILQ_INSERT_TAIL(&all->all, f, link);
    r = read_ask(f, ask, &err);
    if (r >= 0) {
        r = kr_timer_new(&all->eg->loop, on_fetch_time, f, &f->timer);
        if (r < 0)
            kr_err_set(&err, KR_ERR_SYSTEM, -r, "fetch");
    }
    if (r < 0) {
        fail(f, verdict_of(&err), err.msg);
        return;
    }
    kr_timer_arm(f->timer, (f->until_ns - kr_clock_ns()) / 1000000u + 1);
    start_next(all);
}

void kr_eg_fetch_cancel(struct kr_eg_fetches *all, uint32_t id)
{
    struct fetch *f = find_fetch(all, id);

    if (f)
        fail(f, KR_EG_FAILED, "cancelled");
}

int kr_eg_fetches_new(struct kr_eg *eg, struct kr_eg_index *index, const struct kr_eg_tls_trust *trust,
                      struct kr_eg_fetches **ret_fetches)
{
    struct kr_eg_fetches *all = calloc(1, sizeof *all);
    int r;

    if (!all)
        return -ENOMEM;
    all->eg = eg;
    all->index = index;
    all->trust = trust;
    TAILQ_INIT(&all->all);
    r = kr_soon_new(&eg->loop, on_fetches_soon, all, &all->soon);
    if (r < 0) {
        free(all);
        return r;
    }
    *ret_fetches = all;
    return 0;
}

void kr_eg_fetches_free(struct kr_eg_fetches *all)
{
    struct fetch *f;

    if (!all)
        return;
    while ((f = TAILQ_FIRST(&all->all)))
        remove_fetch(f);
    kr_soon_close(all->soon);
    free(all);
}

/* The package index: from a path of it to a page or a file.
 *
 * Called for requests of cells and for fetches of the server. An index on the web is asked by eg_get.c and its pages
 * are rewritten on their way; a folder of wheels is eg_index_folder.c's. Invariants: files come only from hosts that
 * the administrator named, redirects too; the credentials go to the index's own origin alone, and stand in no text. */
#include "base64.h"
#include "eg_index_internal.h"
#include "log.h"
#include <errno.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OUT_MAX (4u << 20) /* of a page, from one piece that came */
#define HTML_TYPE "application/vnd.pypi.simple.v1+html"

struct kr_eg_index_get {
    struct kr_eg_index *index;
    struct kr_eg_index_calls calls;
    void *data;
    struct kr_eg_index_what what;
    bool head, part;                 /* part: not all of a file was asked for */
    struct kr_eg_get *get;           /* of the web */
    struct kr_eg_folder_get *folder; /* else */
    struct kr_index_page *page;
    struct kr_buf out;
    uint64_t page_bytes;
    bool ending, cancelled; /* its last piece is being given: if it is cancelled then, memory goes afterwards */
};

/* ---- paths ---- */

static bool is_name(const char *text, size_t len)
{
    if (len == 0 || len > KR_EG_INDEX_NAME_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i], low = (char)(c | 32);

        if (!(c >= '0' && c <= '9') && !(low >= 'a' && low <= 'z') && !strchr("-_.", c))
            return false;
    }
    return text[0] != '.';
}

static int read_path(const struct kr_eg_index *x, const char *path, struct kr_eg_index_what *ret, struct kr_err *err)
{
    size_t prefix = sizeof KR_INDEX_SIMPLE_PATH - 1, len;
    const char *name = path + prefix;
    int r;

    *ret = (struct kr_eg_index_what){.page = true};
    if (strncmp(path, KR_INDEX_FILE_PATH, sizeof KR_INDEX_FILE_PATH - 1) == 0) {
        ret->page = false;
        r = kr_index_link_read(x->key, path, &ret->link);
        if (r == -EACCES)
            return kr_err_set(err, KR_ERR_DENIED, EACCES,
                              "no page of the index named this file since krait's egress process started; read the "
                              "project's page again");
        return r < 0 ? kr_err_set(err, KR_ERR_NOT_FOUND, ENOENT, "the path is no link of the index") : 0;
    }
    if (strncmp(path, KR_INDEX_SIMPLE_PATH, prefix) != 0)
        return kr_err_set(err, KR_ERR_NOT_FOUND, ENOENT,
                          "the index has " KR_INDEX_SIMPLE_PATH " and what its pages name, nothing else");
    len = strcspn(name, "/?#");
    if (name[len] != '\0' && !(name[len] == '/' && name[len + 1] == '\0' && len > 0))
        return kr_err_set(err, KR_ERR_NOT_FOUND, ENOENT, "a project's page is " KR_INDEX_SIMPLE_PATH "NAME/");
    ret->root = len == 0;
    if (!ret->root && !is_name(name, len))
        return kr_err_set(err, KR_ERR_NOT_FOUND, ENOENT,
                          "a project's name has letters, digits, \"-\", \"_\" and \".\"");
    memcpy(ret->name, name, len);
    return 0;
}

/* ---- which hosts ---- */

static bool is_index_host(const struct kr_eg_index *x, const struct kr_web_address *url)
{
    if (x->base.tls && !url->tls)
        return false;
    return kr_web_address_same_origin(&x->base, url) ||
           kr_eg_words_have_host(&x->eg->config->index_hosts, url->host, url->port);
}

/* Of a link on a page. */
static bool takes_file(void *data, const struct kr_web_address *file)
{
    struct kr_eg_index *x = data;

    if (is_index_host(x, file))
        return true;
    if (!x->told_of_host)
        kr_log_with(KR_LOG_WARN, "index names files elsewhere", KR_F_STR("host", file->host),
                    KR_F_STR("setting", "pypi-file-hosts"));
    x->told_of_host = true;
    return false;
}

static int judge_url(void *data, const struct kr_web_address *url, bool *ret_trusted, struct kr_err *err)
{
    const struct kr_eg_index_get *g = data;

    if (!is_index_host(g->index, url))
        return kr_err_set(err, KR_ERR_DENIED, EACCES,
                          "the index leads to %.100s, which the setting pypi-file-hosts does not name", url->host);
    if (g->calls.on_url)
        g->calls.on_url(g->data, url);
    *ret_trusted = true;
    return 0;
}

/* ---- answers of the web ---- */

static void free_index_get(struct kr_eg_index_get *g)
{
    kr_index_page_free(g->page);
    kr_buf_done(&g->out);
    free(g);
}

static int begin_page(struct kr_eg_index_get *g, const struct kr_eg_reply *reply, struct kr_err *err)
{
    const struct kr_index_page_ask ask = {g->index->key, reply->url, g->what.root, takes_file, g->index};
    int r;

    if (reply->encoded)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "the index sent a page compressed, which was not asked for");
    r = kr_index_page_new(reply->type, &ask, &g->page);
    if (r == -EPROTONOSUPPORT)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "the index sent a page of the type \"%.60s\"", reply->type);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "read a page of the index") : 0;
}

static int refuse_status(const struct kr_eg_index_get *g, unsigned status, struct kr_err *err)
{
    const char *name = g->what.page ? g->what.name : "the file";

    if (status == 404 || status == 410)
        return kr_err_set(err, KR_ERR_NOT_FOUND, ENOENT, "the index does not have %s", *name ? name : "such a page");
    if (status == 401 || status == 403)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "the index answered %u: %s", status,
                          g->index->authorization ? "it does not accept the credentials of the settings"
                                                  : "it wants credentials (setting pypi-credentials)");
    return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "the index answered %u", status);
}

/* "bytes 0-99/1000", or a star for what is not known: it goes into an answer of ours. */
static bool is_part(const char *range)
{
    static const char unit[] = "bytes ";

    return strncmp(range, unit, sizeof unit - 1) == 0 &&
           range[strspn(range + sizeof unit - 1, "*0123456789-/") + sizeof unit - 1] == '\0';
}

static int on_web_reply(void *data, const struct kr_eg_reply *reply, struct kr_err *err)
{
    struct kr_eg_index_get *g = data;
    struct kr_eg_index_reply said = {
        .length = reply->length, .page = g->what.page, .name = "", .promised = "", .range = ""};
    char name[KR_WEB_TARGET_ROOM];
    struct kr_web_address file;
    int r;

    if (reply->status != 200 && !(reply->status == 206 && g->part && is_part(reply->range)))
        return refuse_status(g, reply->status, err);
    if (g->what.page) {
        r = begin_page(g, reply, err);
        if (r < 0)
            return r;
        said.type = kr_index_page_type(g->page);
        said.length = -1;
    } else {
        if (kr_web_address_parse(g->what.link.url, strlen(g->what.link.url), &file, NULL) == 0)
            said.name = kr_web_address_name(&file, name, sizeof name);
        said.type = *reply->type ? reply->type : "application/octet-stream";
        said.promised = g->what.link.metadata || reply->status == 206 ? "" : g->what.link.sha256;
        said.ranges = reply->ranges;
        said.range = reply->range;
    }
    return g->calls.on_reply(g->data, &said, err);
}

static int page_failed(int r, struct kr_err *err)
{
    if (r == -EBADMSG)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "what the index sent is no page of an index");
    if (r == -E2BIG)
        return kr_err_set(err, KR_ERR_LIMIT, 0, "a page of the index has a link of more than %u bytes",
                          KR_INDEX_ENTRY_MAX);
    return kr_err_set(err, KR_ERR_SYSTEM, -r, "rewrite a page of the index");
}

static int give_page(struct kr_eg_index_get *g, const char *bytes, size_t len, bool end, struct kr_err *err)
{
    int r;

    kr_buf_reset(&g->out);
    r = kr_index_page_feed(g->page, bytes, len, end, &g->out);
    if (r < 0)
        return page_failed(r, err);
    return g->out.len > 0 ? g->calls.on_body(g->data, g->out.data, g->out.len, err) : 0;
}

static int on_web_body(void *data, const char *bytes, size_t len, struct kr_err *err)
{
    struct kr_eg_index_get *g = data;

    if (!g->what.page)
        return g->calls.on_body(g->data, bytes, len, err);
    g->page_bytes += len;
    if (g->page_bytes > KR_EG_INDEX_PAGE_MAX)
        return kr_err_set(err, KR_ERR_LIMIT, 0, "a page of the index has more than %u MiB", KR_EG_INDEX_PAGE_MAX >> 20);
    return give_page(g, bytes, len, false, err);
}

static void on_web_hop(void *data, const struct kr_eg_hop *hop)
{
    const struct kr_eg_index_get *g = data;

    if (g->calls.on_hop)
        g->calls.on_hop(g->data, hop);
}

static int on_web_moved(void *data, uint64_t sent, uint64_t received, struct kr_err *err)
{
    const struct kr_eg_index_get *g = data;

    return g->calls.on_moved ? g->calls.on_moved(g->data, sent, received, err) : 0;
}

static void on_web_end(void *data, enum kr_eg_verdict verdict, unsigned status, const char *why)
{
    struct kr_eg_index_get *g = data;
    const struct kr_eg_index_calls calls = g->calls;
    struct kr_err err = {0};
    bool cancelled;

    g->get = NULL;
    g->ending = true;
    data = g->data;
    if (verdict == KR_EG_OK && g->page && !g->head && give_page(g, "", 0, true, &err) < 0) {
        verdict = err.kind == KR_ERR_LIMIT ? KR_EG_LIMIT : KR_EG_FAILED;
        status = 502;
        why = err.msg;
    }
    cancelled = g->cancelled;
    free_index_get(g);
    if (!cancelled)
        calls.on_end(data, verdict, status, why);
}

/* ---- asking the web ---- */

/* A query stays behind what is added to the path. */
static int add_metadata(struct kr_web_address *file)
{
    static const char tail[] = ".metadata";
    size_t path = strcspn(file->target, "?"), len = strlen(file->target);

    if (len + sizeof tail > sizeof file->target)
        return -EINVAL;
    memmove(file->target + path + sizeof tail - 1, file->target + path, len - path + 1);
    memcpy(file->target + path, tail, sizeof tail - 1);
    return 0;
}

static int find_address(const struct kr_eg_index *x, const struct kr_eg_index_what *what, struct kr_web_address *ret,
                        struct kr_err *err)
{
    char ref[KR_EG_INDEX_NAME_MAX + 4];
    int r;

    if (what->page) {
        snprintf(ref, sizeof ref, "./%s%s", what->name, what->root ? "" : "/");
        return kr_web_address_join(&x->base, ref, strlen(ref), ret, err);
    }
    r = kr_web_address_parse(what->link.url, strlen(what->link.url), ret, err);
    if (r == 0 && what->link.metadata && add_metadata(ret) < 0)
        return kr_err_set(err, KR_ERR_NOT_FOUND, ENOENT, "the address of the metadata is too long");
    return r;
}

static const char *page_accept(const char *asked)
{
    return asked && strstr(asked, KR_INDEX_JSON) ? KR_INDEX_JSON ", " HTML_TYPE ";q=0.2, " KR_INDEX_HTML ";q=0.1"
                                                 : HTML_TYPE ", " KR_INDEX_HTML ";q=0.1";
}

static int start_web(struct kr_eg_index_get *g, const struct kr_eg_index_ask *ask, struct kr_err *err)
{
    static const struct kr_eg_get_calls calls = {
        .judge = judge_url,
        .on_reply = on_web_reply,
        .on_body = on_web_body,
        .on_hop = on_web_hop,
        .on_moved = on_web_moved,
        .on_end = on_web_end,
    };
    struct kr_eg_index *x = g->index;
    struct kr_web_address url;
    const struct kr_eg_get_ask web = {
        .trust = x->trust,
        .url = &url,
        .head = ask->head,
        .accept = g->what.page ? page_accept(ask->accept) : NULL,
        .range = g->part ? ask->range : NULL,
        .authorization = x->authorization,
        .authorized = &x->base,
        .sandbox = ask->sandbox,
        .timeout_ms = g->what.page && ask->timeout_ms > KR_EG_INDEX_PAGE_MS ? KR_EG_INDEX_PAGE_MS : ask->timeout_ms,
        .idle_ms = g->what.page && ask->idle_ms > KR_EG_INDEX_IDLE_MS ? KR_EG_INDEX_IDLE_MS : ask->idle_ms,
        .timeout_what = "the package index",
    };
    int r = find_address(x, &g->what, &url, err);

    if (r < 0)
        return r;
    r = kr_eg_get_start(x->eg, &web, &calls, g, &g->get);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "ask the index") : 0;
}

/* ---- a folder: what it says is passed on ---- */

static int on_folder_reply(void *data, const struct kr_eg_index_reply *reply, struct kr_err *err)
{
    struct kr_eg_index_get *g = data;

    return g->calls.on_reply(g->data, reply, err);
}

static int on_folder_body(void *data, const char *bytes, size_t len, struct kr_err *err)
{
    struct kr_eg_index_get *g = data;

    return g->calls.on_body(g->data, bytes, len, err);
}

static void on_folder_end(void *data, enum kr_eg_verdict verdict, unsigned status, const char *why)
{
    struct kr_eg_index_get *g = data;
    const struct kr_eg_index_calls calls = g->calls;

    data = g->data;
    free_index_get(g);
    calls.on_end(data, verdict, status, why);
}

static int start_folder(struct kr_eg_index_get *g, struct kr_err *err)
{
    static const struct kr_eg_index_calls calls = {
        .on_reply = on_folder_reply,
        .on_body = on_folder_body,
        .on_end = on_folder_end,
    };
    int r = kr_eg_folder_start(g->index->folder, &g->what, g->head, &calls, g, &g->folder);

    if (r == -EBUSY)
        return kr_err_set(err, KR_ERR_TOO_MANY, 0, "too many files of the index are being read; try again");
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "read the folder of wheels") : 0;
}

/* ---- from outside ---- */

int kr_eg_index_start(struct kr_eg_index *x, const struct kr_eg_index_ask *ask, const struct kr_eg_index_calls *calls,
                      void *data, struct kr_eg_index_get **ret_get, struct kr_err *err)
{
    struct kr_eg_index_get *g;
    int r;

    if (!x->web && !x->folder)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "this server has no package index (setting pypi-index-url)");
    g = calloc(1, sizeof *g);
    if (!g)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "ask the index");
    g->index = x;
    g->calls = *calls;
    g->data = data;
    g->head = ask->head;
    kr_buf_init(&g->out, OUT_MAX);
    r = read_path(x, ask->path, &g->what, err);
    g->part = ask->range && !g->what.page;
    if (r == 0)
        r = x->web ? start_web(g, ask, err) : start_folder(g, err);
    if (r < 0) {
        free_index_get(g);
        return r;
    }
    *ret_get = g;
    return 0;
}

void kr_eg_index_pause(struct kr_eg_index_get *g, bool pause)
{
    if (g->get)
        kr_eg_get_pause(g->get, pause);
    else if (g->folder)
        kr_eg_folder_pause(g->folder, pause);
}

void kr_eg_index_cancel(struct kr_eg_index_get *g)
{
    if (!g)
        return;
    kr_eg_get_cancel(g->get);
    kr_eg_folder_cancel(g->folder);
    g->cancelled = true;
    if (!g->ending)
        free_index_get(g);
}

void kr_eg_index_set_user(struct kr_eg_index *x, const char *user, const char *password)
{
    char plain[2 * KR_WEB_USER_ROOM], text[KR_BASE64_ROOM(sizeof plain)];
    int n;

    if (x->authorization)
        explicit_bzero(x->authorization, strlen(x->authorization));
    free(x->authorization);
    x->authorization = NULL;
    if (!user)
        return;
    n = snprintf(plain, sizeof plain, "%s:%s", user, password ? password : "");
    if (n > 0 && (size_t)n < sizeof plain) {
        kr_base64_encode(plain, (size_t)n, text);
        if (asprintf(&x->authorization, "Basic %s", text) < 0)
            x->authorization = NULL;
    } else {
        kr_log(KR_LOG_ERROR, "credentials of the index are too long and not used", NULL);
    }
    explicit_bzero(plain, sizeof plain);
    explicit_bzero(text, sizeof text);
}

const char *kr_eg_index_folder(const struct kr_eg_index *x)
{
    return x->folder ? kr_eg_folder_path(x->folder) : NULL;
}

static int read_base(struct kr_eg_index *x, const char *url, struct kr_err *err)
{
    size_t len;
    int r = kr_web_address_parse(url, strlen(url), &x->base, err);

    if (r < 0)
        return kr_err_wrap(err, r, "the package index");
    x->base.target[strcspn(x->base.target, "?")] = '\0';
    len = strlen(x->base.target);
    if (x->base.target[len - 1] != '/') {
        if (len + 1 >= sizeof x->base.target)
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "the address of the package index is too long");
        memcpy(x->base.target + len, "/", 2);
    }
    x->web = true;
    return 0;
}

static int find_index(struct kr_eg_index *x, const struct kr_egress_config *config, struct kr_err *err)
{
    static const char scheme[] = "file://";

    if (RAND_bytes(x->key, sizeof x->key) != 1)
        return kr_err_set(err, KR_ERR_SYSTEM, EIO, "make a key for links of the index");
    if (!config->index_url)
        return 0;
    if (strncmp(config->index_url, scheme, sizeof scheme - 1) == 0)
        return kr_eg_folder_new(x->eg, config->index_url + sizeof scheme - 1, x->key, &x->folder, err);
    return read_base(x, config->index_url, err);
}

int kr_eg_index_new(struct kr_eg *eg, const struct kr_eg_tls_trust *trust, struct kr_eg_index **ret_index,
                    struct kr_err *err)
{
    struct kr_eg_index *x = calloc(1, sizeof *x);
    int r;

    if (!x)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the package index");
    x->eg = eg;
    x->trust = trust;
    r = find_index(x, eg->config, err);
    if (r < 0) {
        kr_eg_index_free(x);
        return r;
    }
    kr_eg_index_set_user(x, eg->config->index_user, eg->config->index_password);
    *ret_index = x;
    return 0;
}

void kr_eg_index_free(struct kr_eg_index *x)
{
    if (!x)
        return;
    kr_eg_index_set_user(x, NULL, NULL);
    kr_eg_folder_free(x->folder);
    free(x);
}

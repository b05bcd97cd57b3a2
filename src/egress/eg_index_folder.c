/* A folder of wheels as a package index: offline.
 *
 * Called by eg_index.c. A project's page is made from the names in the folder; each file is on it with its SHA-256,
 * which is kept while the file's size, time and inode stay the same. Reading is work of the thread pool. Invariants:
 * only regular files of the folder itself are read, whose names are those of wheels and sdists; the page and the file
 * are of bounded size in memory. */
#include "eg_index_internal.h"
#include "fd.h"
#include "file_name.h"
#include "log.h"
#include "loop.h"
#include "work.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (256u << 10)
#define FILES_MAX 2000u /* of one project's page */
#define NAMES_MAX 20000u
#define RUNNING 2u
#define WAITING 64u
#define KNOWN_MAX 4096u

struct known {
    LIST_ENTRY(known) link;
    char *name, sha256[KR_INDEX_HASH_ROOM];
    struct stat st;
};

struct kr_eg_folder {
    struct kr_eg *eg;
    char *path;
    const unsigned char *key;
    struct kr_lane *lane;
    pthread_mutex_t lock; /* of what is known: pages are made on threads */
    LIST_HEAD(, known) known;
    unsigned known_count;
};

struct kr_eg_folder_get {
    struct kr_work work;
    struct kr_eg_folder *folder;
    struct kr_soon *soon;
    struct kr_eg_index_calls calls;
    void *data;
    struct kr_eg_index_what what;
    bool head, paused, replied, cancelled;
    bool inside; /* a callback is on the stack: then the memory of a cancelled one goes when it returns */
    /* Of a turn on the thread pool. */
    int fd;
    struct kr_buf page;
    char *piece, name[NAME_MAX + 1];
    uint64_t at, size;
    ssize_t got;
    int error;
};

/* ---- hashes, on the thread pool ---- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static struct known *find_known(struct kr_eg_folder *f, const char *name)
{
    struct known *k;

    LIST_FOREACH(k, &f->known, link)
    if (strcmp(k->name, name) == 0)
        return k;
    return NULL;
}

static bool recall(struct kr_eg_folder *f, const char *name, const struct stat *st, char *sha256)
{
    const struct known *k;
    bool same;

    pthread_mutex_lock(&f->lock);
    k = find_known(f, name);
    same = k && same_file(&k->st, st);
    if (same)
        memcpy(sha256, k->sha256, KR_INDEX_HASH_ROOM);
    pthread_mutex_unlock(&f->lock);
    return same;
}

static void remember(struct kr_eg_folder *f, const char *name, const struct stat *st, const char *sha256)
{
    struct known *k;

    pthread_mutex_lock(&f->lock);
    k = find_known(f, name);
    if (!k && f->known_count < KNOWN_MAX && (k = calloc(1, sizeof *k))) {
        k->name = strdup(name);
        if (k->name) {
            LIST_INSERT_HEAD(&f->known, k, link);
            f->known_count++;
        } else {
            free(k);
            k = NULL;
        }
    }
    if (k) {
        k->st = *st;
        memcpy(k->sha256, sha256, KR_INDEX_HASH_ROOM);
    }
    pthread_mutex_unlock(&f->lock);
}

static int open_regular(int dir, const char *name, struct stat *ret_st)
{
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), r = 0;

    if (fd < 0)
        return -errno;
    if (fstat(fd, ret_st) < 0)
        r = -errno;
    else if (!S_ISREG(ret_st->st_mode))
        r = -ENOENT;
    if (r < 0)
        kr_fd_close(fd);
    return r < 0 ? r : fd;
}

static int hash_bytes(int fd, char *piece, char *sha256)
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    ssize_t n = -1;
    int r = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;

    while (r == 0 && (n = read(fd, piece, PIECE)) > 0)
        EVP_DigestUpdate(md, piece, (size_t)n);
    if (r == 0 && n < 0)
        r = -errno;
    if (r == 0)
        EVP_DigestFinal_ex(md, digest, &size);
    for (unsigned i = 0; r == 0 && i < size; i++)
        snprintf(sha256 + 2 * i, 3, "%02x", digest[i]);
    EVP_MD_CTX_free(md);
    return r;
}

static int hash_file(struct kr_eg_folder *f, int dir, const char *name, char *piece, char *sha256)
{
    struct stat st = {0};
    cleanup_fd int fd = open_regular(dir, name, &st);
    int r;

    if (fd < 0)
        return fd;
    if (recall(f, name, &st, sha256))
        return 0;
    r = hash_bytes(fd, piece, sha256);
    if (r == 0)
        remember(f, name, &st, sha256);
    return r;
}

/* ---- pages, on the thread pool ---- */

static void add_link(struct kr_eg_folder_get *g, int dir, const char *name)
{
    char url[sizeof KR_EG_FOLDER_LINK + NAME_MAX], path[KR_INDEX_LINK_ROOM], sha256[KR_INDEX_HASH_ROOM];

    if (hash_file(g->folder, dir, name, g->piece, sha256) < 0)
        return; /* it went meanwhile, or is not ours to read: then cells do not see it either */
    snprintf(url, sizeof url, "%s%s", KR_EG_FOLDER_LINK, name);
    if (kr_index_link_write(g->folder->key, url, sha256, path, sizeof path) == 0)
        kr_buf_printf(&g->page, "<a href=\"%s#sha256=%s\">%s</a><br>\n", path, sha256, name);
}

struct names {
    char **items;
    size_t count;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Files of the project, or the projects: sorted, each once. */
static int list_names(int dir, const struct kr_eg_index_what *what, struct names *ret)
{
    int copy = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    char wanted[NAME_MAX + 1], project[NAME_MAX + 1];
    size_t max = what->root ? NAMES_MAX : FILES_MAX;
    const struct dirent *e;

    if (!d) {
        kr_fd_close(copy);
        return -errno;
    }
    kr_project_canonical(what->name, strlen(what->name), wanted, sizeof wanted);
    ret->items = calloc(max, sizeof *ret->items);
    while (ret->items && ret->count < max && (e = readdir(d))) {
        if (!kr_project_of_file(e->d_name, project, sizeof project) || (!what->root && strcmp(project, wanted) != 0))
            continue;
        ret->items[ret->count] = strdup(what->root ? project : e->d_name);
        if (!ret->items[ret->count])
            break;
        ret->count++;
    }
    closedir(d);
    if (!ret->items)
        return -ENOMEM;
    qsort(ret->items, ret->count, sizeof *ret->items, compare_names);
    return 0;
}

static void write_page(struct kr_eg_folder_get *g, int dir, const struct names *names)
{
    kr_buf_add_str(&g->page, "<!DOCTYPE html>\n<html><head><meta name=\"pypi:repository-version\" content=\"1.0\">"
                             "</head><body>\n");
    for (size_t i = 0; i < names->count; i++) {
        if (g->what.root && i > 0 && strcmp(names->items[i], names->items[i - 1]) == 0)
            continue;
        if (g->what.root)
            kr_buf_printf(&g->page, "<a href=\"%s%s/\">%s</a><br>\n", KR_INDEX_SIMPLE_PATH, names->items[i],
                          names->items[i]);
        else
            add_link(g, dir, names->items[i]);
    }
    kr_buf_add_str(&g->page, "</body></html>\n");
}

static int make_page(struct kr_eg_folder_get *g)
{
    cleanup_fd int dir = open(g->folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct names names = {NULL, 0};
    int r;

    if (dir < 0)
        return -errno;
    r = list_names(dir, &g->what, &names);
    if (r == 0 && names.count == 0 && !g->what.root)
        r = -ENOENT;
    else if (r == 0)
        write_page(g, dir, &names);
    for (size_t i = 0; i < names.count; i++)
        free(names.items[i]);
    free(names.items);
    return r < 0 ? r : g->page.failed;
}

/* ---- files, on the thread pool ---- */

static int open_wanted(struct kr_eg_folder_get *g)
{
    cleanup_fd int dir = open(g->folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st = {0};

    if (dir < 0)
        return -errno;
    g->fd = open_regular(dir, g->name, &st);
    if (g->fd < 0)
        return g->fd;
    g->size = (uint64_t)st.st_size;
    return 0;
}

static int read_piece(struct kr_eg_folder_get *g)
{
    size_t want = g->size - g->at < PIECE ? (size_t)(g->size - g->at) : PIECE;

    g->got = kr_fd_read_at(g->fd, g->piece, want, g->at);
    if (g->got < 0)
        return (int)g->got;
    return (size_t)g->got == want ? 0 : -EIO; /* it was cut meanwhile */
}

static void run_folder(void *data)
{
    struct kr_eg_folder_get *g = data;

    g->error = 0;
    if (g->what.page)
        g->error = make_page(g);
    else if (g->fd < 0)
        g->error = open_wanted(g);
    if (g->error == 0 && !g->what.page && !g->head)
        g->error = read_piece(g);
}

/* ---- on the loop ---- */

static void free_folder_get(struct kr_eg_folder_get *g)
{
    kr_soon_close(g->soon);
    kr_fd_close(g->fd);
    kr_buf_done(&g->page);
    free(g->piece);
    free(g);
}

static void end_folder_get(struct kr_eg_folder_get *g, enum kr_eg_verdict verdict, unsigned status, const char *why)
{
    const struct kr_eg_index_calls calls = g->calls;
    void *data = g->data;

    free_folder_get(g);
    calls.on_end(data, verdict, status, why);
}

static void folder_failed(struct kr_eg_folder_get *g)
{
    char why[KR_EG_WHY_ROOM];
    bool none = g->error == -ENOENT || g->error == -ELOOP;

    if (none)
        snprintf(why, sizeof why, "the index does not have %.100s", g->what.page ? g->what.name : g->name);
    else
        snprintf(why, sizeof why, "the folder of wheels could not be read: %s", strerror(-g->error));
    end_folder_get(g, KR_EG_FAILED, none ? 404 : 502, why);
}

static int give_reply(struct kr_eg_folder_get *g, struct kr_err *err)
{
    struct kr_eg_index_reply reply = {.page = g->what.page, .name = "", .promised = "", .range = ""};

    g->replied = true;
    if (g->what.page) {
        reply.type = KR_INDEX_HTML "; charset=utf-8";
        reply.length = (int64_t)g->page.len;
    } else {
        reply.type = "application/octet-stream";
        reply.length = (int64_t)g->size;
        reply.name = g->name;
        reply.promised = g->what.link.sha256;
    }
    return g->calls.on_reply(g->data, &reply, err);
}

static void on_folder_done(void *data);
static void on_folder_dropped(void *data);
static const struct kr_work_calls folder_calls = {run_folder, on_folder_done, on_folder_dropped};

static void read_more(struct kr_eg_folder_get *g)
{
    if (kr_lane_start_for(g->folder->lane, 0, &g->work, &folder_calls, g) < 0)
        kr_soon_ask(g->soon); /* the lane is full: the next turn may find room */
}

static void on_folder_soon(void *data)
{
    struct kr_eg_folder_get *g = data;

    if (!g->paused && !kr_work_busy(&g->work))
        read_more(g);
}

static void refused_by_callback(struct kr_eg_folder_get *g, const struct kr_err *err)
{
    if (g->cancelled) {
        free_folder_get(g);
        return;
    }
    end_folder_get(g, err->kind == KR_ERR_LIMIT ? KR_EG_LIMIT : KR_EG_FAILED, 502, err->msg);
}

/* A page goes in one piece, a file in several. */
static void on_folder_done(void *data)
{
    struct kr_eg_folder_get *g = data;
    const char *bytes = g->what.page ? g->page.data : g->piece;
    size_t len = g->what.page ? g->page.len : (size_t)g->got;
    struct kr_err err = {0};

    if (g->error < 0) {
        folder_failed(g);
        return;
    }
    g->inside = true;
    if (!g->replied && give_reply(g, &err) < 0) {
        refused_by_callback(g, &err);
        return;
    }
    if (!g->head && len > 0 && g->calls.on_body(g->data, bytes, len, &err) < 0) {
        refused_by_callback(g, &err);
        return;
    }
    g->inside = false;
    g->at += len;
    if (g->what.page || g->head || g->at == g->size)
        end_folder_get(g, KR_EG_OK, 200, "");
    else if (!g->paused)
        read_more(g);
}

static void on_folder_dropped(void *data)
{
    free_folder_get(data);
}

/* ---- from outside ---- */

/* The name that a link of a folder has: one of its files. */
static bool name_of_link(const struct kr_index_link *link, char *name, size_t size)
{
    const char *text = link->url + sizeof KR_EG_FOLDER_LINK - 1;

    if (strncmp(link->url, KR_EG_FOLDER_LINK, sizeof KR_EG_FOLDER_LINK - 1) != 0 || link->metadata || !*text ||
        strchr(text, '/') || strlen(text) >= size)
        return false;
    memcpy(name, text, strlen(text) + 1);
    return true;
}

int kr_eg_folder_start(struct kr_eg_folder *f, const struct kr_eg_index_what *what, bool head,
                       const struct kr_eg_index_calls *calls, void *data, struct kr_eg_folder_get **ret_get)
{
    struct kr_eg_folder_get *g = calloc(1, sizeof *g);
    int r;

    if (!g)
        return -ENOMEM;
    g->folder = f;
    g->calls = *calls;
    g->data = data;
    g->what = *what;
    g->head = head;
    g->fd = -1;
    kr_buf_init(&g->page, 16u << 20);
    g->piece = malloc(PIECE);
    r = g->piece ? kr_soon_new(&f->eg->loop, on_folder_soon, g, &g->soon) : -ENOMEM;
    if (!what->page && !name_of_link(&what->link, g->name, sizeof g->name))
        snprintf(g->name, sizeof g->name, ".none"); /* which is not there */
    if (r >= 0)
        r = kr_lane_start_for(f->lane, 0, &g->work, &folder_calls, g);
    if (r < 0) {
        free_folder_get(g);
        return r;
    }
    *ret_get = g;
    return 0;
}

void kr_eg_folder_pause(struct kr_eg_folder_get *g, bool pause)
{
    g->paused = pause;
    if (!pause && g->replied && !g->inside && !kr_work_busy(&g->work))
        read_more(g);
}

void kr_eg_folder_cancel(struct kr_eg_folder_get *g)
{
    if (!g)
        return;
    g->cancelled = true;
    if (kr_work_busy(&g->work))
        kr_work_drop(&g->work); /* on_folder_dropped() frees */
    else if (!g->inside)
        free_folder_get(g);
}

const char *kr_eg_folder_path(const struct kr_eg_folder *f)
{
    return f->path;
}

int kr_eg_folder_new(struct kr_eg *eg, const char *path, const unsigned char *key, struct kr_eg_folder **ret_folder,
                     struct kr_err *err)
{
    struct kr_eg_folder *f = calloc(1, sizeof *f);
    int r;

    if (!f)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the folder of wheels");
    f->eg = eg;
    f->key = key;
    f->path = strdup(path);
    if (access(path, R_OK | X_OK) < 0) /* it may come, or be opened to us, later */
        kr_log_with(KR_LOG_WARN, "folder of wheels cannot be read by the egress process, which has a user of its own",
                    KR_F_STR("folder", path), KR_F_STR("error", strerror(errno)));
    pthread_mutex_init(&f->lock, NULL); /* cannot fail on Linux */
    r = f->path ? kr_lane_new(&eg->loop, RUNNING, WAITING, &f->lane) : -ENOMEM;
    if (r < 0) {
        kr_eg_folder_free(f);
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "the folder of wheels");
    }
    *ret_folder = f;
    return 0;
}

void kr_eg_folder_free(struct kr_eg_folder *f)
{
    struct known *k;

    if (!f)
        return;
    if (f->lane)
        kr_lane_close(f->lane);
    while ((k = LIST_FIRST(&f->known))) {
        LIST_REMOVE(k, link);
        free(k->name);
        free(k);
    }
    pthread_mutex_destroy(&f->lock);
    free(f->path);
    free(f);
}

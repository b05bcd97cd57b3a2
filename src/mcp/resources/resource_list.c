/* resources/list: what a caller has. Called by resources.c.
 *
 * Files of the sandboxes last used are looked at on the thread pool, within bounds, and the last changed are listed
 * first; then live sessions and the last runs. Invariant: at most FILES_MAX files, SESSIONS_MAX sessions and RUNS_MAX
 * runs, LOOK_MS of disk work: the rest is found by the templates and by list_files. */
#include "buf.h"
#include "clock.h"
#include "fd.h"
#include "mcp_fileop.h"
#include "media.h"
#include "resource.h"
#include "store_run.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILES_MAX 200u
#define SESSIONS_MAX 100u
#define RUNS_MAX 50u
#define SANDBOXES_MAX 20u
#define LOOK_MS 1000u
#define LOOK_ENTRIES 20000u /* of one sandbox */

struct source {
    char id[KR_STORE_ID_ROOM], name[KR_STORE_NAME_ROOM], folder[KR_STORE_ID_ROOM];
    int64_t used;
    int ws;
};

struct found {
    char *path;
    size_t source;
    uint64_t size, mtime_ns;
};

struct looking {
    struct kr_fileop op;
    json_t *items; /* the rows; owned */
    struct source sources[SANDBOXES_MAX];
    size_t count;
    struct found files[FILES_MAX];
    size_t file_count;
};

/* ---- which sandboxes ---- */

/* Keeps those last used. */
static void add_sandbox(void *data, const struct kr_store_sandbox *s)
{
    struct looking *l = data;
    size_t at = l->count;

    if (l->count == SANDBOXES_MAX) {
        at = 0;
        for (size_t i = 1; i < l->count; i++)
            if (l->sources[i].used < l->sources[at].used)
                at = i;
        if (l->sources[at].used >= s->used)
            return;
    } else {
        l->count++;
    }
    l->sources[at] = (struct source){.used = s->used, .ws = -1};
    memcpy(l->sources[at].id, s->id, sizeof s->id);
    memcpy(l->sources[at].name, s->name, sizeof s->name);
    memcpy(l->sources[at].folder, s->folder, sizeof s->folder);
}

static void open_places(struct looking *l)
{
    struct kr_box *box = kr_file_api(&l->op)->box;
    struct kr_err ignored;

    for (size_t i = 0; i < l->count; i++) {
        struct kr_sandbox s = {0};

        memcpy(s.row.folder, l->sources[i].folder, sizeof s.row.folder);
        memcpy(s.row.name, l->sources[i].name, sizeof s.row.name);   /* `default` may be a folder of the machine */
        l->sources[i].ws = kr_box_sandbox_folder(box, &s, &ignored); /* one that is gone has no files */
    }
}

/* ---- on the thread pool ---- */

/* The list is sorted, the last changed first, and never longer than FILES_MAX. */
static void keep_file(struct looking *l, size_t source, struct kr_files_entry *e)
{
    size_t at = l->file_count;

    while (at > 0 && l->files[at - 1].mtime_ns < e->info.mtime_ns)
        at--;
    if (at == FILES_MAX)
        return;
    if (l->file_count == FILES_MAX)
        free(l->files[--l->file_count].path);
    memmove(&l->files[at + 1], &l->files[at], (l->file_count - at) * sizeof l->files[0]);
    l->files[at] = (struct found){.source = source, .size = e->info.size, .mtime_ns = e->info.mtime_ns};
    l->files[at].path = steal_ptr(&e->path);
    l->file_count++;
}

static void look_at_files(struct kr_fileop *op)
{
    struct looking *l = (struct looking *)op;
    uint64_t deadline = kr_clock_after_ms(LOOK_MS);

    for (size_t i = 0; i < l->count && kr_clock_ns() < deadline; i++) {
        struct kr_files_list_spec spec = {
            .recursive = true, .limit = 10000, .entries_max = LOOK_ENTRIES, .deadline_ns = deadline};
        struct kr_files_list list;
        struct kr_err ignored;

        if (l->sources[i].ws < 0 || kr_files_list(l->sources[i].ws, "", &spec, &list, &ignored) < 0)
            continue;
        for (size_t n = 0; n < list.count; n++)
            if (list.entries[n].info.type == KR_FILE_REGULAR)
                keep_file(l, i, &list.entries[n]);
        kr_files_list_done(&list);
    }
}

static void free_looking(struct kr_fileop *op)
{
    struct looking *l = (struct looking *)op;

    for (size_t i = 0; i < l->count; i++)
        kr_fd_close(l->sources[i].ws);
    for (size_t i = 0; i < l->file_count; i++)
        free(l->files[i].path);
    json_decref(l->items);
}

/* ---- items ---- */

struct telling {
    struct kr_mcp_call *call;
    json_t *items, *sessions;
};

static void add_item(const struct telling *t, const struct kr_mcp_resource *r, json_t **ret_item)
{
    json_t *item = kr_mcp_resource_item(t->call, r);

    if (ret_item)
        *ret_item = item;
    if (item) /* else a name that no JSON can carry: such a file is found by list_files */
        json_array_append_new(t->items, item);
}

static void add_file(struct telling *t, const struct looking *l, const struct found *f)
{
    const struct source *p = &l->sources[f->source];
    time_t at = (time_t)(f->mtime_ns / 1000000000u);
    cleanup_buf struct kr_buf uri = {0}, about = {0};
    struct kr_mcp_resource row = {.name = f->path, .mime = kr_media_of(f->path, NULL, 0, false)->type};
    json_t *item;
    char when[32];
    struct tm tm;

    kr_buf_init(&uri, KR_MCP_URI_MAX);
    kr_buf_init(&about, 256);
    if (kr_mcp_uri_file(&uri, p->id, f->path) < 0)
        return;
    kr_buf_printf(&about, "A file of sandbox %s.", p->name);
    row.uri = kr_buf_str(&uri);
    row.description = kr_buf_str(&about);
    add_item(t, &row, &item);
    if (!item)
        return;
    json_object_set_new(item, "size", json_integer((json_int_t)f->size));
    if (kr_mcp_revs[kr_mcp_call_rev(t->call)].titles && gmtime_r(&at, &tm) &&
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
        json_object_set_new(item, "annotations", json_pack("{s:s}", "lastModified", when));
}

/* Told least recently used first; listed the other way round. */
static void list_session(void *data, const struct kr_box_session_info *s)
{
    struct telling *t = data;
    cleanup_buf struct kr_buf uri = {0}, about = {0};
    struct kr_mcp_resource row = {.name = s->name, .mime = "application/json"};

    kr_buf_init(&uri, KR_MCP_URI_MAX);
    kr_buf_init(&about, 256);
    if (kr_mcp_uri_session(&uri, s->name) < 0)
        return;
    kr_buf_printf(&about, "A live session of sandbox %s.", s->sandbox_name);
    row.uri = kr_buf_str(&uri);
    row.description = kr_buf_str(&about);
    json_array_insert_new(t->sessions, 0, kr_mcp_resource_item(t->call, &row));
    json_array_remove(t->sessions, SESSIONS_MAX); /* if there are so many */
}

static void list_run(void *data, const struct kr_store_run *run)
{
    struct telling *t = data;
    char uri[64], about[128];
    struct kr_mcp_resource row = {.uri = uri, .description = about, .mime = "application/json"};
    char name[sizeof run->code];

    snprintf(uri, sizeof uri, "run://%s", run->id);
    snprintf(about, sizeof about, "A run that %s%s.", run->ended ? "ended with the cause " : "is running",
             run->ended ? run->cause : "");
    snprintf(name, sizeof name, "%s", run->code[0] ? run->code : run->id);
    name[strcspn(name, "\r\n")] = '\0';
    row.name = name[0] ? name : run->id;
    add_item(t, &row, NULL);
}

static void on_files_looked(struct kr_fileop *op)
{
    struct looking *l = (struct looking *)op;
    struct kr_api *api = kr_file_api(op);
    struct kr_mcp_call *c = kr_mcp_fileop_take(op);
    struct telling t = {.call = c, .items = l->items};
    struct kr_store_page page = {.limit = RUNS_MAX};
    struct kr_store_run_filter any = {0};
    struct kr_err ignored;

    for (size_t i = 0; i < l->file_count; i++)
        add_file(&t, l, &l->files[i]);
    t.sessions = json_array();
    kr_box_sessions(api->box, &op->who, NULL, list_session, &t);
    json_array_extend(l->items, t.sessions);
    json_decref(t.sessions);
    kr_store_runs_list(api->store, op->user, &any, &page, list_run, &t, &ignored); /* a list without runs is a list */
    kr_mcp_reply(c, json_pack("{s:O}", "resources", l->items));
    kr_fileop_end(op);
}

void kr_mcp_resource_list(struct kr_mcp_call *c, json_t *items)
{
    static const struct kr_fileop_kind kind = {.size = sizeof(struct looking), .done = free_looking};
    struct kr_store_page page = {.limit = KR_STORE_PAGE_MAX};
    struct kr_err err;
    struct looking *l = kr_mcp_fileop_new(c, &kind, &err);

    if (!l) {
        json_decref(items);
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "too many files are being read and written: try again in a moment");
        return;
    }
    l->items = items;
    if (kr_store_sandboxes_list(kr_file_api(&l->op)->store, l->op.user, &page, add_sandbox, l, &err) >= 0)
        open_places(l);
    kr_fileop_run(&l->op, look_at_files, on_files_looked);
}

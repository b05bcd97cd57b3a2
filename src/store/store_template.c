/* Templates and the folders they leave behind.
 *
 * Called by the domain. Invariants: no statement changes a template without its owner; no statement finds one that is
 * neither the user's own nor shared; a folder is at every moment that of one template, or doomed, or removed. */
#include "store_template.h"
#include "store_sandbox.h"
#include "store_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_such_template(struct kr_err *err)
{
    return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "there is no template of that id or name");
}

void kr_store_template_done(struct kr_store_template *t)
{
    free(t->settings);
    t->settings = NULL;
}

static void fill_template(sqlite3_stmt *st, struct kr_store_template *t)
{
    kr_st_text(st, 0, t->id, sizeof t->id);
    kr_st_text(st, 1, t->owner, sizeof t->owner);
    kr_st_text(st, 2, t->name, sizeof t->name);
    kr_st_text(st, 3, t->folder, sizeof t->folder);
    t->shared = sqlite3_column_int64(st, 4) != 0;
    t->bytes = (uint64_t)sqlite3_column_int64(st, 5);
    t->created = sqlite3_column_int64(st, 6);
    kr_st_text(st, 7, t->description, sizeof t->description);
    t->settings = NULL;
}

static int check_texts(const char *name, const char *description, struct kr_err *err)
{
    int r = kr_store_text_check("name", name, KR_STORE_NAME_MAX, err);

    if (r < 0)
        return r;
    if (strlen(description) > KR_STORE_DESCRIPTION_MAX)
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "description: at most %u bytes", KR_STORE_DESCRIPTION_MAX);
    return 0;
}

/* What the schema refused, in words. */
static int explain_refusal(int r, const char *name, struct kr_err *err)
{
    if (r == -EEXIST)
        return kr_store_err(err, KR_ERR_INVALID, EEXIST, "name: there is a template called %s", name);
    if (r == -ENOENT)
        return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no such user");
    return r;
}

int kr_store_template_add(struct kr_store *s, const struct kr_store_template_new *t, char ret_id[KR_STORE_ID_ROOM],
                          struct kr_err *err)
{
    cleanup_txn struct kr_txn txn = {0};
    const char *settings = t->settings ? t->settings : "{}", *description = t->description ? t->description : "";
    char id[KR_STORE_ID_ROOM];
    int r;

    if ((r = check_texts(t->name, description, err)) < 0 || (r = kr_store_settings_check(s, settings, err)) < 0 ||
        (r = kr_txn_begin(&txn, s, err)) < 0)
        return r;
    if (t->max) {
        r = kr_store_templates_count(s, t->owner, NULL, err);
        if (r < 0)
            return r;
        if ((unsigned)r >= t->max)
            return kr_store_err(err, KR_ERR_LIMIT, EDQUOT, "at most %u templates a user: delete one first", t->max);
    }
    kr_store_new_id(id);
    r = kr_st_exec(s, KR_ST_TEMPLATE_ADD, err, "ttttiiitt", id, t->owner, t->name, t->folder, (int64_t)t->shared,
                   (int64_t)t->bytes, t->now, description, settings);
    if (r < 0)
        return explain_refusal(r, t->name, err);
    if ((r = kr_store_doomed_done(s, t->folder, err)) < 0 || (r = kr_txn_commit(&txn, true, err)) < 0)
        return r;
    memcpy(ret_id, id, sizeof id);
    return 0;
}

int kr_store_template_get(struct kr_store *s, const char *user, const char *id_or_name,
                          struct kr_store_template *ret_template, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    const char *settings;
    int r = kr_st_open(s, KR_ST_TEMPLATE_GET, &st, err, "tt", id_or_name, user);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return no_such_template(err);
    fill_template(st, ret_template);
    settings = (const char *)sqlite3_column_text(st, 8);
    ret_template->settings = settings ? strdup(settings) : NULL;
    if (!ret_template->settings)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the store cannot read a template");
    return 0;
}

int kr_store_templates_list(struct kr_store *s, const char *user, struct kr_store_page *page,
                            void (*on_template)(void *data, const struct kr_store_template *template), void *data,
                            struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_template t;
    struct kr_walk w;
    int r = kr_walk_init(&w, page, false, err);

    if (r < 0 || (r = kr_st_open(s, KR_ST_TEMPLATE_LIST, &st, err, "tit", user, w.time, w.id)) < 0)
        return r;
    while ((r = kr_st_step(s, st, err)) > 0 && kr_walk_more(&w, true)) {
        fill_template(st, &t);
        kr_walk_at(&w, t.created, t.id);
        on_template(data, &t);
    }
    return r < 0 ? r : (int)w.given;
}

int kr_store_template_change(struct kr_store *s, const char *owner, const char *id, const char *name, bool shared,
                             const char *description, struct kr_err *err)
{
    int r = check_texts(name, description, err);

    if (r < 0)
        return r;
    r = kr_st_exec(s, KR_ST_TEMPLATE_CHANGE, err, "tttit", id, owner, name, (int64_t)shared, description);
    if (r < 0)
        return explain_refusal(r, name, err);
    return r == 0 ? no_such_template(err) : 0;
}

int kr_store_template_delete(struct kr_store *s, const char *owner, const char *id, int64_t now, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    int r;

    if ((r = kr_txn_begin(&t, s, err)) < 0 || (r = kr_st_exec(s, KR_ST_TEMPLATE_DOOM, err, "tti", id, owner, now)) < 0)
        return r;
    if (r == 0)
        return no_such_template(err);
    if ((r = kr_st_exec(s, KR_ST_TEMPLATE_DELETE, err, "tt", id, owner)) < 0)
        return r;
    return kr_txn_commit(&t, true, err);
}

uint64_t kr_store_templates_version(const struct kr_store *s)
{
    return s->templates_version;
}

int kr_store_templates_count(struct kr_store *s, const char *owner, uint64_t *ret_bytes, struct kr_err *err)
{
    int64_t bytes;

    if (ret_bytes) {
        bytes = kr_st_int(s, KR_ST_TEMPLATE_BYTES, err, "t", owner);
        if (bytes < 0)
            return (int)bytes;
        *ret_bytes = (uint64_t)bytes;
    }
    return (int)kr_st_int(s, KR_ST_TEMPLATE_COUNT, err, "t", owner);
}

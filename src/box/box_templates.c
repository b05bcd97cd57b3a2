/* Templates: a sandbox saved under a name, with its files, packages and settings, and new sandboxes that begin with a
 * copy of it.
 *
 * Called by the voices. Both ways take a copy of a folder first (box_copy.c) and write the row when it is whole, so a
 * row never names a part of a copy. Invariants: a template is found only by its owner, or by all if an administrator
 * shared it; what can be refused is refused before anything is copied, and looked at again when the row is written. */
#include "box_internal.h"
#include "json.h"
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What goes on when its caller has left: the caller's texts are its own. */
struct kr_box_task {
    struct kr_box *box;
    struct kr_caller who; /* points to the next three */
    char user[KR_STORE_ID_ROOM], address[KR_BOX_ADDRESS_ROOM], request[KR_BOX_REQUEST_ROOM];
    char name[KR_STORE_NAME_ROOM], description[KR_STORE_DESCRIPTION_MAX + 1];
    char folder[KR_STORE_ID_ROOM]; /* of the sandbox that is saved */
    struct kr_disk_ask ask;
    uint64_t left;     /* of the user's disk, before */
    bool is_beginning; /* the caller waits for the return */
    bool shared;
    json_t *settings;
    kr_box_template_fn *on_saved;
    kr_box_made_fn *on_made;
    void *data;
};

static void free_task(struct kr_box_task *t)
{
    json_decref(t->settings);
    free(t);
}

void kr_box_task_forget(struct kr_box_task *task)
{
    task->on_saved = NULL;
    task->on_made = NULL;
}

static struct kr_box_task *new_task(struct kr_box *b, const struct kr_caller *who, const char *name, void *data,
                                    struct kr_err *err)
{
    struct kr_box_task *t = calloc(1, sizeof *t);

    if (!t) {
        kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "templates");
        return NULL;
    }
    t->box = b;
    t->data = data;
    snprintf(t->user, sizeof t->user, "%s", who->user);
    snprintf(t->address, sizeof t->address, "%s", who->address ? who->address : "");
    snprintf(t->request, sizeof t->request, "%s", who->request ? who->request : "");
    snprintf(t->name, sizeof t->name, "%s", name ? name : "");
    t->who = (struct kr_caller){
        .user = t->user, .rights = who->rights, .address = t->address, .request = t->request, .profile = who->profile};
    return t;
}

/* A longer one would be cut, and then be another's. */
static int check_name_length(const char *name, struct kr_err *err)
{
    if (name && strlen(name) > KR_STORE_NAME_MAX)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "name: at most %u bytes", KR_STORE_NAME_MAX);
    return 0;
}

/* ---- finding, changing ---- */

int kr_box_template_find(struct kr_box *b, const struct kr_caller *who, const char *id_or_name,
                         struct kr_store_template *ret, struct kr_err *err)
{
    return kr_store_template_get(b->config.store, who->user, id_or_name, ret, err);
}

static int check_sharing(const struct kr_caller *who, bool shared, struct kr_err *err)
{
    if (!shared || (who->rights & KR_RIGHT_ADMIN))
        return 0;
    return kr_err_set(err, KR_ERR_DENIED, EPERM, "shared: only an administrator can share a template with all users");
}

/* Its owner's alone: a shared one of another's is seen, and not changed. */
static int find_own(struct kr_box *b, const struct kr_caller *who, const char *id_or_name,
                    struct kr_store_template *ret, struct kr_err *err)
{
    int r = kr_store_template_get(b->config.store, who->user, id_or_name, ret, err);

    if (r < 0 || strcmp(ret->owner, who->user) == 0)
        return r;
    kr_store_template_done(ret);
    return kr_err_set(err, KR_ERR_DENIED, EPERM, "this template is another user's, who alone can change it");
}

int kr_box_template_change(struct kr_box *b, const struct kr_caller *who, const char *id_or_name, const char *name,
                           const char *description, int shared, struct kr_err *err)
{
    cleanup_template struct kr_store_template t = {0};
    int r = find_own(b, who, id_or_name, &t, err);

    if (r >= 0)
        r = check_sharing(who, shared > 0, err);
    if (r >= 0)
        r = kr_store_template_change(b->config.store, who->user, t.id, name ? name : t.name,
                                     shared < 0 ? t.shared : shared > 0, description ? description : t.description,
                                     err);
    if (r >= 0)
        kr_box_audit(b, who, "template.change", t.id, "ok", NULL);
    return r;
}

int kr_box_template_delete(struct kr_box *b, const struct kr_caller *who, const char *id_or_name, struct kr_err *err)
{
    cleanup_template struct kr_store_template t = {0};
    int r = find_own(b, who, id_or_name, &t, err);

    if (r >= 0)
        r = kr_store_template_delete(b->config.store, who->user, t.id, kr_store_now(), err);
    if (r >= 0)
        kr_box_audit(b, who, "template.delete", t.id, "ok", NULL);
    return r;
}

void kr_box_template_json(struct kr_json *j, const struct kr_caller *who, const struct kr_store_template *t)
{
    kr_json_object(j);
    kr_json_key_str(j, "id", t->id);
    kr_json_key_str(j, "name", t->name);
    kr_json_key_str(j, "description", t->description);
    kr_json_key_bool(j, "shared", t->shared);
    kr_json_key_bool(j, "own", strcmp(t->owner, who->user) == 0);
    kr_json_key_uint(j, "bytes", t->bytes);
    kr_json_key_double(j, "created_at", (double)t->created / 1e6);
    kr_json_object_end(j);
}

/* ---- saving ---- */

static int add_template(struct kr_box_task *t, const char *folder, uint64_t bytes, struct kr_store_template *ret,
                        struct kr_err *err)
{
    struct kr_box *b = t->box;
    char *settings = json_dumps(t->settings, JSON_COMPACT), id[KR_STORE_ID_ROOM];
    const struct kr_store_template_new row = {.owner = t->user,
                                              .name = t->name,
                                              .folder = folder,
                                              .description = t->description,
                                              .settings = settings,
                                              .shared = t->shared,
                                              .bytes = bytes,
                                              .max = b->config.max_templates_per_user,
                                              .now = kr_store_now()};
    int r = settings ? kr_store_template_add(b->config.store, &row, id, err)
                     : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "settings of a template");

    free(settings);
    if (r < 0)
        return r;
    kr_box_audit(b, &t->who, "template.save", id, "ok", NULL);
    return kr_store_template_get(b->config.store, t->user, id, ret, err);
}

/* A copy without a row: as one that failed. */
static void give_up_copy(struct kr_box *b, const char *folder)
{
    struct kr_err ignored;

    (void)kr_store_doomed_done(b->config.store, folder, &ignored);
    (void)kr_store_folder_lease(b->config.store, folder, kr_store_now(), &ignored);
}

static void on_template_copied(void *data, const char *folder, uint64_t bytes, const struct kr_err *err)
{
    struct kr_box_task *t = data;
    cleanup_template struct kr_store_template row = {0};
    struct kr_err failed;
    int r = 0;

    if (!err && bytes > t->left)
        r = kr_err_set(&failed, KR_ERR_LIMIT, EDQUOT,
                       "the template would take %" PRIu64 " bytes, and %" PRIu64 " are left of what a user may have",
                       bytes, t->left);
    else if (!err)
        r = add_template(t, folder, bytes, &row, &failed);
    if (r < 0) {
        give_up_copy(t->box, folder);
        err = &failed;
    }
    if (t->on_saved)
        t->on_saved(t->data, err ? NULL : &row, err);
    free_task(t);
}

static int copy_sandbox(struct kr_box_task *t, struct kr_err *err)
{
    static const struct kr_limits unlimited; /* it only has what was within limits, and is never written to */

    return kr_folder_copy(t->box, t->folder, &unlimited, on_template_copied, t, err);
}

static void on_disk_measured(struct kr_disk_ask *ask, uint64_t bytes)
{
    struct kr_box_task *t = (struct kr_box_task *)((char *)ask - offsetof(struct kr_box_task, ask));
    uint64_t max = t->box->config.max_disk_per_user;
    struct kr_err err;

    t->left = bytes < max ? max - bytes : 0;
    if (t->is_beginning) { /* without files there is nothing to wait for */
        t->is_beginning = false;
        return;
    }
    if (copy_sandbox(t, &err) >= 0)
        return;
    if (t->on_saved)
        t->on_saved(t->data, NULL, &err);
    free_task(t);
}

/* What the row's insertion would refuse, before the copy. */
static int check_template(struct kr_box *b, const struct kr_caller *who, const struct kr_box_template *t,
                          struct kr_err *err)
{
    cleanup_template struct kr_store_template other = {0};
    int r = check_sharing(who, t->shared, err);

    if (r < 0 || (r = check_name_length(t->name, err)) < 0)
        return r;
    if (t->description && strlen(t->description) > KR_STORE_DESCRIPTION_MAX)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "description: at most %u bytes", KR_STORE_DESCRIPTION_MAX);
    if (t->name && kr_store_template_get(b->config.store, who->user, t->name, &other, err) == 0 &&
        strcmp(other.owner, who->user) == 0)
        return kr_err_set(err, KR_ERR_CONFLICT, EEXIST, "name: there is a template called %s", t->name);
    r = kr_store_templates_count(b->config.store, who->user, NULL, err);
    if (r >= 0 && b->config.max_templates_per_user && (unsigned)r >= b->config.max_templates_per_user)
        return kr_err_set(err, KR_ERR_LIMIT, EDQUOT, "at most %u templates a user: delete one first",
                          b->config.max_templates_per_user);
    return r < 0 ? r : 0;
}

/* Without secrets: they are its owner's, and another user's secret may have the same name. NULL: no memory. */
static json_t *settings_to_keep(const json_t *settings)
{
    json_t *kept = json_deep_copy(settings);

    json_object_del(kept, "secrets");
    json_object_del(kept, "secrets_tls");
    return kept;
}

int kr_box_template_save(struct kr_box *b, const struct kr_caller *who, const struct kr_box_template *t,
                         kr_box_template_fn *fn, void *data, struct kr_box_task **ret_task, struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_box_task *task;
    char made_up[KR_STORE_ID_ROOM];
    int r = check_template(b, who, t, err);

    if (r < 0 || (r = kr_box_sandbox_find(b, who, t->sandbox, &s, err)) < 0)
        return r;
    if (kr_box_is_host(b, &s))
        return kr_err_set(err, KR_ERR_CONFLICT, 0,
                          "its files are a folder of this machine, which no template is made of");
    kr_store_new_id(made_up);
    task = new_task(b, who, t->name ? t->name : made_up, data, err);
    if (!task)
        return -ENOMEM;
    snprintf(task->description, sizeof task->description, "%s", t->description ? t->description : "");
    task->shared = t->shared;
    task->settings = settings_to_keep(s.settings);
    if (!task->settings) {
        free_task(task);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "settings of a template");
    }
    task->on_saved = fn;
    task->left = UINT64_MAX;
    memcpy(task->folder, s.row.folder, sizeof task->folder);
    task->ask.on_measured = on_disk_measured;
    task->is_beginning = b->config.max_disk_per_user != 0;
    r = task->is_beginning ? kr_box_disk_measure(b, who->user, &task->ask, err) : 0;
    if (r >= 0 && task->is_beginning)
        task->is_beginning = false; /* on_disk_measured() comes, and goes on */
    else if (r >= 0)
        r = copy_sandbox(task, err);
    if (r < 0)
        free_task(task);
    else
        *ret_task = task;
    return r;
}

/* ---- sandboxes that begin with one ---- */

static void on_sandbox_copied(void *data, const char *folder, uint64_t bytes, const struct kr_err *err)
{
    struct kr_box_task *t = data;
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_err failed;
    int r;

    (void)bytes;
    if (!err) {
        r = kr_box_sandbox_make(t->box, &t->who, t->name[0] ? t->name : NULL, t->settings, folder, &s, &failed);
        if (r < 0) {
            give_up_copy(t->box, folder);
            err = &failed;
        }
    }
    if (t->on_made)
        t->on_made(t->data, err ? NULL : &s, err);
    free_task(t);
}

/* The template's settings, changed by the caller's. 0 or -errno. */
static int merge_settings(const struct kr_store_template *row, const json_t *changes, json_t **ret, struct kr_err *err)
{
    json_error_t where;
    json_t *settings = json_loads(row->settings, JSON_REJECT_DUPLICATES, &where);

    if (!settings)
        return kr_err_set(err, KR_ERR_INTERNAL, 0, "settings of template %s cannot be read", row->id);
    if (changes && kr_sandbox_settings_change(settings, changes) < 0) {
        json_decref(settings);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "settings");
    }
    *ret = settings;
    return 0;
}

static int check_new_sandbox(struct kr_box *b, const struct kr_caller *who, const char *name, struct kr_err *err)
{
    cleanup_sandbox struct kr_store_sandbox other = {0};
    unsigned max = (unsigned)kr_box_profile(b, who)->max_sandboxes_per_user;
    int r;

    if (name && kr_store_is_default(name))
        return kr_err_set(err, KR_ERR_CONFLICT, EEXIST, "name: the sandbox called %s is there already", name);
    if (name && kr_store_sandbox_find(b->config.store, who->user, name, &other, err) == 0)
        return kr_err_set(err, KR_ERR_CONFLICT, EEXIST, "name: there is a sandbox called %s", name);
    r = kr_store_sandboxes_count(b->config.store, who->user, err);
    if (r >= 0 && max && (unsigned)r >= max)
        return kr_err_set(err, KR_ERR_LIMIT, EDQUOT, "at most %u sandboxes a user: delete one first", max);
    return r < 0 ? r : 0;
}

int kr_box_sandbox_create_from(struct kr_box *b, const struct kr_caller *who, const char *template, const char *name,
                               const json_t *settings, kr_box_made_fn *fn, void *data, struct kr_box_task **ret_task,
                               struct kr_err *err)
{
    cleanup_template struct kr_store_template row = {0};
    struct kr_limits limits;
    json_t *merged = NULL;
    struct kr_box_task *task;
    int r;

    if (name && !*name)
        name = NULL;
    if ((r = check_name_length(name, err)) < 0 || (r = kr_box_template_find(b, who, template, &row, err)) < 0 ||
        (r = check_new_sandbox(b, who, name, err)) < 0 || (r = merge_settings(&row, settings, &merged, err)) < 0)
        return r;
    r = kr_box_sandbox_check(b, who, name, merged, &limits, err);
    task = r < 0 ? NULL : new_task(b, who, name, data, err);
    if (!task) {
        json_decref(merged);
        return r < 0 ? r : -ENOMEM;
    }
    task->settings = merged;
    task->on_made = fn;
    r = kr_folder_copy(b, row.folder, &limits, on_sandbox_copied, task, err);
    if (r < 0)
        free_task(task);
    else
        *ret_task = task;
    return r;
}

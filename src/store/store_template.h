/* Templates, in the store: a sandbox as it was saved. A new sandbox begins with a copy of a template's folder.
 *
 * A template is its owner's; one that is shared can be read and used by every user, and changed by its owner alone.
 * Its folder lies beside those of sandboxes, and is doomed as theirs are (store_sandbox.h). */
#pragma once
#include "store_user.h"
#include <stdbool.h>

#define KR_STORE_DESCRIPTION_MAX 500u /* bytes */

struct kr_store_template {
    char id[KR_STORE_ID_ROOM];
    char owner[KR_STORE_ID_ROOM];
    char name[KR_STORE_NAME_ROOM];
    char folder[KR_STORE_ID_ROOM];
    bool shared;
    uint64_t bytes; /* that it held when it was saved */
    int64_t created;
    char description[KR_STORE_DESCRIPTION_MAX + 1];
    char *settings; /* a JSON object, as a sandbox's */
};
/* Frees what `get` allocated. */
void kr_store_template_done(struct kr_store_template *t);
#define cleanup_template __attribute__((cleanup(kr_store_template_done)))

struct kr_store_template_new {
    const char *owner, *name;
    const char *folder;      /* complete, and leased (store_sandbox.h) */
    const char *description; /* NULL: "" */
    const char *settings;    /* NULL: {} */
    bool shared;
    uint64_t bytes;
    unsigned max; /* templates the owner may have; 0: no bound */
    int64_t now;
};

/* 0; -EINVAL; -EEXIST ("name: …", kind invalid); -ENOENT (no such user); -EDQUOT (kind limit, names max). fsync. */
int kr_store_template_add(struct kr_store *s, const struct kr_store_template_new *template,
                          char ret_id[KR_STORE_ID_ROOM], struct kr_err *err);
/* By id or name, among the user's own and those that are shared; one's own come first. 0 or -ENOENT. */
int kr_store_template_get(struct kr_store *s, const char *user, const char *id_or_name,
                          struct kr_store_template *ret_template, struct kr_err *err);
/* The user's own and those that are shared; `settings` is NULL in the rows. Rows, or -errno. */
int kr_store_templates_list(struct kr_store *s, const char *user, struct kr_store_page *page,
                            void (*on_template)(void *data, const struct kr_store_template *template), void *data,
                            struct kr_err *err);
/* 0, -ENOENT (also for another's), -EINVAL, -EEXIST. */
int kr_store_template_change(struct kr_store *s, const char *owner, const char *id, const char *name, bool shared,
                             const char *description, struct kr_err *err);
/* Gone, its folder doomed. 0 or -ENOENT. fsync. */
int kr_store_template_delete(struct kr_store *s, const char *owner, const char *id, int64_t now, struct kr_err *err);
/* Another number after every call of this process that added or deleted a template. */
uint64_t kr_store_templates_version(const struct kr_store *s);
/* How many the owner has, or -errno; and how many bytes they held when they were saved. */
int kr_store_templates_count(struct kr_store *s, const char *owner, uint64_t *ret_bytes, struct kr_err *err);

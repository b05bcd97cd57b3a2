/* Sandboxes, in the store. Every lookup takes the owner: another owner's id is as unknown as one that never was.
 *
 * A sandbox's files lie in a folder of the data directory whose name is its `folder` key, which changes when the
 * sandbox is reset. A folder that is no longer wanted is `doomed` in the very transaction that lets go of it, and
 * stays so until it is removed and reported as removed: a crash in between loses neither files nor space. */
#pragma once
#include "store_user.h"

#define KR_STORE_SETTINGS_MAX (64u << 10) /* bytes of a sandbox's settings */
/* The sandboxes that every user has without asking: that of krait's own dialect, and "default@NAME" of another one.
 * They are made when they are first used, keep their names and do not count against `max`; a client cannot make others
 * so named. */
#define KR_STORE_DEFAULT "default"
#define KR_STORE_DEFAULT_OF "default@"
bool kr_store_is_default(const char *name);

/* The state of every sandbox in what clients read: there is one. */
#define KR_STORE_SANDBOX_STATE "active"

struct kr_store_sandbox {
    char id[KR_STORE_ID_ROOM];
    char owner[KR_STORE_ID_ROOM];
    char name[KR_STORE_NAME_ROOM];
    char folder[KR_STORE_ID_ROOM];
    int64_t created;
    int64_t used;         /* to ten seconds */
    const char *settings; /* a JSON object: limits, env, mounts, network, preload, policy; the caller's shape */
    size_t settings_len;
};

/* Lets go of what a call that filled it from `get`, `find` or `ensure` allocated. */
void kr_store_sandbox_done(struct kr_store_sandbox *sandbox);
#define cleanup_sandbox __attribute__((cleanup(kr_store_sandbox_done)))

struct kr_store_sandbox_new {
    const char *owner;
    const char *name;     /* unique among the owner's */
    const char *settings; /* NULL: {} */
    const char *folder;   /* one that was leased; NULL: a new name */
    unsigned max;         /* sandboxes the owner may have, defaults apart; 0: no bound */
    int64_t now;
};

/* 0, -EINVAL, -EEXIST ("name: …", kind invalid), -ENOENT (no such user), -EDQUOT (kind limit, names max). fsync. */
int kr_store_sandbox_add(struct kr_store *s, const struct kr_store_sandbox_new *sandbox,
                         struct kr_store_sandbox *ret_sandbox, struct kr_err *err);
/* Of all users. */
int kr_store_sandbox_count(struct kr_store *s, uint64_t *ret_count, struct kr_err *err);
/* Of all users, those that a run or an operation on files has used: they have a folder. */
int kr_store_sandbox_count_used(struct kr_store *s, uint64_t *ret_count, struct kr_err *err);
/* 0 or -ENOENT. */
int kr_store_sandbox_get(struct kr_store *s, const char *owner, const char *id, struct kr_store_sandbox *ret_sandbox,
                         struct kr_err *err);
/* By name. 0 or -ENOENT. */
int kr_store_sandbox_find(struct kr_store *s, const char *owner, const char *name, struct kr_store_sandbox *ret_sandbox,
                          struct kr_err *err);
/* The one of that name, made if it is missing: 0, 1 when it was made, or as kr_store_sandbox_add(). */
int kr_store_sandbox_ensure(struct kr_store *s, const struct kr_store_sandbox_new *sandbox,
                            struct kr_store_sandbox *ret_sandbox, struct kr_err *err);
/* 0, -ENOENT, -EINVAL, -EEXIST; -EPERM for defaults. */
int kr_store_sandbox_rename(struct kr_store *s, const char *owner, const char *id, const char *name,
                            struct kr_err *err);
/* Once in the life of a store, at the first start that knows of defaults of dialects: until then there was one
 * `default` for all of them, and it becomes the one of the server's own dialect, called `name`. A sandbox that a user
 * called default@… is renamed-ID from then on. Sandboxes renamed, or -errno. */
int kr_store_defaults_settle(struct kr_store *s, const char *name, struct kr_err *err);
/* 0, -ENOENT, -EINVAL (no JSON object, or too large). */
int kr_store_sandbox_configure(struct kr_store *s, const char *owner, const char *id, const char *settings,
                               struct kr_err *err);
/* It was used now. Writes only when the last time is 10 s ago. 0 or -ENOENT. */
int kr_store_sandbox_touch(struct kr_store *s, const char *owner, const char *id, int64_t now, struct kr_err *err);
/* A new, empty folder; the old one is doomed. 0 or -ENOENT. fsync. */
int kr_store_sandbox_reset(struct kr_store *s, const char *owner, const char *id, char ret_folder[KR_STORE_ID_ROOM],
                           int64_t now, struct kr_err *err);
/* Gone, its folder doomed; its runs stay in the list of runs. 0 or -ENOENT. fsync. */
int kr_store_sandbox_delete(struct kr_store *s, const char *owner, const char *id, int64_t now, struct kr_err *err);
/* How many the owner has, defaults apart; or -errno. */
int kr_store_sandboxes_count(struct kr_store *s, const char *owner, struct kr_err *err);
/* The owner's. Rows, or -errno. */
int kr_store_sandboxes_list(struct kr_store *s, const char *owner, struct kr_store_page *page,
                            void (*on_sandbox)(void *data, const struct kr_store_sandbox *sandbox), void *data,
                            struct kr_err *err);

/* Another number after every call of this process that may have changed a sandbox, a note of its use apart. */
uint64_t kr_store_sandboxes_version(const struct kr_store *s);

/* Does a sandbox have that folder, or is it doomed? For a sweep of unknown folders. 1, 0 or -errno. */
int kr_store_folder_known(struct kr_store *s, const char *folder, struct kr_err *err);
/* A folder that is being filled, and that no row names yet: unless a row takes it (kr_store_sandbox_new,
 * kr_store_template_new) it is doomed from `until` on, so that a process that is killed leaves no folder for good. */
int kr_store_folder_lease(struct kr_store *s, const char *folder, int64_t until, struct kr_err *err);
/* Folders that are doomed at `now`, longest doomed first, at most limit. Rows, or -errno. */
int kr_store_doomed_list(struct kr_store *s, int64_t now, unsigned limit,
                         void (*on_folder)(void *data, const char *folder), void *data, struct kr_err *err);
/* That one is removed. 0 also when it was not doomed. */
int kr_store_doomed_done(struct kr_store *s, const char *folder, struct kr_err *err);

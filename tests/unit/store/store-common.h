/* What the test programs of src/store share: throw-away data directories, and rows made in a line. */
#pragma once
#include "store.h"
#include "store_audit.h"
#include "store_internal.h"
#include "store_run.h"
#include "store_sandbox.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top_dir[64];
static struct kr_err err; /* of the last call that failed */

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st, (void)type, (void)where;
    return remove(path);
}

static inline void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static inline void remove_top(void)
{
    remove_tree(top_dir);
}

/* A new name in a directory that is removed at the end; nothing is there yet. */
static inline const char *fresh_dir(void)
{
    static char path[96];
    static int number;

    if (!top_dir[0]) {
        snprintf(top_dir, sizeof top_dir, "/tmp/krait-store-XXXXXX");
        if (!mkdtemp(top_dir))
            abort();
        chmod(top_dir, 0755);
    }
    snprintf(path, sizeof path, "%s/%d", top_dir, ++number);
    return path;
}

static inline struct kr_store *must_open(const char *dir)
{
    struct kr_store *s = NULL;

    if (kr_store_open(dir, KR_STORE_CREATE, &s, &err) < 0) {
        printf("FAIL open: %s\n", err.msg);
        exit(1);
    }
    return s;
}

/* The first column of a query as a number; -1 if it fails. For looking behind the functions. */
static inline int64_t sql_int(struct kr_store *s, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t value = -1;

    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        value = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return value;
}

/* Every page and every index is in order. */
static inline bool is_sound(struct kr_store *s)
{
    return kr_store_pragma_check(s->db, "integrity_check", s->path, &err) == 0;
}

/* ---- the store under test, two users of it, and rows made in a line ---- */

#define SECOND INT64_C(1000000)
#define NOW (INT64_C(1800000000) * SECOND)

static struct kr_store *store;
__attribute__((unused)) static char alice[KR_STORE_ID_ROOM], bob[KR_STORE_ID_ROOM];

static inline int add_user(const char *name, char *ret_id)
{
    struct kr_store_user user;
    int r = kr_store_user_add(store, &(struct kr_store_user_new){.name = name, .rights = 3, .now = NOW}, &user, &err);

    if (r == 0)
        memcpy(ret_id, user.id, sizeof user.id);
    return r;
}

static inline int add_sandbox(const char *owner, const char *name, char *ret_id)
{
    cleanup_sandbox struct kr_store_sandbox sandbox = {0};
    struct kr_store_sandbox_new new = {.owner = owner, .name = name, .now = NOW};
    int r = kr_store_sandbox_add(store, &new, &sandbox, &err);

    if (r == 0)
        memcpy(ret_id, sandbox.id, sizeof sandbox.id);
    return r;
}

/* A run that has ended; kept_bytes of its log. */
static inline int add_run(const char *owner, const char *sandbox, int64_t started, uint64_t kept, char *ret_id)
{
    struct kr_store_run_start start = {
        .owner = owner, .sandbox = sandbox, .session = "main", .code = "1", .code_len = 1, .started = started};
    struct kr_store_run_end end = {.ended = started + 1, .cause = "ok", .kept_bytes = kept};
    int r;

    kr_store_new_id(ret_id);
    start.id = ret_id;
    r = kr_store_run_start(store, &start, &err);
    return r < 0 ? r : kr_store_run_end(store, owner, ret_id, &end, &err);
}

static inline void on_gone(void *data, const char *id)
{
    ++*(int *)data;
    if (!kr_id_valid(id))
        abort();
}

/* The totals are what the tables say. */
static inline bool totals_are_true(void)
{
    struct kr_store_totals t;

    return kr_store_totals(store, &t, &err) == 0 && (int64_t)t.runs == sql_int(store, "SELECT count(*) FROM runs") &&
           (int64_t)t.run_bytes == sql_int(store, "SELECT ifnull(sum(size), 0) FROM runs") &&
           (int64_t)t.audits == sql_int(store, "SELECT count(*) FROM audit") &&
           (int64_t)t.audit_bytes == sql_int(store, "SELECT ifnull(sum(size), 0) FROM audit");
}

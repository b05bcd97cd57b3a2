/* Connections to the database, its version, and the steps from one version to the next.
 *
 * Called by store.c at open, and by the checkpoint on the thread pool. Invariant: a file that is not ours, or that a
 * newer krait wrote, is not changed; and a step is there whole, its number with it, or not at all. */
#include "store_internal.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifndef KR_VERSION
#define KR_VERSION "unknown"
#endif

/* synchronous NORMAL: in WAL mode the log is synced before a checkpoint moves it, so that the file is whole after
 * any crash; what must also outlast a power cut is synced by kr_store_sync(). secure_delete FAST: what is deleted (a
 * hash, an env value) is overwritten where its page is written anyway. */
static const char settings[] = "PRAGMA synchronous = NORMAL;"
                               "PRAGMA temp_store = MEMORY;"
                               "PRAGMA secure_delete = FAST;"
                               "PRAGMA cell_size_check = ON;"
                               "PRAGMA cache_size = -4096;"
                               "PRAGMA journal_size_limit = 16777216;";

int kr_store_connect(const char *path, sqlite3 **ret_db, struct kr_err *err)
{
    /* NOMUTEX: a connection stays in its thread. The path is a real one, so a link can only be the file itself. */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_NOFOLLOW |
                SQLITE_OPEN_EXRESCODE;
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(path, &db, flags, NULL), r;

    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(db, KR_STORE_BUSY_MS);
    if (rc == SQLITE_OK) {
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
        sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 20);
        sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
        rc = sqlite3_exec(db, settings, NULL, NULL, NULL);
    }
    if (rc != SQLITE_OK) {
        r = kr_st_fail(db, rc, "be opened", err);
        sqlite3_close(db);
        return r;
    }
    *ret_db = db;
    return 0;
}

/* The first column of a statement's one row as a number. 0 or -errno. */
static int query_int(sqlite3 *db, const char *sql, int64_t *ret_value, struct kr_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL), r = 0;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        *ret_value = sqlite3_column_int64(st, 0);
    else
        r = kr_st_fail(db, rc, "be read", err);
    sqlite3_finalize(st);
    return r;
}

/* Which krait wrote the file, as its settings say; "an unknown version" if they do not. */
static void read_writer(sqlite3 *db, char *buf, size_t size)
{
    sqlite3_stmt *st = NULL;

    snprintf(buf, size, "an unknown version");
    if (sqlite3_prepare_v2(db, "SELECT CAST(value AS TEXT) FROM settings WHERE key = 'krait_version'", -1, &st, NULL) ==
            SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW && sqlite3_column_text(st, 0))
        snprintf(buf, size, "krait %.24s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
}

int kr_store_version(sqlite3 *db, const char *path, int known, struct kr_err *err)
{
    int64_t version = 0, application = 0, tables = 0;
    char writer[40];
    int r;

    if ((r = query_int(db, "PRAGMA user_version", &version, err)) < 0 ||
        (r = query_int(db, "PRAGMA application_id", &application, err)) < 0 ||
        (r = query_int(db, "SELECT count(*) FROM sqlite_schema", &tables, err)) < 0)
        return r;
    if (version == 0 && application == 0 && tables == 0)
        return 0;
    if (application != KR_STORE_APPLICATION || version < 1)
        return kr_store_err(err, KR_ERR_INVALID, EUCLEAN,
                            "%.120s is a database of another program, not a store of krait", path);
    if (version > known) {
        read_writer(db, writer, sizeof writer);
        return kr_store_err(err, KR_ERR_INVALID, EPROTONOSUPPORT,
                            "%.80s has format %d, written by %s; this is krait " KR_VERSION
                            ", which knows format %d: start the newer one, or give another --data",
                            path, (int)version, writer, known);
    }
    return (int)version;
}

/* One step. The version is read again inside the transaction. */
static int apply(sqlite3 *db, const struct kr_migration *row, struct kr_err *err)
{
    char note[200];
    int64_t version = 0;
    int rc, r = 0;

    rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return kr_st_fail(db, rc, "be brought up to date", err);
    if ((r = query_int(db, "PRAGMA user_version", &version, err)) < 0 || version >= row->version)
        goto undo;
    snprintf(note, sizeof note,
             "INSERT OR REPLACE INTO settings VALUES ('krait_version', CAST('%s' AS BLOB));"
             "PRAGMA user_version = %d; PRAGMA application_id = %d; COMMIT",
             KR_VERSION, row->version, KR_STORE_APPLICATION);
    rc = sqlite3_exec(db, row->sql, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, note, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        return 0;
    r = kr_st_fail(db, rc, "be brought up to date", err);
undo:
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

int kr_store_migrate(sqlite3 *db, const struct kr_migration *rows, size_t count, struct kr_err *err)
{
    int64_t version = 0;
    int r = query_int(db, "PRAGMA user_version", &version, err);

    for (size_t i = 0; i < count && r >= 0; i++) {
        if (rows[i].version > version)
            r = apply(db, &rows[i], err);
    }
    return r < 0 ? r : 0;
}

int kr_store_pragma_check(sqlite3 *db, const char *pragma, const char *path, struct kr_err *err)
{
    sqlite3_stmt *st = NULL;
    const char *text, *line;
    char sql[64];
    int rc, r = 0;

    snprintf(sql, sizeof sql, "PRAGMA %s(1)", pragma);
    rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (!text) {
        r = kr_st_fail(db, rc, "be checked", err);
    } else if (strcmp(text, "ok") != 0) {
        line = strchr(text, '\n') ? strchr(text, '\n') + 1 : text; /* the first only names the database */
        r = kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN, "%.100s is damaged, restore it from a copy: %.*s", path,
                         (int)strcspn(line, "\n"), line);
    }
    sqlite3_finalize(st);
    return r;
}

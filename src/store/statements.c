/* Every statement of the store, in one table; and how one is prepared, bound, stepped and reset.
 *
 * Called by the other files of this folder. Invariant: SQL is text of this table only (and of store_schema.c): what
 * comes from outside is bound, never pasted; and what belongs to a user is found by its owner as well as by its id.
 * The lists are read from an index in their order, without sorting: tests/unit/store/test-store.c looks at the plan of
 * every row. */
#include "store_internal.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define USER_COLUMNS "id, name, email, rights, password IS NOT NULL, created, disabled"
#define KEY_COLUMNS "id, owner, name, shown, rights, created, expires, last_used, revoked"
#define SANDBOX_COLUMNS "id, owner, name, folder, created, used, settings"
#define TEMPLATE_COLUMNS "id, owner, name, folder, shared, bytes, created, description, settings"
#define SECRET_COLUMNS "id, name, hosts, created, changed"
#define RUN_COLUMNS                                                                                                    \
    "id, owner, sandbox, session, code, started, ended, cause, exit_code, hits, message, wall_us, cpu_us, "            \
    "peak_memory, output_bytes, kept_bytes, truncated"
#define JOB_COLUMNS                                                                                                    \
    "id, owner, kind, subject, params, address, request, attempt, started, ended, cause, message, done, total, text"
#define AUDIT_COLUMNS "id, at, who, what, object, outcome, address, request, detail"
#define CONNECTION_COLUMNS                                                                                             \
    "id, owner, sandbox, run, at, ms, how, method, host, verdict, port, address, sent, received, status, why, "        \
    "secrets"
#define EVENT_COLUMNS "id, owner, sandbox, run, at, kind, rule, line, count, text"
/* Of a sandbox that is gone: its rows go some at a time. */
#define NOT_DOOMED " AND NOT EXISTS (SELECT 1 FROM connections_doomed AS d WHERE d.sandbox = c.sandbox)"
/* What a row takes on disk besides its texts, its entries in the indexes included: measured, rounded up. */
#define RUN_BYTES "500"
#define AUDIT_BYTES "200"

/* clang-format off */
const struct kr_st_row kr_st_rows[KR_ST_MAX_] = {
    [KR_ST_BEGIN] = {"begin a transaction", "BEGIN IMMEDIATE"},
    [KR_ST_COMMIT] = {"commit", "COMMIT"},
    [KR_ST_ROLLBACK] = {"undo a transaction", "ROLLBACK"},
    [KR_ST_SHRINK] = {"give back free pages", "PRAGMA incremental_vacuum(64)"},

    [KR_ST_SETTING_GET] = {"read a setting", "SELECT value FROM settings WHERE key = ?"},
    [KR_ST_SETTING_SET] = {"write a setting",
        "INSERT INTO settings VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"},
    [KR_ST_SETTING_MAKE] = {"write a setting", "INSERT INTO settings VALUES (?, ?) ON CONFLICT DO NOTHING"},
    [KR_ST_SETTING_DELETE] = {"forget a setting", "DELETE FROM settings WHERE key = ?"},
    [KR_ST_TOTALS] = {"read its totals",
        "SELECT r.count, r.bytes, a.count, a.bytes FROM totals r, totals a WHERE r.what = 'runs' AND a.what = 'audit'"},

    [KR_ST_USER_ADD] = {"add a user", "INSERT INTO users VALUES (?, ?, ?, ?, ?, ?, NULL)"},
    [KR_ST_USER_GET] = {"read a user", "SELECT " USER_COLUMNS " FROM users WHERE id = ?"},
    [KR_ST_USER_FIND] = {"read a user", "SELECT " USER_COLUMNS ", password FROM users WHERE name = ?"},
    [KR_ST_USER_LIST] = {"list users",
        "SELECT " USER_COLUMNS " FROM users WHERE (created, id) < (?, ?) ORDER BY created DESC, id DESC"},
    [KR_ST_USER_PASSWORD] = {"change a password", "UPDATE users SET password = ?2 WHERE id = ?1"},
    [KR_ST_USER_EMAIL] = {"change a user", "UPDATE users SET email = ?2 WHERE id = ?1"},
    [KR_ST_USER_RIGHTS] = {"change a user", "UPDATE users SET rights = ?2 WHERE id = ?1"},
    [KR_ST_USER_DISABLED] = {"change a user", "UPDATE users SET disabled = ?2 WHERE id = ?1"},
    [KR_ST_USER_RUNS] = {"read a user's runs", "SELECT id FROM runs WHERE owner = ? LIMIT ?"},
    [KR_ST_USER_FOLDERS_DOOM] = {"delete a user's sandboxes",
        "INSERT OR IGNORE INTO doomed SELECT folder, ?2 FROM sandboxes WHERE owner = ?1 "
        "UNION ALL SELECT folder, ?2 FROM templates WHERE owner = ?1"},
    [KR_ST_USER_DELETE] = {"delete a user", "DELETE FROM users WHERE id = ?"},

    [KR_ST_KEY_COUNT] = {"count keys",
        "SELECT count(*) FROM keys WHERE owner = ? AND revoked IS NULL AND (expires IS NULL OR expires > ?)"},
    [KR_ST_KEY_ADD] = {"add a key", "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)"},
    [KR_ST_KEY_TRIM] = {"delete dead keys",
        "DELETE FROM keys WHERE id IN (SELECT id FROM keys WHERE owner = ? AND ifnull(revoked, expires) <= ? "
        "ORDER BY created DESC, id DESC LIMIT -1 OFFSET ?)"},
    [KR_ST_KEY_GET] = {"read a key", "SELECT " KEY_COLUMNS " FROM keys WHERE id = ? AND owner = ?"},
    [KR_ST_KEY_REVOKE] = {"revoke a key", "UPDATE keys SET revoked = ifnull(revoked, ?3) WHERE id = ?1 AND owner = ?2"},
    [KR_ST_KEY_OWNER] = {"read a key", "SELECT owner FROM keys WHERE id = ?"},
    [KR_ST_KEY_LIST] = {"list keys", "SELECT " KEY_COLUMNS " FROM keys WHERE owner = ? AND (created, id) < (?, ?) "
        "ORDER BY created DESC, id DESC"},
    [KR_ST_KEY_LIST_ALL] = {"list keys",
        "SELECT " KEY_COLUMNS " FROM keys WHERE (created, id) < (?, ?) ORDER BY created DESC, id DESC"},
    [KR_ST_KEY_GRANT] = {"look up a key",
        "SELECT k.hash, k.id, k.rights & u.rights, k.expires, k.revoked, k.last_used, u.id, u.name, u.disabled "
        "FROM keys k CROSS JOIN users u ON u.id = k.owner WHERE k.hash = ?"},
    [KR_ST_KEY_TOUCH] = {"note the use of a key", "UPDATE keys SET last_used = ?2 WHERE id = ?1"},
    [KR_ST_KEY_PRUNE] = {"delete dead keys",
        "DELETE FROM keys WHERE id IN (SELECT id FROM keys WHERE ifnull(revoked, expires) < ? LIMIT ?)"},

    [KR_ST_TOKEN_ADD] = {"add a login token", "INSERT INTO tokens VALUES (?, ?, ?, ?)"},
    [KR_ST_TOKEN_TRIM] = {"delete old login tokens",
        "DELETE FROM tokens WHERE hash IN (SELECT hash FROM tokens WHERE owner = ? "
        "ORDER BY created DESC LIMIT -1 OFFSET ?)"},
    [KR_ST_TOKEN_REVOKE] = {"end a login token", "DELETE FROM tokens WHERE hash = ?"},
    [KR_ST_TOKENS_REVOKE] = {"end login tokens", "DELETE FROM tokens WHERE owner = ?"},
    [KR_ST_TOKEN_GRANT] = {"look up a login token",
        "SELECT t.hash, NULL, u.rights, t.expires, NULL, NULL, u.id, u.name, u.disabled "
        "FROM tokens t CROSS JOIN users u ON u.id = t.owner WHERE t.hash = ?"},
    [KR_ST_TOKEN_PRUNE] = {"delete old login tokens",
        "DELETE FROM tokens WHERE hash IN (SELECT hash FROM tokens WHERE expires <= ? LIMIT ?)"},

    [KR_ST_SANDBOX_COUNT] = {"count sandboxes",
        "SELECT count(*) FROM sandboxes WHERE owner = ? AND name <> 'default' AND name NOT GLOB 'default@*'"},
    [KR_ST_SANDBOX_CLEAR] = {"rename sandboxes",
        "UPDATE sandboxes SET name = 'renamed-' || id WHERE owner IN (SELECT id FROM users) AND name GLOB 'default@*'"},
    [KR_ST_SANDBOX_SETTLE] = {"rename the default sandboxes",
        "UPDATE OR IGNORE sandboxes SET name = ? WHERE owner IN (SELECT id FROM users) AND name = 'default'"},
    [KR_ST_SANDBOX_COUNT_ALL] = {"count sandboxes", "SELECT count(*) FROM sandboxes"},
    [KR_ST_SANDBOX_ADD] = {"add a sandbox",
        "INSERT INTO sandboxes (id, owner, name, folder, created, used, settings) VALUES (?, ?, ?, ?, ?5, ?5, ?6)"},
    [KR_ST_SANDBOX_GET] = {"read a sandbox", "SELECT " SANDBOX_COLUMNS " FROM sandboxes WHERE id = ? AND owner = ?"},
    [KR_ST_SANDBOX_FIND] = {"read a sandbox", "SELECT " SANDBOX_COLUMNS " FROM sandboxes WHERE name = ? AND owner = ?"},
    [KR_ST_SANDBOX_LIST] = {"list sandboxes", "SELECT " SANDBOX_COLUMNS " FROM sandboxes WHERE owner = ? "
        "AND (created, id) < (?, ?) ORDER BY created DESC, id DESC"},
    [KR_ST_SANDBOX_RENAME] = {"rename a sandbox", "UPDATE sandboxes SET name = ?3 WHERE id = ?1 AND owner = ?2"},
    [KR_ST_SANDBOX_CONFIGURE] = {"change a sandbox", "UPDATE sandboxes SET settings = ?3 WHERE id = ?1 AND owner = ?2"},
    [KR_ST_SANDBOX_TOUCH] = {"note the use of a sandbox",
        "UPDATE sandboxes SET used = ?3 WHERE id = ?1 AND owner = ?2"},
    [KR_ST_SANDBOX_DOOM] = {"doom a folder",
        "INSERT INTO doomed SELECT folder, ?3 FROM sandboxes WHERE id = ?1 AND owner = ?2"},
    [KR_ST_SANDBOX_FOLDER] = {"reset a sandbox", "UPDATE sandboxes SET folder = ?3 WHERE id = ?1 AND owner = ?2"},
    [KR_ST_SANDBOX_DELETE] = {"delete a sandbox", "DELETE FROM sandboxes WHERE id = ? AND owner = ?"},
    [KR_ST_JSON_OBJECT] = {"read settings", "SELECT CASE WHEN json_valid(?1) THEN json_type(?1) = 'object' ELSE 0 END"},
    [KR_ST_SANDBOX_USED] = {"count sandboxes that were used",
        "SELECT count(*) FROM sandboxes AS s WHERE used > created OR EXISTS "
        "(SELECT 1 FROM runs AS r WHERE r.owner = s.owner AND r.sandbox = s.id)"},
    [KR_ST_FOLDERS] = {"list folders",
        "SELECT folder, used > created OR EXISTS "
        "(SELECT 1 FROM runs AS r WHERE r.owner = s.owner AND r.sandbox = s.id) FROM sandboxes AS s "
        "UNION ALL SELECT folder, 1 FROM templates"},
    [KR_ST_FOLDER_KNOWN] = {"look up a folder",
        "SELECT EXISTS (SELECT 1 FROM sandboxes WHERE folder = ?1) OR EXISTS (SELECT 1 FROM doomed WHERE folder = ?1) "
        "OR EXISTS (SELECT 1 FROM templates WHERE folder = ?1)"},
    [KR_ST_DOOMED_LIST] = {"list doomed folders",
        "SELECT folder FROM doomed WHERE since <= ?2 ORDER BY since LIMIT ?1"},
    [KR_ST_DOOMED_ADD] = {"doom a folder", "INSERT INTO doomed VALUES (?, ?)"},
    [KR_ST_DOOMED_DONE] = {"forget a folder", "DELETE FROM doomed WHERE folder = ?"},

    [KR_ST_TEMPLATE_COUNT] = {"count templates", "SELECT count(*) FROM templates WHERE owner = ?"},
    [KR_ST_TEMPLATE_BYTES] = {"count templates", "SELECT ifnull(sum(bytes), 0) FROM templates WHERE owner = ?"},
    [KR_ST_TEMPLATE_ADD] = {"add a template",
        "INSERT INTO templates (id, owner, name, folder, shared, bytes, created, description, settings) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"},
    /* One's own comes before another's of that name. */
    [KR_ST_TEMPLATE_GET] = {"read a template",
        "SELECT " TEMPLATE_COLUMNS " FROM templates WHERE id = ?1 AND (owner = ?2 OR shared) UNION ALL "
        "SELECT " TEMPLATE_COLUMNS " FROM templates WHERE owner = ?2 AND name = ?1 UNION ALL "
        "SELECT " TEMPLATE_COLUMNS " FROM templates WHERE shared AND name = ?1 LIMIT 1"},
    [KR_ST_TEMPLATE_LIST] = {"list templates", "SELECT " TEMPLATE_COLUMNS " FROM templates "
        "WHERE (owner = ?1 OR shared) AND (created, id) < (?2, ?3) ORDER BY created DESC, id DESC"},
    [KR_ST_TEMPLATE_CHANGE] = {"change a template",
        "UPDATE templates SET name = ?3, shared = ?4, description = ?5 WHERE id = ?1 AND owner = ?2"},
    [KR_ST_TEMPLATE_DOOM] = {"doom a folder",
        "INSERT INTO doomed SELECT folder, ?3 FROM templates WHERE id = ?1 AND owner = ?2"},
    [KR_ST_TEMPLATE_DELETE] = {"delete a template", "DELETE FROM templates WHERE id = ? AND owner = ?"},

    [KR_ST_SECRET_COUNT] = {"count secrets", "SELECT count(*) FROM secrets WHERE owner = ? AND name <> ?"},
    [KR_ST_SECRET_PUT] = {"keep a secret",
        "INSERT INTO secrets VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT (owner, name) DO UPDATE SET "
        "id = excluded.id, hosts = excluded.hosts, sealed = excluded.sealed, changed = excluded.changed"},
    [KR_ST_SECRET_GET] = {"read a secret",
        "SELECT " SECRET_COLUMNS ", sealed FROM secrets WHERE owner = ? AND name = ?"},
    [KR_ST_SECRET_LIST] = {"list secrets", "SELECT " SECRET_COLUMNS " FROM secrets WHERE owner = ? ORDER BY name"},
    [KR_ST_SECRET_DELETE] = {"delete a secret", "DELETE FROM secrets WHERE owner = ? AND name = ?"},

    [KR_ST_RUN_START] = {"add a run",
        "INSERT INTO runs (id, owner, sandbox, session, code, holder, started, size) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, " RUN_BYTES " + length(CAST(?5 AS BLOB)))"},
    [KR_ST_RUN_END] = {"end a run",
        "UPDATE runs SET ended = ?3, cause = ?4, exit_code = ?5, hits = ?6, message = ?7, wall_us = ?8, cpu_us = ?9, "
        "peak_memory = ?10, output_bytes = ?11, kept_bytes = ?12, "
        "truncated = ?13 OR (?14 IS NOT NULL AND NOT json_valid(?14)), "
        "files = iif(json_valid(?14), ?14, iif(?14 IS NULL, NULL, '[]')), "
        "log = ?15, "
        "size = size + ?12 + ifnull(length(CAST(?14 AS BLOB)), 0) + ifnull(length(CAST(?7 AS BLOB)), 0) "
        "+ ifnull(length(?15), 0) "
        "WHERE id = ?1 AND owner = ?2 AND ended IS NULL"},
    [KR_ST_RUN_WHOLE] = {"add a run",
        "INSERT INTO runs (id, owner, sandbox, session, code, holder, started, ended, cause, exit_code, hits, message, "
        "wall_us, cpu_us, peak_memory, output_bytes, kept_bytes, truncated, files, log, size) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, "
        "?18 OR (?19 IS NOT NULL AND NOT json_valid(?19)), iif(json_valid(?19), ?19, iif(?19 IS NULL, NULL, '[]')), "
        "?20, "
        RUN_BYTES " + length(CAST(?5 AS BLOB)) + ?17 + ifnull(length(CAST(?19 AS BLOB)), 0) "
        "+ ifnull(length(CAST(?12 AS BLOB)), 0) + ifnull(length(?20), 0))"},
    [KR_ST_RUN_LOG] = {"read a run's log", "SELECT log FROM runs WHERE id = ? AND owner = ?"},
    [KR_ST_RUN_GET] = {"read a run", "SELECT " RUN_COLUMNS ", files FROM runs WHERE id = ? AND owner = ?"},
    [KR_ST_RUN_LIST] = {"list runs", "SELECT " RUN_COLUMNS " FROM runs WHERE owner = ? AND (started, id) < (?, ?) "
        "ORDER BY started DESC, id DESC"},
    [KR_ST_RUN_LIST_PLACE] = {"list runs", "SELECT " RUN_COLUMNS " FROM runs WHERE owner = ?1 AND sandbox = ?4 "
        "AND session = ?5 AND (started, id) < (?2, ?3) ORDER BY started DESC, id DESC"},
    [KR_ST_RUN_LIST_SANDBOX] = {"list runs",
        "SELECT " RUN_COLUMNS " FROM runs INDEXED BY runs_sandbox WHERE owner = ?1 "
        "AND sandbox = ?4 AND (started, id) < (?2, ?3) ORDER BY started DESC, id DESC"},
    [KR_ST_RUN_LIST_SESSION] = {"list runs",
        "SELECT " RUN_COLUMNS " FROM runs INDEXED BY runs_session WHERE owner = ?1 "
        "AND session = ?4 AND (started, id) < (?2, ?3) ORDER BY started DESC, id DESC"},
    [KR_ST_RUN_LIST_CAUSE] = {"list runs", "SELECT " RUN_COLUMNS " FROM runs INDEXED BY runs_cause WHERE owner = ?1 "
        "AND cause = ?4 AND cause <> 'ok' AND (started, id) < (?2, ?3) ORDER BY started DESC, id DESC"},
    [KR_ST_RUN_LIST_OPEN] = {"list runs", "SELECT " RUN_COLUMNS " FROM runs INDEXED BY runs_running WHERE owner = ?1 "
        "AND ended IS NULL AND (started, id) < (?2, ?3) ORDER BY started DESC, id DESC"},
    [KR_ST_RUN_KNOWN] = {"look up a session",
        "SELECT EXISTS (SELECT 1 FROM runs WHERE owner = ? AND sandbox = ? AND session = ?)"},
    [KR_ST_RUN_HOLDERS] = {"list runs", "SELECT DISTINCT holder FROM runs WHERE ended IS NULL"},
    [KR_ST_RUN_HOLDER] = {"look up a run", "SELECT holder, ifnull(ended, 0) FROM runs WHERE id = ?"},
    [KR_ST_RUN_LOST] = {"end lost runs",
        "UPDATE runs SET ended = ?2, cause = 'lost', exit_code = 125, hits = 0, truncated = 1 "
        "WHERE n IN (SELECT n FROM runs WHERE ended IS NULL AND holder = ?1 LIMIT ?3)"},
    [KR_ST_RUN_OLDEST] = {"read old runs",
        "SELECT id, ended, size FROM runs WHERE ended IS NOT NULL ORDER BY ended LIMIT ?"},
    [KR_ST_RUN_DELETE] = {"delete a run", "DELETE FROM runs WHERE id = ?"},
    [KR_ST_RUN_LOGS] = {"list runs",
        "SELECT id, ended, holder FROM runs WHERE ended > ?1 AND log IS NULL AND cause <> 'lost' ORDER BY ended"},
    [KR_ST_RUN_NEWEST] = {"read the last run", "SELECT ifnull(max(ended), 0) FROM runs"},
    [KR_ST_LOG_KNOWN] = {"look up a log",
        "SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?1) OR EXISTS (SELECT 1 FROM jobs WHERE id = ?1)"},

    [KR_ST_JOB_START] = {"add a job",
        "INSERT INTO jobs (id, owner, kind, subject, params, address, request, attempt, holder, started) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
    [KR_ST_JOB_PROGRESS] = {"change a job",
        "UPDATE jobs SET done = ?2, total = ?3, text = ?4 WHERE id = ?1 AND ended IS NULL"},
    [KR_ST_JOB_END] = {"end a job",
        "UPDATE jobs SET ended = ?2, cause = ?3, message = ?4, text = ?5, done = ?6, total = ?7, log = ?8, "
        "result = ?9 WHERE id = ?1 AND ended IS NULL"},
    [KR_ST_JOB_GET] = {"read a job",
        "SELECT " JOB_COLUMNS " FROM jobs WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)"},
    [KR_ST_JOB_LOG] = {"read a job's log", "SELECT log FROM jobs WHERE id = ?"},
    [KR_ST_JOB_RESULT] = {"read a job's result", "SELECT result FROM jobs WHERE id = ?"},
    [KR_ST_JOB_ABOUT] = {"list jobs", "SELECT " JOB_COLUMNS " FROM jobs WHERE owner = ? AND subject = ? "
        "ORDER BY started DESC, id DESC LIMIT ?"},
    [KR_ST_JOB_LIST] = {"list jobs", "SELECT " JOB_COLUMNS " FROM jobs WHERE owner = ? AND (started, id) < (?, ?) "
        "ORDER BY started DESC, id DESC"},
    [KR_ST_JOB_OPEN] = {"list jobs",
        "SELECT " JOB_COLUMNS ", holder FROM jobs INDEXED BY jobs_open WHERE ended IS NULL"},
    [KR_ST_JOB_ADOPT] = {"take over a job",
        "UPDATE jobs SET holder = ?2, attempt = ?3 WHERE id = ?1 AND ended IS NULL"},
    [KR_ST_JOB_OLDEST] = {"read old jobs",
        "SELECT " JOB_COLUMNS " FROM jobs WHERE ended IS NOT NULL AND ended < ?1 ORDER BY ended LIMIT ?2"},
    [KR_ST_JOB_DELETE] = {"delete a job", "DELETE FROM jobs WHERE id = ?"},
    [KR_ST_JOB_USER_DELETE] = {"delete a user's jobs", "DELETE FROM jobs WHERE owner = ? AND ended IS NOT NULL"},

    [KR_ST_AUDIT_ADD] = {"add to the audit log",
        "INSERT INTO audit (at, who, what, object, outcome, address, request, detail, size) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, iif(json_valid(?8), ?8, '{\"lost\":\"not JSON\"}'), "
        AUDIT_BYTES " + length(CAST(?4 AS BLOB)) + length(CAST(?8 AS BLOB)))"},
    [KR_ST_AUDIT_LIST] = {"list the audit log", "SELECT " AUDIT_COLUMNS " FROM audit WHERE id < ? ORDER BY id DESC"},
    [KR_ST_AUDIT_LIST_WHO] = {"list the audit log",
        "SELECT " AUDIT_COLUMNS " FROM audit WHERE id < ? AND who = ? ORDER BY id DESC"},
    [KR_ST_AUDIT_LIST_OBJECT] = {"list the audit log",
        "SELECT " AUDIT_COLUMNS " FROM audit WHERE id < ? AND object = ? ORDER BY id DESC"},
    [KR_ST_AUDIT_LIST_REQUEST] = {"list the audit log",
        "SELECT " AUDIT_COLUMNS " FROM audit INDEXED BY audit_request WHERE id < ? AND request = ? ORDER BY id DESC"},
    [KR_ST_AUDIT_LIST_OUTCOME] = {"list the audit log",
        "SELECT " AUDIT_COLUMNS " FROM audit INDEXED BY audit_outcome WHERE id < ? AND outcome = ? AND outcome <> 'ok' "
        "ORDER BY id DESC"},
    [KR_ST_AUDIT_LIST_WHAT] = {"list the audit log",
        "SELECT " AUDIT_COLUMNS " FROM audit INDEXED BY audit_what WHERE id < ? AND what = ? ORDER BY id DESC"},
    [KR_ST_AUDIT_LAST] = {"list the audit log", "SELECT ifnull(max(id), 0) FROM audit"},
    [KR_ST_AUDIT_AT] = {"list the audit log", "SELECT at FROM audit WHERE id >= ? ORDER BY id LIMIT 1"},
    [KR_ST_AUDIT_OLDEST] = {"read the audit log", "SELECT id, at, size FROM audit ORDER BY id LIMIT ?"},
    [KR_ST_AUDIT_DELETE] = {"shorten the audit log", "DELETE FROM audit WHERE id <= ?"},

    /* Of a sandbox of its owner's; or of none, and the owner is there. */
    [KR_ST_CONNECTION_ADD] = {"add a connection",
        "INSERT INTO connections (" CONNECTION_COLUMNS ") "
        "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17 "
        "WHERE iif(?3 = '', EXISTS (SELECT 1 FROM users WHERE id = ?2), "
        "EXISTS (SELECT 1 FROM sandboxes WHERE id = ?3 AND owner = ?2))"},
    [KR_ST_CONNECTION_TOTAL] = {"count connections", "SELECT count FROM totals WHERE what = 'connections'"},
    [KR_ST_CONNECTION_TRIM] = {"delete connections",
        "DELETE FROM connections WHERE n IN (SELECT n FROM connections INDEXED BY connections_owner WHERE owner = "
        "(SELECT owner FROM connection_owners ORDER BY count DESC LIMIT 1) ORDER BY at, id LIMIT ?)"},
    [KR_ST_CONNECTION_LIST] = {"list connections",
        "SELECT " CONNECTION_COLUMNS " FROM connections AS c INDEXED BY connections_age "
        "WHERE (at, id) < (?1, ?2)" NOT_DOOMED " ORDER BY at DESC, id DESC"},
    [KR_ST_CONNECTION_LIST_OWNER] = {"list connections",
        "SELECT " CONNECTION_COLUMNS " FROM connections AS c INDEXED BY connections_owner "
        "WHERE owner = ?3 AND (at, id) < (?1, ?2)" NOT_DOOMED " ORDER BY at DESC, id DESC"},
    [KR_ST_CONNECTION_LIST_SANDBOX] = {"list connections",
        "SELECT " CONNECTION_COLUMNS " FROM connections AS c INDEXED BY connections_sandbox "
        "WHERE sandbox = ?3 AND (at, id) < (?1, ?2)" NOT_DOOMED " ORDER BY at DESC, id DESC"},
    [KR_ST_CONNECTION_LIST_RUN] = {"list connections",
        "SELECT " CONNECTION_COLUMNS " FROM connections AS c INDEXED BY connections_run "
        "WHERE run = ?3 AND run <> '' AND (at, id) < (?1, ?2)" NOT_DOOMED " ORDER BY at DESC, id DESC"},
    [KR_ST_CONNECTION_LIST_VERDICT] = {"list connections",
        "SELECT " CONNECTION_COLUMNS " FROM connections AS c INDEXED BY connections_verdict "
        "WHERE owner = ?3 AND verdict = ?4 AND verdict <> 'ok' AND (at, id) < (?1, ?2)" NOT_DOOMED
        " ORDER BY at DESC, id DESC"},
    [KR_ST_CONNECTION_OLD_DELETE] = {"delete connections",
        "DELETE FROM connections WHERE n IN (SELECT n FROM connections INDEXED BY connections_age WHERE at < ?1 "
        "ORDER BY at, id LIMIT ?2)"},
    [KR_ST_CONNECTION_USER_DELETE] = {"delete a user's connections",
        "DELETE FROM connections WHERE n IN (SELECT n FROM connections INDEXED BY connections_owner "
        "WHERE owner = ?1 LIMIT ?2)"},
    [KR_ST_CONNECTION_SANDBOX_DELETE] = {"delete a sandbox's connections",
        "DELETE FROM connections WHERE n IN (SELECT n FROM connections INDEXED BY connections_sandbox "
        "WHERE sandbox = ?1 LIMIT ?2)"},
    [KR_ST_CONNECTION_DOOMED] = {"look for deleted sandboxes",
        "SELECT sandbox FROM connections_doomed WHERE sandbox > '' LIMIT 1"},
    [KR_ST_CONNECTION_DOOMED_DONE] = {"forget a deleted sandbox", "DELETE FROM connections_doomed WHERE sandbox = ?"},

    [KR_ST_EVENT_ADD] = {"add a security event",
        "INSERT INTO security_events (" EVENT_COLUMNS ") SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 "
        "WHERE EXISTS (SELECT 1 FROM users WHERE id = ?2) "
        "AND NOT EXISTS (SELECT 1 FROM sandboxes WHERE id = ?3 AND owner <> ?2)"},
    [KR_ST_EVENT_TOTAL] = {"count security events", "SELECT count FROM totals WHERE what = 'security_events'"},
    [KR_ST_EVENT_TRIM] = {"delete security events",
        "DELETE FROM security_events WHERE n IN (SELECT n FROM security_events INDEXED BY security_events_owner "
        "WHERE owner = (SELECT owner FROM security_owners ORDER BY count DESC LIMIT 1) ORDER BY at, id LIMIT ?)"},
    [KR_ST_EVENT_LIST] = {"list security events",
        "SELECT " EVENT_COLUMNS " FROM security_events INDEXED BY security_events_age "
        "WHERE (at, id) < (?1, ?2) ORDER BY at DESC, id DESC"},
    [KR_ST_EVENT_LIST_OWNER] = {"list security events",
        "SELECT " EVENT_COLUMNS " FROM security_events INDEXED BY security_events_owner "
        "WHERE owner = ?3 AND (at, id) < (?1, ?2) ORDER BY at DESC, id DESC"},
    [KR_ST_EVENT_LIST_KIND] = {"list security events",
        "SELECT " EVENT_COLUMNS " FROM security_events INDEXED BY security_events_kind "
        "WHERE owner = ?3 AND kind = ?4 AND (at, id) < (?1, ?2) ORDER BY at DESC, id DESC"},
    [KR_ST_EVENT_LIST_SANDBOX] = {"list security events",
        "SELECT " EVENT_COLUMNS " FROM security_events INDEXED BY security_events_sandbox "
        "WHERE sandbox = ?3 AND sandbox <> '' AND (at, id) < (?1, ?2) ORDER BY at DESC, id DESC"},
    [KR_ST_EVENT_LIST_RUN] = {"list security events",
        "SELECT " EVENT_COLUMNS " FROM security_events INDEXED BY security_events_run "
        "WHERE run = ?3 AND run <> '' AND (at, id) < (?1, ?2) ORDER BY at DESC, id DESC"},
    [KR_ST_EVENT_OLD_DELETE] = {"delete security events",
        "DELETE FROM security_events WHERE n IN (SELECT n FROM security_events INDEXED BY security_events_age "
        "WHERE at < ?1 ORDER BY at, id LIMIT ?2)"},
    [KR_ST_EVENT_USER_DELETE] = {"delete a user's security events",
        "DELETE FROM security_events WHERE n IN (SELECT n FROM security_events INDEXED BY security_events_owner "
        "WHERE owner = ?1 LIMIT ?2)"},
};
/* clang-format on */

int kr_store_err(struct kr_err *err, enum kr_err_kind kind, int code, const char *fmt, ...)
{
    char text[sizeof err->msg];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    kr_err_set(err, kind, 0, "%s", text);
    if (err)
        err->code = code;
    return -code;
}

/* What the system said at an I/O error: each file of SQLite's keeps its own, and the log is the one that is written. */
static int last_errno(sqlite3 *db)
{
    sqlite3_file *wal = NULL;
    int code = 0;

    if (!db)
        return 0;
    sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (wal && wal->pMethods && wal->pMethods->xFileControl) /* a journal in memory has none */
        wal->pMethods->xFileControl(wal, SQLITE_FCNTL_LAST_ERRNO, &code);
    return code > 0 ? code : sqlite3_system_errno(db);
}

int kr_st_fail(sqlite3 *db, int rc, const char *what, struct kr_err *err)
{
    int code = last_errno(db);

    if ((rc & 0xff) == SQLITE_FULL || ((rc & 0xff) == SQLITE_IOERR && (code == ENOSPC || code == EDQUOT)))
        return kr_err_set(err, KR_ERR_NO_SPACE, ENOSPC, "the server's disk is full: the store cannot %s", what);
    switch (rc & 0xff) { /* extended codes have the plain one in the low byte */
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return kr_store_err(err, KR_ERR_BUSY, EBUSY, "the store cannot %s: another process holds it", what);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN,
                            "the store cannot %s: " KR_STORE_DB " is damaged, restore it from a copy", what);
    case SQLITE_READONLY:
        return kr_err_set(err, KR_ERR_BUSY, EROFS, "the store cannot %s", what);
    case SQLITE_NOMEM:
        return kr_err_set(err, KR_ERR_BUSY, ENOMEM, "the store cannot %s", what);
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
        return kr_err_set(err, KR_ERR_BUSY, code > 0 ? code : EACCES, "the store cannot %s", what);
    case SQLITE_IOERR:
        return kr_err_set(err, KR_ERR_BUSY, code > 0 ? code : EIO, "the store cannot %s", what);
    case SQLITE_TOOBIG:
        return kr_store_err(err, KR_ERR_INVALID, E2BIG, "the store cannot %s: a text is too long", what);
    default:
        return kr_store_err(err, KR_ERR_INTERNAL, EIO, "the store cannot %s: SQLite says %d, %.100s", what, rc,
                            db ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
    }
}

void kr_st_cleanup_(sqlite3_stmt **st)
{
    if (!*st)
        return;
    sqlite3_reset(*st);
    sqlite3_clear_bindings(*st); /* they point at the caller's memory */
    *st = NULL;
}

static int bind_one(sqlite3_stmt *st, int i, char type, va_list *ap)
{
    const char *text;
    const void *blob;
    int64_t number;

    switch (type) {
    case 't':
        text = va_arg(*ap, const char *);
        return text ? sqlite3_bind_text(st, i, text, -1, SQLITE_STATIC) : sqlite3_bind_null(st, i);
    case 'b':
        blob = va_arg(*ap, const void *);
        return sqlite3_bind_blob64(st, i, blob, va_arg(*ap, size_t), SQLITE_STATIC);
    case 'n':
        number = va_arg(*ap, int64_t);
        return number ? sqlite3_bind_int64(st, i, number) : sqlite3_bind_null(st, i);
    default:
        return sqlite3_bind_int64(st, i, va_arg(*ap, int64_t));
    }
}

/* Also when it is undone: the next who asks looks again. */
static bool changes_sandboxes(enum kr_st which)
{
    return which == KR_ST_SANDBOX_ADD || which == KR_ST_SANDBOX_RENAME || which == KR_ST_SANDBOX_CONFIGURE ||
           which == KR_ST_SANDBOX_FOLDER || which == KR_ST_SANDBOX_DELETE || which == KR_ST_USER_DELETE ||
           which == KR_ST_ROLLBACK;
}

static int open_va(struct kr_store *s, enum kr_st which, sqlite3_stmt **ret_st, struct kr_err *err, const char *types,
                   va_list *ap)
{
    sqlite3_stmt **slot = &s->statements[which];
    int rc = SQLITE_OK;

    s->sandboxes_version += changes_sandboxes(which);
    s->templates_version += which == KR_ST_TEMPLATE_ADD || which == KR_ST_TEMPLATE_DELETE;
    if (!*slot)
        rc = sqlite3_prepare_v3(s->db, kr_st_rows[which].sql, -1, SQLITE_PREPARE_PERSISTENT, slot, NULL);
    else if (sqlite3_stmt_busy(*slot))
        return kr_store_err(err, KR_ERR_INTERNAL, EDEADLK, "the store cannot %s from its own callback",
                            kr_st_rows[which].what);
    for (int i = 0; types[i] && rc == SQLITE_OK; i++)
        rc = bind_one(*slot, i + 1, types[i], ap);
    if (rc != SQLITE_OK)
        return kr_st_fail(s->db, rc, kr_st_rows[which].what, err);
    *ret_st = *slot;
    return 0;
}

int kr_st_open(struct kr_store *s, enum kr_st which, sqlite3_stmt **ret_st, struct kr_err *err, const char *types, ...)
{
    va_list ap;
    int r;

    va_start(ap, types);
    r = open_va(s, which, ret_st, err, types, &ap);
    va_end(ap);
    return r;
}

static const char *what_of(const struct kr_store *s, const sqlite3_stmt *st)
{
    for (size_t i = 0; i < KR_ST_MAX_; i++) {
        if (s->statements[i] == st)
            return kr_st_rows[i].what;
    }
    return "be used";
}

int kr_st_step(struct kr_store *s, sqlite3_stmt *st, struct kr_err *err)
{
    int rc = sqlite3_step(st);

    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE)
        return 0;
    /* Refusals by the schema: the words are the caller's. */
    if (rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY)
        return kr_store_err(err, KR_ERR_INVALID, EEXIST, "it exists already");
    if (rc == SQLITE_CONSTRAINT_FOREIGNKEY)
        return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "what it belongs to does not exist");
    if ((rc & 0xff) == SQLITE_CONSTRAINT)
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "it is refused");
    return kr_st_fail(s->db, rc, what_of(s, st), err);
}

int kr_st_exec(struct kr_store *s, enum kr_st which, struct kr_err *err, const char *types, ...)
{
    cleanup_st sqlite3_stmt *st = NULL;
    va_list ap;
    int r;

    va_start(ap, types);
    r = open_va(s, which, &st, err, types, &ap);
    va_end(ap);
    while (r >= 0 && (r = kr_st_step(s, st, err)) > 0)
        ;
    return r < 0 ? r : sqlite3_changes(s->db);
}

int64_t kr_st_int(struct kr_store *s, enum kr_st which, struct kr_err *err, const char *types, ...)
{
    cleanup_st sqlite3_stmt *st = NULL;
    va_list ap;
    int r;

    va_start(ap, types);
    r = open_va(s, which, &st, err, types, &ap);
    va_end(ap);
    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    return r > 0 ? sqlite3_column_int64(st, 0) : 0;
}

void kr_st_text(sqlite3_stmt *st, int column, char *out, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(st, column);

    snprintf(out, size, "%s", text ? text : "");
}

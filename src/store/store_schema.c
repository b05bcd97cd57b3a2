/* The format of the store: a row per version, each the step from the one before.
 *
 * Called by migrate.c. Invariant: a row that was released is never changed, only followed by another; and `settings`
 * keeps its two columns for ever, because an older krait reads there which newer one wrote the file. */
#include "store_internal.h"

/* clang-format off */
static const char users_and_keys[] =
    "CREATE TABLE settings (key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE users ("
    "  id TEXT PRIMARY KEY,"
    "  name TEXT NOT NULL COLLATE NOCASE UNIQUE,"
    "  email TEXT COLLATE NOCASE UNIQUE,"
    "  password TEXT,"
    "  rights INTEGER NOT NULL,"
    "  created INTEGER NOT NULL,"
    "  disabled INTEGER"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX users_age ON users (created, id);"
    "INSERT INTO users (id, name, rights, created) VALUES ('root', 'root', 7, unixepoch() * 1000000);"
    "CREATE TABLE keys ("
    "  id TEXT PRIMARY KEY,"
    "  owner TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,"
    "  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),"
    "  shown TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  rights INTEGER NOT NULL,"
    "  created INTEGER NOT NULL,"
    "  expires INTEGER,"
    "  last_used INTEGER,"
    "  revoked INTEGER"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX keys_owner ON keys (owner, created, id);"
    "CREATE INDEX keys_age ON keys (created, id);"
    "CREATE INDEX keys_dead ON keys (ifnull(revoked, expires));"
    "CREATE TABLE tokens ("
    "  hash BLOB PRIMARY KEY CHECK (length(hash) = 32),"
    "  owner TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,"
    "  created INTEGER NOT NULL,"
    "  expires INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX tokens_owner ON tokens (owner, created);"
    "CREATE INDEX tokens_expires ON tokens (expires);";

static const char sandboxes[] =
    "CREATE TABLE sandboxes ("
    "  n INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL UNIQUE,"
    "  owner TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,"
    "  name TEXT NOT NULL,"
    "  folder TEXT NOT NULL UNIQUE,"
    "  state INTEGER NOT NULL DEFAULT 0,"
    "  created INTEGER NOT NULL,"
    "  used INTEGER NOT NULL,"
    "  settings TEXT NOT NULL,"
    "  UNIQUE (owner, name)"
    ") STRICT;"
    "CREATE INDEX sandboxes_owner ON sandboxes (owner, created, id);"
    "CREATE TABLE doomed (folder TEXT PRIMARY KEY, since INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX doomed_since ON doomed (since);";

static const char runs[] =
    "CREATE TABLE totals (what TEXT PRIMARY KEY, count INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE runs ("
    "  n INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL UNIQUE,"
    "  owner TEXT NOT NULL REFERENCES users (id),"
    "  sandbox TEXT NOT NULL,"
    "  session TEXT NOT NULL,"
    "  code TEXT NOT NULL,"
    "  holder INTEGER NOT NULL,"
    "  started INTEGER NOT NULL,"
    "  ended INTEGER,"
    "  cause TEXT,"
    "  exit_code INTEGER,"
    "  hits INTEGER,"
    "  message TEXT,"
    "  wall_us INTEGER,"
    "  cpu_us INTEGER,"
    "  peak_memory INTEGER,"
    "  output_bytes INTEGER,"
    "  kept_bytes INTEGER,"
    "  truncated INTEGER,"
    "  files TEXT,"
    "  size INTEGER NOT NULL" /* what the row counts for in totals */
    ") STRICT;"
    "CREATE INDEX runs_owner ON runs (owner, started, id);"
    "CREATE INDEX runs_place ON runs (owner, sandbox, session, started, id);"
    "CREATE INDEX runs_ended ON runs (ended) WHERE ended IS NOT NULL;"
    "CREATE INDEX runs_open ON runs (holder) WHERE ended IS NULL;"
    "INSERT INTO totals VALUES ('runs', 0, 0);"
    "CREATE TRIGGER runs_added AFTER INSERT ON runs BEGIN"
    "  UPDATE totals SET count = count + 1, bytes = bytes + new.size WHERE what = 'runs'; END;"
    "CREATE TRIGGER runs_changed AFTER UPDATE OF size ON runs BEGIN"
    "  UPDATE totals SET bytes = bytes - old.size + new.size WHERE what = 'runs'; END;"
    "CREATE TRIGGER runs_deleted AFTER DELETE ON runs BEGIN"
    "  UPDATE totals SET count = count - 1, bytes = bytes - old.size WHERE what = 'runs'; END;";

static const char audit[] =
    "CREATE TABLE audit ("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT," /* never used twice, also when every row was deleted */
    "  at INTEGER NOT NULL,"
    "  who TEXT NOT NULL,"
    "  what TEXT NOT NULL,"
    "  object TEXT NOT NULL,"
    "  outcome TEXT NOT NULL,"
    "  address TEXT NOT NULL,"
    "  request TEXT NOT NULL,"
    "  detail TEXT NOT NULL,"
    "  size INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX audit_who ON audit (who);"
    "CREATE INDEX audit_object ON audit (object);"
    "INSERT INTO totals VALUES ('audit', 0, 0);"
    "CREATE TRIGGER audit_added AFTER INSERT ON audit BEGIN"
    "  UPDATE totals SET count = count + 1, bytes = bytes + new.size WHERE what = 'audit'; END;"
    "CREATE TRIGGER audit_deleted AFTER DELETE ON audit BEGIN"
    "  UPDATE totals SET count = count - 1, bytes = bytes - old.size WHERE what = 'audit'; END;";

/* A small log of a run is kept with its row; a larger one has a file of its own. */
static const char run_logs[] = "ALTER TABLE runs ADD COLUMN log BLOB;";

/* Jobs outlive their owner only while they are open, so the owner is no reference. */
static const char jobs[] =
    "CREATE TABLE jobs ("
    "  n INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL UNIQUE,"
    "  owner TEXT NOT NULL,"
    "  kind TEXT NOT NULL,"
    "  subject TEXT NOT NULL,"
    "  params TEXT NOT NULL,"
    "  address TEXT NOT NULL,"
    "  request TEXT NOT NULL,"
    "  attempt INTEGER NOT NULL,"
    "  holder INTEGER NOT NULL,"
    "  started INTEGER NOT NULL,"
    "  ended INTEGER,"
    "  cause TEXT,"
    "  message TEXT,"
    "  done INTEGER NOT NULL DEFAULT 0,"
    "  total INTEGER NOT NULL DEFAULT 0,"
    "  text TEXT NOT NULL DEFAULT '',"
    "  log BLOB"
    ") STRICT;"
    "CREATE INDEX jobs_owner ON jobs (owner, started, id);"
    "CREATE INDEX jobs_ended ON jobs (ended) WHERE ended IS NOT NULL;"
    "CREATE INDEX jobs_open ON jobs (holder) WHERE ended IS NULL;";

/* Every filter of the lists of runs and of the audit log has an index in the order of the list. Most runs end as `ok`
 * and few are open, so those two are partial. */
static const char filters[] =
    "CREATE INDEX runs_sandbox ON runs (owner, sandbox, started, id);"
    "CREATE INDEX runs_session ON runs (owner, session, started, id);"
    "CREATE INDEX runs_cause ON runs (owner, cause, started, id) WHERE cause <> 'ok';"
    "CREATE INDEX runs_running ON runs (owner, started, id) WHERE ended IS NULL;"
    "CREATE INDEX audit_what ON audit (what);"
    "CREATE INDEX audit_request ON audit (request);"
    "CREATE INDEX audit_outcome ON audit (outcome) WHERE outcome <> 'ok';";

/* A sandbox as it was saved: new ones begin with a copy of its folder. `bytes` is what it held then. */
static const char templates[] =
    "CREATE TABLE templates ("
    "  n INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL UNIQUE,"
    "  owner TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,"
    "  name TEXT NOT NULL,"
    "  folder TEXT NOT NULL UNIQUE,"
    "  shared INTEGER NOT NULL,"
    "  bytes INTEGER NOT NULL,"
    "  created INTEGER NOT NULL,"
    "  description TEXT NOT NULL,"
    "  settings TEXT NOT NULL,"
    "  UNIQUE (owner, name)"
    ") STRICT;"
    "CREATE INDEX templates_age ON templates (created, id);"
    "CREATE INDEX templates_shared ON templates (name) WHERE shared;";

/* What a job has to tell beyond its cause: a JSON object of its kind's. */
static const char job_results[] = "ALTER TABLE jobs ADD COLUMN result TEXT;"
                                  "CREATE INDEX jobs_subject ON jobs (owner, subject, started, id);";

/* Connections to the outside. What is past a bound goes from the user who has the most: connection_owners says who.
 * Deleting a sandbox must not take as long as it has rows, so they are doomed and go some at a time. */
static const char connections[] =
    "CREATE TABLE connections ("
    "  n INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL,"
    "  owner TEXT NOT NULL,"
    "  sandbox TEXT NOT NULL,"
    "  run TEXT NOT NULL,"
    "  at INTEGER NOT NULL,"
    "  ms INTEGER NOT NULL,"
    "  how TEXT NOT NULL,"
    "  method TEXT NOT NULL,"
    "  host TEXT NOT NULL,"
    "  verdict TEXT NOT NULL,"
    "  port INTEGER NOT NULL,"
    "  address TEXT NOT NULL,"
    "  sent INTEGER NOT NULL,"
    "  received INTEGER NOT NULL,"
    "  status INTEGER NOT NULL,"
    "  why TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX connections_age ON connections (at, id);"
    "CREATE INDEX connections_owner ON connections (owner, at, id);"
    "CREATE INDEX connections_sandbox ON connections (sandbox, at, id);"
    "CREATE INDEX connections_run ON connections (run, at, id) WHERE run <> '';"
    "CREATE INDEX connections_verdict ON connections (owner, verdict, at, id) WHERE verdict <> 'ok';"
    "CREATE TABLE connection_owners (owner TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX connection_owners_count ON connection_owners (count);"
    "CREATE TABLE connections_doomed (sandbox TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;"
    "INSERT INTO totals VALUES ('connections', 0, 0);"
    "CREATE TRIGGER connections_added AFTER INSERT ON connections BEGIN"
    "  UPDATE totals SET count = count + 1 WHERE what = 'connections';"
    "  INSERT INTO connection_owners VALUES (new.owner, 1) ON CONFLICT DO UPDATE SET count = count + 1; END;"
    "CREATE TRIGGER connections_deleted AFTER DELETE ON connections BEGIN"
    "  UPDATE totals SET count = count - 1 WHERE what = 'connections';"
    "  UPDATE connection_owners SET count = count - 1 WHERE owner = old.owner;"
    "  DELETE FROM connection_owners WHERE owner = old.owner AND count <= 0; END;"
    "CREATE TRIGGER sandboxes_deleted AFTER DELETE ON sandboxes BEGIN"
    "  INSERT OR IGNORE INTO connections_doomed VALUES (old.id); END;";

/* What code was refused. What is past a bound goes from the user who has the most, as of connections; but rows outlive
 * their sandbox. */
static const char security_events[] =
    "CREATE TABLE security_events ("
    "  n INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL,"
    "  owner TEXT NOT NULL,"
    "  sandbox TEXT NOT NULL,"
    "  run TEXT NOT NULL,"
    "  at INTEGER NOT NULL,"
    "  kind TEXT NOT NULL,"
    "  rule TEXT NOT NULL,"
    "  line INTEGER NOT NULL,"
    "  count INTEGER NOT NULL,"
    "  text TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX security_events_age ON security_events (at, id);"
    "CREATE INDEX security_events_owner ON security_events (owner, at, id);"
    "CREATE INDEX security_events_kind ON security_events (owner, kind, at, id);"
    "CREATE INDEX security_events_sandbox ON security_events (sandbox, at, id) WHERE sandbox <> '';"
    "CREATE INDEX security_events_run ON security_events (run, at, id) WHERE run <> '';"
    "CREATE TABLE security_owners (owner TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX security_owners_count ON security_owners (count);"
    "INSERT INTO totals VALUES ('security_events', 0, 0);"
    "CREATE TRIGGER security_events_added AFTER INSERT ON security_events BEGIN"
    "  UPDATE totals SET count = count + 1 WHERE what = 'security_events';"
    "  INSERT INTO security_owners VALUES (new.owner, 1) ON CONFLICT DO UPDATE SET count = count + 1; END;"
    "CREATE TRIGGER security_events_deleted AFTER DELETE ON security_events BEGIN"
    "  UPDATE totals SET count = count - 1 WHERE what = 'security_events';"
    "  UPDATE security_owners SET count = count - 1 WHERE owner = old.owner;"
    "  DELETE FROM security_owners WHERE owner = old.owner AND count <= 0; END;";

/* Secrets of users: `hosts` is a JSON array of texts, `sealed` the value, which the file secrets.key opens. */
static const char secrets[] =
    "CREATE TABLE secrets ("
    "  id TEXT PRIMARY KEY,"
    "  owner TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,"
    "  name TEXT NOT NULL,"
    "  hosts TEXT NOT NULL,"
    "  sealed BLOB NOT NULL,"
    "  created INTEGER NOT NULL,"
    "  changed INTEGER NOT NULL,"
    "  UNIQUE (owner, name)"
    ") STRICT, WITHOUT ROWID;"
    "ALTER TABLE connections ADD COLUMN secrets TEXT NOT NULL DEFAULT '';";

const struct kr_migration kr_migrations[] = {
    {1, users_and_keys},
    {2, sandboxes},
    {3, runs},
    {4, audit},
    {5, run_logs},
    {6, jobs},
    {7, filters},
    {8, templates},
    {9, job_results},
    {10, connections},
    {11, security_events},
    {12, secrets},
};
/* clang-format on */
const size_t kr_migrations_count = sizeof kr_migrations / sizeof kr_migrations[0];

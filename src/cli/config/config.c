/* The table of settings of `krait serve`. Every fact about a setting is in its row, and nowhere else: how it is
 * called in a file, on the command line and in the environment, what it may be, what it is by default, what it is
 * for.
 *
 * Read by the other files of the configuration. Invariant (tests/unit/cli/config/test-config.c): flags and names are
 * unique, defaults and examples parse, everything has its help. */
#include "config_rows.h"
#include "choices.h"
#include <assert.h>
#include <string.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define AT(field) .offset = offsetof(struct kr_config, field), .size = sizeof(((struct kr_config *)0)->field)

/* clang-format off */
const struct kr_config_section kr_config_sections[] = {
    { NULL,        "Files" },
    { "server",    "Where it listens and what it runs as" },
    { "auth",      "Who may use it" },
    { "http",      "Browsers, connections and requests" },
    { "sessions",  "Live sessions, queues and the pool" },
    { "users",     "What one user may have" },
    { "limits",    "Limits of a session, and the most a client may ask for" },
    { "terminals", "Terminals of sandboxes" },
    { "templates", "The template that is built at start, and templates that are preloaded" },
    { "sandboxes", "What sandboxes are made of" },
    { "policy",    "What code may do as governance within its cell" },
    { "mcp",       "What MCP clients see" },
    { "egress",    "What sandboxes reach outside" },
    { "mirror",    "Where packages come from" },
    { "data",      "What is kept, where and how long" },
    { "log",       "What krait says about itself" },
    { "packages",  "Python packages" },
};
/* clang-format on */
const size_t kr_config_sections_count = sizeof kr_config_sections / sizeof *kr_config_sections;

static const char *const log_formats[] = {"logfmt", "json", NULL};
static_assert(sizeof log_formats / sizeof *log_formats == KR_LOG_FORMAT_MAX_ + 1, "every format has its word");
static const char *const level_words[][2] = {
    {"warning", "warn"}, {"critical", "error"}, {"fatal", "error"}, {"trace", "debug"}, {NULL, NULL}};

/* clang-format off */
static const struct kr_config_row rows[] = {
    { .flag = "config", .type = KR_SET_PATH, AT(config_file), .value = "FILE",
      .fallback_text = "krait.toml in the current folder", .example = "/etc/krait/krait.toml",
      .test = "integration/settings:config",
      .help = "The file of settings. One in the current folder counts only if it is yours or root's and no "
              "other user can write it." },
    { .flag = "env-file", .type = KR_SET_PATH, AT(env_file), .value = "FILE",
      .fallback_text = ".env in the current folder", .example = "/etc/krait/krait.env",
      .test = "integration/settings:env_file",
      .help = "A file of NAME=value lines, read as if they were the environment. The same holds for it." },
    { .flag = "no-files", .type = KR_SET_BOOL, AT(no_files), .fallback = "false", .example = "true",
      .test = "integration/settings:no_files", .help = "Leave .env and krait.toml of the current folder alone." },
    { .flag = "sse", .type = KR_SET_BOOL, AT(sse), .fallback = "false", .example = "true",
      .test = "integration/settings:sse",
      .help = "Listen, and print the address of the older MCP transport (/sse), which is always served." },

    { .section = "server", .key = "host", .flag = "host", .env = {{"HOST", NULL}, {"APP_HOST", NULL}},
      .type = KR_SET_ADDRESS, AT(host), .value = "ADDRESS", .fallback = "127.0.0.1", .example = "0.0.0.0",
      .test = "integration/settings:host",
      .help = "The address to listen on. One that other machines can reach needs a key, or --allow-anonymous." },
    { .section = "server", .key = "port", .flag = "port", .env = {{"PORT", NULL}, {"APP_PORT", NULL}},
      .type = KR_SET_COUNT, AT(port), .value = "N", .max = 65535, .zero = "any free port", .fallback = "8642",
      .example = "8080", .test = "integration/settings:port", .help = "The port to listen on." },
    { .section = "server", .key = "listen", .flag = "listen", .type = KR_SET_WORDS, AT(listen),
      .value = "[ADDRESS:]PORT[=DIALECT]", .fallback_text = "host, port and dialect",
      .example = "127.0.0.1:8642,127.0.0.1:16010=sandbox-mcp", .test = "integration/settings:listen",
      .help = "Listen on several at once, each in its dialect, instead of on host and port. A dialect's name alone "
              "is the address and port of its document." },
    { .section = "server", .key = "dialect", .flag = "dialect", .type = KR_SET_CHOICE, AT(dialect), .value = "NAME",
      .choices = kr_dialect_names, .fallback = "krait", .example = "sandbox-mcp",
      .test = "integration/settings:dialect",
      .help = "Whose names, shapes and defaults hold where a listener or request names none." },
    { .section = "server", .key = "transport", .flag = "transport", .type = KR_SET_CHOICE, AT(transport),
      .value = "HOW", .choices = kr_cli_transports, .fallback = "http", .example = "stdio",
      .test = "integration/settings:transport",
      .help = "http: listen. stdio: one MCP client on stdin and stdout, as `krait mcp` does." },
    { .section = "server", .key = "public_url", .flag = "public-url", .env = {{"PUBLIC_URL", NULL}},
      .type = KR_SET_URL, AT(api.public_url), .value = "URL", .fallback_text = "what the request's Host says",
      .example = "https://krait.example.org", .test = "integration/settings:public_url",
      .help = "How clients reach the server, for the links it makes; its host is allowed." },
    { .section = "server", .key = "user", .flag = "user", .type = KR_SET_TEXT, AT(user), .value = "NAME",
      .fallback_text = "krait if there is such a user, else a number of its own (1879048191)", .example = "krait",
      .test = "integration/settings:user",
      .help = "Whom the server becomes when krait is started as root; the data folder is theirs." },
    { .section = "server", .key = "stop_timeout", .flag = "stop-timeout", .type = KR_SET_TIME, AT(stop_timeout_ms),
      .value = "TIME", .max = HOUR, .zero = "at once", .fallback = "8s", .example = "30s",
      .reload = true, .test = "integration/settings:stop_timeout",
      .help = "How long runs may go on after SIGTERM; containers are killed 10 s after it." },

    { .section = "auth", .key = "api_key", .flag = "api-key",
      .env = {{"API_KEY", NULL}, {"SANDBOX_API_TOKEN", NULL}}, .type = KR_SET_SECRET, AT(auth.api_key),
      .value = "KEY", .fallback_text = "none; loopback is open", .example = "change-me-0123456789abcdef",
      .reload = true, .test = "integration/settings:api_key",
      .help = "A key that every request must show. On a command line others can read it: better in the environment "
              "or a file." },
    { .section = "auth", .key = "api_key_file", .flag = "api-key-file", .type = KR_SET_PATH, AT(api_key_file),
      .value = "FILE", .example = "/run/secrets/krait-key", .test = "integration/settings:api_key_file",
      .help = "The same, as the only line of a file." },
    { .section = "auth", .key = "require_auth", .flag = "require-auth", .type = KR_SET_BOOL, AT(require_auth),
      .fallback = "false", .example = "true", .test = "integration/settings:require_auth",
      .help = "Ask for a user's key or login on every listener, loopback too." },
    { .section = "auth", .key = "allow_anonymous", .flag = "allow-anonymous", .type = KR_SET_BOOL,
      AT(allow_anonymous), .fallback = "false", .example = "true", .test = "integration/settings:allow_anonymous",
      .help = "Allow an address that other machines can reach without any key: every client there can run code." },
    { .section = "auth", .key = "allow_registration", .flag = "allow-registration", .type = KR_SET_BOOL,
      AT(profile.allow_registration), .fallback = "false", .example = "true",
      .test = "integration/settings:allow_registration", .help = "Let every client make an account for itself." },
    { .section = "auth", .key = "open_metrics", .flag = "open-metrics", .type = KR_SET_BOOL, AT(open_metrics),
      .fallback = "false", .example = "true", .test = "integration/settings:open_metrics",
      .help = "Answer /metrics without a key." },
    { .section = "auth", .key = "login_ttl", .flag = "login-ttl", .type = KR_SET_TIME, AT(profile.login_ttl_ms),
      .value = "TIME", .min = MINUTE, .max = 365 * DAY, .fallback = "12h", .example = "1h",
      .reload = true, .test = "integration/settings:login_ttl", .help = "How long a login holds." },
    { .section = "auth", .key = "link_ttl", .flag = "link-ttl", .type = KR_SET_TIME, AT(api.link_ttl_ms),
      .value = "TIME", .min = SECOND, .max = 365 * DAY, .fallback = "24h", .example = "1h",
      .reload = true, .test = "integration/settings:link_ttl", .help = "How long a signed link to a file holds." },

    { .section = "http", .key = "allowed_hosts", .flag = "allowed-hosts", .env = {{"ALLOWED_HOSTS", NULL}},
      .type = KR_SET_WORDS, AT(guard.allowed_hosts), .value = "LIST", .fallback_text = "none",
      .example = "krait.example.org,*.lan", .test = "integration/settings:allowed_hosts",
      .help = "Host names that requests may name beyond IP addresses, localhost, names without a dot and "
              "public_url; * is any, and gives up the guard against DNS rebinding." },
    { .section = "http", .key = "cors_origins", .flag = "cors-origins", .type = KR_SET_WORDS,
      AT(guard.cors_origins), .value = "LIST", .fallback_text = "none", .example = "https://app.example.org",
      .test = "integration/settings:cors_origins",
      .help = "Web pages of other origins that may use the server from a browser." },
    { .section = "http", .key = "cors_credentials", .flag = "cors-credentials", .type = KR_SET_BOOL,
      AT(guard.cors_credentials), .fallback = "false", .example = "true",
      .test = "integration/settings:cors_credentials",
      .help = "Let those pages send the browser's own credentials." },
    { .section = "http", .key = "max_body", .flag = "max-body", .type = KR_SET_SIZE, AT(api.max_body),
      .value = "SIZE", .min = 64 * KIB, .max = GIB, .fallback = "16M", .example = "64M",
      .reload = true, .test = "integration/settings:max_body", .help = "Bytes of a request's body, uploads excepted." },
    { .section = "http", .key = "max_upload", .flag = "max-upload", .type = KR_SET_SIZE, AT(api.max_upload),
      .value = "SIZE", .min = 64 * KIB, .max = TIB, .fallback = "256M", .example = "2G",
      .reload = true, .test = "integration/settings:max_upload", .help = "Bytes of an uploaded file." },
    { .section = "http", .key = "max_connections", .flag = "max-connections", .type = KR_SET_COUNT,
      AT(http.connections_max), .value = "N", .min = 8, .max = 1000000, .fallback = "16384", .example = "1024",
      .test = "integration/settings:max_connections", .help = "Connections at once." },
    { .section = "http", .key = "max_connections_per_address", .flag = "max-connections-per-address",
      .type = KR_SET_COUNT, AT(http.per_address_max), .value = "N", .min = 1, .max = 1000000,
      .zero = "no bound of its own", .fallback = "1024", .example = "64",
      .test = "integration/settings:max_connections_per_address", .help = "Connections at once from one address." },
    { .section = "http", .key = "max_unsent", .flag = "max-unsent", .type = KR_SET_SIZE, AT(http.unsent_max),
      .value = "SIZE", .min = MIB, .max = TIB, .fallback = "256M", .example = "64M",
      .test = "integration/settings:max_unsent",
      .help = "Bytes of answers that wait for slow readers, on all connections: past it the one that holds most is "
              "cut." },
    { .section = "http", .key = "head_timeout", .flag = "head-timeout", .type = KR_SET_TIME, AT(http.head_ms),
      .value = "TIME", .min = 100, .max = 10 * MINUTE, .fallback = "10s", .example = "5s",
      .test = "integration/settings:head_timeout",
      .help = "Time for a request's head to come, from its first byte." },
    { .section = "http", .key = "body_timeout", .flag = "body-timeout", .type = KR_SET_TIME, AT(http.body_ms),
      .value = "TIME", .min = 100, .max = HOUR, .fallback = "30s", .example = "2m",
      .test = "integration/settings:body_timeout", .help = "Time for a request's body to go on coming." },
    { .section = "http", .key = "write_timeout", .flag = "write-timeout", .type = KR_SET_TIME, AT(http.write_ms),
      .value = "TIME", .min = 100, .max = DAY, .fallback = "60s", .example = "5m",
      .test = "integration/settings:write_timeout", .help = "Time that a client may leave its reply unread." },
    { .section = "http", .key = "keep_alive", .flag = "keep-alive", .type = KR_SET_TIME, AT(http.idle_ms),
      .value = "TIME", .min = 100, .max = DAY, .fallback = "75s", .example = "15s",
      .test = "integration/settings:keep_alive", .help = "Time that a connection may wait for its next request." },
    { .section = "http", .key = "ping_interval", .flag = "ping-interval", .type = KR_SET_TIME, AT(http.beat_ms),
      .value = "TIME", .min = 100, .max = HOUR, .fallback = "15s", .example = "30s",
      .test = "integration/settings:ping_interval",
      .help = "Time between the signs of life in a stream or WebSocket that has nothing to say." },

    { .section = "sessions", .key = "max_sessions", .flag = "max-sessions", .env = {{"MAX_KERNELS", NULL}},
      .old_flag = "max-kernels", .type = KR_SET_COUNT, AT(profile.max_sessions), .value = "N", .max = 100000,
      .zero = "bounded by memory", .fallback = "0", .example = "100",
      .test = "integration/settings_runs:max_sessions",
      .help = "Live sessions at once; the one idle for longest makes room." },
    { .section = "sessions", .key = "idle_timeout", .flag = "idle-timeout", .env = {{"KERNEL_TIMEOUT", NULL}},
      .old_flag = "kernel-timeout", .type = KR_SET_TIME, AT(profile.idle_timeout_ms), .value = "TIME", .min = SECOND,
      .max = 365 * DAY, .zero = "never", .fallback = "4h", .example = "30m",
      .reload = true, .test = "integration/settings_runs:idle_timeout",
      .help = "When a session without a run is ended; its files stay." },
    { .section = "sessions", .key = "cleanup_interval", .flag = "cleanup-interval",
      .env = {{"KERNEL_CLEANUP_INTERVAL", NULL}}, .type = KR_SET_TIME, AT(box.cleanup_interval_ms), .value = "TIME",
      .min = 100, .max = DAY, .fallback = "60s", .example = "10s",
      .reload = true, .test = "integration/settings_runs:cleanup_interval",
      .help = "How often idle sessions, old runs and the data folder's size are looked at." },
    { .section = "sessions", .key = "queue_max", .flag = "queue-max", .type = KR_SET_COUNT, AT(box.queue_max),
      .value = "N", .max = 10000, .zero = "none may wait", .fallback = "16", .example = "4",
      .reload = true, .test = "integration/settings_runs:queue_max",
      .help = "Runs that may wait for their turn in one session." },
    { .section = "sessions", .key = "queue_wait", .flag = "queue-wait", .type = KR_SET_TIME, AT(box.queue_wait_ms),
      .value = "TIME", .max = HOUR, .zero = "not at all", .fallback = "10s", .example = "1m",
      .reload = true, .test = "integration/settings_runs:queue_wait",
      .help = "How long a run waits for a session when all are busy." },
    { .section = "sessions", .key = "linger", .flag = "linger", .type = KR_SET_TIME, AT(box.linger_ms),
      .value = "TIME", .max = DAY, .zero = "not at all", .fallback = "60s", .example = "5m",
      .reload = true, .test = "integration/settings_runs:linger",
      .help = "How long a streamed run goes on after its client has left, to be picked up again." },
    { .section = "sessions", .key = "pool_size", .flag = "pool-size", .env = {{"SESSION_POOL_SIZE", NULL}},
      .type = KR_SET_COUNT, AT(engine.pool_size), .value = "N", .max = 256, .zero = "no pool", .fallback = "2",
      .example = "8", .test = "integration/settings_runs:pool_size",
      .help = "Sessions kept ready for each preload." },
    { .section = "sessions", .key = "pool_max", .flag = "pool-max", .type = KR_SET_COUNT, AT(engine.pool_max),
      .value = "N", .max = 256, .zero = "the pool does not grow", .fallback = "16", .example = "32",
      .test = "integration/settings_runs:pool_max",
      .help = "Sessions kept ready for each preload while new ones are asked for faster than they are made. The pool "
              "is back at `pool_size` a minute after that." },

    { .section = "sessions", .key = "total_memory", .flag = "total-memory", .type = KR_SET_SIZE, AT(total_memory),
      .value = "SIZE", .min = 64 * MIB, .max = 1024 * TIB, .zero = "four fifths of what krait may use here",
      .fallback = "0", .example = "16G", .test = "integration/settings_runs:total_memory",
      .help = "Memory of all sessions together, where krait has a control group of memory. Near it new sessions wait "
              "and are then refused; at it the kernel kills sessions, the largest first." },
    { .section = "sessions", .key = "total_processes", .flag = "total-processes", .type = KR_SET_COUNT,
      AT(total_processes), .value = "N", .min = 16, .max = 4194304, .zero = "four fifths of what krait may have here",
      .fallback = "0", .example = "20000", .test = "integration/settings_runs:total_processes",
      .help = "Processes and threads of all sessions together, where krait has a control group of pids." },

    { .section = "users", .key = "max_sessions", .flag = "max-sessions-per-user", .type = KR_SET_COUNT,
      AT(box.max_sessions_per_user), .value = "N", .max = 100000, .zero = "no bound of its own", .fallback = "0",
      .example = "10", .reload = true, .test = "integration/settings_runs:max_sessions_per_user",
      .help = "Live sessions of one user at once." },
    { .section = "users", .key = "max_sandboxes", .flag = "max-sandboxes-per-user", .type = KR_SET_COUNT,
      AT(profile.max_sandboxes_per_user), .value = "N", .max = 1000000, .zero = "no bound", .fallback = "100",
      .example = "3", .reload = true, .test = "integration/settings_runs:max_sandboxes_per_user",
      .help = "Sandboxes of one user." },
    { .section = "users", .key = "max_templates", .flag = "max-templates-per-user", .type = KR_SET_COUNT,
      AT(box.max_templates_per_user), .value = "N", .max = 1000000, .zero = "no bound", .fallback = "50",
      .example = "10", .reload = true, .test = "integration/settings_runs:max_templates_per_user",
      .help = "Templates of one user." },
    { .section = "users", .key = "runs_per_minute", .flag = "runs-per-minute", .type = KR_SET_COUNT,
      AT(box.runs_per_minute), .value = "N", .max = 1000000, .zero = "no bound", .fallback = "0", .example = "120",
      .reload = true, .test = "integration/settings_runs:runs_per_minute",
      .help = "Runs that one user may start in a minute." },
    { .section = "users", .key = "max_disk", .flag = "max-disk-per-user", .type = KR_SET_SIZE,
      AT(box.max_disk_per_user), .value = "SIZE", .min = MIB, .max = 1024 * TIB, .zero = "no bound",
      .fallback = "10G", .example = "1G", .reload = true, .test = "integration/settings_runs:max_disk_per_user",
      .help = "Bytes in all sandboxes and templates of one user." },

    { .section = "users", .key = "max_memory", .flag = "max-memory-per-user", .type = KR_SET_SIZE, AT(user_memory),
      .value = "SIZE", .min = 32 * MIB, .max = 1024 * TIB, .zero = "half of total_memory", .fallback = "0",
      .example = "4G", .test = "integration/settings_runs:max_memory_per_user",
      .help = "Memory of all sessions of one user together. Users have control groups of their own, and equal shares "
              "of the processors, where there are users (require_auth, allow_registration), or where this or "
              "max_processes is given." },
    { .section = "users", .key = "max_processes", .flag = "max-processes-per-user", .type = KR_SET_COUNT,
      AT(user_processes), .value = "N", .min = 8, .max = 4194304, .zero = "half of total_processes", .fallback = "0",
      .example = "1000", .test = "integration/settings_runs:max_processes_per_user",
      .help = "Processes and threads of all sessions of one user together." },

    { .section = "terminals", .key = "max_terminals", .flag = "max-terminals", .type = KR_SET_COUNT,
      AT(box.max_terminals), .value = "N", .max = 100000, .zero = "bounded by max_sessions", .fallback = "64",
      .example = "16", .reload = true, .test = "integration/settings_runs:max_terminals",
      .help = "Terminals at once; each takes a slot as a session does." },
    { .section = "terminals", .key = "max_per_user", .flag = "max-terminals-per-user", .type = KR_SET_COUNT,
      AT(box.max_terminals_per_user), .value = "N", .max = 100000, .zero = "no bound of its own", .fallback = "16",
      .example = "4", .reload = true, .test = "integration/settings_runs:max_terminals_per_user",
      .help = "Terminals of one user at once." },
    { .section = "terminals", .key = "max_per_sandbox", .flag = "max-terminals-per-sandbox", .type = KR_SET_COUNT,
      AT(box.max_terminals_per_sandbox), .value = "N", .max = 100000, .zero = "no bound of its own", .fallback = "8",
      .example = "2", .reload = true, .test = "integration/settings_runs:max_terminals_per_sandbox",
      .help = "Terminals of one sandbox at once." },
    { .section = "terminals", .key = "idle_timeout", .flag = "terminal-idle-timeout", .type = KR_SET_TIME,
      AT(box.terminal_idle_ms), .value = "TIME", .min = SECOND, .max = 365 * DAY, .zero = "never", .fallback = "1h",
      .example = "10m", .reload = true, .test = "integration/settings_runs:terminal_idle_timeout",
      .help = "When a terminal is closed in which nothing was typed, and whose output no client has followed." },

    { .section = "templates", .key = "requirements", .flag = "template-requirements", .type = KR_SET_WORDS,
      AT(template.requirements), .value = "LIST", .fallback_text = "no template is built", .example = "numpy>=2,pandas",
      .test = "integration/template_builds:template_requirements",
      .help = "Packages of a template that is built at start when it is absent or they have changed; a list of "
              "requirements, each with its own commas in krait.toml alone." },
    { .section = "templates", .key = "name", .flag = "template-name", .type = KR_SET_TEXT, AT(template.name),
      .value = "NAME", .fallback = "packages", .example = "science",
      .test = "integration/template_builds:template_name", .help = "The name of that template, which is root's." },
    { .section = "templates", .key = "shared", .flag = "template-shared", .type = KR_SET_BOOL, AT(template.shared),
      .fallback = "true", .example = "false", .test = "integration/template_builds:template_shared",
      .help = "Whether every user can begin a sandbox with it." },
    { .section = "templates", .key = "preload", .flag = "template-preload", .type = KR_SET_WORDS,
      AT(template_preload), .value = "LIST", .fallback_text = "none", .example = "science:numpy+pandas",
      .test = "integration/preload:template_preload",
      .help = "Shared templates of root's whose packages a zygote imports, so that sessions of sandboxes with these "
              "packages begin with them: NAME (the modules of what was asked for) or NAME:MODULE+MODULE. Their code "
              "is then trusted with all of those sessions." },
    { .section = "templates", .key = "max_zygotes", .flag = "template-max-zygotes", .type = KR_SET_COUNT,
      AT(template_max_zygotes), .value = "N", .max = KR_CONFIG_TEMPLATE_ZYGOTES_MAX, .fallback = "1", .example = "2",
      .test = "integration/preload:template_max_zygotes", .help = "How many templates may be preloaded." },
    { .section = "templates", .key = "zygote_memory", .flag = "template-zygote-memory", .type = KR_SET_SIZE,
      AT(template_zygote_memory), .value = "SIZE", .min = 64 * MIB, .max = 1024 * TIB, .fallback = "1G",
      .example = "2G", .test = "integration/preload:template_zygote_memory",
      .help = "What such a zygote may take." },
    { .section = "templates", .key = "zygote_timeout", .flag = "template-zygote-timeout", .type = KR_SET_TIME,
      AT(template_zygote_timeout_ms), .value = "TIME", .min = 1000, .max = HOUR, .fallback = "60s", .example = "3m",
      .test = "integration/preload:template_zygote_timeout", .help = "How long its imports may take." },

    { .section = "sandboxes", .key = "python", .flag = "python", .type = KR_SET_PATH, AT(cells.python),
      .value = "PATH", .fallback = "/usr/bin/python3", .example = "/usr/bin/python3.11",
      .test = "integration/settings_runs:python", .help = "The interpreter." },
    { .section = "sandboxes", .key = "preload", .flag = "preload", .type = KR_SET_WORDS, AT(preload),
      .value = "LIST", .choices = kr_cli_preloads, .fallback = "basic,data", .example = "basic",
      .test = "integration/settings_runs:preload",
      .help = "What sessions may have imported beforehand: basic, data (numpy, pandas, scipy, matplotlib, as far "
              "as installed)." },
    { .section = "sandboxes", .key = "network", .flag = "network",
      .env = {{"SANDBOX_ENABLE_NETWORK", NULL}, {"ENABLE_NETWORK_ACCESS", NULL}}, .type = KR_SET_RULE, AT(box.network),
      .value = "RULE", .fallback = "none", .example = "loopback", .reload = true,
      .test = "integration/settings_runs:network",
      .help = "The network of a sandbox that says nothing else: none, loopback (127.0.0.1 of its own), index (the "
              "package index too), allow:HOST,… (those hosts too) or open (every public address). The documents' "
              "names take true for open." },
    { .section = "sandboxes", .key = "max_network", .flag = "max-network", .type = KR_SET_RULE, AT(box.max_network),
      .value = "RULE", .fallback = "index", .example = "allow:pypi.org,*.example.org", .reload = true,
      .test = "integration/settings_runs:max_network",
      .help = "The most network that a sandbox may ask for, as a rule." },
    { .section = "sandboxes", .key = "level", .flag = "level", .type = KR_SET_CHOICE, AT(cells.level),
      .value = "LEVEL", .choices = kr_cli_levels, .fallback_text = "the best this machine gives", .example = "root",
      .test = "integration/settings_runs:level",
      .help = "Insist on a level of isolation: root, user or contained. What it cannot give is refused, never left "
              "out." },
    { .section = "sandboxes", .key = "allow_contained", .flag = "allow-contained", .type = KR_SET_BOOL,
      AT(cells.allow_contained), .fallback = "false", .example = "true",
      .test = "integration/settings_runs:allow_contained",
      .help = "Allow the level contained where no namespace can be made: Landlock, seccomp and rlimits only." },
    { .section = "sandboxes", .key = "mounts", .flag = "mounts", .type = KR_SET_MOUNTS, AT(mounts),
      .value = "NAME=DIR", .fallback_text = "none", .example = "census=/srv/data/census",
      .test = "integration/settings_runs:mounts",
      .help = "Folders of data that sandboxes may ask for by name, read-only." },
    { .section = "sandboxes", .key = "upload_roots", .flag = "upload-roots", .type = KR_SET_PATHS,
      AT(mcp.upload_roots), .value = "DIRS", .fallback_text = "none", .example = "/srv/upload",
      .test = "integration/settings_runs:upload_roots",
      .help = "Folders of this machine from which a client may have files copied into its sandbox by path." },

    { .section = "policy", .key = "mode", .flag = "policy", .type = KR_SET_CHOICE, AT(profile.policy_mode),
      .value = "MODE", .choices = kr_policy_names, .fallback = "open", .example = "restricted",
      .test = "integration/policy_settings:mode",
      .help = "open: all of Python. restricted: code is judged before it runs and watched while it runs; sandboxes and "
              "runs can only narrow that. The cell holds both alike." },
    { .section = "policy", .key = "data_science", .flag = "policy-data-science",
      .env = {{"SANDBOX_ENABLE_DATA_SCIENCE", NULL}}, .type = KR_SET_BOOL, AT(policy_data_science),
      .fallback = "false", .example = "true", .test = "integration/policy_settings:data_science",
      .help = "restricted has the profile data_science: numpy, pandas and the libraries around them." },
    { .section = "policy", .key = "network", .flag = "policy-network", .type = KR_SET_BOOL, AT(policy_network),
      .fallback = "false", .example = "true",
      .test = "integration/policy_settings:network",
      .help = "restricted has the profile network: clients of HTTP, mail and FTP, and the sandbox's network rule. "
              "Without it the rule is none. Where this is not given, a `network` of [sandboxes] that was given "
              "decides." },
    { .section = "policy", .key = "filesystem", .flag = "policy-filesystem",
      .env = {{"SANDBOX_ENABLE_FILESYSTEM", NULL}}, .type = KR_SET_BOOL, AT(policy_filesystem),
      .fallback = "false", .example = "true", .test = "integration/policy_settings:filesystem",
      .help = "restricted has the profile filesystem: paths, files and archives. Without it the workspace is "
              "read-only." },
    { .section = "policy", .key = "allowed_imports", .flag = "allowed-imports",
      .env = {{"SANDBOX_ALLOWED_IMPORTS", NULL}}, .type = KR_SET_WORDS, AT(allowed_imports), .value = "LIST",
      .fallback_text = "those of the profiles", .example = "math,json,xml.etree",
      .test = "integration/policy_settings:allowed_imports",
      .help = "Modules that may be imported, in the place of those of the profiles. Asks for restricted." },
    { .section = "policy", .key = "file", .flag = "policy-file", .type = KR_SET_PATH, AT(policy_file),
      .value = "FILE", .example = "/etc/krait/policy.toml", .test = "integration/policy_file:file",
      .help = "A policy file: what code of all users and of single ones may do, and their ceilings of limits "
              "(docs/policy.md). It takes the place of the settings of this section, and is read again on SIGHUP." },

    { .section = "mcp", .key = "tools", .flag = "tools", .type = KR_SET_CHOICE, AT(mcp.tools), .value = "WHICH",
      .choices = kr_cli_tools, .fallback = "all", .example = "core", .test = "integration/settings:tools",
      .help = "Tools that are listed in krait's own dialect: all, or those that matter most. Every tool can be "
              "called." },
    { .section = "mcp", .key = "structured", .flag = "structured", .type = KR_SET_BOOL, AT(mcp.structured),
      .fallback = "false", .example = "true", .test = "integration/settings:structured",
      .help = "Results of krait's own execution tools carry their structure as well. Some clients then show a "
              "model that alone, without figures." },
    { .section = "mcp", .key = "answer_after", .flag = "answer-after", .type = KR_SET_TIME, AT(mcp.answer_after_ms),
      .value = "TIME", .min = SECOND, .max = HOUR, .fallback = "50s", .example = "25s",
      .reload = true, .test = "integration/settings:answer_after",
      .help = "A run of krait's own tools that takes longer is answered with its id and what it has so far, for "
              "clients that take neither progress nor tasks. Most give a call 60 s." },
    { .section = "mcp", .key = "authorization_servers", .flag = "authorization-servers", .type = KR_SET_WORDS,
      AT(mcp.authorization_servers), .value = "URLS", .fallback_text = "none",
      .example = "https://login.example.org", .test = "integration/settings:authorization_servers",
      .help = "Where MCP clients get tokens: named by /.well-known/oauth-protected-resource, and with a refusal if "
              "public_url is set. A proxy in front checks them." },

    { .section = "egress", .key = "connections", .flag = "egress-connections", .type = KR_SET_COUNT,
      AT(egress.limits.sandbox_connections), .value = "N", .min = 1, .max = 65536, .fallback = "128", .example = "32",
      .test = "integration/egress_server:connections", .help = "Connections of one sandbox to the outside at a time." },
    { .section = "egress", .key = "max_connections", .flag = "egress-max-connections", .type = KR_SET_COUNT,
      AT(egress.limits.connections), .value = "N", .min = 1, .max = 65536, .fallback = "1024", .example = "4096",
      .test = "integration/egress_server:max_connections",
      .help = "Connections of all sandboxes to the outside at a time; one more waits." },
    { .section = "egress", .key = "resolve_timeout", .flag = "egress-resolve-timeout", .type = KR_SET_TIME,
      AT(egress.limits.resolve_ms), .value = "TIME", .min = 100, .max = MINUTE, .fallback = "5s", .example = "2s",
      .test = "integration/egress_server:resolve_timeout", .help = "How long the look-up of a name may take." },
    { .section = "egress", .key = "connect_timeout", .flag = "egress-connect-timeout", .type = KR_SET_TIME,
      AT(egress.limits.connect_ms), .value = "TIME", .min = 100, .max = 5 * MINUTE, .fallback = "10s",
      .example = "5s", .test = "integration/egress_server:connect_timeout",
      .help = "How long a connection to all addresses of a name together may take." },
    { .section = "egress", .key = "idle_timeout", .flag = "egress-idle-timeout", .type = KR_SET_TIME,
      AT(egress.limits.idle_ms), .value = "TIME", .min = SECOND, .max = DAY, .fallback = "5m", .example = "30s",
      .test = "integration/egress_server:idle_timeout",
      .help = "A connection without a byte in either direction for so long is closed." },
    { .section = "egress", .key = "max_time", .flag = "egress-max-time", .type = KR_SET_TIME,
      AT(egress.limits.total_ms), .value = "TIME", .min = SECOND, .max = 30 * DAY, .fallback = "1h",
      .example = "10m", .test = "integration/egress_server:max_time", .help = "The longest life of a connection." },
    { .section = "egress", .key = "max_bytes", .flag = "egress-max-bytes", .type = KR_SET_SIZE,
      AT(egress.limits.connection_bytes), .value = "SIZE", .min = KIB, .max = TIB, .fallback = "4G", .example = "512M",
      .test = "integration/egress_server:max_bytes", .help = "Bytes of one connection, both directions together." },
    { .section = "egress", .key = "hour_bytes", .flag = "egress-hour-bytes", .type = KR_SET_SIZE,
      AT(egress.limits.hour_bytes), .value = "SIZE", .min = KIB, .max = 1024 * TIB, .fallback = "16G", .example = "1G",
      .test = "integration/egress_server:hour_bytes", .help = "Bytes of one sandbox in an hour of the clock." },
    { .section = "egress", .key = "ca_file", .flag = "egress-ca-file", .type = KR_SET_PATH, AT(egress.ca_file),
      .value = "FILE", .fallback_text = "the system's", .example = "/etc/krait/ca.pem",
      .test = "integration/egress_index:ca_file",
      .help = "Certificates by which krait itself judges servers: of the package index and of files by address." },
    { .section = "egress", .key = "private_hosts", .flag = "egress-private-hosts", .type = KR_SET_WORDS,
      AT(egress.private_hosts), .value = "NAMES", .fallback_text = "none", .example = "git.corp.example:443",
      .test = "integration/egress_server:private_hosts",
      .help = "Hosts, as NAME or NAME:PORT, that may be at private addresses. A sandbox's rule must name them as "
              "well." },
    { .section = "egress", .key = "fetch_network", .flag = "fetch-network", .type = KR_SET_RULE,
      AT(box.fetch_network), .value = "RULE", .fallback = "none", .example = "open", .reload = true,
      .test = "integration/file_fetches:fetch_network",
      .help = "What clients may have fetched into any sandbox by its address, whatever the sandbox's own network: "
              "none, allow:HOST,… or open." },
    { .section = "egress", .key = "rows", .flag = "egress-rows", .type = KR_SET_COUNT, AT(box.connection_rows),
      .value = "N", .min = 100, .max = 100000000, .fallback = "100000", .example = "10000", .reload = true,
      .test = "integration/connections:rows",
      .help = "Connections that are kept in the store: past it the oldest of the user who has the most go. Those "
              "older than retention go as well." },

    { .section = "mirror", .key = "pypi_index_url", .flag = "pypi-index-url", .env = {{"PIP_INDEX_URL", NULL}},
      .type = KR_SET_INDEX, AT(egress.index_url), .value = "URL|DIR", .fallback = "https://pypi.org/simple/",
      .example = "https://pypi.example.org/simple/", .test = "integration/egress_index:pypi_index_url",
      .help = "The package index: a simple index, or a folder of wheels." },
    { .section = "mirror", .key = "pypi_credentials", .flag = "pypi-credentials", .type = KR_SET_SECRET,
      AT(index_credentials), .value = "USER:PASSWORD", .fallback_text = "those in pypi_index_url, if any",
      .example = "reader:secret", .test = "integration/egress_index:pypi_credentials",
      .help = "For the package index. No sandbox can read it." },
    { .section = "mirror", .key = "pypi_file_hosts", .flag = "pypi-file-hosts", .type = KR_SET_WORDS,
      AT(egress.index_hosts), .value = "NAMES", .fallback = "files.pythonhosted.org",
      .example = "files.example.org:8443", .test = "integration/egress_index:pypi_file_hosts",
      .help = "Hosts besides the index's own from which its files come, as NAME or NAME:PORT." },

    { .section = "data", .key = "dir", .flag = "data", .type = KR_SET_PATH, AT(data), .value = "DIR",
      .fallback_text = "/var/lib/krait as root, else ~/.local/state/krait", .example = "/srv/krait",
      .test = "integration/settings:data",
      .help = "Where users, sandboxes and their files, runs and the audit log are kept." },
    { .section = "data", .key = "retention", .flag = "retention", .type = KR_SET_TIME, AT(box.retention_ms),
      .value = "TIME", .min = SECOND, .max = 3650 * DAY, .zero = "for good", .fallback = "7d", .example = "24h",
      .reload = true, .test = "integration/settings:retention",
      .help = "How long ended runs, their output and the audit log are kept." },
    { .section = "data", .key = "max_size", .flag = "max-data", .type = KR_SET_SIZE, AT(box.max_data),
      .value = "SIZE", .min = 16 * MIB, .max = 1024 * TIB, .zero = "no bound", .fallback = "20G", .example = "100G",
      .reload = true, .test = "integration/settings:max_data",
      .help = "Bytes of the data folder; past them the oldest runs and audit lines go first." },

    { .section = "data", .key = "security_rows", .flag = "security-rows", .type = KR_SET_COUNT, AT(box.security_rows),
      .value = "N", .min = 100, .max = 100000000, .fallback = "100000", .example = "10000", .reload = true,
      .test = "integration/security_events:security_rows",
      .help = "Security events that are kept in the store: past it the oldest of the user who has the most go. Those "
              "older than retention go as well." },

    { .section = "data", .key = "accept_loss", .flag = "accept-loss", .type = KR_SET_BOOL, AT(box.accepts_loss),
      .fallback = "false", .example = "true", .test = "integration/settings:accept_loss",
      .help = "Start although the folders of all sandboxes are gone, or notes of runs are damaged. For one start, "
              "after a disk was lost: sandboxes are empty then, and what cannot be read is set aside." },
    { .section = "data", .key = "shelf", .flag = "shelf", .type = KR_SET_CHOICE, AT(shelf), .value = "KIND",
      .choices = kr_cli_shelves, .fallback = "auto", .example = "folder", .test = "integration/settings:shelf",
      .help = "Where sandboxes' files are kept. image: a filesystem in one file, which enforces disk limits; as root, "
              "with loop devices. folder: a plain folder, whose files krait counts. auto: what is there already, else "
              "quotas of the data folder's own filesystem, else an image where that can be, else a folder." },
    { .section = "data", .key = "shelf_size", .flag = "shelf-size", .type = KR_SET_SIZE, AT(shelf_size),
      .value = "SIZE", .min = 256 * MIB, .max = 16 * TIB, .zero = "64 GiB, or 80 % of what is free if that is less",
      .fallback = "0", .example = "200G", .test = "integration/settings:shelf_size",
      .help = "Size of an image that is made. It takes the room of what is in it; `krait shelf grow` makes it "
              "larger." },
    { .section = "data", .key = "shelf_discard", .flag = "shelf-discard", .type = KR_SET_BOOL, AT(shelf_discard),
      .fallback = "true", .example = "false", .test = "integration/settings:shelf_discard",
      .help = "Whether the room of deleted files of an image returns to the disk that it lies on." },

    { .section = "log", .key = "level", .flag = "log-level", .env = {{"LOG_LEVEL", NULL}}, .type = KR_SET_CHOICE,
      AT(cells.log_level), .value = "LEVEL", .choices = kr_cli_log_levels, .synonyms = level_words,
      .fallback = "info", .example = "debug", .reload = true, .test = "integration/settings:log_level",
      .help = "What is logged: error, warn, info or debug." },
    { .section = "log", .key = "format", .flag = "log-format", .type = KR_SET_CHOICE, AT(log_format),
      .value = "FORMAT", .choices = log_formats, .fallback = "logfmt", .example = "json",
      .test = "integration/settings:log_format", .help = "logfmt (key=value) or json, a line each." },
    { .section = "log", .key = "dir", .flag = "log-dir", .env = {{"LOG_DIR", NULL}}, .type = KR_SET_PATH,
      AT(log_dir), .value = "DIR", .fallback_text = "stderr alone", .example = "/var/log/krait",
      .test = "integration/settings:log_dir", .help = "Write the log to files there as well." },
    { .section = "log", .key = "debug", .flag = "debug", .env = {{"DEBUG", NULL}}, .type = KR_SET_BOOL,
      AT(api.debug), .fallback = "false", .example = "true", .test = "integration/settings:debug",
      .help = "Log level debug, and in the dialect sandbox-mcp the page /docs." },

    { .section = "packages", .key = "blocked", .flag = "blocked-packages", .env = {{"BLOCKED_PACKAGES", NULL}},
      .type = KR_SET_WORDS, AT(blocked_packages), .value = "LIST",
      .fallback = ""
              "os,subprocess,sys,importlib,ctypes,multiprocessing,threading,crypto-locker,pythonapi,"
                  "python-api,system,snake",
      .example = "os,subprocess", .reload = true, .test = "integration/packages:blocked",
      .help = "Packages that are never installed." },
    { .section = "packages", .key = "enabled", .flag = "packages", .type = KR_SET_BOOL, AT(install.enabled),
      .fallback = "true", .example = "false", .reload = true, .test = "integration/packages:enabled",
      .help = "Whether packages may be installed into sandboxes." },
    { .section = "packages", .key = "allow_build", .flag = "packages-allow-build", .type = KR_SET_BOOL,
      AT(install.allow_build), .fallback = "false", .example = "true", .reload = true,
      .test = "integration/packages:allow_build",
      .help = "Whether sandboxes with the setting `allow_build` may have packages built that have no wheel: code of "
              "the package runs then, in a cell of its own that reaches the package index alone." },
    { .section = "packages", .key = "installs_per_minute", .flag = "installs-per-minute", .type = KR_SET_COUNT,
      AT(install.per_minute), .value = "N", .max = 100000, .zero = "no bound", .fallback = "30", .example = "10",
      .reload = true, .test = "integration/packages:installs_per_minute",
      .help = "Installs and removals that a user may ask for in a minute." },
    { .section = "packages", .key = "timeout", .flag = "packages-timeout", .type = KR_SET_TIME, AT(install.timeout_ms),
      .value = "TIME", .min = SECOND, .max = DAY, .fallback = "15m", .example = "5m", .reload = true,
      .test = "integration/packages:timeout",
      .help = "How long one install may take, from its turn on." },
    { .section = "packages", .key = "max_download", .flag = "packages-max-download", .type = KR_SET_SIZE,
      AT(install.download_max), .value = "SIZE", .min = KIB, .max = TIB, .fallback = "4G", .example = "512M",
      .reload = true, .test = "integration/packages:max_download", .help = "Bytes that one install may fetch." },
    { .section = "packages", .key = "max_installed", .flag = "packages-max-installed", .type = KR_SET_SIZE,
      AT(install.installed_max), .value = "SIZE", .min = KIB, .max = TIB, .fallback = "12G", .example = "2G",
      .reload = true, .test = "integration/packages:max_installed",
      .help = "Bytes of all packages of a sandbox, unpacked." },
    { .section = "packages", .key = "max_files", .flag = "packages-max-files", .type = KR_SET_COUNT,
      AT(install.files_max), .value = "N", .min = 1, .max = 100000000, .fallback = "400000", .example = "50000",
      .reload = true, .test = "integration/packages:max_files", .help = "Files of all packages of a sandbox." },
    { .section = "packages", .key = "store_size", .flag = "packages-store-size", .type = KR_SET_SIZE,
      AT(install.store_max), .value = "SIZE", .max = 1024 * TIB, .zero = "no bound", .fallback = "20G",
      .example = "100G", .reload = true, .test = "integration/packages:store_size",
      .help = "Room on the disk for the store of unpacked wheels. Past it, what no sandbox has installed goes, longest "
              "unused first." },
};

/* What the documents call limits. */
static const struct {
    const char *flag;
    struct kr_config_alias env[KR_CONFIG_ALIASES_MAX];
    const char *old_flag;
} limit_names[] = {
    { "memory",      {{"MAX_MEMORY_MB", "M"}, {"SANDBOX_DEFAULT_MEMORY_LIMIT", NULL}}, NULL },
    { "timeout",     {{"SANDBOX_TIMEOUT", NULL}, {"SANDBOX_DEFAULT_TIMEOUT", NULL}},   NULL },
    { "max-timeout", {{"MAX_EXECUTION_TIME", NULL}, {"SANDBOX_MAX_TIMEOUT", NULL}},    "max-execution-time" },
    { "output",      {{"SANDBOX_MAX_OUTPUT_SIZE", NULL}},                              NULL },
};

/* Of each limit: the most that a client may ask for by default, and the tests of the two settings. */
static const struct {
    const char *limit, *ceiling, *test, *ceiling_test;
} limit_settings[] = {
    {"memory",     "4G",      "integration/settings_runs:memory",     "integration/settings_runs:ceilings"},
    {"disk",       "4G",      "integration/settings_runs:disk",       "integration/settings_runs:ceilings"},
    {"inodes",     "1000000", "integration/settings_runs:inodes",     "integration/settings_runs:ceilings"},
    {"file_size",  "4G",      "integration/settings_runs:file_size",  "integration/settings_runs:ceilings"},
    {"output",     "64M",     "integration/settings_runs:output",     "integration/settings_runs:ceilings"},
    {"cpu",        "4",       "integration/settings_runs:cpu",        "integration/settings_runs:ceilings"},
    {"cpu_time",   "0",       "integration/settings_runs:cpu_time",   "integration/settings_runs:ceilings"},
    {"timeout",    "1h",      "integration/settings_runs:timeout",    "integration/settings_runs:ceilings"},
    {"grace",      "1m",      "integration/settings_runs:grace",      "integration/settings_runs:ceilings"},
    {"processes",  "1024",    "integration/settings_runs:processes",  "integration/settings_runs:ceilings"},
    {"open_files", "4096",    "integration/settings_runs:open_files", "integration/settings_runs:ceilings"},
    {"background_cpu", "1h",  "integration/settings_runs:background_cpu", "integration/settings_runs:ceilings"},
};

const struct kr_config_foreign kr_config_foreign_rows[] = {
    { "PYTHONPATH",                    false, true,  "nothing of krait's environment reaches a sandbox" },
    { "SESSION_POOL_REFILL_INTERVAL",  false, false, "a session that is taken from the pool is replaced at once" },
    { "SESSION_POOL_MAX_IDLE_TIME",    false, false, "sessions in the pool do not age" },
    { "SANDBOX_ENABLE_CONTAINER_MODE", true,  false, "krait has no container runtime; its own cells hold every run" },
    { "SANDBOX_CONTAINER_IMAGE",       false, false, "krait's sandboxes are no containers" },
    { "http.max_head",                 false, false, "the head of a request has 16 KiB at most" },
    { "docker.*",                      false, false, "krait's sandboxes are no containers" },
    { "auth.default_user_id",          false, false, "without keys every client is the user root" },
    { "logging.format",                false, false, "[log] format chooses between logfmt and json" },
    { "logging.log_file",              false, false, "[log] dir is where log files go" },
};
/* clang-format on */
const size_t kr_config_foreign_count = sizeof kr_config_foreign_rows / sizeof *kr_config_foreign_rows;

/* Keys of other programs' files that mean a setting of ours. */
static const struct {
    const char *section, *key, *flag;
} foreign_keys[] = {
    {"logging", "level", "log-level"},
    {"auth", "user_sandbox_limit", "max-sandboxes-per-user"},
};

/* ---- the rows of the limits ---- */

#define LIMITS_MAX 16u
#define ROWS (sizeof rows / sizeof *rows)

/* Made once, from rows and kr_limit_rows. */
static struct {
    size_t count;
    struct kr_config_row all[ROWS + 2 * LIMITS_MAX];
    char env_names[ROWS + 2 * LIMITS_MAX][48];
    struct {
        char key[32], flag[32], fallback[24], help[80];
    } texts[2 * LIMITS_MAX];
} made;

static const enum kr_config_type types_by_unit[] = {
    [KR_UNIT_BYTES] = KR_SET_SIZE,
    [KR_UNIT_MILLI] = KR_SET_CORES,
    [KR_UNIT_MS] = KR_SET_TIME,
    [KR_UNIT_COUNT] = KR_SET_COUNT,
};
static const char *const values_by_unit[] = {
    [KR_UNIT_BYTES] = "SIZE", [KR_UNIT_MILLI] = "CORES", [KR_UNIT_MS] = "TIME", [KR_UNIT_COUNT] = "N"};
static_assert(sizeof types_by_unit / sizeof *types_by_unit == KR_UNIT_MAX_, "every unit has its type");

static void make_limit(const struct kr_limit_row *limit, bool is_ceiling, size_t text)
{
    struct kr_config_row *row = &made.all[made.count++];

    *row = (struct kr_config_row){
        .section = "limits",
        .key = made.texts[text].key,
        .flag = made.texts[text].flag,
        .type = types_by_unit[limit->unit],
        .offset =
            (is_ceiling ? offsetof(struct kr_config, profile.ceilings) : offsetof(struct kr_config, profile.limits)) +
            limit->offset,
        .size = sizeof(uint64_t),
        .value = values_by_unit[limit->unit],
        .min = limit->min,
        .max = limit->max,
        .zero = limit->zero_is_none ? "no limit" : NULL,
        .fallback = made.texts[text].fallback,
        .example = limit->example,
        .help = limit->help,
        .reload = true,
    };
    snprintf(made.texts[text].key, sizeof made.texts[text].key, "%s%s", is_ceiling ? "max_" : "", limit->name);
    snprintf(made.texts[text].flag, sizeof made.texts[text].flag, "%s", row->key);
    for (char *p = made.texts[text].flag; *p; p++)
        *p = *p == '_' ? '-' : *p;
    kr_config_plain(row, is_ceiling ? limit->max : limit->value, made.texts[text].fallback,
                    sizeof made.texts[text].fallback);
    for (size_t i = 0; i < sizeof limit_settings / sizeof *limit_settings; i++)
        if (strcmp(limit_settings[i].limit, limit->name) == 0) {
            row->test = is_ceiling ? limit_settings[i].ceiling_test : limit_settings[i].test;
            row->fallback = is_ceiling ? limit_settings[i].ceiling : row->fallback;
        }
    if (is_ceiling) {
        snprintf(made.texts[text].help, sizeof made.texts[text].help, "The most that a client may ask for as %s.",
                 limit->name);
        row->help = made.texts[text].help;
    }
    for (size_t i = 0; i < sizeof limit_names / sizeof *limit_names; i++)
        if (strcmp(limit_names[i].flag, row->flag) == 0) {
            memcpy(row->env, limit_names[i].env, sizeof row->env);
            row->old_flag = limit_names[i].old_flag;
        }
}

static void make_limits(void)
{
    assert(kr_limit_rows_count <= LIMITS_MAX);
    for (size_t i = 0; i < kr_limit_rows_count; i++)
        make_limit(&kr_limit_rows[i], false, i);
    for (size_t i = 0; i < kr_limit_rows_count; i++)
        make_limit(&kr_limit_rows[i], true, LIMITS_MAX + i);
}

static bool same_section(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* "max-memory" -> "KRAIT_MAX_MEMORY". */
static void make_env_name(const char *flag, char *buf, size_t size)
{
    snprintf(buf, size, "KRAIT_%s", flag);
    for (char *p = buf + 6; *p; p++)
        *p = *p == '-' ? '_' : *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
}

static void make_rows(void)
{
    for (size_t s = 0; s < kr_config_sections_count; s++) {
        const char *section = kr_config_sections[s].name;

        for (size_t i = 0; i < ROWS; i++)
            if (same_section(rows[i].section, section))
                made.all[made.count++] = rows[i];
        if (same_section(section, "limits"))
            make_limits();
    }
    for (size_t i = 0; i < made.count; i++)
        make_env_name(made.all[i].flag, made.env_names[i], sizeof made.env_names[i]);
}

const struct kr_config_row *kr_config_rows(size_t *ret_count)
{
    if (made.count == 0)
        make_rows();
    *ret_count = made.count;
    return made.all;
}

/* ---- finding a row ---- */

const struct kr_config_row *kr_config_row(const char *flag)
{
    size_t count;
    const struct kr_config_row *all = kr_config_rows(&count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].flag, flag) == 0 || (all[i].old_flag && strcmp(all[i].old_flag, flag) == 0))
            return &all[i];
    return NULL;
}

const struct kr_config_row *kr_config_by_key(const char *section, const char *key)
{
    size_t count;
    const struct kr_config_row *all = kr_config_rows(&count);

    for (size_t i = 0; i < count; i++)
        if (all[i].section && strcmp(all[i].section, section) == 0 && strcmp(all[i].key, key) == 0)
            return &all[i];
    for (size_t i = 0; i < sizeof foreign_keys / sizeof *foreign_keys; i++)
        if (strcmp(foreign_keys[i].section, section) == 0 && strcmp(foreign_keys[i].key, key) == 0)
            return kr_config_row(foreign_keys[i].flag);
    return NULL;
}

const char *kr_config_env_name(const struct kr_config_row *row)
{
    return made.env_names[row - made.all];
}

const struct kr_config_row *kr_config_by_env(const char *name, const struct kr_config_alias **ret_alias)
{
    size_t count;
    const struct kr_config_row *all = kr_config_rows(&count);

    for (size_t i = 0; i < count; i++) {
        *ret_alias = NULL;
        if (strcmp(kr_config_env_name(&all[i]), name) == 0)
            return &all[i];
        for (size_t a = 0; a < KR_CONFIG_ALIASES_MAX && all[i].env[a].name; a++)
            if (strcmp(all[i].env[a].name, name) == 0) {
                *ret_alias = &all[i].env[a];
                return &all[i];
            }
    }
    return NULL;
}

const struct kr_config_foreign *kr_config_foreign(const char *name)
{
    for (size_t i = 0; i < kr_config_foreign_count; i++) {
        const char *known = kr_config_foreign_rows[i].name;
        size_t len = strlen(known);

        if (strcmp(known, name) == 0 || (known[len - 1] == '*' && strncmp(known, name, len - 1) == 0))
            return &kr_config_foreign_rows[i];
    }
    return NULL;
}

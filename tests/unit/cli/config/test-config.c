/* The configuration: the table itself, every layer and their order, the checks of the whole. */
#include "check.h"
#include "config_rows.h"
#include "fd.h"
#include "options.h"
#include "toml.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGS_MAX 24

static struct kr_config *config;
static struct kr_err err;

/* Loads with these flags ("--port 1 --host ::1") and variables ("PORT=1 HOST=x"), split at blanks. Never reads files
 * of the current folder unless told. */
static int load_with(const char *flags, const char *variables, bool files)
{
    char text[2][1024], *argv[ARGS_MAX] = {"serve"}, *environment[ARGS_MAX] = {0}, *rest;
    int argc = 1, count = 0;
    struct kr_config_how how = {.argv = argv, .environment = environment, .files = files};

    kr_config_free(config);
    config = NULL;
    memset(&err, 0, sizeof err);
    snprintf(text[0], sizeof text[0], "%s", flags);
    snprintf(text[1], sizeof text[1], "%s", variables);
    for (char *word = strtok_r(text[0], " ", &rest); word && argc < ARGS_MAX; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    for (char *word = strtok_r(text[1], " ", &rest); word && count < ARGS_MAX - 1; word = strtok_r(NULL, " ", &rest))
        environment[count++] = word;
    how.argc = argc;
    return kr_config_load(&how, &config, &err);
}

static int load(const char *flags, const char *variables)
{
    return load_with(flags, variables, false);
}

static bool says(const char *part)
{
    if (strstr(err.msg, part))
        return true;
    printf("  it says: %s\n", err.msg);
    return false;
}

static bool notes(const char *part)
{
    for (size_t i = 0; config && i < config->notes.count; i++)
        if (strstr(config->notes.items[i], part))
            return true;
    return false;
}

static bool comes_from(const char *flag, const char *origin)
{
    char buf[320];

    if (strcmp(kr_config_origin(config, flag, buf, sizeof buf), origin) == 0)
        return true;
    printf("  it comes from: %s\n", buf);
    return false;
}

/* ---- the table ---- */

static void names_are_unique(void)
{
    const char *names[512];
    size_t count, n = 0;
    const struct kr_config_row *rows = kr_config_rows(&count);

    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            CHECK(strcmp(rows[i].flag, rows[j].flag) != 0);
            CHECK(rows[i].offset != rows[j].offset);
            CHECK(!rows[i].section || !rows[j].section || strcmp(rows[i].section, rows[j].section) != 0 ||
                  strcmp(rows[i].key, rows[j].key) != 0);
        }
        CHECK(kr_config_row(rows[i].flag) == &rows[i]);
        CHECK(!rows[i].old_flag || kr_config_row(rows[i].old_flag) == &rows[i]);
        CHECK(!rows[i].section || kr_config_by_key(rows[i].section, rows[i].key) == &rows[i]);
        names[n++] = kr_config_env_name(&rows[i]);
        for (size_t a = 0; a < KR_CONFIG_ALIASES_MAX && rows[i].env[a].name; a++)
            names[n++] = rows[i].env[a].name;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(names[i], names[j]) != 0);
        CHECK(!kr_config_foreign(names[i]));
    }
}

/* A flag fits the buffers it is copied to, and its variable is all capitals. */
static void names_are_well_formed(void)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    for (size_t i = 0; i < count; i++) {
        CHECK(strlen(rows[i].flag) < 32);
        CHECK(strspn(rows[i].flag, "abcdefghijklmnopqrstuvwxyz-") == strlen(rows[i].flag));
        CHECK(!rows[i].key || strspn(rows[i].key, "abcdefghijklmnopqrstuvwxyz_") == strlen(rows[i].key));
        CHECK(strspn(kr_config_env_name(&rows[i]), "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == strlen(rows[i].flag) + 6);
    }
}

static void rows_are_complete(void)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    CHECK(count > 60);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(rows[i].help);

        CHECK(len > 10 && rows[i].help[len - 1] == '.');
        CHECK(rows[i].example && rows[i].example[0]);
        CHECK(rows[i].value || rows[i].type == KR_SET_BOOL);
        CHECK(rows[i].type != KR_SET_CHOICE || rows[i].choices);
        CHECK(rows[i].test);
        CHECK(rows[i].type != KR_SET_BOOL || rows[i].fallback);
        CHECK(!kr_config_is_number(&rows[i]) || (rows[i].fallback && rows[i].max > rows[i].min));
    }
}

/* What the row may be fits the member that it is written to. */
static void values_fit(void)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    for (size_t i = 0; i < count; i++) {
        size_t size = rows[i].type == KR_SET_BOOL        ? sizeof(bool)
                      : rows[i].type == KR_SET_CHOICE    ? sizeof(int)
                      : rows[i].type == KR_SET_MOUNTS    ? sizeof(struct kr_config_mounts)
                      : rows[i].type == KR_SET_RULE      ? sizeof(struct kr_net_rule)
                      : kr_config_is_list(&rows[i])      ? sizeof(struct kr_words)
                      : !kr_config_is_number(&rows[i])   ? sizeof(char *)
                      : rows[i].size == sizeof(uint32_t) ? sizeof(uint32_t)
                                                         : sizeof(uint64_t);

        CHECK(rows[i].size == size);
        CHECK(!kr_config_is_number(&rows[i]) || size == sizeof(uint64_t) || rows[i].max <= UINT32_MAX);
    }
}

/* Every example by itself is a value; every default was stored by the plain load below. */
static void examples_parse(void)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    for (size_t i = 0; i < count; i++) {
        struct kr_config_origin origin = {.source = KR_FROM_FLAG, .name = rows[i].flag, .folder = "/"};

        CHECK(load("", "HOME=/home/me") == 0);
        kr_config_origin_of(config, &rows[i])->source = KR_FROM_NONE;
        kr_config_clear(config, &rows[i]);
        CHECK(kr_config_set(config, &rows[i], rows[i].example, &origin, &err) == 0);
    }
}

static void dialects_parse(void)
{
    CHECK(load("--dialect", "") == -EINVAL && says("needs a value"));
    for (int d = 0; d < KR_DIALECT_MAX_; d++) {
        char flags[64];

        CHECK((d == KR_DIALECT_KRAIT) == !kr_dialects[d].document);
        CHECK((d == KR_DIALECT_KRAIT) == !kr_dialect_default((enum kr_dialect)d, "port"));
        for (const struct kr_dialect_default *one = kr_dialects[d].defaults; one->flag; one++) {
            CHECK(kr_config_row(one->flag));
            CHECK(kr_dialect_default((enum kr_dialect)d, one->flag) == one->value); /* and none is there twice */
        }
        snprintf(flags, sizeof flags, "--dialect %s", kr_dialect_names[d]);
        CHECK(load(flags, "") == 0);
        CHECK(config->dialect == d && kr_dialect_find(kr_dialect_names[d]) == d);
    }
}

static void numbers_are_written_as_they_are_read(void)
{
    static const uint64_t values[] = {0,    1,     10,       999,      1000,    1024,    1500,
                                      4096, 60000, 86400000, 90000000, 1 << 20, 3u << 30};
    static const char *const flags[] = {"max-connections", "max-data", "retention", "cpu"};

    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            struct kr_config_row any = *kr_config_row(flags[f]);
            char buf[48];
            uint64_t value;

            any.min = 0;
            any.max = UINT64_MAX;
            CHECK(kr_config_number(&any, kr_config_plain(&any, values[i], buf, sizeof buf), &value) == 0);
            CHECK(value == values[i]);
        }
}

/* ---- layers ---- */

static void defaults(void)
{
    CHECK(load("", "") == 0);
    CHECK(strcmp(config->host, "127.0.0.1") == 0 && config->port == 8642 && config->dialect == KR_DIALECT_KRAIT);
    CHECK(config->profile.limits.timeout_ms == 45000 && config->profile.ceilings.timeout_ms == 3600000);
    CHECK(config->profile.limits.memory == 1u << 30 && config->profile.idle_timeout_ms == 4 * 3600000u);
    CHECK(config->box.max_sessions == 0 && config->box.queue_max == 16 && config->box.linger_ms == 60000);
    CHECK(config->api.link_ttl_ms == 24 * 3600000u && config->box.retention_ms == 7 * 24 * 3600000u &&
          config->cells.level == -1);
    CHECK(config->preload.count == 2 && strcmp(config->preload.items[1], "data") == 0);
    CHECK(!config->auth_on && !config->auth.api_key && !config->log_dir && config->cells.log_level == 2 &&
          config->notes.count == 0);
    CHECK(config->listener_count == 1 && config->listeners[0].port == 8642 && config->listeners[0].is_loopback);
    CHECK(comes_from("port", "default") && comes_from("user", "default") && !kr_config_given(config, "port"));
}

static void flags_beat_the_environment(void)
{
    CHECK(load("--port 1", "KRAIT_PORT=2 PORT=3") == 0 && config->port == 1);
    CHECK(comes_from("port", "--port (command line)") && kr_config_given(config, "port"));
    CHECK(load("", "PORT=3 KRAIT_PORT=2") == 0 && config->port == 2 && comes_from("port", "KRAIT_PORT (environment)"));
    CHECK(load("", "APP_PORT=4 PORT=3") == 0 && config->port == 3 && comes_from("port", "PORT (environment)"));
    CHECK(load("", "APP_PORT=4 PORT= KRAIT_PORT=") == 0 && config->port == 4);
    CHECK(load("--port=5 --port 6", "") == 0 && config->port == 6);
}

/* A value that does not count is looked at all the same; a document's name that is hidden by ours is not. */
static void hidden_values(void)
{
    CHECK(load("--port 1", "KRAIT_PORT=x") == -EINVAL && says("KRAIT_PORT (environment): \"x\" is not a whole number"));
    CHECK(load("", "KRAIT_DEBUG=0 DEBUG=express:*") == 0 && !config->api.debug);
    CHECK(load("", "DEBUG=express:*") == -EINVAL && says("DEBUG (environment)"));
}

static void flags(void)
{
    CHECK(load("--help", "") == KR_OPT_HELP && load("-h", "") == KR_OPT_HELP);
    CHECK(load("--prot 1", "") == -EINVAL && says("\"prot\": no such option; did you mean --port?"));
    CHECK(load("--frobnicate 1", "") == -EINVAL && says("krait serve --help"));
    CHECK(load("--port", "") == -EINVAL && says("--port: needs a value; for example 8080"));
    CHECK(load("serve", "") == -EINVAL && says("\"serve\" is not an option"));
    CHECK(load("-p 1", "") == -EINVAL);
    CHECK(load("--", "") == -EINVAL);
    CHECK(load("--allow-anonymous --host 0.0.0.0", "") == 0 && config->allow_anonymous);
    CHECK(load("--allow-anonymous=false", "KRAIT_ALLOW_ANONYMOUS=1") == 0 && !config->allow_anonymous);
    CHECK(load("--max-kernels 7", "") == 0 && config->box.max_sessions == 7);
    CHECK(comes_from("max-sessions", "--max-kernels (command line)"));
    CHECK(load("--max-memory 2G --memory 1.5G", "") == 0 && config->profile.limits.memory == 3u << 29);
}

static void numbers_and_ranges(void)
{
    CHECK(load("--port 65536", "") == -EINVAL &&
          says("--port: \"65536\" is not a whole number, 0 (any free port) or 1 to 65535"));
    CHECK(load("--port 1.5", "") == -EINVAL);
    CHECK(load("--port -1", "") == -EINVAL);
    CHECK(load("--max-body 1K", "") == -EINVAL && says("\"1K\" is not a size, 64 KiB to 1 GiB; for example 64M"));
    CHECK(load("--max-head 32K", "") == -EINVAL);
    CHECK(load("--idle-timeout 0", "") == 0 && config->profile.idle_timeout_ms == 0);
    CHECK(load("--idle-timeout 500ms", "") == -EINVAL && says("0 (never) or 1 s to 365 days"));
    CHECK(load("--retention 2d", "") == 0 && config->box.retention_ms == 2 * 86400000u);
    CHECK(load("--cpu 0.5", "") == 0 && config->profile.limits.cpu_milli == 500);
    CHECK(load("", "KRAIT_PORT=tcp://10.0.0.1:8642") == -EINVAL && says("Kubernetes"));
}

static void documents_names(void)
{
    CHECK(load("", "MAX_KERNELS=2 KERNEL_TIMEOUT=2 KERNEL_CLEANUP_INTERVAL=1 MAX_EXECUTION_TIME=1 MAX_MEMORY_MB=128 "
                   "SESSION_POOL_SIZE=5 LOG_LEVEL=WARNING LOG_DIR=/logs") == 0);
    CHECK(config->box.max_sessions == 2 && config->profile.idle_timeout_ms == 2000 &&
          config->box.cleanup_interval_ms == 1000);
    CHECK(config->profile.ceilings.timeout_ms == 1000 && config->profile.limits.timeout_ms == 1000);
    CHECK(config->profile.limits.memory == 128u << 20 && config->engine.pool_size == 5 && config->cells.log_level == 1);
    CHECK(strcmp(config->log_dir, "/logs") == 0);
    CHECK(load("", "SANDBOX_TIMEOUT=20 SANDBOX_MAX_OUTPUT_SIZE=2048 SANDBOX_DEFAULT_MEMORY_LIMIT=256m "
                   "SANDBOX_API_TOKEN=t SANDBOX_MAX_TIMEOUT=200 LOG_LEVEL=DEBUG") == 0);
    CHECK(config->profile.limits.timeout_ms == 20000 && config->profile.limits.output == 2048);
    CHECK(config->profile.limits.memory == 256u << 20 && config->profile.ceilings.timeout_ms == 200000);
    CHECK(strcmp(config->auth.api_key, "t") == 0 && config->auth_on && config->cells.log_level == 3);
    CHECK(load("", "BLOCKED_PACKAGES=foo,bar") == 0 && config->blocked_packages.count == 2);
    CHECK(load("", "MAX_MEMORY_MB=1G") == 0 && config->profile.limits.memory == 1u << 30);
    CHECK(load("", "MAX_MEMORY_MB=x") == -EINVAL && says("MAX_MEMORY_MB (environment): \"x\" is not a size"));
}

static void debug_is_a_log_level(void)
{
    CHECK(load("", "DEBUG=true") == 0 && config->api.debug && config->cells.log_level == 3);
    CHECK(comes_from("log-level", "DEBUG (environment)"));
    CHECK(load("--debug", "LOG_LEVEL=error") == 0 && config->api.debug && config->cells.log_level == 0);
    CHECK(load("", "DEBUG=false") == 0 && !config->api.debug && config->cells.log_level == 2);
}

static void names_without_a_setting(void)
{
    CHECK(load("", "PYTHONPATH=/app") == 0 && config->notes.count == 0);
    CHECK(load("", "ENABLE_NETWORK_ACCESS=false SANDBOX_ENABLE_CONTAINER_MODE=") == 0 && config->notes.count == 0);
    CHECK(load("", "SESSION_POOL_MAX_IDLE_TIME=9") == 0 && notes("ignoring SESSION_POOL_MAX_IDLE_TIME"));
    CHECK(load("", "SANDBOX_ENABLE_CONTAINER_MODE=true") == -EINVAL && says("container runtime"));
    CHECK(load("", "KRAIT_PROT=1") == -EINVAL && says("did you mean 'KRAIT_PORT'?"));
    CHECK(load("", "KRAIT_API_KEE=secret") == -EINVAL && says("KRAIT_API_KEY") && !strstr(err.msg, "secret"));
    CHECK(load("", "KRAIT_SERVICE_HOST=10.0.0.1") == 0 && notes("ignoring KRAIT_SERVICE_HOST"));
    CHECK(load("", "SOMETHING=else PATH=/bin") == 0 && config->notes.count == 0);
}

/* ---- types ---- */

static void lists(void)
{
    CHECK(load("--allowed-hosts a.org,b.org --allowed-hosts c.org", "ALLOWED_HOSTS=d.org") == 0);
    CHECK(config->guard.allowed_hosts.count == 3 && strcmp(config->guard.allowed_hosts.items[2], "c.org") == 0);
    CHECK(load("", "ALLOWED_HOSTS=*") == 0 && strcmp(config->guard.allowed_hosts.items[0], "*") == 0);
    CHECK(load("", "ALLOWED_HOSTS=[\"a.org\",\"b.org\"]") == 0 && config->guard.allowed_hosts.count == 2);
    CHECK(load("", "ALLOWED_HOSTS=[\"a.org\",1]") == -EINVAL && says("ALLOWED_HOSTS"));
    CHECK(load("", "ALLOWED_HOSTS=[\"a.org\"") == -EINVAL);
    CHECK(load("", "ALLOWED_HOSTS=[]") == 0 && config->guard.allowed_hosts.count == 0);
    CHECK(load("--allowed-hosts a,,b", "") == -EINVAL);
    CHECK(load("--allowed-hosts a,a,a", "") == 0 && config->guard.allowed_hosts.count == 1);
    CHECK(load("--preload data", "") == 0 && config->preload.count == 1);
    CHECK(load("--preload everything", "") == -EINVAL && says("is not one of basic, data"));
}

static void too_long_a_list(void)
{
    char flags[512] = "--allowed-hosts ";

    for (int i = 0; i < 65; i++)
        snprintf(flags + strlen(flags), sizeof flags - strlen(flags), "%sh%d", i ? "," : "", i);
    CHECK(load(flags, "") == -EINVAL && says("it may have 64 entries"));
}

static void a_network_has_a_ceiling(void)
{
    CHECK(load("", "") == 0 && config->box.network.kind == KR_NET_NONE && config->box.max_network.kind == KR_NET_INDEX);
    CHECK(load("--max-network none", "") == 0 && config->box.max_network.kind == KR_NET_NONE);
    CHECK(load("--network loopback", "") == 0 && config->box.network.kind == KR_NET_LOOPBACK);
    CHECK(load("--network loopback --max-network none", "") == -EINVAL && says("--network") && says("--max-network"));
    CHECK(load("--max-network allow:a.example", "") == 0 && strcmp(config->box.max_network.hosts, "a.example") == 0);
    CHECK(load("--network allow:b.example --max-network allow:a.example", "") == -EINVAL && says("past its ceiling"));
    CHECK(load("--network open", "") == 0 && config->box.max_network.kind == KR_NET_OPEN);
    CHECK(load("--max-network everything", "") == -EINVAL && says("is not a network rule"));
    CHECK(load("", "SANDBOX_ENABLE_NETWORK=true") == 0 && config->box.network.kind == KR_NET_OPEN);
    CHECK(load("", "ENABLE_NETWORK_ACCESS=false") == 0 && config->box.network.kind == KR_NET_NONE);
}

/* What an index needs to know is not what is shown of it. */
static void credentials_leave_the_address_of_the_index(void)
{
    CHECK(load("", "") == 0 && strcmp(config->egress.index_url, "https://pypi.org/simple/") == 0);
    CHECK(!config->index_credentials && strcmp(config->egress.index_hosts.items[0], "files.pythonhosted.org") == 0);
    CHECK(load("", "PIP_INDEX_URL=https://me:pass@pypi.example/simple") == 0);
    CHECK(strcmp(config->egress.index_url, "https://pypi.example/simple") == 0);
    CHECK(strcmp(config->index_credentials, "me:pass") == 0);
    CHECK(load("--pypi-credentials you:word", "PIP_INDEX_URL=https://me:pass@pypi.example/simple") == 0);
    CHECK(strcmp(config->index_credentials, "you:word") == 0);
    CHECK(load("--pypi-index-url /srv/wheels", "") == 0 && strcmp(config->egress.index_url, "file:///srv/wheels") == 0);
    CHECK(load("", "PIP_INDEX_URL=https://me:pass@/") == -EINVAL && says("PIP_INDEX_URL"));
    CHECK(!strstr(err.msg, "pass"));
}

static void templates_that_are_preloaded(void)
{
    CHECK(load("", "") == 0 && config->preload_count == 0 && config->template_zygote_memory == 1u << 30);
    CHECK(load("--template-preload science", "") == 0 && !config->preloads[0].modules[0]);
    CHECK(load("--template-preload a:torch+b.c --template-max-zygotes 2", "") == 0);
    CHECK(strcmp(config->preloads[0].template, "a") == 0 && strcmp(config->preloads[0].modules, "torch,b.c") == 0);
    CHECK(load("--template-preload a,b", "") == -EINVAL && says("max_zygotes") && says("name fewer"));
    CHECK(load("--template-preload a:", "") == -EINVAL && load("--template-preload :a", "") == -EINVAL);
    CHECK(load("--template-preload a:b;c", "") == -EINVAL && load("--template-preload a:../b/c", "") == -EINVAL);
}

static void paths_and_mounts(void)
{
    char here[256], expected[300];

    CHECK(getcwd(here, sizeof here));
    CHECK(load("--data sub/data --upload-roots /a,b", "") == 0);
    snprintf(expected, sizeof expected, "%s/sub/data", here);
    CHECK(strcmp(config->data, expected) == 0 && strcmp(config->mcp.upload_roots.items[0], "/a") == 0);
    snprintf(expected, sizeof expected, "%s/b", here);
    CHECK(strcmp(config->mcp.upload_roots.items[1], expected) == 0);
    CHECK(load("--mounts census=/srv/census,iris=/srv/iris", "") == 0 && config->mounts.count == 2);
    CHECK(strcmp(config->mounts.items[1].name, "iris") == 0 && strcmp(config->mounts.items[1].path, "/srv/iris") == 0);
    CHECK(load("--mounts a=/x,a=/y", "") == -EINVAL && says("the same"));
    CHECK(load("--mounts /x", "") == -EINVAL && says("is not a list of NAME=DIR"));
    CHECK(load("--mounts ../x=/x", "") == -EINVAL);
    CHECK(load("--mounts x=", "") == -EINVAL);
}

static void words(void)
{
    CHECK(load("--host localhost", "") == 0 && strcmp(config->host, "127.0.0.1") == 0);
    CHECK(load("--host ::1", "") == 0 && config->listeners[0].is_loopback);
    CHECK(load("--host mylaptop", "") == -EINVAL && says("is not an IP address or localhost"));
    CHECK(load("--public-url https://k.example.org/x", "") == 0);
    CHECK(load("--public-url ftp://k", "") == -EINVAL && load("--public-url https://", "") == -EINVAL);
    CHECK(load("--public-url https://k?a=1", "") == -EINVAL && load("--public-url https://u@k", "") == -EINVAL);
    CHECK(load("--user krait", "") == 0 && load("--user -x", "") == -EINVAL && load("--user a/b", "") == -EINVAL);
    CHECK(load("--log-format JSON", "") == 0 && config->log_format == KR_LOG_FORMAT_JSON);
    CHECK(load("--level user", "") == 0 && config->cells.level == 1);
    CHECK(load("--debug=maybe", "") == -EINVAL && says("--debug: \"maybe\" is not true or false"));
}

static void secrets_are_in_no_text(void)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    CHECK(out && load("", "API_KEY=hunter2hunter2hunter2") == 0 && config->auth_on);
    kr_config_show(config, out);
    fclose(out);
    CHECK(strstr(text, "api_key = \"…\"  # API_KEY (environment)") && !strstr(text, "hunter2"));
    free(text);
    CHECK(load("--api-key hunter2\x7f", "") == -EINVAL && says("--api-key: it is not a key") &&
          !strstr(err.msg, "hunter2"));
}

/* ---- the whole ---- */

static void data_folder(void)
{
    bool root = geteuid() == 0;

    CHECK(load("", "HOME=/home/me") == 0 &&
          strcmp(config->data, root ? "/var/lib/krait" : "/home/me/.local/state/krait") == 0);
    CHECK(load("", "HOME=/home/me XDG_STATE_HOME=/state") == 0 &&
          strcmp(config->data, root ? "/var/lib/krait" : "/state/krait") == 0);
    CHECK(load("", "HOME=/home/me XDG_STATE_HOME=state") == 0 &&
          strcmp(config->data, root ? "/var/lib/krait" : "/home/me/.local/state/krait") == 0);
    CHECK(load("", "KRAIT_DATA=/x HOME=/home/me") == 0 && strcmp(config->data, "/x") == 0);
}

static void limits_and_ceilings(void)
{
    CHECK(load("--memory 8G", "") == 0 && config->profile.ceilings.memory == UINT64_C(8) << 30);
    CHECK(load("--max-memory 512M", "") == 0 && config->profile.limits.memory == 512u << 20);
    CHECK(load("--max-memory 512M --memory 1G", "") == -EINVAL);
    CHECK(says("--memory (command line): 1 GiB is past its ceiling, 512 MiB by --max-memory (command line)"));
    CHECK(load("--timeout 0", "") == 0 && config->profile.ceilings.timeout_ms == 0);
    CHECK(load("--timeout 0 --max-timeout 10s", "") == -EINVAL && says("no limit is past its ceiling, 10 s"));
    CHECK(load("--max-timeout 0", "") == 0 && config->profile.limits.timeout_ms == 45000);
    for (int d = 0; d < KR_DIALECT_MAX_; d++)
        CHECK(kr_limits_check(&config->profiles[d].limits, &err) == 0);
}

static void limits_of_dialects(void)
{
    CHECK(load("--listen 1,2=sandbox-service", "") == 0);
    CHECK(config->profile.limits.timeout_ms == 45000);
    CHECK(config->profiles[KR_DIALECT_SANDBOX_SERVICE].limits.timeout_ms == 30000);
    CHECK(config->profiles[KR_DIALECT_SANDBOX_SERVICE].ceilings.timeout_ms == 120000);
    CHECK(config->profiles[KR_DIALECT_PYTHON_EXECUTOR].limits.memory == 2u << 30);
    CHECK(load("--memory 64M --max-timeout 5s", "") == 0);
    CHECK(config->profiles[KR_DIALECT_PYTHON_EXECUTOR].limits.memory == 64u << 20);
    CHECK(config->profiles[KR_DIALECT_PYTHON_EXECUTOR].limits.timeout_ms == 5000);
    CHECK(load("--dialect sandbox-mcp", "MAX_EXECUTION_TIME=120") == 0);
    CHECK(config->profile.limits.timeout_ms == 120000 && config->profile.ceilings.timeout_ms == 120000);
    CHECK(load("--dialect sandbox-service", "MAX_EXECUTION_TIME=90") == 0 &&
          config->profile.limits.timeout_ms == 30000);
    CHECK(load("--dialect mcp-sandbox", "") == 0 && config->profile.limits.timeout_ms == 3600000);
    CHECK(config->profile.max_sandboxes_per_user == 3 &&
          comes_from("max-sandboxes-per-user", "default of dialect mcp-sandbox"));
}

/* What a dialect brings comes with its listener, unless it is the server's as a whole. */
static void profiles_of_dialects(void)
{
    static const char *const whole[] = {"host", "port", "pool-size", "cleanup-interval"};
    const struct kr_profile *p;

    for (int d = 0; d < KR_DIALECT_MAX_; d++)
        for (const struct kr_dialect_default *one = kr_dialects[d].defaults; one->flag; one++) {
            size_t i = 0;

            while (i < sizeof whole / sizeof *whole && strcmp(whole[i], one->flag) != 0)
                i++;
            CHECK(kr_config_is_of_profile(kr_config_row(one->flag)) == (i == sizeof whole / sizeof *whole));
        }
    CHECK(load("--listen 1,2=sandbox-mcp,3=mcp-sandbox", "") == 0);
    p = &config->profiles[KR_DIALECT_SANDBOX_MCP];
    CHECK(p->dialect == KR_DIALECT_SANDBOX_MCP && strcmp(p->sandbox, "default@sandbox-mcp") == 0);
    CHECK(p->max_sessions == 10 && p->idle_timeout_ms == 300000 && p->ceilings.timeout_ms == 30000);
    CHECK(!p->allow_registration && p->max_sandboxes_per_user == 100);
    p = &config->profiles[KR_DIALECT_MCP_SANDBOX];
    CHECK(p->max_sandboxes_per_user == 3 && p->allow_registration && p->login_ttl_ms == 300 * 60000u);
    p = &config->profiles[KR_DIALECT_KRAIT];
    CHECK(strcmp(p->sandbox, "default") == 0 && p->max_sessions == 0 && p->idle_timeout_ms == 4 * 3600000u);
    CHECK(config->box.max_sessions == 0 && config->box.user_groups); /* clients of the third may register */
    CHECK(load("--listen 1,2=sandbox-mcp --max-sessions 7 --idle-timeout 9s", "") == 0);
    CHECK(!config->box.user_groups);
    p = &config->profiles[KR_DIALECT_SANDBOX_MCP];
    CHECK(p->max_sessions == 0 && config->box.max_sessions == 7 && p->idle_timeout_ms == 9000);
}

static bool listens(size_t i, const char *address, unsigned port, enum kr_dialect dialect)
{
    const struct kr_config_listener *l = &config->listeners[i];

    if (i < config->listener_count && strcmp(l->address, address) == 0 && l->port == port && l->dialect == dialect)
        return true;
    printf("  it listens on %s:%u %s\n", l->address, l->port, kr_dialect_names[l->dialect]);
    return false;
}

static void listeners(void)
{
    CHECK(
        load("--listen 127.0.0.1:8642,[::1]:8642=sandbox-mcp,localhost:1=mcp-sandbox,2=python-sandbox,python-executor",
             "") == 0);
    CHECK(config->listener_count == 5 && listens(0, "127.0.0.1", 8642, KR_DIALECT_KRAIT));
    CHECK(listens(1, "::1", 8642, KR_DIALECT_SANDBOX_MCP) && listens(2, "127.0.0.1", 1, KR_DIALECT_MCP_SANDBOX));
    CHECK(listens(3, "127.0.0.1", 2, KR_DIALECT_PYTHON_SANDBOX) &&
          listens(4, "127.0.0.1", 8000, KR_DIALECT_PYTHON_EXECUTOR));
    CHECK(load("--listen 80 --dialect sandbox-service --host 10.0.0.1 --api-key 0123456789abcdef", "") == 0);
    CHECK(listens(0, "10.0.0.1", 80, KR_DIALECT_SANDBOX_SERVICE) && config->notes.count == 0);
    CHECK(load("--listen krait,sandbox-mcp,python-sandbox,sandbox-service,python-executor,mcp-sandbox", "") == 0);
    CHECK(config->listener_count == 6 && listens(0, "127.0.0.1", 8642, KR_DIALECT_KRAIT) &&
          listens(5, "127.0.0.1", 8181, KR_DIALECT_MCP_SANDBOX));
    CHECK(load("--listen 127.0.0.1:0,127.0.0.1:0=mcp-sandbox", "") == 0 && config->listener_count == 2);
    CHECK(load("--listen 127.0.0.1:1,127.0.0.1:1=mcp-sandbox", "") == -EINVAL && says("127.0.0.1:1 is there twice"));
}

static void wrong_listeners(void)
{
    static const char *const wrong[] = {"::1:80",  "127.0.0.1:",    ":80",   "127.0.0.1",    "80=nonsense",
                                        "host:80", "80x",           "70000", "[::1]",        "[::1:80",
                                        "=krait",  "127.0.0.1:80=", "-1",    "127.0.0.1:+1", "127.0.0.1:1:2"};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char flags[64];

        snprintf(flags, sizeof flags, "--listen %s", wrong[i]);
        CHECK(load(flags, "") == -EINVAL && says("is not [ADDRESS:]PORT[=DIALECT]"));
    }
}

static void open_addresses_need_a_key(void)
{
    CHECK(load("--host 0.0.0.0", "") == -EINVAL && says("--host (command line): others can reach 0.0.0.0"));
    CHECK(says("--api-key, --require-auth or --allow-anonymous"));
    CHECK(load("", "HOST=::") == -EINVAL && says("HOST (environment)"));
    CHECK(load("--listen 0.0.0.0:80", "") == -EINVAL && says("--listen (command line)"));
    CHECK(load("--host 0.0.0.0 --require-auth", "") == 0 && config->auth_on && !config->listeners[0].is_loopback);
    CHECK(load("--host 0.0.0.0 --api-key 0123456789abcdef", "") == 0 && config->notes.count == 0);
    CHECK(load("--host 0.0.0.0 --api-key short", "") == 0 && notes("the key is short"));
    CHECK(load("--host 0.0.0.0 --allow-anonymous", "") == 0 && !config->auth_on && notes("can run code"));
    CHECK(load("--dialect sandbox-mcp", "") == 0 && listens(0, "127.0.0.1", 16010, KR_DIALECT_SANDBOX_MCP));
    CHECK(config->listeners[0].is_loopback && notes("dialect sandbox-mcp listens on 0.0.0.0 by default"));
    CHECK(load("--dialect sandbox-mcp", "API_KEY=k") == 0 && listens(0, "0.0.0.0", 16010, KR_DIALECT_SANDBOX_MCP));
    CHECK(load("--listen sandbox-mcp", "") == 0 && listens(0, "127.0.0.1", 16010, KR_DIALECT_SANDBOX_MCP));
}

static void loopback(void)
{
    static const char *const yes[] = {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"};
    static const char *const no[] = {"0.0.0.0", "128.0.0.1", "::", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "x"};

    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        CHECK(kr_config_is_loopback(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        CHECK(!kr_config_is_loopback(no[i]));
}

/* ---- files ---- */

static char folder[64], was[256];

static void put(const char *name, const char *text, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, mode);

    if (fd < 0 || fchmod(fd, mode) < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        printf("FAIL put: %s\n", strerror(errno));
    kr_fd_close(fd);
}

static bool enter(void)
{
    snprintf(folder, sizeof folder, "/tmp/krait-config-XXXXXX");
    return getcwd(was, sizeof was) && mkdtemp(folder) && chdir(folder) == 0;
}

static void leave(void)
{
    static const char *const names[] = {".env", "krait.toml", "config.toml", "other.toml", "key", "sub/x.toml"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
    rmdir("sub");
    if (chdir(was) < 0 || rmdir(folder) < 0)
        printf("FAIL leave: %s\n", strerror(errno));
}

static void layers_of_files(void)
{
    CHECK(enter());
    put("krait.toml", "[server]\nport = 4\n[log]\nlevel = \"error\"\n", 0600);
    put(".env", "# mine\nPORT=3\n", 0644);
    CHECK(load_with("--port 1", "PORT=2", true) == 0 && config->port == 1 && config->cells.log_level == 0);
    CHECK(load_with("", "PORT=2", true) == 0 && config->port == 2);
    CHECK(load_with("", "", true) == 0 && config->port == 3 && comes_from("port", "PORT (.env:2)"));
    CHECK(comes_from("log-level", "log.level (krait.toml:4)"));
    unlink(".env");
    CHECK(load_with("", "", true) == 0 && config->port == 4 && comes_from("port", "server.port (krait.toml:2)"));
    CHECK(load_with("", "", false) == 0 && config->port == 8642);
    CHECK(load_with("--no-files", "", true) == 0 && config->port == 8642);
    leave();
}

static void wrong_files(void)
{
    static const struct {
        const char *name, *text, *says;
    } rows[] = {
        {"krait.toml", "[server]\nprot = 1\n", "krait.toml:2: unknown key 'prot', did you mean 'port'?"},
        {"krait.toml", "[sever]\nport = 1\n", "krait.toml:2: unknown section 'sever', did you mean 'server'?"},
        {"krait.toml", "[server]\nmemory = \"1G\"\n", "krait.toml:2: 'memory' belongs to [limits]"},
        {"krait.toml", "port = 1\n", "krait.toml:1: 'port' belongs to [server]"},
        {"krait.toml", "frob = 1\n", "krait.toml:1: unknown key 'frob'"},
        {"krait.toml", "[server]\nport = 1\nport = 2\n", "krait.toml:3: key 'port' is there already, in line 2"},
        {"krait.toml", "[server]\n[server]\n", "krait.toml:2: section 'server' is there already, in line 1"},
        {"krait.toml", "[server]\nport = \"1\"\n", "krait.toml:2: server.port is a whole number, and not a string"},
        {"krait.toml", "[server]\nport = 99999\n", "krait.toml:2: server.port: \"99999\" is not a whole number"},
        {"krait.toml", "[server]\nport = -1\n", "krait.toml:2: server.port: \"-1\" is not a whole number"},
        {"krait.toml", "[http]\nallowed_hosts = \"x\"\n",
         "http.allowed_hosts is an array of strings, and not a string"},
        {"krait.toml", "[limits]\ncpu = 0.5\n",
         "krait.toml:2: is not a whole number; sizes, times and fractions are strings"},
        {"krait.toml", "[auth]\napi_key = \"\"\n", "krait.toml:2: auth.api_key: it is not a key"},
        {"krait.toml", "[auth]\nrequire_auth = 1\n", "auth.require_auth is true or false, and not a whole number"},
        {".env", "PORT=1\nPROT=2\n", ".env:2: unknown name 'PROT', did you mean 'PORT'?"},
        {".env", "DATABASE_URL=x\n", ".env:1: unknown name 'DATABASE_URL'"},
        {".env", "PORT=x\n", ".env:1: PORT: \"x\" is not a whole number"},
        {".env", "PORT=1\nPORT=2\n", ".env:2: 'PORT' is there already, in line 1"},
        {".env", "SANDBOX_ENABLE_CONTAINER_MODE=true\n",
         ".env:1: SANDBOX_ENABLE_CONTAINER_MODE: krait has no container"},
        {".env", "SANDBOX_ALLOWED_IMPORTS=a/b\n", "SANDBOX_ALLOWED_IMPORTS (.env:1): allowed_imports: \"a/b\" is not"},
        {".env", "API_KEY=a b\n", ".env:1: API_KEY: it is not a key"},
    };

    CHECK(enter());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(rows[i].name, rows[i].text, 0600);
        CHECK(load_with("", "", true) == -EINVAL && says(rows[i].says));
        unlink(rows[i].name);
    }
    leave();
}

static void files_of_the_documents(void)
{
    CHECK(enter());
    put(".env",
        "HOST=127.0.0.1\nPORT=16010\nDEBUG=false\nAPI_KEY=\nMAX_KERNELS=10\nALLOWED_HOSTS=*\nLOG_LEVEL=INFO\n"
        "SESSION_POOL_REFILL_INTERVAL=30\nENABLE_NETWORK_ACCESS=false\nPYTHONPATH=/app\n",
        0600);
    CHECK(load_with("", "", true) == 0 && config->port == 16010 && !config->auth.api_key &&
          config->box.max_sessions == 10);
    CHECK(notes(".env: ignoring SESSION_POOL_REFILL_INTERVAL") && config->notes.count == 1);
    unlink(".env");
    put("config.toml",
        "[server]\nhost = \"0.0.0.0\"\nport = 8000\n[auth]\nrequire_auth = true\ndefault_user_id = \"root\"\n"
        "user_sandbox_limit = 5\n[docker]\ndefault_image = \"x\"\ncheck_dockerfile_changes = true\n"
        "[logging]\nlevel = \"INFO\"\nformat = \"%(x)s\"\nlog_file = \"x.log\"\n[mirror]\npypi_index_url = "
        "\"https://x\"\n",
        0600);
    CHECK(load_with("", "", true) == 0 && config->port == 8642);
    CHECK(load_with("--dialect mcp-sandbox", "", true) == 0 && config->port == 8000 && config->require_auth);
    CHECK(config->profile.max_sandboxes_per_user == 5 && listens(0, "0.0.0.0", 8000, KR_DIALECT_MCP_SANDBOX));
    CHECK(notes("ignoring docker.*") && strcmp(config->egress.index_url, "https://x") == 0);
    leave();
}

static void files_that_do_not_count(void)
{
    CHECK(enter());
    put("krait.toml", "[server]\nport = 4\n", 0620);
    CHECK(load_with("", "", true) == 0 && config->port == 8642 && notes("others can write it"));
    put("krait.toml", "[server]\nport = 4\n", 0602);
    CHECK(load_with("", "", true) == 0 && config->port == 8642 &&
          notes("krait.toml in the current folder does not count"));
    unlink("krait.toml");
    CHECK(symlink("other.toml", "krait.toml") == 0);
    put("other.toml", "[server]\nport = 5\n", 0600);
    CHECK(load_with("", "", true) == 0 && config->port == 8642 && notes("it is a symbolic link"));
    CHECK(load_with("--config krait.toml", "", true) == 0 && config->port == 5);
    unlink("krait.toml");
    CHECK(mkfifo(".env", 0600) == 0);
    CHECK(load_with("", "", true) == 0 && notes("it is not a plain file"));
    if (geteuid() == 0) {
        put("krait.toml", "[server]\nport = 4\n", 0600);
        CHECK(chown("krait.toml", 12345, 12345) == 0);
        CHECK(load_with("", "", true) == 0 && config->port == 8642 && notes("it belongs to another user"));
        CHECK(load_with("--config krait.toml", "", true) == 0 && config->port == 4);
    }
    leave();
}

static void named_files(void)
{
    char expected[128];

    CHECK(enter() && mkdir("sub", 0700) == 0);
    put("krait.toml", "[server]\nport = 4\n", 0600);
    put("sub/x.toml", "[data]\ndir = \"state\"\n", 0640);
    CHECK(load_with("--config sub/x.toml", "", true) == 0 && config->port == 8642);
    snprintf(expected, sizeof expected, "%s/sub/state", folder);
    CHECK(strcmp(config->data, expected) == 0);
    CHECK(load_with("", "KRAIT_CONFIG=sub/x.toml", false) == 0 && strcmp(config->data, expected) == 0);
    CHECK(load_with("--config nothing.toml", "", true) == -ENOENT && says("nothing.toml: No such file"));
    CHECK(load_with("--config sub", "", true) == -EINVAL && says("is not a plain file"));
    put("sub/x.toml", "", 0606);
    CHECK(load_with("--config sub/x.toml", "", true) == -EINVAL && says("can be written by every user"));
    put("key", "KRAIT_PORT=77\n", 0600);
    CHECK(load_with("--env-file key", "", true) == 0 && config->port == 77);
    leave();
}

static void keys_in_files(void)
{
    CHECK(enter());
    put("key", "0123456789abcdef0123\n", 0600);
    CHECK(load_with("--api-key-file key", "", false) == 0 && strcmp(config->auth.api_key, "0123456789abcdef0123") == 0);
    CHECK(config->auth_on && comes_from("api-key", "--api-key-file (command line)"));
    CHECK(load_with("--api-key-file key --api-key x", "", false) == -EINVAL && says("leave one of the two out"));
    put("key", "two words\n", 0600);
    CHECK(load_with("--api-key-file key", "", false) == -EINVAL && says("is not a key") && !strstr(err.msg, "words"));
    put("key", "\n", 0600);
    CHECK(load_with("--api-key-file key", "", false) == -EINVAL);
    unlink("key");
    CHECK(load_with("--api-key-file key", "", false) == -ENOENT && says("--api-key-file (command line): "));
    leave();
}

static void too_large_a_file(void)
{
    char *text = malloc(KR_TOML_TEXT_MAX + 2);

    CHECK(text && enter());
    memset(text, '#', KR_TOML_TEXT_MAX + 1);
    text[KR_TOML_TEXT_MAX] = '\0';
    put("krait.toml", text, 0600);
    CHECK(load_with("", "", true) == 0);
    text[KR_TOML_TEXT_MAX] = '#';
    text[KR_TOML_TEXT_MAX + 1] = '\0';
    put("krait.toml", text, 0600);
    CHECK(load_with("", "", true) == -EFBIG && says("krait.toml: File too large"));
    leave();
    free(text);
}

int main(void)
{
    RUN(names_are_unique);
    RUN(names_are_well_formed);
    RUN(rows_are_complete);
    RUN(values_fit);
    RUN(examples_parse);
    RUN(dialects_parse);
    RUN(numbers_are_written_as_they_are_read);
    RUN(defaults);
    RUN(flags_beat_the_environment);
    RUN(hidden_values);
    RUN(flags);
    RUN(numbers_and_ranges);
    RUN(documents_names);
    RUN(debug_is_a_log_level);
    RUN(names_without_a_setting);
    RUN(lists);
    RUN(too_long_a_list);
    RUN(a_network_has_a_ceiling);
    RUN(credentials_leave_the_address_of_the_index);
    RUN(templates_that_are_preloaded);
    RUN(paths_and_mounts);
    RUN(words);
    RUN(secrets_are_in_no_text);
    RUN(data_folder);
    RUN(limits_and_ceilings);
    RUN(limits_of_dialects);
    RUN(profiles_of_dialects);
    RUN(listeners);
    RUN(wrong_listeners);
    RUN(open_addresses_need_a_key);
    RUN(loopback);
    RUN(layers_of_files);
    RUN(wrong_files);
    RUN(files_of_the_documents);
    RUN(files_that_do_not_count);
    RUN(named_files);
    RUN(keys_in_files);
    RUN(too_large_a_file);
    kr_config_free(config);
    CHECK_DONE();
}

/* `krait setup CLIENT`: prints what a client's configuration needs to use krait, and where it goes.
 *
 * Prints only: nothing of the client's is read or changed. One row per client; a row says which of a few shapes its
 * file has, for a server that the client starts (stdio) and for one that runs (HTTP). Invariant: what is printed
 * between the lines that begin with # is the file's text as it is. */
#include "commands.h"
#include "exit_status.h"
#include "fd.h"
#include "json.h"
#include "buf.h"
#include "relay_http.h"
#include "serve.h"
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY "KRAIT_API_KEY"

enum shape {
    COMMAND,     /* a command of the client's own */
    MCP_SERVERS, /* {"mcpServers":{"krait":{…}}} */
    SERVERS,     /* {"servers":{"krait":{"type":…}}} */
    TOML,        /* [mcp_servers.krait] */
};

/* A client: what its file looks like, where it is, and how it calls a server over HTTP. */
struct client {
    const char *name, *title;
    enum shape shape;
    const char *where;
    const char *url_key;  /* the member that holds the URL; NULL: it starts its servers itself, and we pass on */
    const char *url_type; /* the member "type" beside it; NULL: none */
    const char *bearer;   /* how it writes a header whose key is in its environment; NULL: it has a way of its own */
};

/* clang-format off */
static const struct client clients[] = {
    { "claude-code", "Claude Code", COMMAND, "run this once", "url", "http", NULL },
    { "claude-desktop", "Claude Desktop", MCP_SERVERS, "claude_desktop_config.json (Settings, Developer, Edit Config)",
      NULL, NULL, NULL },
    { "cursor", "Cursor", MCP_SERVERS, "~/.cursor/mcp.json, or .cursor/mcp.json of a project",
      "url", NULL, "Bearer ${env:" KEY "}" },
    { "gemini", "Gemini CLI", MCP_SERVERS, "~/.gemini/settings.json, or .gemini/settings.json of a project",
      "httpUrl", NULL, "Bearer $" KEY },
    { "vscode", "VS Code", SERVERS, ".vscode/mcp.json of a project, or by the command MCP: Open User Configuration",
      "url", "http", "Bearer ${env:" KEY "}" },
    { "codex", "Codex", TOML, "~/.codex/config.toml", "url", NULL, NULL },
};
/* clang-format on */
#define CLIENTS (sizeof clients / sizeof *clients)

struct options {
    const char *http;
    bool key;
};

/* clang-format off */
static const struct kr_opt_row rows[] = {
    { .name = "http", .type = KR_OPT_TEXT, .offset = offsetof(struct options, http), .value = "URL",
      .fallback = "the client starts `krait mcp`", .example = "http://127.0.0.1:8642",
      .help = "For a krait that serves there, instead of one that the client starts." },
    { .name = "key", .type = KR_OPT_FLAG, .offset = offsetof(struct options, key), .example = "--key",
      .help = "That server asks for a key: the client sends the one in its environment as KRAIT_API_KEY." },
};
/* clang-format on */

const struct kr_opt_table kr_setup_options_table = {
    .command = "setup",
    .usage = "claude-code|claude-desktop|cursor|gemini|vscode|codex [--http URL [--key]]",
    .about = "Prints the configuration with which an MCP client uses krait. Nothing is changed.",
    .notes = "No key is ever printed.\n"
             "Example: krait setup claude-code",
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .limits = KR_OPT_NO_LIMITS,
};

/* ---- the shapes ---- */

/* What the client starts: us, by our own path. args may hold a URL to pass on to. */
static void write_command(struct kr_json *j, const char *program, const char *url, bool key)
{
    kr_json_key_str(j, "command", program);
    kr_json_key(j, "args");
    kr_json_array(j);
    kr_json_str(j, "mcp");
    if (url) {
        kr_json_str(j, "--connect");
        kr_json_str(j, url);
    }
    kr_json_array_end(j);
    if (key) {
        kr_json_key(j, "env");
        kr_json_object(j);
        kr_json_key_str(j, KEY, "(the key)");
        kr_json_object_end(j);
    }
}

static void write_json(const struct client *c, const char *program, const char *url, bool key, struct kr_buf *out)
{
    struct kr_json j;

    kr_json_init(&j, out);
    kr_json_object(&j);
    kr_json_key(&j, c->shape == SERVERS ? "servers" : "mcpServers");
    kr_json_object(&j);
    kr_json_key(&j, "krait");
    kr_json_object(&j);
    if (url && c->url_key) {
        if (c->url_type)
            kr_json_key_str(&j, "type", c->url_type);
        kr_json_key_str(&j, c->url_key, url);
        if (key) {
            kr_json_key(&j, "headers");
            kr_json_object(&j);
            kr_json_key_str(&j, "Authorization", c->bearer);
            kr_json_object_end(&j);
        }
    } else {
        if (c->shape == SERVERS)
            kr_json_key_str(&j, "type", "stdio");
        write_command(&j, program, url, key);
    }
    kr_json_object_end(&j);
    kr_json_object_end(&j);
    kr_json_object_end(&j);
}

/* A basic string of TOML is one of JSON, but for the names of two escapes that a path cannot need here. */
static void print_toml(const char *program, const char *url, bool key)
{
    struct kr_buf text;
    struct kr_json j;

    kr_buf_init(&text, 16384);
    kr_json_init(&j, &text);
    kr_json_str(&j, url ? url : program);
    printf("[mcp_servers.krait]\n%s = %s\n", url ? "url" : "command", kr_buf_str(&text));
    if (!url)
        printf("args = [\"mcp\"]\n");
    if (key)
        printf("bearer_token_env_var = \"" KEY "\"\n");
    kr_buf_done(&text);
}

/* For a shell: in single quotes. */
static void print_quoted(const char *word)
{
    bool plain =
        *word && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,")] == '\0';

    if (plain) {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    putchar('\'');
}

static void print_command(const char *program, const char *url, bool key)
{
    if (url) {
        printf("claude mcp add --transport http krait ");
        print_quoted(url);
        printf("%s\n", key ? " --header \"Authorization: Bearer $" KEY "\"" : "");
        return;
    }
    printf("claude mcp add krait -- ");
    print_quoted(program);
    printf(" mcp\n");
}

/* For people to read: the same text, with line ends. */
static void print_pretty(const char *text)
{
    json_t *root = json_loads(text, 0, NULL);
    char *pretty = root ? json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;

    printf("%s\n", pretty ? pretty : text);
    free(pretty);
    json_decref(root);
}

static int print_client(const struct client *c, const char *program, const char *url, bool key, struct kr_err *err)
{
    struct kr_buf json;

    /* Where it goes to is a comment, for which JSON has no room: so that `krait setup cursor > mcp.json` is a file. */
    fprintf(c->shape == COMMAND || c->shape == TOML ? stdout : stderr, "# %s: %s\n", c->title, c->where);
    if (c->shape == COMMAND) {
        print_command(program, url, key);
    } else if (c->shape == TOML) {
        print_toml(program, url, key);
    } else {
        kr_buf_init(&json, 16384);
        write_json(c, program, url, key, &json);
        print_pretty(kr_buf_str(&json));
        kr_buf_done(&json);
    }
    return fflush(stdout) != 0 ? kr_err_set(err, KR_ERR_SYSTEM, errno, "stdout") : 0;
}

void kr_setup_hint(FILE *out, const char *url)
{
    fprintf(out,
            "  MCP             %s/mcp   clients: krait setup claude-code --http %s (or claude-desktop, cursor, …)\n",
            url, url);
}

/* ---- the command ---- */

static const struct client *find_client(const char *name, struct kr_err *err)
{
    const char *names[CLIENTS + 1] = {0}, *near;

    for (size_t i = 0; i < CLIENTS; i++) {
        names[i] = clients[i].name;
        if (strcmp(name, clients[i].name) == 0)
            return &clients[i];
    }
    near = kr_opt_nearest(name, names);
    if (near)
        kr_err_set(err, KR_ERR_INVALID, 0, "no client \"%.40s\" is known; did you mean %s?", name, near);
    else
        kr_err_set(err, KR_ERR_INVALID, 0, "no client \"%.40s\" is known; there are %s, %s, %s, %s, %s and %s", name,
                   names[0], names[1], names[2], names[3], names[4], names[5]);
    return NULL;
}

/* The URL of /mcp, whatever part of it was given; checked as --connect checks it, but https is the client's to
 * speak. */
static int full_url(const char *given, char *ret, size_t size, struct kr_err *err)
{
    char plain[1400];
    struct kr_hx_target t;
    bool tls = strncmp(given, "https://", 8) == 0;
    int r;

    snprintf(plain, sizeof plain, "http://%s", tls ? given + 8 : strncmp(given, "http://", 7) == 0 ? given + 7 : given);
    r = kr_hx_target_parse(plain, &t, err);
    if (r < 0) {
        kr_err_set(err, KR_ERR_INVALID, 0,
                   "--http: \"%.100s\" is not an address of a server; for example "
                   "http://127.0.0.1:8642",
                   given);
        return -EINVAL;
    }
    snprintf(ret, size, "%s://%.*s%s", tls ? "https" : "http", (int)strcspn(plain + 7, "/?"), plain + 7, t.path);
    return 0;
}

static int print_setup(int argc, char **argv, int operand, const struct options *o, struct kr_err *err)
{
    const struct client *c;
    char program[4096], url[1600];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);

    if (operand >= argc)
        return kr_err_set(err, KR_ERR_INVALID, 0, "for which client? see `krait setup --help`");
    if (operand + 1 < argc)
        return kr_err_set(err, KR_ERR_INVALID, 0, "one client at a time; \"%.40s\" is too much", argv[operand + 1]);
    c = find_client(argv[operand], err);
    if (!c)
        return -EINVAL;
    if (n <= 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "the path of this program");
    program[n] = '\0';
    if (o->http) {
        int r = full_url(o->http, url, sizeof url, err);

        if (r < 0)
            return r;
        if (!c->url_key && strncmp(url, "https:", 6) == 0)
            return kr_err_set(err, KR_ERR_INVALID, 0,
                              "%s reaches a server through `krait mcp --connect`, which speaks no https: give an http "
                              "address on loopback",
                              c->title);
    }
    if (o->key && !o->http)
        return kr_err_set(err, KR_ERR_INVALID, 0,
                          "--key: a krait that the client starts asks for none; give --http URL");
    return print_client(c, program, o->http ? url : NULL, o->key, err);
}

int kr_cmd_setup(int argc, char **argv)
{
    struct options o = {0};
    const char *late = NULL;
    struct kr_err err;
    int operand = argc, r;

    /* The client's name may stand before the options. */
    if (argc > 1 && argv[1][0] != '-') {
        late = argv[1];
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = (char *)late;
    }
    r = kr_opt_parse(&kr_setup_options_table, argc, argv, &o, &operand, &err);
    if (r == KR_OPT_HELP) {
        kr_opt_help(&kr_setup_options_table, stdout);
        return fflush(stdout) != 0 ? KR_EXIT_OURS : 0;
    }
    if (r >= 0)
        r = print_setup(argc, argv, operand, &o, &err);
    return r < 0 ? kr_cli_fail("setup", &err) : 0;
}

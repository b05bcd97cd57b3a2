/* Configuration of `krait serve`: one table (config.c) of settings; each may be given by a flag, by the environment, in
 * `.env`, in `krait.toml`, by its dialect or by default, in this order. kr_config_load() makes one checked, complete
 * struct kr_config of it, which is read-only from then on. A setting is named by its flag without dashes: "max-memory"
 * (KRAIT_MAX_MEMORY, limits.max_memory). */
#pragma once
#include "api.h"
#include "cell_options.h"
#include "dialect.h"
#include "egress.h"
#include "err.h"
#include "guard.h"
#include "install.h"
#include "install_template.h"
#include "limit.h"
#include "mcp.h"
#include "words.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct kr_config_tray;

struct kr_config_mount {
    char *name, *path;
};
struct kr_config_mounts {
    struct kr_config_mount *items;
    size_t count;
};

#define KR_CONFIG_LISTENERS_MAX 16u
struct kr_config_listener {
    char address[46]; /* an IPv4 or IPv6 literal, without brackets */
    uint16_t port;    /* 0: any free one */
    enum kr_dialect dialect;
    bool is_loopback;
};

#define KR_CONFIG_TEMPLATE_ZYGOTES_MAX 6u
struct kr_config_preload {
    char template[64];
    char modules[256]; /* with commas; "": those of what was asked for */
};

/* The settings of a subsystem are in the subsystem's own struct, where the table of settings writes them; `krait
 * serve` copies the struct and adds what is known only at start (the store, callbacks). Strings are NULL where
 * nothing was given and there is no default. Times are milliseconds, sizes bytes; 0 means what the setting's help
 * says. Paths are absolute; that they exist is for their users to check. */
struct kr_config {
    struct kr_http_config http;
    struct kr_guard_config guard; /* kr_guard_new() judges the entries */
    struct kr_auth_config auth;
    struct kr_api_config api;
    struct kr_mcp_config mcp;
    struct kr_box_config box;
    struct kr_engine_config engine;
    struct kr_egress_config egress;
    struct kr_install_config install;
    struct kr_profile profile; /* what a dialect may bring; of the dialect below, see profiles for the others */
    struct kr_cli_common cells;

    /* Of the program itself. [server] */
    char *host;
    uint64_t port;
    struct kr_words listen; /* as given; see listeners */
    int dialect;            /* enum kr_dialect: of listeners that name none */
    int transport;          /* enum kr_config_transport */
    char *user;
    uint64_t stop_timeout_ms;
    /* [auth] */
    char *api_key_file; /* auth.api_key holds what the file says */
    bool require_auth, allow_anonymous, open_metrics;
    /* [policy] */
    char *policy_file;
    struct kr_user_rules user_rules; /* that it says */
    /* [sessions] */
    uint64_t total_memory, total_processes; /* 0: four fifths of what there is */
    /* [users] */
    uint64_t user_memory, user_processes; /* 0: half of the above */
    /* [sandboxes] */
    struct kr_words preload; /* of kr_cli_preloads, none twice */
    struct kr_config_mounts mounts;
    /* [policy]: with profile.policy_mode they make the policy of each profile (config_policy.c) */
    bool policy_filesystem, policy_data_science, policy_network;
    struct kr_words allowed_imports;
    /* [data] */
    char *data;
    int shelf;           /* enum kr_shelf_choice */
    uint64_t shelf_size; /* 0: the shelf decides */
    bool shelf_discard;
    /* [log] */
    int log_format; /* enum kr_config_log_format */
    char *log_dir;
    /* [mirror] */
    char *index_credentials; /* "USER:PASSWORD", or NULL */
    /* [packages] */
    struct kr_install_template_config template;
    struct kr_words blocked_packages;
    /* [templates] */
    struct kr_words template_preload;
    uint64_t template_max_zygotes, template_zygote_memory, template_zygote_timeout_ms;

    /* Flags and environment only. */
    char *config_file, *env_file;
    bool no_files;
    bool sse;

    /* Made of the above. */
    struct kr_config_listener listeners[KR_CONFIG_LISTENERS_MAX];
    size_t listener_count;
    struct kr_config_preload preloads[KR_CONFIG_TEMPLATE_ZYGOTES_MAX];
    size_t preload_count;
    struct kr_profile profiles[KR_DIALECT_MAX_]; /* what holds on the listeners of each dialect */
    bool auth_on;                                /* every request must show a key: auth.api_key or require_auth */
    struct kr_words notes;                       /* lines for the log at start, level warn: what was ignored and why */

    struct kr_config_origins *origins; /* opaque: where each value came from */
};
enum kr_config_transport { KR_TRANSPORT_HTTP, KR_TRANSPORT_STDIO, KR_TRANSPORT_MAX_ };
enum kr_config_log_format { KR_LOG_FORMAT_LOGFMT, KR_LOG_FORMAT_JSON, KR_LOG_FORMAT_MAX_ };

struct kr_config_how {
    int argc; /* flags: argv[0] is the command's name; argc 0: none */
    char **argv;
    char *const *environment;    /* as environ(7); NULL: none */
    struct kr_config_tray *tray; /* files are kept there, or come from there (config_tray.h); NULL: neither */
    bool files;                  /* do .env and krait.toml of the current folder count? `serve` alone says yes */
    bool strange_env; /* .env counts where the dialect's document says so, and may be another program's: names there
                       * that mean nothing to krait are ignored */
};

/* Reads all of it and checks it as a whole. 0 and *ret (to be freed), KR_OPT_HELP if --help was asked for, or -errno
 * with one line that names where the value stands ("KRAIT_PORT (environment)", "krait.toml:3"), what is wrong and
 * what would be right; a secret's value is in no text. Reads files; may block on them. */
int kr_config_load(const struct kr_config_how *how, struct kr_config **ret, struct kr_err *err);
/* Takes NULL. Secrets are wiped. */
void kr_config_free(struct kr_config *c);
void kr_config_cleanup_(struct kr_config **c);
#define cleanup_config __attribute__((cleanup(kr_config_cleanup_)))

/* Wipes the secrets and keeps the rest: for a process that has no use for them and whose children are copies of it,
 * as the warden's builders and the inits of cells are. */
void kr_config_forget_secrets(struct kr_config *c);

/* Was it given, or is it a default? */
bool kr_config_given(const struct kr_config *c, const char *flag);
/* "--port (command line)", "KRAIT_PORT (environment)", "PORT (.env:3)", "server.port (krait.toml:7)", "default",
 * "default of dialect sandbox-mcp". Returns buf. */
const char *kr_config_origin(const struct kr_config *c, const char *flag, char *buf, size_t size);
/* Takes "USER:PASSWORD@" out of an index's address, in place; *ret_credentials (to be freed) has it, NULL: there is
 * none. Both parts are decoded. 0, -ENOMEM, or -EINVAL: they are not encoded as addresses have them. */
#define KR_CONFIG_SPLIT_FAILED "the credentials in the address of the package index"
int kr_config_split_index(char *url, char **ret_credentials);
/* Is this address (an IP literal) one that only this machine can reach? */
bool kr_config_is_loopback(const char *address);

/* Names ("limits.memory log.level") of settings that differ, with a blank between. */
struct kr_config_changes {
    char changed[2048]; /* those that hold from now on */
    char waiting[4096]; /* those that need a restart */
};
/* Moves into `c` what another reading of the same sources, `from`, gives another value and what may change while the
 * server runs. `most`: limits that the warden was started with, which no ceiling may pass. `from` is only to be freed
 * afterwards. */
void kr_config_reload(struct kr_config *c, struct kr_config *from, const struct kr_limits *most,
                      struct kr_config_changes *ret);

/* The texts that come from the table. */
void kr_config_help(FILE *out);         /* krait serve --help */
void kr_config_dump(FILE *out);         /* its part of krait dump config, Markdown */
void kr_config_env_example(FILE *out);  /* .env.example */
void kr_config_toml_example(FILE *out); /* krait.toml.example */
/* The values in force as TOML, each with its origin as a comment; secrets are not shown. */
void kr_config_show(const struct kr_config *c, FILE *out);

/* `krait run` on the engine's side. cmd_run.c fills a kr_run_app; kr_run_app_main() runs it in the forked engine. */
#pragma once
#include "egress.h"
#include "figures.h"
#include "launch.h"
#include "options.h"
#include "policy.h"
#include "run_packages.h"
#include "run_source.h"

struct kr_run_options {
    struct kr_cli_common common;
    struct kr_opt_limits limits;
    const char *code, *workspace, *figures;
    int preload;
    const char *network; /* the text of a rule; NULL: none */
    bool read_only, json;
    struct kr_opt_list env;
    struct kr_opt_list profiles, allowed_imports;
    int policy;    /* enum kr_policy; -1: none was given */
    bool packages; /* or one of the next two is given */
    struct kr_opt_list with;
    const char *requirements, *cache;
};

/* What is prepared with the caller's rights, before the engine is forked. */
struct kr_run_app {
    const struct kr_run_options *options;
    const struct kr_run_source *source;
    const char *workspace; /* real path of the folder that is /workspace, or NULL */
    int view;              /* of that folder, for an engine that is another user; -1: none */
    struct kr_figures figures;
    struct kr_net_rule rule;
    struct kr_policy_spec policy;
    bool has_egress;  /* its process is started */
    bool is_equipped; /* the program has packages */
    bool is_tty;      /* a person looks at stderr */
    struct kr_run_equipment equipment;
    struct kr_egress_config egress; /* of its process, if the rule has one; index_url is owned */
    char *credentials;              /* of the package index; NULL: none */
};

/* A kr_engine_main. arg: the kr_run_app. */
int kr_run_app_main(int control, void *arg);

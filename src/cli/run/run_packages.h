/* Packages of a program that `krait run` runs: an environment that is gone with it, and pip within it. */
#pragma once
#include "err.h"
#include "python_facts.h"
#include "run_cache.h"
#include "session.h"
#include <jansson.h>
#include <stdbool.h>

struct kr_box;
struct kr_config;
struct kr_egress;
struct kr_engine;
struct kr_install;
struct kr_jobs;
struct kr_package_store;
struct kr_runlog;
struct kr_runlog_reader;
struct kr_store;
struct uv_loop_s;

/* What is known before anything is forked. */
struct kr_run_equipment {
    struct kr_run_cache cache;
    struct kr_cli_python python;
    struct kr_config *config; /* a server's by default, owned */
    const char *needs;        /* the text of a requirements.txt; NULL: nothing to begin with */
    const char *index;        /* its address, without credentials */
};

struct kr_run_packages_calls {
    /* How far the install is: a line of what pip would print, or (passing) one that the next replaces. */
    void (*on_step)(void *data, const char *text, bool passing);
    /* Once, from the loop: the environment is there (err NULL), or cannot be. */
    void (*on_ready)(void *data, const struct kr_err *err);
};

struct kr_run_packages; /* NULL is fine everywhere: a program without */

/* Opens what an install takes, and begins it. 0 and on_ready comes, or -errno with err. *ret is to be closed and freed
 * in any case. */
int kr_run_packages_open(struct uv_loop_s *loop, struct kr_engine *engine, struct kr_egress *egress,
                         const struct kr_run_equipment *with, enum kr_preload preload,
                         const struct kr_run_packages_calls *calls, void *data, struct kr_run_packages **ret,
                         struct kr_err *err);
/* The environment of the session that is about to be opened, and the zygote that fits. 0 or -errno with err. */
int kr_run_packages_show(struct kr_run_packages *p, struct kr_session_spec *spec, struct kr_err *err);
/* What a program of its cell asks for (run.h's on_packages). */
void kr_run_packages_ask(struct kr_run_packages *p, struct kr_run *run, uint32_t number, const json_t *ask);
/* The run has ended: nothing that was asked for is wanted any more. */
void kr_run_packages_over(struct kr_run_packages *p);
/* Ends everything; before the engine goes. Runs the loop. */
void kr_run_packages_close(struct kr_run_packages *p);
/* After the loop's last round: the environment is gone. */
void kr_run_packages_free(struct kr_run_packages *p);

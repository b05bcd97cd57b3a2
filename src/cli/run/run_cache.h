/* The folder where `krait run` keeps wheels, and where a run that has packages has its environment while it lives. */
#pragma once
#include "own_folder.h"
#include "id.h"

struct kr_run_cache {
    struct kr_owner owner; /* who the engine is */
    char path[3900];       /* absolute; packages/ and runs/ are in it */
    char id[KR_ID_ROOM];
    char run[4000];    /* runs/ID: data of this run alone */
    char shelf[4096];  /* runs/ID/sandboxes */
    char wheels[4000]; /* packages/store */
    int lock;          /* of runs/ID, held by every process of the run; -1: none */
};

/* Before anything is forked, with the privilege that krait was started with. dir NULL: the user's own. 0 or -errno with
 * err; kr_run_cache_close() in any case. */
int kr_run_cache_prepare(struct kr_run_cache *c, const char *dir, struct kr_err *err);
/* In the engine: removes what killed runs have left. */
void kr_run_cache_clear(const struct kr_run_cache *c);
/* In the engine, as the last of it: removes runs/ID. */
void kr_run_cache_remove(const struct kr_run_cache *c);
void kr_run_cache_close(struct kr_run_cache *c);

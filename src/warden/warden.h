/* The warden: the process as started. It keeps whatever privilege it was given and only builds cells.
 * kr_warden_launch() forks the engine and then serves it until it is gone. */
#pragma once
#include "err.h"
#include "proto.h"
#include "shelf.h"
#include <stddef.h>
#include <stdint.h>

#define KR_ZYGOTES_MAX 8
#define KR_WORKSPACES_MAX 16

struct kr_zygote_config {
    enum kr_preload preload;
    const char *python;  /* absolute path of the interpreter */
    const char *modules; /* of KR_PRELOAD_TEMPLATE: with commas; "": those of what its template's owner asked for */
};

struct kr_workspace_config {
    const char *path; /* host folder; opened once, at start */
    int read_only;
};

/* A folder of data sets that sandboxes may have at /data/NAME, read-only. */
struct kr_mount_config {
    const char *name; /* 1 to 31 of a-z 0-9 - _ */
    const char *path;
};

/* What the egress process is: runs in the forked child with its end of the socket (KR_E_…) and returns its exit status.
 * It has descriptors 0 to 2 (/dev/null twice, and our stderr) and that one, no capability, no_new_privs, and an
 * end that comes with the warden's. */
typedef int kr_egress_entry(int fd, void *arg);

/* Everything the warden will ever mount or start is fixed here; requests only carry indices. */
struct kr_warden_config {
    int level; /* enum kr_level to insist on, or -1: the best there is, never `contained` unless allowed */
    int allow_contained;
    uint32_t required; /* enum kr_layer bits without which nothing starts; see kr_layers_default_required() */
    struct kr_zygote_config zygotes[KR_ZYGOTES_MAX];
    size_t zygote_count;
    struct kr_workspace_config workspaces[KR_WORKSPACES_MAX];
    size_t workspace_count;
    struct kr_shelf_config shelf; /* whose SOMEID/files become workspaces by KR_WORKSPACE_SHELF; path NULL: none */
    struct kr_mount_config mounts[KR_MOUNTS_MAX];
    size_t mount_count;
    const char *packages; /* folder of unpacked wheels that cells see at /krait/packages; NULL: none */
    /* What goes out for the cells whose network goes beyond loopback, and for the engine: a process of its own, started
     * after the engine and again when it has ended, which the engine talks to (KR_W_EGRESS). NULL: no such cells */
    kr_egress_entry *egress;
    void *egress_arg;
    uint32_t egress_uid, egress_gid; /* whom it becomes where we are root; 0: an id that no other process has */
    uint32_t engine_uid, engine_gid; /* whom the engine becomes where we are root; 0: it stays who we are */
    /* An id that no other process has, where we are root and cells have ids of their own; or with engine_uid that one,
     * and on_engine_folder comes, too */
    int engine_apart;
    /* In the engine, before it runs: a read-only view of workspace `index` in which the folder's owner is the engine,
     * for an engine that became another user. The descriptor is the callee's. NULL: not asked for */
    void (*on_engine_folder)(void *arg, size_t index, int dir);
    /* In the engine, before it runs: the image that is mounted over the shelf's folder, open; -1: a plain folder. The
     * descriptor is closed after the call. NULL: not asked for */
    void (*on_engine_shelf)(void *arg, int image);
    void (*on_engine_forked)(
        void *arg); /* in the warden: what only the engine needs (keys) is forgotten here. May be NULL */
    /* On SIGHUP, in a child of the warden that has its rights and ends when this returns, after 10 s at the latest:
     * what may block, or must not be in a process whose children are cells, is done there. May be NULL */
    void (*on_reload)(void *arg);
    int lazy; /* nothing of the machine is looked at or made until the engine asks for a zygote (KR_W_WAKE);
                                a failure then is reported as that zygote's, and ends nothing */
    uint64_t guest_memory;     /* what a zygote of KR_PRELOAD_TEMPLATE may take */
    uint32_t guest_start_ms;   /* and how long its imports */
    uint32_t rotate_after;     /* forks before a zygote is replaced; 0: never */
    uint32_t rotate_rest_ms;   /* and not before it has lived so long: a new one costs up to a second of CPU */
    uint32_t stock;            /* ready cells kept per zygote (network none); 0: built on demand */
    uint32_t max_cells;        /* live cells at most */
    struct kr_limits ceilings; /* what no session may be given more of, whatever the engine asks for; 0: no ceiling */
    uint64_t total_memory, total_processes; /* of all cells together; 0: four fifths of what there is */
    int user_groups;                        /* the cells of one owner have a cgroup together */
    uint64_t user_memory, user_processes;   /* and so much in it; 0: half of all */
    const char *runtime_dir;                /* NULL: /run/krait, XDG_RUNTIME_DIR/krait or a private folder in /tmp */
};

/* What the engine is: runs in the forked child with its end of the control socket; returns the exit status of the whole
 * program. It has no capability left and no_new_privs set; its uid is the caller's, engine_uid or one of its own. */
typedef int kr_engine_main(int control, void *arg);

void kr_warden_config_default(struct kr_warden_config *c);
/* Looks at the machine, forks the engine, serves it, cleans up. Blocks until the engine has ended. Returns the engine's
 * exit status (128 + signal if it died by one), or -errno with err set if nothing could be started. */
int kr_warden_launch(const struct kr_warden_config *c, kr_engine_main *engine, void *arg, struct kr_err *err);

/* One row per layer, for doctor, --json and docs. */
struct kr_layer_row {
    uint32_t bit;
    const char *name; /* JSON key: "user_namespace" */
    const char *title;
    const char *lost; /* what is lost without it */
    const char *fix;  /* how to get it */
    int required;     /* by default, for the native tier */
};
extern const struct kr_layer_row kr_layer_rows[];
extern const size_t kr_layer_rows_count;
extern const char *const kr_level_names[KR_LEVEL_MAX_];

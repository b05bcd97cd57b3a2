/* A cell's own view of its family's root: the same files behind inodes that no other process has.
 *
 * A lock belongs to an inode. A cell that had the host's inodes could lock a file of /usr against the host's root, and
 * every other cell. Overlays give each cell its own, and share the page cache of the files beneath. */
#pragma once
#include "err.h"
#include <stdint.h>

/* In the family's root, and in no cell's. */
#define KR_VIEW_DIR "/.view"
/* A folder of it: where a cell's init mounts what is in memory. */
#define KR_VIEW_FILES "files"
#define KR_VIEW_TREES_MAX 10
/* A folder of it: where the store of packages is mounted, which cells see at KR_VIEW_PACKAGES_AT. */
#define KR_VIEW_PACKAGES "packages"
#define KR_VIEW_PACKAGES_AT "/krait/packages"
/* A folder of it: the gauges of cells, by index (gauges.h). */
#define KR_GAUGES_DIR "gauges"

enum kr_view_packages {
    KR_VIEW_PACKAGES_NONE,
    KR_VIEW_PACKAGES_LAYER, /* an overlay for each cell */
    KR_VIEW_PACKAGES_PLAIN, /* the family's mount, with its inodes */
};

struct kr_view_tree {
    char at[256];
    int plain; /* no overlay is possible here: the mount is the family's, and so are its inodes */
};
struct kr_view {
    struct kr_view_tree trees[KR_VIEW_TREES_MAX]; /* of the host, in the order in which they are mounted */
    unsigned count;
    int plain;                      /* the root itself has no overlay: cells see the family's */
    int own_devices;                /* KR_VIEW_DIR/dev has a folder of device nodes for each cell */
    enum kr_view_packages packages; /* what KR_VIEW_PACKAGES is to cells */
    unsigned cpus;                  /* the most processors that gauges can show (gauges.h); 0: no gauges */
};

/* Notes that a tree of the host is mounted at `at`. */
int kr_view_add(struct kr_view *v, const char *at);
/* Makes the folders of KR_VIEW_DIR beneath `root`, where the family's tree is put together. */
int kr_view_make_dir(const char *root);
/* In the family's root: makes the masks, and tries each overlay once, so that a cell's init has no choice left. A tree
 * without one gets its hidden places covered by mounts. Called with every capability in the family's namespaces. */
int kr_view_prepare(struct kr_view *v, struct kr_err *err);

/* In a cell's init: mounts the cell's view and makes it the root. `index` is the cell's. *layers gets
 * KR_LAYER_FILES and KR_LAYER_DEVICES if they hold. The working directory is KR_VIEW_DIR afterwards, for
 * KR_VIEW_FILES and kr_view_attach(). */
int kr_view_enter(const struct kr_view *v, unsigned index, uint32_t *layers, struct kr_err *err);
/* In a zygote's own mount namespace, before it imports the packages of a template: their store, as a cell sees it, and
 * nothing of what is there for cells. Where cells have no overlays: -EOPNOTSUPP. */
int kr_view_guest(const struct kr_view *v, struct kr_err *err);
/* In a cell's init, after kr_view_enter(): attaches a detached read-only mount at `at`, beneath an overlay unless its
 * filesystem carries none. */
int kr_view_attach(const struct kr_view *v, int tree, const char *at, struct kr_err *err);

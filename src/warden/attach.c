/* The hand-over's mounts: what of the host a cell gets to see, as detached mounts that its init puts in place: the
 * workspace, the sandbox's environment, data sets.
 *
 * Called by birth.c for W_START, whose fields are checked by then. Invariants: nothing is mounted but what was given at
 * the start or lies on the shelf; every mount is idmapped to this cell's session where cells have ids of their own;
 * what was opened is closed, whatever fails. */
#include "fd.h"
#include "frame.h"
#include "gauges.h"
#include "warden_internal.h"
#include <errno.h>
#include <unistd.h>

/* The map with which a folder's owner is the session; -1 where all share our id. Those of the shelf's owner are kept:
 * making one is a clone(). */
static int idmap_of(struct kr_cell *c, const struct kr_workspace *folder, int *ret_own, struct kr_err *err)
{
    struct kr_warden *w = c->family->w;
    uint32_t id = kr_cell_session_id(c);
    if (id == 0)
        return -1;
    if (folder->uid != w->shelf.uid || folder->gid != w->shelf.gid || w->shelf.dir < 0 || c->index >= KR_IDMAPS_KEPT)
        return *ret_own = kr_idmap_new(folder->uid, folder->gid, id, err);
    if (w->idmaps[c->index] < 0)
        w->idmaps[c->index] = kr_idmap_new(folder->uid, folder->gid, id, err);
    return w->idmaps[c->index];
}

/* A detached mount of the folder for this cell, or -errno. */
static int tree_for(struct kr_cell *c, const struct kr_workspace *folder, struct kr_err *err)
{
    cleanup_fd int own = -1;
    int idmap = idmap_of(c, folder, &own, err);
    if (idmap < 0 && kr_cell_session_id(c) != 0)
        return idmap;
    return kr_workspace_tree(folder, idmap, err);
}

static int workspace_tree(struct kr_cell *c, const struct kr_w_start *req, struct kr_err *err)
{
    struct kr_warden *w = c->family->w;
    struct kr_workspace folder;
    int r;
    if (req->workspace >= 0) {
        c->workspace_dev = w->workspaces[req->workspace].dev;
        return tree_for(c, &w->workspaces[req->workspace], err);
    }
    r = kr_workspace_on_shelf(&w->shelf, req->folder, KR_SHELF_FILES, &folder, err);
    if (r < 0)
        return r;
    c->workspace_dev = folder.dev;
    r = tree_for(c, &folder, err);
    close(folder.dir);
    return r;
}

/* Read-only for the cell; what the server changes in the folder is seen inside at once. */
static int venv_tree(struct kr_cell *c, const struct kr_w_start *req, struct kr_err *err)
{
    struct kr_workspace folder;
    int r = kr_workspace_on_shelf(&c->family->w->shelf, req->folder, KR_SHELF_ENV, &folder, err);
    if (r < 0)
        return r;
    folder.read_only = 1;
    r = tree_for(c, &folder, err);
    close(folder.dir);
    return r;
}

/* What the init is to attach: the gate, then the mounts. How many, or -errno; what was opened is in fds in any case. */
static int gather(struct kr_cell *c, const struct kr_w_start *req, struct kr_i_attach *how, int fds[], unsigned *ret_n,
                  struct kr_err *err)
{
    struct kr_warden *w = c->family->w;
    fds[(*ret_n)++] = steal_fd(&c->gate); /* the init alone opens it */
    if (req->workspace != KR_WORKSPACE_NONE) {
        int tree = workspace_tree(c, req, err);
        if (tree < 0)
            return tree;
        how->workspace = 1;
        fds[(*ret_n)++] = tree;
    }
    if (req->venv != 0) {
        int tree = venv_tree(c, req, err);
        if (tree < 0)
            return tree;
        how->venv = 1;
        fds[(*ret_n)++] = tree;
    }
    for (unsigned i = 0; i < w->config->mount_count; i++) {
        int tree;
        if (!(req->mounts & (1u << i)))
            continue;
        tree = tree_for(c, &w->mounts[i], err);
        if (tree < 0)
            return tree;
        fds[(*ret_n)++] = tree;
    }
    how->mounts = req->mounts;
    how->read_only = req->read_only;
    return 0;
}

int kr_cell_attach(struct kr_cell *c, const struct kr_w_start *req, struct kr_err *err)
{
    const struct kr_limits *l = &req->limits;
    struct kr_i_attach how = {.tmp_bytes = l->disk, .tmp_inodes = l->inodes};
    int fds[3 + KR_MOUNTS_MAX];
    unsigned n = 0;
    int r;
    if (c->gauge.shown && kr_gauge_cpus(l->cpu_milli) != c->cpus)
        how.cpus = kr_gauge_cpus(l->cpu_milli);
    how.resize = l->disk != c->tmp_bytes || l->inodes != c->tmp_inodes;
    r = gather(c, req, &how, fds, &n, err);
    if (r >= 0 && (r = kr_frame_send(c->init_channel, KR_I_ATTACH, 0, &how, sizeof how, fds, n)) < 0)
        kr_err_set(err, KR_ERR_SYSTEM, -r, "tell the init to attach");
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
    return r;
}

/* The shelf: the folder of sandboxes' folders, on a filesystem that enforces their limits where there is one. Used by
 * the warden, which brings it up, by its keeper, which answers the engine's questions, and by commands that look at it.
 * No loop; every function may block on the disk. docs/design/shelf.md has the choice between the kinds and why. */
#pragma once
#include "err.h"
#include "proto.h"
#include <stdint.h>
#include <sys/types.h>

/* The setting `shelf`. */
enum kr_shelf_choice {
    KR_SHELF_AUTO,   /* the data directory's own quotas, else an image, else a folder; never changes what is there */
    KR_SHELF_IMAGE,  /* an image, or no start */
    KR_SHELF_FOLDER, /* a plain folder: the server counts */
    KR_SHELF_CHOICE_MAX_
};

struct kr_shelf_config {
    const char *path; /* DATA/sandboxes, absolute; the image is beside it: DATA/sandboxes.image */
    enum kr_shelf_choice choice;
    uint64_t size;  /* of an image that is to be made; 0: the lesser of 64 GiB and 80 % of what is free */
    int discard;    /* what is deleted in an image returns to the host */
    int is_private; /* code in cells writes nothing there: that no limit is enforced is not worth a word */
};

#define KR_SHELF_IMAGE_SUFFIX ".image" /* behind the path */
#define KR_SHELF_SIZE_MIN (UINT64_C(256) << 20)
#define KR_SHELF_SIZE_MAX (UINT64_C(16) << 40)
#define KR_SHELF_WHY_ROOM 200

/* What a shelf will be, decided without changing anything. */
struct kr_shelf_plan {
    enum kr_shelf_kind kind;     /* of an image: BTRFS, or what the kernel has instead */
    int image;                   /* 1: an image, mounted over the folder */
    int exists;                  /* the image is there already: it or nothing */
    char why[KR_SHELF_WHY_ROOM]; /* why limits are not enforced; "" where they are */
};
/* May block. 0, or -errno with err where the choice cannot be. */
int kr_shelf_plan(const struct kr_shelf_config *c, struct kr_shelf_plan *ret, struct kr_err *err);
/* The plan becomes a plain folder, if neither the choice nor an image that exists forbids it; else r, and err stays. */
int kr_shelf_settle_for_folder(const struct kr_shelf_config *c, struct kr_shelf_plan *plan, int r,
                               const struct kr_err *err);

/* A mount namespace of our own: what the host mounts still arrives, what we mount does not leave. 0, or -errno. */
int kr_shelf_namespace(struct kr_err *err);

/* A shelf that is up. */
struct kr_shelf {
    struct kr_shelf_config config;
    enum kr_shelf_kind kind;
    int image;         /* 1: on an image that krait made */
    uint32_t uid, gid; /* the server's: they own the shelf, and what is made on it */
    int dir;           /* the folder of folders; -1: the shelf is not up */
    int file, loop;    /* the image and its device; -1: none */
    char groups[80];   /* BTRFS: where the kernel shows its quota groups */
    int dropped;       /* subvolumes were dropped since the kernel was told to clean up */
    uint64_t seen;     /* bytes used when kr_shelf_tend() last looked */
    int broken;        /* and whether the image was read-only */
};
#define KR_SHELF_NONE                                                                                                  \
    (struct kr_shelf)                                                                                                  \
    {                                                                                                                  \
        .dir = -1, .file = -1, .loop = -1                                                                              \
    }

/* Brings it up as planned: an image is made if there is none, and mounted over `point`, the folder config->path, in the
 * mount namespace that we are in. On failure nothing is left: no file, no loop device, no mount. May block for the time
 * that mkfs takes. */
int kr_shelf_up(const struct kr_shelf_config *c, const struct kr_shelf_plan *plan, int point, struct kr_shelf *ret,
                struct kr_err *err);
/* Closes what it holds; the mount stays until kr_shelf_down() or the end of its namespace. */
void kr_shelf_close(struct kr_shelf *s);
/* Closes it and takes the mount away, which goes when its last user does. */
void kr_shelf_down(struct kr_shelf *s);

/* A read-only snapshot of the sandbox's folder of that name beside it, called `as`; kr_shelf_do() drops it.
 * -EOPNOTSUPP: the folder is not a subvolume. */
int kr_shelf_snapshot(const struct kr_shelf *s, const char *name, const char *as, struct kr_err *err);
/* Does what the engine asks; every field is checked here. 0, or -errno with err. */
int kr_shelf_do(struct kr_shelf *s, const struct kr_w_shelf *question, struct kr_w_shelved *ret, struct kr_err *err);
/* Keeps the image from growing past what its host can hold; wakes the cleaner of dropped folders. Returns the
 * milliseconds after which to call it again; -1: never. */
int kr_shelf_tend(struct kr_shelf *s);

/* A child process that answers the questions of one shelf, frame by frame on the socket that is returned, so that a
 * slow disk does not hold up its parent: the socket does not block. It ends when the socket closes. */
int kr_shelf_keeper(struct kr_shelf *s, pid_t *ret_pid, struct kr_err *err);

/* The shelf: the folder of sandboxes' folders, on a filesystem that enforces their limits where there is one. Used by
 * the warden, which brings it up and answers the engine's questions with it, and by commands that look at it. No loop;
 * every function may block on the disk. docs/design/shelf.md has the choice between the kinds and the reasons. */
#pragma once
#include "err.h"
#include "proto.h"
#include <stdint.h>

/* The setting `shelf`. */
enum kr_shelf_choice {
    KR_SHELF_AUTO,   /* the data directory's own quotas, else an image, else a folder; never changes what is there */
    KR_SHELF_IMAGE,  /* an image, or no start */
    KR_SHELF_FOLDER, /* a plain folder, or the data directory's own quotas */
    KR_SHELF_CHOICE_MAX_
};

struct kr_shelf_config {
    const char *path; /* DATA/sandboxes, absolute; the image is beside it: DATA/sandboxes.image */
    enum kr_shelf_choice choice;
    uint64_t size; /* of an image that is to be made; 0: the lesser of 64 GiB and 80 % of what is free */
    int discard;   /* what is deleted in an image returns to the host */
};

/* A shelf that is up. */
struct kr_shelf {
    const struct kr_shelf_config *config;
    enum kr_shelf_kind kind;
    int dir; /* O_PATH: the folder of folders, the caller's */
};

/* Does what the engine asks; every field is checked here. 0, or -errno with err. */
int kr_shelf_do(const struct kr_shelf *s, const struct kr_w_shelf *question, struct kr_w_shelved *ret,
                struct kr_err *err);

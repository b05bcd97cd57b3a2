/* What the files of this room share. No other room includes this. */
#pragma once
#include "shelf.h"

/* shelf_loop.c: a loop device for the file, with direct I/O, which disappears with its last user. One that the file has
 * already is used again. The descriptor, and its path. */
#define KR_LOOP_ROOM 24
int kr_shelf_loop(int file, char path[KR_LOOP_ROOM], struct kr_err *err);

/* shelf_mkfs.c: runs mkfs on an open file. -ENOENT: it is not installed. */
int kr_shelf_mkfs(enum kr_shelf_kind kind, int file, struct kr_err *err);
/* Whether there is one. */
int kr_shelf_has_mkfs(enum kr_shelf_kind kind);

/* shelf_plan.c: 0 also where it cannot be read. */
int kr_shelf_is_empty(int dir);

/* shelf_image.c */
int kr_shelf_image_path(const struct kr_shelf_config *c, char *ret, size_t size, struct kr_err *err);
/* Opens or makes the image, mounts it over `point`. Fills kind, file, loop and dir. */
int kr_shelf_image_up(struct kr_shelf *s, const struct kr_shelf_plan *plan, int point, struct kr_err *err);
int kr_shelf_image_grow(struct kr_shelf *s, uint64_t bytes, struct kr_err *err);

/* shelf_btrfs.c: `dir` is the shelf's folder. */
/* Where the kernel shows the quota groups of the filesystem; -EOPNOTSUPP: quotas are off. */
int kr_shelf_btrfs_find(int dir, char *ret, size_t size);
/* Of a filesystem of ours: simple quotas, and the group of all folders. */
int kr_shelf_btrfs_enable(int dir, struct kr_err *err);
int kr_shelf_btrfs_make(const struct kr_shelf *s, const char *name, uint64_t bytes, struct kr_err *err);
/* The same with all that is in the subvolume `from`. */
int kr_shelf_btrfs_copy(const struct kr_shelf *s, int from, const char *name, uint64_t bytes, struct kr_err *err);
/* 0: not a subvolume. */
int kr_shelf_btrfs_id(int folder, uint64_t *ret_id);
int kr_shelf_btrfs_limit(const struct kr_shelf *s, uint64_t id, uint64_t bytes);
int kr_shelf_btrfs_drop(const struct kr_shelf *s, const char *name, struct kr_err *err);
int kr_shelf_btrfs_usage(const struct kr_shelf *s, uint64_t id, struct kr_w_shelved *ret);
int kr_shelf_btrfs_clean(const struct kr_shelf *s);
/* The group that holds all folders of an image. */
#define KR_SHELF_ALL (UINT64_C(1) << 48)
struct kr_shelf_group {
    uint64_t referenced, reserved, max; /* reserved: written by processes, not yet to the disk; max 0: no limit */
};
int kr_shelf_btrfs_group(const struct kr_shelf *s, uint64_t group, struct kr_shelf_group *ret);
int kr_shelf_btrfs_set(const struct kr_shelf *s, uint64_t group, uint64_t max);

/* shelf_project.c */
/* 1: project quotas are on and we may set them. */
int kr_shelf_project_on(int dir);
/* Gives an empty folder a project of its own. */
int kr_shelf_project_give(const struct kr_shelf *s, int folder, const char *name, struct kr_err *err);
/* 0: it has none of ours. */
uint32_t kr_shelf_project_id(int folder);
int kr_shelf_project_limit(const struct kr_shelf *s, uint32_t id, uint64_t bytes, uint64_t inodes);
int kr_shelf_project_usage(const struct kr_shelf *s, uint32_t id, struct kr_w_shelved *ret);

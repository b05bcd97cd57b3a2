/* The kernel's word on which names beneath a folder were touched: inotify, one watch per folder. Not for other rooms.
 *
 * inotify tells names of folders, so what it tells is taken as a hint where to look, never as what happened; what it
 * cannot tell is `doubt` (a walk is needed) or `lost` (this watch is of no more use). mirror.c has the rules. */
#pragma once
#include "files.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KR_TREE_FOLDERS_MAX 4096u   /* of one tree */
#define KR_TREE_TOUCHED_MAX 65536u  /* names between two looks */
#define KR_TREE_EVENTS_MAX 1000000u /* between two looks: a program must not make us read for ever */

struct kr_tree_watch;

/* A name that was touched. */
struct kr_tree_name {
    char path[KR_FILES_PATH_MAX];
    bool appeared;   /* it was made or moved here since */
    bool moved_away; /* the last that happened to it was a rename to another name, which is touched too */
};

/* Bounded for the whole process by half of the kernel's instances and a quarter of its watches per user. 0 or
 * -errno. */
int kr_tree_watch_new(struct kr_tree_watch **ret);
/* May block for some milliseconds (the kernel waits for its readers). Takes NULL. */
void kr_tree_watch_free(struct kr_tree_watch *w);
/* Watches the folder at that path beneath ws, "" for ws itself. To be called before its entries are read. 0 or -errno;
 * then the watch is lost. */
int kr_tree_watch_add(struct kr_tree_watch *w, int ws, const char *path);
/* Takes what the kernel has queued, at most so many bytes. True: there may be more. */
bool kr_tree_watch_drain(struct kr_tree_watch *w, size_t max_bytes);
/* Events were missed: what is open beneath the folder is not known any more. */
bool kr_tree_watch_lost(const struct kr_tree_watch *w);
/* Folders were made, moved, deleted or changed: names alone do not say what is where. */
bool kr_tree_watch_doubt(const struct kr_tree_watch *w);

/* The names that were touched since kr_tree_watch_forget(), in no order: count, and the one of that number. False: it
 * has no path any more, or one that is too long. */
bool kr_tree_watch_touched(const struct kr_tree_watch *w, size_t i, struct kr_tree_name *ret);
size_t kr_tree_watch_touched_count(const struct kr_tree_watch *w);
void kr_tree_watch_forget(struct kr_tree_watch *w);
/* Bytes of memory. */
size_t kr_tree_watch_bytes(const struct kr_tree_watch *w);

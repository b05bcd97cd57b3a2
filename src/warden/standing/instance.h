/* One running krait among others: a lock file that names what it made, so that the next start can clean up after one
 * that was killed, and a number that decides which host ids its cells get. Only the warden calls it. */
#pragma once
#include "err.h"
#include <stdint.h>

struct kr_instance {
    int lock;       /* held with fcntl(F_SETLK): released by the kernel when this process ends, not inherited by fork */
    unsigned slot;  /* 0…slots-1, no other live instance of this runtime folder has it */
    char dir[200];  /* runtime folder */
    char path[240]; /* the lock file */
    unsigned shift;
    unsigned
        id_slot;   /* which range of ids is ours: the slot, shifted by what tells this runtime folder from another's */
    char name[48]; /* of our cgroup folders: krait-UID-SLOT-RANDOM, for another runtime folder may share our cgroups */
};

/* Our uid as the namespace around ours knows it: the host's, unless namespaces are nested deeper. */
unsigned kr_host_uid(void);
/* Takes the first free slot below `slots`, after removing what its dead owner left. */
int kr_instance_open(struct kr_instance *in, const char *runtime_dir, unsigned slots, struct kr_err *err);
/* Notes something that must be removed if we are killed: kind is "cgroup" or "scratch". */
int kr_instance_note(struct kr_instance *in, const char *kind, const char *path, struct kr_err *err);
/* Removes a folder of the runtime folder, whatever is in it. Follows no link and leaves no mount. */
void kr_instance_remove(const struct kr_instance *in, const char *name);
/* Lets go: the slot is free, and the file empty unless something it names is still there. */
void kr_instance_close(struct kr_instance *in, int keep_notes);

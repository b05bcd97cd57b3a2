/* Files of settings as one process read them, for another that may not open them: `krait serve` reads its files again
 * on SIGHUP in a process with the rights it was started with, and the server, which is confined, reads the settings
 * out of what that process kept. */
#pragma once
#include "err.h"
#include <stddef.h>
#include <stdint.h>

#define KR_CONFIG_KEPT_MAX 5u /* .env, krait.toml, config.toml, the file of a key, the policy file */

struct kr_config_kept {
    char *name; /* as it was asked for */
    int result; /* what reading it returned: 1 or 0, or -errno with err */
    char *text; /* NUL behind it; NULL without a text */
    size_t len;
    char why[192]; /* why a file that is there does not count */
    struct kr_err err;
};

struct kr_config_tray {
    int is_full;  /* filled by another process: nothing is opened, only what was kept is there */
    uint32_t uid; /* of the process that filled it */
    /* While it is filled: whom for, if that is another user, who must not choose what is read. 0: the same user. */
    uint32_t reader_uid, reader_gid;
    size_t count;
    struct kr_config_kept kept[KR_CONFIG_KEPT_MAX];
};

/* Notes what reading a file gave; the text is copied. Does nothing without a tray, and with one that is full. 0 or
 * -errno. */
int kr_config_keep(struct kr_config_tray *tray, const struct kr_config_kept *what);
/* What was kept under this name, or NULL. */
const struct kr_config_kept *kr_config_find_kept(const struct kr_config_tray *tray, const char *name);
/* Writes it to an empty file, and reads such a file of a process of the same program: it is full then. 0 or -errno.
 * May block as files do. */
int kr_config_tray_write(const struct kr_config_tray *tray, int fd);
int kr_config_tray_read(int fd, struct kr_config_tray *ret);
/* Texts are wiped. */
void kr_config_tray_done(struct kr_config_tray *tray);
#define cleanup_config_tray __attribute__((cleanup(kr_config_tray_done)))

/* What eg_index.c (an index on the web) and eg_index_folder.c (a folder of wheels) share. */
#pragma once
#include "eg_index.h"
#include "egress_internal.h"

struct kr_eg_folder;

struct kr_eg_index {
    struct kr_eg *eg;
    const struct kr_eg_tls_trust *trust;
    unsigned char key[KR_INDEX_KEY_SIZE];
    bool web;
    struct kr_web_address base; /* of the web: its path ends with a slash */
    char *authorization;        /* or NULL */
    struct kr_eg_folder *folder;
    bool told_of_host; /* the log has a host that the setting does not name */
};

/* What is asked for, read from the path. */
struct kr_eg_index_what {
    bool page, root;
    char name[KR_EG_INDEX_NAME_MAX + 1]; /* of a page */
    struct kr_index_link link;           /* of a file */
};

/* ---- a folder of wheels ---- */

#define KR_EG_FOLDER_LINK "file:///" /* of its files, as links have them */

int kr_eg_folder_new(struct kr_eg *eg, const char *path, const unsigned char *key, struct kr_eg_folder **ret_folder,
                     struct kr_err *err);
void kr_eg_folder_free(struct kr_eg_folder *f);
const char *kr_eg_folder_path(const struct kr_eg_folder *f);

struct kr_eg_folder_get;
/* 0 and on_end comes, from the loop; or -errno. `what` and calls are copied. */
int kr_eg_folder_start(struct kr_eg_folder *f, const struct kr_eg_index_what *what, bool head,
                       const struct kr_eg_index_calls *calls, void *data, struct kr_eg_folder_get **ret_get);
void kr_eg_folder_pause(struct kr_eg_folder_get *g, bool pause);
void kr_eg_folder_cancel(struct kr_eg_folder_get *g);

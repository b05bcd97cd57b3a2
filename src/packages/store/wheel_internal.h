/* What the files of wheels share: the struct behind wheel.h, and the readers of the texts in a wheel. */
#pragma once
#include "wheel.h"
#include "zip_read.h"

#define KR_SHA256_SIZE 32u

/* Where an entry is put. */
enum kr_wheel_place { KR_WHEEL_SITE, KR_WHEEL_BIN, KR_WHEEL_DATA, KR_WHEEL_HEADERS, KR_WHEEL_LEFT_OUT };

struct kr_wheel_file {
    const struct kr_zip_entry *entry;
    char *path; /* below the folder: "site/numpy/core.py"; NULL: left out */
    enum kr_wheel_place place;
    bool recorded; /* RECORD has a hash for it, which is `hash` */
    unsigned char hash[KR_SHA256_SIZE];
};

/* A script that is made of an entry point. */
struct kr_wheel_point {
    char *name, *module, *attribute; /* "pip", "pip._internal.cli.main", "main" */
};

struct kr_texts {
    char **items;
    size_t count, room;
};
/* Appends a copy. 0 or -ENOMEM. */
int kr_texts_add(struct kr_texts *list, const char *text, size_t len);
/* In order, without doubles. */
void kr_texts_settle(struct kr_texts *list);
void kr_texts_done(struct kr_texts *list);

struct kr_wheel {
    struct kr_wheel_limits limits;
    struct kr_wheel_name name;
    char title[101], version[128]; /* as METADATA has them */
    struct kr_zip zip;
    struct kr_wheel_file *files;     /* one for each entry, in order of names in the archive */
    uint32_t file_count, made_count; /* made: files, and the folders that they lie in */
    char *info;                      /* "numpy-2.0.0.dist-info" */
    bool pure;
    struct kr_wheel_point *points;
    size_t point_count;
    struct kr_texts modules, scripts;
    struct kr_texts spread; /* folders of site/ that an environment makes of single links */
};

/* The file of this name in the archive, or NULL. */
struct kr_wheel_file *kr_wheel_find(const struct kr_wheel *w, const char *name, size_t len);

/* ---- wheel_texts.c: the texts in *.dist-info, hostile; each checks against the wheel ---- */

int kr_wheel_read_metadata(struct kr_wheel *w, const char *text, size_t len, struct kr_err *err);
int kr_wheel_read_wheel(struct kr_wheel *w, const char *text, size_t len, struct kr_err *err);
int kr_wheel_read_points(struct kr_wheel *w, const char *text, size_t len, struct kr_err *err);
/* ---- wheel_record.c ---- */
int kr_wheel_read_record(struct kr_wheel *w, const char *text, size_t len, struct kr_err *err);

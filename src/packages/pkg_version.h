/* Versions of distributions and the specifiers that ask for them, as PEP 440 has both. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KR_PKG_VERSION_MAX 128u /* bytes of a version's text */
#define KR_PKG_RELEASE_MAX 16u  /* numbers of 1.2.3 */
#define KR_PKG_LOCAL_MAX 64u    /* bytes of what stands behind the + */

/* 1!2.3rc4.post5.dev6+local.7. Numbers have at most 18 digits. */
struct kr_pkg_version {
    uint64_t epoch;
    uint64_t release[KR_PKG_RELEASE_MAX];
    unsigned release_count;
    char pre; /* 'a', 'b', 'r' (rc), or 0 */
    bool has_post, has_dev;
    uint64_t pre_number, post, dev;
    char local[KR_PKG_LOCAL_MAX]; /* lower case, separated by dots; "" : none */
};

enum kr_pkg_op {
    KR_PKG_EQ,         /* == */
    KR_PKG_NE,         /* != */
    KR_PKG_LE,         /* <= */
    KR_PKG_GE,         /* >= */
    KR_PKG_LT,         /* < */
    KR_PKG_GT,         /* > */
    KR_PKG_COMPATIBLE, /* ~= */
    KR_PKG_SAME_TEXT,  /* === */
    KR_PKG_OP_MAX_,
};
extern const char *const kr_pkg_op_names[KR_PKG_OP_MAX_];

/* One of a requirement's specifiers. */
struct kr_pkg_spec {
    enum kr_pkg_op op;
    bool wildcard;                 /* ==1.2.*, !=1.2.* */
    char text[KR_PKG_VERSION_MAX]; /* of the version, as it was written, without the wildcard */
    struct kr_pkg_version version; /* not of KR_PKG_SAME_TEXT */
};

/* In any spelling that PEP 440 allows ("v1.0-RC.1"). 0 or -EINVAL. */
int kr_pkg_version_parse(const char *text, size_t len, struct kr_pkg_version *ret_version);
/* The normal form; `size` of KR_PKG_VERSION_MAX is enough for what was read from at most that many bytes. Returns
 * out. */
const char *kr_pkg_version_text(const struct kr_pkg_version *v, char *out, size_t size);
/* < 0, 0, > 0. */
int kr_pkg_version_compare(const struct kr_pkg_version *a, const struct kr_pkg_version *b);
/* An a, b, rc or dev version. */
bool kr_pkg_version_is_pre(const struct kr_pkg_version *v);
/* The specifier's version: "1.0", "1.0.*", and for KR_PKG_SAME_TEXT anything. 0, or -EINVAL with *ret_why, a sentence
 * for a person. */
int kr_pkg_spec_parse(enum kr_pkg_op op, const char *text, size_t len, struct kr_pkg_spec *ret_spec,
                      const char **ret_why);
/* `text` is the version as it is written (=== compares that). Says nothing about whether pre-releases are wanted. */
bool kr_pkg_spec_matches(const struct kr_pkg_spec *spec, const char *text, const struct kr_pkg_version *v);

/* Wheels (PEP 427): checked as a whole, then unpacked. File work: on the thread pool.
 *
 * A wheel comes from outside and is hostile until proved otherwise. Invariants: nothing is written before the archive's
 * directory, the file name, METADATA, WHEEL and RECORD have been read and agree; every name stays beneath the folder;
 * every byte that is kept has the CRC of the archive and the hash of RECORD; nothing is a link, a device or setuid.
 * docs/design/packages.md has the list of what is refused. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_err;

#define KR_WHEEL_NAME_ROOM 256u

struct kr_wheel_limits {
    uint64_t archive_max; /* bytes of the file */
    uint64_t bytes_max;   /* bytes when unpacked */
    uint64_t file_max;    /* bytes of one file in it */
    uint32_t files_max;   /* files and folders */
    uint32_t ratio_max;   /* how many times larger a file may be than its compressed bytes, past 1 MiB */
};
/* 4 GiB, 8 GiB, 4 GiB, 100,000, 1,100: what a wheel of PyPI needs, and no more. */
extern const struct kr_wheel_limits kr_wheel_limits_default;

/* The parts of NAME-VERSION(-BUILD)?-PYTHON-ABI-PLATFORM.whl. */
struct kr_wheel_name {
    char name[101];    /* canonical */
    char version[128]; /* normal form */
    char build[32];    /* or "" */
    char python[64], abi[64], platform[160];
};
/* 0, or -EINVAL with err. */
int kr_wheel_name_parse(const char *file_name, struct kr_wheel_name *ret_name, struct kr_err *err);
/* Can a CPython of this version ("3.11.2") on this machine (glibc, its architecture) run such a wheel? The resolver has
 * judged the exact tags; this holds back what is plainly for another system. */
bool kr_wheel_name_fits(const struct kr_wheel_name *n, const char *python_version);

struct kr_wheel;

/* Opens and checks; fd stays the caller's and must not change until kr_wheel_free(). `file_name` is what the index
 * calls it. KR_ERR_INVALID: broken or hostile; KR_ERR_LIMIT: too large. */
int kr_wheel_open(int fd, const char *file_name, const struct kr_wheel_limits *limits, struct kr_wheel **ret_wheel,
                  struct kr_err *err);
void kr_wheel_free(struct kr_wheel *w);

/* Name and version as METADATA has them: "PyYAML", "6.0.1". */
const char *kr_wheel_title(const struct kr_wheel *w);
const char *kr_wheel_version(const struct kr_wheel *w);
uint64_t kr_wheel_bytes(const struct kr_wheel *w); /* when unpacked */
uint32_t kr_wheel_files(const struct kr_wheel *w); /* with the folders that they lie in */
/* What `import` finds in it: "numpy", "yaml", "_yaml"; in order of names. */
size_t kr_wheel_modules(const struct kr_wheel *w, const char *const **ret_modules);
/* The names of its commands. */
size_t kr_wheel_scripts(const struct kr_wheel *w, const char *const **ret_scripts);

/* Unpacks into an empty folder: site/ (purelib and platlib), bin/ (scripts, their first line is #!/venv/bin/python),
 * data/, headers/. *stop, if not NULL, is looked at between files: -ECANCELED. What was written stays after a failure:
 * the caller removes the folder. */
int kr_wheel_unpack(struct kr_wheel *w, int folder, const volatile bool *stop, struct kr_err *err);
/* Folders below site/ that an environment must make itself, with a link for each file, because a library in them looks
 * for others beside its own wheel ($ORIGIN/../../nvidia/cublas/lib). Known once the wheel is unpacked; in order. */
size_t kr_wheel_spread(const struct kr_wheel *w, const char *const **ret_folders);

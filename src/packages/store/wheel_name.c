/* File names of wheels. See wheel.h. */
#include "err.h"
#include "pkg_version.h"
#include "requirement.h"
#include "wheel_internal.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define SUFFIX ".whl"
#define PARTS_MAX 6u

static int refuse(struct kr_err *err, const char *file_name, const char *what)
{
    char shown[KR_ZIP_SHOWN_ROOM];

    kr_err_set(err, KR_ERR_INVALID, 0, "the wheel's name %s %s",
               kr_zip_show(file_name, strnlen(file_name, KR_WHEEL_NAME_ROOM), shown), what);
    return -EINVAL;
}

/* Copies a tag of letters, digits, dots and underscores. */
static bool copy_tag(const char *part, size_t len, char *to, size_t room)
{
    if (len == 0 || len >= room)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)part[i]) && part[i] != '_' && part[i] != '.')
            return false;
    memcpy(to, part, len);
    to[len] = '\0';
    return true;
}

int kr_wheel_name_parse(const char *file_name, struct kr_wheel_name *ret_name, struct kr_err *err)
{
    size_t len = strnlen(file_name, KR_WHEEL_NAME_ROOM), count = 0, lens[PARTS_MAX], start = 0;
    const char *parts[PARTS_MAX];
    struct kr_wheel_name n = {0};
    struct kr_pkg_version version;
    bool has_build;

    if (len >= KR_WHEEL_NAME_ROOM)
        return refuse(err, file_name, "is longer than 255 bytes");
    if (len <= strlen(SUFFIX) || strcmp(file_name + len - strlen(SUFFIX), SUFFIX) != 0)
        return refuse(err, file_name, "does not end with .whl");
    len -= strlen(SUFFIX);
    for (size_t i = 0; i <= len; i++) {
        if (i < len && file_name[i] != '-')
            continue;
        if (count == PARTS_MAX)
            return refuse(err, file_name, "has more than six parts");
        parts[count] = file_name + start;
        lens[count++] = i - start;
        start = i + 1;
    }
    if (count < 5)
        return refuse(err, file_name, "is not NAME-VERSION-PYTHON-ABI-PLATFORM.whl");
    has_build = count == 6;
    if (!kr_requirement_canonical(parts[0], lens[0], n.name))
        return refuse(err, file_name, "does not begin with the name of a distribution");
    if (lens[1] >= KR_PKG_VERSION_MAX || kr_pkg_version_parse(parts[1], lens[1], &version) < 0)
        return refuse(err, file_name, "has a version that is not one of PEP 440");
    kr_pkg_version_text(&version, n.version, sizeof n.version);
    if (has_build && (!isdigit((unsigned char)parts[2][0]) || !copy_tag(parts[2], lens[2], n.build, sizeof n.build)))
        return refuse(err, file_name, "has a build number that does not begin with a digit");
    if (!copy_tag(parts[count - 3], lens[count - 3], n.python, sizeof n.python) ||
        !copy_tag(parts[count - 2], lens[count - 2], n.abi, sizeof n.abi) ||
        !copy_tag(parts[count - 1], lens[count - 1], n.platform, sizeof n.platform))
        return refuse(err, file_name,
                      "has a tag that is empty, too long or has other characters than letters and digits");
    *ret_name = n;
    return 0;
}

/* ---- does it fit ---- */

/* Calls `fits` for each of the tags between dots. */
static bool any_tag(const char *tags, bool (*fits)(const char *tag, const void *data), const void *data)
{
    char tag[160];

    for (const char *at = tags;; at++) {
        size_t len = strcspn(at, ".");

        if (len < sizeof tag) {
            memcpy(tag, at, len);
            tag[len] = '\0';
            if (fits(tag, data))
                return true;
        }
        at += len;
        if (!*at)
            return false;
    }
}

struct python {
    unsigned major, minor;
    bool stable; /* the wheel is for the stable ABI, or needs none: later versions do, too */
};

static bool python_fits(const char *tag, const void *data)
{
    const struct python *p = data;
    unsigned major = 0, minor = 0;
    bool cpython = strncmp(tag, "cp", 2) == 0;
    int n = 0;

    if (!cpython && strncmp(tag, "py", 2) != 0)
        return false;
    if (sscanf(tag + 2, "%1u%n", &major, &n) != 1 || major != p->major)
        return false;
    if (tag[2 + n] == '\0')
        return true;
    if (strspn(tag + 2 + n, "0123456789") != strlen(tag + 2 + n) || sscanf(tag + 2 + n, "%3u", &minor) != 1)
        return false;
    return minor == p->minor || (minor < p->minor && (!cpython || p->stable));
}

static bool abi_fits(const char *tag, const void *data)
{
    const struct python *p = data;
    char own[24];

    snprintf(own, sizeof own, "cp%u%u", p->major, p->minor);
    return strcmp(tag, "none") == 0 || strcmp(tag, "abi3") == 0 || strcmp(tag, own) == 0;
}

static bool platform_fits(const char *tag, const void *data)
{
    const struct utsname *machine = data;
    size_t len = strlen(tag), end = strlen(machine->machine);

    if (strcmp(tag, "any") == 0)
        return true;
    if (strncmp(tag, "linux_", 6) != 0 && strncmp(tag, "manylinux", 9) != 0)
        return false;
    return len > end && tag[len - end - 1] == '_' && strcmp(tag + len - end, machine->machine) == 0;
}

static bool is_stable(const char *tag, const void *data)
{
    (void)data;
    return strcmp(tag, "abi3") == 0 || strcmp(tag, "none") == 0;
}

bool kr_wheel_name_fits(const struct kr_wheel_name *n, const char *python_version)
{
    struct python python = {.stable = any_tag(n->abi, is_stable, NULL)};
    struct utsname machine;

    if (sscanf(python_version, "%2u.%3u", &python.major, &python.minor) != 2 || uname(&machine) < 0)
        return false;
    return any_tag(n->python, python_fits, &python) && any_tag(n->abi, abi_fits, &python) &&
           any_tag(n->platform, platform_fits, &machine);
}

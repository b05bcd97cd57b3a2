/* Names of files and projects as they come from outside.
 *
 * Called for what fetches are named after, and for folders of wheels. Invariant: a file's name that comes out is one
 * part of a path, without control characters, and neither "." nor "..". */
#include "file_name.h"
#include <string.h>
#include <strings.h>

/* ---- Content-Disposition (RFC 6266) ---- */

/* What stands behind "filename=", or NULL. Values in quotes are passed over as a whole. */
static const char *find_filename(const char *at)
{
    static const char wanted[] = "filename=";

    at += strcspn(at, ";"); /* the first word is the kind */
    while (*at == ';') {
        at += 1 + strspn(at + 1, " \t");
        if (strncasecmp(at, wanted, sizeof wanted - 1) == 0)
            return at + sizeof wanted - 1;
        for (bool quoted = false; *at && (quoted || *at != ';'); at++) {
            if (quoted && *at == '\\' && at[1])
                at++;
            else if (*at == '"')
                quoted = !quoted;
        }
    }
    return NULL;
}

const char *kr_disposition_name(const char *field, char *buf, size_t size)
{
    const char *at = find_filename(field);
    bool quoted = at && *at == '"';
    size_t n = 0;

    for (at = at ? at + quoted : ""; *at && (quoted ? *at != '"' : *at != ';' && *at != ' '); at++) {
        if (quoted && *at == '\\' && at[1])
            at++;
        if (*at == '/' || *at == '\\')
            n = 0;
        else if ((unsigned char)*at >= 0x20 && *at != 0x7f && n + 1 < size)
            buf[n++] = *at;
    }
    buf[n] = '\0';
    if (strcmp(buf, ".") == 0 || strcmp(buf, "..") == 0)
        buf[0] = '\0';
    return buf;
}

/* ---- wheels and sdists ---- */

const char *kr_project_canonical(const char *name, size_t len, char *buf, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n + 1 < size; i++) {
        char c = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] | 32) : name[i];

        if (c != '-' && c != '_' && c != '.')
            buf[n++] = c;
        else if (n > 0 && buf[n - 1] != '-')
            buf[n++] = '-';
    }
    buf[n] = '\0';
    return buf;
}

static bool ends_in(const char *name, const char *tail)
{
    size_t n = strlen(name), t = strlen(tail);

    return n > t && strcmp(name + n - t, tail) == 0;
}

static bool has_plain_name(const char *name)
{
    for (; *name; name++) {
        char low = (char)(*name | 32);

        if (!(*name >= '0' && *name <= '9') && !(low >= 'a' && low <= 'z') && !strchr("-_.+!", *name))
            return false;
    }
    return true;
}

/* The name ends before the first "-" of a wheel, before the last one of an sdist. */
bool kr_project_of_file(const char *name, char *buf, size_t size)
{
    const char *dash = NULL;

    if (*name == '.' || !has_plain_name(name))
        return false;
    if (ends_in(name, ".whl"))
        dash = strchr(name, '-');
    else if (ends_in(name, ".tar.gz") || ends_in(name, ".zip"))
        dash = strrchr(name, '-');
    if (!dash || dash == name)
        return false;
    kr_project_canonical(name, (size_t)(dash - name), buf, size);
    return true;
}

/* What routes say of themselves: their voice, and the tags they are sorted under. Called by the gate, by reply.c and
 * by the writer of OpenAPI.
 *
 * Invariant: every request has a voice, also one whose path has no route. */
#include "route_doc.h"
#include "http.h"
#include <stdio.h>
#include <string.h>

/* clang-format off */
const struct kr_api_tag kr_api_tags[] = {
    {"runs",      "Run code, follow a run's output, cancel it, read it again."},
    {"sessions",  "Live interpreters that keep their variables between runs."},
    {"sandboxes", "Files, packages and limits of their own, which outlive a restart."},
    {"packages",  "Python packages of a sandbox: install, upgrade, uninstall, list, freeze."},
    {"templates", "Sandboxes as they were saved, which new ones begin with."},
    {"terminals", "Programs on a terminal in a sandbox, for a person: a shell, an editor."},
    {"jobs",      "Background work: how far it is, what it left, cancel it."},
    {"files",     "Files of a sandbox: list, read, write, delete."},
    {"tools",     "What models call over MCP, as plain HTTP."},
    {"users",     "People and their rights. For administrators."},
    {"keys",      "Keys for the API: made once, shown once, revoked at any time."},
    {"secrets",   "Values that go to hosts on behalf of code which never has them."},
    {"account",   "One's own account: registration, login, key."},
    {"connections", "What sandboxes connected to, and what they were refused."},
    {"security",  "What code was refused, and which limits it hit."},
    {"audit",     "Who did what, and what was refused."},
    {"info",      "What this server is and can do, and how it is."},
    {KR_API_TAG_000, "Routes of the server that document 000 describes, as its clients know them."},
    {KR_API_TAG_002, "Routes of the server that document 002 describes, as its clients know them."},
    {KR_API_TAG_004, "Routes of the server that document 004 describes, as its clients know them."},
    {NULL, NULL},
};
/* clang-format on */

const struct kr_api_doc *kr_api_doc_of(const struct kr_http_ex *ex)
{
    const struct kr_http_route *route = kr_http_route(ex);

    return route ? route->doc : NULL;
}

enum kr_api_voice kr_api_voice_of(const struct kr_http_ex *ex)
{
    const struct kr_api_doc *doc = kr_api_doc_of(ex);

    return doc ? doc->voice : kr_api_voice_of_path(NULL, 0, kr_http_path(ex));
}

/* Segment by segment, without decoding: it only chooses the voice. */
static bool fits(const char *pattern, const char *path)
{
    while (*pattern == '/' && *path == '/') {
        size_t a = strcspn(++pattern, "/"), b = strcspn(++path, "/");

        if (pattern[0] == '{') {
            if (a >= 2 && pattern[a - 2] == '*')
                return *path != '\0';
            if (!b)
                return false;
        } else if (a != b || memcmp(pattern, path, a) != 0) {
            return false;
        }
        pattern += a;
        path += b;
    }
    return !*pattern && !*path;
}

enum kr_api_voice kr_api_voice_of_path(const struct kr_http_route *routes, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++) {
        const struct kr_api_doc *doc = routes[i].doc;

        if (doc && routes[i].pattern[1] != '{' && fits(routes[i].pattern, path)) /* not what catches all the rest */
            return doc->voice;
    }
    return strncmp(path, "/api/v1/", 8) == 0 || strcmp(path, "/api/v1") == 0 ? KR_API_KRAIT : KR_API_DOCUMENT;
}

/* ---- patterns ---- */

const char *kr_api_path_of(const char *pattern, char *buf)
{
    size_t n = 0;

    for (; *pattern && n < KR_API_PATH_MAX - 1; pattern++)
        if (*pattern != '*' || pattern[1] != '}')
            buf[n++] = *pattern;
    buf[n] = '\0';
    return buf;
}

bool kr_api_next_param(const char **at, char *name, bool *ret_rest)
{
    const char *open = strchr(*at, '{'), *close = open ? strchr(open, '}') : NULL;
    size_t len;

    if (!close)
        return false;
    len = (size_t)(close - open - 1);
    *ret_rest = len && close[-1] == '*';
    len -= *ret_rest;
    snprintf(name, KR_API_NAME_MAX, "%.*s", (int)len, open + 1);
    *at = close + 1;
    return true;
}

/* Addresses of files, sessions and runs: written, and read back from what a client sends. Used by tools, resources and
 * completion.
 *
 * Invariant: what kr_mcp_uri_file() and kr_mcp_uri_session() write, kr_mcp_uri_parse() reads back as the same bytes;
 * what it reads has no NUL in it and fits its room. Whether such a thing exists, and whose it is, is not asked here. */
#include "uri.h"
#include "api.h"
#include "buf.h"
#include "links.h"
#include "query.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const schemes[KR_URI_KIND_MAX_] = {"sandbox://", "session://", "run://"};

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Percent-decoding into any bytes but NUL (a path need not be UTF-8). -EINVAL: broken, or no room. */
static int decode(const char *text, size_t len, char *out, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        int byte = (unsigned char)text[i];

        if (byte == '%') {
            int high = i + 2 < len ? hex(text[i + 1]) : -1;

            if (high < 0 || hex(text[i + 2]) < 0)
                return -EINVAL;
            byte = high * 16 + hex(text[i + 2]);
            i += 2;
        }
        if (byte == 0 || n + 1 >= room)
            return -EINVAL;
        out[n++] = (char)byte;
    }
    out[n] = '\0';
    return 0;
}

int kr_mcp_uri_parse(const char *text, struct kr_mcp_uri *ret)
{
    const char *slash;
    size_t id_len;

    if (strnlen(text, KR_MCP_URI_MAX + 1) > KR_MCP_URI_MAX || strpbrk(text, "?#"))
        return -EINVAL;
    for (int kind = 0; kind < KR_URI_KIND_MAX_; kind++) {
        size_t n = strlen(schemes[kind]);

        if (strncmp(text, schemes[kind], n) != 0)
            continue;
        text += n;
        ret->kind = (enum kr_mcp_uri_kind)kind;
        ret->path[0] = '\0';
        slash = strchr(text, '/');
        id_len = slash ? (size_t)(slash - text) : strlen(text);
        if (id_len == 0 || (slash && kind != KR_URI_SANDBOX))
            return -EINVAL;
        if (decode(text, id_len, ret->id, sizeof ret->id) < 0)
            return -EINVAL;
        return slash ? decode(slash + 1, strlen(slash + 1), ret->path, sizeof ret->path) : 0;
    }
    return -EINVAL;
}

int kr_mcp_uri_file(struct kr_buf *out, const char *sandbox, const char *path)
{
    kr_buf_add_str(out, schemes[KR_URI_SANDBOX]);
    kr_percent_encode(out, sandbox, strlen(sandbox), "");
    kr_buf_add_str(out, "/");
    return kr_percent_encode(out, path, strlen(path), "/");
}

int kr_mcp_uri_session(struct kr_buf *out, const char *name)
{
    kr_buf_add_str(out, schemes[KR_URI_SESSION]);
    return kr_percent_encode(out, name, strlen(name), "");
}

/* ---- links ---- */

static bool is_loopback(const char *address)
{
    return !address[0] || strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strncmp(address, "::ffff:127.", 11) == 0;
}

int kr_mcp_link_add(const struct kr_mcp_call *c, const char *sandbox, const char *path, bool document,
                    struct kr_buf *out)
{
    const struct kr_caller *who = kr_mcp_caller(c);
    const struct kr_api *api = kr_mcp_api(c);
    const char *base = kr_mcp_base_url(c);
    struct kr_err err;

    if (!base || !base[0] || !api->files)
        return -ENOTSUP;
    return kr_link_add_at(api, base, who->user, sandbox, path, document, api->config.auth || !is_loopback(who->address),
                          out, &err);
}

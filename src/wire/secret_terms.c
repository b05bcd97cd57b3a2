/* Bounds and spellings of secrets.
 *
 * Called by the server for what a client sends, and by the egress process for what the server sends. Invariants: a
 * value that passes can stand in a field of HTTP as it is; a host that passes is one host, in one spelling. */
#include "secret_terms.h"
#include "net_item.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TLS_PORT 443u
#define TLS "https://"
#define PLAIN "http://"

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static int wrong(struct kr_err *err, const char *text)
{
    return kr_err_set(err, KR_ERR_INVALID, 0, "%s", text), -EINVAL;
}

int kr_secret_name_check(const char *name, struct kr_err *err)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < len; i++)
        if (!is_word_char(name[i]) && (i == 0 || !strchr("-_.", name[i])))
            return wrong(err, "a name of letters, digits, \"-\", \"_\" and \".\", which begins with a letter or digit");
    return len > 0 && len <= KR_SECRET_NAME_MAX ? 0 : wrong(err, "1 to 64 characters");
}

/* A value that repeats its begin would make a search for it as slow as it is long. */
static bool repeats_begin(const char *value, size_t len)
{
    for (size_t i = 1; i + KR_SECRET_VALUE_MIN <= len; i++)
        if (strncasecmp(value, value + i, KR_SECRET_VALUE_MIN) == 0)
            return true;
    return false;
}

int kr_secret_value_check(const char *value, size_t len, struct kr_err *err)
{
    for (size_t i = 0; i < len; i++)
        if (value[i] < 0x20 || value[i] > 0x7e)
            return wrong(err, "printable ASCII alone, no line ends and no control characters: it stands in a header");
    if (len < KR_SECRET_VALUE_MIN || len > KR_SECRET_VALUE_MAX)
        return wrong(err, "8 to 2048 characters: a shorter one could not be told from other text in a reply");
    if (value[0] == ' ' || value[len - 1] == ' ')
        return wrong(err, "no blank at its begin or end");
    if (repeats_begin(value, len))
        return wrong(err, "its first 8 characters come again in it: such a value cannot be searched for in replies");
    for (size_t i = 0; i + sizeof KR_SECRET_PREFIX - 1 <= len; i++)
        if (memcmp(value + i, KR_SECRET_PREFIX, sizeof KR_SECRET_PREFIX - 1) == 0)
            return wrong(err, "this looks like a placeholder of krait (" KR_SECRET_PREFIX "…), not like a secret");
    return 0;
}

bool kr_secret_is_placeholder(const char *text)
{
    if (strlen(text) != KR_SECRET_PLACEHOLDER_LEN || strncmp(text, KR_SECRET_PREFIX, sizeof KR_SECRET_PREFIX - 1) != 0)
        return false;
    for (const char *p = text + sizeof KR_SECRET_PREFIX - 1; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9')))
            return false;
    return true;
}

int kr_secret_host_read(const char *text, struct kr_secret_host *ret_host, struct kr_err *err)
{
    bool plain = strncmp(text, PLAIN, sizeof PLAIN - 1) == 0;
    const char *rest = plain                                     ? text + sizeof PLAIN - 1
                       : strncmp(text, TLS, sizeof TLS - 1) == 0 ? text + sizeof TLS - 1
                                                                 : text;
    char lower[KR_SECRET_HOST_ROOM];
    struct kr_net_item item;

    if (snprintf(lower, sizeof lower, "%s", rest) >= (int)sizeof lower)
        return wrong(err, "longer than a host can be");
    kr_net_item_lower(lower, strlen(lower));
    if (kr_net_item_read(lower, strlen(lower), &item, NULL) < 0 || item.wild || item.plain || item.methods_len > 0 ||
        item.path_len > 0 || strchr(lower, '/'))
        return wrong(err, "HOST, HOST:PORT, https://HOST:PORT or http://HOST:PORT: one host, no pattern and no path");
    if (plain && item.port == 0)
        return wrong(err, "plain HTTP is allowed by its port alone: http://HOST:PORT");
    *ret_host = (struct kr_secret_host){.tls = !plain, .port = item.port ? item.port : TLS_PORT};
    snprintf(ret_host->host, sizeof ret_host->host, "%.*s", (int)item.host_len, item.host);
    return 0;
}

const char *kr_secret_host_text(const struct kr_secret_host *host, char *buf, size_t size)
{
    snprintf(buf, size, "%s%s:%u", host->tls ? TLS : PLAIN, host->host, host->port);
    return buf;
}

/* Taking the key out of a request. Called by auth.c, for each request once or twice.
 *
 * Invariant: two different keys never become one of them: what put them there (a proxy, a page) would not know whose
 * request it is. */
#include "credential.h"
#include "http.h"
#include "query.h"
#include <sodium.h>
#include <string.h>
#include <strings.h>

/* Is it something a key can be? The configured one: visible ASCII (docs/design/config.md). */
static bool is_key(const char *text, size_t len)
{
    if (len > KR_CREDENTIAL_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return true;
}

static void add_credential(struct kr_credential *c, const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || c->state == KR_CREDENTIAL_CLASH)
        return;
    if (!is_key(text, len)) {
        c->state = c->state == KR_CREDENTIAL_ONE ? KR_CREDENTIAL_CLASH : KR_CREDENTIAL_ODD;
        return;
    }
    if (c->state != KR_CREDENTIAL_NONE) {
        if (c->state == KR_CREDENTIAL_ODD || strcmp(c->text, text) != 0)
            c->state = KR_CREDENTIAL_CLASH;
        return;
    }
    c->state = KR_CREDENTIAL_ONE;
    memcpy(c->text, text, len + 1);
}

static void add_bearer(struct kr_credential *c, const char *value)
{
    if (strncasecmp(value, "bearer", 6) != 0 || (value[6] != ' ' && value[6] != '\0'))
        return;
    value += 6;
    add_credential(c, value + strspn(value, " "));
}

/* What a page offers beside the protocol it wants, as it cannot set a header: the key in base64url without padding. */
static void add_protocol(struct kr_credential *c, const char *list)
{
    static const char prefix[] = KR_CREDENTIAL_PROTOCOL;
    char text[KR_CREDENTIAL_MAX + 2];
    size_t len;

    for (; *list; list += strcspn(list, ", \t")) {
        list += strspn(list, ", \t");
        if (strncmp(list, prefix, sizeof prefix - 1) != 0)
            continue;
        list += sizeof prefix - 1;
        if (sodium_base642bin((unsigned char *)text, sizeof text - 1, list, strcspn(list, ", \t"), NULL, &len, NULL,
                              sodium_base64_VARIANT_URLSAFE_NO_PADDING) < 0)
            len = 0;
        text[len] = '\0';
        add_credential(c, len > 0 && strlen(text) == len ? text : " "); /* " ": one that no key looks like */
    }
    sodium_memzero(text, sizeof text);
}

static void add_query(struct kr_credential *c, const char *text)
{
    cleanup_query struct kr_query q = {0};

    /* Nearly no query has one: a look saves the parse. A name may be written with %-sequences. */
    if (*text == '\0' || (!strstr(text, "api_key") && !strchr(text, '%')))
        return;
    if (kr_query_parse(&q, text, strlen(text), NULL) < 0)
        return; /* malformed: the handler says so, if another key lets it through */
    for (unsigned i = 0; i < q.count; i++)
        if (strcmp(q.pairs[i].key, "api_key") == 0)
            add_credential(c, q.pairs[i].value);
}

void kr_credential_read(const struct kr_http_ex *ex, struct kr_credential *ret)
{
    const char *name, *value;

    ret->state = KR_CREDENTIAL_NONE;
    ret->text[0] = '\0';
    for (unsigned i = 0; kr_http_header_at(ex, i, &name, &value); i++) {
        if (strcasecmp(name, "authorization") == 0)
            add_bearer(ret, value);
        else if (strcasecmp(name, "x-api-key") == 0)
            add_credential(ret, value);
        else if (strcasecmp(name, "sec-websocket-protocol") == 0)
            add_protocol(ret, value);
    }
    add_query(ret, kr_http_query(ex));
}

void kr_credential_done(struct kr_credential *c)
{
    sodium_memzero(c, sizeof *c);
}

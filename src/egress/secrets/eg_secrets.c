/* The secrets of a cell. See eg_secrets.h.
 *
 * Called by egress_cells.c for what the engine says, by eg_http.c and eg_tunnel.c for requests. Invariants: a value
 * goes into memory that is wiped when the last user lets go; what the engine says is checked by the same rules by
 * which the server took it from a client. */
#include "eg_secrets.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct secret {
    char name[KR_SECRET_NAME_MAX + 1], placeholder[KR_SECRET_PLACEHOLDER_LEN + 1], value[KR_SECRET_VALUE_MAX + 1];
    struct kr_secret_host hosts[KR_SECRET_HOSTS_MAX];
    size_t host_count;
};

struct kr_eg_secrets {
    unsigned refs;
    size_t count;
    struct secret list[];
};

static void wipe_string(json_t *text)
{
    char *bytes = (char *)(uintptr_t)json_string_value(text);

    if (bytes)
        explicit_bzero(bytes, json_string_length(text));
}

static const char *text_of(const json_t *o, const char *name)
{
    const json_t *value = json_object_get(o, name);
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : "";
}

static int read_secret(const json_t *o, struct secret *s)
{
    const char *name = text_of(o, "name"), *placeholder = text_of(o, "placeholder"), *value = text_of(o, "value");
    const json_t *hosts = json_object_get(o, "hosts");

    if (kr_secret_name_check(name, NULL) < 0 || !kr_secret_is_placeholder(placeholder) ||
        kr_secret_value_check(value, strlen(value), NULL) < 0 || json_array_size(hosts) > KR_SECRET_HOSTS_MAX)
        return -EINVAL;
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->placeholder, sizeof s->placeholder, "%s", placeholder);
    snprintf(s->value, sizeof s->value, "%s", value);
    for (; s->host_count < json_array_size(hosts); s->host_count++) {
        const char *text = json_string_value(json_array_get(hosts, s->host_count));

        if (!text || kr_secret_host_read(text, &s->hosts[s->host_count], NULL) < 0)
            return -EINVAL;
    }
    return 0;
}

int kr_eg_secrets_read(json_t *list, struct kr_eg_secrets **ret_secrets)
{
    size_t count = json_array_size(list);
    struct kr_eg_secrets *s;
    int r = 0;

    *ret_secrets = NULL;
    if (count > KR_SECRETS_MAX || (list && !json_is_array(list) && !json_is_null(list)))
        return -EINVAL;
    if (count == 0)
        return 0;
    s = calloc(1, sizeof *s + count * sizeof s->list[0]);
    if (!s)
        return -ENOMEM;
    s->refs = 1;
    for (s->count = 0; r == 0 && s->count < count; s->count++) {
        json_t *o = json_array_get(list, s->count);

        r = read_secret(o, &s->list[s->count]);
        wipe_string(json_object_get(o, "value"));
    }
    if (r < 0)
        kr_eg_secrets_unref(s);
    else
        *ret_secrets = s;
    return r;
}

void kr_eg_secrets_unref(struct kr_eg_secrets *s)
{
    if (!s || --s->refs > 0)
        return;
    explicit_bzero(s->list, s->count * sizeof s->list[0]);
    free(s);
}

/* ---- of a request ---- */

static bool is_for(const struct secret *s, const char *host, uint16_t port, bool tls)
{
    for (size_t i = 0; i < s->host_count; i++)
        if (s->hosts[i].tls == tls && s->hosts[i].port == port && strcmp(s->hosts[i].host, host) == 0)
            return true;
    return false;
}

bool kr_eg_secrets_are_for(const struct kr_eg_secrets *s, const char *host, uint16_t port, bool tls)
{
    for (size_t i = 0; s && i < s->count; i++)
        if (is_for(&s->list[i], host, port, tls))
            return true;
    return false;
}

int kr_eg_bound_open(struct kr_eg_secrets *s, const char *host, uint16_t port, bool tls, struct kr_eg_bound *ret_bound)
{
    int r;

    *ret_bound = (struct kr_eg_bound){.all = NULL};
    if (!kr_eg_secrets_are_for(s, host, port, tls))
        return 0;
    r = kr_secret_mask_new(NULL, &ret_bound->mask);
    for (size_t i = 0; r == 0 && i < s->count; i++)
        if (is_for(&s->list[i], host, port, tls)) {
            ret_bound->pairs[ret_bound->count] = (struct kr_secret_pair){s->list[i].placeholder, s->list[i].value};
            ret_bound->names[ret_bound->count++] = s->list[i].name;
            r = kr_secret_mask_add(ret_bound->mask, s->list[i].value);
        }
    ret_bound->all = s;
    s->refs++;
    if (r < 0)
        kr_eg_bound_close(ret_bound);
    return r;
}

void kr_eg_bound_close(struct kr_eg_bound *b)
{
    kr_secret_mask_free(b->mask);
    kr_eg_secrets_unref(b->all);
    *b = (struct kr_eg_bound){.all = NULL};
}

void kr_eg_bound_names(const struct kr_eg_bound *b, uint32_t used, char *buf, size_t size)
{
    size_t at = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < b->count && at < size; i++)
        if (used & UINT32_C(1) << i)
            at += (size_t)snprintf(buf + at, size - at, "%s%s", at > 0 ? "," : "", b->names[i]);
}

/* What the server and the egress process agree on about secrets: their bounds, the form of a placeholder, and where a
 * secret may go. Pure.
 *
 * A host of a secret is text: "https://HOST:PORT" (TLS) or "http://HOST:PORT" (plain HTTP). HOST is a name or an IPv4
 * address, in lower case, never a pattern. */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KR_SECRET_NAME_MAX 64u    /* letters, digits, "-", "_", "." */
#define KR_SECRET_VALUE_MIN 8u    /* what is shorter cannot be told from other text in a reply */
#define KR_SECRET_VALUE_MAX 2048u /* printable ASCII, no blank at either end */
#define KR_SECRET_HOSTS_MAX 8u
#define KR_SECRET_HOST_ROOM 272u /* "https://", 253 bytes, ":65535" */
#define KR_SECRETS_MAX 8u        /* of one sandbox */

#define KR_SECRET_PREFIX "krait-secret-"
#define KR_SECRET_TAIL 32u /* characters of a-z and 0-9 behind it */
#define KR_SECRET_PLACEHOLDER_LEN (sizeof KR_SECRET_PREFIX - 1 + KR_SECRET_TAIL)

struct kr_secret_host {
    bool tls;
    char host[254];
    uint16_t port;
};

/* Each is 0, or -EINVAL with err (KR_ERR_INVALID), which names no field and never shows a value. */
int kr_secret_name_check(const char *name, struct kr_err *err);
int kr_secret_value_check(const char *value, size_t len, struct kr_err *err);
bool kr_secret_is_placeholder(const char *text);
/* "HOST", "HOST:PORT" and "https://HOST[:PORT]" are TLS, of port 443 without one; "http://HOST:PORT" names its port. */
int kr_secret_host_read(const char *text, struct kr_secret_host *ret_host, struct kr_err *err);
/* The one spelling. Returns buf, of KR_SECRET_HOST_ROOM. */
const char *kr_secret_host_text(const struct kr_secret_host *host, char *buf, size_t size);

/* Which addresses the egress process connects to: those of the public internet. Pure but for kr_eg_address_is_own(). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define KR_EG_HOST_ROOM 256 /* a name of at most 253 bytes, lower case, without its last dot */

/* What a host is by its spelling. */
enum kr_eg_host_kind {
    KR_EG_HOST_NAME,    /* to be resolved */
    KR_EG_HOST_LITERAL, /* an address, and *ret_address is it */
    KR_EG_HOST_BAD, /* neither: what some resolvers would take for an address ("127.1", "0x7f000001", "fe80::1%2") */
};

/* `host` without brackets. Addresses of IPv4 are four decimal numbers without leading zeros; those of IPv6 are what
 * inet_pton(3) reads. */
enum kr_eg_host_kind kr_eg_host_read(const char *host, struct sockaddr_storage *ret_address);

enum kr_eg_address_use {
    KR_EG_ADDRESS_PUBLIC,
    KR_EG_ADDRESS_RESERVED, /* refused, unless the administrator named the host */
    KR_EG_ADDRESS_NEVER,    /* no host is there: refused always */
};

/* *ret_what: "a private address", or NULL of a public one. */
enum kr_eg_address_use kr_eg_address_use(const struct sockaddr *address, const char **ret_what);
/* Whether this machine has the address (also as one that is embedded in an address of IPv6). Asks the kernel; true if
 * it cannot be asked. */
bool kr_eg_address_is_own(const struct sockaddr *address);
/* As text, the spelling of RFC 5952. Returns buf. */
const char *kr_eg_address_text(const struct sockaddr *address, char *buf, size_t size);
void kr_eg_address_set_port(struct sockaddr_storage *address, uint16_t port);

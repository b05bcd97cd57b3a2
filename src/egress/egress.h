/* The egress process: the one process of krait that connects to anything (docs/design/egress.md).
 *
 * The warden forks it and calls kr_egress_main() in it; the other end of `fd` is the engine's (src/engine/
 * egress_client.h). Invariant: nothing is connected to that the rule of the asking cell does not name, nor at an
 * address that the table in address.c refuses. */
#pragma once
#include "words.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bounds; 0: as in kr_egress_limits_default. */
struct kr_egress_limits {
    uint32_t cell_connections;    /* open at a time, of one cell; one more is answered 429 */
    uint32_t sandbox_connections; /* the same of one sandbox */
    uint32_t connections;         /* of all; one more waits in its listening socket */
    uint32_t head_bytes;          /* of a request's head, at most 16 KiB; a longer one is 431 */
    uint32_t head_ms;             /* until a request's head is whole; a later one is 408 */
    uint32_t resolve_ms;          /* a name; 504 */
    uint32_t connect_ms;          /* all addresses of a name together; 504 */
    uint32_t idle_ms;             /* without a byte in either direction; closed */
    uint64_t total_ms;            /* the life of a connection; closed */
    uint64_t connection_bytes;    /* both directions of one connection; closed */
    uint64_t hour_bytes;          /* both directions of one sandbox in a clock hour; closed, new ones are 429 */
    uint32_t sandbox_lookups;     /* names that are being resolved for one sandbox; one more waits */
    uint32_t fetches;             /* of the server itself, at a time; one more waits */
};
extern const struct kr_egress_limits kr_egress_limits_default;

/* Borrowed for the life of the process. */
struct kr_egress_config {
    /* The index. */
    const char *index_url;  /* "https://pypi.org/simple/", "file:///a/folder/of/wheels"; NULL: there is none */
    const char *index_user; /* of Basic authentication; NULL: none */
    const char *index_password;
    struct kr_words index_hosts; /* "NAME[:PORT]": hosts of files besides that of index_url */
    /* Trust. */
    const char *ca_file; /* certificates that servers are checked with; NULL: the system's */
    /* Addresses. */
    struct kr_words private_hosts; /* "NAME[:PORT]" that may be at addresses which are refused otherwise; a rule must
                                      still name them */
    struct kr_words own_hosts;     /* "NAME[:PORT]" by which this server itself is reached: refused always */
    const uint16_t *own_ports;     /* ports that this server listens on: refused on every address of this machine */
    size_t own_ports_count;
    const char *resolv_conf; /* "/etc/resolv.conf" if NULL: what Landlock lets be read for it */
    struct kr_egress_limits limits;
};

/* The process: restricts itself, then serves until `fd` (a SEQPACKET socket) ends. Returns its exit status. */
int kr_egress_main(int fd, const struct kr_egress_config *config);

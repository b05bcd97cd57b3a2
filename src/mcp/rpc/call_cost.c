/* What requests in flight cost: a call keeps its message until it is answered, a session what `initialize`
 * declared. Called by call.c and handshake.c.
 *
 * Invariant: m->in_flight is the sum of the costs of all calls; large ones are taken up only while they fit, into their
 * user's share and that of all, so that no user fills memory with open requests. Small ones always are: how many
 * there can be is bounded by connections and by the calls of a peer. */
#include "mcp_internal.h"
#include <string.h>

/* Of jansson's values on a 64-bit machine, with what malloc adds. */
#define VALUE_BYTES 48u
#define MEMBER_BYTES 96u
#define CONTAINER_BYTES 192u
#define SLOT_BYTES 8u /* of an array */

size_t kr_mcp_cost(const json_t *value)
{
    size_t cost = VALUE_BYTES, i;
    const char *key;
    json_t *item;

    if (json_is_string(value))
        return cost + json_string_length(value);
    if (json_is_object(value))
        json_object_foreach((json_t *)value, key, item) cost += MEMBER_BYTES + strlen(key) + kr_mcp_cost(item);
    else if (json_is_array(value))
        json_array_foreach(value, i, item) cost += SLOT_BYTES + kr_mcp_cost(item);
    return json_is_object(value) || json_is_array(value) ? cost + CONTAINER_BYTES : cost;
}

/* What this user's calls hold, tasks included. */
static size_t in_flight_of(const struct kr_mcp *m, const char *user)
{
    const struct kr_mcp_peer *p;
    const struct kr_mcp_call *c;
    size_t sum = 0;

    TAILQ_FOREACH(p, &m->peers, entry)
    TAILQ_FOREACH(c, &p->calls, entry)
    sum += strcmp(c->who.user, user) == 0 ? c->cost : 0;
    TAILQ_FOREACH(c, &m->detached, entry)
    sum += strcmp(c->who.user, user) == 0 ? c->cost : 0;
    return sum;
}

bool kr_mcp_has_room(const struct kr_mcp *m, const char *user, size_t cost)
{
    if (cost < KR_MCP_LARGE)
        return true;
    return m->in_flight + cost <= KR_MCP_IN_FLIGHT_MAX && in_flight_of(m, user) + cost <= KR_MCP_IN_FLIGHT_PER_USER;
}

/* Variables that a session of a network beyond loopback begins with.
 *
 * Called by the box and by `krait run`; what a sandbox sets itself comes before them. Each is what a program of the
 * world already looks for: no program has to know of krait. ALL_PROXY is not among them: what it would add to the
 * others are schemes that the proxy does not speak, and some clients take it for a SOCKS server. */
#include "egress_env.h"
#include "proto.h"

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
#define AT_HOME "127.0.0.1,localhost,::1"
#define PROXY "http://127.0.0.1:" TEXT_OF(KR_EGRESS_PORT)
#define INDEX PROXY "/index/simple/"

const struct kr_egress_var kr_egress_vars[] = {
    {"HTTP_PROXY", PROXY},    {"HTTPS_PROXY", PROXY},      {"NO_PROXY", AT_HOME},
    {"http_proxy", PROXY},    {"https_proxy", PROXY},      {"no_proxy", AT_HOME},
    {"PIP_INDEX_URL", INDEX}, {"UV_DEFAULT_INDEX", INDEX}, {"UV_INDEX_URL", INDEX},
};
const size_t kr_egress_vars_count = sizeof kr_egress_vars / sizeof *kr_egress_vars;

size_t kr_egress_vars_of(const struct kr_net_rule *rule)
{
    return rule->kind >= KR_NET_EGRESS_MIN_ ? kr_egress_vars_count : 0;
}

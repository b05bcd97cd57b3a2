/* What an engine tells its egress process first, as `krait run`, `krait serve` and `krait mcp` have it.
 *
 * The warden forks the process, and forgets its secrets before that: the inits of cells are copies of the warden, too.
 * So the engine, which keeps them, sends them in the first frame (KR_E_SETUP). */
#include "egress_start.h"
#include "egress_client.h"
#include "fd.h"
#include "warden.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int be_egress(int fd, void *arg)
{
    return kr_egress_main(fd, arg);
}

void kr_cli_egress_use(struct kr_warden_config *warden, const struct kr_egress_config *egress)
{
    warden->egress = be_egress;
    warden->egress_arg = (void *)egress;
}

int kr_cli_egress_setup(struct kr_egress *e, const char *credentials, const char *own_ca, struct kr_err *err)
{
    const char *colon = credentials ? strchr(credentials, ':') : NULL;
    cleanup_free char *user = credentials ? strndup(credentials, strcspn(credentials, ":")) : NULL;
    const struct kr_egress_setup setup = {.index_user = user,
                                          .index_password = colon  ? colon + 1
                                                            : user ? ""
                                                                   : NULL,
                                          .own_ca = own_ca};
    int r = credentials && !user ? -ENOMEM : kr_egress_set_setup(e, &setup);

    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "the setup of the egress process") : 0;
}

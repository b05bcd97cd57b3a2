/* The way out of the program that `krait run` runs. */
#pragma once
#include "hint.h"
#include "options.h"
#include "session.h"

struct kr_egress;
struct uv_loop_s;

struct kr_run_egress {
    struct kr_egress *client; /* NULL: the network has none */
    struct kr_net_rule rule;
    unsigned refused;
    char first[KR_HINT_ROOM]; /* that was refused */
    const char *env[2 * KR_OPT_LIST_MAX];
    size_t env_count;
    char *texts[KR_OPT_LIST_MAX]; /* of env, owned */
    size_t text_count;
};

/* What the session begins with: the variables of the command line, and those by which the way out is found. `wanted`:
 * there is an egress process whatever the rule is. 0 or -errno with err. */
int kr_run_egress_open(struct kr_run_egress *x, struct uv_loop_s *loop, const struct kr_net_rule *rule, bool wanted,
                       const char *credentials, const struct kr_opt_list *env, struct kr_err *err);
/* on_egress of the engine. */
void kr_run_egress_connect(struct kr_run_egress *x, int fd);
void kr_run_egress_begin(struct kr_run_egress *x, struct kr_session *s);
/* The program has ended: writes the hint, if connections were refused. */
void kr_run_egress_hint(struct kr_run_egress *x, char *hint, size_t size);
void kr_run_egress_close(struct kr_run_egress *x);

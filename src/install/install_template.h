/* The template that the administrator's settings ask for: built at start, when it is absent or its requirements have
 * changed. Loop thread only. */
#pragma once
#include "words.h"
#include <stdbool.h>

struct kr_box;
struct kr_err;
struct kr_install;
struct kr_install_template;
struct kr_metrics;
struct uv_loop_s;

struct kr_install_template_config {
    struct kr_words requirements; /* none: there is no template to build; borrowed, as the name */
    const char *name;
    bool shared;
};

/* Looks, and builds it in the background: a sandbox of root's is made, the install job runs in it, it is saved under
 * the name in place of the one before, and deleted. What fails is logged, and the template before stays. After the
 * engine is ready. 0, or -ENOMEM. */
int kr_install_template_new(struct uv_loop_s *loop, struct kr_install *in, struct kr_box *box,
                            struct kr_metrics *metrics, const struct kr_install_template_config *config,
                            struct kr_install_template **ret_template, struct kr_err *err);
/* Before the jobs, the room of installs and the box go. What is under way is done anew at the next start. Takes
 * NULL. */
void kr_install_template_close(struct kr_install_template *t);

/* The warden's cells as a holder of sessions. */
#pragma once
#include "holder.h"

struct uv_loop_s;

/* Takes the control socket. 0 or -errno. The holder is freed by its engine. */
int kr_warden_holder_new(struct uv_loop_s *loop, int control, struct kr_holder **ret_holder);

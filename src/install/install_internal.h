/* What the files of the room share: the struct behind install.h. Not for other folders. */
#pragma once
#include "install.h"

struct kr_install {
    struct uv_loop_s *loop;
    struct kr_install_config config;
    char *index; /* own copy of config.index */
};

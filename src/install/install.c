/* What the room offers, in words. */
#include "install.h"
#include <assert.h>

const char *const kr_install_state_names[KR_INSTALL_STATE_MAX_] = {
    [KR_INSTALL_NOT_FOUND] = "not_found", [KR_INSTALL_INSTALLED] = "installed", [KR_INSTALL_INSTALLING] = "installing",
    [KR_INSTALL_SUCCESS] = "success",     [KR_INSTALL_FAILED] = "failed",
};
static_assert(KR_INSTALL_STATE_MAX_ == 5, "every state has its word");

/* Packages on behalf of a voice: REST, tools of MCP, the documents' routes and tools. What all of them ask, and the
 * values that they answer. */
#pragma once
#include "api.h"
#include "install.h"
#include <jansson.h>

/* As kr_install_start(). What is refused is counted and logged. */
int kr_api_packages_ask(struct kr_api *api, const struct kr_caller *who, const struct kr_install_ask *ask,
                        struct kr_job **ret_job, struct kr_err *err);
/* As kr_install_list() and kr_install_status(). */
int kr_api_packages_list(struct kr_api *api, const struct kr_caller *who, const char *sandbox, bool with_system,
                         kr_install_list_fn *fn, void *data, struct kr_install_task **ret_task, struct kr_err *err);
int kr_api_packages_status(struct kr_api *api, const struct kr_caller *who, const char *sandbox, const char *name,
                           kr_install_status_fn *fn, void *data, struct kr_install_task **ret_task, struct kr_err *err);

/* An array of {"name","version"}, and with `whole` also "requested", "system", "file", "index", "sha256": what is
 * installed, then what comes with the server's Python and is not hidden by that. New; NULL: no memory. */
json_t *kr_api_packages_value(const struct kr_install_listing *listing, bool whole);
/* {"name","state","version","job_id","text","started_at","ended_at"}. New; NULL: no memory. */
json_t *kr_api_package_status_value(const char *name, const struct kr_install_status *status);

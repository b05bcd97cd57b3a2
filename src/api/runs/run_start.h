/* Starting a run for an exchange: the request waits until the run is admitted, then a voice takes over. */
#pragma once
#include "api.h"

/* Admitted: the voice answers (kr_api_follow(), kr_api_collect()). The log is borrowed for the call. */
typedef void kr_api_admitted(struct kr_api *api, struct kr_http_ex *ex, struct kr_runlog *log, const char *run_id,
                             unsigned how);
/* Starts it, or answers with the error in the voice of the route. X-Run-Id and X-Session-Id are set before `then`. A
 * peer that leaves before cancels a run that says so. `how` is handed on. What the spec borrows is not used after the
 * return. */
void kr_api_start(struct kr_api *api, struct kr_http_ex *ex, const struct kr_api_who *who,
                  const struct kr_run_spec *spec, kr_api_admitted *then, unsigned how);

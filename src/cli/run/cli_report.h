/* The JSON of a run's end in `krait run --json`. */
#pragma once
#include "engine.h"
#include "report.h"
#include "warden.h"

/* Members of an open object: those of kr_report_end(), hint, limits, layers. */
void kr_report_run(struct kr_json *j, const struct kr_run_end *end, const struct kr_session *s,
                   const struct kr_holder_info *info);
/* {"level":"root","user_namespace":true,…,"landlock_abi":7,"cgroup":"hybrid"} */
void kr_report_layers(struct kr_json *j, uint32_t layers, int landlock_abi, const struct kr_holder_info *info);

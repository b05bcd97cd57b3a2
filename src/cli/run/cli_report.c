/* The report of a run of the command line: the domain's, and what held it.
 *
 * Called by run_app.c. */
#include "cli_report.h"

void kr_report_layers(struct kr_json *j, uint32_t layers, int landlock_abi, const struct kr_holder_info *info)
{
    static const char *const cgroups[] = {"none", "v1", "v2", "hybrid"};

    kr_json_object(j);
    kr_json_key_str(j, "level", info->level < KR_LEVEL_MAX_ ? kr_level_names[info->level] : NULL);
    for (size_t i = 0; i < kr_layer_rows_count; i++)
        kr_json_key_bool(j, kr_layer_rows[i].name, (layers & kr_layer_rows[i].bit) != 0);
    kr_json_key_int(j, "landlock_abi", landlock_abi);
    kr_json_key_str(j, "cgroup", info->cgroup_kind < 4 ? cgroups[info->cgroup_kind] : NULL);
    kr_json_object_end(j);
}

void kr_report_run(struct kr_json *j, const struct kr_run_end *end, const struct kr_session *s,
                   const struct kr_holder_info *info)
{
    kr_report_end(j, end);
    kr_report_hint(j, end->hint);
    kr_json_key(j, "limits");
    kr_report_limits(j, kr_session_limits(s));
    kr_json_key(j, "layers");
    kr_report_layers(j, kr_session_layers(s), kr_session_landlock_abi(s), info);
}

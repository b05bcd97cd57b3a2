/* JSON of what the engine knows: the end of a run, limits, values that were checked. */
#pragma once
#include "json.h"
#include "run.h"

/* Members of an open object: cause, exit_code, message, result, error, variables, truncated, limits_hit, wall_s, cpu_s,
 * peak_memory_bytes, output_bytes, background; and what a policy has to say: findings, refused, analysis,
 * recommendations. */
void kr_report_end(struct kr_json *j, const struct kr_run_end *end);
/* The member hint: null for "". */
void kr_report_hint(struct kr_json *j, const char *hint);
/* {"memory":1073741824,"cpu":0.5,"timeout":45.0,…}: bytes and counts, cores, seconds; null is no limit. */
void kr_report_limits(struct kr_json *j, const struct kr_limits *limits);
/* A value that a parser has checked; NULL is null. */
void kr_report_value(struct kr_json *j, const json_t *value);

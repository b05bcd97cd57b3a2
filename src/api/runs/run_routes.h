/* Handlers of runs (run_routes.c). */
#pragma once
#include "route_doc.h"
#include "run_follow.h"
#include "http.h"

kr_http_handler kr_api_runs_create, kr_api_runs_list, kr_api_runs_read, kr_api_runs_events, kr_api_runs_cancel,
    kr_api_runs_interrupt, kr_api_runs_input;
extern const struct kr_api_doc kr_api_runs_create_doc, kr_api_runs_list_doc, kr_api_runs_read_doc,
    kr_api_runs_events_doc, kr_api_runs_cancel_doc, kr_api_runs_interrupt_doc, kr_api_runs_input_doc;
/* What a run left, as one object: the end's members, stdout, stderr, displays. */
extern const struct kr_api_schema kr_api_run_outcome_schema;
extern const struct kr_api_schema kr_api_run_line_schema;
kr_api_write_fn kr_api_write_outcome;

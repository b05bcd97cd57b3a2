/* What the documents' answers about packages look like, made of the result of a job (kr_install_result()). Pure. */
#pragma once
#include "buf.h"
#include "install.h"
#include <jansson.h>

/* Document 002: {"success","message","installed_version","installation_time"}; the alias POST /pip/install also has
 * {"output","error"}, which are what the document's code has. `canonical` is the package that was asked for. New. */
json_t *kr_service_install_value(const char *canonical, const struct kr_store_job *row, const json_t *result,
                                 bool with_output);
/* The same for an ask that became no job. */
json_t *kr_service_refused_value(const char *reason);

/* Document 003: one text. `asked` is the argument as it came. */
void kr_executor_install_text(struct kr_buf *out, const char *asked, const struct kr_store_job *row,
                              const json_t *result, bool timed_out);

/* Document 004: {"status","message","complete","success","end_time"…} of a job, ended or not. `joined`: another call
 * has started it. New. */
json_t *kr_mcp_sandbox_install_value(const char *name, const struct kr_store_job *row, const json_t *result,
                                     bool joined);
/* The same of a job that is looked at: with start_time and elapsed_seconds while it goes on. */
json_t *kr_mcp_sandbox_progress_value(const char *name, const struct kr_store_job *row, const json_t *result,
                                      int64_t now_us);
/* How it stands with a package when no job goes on. */
json_t *kr_mcp_sandbox_status_value(const char *name, const struct kr_install_status *status);
/* An ask that became no job. */
json_t *kr_mcp_sandbox_refused_value(const char *name, const char *reason, int64_t now_us);

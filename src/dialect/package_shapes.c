/* The shapes of the documents' answers about packages. Called by their routes and tools.
 *
 * Invariant: pure; a result that is missing (a job lost with its server) gives a failure, whose reason is the row's. */
#include "package_shapes.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Why a job has failed. */
static const char *reason_of(const struct kr_store_job *row, const json_t *result)
{
    const char *error = json_string_value(json_object_get(result, "error"));

    return error && *error ? error : row->message[0] ? row->message : row->cause;
}

static const char *output_of(const json_t *result)
{
    const char *output = json_string_value(json_object_get(result, "output"));

    return output ? output : "";
}

static bool is_good(const json_t *result)
{
    return json_is_true(json_object_get(result, "ok"));
}

/* ---- 002 ---- */

static const char *version_in(const json_t *list, const char *canonical)
{
    char name[KR_REQ_NAME_ROOM];
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        const char *found = json_string_value(json_object_get(item, "name"));

        if (found && kr_requirement_canonical(found, strlen(found), name) && strcmp(name, canonical) == 0)
            return json_string_value(json_object_get(item, "version"));
    }
    return NULL;
}

/* As pip says it: "Successfully installed requests-2.31.0 urllib3-2.0.7". */
static json_t *success_message(const json_t *result, const char *canonical, const char *version)
{
    const json_t *installed = json_object_get(result, "installed");
    struct kr_buf text;
    json_t *message;

    if (json_array_size(installed) == 0)
        return json_sprintf("Requirement already satisfied: %s %s", canonical, version ? version : "");
    kr_buf_init(&text, 64u << 10);
    kr_buf_add_str(&text, "Successfully installed");
    for (size_t i = 0; i < json_array_size(installed); i++) {
        const json_t *item = json_array_get(installed, i);

        kr_buf_printf(&text, " %s-%s", json_string_value(json_object_get(item, "name")),
                      json_string_value(json_object_get(item, "version")));
    }
    message = json_string(kr_buf_str(&text));
    kr_buf_done(&text);
    return message;
}

json_t *kr_service_install_value(const char *canonical, const struct kr_store_job *row, const json_t *result,
                                 bool with_output)
{
    bool good = is_good(result);
    const char *version = version_in(json_object_get(result, "installed"), canonical);
    double seconds = json_number_value(json_object_get(result, "seconds"));
    json_t *value;

    if (good && !version)
        version = version_in(json_object_get(result, "satisfied"), canonical);
    value = json_pack("{s:b, s:o, s:s?, s:f}", "success", good, "message",
                      good ? success_message(result, canonical, version) : json_string(reason_of(row, result)),
                      "installed_version", good ? version : NULL, "installation_time", seconds);
    if (value && with_output)
        json_object_update_new(value, json_pack("{s:s, s:s?}", "output", output_of(result), "error",
                                                good ? NULL : reason_of(row, result)));
    return value;
}

json_t *kr_service_refused_value(const char *reason)
{
    return json_pack("{s:b, s:s, s:n, s:f}", "success", 0, "message", reason, "installed_version", "installation_time",
                     0.0);
}

/* ---- 003 ---- */

/* Where the reason is not the whole story, what was printed follows. */
static bool shows_output(const json_t *result)
{
    static const char *const kinds[] = {"build", "conflict", "resolver", "failed"};
    const char *kind = json_string_value(json_object_get(result, "kind"));

    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i]) == 0)
            return output_of(result)[0] != '\0';
    return false;
}

void kr_executor_install_text(struct kr_buf *out, const char *asked, const struct kr_store_job *row,
                              const json_t *result, bool timed_out)
{
    if (timed_out) {
        kr_buf_add_str(out, "Package installation timed out after 5 minutes");
    } else if (is_good(result)) {
        kr_buf_printf(out, "Successfully installed: %s\n\n", asked);
        kr_buf_add_str(out, output_of(result));
    } else {
        kr_buf_printf(out, "Installation failed:\n%s", reason_of(row, result));
        if (shows_output(result)) {
            kr_buf_add_str(out, "\n");
            kr_buf_add_str(out, output_of(result));
        }
    }
}

/* ---- 004 ---- */

/* "2026-11-19T15:30:24.123456Z", which every reader of ISO 8601 takes. */
static json_t *time_value(int64_t us)
{
    time_t seconds = (time_t)(us / 1000000);
    char text[64], day[32];
    struct tm tm;

    gmtime_r(&seconds, &tm);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, sizeof text, "%s.%06dZ", day, (int)(us % 1000000));
    return json_string(text);
}

static json_t *success_value(const char *name, int64_t ended_us)
{
    return json_pack("{s:s, s:o, s:b, s:b, s:o}", "status", "success", "message",
                     json_sprintf("Successfully installed %s", name), "complete", 1, "success", 1, "end_time",
                     time_value(ended_us));
}

static json_t *failure_value(const char *name, const char *reason, const char *details, int64_t ended_us)
{
    return json_pack("{s:s, s:o, s:s, s:b, s:b, s:o}", "status", "failed", "message",
                     json_sprintf("Failed to install %s: %s", name, reason), "stderr", details, "complete", 1,
                     "success", 0, "end_time", time_value(ended_us));
}

static json_t *ended_value(const char *name, const struct kr_store_job *row, const json_t *result)
{
    const char *reason = reason_of(row, result);

    if (is_good(result))
        return success_value(name, row->ended);
    return failure_value(name, reason, shows_output(result) ? output_of(result) : reason, row->ended);
}

json_t *kr_mcp_sandbox_install_value(const char *name, const struct kr_store_job *row, const json_t *result,
                                     bool joined)
{
    if (row->ended)
        return ended_value(name, row, result);
    return json_pack(
        "{s:n, s:s, s:o}", "success", "status", "installing", "message",
        joined ? json_sprintf("Package %s installation already in progress", name)
               : json_sprintf("Installation of %s in progress. Use check_package_installation_status to monitor "
                              "progress.",
                              name));
}

json_t *kr_mcp_sandbox_progress_value(const char *name, const struct kr_store_job *row, const json_t *result,
                                      int64_t now_us)
{
    if (row->ended)
        return ended_value(name, row, result);
    return json_pack(
        "{s:s, s:o, s:o, s:b, s:n, s:f}", "status", "installing", "start_time", time_value(row->started), "message",
        row->text[0] ? json_sprintf("Installing %s: %s", name, row->text) : json_sprintf("Installing %s...", name),
        "complete", 0, "success", "elapsed_seconds",
        now_us > row->started ? (double)(now_us - row->started) / 1e6 : 0.0);
}

json_t *kr_mcp_sandbox_status_value(const char *name, const struct kr_install_status *status)
{
    switch (status->state) {
    case KR_INSTALL_SUCCESS:
        return success_value(name, status->ended_us);
    case KR_INSTALL_FAILED:
        return failure_value(name, status->text, status->text, status->ended_us);
    case KR_INSTALL_INSTALLED:
        return json_pack("{s:s, s:o, s:b, s:b}", "status", "success", "message",
                         json_sprintf("Package %s is already installed", name), "complete", 1, "success", 1);
    case KR_INSTALL_INSTALLING: /* its job is looked at instead, unless it has ended meanwhile */
        return json_pack("{s:s, s:o, s:o, s:b, s:n}", "status", "installing", "start_time",
                         time_value(status->started_us), "message", json_sprintf("Installing %s...", name), "complete",
                         0, "success");
    case KR_INSTALL_NOT_FOUND:
    case KR_INSTALL_STATE_MAX_:
        break;
    }
    return json_pack("{s:s, s:o, s:b, s:b}", "status", "not_found", "message",
                     json_sprintf("No installation record found for %s", name), "complete", 1, "success", 0);
}

json_t *kr_mcp_sandbox_refused_value(const char *name, const char *reason, int64_t now_us)
{
    return failure_value(name, reason, reason, now_us);
}

/* What all voices ask of src/install, and the values that they answer. Called by routes, tools and the documents'
 * dialects. Loop thread only.
 *
 * Invariant: an ask is counted once. What is blocked, and what becomes a job, is counted by src/install; what is
 * refused for another reason, here. */
#include "package_ask.h"
#include "monitor.h"
#include <errno.h>
#include <string.h>

/* The text of an ask that has no name of a package, for the log. */
static const char *first_text(const struct kr_install_what *what)
{
    const char *first = json_string_value(json_array_get(what->texts, 0));

    return what->line ? what->line : first ? first : "requirements.txt";
}

int kr_api_packages_ask(struct kr_api *api, const struct kr_caller *who, const struct kr_install_ask *ask,
                        struct kr_job **ret_job, struct kr_err *err)
{
    struct kr_install_refusal refusal = {0};
    struct kr_install_ask asked = *ask;
    int r;

    if (!api->install)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "packages cannot be installed");
    asked.ret_refusal = &refusal;
    r = kr_install_start(api->install, who, &asked, ret_job, err);
    if (r < 0 && ask->op == KR_INSTALL && refusal.verdict != KR_PACKAGE_BLOCKED)
        kr_monitor_package(api->monitor, refusal.name[0] ? refusal.name : first_text(&ask->what), "error");
    if (r < 0 && ask->ret_refusal)
        *ask->ret_refusal = refusal;
    return r;
}

int kr_api_packages_list(struct kr_api *api, const struct kr_caller *who, const char *sandbox, bool with_system,
                         kr_install_list_fn *fn, void *data, struct kr_install_task **ret_task, struct kr_err *err)
{
    if (!api->install)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "packages cannot be listed");
    return kr_install_list(api->install, who, sandbox, with_system, fn, data, ret_task, err);
}

int kr_api_packages_status(struct kr_api *api, const struct kr_caller *who, const char *sandbox, const char *name,
                           kr_install_status_fn *fn, void *data, struct kr_install_task **ret_task, struct kr_err *err)
{
    if (!api->install)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "packages cannot be listed");
    return kr_install_status(api->install, who, sandbox, name, fn, data, ret_task, err);
}

/* ---- values ---- */

/* "" is null. */
static json_t *text_or_null(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

static json_t *item_value(const struct kr_package_item *item, bool whole)
{
    if (!whole)
        return json_pack("{s:s, s:s}", "name", item->name, "version", item->version);
    return json_pack("{s:s, s:s, s:b, s:b, s:o, s:o, s:o}", "name", item->name, "version", item->version, "requested",
                     item->requested, "system", 0, "file", text_or_null(item->file), "index", text_or_null(item->index),
                     "sha256", text_or_null(item->sha256));
}

static json_t *system_value(const struct kr_package_system *item, bool whole)
{
    if (!whole)
        return json_pack("{s:s, s:s}", "name", item->name, "version", item->version);
    return json_pack("{s:s, s:s, s:b, s:b, s:n, s:n, s:n}", "name", item->name, "version", item->version, "requested",
                     0, "system", 1, "file", "index", "sha256");
}

/* An environment's distribution of the same name is what code imports. */
static bool is_hidden(const struct kr_package_list *environment, const char *name)
{
    char canonical[KR_REQ_NAME_ROOM];

    return kr_requirement_canonical(name, strlen(name), canonical) && kr_package_list_find(environment, canonical);
}

json_t *kr_api_packages_value(const struct kr_install_listing *listing, bool whole)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < listing->environment->count; i++)
        json_array_append_new(list, item_value(&listing->environment->items[i], whole));
    for (size_t i = 0; list && i < listing->system_count; i++)
        if (!is_hidden(listing->environment, listing->system[i].name))
            json_array_append_new(list, system_value(&listing->system[i], whole));
    return list;
}

static json_t *time_or_null(int64_t us)
{
    return us ? json_real((double)us / 1e6) : json_null();
}

json_t *kr_api_package_status_value(const char *name, const struct kr_install_status *status)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "name", name, "state",
                     kr_install_state_names[status->state], "version", text_or_null(status->version), "job_id",
                     text_or_null(status->job), "text", text_or_null(status->text), "started_at",
                     time_or_null(status->started_us), "ended_at", time_or_null(status->ended_us));
}

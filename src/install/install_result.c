/* What a job leaves: its result as JSON, rows of the audit log, a count.
 *
 * Called by install_job.c when a job ends, and by the voices afterwards. Invariant: every distribution that was
 * installed is a row of the audit log, with its hash, its file and the index it came from. */
#include "clock.h"
#include "install_internal.h"
#include "log.h"
#include "metrics.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[] = {[KR_INSTALL] = "install", [KR_UNINSTALL] = "uninstall"};

/* ---- the result ---- */

static json_t *installed_of(const struct kr_install_job *j)
{
    json_t *list = json_array();

    for (size_t i = 0; i < j->item_count; i++) {
        const struct kr_package_item *item = &j->items[i];
        char canonical[KR_REQ_NAME_ROOM];
        const struct kr_package_item *old;
        bool is_new = false;

        if (!kr_requirement_canonical(item->name, strlen(item->name), canonical))
            continue;
        for (size_t k = 0; k < j->row_count; k++)
            is_new |= strcmp(j->rows[k].file->canonical, canonical) == 0;
        if (!is_new)
            continue;
        old = kr_package_list_find(j->before, canonical);
        json_array_append_new(list,
                              json_pack("{s:s,s:s,s:s?,s:b,s:s,s:s,s:s}", "name", item->name, "version", item->version,
                                        "was", old ? old->version : NULL, "requested", item->requested, "sha256",
                                        item->sha256, "file", item->file, "index", item->index));
    }
    return list;
}

static json_t *removed_of(const struct kr_install_job *j)
{
    json_t *list = json_array();

    for (size_t i = 0; j->op == KR_UNINSTALL && i < j->wanted.count; i++) {
        const struct kr_package_item *item = kr_package_list_find(j->before, j->wanted.items[i]->canonical);

        if (item)
            json_array_append_new(list, json_pack("{s:s,s:s}", "name", item->name, "version", item->version));
    }
    return list;
}

static json_t *satisfied_of(const struct kr_install_job *j)
{
    json_t *list = json_array();

    for (size_t i = 0; i < j->answer.have_count; i++)
        json_array_append_new(
            list, json_pack("{s:s,s:s}", "name", j->answer.have[i].name, "version", j->answer.have[i].version));
    return list;
}

static json_t *asked_of(const struct kr_install_job *j)
{
    json_t *list = json_array();

    for (size_t i = 0; i < j->wanted.count; i++)
        json_array_append_new(list, json_string(j->wanted.items[i]->canonical));
    return list;
}

static void count_live(void *data, const struct kr_box_session_info *info)
{
    *(unsigned *)data += info->live;
}

/* A live session may have imported what was there before under the same name. */
static bool needs_restart(const struct kr_install_job *j)
{
    const struct kr_caller who = {.user = j->user, .rights = j->rights, .address = "", .request = ""};
    unsigned live = 0;
    bool replaces = j->op == KR_UNINSTALL;

    for (size_t i = 0; i < j->row_count; i++)
        replaces |=
            kr_package_list_find(j->before, j->rows[i].file->canonical) || kr_box_preloads(j->rows[i].file->canonical);
    if (replaces)
        kr_box_sessions(j->in->config.box, &who, j->sandbox, count_live, &live);
    return live > 0;
}

static void add_success(const struct kr_install_job *j, json_t *o)
{
    json_object_set_new(o, "installed", installed_of(j));
    json_object_set_new(o, "removed", removed_of(j));
    json_object_set_new(o, "satisfied", satisfied_of(j));
    json_object_set_new(o, "notes", json_deep_copy(j->notes));
    json_object_set_new(o, "restart", json_boolean(needs_restart(j)));
    json_object_set_new(o, "downloaded", json_integer((json_int_t)j->downloaded));
    json_object_set_new(o, "cached", json_integer(j->cached));
}

char *kr_install_result_text(const struct kr_install_job *j, bool with_output)
{
    double seconds = j->began_ns ? (double)(kr_clock_ns() - j->began_ns) / 1e9 : 0;
    json_t *o = json_pack("{s:s,s:b,s:s,s:f,s:o}", "op", op_names[j->op], "ok", j->outcome.ok, "sandbox", j->sandbox,
                          "seconds", seconds, "asked", asked_of(j));
    struct kr_buf *output = (struct kr_buf *)&j->output;
    char *text;

    if (!o)
        return NULL;
    json_object_set_new(o, "output", json_string(with_output ? kr_buf_str(output) : ""));
    if (j->outcome.ok) {
        add_success(j, o);
    } else {
        json_object_set_new(o, "kind", json_string(j->outcome.kind));
        json_object_set_new(o, "error", json_string(j->outcome.text ? j->outcome.text : ""));
        json_object_set_new(o, "names", j->outcome.names ? json_deep_copy(j->outcome.names) : json_array());
    }
    text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    return text;
}

json_t *kr_install_result(struct kr_install *in, const struct kr_store_job *row)
{
    struct kr_err err;
    json_t *o = NULL;
    char *text;

    if ((strcmp(row->kind, KR_INSTALL_KIND) != 0 && strcmp(row->kind, KR_UNINSTALL_KIND) != 0) ||
        kr_jobs_result(in->config.jobs, row->id, &text, &err) < 0)
        return NULL;
    o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    if (json_is_object(o))
        return o;
    json_decref(o);
    return NULL;
}

/* ---- the audit log, the count ---- */

static void audit(const struct kr_install_job *j, const char *what, const char *object, const char *outcome,
                  json_t *detail)
{
    const struct kr_store_job *row = kr_job_row(j->job);
    const struct kr_caller by = {.user = j->user, .address = row->address, .request = row->request};
    char *text = detail ? json_dumps(detail, JSON_COMPACT) : NULL;

    kr_box_audit_soon(j->in->config.box, &by, what, object, outcome, text);
    free(text);
    json_decref(detail);
}

static void audit_success(const struct kr_install_job *j)
{
    json_t *list = j->op == KR_INSTALL ? installed_of(j) : removed_of(j), *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        char object[KR_REQ_NAME_ROOM + KR_PKG_VERSION_MAX + 4];

        snprintf(object, sizeof object, "%s==%s", json_string_value(json_object_get(one, "name")),
                 json_string_value(json_object_get(one, "version")));
        json_object_del(one, "name");
        json_object_del(one, "version");
        json_object_set_new(one, "sandbox", json_string(j->sandbox));
        json_object_set_new(one, "job", json_string(kr_job_row(j->job)->id));
        audit(j, j->op == KR_INSTALL ? "package.install" : "package.uninstall", object, "ok", json_incref(one));
    }
    json_decref(list);
}

static void count_wheels(const struct kr_install_job *j)
{
    for (size_t i = 0; i < j->row_count; i++)
        kr_metrics_inc(j->in->config.metrics, KR_M_PACKAGE_WHEELS,
                       KR_AT(j->rows[i].file->sdist ? "source"
                             : j->rows[i].is_fresh  ? "index"
                                                    : "store"));
}

void kr_install_account(const struct kr_install_job *j)
{
    bool is_blocked = strcmp(j->outcome.kind, "blocked") == 0;
    const char *result = j->outcome.ok ? "success" : is_blocked ? "blocked" : "error";

    if (j->op == KR_INSTALL)
        kr_metrics_inc(j->in->config.metrics, KR_M_PACKAGE_INSTALLS, KR_AT(result));
    if (is_blocked)
        kr_metrics_inc(j->in->config.metrics, KR_M_ERRORS, KR_AT("blocked_package"));
    if (j->op == KR_INSTALL && j->began_ns)
        kr_metrics_observe(j->in->config.metrics, KR_M_PACKAGE_SECONDS, KR_AT(result),
                           (double)(kr_clock_ns() - j->began_ns) / 1e9);
    kr_metrics_add(j->in->config.metrics, KR_M_PACKAGE_BYTES, KR_AT_NONE, (double)j->downloaded);
    if (j->outcome.ok)
        count_wheels(j);
    if (j->outcome.ok)
        audit_success(j);
    else
        audit(j, j->op == KR_INSTALL ? "package.install" : "package.uninstall", j->sandbox,
              is_blocked ? "denied" : "failed",
              json_pack("{s:s,s:s,s:o}", "job", kr_job_row(j->job)->id, "kind", j->outcome.kind, "asked", asked_of(j)));
    kr_log(KR_LOG_INFO, "install ended", "job=%s user=%s sandbox=%s op=%s ok=%d kind=%s packages=%zu bytes=%llu",
           kr_job_row(j->job)->id, j->user, j->sandbox, op_names[j->op], j->outcome.ok, j->outcome.kind, j->row_count,
           (unsigned long long)j->downloaded);
}

/* Several files by address, for a session that is opened with them: document 000's create_session_with_files and its
 * route.
 *
 * Called by src/api/sessions and src/dialect. Each file is a job (file_fetch.c), FETCHES_AT_ONCE of them at a time.
 * Invariant: the caller hears once, when every address has its name or its line in `errors`. */
#include "api.h"
#include "clock.h"
#include "file_fetch.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FETCHES_AT_ONCE 4u

struct one_fetch {
    struct kr_job_watch watch;
    struct kr_file_fetches *all;
    const char *url, *id; /* of `wanted` */
};

struct kr_file_fetches {
    struct kr_api *api;
    struct kr_caller who; /* points to the next three */
    char user[KR_STORE_ID_ROOM], address[65], request[129];
    char sandbox[KR_STORE_ID_ROOM];
    json_t *wanted; /* array of {"url","id"} */
    json_t *names, *errors;
    struct one_fetch *fetches;
    size_t count, begun, ended;
    uint64_t deadline_ns;
    bool starting; /* ends of jobs that end at once are heard by its loop */
    kr_file_fetches_fn *fn;
    void *data;
};

static void free_fetches(struct kr_file_fetches *a)
{
    json_decref(a->wanted);
    json_decref(a->names);
    json_decref(a->errors);
    free(a->fetches);
    free(a);
}

static void note_error(const struct one_fetch *f, const char *why)
{
    f->all->ended++;
    json_array_append_new(f->all->errors, json_sprintf("%s: %s", f->url, why));
}

/* One that was there already has no name in its result: it was not fetched again. */
static void note_end(const struct one_fetch *f, const struct kr_store_job *row)
{
    struct kr_err ignored;
    char *text = NULL;
    json_t *result;
    const char *name;

    if (strcmp(row->cause, "ok") != 0) {
        note_error(f, row->message[0] ? row->message : row->cause);
        return;
    }
    f->all->ended++;
    if (kr_jobs_result(f->all->api->jobs, row->id, &text, &ignored) < 0)
        return;
    result = json_loads(text, 0, NULL);
    name = json_string_value(json_object_get(result, "name"));
    if (name)
        json_array_append_new(f->all->names, json_string(name));
    json_decref(result);
    free(text);
}

static void begin_more(struct kr_file_fetches *a);

static void on_one_ended(struct kr_job_watch *watch, const struct kr_store_job *row, const struct kr_err *err)
{
    const struct one_fetch *f = (struct one_fetch *)watch; /* its first member */
    struct kr_file_fetches *a = f->all;

    (void)err;
    note_end(f, row);
    begin_more(a);
}

static void begin_one(struct kr_file_fetches *a, struct one_fetch *f)
{
    uint64_t now = kr_clock_ns();
    struct kr_file_fetch_ask ask = {.url = f->url,
                                    .id = f->id,
                                    .sandbox = a->sandbox,
                                    .timeout_ms = a->deadline_ns > now ? (a->deadline_ns - now) / 1000000u : 0};
    struct kr_job *job;
    struct kr_err err;

    if (ask.timeout_ms == 0)
        note_error(f, "no time was left to fetch it");
    else if (kr_file_fetch_start(a->api, &a->who, &ask, &job, &err) < 0)
        note_error(f, err.msg);
    else
        kr_job_watch(job, &f->watch);
}

static void begin_more(struct kr_file_fetches *a)
{
    if (a->starting)
        return;
    a->starting = true;
    while (a->fn && a->begun < a->count && a->begun - a->ended < FETCHES_AT_ONCE)
        begin_one(a, &a->fetches[a->begun++]);
    a->starting = false;
    if (a->ended < (a->fn ? a->count : a->begun))
        return;
    if (a->fn)
        a->fn(a->data, a->names, a->errors);
    free_fetches(a);
}

static json_t *list_wanted(const json_t *urls, const json_t *files)
{
    json_t *wanted = json_array(), *item;
    size_t i;

    json_array_foreach(urls, i, item)
    {
        json_array_append_new(wanted, json_pack("{sO}", "url", item));
    }
    json_array_foreach(files, i, item)
    {
        const char *id = json_string_value(json_object_get(item, "id"));

        json_array_append_new(
            wanted, json_pack("{sO ss*}", "url", json_object_get(item, "url"), "id", id && id[0] ? id : NULL));
    }
    return wanted;
}

static void copy_caller(struct kr_file_fetches *a, const struct kr_caller *who)
{
    snprintf(a->user, sizeof a->user, "%s", who->user);
    snprintf(a->address, sizeof a->address, "%s", who->address ? who->address : "");
    snprintf(a->request, sizeof a->request, "%s", who->request ? who->request : "");
    a->who = (struct kr_caller){
        .user = a->user, .rights = who->rights, .address = a->address, .request = a->request, .profile = who->profile};
}

int kr_file_fetches_start(struct kr_api *api, const struct kr_caller *who, const char *sandbox, const json_t *urls,
                          const json_t *files, uint64_t timeout_ms, kr_file_fetches_fn *fn, void *data,
                          struct kr_file_fetches **ret_fetches)
{
    struct kr_file_fetches *a = calloc(1, sizeof *a);

    if (!a)
        return -ENOMEM;
    a->wanted = list_wanted(urls, files);
    a->names = json_array();
    a->errors = json_array();
    a->count = json_array_size(a->wanted);
    a->fetches = calloc(a->count + 1, sizeof *a->fetches);
    if (!a->fetches || !a->names || !a->errors) {
        free_fetches(a);
        return -ENOMEM;
    }
    for (size_t i = 0; i < a->count; i++) {
        const json_t *item = json_array_get(a->wanted, i);

        a->fetches[i] = (struct one_fetch){.watch = {.on_end = on_one_ended},
                                           .all = a,
                                           .url = json_string_value(json_object_get(item, "url")),
                                           .id = json_string_value(json_object_get(item, "id"))};
    }
    copy_caller(a, who);
    snprintf(a->sandbox, sizeof a->sandbox, "%s", sandbox);
    a->api = api;
    a->deadline_ns = kr_clock_after_ms(timeout_ms);
    a->fn = fn;
    a->data = data;
    *ret_fetches = a;
    begin_more(a);
    return 0;
}

void kr_file_fetches_forget(struct kr_file_fetches *fetches)
{
    if (fetches)
        fetches->fn = NULL;
}

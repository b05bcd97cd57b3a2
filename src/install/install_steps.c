/* The first and the last step of a job: what is installed, and the next generation.
 *
 * Called by install_job.c at a job's turn, by the resolver when it has an answer, and by the rows when all are there.
 * Invariants: what blocks on the disk is on the thread pool; a generation is made of what was there when the job's turn
 * came, so another process that was faster makes the job begin again. */
#include "fd.h"
#include "install_internal.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Work of a job, within the lane. False: it has failed. */
static bool start_work(struct kr_install_job *j, const struct kr_work_calls *calls)
{
    kr_install_begin(j);
    if (kr_lane_start(j->in->lane, &j->work, calls, j) >= 0)
        return true;
    (void)kr_install_end(j);
    kr_install_fail(j, "failed", NULL, "too many installs are waiting for the disk: try again in a moment");
    return false;
}

/* ---- reading ---- */

static void run_read(void *data)
{
    struct kr_install_job *j = data;

    j->result = kr_package_env_ensure(j->folder, j->in->config.python, &j->err);
    if (j->result >= 0)
        j->result = kr_package_env_read(j->folder, &j->before, &j->err);
}

/* What is asked to go, and is there. */
static void plan_removal(struct kr_install_job *j)
{
    json_t *missing = json_array();
    size_t found = 0;

    for (size_t i = 0; i < j->wanted.count; i++) {
        const struct kr_requirement *r = j->wanted.items[i];

        if (kr_package_list_find(j->before, r->canonical)) {
            found++;
            continue;
        }
        json_array_append_new(missing, json_string(r->name));
        kr_install_note(j, "Skipping %s: it is not installed in this sandbox", r->name);
    }
    if (found > 0)
        kr_install_make(j);
    else
        kr_install_fail(j, "not_found", missing,
                        "%s is not installed in this sandbox (what came with the server's Python stays)",
                        j->wanted.items[0]->name);
    json_decref(missing);
}

static void on_read(void *data)
{
    struct kr_install_job *j = data;

    if (!kr_install_end(j))
        return;
    if (j->result < 0)
        kr_install_fail_with(j, &j->err);
    else if (j->op == KR_UNINSTALL)
        plan_removal(j);
    else
        kr_install_resolve(j);
}

void kr_install_read(struct kr_install_job *j)
{
    static const struct kr_work_calls calls = {.run = run_read, .done = on_read, .dropped = on_read};

    kr_install_set_step(j, KR_STEP_READING);
    kr_package_list_free(j->before);
    j->before = NULL;
    (void)start_work(j, &calls);
}

/* ---- judging what was resolved ---- */

static bool judge_files(struct kr_install_job *j)
{
    const struct kr_package_rules rules = {.blocked = j->in->config.blocked};

    for (size_t i = 0; i < j->answer.file_count; i++) {
        const struct kr_answer_file *f = &j->answer.files[i];
        struct kr_package_judgement judgement;
        json_t *names;

        kr_package_judge_name(&rules, f->name, &judgement);
        if (judgement.verdict == KR_PACKAGE_FINE)
            continue;
        names = json_pack("[s]", f->name);
        kr_log(KR_LOG_WARN, "blocked package", "package=%s user=%s sandbox=%s dependency=1", f->canonical, j->user,
               j->sandbox);
        kr_install_fail(j, "blocked", names, "%s (something that was asked for requires it)", judgement.text);
        json_decref(names);
        return false;
    }
    return true;
}

static void tell_satisfied(struct kr_install_job *j)
{
    for (size_t i = 0; i < j->answer.have_count; i++) {
        const struct kr_answer_have *h = &j->answer.have[i];

        kr_install_say(j, "Requirement already satisfied: %s (%s)", h->name, h->version);
    }
}

/* Something that came as a dependency is asked for now: that is kept. */
static bool is_newly_requested(const struct kr_install_job *j)
{
    for (size_t i = 0; i < j->answer.have_count; i++) {
        const struct kr_answer_have *h = &j->answer.have[i];
        const struct kr_package_item *item = kr_package_list_find(j->before, h->canonical);

        if (h->requested && item && !item->requested)
            return true;
    }
    return false;
}

void kr_install_answered(struct kr_install_job *j)
{
    size_t i;
    json_t *note;

    if (!judge_files(j))
        return;
    kr_install_set_step(j, KR_STEP_FETCHING);
    tell_satisfied(j);
    json_array_foreach(j->answer.notes, i, note)
    {
        kr_install_note(j, "%s", json_string_value(note));
    }
    if (j->answer.file_count > 0)
        kr_install_fetch(j);
    else if (is_newly_requested(j))
        kr_install_make(j);
    else
        kr_install_succeed(j);
}

/* ---- making ---- */

static const struct kr_answer_file *file_of(const struct kr_install_job *j, const char *canonical)
{
    for (size_t i = 0; i < j->answer.file_count; i++)
        if (strcmp(j->answer.files[i].canonical, canonical) == 0)
            return &j->answer.files[i];
    return NULL;
}

static bool is_wanted(const struct kr_install_job *j, const char *canonical)
{
    for (size_t i = 0; i < j->wanted.count; i++)
        if (strcmp(j->wanted.items[i]->canonical, canonical) == 0)
            return true;
    return false;
}

static bool was_requested_now(const struct kr_install_job *j, const char *canonical)
{
    for (size_t i = 0; i < j->answer.have_count; i++)
        if (j->answer.have[i].requested && strcmp(j->answer.have[i].canonical, canonical) == 0)
            return true;
    return false;
}

/* What was there and stays. */
static void keep_items(struct kr_install_job *j)
{
    for (size_t i = 0; i < j->before->count; i++) {
        struct kr_package_item item = j->before->items[i];
        char canonical[KR_REQ_NAME_ROOM];

        if (!kr_requirement_canonical(item.name, strlen(item.name), canonical) ||
            (j->op == KR_UNINSTALL ? is_wanted(j, canonical) : file_of(j, canonical) != NULL))
            continue;
        item.requested |= was_requested_now(j, canonical);
        j->items[j->item_count++] = item;
    }
}

static void add_items(struct kr_install_job *j)
{
    for (size_t i = 0; i < j->row_count; i++) {
        const struct kr_install_row *row = &j->rows[i];
        const struct kr_package_item *old = kr_package_list_find(j->before, row->file->canonical);

        j->items[j->item_count++] =
            (struct kr_package_item){.name = row->file->name,
                                     .version = row->file->version,
                                     .key = row->key,
                                     .own = row->own,
                                     .sha256 = row->sha256,
                                     .index = row->own && row->file->sdist ? "" : j->in->index,
                                     .file = row->name,
                                     .requested = row->file->requested || (old && old->requested)};
    }
}

static int compare_items(const void *a, const void *b)
{
    return strcasecmp(((const struct kr_package_item *)a)->name, ((const struct kr_package_item *)b)->name);
}

static int read_item_facts(const struct kr_install_job *j, const struct kr_package_item *item,
                           struct kr_package_facts *ret_facts)
{
    cleanup_fd int env = -1;

    if (!item->own)
        return kr_package_store_facts(j->in->config.packages, item->key, ret_facts);
    env = openat(j->folder, "env", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return env < 0 ? -errno : kr_package_own_facts(env, item->key, ret_facts);
}

/* Bytes and files of the whole environment, as they were counted when they were unpacked. */
static int measure_items(struct kr_install_job *j)
{
    const struct kr_install_config *config = &j->in->config;
    uint64_t bytes = 0, files = 0;

    for (size_t i = 0; i < j->item_count; i++) {
        struct kr_package_facts facts = {0};

        if (read_item_facts(j, &j->items[i], &facts) < 0)
            continue; /* what is missing is env_make's to say */
        bytes += facts.bytes;
        files += facts.files;
    }
    if (config->installed_max && bytes > config->installed_max)
        return kr_err_set(&j->err, KR_ERR_LIMIT, 0,
                          "the sandbox's packages would take %" PRIu64 " bytes, and this server allows %" PRIu64
                          " (packages.max_installed)",
                          bytes, config->installed_max),
               -EFBIG;
    if (config->files_max && files > config->files_max)
        return kr_err_set(&j->err, KR_ERR_LIMIT, 0,
                          "the sandbox's packages would be %" PRIu64 " files, and this server allows %u "
                          "(packages.max_files)",
                          files, config->files_max),
               -EFBIG;
    return 0;
}

static void run_make(void *data)
{
    struct kr_install_job *j = data;

    j->result = j->op == KR_INSTALL ? measure_items(j) : 0;
    if (j->result >= 0)
        j->result = kr_package_env_make(j->folder, j->in->config.packages, j->in->config.python, j->items,
                                        j->item_count, j->before->generation, &j->made, &j->err);
}

static void tell_made(struct kr_install_job *j)
{
    cleanup_buf struct kr_buf names = {0};
    char *line, *rest = NULL;

    kr_buf_init(&names, 900);
    for (size_t i = 0; i < j->row_count; i++)
        (void)kr_buf_printf(&names, " %s-%s", j->rows[i].file->name, j->rows[i].file->version);
    for (size_t i = 0; j->op == KR_UNINSTALL && i < j->wanted.count; i++) {
        const struct kr_package_item *item = kr_package_list_find(j->before, j->wanted.items[i]->canonical);

        if (item)
            (void)kr_buf_printf(&names, " %s-%s", item->name, item->version);
    }
    for (line = strtok_r(j->made.notes, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        kr_install_note(j, "%s", line);
    if (names.len > 0)
        kr_install_say(j, "Successfully %s%s%s", j->op == KR_INSTALL ? "installed" : "uninstalled", kr_buf_str(&names),
                       names.failed ? " …" : "");
}

static void on_made(void *data)
{
    struct kr_install_job *j = data;

    (void)kr_install_end(j); /* the lock of the environment is ours until here: no outcome before */
    if (!j->job || j->step != KR_STEP_MAKING)
        return;
    if (j->result >= 0) {
        tell_made(j);
        kr_install_succeed(j);
    } else if (j->err.kind == KR_ERR_CONFLICT && ++j->tries < KR_INSTALL_TRIES_MAX) {
        kr_install_rows_free(j);
        kr_answer_done(&j->answer);
        kr_install_read(j);
    } else {
        kr_install_fail_with(j, &j->err);
    }
}

/* The sandbox may have been reset or deleted meanwhile: what was its folder is about to go. */
static bool is_same_folder(struct kr_install_job *j)
{
    const struct kr_caller who = {.user = j->user, .rights = j->rights, .address = "", .request = ""};
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_err err;

    return kr_box_sandbox_find(j->in->config.box, &who, j->sandbox, &s, &err) >= 0 &&
           strcmp(s.row.folder, j->folder_name) == 0;
}

void kr_install_make(struct kr_install_job *j)
{
    static const struct kr_work_calls calls = {.run = run_make, .done = on_made, .dropped = on_made};

    if (!is_same_folder(j)) {
        kr_install_fail(j, "failed", NULL, "the sandbox was reset or deleted meanwhile");
        return;
    }
    free(j->items);
    j->item_count = 0;
    j->items = calloc(j->before->count + j->row_count + 1, sizeof *j->items);
    if (!j->items) {
        kr_install_fail(j, "failed", NULL, "out of memory");
        return;
    }
    keep_items(j);
    add_items(j);
    if (j->item_count > KR_PACKAGE_ITEMS_MAX) {
        kr_install_fail(j, "too_large", NULL, "a sandbox has at most %u packages", KR_PACKAGE_ITEMS_MAX);
        return;
    }
    qsort(j->items, j->item_count, sizeof *j->items, compare_items);
    kr_install_set_step(j, KR_STEP_MAKING);
    kr_job_progress(j->job, j->downloaded, j->downloaded, j->op == KR_INSTALL ? "installing" : "uninstalling");
    (void)start_work(j, &calls);
}

/* From an answer to folders of the store: what is there already, what is fetched, checked and unpacked.
 *
 * Called by install_steps.c once an answer was judged. Invariants: a wheel comes into the shared store only with the
 * hash that the index's page gave, which the egress process tells and not the resolver; one without is the
 * environment's own; a file that is fetched has no name, so nothing is left of it when the server is killed. */
#include "clock.h"
#include "fd.h"
#include "install_internal.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMP_FOLDER "packages/tmp"
#define LEAST_MS 1000u

/* ---- files without a name ---- */

static int open_temp_folder(const char *data)
{
    cleanup_fd int top = open(data, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (top < 0 || (mkdirat(top, "packages", 0711) < 0 && errno != EEXIST) ||
        (mkdirat(top, TEMP_FOLDER, 0700) < 0 && errno != EEXIST))
        return -errno;
    return openat(top, TEMP_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int kr_install_temp(struct kr_install *in, struct kr_err *err)
{
    char name[KR_STORE_ID_ROOM];
    int fd;

    if (in->tmp < 0)
        in->tmp = open_temp_folder(in->config.data ? in->config.data : kr_box_config(in->config.box)->data);
    if (in->tmp < 0)
        return kr_err_set_disk(err, in->tmp == -1 ? errno : -in->tmp, "make the folder of downloads");
    fd = openat(in->tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd >= 0 ? fd : kr_err_set_disk(err, errno, "make a file for a download");
    kr_store_new_id(name); /* a filesystem without such files: its name goes at once */
    fd = openat(in->tmp, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)unlinkat(in->tmp, name, 0);
    return fd >= 0 ? fd : kr_err_set_disk(err, errno, "make a file for a download");
}

static void fetch_more(struct kr_install_job *j);

/* ---- rows ---- */

static void free_row(struct kr_install_row *row)
{
    row->fd = kr_fd_close(row->fd);
}

void kr_install_rows_free(struct kr_install_job *j)
{
    for (size_t i = 0; i < j->row_count; i++)
        free_row(&j->rows[i]);
    free(j->rows);
    j->rows = NULL;
    j->row_count = 0;
}

void kr_install_fetch_stop(struct kr_install_job *j)
{
    for (size_t i = 0; i < j->row_count; i++) {
        struct kr_install_row *row = &j->rows[i];

        if (row->state == KR_ROW_FETCHING) {
            kr_egress_cancel(j->in->config.egress, &row->ask);
            row->state = KR_ROW_LACKING;
            row->fd = kr_fd_close(row->fd);
            (void)kr_install_end(j);
        }
        if (row->state == KR_ROW_BUILDING)
            kr_install_build_stop(row);
    }
}

static void fail_row(struct kr_install_row *row, const char *kind, const char *text)
{
    json_t *names = json_pack("[s]", row->file->name);

    kr_install_fail(row->job, kind, names, "%s: %s", row->file->file, text);
    json_decref(names);
}

/* Does every requirement that names it take this hash? */
static bool is_hash_wanted(const struct kr_install_row *row)
{
    const struct kr_requirements *wanted = &row->job->wanted;

    for (size_t i = 0; i < wanted->count; i++)
        if (strcmp(wanted->items[i]->canonical, row->file->canonical) == 0 &&
            !kr_requirement_hash_fits(wanted->items[i], row->sha256))
            return false;
    return true;
}

static bool check_wanted(struct kr_install_row *row)
{
    if (is_hash_wanted(row))
        return true;
    fail_row(row, "hash", "its hash is none of those that --hash names");
    return false;
}

void kr_install_fetch_progress(struct kr_install_job *j, const char *what)
{
    uint64_t bytes = 0, total = 0;
    bool is_known = true;

    for (size_t i = 0; i < j->row_count; i++) {
        bytes += j->rows[i].bytes;
        total += j->rows[i].total;
        is_known &= j->rows[i].total > 0 || j->rows[i].state == KR_ROW_READY;
    }
    kr_job_progress(j->job, bytes, is_known ? total : 0, what);
}

/* ---- unpacking ---- */

static void run_unpack(void *data)
{
    struct kr_install_row *row = data;
    struct kr_install_job *j = row->job;
    struct kr_package_store *store = j->in->config.packages;
    cleanup_fd int env = -1;

    if (j->stop) {
        row->result = -ECANCELED;
        return;
    }
    if (!row->own) {
        row->result =
            kr_package_store_add(store, row->fd, row->name, row->sha256, &row->limits, &j->stop, row->key, &row->err);
        return;
    }
    env = openat(j->folder, "env", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    row->result =
        env < 0 ? kr_err_set(&row->err, KR_ERR_SYSTEM, errno, "open the sandbox's environment")
                : kr_package_own_add(env, row->fd, row->name, &row->limits, &j->stop, row->key, row->sha256, &row->err);
}

static void fail_unpack(struct kr_install_row *row)
{
    const char *kind = row->err.kind == KR_ERR_INVALID ? "broken" : row->err.kind == KR_ERR_LIMIT ? "too_large" : NULL;

    if (kind)
        fail_row(row, kind, row->err.msg);
    else
        kr_install_fail_with(row->job, &row->err);
}

static void on_unpacked(void *data)
{
    struct kr_install_row *row = data;
    struct kr_install_job *j = row->job;

    row->fd = kr_fd_close(row->fd);
    row->state = KR_ROW_LACKING;
    if (!kr_install_end(j))
        return;
    if (row->result < 0) {
        fail_unpack(row);
        return;
    }
    row->state = KR_ROW_READY;
    row->is_fresh = true;
    fetch_more(j);
}

/* No wheel may take more than what all may. */
static struct kr_wheel_limits limits_of(const struct kr_install *in)
{
    struct kr_wheel_limits l = kr_wheel_limits_default;

    if (in->config.download_max && in->config.download_max < l.archive_max)
        l.archive_max = in->config.download_max;
    if (in->config.installed_max && in->config.installed_max < l.bytes_max)
        l.bytes_max = l.file_max = in->config.installed_max;
    if (in->config.files_max && in->config.files_max < l.files_max)
        l.files_max = in->config.files_max;
    return l;
}

void kr_install_unpack(struct kr_install_row *row)
{
    static const struct kr_work_calls calls = {.run = run_unpack, .done = on_unpacked, .dropped = on_unpacked};
    struct kr_install_job *j = row->job;
    struct stat st;

    row->limits = limits_of(j->in);
    if (fstat(row->fd, &st) == 0)
        row->bytes = row->total = (uint64_t)st.st_size;
    row->state = KR_ROW_UNPACKING;
    kr_install_begin(j);
    if (kr_lane_start(j->in->lane, &row->work, &calls, row) >= 0)
        return;
    (void)kr_install_end(j);
    row->state = KR_ROW_LACKING;
    kr_install_fail(j, "failed", NULL, "too many installs are waiting for the disk: try again in a moment");
}

/* ---- fetching ---- */

static uint64_t bytes_under_way(const struct kr_install_job *j)
{
    uint64_t bytes = j->downloaded;

    for (size_t i = 0; i < j->row_count; i++)
        bytes += j->rows[i].state == KR_ROW_FETCHING ? j->rows[i].bytes : 0;
    return bytes;
}

static void fail_too_large(struct kr_install_row *row)
{
    char text[160];

    snprintf(text, sizeof text,
             "all together it would be more than the %" PRIu64
             " bytes that one install may fetch (packages.max_download)",
             row->job->in->config.download_max);
    fail_row(row, "too_large", text);
}

static void on_fetch_progress(struct kr_egress_ask *ask, uint64_t bytes, uint64_t total)
{
    struct kr_install_row *row = (struct kr_install_row *)((char *)ask - offsetof(struct kr_install_row, ask));
    struct kr_install_job *j = row->job;
    char text[KR_WHEEL_NAME_ROOM + 16];

    row->bytes = bytes;
    row->total = total;
    if (j->in->config.download_max && bytes_under_way(j) > j->in->config.download_max) {
        fail_too_large(row);
        return;
    }
    snprintf(text, sizeof text, "downloading %.150s", row->file->file);
    kr_install_fetch_progress(j, text);
}

/* The answer was an old one, and the egress process is another: its links lead nowhere. */
static bool resolve_again(struct kr_install_job *j)
{
    if (!j->is_kept || j->tries + 1 >= KR_INSTALL_TRIES_MAX)
        return false;
    j->tries++;
    j->again = true;
    kr_install_resolutions_clear(j->in);
    kr_install_fetch_stop(j);
    fetch_more(j);
    return true;
}

static void check_fetched(struct kr_install_row *row, const struct kr_egress_fetched *fetched)
{
    const struct kr_answer_file *f = row->file;
    char text[256];

    if (fetched->status != 200) {
        snprintf(text, sizeof text, "the index answers %u%s", fetched->status,
                 fetched->status == 404 ? ": it has no such file" : "");
        if (!resolve_again(row->job))
            fail_row(row, "index", text);
        return;
    }
    if ((fetched->promised[0] && strcmp(fetched->promised, fetched->sha256) != 0) ||
        (f->sha256[0] && strcmp(f->sha256, fetched->sha256) != 0)) {
        snprintf(text, sizeof text, "its hash is %s, and the index says %s", fetched->sha256,
                 fetched->promised[0] ? fetched->promised : f->sha256);
        fail_row(row, "hash", text);
        return;
    }
    row->own = !fetched->promised[0];
    snprintf(row->sha256, sizeof row->sha256, "%s", fetched->sha256);
    row->job->downloaded += fetched->bytes;
    if (check_wanted(row))
        kr_install_unpack(row);
}

static void on_fetch_end(struct kr_egress_ask *ask, const struct kr_egress_fetched *fetched, const struct kr_err *err)
{
    struct kr_install_row *row = (struct kr_install_row *)((char *)ask - offsetof(struct kr_install_row, ask));
    struct kr_install_job *j = row->job;

    row->state = KR_ROW_LACKING;
    if (!kr_install_end(j))
        return;
    if (fetched)
        check_fetched(row, fetched);
    else if (err->kind == KR_ERR_LIMIT)
        fail_too_large(row);
    else if (!resolve_again(j))
        fail_row(row, err->kind == KR_ERR_TIMEOUT ? "timeout" : "index", err->msg);
}

static uint64_t time_left(const struct kr_install_job *j)
{
    uint64_t spent = (kr_clock_ns() - j->began_ns) / 1000000, all = j->in->config.timeout_ms;

    return all > spent + LEAST_MS ? all - spent : LEAST_MS;
}

static void start_fetch(struct kr_install_row *row)
{
    struct kr_install_job *j = row->job;
    const struct kr_install_config *config = &j->in->config;
    uint64_t spent = bytes_under_way(j);
    char url[KR_ANSWER_PATH_MAX + 16];
    struct kr_egress_fetch fetch = {.url = url, .sandbox = j->sandbox, .user = j->user, .timeout_ms = time_left(j)};
    struct kr_err err;

    if (config->download_max && spent >= config->download_max) {
        fail_too_large(row);
        return;
    }
    fetch.max_bytes = config->download_max ? config->download_max - spent : kr_wheel_limits_default.archive_max;
    snprintf(url, sizeof url, "index:%s", row->file->path + strlen(KR_ANSWER_INDEX));
    row->fd = fetch.file = kr_install_temp(j->in, &err);
    if (row->fd < 0) {
        kr_install_fail_with(j, &err);
        return;
    }
    row->ask = (struct kr_egress_ask){.on_progress = on_fetch_progress, .on_end = on_fetch_end};
    kr_install_say(j, "Downloading %s", row->file->file);
    row->state = KR_ROW_FETCHING;
    kr_install_begin(j);
    if (kr_egress_fetch(config->egress, &fetch, &row->ask, &err) >= 0)
        return;
    row->state = KR_ROW_LACKING;
    (void)kr_install_end(j);
    fail_row(row, "index", err.msg);
}

/* ---- all of them ---- */

/* Goes on with what is next: more fetches, or the generation. */
static void fetch_more(struct kr_install_job *j)
{
    unsigned under_way = 0, ready = 0;

    if (j->again) {
        if (j->pending > 0)
            return;
        j->again = false;
        kr_install_rows_free(j);
        kr_install_read(j);
        return;
    }
    for (size_t i = 0; i < j->row_count; i++) {
        ready += j->rows[i].state == KR_ROW_READY;
        under_way += j->rows[i].state > KR_ROW_LACKING && j->rows[i].state < KR_ROW_READY;
    }
    if (ready == j->row_count) {
        kr_install_make(j);
        return;
    }
    for (size_t i = 0; i < j->row_count && j->step == KR_STEP_FETCHING && under_way < KR_INSTALL_FETCHES_MAX; i++) {
        if (j->rows[i].state != KR_ROW_LACKING)
            continue;
        under_way++;
        snprintf(j->rows[i].sha256, sizeof j->rows[i].sha256, "%s", j->rows[i].file->sha256);
        if (j->rows[i].file->sdist && check_wanted(&j->rows[i])) /* --hash is of the source */
            kr_install_build(&j->rows[i]);
        else if (!j->rows[i].file->sdist)
            start_fetch(&j->rows[i]);
    }
}

/* What the store has. Its word on what a folder is counts, and not the resolver's. */
static void run_look(void *data)
{
    struct kr_install_job *j = data;

    for (size_t i = 0; i < j->row_count && !j->stop; i++) {
        struct kr_install_row *row = &j->rows[i];
        struct kr_package_facts facts;

        row->state = KR_ROW_LACKING;
        if (row->file->sdist || !row->file->sha256[0] ||
            kr_package_store_has(j->in->config.packages, row->file->sha256, row->key) != 1 ||
            kr_package_store_facts(j->in->config.packages, row->key, &facts) < 0 ||
            strcmp(facts.file, row->file->file) != 0)
            continue;
        snprintf(row->sha256, sizeof row->sha256, "%s", row->file->sha256);
        row->state = KR_ROW_READY;
    }
}

static void on_looked(void *data)
{
    struct kr_install_job *j = data;

    if (!kr_install_end(j))
        return;
    for (size_t i = 0; i < j->row_count; i++) {
        if (j->rows[i].state != KR_ROW_READY)
            continue;
        j->cached++;
        kr_install_say(j, "Using cached %s", j->rows[i].name);
        if (!check_wanted(&j->rows[i]))
            return;
    }
    fetch_more(j);
}

void kr_install_fetch(struct kr_install_job *j)
{
    static const struct kr_work_calls calls = {.run = run_look, .done = on_looked, .dropped = on_looked};

    j->rows = calloc(j->answer.file_count, sizeof *j->rows);
    if (!j->rows) {
        kr_install_fail(j, "failed", NULL, "out of memory");
        return;
    }
    j->cached = 0;
    j->row_count = j->answer.file_count;
    for (size_t i = 0; i < j->row_count; i++) {
        j->rows[i] = (struct kr_install_row){.job = j, .file = &j->answer.files[i], .fd = -1};
        snprintf(j->rows[i].name, sizeof j->rows[i].name, "%s", j->answer.files[i].file);
    }
    kr_install_begin(j);
    if (kr_lane_start(j->in->lane, &j->work, &calls, j) >= 0)
        return;
    (void)kr_install_end(j);
    kr_install_fail(j, "failed", NULL, "too many installs are waiting for the disk: try again in a moment");
}

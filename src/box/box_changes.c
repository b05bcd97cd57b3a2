/* Which files a run changed: looks at its sandbox's folder before and after it, on the thread pool unless it has few.
 *
 * Called by box_sessions.c (before the first run of a session) and box_run_events.c (at the end of one). Invariants:
 * one look at a time for each session; the one after a run is the one before the next; a session lives until its
 * look is over. */
#include "box_internal.h"
#include "clock.h"
#include "fd.h"
#include "files.h"
#include "json.h"
#include "work.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 2000u
#define FEW_FILES 16u /* and ten times as many entries */
#define FEW_MS 1u

struct look {
    struct kr_work work;
    struct kr_box *box;
    struct kr_box_session *session;
    struct kr_box_run *run; /* NULL: before the first */
    int folder;
    struct kr_snapshot *before, *after;
    struct kr_buf json;
    bool incomplete;
};

static void write_changes(struct look *l, const struct kr_changes *c)
{
    struct kr_json j;

    kr_json_init(&j, &l->json);
    kr_json_array(&j);
    for (size_t i = 0; i < c->count; i++) {
        kr_json_object(&j);
        kr_files_json_path(&j, "path", c->files[i].path);
        kr_json_key_str(&j, "change", kr_change_names[c->files[i].change]);
        kr_json_key_uint(&j, "size", c->files[i].size);
        kr_json_object_end(&j);
    }
    kr_json_array_end(&j);
    if (kr_json_done(&j) < 0) {
        kr_buf_reset(&l->json);
        l->incomplete = true;
    }
}

static void compare(struct look *l)
{
    struct kr_changes changes;

    if (!l->run)
        return;
    if (!l->before) { /* it could not be looked at before */
        l->incomplete = true;
        return;
    }
    if (kr_changes_find(l->before, l->after, 0, &changes) < 0) {
        l->incomplete = true;
        return;
    }
    l->incomplete = changes.incomplete;
    write_changes(l, &changes);
    kr_changes_done(&changes);
}

/* On the thread pool: touches the look alone. */
static void run_look(void *data)
{
    struct look *l = data;

    if (kr_snapshot_take(l->folder, 0, kr_clock_after_ms(LOOK_MS), &l->after) < 0)
        l->incomplete = true;
    else
        compare(l);
}

/* A folder of few files is looked at here: it was in use a moment ago, so the system has it in memory, and a thread
 * would take longer to wake. False: it has more, and others must not wait for it. */
static bool look_here(struct look *l)
{
    if (l->session->many_files || l->session->spec.workspace != KR_WORKSPACE_SHELF ||
        kr_snapshot_take(l->folder, FEW_FILES, kr_clock_after_ms(FEW_MS), &l->after) < 0)
        return false;
    if (kr_snapshot_incomplete(l->after)) {
        kr_snapshot_free(l->after);
        l->after = NULL;
        l->session->many_files = true;
        return false;
    }
    compare(l);
    return true;
}

/* Other sessions in the same folder look again before their next run, so that it does not report these changes. */
static void forget_others(const struct kr_box_session *changed)
{
    struct kr_box_session *session;

    TAILQ_FOREACH(session, &changed->box->sessions, link)
    if (session != changed && !session->current && !kr_changes_looking(session) &&
        strcmp(session->sandbox, changed->sandbox) == 0)
        kr_changes_forget(session);
}

/* The one after a run is the one before the next. */
static void finish_look(struct look *l)
{
    struct kr_box_session *session = l->session;

    kr_snapshot_free(session->before);
    session->before = l->after;
    if (l->run && l->json.len > strlen("[]"))
        forget_others(session);
    if (l->run)
        kr_box_run_finish(l->run, l->json.len ? kr_buf_str(&l->json) : NULL, l->incomplete);
    kr_buf_done(&l->json);
}

static void on_look_done(void *data)
{
    struct look *l = data;
    struct kr_box_session *session = l->session;
    bool was_before = !l->run;

    close(l->folder);
    kr_snapshot_free(l->before);
    if (!kr_box_job_end(l->box)) { /* session and run went with it */
        kr_snapshot_free(l->after);
        kr_buf_done(&l->json);
        free(l);
        return;
    }
    session->look = session->look == KR_BOX_LOOK_STALE ? KR_BOX_LOOK_NEEDED : KR_BOX_LOOK_DONE;
    finish_look(l);
    if (was_before)
        kr_box_session_proceed(session);
    free(l);
}

bool kr_changes_looking(const struct kr_box_session *session)
{
    return session->look == KR_BOX_LOOK_UNDER_WAY || session->look == KR_BOX_LOOK_STALE;
}

void kr_changes_forget(struct kr_box_session *session)
{
    kr_snapshot_free(session->before);
    session->before = NULL;
    if (session->spec.workspace == KR_WORKSPACE_NONE)
        session->look = KR_BOX_LOOK_DONE;
    else
        session->look = kr_changes_looking(session) ? KR_BOX_LOOK_STALE : KR_BOX_LOOK_NEEDED;
}

void kr_changes_look(struct kr_box_session *session, struct kr_box_run *run)
{
    static const struct kr_work_calls calls = {.run = run_look, .done = on_look_done};
    struct look *l = calloc(1, sizeof *l);
    char path[KR_FOLDER_ROOM + 8];
    int folder = -1;

    if (!run)
        session->look = KR_BOX_LOOK_DONE;

    snprintf(path, sizeof path, "%s/files", session->spec.folder);
    if (l)
        folder = session->spec.workspace >= 0
                     ? openat(session->box->host, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                     : openat(session->box->shelf, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0) {
        *l = (struct look){
            .box = session->box, .session = session, .run = run, .folder = folder, .before = session->before};
        session->before = NULL;
        kr_buf_init(&l->json, KR_STORE_FILES_MAX);
        if (look_here(l)) {
            close(folder);
            kr_snapshot_free(l->before);
            finish_look(l);
            free(l);
            return;
        }
        kr_work_start(session->box->loop, &l->work, &calls, l);
        kr_box_job_begin(session->box);
        session->look = KR_BOX_LOOK_UNDER_WAY;
        return;
    }
    free(l);
    if (run)
        kr_box_run_finish(run, NULL, true);
}

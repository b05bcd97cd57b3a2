/* The warden's cells as a holder of sessions: which cell a session is, and what its cgroup counts.
 *
 * Called by the engine through holder.h, and by the warden client's answers and events. Invariants: a session is found
 * by its cell from OPENED until it is released; a cell that is not awaited any more is killed (warden_client.c).
 *
 * Counters are read without a question to the warden: at a run's end a question and its answer would take longer than
 * a short run does. What is read is this cell's own: its cgroup folder goes to another cell only after the warden has
 * sent ENDED, so what was read counts only if no frame of the warden waits unread. */
#include "warden_holder.h"
#include "counter_files.h"
#include "counters.h"
#include "fd.h"
#include "log.h"
#include "warden_client.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u

struct cell {
    struct kr_held held;
    struct cell *next;    /* of its bucket */
    uint64_t id;          /* 0 until OPENED */
    uint64_t user, group; /* of its cgroup folders */
    uint32_t question;    /* its OPEN or START that awaits an answer, 0: none */
    unsigned fds_wanted;  /* of OPENED */
    bool listens;         /* a listener is among them, as the last */
};

struct warden_holder {
    struct kr_holder holder;
    struct kr_wc *wc;
    bool greeted;
    uint32_t level; /* enum kr_level, once it is greeted */
    struct kr_w_hier hier[KR_HIERARCHIES_MAX];
    int hier_dirs[KR_HIERARCHIES_MAX]; /* our folder in each hierarchy */
    unsigned hier_count;               /* of them that are open */
    struct kr_counter_files files;
    struct cell *cells[BUCKETS];
};

static struct warden_holder *holder_of(const struct kr_held *held)
{
    return (struct warden_holder *)held->holder;
}

/* ---- cells by their ids ---- */

static struct cell **cell_bucket(struct warden_holder *w, uint64_t id)
{
    return &w->cells[(id ^ id >> 20) % BUCKETS];
}

static void add_cell(struct warden_holder *w, struct cell *c)
{
    struct cell **b = cell_bucket(w, c->id);

    c->next = *b;
    *b = c;
}

static void remove_cell(struct warden_holder *w, struct cell *c)
{
    for (struct cell **p = cell_bucket(w, c->id); *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            return;
        }
}

static struct cell *find_cell(struct warden_holder *w, uint64_t id)
{
    struct cell *c = *cell_bucket(w, id);

    while (c && c->id != id)
        c = c->next;
    return c;
}

/* ---- opening and starting ---- */

static int wrong_answer(int r, const char *what, struct kr_err *err)
{
    return kr_err_set(err, KR_ERR_SYSTEM, -r, "%s", r == -EPIPE ? KR_WC_GONE : what);
}

static void on_open_answer(void *data, const struct kr_wc_answer *a)
{
    struct cell *c = data;
    const struct kr_holder_calls *calls = c->held.holder->calls;
    const struct kr_w_opened *opened = a->payload;
    unsigned nfds = a->nfds;
    int none = -1;
    struct kr_err err;

    c->question = 0;
    if (a->r < 0) {
        calls->on_opened(c->held.session, NULL, a->err);
        return;
    }
    c->id = opened->cell;
    c->user = opened->user;
    c->group = opened->group;
    c->held.placed = true;
    add_cell(holder_of(&c->held), c);
    if (a->nfds != c->fds_wanted || c->listens != ((opened->flags & KR_OPENED_LISTENER) != 0)) {
        kr_err_set(&err, KR_ERR_PROTOCOL, EPROTO, "the warden sent %u descriptors, not %u", a->nfds, c->fds_wanted);
        calls->on_opened(c->held.session, NULL, &err);
        return;
    }
    nfds -= c->listens;
    calls->on_opened(
        c->held.session,
        &(struct kr_held_opened){
            .layers = opened->layers, .fds = a->fds, .nfds = nfds, .listener = c->listens ? &a->fds[nfds] : &none},
        NULL);
}

static int open_cell(struct kr_holder *h, struct kr_session *s, const struct kr_session_spec *spec,
                     struct kr_held **ret_held, struct kr_err *err)
{
    struct kr_w_open question = {.zygote = spec->zygote,
                                 .network = spec->network.kind,
                                 .flags = KR_OPEN_PARK | (spec->stdin_pipe ? KR_OPEN_STDIN : 0),
                                 .workspace = spec->workspace,
                                 .owner = spec->owner,
                                 .epoch = spec->epoch,
                                 .limits = spec->limits};
    struct warden_holder *w = (struct warden_holder *)h;
    struct cell *c = calloc(1, sizeof *c);
    int r = -ENOMEM;

    if (c) {
        c->held = (struct kr_held){.holder = h, .session = s};
        c->listens = spec->network.kind >= KR_NET_EGRESS_MIN_;
        c->fds_wanted = (spec->stdin_pipe ? 4 : 3) + c->listens;
        r = kr_wc_ask(w->wc, KR_W_OPEN, &question, sizeof question, on_open_answer, c, &c->question);
    }
    if (r < 0) {
        free(c);
        return wrong_answer(r, "ask for a session", err);
    }
    *ret_held = &c->held;
    return 0;
}

static void on_start_answer(void *data, const struct kr_wc_answer *a)
{
    struct cell *c = data;

    c->question = 0;
    c->held.holder->calls->on_started(c->held.session, a->r < 0 ? a->err : NULL);
}

static int start_cell(struct kr_held *held, const struct kr_session_spec *spec, struct kr_err *err)
{
    struct cell *c = (struct cell *)held;
    bool can_mount = holder_of(held)->level != KR_LEVEL_CONTAINED; /* there a session has no environment */
    struct kr_w_start question = {.cell = c->id,
                                  .workspace = spec->workspace,
                                  .mounts = spec->mounts,
                                  .venv = spec->venv && can_mount,
                                  .read_only = spec->read_only && can_mount, /* else Landlock's (start.py) */
                                  .owner = spec->owner,
                                  .limits = spec->limits};
    int r;

    if (spec->workspace == KR_WORKSPACE_SHELF || question.venv)
        memcpy(question.folder, spec->folder, sizeof question.folder);
    r = kr_wc_ask(holder_of(held)->wc, KR_W_START, &question, sizeof question, on_start_answer, c, &c->question);
    return r < 0 ? wrong_answer(r, "ask for the hand-over", err) : 0;
}

/* ---- orders ---- */

static void wake_zygote(struct kr_holder *h, uint32_t zygote)
{
    (void)kr_wc_wake(((struct warden_holder *)h)->wc, zygote); /* a warden that is gone is reported by on_gone */
}

static void preload_zygote(struct kr_holder *h, uint32_t zygote, const char *folder)
{
    (void)kr_wc_preload(((struct warden_holder *)h)->wc, zygote, folder);
}

static int signal_cell(struct kr_held *held, uint64_t since_ns, int signo)
{
    return kr_wc_signal(holder_of(held)->wc, ((struct cell *)held)->id, since_ns, signo);
}

static void forget_question(struct cell *c)
{
    if (c->question)
        kr_wc_forget(holder_of(&c->held)->wc, c->question);
    c->question = 0;
}

static int kill_cell(struct kr_held *held)
{
    struct cell *c = (struct cell *)held;

    forget_question(c);
    return c->id ? kr_wc_kill(holder_of(held)->wc, c->id) : -ENOENT;
}

static void release_cell(struct kr_held *held)
{
    struct cell *c = (struct cell *)held;

    forget_question(c);
    if (c->id) {
        kr_counter_files_forget(&holder_of(held)->files, c->id);
        remove_cell(holder_of(held), c);
    }
    free(c);
}

/* ---- counters ---- */

static void close_hierarchies(struct warden_holder *w)
{
    while (w->hier_count > 0)
        kr_fd_close(w->hier_dirs[--w->hier_count]);
    kr_counter_files_done(&w->files);
    w->holder.descriptors = 0;
}

static int look_in_cell(const void *arg, unsigned hier, const char *file, const char *key, uint64_t *ret)
{
    const struct cell *c = arg;
    struct warden_holder *w = holder_of(&c->held);
    char folder[KR_GROUP_NAME_ROOM], path[96];
    int r, fd = kr_counter_files_find(&w->files, c->id, hier, file);

    if (fd >= 0)
        return kr_counter_look(fd, key, ret);
    kr_group_name(c->user, c->group, folder);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    fd = openat(w->hier_dirs[hier], path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    r = kr_counter_look(fd, key, ret);
    if (key && strcmp(key, KR_COUNTER_LINES) == 0)
        kr_fd_close(fd);
    else
        kr_counter_files_keep(&w->files, c->id, hier, file, fd);
    return r;
}

static int read_usage(struct kr_held *held, struct kr_usage *ret)
{
    struct warden_holder *w = holder_of(held);
    int r = 0;

    memset(ret, 0, sizeof *ret);
    if (w->hier_count == 0)
        return -ENOENT;
    for (unsigned i = 0; i < w->hier_count && r >= 0; i++)
        r = kr_counters_read(&w->hier[i], i, look_in_cell, held, ret);
    if (r == -EACCES || r == -EPERM) { /* the next read would fail, too */
        kr_log(KR_LOG_INFO, "counters not readable, the warden is asked for each run", "errno=%d", -r);
        close_hierarchies(w);
    }
    if (r < 0)
        return r;
    return kr_wc_is_silent(w->wc) ? 0 : -EAGAIN;
}

static void on_stat_answer(void *data, const struct kr_wc_answer *a)
{
    struct kr_usage_ask *ask = data;

    ask->id = 0;
    ask->fn(ask->data, a->r < 0 ? NULL : &((const struct kr_w_stats *)a->payload)->usage);
}

static int ask_usage(struct kr_held *held, struct kr_usage_ask *ask)
{
    struct kr_w_cell question = {.cell = ((struct cell *)held)->id};

    return kr_wc_ask(holder_of(held)->wc, KR_W_STAT, &question, sizeof question, on_stat_answer, ask, &ask->id);
}

static int pace_cell(struct kr_held *held, enum kr_pace pace)
{
    return kr_wc_pace(holder_of(held)->wc, ((struct cell *)held)->id, pace);
}

static void on_clear_answer(void *data, const struct kr_wc_answer *a)
{
    struct kr_usage_ask *ask = data;
    const struct kr_w_cleared *cleared = a->payload;

    ask->id = 0;
    ask->left = a->r < 0 ? 0 : cleared->left;
    ask->fn(ask->data, a->r < 0 ? NULL : &cleared->usage);
}

static int clear_cell(struct kr_held *held, struct kr_usage_ask *ask, uint64_t since_ns, bool hard)
{
    struct kr_w_clear question = {.cell = ((struct cell *)held)->id, .since_ns = since_ns, .hard = hard};

    return kr_wc_ask(holder_of(held)->wc, KR_W_CLEAR, &question, sizeof question, on_clear_answer, ask, &ask->id);
}

static void forget_usage(struct kr_held *held, struct kr_usage_ask *ask)
{
    kr_wc_forget(holder_of(held)->wc, ask->id);
    ask->id = 0;
}

static void on_count_answer(void *data, const struct kr_wc_answer *a)
{
    struct kr_count_ask *ask = data;

    ask->id = 0;
    ask->fn(ask->data, a->r < 0 ? NULL : a->payload, a->r < 0 ? a->err : NULL);
}

static int count_cell(struct kr_held *held, struct kr_count_ask *ask)
{
    struct kr_w_cell question = {.cell = ((struct cell *)held)->id};

    return kr_wc_ask(holder_of(held)->wc, KR_W_COUNT, &question, sizeof question, on_count_answer, ask, &ask->id);
}

static void forget_count(struct kr_held *held, struct kr_count_ask *ask)
{
    kr_wc_forget(holder_of(held)->wc, ask->id);
    ask->id = 0;
}

/* ---- folders of sandboxes ---- */

static void on_shelf_answer(void *data, const struct kr_wc_answer *a)
{
    struct kr_shelf_ask *ask = data;

    ask->id = 0;
    ask->fn(ask->data, a->r < 0 ? NULL : a->payload, a->r < 0 ? a->err : NULL);
}

static int ask_shelf(struct kr_holder *h, const struct kr_w_shelf *question, struct kr_shelf_ask *ask)
{
    struct warden_holder *w = (struct warden_holder *)h;

    return kr_wc_ask(w->wc, KR_W_SHELF, question, sizeof *question, on_shelf_answer, ask, &ask->id);
}

static void forget_shelf(struct kr_holder *h, struct kr_shelf_ask *ask)
{
    kr_wc_forget(((struct warden_holder *)h)->wc, ask->id);
    ask->id = 0;
}

/* ---- is it there ---- */

static void on_ping_answer(void *data, const struct kr_wc_answer *a)
{
    struct kr_ping_ask *ask = data;

    ask->id = 0;
    ask->fn(ask->data, a->r < 0 ? a->err : NULL);
}

static int ping_warden(struct kr_holder *h, struct kr_ping_ask *ask)
{
    return kr_wc_ask(((struct warden_holder *)h)->wc, KR_W_PING, NULL, 0, on_ping_answer, ask, &ask->id);
}

static void forget_ping(struct kr_holder *h, struct kr_ping_ask *ask)
{
    kr_wc_forget(((struct warden_holder *)h)->wc, ask->id);
    ask->id = 0;
}

/* ---- the warden's events ---- */

static void on_warden_hello(void *data, const struct kr_w_hello *hello, int *fds, unsigned nfds)
{
    struct warden_holder *w = data;
    struct kr_holder_info info = {.level = hello->level,
                                  .layers = hello->layers,
                                  .landlock_abi = hello->landlock_abi,
                                  .cgroup_kind = hello->cgroup_kind,
                                  .id_count = hello->id_count};

    if (w->greeted) /* the first was acted on */
        return;
    w->greeted = true;
    memcpy(w->hier, hello->hier, sizeof w->hier);
    for (unsigned i = 0; i < nfds && i < KR_HIERARCHIES_MAX; i++)
        w->hier_dirs[w->hier_count++] = steal_fd(&fds[i]);
    kr_counter_files_init(&w->files);
    w->holder.descriptors = w->hier_count + kr_counter_files_most(&w->files);
    w->level = hello->level;
    memcpy(info.detail, hello->detail, sizeof info.detail);
    info.detail[sizeof info.detail - 1] = '\0';
    if (hello->version != KR_PROTO_VERSION)
        kr_log(KR_LOG_ERROR, "warden of another version", "its=%u ours=%u", hello->version, KR_PROTO_VERSION);
    w->holder.calls->on_info(w->holder.data, &info);
}

static void on_warden_zygote(void *data, const struct kr_w_zygote *event)
{
    struct warden_holder *w = data;
    struct kr_holder_zygote zygote = {.zygote = event->zygote,
                                      .state = (enum kr_zygote_state)event->state,
                                      .generation = event->generation,
                                      .status = event->status,
                                      .err = event->err};

    if (event->state < KR_ZYG_STATE_MAX_)
        w->holder.calls->on_zygote(w->holder.data, &zygote);
}

static void on_cell_ended(void *data, const struct kr_w_ended *ended)
{
    struct warden_holder *w = data;
    struct cell *c = find_cell(w, ended->cell);
    struct kr_held_end end = {.status = ended->status, .known = ended->known, .usage = ended->usage};

    if (!c)
        return;
    forget_question(c);
    w->holder.calls->on_ended(c->held.session, &end);
}

static void on_warden_egress(void *data, int *fd)
{
    struct warden_holder *w = data;

    if (w->holder.calls->on_egress)
        w->holder.calls->on_egress(w->holder.data, steal_fd(fd));
}

static void on_warden_gone(void *data, const struct kr_err *err)
{
    struct warden_holder *w = data;

    w->holder.calls->on_gone(w->holder.data, err);
}

/* ---- life ---- */

static void close_holder(struct kr_holder *h)
{
    struct warden_holder *w = (struct warden_holder *)h;

    kr_wc_close(w->wc);
    close_hierarchies(w);
    free(w);
}

static const struct kr_holder_ops warden_ops = {
    .wake = wake_zygote,
    .preload = preload_zygote,
    .open = open_cell,
    .start = start_cell,
    .signal = signal_cell,
    .kill = kill_cell,
    .usage = read_usage,
    .ask_usage = ask_usage,
    .pace = pace_cell,
    .clear = clear_cell,
    .forget = forget_usage,
    .count = count_cell,
    .forget_count = forget_count,
    .release = release_cell,
    .shelf = ask_shelf,
    .forget_shelf = forget_shelf,
    .ping = ping_warden,
    .forget_ping = forget_ping,
    .close = close_holder,
};

int kr_warden_holder_new(struct uv_loop_s *loop, int control, struct kr_holder **ret_holder)
{
    static const struct kr_wc_calls calls = {.on_hello = on_warden_hello,
                                             .on_zygote = on_warden_zygote,
                                             .on_ended = on_cell_ended,
                                             .on_egress = on_warden_egress,
                                             .on_gone = on_warden_gone};
    struct warden_holder *w = calloc(1, sizeof *w);
    int r;

    if (!w)
        return -ENOMEM;
    w->holder.ops = &warden_ops;
    r = kr_wc_new(loop, control, &calls, w, &w->wc);
    if (r < 0) {
        free(w);
        return r;
    }
    *ret_holder = &w->holder;
    return 0;
}

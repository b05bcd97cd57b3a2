/* The engine's side of the warden's control socket.
 *
 * Called by warden_holder.c. Invariants: a question is answered once and within its deadline; a cell
 * whose OPENED is not awaited any more, or whose descriptors we had no room for, is killed and those that came are
 * closed; after the first sign that the warden is gone nothing is sent and on_gone is called once. */
#include "warden_client.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "log.h"
#include "loop.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define BACKLOG_MAX 4096u /* frames that wait for a full socket: far more than there are sessions */
#define FRAMES_PER_TURN 64

struct question {
    TAILQ_ENTRY(question) link;
    uint32_t id;
    uint16_t type;
    kr_wc_fn *fn; /* NULL: forgotten or late */
    void *data;
    uint64_t deadline_ns;
};
TAILQ_HEAD(questions, question);

struct waiting {
    STAILQ_ENTRY(waiting) link;
    uint16_t type;
    uint32_t id;
    size_t len;
    unsigned char payload[];
};

struct kr_wc {
    struct kr_watch *watch;
    struct kr_timer *deadline; /* of the oldest question; they all have the same time, so it is the first to pass */
    struct kr_timer *late;     /* calls on_gone from the loop when a send has failed */
    struct kr_wc_calls calls;
    void *data;
    struct questions questions;
    STAILQ_HEAD(, waiting) backlog;
    unsigned backlog_len;
    uint32_t next_id;
    bool gone, reported; /* reported: on_gone was called */
    struct kr_err why;
};

static void arm_deadline(struct kr_wc *wc);

/* ---- gone ---- */

static void answer_error(struct question *q, int r, const struct kr_err *err)
{
    struct kr_wc_answer a = {.r = r, .err = err};

    if (q->fn)
        q->fn(q->data, &a);
}

/* Remembers that it is over; what follows from it happens in report_gone(), from the loop. */
static void mark_gone(struct kr_wc *wc, const struct kr_err *err)
{
    if (wc->gone)
        return;
    wc->gone = true;
    wc->why = *err;
    kr_watch_want_read(wc->watch, false);
    kr_watch_want_write(wc->watch, false);
    kr_timer_arm(wc->late, 0);
}

static void report_gone(void *data)
{
    struct kr_wc *wc = data;
    struct question *q;

    if (wc->reported)
        return;
    wc->reported = true;
    kr_timer_disarm(wc->deadline);
    while ((q = TAILQ_FIRST(&wc->questions))) {
        TAILQ_REMOVE(&wc->questions, q, link);
        answer_error(q, -EPIPE, &wc->why);
        free(q);
    }
    wc->calls.on_gone(wc->data, &wc->why);
}

/* ---- sending ---- */

static int keep_frame(struct kr_wc *wc, uint16_t type, uint32_t id, const void *payload, size_t len)
{
    struct waiting *w;

    if (wc->backlog_len >= BACKLOG_MAX)
        return -ENOBUFS;
    w = malloc(sizeof *w + len);
    if (!w)
        return -ENOMEM;
    w->type = type;
    w->id = id;
    w->len = len;
    if (len)
        memcpy(w->payload, payload, len);
    STAILQ_INSERT_TAIL(&wc->backlog, w, link);
    wc->backlog_len++;
    kr_watch_want_write(wc->watch, true);
    return 0;
}

static int send_frame(struct kr_wc *wc, uint16_t type, uint32_t id, const void *payload, size_t len)
{
    struct kr_err err;
    int r = -EAGAIN;

    if (wc->gone)
        return -EPIPE;
    if (STAILQ_EMPTY(&wc->backlog))
        r = kr_frame_send(kr_watch_fd(wc->watch), type, id, payload, len, NULL, 0);
    if (r == -EAGAIN)
        return keep_frame(wc, type, id, payload, len);
    if (r < 0) {
        kr_err_set(&err, KR_ERR_SYSTEM, -r, KR_WC_GONE);
        mark_gone(wc, &err);
        return -EPIPE;
    }
    return r;
}

static void on_control_writable(void *data)
{
    struct kr_wc *wc = data;
    struct waiting *w;

    while ((w = STAILQ_FIRST(&wc->backlog))) {
        struct kr_err err;
        int r = kr_frame_send(kr_watch_fd(wc->watch), w->type, w->id, w->payload, w->len, NULL, 0);

        if (r == -EAGAIN)
            return;
        STAILQ_REMOVE_HEAD(&wc->backlog, link);
        wc->backlog_len--;
        free(w);
        if (r < 0) {
            kr_err_set(&err, KR_ERR_SYSTEM, -r, KR_WC_GONE);
            mark_gone(wc, &err);
            return;
        }
    }
    kr_watch_want_write(wc->watch, false);
}

int kr_wc_ask(struct kr_wc *wc, uint16_t type, const void *payload, size_t len, kr_wc_fn *fn, void *data,
              uint32_t *ret_id)
{
    struct question *q = calloc(1, sizeof *q);
    int r;

    if (!q)
        return -ENOMEM;
    if (++wc->next_id == 0)
        wc->next_id = 1; /* 0 is the id of events and of no question */
    *q = (struct question){.id = wc->next_id, .type = type, .fn = fn, .data = data};
    q->deadline_ns = kr_clock_after_ms(KR_WC_DEADLINE_MS);
    r = send_frame(wc, type, q->id, payload, len);
    if (r < 0) {
        free(q);
        return r;
    }
    TAILQ_INSERT_TAIL(&wc->questions, q, link);
    if (!kr_timer_armed(wc->deadline))
        arm_deadline(wc);
    *ret_id = q->id;
    return 0;
}

void kr_wc_forget(struct kr_wc *wc, uint32_t id)
{
    struct question *q;

    TAILQ_FOREACH(q, &wc->questions, link)
    if (q->id == id)
        q->fn = NULL;
}

int kr_wc_signal(struct kr_wc *wc, uint64_t cell, uint64_t since_ns, int signo)
{
    struct kr_w_signal s = {.cell = cell, .since_ns = since_ns, .signo = (uint32_t)signo};

    return send_frame(wc, KR_W_SIGNAL, 0, &s, sizeof s);
}

int kr_wc_wake(struct kr_wc *wc, uint32_t zygote)
{
    struct kr_w_wake w = {.zygote = zygote};

    return send_frame(wc, KR_W_WAKE, 0, &w, sizeof w);
}

int kr_wc_preload(struct kr_wc *wc, uint32_t zygote, const char *folder)
{
    struct kr_w_preload p = {.zygote = zygote};

    strncpy(p.folder, folder, sizeof p.folder - 1);
    return send_frame(wc, KR_W_PRELOAD, 0, &p, sizeof p);
}

int kr_wc_pace(struct kr_wc *wc, uint64_t cell, enum kr_pace pace)
{
    struct kr_w_pace p = {.cell = cell, .pace = pace};

    return send_frame(wc, KR_W_PACE, 0, &p, sizeof p);
}

int kr_wc_kill(struct kr_wc *wc, uint64_t cell)
{
    struct kr_w_cell c = {.cell = cell};

    return send_frame(wc, KR_W_KILL, 0, &c, sizeof c);
}

/* ---- deadlines ---- */

static void on_deadline(void *data)
{
    struct kr_wc *wc = data;
    uint64_t now = kr_clock_ns();
    struct question *q, *next;
    struct kr_err err;

    kr_err_set(&err, KR_ERR_BUSY, ETIMEDOUT, "the warden did not answer within %u s", KR_WC_DEADLINE_MS / 1000);
    for (q = TAILQ_FIRST(&wc->questions); q; q = next) {
        kr_wc_fn *fn = q->fn;

        next = TAILQ_NEXT(q, link);
        if (q->deadline_ns > now)
            break;
        q->fn = NULL; /* stays in the list: a late OPENED must be taken down */
        if (fn)
            fn(q->data, &(struct kr_wc_answer){.r = -ETIMEDOUT, .err = &err});
    }
    arm_deadline(wc);
}

/* For the oldest question whose answer is awaited. */
static void arm_deadline(struct kr_wc *wc)
{
    uint64_t now = kr_clock_ns();
    struct question *q;

    TAILQ_FOREACH(q, &wc->questions, link)
    if (q->fn) {
        kr_timer_arm(wc->deadline, q->deadline_ns > now ? (q->deadline_ns - now) / 1000000u : 0);
        return;
    }
}

/* ---- receiving ---- */

static uint16_t answer_type(uint16_t question)
{
    switch (question) {
    case KR_W_OPEN:
        return KR_W_OPENED;
    case KR_W_START:
        return KR_W_STARTED;
    case KR_W_STAT:
        return KR_W_STATS;
    case KR_W_CLEAR:
        return KR_W_CLEARED;
    case KR_W_SHELF:
        return KR_W_SHELVED;
    case KR_W_PING:
        return KR_W_PONG;
    case KR_W_COUNT:
        return KR_W_COUNTED;
    default:
        return KR_F_NONE;
    }
}

static void handle_failed(struct question *q, const struct kr_err *payload)
{
    struct kr_err err = *payload;

    kr_err_from_wire(&err);
    answer_error(q, err.code ? -err.code : -EIO, &err);
}

static struct question *find_question(struct kr_wc *wc, uint32_t id)
{
    struct question *q;

    TAILQ_FOREACH(q, &wc->questions, link)
    if (q->id == id)
        return q;
    return NULL;
}

/* 0, or -EPROTO when the answer fits no question. */
static int handle_answer(struct kr_wc *wc, const struct kr_frame *f, const void *payload, int *fds)
{
    struct kr_wc_answer a = {.payload = payload, .fds = fds, .nfds = f->nfds};
    struct question *q = find_question(wc, f->id);

    if (!q || (f->type != KR_W_FAILED && f->type != answer_type(q->type)))
        return -EPROTO;
    TAILQ_REMOVE(&wc->questions, q, link);
    if (f->type == KR_W_FAILED)
        handle_failed(q, payload);
    else if (q->fn)
        q->fn(q->data, &a);
    else if (f->type == KR_W_OPENED)
        kr_wc_kill(wc, ((const struct kr_w_opened *)payload)->cell);
    free(q);
    return 0;
}

/* Descriptors that found no room here. Of an OPENED: the warden takes the cell for open, so it is killed, and that one
 * question fails. Of HELLO: it goes without them. 0, or -EPROTO when it answers no OPEN. */
static int handle_cut(struct kr_wc *wc, const struct kr_frame *f, const void *payload, const struct kr_err *err)
{
    struct question *q = find_question(wc, f->id);

    if (f->type == KR_W_HELLO) {
        wc->calls.on_hello(wc->data, payload, NULL, 0);
        return 0;
    }
    if (f->type == KR_W_EGRESS) {
        kr_log(KR_LOG_ERROR, "too many descriptors are open to take the egress process's, ignoring", NULL);
        return 0; /* it sees the end of its socket, and the next one comes */
    }
    if (!q || f->type != KR_W_OPENED || q->type != KR_W_OPEN)
        return -EPROTO;
    TAILQ_REMOVE(&wc->questions, q, link);
    kr_wc_kill(wc, ((const struct kr_w_opened *)payload)->cell);
    answer_error(q, -EMFILE, err);
    free(q);
    return 0;
}

static int handle_control(struct kr_wc *wc, const struct kr_frame *f, const void *payload, int *fds)
{
    struct kr_w_zygote zygote;

    switch (f->type) {
    case KR_W_HELLO:
        wc->calls.on_hello(wc->data, payload, fds, f->nfds);
        return 0;
    case KR_W_ZYGOTE:
        zygote = *(const struct kr_w_zygote *)payload;
        kr_err_from_wire(&zygote.err);
        wc->calls.on_zygote(wc->data, &zygote);
        return 0;
    case KR_W_ENDED:
        wc->calls.on_ended(wc->data, payload);
        return 0;
    case KR_W_EGRESS:
        wc->calls.on_egress(wc->data, fds);
        return 0;
    case KR_W_OPENED:
    case KR_W_STARTED:
    case KR_W_STATS:
    case KR_W_CLEARED:
    case KR_W_SHELVED:
    case KR_W_PONG:
    case KR_W_COUNTED:
    case KR_W_FAILED:
        return handle_answer(wc, f, payload, fds);
    default:
        return -EPROTO;
    }
}

static void on_control_readable(void *data)
{
    struct kr_wc *wc = data;
    union {
        unsigned char bytes[KR_FRAME_CONTROL_MAX];
        uint64_t align;
    } buf;
    struct kr_err err;

    for (int i = 0; i < FRAMES_PER_TURN && !wc->gone; i++) {
        int fds[KR_FRAME_FDS_MAX], r;
        struct kr_frame f;

        r = kr_frame_recv(kr_watch_fd(wc->watch), &f, buf.bytes, sizeof buf.bytes, fds, 0, &err);
        if (r == -ETIMEDOUT)
            return; /* no more for now */
        if (r >= 0 || r == -EMFILE) {
            r = r >= 0 ? handle_control(wc, &f, buf.bytes, fds) : handle_cut(wc, &f, buf.bytes, &err);
            if (r < 0)
                kr_err_set(&err, KR_ERR_PROTOCOL, 0, "the warden sent an unexpected frame %s",
                           kr_frame_types[f.type].name);
            for (unsigned k = 0; k < f.nfds; k++)
                kr_fd_close(fds[k]);
        } else if (r == -ENODATA) {
            kr_err_set(&err, KR_ERR_PROTOCOL, 0, KR_WC_GONE);
        }
        if (r < 0)
            mark_gone(wc, &err);
    }
}

bool kr_wc_is_silent(const struct kr_wc *wc)
{
    return !wc->gone && kr_fd_wait(kr_watch_fd(wc->watch), POLLIN, 0) == 0;
}

/* ---- life ---- */

int kr_wc_new(struct uv_loop_s *loop, int control, const struct kr_wc_calls *calls, void *data, struct kr_wc **ret_wc)
{
    static const struct kr_watch_calls watch_calls = {on_control_readable, on_control_writable};
    struct kr_wc *wc = calloc(1, sizeof *wc);
    int r;

    if (!wc)
        return -ENOMEM;
    wc->calls = *calls;
    wc->data = data;
    TAILQ_INIT(&wc->questions);
    STAILQ_INIT(&wc->backlog);
    r = kr_timer_new(loop, on_deadline, wc, &wc->deadline);
    if (r >= 0)
        r = kr_timer_new(loop, report_gone, wc, &wc->late);
    if (r >= 0)
        r = kr_watch_new(loop, control, &watch_calls, wc, &wc->watch);
    if (r < 0) {
        kr_timer_close(wc->deadline);
        kr_timer_close(wc->late);
        free(wc);
        return r;
    }
    kr_watch_want_read(wc->watch, true);
    *ret_wc = wc;
    return 0;
}

void kr_wc_close(struct kr_wc *wc)
{
    struct question *q;
    struct waiting *w;

    if (!wc)
        return;
    while ((q = TAILQ_FIRST(&wc->questions))) {
        TAILQ_REMOVE(&wc->questions, q, link);
        free(q);
    }
    while ((w = STAILQ_FIRST(&wc->backlog))) {
        STAILQ_REMOVE_HEAD(&wc->backlog, link);
        free(w);
    }
    kr_timer_close(wc->deadline);
    kr_timer_close(wc->late);
    kr_watch_close(wc->watch);
    free(wc);
}

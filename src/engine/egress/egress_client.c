/* The engine's end of the egress process: what it is told of cells, what it is asked to fetch, what it reports.
 *
 * Called by the server and `krait run` (on_egress of the holder), by engine.c for cells, and by jobs for fetches.
 * Invariants: what is to be said of a cell or a fetch is a state of it, not a queue of frames: however long the socket
 * is full, one order waits for each, the newest. A fetch ends once, from the loop, within its own time. Each process
 * that comes is told every cell anew. */
#include "egress_client.h"
#include "clock.h"
#include "egress_row.h"
#include "fd.h"
#include "frame.h"
#include "log.h"
#include "loop.h"
#include "proto.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define FRAMES_PER_TURN 64
#define FETCHES_MAX 256u      /* under way at once */
#define FETCH_GRACE_MS 10000u /* past its own time: for the process to say so itself */
#define NO_PROCESS "the egress process is not running, so nothing outside can be reached at the moment"

/* What the process is to be told next about one thing. */
struct order {
    TAILQ_ENTRY(order) link; /* in `waiting` exactly while type is not KR_F_NONE */
    uint16_t type;
    uint32_t id; /* of the frame */
    bool dies;   /* freed when it was said */
    int fd;      /* that goes along, or -1 */
    char *text;  /* JSON; NULL: `number` is the payload, or nothing is (KR_E_CANCEL) */
    uint64_t number;
};
TAILQ_HEAD(orders, order);

struct cell {
    struct order order;
    LIST_ENTRY(cell) link;
    uint64_t number;
    int listener;
    bool told; /* the process that is connected knows it, or will before anything else is said of it */
};

struct fetch {
    struct order order;
    TAILQ_ENTRY(fetch) link;
    struct kr_egress_ask *ask; /* NULL: cancelled, its end is awaited only to forget the id */
    uint64_t deadline_ns;
    bool told;
};

#define CELL_LISTS 1024u
struct kr_egress {
    struct uv_loop_s *loop;
    struct kr_watch *watch;    /* NULL: no process */
    struct kr_timer *deadline; /* of the first fetch whose time passes */
    struct kr_soon *soon;      /* takes leave of a process from the loop */
    struct kr_egress_calls calls;
    LIST_HEAD(, cell) cells[CELL_LISTS];
    TAILQ_HEAD(fetches, fetch) fetches;
    unsigned fetch_count;
    struct order setup; /* what each process is told first */
    struct orders waiting;
    uint32_t next_id;
    uint64_t open; /* connections of cells, as the process has said last */
    bool broken;   /* the process is to be left, and it is why */
    struct kr_err why;
};

/* ---- orders ---- */

static void unlist_order(struct kr_egress *e, struct order *o)
{
    if (o->type == KR_F_NONE)
        return;
    TAILQ_REMOVE(&e->waiting, o, link);
    o->type = KR_F_NONE;
}

static void mark_broken(struct kr_egress *e, const struct kr_err *err)
{
    if (e->broken || !e->watch)
        return;
    e->broken = true;
    e->why = *err;
    kr_watch_want_read(e->watch, false);
    kr_watch_want_write(e->watch, false);
    kr_soon_ask(e->soon);
}

/* 0, or -errno of the socket. */
static int send_order(struct kr_egress *e, const struct order *o)
{
    struct kr_e_cell number = {.cell = o->number};
    const void *payload = o->text ? (const void *)o->text : &number;
    size_t len = o->text ? strlen(o->text) : o->type == KR_E_DROP ? sizeof number : 0;

    return kr_frame_send(kr_watch_fd(e->watch), o->type, o->id, payload, len, &o->fd, o->fd >= 0 ? 1 : 0);
}

/* What is said of a cell may have values of secrets. */
static void free_text(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

static void free_order(struct order *o)
{
    kr_fd_close(o->fd);
    free_text(o->text);
    free(o);
}

static void free_setup(struct kr_egress *e)
{
    free_text(e->setup.text);
    e->setup.text = NULL;
}

static void flush_orders(struct kr_egress *e)
{
    struct order *o;
    struct kr_err err;

    if (!e->watch || e->broken)
        return;
    while ((o = TAILQ_FIRST(&e->waiting))) {
        int r = send_order(e, o);

        if (r == -EAGAIN) {
            kr_watch_want_write(e->watch, true);
            return;
        }
        if (r < 0) {
            kr_err_set(&err, KR_ERR_SYSTEM, -r, "the egress process is gone");
            mark_broken(e, &err);
            return;
        }
        unlist_order(e, o);
        if (o->dies)
            free_order(o);
    }
    kr_watch_want_write(e->watch, false);
}

/* Says it now, or when the socket takes it; in place of what else was to be said of the same thing. */
static void give_order(struct kr_egress *e, struct order *o, uint16_t type)
{
    if (!e->watch)
        return;
    if (o->type == KR_F_NONE)
        TAILQ_INSERT_TAIL(&e->waiting, o, link);
    o->type = type;
    flush_orders(e);
}

/* ---- the first word ---- */

int kr_egress_set_setup(struct kr_egress *e, const struct kr_egress_setup *setup)
{
    json_t *o = json_pack("{ss? ss? ss?}", "index_user", setup->index_user, "index_password", setup->index_password,
                          "own_ca", setup->own_ca);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

    json_decref(o);
    if (!text)
        return -ENOMEM;
    if (strlen(text) > KR_FRAME_EGRESS_MAX) {
        free_text(text);
        return -E2BIG;
    }
    free_setup(e);
    e->setup.text = text;
    return 0;
}

/* ---- cells ---- */

static struct cell *find_cell(struct kr_egress *e, uint64_t number)
{
    struct cell *c;

    LIST_FOREACH(c, &e->cells[number % CELL_LISTS], link)
    if (c->number == number)
        return c;
    return NULL;
}

/* The newest that is known of it, to the process that is connected. */
static void tell_cell(struct kr_egress *e, struct cell *c)
{
    bool first = !c->told;

    if (!e->watch)
        return;
    c->told = true;
    c->order.fd = first ? c->listener : c->order.type == KR_E_CELL ? c->listener : -1;
    give_order(e, &c->order, c->order.fd >= 0 ? KR_E_CELL : KR_E_RULE);
}

static int write_cell(const struct kr_egress_cell *cell, char **ret_text)
{
    char rule[KR_NET_RULE_ROOM];
    json_t *o =
        json_pack("{sI ss ss ss? ss sO?}", "cell", (json_int_t)cell->cell, "sandbox", cell->sandbox, "user", cell->user,
                  "run", cell->run, "rule", kr_net_rule_text(&cell->rule, rule, sizeof rule), "secrets", cell->secrets);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

    json_decref(o);
    if (!text)
        return -ENOMEM;
    if (strlen(text) > KR_FRAME_EGRESS_MAX) {
        free_text(text);
        return -E2BIG;
    }
    *ret_text = text;
    return 0;
}

int kr_egress_add(struct kr_egress *e, const struct kr_egress_cell *cell, int listener)
{
    struct cell *c;
    int r;

    if (find_cell(e, cell->cell))
        return -EEXIST;
    c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    r = write_cell(cell, &c->order.text);
    if (r < 0) {
        free(c);
        return r;
    }
    c->listener = fcntl(listener, F_DUPFD_CLOEXEC, 0);
    if (c->listener < 0) {
        r = -errno;
        free_text(c->order.text);
        free(c);
        return r;
    }
    c->number = cell->cell;
    c->order.fd = -1;
    LIST_INSERT_HEAD(&e->cells[c->number % CELL_LISTS], c, link);
    tell_cell(e, c);
    return 0;
}

int kr_egress_change(struct kr_egress *e, const struct kr_egress_cell *cell)
{
    struct cell *c = find_cell(e, cell->cell);
    char *text;
    int r;

    if (!c)
        return -ENOENT;
    r = write_cell(cell, &text);
    if (r < 0)
        return r;
    if (strcmp(text, c->order.text) == 0) {
        free_text(text);
        return 0;
    }
    free_text(c->order.text);
    c->order.text = text;
    tell_cell(e, c);
    return 0;
}

/* The cell becomes an order that outlives it: what may wait for the socket is its number alone. */
void kr_egress_drop(struct kr_egress *e, uint64_t cell)
{
    struct cell *c = find_cell(e, cell);
    struct order *drop;
    bool knows;

    if (!c)
        return;
    knows = c->told && c->order.type != KR_E_CELL;
    unlist_order(e, &c->order);
    LIST_REMOVE(c, link);
    kr_fd_close(c->listener);
    free_text(c->order.text);
    free(c);
    if (!knows || !e->watch)
        return;
    drop = calloc(1, sizeof *drop);
    if (!drop) { /* the process would serve a cell that is gone: it is left, and told all others anew */
        struct kr_err err;

        kr_err_set(&err, KR_ERR_SYSTEM, ENOMEM, "end a cell of the egress process");
        mark_broken(e, &err);
        return;
    }
    *drop = (struct order){.dies = true, .fd = -1, .number = cell};
    give_order(e, drop, KR_E_DROP);
}

/* ---- fetches ---- */

static void free_fetch(struct kr_egress *e, struct fetch *f)
{
    unlist_order(e, &f->order);
    TAILQ_REMOVE(&e->fetches, f, link);
    e->fetch_count--;
    kr_fd_close(f->order.fd);
    free(f->order.text);
    free(f);
}

static void end_fetch(struct kr_egress *e, struct fetch *f, const struct kr_egress_fetched *fetched,
                      const struct kr_err *err)
{
    struct kr_egress_ask *ask = f->ask;

    free_fetch(e, f);
    if (!ask)
        return;
    ask->id = 0;
    ask->on_end(ask, fetched, err);
}

static void arm_fetches(struct kr_egress *e)
{
    uint64_t now = kr_clock_ns(), first = UINT64_MAX;
    struct fetch *f;

    TAILQ_FOREACH(f, &e->fetches, link)
    if (f->deadline_ns < first)
        first = f->deadline_ns;
    if (first == UINT64_MAX)
        kr_timer_disarm(e->deadline);
    else
        kr_timer_arm(e->deadline, first > now ? (first - now) / 1000000u + 1 : 0);
}

/* The process is told to stop; if it does not even say that it has, the id is forgotten a while later. */
static void cancel_fetch(struct kr_egress *e, struct fetch *f)
{
    f->ask = NULL;
    f->deadline_ns = kr_clock_after_ms(FETCH_GRACE_MS);
    if (f->order.type == KR_E_FETCH) { /* never said */
        free_fetch(e, f);
        return;
    }
    free(f->order.text);
    f->order.text = NULL;
    f->order.fd = kr_fd_close(f->order.fd);
    give_order(e, &f->order, KR_E_CANCEL);
}

static void on_fetch_deadline(void *data)
{
    struct kr_egress *e = data;
    uint64_t now = kr_clock_ns();
    struct kr_err err;
    bool again = true;

    kr_err_set(&err, KR_ERR_TIMEOUT, ETIMEDOUT, "the egress process did not say how the fetch ended");
    while (again) {
        struct fetch *f;

        again = false;
        TAILQ_FOREACH(f, &e->fetches, link)
        if (f->deadline_ns <= now) {
            struct kr_egress_ask *ask = f->ask;

            again = true;
            if (!ask) {
                free_fetch(e, f);
                break;
            }
            cancel_fetch(e, f);
            ask->id = 0;
            ask->on_end(ask, NULL, &err); /* may have changed the list */
            break;
        }
    }
    arm_fetches(e);
}

static struct fetch *find_fetch(struct kr_egress *e, uint32_t id)
{
    struct fetch *f;

    TAILQ_FOREACH(f, &e->fetches, link)
    if (f->order.id == id)
        return f;
    return NULL;
}

static int write_fetch(const struct kr_egress_fetch *fetch, char **ret_text)
{
    char rule[KR_NET_RULE_ROOM];
    json_t *o =
        json_pack("{ss ss? ss ss ss sI sI}", "url", fetch->url, "accept", fetch->accept, "rule",
                  kr_net_rule_text(&fetch->rule, rule, sizeof rule), "sandbox", fetch->sandbox, "user", fetch->user,
                  "max_bytes", (json_int_t)fetch->max_bytes, "timeout_ms", (json_int_t)fetch->timeout_ms);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

    json_decref(o);
    if (!text)
        return -EINVAL; /* an address that is not UTF-8 */
    *ret_text = text;
    return 0;
}

/* An id that no fetch has: the counter may have come round. */
static uint32_t unused_id(struct kr_egress *e)
{
    do
        e->next_id++;
    while (e->next_id == 0 || find_fetch(e, e->next_id));
    return e->next_id;
}

int kr_egress_fetch(struct kr_egress *e, const struct kr_egress_fetch *fetch, struct kr_egress_ask *ask,
                    struct kr_err *err)
{
    cleanup_free char *text = NULL;
    struct fetch *f;
    int r, fd;

    if (!e->watch || e->broken)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, NO_PROCESS);
    if (e->fetch_count >= FETCHES_MAX)
        return kr_err_set(err, KR_ERR_BUSY, 0, "%u fetches are under way; ask again later", FETCHES_MAX);
    r = write_fetch(fetch, &text);
    if (r < 0)
        return kr_err_set(err, KR_ERR_INVALID, 0, "the address is not text");
    if (strlen(text) > KR_FRAME_EGRESS_MAX)
        return kr_err_set(err, KR_ERR_INVALID, 0, "the address is too long");
    fd = fcntl(fetch->file, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "keep the file of a fetch");
    f = calloc(1, sizeof *f);
    if (!f) {
        kr_fd_close(fd);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "fetch");
    }
    f->order = (struct order){.id = unused_id(e), .fd = fd, .text = steal_ptr(&text)};
    f->ask = ask;
    f->deadline_ns = kr_clock_after_ms(fetch->timeout_ms + FETCH_GRACE_MS);
    TAILQ_INSERT_TAIL(&e->fetches, f, link);
    e->fetch_count++;
    ask->id = f->order.id;
    give_order(e, &f->order, KR_E_FETCH);
    arm_fetches(e);
    return 0;
}

void kr_egress_cancel(struct kr_egress *e, struct kr_egress_ask *ask)
{
    struct fetch *f = ask->id ? find_fetch(e, ask->id) : NULL;

    ask->id = 0;
    if (!f || f->ask != ask)
        return;
    cancel_fetch(e, f);
    arm_fetches(e);
}

/* ---- what the process says ---- */

/* A row that is wrong is left out, and does not end the connections of all others. */
static void handle_connection(struct kr_egress *e, const char *payload, size_t len)
{
    json_t *row = json_loadb(payload, len, JSON_REJECT_DUPLICATES, NULL);
    struct kr_err err;

    if (kr_egress_row_check(row, &err) < 0)
        kr_log_with(KR_LOG_WARN, "connection left out", KR_F_STR("error", err.msg));
    else if (e->calls.on_connection)
        e->calls.on_connection(e->calls.data, row);
    json_decref(row);
}

static void handle_progress(struct kr_egress *e, uint32_t id, const struct kr_e_progress *p)
{
    struct fetch *f = find_fetch(e, id);

    if (f && f->ask && f->ask->on_progress)
        f->ask->on_progress(f->ask, p->bytes, p->total);
}

static void handle_fetched(struct kr_egress *e, uint32_t id, const char *payload, size_t len)
{
    struct fetch *f = find_fetch(e, id);
    json_t *end = json_loadb(payload, len, JSON_REJECT_DUPLICATES, NULL);
    struct kr_egress_fetched fetched;
    struct kr_err failed;
    int r = kr_egress_fetched_read(end, &fetched, &failed);

    if (f)
        end_fetch(e, f, r == 0 ? &fetched : NULL, r == 0 ? NULL : &failed);
    json_decref(end);
    arm_fetches(e);
}

static int handle_frame(struct kr_egress *e, const struct kr_frame *f, const void *payload, struct kr_err *err)
{
    switch (f->type) {
    case KR_E_CONNECTION:
        handle_connection(e, payload, f->len);
        return 0;
    case KR_E_PROGRESS:
        handle_progress(e, f->id, payload);
        return 0;
    case KR_E_OPEN:
        e->open = ((const struct kr_e_open *)payload)->connections;
        return 0;
    case KR_E_FETCHED:
        handle_fetched(e, f->id, payload, f->len);
        return 0;
    default:
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the egress process sent an unexpected frame %s",
                          kr_frame_types[f->type].name);
    }
}

static void on_egress_readable(void *data)
{
    struct kr_egress *e = data;
    union {
        char bytes[KR_FRAME_EGRESS_MAX];
        uint64_t align;
    } buf;
    struct kr_err err;

    for (int i = 0; i < FRAMES_PER_TURN && e->watch && !e->broken; i++) {
        struct kr_frame f;
        int none, r;

        r = kr_frame_recv_few(kr_watch_fd(e->watch), &f, buf.bytes, sizeof buf.bytes, &none, 0, 0, &err);
        if (r == -ETIMEDOUT)
            return;
        if (r == 0)
            r = handle_frame(e, &f, buf.bytes, &err);
        if (r < 0)
            mark_broken(e, &err);
    }
}

void kr_egress_catch_up(struct kr_egress *e)
{
    on_egress_readable(e);
}

static void on_egress_writable(void *data)
{
    flush_orders(data);
}

/* ---- coming and going ---- */

/* Closes our end, which ends the process if it has not ended; fails what it was to fetch. */
static void leave_process(void *data)
{
    struct kr_egress *e = data;
    struct kr_err err;
    struct order *o;
    struct fetch *f;
    struct cell *c;

    if (!e->watch)
        return;
    kr_watch_close(e->watch);
    e->watch = NULL;
    e->open = 0;
    e->broken = false;
    while ((o = TAILQ_FIRST(&e->waiting))) {
        unlist_order(e, o);
        if (o->dies)
            free_order(o);
    }
    for (unsigned i = 0; i < CELL_LISTS; i++)
        LIST_FOREACH(c, &e->cells[i], link)
    c->told = false;
    kr_err_set(&err, KR_ERR_UNAVAILABLE, 0, "the egress process has ended; try again");
    while ((f = TAILQ_FIRST(&e->fetches)))
        end_fetch(e, f, NULL, &err);
    kr_timer_disarm(e->deadline);
}

static void on_broken(void *data)
{
    struct kr_egress *e = data;

    if (!e->broken)
        return;
    kr_log_with(KR_LOG_WARN, "egress process lost", KR_F_STR("error", e->why.msg));
    leave_process(e);
}

int kr_egress_connect(struct kr_egress *e, int fd)
{
    static const struct kr_watch_calls watch_calls = {on_egress_readable, on_egress_writable};
    cleanup_fd int socket = fd;
    struct kr_watch *watch;
    struct cell *c;
    int r;

    r = kr_watch_new(e->loop, socket, &watch_calls, e, &watch);
    if (r < 0)
        return r;
    steal_fd(&socket);
    leave_process(e);
    e->watch = watch;
    kr_watch_want_read(watch, true);
    give_order(e, &e->setup, KR_E_SETUP);
    for (unsigned i = 0; i < CELL_LISTS; i++)
        LIST_FOREACH(c, &e->cells[i], link)
    tell_cell(e, c);
    return 0;
}

uint64_t kr_egress_open(const struct kr_egress *e)
{
    return e->open;
}

bool kr_egress_connected(const struct kr_egress *e)
{
    return e->watch && !e->broken;
}

int kr_egress_new(struct uv_loop_s *loop, struct kr_egress **ret_egress)
{
    struct kr_egress *e = calloc(1, sizeof *e);
    int r;

    if (!e)
        return -ENOMEM;
    e->loop = loop;
    TAILQ_INIT(&e->fetches);
    TAILQ_INIT(&e->waiting);
    e->setup.fd = -1;
    r = kr_egress_set_setup(e, &(struct kr_egress_setup){0});
    if (r >= 0)
        r = kr_timer_new(loop, on_fetch_deadline, e, &e->deadline);
    if (r >= 0)
        r = kr_soon_new(loop, on_broken, e, &e->soon);
    if (r < 0) {
        kr_timer_close(e->deadline);
        free_setup(e);
        free(e);
        return r;
    }
    *ret_egress = e;
    return 0;
}

void kr_egress_set_calls(struct kr_egress *e, const struct kr_egress_calls *calls)
{
    e->calls = *calls;
}

void kr_egress_free(struct kr_egress *e)
{
    struct fetch *f;

    if (!e)
        return;
    TAILQ_FOREACH(f, &e->fetches, link)
    f->ask = NULL;
    leave_process(e);
    while ((f = TAILQ_FIRST(&e->fetches)))
        free_fetch(e, f);
    for (unsigned i = 0; i < CELL_LISTS; i++) {
        struct cell *c;

        while ((c = LIST_FIRST(&e->cells[i])))
            kr_egress_drop(e, c->number);
    }
    kr_timer_close(e->deadline);
    kr_soon_close(e->soon);
    free_setup(e);
    free(e);
}

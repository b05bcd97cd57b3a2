/* Sandboxes and cells: who may reach what, and the listening sockets through which they ask.
 *
 * Called by egress_control.c for the engine's words, by the proxy and by fetches for what is counted of a sandbox.
 * Invariants: a cell is there from E_CELL until E_DROP, and no connection of it outlives it; a sandbox is there as long
 * as a cell, a connection or a fetch of it is. */
#include "clock.h"
#include "eg_conn.h"
#include "egress_parts.h"
#include "fd.h"
#include "log.h"
#include "loop.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define ACCEPTS_PER_TURN 16

/* ---- sandboxes ---- */

struct kr_eg_sandbox *kr_eg_sandbox_ref(struct kr_eg *eg, const char *id)
{
    struct kr_eg_sandbox *s;

    LIST_FOREACH(s, &eg->sandboxes, link)
    if (strcmp(s->id, id) == 0) {
        s->refs++;
        return s;
    }
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    strncpy(s->id, id, sizeof s->id - 1);
    s->refs = 1;
    LIST_INSERT_HEAD(&eg->sandboxes, s, link);
    return s;
}

/* One that has moved bytes in this hour is kept, or the count would begin anew with the next cell. */
void kr_eg_sandbox_unref(struct kr_eg_sandbox *s)
{
    if (--s->refs > 0 || s->bytes > 0)
        return;
    LIST_REMOVE(s, link);
    free(s);
}

static uint64_t hour_now(void)
{
    return (uint64_t)time(NULL) / 3600u;
}

static void turn_hour(struct kr_eg_sandbox *s)
{
    uint64_t now = hour_now();

    if (s->hour == now)
        return;
    s->hour = now;
    s->bytes = 0;
}

bool kr_eg_sandbox_moved(struct kr_eg *eg, struct kr_eg_sandbox *s, uint64_t bytes)
{
    turn_hour(s);
    s->bytes += bytes;
    return s->bytes <= eg->limits.hour_bytes;
}

bool kr_eg_sandbox_is_full(struct kr_eg *eg, const struct kr_eg_sandbox *s)
{
    return s->hour == hour_now() && s->bytes >= eg->limits.hour_bytes;
}

bool kr_eg_sandbox_is_crowded(const struct kr_eg *eg, const char *id)
{
    const struct kr_eg_sandbox *s;

    LIST_FOREACH(s, &eg->sandboxes, link)
    if (strcmp(s->id, id) == 0)
        return s->connections > KR_EG_ROOMY_CONNECTIONS;
    return false;
}

/* Those that nothing refers to any more, and whose hour is over. */
static void forget_sandboxes(struct kr_eg *eg)
{
    struct kr_eg_sandbox *s = LIST_FIRST(&eg->sandboxes);

    while (s) {
        struct kr_eg_sandbox *next = LIST_NEXT(s, link);

        if (s->refs == 0) {
            turn_hour(s);
            if (s->bytes == 0) {
                LIST_REMOVE(s, link);
                free(s);
            }
        }
        s = next;
    }
}

/* ---- listeners ---- */

static void pause_cell(struct kr_eg_cell *cell)
{
    cell->paused = true;
    kr_watch_want_read(cell->listener, false);
}

static void on_cell_readable(void *data)
{
    struct kr_eg_cell *cell = data;

    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd;

        if (cell->eg->connections >= cell->eg->limits.connections) {
            pause_cell(cell);
            return;
        }
        fd = accept4(kr_watch_fd(cell->listener), NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0 && errno != EAGAIN) /* descriptors or memory: as if all connections were in use */
            pause_cell(cell);
        if (fd < 0)
            return;
        kr_eg_conn_open(cell, fd);
    }
}

void kr_eg_cells_resume(struct kr_eg *eg)
{
    struct kr_eg_cell *cell;

    if (eg->connections >= eg->limits.connections)
        return;
    LIST_FOREACH(cell, &eg->cells, link)
    if (cell->paused) {
        cell->paused = false;
        kr_watch_want_read(cell->listener, true);
    }
}

/* ---- the engine's words ---- */

struct words {
    uint64_t id;
    const char *sandbox, *user, *run;
    struct kr_net_rule rule;
    struct kr_eg_secrets *secrets;
};

static void cleanup_words_(struct words *w)
{
    kr_eg_secrets_unref(w->secrets);
}
#define cleanup_words __attribute__((cleanup(cleanup_words_)))

static int bad_word(struct kr_err *err, const char *what)
{
    return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the engine named a cell with a wrong %s", what);
}

static int read_words(const json_t *cell, struct words *w, struct kr_err *err)
{
    json_t *id = json_object_get(cell, "cell"), *run = json_object_get(cell, "run");
    const char *rule = json_string_value(json_object_get(cell, "rule"));
    struct kr_err why;

    w->sandbox = json_string_value(json_object_get(cell, "sandbox"));
    w->user = json_string_value(json_object_get(cell, "user"));
    w->run = json_is_null(run) ? "" : json_string_value(run);
    if (!json_is_integer(id) || json_integer_value(id) <= 0)
        return bad_word(err, "number");
    if (!w->sandbox || !w->user || !w->run || strlen(w->sandbox) >= KR_EG_TEXT_ROOM ||
        strlen(w->user) >= KR_EG_TEXT_ROOM || strlen(w->run) >= KR_EG_TEXT_ROOM)
        return bad_word(err, "sandbox, user or run");
    if (!rule || kr_net_rule_parse(rule, &w->rule, &why) < 0)
        return bad_word(err, "rule");
    if (kr_eg_secrets_read(json_object_get(cell, "secrets"), &w->secrets) < 0)
        return bad_word(err, "list of secrets");
    w->id = (uint64_t)json_integer_value(id);
    return 0;
}

static struct kr_eg_cell *find_cell(struct kr_eg *eg, uint64_t id)
{
    struct kr_eg_cell *cell;

    LIST_FOREACH(cell, &eg->cells, link)
    if (cell->id == id)
        return cell;
    return NULL;
}

/* All but the sandbox, which a cell keeps for its life. */
static void take_words(struct kr_eg_cell *cell, struct words *w)
{
    kr_eg_secrets_unref(cell->secrets);
    cell->secrets = w->secrets;
    w->secrets = NULL;
    strncpy(cell->user, w->user, sizeof cell->user - 1);
    strncpy(cell->run, w->run, sizeof cell->run - 1);
    cell->user[sizeof cell->user - 1] = cell->run[sizeof cell->run - 1] = '\0';
    cell->rule = w->rule;
}

static void free_cell(struct kr_eg_cell *cell)
{
    kr_watch_close(cell->listener);
    if (cell->sandbox)
        kr_eg_sandbox_unref(cell->sandbox);
    kr_eg_secrets_unref(cell->secrets);
    free(cell);
}

int kr_eg_cell_add(struct kr_eg *eg, const json_t *json, int listener, struct kr_err *err)
{
    static const struct kr_watch_calls calls = {on_cell_readable, NULL};
    cleanup_fd int fd = listener;
    struct kr_eg_cell *cell;
    cleanup_words struct words w = {0};
    int r = read_words(json, &w, err);

    if (r < 0)
        return r;
    if (find_cell(eg, w.id))
        return bad_word(err, "number: it is there");
    forget_sandboxes(eg);
    cell = calloc(1, sizeof *cell);
    if (!cell)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a cell");
    cell->eg = eg;
    cell->id = w.id;
    cell->sandbox = kr_eg_sandbox_ref(eg, w.sandbox);
    r = cell->sandbox ? kr_watch_new(&eg->loop, fd, &calls, cell, &cell->listener) : -ENOMEM;
    if (r < 0) {
        free_cell(cell);
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "a cell's listening socket");
    }
    steal_fd(&fd);
    take_words(cell, &w);
    LIST_INSERT_HEAD(&eg->cells, cell, link);
    kr_watch_want_read(cell->listener, true);
    return 0;
}

int kr_eg_cell_change(struct kr_eg *eg, const json_t *json, struct kr_err *err)
{
    struct kr_eg_cell *cell;
    cleanup_words struct words w = {0};
    int r = read_words(json, &w, err);

    if (r < 0)
        return r;
    cell = find_cell(eg, w.id);
    if (!cell)
        return bad_word(err, "number: it is not there");
    if (strcmp(cell->sandbox->id, w.sandbox) != 0)
        return bad_word(err, "sandbox: it has another");
    take_words(cell, &w);
    kr_eg_conn_judge_again(cell);
    return 0;
}

void kr_eg_cell_drop(struct kr_eg *eg, uint64_t id)
{
    struct kr_eg_cell *cell = find_cell(eg, id);

    if (!cell)
        return;
    kr_eg_conn_close_all(cell, "the session has ended");
    LIST_REMOVE(cell, link);
    free_cell(cell);
}

void kr_eg_cells_close(struct kr_eg *eg)
{
    struct kr_eg_cell *cell;
    struct kr_eg_sandbox *s;

    while ((cell = LIST_FIRST(&eg->cells)))
        kr_eg_cell_drop(eg, cell->id);
    kr_eg_conn_bury(eg);
    while ((s = LIST_FIRST(&eg->sandboxes))) {
        LIST_REMOVE(s, link);
        free(s);
    }
}

/* src/engine/egress: the client of the egress process, against the other end of a socketpair. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "clock.h"
#include "egress_client.h"
#include "fd.h"
#include "frame.h"
#include "log.h"
#include "patience.h"
#include "proto.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

struct world {
    uv_loop_t loop;
    struct kr_egress *egress;
    int process; /* the stand-in's end; -1: none */
    int listener;
    json_t *row; /* the last that was reported */
    unsigned rows;
};

struct asked {
    struct kr_egress_ask ask;
    unsigned ends;
    bool good;
    struct kr_err err;
    struct kr_egress_fetched fetched;
    char sha256[65], name[64];
    uint64_t progress;
};

static void on_row(void *data, const json_t *row)
{
    struct world *w = data;

    json_decref(w->row);
    w->row = json_deep_copy(row);
    w->rows++;
}

static void on_fetch_progress(struct kr_egress_ask *ask, uint64_t bytes, uint64_t total)
{
    (void)total;
    ((struct asked *)ask)->progress = bytes;
}

static void on_fetch_end(struct kr_egress_ask *ask, const struct kr_egress_fetched *fetched, const struct kr_err *err)
{
    struct asked *a = (struct asked *)ask;

    a->ends++;
    a->good = fetched;
    if (fetched) {
        a->fetched = *fetched;
        snprintf(a->sha256, sizeof a->sha256, "%s", fetched->sha256);
        snprintf(a->name, sizeof a->name, "%s", fetched->name);
    } else {
        a->err = *err;
    }
}

static void turn(struct world *w)
{
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

static bool w_join(struct world *w)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    kr_fd_close(w->process);
    w->process = pair[1];
    return kr_egress_connect(w->egress, pair[0]) == 0;
}

struct said {
    struct kr_frame frame;
    char text[KR_FRAME_EGRESS_MAX + 1];
    int fds[KR_FRAME_FDS_MAX];
};

/* The next frame that the process is told; false: none. Descriptors that came are closed, after a look. */
static bool hear(struct world *w, struct said *s)
{
    struct kr_err err;

    memset(s->text, 0, sizeof s->text);
    if (kr_frame_recv(w->process, &s->frame, s->text, KR_FRAME_EGRESS_MAX, s->fds, 0, &err) < 0)
        return false;
    for (unsigned i = 0; i < s->frame.nfds; i++)
        kr_fd_close(s->fds[i]);
    return true;
}

static bool hear_type(struct world *w, uint16_t type, struct said *s)
{
    return hear(w, s) && s->frame.type == type;
}

/* A process that has heard its first word. */
static bool w_connect(struct world *w)
{
    struct said s;

    return w_join(w) && hear_type(w, KR_E_SETUP, &s);
}

static bool w_start(struct world *w)
{
    struct kr_egress_calls calls = {on_row, w};

    *w = (struct world){.process = -1, .listener = open("/dev/null", O_RDONLY | O_CLOEXEC)};
    uv_loop_init(&w->loop);
    if (kr_egress_new(&w->loop, &w->egress) < 0)
        return false;
    kr_egress_set_calls(w->egress, &calls);
    return true;
}

static bool w_done(struct world *w)
{
    kr_egress_free(w->egress);
    kr_fd_close(w->process);
    kr_fd_close(w->listener);
    json_decref(w->row);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&w->loop) == 0;
}

static int say(struct world *w, uint16_t type, uint32_t id, const char *text)
{
    return kr_frame_send(w->process, type, id, text, strlen(text), NULL, 0);
}

static struct kr_egress_cell cell_of(uint64_t number, const char *run, const char *rule)
{
    struct kr_egress_cell c = {.cell = number, .sandbox = "sand1", .user = "user1", .run = run};
    struct kr_err err;

    kr_net_rule_parse(rule, &c.rule, &err);
    return c;
}

static const char row_text[] =
    "{\"cell\":7,\"sandbox\":\"sand1\",\"user\":\"user1\",\"run\":null,\"at_us\":5,\"ms\":3,\"how\":\"connect\","
    "\"method\":\"\",\"host\":\"a.example\",\"port\":443,\"address\":\"1.2.3.4\",\"sent\":1,\"received\":2,"
    "\"status\":200,\"verdict\":\"ok\",\"why\":\"\",\"secrets\":\"one,two\"}";

/* ---- cells ---- */

static void cells_are_told(void)
{
    struct kr_egress_cell c = cell_of(7, "run1", "allow:a.example");
    struct world w;
    struct said s;

    CHECK(w_start(&w) && w_connect(&w));
    CHECK(kr_egress_add(w.egress, &c, w.listener) == 0);
    CHECK(hear_type(&w, KR_E_CELL, &s) && s.frame.nfds == 1);
    CHECK(strstr(s.text, "\"cell\":7") && strstr(s.text, "\"rule\":\"allow:a.example\""));
    CHECK(strstr(s.text, "\"run\":\"run1\"") && strstr(s.text, "\"sandbox\":\"sand1\""));
    c.run = NULL;
    CHECK(kr_egress_change(w.egress, &c) == 0);
    CHECK(hear_type(&w, KR_E_RULE, &s) && s.frame.nfds == 0 && strstr(s.text, "\"run\":null"));
    CHECK(kr_egress_change(w.egress, &c) == 0); /* nothing new */
    CHECK(!hear(&w, &s));
    kr_egress_drop(w.egress, 7);
    CHECK(hear_type(&w, KR_E_DROP, &s) && ((struct kr_e_cell *)s.text)->cell == 7);
    CHECK(kr_egress_change(w.egress, &c) < 0 && !hear(&w, &s));
    CHECK(w_done(&w));
}

static void a_cell_waits_for_a_process(void)
{
    struct kr_egress_cell one = cell_of(1, NULL, "index"), two = cell_of(2, NULL, "open");
    struct world w;
    struct said s;

    CHECK(w_start(&w));
    CHECK(kr_egress_add(w.egress, &one, w.listener) == 0 && kr_egress_add(w.egress, &two, w.listener) == 0);
    CHECK(kr_egress_add(w.egress, &one, w.listener) < 0); /* a number is given once */
    kr_egress_drop(w.egress, 2);
    one.run = "run9";
    CHECK(kr_egress_change(w.egress, &one) == 0);
    CHECK(!kr_egress_connected(w.egress) && w_connect(&w) && kr_egress_connected(w.egress));
    CHECK(hear_type(&w, KR_E_CELL, &s) && strstr(s.text, "run9"));
    CHECK(!hear(&w, &s));
    CHECK(w_done(&w));
}

static void another_process_is_told_all(void)
{
    struct kr_egress_cell c = cell_of(1, NULL, "index");
    struct world w;
    struct said s;

    CHECK(w_start(&w) && w_connect(&w));
    CHECK(kr_egress_add(w.egress, &c, w.listener) == 0 && hear_type(&w, KR_E_CELL, &s));
    w.process = kr_fd_close(w.process);
    for (long end = patience_end(); kr_egress_connected(w.egress) && is_before(end);)
        turn(&w);
    CHECK(!kr_egress_connected(w.egress));
    CHECK(w_connect(&w));
    CHECK(hear_type(&w, KR_E_CELL, &s) && s.frame.nfds == 1 && strstr(s.text, "\"cell\":1"));
    CHECK(w_connect(&w)); /* and one that comes before the old one's end is known */
    CHECK(hear_type(&w, KR_E_CELL, &s) && !hear(&w, &s));
    CHECK(w_done(&w));
}

/* The socket takes no more: what is told later is the newest, once for each cell. */
static void a_full_socket_holds_one_order_for_each(void)
{
    enum { CELLS = 2000 };
    static bool seen[CELLS + 1];
    struct world w;
    struct said s;
    unsigned cells = 0, changed = 0;

    CHECK(w_start(&w) && w_connect(&w));
    for (unsigned i = 1; i <= CELLS; i++) {
        struct kr_egress_cell c = cell_of(i, NULL, "index");

        CHECK(kr_egress_add(w.egress, &c, w.listener) == 0);
    }
    for (unsigned i = 1; i <= CELLS; i++) {
        struct kr_egress_cell c = cell_of(i, "late", "index");

        CHECK(kr_egress_change(w.egress, &c) == 0);
    }
    kr_egress_drop(w.egress, CELLS); /* it was never told */
    memset(seen, 0, sizeof seen);
    for (long end = patience_end(); (cells < CELLS - 1 || changed < CELLS - 1) && is_before(end); turn(&w))
        while (hear(&w, &s)) {
            json_t *o = json_loads(s.text, 0, NULL);
            json_int_t number = json_integer_value(json_object_get(o, "cell"));

            CHECK(number >= 1 && number < CELLS);
            CHECK((s.frame.type == KR_E_CELL) == !seen[number]);
            cells += !seen[number];
            seen[number] = true;
            changed += json_is_string(json_object_get(o, "run"));
            json_decref(o);
        }
    CHECK(cells == CELLS - 1 && changed == CELLS - 1);
    CHECK(w_done(&w));
}

static void secrets_are_told_and_bounded(void)
{
    struct kr_egress_cell c = cell_of(1, NULL, "index");
    static char value[KR_FRAME_EGRESS_MAX];
    struct world w;
    struct said s;
    json_t *secrets;

    memset(value, 'x', sizeof value - 1);
    secrets = json_pack("[{ss}]", "value", value);
    CHECK(w_start(&w) && w_connect(&w));
    c.secrets = secrets;
    CHECK(kr_egress_add(w.egress, &c, w.listener) < 0 && !hear(&w, &s));
    value[100] = 0;
    json_decref(secrets);
    c.secrets = secrets = json_pack("[{ss}]", "value", value);
    CHECK(kr_egress_add(w.egress, &c, w.listener) == 0 && hear_type(&w, KR_E_CELL, &s) && strstr(s.text, "xxx"));
    json_decref(secrets);
    CHECK(w_done(&w));
}

/* Each process hears first what the warden does not know. */
static void the_setup_comes_first(void)
{
    struct kr_egress_cell c = cell_of(1, NULL, "index");
    struct world w;
    struct said s;

    CHECK(w_start(&w) && kr_egress_add(w.egress, &c, w.listener) == 0);
    CHECK(kr_egress_set_setup(w.egress, &(struct kr_egress_setup){.index_user = "u", .index_password = "p"}) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(w_join(&w) && hear_type(&w, KR_E_SETUP, &s));
        CHECK(strcmp(s.text, "{\"index_user\":\"u\",\"index_password\":\"p\",\"own_ca\":null}") == 0);
        CHECK(hear_type(&w, KR_E_CELL, &s));
    }
    CHECK(w_done(&w));
}

static void the_process_says_how_many_are_open(void)
{
    const struct kr_e_open open = {.connections = 7};
    struct world w;

    CHECK(w_start(&w) && w_connect(&w) && kr_egress_open(w.egress) == 0);
    CHECK(kr_frame_send(w.process, KR_E_OPEN, 0, &open, sizeof open, NULL, 0) == 0);
    for (long end = patience_end(); kr_egress_open(w.egress) == 0 && is_before(end);)
        turn(&w);
    CHECK(kr_egress_open(w.egress) == 7);
    CHECK(w_connect(&w) && kr_egress_open(w.egress) == 0); /* those of another process */
    CHECK(w_done(&w));
}

/* ---- rows ---- */

static bool row_comes(struct world *w, const char *text)
{
    unsigned before = w->rows;

    if (say(w, KR_E_CONNECTION, 0, text) < 0 || say(w, KR_E_CONNECTION, 0, row_text) < 0)
        return false;
    for (long end = patience_end(); w->rows == before && is_before(end);)
        turn(w);
    turn(w);
    return w->rows == before + 2; /* the good one behind it comes always */
}

static void rows_are_checked(void)
{
    static const struct {
        const char *from, *to;
    } wrong[] = {
        {"\"cell\":7", "\"cell\":-1"},
        {"\"cell\":7", "\"cell\":7.5"},
        {"\"cell\":7,", ""},
        {"\"sandbox\":\"sand1\"", "\"sandbox\":\"0123456789012345678901234567890123\""},
        {"\"user\":\"user1\"", "\"user\":null"},
        {"\"run\":null", "\"run\":5"},
        {"\"how\":\"connect\"", "\"how\":\"tunnel\""},
        {"\"port\":443", "\"port\":65536"},
        {"\"status\":200", "\"status\":1000"},
        {"\"sent\":1", "\"sent\":\"1\""},
        {"\"verdict\":\"ok\"", "\"verdict\":\"fine\""},
        {"\"verdict\":\"ok\"", "\"verdict\":\"ok\",\"verdict\":\"ok\""},
        {"\"why\":\"\"", "\"why\":\"\",\"more\":1"},
        {"\"secrets\":\"one,two\"", "\"secrets\":[\"one\"]"},
        {",\"secrets\":\"one,two\"", ""},
        {"{\"cell\"", "[\"cell\""},
    };
    struct world w;

    kr_log_set_level(KR_LOG_ERROR);
    CHECK(w_start(&w) && w_connect(&w));
    CHECK(row_comes(&w, row_text));
    CHECK(json_integer_value(json_object_get(w.row, "port")) == 443);
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *at = strstr(row_text, wrong[i].from);
        char text[1024];

        CHECK(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - row_text), row_text, wrong[i].to,
                 at + strlen(wrong[i].from));
        if (row_comes(&w, text))
            printf("FAIL rows_are_checked: taken: %s\n", text), check_failed_ = 1;
    }
    CHECK(kr_egress_connected(w.egress));
    CHECK(w_done(&w));
}

static void other_frames_end_the_connection(void)
{
    struct world w;

    kr_log_set_level(KR_LOG_ERROR);
    CHECK(w_start(&w) && w_connect(&w));
    CHECK(say(&w, KR_E_RULE, 0, "{}") == 0);
    for (long end = patience_end(); kr_egress_connected(w.egress) && is_before(end);)
        turn(&w);
    turn(&w);
    CHECK(!kr_egress_connected(w.egress));
    CHECK(w_done(&w));
}

/* ---- fetches ---- */

static int ask(struct world *w, struct asked *a, uint64_t timeout_ms, struct kr_err *err)
{
    struct kr_egress_fetch f = {.url = "https://a.example/x.whl",
                                .rule = {.kind = KR_NET_OPEN},
                                .sandbox = "sand1",
                                .user = "user1",
                                .max_bytes = 1000,
                                .timeout_ms = timeout_ms,
                                .file = w->listener};

    *a = (struct asked){.ask = {.on_progress = on_fetch_progress, .on_end = on_fetch_end}};
    return kr_egress_fetch(w->egress, &f, &a->ask, err);
}

static bool ends(struct world *w, struct asked *a)
{
    for (long end = patience_end(); a->ends == 0 && is_before(end);)
        turn(w);
    turn(w);
    return a->ends == 1 && a->ask.id == 0;
}

static void fetches_end(void)
{
    struct kr_e_progress p = {.bytes = 10, .total = 20};
    struct asked a, b;
    struct kr_err err;
    struct world w;
    struct said s;

    CHECK(w_start(&w) && w_connect(&w));
    CHECK(ask(&w, &a, 60000, &err) == 0 && ask(&w, &b, 60000, &err) == 0);
    CHECK(hear_type(&w, KR_E_FETCH, &s) && s.frame.id == a.ask.id && s.frame.nfds == 1);
    CHECK(strstr(s.text, "\"max_bytes\":1000") && strstr(s.text, "\"rule\":\"open\"") &&
          strstr(s.text, "\"accept\":null"));
    CHECK(hear_type(&w, KR_E_FETCH, &s) && s.frame.id == b.ask.id && a.ask.id != b.ask.id);
    CHECK(kr_frame_send(w.process, KR_E_PROGRESS, a.ask.id, &p, sizeof p, NULL, 0) == 0);
    CHECK(say(&w, KR_E_FETCHED, b.ask.id, "{\"error\":\"denied\",\"why\":\"not allowed\"}") == 0);
    CHECK(say(&w, KR_E_FETCHED, a.ask.id,
              "{\"status\":200,\"bytes\":20,\"type\":\"t\",\"name\":\"x.whl\",\"sha256\":\"ab\",\"promised\":\"\"}") ==
          0);
    CHECK(ends(&w, &a) && a.good && a.fetched.status == 200 && a.fetched.bytes == 20 && a.progress == 10);
    CHECK(strcmp(a.name, "x.whl") == 0 && strcmp(a.sha256, "ab") == 0);
    CHECK(ends(&w, &b) && !b.good && b.err.kind == KR_ERR_DENIED && strcmp(b.err.msg, "not allowed") == 0);
    CHECK(ask(&w, &a, 60000, &err) == 0);
    CHECK(say(&w, KR_E_FETCHED, a.ask.id, "{\"status\":200}") == 0); /* an end without sense is one */
    CHECK(ends(&w, &a) && !a.good && a.err.kind == KR_ERR_PROTOCOL);
    CHECK(w_done(&w));
}

static void fetches_fail_with_the_process(void)
{
    struct kr_err err;
    struct asked a;
    struct world w;
    struct said s;

    CHECK(w_start(&w));
    CHECK(ask(&w, &a, 60000, &err) < 0 && err.kind == KR_ERR_UNAVAILABLE && a.ends == 0);
    CHECK(w_connect(&w) && ask(&w, &a, 60000, &err) == 0 && hear_type(&w, KR_E_FETCH, &s));
    w.process = kr_fd_close(w.process);
    CHECK(ends(&w, &a) && !a.good && a.err.kind == KR_ERR_UNAVAILABLE);
    CHECK(w_connect(&w) && ask(&w, &a, 60000, &err) == 0 && a.ends == 0);
    CHECK(hear_type(&w, KR_E_FETCH, &s));
    CHECK(w_done(&w) && a.ends == 0);
}

static void a_cancelled_fetch_is_silent(void)
{
    struct kr_err err;
    struct asked a;
    struct world w;
    struct said s;
    uint32_t id;

    CHECK(w_start(&w) && w_connect(&w));
    CHECK(ask(&w, &a, 60000, &err) == 0 && hear_type(&w, KR_E_FETCH, &s));
    id = a.ask.id;
    kr_egress_cancel(w.egress, &a.ask);
    CHECK(a.ask.id == 0 && hear_type(&w, KR_E_CANCEL, &s) && s.frame.id == id && s.frame.len == 0);
    CHECK(say(&w, KR_E_FETCHED, id, "{\"error\":\"failed\",\"why\":\"cancelled\"}") == 0);
    CHECK(say(&w, KR_E_FETCHED, id, "{\"error\":\"failed\",\"why\":\"twice\"}") == 0);
    turn(&w);
    turn(&w);
    CHECK(a.ends == 0 && kr_egress_connected(w.egress));
    CHECK(ask(&w, &a, 60000, &err) == 0 && a.ask.id != id);
    CHECK(w_done(&w));
}

int main(void)
{
    RUN(cells_are_told);
    RUN(a_cell_waits_for_a_process);
    RUN(another_process_is_told_all);
    RUN(a_full_socket_holds_one_order_for_each);
    RUN(secrets_are_told_and_bounded);
    RUN(the_setup_comes_first);
    RUN(the_process_says_how_many_are_open);
    RUN(rows_are_checked);
    RUN(other_frames_end_the_connection);
    RUN(fetches_end);
    RUN(fetches_fail_with_the_process);
    RUN(a_cancelled_fetch_is_silent);
    CHECK_DONE();
}

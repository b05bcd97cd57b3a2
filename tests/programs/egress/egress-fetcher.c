/* The server's own fetches without a server: what tests/egress drives by lines of JSON on stdin.
 *
 *   egress-fetcher '{"index_url": …, "index_user": …, "index_password": …, "index_hosts": […], "ca_file": …,
 *                    "private_hosts": […], "fetches": 2}'
 *   {"fetch": {members of KR_E_FETCH}, "id": 1, "file": "/path"}      {"cancel": 1}
 *
 * What comes back is a line each: {"fetched": {…}, "id"}, {"progress": […], "id"}, {"row": {…}}. Ends with stdin, and
 * with status 1 if memory of the loop is left. */
#include "egress_internal.h"
#include "fd.h"
#include "loop.h"
#include "proto.h"
#include "work.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define WORDS_MAX 16

struct fetcher {
    struct kr_eg eg;
    struct kr_egress_config config;
    const char *private_hosts[WORDS_MAX], *index_hosts[WORDS_MAX];
    struct kr_watch *watch;
    struct kr_buf in;
};

static void say(json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT);

    json_decref(line);
    if (!text)
        abort();
    puts(text);
    fflush(stdout);
    free(text);
}

/* ---- what the first half of the room does ---- */

int kr_eg_send(struct kr_eg *eg, uint16_t type, uint32_t id, const void *payload, size_t len)
{
    const struct kr_e_progress *p = payload;

    (void)eg;
    if (type == KR_E_PROGRESS)
        say(json_pack("{s[II] sI}", "progress", (json_int_t)p->bytes, (json_int_t)p->total, "id", (json_int_t)id));
    else
        say(json_pack("{so sI}", "fetched", json_loadb(payload, len, 0, NULL), "id", (json_int_t)id));
    return 0;
}

void kr_eg_row_send(struct kr_eg *eg, const struct kr_eg_row *row)
{
    (void)eg;
    say(json_pack("{s{ss ss ss ss ss si sI sI si ss ss}}", "row", "sandbox", row->sandbox, "how", row->how, "method",
                  row->method, "host", row->host, "address", row->address, "port", row->port, "sent",
                  (json_int_t)row->sent, "received", (json_int_t)row->received, "status", (int)row->status, "verdict",
                  kr_eg_verdict_names[row->verdict], "why", row->why));
}

uint64_t kr_eg_now_us(void)
{
    struct timeval now;

    gettimeofday(&now, NULL);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_usec;
}

struct kr_eg_sandbox *kr_eg_sandbox_ref(struct kr_eg *eg, const char *id)
{
    struct kr_eg_sandbox *s = calloc(1, sizeof *s);

    (void)eg;
    if (s)
        snprintf(s->id, sizeof s->id, "%s", id);
    return s;
}

void kr_eg_sandbox_unref(struct kr_eg_sandbox *s)
{
    free(s);
}

bool kr_eg_sandbox_moved(struct kr_eg *eg, struct kr_eg_sandbox *s, uint64_t bytes)
{
    s->bytes += bytes;
    return s->bytes <= eg->limits.hour_bytes;
}

bool kr_eg_sandbox_is_full(struct kr_eg *eg, const struct kr_eg_sandbox *s)
{
    return s->bytes >= eg->limits.hour_bytes;
}

/* ---- lines ---- */

static void take_line(struct fetcher *f, const char *text, size_t len)
{
    json_t *line = json_loadb(text, len, 0, NULL), *fetch = json_object_get(line, "fetch");
    int file;

    if (fetch) {
        file = open(json_string_value(json_object_get(line, "file")), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        kr_eg_hooks.on_fetch(&f->eg, (uint32_t)json_integer_value(json_object_get(line, "id")), fetch, file);
    } else {
        kr_eg_hooks.on_cancel(&f->eg, (uint32_t)json_integer_value(json_object_get(line, "cancel")));
    }
    json_decref(line);
}

static void on_stdin(void *data)
{
    struct fetcher *f = data;
    char piece[4096], *newline;
    ssize_t n = read(0, piece, sizeof piece);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        kr_watch_close(f->watch);
        kr_lane_close(f->eg.lookups);
        kr_eg_hooks.stop(&f->eg);
        return;
    }
    kr_buf_add(&f->in, piece, (size_t)n);
    while (f->in.len > 0 && (newline = memchr(f->in.data, '\n', f->in.len))) {
        take_line(f, f->in.data, (size_t)(newline - f->in.data));
        kr_buf_drop(&f->in, (size_t)(newline + 1 - f->in.data));
    }
}

static struct kr_words words_of(const json_t *config, const char *name, const char **items)
{
    const json_t *list = json_object_get(config, name);
    struct kr_words words = {items, 0};

    while (words.count < json_array_size(list) && words.count < WORDS_MAX) {
        items[words.count] = json_string_value(json_array_get(list, words.count));
        words.count++;
    }
    return words;
}

static void read_config(struct fetcher *f, const json_t *config)
{
    json_t *fetches = json_object_get(config, "fetches"), *hour = json_object_get(config, "hour_bytes");

    f->config.index_url = json_string_value(json_object_get(config, "index_url"));
    f->config.ca_file = json_string_value(json_object_get(config, "ca_file"));
    f->config.private_hosts = words_of(config, "private_hosts", f->private_hosts);
    f->config.index_hosts = words_of(config, "index_hosts", f->index_hosts);
    f->eg.config = &f->config;
    f->eg.limits = (struct kr_egress_limits){
        .resolve_ms = 5000,
        .connect_ms = 5000,
        .idle_ms = 2000,
        .hour_bytes = hour ? (uint64_t)json_integer_value(hour) : UINT64_MAX,
        .fetches = fetches ? (uint32_t)json_integer_value(fetches) : 8,
    };
}

int main(int argc, char **argv)
{
    static const struct kr_watch_calls calls = {on_stdin, NULL};
    static struct fetcher f;
    json_t *config = argc == 2 ? json_loads(argv[1], 0, NULL) : NULL;
    struct kr_err err;

    if (!config || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return 2;
    read_config(&f, config);
    kr_buf_init(&f.in, 1u << 20);
    if (uv_loop_init(&f.eg.loop) < 0 || kr_lane_new(&f.eg.loop, 2, 64, &f.eg.lookups) < 0 ||
        kr_watch_new(&f.eg.loop, dup(0), &calls, &f, &f.watch) < 0)
        return 2;
    if (kr_eg_hooks.start(&f.eg, &f.eg.second, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 3;
    }
    kr_eg_hooks.on_setup(&f.eg, config);
    kr_watch_want_read(f.watch, true);
    uv_run(&f.eg.loop, UV_RUN_DEFAULT);
    kr_buf_done(&f.in);
    json_decref(config);
    return uv_loop_close(&f.eg.loop) == 0 ? 0 : 1;
}

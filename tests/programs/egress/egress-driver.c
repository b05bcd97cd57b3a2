/* An egress process without an engine: what tests/lib/egress.py drives by lines of JSON on stdin.
 *
 *   egress-driver '{"index_url": …, "index_hosts": […], "ca_file": …, "private_hosts": […],
 *                   "limits": {"fetches": 2, …}}'
 *   {"setup": {…}}   {"cell": {…}}   {"rule": {…}}   {"drop": 7}
 *   {"fetch": {…}, "id": 1, "file": "/path"}   {"cancel": 1}
 *
 * The objects are the payloads of docs/design/egress.md. A cell's listener is a socket on 127.0.0.1, whose port comes
 * back: {"listening": 7, "port": 40123}. What the process says is a line each: {"connection": {…}}, {"progress":
 * [bytes, total], "id": 1}, {"fetched": {…}, "id": 1}. Ends with stdin; then the process has to end by itself, and its
 * status is this program's. */
#include "buf.h"
#include "egress.h"
#include "err.h"
#include "fd.h"
#include "frame.h"
#include "proto.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 16

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

/* ---- the configuration ---- */

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

static uint64_t limit_of(const json_t *config, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(json_object_get(config, "limits"), name));
}

static void read_config(const json_t *config, struct kr_egress_config *ret)
{
    static const char *private_hosts[WORDS_MAX], *index_hosts[WORDS_MAX], *own_hosts[WORDS_MAX];

    *ret = (struct kr_egress_config){
        .index_url = json_string_value(json_object_get(config, "index_url")),
        .ca_file = json_string_value(json_object_get(config, "ca_file")),
        .private_hosts = words_of(config, "private_hosts", private_hosts),
        .index_hosts = words_of(config, "index_hosts", index_hosts),
        .own_hosts = words_of(config, "own_hosts", own_hosts),
        .limits = {.connect_ms = (uint32_t)limit_of(config, "connect_ms"),
                   .idle_ms = (uint32_t)limit_of(config, "idle_ms"),
                   .total_ms = limit_of(config, "total_ms"),
                   .hour_bytes = limit_of(config, "hour_bytes"),
                   .connection_bytes = limit_of(config, "connection_bytes"),
                   .fetches = (uint32_t)limit_of(config, "fetches")},
    };
}

/* ---- to the process ---- */

static void send_json(int sock, uint16_t type, uint32_t id, const json_t *payload, int fd)
{
    char *text = json_dumps(payload, JSON_COMPACT);

    if (!text || kr_frame_send(sock, type, id, text, strlen(text), &fd, fd >= 0 ? 1 : 0) < 0)
        fprintf(stderr, "the egress process is gone\n");
    free(text);
}

static void send_cell(int sock, const json_t *cell)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t len = sizeof a;

    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 64) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        abort();
    send_json(sock, KR_E_CELL, 0, cell, fd);
    say(json_pack("{sO si}", "listening", json_object_get(cell, "cell"), "port", (int)ntohs(a.sin_port)));
}

static void take_line(int sock, const char *text, size_t len)
{
    json_t *line = json_loadb(text, len, 0, NULL), *o;
    uint32_t id = (uint32_t)json_integer_value(json_object_get(line, "id"));

    if ((o = json_object_get(line, "setup")))
        send_json(sock, KR_E_SETUP, 0, o, -1);
    else if ((o = json_object_get(line, "cell")))
        send_cell(sock, o);
    else if ((o = json_object_get(line, "rule")))
        send_json(sock, KR_E_RULE, 0, o, -1);
    else if ((o = json_object_get(line, "drop"))) {
        const struct kr_e_cell cell = {.cell = (uint64_t)json_integer_value(o)};

        kr_frame_send(sock, KR_E_DROP, 0, &cell, sizeof cell, NULL, 0);
    } else if ((o = json_object_get(line, "fetch"))) {
        int fd = open(json_string_value(json_object_get(line, "file")), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        send_json(sock, KR_E_FETCH, id, o, fd);
        kr_fd_close(fd);
    } else if ((o = json_object_get(line, "cancel"))) {
        kr_frame_send(sock, KR_E_CANCEL, (uint32_t)json_integer_value(o), NULL, 0, NULL, 0);
    }
    json_decref(line);
}

/* False at the end of stdin. */
static bool take_stdin(int sock, struct kr_buf *in)
{
    char piece[4096], *newline;
    ssize_t n = read(0, piece, sizeof piece);

    if (n <= 0 || kr_buf_add(in, piece, (size_t)n) < 0)
        return false;
    while (in->len > 0 && (newline = memchr(in->data, '\n', in->len))) {
        take_line(sock, in->data, (size_t)(newline - in->data));
        kr_buf_drop(in, (size_t)(newline + 1 - in->data));
    }
    return true;
}

/* ---- from the process ---- */

/* False if it has ended. */
static bool take_frame(int sock)
{
    union {
        char bytes[KR_FRAME_EGRESS_MAX];
        struct kr_e_progress progress;
    } buf;
    struct kr_frame f;
    struct kr_err err;
    int none, r = kr_frame_recv_few(sock, &f, buf.bytes, sizeof buf.bytes, &none, 0, 0, &err);

    if (r == -ETIMEDOUT)
        return true;
    if (r < 0)
        return false;
    if (f.type == KR_E_OPEN)
        return true;
    if (f.type == KR_E_PROGRESS)
        say(json_pack("{s[II] sI}", "progress", (json_int_t)buf.progress.bytes, (json_int_t)buf.progress.total, "id",
                      (json_int_t)f.id));
    else
        say(json_pack("{so sI}", f.type == KR_E_FETCHED ? "fetched" : "connection",
                      json_loadb(buf.bytes, f.len, 0, NULL), "id", (json_int_t)f.id));
    return true;
}

static void drive(int sock)
{
    struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.fd = sock, .events = POLLIN}};
    struct kr_buf in;

    kr_buf_init(&in, 4u << 20);
    for (bool going = true; going && poll(fds, 2, -1) >= 0;) {
        if (fds[1].revents && !take_frame(sock))
            going = false;
        if (fds[0].revents && !take_stdin(sock, &in))
            going = false;
    }
    kr_buf_done(&in);
}

int main(int argc, char **argv)
{
    json_t *json = argc == 2 ? json_loads(argv[1], 0, NULL) : NULL;
    struct kr_egress_config config;
    int pair[2], status = 0;
    pid_t child;

    if (!json || signal(SIGPIPE, SIG_IGN) == SIG_ERR || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return 2;
    read_config(json, &config);
    child = fork();
    if (child == 0) {
        close(pair[0]);
        close(0);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
            _exit(2);
        _exit(kr_egress_main(pair[1], &config));
    }
    close(pair[1]);
    drive(pair[0]);
    close(pair[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 2;
    json_decref(json);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

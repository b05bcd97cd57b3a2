/* bench-http KRAIT [OPTION…]: the server as a client on loopback sees it. The options are those of `krait serve`.
 *
 * The driver starts it once; it starts `krait serve` in a data directory of its own and takes lines:
 *     warm PRELOAD COUNT             print(1) in a live session over keep-alive: to the output, and to the end
 *     new PRELOAD KIND GAP COUNT     print(1) in a new session, KIND `fresh` (thrown away) or `kept` (in the sandbox's
 *                                    folder); with a GAP of 0 one right after the other, as a pool cannot keep up with
 *     churn PRELOAD MS INFLIGHT      fresh runs, one JSON object each: how many were done
 *     paced SANDBOX GAP COUNT        as warm, with a rest before each
 *     user NAME                      makes a user with a key; as NAME: asks with it from now on
 *     bombs, calm                    as the user who asks now: fork, memory and output bombs without end, and their end
 *     voices COUNT                   print(1) over REST, /mcp and stdio in turns: to the whole answer
 *     hold COUNT INFLIGHT            opens sessions that then lie idle
 * Blocking sockets, one connection each for warm and new; poll for the churn. */
#include "http.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OPTIONS_MAX 20
#define FILES_MAX 20000 /* descriptors that the server may have, if the system allows it */

extern char **environ;
struct kr_bench_server kr_bench_server = {.data = "/tmp/krait-bench-XXXXXX"};
static pid_t server;
static unsigned serial;

static int start_server(char *krait, char **options)
{
    char folder[80], text[4096];
    char *argv[12 + OPTIONS_MAX] = {krait,  "serve",       "--no-files", "--port",      "0",    "--data",
                                    folder, "--pool-size", "4",          "--log-level", "warn", NULL};
    posix_spawn_file_actions_t actions;
    struct rlimit files;
    int out[2];
    size_t len = 0;
    int r;

    for (size_t i = 0; options[i] && i < OPTIONS_MAX; i++)
        argv[11 + i] = options[i];
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    kr_bench_server.krait = krait;
    if (!mkdtemp(kr_bench_server.data) || chmod(kr_bench_server.data, 0755) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return -1;
    snprintf(folder, sizeof folder, "%s/data", kr_bench_server.data);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    r = posix_spawn(&server, krait, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    if (r != 0)
        return -1;
    for (ssize_t n; (n = read(out[0], text + len, sizeof text - 1 - len)) > 0;) {
        const char *at;
        text[len += (size_t)n] = '\0';
        at = strstr(text, "127.0.0.1:");
        if (at && strchr(at, '\n')) {
            kr_bench_server.port = atoi(at + 10);
            return 0; /* the pipe stays open: the server may say more */
        }
    }
    return -1;
}

int kr_bench_dial(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)kr_bench_server.port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

int kr_bench_post(int fd, const char *path, const char *body)
{
    char request[2048], key[160] = "";
    int n;

    if (kr_bench_server.key[0])
        snprintf(key, sizeof key, "Authorization: Bearer %s\r\n", kr_bench_server.key);
    n = snprintf(
        request, sizeof request,
        "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s",
        path, key, strlen(body), body);
    return write(fd, request, (size_t)n) == n ? 0 : -1;
}

static int ask(int fd, const char *body)
{
    return kr_bench_post(fd, "/api/v1/runs", body);
}

/* Reads a streamed answer to its end: when the output came. */
static const char *hear(int fd, double *ret_output)
{
    char text[16384];
    size_t len = 0;
    *ret_output = 0;
    for (;;) {
        ssize_t n = read(fd, text + len, sizeof text - 1 - len);
        if (n <= 0)
            return "the server closed the connection";
        text[len += (size_t)n] = '\0';
        if (*ret_output == 0 && strstr(text, "\"stdout\",\"text\":\"1\\n\""))
            *ret_output = kr_bench_now();
        if (len >= 5 && memcmp(text + len - 5, "0\r\n\r\n", 5) == 0)
            break;
        if (len == sizeof text - 1)
            return "an answer that is too long";
    }
    return strncmp(text, "HTTP/1.1 200", 12) != 0 ? "not 200" : *ret_output == 0 ? "no output" : NULL;
}

static void rest(double ms)
{
    struct timespec t = {.tv_nsec = (long)(ms * 1e6)};
    nanosleep(&t, NULL);
}

/* The sandbox of a preload is made once. */
static const char *make_sandbox(const char *preload)
{
    char body[128], request[512], text[8192];
    int fd = kr_bench_dial();
    int len = snprintf(body, sizeof body, "{\"name\":\"%s\",\"preload\":\"%s\"}", preload, preload);
    int n = snprintf(
        request, sizeof request,
        "POST /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len,
        body);
    if (fd < 0 || write(fd, request, (size_t)n) != n || read(fd, text, sizeof text) <= 0)
        return "no sandbox";
    close(fd);
    return NULL;
}

static const char *run_many(const char *preload, const char *kind, double gap, long count, struct kr_bench_samples *s)
{
    int fd = kr_bench_dial();
    const char *why = fd < 0 ? "cannot connect" : NULL;
    for (long i = 0; !why && i < count; i++) {
        char body[256];
        double output;
        double start;
        if (strcmp(kind, "warm") == 0)
            snprintf(body, sizeof body, "{\"code\":\"print(1)\",\"sandbox_id\":\"%s\"}", preload);
        else if (strcmp(kind, "fresh") == 0)
            snprintf(body, sizeof body, "{\"code\":\"print(1)\",\"sandbox_id\":\"%s\",\"fresh\":true}", preload);
        else
            snprintf(body, sizeof body, "{\"code\":\"print(1)\",\"sandbox_id\":\"%s\",\"session_id\":\"n%u\"}", preload,
                     ++serial);
        if (gap > 0)
            rest(gap);
        start = kr_bench_now();
        why = ask(fd, body) < 0 ? "write" : hear(fd, &output);
        if (!why) {
            kr_bench_add(s, "output", output - start);
            kr_bench_add(s, "end", kr_bench_now() - start);
        }
    }
    close(fd);
    return why;
}

static const char *churn(const char *preload, double ms, unsigned inflight, struct kr_bench_samples *s)
{
    struct pollfd p[KR_BENCH_INFLIGHT_MAX];
    char body[256], text[65536];
    unsigned busy = 0;
    double start = kr_bench_now(), done = 0;
    snprintf(body, sizeof body, "{\"code\":\"print(1)\",\"sandbox_id\":\"%s\",\"fresh\":true,\"stream\":false}",
             preload);
    if (inflight > KR_BENCH_INFLIGHT_MAX)
        inflight = KR_BENCH_INFLIGHT_MAX;
    for (unsigned i = 0; i < inflight; i++, busy++) {
        p[i] = (struct pollfd){.fd = kr_bench_dial(), .events = POLLIN};
        if (p[i].fd < 0 || ask(p[i].fd, body) < 0)
            return "cannot connect";
    }
    while (busy > 0 && poll(p, inflight, 10000) > 0)
        for (unsigned i = 0; i < inflight; i++) {
            ssize_t n;
            if (p[i].fd < 0 || p[i].revents == 0)
                continue;
            n = read(p[i].fd, text, sizeof text - 1);
            if (n <= 0)
                return "the server closed the connection";
            text[n] = '\0';
            if (!strstr(text, "\"stdout\":\"1\\n\""))
                return "an answer without its output";
            done++;
            if (kr_bench_now() - start < ms * 1000 && ask(p[i].fd, body) == 0)
                continue;
            close(p[i].fd);
            p[i].fd = -1;
            busy--;
        }
    kr_bench_add(s, "elapsed", kr_bench_now() - start);
    kr_bench_add(s, "done", done);
    return busy > 0 ? "no answer in time" : NULL;
}

static const char *obey(char **w, size_t n, struct kr_bench_samples *s)
{
    if (n == 3 && strcmp(w[0], "warm") == 0)
        return run_many(w[1], "warm", 0, atol(w[2]), s);
    if (n == 5 && strcmp(w[0], "new") == 0)
        return run_many(w[1], w[2], atof(w[3]), atol(w[4]), s);
    if (n == 4 && strcmp(w[0], "churn") == 0)
        return churn(w[1], atof(w[2]), (unsigned)atol(w[3]), s);
    if (n == 4 && strcmp(w[0], "paced") == 0)
        return run_many(w[1], "warm", atof(w[2]), atol(w[3]), s);
    if (n == 2 && strcmp(w[0], "user") == 0)
        return kr_bench_user(w[1]);
    if (n == 2 && strcmp(w[0], "as") == 0)
        return kr_bench_as(w[1]);
    if (n == 1 && strcmp(w[0], "bombs") == 0)
        return kr_bench_bombs();
    if (n == 1 && strcmp(w[0], "calm") == 0)
        return kr_bench_bombs_end(), NULL;
    if (n == 2 && strcmp(w[0], "voices") == 0)
        return kr_bench_voices(atol(w[1]), s);
    if (n == 3 && strcmp(w[0], "hold") == 0)
        return kr_bench_hold(atol(w[1]), (unsigned)atol(w[2]), s);
    return "there is no such command";
}

/* Then no user can make a sandbox yet: all use `default`. */
static bool asks_for_keys(char **options)
{
    for (; *options; options++)
        if (strcmp(*options, "--require-auth") == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    static struct kr_bench_samples samples;
    char line[512], *words[9], remove[128];
    const char *why;

    signal(SIGPIPE, SIG_IGN);
    kr_bench_clear(&samples);
    if (argc < 2 || argc > 2 + OPTIONS_MAX || start_server(argv[1], argv + 2) < 0 ||
        (!asks_for_keys(argv + 2) && (make_sandbox("basic") || make_sandbox("data")))) {
        kr_bench_refuse("the server does not start");
        return 1;
    }
    printf("{\"ok\":true}\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        why = obey(words, kr_bench_words(line, words, 8), &samples);
        if (why)
            kr_bench_refuse(why);
        else
            kr_bench_answer(&samples);
        kr_bench_clear(&samples);
    }
    kr_bench_bombs_end();
    kr_bench_voices_end();
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
    snprintf(remove, sizeof remove, "rm -rf %s", kr_bench_server.data);
    return system(remove) != 0;
}

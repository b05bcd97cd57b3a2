/* The same warm run through three voices, one call of each after the other: REST with one JSON object, tools/call over
 * HTTP, tools/call over stdin and stdout of a `krait mcp` of its own. Measured to the whole answer. Part of
 * bench-http. */
#include "http.h"
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char rest_body[] = "{\"code\":\"print(1)\",\"sandbox_id\":\"basic\",\"stream\":false}";
static const char call[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"execute_python\","
    "\"arguments\":{\"code\":\"print(1)\"%s}}}%s";
static const char open_call[] = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                                "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                                "\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n{\"jsonrpc\":\"2.0\","
                                "\"method\":\"notifications/initialized\"}\n";

static struct {
    pid_t pid;
    int in, out; /* its stdin and stdout */
} lines = {.in = -1, .out = -1};

/* An answer of known length; true if it holds the word. */
static bool whole_answer(int fd, const char *word)
{
    char text[16384];
    size_t len = 0;

    for (ssize_t n; (n = read(fd, text + len, sizeof text - 1 - len)) > 0;) {
        const char *body, *length;
        unsigned long size;

        text[len += (size_t)n] = '\0';
        body = strstr(text, "\r\n\r\n");
        length = strstr(text, "Content-Length: ");
        size = 0;
        if (body && length && sscanf(length, "Content-Length: %lu", &size) == 1 &&
            len >= (size_t)(body + 4 - text) + size)
            return strstr(body, word) != NULL;
    }
    return false;
}

static bool whole_line(const char *word)
{
    char text[16384];
    size_t len = 0;

    for (ssize_t n; (n = read(lines.out, text + len, sizeof text - 1 - len)) > 0;) {
        text[len += (size_t)n] = '\0';
        if (text[len - 1] == '\n')
            return strstr(text, word) != NULL;
    }
    return false;
}

/* With an engine of its own: joined to the server it would measure that one, and a pump. */
static const char *start_lines(void)
{
    char folder[96];
    char *argv[] = {kr_bench_server.krait, "mcp", "--no-join", "--preload", "basic", "--data", folder, NULL};
    posix_spawn_file_actions_t actions;
    int to[2], from[2], r;

    snprintf(folder, sizeof folder, "%s/lines", kr_bench_server.data);
    if (pipe(to) < 0 || pipe(from) < 0)
        return "no pipe";
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    for (int i = 0; i < 2; i++) {
        posix_spawn_file_actions_addclose(&actions, to[i]);
        posix_spawn_file_actions_addclose(&actions, from[i]);
    }
    r = posix_spawn(&lines.pid, kr_bench_server.krait, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    lines.in = to[1];
    lines.out = from[0];
    if (r != 0 || write(lines.in, open_call, sizeof open_call - 1) < 0 || !whole_line("2025-11-25"))
        return "krait mcp does not start";
    return NULL;
}

static const char *ask_line(void)
{
    char text[512];
    int n = snprintf(text, sizeof text, call, "", "\n");

    return write(lines.in, text, (size_t)n) == n && whole_line("\"1\"") ? NULL : "no answer on stdout";
}

const char *kr_bench_voices(long count, struct kr_bench_samples *s)
{
    char body[512];
    int fd = kr_bench_dial();
    const char *why = fd < 0 ? "cannot connect" : lines.pid == 0 ? start_lines() : NULL;

    snprintf(body, sizeof body, call, ",\"sandbox_id\":\"basic\"", "");
    for (long i = -1; !why && i < count; i++) { /* the first of each opens its session */
        double start = kr_bench_now();
        double rest;
        double mcp;
        if (kr_bench_post(fd, "/api/v1/runs", rest_body) < 0 || !whole_answer(fd, "\"stdout\":\"1\\n\""))
            return "no answer over REST";
        rest = kr_bench_now();
        if (kr_bench_post(fd, "/mcp", body) < 0 || !whole_answer(fd, "\"1\""))
            return "no answer of /mcp";
        mcp = kr_bench_now();
        why = ask_line();
        if (why || i < 0)
            continue;
        kr_bench_add(s, "rest", rest - start);
        kr_bench_add(s, "mcp", mcp - rest);
        kr_bench_add(s, "stdio", kr_bench_now() - mcp);
    }
    close(fd);
    return why;
}

void kr_bench_voices_end(void)
{
    if (lines.pid <= 0)
        return;
    close(lines.in); /* its end of input: it goes */
    close(lines.out);
    waitpid(lines.pid, NULL, 0);
    lines.pid = 0;
}

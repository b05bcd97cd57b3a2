/* bench-spawn: how long a program takes from its start to its first output, and to its end.
 *
 * The driver starts it once and sends lines `COUNT program argument…` (words, no quoting; "_" in a word stands for a
 * space, so that Python code fits in one). `mcp COUNT …` is the same for a server of MCP: it finds `initialize` on its
 * stdin, which ends once it has answered. A small C parent and vfork (posix_spawn) keep the price of the starting side
 * out of the figures. */
#include "samples.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char initialize[] =
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
    "\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n";

/* NULL, or what went wrong. `feed`: what it finds on its stdin; NULL: nothing. */
static const char *measure(char **argv, const char *feed, struct kr_bench_samples *s)
{
    posix_spawn_file_actions_t actions;
    int out[2], in[2] = {-1, -1}, status;
    char text[256];
    pid_t pid;
    double start;
    ssize_t n;
    double end;
    int r;
    double output;
    if (pipe2(out, O_CLOEXEC) < 0)
        return "pipe";
    if (feed && (pipe2(in, O_CLOEXEC) < 0 || write(in[1], feed, strlen(feed)) != (ssize_t)strlen(feed)))
        return "pipe";
    posix_spawn_file_actions_init(&actions);
    if (feed)
        posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    else
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    start = kr_bench_now();
    r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    if (feed)
        close(in[0]);
    if (r != 0) {
        close(out[0]);
        if (feed)
            close(in[1]);
        return strerror(r);
    }
    n = read(out[0], text, sizeof text);
    output = kr_bench_now();
    if (feed)
        close(in[1]);
    while (read(out[0], text + 1, sizeof text - 1) > 0)
        ;
    close(out[0]);
    if (waitpid(pid, &status, 0) < 0)
        return "waitpid";
    end = kr_bench_now();
    if (n < 1 || text[0] != (feed ? '{' : '1') || status != 0)
        return feed ? "it did not answer and end well" : "it did not print 1 and end well";
    kr_bench_add(s, "output", output - start);
    kr_bench_add(s, "exit", end - start);
    return NULL;
}

static void unescape(char *word)
{
    for (; *word != '\0'; word++)
        if (*word == '_')
            *word = ' ';
}

int main(void)
{
    static struct kr_bench_samples s;
    static char line[4096];
    char *words[64];
    while (fgets(line, sizeof line, stdin)) {
        const char *why = NULL;
        size_t n = kr_bench_words(line, words, 63);
        size_t first = n > 0 && strcmp(words[0], "mcp") == 0;
        long count = n > first + 1 ? strtol(words[first], NULL, 10) : 0;
        words[n] = NULL;
        kr_bench_clear(&s);
        for (size_t i = 1; i < n; i++)
            unescape(words[i]);
        for (long i = 0; i < count && !why; i++)
            why = measure(words + first + 1, first ? initialize : NULL, &s);
        if (!why)
            kr_bench_answer(&s);
        else
            kr_bench_refuse(why);
    }
    return 0;
}

/* bench-spawn: how long a program takes from its start to its first output, and to its end.
 *
 * The driver starts it once and sends lines `COUNT program argument…` (words, no quoting; "_" in a word stands for a
 * space, so that Python code fits in one). `mcp COUNT …` is the same for a server of MCP: it finds `initialize` on its
 * stdin, which ends once it has answered; `run COUNT …` and `numpy COUNT …` add a first run, and wait for its result. A
 * small C parent and vfork (posix_spawn) keep the price of the starting side
 * out of the figures. */
#include "samples.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define INITIALIZE                                                                                                     \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","          \
    "\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n"
/* With a token it is not answered before its end, however long its interpreter takes to start. */
#define RUN(code)                                                                                                      \
    INITIALIZE "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n"                                      \
               "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"execute_python\","      \
               "\"_meta\":{\"progressToken\":1},\"arguments\":{\"code\":\"" code "\"}}}\n"

/* What a server of MCP is asked, and what is in the last answer to that. */
static const struct question {
    const char *word, *feed, *answer;
} questions[] = {
    {"mcp", INITIALIZE, "\"serverInfo\""},
    {"run", RUN("print(1)"), "\"text\":\"1"},
    {"numpy", RUN("import numpy; print(1)"), "\"text\":\"1"},
};

static const struct question *find_question(const char *word)
{
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
        if (strcmp(questions[i].word, word) == 0)
            return &questions[i];
    return NULL;
}

/* Reads until the answer is there, or any output if none is named. False: it ended first, or said too much. */
static bool await_answer(int fd, const char *answer)
{
    static char text[1 << 16];
    size_t len = 0;
    ssize_t n;
    while (len + 1 < sizeof text && (n = read(fd, text + len, sizeof text - 1 - len)) > 0) {
        len += (size_t)n;
        text[len] = '\0';
        if (!answer)
            return text[0] == '1';
        if (strstr(text, answer))
            return true;
    }
    return false;
}

/* NULL, or what went wrong. `q`: what it finds on its stdin; NULL: nothing. */
static const char *measure(char **argv, const struct question *q, struct kr_bench_samples *s)
{
    const char *feed = q ? q->feed : NULL;
    posix_spawn_file_actions_t actions;
    int out[2], in[2] = {-1, -1}, status;
    char text[256];
    pid_t pid;
    bool good;
    double start, output, end;
    int r;
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
    good = await_answer(out[0], q ? q->answer : NULL);
    output = kr_bench_now();
    if (feed)
        close(in[1]);
    while (read(out[0], text, sizeof text) > 0)
        ;
    close(out[0]);
    if (waitpid(pid, &status, 0) < 0)
        return "waitpid";
    end = kr_bench_now();
    if (!good || status != 0)
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
        const struct question *q = n > 0 ? find_question(words[0]) : NULL;
        size_t first = q ? 1 : 0;
        long count = n > first + 1 ? strtol(words[first], NULL, 10) : 0;
        words[n] = NULL;
        kr_bench_clear(&s);
        for (size_t i = 1; i < n; i++)
            unescape(words[i]);
        for (long i = 0; i < count && !why; i++)
            why = measure(words + first + 1, q, &s);
        if (!why)
            kr_bench_answer(&s);
        else
            kr_bench_refuse(why);
    }
    return 0;
}

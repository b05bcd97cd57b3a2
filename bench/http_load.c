/* bench-http beyond one client: users with keys, a user who runs bombs, sessions that are held in great number.
 *
 * Called by http.c for its commands. Invariant: the processes that run bombs end with `calm`, or with bench-http
 * itself. */
#include "http.h"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define USERS_MAX 4

static struct {
    char name[32], key[128];
} users[USERS_MAX];
static size_t user_count;

static const char *const bombs[] = {
    "import os\\nwhile True:\\n    try:\\n        os.fork()\\n    except OSError:\\n        pass",
    "x = []\\nwhile True:\\n    x.append(bytearray(1 << 20))",
    "while True:\\n    print('z' * 1000)",
};
#define BOMBS (sizeof bombs / sizeof *bombs)
static pid_t bombers[BOMBS];

/* Runs a command of krait on the data directory; its first line of output, without the line's end. */
static int tell_krait(const char *words, char *out, size_t size)
{
    char command[512];
    FILE *pipe;

    snprintf(command, sizeof command, "'%s' %s --data '%s/data' 2>/dev/null", kr_bench_server.krait, words,
             kr_bench_server.data);
    pipe = popen(command, "re");
    if (!pipe)
        return -1;
    out[0] = '\0';
    if (fgets(out, (int)size, pipe))
        out[strcspn(out, "\n")] = '\0';
    return pclose(pipe) == 0 ? 0 : -1;
}

const char *kr_bench_user(const char *name)
{
    char words[128], line[256];

    if (user_count == USERS_MAX || strlen(name) >= sizeof users[0].name)
        return "too many users";
    snprintf(words, sizeof words, "users add %s", name);
    if (tell_krait(words, line, sizeof line) < 0)
        return "the user cannot be made";
    snprintf(words, sizeof words, "keys create --user %s", name);
    if (tell_krait(words, line, sizeof line) < 0 || line[0] == '\0')
        return "the key cannot be made";
    snprintf(users[user_count].name, sizeof users[0].name, "%s", name);
    snprintf(users[user_count].key, sizeof users[0].key, "%.127s", line);
    user_count++;
    return NULL;
}

const char *kr_bench_as(const char *name)
{
    for (size_t i = 0; i < user_count; i++)
        if (strcmp(users[i].name, name) == 0) {
            snprintf(kr_bench_server.key, sizeof kr_bench_server.key, "%s", users[i].key);
            return NULL;
        }
    return "there is no such user";
}

/* ---- bombs ---- */

/* One after the other, each in a session of its own, until it is killed. */
static void throw_bombs(const char *code)
{
    struct timespec moment = {.tv_nsec = 50000000};
    char body[512], text[65536];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(body, sizeof body, "{\"code\":\"%s\",\"fresh\":true,\"stream\":false,\"timeout\":2}", code);
    for (;;) {
        int fd = kr_bench_dial();

        if (fd >= 0 && kr_bench_post(fd, "/api/v1/runs", body) == 0)
            (void)!read(fd, text, sizeof text); /* that it has ended is enough */
        if (fd >= 0)
            close(fd);
        nanosleep(&moment, NULL);
    }
}

const char *kr_bench_bombs(void)
{
    kr_bench_bombs_end();
    for (size_t i = 0; i < BOMBS; i++) {
        bombers[i] = fork();
        if (bombers[i] == 0)
            throw_bombs(bombs[i]);
        if (bombers[i] < 0)
            return "cannot fork";
    }
    return NULL;
}

void kr_bench_bombs_end(void)
{
    for (size_t i = 0; i < BOMBS; i++) {
        if (bombers[i] > 0) {
            kill(bombers[i], SIGKILL);
            waitpid(bombers[i], NULL, 0);
        }
        bombers[i] = 0;
    }
}

/* ---- sessions that are held ---- */

#define REFUSED_MAX 8 /* of a hold: a busy machine may be too slow for one, which is asked for again */

static int open_one(int fd)
{
    static unsigned serial;
    char body[96];

    snprintf(body, sizeof body, "{\"sandbox_id\":\"basic\",\"session_id\":\"held%u\"}", ++serial);
    return kr_bench_post(fd, "/api/v1/sessions", body);
}

/* What a server says that holds no more, in a line. */
static const char *refusal(const char *answer)
{
    static char why[300];
    const char *body = strstr(answer, "\r\n\r\n");

    snprintf(why, sizeof why, "a session was refused: %.12s %.200s", answer, body ? body + 4 : "");
    for (char *c = why; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            *c = '\'';
    return why;
}

const char *kr_bench_hold(long count, unsigned inflight, struct kr_bench_samples *s)
{
    struct pollfd p[KR_BENCH_INFLIGHT_MAX];
    long asked = 0, held = 0, refused = 0;
    double start = kr_bench_now();
    char text[16384];

    if (inflight < 1 || inflight > KR_BENCH_INFLIGHT_MAX || count < (long)inflight)
        return "so many at once cannot be";
    for (unsigned i = 0; i < inflight; i++, asked++) {
        p[i] = (struct pollfd){.fd = kr_bench_dial(), .events = POLLIN};
        if (p[i].fd < 0 || open_one(p[i].fd) < 0)
            return "cannot connect";
    }
    while (held < count && poll(p, inflight, 30000) > 0)
        for (unsigned i = 0; i < inflight; i++) {
            ssize_t n = p[i].revents ? read(p[i].fd, text, sizeof text - 1) : -1;

            if (p[i].revents == 0)
                continue;
            text[n > 0 ? n : 0] = '\0';
            if (n > 12 && strncmp(text, "HTTP/1.1 20", 11) == 0)
                held++;
            else if (++refused > REFUSED_MAX)
                return refusal(text);
            else
                asked--; /* asked for once more */
            if (asked < count && open_one(p[i].fd) == 0)
                asked++;
        }
    for (unsigned i = 0; i < inflight; i++)
        close(p[i].fd);
    kr_bench_add(s, "elapsed", kr_bench_now() - start);
    kr_bench_add(s, "held", (double)held);
    return held < count ? "no answer in time" : NULL;
}

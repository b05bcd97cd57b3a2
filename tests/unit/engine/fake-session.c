/* The fake session. See fake-session.h. */
#define _GNU_SOURCE 1
#include "fake-session.h"
#include "fd.h"
#include "frame.h"
#include "proto.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void nap(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

static int channel;

static void say(uint16_t type, uint32_t id, const char *json)
{
    if (kr_frame_write(channel, type, id, json, strlen(json)) < 0)
        _exit(9);
}

static void end_ok(uint32_t id)
{
    say(KR_S_END, id,
        "{\"cause\":\"ok\",\"exit_code\":0,\"result\":\"42\",\"error\":null,\"variables\":[\"x\"],\"hint\":null,"
        "\"copy\":false}");
}

static void end_error(uint32_t id, const char *type, int number)
{
    char json[256];

    snprintf(json, sizeof json,
             "{\"cause\":\"exception\",\"exit_code\":1,\"error\":{\"type\":\"%s\",\"message\":\"m\",\"traceback\":"
             "\"t\",\"line\":1,\"errno\":%d}}",
             type, number);
    say(KR_S_END, id, json);
}

static void out(int fd, const char *text)
{
    if (kr_fd_write_all(fd, text, strlen(text)) < 0)
        _exit(9);
}

/* As the kernel's Python side does before a display: waits until what was written is read. */
static void barrier(void)
{
    int left;

    while (ioctl(1, FIONREAD, &left) == 0 && left > 0)
        nap(1);
}

/* Reads one frame; the payload is terminated. */
static struct kr_frame hear(char *buf, size_t size)
{
    struct kr_frame f;

    if (kr_fd_read_all(channel, &f, sizeof f) < 0 || f.len >= size || kr_fd_read_all(channel, buf, f.len) < 0)
        _exit(0);
    buf[f.len] = '\0';
    return f;
}

static void wait_for_interrupt(void)
{
    sigset_t set;
    int sig;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigwait(&set, &sig);
}

static void do_flood(uint32_t id, size_t count)
{
    char chunk[1000];

    memset(chunk, 'x', sizeof chunk);
    for (; count > 0; count -= sizeof chunk)
        if (kr_fd_write_all(1, chunk, sizeof chunk) < 0)
            _exit(9);
    end_ok(id);
}

static void do_input(uint32_t id)
{
    char buf[4096];

    say(KR_S_INPUT, id, "{\"prompt\":\"name? \",\"password\":false}");
    hear(buf, sizeof buf);
    out(1, buf);
    end_ok(id);
}

/* A display whose one format is the unit again and again. */
static void say_many(uint32_t id, const char *unit, int count)
{
    size_t step = strlen(unit), len = 0;
    char *json = malloc(step * (size_t)count + 64);

    if (!json)
        _exit(9);
    len += (size_t)sprintf(json, "{\"data\":{\"x\":[");
    for (int i = 0; i < count; i++, len += step)
        memcpy(json + len, unit, step);
    sprintf(json + len, "1]}}");
    say(KR_S_DISPLAY, id, json);
    free(json);
}

/* A header that promises more than its type may have. */
static void say_head(uint32_t id, uint16_t type, uint32_t len)
{
    struct kr_frame f = {.len = len, .type = type, .id = id};

    (void)!write(channel, &f, sizeof f);
    nap(60000);
}

/* What floods the channel. False: it is another word. */
static bool perform_flood(uint32_t id, const char *code)
{
    int n = 0;

    if (sscanf(code, "arrays %d", &n) == 1) {
        say_many(id, "[],", n);
        end_ok(id);
    } else if (sscanf(code, "texts %d", &n) == 1) {
        say_many(id, "\"[{,\\\"[\",", n);
        end_ok(id);
    } else if (sscanf(code, "displays %d", &n) == 1) {
        while (n-- > 0)
            say(KR_S_DISPLAY, id, "{\"data\":{\"text/plain\":\"d\"}}");
        out(1, "last");
        end_ok(id);
    } else if (strcmp(code, "asks") == 0) {
        for (;;)
            say(KR_S_INPUT, id, "{\"prompt\":\"name? \"}");
    } else if (strcmp(code, "stale flood") == 0) {
        for (;;)
            say(KR_S_DISPLAY, id + 7, "{\"data\":{}}");
    } else if (strcmp(code, "big end") == 0) {
        say_head(id, KR_S_END, (4u << 20) + 1);
    } else if (strcmp(code, "big input") == 0) {
        say_head(id, KR_S_INPUT, (64u << 10) + 1);
    } else {
        return false;
    }
    return true;
}

/* One word, one behaviour. */
static void perform(uint32_t id, const char *code)
{
    static const unsigned char junk[64] = {0xff, 0xff, 0xff, 0xff, 1};
    struct kr_frame big = {.len = (16u << 20) + 1, .type = KR_S_END, .id = id};
    int n = 0;

    if (perform_flood(id, code))
        return;
    if (strncmp(code, "print ", 6) == 0) {
        out(1, code + 6);
        end_ok(id);
    } else if (strncmp(code, "err ", 4) == 0) {
        out(2, code + 4);
        end_ok(id);
    } else if (sscanf(code, "exit %d", &n) == 1) {
        _exit(n);
    } else if (sscanf(code, "signal %d", &n) == 1) {
        signal(n, SIG_DFL);
        raise(n);
    } else if (sscanf(code, "flood %d", &n) == 1) {
        do_flood(id, (size_t)n);
    } else if (sscanf(code, "errno %d", &n) == 1) {
        end_error(id, "OSError", n);
    } else if (strcmp(code, "garbage") == 0) {
        (void)!write(channel, junk, sizeof junk);
        nap(60000);
    } else if (strcmp(code, "badjson") == 0) {
        say(KR_S_END, id, "{\"cause\":\"ok\",");
    } else if (strcmp(code, "badshape") == 0) {
        say(KR_S_END, id, "{\"cause\":\"ok\",\"variables\":[1]}");
    } else if (strcmp(code, "badtype") == 0) {
        say(KR_S_REPLY, id, "{}");
    } else if (strcmp(code, "oversize") == 0) {
        (void)!write(channel, &big, sizeof big);
        nap(60000);
    } else if (strcmp(code, "stale") == 0) {
        end_error(id - 1, "Forged", 0);
        end_error(id + 1, "Forged", 0);
        say(KR_S_DISPLAY, id + 7, "{\"data\":{}}");
        end_ok(id);
        end_error(id, "Forged", 0);
    } else if (strcmp(code, "sleep") == 0) {
        wait_for_interrupt();
        end_error(id, "KeyboardInterrupt", 0);
    } else if (strcmp(code, "deaf") == 0) {
        nap(60000);
    } else if (strcmp(code, "split") == 0) {
        out(1, "\xe2\x82");
        nap(30);
        out(1, "\xac");
        end_ok(id);
    } else if (strcmp(code, "late") == 0) {
        end_ok(id);
        nap(30);
        out(1, "late");
    } else if (strcmp(code, "input") == 0) {
        do_input(id);
    } else if (strcmp(code, "display") == 0) {
        out(1, "before");
        barrier();
        say(KR_S_DISPLAY, id, "{\"data\":{\"text/plain\":\"d\"},\"metadata\":{}}");
        out(1, "after");
        end_ok(id);
    } else if (strcmp(code, "memory") == 0) {
        end_error(id, "MemoryError", 0);
    } else if (strcmp(code, "hangup") == 0) {
        close(channel);
        nap(60000);
    } else if (strcmp(code, "kill warden") == 0) {
        kill(getppid(), SIGKILL);
        nap(60000);
    } else if (strcmp(code, "rotate") == 0) {
        kill(getppid(), SIGUSR1);
        end_ok(id);
    } else if (strcmp(code, "refuse") == 0) {
        kill(getppid(), SIGUSR2);
        end_ok(id);
    } else {
        end_ok(id);
    }
}

void fake_session(int chan, bool lame)
{
    char buf[65536], code[65536], *start, *end;
    sigset_t set;

    channel = chan;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    say(KR_S_READY, 0,
        lame ? "{\"pid\":2,\"seccomp\":false,\"no_new_privs\":true}"
             : "{\"pid\":2,\"uid\":1000,\"seccomp\":true,\"no_new_privs\":true,\"python\":\"3.11.2\"}");
    for (;;) {
        struct kr_frame f = hear(buf, sizeof buf);

        if (f.type == KR_S_START) {
            say(KR_S_STARTED, 0, "{\"landlock_abi\":7}");
        } else if (f.type == KR_S_RUN) {
            start = strstr(buf, "\"code\":\"") + 8;
            end = strstr(start, "\",\"name\"");
            snprintf(code, sizeof code, "%.*s", (int)(end - start), start);
            perform(f.id, code);
            if (strstr(buf, "\"exit\":true"))
                _exit(0);
        }
    }
}

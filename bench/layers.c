/* bench-layers: the price of each layer on the same warm zygote, and the churn of its bare forks.
 *
 * Theory: families (builder, zygote, cells) are started by the warden's own code, with one difference: the embedded
 * boot.py is the bench's, whose zygote forks children that take only the layers asked for and run print(1) at once. The
 * driver sends lines:
 *     step PRELOAD LAYERS GAP_MS COUNT microseconds from the request to the first output, GAP_MS of rest before each
 *     churn PRELOAD MS INFLIGHT            bare fork, run, reap as fast as it goes: done (how many), elapsed
 * and gets one line of JSON for each (samples.h). Runs as root, like the product at its best level. */
#include "forkbox.h"
#include "layers.h"
#include "fd.h"
#include "log.h"
#include "samples.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INFLIGHT_MAX 16

static int read_output(const struct kr_bench_child *c, struct kr_err *err)
{
    char text[16] = "";
    if (kr_fd_wait(c->out, POLLIN, UINT64_MAX) != 1 || read(c->out, text, sizeof text - 1) <= 0 ||
        strcmp(text, "1\n") != 0)
        return kr_err_set(err, KR_ERR_SYSTEM, 0, "the child printed \"%.10s\", not 1", text);
    return 0;
}

static int await_exit(struct kr_family *f, struct kr_bench_child *c, struct kr_err *err)
{
    int32_t pid = 0;
    int status = 0;
    int r = c->pid == 0 ? kr_bench_hear(f, c, &pid, &status, err) : 0;
    if (r == 0)
        r = kr_bench_hear(f, c, &pid, &status, err);
    if (r < 0)
        return r;
    if (r != 1 || pid != c->pid || status != 0)
        return kr_err_set(err, KR_ERR_SYSTEM, 0, "the child ended with status %d", status);
    return 0;
}

static int step(struct kr_family *f, unsigned layers, unsigned gap_ms, struct kr_bench_samples *s, struct kr_err *err)
{
    struct kr_bench_child c;
    int r = kr_bench_prepare(f, layers, &c, err);
    double start;
    int e;
    if (r < 0)
        return r;
    usleep(gap_ms * 1000);
    start = kr_bench_now();
    r = kr_bench_fork(f, &c, err);
    if (r >= 0 && (r = read_output(&c, err)) >= 0)
        kr_bench_add(s, "output", kr_bench_now() - start);
    if (r >= 0 && (r = await_exit(f, &c, err)) >= 0)
        kr_bench_add(s, "exit", kr_bench_now() - start);
    e = kr_bench_finish(f, &c, err);
    return r < 0 ? r : e;
}

/* ---- churn ---- */

struct churn {
    struct kr_family *family;
    struct kr_bench_child slots[INFLIGHT_MAX];
    unsigned inflight;
    unsigned asked[INFLIGHT_MAX], first,
        waiting; /* slots whose FORKED is still to come, in order: the zygote answers in order */
    double deadline;
    size_t started, done;
};

static int next_run(struct churn *ch, unsigned slot, struct kr_err *err)
{
    struct kr_bench_child *c = &ch->slots[slot];
    int r = kr_bench_prepare(ch->family, 0, c, err);
    if (r < 0 || (r = kr_bench_fork(ch->family, c, err)) < 0)
        return r;
    ch->asked[(ch->first + ch->waiting++) % INFLIGHT_MAX] = slot;
    ch->started++;
    return 0;
}

static int slot_done(struct churn *ch, unsigned slot, struct kr_err *err)
{
    int r = read_output(&ch->slots[slot], err);
    if (r < 0 || (r = kr_bench_finish(ch->family, &ch->slots[slot], err)) < 0)
        return r;
    ch->slots[slot].pid = 0;
    ch->done++;
    return kr_bench_now() < ch->deadline ? next_run(ch, slot, err) : 0;
}

static int one_event(struct churn *ch, struct kr_err *err)
{
    struct kr_bench_child *asked = ch->waiting > 0 ? &ch->slots[ch->asked[ch->first]] : NULL;
    int32_t pid;
    int status;
    int r = kr_bench_hear(ch->family, asked, &pid, &status, err);
    if (r == 0) {
        ch->first = (ch->first + 1) % INFLIGHT_MAX;
        ch->waiting--;
        return 0;
    }
    for (unsigned i = 0; r > 0 && i < ch->inflight; i++)
        if (ch->slots[i].pid == pid)
            return slot_done(ch, i, err);
    return r < 0 ? r : kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "an unknown child has ended");
}

static int churn(struct kr_family *f, double ms, unsigned inflight, struct kr_bench_samples *s, struct kr_err *err)
{
    struct churn ch = {.family = f, .inflight = inflight};
    double start = kr_bench_now();
    int r = 0;
    ch.deadline = start + ms * 1000;
    for (unsigned i = 0; r >= 0 && i < inflight; i++)
        r = next_run(&ch, i, err);
    while (r >= 0 && ch.done < ch.started)
        r = one_event(&ch, err);
    kr_bench_add(s, "elapsed", kr_bench_now() - start);
    kr_bench_add(s, "done", (double)ch.done);
    return r;
}

/* ---- commands ---- */

static int command(struct kr_warden *w, char **words, size_t n, struct kr_bench_samples *s, struct kr_err *err)
{
    struct kr_family *f = n > 1 ? kr_bench_family(w, words[1]) : NULL;
    int r = 0;
    if (f && n == 5 && strcmp(words[0], "step") == 0) {
        unsigned layers = (unsigned)strtoul(words[2], NULL, 10) & KR_BENCH_ALL,
                 gap = (unsigned)strtoul(words[3], NULL, 10);
        for (unsigned long i = strtoul(words[4], NULL, 10); r >= 0 && i > 0; i--)
            r = step(f, layers, gap, s, err);
        return r;
    }
    if (f && n == 4 && strcmp(words[0], "churn") == 0) {
        unsigned long inflight = strtoul(words[3], NULL, 10);
        return churn(f, strtod(words[2], NULL), inflight < INFLIGHT_MAX ? (unsigned)inflight : INFLIGHT_MAX, s, err);
    }
    return kr_err_set(err, KR_ERR_INVALID, EINVAL, "there is no such command");
}

static void serve(struct kr_warden *w)
{
    static struct kr_bench_samples s;
    char line[256], *words[8];
    kr_bench_answer(&s); /* ready */
    while (fgets(line, sizeof line, stdin)) {
        struct kr_err err = {0};
        size_t n;
        kr_bench_clear(&s);
        n = kr_bench_words(line, words, 8);
        if (command(w, words, n, &s, &err) < 0)
            kr_bench_refuse(err.msg);
        else
            kr_bench_answer(&s);
    }
}

int main(int argc, char **argv)
{
    struct kr_warden_config config;
    struct kr_err err = {0};
    const char *python = argc > 1 ? argv[1] : "/usr/bin/python3";
    struct kr_warden w = {
        .config = &config, .epoll = -1, .engine = -1, .lifeline_r = -1, .lifeline_w = -1, .signals = -1};
    int r;
    kr_log_set_level(KR_LOG_WARN);
    kr_warden_config_default(&config);
    config.zygotes[0] = (struct kr_zygote_config){.preload = KR_PRELOAD_BASIC, .python = python};
    config.zygotes[1] = (struct kr_zygote_config){.preload = KR_PRELOAD_DATA, .python = python};
    config.zygote_count = 2;
    r = kr_bench_open(&w, &err);
    if (r < 0)
        kr_bench_refuse(err.msg);
    else
        serve(&w);
    kr_bench_close(&w);
    return r < 0;
}

/* The fake holder. See fake-holder.h. Answers come from a timer, as those of a real one come from the loop. */
#define _GNU_SOURCE 1
#include "engine_internal.h"
#include "fake-holder.h"
#include "fake-session.h"
#include "fd.h"
#include "loop.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 2u

struct process {
    struct kr_held held;
    TAILQ_ENTRY(process) link;
    pid_t pid; /* 0: not made yet, or reaped */
    bool opening, starting, with_stdin;
    struct kr_usage_ask *asks[4];
    uint64_t cpu_ns;
};

struct fake_holder {
    struct kr_holder holder;
    struct fake_holder_log *log;
    struct kr_timer *look;
    TAILQ_HEAD(, process) processes;
    bool greeted, gone;
    const char *refusal;
};

static struct fake_holder *fake(struct kr_holder *h)
{
    return (struct fake_holder *)h;
}

static struct kr_usage usage_of(struct process *p)
{
    const struct fake_holder_log *log = fake(p->held.holder)->log;

    p->cpu_ns += 1000000 + log->burnt_ns;
    return (struct kr_usage){.memory_peak = 1 << 20,
                             .pids_hits = fake(p->held.holder)->log->pids_hits,
                             .cpu_ns = p->cpu_ns,
                             .pids = log->uncounted   ? 0
                                     : log->processes ? log->processes
                                                      : 1,
                             .processes = log->processes,
                             .have = KR_LAYER_CGROUP_MEMORY | KR_LAYER_CGROUP_CPU | KR_LAYER_CGROUP_PIDS};
}

/* ---- the processes ---- */

static void make_process(struct process *p)
{
    int chan[2], out[2], err[2], in[2], fds[4], listener = -1;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, chan) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
        pipe2(err, O_CLOEXEC) < 0 || pipe2(in, O_CLOEXEC) < 0)
        abort();
    p->pid = fork();
    if (p->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        close(in[1]);
        close(chan[0]);
        fake_session(chan[1], false);
    }
    close(chan[1]);
    close(out[1]);
    close(err[1]);
    close(in[0]);
    fds[0] = chan[0];
    fds[1] = out[0];
    fds[2] = err[0];
    fds[3] = in[1];
    p->held.placed = true;
    p->held.holder->calls->on_opened(
        p->held.session,
        &(struct kr_held_opened){.layers = KR_LAYER_USERNS | KR_LAYER_CGROUP_PIDS | KR_LAYER_CGROUP_CPU,
                                 .fds = fds,
                                 .nfds = p->with_stdin ? 4 : 3,
                                 .listener = &listener},
        NULL);
    for (int i = 0; i < 4; i++)
        kr_fd_close(fds[i]);
}

static void answer_asks(struct process *p)
{
    struct fake_holder_log *log = fake(p->held.holder)->log;
    bool blind;

    for (size_t i = 0; i < sizeof p->asks / sizeof *p->asks; i++) {
        struct kr_usage_ask *ask = steal_ptr(&p->asks[i]);
        struct kr_usage usage;

        if (!ask)
            continue;
        usage = usage_of(p);
        blind = log->blind > 0;
        log->blind -= blind;
        ask->id = 0;
        ask->fn(ask->data, blind ? NULL : &usage);
        return; /* its session may be on its way out now: the others have the next turn */
    }
}

/* One thing at most for each process and turn. */
static void serve_process(struct process *p)
{
    const struct kr_holder_calls *calls = p->held.holder->calls;
    struct kr_held_end end = {.known = true};
    struct kr_err err;

    if (p->opening) {
        p->opening = false;
        if (fake(p->held.holder)->log->late > 0) {
            fake(p->held.holder)->log->late--;
            kr_err_set(&err, KR_ERR_BUSY, ETIMEDOUT, "not in time in the fake");
            calls->on_opened(p->held.session, NULL, &err);
        } else if (fake(p->held.holder)->log->refusals > 0) {
            fake(p->held.holder)->log->refusals--;
            kr_err_set(&err, KR_ERR_LIMIT, EAGAIN, "no room in the fake");
            calls->on_opened(p->held.session, NULL, &err);
        } else if (fake(p->held.holder)->refusal) {
            kr_err_set(&err, KR_ERR_UNAVAILABLE, 0, "%s", fake(p->held.holder)->refusal);
            calls->on_opened(p->held.session, NULL, &err);
        } else {
            make_process(p);
        }
    } else if (p->starting) {
        p->starting = false;
        calls->on_started(p->held.session, NULL);
    } else if (p->pid > 0 && waitpid(p->pid, &end.status, WNOHANG) == p->pid) {
        p->pid = 0;
        end.usage = usage_of(p);
        calls->on_ended(p->held.session, &end);
    } else {
        answer_asks(p);
    }
}

static void on_look(void *data)
{
    struct fake_holder *f = data;
    struct kr_holder_info info = {.level = KR_LEVEL_USER, .layers = KR_LAYER_USERNS, .landlock_abi = 7, .id_count = 1};
    struct kr_holder_zygote zygote = {.state = KR_ZYG_READY, .generation = 1};
    struct process *p, *next;

    kr_timer_arm(f->look, LOOK_MS);
    if (!f->greeted) {
        f->greeted = true;
        f->holder.calls->on_info(f->holder.data, &info);
        f->holder.calls->on_zygote(f->holder.data, &zygote);
    }
    for (p = TAILQ_FIRST(&f->processes); p && !f->gone; p = next) {
        next = TAILQ_NEXT(p, link); /* a release comes from a timer of the engine, never from a call */
        serve_process(p);
    }
}

/* ---- operations ---- */

static void fake_wake(struct kr_holder *h, uint32_t zygote)
{
    (void)zygote;
    fake(h)->log->wakes++;
}

static void fake_preload(struct kr_holder *h, uint32_t zygote, const char *folder)
{
    (void)zygote, (void)folder;
    fake(h)->log->preloads++;
}

void fake_holder_zygote(struct kr_holder *h, uint32_t zygote, enum kr_zygote_state state, uint32_t generation)
{
    h->calls->on_zygote(h->data,
                        &(struct kr_holder_zygote){.zygote = zygote, .state = state, .generation = generation});
}

static int fake_open(struct kr_holder *h, struct kr_session *s, const struct kr_session_spec *spec,
                     struct kr_held **ret_held, struct kr_err *err)
{
    struct process *p = calloc(1, sizeof *p);

    if (!p)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "process");
    fake(h)->log->opens++;
    fake(h)->log->opened = *spec;
    p->held = (struct kr_held){.holder = h, .session = s};
    p->opening = true;
    p->with_stdin = spec->stdin_pipe;
    TAILQ_INSERT_TAIL(&fake(h)->processes, p, link);
    *ret_held = &p->held;
    return 0;
}

static int fake_start(struct kr_held *held, const struct kr_session_spec *spec, struct kr_err *err)
{
    (void)err;
    fake(held->holder)->log->starts++;
    fake(held->holder)->log->started = *spec;
    ((struct process *)held)->starting = true;
    return 0;
}

static int fake_signal(struct kr_held *held, uint64_t since_ns, int signo)
{
    fake(held->holder)->log->signals++;
    fake(held->holder)->log->since_ns = since_ns;
    return kill(((struct process *)held)->pid, signo);
}

static int fake_kill(struct kr_held *held)
{
    struct process *p = (struct process *)held;

    fake(held->holder)->log->kills++;
    p->opening = p->starting = false;
    return p->pid > 0 && !fake(held->holder)->gone ? kill(p->pid, SIGKILL) : -ESRCH;
}

static int fake_usage(struct kr_held *held, struct kr_usage *ret)
{
    struct fake_holder_log *log = fake(held->holder)->log;
    const struct kr_run *r = held->session->run;

    log->usages++;
    log->early += r && r->json.len > 0;
    *ret = usage_of((struct process *)held);
    if (log->blind || log->mute)
        return -EAGAIN;
    return log->all_at_once || log->usages % 2 ? 0 : -EAGAIN; /* the engine must live with both */
}

static int fake_ask_usage(struct kr_held *held, struct kr_usage_ask *ask)
{
    struct process *p = (struct process *)held;
    size_t i = 0;

    if (fake(held->holder)->log->mute > 0) {
        fake(held->holder)->log->mute--;
        return -EPIPE;
    }
    while (p->asks[i])
        i++;
    p->asks[i] = ask;
    ask->id = (uint32_t)i + 1;
    fake(held->holder)->log->asks++;
    return 0;
}

static int fake_pace(struct kr_held *held, enum kr_pace pace)
{
    fake(held->holder)->log->paces++;
    fake(held->holder)->log->pace = pace;
    return 0;
}

static int fake_clear(struct kr_held *held, struct kr_usage_ask *ask, uint64_t since_ns, bool hard)
{
    struct fake_holder_log *log = fake(held->holder)->log;

    log->clears++;
    log->hards += hard;
    log->since_ns = since_ns;
    ask->left = log->left > 0 ? log->left-- : 0;
    return fake_ask_usage(held, ask);
}

static void fake_forget(struct kr_held *held, struct kr_usage_ask *ask)
{
    ((struct process *)held)->asks[ask->id - 1] = NULL;
    ask->id = 0;
}

static void fake_release(struct kr_held *held)
{
    struct process *p = (struct process *)held;

    fake(held->holder)->log->releases++;
    TAILQ_REMOVE(&fake(held->holder)->processes, p, link);
    if (p->pid > 0) {
        kill(p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
    }
    free(p);
}

static void fake_close(struct kr_holder *h)
{
    fake(h)->log->closes++;
    kr_timer_close(fake(h)->look);
    free(h);
}

struct kr_holder *fake_holder_new(struct uv_loop_s *loop, struct fake_holder_log *log)
{
    static const struct kr_holder_ops ops = {
        .wake = fake_wake,
        .preload = fake_preload,
        .open = fake_open,
        .start = fake_start,
        .signal = fake_signal,
        .kill = fake_kill,
        .usage = fake_usage,
        .ask_usage = fake_ask_usage,
        .pace = fake_pace,
        .clear = fake_clear,
        .forget = fake_forget,
        .release = fake_release,
        .close = fake_close,
    };
    struct fake_holder *f = calloc(1, sizeof *f);

    if (!f || kr_timer_new(loop, on_look, f, &f->look) < 0)
        abort();
    f->holder.ops = &ops;
    f->log = log;
    TAILQ_INIT(&f->processes);
    kr_timer_arm(f->look, 0);
    return &f->holder;
}

void fake_holder_refuse(struct kr_holder *h, const char *why)
{
    fake(h)->refusal = why;
}

void fake_holder_vanish(struct kr_holder *h)
{
    struct kr_err err;

    fake(h)->gone = true;
    kr_err_set(&err, KR_ERR_SYSTEM, EPIPE, "the fake holder is gone");
    h->calls->on_gone(h->data, &err);
}

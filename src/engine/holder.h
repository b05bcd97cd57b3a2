/* What holds sessions: it makes their processes, attaches their workspaces, signals, kills and counts. The warden's
 * cells are one holder (warden_holder.h); a container runtime is another.
 *
 * The engine calls nothing else. A holder is on the engine's loop: no operation blocks, and none calls back before it
 * has returned. The frames of a session's channel are between it and the engine (session_wire.c), whatever holds it. */
#pragma once
#include "err.h"
#include "proto.h"
#include "session.h"
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

struct kr_holder;
struct kr_holder_calls;

/* What a holder gives on this machine. */
struct kr_holder_info {
    uint32_t level;  /* enum kr_level */
    uint32_t layers; /* enum kr_layer bits */
    uint32_t landlock_abi;
    uint32_t cgroup_kind; /* 0 none, 1 v1, 2 v2, 3 hybrid */
    uint32_t id_count;    /* host ids for its sessions; 1: all share ours */
    char detail[256];     /* what is missing and why, newline separated */
};

/* A zygote changed its state. */
struct kr_holder_zygote {
    uint32_t zygote; /* index in the engine's table */
    enum kr_zygote_state state;
    uint32_t generation;
    int status;        /* wait status when ENDED */
    struct kr_err err; /* when FAILED */
};

/* A session as its holder knows it. The holder's own struct begins with it. */
struct kr_held {
    struct kr_holder *holder;
    struct kr_session *session;
    bool placed; /* it has a process: on_ended comes, at the latest after a kill */
};

/* The process is made. The callee takes the descriptors that it sets to -1; the others are closed. */
struct kr_held_opened {
    uint32_t layers; /* enum kr_layer bits that hold this session */
    int *fds;        /* channel, stdout, stderr[, stdin if the spec has a pipe there] */
    unsigned nfds;
    int *listener; /* where the code's connections to the proxy arrive; *listener -1: the network has none */
};

/* The process is gone. */
struct kr_held_end {
    int status; /* as waitpid gives it */
    bool known; /* false: the status could not be read, nor the counters */
    struct kr_usage usage;
};

/* A question for counters, in the memory of who asks. usage is NULL if it failed. */
typedef void kr_usage_fn(void *data, const struct kr_usage *usage);
struct kr_usage_ask {
    uint32_t id; /* 0: no answer is awaited */
    kr_usage_fn *fn;
    void *data;
    uint32_t left; /* of clear: processes that were there, besides the session */
};

/* A question for deleted files of the workspace that the session's processes have open, in the memory of who asks.
 * counted is NULL if it failed; then err says why: KR_ERR_UNAVAILABLE if it cannot be answered for this session. */
typedef void kr_count_fn(void *data, const struct kr_w_counted *counted, const struct kr_err *err);
struct kr_count_ask {
    uint32_t id; /* 0: no answer is awaited */
    kr_count_fn *fn;
    void *data;
};

/* A question about the folders of sandboxes, in the memory of who asks. shelved is NULL if it failed; then err says
 * why, and its code is EDQUOT, ENOSPC, EEXIST, ENOENT or another errno. */
typedef void kr_shelf_fn(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err);
struct kr_shelf_ask {
    uint32_t id; /* 0: no answer is awaited */
    kr_shelf_fn *fn;
    void *data;
};

/* Does the holder answer? In the memory of who asks; err NULL: it does. */
typedef void kr_ping_fn(void *data, const struct kr_err *err);
struct kr_ping_ask {
    uint32_t id; /* 0: no answer is awaited */
    kr_ping_fn *fn;
    void *data;
};

struct kr_holder_ops {
    /* Of a lazy configuration: sessions of this zygote will be asked for. */
    void (*wake)(struct kr_holder *h, uint32_t zygote);
    /* What the zygote of that index, one for templates, imports from now on; folder "": nothing, it ends. on_zygote
     * comes. NULL: the holder has none of them. */
    void (*preload)(struct kr_holder *h, uint32_t zygote, const char *folder);
    /* Makes a process without workspace and limits yet: on_opened comes once, unless it is killed or released before.
     * 0, or -errno with err. */
    int (*open)(struct kr_holder *h, struct kr_session *s, const struct kr_session_spec *spec,
                struct kr_held **ret_held, struct kr_err *err);
    /* Attaches the workspace and sets the limits: on_started comes once, unless it is killed or released before. The
     * spec may be another than that of open, of the same zygote and network kind. */
    int (*start)(struct kr_held *held, const struct kr_session_spec *spec, struct kr_err *err);
    /* To the session's process group, except those that began before since_ns (CLOCK_BOOTTIME; 0: none did). */
    int (*signal)(struct kr_held *held, uint64_t since_ns, int signo);
    /* 0: on_ended comes. -errno: it does not, for there is no process, or the holder is gone. */
    int (*kill)(struct kr_held *held);
    /* Reads the counters now. 0, or -errno: ask. */
    int (*usage)(struct kr_held *held, struct kr_usage *ret);
    /* Asks for the counters. The answer also says that the signals sent before are delivered. 0 and ask->fn is called
     * once, from the loop, or -errno. */
    int (*ask_usage)(struct kr_held *held, struct kr_usage_ask *ask);
    /* How much processor time it gets from now on. */
    int (*pace)(struct kr_held *held, enum kr_pace pace);
    /* Ends every process but the session's own and those that began before since_ns (CLOCK_BOOTTIME; 0: none did), and
     * answers as ask_usage does; none is left when ask->left is 0. hard: no process can be started meanwhile. */
    int (*clear)(struct kr_held *held, struct kr_usage_ask *ask, uint64_t since_ns, bool hard);
    /* ask->fn is not called any more. */
    void (*forget)(struct kr_held *held, struct kr_usage_ask *ask);
    /* 0 and ask->fn is called once, from the loop, or -errno. NULL: the holder cannot tell. */
    int (*count)(struct kr_held *held, struct kr_count_ask *ask);
    void (*forget_count)(struct kr_held *held, struct kr_count_ask *ask);
    /* Frees it; nothing is called for its session after that. A process that is left ends with the holder. */
    void (*release)(struct kr_held *held);
    /* Makes, limits, measures or drops the folder of a sandbox. 0 and ask->fn is called once, from the loop, or -errno.
     * NULL: the holder enforces nothing. */
    int (*shelf)(struct kr_holder *h, const struct kr_w_shelf *question, struct kr_shelf_ask *ask);
    /* ask->fn is not called any more; what was asked happens all the same. */
    void (*forget_shelf)(struct kr_holder *h, struct kr_shelf_ask *ask);
    /* 0 and ask->fn is called once, from the loop, or -errno. NULL: it always answers. */
    int (*ping)(struct kr_holder *h, struct kr_ping_ask *ask);
    void (*forget_ping)(struct kr_holder *h, struct kr_ping_ask *ask);
    /* Frees the holder. Every session was released before. */
    void (*close)(struct kr_holder *h);
};

struct kr_holder {
    const struct kr_holder_ops *ops;
    const struct kr_holder_calls *calls; /* set by the engine, with its data, before the loop runs */
    void *data;
    unsigned descriptors; /* that it has open, those of sessions not counted */
};

struct kr_holder_calls {
    /* Once, before anything else. */
    void (*on_info)(void *data, const struct kr_holder_info *info);
    void (*on_zygote)(void *data, const struct kr_holder_zygote *zygote);
    /* It is gone, and every session with it. Once; every question was answered with the same error before. */
    void (*on_gone)(void *data, const struct kr_err *err);
    /* opened NULL: it failed, and err says why. */
    void (*on_opened)(struct kr_session *s, const struct kr_held_opened *opened, const struct kr_err *err);
    /* err NULL: it is done. */
    void (*on_started)(struct kr_session *s, const struct kr_err *err);
    void (*on_ended)(struct kr_session *s, const struct kr_held_end *end);
    /* The socket of an egress process that has started, the first or one after another; it is the callee's. After
     * on_info. NULL: it is closed */
    void (*on_egress)(void *data, int fd);
};

static inline int kr_held_start(struct kr_held *held, const struct kr_session_spec *spec, struct kr_err *err)
{
    return held->holder->ops->start(held, spec, err);
}

static inline int kr_held_signal(struct kr_held *held, uint64_t since_ns, int signo)
{
    return held->holder->ops->signal(held, since_ns, signo);
}

static inline int kr_held_kill(struct kr_held *held)
{
    return held->holder->ops->kill(held);
}

static inline int kr_held_usage(struct kr_held *held, struct kr_usage *ret)
{
    return held->holder->ops->usage(held, ret);
}

static inline int kr_held_ask_usage(struct kr_held *held, struct kr_usage_ask *ask, kr_usage_fn *fn, void *data)
{
    ask->fn = fn;
    ask->data = data;
    return held->holder->ops->ask_usage(held, ask);
}

static inline int kr_held_pace(struct kr_held *held, enum kr_pace pace)
{
    return held->holder->ops->pace(held, pace);
}

static inline int kr_held_clear(struct kr_held *held, struct kr_usage_ask *ask, uint64_t since_ns, bool hard,
                                kr_usage_fn *fn, void *data)
{
    ask->fn = fn;
    ask->data = data;
    return held->holder->ops->clear(held, ask, since_ns, hard);
}

static inline void kr_held_forget(struct kr_held *held, struct kr_usage_ask *ask)
{
    if (ask->id)
        held->holder->ops->forget(held, ask);
}

static inline int kr_held_count(struct kr_held *held, struct kr_count_ask *ask, kr_count_fn *fn, void *data)
{
    *ask = (struct kr_count_ask){.fn = fn, .data = data};
    return held->holder->ops->count ? held->holder->ops->count(held, ask) : -EOPNOTSUPP;
}

static inline void kr_held_forget_count(struct kr_held *held, struct kr_count_ask *ask)
{
    if (ask->id)
        held->holder->ops->forget_count(held, ask);
}

static inline int kr_holder_shelf(struct kr_holder *h, const struct kr_w_shelf *question, struct kr_shelf_ask *ask,
                                  kr_shelf_fn *fn, void *data)
{
    *ask = (struct kr_shelf_ask){.fn = fn, .data = data};
    return h->ops->shelf ? h->ops->shelf(h, question, ask) : -EOPNOTSUPP;
}

static inline void kr_holder_forget_shelf(struct kr_holder *h, struct kr_shelf_ask *ask)
{
    if (ask->id)
        h->ops->forget_shelf(h, ask);
}

static inline int kr_holder_ping(struct kr_holder *h, struct kr_ping_ask *ask, kr_ping_fn *fn, void *data)
{
    *ask = (struct kr_ping_ask){.fn = fn, .data = data};
    return h->ops->ping ? h->ops->ping(h, ask) : -EOPNOTSUPP;
}

static inline void kr_holder_forget_ping(struct kr_holder *h, struct kr_ping_ask *ask)
{
    if (ask->id)
        h->ops->forget_ping(h, ask);
}

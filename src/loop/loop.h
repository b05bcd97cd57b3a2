/* What the engine needs of libuv: timers, watched descriptors, bounded write queues. All of it belongs to the one loop
 * thread.
 *
 * Objects are on the heap. `close` unregisters at once: no callback of the object comes after it, also when it is
 * called from the object's own callback; the memory goes when the loop says so, one turn later. Pointers are dead to
 * the caller when `close` returns. Every close takes NULL. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iovec;
struct uv_loop_s;

/* ---- timers ---- */

struct kr_timer;
typedef void kr_timer_fn(void *data);

/* Not armed yet. 0 or -errno. */
int kr_timer_new(struct uv_loop_s *loop, kr_timer_fn *on_timer, void *data, struct kr_timer **ret_timer);
/* Fires once, never earlier than ms from now. An armed one starts anew. May be called from its own callback. */
void kr_timer_arm(struct kr_timer *t, uint64_t ms);
/* Does not fire any more until armed again. */
void kr_timer_disarm(struct kr_timer *t);
bool kr_timer_armed(const struct kr_timer *t);
void kr_timer_close(struct kr_timer *t);

/* ---- the end of this turn ---- */

struct kr_soon;

/* 0 or -errno. */
int kr_soon_new(struct uv_loop_s *loop, kr_timer_fn *on_soon, void *data, struct kr_soon **ret_soon);
/* on_soon comes once, from the loop, before it sleeps. May be called from its own callback: then it comes once more. */
void kr_soon_ask(struct kr_soon *s);
void kr_soon_close(struct kr_soon *s);

/* ---- watched descriptors ---- */

struct kr_watch;
typedef void kr_watch_fn(void *data);

/* What a watch calls. An error on the descriptor is reported as readable and writable, whichever is wanted: the read or
 * the write then gives the reason. Level-triggered: what is not read is reported again. */
struct kr_watch_calls {
    kr_watch_fn *on_readable, *on_writable;
};

/* Takes the descriptor (on success) and makes its open file nonblocking, also for others that share it. Nothing is
 * wanted yet. 0 or -errno: -EPERM for what has no readiness (regular files, /dev/null), -EEXIST for a descriptor that
 * is watched. */
int kr_watch_new(struct uv_loop_s *loop, int fd, const struct kr_watch_calls *calls, void *data,
                 struct kr_watch **ret_watch);
/* Which of the two are called from now on. */
void kr_watch_want_read(struct kr_watch *w, bool want);
void kr_watch_want_write(struct kr_watch *w, bool want);
int kr_watch_fd(const struct kr_watch *w);
/* Unregisters and closes the descriptor. */
void kr_watch_close(struct kr_watch *w);
/* The same, but gives the descriptor back instead of closing it. w is not NULL here. */
int kr_watch_release(struct kr_watch *w);

/* ---- write queues ---- */

struct kr_outq;

struct kr_outq_calls {
    void (*on_drained)(void *data);           /* all that had to wait is written; not called for what never waited */
    void (*on_failed)(void *data, int error); /* -errno; once; nothing more will be written */
};

/* A queue on the write side of a watch, whose on_writable it replaces; it lives and goes with the watch. Holds at most
 * max bytes. Writes with write(2): the program ignores SIGPIPE. 0 or -errno. */
int kr_outq_new(struct kr_watch *w, size_t max, const struct kr_outq_calls *calls, void *data,
                struct kr_outq **ret_outq);
/* Writes now what the descriptor takes if nothing waits, and keeps a copy of the rest. All or nothing: -ENOBUFS (it
 * would not fit if the descriptor took nothing; nothing was written, room is there again at the latest at on_drained),
 * -ENOMEM, or the -errno with which writing failed, then and ever after. Never calls back. */
int kr_outq_add(struct kr_outq *q, const void *data, size_t len);
int kr_outq_addv(struct kr_outq *q, const struct iovec *parts, unsigned count);
/* Bytes that wait. */
size_t kr_outq_pending(const struct kr_outq *q);

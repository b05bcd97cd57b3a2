/* A stream of bytes to a peer: a TCP connection, or TLS over one (FETCH's tls_stream). The owner asks for what it wants
 * and is called when it may go on; it then reads or writes until -EAGAIN. Loop thread only.
 *
 * `close` unregisters at once: no callback comes after it, also when it is called from one; the memory goes with the
 * loop's next turn. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct uv_loop_s;
struct kr_eg_stream;

struct kr_eg_stream_calls {
    void (*on_readable)(void *data);
    void (*on_writable)(void *data);
};

struct kr_eg_stream_ops {
    ssize_t (*read)(struct kr_eg_stream *s, void *buf, size_t len);
    ssize_t (*write)(struct kr_eg_stream *s, const void *buf, size_t len);
    void (*want)(struct kr_eg_stream *s, bool read, bool write);
    void (*shut)(struct kr_eg_stream *s);
    void (*close)(struct kr_eg_stream *s);
};

/* The first member of an implementation. */
struct kr_eg_stream {
    const struct kr_eg_stream_ops *ops;
    struct kr_eg_stream_calls calls;
    void *data;
};

/* Takes the descriptor of a connected socket, on success. 0 or -errno. */
int kr_eg_stream_new(struct uv_loop_s *loop, int fd, struct kr_eg_stream **ret_stream);
/* Who is called from now on. */
void kr_eg_stream_set_calls(struct kr_eg_stream *s, const struct kr_eg_stream_calls *calls, void *data);
/* > 0 bytes; 0: the peer sends no more; -EAGAIN; -errno. */
ssize_t kr_eg_stream_read(struct kr_eg_stream *s, void *buf, size_t len);
/* >= 0 bytes taken; -EAGAIN; -errno. */
ssize_t kr_eg_stream_write(struct kr_eg_stream *s, const void *buf, size_t len);
/* Which of the two are called for. An error of the stream is reported as whichever is wanted. */
void kr_eg_stream_want(struct kr_eg_stream *s, bool read, bool write);
/* Sends no more; the peer sees the end. */
void kr_eg_stream_shut(struct kr_eg_stream *s);
/* Takes NULL. */
void kr_eg_stream_close(struct kr_eg_stream *s);
/* Of a plain stream alone: the descriptor, which stays the stream's. */
int kr_eg_stream_fd(const struct kr_eg_stream *s);

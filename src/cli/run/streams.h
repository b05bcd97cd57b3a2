/* The program's own stdin, stdout and stderr on the loop: without blocking it, without changing what others share. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_sink;
struct kr_source;
struct uv_loop_s;

/* Opens anew what descriptors 0, 1 and 2 are, for sinks and sources that a forked process with fewer rights makes; and
 * closes them again in the process that makes none. */
void kr_streams_open(void);
void kr_streams_forget(void);

struct kr_sink_calls {
    void (*on_drained)(void *data);           /* what had to wait is written */
    void (*on_failed)(void *data, int error); /* -errno, from the loop; once */
};

/* Output to descriptor fd (1 or 2), at most max bytes waiting. 0 or -errno. */
int kr_sink_new(struct uv_loop_s *loop, int fd, size_t max, const struct kr_sink_calls *calls, void *data,
                struct kr_sink **ret_sink);
void kr_sink_close(struct kr_sink *s);
/* 0; after a failure everything is dropped silently; -ENOBUFS when more than max would wait. */
int kr_sink_write(struct kr_sink *s, const void *data, size_t len);
size_t kr_sink_pending(const struct kr_sink *s);

struct kr_source_calls {
    void (*on_data)(void *data, const char *bytes, size_t len);
    void (*on_end)(void *data); /* end of file, or an error; once */
};

/* Input from descriptor fd (0). Paused at first. 0 or -errno. */
int kr_source_new(struct uv_loop_s *loop, int fd, const struct kr_source_calls *calls, void *data,
                  struct kr_source **ret_source);
/* While it flows, on_data is called from the loop; each call may stop it. */
void kr_source_flow(struct kr_source *s, bool flow);
void kr_source_close(struct kr_source *s);

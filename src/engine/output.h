/* A run's two output streams on their way out: bytes or whole UTF-8 characters, up to a cap, with one mark where the
 * cut is. */
#pragma once
#include "utf8.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kr_stream { KR_STREAM_STDOUT, KR_STREAM_STDERR, KR_STREAM_MAX_ };
extern const char *const kr_stream_names[KR_STREAM_MAX_];

/* Takes what is handed on. Text mode: valid UTF-8 that ends with a whole character. */
typedef void kr_output_sink(void *arg, enum kr_stream stream, const char *data, size_t len);

struct kr_output {
    kr_output_sink *sink;
    void *arg;
    bool raw;       /* bytes as they come, for a terminal or a pipe */
    uint64_t cap;   /* bytes of both streams together that are handed on; 0: no end */
    uint64_t total; /* bytes that came */
    bool cut;
    struct kr_utf8 utf8[KR_STREAM_MAX_];
    bool line_open[KR_STREAM_MAX_]; /* the last byte handed on was no newline */
};

void kr_output_init(struct kr_output *o, bool raw, uint64_t cap, kr_output_sink *sink, void *arg);
/* Takes a chunk; calls the sink zero or more times. Past the cap it only counts. */
void kr_output_feed(struct kr_output *o, enum kr_stream stream, const void *data, size_t len);
/* The run is over: an unfinished character becomes U+FFFD. */
void kr_output_finish(struct kr_output *o);

/* Output streams with a cap.
 *
 * Called by run.c for each chunk that came through a pipe. Invariant: the bytes handed on before the mark are a
 * prefix of what came, cut at a character; after the mark nothing follows on either stream; everything is counted in
 * `total`. */
#include "output.h"
#include "limit.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define CHUNK 16384u

const char *const kr_stream_names[] = {[KR_STREAM_STDOUT] = "stdout", [KR_STREAM_STDERR] = "stderr"};
static_assert(sizeof kr_stream_names / sizeof kr_stream_names[0] == KR_STREAM_MAX_, "every stream has its name");

void kr_output_init(struct kr_output *o, bool raw, uint64_t cap, kr_output_sink *sink, void *arg)
{
    *o = (struct kr_output){.raw = raw, .cap = cap, .sink = sink, .arg = arg};
}

static void hand_on(struct kr_output *o, enum kr_stream stream, const char *data, size_t len)
{
    if (len == 0)
        return;
    o->line_open[stream] = data[len - 1] != '\n';
    o->sink(o->arg, stream, data, len);
}

static void pass(struct kr_output *o, enum kr_stream stream, const char *data, size_t len)
{
    char text[KR_UTF8_ROOM(CHUNK)];

    if (o->raw) {
        hand_on(o, stream, data, len);
        return;
    }
    while (len > 0) {
        size_t part = len < CHUNK ? len : CHUNK;

        hand_on(o, stream, text, kr_utf8_feed(&o->utf8[stream], data, part, text));
        data += part;
        len -= part;
    }
}

/* Writes the mark. A character that was begun is dropped, for its rest will never come. */
static void mark(struct kr_output *o, enum kr_stream stream)
{
    static const struct kr_limit_row bytes = {.unit = KR_UNIT_BYTES};
    char shown[32], text[96];
    int len;

    len = snprintf(text, sizeof text, "%s[output cut: the first %s are kept, the rest is dropped]\n",
                   o->line_open[stream] ? "\n" : "", kr_limit_show(&bytes, o->cap, shown, sizeof shown));
    o->cut = true;
    for (int i = 0; i < KR_STREAM_MAX_; i++)
        o->utf8[i].held_len = 0;
    hand_on(o, stream, text, (size_t)len);
}

void kr_output_feed(struct kr_output *o, enum kr_stream stream, const void *data, size_t len)
{
    uint64_t room = o->total < o->cap ? o->cap - o->total : 0;

    o->total += len;
    if (o->cut)
        return;
    if (o->cap == 0 || len <= room) {
        pass(o, stream, data, len);
        return;
    }
    if (room > 0)
        pass(o, stream, data, o->raw ? kr_utf8_complete(data, (size_t)room) : (size_t)room);
    mark(o, stream);
}

void kr_output_finish(struct kr_output *o)
{
    char text[4];

    if (o->raw || o->cut)
        return;
    for (int i = 0; i < KR_STREAM_MAX_; i++)
        hand_on(o, i, text, kr_utf8_finish(&o->utf8[i], text));
}

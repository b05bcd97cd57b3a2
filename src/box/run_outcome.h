/* What a run left, whole or so far: the events of its log collected within bounds. Every voice that answers with one
 * message renders from it (api/runs, mcp/exec); what it needs of it as an object it parses itself. Loop thread only. */
#pragma once
#include "buf.h"
#include "runlog.h"
#include <jansson.h>

/* What is kept. Memory stays within these, whatever the run writes. */
struct kr_outcome_bounds {
    size_t text;     /* bytes of each text */
    size_t displays; /* bytes of all displays together; of other objects KR_EVENT_DATA_MAX each */
    bool keep_tail;  /* a longer text keeps its head and its tail, half the bound each; else what came first */
    bool apart;      /* `out` and `err` are kept */
    bool together;   /* `both` is kept */
};

/* A text on its way in. */
struct kr_outcome_tail {
    struct kr_buf buf;
    uint64_t total; /* bytes of the text that came */
};

struct kr_outcome {
    struct kr_buf out, err;           /* texts of the two streams */
    struct kr_buf both;               /* both in the order in which they came */
    struct kr_buf displays;           /* JSON objects, a comma between */
    struct kr_buf result, error, end; /* each event's JSON object; empty: none */
    uint64_t out_bytes, err_bytes;    /* that came, also what is not kept */
    unsigned displays_left_out;
    enum kr_cause cause; /* of the end */
    bool ended;
    bool cut;          /* something is missing in the texts or displays */
    uint64_t next_seq; /* the number after the last event that was taken */

    struct kr_outcome_bounds bounds;
    struct kr_outcome_tail out_tail, err_tail, both_tail; /* empty once it is closed */
};

void kr_outcome_init(struct kr_outcome *o, const struct kr_outcome_bounds *bounds);
/* Takes one event, in the order of the log. */
void kr_outcome_take(struct kr_outcome *o, const struct kr_event *e);
/* Text that is in no event, as the prompt of a question, goes where the stream's would. */
void kr_outcome_text(struct kr_outcome *o, enum kr_stream stream, const char *text, size_t len);
/* Puts heads and tails together: the texts are whole from here on. Nothing is taken after it. */
void kr_outcome_close(struct kr_outcome *o);
void kr_outcome_done(struct kr_outcome *o);

/* The object of `result`, `error` or `end`; NULL: there is none. A reference for the caller. */
json_t *kr_outcome_object(const struct kr_buf *json);
/* The displays as an array of {"data":{mime: …},"metadata":{}}; a reference for the caller, NULL without memory. */
json_t *kr_outcome_displays(const struct kr_outcome *o);

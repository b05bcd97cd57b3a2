/* A run on behalf of a call: started, followed, its output sent as progress, its questions asked, stopped when the
 * client cancels, and at its end rendered by the function that the tool named. */
#pragma once
#include "box.h"
#include "buf.h"
#include "tool.h"

/* What a run left, whole or so far. Texts are capped at KR_MCP_OUTPUT_MAX each, head and tail kept: 1 MiB, which is a
 * document's own limit of output, and the mark behind it. */
#define KR_MCP_OUTPUT_MAX ((1u << 20) + 4096u)
struct kr_mcp_outcome {
    char run_id[KR_STORE_ID_ROOM];
    char session[KR_BOX_SESSION_NAME_MAX + 1];
    char sandbox[KR_STORE_ID_ROOM];
    struct kr_buf out, err, both;  /* texts; both: in the order in which they came */
    uint64_t out_bytes, err_bytes; /* in all, also what was cut */
    json_t *displays;              /* array of {"data":{mime: …},"metadata":{}} */
    json_t *result;                /* the result event's object, or NULL */
    json_t *error;                 /* the error object, or NULL */
    json_t *end; /* the end's object (cause, times, limits_hit, files, hint, variables …); NULL: still running */
    enum kr_cause cause;
    bool running;                    /* not over: the caller answers with what there is */
    bool asks;                       /* running, and waits for a line */
    char behind[KR_BOX_BEHIND_ROOM]; /* running: it waits for its turn, and behind what; "": it does not */
    bool page;           /* of read_run from a number on: nothing of stdout and stderr is left out of what is shown */
    bool more;           /* a page of read_run that is full; `running` says nothing then */
    bool cut;            /* something is missing in the texts or displays */
    bool restarted;      /* its session is a new one under an old name: variables are gone */
    bool frozen;         /* its session had used up background_cpu */
    bool input_refused;  /* input() asked and the client could not be asked */
    bool input_secret;   /* … because it asked for a password */
    bool input_declined; /* the client gave no line */
    uint64_t next_seq;   /* read_run(id, from=…) goes on here */
    uint64_t told_seq;   /* of the event that has the result or the traceback; 0: there is none */
    unsigned displays_left_out;
    json_t *small_files; /* path: text, of changed files that are short texts; NULL: none were looked at */
    /* Where in stdout events begin: to say from which number on what is not shown can be read. */
#define KR_MCP_MARKS 64u
#define KR_MCP_MARK_STEP 512u /* bytes between two of them, at least */
    struct {
        uint64_t at, seq;
    } marks[KR_MCP_MARKS];
    size_t mark_count;
};

struct kr_mcp_run_spec {
    struct kr_run_spec spec; /* texts are borrowed until kr_mcp_run() returns */
    /* Over, or (o->running) not over after answer_after_ms: renders and answers the call. */
    void (*render)(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data);
    void (*free_data)(void *data); /* may be NULL */
    void *data;
    uint64_t answer_after_ms; /* 0: not before its end. Not for calls that are tasks or report progress */
    bool ask_client;          /* input() may ask the client; else end of input */
    bool small_files;         /* changed files that are short texts come with the outcome */
};
/* Starts it. Whatever goes wrong is answered. A call that is a retry of a question (kr_mcp_state_open()) goes on with
 * the very run that asked. */
void kr_mcp_run(struct kr_mcp_call *c, const struct kr_mcp_run_spec *spec);
/* Follows a run that is there already, from the number on, for at most wait_ms. A question of its is left alone. */
void kr_mcp_run_read(struct kr_mcp_call *c, const char *run_id, uint64_t from, uint64_t wait_ms,
                     void (*render)(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data), void *data);
/* The same, and for a caller who may run, a question that no client has is asked; a call that is the retry of that
 * brings the answer: read_run. */
void kr_mcp_run_go_on(struct kr_mcp_call *c, const char *run_id, uint64_t from, uint64_t wait_ms,
                      void (*render)(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data), void *data);
#define KR_MCP_SHOWN_MAX 24000u /* characters of text that a model is shown of one run */
/* "What a model reads" (DESIGN.md): the blocks of a krait-dialect result. */
void kr_mcp_render(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data);

/* ---- what lasts between calls ---- */

/* Runs without a call that waits for them: those that outlived the answer to their call, those whose question is with
 * the client. kr_mcp.runs; made when first needed, freed by mcp.c after every call is gone and before the box. The runs
 * themselves are then the box's to end. */
struct kr_mcp_runs;
void kr_mcp_runs_free(struct kr_mcp_runs *runs); /* takes NULL */

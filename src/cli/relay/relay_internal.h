/* What the relay's files share. Not for others. */
#pragma once
#include "buf.h"
#include "jsonrpc.h"
#include "relay_http.h"
#include "rpc_id.h"
#include <jansson.h>
#include <sys/queue.h>
#include <uv.h>

struct kr_relay;
struct kr_sink;
struct kr_source;
struct kr_timer;

#define KR_RELAY_REQUESTS_MAX 64u      /* at once; more are refused by an error */
#define KR_RELAY_NOTES_MAX 64u         /* notifications and answers under way; then stdin waits */
#define KR_RELAY_ANSWER_MAX (9u << 20) /* of one message from the server: krait's are 8 MiB at most */
#define KR_RELAY_OUT_MAX (64u << 20)   /* that wait for a reader of stdout: past it we end */
#define KR_RELAY_OUT_HIGH (1u << 20)   /* … from here on the server is not read */
#define KR_RELAY_RESUMES_MAX 1000u     /* of one broken stream */

enum kr_relay_what {
    KR_RELAY_REQUEST,
    KR_RELAY_NOTE,   /* a notification, or an answer to the server's question */
    KR_RELAY_STREAM, /* the GET whose events belong to no request */
    KR_RELAY_BYE,    /* DELETE */
};

/* A message on its way to the server, and what comes back for it. */
struct kr_relay_ex {
    TAILQ_ENTRY(kr_relay_ex) link;
    struct kr_relay *relay;
    enum kr_relay_what what;
    struct kr_hx *hx;
    json_t *id;                  /* of a request */
    bool modern;                 /* 2026-07-28: leaving is cancelling */
    bool opens;                  /* `initialize` */
    bool begins;                 /* notifications/initialized */
    bool answered;               /* the request is */
    bool is_events;              /* the answer is a stream of events */
    int status;                  /* of the answer; 0: none yet */
    struct kr_buf in;            /* of a JSON answer, or the line of an event */
    struct kr_buf data;          /* of the event so far */
    bool skipping;               /* an event that is too long */
    char event[KR_HX_VALUE_MAX]; /* id of the last one; "": none */
    uint64_t retry_ms;
    unsigned resumes;
    struct kr_timer *again;
};

struct kr_relay {
    uv_loop_t loop;
    struct kr_hx_target target;
    const char *key; /* NULL: none */
    struct kr_source *source;
    struct kr_sink *sink;
    struct kr_timer *last; /* for the DELETE at the end */
    uv_signal_t signals[3];
    struct kr_buf in; /* of stdin */
    bool skipping, ended, held;
    struct kr_mcp_id_scan scan;    /* of the line that is skipped */
    char session[KR_HX_VALUE_MAX]; /* Mcp-Session-Id; "": none */
    char version[32];              /* agreed upon by `initialize` */
    unsigned waits; /* for an exchange that must be over before the next message: `initialize`, its notification */
    unsigned requests, notes;
    bool has_stream;
    int status;
    TAILQ_HEAD(, kr_relay_ex) exchanges;
};

/* ---- relay.c ---- */
/* Writes one message; line ends in it become blanks, which JSON allows wherever they can be. */
void kr_relay_write(struct kr_relay *r, const char *json, size_t len);
/* Answers a request instead of the server. */
void kr_relay_fail(struct kr_relay *r, const json_t *id, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* There may be room for more of stdin. */
void kr_relay_go_on(struct kr_relay *r);
void kr_relay_end(struct kr_relay *r, int status);

/* ---- relay_exchange.c ---- */
/* A message from stdin. */
void kr_relay_send(struct kr_relay *r, const struct kr_mcp_message *m, const char *text, size_t len);
/* Says goodbye to the session, if there is one. True: kr_relay_end() follows. */
bool kr_relay_bye(struct kr_relay *r);
void kr_relay_ex_free(struct kr_relay_ex *e);
/* Reads on, or does not, from all. */
void kr_relay_hold(struct kr_relay *r, bool hold);

/* WebSocket frames (RFC 6455) for both ends, and the words of its handshake. Pure: no I/O, no memory of its own. Called
 * by websocket.c, by `krait shell` and by the fuzzer.
 *
 * Strict: no reserved bits (no extension is ever agreed on), known opcodes, lengths in their shortest form, a mask
 * exactly where the peer is a client, control frames whole and at most 125 bytes, messages not mixed, texts and reasons
 * UTF-8, close codes that may be sent. What is wrong is wrong at once and for good: no resynchronising. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kr_ws_op { KR_WS_CONT, KR_WS_TEXT, KR_WS_BINARY, KR_WS_CLOSE = 8, KR_WS_PING, KR_WS_PONG };

#define KR_WS_TEXT_MAX 4096u   /* bytes of a text message, which is handed on whole */
#define KR_WS_PIECE_MAX 4096u  /* bytes of a binary message that are handed on at once */
#define KR_WS_CONTROL_MAX 125u /* bytes of a ping, pong or close */

/* Codes of close frames that krait sends. */
#define KR_WS_NORMAL 1000u
#define KR_WS_GOING_AWAY 1001u
#define KR_WS_PROTOCOL 1002u
#define KR_WS_BAD_TEXT 1007u
#define KR_WS_POLICY 1008u
#define KR_WS_TOO_BIG 1009u
#define KR_WS_NO_CODE 1005u /* never sent: the peer's close frame had none */

enum kr_ws_event {
    KR_WS_MORE,       /* all input is used up */
    KR_WS_GOT_BINARY, /* a piece of a binary message, perhaps empty; `whole`: its last */
    KR_WS_GOT_TEXT,   /* a text message, whole */
    KR_WS_GOT_PING,
    KR_WS_GOT_PONG,
    KR_WS_GOT_CLOSE, /* `code`; data is the reason. Nothing is taken after it */
    KR_WS_BAD,       /* `code` to close with; data says why, for the log. Nothing is taken after it */
};

/* Data is valid until the next call. */
struct kr_ws_piece {
    const char *data;
    size_t len;
    bool whole;
    unsigned code;
};

struct kr_ws_parser {
    uint64_t message_max; /* bytes of a message, over all its frames */
    bool masked;          /* the peer is a client */
    bool over;
    uint8_t state, op, message; /* message: opcode of the one that is unfinished, 0: none */
    bool fin;
    unsigned char head[14];
    uint8_t head_len, head_need;
    uint64_t left, frame_at, message_len;
    unsigned char mask[4];
    uint32_t held; /* bytes in text or control */
    char text[KR_WS_TEXT_MAX], control[KR_WS_CONTROL_MAX], piece[KR_WS_PIECE_MAX];
};

void kr_ws_parser_init(struct kr_ws_parser *p, bool masked, uint64_t message_max);
/* Takes from *in / *len, advancing both. */
enum kr_ws_event kr_ws_next(struct kr_ws_parser *p, const char **in, size_t *len, struct kr_ws_piece *ret);

/* The head of a whole, unfragmented message of len bytes; mask NULL: none. Returns its length. */
#define KR_WS_HEAD_MAX 14u
size_t kr_ws_head(unsigned char out[KR_WS_HEAD_MAX], enum kr_ws_op op, uint64_t len, const unsigned char mask[4]);
/* Masks or unmasks in place; `at`: how many bytes of the frame came before. */
void kr_ws_mask(char *data, size_t len, const unsigned char mask[4], uint64_t at);

/* ---- the handshake ---- */

/* Is it the base64 of 16 bytes? */
bool kr_ws_key_is_good(const char *key);
/* What Sec-WebSocket-Accept says to a good key. */
#define KR_WS_ACCEPT_ROOM 29u
void kr_ws_accept(const char *key, char ret[KR_WS_ACCEPT_ROOM]);
/* Has a comma-separated list of tokens this one? Any case. NULL has none. */
bool kr_ws_lists(const char *list, const char *token);

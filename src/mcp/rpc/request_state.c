/* Request states: what a result that asks gives the client, and what comes back with its retry. Called by tools
 * that ask (exec.c) through call_input.h.
 *
 * Invariant: a state opens at most once, before its time is over, and only for the same user, method, name and
 * arguments it was made for. The text is sealed (XChaCha20-Poly1305, a key made at start, the digest of those four
 * as associated data), so one that was changed, made up or carried elsewhere does not open; and each one that is out
 * has a slot here, which opening it empties. When slots are short the oldest is emptied: forgetting refuses, it
 * never lets one in twice. */
#include "request_state.h"
#include "clock.h"
#include "fd.h"
#include "call_input.h"
#include "store.h"
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define NONCE crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG crypto_aead_xchacha20poly1305_ietf_ABYTES
#define DIGEST 32u
#define B64 sodium_base64_VARIANT_URLSAFE_NO_PADDING

struct slot {
    uint64_t serial; /* 0: empty */
    uint64_t expires_ns;
    char user[KR_STORE_ID_ROOM];
};

struct kr_mcp_states {
    unsigned char key[crypto_aead_xchacha20poly1305_ietf_KEYBYTES];
    uint64_t last_serial;
    uint32_t used; /* slots from here on were never used */
    struct slot slots[KR_MCP_STATES_MAX];
};

/* What is sealed, before the payload's JSON. */
struct head {
    uint64_t serial;
    uint32_t slot;
};

int kr_mcp_states_new(struct kr_mcp_states **ret_states)
{
    struct kr_mcp_states *s;

    if (sodium_init() < 0)
        return -EIO;
    s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    crypto_aead_xchacha20poly1305_ietf_keygen(s->key);
    *ret_states = s;
    return 0;
}

void kr_mcp_states_free(struct kr_mcp_states *s)
{
    if (s)
        sodium_memzero(s->key, sizeof s->key);
    free(s);
}

/* ---- slots ---- */

/* A slot for one more: an empty one, else the user's oldest past its share, else the oldest of all. */
static struct slot *slot_for(struct kr_mcp_states *s, const char *user)
{
    struct slot *empty = NULL, *own = NULL, *oldest = NULL;
    uint64_t now = kr_clock_ns();
    unsigned mine = 0;

    for (uint32_t i = 0; i < s->used; i++) {
        struct slot *a = &s->slots[i];

        if (a->serial != 0 && a->expires_ns <= now)
            a->serial = 0;
        if (a->serial == 0) {
            empty = empty ? empty : a;
            continue;
        }
        if (!oldest || a->serial < oldest->serial)
            oldest = a;
        if (strcmp(a->user, user) != 0)
            continue;
        mine++;
        if (!own || a->serial < own->serial)
            own = a;
    }
    if (mine >= KR_MCP_STATES_PER_USER)
        return own;
    if (empty)
        return empty;
    return s->used < KR_MCP_STATES_MAX ? &s->slots[s->used++] : oldest;
}

static struct head take_slot(struct kr_mcp_states *s, const char *user, uint64_t ttl_ms)
{
    struct slot *a = slot_for(s, user);

    *a = (struct slot){.serial = ++s->last_serial, .expires_ns = kr_clock_after_ms(ttl_ms)};
    strncpy(a->user, user, sizeof a->user - 1);
    return (struct head){.serial = a->serial, .slot = (uint32_t)(a - s->slots)};
}

/* Empties it. False: it was not out any more. */
static bool give_slot(struct kr_mcp_states *s, const struct head *head)
{
    struct slot *a;

    if (head->slot >= s->used || head->serial == 0)
        return false;
    a = &s->slots[head->slot];
    if (a->serial != head->serial)
        return false;
    a->serial = 0;
    return a->expires_ns > kr_clock_ns();
}

/* ---- what a state is bound to ---- */

static int hash_json(const char *data, size_t len, void *hash)
{
    return crypto_generichash_update(hash, (const unsigned char *)data, len);
}

/* A text and its end, so that no two lists of texts are the same bytes. */
static void hash_text(crypto_generichash_state *hash, const char *text)
{
    uint64_t len = text ? strlen(text) : 0;

    crypto_generichash_update(hash, (const unsigned char *)&len, sizeof len);
    crypto_generichash_update(hash, (const unsigned char *)(text ? text : ""), len);
}

/* User, method, what is named, and its arguments in canonical form (sorted, without blanks; none at all is {}). */
static void digest_of(const struct kr_mcp_call *c, unsigned char out[static DIGEST])
{
    const json_t *params = kr_mcp_params(c), *arguments = json_object_get(params, "arguments");
    const char *name = json_string_value(json_object_get(params, "name"));
    crypto_generichash_state hash;

    crypto_generichash_init(&hash, NULL, 0, DIGEST);
    hash_text(&hash, "krait mcp state 1");
    hash_text(&hash, kr_mcp_caller(c)->user);
    hash_text(&hash, kr_mcp_call_method(c));
    hash_text(&hash, name ? name : json_string_value(json_object_get(params, "uri")));
    if (arguments && !json_is_null(arguments))
        json_dump_callback(arguments, hash_json, &hash, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY);
    else
        crypto_generichash_update(&hash, (const unsigned char *)"{}", 2);
    crypto_generichash_final(&hash, out, DIGEST);
}

/* ---- sealing ---- */

/* The state's text (to be freed), or NULL: the payload is too large, or no memory. */
static char *seal(struct kr_mcp_states *s, const struct kr_mcp_call *c, const json_t *payload, uint64_t ttl_ms)
{
    unsigned char plain[sizeof(struct head) + KR_MCP_STATE_PAYLOAD_MAX], sealed[NONCE + sizeof plain + TAG],
        digest[DIGEST];
    size_t len = json_dumpb(payload, (char *)plain + sizeof(struct head), KR_MCP_STATE_PAYLOAD_MAX,
                            JSON_COMPACT | JSON_ENCODE_ANY);
    unsigned long long sealed_len;
    struct head head;
    size_t room;
    char *text;

    if (len == 0 || len > KR_MCP_STATE_PAYLOAD_MAX)
        return NULL;
    head = take_slot(s, kr_mcp_caller(c)->user, ttl_ms);
    memcpy(plain, &head, sizeof head);
    digest_of(c, digest);
    randombytes_buf(sealed, NONCE);
    crypto_aead_xchacha20poly1305_ietf_encrypt(sealed + NONCE, &sealed_len, plain, sizeof head + len, digest,
                                               sizeof digest, NULL, sealed, s->key);
    room = sodium_base64_encoded_len(NONCE + sealed_len, B64);
    text = malloc(room);
    if (text)
        sodium_bin2base64(text, room, sealed, NONCE + sealed_len, B64);
    return text;
}

/* The payload (a new reference) of a state that was out, which it is no more; else NULL. */
static json_t *unseal(struct kr_mcp_states *s, const struct kr_mcp_call *c, const char *text, size_t text_len)
{
    unsigned char sealed[NONCE + sizeof(struct head) + KR_MCP_STATE_PAYLOAD_MAX + TAG], plain[sizeof sealed],
        digest[DIGEST];
    unsigned long long plain_len;
    struct head head;
    size_t len;

    if (text_len > KR_MCP_STATE_TEXT_MAX ||
        sodium_base642bin(sealed, sizeof sealed, text, text_len, NULL, &len, NULL, B64) != 0 || len < NONCE + TAG)
        return NULL;
    digest_of(c, digest);
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(plain, &plain_len, NULL, sealed + NONCE, len - NONCE, digest,
                                                   sizeof digest, sealed, s->key) != 0 ||
        plain_len <= sizeof head)
        return NULL;
    memcpy(&head, plain, sizeof head);
    if (!give_slot(s, &head))
        return NULL;
    return json_loadb((const char *)plain + sizeof head, plain_len - sizeof head, JSON_DECODE_ANY | JSON_ALLOW_NUL,
                      NULL);
}

/* ---- call_input.h ---- */

void kr_mcp_input_required(struct kr_mcp_call *c, json_t *requests, json_t *payload, uint64_t ttl_ms)
{
    json_t *result = json_pack("{s:s}", "resultType", "input_required");
    cleanup_free char *state = NULL;

    if (payload)
        state = seal(kr_mcp_states_of(kr_mcp_of(c)), c, payload, ttl_ms ? ttl_ms : KR_MCP_STATE_TTL_MS);
    if (!result || (payload && !state) || (!payload && !requests) ||
        (requests && json_object_set(result, "inputRequests", requests) < 0) ||
        (state && json_object_set_new(result, "requestState", json_string(state)) < 0)) {
        json_decref(result);
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "the question could not be put");
    } else {
        kr_mcp_reply(c, result);
    }
    json_decref(requests);
    json_decref(payload);
}

int kr_mcp_state_open(struct kr_mcp_call *c, json_t **ret_payload)
{
    const json_t *state = json_object_get(kr_mcp_params(c), "requestState");
    json_t *payload = NULL;

    if (!state)
        return 0;
    if (json_is_string(state))
        payload = unseal(kr_mcp_states_of(kr_mcp_of(c)), c, json_string_value(state), json_string_length(state));
    if (!payload) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL,
                    "requestState is not valid here: it was changed, is used or expired, or belongs to another call. "
                    "Call again without it");
        return -EINVAL;
    }
    *ret_payload = payload;
    return 1;
}

const json_t *kr_mcp_input_response(const struct kr_mcp_call *c, const char *key)
{
    const json_t *answer = json_object_get(json_object_get(kr_mcp_params(c), "inputResponses"), key);

    return json_is_object(answer) ? answer : NULL;
}

/* The words of the handshake of WebSockets. Called by websocket.c and by `krait shell`. */
#include "base64.h"
#include "sha1.h"
#include "ws_frame.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define KEY_TEXT 24u /* of 16 bytes */
#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

bool kr_ws_key_is_good(const char *key)
{
    unsigned char bytes[16];

    return key && strlen(key) == KEY_TEXT && kr_base64_decode(key, KEY_TEXT, bytes, sizeof bytes) == sizeof bytes;
}

void kr_ws_accept(const char *key, char ret[KR_WS_ACCEPT_ROOM])
{
    char text[KEY_TEXT + sizeof GUID];
    unsigned char digest[KR_SHA1_BYTES];

    static_assert(KR_BASE64_ROOM(KR_SHA1_BYTES) == KR_WS_ACCEPT_ROOM, "the room of an answer");
    snprintf(text, sizeof text, "%.*s" GUID, (int)KEY_TEXT, key);
    kr_sha1(text, strlen(text), digest);
    (void)kr_base64_encode(digest, sizeof digest, ret);
}

bool kr_ws_lists(const char *list, const char *token)
{
    size_t want = strlen(token);

    while (list && *list) {
        size_t skip = strspn(list, ", \t"), len;

        list += skip;
        len = strcspn(list, ", \t");
        if (len == want && strncasecmp(list, token, want) == 0)
            return true;
        list += len;
    }
    return false;
}

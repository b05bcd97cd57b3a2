/* Whether the bytes of a notes file are whole.
 *
 * Called where notes of an ended process are taken over, and by `krait verify`. A process that was killed, or a power
 * cut, may leave a record half written at the end, and behind the last record there may be bytes of an earlier
 * generation (notes.c): that is no damage. Invariant: sound records behind a spot that is not sound are always
 * noticed. */
#include "notes.h"
#include <string.h>

/* A whole record with the right hash begins at `at`. */
static bool is_sound(const char *data, size_t len, size_t at, uint64_t *ret_generation, size_t *ret_next)
{
    unsigned char hash[KR_NOTE_HASH];
    uint32_t size;

    if (at > len || len - at < KR_NOTE_HEAD)
        return false;
    memcpy(&size, data + at + 8, sizeof size);
    if (size > len - at - KR_NOTE_HEAD)
        return false;
    kr_note_hash(data + at, KR_NOTE_HEAD + size, hash);
    if (memcmp(hash, data + at, sizeof hash) != 0)
        return false;
    memcpy(ret_generation, data + at + 16, sizeof *ret_generation);
    *ret_next = at + KR_NOTE_HEAD + size;
    return true;
}

size_t kr_notes_resync(const char *data, size_t len, size_t at, uint64_t known, uint64_t *generation)
{
    for (; at + KR_NOTE_HEAD <= len; at++) {
        uint64_t number;
        size_t next;

        memcpy(&number, data + at + 16, sizeof number);
        if (number <= known || (*generation && number != *generation)) /* spares the hash of almost every byte */
            continue;
        if (number - known < UINT32_MAX && is_sound(data, len, at, generation, &next))
            return at;
    }
    return len;
}

bool kr_notes_damaged(const char *data, size_t len, uint64_t known, size_t *ret_at)
{
    uint64_t first = 0, generation = 0;
    size_t at = 0, next = 0;
    uint32_t size;

    if (is_sound(data, len, 0, &first, &next) && first <= known)
        return false; /* the database has them */
    while (is_sound(data, len, at, &generation, &next) && generation == first)
        at = next;
    *ret_at = at;
    generation = first;
    if (kr_notes_resync(data, len, at, known, &generation) < len)
        return true;
    if (len - at < KR_NOTE_HEAD || known > 0)
        return false; /* cut short, or written over by half: what is behind it is older */
    memcpy(&size, data + at + 8, sizeof size);
    for (next = at; next < at + KR_NOTE_HEAD && !data[next];)
        next++;
    return size <= len - at - KR_NOTE_HEAD && next < at + KR_NOTE_HEAD; /* whole, and not a hole of a power cut */
}

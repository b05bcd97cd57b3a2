/* Lines in their last state: progress bars write one over the other, and a model needs the last alone.
 *
 * Called by render.c for what a model is shown of stdout and stderr; logs, streams and REST have the bytes as they
 * were written. A line is a row of cells, one for each character: a carriage return goes to its first cell, a
 * backspace one back, and a character takes the place of the one that is there. Of the sequences of a terminal only
 * "erase in line" has a meaning here; others in a line that is folded are dropped, since what they coloured may be
 * gone. Invariants: each byte is looked at once; a cell points into the text, so a character is kept whole or not at
 * all. */
#include "fold.h"
#include "buf.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const char *text;
    uint32_t *cells; /* where in the text each character begins */
    size_t count, room, at;
};

bool kr_fold_needed(const char *text, size_t len)
{
    return memchr(text, '\r', len) || memchr(text, '\b', len);
}

/* Bytes of the line that begins the text, without what ends it. Tells how many bytes that is with it, and whether the
 * line is to be folded. */
static size_t measure_line(const char *text, size_t len, size_t *ret_whole, bool *ret_folded)
{
    const char *end = memchr(text, '\n', len);
    size_t n = end ? (size_t)(end - text) : len;

    *ret_whole = end ? n + 1 : n;
    while (end && n > 0 && text[n - 1] == '\r')
        n--; /* "\r\n" ends a line */
    *ret_folded = kr_fold_needed(text, n);
    return n;
}

static size_t char_bytes(const char *text, size_t len)
{
    size_t n = 1;

    while (n < len && n < 4 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* Bytes of the sequence that an escape begins: "ESC [ … letter", else the escape alone. */
static size_t sequence_bytes(const char *text, size_t len)
{
    size_t n = 2;

    if (len < 2 || text[1] != '[')
        return 1;
    while (n < len && (unsigned char)text[n] >= 0x20 && (unsigned char)text[n] < 0x40)
        n++;
    return n < len && (unsigned char)text[n] >= 0x40 && (unsigned char)text[n] < 0x7f ? n + 1 : n;
}

static int put_cell(struct row *r, uint32_t at)
{
    if (r->at >= r->room) {
        size_t room = r->room ? r->room * 2 : 256;
        uint32_t *cells = reallocarray(r->cells, room, sizeof *cells);

        if (!cells)
            return -ENOMEM;
        r->cells = cells;
        r->room = room;
    }
    r->cells[r->at++] = at;
    if (r->at > r->count)
        r->count = r->at;
    return 0;
}

/* "Erase in line": from the cursor on (0), or all of it (2), which begins the line anew: programs that erase a line
 * return to its beginning, and blanks up to the cursor would cost as much as they are many, again and again. The start
 * of a line (1) is left. */
static void erase_cells(struct row *r, const char *sequence, size_t n)
{
    if (n < 3 || sequence[n - 1] != 'K')
        return;
    if (n == 3 || sequence[2] == '0')
        r->count = r->at < r->count ? r->at : r->count;
    else if (sequence[2] == '2')
        r->count = r->at = 0;
}

static int take_line(struct row *r, size_t from, size_t to)
{
    for (size_t i = from; i < to;) {
        size_t n = 1;
        int ret = 0;

        if (r->text[i] == '\r') {
            r->at = 0;
        } else if (r->text[i] == '\b') {
            r->at -= r->at > 0;
        } else if (r->text[i] == '\033') {
            n = sequence_bytes(r->text + i, to - i);
            erase_cells(r, r->text + i, n);
        } else {
            n = char_bytes(r->text + i, to - i);
            ret = put_cell(r, (uint32_t)i);
        }
        if (ret < 0)
            return ret;
        i += n;
    }
    return 0;
}

/* The cells, without the blanks at the end that a shorter line leaves of a longer one. */
static int write_row(const struct row *r, size_t end, struct kr_buf *out)
{
    size_t count = r->count;
    int ret = 0;

    while (count > 0 && r->text[r->cells[count - 1]] == ' ')
        count--;
    for (size_t i = 0; i < count && ret >= 0; i++)
        ret = kr_buf_add(out, r->text + r->cells[i], char_bytes(r->text + r->cells[i], end - r->cells[i]));
    return ret;
}

/* Appends the line that begins at `from`. Tells how many bytes of the text it has. */
static int fold_line(struct row *r, size_t from, size_t len, struct kr_buf *out, size_t *ret_whole)
{
    size_t n;
    bool folded;
    int ret;

    n = measure_line(r->text + from, len - from, ret_whole, &folded);
    r->count = r->at = 0;
    ret = folded ? take_line(r, from, from + n) : kr_buf_add(out, r->text + from, n);
    if (ret >= 0 && folded)
        ret = write_row(r, from + n, out);
    if (ret >= 0 && r->text[from + *ret_whole - 1] == '\n')
        ret = kr_buf_add(out, "\n", 1);
    return ret;
}

int kr_fold_text(struct kr_buf *out, const char *text, size_t len)
{
    struct row r = {.text = text};
    int ret = len < UINT32_MAX ? 0 : -ENOBUFS;
    size_t whole;

    for (size_t i = 0; i < len && ret >= 0; i += whole)
        ret = fold_line(&r, i, len, out, &whole);
    free(r.cells);
    return ret < 0 ? ret : 0;
}

size_t kr_fold_source(const char *text, size_t len, size_t at)
{
    struct row r = {.text = text};
    cleanup_buf struct kr_buf line;
    size_t i = 0, made = 0, whole;

    kr_buf_init(&line, len + 1);
    while (i < len && len < UINT32_MAX) {
        kr_buf_reset(&line);
        if (fold_line(&r, i, len, &line, &whole) < 0 || made + line.len > at)
            break;
        made += line.len;
        i += whole;
    }
    free(r.cells);
    return i;
}

/* Settings, totals, and what lists and texts have in common.
 *
 * Called by the other files of this folder and, for settings and totals, by the server. Invariant: a cursor holds
 * nothing that its reader has not seen on the page already. */
#include "store_internal.h"
#include "utf8.h"
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kr_store_setting_get(struct kr_store *s, const char *key, void *buf, size_t size, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int r = kr_st_open(s, KR_ST_SETTING_GET, &st, err, "t", key), len;

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no setting %.60s", key);
    len = sqlite3_column_bytes(st, 0);
    if ((size_t)len > size)
        return kr_store_err(err, KR_ERR_INTERNAL, ENOBUFS, "setting %.60s is larger than expected", key);
    if (len > 0)
        memcpy(buf, sqlite3_column_blob(st, 0), (size_t)len);
    return len;
}

int kr_store_setting_set(struct kr_store *s, const char *key, const void *value, size_t len, struct kr_err *err)
{
    int r;

    if (len > KR_STORE_SETTING_MAX)
        return kr_store_err(err, KR_ERR_INVALID, E2BIG, "setting %.60s: at most %u bytes", key, KR_STORE_SETTING_MAX);
    r = kr_st_exec(s, KR_ST_SETTING_SET, err, "tb", key, len ? value : "", len);
    return r < 0 ? r : kr_store_sync(s, err);
}

int kr_store_secret(struct kr_store *s, const char *key, void *ret_secret, size_t len, struct kr_err *err)
{
    unsigned char made[64];
    int r = kr_store_setting_get(s, key, ret_secret, len, err);

    if (r == -ENOENT && len >= 16 && len <= sizeof made) {
        randombytes_buf(made, len);
        r = kr_st_exec(s, KR_ST_SETTING_MAKE, err, "tb", key, made, len);
        sodium_memzero(made, sizeof made);
        if (r < 0 || (r = kr_store_sync(s, err)) < 0)
            return r;
        r = kr_store_setting_get(s, key, ret_secret, len, err); /* another process may have been first */
    }
    if (r < 0)
        return r;
    return (size_t)r == len ? 0 : kr_store_err(err, KR_ERR_INTERNAL, EINVAL, "secret %.60s has another length", key);
}

int kr_store_totals(struct kr_store *s, struct kr_store_totals *ret_totals, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int r = kr_st_open(s, KR_ST_TOTALS, &st, err, "");

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN, KR_STORE_DB " is damaged: its totals are missing");
    ret_totals->runs = (uint64_t)sqlite3_column_int64(st, 0);
    ret_totals->run_bytes = (uint64_t)sqlite3_column_int64(st, 1);
    ret_totals->audits = (uint64_t)sqlite3_column_int64(st, 2);
    ret_totals->audit_bytes = (uint64_t)sqlite3_column_int64(st, 3);
    return 0;
}

/* ---- texts ---- */

int kr_store_text_check(const char *field, const char *text, size_t max, struct kr_err *err)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t len = text ? strnlen(text, max + 1) : 0;
    int n;

    if (len == 0 || len > max)
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "%s: 1 to %zu bytes", field, max);
    if (s[0] == ' ' || s[len - 1] == ' ')
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "%s: no blank at its beginning or end", field);
    for (size_t i = 0; i < len; i += (size_t)n) {
        uint32_t c = 0;

        n = kr_utf8_next(s + i, len - i, &c);
        if (n <= 0 || c < 0x20 || (c >= 0x7f && c < 0xa0))
            return kr_store_err(err, KR_ERR_INVALID, EINVAL, "%s: UTF-8 without control characters", field);
    }
    return 0;
}

const char *kr_store_text_cut(char *out, size_t size, const char *text, size_t len, size_t max_chars)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t used = 0;

    for (size_t i = 0, chars = 0; i < len && chars < max_chars; chars++) {
        int n = kr_utf8_next(s + i, len - i, NULL);
        bool good = n > 0 && s[i] != '\0';
        const char *from = good ? text + i : "\xef\xbf\xbd"; /* U+FFFD */
        size_t add = good ? (size_t)n : 3;

        if (used + add >= size)
            break;
        memcpy(out + used, from, add);
        used += add;
        i += n > 0 ? (size_t)n : n < 0 ? (size_t)-n : len - i;
    }
    out[used] = '\0';
    return out;
}

/* ---- lists ---- */

int kr_walk_init(struct kr_walk *w, struct kr_store_page *page, bool by_number, struct kr_err *err)
{
    const char *after = page->after && *page->after ? page->after : NULL;
    char *end = NULL;

    if (page->limit == 0 || page->limit > KR_STORE_PAGE_MAX)
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "limit: 1 to %u", KR_STORE_PAGE_MAX);
    *w = (struct kr_walk){.page = page, .time = INT64_MAX};
    if (after) {
        if (*after < '0' || *after > '9')
            goto bad;
        errno = 0;
        w->time = strtoll(after, &end, 10);
        if (errno || (by_number ? *end != '\0' : *end != '.' || strlen(end + 1) >= sizeof w->id))
            goto bad;
        if (!by_number)
            snprintf(w->id, sizeof w->id, "%s", end + 1);
    }
    page->next[0] = '\0'; /* only now: `after` may be the `next` of the page before */
    return 0;
bad:
    return kr_store_err(err, KR_ERR_INVALID, EINVAL, "cursor: not one that a list gave");
}

bool kr_walk_more(struct kr_walk *w, bool passes)
{
    if (passes ? w->given < w->page->limit : w->passed_over < KR_STORE_SCAN_MAX) {
        w->given += passes;
        w->passed_over += !passes;
        return true;
    }
    snprintf(w->page->next, sizeof w->page->next, "%s", w->last);
    return false;
}

void kr_walk_at(struct kr_walk *w, int64_t time, const char *id)
{
    snprintf(w->last, sizeof w->last, id ? "%lld.%s" : "%lld", (long long)time, id);
}

/* Files of settings, kept by one process for another.
 *
 * Called by config_file.c, which fills a tray or answers out of a full one, and by the reload of `krait serve`.
 * Invariant: every length that is read is bounded by what config_file.c reads at most, and secrets are wiped with the
 * tray. Both processes are the same program, so numbers cross as they lie in memory. */
#include "config_tray.h"
#include "config_rows.h"
#include "dotenv.h"
#include "fd.h"
#include "toml.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_ 4096u
#define MAGIC 0x6b747279u

struct head {
    uint32_t magic, count, uid;
};
struct kept_head {
    uint32_t name_len, text_len, has_text;
    int32_t result;
    char why[sizeof((struct kr_config_kept *)0)->why];
    struct kr_err err;
};

int kr_config_keep(struct kr_config_tray *tray, const struct kr_config_kept *what)
{
    struct kr_config_kept *k;

    if (!tray || tray->is_full)
        return 0;
    if (tray->count == KR_CONFIG_KEPT_MAX)
        return -ENOSPC;
    k = &tray->kept[tray->count];
    *k = *what;
    k->name = strdup(what->name);
    k->text = what->text ? malloc(what->len + 1) : NULL;
    if (!k->name || (what->text && !k->text)) {
        free(k->name);
        free(k->text);
        return -ENOMEM;
    }
    if (k->text) {
        memcpy(k->text, what->text, what->len);
        k->text[k->len] = '\0';
    }
    tray->count++;
    return 0;
}

const struct kr_config_kept *kr_config_find_kept(const struct kr_config_tray *tray, const char *name)
{
    for (size_t i = 0; i < tray->count; i++)
        if (strcmp(tray->kept[i].name, name) == 0)
            return &tray->kept[i];
    return NULL;
}

static int write_kept(const struct kr_config_kept *k, int fd)
{
    struct kept_head h = {.name_len = (uint32_t)strlen(k->name),
                          .text_len = k->text ? (uint32_t)k->len : 0,
                          .has_text = k->text != NULL,
                          .result = k->result,
                          .err = k->err};
    int r;

    memcpy(h.why, k->why, sizeof h.why);
    r = kr_fd_write_all(fd, &h, sizeof h);
    if (r >= 0)
        r = kr_fd_write_all(fd, k->name, h.name_len);
    return r >= 0 && h.text_len > 0 ? kr_fd_write_all(fd, k->text, h.text_len) : r;
}

int kr_config_tray_write(const struct kr_config_tray *tray, int fd)
{
    struct head h = {.magic = MAGIC, .count = (uint32_t)tray->count, .uid = (uint32_t)geteuid()};
    int r = kr_fd_write_all(fd, &h, sizeof h);

    for (size_t i = 0; r >= 0 && i < tray->count; i++)
        r = write_kept(&tray->kept[i], fd);
    return r;
}

/* All of it, from a place in the file. */
static int read_whole(int fd, void *buf, size_t len, off_t *at)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, (char *)buf + done, len - done, *at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EBADMSG;
        done += (size_t)n;
        *at += n;
    }
    return 0;
}

static int read_kept(int fd, off_t *at, struct kr_config_kept *k)
{
    struct kept_head h;
    int r = read_whole(fd, &h, sizeof h, at);

    if (r < 0)
        return r;
    if (h.name_len >= NAME_MAX_ || h.text_len > KR_TOML_TEXT_MAX)
        return -EBADMSG;
    k->name = calloc(1, h.name_len + 1);
    k->text = h.has_text ? calloc(1, h.text_len + 1) : NULL;
    if (!k->name || (h.has_text && !k->text))
        return -ENOMEM;
    k->len = h.text_len;
    k->result = h.result;
    k->err = h.err;
    k->err.msg[sizeof k->err.msg - 1] = '\0';
    memcpy(k->why, h.why, sizeof k->why - 1);
    r = read_whole(fd, k->name, h.name_len, at);
    return r >= 0 && k->text ? read_whole(fd, k->text, h.text_len, at) : r;
}

int kr_config_tray_read(int fd, struct kr_config_tray *ret)
{
    cleanup_config_tray struct kr_config_tray tray = {.is_full = 1};
    struct head h;
    off_t at = 0;
    int r = read_whole(fd, &h, sizeof h, &at);

    if (r < 0)
        return r;
    if (h.magic != MAGIC || h.count > KR_CONFIG_KEPT_MAX)
        return -EBADMSG;
    tray.uid = h.uid;
    for (uint32_t i = 0; r >= 0 && i < h.count; i++) {
        tray.count = i + 1; /* what is half read is freed as well */
        r = read_kept(fd, &at, &tray.kept[i]);
    }
    if (r < 0)
        return r;
    *ret = tray;
    memset(&tray, 0, sizeof tray);
    return 0;
}

void kr_config_tray_done(struct kr_config_tray *tray)
{
    for (size_t i = 0; i < tray->count; i++) {
        if (tray->kept[i].text)
            explicit_bzero(tray->kept[i].text, tray->kept[i].len);
        free(tray->kept[i].text);
        free(tray->kept[i].name);
    }
    memset(tray, 0, sizeof *tray);
}

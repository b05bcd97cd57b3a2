/* The limit of sandboxes' disks, tried: a shelf is brought up in an empty folder as at a server's start, one sandbox is
 * limited and written to until it is refused. Called by cmd_doctor.c, in a child: it changes its mount namespace.
 * Invariant: the folder is as empty afterwards as it was, but for the image, which the caller removes. */
#include "doctor.h"
#include "fd.h"
#include "shelf.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define LIMIT (UINT64_C(1) << 20)
#define MOST (UINT64_C(8) << 20)
#define NAME "probe"

static const char *const kinds[KR_SHELF_KIND_MAX_] = {"folder", "btrfs subvolume", "project quota"};

/* How many bytes a file of the sandbox takes, and the error that ended it; unlinked, so that no walk would find it. */
static uint64_t fill_file(int shelf, int *ret_error)
{
    static const char block[65536];
    cleanup_fd int fd = openat(shelf, NAME "/file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    uint64_t done = 0;
    *ret_error = fd < 0 || unlinkat(shelf, NAME "/file", 0) < 0 ? errno : 0;
    while (*ret_error == 0 && done < MOST) {
        ssize_t n = write(fd, block, sizeof block);
        if (n < 0)
            *ret_error = errno;
        else
            done += (uint64_t)n;
    }
    return done;
}

static void try_limit(struct kr_shelf *s, struct kr_doctor_report *r)
{
    struct kr_w_shelf question = {.op = KR_SHELF_MAKE, .name = NAME, .bytes = LIMIT};
    struct kr_w_shelved shelved;
    struct kr_err err = {0};
    char word[24];
    uint64_t done;
    int error;
    if (kr_shelf_do(s, &question, &shelved, &err) < 0) {
        kr_doctor_set(r, KR_DOC_SHELF, KR_DOCTOR_FAILED, "%s", err.msg);
        return;
    }
    done = fill_file(s->dir, &error);
    question.op = KR_SHELF_DROP;
    (void)kr_shelf_do(s, &question, &shelved, &err);
    kr_doctor_word(error, word, sizeof word);
    if (error == EDQUOT && done <= 2 * LIMIT)
        kr_doctor_set(r, KR_DOC_SHELF, KR_DOCTOR_OK,
                      "%s%s, enforced; limit 1 MiB: an unlinked file was refused after %llu KiB (%s)", kinds[s->kind],
                      s->image ? " in an image" : ", the filesystem's own", (unsigned long long)done >> 10, word);
    else
        kr_doctor_set(r, KR_DOC_SHELF, KR_DOCTOR_FAILED, "%s; limit 1 MiB: %llu KiB were written (%s)", kinds[s->kind],
                      (unsigned long long)done >> 10, word);
}

void kr_doctor_shelf(const char *folder, struct kr_doctor_report *r)
{
    struct kr_shelf_config c = {.path = folder, .choice = KR_SHELF_AUTO, .size = KR_SHELF_SIZE_MIN};
    struct kr_shelf_plan plan;
    struct kr_shelf s = KR_SHELF_NONE;
    struct kr_err err = {0};
    cleanup_fd int point = -1;
    int got = kr_shelf_plan(&c, &plan, &err);
    if (got >= 0 && plan.image && (got = kr_shelf_namespace(&err)) < 0)
        got = kr_shelf_settle_for_folder(&c, &plan, got, &err);
    point = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (got >= 0 && (got = kr_shelf_up(&c, &plan, point, &s, &err)) < 0 &&
        (got = kr_shelf_settle_for_folder(&c, &plan, got, &err)) >= 0)
        got = kr_shelf_up(&c, &plan, point, &s, &err);
    if (got < 0)
        kr_doctor_set(r, KR_DOC_SHELF, KR_DOCTOR_MISSING, "%s", err.msg);
    else if (s.kind == KR_SHELF_IS_FOLDER)
        kr_doctor_set(r, KR_DOC_SHELF, KR_DOCTOR_DEGRADED, "counted by the server, not enforced: %s", plan.why);
    else
        try_limit(&s, r);
    kr_shelf_down(&s);
}

/* The limit of sandboxes' disks. What holds those that a data directory has is looked at there; then it is tried in an
 * empty folder of the same filesystem: a shelf is brought up as at a server's start, one sandbox is limited and written
 * to until it is refused. Called by cmd_doctor.c, in a child: it changes its mount namespace. Invariants: the data
 * directory's sandboxes are not touched; the folder is as empty afterwards as it was, but for the image, which the
 * caller removes. */
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

/* How the row ends: which data directory it is about. */
static void name_place(const struct kr_doctor_place *p, const char *holds, char *out, size_t size)
{
    if (!p->data)
        out[0] = '\0';
    else if (p->is_there)
        snprintf(out, size, "; data folder %.100s%s%s", p->data, holds, p->is_elsewhere ? ", tried elsewhere" : "");
    else
        snprintf(out, size, "; there is no data folder %.100s yet, so it was tried elsewhere", p->data);
}

static void try_limit(struct kr_shelf *s, const char *place, struct kr_doctor_report *r)
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
                      "%s%s, enforced; limit 1 MiB: an unlinked file was refused after %llu KiB (%s)%s", kinds[s->kind],
                      s->image ? " in an image" : ", the filesystem's own", (unsigned long long)done >> 10, word,
                      place);
    else
        kr_doctor_set(r, KR_DOC_SHELF, KR_DOCTOR_FAILED, "%s; limit 1 MiB: %llu KiB were written (%s)%s",
                      kinds[s->kind], (unsigned long long)done >> 10, word, place);
}

static void say_counted(const char *why, const char *place, struct kr_doctor_report *r)
{
    kr_doctor_set(r, KR_DOC_SHELF, KR_DOCTOR_DEGRADED, "counted by the server, not enforced: %s%s", why, place);
}

/* Brings a shelf up in our own mount namespace; settles for a folder as a server does. */
static int bring_up(struct kr_shelf_config *c, struct kr_shelf_plan *plan, struct kr_shelf *ret, struct kr_err *err)
{
    cleanup_fd int point = -1;
    int got = kr_shelf_plan(c, plan, err);
    if (got >= 0 && plan->image && (got = kr_shelf_namespace(err)) < 0)
        got = kr_shelf_settle_for_folder(c, plan, got, err);
    point = open(c->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (got >= 0 && (got = kr_shelf_up(c, plan, point, ret, err)) < 0 &&
        (got = kr_shelf_settle_for_folder(c, plan, got, err)) >= 0)
        got = kr_shelf_up(c, plan, point, ret, err);
    return got;
}

/* Sandboxes that are there: nothing is made and nothing is written. 1: they are in an image that was mounted, of the
 * kind *ret_kind; 0: what a start does with the folder is what the trial shows; -errno: the row is set. */
static int look_at_sandboxes(const struct kr_doctor_place *p, enum kr_shelf_kind *ret_kind, struct kr_doctor_report *r)
{
    char path[4096 + 16], place[200];
    struct kr_shelf_config c = {.path = path, .choice = p->choice, .size = KR_SHELF_SIZE_MIN};
    struct kr_shelf_plan plan;
    struct kr_shelf s = KR_SHELF_NONE;
    struct kr_err err = {0};
    int got;
    snprintf(path, sizeof path, "%s/sandboxes", p->data);
    if (access(path, F_OK) < 0)
        return 0;
    got = kr_shelf_plan(&c, &plan, &err);
    name_place(p, "", place, sizeof place);
    if (got >= 0 && plan.kind == KR_SHELF_IS_FOLDER)
        return say_counted(plan.why, place, r), -ENOTSUP;
    if (got >= 0 && !(plan.image && plan.exists))
        return 0;
    if (got >= 0)
        got = bring_up(&c, &plan, &s, &err);
    *ret_kind = s.kind;
    kr_shelf_down(&s);
    if (got < 0)
        kr_doctor_set(r, KR_DOC_SHELF, KR_DOCTOR_MISSING, "%s%s", err.msg, place);
    return got < 0 ? got : 1;
}

void kr_doctor_shelf(const struct kr_doctor_place *p, struct kr_doctor_report *r)
{
    struct kr_shelf_config c = {.path = p->folder, .choice = p->choice, .size = KR_SHELF_SIZE_MIN};
    enum kr_shelf_kind kind = KR_SHELF_IS_FOLDER;
    struct kr_shelf_plan plan;
    struct kr_shelf s = KR_SHELF_NONE;
    struct kr_err err = {0};
    char place[200];
    int there = p->is_there ? look_at_sandboxes(p, &kind, r) : 0, got;
    if (there < 0)
        return;
    name_place(p, there ? ", its image" : ", which has no sandboxes yet", place, sizeof place);
    got = bring_up(&c, &plan, &s, &err);
    if (there && (got < 0 || s.kind == KR_SHELF_IS_FOLDER))
        kr_doctor_set(r, KR_DOC_SHELF, KR_DOCTOR_OK, "%s in an image, enforced; not tried: %s%s", kinds[kind],
                      got < 0 ? err.msg : plan.why, place);
    else if (got < 0)
        kr_doctor_set(r, KR_DOC_SHELF, KR_DOCTOR_MISSING, "%s%s", err.msg, place);
    else if (s.kind == KR_SHELF_IS_FOLDER)
        say_counted(plan.why, place, r);
    else
        try_limit(&s, place, r);
    kr_shelf_down(&s);
}

/* The queue of passwords. Called by the accounts' handlers.
 *
 * Invariant: at most KR_PASSWORDS_AT_ONCE jobs are in the pool's threads and KR_PASSWORDS_WAITING in the queue; a job's
 * memory is wiped before it is freed, by the loop's thread, once no other has it. */
#include "passwords.h"
#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uv.h>

struct kr_password_job {
    uv_work_t work;
    struct kr_passwords *all;
    TAILQ_ENTRY(kr_password_job) link; /* while it waits */
    bool waits;
    kr_password_done_fn *on_done; /* NULL: nobody waits for it */
    void *data;
    /* the thread's while it works */
    bool check, has_fresh, made;
    int result;
    char hash[KR_PASSWORD_ROOM], new_hash[KR_PASSWORD_ROOM];
    size_t len, fresh_len;
    char password[KR_PASSWORD_MAX], fresh[KR_PASSWORD_MAX];
};

TAILQ_HEAD(jobs, kr_password_job);

struct kr_passwords {
    struct uv_loop_s *loop;
    struct jobs waiting;
    unsigned running, queued;
    bool closed;
};

int kr_passwords_new(struct uv_loop_s *loop, struct kr_passwords **ret)
{
    struct kr_passwords *p = calloc(1, sizeof *p);

    if (!p)
        return -ENOMEM;
    p->loop = loop;
    TAILQ_INIT(&p->waiting);
    *ret = p;
    return 0;
}

static void free_job(struct kr_password_job *job)
{
    sodium_memzero(job, sizeof *job);
    free(job);
}

static void drop_waiting(struct kr_passwords *p, struct kr_password_job *job)
{
    TAILQ_REMOVE(&p->waiting, job, link);
    p->queued--;
    free_job(job);
}

void kr_passwords_close(struct kr_passwords *p)
{
    if (!p)
        return;
    p->closed = true;
    while (!TAILQ_EMPTY(&p->waiting))
        drop_waiting(p, TAILQ_FIRST(&p->waiting));
    if (p->running == 0)
        free(p);
}

/* In a thread of the pool: pure. */
static void work(uv_work_t *w)
{
    struct kr_password_job *job = (struct kr_password_job *)w->data;
    bool again;

    if (job->check)
        job->result = kr_password_verify(job->hash, job->password, job->len);
    if (job->result < 0)
        return;
    again = job->check && !job->has_fresh && kr_password_is_old(job->hash);
    if (!job->has_fresh && !again)
        return;
    job->result =
        kr_password_hash(again ? job->password : job->fresh, again ? job->len : job->fresh_len, job->new_hash, NULL);
    job->made = job->result == 0;
    if (again)
        job->result = 0; /* it was good; a better hash can wait for the next time */
}

static void start_next(struct kr_passwords *p);

static void on_worked(uv_work_t *w, int status)
{
    struct kr_password_job *job = (struct kr_password_job *)w->data;
    struct kr_passwords *p = job->all;

    (void)status; /* nobody cancels: whoever has left is forgotten by the queue, or by on_done */
    p->running--;
    if (p->closed) {
        if (p->running == 0)
            free(p);
    } else {
        start_next(p);
        if (job->on_done)
            job->on_done(job->data, job->result, job->made ? job->new_hash : NULL);
    }
    free_job(job);
}

static void start_next(struct kr_passwords *p)
{
    struct kr_password_job *job;

    while (p->running < KR_PASSWORDS_AT_ONCE && (job = TAILQ_FIRST(&p->waiting))) {
        TAILQ_REMOVE(&p->waiting, job, link);
        job->waits = false;
        p->queued--;
        p->running++;
        if (uv_queue_work(p->loop, &job->work, work, on_worked) != 0)
            abort(); /* fails for a NULL callback alone */
    }
}

static int copy_in(char to[KR_PASSWORD_MAX], size_t *to_len, const char *text, size_t len, struct kr_err *err)
{
    if (len == 0 || len > KR_PASSWORD_MAX)
        return kr_err_set(err, KR_ERR_INVALID, 0, "the password must have 1 to %u bytes", KR_PASSWORD_MAX), -EINVAL;
    memcpy(to, text, len);
    *to_len = len;
    return 0;
}

static int fill(struct kr_password_job *job, const struct kr_password_ask *ask, struct kr_err *err)
{
    int r = 0;

    job->check = ask->check;
    job->has_fresh = ask->fresh != NULL;
    if (ask->hash)
        strncat(job->hash, ask->hash, sizeof job->hash - 1);
    if (ask->check)
        r = copy_in(job->password, &job->len, ask->password, ask->password ? ask->len : 0, err);
    if (r == 0 && ask->fresh)
        r = copy_in(job->fresh, &job->fresh_len, ask->fresh, ask->fresh_len, err);
    return r;
}

int kr_passwords_ask(struct kr_passwords *p, const struct kr_password_ask *ask, kr_password_done_fn *on_done,
                     void *data, struct kr_password_job **ret_job, struct kr_err *err)
{
    struct kr_password_job *job;
    int r;

    assert(ask->check || ask->fresh);
    if (p->running == KR_PASSWORDS_AT_ONCE && p->queued == KR_PASSWORDS_WAITING)
        return kr_err_set(err, KR_ERR_BUSY, 0, "too many passwords wait to be checked; try again in a moment"), -EBUSY;
    job = calloc(1, sizeof *job);
    if (!job)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a password");
    r = fill(job, ask, err);
    if (r < 0) {
        free_job(job);
        return r;
    }
    job->work.data = job;
    job->all = p;
    job->on_done = on_done;
    job->data = data;
    job->waits = true;
    TAILQ_INSERT_TAIL(&p->waiting, job, link);
    p->queued++;
    start_next(p);
    *ret_job = job;
    return 0;
}

void kr_password_forget(struct kr_password_job *job)
{
    if (job->waits)
        drop_waiting(job->all, job);
    else
        job->on_done = NULL;
}

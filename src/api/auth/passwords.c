/* The queue of passwords. Called by the accounts' handlers.
 *
 * Invariant: at most KR_PASSWORDS_AT_ONCE jobs are in the pool's threads and KR_PASSWORDS_WAITING in the queue; a job's
 * memory is wiped before it is freed, by the loop's thread, once no other has it. */
#include "passwords.h"
#include "work.h"
#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

struct kr_password_job {
    struct kr_work work;
    kr_password_done_fn *on_done;
    void *data;
    /* the thread's while it works */
    bool check, has_fresh, made;
    int result;
    char hash[KR_PASSWORD_ROOM], new_hash[KR_PASSWORD_ROOM];
    size_t len, fresh_len;
    char password[KR_PASSWORD_MAX], fresh[KR_PASSWORD_MAX];
};

struct kr_passwords {
    struct kr_lane *lane;
};

int kr_passwords_new(struct uv_loop_s *loop, struct kr_passwords **ret)
{
    struct kr_passwords *p = calloc(1, sizeof *p);

    if (!p || kr_lane_new(loop, KR_PASSWORDS_AT_ONCE, KR_PASSWORDS_WAITING, &p->lane) < 0) {
        free(p);
        return -ENOMEM;
    }
    *ret = p;
    return 0;
}

static void free_password(void *data)
{
    sodium_memzero(data, sizeof(struct kr_password_job));
    free(data);
}

void kr_passwords_close(struct kr_passwords *p)
{
    if (!p)
        return;
    kr_lane_close(p->lane);
    free(p);
}

/* In a thread of the pool: pure. */
static void run_password(void *data)
{
    struct kr_password_job *job = data;
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

static void on_password_done(void *data)
{
    struct kr_password_job *job = data;

    job->on_done(job->data, job->result, job->made ? job->new_hash : NULL);
    free_password(job);
}

static int copy_in(char to[KR_PASSWORD_MAX], size_t *to_len, const char *text, size_t len, struct kr_err *err)
{
    if (len == 0 || len > KR_PASSWORD_MAX)
        return kr_err_set(err, KR_ERR_INVALID, 0, "the password must have 1 to %u bytes", KR_PASSWORD_MAX), -EINVAL;
    memcpy(to, text, len);
    *to_len = len;
    return 0;
}

static int fill_password_job(struct kr_password_job *job, const struct kr_password_ask *ask, struct kr_err *err)
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
    static const struct kr_work_calls calls = {.run = run_password, .done = on_password_done, .dropped = free_password};
    struct kr_password_job *job;
    int r;

    assert(ask->check || ask->fresh);
    if (kr_lane_full(p->lane))
        return kr_err_set(err, KR_ERR_BUSY, 0, "too many passwords wait to be checked; try again in a moment"), -EBUSY;
    job = calloc(1, sizeof *job);
    if (!job)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a password");
    r = fill_password_job(job, ask, err);
    if (r < 0) {
        free_password(job);
        return r;
    }
    job->on_done = on_done;
    job->data = data;
    *ret_job = job;
    return kr_lane_start(p->lane, &job->work, &calls, job); /* there is room: see above */
}

void kr_password_forget(struct kr_password_job *job)
{
    kr_work_drop(&job->work);
}

/* Passwords off the loop: Argon2id takes some 100 ms and 64 MiB each, so few run at a time on the thread pool, few
 * wait, and the next is refused with a time to come back. Loop thread only; the threads see nothing but their own
 * job. */
#pragma once
#include "password.h"
#include <stdbool.h>
#include <stddef.h>

struct kr_passwords;
struct kr_password_job;
struct uv_loop_s;

#define KR_PASSWORDS_AT_ONCE 2u
#define KR_PASSWORDS_WAITING 16u

/* What to do; texts are copied, and wiped when it is done. */
struct kr_password_ask {
    bool check;           /* is `password` the one of `hash`? */
    const char *hash;     /* NULL or "": of no user; takes as long as a user's */
    const char *password; /* NULL: none */
    size_t len;
    const char *fresh; /* NULL; or a new password to hash, if the check was good */
    size_t fresh_len;
};

/* r: 0, -EKEYREJECTED (the check was not good), -EINVAL, -ENOMEM. hash: of the new password; or, after a good check,
 * of the same one where its hash was made with old parameters; else NULL. From the loop, once; the job is gone then. */
typedef void kr_password_done_fn(void *data, int r, const char *hash);

/* 0 or -ENOMEM. */
int kr_passwords_new(struct uv_loop_s *loop, struct kr_passwords **ret);
/* Drops what waits; no callback comes any more; memory goes when the threads are done. Takes NULL. */
void kr_passwords_close(struct kr_passwords *p);
/* Queues it. 0; KR_ERR_BUSY when too many wait; KR_ERR_INVALID for a password that is empty or too long; -ENOMEM. */
int kr_passwords_ask(struct kr_passwords *p, const struct kr_password_ask *ask, kr_password_done_fn *on_done,
                     void *data, struct kr_password_job **ret_job, struct kr_err *err);
/* The caller has left: no callback. The work itself is not done if it still waits. */
void kr_password_forget(struct kr_password_job *job);

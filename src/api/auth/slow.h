/* Refusals that are kept back for a moment: an address that has shown too many wrong keys waits for each further
 * answer, while a good key is let in at once. Called by auth.c. Loop thread only. */
#pragma once

struct kr_err;
struct kr_http_ex;
struct kr_slow;
struct uv_loop_s;

#define KR_SLOW_MS 1000u /* how long an answer is kept back */
#define KR_SLOW_MAX 256u /* answers that are kept back at once, of all clients; the next one leaves at once */

/* 0 or -errno. */
int kr_slow_new(struct uv_loop_s *loop, struct kr_slow **ret);
/* Takes NULL. The server that the exchanges belong to is gone. */
void kr_slow_free(struct kr_slow *s);
/* Answers with the error and Retry-After after KR_SLOW_MS; at once when KR_SLOW_MAX wait already. */
void kr_slow_refuse(struct kr_slow *s, struct kr_http_ex *ex, const struct kr_err *err, unsigned retry_after_s);

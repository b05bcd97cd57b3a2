/* src/engine/run.c: what is sent to a run that is over, whose session is being killed. Run by tests/run. */
#include "check.h"
#include "engine_internal.h"
#include <errno.h>
#include <string.h>

/* What earlier calls have left on the stack. */
static __attribute__((noinline)) void fill_stack(void)
{
    char bytes[16384];

    memset(bytes, 0xa5, sizeof bytes);
    __asm__ volatile("" : : "r"(bytes) : "memory");
}

static void a_size_for_a_terminal_that_is_killed(void)
{
    static struct kr_session s = {.state = KR_SESSION_KILLED};
    static struct kr_run r = {.session = &s, .state = KR_RUN_RUNNING, .terminal = true};
    struct kr_s_steer how = {.cols = 80, .rows = 24};

    fill_stack();
    CHECK(kr_run_steer(&r, &how) == -ESRCH);
}

static void an_answer_about_packages_for_a_run_that_is_over(void)
{
    static struct kr_session s = {.state = KR_SESSION_IDLE};
    static struct kr_run r = {.session = &s, .state = KR_RUN_ENDED};

    fill_stack();
    CHECK(kr_run_packaged(&r, 1, "{}", 2, true) == -ESRCH);
}

int main(void)
{
    RUN(a_size_for_a_terminal_that_is_killed);
    RUN(an_answer_about_packages_for_a_run_that_is_over);
    CHECK_DONE();
}

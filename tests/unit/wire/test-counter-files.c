/* src/wire: counter files that stay open. Run by tests/run. */
#include "check.h"
#include "counter_files.h"
#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

static const char a_name[] = "a", b_name[] = "b";

static int some_fd(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void the_last_cells_keep_their_files(void)
{
    struct kr_counter_files f;
    int a = some_fd(), b = some_fd(), other = some_fd(), next;

    kr_counter_files_init(&f);
    CHECK(kr_counter_files_most(&f) == KR_KEPT_CELLS * KR_KEPT_FILES);
    CHECK(kr_counter_files_find(&f, 0x10003, 0, a_name) == -1);
    kr_counter_files_keep(&f, 0x10003, 0, a_name, a);
    kr_counter_files_keep(&f, 0x10003, 1, a_name, b);
    kr_counter_files_keep(&f, 0x20004, 0, a_name, other);
    CHECK(kr_counter_files_find(&f, 0x10003, 0, a_name) == a && kr_counter_files_find(&f, 0x10003, 1, a_name) == b);
    CHECK(kr_counter_files_find(&f, 0x10003, 0, b_name) == -1);
    /* A later cell of the same index is not taken for it, and has its place. */
    CHECK(kr_counter_files_find(&f, 0x30003, 0, a_name) == -1);
    next = some_fd();
    kr_counter_files_keep(&f, 0x30003, 0, a_name, next);
    CHECK(!is_open(a) && !is_open(b) && kr_counter_files_find(&f, 0x10003, 0, a_name) == -1);
    CHECK(kr_counter_files_find(&f, 0x30003, 0, a_name) == next);
    kr_counter_files_forget(&f, 0x10003); /* that of another */
    CHECK(is_open(next));
    kr_counter_files_forget(&f, 0x30003);
    CHECK(!is_open(next) && kr_counter_files_find(&f, 0x30003, 0, a_name) == -1 && is_open(other));
    kr_counter_files_done(&f);
    CHECK(!is_open(other));
}

static void what_has_no_place_is_closed(void)
{
    struct rlimit was, few;
    struct kr_counter_files f;
    int fd;

    kr_counter_files_init(&f);
    for (unsigned i = 0; i < KR_KEPT_FILES; i++)
        kr_counter_files_keep(&f, 1, i, a_name, some_fd());
    fd = some_fd();
    kr_counter_files_keep(&f, 1, KR_KEPT_FILES, a_name, fd);
    CHECK(!is_open(fd) && kr_counter_files_find(&f, 1, KR_KEPT_FILES, a_name) == -1);
    CHECK(is_open(kr_counter_files_find(&f, 1, 0, a_name)));
    kr_counter_files_done(&f);
    /* Nor is any kept where descriptors are scarce. */
    getrlimit(RLIMIT_NOFILE, &was);
    few = (struct rlimit){256, was.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    kr_counter_files_init(&f);
    CHECK(kr_counter_files_most(&f) == 0);
    fd = some_fd();
    kr_counter_files_keep(&f, 1, 0, a_name, fd);
    CHECK(!is_open(fd) && kr_counter_files_find(&f, 1, 0, a_name) == -1);
    kr_counter_files_done(&f);
    setrlimit(RLIMIT_NOFILE, &was);
}

int main(void)
{
    RUN(the_last_cells_keep_their_files);
    RUN(what_has_no_place_is_closed);
    CHECK_DONE();
}

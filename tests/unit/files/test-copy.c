/* src/files/files_copy: copies of whole folders, whatever is in them. */
#include "check.h"
#include "fd.h"
#include "files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[] = "/tmp/krait-test-copy-XXXXXX";
static struct kr_err err;

static void shell(const char *command)
{
    if (system(command) != 0)
        abort();
}

/* 0, or the error of the copy of `from` into a new folder `to`. */
static int copy_of(const char *from, const char *to, uint64_t entries)
{
    const struct kr_files_copy_max max = {.entries = entries};
    cleanup_fd int in = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC), out = -1;
    int r;

    if (mkdir(to, 0700) < 0)
        abort();
    out = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    err = (struct kr_err){0};
    r = kr_files_copy(in, out, &max, &err);
    return r < 0 && !err.msg[0] ? -ENOMSG : r; /* a refusal says why */
}

static void everything_that_can_be_copied(void)
{
    struct stat st;

    shell("mkdir -p a/deep/er a/empty && printf one > a/f && printf two > a/deep/er/g && ln a/f a/second && "
          "ln -s ../outside a/link && mkfifo a/pipe && chmod 750 a/f && chmod 555 a/deep/er && "
          "truncate -s 10M a/sparse && touch -d @1000 a/f a/empty && printf x > a/.krait-upload-0");
    CHECK(copy_of("a", "b", 0) == 0);
    shell("test \"$(cat b/f b/second b/deep/er/g)\" = oneonetwo && test \"$(readlink b/link)\" = ../outside && "
          "test \"$(stat -c %a b/f b/deep/er | tr '\\n' ' ')\" = '750 555 ' && "
          "test \"$(stat -c %Y b/f b/empty | tr '\\n' ' ')\" = '1000 1000 '");
    CHECK(lstat("b/pipe", &st) < 0 && lstat("b/.krait-upload-0", &st) < 0);
    CHECK(stat("b/f", &st) == 0 && st.st_nlink == 1);
    CHECK(stat("b/sparse", &st) == 0 && st.st_size == 10 << 20);
    shell("chmod 755 a/deep/er b/deep/er");
}

static void bounds_and_errors_are_told(void)
{
    char path[4096];
    int r;

    CHECK(copy_of("a", "c", 3) < 0 && err.kind == KR_ERR_LIMIT && strstr(err.msg, "3 files"));
    snprintf(path, sizeof path, "i=0; cd a; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done");
    shell(path);
    CHECK(copy_of("a", "d", 0) < 0 && err.kind == KR_ERR_LIMIT && strstr(err.msg, "deep"));
    shell("rm -rf a/d && printf secret > a/closed && chmod 0 a/closed");
    r = copy_of("a", "e", 0);
    CHECK(geteuid() == 0 ? r == 0 : r < 0 && strstr(err.msg, "closed"));
}

static int remove_base(void)
{
    char command[64];

    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command);
}

int main(void)
{
    if (!mkdtemp(base) || chdir(base) < 0)
        abort();
    RUN(everything_that_can_be_copied);
    RUN(bounds_and_errors_are_told);
    if (chdir("/") < 0 || remove_base() != 0)
        abort();
    CHECK_DONE();
}

/* Which project ids the shelf touches, on a kernel whose quotas are this test's own: shelf_project.c is compiled with
 * fake_syscall() for syscall(). What a real kernel enforces is in tests/shelf. */
#include "check.h"
#include "hash.h"
#include "shelf_internal.h"
#include <errno.h>
#include <linux/dqblk_xfs.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/quota.h>
#include <sys/syscall.h>

#define FIRST 0x6b000000u /* krait's own range */
#define LAST 0x6bffffffu
#define OF_PROJECTS(command) (unsigned)QCMD((unsigned)(command), 2)

static uint32_t probed; /* the last id whose limits were set */
static unsigned sets, gets;
static int all_are_used; /* but the one that was probed */

long fake_syscall(long number, ...);
long fake_syscall(long number, ...)
{
    va_list args;
    unsigned command;
    uint32_t id;
    void *data;

    va_start(args, number);
    (void)va_arg(args, int);
    command = va_arg(args, unsigned);
    id = va_arg(args, uint32_t);
    data = va_arg(args, void *);
    va_end(args);
    if (command == OF_PROJECTS(Q_XGETQSTAT))
        ((struct fs_quota_stat *)data)->qs_flags = FS_QUOTA_PDQ_ENFD;
    if (command == OF_PROJECTS(Q_SETQUOTA)) {
        probed = id;
        sets++;
    }
    if (command == OF_PROJECTS(Q_GETQUOTA)) {
        ((struct dqblk *)data)->dqb_curinodes = all_are_used && id != probed;
        gets++;
    }
    return 0;
}

static void quotas_are_tried_with_an_id_of_our_own(void)
{
    CHECK(kr_shelf_project_on(-1) && sets == 1);
    CHECK(probed >= FIRST && probed <= LAST);
}

/* A folder whose search begins shortly before that id passes it, although it looks free. */
static void that_id_is_given_to_no_folder(void)
{
    struct kr_shelf s = KR_SHELF_NONE;
    struct kr_err err;
    char name[16];
    unsigned tried = 0;

    all_are_used = 1;
    for (unsigned i = 0; tried < 4; i++) {
        snprintf(name, sizeof name, "n%u", i);
        if (kr_hash_text(KR_HASH_START, name) % (LAST - FIRST + 1) < LAST - FIRST - 2000)
            continue;
        CHECK(kr_shelf_project_give(&s, -1, name, &err) == -EUSERS);
        tried++;
    }
    CHECK(gets > 4000);
    all_are_used = 0; /* the control: a free one is found, and only then is the folder looked at, which is none */
    CHECK(kr_shelf_project_give(&s, -1, name, &err) == -EBADF);
}

int main(void)
{
    RUN(quotas_are_tried_with_an_id_of_our_own);
    RUN(that_id_is_given_to_no_folder);
    CHECK_DONE();
}

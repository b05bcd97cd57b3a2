/* The shelf where nothing needs a privilege: what is decided, and which questions are refused. What a filesystem
 * enforces is in tests/shelf. */
#include "check.h"
#include "fd.h"
#include "shelf.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[] = "/tmp/krait-test-shelf-XXXXXX";
static char path[64], image[80], inside[80];

static struct kr_w_shelf question_of(enum kr_shelf_op op, const char *name)
{
    struct kr_w_shelf q = {.op = op};
    memcpy(q.name, name, strlen(name));
    return q;
}

static int ask(enum kr_shelf_op op, const char *name, uint64_t bytes, uint64_t inodes, struct kr_w_shelved *ret)
{
    struct kr_shelf s = KR_SHELF_NONE;
    struct kr_w_shelf q = question_of(op, name);
    struct kr_err err = {0};
    int r;
    q.bytes = bytes;
    q.inodes = inodes;
    s.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = kr_shelf_do(&s, &q, ret, &err);
    if (r < 0 && !err.msg[0])
        r = -ENOMSG; /* a refusal says why */
    kr_shelf_close(&s);
    return r;
}

static void questions_of_a_folder(void)
{
    struct kr_w_shelved a;
    CHECK(ask(KR_SHELF_OPEN, "", 0, 0, &a) == 0 && a.kind == KR_SHELF_IS_FOLDER && !a.image);
    CHECK(a.size > 0 && a.room > 0 && a.host_free == a.room && a.max_bytes == 0);
    CHECK(ask(KR_SHELF_MAKE, "abc0", 1 << 20, 10, &a) == 0 && a.kind == KR_SHELF_IS_FOLDER);
    CHECK(access(inside, F_OK) < 0); /* the server's to make */
    CHECK(ask(KR_SHELF_USAGE, "abc0", 0, 0, &a) == -ENOENT);
    CHECK(mkdir(inside, 0700) == 0);
    CHECK(ask(KR_SHELF_USAGE, "abc0", 0, 0, &a) == 0 && a.kind == KR_SHELF_IS_FOLDER && a.max_bytes == 0);
    CHECK(ask(KR_SHELF_LIMIT, "abc0", 1 << 20, 0, &a) == 0 && a.kind == KR_SHELF_IS_FOLDER);
    CHECK(ask(KR_SHELF_DROP, "abc0", 0, 0, &a) == 0 && access(inside, F_OK) == 0);
    CHECK(rmdir(inside) == 0);
    CHECK(ask(KR_SHELF_GROW, "", UINT64_C(1) << 31, 0, &a) == -EOPNOTSUPP);
}

static void questions_are_refused(void)
{
    static const char *const wrong[] = {"..", ".", "a/b", "/", "A", "a_b", "a b", "\xc3\xa4"};
    char full[KR_FOLDER_ROOM + 1];
    struct kr_w_shelved a;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(ask(KR_SHELF_MAKE, wrong[i], 0, 0, &a) == -EINVAL);
    memset(full, 'a', sizeof full);
    full[KR_FOLDER_ROOM] = '\0'; /* no room for a NUL in the question */
    CHECK(ask(KR_SHELF_USAGE, full, 0, 0, &a) == -EINVAL);
    CHECK(ask(KR_SHELF_MAKE, "", 0, 0, &a) == -EINVAL);
    CHECK(ask(KR_SHELF_OPEN, "abc", 0, 0, &a) == -EINVAL);
    CHECK(ask(KR_SHELF_GROW, "abc", 0, 0, &a) == -EINVAL);
    CHECK(ask(KR_SHELF_OP_MAX_, "abc", 0, 0, &a) == -EINVAL);
    CHECK(ask(KR_SHELF_MAKE, "abc", KR_SHELF_SIZE_MAX + 1, 0, &a) == -ERANGE);
    CHECK(ask(KR_SHELF_MAKE, "abc", 0, UINT64_MAX, &a) == -ERANGE);
}

static int plan(enum kr_shelf_choice choice, struct kr_shelf_plan *ret, struct kr_err *err)
{
    struct kr_shelf_config c = {.path = path, .choice = choice};
    *err = (struct kr_err){0};
    return kr_shelf_plan(&c, ret, err);
}

static void plans(void)
{
    struct kr_shelf_plan p;
    struct kr_err err;
    int fd;
    CHECK(plan(KR_SHELF_FOLDER, &p, &err) == 0 && p.kind == KR_SHELF_IS_FOLDER && !p.image && p.why[0]);
    /* Sandboxes that are there stay where they are, and an image is refused. */
    CHECK(mkdir(inside, 0700) == 0);
    CHECK(plan(KR_SHELF_IMAGE, &p, &err) < 0 && strstr(err.msg, "shelf = image"));
    CHECK(plan(KR_SHELF_AUTO, &p, &err) == 0 && !p.image);
    CHECK(p.kind != KR_SHELF_IS_FOLDER || strstr(p.why, "krait shelf move"));
    CHECK(rmdir(inside) == 0);
    if (geteuid() != 0)
        CHECK(plan(KR_SHELF_AUTO, &p, &err) == 0 && strstr(p.why, "not root"));
    /* An image that exists, whatever it is, is not passed over. */
    fd = open(image, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
    CHECK(plan(KR_SHELF_FOLDER, &p, &err) == -EEXIST && strstr(err.msg, "krait shelf move"));
    CHECK(plan(KR_SHELF_AUTO, &p, &err) == (geteuid() == 0 ? 0 : -EPERM) && p.exists && p.image);
    CHECK(unlink(image) == 0);
}

static void settling_for_a_folder(void)
{
    struct kr_shelf_config c = {.path = path, .choice = KR_SHELF_AUTO};
    struct kr_shelf_plan p = {.kind = KR_SHELF_IS_BTRFS, .image = 1};
    struct kr_err err;
    kr_err_set(&err, KR_ERR_UNAVAILABLE, EPERM, "no loop device");
    CHECK(kr_shelf_settle_for_folder(&c, &p, -EPERM, &err) == 0);
    CHECK(p.kind == KR_SHELF_IS_FOLDER && !p.image && strstr(p.why, "no loop device"));
    p = (struct kr_shelf_plan){.kind = KR_SHELF_IS_BTRFS, .image = 1, .exists = 1};
    CHECK(kr_shelf_settle_for_folder(&c, &p, -EPERM, &err) == -EPERM && p.image);
    p.exists = 0;
    c.choice = KR_SHELF_IMAGE;
    CHECK(kr_shelf_settle_for_folder(&c, &p, -EPERM, &err) == -EPERM && p.image);
}

int main(void)
{
    if (!mkdtemp(top))
        return 1;
    snprintf(path, sizeof path, "%s/sandboxes", top);
    snprintf(image, sizeof image, "%s.image", path);
    snprintf(inside, sizeof inside, "%s/abc0", path);
    if (mkdir(path, 0700) < 0)
        return 1;
    RUN(questions_of_a_folder);
    RUN(questions_are_refused);
    RUN(plans);
    RUN(settling_for_a_folder);
    rmdir(path);
    rmdir(top);
    CHECK_DONE();
}

/* The store of unpacked wheels: complete or absent, also when the process that fills it is killed. */
#include "check.h"
#include "err.h"
#include "package_env.h"
#include "package_store.h"
#include "wheel-maker.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILLS 40
#define FILES 16

static struct kr_err err;
static char scratch[] = "/tmp/kr-test-store-XXXXXX";
static const struct kr_package_python python = {"3.11.2", "/krait/bin/python", "/usr/bin"};

static int new_folder(void)
{
    static unsigned count;
    char path[64];

    snprintf(path, sizeof path, "%s/%u", scratch, count++);
    mkdir(path, 0755);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void remove_scratch(void)
{
    char command[96];

    snprintf(command, sizeof command, "rm -rf %s", scratch);
    if (system(command) != 0)
        printf("# %s stays\n", scratch);
}

static int count_in(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d)
        return -1;
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

/* A wheel whose module says `value`, and its hash. */
static int make_wheel(const char *value, char sha256[KR_SHA256_ROOM])
{
    const struct made_entry more[] = {{.name = "good/value.txt", .text = value, .stored = true}, {0}};
    struct made_wheel *w = maker_make(more, NULL);
    int fd = maker_file(w->data, w->len);

    memcpy(sha256, maker_sha256(w->data, w->len), KR_SHA256_ROOM);
    maker_free(w);
    return fd;
}

static int add_value(struct kr_package_store *s, const char *value, char key[KR_PACKAGE_KEY_ROOM])
{
    char sha256[KR_SHA256_ROOM];
    int fd = make_wheel(value, sha256);
    int r = kr_package_store_add(s, fd, MAKER_NAME, sha256, &kr_wheel_limits_default, NULL, key, &err);

    close(fd);
    return r;
}

static void a_wheel_is_added_once(void)
{
    int data = new_folder(), fd;
    struct kr_package_store *s, *again;
    char sha256[KR_SHA256_ROOM], key[KR_PACKAGE_KEY_ROOM], other[KR_PACKAGE_KEY_ROOM], path[128];
    struct kr_package_facts facts;
    struct kr_package_store_size size;
    struct stat st;

    CHECK(kr_package_store_open(data, &s, &err) == 0);
    fd = make_wheel("one", sha256);
    CHECK(kr_package_store_has(s, sha256, key) == 0);
    CHECK(kr_package_store_add(s, fd, MAKER_NAME, sha256, &kr_wheel_limits_default, NULL, key, &err) == 0);
    CHECK(kr_package_store_has(s, sha256, other) == 1 && strcmp(key, other) == 0);
    CHECK(!strstr(key, sha256) && strncmp(key, sha256, 8) != 0);
    CHECK(kr_package_store_facts(s, key, &facts) == 0);
    CHECK(strcmp(facts.name, "Good") == 0 && strcmp(facts.version, "1.0") == 0 && strcmp(facts.file, MAKER_NAME) == 0);
    CHECK(strcmp(facts.sha256, sha256) == 0 && facts.files == 8 && facts.bytes > 0);
    CHECK(kr_package_store_facts(s, "aaaaaaaaaaaaaaaaaaaa", &facts) == -ENOENT);
    CHECK(kr_package_store_facts(s, "../store", &facts) == -ENOENT);
    snprintf(path, sizeof path, "packages/store/%s/site/good/value.txt", key);
    CHECK(fstatat(data, path, &st, 0) == 0 && st.st_nlink == 1 && st.st_size == 3 && (st.st_mode & 07777) == 0644);
    CHECK(fstatat(data, "packages/store", &st, 0) == 0 && (st.st_mode & 07777) == 0711);
    CHECK(fstatat(data, "packages/index", &st, 0) == 0 && (st.st_mode & 07777) == 0700);
    CHECK(kr_package_store_open(data, &again, &err) == 0); /* another process has the same names */
    CHECK(kr_package_store_add(again, fd, MAKER_NAME, sha256, &kr_wheel_limits_default, NULL, other, &err) == 0);
    CHECK(strcmp(key, other) == 0 && count_in(data, "packages/store") == 1 && count_in(data, "packages/tmp") == 0);
    CHECK(kr_package_store_measure(again, &size) == 0 && size.folders == 1);
    CHECK(size.bytes >= 8 * 512u && size.bytes % 512 == 0 && size.bytes > facts.bytes); /* blocks */
    kr_package_store_free(again);
    kr_package_store_free(s);
    close(fd);
    close(data);
}

static void what_is_wrong_is_not_kept(void)
{
    int data = new_folder(), fd, odd = maker_file("not a wheel", 11);
    char sha256[KR_SHA256_ROOM], key[KR_PACKAGE_KEY_ROOM] = "";
    const volatile bool stop = true;
    struct kr_wheel_limits small = kr_wheel_limits_default;
    struct kr_package_store *s;

    CHECK(kr_package_store_open(data, &s, &err) == 0);
    fd = make_wheel("one", sha256);
    small.files_max = 2;
    CHECK(kr_package_store_add(s, fd, MAKER_NAME, "00", &kr_wheel_limits_default, NULL, key, &err) < 0);
    CHECK(err.kind == KR_ERR_INVALID);
    CHECK(kr_package_store_add(s, fd, MAKER_NAME, sha256, &small, NULL, key, &err) < 0 && err.kind == KR_ERR_LIMIT);
    CHECK(kr_package_store_add(s, fd, MAKER_NAME, sha256, &kr_wheel_limits_default, &stop, key, &err) == -ECANCELED);
    CHECK(kr_package_store_add(s, fd, "bad-1.0-py3-none-any.whl", sha256, &kr_wheel_limits_default, NULL, key, &err) <
          0);
    sha256[5] = sha256[5] == '0' ? '1' : '0';
    CHECK(kr_package_store_add(s, fd, MAKER_NAME, sha256, &kr_wheel_limits_default, NULL, key, &err) < 0);
    CHECK(err.kind == KR_ERR_INVALID && strstr(err.msg, "has the hash"));
    CHECK(kr_package_store_add(s, odd, MAKER_NAME, maker_sha256("not a wheel", 11), &kr_wheel_limits_default, NULL, key,
                               &err) < 0);
    CHECK(err.kind == KR_ERR_INVALID && key[0] == '\0');
    CHECK(count_in(data, "packages/store") == 0 && count_in(data, "packages/tmp") == 0);
    kr_package_store_free(s);
    close(fd);
    close(odd);
    close(data);
}

/* ---- killed at any moment ---- */

static _Noreturn void add_and_make(int data, int folder, int fd, const char *sha256)
{
    struct kr_package_item item = {.name = "good", .version = "1.0", .sha256 = sha256, .index = "", .file = MAKER_NAME};
    char key[KR_PACKAGE_KEY_ROOM];
    struct kr_package_store *s;
    struct kr_package_made made;
    struct kr_package_list *list;

    for (;;) {
        if (kr_package_store_open(data, &s, &err) < 0 || kr_package_env_read(folder, &list, &err) < 0 ||
            kr_package_store_add(s, fd, MAKER_NAME, sha256, &kr_wheel_limits_default, NULL, key, &err) < 0)
            _exit(1);
        item.key = key;
        if (kr_package_env_make(folder, s, &python, &item, 1, list->generation, &made, &err) < 0)
            _exit(2);
        kr_package_list_free(list);
        kr_package_store_free(s);
    }
}

/* Each folder of the store has all of its files; the environment has nothing or all. */
static bool is_whole(int data, int folder, unsigned *ret_stored, unsigned *ret_made)
{
    int store = openat(data, "packages/store", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = store < 0 ? NULL : fdopendir(store);
    struct kr_package_list *list;
    struct dirent *e;
    bool fine = true;

    while (d && (e = readdir(d))) {
        char path[300];

        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/site/good/sub", e->d_name);
        fine = fine && count_in(store, path) == FILES;
        snprintf(path, sizeof path, "%s/krait.json", e->d_name);
        fine = fine && faccessat(store, path, R_OK, 0) == 0;
        (*ret_stored)++;
    }
    if (d)
        closedir(d);
    if (!fine || kr_package_env_read(folder, &list, &err) < 0)
        return false;
    if (list->generation > 0) {
        struct stat st;

        (*ret_made)++;
        fine = list->count == 1 && faccessat(folder, "env/pyvenv.cfg", R_OK, 0) == 0 &&
               fstatat(folder, "env/current/lib/python3.11/site-packages/good", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
               S_ISLNK(st.st_mode);
    }
    kr_package_list_free(list);
    return fine;
}

static int make_large_wheel(char sha256[KR_SHA256_ROOM])
{
    static char names[FILES][32];
    struct made_entry more[FILES + 1] = {0};
    struct made_wheel *w;
    int fd;

    for (int i = 0; i < FILES; i++) {
        snprintf(names[i], sizeof names[i], "good/sub/f%d.py", i);
        more[i] = (struct made_entry){.name = names[i], .text = "X = 1\n"};
    }
    w = maker_make(more, NULL);
    fd = maker_file(w->data, w->len);
    memcpy(sha256, maker_sha256(w->data, w->len), KR_SHA256_ROOM);
    maker_free(w);
    return fd;
}

static void killed_at_any_moment(void)
{
    char sha256[KR_SHA256_ROOM];
    int fd = make_large_wheel(sha256);
    unsigned stored = 0, made = 0;
    struct timespec wait = {0};
    uint64_t freed;

    srandom(1);
    for (int i = 0; i < KILLS; i++) {
        int data = new_folder(), folder = new_folder(), status;
        pid_t pid = fork();
        struct kr_package_sweep sweep = {.bytes_max = UINT64_MAX, .roots = &folder, .root_count = 0};
        struct kr_package_store *s;

        CHECK(pid >= 0);
        if (pid == 0)
            add_and_make(data, folder, fd, sha256);
        wait.tv_nsec = random() % (i % 3 == 0 ? 2000000 : i % 3 == 1 ? 60000000 : 600000000);
        nanosleep(&wait, NULL);
        kill(pid, SIGKILL);
        CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
        CHECK(is_whole(data, folder, &stored, &made));
        CHECK(kr_package_store_open(data, &s, &err) == 0); /* it goes on from there, and what was left is cleared */
        CHECK(kr_package_store_sweep(s, &sweep, &freed, &err) == 0 && count_in(data, "packages/tmp") == 0);
        kr_package_store_free(s);
        close(data);
        close(folder);
    }
    printf("# %d kills: %u had a folder in the store, %u an environment\n", KILLS, stored, made);
    close(fd);
}

/* ---- sweeping ---- */

static void make_old(int data, const char *key, int64_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    char path[64];

    snprintf(path, sizeof path, "packages/index/%s", key);
    utimensat(data, path, times, 0);
}

static bool is_there(int data, const char *key)
{
    char path[64];

    snprintf(path, sizeof path, "packages/store/%s", key);
    return faccessat(data, path, F_OK, 0) == 0;
}

static void a_sweep_takes_the_longest_unused(void)
{
    int data = new_folder(), shelf = new_folder(), folder;
    char keys[4][KR_PACKAGE_KEY_ROOM], sha256[KR_SHA256_ROOM];
    static const char *const values[] = {"0", "1", "2", "3"};
    struct kr_package_item item = {.name = "good", .version = "1.0", .key = keys[0], .sha256 = "", .file = ""};
    struct kr_package_sweep sweep = {.grace_s = 3600, .roots = &shelf, .root_count = 1};
    struct kr_package_store_size size;
    struct kr_package_store *s;
    struct kr_package_made made;
    uint64_t freed = 0, one;

    CHECK(kr_package_store_open(data, &s, &err) == 0);
    for (int i = 0; i < 4; i++) {
        CHECK(add_value(s, values[i], keys[i]) == 0);
        make_old(data, keys[i], i == 3 ? 10 : 100000 - i * 1000);
    }
    CHECK(kr_package_store_measure(s, &size) == 0 && size.folders == 4);
    one = size.bytes / 4;
    mkdirat(shelf, "box", 0755);
    folder = openat(shelf, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(kr_package_env_make(folder, s, &python, &item, 1, 0, &made, &err) == 0);
    sweep.bytes_max = size.bytes;
    CHECK(kr_package_store_sweep(s, &sweep, &freed, &err) == 0 && freed == 0);
    sweep.bytes_max = size.bytes - 1; /* one must go: the oldest is referred to, so the next */
    CHECK(kr_package_store_sweep(s, &sweep, &freed, &err) == 0 && freed == one);
    CHECK(is_there(data, keys[0]) && !is_there(data, keys[1]) && is_there(data, keys[2]) && is_there(data, keys[3]));
    sweep.bytes_max = 0; /* the youngest was asked for just now */
    CHECK(kr_package_store_sweep(s, &sweep, &freed, &err) == 0 && freed == one);
    CHECK(is_there(data, keys[0]) && !is_there(data, keys[2]) && is_there(data, keys[3]));
    CHECK(count_in(data, "packages/tmp") == 0 && count_in(data, "packages/index") == 2);
    CHECK(kr_package_env_make(folder, s, &python, NULL, 0, made.generation, &made, &err) == 0);
    CHECK(kr_package_store_sweep(s, &sweep, &freed, &err) == 0 && freed == 0); /* the previous generation has it */
    CHECK(kr_package_env_make(folder, s, &python, NULL, 0, made.generation, &made, &err) == 0);
    make_old(data, keys[0], 100000);
    CHECK(kr_package_store_sweep(s, &sweep, &freed, &err) == 0 && freed == one && !is_there(data, keys[0]));
    close(make_wheel("0", sha256));
    CHECK(kr_package_store_has(s, sha256, keys[0]) == 0 && add_value(s, "0", keys[0]) == 0); /* and comes again */
    kr_package_store_free(s);
    close(folder);
    close(shelf);
    close(data);
}

static void a_sweep_ends_at_what_it_cannot_read(void)
{
    int data = new_folder(), shelf = new_folder();
    char key[KR_PACKAGE_KEY_ROOM];
    struct kr_package_sweep sweep = {.grace_s = 3600, .roots = &shelf, .root_count = 1};
    struct kr_package_store *s;
    uint64_t freed = 7;

    CHECK(kr_package_store_open(data, &s, &err) == 0 && add_value(s, "0", key) == 0);
    make_old(data, key, 100000);
    mkdirat(shelf, "box", 0755);
    mkdirat(shelf, "box/env", 0755);
    mkdirat(shelf, "box/env/g1", 0755); /* without krait.json */
    CHECK(kr_package_store_sweep(s, &sweep, &freed, &err) < 0 && freed == 7 && is_there(data, key));
    unlinkat(shelf, "box/env/g1", AT_REMOVEDIR);
    CHECK(kr_package_store_sweep(s, &sweep, &freed, &err) == 0 && freed > 0 && !is_there(data, key));
    kr_package_store_free(s);
    close(shelf);
    close(data);
}

static void what_is_being_filled_stays(void)
{
    int data = new_folder(), held;
    struct kr_package_sweep sweep = {.bytes_max = UINT64_MAX};
    struct kr_package_store *s;
    uint64_t freed;

    CHECK(kr_package_store_open(data, &s, &err) == 0);
    mkdirat(data, "packages/tmp/held", 0700);
    mkdirat(data, "packages/tmp/left", 0700);
    mkdirat(data, "packages/tmp/left/deep", 0700);
    close(openat(data, "packages/tmp/left/deep/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    held = openat(data, "packages/tmp/held", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(flock(held, LOCK_EX) == 0);
    CHECK(kr_package_store_sweep(s, &sweep, &freed, &err) == 0);
    CHECK(count_in(data, "packages/tmp") == 1 && faccessat(data, "packages/tmp/held", F_OK, 0) == 0);
    close(held);
    CHECK(kr_package_store_sweep(s, &sweep, &freed, &err) == 0 && count_in(data, "packages/tmp") == 0);
    kr_package_store_free(s);
    close(data);
}

/* ---- bytecode ---- */

#define PYC "\0\0\0\0\1\0\0\0hash-of-code"
#define PYC_LEN 20

static int give(struct kr_package_store *s, const char *key, const struct made_entry *entries)
{
    struct made_wheel *w = maker_make_bare(entries);
    int fd = maker_file(w->data, w->len), r = kr_package_store_add_bytecode(s, key, fd, &err);

    maker_free(w);
    close(fd);
    return r;
}

static void bytecode_comes_beside_its_source(void)
{
    static const struct {
        struct made_entry entries[2];
        const char *words;
    } bad[] = {
        {{{.name = "good/__pycache__/other.cpython-311.pyc", .text = PYC, .len = PYC_LEN}}, "no source of the wheel"},
        {{{.name = "good/__pycache__/__init__.pyc", .text = PYC, .len = PYC_LEN}}, "not named as bytecode"},
        {{{.name = "good/__init__.cpython-311.pyc", .text = PYC, .len = PYC_LEN}}, "not named as bytecode"},
        {{{.name = "good/x__pycache__/more.cpython-311.pyc", .text = PYC, .len = PYC_LEN}}, "not named as bytecode"},
        {{{.name = "good/__pycache__/more.pypy-311.pyc", .text = PYC, .len = PYC_LEN}}, "not named as bytecode"},
        {{{.name = "good/__pycache__/more.cpython-311.py", .text = PYC, .len = PYC_LEN}}, "not named as bytecode"},
        {{{.name = "good/__pycache__/more.cpython-311.pyc", .text = "short"}}, "unchecked form"},
        {{{.name = "good/__pycache__/more.cpython-311.pyc", .text = "0123456789abcdefgh"}}, "unchecked form"},
        {{{.name = "../good/__pycache__/more.cpython-311.pyc", .text = PYC, .len = PYC_LEN}}, "is . or .."},
    };
    const struct made_entry fine[] = {
        {.name = "good/__pycache__/__init__.cpython-311.pyc", .text = PYC, .len = PYC_LEN},
        {.name = "good/__pycache__/more.cpython-311.pyc", .text = PYC, .len = PYC_LEN},
        {0}};
    static char much[2u << 20]; /* of a few lines */
    const struct made_entry large[] = {
        {.name = "good/__pycache__/more.cpython-311.pyc", .text = much, .len = sizeof much}, {0}};
    char key[KR_PACKAGE_KEY_ROOM], path[128];
    struct kr_package_store *s;
    int data = new_folder();
    struct stat st;

    memcpy(much, PYC, PYC_LEN);
    CHECK(kr_package_store_open(data, &s, &err) == 0 && add_value(s, "0", key) == 0);
    CHECK(give(s, key, large) < 0 && err.kind == KR_ERR_LIMIT);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int r = give(s, key, bad[i].entries);

        if (r >= 0 || !strstr(err.msg, bad[i].words))
            printf("# %s: %d %s\n", bad[i].entries[0].name, r, err.msg);
        CHECK(r < 0 && strstr(err.msg, bad[i].words) && err.kind == KR_ERR_INVALID);
    }
    snprintf(path, sizeof path, "packages/store/%s/site/good/__pycache__", key);
    CHECK(faccessat(data, path, F_OK, 0) < 0 && count_in(data, "packages/tmp") == 0);
    CHECK(give(s, key, fine) == 0 && give(s, key, fine) == 0); /* what is there stays */
    CHECK(count_in(data, path) == 2 && count_in(data, "packages/tmp") == 0);
    strcat(path, "/more.cpython-311.pyc");
    CHECK(fstatat(data, path, &st, 0) == 0 && st.st_size == PYC_LEN && (st.st_mode & 07777) == 0644);
    CHECK(give(s, "aaaaaaaaaaaaaaaaaaaa", fine) < 0 && err.kind == KR_ERR_NOT_FOUND);
    kr_package_store_free(s);
    close(data);
}

int main(void)
{
    if (!mkdtemp(scratch))
        return 1;
    umask(077); /* modes do not depend on it */
    RUN(a_wheel_is_added_once);
    RUN(what_is_wrong_is_not_kept);
    RUN(killed_at_any_moment);
    RUN(a_sweep_takes_the_longest_unused);
    RUN(a_sweep_ends_at_what_it_cannot_read);
    RUN(what_is_being_filled_stays);
    RUN(bytecode_comes_beside_its_source);
    remove_scratch();
    CHECK_DONE();
}

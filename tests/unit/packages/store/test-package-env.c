/* Environments: generations of links, each complete. */
#include "buf.h"
#include "check.h"
#include "err.h"
#include "package_env.h"
#include "wheel-maker.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SITE "env/current/lib/python3.11/site-packages/"

static struct kr_err err;
static char scratch[] = "/tmp/kr-test-env-XXXXXX";
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

/* Where a link leads; "" if it is none. */
static const char *target(int dir, const char *path)
{
    static char text[600];
    ssize_t n = readlinkat(dir, path, text, sizeof text - 1);

    text[n < 0 ? 0 : n] = '\0';
    return text;
}

static bool is_folder(int dir, const char *path)
{
    struct stat st;

    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0755;
}

static bool leads(int dir, const char *path, const char *key, const char *below)
{
    char wanted[300];

    snprintf(wanted, sizeof wanted, "/krait/packages/%s/%s", key, below);
    if (strcmp(target(dir, path), wanted) != 0)
        printf("# %s leads to %s, not %s\n", path, target(dir, path), wanted);
    return strcmp(target(dir, path), wanted) == 0;
}

/* A wheel of the maker under another name. */
struct box {
    int data, folder;
    struct kr_package_store *s;
    char keys[8][KR_PACKAGE_KEY_ROOM];
    struct kr_package_item items[8];
    size_t count;
};

static int make_named(const char *name, const struct made_entry *more, char file[64], char sha256[KR_SHA256_ROOM])
{
    char metadata[128];
    struct made_texts texts = {.metadata = metadata};
    struct made_wheel *w;
    int fd;

    snprintf(metadata, sizeof metadata, "Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n", name);
    snprintf(file, 64, "%s-1.0-py3-none-any.whl", name);
    w = maker_make_named(name, more, &texts);
    fd = maker_file(w->data, w->len);
    memcpy(sha256, maker_sha256(w->data, w->len), KR_SHA256_ROOM);
    maker_free(w);
    return fd;
}

static int add(struct box *b, const char *name, const struct made_entry *more)
{
    static char files[16][64], hashes[16][KR_SHA256_ROOM];
    static unsigned n;
    char *file = files[n % 16], *sha256 = hashes[n++ % 16];
    int fd = make_named(name, more, file, sha256);
    int r = kr_package_store_add(b->s, fd, file, sha256, &kr_wheel_limits_default, NULL, b->keys[b->count], &err);

    if (r < 0)
        printf("# %s: %s\n", name, err.msg);
    b->items[b->count] = (struct kr_package_item){.name = name,
                                                  .version = "1.0",
                                                  .key = b->keys[b->count],
                                                  .sha256 = sha256,
                                                  .index = "https://i.example/",
                                                  .file = file,
                                                  .requested = b->count == 0};
    b->count++;
    close(fd);
    return r;
}

static bool open_box(struct box *b)
{
    *b = (struct box){.data = new_folder(), .folder = new_folder()};
    return kr_package_store_open(b->data, &b->s, &err) == 0;
}

static void close_box(struct box *b)
{
    kr_package_store_free(b->s);
    close(b->data);
    close(b->folder);
}

static void an_environment_is_complete_from_the_start(void)
{
    struct box b;
    struct kr_package_list *list;
    char cfg[200] = "";
    int fd;

    CHECK(open_box(&b));
    CHECK(kr_package_env_read(b.folder, &list, &err) == 0 && list->count == 0 && list->generation == 0);
    kr_package_list_free(list);
    CHECK(kr_package_env_ensure(b.folder, &python, &err) == 0);
    CHECK(kr_package_env_read(b.folder, &list, &err) == 0 && list->count == 0 && list->generation == 1);
    kr_package_list_free(list);
    CHECK(kr_package_env_ensure(b.folder, &python, &err) == 0); /* nothing new */
    CHECK(strcmp(target(b.folder, "env/current"), "g1") == 0);
    CHECK(strcmp(target(b.folder, "env/bin"), "current/bin") == 0);
    CHECK(strcmp(target(b.folder, "env/current/bin/python"), "/krait/bin/python") == 0);
    CHECK(strcmp(target(b.folder, "env/current/bin/python3"), "python") == 0);
    CHECK(is_folder(b.folder, "env/g1/lib/python3.11/site-packages") && is_folder(b.folder, "env/g1/share"));
    CHECK(is_folder(b.folder, "env/g1/etc") && is_folder(b.folder, "env/g1/include/site/python3.11"));
    fd = openat(b.folder, "env/pyvenv.cfg", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, cfg, sizeof cfg - 1) > 0);
    close(fd);
    CHECK(strcmp(cfg, "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.11.2\n") == 0);
    close_box(&b);
}

static void wheels_become_links(void)
{
    const struct made_entry more[] = {{.name = "good/x.py"},
                                      {.name = "good-1.0.data/scripts/go", .text = "#!python\n"},
                                      {.name = "good-1.0.data/scripts/python", .text = "#!/bin/sh\n"},
                                      {.name = "good-1.0.data/data/share/man/go.1", .text = "man"},
                                      {.name = "good-1.0.data/data/krait.json", .text = "no"},
                                      {.name = "good-1.0.data/headers/go.h", .text = "h"},
                                      {0}};
    struct box b;
    struct kr_package_list *list;
    struct kr_package_made made;

    CHECK(open_box(&b) && add(&b, "good", more) == 0);
    CHECK(kr_package_env_make(b.folder, b.s, &python, b.items, 1, 0, &made, &err) == 0);
    CHECK(made.generation == 1 && made.notes[0] == '\0' && made.links > 4);
    CHECK(leads(b.folder, SITE "good", b.keys[0], "site/good"));
    CHECK(leads(b.folder, SITE "good-1.0.dist-info", b.keys[0], "site/good-1.0.dist-info"));
    CHECK(leads(b.folder, "env/bin/go", b.keys[0], "bin/go"));
    CHECK(strcmp(target(b.folder, "env/bin/python"), "/krait/bin/python") == 0);
    CHECK(leads(b.folder, "env/share/man", b.keys[0], "data/share/man"));
    CHECK(leads(b.folder, "env/current/include/site/python3.11/good", b.keys[0], "headers/good"));
    CHECK(kr_package_env_read(b.folder, &list, &err) == 0 && list->count == 1);
    CHECK(strcmp(list->items[0].name, "good") == 0 && list->items[0].requested && !list->items[0].own);
    CHECK(strcmp(list->items[0].index, "https://i.example/") == 0 && list->items[0].module_count == 1);
    CHECK(strcmp(list->items[0].modules[0], "good") == 0 && strcmp(list->items[0].key, b.keys[0]) == 0);
    CHECK(kr_package_list_find(list, "good") == &list->items[0] && !kr_package_list_find(list, "bad"));
    kr_package_list_free(list);
    close_box(&b);
}

static void folders_of_several_are_merged(void)
{
    const struct made_entry one[] = {{.name = "shared/one.py"},       {.name = "shared/deep/one.py"},
                                     {.name = "shared/alone/x.py"},   {.name = "clash.py", .text = "1"},
                                     {.name = "odd", .text = "file"}, {0}};
    const struct made_entry two[] = {{.name = "shared/two.py"},
                                     {.name = "shared/deep/two.py"},
                                     {.name = "clash.py", .text = "2"},
                                     {.name = "odd/x.py"},
                                     {0}};
    struct box b;
    struct kr_package_made made;

    CHECK(open_box(&b) && add(&b, "one", one) == 0 && add(&b, "two", two) == 0);
    CHECK(kr_package_env_make(b.folder, b.s, &python, b.items, 2, 0, &made, &err) == 0);
    CHECK(is_folder(b.folder, SITE "shared") && is_folder(b.folder, SITE "shared/deep"));
    CHECK(leads(b.folder, SITE "shared/deep/one.py", b.keys[0], "site/shared/deep/one.py"));
    CHECK(leads(b.folder, SITE "shared/deep/two.py", b.keys[1], "site/shared/deep/two.py"));
    CHECK(leads(b.folder, SITE "shared/alone", b.keys[0], "site/shared/alone"));
    CHECK(leads(b.folder, SITE "clash.py", b.keys[1], "site/clash.py"));
    CHECK(leads(b.folder, SITE "odd", b.keys[1], "site/odd"));
    CHECK(strstr(made.notes, "one and two have lib/python3.11/site-packages/clash.py; that of two is used\n"));
    CHECK(strstr(made.notes, "site-packages/odd; that of two is used\n"));
    close_box(&b);
}

static void libraries_find_those_of_other_wheels(void)
{
    const struct made_entry more[] = {
        {.name = "good/lib/x.so", .text = "$ORIGIN/../../other"}, {.name = "good/plain/x.py"}, {0}};
    struct box b;
    struct kr_package_made made;

    CHECK(open_box(&b) && add(&b, "good", more) == 0);
    CHECK(kr_package_env_make(b.folder, b.s, &python, b.items, 1, 0, &made, &err) == 0);
    CHECK(is_folder(b.folder, SITE "good") && is_folder(b.folder, SITE "good/lib"));
    CHECK(leads(b.folder, SITE "good/lib/x.so", b.keys[0], "site/good/lib/x.so"));
    CHECK(leads(b.folder, SITE "good/plain", b.keys[0], "site/good/plain"));
    close_box(&b);
}

static void generations_follow_each_other(void)
{
    const struct made_entry none[] = {{0}};
    struct box b;
    struct kr_package_made made;
    struct kr_package_list *list;

    CHECK(open_box(&b) && add(&b, "zeta", none) == 0 && add(&b, "Alpha.one", none) == 0);
    CHECK(kr_package_env_ensure(b.folder, &python, &err) == 0);
    CHECK(kr_package_env_make(b.folder, b.s, &python, b.items, 2, 1, &made, &err) == 0 && made.generation == 2);
    CHECK(kr_package_env_read(b.folder, &list, &err) == 0 && list->count == 2);
    CHECK(strcmp(list->items[0].name, "Alpha.one") == 0 && strcmp(list->items[1].name, "zeta") == 0);
    CHECK(kr_package_list_find(list, "alpha-one") == &list->items[0]);
    kr_package_list_free(list);
    CHECK(kr_package_env_make(b.folder, b.s, &python, b.items, 1, 1, &made, &err) < 0 && err.kind == KR_ERR_CONFLICT);
    CHECK(kr_package_env_make(b.folder, b.s, &python, b.items, 1, 2, &made, &err) == 0 && made.generation == 3);
    CHECK(faccessat(b.folder, "env/g1", F_OK, 0) < 0 && is_folder(b.folder, "env/g2"));
    CHECK(target(b.folder, SITE "Alpha_one-1.0.dist-info")[0] == '\0');
    b.items[1] = b.items[0];
    CHECK(kr_package_env_make(b.folder, b.s, &python, b.items, 2, 3, &made, &err) < 0 && strstr(err.msg, "twice"));
    b.items[1].name = "other";
    b.items[1].key = "aaaaaaaaaaaaaaaaaaaa";
    CHECK(kr_package_env_make(b.folder, b.s, &python, b.items, 2, 3, &made, &err) < 0 && err.kind == KR_ERR_NOT_FOUND);
    CHECK(strcmp(target(b.folder, "env/current"), "g3") == 0 && faccessat(b.folder, "env/.new", F_OK, 0) < 0);
    close_box(&b);
}

static void own_wheels(void)
{
    const struct made_entry none[] = {{0}};
    char file[64], sha256[KR_SHA256_ROOM], again[KR_SHA256_ROOM], path[128];
    struct box b;
    struct kr_package_made made;
    struct kr_package_item item = {.name = "built", .version = "1.0", .own = true, .index = ""};
    char key[KR_PACKAGE_KEY_ROOM];
    int fd, env;

    CHECK(open_box(&b) && kr_package_env_ensure(b.folder, &python, &err) == 0);
    env = openat(b.folder, "env", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = make_named("built", none, file, sha256);
    CHECK(kr_package_own_add(env, fd, file, &kr_wheel_limits_default, NULL, key, again, &err) == 0);
    CHECK(strcmp(sha256, again) == 0);
    CHECK(kr_package_own_add(env, fd, file, &kr_wheel_limits_default, NULL, key, again, &err) == 0);
    item.key = key;
    item.sha256 = sha256;
    item.file = file;
    CHECK(kr_package_env_make(b.folder, b.s, &python, &item, 1, 1, &made, &err) == 0);
    snprintf(path, sizeof path, "/venv/own/%s/site/built-1.0.dist-info", key);
    CHECK(strcmp(target(b.folder, SITE "built-1.0.dist-info"), path) == 0);
    snprintf(path, sizeof path, "own/%s", key);
    CHECK(kr_package_env_make(b.folder, b.s, &python, NULL, 0, 2, &made, &err) == 0);
    CHECK(faccessat(env, path, F_OK, 0) == 0); /* the previous generation has it */
    CHECK(kr_package_env_make(b.folder, b.s, &python, NULL, 0, 3, &made, &err) == 0);
    CHECK(faccessat(env, path, F_OK, 0) < 0);
    close(fd);
    fd = maker_file("not a wheel", 11);
    CHECK(kr_package_own_add(env, fd, file, &kr_wheel_limits_default, NULL, key, again, &err) < 0);
    CHECK(err.kind == KR_ERR_INVALID);
    close(fd);
    close(env);
    close_box(&b);
}

static void lists_as_pip_prints_them(void)
{
    struct kr_package_item items[] = {{.name = "PyYAML", .version = "6.0.1"}, {.name = "a-b", .version = "1"}};
    const struct kr_package_list list = {.items = items, .count = 2}, empty = {0};
    const struct kr_package_system system[] = {{"numpy", "1.24.2"}, {"pyyaml", "6.0"}, {"setuptools", "66"}};
    struct kr_buf b;

    kr_buf_init(&b, 4096);
    CHECK(kr_package_list_columns(&list, system, 3, &b) == 0);
    CHECK(strcmp(kr_buf_str(&b), "Package    Version\n---------- -------\na-b        1\nnumpy      1.24.2\n"
                                 "PyYAML     6.0.1\nsetuptools 66\n") == 0);
    kr_buf_reset(&b);
    CHECK(kr_package_list_freeze(&list, system, 3, &b) == 0);
    CHECK(strcmp(kr_buf_str(&b), "a-b==1\nnumpy==1.24.2\nPyYAML==6.0.1\n") == 0);
    kr_buf_reset(&b);
    CHECK(kr_package_list_columns(&empty, NULL, 0, &b) == 0 && b.len == 0);
    kr_buf_done(&b);
}

int main(void)
{
    if (!mkdtemp(scratch))
        return 1;
    umask(077); /* modes do not depend on it */
    RUN(an_environment_is_complete_from_the_start);
    RUN(wheels_become_links);
    RUN(folders_of_several_are_merged);
    RUN(libraries_find_those_of_other_wheels);
    RUN(generations_follow_each_other);
    RUN(own_wheels);
    RUN(lists_as_pip_prints_them);
    remove_scratch();
    CHECK_DONE();
}

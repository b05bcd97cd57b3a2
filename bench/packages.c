/* bench-packages: what an install of wheels costs that the store has, from their hashes to the environment that counts.
 *
 * bench/packages.py starts it once. `open DATA` opens (or makes) a store there, `add FILE SHA256` puts a wheel into it,
 * `install FOLDER` asks the store for all of them and makes an environment beneath the new folder: the functions that a
 * job of the server calls once the resolver has answered. */
#include "err.h"
#include "package_env.h"
#include "samples.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHEELS_MAX 64

static const struct kr_package_python python = {"3.11.2", "/krait/bin/python", "/usr/bin"};
static struct kr_package_store *store;
static char hashes[WHEELS_MAX][KR_SHA256_ROOM];
static unsigned count;
static struct kr_bench_samples samples;
static struct kr_err err;

static void open_store(const char *path)
{
    int data = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = data < 0 ? -1 : kr_package_store_open(data, &store, &err);

    if (data >= 0)
        close(data);
    if (r < 0)
        kr_bench_refuse(data < 0 ? "no such folder" : err.msg);
    else
        kr_bench_answer(&samples);
}

static void add_wheel(const char *path, const char *sha256)
{
    const char *slash = strrchr(path, '/');
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char key[KR_PACKAGE_KEY_ROOM];
    double start = kr_bench_now();
    int r = fd < 0 || count == WHEELS_MAX || strlen(sha256) != KR_SHA256_ROOM - 1
                ? kr_err_set(&err, KR_ERR_INVALID, 0, "add FILE SHA256, at most %d", WHEELS_MAX)
                : kr_package_store_add(store, fd, slash ? slash + 1 : path, sha256, &kr_wheel_limits_default, NULL, key,
                                       &err);

    if (fd >= 0)
        close(fd);
    if (r < 0) {
        kr_bench_refuse(err.msg);
        return;
    }
    memcpy(hashes[count++], sha256, KR_SHA256_ROOM);
    kr_bench_add(&samples, "add", kr_bench_now() - start);
    kr_bench_answer(&samples);
}

static int install(int folder)
{
    struct kr_package_item items[WHEELS_MAX] = {0};
    static struct kr_package_facts facts[WHEELS_MAX];
    static char keys[WHEELS_MAX][KR_PACKAGE_KEY_ROOM];
    struct kr_package_made made;

    for (unsigned i = 0; i < count; i++) {
        if (kr_package_store_has(store, hashes[i], keys[i]) <= 0 ||
            kr_package_store_facts(store, keys[i], &facts[i]) < 0)
            return kr_err_set(&err, KR_ERR_NOT_FOUND, 0, "a wheel is not in the store");
        items[i] = (struct kr_package_item){.name = facts[i].name,
                                            .version = facts[i].version,
                                            .key = keys[i],
                                            .sha256 = facts[i].sha256,
                                            .index = "",
                                            .file = facts[i].file,
                                            .requested = true};
    }
    return kr_package_env_make(folder, store, &python, items, count, 0, &made, &err);
}

static void make_environment(const char *path)
{
    double start = kr_bench_now();
    int folder = mkdir(path, 0755) < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder < 0 || !store || install(folder) < 0) {
        kr_bench_refuse(folder < 0 ? "the folder cannot be made" : err.msg);
    } else {
        kr_bench_add(&samples, "install", kr_bench_now() - start);
        kr_bench_answer(&samples);
    }
    if (folder >= 0)
        close(folder);
}

int main(void)
{
    char line[4096], *words[4];

    kr_bench_clear(&samples);
    while (fgets(line, sizeof line, stdin)) {
        size_t n = kr_bench_words(line, words, 4);

        if (n == 2 && strcmp(words[0], "open") == 0)
            open_store(words[1]);
        else if (n == 3 && store && strcmp(words[0], "add") == 0)
            add_wheel(words[1], words[2]);
        else if (n == 2 && strcmp(words[0], "install") == 0)
            make_environment(words[1]);
        else
            kr_bench_refuse("open DATA, add FILE SHA256 or install FOLDER");
    }
    kr_package_store_free(store);
    return 0;
}

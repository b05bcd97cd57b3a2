/* What fuzzers share: must(), and the program that replays a corpus when there is no libFuzzer. With -fsanitize=fuzzer
 * a fuzzer is a libFuzzer target; otherwise it replays the files and folders given as arguments and prints PASS or FAIL
 * for each. A fuzzer includes this once and defines LLVMFuzzerTestOneInput(). */
#pragma once
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPLAY_INPUT_MAX (1u << 20)
#ifndef FUZZ_NAME
#define FUZZ_NAME program_invocation_short_name
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *violation; /* what did not hold for this input; NULL if all did */
static bool replaying;

static void must(bool holds, const char *what)
{
    if (holds || violation)
        return;
    violation = what;
    if (replaying)
        return;
    fprintf(stderr, "violated: %s\n", what);
    abort();
}

/* Replays one file from memory of just its size, so that a sanitizer sees a read past its end. True if all held. */
static bool replay_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    uint8_t *data = malloc(REPLAY_INPUT_MAX), *exact = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 || !data ? -1 : read(fd, data, REPLAY_INPUT_MAX);

    violation = n < 0 ? "the file cannot be read" : NULL;
    if (n >= 0 && (exact = malloc(n ? (size_t)n : 1))) {
        memcpy(exact, data, (size_t)n);
        LLVMFuzzerTestOneInput(exact, (size_t)n);
    }
    if (violation)
        printf("FAIL %s/%s: %s\n", FUZZ_NAME, name, violation);
    else
        printf("PASS %s/%s\n", FUZZ_NAME, name);
    free(exact);
    free(data);
    if (fd >= 0)
        close(fd);
    return !violation;
}

/* Weak: libFuzzer brings a main of its own, which then is the one. */
__attribute__((weak)) int main(int argc, char **argv)
{
    unsigned replayed = 0, failed = 0;

    replaying = true;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        struct dirent *e;
        char file[4096];

        if (!d) {
            failed += !replay_file(argv[i]);
            replayed++;
        }
        while (d && (e = readdir(d))) {
            if (e->d_name[0] == '.')
                continue;
            snprintf(file, sizeof file, "%s/%s", argv[i], e->d_name);
            failed += !replay_file(file);
            replayed++;
        }
        if (d)
            closedir(d);
    }
    if (replayed == 0)
        printf("FAIL %s: no corpus was given\n", FUZZ_NAME);
    return failed > 0 || replayed == 0;
}

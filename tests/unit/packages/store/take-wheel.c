/* See take-wheel.h. */
#include "take-wheel.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct kr_err err;
char scratch[] = "/tmp/kr-test-wheel-XXXXXX";

/* A new empty folder in the scratch folder. */
int new_folder(void)
{
    static unsigned count;
    char path[64];

    snprintf(path, sizeof path, "%s/%u", scratch, count++);
    mkdir(path, 0700);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void remove_scratch(void)
{
    char command[96];

    snprintf(command, sizeof command, "rm -rf %s", scratch);
    if (system(command) != 0)
        printf("# %s stays\n", scratch);
}

int entries_in(int folder)
{
    DIR *d = fdopendir(dup(folder));
    int n = 0;

    rewinddir(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

/* Opens and unpacks. 0, 1: refused before anything was written, 2: while unpacking. */
int take_as(const struct made_wheel *w, const char *name, const struct kr_wheel_limits *limits, int *ret_folder)
{
    int fd = maker_file(w->data, w->len), folder = new_folder(), r;
    struct kr_wheel *wheel;

    memset(&err, 0, sizeof err);
    r = kr_wheel_open(fd, name, limits, &wheel, &err) < 0 ? 1 : 0;
    if (r == 0) {
        r = kr_wheel_unpack(wheel, folder, NULL, &err) < 0 ? 2 : 0;
        kr_wheel_free(wheel);
    } else if (entries_in(folder) != 0) {
        r = -1;
    }
    close(fd);
    if (ret_folder)
        *ret_folder = folder;
    else
        close(folder);
    return r;
}

int take(const struct made_wheel *w)
{
    return take_as(w, MAKER_NAME, &kr_wheel_limits_default, NULL);
}

/* Was it refused, with these words? Says what came if not. */
bool refused(const char *what, int r, const char *words)
{
    bool fine =
        (r == 1 || r == 2) && strstr(err.msg, words) && (err.kind == KR_ERR_INVALID || err.kind == KR_ERR_LIMIT);

    if (!fine)
        printf("# %s: %d %s\n", what, r, err.msg);
    return fine;
}

bool was_taken(const char *what, int r)
{
    if (r != 0)
        printf("# %s: %d %s\n", what, r, err.msg);
    return r == 0;
}

/* A shelf of its own, driven by lines: shelf-driver PATH auto|image|folder SIZE DISCARD. It does what the warden does
 * at its start (plan, namespace, up, keeper) and prints one line, then sends each line it reads, `OP NAME BYTES INODES
 * FROM` with - for no name, to the keeper and prints the answer: `ok` and the fields of struct kr_w_shelved, or `error`
 * with errno and text. The mount is to be seen at /proc/PID/root. Ends at end of file, or with the keeper. */
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "shelf.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 60000

static const char *const ops[KR_SHELF_OP_MAX_] = {"open", "make", "copy", "limit", "drop", "usage", "grow"};
static const char *const choices[KR_SHELF_CHOICE_MAX_] = {"auto", "image", "folder"};

static int find_word(const char *const *words, int count, const char *word)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

static int say_error(const struct kr_err *err)
{
    printf("error %d %s\n", err->code, err->msg);
    fflush(stdout);
    return 1;
}

static int ask(int keeper, const struct kr_w_shelf *question)
{
    static uint32_t id;
    union {
        struct kr_w_shelved shelved;
        struct kr_err err;
        char room[KR_FRAME_CONTROL_MAX];
    } a;
    int fds[KR_FRAME_FDS_MAX];
    struct kr_frame f;
    struct kr_err err = {0};
    if (kr_frame_send(keeper, KR_W_SHELF, ++id, question, sizeof *question, NULL, 0) < 0 ||
        kr_frame_recv(keeper, &f, &a, sizeof a, fds, kr_clock_after_ms(WAIT_MS), &err) < 0 || f.id != id)
        return -1;
    if (f.type == KR_W_FAILED)
        return say_error(&a.err);
    printf("ok %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
           a.shelved.kind, a.shelved.image, a.shelved.bytes, a.shelved.inodes, a.shelved.max_bytes,
           a.shelved.max_inodes, a.shelved.room, a.shelved.size, a.shelved.host_free);
    fflush(stdout);
    return 0;
}

static int serve_lines(int keeper)
{
    char line[256], op[16], name[64], from[64];
    while (fgets(line, sizeof line, stdin)) {
        struct kr_w_shelf question = {0};
        int known;
        if (sscanf(line, "%15s %63s %" SCNu64 " %" SCNu64 " %63s", op, name, &question.bytes, &question.inodes, from) !=
            5)
            return 2;
        known = find_word(ops, KR_SHELF_OP_MAX_, op);
        question.op = known < 0 ? 99 : (uint32_t)known;
        if (strcmp(name, "-") != 0)
            memcpy(question.name, name, strnlen(name, sizeof question.name));
        if (strcmp(from, "-") != 0)
            memcpy(question.from, from, strnlen(from, sizeof question.from));
        if (ask(keeper, &question) < 0)
            return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct kr_shelf_config c = {0};
    struct kr_shelf_plan plan;
    struct kr_shelf shelf = KR_SHELF_NONE;
    struct kr_err err = {0};
    cleanup_fd int point = -1;
    int keeper, status;
    pid_t pid;
    if (argc != 5)
        return 2;
    c = (struct kr_shelf_config){.path = argv[1],
                                 .choice = (enum kr_shelf_choice)find_word(choices, KR_SHELF_CHOICE_MAX_, argv[2]),
                                 .size = strtoull(argv[3], NULL, 10),
                                 .discard = atoi(argv[4])};
    if (kr_shelf_plan(&c, &plan, &err) < 0 || (plan.image && kr_shelf_namespace(&err) < 0))
        return say_error(&err);
    point = open(c.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (kr_shelf_up(&c, &plan, point, &shelf, &err) < 0 &&
        (kr_shelf_settle_for_folder(&c, &plan, -1, &err) < 0 || kr_shelf_up(&c, &plan, point, &shelf, &err) < 0))
        return say_error(&err);
    keeper = kr_shelf_keeper(&shelf, &pid, &err);
    if (keeper < 0)
        return say_error(&err);
    printf("up %d %d %d %s\n", shelf.kind, shelf.image, getpid(), plan.why);
    fflush(stdout);
    status = serve_lines(keeper);
    close(keeper);
    (void)waitpid(pid, NULL, 0);
    kr_shelf_down(&shelf);
    return status;
}

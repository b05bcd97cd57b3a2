/* Fuzzes the reader of a resolver's answer. What must hold: every file that is taken has a canonical name, a path
 * beneath the cell's own index, a plain file name and a hash or none; none is there twice.
 *
 * An input is lines, as a cell prints them. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-install-answer"
#include "install_answer.h"
#include "replay.h"

static void inspect_file(const struct kr_answer *a, size_t i)
{
    const struct kr_answer_file *f = &a->files[i];
    char canonical[KR_REQ_NAME_ROOM];

    must(kr_requirement_canonical(f->name, strlen(f->name), canonical) && strcmp(canonical, f->canonical) == 0,
         "a name is one");
    must(strncmp(f->path, "index/file/", 11) == 0 && !strpbrk(f->path, " \r\n\t"), "a path is one of the index");
    must(f->file[0] && !strchr(f->file, '/'), "a file has a plain name");
    must(!f->sha256[0] || strlen(f->sha256) == 64, "a hash is whole");
    for (size_t k = 0; k < i; k++)
        must(strcmp(a->files[k].canonical, f->canonical) != 0, "no name is there twice");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data, *end = at + size;
    char progress[KR_ANSWER_PROGRESS_MAX + 1];
    struct kr_answer a = {0};
    int r = 0;

    while (at < end && r >= 0) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline ? newline : end) - at);

        r = kr_answer_line(&a, at, len, true, progress, NULL);
        at += len + 1;
    }
    for (size_t i = 0; r >= 0 && a.is_whole && i < a.file_count; i++)
        inspect_file(&a, i);
    kr_answer_done(&a);
    return 0;
}

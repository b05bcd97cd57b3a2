/* Fuzzes the parser of ClientHellos. What must hold: the verdict on the first bytes of an input never changes when more
 * come, but from "more are needed"; a name that was read is one spelling of a host; a hello is not longer than what
 * there is. */
#define FUZZ_NAME "fuzz-hello"
#include "hello.h"
#include "replay.h"
#include <errno.h>

static void check_name(const char *name)
{
    size_t len = strlen(name);

    must(len < KR_EG_HOST_ROOM, "a name fits");
    must(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == len, "a name has letters in lower case");
    must(len == 0 || (name[0] != '.' && name[len - 1] != '.' && !strstr(name, "..")), "a name has no empty label");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    struct kr_eg_hello hello, again;
    int whole = kr_eg_hello_parse(bytes, size, &hello), before = 0;

    must(whole == -EBADMSG || (whole >= 0 && (size_t)whole <= size), "a length of what there is");
    if (whole > 0)
        check_name(hello.name);
    for (size_t n = 0; n <= size && n < 600; n++) {
        int r = kr_eg_hello_parse(bytes, n, &again);

        must(before == 0 || r == before, "more bytes change no verdict");
        must(r <= 0 || strcmp(again.name, hello.name) == 0, "nor a name");
        before = r;
    }
    must(size >= 600 || before == whole, "the last verdict is that on all");
    return 0;
}

/* The resolver's answer, as it is, and as a build that lies would print it. */
#include "check.h"
#include "err.h"
#include "install_answer.h"
#include <errno.h>

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LINK "http://127.0.0.1:3128/index/file/mac/" HASH "/https%3A%2F%2Fh%2Fthing-1.0-py3-none-any.whl/"
#define ROW_OF(name, version, url, more)                                                                               \
    "{\"name\":\"" name "\",\"version\":\"" version "\",\"url\":\"" url "\",\"requested\":true" more "}"
#define WHEEL "thing-1.0-py3-none-any.whl"
#define FINE ROW_OF("Thing", "1.0", LINK WHEEL, ",\"sdist\":false,\"sha256\":\"" HASH "\"")
#define ANSWER(rows) "{\"install\":[" rows "],\"satisfied\":[],\"warnings\":[]}"

static struct kr_err err;
static char progress[KR_ANSWER_PROGRESS_MAX + 1];

static int read_line(struct kr_answer *a, const char *line, bool build)
{
    *a = (struct kr_answer){0};
    return kr_answer_line(a, line, strlen(line), build, progress, &err);
}

static bool is_refused(const char *line, bool build)
{
    struct kr_answer a;
    int r = read_line(&a, line, build);

    kr_answer_done(&a);
    return r == -EPROTO;
}

static void an_answer_is_read(void)
{
    struct kr_answer a;

    CHECK(read_line(&a, ANSWER(FINE), false) == 0);
    CHECK(a.is_whole && a.file_count == 1 && !a.error);
    CHECK(strcmp(a.files[0].canonical, "thing") == 0 && strcmp(a.files[0].file, WHEEL) == 0);
    CHECK(strcmp(a.files[0].sha256, HASH) == 0 && a.files[0].requested && !a.files[0].sdist);
    CHECK(strncmp(a.files[0].path, "index/file/mac/", 15) == 0);
    CHECK(kr_answer_line(&a, ANSWER(""), strlen(ANSWER("")), false, progress, &err) == -EPROTO);
    kr_answer_done(&a);
}

static void what_is_there_is_told_apart(void)
{
    struct kr_answer a;

    CHECK(read_line(&a,
                    "{\"install\":[],\"satisfied\":[{\"name\":\"A\",\"version\":\"1\",\"requested\":true,"
                    "\"location\":\"/venv/lib/python3.11/site-packages\"},{\"name\":\"B\",\"version\":\"2\","
                    "\"requested\":false,\"location\":\"/usr/lib/python3/dist-packages\"}],\"warnings\":[\"w\"]}",
                    false) == 0);
    CHECK(a.have_count == 2 && a.have[0].in_venv && !a.have[1].in_venv && json_array_size(a.notes) == 1);
    kr_answer_done(&a);
}

static void errors_and_progress(void)
{
    struct kr_answer a;

    CHECK(read_line(&a, "{\"progress\":\"Collecting thing\"}", false) == 1);
    CHECK(strcmp(progress, "Collecting thing") == 0 && !a.is_whole);
    kr_answer_done(&a);
    CHECK(read_line(&a, "{\"error\":\"no\",\"kind\":\"not_found\",\"names\":[\"thing\"]}", false) == 0);
    CHECK(a.is_whole && strcmp(a.kind, "not_found") == 0 && json_array_size(a.names) == 1);
    kr_answer_done(&a);
    CHECK(is_refused("{\"error\":\"no\",\"kind\":\"ok\",\"names\":[]}", false));
    CHECK(read_line(&a, "a warning of some module", false) == 0 && !a.is_whole);
    kr_answer_done(&a);
}

static void sources_only_where_they_may_be(void)
{
#define SOURCE ANSWER(ROW_OF("thing", "1.0", LINK "thing-1.0.tar.gz", ",\"sdist\":true,\"sha256\":null"))
    struct kr_answer a;

    CHECK(is_refused(SOURCE, false));
    CHECK(read_line(&a, SOURCE, true) == 0 && a.files[0].sdist && a.files[0].sha256[0] == '\0');
    kr_answer_done(&a);
}

static void lies_are_refused(void)
{
#define MORE ",\"sdist\":false,\"sha256\":\"" HASH "\""
    static const char *const lies[] = {
        ANSWER(FINE "," FINE),
        ANSWER(ROW_OF("thing", "1.0", "http://127.0.0.1:3129/index/file/x/" WHEEL, MORE)),
        ANSWER(ROW_OF("thing", "1.0", "https://elsewhere.example/index/file/x/" WHEEL, MORE)),
        ANSWER(ROW_OF("thing", "1.0", "http://127.0.0.1:3128/index/simple/" WHEEL, MORE)),
        ANSWER(ROW_OF("thing", "1.0", "file:///etc/passwd", MORE)),
        ANSWER(ROW_OF("thing", "1.0", LINK "thing 1.0.whl", MORE)),
        ANSWER(ROW_OF("thing", "1.0", LINK "thing-1.0%2F..-py3-none-any.whl", MORE)),
        ANSWER(ROW_OF("thing", "1.0", LINK "%00", MORE)),
        ANSWER(ROW_OF("thing", "1.0", LINK "", MORE)),
        ANSWER(ROW_OF("other", "1.0", LINK WHEEL, MORE)),
        ANSWER(ROW_OF("thing", "2.0", LINK WHEEL, MORE)),
        ANSWER(ROW_OF("thing", "one", LINK WHEEL, MORE)),
        ANSWER(ROW_OF("../thing", "1.0", LINK WHEEL, MORE)),
        ANSWER(ROW_OF("thing", "1.0", LINK WHEEL, ",\"sdist\":false,\"sha256\":\"00\"")),
        ANSWER(ROW_OF("thing", "1.0", LINK WHEEL, ",\"sdist\":false")),
        ANSWER(ROW_OF("thing", "1.0", LINK WHEEL, ",\"sdist\":1,\"sha256\":null")),
        ANSWER("7"),
        "{\"install\":{},\"satisfied\":[]}",
        "{\"install\":[]}",
        "{\"install\":[],\"satisfied\":[{\"name\":\"a\"}]}",
    };

    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        if (!is_refused(lies[i], true))
            printf("# taken: %s\n", lies[i]);
        CHECK(is_refused(lies[i], true));
    }
}

int main(void)
{
    RUN(an_answer_is_read);
    RUN(what_is_there_is_told_apart);
    RUN(errors_and_progress);
    RUN(sources_only_where_they_may_be);
    RUN(lies_are_refused);
    CHECK_DONE();
}

/* src/mcp/exec/fold: lines in their last state, as a terminal shows them. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "buf.h"
#include "fold.h"
#include <stdlib.h>

static bool folds(const char *text, const char *expected)
{
    cleanup_buf struct kr_buf out;

    kr_buf_init(&out, 1u << 16);
    return kr_fold_text(&out, text, strlen(text)) == 0 && strcmp(kr_buf_str(&out), expected) == 0;
}

static void plain_text_stays(void)
{
    CHECK(!kr_fold_needed("a\tb\n\033[31mred\033[0m\n", 17));
    CHECK(kr_fold_needed("a\rb", 3) && kr_fold_needed("a\b", 2));
    CHECK(folds("", "") && folds("a", "a") && folds("a\n\nb  \n", "a\n\nb  \n"));
    CHECK(folds("a  \033[31mred\033[0m\nx\ry\n", "a  \033[31mred\033[0m\ny\n"));
}

static void the_last_state_of_a_line_is_left(void)
{
    CHECK(folds("\r 10%\r 50%\r100%\ndone\n", "100%\ndone\n"));
    CHECK(folds("loading...\rdone", "doneing..."));       /* what is not written over stays, as on a terminal */
    CHECK(folds("loading...\rdone      \nx", "done\nx")); /* … and blanks do write over it */
    CHECK(folds("50%\r", "50%"));
    CHECK(folds("one\r\ntwo\r\n", "one\ntwo\n"));
    CHECK(folds("a\r\rb\r\r\n", "b\n"));
    CHECK(folds("long line\r\033[Kok\n", "ok\n"));
    CHECK(folds("long line\r\033[2Kok", "ok"));
    CHECK(folds("abc\rx\033[0K\n", "x\n"));
    CHECK(folds("\033[32m 5%\033[0m\r\033[32m99%\033[0m\n", "99%\n"));
}

static void backspaces_go_back(void)
{
    CHECK(folds("abc\b\bX\n", "aXc\n"));
    CHECK(folds("\b\ba\b", "a"));
    CHECK(folds("|\b/\b-\b\\\bok\n", "ok\n"));
}

static void characters_stay_whole(void)
{
    CHECK(folds("äöü\rx\n", "xöü\n"));
    CHECK(folds("█████\r██░\b图\n", "██图██\n"));
    CHECK(folds("🐍🐍\r🐍\b\bé\n", "é🐍\n"));
}

static void broken_bytes_and_sequences_do_no_harm(void)
{
    cleanup_buf struct kr_buf out;
    static const char bad[] = "\xff\xfe\r\x80\x80\x80\x80\x80\n\033[\r\033\r\033[12;\r\xe2\x96";

    kr_buf_init(&out, 64);
    CHECK(kr_fold_text(&out, bad, sizeof bad - 1) == 0);
    kr_buf_reset(&out);
    CHECK(kr_fold_text(&out, "a\0b\rc", 5) == 0 && out.len == 3 && memcmp(out.data, "c\0b", 3) == 0);
}

static void a_full_buffer_is_an_error(void)
{
    cleanup_buf struct kr_buf out;

    kr_buf_init(&out, 3);
    CHECK(kr_fold_text(&out, "ab\rcd\nef", 8) < 0);
}

static void places_are_found_again(void)
{
    static const char text[] = "a\n 1%\r 2%\nzz\n";

    CHECK(kr_fold_source(text, sizeof text - 1, 0) == 0);
    CHECK(kr_fold_source(text, sizeof text - 1, 1) == 0);
    CHECK(kr_fold_source(text, sizeof text - 1, 2) == 2); /* the line of the progress, from its first state on */
    CHECK(kr_fold_source(text, sizeof text - 1, 5) == 2);
    CHECK(kr_fold_source(text, sizeof text - 1, 6) == 10);
    CHECK(kr_fold_source(text, sizeof text - 1, 9) == sizeof text - 1);
}

/* A line of a megabyte that is written over and over: a reader that copied it each time would not end. */
static void much_progress_is_linear(void)
{
    const size_t size = 16u << 20;
    cleanup_buf struct kr_buf out;
    char *text = malloc(size);

    CHECK(text != NULL);
    for (size_t i = 0; i < size; i++)
        text[i] = i % 2 ? '\r' : 'x';
    kr_buf_init(&out, size);
    CHECK(kr_fold_text(&out, text, size) == 0 && out.len == 1);
    memset(text, 'y', size / 2);
    kr_buf_reset(&out);
    CHECK(kr_fold_text(&out, text, size) == 0 && out.len == size / 2 + 1);
    for (size_t i = size / 2; i + 8 <= size; i += 8)
        memcpy(text + i, "\033[2Kxx\b\b", 8);
    kr_buf_reset(&out);
    CHECK(kr_fold_text(&out, text, size) == 0 && out.len == 2);
    free(text);
}

int main(void)
{
    RUN(plain_text_stays);
    RUN(the_last_state_of_a_line_is_left);
    RUN(backspaces_go_back);
    RUN(characters_stay_whole);
    RUN(broken_bytes_and_sequences_do_no_harm);
    RUN(a_full_buffer_is_an_error);
    RUN(places_are_found_again);
    RUN(much_progress_is_linear);
    CHECK_DONE();
}

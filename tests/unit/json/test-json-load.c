/* Trees that keep every number: from text to a tree and back, with every digit. */
#define _GNU_SOURCE 1
#include "check.h"
#include "buf.h"
#include "json_keep.h"
#include "json_load.h"
#include <stdlib.h>
#include <string.h>

static char *back(const char *text)
{
    json_t *root = kr_json_load(text, strlen(text), JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
    char *written = root ? kr_json_dump(root, JSON_ENCODE_ANY) : NULL;

    json_decref(root);
    return written;
}

/* NULL: refused. */
static void texts_come_back(void)
{
    static const struct {
        const char *text, *back;
    } rows[] = {
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "9223372036854775808"},
        {"-9223372036854775809", "-9223372036854775809"},
        {"[18446744073709551616,1,-99999999999999999999999]", "[18446744073709551616,1,-99999999999999999999999]"},
        {"{\"a\":{\"b\":[1e400]},\"c\":1E-400}", "{\"a\":{\"b\":[1e400]},\"c\":0.0}"},
        {"[1.5,0.25]", "[1.5,0.25]"},
        {"\"9223372036854775808\"", "\"9223372036854775808\""},
        {"[\"a 9223372036854775808 b\",9223372036854775808]", "[\"a 9223372036854775808 b\",9223372036854775808]"},
        {"\"\\ud83d\"", "\"\xef\xbf\xbd\""},
        {"\"\\udc00x\"", "\"\xef\xbf\xbdx\""},
        {"\"\\ud83d\\ud83d\\ude00\"", "\"\xef\xbf\xbd\xf0\x9f\x98\x80\""},
        {"\"\\\\ud83d\"", "\"\\\\ud83d\""},
        {"{\"\\ud800\":1}", "{\"\xef\xbf\xbd\":1}"},
        {"{\"\xef\xbf\xbfnumber\":\"5\"}", "5"},
        {"{\"\xef\xbf\xbfnumber\":\"5 \"}", "{\"\xef\xbf\xbfnumber\":\"5 \"}"},
        {"{\"\xef\xbf\xbfnumber\":\"},{\"}", "{\"\xef\xbf\xbfnumber\":\"},{\"}"},
        {"99999999999999999999x", NULL},
        {"099999999999999999999", NULL},
        {"[99999999999999999999", NULL},
        {"[NaN,99999999999999999999]", NULL},
        {"{\"a\":99999999999999999999,\"a\":1}", NULL},
        {"\"\\ud83", NULL},
        {"\"\\", NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *got = back(rows[i].text);
        bool good = rows[i].back ? got && strcmp(got, rows[i].back) == 0 : !got;

        if (!good)
            printf("%s: %s\n", rows[i].text, got ? got : "refused");
        CHECK(good);
        free(got);
    }
}

static void the_longest_number_is_what_python_reads(void)
{
    char text[KR_JSON_KEPT_MAX + 2], *got;

    memset(text, '9', sizeof text);
    text[KR_JSON_KEPT_MAX] = '\0';
    got = back(text);
    CHECK(got && strcmp(got, text) == 0);
    free(got);
    text[KR_JSON_KEPT_MAX] = '9';
    text[KR_JSON_KEPT_MAX + 1] = '\0';
    CHECK(!back(text));
}

static void kept_numbers_are_told_from_objects(void)
{
    json_t *number = kr_json_number("1e3", 3), *object = json_pack("{s:s}", KR_JSON_KEPT_KEY, "x");

    CHECK(strcmp(kr_json_kept(number), "1e3") == 0 && !kr_json_is_object(number));
    CHECK(!kr_json_kept(object) && kr_json_is_object(object));
    CHECK(!kr_json_kept(NULL) && !kr_json_is_object(NULL));
    CHECK(!kr_json_number("1e", 2) && !kr_json_number("", 0) && !kr_json_number("-", 1) && !kr_json_number(".5", 2));
    json_decref(number);
    json_decref(object);
}

/* A search from each of them to the end of the text would take minutes here. */
static void what_only_begins_like_a_kept_number_costs_one_look(void)
{
    static const char piece[] = "{\"" KR_JSON_KEPT_KEY "\":\"x\",\"a\":1},";
    const size_t count = 200000, n = sizeof piece - 1;
    char *text = malloc(count * n + 1);

    CHECK(text);
    if (!text)
        return;
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * n, piece, n);
    text[count * n] = '\0';
    CHECK(kr_json_restore(text, count * n) == count * n);
    CHECK(memcmp(text, piece, n) == 0 && memcmp(text + (count - 1) * n, piece, n) == 0);
    free(text);
}

int main(void)
{
    RUN(texts_come_back);
    RUN(what_only_begins_like_a_kept_number_costs_one_look);
    RUN(the_longest_number_is_what_python_reads);
    RUN(kept_numbers_are_told_from_objects);
    CHECK_DONE();
}

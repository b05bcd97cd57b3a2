/* What tools, resources and the documents' dialects are made of: Python literals as JSON, addresses, texts that are
 * cut, and the tables of tools, prompts and resources. */
#include "check.h"
#include "table-check.h"
#include "dialect_results.h"
#include "prompt.h"
#include "pyvalue.h"
#include "resource.h"
#include "tool.h"
#include "uri.h"

/* ---- Python literals ---- */

static char *read_back(const char *text)
{
    json_t *value = kr_pyvalue(text, strlen(text));
    char *out = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : strdup("no");

    json_decref(value);
    return out;
}

static void literals_become_values(void)
{
    static const char *const rows[][2] = {
        {"4", "4"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"3.0276503540974917", "3.0276503540974917"},
        {"1.7976931348623157e+308", "1.7976931348623157e308"},
        {"True", "true"},
        {"None", "null"},
        {" [1, 2.5, 'a'] ", "[1,2.5,\"a\"]"},
        {"()", "[]"},
        {"(1,)", "[1]"},
        {"{}", "{}"},
        {"{'a': {'b': [None]}, 1: 2, True: 3}", "{\"a\":{\"b\":[null]},\"1\":2,\"true\":3}"},
        {"'it\\'s'", "\"it's\""},
        {"\"it's\"", "\"it's\""},
        {"'\\n\\x00\\u20ac\\U0001f40d'", "\"\\n\\u0000\\u20AC\\uD83D\\uDC0D\""},
        {"'\\ud800'", "\"\\uFFFD\""},
        {"'\xc3\xbc'", "\"\\u00FC\""},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *got = read_back(rows[i][0]);

        CHECK(strcmp(got, rows[i][1]) == 0);
        free(got);
    }
}

static void what_is_no_literal_is_left_alone(void)
{
    static const char *const rows[] = {
        "",
        "nan",
        "inf",
        "-inf",
        "{1}",
        "b'x'",
        "<class 'object'>",
        "np.float64(3.0)",
        "1 2",
        "[1",
        "[1,,2]",
        "'open",
        "'a\n'",
        "'\\q'",
        "'\\x1'",
        "{'a'}",
        "{'a': }",
        "Truely",
        "12345678901234567890",
        "'\\U00110000'",
        "1.2.3",
        "--1",
        "{[1]: 2}",
        "{'a\\x00b': 1}",
        "datetime.date(2024, 1, 1)",
        "[1, ...]",
        "1e999",
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *got = read_back(rows[i]);

        CHECK(strcmp(got, "no") == 0);
        free(got);
    }
}

static void nesting_is_bounded(void)
{
    char text[2 * KR_PYVALUE_DEPTH_MAX + 8];
    size_t n = KR_PYVALUE_DEPTH_MAX;
    json_t *value;

    memset(text, '[', n);
    memset(text + n, ']', n);
    value = kr_pyvalue(text, 2 * n);
    CHECK(value);
    json_decref(value);
    memset(text, '[', n + 1);
    memset(text + n + 1, ']', n + 1);
    CHECK(!kr_pyvalue(text, 2 * n + 2));
    CHECK(!kr_pyvalue("[[[[", 4));
}

/* Whatever the bytes, nothing is read past their end: each text is in memory of its own length. */
static void cut_literals_are_survived(void)
{
    static const char whole[] = "{'a': [1, 2.5, 'x\\u20ac\\U0001f40d\\x41', None], \"b\": (True, False)}";

    for (size_t len = 0; len < sizeof whole; len++) {
        char *part = malloc(len + !len);
        json_t *value;

        memcpy(part, whole, len);
        value = kr_pyvalue(part, len);
        CHECK(!value == (len != sizeof whole - 1));
        json_decref(value);
        free(part);
    }
}

/* ---- addresses ---- */

static void addresses_are_read_back(void)
{
    static const char *const paths[] = {"a.txt", "d/e f/\xe5\x9b\xbe?#%.csv", "bad\377byte", "", "x'y\"z\n"};
    struct kr_mcp_uri uri;

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct kr_buf text;

        kr_buf_init(&text, KR_MCP_URI_MAX);
        CHECK(kr_mcp_uri_file(&text, "my box", paths[i]) == 0);
        CHECK(kr_mcp_uri_parse(kr_buf_str(&text), &uri) == 0);
        CHECK(uri.kind == KR_URI_SANDBOX && strcmp(uri.id, "my box") == 0 && strcmp(uri.path, paths[i]) == 0);
        kr_buf_reset(&text);
        CHECK(kr_mcp_uri_session(&text, "\xc3\xbc/?") == 0);
        CHECK(kr_mcp_uri_parse(kr_buf_str(&text), &uri) == 0);
        CHECK(uri.kind == KR_URI_SESSION && strcmp(uri.id, "\xc3\xbc/?") == 0);
        kr_buf_done(&text);
    }
    CHECK(kr_mcp_uri_parse("run://abc", &uri) == 0 && uri.kind == KR_URI_RUN && strcmp(uri.id, "abc") == 0);
    CHECK(kr_mcp_uri_parse("sandbox://a", &uri) == 0 && !uri.path[0]);
}

static void other_addresses_are_not_ours(void)
{
    static const char *const rows[] = {"",
                                       "sandbox://",
                                       "sandbox:///a",
                                       "sandbox:/a/b",
                                       "SANDBOX://a/b",
                                       "session://a/b",
                                       "run://",
                                       "sandbox://a/%",
                                       "sandbox://a/%4",
                                       "sandbox://a/%zz",
                                       "sandbox://a/%00",
                                       "sandbox://a%00b/c",
                                       "sandbox://a/b?c",
                                       "sandbox://a/b#c",
                                       "http://a/b",
                                       "file:///etc/passwd"};
    struct kr_mcp_uri uri;
    char *text = malloc(KR_MCP_URI_MAX + 2);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(kr_mcp_uri_parse(rows[i], &uri) < 0);
    memset(text, 'x', KR_MCP_URI_MAX + 1);
    text[KR_MCP_URI_MAX + 1] = '\0';
    memcpy(text, "run://", 6);
    CHECK(kr_mcp_uri_parse(text, &uri) < 0); /* too long, and its id would not fit */
    memcpy(text, "sandbox://a/", 12);
    text[KR_MCP_URI_MAX] = '\0';
    CHECK(kr_mcp_uri_parse(text, &uri) < 0); /* its path would not fit */
    free(text);
}

/* ---- texts ---- */

static bool cuts_to(const char *text, size_t chars, size_t bytes, bool cut, const char *expected)
{
    struct kr_buf buf;
    json_t *value;
    bool same;

    kr_buf_init(&buf, 1024);
    kr_buf_add_str(&buf, text);
    value = kr_compat_text(&buf, chars, bytes, cut, "[cut]");
    same = value && strcmp(json_string_value(value), expected) == 0;
    json_decref(value);
    kr_buf_done(&buf);
    return same;
}

static void texts_are_cut_between_characters(void)
{
    CHECK(cuts_to("abc", 3, 99, false, "abc"));
    CHECK(cuts_to("abcd", 3, 99, false, "abc[cut]"));
    CHECK(cuts_to("abc", 99, 99, true, "abc[cut]"));
    CHECK(cuts_to("\xc3\xbc\xc3\xbc\xc3\xbc", 2, 99, false, "\xc3\xbc\xc3\xbc[cut]"));
    CHECK(cuts_to("a\xc3\xbc"
                  "b",
                  99, 2, false, "a\xc3\xbc[cut]"));
    CHECK(cuts_to("a\xff"
                  "b",
                  99, 99, false,
                  "a\xef\xbf\xbd"
                  "b"));
    CHECK(cuts_to("", 0, 0, false, ""));
}

static void an_exit_of_0_is_good(void)
{
    struct kr_mcp_outcome o = {.cause = KR_CAUSE_EXIT};
    int code;

    o.end = json_pack("{s:i}", "exit_code", 0);
    CHECK(kr_compat_good(&o, &code) && code == 0);
    json_object_set_new(o.end, "exit_code", json_integer(3));
    CHECK(!kr_compat_good(&o, &code) && code == 3);
    o.cause = KR_CAUSE_TIMEOUT;
    json_object_set_new(o.end, "exit_code", json_integer(0));
    CHECK(!kr_compat_good(&o, &code) && code == 1);
    json_decref(o.end);
}

/* ---- tables ---- */

static void tools_are_told_apart(void)
{
    for (size_t i = 0; i < kr_mcp_tools_count; i++) {
        const struct kr_mcp_tool *a = kr_mcp_tools[i];

        CHECK(a->name && a->title && a->description && a->run);
        CHECK(strlen(a->name) <= 64 && strspn(a->name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(a->name));
        for (size_t n = i + 1; n < kr_mcp_tools_count; n++) /* in one dialect a name means one tool */
            CHECK(strcmp(a->name, kr_mcp_tools[n]->name) != 0 || !(a->dialects & kr_mcp_tools[n]->dialects));
    }
}

static void the_tables_of_arguments_are_sound(void)
{
    struct kr_err err;

    for (size_t i = 0; i < kr_mcp_tools_count; i++) {
        if (kr_mcp_tools[i]->input)
            CHECK(table_check(kr_mcp_tools[i]->input, &err) == 0);
        if (kr_mcp_tools[i]->output)
            CHECK(schema_check(kr_mcp_tools[i]->output, &err) == 0);
    }
}

static void prompts_and_resources_are_whole(void)
{
    for (size_t i = 0; i < kr_mcp_prompts_count; i++) {
        const struct kr_mcp_prompt *p = &kr_mcp_prompts[i];
        size_t n = 0;

        CHECK(p->name && p->title && p->description && p->get && p->dialects);
        for (; p->args && p->args[n].name; n++)
            CHECK(p->args[n].description && !(p->args[n].required && p->args[n].def));
        CHECK(n <= KR_MCP_PROMPT_ARGS_MAX);
    }
    for (size_t i = 0; i < kr_mcp_resources_count; i++) {
        const struct kr_mcp_resource *r = &kr_mcp_resources[i];

        CHECK(r->uri && r->name && r->description && (r->read || r->is_template));
        for (size_t n = i + 1; n < kr_mcp_resources_count; n++)
            CHECK(strcmp(r->uri, kr_mcp_resources[n].uri) != 0);
    }
}

int main(void)
{
    RUN(literals_become_values);
    RUN(what_is_no_literal_is_left_alone);
    RUN(nesting_is_bounded);
    RUN(cut_literals_are_survived);
    RUN(addresses_are_read_back);
    RUN(other_addresses_are_not_ours);
    RUN(texts_are_cut_between_characters);
    RUN(an_exit_of_0_is_good);
    RUN(tools_are_told_apart);
    RUN(the_tables_of_arguments_are_sound);
    RUN(prompts_and_resources_are_whole);
    CHECK_DONE();
}

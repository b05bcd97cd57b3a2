/* The parsers of krait.toml and .env: what they hand over, and what they refuse with which words. */
#include "buf.h"
#include "check.h"
#include "dotenv.h"
#include "toml.h"
#include <errno.h>
#include <inttypes.h>

static struct kr_err err;

static bool says(const char *part)
{
    if (strstr(err.msg, part))
        return true;
    printf("  it says: %s\n", err.msg);
    return false;
}

static char parsed[16384];

static int on_toml(void *data, const char *section, const char *key, const struct kr_toml_value *v, unsigned line,
                   struct kr_err *e)
{
    size_t len = strlen(parsed);

    (void)data;
    if (strcmp(key, "stop") == 0)
        return kr_err_set(e, KR_ERR_INVALID, EINVAL, "stopped");
    len += (size_t)snprintf(parsed + len, sizeof parsed - len, "%u %s.%s ", line, section, key);
    if (v->type == KR_TOML_STRING)
        snprintf(parsed + len, sizeof parsed - len, "<%s>;", v->string);
    else if (v->type == KR_TOML_INTEGER)
        snprintf(parsed + len, sizeof parsed - len, "%" PRId64 ";", v->integer);
    else if (v->type == KR_TOML_BOOLEAN)
        snprintf(parsed + len, sizeof parsed - len, "%s;", v->boolean ? "yes" : "no");
    for (size_t i = 0; v->type == KR_TOML_ARRAY && i < v->count; i++)
        snprintf(parsed + strlen(parsed), sizeof parsed - strlen(parsed), "[%s]", v->items[i]);
    return 0;
}

static int toml(const char *text)
{
    parsed[0] = '\0';
    return kr_toml_parse("t", text, strlen(text), on_toml, NULL, &err);
}

static void toml_values(void)
{
    CHECK(toml("a = 1\n[s] # x\n\n b=\"x\\u00e9\\n\" # c\nc = 'a\\b'\nd = true\ne = false\nf = -1_000") == 0);
    CHECK(strcmp(parsed, "1 .a 1;4 s.b <x\xc3\xa9\n>;5 s.c <a\\b>;6 s.d yes;7 s.e no;8 s.f -1000;") == 0);
    CHECK(toml("[s]\r\na = [ 'x', # c\r\n \"y\" ,\r\n]\r\nb = []\r\nc = 2\r\n") == 0);
    CHECK(strcmp(parsed, "2 s.a [x][y]5 s.b 6 s.c 2;") == 0);
    CHECK(toml("a = \"\\U0001F40D\"") == 0 && strcmp(parsed, "1 .a <\xf0\x9f\x90\x8d>;") == 0);
    CHECK(toml("a = 9223372036854775807\nb = -9223372036854775808\n") == 0);
    CHECK(toml("") == 0 && !parsed[0] && toml("# only this") == 0);
    CHECK(toml("a = 1\nstop = 1\nb = 2\n") == -EINVAL && strcmp(parsed, "1 .a 1;") == 0 && says("t:2: stopped"));
}

static void toml_refusals(void)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"a = 1\na = 2", "t:2: key 'a' is there already, in line 1"},
        {"\n[a", "t:2: ']' is missing"},
        {"[a]]", "there is more on the line"},
        {"[a.b]", "dotted names"},
        {"[[a]]", "arrays of tables"},
        {"a.b = 1", "dotted names"},
        {"\"a\" = 1", "quoted names"},
        {"= 1", "a key is missing"},
        {"a", "'=' is missing behind 'a'"},
        {"a =", "a value is missing"},
        {"a = \n", "a value is missing"},
        {"a = {}", "inline tables"},
        {"a = \"\"\"x\"\"\"", "several lines"},
        {"a = '''x'''", "several lines"},
        {"a = \"x", "no end on its line"},
        {"a = \"x\n\"", "t:1: the string has no end"},
        {"a = \"\\x\"", "no such escape"},
        {"a = \"\\u12\"", "4 hexadecimal digits"},
        {"a = \"\\ud800\"", "U+D800"},
        {"a = \"\\u0000\"", "U+0000"},
        {"a = 01", "no leading zero"},
        {"a = 1.5", "fractions are strings"},
        {"a = 1e5", "fractions are strings"},
        {"a = 10s", "fractions are strings"},
        {"a = 1979-05-27", "fractions are strings"},
        {"a = 1_", "between digits"},
        {"a = _1", "a string needs quotes"},
        {"a = 9223372036854775808", "too large"},
        {"a = info", "a string needs quotes"},
        {"a = true1", "a string needs quotes"},
        {"a = -", "a value is missing"},
        {"a = 1 2", "there is more on the line"},
        {"a = [1]", "strings only"},
        {"a = [[\"x\"]]", "strings only"},
        {"a = [\"x\"\n\n", "t:3: the array has no end"},
        {"a = [\"x\" \"y\"]", "a comma or ']' is missing"},
        {"a = [,]", "strings only"},
        {"a = \"\xff\"", "t:1: is not UTF-8"},
        {"\n\na = \"\x01\"", "t:3: has a control character"},
        {"a = 1\rb = 2", "carriage return"},
        {"\xef\xbb\xbf"
         "a = 1",
         "byte order mark"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(toml(rows[i].text) == -EINVAL && says(rows[i].says) && strncmp(err.msg, "t:", 2) == 0);
    parsed[0] = '\0';
    CHECK(kr_toml_parse("t", "a = \"x\0y\"", 9, on_toml, NULL, &err) == -EINVAL && says("control character"));
}

static void toml_bounds(void)
{
    struct kr_buf text;

    kr_buf_init(&text, 1u << 20);
    for (unsigned i = 0; i < KR_TOML_KEYS_MAX; i++)
        kr_buf_printf(&text, "a%u = 1\n", i);
    CHECK(toml(kr_buf_str(&text)) == 0);
    kr_buf_add_str(&text, "b = 1\n");
    CHECK(toml(kr_buf_str(&text)) == -EINVAL && says("t:513: there may be 512 keys"));
    kr_buf_reset(&text);
    kr_buf_add_str(&text, "a = [");
    for (unsigned i = 0; i < KR_TOML_ITEMS_MAX; i++)
        kr_buf_add_str(&text, "'x',");
    kr_buf_add_str(&text, "'x']");
    CHECK(toml(kr_buf_str(&text)) == -EINVAL && says("64 strings"));
    kr_buf_done(&text);
}

static int on_dotenv(void *data, const char *name, const char *value, unsigned line, struct kr_err *e)
{
    size_t len = strlen(parsed);

    (void)data, (void)e;
    snprintf(parsed + len, sizeof parsed - len, "%u %s <%s>;", line, name, value);
    return 0;
}

static int dotenv(const char *text)
{
    parsed[0] = '\0';
    return kr_dotenv_parse("e", text, strlen(text), on_dotenv, NULL, &err);
}

static void dotenv_values(void)
{
    CHECK(dotenv(
              "# c\n\nA=1\nexport B=two words # c\n C = 'it is $x' # c\nD=\"a\\n\\\"b\\\\\"\nE=\nF=a#b\r\nG=[\"*\"]") ==
          0);
    CHECK(strcmp(parsed, "3 A <1>;4 B <two words>;5 C <it is $x>;6 D <a\n\"b\\>;7 E <>;8 F <a#b>;9 G <[\"*\"]>;") == 0);
    CHECK(dotenv("A= # nothing\nB=''\nC=5$\nexport=1\n") == 0);
    CHECK(strcmp(parsed, "1 A <>;2 B <>;3 C <5$>;4 export <1>;") == 0);
}

static void dotenv_refusals(void)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"A=1\nA=2", "e:2: 'A' is there already, in line 1"},
        {"A", "'=' is missing behind 'A'"},
        {"=1", "a line is NAME=value"},
        {"1A=1", "a line is NAME=value"},
        {"A-B=1", "'=' is missing"},
        {"A='x", "no end on its line"},
        {"A=\"x", "no end on its line"},
        {"A=\"x\"y", "more on the line"},
        {"A=\"\\q\"", "no such escape"},
        {"A=$HOME", "nothing is substituted"},
        {"A=\"${HOME}\"", "nothing is substituted"},
        {"A=$(id)", "nothing is substituted"},
        {"A=`id`", "nothing is substituted"},
        {"A=$1", "nothing is substituted"},
        {"A=x\\y", "needs quotes"},
        {"A=\xff", "e:1: is not UTF-8"},
        {"A=1\rB=2", "carriage return"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(dotenv(rows[i].text) == -EINVAL && says(rows[i].says) && strncmp(err.msg, "e:", 2) == 0);
}

int main(void)
{
    RUN(toml_values);
    RUN(toml_refusals);
    RUN(toml_bounds);
    RUN(dotenv_values);
    RUN(dotenv_refusals);
    CHECK_DONE();
}

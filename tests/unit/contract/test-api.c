/* Requests by their tables, in both voices. */
#include "api-table.h"
#include "buf.h"
#include "check.h"
#include "table-check.h"

/* ---- bodies ---- */

static struct kr_api_input in;
static struct request req;
static struct kr_err err;

static int parse_n(enum kr_api_voice voice, const char *text, size_t len)
{
    kr_api_input_done(&in);
    kr_api_input_init(&in, voice);
    memset(&req, 0xa5, sizeof req); /* the parser owes every byte */
    memset(&err, 0, sizeof err);
    return kr_api_parse_body(&table, text, len, &req, &in, &err);
}

static int ours(const char *text)
{
    return parse_n(KR_API_KRAIT, text, strlen(text));
}

static int theirs(const char *text)
{
    return parse_n(KR_API_DOCUMENT, text, strlen(text));
}

static void a_full_body_fills_the_struct(void)
{
    CHECK(ours("{\"code\":\"a\\nb\",\"session\":\"s\",\"timeout\":7,\"share\":1,\"fresh\":false,\"mode\":\"careful\","
               "\"variables\":{\"x\":[1]},\"env\":{\"K\":\"v\"},\"tags\":[\"t\"],\"files\":[{\"url\":\"u\",\"id\":3}],"
               "\"extra\":[null],\"limits\":{\"memory\":9},\"note\":\"n\"}") == 0);
    CHECK(req.code.len == 3 && strcmp(req.code.text, "a\nb") == 0 && strcmp(req.session, "s") == 0);
    CHECK(req.timeout == 7 && req.timeout_given == KR_API_VALUE && req.share == 1.0 && !req.fresh && req.mode == 1);
    CHECK(json_object_size(req.variables) == 1 && json_object_size(req.env) == 1 && json_array_size(req.tags) == 1);
    CHECK(json_array_size(req.files) == 1 && json_is_array(req.extra) && strcmp(req.note, "n") == 0);
    CHECK(req.limits.memory == 9 && req.limits.cpu == 1.5);
}

static void what_is_absent_has_its_default(void)
{
    CHECK(ours("{\"code\":\"x\"}") == 0);
    CHECK(strcmp(req.session, "main") == 0 && req.timeout == 30 && req.timeout_given == KR_API_ABSENT);
    CHECK(req.share == 0 && req.fresh && req.mode == -1 && !req.variables && !req.note && !req.extra && !req.tags);
    CHECK(req.limits.memory == 512 && req.limits.cpu == 1.5);
    CHECK(ours("{\"code\":\"x\",\"timeout\":null,\"note\":null}") == 0);
    CHECK(req.timeout == 30 && req.timeout_given == KR_API_NULL && !req.note && req.note_given == KR_API_NULL);
}

static void aliases_are_names_too(void)
{
    CHECK(ours("{\"code\":\"x\",\"sid\":\"b\"}") == 0 && strcmp(req.session, "b") == 0);
    CHECK(ours("{\"code\":\"x\",\"sid\":\"b\",\"session\":\"c\"}") == -EINVAL);
    CHECK(strcmp(err.msg, "sid is another name of session: give one") == 0 && strcmp(in.field, "sid") == 0);
    CHECK(theirs("{\"code\":\"x\",\"sid\":\"b\",\"session\":\"c\"}") == 0 && strcmp(req.session, "c") == 0);
}

/* body, the field that is named, the text */
static const char *const refused[][3] = {
    {"{}", "code", "code is missing"},
    {"", "code", "code is missing"},
    {"{\"code\":1}", "code", "code must be a string"},
    {"{\"code\":null}", "code", "code must be a string"},
    {"{\"code\":\"\"}", "code", "code must have at least 1 character"},
    {"{\"code\":\"123456789012345678901\"}", "code", "code must have at most 20 characters"},
    {"{\"code\":\"a\\u0000b\"}", "code", "code must not have NUL characters"},
    {"{\"code\":\"x\",\"session\":\"a\\nb\"}", "session", "session must not have control characters"},
    {"{\"code\":\"x\",\"session\":\"-a\"}", "session", "session must not begin with a dash"},
    {"{\"code\":\"x\",\"timeout\":1.5}", "timeout", "timeout must be an integer"},
    {"{\"code\":\"x\",\"timeout\":\"10\"}", "timeout", "timeout must be an integer"},
    {"{\"code\":\"x\",\"timeout\":true}", "timeout", "timeout must be an integer"},
    {"{\"code\":\"x\",\"timeout\":0}", "timeout", "timeout must be at least 1"},
    {"{\"code\":\"x\",\"timeout\":121}", "timeout", "timeout must be at most 120"},
    {"{\"code\":\"x\",\"share\":\"a\"}", "share", "share must be a number"},
    {"{\"code\":\"x\",\"fresh\":1}", "fresh", "fresh must be true or false"},
    {"{\"code\":\"x\",\"fresh\":null}", "fresh", "fresh must be true or false"},
    {"{\"code\":\"x\",\"mode\":\"slow\"}", "mode", "mode must be 'quick' or 'careful'"},
    {"{\"code\":\"x\",\"variables\":[]}", "variables", "variables must be an object"},
    {"{\"code\":\"x\",\"variables\":{\"a\":1,\"b\":2,\"c\":3}}", "variables", "variables must have at most 2 members"},
    {"{\"code\":\"x\",\"env\":{\"A\":1}}", "env.A", "env.A must be a string"},
    {"{\"code\":\"x\",\"env\":{\"A\":\"\\u0000\"}}", "env.A", "env.A must not have NUL characters"},
    {"{\"code\":\"x\",\"tags\":[\"a\",2]}", "tags[1]", "tags[1] must be a string"},
    {"{\"code\":\"x\",\"tags\":[\"a\",\"b\",\"c\"]}", "tags", "tags must have at most 2 items"},
    {"{\"code\":\"x\",\"files\":[{\"url\":\"a\"},{}]}", "files[1].url", "files[1].url is missing"},
    {"{\"code\":\"x\",\"files\":[1]}", "files[0]", "files[0] must be an object"},
    {"{\"code\":\"x\",\"limits\":{\"memory\":0}}", "limits.memory", "limits.memory must be at least 1"},
    {"{\"code\":\"x\",\"limits\":{\"cpu\":0.25}}", "limits.cpu", "limits.cpu must be at least 0.5"},
    {"{\"code\":\"x\",\"limits\":{\"memry\":1}}", "limits.memry",
     "limits.memry is not a field here; did you mean memory?"},
    {"{\"cod\":\"x\"}", "cod", "cod is not a field here; did you mean code?"},
    {"{\"code\":\"x\",\"elephant\":1}", "elephant", "elephant is not a field here"},
    {"{\"code\":\"x\",\"api_key\":\"k\"}", "api_key", "api_key is not a field here"},
    {"[]", "", "the body must be a JSON object"},
    {"\"x\"", "", "the body must be a JSON object"},
    {"{\"code\":\"x\",\"code\":\"y\"}", "", "the body is not JSON: line 1 column 18: duplicate object key"},
    {"{\"code\":\"x\"} x", "", "the body is not JSON: line 1 column 14: end of file expected"},
    {"{\"code\": \"print(Hello,", "", "the body is not JSON: line 1 column 22: premature end of input"},
};

static void what_is_wrong_is_named(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        int r = ours(refused[i][0]);

        if (r != -EINVAL || strcmp(in.field, refused[i][1]) != 0 || strcmp(err.msg, refused[i][2]) != 0)
            printf("# %s: %d, field %s, %s\n", refused[i][0], r, in.field, err.msg);
        CHECK(r == -EINVAL && err.kind == KR_ERR_INVALID && !in.flaws);
        CHECK(strcmp(in.field, refused[i][1]) == 0 && strcmp(err.msg, refused[i][2]) == 0);
    }
}

static void limits_are_characters_not_bytes(void)
{
    CHECK(ours("{\"code\":\"ππππππππππππππππππππ\"}") == 0 && req.code.len == 40);
    CHECK(ours("{\"code\":\"πππππππππππππππππππππ\"}") == -EINVAL);
}

/* ---- the documents' voice ---- */

/* The i-th flaw as compact JSON, in the order in which it was made. */
static bool flaw_is(size_t i, const char *expected)
{
    char *text = json_dumps(json_array_get(in.flaws, i), JSON_COMPACT);
    bool same = text && strcmp(text, expected) == 0;

    if (!same)
        printf("# got %s\n# not %s\n", text ? text : "nothing", expected);
    free(text);
    return same;
}

static void their_voice_takes_more(void)
{
    CHECK(theirs("{\"code\":\"x\",\"timeout\":10.0}") == 0 && req.timeout == 10);
    CHECK(theirs("{\"code\":\"x\",\"timeout\":\"10\"}") == 0 && req.timeout == 10);
    CHECK(theirs("{\"code\":\"x\",\"timeout\":\" 10.0 \"}") == 0 && req.timeout == 10);
    CHECK(theirs("{\"code\":\"x\",\"share\":\"0.5\",\"fresh\":\"off\"}") == 0 && req.share == 0.5 && !req.fresh);
    CHECK(theirs("{\"code\":\"x\",\"fresh\":0,\"elephant\":1}") == 0 && !req.fresh);
}

static void their_flaws_are_fastapis(void)
{
    CHECK(theirs("{\"a\":1}") == -EINVAL && json_array_size(in.flaws) == 1);
    CHECK(flaw_is(0,
                  "{\"type\":\"missing\",\"loc\":[\"body\",\"code\"],\"msg\":\"Field required\",\"input\":{\"a\":1}}"));
    CHECK(theirs("") == -EINVAL);
    CHECK(flaw_is(0, "{\"type\":\"missing\",\"loc\":[\"body\"],\"msg\":\"Field required\",\"input\":null}"));
    CHECK(theirs("{\"code\":1,\"timeout\":1.5,\"tags\":[1]}") == -EINVAL && json_array_size(in.flaws) == 3);
    CHECK(flaw_is(0, "{\"type\":\"string_type\",\"loc\":[\"body\",\"code\"],\"msg\":\"Input should be a valid string\","
                     "\"input\":1}"));
    CHECK(flaw_is(1, "{\"type\":\"int_from_float\",\"loc\":[\"body\",\"timeout\"],\"msg\":\"Input should be a valid "
                     "integer, got a number with a fractional part\",\"input\":1.5}"));
    CHECK(flaw_is(2, "{\"type\":\"string_type\",\"loc\":[\"body\",\"tags\",0],\"msg\":\"Input should be a valid "
                     "string\",\"input\":1}"));
    CHECK(theirs("{\"code\":\"x\",\"timeout\":121}") == -EINVAL);
    CHECK(flaw_is(0,
                  "{\"type\":\"less_than_equal\",\"loc\":[\"body\",\"timeout\"],\"msg\":\"Input should be less than or "
                  "equal to 120\",\"input\":121,\"ctx\":{\"le\":120}}"));
    CHECK(theirs("{\"code\":\"x\",\"timeout\":\"ten\"}") == -EINVAL);
    CHECK(flaw_is(0,
                  "{\"type\":\"int_parsing\",\"loc\":[\"body\",\"timeout\"],\"msg\":\"Input should be a valid integer, "
                  "unable to parse string as an integer\",\"input\":\"ten\"}"));
    CHECK(theirs("{\"code\": \"print(Hello,") == -EINVAL);
    CHECK(strcmp(json_string_value(json_object_get(json_array_get(in.flaws, 0), "type")), "json_invalid") == 0);
}

/* Where no field is a password, a client is told what was read last. */
static void what_is_no_json_is_shown_without_passwords(void)
{
    static const struct kr_api_field one_field[] = {
        {.name = "code", .type = KR_API_STRING, .offset = 0, .help = "A text.", .example = "x"}};
    static const struct kr_api_table plain = {
        .name = "Plain", .help = "A text.", .fields = one_field, .count = 1, .size = sizeof(char *)};
    static const char text[] = "{\"code\": \"a\\q";
    cleanup_input struct kr_api_input one = {0};
    const char *code;
    struct kr_err why;

    kr_api_input_init(&one, KR_API_KRAIT);
    CHECK(kr_api_parse_body(&plain, text, strlen(text), &code, &one, &why) == -EINVAL);
    CHECK(strstr(why.msg, "invalid escape near") != NULL);
}

static void secrets_and_masses_are_not_echoed(void)
{
    static char body[8192];

    CHECK(theirs("{\"password\":\"hunter2\"}") == -EINVAL);
    CHECK(flaw_is(0, "{\"type\":\"missing\",\"loc\":[\"body\",\"code\"],\"msg\":\"Field required\",\"input\":{}}"));
    CHECK(theirs("{\"code\":\"x\",\"password\":\"a\"}") == -EINVAL);
    CHECK(json_is_null(json_object_get(json_array_get(in.flaws, 0), "input")));
    snprintf(body, sizeof body, "{\"extra\":\"%07000d\"}", 1);
    CHECK(theirs(body) == -EINVAL && json_is_null(json_object_get(json_array_get(in.flaws, 0), "input")));
    CHECK(theirs("{\"extra\":\"1\"}") == -EINVAL &&
          json_is_object(json_object_get(json_array_get(in.flaws, 0), "input")));
}

static void their_list_is_bounded(void)
{
    cleanup_buf struct kr_buf b;

    kr_buf_init(&b, 65536);
    kr_buf_add_str(&b, "{\"code\":\"x\",\"files\":[1");
    for (int i = 0; i < 100; i++)
        kr_buf_add_str(&b, ",1");
    kr_buf_add_str(&b, "]}");
    CHECK(parse_n(KR_API_DOCUMENT, b.data, b.len) == -EINVAL && json_array_size(in.flaws) == KR_API_FLAWS_MAX);
}

/* ---- limits ---- */

static void depth_and_number_are_bounded(void)
{
    cleanup_buf struct kr_buf b;
    static const struct {
        const char *open, *close;
        int count, r;
    } rows[] = {{"[", "]", 31, 0}, {"[", "]", 32, -EINVAL}, {"[", "]", 1000000, -EINVAL}};

    kr_buf_init(&b, 4u << 20);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kr_buf_reset(&b);
        kr_buf_add_str(&b, "{\"code\":\"[[[[\",\"extra\":");
        for (int k = 0; k < rows[i].count; k++)
            kr_buf_add_str(&b, rows[i].open);
        for (int k = 0; k < rows[i].count; k++)
            kr_buf_add_str(&b, rows[i].close);
        kr_buf_add_str(&b, "}");
        CHECK(parse_n(KR_API_KRAIT, b.data, b.len) == rows[i].r);
    }
    CHECK(strcmp(err.msg, "the body is nested deeper than 32 levels") == 0);
    kr_buf_reset(&b);
    kr_buf_add_str(&b, "{\"code\":\"x\",\"extra\":[0");
    for (unsigned i = 0; i < KR_API_VALUES_MAX; i++)
        kr_buf_add_str(&b, ",0");
    kr_buf_add_str(&b, "]}");
    CHECK(parse_n(KR_API_KRAIT, b.data, b.len) == -EINVAL);
    CHECK(strcmp(err.msg, "the body has more than 100000 values") == 0);
}

static void handlers_can_refuse(void)
{
    CHECK(ours("{\"code\":\"x\",\"timeout\":100}") == 0);
    CHECK(kr_api_refuse(&in, "timeout", &err, "must be at most %d here", 60) == -EINVAL);
    CHECK(strcmp(err.msg, "timeout must be at most 60 here") == 0 && strcmp(in.field, "timeout") == 0);
    CHECK(theirs("{\"code\":\"x\",\"timeout\":100}") == 0);
    CHECK(kr_api_refuse(&in, "timeout", &err, "must be at most 60") == -EINVAL);
    CHECK(flaw_is(0, "{\"type\":\"value_error\",\"loc\":[\"body\",\"timeout\"],\"msg\":\"Value error, must be at most "
                     "60\",\"input\":100}"));
}

static void items_of_arrays_fill_structs(void)
{
    struct kr_api_input item;
    struct file file;

    CHECK(ours("{\"code\":\"x\",\"files\":[{\"url\":\"a\",\"id\":4}]}") == 0);
    kr_api_input_init(&item, KR_API_KRAIT);
    CHECK(kr_api_parse_object(&file_table, json_array_get(req.files, 0), &file, &item, &err) == 0);
    CHECK(strcmp(file.url, "a") == 0 && file.id == 4);
    kr_api_input_done(&item);
}

/* ---- queries and forms ---- */

static struct page page;

static int query(enum kr_api_voice voice, const char *text)
{
    kr_api_input_done(&in);
    kr_api_input_init(&in, voice);
    return kr_api_parse_query(&page_table, text, &page, &in, &err);
}

static void queries_fill_structs(void)
{
    CHECK(query(KR_API_KRAIT, "") == 0 && page.limit == 20 && !page.follow && !page.tags && !page.after);
    CHECK(query(KR_API_KRAIT, "limit=7&follow=true&tags=a&tags=b%26c&after=x+y&api_key=secret") == 0);
    CHECK(page.limit == 7 && page.follow && json_array_size(page.tags) == 2 && strcmp(page.after, "x y") == 0);
    CHECK(strcmp(json_string_value(json_array_get(page.tags, 1)), "b&c") == 0);
    CHECK(query(KR_API_KRAIT, "tags=one") == 0 && json_array_size(page.tags) == 1);
}

static void wrong_queries_are_named(void)
{
    static const char *const rows[][3] = {
        {"limit=x", "limit", "limit must be an integer"},
        {"limit=7.0", "limit", "limit must be an integer"},
        {"limit=", "limit", "limit must be an integer"},
        {"limit=101", "limit", "limit must be at most 100"},
        {"limit=99999999999999999999", "limit", "limit must be an integer"},
        {"follow=yes", "follow", "follow must be true or false"},
        {"limit=1&limit=2", "limit", "limit is given more than once"},
        {"limt=1", "limt", "limt is not a field here; did you mean limit?"},
        {"after=%0a", "after", "after must not have control characters"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int r = query(KR_API_KRAIT, rows[i][0]);

        if (r != -EINVAL || strcmp(in.field, rows[i][1]) != 0 || strcmp(err.msg, rows[i][2]) != 0)
            printf("# %s: %d, field %s, %s\n", rows[i][0], r, in.field, err.msg);
        CHECK(r == -EINVAL && strcmp(in.field, rows[i][1]) == 0 && strcmp(err.msg, rows[i][2]) == 0);
    }
    CHECK(query(KR_API_KRAIT, "a=%zz") == -EINVAL && in.field[0] == '\0');
    CHECK(query(KR_API_DOCUMENT, "limit=1&limit=2.0&x=1&follow=yes") == 0 && page.limit == 2 && page.follow);
    CHECK(query(KR_API_DOCUMENT, "limit=x") == -EINVAL);
    CHECK(strcmp(json_string_value(json_array_get(json_object_get(json_array_get(in.flaws, 0), "loc"), 0)), "query") ==
          0);
}

static void forms_are_read_as_queries_or_json(void)
{
    static const char form[] = "code=print%281%29&timeout=5&password=abc", json[] = "{\"code\":\"y\",\"timeout\":6}";

    kr_api_input_done(&in);
    kr_api_input_init(&in, KR_API_KRAIT);
    CHECK(kr_api_parse_form(&table, form, sizeof form - 1, &req, &in, &err) == 0);
    CHECK(strcmp(req.code.text, "print(1)") == 0 && req.timeout == 5 && strcmp(req.password, "abc") == 0);
    kr_api_input_done(&in);
    kr_api_input_init(&in, KR_API_KRAIT);
    CHECK(kr_api_parse_form(&table, json, sizeof json - 1, &req, &in, &err) == 0);
    CHECK(strcmp(req.code.text, "y") == 0 && req.timeout == 6);
}

/* ---- tables themselves ---- */

static void tables_are_checked(void)
{
    struct kr_api_field f = fields[2];
    struct kr_api_table t = {.name = "T", .help = "T.", .fields = &f, .count = 1, .size = sizeof(struct request)};

    CHECK(table_check(&table, &err) == 0 && table_check(&page_table, &err) == 0);
    CHECK(table_check(&t, &err) == 0);
    f.help = "Seconds";
    CHECK(table_check(&t, &err) == -EINVAL);
    f = fields[2];
    f.example = "ten";
    CHECK(table_check(&t, &err) == -EINVAL);
    f = fields[2];
    f.def = "121";
    CHECK(table_check(&t, &err) == -EINVAL);
    f = fields[2];
    f.required = true;
    CHECK(table_check(&t, &err) == -EINVAL);
    f = fields[2];
    f.type = KR_API_ENUM;
    CHECK(table_check(&t, &err) == -EINVAL);
}

int main(void)
{
    kr_api_input_init(&in, KR_API_KRAIT);
    RUN(a_full_body_fills_the_struct);
    RUN(what_is_absent_has_its_default);
    RUN(aliases_are_names_too);
    RUN(what_is_wrong_is_named);
    RUN(limits_are_characters_not_bytes);
    RUN(their_voice_takes_more);
    RUN(their_flaws_are_fastapis);
    RUN(what_is_no_json_is_shown_without_passwords);
    RUN(secrets_and_masses_are_not_echoed);
    RUN(their_list_is_bounded);
    RUN(depth_and_number_are_bounded);
    RUN(handlers_can_refuse);
    RUN(items_of_arrays_fill_structs);
    RUN(queries_fill_structs);
    RUN(wrong_queries_are_named);
    RUN(forms_are_read_as_queries_or_json);
    RUN(tables_are_checked);
    kr_api_input_done(&in);
    CHECK_DONE();
}

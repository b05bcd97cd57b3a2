/* src/engine/run_spec: a copy stands alone, its size counts what it keeps, its form for the kernel. Run by
 * tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "buf.h"
#include "policy.h"
#include "run_spec.h"
#include <errno.h>

static void a_copy_outlives_what_it_was_made_of(void)
{
    char code[] = "print(1)", input[] = "a\0b", sandbox[] = "lab", session[] = "main";
    json_t *variables = json_pack("{s:i}", "n", 3), *env = json_pack("{s:s}", "MODE", "test");
    struct kr_run_spec spec = {.code = {code, sizeof code - 1},
                               .input = {input, sizeof input - 1},
                               .variables = variables,
                               .env = env,
                               .figure_px = 800,
                               .timeout_ms = 7,
                               .output_cap = 9,
                               .sandbox = sandbox,
                               .session = session,
                               .fresh = true,
                               .interactive = true,
                               .leave_cancels = true};
    struct kr_run_spec copy;

    CHECK(kr_run_spec_copy(&spec, &copy) == 0);
    memset(code, 'x', sizeof code - 1);
    memset(input, 'x', sizeof input - 1);
    sandbox[0] = session[0] = 'x';
    json_decref(variables);
    json_decref(env);
    CHECK(copy.code.len == 8 && strcmp(copy.code.text, "print(1)") == 0);
    CHECK(copy.input.len == 3 && memcmp(copy.input.text, "a\0b", 4) == 0);
    CHECK(strcmp(copy.sandbox, "lab") == 0 && strcmp(copy.session, "main") == 0);
    CHECK(json_integer_value(json_object_get(copy.variables, "n")) == 3);
    CHECK(strcmp(json_string_value(json_object_get(copy.env, "MODE")), "test") == 0);
    kr_run_spec_done(&copy);
    CHECK(!copy.texts && !copy.code.text && !copy.input.text && copy.code.len == 0 && !copy.variables && !copy.env &&
          !copy.sandbox && !copy.session);
    CHECK(copy.fresh && copy.interactive && copy.leave_cancels && copy.timeout_ms == 7 && copy.output_cap == 9 &&
          copy.figure_px == 800);
    kr_run_spec_done(&copy);
    CHECK(kr_run_spec_bytes(&copy) == 0);
}

static void what_is_absent_stays_absent(void)
{
    struct kr_run_spec spec = {.code = {"", 0}}, copy;

    CHECK(kr_run_spec_copy(&spec, &copy) == 0);
    CHECK(copy.code.text && !*copy.code.text && !copy.input.text && !copy.sandbox && !copy.session);
    kr_run_spec_done(&copy);
    kr_run_spec_done(&spec); /* borrowed: nothing happens */
    CHECK(spec.code.text);
}

static void its_size_counts_every_value(void)
{
    struct kr_run_spec spec = {.code = {"12345", 5}, .input = {"123", 3}};
    size_t bytes = kr_run_spec_bytes(&spec), one;

    CHECK(bytes == 8);
    spec.variables = json_pack("{s:[i]}", "list", 1);
    one = kr_run_spec_bytes(&spec);
    CHECK(one > bytes);
    for (int i = 0; i < 1000; i++)
        json_array_append_new(json_object_get(spec.variables, "list"), json_integer(i));
    CHECK(kr_run_spec_bytes(&spec) >= one + 1000 * sizeof(json_int_t));
    json_decref(spec.variables);
}

static bool writes(const struct kr_run_spec *spec, const char *json)
{
    cleanup_buf struct kr_buf buf;

    kr_buf_init(&buf, 4096);
    return kr_run_spec_write(spec, 3, &buf) == 0 && strcmp(kr_buf_str(&buf), json) == 0;
}

static void the_kernel_is_told_what_is_there(void)
{
    const char *argv[] = {"a.py", "x"};
    struct kr_run_script script = {.file = "/workspace/a.py", .argv = argv, .argc = 2, .write = true};
    struct kr_run_spec spec = {.code = {"1", 1}};

    CHECK(writes(&spec, "{\"code\":\"1\",\"name\":\"<run 3>\",\"warm\":false,\"figures\":\"png\",\"stdin\":null,"
                        "\"script\":null}"));
    spec.input = (struct kr_text){"a\0b", 3};
    spec.env = json_object();
    spec.variables = json_pack("{s:s#}", "n", "a\0b", 3);
    spec.figure_px = 640;
    spec.script = &script;
    CHECK(writes(&spec, "{\"code\":\"1\",\"name\":\"<run 3>\",\"warm\":false,\"figures\":\"png\",\"figure_px\":640,"
                        "\"variables\":{\"n\":\"a\\u0000b\"},\"stdin\":\"a\\u0000b\",\"script\":{\"file\":"
                        "\"/workspace/a.py\",\"argv\":[\"a.py\",\"x\"],\"write\":true,\"exit\":true}}"));
    json_object_set_new(spec.env, "MODE", json_string("a=b"));
    spec.script = NULL;
    spec.figure_px = 0;
    json_decref(spec.variables);
    spec.variables = NULL;
    CHECK(writes(&spec, "{\"code\":\"1\",\"name\":\"<run 3>\",\"warm\":false,\"figures\":\"png\",\"env\":{\"MODE\":"
                        "\"a=b\"},\"stdin\":\"a\\u0000b\",\"script\":null}"));
    json_decref(spec.env);
}

static void images_stay_within_the_output_limit(void)
{
    struct kr_run_spec spec = {.code = {"1", 1}, .readable = true};

    CHECK(writes(&spec, "{\"code\":\"1\",\"name\":\"<run 3>\",\"warm\":false,\"figures\":\"png\",\"readable\":true,"
                        "\"stdin\":null,\"script\":null}"));
    spec.figure_bytes = 900;
    spec.output_cap = 2000;
    CHECK(writes(&spec, "{\"code\":\"1\",\"name\":\"<run 3>\",\"warm\":false,\"figures\":\"png\",\"readable\":true,"
                        "\"figure_bytes\":900,\"stdin\":null,\"script\":null}"));
    spec.output_cap = 1000;
    CHECK(writes(&spec, "{\"code\":\"1\",\"name\":\"<run 3>\",\"warm\":false,\"figures\":\"png\",\"readable\":true,"
                        "\"figure_bytes\":500,\"stdin\":null,\"script\":null}"));
    spec.readable = false;
    CHECK(writes(&spec, "{\"code\":\"1\",\"name\":\"<run 3>\",\"warm\":false,\"figures\":\"png\",\"stdin\":null,"
                        "\"script\":null}"));
}

static void a_policy_is_copied_and_told(void)
{
    struct kr_policy_spec policy = {
        .mode = KR_POLICY_RESTRICTED, .profiles = 1, .has_imports = true, .imports = "math"};
    struct kr_run_spec spec = {.code = {"1", 1}, .session = "main", .policy = &policy}, copy;

    CHECK(kr_run_spec_bytes(&spec) == 1 + sizeof policy);
    CHECK(kr_run_spec_copy(&spec, &copy) == 0);
    memset(&policy, 0, sizeof policy);
    CHECK(strcmp(copy.session, "main") == 0);
    CHECK(writes(&copy, "{\"code\":\"1\",\"name\":\"<run 3>\",\"warm\":false,\"figures\":\"png\",\"stdin\":null,"
                        "\"script\":null,\"policy\":{\"mode\":\"restricted\",\"imports\":[\"math\"],"
                        "\"profiles\":[\"basic\"],\"judge_only\":false}}"));
    kr_run_spec_done(&copy);
    CHECK(!copy.policy);
    CHECK(writes(&spec, "{\"code\":\"1\",\"name\":\"<run 3>\",\"warm\":false,\"figures\":\"png\",\"stdin\":null,"
                        "\"script\":null}")); /* open: nothing */
    spec.policy = NULL;
    spec.judge_only = true;
    CHECK(writes(&spec, "{\"code\":\"1\",\"name\":\"<run 3>\",\"warm\":false,\"figures\":\"png\",\"stdin\":null,"
                        "\"script\":null,\"policy\":{\"mode\":\"open\",\"imports\":[],\"profiles\":[],"
                        "\"judge_only\":true}}"));
}

static void a_full_buffer_is_an_error(void)
{
    struct kr_run_spec spec = {.code = {"0123456789", 10}};
    cleanup_buf struct kr_buf buf;

    kr_buf_init(&buf, 16);
    CHECK(kr_run_spec_write(&spec, 1, &buf) == -ENOBUFS);
}

int main(void)
{
    RUN(a_copy_outlives_what_it_was_made_of);
    RUN(what_is_absent_stays_absent);
    RUN(its_size_counts_every_value);
    RUN(the_kernel_is_told_what_is_there);
    RUN(images_stay_within_the_output_limit);
    RUN(a_policy_is_copied_and_told);
    RUN(a_full_buffer_is_an_error);
    CHECK_DONE();
}

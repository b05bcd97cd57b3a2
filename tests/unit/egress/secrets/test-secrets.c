/* src/egress/secrets and src/wire/secret_terms.c: what is replaced in a field, what is covered in an answer, and which
 * names, values and hosts are taken. Run by tests/run. */
#include "secret_escape.h"
#include "secret_mask.h"
#include "secret_put.h"
#include "secret_terms.h"
#include "base64.h"
#include "check.h"
#include <errno.h>
#include <stdlib.h>

#define ONE KR_SECRET_PREFIX "0123456789abcdefghijklmnopqrstuv"
#define TWO KR_SECRET_PREFIX "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
#define VALUE "s3cret/value+of&one"

static const struct kr_secret_pair pairs[] = {{ONE, VALUE}, {TWO, "the second value"}};

/* ---- fields ---- */

static bool puts_as(const char *field, const char *expected, uint32_t used_expected)
{
    struct kr_buf out;
    uint32_t used = 0;
    bool same;

    kr_buf_init(&out, 1 << 20);
    same = kr_secret_put(pairs, 2, field, strlen(field), &out, &used) == 0 && used == used_expected &&
           strcmp(kr_buf_str(&out), expected) == 0;
    kr_buf_done(&out);
    return same;
}

static void whole_placeholders_are_replaced(void)
{
    CHECK(puts_as("", "", 0));
    CHECK(puts_as("Bearer " ONE, "Bearer " VALUE, 1));
    CHECK(puts_as(ONE ONE "," TWO, VALUE VALUE ",the second value", 3));
    CHECK(puts_as("krait-secret-" ONE, "krait-secret-" VALUE, 1));
    CHECK(puts_as("x" KR_SECRET_PREFIX "0123456789abcdefghijklmnopqrstu",
                  "x" KR_SECRET_PREFIX "0123456789abcdefghijklmnopqrstu", 0));
    CHECK(puts_as(KR_SECRET_PREFIX "0123456789ABCDEFGHIJKLMNOPQRSTUV",
                  KR_SECRET_PREFIX "0123456789ABCDEFGHIJKLMNOPQRSTUV", 0));
}

static void basic_is_looked_into(void)
{
    char field[400], expected[400];

    strcpy(field, "basic  ");
    kr_base64_encode("user:" TWO, strlen("user:" TWO), field + strlen(field));
    strcpy(expected, "basic  ");
    kr_base64_encode("user:the second value", strlen("user:the second value"), expected + strlen(expected));
    CHECK(puts_as(field, expected, 2));
    field[strlen(field) - 1] = '!';
    CHECK(puts_as(field, field, 0));
    CHECK(puts_as("Basic " ONE, "Basic " VALUE, 1)); /* no base64: as it is anywhere else */
    CHECK(puts_as("Basic", "Basic", 0));
}

static void a_full_buffer_is_an_error(void)
{
    struct kr_buf out;
    uint32_t used = 0;

    kr_buf_init(&out, 10);
    CHECK(kr_secret_put(pairs, 2, ONE, strlen(ONE), &out, &used) == -ENOBUFS);
    kr_buf_done(&out);
}

/* ---- answers ---- */

static uint64_t steps; /* of the mask that was made last */

static struct kr_secret_mask *mask_of(const char *value)
{
    struct kr_secret_mask *m;

    steps = 0;
    if (kr_secret_mask_new(&steps, &m) < 0 || kr_secret_mask_add(m, value) < 0)
        abort();
    return m;
}

static bool covers(const char *value, const char *text, const char *expected)
{
    struct kr_secret_mask *m = mask_of(value);
    char copy[600];
    bool same;

    strcpy(copy, text);
    same = kr_secret_mask_whole(m, copy, strlen(copy)) == 0 && strcmp(copy, expected) == 0;
    kr_secret_mask_free(m);
    return same;
}

static void values_are_covered_in_their_forms(void)
{
    CHECK(covers(VALUE, "a " VALUE ", S3CRET/VALUE+OF&ONE.", "a *******************, *******************."));
    CHECK(covers(VALUE, "s3cret%2Fvalue%2bof%26one", "*************************"));
    CHECK(covers(VALUE, "{\"a\":\"s3cret\\/value+of&one\"}", "{\"a\":\"********************\"}"));
    CHECK(covers(VALUE, "s3cret/value+of\\u0026one", "************************"));
    CHECK(covers(VALUE, "<b>s3cret/value+of&amp;one</b>", "<b>***********************</b>"));
    CHECK(covers(VALUE, "7333637265742F76616C75652B6F66266F6E65", "**************************************"));
    CHECK(covers(VALUE, "s3cret/value+of&on", "s3cret/value+of&on"));
    CHECK(covers("some words here", "some+words+here, some%20words%20here", "***************, *******************"));
}

/* As encoders really write it, which differ in what they leave as it is; and what is no form of it. */
static void each_character_is_covered_in_each_form(void)
{
    static const char value[] = "q<&>\"'%/\\+ Zz";
    static const char *const forms[] = {
        "q&lt;&amp;&gt;&quot;&#x27;%/\\+ Zz",
        "q&lt;&amp;&gt;&#34;&#39;%/\\+ Zz",
        "q&#60;&#38;&#62;&#034;&#0039;&#37;&#47;&#x5C;&#x002b;&#32;Zz",
        "q&LT;<&amp;&gt;&apos;",
        "q%3C%26%3e%22%27%25/%5C%2B%20Zz",
        "q%3C%26%3e%22%27%25%2f%5C%2B+Zz",
        "q\\u003c\\u0026\\u003E\\\"'%\\/\\\\+ Zz",
        "q<&>\\\"\\'%/\\\\\\u002B Zz",
        "q<&>\\x22\\x27%/\\\\+\\ Zz",
        "\\u0071\\u003c\\u0026\\u003E\\u0022\\u0027\\u0025\\u002f\\u005C\\u002b\\u0020\\u005A\\u007a",
        "Q<&>\"'%/\\+ zZ",
    };

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char text[300], expected[300];

        snprintf(text, sizeof text, "[%s]", forms[i]);
        strcpy(expected, text);
        if (i != 3) /* names of HTML have one spelling */
            memset(expected + 1, '*', strlen(forms[i]));
        CHECK(covers(value, text, expected));
    }
    CHECK(covers("%2F%2F25&amp;", "x%2F%2F25&amp; %252F%252F25&amp;amp; %2f%252F25&amp;",
                 "x************* ********************* ***************"));
    CHECK(covers("2F0123456", "%2F0123456", "%*********")); /* it begins inside what looks like an escape */
    CHECK(covers("\\\\\\\\0123", "\\\\\\\\\\\\\\\\0123", "************"));
    CHECK(covers("two words", "two++words two+words", "two++words *********"));
}

static void escapes_are_read_or_wait(void)
{
    static const struct {
        const char *text;
        int n;
        char c;
    } rows[] = {{"%2f", 3, '/'},
                {"%2", -EAGAIN, 0},
                {"%", -EAGAIN, 0},
                {"%g1", 0, 0},
                {"%00", 0, 0},
                {"\\u002F", 6, '/'},
                {"\\u00", -EAGAIN, 0},
                {"\\u0100", 0, 0},
                {"\\x2f", 4, '/'},
                {"\\\"", 2, '"'},
                {"\\n", 0, 0},
                {"\\", -EAGAIN, 0},
                {"\\\n", 0, 0},
                {"&lt;", 4, '<'},
                {"&l", -EAGAIN, 0},
                {"&lx", 0, 0},
                {"&", -EAGAIN, 0},
                {"&#39;", 5, '\''},
                {"&#0000039;", 10, '\''},
                {"&#x27;", 6, '\''},
                {"&#X0000027;", 11, '\''},
                {"&#00000039;", 0, 0},
                {"&#;", 0, 0},
                {"&#x;", 0, 0},
                {"&#39", -EAGAIN, 0},
                {"&#9999999;", 0, 0},
                {"&#", -EAGAIN, 0},
                {"a", 0, 0},
                {"", -EAGAIN, 0}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char c = 0;

        CHECK(kr_secret_escape_read(rows[i].text, strlen(rows[i].text), &c) == rows[i].n);
        CHECK(c == rows[i].c || rows[i].n <= 0);
    }
}

/* Whatever stands before it, base64 has no more of it than the characters at its ends. */
static void values_are_covered_in_base64(void)
{
    for (size_t before = 0; before < 5; before++) {
        char plain[100], text[200];
        struct kr_secret_mask *m = mask_of(VALUE);
        size_t len, stars = 0;

        memset(plain, 'x', before);
        strcpy(plain + before, VALUE "yyyy");
        len = kr_base64_encode(plain, strlen(plain), text);
        CHECK(kr_secret_mask_whole(m, text, len) == 0);
        for (size_t i = 0; i < len; i++)
            stars += text[i] == '*';
        CHECK(stars >= strlen(VALUE) * 8 / 6 - 1);
        kr_secret_mask_free(m);
    }
}

/* Its case is its meaning: what has another is another text. */
static void base64_is_compared_with_case(void)
{
    CHECK(covers("some-value", "c29tZS12YWx1ZQ==", "*************Q=="));
    CHECK(covers("some-value", "C29TZS12YWX1ZQ==", "C29TZS12YWX1ZQ=="));
    CHECK(covers("?~>>?~>>", "P34+Pj9+Pj4= P34-Pj9-Pj4=", "**********4= **********4="));
}

/* Passes a text in pieces of `step` bytes; `out` gets what comes, of the same length. 1; 0: it was given up;
 * -1: more or less came out than there was. */
static int pass_in_pieces(struct kr_secret_mask *m, const char *text, size_t len, size_t step, char *out)
{
    char *own = malloc(len + step);
    size_t held = 0, gone = 0;
    ssize_t passed = 0;

    for (size_t at = 0; passed >= 0 && (at < len || held > 0); held -= (size_t)passed) {
        size_t n = step < len - at ? step : len - at;

        memcpy(own + held, text + at, n);
        at += n;
        held += n;
        passed = kr_secret_mask_pass(m, own, held, at == len);
        if (passed < 0)
            break;
        if ((size_t)passed > held)
            abort();
        memcpy(out + gone, own, (size_t)passed);
        gone += (size_t)passed;
        memmove(own, own + passed, held - (size_t)passed);
    }
    free(own);
    return passed < 0 ? 0 : gone == len ? 1 : -1;
}

/* What a byte costs does not depend on the pieces, nor on how long a value is held. */
static void the_scan_is_linear(void)
{
    static const size_t pieces[] = {1, 7, 4096};
    char value[KR_SECRET_VALUE_MAX + 1], text[40 * KR_SECRET_VALUE_MAX], out[sizeof text];

    for (size_t i = 0; i < sizeof value; i++)
        value[i] = (char)('a' + i % 22);
    memcpy(value, "aaaaaaaB", 8); /* most of it may have begun anywhere among a's */
    value[sizeof value - 1] = '\0';
    for (unsigned kind = 0; kind < 4; kind++)
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            struct kr_secret_mask *m = mask_of(value);

            for (size_t at = 0; at < sizeof text; at++) {
                const char c = value[at % (sizeof value - 2)]; /* its last character never comes */

                text[at] = (char)(kind == 0 ? c : kind == 1 ? 'a' : kind == 2 ? '\\' : "%61"[at % 3]);
            }
            CHECK(pass_in_pieces(m, text, sizeof text, pieces[i], out) == 1);
            CHECK(memcmp(text, out, sizeof text) == 0);
            CHECK(steps < 64 * sizeof text);
            kr_secret_mask_free(m);
        }
}

/* A value and a text that were chosen so that it may have begun at many places, each read in another way: it is given
 * up, and costs no more than other texts. */
static void too_many_beginnings_are_given_up(void)
{
    char value[KR_SECRET_VALUE_MAX + 1], text[65536], out[sizeof text];
    struct kr_secret_mask *m;
    size_t len = 2;

    memcpy(value, "2F", 2);
    while (len + 7 < sizeof value) {
        memcpy(value + len, "ABCDEF/", 7);
        len += 7;
    }
    value[len] = '\0';
    CHECK(kr_secret_value_check(value, len, NULL) == 0);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "%2FABCDEF"[i % 9];
    for (size_t step = 1; step < sizeof text; step *= 100) {
        m = mask_of(value);
        CHECK(pass_in_pieces(m, text, sizeof text, step, out) == 0);
        CHECK(steps < 300 * sizeof text);
        kr_secret_mask_free(m);
    }
    m = mask_of(value); /* the value itself, twice */
    CHECK(len * 2 < sizeof text);
    memcpy(text, value, len);
    memcpy(text + len, value, len);
    CHECK(pass_in_pieces(m, text, len * 2, 5, out) == 1 && out[0] == '*' && out[len * 2 - 1] == '*');
    kr_secret_mask_free(m);
}

/* A sandbox can have no more secrets, so that none begins as others do. */
static void all_secrets_of_a_sandbox_fit(void)
{
    static char values[KR_SECRETS_MAX + 1][32];
    char text[4096] = "", out[sizeof text];
    struct kr_secret_mask *m = mask_of("aaaaaaaa-0");
    size_t len;

    for (unsigned i = 1; i <= KR_SECRETS_MAX; i++) {
        snprintf(values[i], sizeof values[i], "aaaaaaaa-%u", i);
        CHECK(kr_secret_mask_add(m, values[i]) == (i < KR_SECRETS_MAX ? 0 : -E2BIG));
    }
    for (unsigned i = 0; i < 300; i++)
        strcat(text, "a");
    for (unsigned i = 0; i < 300; i++)
        strcat(text, "YWFh");
    for (unsigned i = 0; i < 300; i++)
        strcat(text, "61");
    strcat(text, "-aaaaaaaaa-3.");
    len = strlen(text);
    CHECK(pass_in_pieces(m, text, len, 3, out) == 1 && memcmp(out + len - 13, "-a**********.", 13) == 0);
    CHECK(memcmp(out, text, len - 11) == 0);
    kr_secret_mask_free(m);
}

/* Whatever the pieces. */
static void pieces_change_nothing(void)
{
    static const char text[] = "abcabcabcabcdefgh-abcabcde abcdefgh abcdefg";
    static const char expected[] = "abcabcabc********-abcabcde ******** abcdefg";

    for (size_t step = 1; step < sizeof text; step++) {
        struct kr_secret_mask *m = mask_of("abcdefgh");
        char own[sizeof text], out[sizeof text] = "";
        size_t held = 0, at = 0, gone = 0, len = sizeof text - 1;

        while (at < len) {
            size_t n = step < len - at ? step : len - at, passed;

            memcpy(own + held, text + at, n);
            at += n;
            held += n;
            passed = (size_t)kr_secret_mask_pass(m, own, held, at == len);
            CHECK(passed <= held && held - passed < 8);
            memcpy(out + gone, own, passed);
            gone += passed;
            held -= passed;
            memmove(own, own + passed, held);
        }
        CHECK(gone == len && strcmp(out, expected) == 0);
        kr_secret_mask_free(m);
    }
}

/* A value that begins inside another, and goes on where that one ends: both, also in two pieces. */
static void values_that_overlap_are_covered(void)
{
    struct kr_secret_mask *m = mask_of("abcdefghij");
    char first[] = "xabcdefghij", second[] = "ijklmnopqr!";
    char both[sizeof first + sizeof second];
    size_t n;

    CHECK(kr_secret_mask_add(m, "ghijijklmnopqr") == 0);
    strcpy(both, first);
    n = (size_t)kr_secret_mask_pass(m, both, strlen(both), false);
    CHECK(n == 7 && memcmp(both, "x******", 7) == 0);
    memmove(both, both + n, strlen(first) - n);
    strcpy(both + strlen(first) - n, second);
    n = (size_t)kr_secret_mask_pass(m, both, strlen(both), true);
    CHECK(n == 15 && strcmp(both, "**************!") == 0);
    kr_secret_mask_free(m);
}

/* ---- terms ---- */

static void hosts_have_one_spelling(void)
{
    static const struct {
        const char *text, *spelled; /* NULL: refused */
    } rows[] = {{"api.example.org", "https://api.example.org:443"},
                {"API.example.org:8443", "https://api.example.org:8443"},
                {"https://api.example.org", "https://api.example.org:443"},
                {"http://api.example.org:80", "http://api.example.org:80"},
                {"http://10.0.0.1:8080", "http://10.0.0.1:8080"},
                {"http://api.example.org", NULL},
                {"*.example.org", NULL},
                {"https://*.example.org", NULL},
                {"api.example.org/path", NULL},
                {"http://api.example.org:80/path", NULL},
                {"GET http://api.example.org:80", NULL},
                {"https://http://a.example:1", NULL},
                {"user@api.example.org", NULL},
                {"api.example.org:0", NULL},
                {"", NULL},
                {"a.example,b.example", NULL}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kr_secret_host host, again;
        char text[KR_SECRET_HOST_ROOM];
        int r = kr_secret_host_read(rows[i].text, &host, NULL);

        if (!rows[i].spelled) {
            CHECK(r == -EINVAL);
            continue;
        }
        CHECK(r == 0 && strcmp(kr_secret_host_text(&host, text, sizeof text), rows[i].spelled) == 0);
        CHECK(kr_secret_host_read(text, &again, NULL) == 0 && strcmp(again.host, host.host) == 0 &&
              again.port == host.port && again.tls == host.tls);
    }
}

static bool value_is_good(const char *value)
{
    return kr_secret_value_check(value, strlen(value), NULL) == 0;
}

static void values_stand_in_a_field(void)
{
    char longest[KR_SECRET_VALUE_MAX + 2];

    for (size_t i = 0; i < sizeof longest - 1; i++)
        longest[i] = (char)('0' + i % 10);
    memcpy(longest, "beginning", 9);
    longest[sizeof longest - 1] = '\0';
    CHECK(!value_is_good(longest));
    longest[KR_SECRET_VALUE_MAX] = '\0';
    CHECK(value_is_good(longest) && value_is_good("12345678") && value_is_good("two words here") &&
          value_is_good("aaaaaaaa"));
    CHECK(!value_is_good("1234567") && !value_is_good("with\r\nan end") && !value_is_good("tab\there!") &&
          !value_is_good(" in front") && !value_is_good("behind it ") && !value_is_good("caf\303\251 noir") &&
          !value_is_good("aaaaaaaaa") && !value_is_good("Repeat-Arepeat-A") && !value_is_good(ONE));
}

static void names_are_plain(void)
{
    CHECK(kr_secret_name_check("service", NULL) == 0 && kr_secret_name_check("a.b-c_9", NULL) == 0);
    CHECK(kr_secret_name_check("", NULL) < 0 && kr_secret_name_check("a b", NULL) < 0 &&
          kr_secret_name_check("a,b", NULL) < 0 && kr_secret_name_check(".a", NULL) < 0 &&
          kr_secret_name_check("a/b", NULL) < 0);
    CHECK(kr_secret_is_placeholder(ONE) && !kr_secret_is_placeholder(ONE "x") && !kr_secret_is_placeholder("x"));
}

int main(void)
{
    RUN(whole_placeholders_are_replaced);
    RUN(basic_is_looked_into);
    RUN(a_full_buffer_is_an_error);
    RUN(values_are_covered_in_their_forms);
    RUN(values_are_covered_in_base64);
    RUN(each_character_is_covered_in_each_form);
    RUN(escapes_are_read_or_wait);
    RUN(base64_is_compared_with_case);
    RUN(the_scan_is_linear);
    RUN(too_many_beginnings_are_given_up);
    RUN(all_secrets_of_a_sandbox_fit);
    RUN(pieces_change_nothing);
    RUN(values_that_overlap_are_covered);
    RUN(hosts_have_one_spelling);
    RUN(values_stand_in_a_field);
    RUN(names_are_plain);
    CHECK_DONE();
}
